//! Commands that show the cluster at a glance.

use super::{Ask, Cx, Row, health, row};
use grammar::Args;
use grammar::units::{bytes, si, span};
use grammar::{Outcome, Reply, refuse};
use manager::progress;
use manager::recovery;
use manager::soft::Rates;
use monstate::context::{RELEASE, VERSION, version_line};
use monstate::state::Change;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::PgState;

pub(super) const ROWS: &[Row] = &[
    row("status", "show the state of the cluster", "mon", "r", status),
    row("fsid", "show the cluster's id", "mon", "r", fsid),
    row("version", "show the version of the monitor", "mon", "r", cluster_version),
    row("versions", "show the versions of all daemons", "mon", "r", versions),
    row("features", "show the features of what is connected", "mon", "r", features),
    row("progress", "show what is in progress", "mgr", "r", progress),
    row("progress json", "show what is in progress, as a structure", "mgr", "r", progress_json),
    row("progress clear", "forget what was in progress", "mgr", "rw", forget_progress),
    row("progress on", "follow what is in progress", "mgr", "rw", |cx, _| follow_progress(cx, true)),
    row("progress off", "do not follow what is in progress", "mgr", "rw", |cx, _| follow_progress(cx, false)),
    row("iostat <width:Int req=false> <print_header:Bool req=false>", "show what clients read and write", "mgr", "r", iostat),
];

fn status(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = dump(cx);
    Ok(cx.show("status", value, || text(cx)))
}

/// The status for `status -f json`.
pub(super) fn dump(cx: &Cx<'_>) -> Value {
    let state = cx.state;
    let map = &state.osdmap;
    let checks = health::current(cx);
    let (exist, up, inside) = map.osd_counts();
    json!({
        "fsid": state.fsid.to_string(),
        "health": manager::health::dump(state, &checks, false),
        "election_epoch": cx.env.standing.election_epoch(),
        "quorum": super::mon::quorum_ranks(cx),
        "quorum_names": cx.env.standing.quorum,
        "quorum_age": super::mon::quorum_age(cx),
        "monmap": {"epoch": state.monmap.epoch, "min_mon_release_name": RELEASE, "num_mons": state.monmap.mon_info.len()},
        "osdmap": {
            "epoch": map.epoch,
            "num_osds": exist,
            "num_up_osds": up,
            "osd_up_since": map.last_up_change.sec,
            "num_in_osds": inside,
            "osd_in_since": map.last_in_change.sec,
            "num_remapped_pgs": super::osd::remapped(cx),
        },
        "pgmap": pgmap(cx),
        "fsmap": {"epoch": 1, "by_rank": [], "up:standby": 0},
        "mgrmap": {
            "available": state.mgrmap.available,
            "num_standbys": state.mgrmap.standbys.len(),
            "modules": state.mgrmap.modules,
            "services": state.mgrmap.services,
        },
        "servicemap": super::mgr::service_map(cx),
        "progress_events": cx.duties.progress.of_status(cx.now.wall),
    })
}

fn pgmap(cx: &Cx<'_>) -> Value {
    let sum = cx.soft.total();
    let space = cx.soft.total_space(cx.state);
    let states = cx.soft.pg_states(cx.state);
    let by_state: Vec<Value> = states.iter().map(|(s, n)| json!({"state_name": s.to_string(), "count": n})).collect();
    let pgs: u64 = states.iter().map(|(_, n)| n).sum();
    let mut map = Map::new();
    map.insert("pgs_by_state".into(), by_state.into());
    map.insert("num_pgs".into(), pgs.into());
    map.insert("num_pools".into(), cx.state.osdmap.pools.len().into());
    map.insert("num_objects".into(), sum.num_objects.into());
    map.insert("data_bytes".into(), sum.num_bytes.into());
    map.insert("bytes_used".into(), space.total.saturating_sub(space.available).into());
    map.insert("bytes_avail".into(), space.available.into());
    map.insert("bytes_total".into(), space.total.into());
    let (unknown, inactive) = troubled(&states);
    for (name, n) in [("unknown_pgs_ratio", unknown), ("inactive_pgs_ratio", inactive)] {
        if n > 0 {
            map.insert(name.into(), (n as f64 / pgs as f64).into());
        }
    }
    recovery::dump_parts(&sum, &mut map);
    cx.soft.pace(None).dump(&mut map);
    let rates = cx.soft.rates(None);
    for (name, n) in [
        ("read_bytes_sec", rates.read_bytes),
        ("write_bytes_sec", rates.write_bytes),
        ("read_op_per_sec", rates.read_ops),
        ("write_op_per_sec", rates.write_ops),
    ] {
        if !rates.is_zero() && (n > 0 || name.ends_with("per_sec")) {
            map.insert(name.into(), n.into());
        }
    }
    Value::Object(map)
}

