//! The space of the data disk, and its one owner: which blocks are in use, which are promised, what the host below can
//! still give, and what must stay until no read can want it.
//!
//! Nobody else changes these fields. [`Space`] knows neither the journal nor the index: who asks says what they keep back.

use super::ahead::Ahead;
use super::alloc::{Allocator, Kind};
use super::bits::{Bits, CHUNK};
use super::discard::Discards;
use super::host::Host;
use super::limbo::{Freed, Limbo, Settled};
use crate::block::{BLOCK, PAGE_BLOCKS, Run};
use node::{DiskStat, Mono};

/// The space of the data disk.
#[derive(Debug)]
pub(crate) struct Space {
    pub(super) alloc: Allocator,
    /// Data blocks in the journal that have no room of their own yet. So many free blocks are theirs.
    promised: u64,
    pub(super) ahead: Ahead,
    pub(super) host: Host,
    pub(super) discards: Discards,
    limbo: Limbo,
    /// Blocks of the leaves that begin in the index's section of shared blocks.
    shared_pages: u64,
    /// Each page gets its blocks one by one, as if no two free ones were side by side.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) scatter: bool,
    /// Each block that leaves the journal gets a chunk of its own, while there are such.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) apart: bool,
}

/// What a checkpoint takes of the space when it freezes a delta.
#[derive(Debug)]
pub(crate) struct Frozen {
    /// Runs that the delta's data was given.
    pub(crate) born: Vec<Run>,
    /// Data blocks of the delta that are in the journal.
    pub(crate) promised: u64,
    /// Blocks that hold data according to the tree on disk.
    pub(crate) stable: Bits,
}

/// What a flip means for the space.
#[derive(Debug)]
pub(crate) struct Flipped {
    /// What of the promise is left: data that could not be moved.
    pub(crate) promised: u64,
    /// Blocks that hold data now.
    pub(crate) stable: Bits,
    /// What the flip freed of the old tree, and the runs among which there are such that nothing came to refer to.
    pub(crate) freed: Freed,
    /// Blocks by which the leaves of the section of shared blocks become more.
    pub(crate) shared_pages: i64,
}

impl Default for Space {
    fn default() -> Self {
        Self {
            alloc: Allocator::new(1, 1),
            promised: 0,
            ahead: Ahead::default(),
            host: Host::default(),
            discards: Discards::default(),
            limbo: Limbo::default(),
            shared_pages: 0,
            #[cfg(any(test, feature = "sim"))]
            scatter: false,
            #[cfg(any(test, feature = "sim"))]
            apart: false,
        }
    }
}

/// Opening.
impl Space {
    /// The disk told its sizes.
    pub(crate) fn told(&mut self, stat: DiskStat) {
        self.host.disk = stat;
    }

    /// Sizes of the disk, as last told, less what was given out since.
    pub(crate) fn disk(&self) -> &DiskStat {
        &self.host.disk
    }

    /// The disk is at least so many bytes long.
    pub(crate) fn reaches(&mut self, len: u64) {
        self.host.disk.len = self.host.disk.len.max(len);
    }

    /// Begins with all of `blocks` free from `first` on. The tree and the journal's records follow.
    pub(crate) fn begin(&mut self, blocks: u64, first: u64) {
        self.alloc = Allocator::new(blocks, first);
        self.alloc.set_frontier(self.host.disk.len / BLOCK as u64);
    }

    /// Takes what the tree says about a chunk of data. The tree's pages must follow.
    pub(crate) fn load(&mut self, chunk: u32, value: &[u8]) -> denc::Result<()> {
        self.alloc.load(chunk, value)
    }

    /// Takes a page of the tree. False if its blocks are taken already.
    #[must_use]
    pub(crate) fn load_page(&mut self, block: u64, n: u32) -> bool {
        self.alloc.load_page(block, n)
    }

