//! What the group writes about itself: its meta keys and their values.
//!
//! | key | value |
//! |---|---|
//! | `i` | [`Info`]: changes with every write |
//! | `h` | [`History`]: changes rarely |
//! | `l` version (u64, big-endian) | [`LogEntry`] |
//! | `d` version of the first (u64, big-endian) | a page of [`Done`] records that left the log |
//! | `s` snapshot (u64, big-endian), object | empty: the object has a clone that serves the snapshot |
//! | `w` object | empty: the object has watchers |
//!
//! An object in a key: its hash with the bits reversed (u32, big-endian), then namespace, key and name, each with
//! its length in front.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

use crate::codec::{Parser, Writer};
use crate::info::{get_intervals, put_intervals};
use crate::stats::Stats;
use bytes::Bytes;
use denc::{DecodeError, Result};
use std::sync::Arc;
use types::{EVersion, Epoch, HObject, Intervals, OsdId, PoolId, ReqId, SnapId, UTime};

const LAYOUT: u64 = 1;

pub(crate) const INFO: &[u8] = b"i";
pub(crate) const HISTORY: &[u8] = b"h";

/// Prefixes of keys that come in numbers.
pub(crate) const LOG: u8 = b'l';
pub(crate) const DUPS: u8 = b'd';
pub(crate) const SNAPS: u8 = b's';
pub(crate) const WATCHED: u8 = b'w';

/// Key of a log entry, or of a page of duplicates.
pub(crate) fn version_key(prefix: u8, version: u64) -> Bytes {
    let mut key = vec![prefix];
    key.extend_from_slice(&version.to_be_bytes());
    key.into()
}

/// First key after all keys with this prefix.
pub(crate) fn prefix_end(prefix: u8) -> Bytes {
    Bytes::copy_from_slice(&[prefix + 1])
}

fn put_object(key: &mut Writer, object: &HObject) {
    key.0.extend_from_slice(&object.reversed_hash().to_be_bytes());
    key.bytes(&object.nspace);
    key.bytes(&object.key);
    key.bytes(&object.name);
}

fn get_object(r: &mut Parser<'_>, pool: PoolId) -> Result<HObject> {
    let hash = u32::from_be_bytes(r.0.array()?).reverse_bits();
    let (nspace, key, name) = (r.shared()?, r.shared()?, r.shared()?);
    Ok(HObject { pool, hash, nspace, key, name, snap: SnapId::HEAD, max: false })
}

/// Key in the snapshot index.
pub(crate) fn snap_key(snap: u64, object: &HObject) -> Bytes {
    let mut key = Writer(vec![SNAPS]);
    key.0.extend_from_slice(&snap.to_be_bytes());
    put_object(&mut key, object);
    key.finish()
}

/// First key of a snapshot in the index.
pub(crate) fn snap_start(snap: u64) -> Bytes {
    version_key(SNAPS, snap)
}

/// Snapshot and head of a key in the snapshot index.
pub(crate) fn parse_snap_key(key: &[u8], pool: PoolId) -> Result<(u64, HObject)> {
    let mut r = Parser::new(key);
    if r.0.u8()? != SNAPS {
        return Err(DecodeError::Invalid("key of the snapshot index"));
    }
    Ok((u64::from_be_bytes(r.0.array()?), get_object(&mut r, pool)?))
}

/// Key that marks an object as watched.
pub(crate) fn watched_key(object: &HObject) -> Bytes {
    let mut key = Writer(vec![WATCHED]);
    put_object(&mut key, object);
    key.finish()
}

/// Head of a key that marks an object as watched.
pub(crate) fn parse_watched_key(key: &[u8], pool: PoolId) -> Result<HObject> {
    let mut r = Parser::new(key);
    if r.0.u8()? != WATCHED {
        return Err(DecodeError::Invalid("key of a watched object"));
    }
    get_object(&mut r, pool)
}

/// What changes with every write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Info {
    /// Newest log entry.
    pub(crate) last_update: EVersion,
    /// Newest version that clients saw.
    pub(crate) user_version: u64,
    /// Everything up to here left the log.
    pub(crate) log_tail: EVersion,
    /// Usage.
    pub(crate) stats: Stats,
}

