//! The cache of data, and which of it stays.

use super::growth::{self, Growth};
use super::{FEW, Generations, Hashed};
use crate::block::BLOCK;
use crate::checked::Checked;
use node::Mono;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

/// Cached blocks: one entry of [`BlockCache`].
struct Blocks {
    value: Checked,
    /// True if the memory is a part of a larger buffer. The entry then keeps the whole buffer alive.
    shared: bool,
    hot: Cell<bool>,
    standing: Standing,
}

/// How an entry came into the cache, and whether somebody used it since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// A large write brought it. Nobody used it since.
    Written,
    /// A large read of blocks that nobody read of late brought it. Nobody used it since.
    Read,
    /// It came in another way. Nobody used it since.
    Fresh,
    /// Somebody used it since it came.
    Kept,
}

use Standing::{Fresh, Kept, Read, Written};

/// The cache's queues: which entries go first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Large writes and large reads share a queue, so that the memory of one serves the other.
    Streams,
    Fresh,
    Kept,
}

impl Standing {
    fn line(self) -> Line {
        match self {
            Written | Read => Line::Streams,
            Fresh => Line::Fresh,
            Kept => Line::Kept,
        }
    }
}

/// The first blocks of entries, oldest first. A reader skips one whose run is gone or has moved to another queue.
#[derive(Default)]
struct Queue {
    order: VecDeque<u64>,
    bytes: usize,
}

/// The cache of data: runs of blocks of the data disk, by first block. Runs never overlap. A hash finds single blocks,
/// which small objects have; longer runs are also found from their middle.
///
/// Entries that nobody used since they came go first, so that a long scan drives nothing else out. Then second chance
/// decides. Streams of large writes and large reads turn in a small part of the memory: most of them are never read
/// again soon, and filling new memory costs more than all else of such an operation. What comes a second time is kept.
/// The price: small random reads of what was written in large pieces meet the disk first.
pub(crate) struct BlockCache {
    /// Single blocks. Boxed for the same reason as [`super::OnodeCache`].
    singles: Hashed<u64, Box<Blocks>>,
    runs: BTreeMap<u64, Blocks>,
    queues: [Queue; 3],
    /// Runs that were read of late and then went: first block, and [`Growth::read`] of that moment.
    passed: Generations<u64, u64>,
    growth: Growth,
    /// First blocks of the entries that [`BlockCache::gather`] has still to copy.
    scattered: Vec<u64>,
    /// Bytes of its own memory, and bytes that are lent to it now ([`BlockCache::lend`]).
    own: usize,
    lent: usize,
}

/// One part in so many of the cache's own memory is for streams, and is the bound of one run. Lent memory does not
/// change it: a stream that grows takes new memory for nothing.
const STREAM: usize = 16;
/// Runs that went are remembered for so many times the cache's memory.
const REMEMBERED: usize = 2;
/// Bytes that an entry takes beside its blocks, roughly: in a table, in a queue, and itself.
const HEAD: usize = 160;
/// Most blocks of one entry. A part of a long run can then stay without the rest.
const LONGEST_RUN: u64 = 16;

/// Returns how many runs that went are remembered, for a cache of `memory` bytes.
fn remembered(memory: usize) -> usize {
    REMEMBERED * memory / (LONGEST_RUN as usize * BLOCK)
}

impl BlockCache {
    /// Makes an empty cache with `own` bytes of its own. It can be lent up to `lendable` bytes more.
    pub(crate) fn new(own: usize, lendable: usize) -> Self {
        let passed = Generations::new(remembered(own + lendable));
        Self {
            singles: Hashed::default(),
            runs: BTreeMap::new(),
            queues: Default::default(),
            passed,
            growth: Growth::new(),
            scattered: Vec::new(),
            own,
            lent: 0,
        }
    }

