//! `nacre up` as a process, in a folder that goes with it.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long it may take to serve.
const READY: Duration = Duration::from_secs(60);
/// How long it may take to stop.
const STOP: Duration = Duration::from_secs(30);

/// A running cluster. Stopped and removed when dropped.
pub struct Cluster {
    nacre: PathBuf,
    dir: PathBuf,
    osds: u32,
    child: Child,
}

impl Cluster {
    /// Starts one in a new folder below `folder`.
    ///
    /// # Errors
    /// It does not start; the error has its own words.
    pub fn start(nacre: &Path, folder: &Path, osds: u32, auth: &str) -> Result<Self> {
        let dir = std::path::absolute(folder)?.join(format!("nacre-demo-{}", std::process::id()));
        std::fs::create_dir_all(&dir).with_context(|| format!("make the folder {}", dir.display()))?;
        // A port that is free now; nothing takes it in between but by chance.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
        let osds_text = osds.to_string();
        let mut command = Command::new(nacre);
        command.arg("up").arg("--dir").arg(&dir).args(["--osds", &osds_text, "--port", &port, "--auth", auth]);
        let child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().context("start nacre up")?;
        let mut cluster = Self { nacre: nacre.to_owned(), dir, osds, child };
        cluster.until_ready()?;
        Ok(cluster)
    }

    fn until_ready(&mut self) -> Result<()> {
        let stdout = self.child.stdout.take().context("standard output of nacre up")?;
        let (sender, ready) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.filter(|l| l.starts_with("ready")).for_each(|_| {
                let _ = sender.send(());
            });
        });
        match ready.recv_timeout(READY) {
            Ok(()) => Ok(()),
            Err(_) => bail!("the cluster did not become ready; its logs were in {}/log", self.dir.display()),
        }
    }

    /// For clients.
    pub fn conf(&self) -> PathBuf {
        self.dir.join("ceph.conf")
    }

    /// Of the server.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Latencies of writes, or of reads, that the OSDs have counted so far.
    pub fn latencies(&self, writes: bool) -> Histogram {
        let mut sum = Histogram::default();
        for osd in 0..self.osds {
            let socket = self.dir.join(format!("osd.{osd}.asok"));
            let done = Command::new(&self.nacre).arg("admin").arg(socket).args(["perf", "histogram", "dump"]).output();
            let text = done.map(|d| d.stdout).unwrap_or_default();
            let dump: Value = serde_json::from_slice(&text).unwrap_or_default();
            let name = if writes { "op_w_latency_histogram" } else { "op_r_latency_histogram" };
            sum.add(&dump["osd"][name]["values"]);
        }
        sum
    }

    /// Stops it.
    ///
    /// # Errors
    /// It did not stop cleanly.
    pub fn stop(mut self) -> Result<()> {
        let told = Command::new("kill").arg(self.pid().to_string()).status().context("run kill")?;
        let until = Instant::now() + STOP;
        while told.success() && Instant::now() < until {
            if let Some(status) = self.child.try_wait()? {
                return if status.success() { Ok(()) } else { bail!("nacre up ended with {status}") };
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("the cluster did not stop")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Counts in classes of powers of two: class `i` holds what took less than `2^i` microseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram(Vec<f64>);

impl Histogram {
    /// Adds an OSD's classes, whose first one ends at a quarter of a microsecond.
    fn add(&mut self, classes: &Value) {
        for (i, n) in classes.as_array().into_iter().flatten().enumerate() {
            let i = i.saturating_sub(2);
            if self.0.len() <= i {
                self.0.push(0.0);
            }
            self.0[i] += n.as_f64().unwrap_or(0.0);
        }
    }

    /// What was counted after `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self(self.0.iter().enumerate().map(|(i, n)| n - earlier.0.get(i).unwrap_or(&0.0)).collect())
    }

    /// A quantile in microseconds, as if what a class holds were spread evenly over it; `None` without counts.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let wanted = self.0.iter().sum::<f64>() * q;
        let mut seen = 0.0;
        for (i, &n) in self.0.iter().enumerate() {
            if n > 0.0 && seen + n >= wanted {
                let (low, high) = (if i == 0 { 0.0 } else { f64::from(1u32 << (i - 1).min(31)) }, f64::from(1u32 << i.min(31)));
                return Some(low + (high - low) * (wanted - seen) / n);
            }
            seen += n;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_come_from_classes() {
        let mut h = Histogram::default();
        assert_eq!(h.quantile(0.99), None);
        h.add(&serde_json::json!([0, 0, 0, 0, 0, 0, 100]));
        assert_eq!((h.quantile(0.5), h.quantile(1.0)), (Some(12.0), Some(16.0)));
        let mut later = h.clone();
        later.add(&serde_json::json!([0, 0, 0, 0, 50, 0, 0, 50]));
        assert_eq!(later.since(&h).quantile(0.25), Some(3.0));
        assert_eq!(later.since(&h).quantile(1.0), Some(32.0));
    }
}
