//! Reading: the index and the data as they are now, for one owner of fetched things.

use crate::block::{BLOCK, Block, Cell, Patch, Place, RANGE, Where};
use crate::cache::Known;
use crate::checked::Checked;
use crate::counters::count;
use crate::held::Held;
use crate::index::delta::Delta;
use crate::index::keys;
use crate::index::page::{PageRef, Ptr};
use crate::index::tree::{AHEAD, Pages};
use crate::index::view::{View, nonsense};
use crate::names::plain;
use crate::onode::Onode;
use crate::store::Store;
use crate::wish::{Owner, wish_data, wish_page, wish_record};
use kernels::{SEED, crc32c};
use objectstore::{Damage, Read, Unread, Wish};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use types::{ObjectId, Rope};

/// The read view: a store as one owner sees it, with what was fetched for that owner.
pub(crate) struct Eye<'a> {
    pub(crate) store: &'a Store,
    pub(crate) held: Option<&'a Held>,
}

/// Most leaves that one owner asks for ahead.
const MOST_AHEAD: usize = 256;

/// Most blocks that are answered as one piece.
const LONG_RUN: u64 = 1024;

/// The result of reading a block that exists.
pub(crate) type Blocks = Read<Checked>;

fn missing<T>(wish: u64) -> Read<T> {
    Err(Unread::Missing(Wish(vec![wish])))
}

/// Adds what a read missed to what was missed so far. Damage is told at once.
pub(crate) fn gather<T>(read: Read<T>, wishes: &mut Vec<u64>) -> Read<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(Unread::Missing(wish)) => {
            wishes.extend(wish.0);
            Ok(None)
        }
        Err(damaged) => Err(damaged),
    }
}

/// Gives an error if something was missed. Each thing is wished for once: all that lies on one page of the index misses
/// that page.
pub(crate) fn all_there(mut wishes: Vec<u64>) -> Read<()> {
    let mut seen = BTreeSet::new();
    wishes.retain(|wish| seen.insert(*wish));
    if wishes.is_empty() { Ok(()) } else { Err(Unread::Missing(Wish(wishes))) }
}

impl Pages for Eye<'_> {
    fn page(&self, ptr: &Ptr) -> Read<PageRef> {
        let cached = self.store.caches.pages.get(ptr.block).filter(|page| page.crc == ptr.crc);
        if let Some(page) = cached.or_else(|| self.held.and_then(|h| h.page(ptr))) {
            count(&self.store.tally.page_hits);
            return Ok(page.clone());
        }
        let epoch = self.store.overlay.epoch();
        let stale = self.held.is_some_and(|h| h.page_failed(ptr, epoch));
        if stale {
            return Err(self.broken(ptr));
        }
        count(&self.store.tally.page_misses);
        self.store.pieces.note(ptr);
        missing(wish_page(ptr))
    }

    fn wish(&self, ptr: &Ptr) -> Option<u64> {
        self.store.caches.pages.get(ptr.block).is_none().then(|| {
            self.store.pieces.note(ptr);
            wish_page(ptr)
        })
    }

    fn ahead(&self) -> usize {
        // As many as were fetched so far: all begins of a scan together then look at twice the pages.
        self.held.map_or(AHEAD, |held| held.places().clamp(AHEAD, MOST_AHEAD))
    }

    fn broken(&self, ptr: &Ptr) -> Unread {
        count(&self.store.tally.damaged);
        let found = self.store.caches.pages.get(ptr.block).map_or(ptr.crc, |page| page.crc);
        let offset = ptr.block * BLOCK as u64;
        Unread::Damaged(Damage { what: "index page".into(), offset, expected: ptr.crc, found })
    }
}

