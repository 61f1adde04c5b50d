//! Messages between this cluster's own daemons. The encodings are plain. What a program of an older level would not understand is sent
//! from its level on only (`types::Feature`); a changed layout gets a new header version.

use crate::frame::message;
use crate::stats::ObjectStatSum;
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{EVersion, EntityAddrVec, Epoch, Fsid, OsdId, PgId, PgState, PoolId, Rope, UTime};

/// An OSD tells the monitors that it is up, who it is and where (osd → mon).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsdBoot {
    /// Cluster.
    pub fsid: Fsid,
    /// Number.
    pub osd: OsdId,
    /// The store's own identity: another store under the same number is refused.
    pub uuid: [u8; 16],
    /// Place where clients reach it.
    pub addrs: EntityAddrVec,
    /// Size of the store.
    pub total_bytes: u64,
    /// Output of `osd metadata`.
    pub metadata: BTreeMap<String, String>,
    /// Newest OSD map it has.
    pub newest_map: Epoch,
    /// Place where other OSDs reach it; empty: where clients do.
    pub cluster_addrs: EntityAddrVec,
}
message!(OsdBoot = 0x4e01 v 2 from 1 / 1 {
    fsid, osd, uuid, addrs, total_bytes, metadata, newest_map, cluster_addrs since 2,
});

/// Space of an OSD's store, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Size.
    pub total: u64,
    /// Free.
    pub available: u64,
    /// Taken by data.
    pub data: u64,
    /// Taken by omap.
    pub omap: u64,
    /// Taken by the store's own metadata.
    pub meta: u64,
}
denc::plain!(Space { total, available, data, omap, meta });

/// State and figures of one placement group, from its primary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PgReport {
    /// The group.
    pub pg: PgId,
    /// Its state, as its primary sees it.
    pub state: PgState,
    /// Orders the reports of a group: epoch and a counter.
    pub reported: EVersion,
    /// Last write.
    pub version: EVersion,
    /// Entries in the log.
    pub log_size: u32,
    /// Version that the last scrub saw.
    pub last_scrub: EVersion,
    /// Time when it ended.
    pub last_scrub_stamp: UTime,
    /// Version that the last deep scrub saw.
    pub last_deep_scrub: EVersion,
    /// Time when it ended.
    pub last_deep_scrub_stamp: UTime,
    /// Epoch in which the group was created.
    pub created: Epoch,
    /// Totals, not differences.
    pub stats: ObjectStatSum,
    /// Removed snapshots still to be trimmed.
    pub snap_trimq_len: u32,
    /// Removed snapshots that are trimmed here: first and count.
    pub purged_snaps: Vec<(u64, u64)>,
    /// Time when the state last changed.
    pub last_change: UTime,
    /// Time when the group was last active.
    pub last_active: UTime,
    /// Epoch up to which the group is known to have been clean: nobody needs older maps for it.
    pub last_epoch_clean: Epoch,
    /// OSDs that are waited for before it can serve.
    pub blocked_by: Vec<OsdId>,
}
denc::plain!(PgReport {
    pg,
    state,
    reported,
    version,
    log_size,
    last_scrub,
    last_scrub_stamp,
    last_deep_scrub,
    last_deep_scrub_stamp,
    created,
    stats,
    snap_trimq_len,
    purged_snaps,
    last_change,
    last_active,
    last_epoch_clean,
    blocked_by,
});

/// Work of clients on one block image at one OSD since its last report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageFigures {
    /// Pool that the image (not its data) is in.
    pub pool: PoolId,
    /// Namespace.
    pub nspace: Bytes,
    /// The image's id.
    pub image: Bytes,
    /// Operations that wrote.
    pub write_ops: u64,
    /// Operations that read.
    pub read_ops: u64,
    /// Bytes that came.
    pub write_bytes: u64,
    /// Bytes that went.
    pub read_bytes: u64,
    /// From arrival to answer, all writes together.
    pub write_nanos: u64,
    /// From arrival to answer, all reads together.
    pub read_nanos: u64,
}
denc::plain!(ImageFigures { pool, nspace, image, write_ops, read_ops, write_bytes, read_bytes, write_nanos, read_nanos });

/// An option that has another value at an OSD than the configuration database says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionInForce {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
    /// Source of the value: `override`, `cmdline`, `host`, ...
    pub source: String,
}
denc::plain!(OptionInForce { name, value, source });

/// An OSD's figures and its sign of life (osd → mon): every second if something changed, else every five.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsdReport {
    /// Number.
    pub osd: OsdId,
    /// Its OSD map.
    pub epoch: Epoch,
    /// Space.
    pub space: Space,
    /// It takes no writes for want of space, whatever the figures say.
    pub full: bool,
    /// Mean time to make a write durable, µs.
    pub commit_latency_us: u32,
    /// Mean time to make a write visible, µs.
    pub apply_latency_us: u32,
    /// Operations that take too long.
    pub slow_ops: u32,
    /// Age of the oldest of them, in seconds.
    pub slow_oldest: u32,
    /// Findings for the cluster's health: code (`UPPER_CASE`) and text.
    pub notes: Vec<(String, String)>,
    /// Groups that this OSD leads and whose report changed.
    pub pgs: Vec<PgReport>,
    /// Images that were in use, while the manager wants to know.
    pub images: Vec<ImageFigures>,
    /// Options that the OSD found or was told by others than the monitors.
    pub options: Vec<OptionInForce>,
}
message!(OsdReport = 0x4e02 v 6 from 5 / 5 {
    osd,
    epoch,
    space,
    full,
    commit_latency_us,
    apply_latency_us,
    slow_ops,
    notes,
    pgs,
    images,
    options,
    slow_oldest since 6,
});