/// Number of placement groups that are unknown, and number of those that are known and not active.
fn troubled(states: &[(PgState, u64)]) -> (u64, u64) {
    let count = |which: &dyn Fn(PgState) -> bool| states.iter().filter(|(s, _)| which(*s)).map(|(_, n)| n).sum();
    (count(&|s| s.is_unknown()), count(&|s| !s.is_unknown() && !s.has(PgState::ACTIVE)))
}

fn text(cx: &Cx<'_>) -> String {
    let state = cx.state;
    let mut out = format!("  cluster:\n    id:     {}\n", state.fsid);
    out.push_str(&health::status_lines(cx, "    health: "));
    out.push_str(" \n  services:\n");
    let age = span(super::mon::quorum_age(cx));
    out.push_str(&format!("    mon: {}\n", super::mon::line(cx, &age)));
    out.push_str(&format!("    mgr: {}\n", super::mgr::line(cx)));
    out.push_str(&format!("    osd: {}\n", super::osd::osd_line(cx, "")));
    out.push_str(&super::mgr::service_lines(cx));
    out.push_str(" \n  data:\n");
    out.push_str(&data_lines(cx));
    out.push_str(&io_lines(cx));
    if !cx.duties.progress.is_quiet() {
        out.push_str(&format!(" \n  progress:\n{}", cx.duties.progress.lines(cx.now.wall)));
    }
    out.push_str(" \n");
    out
}

/// Returns what clients and recovery do, if they do anything.
fn io_lines(cx: &Cx<'_>) -> String {
    let (rates, pace) = (cx.soft.rates(None), cx.soft.pace(None));
    let mut lines = String::new();
    if !rates.is_zero() {
        lines.push_str(&format!("    client:   {}\n", rate_line(&rates)));
    }
    if !pace.is_zero() {
        lines.push_str(&format!("    recovery: {}\n", pace.text()));
    }
    if lines.is_empty() { lines } else { format!(" \n  io:\n{lines}") }
}

fn data_lines(cx: &Cx<'_>) -> String {
    let sum = cx.soft.total();
    let space = cx.soft.total_space(cx.state);
    let states = cx.soft.pg_states(cx.state);
    let pgs: u64 = states.iter().map(|(_, n)| n).sum();
    let mut out = format!("    pools:   {} pools, {pgs} pgs\n", cx.state.osdmap.pools.len());
    let (objects, data) = (sum.num_objects.max(0) as u64, sum.num_bytes.max(0) as u64);
    out.push_str(&format!("    objects: {} objects, {}\n", si(objects), bytes(data)));
    let used = space.total.saturating_sub(space.available);
    out.push_str(&format!("    usage:   {} used, {} / {} avail\n", bytes(used), bytes(space.available), bytes(space.total)));
    out.push_str("    pgs:     ");
    let pad = " ".repeat(13);
    let (unknown, inactive) = troubled(&states);
    for (n, what) in [(unknown, "pgs unknown"), (inactive, "pgs not active")] {
        if n > 0 {
            out.push_str(&format!("{:.3}% {what}\n{pad}", n as f64 * 100.0 / pgs as f64));
        }
    }
    for part in recovery::parts(&sum) {
        out.push_str(&format!("{}\n{pad}", part.text()));
    }
    let width = states.iter().map(|(_, n)| n.to_string().len()).max().unwrap_or(1);
    let lines: Vec<String> = states.iter().map(|(s, n)| format!("{n:<width$} {s}\n")).collect();
    out.push_str(&lines.join(&pad));
    if states.is_empty() {
        out.push('\n');
    }
    out
}

