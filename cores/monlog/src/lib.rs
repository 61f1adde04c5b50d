//! The monitors' log: the one way by which their state changes.
//!
//! A change is *proposed*; once it is durable on a majority of the voters it is *committed* and applied, in the order
//! of the log, on each of them. The crate `quorum` decides that, the crate `monstate` says what a change does; here is
//! where both are kept.
//!
//! - [`replica`]: what every voter has: the state that is durable, the log, and the disk that both are on;
//! - [`disk`]: the log on that disk;
//! - [`rescue`]: backup and restoration of the state, and other ways back when monitors were lost;
//! - [`check_store`]: whether the store of a stopped monitor is sound.

#![forbid(unsafe_code)]

pub mod disk;
mod fsck;
#[cfg(feature = "fuzz")]
pub mod fuzz;
pub mod replica;
pub mod rescue;
#[cfg(feature = "sim")]
mod voter;

/// Newest format of the monitor's store that is read.
pub const FORMAT: u32 = disk::format::NEWEST;

pub use fsck::{StoreReport, check_store};
#[cfg(feature = "sim")]
pub use voter::{Told, Voter};
