//! The measurements of a matrix, in an order in which reads find what they read.

use crate::cluster::Cluster;
use crate::cpu;
use crate::rados::{self, Mode, Run};
use anyhow::Result;
use serde::Serialize;

/// Sizes of objects, in bytes.
pub const SIZES: [u64; 3] = [4 << 10, 128 << 10, 4 << 20];
/// Operations in flight.
pub const DEPTHS: [u32; 3] = [1, 16, 256];

/// All measurements whose name holds `only`, and the writes that reads among them need.
pub fn runs(only: &str) -> Vec<Run> {
    let mut all = Vec::new();
    for size in SIZES {
        for depth in DEPTHS {
            let runs = [Mode::Write, Mode::Seq, Mode::Rand].map(|mode| Run { mode, size, depth });
            let wanted = |run: &Run| run.name().contains(only);
            if runs.iter().any(wanted) {
                all.extend(runs.into_iter().filter(|run| run.mode == Mode::Write || wanted(run)));
            }
        }
    }
    all
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which measurement.
    pub name: String,
    /// Operations per second.
    pub ops_per_second: f64,
    /// Million bytes per second.
    pub megabytes_per_second: f64,
    /// Mean latency that the client saw, in milliseconds.
    pub mean_ms: f64,
    /// 99th percentile of the latency inside the OSDs, in milliseconds; `None` if they do not tell.
    pub server_p99_ms: Option<f64>,
    /// Longest latency that the client saw, in milliseconds.
    pub longest_ms: f64,
    /// Processor time of the server's process for each operation, in microseconds.
    pub server_us: f64,
    /// Processor time of the machine for each operation, but for the client's, in microseconds: with the kernel's threads that
    /// finish the server's work.
    pub machine_us: f64,
}

/// Makes one measurement.
///
/// # Errors
/// The client fails.
pub fn measure(run: &Run, seconds: u32, pool: &str, cluster: &Cluster) -> Result<Row> {
    let latencies = cluster.latencies(run.mode == Mode::Write);
    let (server, client, machine) = (cpu::process(cluster.pid())?, cpu::ended_children()?, cpu::machine()?);
    let figures = rados::bench(run, seconds, pool, &cluster.conf())?;
    let client = cpu::ended_children()? - client;
    let (server, machine) = (cpu::process(cluster.pid())? - server, cpu::machine()? - machine - client);
    let p99 = cluster.latencies(run.mode == Mode::Write).since(&latencies).quantile(0.99);
    let each = |seconds: f64| seconds.max(0.0) * 1e6 / figures.ops.max(1) as f64;
    let rate = figures.ops as f64 / figures.seconds;
    Ok(Row {
        name: run.name(),
        ops_per_second: rate,
        megabytes_per_second: rate * run.size as f64 / 1e6,
        mean_ms: figures.mean * 1e3,
        server_p99_ms: p99.map(|us| us / 1e3),
        longest_ms: figures.longest * 1e3,
        server_us: each(server),
        machine_us: each(machine),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_come_after_their_writes() {
        let all = runs("");
        assert_eq!(all.len(), 27);
        assert_eq!(all[0].name(), "write 4K x1");
        let names: Vec<String> = runs("rand 4K").iter().map(Run::name).collect();
        assert_eq!(names, ["write 4K x1", "rand 4K x1", "write 4K x16", "rand 4K x16", "write 4K x256", "rand 4K x256"]);
        assert!(runs("nothing").is_empty());
    }
}
