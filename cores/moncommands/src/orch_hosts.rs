//! What people ask of Ceph's orchestrator about a host that shall rest, or go. Words are those of release 16.2.
//!
//! *Maintenance*: OSDs of the host stay in while they are down (`noout` for its bucket), and the host is remembered under `config-key`
//! `nacre/maintenance/HOST`. Nothing is stopped from here: the answer says how that is done at the host.
//!
//! *Drain*: all OSDs of the host are to be removed, as by `orch osd rm`.

use super::hosts::existing;
use super::marks::{self, rests};
use super::osd_spare::why_not_stop;
use super::{Cx, Row, row};
use grammar::{Args, Outcome, Reply, refuse};
use maps::state as bits;
use monstate::hosts::{self, Host};
use monstate::state::Change;

pub(super) const ROWS: &[Row] = &[
    row(
        "orch host drain <hostname:String> <force:Bool req=false>",
        "let all OSDs of a host give their data to others",
        "mgr",
        "rw",
        drain,
    ),
    row(
        "orch host maintenance enter <hostname:String> <force:Bool req=false>",
        "keep the OSDs of a host in while it is stopped",
        "mgr",
        "rw",
        enter,
    ),
    row("orch host maintenance exit <hostname:String>", "end what 'orch host maintenance enter' began", "mgr", "rw", exit),
    row(
        "orch host ok-to-stop <hostname:String>",
        "check whether a host can stop without harm to availability",
        "mgr",
        "rw",
        ok_to_stop,
    ),
];

/// Reason for which a host may not stop now: groups would serve nobody, or no majority of the monitors would be left.
fn why_not(cx: &Cx<'_>, host: &Host) -> Option<String> {
    let names: Vec<&str> = host.mons.iter().map(String::as_str).collect();
    let majority = !names.is_empty() && cx.env.standing.without(&names, false).is_err();
    let groups = why_not_stop(cx, &host.osds);
    let monitors = majority.then(|| format!("not enough monitors would be available after stopping mons [{}]", names.join(",")));
    let all: Vec<String> = groups.into_iter().chain(monitors).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

fn ok_to_stop(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("hostname");
    match why_not(cx, &existing(cx, name)?) {
        Some(why) => refuse!(EBUSY, "{why}"),
        None => Ok(Reply::data(format!("It is presumed safe to stop host {name}\n"))),
    }
}

/// Sets or clears `noout` for the bucket of a host.
fn keep_in(cx: &mut Cx<'_>, name: &str, on: bool) {
    let Some(node) = cx.state.osdmap.crush.id_of(name).filter(|id| *id < 0) else { return };
    let old = cx.state.osdmap.crush_node_flags.get(&node).copied().unwrap_or(0);
    cx.inc().new_crush_node_flags.insert(node, if on { old | bits::NOOUT } else { old & !bits::NOOUT });
}

fn enter(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("hostname").to_owned();
    let host = existing(cx, &name)?;
    if hosts::all(cx.state, &cx.env.config).len() == 1 {
        refuse!(EINVAL, "Maintenance feature is not supported on single node clusters");
    }
    if rests(cx.state, &name) {
        refuse!(EINVAL, "Host {name} is already in maintenance");
    }
    if let Some(why) = why_not(cx, &host).filter(|_| !args.flag("force")) {
        refuse!(EBUSY, "{why}\nNote: Warnings can be bypassed with the --force flag");
    }
    keep_in(cx, &name, true);
    let since = cx.now.wall.iso();
    cx.changes.push(Change::Key { key: marks::of_rest(&name), value: Some(since.into()) });
    Ok(Reply::data(format!(
        "Host {name} moved to maintenance mode\nIts OSDs stay in while they are down. Stop its process there (`systemctl stop nacre`, or reboot it); \
         `ceph orch host maintenance exit {name}` when it runs again\n"
    )))
}

fn exit(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("hostname").to_owned();
    if !rests(cx.state, &name) {
        existing(cx, &name)?;
        refuse!(EINVAL, "Host {name} is not in maintenance mode");
    }
    keep_in(cx, &name, false);
    marks::forget_rest(cx, &name);
    Ok(Reply::data(format!("Ceph cluster {} on {name} has exited maintenance mode\n", cx.state.fsid)))
}

fn drain(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("hostname");
    let host = existing(cx, name)?;
    host.osds.iter().for_each(|osd| super::orch::begin_removal(cx, *osd));
    let mut text = format!("Scheduled to remove the following daemons from host '{name}'\n{:<20} {:<15}\n", "type", "id");
    text.push_str(&format!("{0:-<20} {0:-<15}\n", ""));
    let mons = host.mons.iter().map(|mon| ("mon", mon.clone()));
    let osds = host.osds.iter().map(|osd| ("osd", osd.to_string()));
    mons.chain(osds).for_each(|(kind, id)| text.push_str(&format!("{kind:<20} {id:<15}\n")));
    Ok(Reply::data(text + "Then `nacre leave` at the host takes it out of the cluster\n"))
}
