//! The slowest operations of the last ten minutes, and those that were too slow.

use super::Op;
use crate::perf::STAGES;
use bytes::Bytes;
use node::{Mono, Now};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;

/// Time for which an operation is remembered.
const REMEMBERED: Duration = Duration::from_secs(600);

/// An operation that is over.
#[derive(Clone)]
pub(crate) struct Finished {
    op: Op,
    stages: [Duration; STAGES.len()],
    /// Time when its answer was handed over.
    ended: Now,
}

impl Finished {
    /// A copy of a record that shares nothing large with others.
    pub(crate) fn new(op: &Op, stages: [Duration; STAGES.len()], ended: Now) -> Self {
        let mut op = Op { image: None, ..op.clone() };
        // A slice would keep its whole message in memory.
        op.request.object = Bytes::copy_from_slice(&op.request.object);
        Self { op, stages, ended }
    }

    fn took(&self) -> Duration {
        self.ended.mono.since(self.op.received)
    }

    fn json(&self, now: Mono) -> Value {
        self.op.finished_json(now, self.ended, &self.stages)
    }
}

/// Operations that are remembered.
#[derive(Default)]
pub(crate) struct History {
    /// The slowest, oldest first.
    slowest: Vec<Finished>,
    /// Those slower than the complaint time, oldest first.
    slow: VecDeque<Finished>,
    /// Time that an operation must take to get among the slowest.
    floor: Duration,
    /// Time when the oldest of the slowest is forgotten.
    next: Option<Mono>,
}

impl History {
    /// Returns true if an operation that took so long is to be given to [`History::remember`].
    pub(crate) fn wants(&self, took: Duration, now: Mono) -> bool {
        took > self.floor || self.next.is_none_or(|at| at <= now)
    }

    /// Remembers an operation, among `keep` at most.
    pub(crate) fn remember(&mut self, finished: Finished, now: Mono, keep: usize, complaint: Duration) {
        if finished.took() >= complaint && keep > 0 {
            while self.slow.len() >= keep {
                self.slow.pop_front();
            }
            self.slow.push_back(finished.clone());
        }
        self.slowest.retain(|f| f.ended.mono.plus(REMEMBERED) > now);
        self.slowest.push(finished);
        while self.slowest.len() > keep {
            let fastest = self.slowest.iter().enumerate().min_by_key(|(_, f)| f.took()).map_or(0, |(i, _)| i);
            self.slowest.remove(fastest);
        }
        let full = self.slowest.len() >= keep;
        let fastest = self.slowest.iter().map(Finished::took).min();
        // With nothing to be kept, nothing is wanted.
        self.floor = if !full { Duration::ZERO } else { fastest.unwrap_or(Duration::MAX) };
        let end = self.slowest.first().map_or(now, |f| f.ended.mono).plus(REMEMBERED);
        self.next = Some(end);
    }

    /// `dump_historic_ops`: the slowest, in the order of their ends or of their durations.
    pub(crate) fn json(&self, now: Now, keep: usize, by_duration: bool) -> Value {
        let mut shown: Vec<&Finished> = self.slowest.iter().filter(|f| f.ended.mono.plus(REMEMBERED) > now.mono).collect();
        if by_duration {
            shown.sort_by_key(|f| std::cmp::Reverse(f.took()));
        }
        let ops: Vec<Value> = shown.iter().map(|f| f.json(now.mono)).collect();
        json!({ "size": keep, "duration": REMEMBERED.as_secs(), "ops": ops })
    }

    /// `dump_historic_slow_ops`.
    pub(crate) fn slow_json(&self, now: Now, keep: usize, complaint: Duration) -> Value {
        let ops: Vec<Value> = self.slow.iter().map(|f| f.json(now.mono)).collect();
        json!({ "num to keep": keep, "threshold to keep": complaint.as_secs(), "Ops": ops })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::UTime;

    fn finished(received: u64, millis: u64) -> Finished {
        let mono = Mono(received + millis * 1_000_000);
        let op = Op { received: Mono(received), tid: millis, ..Op::default() };
        Finished::new(&op, [Duration::ZERO; STAGES.len()], Now { mono, wall: UTime::from_nanos(1 << 60) })
    }

    fn shown(history: &History, at: Mono) -> Vec<u64> {
        let now = Now { mono: at, wall: UTime::ZERO };
        let ops = history.json(now, 3, true)["ops"].clone();
        ops.as_array().unwrap().iter().map(|op| op["type_data"]["client_info"]["tid"].as_u64().unwrap()).collect()
    }

    #[test]
    fn the_slowest_are_kept_and_forgotten_in_time() {
        let mut history = History::default();
        for (n, millis) in [5, 1, 9, 7, 2, 40_000, 3].into_iter().enumerate() {
            let f = finished(n as u64, millis);
            let sent = f.ended.mono;
            if history.wants(f.took(), sent) {
                history.remember(f, sent, 3, Duration::from_secs(30));
            }
        }
        assert_eq!(shown(&history, Mono(0)), [40_000, 9, 7]);
        let now = Now { mono: Mono(0), wall: UTime::ZERO };
        assert_eq!(history.slow_json(now, 3, Duration::from_secs(30))["Ops"].as_array().unwrap().len(), 1);
        // Ten minutes later a fast one is worth remembering again.
        let late = Mono(700 * 1_000_000_000);
        assert!(history.wants(Duration::from_millis(1), late));
        history.remember(finished(late.0, 1), late, 3, Duration::from_secs(30));
        assert_eq!(shown(&history, late), [1]);
    }

    #[test]
    fn nothing_is_kept_if_nothing_shall_be() {
        let mut history = History::default();
        history.remember(finished(0, 5), Mono(1), 0, Duration::from_secs(30));
        assert!(!history.wants(Duration::from_secs(100), Mono(2)));
        assert!(shown(&history, Mono(0)).is_empty());
    }
}
