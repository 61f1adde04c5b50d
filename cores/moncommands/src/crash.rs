//! Commands on reports of crashes (`ceph crash`), as `ceph-crash` and people use them.

use super::{Cx, Row, row};
use grammar::{Args, Outcome, Reply, Table, pretty, refuse};
use manager::crashes::{self, MOST_OF_ONE, Report};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use types::UTime;

pub(super) const ROWS: &[Row] = &[
    row("crash info <id:String>", "show the report of a crash", "mgr", "r", info),
    row("crash ls", "list the reports of crashes", "mgr", "r", |cx, _| list(cx, false)),
    row("crash ls-new", "list the reports that nobody archived", "mgr", "r", |cx, _| list(cx, true)),
    row("crash post", "store the report of a crash (-i FILE)", "mgr", "rw", post),
    row("crash prune <keep:Int range=0>", "remove reports that are older than so many days", "mgr", "rw", prune),
    row("crash rm <id:String>", "remove a report", "mgr", "rw", rm),
    row("crash stat", "count the reports by age", "mgr", "r", stat),
    row("crash json_report <hours:Int range=0>", "count the reports of the last hours by program", "mgr", "r", by_program),
    row("crash archive <id:String>", "say that a report was seen: it is no warning any more", "mgr", "w", archive),
    row("crash archive-all", "say that all reports were seen", "mgr", "w", archive_all),
];

/// Seconds of a day.
const DAY: u64 = 86_400;

fn info(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let id = args.str("id");
    match crashes::find(cx.state, id) {
        Some(report) => Ok(Reply::data(pretty(&sorted(report)) + "\n")),
        None => refuse!(EINVAL, "crash info: {id} not found"),
    }
}

/// A report with its keys in order, as Ceph shows them.
fn sorted(report: Report) -> Value {
    let fields: BTreeMap<String, Value> = report.fields.into_iter().collect();
    json!(fields)
}

fn list(cx: &mut Cx<'_>, new: bool) -> Outcome {
    let mut reports = crashes::all(cx.state);
    reports.retain(|r| !new || r.is_new());
    if cx.format.is_structured() {
        let all: Vec<Value> = reports.into_iter().map(sorted).collect();
        return Ok(cx.structure("crashes", &json!(all)));
    }
    if reports.is_empty() {
        return Ok(Reply::default());
    }
    let mut t = Table::simple(&["ID", "ENTITY", "NEW"]);
    for r in &reports {
        let new = if r.is_new() { " *" } else { "" };
        t.row(vec![r.id().into(), r.text_or("entity_name", "unknown").into(), new.into()]);
    }
    Ok(Reply::data(t.render()))
}

fn post(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    if cx.input.len() > MOST_OF_ONE {
        refuse!(EFBIG, "the report of a crash may have at most {MOST_OF_ONE} bytes");
    }
    let report = match Report::parse(&cx.input) {
        Ok(report) => report,
        Err(why) => refuse!(EINVAL, "{why}"),
    };
    cx.changes.extend(crashes::post(cx.state, cx.now.wall, &report));
    Ok(Reply::default())
}

/// The reports that are older than so many seconds.
fn older(cx: &Cx<'_>, reports: &[Report], secs: u64) -> Vec<String> {
    let before = u64::from(cx.now.wall.sec).saturating_sub(secs);
    let time = |r: &Report| u64::from(r.time().unwrap_or(UTime::ZERO).sec);
    reports.iter().filter(|r| time(r) <= before).map(|r| r.id().to_owned()).collect()
}

fn prune(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let days = args.int("keep").unwrap_or_default().unsigned_abs();
    let gone = older(cx, &crashes::all(cx.state), days.saturating_mul(DAY));
    cx.changes.extend(gone.iter().map(|id| Report::remove(id)));
    Ok(Reply::default())
}

fn rm(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    if let Some(report) = crashes::find(cx.state, args.str("id")) {
        cx.changes.push(Report::remove(report.id()));
    }
    Ok(Reply::default())
}

fn stat(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let reports = crashes::all(cx.state);
    let mut out = format!("{} crashes recorded\n", reports.len());
    for days in [1, 3, 7] {
        let old = older(cx, &reports, days * DAY);
        if !old.is_empty() {
            out += &format!("{} older than {days} days old:\n{}\n", old.len(), old.join("\n"));
        }
    }
    Ok(Reply::data(out))
}

/// Counts by program. Ceph gives this on the line for errors; its `insights` reads it there.
fn by_program(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let secs = args.int("hours").unwrap_or_default().unsigned_abs().saturating_mul(3_600);
    let from = u64::from(cx.now.wall.sec).saturating_sub(secs);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for r in crashes::all(cx.state).iter().filter(|r| r.time().is_some_and(|t| u64::from(t.sec) >= from)) {
        *counts.entry(r.text_or("process_name", "unknown").to_owned()).or_default() += 1;
    }
    Ok(Reply::status(json!(counts).to_string()))
}

fn archive(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let id = args.str("id");
    let Some(report) = crashes::find(cx.state, id) else { refuse!(EINVAL, "crash info: {id} not found") };
    see(cx, vec![report]);
    Ok(Reply::default())
}

fn archive_all(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let all = crashes::all(cx.state);
    see(cx, all);
    Ok(Reply::default())
}

/// Marks the reports as seen that are not yet.
fn see(cx: &mut Cx<'_>, reports: Vec<Report>) {
    for mut report in reports.into_iter().filter(Report::is_new) {
        report.archive(cx.now.wall);
        cx.changes.push(report.store());
    }
}
