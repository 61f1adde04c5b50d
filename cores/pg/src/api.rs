//! What a placement group is given and what it gives back: the language between it and the OSD around it.

use crate::sizes::Sizes;
use maps::OsdMap;
use messages::osd::OsdOp;
use node::{LogLine, Mono, Now};
use objectstore::ObjectStore;
use std::sync::Arc;
use std::time::Duration;
use types::{CopyId, EntityAddr, EntityName, EntityType, Epoch, Message, OsdId, PgState, PoolId, SessionId, SpgId};

/// Everything outside the group that a call may look at or act on.
pub struct Ctx<'a> {
    /// The time of this call.
    pub now: Now,
    /// The OSD's newest map.
    pub map: &'a Arc<OsdMap>,
    /// The store that holds the group.
    pub store: &'a mut dyn ObjectStore,
    /// Collects what the OSD shall do, in order.
    pub out: &'a mut Vec<Effect>,
    /// The group's number within this OSD, below 2^24. Ids of holds, tickets and backoffs carry it: see [`slot_of`].
    pub slot: u32,
    /// This OSD.
    pub whoami: OsdId,
    /// The map has this OSD up, in its present life. Before that it leads nothing: in the map that a former life remembered it may have given
    /// versions that others hold and it lost.
    pub is_up: bool,
    /// Limits and defaults.
    pub config: &'a Config,
    /// Promises of this OSD and others to each other.
    pub leases: &'a crate::Leases,
    /// Objects that may be begun with now, by all groups of the OSD together, beside those that clients wait for. Groups take from it.
    pub room: &'a mut usize,
    /// The store takes no writes, and the OSD leaves its groups to others: clients ask those as soon as they have the map.
    pub steps_aside: bool,
    /// Is told how operations get on.
    pub recorder: &'a mut dyn crate::Recorder,
}

/// Bits of an id below the slot of the group that gave it.
const SLOT_SHIFT: u32 = 40;

/// The id with this number of the group in `slot`.
pub(crate) fn numbered(slot: u32, number: u64) -> u64 {
    debug_assert!(number >> SLOT_SHIFT == 0 && slot >> (64 - SLOT_SHIFT) == 0, "{number} of {slot}");
    u64::from(slot) << SLOT_SHIFT | number
}

/// The number in an id.
#[cfg(any(test, feature = "sim"))]
pub(crate) fn number_of(id: u64) -> u64 {
    id & ((1 << SLOT_SHIFT) - 1)
}

/// The slot of the group that gave a hold or a ticket this id.
pub fn slot_of(id: u64) -> u32 {
    denc::low32(id >> SLOT_SHIFT)
}

