//! Commands on the manager, and what its modules do in Ceph.

use super::shared::{addrs, legacy};
use super::{Cx, Row, row};
use grammar::{Args, Outcome, Reply, refuse};
use monstate::context::{VERSION, version_line};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const ROWS: &[Row] = &[
    row("mgr dump <epoch:Int range=0 req=false>", "show the manager map", "mgr", "r", dump),
    row("mgr stat", "show which manager is active", "mgr", "r", stat),
    row("mgr services", "show where the manager's services are", "mgr", "r", services),
    row(
        "mgr module enable <module:String> <force:Choices req=false strings=--force>",
        "enable a module (those that are built in always are)",
        "mgr",
        "rw",
        enable,
    ),
    row("mgr module disable <module:String>", "disable a module (those that are built in cannot be)", "mgr", "rw", disable),
    row("mgr module ls", "list the manager's modules", "mgr", "r", modules),
    row("mgr metadata <who:String req=false>", "show what the manager says about itself", "mgr", "r", metadata),
    row("mgr versions", "show the manager's version", "mgr", "r", versions),
    row("mgr count-metadata <property:String>", "count managers by a property", "mgr", "r", count),
    row("crash ls", "list crashes", "mgr", "r", |cx, _| Ok(cx.show("crashes", json!([]), String::new))),
    row("crash ls-new", "list crashes that are not archived", "mgr", "r", |cx, _| Ok(cx.show("crashes", json!([]), String::new))),
    row("crash stat", "count crashes", "mgr", "r", |_, _| Ok(Reply::data("0 crashes recorded\n"))),
    row("crash archive-all", "archive all crashes", "mgr", "w", |_, _| Ok(Reply::default())),
    row("service dump", "show the services that reported to the manager", "service", "r", service_dump),
    row("service status", "show the state of the services", "service", "r", service_status),
    row("node ls <type:Choices req=false strings=all|osd|mon|mds|mgr>", "list daemons by host", "mon", "r", nodes),
    row("fs ls", "list file systems", "fs", "r", |cx, _| {
        Ok(cx.show("filesystems", json!([]), || "No filesystems enabled\n".into()))
    }),
    row("fs volume ls", "list file systems", "mgr", "r", |cx, _| Ok(cx.structure("volumes", &json!([])))),
    row("fs status <fs:String req=false>", "show the state of file systems", "mgr", "r", fs_status),
    row("fs subvolume ls <vol_name:String> <group_name:String req=false>", "list parts of a file system", "mgr", "r", no_volume),
    row("fs subvolumegroup ls <vol_name:String>", "list groups of parts of a file system", "mgr", "r", no_volume),
    row("fs dump <epoch:Int range=0 req=false>", "show the file system map", "mds", "r", fs_dump),
    row("mds stat", "show the state of the metadata servers", "mds", "r", mds_stat),
    row("mds versions", "show the versions of the metadata servers", "mds", "r", |cx, _| Ok(cx.structure("version", &json!({})))),
    row("mds metadata <who:String req=false>", "show what metadata servers say about themselves", "mds", "r", |cx, _| {
        Ok(cx.structure("mds_metadata", &json!([])))
    }),
    row("device ls", "list devices", "mgr", "r", devices),
    row("telemetry status", "show whether anything is reported to anybody", "mgr", "r", |cx, _| {
        Ok(cx.structure("telemetry", &json!({"enabled": false})))
    }),
];

fn dump(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let m = &cx.state.mgrmap;
    let always: Map<String, Value> = m
        .always_on_modules
        .iter()
        .map(|(r, modules)| (super::shared::release_name(*r as u8).to_string(), json!(modules)))
        .collect();
    let clients: Vec<Value> = m
        .clients_names
        .iter()
        .zip(&m.clients)
        .map(|(name, a)| {
            let mut one = json!({"name": name});
            one["addrvec"] = addrs(a)["addrvec"].clone();
            one
        })
        .collect();
    let value = json!({
        "epoch": m.epoch,
        "active_gid": m.active_gid,
        "active_name": m.active_name,
        "active_addrs": addrs(&m.active_addrs),
        "active_addr": legacy(&m.active_addrs),
        "active_change": m.active_change.iso(),
        "active_mgr_features": m.active_mgr_features,
        "available": m.available,
        "standbys": standbys(cx),
        "modules": m.modules,
        "available_modules": [],
        "services": m.services,
        "always_on_modules": always,
        "last_failure_osd_epoch": m.last_failure_osd_epoch,
        "active_clients": clients,
    });
    Ok(cx.structure("mgrmap", &value))
}

fn stat(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let m = &cx.state.mgrmap;
    let value =
        json!({"epoch": m.epoch, "available": m.available, "active_name": m.active_name, "num_standby": m.standbys.len()});
    Ok(cx.structure("mgr_stat", &value))
}

