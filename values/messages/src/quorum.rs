//! Messages between the monitors of one cluster: what voters say, what is carried to the leader and back, who is there.
//! The encodings are plain, as in [`crate::internal`].

use crate::frame::message;
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{EntityAddr, EntityAddrVec, EntityName, Fsid, Message, Rope, UTime};

/// Message of one voter of the monitors' log to another (mon ↔ mon). The bytes name both, and carry their own checksum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VoterSays {
    /// The message, as the log's own code wrote it.
    pub payload: Bytes,
}
message!(VoterSays = 0x4e20 v 1 / 1 { payload });

/// Sender of a message to a monitor that passes it on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The session's number at the monitor that has it.
    pub session: u64,
    /// Name that was proven.
    pub name: EntityName,
    /// Kind of daemon or client that it acts as, as on the wire ([`types::EntityType`]).
    pub kind: u32,
    /// Number that the monitors gave it.
    pub global_id: u64,
    /// Its instance. If its rights hold for a network, with the IP address of its socket, whatever it says itself.
    pub addr: EntityAddr,
    /// Features common to it and the monitor that has the session.
    pub features: u64,
    /// Its rights at monitors; `None`: everything.
    pub caps: Option<String>,
}

impl Default for Sender {
    fn default() -> Self {
        let name = EntityName::new(types::EntityType::Client, "");
        Self { session: 0, name, kind: 0, global_id: 0, addr: EntityAddr::default(), features: 0, caps: None }
    }
}

impl denc::Encode for Sender {
    fn encode(&self, out: &mut Vec<u8>) {
        self.session.encode(out);
        self.name.encode(out);
        self.kind.encode(out);
        self.global_id.encode(out);
        self.addr.encode(out);
        self.features.encode(out);
        self.caps.is_some().encode(out);
        if let Some(caps) = &self.caps {
            caps.encode(out);
        }
    }
}

impl denc::Decode for Sender {
    fn decode(r: &mut denc::Reader<'_>) -> denc::Result<Self> {
        let (session, name, kind) = (r.u64()?, r.get()?, r.u32()?);
        let (global_id, addr, features) = (r.u64()?, r.get()?, r.u64()?);
        let caps = if r.get::<bool>()? { Some(r.get()?) } else { None };
        Ok(Self { session, name, kind, global_id, addr, features, caps })
    }
}

/// The head and front of a message that is carried inside another; its data is the data of that one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Message type.
    pub kind: u16,
    /// Transaction id.
    pub tid: u64,
    /// Priority.
    pub priority: u16,
    /// Version of the front's layout.
    pub version: u16,
    /// Oldest reader's version.
    pub compat: u16,
    /// Front.
    pub front: Bytes,
}
denc::plain!(Carried { kind, tid, priority, version, compat, front });

impl Carried {
    /// The head and front of a message.
    pub fn of(m: &Message) -> Self {
        let (kind, tid, priority) = (m.kind, m.tid, m.priority);
        Self { kind, tid, priority, version: m.version, compat: m.compat, front: m.front.clone() }
    }

    /// The message again, with its data.
    pub fn message(self, data: Rope) -> Message {
        let Self { kind, tid, priority, version, compat, front } = self;
        Message { kind, tid, priority, version, compat, front, middle: Bytes::new(), data }
    }
}

/// A request is carried to the leader (mon → mon).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToLeader {
    /// The one who asks.
    pub sender: Sender,
    /// The request.
    pub head: Carried,
    /// Its data.
    pub data: Rope,
}
message!(ToLeader = 0x4e21 v 1 / 1 { sender, head } data data);

/// Something for a session of the monitor that carried a request (leader → mon).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FromLeader {
    /// The session's number at the receiver.
    pub session: u64,
    /// The receiver passes it on when it has applied this entry of the log, so that what the session reads next is not
    /// older.
    pub index: u64,
    /// Message to pass on.
    pub head: Carried,
    /// Its data.
    pub data: Rope,
}
message!(FromLeader = 0x4e22 v 1 / 1 { session, index, head } data data);

/// A session whose requests were carried is over: told to the leader; told by the leader, it is to be ended (mon ↔
/// mon).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionOver {
    /// Its number at the monitor that has it.
    pub session: u64,
}
message!(SessionOver = 0x4e23 v 1 / 1 { session });

/// A monitor says who and where it is, and what it wants of the leader (mon → mon).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonHello {
    /// Cluster.
    pub fsid: Fsid,
    /// Name, without `mon.`.
    pub name: String,
    /// Number of its store in the log's membership.
    pub voter: u64,
    /// Place where clients and monitors reach it.
    pub addrs: EntityAddrVec,
    /// Name of its manager, without `mgr.`.
    pub mgr_name: String,
    /// Place where that is reached.
    pub mgr_addrs: EntityAddrVec,
    /// Output of `mon metadata`.
    pub metadata: BTreeMap<String, String>,
    /// Its store is new: it wants to be taken in.
    pub joins: bool,
    /// Its life, for which it wants numbers for clients; 0 if it wants none.
    pub life: u64,
    /// End of the last range of numbers that it was given in this life; 0 if there was none.
    pub ids_end: u64,
}
message!(MonHello = 0x4e24 v 1 / 1 { fsid, name, voter, addrs, mgr_name, mgr_addrs, metadata, joins, life, ids_end });

/// Reason why a monitor is not taken in (mon → mon).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonRefused {
    /// A sentence.
    pub why: String,
}
message!(MonRefused = 0x4e25 v 1 / 1 { why });

/// The leader asks what time it is, and another monitor answers (mon ↔ mon).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonClock {
    /// Number of the question, by the leader's count.
    pub round: u64,
    /// Name of the monitor that answers, without `mon.`; empty in the question.
    pub name: String,
    /// Its time when it answers.
    pub at: UTime,
}
message!(MonClock = 0x4e26 v 1 / 1 { round, name, at });
