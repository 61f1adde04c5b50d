//! Runs an experiment: starts clusters, prepares and measures workloads, keeps what comes out, and goes on where it was interrupted.
//!
//! A run that fails or cannot be done here is recorded with the reason, and the next one follows; only an interruption ends it all.

use crate::cluster::{self, Cluster};
use crate::disks::{self, Skip};
use crate::environment;
use crate::lab::Lab;
use crate::monitor::{Monitor, Watch, stages};
use crate::plan::order::{self, Batch, Run};
use crate::plan::{Experiment, Point};
use crate::process::Interrupted;
use crate::progress::Progress;
use crate::results::{Record, Status, Store};
use crate::undo::Held;
use crate::workload::{self, Bench, Outcome};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Runs that were measured now.
    pub done: usize,
    /// Runs that failed.
    pub failed: usize,
    /// Runs that cannot be done here.
    pub skipped: usize,
    /// Runs that had been made before.
    pub before: usize,
}

/// Runs all that is not done yet. Runs that failed before are tried again if `again` says so.
///
/// # Errors
/// The user wants the end, or results cannot be written.
pub fn run(lab: &Lab, experiment: &Experiment, again: bool) -> Result<Summary> {
    let store = Store::make(&lab.out, experiment)?;
    std::fs::create_dir_all(&lab.scratch).with_context(|| format!("make {}", lab.scratch.display()))?;
    store.note(&environment::record(&lab.nacre, &lab.scratch))?;
    let mut summary = Summary::default();
    let open = |run: &Run| match store.get(&run.id) {
        None => true,
        Some(record) => again && record.status != Status::Done,
    };
    let mut batches = order::batches(experiment);
    for batch in &mut batches {
        let all = batch.runs.len();
        batch.runs.retain(&open);
        summary.before += all - batch.runs.len();
    }
    batches.retain(|b| !b.runs.is_empty());
    let _settings = tune(lab, experiment);
    let mut session = Session {
        lab,
        experiment,
        store,
        progress: Progress::new(batches.iter().map(|b| b.runs.len()).sum(), order::seconds(experiment, &batches)),
        clusters: Vec::new(),
        started: 0,
        summary,
    };
    for batch in &batches {
        session.batch(batch)?;
    }
    Ok(session.summary)
}

/// Settings of the machine for the time of the experiment.
fn tune(lab: &Lab, experiment: &Experiment) -> Vec<Held> {
    let mut held = Vec::new();
    if let Some(governor) = experiment.tuning.given("governor") {
        for cpu in 0.. {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
            match disks::set(lab, Path::new(&path), &governor) {
                Ok(setting) => held.push(setting),
                Err(e) => {
                    if cpu == 0 {
                        eprintln!("the governor stays as it is: {e:#}");
                    }
                    break;
                }
            }
        }
    }
    held
}

struct Session<'a> {
    lab: &'a Lab,
    experiment: &'a Experiment,
    store: Store,
    progress: Progress,
    /// Those that run; under `frozen` all of them, stopped but for one.
    clusters: Vec<Cluster>,
    started: usize,
    summary: Summary,
}

