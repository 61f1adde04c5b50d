//! The log's records: what happened to an object, and what is remembered of the request that did it.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

use crate::changed::{Changed, Part};
use crate::codec::{Parser, Writer};
use crate::meta::{get_object, get_version, layout, put_object, put_version};
use crate::stats::{self, Stats};
use bytes::Bytes;
use denc::{DecodeError, Result};
use std::sync::Arc;
use types::{EVersion, HObject, PoolId, ReqId, SnapId, UTime};

/// Layout of a page of records, and of a log entry that does not say what it changed; a reader refuses others.
const LAYOUT: u64 = 1;
/// Layout of an entry that says it: the part stands behind all else.
const WITH_PART: u64 = 2;
/// Layout of an entry of a group of shards that says what was before it.
const WITH_BEFORE: u64 = 3;

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
    /// Nobody had the object's newest version, and an operator let an older one count again.
    LostRevert = 5,
    /// Nobody had the object's newest version, and an operator had it removed.
    LostDelete = 6,
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

/// State of an entry's object before it, on each shard alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Was {
    /// As it is: the entry changes nothing of the object itself.
    Same,
    /// Not there.
    Absent,
    /// It had this record. Each shard keeps the object as it was, as the generation with the entry's version
    /// ([`LogEntry::generation`]).
    Kept(Bytes),
}

/// State before an entry: enough to undo it, where each copy has a shard and nobody else can give it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Before {
    pub(crate) was: Was,
    /// Difference that the change made to the group's statistics. Of several entries of one change, the last one has it.
    pub(crate) delta: Stats,
}

impl Before {
    fn put(&self, w: &mut Writer) {
        match &self.was {
            Was::Same => w.num(0),
            Was::Absent => w.num(1),
            Was::Kept(record) => {
                w.num(2);
                w.bytes(record);
            }
        }
        w.num(self.delta.layout());
        self.delta.encode(w);
    }

    fn get(r: &mut Parser<'_>) -> Result<Self> {
        let was = match r.num()? {
            0 => Was::Same,
            1 => Was::Absent,
            2 => Was::Kept(r.shared()?),
            _ => return Err(DecodeError::Invalid("what was before a log entry")),
        };
        let layout = stats::get_layout(r)?;
        Ok(Self { was, delta: Stats::decode(r, layout)? })
    }
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
    /// What of the object changed, if it was there before.
    pub(crate) changed: Changed,
    /// In a group of shards: what was before it.
    pub(crate) before: Option<Box<Before>>,
    pub(crate) done: Done,
}

impl LogEntry {
    /// The generation under which each shard keeps the object as it was before the entry; `None`: nothing is kept.
    pub(crate) fn generation(&self) -> Option<u64> {
        let kept = self.before.as_ref().is_some_and(|before| matches!(before.was, Was::Kept(_)));
        kept.then_some(self.done.version.version)
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut w = Writer(Vec::with_capacity(64 + self.object.name.len()));
        // Offsets of one shard say nothing about others: no entry has both.
        debug_assert!(self.before.is_none() || self.changed == Changed::All);
        w.num(match (&self.before, &self.changed) {
            (Some(_), _) => WITH_BEFORE,
            (None, Changed::All) => LAYOUT,
            (None, Changed::Part(_)) => WITH_PART,
        });
        w.num(self.kind as u64);
        put_object(&mut w, &self.object);
        // The head's snapshot id is the largest but one: turned so that it takes one byte.
        w.num(SnapId::DIR.0 - self.object.snap.0);
        put_version(&mut w, self.prior);
        w.denc(&self.mtime);
        w.list(self.snaps.iter(), |w, s| w.num(*s));
        put_done(&mut w, &self.done);
        match (&self.before, &self.changed) {
            (Some(before), _) => before.put(&mut w),
            (None, Changed::Part(part)) => part.put(&mut w),
            (None, Changed::All) => {}
        }
        w.finish()
    }

    pub(crate) fn decode(bytes: &[u8], pool: PoolId) -> Result<Self> {
        let mut r = Parser::new(bytes);
        let layout = r.num()?;
        if !(LAYOUT..=WITH_BEFORE).contains(&layout) {
            return Err(DecodeError::Invalid("layout of a log entry"));
        }
        let kind = match r.num()? {
            1 => Kind::Modify,
            2 => Kind::Clone,
            3 => Kind::Delete,
            4 => Kind::Error,
            5 => Kind::LostRevert,
            6 => Kind::LostDelete,
            _ => return Err(DecodeError::Invalid("kind of a log entry")),
        };
        let head = get_object(&mut r, pool)?;
        let snap = SnapId::DIR.0.wrapping_sub(r.num()?);
        let object = Arc::new(HObject { snap: SnapId(snap), ..head });
        let (prior, mtime, snaps) = (get_version(&mut r)?, r.denc()?, r.list(Parser::num)?);
        let done = get_done(&mut r)?;
        let changed = if layout == WITH_PART { Changed::Part(Part::get(&mut r)?) } else { Changed::All };
        let before = if layout == WITH_BEFORE { Some(Box::new(Before::get(&mut r)?)) } else { None };
        r.0.finish()?;
        Ok(Self { kind, object, prior, mtime, snaps, changed, before, done })
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
            changed: Changed::All,
            before: None,
            done: done(),
        };
        let bytes = entry.encode();
        assert_eq!(LogEntry::decode(&bytes, 3), Ok(entry));
        assert!((0..bytes.len()).all(|n| LogEntry::decode(&bytes[..n], 3).is_err()));
        for kind in [Kind::Modify, Kind::Delete, Kind::Error, Kind::LostRevert, Kind::LostDelete] {
            let entry = LogEntry { kind, ..LogEntry::decode(&bytes, 3).expect("an entry") };
            assert_eq!(LogEntry::decode(&entry.encode(), 3), Ok(entry));
        }
        let part = Changed::of(&[objectstore::ObjectChange::Write(0, types::Rope::from(vec![1; 10]))]);
        let entry = LogEntry { changed: part, ..LogEntry::decode(&bytes, 3).expect("an entry") };
        let with_part = entry.encode();
        assert_eq!((bytes[0], with_part[0]), (1, 2));
        assert_eq!(with_part[1..bytes.len()], bytes[1..], "the part stands behind all else");
        assert_eq!(LogEntry::decode(&with_part, 3), Ok(entry));
        assert!((0..with_part.len()).all(|n| LogEntry::decode(&with_part[..n], 3).is_err()));
        for was in [Was::Same, Was::Absent, Was::Kept(Bytes::from_static(b"record"))] {
            let delta = Stats { bytes: -5, objects: 1, ..Stats::default() };
            let keeps = matches!(was, Was::Kept(_));
            let before = Some(Box::new(Before { was, delta }));
            let entry = LogEntry { before, ..LogEntry::decode(&bytes, 3).expect("an entry") };
            assert_eq!(entry.generation(), keeps.then_some(9));
            let with_before = entry.encode();
            assert_eq!(with_before[0], 3);
            assert_eq!(with_before[1..bytes.len()], bytes[1..], "what was before stands behind all else");
            assert_eq!(LogEntry::decode(&with_before, 3), Ok(entry));
            assert!((0..with_before.len()).all(|n| LogEntry::decode(&with_before[..n], 3).is_err()));
        }
        let plain = Done { returns: None, ..done() };
        let empty = Done { returns: Some(Box::new([])), ..done() };
        let page = encode_page(&[&done(), &plain, &empty]);
        assert_eq!(decode_page(&page), Ok(vec![done(), plain, empty]));
    }
}
