//! Commands on monitors.

use super::shared::{addrs, legacy};
use super::{Cx, Row, row};
use grammar::{Args, Outcome, Reply, refuse};
use monstate::context::{MON_FEATURES, RELEASE, RELEASE_NUMBER, VERSION, version_line};
use monstate::effective;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::{EntityType, UTime, features};

pub(super) const ROWS: &[Row] = &[
    row("mon dump <epoch:Int range=0 req=false>", "show the monitor map", "mon", "r", dump),
    row("mon stat", "show the state of the monitors", "mon", "r", stat),
    row("mon getmap <epoch:Int range=0 req=false>", "get the monitor map", "mon", "r", getmap),
    row("mon metadata <id:String req=false>", "show what a monitor says about itself", "mon", "r", metadata),
    row("mon versions", "show the versions of the monitors", "mon", "r", |cx, _| {
        Ok(cx.structure("version", &json!(versions(cx))))
    }),
    row("mon count-metadata <property:String>", "count monitors by a property", "mon", "r", count),
    row(
        "mon feature set <feature_name:String> <yes_i_really_mean_it:Bool req=false>",
        "set a feature of the monitors (all of them always are)",
        "mon",
        "rw",
        feature_set,
    ),
    row(
        "mon feature ls <with_value:Choices req=false strings=--with-value>",
        "list features of the monitors",
        "mon",
        "r",
        feature_ls,
    ),
    row("mon ok-to-stop <ids:String n=N>", "check whether monitors can stop", "mon", "r", ok_to_stop),
    row("mon ok-to-add-offline", "check whether a monitor can be added before it runs", "mon", "r", ok_to_add),
    row("mon ok-to-rm <id:String>", "check whether a monitor can be removed", "mon", "r", ok_to_rm),
    row("quorum_status", "show the state of the quorum", "mon", "r", quorum_status),
    row("mon_status", "show the state of this monitor", "mon", "r", |cx, _| Ok(cx.structure("mon_status", &mon_status(cx)))),
    row("time-sync-status", "show how far the monitors' clocks differ", "mon", "r", time_sync),
    row("sessions", "list sessions of the monitor", "mon", "r", sessions),
];

/// A time as monitor maps have it: `2026-11-20T15:41:24.829984Z`
fn zulu(t: UTime) -> String {
    t.iso().replace("+0000", "Z")
}

/// The monitor map as a structure.
pub(super) fn map_dump(cx: &Cx<'_>) -> Value {
    let m = &cx.state.monmap;
    let mons: Vec<Value> = m
        .by_rank()
        .enumerate()
        .map(|(rank, info)| {
            json!({
                "rank": rank, "name": info.name, "public_addrs": addrs(&info.public_addrs), "addr": legacy(&info.public_addrs),
                "public_addr": legacy(&info.public_addrs), "priority": info.priority, "weight": info.weight, "crush_location": "{}",
            })
        })
        .collect();
    json!({
        "epoch": m.epoch,
        "fsid": m.fsid.to_string(),
        "modified": zulu(m.last_changed),
        "created": zulu(m.created),
        "min_mon_release": m.min_mon_release,
        "min_mon_release_name": RELEASE,
        "election_strategy": m.strategy,
        "disallowed_leaders: ": "",
        "stretch_mode": m.stretch_mode_enabled,
        "tiebreaker_mon": m.tiebreaker_mon,
        "removed_ranks: ": "",
        "features": {"persistent": MON_FEATURES, "optional": []},
        "mons": mons,
    })
}

fn dump(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let m = cx.state.monmap.clone();
    if args.int("epoch").is_some_and(|e| e > 0 && e != i64::from(m.epoch)) {
        refuse!(ENOENT, "there is no map for epoch {}", args.int("epoch").unwrap_or(0));
    }
    let mut value = map_dump(cx);
    value["quorum"] = json!(quorum_ranks(cx));
    let reply = cx.show("monmap", value, || {
        let mut out = format!(
            "epoch {}\nfsid {}\nlast_changed {}\ncreated {}\nmin_mon_release {RELEASE_NUMBER} ({RELEASE})\nelection_strategy: {}\n",
            m.epoch,
            m.fsid,
            m.last_changed.iso(),
            m.created.iso(),
            m.strategy
        );
        m.by_rank().enumerate().for_each(|(rank, i)| out.push_str(&format!("{rank}: {} mon.{}\n", i.public_addrs, i.name)));
        out
    });
    Ok(reply.with_status(format!("dumped monmap epoch {}", m.epoch)))
}

/// Ranks of the quorum.
pub(super) fn quorum_ranks(cx: &Cx<'_>) -> Vec<usize> {
    cx.env.standing.quorum.iter().filter_map(|name| cx.state.monmap.rank_of(name)).collect()
}

