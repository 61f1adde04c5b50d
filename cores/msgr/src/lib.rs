//! The msgr2.1 messenger as a machine without IO: frames, handshakes, authentication and sessions. Payloads are opaque.
//!
//! One [`Messenger`] handles all connections of one daemon or client. Its owner passes it the network inputs of the
//! driver, calls [`Messenger::turn`] at the end of each round, and takes what happened from [`Messenger::poll_event`].
//!
//! A *connection* is one TCP stream; a *session* is what owners see. A lossy session lives and dies with its
//! connection; a lossless one survives it: the side that opened it comes back and unacknowledged messages are sent
//! again.
//!
//! Sessions have a direction. Two daemons that open sessions to each other have two of them, on two connections, so
//! connection races cannot occur and a WAIT frame is understood but never sent.
//!
//! Pressure: nothing is received from a client whose messages the owner has not given back ([`Messenger::done`]) or who
//! does not take its replies; owners look at [`Messenger::queued`] before they send much.

#![forbid(unsafe_code)]

pub mod auth;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
mod config;
mod event;
mod frame;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod messenger;
mod random;

pub use config::{Config, Limits, Mode, Modes, Policy};
pub use event::{Event, Peer};
pub use messenger::Messenger;

#[cfg(test)]
mod tests;
