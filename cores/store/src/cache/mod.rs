//! The store's caches keep parts of the disk in memory: blocks of data, index pages, onodes. Each has a bound, and each
//! may drop any entry.

mod blocks;
mod growth;
mod objects;
mod pages;

use crate::config::{ENTRY, Shares};
use blocks::BlockCache;
use foldhash::fast::FixedState;
use objects::{Generations, OnodeCache, RangeCache};
use pages::PageCache;
use std::cell::RefCell;
use std::hash::BuildHasher;
use types::ObjectId;

pub(crate) use objects::Known;

/// Entries that are dropped at a time, so that no request waits long.
const FEW: usize = 4096;

/// Hashes an object's name, with the same result in every run.
pub(crate) fn hash_object(object: &ObjectId) -> u64 {
    FixedState::with_seed(0).hash_one(object)
}

/// A hash map whose order is the same in every run. Nobody looks at the order.
type Hashed<K, V> = hashbrown::HashMap<K, V, FixedState>;

/// All caches of a store. Reads put into those of onodes and ranges what they worked out.
pub(crate) struct Caches {
    pub(crate) pages: PageCache,
    pub(crate) blocks: BlockCache,
    pub(crate) onodes: RefCell<OnodeCache>,
    pub(crate) ranges: RefCell<RangeCache>,
}

impl Caches {
    /// Empty caches.
    pub(crate) fn new(shares: &Shares) -> Self {
        Self {
            pages: PageCache::new(shares.pages),
            blocks: BlockCache::new(shares.blocks, shares.lendable()),
            onodes: RefCell::new(OnodeCache::new(shares.onodes)),
            ranges: RefCell::new(RangeCache::new(shares.ranges)),
        }
    }

    /// Forgets everything. Tables keep their memory.
    pub(crate) fn clear(&mut self, shares: &Shares) {
        self.pages = PageCache::new(shares.pages);
        self.blocks = BlockCache::new(shares.blocks, shares.lendable());
        self.onodes.get_mut().clear();
        self.ranges.get_mut().clear();
    }

    /// Sets the bounds.
    pub(crate) fn resize(&mut self, shares: &Shares) {
        self.pages.resize(shares.pages);
        self.onodes.get_mut().resize(shares.onodes);
        self.ranges.get_mut().resize(shares.ranges);
        self.blocks.resize(shares.blocks, shares.lendable());
        self.lend_unused(0);
    }

    /// Blocks of data take what the other caches do not use, until they do. What the store holds beside all shares takes
    /// of that first: `beside` bytes, and the heads of the entries here.
    pub(crate) fn lend_unused(&mut self, beside: usize) {
        let entries = self.onodes.get_mut().unused() + self.ranges.get_mut().unused();
        let unused = self.pages.unused() + entries * ENTRY;
        self.blocks.lend(unused.saturating_sub(beside + self.blocks.heads()));
    }

    /// Drops some of the onodes and ranges that are on their way out. False if there are none.
    pub(crate) fn let_go_some(&mut self) -> bool {
        self.onodes.get_mut().let_go(FEW) | self.ranges.get_mut().let_go(FEW)
    }

    /// Sends a generation of onodes and ranges on its way out.
    pub(crate) fn shed(&mut self) {
        self.onodes.get_mut().shed();
        self.ranges.get_mut().shed();
    }
}
