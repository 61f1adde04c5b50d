//! Who is down: what OSDs report of each other, and what the leader makes of it.
//!
//! - *Refused*: the port of an OSD's present life refuses connections. It is down and dead at once.
//! - *Silent*: enough others have had no answer for the grace. Enough are `mon_osd_min_down_reporters` from different
//!   subtrees (`mon_osd_reporter_subtree_level`); where there are not so many subtrees, so many OSDs, or all there are.
//! - *Its own disk is silent*: it asks for it.
//! - *Broken links*: two OSDs do not hear each other, and neither is silent to enough others. If they share groups,
//!   these stand still; after two graces the one with the most broken links is marked down. Who shares groups with an
//!   OSD that accuses it, and has not said the same in that time, says nothing at all (it is frozen, or reaches no
//!   monitor): such a link is held against it alone.
//!
//! OSDs repeat what they report every second, so reports that are not repeated end by themselves. Every monitor ends
//! its sessions with OSDs when another one leads, and they say all of it anew. So a new leader judges silence as soon
//! as he has heard everybody: each OSD that is up and that nobody accuses, and those who are accused, or [`ANSWER`] has
//! passed in which they could have said something. After a grace (`osd_heartbeat_grace`, without what slow OSDs get
//! beyond it) he waits for nobody.

use super::Monitor;
use maps::{Incremental, OsdMap, OsdXInfo, state as bits};
use messages::internal::OsdFailures;
use messages::mon::log_level;
use monstate::context::Env;
use monstate::effective::{monitor_flag, monitor_number, of_monitor};
use monstate::osds::{held, mark_down};
use monstate::state::State;
use node::{Level, Mono, Now, Outputs};
use quorum::Index;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{Epoch, OsdId, SessionId};

/// A report that was not repeated for so long does not count any more.
const FRESH: Duration = Duration::from_secs(4);
/// That a link came back is remembered for so long.
const MEMORY: Duration = Duration::from_secs(60);
/// The grace if nobody set `osd_heartbeat_grace`, seconds.
const GRACE: f64 = 3.0;
/// Seconds that an accused has, beyond the grace, to accuse a single accuser.
const COUNTER: f64 = 1.0;
/// Time in which an OSD that lives finds a monitor after a change of the leader, a try at one that is gone included.
const ANSWER: Duration = Duration::from_millis(1_500);
/// Most reports in one message that are looked at: an OSD asks at most 64 others.
const MOST: usize = 256;

/// One OSD's word about another one.
#[derive(Clone, Copy, Debug)]
struct Report {
    /// In which life the accused does not answer.
    life: Epoch,
    /// Since when, by this monitor's clock.
    since: Mono,
    /// Time when it was last said.
    heard: Mono,
}

/// Reports of now: accused, accuser.
#[derive(Debug, Default)]
pub(super) struct Failures {
    reports: BTreeMap<(OsdId, OsdId), Report>,
    /// Time when one of two last said that the other one answers again, the lower number first. The other one's
    /// silence counts from then on: links that were cut do not come back for both at the same time.
    mended: BTreeMap<(OsdId, OsdId), Mono>,
    /// Time when each OSD last booted. Silence before counts neither against it nor against those whom it accuses: it
    /// was marked down for that once already.
    booted: BTreeMap<OsdId, Mono>,
    /// Since when this leader listens.
    begun: Mono,
    /// Verdicts that need no judging, and were not carried out yet.
    verdicts: Vec<Verdict>,
    /// Something was said since all reports were judged last; this entry was the newest on its way when it began.
    fresh: Option<Index>,
    /// A mistake to be found: what was true of an earlier life is believed of the present one.
    #[cfg(feature = "sim")]
    gullible: bool,
}

/// Reason why an OSD is marked down, for the log.
#[derive(Debug)]
struct Verdict {
    osd: OsdId,
    /// In which life.
    life: Epoch,
    dead: bool,
    why: String,
}

impl Failures {
    /// Nothing is known yet.
    pub(super) fn new(now: Mono) -> Self {
        Self { begun: now, ..Self::default() }
    }

    fn is_about(&self, map: &OsdMap, osd: OsdId, life: Epoch) -> bool {
        #[cfg(feature = "sim")]
        if self.gullible {
            return map.is_up(osd);
        }
        map.is_up(osd) && map.up_from(osd) == life
    }

