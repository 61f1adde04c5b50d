//! Hosts, as far as the maps and what daemons say about themselves tell of them, and the seats of monitors.
//!
//! A *seat* is a monitor's name that was given to a host, under `config-key` `nacre/seat/NAME`. It is given by an
//! entry of the log, before the monitor runs. So two hosts that join at once never get one name.

use crate::config::Config;
use crate::context::Standing;
use crate::state::{Change, State};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use types::{EntityAddrVec, OsdId};

/// Seats are kept under keys that begin with this.
const SEAT: &str = "nacre/seat/";
/// Hosts that shall have no monitor are kept under keys that begin with this.
const WITHOUT: &str = "nacre/no-monitor/";
/// The last name that was given is kept under this key.
const LAST: &str = "nacre/last-monitor";
/// Names of one or two letters.
const NAMES: u32 = 26 + 26 * 26;
/// Hosts from which on five monitors are wanted.
const MANY_HOSTS: usize = 7;

/// Daemons that run on one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Place where its daemons listen.
    pub addrs: BTreeSet<IpAddr>,
    /// Names of its monitors.
    pub mons: Vec<String>,
    /// Numbers of its OSDs.
    pub osds: Vec<OsdId>,
}

impl Host {
    fn listens(&mut self, addrs: &EntityAddrVec) {
        self.addrs.extend(addrs.0.iter().filter_map(|a| a.addr).map(|a| a.ip()));
    }

