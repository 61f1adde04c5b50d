//! Workloads: what makes the load, and what its tools say about it.
//!
//! Two steps: [`prepare`] writes what is needed and is not measured, [`run`] is. Parsers of tools' output are pure
//! functions, tested on recorded output of the real tools (`testdata/`).

pub mod custom;
pub mod failover;
pub mod fio;
pub mod network;
pub mod rados;
pub mod rbd;
pub mod s3;
pub mod tell;

use crate::cluster::{Cluster, POOL};
use crate::lab::Lab;
use crate::monitor::{Figures, after};
use crate::plan::order::Run;
use crate::plan::{Experiment, Point, size_name};
use crate::process;
use crate::results::Series;
use anyhow::{Result, bail};
use std::process::Command;

/// Result of a workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The command.
    pub command: String,
    /// Output of the tools.
    pub said: String,
    /// Operations.
    pub ops: f64,
    /// Bytes of the client.
    pub bytes: f64,
    /// Seconds.
    pub seconds: f64,
    /// More figures, as latencies.
    pub figures: Figures,
    /// Curves.
    pub series: Vec<Series>,
}

impl Outcome {
    /// The results of several clients at once: rates are added, latencies weighted by operations, the longest is the
    /// longest of all.
    pub fn add(parts: Vec<Self>) -> Self {
        let mut sum = Self::default();
        let ops: f64 = parts.iter().map(|p| p.ops).sum();
        for part in &parts {
            sum.seconds = sum.seconds.max(part.seconds);
            sum.bytes += part.bytes;
            sum.said += &part.said;
            for (name, value) in &part.figures {
                let entry = sum.figures.entry(name.clone()).or_default();
                match name.as_str() {
                    "ops_per_second" | "mb_per_second" => *entry += value,
                    "longest_ms" => *entry = entry.max(*value),
                    _ => *entry += value * part.ops / ops.max(1.0),
                }
            }
        }
        sum.ops = ops;
        sum.command = parts.first().map(|p| p.command.clone()).unwrap_or_default();
        sum.series = add_curves(&parts);
        sum
    }
}

fn add_curves(parts: &[Outcome]) -> Vec<Series> {
    let Some(first) = parts.first() else { return Vec::new() };
    if parts.len() == 1 {
        return first.series.clone();
    }
    let mut all = first.series.clone();
    for series in &mut all {
        let same = parts[1..].iter().filter_map(|p| p.series.iter().find(|s| s.name == series.name));
        for other in same {
            series.points.iter_mut().zip(&other.points).for_each(|(p, o)| p.1 += o.1);
        }
        if series.name.ends_with("_ms") {
            series.points.iter_mut().for_each(|p| p.1 /= parts.len() as f64);
        }
    }
    all
}

/// Surroundings of a workload.
pub struct Bench<'a> {
    /// Surroundings.
    pub lab: &'a Lab,
    /// The experiment.
    pub experiment: &'a Experiment,
    /// The cluster.
    pub cluster: &'a mut Cluster,
    /// The workload's permutation.
    pub point: &'a Point,
}

impl Bench<'_> {
    /// Seconds of the measurement.
    pub fn seconds(&self) -> f64 {
        seconds_of(self.experiment, self.point)
    }

    /// Seconds of load before the measurement.
    pub fn ramp(&self) -> f64 {
        self.experiment.settings.real("ramp", 0.0)
    }

    /// Bytes of a request.
    pub fn size(&self) -> u64 {
        self.point.int("size", 4096)
    }

    /// Requests under way.
    pub fn depth(&self) -> u64 {
        self.point.int("depth", 16)
    }

    /// A stock client, told where the cluster is and which processors it may use.
    pub fn client(&self, program: &str) -> Command {
        let mut command = match self.experiment.settings.given("client_cpus") {
            Some(cpus) => {
                let mut taskset = Command::new("taskset");
                taskset.args(["-c", &cpus, program]);
                taskset
            }
            None => Command::new(program),
        };
        command.env("CEPH_CONF", &self.cluster.conf).env_remove("CEPH_ARGS").current_dir(&self.lab.scratch);
        command
    }

    /// Runs clients at once; what each said on standard output.
    ///
    /// # Errors
    /// One of them fails; what it said is in the error.
    pub fn together(&self, commands: Vec<Command>, seconds: f64) -> Result<Vec<(String, String)>> {
        let patience = self.experiment.settings.real("patience", 60.0);
        let limit = after(seconds + patience);
        let running: Vec<_> = commands.into_iter().map(|c| process::start(c, &self.lab.undo)).collect::<Result<_>>()?;
        let mut all = Vec::new();
        for client in running {
            let what = client.what().to_owned();
            let said = client.wait(limit, &self.lab.interrupt)?;
            match said.status {
                Some(status) if status.success() => all.push((what, said.out)),
                Some(status) => bail!("{what}: {status}: {}", process::last_lines(&said.err, &said.out)),
                None => {
                    bail!("{what}: did not end {patience:.0} s after its time: {}", process::last_lines(&said.err, &said.out))
                }
            }
        }
        Ok(all)
    }
}