    /// Drops what is old, or about lives that are over, or said by OSDs that are down.
    fn sweep(&mut self, now: Mono, map: &OsdMap) {
        self.reports.retain(|(accused, accuser), report| {
            let current = map.is_up(*accused) && map.up_from(*accused) == report.life;
            current && map.is_up(*accuser) && now.since(report.heard) <= FRESH
        });
        self.mended.retain(|_, at| now.since(*at) <= MEMORY);
    }

    /// The accuser has had no answer for so long.
    fn note(&mut self, now: Mono, accused: OsdId, accuser: OsdId, life: Epoch, silent: Duration) {
        let since = Mono(now.0.saturating_sub(silent.as_nanos() as u64));
        let mended = self.mended.get(&pair(accused, accuser)).copied().unwrap_or_default();
        let booted = |osd| self.booted.get(&osd).copied().unwrap_or_default();
        let since = since.max(mended).max(booted(accused)).max(booted(accuser));
        self.reports.insert((accused, accuser), Report { life, since, heard: now });
    }

    /// An OSD has booted: another life of it begins. What was said before, by it or of it, is over; else it would be
    /// marked down for that again and again, until it boots no more.
    pub(super) fn begin_life(&mut self, now: Mono, osd: OsdId) {
        self.reports.retain(|(accused, accuser), _| *accused != osd && *accuser != osd);
        self.booted.insert(osd, now);
    }

    /// The accuser has answers again.
    fn take_back(&mut self, now: Mono, accused: OsdId, accuser: OsdId) {
        self.reports.remove(&(accused, accuser));
        self.mended.insert(pair(accused, accuser), now);
        if let Some(report) = self.reports.get_mut(&(accuser, accused)) {
            report.since = now;
        }
    }

    /// Those who accuse it.
    fn accusers(&self, accused: OsdId) -> impl Iterator<Item = (OsdId, &Report)> {
        self.reports.range((accused, OsdId::MIN)..=(accused, OsdId::MAX)).map(|((_, accuser), report)| (*accuser, report))
    }

    fn accuses(&self, accuser: OsdId, accused: OsdId) -> bool {
        self.reports.contains_key(&(accused, accuser))
    }

    /// Returns whether a leader who began a short time ago has heard all who may have something to say. `heard`: who
    /// has reported to him.
    fn has_listened(&self, now: Mono, state: &State, env: &Env, heard: impl Fn(OsdId) -> bool) -> bool {
        let since = now.since(self.begun);
        if since.as_secs_f64() >= grace(state, env) {
            return true;
        }
        let accused: BTreeSet<OsdId> = self.reports.keys().map(|(accused, _)| *accused).collect();
        let map = &state.osdmap;
        map.osds().filter(|osd| map.is_up(*osd)).all(|osd| heard(osd) || since >= ANSWER && accused.contains(&osd))
    }

    /// With how many others it has no good connection.
    fn broken_links(&self, osd: OsdId) -> usize {
        let others = self.reports.keys().filter_map(|(a, b)| match osd {
            _ if *a == osd => Some(*b),
            _ if *b == osd => Some(*a),
            _ => None,
        });
        others.collect::<BTreeSet<_>>().len()
    }
}

/// Both, the lower number first.
fn pair(a: OsdId, b: OsdId) -> (OsdId, OsdId) {
    (a.min(b), a.max(b))
}

/// Returns how far an OSD's silence may just be slowness, in seconds (`laggy_interval` by `laggy_probability`, as it
/// fades).
fn slowness(state: &State, env: &Env, osd: OsdId, silent: f64) -> f64 {
    if !monitor_flag(state, env, "mon_osd_adjust_heartbeat_grace") {
        return 0.0;
    }
    let Some(xinfo) = state.osdmap.osd_xinfo.get(osd as usize) else { return 0.0 };
    let halflife = monitor_number(state, env, "mon_osd_laggy_halflife").max(1.0);
    f64::from(xinfo.laggy_interval) * probability(xinfo) * 0.5f64.powf(silent / halflife)
}

fn probability(xinfo: &OsdXInfo) -> f64 {
    f64::from(xinfo.laggy_probability) / f64::from(u32::MAX)
}