fn put_version(w: &mut Writer, v: EVersion) {
    w.num(v.epoch.into());
    w.num(v.version);
}

fn get_version(r: &mut Parser<'_>) -> Result<EVersion> {
    Ok(EVersion { epoch: r.num32()?, version: r.num()? })
}

impl Info {
    pub(crate) fn encode(&self) -> Bytes {
        let mut w = Writer(Vec::with_capacity(64));
        w.num(LAYOUT);
        put_version(&mut w, self.last_update);
        w.num(self.user_version);
        put_version(&mut w, self.log_tail);
        self.stats.encode(&mut w);
        w.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = layout(bytes, "layout of a group's info")?;
        let (last_update, user_version, log_tail) = (get_version(&mut r)?, r.num()?, get_version(&mut r)?);
        let info = Self { last_update, user_version, log_tail, stats: Stats::decode(&mut r)? };
        r.0.finish()?;
        Ok(info)
    }
}

fn layout<'a>(bytes: &'a [u8], what: &'static str) -> Result<Parser<'a>> {
    let mut r = Parser::new(bytes);
    if r.num()? != LAYOUT { Err(DecodeError::Invalid(what)) } else { Ok(r) }
}

/// A time during which the group was on the same OSDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) first: Epoch,
    pub(crate) last: Epoch,
    pub(crate) up: Vec<OsdId>,
    pub(crate) acting: Vec<OsdId>,
}

/// What changes rarely.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// Epoch in which the group was created.
    pub(crate) created: Epoch,
    /// Groups of the pool when it was last divided: tells after a restart whether a split is due.
    pub(crate) pg_num: u32,
    /// First epoch of the present interval.
    pub(crate) since: Epoch,
    /// OSDs of the present interval.
    pub(crate) up: Vec<OsdId>,
    /// OSDs that serve in the present interval.
    pub(crate) acting: Vec<OsdId>,
    /// Earlier intervals that are not known to be over for good, oldest first.
    pub(crate) past: Vec<Interval>,
    /// Snapshots whose clones are all removed. Kept for good, or a write that was long under way could clone for one of them again, and
    /// nobody would ever remove that clone. There are at most as many intervals as snapshots that still exist, and one.
    pub(crate) purged: Intervals,
    /// Version and time of the last scrub.
    pub(crate) scrub: (EVersion, UTime),
    /// Version and time of the last deep scrub.
    pub(crate) deep_scrub: (EVersion, UTime),
    /// The statistics are an estimate (after a split) until the next scrub counted.
    pub(crate) estimated: bool,
    /// The group is being removed: it does not serve any more.
    pub(crate) removing: bool,
    /// When the group became active last.
    pub(crate) last_change: UTime,
    /// The group that this one was split from, as long as it is not known that it finished that split.
    pub(crate) parent: Option<u32>,
}

impl History {
    pub(crate) fn encode(&self) -> Bytes {
        let mut w = Writer::default();
        w.num(LAYOUT);
        for n in [self.created, self.pg_num, self.since] {
            w.num(n.into());
        }
        put_osds(&mut w, &self.up);
        put_osds(&mut w, &self.acting);
        w.list(self.past.iter(), |w, i| {
            w.num(i.first.into());
            w.num(i.last.into());
            put_osds(w, &i.up);
            put_osds(w, &i.acting);
        });
        put_intervals(&mut w, &self.purged);
        for (version, stamp) in [&self.scrub, &self.deep_scrub] {
            put_version(&mut w, *version);
            w.denc(stamp);
        }
        w.num(u64::from(self.estimated) | u64::from(self.removing) << 1);
        w.denc(&self.last_change);
        w.num(self.parent.map_or(0, |seed| u64::from(seed) + 1));
        w.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = layout(bytes, "layout of a group's history")?;
        let mut history = Self { created: r.num32()?, pg_num: r.num32()?, since: r.num32()?, ..Self::default() };
        (history.up, history.acting) = (get_osds(&mut r)?, get_osds(&mut r)?);
        history.past = r.list(|r| {
            let (first, last) = (r.num32()?, r.num32()?);
            Ok(Interval { first, last, up: get_osds(r)?, acting: get_osds(r)? })
        })?;
        history.purged = get_intervals(&mut r)?;
        history.scrub = (get_version(&mut r)?, r.denc()?);
        history.deep_scrub = (get_version(&mut r)?, r.denc()?);
        let flags = r.num()?;
        (history.estimated, history.removing) = (flags & 1 != 0, flags & 2 != 0);
        history.last_change = r.denc()?;
        let parent = r.num()?.checked_sub(1).map(u32::try_from).transpose();
        history.parent = parent.map_err(|_| DecodeError::Invalid("parent of a group"))?;
        r.0.finish()?;
        Ok(history)
    }
}

