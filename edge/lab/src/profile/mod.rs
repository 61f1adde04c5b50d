//! Profiles: where the servers' processor time goes, and where on the data disks requests go.
//!
//! A profile disturbs what it looks at. So each workload runs once more for it, after its last repeat, and nothing of
//! that run is measured. Both come from `perf`: it samples the servers by their clock, because virtual machines have no
//! hardware counters, and it records the kernel's tracepoint `block:block_rq_issue`, which every kernel with tracing
//! has; `blktrace` needs an option that many lack.

mod flames;
mod seeks;

use crate::cluster::Cluster;
use crate::lab::Lab;
use crate::measure::prepare;
use crate::plan::Experiment;
use crate::plan::order::Run;
use crate::process::{self, Running, Said};
use crate::workload::{self, Bench};
use anyhow::{Context, Result, bail};
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde::{Deserialize, Serialize};
use std::fs::{OpenOptions, remove_file};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Samples of each processor in a second. Not a divisor of what programs do every millisecond.
const RATE: u32 = 499;
/// Bytes of each stack that are kept for unwinding.
const STACK: u32 = 16_384;
/// Time that `perf` may take to write what it has, and to tell it.
const PATIENCE: Duration = Duration::from_secs(180);

/// A picture for the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Its subject.
    pub title: String,
    /// The drawing: one `svg` element.
    pub svg: String,
}

/// Profiles that were made after the last repeat of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profiles {
    /// The pictures.
    pub pictures: Vec<Picture>,
    /// A sentence for each picture that was asked for and is not there.
    pub missing: Vec<String>,
}

impl Profiles {
    /// None, for this reason.
    pub(crate) fn none(why: &str) -> Self {
        Self { pictures: Vec::new(), missing: vec![why.into()] }
    }
}

/// Kind of what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Flames,
    Seeks,
}

impl Kind {
    fn title(self) -> &'static str {
        match self {
            Kind::Flames => "Flame graph",
            Kind::Seeks => "Seek picture",
        }
    }
}

/// A `perf record` in flight.
struct Recorder {
    kind: Kind,
    running: Running,
    file: PathBuf,
    /// A pipe with a name on which it is told to end.
    control: PathBuf,
}

fn asked(experiment: &Experiment) -> Vec<Kind> {
    let kinds = [("flamegraph", Kind::Flames), ("seeks", Kind::Seeks)];
    kinds.into_iter().filter(|(key, _)| experiment.monitor.flag(key, false)).map(|(_, kind)| kind).collect()
}

/// Returns true if the experiment asks for profiles after this run.
pub(crate) fn due(experiment: &Experiment, run: &Run) -> bool {
    !asked(experiment).is_empty() && !run.again && run.repeat + 1 == experiment.repeats()
}

/// Runs the workload once more for each profile that is asked for, and draws it.
pub(crate) fn pass(lab: &Lab, experiment: &Experiment, cluster: &mut Cluster, run: &Run) -> Profiles {
    let mut made = Profiles::default();
    for kind in asked(experiment) {
        match one(lab, experiment, cluster, run, kind) {
            Ok(svg) => {
                made.pictures.push(Picture { title: format!("{}: {}", kind.title(), workload::title(&run.workload)), svg })
            }
            Err(e) => made.missing.push(format!("{} not made: {e:#}", kind.title())),
        }
    }
    made
}

fn one(lab: &Lab, experiment: &Experiment, cluster: &mut Cluster, run: &Run, kind: Kind) -> Result<String> {
    prepare(lab, experiment, cluster, run)?;
    let recorder = record(lab, cluster, kind)?;
    let outcome = workload::run(&mut Bench { lab, experiment, cluster, point: &run.workload });
    let file = recorder.file.clone();
    let ended = recorder.stop(lab);
    let drawn = outcome.and(ended).and_then(|()| draw(lab, cluster, kind, &file));
    let _ = remove_file(&file);
    drawn
}

fn record(lab: &Lab, cluster: &Cluster, kind: Kind) -> Result<Recorder> {
    let (file, control) = (lab.scratch.join("profile.perf"), lab.scratch.join("profile.control"));
    let _ = remove_file(&control);
    mkfifo(&control, Mode::S_IRUSR | Mode::S_IWUSR).context("make a pipe for perf")?;
    let mut command = Command::new("perf");
    command.args(["record", "-q", "-o"]).arg(&file).arg(format!("--control=fifo:{}", control.display()));
    match kind {
        Kind::Flames => {
            let servers: Vec<String> = cluster.servers().iter().map(u32::to_string).collect();
            if servers.is_empty() {
                bail!("the cluster has no processes of this laboratory");
            }
            let stacks = format!("dwarf,{STACK}");
            command.args(["-e", "cpu-clock", "-F", &RATE.to_string(), "--call-graph", &stacks, "-p", &servers.join(",")]);
        }
        Kind::Seeks => {
            if cluster.data.is_empty() {
                bail!("the data disks of the cluster are not known");
            }
            command.args(["-e", "block:block_rq_issue", "-a"]);
        }
    }
    Ok(Recorder { kind, running: process::start(command, &lab.undo)?, file, control })
}

impl Recorder {
    fn stop(self, lab: &Lab) -> Result<()> {
        // Signals are held back in this process and in those that it starts. If perf does not listen, it has ended and says why.
        let pipe = OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&self.control);
        let _ = pipe.and_then(|mut pipe| pipe.write_all(b"stop\n"));
        let _ = remove_file(&self.control);
        let Said { out, err, .. } = self.running.wait(Instant::now() + PATIENCE, &lab.interrupt)?;
        if !self.file.exists() {
            bail!("perf recorded nothing ({:?}): {}", self.kind, process::last_lines(&err, &out));
        }
        Ok(())
    }
}

fn draw(lab: &Lab, cluster: &Cluster, kind: Kind, file: &Path) -> Result<String> {
    let mut command = Command::new("perf");
    command.args(["script", "-i"]).arg(file);
    match kind {
        Kind::Flames => command.args(["--no-inline", "-F", "comm,ip,sym"]),
        Kind::Seeks => command.args(["-F", "time,trace"]),
    };
    let said = process::output(command, PATIENCE, &lab.undo, &lab.interrupt)?;
    match kind {
        Kind::Flames => flames::draw(&said).context("no samples of the servers"),
        Kind::Seeks => {
            let devices: Vec<(u32, u32)> = cluster.data.iter().filter_map(|name| seeks::device(name)).collect();
            seeks::draw(&said, &devices).context("no requests of the data disks")
        }
    }
}
