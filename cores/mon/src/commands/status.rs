//! Commands that show the cluster at a glance.

use super::{Ask, Cx, Row, health, row};
use crate::answer::{Outcome, Reply};
use crate::context::{RELEASE, VERSION};
use crate::manager::progress;
use crate::recovery;
use crate::soft::Rates;
use crate::state::Change;
use crate::text::units::{bytes, si, span};
use grammar::Args;
use maps::{flags, state as bits};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::{EntityType, PgState, features};

pub(super) const ROWS: &[Row] = &[
    row("status", "show the state of the cluster", "mon", "r", status),
    row("fsid", "show the cluster's id", "mon", "r", fsid),
    row("version", "show the version of the monitor", "mon", "r", version),
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

/// Seconds for which there has been a quorum.
pub(super) fn quorum_age(cx: &Cx<'_>) -> u64 {
    cx.now.mono.since(cx.env.standing.since.mono).as_secs()
}

/// The status for `status -f json`.
pub(super) fn dump(cx: &Cx<'_>) -> Value {
    let state = cx.state;
    let map = &state.osdmap;
    let checks = health::current(cx);
    let (exist, up, inside) = map.osd_counts();
    json!({
        "fsid": state.fsid.to_string(),
        "health": crate::health::dump(state, &checks, false),
        "election_epoch": cx.env.standing.election_epoch(),
        "quorum": super::mon::quorum_ranks(cx),
        "quorum_names": cx.env.standing.quorum,
        "quorum_age": quorum_age(cx),
        "monmap": {"epoch": state.monmap.epoch, "min_mon_release_name": RELEASE, "num_mons": state.monmap.mon_info.len()},
        "osdmap": {
            "epoch": map.epoch,
            "num_osds": exist,
            "num_up_osds": up,
            "osd_up_since": map.last_up_change.sec,
            "num_in_osds": inside,
            "osd_in_since": map.last_in_change.sec,
            "num_remapped_pgs": remapped(cx),
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
        "progress_events": cx.soft.progress.of_status(cx.now.wall),
    })
}

/// Number of placement groups whose acting set is not where they belong.
pub(super) fn remapped(cx: &Cx<'_>) -> usize {
    cx.state.osdmap.pg_temp.len()
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
    let age = span(quorum_age(cx));
    out.push_str(&format!("    mon: {}\n", super::mon::line(cx, &age)));
    out.push_str(&format!("    mgr: {}\n", super::mgr::line(cx)));
    out.push_str(&format!("    osd: {}\n", osd_line(cx, "")));
    out.push_str(&super::mgr::service_lines(cx));
    out.push_str(" \n  data:\n");
    out.push_str(&data_lines(cx));
    out.push_str(&io_lines(cx));
    if !cx.soft.progress.is_quiet() {
        out.push_str(&format!(" \n  progress:\n{}", cx.soft.progress.lines(cx.now.wall)));
    }
    out.push_str(" \n");
    out
}

/// What clients and recovery do, if they do anything.
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

/// The line of OSDs, with what may follow: `3 osds: 3 up (since 6m), 3 in (since 6m)`
pub(super) fn osd_line(cx: &Cx<'_>, epoch: &str) -> String {
    let map = &cx.state.osdmap;
    let (exist, up, inside) = map.osd_counts();
    let since = |t: types::UTime| {
        let secs = cx.now.wall.sec.saturating_sub(t.sec);
        if t.is_zero() { String::new() } else { format!(" (since {})", span(secs.into())) }
    };
    let (up_since, in_since) = (since(map.last_up_change), since(map.last_in_change));
    let mut line = format!("{exist} osds: {up} up{up_since}, {inside} in{in_since}{epoch}");
    let remapped = remapped(cx);
    if remapped > 0 {
        line.push_str(&format!("; {remapped} remapped pgs"));
    }
    // Flags that every map of this release has are not worth a line.
    const SILENT: u32 = flags::SORTBITWISE | flags::RECOVERY_DELETES | flags::PURGED_SNAPDIRS | flags::PGLOG_HARDLIMIT;
    let full = map.osds().any(|o| map.state(o) & bits::FULL != 0);
    let shown = map.flags & !SILENT | if full { flags::FULL } else { 0 };
    if shown != 0 {
        let names: Vec<&str> = flags::NAMES.iter().filter(|(bit, _)| shown & bit != 0).map(|(_, name)| *name).collect();
        line.push_str(&format!("\n         flags {}", names.join(",")));
    }
    line
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

/// Shows the version of this daemon.
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
    let monitors = super::mon::hosts(cx).len() as u64;
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

fn features(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = feature_map(cx);
    Ok(cx.structure("features", &value))
}

fn progress(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    Ok(Reply::data(cx.soft.progress.text(cx.now.wall)))
}

fn progress_json(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = cx.soft.progress.to_json(cx.now.wall);
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
