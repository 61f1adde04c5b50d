//! Looks for work a little longer before the thread sleeps.
//!
//! A wake-up of a sleeping thread costs tens of microseconds of processor time and latency. On a virtual machine the
//! example `measure` showed an echo of 20 µs instead of 54, at the same processor time. But a look in vain costs as
//! long as it took. So looks go on only while they succeed often enough.
//!
//! One case is worth a look without being asked for: a single client that does one thing at a time. Nobody else wants
//! the processor, and what the client waits for comes soon: the end of its only write from the disk, or its own next
//! request. Such a client shows in rounds that bring next to nothing for long.
//!
//! Many clients can look like that, too, where the machine is faster than they are. But what comes sooner than a
//! wake-up takes is better slept for: several requests then come in one round, which costs less for each. So the next
//! request counts as a success only if it was long in coming.
//!
//! Each look yields to other threads. A thread of the kernel ends a durable write. Where the disk's interrupt comes to
//! the looking processor, that thread would wait for the end of a time slice. `docs/performance/idle.md` has the
//! measurements.

use node::Mono;
use std::time::Duration;

/// Gain of a success, and cost of a failure. Where looks were asked for, a quarter of them must succeed. For the
/// only client's next request two fifths must. (One request at a time: three fifths succeed, the rest are
/// acknowledgements of replies. Sixteen in flight: a quarter.)
const ASKED: Price = Price { earned: 3, cost: 1 };
const UNASKED: Price = Price { earned: 3, cost: 2 };
/// Most credit.
const MOST_CREDIT: u32 = 12;
/// After so many sleeps without credit, one more look is tried.
const RETRY: u32 = 64;

/// Time to look for the end of the only disk request. Fast disks make a small write durable within this time.
const DISK: Duration = Duration::from_micros(200);
/// Time to look for the only client's next request. Two of its threads are woken meanwhile.
const PEER: Duration = Duration::from_micros(150);
/// Time below which a success was no look at all: it is the second piece of a request.
const AT_ONCE: Duration = Duration::from_micros(10);
/// Time above which, after [`AT_ONCE`], up to this, it is better to sleep: what comes sooner than this is better slept for.
const SOON: Duration = Duration::from_micros(45);
/// Rounds in a row with next to nothing in them before the only client is looked for; and how much next to nothing is:
/// a request in two pieces.
const LONELY: u32 = 512;
const NEXT_TO_NOTHING: usize = 2;
/// After a pause as long as this nobody is waiting. What servers tell each other now and then is slept for.
const PAUSE: Duration = Duration::from_millis(10);

/// Event that there is to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// A disk request, and peers.
    Disk,
    /// Peers only.
    Peers,
    /// Many things, or things unknown.
    Others,
}

/// Decides whether and how long to look.
#[derive(Debug)]
pub(crate) struct Spin {
    limit: Duration,
    never: bool,
    /// Rounds in a row that brought next to nothing.
    lonely: u32,
    /// Time when there last was something to do.
    busy: Mono,
    any: Credit,
    next: Credit,
}

/// Gain and cost of a look.
#[derive(Debug)]
struct Price {
    earned: u32,
    cost: u32,
}

/// Number of looks in vain that are allowed.
#[derive(Debug)]
struct Credit {
    price: Price,
    left: u32,
    sleeps: u32,
}

impl Credit {
    const fn full(price: Price) -> Self {
        Self { price, left: MOST_CREDIT, sleeps: 0 }
    }

    fn allows(&mut self) -> bool {
        if self.left == 0 {
            self.sleeps += 1;
            if self.sleeps < RETRY {
                return false;
            }
            self.sleeps = 0;
            self.left = 1;
        }
        true
    }

    fn note(&mut self, success: bool) {
        self.left = match success {
            true => (self.left + self.price.earned).min(MOST_CREDIT),
            false => self.left.saturating_sub(self.price.cost),
        };
    }
}

/// A look that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    begun: Mono,
    /// Time to give up.
    pub(crate) until: Mono,
    /// True if it is for the only client's next request, and nobody asked for it.
    unasked: bool,
}