/// One generation of a service's rotating key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceKey {
    /// Number that tickets name.
    pub secret_id: u64,
    /// AES-128 key.
    pub key: [u8; 16],
    /// Time when it was made.
    pub created: UTime,
    /// Time when tickets under it end.
    pub expires: UTime,
}
denc::plain!(ServiceKey { secret_id, key, created, expires });

/// The rotating keys of the OSD service (mon → osd): after boot and at each rotation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceKeys {
    /// Previous, current, next.
    pub keys: Vec<ServiceKey>,
}
message!(ServiceKeys = 0x4e03 v 1 / 1 { keys });

/// An OSD is about to stop cleanly (osd → mon); the monitors mark it down and publish that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsdDown {
    /// Number.
    pub osd: OsdId,
    /// Its OSD map.
    pub epoch: Epoch,
}
message!(OsdDown = 0x4e04 v 1 / 1 { osd, epoch });

/// An OSD leads groups and must be known to have been up in their interval before they serve (osd → mon). The monitors
/// answer with a map in which its `up_thru` is at least `want`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsdAlive {
    /// Number.
    pub osd: OsdId,
    /// Its OSD map.
    pub epoch: Epoch,
    /// The epoch to be reached by `up_thru`.
    pub want: Epoch,
}
message!(OsdAlive = 0x4e06 v 1 / 1 { osd, epoch, want });

/// Primaries of an OSD wish other members for their groups for a time (osd → mon): `pg_temp` of the next map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PgTempWish {
    /// OSD that leads the groups.
    pub osd: OsdId,
    /// Its OSD map.
    pub epoch: Epoch,
    /// Group, and who shall serve it, the primary first. Nobody: as CRUSH has it.
    pub wishes: Vec<(PgId, Vec<OsdId>)>,
}
message!(PgTempWish = 0x4e07 v 1 / 1 { osd, epoch, wishes });

/// Reason why an OSD holds another one for dead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// OSD that is accused.
    pub osd: OsdId,
    /// In which life: the epoch in which it came up.
    pub up_from: Epoch,
    /// Its port refuses connections: nobody listens there any more.
    pub refused: bool,
    /// Milliseconds without an answer, less the accuser's own lateness in that time.
    pub silent_ms: u32,
    /// It answers again: what was reported before is taken back.
    pub recovered: bool,
}
denc::plain!(Failure { osd, up_from, refused, silent_ms, recovered });

/// An OSD reports peers that do not answer (osd → mon).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsdFailures {
    /// OSD that reports.
    pub osd: OsdId,
    /// Its OSD map.
    pub epoch: Epoch,
    /// OSDs that are reported, and why.
    pub failed: Vec<Failure>,
}
message!(OsdFailures = 0x4e08 v 1 / 1 { osd, epoch, failed });

/// A heartbeat between OSDs of one cluster, and its answer (osd ↔ osd).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    /// Cluster.
    pub fsid: Fsid,
    /// Sender.
    pub osd: OsdId,
    /// Its OSD map.
    pub epoch: Epoch,
    /// Time when it was asked, by the asker's own clock in nanoseconds. The answer brings it back.
    pub stamp: u64,
    /// Time for which the asker wants to rely on the other one in groups that it leads, in milliseconds (`cores/pg/src/lease.rs`). The answer
    /// brings it back and is the promise.
    pub lease: u32,
    /// True if this is an answer.
    pub answer: bool,
}
message!(Beat = 0x4e13 v 2 / 2 { fsid, osd, epoch, stamp, lease, answer });

/// Letters between the copies of groups on two OSDs, all of one round (osd → osd). What they say is in `cores/pg/src/letter.rs`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupLetters {
    /// Cluster.
    pub fsid: Fsid,
    /// Sender.
    pub osd: OsdId,
    /// Its OSD map.
    pub epoch: Epoch,
    /// The fixed part of each letter, and how many bytes of `data` belong to it.
    pub letters: Vec<(Bytes, u32)>,
    /// The payloads of all letters, one after the other.
    pub data: Rope,
}
message!(GroupLetters = 0x4e10 v 1 / 1 { fsid, osd, epoch, letters } data data);

/// A part of a letter that is too long for one message (osd → osd). All parts of a letter come one after the other, nothing else between
/// them. The letter is its fixed part and then its payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LetterPart {
    /// Cluster.
    pub fsid: Fsid,
    /// Sender.
    pub osd: OsdId,
    /// Its OSD map.
    pub epoch: Epoch,
    /// Bytes of the letter's fixed part.
    pub front: u64,
    /// Bytes of the whole letter.
    pub length: u64,
    /// Place in the letter where this part begins.
    pub at: u64,
    /// The part.
    pub data: Rope,
}
message!(LetterPart = 0x4e11 v 1 / 1 { fsid, osd, epoch, front, length, at } data data);

/// The monitors ask an OSD to do something (mon → osd), for example `{"prefix":"scrub","pgid":"1.0","deep":false}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsdInstruct {
    /// The instruction.
    pub json: String,
}
message!(OsdInstruct = 0x4e05 v 1 / 1 { json });
