//! What a primary ships: one change of a group as a value.
//!
//! A [`Body`] is everything that a change means to every copy, and nothing that only this OSD has: log entries, what happens to
//! objects, what happens to the group's index of snapshots and watches, the difference of its statistics. Each copy makes its own
//! transaction of it ([`crate::core::apply`]): its own meta keys, its own log tail. All changes of a copy are bodies: clients' writes,
//! work of the group itself, objects that are pushed to a copy that lacks them.
//!
//! Payloads of [`BULK`] bytes and more travel beside the body, so that nobody copies them.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

use crate::changed::Changed;
use crate::codec::{Parser, Writer};
use crate::entry::{Kind, LogEntry};
use crate::history::History;
use crate::info::{get_intervals, put_intervals};
use crate::meta::{self, get_object, get_version, put_object, put_version};
use crate::stats::{self, Stats};
use bytes::Bytes;
use denc::{DecodeError, Result};
use objectstore::{MetaChange, ObjectChange, ObjectChanges};
use types::{EVersion, Epoch, HObject, Intervals, ObjectId, PoolId, Rope, ShardId, SnapId};

/// Bytes from which on a payload travels beside the body.
const BULK: usize = 1024;

/// A change of what the group knows about its objects beside them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IndexChange {
    /// A clone of this head serves the snapshot.
    Snap(u64, HObject),
    /// No clone of it does any more.
    NoSnap(u64, HObject),
    /// The head has watchers.
    Watched(HObject),
    /// It has none any more.
    Unwatched(HObject),
}

impl IndexChange {
    /// Returns whose.
    pub(crate) fn head(&self) -> &HObject {
        match self {
            Self::Snap(_, head) | Self::NoSnap(_, head) | Self::Watched(head) | Self::Unwatched(head) => head,
        }
    }

    /// As a change of this copy's keys.
    pub(crate) fn key(&self) -> MetaChange {
        match self {
            Self::Snap(snap, head) => MetaChange::Set(meta::snap_key(*snap, head), Bytes::new()),
            Self::NoSnap(snap, head) => MetaChange::Remove(meta::snap_key(*snap, head)),
            Self::Watched(head) => MetaChange::Set(meta::watched_key(head), Bytes::new()),
            Self::Unwatched(head) => MetaChange::Remove(meta::watched_key(head)),
        }
    }
}

/// Progress of a copy with what it lacked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Objects that are whole with this body.
    pub(crate) recovered: Vec<HObject>,
    /// Backfill came up to this head.
    pub(crate) backfill: Option<HObject>,
    /// Backfill is complete.
    pub(crate) complete: bool,
    /// Objects of which the body brings only what changed, with the versions that the copy must have of them.
    pub(crate) bases: Vec<(HObject, EVersion)>,
    /// Objects that the copy lacks from here on, in these versions: backfill passes them, since nobody has them.
    pub(crate) lacks: Vec<(HObject, EVersion)>,
}

/// One change of a group. See the module's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Body {
    /// Entries for the log; the last entry is the operation's own.
    pub(crate) entries: Vec<LogEntry>,
    /// Changes of objects, in order.
    pub(crate) objects: Vec<ObjectChanges>,
    /// Changes of the group's index.
    pub(crate) index: Vec<IndexChange>,
    /// Amounts that it adds to the statistics.
    pub(crate) delta: Stats,
    /// Snapshots whose clones are all removed with it.
    pub(crate) purged: Intervals,
    /// The group is clean since this epoch; 0: nothing is said.
    pub(crate) clean: Epoch,
    /// In a group of shards: up to here nothing is ever undone, so what is kept for that goes. Zero: nothing is said.
    pub(crate) stable: EVersion,
    /// For a copy that lacked something.
    pub(crate) progress: Option<Box<Progress>>,
}

impl Body {
    /// A body that only pushes objects to a copy that lacks them.
    pub(crate) fn push(objects: Vec<ObjectChanges>, index: Vec<IndexChange>, progress: Progress) -> Self {
        Self { objects, index, progress: Some(Box::new(progress)), ..Self::default() }
    }

