//! Heartbeats: this OSD asks others now and then, and notes how long the answers take. Nobody is judged by them yet.

use crate::Osd;
use crate::peers::Purpose;
use maps::OsdMap;
use messages::internal::Beat;
use node::{Mono, Now, Outputs};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::{OsdId, UTime};

/// How many others are asked, if there are so many (Ceph's `osd_heartbeat_min_peers`).
const PARTNERS: usize = 10;
/// Unanswered beats that are remembered of one peer.
const OPEN: usize = 16;
/// Minutes over which figures are kept.
const MINUTES: u64 = 15;
const MINUTE: u64 = 60_000_000_000;
/// Figures that are older are called stale (Ceph's `osd_heartbeat_stale`).
const STALE: Duration = Duration::from_secs(600);

/// Round trips that ended in one minute, nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Minute {
    number: u64,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

/// What is known of the way to one peer.
#[derive(Debug, Default)]
struct Way {
    /// Stamps of beats that are not answered.
    open: VecDeque<u64>,
    /// Oldest first.
    minutes: VecDeque<Minute>,
    /// The last answer: when, also by the wall clock, and how long it took in nanoseconds.
    last: Option<(Mono, UTime, u64)>,
}

/// Mean, least and most, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Figures {
    mean: f64,
    min: f64,
    max: f64,
}

/// Nanoseconds as milliseconds with three digits behind the point.
fn millis(nanos: u64) -> f64 {
    (nanos / 1_000) as f64 / 1_000.0
}

impl Way {
    fn answered(&mut self, now: Now, stamp: u64) {
        // An answer that comes twice, or that nobody asked for, tells nothing.
        let Some(place) = self.open.iter().position(|open| *open == stamp) else { return };
        self.open.remove(place);
        let took = now.mono.0.saturating_sub(stamp);
        self.last = Some((now.mono, now.wall, took));
        let number = now.mono.0 / MINUTE;
        match self.minutes.back_mut().filter(|minute| minute.number == number) {
            Some(minute) => {
                minute.count += 1;
                minute.sum += took;
                minute.min = minute.min.min(took);
                minute.max = minute.max.max(took);
            }
            None => self.minutes.push_back(Minute { number, count: 1, sum: took, min: took, max: took }),
        }
        self.minutes.retain(|minute| minute.number + MINUTES >= number);
    }

    /// Of the last so many minutes and the one that has begun.
    fn figures(&self, now: Mono, minutes: u64) -> Figures {
        let those = || self.minutes.iter().filter(|minute| minute.number + minutes >= now.0 / MINUTE);
        let (sum, count) = those().fold((0, 0), |(sum, count), minute| (sum + minute.sum, count + minute.count));
        Figures {
            mean: millis(sum.checked_div(count).unwrap_or(0)),
            min: millis(those().map(|minute| minute.min).min().unwrap_or(0)),
            max: millis(those().map(|minute| minute.max).max().unwrap_or(0)),
        }
    }
}

/// The beats of this OSD.
#[derive(Debug, Default)]
pub(crate) struct Beats {
    /// When the next ones go out, if there is anybody.
    due: Mono,
    ways: BTreeMap<OsdId, Way>,
}

/// Who is asked: the OSDs that are up, those first whose numbers follow ours.
fn partners(map: &OsdMap, whoami: OsdId) -> Vec<OsdId> {
    let ring = (whoami + 1..map.max_osd).chain(0..whoami.min(map.max_osd));
    ring.filter(|osd| map.is_up(*osd)).take(PARTNERS).collect()
}

impl Beats {
    /// There is a newer map.
    pub(crate) fn follow(&mut self, map: &OsdMap, whoami: OsdId) {
        let partners = partners(map, whoami);
        self.ways.retain(|osd, _| partners.contains(osd));
        for osd in partners {
            self.ways.entry(osd).or_default();
        }
    }

    /// When [`Osd::beat`] must be called at the latest.
    pub(crate) fn deadline(&self) -> Mono {
        if self.ways.is_empty() { Mono::NEVER } else { self.due }
    }

    /// What `dump_osd_network` prints: ways that took at least `threshold` milliseconds, the slowest first. There is one network.
    pub(crate) fn describe(&self, now: Now, whoami: OsdId, threshold: i64) -> Value {
        let mut slow: Vec<(f64, Value)> = Vec::new();
        for (osd, way) in &self.ways {
            let Some((at, wall, took)) = way.last else { continue };
            let all = [1, 5, 15].map(|minutes| way.figures(now.mono, minutes));
            let worst = all.iter().fold(0.0, |worst: f64, figures| worst.max(figures.mean));
            if worst < threshold as f64 {
                continue;
            }
            let row = |of: fn(&Figures) -> f64| json!({ "1min": of(&all[0]), "5min": of(&all[1]), "15min": of(&all[2]) });
            let entry = json!({
                "last update": wall.ctime(),
                "stale": now.mono.since(at) > STALE,
                "from osd": whoami,
                "to osd": osd,
                "interface": "front",
                "average": row(|figures| figures.mean),
                "min": row(|figures| figures.min),
                "max": row(|figures| figures.max),
                "last": millis(took),
            });
            slow.push((worst, entry));
        }
        slow.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        json!({ "threshold": threshold, "entries": slow.into_iter().map(|(_, entry)| entry).collect::<Vec<_>>() })
    }
}

