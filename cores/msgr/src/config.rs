//! What a messenger is told when it is made.

use std::time::Duration;
use types::{EntityAddrVec, EntityName, EntityType, Message, features};

/// Protection of frames once a peer has shown who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Mode {
    /// Checksums only.
    Crc = 1,
    /// AES-128-GCM. Needs cephx, whose handshake makes the keys.
    Secure = 2,
}

impl Mode {
    pub(crate) fn from_wire(n: u32) -> Option<Mode> {
        match n {
            1 => Some(Mode::Crc),
            2 => Some(Mode::Secure),
            _ => None,
        }
    }
}

/// Meaning of a broken connection for the session above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The session ends with its connection; whoever had requests under way sends them again.
    Lossy,
    /// The session survives: the connecting side comes back, and each message is delivered exactly once, in order.
    Lossless,
}

/// Modes that are used, best first.
#[derive(Clone, Debug)]
pub struct Modes {
    /// Modes that accepted connections may choose from; the peer's order of preference decides.
    pub accept: Vec<Mode>,
    /// Offered to monitors and managers.
    pub connect_mon: Vec<Mode>,
    /// Offered to everyone else.
    pub connect: Vec<Mode>,
}

impl Default for Modes {
    /// As release 16.2 does by default: secure first with monitors, checksums first with OSDs.
    fn default() -> Self {
        Self {
            accept: vec![Mode::Crc, Mode::Secure],
            connect_mon: vec![Mode::Secure, Mode::Crc],
            connect: vec![Mode::Crc, Mode::Secure],
        }
    }
}

/// Bounds on what peers can make a messenger hold or do. Daemons of one cluster have the same for parts of messages: what is above them is not
/// sent to a daemon either, since its messenger would end the session, and whoever sent it would send it again on the next one.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a message's front. The largest fronts are maps; a map of 10,000 OSDs takes about 6 MiB.
    pub front: usize,
    /// Bytes of a message's middle, which nobody uses.
    pub middle: usize,
    /// Bytes of a message's data. Clients' own limit (`osd_max_write_size`) is 90 MiB; 128 MiB leaves room for attributes.
    pub data: usize,
    /// Bytes of a control frame's payload, and of everything that one side says before it is authenticated.
    pub control: usize,
    /// Bytes of clients' messages that were received and not given back with `Messenger::done`; above it nothing more is received
    /// from clients.
    pub clients: usize,
    /// The same for monitors, OSDs and managers together. Separate, so that requests can never keep out the replies
    /// that would let them finish.
    pub daemons: usize,
    /// The same for one client's session.
    pub session: usize,
    /// Bytes that may wait to be sent to one client before nothing more is received from it.
    pub send_pause: usize,
    /// Bytes that may wait to be sent to all clients together before those that have some waiting are received from no more.
    pub send_total: usize,
    /// Bytes that may wait to be sent to all clients together before the sessions of those that have most of it are closed.
    pub send_most: usize,
    /// Bytes that may wait to be sent on one lossy session before it is closed.
    pub send_queue: usize,
    /// Bytes of one connection given to the driver and not yet taken by the kernel.
    pub send_window: usize,
    /// Connections at once.
    pub connections: usize,
    /// Of those, how many may be unauthenticated.
    pub strangers: usize,
    /// Of those, how many are kept for daemons and for whoever may do everything; clients do not get them.
    pub reserve: usize,
    /// From the opening of a connection to the end of its handshake.
    pub handshake: Duration,
    /// An accepted connection from which nothing came for so long is closed.
    pub idle: Duration,
    /// Time for which an accepted lossless session waits without a connection for its peer to come back.
    pub detached: Duration,
    /// A connection that stands in the middle of a frame for so long is closed.
    pub stall: Duration,
    /// The same while other messages wait for the room that it takes.
    pub stall_crowded: Duration,
    /// A message that comes so slowly that it takes longer than this ends its connection while other messages wait for the room that it takes.
    pub crowded_message: Duration,
    /// First and longest pause before a lossless session connects again.
    pub retry: (Duration, Duration),
    /// A connection that this side opened and on which nothing came for so long is probed with KEEPALIVE2; after three silent periods it is
    /// closed.
    pub keepalive: Duration,
    /// The same for connections to monitors of all but monitors. An OSD whose monitor vanished without a word has nobody to tell who is down,
    /// and looks down itself; so it looks for another one soon.
    pub monitor_keepalive: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            front: 16 << 20,
            middle: 1 << 20,
            data: 128 << 20,
            control: 64 << 10,
            clients: 512 << 20,
            daemons: 1 << 30,
            session: 256 << 20,
            send_pause: 32 << 20,
            send_total: 256 << 20,
            send_most: 1 << 30,
            send_queue: 1 << 30,
            send_window: 8 << 20,
            connections: 16_384,
            strangers: 1_024,
            reserve: 1_024,
            handshake: Duration::from_secs(10),
            idle: Duration::from_secs(900),
            detached: Duration::from_secs(120),
            stall: Duration::from_secs(60),
            stall_crowded: Duration::from_secs(5),
            crowded_message: Duration::from_secs(120),
            retry: (Duration::from_millis(50), Duration::from_secs(5)),
            keepalive: Duration::from_secs(10),
            monitor_keepalive: Duration::from_secs(1),
        }
    }
}

