//! The log on a monitor's disk.
//!
//! [`journal`] keeps groups and snapshots on a disk; [`format`] is its layout; [`v1`] reads the layout before.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

pub(crate) mod format;
pub mod journal;
pub(crate) mod v1;
