//! What clients feel when an OSD dies, hangs or leaves: the end of every write is noted while it happens.
//!
//! Three parts of equal length: before, away, and back. The load is fio's rados engine, whose log has the end and the
//! latency of each write. Figures: the longest time in which no write ended, writes per second before and in each part,
//! the time until four fifths of the rate were back, the 99th percentile, and the time until all groups were clean
//! again.

use super::{Bench, Outcome, pool};
use crate::cluster;
use crate::monitor::after;
use crate::process;
use crate::results::Series;
use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Seconds before the event, if a part is `seconds` long.
const BEFORE: f64 = 0.5;
/// Longest wait for clean groups, in parts.
const CLEAN: f64 = 4.0;

/// Seconds of the whole scenario.
pub(super) fn seconds(part: f64) -> f64 {
    part * (BEFORE + 2.0)
}

pub(super) fn prepare(bench: &mut Bench<'_>) -> Result<()> {
    if bench.cluster.point.text("kind") == "nacre" && bench.cluster.point.text("daemons") != "each" {
        bail!("failover ends one OSD: give the cluster daemons = \"each\"");
    }
    let mut fill = bench.client("rados");
    fill.args(["-p", pool(), "bench", "2", "write", "-b", "65536", "-t", "16", "--no-cleanup", "--run-name", "cold"]);
    bench.together(vec![fill], 5.0).map(|_| ())
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<Outcome> {
    let part = bench.seconds();
    let log = bench.lab.scratch.join("failover");
    let running = process::start(load(bench, seconds(part), &log), &bench.lab.undo)?;
    let command = running.what().to_owned();
    let begun = Instant::now();
    let wait = |until: f64| bench.lab.interrupt.sleep(Duration::from_secs_f64((until - begun.elapsed().as_secs_f64()).max(0.0)));
    wait(part * BEFORE)?;
    let gone = begun.elapsed().as_secs_f64();
    let action = bench.point.given("action").unwrap_or_else(|| "kill".into());
    let begin = event(bench.cluster, bench.lab, &action)?;
    wait(part * (BEFORE + 1.0))?;
    let back = begun.elapsed().as_secs_f64();
    begin.end(bench.cluster, bench.lab)?;
    let clean = until_clean(bench, begun, back + part * CLEAN)?;
    let said = running.wait(after(part * 3.0 + 60.0), &bench.lab.interrupt)?;
    let writes = ends(&log).with_context(|| format!("fio left no log: {}", process::last_lines(&said.err, &said.out)))?;
    let mut outcome = figures(&writes, gone, back, part);
    if let Some(at) = clean {
        outcome.figures.insert("clean_after_s".into(), at - back);
    }
    (outcome.command, outcome.said) = (command, said.out);
    Ok(outcome)
}

fn load(bench: &Bench<'_>, seconds: f64, log: &std::path::Path) -> std::process::Command {
    let mut command = bench.client("fio");
    let objects = bench.point.int("objects", 500).clamp(1, 4096);
    let size = bench.size();
    command.args([
        "--name=lab",
        "--output-format=json",
        "--ioengine=rados",
        "--busy_poll=0",
        "--touch_objects=1",
        "--clientname=admin",
    ]);
    command.args(["--rw=randwrite", "--time_based", "--disable_slat=1", "--disable_clat=1"]);
    command.args([format!("--bs={size}"), format!("--iodepth={}", bench.depth()), format!("--runtime={seconds}")]);
    command.args([format!("--pool={}", pool()), format!("--conf={}", bench.cluster.conf.display())]);
    command.args([format!("--nrfiles={objects}"), format!("--size={}", objects * size * 16)]);
    command.arg(format!("--write_lat_log={}", log.display()));
    command
}

enum Event {
    Restart(Vec<String>),
    Continue(u32),
    In,
}

fn event(cluster: &mut crate::cluster::Cluster, lab: &crate::lab::Lab, action: &str) -> Result<Event> {
    match action {
        "hang" => {
            let pid = cluster.pid_of("osd.0").context("there is no process of osd.0")?;
            kill(Pid::from_raw(pid as i32), Signal::SIGSTOP)?;
            Ok(Event::Continue(pid))
        }
        "out" => {
            cluster::tell(lab, &cluster.conf, &["osd", "out", "0"])?;
            Ok(Event::In)
        }
        other => {
            // A host is two of the OSDs here: all live on one machine.
            let names: Vec<String> = (0..if other == "host" { 2 } else { 1 }).map(|i| format!("osd.{i}")).collect();
            names.iter().for_each(|n| cluster.kill(n));
            Ok(Event::Restart(names))
        }
    }
}

impl Event {
    fn end(self, cluster: &mut crate::cluster::Cluster, lab: &crate::lab::Lab) -> Result<()> {
        match self {
            Self::Restart(names) => names.iter().try_for_each(|name| cluster.restart(lab, name)),
            Self::Continue(pid) => Ok(kill(Pid::from_raw(pid as i32), Signal::SIGCONT)?),
            Self::In => cluster::tell(lab, &cluster.conf, &["osd", "in", "0"]).map(|_| ()),
        }
    }
}

/// Returns when all groups were clean, in seconds since `begun`.
fn until_clean(bench: &Bench<'_>, begun: Instant, limit: f64) -> Result<Option<f64>> {
    let osds = bench.cluster.point.int("osds", 1);
    while begun.elapsed().as_secs_f64() < limit {
        let stat = cluster::tell(bench.lab, &bench.cluster.conf, &["osd", "stat", "--format", "json"]);
        let stat: serde_json::Value = stat.ok().and_then(|t| serde_json::from_str(&t).ok()).unwrap_or_default();
        if stat["num_up_osds"].as_u64() == Some(osds) && cluster::health(bench.lab, &bench.cluster.conf) {
            return Ok(Some(begun.elapsed().as_secs_f64()));
        }
        bench.lab.interrupt.sleep(Duration::from_millis(250))?;
    }
    Ok(None)
}

/// Ends of writes in seconds, with latencies in milliseconds.
fn ends(log: &std::path::Path) -> Option<Vec<(f64, f64)>> {
    let path = PathBuf::from(format!("{}_lat.1.log", log.display()));
    let writes = parse(&std::fs::read_to_string(&path).ok()?);
    let _ = std::fs::remove_file(path);
    (!writes.is_empty()).then_some(writes)
}

/// Lines of `milliseconds, nanoseconds, direction, bytes, offset`.
pub fn parse(log: &str) -> Vec<(f64, f64)> {
    let row = |line: &str| -> Option<(f64, f64)> {
        let mut words = line.split(',').map(str::trim);
        Some((words.next()?.parse::<f64>().ok()? / 1e3, words.next()?.parse::<f64>().ok()? / 1e6))
    };
    let mut all: Vec<(f64, f64)> = log.lines().filter_map(row).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// Returns what the writes say about the event at `gone` and the return at `back`, with parts of `part` seconds.
pub fn figures(writes: &[(f64, f64)], gone: f64, back: f64, part: f64) -> Outcome {
    let end = back + part;
    let between = |a: f64, b: f64| writes.iter().filter(move |w| a <= w.0 && w.0 < b).copied().collect::<Vec<_>>();
    let before = between(gone * 0.3, gone);
    let rate = before.len() as f64 / (gone * 0.7);
    let mut outcome = Outcome { ops: writes.len() as f64, seconds: end, ..Outcome::default() };
    let mut put = |name: &str, value: f64| outcome.figures.insert(name.to_owned(), value);
    put("rate_before", rate);
    for (name, a, b) in [("away", gone, back), ("back", back, end)] {
        let part = between(a, b);
        put(&format!("rate_{name}"), part.len() as f64 / (b - a));
        put(&format!("p99_{name}_ms"), quantile(&part, 0.99));
        let ends: Vec<f64> = std::iter::once(a).chain(part.iter().map(|w| w.0)).chain([b]).collect();
        put(&format!("gap_{name}_s"), ends.windows(2).map(|w| w[1] - w[0]).fold(0.0, f64::max));
    }
    put("p99_before_ms", quantile(&before, 0.99));
    let recovered = (0..((back - gone) * 4.0) as usize)
        .map(|i| gone + i as f64 / 4.0)
        .find(|t| between(*t, t + 0.5).len() as f64 >= 0.4 * rate);
    put("recovered_after_s", recovered.map_or(back - gone, |t| t - gone));
    put("latency_ms", writes.iter().map(|w| w.1).sum::<f64>() / writes.len().max(1) as f64);
    put("longest_ms", writes.iter().map(|w| w.1).fold(0.0, f64::max));
    let step = 0.25;
    let rates = (0..(end / step) as usize)
        .map(|i| (i as f64 * step, between(i as f64 * step, (i + 1) as f64 * step).len() as f64 / step));
    outcome.series = vec![Series { name: "ops_per_second".into(), points: rates.collect() }];
    outcome
}

fn quantile(writes: &[(f64, f64)], q: f64) -> f64 {
    // Microseconds up to an hour, three digits.
    let Ok(mut histogram) = Histogram::<u64>::new_with_bounds(1, 3_600_000_000, 3) else { return 0.0 };
    writes.iter().for_each(|w| histogram.saturating_record((w.1 * 1e3) as u64));
    histogram.value_at_quantile(q) as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_logs_are_read() {
        let writes = parse(include_str!("testdata/fio-lat.log"));
        assert_eq!(writes.len(), 40);
        assert_eq!(writes[0], (0.019, 19.380296));
    }

    #[test]
    fn a_gap_is_seen_and_so_is_its_end() {
        // 100 writes a second of 1 ms; none from 5.0 to 7.0, then one of 2 s, then all again; back at 10.
        let mut writes: Vec<(f64, f64)> = (0..500).map(|i| (f64::from(i) / 100.0, 1.0)).collect();
        writes.extend((700..1500).map(|i| (f64::from(i) / 100.0, if i == 700 { 2000.0 } else { 1.0 })));
        let found = figures(&writes, 5.0, 10.0, 5.0).figures;
        assert!((found["gap_away_s"] - 2.0).abs() < 0.02, "{found:?}");
        assert!((found["rate_before"] - 100.0).abs() < 2.0);
        assert!((found["recovered_after_s"] - 1.75).abs() < 0.3, "{found:?}");
        assert!(found["gap_back_s"] < 0.05 && found["longest_ms"] == 2000.0);
    }
}
