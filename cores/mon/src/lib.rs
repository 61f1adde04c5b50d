//! The monitor and the manager, as one machine that does no input or output itself.
//!
//! [`Monitor`] implements [`node::Node`]. It listens on `ListenerId(0)` as the monitor and on `ListenerId(1)` as the
//! active manager. It keeps its state on `DeviceId(0)`.
//!
//! - `log`: the disk format of the replicated log, through which all changes of state go;
//! - `replica`: what every voter has: the log, its disk, and the state that is durable;
//! - `state`: the replicated state, and the changes that proposals consist of;
//! - `server`: sessions, messages, subscriptions, the lives of OSDs, time;
//! - `commands`: what users can ask, one row for each command;
//! - `manager`: figures and background work on block images;
//! - `soft`, `health`: what daemons reported, and what is wrong;
//! - `rescue`: backup and restoration of the state, and other ways back when monitors were lost;
//! - `hosts`: what runs on which host, and which monitors a host is to run;
//! - `text`: how answers look.

#![forbid(unsafe_code)]

mod answer;
mod autoscaler;
mod balance;
mod balancer;
mod clocks;
mod commands;
mod config;
mod context;
mod creating;
mod defaults;
mod fsck;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod health;
mod hosts;
mod levels;
mod log;
mod manager;
mod merging;
mod newborn;
mod options;
mod osds;
mod pools;
mod recovery;
mod replica;
pub mod rescue;
mod server;
mod soft;
mod stamps;
mod state;
mod stepping;
mod temps;
mod text;

/// Newest format of the monitor's store that is read.
pub const FORMAT: u32 = log::format::NEWEST;

pub use config::{AuthMode, Config, InitialKey};
pub use fsck::{StoreReport, check_store};
#[cfg(feature = "sim")]
pub use log::voter::{Told, Voter};
#[cfg(feature = "sim")]
pub use quorum::Mistake;
pub use server::Monitor;

/// Writes the page `docs/commands.md`: the commands that are served, and those that are refused with the reason.
pub fn command_reference() -> String {
    commands::reference()
}
