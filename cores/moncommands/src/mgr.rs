//! Commands on the manager, and what its modules do in Ceph.

use super::shared::{addrs, legacy};
use super::{Cx, Row, absent, row};
use bytes::Bytes;
use grammar::{Args, Errno, Outcome, Refusal, Reply, one_line, refuse};
use monstate::context::{VERSION, version_line};
use monstate::modules::{self, ABSENT, BUILT_IN, NOT_HERE, SWITCHED};
use monstate::state::Change;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const ROWS: &[Row] = &[
    row("mgr dump <epoch:Int range=0 req=false>", "show the manager map", "mgr", "r", dump),
    row("mgr stat", "show which manager is active", "mgr", "r", stat),
    row("mgr services", "show where the manager's services are", "mgr", "r", services),
    row("mgr module enable <module:String> <force:Choices req=false strings=--force>", "switch a module on", "mgr", "rw", enable),
    row("mgr module disable <module:String>", "switch a module off", "mgr", "rw", disable),
    row("mgr module ls", "list the manager's modules", "mgr", "r", module_ls),
    row("mgr metadata <who:String req=false>", "show what the manager says about itself", "mgr", "r", metadata),
    row("mgr versions", "show the manager's version", "mgr", "r", versions),
    row("mgr count-metadata <property:String>", "count managers by a property", "mgr", "r", count),
    row("service dump", "show the services that reported to the manager", "service", "r", service_dump),
    row("service status", "show the state of the services", "service", "r", service_status),
    row("node ls <type:Choices req=false strings=all|osd|mon|mds|mgr>", "list daemons by host", "mon", "r", nodes),
    row("fs ls", "list file systems", "fs", "r", |cx, _| {
        Ok(cx.show("filesystems", json!([]), || "No filesystems enabled\n".into()))
    }),
    row("fs volume ls", "list file systems", "mgr", "r", |cx, _| Ok(cx.structure("volumes", &json!([])))),
    row("fs status <fs:String req=false>", "show the state of file systems", "mgr", "r", fs_status),
    row(
        "fs subvolume ls <vol_name:String> <group_name:String req=false>",
        "list parts of a file system",
        "mgr",
        "r",
        absent::no_volume,
    ),
    row("fs subvolumegroup ls <vol_name:String>", "list groups of parts of a file system", "mgr", "r", absent::no_volume),
    row("fs dump <epoch:Int range=0 req=false>", "show the file system map", "mds", "r", fs_dump),
    row("mds stat", "show the state of the metadata servers", "mds", "r", mds_stat),
    row("mds versions", "show the versions of the metadata servers", "mds", "r", |cx, _| {
        Ok(cx.structure("ceph_version", &json!({})))
    }),
    row("mds metadata <who:String req=false>", "show what metadata servers say about themselves", "mds", "r", |cx, args| {
        match args.opt("who") {
            Some(who) => Err(Refusal {
                data: cx.structure("mds_metadata", &json!({})).data,
                ..Refusal::new(Errno::EINVAL, format!("MDS named '{who}' does not exist, or is not up"))
            }),
            None => Ok(cx.structure("mds_metadata", &json!([]))),
        }
    }),
    row("device ls", "list devices", "mgr", "r", devices),
    row("telemetry status", "show whether anything is reported to anybody", "mgr", "r", |cx, _| {
        Ok(cx.structure("telemetry", &telemetry_status()))
    }),
    row("telemetry off", "see to it that nothing is reported, as it always is here", "mgr", "rw", |_, _| Ok(Reply::default())),
    row("restful list-keys", "list the keys of the module 'restful', which this manager does not have", "mgr", "r", |cx, _| {
        Ok(cx.structure("keys", &json!({})))
    }),
    row("device check-health", "look at the health of devices: none is collected", "mgr", "rw", |_, _| Ok(Reply::default())),
    row("device monitoring off", "do not collect the health of devices, as it always is here", "mgr", "rw", |_, _| {
        Ok(Reply::default())
    }),
    row(
        "device query-daemon-health-metrics <who:String>",
        "show what a daemon's devices tell: nothing is collected",
        "mgr",
        "r",
        |cx, args| match args.str("who").split_once('.') {
            Some(("osd" | "mon", _)) => Ok(cx.structure("metrics", &json!({}))),
            _ => refuse!(EINVAL, "not a valid mon or osd daemon name"),
        },
    ),
    row("device info <devid:String>", "show a device, and which daemons are on it", "mgr", "r", device_info),
    row(
        "device get-health-metrics <devid:String> <sample:String req=false>",
        "show what a device told: nothing is collected",
        "mgr",
        "r",
        |cx, args| named_device(cx, args).map(|_| cx.structure("metrics", &json!({}))),
    ),
    row("device ls-lights", "list the devices whose lights are on: lights are not switched", "mgr", "r", |cx, _| {
        Ok(cx.structure("lights", &json!({"fault": [], "ident": []})))
    }),
    row(
        "mds count-metadata <property:String>",
        "count metadata servers by a property: there are none",
        "mds",
        "r",
        |cx, args| Ok(cx.structure(args.str("property"), &json!({}))),
    ),
    row("device ls-by-daemon <who:String>", "list the devices of a daemon", "mgr", "r", devices_of_daemon),
    row("device ls-by-host <host:String>", "list the devices of a host", "mgr", "r", devices_of_host),
];

