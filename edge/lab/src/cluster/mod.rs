//! Clusters under test: ours, a real Ceph from packages, or one that runs already.
//!
//! Owner: [`Cluster`] owns its daemons, disks, mounts and folder; dropping it ends them in that order. Every cluster
//! has one pool that is measured, [`POOL`], and a ceph.conf for clients in which librbd's cache is off, so that a
//! benchmark reaches the servers.

mod ceph;
mod client;
pub mod gateway;
mod nacre;
pub mod release;

use crate::disks::filesystem::Mounted;
use crate::disks::{self, Prepared};
use crate::lab::Lab;
use crate::plan::{Experiment, Point};
use crate::process::Daemon;
use crate::undo::{Held, Thing};
use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub use client::{ceph as tell, complaint};

/// Returns true if all groups are active and clean, as far as the cluster says.
pub fn health(lab: &Lab, conf: &Path) -> bool {
    client::clean(lab, conf).unwrap_or(false)
}

/// The pool that is measured.
pub const POOL: &str = "lab";

/// A cluster that serves. Its parts end in the order of the fields.
#[derive(Default)]
pub struct Cluster {
    /// The permutation that it was made from.
    pub point: Point,
    /// Ceph's object gateway on it; it counts as a client.
    pub gateway: Option<gateway::Gateway>,
    daemons: Vec<(String, Daemon)>,
    /// Processes of a cluster that was there before.
    foreign: Vec<u32>,
    /// ceph.conf for clients; empty if there is no cluster, only disks.
    pub conf: PathBuf,
    /// Admin sockets of the OSDs.
    pub sockets: Vec<PathBuf>,
    /// Data disks in /proc/diskstats.
    pub data: Vec<String>,
    /// Journal disks in /proc/diskstats.
    pub journal: Vec<String>,
    /// Paths of the data disks and of the journal disk, for baselines.
    pub disks: Vec<PathBuf>,
    /// Path of the journal disk.
    pub journal_disk: Option<PathBuf>,
    /// Data that was written already, as workloads call it.
    pub written: BTreeSet<String>,
    /// Commands that start a daemon again, by its name.
    again: Vec<(String, Restart)>,
    mounts: Vec<Mounted>,
    parts: Vec<Prepared>,
    prepared: Vec<Prepared>,
    folder: Option<Held>,
}

type Restart = Box<dyn Fn() -> std::process::Command + Send>;

impl Cluster {
    /// Name in reports.
    pub fn name(&self) -> String {
        self.point.text("name")
    }

    /// Processes of the servers.
    pub fn servers(&self) -> Vec<u32> {
        self.daemons.iter().map(|(_, d)| d.pid()).chain(self.foreign.iter().copied()).collect()
    }

    /// Stops all its processes for a while (`true`) or lets them go on.
    pub fn freeze(&self, still: bool) {
        for pid in self.servers().into_iter().chain(self.gateway.as_ref().map(gateway::Gateway::pid)) {
            let _ = kill(Pid::from_raw(pid as i32), if still { Signal::SIGSTOP } else { Signal::SIGCONT });
        }
    }

    /// # Errors
    /// A daemon has ended by itself; its log's last lines.
    pub fn must_live(&mut self) -> Result<()> {
        for (name, daemon) in &mut self.daemons {
            if let Some(status) = daemon.has_ended() {
                bail!("{name} of '{}' ended with {status}: {}", self.point.text("name"), client::last_log(&self.conf, name));
            }
        }
        Ok(())
    }

    /// The process of a daemon, as `osd.0`.
    pub fn pid_of(&self, name: &str) -> Option<u32> {
        self.daemons.iter().find(|(n, _)| n == name).map(|(_, d)| d.pid())
    }

    /// Ends a daemon at once, as a crash would.
    pub fn kill(&mut self, name: &str) {
        if let Some(pid) = self.pid_of(name) {
            let _ = kill(Pid::from_raw(pid as i32), Signal::SIGKILL);
        }
        self.daemons.retain(|(n, _)| n != name);
    }

    /// Starts a daemon that was killed.
    ///
    /// # Errors
    /// It does not start.
    pub fn restart(&mut self, lab: &Lab, name: &str) -> Result<()> {
        let (_, command) =
            self.again.iter().find(|(n, _)| n == name).with_context(|| format!("there is no {name} to start again"))?;
        let log = self.conf.with_file_name(format!("{name}.out"));
        self.daemons.push((name.to_owned(), Daemon::start(command(), &log, false, &lab.undo)?));
        Ok(())
    }
}

