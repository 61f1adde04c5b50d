//! The stock `rbd bench` on an image that is written whole before.

use super::fio::IMAGE;
use super::{Bench, Outcome, pool, rados};
use anyhow::{Context, Result};
use std::process::Command;

/// Most bytes that one run asks for; it ends with the time all the same.
const TOTAL: u64 = 1 << 40;

/// Makes the image and writes all of it, once for each cluster.
pub(super) fn make_image(bench: &mut Bench<'_>) -> Result<()> {
    let size = bench.point.int("image", 1 << 30);
    let name = format!("image-{size}");
    if bench.cluster.written.contains(&name) {
        return Ok(());
    }
    let image = format!("{}/{IMAGE}", pool());
    let mut remove = bench.client("rbd");
    remove.args(["rm", "--no-progress", &image]);
    if bench.cluster.written.iter().any(|w| w.starts_with("image-")) {
        bench.together(vec![remove], 60.0)?;
        bench.cluster.written.retain(|w| !w.starts_with("image-"));
    }
    rados::make_room(bench)?;
    let mut create = bench.client("rbd");
    create.args(["create", "--size", &format!("{}B", size), &image]);
    bench.together(vec![create], 30.0)?;
    let mut fill = bench.client("rbd");
    fill.args(["bench", &image, "--io-type", "write", "--io-size", "4M", "--io-threads", "16", "--io-pattern", "seq"]);
    fill.args(["--io-total", &size.to_string()]);
    bench.together(vec![fill], 300.0)?;
    bench.cluster.written.insert(name);
    Ok(())
}

pub(super) fn prepare(bench: &mut Bench<'_>) -> Result<()> {
    make_image(bench)
}

fn command(bench: &Bench<'_>) -> Command {
    let mode = bench.point.given("mode").unwrap_or_else(|| "write".into());
    let (kind, pattern) = match mode.as_str() {
        "write" => ("write", "seq"),
        "randwrite" => ("write", "rand"),
        "read" | "seq" => ("read", "seq"),
        "rw" => ("rw", "seq"),
        "randrw" => ("rw", "rand"),
        _ => ("read", "rand"),
    };
    // `timeout` ends it with SIGINT, after which it says what it has done so far.
    let mut command = bench.client("timeout");
    command.args([
        "--preserve-status",
        "-s",
        "INT",
        &bench.seconds().to_string(),
        "rbd",
        "bench",
        &format!("{}/{IMAGE}", pool()),
    ]);
    command.args(["--io-type", kind, "--io-pattern", pattern, "--io-size", &bench.size().to_string()]);
    command.args(["--io-threads", &bench.depth().to_string(), "--io-total", &TOTAL.to_string()]);
    command.args(bench.point.text("option").split_whitespace());
    command
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<Outcome> {
    let commands = (0..bench.point.int("clients", 1)).map(|_| command(bench)).collect();
    let parts = bench.together(commands, bench.seconds())?.into_iter().map(|(what, said)| {
        let mut outcome = parse(&said, bench.size()).with_context(|| format!("{what} said something unknown: {said}"))?;
        (outcome.command, outcome.said) = (what, said);
        Ok(outcome)
    });
    Ok(Outcome::add(parts.collect::<Result<_>>()?))
}

/// The last line: `elapsed: 0 ops: 4096 ops/sec: 6206.06 bytes/sec: 24 MiB/s`. Time comes from operations and their
/// rate, since `elapsed` is in whole seconds.
pub fn parse(said: &str, size: u64) -> Option<Outcome> {
    let line = said.lines().rev().find(|l| l.trim_start().starts_with("elapsed:"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let value = |name: &str| words.iter().position(|w| *w == name).and_then(|i| words.get(i + 1)?.parse::<f64>().ok());
    let (ops, rate) = (value("ops:")?, value("ops/sec:")?);
    if rate <= 0.0 {
        return None;
    }
    Some(Outcome { ops, bytes: ops * size as f64, seconds: ops / rate, ..Outcome::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_output_is_read() {
        let write = parse(include_str!("testdata/rbd16-write.txt"), 4096).unwrap();
        assert_eq!((write.ops, write.bytes), (4096.0, 16_777_216.0));
        assert!((write.seconds - 0.66).abs() < 0.001, "{}", write.seconds);
        assert!(parse(include_str!("testdata/rbd16-read.txt"), 4096).is_some());
        assert_eq!(parse("rbd: error opening image", 4096), None);
    }
}