    /// Takes a block that a replayed record refers to. False if the disk does not have it.
    #[must_use]
    pub(crate) fn replayed(&mut self, block: u64) -> bool {
        self.alloc.replayed(block)
    }
}

/// How much there is.
impl Space {
    /// Blocks that are free, promised ones included.
    pub(crate) fn free(&self) -> u64 {
        self.alloc.free()
    }

    /// Blocks that the superblocks and the ring do not take.
    pub(crate) fn total(&self) -> u64 {
        self.alloc.total()
    }

    /// Blocks of the superblocks and the ring.
    pub(crate) fn fixed(&self) -> u64 {
        self.alloc.fixed()
    }

    /// Blocks of data, in their places or promised.
    pub(crate) fn data(&self) -> u64 {
        self.alloc.data() + self.promised
    }

    /// Blocks of pages of the index.
    pub(crate) fn pages(&self) -> u64 {
        self.alloc.page_blocks
    }

    /// Blocks of the whole disk, as the map of free blocks counts them.
    pub(crate) fn mapped(&self) -> u64 {
        self.alloc.stable.len()
    }

    /// Blocks promised to data in the journal.
    pub(crate) fn promised(&self) -> u64 {
        self.promised
    }

    /// Most blocks of leaves of the map of free space, and of the table of shared blocks, that a checkpoint writes in which
    /// so many blocks gain or lose a reference. Each may lie in another chunk.
    pub(crate) fn map_pages(&self, references: u64) -> u64 {
        /// Chunks of the map that one page holds at least, when all of them are mixed.
        const IN_A_PAGE: u64 = 7;
        let chunks = self.alloc.stable.len().div_ceil(CHUNK);
        let touched = references.min(chunks);
        let map = touched.div_ceil(IN_A_PAGE).min(chunks) * u64::from(PAGE_BLOCKS);
        map + self.shared_need(references, touched)
    }

    /// Of that, for the table of shared blocks.
    fn shared_need(&self, references: u64, touched: u64) -> u64 {
        /// Bytes by which a chunk's entry grows at most when one block has another count: its run is cut in three.
        const GROWS: u64 = 16;
        /// Blocks of the longest entry, and of what is cut off before it: each block of the chunk has a run of its own.
        const LONGEST: u64 = (8 * CHUNK / BLOCK as u64 + 1) + PAGE_BLOCKS as u64;
        // The pages that are there are written again, and what grows takes twice its bytes at worst, as pages are cut.
        let grows = 2 * (GROWS * references).div_ceil(BLOCK as u64) + 2 * u64::from(PAGE_BLOCKS);
        let leaves = (self.shared_pages + grows).min(LONGEST * touched);
        // Pages above them.
        leaves + leaves / 32
    }

    /// Counts a leaf of the tree that begins in the section of shared blocks.
    pub(crate) fn load_shared(&mut self, blocks: u32) {
        self.shared_pages += u64::from(blocks);
    }

    /// Blocks of the leaves that begin in the section of shared blocks.
    pub(crate) fn shared_pages(&self) -> u64 {
        self.shared_pages
    }

    /// Blocks kept back, so that checkpoints and removals always succeed.
    pub(crate) fn floor(&self) -> u64 {
        (self.alloc.total() / 64).clamp(32, 4096)
    }

    /// Blocks that can be written, in the store and on the host. Free blocks of the file need nothing from the host.
    pub(crate) fn writable(&self) -> u64 {
        self.alloc.free().min(self.host_blocks().saturating_add(self.alloc.backed()))
    }

    /// Blocks that can be written once what is lent is back.
    pub(crate) fn soon_writable(&self) -> u64 {
        (self.alloc.free() + self.alloc.lent()).min(self.host_blocks().saturating_add(self.alloc.backed()))
    }

    /// Blocks that may be lent: most of what is free for data stays, and all that checkpoints and removals may need.
    pub(super) fn lendable(&self, kept_back: u64) -> u64 {
        self.alloc.free().saturating_sub(self.promised + kept_back) / 4
    }

