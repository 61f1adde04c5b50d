//! Inputs and outputs of the methods on the index of a bucket.

use super::index::{Dir, DirHeader, EntryVer, LogEntry, Meta, ObjKey, OlhLog, RawEntry, Resharding, Stats, ZoneSet, modify};
use bytes::Bytes;
use denc::{Decode, Encode, Reader, Result, envelope};
use std::collections::BTreeMap;
use types::UTime;

/// Input of `bucket_set_tag_timeout`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagTimeoutOp {
    /// Seconds; 0 for the usual number.
    pub seconds: u64,
}
denc::versioned!(TagTimeoutOp, 1, 1 { seconds });

/// Input of `bucket_prepare_op`: an operation on an object is announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrepareOp {
    /// One of [`modify`].
    pub op: u8,
    /// Key and version.
    pub key: ObjKey,
    /// Tag of the operation.
    pub tag: Bytes,
    /// Locator of the object.
    pub locator: Bytes,
    /// True if the end of it will be logged; without effect here.
    pub log: bool,
    /// Flags of the log entry; without effect here.
    pub log_flags: u16,
    /// Zones that have it; without effect here.
    pub zones: ZoneSet,
}

impl Default for PrepareOp {
    fn default() -> Self {
        Self {
            op: modify::UNKNOWN,
            key: ObjKey::default(),
            tag: Bytes::new(),
            locator: Bytes::new(),
            log: false,
            log_flags: 0,
            zones: ZoneSet::default(),
        }
    }
}

impl Decode for PrepareOp {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("PrepareOp", 7)?;
        e.at_least("PrepareOp", 3)?;
        let (version, b) = (e.version, &mut e.body);
        let mut op = Self { op: b.get()?, ..Self::default() };
        if version < 5 {
            op.key.name = b.get()?;
        }
        op.tag = b.get()?;
        op.locator = b.get()?;
        if version >= 4 {
            op.log = b.get()?;
        }
        if version >= 5 {
            op.key = b.get()?;
        }
        if version >= 6 {
            op.log_flags = b.get()?;
        }
        if version >= 7 {
            op.zones = b.get()?;
        }
        Ok(op)
    }
}

impl Encode for PrepareOp {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 7, 5, |out| {
            self.op.encode(out);
            self.tag.encode(out);
            self.locator.encode(out);
            self.log.encode(out);
            self.key.encode(out);
            self.log_flags.encode(out);
            self.zones.encode(out);
        });
    }
}

/// Input of `bucket_complete_op`: an operation on an object is over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompleteOp {
    /// One of [`modify`].
    pub op: u8,
    /// Key and version.
    pub key: ObjKey,
    /// Locator of the object.
    pub locator: Bytes,
    /// Write of the object.
    pub ver: EntryVer,
    /// Record in a listing.
    pub meta: Meta,
    /// Tag under which it was announced; empty if it was not.
    pub tag: Bytes,
    /// True if it is logged.
    pub log: bool,
    /// Flags of the log entry.
    pub log_flags: u16,
    /// Entries that go with it: parts of an upload.
    pub remove: Vec<ObjKey>,
    /// Zones that have it.
    pub zones: ZoneSet,
}

impl Decode for CompleteOp {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("CompleteOp", 9)?;
        e.at_least("CompleteOp", 4)?;
        let (version, b) = (e.version, &mut e.body);
        let mut op = Self { op: b.get()?, ..Self::default() };
        if version < 7 {
            op.key.name = b.get()?;
        }
        op.ver.epoch = b.get()?;
        op.meta = b.get()?;
        op.tag = b.get()?;
        op.locator = b.get()?;
        op.remove = match version {
            4..7 => b.get::<Vec<Bytes>>()?.into_iter().map(ObjKey::plain).collect(),
            _ => b.get()?,
        };
        if version >= 5 {
            op.ver = b.get()?;
        }
        if version >= 6 {
            op.log = b.get()?;
        }
        if version >= 7 {
            op.key = b.get()?;
        }
        if version >= 8 {
            op.log_flags = b.get()?;
        }
        if version >= 9 {
            op.zones = b.get()?;
        }
        Ok(op)
    }
}

