//! The file system below the store's file, called the host: how much it can still give, and what the store gives back
//! to it.
//!
//! A store's file grows as it fills, so the host can be full while the store has room. Blocks that are free in the
//! store but were written once belong to the file, and can be written without the host. When the host runs short, the
//! store gives them back to it, and from then on each run of blocks as it becomes free.
//!
//! It keeps what checkpoints and removals need: the first free blocks of the file, which is where pages of the index go
//! first. What is given back goes to whoever writes next, and may never come back.

use super::room::Space;
use crate::block::{BLOCK, Run};
use crate::io::{DATA, Io, Purpose};
use node::{DiskStat, Mono};
use std::time::Duration;

/// How often the sizes of the disk are asked for; more often when the host has less than `NEAR` bytes.
const STAT_EVERY: Duration = Duration::from_secs(2);
const STAT_OFTEN: Duration = Duration::from_millis(100);
const NEAR: u64 = 4 << 30;
/// Most blocks that one request gives back while the store's free space is searched.
const PIECE: u64 = 1 << 14;
/// Runs that are released in one round, and requests in flight that give runs back to the host.
const RELEASED: usize = 4096;
const TRIMS: usize = 64;
/// Wait until the ring's next part is claimed again after the host had no space for it.
const CLAIM_AGAIN: Duration = Duration::from_secs(10);

/// What the store knows of its host.
#[derive(Debug, Default)]
pub(crate) struct Host {
    /// Sizes of the data disk, as last told, less what was given out since.
    pub(super) disk: DiskStat,
    stat_at: Option<Mono>,
    /// Blocks before this one are not given back.
    kept: u64,
    /// First block that the search of free blocks has not reached. `sweeping`: it waits for a request.
    swept: u64,
    sweeping: bool,
    /// The ring is not written further ahead before this time.
    pub(super) claim_at: Mono,
    /// A write found no space, and it was not told yet that there is some again.
    was_full: bool,
    /// Requests in flight that give back what became free.
    trims: usize,
}

impl Space {
    /// Says whether the host limits the store and has nearly nothing left.
    pub(super) fn host_short(&self, io: &Io) -> bool {
        let free = self.host_blocks();
        free < self.alloc.free() && (io.host_full() || free < 8 * self.floor())
    }

    /// Says whether the host gives nothing more, or so little that a single large write may not fit.
    pub(crate) fn host_exhausted(&self, io: &Io) -> bool {
        io.host_full() || (self.host_short(io) && self.host_blocks() < self.floor())
    }

    /// Asks for the disk's sizes when it is time.
    pub(crate) fn ask_sizes(&mut self, io: &mut Io, now: Mono) {
        if self.host.stat_at.is_none_or(|at| at <= now) {
            let often = self.host.disk.host_free < NEAR;
            self.host.stat_at = Some(now.plus(if often { STAT_OFTEN } else { STAT_EVERY }));
            io.stat(DATA, Purpose::Stat);
        }
    }

    /// Returns when [`Self::ask_sizes`] has something to do.
    pub(crate) fn ask_sizes_at(&self) -> Mono {
        self.host.stat_at.unwrap_or(Mono(0))
    }

    /// Says whether free blocks are to be searched and given back: the host is short, and no such request is under way.
    pub(crate) fn is_to_give_back(&mut self, io: &Io) -> bool {
        if !self.host_short(io) {
            self.host.swept = 0;
            return false;
        }
        !self.host.sweeping
    }

    /// Gives the next free blocks back to the host. `kept_back`: blocks that are free and not for data.
    pub(crate) fn give_back(&mut self, io: &mut Io, kept_back: u64) {
        if self.host.swept == 0 {
            self.host.kept = self.alloc.behind_free(self.promised() + kept_back);
        }
        self.host.swept = self.host.swept.max(self.host.kept);
        // On a full disk, too, some blocks are given back: a part of the floor can be missed for that long.
        let most = PIECE.min(self.lendable(kept_back).max(self.floor() / 4));
        match self.alloc.borrow(self.host.swept, most) {
            None => self.host.swept = u64::MAX,
            Some(run) => {
                self.host.swept = run.0 + u64::from(run.1);
                self.host.sweeping = true;
                trim(io, run, true);
            }
        }
    }

    /// Number of runs that may be let go now: so many that neither this round nor the disk has too much to do at once.
    pub(crate) fn may_let_go(&self, io: &Io) -> usize {
        if self.host_short(io) { TRIMS.saturating_sub(self.host.trims) } else { RELEASED }
    }

    /// Takes a run back to which nothing refers any more. It can be given out again, after the host has it if the host
    /// is short.
    pub(crate) fn let_go(&mut self, io: &mut Io, run: Run) {
        if self.host_short(io) && run.0 >= self.host.kept {
            self.host.trims += 1;
            trim(io, run, false);
        } else {
            // What is kept was reckoned when less was free: the search begins anew, behind what is to be kept now.
            self.host.swept = 0;
            self.alloc.release(run, true);
            self.discards.note(run);
        }
    }

    /// Takes the end of a request that gave a run back to the host. `sweep`: it came from the search of free blocks.
    pub(crate) fn trimmed(&mut self, run: Run, sweep: bool) {
        match sweep {
            true => self.alloc.give_back(run, false),
            false => {
                self.host.trims -= 1;
                self.alloc.release(run, false);
            }
        }
        self.host.sweeping &= !sweep;
        // What came back is to be seen at once.
        self.host.stat_at = None;
    }

    /// The host had no space for the next part of the ring: it is not asked for some time.
    pub(crate) fn claim_refused(&mut self, now: Mono) {
        self.host.claim_at = now.plus(CLAIM_AGAIN);
    }

    /// The host had no space for a step ahead: none is made for some time.
    pub(crate) fn ahead_refused(&mut self, run: Run, now: Mono) {
        self.written_ahead(run, false);
        self.ahead.not_before = now.plus(CLAIM_AGAIN);
    }

    /// The host had no space for a write. True if that was not known.
    pub(crate) fn host_refused(&mut self) -> bool {
        self.host.stat_at = None;
        // What becomes free while the host stays full was written, so to doubt all that is free once is enough.
        let new = !std::mem::replace(&mut self.host.was_full, true);
        if new {
            self.alloc.doubt_backing();
        }
        new
    }

    /// Says whether the host has space again. True once.
    pub(crate) fn host_recovered(&mut self, io: &Io) -> bool {
        let again = self.host.was_full && !io.host_full() && io.writes_under_way() == 0;
        self.host.was_full &= !again;
        again
    }
}

fn trim(io: &mut Io, run: Run, sweep: bool) {
    io.trim(DATA, run.0 * BLOCK as u64, u64::from(run.1) * BLOCK as u64, Purpose::Trim(run, sweep));
}
