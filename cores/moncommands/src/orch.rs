//! What people ask of Ceph's orchestrator: hosts, daemons, disks, and OSDs that shall go. Formats are those of release 16.2.
//!
//! Nothing is deployed from here: each host runs its own daemons (`nacre up`). So these commands show what the maps
//! know. `orch osd rm` takes an OSD out of service and remembers that it shall go, under `config-key`
//! `nacre/removing/N`.

use super::hosts::standing;
use super::marks::{REMOVING, of_removal};
use super::osd_spare::Need;
use super::{Cx, Row, row};
use grammar::Align::{Left, Right};
use grammar::{Args, parse_osd};
use grammar::{Outcome, Refusal, Reply, refuse};
use grammar::{Table, units};
use monstate::context::VERSION;
use monstate::hosts::{self, Host};
use monstate::state::{Change, State};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use types::OsdId;

pub(super) const ROWS: &[Row] = &[
    row("orch status <detail:Bool req=false>", "show what deploys daemons", "mgr", "r", status),
    row("orch host ls <host_pattern:String req=false>", "list the hosts", "mgr", "r", host_ls),
    row(
        "orch ps <hostname:String req=false> <service_name:String req=false> <daemon_type:String req=false> <daemon_id:String req=false> <refresh:Bool req=false>",
        "list the daemons",
        "mgr",
        "r",
        ps,
    ),
    row("orch ls <service_type:String req=false> <service_name:String req=false>", "list the services", "mgr", "r", ls),
    row(
        "orch device ls <hostname:String n=N req=false> <refresh:Bool req=false> <wide:Bool req=false>",
        "list the disks that OSDs are on",
        "mgr",
        "r",
        device_ls,
    ),
    row(
        "orch osd rm <osd_id:String n=N> <replace:Bool req=false> <force:Bool req=false> <zap:Bool req=false>",
        "let OSDs give their data to others, so that they can go",
        "mgr",
        "rw",
        osd_rm,
    ),
    row("orch osd rm stop <osd_id:String n=N>", "let OSDs stay that were to go", "mgr", "rw", osd_rm_stop),
    row("orch osd rm status", "show which OSDs shall go, and what they still hold", "mgr", "rw", osd_rm_status),
];

fn status(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = json!({"available": true, "backend": "nacre", "paused": false});
    Ok(cx.show("status", value, || "Backend: nacre\nAvailable: Yes\nPaused: No\n".into()))
}

fn all(cx: &Cx<'_>) -> BTreeMap<String, Host> {
    hosts::all(cx.state, &cx.env.config)
}

fn address(host: &Host) -> String {
    host.addrs.first().map(ToString::to_string).unwrap_or_default()
}

fn host_ls(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let wanted = args.opt("host_pattern");
    let hosts: Vec<(String, Host)> = all(cx).into_iter().filter(|(name, _)| wanted.is_none_or(|w| name.contains(w))).collect();
    // Ceph says nothing of a host that is well.
    let state = |name: &str, host: &Host| match standing(cx, host) {
        _ if super::marks::rests(cx.state, name) => "Maintenance",
        "down" => "Offline",
        _ => "",
    };
    let rows = hosts
        .iter()
        .map(|(name, host)| json!({"addr": address(host), "hostname": name, "labels": [], "status": state(name, host)}));
    let value = rows.collect();
    Ok(cx.show("hosts", value, || {
        let mut table = Table::simple(&["HOST", "ADDR", "LABELS", "STATUS"]);
        hosts
            .iter()
            .for_each(|(name, host)| table.row(vec![name.clone(), address(host), String::new(), state(name, host).into()]));
        format!("{}{} hosts in cluster\n", table.render(), hosts.len())
    }))
}

/// A daemon, as `orch ps` shows it.
struct Daemon {
    kind: &'static str,
    id: String,
    host: String,
    runs: bool,
    active: bool,
}

fn daemons(cx: &Cx<'_>) -> Vec<Daemon> {
    let heard = &cx.env.standing.heard;
    let mgr_of = |mon: &String| match cx.state.quorum.mons.get(mon) {
        Some(record) => record.mgr_name.clone(),
        None => cx.env.config.mgr_name.clone(),
    };
    let mut list = Vec::new();
    for (name, host) in all(cx) {
        for mon in &host.mons {
            let (runs, mgr) = (heard.contains(mon), mgr_of(mon));
            let active = runs && mgr == cx.state.mgrmap.active_name;
            list.push(Daemon { kind: "mgr", id: mgr, host: name.clone(), runs, active });
            list.push(Daemon { kind: "mon", id: mon.clone(), host: name.clone(), runs, active: false });
        }
        for osd in host.osds {
            let runs = cx.state.osdmap.is_up(osd);
            list.push(Daemon { kind: "osd", id: osd.to_string(), host: name.clone(), runs, active: false });
        }
    }
    list.sort_by(|a, b| (a.kind, &a.host, a.id.len(), &a.id).cmp(&(b.kind, &b.host, b.id.len(), &b.id)));
    list
}