fn dump(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let m = &cx.state.mgrmap;
    if let Some(epoch) = args.int("epoch").filter(|e| *e > i64::from(m.epoch)) {
        refuse!(ENOENT, "there is no map for epoch {epoch}");
    }
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
        "modules": modules::enabled(cx.state),
        "available_modules": offered(cx),
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
    Ok(cx.structure("stat", &value))
}

fn services(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = json!(cx.state.mgrmap.services);
    Ok(cx.structure("services", &value))
}

/// Modules whose duties are built in here.
pub(super) fn built_in(cx: &Cx<'_>) -> BTreeSet<String> {
    cx.state.mgrmap.always_on_modules.values().next_back().cloned().unwrap_or_default()
}

/// Modules that somebody may ask for, with what Ceph tells of each.
pub(super) fn offered(cx: &Cx<'_>) -> Vec<Value> {
    let built_in = built_in(cx);
    let one = |name: &str, runs: bool| json!({"name": name, "can_run": runs, "error_string": if runs { "" } else { NOT_HERE }, "module_options": {}});
    let here = built_in.iter().map(String::as_str).chain(BUILT_IN).map(|name| one(name, true));
    here.chain(ABSENT.iter().map(|name| one(name, false))).collect()
}

/// Notes that a module was switched, or that it is as it is by itself.
fn switch(cx: &mut Cx<'_>, module: &str, to: Option<bool>) {
    let value = to.map(|on| Bytes::from_static(if on { b"on" } else { b"off" }));
    cx.changes.push(Change::Key { key: format!("{SWITCHED}{module}"), value });
}

/// Switches a built-in duty on again, or notes a module that is not here, if force is wanted: nothing of it runs, and the answer says so.
fn enable(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let module = args.str("module");
    if built_in(cx).contains(module) {
        return Ok(Reply::status(format!("module '{module}' is already enabled (always-on)")));
    }
    if modules::enabled(cx.state).contains(module) {
        return Ok(Reply::status(format!("module '{module}' is already enabled")));
    }
    if BUILT_IN.contains(&module) {
        switch(cx, module, None);
        return Ok(Reply::default());
    }
    let forced = args.opt("force").is_some();
    if ABSENT.contains(&module) && forced {
        switch(cx, module, Some(true));
        return Ok(Reply::status(format!("module '{module}' is noted as enabled and has no effect: {NOT_HERE}")));
    }
    if ABSENT.contains(&module) {
        refuse!(
            ENOENT,
            "module '{module}' reports that it cannot run on the active manager daemon: {NOT_HERE} (pass --force to force \
             enablement)"
        );
    }
    if forced {
        refuse!(ENOENT, "module '{module}' is not known, and nothing would run by force");
    }
    refuse!(ENOENT, "all mgr daemons do not support module '{module}', pass --force to force enablement");
}

fn disable(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let module = args.str("module");
    if built_in(cx).contains(module) {
        refuse!(EINVAL, "module '{module}' cannot be disabled (always-on)");
    }
    if !modules::enabled(cx.state).contains(module) {
        return Ok(Reply::status(format!("module '{module}' is already disabled")));
    }
    switch(cx, module, BUILT_IN.contains(&module).then_some(false));
    Ok(Reply::default())
}

