//! fio: images and objects of a cluster, and raw disks.

use super::{Bench, Outcome, pool, rbd};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the image under load.
pub(super) const IMAGE: &str = "lab-image";

/// Seconds that the filling of a bare disk may take, beside the experiment's patience.
const FILLED: f64 = 120.0;

fn base(bench: &Bench<'_>) -> Command {
    let mut command = bench.client("fio");
    // An engine's own options are known only after its name.
    command.arg(format!("--ioengine={}", if bench.point.text("kind") == "fio" { engine(bench) } else { "libaio".into() }));
    let p = bench.point;
    let mode = p.given("mode").unwrap_or_else(|| "randwrite".into());
    command.args(["--name=lab", "--output-format=json", "--randrepeat=0", "--time_based", "--group_reporting"]);
    command.args([format!("--rw={}", rw(&mode)), format!("--bs={}", bench.size()), format!("--iodepth={}", bench.depth())]);
    command.arg(format!("--runtime={}", bench.seconds()));
    if matches!(mode.as_str(), "randrw" | "rw") || p.text("kind") == "mixed" {
        command.arg(format!("--rwmixread={}", p.int("reads", 80)));
    }
    if bench.ramp() > 0.0 {
        command.arg(format!("--ramp_time={}", bench.ramp()));
    }
    command.args(p.text("option").split_whitespace());
    command
}

/// fio's word for what `rados bench` calls otherwise.
fn rw(mode: &str) -> &str {
    match mode {
        "seq" => "read",
        "rand" => "randread",
        other => other,
    }
}

fn engine(bench: &Bench<'_>) -> String {
    bench.point.given("engine").unwrap_or_else(|| "rbd".into())
}

