//! Writes space ahead: zeros beyond the file's frontier, so that the file system below has nothing left to decide when
//! data comes.
//!
//! A direct write into space that a file never had is handed to a worker thread, allocates, and leaves metadata for the
//! next flush. It takes twice the time of the same write into space that was written once. So some space is kept ready:
//! little at first, more when it ran out, and nothing more when the host is short.
//!
//! One write is in flight at a time; its blocks are lent by the allocator meanwhile. It is long, because each write
//! costs the file system below the same metadata, and the next flush waits for that. A crash leaves zeros in free
//! blocks, which does no harm.

use crate::block::BLOCK;
use crate::io::{DATA, Purpose};
use crate::space::alloc::Run;
use crate::store::Store;
use bytes::Bytes;
use node::{Buf, Mono};
use types::Rope;

/// Bytes of one write, and of the piece of zeros that it consists of.
const STEP: u64 = 4 << 20;
const ZEROS: usize = 256 << 10;
/// Most bytes that are kept ready at first.
const LEAST: u64 = 64 << 20;
/// The host must have so many times the bytes that are to be kept ready.
const SPARE: u64 = 8;

/// How much space is kept ready.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Blocks to keep ready.
    want: u64,
    /// [`crate::space::alloc::Allocator::beyond`] when `want` was last changed.
    seen: u64,
    /// Whether a write is in flight.
    pub(super) writing: bool,
    /// Nothing is written ahead before this time: the host had no space.
    pub(super) not_before: Mono,
}

impl Store {
    /// Writes the next step ahead, if too little is ready.
    pub(crate) fn write_ahead(&mut self) {
        if self.space.ahead.writing || self.stopping || self.now < self.space.ahead.not_before {
            return;
        }
        self.note_demand();
        let missing = self.space.ahead.want.saturating_sub(self.space.alloc.free_below());
        let whole = (STEP / BLOCK as u64).min(self.space.ahead.want / 2);
        // A checkpoint that needs the lent blocks at once would miss them.
        let step = whole.min(self.space.lendable(self.kept_back()));
        let host = self.space.host.disk.host_free / BLOCK as u64;
        if missing < whole || step == 0 || host / SPARE < self.space.ahead.want || self.io.host_full() {
            return;
        }
        let frontier = self.space.alloc.frontier();
        if let Some(run) = self.space.alloc.borrow(frontier, step) {
            self.space.ahead.writing = true;
            self.space.host_gave(run.1.into());
            self.io.write(DATA, run.0 * BLOCK as u64, zeros(run.1), false, Purpose::Ahead(run));
        }
    }

    /// Keeps more ready if what was ready ran out.
    fn note_demand(&mut self) {
        let most = (self.config.write_ahead / BLOCK as u64).min(self.space.alloc.total() / 16);
        let least = (LEAST / BLOCK as u64).min(most);
        let beyond = self.space.alloc.beyond;
        if beyond - self.space.ahead.seen > self.space.ahead.want {
            self.space.ahead.want *= 2;
            self.space.ahead.seen = beyond;
        }
        self.space.ahead.want = self.space.ahead.want.clamp(least, most);
    }

    /// Takes the end of a step. `written`: false if there was no space.
    pub(crate) fn written_ahead(&mut self, run: Run, written: bool) {
        self.space.ahead.writing = false;
        self.space.alloc.give_back(run);
        if written {
            let end = run.0 + u64::from(run.1);
            self.space.alloc.set_frontier(self.space.alloc.frontier().max(end));
            self.counters.ahead_bytes += u64::from(run.1) * BLOCK as u64;
        } else {
            // The frontier may have passed the run meanwhile, over space that the host does not have.
            self.space.alloc.doubt_backing();
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
