//! A slow-down of a known size, for trials of the laboratory: does a comparison find it?
//!
//! Compiled with the feature `slowdown` only, which no release has. `NACRE_SLOWDOWN` says how many per cent of the
//! processor time that a reactor has used it wastes beside it. What is owed is carried over, so the share is exact over
//! time however short the rounds are.

use crate::sys;
use std::time::Duration;

/// Debt below which payment waits for the next rounds: reading the clock costs a good part of it.
const LEAST: Duration = Duration::from_micros(5);

/// Debt of one reactor. Invariant: `wasted` is a part of the processor time of the thread that made this.
#[derive(Debug)]
pub(crate) struct Slowdown {
    /// Wasted time for each unit of used time.
    share: f64,
    begun: Duration,
    wasted: Duration,
}

impl Slowdown {
    /// As `NACRE_SLOWDOWN` says, from now on; nothing if it is not set or not a number above zero.
    pub(crate) fn from_environment() -> Self {
        let per_cent = std::env::var("NACRE_SLOWDOWN").ok().and_then(|t| t.parse::<f64>().ok());
        Self::new(per_cent.filter(|p| p.is_finite() && *p > 0.0).unwrap_or(0.0) / 100.0)
    }

    fn new(share: f64) -> Self {
        Self { share, begun: sys::thread_cpu(), wasted: Duration::ZERO }
    }

    /// Wastes what the rounds until now owe.
    pub(crate) fn pay(&mut self) {
        let now = sys::thread_cpu();
        let used = now.saturating_sub(self.begun + self.wasted);
        let owed = used.mul_f64(self.share).saturating_sub(self.wasted);
        if owed < LEAST {
            return;
        }
        let mut wasted = Duration::ZERO;
        while wasted < owed {
            std::hint::spin_loop();
            wasted = sys::thread_cpu().saturating_sub(now);
        }
        self.wasted += wasted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses `time` of the thread's processor time.
    fn work(time: Duration) {
        let begun = sys::thread_cpu();
        while sys::thread_cpu() - begun < time {}
    }

    #[test]
    fn the_share_is_wasted_beside_the_work_and_none_if_none_is_asked() {
        for (share, most) in [(0.05, 0.06), (0.0, 0.0)] {
            let mut slowdown = Slowdown::new(share);
            for _ in 0..200 {
                work(Duration::from_micros(50));
                slowdown.pay();
            }
            let all = sys::thread_cpu() - slowdown.begun;
            let found = slowdown.wasted.as_secs_f64() / (all - slowdown.wasted).as_secs_f64();
            assert!((share * 0.98..=most).contains(&found), "{found} of {share}");
        }
    }
}