fn put_osds(w: &mut Writer, osds: &[OsdId]) {
    w.list(osds.iter(), |w, osd| w.int((*osd).into()));
}

fn get_osds(r: &mut Parser<'_>) -> Result<Vec<OsdId>> {
    r.list(Parser::int32)
}

/// What a log entry says happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The object was changed or created.
    #[default]
    Modify = 1,
    /// A clone was made.
    Clone = 2,
    /// The object was removed.
    Delete = 3,
    /// Nothing: a request failed, or changed nothing, and is only remembered.
    Error = 4,
}

/// What is remembered of a request that was done, to answer it again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) version: EVersion,
    pub(crate) user_version: u64,
    pub(crate) reqid: ReqId,
    pub(crate) result: i32,
    /// Result and output of each operation, if the request asked for them.
    pub(crate) returns: Option<Box<[(i32, Bytes)]>>,
}

fn put_done(w: &mut Writer, done: &Done) {
    put_version(w, done.version);
    w.num(done.user_version);
    put_reqid(w, &done.reqid);
    w.int(done.result.into());
    // One more than the number, so that 0 means none.
    w.num(done.returns.as_ref().map_or(0, |r| r.len() as u64 + 1));
    for (rval, output) in done.returns.iter().flatten() {
        w.int((*rval).into());
        w.bytes(output);
    }
}

fn get_done(r: &mut Parser<'_>) -> Result<Done> {
    let (version, user_version, reqid, result) = (get_version(r)?, r.num()?, get_reqid(r)?, r.int32()?);
    let n = r.num()?;
    if n > r.0.remaining() as u64 + 1 {
        return Err(DecodeError::CountTooLarge { count: n, have: r.0.remaining() });
    }
    let mut returns = None;
    if n > 0 {
        let items: Result<Vec<_>> = (1..n).map(|_| Ok((r.int32()?, r.shared()?))).collect();
        returns = Some(items?.into_boxed_slice());
    }
    Ok(Done { version, user_version, reqid, result, returns })
}

fn put_reqid(w: &mut Writer, id: &ReqId) {
    w.num(id.kind.into());
    w.int(id.num);
    w.num(id.tid);
    w.int(id.inc.into());
}

