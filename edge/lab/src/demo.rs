//! `nacre demo`: a temporary cluster, the matrix, the table.

use crate::cluster::Cluster;
use crate::progress::Progress;
use crate::{matrix, rados, table};
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Pool that is measured.
const POOL: &str = "bench";

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `nacre` program.
    pub nacre: PathBuf,
    /// Where the cluster's folder is made.
    pub folder: PathBuf,
    /// Number of OSDs.
    pub osds: u32,
    /// `none` or `cephx`.
    pub auth: String,
    /// Seconds of each measurement.
    pub seconds: u32,
    /// Only measurements whose name holds this.
    pub only: String,
    /// Print JSON instead of a table.
    pub json: bool,
    /// Set when it shall end early, and clean up.
    pub interrupted: Arc<AtomicBool>,
}

/// Runs it. The cluster is stopped and removed also if a measurement fails.
///
/// # Errors
/// The cluster or a client fails.
pub fn run(options: &Options) -> Result<()> {
    let runs = matrix::runs(&options.only);
    if runs.is_empty() {
        bail!("no measurement has '{}' in its name; they are called like 'rand 128K x16'", options.only);
    }
    eprintln!("starting a cluster of {} OSDs in {}", options.osds, options.folder.display());
    let cluster = Cluster::start(&options.nacre, &options.folder, options.osds, &options.auth)?;
    rados::client("ceph", &["osd", "pool", "create", POOL, "32", "32"], &cluster.conf())?;
    let mut progress = Progress::new(runs.len());
    let mut rows = Vec::new();
    for run in &runs {
        progress.begin(&run.name());
        let measured = matrix::measure(run, options.seconds, POOL, &cluster);
        if options.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted; the cluster is removed");
        }
        rows.push(measured?);
        progress.end();
    }
    drop(progress);
    cluster.stop()?;
    match options.json {
        true => println!("{}", serde_json::to_string_pretty(&rows)?),
        false => println!("{}", table::render(&rows)),
    }
    Ok(())
}