/// Starts the cluster of a permutation; `number` makes its folder's name its own.
///
/// # Errors
/// It cannot be made, or does not become healthy; the error says why. A `Skip` if it cannot be here at all.
pub fn start(lab: &Lab, experiment: &Experiment, point: &Point, number: usize) -> Result<Cluster> {
    let mut cluster = Cluster { point: point.clone(), ..Cluster::default() };
    let folder = lab.scratch.join(format!("{}-{number}", plain(&point.text("name"))));
    cluster.folder = Some(lab.undo.hold(Thing::Folder { path: folder.clone() })?);
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let ready = experiment.settings.real("ready", 90.0);
    match point.text("kind").as_str() {
        "existing" => client::adopt(point, &folder, &mut cluster)?,
        kind => {
            let places = places(lab, experiment, point, &folder, &mut cluster)?;
            match kind {
                "nacre" => nacre::start(lab, point, &folder, &places, &mut cluster)?,
                "ceph" => ceph::start(lab, point, &folder, &places, &mut cluster)?,
                _ => {}
            }
        }
    }
    pin(point, &cluster)?;
    if !cluster.conf.as_os_str().is_empty() {
        client::make_pool(lab, point, &mut cluster, ready)?;
        if point.flag("gateway", false) {
            cluster.gateway = Some(gateway::start(lab, point, &folder, &cluster.conf, ready)?);
        }
    }
    Ok(cluster)
}

/// Place where an OSD's data and journal go.
#[derive(Clone, Debug, Default)]
struct Place {
    /// A folder on a file system of its own, or in the cluster's folder.
    folder: PathBuf,
    /// A raw device or file for the data.
    raw: Option<PathBuf>,
    /// A raw device or file for the journal.
    journal: Option<PathBuf>,
}

fn places(lab: &Lab, e: &Experiment, point: &Point, folder: &Path, cluster: &mut Cluster) -> Result<Vec<Place>> {
    let osds = point.int("osds", 1) as usize;
    let each = point.int("osds_per_disk", 1).max(1) as usize;
    let fs = point.given("fs").filter(|fs| fs != "none");
    let disk = |key: &str| point.given(key).and_then(|name| e.disks.get(&name));
    let mut places: Vec<Place> =
        (0..osds).map(|i| Place { folder: folder.join(format!("data-{i}")), ..Place::default() }).collect();
    if let Some(spec) = disk("disk") {
        for index in 0..osds.div_ceil(each) {
            let prepared = disks::prepare(lab, spec, index, folder)?;
            cluster.data.extend(prepared.stats.clone());
            cluster.disks.push(prepared.path.clone());
            let users = &mut places[index * each..((index + 1) * each).min(osds)];
            if fs.is_some() {
                let mounted = disks::filesystem::mount(lab, &prepared, point, &folder.join(format!("mount-{index}")))?;
                users.iter_mut().enumerate().for_each(|(i, place)| place.folder = mounted.path.join(format!("osd-{i}")));
                cluster.mounts.push(mounted);
            } else if users.len() == 1 {
                users[0].raw = Some(prepared.path.clone());
            } else {
                for (i, place) in users.iter_mut().enumerate() {
                    let part = disks::part(lab, &prepared, i, each)?;
                    place.raw = Some(part.path.clone());
                    cluster.parts.push(part);
                }
            }
            cluster.prepared.push(prepared);
        }
    } else {
        cluster.data.extend(disks::device_below(folder));
    }
    if let Some(spec) = disk("journal") {
        let prepared = disks::prepare(lab, spec, 0, folder)?;
        cluster.journal.extend(prepared.stats.clone());
        cluster.journal_disk = Some(prepared.path.clone());
        for (i, place) in places.iter_mut().enumerate() {
            place.journal = Some(prepared.path.clone());
            if osds > 1 {
                let part = disks::part(lab, &prepared, i, osds)?;
                place.journal = Some(part.path.clone());
                cluster.parts.push(part);
            }
        }
        cluster.prepared.push(prepared);
    }
    for place in &places {
        std::fs::create_dir_all(&place.folder).with_context(|| format!("make {}", place.folder.display()))?;
    }
    Ok(places)
}

/// Keeps the servers on the processors that the experiment names.
fn pin(point: &Point, cluster: &Cluster) -> Result<()> {
    let Some(cpus) = point.given("cpus") else { return Ok(()) };
    for pid in cluster.servers() {
        let done = std::process::Command::new("taskset").args(["-a", "-c", "-p", &cpus, &pid.to_string()]).output();
        let done = done.context("start taskset (Debian's package util-linux has it)")?;
        if !done.status.success() {
            bail!("cpus '{cpus}': {}", String::from_utf8_lossy(&done.stderr).trim());
        }
    }
    Ok(())
}

/// Letters and figures only, for names of files.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// A port that is free now, and the one 1,000 above it; no other cluster of this program gets them, other programs only
/// by chance.
///
/// # Errors
/// There is none.
fn free_ports() -> Result<(u16, u16)> {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..100 {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let above = port.checked_add(1000).filter(|p| !given.contains(p) && !given.contains(&port));
        if let Some(above) = above.filter(|p| TcpListener::bind(("127.0.0.1", *p)).is_ok()) {
            given.extend([port, above]);
            return Ok((port, above));
        }
    }
    bail!("no two ports are free")
}