    /// Lets its entries say what they change: an entry whose object was there before gets what the changes of that object touch.
    pub(crate) fn note_parts(&mut self) {
        let objects = &self.objects;
        for entry in self.entries.iter_mut().filter(|entry| entry.kind == Kind::Modify && entry.prior != EVersion::default()) {
            let own = objects.iter().filter(|of| of.object.object == entry.object);
            entry.changed = Changed::of(own.flat_map(|of| &of.changes));
        }
    }

    /// Objects that become clones of others: source and clone.
    pub(crate) fn clones(&self) -> impl Iterator<Item = (&HObject, &HObject)> {
        let changes = self.objects.iter().flat_map(|of| of.changes.iter().map(move |change| (&of.object, change)));
        changes.filter_map(|(clone, change)| match change {
            ObjectChange::CloneOf(source) => Some((&*source.object, &*clone.object)),
            _ => None,
        })
    }

    /// Bytes of data that it writes.
    pub(crate) fn written(&self) -> u64 {
        let changes = self.objects.iter().flat_map(|o| &o.changes);
        let written = |change: &ObjectChange| match change {
            ObjectChange::Write(_, data) | ObjectChange::Xor(_, data) => data.len() as u64,
            _ => 0,
        };
        changes.map(written).sum()
    }

    /// The same for a copy that backfill has not brought so far: what happens to objects that `reaches` does not name is left out.
    pub(crate) fn limited(&self, reaches: impl Fn(&HObject) -> bool) -> Self {
        let head_of = |object: &ObjectId| object.object.at(SnapId::HEAD);
        let objects = self.objects.iter().filter(|o| reaches(&head_of(&o.object))).cloned().collect();
        let index = self.index.iter().filter(|change| reaches(change.head())).cloned().collect();
        Self { objects, index, ..self.clone() }
    }

    /// Returns what it changes of the group's record that changes rarely. False if it changes nothing there.
    pub(crate) fn change_history(&self, history: &mut History) -> bool {
        let before = history.clone();
        for (start, len) in self.purged.iter() {
            history.purged.insert(start, len);
        }
        if self.clean > history.clean {
            history.forget_past();
            history.clean = self.clean;
        }
        if let Some(progress) = &self.progress {
            if let Some(cursor) = &progress.backfill {
                history.backfill = Some(cursor.clone());
            }
            if progress.complete {
                history.backfill = None;
            }
        }
        *history != before
    }

    pub(crate) fn put(&self, w: &mut Writer, data: &mut Rope) {
        w.num(self.delta.layout());
        w.list(self.entries.iter(), |w, entry| w.bytes(&entry.encode()));
        w.num(self.objects.len() as u64);
        self.objects.iter().for_each(|o| put_changes(w, data, o));
        w.list(self.index.iter(), put_index);
        self.delta.encode(w);
        put_intervals(w, &self.purged);
        w.num(self.clean.into());
        let stable = self.stable != EVersion::default();
        w.num(u64::from(self.progress.is_some()) | u64::from(stable) << 1);
        if stable {
            put_version(w, self.stable);
        }
        if let Some(progress) = &self.progress {
            w.list(progress.recovered.iter(), put_name);
            let (parts, lacks) = (!progress.bases.is_empty(), !progress.lacks.is_empty());
            let flags = [progress.backfill.is_some(), progress.complete, parts, lacks];
            w.num(flags.into_iter().rev().fold(0, |flags, flag| flags << 1 | u64::from(flag)));
            if let Some(cursor) = &progress.backfill {
                put_name(w, cursor);
            }
            for list in [&progress.bases, &progress.lacks].into_iter().filter(|list| !list.is_empty()) {
                w.list(list.iter(), |w, (object, version)| {
                    put_name(w, object);
                    put_version(w, *version);
                });
            }
        }
    }

