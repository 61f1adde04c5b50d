//! Whole objects in pieces, as they go to a copy that lacks them.
//!
//! An object of one piece replaces what the receiver has in one transaction. A larger one is collected under a name of its own
//! ([`staged`]) and takes the object's place with its last piece.

use crate::body::IndexChange;
use crate::changed::{END, Keys, Part};
use crate::info::ObjectInfo;
use crate::load::staging_pool;
use bytes::Bytes;
use objectstore::{Hold, Limit, ObjectChange, ObjectChanges, Read, View};
use std::ops::Bound;
use types::{HObject, ObjectId, SnapId};

/// Most bytes of data in one piece, and of omap.
const DATA: u64 = 4 << 20;
const OMAP: usize = 1 << 20;

/// Where a piece begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PieceAt {
    /// Data from here on.
    pub(crate) offset: u64,
    /// All data is done: omap entries behind this key.
    pub(crate) omap: bool,
    pub(crate) after: Bytes,
}

impl PieceAt {
    pub(crate) fn is_first(&self) -> bool {
        *self == Self::default()
    }
}

/// A part of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// What makes it, on an object that is not there yet. `Remove` alone: the object does not exist.
    pub(crate) changes: ObjectChanges,
    /// Where the next one begins; `None` if this is the last.
    pub(crate) next: Option<PieceAt>,
}

impl Piece {
    /// Whether it says that the object is not there.
    pub(crate) fn is_nothing(&self) -> bool {
        self.changes.changes == [ObjectChange::Remove]
    }
}

/// Reads a piece of an object.
pub(crate) fn read_piece(store: &dyn View, hold: Hold, object: &ObjectId, at: &PieceAt) -> Read<Piece> {
    let Some(stat) = store.stat(hold, object)? else {
        let changes = ObjectChanges { object: object.clone(), changes: vec![ObjectChange::Remove] };
        return Ok(Piece { changes, next: None });
    };
    let mut changes = Vec::new();
    if at.is_first() {
        changes.push(ObjectChange::Create);
        changes.push(ObjectChange::SetInfo(stat.info));
        changes.extend(store.xattrs(hold, object)?.into_iter().map(|(name, value)| ObjectChange::SetXattr(name, value)));
        let header = store.omap_header(hold, object)?;
        if !header.is_empty() {
            changes.push(ObjectChange::OmapHeader(header));
        }
    }
    let mut next = None;
    if !at.omap {
        let end = (at.offset + DATA).min(stat.size);
        for (start, len) in store.extents(hold, object, at.offset, end - at.offset.min(end))? {
            changes.push(ObjectChange::Write(start, store.read(hold, object, start, len)?));
        }
        if end < stat.size {
            next = Some(PieceAt { offset: end, ..PieceAt::default() });
        } else {
            changes.push(ObjectChange::Truncate(stat.size));
        }
    }
    if next.is_none() && stat.has_omap {
        let from = if at.after.is_empty() { Bound::Unbounded } else { Bound::Excluded(&at.after[..]) };
        let page = store.omap_scan(hold, object, (from, Bound::Unbounded), Limit { entries: usize::MAX, bytes: OMAP })?;
        if let (true, Some((last, _))) = (page.more, page.entries.last()) {
            next = Some(PieceAt { offset: stat.size, omap: true, after: last.clone() });
        }
        if !page.entries.is_empty() {
            changes.push(ObjectChange::OmapSet(page.entries));
        }
    }
    Ok(Piece { changes: ObjectChanges { object: object.clone(), changes }, next })
}

