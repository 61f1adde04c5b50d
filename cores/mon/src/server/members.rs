//! Who the monitors are: they say who and where they are, the leader keeps records of them, takes new ones in and lets
//! others go.
//!
//! A new monitor connects to those that it was told of and says hello. The leader puts it into the monitor map and lets
//! it learn the log. It becomes a voter when it has caught up. Two voters are worse than one, since both are needed: a
//! second monitor learns until a third is there, and learns again when the third is removed.

use super::Monitor;
use super::sessions::Side;
use super::voters::{Look, Next};
use denc::Encode;
use maps::{MonInfo, MonMap};
use messages::quorum::{MonClock, MonHello, MonRefused};
use monstate::effective;
use monstate::state::{Change, IdRange, MonRecord, State, genesis};
use msgr::auth::Acceptor;
use node::{Level, Now, Outputs};
use quorum::{Membership, VoterId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{Feature, Levels, SessionId};

/// Numbers for clients that a monitor is given at once.
const ID_STEP: u64 = 10_000;
/// Numbers left at which it wants the next ones.
const ID_RESERVE: u64 = 2_000;

impl Monitor {
    /// Returns what this monitor's record shall be.
    fn own_record(&self) -> MonRecord {
        let config = &self.env.config;
        MonRecord {
            voter: self.replica.log.id().0,
            mgr_name: config.mgr_name.clone(),
            mgr_addrs: config.mgr_addrs.clone(),
            metadata: config.metadata(),
        }
    }

    /// About twice a second while this monitor does not lead: it says who it is, as long as the leader has something to
    /// do for it.
    pub(super) fn say_hello(&mut self, now: Now, out: &mut Outputs) {
        let (state, own) = (self.replica.applied.clone(), self.own_record());
        let config = self.env.config.clone();
        let joins = state.quorum.mons.is_empty() && !config.join.is_empty();
        let known = state.quorum.mons.get(&config.name) == Some(&own)
            && state.monmap.mon_info.get(&config.name).is_some_and(|m| m.public_addrs == config.addrs);
        let wants_ids = self.wants_ids();
        // One whose record is gone was removed; it does not ask to come back.
        if (known || !(joins || state.quorum.mons.contains_key(&config.name))) && !wants_ids {
            return;
        }
        let hello = MonHello {
            fsid: config.fsid,
            name: config.name,
            voter: own.voter,
            addrs: config.addrs,
            mgr_name: own.mgr_name,
            mgr_addrs: own.mgr_addrs,
            metadata: own.metadata,
            joins,
            life: if wants_ids { self.life } else { 0 },
            ids_end: self.ids_end,
        };
        if joins {
            for n in 0..config.join.len() {
                if let Some(line) = self.reach_seed(now, n, out) {
                    self.mon.send(line, hello.encode());
                }
            }
        } else {
            self.pass_hello(now, &hello, out);
        }
    }

    fn pass_hello(&mut self, now: Now, hello: &MonHello, out: &mut Outputs) {
        let Some(leader) = self.replica.log.leader().filter(|l| *l != self.replica.log.id()) else { return };
        if let Some(line) = self.reach(now, leader, out) {
            self.mon.send(line, hello.encode());
        }
    }

    /// A monitor says who it is.
    pub(super) fn monitor_says_hello(&mut self, now: Now, line: SessionId, hello: MonHello, out: &mut Outputs) {
        if !self.leader.reigns() {
            return self.pass_hello(now, &hello, out);
        }
        let state = self.newest().clone();
        match self.changes_for(&state, &hello, now) {
            Ok(changes) if changes.is_empty() => {}
            Ok(changes) => self.propose(now, changes, None, Vec::new(), out),
            Err(why) => {
                let said = format!("mon.{} at {} is not taken in: {why}", hello.name, hello.addrs);
                if self.peers.is_news(&said) {
                    out.log(Level::Warn, "mon", said);
                }
                self.mon.send(line, MonRefused { why }.encode());
            }
        }
    }

    /// Returns what a hello changes.
    fn changes_for(&self, state: &State, hello: &MonHello, now: Now) -> Result<Vec<Change>, String> {
        check(state, hello)?;
        if let Some(why) = Levels::told(hello.metadata.get(Levels::KEY)).refusal(state.osdmap.level) {
            return Err(why);
        }
        let mut changes = Vec::new();
        let own = (self.env.config.name.clone(), self.own_record());
        let record = MonRecord {
            voter: hello.voter,
            mgr_name: hello.mgr_name.clone(),
            mgr_addrs: hello.mgr_addrs.clone(),
            metadata: hello.metadata.clone(),
        };
        let own = Some(own).filter(|(name, _)| !is_removed(state, name));
        for (name, record) in own.into_iter().chain([(hello.name.clone(), record)]) {
            if state.quorum.mons.get(&name) != Some(&record) {
                changes.push(Change::Mon { name, record: Some(record) });
            }
        }
        changes.extend(moved(&state.monmap, &hello.name, &hello.addrs, now));
        let range = state.quorum.ranges.get(&hello.voter);
        let has = range.is_some_and(|r| r.life == hello.life && r.to > hello.ids_end);
        if hello.life != 0 && !has {
            changes.push(next_range(state, hello.voter, hello.life));
        }
        Ok(changes)
    }

    /// Sees to records and numbers for clients, about twice a second.
    pub(super) fn tick_members(&mut self, now: Now, out: &mut Outputs) {
        let state = self.newest().clone();
        let ended = moncommands::ended_tokens(&state, now.wall);
        if !ended.is_empty() {
            self.propose(now, ended, None, Vec::new(), out);
        }
        if state.quorum.mons.is_empty() {
            return;
        }
        let voter = self.replica.log.id().0;
        let has = state.quorum.ranges.get(&voter).is_some_and(|r| r.life == self.life && r.to > self.ids_end);
        if self.wants_ids() && !has {
            let change = next_range(&state, voter, self.life);
            self.propose(now, vec![change], None, Vec::new(), out);
        }
        let changes = self.own_place(self.newest(), now);
        if !changes.is_empty() {
            self.propose(now, changes, None, Vec::new(), out);
        }
        let applied = self.replica.applied.clone();
        if let Some(next) = self.next_members(now, &applied)
            && self.replica.log.change(next.clone()).is_ok()
        {
            let ids = |set: &BTreeSet<VoterId>| {
                let name = |id: &VoterId| state.quorum.name_of(id.0).map_or_else(|| format!("{:016x}", id.0), str::to_owned);
                set.iter().map(name).collect::<Vec<_>>().join(", ")
            };
            out.log(Level::Info, "mon", format!("voters: {}; learners: {}", ids(&next.voters), ids(&next.learners)));
        }
    }

    /// Asks the other monitors of the quorum for their time, now and then.
    pub(super) fn tick_clocks(&mut self, now: Now, out: &mut Outputs) {
        let state = self.replica.applied.clone();
        if !state.osdmap.level.has(Feature::MonClocks) {
            return;
        }
        let seconds = |name| {
            let n = effective::monitor_number(&state, &self.env, name);
            Duration::from_secs_f64(n.clamp(1.0, 1e6))
        };
        let allowed = effective::monitor_number(&state, &self.env, "mon_clock_drift_allowed");
        let skewed = self.leader.soft.clocks.off(allowed).next().is_some();
        let interval = seconds(if skewed { "mon_timecheck_skew_interval" } else { "mon_timecheck_interval" });
        let own = &self.env.config.name;
        let others: BTreeSet<String> = self.env.standing.quorum.iter().filter(|name| *name != own).cloned().collect();
        let Some(round) = self.leader.soft.clocks.begin(now, &others, interval) else { return };
        for record in others.iter().filter_map(|name| state.quorum.mons.get(name)) {
            if let Some(line) = self.reach(now, VoterId(record.voter), out) {
                self.mon.send(line, MonClock { round, ..MonClock::default() }.encode());
            }
        }
    }

    /// The next step from the members that are to those that shall be; `None` if there is none now.
    fn next_members(&mut self, now: Now, state: &State) -> Option<Membership> {
        let log = &self.replica.log;
        let members = log.membership();
        let waits = &mut self.leader.waits;
        let look = Look {
            members,
            known: state.quorum.mons.values().map(|r| VoterId(r.voter)).collect(),
            heard: log.heard(),
            close: members.learners.iter().copied().filter(|id| log.is_close(*id)).collect(),
            leader: log.id(),
            hands_over: self.leader.hands_over,
            waited: waits.member.map_or(Duration::ZERO, |since| now.mono.since(since)),
        };
        let next = look.next();
        waits.member = (next == Next::Wait).then(|| waits.member.unwrap_or(now.mono));
        if let Next::Change(next) = next { Some(next) } else { None }
    }

    /// Returns true if numbers for clients run out.
    fn wants_ids(&self) -> bool {
        match &self.mon.auth().acceptor {
            Acceptor::Mon(mon) => mon.global_ids.next + ID_RESERVE >= mon.global_ids.end,
            _ => false,
        }
    }

    /// Takes up a range of numbers that this monitor was given in this life.
    pub(super) fn take_ids(&mut self) {
        let Some(range) = self.replica.applied.quorum.ranges.get(&self.replica.log.id().0).copied() else { return };
        if range.life != self.life || range.to <= self.ids_end {
            return;
        }
        self.ids_end = range.to;
        if let Acceptor::Mon(mon) = &mut self.mon.auth_mut().acceptor {
            mon.global_ids.next = range.from;
            mon.global_ids.end = range.to;
        }
    }

    /// Returns what this monitor, which leads, changes about itself: its address, the manager that is active. Nothing
    /// if it was removed: it leads until the others have noted that, and must not come back by itself.
    pub(super) fn own_place(&self, state: &State, now: Now) -> Vec<Change> {
        let config = &self.env.config;
        if is_removed(state, &config.name) {
            return Vec::new();
        }
        let mut changes: Vec<Change> = moved(&state.monmap, &config.name, &config.addrs, now).into_iter().collect();
        let own = self.own_record();
        if !state.quorum.mons.is_empty() && state.quorum.mons.get(&config.name) != Some(&own) {
            changes.push(Change::Mon { name: config.name.clone(), record: Some(own) });
        }
        let standbys: BTreeSet<&str> = standbys(state, &config.mgr_name).collect();
        let listed: BTreeSet<&str> = state.mgrmap.standbys.values().map(|s| s.name.as_str()).collect();
        let active = state.mgrmap.active_addrs == config.mgr_addrs
            && state.mgrmap.active_name == config.mgr_name
            && state.mgrmap.services == config.services;
        if !active || standbys != listed {
            let mut map = genesis::mgrmap(config, state.mgrmap.epoch + 1, now.wall);
            if active {
                map.active_change = state.mgrmap.active_change;
            }
            genesis::add_standbys(&mut map, standbys);
            changes.push(Change::MgrMap(map.to_bytes()));
        }
        changes
    }

    /// A session with another monitor broke.
    pub(super) fn line_lost(&mut self, now: Now, far: super::peers::Far) {
        // A leader that nobody is sure of at the moment may turn out to be the one that was asked.
        let leaders = [self.replica.log.leader(), self.asks.asked()];
        if leaders.into_iter().flatten().any(|leader| far == super::peers::Far::Voter(leader)) {
            self.leader_forgot(now);
        }
    }

    /// Returns true if sessions other than of monitors are taken: not from a monitor that is not taken in, or has lost
    /// its leader.
    pub(super) fn takes_clients(&self, now: Now) -> bool {
        !self.asks.is_lost(now) || self.leader.reigns()
    }

    /// The rank of this monitor in the map; 0 while it is not there.
    pub(super) fn rank(&self) -> usize {
        self.replica.applied.monmap.rank_of(&self.env.config.name).unwrap_or(0)
    }

    /// Closes what the manager's side has: it is not active.
    pub(super) fn close_manager_sessions(&mut self, now: Now) {
        let all: Vec<SessionId> = self.sessions.0.keys().filter(|(side, _)| *side == Side::Mgr).map(|(_, id)| *id).collect();
        all.into_iter().for_each(|session| self.turn_away(now, Side::Mgr, session));
    }
}

/// Returns true if a monitor of this name was removed, or never taken in.
fn is_removed(state: &State, name: &str) -> bool {
    !state.quorum.mons.is_empty() && !state.quorum.mons.contains_key(name)
}

/// Returns whether a monitor may say what it says.
fn check(state: &State, hello: &MonHello) -> Result<(), String> {
    if hello.fsid != state.fsid {
        return Err(format!("it belongs to cluster {}, this is {}", hello.fsid, state.fsid));
    }
    if hello.voter == 0 || hello.name.is_empty() || hello.addrs.msgr2().is_none_or(|a| a.addr.is_none()) {
        return Err("it names no store, no name or no address".into());
    }
    let record = state.quorum.mons.get(&hello.name);
    let listed = state.monmap.mon_info.get(&hello.name);
    match record {
        // Its store was emptied: another member in the same place.
        Some(r) if r.voter != hello.voter && listed.is_none_or(|m| m.public_addrs != hello.addrs) => {
            return Err(format!("another monitor has the name {}", hello.name));
        }
        None if !hello.joins => return Err("it was removed".into()),
        None if listed.is_some() && state.quorum.mons.is_empty() && state.monmap.mon_info.len() == 1 => {
            return Err(format!("another monitor has the name {}", hello.name));
        }
        _ => {}
    }
    if let Some((name, _)) = state.quorum.mons.iter().find(|(name, r)| **name != hello.name && r.voter == hello.voter) {
        return Err(format!("its store is that of mon.{name}"));
    }
    check_address(state, hello)
}

/// Refuses a monitor at an address that another one has in the map, also if nobody hears that one: it may vote, and
/// clients ask the address for it. So it goes first, by a word of the operator or because it is replaced.
fn check_address(state: &State, hello: &MonHello) -> Result<(), String> {
    let place = |addrs: &types::EntityAddrVec| addrs.msgr2().and_then(|a| a.addr);
    let here = |m: &&MonInfo| m.name != hello.name && place(&m.public_addrs) == place(&hello.addrs);
    let Some(other) = state.monmap.mon_info.values().find(here) else { return Ok(()) };
    let of = |metadata: Option<&BTreeMap<String, String>>| {
        let host = metadata.and_then(|m| m.get("hostname"));
        host.map_or(String::new(), |host| format!(" of host {host}"))
    };
    let (there, here) = (of(state.quorum.mons.get(&other.name).map(|r| &r.metadata)), of(Some(&hello.metadata)));
    Err(format!(
        "mon.{name}{there} is at the address {addrs} of mon.{new}{here}: do two hosts have one address? If mon.{name} is gone for good: `ceph mon rm {name}`",
        name = other.name,
        addrs = hello.addrs,
        new = hello.name,
    ))
}

/// The monitor map with a monitor at this address, if it has it elsewhere or not at all.
fn moved(map: &MonMap, name: &str, addrs: &types::EntityAddrVec, now: Now) -> Option<Change> {
    if map.mon_info.get(name).is_some_and(|m| m.public_addrs == *addrs) {
        return None;
    }
    let mut map = map.clone();
    map.epoch += 1;
    map.last_changed = now.wall;
    match map.mon_info.get_mut(name) {
        Some(info) => info.public_addrs = addrs.clone(),
        None => map.add(MonInfo { name: name.into(), public_addrs: addrs.clone(), ..MonInfo::default() }),
    }
    Some(Change::MonMap(map.to_bytes()))
}

fn next_range(state: &State, voter: u64, life: u64) -> Change {
    let from = state.auth.global_id_limit;
    Change::IdRange { voter, range: IdRange { life, from, to: from + ID_STEP } }
}

/// Managers that wait.
fn standbys<'a>(state: &'a State, active: &'a str) -> impl Iterator<Item = &'a str> {
    state.quorum.mons.values().map(|r| r.mgr_name.as_str()).filter(move |name| *name != active)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_monitor_is_told_who_has_its_address() {
        let at =
            |port| types::EntityAddrVec(vec![types::EntityAddr::msgr2(std::net::SocketAddr::from(([10, 0, 0, 1], port)), 0)]);
        let host = |name: &str| BTreeMap::from([("hostname".to_owned(), name.to_owned())]);
        let config = crate::Config { addrs: at(3300), ..super::super::seats::tests::config() };
        let mut state = genesis::state(&config, types::UTime::ZERO);
        let quorum = std::sync::Arc::make_mut(&mut state.quorum);
        quorum.mons.insert("a".into(), MonRecord { voter: 1, metadata: host("h1"), ..MonRecord::default() });
        let hello = |name: &str, voter, port| MonHello {
            fsid: config.fsid,
            name: name.into(),
            voter,
            addrs: at(port),
            joins: true,
            metadata: host("h2"),
            ..MonHello::default()
        };
        let why = check(&state, &hello("b", 2, 3300)).unwrap_err();
        let says = "mon.a of host h1 is at the address v2:10.0.0.1:3300/0 of mon.b of host h2";
        assert!(why.starts_with(says) && why.contains("ceph mon rm a"), "{why}");
        assert_eq!(check(&state, &hello("b", 2, 3301)), Ok(()));
        assert_eq!(check(&state, &hello("a", 1, 3300)), Ok(()), "it is there itself");
    }
}