fn get_reqid(r: &mut Parser<'_>) -> Result<ReqId> {
    let kind = u8::try_from(r.num()?).map_err(|_| DecodeError::Invalid("entity kind of a request"))?;
    Ok(ReqId { kind, num: r.int()?, tid: r.num()?, inc: r.int32()? })
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogEntry {
    pub(crate) kind: Kind,
    /// The object, or the clone that was made; its memory is shared with the change's.
    pub(crate) object: Arc<HObject>,
    /// The object's version before.
    pub(crate) prior: EVersion,
    pub(crate) mtime: UTime,
    /// Snapshots of a clone.
    pub(crate) snaps: Vec<u64>,
    pub(crate) done: Done,
}

impl LogEntry {
    pub(crate) fn encode(&self) -> Bytes {
        let mut w = Writer(Vec::with_capacity(64 + self.object.name.len()));
        w.num(LAYOUT);
        w.num(self.kind as u64);
        put_object(&mut w, &self.object);
        // The head's snapshot id is the largest but one: turned so that it takes one byte.
        w.num(SnapId::DIR.0 - self.object.snap.0);
        put_version(&mut w, self.prior);
        w.denc(&self.mtime);
        w.list(self.snaps.iter(), |w, s| w.num(*s));
        put_done(&mut w, &self.done);
        w.finish()
    }

    pub(crate) fn decode(bytes: &[u8], pool: PoolId) -> Result<Self> {
        let mut r = layout(bytes, "layout of a log entry")?;
        let kind = match r.num()? {
            1 => Kind::Modify,
            2 => Kind::Clone,
            3 => Kind::Delete,
            4 => Kind::Error,
            _ => return Err(DecodeError::Invalid("kind of a log entry")),
        };
        let head = get_object(&mut r, pool)?;
        let snap = SnapId::DIR.0.wrapping_sub(r.num()?);
        let object = Arc::new(HObject { snap: SnapId(snap), ..head });
        let (prior, mtime, snaps) = (get_version(&mut r)?, r.denc()?, r.list(Parser::num)?);
        let done = get_done(&mut r)?;
        r.0.finish()?;
        Ok(Self { kind, object, prior, mtime, snaps, done })
    }
}

/// A page of records that left the log.
pub(crate) fn encode_page(records: &[&Done]) -> Bytes {
    let mut w = Writer(Vec::with_capacity(40 * records.len()));
    w.num(LAYOUT);
    w.list(records.iter(), |w, done| put_done(w, done));
    w.finish()
}

pub(crate) fn decode_page(bytes: &[u8]) -> Result<Vec<Done>> {
    let mut r = layout(bytes, "layout of a page of duplicates")?;
    let records = r.list(get_done)?;
    r.0.finish()?;
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Locator;

    fn done() -> Done {
        let reqid = ReqId { kind: 8, num: 4496, tid: 17, inc: 0 };
        let returns = Some(vec![(0, Bytes::from_static(b"out")), (-2, Bytes::new())].into_boxed_slice());
        Done { version: EVersion::new(4, 9), user_version: 9, reqid, result: -125, returns }
    }

    fn object() -> HObject {
        let mut at = Locator::pool(3);
        at.nspace = Bytes::from_static(b"ns");
        HObject::head(Bytes::from_static(b"name"), &at)
    }

    #[test]
    fn log_entries_and_pages_come_back() {
        let entry = LogEntry {
            kind: Kind::Clone,
            object: object().at(SnapId(5)).into(),
            prior: EVersion::new(3, 8),
            mtime: UTime { sec: 9, nsec: 1 },
            snaps: vec![5, 4],
            done: done(),
        };
        let bytes = entry.encode();
        assert_eq!(LogEntry::decode(&bytes, 3), Ok(entry));
        assert!((0..bytes.len()).all(|n| LogEntry::decode(&bytes[..n], 3).is_err()));
        let plain = Done { returns: None, ..done() };
        let empty = Done { returns: Some(Box::new([])), ..done() };
        let page = encode_page(&[&done(), &plain, &empty]);
        assert_eq!(decode_page(&page), Ok(vec![done(), plain, empty]));
    }

    #[test]
    fn keys_come_back_and_snapshots_are_ranges() {
        assert_eq!(parse_snap_key(&snap_key(7, &object()), 3), Ok((7, object())));
        assert_eq!(parse_watched_key(&watched_key(&object()), 3), Ok(object()));
        assert!(snap_start(7) < snap_key(7, &object()) && snap_key(7, &object()) < snap_start(8));
        assert!(version_key(LOG, 255) < version_key(LOG, 256) && version_key(LOG, u64::MAX) < prefix_end(LOG));
    }

    #[test]
    fn info_and_history_come_back() {
        let stats = Stats { bytes: 5 << 30, objects: 3, rd: -1, ..Stats::default() };
        let info = Info { last_update: EVersion::new(4, 9), user_version: 9, log_tail: EVersion::new(1, 2), stats };
        assert_eq!(Info::decode(&info.encode()), Ok(info));
        let past = vec![Interval { first: 1, last: 2, up: vec![0, -1], acting: vec![0] }];
        let history =
            History { created: 3, pg_num: 32, past, estimated: true, up: vec![1], parent: Some(0), ..History::default() };
        assert_eq!(History::decode(&history.encode()), Ok(history));
    }
}
