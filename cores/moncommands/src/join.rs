//! Commands with which a host joins: a key that is good for one host and some time, and what it is exchanged for.
//!
//! `nacre token` makes the entity `client.join.N`, which may do nothing but the command `nacre join`. That command
//! removes the entity in the same entry of the log in which it is answered, so it works once. The time at which the key
//! ends is kept among the entity's capabilities, where `ceph auth ls` shows it.
//!
//! What the key is exchanged for are the keys of `mon.` and `client.admin`. So who makes one needs what making an
//! administrator needs.

use super::shared::refusal;
use super::{Cx, Row, row};
use grammar::{Args, Outcome, Refusal, Reply, refuse};
use monstate::hosts;
use monstate::state::{Change, State};
use msgr::auth::{EntityKey, Key};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use types::{EntityName, EntityType, UTime};

/// Seconds for which a key is good if nothing is said.
const LASTS: i64 = 3600;
/// Rights of a joining host.
const CAPS: &str = "allow command \"nacre join\"";
/// Name under which the end of a key is kept, in seconds since 1970.
const ENDS: &str = "ends";
/// Names of such entities begin with this.
const PREFIX: &str = "join.";

pub(super) const ROWS: &[Row] = &[
    row("nacre token <secs:Int range=1|604800 req=false>", "make a key with which one host may join", "auth", "rwx", token),
    row(
        "nacre join <host:String> <again:Bool req=false> <monitor:Choices req=false strings=auto|yes|no> <location:String req=false>",
        "exchange a key for what a host needs to join",
        "auth",
        "rwx",
        join,
    ),
];

/// Names and addresses of all monitors.
pub(super) fn monitors(state: &State) -> Vec<Value> {
    state.monmap.by_rank().map(|m| json!({"name": m.name, "addr": address(m)})).collect()
}

fn address(mon: &maps::MonInfo) -> String {
    mon.public_addrs.msgr2().and_then(|a| a.addr).map(|a| a.to_string()).unwrap_or_default()
}

fn token(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let local =
        cx.state.monmap.by_rank().find(|m| m.public_addrs.msgr2().is_some_and(|a| a.addr.is_some_and(|a| a.ip().is_loopback())));
    if let Some(mon) = local {
        if cx.state.monmap.by_rank().count() > 1 {
            refuse!(
                EINVAL,
                "mon.{} listens at {}, which other hosts cannot reach: remove it (`ceph mon rm {}`), and start its host with `nacre up --bind ADDR`, where ADDR is an address that others reach",
                mon.name,
                address(mon),
                mon.name
            );
        }
        refuse!(
            EINVAL,
            "mon.{} listens at {}, which other hosts cannot reach: start the cluster with `nacre up --bind ADDR`, where ADDR is an address of this host",
            mon.name,
            address(mon)
        );
    }
    let secs = args.int("secs").unwrap_or(LASTS);
    let ends = u64::from(cx.now.wall.sec).saturating_add(secs.unsigned_abs());
    // No two are made in one entry of the log.
    let number = cx.state.index + 1;
    let name = EntityName::new(EntityType::Client, format!("{PREFIX}{number}"));
    let caps = BTreeMap::from([("mon".to_owned(), CAPS.to_owned()), (ENDS.to_owned(), ends.to_string())]);
    let key = Key::new(cx.now.wall, cx.chance);
    cx.changes.push(Change::Auth { name, entity: Some(EntityKey { key, caps }) });
    let value = json!({
        "fsid": cx.state.fsid.to_string(), "number": number, "key": key.to_base64(), "ends": ends, "cephx": cx.env.cephx(),
        "monitors": monitors(cx.state),
    });
    Ok(Reply::data(value.to_string()))
}

/// Returns when an entity's key ends, if it is one of these.
fn ends(name: &EntityName, entity: &EntityKey) -> Option<u64> {
    let one = name.kind == EntityType::Client && name.id.starts_with(PREFIX);
    entity.caps.get(ENDS).filter(|_| one)?.parse().ok()
}