/// Rank and name of the leader; rank -1 and no name if none is known.
fn leader<'a>(cx: &'a Cx<'_>) -> (i64, &'a str) {
    let name = cx.env.standing.leader.as_deref().unwrap_or("");
    let rank = cx.state.monmap.rank_of(name).and_then(|rank| i64::try_from(rank).ok());
    (rank.unwrap_or(-1), name)
}

/// The line of `status` for monitors.
pub(super) fn line(cx: &Cx<'_>, age: &str) -> String {
    let all = cx.state.monmap.mon_info.len();
    let quorum = &cx.env.standing.quorum;
    let away = |name: &&String| cx.env.standing.voters.contains(name) && !quorum.contains(name);
    let out: Vec<&str> = cx.state.monmap.ranks.iter().filter(away).map(String::as_str).collect();
    let out = if out.is_empty() { String::new() } else { format!(", out of quorum: {}", out.join(", ")) };
    format!("{all} daemons, quorum {} (age {age}){out}", quorum.join(","))
}

fn stat(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let m = &cx.state.monmap;
    let (ranks, (rank, name)) = (quorum_ranks(cx), leader(cx));
    let names = &cx.env.standing.quorum;
    let quorum: Vec<Value> = ranks.iter().zip(names).map(|(rank, name)| json!({"rank": rank, "name": name})).collect();
    let value = json!({
        "epoch": m.epoch, "min_mon_release_name": RELEASE, "num_mons": m.mon_info.len(), "leader": name,
        "quorum": quorum,
    });
    Ok(cx.show("monmap", value, || {
        let mons: Vec<String> = m.by_rank().map(|i| format!("{}={}", i.name, i.public_addrs)).collect();
        let ranks: Vec<String> = ranks.iter().map(ToString::to_string).collect();
        format!(
            "e{}: {} mons at {{{}}} removed_ranks: {{}}, election epoch {}, leader {rank} {name}, quorum {} {}\n",
            m.epoch,
            m.mon_info.len(),
            mons.join(","),
            cx.env.standing.election_epoch(),
            ranks.join(","),
            names.join(",")
        )
    }))
}

fn getmap(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let epoch = cx.state.monmap.epoch;
    if args.int("epoch").is_some_and(|e| e > 0 && e != i64::from(epoch)) {
        refuse!(ENOENT, "there is no map for epoch {}", args.int("epoch").unwrap_or(0));
    }
    Ok(Reply::data(cx.state.monmap_bytes.clone()).with_status(format!("got monmap epoch {epoch}")))
}

/// Hosts and names of the monitors, by rank.
pub(super) fn hosts(cx: &Cx<'_>) -> Vec<(String, String)> {
    let host = |name: &str| told(cx, name).remove("hostname").unwrap_or_default();
    cx.state.monmap.ranks.iter().map(|name| (host(name), name.clone())).collect()
}

/// Returns how many monitors there are of each version.
pub(super) fn versions(cx: &Cx<'_>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (_, name) in hosts(cx) {
        *counts.entry(version(cx, &name)).or_default() += 1;
    }
    counts
}

/// The version line of a monitor.
pub(super) fn version(cx: &Cx<'_>, name: &str) -> String {
    version_line(&told(cx, name))
}

/// Returns what a monitor told about itself and its host; nothing if it never ran.
pub(super) fn told(cx: &Cx<'_>, name: &str) -> BTreeMap<String, String> {
    if name == cx.env.config.name {
        return cx.env.config.metadata();
    }
    cx.state.quorum.mons.get(name).map(|record| record.metadata.clone()).unwrap_or_default()
}

/// Returns what the monitors say about themselves, by rank.
fn all_metadata(cx: &Cx<'_>) -> Vec<Value> {
    cx.state.monmap.by_rank().map(|info| one_metadata(cx, &info.name, info.public_addrs.to_string())).collect()
}

fn one_metadata(cx: &Cx<'_>, name: &str, addrs: String) -> Value {
    let mut all = told(cx, name);
    let known = [
        ("addrs", addrs),
        ("ceph_release", RELEASE.into()),
        ("ceph_version", version(cx, name)),
        ("ceph_version_short", VERSION.into()),
        // Of what goes over the wire.
        ("compression_algorithms", "none".into()),
    ];
    all.extend(known.into_iter().map(|(key, value)| (key.to_owned(), value)));
    for key in ["device_ids", "device_paths", "devices"] {
        all.entry(key.to_owned()).or_default();
    }
    let first = [("name".to_owned(), Value::from(name))];
    Value::Object(first.into_iter().chain(all.into_iter().map(|(key, value)| (key, value.into()))).collect())
}