/// Notes what the map remembers of an OSD that boots: `alive` if it is the process that was marked down, which was only slow.
pub(super) fn note_boot(state: &State, env: &Env, xinfo: &mut OsdXInfo, alive: bool, now: Now) {
    if xinfo.down_stamp.is_zero() {
        return;
    }
    let weight = monitor_number(state, env, "mon_osd_laggy_weight").clamp(0.0, 1.0);
    let most = monitor_number(state, env, "mon_osd_laggy_max_interval").max(0.0);
    let mut interval = f64::from(now.wall.sec.saturating_sub(xinfo.down_stamp.sec));
    if most > 0.0 {
        interval = interval.min(most);
    }
    let (new_interval, new_probability) = if alive { (interval, 1.0) } else { (0.0, 0.0) };
    let mixed = |old: f64, new: f64| new * weight + old * (1.0 - weight);
    xinfo.laggy_interval = mixed(f64::from(xinfo.laggy_interval), new_interval) as u32;
    xinfo.laggy_probability = (mixed(probability(xinfo), new_probability) * f64::from(u32::MAX)) as u32;
}

/// The grace without anybody's slowness, seconds.
fn grace(state: &State, env: &Env) -> f64 {
    of_monitor(state, env, "osd_heartbeat_grace").parse().ok().filter(|s: &f64| *s > 0.0).unwrap_or(GRACE)
}

/// Returns true if the map lets one more OSD be marked down (`mon_osd_min_up_ratio`).
fn enough_up(state: &State, env: &Env, downs: usize) -> bool {
    let (exist, up, _) = state.osdmap.osd_counts();
    let ratio = monitor_number(state, env, "mon_osd_min_up_ratio");
    (up.saturating_sub(downs + 1)) as f64 / exist.max(1) as f64 >= ratio
}

/// Returns true if so many accusers from such places are enough.
fn enough(state: &State, env: &Env, accused: OsdId, accusers: &[OsdId]) -> bool {
    let map = &state.osdmap;
    let wanted = (monitor_number(state, env, "mon_osd_min_down_reporters").max(1.0)) as usize;
    let level = map.crush.type_id(&of_monitor(state, env, "mon_osd_reporter_subtree_level"));
    // An OSD that is nowhere in the tree is a subtree of its own.
    let place = |osd: &OsdId| level.and_then(|kind| map.crush.ancestor_of_kind(*osd, kind)).unwrap_or(*osd);
    // There may be a thousand of them: nobody's place is looked up once enough are known.
    let spread = |mut osds: &mut dyn Iterator<Item = OsdId>| {
        let mut places = BTreeSet::new();
        Iterator::any(&mut osds, |osd| places.insert(place(&osd)) && places.len() >= wanted)
    };
    let others = || map.osds().filter(|osd| map.is_up(*osd) && *osd != accused);
    if spread(&mut others()) {
        return spread(&mut accusers.iter().copied());
    }
    accusers.len() >= wanted.min(others().count().max(1))
}

fn names(osds: &[OsdId]) -> String {
    osds.iter().map(|osd| format!("osd.{osd}")).collect::<Vec<_>>().join(", ")
}

impl Failures {
    /// Returns whether an OSD is silent to enough others for long enough.
    fn silent(&self, now: Mono, state: &State, env: &Env, accused: OsdId) -> Option<Verdict> {
        let accusers: Vec<OsdId> = self.accusers(accused).map(|(osd, _)| osd).collect();
        let latest = self.accusers(accused).map(|(_, report)| report.since).max()?;
        let silent = now.since(latest).as_secs_f64();
        let slow = accusers.iter().map(|osd| slowness(state, env, *osd, silent)).sum::<f64>() / accusers.len() as f64;
        let grace = grace(state, env) + slow + slowness(state, env, accused, silent);
        // One alone is believed only when the accused had the time to say the same of him.
        let alone = if accusers.len() == 1 { COUNTER } else { 0.0 };
        if silent < grace + alone || !enough(state, env, accused, &accusers) {
            return None;
        }
        // Who says the same of those who accuse it may be right.
        let links = self.broken_links(accused);
        let worst = accusers.iter().filter(|osd| self.accuses(accused, **osd)).map(|osd| self.broken_links(*osd)).max();
        if worst.is_some_and(|worst| worst >= links) {
            return None;
        }
        let why = format!("{} had no answer from it for {silent:.1} s (grace {grace:.1} s)", names(&accusers));
        Some(Verdict { osd: accused, life: state.osdmap.up_from(accused), dead: false, why })
    }

