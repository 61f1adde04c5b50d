//! What is kept in memory of the disk: blocks of data, index pages, onodes. All bounded; all may forget anything.

use crate::block::BLOCK;
use crate::index::page::PageRef;
use crate::onode::Onode;
use bytes::Bytes;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use types::HObject;

/// A fast hasher without a seed: the order of its maps is never looked at.
#[derive(Default)]
pub(crate) struct FixedHasher(u64);

const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for FixedHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|w| self.write_u64(u64::from_le_bytes(*w)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.write_u64(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(23) ^ n).wrapping_mul(MIX);
        self.0 ^= self.0 >> 32;
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }
    fn write_u8(&mut self, n: u8) {
        self.write_u64(n.into());
    }
    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
}

/// An object's name as a number.
pub(crate) fn hash_object(object: &HObject) -> u64 {
    let mut hasher = FixedHasher::default();
    object.hash(&mut hasher);
    hasher.finish()
}

/// A hash map whose order is always the same, and never looked at.
#[allow(clippy::disallowed_types)]
type Hashed<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<FixedHasher>>;

struct Slot<T> {
    value: T,
    hot: Cell<bool>,
}

/// Runs of blocks of the data disk, by first block; they never overlap. Second chance decides who goes.
pub(crate) struct BlockCache {
    runs: BTreeMap<u64, Slot<Bytes>>,
    bytes: usize,
    limit: usize,
    hand: u64,
    longest: u64,
}

impl BlockCache {
    pub(crate) fn new(limit: usize) -> Self {
        Self { runs: BTreeMap::new(), bytes: 0, limit, hand: 0, longest: 1 }
    }

    /// Up to `max` blocks from `block` on, if the first is there.
    pub(crate) fn get(&self, block: u64, max: u64) -> Option<Bytes> {
        let (start, slot) = self.runs.range(..=block).next_back()?;
        let from = (block - start) as usize * BLOCK;
        if from >= slot.value.len() {
            return None;
        }
        slot.hot.set(true);
        let len = (slot.value.len() - from).min(max as usize * BLOCK);
        Some(slot.value.slice(from..from + len))
    }

    /// Keeps whole blocks.
    pub(crate) fn insert(&mut self, block: u64, bytes: Bytes) {
        let n = (bytes.len() / BLOCK) as u64;
        if n == 0 || bytes.len() > self.limit {
            return;
        }
        self.forget(block, n);
        self.longest = self.longest.max(n);
        self.bytes += bytes.len();
        self.runs.insert(block, Slot { value: bytes, hot: Cell::new(false) });
        while self.bytes > self.limit {
            self.evict();
        }
    }

    fn evict(&mut self) {
        let Some((&start, slot)) = self.runs.range(self.hand..).next().or_else(|| self.runs.iter().next()) else { return };
        self.hand = start + 1;
        if !slot.hot.replace(false) {
            self.bytes -= slot.value.len();
            self.runs.remove(&start);
        }
    }

    /// Something else will be in these blocks.
    pub(crate) fn forget(&mut self, block: u64, n: u64) {
        let from = block.saturating_sub(self.longest);
        let touched: Vec<u64> = (self.runs.range(from..block + n))
            .filter(|(start, slot)| **start + (slot.value.len() / BLOCK) as u64 > block)
            .map(|(start, _)| *start)
            .collect();
        for start in touched {
            let slot = self.runs.remove(&start).expect("just seen");
            self.bytes -= slot.value.len();
        }
    }
}

/// Index pages by first block.
pub(crate) struct PageCache {
    pages: Hashed<u64, Slot<PageRef>>,
    queue: VecDeque<u64>,
    bytes: usize,
    limit: usize,
}

impl PageCache {
    pub(crate) fn new(limit: usize) -> Self {
        Self { pages: Hashed::default(), queue: VecDeque::new(), bytes: 0, limit }
    }

    pub(crate) fn get(&self, block: u64) -> Option<&PageRef> {
        let slot = self.pages.get(&block)?;
        slot.hot.set(true);
        Some(&slot.value)
    }

