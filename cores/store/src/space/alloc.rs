//! The allocator gives blocks out, and takes them back when nothing can need them any more.
//!
//! A file grows as it fills, and growing costs: the file system below has to find space and to make that durable with
//! each flush. So blocks below the *frontier*, which were all written once, are given out before any beyond it. `ahead`
//! moves the frontier with zeros before it is needed. The frontier of a raw device is its end.

use super::bits::Bits;
use crate::block::Run;

/// Chunks with some free blocks that are searched for one long run before shorter ones are taken.
const PATIENCE: usize = 256;

/// What a block is for. Each kind is given out in a neighbourhood of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Data,
    Pages,
}

/// The allocator of the data disk.
#[derive(Debug)]
pub(crate) struct Allocator {
    /// Blocks that hold data, as the tree on disk counts them.
    pub(crate) stable: Bits,
    /// Blocks that must not be given out: stable ones, pages, those given out since, and those that wait for readers.
    busy: Bits,
    first: u64,
    /// First block of those that were never written.
    frontier: u64,
    /// Free blocks below the frontier whose space was given back to the host.
    holes: Bits,
    /// Number of blocks lent by [`Allocator::borrow`].
    lent: u64,
    /// Blocks given out so far for which the host had to find space.
    pub(crate) beyond: u64,
    cursors: [u64; 2],
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
        let (stable, holes) = (Bits::new(blocks), Bits::new(blocks));
        Self { stable, busy, first, frontier: first, holes, lent: 0, beyond: 0, cursors, born: Vec::new(), page_blocks: 0 }
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
        for (name, bits) in [("busy", &self.busy), ("stable", &self.stable), ("holes", &self.holes)] {
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
        let taken = self.first + self.page_blocks + self.lent + self.stable.ones();
        if taken > self.busy.ones() {
            return Err(format!("{taken} blocks are taken by the ring, pages and data, {} in all", self.busy.ones()));
        }
        Ok(())
    }

    /// Bytes of memory of the sets of blocks; of what a checkpoint shares with them, too.
    pub(crate) fn bytes(&self) -> usize {
        2 * self.stable.bytes() + self.busy.bytes() + self.holes.bytes()
    }

    /// Number of blocks that could be given out now.
    pub(crate) fn free(&self) -> u64 {
        self.busy.len() - self.busy.ones()
    }

    /// Least number of free blocks that can be written without space from the host.
    pub(crate) fn backed(&self) -> u64 {
        self.frontier.saturating_sub(self.busy.ones() + self.holes.ones())
    }

    /// Notes that the host has the space of these free blocks back.
    pub(crate) fn punched(&mut self, (block, n): Run) {
        self.holes.write(block, n.into(), true);
    }

    /// Notes that the host refused a write. Holes of an earlier life are not known, so any free block may be one.
    pub(crate) fn doubt_backing(&mut self) {
        let mut at = self.first;
        while let Some((start, n)) =
            self.busy.free_run(at, self.frontier.saturating_sub(at)).filter(|(start, n)| *n > 0 && *start < self.frontier)
        {
            let n = n.min(self.frontier - start);
            self.holes.write(start, n, true);
            at = start + n;
        }
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
        let base = u64::from(chunk) * super::bits::CHUNK;
        for (start, n) in self.stable.runs(base, (base + super::bits::CHUNK).min(self.stable.len())) {
            if start < self.first || self.busy.write(start, n, true) != n {
                return Err(denc::DecodeError::Invalid("free-space map: a block has two owners"));
            }
        }
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
        let mut out = Vec::new();
        if let Some(run) = self.one_run(n, kind) {
            self.give(run, kind, &mut out);
            return Some(out);
        }
        let mut left = n;
        while left > 0 {
            let run = self.any_run(left, kind);
            left -= u64::from(run.1);
            self.give(run, kind, &mut out);
        }
        Some(out)
    }

    /// Gives `n` blocks in one piece that was never written. None if there is no such piece. As with [`Self::take`],
    /// the blocks must be told to [`Self::born`].
    pub(crate) fn take_beyond(&mut self, n: u64) -> Option<Run> {
        let (start, _) = self.busy.free_run(self.frontier, n).filter(|(_, len)| *len == n)?;
        let run = (start, n as u32);
        let cursor = self.cursors[Kind::Data as usize];
        self.give(run, Kind::Data, &mut Vec::new());
        // What is ready below is searched from where it was.
        self.cursors[Kind::Data as usize] = cursor;
        Some(run)
    }