fn ps(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let fits = |wanted: Option<&str>, is: &str| wanted.is_none_or(|w| w == is);
    let mut list = daemons(cx);
    list.retain(|d| {
        fits(args.opt("hostname"), &d.host)
            && fits(args.opt("daemon_type").or(args.opt("service_name")), d.kind)
            && fits(args.opt("daemon_id"), &d.id)
    });
    let word = |d: &Daemon| if d.runs { "running" } else { "stopped" };
    let rows = list.iter().map(|d| {
        json!({
            "daemon_type": d.kind, "daemon_id": d.id, "daemon_name": format!("{}.{}", d.kind, d.id), "hostname": d.host,
            "version": VERSION, "status": i32::from(d.runs), "status_desc": word(d), "is_active": d.active,
        })
    });
    let value = rows.collect();
    Ok(cx.show("daemons", value, || {
        if list.is_empty() {
            return "No daemons reported\n".into();
        }
        let mut table = Table::simple(&["NAME", "HOST", "STATUS", "VERSION"]);
        list.iter().for_each(|d| table.row(vec![format!("{}.{}", d.kind, d.id), d.host.clone(), word(d).into(), VERSION.into()]));
        table.render()
    }))
}

fn ls(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let wanted = args.opt("service_type").or(args.opt("service_name"));
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for daemon in daemons(cx).iter().filter(|d| wanted.is_none_or(|w| w == d.kind)) {
        let (running, size) = counts.entry(daemon.kind).or_default();
        (*running, *size) = (*running + usize::from(daemon.runs), *size + 1);
    }
    let rows = counts.iter().map(|(kind, (running, size))| {
        json!({"service_type": kind, "service_name": kind, "unmanaged": true, "status": {"running": running, "size": size}})
    });
    let value = rows.collect();
    Ok(cx.show("services", value, || {
        if counts.is_empty() {
            return "No services reported\n".into();
        }
        let mut table = Table::new(&[("NAME", Left, Left), ("RUNNING", Right, Right), ("PLACEMENT", Left, Left)]);
        counts.iter().for_each(|(kind, (running, size))| {
            table.row(vec![(*kind).to_owned(), format!("{running}/{size}"), "<unmanaged>".into()]);
        });
        table.render()
    }))
}

/// A disk that an OSD is on.
struct Disk {
    path: String,
    kind: String,
    size: u64,
    osd: OsdId,
}

impl Disk {
    fn of(cx: &Cx<'_>, osd: OsdId) -> Option<Self> {
        let told = cx.state.osd_metadata.get(&osd)?;
        let (path, class) = (told.get("backing")?.clone(), cx.state.osdmap.crush.class_of(osd));
        let kind = class.or(told.get("default_device_class").map(String::as_str)).unwrap_or("ssd").to_owned();
        Some(Self { path, kind, size: cx.soft.space(osd).total, osd })
    }

    fn reason(&self) -> String {
        format!("holds osd.{}", self.osd)
    }
}

fn device_ls(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let wanted = args.list("hostname");
    let mut hosts = all(cx);
    hosts.retain(|name, _| wanted.is_empty() || wanted.contains(name));
    let disks: Vec<(String, String, Vec<Disk>)> = hosts
        .into_iter()
        .map(|(name, host)| (name, address(&host), host.osds.iter().filter_map(|o| Disk::of(cx, *o)).collect()))
        .collect();
    let one = |d: &Disk| {
        json!({
            "path": d.path, "human_readable_type": d.kind, "available": false, "rejected_reasons": [d.reason()], "device_id": "",
            "sys_api": {"size": d.size}, "lvs": [],
        })
    };
    let rows = disks.iter().map(|(name, addr, disks)| {
        json!({"name": name, "addr": addr, "devices": disks.iter().map(one).collect::<Vec<_>>(), "labels": []})
    });
    let value = rows.collect();
    Ok(cx.show("devices", value, || {
        let left = |name| (name, Left, Left);
        let mut table = Table::new(&[
            left("HOST"),
            left("PATH"),
            left("TYPE"),
            ("SIZE", Right, Right),
            left("AVAILABLE"),
            left("REJECT REASONS"),
        ]);
        for (name, d) in disks.iter().flat_map(|(name, _, disks)| disks.iter().map(move |d| (name, d))) {
            table.row(vec![name.clone(), d.path.clone(), d.kind.clone(), units::bytes(d.size), "No".into(), d.reason()]);
        }
        table.render()
    }))
}

