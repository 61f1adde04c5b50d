//! What callers say and hear.

use bytes::Bytes;
use messages::osd::{Op, OsdOp, OsdOpReply};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityAddrVec, Epoch, Fsid, Locator, PgId, Rope, SnapId, UTime};

/// Settings of an objecter.
#[derive(Clone, Debug)]
pub struct Config {
    /// The cluster, if it is known; otherwise the first monitor map tells.
    pub fsid: Option<Fsid>,
    /// Place where monitors are, tried in turn. Empty for an embedded objecter whose owner brings the maps by
    /// [`crate::Objecter::set_map`].
    pub monitors: Vec<EntityAddrVec>,
    /// Told to the monitor with subscriptions.
    pub hostname: String,
    /// Most operations that are sent and not answered; more wait here (Ceph's `objecter_inflight_ops`).
    pub max_ops: usize,
    /// Most payload bytes of such operations (Ceph's `objecter_inflight_op_bytes`).
    pub max_bytes: u64,
    /// Time for which a connection is left alone after it broke, at first; doubles up to 16 times this.
    pub retry_after: Duration,
    /// True if every new OSD map is wanted at once. Otherwise maps are asked for as stock clients do: once at the
    /// start, and when something is stuck.
    pub follow_maps: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            fsid: None,
            monitors: Vec::new(),
            hostname: "localhost".into(),
            max_ops: 1024,
            max_bytes: 100 << 20,
            retry_after: Duration::from_millis(50),
            follow_maps: false,
        }
    }
}

/// Names an operation; its transaction id on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// Names a watch; its cookie on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub u64);

/// The snapshots that a write must preserve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapContext {
    /// Newest snapshot.
    pub seq: u64,
    /// All of them, newest first.
    pub snaps: Vec<u64>,
}

/// An operation on one object.
#[derive(Clone, Debug, Default)]
pub struct OpRequest {
    /// Place where the object lives.
    pub locator: Locator,
    /// Its name.
    pub oid: Bytes,
    /// The work to be done.
    pub ops: Vec<Op>,
    /// For writes. Empty in a pool that has snapshots of its own: the OSD knows them.
    pub snapc: SnapContext,
    /// Snapshot that reads see.
    pub snapid: SnapId,
    /// Message flags (`messages::osd::flags`), `READ` or `WRITE` at least; the objecter adds `ONDISK`, `RETRY` and
    /// `KNOWN_REDIR`. A read with `BALANCE_READS` or `LOCALIZE_READS` goes to any member of its group, and to the
    /// primary when that member sends it back.
    pub flags: u32,
    /// Modification time that a write leaves.
    pub mtime: UTime,
    /// The group itself instead of the object's (listings).
    pub pg: Option<PgId>,
}

/// Reason why an operation ended without a reply of an OSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpError {
    /// Its pool does not exist in the newest map.
    NoPool,
    /// The caller gave it up; it may have been executed or not.
    Cancelled,
}

/// A notification that reached a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyEvent {
    /// Names the notification in [`crate::Objecter::notify_ack`].
    pub notify_id: u64,
    /// Global id of the one who notifies.
    pub notifier: u64,
    /// Its payload.
    pub payload: Bytes,
}

/// Event that an objecter tells.
#[derive(Debug)]
pub enum Event {
    /// An operation ended. A reply's `result` and the results of its single operations are the caller's to look at.
    Done {
        /// The id.
        id: OpId,
        /// The OSD's reply.
        result: Result<Box<OsdOpReply>, OpError>,
    },
    /// An embedded objecter's own OSD must carry this out: [`crate::Objecter::answered_here`], or
    /// [`crate::Objecter::not_here`].
    Here {
        /// The operation; also its transaction id.
        id: OpId,
        /// The operation, ready for its group.
        op: Box<OsdOp>,
    },
    /// The watch stands (first told when it is made, again after each reconnection).
    Watching {
        /// The watch.
        watch: WatchId,
    },
    /// A notification for a watch; it wants [`crate::Objecter::notify_ack`].
    WatchNotify {
        /// The watch.
        watch: WatchId,
        /// The notification.
        notify: NotifyEvent,
    },
    /// The watch is gone: the object was removed, or the OSD gave it up.
    WatchLost {
        /// The watch; it is forgotten.
        watch: WatchId,
        /// A negative error number.
        result: i32,
    },
    /// A notification that we sent is complete.
    NotifyDone {
        /// The id that [`crate::Objecter::notify`] gave.
        id: OpId,
        /// 0, or -110 if somebody did not answer in time.
        result: i32,
        /// Answers and missing watchers, as in a `WATCH_NOTIFY` message.
        replies: Rope,
    },
    /// A monitor answered a command.
    CommandDone {
        /// The id that [`crate::Objecter::command`] gave.
        id: OpId,
        /// 0, or a negative error number.
        result: i32,
        /// Text for people.
        status: String,
        /// Bytes for programs.
        output: Rope,
    },
    /// A monitor answered a pool operation.
    PoolOpDone {
        /// The id that [`crate::Objecter::pool_op`] gave.
        id: OpId,
        /// 0, or a negative error number.
        result: i32,
        /// For a new self-managed snapshot its number (u64).
        data: Option<Bytes>,
    },
    /// There is a new OSD map.
    Map {
        /// Its epoch.
        epoch: Epoch,
    },
    /// The monitor's configuration for us.
    Config(BTreeMap<String, String>),
}
