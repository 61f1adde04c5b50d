//! Whole objects in pieces, as they go to a copy that lacks them.
//!
//! An object of one piece replaces what the receiver has in one transaction. A larger one is collected under a name of its own
//! ([`staged`]) and takes the object's place with its last piece.

use crate::body::IndexChange;
use crate::changed::{END, Keys, Part};
use crate::info::ObjectInfo;
use crate::sizes::Sizes;
use bytes::Bytes;
use objectstore::{Hold, Limit, ObjectChange, ObjectChanges, Read, View};
use std::ops::Bound;
use types::{EVersion, HObject, ObjectId, PoolId, SnapId};

/// The pool in which objects lie that are being copied, as long as the copy is not complete.
pub(crate) fn staging_pool(pool: PoolId) -> PoolId {
    -2 - pool
}

/// Returns true if an object lies in such a pool.
pub(crate) fn is_staged(object: &HObject) -> bool {
    object.pool <= staging_pool(0)
}

/// The end of an object.
pub(crate) fn removal(object: ObjectId) -> ObjectChanges {
    ObjectChanges { object, changes: vec![ObjectChange::Remove] }
}

/// A group's place in the order of objects: from the first (included) to the second (excluded).
pub(crate) fn bounds(pool: i64, seed: u32, pg_num: u32) -> (HObject, HObject) {
    // Groups whose seed has no partner in the upper half yet hold one bit more.
    let top = pg_num.max(1).next_power_of_two();
    let half = top / 2;
    let folded_twice = half > 0 && seed < half && seed + half >= pg_num;
    let bits = top.trailing_zeros() - u32::from(folded_twice);
    let start = HObject::start_of_hash(pool, seed);
    let next = u64::from(seed.reverse_bits()) + (1u64 << (32 - bits));
    let end = match u32::try_from(next) {
        Ok(next) => HObject::start_of_hash(pool, next.reverse_bits()),
        Err(_) => HObject::start_of_hash(pool + 1, 0),
    };
    (start, end)
}

/// Beginning of a piece.
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
    /// Changes that make it, on an object that is not there yet. `Remove` alone: the object does not exist.
    pub(crate) changes: ObjectChanges,
    /// Place where the next one begins; `None` if this is the last.
    pub(crate) next: Option<PieceAt>,
}

impl Piece {
    /// Returns true if it says that the object is not there.
    pub(crate) fn is_nothing(&self) -> bool {
        self.changes.changes == [ObjectChange::Remove]
    }

    /// The version that the object's record in it names; `None`: it has none, or one that cannot be read.
    pub(crate) fn version(&self) -> Option<EVersion> {
        let record = self.changes.changes.iter().rev().find_map(|change| match change {
            ObjectChange::SetInfo(info) => ObjectInfo::decode(info).ok(),
            _ => None,
        });
        record.map(|info| info.version)
    }
}

