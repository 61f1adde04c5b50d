//! The monitor, with the manager's duties beside it, as one machine without IO.
//!
//! [`Monitor`] implements [`node::Node`]. It listens on `ListenerId(0)` as the monitor and on `ListenerId(1)` as the
//! active manager, and keeps its state on `DeviceId(0)`.
//!
//! - `log`: the disk format of the replicated log, which is the only way by which state changes;
//! - `replica`: what every voter has: the log, its disk, and the state that is durable;
//! - `state`: the replicated state and the changes that proposals consist of;
//! - `server`: the machine: sessions, messages, subscriptions, OSDs' lives, time;
//! - `commands`: what users can ask, one row for each command;
//! - `soft`, `health`: what daemons reported, and what is wrong;
//! - `text`: how answers look.

#![forbid(unsafe_code)]

mod answer;
mod balance;
mod commands;
mod config;
mod context;
mod fsck;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod health;
mod log;
mod manager;
mod options;
mod osds;
mod pins;
mod pools;
mod replica;
mod server;
mod soft;
mod state;
mod text;

pub use config::{AuthMode, Config, InitialKey};
pub use fsck::{ReadAt, StoreReport, check_store};
#[cfg(feature = "sim")]
pub use log::voter::{Told, Voter};
#[cfg(feature = "sim")]
pub use quorum::Mistake;
pub use server::Monitor;

/// All commands of the cluster as a page of documentation: those that are served, and those that are refused with the reason.
pub fn command_reference() -> String {
    commands::reference()
}
