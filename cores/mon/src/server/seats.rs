//! Which host runs which monitor: one that is out of the quorum for long is replaced by one on a host that has none.
//!
//! | step | who | what |
//! |---|---|---|
//! | 1 | leader | has not heard a voter for `mon_replace_after` seconds; gives a seat to a host that runs and has no monitor |
//! | 2 | that host's process | hears of its seat (`nacre host duties`), starts a monitor, which learns |
//! | 3 | leader | sees that it has caught up; takes the lost one out of the monitor map; the new one votes |
//!
//! *A seat whose monitor is not there* in the same time is taken back, but not before a minute: its host's process
//! asks every 5 s, and one that joins makes its OSDs first. Else a short `mon_replace_after` would let a seat go from
//! host to host, and no monitor start.
//!
//! *A monitor that learns and does not catch up* in that time is replaced as a lost voter is, when a host is there for
//! another one. It stays until that one has caught up.
//!
//! *A host that failed* once, in one of these two ways, gets a seat again only when each other one failed later. So a
//! host whose monitor cannot start keeps nobody waiting. The leader remembers them as long as it leads.
//!
//! *Too few.* Of an even number of monitors one only learns; where there are hosts without a monitor, and fewer
//! monitors than wanted, one more is given a seat after the same time.

use super::Monitor;
use denc::Encode;
use messages::mon::log_level;
use monstate::effective::monitor_number;
use monstate::hosts::{self, Host};
use monstate::state::{Change, State};
use node::{Mono, Now, Outputs};
use quorum::VoterId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The least that is waited for the monitor of a new seat.
const START: Duration = Duration::from_secs(60);

/// Since when something holds that is borne for some time; of this reign.
#[derive(Default)]
pub(super) struct Waits {
    /// Monitors that are listed and not heard.
    away: BTreeMap<String, Mono>,
    /// Seats whose monitor is not listed.
    empty: BTreeMap<String, Mono>,
    /// Monitors that learn and have not caught up.
    behind: BTreeMap<String, Mono>,
    /// The number of monitors is even, and fewer than wanted.
    short: Option<Mono>,
    /// Hosts whose monitor did not start or catch up, and when that was seen last.
    failed: BTreeMap<String, Mono>,
    /// Somebody waits for a learner to catch up ([`super::voters`]).
    pub(super) member: Option<Mono>,
}

/// The step to be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// A host gets a monitor's name.
    Give { mon: String, host: String, why: String },
    /// A seat that nobody took.
    TakeBack { mon: String },
    /// A lost monitor goes: another one is there.
    Remove { mon: String },
}

/// Knowledge on which it is decided.
struct View<'a> {
    state: &'a State,
    hosts: BTreeMap<String, Host>,
    /// Voters by name.
    voters: &'a [String],
    /// Monitors that learn and have caught up.
    close: &'a BTreeSet<String>,
    /// Monitors that learn and have not caught up.
    behind: &'a BTreeSet<String>,
    /// Time when hosts failed.
    failed: &'a BTreeMap<String, Mono>,
    /// Monitors that were not heard for long, or learn and were behind for long.
    lost: BTreeSet<String>,
    late: BTreeSet<String>,
    /// Seats that were empty for long, too few for long.
    stale: BTreeSet<String>,
    short: bool,
}

impl View<'_> {
    /// The next step; one at a time.
    fn step(&self) -> Option<Step> {
        if let Some(mon) = self.stale.first() {
            return Some(Step::TakeBack { mon: mon.clone() });
        }
        let voter = self.lost.iter().find(|mon| self.voters.contains(mon));
        let lost = voter.or_else(|| self.late.first());
        if let Some(mon) = lost.filter(|_| !self.close.is_empty()) {
            return Some(Step::Remove { mon: mon.clone() });
        }
        let waits = hosts::seats(self.state).into_keys().any(|mon| !self.state.monmap.mon_info.contains_key(&mon));
        let learns = !self.behind.is_subset(&self.late);
        if waits || learns || lost.is_none() && !self.short {
            return None;
        }
        let why = lost.map_or_else(|| "there are too few monitors".to_owned(), |mon| format!("mon.{mon} is lost"));
        let host = self.spare()?;
        Some(Step::Give { mon: hosts::name_for(self.state, &host)?, host, why })
    }

    /// A host that runs and has no monitor: one that never failed, else the one whose failure is the oldest.
    fn spare(&self) -> Option<String> {
        let runs = |host: &Host| host.osds.iter().any(|o| self.state.osdmap.is_up(*o));
        let fits = |(name, host): &(&String, &Host)| host.mons.is_empty() && runs(host) && !hosts::is_without(self.state, name);
        let spares = self.hosts.iter().filter(fits).map(|(name, _)| name);
        spares.min_by_key(|name| self.failed.get(*name).copied()).cloned()
    }
}