    pub(crate) fn get(r: &mut Parser<'_>, data: &mut Payload<'_>, pool: PoolId) -> Result<Self> {
        let layout = stats::get_layout(r)?;
        let entries = r.list(|r| LogEntry::decode(r.bytes()?, pool))?;
        let objects = r.list(|r| get_changes(r, data))?;
        let index = r.list(|r| get_index(r, pool))?;
        let delta = Stats::decode(r, layout)?;
        let (purged, clean) = (get_intervals(r)?, r.num32()?);
        let more = r.num()?;
        let stable = if more & 2 != 0 { get_version(r)? } else { EVersion::default() };
        let mut body = Self { entries, objects, index, delta, purged, clean, stable, progress: None };
        if more & 1 != 0 {
            let mut progress = Progress { recovered: r.list(get_name)?, ..Progress::default() };
            let flags = r.num()?;
            progress.complete = flags & 2 != 0;
            progress.backfill = if flags & 1 != 0 { Some(get_name(r)?) } else { None };
            for (flag, list) in [(4, &mut progress.bases), (8, &mut progress.lacks)] {
                if flags & flag != 0 {
                    *list = r.list(|r| Ok((get_name(r)?, get_version(r)?)))?;
                }
            }
            body.progress = Some(Box::new(progress));
        }
        Ok(body)
    }

    /// Returns true if all objects that it changes or takes something from, and all that it says the copy lacks, lie in the group:
    /// `holds` tells it of an object, `names` of a name. What it changes or lacks leaves something in the copy's store.
    pub(crate) fn is_within(&self, holds: impl Fn(&ObjectId) -> bool, names: impl Fn(&HObject) -> bool) -> bool {
        let mut lacks = self.progress.iter().flat_map(|progress| &progress.lacks);
        let is_from_here = |change: &ObjectChange| match change {
            ObjectChange::CloneOf(source) | ObjectChange::CloneRange(source, _) | ObjectChange::TakeOver(source) => holds(source),
            _ => true,
        };
        self.objects.iter().all(|of| holds(&of.object) && of.changes.iter().all(is_from_here))
            && lacks.all(|(object, _)| names(object))
    }

    /// Returns true if its entries come one after the other, all of them behind `version`.
    pub(crate) fn follows(&self, version: EVersion) -> bool {
        rises(version, &self.entries)
    }

    /// The group's version with it, if it logs something.
    pub(crate) fn version(&self) -> Option<EVersion> {
        self.entries.last().map(|entry| entry.done.version)
    }
}

/// Returns true if entries come one after the other, all of them behind `version`.
pub(crate) fn rises(mut version: EVersion, entries: &[LogEntry]) -> bool {
    entries.iter().all(|entry| std::mem::replace(&mut version, entry.done.version) < entry.done.version)
}

/// The payloads that came beside a message, taken in order.
pub(crate) struct Payload<'a> {
    data: &'a Rope,
    at: usize,
}

impl<'a> Payload<'a> {
    pub(crate) fn new(data: &'a Rope) -> Self {
        Self { data, at: 0 }
    }

    fn take(&mut self, len: usize) -> Result<Rope> {
        if len > self.data.len() - self.at {
            return Err(DecodeError::Invalid("payload of a body"));
        }
        let piece = self.data.slice(self.at, len);
        self.at += len;
        Ok(piece)
    }

    /// Refuses payload that nobody took.
    pub(crate) fn finish(&self) -> Result<()> {
        if self.at == self.data.len() { Ok(()) } else { Err(DecodeError::Invalid("payload behind a body")) }
    }
}

/// A head or clone with its pool: copies under way lie in a pool of their own.
pub(crate) fn put_name(w: &mut Writer, object: &HObject) {
    w.int(object.pool);
    put_object(w, object);
    w.num(SnapId::DIR.0.wrapping_sub(object.snap.0));
}

pub(crate) fn get_name(r: &mut Parser<'_>) -> Result<HObject> {
    let pool = r.int()?;
    let head = get_object(r, pool)?;
    Ok(HObject { snap: SnapId(SnapId::DIR.0.wrapping_sub(r.num()?)), ..head })
}

fn put_id(w: &mut Writer, id: &ObjectId) {
    put_name(w, &id.object);
    w.int(id.shard.0.into());
    w.num(id.generation.wrapping_add(1));
}