impl<'a> Eye<'a> {
    /// The index, with the changes of `top` over it.
    pub(crate) fn view<'b>(&'b self, top: Option<&'b Delta>) -> View<'b, Eye<'a>> {
        let mut layers = SmallVec::new();
        layers.extend(top);
        layers.push(self.store.overlay.active());
        layers.extend(self.store.overlay.frozen());
        View { layers, root: self.store.sb.root.as_ref(), next_id: self.store.sb.next_id, pages: self }
    }

    /// Gives what is known about an object: its onode and its key.
    pub(crate) fn known(&self, object: &ObjectId) -> Read<Known> {
        self.with_known(object, |known| known.clone())
    }

    /// Gives an object's onode. None if there is no such object.
    pub(crate) fn onode(&self, object: &ObjectId) -> Read<Option<Onode>> {
        self.with_known(object, |known| known.onode.clone())
    }

    fn with_known<T>(&self, object: &ObjectId, use_it: impl FnOnce(&mut Known) -> T) -> Read<T> {
        let plain = plain(object);
        let object = &*plain;
        let mut onodes = self.store.caches.onodes.borrow_mut();
        if let Some(known) = onodes.get(object) {
            count(&self.store.tally.objects_found);
            return Ok(use_it(known));
        }
        count(&self.store.tally.objects_read);
        let key = keys::name(object);
        let onode = match self.view(None).get(&key)? {
            None => None,
            Some(value) => Some(Onode::decode(&value).ok_or_else(|| nonsense(&key))?.on_its_own()),
        };
        let mut known = Box::new(Known { key, onode, first: None });
        let result = use_it(&mut known);
        onodes.put(object.clone(), known);
        Ok(result)
    }

    /// Gives the places of the blocks in an object's range. The cache of onodes has the first range of an object that
    /// was looked at before.
    fn range(&self, object: &ObjectId, id: u64, range: u32) -> Read<Patch> {
        let epoch = self.store.overlay.epoch();
        if range > 0 {
            let mut ranges = self.store.caches.ranges.borrow_mut();
            if let Some((_, patch)) = ranges.get(&(id, range)).filter(|(at, _)| *at == epoch) {
                return Ok(patch.clone());
            }
            let patch = self.view(None).extents((id, range))?;
            ranges.put((id, range), (epoch, patch.clone()));
            return Ok(patch);
        }
        let cached =
            self.with_known(object, |known| known.first.as_ref().filter(|(e, _)| *e == epoch).map(|(_, p)| p.clone()))?;
        if let Some(patch) = cached {
            return Ok(patch);
        }
        let patch = self.view(None).extents((id, 0))?;
        self.with_known(object, |known| {
            if known.onode.as_ref().is_some_and(|o| o.id == id) {
                known.first = Some((epoch, patch.clone()));
            }
        })?;
        Ok(patch)
    }

    /// Gives up to `max` blocks, of which the first is `block` and the others are the next on disk. Only the first
    /// one's checksum is compared.
    pub(crate) fn blocks(&self, block: Block, max: u64, object: &dyn Fn() -> String, offset: u64) -> Blocks {
        let store = self.store;
        let damaged = |found: u32| {
            count(&store.tally.damaged);
            let what = format!("{} ({})", object(), store.whereabouts(block.place));
            Err(Unread::Damaged(Damage { what, offset, expected: block.crc, found }))
        };
        let (found, tried) = match block.place.place() {
            Where::Bad | Where::Staged(_) => return damaged(block.crc),
            Where::Journal(seq, index) => {
                let known = store.journal.block(seq, index).filter(|bytes| bytes.crc(0) == block.crc);
                let found = known.or_else(|| self.held.and_then(|h| h.record(seq, index, block.crc)));
                (found, self.held.is_some_and(|h| h.record_failed(seq)))
            }
            Where::Disk(at) => {
                // What was fetched for this very read is no second use of it, so the cache is not asked first. Memory
                // may hold what a faulty read brought.
                let right = |bytes: &Checked| bytes.crc(0) == block.crc;
                let held = self.held.and_then(|h| h.data(at, max, block.crc)).map(|(bytes, _)| bytes);
                let found = match held {
                    Some(bytes) if right(&bytes) => Some(bytes),
                    held => store.caches.blocks.get(at, max).or_else(|| store.writing.get(at)).filter(right).or(held),
                };
                (found, self.held.is_some_and(|h| h.data_failed(at, store.overlay.epoch())))
            }
        };
        match found {
            Some(bytes) if bytes.crc(0) == block.crc => {
                count(&store.tally.data_hits);
                Ok(bytes)
            }
            #[cfg(test)]
            Some(bytes) if store.mistake == Some(crate::mistake::Mistake::SkipChecksum) => Ok(bytes),
            found if tried => damaged(found.map_or(block.crc, |bytes| bytes.crc(0))),
            _ => missing(self.wish_for(block.place, 1)),
        }
    }

    fn wish_for(&self, place: Place, n: u32) -> u64 {
        count(&self.store.tally.data_misses);
        match place.place() {
            Where::Journal(seq, _) => wish_record(seq),
            Where::Disk(block) => wish_data(block, n),
            Where::Staged(_) | Where::Bad => unreachable!("neither is fetched"),
        }
    }

    /// `offset..end` of an object, which is not beyond its size.
    pub(crate) fn data(&self, id: u64, offset: u64, end: u64, object: &ObjectId) -> Read<Rope> {
        let (out, wishes) = (Rope::new(), Vec::new());
        let mut reading = Reading { eye: self, object, out, run: None, checksum: SEED, wishes, end, at: offset };
        while reading.at < end {
            let range = reading.at / BLOCK as u64 / RANGE;
            let stop = end.min((range + 1) * RANGE * BLOCK as u64);
            match self.range(object, id, range as u32) {
                Err(Unread::Damaged(damage)) => {
                    reading.range_above(&self.view(None).extents_above((id, range as u32)), stop, damage)?
                }
                read => match gather(read, &mut reading.wishes)? {
                    Some(patch) => reading.range(&patch, stop)?,
                    None => reading.at = stop,
                },
            }
        }
        reading.push_run();
        all_there(reading.wishes)?;
        Ok(reading.out.with_checksum(reading.checksum))
    }
}

