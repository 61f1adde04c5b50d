//! The allocator gives blocks out, and takes them back when nothing can need them any more.
//!
//! A file grows as it fills, and growing costs: the file system below has to find space and to make that durable with
//! each flush. So blocks below the *frontier*, which were all written once, are given out before any beyond it. `ahead`
//! moves the frontier with zeros before it is needed. The frontier of a raw device is its end.
//!
//! **Where.** A request goes on where the last one of its kind ended, as long as it finds one run there. Else it gets the
//! first run behind that place that is long enough, else the longest that there are. [`super::longest`] finds them.
//!
//! **Small data spares what is long.** Blocks that are overwritten at random leave free blocks without neighbours, and
//! large writes need many that are neighbours. So while few chunks are wholly free, the small data that a checkpoint moves
//! goes into what is free in the fuller chunks. The emptier ones are spared. They lose the rest of their data as time
//! goes by, since nothing new comes in, and are wholly free then. So free space gathers instead of being spread evenly.

use super::bits::{Bits, CHUNK};
use super::longest::Longest;
use crate::block::Run;

/// Small data goes to gaps when less than this part of all chunks is wholly free.
const SPARE_CHUNKS: u64 = 16;
/// A chunk with fewer free blocks is not worth a visit for gaps.
const WORTH: u64 = 16;
/// Chunks whose bounds turn out too high, in one search. Each takes about a microsecond.
const CORRECTIONS: usize = 512;
/// Chunks that are looked at for gaps in one round of a request.
const LOOKS: u64 = 256;

/// What a block is for. Each kind is given out in a neighbourhood of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Data of a large write.
    Data,
    /// Data that leaves the journal, which came in small writes.
    Moved,
    /// Pages of the index.
    Pages,
}

/// The allocator of the data disk.
#[derive(Debug)]
pub(crate) struct Allocator {
    /// Blocks that hold data, as the tree on disk counts them.
    pub(crate) stable: Bits,
    /// Blocks that must not be given out: stable ones, pages, those given out since, and those that wait for readers.
    busy: Bits,
    /// What `busy` leaves in one piece.
    longest: Longest,
    first: u64,
    /// First block of those that were never written.
    frontier: u64,
    /// Free blocks below the frontier. They are those whose space was given back to the host, unless `doubted`; then they
    /// are those that are known to have space.
    marked: Bits,
    /// Free blocks that are not `marked` have no space of the host.
    doubted: bool,
    /// Number of blocks lent by [`Allocator::borrow`].
    lent: u64,
    /// Blocks given out so far for which the host had to find space.
    pub(crate) beyond: u64,
    /// Place where data and pages were given out last.
    cursors: [u64; 2],
    /// First chunk that was not looked at for gaps.
    gaps: u64,
    /// Data blocks given out since the last freeze.
    born: Vec<Run>,
    /// Number of blocks of the tree's pages.
    pub(crate) page_blocks: u64,
}

impl Allocator {
    /// Makes an allocator in which all blocks from `first` on are free.
    pub(crate) fn new(blocks: u64, first: u64) -> Self {
        let mut busy = Bits::new(blocks);
        busy.write(0, first, true);
        // Pages gather at the front, and data leaves them some room.
        let cursors = [first + ((blocks - first) / 64).min(4096), first];
        let (stable, marked) = (Bits::new(blocks), Bits::new(blocks));
        let longest = Longest::new(busy.chunks());
        Self {
            stable,
            busy,
            longest,
            first,
            frontier: first,
            marked,
            doubted: false,
            lent: 0,
            beyond: 0,
            cursors,
            gaps: 0,
            born: Vec::new(),
            page_blocks: 0,
        }
    }

    /// Sets the frontier: all blocks below it were written once.
    pub(crate) fn set_frontier(&mut self, frontier: u64) {
        self.frontier = frontier.clamp(self.first, self.busy.len());
    }

    /// First block of those that were never written.
    pub(crate) fn frontier(&self) -> u64 {
        self.frontier
    }

    /// Free blocks below the frontier, as far as nothing was lent or loaded beyond it.
    pub(crate) fn free_below(&self) -> u64 {
        (self.frontier + self.lent).saturating_sub(self.busy.ones())
    }

