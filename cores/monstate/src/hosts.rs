//! Hosts, as far as the maps and what daemons say about themselves tell of them, and the seats of monitors.
//!
//! A *seat* is a monitor's name that was given to a host, under `config-key` `nacre/seat/NAME`. It is given by an entry of the log, before the
//! monitor runs. So two hosts that join at once never get one name.

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
/// The name of the monitor with which a cluster begins; nobody else gets it, since its folder and its manager have names of their own.
const FIRST: &str = "a";
/// Hosts from which on five monitors are wanted.
const MANY_HOSTS: usize = 7;

/// What runs on one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Where its daemons listen.
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

    /// How many of its OSDs are up, and how many are in.
    pub fn counts(&self, state: &State) -> (usize, usize) {
        let map = &state.osdmap;
        (self.osds.iter().filter(|o| map.is_up(**o)).count(), self.osds.iter().filter(|o| map.is_in(**o)).count())
    }

    /// Whether anything of it runs, as the leader sees it: its OSDs are up, or it hears its monitors.
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

/// Whether a host shall have no monitor: that was said when it joined.
pub fn is_without(state: &State, host: &str) -> bool {
    state.keys.contains_key(&format!("{WITHOUT}{host}"))
}

/// The change that says whether a host may have a monitor; none if that is as it was.
pub fn without(state: &State, host: &str, not: bool) -> Option<Change> {
    let value = not.then(|| bytes::Bytes::from_static(b"1"));
    (is_without(state, host) != not).then(|| Change::Key { key: format!("{WITHOUT}{host}"), value })
}

/// Monitors that the cluster shall have: three, so that any one may be lost; five where there are seven hosts or more, so that one may be lost
/// while another one is down for maintenance.
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

/// A name for a monitor of a host: the one that it has a seat for and that is not listed yet, or the first free letter.
pub fn name_for(state: &State, host: &str) -> Option<String> {
    let free = || {
        let taken = taken(state);
        (b'a'..=b'z').map(|c| char::from(c).to_string()).find(|name| name != FIRST && !taken.contains(name))
    };
    waits(state, host).or_else(free)
}

/// The monitor for which a host has a seat, and that is not listed yet.
pub fn waits(state: &State, host: &str) -> Option<String> {
    seats(state).into_iter().find(|(mon, at)| at == host && !state.monmap.mon_info.contains_key(mon)).map(|(mon, _)| mon)
}
