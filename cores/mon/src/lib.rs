//! The monitor and the manager, as one machine that does no input or output itself.
//!
//! [`Monitor`] implements [`node::Node`]. It listens on `ListenerId(0)` as the monitor and on `ListenerId(1)` as the
//! active manager. It keeps its state on `DeviceId(0)`.
//!
//! Here is the `server`: sessions, messages, subscriptions, the lives of OSDs, time, and the run of commands. What it
//! works with has crates of its own:
//!
//! | crate | what |
//! |---|---|
//! | `monstate` | the replicated state, and how it may change |
//! | `monlog` | the log and the state on disk and among voters; ways back for lost monitors |
//! | `planner` | plans for the OSD map |
//! | `manager` | what daemons reported, what is wrong, rounds of balancer and autoscaler, work on images |
//! | `moncommands` | what users can ask, one row for each command |

#![forbid(unsafe_code)]

#[cfg(feature = "fuzz")]
pub mod fuzz;
mod server;

pub use monlog::{FORMAT, StoreReport, check_store, rescue};
#[cfg(feature = "sim")]
pub use monlog::{Told, Voter};
pub use monstate::config::{AuthMode, Config, InitialKey};
#[cfg(feature = "sim")]
pub use quorum::Mistake;
pub use server::Monitor;

/// Writes the page `docs/commands.md`: the commands that are served, and those that are refused with the reason.
pub fn command_reference() -> String {
    moncommands::reference()
}