pub(super) fn prepare(bench: &mut Bench<'_>) -> Result<()> {
    if engine(bench) == "rbd" {
        return rbd::make_image(bench);
    }
    Ok(())
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<Outcome> {
    let clients = bench.point.int("clients", 1);
    let commands = (0..clients).map(|_| on_cluster(bench)).collect();
    let parts = bench.together(commands, bench.seconds() + bench.ramp())?;
    Ok(Outcome::add(parts.into_iter().map(read).collect::<Result<_>>()?))
}

fn on_cluster(bench: &Bench<'_>) -> Command {
    let mut command = base(bench);
    command.args(["--clientname=admin".into(), format!("--pool={}", pool())]);
    let image = bench.point.int("image", 1 << 30);
    if engine(bench) == "rbd" {
        command.args([format!("--rbdname={IMAGE}"), format!("--size={image}"), "--direct=1".into()]);
    } else {
        let each = bench.size().max(4 << 20);
        let files = (image / each).clamp(1, 1024);
        command.args(["--busy_poll=0", "--touch_objects=1"]);
        command.args([
            format!("--conf={}", bench.cluster.conf.display()),
            format!("--nrfiles={files}"),
            format!("--size={}", each * files),
        ]);
    }
    command
}

/// Writes the part of a bare disk that is read, once: holes of a file, and blocks that an SSD never got, are read
/// without the disk.
pub(super) fn fill(bench: &mut Bench<'_>) -> Result<()> {
    let reads = !matches!(bench.point.text("mode").as_str(), "write" | "randwrite");
    let what = format!("bare {} {}", bench.point.text("target"), bench.point.int("image", 1 << 30));
    if !reads || bench.cluster.written.contains(&what) {
        return Ok(());
    }
    let disks = targets(bench)?;
    let write = |disk: &PathBuf| {
        let mut command = bench.client("fio");
        command.args(["--name=fill", "--ioengine=libaio", "--rw=write", "--bs=1M", "--iodepth=8", "--direct=1", "--end_fsync=1"]);
        command.args([format!("--filename={}", disk.display()), format!("--size={}", bench.point.int("image", 1 << 30))]);
        command
    };
    let commands = disks.iter().map(write).collect();
    bench.together(commands, FILLED)?;
    bench.cluster.written.insert(what);
    Ok(())
}

/// fio on the disks themselves, for baselines.
pub(super) fn raw(bench: &mut Bench<'_>) -> Result<Outcome> {
    let disks = targets(bench)?;
    let mixed = bench.point.text("kind") == "mixed";
    let target = target(bench);
    let commands = disks.iter().map(|disk| on_disk(bench, disk, mixed, &target)).collect();
    let parts = bench.together(commands, bench.seconds() + bench.ramp())?;
    Ok(Outcome::add(parts.into_iter().map(read).collect::<Result<_>>()?))
}

fn target(bench: &Bench<'_>) -> String {
    bench.point.given("target").unwrap_or_else(|| if bench.point.text("kind") == "mixed" { "all".into() } else { "data".into() })
}

/// Returns the disks that a baseline is measured on.
fn targets(bench: &Bench<'_>) -> Result<Vec<PathBuf>> {
    if !bench.cluster.conf.as_os_str().is_empty() {
        bail!("baselines of disks are for a cluster of kind 'none' (`on` names it): another one's data would be overwritten");
    }
    let target = target(bench);
    let disks: Vec<PathBuf> = match target.as_str() {
        "journal" => bench.cluster.journal_disk.iter().cloned().collect(),
        "data" => bench.cluster.disks.iter().take(1).cloned().collect::<Vec<_>>(),
        _ => bench.cluster.disks.clone(),
    };
    if disks.is_empty() {
        bail!("the cluster '{}' names no {target} disk", bench.cluster.name());
    }
    Ok(disks)
}

fn on_disk(bench: &Bench<'_>, disk: &Path, mixed: bool, target: &str) -> Command {
    let mut command = base(bench);
    command.arg(format!("--filename={}", disk.display()));
    command.arg(format!("--size={}", bench.point.int("image", 1 << 30)));
    // Programs that are not databases write through the page cache; journals write durably.
    command.arg(if mixed { "--direct=0" } else { "--direct=1" });
    if target == "journal" {
        command.arg("--sync=dsync");
    }
    if mixed {
        command.args(["--rw=randrw", "--end_fsync=1"]);
    }
    command
}

fn read((what, said): (String, String)) -> Result<Outcome> {
    let mut outcome = parse(&said).with_context(|| format!("{what} said something unknown: {said}"))?;
    (outcome.command, outcome.said) = (what, said);
    Ok(outcome)
}

/// Returns what fio says as JSON, reads and writes together; percentiles are those of the side with more operations.
pub fn parse(said: &str) -> Option<Outcome> {
    let value: Value = serde_json::from_str(&said[said.find('{')?..said.rfind('}')? + 1]).ok()?;
    let job = value["jobs"].as_array()?.first()?;
    if job["error"].as_i64() != Some(0) {
        return None;
    }
    let sides = [&job["read"], &job["write"]];
    let sum = |name: &str| sides.iter().filter_map(|s| s[name].as_f64()).sum::<f64>();
    let ops = sum("total_ios");
    let seconds = sides.iter().filter_map(|s| s["runtime"].as_f64()).fold(0.0, f64::max) / 1e3;
    let mut outcome = Outcome { ops, bytes: sum("io_bytes"), seconds, ..Outcome::default() };
    let mut put = |name: &str, value: f64| outcome.figures.insert(name.to_owned(), value);
    let weighted: f64 = sides.iter().filter_map(|s| Some(s["lat_ns"]["mean"].as_f64()? * s["total_ios"].as_f64()?)).sum();
    put("latency_ms", weighted / ops.max(1.0) / 1e6);
    put("longest_ms", sides.iter().filter_map(|s| s["lat_ns"]["max"].as_f64()).fold(0.0, f64::max) / 1e6);
    let count = |s: &Value| s["total_ios"].as_f64().unwrap_or(0.0);
    let more = if count(sides[0]) >= count(sides[1]) { sides[0] } else { sides[1] };
    for (name, key) in [("p50_ms", "50.000000"), ("p95_ms", "95.000000"), ("p99_ms", "99.000000"), ("p999_ms", "99.900000")] {
        if let Some(ns) = more["clat_ns"]["percentile"][key].as_f64() {
            put(name, ns / 1e6);
        }
    }
    Some(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_output_is_read() {
        let mixed = parse(include_str!("testdata/fio-rbd.json")).unwrap();
        assert_eq!((mixed.ops, mixed.bytes, mixed.seconds), (13206.0, 54091776.0, 2.002));
        assert_eq!((mixed.figures["p50_ms"], mixed.figures["p99_ms"]), (0.659456, 33.42336));
        assert!((mixed.figures["latency_ms"] - 2.4202).abs() < 0.001, "{}", mixed.figures["latency_ms"]);
        assert_eq!(parse("fio: pid=0, err=22/file:x"), None);
    }
}
