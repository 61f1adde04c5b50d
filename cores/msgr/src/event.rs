//! What a messenger tells its owner.

use crate::Mode;
use std::net::IpAddr;
use std::sync::Arc;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, Message, SessionId, UTime};

/// The other end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Name under which it authenticated. On sessions that this side opened the id is the number that the peer tells
    /// (rank, OSD number), or empty.
    pub name: EntityName,
    /// Kind of daemon or client that it acts as. A manager that uses the client library is a client here although its name is `mgr.x`.
    pub kind: EntityType,
    /// Number that the monitors gave it; with the message's tid it names a request.
    pub global_id: u64,
    /// Its instance, as it says: clients have port 0 and a random nonce.
    pub addr: EntityAddr,
    /// All its addresses, as it says.
    pub addrs: EntityAddrVec,
    /// The address from which it connected, as the socket says: what rights that hold for a network are held against.
    /// `None` if it is not known.
    pub ip: Option<IpAddr>,
    /// Time when its ticket was made; zero without one.
    pub ticket: UTime,
    /// Features common to both sides.
    pub features: u64,
    /// Its rights here, as text for the caps parser; `None` means everything (no authentication in use, or the
    /// ticket says so).
    pub caps: Option<String>,
    /// Protection of its frames.
    pub mode: Mode,
    /// True if this side opened the session.
    pub outgoing: bool,
}

/// News of a session.
#[derive(Debug)]
pub enum Event {
    /// A session stands: a peer connected, or a connection that was asked for is ready. Told once for each session.
    Opened {
        /// The session.
        session: SessionId,
        /// The peer.
        peer: Arc<Peer>,
    },
    /// A message arrived.
    Message {
        /// From whom.
        session: SessionId,
        /// The message.
        message: Message,
        /// Give these back with `Messenger::done` when the message's memory is no longer held.
        bytes: usize,
    },
    /// The peer forgot this lossless session: what was queued or unacknowledged is lost. The session goes on, empty.
    Reset {
        /// The session.
        session: SessionId,
    },
    /// The session is over. Not told after the owner's own `close`.
    Closed {
        /// The session.
        session: SessionId,
        /// Nobody listens at the peer's port, as its host says.
        refused: bool,
        /// For the log.
        why: String,
    },
}