/// The line of rates: `1.6 MiB/s wr, 0 op/s rd, 400 op/s wr`
pub(super) fn rate_line(rates: &Rates) -> String {
    let mut parts = Vec::new();
    if rates.read_bytes > 0 {
        parts.push(format!("{}/s rd", bytes(rates.read_bytes)));
    }
    if rates.write_bytes > 0 {
        parts.push(format!("{}/s wr", bytes(rates.write_bytes)));
    }
    parts.push(format!("{} op/s rd", si(rates.read_ops)));
    parts.push(format!("{} op/s wr", si(rates.write_ops)));
    parts.join(", ")
}

fn fsid(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let fsid = cx.state.fsid.to_string();
    Ok(cx.show("fsid", json!({"fsid": fsid}), || format!("{fsid}\n")))
}

/// Shows the version of the cluster's monitors, as one line for people and as one text for programs.
fn cluster_version(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let line = version_line(&cx.env.config.metadata());
    Ok(cx.show("version", json!({"version": line}), || line.clone()))
}

/// Shows the version of this daemon, as its own socket and `tell` do.
pub(super) fn version(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = json!({"version": VERSION, "release": RELEASE, "release_type": "stable"});
    Ok(cx.structure("version", &value))
}

fn versions(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let own = super::mon::versions(cx);
    let mut osds: BTreeMap<String, u64> = BTreeMap::new();
    for osd in cx.state.osdmap.osds().filter(|o| cx.state.osdmap.is_up(*o)) {
        *osds.entry(super::osd::version(cx, osd)).or_default() += 1;
    }
    let mut overall = osds.clone();
    // Each monitor is a manager, too.
    own.iter().for_each(|(version, n)| *overall.entry(version.clone()).or_default() += 2 * n);
    let value = json!({"mon": own, "mgr": own, "osd": osds, "mds": {}, "overall": overall});
    Ok(cx.structure("version", &value))
}

fn features(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = super::mon::feature_map(cx);
    Ok(cx.structure("features", &value))
}

fn progress(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    Ok(match cx.duties.progress.is_idle() {
        true => Reply::status("Nothing in progress"),
        false => Reply::data(cx.duties.progress.text(cx.now.wall)),
    })
}

fn progress_json(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = cx.duties.progress.to_json(cx.now.wall);
    Ok(cx.structure("progress", &value))
}

fn forget_progress(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    cx.asks.push(Ask::ForgetProgress);
    Ok(Reply::default())
}

fn follow_progress(cx: &mut Cx<'_>, on: bool) -> Outcome {
    let (is_on, word) = (progress::is_followed(cx.state), if on { "enabled" } else { "disabled" });
    if is_on == on {
        return Ok(Reply::status(format!("progress already {word}!")));
    }
    let set = vec![("mgr".into(), progress::FOLLOWED.into(), Some(on.to_string()))];
    cx.changes.push(Change::Config { by: cx.asker.name.to_string(), set });
    Ok(Reply::status(format!("progress {word}")))
}

fn iostat(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    if !monstate::modules::enabled(cx.state).contains("iostat") {
        refuse!(
            EOPNOTSUPP,
            "Module 'iostat' is not enabled/loaded (required by command 'iostat'): use `ceph mgr module enable iostat` to enable it"
        );
    }
    let rates = cx.soft.rates(None);
    let width = args.int("width").unwrap_or(80).clamp(20, 1000) as usize;
    let value = json!({
        "rd": rates.read_bytes, "wr": rates.write_bytes, "total": rates.read_bytes + rates.write_bytes,
        "rd_ops": rates.read_ops, "wr_ops": rates.write_ops, "total_ops": rates.read_ops + rates.write_ops,
    });
    let cells = [
        format!("{}/s", bytes(rates.read_bytes)),
        format!("{}/s", bytes(rates.write_bytes)),
        format!("{}/s", bytes(rates.read_bytes + rates.write_bytes)),
        rates.read_ops.to_string(),
        rates.write_ops.to_string(),
        (rates.read_ops + rates.write_ops).to_string(),
    ];
    let column = (width.saturating_sub(7) / 6).max(10);
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|c| format!("{c:>column$}")).collect();
        format!("|{}|\n", cells.join("|"))
    };
    let mut text = String::new();
    if args.flag("print_header") {
        let rule = format!("+{}+\n", vec!["-".repeat(column); 6].join("+"));
        let heads = ["Read", "Write", "Total", "Read IOPS", "Write IOPS", "Total IOPS"].map(String::from);
        text = format!("{rule}{}{rule}", line(&heads));
    }
    text.push_str(&line(&cells));
    Ok(cx.show("iostat", value, || text))
}