fn metadata(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let all = all_metadata(cx);
    match args.opt("id") {
        None => Ok(cx.structure("mon_metadata", &json!(all))),
        Some(id) => match all.iter().find(|m| m["name"] == id) {
            Some(one) => {
                let mut one = one.clone();
                // Who names the monitor knows its name.
                one.as_object_mut().map(|fields| fields.remove("name"));
                Ok(cx.structure("mon_metadata", &one))
            }
            None => refuse!(ENOENT, "requested mon not found"),
        },
    }
}

fn count(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let mut counts: BTreeMap<String, u64> = Default::default();
    for one in all_metadata(cx) {
        *counts.entry(one[args.str("property")].as_str().unwrap_or("unknown").to_string()).or_default() += 1;
    }
    Ok(cx.structure(args.str("property"), &json!(counts)))
}

/// Changes nothing: all features that there are have been on since the cluster was made.
fn feature_set(_: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("feature_name");
    if !MON_FEATURES.contains(&name) {
        refuse!(ENOENT, "unknown feature '{name}'");
    }
    if !args.flag("yes_i_really_mean_it") {
        refuse!(EPERM, "please specify '--yes-i-really-mean-it' if you really want to set feature '{name}' in the monmap");
    }
    Ok(Reply::status(format!("feature '{name}' is set already: all features are always on")))
}

fn feature_ls(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let valued = args.opt("with_value").is_some();
    let names: Vec<String> =
        MON_FEATURES.iter().enumerate().map(|(i, n)| if valued { format!("{n}({})", 1 << i) } else { (*n).into() }).collect();
    let value = json!({
        "all": {"supported": names, "persistent": names},
        "monmap": {"persistent": names, "optional": Vec::<String>::new(), "required": names},
    });
    let list = names.join(",");
    Ok(cx.show("features", value, || {
        format!("all features\n\tsupported: [{list}]\n\tpersistent: [{list}]\non current monmap (epoch {})\n\tpersistent: [{list}]\n\trequired: [{list}]\n", cx.state.monmap.epoch)
    }))
}

fn ok_to_stop(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let ids: Vec<&str> = args.list("ids").iter().map(|id| id.trim_start_matches("mon.")).collect();
    let list = ids.join(",");
    match cx.env.standing.without(&ids, false) {
        Ok(left) => Ok(Reply::status(format!("quorum should be preserved ({left}) after stopping [{list}]"))),
        Err(left) => refuse!(EBUSY, "not enough monitors would be available ({left}) after stopping mons [{list}]"),
    }
}

fn ok_to_add(_: &mut Cx<'_>, _: &Args) -> Outcome {
    // It is no voter before it runs and has caught up.
    Ok(Reply::status("adding another mon that is not yet online will not break quorum"))
}

fn ok_to_rm(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let id = args.str("id").trim_start_matches("mon.");
    if !cx.state.monmap.mon_info.contains_key(id) {
        return Ok(Reply::status(format!("mon.{id} does not exist, so it is ok to remove")));
    }
    match cx.env.standing.without(&[id], true) {
        Ok(left) => Ok(Reply::status(format!("quorum should be preserved ({left}) after removing mon.{id}"))),
        Err(left) => refuse!(EBUSY, "removing mon.{id} would break the quorum ({left})"),
    }
}

/// The state of the quorum.
pub(super) fn quorum_dump(cx: &Cx<'_>) -> Value {
    json!({
        "election_epoch": cx.env.standing.election_epoch(),
        "quorum": quorum_ranks(cx),
        "quorum_names": cx.env.standing.quorum,
        "quorum_leader_name": leader(cx).1,
        "quorum_age": quorum_age(cx),
        "features": {"quorum_con": features::SUPPORTED.to_string(), "quorum_mon": MON_FEATURES},
        "monmap": map_dump(cx),
    })
}

fn quorum_status(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    // One line even when no format is asked for.
    let format = if cx.format.is_structured() { cx.format } else { grammar::Format::Json };
    let end = if cx.format.is_structured() { "" } else { "\n" };
    Ok(Reply::data(format.render("quorum_status", &quorum_dump(cx)) + end))
}

