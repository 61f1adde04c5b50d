//! Erasure codes: which parities follow from which data, and how lost shards follow from those that are left.
//!
//! ```text
//! text of a profile ──► Profile ──► Code ──► Combination ──► bytes
//!                          │          └─ sources and losses ──► Combination
//!                          └─► Geometry: which bytes of an object lie where on which shard
//! ```
//!
//! - [`Profile`] reads profiles, completes and prints them as Ceph's monitors do, and refuses what they refuse, with
//!   their error numbers and sentences. What Ceph has and this crate has not is refused with `EOPNOTSUPP` and the
//!   profile that serves instead ([why](../../docs/decisions/0035-erasure-codes.md)).
//! - [`Code`] is the matrix of a profile. Parities are byte for byte those of Ceph's plugin of that name. Two profiles
//!   with the same matrix are the same code.
//! - [`Combination`] turns bytes of some shards into bytes of others: data into parities, survivors into what is lost.
//!   The inner loops are those of [`kernels::Mix`] and [`kernels::xor_sum`].
//! - [`Geometry`] maps offsets of an object to shards and back.
//!
//! **Invariants.** Every code that [`Profile::code`] gives can lose any m of its k + m shards (the tests try all losses
//! of small codes and chance ones of large ones). Slices that are given to a code have one length, a multiple of
//! [`Code::grain`]; that is asserted. What users type is refused, never asserted.

#![forbid(unsafe_code)]

mod code;
mod geometry;
mod matrix;
mod numbers;
mod profile;

pub use code::{Code, Combination, MOST_SHARDS, Recipes, TooFew};
pub use geometry::{Geometry, Part, chunk_for};
pub use profile::{Pairs, Profile, Refusal, Technique, merge, print};