fn get_id(r: &mut Parser<'_>) -> Result<ObjectId> {
    let object = get_name(r)?;
    let shard = i8::try_from(r.int()?).map_err(|_| DecodeError::Invalid("shard of an object"))?;
    Ok(ObjectId { generation: r.num()?.wrapping_sub(1), ..ObjectId::of_shard(object, ShardId(shard)) })
}

fn put_index(w: &mut Writer, change: &IndexChange) {
    let (kind, snap, head) = match change {
        IndexChange::Snap(snap, head) => (0, Some(*snap), head),
        IndexChange::NoSnap(snap, head) => (1, Some(*snap), head),
        IndexChange::Watched(head) => (2, None, head),
        IndexChange::Unwatched(head) => (3, None, head),
    };
    w.num(kind);
    put_object(w, head);
    if let Some(snap) = snap {
        w.num(snap);
    }
}

fn get_index(r: &mut Parser<'_>, pool: PoolId) -> Result<IndexChange> {
    let kind = r.num()?;
    let head = get_object(r, pool)?;
    match kind {
        0 => Ok(IndexChange::Snap(r.num()?, head)),
        1 => Ok(IndexChange::NoSnap(r.num()?, head)),
        2 => Ok(IndexChange::Watched(head)),
        3 => Ok(IndexChange::Unwatched(head)),
        _ => Err(DecodeError::Invalid("change of a group's index")),
    }
}

/// Bytes, beside the rest if they are many.
pub(crate) fn put_payload(w: &mut Writer, data: &mut Rope, bytes: &Rope) {
    let bulk = bytes.len() >= BULK;
    w.num((bytes.len() as u64) << 1 | u64::from(bulk));
    if bulk {
        data.append(bytes.clone());
    } else {
        bytes.pieces().iter().for_each(|piece| w.0.extend_from_slice(piece));
    }
}

pub(crate) fn get_payload(r: &mut Parser<'_>, data: &mut Payload<'_>) -> Result<Rope> {
    let n = r.num()?;
    let len = usize::try_from(n >> 1).map_err(|_| DecodeError::Invalid("length of a payload"))?;
    if n & 1 != 0 { data.take(len) } else { Ok(Bytes::copy_from_slice(r.0.take(len)?).into()) }
}

fn put_pairs(w: &mut Writer, pairs: &[(Bytes, Bytes)]) {
    w.list(pairs.iter(), |w, (key, value)| {
        w.bytes(key);
        w.bytes(value);
    });
}

pub(crate) fn put_changes(w: &mut Writer, data: &mut Rope, of: &ObjectChanges) {
    put_id(w, &of.object);
    w.num(of.changes.len() as u64);
    of.changes.iter().for_each(|change| put_change(w, data, change));
}

pub(crate) fn get_changes(r: &mut Parser<'_>, data: &mut Payload<'_>) -> Result<ObjectChanges> {
    Ok(ObjectChanges { object: get_id(r)?, changes: r.list(|r| get_change(r, data))? })
}

fn put_change(w: &mut Writer, data: &mut Rope, change: &ObjectChange) {
    match change {
        ObjectChange::Create => w.num(0),
        ObjectChange::Write(offset, bytes) => {
            w.num(1);
            w.num(*offset);
            put_payload(w, data, bytes);
        }
        ObjectChange::Zero(offset, len) => [2, *offset, *len].into_iter().for_each(|n| w.num(n)),
        ObjectChange::Truncate(size) => [3, *size].into_iter().for_each(|n| w.num(n)),
        ObjectChange::Remove => w.num(4),
        ObjectChange::SetInfo(info) => {
            w.num(5);
            w.bytes(info);
        }
        ObjectChange::SetXattr(name, value) => {
            w.num(6);
            w.bytes(name);
            w.bytes(value);
        }
        ObjectChange::RemoveXattr(name) => {
            w.num(7);
            w.bytes(name);
        }
        ObjectChange::ClearXattrs => w.num(8),
        ObjectChange::OmapHeader(header) => {
            w.num(9);
            w.bytes(header);
        }
        ObjectChange::OmapSet(pairs) => {
            w.num(10);
            put_pairs(w, pairs);
        }
        ObjectChange::OmapRemove(keys) => {
            w.num(11);
            w.list(keys.iter(), |w, key| w.bytes(key));
        }
        ObjectChange::OmapRemoveRange(from, to) => {
            w.num(12);
            w.bytes(from);
            w.bytes(to);
        }
        ObjectChange::OmapClear => w.num(13),
        ObjectChange::CloneOf(source) => {
            w.num(14);
            put_id(w, source);
        }
        // Programs below level 5 know none of these three. Only groups of shards send them. In bodies of copies an object becomes a
        // clone and its source is removed, and each copy makes a change of its name of that.
        ObjectChange::Xor(offset, bytes) => {
            w.num(15);
            w.num(*offset);
            put_payload(w, data, bytes);
        }
        ObjectChange::CloneRange(source, ranges) => {
            w.num(16);
            put_id(w, source);
            w.list(ranges.iter(), |w, (start, len)| [*start, *len].into_iter().for_each(|n| w.num(n)));
        }
        ObjectChange::TakeOver(source) => {
            w.num(17);
            put_id(w, source);
        }
    }
}

