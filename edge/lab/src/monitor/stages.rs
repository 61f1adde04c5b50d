//! Per-stage latencies, slow operations and latency classes that OSDs tell through their admin sockets.

use super::Figures;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time that an OSD may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Most bytes of an answer.
const MOST: usize = 64 << 20;

/// Stages of both systems: where they are in `perf dump`, and how the report calls them. Their borders differ.
const STAGES: [(&str, &str); 15] = [
    ("stages.write_queued", "write: until its group takes it"),
    ("stages.write_executing", "write: until the store has it"),
    ("stages.write_journaling", "write: until it is durable here"),
    ("stages.write_copying", "write: until it is durable on the other copies"),
    ("stages.write_replying", "write: until the reply is handed over"),
    ("stages.write_total", "write: in the OSD, all"),
    ("stages.read_total", "read: in the OSD, all"),
    ("osd.op_w_latency", "write: in the OSD, all"),
    ("osd.op_w_prepare_latency", "write: until the store has it"),
    ("osd.op_r_latency", "read: in the OSD, all"),
    ("bluestore.state_kv_queued_lat", "write: until the committing thread takes it"),
    ("bluestore.state_kv_commiting_lat", "write: until RocksDB has committed it"),
    ("filestore.journal_latency", "write: until the journal has it"),
    ("filestore.apply_latency", "write: until the file system has it"),
    ("bluestore.kv_flush_lat", "write: of that, one flush of the disk"),
];

/// Counters of OSDs so far.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    stages: BTreeMap<&'static str, (f64, f64)>,
    reads: Vec<f64>,
    writes: Vec<f64>,
}

/// Asks an admin socket; `None` if it does not answer with JSON.
pub fn ask(socket: &Path, command: &str) -> Option<Value> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(format!("{{\"prefix\":\"{command}\"}}\0").as_bytes()).ok()?;
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut text = vec![0; (u32::from_be_bytes(length) as usize).min(MOST)];
    stream.read_exact(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Asks all OSDs.
pub fn count(sockets: &[PathBuf]) -> Counted {
    let mut counted = Counted::default();
    for socket in sockets {
        let dump = ask(socket, "perf dump").unwrap_or_default();
        for (path, _) in STAGES {
            let value = path.split('.').fold(&dump, |v, name| &v[name]);
            if let (Some(n), Some(sum)) = (value["avgcount"].as_f64(), value["sum"].as_f64()) {
                let entry = counted.stages.entry(path).or_default();
                *entry = (entry.0 + n, entry.1 + sum);
            }
        }
        let classes = ask(socket, "perf histogram dump").unwrap_or_default();
        add(&mut counted.writes, &classes["osd"]["op_w_latency_histogram"]["values"]);
        add(&mut counted.reads, &classes["osd"]["op_r_latency_histogram"]["values"]);
    }
    counted
}

/// Adds an OSD's classes of powers of two, whose first one ends at a quarter of a microsecond.
fn add(sum: &mut Vec<f64>, classes: &Value) {
    for (i, n) in classes.as_array().into_iter().flatten().enumerate() {
        if sum.len() <= i {
            sum.push(0.0);
        }
        sum[i] += n.as_f64().unwrap_or(0.0);
    }
}

/// A quantile in microseconds, as if what a class holds were spread evenly over it; `None` without counts.
pub fn quantile(classes: &[f64], q: f64) -> Option<f64> {
    let wanted = classes.iter().sum::<f64>() * q;
    let mut seen = 0.0;
    for (i, &n) in classes.iter().enumerate() {
        if n > 0.0 && seen + n >= wanted {
            let high = 2f64.powi(i as i32 - 2);
            let low = if i == 0 { 0.0 } else { high / 2.0 };
            return Some(low + (high - low) * (wanted - seen) / n);
        }
        seen += n;
    }
    None
}

impl Counted {
    /// Figures of what was counted after `earlier`.
    pub fn since(&self, earlier: &Self) -> Figures {
        let mut figures = Figures::new();
        for (path, what) in STAGES {
            let (Some(now), Some(then)) = (self.stages.get(path), earlier.stages.get(path)) else { continue };
            let n = now.0 - then.0;
            if n >= 1.0 {
                figures.insert(format!("stage {what}"), (now.1 - then.1) / n * 1e6);
            }
        }
        let less = |a: &[f64], b: &[f64]| a.iter().enumerate().map(|(i, n)| n - b.get(i).unwrap_or(&0.0)).collect::<Vec<_>>();
        let both = [less(&self.writes, &earlier.writes), less(&self.reads, &earlier.reads)];
        // Of what there was more of: a workload that only reads writes a little all the same.
        let more = if both[0].iter().sum::<f64>() >= both[1].iter().sum::<f64>() { &both[0] } else { &both[1] };
        if let Some(p99) = quantile(more, 0.99) {
            figures.insert("server_p99_ms".into(), p99 / 1e3);
        }
        figures
    }
}

/// Operations that OSDs remember as slow.
pub fn slow(sockets: &[PathBuf]) -> Option<f64> {
    let count = |s: &PathBuf| ask(s, "dump_historic_slow_ops").and_then(|v| v["Ops"].as_array().map(|a| a.len() as f64));
    sockets.iter().map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_come_from_classes() {
        let mut classes = Vec::new();
        assert_eq!(quantile(&classes, 0.99), None);
        add(&mut classes, &serde_json::json!([0, 0, 0, 0, 0, 0, 100]));
        assert_eq!((quantile(&classes, 0.5), quantile(&classes, 1.0)), (Some(12.0), Some(16.0)));
    }

    #[test]
    fn stages_are_means_of_what_came_after() {
        let at = |n: f64, sum: f64| Counted { stages: [("stages.write_total", (n, sum))].into(), ..Counted::default() };
        let figures = at(30.0, 0.5).since(&at(10.0, 0.1));
        assert_eq!(figures["stage write: in the OSD, all"], 20_000.0);
        assert!(at(10.0, 0.1).since(&at(10.0, 0.1)).is_empty());
        assert_eq!(ask(Path::new("/nowhere"), "perf dump"), None);
    }
}
