//! Placement: from a number (a placement group's hash) to a sequence of devices, computed the same by everybody.
//!
//! A [`Map`] is a forest of weighted [`Bucket`]s (hosts, racks, roots) over devices, with [`Rule`]s that walk it.
//! [`Map::place`] runs a rule; results are bit-identical to Ceph's for the same map, and so are the encodings.
//!
//! - `map`: the data; `wire`: its encoding, which also refuses what placement could not survive;
//! - `place`, `choose`, `straw2`, `hash`, `ln`: placement itself;
//! - `build`, `location`, `rules`, `classes`, `straw`: what the monitor does to a map;
//! - `tree`: walks for people (`osd tree`) and for space accounting.
//!
//! Weights are 16.16 fixed point: [`ONE`] is 1.0, by convention one TiB.

#![forbid(unsafe_code)]

mod build;
mod choose;
mod classes;
mod error;
pub mod hash;
mod ln;
mod location;
mod map;
mod place;
mod rules;
mod straw;
mod straw2;
mod tree;
mod wire;

pub use error::{Error, Result};
pub use location::Location;
pub use map::{Alg, Bucket, ChooseArg, ChooseArgs, Contents, Map, Mask, NONE, ONE, Profile, Rule, Step, Tunables, op};
pub use rules::RuleSpec;
pub use tree::TreeNode;