    /// Sets the cache's own memory to `own` bytes, and what it can be lent to `lendable` bytes.
    pub(crate) fn resize(&mut self, own: usize, lendable: usize) {
        self.own = own;
        self.lent = self.lent.min(lendable);
        self.passed.resize(remembered(own + lendable));
        self.fit();
    }

    /// Most bytes that the cache keeps now.
    fn limit(&self) -> usize {
        self.own + self.lent
    }

    /// Makes [`BlockCache::gather`] begin with all entries.
    pub(crate) fn begin_to_gather(&mut self) {
        self.scattered = self.queues.iter().flat_map(|queue| queue.order.iter().copied()).collect();
    }

    /// Copies up to `most` bytes of entries into new memory, and says whether there is more to copy. Used after much
    /// was dropped: what stays lies scattered over freed memory, and an allocator gives back only what is free as a
    /// whole.
    pub(crate) fn gather(&mut self, most: usize) -> bool {
        let mut gathered = 0;
        while gathered < most {
            let Some(block) = self.scattered.pop() else { return false };
            if let Some(entry) = self.entry(block) {
                (entry.value, entry.shared) = (entry.value.on_its_own(), false);
                gathered += entry.value.len();
            }
            if let Some(boxed) = self.singles.get_mut(&block) {
                // The box moves to new memory, too.
                let Blocks { value, shared, hot, standing } = &**boxed;
                let other = Box::new(Blocks { value: value.clone(), shared: *shared, hot: hot.clone(), standing: *standing });
                *boxed = other;
            }
        }
        !self.scattered.is_empty()
    }

    /// Lends memory of other caches to this one, `bytes` at most. They take it back when they need it.
    pub(crate) fn lend(&mut self, bytes: usize) {
        self.lent = bytes;
        self.shrink();
    }

    /// Drops entries until the cache fits its memory.
    fn fit(&mut self) {
        while self.queues[Line::Streams as usize].bytes > self.own / STREAM {
            self.evict(Line::Streams);
        }
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.bytes() > self.limit() {
            self.evict(self.victim());
        }
    }

    /// Gives up to `max` cached blocks from `block` on. None if `block` is not cached.
    pub(crate) fn get(&self, block: u64, max: u64) -> Option<Checked> {
        if let Some(entry) = self.singles.get(&block) {
            entry.hot.set(true);
            return Some(entry.value.clone());
        }
        let (start, entry) = self.runs.range(..=block).next_back()?;
        let from = block - start;
        if from >= entry.value.blocks() {
            return None;
        }
        entry.hot.set(true);
        Some(entry.value.part(from as usize, max))
    }

    /// Keeps blocks from `block` on, if the run is not too long. `shared`: the bytes are a part of a larger buffer.
    pub(crate) fn insert(&mut self, block: u64, value: Checked, shared: bool) {
        let standing = if value.blocks() >= LONGEST_RUN { self.standing_of_read(block, value.len()) } else { Fresh };
        self.insert_as(standing, block, value, shared);
    }

    /// Keeps blocks of a large write from `block` on.
    pub(crate) fn insert_written(&mut self, block: u64, value: Checked, shared: bool) {
        self.insert_as(Written, block, value, shared);
    }

    /// Most bytes of one run that are kept.
    fn largest(&self) -> usize {
        self.own / STREAM
    }

    /// Says how a long read that met the disk comes in: as a stream, or to stay.
    fn standing_of_read(&mut self, block: u64, bytes: usize) -> Standing {
        let went = self.passed.get(&block).copied();
        self.growth.came(bytes, went, REMEMBERED * self.limit());
        match went {
            // A run that is too long is not kept, and takes nothing from what others are allowed.
            Some(_) if bytes <= self.largest() && self.growth.allows(bytes, self.bytes(), self.limit()) => Kept,
            _ => Read,
        }
    }