    fn give(&mut self, run: Run, kind: Kind, out: &mut Vec<Run>) {
        let n = u64::from(run.1);
        assert_eq!(self.busy.write(run.0, n, true), n, "given out twice");
        self.cursors[kind as usize] = run.0 + n;
        let end = run.0 + n;
        self.beyond += end.saturating_sub(self.frontier.max(run.0)) + self.holes.write(run.0, n, false);
        self.frontier = self.frontier.max(end);
        if kind == Kind::Pages {
            self.page_blocks += n;
        }
        out.push(run);
    }

    /// Finds a run of `n` free blocks, below the frontier first.
    fn one_run(&self, n: u64, kind: Kind) -> Option<Run> {
        self.long_run(n, kind).or_else(|| {
            let (start, len) = self.busy.free_run(self.frontier, n)?;
            (len == n).then_some((start, n as u32))
        })
    }

    fn long_run(&self, n: u64, kind: Kind) -> Option<Run> {
        if self.free_below() < n {
            return None;
        }
        let cursor = self.cursors[kind as usize];
        let (mut at, mut wrapped) = (cursor, false);
        for _ in 0..PATIENCE {
            match self.busy.free_run(at, n).filter(|(start, len)| start + len <= self.frontier) {
                Some((start, len)) if len == n => return Some((start, n as u32)),
                Some((start, len)) if !wrapped || start < cursor => at = start + len,
                _ if wrapped => return None,
                _ => (at, wrapped) = (self.first, true),
            }
        }
        None
    }

    fn any_run(&self, n: u64, kind: Kind) -> Run {
        let cursor = self.cursors[kind as usize];
        let found = self.busy.free_run(cursor, n).or_else(|| self.busy.free_run(self.first, n));
        let (start, len) = found.expect("counted as free");
        (start, len as u32)
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

    /// Ends a loan of [`Self::borrow`].
    pub(crate) fn give_back(&mut self, run: Run) {
        self.lent -= u64::from(run.1);
        self.release(run);
    }

    /// Number of blocks of the superblocks and the ring.
    pub(crate) fn fixed(&self) -> u64 {
        self.first
    }

    /// Freezes: gives the runs that were given out for data so far. They are the frozen delta's.
    pub(crate) fn freeze(&mut self) -> Vec<Run> {
        self.cursors[Kind::Pages as usize] = self.first;
        std::mem::take(&mut self.born)
    }

    /// Finds, among the blocks that a frozen delta's data was given, those to which nothing refers after its merge.
    pub(crate) fn unreferenced(&self, born: &[Run], stable: &Bits) -> Vec<Run> {
        let mut out = Vec::new();
        for (start, n) in born {
            let (mut at, end) = (*start, *start + u64::from(*n));
            while let Some((from, n)) = stable.free_run(at, end - at).filter(|run| run.0 < end) {
                let n = n.min(end - from);
                out.push((from, n as u32));
                at = from + n;
                if at == end {
                    break;
                }
            }
        }
        out
    }

    /// Takes blocks back to which nothing refers any more, on disk or in memory.
    pub(crate) fn release(&mut self, (block, n): Run) {
        assert_eq!(self.busy.write(block, n.into(), false), u64::from(n), "freed twice");
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
        alloc.punched(lent);
        alloc.give_back(lent);
        assert_eq!(alloc.backed() + u64::from(lent.1).min(100), 100);
        runs.into_iter().for_each(|run| alloc.release(run));
        alloc.doubt_backing();
        assert_eq!((alloc.backed(), alloc.free_below()), (0, 300));
        let run = alloc.take(50, Kind::Pages).expect("space")[0];
        assert_eq!(alloc.beyond, 50);
        alloc.release(run);
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
        runs.iter().step_by(2).for_each(|r| alloc.release(*r));
        let page = alloc.take(2, Kind::Pages).expect("a page");
        assert_eq!(page[0].1, 2);
        let more = alloc.take(100, Kind::Data).expect("in pieces");
        assert!(more.len() >= 3 && more.iter().map(|r| r.1).sum::<u32>() == 100);
    }
}