fn join(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = cx.asker.name.clone();
    let Some(ends) = cx.state.auth.get(&name).and_then(|entity| ends(&name, entity)) else {
        refuse!(EPERM, "{name} is no key for joining, or was used before");
    };
    if ends <= u64::from(cx.now.wall.sec) {
        refuse!(ETIMEDOUT, "the key of {name} has ended");
    }
    let host = args.str("host");
    if !args.flag("again") && is_known(cx.state, host) {
        refuse!(EEXIST, "the cluster has a host named {host}; give this one another name, or say --again if it is that one");
    }
    if let Some(text) = args.opt("location") {
        let place = crush::Location::of_host(text).map_err(refusal)?;
        cx.state.osdmap.crush.check_host_place(&place).map_err(refusal)?;
        if place.0.values().any(|bucket| bucket == host) {
            refuse!(EINVAL, "a host named {host} cannot be in a bucket of that name");
        }
    }
    let secret = |name: &str| {
        let name: Option<EntityName> = name.parse().ok();
        name.and_then(|name| cx.state.auth.get(&name)).map(|entity| entity.key.to_base64())
    };
    let (Some(mon), Some(admin)) = (secret("mon."), secret("client.admin")) else {
        refuse!(ENOENT, "the cluster has no key of mon. or of client.admin to give");
    };
    let seat = seat_for(cx, args, host)?;
    let value = json!({
        "fsid": cx.state.fsid.to_string(), "cephx": cx.env.cephx(), "monitors": monitors(cx.state), "mon_key": mon, "admin_key": admin,
        "monitor": seat,
    });
    cx.changes.extend(hosts::without(cx.state, host, args.opt("monitor") == Some("no")));
    cx.changes.extend(seat.iter().flat_map(|mon| hosts::give_seat(cx.state, mon, host)));
    cx.changes.push(Change::Auth { name, entity: None });
    Ok(Reply::data(value.to_string()))
}

/// The name of the monitor that a joining host gets, if it gets one.
fn seat_for(cx: &Cx<'_>, args: &Args, host: &str) -> Result<Option<String>, Refusal> {
    let known = hosts::all(cx.state, &cx.env.config).len();
    let wanted = match args.opt("monitor") {
        Some("yes") => true,
        // One that was given a seat and did not come up keeps it.
        Some("auto") => hosts::waits(cx.state, host).is_some() || hosts::taken(cx.state).len() < hosts::enough(known + 1),
        _ => false,
    };
    match hosts::name_for(cx.state, host).filter(|_| wanted) {
        None if wanted => {
            refuse!(ENOSPC, "there is no name left for a monitor: remove some (`ceph mon rm NAME`), or say --monitor no")
        }
        name => Ok(name),
    }
}

/// Returns true if daemons of a host of this name are known.
fn is_known(state: &State, host: &str) -> bool {
    let is = |m: &BTreeMap<String, String>| m.get("hostname").is_some_and(|name| name == host);
    let listed = state.osd_metadata.iter().any(|(osd, m)| state.osdmap.exists(*osd) && is(m));
    listed || state.quorum.mons.values().any(|r| is(&r.metadata))
}

/// Removes the keys that have ended.
pub fn ended(state: &State, now: UTime) -> Vec<Change> {
    let over = |(name, entity): (&EntityName, &EntityKey)| {
        // A minute longer than it is good, so that who comes late is told why.
        ends(name, entity).is_some_and(|ends| ends + 60 < u64::from(now.sec)).then(|| name.clone())
    };
    let from = EntityName::new(EntityType::Client, PREFIX);
    let gone = state.auth.keyring.entities.range(from..).take_while(|(name, _)| name.id.starts_with(PREFIX)).filter_map(over);
    gone.map(|name| Change::Auth { name, entity: None }).collect()
}