    fn insert_as(&mut self, standing: Standing, block: u64, value: Checked, shared: bool) {
        let n = value.blocks();
        self.forget(block, n);
        if value.len() > self.largest() && n > 1 {
            return;
        }
        for at in (0..n).step_by(LONGEST_RUN as usize) {
            let (part, shared) = (value.part(at as usize, LONGEST_RUN), shared || n > LONGEST_RUN);
            match standing == Kept && value.len() >= growth::COPIED {
                true => self.insert_run(standing, block + at, part.on_its_own(), false),
                false => self.insert_run(standing, block + at, part, shared),
            }
        }
        self.fit();
        if self.queues.iter().map(|q| q.order.len()).sum::<usize>() > 2 * (self.singles.len() + self.runs.len()) + 64 {
            self.tidy();
        }
    }

    /// Gives credit for the time that has passed, and drops some of the remembered names.
    pub(crate) fn tick(&mut self, now: Mono) {
        self.growth.tick(now);
        self.passed.let_go(FEW);
    }

    /// Bytes of cached blocks.
    pub(crate) fn bytes(&self) -> usize {
        self.queues.iter().map(|q| q.bytes).sum()
    }

    /// Bytes that the entries take beside their blocks, roughly.
    pub(crate) fn heads(&self) -> usize {
        (self.singles.len() + self.runs.len()) * HEAD
    }

    fn insert_run(&mut self, standing: Standing, block: u64, value: Checked, shared: bool) {
        let queue = &mut self.queues[standing.line() as usize];
        queue.bytes += value.len();
        queue.order.push_back(block);
        let single = value.blocks() == 1;
        let entry = Blocks { value, shared, hot: Cell::new(false), standing };
        if single {
            self.singles.insert(block, Box::new(entry));
        } else {
            self.runs.insert(block, entry);
        }
    }

    fn entry(&mut self, start: u64) -> Option<&mut Blocks> {
        self.singles.get_mut(&start).map(|entry| &mut **entry).or_else(|| self.runs.get_mut(&start))
    }

    /// Chooses the queue from which the next entry goes. Entries that nobody used may have a quarter of the memory
    /// before others go.
    fn victim(&self) -> Line {
        let empty = |line: Line| self.queues[line as usize].order.is_empty();
        let few = self.queues[Line::Fresh as usize].bytes < self.limit() / 4;
        match (empty(Line::Fresh), empty(Line::Kept)) {
            (true, true) => Line::Streams,
            (false, true) => Line::Fresh,
            (fresh, false) if fresh || few => Line::Kept,
            (_, false) => Line::Fresh,
        }
    }

    /// Drops the oldest entry of a queue, or moves it to another queue when it was used.
    fn evict(&mut self, from: Line) {
        let Some(block) = self.queues[from as usize].order.pop_front() else { return };
        let Some(entry) = self.entry(block).filter(|e| e.standing.line() == from) else { return };
        let came = entry.standing;
        let (hot, long, len) = (entry.hot.replace(false), entry.value.blocks() == LONGEST_RUN, entry.value.len());
        if !hot || came != Kept && long && !self.growth.allows(len, self.bytes(), self.limit()) {
            if hot || came == Read {
                self.passed.put(block, self.growth.read());
            }
            return self.remove(block);
        }
        let Some(entry) = self.entry(block) else { return };
        entry.standing = Kept;
        if std::mem::take(&mut entry.shared) {
            // The entry outlives its neighbours, so it must not keep their memory.
            entry.value = entry.value.on_its_own();
        }
        let len = entry.value.len();
        self.queues[from as usize].bytes -= len;
        let kept = &mut self.queues[Line::Kept as usize];
        kept.bytes += len;
        kept.order.push_back(block);
    }

    fn remove(&mut self, start: u64) {
        if let Some(gone) = self.singles.remove(&start).map(|entry| *entry).or_else(|| self.runs.remove(&start)) {
            self.queues[gone.standing.line() as usize].bytes -= gone.value.len();
        }
    }