fn get_change(r: &mut Parser<'_>, data: &mut Payload<'_>) -> Result<ObjectChange> {
    Ok(match r.num()? {
        0 => ObjectChange::Create,
        1 => ObjectChange::Write(r.num()?, get_payload(r, data)?),
        2 => ObjectChange::Zero(r.num()?, r.num()?),
        3 => ObjectChange::Truncate(r.num()?),
        4 => ObjectChange::Remove,
        5 => ObjectChange::SetInfo(r.shared()?),
        6 => ObjectChange::SetXattr(r.shared()?, r.shared()?),
        7 => ObjectChange::RemoveXattr(r.shared()?),
        8 => ObjectChange::ClearXattrs,
        9 => ObjectChange::OmapHeader(r.shared()?),
        10 => ObjectChange::OmapSet(r.list(|r| Ok((r.shared()?, r.shared()?)))?),
        11 => ObjectChange::OmapRemove(r.list(Parser::shared)?),
        12 => ObjectChange::OmapRemoveRange(r.shared()?, r.shared()?),
        13 => ObjectChange::OmapClear,
        14 => ObjectChange::CloneOf(get_id(r)?),
        15 => ObjectChange::Xor(r.num()?, get_payload(r, data)?),
        16 => ObjectChange::CloneRange(get_id(r)?, r.list(|r| Ok((r.num()?, r.num()?)))?),
        17 => ObjectChange::TakeOver(get_id(r)?),
        _ => return Err(DecodeError::Invalid("change of an object")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Locator;

    #[test]
    fn what_it_changes_and_what_it_says_is_lacking_must_lie_in_the_group() {
        let named = |name: &'static str| HObject::head(bytes::Bytes::from_static(name.as_bytes()), &Locator::pool(3));
        let (ours, foreign) = (named("ours"), named("foreign"));
        let changes = |object: &HObject| ObjectChanges { object: object.clone().into(), changes: vec![ObjectChange::Remove] };
        let lacking = |object: &HObject| {
            let lacks = vec![(object.clone(), EVersion::new(1, 1))];
            Body::push(vec![changes(&ours)], Vec::new(), Progress { lacks, ..Progress::default() })
        };
        let within = |body: &Body| body.is_within(|object| *object.object == ours, |object| *object == ours);
        assert!(within(&Body::default()) && within(&lacking(&ours)));
        assert!(!within(&lacking(&foreign)));
        assert!(!within(&Body { objects: vec![changes(&foreign)], ..Body::default() }));
        let takes = |change| Body {
            objects: vec![ObjectChanges { object: ours.clone().into(), changes: vec![change] }],
            ..Body::default()
        };
        let source = |object: &HObject| ObjectId::from(object.clone());
        assert!(within(&takes(ObjectChange::CloneOf(source(&ours)))));
        assert!(!within(&takes(ObjectChange::CloneOf(source(&foreign)))));
        assert!(!within(&takes(ObjectChange::CloneRange(source(&foreign), vec![(0, 1)]))));
        assert!(!within(&takes(ObjectChange::TakeOver(source(&foreign)))));
    }
}