/// Keeps since when each of these holds; gives those that held for so long.
fn long(since: &mut BTreeMap<String, Mono>, names: &BTreeSet<String>, now: Now, after: Duration) -> BTreeSet<String> {
    since.retain(|name, _| names.contains(name));
    let held = |name: &&String| now.mono.since(*since.entry((*name).clone()).or_insert(now.mono)) >= after;
    names.iter().filter(held).cloned().collect()
}

impl Monitor {
    /// Looks after the seats, about twice a second, while this monitor leads and what it decided last is durable.
    pub(super) fn tick_seats(&mut self, now: Now, out: &mut Outputs) {
        let state = self.newest().clone();
        let secs = monitor_number(&state, &self.env, "mon_replace_after");
        if secs <= 0.0 {
            return;
        }
        let after = Duration::from_secs_f64(secs.clamp(1.0, 1e9));
        self.standing_changed(now);
        let hosts = hosts::all(&state, &self.env.config);
        let listed: BTreeSet<String> = state.monmap.mon_info.keys().cloned().collect();
        let silent = listed.iter().filter(|mon| !self.env.standing.heard.contains(mon)).cloned().collect();
        let (log, members) = (&self.replica.log, self.replica.log.membership());
        let learns = |id: &VoterId| !members.voters.contains(id);
        let learners = state.quorum.mons.iter().map(|(mon, record)| (mon, VoterId(record.voter)));
        let learners = learners.filter(|(mon, id)| listed.contains(*mon) && learns(id));
        let (close, behind): (Vec<_>, Vec<_>) = learners.partition(|(_, id)| members.learners.contains(id) && log.is_close(*id));
        let names = |list: Vec<(&String, VoterId)>| list.into_iter().map(|(mon, _)| mon.clone()).collect::<BTreeSet<String>>();
        let (close, behind) = (names(close), names(behind));
        let empty = hosts::seats(&state).into_keys().filter(|mon| !listed.contains(mon)).collect();
        let few = listed.len().is_multiple_of(2) && listed.len() < hosts::enough(hosts.len()) && hosts.len() > listed.len();
        let waits = &mut self.leader.waits;
        waits.short = waits.short.filter(|_| few).or(few.then_some(now.mono));
        let view = View {
            lost: long(&mut waits.away, &silent, now, after),
            late: long(&mut waits.behind, &behind, now, after.max(START)),
            stale: long(&mut waits.empty, &empty, now, after.max(START)),
            short: waits.short.is_some_and(|since| now.mono.since(since) >= after),
            state: &state,
            hosts,
            voters: &self.env.standing.voters,
            close: &close,
            behind: &behind,
            failed: &waits.failed,
        };
        if let Some(step) = view.step() {
            self.take_step(now, &state, step, out);
        }
    }

