//! The slowest operations of the last ten minutes, and those that were too slow.

use super::stages::{Moments, STAGES};
use node::{Mono, Now};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;
use types::UTime;

/// How long an operation is remembered.
const REMEMBERED: Duration = Duration::from_secs(600);

/// An operation that ended.
#[derive(Clone, Debug)]
pub(crate) struct Finished {
    pub(crate) description: String,
    pub(crate) client: String,
    pub(crate) tid: u64,
    pub(crate) moments: Moments,
    pub(crate) stages: [Duration; 4],
    /// Wall clock at its end.
    pub(crate) ended: UTime,
}

impl Finished {
    fn took(&self) -> Duration {
        self.moments.sent.since(self.moments.received)
    }

    fn json(&self, now: Mono) -> Value {
        let wall =
            |before_end: Duration| UTime::from_nanos(self.ended.as_nanos().saturating_sub(before_end.as_nanos() as u64)).iso();
        let mut left = self.took();
        let mut events = vec![json!({ "event": "initiated", "time": wall(left), "duration": 0.0 })];
        for (name, took) in STAGES.iter().zip(self.stages) {
            left = left.saturating_sub(took);
            events.push(json!({ "event": format!("end of {name}"), "time": wall(left), "duration": took.as_secs_f64() }));
        }
        json!({
            "description": self.description,
            "initiated_at": wall(self.took()),
            "age": now.since(self.moments.received).as_secs_f64(),
            "duration": self.took().as_secs_f64(),
            "type_data": {
                "flag_point": "replied",
                "client_info": { "client": self.client, "tid": self.tid },
                "events": events,
            },
        })
    }
}

/// What is remembered.
#[derive(Default)]
pub(crate) struct History {
    /// The slowest, oldest first.
    slowest: Vec<Finished>,
    /// Those slower than the complaint time, oldest first.
    slow: VecDeque<Finished>,
    /// What an operation must take to get among the slowest.
    floor: Duration,
    /// When the oldest of the slowest is forgotten.
    next: Option<Mono>,
}

impl History {
    /// Whether an operation that took so long is to be given to [`History::remember`].
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
        self.slowest.retain(|f| f.moments.sent.plus(REMEMBERED) > now);
        self.slowest.push(finished);
        while self.slowest.len() > keep {
            let fastest = self.slowest.iter().enumerate().min_by_key(|(_, f)| f.took()).map_or(0, |(i, _)| i);
            self.slowest.remove(fastest);
        }
        let full = self.slowest.len() >= keep;
        let fastest = self.slowest.iter().map(Finished::took).min();
        // With nothing to be kept, nothing is wanted.
        self.floor = if !full { Duration::ZERO } else { fastest.unwrap_or(Duration::MAX) };
        let end = self.slowest.first().map_or(now, |f| f.moments.sent).plus(REMEMBERED);
        self.next = Some(end);
    }

    /// `dump_historic_ops`: the slowest, in the order of their ends or of their durations.
    pub(crate) fn json(&self, now: Now, keep: usize, by_duration: bool) -> Value {
        let mut shown: Vec<&Finished> = self.slowest.iter().filter(|f| f.moments.sent.plus(REMEMBERED) > now.mono).collect();
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

    fn finished(received: u64, millis: u64) -> Finished {
        let sent = Mono(received + millis * 1_000_000);
        let moments = Moments { received: Mono(received), executed: Mono(received), answered: sent, sent };
        let (description, client, ended) = (format!("{millis}"), "client.1".to_owned(), UTime::from_nanos(1 << 60));
        Finished { description, client, tid: 1, moments, stages: [Duration::ZERO; 4], ended }
    }

    fn shown(history: &History, at: Mono) -> Vec<String> {
        let now = Now { mono: at, wall: UTime::ZERO };
        let ops = history.json(now, 3, true)["ops"].clone();
        ops.as_array().unwrap().iter().map(|op| op["description"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_slowest_are_kept_and_forgotten_in_time() {
        let mut history = History::default();
        for (n, millis) in [5, 1, 9, 7, 2, 40_000, 3].into_iter().enumerate() {
            let f = finished(n as u64, millis);
            let sent = f.moments.sent;
            if history.wants(f.took(), sent) {
                history.remember(f, sent, 3, Duration::from_secs(30));
            }
        }
        assert_eq!(shown(&history, Mono(0)), ["40000", "9", "7"]);
        let now = Now { mono: Mono(0), wall: UTime::ZERO };
        assert_eq!(history.slow_json(now, 3, Duration::from_secs(30))["Ops"].as_array().unwrap().len(), 1);
        // Ten minutes later a fast one is worth remembering again.
        let late = Mono(700 * 1_000_000_000);
        assert!(history.wants(Duration::from_millis(1), late));
        history.remember(finished(late.0, 1), late, 3, Duration::from_secs(30));
        assert_eq!(shown(&history, late), ["1"]);
    }

    #[test]
    fn nothing_is_kept_if_nothing_shall_be() {
        let mut history = History::default();
        history.remember(finished(0, 5), Mono(1), 0, Duration::from_secs(30));
        assert!(!history.wants(Duration::from_secs(100), Mono(2)));
        assert!(shown(&history, Mono(0)).is_empty());
    }
}
