//! What always holds of a store between two calls. The simulator asks after every turn; nobody else pays for it.

use crate::block::{RANGE, Where};
use crate::index::delta::Delta;
use crate::store::Store;
use std::collections::BTreeSet;

/// Refuses with a sentence unless `$holds`.
macro_rules! holds {
    ($holds:expr, $($text:tt)*) => {
        if !$holds {
            return Err(format!($($text)*));
        }
    };
}

impl Store {
    /// Looks at what the store knows of itself twice. `thorough`: also goes through the changes in memory and the map of free blocks.
    ///
    /// # Errors
    /// A sentence that says what does not hold.
    pub fn self_check(&self, thorough: bool) -> Result<(), String> {
        if !self.ready() || self.failure.is_some() {
            return Ok(());
        }
        self.pipeline.self_check()?;
        self.journal.self_check()?;
        if let Some(c) = self.checkpoint.as_ref().filter(|c| !c.in_pieces) {
            holds!(
                c.pages_taken() <= c.reserved,
                "a checkpoint took {} blocks for pages, {} were kept back",
                c.pages_taken(),
                c.reserved
            );
        }
        let frozen = self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.promised());
        self.space.self_check(self.overlay.epoch(), frozen, thorough)?;
        if thorough { self.check_places(frozen) } else { Ok(()) }
    }

    /// Blocks that changes in memory refer to are not free; those in the journal have a record and a promise.
    fn check_places(&self, frozen: u64) -> Result<(), String> {
        let active = self.journal_blocks(self.overlay.active())?;
        let promised = self.space.promised() - frozen;
        holds!(active <= promised, "{active} blocks of the active delta are in the journal, {promised} are promised");
        self.overlay.frozen().map_or(Ok(0), |frozen| self.journal_blocks(frozen)).map(drop)
    }

    /// Returns how many blocks of the journal a delta refers to. What a transaction writes and clones at once is one
    /// block for both objects.
    fn journal_blocks(&self, delta: &Delta) -> Result<u64, String> {
        let mut found = BTreeSet::new();
        for (extent, patch) in delta.extents.iter() {
            for place in (0..RANGE as u32).filter_map(|i| patch.get(i).place()) {
                match place.place() {
                    Where::Disk(block) => holds!(self.space.is_busy(block), "block {block} of {extent:?} is free"),
                    Where::Journal(seq, index) => {
                        found.insert((seq, index));
                        holds!(self.journal.knows(seq), "record {seq} of {extent:?} is forgotten");
                    }
                    Where::Bad => {}
                    Where::Staged(index) => return Err(format!("{extent:?} refers to block {index} of no record")),
                }
            }
        }
        Ok(found.len() as u64)
    }

    /// Number of free blocks, of runs of them, and the length of the longest run, in blocks.
    pub fn free_runs(&self) -> (u64, u64, u64) {
        self.space.free_runs()
    }

    /// From now on each page of the index gets its blocks one by one, as if no two free ones were side by side.
    pub fn scatter_pages(&mut self) {
        self.space.scatter = true;
    }

    /// While this is on, each block of small data gets 16 MiB of the disk of which nothing else is taken: so a disk has a map of free
    /// blocks that is simple nowhere, without the writes of years.
    pub fn place_apart(&mut self, on: bool) {
        self.space.apart = on;
    }

    /// A mistake to be found: one block less is promised than data in the journal needs. False if nothing is.
    pub fn forget_promise(&mut self) -> bool {
        self.space.forget_promise()
    }
}
