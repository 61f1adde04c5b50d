//! One measurement: what it needs is written, then it is run and watched, and a record is made of it.

use crate::cluster::{self, Cluster};
use crate::disks::{self, Skip};
use crate::lab::Lab;
use crate::monitor::{Monitor, Watch, stages};
use crate::plan::Experiment;
use crate::plan::order::Run;
use crate::profile::Profiles;
use crate::results::{Record, Status};
use crate::workload::{self, Bench, Outcome};
use anyhow::{Context, Result};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Figures of the machine as a whole: they say nothing about one of several clusters under load at once.
const OF_THE_MACHINE: [&str; 4] = ["machine_", "busiest_core", "wait_cpu", "network_mb"];
/// The same of clients: the kernel adds up all that have ended.
const OF_CLIENTS: &str = "client_";

/// Writes what a run needs, and drops caches if the experiment says so.
pub(crate) fn prepare(lab: &Lab, experiment: &Experiment, cluster: &mut Cluster, run: &Run) -> Result<()> {
    let mut bench = Bench { lab, experiment, cluster, point: &run.workload };
    workload::prepare(&mut bench).context("prepare")?;
    drop_caches(&bench, &experiment.settings.text("drop_caches"))
}

/// Makes the measurement; gives the record and what the tools said. `alone` says that nothing else is under load
/// meanwhile.
pub(crate) fn observe(
    lab: &Lab,
    experiment: &Experiment,
    cluster: &mut Cluster,
    run: &Run,
    alone: bool,
) -> Result<(Record, String)> {
    let began = now();
    let mut bench = Bench { lab, experiment, cluster, point: &run.workload };
    let asked = experiment.monitor.flag("stages", true);
    let before = if asked { stages::count(&bench.cluster.sockets) } else { stages::Counted::default() };
    let interval = Duration::from_secs_f64(experiment.monitor.real("interval", 0.5));
    let monitor = Monitor::start(Watch::of(bench.cluster), interval);
    let outcome = workload::run(&mut bench);
    let (ops, bytes) = outcome.as_ref().map_or((0.0, 0.0), |o| (o.ops, o.bytes));
    let (mut figures, mut series) = monitor.stop(ops, bytes);
    let Outcome { command, said, figures: own, series: curves, .. } = outcome?;
    if !alone {
        figures.retain(|name, _| !OF_THE_MACHINE.iter().any(|n| name.starts_with(n)) && !name.starts_with(OF_CLIENTS));
        series.retain(|s| !s.name.starts_with("machine_"));
    }
    if asked {
        figures.extend(stages::count(&bench.cluster.sockets).since(&before));
        figures.extend(stages::slow(&bench.cluster.sockets).map(|n| ("slow_ops".to_owned(), n)));
    }
    figures.extend(own);
    series.splice(0..0, curves);
    let (run, message, profiles) = (run.clone(), String::new(), Profiles::default());
    Ok((Record { run, status: Status::Done, message, began, command, figures, series, profiles }, said))
}

/// Drops the kernel's page cache, and what the OSDs keep, if the experiment asks for it.
fn drop_caches(bench: &Bench<'_>, when: &str) -> Result<()> {
    let reads = matches!(bench.point.text("mode").as_str(), "seq" | "rand" | "read" | "randread");
    if when != "always" && !(when == "before-reads" && reads) {
        return Ok(());
    }
    disks::need_root("dropping the page cache")?;
    std::process::Command::new("sync").status().context("start sync")?;
    std::fs::write("/proc/sys/vm/drop_caches", "3").context("drop the page cache")?;
    if !bench.cluster.conf.as_os_str().is_empty() {
        cluster::tell(bench.lab, &bench.cluster.conf, &["tell", "osd.*", "cache", "drop"]).context("drop the OSDs' caches")?;
    }
    Ok(())
}

/// The error, with what the cluster says about itself if it is not well.
pub(crate) fn with_complaint(lab: &Lab, cluster: &Cluster, e: anyhow::Error) -> anyhow::Error {
    if cluster.conf.as_os_str().is_empty() || lab.interrupt.is_set() || e.chain().any(|c| c.is::<Skip>()) {
        return e;
    }
    match cluster::complaint(lab, &cluster.conf) {
        complaint if complaint.is_empty() => e,
        complaint => anyhow::anyhow!("{e:#}; {complaint}"),
    }
}

/// The record of a run that failed or cannot be done here.
pub(crate) fn failed(run: &Run, error: &anyhow::Error) -> Record {
    let skip = error.chain().find_map(|e| e.downcast_ref::<Skip>());
    Record {
        run: run.clone(),
        status: if skip.is_some() { Status::Skipped } else { Status::Failed },
        message: skip.map_or_else(|| format!("{error:#}"), |s| s.0.clone()),
        began: now(),
        command: String::new(),
        figures: Default::default(),
        series: Vec::new(),
        profiles: Profiles::default(),
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