    /// Says whether a block is taken.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn is_busy(&self, block: u64) -> bool {
        self.busy.get(block)
    }

    /// Number of runs of free blocks, and the length of the longest.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn free_runs(&self) -> (u64, u64) {
        let (mut at, mut runs, mut longest) = (self.first, 0, 0);
        while let Some((start, n)) = self.busy.free_run(at, self.busy.len()).filter(|(start, n)| *n > 0 && *start >= at) {
            (at, runs, longest) = (start + n, runs + 1, n.max(longest));
        }
        (runs, longest)
    }

    /// Checks that counts are right and that blocks of the tree are taken.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn self_check(&self) -> Result<(), String> {
        for (name, bits) in [("busy", &self.busy), ("stable", &self.stable), ("marked", &self.marked)] {
            let counted: u64 = bits.runs(0, bits.len()).iter().map(|(_, n)| n).sum();
            if counted != bits.ones() {
                return Err(format!("{counted} blocks are {name}, {} were counted", bits.ones()));
            }
        }
        let lost = self
            .stable
            .runs(0, self.stable.len())
            .into_iter()
            .find(|(start, n)| self.busy.find(*start, false).is_some_and(|at| at < start + n));
        if let Some((start, n)) = lost {
            return Err(format!("of the {n} blocks from {start} on, which the tree refers to, some are free"));
        }
        if let Some(chunk) = (0..self.busy.chunks()).find(|c| self.busy.longest_free(*c) > self.longest.get(*c)) {
            return Err(format!("a run of free blocks in chunk {chunk} is overlooked"));
        }
        let taken = self.first + self.page_blocks + self.lent + self.stable.ones();
        if taken > self.busy.ones() {
            return Err(format!("{taken} blocks are taken by the ring, pages and data, {} in all", self.busy.ones()));
        }
        Ok(())
    }

    /// Bytes of memory of the sets of blocks; of what a checkpoint shares with them, too.
    pub(crate) fn bytes(&self) -> usize {
        2 * self.stable.bytes() + self.busy.bytes() + self.marked.bytes() + self.longest.bytes()
    }

    /// Number of blocks that could be given out now.
    pub(crate) fn free(&self) -> u64 {
        self.busy.len() - self.busy.ones()
    }

    /// Least number of free blocks that can be written without space from the host.
    pub(crate) fn backed(&self) -> u64 {
        if self.doubted {
            return self.marked.ones();
        }
        self.frontier.saturating_sub(self.busy.ones() + self.marked.ones())
    }

    /// Notes that the host refused a write. Holes of an earlier life are not known, so any free block may be one. Only
    /// what becomes free from now on is known to have space: it was written.
    pub(crate) fn doubt_backing(&mut self) {
        (self.doubted, self.marked) = (true, Bits::new(self.busy.len()));
    }

    /// Number of blocks that the superblocks and the ring do not take.
    pub(crate) fn total(&self) -> u64 {
        self.busy.len() - self.first
    }

    /// Number of blocks that hold data or were given out for it.
    pub(crate) fn data(&self) -> u64 {
        self.busy.ones() - self.first - self.page_blocks - self.lent
    }

    /// Takes what the tree says about a chunk of data. The tree's pages must follow.
    pub(crate) fn load(&mut self, chunk: u32, value: &[u8]) -> denc::Result<()> {
        self.stable.decode_chunk(chunk, value)?;
        let base = u64::from(chunk) * CHUNK;
        if base < self.first || !self.busy.take_over(&self.stable, chunk) {
            for (start, n) in self.stable.runs(base, (base + CHUNK).min(self.stable.len())) {
                if start < self.first || self.busy.write(start, n, true) != n {
                    return Err(denc::DecodeError::Invalid("free-space map: a block has two owners"));
                }
            }
        }
        self.longest.set(chunk.into(), self.busy.longest_free(chunk.into()));
        Ok(())
    }

    /// Takes a page of the tree. False if its blocks are taken already.
    #[must_use]
    pub(crate) fn load_page(&mut self, block: u64, n: u32) -> bool {
        let fits = block >= self.first && block + u64::from(n) <= self.busy.len();
        if fits {
            self.page_blocks += u64::from(n);
        }
        fits && self.busy.write(block, n.into(), true) == u64::from(n)
    }

    /// Takes a block that a replayed record refers to. False if the disk does not have it.
    #[must_use]
    pub(crate) fn replayed(&mut self, block: u64) -> bool {
        if block < self.first || block >= self.busy.len() {
            return false;
        }
        if self.busy.write(block, 1, true) == 1 {
            self.remember((block, 1));
        }
        true
    }

    /// Notes that these runs hold data of the active delta.
    pub(crate) fn born(&mut self, runs: &[Run]) {
        runs.iter().for_each(|run| self.remember(*run));
    }

    fn remember(&mut self, run: Run) {
        match self.born.last_mut() {
            Some((start, n)) if *start + u64::from(*n) == run.0 => *n += run.1,
            _ => self.born.push(run),
        }
    }

    /// Gives `n` blocks out, in as few runs as it finds. None if there are not that many. Blocks for data must be told
    /// to [`Self::born`] or be remembered by the checkpoint.
    pub(crate) fn take(&mut self, n: u64, kind: Kind) -> Option<Vec<Run>> {
        if n > self.free() {
            return None;
        }
        let (mut out, mut left) = (Vec::new(), n);
        if kind == Kind::Moved && self.busy.empty_chunks() < self.busy.chunks() / SPARE_CHUNKS {
            left = self.fill_gaps(n, &mut out);
        }
        while left > 0 {
            let run = self.one_run(left, kind).unwrap_or_else(|| self.long_run(left, kind));
            left -= u64::from(run.1);
            self.give(run, kind, &mut out);
        }
        Some(out)
    }

    /// Gives `n` blocks out, each in a chunk of its own of which nothing is taken. None if there are not that many such chunks.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn take_apart(&mut self, n: u64) -> Option<Vec<Run>> {
        let (empty, chunks) = self.empty_chunks();
        if empty < n {
            return None;
        }
        let mut out = Vec::new();
        for _ in 0..n {
            let mut next = (0..chunks).map(|i| (self.gaps + i) % chunks);
            let chunk = next.find(|chunk| self.busy.free_in(*chunk) == CHUNK && self.used_in(*chunk) == 0)?;
            self.gaps = chunk;
            // No two of them become one run.
            let mut one = Vec::new();
            self.give((chunk * CHUNK, 1), Kind::Moved, &mut one);
            out.append(&mut one);
        }
        Some(out)
    }

    /// Gives what is free in the fuller chunks, and nothing of those that are wholly free. Gives how many of the `n` blocks
    /// are still to be found.
    fn fill_gaps(&mut self, n: u64, out: &mut Vec<Run>) -> u64 {
        let chunks = self.frontier.div_ceil(CHUNK);
        // What becomes free in the emptier ones is not enough to stop here: it is as much as the fuller ones lack. So each
        // round takes emptier ones than the last.
        let (mut left, mut most) = (n, (self.free_below() / chunks.max(1)).clamp(WORTH, CHUNK - 1));
        loop {
            for _ in 0..chunks.min(LOOKS) {
                if left == 0 {
                    return 0;
                }
                let chunk = if self.gaps < chunks { self.gaps } else { 0 };
                let end = ((chunk + 1) * CHUNK).min(self.frontier);
                if (WORTH..=most).contains(&self.busy.free_in(chunk)) {
                    left = self.fill(chunk * CHUNK..end, left, out);
                }
                // One that has more is where the next request goes on.
                self.gaps = if left == 0 { chunk } else { chunk + 1 };
            }
            if most == CHUNK - 1 {
                return left;
            }
            most = (2 * most).min(CHUNK - 1);
        }
    }

    /// Gives up to `left` free blocks of these. Gives how many are missing.
    fn fill(&mut self, blocks: std::ops::Range<u64>, mut left: u64, out: &mut Vec<Run>) -> u64 {
        let mut at = blocks.start;
        while left > 0 {
            let Some((start, len)) = self.busy.free_run(at, left).filter(|run| run.0 < blocks.end) else { break };
            let len = len.min(blocks.end - start);
            self.give((start, len as u32), Kind::Moved, out);
            (at, left) = (start + len, left - len);
        }
        left
    }

    /// Gives `n` blocks in one piece that was never written. None if there is no such piece. As with [`Self::take`],
    /// the blocks must be told to [`Self::born`].
    pub(crate) fn take_beyond(&mut self, n: u64) -> Option<Run> {
        let (start, _) = self.busy.free_run(self.frontier, n).filter(|(_, len)| *len == n)?;
        let run = (start, n as u32);
        let cursor = self.cursors[0];
        self.give(run, Kind::Data, &mut Vec::new());
        // What is ready below is searched from where it was.
        self.cursors[0] = cursor;
        Some(run)
    }

    /// Gives `n` blocks out in one piece. None if there is none. As with [`Self::take`], the blocks must be told to
    /// [`Self::born`].
    pub(crate) fn take_whole(&mut self, n: u64) -> Option<Run> {
        let run = self.one_run(n, Kind::Data)?;
        self.give(run, Kind::Data, &mut Vec::new());
        Some(run)
    }

    /// Number of blocks of a chunk that are taken.
    pub(crate) fn used_in(&self, chunk: u64) -> u64 {
        let end = ((chunk + 1) * CHUNK).min(self.busy.len());
        (end - chunk * CHUNK).saturating_sub(self.busy.free_in(chunk))
    }

    /// Chunks from `from` on that are not fuller than usual, nor than `fullest`, and have at most `most` blocks in use, all
    /// together: the first, the one behind the last, how full one may be, and the blocks in use. At most `looks` chunks are
    /// looked at.
    pub(crate) fn region(&self, from: u64, (most, fullest): (u64, u64), looks: u64) -> (std::ops::Range<u64>, u64, u64) {
        let (empty, chunks) = self.empty_chunks();
        let mean = (self.busy.ones() / (chunks - empty).max(1)).min(CHUNK);
        let usual = (mean + mean / 16).min(CHUNK - CHUNK / 16).min(fullest);
        let from = if from < chunks { from } else { 0 };
        let (mut at, mut used) = (from, 0);
        while at < chunks.min(from + looks) {
            let here = Some(self.used_in(at)).filter(|here| *here <= usual && at * CHUNK >= self.first).unwrap_or(0);
            if used + here > most {
                break;
            }
            (at, used) = (at + 1, used + here);
        }
        (from..at, usual, used)
    }

    /// Number of chunks of which nothing is taken, and of all.
    pub(crate) fn empty_chunks(&self) -> (u64, u64) {
        (self.busy.empty_chunks(), self.busy.chunks())
    }

    fn cursor(&self, kind: Kind) -> u64 {
        self.cursors[usize::from(kind == Kind::Pages)]
    }

    fn give(&mut self, run: Run, kind: Kind, out: &mut Vec<Run>) {
        let n = u64::from(run.1);
        assert_eq!(self.busy.write(run.0, n, true), n, "given out twice");
        let end = run.0 + n;
        self.cursors[usize::from(kind == Kind::Pages)] = end;
        for chunk in run.0 / CHUNK..=(end - 1) / CHUNK {
            if self.busy.free_in(chunk) == 0 {
                self.longest.set(chunk, 0);
            }
        }
        let beyond = end.saturating_sub(self.frontier.max(run.0));
        let marked = self.marked.write(run.0, n, false);
        self.beyond += if self.doubted { n - marked } else { beyond + marked };
        self.frontier = self.frontier.max(end);
        if kind == Kind::Pages {
            self.page_blocks += n;
        }
        out.push(run);
    }

    /// Finds a run of `n` free blocks, below the frontier first. It may cross chunks only where the last request ended and
    /// beyond the frontier, or if it is longer than one.
    fn one_run(&mut self, n: u64, kind: Kind) -> Option<Run> {
        if self.free_below() >= n {
            let here = self.busy.free_run(self.cursor(kind), n);
            if let Some((start, len)) = here.filter(|(start, len)| *len == n && start + n <= self.frontier) {
                return Some((start, len as u32));
            }
            let found = self.in_chunks(n.min(CHUNK), kind).map(|at| self.busy.free_run(at, n).expect("found just now"));
            if let Some((start, len)) = found.filter(|(start, len)| *len == n && start + n <= self.frontier) {
                return Some((start, len as u32));
            }
        }
        let (start, len) = self.busy.free_run(self.frontier, n)?;
        (len == n).then_some((start, n as u32))
    }

    /// Finds one of the longest runs, of at most `n` blocks. There are free ones.
    fn long_run(&mut self, n: u64, kind: Kind) -> Run {
        let n = n.min(CHUNK);
        loop {
            let longest = self.longest.max(self.below());
            let Some(log) = longest.min(n).checked_ilog2() else { break };
            // Half of the longest will do if it is near.
            if let Some(at) = self.in_chunks(1 << log, kind) {
                let (start, len) = self.busy.free_run(at, n.min(self.frontier - at)).expect("found just now");
                return (start, len as u32);
            }
            // Each turn finds less in a chunk than was thought. Only the chunk of the frontier may keep its bound.
            if self.longest.max(self.below()) == longest {
                break;
            }
        }
        let found = self.busy.free_run(self.first, n).expect("counted as free");
        let (start, len) = if found.0 < self.frontier { found } else { self.busy.free_run(self.frontier, n).unwrap_or(found) };
        (start, len as u32)
    }

    /// The chunks below the frontier.
    fn below(&self) -> std::ops::Range<u64> {
        self.first / CHUNK..self.frontier.div_ceil(CHUNK)
    }

    /// Finds `n` free blocks side by side within a chunk and below the frontier: the first ones from where the last
    /// request of this kind ended, else from the front. None, too, if too many chunks had less than was thought: the next
    /// request finds their bounds corrected.
    fn in_chunks(&mut self, n: u64, kind: Kind) -> Option<u64> {
        let below = self.below();
        let from = (self.cursor(kind) / CHUNK).clamp(below.start, below.end);
        let mut looks = 0;
        for part in [from..below.end, below.start..from] {
            let mut at = part.start;
            while let Some(chunk) = self.longest.first(at..part.end, n) {
                match self.busy.first_free(chunk, n) {
                    Some(at) if at + n <= self.frontier => return Some(at),
                    Some(_) => (),
                    None => self.longest.set(chunk, self.busy.longest_free(chunk)),
                }
                looks += 1;
                if looks == CORRECTIONS {
                    return None;
                }
                at = chunk + 1;
            }
        }
        None
    }

    /// The first block behind the first `n` free ones; a large number if there are not so many.
    pub(crate) fn behind_free(&self, n: u64) -> u64 {
        let (mut at, mut left) = (self.first, n);
        while left > 0 {
            let Some((start, len)) = self.busy.free_run(at, left).filter(|(start, _)| *start >= at) else { return u64::MAX };
            (at, left) = (start + len, left - len);
        }
        at
    }

    /// Lends a run of at most `most` free blocks from `from` on. [`Self::give_back`] ends the loan.
    pub(crate) fn borrow(&mut self, from: u64, most: u64) -> Option<Run> {
        let (start, n) = self.busy.free_run(from.max(self.first), most).filter(|(start, _)| *start >= from)?;
        assert_eq!(self.busy.write(start, n, true), n, "borrowed twice");
        if self.doubted {
            self.marked.write(start, n, false);
        }
        self.lent += n;
        Some((start, n as u32))
    }

    /// Lends the first run of `least` to `most` free blocks in `at..end`; looks at so many runs at most. `at` moves to
    /// what was not looked at. [`Self::give_back`] ends the loan.
    pub(crate) fn borrow_long(&mut self, at: &mut u64, end: u64, least: u64, most: u64, looks: usize) -> Option<Run> {
        for _ in 0..looks {
            let found =
                self.busy.free_run((*at).max(self.first), most).filter(|(start, n)| *n > 0 && *start < end && *start >= *at);
            let Some((start, n)) = found else {
                *at = end;
                return None;
            };
            let n = n.min(end - start);
            *at = start + n;
            if n >= least {
                assert_eq!(self.busy.write(start, n, true), n, "lent twice");
                self.lent += n;
                return Some((start, n as u32));
            }
        }
        None
    }

    /// Number of blocks that are lent now.
    pub(crate) fn lent(&self) -> u64 {
        self.lent
    }

    /// Ends a loan of [`Self::borrow`]. `backed`: the host has not got their space back.
    pub(crate) fn give_back(&mut self, run: Run, backed: bool) {
        self.lent -= u64::from(run.1);
        self.release(run, backed);
    }

    /// Number of blocks of the superblocks and the ring.
    pub(crate) fn fixed(&self) -> u64 {
        self.first
    }

    /// Freezes: gives the runs that were given out for data so far. They are the frozen delta's.
    pub(crate) fn freeze(&mut self) -> Vec<Run> {
        self.cursors[1] = self.first;
        std::mem::take(&mut self.born)
    }

    /// Finds, among the blocks of a run that the last delta's data was given, those to which nothing refers after its merge.
    pub(crate) fn unreferenced(&self, (start, n): Run, out: &mut Vec<Run>) {
        let (mut at, end) = (start, start + u64::from(n));
        while at < end {
            let Some((from, n)) = self.stable.free_run(at, end - at).filter(|run| run.0 < end) else { break };
            let n = n.min(end - from);
            out.push((from, n as u32));
            at = from + n;
        }
    }

    /// Takes blocks back to which nothing refers any more, on disk or in memory. `backed`: the host has not got their
    /// space back.
    pub(crate) fn release(&mut self, (block, n): Run, backed: bool) {
        let n = u64::from(n);
        assert_eq!(self.busy.write(block, n, false), n, "freed twice");
        if self.doubted == backed {
            self.marked.write(block, n, true);
        }
        let (mut at, end) = (block, block + n);
        while at < end {
            let stop = end.min((at / CHUNK + 1) * CHUNK);
            self.longest.raise(at / CHUNK, self.busy.free_around(at, stop - at));
            at = stop;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_what_needs_the_host() {
        let mut alloc = Allocator::new(1000, 100);
        alloc.set_frontier(400);
        assert_eq!((alloc.backed(), alloc.free_below()), (300, 300));
        let runs = alloc.take(200, Kind::Data).expect("space");
        assert_eq!((alloc.backed(), alloc.beyond), (100, 0));
        let lent = alloc.borrow(100, 1000).expect("space");
        alloc.give_back(lent, false);
        assert_eq!(alloc.backed() + u64::from(lent.1).min(100), 100);
        runs.into_iter().for_each(|run| alloc.release(run, true));
        alloc.doubt_backing();
        assert_eq!((alloc.backed(), alloc.free_below()), (0, 300));
        let run = alloc.take(50, Kind::Pages).expect("space")[0];
        assert_eq!(alloc.beyond, 50);
        alloc.release(run, true);
        assert_eq!(alloc.backed(), 50);
        alloc.take(800, Kind::Data).expect("nearly all");
        assert_eq!((alloc.backed() <= 50, alloc.frontier() >= 900), (true, true));
    }

    #[test]
    fn gives_everything_out_once() {
        let mut alloc = Allocator::new(10_000, 100);
        let mut seen = Bits::new(10_000);
        let mut taken = 0;
        let mut runs = Vec::new();
        while let Some(more) = alloc.take(37, Kind::Data) {
            for (start, n) in &more {
                assert_eq!(seen.write(*start, (*n).into(), true), u64::from(*n));
            }
            taken += 37;
            runs.extend(more);
        }
        assert_eq!((taken, alloc.free()), (9879, 21));
        assert_eq!(alloc.data(), 9879);
        runs.iter().step_by(2).for_each(|r| alloc.release(*r, true));
        let page = alloc.take(2, Kind::Pages).expect("a page");
        assert_eq!(page[0].1, 2);
        let more = alloc.take(100, Kind::Data).expect("in pieces");
        assert!(more.len() >= 3 && more.iter().map(|r| r.1).sum::<u32>() == 100);
    }

    #[test]
    fn finds_the_longest_runs_of_a_disk_in_pieces() {
        let mut alloc = Allocator::new(64 * CHUNK, 100);
        alloc.set_frontier(64 * CHUNK);
        alloc.take(alloc.free(), Kind::Data).expect("all of it");
        // Every third block is free, and in some places more than one is.
        (100..64 * CHUNK).step_by(3).for_each(|block| alloc.release((block, 1), true));
        let long = [(7, 300), (9, 40), (30, 500), (31, 700), (50, 40)];
        for (chunk, n) in long {
            let at = chunk * CHUNK + 1000;
            let free = alloc.busy.runs(at, at + n);
            free.into_iter().for_each(|(start, n)| alloc.release((start, n as u32), true));
        }
        alloc.self_check().expect("what always holds");
        let mut of = |n: u64| alloc.take(n, Kind::Data).expect("free blocks").iter().map(|run| run.1).collect::<Vec<_>>();
        assert_eq!(of(600), [600]);
        assert_eq!(of(290).len(), 1);
        let rest = of(1000);
        assert!(rest.iter().filter(|n| **n > 1).sum::<u32>() >= 600, "all that is long: {rest:?}");
        assert!(of(30).iter().all(|n| *n == 1));
        alloc.self_check().expect("what always holds");
        let left = alloc.free();
        alloc.take(left, Kind::Data).expect("the last blocks, too");
        assert!(alloc.take(1, Kind::Data).is_none());
    }

    #[test]
    fn a_disk_that_was_filled_in_order_needs_no_corrections() {
        let chunks = 50;
        let mut alloc = Allocator::new(chunks * CHUNK, 100);
        alloc.set_frontier(chunks * CHUNK);
        while alloc.free() > 0 {
            let n = alloc.free().min(1000);
            alloc.take(n, Kind::Data).expect("free blocks");
        }
        assert_eq!(alloc.longest.max(0..chunks), 0);
        alloc.release((7 * CHUNK + 10, 3), true);
        assert_eq!((alloc.longest.max(0..chunks), alloc.longest.first(0..chunks, 2)), (3, Some(7)));
    }

    #[test]
    fn small_data_leaves_what_is_wholly_free_to_large_writes() {
        let chunks = 64;
        let mut alloc = Allocator::new(chunks * CHUNK, 100);
        alloc.set_frontier(chunks * CHUNK);
        alloc.take(alloc.free(), Kind::Data).expect("all of it");
        // Three chunks are free, one is half free, all others have a few gaps.
        for chunk in 1..chunks {
            let blocks = match chunk {
                10..13 => 1,
                20 => 2,
                _ => 100,
            };
            (0..CHUNK).step_by(blocks).for_each(|i| alloc.release((chunk * CHUNK + i, 1), true));
        }
        for _ in 0..8 {
            let runs = alloc.take(256, Kind::Moved).expect("free blocks");
            assert!(runs.iter().all(|run| !(10..13).contains(&(run.0 / CHUNK)) && run.0 / CHUNK != 20), "{runs:?}");
        }
        for _ in 0..12 {
            assert_eq!(alloc.take(1024, Kind::Data).expect("free blocks").len(), 1);
        }
        alloc.self_check().expect("what always holds");
    }

    #[test]
    fn after_a_refusal_only_what_was_written_since_is_known_to_have_space() {
        let mut alloc = Allocator::new(1000, 100);
        alloc.set_frontier(400);
        let run = alloc.take(50, Kind::Data).expect("space")[0];
        alloc.doubt_backing();
        assert_eq!(alloc.backed(), 0);
        alloc.release(run, true);
        assert_eq!(alloc.backed(), 50);
        let lent = alloc.borrow(run.0, 20).expect("space");
        assert_eq!(alloc.backed(), 30);
        alloc.give_back(lent, false);
        assert_eq!(alloc.backed(), 30);
        let before = alloc.beyond;
        alloc.take(alloc.free(), Kind::Data).expect("space");
        assert_eq!((alloc.beyond - before, alloc.backed()), (900 - 30, 0));
        alloc.self_check().expect("what always holds");
    }
}
