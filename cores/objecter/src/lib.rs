//! The client's core, without IO: keeps the cluster's maps, finds the OSD of each object, sends operations there, and
//! sends them again whenever the map, the connection or the OSD gives reason to.
//!
//! [`Objecter`] is embedded by whoever owns a [`msgr::Messenger`]: it is handed the messenger with every call and takes
//! those of its events that are about its own sessions. An OSD that copies objects from others embeds it without
//! sessions of its own ([`Objecter::embedded`]). [`ClientNode`] is a whole machine (messenger, objecter) for a driver
//! or the simulator.
//!
//! What an OSD needs, too: [`Lines`], sessions that are kept by name and opened again after they broke, and
//! [`MonLink`], the link to the monitors.
//!
//! What is promised: an operation that was submitted ends exactly once with [`Event::Done`]. It is sent under one
//! transaction id however often it is repeated, so that the OSD can recognize it. Operations on one object are sent in
//! the order of their submission, and so again after every interruption.

#![forbid(unsafe_code)]

mod api;
mod client;
mod lines;
mod linger;
mod monitor;
mod monlink;
mod objecter;
#[cfg(feature = "sim")]
mod selfcheck;
mod session;
mod state;
mod target;
#[cfg(test)]
mod tests;

pub use api::{Config, Event, NotifyEvent, OpError, OpId, OpRequest, SnapContext, WatchId};
pub use client::{ClientNode, Driver};
pub use lines::{Lines, Pause};
pub use monlink::{LinkConfig, MonLink};
pub use state::Objecter;
pub use target::Target;
