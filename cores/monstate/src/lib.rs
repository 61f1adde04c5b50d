//! The replicated state of the monitors: what the cluster knows durably, and how it may change.
//!
//! Nothing here knows sessions, disks or other monitors. Everything is a function of the state and of what the caller
//! says.
//!
//! - [`state`]: the state, the changes that proposals consist of, the first state of a cluster;
//! - [`config`], [`context`]: what a monitor was told when it was made, and how it stands among the others;
//! - [`options`]: the options that exist; [`effective`]: which of their values count;
//! - [`pools`], [`osds`], [`hosts`]: what may be changed of them, and what they are called;
//! - [`levels`]: which programs the daemons have, and when the cluster's level may be raised;
//! - [`defaults`]: what new pools are, as hardware is added.

#![forbid(unsafe_code)]

pub mod config;
pub mod context;
pub mod defaults;
pub mod effective;
#[cfg(feature = "fuzz")]
pub mod fuzz;
pub mod hosts;
pub mod levels;
pub mod modules;
pub mod options;
pub mod osds;
pub mod pools;
pub mod state;
