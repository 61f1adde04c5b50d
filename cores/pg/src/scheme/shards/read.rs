//! How an operation sees an object of which this copy has one shard.

use super::Shards;
use super::map::{Known, damaged};
use crate::pieces::{Pieces, Want};
use bytes::Bytes;
use objectstore::{Hold, Limit, ObjectStat, ObjectStore, Page, Read, Unread, View, Wish};
use std::cell::RefCell;
use std::ops::Range;
use types::{ObjectId, Rope, ShardId, SpgId};

/// A view in offsets of objects. It reads the own shard from the store, and others from the pieces that came for the job. What
/// lies on a shard that was given up is made of others.
///
/// What is not there is noted, all of one read together, before the read fails with [`Unread::Missing`]: its wish is what
/// the own store misses, and may be empty.
pub(crate) struct Eye<'a> {
    shards: &'a Shards,
    store: &'a dyn ObjectStore,
    pieces: &'a Pieces,
    wants: RefCell<Vec<Want>>,
}

/// The name of a shard.
fn shard_id(n: usize) -> ShardId {
    ShardId(i8::try_from(n).unwrap_or(i8::MAX))
}

impl<'a> Eye<'a> {
    /// Makes the view of one run.
    pub(crate) fn new(shards: &'a Shards, store: &'a dyn ObjectStore, pieces: &'a Pieces) -> Self {
        Self { shards, store, pieces, wants: RefCell::default() }
    }

    /// Gives what was missed on other shards.
    pub(crate) fn into_wants(self) -> Vec<Want> {
        self.wants.into_inner()
    }

    /// Returns what the record of an object says; `None` if the object is not there.
    pub(crate) fn known(&self, hold: Hold, object: &ObjectId) -> Read<Option<Known>> {
        let Some(stat) = self.store.stat(hold, object)? else { return Ok(None) };
        self.shards.known_here(object, &stat).map(Some)
    }

    /// Returns true if nothing can be had of a shard of an object.
    pub(crate) fn is_given_up(&self, object: &ObjectId, shard: usize) -> bool {
        self.pieces.is_given_up(&object.object, shard_id(shard))
    }

    /// Bytes of a data shard, wherever they come from; `None`: parts of others were noted as wanted.
    fn data(&self, hold: Hold, object: &ObjectId, known: &Known, shard: usize, range: Range<u64>) -> Read<Option<Rope>> {
        if !self.is_given_up(object, shard) {
            return self.part(hold, object, known, shard, range);
        }
        let made = self.shards.remake(self, hold, object, known, &[shard], range)?;
        Ok(made.into_iter().next())
    }

    /// Bytes of a shard, all of them before its end; `None`: they were noted as wanted.
    pub(crate) fn part(
        &self,
        hold: Hold,
        object: &ObjectId,
        known: &Known,
        shard: usize,
        range: Range<u64>,
    ) -> Read<Option<Rope>> {
        let len = range.end - range.start;
        let shard = shard_id(shard);
        if shard == object.shard {
            let data = self.store.read(hold, object, range.start, len)?;
            return if data.len() as u64 == len { Ok(Some(data)) } else { Err(damaged(object, "length of the shard")) };
        }
        let want = Want { object: object.object.clone(), version: known.version, shard, range };
        match self.pieces.read(&want) {
            Ok(data) => Ok(Some(data)),
            Err(range) => {
                self.wants.borrow_mut().push(Want { range, ..want });
                Ok(None)
            }
        }
    }

    /// Bytes of an object, all of them before its end.
    pub(crate) fn bytes(&self, hold: Hold, object: &ObjectId, known: &Known, range: Range<u64>) -> Read<Rope> {
        debug_assert!(range.end <= known.size);
        let geometry = self.shards.geometry(known.chunk);
        let mut parts: Vec<Option<(u64, Rope)>> = vec![None; self.shards.k()];
        let mut missed: Option<Wish> = None;
        for (shard, part) in parts.iter_mut().enumerate() {
            let share = geometry.share(range.clone(), shard);
            if share.is_empty() {
                continue;
            }
            match self.data(hold, object, known, shard, share.clone()) {
                Ok(Some(data)) => *part = Some((share.start, data)),
                Ok(None) => missed = missed.or(Some(Wish(Vec::new()))),
                Err(Unread::Missing(wish)) => missed = Some(wish),
                Err(damage) => return Err(damage),
            }
        }
        if let Some(wish) = missed {
            return Err(Unread::Missing(wish));
        }
        let mut data = Rope::new();
        for part in geometry.parts(range) {
            let Some((start, of)) = &parts[part.shard] else { continue };
            data.append(of.slice((part.place.start - start) as usize, (part.place.end - part.place.start) as usize));
        }
        Ok(data)
    }
}

