//! The client's core, without IO: keeps the cluster's maps, finds the OSD of each object, sends operations there, and
//! sends them again whenever the map, the connection or the OSD gives reason to.
//!
//! [`Objecter`] is embedded by whoever owns a [`msgr::Messenger`] (a client, or an OSD that copies objects from another):
//! it is handed the messenger with every call and takes those of its events that are about its own sessions.
//! [`ClientNode`] is a whole machine (messenger, objecter) for a driver or the simulator.
//!
//! What is promised: an operation that was submitted ends exactly once with [`Event::Done`]. It is sent under one
//! transaction id however often it is repeated, so that the OSD can recognize it. Operations on one object are sent in the
//! order of their submission, and so again after every interruption.

#![forbid(unsafe_code)]

mod api;
mod client;
mod linger;
mod monitor;
mod objecter;
mod session;
mod target;

pub use api::{Config, Event, NotifyEvent, OpError, OpId, OpRequest, SnapContext, WatchId};
pub use client::{ClientNode, Driver};
pub use objecter::Objecter;
pub use target::{Target, interval_of};