impl Encode for CompleteOp {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 9, 7, |out| {
            self.op.encode(out);
            self.ver.epoch.encode(out);
            self.meta.encode(out);
            self.tag.encode(out);
            self.locator.encode(out);
            self.remove.encode(out);
            self.ver.encode(out);
            self.log.encode(out);
            self.key.encode(out);
            self.log_flags.encode(out);
            self.zones.encode(out);
        });
    }
}

/// Input of `bucket_link_olh`: a version becomes the newest of its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkOlhOp {
    /// Key and version.
    pub key: ObjKey,
    /// Tag of the head.
    pub olh_tag: Bytes,
    /// True if it is a delete marker.
    pub delete_marker: bool,
    /// Tag of the operation.
    pub op_tag: Bytes,
    /// Record of a delete marker in a listing.
    pub meta: Meta,
    /// Place among the versions, if another zone gave it; 0 for the next.
    pub olh_epoch: u64,
    /// True if it is logged.
    pub log: bool,
    /// Flags of the log entry.
    pub log_flags: u16,
    /// Nothing happens if the version is this old or newer; zero for always.
    pub unmodified_since: UTime,
    /// True if nanoseconds of that count.
    pub precise: bool,
    /// Zones that have it.
    pub zones: ZoneSet,
}

impl Decode for LinkOlhOp {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("LinkOlhOp", 5)?;
        let (version, b) = (e.version, &mut e.body);
        let mut op = Self {
            key: b.get()?,
            olh_tag: b.get()?,
            delete_marker: b.get()?,
            op_tag: b.get()?,
            meta: b.get()?,
            olh_epoch: b.get()?,
            log: b.get()?,
            log_flags: b.get()?,
            ..Self::default()
        };
        if version >= 2 {
            // Whole seconds, which version 3 has again with their fraction.
            op.unmodified_since = UTime::from_nanos(b.u64()?.saturating_mul(1_000_000_000));
        }
        if version >= 3 {
            op.unmodified_since = b.get()?;
        }
        if version >= 4 {
            op.precise = b.get()?;
        }
        if version >= 5 {
            op.zones = b.get()?;
        }
        Ok(op)
    }
}

impl Encode for LinkOlhOp {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 5, 1, |out| {
            self.key.encode(out);
            self.olh_tag.encode(out);
            self.delete_marker.encode(out);
            self.op_tag.encode(out);
            self.meta.encode(out);
            self.olh_epoch.encode(out);
            self.log.encode(out);
            self.log_flags.encode(out);
            u64::from(self.unmodified_since.sec).encode(out);
            self.unmodified_since.encode(out);
            self.precise.encode(out);
            self.zones.encode(out);
        });
    }
}

/// Input of `bucket_unlink_instance`: a version is removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnlinkInstanceOp {
    /// Key and version.
    pub key: ObjKey,
    /// Tag of the operation.
    pub op_tag: Bytes,
    /// Place among the versions, if another zone gave it; 0 for the next.
    pub olh_epoch: u64,
    /// True if it is logged.
    pub log: bool,
    /// Flags of the log entry.
    pub log_flags: u16,
    /// Tag of the head.
    pub olh_tag: Bytes,
    /// Zones that have it.
    pub zones: ZoneSet,
}

impl Decode for UnlinkInstanceOp {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("UnlinkInstanceOp", 3)?;
        let (version, b) = (e.version, &mut e.body);
        let mut op =
            Self { key: b.get()?, op_tag: b.get()?, olh_epoch: b.get()?, log: b.get()?, log_flags: b.get()?, ..Self::default() };
        if version >= 2 {
            op.olh_tag = b.get()?;
        }
        if version >= 3 {
            op.zones = b.get()?;
        }
        Ok(op)
    }
}

impl Encode for UnlinkInstanceOp {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 3, 1, |out| {
            self.key.encode(out);
            self.op_tag.encode(out);
            self.olh_epoch.encode(out);
            self.log.encode(out);
            self.log_flags.encode(out);
            self.olh_tag.encode(out);
            self.zones.encode(out);
        });
    }
}