impl View for Eye<'_> {
    fn stat(&self, hold: Hold, object: &ObjectId) -> Read<Option<ObjectStat>> {
        let Some(stat) = self.store.stat(hold, object)? else { return Ok(None) };
        let known = self.shards.known_here(object, &stat)?;
        Ok(Some(ObjectStat { size: known.size, ..stat }))
    }

    fn read(&self, hold: Hold, object: &ObjectId, offset: u64, len: u64) -> Read<Rope> {
        let Some(known) = self.known(hold, object)? else { return Ok(Rope::new()) };
        let end = offset.saturating_add(len).min(known.size);
        if offset >= end { Ok(Rope::new()) } else { self.bytes(hold, object, &known, offset..end) }
    }

    /// One extent: what of it is a hole is known by the shards alone.
    fn extents(&self, hold: Hold, object: &ObjectId, offset: u64, len: u64) -> Read<Vec<(u64, u64)>> {
        let Some(known) = self.known(hold, object)? else { return Ok(Vec::new()) };
        let end = offset.saturating_add(len).min(known.size);
        Ok(if offset < end { vec![(offset, end - offset)] } else { Vec::new() })
    }

    fn xattr(&self, hold: Hold, object: &ObjectId, name: &[u8]) -> Read<Option<Bytes>> {
        self.store.xattr(hold, object, name)
    }

    fn xattrs(&self, hold: Hold, object: &ObjectId) -> Read<Vec<(Bytes, Bytes)>> {
        self.store.xattrs(hold, object)
    }

    fn omap_header(&self, hold: Hold, object: &ObjectId) -> Read<Bytes> {
        self.store.omap_header(hold, object)
    }

    fn omap_scan(&self, hold: Hold, object: &ObjectId, range: objectstore::Range<'_>, limit: Limit) -> Read<Page> {
        self.store.omap_scan(hold, object, range, limit)
    }

    fn omap_get(&self, hold: Hold, object: &ObjectId, keys: &[Bytes]) -> Read<Vec<(Bytes, Bytes)>> {
        self.store.omap_get(hold, object, keys)
    }

    fn list(&self, hold: Hold, shard: ShardId, from: &ObjectId, to: &ObjectId, max: usize) -> Read<Vec<ObjectId>> {
        self.store.list(hold, shard, from, to, max)
    }

    fn meta_get(&self, hold: Hold, scope: &SpgId, key: &[u8]) -> Read<Option<Bytes>> {
        self.store.meta_get(hold, scope, key)
    }

    fn meta_scan(&self, hold: Hold, scope: &SpgId, range: objectstore::Range<'_>, limit: Limit) -> Read<Page> {
        self.store.meta_scan(hold, scope, range, limit)
    }

    fn scopes(&self, hold: Hold) -> Read<Vec<SpgId>> {
        self.store.scopes(hold)
    }
}

impl Shards {
    /// Returns what a copy answers that is asked for a part of its shard; `None`: it does not have that version of the
    /// object, or not so much of it. `object`: its name here.
    pub(crate) fn piece(&self, store: &dyn View, hold: Hold, object: &ObjectId, want: &Want) -> Read<Option<Rope>> {
        let Some(stat) = store.stat(hold, object)? else { return Ok(None) };
        let known = self.known_here(object, &stat)?;
        let fits = known.version == want.version && !want.range.is_empty() && want.range.end <= stat.size;
        if !fits {
            return Ok(None);
        }
        let len = want.range.end - want.range.start;
        let data = store.read(hold, object, want.range.start, len)?;
        Ok((data.len() as u64 == len).then_some(data))
    }
}
