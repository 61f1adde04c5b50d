//! What was fetched, and is kept for whoever asked.

use crate::checked::Checked;
use crate::index::page::{PageRef, Ptr};
use crate::wish::Item;
use node::Mono;
use std::collections::BTreeMap;

/// How often a damaged item is read before it counts as damaged. The fault may be one of reading only.
pub(crate) const TRIES: usize = 6;

/// What was fetched for one owner, and is kept for it.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Pages by their first block, with the number of flips when each was read.
    pages: BTreeMap<u64, Vec<(PageRef, u64)>>,
    pub(crate) data: Vec<(u64, Checked, u64)>,
    pub(crate) records: Vec<(u64, Checked)>,
    /// What could not be read, with the number of flips at that time: one entry for each try.
    pub(crate) failed: Vec<(Item, u64)>,
    /// Number of reads in flight.
    pub(crate) under_way: usize,
    /// Time when something was asked for last.
    pub(crate) asked_at: Mono,
    /// Number of transactions that the owner waits for.
    pub(crate) waits_for: usize,
}

impl Held {
    /// Places on the disk of which pages are held.
    pub(crate) fn places(&self) -> usize {
        self.pages.len()
    }

    pub(crate) fn page(&self, ptr: &Ptr) -> Option<&PageRef> {
        self.pages.get(&ptr.block)?.iter().rev().find(|(page, _)| page.crc == ptr.crc).map(|(page, _)| page)
    }

    /// Keeps a page that was read at `block`.
    pub(crate) fn keep_page(&mut self, block: u64, page: PageRef, epoch: u64) {
        self.pages.entry(block).or_default().push((page, epoch));
    }

    /// Says whether the page counts as damaged: each of the reads since the last flip failed or gave another page, and
    /// there were enough of them.
    pub(crate) fn page_failed(&self, ptr: &Ptr, epoch: u64) -> bool {
        let wrong = |(page, e): &&(PageRef, u64)| *e == epoch && page.crc != ptr.crc;
        let item = match ptr.pieces {
            None => Item::Page(ptr.block, ptr.blocks),
            Some(_) => Item::Pieces(ptr.block, ptr.blocks),
        };
        let unread = self.failed.iter().filter(|f| **f == (item, epoch)).count();
        unread + self.pages.get(&ptr.block).into_iter().flatten().filter(wrong).count() >= TRIES
    }

    /// Gives up to `max` blocks from `block` on whose first checksum is `crc`, and the number of flips when they were
    /// read. If no read gave that checksum, gives what the last one gave.
    pub(crate) fn data(&self, block: u64, max: u64, crc: u32) -> Option<(Checked, u64)> {
        let reads = || self.data.iter().rev().filter(|(start, run, _)| (*start..start + run.blocks()).contains(&block));
        let right = reads().find(|(start, run, _)| run.crc((block - start) as usize) == crc);
        let (start, run, epoch) = right.or_else(|| reads().next())?;
        Some((run.part((block - start) as usize, max), *epoch))
    }

    /// Says whether the block was read often enough since the last flip.
    pub(crate) fn data_failed(&self, block: u64, epoch: u64) -> bool {
        let covers = |item: &Item| matches!(item, Item::Data(start, n) if (*start..start + u64::from(*n)).contains(&block));
        let unread = self.failed.iter().filter(|(item, e)| *e == epoch && covers(item)).count();
        let read = |(start, run, e): &&(u64, Checked, u64)| *e == epoch && (*start..start + run.blocks()).contains(&block);
        unread + self.data.iter().filter(read).count() >= TRIES
    }

    /// Gives a block of a journal record whose checksum is `crc`. If no read gave that checksum, gives what the last
    /// one gave.
    pub(crate) fn record(&self, seq: u64, index: u32, crc: u32) -> Option<Checked> {
        let reads = || self.records.iter().rev().filter(|(s, run)| *s == seq && u64::from(index) < run.blocks());
        let right = reads().find(|(_, run)| run.crc(index as usize) == crc);
        right.or_else(|| reads().next()).map(|(_, run)| run.part(index as usize, 1))
    }

    /// Says whether the record was read often enough.
    pub(crate) fn record_failed(&self, seq: u64) -> bool {
        let unread = self.failed.iter().filter(|(item, _)| *item == Item::Record(seq)).count();
        unread + self.records.iter().filter(|(s, _)| *s == seq).count() >= TRIES
    }

    /// Says whether everything that the owner asked for has come.
    pub(crate) fn complete(&self) -> bool {
        self.under_way == 0 && self.waits_for == 0
    }
}