fn module_ls(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let (enabled, always) = (modules::enabled(cx.state), built_in(cx));
    let on = |m: &Value| m["name"].as_str().is_some_and(|name| enabled.contains(name) || always.contains(name));
    let disabled: Vec<Value> = offered(cx).into_iter().filter(|m| !on(m)).collect();
    let value = json!({"always_on_modules": always, "enabled_modules": enabled, "disabled_modules": disabled});
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

/// Returns what the managers say about themselves, the active one first.
pub(super) fn all_metadata(cx: &Cx<'_>) -> Vec<BTreeMap<String, String>> {
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
        // It has no disk of its own.
        told.retain(|k, v| !v.is_empty() && !k.starts_with("device"));
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
            None => refuse!(ENOENT, "mgr.{who} does not exist"),
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
    Ok(cx.structure(args.str("property"), &json!(counts)))
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

/// A service's line in `status`: how many daemons it has, and on how many hosts and in how many zones, as far as they say
/// that. The words are Ceph's, which knows no single host.
fn service_line<'a>(kind: &str, daemons: impl Iterator<Item = &'a BTreeMap<String, String>>) -> String {
    let (mut count, mut called) = (0, "daemon");
    let mut groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for metadata in daemons {
        count += 1;
        called = metadata.get("daemon_type").map_or(called, String::as_str);
        for (group, key) in [("hosts", "hostname"), ("zones", "zone_id")] {
            groups.entry(group).or_default().extend(metadata.get(key).map(String::as_str));
        }
    }
    let plural = if count == 1 { "" } else { "s" };
    groups.retain(|_, members| !members.is_empty());
    let groups: Vec<String> = groups.iter().map(|(group, members)| format!("{} {group}", members.len())).collect();
    let groups = if groups.is_empty() { String::new() } else { format!(" ({})", groups.join(", ")) };
    let (kind, called) = (one_line(kind), one_line(called));
    format!("    {kind}: {count} {called}{plural} active{groups}\n")
}

/// The lines of `status` for services.
pub(super) fn service_lines(cx: &Cx<'_>) -> String {
    let mut services: BTreeMap<&str, Vec<&BTreeMap<String, String>>> = BTreeMap::new();
    for ((kind, _), service) in &cx.soft.services {
        services.entry(kind).or_default().push(&service.metadata);
    }
    services.into_iter().map(|(kind, daemons)| service_line(kind, daemons.into_iter())).collect()
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
    Ok(cx.structure(args.opt("type").filter(|t| *t != "all").unwrap_or("nodes"), &value))
}

/// The map of file systems: there are none. What it can hold is Ceph's own list of features.
pub(super) fn fsmap() -> Value {
    const FEATURES: [(&str, &str); 9] = [
        ("feature_1", "base v0.20"),
        ("feature_2", "client writeable ranges"),
        ("feature_3", "default file layouts on dirs"),
        ("feature_4", "dir inode in separate object"),
        ("feature_5", "mds uses versioned encoding"),
        ("feature_6", "dirfrag is stored in omap"),
        ("feature_8", "no anchor table"),
        ("feature_9", "file layout v2"),
        ("feature_10", "snaprealm v2"),
    ];
    let incompat: Map<String, Value> = FEATURES.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
    json!({
        "epoch": 1, "default_fscid": -1, "compat": {"compat": {}, "ro_compat": {}, "incompat": incompat},
        "feature_flags": {"enable_multiple": true, "ever_enabled_multiple": true}, "standbys": [], "filesystems": [],
    })
}

fn fs_dump(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    if args.int("epoch").is_some_and(|e| e > 1) {
        refuse!(ENOENT, "there is no map of file systems of that epoch");
    }
    Ok(cx.show("fsmap", fsmap(), || "e1\n\nNo filesystems configured\n".into()).with_status("dumped fsmap epoch 1"))
}

/// Shows that there are no file systems; one that somebody names is not there.
fn fs_status(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    match args.opt("fs") {
        Some(name) => refuse!(EINVAL, "Invalid filesystem: {name}"),
        None => Ok(cx.show("fs_status", json!({}), String::new)),
    }
}
fn mds_stat(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = json!({"fsmap": fsmap(), "mdsmap_first_committed": 1, "mdsmap_last_committed": 1});
    Ok(cx.show("mds_stat", value, String::new))
}

/// Returns what Ceph's module shows that reports nothing.
fn telemetry_status() -> Value {
    json!({
        "channel_basic": true, "channel_crash": true, "channel_device": true, "channel_ident": false, "contact": null,
        "description": null, "device_url": "", "enabled": false, "interval": 24, "last_opt_revision": 1, "last_upload": null,
        "leaderboard": false, "log_level": "", "log_to_cluster": false, "log_to_cluster_level": "info", "log_to_file": false,
        "organization": null, "proxy": null, "url": "",
    })
}

/// A device of an OSD's host. Its name for good is that of its maker and its number, where the host tells it.
struct Device {
    id: String,
    host: String,
    name: String,
    path: String,
    osd: i32,
}

impl Device {
    fn json(&self) -> Value {
        json!({
            "devid": self.id, "location": [{"host": self.host, "dev": self.name, "path": self.path}],
            "daemons": [format!("osd.{}", self.osd)],
        })
    }
}

/// The value of a device in a list as `sda=X,sdb=Y`.
fn of_device<'a>(list: Option<&'a String>, device: &str) -> Option<&'a str> {
    list?.split(',').find_map(|one| one.split_once('=').filter(|(name, _)| *name == device)).map(|(_, value)| value)
}

