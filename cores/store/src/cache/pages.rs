//! The cache of the index.

use super::Hashed;
use crate::index::page::PageRef;
use std::cell::Cell;
use std::collections::VecDeque;

/// Bytes that an entry takes beside its page: of the map, of the queue, and of the page's own head.
const HEAD: usize = 128;

struct Slot<T> {
    value: T,
    hot: Cell<bool>,
}

/// The cache of index pages, by first block.
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

    /// Bytes of cached pages.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that the cache could still keep.
    pub(crate) fn unused(&self) -> usize {
        self.limit.saturating_sub(self.bytes)
    }

    pub(crate) fn get(&self, block: u64) -> Option<&PageRef> {
        let slot = self.pages.get(&block)?;
        slot.hot.set(true);
        Some(&slot.value)
    }

    pub(crate) fn insert(&mut self, block: u64, page: PageRef) {
        if page.size() + HEAD > self.limit {
            self.forget(block);
            return;
        }
        self.bytes += page.size() + HEAD;
        // Inner pages get a head start: every look-up goes through them.
        let hot = Cell::new(page.level() > 0);
        match self.pages.insert(block, Slot { value: page, hot }) {
            Some(old) => self.bytes -= old.value.size() + HEAD,
            None => self.queue.push_back(block),
        }
        self.resize(self.limit);
    }

    /// Sets the cache's memory to `limit` bytes.
    pub(crate) fn resize(&mut self, limit: usize) {
        self.limit = limit;
        while self.bytes > limit {
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

    /// Drops the page at `block`, because something else will be written there.
    pub(crate) fn forget(&mut self, block: u64) {
        if let Some(old) = self.pages.remove(&block) {
            self.bytes -= old.value.size() + HEAD;
        }
        // The page's place in the queue is skipped when it comes up. A page that comes back meanwhile is queued twice.
        // That does no harm, but must not add up.
        if self.queue.len() > 2 * self.pages.len() + 64 {
            let pages = &self.pages;
            let mut seen: std::collections::BTreeSet<u64> = std::collections::BTreeSet::new();
            self.queue.retain(|b| pages.contains_key(b) && seen.insert(*b));
        }
    }
}
