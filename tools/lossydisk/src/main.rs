//! `lossydisk BACKING MOUNTPOINT`: mounts a disk that forgets, and does what it is told on its standard input.
//!
//! One command a line, one answer a line, `ok ...` or `error ...`. The end of the input unmounts, so a mount does not
//! outlive the test.

#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail};
use clap::Parser;
use lossydisk::{Disk, Lies, Mounted};
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::Duration;

/// A file system that loses what was not flushed when it is told to lose its power.
///
/// Commands on standard input: `lose SEED` cuts the power, `back` brings it back, `stats` tells what was done, `keep
/// NAME` makes the safe files readable as BACKING/NAME, `quit` (or the end of the input) unmounts. `lie flushes` and
/// `lie durable` make the disk answer flushes of files, or durable writes, without making anything safe, to prove that
/// a test sees it; `lie never` ends that.
#[derive(Parser)]
struct Args {
    /// An empty folder for the bytes that are safe.
    backing: PathBuf,
    /// The folder to mount at.
    mountpoint: PathBuf,
    /// Most microseconds that a write or a flush takes; each takes a random time.
    #[arg(long, default_value_t = 300)]
    latency: u64,
    /// Seed of the latencies.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let disk = Disk::new(&args.backing).with_context(|| format!("use {}", args.backing.display()))?;
    let mounted = lossydisk::mount(disk, &args.mountpoint, Duration::from_micros(args.latency), args.seed)
        .with_context(|| format!("mount at {}", args.mountpoint.display()))?;
    say("ok mounted")?;
    for line in std::io::stdin().lock().lines() {
        match obey(&mounted, line?.trim()) {
            Ok(Some(answer)) => say(&format!("ok {answer}"))?,
            Ok(None) => break,
            Err(e) => say(&format!("error {e:#}"))?,
        }
    }
    mounted.unmount().context("unmount")
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Carries out a command; `None` if that was to stop.
fn obey(mounted: &Mounted, line: &str) -> Result<Option<String>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let answer = match words[..] {
        ["lose", seed] => {
            let loss = mounted.disk().lose(seed.parse().context("the seed is a number")?)?;
            format!("cut {:?}, {} writes not safe, {} of them on their way", loss.cut, loss.writes, loss.in_flight)
        }
        ["back"] => {
            mounted.disk().back();
            "power is back".to_owned()
        }
        ["stats"] => {
            let disk = mounted.disk();
            let c = disk.counters;
            format!("writes {} durable {} flushes {} cuts {} all_safe {}", c.writes, c.durable, c.flushes, c.cuts, disk.is_safe())
        }
        ["lie", about] => {
            let lies = match about {
                "flushes" => Lies { flushes: true, durable: false },
                "durable" => Lies { flushes: false, durable: true },
                "never" => Lies::default(),
                _ => bail!("lie about flushes, durable or never"),
            };
            mounted.disk().lies = lies;
            format!("lying about {about}")
        }
        ["keep", name] if !name.contains('/') => mounted.disk().keep(name)?.display().to_string(),
        ["quit"] => return Ok(None),
        _ => bail!("no such command: {line}"),
    };
    Ok(Some(answer))
}