/// Gives the devices that OSDs told of. Where the host tells no maker and number, the name is its path or its name there.
fn all_devices(cx: &Cx<'_>) -> Vec<Device> {
    let mut all = Vec::new();
    for (osd, told) in cx.state.osd_metadata.iter() {
        let host = told.get("hostname").cloned().unwrap_or_default();
        let names = told.get("devices").or(told.get("path")).map_or("", String::as_str);
        for name in names.split(',').filter(|n| !n.is_empty()) {
            let id = of_device(told.get("device_ids"), name).unwrap_or(name).to_owned();
            let path = of_device(told.get("device_paths"), name).unwrap_or_default().to_owned();
            all.push(Device { id, host: host.clone(), name: name.to_owned(), path, osd: *osd });
        }
    }
    all
}

/// The device that the command names: by each daemon on it one row.
fn named_device(cx: &Cx<'_>, args: &Args) -> Result<Vec<Device>, Refusal> {
    let id = args.str("devid");
    let mut rows = all_devices(cx);
    rows.retain(|d| d.id == id);
    if rows.is_empty() {
        refuse!(ENOENT, "device {id} not found");
    }
    Ok(rows)
}

fn device_info(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let rows = named_device(cx, args)?;
    let mut value = rows[0].json();
    value["daemons"] = rows.iter().map(|d| format!("osd.{}", d.osd)).collect();
    Ok(cx.show("device", value, || {
        let daemons: Vec<String> = rows.iter().map(|d| format!("osd.{}", d.osd)).collect();
        format!("device {}\nattachment {}:{}\ndaemons {}\n", rows[0].id, rows[0].host, rows[0].name, daemons.join(" "))
    }))
}

fn devices_of_daemon(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let who = args.str("who");
    if !who.contains('.') {
        refuse!(EINVAL, "{who} is not a valid daemon name");
    }
    let osd = who.strip_prefix("osd.").and_then(|n| n.parse::<i32>().ok());
    let monitor = who.strip_prefix("mon.").is_some_and(|name| super::mon::hosts(cx).iter().any(|(_, n)| n == name));
    if !monitor && osd.is_none_or(|osd| !cx.state.osd_metadata.contains_key(&osd)) {
        refuse!(ENOENT, "daemon {who} not found");
    }
    let mut rows = all_devices(cx);
    rows.retain(|d| Some(d.osd) == osd);
    Ok(cx.show("devices", rows.iter().map(Device::json).collect(), || {
        let mut t = grammar::Table::simple(&["DEVICE", "HOST:DEV", "EXPECTED FAILURE"]);
        rows.iter().for_each(|d| t.row(vec![d.id.clone(), format!("{}:{}", d.host, d.name), String::new()]));
        t.render()
    }))
}

fn devices_of_host(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let mut rows = all_devices(cx);
    rows.retain(|d| d.host == args.str("host"));
    Ok(cx.show("devices", rows.iter().map(Device::json).collect(), || {
        let mut t = grammar::Table::simple(&["DEVICE", "DEV", "DAEMONS", "EXPECTED FAILURE"]);
        rows.iter().for_each(|d| t.row(vec![d.id.clone(), d.name.clone(), format!("osd.{}", d.osd), String::new()]));
        t.render()
    }))
}

fn devices(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let rows = all_devices(cx);
    Ok(cx.show("devices", rows.iter().map(Device::json).collect(), || {
        let mut t = grammar::Table::simple(&["DEVICE", "HOST:DEV", "DAEMONS", "WEAR", "LIFE EXPECTANCY"]);
        rows.iter().for_each(|d| {
            t.row(vec![d.id.clone(), format!("{}:{}", d.host, d.name), format!("osd.{}", d.osd), String::new(), String::new()])
        });
        t.render()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a real 16.2.15 says of its gateways.
    #[test]
    fn a_service_is_told_with_its_hosts_and_zones() {
        let of = |told: &[(&str, &str)]| -> BTreeMap<String, String> {
            told.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        let one = of(&[("hostname", "a"), ("zone_id", "1")]);
        let other = of(&[("hostname", "b"), ("zone_id", "1")]);
        let portal = of(&[("daemon_type", "portal"), ("hostname", "a")]);
        let line = |kind: &str, daemons: &[&BTreeMap<String, String>]| service_line(kind, daemons.iter().copied());
        assert_eq!(line("rgw", &[&one]), "    rgw: 1 daemon active (1 hosts, 1 zones)\n");
        assert_eq!(line("rgw", &[&one, &other]), "    rgw: 2 daemons active (2 hosts, 1 zones)\n");
        assert_eq!(line("iscsi", &[&portal, &portal]), "    iscsi: 2 portals active (1 hosts)\n");
        assert_eq!(line("x", &[&BTreeMap::new()]), "    x: 1 daemon active\n");
    }
}