/// Input of `bucket_read_olh_log`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOlhLogOp {
    /// Key, without a version.
    pub olh: ObjKey,
    /// Epoch after which to begin.
    pub after: u64,
    /// Tag of the head.
    pub olh_tag: Bytes,
}
denc::versioned!(ReadOlhLogOp, 1, 1 { olh, after, olh_tag });

/// Output of `bucket_read_olh_log`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOlhLogReply {
    /// Steps.
    pub log: OlhLog,
    /// True if there are more.
    pub truncated: bool,
}
denc::versioned!(ReadOlhLogReply, 1, 1 { log, truncated });

/// Input of `bucket_trim_olh_log`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrimOlhLogOp {
    /// Key, without a version.
    pub olh: ObjKey,
    /// Last epoch that goes.
    pub upto: u64,
    /// Tag of the head.
    pub olh_tag: Bytes,
}
denc::versioned!(TrimOlhLogOp, 1, 1 { olh, upto, olh_tag });

/// Input of `bucket_clear_olh`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClearOlhOp {
    /// Key, without a version.
    pub key: ObjKey,
    /// Tag of the head.
    pub olh_tag: Bytes,
}
denc::versioned!(ClearOlhOp, 1, 1 { key, olh_tag });

/// Input of `bucket_list`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOp {
    /// Key after which to begin.
    pub start: ObjKey,
    /// Most entries.
    pub max: u32,
    /// Prefix of the keys.
    pub prefix: Bytes,
    /// True if all versions are wanted.
    pub versions: bool,
    /// Delimiter up to which keys are joined; none if empty.
    pub delimiter: Bytes,
}

impl Decode for ListOp {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("ListOp", 6)?;
        e.at_least("ListOp", 2)?;
        let (version, b) = (e.version, &mut e.body);
        let mut op = Self::default();
        if version < 4 {
            op.start.name = b.get()?;
        }
        op.max = b.get()?;
        if version >= 3 {
            op.prefix = b.get()?;
        }
        if version >= 4 {
            op.start = b.get()?;
        }
        if version >= 5 {
            op.versions = b.get()?;
        }
        if version >= 6 {
            op.delimiter = b.get()?;
        }
        Ok(op)
    }
}

impl Encode for ListOp {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 6, 4, |out| {
            self.max.encode(out);
            self.prefix.encode(out);
            self.start.encode(out);
            self.versions.encode(out);
            self.delimiter.encode(out);
        });
    }
}

/// Output of `bucket_list`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListReply {
    /// Header and entries.
    pub dir: Dir,
    /// True if there are more.
    pub truncated: bool,
    /// Place where the listing stopped, if there are more; none in the layout of 16.2.0, which does not have it.
    pub marker: Option<ObjKey>,
}

impl Decode for ListReply {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("ListReply", 4)?;
        e.at_least("ListReply", 2)?;
        let (dir, truncated) = (e.body.get()?, e.body.get()?);
        let marker = if e.version >= 4 { Some(e.body.get()?) } else { None };
        Ok(Self { dir, truncated, marker })
    }
}

impl Encode for ListReply {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, if self.marker.is_some() { 4 } else { 3 }, 2, |out| {
            self.dir.encode(out);
            self.truncated.encode(out);
            if let Some(marker) = &self.marker {
                marker.encode(out);
            }
        });
    }
}

/// Output of `bucket_check_index`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckIndexReply {
    /// The header as it is.
    pub existing: DirHeader,
    /// The header as it would be, if entries were counted anew.
    pub calculated: DirHeader,
}
denc::versioned!(CheckIndexReply, 1, 1 { existing, calculated });

/// Input of `bucket_update_stats`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateStatsOp {
    /// True if the sums replace those that are there; they are added else.
    pub absolute: bool,
    /// Sums by category.
    pub stats: BTreeMap<u8, Stats>,
}
denc::versioned!(UpdateStatsOp, 1, 1 { absolute, stats });

/// Input of `obj_remove`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoveOp {
    /// Prefixes of attributes that stay, on an empty object.
    pub keep: Vec<Bytes>,
}
denc::versioned!(RemoveOp, 1, 1 { keep });

