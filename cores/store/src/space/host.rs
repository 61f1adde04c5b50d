//! The file system below the store's file, called the host: how much it can still give, and what the store gives back
//! to it.
//!
//! A store's file grows as it fills, so the host can be full while the store has room. Blocks that are free in the
//! store but were written once belong to the file, and can be written without the host. When the host runs short, the
//! store gives them back to it, and from then on each run of blocks as it becomes free.

use crate::block::BLOCK;
use crate::io::{DATA, Purpose};
use crate::space::alloc::Run;
use crate::store::Store;
use node::{DiskError, DiskStat, Level, Mono};
use std::time::Duration;

/// How often the sizes of the disk are asked for; more often when the host has less than `NEAR` bytes.
const STAT_EVERY: Duration = Duration::from_secs(2);
const STAT_OFTEN: Duration = Duration::from_millis(100);
const NEAR: u64 = 4 << 30;
/// Most blocks that one request gives back while the store's free space is searched.
const PIECE: u64 = 1 << 14;
/// Wait until the ring's next part is claimed again after the host had no space for it.
const CLAIM_AGAIN: Duration = Duration::from_secs(10);

/// What the store knows of its host.
#[derive(Debug, Default)]
pub(crate) struct Host {
    /// Sizes of the data disk, as last told, less what was given out since.
    pub(super) disk: DiskStat,
    stat_at: Option<Mono>,
    /// First block that the search of free blocks has not reached. `sweeping`: it waits for a request.
    swept: u64,
    sweeping: bool,
    /// The ring is not written further ahead before this time.
    pub(super) claim_at: Mono,
    /// A write found no space, and it was not told yet that there is some again.
    was_full: bool,
}

impl Store {
    /// Says whether the host limits the store and has nearly nothing left.
    fn host_short(&self) -> bool {
        let free = self.space.host_blocks();
        free < self.space.alloc.free() && (self.io.host_full() || free < 8 * self.space.floor())
    }

    /// Says whether the host gives nothing more, or so little that a single large write may not fit.
    pub(crate) fn host_exhausted(&self) -> bool {
        self.io.host_full() || (self.host_short() && self.space.host_blocks() < self.space.floor())
    }

    /// Asks for the disk's sizes when it is time.
    pub(crate) fn ask_sizes(&mut self) {
        if self.space.host.stat_at.is_none_or(|at| at <= self.now) {
            let often = self.space.host.disk.host_free < NEAR;
            self.space.host.stat_at = Some(self.now.plus(if often { STAT_OFTEN } else { STAT_EVERY }));
            self.io.stat(DATA, Purpose::Stat);
        }
    }

    /// When [`Self::ask_sizes`] has something to do.
    pub(crate) fn ask_sizes_at(&self) -> Mono {
        self.space.host.stat_at.unwrap_or(Mono(0))
    }

    /// Searches the free blocks when the host is short, and gives them back.
    pub(crate) fn give_back(&mut self) {
        if !self.host_short() {
            self.space.host.swept = 0;
        } else if !self.space.host.sweeping {
            // On a full disk, too, some blocks are given back: a part of the floor can be missed for that long.
            let lendable = self.space.lendable(self.kept_back());
            let most = PIECE.min(lendable.max(self.space.floor() / 4));
            match self.space.alloc.borrow(self.space.host.swept, most) {
                None => self.space.host.swept = u64::MAX,
                Some(run) => {
                    self.space.host.swept = run.0 + u64::from(run.1);
                    self.space.host.sweeping = true;
                    self.trim(run, true);
                }
            }
        }
    }

    fn trim(&mut self, run: Run, sweep: bool) {
        self.io.trim(DATA, run.0 * BLOCK as u64, u64::from(run.1) * BLOCK as u64, Purpose::Trim(run, sweep));
    }

    /// Takes a run back to which nothing refers any more. It can be given out again, after the host has it if the host
    /// is short.
    pub(crate) fn let_go(&mut self, run: Run) {
        if self.host_short() {
            self.trim(run, false);
        } else {
            self.space.alloc.release(run);
        }
    }

    /// Takes the end of a request that gave a run back to the host. `sweep`: it came from the search of free blocks.
    pub(crate) fn trimmed(&mut self, run: Run, sweep: bool) {
        self.space.alloc.punched(run);
        match sweep {
            true => self.space.alloc.give_back(run),
            false => self.space.alloc.release(run),
        }
        self.space.host.sweeping &= !sweep;
        // What came back is to be seen at once.
        self.space.host.stat_at = None;
    }

    /// Deals with a write for which there was no space. True if that is done.
    pub(crate) fn no_space(&mut self, done: &node::DiskDone) -> bool {
        if !matches!(done.result, Err(DiskError::NoSpace)) {
            return false;
        }
        if self.io.is_claim(done.token) {
            // The ring goes on in the part that exists.
            self.io.ended(done.token);
            self.space.host.claim_at = self.now.plus(CLAIM_AGAIN);
            self.journal.claim_refused();
            return true;
        }
        if let Some(run) = self.io.ahead(done.token) {
            self.io.ended(done.token);
            self.written_ahead(run, false);
            self.space.ahead.not_before = self.now.plus(CLAIM_AGAIN);
            return true;
        }
        if !self.ready() || !self.io.refused(done.token, self.now) {
            return false;
        }
        self.space.host.stat_at = None;
        self.space.alloc.doubt_backing();
        if !std::mem::replace(&mut self.space.host.was_full, true) {
            self.log.push((Level::Warn, "the host has no space for the store's file; writes are tried again each second".into()));
        }
        true
    }

    /// Logs when the host has space again.
    pub(crate) fn note_host(&mut self) {
        if self.space.host.was_full && !self.io.host_full() && self.io.writes_under_way() == 0 {
            self.space.host.was_full = false;
            self.log.push((Level::Info, "the host has space again for the store's file".into()));
        }
    }
}