/// Limits and defaults. Names and values of [`Config::default`] are those of Ceph's options unless said otherwise.
#[derive(Clone, Debug)]
pub struct Config {
    /// Largest object in bytes (`osd_max_object_size`).
    pub max_object_size: u64,
    /// Most bytes of input of one request that writes (`osd_max_write_size`).
    pub max_write: usize,
    /// Longest object name in bytes (`osd_max_object_name_len`).
    pub max_name: usize,
    /// Longest namespace in bytes (`osd_max_object_namespace_len`).
    pub max_namespace: usize,
    /// Longest attribute name in bytes (`osd_max_attr_name_len`, capped by the kernel's 255 less a prefix of Ceph's own).
    pub max_xattr_name: usize,
    /// Largest attribute value in bytes (`osd_max_attr_size`; Ceph's 0 means "no limit", limited here by the store).
    pub max_xattr: usize,
    /// Most entries that one omap read returns (`osd_max_omap_entries_per_request`).
    pub omap_entries: usize,
    /// Most bytes of keys and values that one omap read returns (Ceph's `osd_max_omap_bytes_per_request` is
    /// 1 GiB; clients go on where a page ends, so less costs nothing).
    pub omap_bytes: usize,
    /// Log entries kept per group. Ours: Ceph keeps up to 10000 and shares 300000 among the groups of an OSD.
    pub log_entries: usize,
    /// Entries kept for duplicate detection after they left the log (`osd_pg_log_dups_tracked`).
    pub dup_entries: usize,
    /// Timeout of watches that name none (`osd_client_watch_timeout`).
    pub watch_timeout: Duration,
    /// Timeout of notifications that name none (`osd_default_notify_timeout`).
    pub notify_timeout: Duration,
    /// Largest return value of one operation in a write with returns (`osd_max_write_op_reply_len`).
    pub max_write_return: usize,
    /// Operations that may wait for a group to become active; those beyond are answered with a backoff. Ours.
    pub max_waiting: usize,
    /// Objects that one step of trimming, scrubbing or removal looks at. Ours.
    pub step_objects: usize,
    /// Pause between two such steps. Ours.
    pub step_pause: Duration,
    /// Objects of a group that are brought at a time at most, beside those that clients wait for (`osd_recovery_max_active`).
    pub recovery_at_a_time: usize,
    /// True if what a deep scrub finds is mended at once (`osd_scrub_auto_repair`).
    pub auto_repair: bool,
    /// It is not if more objects than this are wrong (`osd_scrub_auto_repair_num_errors`).
    pub auto_repair_errors: usize,
    /// Keys above which a deep scrub tells of an object's omap (`osd_deep_scrub_large_omap_object_key_threshold`).
    pub large_omap_keys: u64,
    /// Bytes of values, summed, above which it does (`osd_deep_scrub_large_omap_object_value_sum_threshold`).
    pub large_omap_values: u64,
    /// In how large pieces things go. Ours.
    pub sizes: Sizes,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_object_size: 128 << 20,
            max_write: 90 << 20,
            max_name: 2048,
            max_namespace: 256,
            max_xattr_name: 100,
            max_xattr: 16 << 20,
            omap_entries: 1024,
            omap_bytes: 16 << 20,
            log_entries: 3000,
            dup_entries: 3000,
            watch_timeout: Duration::from_secs(30),
            notify_timeout: Duration::from_secs(30),
            max_write_return: 64,
            max_waiting: 256,
            step_objects: 16,
            step_pause: Duration::from_millis(1),
            recovery_at_a_time: 10,
            auto_repair: false,
            auto_repair_errors: 5,
            large_omap_keys: 200_000,
            large_omap_values: 1 << 30,
            sizes: Sizes::default(),
        }
    }
}

/// Memory that a group's log takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSize {
    /// Records in the log.
    pub entries: usize,
    /// Records that left the log and are kept to recognise requests that come again.
    pub dups: usize,
    /// Bytes of both.
    pub bytes: usize,
}

/// Sender of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Name in the auth database.
    pub name: EntityName,
    /// Kind, as it counts in request ids and watchers.
    pub kind: EntityType,
    /// Number that the monitor gave to this instance.
    pub global_id: u64,
    /// Address with the nonce that tells instances apart (`IP:0/nonce`).
    pub addr: EntityAddr,
}

/// An operation as it arrived.
#[derive(Clone, Debug)]
pub struct ClientOp {
    /// Its place in the OSD's table. The group gives it back with the reply, or when it drops the operation.
    pub key: crate::OpKey,
    /// Place where the reply goes.
    pub session: SessionId,
    /// The one who asks.
    pub peer: Arc<Peer>,
    /// The message's transaction id; with `peer` it identifies the request across retries.
    pub tid: u64,
    /// Time when it arrived.
    pub received: Mono,
    /// The operation.
    pub op: OsdOp,
}

/// Importance of a line in the cluster's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClusterLevel {
    /// `[INF]`
    Info,
    /// `[WRN]`
    Warn,
    /// `[ERR]`
    Error,
}

