//! Sessions with monitors: maps, subscriptions, commands, pools, statistics, keys, the cluster log. Commands to daemons
//! and the manager have the same shape and stand here too.

use crate::frame::{self, EntityNum, PaxosHead, message};
use crate::stats::PoolStat;
use bytes::Bytes;
use denc::{Encode, Result};
use std::collections::BTreeMap;
use types::{EntityAddrVec, EntityName, Epoch, Fsid, Message, Rope, UTime};

pub use crate::code::pool_op;
pub use crate::mgr::{MgrClose, MgrConfigure, MgrOpen, MgrReport};

/// Asks for the monitor map (5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonGetMap {}
message!(MonGetMap = 5 v 1 / 1 {});

/// The monitor map (4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonMapMsg {
    /// Encoded map.
    pub monmap: Bytes,
}
message!(MonMapMsg = 4 v 1 / 1 { monmap });

/// Wish of a subscriber for one kind of map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscribeItem {
    /// First epoch wanted; 0 for the newest.
    pub start: u64,
    /// 1: once ([`SubscribeItem::ONCE`]).
    pub flags: u8,
}
denc::plain!(SubscribeItem { start, flags });

impl SubscribeItem {
    /// Flag of a subscription that ends with its first answer.
    pub const ONCE: u8 = 1;

    /// Returns true if the subscription ends with its first answer.
    pub fn once(&self) -> bool {
        self.flags & Self::ONCE != 0
    }
}

/// Subscribes to maps (15, v3). Adds to what the session has subscribed to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonSubscribe {
    /// By kind: `config`, `monmap`, `mgrmap`, `osdmap`, `log-info` and other log levels.
    pub what: BTreeMap<String, SubscribeItem>,
    /// The client's host; empty from those that do not tell it, as the Linux kernel (v2).
    pub hostname: String,
}
message!(MonSubscribe = 15 v 3 from 2 / 1 { what, hostname since 3 });

/// Configuration for the client (62).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigMsg {
    /// Option and value.
    pub config: BTreeMap<String, String>,
}
message!(ConfigMsg = 62 v 1 / 1 { config });

/// The manager map (0x704).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MgrMapMsg {
    /// Encoded map, as it stands in the front (no length before it).
    pub map: Bytes,
}

impl MgrMapMsg {
    /// Message type number.
    pub const KIND: u16 = 0x704;
    /// Header version of the layout written.
    pub const VERSION: u16 = 1;

    /// Reads it from a message; the map shares the front's buffer.
    pub fn decode(m: &Message) -> Result<Self> {
        frame::open(m, "MgrMapMsg", Self::KIND, Self::VERSION)?;
        Ok(Self { map: m.front.clone() })
    }

    /// Writes it as a message.
    pub fn encode(&self) -> Message {
        let mut m = frame::build(Self::KIND, Self::VERSION, 1, Vec::new());
        m.front = self.map.clone();
        m
    }
}

/// OSD maps (41, v4): full ones, or increments from what the receiver has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsdMapMsg {
    /// Cluster.
    pub fsid: Fsid,
    /// Encoded increments by the epoch that they lead to.
    pub incremental: BTreeMap<Epoch, Bytes>,
    /// Encoded full maps by epoch.
    pub full: BTreeMap<Epoch, Bytes>,
    /// Oldest epoch that the sender has.
    pub oldest: Epoch,
    /// Newest epoch that the sender has.
    pub newest: Epoch,
}

impl OsdMapMsg {
    /// Message type number.
    pub const KIND: u16 = 41;
    /// Header version of the layout written.
    pub const VERSION: u16 = 4;

    /// Reads it from a message.
    pub fn decode(m: &Message) -> Result<Self> {
        let mut r = frame::open(m, "OsdMapMsg", Self::KIND, Self::VERSION)?;
        let (fsid, incremental, full, oldest, newest) = (r.get()?, r.get()?, r.get()?, r.get()?, r.get()?);
        // Snapshots removed in a gap of epochs, by pool; release 16 sends none.
        r.get::<BTreeMap<i64, Vec<(u64, u64)>>>()?;
        frame::close(m, Self::VERSION, &r)?;
        Ok(Self { fsid, incremental, full, oldest, newest })
    }

