//! The log's records: what happened to an object, and what is remembered of the request that did it.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

use crate::changed::{Changed, Part};
use crate::codec::{Parser, Writer};
use crate::meta::{get_object, get_version, layout, put_object, put_version};
use bytes::Bytes;
use denc::{DecodeError, Result};
use std::sync::Arc;
use types::{EVersion, HObject, PoolId, ReqId, SnapId, UTime};

/// Layout of a page of records, and of a log entry that does not say what it changed; a reader refuses others.
const LAYOUT: u64 = 1;
/// Layout of an entry that says it: the part stands behind all else.
const WITH_PART: u64 = 2;

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
    pub(crate) done: Done,
}

impl LogEntry {
    pub(crate) fn encode(&self) -> Bytes {
        let mut w = Writer(Vec::with_capacity(64 + self.object.name.len()));
        w.num(if self.changed == Changed::All { LAYOUT } else { WITH_PART });
        w.num(self.kind as u64);
        put_object(&mut w, &self.object);
        // The head's snapshot id is the largest but one: turned so that it takes one byte.
        w.num(SnapId::DIR.0 - self.object.snap.0);
        put_version(&mut w, self.prior);
        w.denc(&self.mtime);
        w.list(self.snaps.iter(), |w, s| w.num(*s));
        put_done(&mut w, &self.done);
        if let Changed::Part(part) = &self.changed {
            part.put(&mut w);
        }
        w.finish()
    }

    pub(crate) fn decode(bytes: &[u8], pool: PoolId) -> Result<Self> {
        let mut r = Parser::new(bytes);
        let layout = r.num()?;
        if layout != LAYOUT && layout != WITH_PART {
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
        r.0.finish()?;
        Ok(Self { kind, object, prior, mtime, snaps, changed, done })
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
        let plain = Done { returns: None, ..done() };
        let empty = Done { returns: Some(Box::new([])), ..done() };
        let page = encode_page(&[&done(), &plain, &empty]);
        assert_eq!(decode_page(&page), Ok(vec![done(), plain, empty]));
    }
}
