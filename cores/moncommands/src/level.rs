//! Commands on the cluster's level: what it is, who holds it back, and its raise.

use super::{Cx, Row, row};
use bytes::Bytes;
use grammar::{Args, Outcome, Reply, Table, refuse};
use messages::mon::log_level;
use monstate::levels::{self, Laggard};
use monstate::state::Change;
use serde_json::{Value, json};

pub(super) const ROWS: &[Row] = &[
    row("nacre level", "show the cluster's level, and which levels the daemons' programs run", "mon", "r", show),
    row(
        "nacre level raise <yes_i_really_mean_it:Bool req=false>",
        "raise the cluster's level by one, after which older programs are refused",
        "mon",
        "rw",
        raise,
    ),
    row("nacre level hold", "do not raise the cluster's level by itself", "mon", "rw", hold),
    row("nacre level release", "let the cluster's level be raised by itself again", "mon", "rw", release),
];

fn names(laggards: &[Laggard]) -> String {
    let one = |lag: &Laggard| format!("{}{} runs {}", lag.name, if lag.down { " (down)" } else { "" }, lag.levels);
    laggards.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Returns what comes next, in a sentence.
fn outlook(cx: &Cx<'_>) -> String {
    let (state, config) = (cx.state, &cx.env.config);
    let Some(next) = levels::next(state, config) else {
        return format!("it is the newest that this monitor's program runs ({})", config.levels);
    };
    let laggards = levels::laggards(state, config, next);
    if !laggards.is_empty() {
        return format!("level {next} waits for newer programs: {}", names(&laggards));
    }
    let since = cx.soft.level.ready().map(|(_, since)| cx.now.mono.since(since));
    match (levels::is_held(state), levels::wait(state, cx.env), since) {
        (true, ..) => format!("all programs run level {next}; it is held back: 'ceph nacre level release' ends that"),
        (false, Some(wait), Some(since)) => {
            format!("all programs run level {next}; it is raised by itself in {} s", wait.saturating_sub(since).as_secs())
        }
        _ => format!("all programs run level {next}; 'ceph nacre level raise' raises it"),
    }
}

fn show(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let state = cx.state;
    let monitors = levels::of_monitors(state, &cx.env.config).into_iter().map(|(name, levels)| (format!("mon.{name}"), levels));
    let osds = state.osdmap.osds().filter_map(|osd| Some((format!("osd.{osd}"), levels::of_osd(state, osd)?)));
    let all: Vec<(String, types::Levels)> = monitors.chain(osds).collect();
    let (level, outlook) = (state.osdmap.level, outlook(cx));
    let daemons: Value = all.iter().map(|(name, levels)| (name.clone(), json!(levels.to_string()))).collect();
    let value = json!({"level": level.0, "held": levels::is_held(state), "next": outlook, "daemons": daemons});
    Ok(cx.show("level", value, || {
        let mut table = Table::simple(&["DAEMON", "LEVELS"]);
        all.iter().for_each(|(name, levels)| table.row(vec![name.clone(), levels.to_string()]));
        format!("level {level}\n{outlook}\n{}", table.render())
    }))
}

fn raise(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let config = &cx.env.config;
    let Some(next) = levels::next(cx.state, config) else {
        return Ok(Reply::status(format!(
            "the cluster's level is {}, the newest that this monitor's program runs",
            cx.state.osdmap.level
        )));
    };
    let laggards = levels::laggards(cx.state, config, next);
    let (down, others): (Vec<_>, Vec<_>) = laggards.into_iter().partition(|lag| lag.down);
    if !others.is_empty() {
        refuse!(EBUSY, "level {next} needs newer programs first: {}", names(&others));
    }
    if !down.is_empty() && !args.flag("yes_i_really_mean_it") {
        refuse!(
            EPERM,
            "OSDs that are down had older programs, and boot only with newer ones after this: {}; with --yes-i-really-mean-it it is done",
            names(&down)
        );
    }
    cx.inc().new_level = Some(next);
    cx.log.push((log_level::INFO, raised(next)));
    Ok(Reply::status(format!("the cluster's level is {next} now")))
}

/// The line of the cluster's log.
pub fn raised(level: types::level::Level) -> String {
    format!("the cluster's level is {level} now: programs that cannot run it are refused")
}

fn hold(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    if !levels::is_held(cx.state) {
        cx.changes.push(Change::Key { key: levels::HELD.into(), value: Some(Bytes::from_static(b"1")) });
    }
    Ok(Reply::status("the cluster's level is not raised by itself; 'ceph nacre level release' ends that"))
}

fn release(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    if levels::is_held(cx.state) {
        cx.changes.push(Change::Key { key: levels::HELD.into(), value: None });
    }
    Ok(Reply::status("the cluster's level is raised by itself again"))
}