/// Reads a piece of an object that is no larger than `sizes` say.
pub(crate) fn read_piece(store: &dyn View, hold: Hold, object: &ObjectId, at: &PieceAt, sizes: &Sizes) -> Read<Piece> {
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
        let end = (at.offset + sizes.piece).min(stat.size);
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
        let page =
            store.omap_scan(hold, object, (from, Bound::Unbounded), Limit { entries: usize::MAX, bytes: sizes.piece_omap })?;
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
pub(crate) fn read_part(store: &dyn View, hold: Hold, object: &ObjectId, part: &Part, sizes: &Sizes) -> Read<Option<Piece>> {
    let Some(stat) = store.stat(hold, object)? else { return Ok(None) };
    let bytes = part.bytes(stat.size);
    if bytes > sizes.piece || bytes > 0 && bytes == stat.size {
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
            let all = Limit { entries: usize::MAX, bytes: sizes.piece_omap };
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

/// Returns where the pieces of a large object are collected.
pub(crate) fn staged(object: &ObjectId) -> ObjectId {
    let name = format!("push.{}", object.object).into_bytes().into();
    let (pool, hash) = (staging_pool(object.pool), object.hash);
    let whole = HObject { pool, hash, nspace: Bytes::new(), key: Bytes::new(), name, snap: SnapId::HEAD, max: false };
    ObjectId::of_shard(whole, object.shard)
}

/// Returns what a copy does with a piece that begins at `at`, so that the object is as its pieces say when the last
/// one is there.
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

/// Returns what the group's index says about an object, by the record that came with it. A clone has no entries of its
/// own.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changed::Changed;
    use objectstore::memory::MemStore;
    use objectstore::{ObjectStore, Ticket, Transaction};
    use types::{Locator, Rope};

    const ALL: Limit = Limit { entries: usize::MAX, bytes: usize::MAX };

    struct Dice(u64);

    impl Dice {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % n
        }

        fn key(&mut self) -> Bytes {
            Bytes::from(format!("k{}", self.below(6)))
        }

        fn change(&mut self) -> ObjectChange {
            let (at, len) = (self.below(60_000), self.below(9_000));
            let value = Bytes::from(format!("v{}", self.below(1000)));
            match self.below(12) {
                0..4 => ObjectChange::Write(at, Rope::from(vec![u8::try_from(self.below(255)).unwrap_or(0) + 1; len as usize])),
                4 => ObjectChange::Zero(at, len),
                5 => ObjectChange::Truncate(at),
                6 => ObjectChange::SetXattr(self.key(), value),
                7 => ObjectChange::RemoveXattr(self.key()),
                8 => ObjectChange::OmapSet(vec![(self.key(), value)]),
                9 => ObjectChange::OmapRemove(vec![self.key()]),
                10 => ObjectChange::OmapRemoveRange(self.key(), self.key()),
                _ => ObjectChange::OmapHeader(value),
            }
        }
    }

    fn carry_out(store: &mut MemStore, object: &ObjectId, changes: Vec<ObjectChange>) {
        let objects = vec![ObjectChanges { object: object.clone(), changes }];
        store.submit(Transaction { objects, ..Transaction::default() }, Ticket(1)).expect("room");
    }

    fn content(store: &MemStore, object: &ObjectId) -> String {
        let read = || -> Read<String> {
            let stat = store.stat(Hold(0), object)?.expect("it is there");
            let (data, xattrs) = (store.read(Hold(0), object, 0, stat.size)?.to_vec(), store.xattrs(Hold(0), object)?);
            let omap = store.omap_scan(Hold(0), object, (Bound::Unbounded, Bound::Unbounded), ALL)?.entries;
            Ok(format!("{} {data:?} {:?} {xattrs:?} {omap:?} {:?}", stat.size, stat.info, store.omap_header(Hold(0), object)?))
        };
        read().expect("it can be read")
    }

    #[test]
    fn a_part_makes_the_older_version_the_newer_one() {
        let object = ObjectId::whole(HObject::head(Bytes::from_static(b"o"), &Locator::pool(1)));
        let (mut dice, mut in_part) = (Dice(7), 0);
        for _ in 0..400 {
            let mut newer = MemStore::new();
            carry_out(&mut newer, &object, (0..6).map(|_| dice.change()).collect());
            let mut older = MemStore::new();
            carry_out(&mut older, &object, whole(&newer, &object));
            let mut part = Part::default();
            for entry in 0..dice.below(5) {
                let mut changes: Vec<ObjectChange> = (0..=dice.below(2)).map(|_| dice.change()).collect();
                changes.push(ObjectChange::SetInfo(Bytes::from(format!("version {entry}"))));
                let Changed::Part(more) = Changed::of(&changes) else { panic!("nothing takes the object's place") };
                part.join(&more);
                carry_out(&mut newer, &object, changes);
            }
            if let Some(piece) = read_part(&newer, Hold(0), &object, &part, &Sizes::default()).expect("it can be read") {
                in_part += 1;
                carry_out(&mut older, &object, piece.changes.changes);
                assert_eq!(content(&older, &object), content(&newer, &object));
            }
        }
        assert!(in_part > 200, "{in_part} of 400 were read in part");
    }

    fn whole(store: &MemStore, object: &ObjectId) -> Vec<ObjectChange> {
        let piece = read_piece(store, Hold(0), object, &PieceAt::default(), &Sizes::default()).expect("it can be read");
        assert_eq!(piece.next, None);
        piece.changes.changes
    }
}