/// Effect that the group wants of its OSD.
#[derive(Debug)]
pub enum Effect {
    /// Answer an operation.
    Reply {
        /// Key of the operation, which is over with this.
        op: crate::OpKey,
        /// To whom. The session may be gone; then the answer is dropped.
        session: SessionId,
        /// `OSD_OPREPLY` with its tid.
        message: Message,
        /// Time when the operation was executed.
        executed: Mono,
    },
    /// An operation gets no answer: its client sends it again when a map tells it to.
    Dropped {
        /// Key of the operation, which is over with this.
        op: crate::OpKey,
        /// The session.
        session: SessionId,
        /// Its transaction id.
        tid: u64,
    },
    /// The store had no room for a client's write, which was dropped: others must be, too, until a map has shown that.
    NoSpace {
        /// Session whose write it was.
        session: SessionId,
        /// To which pool.
        pool: PoolId,
        /// The map that its client sent it by.
        epoch: Epoch,
    },
    /// Tell a client something it did not ask (`WATCH_NOTIFY`, `OSD_BACKOFF`).
    Send {
        /// To whom.
        session: SessionId,
        /// The message.
        message: Message,
    },
    /// A line for the cluster's log.
    ClusterLog {
        /// Importance.
        level: ClusterLevel,
        /// Text.
        text: String,
    },
    /// A line for the daemon's log.
    Log(LogLine),
    /// Ask whichever group holds `op`'s object (perhaps this one) and give the reply to [`crate::Pg::fetched`]. The
    /// group id, the epoch and the hash in `op` are blank: the OSD fills them for the map it sends with, and asks again if the
    /// object moves. `op` must arrive as an operation of an OSD ([`Peer::kind`]).
    Fetch {
        /// To be given back.
        id: u64,
        /// The read.
        op: Box<OsdOp>,
    },
    /// Bring a letter to another copy of this group, on another OSD or on this one, which gives it to
    /// [`crate::Pg::letter`]. It may be lost: when the session to that OSD breaks, [`crate::Pg::peer_returns`] lets the
    /// group say again what matters.
    Tell {
        /// To whom.
        to: CopyId,
        /// The letter.
        letter: crate::Sealed,
    },
    /// Reads wait for promises of other OSDs: [`crate::Pg::leases_renewed`] shall be called when one answered a heartbeat.
    WantLease,
    /// The group serves when a map says that this OSD was up in this epoch (`up_thru`): the monitors shall be asked.
    WantUpThru(Epoch),
    /// These shall serve the group, the primary first, or at their positions where it has shards: the monitors shall be
    /// asked for a map that says so. If there are none, those shall serve whom CRUSH and the exceptions of the map name.
    WantActing(Vec<OsdId>),
    /// This group was split and its new siblings are durable on the same store: load them.
    Split {
        /// The new groups, those that did not exist before.
        children: Vec<SpgId>,
    },
    /// This group is ready for a union, as the one that takes others in, or as one that is taken in: see [`crate::Pg::take_in`].
    Unite,
    /// This group has taken others in, of which nothing is left in the store: those that wait to be taken in by it
    /// ([`crate::Pg::heir`]) go.
    United {
        /// Numbers of the groups that it has taken in.
        sources: Vec<u32>,
    },
    /// The monitors shall hear soon that this group is ready to be merged.
    Ready,
    /// All of the group is gone from the store, or it never came to be, because the split that was to make it was
    /// interrupted (its parent does that again): drop it.
    Removed,
    /// The store refused to go on; the OSD should stop.
    StoreStopped,
}

/// Needs of an operation, for checking capabilities before it is handed to the group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// It reads (class calls do not count).
    pub read: bool,
    /// It changes something (class calls do not count).
    pub write: bool,
    /// It calls a class method that reads.
    pub class_read: bool,
    /// It calls a class method that writes.
    pub class_write: bool,
    /// It is about the whole group (listing), not an object.
    pub group: bool,
    /// Class methods called: class, method, reads, writes.
    pub classes: Vec<(String, String, bool, bool)>,
}

impl Needs {
    /// Returns true if it must be ordered and logged as a write.
    pub fn modifies(&self) -> bool {
        self.write || self.class_write
    }
}

