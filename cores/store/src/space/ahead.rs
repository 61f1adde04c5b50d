//! Writes space ahead: zeros beyond the file's frontier, so that the file system below has nothing left to decide when
//! data comes.
//!
//! A direct write into space that a file never had is handed to a worker thread, allocates, and leaves metadata for the
//! next flush. It takes twice the time of the same write into space that was written once. So some space is kept ready:
//! little at first, more when it ran out, and nothing more when the host is short.
//!
//! Long writes do not use it while no space of removed data is free. They pay the price of new space once for many bytes,
//! and zeros before them would double what the disk has to write.
//!
//! One write is in flight at a time; its blocks are lent by the allocator meanwhile. It is long, because each write
//! costs the file system below the same metadata, and the next flush waits for that. A crash leaves zeros in free
//! blocks, which does no harm.

use super::room::Space;
use crate::block::{BLOCK, Run};
use crate::io::{DATA, Io, Purpose};
use bytes::Bytes;
use node::{Buf, Mono};
use types::Rope;

/// Bytes of one write, and of the piece of zeros that it consists of.
const STEP: u64 = 4 << 20;
const ZEROS: usize = 256 << 10;
/// Most bytes that are kept ready at first.
const LEAST: u64 = 64 << 20;
/// Bytes of a write that takes new space rather than what is kept ready.
const LONG: u64 = 1 << 20;
/// The host must have so many times the bytes that are to be kept ready.
const SPARE: u64 = 8;

/// How much space is kept ready.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Blocks to keep ready.
    want: u64,
    /// [`crate::space::alloc::Allocator::beyond`] when `want` was last changed.
    seen: u64,
    /// True if a write is in flight.
    pub(super) writing: bool,
    /// Nothing is written ahead before this time: the host had no space.
    pub(super) not_before: Mono,
}

impl Space {
    /// Says whether a step may be written ahead now: none is in flight, and the host did not refuse one just before.
    pub(crate) fn may_write_ahead(&self, now: Mono) -> bool {
        !self.ahead.writing && now >= self.ahead.not_before
    }

    /// Returns whether a whole step is missing of what is to be ready. `most`: bytes to keep ready at most.
    pub(crate) fn lacks_ahead(&mut self, most: u64) -> bool {
        self.note_demand(most);
        let missing = self.ahead.want.saturating_sub(self.alloc.free_below());
        missing > 0 && missing >= self.whole_step()
    }

    fn whole_step(&self) -> u64 {
        (STEP / BLOCK as u64).min(self.ahead.want / 2)
    }

    /// Writes the next step ahead. `kept_back`: blocks that are free and not for data.
    pub(crate) fn write_ahead(&mut self, io: &mut Io, kept_back: u64) {
        // A checkpoint that needs the lent blocks at once would miss them.
        let step = self.whole_step().min(self.lendable(kept_back));
        let host = self.host.disk.host_free / BLOCK as u64;
        if step == 0 || host / SPARE < self.ahead.want || io.host_full() {
            return;
        }
        let frontier = self.alloc.frontier();
        if let Some(run) = self.alloc.borrow(frontier, step) {
            self.ahead.writing = true;
            self.host_gave(run.1.into());
            io.write(DATA, run.0 * BLOCK as u64, zeros(run.1), false, Purpose::Ahead(run));
        }
    }

    /// Gives a long write its blocks beyond the frontier. None if it is to take them below.
    pub(super) fn take_beyond(&mut self, blocks: u64) -> Option<Run> {
        let removed = self.alloc.free_below().saturating_sub(self.ahead.want);
        let host_is_short = self.host_blocks() / SPARE < self.ahead.want + blocks;
        if blocks < LONG / BLOCK as u64 || blocks <= removed || host_is_short {
            return None;
        }
        let run = self.alloc.take_beyond(blocks)?;
        // It did not find too little ready.
        self.ahead.seen += blocks;
        Some(run)
    }

    /// Keeps more ready if what was ready ran out.
    fn note_demand(&mut self, most: u64) {
        let most = (most / BLOCK as u64).min(self.alloc.total() / 16);
        let least = (LEAST / BLOCK as u64).min(most);
        let beyond = self.alloc.beyond;
        if beyond - self.ahead.seen > self.ahead.want {
            self.ahead.want *= 2;
            self.ahead.seen = beyond;
        }
        self.ahead.want = self.ahead.want.clamp(least, most);
    }

    /// Takes the end of a step. `written`: false if there was no space.
    pub(crate) fn written_ahead(&mut self, run: Run, written: bool) {
        self.ahead.writing = false;
        self.alloc.give_back(run, true);
        if written {
            let end = run.0 + u64::from(run.1);
            self.alloc.set_frontier(self.alloc.frontier().max(end));
        } else {
            // The frontier may have passed the run meanwhile, over space that the host does not have.
            self.alloc.doubt_backing();
        }
    }
}

/// Gives so many blocks of zeros, in little memory.
fn zeros(blocks: u32) -> Rope {
    let piece: Bytes = Buf::zeroed(ZEROS).freeze();
    let (mut left, mut out) = (blocks as usize * BLOCK, Rope::new());
    while left > 0 {
        let n = left.min(ZEROS);
        out.push(piece.slice(..n));
        left -= n;
    }
    out
}
