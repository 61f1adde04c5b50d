//! The stock `rados bench`: new objects, and reads of them in order or at random.

use super::{Bench, Outcome, pool};
use crate::plan::Point;
use crate::results::Series;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::process::Command;

/// Most seconds of writing what reads need.
const PREFILL: f64 = 5.0;
/// Requests under way while that is written.
const PREFILL_DEPTH: u64 = 32;
/// Requests from this size on fill a disk within some workloads: what was written with them is removed before the next
/// large write.
const LARGE: u64 = 128 << 10;
/// Seconds that a removal may take.
const REMOVAL: f64 = 60.0;
/// Longest time that a given number of objects may take to be written, in seconds.
pub(super) const PREFILL_LIMIT: f64 = 600.0;

/// Name of the set of objects that reads of this permutation read.
pub fn set(point: &Point) -> String {
    format!("rados-{}-{}", point.int("size", 4096), point.int("clients", 1))
}

fn command(bench: &Bench<'_>, mode: &str, seconds: f64, depth: u64, client: u64) -> Command {
    let mut command = bench.client("rados");
    let whole = seconds.ceil().max(1.0).to_string();
    command.args(["-p", pool(), "bench", &whole, mode, "-t", &depth.to_string(), "-f", "json"]);
    command.args(["--run-name", &format!("{}-{client}", set(bench.point))]);
    if mode == "write" {
        command.args(["-b", &bench.size().to_string(), "--no-cleanup"]);
    }
    command.args(bench.point.text("option").split_whitespace());
    command
}

/// Writes what reads need, unless a write of this size went before.
pub(super) fn prepare(bench: &mut Bench<'_>) -> Result<()> {
    let mode = bench.point.text("mode");
    let set = set(bench.point);
    if mode == "write" || mode.is_empty() {
        if bench.size() >= LARGE {
            make_room(bench)?;
        }
        bench.cluster.written.insert(set);
        if bench.ramp() > 0.0 {
            let warm = command(bench, "write", bench.ramp(), bench.depth(), 0);
            bench.together(vec![warm], bench.ramp())?;
        }
        return Ok(());
    }
    if !bench.cluster.written.contains(&set) {
        prefill(bench)?;
        bench.cluster.written.insert(set);
    }
    if bench.ramp() > 0.0 {
        let warm = command(bench, &mode, bench.ramp(), bench.depth(), 0);
        bench.together(vec![warm], bench.ramp())?;
    }
    Ok(())
}

/// Removes all sets of large objects. A later write of the same set has other names, and a read of a set that is not
/// there writes it again.
pub(super) fn make_room(bench: &mut Bench<'_>) -> Result<()> {
    for (set, clients) in bench.cluster.written.iter().filter_map(|set| Some((set.clone(), large_set(set)?))).collect::<Vec<_>>()
    {
        let removals = (0..clients).map(|i| {
            let mut command = bench.client("rados");
            command.args(["-p", pool(), "cleanup", "--run-name", &format!("{set}-{i}")]);
            command
        });
        bench.together(removals.collect(), REMOVAL)?;
        bench.cluster.written.remove(&set);
    }
    Ok(())
}

/// The number of clients that wrote a set of large objects. `None`: it is another set.
fn large_set(name: &str) -> Option<u64> {
    let (size, clients) = name.strip_prefix("rados-")?.split_once('-')?;
    size.parse::<u64>().ok().filter(|size| *size >= LARGE)?;
    clients.parse().ok()
}

