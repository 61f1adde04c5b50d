//! What the machine does while a workload runs, from the kernel's own accounts.
//!
//! A thread takes a [`Sample`] every interval. Figures come from the first and the last one, curves from those between.
//! What the thread itself costs is measured and reported with the rest.

pub mod kernel;
pub mod stages;

use crate::cluster::Cluster;
use crate::results::Series;
use kernel::{Disk, Sample};
use nix::sys::resource::{UsageWho, getrusage};
use std::collections::BTreeMap;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Figures by name.
pub type Figures = BTreeMap<String, f64>;

/// Processes and disks that are watched.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// Processes of the servers.
    pub servers: Vec<u32>,
    /// Names of the data disks in /proc/diskstats.
    pub data: Vec<String>,
    /// Names of the journal disks.
    pub journal: Vec<String>,
}

impl Watch {
    /// Of a cluster.
    pub fn of(cluster: &Cluster) -> Self {
        Self { servers: cluster.servers(), data: cluster.data.clone(), journal: cluster.journal.clone() }
    }
}

/// A watch that runs.
pub struct Monitor {
    stop: Sender<()>,
    thread: JoinHandle<(Vec<Sample>, f64)>,
    client: f64,
    watch: Watch,
}

/// Processor seconds of the children of this process that have ended.
fn ended_children() -> f64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0.0, |u| seconds(u.user_time()) + seconds(u.system_time()))
}

fn own_thread() -> f64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0.0, |u| seconds(u.user_time()) + seconds(u.system_time()))
}

fn seconds(time: nix::sys::time::TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
}

impl Monitor {
    /// Begins to watch. No other child of this process but the workload's tools may end until it stops.
    pub fn start(watch: Watch, interval: Duration) -> Self {
        let (stop, stopped) = mpsc::channel();
        let watched = watch.clone();
        let client = ended_children();
        let thread = std::thread::spawn(move || {
            let mut samples = vec![Sample::take(&watched)];
            while stopped.recv_timeout(interval).is_err_and(|e| e == mpsc::RecvTimeoutError::Timeout) {
                samples.push(Sample::take(&watched));
            }
            samples.push(Sample::take(&watched));
            (samples, own_thread())
        });
        Self { stop, thread, client, watch }
    }

    /// Ends it: figures for `ops` operations and `bytes` bytes of the client, and curves.
    pub fn stop(self, ops: f64, bytes: f64) -> (Figures, Vec<Series>) {
        let _ = self.stop.send(());
        let (samples, own) = self.thread.join().unwrap_or_default();
        let client = ended_children() - self.client;
        let mut figures = figures(&samples, &self.watch, client, own, ops, bytes);
        figures.retain(|_, v| v.is_finite());
        (figures, curves(&samples, &self.watch))
    }
}

fn figures(samples: &[Sample], watch: &Watch, client: f64, own: f64, ops: f64, bytes: f64) -> Figures {
    let (Some(a), Some(b)) = (samples.first(), samples.last()) else { return Figures::new() };
    let time = b.at.duration_since(a.at).as_secs_f64();
    let mut f = Figures::new();
    let mut put = |name: &str, value: f64| f.insert(name.to_owned(), value);
    let busy = b.busy() - a.busy();
    let server = b.server - a.server;
    if !watch.servers.is_empty() {
        put("server_us", server * 1e6 / ops);
        put("server_cpu", server / time * 100.0);
        put("server_memory_mib", b.memory as f64 / f64::from(1 << 20));
    }
    put("client_us", client * 1e6 / ops);
    put("client_cpu", client / time * 100.0);
    put("machine_us", (busy - client - own).max(0.0) * 1e6 / ops);
    put("machine_cpu", busy / time / b.cores.len().max(1) as f64 * 100.0);
    let busiest = a.cores.iter().zip(&b.cores).map(|(a, b)| (b - a) / time * 100.0).fold(0.0, f64::max);
    put("busiest_core", busiest);
    put("wait_cpu", (b.waiting - a.waiting) / time * 100.0);
    put("monitor_cpu", own / time * 100.0);
    put("network_mb", (b.network - a.network) as f64 / 1e6 / time);
    for (side, names) in [("data", &watch.data), ("journal", &watch.journal)] {
        let disks: Vec<Disk> = names.iter().filter_map(|n| Some(b.disks.get(n)?.since(a.disks.get(n)?))).collect();
        if disks.is_empty() {
            continue;
        }
        let sum = |part: fn(&Disk) -> u64| disks.iter().map(part).sum::<u64>() as f64;
        let requests = sum(|d| d.reads + d.writes);
        put(&format!("{side}_util"), sum(|d| d.busy_ms) / time / 10.0 / disks.len() as f64);
        put(&format!("{side}_wait_ms"), if requests > 0.0 { sum(|d| d.waited_ms) / requests } else { 0.0 });
        put(&format!("{side}_queue"), sum(|d| d.queue_ms) / time / 1e3 / disks.len() as f64);
        put(&format!("{side}_requests"), requests / time);
        put(&format!("{side}_read_mb"), sum(|d| d.read) / 1e6 / time);
        put(&format!("{side}_write_mb"), sum(|d| d.written) / 1e6 / time);
        put(&format!("{side}_written_per_byte"), sum(|d| d.written) / bytes);
    }
    f
}

fn curves(samples: &[Sample], watch: &Watch) -> Vec<Series> {
    let Some(first) = samples.first() else { return Vec::new() };
    let curve = |name: &str, value: &dyn Fn(&Sample, &Sample, f64) -> f64| {
        let point = |pair: &[Sample]| {
            let time = pair[1].at.duration_since(pair[0].at).as_secs_f64();
            (time > 0.02).then(|| {
                let at = pair[1].at.duration_since(first.at).as_secs_f64();
                (round(at), round(value(&pair[0], &pair[1], time)))
            })
        };
        Series { name: name.to_owned(), points: samples.windows(2).filter_map(point).collect() }
    };
    let mut all = vec![curve("machine_cpu", &|a, b, t| (b.busy() - a.busy()) / t / b.cores.len().max(1) as f64 * 100.0)];
    if !watch.servers.is_empty() {
        all.push(curve("server_cpu", &|a, b, t| (b.server - a.server) / t * 100.0));
    }
    for (side, names) in [("data", &watch.data), ("journal", &watch.journal)] {
        let of = |a: &Sample, b: &Sample, part: fn(&Disk) -> f64| {
            names.iter().filter_map(|n| Some(part(&b.disks.get(n)?.since(a.disks.get(n)?)))).sum::<f64>()
        };
        if !names.is_empty() {
            let count = names.len() as f64;
            all.push(curve(&format!("{side}_write_mb"), &|a, b, t| of(a, b, |d| d.written as f64) / 1e6 / t));
            all.push(curve(&format!("{side}_util"), &|a, b, t| of(a, b, |d| d.busy_ms as f64) / t / 10.0 / count));
        }
    }
    all
}

/// Four significant digits are as many as such a point has.
fn round(x: f64) -> f64 {
    format!("{x:.3e}").parse().unwrap_or(x)
}

/// Time since a moment, as a limit for tools.
pub fn after(seconds: f64) -> Instant {
    Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, 1e7))
}