    /// Writes it as a message.
    pub fn encode(&self) -> Message {
        let maps: usize = self.incremental.values().chain(self.full.values()).map(|b| 8 + b.len()).sum();
        let mut front = Vec::with_capacity(36 + maps);
        self.fsid.encode(&mut front);
        self.incremental.encode(&mut front);
        self.full.encode(&mut front);
        self.oldest.encode(&mut front);
        self.newest.encode(&mut front);
        denc::put_count(&mut front, 0);
        frame::build(Self::KIND, Self::VERSION, 3, front)
    }
}

/// A command to the monitors (50).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonCommand {
    /// Cluster.
    pub fsid: Fsid,
    /// The command: one string of JSON.
    pub cmd: Vec<String>,
    /// Input file, if any.
    pub input: Rope,
}

impl MonCommand {
    /// Message type number.
    pub const KIND: u16 = 50;
    /// Header version of the layout written.
    pub const VERSION: u16 = 1;

    /// Reads it from a message.
    pub fn decode(m: &Message) -> Result<Self> {
        let mut r = frame::open(m, "MonCommand", Self::KIND, Self::VERSION)?;
        r.get::<PaxosHead>()?;
        let (fsid, cmd) = (r.get()?, r.get()?);
        frame::close(m, Self::VERSION, &r)?;
        Ok(Self { fsid, cmd, input: m.data.clone() })
    }

    /// Writes it as a message; the caller sets the transaction id.
    pub fn encode(&self) -> Message {
        let mut front = Vec::new();
        PaxosHead(0).encode(&mut front);
        self.fsid.encode(&mut front);
        self.cmd.encode(&mut front);
        let mut m = frame::build(Self::KIND, Self::VERSION, 1, front);
        m.data = self.input.clone();
        m
    }
}

/// A monitor's answer to a command (51). Its message carries the request's transaction id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonCommandAck {
    /// Version of the state that the answer reflects.
    pub version: u64,
    /// 0 or more, or a negative error number.
    pub result: i32,
    /// A sentence for people; goes to standard error.
    pub status: String,
    /// The command, echoed.
    pub cmd: Vec<String>,
    /// Output.
    pub output: Rope,
}
message!(MonCommandAck = 51 v 1 / 1 paxos { result, status, cmd } data output);

/// A command to one daemon (97).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Cluster.
    pub fsid: Fsid,
    /// The command: one string of JSON.
    pub cmd: Vec<String>,
    /// Input file, if any.
    pub input: Rope,
}
message!(Command = 97 v 1 / 1 { fsid, cmd } data input);

/// A daemon's answer to a command (98). Its message carries the request's transaction id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandReply {
    /// 0 or more, or a negative error number.
    pub result: i32,
    /// A sentence for people; goes to standard error.
    pub status: String,
    /// Output.
    pub output: Rope,
}
message!(CommandReply = 98 v 1 / 1 { result, status } data output);

/// A command to the manager (0x709).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MgrCommand {
    /// Cluster.
    pub fsid: Fsid,
    /// The command: one string of JSON.
    pub cmd: Vec<String>,
    /// Input file, if any.
    pub input: Rope,
}
message!(MgrCommand = 0x709 v 1 / 1 { fsid, cmd } data input);

/// The manager's answer to a command (0x70a). Its message carries the request's transaction id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MgrCommandReply {
    /// 0 or more, or a negative error number.
    pub result: i32,
    /// A sentence for people; goes to standard error.
    pub status: String,
    /// Output.
    pub output: Rope,
}
message!(MgrCommandReply = 0x70a v 1 / 1 { result, status } data output);

/// Asks for the version of a kind of map (19).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonGetVersion {
    /// Comes back in the answer.
    pub handle: u64,
    /// `osdmap`, `monmap`, `mgrmap`, ...
    pub what: String,
}
message!(MonGetVersion = 19 v 1 / 1 { handle, what });

/// The answer (20, v2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonGetVersionReply {
    /// From the question.
    pub handle: u64,
    /// Newest version.
    pub version: u64,
    /// Oldest version kept.
    pub oldest: u64,
}
message!(MonGetVersionReply = 20 v 2 / 2 { handle, version, oldest });

/// Asks for usage of the cluster or one pool (13, v2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statfs {
    /// Newest version of the statistics that the client has seen.
    pub version: u64,
    /// Cluster.
    pub fsid: Fsid,
    /// Only this pool.
    pub pool: Option<i64>,
}

impl Statfs {
    /// Message type number.
    pub const KIND: u16 = 13;
    /// Header version of the layout written.
    pub const VERSION: u16 = 2;