fn services(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = json!(cx.state.mgrmap.services);
    Ok(cx.structure("services", &value))
}

/// Modules whose duties are built in here.
fn built_in(cx: &Cx<'_>) -> BTreeSet<String> {
    cx.state.mgrmap.always_on_modules.values().next_back().cloned().unwrap_or_default()
}

/// Modules that are on in Ceph until somebody turns them off, and whose duties are built in here.
const BUILT_IN: [&str; 1] = ["iostat"];

/// Changes nothing: what is there always runs. What is not there is refused, also by force: nothing would run.
fn enable(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let module = args.str("module");
    if built_in(cx).contains(module) {
        return Ok(Reply::status(format!("module '{module}' is already enabled (always-on)")));
    }
    if BUILT_IN.contains(&module) {
        return Ok(Reply::status(format!("module '{module}' is already enabled")));
    }
    if args.opt("force").is_some() {
        refuse!(ENOENT, "module '{module}' is not part of this manager, and nothing would run by force");
    }
    refuse!(ENOENT, "all mgr daemons do not support module '{module}', pass --force to force enablement");
}

fn disable(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let module = args.str("module");
    if built_in(cx).contains(module) {
        refuse!(EINVAL, "module '{module}' cannot be disabled (always-on)");
    }
    if BUILT_IN.contains(&module) {
        refuse!(EOPNOTSUPP, "module '{module}' cannot be disabled: its duties are built in");
    }
    Ok(Reply::status(format!("module '{module}' is already disabled")))
}

fn modules(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let enabled: BTreeSet<&str> = cx.state.mgrmap.modules.iter().map(String::as_str).chain(BUILT_IN).collect();
    let value = json!({"always_on_modules": built_in(cx), "enabled_modules": enabled, "disabled_modules": []});
    Ok(cx.structure("modules", &value))
}

/// The line of `status` for managers.
pub(super) fn line(cx: &Cx<'_>) -> String {
    let m = &cx.state.mgrmap;
    let age = grammar::units::span(super::mon::quorum_age(cx));
    let waiting: Vec<&str> = m.standbys.values().map(|s| s.name.as_str()).collect();
    let standbys = if waiting.is_empty() { String::new() } else { format!(", standbys: {}", waiting.join(", ")) };
    format!("{}(active, since {age}){standbys}", m.active_name)
}

fn standbys(cx: &Cx<'_>) -> Vec<Value> {
    let one =
        |s: &maps::StandbyInfo| json!({"gid": s.gid, "name": s.name, "mgr_features": s.mgr_features, "available_modules": []});
    cx.state.mgrmap.standbys.values().map(one).collect()
}

/// What the managers say about themselves, the active one first.
fn all_metadata(cx: &Cx<'_>) -> Vec<BTreeMap<String, String>> {
    let m = &cx.state.mgrmap;
    // A manager is in the process of its monitor.
    let of = |name: &str, addrs: &types::EntityAddrVec, mut told: BTreeMap<String, String>| {
        told.extend([
            ("name".to_string(), name.to_owned()),
            ("addr".into(), legacy(addrs)),
            ("addrs".into(), addrs.to_string()),
            ("ceph_version".into(), version_line(&told)),
            ("ceph_version_short".into(), VERSION.into()),
            ("ceph_release".into(), monstate::context::RELEASE.into()),
        ]);
        told.retain(|_, v| !v.is_empty());
        told
    };
    let mut all = vec![of(&cx.env.config.mgr_name, &m.active_addrs, cx.env.config.metadata())];
    for r in cx.state.quorum.mons.values().filter(|r| r.mgr_name != cx.env.config.mgr_name) {
        all.push(of(&r.mgr_name, &r.mgr_addrs, r.metadata.clone()));
    }
    all
}

fn metadata(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let all = all_metadata(cx);
    match args.opt("who") {
        None => Ok(cx.structure("mgr_metadata", &json!(all))),
        Some(who) => match all.iter().find(|m| m.get("name").is_some_and(|n| n == who)) {
            Some(one) => Ok(cx.structure("mgr_metadata", &json!(one))),
            None => refuse!(ENOENT, "there is no manager '{who}'"),
        },
    }
}

fn versions(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let mut value: BTreeMap<String, u64> = BTreeMap::new();
    for told in all_metadata(cx) {
        *value.entry(version_line(&told)).or_default() += 1;
    }
    let value = json!(value);
    Ok(cx.structure("version", &value))
}

fn count(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for mut one in all_metadata(cx) {
        *counts.entry(one.remove(args.str("property")).unwrap_or_else(|| "unknown".into())).or_default() += 1;
    }
    Ok(cx.structure("count", &json!(counts)))
}