    fn take_step(&mut self, now: Now, state: &State, step: Step, out: &mut Outputs) {
        let (changes, text) = match step {
            Step::Give { mon, host, why } => {
                let changes = hosts::give_seat(state, &mon, &host);
                (changes, format!("{why}: host {host} is to run mon.{mon}"))
            }
            Step::TakeBack { mon } => {
                let host = hosts::seats(state).remove(&mon).unwrap_or_default();
                let text = format!("mon.{mon} was never started on host {host}, which gets no other one while another host can");
                self.leader.waits.failed.insert(host, now.mono);
                (vec![hosts::seat(&mon, None)], text)
            }
            Step::Remove { mon } => {
                if !self.env.standing.voters.contains(&mon) {
                    let host = hosts::all(state, &self.env.config).into_iter().find(|(_, host)| host.mons.contains(&mon));
                    self.leader.waits.failed.extend(host.map(|(name, _)| (name, now.mono)));
                }
                let mut map = (*state.monmap).clone();
                map.epoch += 1;
                map.last_changed = now.wall;
                map.mon_info.remove(&mon);
                map.ranks.retain(|name| *name != mon);
                let record = Change::Mon { name: mon.clone(), record: None };
                let mut changes = vec![Change::MonMap(map.to_bytes()), record, hosts::seat(&mon, None)];
                changes.extend(hosts::keep_names(state));
                (changes, format!("mon.{mon} is lost and was replaced"))
            }
        };
        self.line(now, log_level::WARN, text);
        self.propose(now, changes, None, Vec::new(), out);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use maps::MonInfo;
    use monstate::state::genesis;
    use types::UTime;

    pub(in crate::server) fn config() -> crate::Config {
        crate::Config { host: "a".into(), ..crate::Config::bare(types::Fsid([1; 16]), "a") }
    }

    /// Three voters on hosts a, b, c; hosts d and e have none, one OSD each, only that of e is up.
    fn state() -> State {
        let config = config();
        let mut state = genesis::state(&config, UTime::ZERO);
        let map = std::sync::Arc::make_mut(&mut state.monmap);
        for name in ["b", "c"] {
            map.add(MonInfo { name: name.into(), ..MonInfo::default() });
        }
        let osds = std::sync::Arc::make_mut(&mut state.osdmap);
        osds.set_max_osd(2);
        osds.osd_state[1] = maps::state::EXISTS | maps::state::UP;
        state
    }

    /// State of the learners as a test gives it.
    #[derive(Default)]
    struct Learners {
        close: BTreeSet<String>,
        behind: BTreeSet<String>,
        failed: BTreeMap<String, Mono>,
    }

    fn view<'a>(state: &'a State, voters: &'a [String], learners: &'a Learners, lost: &[&str]) -> View<'a> {
        let host = |mons: &[&str], osds: &[i32]| Host {
            mons: mons.iter().map(|m| (*m).to_owned()).collect(),
            osds: osds.to_vec(),
            ..Host::default()
        };
        let hosts = [
            ("a", host(&["a"], &[])),
            ("b", host(&["b"], &[])),
            ("c", host(&["c"], &[])),
            ("d", host(&[], &[0])),
            ("e", host(&[], &[1])),
        ];
        View {
            state,
            hosts: hosts.into_iter().map(|(name, host)| (name.to_owned(), host)).collect(),
            voters,
            close: &learners.close,
            behind: &learners.behind,
            failed: &learners.failed,
            late: BTreeSet::new(),
            lost: lost.iter().map(|m| (*m).to_owned()).collect(),
            stale: BTreeSet::new(),
            short: false,
        }
    }

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|n| (*n).to_owned()).collect()
    }

    fn seat(state: &mut State, mon: &str, host: &'static str) {
        let changes = hosts::give_seat(state, mon, host);
        *state = state.apply(state.index + 1, &monstate::state::Proposal { stamp: UTime::ZERO, changes }).unwrap();
    }

    fn list(state: &mut State, mon: &str) {
        std::sync::Arc::make_mut(&mut state.monmap).add(MonInfo { name: mon.into(), ..MonInfo::default() });
    }

    #[test]
    fn a_lost_voter_goes_out_when_the_new_one_has_caught_up() {
        let mut state = state();
        let (voters, mut learners) = (names(&["a", "b", "c"]), Learners::default());
        assert_eq!(view(&state, &voters, &learners, &[]).step(), None);
        let step = view(&state, &voters, &learners, &["c"]).step();
        let Some(Step::Give { mon, host, .. }) = step else { panic!("{step:?}") };
        assert_eq!((mon.as_str(), host.as_str()), ("d", "e"));
        seat(&mut state, "d", "e");
        assert_eq!(view(&state, &voters, &learners, &["c"]).step(), None, "it is waited for");
        let mut stale = view(&state, &voters, &learners, &["c"]);
        stale.stale.insert("d".into());
        assert_eq!(stale.step(), Some(Step::TakeBack { mon: "d".into() }));
        list(&mut state, "d");
        learners.behind.insert("d".into());
        assert_eq!(view(&state, &voters, &learners, &["c"]).step(), None, "it learns: nobody goes, nobody else comes");
        learners = Learners { close: ["d".to_owned()].into(), ..Learners::default() };
        assert_eq!(view(&state, &voters, &learners, &["c"]).step(), Some(Step::Remove { mon: "c".into() }));
    }

    #[test]
    fn a_learner_that_does_not_catch_up_is_replaced() {
        let mut state = state();
        let voters = names(&["a", "b", "c"]);
        seat(&mut state, "d", "d");
        list(&mut state, "d");
        let mut learners = Learners { behind: ["d".to_owned()].into(), ..Learners::default() };
        let stalled = |state: &State, learners: &Learners, lost: &[&str]| {
            let mut view = view(state, &voters, learners, lost);
            view.late.insert("d".into());
            view.hosts.get_mut("d").unwrap().mons.push("d".into());
            view.step()
        };
        for lost in [&["c"][..], &[]] {
            let step = stalled(&state, &learners, lost);
            assert!(matches!(&step, Some(Step::Give { mon, host, .. }) if mon == "e" && host == "e"), "{step:?}");
        }
        list(&mut state, "e");
        learners.behind.insert("e".into());
        assert_eq!(stalled(&state, &learners, &["c"]), None, "the other one learns");
        learners = Learners { close: ["e".to_owned()].into(), behind: ["d".to_owned()].into(), ..Learners::default() };
        assert_eq!(stalled(&state, &learners, &["c"]), Some(Step::Remove { mon: "c".into() }), "voters first");
        assert_eq!(stalled(&state, &learners, &[]), Some(Step::Remove { mon: "d".into() }));
    }

    #[test]
    fn a_host_that_failed_is_passed_over_and_no_name_is_given_twice() {
        let mut state = state();
        std::sync::Arc::make_mut(&mut state.osdmap).osd_state[0] = maps::state::EXISTS | maps::state::UP;
        let (voters, mut learners) = (names(&["a", "b", "c"]), Learners::default());
        let mut given = Vec::new();
        for round in 0..4 {
            let step = view(&state, &voters, &learners, &["c"]).step();
            let Some(Step::Give { mon, host, .. }) = step else { panic!("{step:?}") };
            let changes = hosts::give_seat(&state, &mon, &host).into_iter().chain([hosts::seat(&mon, None)]).collect();
            state = state.apply(state.index + 1, &monstate::state::Proposal { stamp: UTime::ZERO, changes }).unwrap();
            learners.failed.insert(host.clone(), Mono(round));
            given.push(format!("{mon} {host}"));
        }
        assert_eq!(given, ["d d", "e e", "f d", "g e"]);
    }

    #[test]
    fn without_a_spare_host_nothing_is_given_up() {
        let mut state = state();
        std::sync::Arc::make_mut(&mut state.osdmap).osd_state[1] = maps::state::EXISTS;
        assert_eq!(view(&state, &names(&["a", "b", "c"]), &Learners::default(), &["c"]).step(), None);
    }

    #[test]
    fn only_what_holds_without_a_break_is_long() {
        let (mut since, after) = (BTreeMap::new(), Duration::from_secs(10));
        let at = |secs: u64| Now { mono: Mono(secs * 1_000_000_000), ..Now::default() };
        let one = BTreeSet::from(["c".to_owned()]);
        assert!(long(&mut since, &one, at(0), after).is_empty());
        assert_eq!(long(&mut since, &one, at(10), after), one);
        assert!(long(&mut since, &BTreeSet::new(), at(11), after).is_empty());
        assert!(long(&mut since, &one, at(12), after).is_empty());
    }
}