    /// Blocks that the host can still give. The largest number for a disk without a host.
    pub(super) fn host_blocks(&self) -> u64 {
        match self.host.disk.host_free {
            u64::MAX => u64::MAX,
            free => free / BLOCK as u64,
        }
    }

    /// Notes that blocks were given out. The host has so much less, until it is asked again.
    pub(super) fn host_gave(&mut self, blocks: u64) {
        let disk = &mut self.host.disk;
        if disk.host_free != u64::MAX {
            disk.host_free = disk.host_free.saturating_sub(blocks * BLOCK as u64);
        }
    }

    /// Returns true if the ring may be written further ahead: not for a while after the host had no space for it.
    pub(crate) fn may_claim(&self, now: Mono) -> bool {
        now >= self.host.claim_at
    }

    /// Returns true if space is being written ahead now.
    pub(crate) fn writes_ahead(&self) -> bool {
        self.ahead.writing
    }
}

/// Giving out.
impl Space {
    /// Data goes into the journal: so many blocks are promised to it.
    pub(crate) fn promise(&mut self, blocks: u64) {
        self.promised += blocks;
    }

    /// Gives a large write its places. None if there is no room.
    pub(crate) fn take_for_write(&mut self, blocks: u64) -> Option<Vec<Run>> {
        let beyond = self.alloc.beyond;
        let runs = match self.take_beyond(blocks) {
            Some(run) => vec![run],
            None => self.alloc.take(blocks, Kind::Data)?,
        };
        self.host_gave(self.alloc.beyond - beyond);
        self.alloc.born(&runs);
        Some(runs)
    }

    /// Gives data its place in one piece. None if there is none.
    pub(crate) fn take_whole(&mut self, blocks: u64) -> Option<Run> {
        let beyond = self.alloc.beyond;
        let run = self.alloc.take_whole(blocks)?;
        self.host_gave(self.alloc.beyond - beyond);
        self.alloc.born(&[run]);
        Some(run)
    }

    /// See [`Allocator::region`].
    pub(crate) fn region(&self, from: u64, most: (u64, u64), looks: u64) -> (std::ops::Range<u64>, u64, u64) {
        self.alloc.region(from, most, looks)
    }

    /// Number of blocks of a chunk that are taken.
    pub(crate) fn used_in(&self, chunk: u64) -> u64 {
        self.alloc.used_in(chunk)
    }

    /// Number of chunks of which nothing is taken, and of all.
    pub(crate) fn empty_chunks(&self) -> (u64, u64) {
        self.alloc.empty_chunks()
    }

    /// Gives data that leaves the journal its places. The checkpoint remembers them. None if there is no room, which breaks the promise.
    pub(crate) fn take_for_move(&mut self, blocks: u64) -> Option<Vec<Run>> {
        #[cfg(any(test, feature = "sim"))]
        let apart = if self.apart { self.alloc.take_apart(blocks) } else { None };
        #[cfg(not(any(test, feature = "sim")))]
        let apart = None;
        let runs = apart.or_else(|| self.alloc.take(blocks, Kind::Moved))?;
        self.promised = self.promised.saturating_sub(blocks);
        Some(runs)
    }

    /// Gives a page of the index its place, in one piece if there is one. None if there are not that many free blocks.
    pub(crate) fn take_for_page(&mut self, blocks: u32) -> Option<Vec<Run>> {
        #[cfg(any(test, feature = "sim"))]
        if self.scatter {
            return (0..blocks).map(|_| Some(self.alloc.take(1, Kind::Pages)?[0])).collect();
        }
        self.alloc.take(blocks.into(), Kind::Pages)
    }

    /// A checkpoint freezes what changed.
    pub(crate) fn freeze(&mut self) -> Frozen {
        Frozen { born: self.alloc.freeze(), promised: self.promised, stable: self.alloc.stable.clone() }
    }