    /// The OSD that is in the way of groups, since it and others do not hear each other.
    fn cut_off(&self, now: Mono, state: &State, env: &Env) -> Option<Verdict> {
        let patience = Duration::from_secs_f64(2.0 * grace(state, env));
        if now.since(self.begun) < patience {
            return None;
        }
        let old: Vec<(OsdId, OsdId)> =
            self.reports.iter().filter(|(_, report)| now.since(report.since) >= patience).map(|(pair, _)| *pair).collect();
        let (shared, led) = if old.is_empty() { Default::default() } else { groups_of(&state.osdmap) };
        let blocked: BTreeSet<OsdId> = old
            .into_iter()
            .filter(|(accused, accuser)| shared.contains(&pair(*accused, *accuser)))
            .flat_map(|(accused, accuser)| [Some(accused), self.accuses(accused, accuser).then_some(accuser)])
            .flatten()
            .filter(|osd| !held(state, *osd, maps::flags::NODOWN, bits::NODOWN))
            .collect();
        let broken = |osd: OsdId| self.accusers(osd).count();
        let rank = |osd: &OsdId| (broken(*osd), std::cmp::Reverse(led.get(osd).copied().unwrap_or(0)), *osd);
        let osd = blocked.into_iter().max_by_key(rank)?;
        let why = format!("{} of its links to other OSDs are broken, and groups stand still", broken(osd));
        Some(Verdict { osd, life: state.osdmap.up_from(osd), dead: false, why })
    }
}

/// Returns which OSDs share groups (the lower number first), and how many groups each leads.
fn groups_of(map: &OsdMap) -> (BTreeSet<(OsdId, OsdId)>, BTreeMap<OsdId, usize>) {
    let (mut shared, mut led) = (BTreeSet::new(), BTreeMap::new());
    for (id, pool) in &map.pools {
        for seed in 0..pool.pg_num {
            let placed = map.placed(types::PgId::new(*id, seed));
            *led.entry(placed.acting_primary).or_default() += 1;
            let members: BTreeSet<OsdId> = placed.acting.iter().chain(&placed.up).copied().collect();
            let pairs = members.iter().flat_map(|a| members.range(a + 1..).map(move |b| (*a, *b)));
            shared.extend(pairs);
        }
    }
    (shared, led)
}

impl Monitor {
    /// An OSD reports others, or itself.
    pub(super) fn osd_failures(&mut self, now: Now, session: SessionId, message: OsdFailures) {
        let (state, accuser) = (self.newest().clone(), message.osd);
        let map = &state.osdmap;
        if !self.is_osd(session, accuser) || !map.is_up(accuser) {
            return;
        }
        let mut verdicts = Vec::new();
        let last = self.leader.last_ahead();
        self.leader.failures.fresh.get_or_insert(last);
        for failure in message.failed.into_iter().take(MOST) {
            let accused = failure.osd;
            if !self.leader.failures.is_about(map, accused, failure.up_from) {
                continue;
            }
            if failure.recovered {
                self.leader.failures.take_back(now.mono, accused, accuser);
            } else if accused == accuser {
                let why = match failure.silent_ms / 1_000 {
                    0 => "it asks for it, as its store takes no writes".to_owned(),
                    seconds => format!("it asks for it, as its disk is silent for {seconds} s"),
                };
                verdicts.push(Verdict { osd: accused, life: failure.up_from, dead: false, why });
            } else if failure.refused {
                let why = format!("its port refuses connections, says osd.{accuser}");
                verdicts.push(Verdict { osd: accused, life: failure.up_from, dead: true, why });
            } else {
                let silent = Duration::from_millis(failure.silent_ms.into());
                self.leader.failures.note(now.mono, accused, accuser, failure.up_from, silent);
            }
        }
        self.leader.failures.verdicts.extend(verdicts);
    }

