//! What this OSD did for copies that other OSDs lead, with Ceph's names.

use crate::perf::{Latency, average};
use pg::CopyTime;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Changes of one kind.
#[derive(Default)]
struct Done {
    bytes: u64,
    /// From the arrival of a change until it was durable.
    total: Latency,
}

/// Counters of changes that other OSDs shipped to this one.
#[derive(Default)]
pub(crate) struct SubOps {
    /// Clients' writes and work of the group.
    writes: Done,
    /// What brought objects that this copy lacked.
    pushes: Done,
    queue: Latency,
    journal: Latency,
}

impl SubOps {
    /// A change is durable here.
    pub(crate) fn count(&mut self, pushes: bool, bytes: u64, time: CopyTime) {
        let (queue, journal) = (micros(time.queue), micros(time.journal));
        let done = if pushes { &mut self.pushes } else { &mut self.writes };
        done.bytes += bytes;
        done.total.record(queue + journal);
        self.queue.record(queue);
        self.journal.record(journal);
    }

    /// Counters for section `osd` of `perf dump`.
    pub(crate) fn counters(&self, out: &mut Map<String, Value>) {
        let (writes, pushes) = (self.writes.total.sum(), self.pushes.total.sum());
        let all = (writes.0 + pushes.0, writes.1 + pushes.1);
        for (name, sum, bytes) in [
            ("subop", all, self.writes.bytes + self.pushes.bytes),
            ("subop_w", writes, self.writes.bytes),
            ("subop_push", pushes, self.pushes.bytes),
        ] {
            out.insert(name.into(), json!(sum.0));
            out.insert(format!("{name}_in_bytes"), json!(bytes));
            out.insert(format!("{name}_latency"), average(sum));
        }
    }

    /// Kind `copy` of section `stages`: where the time of a change went here.
    pub(crate) fn stages(&self, show: impl Fn(&Latency) -> Value) -> Value {
        json!({ "queued": show(&self.queue), "journaling": show(&self.journal) })
    }

    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

fn micros(n: u32) -> Duration {
    Duration::from_micros(n.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_and_writes_are_counted_apart_and_together() {
        let mut sub_ops = SubOps::default();
        sub_ops.count(false, 4096, CopyTime { queue: 10, journal: 190 });
        sub_ops.count(false, 4096, CopyTime { queue: 0, journal: 200 });
        sub_ops.count(true, 1 << 20, CopyTime { queue: 100, journal: 900 });
        let mut out = Map::new();
        sub_ops.counters(&mut out);
        assert_eq!((&out["subop"], &out["subop_w"], &out["subop_push"]), (&json!(3), &json!(2), &json!(1)));
        assert_eq!((&out["subop_w_in_bytes"], &out["subop_in_bytes"]), (&json!(8192), &json!(8192 + (1 << 20))));
        assert_eq!(out["subop_w_latency"], json!({ "avgcount": 2, "sum": 4e-4, "avgtime": 2e-4 }));
        assert_eq!(sub_ops.stages(|l| average(l.sum()))["queued"]["sum"], json!(1.1e-4));
        sub_ops.reset();
        let mut out = Map::new();
        sub_ops.counters(&mut out);
        assert_eq!(out["subop"], json!(0));
    }
}
