//! What `nacre lab` does.

use crate::lab::Lab;
use crate::plan::order::{self, Batch};
use crate::plan::{Experiment, reader};
use crate::process::{Interrupt, Interrupted};
use crate::progress::minutes;
use crate::undo::Undo;
use crate::{run, workload};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Options of a run of an experiment.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The `nacre` program.
    pub nacre: PathBuf,
    /// The experiment file.
    pub file: PathBuf,
    /// Place where results go.
    pub out: PathBuf,
    /// With the values of the tables `quick`.
    pub quick: bool,
    /// Disks that hold something may be wiped.
    pub wipe: bool,
    /// Runs that failed before are tried again.
    pub again: bool,
}

/// `nacre lab run`; gives the exit code: 0, or 130 if it was interrupted.
///
/// # Errors
/// The file is wrong, or results cannot be written.
pub fn run(options: &RunOptions, interrupt: Interrupt) -> Result<u8> {
    let experiment = reader::read(&options.file, options.quick)?;
    execute(options, &experiment, interrupt)
}

/// The same with an experiment that was read already.
///
/// # Errors
/// Results cannot be written.
pub fn execute(options: &RunOptions, experiment: &Experiment, interrupt: Interrupt) -> Result<u8> {
    std::fs::create_dir_all(&options.out).with_context(|| format!("make {}", options.out.display()))?;
    let out = std::fs::canonicalize(&options.out)?;
    let (undo, told) = Undo::open(&out)?;
    told.iter().for_each(|line| eprintln!("{line}"));
    let scratch = experiment.settings.given("scratch").map_or_else(|| out.join("scratch"), PathBuf::from);
    let lab = Lab { nacre: options.nacre.clone(), out, scratch, wipe: options.wipe, undo, interrupt };
    let ended = run::run(&lab, experiment, options.again);
    let _ = std::fs::remove_dir(&lab.scratch);
    match ended {
        Ok(s) => {
            eprintln!(
                "{} runs measured, {} failed, {} skipped, {} made before; results are in {}",
                s.done,
                s.failed,
                s.skipped,
                s.before,
                options.out.display()
            );
            Ok(0)
        }
        Err(e) if e.is::<Interrupted>() || lab.interrupt.is_set() => {
            eprintln!("interrupted; everything that was started has ended. The same command goes on where this stopped.");
            Ok(130)
        }
        Err(e) => Err(e),
    }
}

/// `nacre lab dry-run`: permutations, order and time.
///
/// # Errors
/// The file is wrong.
pub fn dry_run(file: &Path, quick: bool) -> Result<String> {
    let experiment = reader::read(file, quick)?;
    let batches = order::batches(&experiment);
    let runs = batches.iter().map(|b| b.runs.len()).sum::<usize>();
    let mut text = format!("{}\n\n", experiment.title());
    for (i, cluster) in experiment.clusters.iter().enumerate() {
        let keys: Vec<String> = cluster.0.keys().filter(|k| *k != "name").map(|k| format!("{k}={}", cluster.shown(k))).collect();
        text += &format!("cluster {:>3}  {:<20} {}\n", i + 1, cluster.text("name"), keys.join(" "));
    }
    for (i, w) in experiment.workloads.iter().enumerate() {
        let wanted = experiment.clusters.iter().filter(|c| experiment.wants(c, w)).count();
        let of = experiment.clusters.len();
        text += &format!("workload {:>2}  {:<20} on {wanted} of {of} clusters\n", i + 1, workload::title(w));
    }
    text += &format!(
        "\n{} permutations × {} repeats{} = {runs} runs in {} starts of clusters, about {}\n",
        experiment.clusters.iter().map(|c| experiment.workloads.iter().filter(|w| experiment.wants(c, w)).count()).sum::<usize>(),
        experiment.repeats(),
        if batches.iter().any(|b: &Batch| b.runs[0].again) { ", the first cluster twice for the noise," } else { "" },
        order::starts(&experiment, &batches),
        minutes(order::seconds(&experiment, &batches)),
    );
    Ok(text)
}
