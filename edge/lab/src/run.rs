//! Runs an experiment: starts clusters, prepares and measures workloads, keeps what comes out, and goes on where it was
//! interrupted.
//!
//! A run that fails or cannot be done here is recorded with the reason, and the next one follows; only an interruption
//! ends it all.

use crate::cluster::{self, Cluster};
use crate::disks;
use crate::environment;
use crate::lab::Lab;
use crate::measure::{failed, observe, prepare, with_complaint};
use crate::plan::order::{self, Batch, Run};
use crate::plan::{Experiment, Point};
use crate::process::Interrupted;
use crate::profile::{self, Profiles};
use crate::progress::Progress;
use crate::results::{Record, Status, Store};
use crate::undo::Held;
use crate::workload;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::time::Duration;

/// Counts of what was done.
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
    let together = experiment.settings.text("running") == "together";
    let rounds = if together { order::rounds(&batches) } else { Vec::new() };
    // What was measured together is measured again together.
    let again: Vec<&str> = rounds.iter().filter(|r| r.iter().any(&open)).flatten().map(|r| r.id.as_str()).collect();
    for batch in &mut batches {
        let all = batch.runs.len();
        batch.runs.retain(|run| open(run) || again.contains(&run.id.as_str()));
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
    match together {
        true => session.together(&batches)?,
        false => batches.iter().try_for_each(|batch| session.batch(batch))?,
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

/// Does it for all of them at once, each on a thread of its own; the answers come in the order of the items.
fn at_once<T: Send, R: Send>(items: Vec<T>, each: impl Fn(T) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let each = &each;
        let threads: Vec<_> = items.into_iter().map(|item| scope.spawn(move || each(item))).collect();
        threads.into_iter().filter_map(|t| t.join().ok()).collect()
    })
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
    /// All clusters run and are under the same load at the same moment; they are made afresh for each repeat.
    ///
    /// Two instances of one build differ by some per cent of processor time for as long as they live. Repeats on the
    /// same instances would share that difference, and a test of their pairs would take it for a difference of the
    /// builds.
    fn together(&mut self, batches: &[Batch]) -> Result<()> {
        let mut lost: Vec<Point> = Vec::new();
        let mut repeat = None;
        for round in order::rounds(batches) {
            if repeat.replace(round[0].repeat) != Some(round[0].repeat) {
                self.clusters.clear();
            }
            let wanted: Vec<&Point> = round.iter().map(|r| &r.cluster).filter(|c| !lost.contains(c)).collect();
            lost.extend(self.start_all(&wanted, batches)?);
            let runs: Vec<&Run> = round.iter().filter(|r| !lost.contains(&r.cluster)).collect();
            self.round(&runs)?;
            self.lab.interrupt.sleep(Duration::from_secs_f64(self.experiment.settings.real("cooldown", 0.3)))?;
        }
        Ok(())
    }

    /// Starts, at once, those of the clusters that do not run. Gives those that cannot be started; their runs that have
    /// no record fail.
    fn start_all(&mut self, wanted: &[&Point], batches: &[Batch]) -> Result<Vec<Point>> {
        self.lab.interrupt.check()?;
        let missing: Vec<&Point> = wanted.iter().filter(|p| !self.clusters.iter().any(|c| c.point == ***p)).copied().collect();
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        self.progress.begin(&format!("start {}", missing.iter().map(|p| p.text("name")).collect::<Vec<_>>().join(", ")));
        let (lab, experiment, before) = (self.lab, self.experiment, self.started);
        self.started += missing.len();
        let numbered = missing.into_iter().zip(before + 1..).collect();
        let started = at_once(numbered, |(point, number)| (point, cluster::start(lab, experiment, point, number)));
        let mut lost = Vec::new();
        for (point, cluster) in started {
            match cluster {
                Ok(cluster) => self.clusters.push(cluster),
                Err(e) if e.is::<Interrupted>() || lab.interrupt.is_set() => bail!(Interrupted),
                Err(e) => {
                    for batch in batches.iter().filter(|b| b.cluster == *point) {
                        let runs = batch.runs.iter().filter(|r| self.store.get(&r.id).is_none()).cloned().collect();
                        self.give_up(&Batch { cluster: batch.cluster.clone(), runs }, &e)?;
                    }
                    lost.push(point.clone());
                }
            }
        }
        Ok(lost)
    }

    /// One workload on several clusters at once.
    fn round(&mut self, runs: &[&Run]) -> Result<()> {
        let Some(first) = runs.first() else { return Ok(()) };
        self.progress.begin(&format!(
            "{} ({}/{})",
            workload::title(&first.workload),
            first.repeat + 1,
            self.experiment.repeats()
        ));
        let (lab, experiment) = (self.lab, self.experiment);
        let mut pairs: Vec<(&Run, &mut Cluster)> = Vec::new();
        for cluster in &mut self.clusters {
            if let Some(run) = runs.iter().find(|r| r.cluster == cluster.point) {
                pairs.push((run, cluster));
            }
        }
        // Nothing is measured before all are prepared.
        let ready = at_once(pairs, |(run, cluster)| {
            let ready = prepare(lab, experiment, cluster, run);
            (run, cluster, ready)
        });
        let measured = at_once(ready, |(run, cluster, ready)| {
            let done = ready.and_then(|()| observe(lab, experiment, cluster, run, false));
            done.or_else(|e| cluster.must_live().and(Err(e))).unwrap_or_else(|e| {
                let e = with_complaint(lab, cluster, e);
                (failed(run, &e), format!("{e:#}"))
            })
        });
        lab.interrupt.check()?;
        let measured = measured.into_iter().map(|(mut record, said)| {
            if profile::due(experiment, &record.run) {
                record.profiles = Profiles::none("clusters are under load together; profiles are made of one at a time");
            }
            (record, said)
        });
        let measured: Vec<(Record, String)> = measured.collect();
        measured.iter().try_for_each(|(record, said)| self.keep(record, said))
    }

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
            let (mut record, said) = self.one(run, at);
            self.lab.interrupt.check()?;
            if record.status == Status::Done && profile::due(self.experiment, run) {
                record.profiles = profile::pass(self.lab, self.experiment, &mut self.clusters[at], run);
                self.lab.interrupt.check()?;
            }
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
        let (lab, experiment, cluster) = (self.lab, self.experiment, &mut self.clusters[at]);
        let done = prepare(lab, experiment, cluster, run).and_then(|()| observe(lab, experiment, cluster, run, true));
        done.unwrap_or_else(|e| {
            let e = with_complaint(lab, cluster, e);
            (failed(run, &e), format!("{e:#}"))
        })
    }
}