/// Input of `obj_store_pg_ver`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorePgVerOp {
    /// Attribute.
    pub attr: Bytes,
}
denc::versioned!(StorePgVerOp, 1, 1 { attr });

/// Input of `obj_check_attrs_prefix`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckAttrsOp {
    /// Prefix.
    pub prefix: Bytes,
    /// True if the call fails if an attribute has the prefix; it fails if none has it else.
    pub fail_if_exists: bool,
}
denc::versioned!(CheckAttrsOp, 1, 1 { prefix, fail_if_exists });

/// Values of [`CheckMtimeOp::kind`]: what the object's time must be, compared with the given one.
pub mod compare {
    /// Equal.
    pub const EQ: u8 = 0;
    /// Less.
    pub const LT: u8 = 1;
    /// Less or equal.
    pub const LE: u8 = 2;
    /// Greater.
    pub const GT: u8 = 3;
    /// Greater or equal.
    pub const GE: u8 = 4;
}

/// Input of `obj_check_mtime`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckMtimeOp {
    /// Time.
    pub mtime: UTime,
    /// One of [`compare`].
    pub kind: u8,
    /// True if nanoseconds count.
    pub precise: bool,
}

impl Decode for CheckMtimeOp {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("CheckMtimeOp", 2)?;
        let (mtime, kind) = (e.body.get()?, e.body.get()?);
        let precise = if e.version >= 2 { e.body.get()? } else { false };
        Ok(Self { mtime, kind, precise })
    }
}

impl Encode for CheckMtimeOp {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 2, 1, |out| {
            self.mtime.encode(out);
            self.kind.encode(out);
            self.precise.encode(out);
        });
    }
}

/// Input of `bi_get`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawGetOp {
    /// Key and version.
    pub key: ObjKey,
    /// One of [`super::index::section`].
    pub kind: u8,
}
denc::versioned!(RawGetOp, 1, 1 { key, kind });

/// Output of `bi_get`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawGetReply {
    /// The entry.
    pub entry: RawEntry,
}
denc::versioned!(RawGetReply, 1, 1 { entry });

/// Input of `bi_put`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawPutOp {
    /// The entry.
    pub entry: RawEntry,
}
denc::versioned!(RawPutOp, 1, 1 { entry });

/// Input of `bi_list`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawListOp {
    /// Most entries.
    pub max: u32,
    /// Key of which all entries are wanted; all keys if empty.
    pub name: Bytes,
    /// Key in the omap after which to begin.
    pub marker: Bytes,
}
denc::versioned!(RawListOp, 1, 1 { max, name, marker });

/// Output of `bi_list`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawListReply {
    /// Entries.
    pub entries: Vec<RawEntry>,
    /// True if there are more.
    pub truncated: bool,
}
denc::versioned!(RawListReply, 1, 1 { entries, truncated });

/// Input of `bi_log_list`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogListOp {
    /// Id after which to begin.
    pub marker: Bytes,
    /// Most entries.
    pub max: u32,
}
denc::versioned!(LogListOp, 1, 1 { marker, max });

/// Output of `bi_log_list`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogListReply {
    /// Entries.
    pub entries: Vec<LogEntry>,
    /// True if there are more.
    pub truncated: bool,
}
denc::versioned!(LogListReply, 1, 1 { entries, truncated });

/// Input of `bi_log_trim`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogTrimOp {
    /// Id after which to begin.
    pub start: Bytes,
    /// Last id that goes; all if empty.
    pub end: Bytes,
}
denc::versioned!(LogTrimOp, 1, 1 { start, end });

/// Input of `set_bucket_resharding`, and output of `get_bucket_resharding`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReshardingStatus {
    /// True if the index is being moved.
    pub entry: Resharding,
}
denc::versioned!(ReshardingStatus, 1, 1 { entry });

/// Input of `guard_bucket_resharding`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuardOp {
    /// Result if the index is being moved: a negative number of an error.
    pub result: i32,
}
denc::versioned!(GuardOp, 1, 1 { result });

/// Input of `clear_bucket_resharding` and `get_bucket_resharding`: an envelope with nothing in it.
pub use crate::class::user::Nothing;
