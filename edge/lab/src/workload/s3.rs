//! Objects by S3 through a cluster's gateway (`gateway = true`): puts, gets, both, lists.
//!
//! The client is a program in Python that comes with this one (`s3.py`): signed HTTP with connections that are kept, or
//! boto3 as users have it.

use super::{Bench, Outcome};
use crate::monitor::kernel;
use crate::plan::Point;
use crate::results::Series;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::process::Command;

const CLIENT: &str = include_str!("s3.py");
/// Bucket of all workloads.
const BUCKET: &str = "lab";
/// Objects that reads and lists need, unless `objects` says otherwise.
const OBJECTS: u64 = 1000;
/// Most bytes of the objects that are written before reads by default.
const PREFILL: u64 = 512 << 20;
/// Requests under way while they are written.
const PREFILL_DEPTH: u64 = 8;
/// Longest time for that, in seconds.
const PREFILL_LIMIT: f64 = 600.0;

/// Name of the set of objects that this permutation reads.
pub fn set(point: &Point) -> String {
    format!("s3-{}-{}", point.int("size", 4096), objects(point))
}

fn objects(point: &Point) -> u64 {
    let fitting = (PREFILL / point.int("size", 4096).max(1)).clamp(16, OBJECTS);
    point.int("objects", fitting)
}

/// The client's word for what other workloads call otherwise. `None`: no object gateway does that.
fn mode(point: &Point) -> Option<&'static str> {
    Some(match point.given("mode").as_deref() {
        None | Some("write") => "put",
        Some("read" | "rand" | "randread") => "get",
        Some("rw" | "randrw") => "mixed",
        Some("list") => "list",
        Some(_) => return None,
    })
}

/// Returns true if it reads what must have been written before.
pub fn reads(point: &Point) -> bool {
    mode(point).is_some_and(|m| m != "put")
}

fn command(bench: &Bench<'_>, mode: &str, depth: u64, seconds: f64) -> Result<Command> {
    let Some(gateway) = &bench.cluster.gateway else {
        bail!("workloads of kind 's3' need a cluster with `gateway = true`; '{}' has none", bench.cluster.name());
    };
    let script = bench.lab.scratch.join("s3.py");
    std::fs::write(&script, CLIENT).with_context(|| format!("write {}", script.display()))?;
    let mut command = bench.client("python3");
    command.arg(script).args(gateway.words()).args(["--bucket", BUCKET, "--mode", mode]);
    command.args(["--size", &bench.size().to_string(), "--depth", &depth.to_string(), "--seconds", &seconds.to_string()]);
    command.args(["--objects", &objects(bench.point).to_string(), "--reads", &bench.point.int("reads", 80).to_string()]);
    command.args(["--prefix", &format!("{}/", if mode == "put" { "new".into() } else { set(bench.point) })]);
    command.args(["--tool", &bench.point.given("tool").unwrap_or_else(|| "http".into())]);
    command.args(bench.point.text("option").split_whitespace());
    Ok(command)
}

/// Writes what reads and lists need, once for each cluster.
pub(super) fn prepare(bench: &mut Bench<'_>) -> Result<()> {
    let Some(mode) = mode(bench.point) else { bail!("mode '{}' is none of an s3 workload", bench.point.text("mode")) };
    let set = set(bench.point);
    if reads(bench.point) && !bench.cluster.written.contains(&set) {
        let fill = command(bench, "fill", PREFILL_DEPTH, PREFILL_LIMIT)?;
        bench.together(vec![fill], PREFILL_LIMIT)?;
        bench.cluster.written.insert(set);
    }
    if bench.ramp() > 0.0 {
        let warm = command(bench, mode, bench.depth(), bench.ramp())?;
        bench.together(vec![warm], bench.ramp())?;
    }
    Ok(())
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<Outcome> {
    let Some(mode) = mode(bench.point) else { bail!("mode '{}' is none of an s3 workload", bench.point.text("mode")) };
    let commands = (0..bench.point.int("clients", 1)).map(|_| command(bench, mode, bench.depth(), bench.seconds()));
    let commands = commands.collect::<Result<Vec<_>>>()?;
    let spent = |bench: &Bench<'_>| bench.cluster.gateway.as_ref().map(|g| kernel::process(g.pid()));
    let before = spent(bench);
    let parts = bench.together(commands, bench.seconds())?.into_iter().map(|(what, said)| {
        let mut outcome = parse(&said).with_context(|| format!("{what} said something unknown: {said}"))?;
        // Keys are nobody's business.
        outcome.command = what.split(" --access").next().unwrap_or_default().to_owned();
        outcome.said = said;
        Ok(outcome)
    });
    let mut outcome = Outcome::add(parts.collect::<Result<_>>()?);
    if let (Some(before), Some(after)) = (before, spent(bench)) {
        outcome.figures.insert("gateway_us".into(), (after - before) * 1e6 / outcome.ops.max(1.0));
    }
    Ok(outcome)
}

/// Returns what the client says, in JSON. A list's operations are the keys that it lists.
///
/// `None`: it is something else, or requests failed beside those that did not: such a figure is none.
pub fn parse(said: &str) -> Option<Outcome> {
    let value: Value = serde_json::from_str(said.trim().lines().last()?).ok()?;
    let number = |name: &str| value[name].as_f64();
    if number("failed")? > 0.0 {
        return None;
    }
    let (ops, seconds) = (number("objects")?, number("seconds")?);
    let names = ["latency_ms", "p50_ms", "p95_ms", "p99_ms", "p999_ms", "longest_ms"];
    let figures = names.into_iter().map(|n| Some((n.to_owned(), number(n)?))).collect::<Option<_>>()?;
    let rows = value["each_second"].as_array()?.iter().zip(1_u32..);
    let points = rows.filter_map(|(count, second)| Some((f64::from(second), count.as_f64()?))).collect();
    let series = vec![Series { name: "ops_per_second".into(), points }];
    Some(Outcome { ops, bytes: number("bytes")?, seconds, figures, series, ..Outcome::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Scalar;

    const SAID: &str = r#"{"ops": 20, "objects": 20, "bytes": 81920, "seconds": 2.5, "failed": 0, "why": null, "latency_ms": 4.0, "p50_ms": 3.5,
        "p95_ms": 8.0, "p99_ms": 9.0, "p999_ms": 9.5, "longest_ms": 10.0, "each_second": [12, 8]}"#;

    #[test]
    fn what_the_client_says_is_read() {
        let said = SAID.replace('\n', " ");
        let outcome = parse(&format!("a warning\n{said}\n")).unwrap();
        assert_eq!((outcome.ops, outcome.bytes, outcome.seconds, outcome.figures["p99_ms"]), (20.0, 81920.0, 2.5, 9.0));
        assert_eq!(outcome.series[0].points, [(1.0, 12.0), (2.0, 8.0)]);
        assert_eq!(parse(&said.replace("\"failed\": 0", "\"failed\": 1")), None);
        assert_eq!(parse("Traceback"), None);
    }

    #[test]
    fn modes_of_other_workloads_have_their_word() {
        let point = |mode: &str| Point([("mode".to_owned(), Scalar::Text(mode.into()))].into());
        for (ours, theirs) in
            [("write", Some("put")), ("rand", Some("get")), ("randrw", Some("mixed")), ("list", Some("list")), ("seq", None)]
        {
            assert_eq!(mode(&point(ours)), theirs, "{ours}");
        }
        assert!(!reads(&point("write")) && reads(&point("list")));
    }
}
