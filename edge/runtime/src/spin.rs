//! Looking for work a little longer before sleeping.
//!
//! A wake-up of a sleeping thread costs tens of microseconds of processor time and latency (on a virtual machine; measured with
//! the example `measure`: an echo takes 20 µs instead of 54, at the same processor time). But looking in vain costs as
//! much as was looked, so it goes on only while it succeeds often enough.

use node::Mono;
use std::time::Duration;

/// What a success earns, in failures that are then allowed.
const EARNED: u32 = 3;
/// Failures allowed at most.
const MOST_CREDIT: u32 = 12;
/// After so many sleeps without credit, one more try.
const RETRY: u32 = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Spin {
    limit: Duration,
    /// When there was something to do last.
    busy: Mono,
    credit: u32,
    sleeps: u32,
}

impl Spin {
    /// Looks at most for `limit` after there was something to do.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, busy: Mono(0), credit: MOST_CREDIT, sleeps: 0 }
    }

    /// There was something to do.
    pub(crate) fn note_busy(&mut self) {
        if !self.limit.is_zero() {
            self.busy = crate::driver::now();
        }
    }

    /// Until when to look, if it is worth it.
    pub(crate) fn until(&mut self, now: Mono) -> Option<Mono> {
        let end = self.busy.plus(self.limit);
        if self.limit.is_zero() || now >= end {
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
        spin.note_busy();
        let now = crate::driver::now();
        for _ in 0..100 {
            assert!(spin.until(now).is_some());
            spin.note_end(true);
        }
        let mut tries = 0;
        for _ in 0..1000 {
            if spin.until(now).is_some() {
                tries += 1;
                spin.note_end(false);
            }
        }
        assert!((MOST_CREDIT..40).contains(&tries), "{tries} tries in vain");
        assert_eq!(Spin::new(Duration::ZERO).until(now), None);
    }
}