impl Spin {
    /// Makes a rule. `asked`: looks last at most so long after there was something to do; zero: no looks; none: looks
    /// for the only client.
    pub(crate) fn new(asked: Option<Duration>) -> Self {
        Self {
            limit: asked.unwrap_or_default(),
            never: asked == Some(Duration::ZERO),
            lonely: 0,
            busy: Mono(0),
            any: Credit::full(ASKED),
            next: Credit::full(UNASKED),
        }
    }

    /// Notes that there were so many things to do.
    pub(crate) fn note_busy(&mut self, things: usize) {
        self.note_busy_at(crate::driver::now(), things);
    }

    fn note_busy_at(&mut self, now: Mono, things: usize) {
        let goes_on = things <= NEXT_TO_NOTHING && now.since(self.busy) < PAUSE;
        self.lonely = if goes_on { self.lonely.saturating_add(1) } else { 0 };
        self.busy = now;
    }

    /// Begins a look, if it is worth it.
    pub(crate) fn begin(&mut self, now: Mono, what: For) -> Option<Look> {
        let lonely = self.lonely >= LONELY && !self.never;
        let limit = match what {
            For::Disk if lonely => self.limit.max(DISK),
            For::Peers if lonely => self.limit.max(PEER),
            _ => self.limit,
        };
        let (until, unasked) = (self.busy.plus(limit), what == For::Peers && self.limit.is_zero());
        if limit.is_zero() || now >= until {
            return None;
        }
        let credit = if unasked { &mut self.next } else { &mut self.any };
        credit.allows().then_some(Look { begun: now, until, unasked })
    }

    /// Notes how a look ended.
    pub(crate) fn end(&mut self, look: Look, now: Mono, success: bool) {
        let took = now.since(look.begun);
        match look.unasked {
            true if success && took < AT_ONCE => {}
            true => self.next.note(success && took >= SOON),
            false => self.any.note(success),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_on_only_while_it_succeeds() {
        let mut spin = Spin::new(Some(Duration::from_secs(3600)));
        spin.note_busy(9);
        let now = crate::driver::now();
        for _ in 0..100 {
            let look = spin.begin(now, For::Others).unwrap();
            spin.end(look, now, true);
        }
        let mut tries = 0;
        for _ in 0..1000 {
            if let Some(look) = spin.begin(now, For::Others) {
                tries += 1;
                spin.end(look, now, false);
            }
        }
        assert!((MOST_CREDIT..40).contains(&tries), "{tries} tries in vain");
        assert_eq!(Spin::new(None).begin(now, For::Others), None);
    }

    #[test]
    fn a_lonely_client_is_waited_for_without_being_asked() {
        for what in [For::Disk, For::Peers] {
            let mut spin = Spin::new(None);
            let mut looks = |things: usize, what| {
                spin.note_busy(things);
                spin.begin(spin.busy, what).is_some()
            };
            for round in 1..2 * LONELY {
                // The first round comes after a pause.
                assert_eq!(looks(1, what), round > LONELY, "round {round}");
            }
            assert!(!looks(1, For::Others));
            assert!(!looks(3, what), "others are there");
            assert!(!looks(1, what), "and may come again");
            let mut never = Spin::new(Some(Duration::ZERO));
            for _ in 0..2 * LONELY {
                never.note_busy(1);
                assert_eq!(never.begin(never.busy, what), None, "it was said not to look");
            }
        }
    }

    #[test]
    fn what_comes_now_and_then_is_slept_for() {
        let mut spin = Spin::new(None);
        let mut now = Mono(1);
        for _ in 0..4 * LONELY {
            // A heartbeat and its answer.
            for pause in [PAUSE, PAUSE / 100] {
                now = now.plus(pause);
                spin.note_busy_at(now, 1);
                assert_eq!(spin.begin(now, For::Peers), None);
            }
        }
    }

    #[test]
    fn requests_that_come_soon_are_slept_for() {
        let tries = |gap: Duration| {
            let mut spin = Spin::new(None);
            let mut tries = 0;
            for _ in 0..LONELY + 1000 {
                spin.note_busy(1);
                let now = spin.busy;
                if let Some(look) = spin.begin(now, For::Peers) {
                    tries += 1;
                    spin.end(look, now.plus(gap), true);
                }
            }
            tries
        };
        assert!(tries(SOON) >= 1000 && tries(AT_ONCE / 2) >= 1000);
        assert!(tries(SOON / 2) < 40, "a try now and then");
    }
}