/// Bytes in memory that answer blocks which follow each other on disk.
struct Run {
    blocks: Checked,
    from: usize,
    to: usize,
    last: Block,
}

/// A read on its way through an object's blocks.
struct Reading<'a, 'b> {
    eye: &'a Eye<'b>,
    object: &'a ObjectId,
    out: Rope,
    run: Option<Run>,
    /// The checksum of what is in `out`, as its receiver will want it.
    checksum: u32,
    wishes: Vec<u64>,
    end: u64,
    at: u64,
}

impl Reading<'_, '_> {
    fn range(&mut self, patch: &Patch, stop: u64) -> Read<()> {
        while self.at < stop {
            let index = (self.at / BLOCK as u64 % RANGE) as u32;
            let from = (self.at % BLOCK as u64) as usize;
            let n = (BLOCK - from).min((self.end - self.at) as usize);
            match patch.get(index) {
                Cell::Data(block) if self.continues(block, from) => {
                    let run = self.run.as_mut().expect("it continues");
                    (run.to, run.last) = (run.to + n, block);
                }
                Cell::Data(block) => self.first(block, u64::from(16 - index), from, n)?,
                _ => {
                    self.push_run();
                    let zeros = self.out.pieces().len();
                    self.out.push_zeros(n);
                    self.checksum = self.out.pieces()[zeros..].iter().fold(self.checksum, |crc, piece| crc32c(crc, piece));
                }
            }
            self.at += n as u64;
        }
        Ok(())
    }

    /// The same with what is known of a range above a damaged page of the index: what was written since can be read.
    fn range_above(&mut self, patch: &Patch, stop: u64, damage: Damage) -> Read<()> {
        let blocks = self.at / BLOCK as u64..stop.div_ceil(BLOCK as u64);
        if blocks.clone().any(|block| patch.get((block % RANGE) as u32) == Cell::Unset) {
            return Err(Unread::Damaged(damage));
        }
        self.range(patch, stop)
    }

    /// Returns true if `block` is the next one on disk and in memory: then it goes out in one piece with what is
    /// before it.
    fn continues(&self, block: Block, from: usize) -> bool {
        self.run.as_ref().is_some_and(|run| {
            from == 0
                && run.to.is_multiple_of(BLOCK)
                && block.place != Place::BAD
                && block.place == run.last.place.plus(1)
                && run.blocks.len() >= run.to + BLOCK
                && run.blocks.crc(run.to / BLOCK) == block.crc
        })
    }

    fn push_run(&mut self) {
        if let Some(run) = self.run.take() {
            self.checksum = run.blocks.append_to(self.checksum, run.from, run.to);
            self.out.push(run.blocks.bytes().slice(run.from..run.to));
        }
    }

    fn first(&mut self, block: Block, left: u64, from: usize, n: usize) -> Read<()> {
        self.push_run();
        let what = || self.object.to_string();
        // A longer run than this range may follow: what is in memory is taken as far as it goes.
        match self.eye.blocks(block, left.max(LONG_RUN), &what, self.at) {
            Ok(blocks) => self.run = Some(Run { blocks, from, to: from + n, last: block }),
            Err(Unread::Missing(wish)) => wish.0.into_iter().for_each(|w| self.wish(w)),
            Err(damaged) => return Err(damaged),
        }
        Ok(())
    }

    /// Adds a wish; blocks that follow each other on disk are read together.
    fn wish(&mut self, wish: u64) {
        if let Some(last) = self.wishes.last_mut() {
            let (n, block) = (*last >> 44 & 0xffff, *last & 0xfff_ffff_ffff);
            if *last == wish {
                return;
            }
            if *last >> 60 == 2 && n < 0xffff && wish == wish_data(block + n, 1) {
                *last = wish_data(block, n as u32 + 1);
                return;
            }
        }
        self.wishes.push(wish);
    }
}

impl Store {
    /// Returns where a block lies, for people.
    fn whereabouts(&self, place: Place) -> String {
        match place.place() {
            Where::Disk(block) => format!("byte {} of the data disk", block * BLOCK as u64),
            Where::Journal(seq, index) => match self.journal.location(seq) {
                Some((at, _)) => {
                    format!("byte {} of the journal's disk", (self.sb.ring_start + at + u64::from(index)) * BLOCK as u64)
                }
                None => "in the journal".into(),
            },
            Where::Bad => "found damaged before".into(),
            Where::Staged(_) => "in memory".into(),
        }
    }

    /// The store as `owner` sees it.
    pub(crate) fn eye(&self, owner: Owner) -> Eye<'_> {
        Eye { store: self, held: self.holds.get(&owner) }
    }
}
