//! Decides how quickly long runs come into memory to stay.
//!
//! New memory costs up to 3 µs for each KiB, measured on virtual machines, whose host must find it. That is ten times
//! what the same bytes cost when they pass through a buffer that is there. New memory pays when its bytes are read
//! again and again.
//!
//! The past tells whether they will be. If what is read a second time comes back before more was read than the memory
//! holds, then all of it will fit, and the sooner it is there the better. If not, most of what is kept is read once
//! more at best. Then memory fills slowly, and the reader of today does not pay for it.

use crate::block::BLOCK;
use crate::wish::LONGEST_READ;
use node::Mono;

/// Reads of this many bytes and more leave their buffer when they are kept. The buffer is for what is in flight, and
/// costs most to make anew.
pub(super) const COPIED: usize = 1 << 20;
/// How fast copied reads may come to stay, while all that is read fits: bytes in a second, and at once one read of the
/// longest kind.
pub(super) const PACE: Pace = Pace { second: 128 << 20, at_once: LONGEST_READ as usize * BLOCK };
/// Copied reads come to stay so many times slower when not all that is read fits.
pub(super) const SLOWER: i64 = 8;
/// How fast shorter reads may come to stay. Each is over soon, so nobody waits long.
const PACE_OF_SHORTER: Pace = Pace { second: 64 << 20, at_once: 64 << 20 };
/// Number of reads in the average.
const AVERAGE_OVER: i64 = 16;

/// How many bytes may be kept in a second, and how many at once.
pub(super) struct Pace {
    pub(super) second: usize,
    pub(super) at_once: usize,
}

/// What a pace allows now.
struct Credit {
    pace: Pace,
    /// Bytes that may still be kept. Below zero after some that cost more than they count for.
    left: i64,
    /// The time up to which credit was given.
    since: Mono,
}

impl Credit {
    fn new(pace: Pace) -> Self {
        Self { left: pace.at_once as i64, pace, since: Mono(0) }
    }

    fn tick(&mut self, now: Mono) {
        const SECOND: u128 = 1_000_000_000;
        let past = u128::from(now.0.saturating_sub(self.since.0)).min(SECOND);
        let more = (past * self.pace.second as u128 / SECOND) as i64;
        // Not for less, or rounding errors add up.
        if more >= (64 << 10) {
            (self.left, self.since) = ((self.left + more).min(self.pace.at_once as i64), now);
        }
    }

    /// Takes `cost` bytes of credit, if `bytes` are allowed. Says whether they are.
    fn take(&mut self, bytes: usize, cost: i64) -> bool {
        let allowed = self.left >= bytes as i64;
        self.left -= if allowed { cost } else { 0 };
        allowed
    }
}

/// What is known of long reads that met the disk.
pub(super) struct Growth {
    copied: Credit,
    shorter: Credit,
    /// Bytes that were read so far.
    read: u64,
    /// Bytes that were read between a read and the next of the same, on average over the last few.
    between: i64,
}

impl Growth {
    pub(super) fn new() -> Self {
        Self { copied: Credit::new(PACE), shorter: Credit::new(PACE_OF_SHORTER), read: 0, between: i64::MAX / 2 }
    }

    /// Gives credit for the time that has passed.
    pub(super) fn tick(&mut self, now: Mono) {
        self.copied.tick(now);
        self.shorter.tick(now);
    }

    /// Bytes that were read so far. The cache remembers it with an entry that goes, for [`Growth::came`].
    pub(super) fn read(&self) -> u64 {
        self.read
    }

    /// Notes a long read from the disk. `went`: [`Growth::read`] of the moment when the same blocks last went, if it is
    /// remembered. It is forgotten after about `memory` bytes.
    pub(super) fn came(&mut self, bytes: usize, went: Option<u64>, memory: usize) {
        self.read += bytes as u64;
        let between = went.map_or(memory as i64, |went| (self.read - went).min(memory as u64) as i64);
        self.between = self.between.min(memory as i64);
        self.between += (between - self.between) / AVERAGE_OVER;
    }

    /// Says whether `bytes` may be kept, in a memory of `limit` bytes of which `used` are in use, and takes them from
    /// what is allowed.
    pub(super) fn allows(&mut self, bytes: usize, used: usize, limit: usize) -> bool {
        if bytes < COPIED {
            // An entry that takes the place of others brings no new memory, so it costs nothing.
            return used + bytes > limit || self.shorter.take(bytes, bytes as i64);
        }
        // All of the memory counts, in use or not: what was needed before may not be needed now.
        let times = if self.between <= limit as i64 { 1 } else { SLOWER };
        self.copied.take(bytes, bytes as i64 * times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1 << 30;

    const AT_ONCE: usize = PACE.at_once;

    /// Bytes that are kept in so many seconds, if reads of 4 MiB come back after `set` bytes.
    fn kept(set: Option<u64>, seconds: u64) -> usize {
        let mut growth = Growth::new();
        let mut kept = 0;
        for milli in 0..seconds * 1000 {
            growth.tick(Mono(milli * 1_000_000));
            let went = set.map(|set| growth.read().saturating_sub(set));
            growth.came(AT_ONCE, went, 2 * LIMIT);
            kept += if growth.allows(AT_ONCE, LIMIT, LIMIT) { AT_ONCE } else { 0 };
        }
        kept
    }

    #[test]
    fn what_fits_comes_sooner_than_what_does_not() {
        let close = |n: usize, to: usize| n.abs_diff(to) <= to / 10 + AT_ONCE;
        let (fast, slow) = (10 * PACE.second, 10 * PACE.second / SLOWER as usize);
        assert!(close(kept(Some(LIMIT as u64 / 2), 10), fast));
        assert!(close(kept(Some(3 * LIMIT as u64), 10), slow) && close(kept(None, 10), slow));
        let mut growth = Growth::new();
        let mut shorter = |used| (0..10_000).filter(|_| growth.allows(128 << 10, used, LIMIT)).count();
        assert_eq!(
            (shorter(0), shorter(LIMIT)),
            (PACE_OF_SHORTER.at_once / (128 << 10), 10_000),
            "in a full memory they cost nothing"
        );
    }
}
