//! Commands that change who the monitors are, and which one leads.

use super::{Ask, Cx, Row, row};
use denc::Encode;
use grammar::{Args, Outcome, Reply, refuse};
use maps::MonInfo;
use monstate::hosts;
use monstate::state::Change;
use std::net::{IpAddr, SocketAddr};
use types::{EntityAddr, EntityAddrVec};

/// The port of a monitor whose address names none.
const PORT: u16 = 3300;

pub(super) const ROWS: &[Row] = &[
    row(
        "mon add <name:String> <addr:IPAddr> <location:String goodchars=[A-Za-z0-9-_.=] n=N req=false>",
        "list a monitor before it runs; it takes part when it has caught up",
        "mon",
        "rw",
        add,
    ),
    row("mon rm <name:String>", "remove a monitor", "mon", "rw", remove),
    row("mon remove <name:String>", "remove a monitor", "mon", "rw", remove),
    row("mgr fail <who:String req=false>", "let another monitor's manager take over", "mgr", "rw", fail),
];

fn add(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (name, text) = (args.str("name").to_owned(), args.str("addr"));
    let addr: Option<SocketAddr> = text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, PORT)));
    let Some(addr) = addr else { refuse!(EINVAL, "'{text}' is not an address") };
    let addrs = EntityAddrVec(vec![EntityAddr::msgr2(addr, 0)]);
    let map = &cx.state.monmap;
    match map.mon_info.values().find(|m| m.name == name || m.public_addrs == addrs) {
        Some(m) if m.name == name && m.public_addrs == addrs => {
            return Ok(Reply::status(format!("mon.{name} at {addrs} already exists")));
        }
        Some(m) => refuse!(EEXIST, "mon.{} at {} already exists", m.name, m.public_addrs),
        None => {}
    }
    let mut map = (**map).clone();
    map.epoch += 1;
    map.last_changed = cx.now.wall;
    map.add(MonInfo { name: name.clone(), public_addrs: addrs.clone(), ..MonInfo::default() });
    cx.changes.push(Change::MonMap(map.to_bytes()));
    Ok(Reply::status(format!("adding mon.{name} at {addrs}")))
}

fn remove(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("name").trim_start_matches("mon.").to_owned();
    let map = &cx.state.monmap;
    let Some(info) = map.mon_info.get(&name) else {
        return Ok(Reply::status(format!("mon.{name} does not exist or has already been removed")));
    };
    let addrs = info.public_addrs.clone();
    if map.mon_info.len() == 1 {
        refuse!(EINVAL, "error: refusing removal of last monitor {name}");
    }
    if let Err(left) = cx.env.standing.without(&[&name], true) {
        refuse!(EBUSY, "removing mon.{name} would break the quorum ({left})");
    }
    let left = map.mon_info.len() - 1;
    take_out(cx, std::slice::from_ref(&name));
    Ok(Reply::status(format!("removing mon.{name} at {addrs}, there will be {left} monitors")))
}

/// Takes monitors out of the map and forgets them, with their seats.
pub(super) fn take_out(cx: &mut Cx<'_>, names: &[String]) {
    let mut map = (*cx.state.monmap).clone();
    let listed = map.mon_info.len();
    let seats = hosts::seats(cx.state);
    for name in names {
        map.mon_info.remove(name);
        map.ranks.retain(|n| n != name);
        if cx.state.quorum.mons.contains_key(name) {
            cx.changes.push(Change::Mon { name: name.clone(), record: None });
        }
        if seats.contains_key(name) {
            cx.changes.push(hosts::seat(name, None));
        }
    }
    if map.mon_info.len() < listed {
        map.epoch += 1;
        map.last_changed = cx.now.wall;
        cx.changes.push(Change::MonMap(map.to_bytes()));
        cx.changes.extend(hosts::keep_names(cx.state));
    }
}

fn fail(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let active = &cx.state.mgrmap.active_name;
    let who = args.opt("who").unwrap_or(active);
    if who != active && who != cx.state.mgrmap.active_gid.to_string() {
        return Ok(Reply::status(format!("Daemon '{who}' is not the active manager: nothing to do")));
    }
    if cx.env.standing.heard.len() < 2 {
        refuse!(EBUSY, "there is no other monitor whose manager could take over");
    }
    cx.asks.push(Ask::HandOver);
    Ok(Reply::default())
}
