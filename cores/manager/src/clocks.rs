//! How far the clocks of the other monitors are from the leader's, for `ceph time-sync-status` and `MON_CLOCK_SKEW`.
//! Nothing else depends on it.
//!
//! The leader asks all monitors of the quorum in rounds. An answer brings the other one's time, which was read between
//! the leader's asking and hearing. So only what lies outside of these two moments is a difference that is sure; that
//! is the *skew*, and a slow network makes none. A reign begins with a round. The next one comes after
//! `mon_timecheck_interval` seconds, after `mon_timecheck_skew_interval` if a clock is off, and at once when the quorum
//! has changed. Who does not answer within 5 s is asked again, in a new round.

use node::{Mono, Now};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::UTime;

/// Time for which answers are waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Record of one monitor's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clock {
    /// Seconds that it is ahead of the leader's, at least; negative: behind.
    pub skew: f64,
    /// Seconds from asking to hearing.
    pub latency: f64,
}

/// Questions of one go.
#[derive(Clone, Debug)]
struct Asked {
    mono: Mono,
    wall: UTime,
    waiting: BTreeSet<String>,
}

/// The leader's look at all clocks.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    /// Rounds so far.
    pub round: u64,
    asked: Option<Asked>,
    /// Members that the last round asked.
    members: BTreeSet<String>,
    found: BTreeMap<String, Clock>,
}

impl Clocks {
    /// Begins a round with these monitors, the leader left out, if one is due. Gives its number.
    pub fn begin(&mut self, now: Now, others: &BTreeSet<String>, interval: Duration) -> Option<u64> {
        let due = match &self.asked {
            _ if *others != self.members => true,
            None => !others.is_empty(),
            Some(asked) if !asked.waiting.is_empty() => now.mono.since(asked.mono) >= PATIENCE,
            Some(asked) => now.mono.since(asked.mono) >= interval,
        };
        if !due {
            return None;
        }
        self.round += 1;
        self.found.retain(|name, _| others.contains(name));
        self.members = others.clone();
        self.asked = Some(Asked { mono: now.mono, wall: now.wall, waiting: others.clone() });
        Some(self.round)
    }

    /// A monitor says what time it had when it was asked in this round.
    pub fn heard(&mut self, now: Now, name: &str, round: u64, at: UTime) {
        let Some(asked) = self.asked.as_mut().filter(|_| round == self.round) else { return };
        if !asked.waiting.remove(name) {
            return;
        }
        let latency = now.mono.since(asked.mono);
        // The leader's own clock may jump in between: what passed is told by the one that cannot.
        let (first, last) = (asked.wall.as_nanos(), asked.wall.plus(latency).as_nanos());
        let skew = match at.as_nanos() {
            at if at < first => -seconds(first - at),
            at if at > last => seconds(at - last),
            _ => 0.0,
        };
        self.found.insert(name.to_owned(), Clock { skew, latency: latency.as_secs_f64() });
    }

    /// Returns true if all have answered.
    pub fn is_finished(&self) -> bool {
        self.asked.as_ref().is_none_or(|asked| asked.waiting.is_empty())
    }

    /// Returns what is known of a monitor's clock; nothing of the leader's own, which all are compared with.
    pub fn of(&self, name: &str) -> Option<Clock> {
        self.found.get(name).copied()
    }

    /// The monitors whose clocks are off by more than `allowed` seconds.
    pub fn off(&self, allowed: f64) -> impl Iterator<Item = (&str, Clock)> {
        self.found.iter().filter(move |(_, clock)| clock.skew.abs() > allowed).map(|(name, clock)| (name.as_str(), *clock))
    }
}

fn seconds(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(300);

    fn at(millis: u64) -> Now {
        Now { mono: Mono(millis * 1_000_000), wall: wall(1_000_000 + millis) }
    }

    fn wall(millis: u64) -> UTime {
        UTime::from_nanos(millis * 1_000_000)
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn a_slow_network_is_no_skew() {
        let mut clocks = Clocks::default();
        assert_eq!(clocks.begin(at(0), &names(&["b", "c", "d"]), EVERY), Some(1));
        clocks.heard(at(400), "b", 1, wall(1_000_390));
        clocks.heard(at(400), "c", 1, wall(1_000_500));
        assert!(!clocks.is_finished());
        clocks.heard(at(400), "d", 1, wall(999_000));
        assert!(clocks.is_finished());
        assert_eq!(clocks.of("b"), Some(Clock { skew: 0.0, latency: 0.4 }));
        assert_eq!((clocks.of("c").unwrap().skew, clocks.of("d").unwrap().skew), (0.1, -1.0));
        assert_eq!(clocks.off(0.05).map(|(name, _)| name).collect::<Vec<_>>(), ["c", "d"]);
        assert_eq!(clocks.off(0.5).count(), 1);
    }

    #[test]
    fn rounds_come_in_their_time_when_somebody_is_silent_and_when_the_quorum_changes() {
        let mut clocks = Clocks::default();
        assert_eq!(clocks.begin(at(0), &names(&[]), EVERY), None, "nobody to ask");
        assert_eq!(clocks.begin(at(0), &names(&["b"]), EVERY), Some(1));
        assert_eq!(clocks.begin(at(4999), &names(&["b"]), EVERY), None);
        assert_eq!(clocks.begin(at(5000), &names(&["b"]), EVERY), Some(2), "the silent one is asked again");
        clocks.heard(at(5001), "b", 1, wall(0));
        assert_eq!(clocks.of("b"), None, "an answer to an earlier round");
        clocks.heard(at(5001), "b", 2, wall(1_005_000));
        clocks.heard(at(5002), "x", 2, wall(0));
        assert_eq!((clocks.of("b").unwrap().skew, clocks.of("x")), (0.0, None));
        assert_eq!(clocks.begin(at(304_999), &names(&["b"]), EVERY), None);
        assert_eq!(clocks.begin(at(305_000), &names(&["b"]), EVERY), Some(3));
        assert_eq!(clocks.begin(at(305_001), &names(&["c"]), EVERY), Some(4));
        assert_eq!(clocks.of("b"), None, "it is not in the quorum");
    }
}
