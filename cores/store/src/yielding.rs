//! How much defragmentation steps back before clients: it compares how long their requests take beside its own and without them.

use node::Mono;
use std::time::Duration;

/// A pause is at least so many times as long as the step before it, and at most.
const LEAST: u32 = 4;
const MOST: u32 = 256;
/// Requests of each kind before anything is concluded.
const ENOUGH: u32 = 32;
/// A request weighs so much in the mean of its kind: one of so many.
const WEIGHT: u32 = 16;
/// What is less than this matters to nobody.
const SMALL: Duration = Duration::from_micros(200);

/// The mean of the last requests, and how many there were since something was concluded from it.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    of: Duration,
    n: u32,
}

impl Mean {
    fn add(&mut self, took: Duration) {
        self.of = if self.of.is_zero() { took } else { (self.of * (WEIGHT - 1) + took) / WEIGHT };
        self.n = self.n.saturating_add(1);
    }
}

/// What is known of clients' requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Yielding {
    /// True if a step is under way, and when the last one ended.
    under_way: bool,
    ended: Mono,
    /// Requests that met no step, and those that met one.
    alone: Mean,
    beside: Mean,
    factor: u32,
}

impl Default for Yielding {
    fn default() -> Self {
        Self { under_way: false, ended: Mono(0), alone: Mean::default(), beside: Mean::default(), factor: LEAST }
    }
}

impl Yielding {
    /// A step begins.
    pub(crate) fn begin(&mut self) {
        self.under_way = true;
    }

    /// The step is done.
    pub(crate) fn end(&mut self, now: Mono) {
        (self.under_way, self.ended) = (false, now);
    }

    /// A request of a client that was made at `began` is done.
    pub(crate) fn served(&mut self, began: Mono, now: Mono) {
        if now == began {
            // It was answered in the round that it came with, and met nothing.
            return;
        }
        let met = self.under_way || self.ended > began;
        let mean = if met { &mut self.beside } else { &mut self.alone };
        mean.add(now.since(began));
    }

    /// Times that the pause behind a step is as long as the step.
    pub(crate) fn factor(&self) -> u32 {
        self.factor
    }

    /// The same, after what the last requests showed: twice as much if those beside a step took half as long again as others, and
    /// less by a quarter if they did not take an eighth longer.
    pub(crate) fn judge(&mut self) -> u32 {
        if self.alone.n < ENOUGH || self.beside.n < ENOUGH {
            return self.factor;
        }
        let (alone, beside) = (self.alone.of.max(SMALL), self.beside.of);
        if beside > alone * 3 / 2 {
            self.factor = (2 * self.factor).min(MOST);
        } else if beside < alone * 9 / 8 {
            self.factor = (self.factor - self.factor / 4).max(LEAST);
        }
        (self.alone.n, self.beside.n) = (0, 0);
        self.factor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests of so many microseconds alone, and beside steps.
    fn factor_after(rounds: u32, alone: u64, beside: u64) -> u32 {
        let (mut yielding, mut now) = (Yielding::default(), 0);
        for _ in 0..rounds {
            for i in 0..2 * ENOUGH {
                let with = i % 2 == 1;
                if with {
                    yielding.begin();
                }
                let began = Mono(now);
                now += if with { beside } else { alone } * 1000;
                yielding.served(began, Mono(now));
                if with {
                    yielding.end(Mono(now));
                    now += 1;
                }
            }
            yielding.judge();
        }
        yielding.factor()
    }

    #[test]
    fn who_is_in_the_way_steps_back() {
        assert_eq!(factor_after(20, 1000, 1000), LEAST);
        assert_eq!(factor_after(20, 50, 180), LEAST, "nobody feels that");
        assert_eq!(factor_after(1, 1000, 3000), 2 * LEAST);
        assert_eq!(factor_after(20, 1000, 3000), MOST);
        assert_eq!(factor_after(20, 1000, 1300), LEAST, "neither much longer nor as long: it stays");
    }

    #[test]
    fn a_request_that_began_in_a_step_met_it() {
        let mut yielding = Yielding::default();
        yielding.begin();
        yielding.end(Mono(10));
        yielding.served(Mono(5), Mono(20));
        yielding.served(Mono(10), Mono(20));
        assert_eq!((yielding.beside.n, yielding.alone.n), (1, 1));
    }
}
