//! Counters of the path of an operation, and the slowest and latest operations. Cheap and always on.

use node::Mono;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;

/// Latencies in classes of powers of two microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latency {
    count: u64,
    nanos: u64,
    classes: [u64; 28],
}

impl Latency {
    pub(crate) fn record(&mut self, d: Duration) {
        self.count += 1;
        self.nanos += d.as_nanos() as u64;
        let class = (u64::BITS - (d.as_micros() as u64).leading_zeros()) as usize;
        self.classes[class.min(self.classes.len() - 1)] += 1;
    }

    /// Mean in microseconds, 0 without any.
    pub(crate) fn mean_us(&self) -> u64 {
        self.nanos.checked_div(self.count).unwrap_or(0) / 1000
    }

    /// Upper bound of the class that holds the quantile, in microseconds.
    fn quantile_us(&self, q: f64) -> u64 {
        let wanted = (self.count as f64 * q).ceil() as u64;
        let mut seen = 0;
        for (class, n) in self.classes.iter().enumerate() {
            seen += n;
            if seen >= wanted {
                return 1 << class;
            }
        }
        0
    }

    fn json(&self) -> Value {
        json!({
            "avgcount": self.count,
            "sum": self.nanos as f64 / 1e9,
            "avgtime": self.nanos as f64 / 1e9 / self.count.max(1) as f64,
            "p50_us": self.quantile_us(0.5),
            "p99_us": self.quantile_us(0.99),
            "classes_us": self.classes,
        })
    }
}

/// An operation that ended.
#[derive(Clone, Debug)]
pub(crate) struct Finished {
    pub(crate) description: String,
    pub(crate) at: types::UTime,
    pub(crate) took: Duration,
}

/// All counters.
#[derive(Default)]
pub(crate) struct Perf {
    pub(crate) ops: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) dropped: u64,
    pub(crate) denied: u64,
    pub(crate) maps_shared: u64,
    pub(crate) read_latency: Latency,
    pub(crate) write_latency: Latency,
    /// Writes since the last report, for `osd perf`.
    pub(crate) recent_writes: Latency,
    history: VecDeque<Finished>,
    pub(crate) rounds: u64,
    started: Mono,
}

impl Perf {
    pub(crate) fn new(now: Mono) -> Self {
        Self { started: now, ..Self::default() }
    }

    /// Remembers a finished operation, among the latest `keep`.
    pub(crate) fn remember(&mut self, finished: Finished, keep: usize) {
        while self.history.len() >= keep.max(1) {
            self.history.pop_front();
        }
        if keep > 0 {
            self.history.push_back(finished);
        }
    }

    /// The latest operations.
    pub(crate) fn history(&self) -> Value {
        let ops: Vec<Value> = self.history.iter().map(finished_json).collect();
        json!({ "num_ops": ops.len(), "ops": ops })
    }

    /// The counters, in the manner of `perf dump`.
    pub(crate) fn json(&self, now: Mono) -> Value {
        json!({
            "op": self.ops,
            "op_r": self.reads,
            "op_w": self.writes,
            "op_in_bytes": self.bytes_in,
            "op_out_bytes": self.bytes_out,
            "op_dropped": self.dropped,
            "op_denied": self.denied,
            "op_r_latency": self.read_latency.json(),
            "op_w_latency": self.write_latency.json(),
            "maps_shared": self.maps_shared,
            "reactor_rounds": self.rounds,
            "uptime": now.since(self.started).as_secs_f64(),
        })
    }
}

fn finished_json(f: &Finished) -> Value {
    json!({ "description": f.description, "initiated_at": f.at.iso(), "duration": f.took.as_secs_f64() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_fall_into_their_classes() {
        let mut l = Latency::default();
        for us in [0, 1, 3, 100, 100, 5000] {
            l.record(Duration::from_micros(us));
        }
        assert_eq!((l.count, l.mean_us()), (6, 867));
        assert_eq!((l.quantile_us(0.5), l.quantile_us(0.99)), (4, 8192));
    }
}
