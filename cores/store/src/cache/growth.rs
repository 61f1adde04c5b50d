//! How quickly long runs come into memory to stay there.
//!
//! New memory costs up to 3 µs for each KiB (measured on virtual machines, whose host must find it), ten times what the same bytes cost when
//! they only pass through a buffer that is there; it pays when they are read again and again. Whether they will be, the past tells: if what is
//! read a second time comes back before more was read than the memory holds, then all of it will fit, and the sooner it is there the
//! better. If not, most of what is kept is read once more at best: then memory fills slowly, and the reader of today does not pay for it.

use crate::block::BLOCK;
use crate::fetch::LONGEST_READ;
use node::Mono;

/// Reads of so many bytes and more leave the buffer that they came in when they are kept: it is for what is under way, and costs most to
/// make anew.
pub(super) const COPIED: usize = 1 << 20;
/// Bytes in a second of what is copied, while all that is read fits, and at once: one read of the longest kind, for which others wait.
pub(super) const PACE: Pace = Pace { second: 128 << 20, at_once: LONGEST_READ as usize * BLOCK };
/// How much slower it goes if that does not fit.
pub(super) const SLOWER: i64 = 8;
/// The same for shorter reads: each is over soon, so nobody waits for many.
const PACE_OF_SHORTER: Pace = Pace { second: 64 << 20, at_once: 64 << 20 };
/// How many reads the average is over.
const AVERAGE_OVER: i64 = 16;

/// How many bytes may be kept in a second, and at once.
pub(super) struct Pace {
    pub(super) second: usize,
    pub(super) at_once: usize,
}

/// What a pace allows now.
struct Credit {
    pace: Pace,
    /// Bytes. Less than nothing after some that cost more than they count for.
    left: i64,
    /// Up to when time was credited.
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
        // Not for less, or what is rounded off adds up.
        if more >= (64 << 10) {
            (self.left, self.since) = ((self.left + more).min(self.pace.at_once as i64), now);
        }
    }

    /// Takes what so many bytes cost, if that many are allowed.
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
    /// Bytes that were read.
    read: u64,
    /// How many bytes were read between a read and the next of the same: an average over the last few.
    between: i64,
}

impl Growth {
    pub(super) fn new() -> Self {
        Self { copied: Credit::new(PACE), shorter: Credit::new(PACE_OF_SHORTER), read: 0, between: i64::MAX / 2 }
    }

    /// Time goes on.
    pub(super) fn tick(&mut self, now: Mono) {
        self.copied.tick(now);
        self.shorter.tick(now);
    }

    /// How many bytes were read up to now: to be remembered with what goes, for [`Growth::came`].
    pub(super) fn read(&self) -> u64 {
        self.read
    }

    /// A long read came from the disk. `went`: [`Growth::read`] when the same went last, if that is remembered; things are forgotten after
    /// about `memory` bytes.
    pub(super) fn came(&mut self, bytes: usize, went: Option<u64>, memory: usize) {
        self.read += bytes as u64;
        let between = went.map_or(memory as i64, |went| (self.read - went).min(memory as u64) as i64);
        self.between = self.between.min(memory as i64);
        self.between += (between - self.between) / AVERAGE_OVER;
    }

    /// Whether so many bytes may be kept, in a memory of `limit` bytes of which `used` are. Takes them from what is allowed.
    pub(super) fn allows(&mut self, bytes: usize, used: usize, limit: usize) -> bool {
        if bytes < COPIED {
            // What takes the place of others brings its memory along, and costs nothing.
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