impl Session<'_> {
    fn frozen(&self) -> bool {
        self.experiment.settings.text("running") == "frozen"
    }

    fn batch(&mut self, batch: &Batch) -> Result<()> {
        self.lab.interrupt.check()?;
        let at = match self.ready(&batch.cluster) {
            Ok(at) => at,
            Err(e) if e.is::<Interrupted>() || self.lab.interrupt.is_set() => bail!(Interrupted),
            Err(e) => return self.give_up(batch, &e),
        };
        for (i, run) in batch.runs.iter().enumerate() {
            self.progress.begin(&format!(
                "{}: {} ({}/{})",
                run.cluster.text("name"),
                workload::title(&run.workload),
                run.repeat + 1,
                self.experiment.repeats()
            ));
            let (record, said) = self.one(run, at);
            self.lab.interrupt.check()?;
            self.keep(&record, &said)?;
            // A daemon that has ended takes the rest of the batch with it; say so for each.
            if let Err(e) = self.clusters[at].must_live() {
                let rest = Batch { cluster: batch.cluster.clone(), runs: batch.runs[i + 1..].to_vec() };
                self.clusters.remove(at);
                return self.give_up(&rest, &e);
            }
            self.lab.interrupt.sleep(Duration::from_secs_f64(self.experiment.settings.real("cooldown", 0.3)))?;
        }
        match self.frozen() {
            true => self.clusters[at].freeze(true),
            false => self.clusters.clear(),
        }
        Ok(())
    }

    /// The place of the cluster of this permutation among those that run; it is started if it does not.
    fn ready(&mut self, point: &Point) -> Result<usize> {
        if let Some(at) = self.clusters.iter().position(|c| c.point == *point) {
            self.clusters[at].freeze(false);
            return Ok(at);
        }
        self.progress.begin(&format!("start {}", point.text("name")));
        self.started += 1;
        let cluster = cluster::start(self.lab, self.experiment, point, self.started)?;
        self.clusters.push(cluster);
        Ok(self.clusters.len() - 1)
    }

    fn give_up(&mut self, batch: &Batch, error: &anyhow::Error) -> Result<()> {
        for run in &batch.runs {
            let record = failed(run, error);
            self.keep(&record, &record.message)?;
        }
        Ok(())
    }

    fn keep(&mut self, record: &Record, said: &str) -> Result<()> {
        match record.status {
            Status::Done => self.summary.done += 1,
            Status::Failed => self.summary.failed += 1,
            Status::Skipped => self.summary.skipped += 1,
        }
        if record.status != Status::Done {
            self.progress.say(&format!("{}: {}", record.run.id, record.message));
        }
        self.progress.end();
        self.store.put(record, said)
    }

    fn one(&mut self, run: &Run, at: usize) -> (Record, String) {
        let began = now();
        match self.measure(run, at) {
            Ok((mut record, said)) => {
                record.began = began;
                (record, said)
            }
            Err(e) => (failed(run, &e), format!("{e:#}")),
        }
    }

    fn measure(&mut self, run: &Run, at: usize) -> Result<(Record, String)> {
        let (lab, experiment) = (self.lab, self.experiment);
        let mut bench = Bench { lab, experiment, cluster: &mut self.clusters[at], point: &run.workload };
        workload::prepare(&mut bench).context("prepare")?;
        drop_caches(&bench, &experiment.settings.text("drop_caches"))?;
        let asked = experiment.monitor.flag("stages", true);
        let before = if asked { stages::count(&bench.cluster.sockets) } else { stages::Counted::default() };
        let interval = Duration::from_secs_f64(experiment.monitor.real("interval", 0.5));
        let monitor = Monitor::start(Watch::of(bench.cluster), interval);
        let outcome = workload::run(&mut bench);
        let (ops, bytes) = outcome.as_ref().map_or((0.0, 0.0), |o| (o.ops, o.bytes));
        let (mut figures, mut series) = monitor.stop(ops, bytes);
        let Outcome { command, said, figures: own, series: curves, .. } = outcome?;
        if asked {
            figures.extend(stages::count(&bench.cluster.sockets).since(&before));
            figures.extend(stages::slow(&bench.cluster.sockets).map(|n| ("slow_ops".to_owned(), n)));
        }
        figures.extend(own);
        series.splice(0..0, curves);
        let record =
            Record { run: run.clone(), status: Status::Done, message: String::new(), began: now(), command, figures, series };
        Ok((record, said))
    }
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

fn failed(run: &Run, error: &anyhow::Error) -> Record {
    let skip = error.chain().find_map(|e| e.downcast_ref::<Skip>());
    Record {
        run: run.clone(),
        status: if skip.is_some() { Status::Skipped } else { Status::Failed },
        message: skip.map_or_else(|| format!("{error:#}"), |s| s.0.clone()),
        began: now(),
        command: String::new(),
        figures: Default::default(),
        series: Vec::new(),
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
