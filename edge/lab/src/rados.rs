//! One run of the stock `rados bench`.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// What the client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// New objects, written whole.
    Write,
    /// What was written, in order.
    Seq,
    /// What was written, at random.
    Rand,
}

impl Mode {
    /// As the command calls it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Write => "write",
            Mode::Seq => "seq",
            Mode::Rand => "rand",
        }
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// What is done.
    pub mode: Mode,
    /// Bytes of an object.
    pub size: u64,
    /// Operations in flight.
    pub depth: u32,
}

impl Run {
    /// `write 4K x16`
    pub fn name(&self) -> String {
        format!("{} {} x{}", self.mode.name(), size_name(self.size), self.depth)
    }
}

/// `4K`, `128K`, `4M`
pub fn size_name(size: u64) -> String {
    match size {
        s if s.is_multiple_of(1 << 20) => format!("{}M", s >> 20),
        s if s.is_multiple_of(1 << 10) => format!("{}K", s >> 10),
        s => s.to_string(),
    }
}

/// What the command printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Operations that were completed.
    pub ops: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Mean latency, in seconds.
    pub mean: f64,
    /// Longest latency, in seconds.
    pub longest: f64,
}

/// Runs the command against the cluster of `conf`.
///
/// # Errors
/// It fails, or prints something else than expected.
pub fn bench(run: &Run, seconds: u32, pool: &str, conf: &Path) -> Result<Figures> {
    let (seconds, depth) = (seconds.to_string(), run.depth.to_string());
    // Runs of the same size and depth share their objects: the reads read what the write wrote.
    let (name, size) = (format!("lab-{}-{}", run.size, run.depth), run.size.to_string());
    let mut args = vec!["-p", pool, "bench", &seconds, run.mode.name(), "-t", &depth, "--run-name", &name];
    if run.mode == Mode::Write {
        args.extend(["-b", &size, "--no-cleanup"]);
    }
    let out = client("rados", &args, conf)?;
    parse(&out).with_context(|| format!("rados bench printed something unknown:\n{out}"))
}

/// Runs a client against the cluster of `conf`; gives what it printed.
///
/// # Errors
/// It fails; the error has its own words.
pub fn client(program: &str, args: &[&str], conf: &Path) -> Result<String> {
    let mut command = Command::new(program);
    command.args(args).env("CEPH_CONF", conf).env_remove("CEPH_ARGS").stdin(Stdio::null());
    let done = command.output().with_context(|| format!("run {program} (Debian's package ceph-common has it)"))?;
    if !done.status.success() {
        bail!("{program} {}: {}: {}", args.join(" "), done.status, String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

fn parse(out: &str) -> Option<Figures> {
    let value = |names: &[&str]| {
        let mut rows = out.lines().filter_map(|line| line.split_once(':'));
        rows.find(|(name, _)| names.contains(&name.trim())).and_then(|(_, v)| v.trim().parse::<f64>().ok())
    };
    Some(Figures {
        ops: value(&["Total writes made", "Total reads made"])? as u64,
        seconds: value(&["Total time run"])?,
        mean: value(&["Average Latency(s)"])?,
        longest: value(&["Max latency(s)"])?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_command_prints() {
        let write = "Total time run:         1.00608\nTotal writes made:      448\nWrite size:             4096\n\
                     Average Latency(s):     0.00447491\nStddev Latency(s):      0.00320299\nMax latency(s):         0.0161284\n";
        let figures = Figures { ops: 448, seconds: 1.00608, mean: 0.00447491, longest: 0.0161284 };
        assert_eq!(parse(write), Some(figures));
        assert_eq!(parse(&write.replace("writes made", "reads made")), Some(figures));
        assert_eq!(parse("error"), None);
    }

    #[test]
    fn runs_have_names() {
        assert_eq!(Run { mode: Mode::Rand, size: 128 << 10, depth: 16 }.name(), "rand 128K x16");
        assert_eq!((size_name(4 << 20), size_name(4096), size_name(5)), ("4M".into(), "4K".into(), "5".into()));
    }
}
