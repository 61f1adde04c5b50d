//! What the messages between clients, monitors, manager and OSDs contain, and the payloads of object operations and
//! classes.
//!
//! Every message is a struct with `KIND` (its type number), `decode` from a [`types::Message`] and `encode` to one;
//! the transaction id stays with the caller. Layouts are those that release 16.2 peers exchange when all feature bits
//! are set; older ones are refused. Payloads share the message's buffers wherever they can be large.
//!
//! - [`osd`]: clients' operations on objects and the answers;
//! - [`mon`]: sessions with monitors and the manager: maps, commands, pools, statistics, the cluster log;
//! - [`ops`]: what single operations carry in their input and output;
//! - [`scrub`]: what a scrub found;
//! - [`stats`]: usage figures;
//! - [`class`]: inputs and outputs of the small object classes;
//! - [`internal`]: between this cluster's own daemons; no other implementation speaks these;
//! - [`quorum`]: the same between its monitors.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]
#![forbid(unsafe_code)]

pub mod class;
pub mod code;
mod frame;
pub mod internal;
pub mod mgr;
pub mod mon;
pub mod ops;
pub mod osd;
pub mod quorum;
pub mod scrub;
pub mod stats;

pub use frame::{EntityNum, kind_name};
