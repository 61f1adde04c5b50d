//! Commands on health: findings, mutes, history.

use super::{Cx, Row, row};
use grammar::{Args, Outcome, Reply, refuse};
use manager::explain::{self, Scene};
use manager::health::{Check, checks, status};
use monstate::pools;
use monstate::state::{Change, Mute};
use std::collections::BTreeMap;
use types::UTime;

pub(super) const ROWS: &[Row] = &[
    row("health <detail:Choices req=false strings=detail>", "show what is wrong", "mon", "r", health),
    row("health mute <code:String> <ttl:String req=false> <sticky:Bool req=false>", "do not count a check", "mon", "w", mute),
    row("health unmute <code:String req=false>", "count a check again, or all", "mon", "w", unmute),
    row(
        "healthcheck history ls <format:Choices req=false strings=plain|json|json-pretty|yaml>",
        "show past checks",
        "mgr",
        "r",
        history,
    ),
    row("healthcheck history clear", "forget past checks", "mgr", "w", clear),
    row(
        "nacre explain <about:Choices strings=slow|groups|group|space|full|osd|recovery|scrub|clock|monitors|crash|health req=false> <which:String req=false>",
        "answer a question about the cluster in words, with what shows it",
        "mon",
        "r",
        explain,
    ),
];

/// Answers what somebody asks.
fn explain(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let scene = Scene { state: cx.state, soft: cx.soft, duties: cx.duties, env: cx.env, now: cx.now, checks: current(cx) };
    let answer = explain::answer(&scene, args.opt("about"), args.opt("which"))?;
    Ok(cx.show("explain", answer.dump(), || answer.text()))
}

/// The findings as they are now.
pub(super) fn current(cx: &Cx<'_>) -> BTreeMap<String, Check> {
    checks(cx.state, cx.soft, cx.env, cx.now)
}

fn heard<'a>(cx: &Cx<'_>, all: &'a BTreeMap<String, Check>) -> Vec<(&'a String, &'a Check)> {
    // The worst findings come first.
    let mut heard: Vec<_> = all.iter().filter(|(code, _)| !cx.state.mutes.contains_key(*code)).collect();
    heard.sort_by_key(|(_, c)| std::cmp::Reverse(c.severity));
    heard
}

fn muted_note(cx: &Cx<'_>) -> String {
    let codes: Vec<&str> = cx.state.mutes.keys().map(String::as_str).collect();
    if codes.is_empty() { String::new() } else { format!(" (muted: {})", codes.join(" ")) }
}

/// The lines of `status`: after `head`, the state and each finding below it.
pub(super) fn status_lines(cx: &Cx<'_>, head: &str) -> String {
    let all = current(cx);
    let pad = " ".repeat(head.len());
    let mut out = format!("{head}{}\n", status(cx.state, &all));
    heard(cx, &all).iter().for_each(|(_, c)| out.push_str(&format!("{pad}{}\n", c.summary)));
    let note = muted_note(cx);
    if !note.is_empty() {
        out.push_str(&format!("{pad}{}\n", note.trim()));
    }
    out
}

/// The line of `health`, and the lines of `health detail`.
pub(crate) fn text(cx: &Cx<'_>, detail: bool) -> String {
    let all = current(cx);
    let summaries: Vec<&str> = heard(cx, &all).iter().map(|(_, c)| c.summary.as_str()).collect();
    let mut out = status(cx.state, &all).to_string();
    if !summaries.is_empty() {
        out.push_str(&format!(" {}", summaries.join("; ")));
    }
    out.push_str(&muted_note(cx));
    out.push('\n');
    if detail {
        for (code, check) in &all {
            let muted = if cx.state.mutes.contains_key(code) { "(MUTED) " } else { "" };
            out.push_str(&format!("{muted}[{}] {code}: {}\n", check.severity.short(), check.summary));
            check.detail.iter().for_each(|d| out.push_str(&format!("    {d}\n")));
        }
    }
    out
}

/// The health as a structure.
pub(crate) fn dump(cx: &Cx<'_>, detail: bool) -> serde_json::Value {
    manager::health::dump(cx.state, &current(cx), detail)
}

fn health(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let detail = args.opt("detail").is_some();
    Ok(cx.show("health", dump(cx, detail), || text(cx, detail)))
}

/// Parses a span of time, in seconds: `10m`, `1h30m`, `3600`.
fn seconds(text: &str) -> Option<f64> {
    let (mut total, mut number) = (0.0, String::new());
    for c in text.chars() {
        if c.is_ascii_digit() || c == '.' {
            number.push(c);
            continue;
        }
        let unit = match c {
            's' => 1.0,
            'm' => 60.0,
            'h' => 3600.0,
            'd' => 86_400.0,
            'w' => 7.0 * 86_400.0,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * unit;
        number.clear();
    }
    if !number.is_empty() {
        total += number.parse::<f64>().ok()?;
    }
    (total.is_finite() && total > 0.0).then_some(total)
}

fn mute(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (code, sticky) = (args.str("code"), args.flag("sticky"));
    let until = match args.opt("ttl") {
        None => UTime::ZERO,
        Some(ttl) => match seconds(ttl) {
            Some(secs) => pools::after(cx.now.wall, secs),
            None => refuse!(EINVAL, "not a valid duration: {ttl}"),
        },
    };
    let all = current(cx);
    let check = all.get(code);
    if check.is_none() && !sticky {
        refuse!(ENOENT, "health alert {code} is not currently raised");
    }
    let mute =
        Mute { until, sticky, summary: check.map_or(String::new(), |c| c.summary.clone()), count: check.map_or(0, |c| c.count) };
    cx.changes.push(Change::Mute { code: code.into(), mute: Some(mute) });
    Ok(Reply::default())
}

fn unmute(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let codes: Vec<String> =
        cx.state.mutes.keys().filter(|c| args.opt("code").is_none_or(|wanted| wanted == *c)).cloned().collect();
    cx.changes.extend(codes.into_iter().map(|code| Change::Mute { code, mute: None }));
    Ok(Reply::default())
}

fn history(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let rows: Vec<(&str, &str)> = cx
        .state
        .log
        .iter()
        .rev()
        .filter_map(|e| Some((e.stamp, e.message.strip_prefix("Health check failed: ")?)))
        .filter_map(|(_, text)| text.strip_suffix(')')?.rsplit_once(" ("))
        .take(100)
        .collect();
    let value = rows.iter().map(|(summary, code)| serde_json::json!({"code": code, "summary": summary})).collect();
    Ok(cx.show("history", value, || rows.iter().map(|(s, c)| format!("{c}: {s}\n")).collect()))
}

fn clear(_: &mut Cx<'_>, _: &Args) -> Outcome {
    refuse!(EOPNOTSUPP, "past health checks are lines of the cluster log, which is not edited")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read() {
        assert_eq!(seconds("1h30m"), Some(5400.0));
        assert_eq!(seconds("45"), Some(45.0));
        assert_eq!(seconds("2w"), Some(1_209_600.0));
        assert_eq!(seconds("soon"), None);
    }
}