/// The service map: the services that reported to the manager.
pub(super) fn service_map(cx: &Cx<'_>) -> Value {
    let mut services: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for ((kind, name), s) in &cx.soft.services {
        let daemons = services.entry(kind).or_insert_with(|| Map::from_iter([("summary".to_string(), json!(""))]));
        let daemon = json!({
            "start_epoch": 1, "start_stamp": s.since.iso(), "gid": s.gid, "addr": s.addr, "metadata": s.metadata, "task_status": s.status,
        });
        daemons.insert(name.clone(), daemon);
    }
    let services: Map<String, Value> = services.into_iter().map(|(k, d)| (k.to_string(), json!({"daemons": d}))).collect();
    json!({"epoch": 1, "modified": cx.env.started.wall.iso(), "services": services})
}

/// The lines of `status` for services.
pub(super) fn service_lines(cx: &Cx<'_>) -> String {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    cx.soft.services.keys().for_each(|(kind, _)| *counts.entry(kind).or_default() += 1);
    let line = |(kind, n): (&&str, &u64)| format!("    {kind}: {n} daemon{} active\n", if *n == 1 { "" } else { "s" });
    counts.iter().map(line).collect()
}

fn service_dump(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = service_map(cx);
    Ok(cx.structure("service_map", &value))
}

fn service_status(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let mut all: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for ((kind, name), s) in &cx.soft.services {
        all.entry(kind)
            .or_default()
            .insert(name.clone(), json!({"status_stamp": s.since.iso(), "last_beacon": s.since.iso(), "status": s.status}));
    }
    Ok(cx.structure("service_status", &json!(all)))
}

fn nodes(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let mut osds: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for osd in cx.state.osdmap.osds() {
        let at = cx.state.osd_metadata.get(&osd).and_then(|m| m.get("hostname")).cloned().unwrap_or_else(|| "unknown".into());
        osds.entry(at).or_default().push(osd);
    }
    let by_host = |daemons: Vec<(String, String)>| {
        let mut hosts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (host, name) in daemons {
            hosts.entry(if host.is_empty() { "localhost".into() } else { host }).or_default().push(name);
        }
        json!(hosts)
    };
    let mgrs = all_metadata(cx).into_iter();
    let mgr =
        by_host(mgrs.map(|mut m| (m.remove("hostname").unwrap_or_default(), m.remove("name").unwrap_or_default())).collect());
    let mon = by_host(super::mon::hosts(cx));
    let osd = json!(osds);
    let value = match args.opt("type") {
        Some("mon") => mon,
        Some("osd") => osd,
        Some("mgr") => mgr,
        Some("mds") => json!({}),
        _ => json!({"mon": mon, "osd": osd, "mgr": mgr}),
    };
    Ok(cx.structure("nodes", &value))
}

fn fs_dump(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = json!({"epoch": 1, "default_fscid": -1, "standbys": [], "filesystems": []});
    Ok(cx.show("fsmap", value, || "e1\n\nNo filesystems configured\n".into()).with_status("dumped fsmap epoch 1"))
}

/// Shows that there are no file systems; one that somebody names is not there.
fn fs_status(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    match args.opt("fs") {
        Some(name) => refuse!(EINVAL, "Invalid filesystem: {name}"),
        None => Ok(cx.show("fs_status", json!({}), String::new)),
    }
}

fn no_volume(_: &mut Cx<'_>, args: &Args) -> Outcome {
    refuse!(ENOENT, "FS '{}' not found", args.str("vol_name"))
}

fn mds_stat(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = json!({"fsmap": {"epoch": 1, "default_fscid": -1, "standbys": [], "filesystems": []}, "mdsmap_first_committed": 1, "mdsmap_last_committed": 1});
    Ok(cx.show("mds_stat", value, String::new))
}

fn devices(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let rows: Vec<(String, String, i32)> = cx
        .state
        .osd_metadata
        .iter()
        .filter_map(|(osd, m)| {
            Some((m.get("devices").or(m.get("path"))?.clone(), m.get("hostname").cloned().unwrap_or_default(), *osd))
        })
        .collect();
    let value = rows
        .iter()
        .map(|(dev, host, osd)| json!({"devid": dev, "location": [{"host": host, "dev": dev, "path": ""}], "daemons": [format!("osd.{osd}")]}))
        .collect();
    Ok(cx.show("devices", value, || {
        let mut t = grammar::Table::simple(&["DEVICE", "HOST:DEV", "DAEMONS", "WEAR", "LIFE EXPECTANCY"]);
        rows.iter().for_each(|(dev, host, osd)| {
            t.row(vec![dev.clone(), format!("{host}:{dev}"), format!("osd.{osd}"), String::new(), String::new()])
        });
        t.render()
    }))
}