/// Reads a part of an object, to be put into an older version of it: record, size and all that `part` names. `None` if that is no
/// less than the object, or more than fits into one piece.
pub(crate) fn read_part(store: &dyn View, hold: Hold, object: &ObjectId, part: &Part) -> Read<Option<Piece>> {
    let Some(stat) = store.stat(hold, object)? else { return Ok(None) };
    let bytes = part.bytes(stat.size);
    if bytes > DATA || bytes > 0 && bytes == stat.size {
        return Ok(None);
    }
    let mut changes = vec![ObjectChange::SetInfo(stat.info)];
    if part.attrs {
        changes.push(ObjectChange::ClearXattrs);
        changes.extend(store.xattrs(hold, object)?.into_iter().map(|(name, value)| ObjectChange::SetXattr(name, value)));
    }
    for range in part.data.ranges() {
        if range.end == END {
            // Nothing of the older version stays from here on. Of a block that is cut in the middle a part would.
            changes.push(ObjectChange::Truncate(range.start));
        }
        let (mut at, end) = (range.start, range.end.min(stat.size));
        for (start, len) in store.extents(hold, object, at, end.saturating_sub(at))? {
            changes.extend((start > at).then(|| ObjectChange::Zero(at, start - at)));
            changes.push(ObjectChange::Write(start, store.read(hold, object, start, len)?));
            at = start + len;
        }
        changes.extend((end > at).then(|| ObjectChange::Zero(at, end - at)));
    }
    changes.push(ObjectChange::Truncate(stat.size));
    let header = store.omap_header(hold, object)?;
    match &part.omap {
        Keys::Some(keys) => {
            let keys: Vec<Bytes> = keys.iter().cloned().collect();
            let found = store.omap_get(hold, object, &keys)?;
            let gone: Vec<Bytes> = keys.into_iter().filter(|key| !found.iter().any(|(there, _)| there == key)).collect();
            changes.extend((!gone.is_empty()).then_some(ObjectChange::OmapRemove(gone)));
            changes.extend((!found.is_empty()).then_some(ObjectChange::OmapSet(found)));
        }
        Keys::All => {
            let all = Limit { entries: usize::MAX, bytes: OMAP };
            let page = store.omap_scan(hold, object, (Bound::Unbounded, Bound::Unbounded), all)?;
            if page.more {
                return Ok(None);
            }
            changes.push(ObjectChange::OmapClear);
            changes.extend((!page.entries.is_empty()).then_some(ObjectChange::OmapSet(page.entries)));
        }
    }
    if !header.is_empty() {
        changes.push(ObjectChange::OmapHeader(header));
    }
    Ok(Some(Piece { changes: ObjectChanges { object: object.clone(), changes }, next: None }))
}

/// Where the pieces of a large object are collected.
pub(crate) fn staged(object: &ObjectId) -> ObjectId {
    let name = format!("push.{}", object.object).into_bytes().into();
    let (pool, hash) = (staging_pool(object.pool), object.hash);
    let whole = HObject { pool, hash, nspace: Bytes::new(), key: Bytes::new(), name, snap: SnapId::HEAD, max: false };
    ObjectId::of_shard(whole, object.shard)
}

/// What a copy does with a piece that begins at `at`, so that the object is as its pieces say when the last one is there.
pub(crate) fn place(at: &PieceAt, piece: Piece) -> Vec<ObjectChanges> {
    let Piece { changes: ObjectChanges { object, mut changes }, next } = piece;
    if at.is_first() && next.is_none() {
        if changes != [ObjectChange::Remove] {
            changes.insert(0, ObjectChange::Remove);
        }
        return vec![ObjectChanges { object, changes }];
    }
    let collected = staged(&object);
    if at.is_first() {
        changes.insert(0, ObjectChange::Remove);
    }
    let mut all = vec![ObjectChanges { object: collected.clone(), changes }];
    if next.is_none() {
        all.push(ObjectChanges { object, changes: vec![ObjectChange::CloneOf(collected.clone())] });
        all.push(ObjectChanges { object: collected, changes: vec![ObjectChange::Remove] });
    }
    all
}

/// What the group's index says about an object, by the record that came with it. A clone has no entries of its own.
pub(crate) fn index_of(object: &HObject, changes: &[ObjectChange]) -> Vec<IndexChange> {
    if !object.is_head() {
        return Vec::new();
    }
    let record = changes.iter().rev().find_map(|change| match change {
        ObjectChange::SetInfo(info) => Some(ObjectInfo::decode(info)),
        _ => None,
    });
    let Some(Ok(info)) = record else { return vec![IndexChange::Unwatched(object.clone())] };
    let snaps = info.snaps.clones.iter().flat_map(|clone| &clone.snaps);
    let mut index: Vec<IndexChange> = snaps.map(|snap| IndexChange::Snap(*snap, object.clone())).collect();
    index.push(match info.watchers.is_empty() {
        true => IndexChange::Unwatched(object.clone()),
        false => IndexChange::Watched(object.clone()),
    });
    index
}
