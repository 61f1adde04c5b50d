//! Where the time of an operation goes.
//!
//! The core has no clock: it is told the time with every input, at the beginning of each turn, and when a round's
//! outputs were handed over ([`node::Node::carried_out`]). An operation is executed in the call that brought its last
//! missing piece, so the next reading after that call's is the end of its execution. The stages of one operation add up
//! to its latency:
//!
//! - *queued*: from the whole message to the beginning of its last, successful execution; data that it had to wait for
//!   is in it
//! - *executing*: the operation over the object, its transaction, the store's taking it
//! - *journaling* (writes): until the transaction is durable here and the driver has brought the news
//! - *copying* (writes): from then until all other copies have promised that it is durable there, as far as that takes
//!   longer
//! - *replying*: what else is done in that round, until all of the round's sends are handed to the driver

use super::latency::Latency;
use node::Mono;
use std::collections::VecDeque;
use std::time::Duration;

/// Readings that are remembered; an operation that is durable later than that counts its execution as journaling.
const REMEMBERED: usize = 512;

/// The readings of the clock that the machine was given, in order.
#[derive(Default)]
pub(crate) struct Readings(VecDeque<Mono>);

impl Readings {
    pub(crate) fn note(&mut self, now: Mono) {
        if self.0.back().is_some_and(|last| *last >= now) {
            return;
        }
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(now);
    }

    /// The reading after `moment`, if it is remembered that there was none between.
    fn after(&self, moment: Mono) -> Option<Mono> {
        let at = self.0.partition_point(|reading| *reading <= moment);
        if at == 0 { None } else { self.0.get(at).copied() }
    }
}

/// The stages, in order.
pub(crate) const STAGES: [&str; 5] = ["queued", "executing", "journaling", "copying", "replying"];

/// Which of them reads do not have.
const WRITES_ONLY: [usize; 2] = [2, 3];

/// The moments of an operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moments {
    /// It was here, whole.
    pub(crate) received: Mono,
    /// Its last execution began.
    pub(crate) executed: Mono,
    /// Its change was durable here; its answer, if there is none.
    pub(crate) durable: Mono,
    /// Its answer was let go.
    pub(crate) answered: Mono,
    /// The sends of that round were handed over.
    pub(crate) sent: Mono,
}

impl Moments {
    /// Returns how long each stage took.
    pub(crate) fn stages(&self, readings: &Readings) -> [Duration; STAGES.len()] {
        let executed = self.executed.clamp(self.received, self.sent);
        // An operation that waits for a journal ends its execution before the answer; another one is answered within it.
        let end = readings.after(executed).unwrap_or(executed).clamp(executed, self.sent);
        let answered = self.answered.clamp(end, self.sent);
        let durable = self.durable.clamp(end, answered);
        [
            executed.since(self.received),
            end.since(executed),
            durable.since(end),
            answered.since(durable),
            self.sent.since(answered),
        ]
    }
}

/// Times of one kind of operation.
#[derive(Default)]
pub(crate) struct Times {
    pub(crate) total: Latency,
    pub(crate) stages: [Latency; STAGES.len()],
}

impl Times {
    pub(crate) fn record(&mut self, total: Duration, stages: &[Duration; STAGES.len()], journaled: bool) {
        self.total.record(total);
        for (i, (latency, took)) in self.stages.iter_mut().zip(stages).enumerate() {
            if journaled || !WRITES_ONLY.contains(&i) {
                latency.record(*took);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(moments: Moments, readings: &[u64]) -> [u64; STAGES.len()] {
        let mut all = Readings::default();
        readings.iter().for_each(|r| all.note(Mono(*r)));
        moments.stages(&all).map(|d| d.as_nanos() as u64)
    }

    fn moments(received: u64, executed: u64, answered: u64, sent: u64) -> Moments {
        let [received, executed, answered, sent] = [received, executed, answered, sent].map(Mono);
        Moments { received, executed, durable: answered, answered, sent }
    }

    #[test]
    fn a_read_in_one_round_is_executed_until_the_next_reading() {
        assert_eq!(nanos(moments(10, 10, 10, 40), &[5, 10, 17, 30, 40]), [0, 7, 0, 0, 23]);
    }

    #[test]
    fn a_write_waits_for_its_journal() {
        assert_eq!(nanos(moments(10, 20, 500, 530), &[5, 10, 20, 26, 40, 500, 510, 530]), [10, 6, 474, 0, 30]);
    }

    #[test]
    fn a_write_waits_for_copies_after_its_own_journal_or_not_at_all() {
        let readings = [5, 10, 20, 26, 300, 500, 530];
        let m = moments(10, 20, 500, 530);
        assert_eq!(nanos(Moments { durable: Mono(300), ..m }, &readings), [10, 6, 274, 200, 30]);
        assert_eq!(nanos(Moments { durable: Mono(15), ..m }, &readings), [10, 6, 0, 474, 30], "a moment that cannot be");
    }

    #[test]
    fn what_is_forgotten_counts_for_the_journal_and_nothing_is_lost() {
        let m = moments(10, 20, 500, 530);
        assert_eq!(nanos(m, &[400, 500, 530]), [10, 0, 480, 0, 30]);
        for readings in [&[][..], &[1], &[10, 600], &[20, 530]] {
            assert_eq!(nanos(m, readings).iter().sum::<u64>(), 520, "{readings:?}");
        }
    }

    #[test]
    fn readings_are_bounded() {
        let mut all = Readings::default();
        (0..10_000).for_each(|n| all.note(Mono(n)));
        assert_eq!((all.0.len(), all.after(Mono(9_998))), (REMEMBERED, Some(Mono(9_999))));
    }
}
