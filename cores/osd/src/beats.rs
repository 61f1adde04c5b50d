//! Heartbeats: this OSD asks others twice a second, notes how long the answers take, and tells the monitors who does
//! not answer (judged in [`crate::failure_detector`]).
//!
//! Asked are the OSDs that share groups with this one, and so many more that there are `osd_heartbeat_min_peers` (at
//! most 64). A session that broke is opened again at once: if its process is gone the port refuses, and the monitors
//! hear it within milliseconds. While a peer is silent its session is opened anew now and then, since a connection that
//! lost much may be slow to come back.
//!
//! Where a peer has an address in a network of the cluster alone, it is asked through both networks: there (*back*),
//! and at the address that clients use (*front*). Who is silent in either of them is told to the monitors, and who is
//! silent in one does not answer *again* before it answers in both. Promises to readers are those of the back alone,
//! where letters go. So a host that has lost its clients is marked down, although the other OSDs hear it.

use crate::Osd;
use crate::failure_detector::{GRACE, Lateness, PeerHealth, Report};
use crate::peers::{Content, Purpose, has_front};
use maps::OsdMap;
use messages::internal::{Beat, Failure, OsdFailures};
use node::{Level, Mono, Now, Outputs};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use types::{Epoch, OsdId, PgId, UTime};

/// Longest time between two heartbeats, whatever is configured: a promise must be renewed some times while it runs.
const LONGEST: Duration = Duration::from_millis(7_500);
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

