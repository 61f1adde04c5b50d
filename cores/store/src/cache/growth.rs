//! How quickly long runs come into memory to stay there.
//!
//! New memory costs up to 3 µs for each KiB (measured on virtual machines, whose host must find it), ten times what the same bytes cost when
//! they only pass through a buffer that is there; it pays when they are read again and again. Whether they will be, the past tells: if what is
//! read a second time comes back before more was read than there is room for, then all of it will fit, and the sooner it is there the
//! better. If not, most of what is kept is read once more at best: then memory fills slowly, and the reader of today does not pay for it.

use crate::block::BLOCK;
use crate::fetch::LONGEST_READ;
use node::Mono;

/// Bytes of long runs in a second that are kept while all that is read fits.
pub(super) const PACE: usize = 128 << 20;
/// How much slower it goes if that does not fit.
pub(super) const SLOWER: i64 = 8;
/// Bytes that are kept at once: one read of the longest kind, for which others wait.
pub(super) const AT_ONCE: usize = LONGEST_READ as usize * BLOCK;
/// The less that is said by one read, the more reads must agree.
const AVERAGE_OVER: i64 = 16;

/// What is known of long reads that met the disk.
pub(super) struct Growth {
    /// Bytes that may be kept now. Less than nothing after some that cost more than they count for.
    credit: i64,
    /// Up to when time was credited.
    since: Mono,
    /// Bytes that were read.
    read: u64,
    /// How many bytes were read between a read and the next of the same: an average over the last few.
    between: i64,
}

impl Growth {
    pub(super) fn new() -> Self {
        Self { credit: AT_ONCE as i64, since: Mono(0), read: 0, between: i64::MAX / 2 }
    }

    /// Time goes on.
    pub(super) fn tick(&mut self, now: Mono) {
        const SECOND: u128 = 1_000_000_000;
        let past = u128::from(now.0.saturating_sub(self.since.0)).min(SECOND);
        let more = (past * PACE as u128 / SECOND) as i64;
        // Not for less, or what is rounded off adds up.
        if more >= (64 << 10) {
            (self.credit, self.since) = ((self.credit + more).min(AT_ONCE as i64), now);
        }
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
        if self.credit < bytes as i64 {
            return false;
        }
        // In a full memory old things go for new ones: what was needed before may not be needed now.
        let room = if used + bytes > limit { limit } else { limit - used };
        self.credit -= bytes as i64 * if self.between <= room as i64 { 1 } else { SLOWER };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1 << 30;

    /// Bytes that are kept in so many seconds, if reads of 4 MiB come back after `set` bytes.
    fn kept(set: Option<u64>, used: usize, seconds: u64) -> usize {
        let mut growth = Growth::new();
        let mut kept = 0;
        for milli in 0..seconds * 1000 {
            growth.tick(Mono(milli * 1_000_000));
            let went = set.map(|set| growth.read().saturating_sub(set));
            growth.came(AT_ONCE, went, 2 * LIMIT);
            kept += if growth.allows(AT_ONCE, used, LIMIT) { AT_ONCE } else { 0 };
        }
        kept
    }

    #[test]
    fn what_fits_comes_sooner_than_what_does_not() {
        let close = |n: usize, to: usize| n.abs_diff(to) <= to / 10 + AT_ONCE;
        let (fast, slow) = (10 * PACE, 10 * PACE / SLOWER as usize);
        assert!(close(kept(Some(LIMIT as u64 / 2), 0, 10), fast), "half of the memory is asked for");
        assert!(close(kept(Some(LIMIT as u64 / 2), LIMIT * 3 / 4, 10), slow), "a quarter of it is left");
        assert!(close(kept(Some(LIMIT as u64 / 2), LIMIT, 10), fast), "all of it is in use: others make room");
        assert!(close(kept(Some(3 * LIMIT as u64), 0, 10), slow) && close(kept(None, 0, 10), slow));
    }
}
