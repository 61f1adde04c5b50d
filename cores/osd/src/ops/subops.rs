//! What this OSD did for copies that other OSDs lead, with Ceph's names where it has some (those of reads are of later
//! releases).

use crate::perf::{Latency, average};
use counters::Readings;
use pg::CopyTime;
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
    /// Updates that brought objects that this copy lacked.
    pushes: Done,
    queue: Latency,
    journal: Latency,
    /// Clients' reads that were answered here.
    reads: u64,
    /// Those that were sent to the primary.
    sent_back: u64,
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

    /// A client sent a read to a copy here that does not lead.
    pub(crate) fn read_aside(&mut self, answered: bool) {
        let counter = if answered { &mut self.reads } else { &mut self.sent_back };
        *counter += 1;
    }

    /// Counters for section `osd` of `perf dump`.
    pub(crate) fn counters(&self, out: &mut Readings) {
        let (writes, pushes) = (self.writes.total.sum(), self.pushes.total.sum());
        let all = (writes.0 + pushes.0, writes.1 + pushes.1);
        for (name, sum, bytes) in [
            ("subop", all, self.writes.bytes + self.pushes.bytes),
            ("subop_w", writes, self.writes.bytes),
            ("subop_push", pushes, self.pushes.bytes),
        ] {
            out.put(name, sum.0);
            out.put(format!("{name}_in_bytes"), bytes);
            out.put(format!("{name}_latency"), average(sum));
        }
        out.put("replica_read", self.reads + self.sent_back);
        out.put("replica_read_served", self.reads);
        out.put("replica_read_redirect", self.sent_back);
    }

    /// Returns the stages of kind `copy`: where the time of a change went here.
    pub(crate) fn stages(&self) -> [(&'static str, &Latency); 2] {
        [("queued", &self.queue), ("journaling", &self.journal)]
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
    use serde_json::json;

    #[test]
    fn pushes_and_writes_are_counted_apart_and_together() {
        let mut sub_ops = SubOps::default();
        sub_ops.count(false, 4096, CopyTime { queue: 10, journal: 190 });
        sub_ops.count(false, 4096, CopyTime { queue: 0, journal: 200 });
        sub_ops.count(true, 1 << 20, CopyTime { queue: 100, journal: 900 });
        let told = |sub_ops: &SubOps| {
            let mut out = Readings::default();
            sub_ops.counters(&mut out);
            counters::osd::OSD.dump(&out)
        };
        let out = told(&sub_ops);
        assert_eq!((&out["subop"], &out["subop_w"], &out["subop_push"]), (&json!(3), &json!(2), &json!(1)));
        assert_eq!((&out["subop_w_in_bytes"], &out["subop_in_bytes"]), (&json!(8192), &json!(8192 + (1 << 20))));
        assert_eq!(out["subop_w_latency"], json!({ "avgcount": 2, "sum": 4e-4, "avgtime": 2e-4 }));
        sub_ops.read_aside(true);
        sub_ops.read_aside(true);
        sub_ops.read_aside(false);
        let out = told(&sub_ops);
        let reads = ["replica_read", "replica_read_served", "replica_read_redirect"].map(|name| out[name].as_u64());
        assert_eq!(reads, [Some(3), Some(2), Some(1)]);
        assert_eq!(sub_ops.stages()[0].1.sum(), (3, 110_000));
        sub_ops.reset();
        assert_eq!(told(&sub_ops)["subop"], json!(0));
    }
}