/// Returns how this monitor stands, in Ceph's words.
fn standing(cx: &Cx<'_>) -> &'static str {
    let standing = &cx.env.standing;
    match (standing.leads, &standing.leader) {
        (true, _) => "leader",
        (false, Some(_)) if standing.is_voter => "peon",
        (false, Some(_)) => "synchronizing",
        (false, None) if standing.is_voter => "electing",
        (false, None) => "probing",
    }
}

/// The state of this monitor.
pub(super) fn mon_status(cx: &Cx<'_>) -> Value {
    json!({
        "name": cx.env.config.name,
        "rank": cx.state.monmap.rank_of(&cx.env.config.name).map_or(json!(-1), |rank| json!(rank)),
        "state": standing(cx),
        "election_epoch": cx.env.standing.election_epoch(),
        "quorum": quorum_ranks(cx),
        "quorum_age": quorum_age(cx),
        "features": {
            "required_con": features::REQUIRED_BY_SERVERS.to_string(),
            "required_mon": MON_FEATURES,
            "quorum_con": features::SUPPORTED.to_string(),
            "quorum_mon": MON_FEATURES,
        },
        "outside_quorum": [],
        "extra_probe_peers": [],
        "sync_provider": [],
        "monmap": map_dump(cx),
        "feature_map": feature_map(cx),
        "stretch_mode": false,
    })
}

/// The answer to a ping.
pub fn ping(cx: &Cx<'_>) -> Value {
    json!({"health": super::health::dump(cx, false), "mon_status": mon_status(cx)})
}

/// A number as Ceph's own formatter shows it: 0 without a fraction.
fn number(x: f64) -> Value {
    if x == 0.0 { json!(0) } else { json!(x) }
}

fn time_sync(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let allowed = effective::monitor_number(cx.state, cx.env, "mon_clock_drift_allowed");
    let clocks = &cx.soft.clocks;
    let one = |name: &String| {
        let clock = clocks.of(name).unwrap_or_default();
        let health = if clock.skew.abs() > allowed { "HEALTH_WARN" } else { "HEALTH_OK" };
        (name.clone(), json!({"skew": number(clock.skew), "latency": number(clock.latency), "health": health}))
    };
    let skews: serde_json::Map<String, Value> = cx.env.standing.quorum.iter().map(one).collect();
    let mut value = json!({
        "timechecks": {
            "epoch": cx.env.standing.election_epoch(),
            "round": clocks.round,
            "round_status": if clocks.is_finished() { "finished" } else { "on-going" },
        },
    });
    // A monitor alone has nobody to differ from.
    if skews.len() > 1 {
        value["time_skew_status"] = skews.into();
    }
    Ok(cx.structure("time_sync", &value))
}

pub(super) fn sessions(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = cx
        .soft
        .connected
        .values()
        .map(|c| {
            let addrs = types::EntityAddrVec(vec![c.addr]);
            let addrs = super::shared::addrs(&addrs);
            json!({
                "name": format!("{}.{}", c.kind.name(), c.global_id), "entity_name": c.name.to_string(),
                "socket_addr": addrs["addrvec"][0].clone(), "addrs": addrs, "con_type": c.kind.name(),
                "con_features": c.features, "con_features_hex": format!("{:x}", c.features),
                "con_features_release": release_of(c.features), "open": true,
                "caps": {"text": c.caps.as_deref().unwrap_or("allow *")}, "authenticated": true, "global_id": c.global_id,
                "global_id_status": "none", "remote_host": "",
            })
        })
        .collect();
    Ok(cx.structure("sessions", &value))
}

/// Seconds for which there has been a quorum.
pub(super) fn quorum_age(cx: &Cx<'_>) -> u64 {
    cx.now.mono.since(cx.env.standing.since.mono).as_secs()
}

/// The release that a set of features stands for, as clients print it.
pub(super) fn release_of(bits: u64) -> &'static str {
    // Bit 58 came with jewel, 61 and 63 with luminous and later. What is newer is still called luminous.
    if bits & (1 << 61) != 0 || bits & features::SUPPORTED == features::SUPPORTED { "luminous" } else { "jewel" }
}

/// Features by kind of peer.
pub(super) fn feature_map(cx: &Cx<'_>) -> Value {
    let mut counts: BTreeMap<(usize, u64), u64> = BTreeMap::new();
    let kinds = [
        (EntityType::Mon, "mon"),
        (EntityType::Mds, "mds"),
        (EntityType::Osd, "osd"),
        (EntityType::Client, "client"),
        (EntityType::Mgr, "mgr"),
    ];
    let monitors = hosts(cx).len() as u64;
    counts.insert((0, features::SUPPORTED), monitors);
    counts.insert((4, features::SUPPORTED), monitors);
    for peer in cx.soft.connected.values() {
        let at = kinds.iter().position(|(k, _)| *k == peer.kind).unwrap_or(3);
        *counts.entry((at, peer.features)).or_default() += 1;
    }
    let mut map = Map::new();
    for (at, (_, name)) in kinds.iter().enumerate() {
        let rows: Vec<Value> = counts
            .iter()
            .filter(|((k, _), _)| *k == at)
            .map(|((_, f), n)| json!({"features": format!("{f:#x}"), "release": release_of(*f), "num": n}))
            .collect();
        if !rows.is_empty() {
            map.insert((*name).into(), rows.into());
        }
    }
    Value::Object(map)
}
