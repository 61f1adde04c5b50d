//! Whether a machine is woken for nothing.
//!
//! A machine says when it must be woken ([`node::Node::deadline`]). One that leaves a deadline in the past on which it
//! does not act asks to be woken at once, again and again, for ever: that is a mistake of the machine, and takes a
//! whole processor. The driver counts such turns, tells the machine for its counters, writes a line now and then, and
//! lets the machine wait a millisecond each time once there are too many. Work that needs turns without input, as the
//! steps of a scrub in memory, is far below that.

use node::{Mono, Wakes};
use std::collections::BTreeMap;
use std::time::Duration;

/// Turns in vain that may come at once, and in each second afterwards.
const BURST: u64 = 20_000;
const PER_SECOND: u64 = 500;
/// Time for which a machine waits that has used these up.
const HOLD: Duration = Duration::from_millis(1);
/// Between two lines.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// A call that takes longer is counted: the other machines of the thread wait for its end, and so do all sockets and
/// disks.
const LONG: Duration = Duration::from_millis(5);

/// Measures the calls of the machines of one thread, by the times that the calls are told anyway: what begins now ends
/// what was before it.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Seat of the machine that is called, and since when.
    open: Option<(usize, Mono)>,
    /// Number and microseconds of long calls, by seat, that the machine was not told yet.
    long: BTreeMap<usize, (u64, u64)>,
}

impl Calls {
    /// A call begins.
    pub(crate) fn begins(&mut self, seat: usize, now: Mono) {
        self.ends(now);
        self.open = Some((seat, now));
    }

    /// The last call has ended.
    pub(crate) fn ends(&mut self, now: Mono) {
        let Some((seat, began)) = self.open.take() else { return };
        let took = now.since(began);
        if took > LONG {
            let long = self.long.entry(seat).or_default();
            *long = (long.0 + 1, long.1 + took.as_micros() as u64);
        }
    }

    /// Returns what a machine is to be told: number and microseconds of long calls since the last time.
    pub(crate) fn news(&mut self, seat: usize) -> Option<(u64, u64)> {
        if self.long.is_empty() { None } else { self.long.remove(&seat) }
    }
}

/// The turns of one machine.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Counts that the machine is told.
    pub(crate) wakes: Wakes,
    left: u64,
    refilled: Mono,
    /// Before this it is not woken for a deadline.
    held: Mono,
    said: Option<Mono>,
    /// Counts when the last line was written.
    then: Wakes,
}

impl Watch {
    pub(crate) fn new() -> Self {
        let (wakes, then) = (Wakes::default(), Wakes::default());
        Self { wakes, left: BURST, refilled: Mono(0), held: Mono(0), said: None, then }
    }

    /// Returns when the machine is woken that wants to be at `deadline`.
    pub(crate) fn not_before(&self, deadline: Mono) -> Mono {
        deadline.max(self.held)
    }

    /// A turn is over for which nothing had come in. `silent`: nothing was put out; `deadline`: the next one. A line,
    /// if one is due.
    pub(crate) fn turned_idle(&mut self, now: Mono, silent: bool, deadline: Mono) -> Option<String> {
        self.wakes.idle += 1;
        if !silent || deadline > now {
            return None;
        }
        self.wakes.vain += 1;
        let refill = now.since(self.refilled).as_millis() as u64 * PER_SECOND / 1000;
        if refill > 0 {
            self.left = self.left.saturating_add(refill).min(BURST);
            self.refilled = now;
        }
        if self.left > 0 {
            self.left -= 1;
            return None;
        }
        self.wakes.held += 1;
        self.held = now.plus(HOLD);
        if self.said.is_some_and(|said| now.since(said) < SAY_EVERY) {
            return None;
        }
        self.said = Some(now);
        let then = std::mem::replace(&mut self.then, self.wakes);
        Some(format!(
            "was woken {} times without anything to do, and asked to be woken again at once: a mistake of this program, please report \
             it; from now on it waits a millisecond each time",
            self.wakes.vain - then.vain
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_again_and_again_for_nothing_waits_and_is_written_of_once_a_minute() {
        let (mut watch, mut now, mut turns, mut lines) = (Watch::new(), Mono(1), 0, Vec::new());
        while now < Mono(130_000_000_000) {
            turns += 1;
            lines.extend(watch.turned_idle(now, true, Mono(0)));
            now = watch.not_before(Mono(0)).max(now.plus(Duration::from_micros(10)));
        }
        assert!((100_000..300_000).contains(&turns), "{turns} turns");
        assert_eq!((lines.len(), watch.wakes.vain, watch.wakes.idle), (3, turns, turns));
        assert!(watch.wakes.held > 50_000 && lines[0].contains("20101 times"), "{:?} {lines:?}", watch.wakes);
    }

    #[test]
    fn who_gets_on_is_left_alone() {
        let mut watch = Watch::new();
        for n in 0..1_000_000 {
            let now = Mono(1 + n * 1_000);
            assert_eq!(watch.turned_idle(now, false, Mono(0)), None, "it put something out");
            assert_eq!(watch.turned_idle(now, true, now.plus(HOLD)), None, "it waits");
        }
        assert_eq!((watch.wakes, watch.not_before(Mono(5))), (Wakes { idle: 2_000_000, ..Wakes::default() }, Mono(5)));
    }

    #[test]
    fn calls_that_take_long_are_counted_for_their_machine() {
        let (mut calls, ms) = (Calls::default(), |ms: u64| Mono(1 + ms * 1_000_000));
        calls.begins(0, ms(0));
        calls.begins(1, ms(6));
        calls.begins(1, ms(11));
        calls.ends(ms(31));
        // Waiting is no call.
        calls.begins(0, ms(500));
        calls.ends(ms(501));
        assert_eq!((calls.news(0), calls.news(1)), (Some((1, 6_000)), Some((1, 20_000))));
        assert_eq!((calls.news(0), calls.news(1)), (None, None));
    }
}