impl Limits {
    /// Returns which part of a message is longer than a messenger with these bounds takes, its bytes, and how many are taken.
    pub(crate) fn excess(&self, m: &Message) -> Option<(&'static str, usize, usize)> {
        let parts =
            [("front", m.front.len(), self.front), ("middle", m.middle.len(), self.middle), ("data", m.data.len(), self.data)];
        parts.into_iter().find(|(_, len, limit)| len > limit)
    }
}

/// Settings of a messenger: whom it speaks for and how.
#[derive(Clone, Debug)]
pub struct Config {
    /// Entity whose messenger this is.
    pub name: EntityName,
    /// Own addresses exactly as the cluster's maps list them, nonce included: clients insist on finding the address that
    /// they dialled. Empty for a client: its address is what the first peer sees, with port 0 and `nonce`.
    pub addrs: EntityAddrVec,
    /// Further addresses at which this messenger accepts. Who dialled one of them finds that one, and no other.
    pub further: EntityAddrVec,
    /// Instance number of a client (the owner takes it at random); unused when `addrs` is given.
    pub nonce: u32,
    /// Number told to peers: a monitor's rank, an OSD's id; -1 for a client, which tells its global id.
    pub id: i64,
    /// Features told to peers.
    pub features: u64,
    /// Features that peers must have.
    pub required: u64,
    /// Number of the first connection that this side opens; the others follow in steps of two. A machine with several messengers
    /// gives each a range of its own.
    pub first_conn: u64,
    /// Frame protection.
    pub modes: Modes,
    /// Kinds of peers whose accepted sessions are lossless, unless they ask for a lossy one.
    pub lossless_from: Vec<EntityType>,
    /// Bounds.
    pub limits: Limits,
}

impl Config {
    /// For a daemon with the number `id` that is reached at `addrs`.
    pub fn server(name: EntityName, addrs: EntityAddrVec, id: i64) -> Self {
        let lossless_from = if name.kind == EntityType::Osd { vec![EntityType::Osd] } else { Vec::new() };
        // An OSD may owe one client an answer of 256 MiB. What monitors and managers tell is short, but asked for by many.
        let send_most = if name.kind == EntityType::Osd { Limits::default().send_most } else { 512 << 20 };
        Self {
            name,
            addrs,
            further: EntityAddrVec::default(),
            nonce: 0,
            id,
            features: features::SUPPORTED,
            required: features::REQUIRED_BY_SERVERS,
            first_conn: 1,
            modes: Modes::default(),
            lossless_from,
            limits: Limits { send_most, ..Limits::default() },
        }
    }

    /// For a client that only connects; `nonce` tells its instances apart and must be random.
    pub fn client(name: EntityName, nonce: u32) -> Self {
        Self {
            name,
            addrs: EntityAddrVec::default(),
            further: EntityAddrVec::default(),
            nonce,
            id: -1,
            features: features::SUPPORTED,
            required: 1 << 59 | 1 << 12,
            first_conn: 1,
            modes: Modes::default(),
            lossless_from: Vec::new(),
            limits: Limits::default(),
        }
    }
}