/// Contents of `ceph pg query`.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// State of the group.
    pub state: PgState,
    /// Newest entry of the log.
    pub last_update: types::EVersion,
    /// Everything at or below this left the log.
    pub log_tail: types::EVersion,
    /// Newest version that clients saw.
    pub last_user_version: u64,
    /// Epoch in which the group was created.
    pub created: u32,
    /// Epoch since which the acting set is what it is.
    pub same_interval_since: u32,
    /// Entries in the log.
    pub log_size: u64,
    /// Entries kept for duplicate detection only.
    pub log_dups: u64,
    /// Snapshots whose clones are still to be removed.
    pub snap_trimq: Vec<(u64, u64)>,
    /// Snapshots whose clones are all removed.
    pub purged_snaps: Vec<(u64, u64)>,
    /// Operations not answered yet.
    pub ops_in_flight: usize,
    /// Watches held.
    pub watches: usize,
    /// First epoch of the newest interval in which this copy was a member of an active group.
    pub last_epoch_started: Epoch,
    /// First epoch of the newest interval in which all copies were complete and at home.
    pub last_epoch_clean: Epoch,
    /// Backfill has come so far; `None`: this copy is complete.
    pub last_backfill: Option<String>,
    /// Objects that are missing on this copy.
    pub missing: u64,
    /// Objects that no copy has that can be reached.
    pub unfound: u64,
    /// Step of the copy, in Ceph's words (`Started/Primary/Active`).
    pub step: &'static str,
    /// Reason why it does not go on, in words; empty if it does.
    pub because: String,
    /// OSDs that are waited for.
    pub blocked_by: Vec<OsdId>,
    /// Ended intervals whose members must be heard: first epoch, last, members.
    pub past: Vec<(Epoch, Epoch, Vec<OsdId>)>,
    /// The other copies, as a primary sees them.
    pub peers: Vec<PeerQuery>,
}

/// Knowledge of a primary about another copy.
#[derive(Clone, Debug, Default)]
pub struct PeerQuery {
    /// Name of the copy.
    pub copy: CopyId,
    /// It serves; others are only filled.
    pub acting: bool,
    /// It has taken up the group's log.
    pub activated: bool,
    /// Objects that it lacks, and those on their way to it.
    pub missing: u64,
    /// It is filled, and so far: an object's name. `None`: it needs no backfill.
    pub backfill: Option<String>,
    /// Bytes of changes that it has not made durable yet.
    pub under_way: usize,
}

/// Result of the command to give up what is unfound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gone {
    /// This OSD does not lead the group, or the group does not serve.
    NotActive,
    /// The cluster's level is too low for it.
    LowLevel(types::level::Level),
    /// The group is one of an erasure-coded pool: that is not built yet.
    NotBuilt,
    /// Nothing is unfound.
    Nothing,
    /// Somebody may still have the objects: those that are asked and have not answered, or these OSDs, which are down and not
    /// marked lost.
    Unheard {
        /// Objects that are missed.
        objects: usize,
        /// OSDs that are down.
        osds: Vec<OsdId>,
    },
    /// So many objects are given up.
    Marked(usize),
}

/// State of a copy that may have what is unfound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaybeHas {
    /// It has answered.
    Answered,
    /// It was asked and has not answered.
    Asked,
    /// It is down.
    Down,
    /// The map does not have it any more.
    Gone,
}

/// An object that nobody has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfoundObject {
    /// The object.
    pub object: types::HObject,
    /// The version that is missed.
    pub need: types::EVersion,
}

/// A part of the list of what is unfound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnfoundPage {
    /// Objects that some member lacks.
    pub missing: usize,
    /// Of these, those that nobody has.
    pub unfound: usize,
    /// Those of this page.
    pub objects: Vec<UnfoundObject>,
    /// There are more behind them.
    pub more: bool,
    /// The group serves, and this OSD leads it.
    pub active: bool,
    /// Copies that may have them.
    pub maybe: Vec<(CopyId, MaybeHas)>,
}
