//! What the cluster wants of this host now: which monitors it runs, and where all of them are. A thread asks every few
//! seconds.

use crate::cli::{Auth, Common};
use crate::client::Client;
use crate::events::{Duties, Event};
use crate::process::Process;
use crate::state::{MonState, State};
use crate::{conf, host, initial, keys, monitors, state, token};
use anyhow::{Context, Result};
use node::Level;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Interval at which it is asked.
const EVERY: Duration = Duration::from_secs(5);

/// Asks for ever; the process ends without it.
pub(crate) fn watch(dir: PathBuf, events: Sender<Event>) -> Result<()> {
    let ask = move || {
        let mut client = None;
        loop {
            std::thread::sleep(EVERY);
            match asked(&dir, &mut client) {
                Some(duties) => {
                    if events.send(Event::Duties(duties)).is_err() {
                        return;
                    }
                }
                // The monitors may be elsewhere by now: ceph.conf is read again.
                None => client = None,
            }
        }
    };
    std::thread::Builder::new().name("duties".into()).spawn(ask).context("start a thread that follows the cluster")?;
    Ok(())
}

fn asked(dir: &Path, client: &mut Option<Client>) -> Option<Duties> {
    if client.is_none() {
        *client = token::administrator(dir).ok();
    }
    let reply = client.as_ref()?.command(&json!({"prefix": "nacre host duties", "host": host::name(), "format": "json"})).ok()?;
    let answer: Value = serde_json::from_str(&reply.output).ok()?;
    let mons = answer["mons"].as_array()?.iter().filter_map(|m| m.as_str().map(str::to_owned)).collect();
    Some(Duties { mons, all: token::monitors(&answer).ok()? })
}

/// Settings with which this host's daemons are run.
pub(crate) struct Place<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) auth: Auth,
    pub(crate) bind: IpAddr,
    pub(crate) port: Option<u16>,
    pub(crate) common: &'a Common,
    /// Addresses of this host's services.
    pub(crate) services: &'a BTreeMap<String, String>,
}

/// Does what the cluster wants; what cannot be done is said in the log and tried again.
pub(crate) fn follow(process: &mut Process, state: &mut State, place: &Place<'_>, duties: &Duties) -> Result<()> {
    keep(process, state, place, duties)?;
    if state.around.is_none() {
        return Ok(());
    }
    let at = |mon: &MonState| host::reached(SocketAddr::new(place.bind, mon.port.unwrap_or_else(|| state.port(place.port))));
    let run: Vec<(String, SocketAddr)> = state.monitors().iter().map(|mon| (mon.name.clone(), at(mon))).collect();
    for name in removed(&run, duties) {
        drop_monitor(process, state, place.dir, name)?;
    }
    let first = duties.mons.iter().next().filter(|_| state.monitors().is_empty());
    if let Some(name) = first
        && let Err(e) = start_monitor(process, state, place, name, duties)
    {
        process.log.say(Level::Error, format!("mon.{name} of this host cannot be started: {e:#}"));
    }
    Ok(())
}

/// The monitors of this host that the cluster does not have. One of their name may be another host's by now; one that
/// is listed at their IP address is theirs, though the cluster may not know yet what this host is called, or at which
/// port it listens.
fn removed<'a>(run: &'a [(String, SocketAddr)], duties: &Duties) -> Vec<&'a String> {
    let listed = |name: &String, at: &SocketAddr| duties.all.iter().any(|(mon, addr)| mon == name && addr.ip() == at.ip());
    let stays = |(name, at): &&(String, SocketAddr)| duties.mons.contains(name) || listed(name, at);
    run.iter().filter(|mon| !stays(mon)).map(|(name, _)| name).collect()
}

/// Keeps what this host knows of the cluster's monitors, for clients and for the next start.
fn keep(process: &Process, state: &mut State, place: &Place<'_>, duties: &Duties) -> Result<()> {
    let all: Vec<SocketAddr> = duties.all.iter().map(|(_, addr)| *addr).collect();
    let alone = all.len() < 2 && state.around.is_none();
    if all.is_empty() || alone || !state.surround(&all, place.auth) {
        return Ok(());
    }
    state.change(place.dir, |state| {
        state.surround(&all, place.auth);
    })?;
    process.log.say(Level::Info, format!("the cluster's monitors are {:?}", duties.all));
    keys::write_whole(&place.dir.join("ceph.conf"), &conf::text(place.dir, state.fsid()?, &all, place.auth), 0o644)
}

fn start_monitor(process: &mut Process, state: &mut State, place: &Place<'_>, name: &str, duties: &Duties) -> Result<()> {
    let mon = MonState { name: name.to_owned(), port: None, made: false };
    let all: Vec<SocketAddr> = duties.all.iter().map(|(_, addr)| *addr).collect();
    let mut next = state.clone();
    next.mons = vec![mon.clone()];
    let prepared =
        monitors::listen(&next, place.dir, std::slice::from_ref(&mon), place.bind, place.port)?.pop().context("a monitor")?;
    state::make_folder(&mon.folder(place.dir))?;
    let parts =
        prepared.open(state.fsid()?, place.auth, place.bind, initial::initial_keys(place.dir, state)?, &all, place.services)?;
    // Kept before it runs: a store that is made belongs to the host's monitors.
    state.change(place.dir, |state| state.mons = next.mons)?;
    process.start_mon(name, parts, place.common)?;
    process.open_socket(&format!("mon.{name}"))?;
    process.log.say(Level::Info, format!("mon.{name} is started: the cluster gave it to this host"));
    Ok(())
}

/// A monitor that was removed from the cluster ends; its store is put aside.
fn drop_monitor(process: &mut Process, state: &mut State, dir: &Path, name: &str) -> Result<()> {
    process.log.say(Level::Warn, format!("mon.{name} was removed from the cluster; it is stopped"));
    process.dismiss(&format!("mon.{name}"), None);
    let Some(mon) = state.monitors().into_iter().find(|m| m.name == name) else { return Ok(()) };
    let store = mon.folder(dir).join("store");
    if store.exists() {
        std::fs::rename(&store, store.with_extension("removed")).with_context(|| format!("rename {}", store.display()))?;
    }
    state.change(dir, |state| state.mons = state.monitors().into_iter().filter(|m| m.name != name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_monitor_whose_name_another_host_has_is_removed() {
        let at = |host: u8| SocketAddr::from(([10, 0, 0, host], 3300));
        let run = [("c".to_owned(), at(3))];
        let told = |mons: &[&str], all: &[(&str, u8)]| Duties {
            mons: mons.iter().map(|name| (*name).to_owned()).collect(),
            all: all.iter().map(|(name, host)| ((*name).to_owned(), at(*host))).collect(),
        };
        let none: [&String; 0] = [];
        assert_eq!(removed(&run, &told(&["c"], &[("a", 1), ("c", 3)])), none);
        assert_eq!(removed(&run, &told(&["c"], &[("a", 1), ("c", 9)])), none, "it is about to tell its new address");
        assert_eq!(removed(&run, &told(&[], &[("a", 1), ("c", 3)])), none, "the host has another name");
        assert_eq!(removed(&run, &told(&[], &[("a", 1), ("c", 4)])), ["c"], "the name was given to another host");
        assert_eq!(removed(&run, &told(&["d"], &[("a", 1), ("b", 2)])), ["c"]);
    }
}