/// Writes what reads need: for some seconds, or a number of objects.
fn prefill(bench: &Bench<'_>) -> Result<()> {
    let settings = &bench.experiment.settings;
    let objects = settings.given("prefill_objects");
    let seconds = match objects {
        Some(_) => PREFILL_LIMIT,
        None => settings.real("prefill", bench.seconds().min(PREFILL)),
    };
    let clients = (0..bench.point.int("clients", 1)).map(|i| {
        let mut command = command(bench, "write", seconds, PREFILL_DEPTH, i);
        if let Some(objects) = &objects {
            command.args(["--max-objects", objects]);
        }
        command
    });
    for (what, said) in bench.together(clients.collect(), seconds)? {
        let written = parse(&said).with_context(|| format!("{what} said something unknown: {said}"))?.ops;
        let wanted = settings.int("prefill_objects", 0);
        if written < wanted as f64 {
            bail!("{what}: {written} of {wanted} objects were written within {PREFILL_LIMIT} s");
        }
    }
    Ok(())
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<Outcome> {
    let mode = bench.point.given("mode").unwrap_or_else(|| "write".into());
    let seconds = bench.seconds();
    let clients = bench.point.int("clients", 1);
    let commands = (0..clients).map(|i| command(bench, &mode, seconds, bench.depth(), i)).collect();
    let parts = bench.together(commands, seconds)?.into_iter().map(|(what, said)| {
        let mut outcome = parse(&said).with_context(|| format!("{what} said something unknown: {said}"))?;
        (outcome.command, outcome.said) = (what, said);
        Ok(outcome)
    });
    Ok(Outcome::add(parts.collect::<Result<_>>()?))
}

/// Returns what the tool says, as JSON (with lines before it that are not) or as text.
pub fn parse(said: &str) -> Option<Outcome> {
    let json = said.find('{').and_then(|at| serde_json::from_str::<Value>(said[at..].trim()).ok());
    match json {
        Some(value) => from_json(&value),
        None => from_text(said),
    }
}

fn outcome(ops: f64, size: f64, seconds: f64, mean: f64, longest: f64) -> Outcome {
    let figures = [("latency_ms", mean * 1e3), ("longest_ms", longest * 1e3)];
    let figures = figures.into_iter().map(|(n, v)| (n.to_owned(), v)).collect();
    Outcome { ops, bytes: ops * size, seconds, figures, ..Outcome::default() }
}

fn from_json(value: &Value) -> Option<Outcome> {
    // All numbers are in quotes.
    let number = |v: &Value| v.as_str().and_then(|t| t.parse::<f64>().ok()).or(v.as_f64());
    let ops = number(&value["total_writes_made"]).or(number(&value["total_reads_made"]))?;
    let size = number(&value["write_size"]).or(number(&value["read_size"]))?;
    let (mean, longest) = (number(&value["average_latency"])?, number(&value["max_latency"])?);
    let mut outcome = outcome(ops, size, number(&value["total_time_run"])?, mean, longest);
    let rows = value["datas"].as_array().into_iter().flatten();
    let points: Vec<(f64, f64)> = rows.filter_map(|r| Some((number(&r["sec"])?, number(&r["finished"])?))).collect();
    // `finished` counts from the start, so a point is what came since the one before.
    let rates = points.windows(2).filter(|p| p[1].0 > p[0].0).map(|p| (p[1].0, (p[1].1 - p[0].1) / (p[1].0 - p[0].0)));
    outcome.series = vec![Series { name: "ops_per_second".into(), points: rates.collect() }];
    Some(outcome)
}

fn from_text(said: &str) -> Option<Outcome> {
    let value = |names: &[&str]| {
        let mut rows = said.lines().filter_map(|line| line.split_once(':'));
        rows.find(|(name, _)| names.contains(&name.trim())).and_then(|(_, v)| v.trim().parse::<f64>().ok())
    };
    let ops = value(&["Total writes made", "Total reads made"])?;
    let size = value(&["Write size", "Read size"])?;
    let mean = value(&["Average Latency(s)"])?;
    Some(outcome(ops, size, value(&["Total time run"])?, mean, value(&["Max latency(s)"])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sets_of_large_objects_are_removed() {
        assert_eq!(large_set("rados-4194304-2"), Some(2));
        assert_eq!(large_set("rados-131072-1"), Some(1));
        assert_eq!(large_set("rados-4096-1"), None);
        assert_eq!(large_set("image-1073741824"), None);
    }

    #[test]
    fn recorded_output_of_16_2_is_read() {
        let write = parse(include_str!("testdata/rados16-write.json")).unwrap();
        assert_eq!((write.ops, write.bytes, write.seconds), (3415.0, 3415.0 * 4096.0, 2.002798));
        for (name, known) in [("latency_ms", 9.37), ("longest_ms", 276.15)] {
            assert!((write.figures[name] - known).abs() < 1e-9, "{name}: {}", write.figures[name]);
        }
        assert_eq!(write.series[0].points, [(1.0, 1517.0)]);
        let text = parse(include_str!("testdata/rados16-write.txt")).unwrap();
        assert_eq!((text.ops, text.seconds, text.figures["longest_ms"]), (6749.0, 2.06369, 176.195));
        let seq = parse(include_str!("testdata/rados16-seq.txt")).unwrap();
        assert_eq!((seq.ops, seq.seconds), (6749.0, 0.838565));
        let rand = parse(include_str!("testdata/rados16-rand.json")).unwrap();
        assert_eq!((rand.ops, rand.figures["latency_ms"]), (33166.0, 0.964));
        assert_eq!(parse(include_str!("testdata/rados16-nothere.txt")), None);
    }
}