    /// Judges what was reported since the last time, when what was on its way then is durable. All that is said until
    /// then is judged at once: when a host is lost, hundreds of OSDs report its OSDs within moments. Returns whether a
    /// map was proposed.
    pub(super) fn judge_reported(&mut self, now: Now, out: &mut Outputs) -> bool {
        if self.leader.failures.fresh.is_none_or(|entry| !self.leader.is_past(entry)) {
            return false;
        }
        self.leader.failures.fresh = None;
        let state = self.newest().clone();
        let mut verdicts = std::mem::take(&mut self.leader.failures.verdicts);
        // Another life of it may have begun meanwhile.
        verdicts.retain(|verdict| self.leader.failures.is_about(&state.osdmap, verdict.osd, verdict.life));
        let mut inc = Incremental::new(state.osdmap.epoch + 1, state.fsid, now.wall);
        let mut lines = Vec::new();
        self.carry_out_verdicts(now, &state, verdicts, &mut inc, &mut lines);
        self.judge_silence(now, &state, &mut inc, &mut lines);
        if lines.is_empty() {
            return false;
        }
        for (level, text) in lines {
            out.log(Level::Warn, "mon", text.clone());
            self.line(now, level, text);
        }
        self.propose(now, Vec::new(), Some(inc), Vec::new(), out);
        true
    }

    /// Marks down who is silent, and who stands in the way of groups. `inc` follows `state`.
    pub(super) fn judge_silence(&mut self, now: Now, state: &State, inc: &mut Incremental, lines: &mut Vec<(u16, String)>) {
        self.leader.failures.sweep(now.mono, &state.osdmap);
        let failures = &self.leader.failures;
        if failures.reports.is_empty() {
            return;
        }
        let heard = |osd| self.leader.soft.osds.get(&osd).is_some_and(|soft| soft.report.is_some());
        if !failures.has_listened(now.mono, state, &self.env, heard) {
            return;
        }
        let accused: BTreeSet<OsdId> = failures.reports.keys().map(|(accused, _)| *accused).collect();
        let mut verdicts: Vec<Verdict> =
            accused.into_iter().filter_map(|osd| failures.silent(now.mono, state, &self.env, osd)).collect();
        if verdicts.is_empty() {
            verdicts.extend(failures.cut_off(now.mono, state, &self.env));
        }
        self.carry_out_verdicts(now, state, verdicts, inc, lines);
    }

    fn carry_out_verdicts(
        &self,
        now: Now,
        state: &State,
        verdicts: Vec<Verdict>,
        inc: &mut Incremental,
        lines: &mut Vec<(u16, String)>,
    ) {
        let map = &state.osdmap;
        for Verdict { osd, dead, why, .. } in verdicts {
            let down_already = !map.is_up(osd) || inc.new_state.get(&osd).is_some_and(|flip| flip & bits::UP != 0);
            let downs = inc.new_state.values().filter(|flip| **flip & bits::UP != 0).count();
            if down_already || held(state, osd, maps::flags::NODOWN, bits::NODOWN) || !enough_up(state, &self.env, downs) {
                continue;
            }
            mark_down(map, inc, osd, now);
            if dead {
                let epoch = inc.epoch;
                inc.new_xinfo.entry(osd).or_default().dead_epoch = epoch;
            }
            let how = if dead { "down and dead" } else { "down" };
            lines.push((log_level::INFO, format!("osd.{osd} marked {how}: {why}")));
        }
    }

    /// A mistake to be found: reports about earlier lives of OSDs are believed.
    #[cfg(feature = "sim")]
    pub fn believe_of_any_life(&mut self) {
        self.leader.failures.gullible = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_osd_said_before_it_booted_is_over() {
        let (mut failures, at) = (Failures::default(), |sec: u64| Mono(sec * 1_000_000_000));
        failures.note(at(10), 2, 4, 7, Duration::from_secs(6));
        failures.note(at(10), 4, 2, 9, Duration::from_secs(6));
        failures.note(at(10), 2, 3, 7, Duration::from_secs(6));
        failures.begin_life(at(11), 4);
        assert_eq!((failures.broken_links(4), failures.accuses(3, 2)), (0, true), "only what concerns it is over");
        // It says so again: its silence counts from its boot on.
        failures.note(at(12), 2, 4, 7, Duration::from_secs(8));
        assert_eq!(failures.reports[&(2, 4)].since, at(11));
    }
}
