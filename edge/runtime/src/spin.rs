//! Looking for work a little longer before sleeping.
//!
//! A wake-up of a sleeping thread costs tens of microseconds of processor time and latency (on a virtual machine; measured with
//! the example `measure`: an echo takes 20 µs instead of 54, at the same processor time). But looking in vain costs as
//! much as was looked, so it goes on only while it succeeds often enough.
//!
//! One case is worth it without being asked for: a single client that waits for a single write. Its disk takes little longer than a
//! wake-up does, and nobody else wants the processor. It shows in rounds that bring next to nothing for long.
//!
//! Who looks lets others run each time: a durable write is ended by a thread of the kernel's, and where the disk's interrupt comes to the processor
//! that looks, that thread would wait for the end of a time slice (small writes one at a time: 188 µs until durable without, 139 to 165 with,
//! where the disk takes 115).

use node::Mono;
use std::time::Duration;

/// What a success earns, in failures that are then allowed.
const EARNED: u32 = 3;
/// Failures allowed at most.
const MOST_CREDIT: u32 = 12;
/// After so many sleeps without credit, one more try.
const RETRY: u32 = 64;

/// How long to look for the end of the only disk request: fast disks make a small write durable within this.
const DISK: Duration = Duration::from_micros(200);
/// Rounds with next to nothing in them before that is done, and what that is: a request in two pieces.
const LONELY: u32 = 512;
const NEXT_TO_NOTHING: usize = 2;

/// What there is to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// A disk request, and peers.
    Disk,
    /// Peers, or many things.
    Others,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Spin {
    limit: Duration,
    /// Rounds in a row that brought next to nothing.
    lonely: u32,
    /// When there was something to do last.
    busy: Mono,
    credit: u32,
    sleeps: u32,
}

impl Spin {
    /// Looks at most for `limit` after there was something to do.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, lonely: 0, busy: Mono(0), credit: MOST_CREDIT, sleeps: 0 }
    }

    /// There were so many things to do.
    pub(crate) fn note_busy(&mut self, things: usize) {
        self.lonely = if things <= NEXT_TO_NOTHING { self.lonely.saturating_add(1) } else { 0 };
        if !self.limit.is_zero() || self.lonely >= LONELY {
            self.busy = crate::driver::now();
        }
    }

    /// Until when to look, if it is worth it.
    pub(crate) fn until(&mut self, now: Mono, what: For) -> Option<Mono> {
        let limit = match what {
            For::Disk if self.lonely >= LONELY => self.limit.max(DISK),
            _ => self.limit,
        };
        let end = self.busy.plus(limit);
        if limit.is_zero() || now >= end {
            return None;
        }
        if self.credit == 0 {
            self.sleeps += 1;
            if self.sleeps < RETRY {
                return None;
            }
            self.sleeps = 0;
            self.credit = 1;
        }
        Some(end)
    }

    /// How looking ended.
    pub(crate) fn note_end(&mut self, success: bool) {
        self.credit = match success {
            true => (self.credit + EARNED).min(MOST_CREDIT),
            false => self.credit.saturating_sub(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_on_only_while_it_succeeds() {
        let mut spin = Spin::new(Duration::from_secs(3600));
        spin.note_busy(9);
        let now = crate::driver::now();
        for _ in 0..100 {
            assert!(spin.until(now, For::Others).is_some());
            spin.note_end(true);
        }
        let mut tries = 0;
        for _ in 0..1000 {
            if spin.until(now, For::Others).is_some() {
                tries += 1;
                spin.note_end(false);
            }
        }
        assert!((MOST_CREDIT..40).contains(&tries), "{tries} tries in vain");
        assert_eq!(Spin::new(Duration::ZERO).until(now, For::Others), None);
    }

    #[test]
    fn a_lonely_write_is_looked_for_without_being_asked() {
        let mut spin = Spin::new(Duration::ZERO);
        let mut looks = |things: usize, what| {
            spin.note_busy(things);
            spin.until(spin.busy, what).is_some()
        };
        for round in 1..2 * LONELY {
            assert_eq!(looks(1, For::Disk), round >= LONELY, "round {round}");
        }
        assert!(!looks(1, For::Others));
        assert!(!looks(3, For::Disk), "others are there");
        assert!(!looks(1, For::Disk), "and may come again");
    }
}