/// State of the way to one peer.
#[derive(Debug, Default)]
struct Way {
    /// Stamps of beats that are not answered.
    open: VecDeque<u64>,
    /// Oldest first.
    minutes: VecDeque<Minute>,
    /// The last answer: when, also by the wall clock, and how long it took in nanoseconds.
    last: Option<(Mono, UTime, u64)>,
    /// Record of its health.
    health: PeerHealth,
    /// Time when a session to it that broke is opened again, before the next question.
    dial: Option<Mono>,
    /// Time when its session was given up last since it was silent.
    anew: Mono,
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
    /// Takes an answer. False if it comes twice, or nobody asked for it: then it tells nothing.
    fn answered(&mut self, now: Now, stamp: u64, late: &Lateness) -> bool {
        let Some(place) = self.open.iter().position(|open| *open == stamp) else { return false };
        self.open.remove(place);
        let took = now.mono.0.saturating_sub(stamp);
        let next = self.open.iter().filter(|open| **open > stamp).min();
        self.health.answered(now.mono, Mono(stamp), next.map(|open| Mono(*open)), late);
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
        true
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
#[derive(Debug)]
pub(crate) struct Beats {
    /// Time when the next ones go out, if there is anybody.
    due: Mono,
    /// By peer and network: [`Purpose::Beats`] is the back, [`Purpose::Front`] the front.
    ways: BTreeMap<(OsdId, Purpose), Way>,
    late: Lateness,
    grace: Duration,
    /// The epoch in which this OSD came up.
    life: Epoch,
    /// A mistake to be found: own lateness is not taken off.
    #[cfg(feature = "sim")]
    careless: bool,
    /// A mistake to be found: a case whose time has come is looked at, whether a monitor hears of it or not.
    #[cfg(feature = "sim")]
    impatient: bool,
}

impl Default for Beats {
    fn default() -> Self {
        Self {
            due: Mono(0),
            ways: BTreeMap::new(),
            late: Lateness::default(),
            grace: GRACE,
            life: 0,
            #[cfg(feature = "sim")]
            careless: false,
            #[cfg(feature = "sim")]
            impatient: false,
        }
    }
}

/// Returns who is asked: who shares these groups, and enough others.
fn partners(map: &OsdMap, whoami: OsdId, groups: &[PgId], least: usize) -> BTreeSet<OsdId> {
    let mut sharing = BTreeSet::new();
    for pg in groups {
        let placed = map.placed(*pg);
        sharing.extend(placed.up.iter().chain(&placed.acting));
    }
    map.beat_partners(whoami, sharing, least)
}

impl Beats {
    /// There is a newer map. `groups`: those of this OSD; `least`: so many are asked at least.
    pub(crate) fn follow(&mut self, map: &OsdMap, whoami: OsdId, groups: &[PgId], least: usize) {
        let partners = partners(map, whoami, groups, least);
        let leads = |osd: OsdId, purpose| partners.contains(&osd) && (purpose == Purpose::Beats || has_front(map, osd));
        self.ways.retain(|(osd, purpose), _| leads(*osd, *purpose));
        let life = map.up_from(whoami);
        if self.life != life {
            // Nobody answers an OSD that is down in the map.
            self.life = life;
            self.due = Mono(0);
            for way in self.ways.values_mut() {
                way.open.clear();
                way.health.reset();
            }
        }
        let fronts = partners.iter().filter(|osd| has_front(map, **osd)).map(|osd| (*osd, Purpose::Front));
        for (osd, purpose) in partners.iter().map(|osd| (*osd, Purpose::Beats)).chain(fronts) {
            let (way, life) = (self.ways.entry((osd, purpose)).or_default(), map.up_from(osd));
            if way.health.life != life {
                // Groups that are shared with it cannot be read before it answers.
                self.due = Mono(0);
                // What was open was asked of another life.
                way.open.clear();
                way.health = PeerHealth::new(life);
            }
        }
    }

    /// Returns whom this OSD asks, and in which networks.
    pub(crate) fn partners(&self) -> impl Iterator<Item = (OsdId, Purpose)> {
        self.ways.keys().copied()
    }

    /// Returns when [`Osd::beat`] must be called at the latest. `heard`: there is a monitor that can be told. Without
    /// one nothing comes of a case whose time has come; the next monitor is told when its session stands.
    pub(crate) fn deadline(&self, heard: bool) -> Mono {
        if self.ways.is_empty() {
            return Mono::NEVER;
        }
        #[cfg(feature = "sim")]
        let heard = heard || self.impatient;
        let case = |way: &Way| if heard { way.health.deadline(&self.late, self.grace) } else { Mono::NEVER };
        let soonest = |way: &Way| case(way).min(way.dial.unwrap_or(Mono::NEVER));
        self.ways.values().map(soonest).min().unwrap_or(Mono::NEVER).min(self.due)
    }

    /// Returns how late this OSD's own timers were.
    pub(crate) fn lateness(&self) -> &Lateness {
        &self.late
    }

    /// Another monitor listens now, who knows nothing.
    pub(crate) fn tell_again(&mut self) {
        self.ways.values_mut().for_each(|way| way.health.forget_told());
    }

    /// A session for beats broke. It is opened again at `dial`; `refused`: nobody listens there.
    pub(crate) fn broke(&mut self, osd: OsdId, purpose: Purpose, refused: bool, dial: Mono) {
        let Some(way) = self.ways.get_mut(&(osd, purpose)) else { return };
        way.dial = Some(dial);
        if refused {
            way.health.refused();
        }
    }

    /// A session for beats stands.
    pub(crate) fn stands(&mut self, osd: OsdId, purpose: Purpose) {
        if let Some(way) = self.ways.get_mut(&(osd, purpose)) {
            way.dial = None;
            way.health.connected();
        }
    }

    /// A mistake to be found: see [`crate::failure_detector`]; who was stopped accuses the others.
    #[cfg(feature = "sim")]
    pub(crate) fn be_careless(&mut self) {
        self.careless = true;
    }

    /// A mistake to be found: see [`Beats::deadline`]; who has no monitor is never done.
    #[cfg(feature = "sim")]
    pub(crate) fn be_impatient(&mut self) {
        self.impatient = true;
    }

    /// Returns what `dump_osd_network` prints: ways that took at least `threshold` milliseconds, the slowest first.
    /// With one network all are called front.
    pub(crate) fn describe(&self, now: Now, whoami: OsdId, threshold: i64) -> Value {
        let mut slow: Vec<(f64, Value)> = Vec::new();
        for ((osd, purpose), way) in &self.ways {
            let back = *purpose == Purpose::Beats && self.ways.contains_key(&(*osd, Purpose::Front));
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
                "interface": if back { "back" } else { "front" },
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
    /// Asks all partners if it is time to, opens sessions again that broke, and tells the monitors what it finds.
    pub(crate) fn beat(&mut self, now: Now, out: &mut Outputs) {
        if now.mono < self.beats.deadline(self.mon.session().is_some()) {
            return;
        }
        self.beats.grace = self.options.beat_grace;
        if now.mono >= self.beats.due && !self.beats.ways.is_empty() {
            self.note_lateness(now.mono);
            self.beats.due = now.mono.plus(self.options.beat_interval.min(LONGEST));
            let partners: Vec<(OsdId, Purpose)> = self.beats.ways.keys().copied().collect();
            partners.into_iter().for_each(|(osd, purpose)| self.ask(now, osd, purpose, out));
        }
        self.dial_again(now, out);
        self.accuse(now, out);
    }

    fn note_lateness(&mut self, now: Mono) {
        #[cfg(feature = "sim")]
        if self.beats.careless {
            return;
        }
        let due = self.beats.due;
        if due > Mono(0) {
            self.beats.late.ran(now, due);
        }
    }

    /// Asks one peer. That it should have been asked counts, whether it can be reached or not.
    fn ask(&mut self, now: Now, osd: OsdId, purpose: Purpose, out: &mut Outputs) {
        // No network is between those of one process.
        if purpose == Purpose::Front && self.is_neighbour(osd) {
            return;
        }
        let (fsid, whoami, epoch, stamp) = (self.config.fsid, self.config.whoami, self.maps.epoch(), now.mono.0);
        let lease = denc::low32(self.options.lease().as_millis() as u64);
        let beat = Beat { fsid, osd: whoami, epoch, stamp, lease, answer: false };
        let mut sent = self.post(osd, Content::Beat(beat.clone()), out);
        if !sent && let Some(Ok(session)) = self.reach(now, osd, purpose, out) {
            self.msgr.send(session, beat.encode());
            sent = true;
        }
        let Some(way) = self.beats.ways.get_mut(&(osd, purpose)) else { return };
        way.health.asked(now.mono);
        if sent {
            way.open.push_back(stamp);
            if way.open.len() > OPEN {
                way.open.pop_front();
            }
        }
    }

    /// Opens sessions for beats again whose time has come, and gives up those to peers that are silent for another
    /// grace.
    fn dial_again(&mut self, now: Now, out: &mut Outputs) {
        let (grace, late) = (self.beats.grace, &self.beats.late);
        let silent = |way: &Way| way.health.silence(now.mono, late) >= grace && now.mono.since(way.anew) >= grace;
        let stuck: Vec<(OsdId, Purpose)> = self.beats.ways.iter().filter(|(_, way)| silent(way)).map(|(at, _)| *at).collect();
        for (osd, purpose) in stuck {
            let closed = self.hang_up(now, osd, purpose);
            if let Some(way) = self.beats.ways.get_mut(&(osd, purpose)) {
                way.anew = now.mono;
                way.dial = closed.or(way.dial);
            }
        }
        let due = |way: &Way| way.dial.is_some_and(|at| at <= now.mono);
        let due: Vec<(OsdId, Purpose)> = self.beats.ways.iter().filter(|(_, way)| due(way)).map(|(at, _)| *at).collect();
        for (osd, purpose) in due {
            let retry = match self.reach(now, osd, purpose, out) {
                Some(Err(at)) => Some(at),
                Some(Ok(_)) | None => None,
            };
            if let Some(way) = self.beats.ways.get_mut(&(osd, purpose)) {
                way.dial = retry;
            }
        }
    }

    /// Tells the monitors who refuses connections, who is silent for too long, and who answers again.
    fn accuse(&mut self, now: Now, out: &mut Outputs) {
        let Some(session) = self.mon.session() else { return };
        let (grace, late) = (self.beats.grace, &self.beats.late);
        let mut words = Vec::new();
        for ((osd, purpose), way) in &mut self.beats.ways {
            let fresh = !way.health.is_told();
            let Some(word) = way.health.report(now.mono, late, grace) else { continue };
            words.push((*osd, *purpose, way.health.life, fresh, word));
        }
        let told: BTreeSet<OsdId> =
            self.beats.ways.iter().filter(|(_, way)| way.health.is_told()).map(|((osd, _), _)| *osd).collect();
        let mut failed = Vec::new();
        for (osd, purpose, life, fresh, word) in words {
            // It answers in one network, and not in the other.
            if word == Report::Recovered && told.contains(&osd) {
                continue;
            }
            let network = if purpose == Purpose::Front { " in the clients' network" } else { "" };
            match word {
                Report::Refused if fresh => {
                    out.log(Level::Warn, "osd", format!("osd.{osd} refuses connections{network}: told to the monitors"))
                }
                Report::Silent(silence) if fresh => {
                    let silence = silence.as_secs_f64();
                    let text = format!("osd.{osd} has not answered for {silence:.1} s{network}: told to the monitors");
                    out.log(Level::Warn, "osd", text);
                }
                Report::Recovered => out.log(Level::Info, "osd", format!("osd.{osd} answers again")),
                Report::Refused | Report::Silent(_) => {}
            }
            let blank = Failure { osd, up_from: life, ..Failure::default() };
            failed.push(match word {
                Report::Refused => Failure { refused: true, ..blank },
                Report::Silent(silence) => Failure { silent_ms: u32::try_from(silence.as_millis()).unwrap_or(u32::MAX), ..blank },
                Report::Recovered => Failure { recovered: true, ..blank },
            });
        }
        self.send_failures(session, failed);
    }

    /// Sends reports of failures, if there are any.
    pub(crate) fn send_failures(&mut self, session: types::SessionId, failed: Vec<Failure>) {
        if !failed.is_empty() {
            let failures = OsdFailures { osd: self.config.whoami, epoch: self.maps.epoch(), failed };
            self.msgr.send(session, failures.encode());
        }
    }

    /// A peer answered.
    pub(crate) fn beat_answered(&mut self, now: Now, osd: OsdId, purpose: Purpose, beat: &Beat) {
        if beat.osd != osd || beat.fsid != self.config.fsid || !beat.answer {
            return;
        }
        if beat.epoch > self.maps.epoch() {
            self.ask_for_maps();
        }
        let Some(way) = self.beats.ways.get_mut(&(osd, purpose)) else { return };
        if way.answered(now, beat.stamp, &self.beats.late) && purpose == Purpose::Beats {
            self.promise_arrived(now, beat);
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
            let way = beats.ways.entry((*osd, Purpose::Beats)).or_default();
            let stamp = now(*at).mono.0 - micros * 1_000;
            way.open.push_back(stamp);
            way.answered(now(*at), stamp, &Lateness::default());
        }
        beats
    }

    #[test]
    fn figures_are_of_the_last_minutes() {
        let beats = beats(&[(1, 10, 900), (1, 400, 300), (1, 700, 100), (1, 706, 200)]);
        let way = &beats.ways[&(1, Purpose::Beats)];
        let at = now(707).mono;
        assert_eq!(way.figures(at, 1), Figures { mean: 0.15, min: 0.1, max: 0.2 });
        assert_eq!(way.figures(at, 5), Figures { mean: 0.2, min: 0.1, max: 0.3 });
        assert_eq!(way.figures(at, 15), Figures { mean: 0.375, min: 0.1, max: 0.9 });
        assert_eq!(way.figures(now(60 * 40).mono, 15), Figures::default());
    }

    #[test]
    fn who_shares_groups_is_asked_and_some_others_but_not_everybody() {
        use maps::{Incremental, Pool, state};
        use types::{EntityAddr, EntityAddrVec, Fsid};
        let mut change = Incremental::new(1, Fsid::default(), UTime::ZERO);
        change.new_max_osd = 100;
        for osd in 0..100 {
            let at = EntityAddr::msgr2(([10, 0, 0, 1], 7000 + osd as u16).into(), 7);
            change.new_up_client.insert(osd, EntityAddrVec(vec![at]));
        }
        change.new_pools.insert(1, Pool { pg_num: 4, pgp_num: 4, size: 3, ..Pool::default() });
        change.new_pg_temp.insert(PgId::new(1, 0), vec![50, 60, 70]);
        let map = OsdMap::default().apply(&change).expect("a map");
        let ask = |whoami, groups: &[PgId], least| partners(&map, whoami, groups, least).into_iter().collect::<Vec<_>>();
        assert_eq!(ask(60, &[PgId::new(1, 0)], 0), [50, 70]);
        assert_eq!(ask(60, &[PgId::new(1, 0)], 4), [50, 61, 62, 70]);
        assert_eq!(ask(98, &[], 3), [0, 1, 99]);
        assert_eq!(ask(5, &[], 1_000).len(), maps::MOST_PARTNERS);
        let mut change = Incremental::new(2, Fsid::default(), UTime::ZERO);
        change.new_state.insert(70, state::UP);
        let map = map.apply(&change).expect("a second map");
        assert_eq!(partners(&map, 60, &[PgId::new(1, 0)], 0).into_iter().collect::<Vec<_>>(), [50]);
    }

    #[test]
    fn another_life_is_another_case() {
        let map = |epoch| {
            let mut map = OsdMap::default();
            map.set_max_osd(2);
            map.osd_state = vec![maps::state::EXISTS | maps::state::UP; 2];
            map.osd_info[1].up_from = epoch;
            map
        };
        let mut beats = Beats::default();
        beats.follow(&map(5), 0, &[], 1);
        beats.broke(1, Purpose::Beats, true, now(1).mono);
        let back = (1, Purpose::Beats);
        let word = |beats: &mut Beats| {
            beats.ways.get_mut(&back).and_then(|way| way.health.report(now(1).mono, &beats.late, beats.grace))
        };
        assert_eq!((word(&mut beats), beats.ways[&back].health.life), (Some(Report::Refused), 5));
        beats.follow(&map(9), 0, &[], 1);
        assert_eq!((word(&mut beats), beats.ways[&back].health.life), (None, 9), "who listens no more was another one");
    }

    #[test]
    fn who_was_down_holds_nothing_against_those_who_did_not_answer() {
        let map = |epoch| {
            let mut map = OsdMap::default();
            map.set_max_osd(2);
            map.osd_state = vec![maps::state::EXISTS | maps::state::UP; 2];
            map.osd_info[0].up_from = epoch;
            map
        };
        let mut beats = Beats::default();
        beats.follow(&map(5), 0, &[], 1);
        let back = (1, Purpose::Beats);
        beats.ways.get_mut(&back).expect("a partner").health.asked(now(1).mono);
        let silence = |beats: &Beats| beats.ways[&back].health.silence(now(9).mono, &beats.late);
        beats.follow(&map(5), 0, &[], 1);
        assert_eq!(silence(&beats), Duration::from_secs(8));
        beats.follow(&map(7), 0, &[], 1);
        assert_eq!(silence(&beats), Duration::ZERO);
    }

    #[test]
    fn who_has_two_networks_is_asked_in_both() {
        use maps::Incremental;
        use types::{EntityAddr, EntityAddrVec, Fsid};
        let at = |a: u8, port| EntityAddrVec(vec![EntityAddr::msgr2(([10, a, 0, 1], port).into(), 7)]);
        let mut change = Incremental::new(1, Fsid::default(), UTime::ZERO);
        change.new_max_osd = 3;
        for osd in 0..3 {
            change.new_up_client.insert(osd, at(0, 7000 + osd as u16));
        }
        change.new_up_cluster.insert(1, at(1, 7001));
        let map = OsdMap::default().apply(&change).expect("a map");
        let mut beats = Beats::default();
        beats.follow(&map, 0, &[], 2);
        assert_eq!(beats.partners().collect::<Vec<_>>(), [(1, Purpose::Beats), (1, Purpose::Front), (2, Purpose::Beats)]);
        let mut change = Incremental::new(2, Fsid::default(), UTime::ZERO);
        change.new_up_client.insert(1, at(0, 7001));
        change.new_up_cluster.insert(1, at(0, 7001));
        beats.follow(&map.apply(&change).expect("a second map"), 0, &[], 2);
        assert_eq!(beats.partners().collect::<Vec<_>>(), [(1, Purpose::Beats), (2, Purpose::Beats)]);
    }

    #[test]
    fn an_answer_counts_once_and_only_if_it_was_asked_for() {
        let mut way = Way::default();
        way.open.push_back(1_000_000_000);
        way.answered(now(2), 5, &Lateness::default());
        assert!(way.last.is_none());
        way.answered(now(2), 1_000_000_000, &Lateness::default());
        way.answered(now(3), 1_000_000_000, &Lateness::default());
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