    /// Its addresses as text.
    pub fn addresses(&self) -> String {
        self.addrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// Returns how many of its OSDs are up, and how many are in.
    pub fn counts(&self, state: &State) -> (usize, usize) {
        let map = &state.osdmap;
        (self.osds.iter().filter(|o| map.is_up(**o)).count(), self.osds.iter().filter(|o| map.is_in(**o)).count())
    }

    /// Returns true if anything of it runs, as the leader sees it: its OSDs are up, or it hears its monitors.
    pub fn runs(&self, state: &State, standing: &Standing) -> bool {
        self.counts(state).0 > 0 || self.mons.iter().any(|m| standing.heard.contains(m))
    }
}

/// All hosts by name. An OSD that never said where it is stands below the host of the CRUSH map, if there is one.
pub fn all(state: &State, config: &Config) -> BTreeMap<String, Host> {
    let mut hosts: BTreeMap<String, Host> = BTreeMap::new();
    for osd in state.osdmap.osds() {
        let Some(name) = host_of_osd(state, osd) else { continue };
        let host = hosts.entry(name).or_default();
        host.osds.push(osd);
        if let Some(addrs) = state.osdmap.osd_addr(osd) {
            host.listens(addrs);
        }
    }
    for mon in state.monmap.by_rank() {
        let Some(name) = host_of_mon(state, config, &mon.name) else { continue };
        let host = hosts.entry(name).or_default();
        host.mons.push(mon.name.clone());
        host.listens(&mon.public_addrs);
    }
    hosts
}

/// The host of an OSD: the one that it told, else the one that it is below in the CRUSH map.
pub fn host_of_osd(state: &State, osd: OsdId) -> Option<String> {
    let told = state.osd_metadata.get(&osd).and_then(|m| m.get("hostname")).cloned();
    told.or_else(|| state.osdmap.crush.full_location(osd).into_iter().find(|(kind, _)| kind == "host").map(|(_, name)| name))
}

fn host_of_mon(state: &State, config: &Config, name: &str) -> Option<String> {
    match state.quorum.mons.get(name) {
        Some(record) => record.metadata.get("hostname").cloned(),
        None if name == config.name => Some(config.host.clone()),
        None => seats(state).remove(name),
    }
}

/// Returns true if a host shall have no monitor: that was said when it joined.
pub fn is_without(state: &State, host: &str) -> bool {
    state.keys.contains_key(&format!("{WITHOUT}{host}"))
}

/// The change that says whether a host may have a monitor; none if that is as it was.
pub fn without(state: &State, host: &str, not: bool) -> Option<Change> {
    let value = not.then(|| bytes::Bytes::from_static(b"1"));
    (is_without(state, host) != not).then(|| Change::Key { key: format!("{WITHOUT}{host}"), value })
}

/// Monitors that the cluster shall have: three, so that any one may be lost; five where there are seven hosts or more,
/// so that one may be lost while another one is down for maintenance.
pub fn enough(hosts: usize) -> usize {
    if hosts >= MANY_HOSTS { 5 } else { 3 }
}

/// Monitors and the hosts that they were given to.
pub fn seats(state: &State) -> BTreeMap<String, String> {
    let all = state.keys.range(SEAT.to_owned()..).take_while(|(key, _)| key.starts_with(SEAT));
    all.map(|(key, host)| (key[SEAT.len()..].to_owned(), String::from_utf8_lossy(host).into_owned())).collect()
}

/// The change that gives a seat to a host; without a host, takes it back.
pub fn seat(mon: &str, host: Option<&str>) -> Change {
    Change::Key { key: format!("{SEAT}{mon}"), value: host.map(|host| host.to_owned().into()) }
}

/// Names of monitors that are listed or given to somebody.
pub fn taken(state: &State) -> BTreeSet<String> {
    state.monmap.mon_info.keys().cloned().chain(seats(state).into_keys()).collect()
}

/// The changes that give a seat to a host and keep the name from being given again.
pub fn give_seat(state: &State, mon: &str, host: &str) -> Vec<Change> {
    let last = last_name(state).max(number_of(mon));
    [seat(mon, Some(host))].into_iter().chain(kept(state, last)).collect()
}

/// The change that keeps names that the cluster has from being given again; none if that is kept. It goes with a
/// monitor's removal.
pub fn keep_names(state: &State) -> Option<Change> {
    kept(state, last_name(state))
}

fn kept(state: &State, last: Option<u32>) -> Option<Change> {
    let name: bytes::Bytes = letters(last?).into();
    (state.keys.get(LAST) != Some(&name)).then(|| Change::Key { key: LAST.into(), value: Some(name) })
}

/// Letters for a number, as columns of tables have them: `a` for 0, `z` for 25, `aa` for 26.
fn letters(number: u32) -> String {
    let letter = |n: u32| char::from(b'a' + u8::try_from(n % 26).unwrap_or(0));
    let first = (number >= 26).then(|| letter(number / 26 - 1));
    first.into_iter().chain([letter(number)]).collect()
}

/// The number of a name of one or two letters.
fn number_of(name: &str) -> Option<u32> {
    let of = |c: u8| c.is_ascii_lowercase().then(|| u32::from(c - b'a'));
    match *name.as_bytes() {
        [one] => of(one),
        [first, second] => Some((of(first)? + 1) * 26 + of(second)?),
        _ => None,
    }
}

/// The last name of one or two letters that was given or that a monitor has.
fn last_name(state: &State) -> Option<u32> {
    let given = state.keys.get(LAST).and_then(|name| number_of(std::str::from_utf8(name).ok()?));
    taken(state).iter().filter_map(|name| number_of(name)).chain(given).max()
}

/// A name for a monitor of a host: the one that it has a seat for and that is not listed yet, or the next one in the
/// order `b` to `z`, `aa` to `zz`; never `a`, with which a cluster begins, since its folder and its manager have names
/// of their own. A name is not given twice: the host of a monitor that was removed and comes back would take another
/// host's for its own. Only when the last one was given, the first free one is given again.
pub fn name_for(state: &State, host: &str) -> Option<String> {
    let next = || {
        let number = last_name(state).map_or(1, |last| last + 1);
        (number < NAMES).then(|| letters(number))
    };
    let free = || {
        let taken = taken(state);
        (1..NAMES).map(letters).find(|name| !taken.contains(name))
    };
    waits(state, host).or_else(next).or_else(free)
}

/// The monitor for which a host has a seat, and that is not listed yet.
pub fn waits(state: &State, host: &str) -> Option<String> {
    seats(state).into_iter().find(|(mon, at)| at == host && !state.monmap.mon_info.contains_key(mon)).map(|(mon, _)| mon)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_letters_in_the_order_of_their_numbers() {
        let all: Vec<String> = (0..NAMES).map(letters).collect();
        assert_eq!([&all[0], &all[25], &all[26], &all[51], &all[52], &all[701]], ["a", "z", "aa", "az", "ba", "zz"]);
        assert!(all.iter().enumerate().all(|(n, name)| number_of(name) == u32::try_from(n).ok()));
        assert!(["", "A", "a1", "aaa", "\u{e4}"].iter().all(|name| number_of(name).is_none()));
    }
}