    /// Shortens the queues. A dropped entry leaves its place behind and one that came back has two; neither may add up.
    fn tidy(&mut self) {
        let (singles, runs) = (&self.singles, &self.runs);
        for line in [Line::Streams, Line::Fresh, Line::Kept] {
            let mut seen = std::collections::BTreeSet::new();
            let there =
                |b: &u64| singles.get(b).map(|entry| &**entry).or_else(|| runs.get(b)).is_some_and(|e| e.standing.line() == line);
            self.queues[line as usize].order.retain(|b| there(b) && seen.insert(*b));
        }
    }

    /// Drops `n` blocks from `block` on, because something else will be written there.
    pub(crate) fn forget(&mut self, block: u64, n: u64) {
        if !self.singles.is_empty() {
            (block..block + n).for_each(|b| {
                if self.singles.contains_key(&b) {
                    self.remove(b);
                }
            });
        }
        if self.runs.is_empty() {
            return;
        }
        let from = block.saturating_sub(LONGEST_RUN);
        let touched: Vec<u64> = (self.runs.range(from..block + n))
            .filter(|(start, entry)| **start + entry.value.blocks() > block)
            .map(|(start, _)| *start)
            .collect();
        touched.into_iter().for_each(|start| self.remove(start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(n: usize, fill: u8) -> Checked {
        Checked::new(vec![fill; n * BLOCK].into())
    }

    fn found(cache: &BlockCache, block: u64, max: u64) -> Option<(u64, u8)> {
        cache.get(block, max).map(|run| (run.blocks(), run.bytes()[0]))
    }

    #[test]
    fn runs_are_found_from_their_middle_and_forgotten_when_touched() {
        let mut cache = BlockCache::new(200 * BLOCK, 0);
        cache.insert(10, run(5, 1), false);
        cache.insert(20, run(5, 2), false);
        cache.insert(30, run(1, 4), false);
        assert_eq!(
            (found(&cache, 12, 2), found(&cache, 12, 9), found(&cache, 30, 9)),
            (Some((2, 1)), Some((3, 1)), Some((1, 4)))
        );
        assert_eq!((found(&cache, 15, 1), found(&cache, 31, 1)), (None, None));
        cache.insert(14, run(2, 3), false);
        assert_eq!((found(&cache, 13, 1), found(&cache, 15, 1)), (None, Some((1, 3))));
        cache.insert(28, run(3, 5), false);
        assert_eq!(found(&cache, 30, 1), Some((1, 5)));
        cache.forget(0, 1000);
        assert_eq!((bytes(&cache), found(&cache, 22, 1)), ([0; 3], None));
    }

    fn bytes(cache: &BlockCache) -> [usize; 3] {
        [Line::Streams, Line::Fresh, Line::Kept].map(|line| cache.queues[line as usize].bytes)
    }

    #[test]
    fn large_writes_turn_in_a_part_of_the_memory_but_stay_if_read() {
        let mut cache = BlockCache::new(1600 * BLOCK, 0);
        for i in 0..100 {
            cache.insert_written(i * 16, run(16, i as u8), false);
            cache.get(0, 1);
        }
        assert_eq!(bytes(&cache), [96, 0, 16].map(|n| n * BLOCK));
        assert!(cache.get(0, 1).is_some() && cache.get(16, 1).is_none() && cache.get(99 * 16, 1).is_some());
        cache.insert(5000, run(15, 1), false);
        assert_eq!(bytes(&cache), [96, 15, 16].map(|n| n * BLOCK));
        cache.forget(0, 6000);
        assert_eq!(bytes(&cache), [0; 3]);
    }

    #[test]
    fn large_reads_pass_until_they_come_again() {
        let mut cache = BlockCache::new(1600 * BLOCK, 0);
        let scan = |cache: &mut BlockCache| (0..20).for_each(|i| cache.insert(i * 32, run(32, i as u8), false));
        scan(&mut cache);
        assert_eq!(bytes(&cache), [96, 0, 0].map(|n| n * BLOCK), "a scan leaves little behind");
        for second in 1..4 {
            cache.tick(Mono(second * 1_000_000_000));
            (0..20)
                .filter(|i| cache.get(i * 32, 1).is_none())
                .collect::<Vec<u64>>()
                .into_iter()
                .for_each(|i| cache.insert(i * 32, run(32, 1), false));
        }
        assert_eq!(bytes(&cache), [96, 0, 17 * 32].map(|n| n * BLOCK), "what passed before is kept when it comes again");
        assert!((0..20).all(|i| cache.get(i * 32, 1).is_some()));
        cache.forget(0, 6000);
        assert_eq!(bytes(&cache), [0; 3]);
    }

    #[test]
    fn what_is_kept_of_long_runs_grows_at_a_pace() {
        let mut cache = BlockCache::new(1 << 30, 0);
        let scan = |cache: &mut BlockCache| {
            let missed: Vec<u64> = (0..32).map(|i| i * 1024).filter(|block| !cache.runs.contains_key(block)).collect();
            missed.into_iter().for_each(|block| cache.insert(block, run(1024, 1), false));
            bytes(cache)[Line::Kept as usize]
        };
        scan(&mut cache);
        let second = scan(&mut cache);
        assert!(second > 0 && second <= growth::PACE.at_once, "{second} at once");
        let mut third = second;
        for milli in (0..1000).step_by(25) {
            cache.tick(Mono(milli * 1_000_000));
            third = scan(&mut cache);
        }
        assert!(third > second + growth::PACE.second / 4 && third <= second + growth::PACE.second, "{third} a second later");
        assert!(cache.runs.values().all(|e| e.standing != Kept || !e.shared), "what is copied holds on to nothing else");
    }

    #[test]
    fn what_is_lent_is_used_and_given_back_when_it_is_asked_for() {
        let mut cache = BlockCache::new(64 * BLOCK, 36 * BLOCK);
        let mut kept_of = |lent: usize| {
            cache.lend(lent * BLOCK);
            let at_once = cache.bytes();
            (0..200).for_each(|block| cache.insert(block, run(1, 1), false));
            (at_once / BLOCK, cache.bytes() / BLOCK)
        };
        assert_eq!((kept_of(36), kept_of(10), kept_of(0), kept_of(36)), ((0, 100), (74, 74), (64, 64), (64, 100)));
    }

    #[test]
    fn caches_stay_below_their_limit_and_keep_what_is_used() {
        let mut cache = BlockCache::new(64 * BLOCK, 0);
        for i in 0..3000 {
            cache.insert(i * 8 % 1000, run(1 + i as usize % 3, i as u8), false);
            assert!(bytes(&cache).iter().sum::<usize>() <= 64 * BLOCK);
            assert!(cache.queues.iter().map(|q| q.order.len()).sum::<usize>() <= 200, "the queues stay short");
        }
        for block in 5000..5040 {
            cache.insert(block, run(1, 1), false);
            cache.get(block, 1);
        }
        for i in 0..300 {
            cache.insert(10_000 + i * 4, run(3, 2), false);
        }
        let left = (5000..5040).filter(|b| cache.get(*b, 1).is_some()).count();
        assert_eq!(left, 40, "a scan does not drive out what was used");
        let (held, hot) = (cache.bytes(), cache.get(5001, 1).expect("is there").bytes().as_ptr());
        cache.begin_to_gather();
        assert!(cache.gather(BLOCK) && !cache.gather(1 << 20));
        assert_eq!(cache.bytes(), held);
        assert_ne!(cache.get(5001, 1).expect("is there").bytes().as_ptr(), hot, "it has moved");
        cache.resize(8 * BLOCK, 0);
        assert!(cache.bytes() <= 8 * BLOCK && cache.queues[Line::Streams as usize].bytes <= BLOCK / 2);
    }
}