impl Osd {
    /// Asks all partners, if it is time to. One that cannot be reached is asked the next time.
    pub(crate) fn beat(&mut self, now: Now, out: &mut Outputs) {
        if now.mono < self.beats.deadline() {
            return;
        }
        self.beats.due = now.mono.plus(self.options.beat_interval);
        let partners: Vec<OsdId> = self.beats.ways.keys().copied().collect();
        for osd in partners {
            let (fsid, whoami, epoch, stamp) = (self.config.fsid, self.config.whoami, self.maps.epoch(), now.mono.0);
            let beat = Beat { fsid, osd: whoami, epoch, stamp, answer: false };
            if !self.post(osd, beat.clone(), out) {
                let Some(Ok(session)) = self.reach(now, osd, Purpose::Beats, out) else { continue };
                self.msgr.send(session, beat.encode());
            }
            if let Some(way) = self.beats.ways.get_mut(&osd) {
                way.open.push_back(stamp);
                if way.open.len() > OPEN {
                    way.open.pop_front();
                }
            }
        }
    }

    /// A peer answered.
    pub(crate) fn beat_answered(&mut self, now: Now, osd: OsdId, beat: &Beat) {
        if beat.osd != osd || beat.fsid != self.config.fsid || !beat.answer {
            return;
        }
        if beat.epoch > self.maps.epoch() {
            self.ask_for_maps();
        }
        if let Some(way) = self.beats.ways.get_mut(&osd) {
            way.answered(now, beat.stamp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(seconds: u64) -> Now {
        Now { mono: Mono(seconds * 1_000_000_000), wall: UTime { sec: 1_795_484_766 + seconds as u32, nsec: 0 } }
    }

    fn beats(round_trips: &[(OsdId, u64, u64)]) -> Beats {
        let mut beats = Beats::default();
        for (osd, at, micros) in round_trips {
            let way = beats.ways.entry(*osd).or_default();
            let stamp = now(*at).mono.0 - micros * 1_000;
            way.open.push_back(stamp);
            way.answered(now(*at), stamp);
        }
        beats
    }

    #[test]
    fn figures_are_of_the_last_minutes() {
        let beats = beats(&[(1, 10, 900), (1, 400, 300), (1, 700, 100), (1, 706, 200)]);
        let way = &beats.ways[&1];
        let at = now(707).mono;
        assert_eq!(way.figures(at, 1), Figures { mean: 0.15, min: 0.1, max: 0.2 });
        assert_eq!(way.figures(at, 5), Figures { mean: 0.2, min: 0.1, max: 0.3 });
        assert_eq!(way.figures(at, 15), Figures { mean: 0.375, min: 0.1, max: 0.9 });
        assert_eq!(way.figures(now(60 * 40).mono, 15), Figures::default());
    }

    #[test]
    fn an_answer_counts_once_and_only_if_it_was_asked_for() {
        let mut way = Way::default();
        way.open.push_back(1_000_000_000);
        way.answered(now(2), 5);
        assert!(way.last.is_none());
        way.answered(now(2), 1_000_000_000);
        way.answered(now(3), 1_000_000_000);
        assert_eq!((way.last.map(|(at, ..)| at), way.minutes[0].count), (Some(now(2).mono), 1));
    }

    /// The keys and their layout were recorded from 16.2.15 (three OSDs, `ceph daemon osd.0 dump_osd_network 0`).
    #[test]
    fn ways_are_described_as_ceph_does_slowest_first() {
        let beats = beats(&[(1, 100, 428), (2, 100, 499)]);
        let told = beats.describe(now(101), 0, 0);
        let mean = |n: usize| told["entries"][n]["average"]["1min"].clone();
        assert_eq!((mean(0), mean(1)), (json!(0.499), json!(0.428)));
        let three = json!({ "1min": 0.499, "5min": 0.499, "15min": 0.499 });
        let first = json!({
            "last update": "Tue Nov 24 01:47:46 2026", "stale": false, "from osd": 0, "to osd": 2, "interface": "front",
            "average": three, "min": three, "max": three, "last": 0.499,
        });
        assert_eq!((&told["entries"][0], &told["threshold"]), (&first, &json!(0)));
        assert_eq!(beats.describe(now(101), 0, 1000), json!({ "threshold": 1000, "entries": [] }));
        assert_eq!(beats.describe(now(701), 0, 0)["entries"][0]["stale"], json!(true));
    }
}
