//! Counters of a store. `perf dump` of an OSD shows them.

use std::cell::Cell;

/// What a store counted since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Transactions that became durable.
    pub commits: u64,
    /// Journal groups written.
    pub groups: u64,
    /// Bytes written to the journal.
    pub journal_bytes: u64,
    /// Bytes of data written to extents at once (large writes).
    pub direct_bytes: u64,
    /// Bytes of data moved from the journal to extents.
    pub moved_bytes: u64,
    /// Bytes of zeros written to space that is kept ready.
    pub ahead_bytes: u64,
    /// Bytes of index pages written.
    pub index_bytes: u64,
    /// Number of checkpoints that were completed.
    pub checkpoints: u64,
    /// Runs of data blocks found in memory by reads.
    pub data_hits: u64,
    /// Runs of data blocks that reads had to fetch.
    pub data_misses: u64,
    /// Index pages found in memory.
    pub page_hits: u64,
    /// Index pages that had to be fetched.
    pub page_misses: u64,
    /// Entries of objects found in memory.
    pub objects_found: u64,
    /// Entries of objects that were looked for in the index.
    pub objects_read: u64,
    /// Reads that found damage.
    pub damaged: u64,
    /// Transactions that waited for something to be read before they could be carried out.
    pub stalled: u64,
    /// What defragmentation did.
    pub defrag: Defrag,
    /// Commit latency: bucket `i` counts commits that took less than `2^i` microseconds (and not less than half of it).
    pub commit_latency: [u64; 32],
}

/// What defragmentation did since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defrag {
    /// Walks through all objects that came to their end.
    pub walks: u64,
    /// Parts of objects that were looked at.
    pub looked: u64,
    /// Parts that were written again in one piece.
    pub parts: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Runs in which these had lain.
    pub runs: u64,
    /// Parts that were left because they changed while they were read.
    pub changed: u64,
    /// Parts that were left because a block of them is damaged.
    pub damaged: u64,
    /// While clients ask for something, the pause behind a step is so many times as long as the step took.
    pub yields: u32,
}

/// What a store holds in memory now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of cached blocks of data.
    pub blocks: usize,
    /// Bytes of cached index pages.
    pub pages: usize,
    /// Bytes of data that is in the journal only, and of the journal groups that it keeps in memory.
    pub records: usize,
    /// Bytes of index changes since the last checkpoint.
    pub delta: usize,
    /// Bytes of the maps of free blocks.
    pub maps: usize,
    /// Number of cached onodes.
    pub onodes: usize,
    /// Number of cached ranges of larger objects.
    pub ranges: usize,
}

impl Counters {
    pub(crate) fn latency(&mut self, took: std::time::Duration) {
        let micros = took.as_micros() as u64;
        self.commit_latency[(64 - micros.leading_zeros() as usize).min(31)] += 1;
    }
}

/// Counts of reads, which change nothing else.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) data_hits: Cell<u64>,
    pub(crate) data_misses: Cell<u64>,
    pub(crate) page_hits: Cell<u64>,
    pub(crate) page_misses: Cell<u64>,
    pub(crate) damaged: Cell<u64>,
    pub(crate) objects_found: Cell<u64>,
    pub(crate) objects_read: Cell<u64>,
}

/// Adds one to a counter.
pub(crate) fn count(cell: &Cell<u64>) {
    cell.set(cell.get() + 1);
}

impl Tally {
    pub(crate) fn add_to(&self, mut counters: Counters) -> Counters {
        counters.data_hits += self.data_hits.get();
        counters.data_misses += self.data_misses.get();
        counters.page_hits += self.page_hits.get();
        counters.page_misses += self.page_misses.get();
        counters.damaged += self.damaged.get();
        counters.objects_found += self.objects_found.get();
        counters.objects_read += self.objects_read.get();
        counters
    }
}