    /// Reads it from a message.
    pub fn decode(m: &Message) -> Result<Self> {
        let mut r = frame::open(m, "Statfs", Self::KIND, Self::VERSION)?;
        let version = r.get::<PaxosHead>()?.0;
        let fsid = r.get()?;
        let pool = if r.get()? { Some(r.get()?) } else { None };
        frame::close(m, Self::VERSION, &r)?;
        Ok(Self { version, fsid, pool })
    }

    /// Writes it as a message; the caller sets the transaction id.
    pub fn encode(&self) -> Message {
        let mut front = Vec::new();
        PaxosHead(self.version).encode(&mut front);
        self.fsid.encode(&mut front);
        self.pool.is_some().encode(&mut front);
        if let Some(pool) = self.pool {
            pool.encode(&mut front);
        }
        frame::build(Self::KIND, Self::VERSION, 1, front)
    }
}

/// Usage (14). Its message carries the request's transaction id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatfsReply {
    /// Cluster.
    pub fsid: Fsid,
    /// Version of the statistics.
    pub version: u64,
    /// Size, KiB.
    pub kb: u64,
    /// Used, KiB.
    pub kb_used: u64,
    /// Free, KiB.
    pub kb_avail: u64,
    /// Objects.
    pub num_objects: u64,
}
message!(StatfsReply = 14 v 1 / 1 { fsid, version, kb, kb_used, kb_avail, num_objects });

/// Asks for the statistics of pools (58).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetPoolStats {
    /// Newest version of the statistics that the client has seen.
    pub version: u64,
    /// Cluster.
    pub fsid: Fsid,
    /// Names.
    pub pools: Vec<String>,
}
message!(GetPoolStats = 58 v 1 / 1 paxos { fsid, pools });

/// Statistics of pools (59, v2). Its message carries the request's transaction id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetPoolStatsReply {
    /// Version of the statistics.
    pub version: u64,
    /// Cluster.
    pub fsid: Fsid,
    /// By pool name.
    pub pools: BTreeMap<String, PoolStat>,
    /// True if OSDs report usage by pool (always true here).
    pub per_pool: bool,
}
message!(GetPoolStatsReply = 59 v 2 / 1 paxos { fsid, pools, per_pool });

/// A change to a pool (49, v4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolOp {
    /// The client's OSD map.
    pub version: u64,
    /// Cluster.
    pub fsid: Fsid,
    /// Pool; 0 when one is created.
    pub pool: u32,
    /// The operation, see [`pool_op`].
    pub op: u32,
    /// Not used.
    pub auid: u64,
    /// Snapshot to remove.
    pub snapid: u64,
    /// Name of the pool or snapshot.
    pub name: String,
    /// CRUSH rule of a new pool, -1 for the default.
    pub crush_rule: i16,
}

impl PoolOp {
    /// Message type number.
    pub const KIND: u16 = 49;
    /// Header version of the layout written.
    pub const VERSION: u16 = 4;

    /// Reads it from a message.
    pub fn decode(m: &Message) -> Result<Self> {
        let mut r = frame::open(m, "PoolOp", Self::KIND, Self::VERSION)?;
        let version = r.get::<PaxosHead>()?.0;
        let (fsid, pool, op, auid, snapid, name) = (r.get()?, r.get()?, r.get()?, r.get()?, r.get()?, r.get()?);
        // The rule's number when it was one byte.
        r.u8()?;
        let crush_rule = r.get()?;
        frame::close(m, Self::VERSION, &r)?;
        Ok(Self { version, fsid, pool, op, auid, snapid, name, crush_rule })
    }

    /// Writes it as a message; the caller sets the transaction id.
    pub fn encode(&self) -> Message {
        let mut front = Vec::new();
        PaxosHead(self.version).encode(&mut front);
        self.fsid.encode(&mut front);
        self.pool.encode(&mut front);
        self.op.encode(&mut front);
        self.auid.encode(&mut front);
        self.snapid.encode(&mut front);
        self.name.encode(&mut front);
        front.push(0);
        self.crush_rule.encode(&mut front);
        frame::build(Self::KIND, Self::VERSION, 2, front)
    }
}

/// The answer to a [`PoolOp`] (48). Its message carries the request's transaction id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolOpReply {
    /// Version of the OSD map's service.
    pub version: u64,
    /// Cluster.
    pub fsid: Fsid,
    /// 0, or a negative error number.
    pub result: i32,
    /// OSD map epoch in which the change is visible; the client waits for it.
    pub epoch: Epoch,
    /// For a new self-managed snapshot its number (u64).
    pub data: Option<Bytes>,
}

