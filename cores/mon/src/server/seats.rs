//! Which host runs which monitor: one that is out of the quorum for long is replaced by one on a host that has none.
//!
//! | step | who | what |
//! |---|---|---|
//! | 1 | leader | has not heard a voter for `mon_replace_after` seconds; gives a seat to a host that runs and has no monitor |
//! | 2 | that host's process | hears of its seat (`nacre host duties`), starts a monitor, which learns |
//! | 3 | leader | hears it; takes the lost one out of the monitor map; the new one votes |
//!
//! A seat whose monitor is not there in the same time is taken back, but not before a minute: its host's process asks every 5 s, and one that
//! joins makes its OSDs first. Else a short `mon_replace_after` would let a seat go from host to host, and no monitor start. Of an even number of monitors one only learns; where there are hosts without a
//! monitor, and fewer monitors than wanted, one more is given a seat after the same time.

use super::Monitor;
use denc::Encode;
use messages::mon::log_level;
use monstate::effective::monitor_number;
use monstate::hosts::{self, Host};
use monstate::state::{Change, State};
use node::{Mono, Now, Outputs};
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
    /// The number of monitors is even, and fewer than wanted.
    short: Option<Mono>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// A host gets a monitor's name.
    Give { mon: String, host: String, why: String },
    /// A seat that nobody took.
    TakeBack { mon: String },
    /// A lost monitor goes: another one is there.
    Remove { mon: String },
}

/// What is known when it is decided.
struct View<'a> {
    state: &'a State,
    hosts: BTreeMap<String, Host>,
    /// Voters by name.
    voters: &'a [String],
    /// Who is heard.
    heard: &'a [String],
    /// Monitors that were not heard for long, seats that were empty for long, too few for long.
    lost: BTreeSet<String>,
    stale: BTreeSet<String>,
    short: bool,
}

impl View<'_> {
    /// The next step; one at a time.
    fn step(&self) -> Option<Step> {
        if let Some(mon) = self.stale.first() {
            return Some(Step::TakeBack { mon: mon.clone() });
        }
        let lost = self.lost.iter().find(|mon| self.voters.contains(mon));
        let learns = self.heard.iter().any(|mon| !self.voters.contains(mon));
        if let Some(mon) = lost.filter(|_| learns) {
            return Some(Step::Remove { mon: mon.clone() });
        }
        let waits = hosts::seats(self.state).into_keys().any(|mon| !self.state.monmap.mon_info.contains_key(&mon));
        if waits || lost.is_none() && !self.short {
            return None;
        }
        let why = lost.map_or_else(|| "there are too few monitors".to_owned(), |mon| format!("mon.{mon} is lost"));
        let host = self.spare()?;
        Some(Step::Give { mon: hosts::name_for(self.state, &host)?, host, why })
    }

    /// A host that runs and has no monitor.
    fn spare(&self) -> Option<String> {
        let runs = |host: &Host| host.osds.iter().any(|o| self.state.osdmap.is_up(*o));
        let fits = |(name, host): &(&String, &Host)| host.mons.is_empty() && runs(host) && !hosts::is_without(self.state, name);
        self.hosts.iter().find(fits).map(|(name, _)| name.clone())
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
        let empty = hosts::seats(&state).into_keys().filter(|mon| !listed.contains(mon)).collect();
        let few = listed.len().is_multiple_of(2) && listed.len() < hosts::enough(hosts.len()) && hosts.len() > listed.len();
        let waits = &mut self.leader.waits;
        waits.short = waits.short.filter(|_| few).or(few.then_some(now.mono));
        let view = View {
            lost: long(&mut waits.away, &silent, now, after),
            stale: long(&mut waits.empty, &empty, now, after.max(START)),
            short: waits.short.is_some_and(|since| now.mono.since(since) >= after),
            state: &state,
            hosts,
            voters: &self.env.standing.voters,
            heard: &self.env.standing.heard,
        };
        if let Some(step) = view.step() {
            self.take_step(now, &state, step, out);
        }
    }

    fn take_step(&mut self, now: Now, state: &State, step: Step, out: &mut Outputs) {
        let (changes, text) = match step {
            Step::Give { mon, host, why } => {
                (vec![hosts::seat(&mon, Some(&host))], format!("{why}: host {host} is to run mon.{mon}"))
            }
            Step::TakeBack { mon } => {
                (vec![hosts::seat(&mon, None)], format!("mon.{mon} was never started; its name is free again"))
            }
            Step::Remove { mon } => {
                let mut map = (*state.monmap).clone();
                map.epoch += 1;
                map.last_changed = now.wall;
                map.mon_info.remove(&mon);
                map.ranks.retain(|name| *name != mon);
                let record = Change::Mon { name: mon.clone(), record: None };
                let changes = vec![Change::MonMap(map.to_bytes()), record, hosts::seat(&mon, None)];
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
        let (addrs, options) = (types::EntityAddrVec::default(), BTreeMap::new());
        crate::Config {
            fsid: types::Fsid([1; 16]),
            name: "a".into(),
            addrs: addrs.clone(),
            mgr_name: "x".into(),
            mgr_addrs: addrs,
            host: "a".into(),
            about: Default::default(),
            auth: crate::AuthMode::None,
            keys: Vec::new(),
            options,
            join: Vec::new(),
            log_bytes: 0,
            defaults_follow: false,
            levels: types::Levels::OWN,
        }
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

    fn view<'a>(state: &'a State, voters: &'a [String], heard: &'a [String], lost: &[&str]) -> View<'a> {
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
            heard,
            lost: lost.iter().map(|m| (*m).to_owned()).collect(),
            stale: BTreeSet::new(),
            short: false,
        }
    }

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn a_lost_voter_is_replaced_on_a_host_that_runs_and_then_removed() {
        let mut state = state();
        let (voters, heard) = (names(&["a", "b", "c"]), names(&["a", "b"]));
        assert_eq!(view(&state, &voters, &heard, &[]).step(), None);
        let step = view(&state, &voters, &heard, &["c"]).step();
        let Some(Step::Give { mon, host, .. }) = step else { panic!("{step:?}") };
        assert_eq!((mon.as_str(), host.as_str()), ("d", "e"));
        std::sync::Arc::make_mut(&mut state.keys).insert("nacre/seat/d".into(), "e".into());
        assert_eq!(view(&state, &voters, &heard, &["c"]).step(), None, "it is waited for");
        let mut stale = view(&state, &voters, &heard, &["c"]);
        stale.stale.insert("d".into());
        assert_eq!(stale.step(), Some(Step::TakeBack { mon: "d".into() }));
        let heard = names(&["a", "b", "d"]);
        assert_eq!(view(&state, &voters, &heard, &["c"]).step(), Some(Step::Remove { mon: "c".into() }));
    }

    #[test]
    fn without_a_spare_host_nothing_is_given_up() {
        let mut state = state();
        std::sync::Arc::make_mut(&mut state.osdmap).osd_state[1] = maps::state::EXISTS;
        let (voters, heard) = (names(&["a", "b", "c"]), names(&["a", "b"]));
        assert_eq!(view(&state, &voters, &heard, &["c"]).step(), None);
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