fn seconds_of(e: &Experiment, point: &Point) -> f64 {
    point.real("seconds", e.settings.real("seconds", 5.0))
}

/// Seconds that a measurement takes, ramp included.
pub fn seconds(e: &Experiment, point: &Point) -> f64 {
    match point.text("kind").as_str() {
        "failover" => failover::seconds(seconds_of(e, point)) + 10.0,
        "rbd" | "tell" => seconds_of(e, point) + 1.0,
        _ => seconds_of(e, point) + e.settings.real("ramp", 0.0) + 0.5,
    }
}

/// Seconds that the runs of a batch need for what they read.
pub fn prefill_seconds(e: &Experiment, runs: &[Run]) -> f64 {
    let mut sizes: Vec<String> = Vec::new();
    let mut total = 0.0;
    for run in runs {
        let reads = matches!(run.workload.text("mode").as_str(), "seq" | "rand");
        let set = match run.workload.text("kind").as_str() {
            "rados" => rados::set(&run.workload),
            "fio" | "rbd" => "image".into(),
            "s3" if s3::reads(&run.workload) => s3::set(&run.workload),
            _ => continue,
        };
        if !sizes.contains(&set) {
            total += if run.workload.text("kind") == "rados" && !reads { 0.0 } else { e.settings.real("prefill", 3.0) };
            sizes.push(set);
        }
    }
    total
}

/// Writes what the workload needs.
///
/// # Errors
/// It cannot be written.
pub fn prepare(bench: &mut Bench<'_>) -> Result<()> {
    match bench.point.text("kind").as_str() {
        "rados" => rados::prepare(bench),
        "rbd" => rbd::prepare(bench),
        "fio" => fio::prepare(bench),
        "disk" => fio::fill(bench),
        "failover" => failover::prepare(bench),
        "s3" => s3::prepare(bench),
        _ => Ok(()),
    }
}

/// Runs it.
///
/// # Errors
/// It fails.
pub fn run(bench: &mut Bench<'_>) -> Result<Outcome> {
    let mut outcome = match bench.point.text("kind").as_str() {
        "rados" => rados::run(bench),
        "rbd" => rbd::run(bench),
        "fio" => fio::run(bench),
        "disk" | "mixed" => fio::raw(bench),
        "tell" => tell::run(bench),
        "network" => network::run(bench),
        "failover" => failover::run(bench),
        "s3" => s3::run(bench),
        _ => custom::run(bench),
    }?;
    if outcome.ops <= 0.0 {
        bail!("no operation was completed: {}", process::last_lines("", &outcome.said));
    }
    let rate = outcome.ops / outcome.seconds.max(1e-9);
    outcome.figures.entry("ops_per_second".into()).or_insert(rate);
    outcome.figures.entry("mb_per_second".into()).or_insert(outcome.bytes / 1e6 / outcome.seconds.max(1e-9));
    outcome.figures.insert("seconds".into(), outcome.seconds);
    outcome.figures.insert("ops".into(), outcome.ops);
    Ok(outcome)
}

/// Name of a workload: `write 4K ×16`.
pub fn title(point: &Point) -> String {
    let kind = point.text("kind");
    let size = point.0.contains_key("size").then(|| size_name(point.int("size", 0)));
    let clients = Some(point.int("clients", 1)).filter(|n| *n > 1).map(|n| format!("{n} clients"));
    let depth = point.0.contains_key("depth").then(|| format!("×{}", point.int("depth", 16)));
    let first = match (point.given("name"), point.given("mode"), kind.as_str()) {
        (Some(name), Some(mode), _) if !name.contains(&mode) => format!("{name} {mode}"),
        (Some(name), ..) => name,
        (None, Some(mode), "rados") => mode,
        (None, mode, kind) => {
            [Some(kind.to_owned()), point.given("action"), mode].into_iter().flatten().collect::<Vec<_>>().join(" ")
        }
    };
    [Some(first), size, clients, depth].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The pool's name, for tools.
pub fn pool() -> &'static str {
    POOL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_clients_are_added_up() {
        let part = |ops: f64, ms: f64, longest: f64| Outcome {
            ops,
            bytes: ops * 4096.0,
            seconds: 2.0,
            figures: [("ops_per_second", ops / 2.0), ("latency_ms", ms), ("longest_ms", longest)]
                .map(|(n, v)| (n.to_owned(), v))
                .into(),
            series: vec![Series { name: "ops_per_second".into(), points: vec![(1.0, ops)] }],
            ..Outcome::default()
        };
        let sum = Outcome::add(vec![part(100.0, 1.0, 9.0), part(300.0, 2.0, 5.0)]);
        assert_eq!((sum.ops, sum.figures["ops_per_second"]), (400.0, 200.0));
        assert_eq!((sum.figures["latency_ms"], sum.figures["longest_ms"]), (1.75, 9.0));
        assert_eq!(sum.series[0].points, [(1.0, 400.0)]);
    }
}