impl PoolOpReply {
    /// Message type number.
    pub const KIND: u16 = 48;
    /// Header version of the layout written.
    pub const VERSION: u16 = 1;

    /// Reads it from a message.
    pub fn decode(m: &Message) -> Result<Self> {
        let mut r = frame::open(m, "PoolOpReply", Self::KIND, Self::VERSION)?;
        let version = r.get::<PaxosHead>()?.0;
        let (fsid, result, epoch) = (r.get()?, r.get()?, r.get()?);
        let data = if r.get()? { Some(r.get()?) } else { None };
        frame::close(m, Self::VERSION, &r)?;
        Ok(Self { version, fsid, result, epoch, data })
    }

    /// Writes it as a message; the caller sets the transaction id.
    pub fn encode(&self) -> Message {
        let mut front = Vec::new();
        PaxosHead(self.version).encode(&mut front);
        self.fsid.encode(&mut front);
        self.result.encode(&mut front);
        self.epoch.encode(&mut front);
        self.data.is_some().encode(&mut front);
        if let Some(data) = &self.data {
            data.encode(&mut front);
        }
        frame::build(Self::KIND, Self::VERSION, 1, front)
    }
}

/// A step of authentication over an open session: renewal of tickets (17).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Auth {
    /// In the common head; 0.
    pub version: u64,
    /// 1 none, 2 cephx.
    pub protocol: u32,
    /// The method's own bytes.
    pub payload: Bytes,
    /// The client's monitor map; 0 from the Linux kernel, which does not tell (v0).
    pub monmap_epoch: u32,
}
message!(Auth = 17 v 1 / 1 paxos { protocol, payload, monmap_epoch since 1 });

/// The answer (18).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthReply {
    /// 1 none, 2 cephx.
    pub protocol: u32,
    /// 0, or a negative error number.
    pub result: i32,
    /// The client's global id.
    pub global_id: u64,
    /// The method's own bytes.
    pub payload: Bytes,
    /// A sentence for people.
    pub text: String,
}
message!(AuthReply = 18 v 1 / 1 { protocol, result, global_id, payload, text });

/// Keeps a session with an OSD alive, or asks a monitor for its state (2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ping {
    /// Empty in questions; a monitor answers with JSON behind a u32 length.
    pub front: Bytes,
}

impl Ping {
    /// Message type number.
    pub const KIND: u16 = 2;
    /// Header version of the layout written.
    pub const VERSION: u16 = 1;

    /// A monitor's answer with this text.
    pub fn answer(json: &str) -> Self {
        Self { front: json.to_bytes() }
    }

    /// Reads it from a message.
    pub fn decode(m: &Message) -> Result<Self> {
        frame::open(m, "Ping", Self::KIND, Self::VERSION)?;
        Ok(Self { front: m.front.clone() })
    }

    /// Writes it as a message. Answers carry compat 0, as Ceph's do.
    pub fn encode(&self) -> Message {
        let mut m = frame::build(Self::KIND, Self::VERSION, u16::from(self.front.is_empty()), Vec::new());
        m.front = self.front.clone();
        m
    }
}

/// Levels of a log entry.
#[allow(missing_docs)]
pub mod log_level {
    pub const DEBUG: u16 = 0;
    pub const INFO: u16 = 1;
    pub const SECURITY: u16 = 2;
    pub const WARN: u16 = 3;
    pub const ERROR: u16 = 4;
}

/// A line of the cluster log. v5/c5.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogEntry {
    /// Author, by auth name.
    pub name: EntityName,
    /// Author, by kind and number.
    pub rank: EntityNum,
    /// Its addresses.
    pub addrs: EntityAddrVec,
    /// Time.
    pub stamp: UTime,
    /// Counts the writer's entries.
    pub seq: u64,
    /// See [`log_level`].
    pub level: u16,
    /// The text.
    pub message: String,
    /// `cluster` or `audit`.
    pub channel: String,
}
denc::versioned!(LogEntry, 5, 5 { name, rank, addrs, stamp, seq, level, message, channel });

/// Entries of the cluster log (52).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogMsg {
    /// Version of the log.
    pub version: u64,
    /// Cluster.
    pub fsid: Fsid,
    /// Oldest first.
    pub entries: Vec<LogEntry>,
}
message!(LogMsg = 52 v 1 / 1 paxos { fsid, entries });