    /// The checkpoint counts. What it freed waits in [`Self::settled`] until no read can want it. Gives the map that was
    /// replaced.
    pub(crate) fn flipped(&mut self, flipped: Flipped) -> Bits {
        let Flipped { promised, stable, freed, shared_pages } = flipped;
        self.promised -= promised;
        self.shared_pages = self.shared_pages.saturating_add_signed(shared_pages);
        self.limbo.push(freed);
        std::mem::replace(&mut self.alloc.stable, stable)
    }
}

/// What reads hold back.
impl Space {
    /// A read begins that follows the tree of this epoch.
    pub(crate) fn begin_read(&mut self, epoch: u64) {
        self.limbo.begin_read(epoch);
    }

    /// A read ended that began in this epoch.
    pub(crate) fn end_read(&mut self, epoch: u64) {
        self.limbo.end_read(epoch);
    }

    /// Returns true if all that flips freed is given back.
    pub(crate) fn is_settled(&self) -> bool {
        self.limbo.is_empty()
    }

    /// Up to `most` runs of what flips freed and no read can want any more. Its pages count as free from now on.
    pub(crate) fn settled(&mut self, most: usize) -> Option<Settled> {
        // The next flip, which has another map, comes only when all of this is settled.
        let settled = self.limbo.settled(most, |run, out| self.alloc.unreferenced(run, out))?;
        self.alloc.page_blocks -= settled.pages.iter().map(|run| u64::from(run.1)).sum::<u64>();
        Some(settled)
    }

    /// Returns true if [`Self::settled`] has more.
    pub(crate) fn has_settled(&self) -> bool {
        self.limbo.has_settled()
    }

    /// Bytes of memory of the maps of blocks.
    pub(crate) fn map_bytes(&self) -> usize {
        self.alloc.bytes()
    }
}

#[cfg(test)]
impl Space {
    /// A mistake to be found: a run of what the last flip freed is forgotten.
    pub(crate) fn leak(&mut self) {
        self.limbo.leak();
    }

    /// Takes a run of free blocks away, as somebody who holds them would.
    pub(crate) fn borrow_for_test(&mut self, most: u64) -> Option<Run> {
        self.alloc.borrow(0, most)
    }

    /// The inverse of [`Self::borrow_for_test`].
    pub(crate) fn give_back_for_test(&mut self, run: Run) {
        self.alloc.give_back(run, true);
    }

    /// The allocator, to look at.
    pub(crate) fn alloc(&self) -> &Allocator {
        &self.alloc
    }
}

/// What always holds between two calls.
#[cfg(any(test, feature = "sim"))]
impl Space {
    /// `epoch`: of the index; `frozen`: blocks that are promised to the checkpoint. `thorough`: also goes through the map.
    ///
    /// # Errors
    /// A sentence that says what does not hold.
    pub(crate) fn self_check(&self, epoch: u64, frozen: u64, thorough: bool) -> Result<(), String> {
        self.limbo.self_check(epoch)?;
        if frozen > self.promised {
            return Err(format!("{frozen} blocks are promised to the checkpoint, {} in all", self.promised));
        }
        if self.promised > self.alloc.free() {
            return Err(format!("{} blocks are promised, {} are free", self.promised, self.alloc.free()));
        }
        if thorough { self.alloc.self_check() } else { Ok(()) }
    }

    /// Number of free blocks, of runs of them, and the length of the longest run.
    pub(crate) fn free_runs(&self) -> (u64, u64, u64) {
        let (runs, longest) = self.alloc.free_runs();
        (self.alloc.free(), runs, longest)
    }

    /// Says whether a block is taken.
    pub(crate) fn is_busy(&self, block: u64) -> bool {
        self.alloc.is_busy(block)
    }

    /// A mistake to be found: nothing is promised any more. False if nothing was.
    pub(crate) fn forget_promise(&mut self) -> bool {
        std::mem::take(&mut self.promised) > 0
    }
}
