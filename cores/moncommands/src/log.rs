//! Commands on the cluster log.

use super::{Cx, Row, row};
use grammar::{Args, Outcome, Reply};
use messages::EntityNum;
use messages::mon::{LogEntry, log_level};
use serde_json::json;
use std::sync::Arc;

pub(super) const ROWS: &[Row] = &[
    row("log <logtext:String n=N>", "write to the cluster log", "mon", "rw", write),
    row(
        "log last <num:Int range=1 req=false> <level:Choices req=false strings=debug|info|sec|warn|error> <channel:Choices req=false strings=*|cluster|audit|cephadm>",
        "show the last lines of the cluster log",
        "mon",
        "r",
        last,
    ),
];

pub(super) fn level_name(level: u16) -> &'static str {
    match level {
        log_level::DEBUG => "DBG",
        log_level::SECURITY => "SEC",
        log_level::WARN => "WRN",
        log_level::ERROR => "ERR",
        _ => "INF",
    }
}

fn write(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let message = args.list("logtext").join(" ");
    cx.entries.push(LogEntry {
        name: cx.asker.name.clone(),
        rank: EntityNum { kind: cx.asker.name.kind as u8, num: -1 },
        addrs: types::EntityAddrVec(vec![cx.asker.addr]),
        stamp: cx.now.wall,
        seq: 0,
        level: log_level::INFO,
        message,
        channel: "cluster".into(),
    });
    Ok(Reply::default())
}

/// The author of a line: `mon.0`, `client.4123`, `client.?` without a number.
fn rank(entry: &LogEntry) -> String {
    let kind = types::EntityType::from_wire(entry.rank.kind.into()).map_or("unknown", types::EntityType::name);
    if entry.rank.num < 0 { format!("{kind}.?") } else { format!("{kind}.{}", entry.rank.num) }
}

fn line(e: &LogEntry) -> String {
    format!("{} {} ({}) {} : {} [{}] {}\n", e.stamp.iso(), e.name, rank(e), e.seq, e.channel, level_name(e.level), e.message)
}

fn last(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let n = args.int("num").unwrap_or(20).max(1) as usize;
    let least = match args.str("level") {
        "debug" => log_level::DEBUG,
        "sec" => log_level::SECURITY,
        "warn" => log_level::WARN,
        "error" => log_level::ERROR,
        _ => log_level::INFO,
    };
    let channel = args.opt("channel").unwrap_or("cluster");
    let fits = |e: &&Arc<LogEntry>| e.level >= least && (channel == "*" || e.channel == channel);
    let mut lines: Vec<&Arc<LogEntry>> = cx.state.log.iter().rev().filter(fits).take(n).collect();
    lines.reverse();
    let value = lines
        .iter()
        .map(|e| {
            json!({
                "name": e.name.to_string(), "rank": rank(e), "addrs": super::shared::addrs(&e.addrs), "stamp": e.stamp.iso(), "seq": e.seq,
                "channel": e.channel, "priority": format!("[{}]", level_name(e.level)), "message": e.message,
            })
        })
        .collect();
    Ok(cx.show("tail", value, || lines.iter().map(|e| line(e)).collect()))
}
