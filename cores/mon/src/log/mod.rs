//! The replicated log on this monitor's disk: the one way by which the monitor's state changes.
//!
//! A change is *proposed*; once it is durable on a majority of the voters it is *committed* and applied, in the order of
//! the log, on each of them. The crate `quorum` decides that; here is where it is kept.
//!
//! [`journal`] keeps groups and snapshots on a disk; [`format`] is its layout; [`v1`] reads the layout before.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

pub(crate) mod format;
pub(crate) mod journal;
pub(crate) mod v1;
#[cfg(feature = "sim")]
pub(crate) mod voter;