fn named(cx: &Cx<'_>, args: &Args) -> Result<Vec<OsdId>, Refusal> {
    let mut osds = Vec::new();
    for name in args.list("osd_id") {
        match parse_osd(name).filter(|o| cx.state.osdmap.exists(*o)) {
            Some(osd) => osds.push(osd),
            None => refuse!(EINVAL, "Unable to find OSDs: {name}"),
        }
    }
    Ok(osds)
}

/// OSDs that shall go, and since when.
fn removing(state: &State) -> BTreeMap<OsdId, String> {
    let all = state.keys.range(REMOVING.to_owned()..).take_while(|(key, _)| key.starts_with(REMOVING));
    let known =
        all.filter_map(|(key, since)| Some((key[REMOVING.len()..].parse().ok()?, String::from_utf8_lossy(since).into_owned())));
    known.filter(|(osd, _)| state.osdmap.exists(*osd)).collect()
}

fn osd_rm(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    for flag in ["replace", "zap", "force"] {
        if args.flag(flag) {
            refuse!(
                EOPNOTSUPP,
                "--{flag} is not supported: at its host, `nacre disk rm N` or `nacre disk replace N PATH` does all of it"
            );
        }
    }
    named(cx, args)?.into_iter().for_each(|osd| begin_removal(cx, osd));
    Ok(Reply::data("Scheduled OSD(s) for removal\n"))
}

/// Takes an OSD out, and remembers that it shall go.
pub(super) fn begin_removal(cx: &mut Cx<'_>, osd: OsdId) {
    if removing(cx.state).contains_key(&osd) {
        return;
    }
    let (now, out, since) = (cx.now.wall, cx.state.osdmap.weight(osd) == 0, cx.now.wall.iso());
    if !out {
        let inc = cx.inc();
        inc.new_weight.insert(osd, 0);
        inc.new_last_in_change = now;
    }
    cx.changes.push(Change::Key { key: of_removal(osd), value: Some(since.into()) });
}

fn osd_rm_stop(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let going = removing(cx.state);
    for osd in named(cx, args)? {
        if !going.contains_key(&osd) {
            refuse!(ENOENT, "osd.{osd} is not to be removed");
        }
        let now = cx.now.wall;
        let inc = cx.inc();
        inc.new_weight.insert(osd, crush::ONE);
        inc.new_last_in_change = now;
        cx.changes.push(Change::Key { key: of_removal(osd), value: None });
    }
    Ok(Reply::data("Stopped OSD(s) removal\n"))
}

fn osd_rm_status(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let counts = cx.soft.pgs_per_osd(cx.state);
    let hosts = all(cx);
    let mut rows = Vec::new();
    for (osd, since) in removing(cx.state) {
        let host = hosts.iter().find(|(_, h)| h.osds.contains(&osd)).map_or("", |(name, _)| name.as_str()).to_owned();
        let safe = Need::of(cx, &[osd]).is_ok_and(|need| need.why().is_none());
        let state = if safe { "done, waiting for purge" } else { "draining" };
        rows.push((osd, host, state, counts.get(&osd).copied().unwrap_or(0), since));
    }
    let one = |(osd, host, state, pgs, since): &(OsdId, String, &str, u64, String)| -> Value {
        json!({
            "osd_id": osd, "hostname": host, "state": state, "pg_count": pgs, "replace": false, "force": false, "zap": false,
            "drain_started_at": since,
        })
    };
    let value = rows.iter().map(one).collect();
    Ok(cx.show("osds", value, || {
        if rows.is_empty() {
            return "No OSD remove/replace operations reported\n".into();
        }
        let mut table = Table::simple(&["OSD", "HOST", "STATE", "PGS", "REPLACE", "FORCE", "ZAP", "DRAIN STARTED AT"]);
        for (osd, host, state, pgs, since) in &rows {
            let no = || "False".to_owned();
            table.row(vec![osd.to_string(), host.clone(), (*state).into(), pgs.to_string(), no(), no(), no(), since.clone()]);
        }
        table.render()
    }))
}