    pub(crate) fn insert(&mut self, block: u64, page: PageRef) {
        if page.size() > self.limit {
            self.forget(block);
            return;
        }
        self.bytes += page.size();
        // Inner pages get a head start: every look-up goes through them.
        let hot = Cell::new(page.level() > 0);
        match self.pages.insert(block, Slot { value: page, hot }) {
            Some(old) => self.bytes -= old.value.size(),
            None => self.queue.push_back(block),
        }
        while self.bytes > self.limit {
            self.evict();
        }
    }

    fn evict(&mut self) {
        let Some(block) = self.queue.pop_front() else { return };
        match self.pages.get(&block) {
            Some(slot) if slot.hot.replace(false) => self.queue.push_back(block),
            Some(_) => self.forget(block),
            None => (),
        }
    }

    /// Something else will be there.
    pub(crate) fn forget(&mut self, block: u64) {
        if let Some(old) = self.pages.remove(&block) {
            self.bytes -= old.value.size();
        }
        // Its place in the queue is skipped when it comes up; a page that comes back meanwhile is queued twice, which does no harm
        // but must not add up.
        if self.queue.len() > 2 * self.pages.len() + 64 {
            let pages = &self.pages;
            let mut seen: std::collections::BTreeSet<u64> = std::collections::BTreeSet::new();
            self.queue.retain(|b| pages.contains_key(b) && seen.insert(*b));
        }
    }
}

/// An object's onode as it is now (none: there is no such object), with the key that it has in the index.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) key: Bytes,
    pub(crate) onode: Option<Onode>,
}

/// Onodes of objects that were used of late: two generations, of which the older goes as a whole.
pub(crate) struct OnodeCache {
    young: Hashed<HObject, Known>,
    old: Hashed<HObject, Known>,
    limit: usize,
}

impl OnodeCache {
    /// At most about `limit` onodes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { young: Hashed::default(), old: Hashed::default(), limit: limit.max(16) }
    }

    pub(crate) fn get(&mut self, object: &HObject) -> Option<Known> {
        if let Some(known) = self.young.get(object) {
            return Some(known.clone());
        }
        let (object, known) = self.old.remove_entry(object)?;
        self.put(object, known.clone());
        Some(known)
    }

    pub(crate) fn put(&mut self, object: HObject, known: Known) {
        if let Some(slot) = self.young.get_mut(&object) {
            *slot = known;
            return;
        }
        self.old.remove(&object);
        if self.young.len() >= self.limit / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(object, known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(n: usize, fill: u8) -> Bytes {
        vec![fill; n * BLOCK].into()
    }

    #[test]
    fn runs_are_found_from_their_middle_and_forgotten_when_touched() {
        let mut cache = BlockCache::new(100 * BLOCK);
        cache.insert(10, run(5, 1));
        cache.insert(20, run(5, 2));
        assert_eq!(cache.get(12, 2), Some(run(2, 1)));
        assert_eq!(cache.get(12, 9), Some(run(3, 1)));
        assert_eq!(cache.get(15, 1), None);
        cache.insert(14, run(2, 3));
        assert_eq!((cache.get(13, 1), cache.get(15, 1)), (None, Some(run(1, 3))));
        cache.forget(0, 1000);
        assert_eq!((cache.bytes, cache.get(22, 1)), (0, None));
    }

    #[test]
    fn caches_stay_below_their_limit_and_keep_what_is_used() {
        let mut cache = BlockCache::new(10 * BLOCK);
        for i in 0..100 {
            cache.insert(i * 2, run(1, i as u8));
            assert!(cache.bytes <= 10 * BLOCK);
            cache.get(0, 1);
        }
        assert!(cache.get(0, 1).is_some());
        let mut onodes = OnodeCache::new(20);
        for i in 0..100 {
            onodes.put(HObject::start_of_hash(1, i), Known { key: Bytes::new(), onode: None });
            onodes.get(&HObject::start_of_hash(1, 0));
            assert!(onodes.young.len() + onodes.old.len() <= 20);
        }
        assert!(onodes.get(&HObject::start_of_hash(1, 0)).is_some());
    }
}
