//! `ceph tell osd.N bench`: writes objects of the OSD's own through the store, so many in flight, and removes them.

use bytes::Bytes;
use node::Now;
use objectstore::{ObjectChange, ObjectChanges, ObjectStore, Ticket, Transaction};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use types::{Errno, HObject, Locator, ObjectId, SessionId};

use crate::maps::OSD_SCOPE;

/// Writes in flight at once.
const IN_FLIGHT: usize = 16;
/// No pool has this number: the objects are nobody's.
const BENCH_POOL: i64 = -2;
/// Blocks from this size on are large: bytes limit them, not operations.
const LARGE: u64 = 1 << 20;
/// Most bytes of a block, whatever the options say: the bench keeps one in memory.
const MOST_BLOCK: u64 = 64 << 20;

/// Bounds of what a bench may ask: Ceph's options `osd_bench_*`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of a block (`osd_bench_max_block_size`).
    pub(crate) block: u64,
    /// Seconds that a bench should take at most (`osd_bench_duration`).
    pub(crate) seconds: u64,
    /// Small writes a second that are counted on (`osd_bench_small_size_max_iops`).
    pub(crate) small_iops: u64,
    /// Bytes a second of large writes that are counted on (`osd_bench_large_size_max_throughput`).
    pub(crate) large_rate: u64,
}

impl Limits {
    /// Returns what is wrong with a bench of so many bytes in such blocks.
    fn check(&self, total: u64, block: u64) -> Result<(), String> {
        let most_block = self.block.min(MOST_BLOCK);
        if block == 0 || block > most_block {
            return Err(format!(
                "block 'size' values are capped at {most_block} bytes (osd_bench_max_block_size), and 0 is none"
            ));
        }
        let (rate, option) = if block < LARGE {
            (block.saturating_mul(self.small_iops), "osd_bench_small_size_max_iops")
        } else {
            (self.large_rate, "osd_bench_large_size_max_throughput")
        };
        let most = rate.saturating_mul(self.seconds);
        if total > most {
            return Err(format!(
                "'count' values greater than {most} for a block size of {block} bytes may take longer than {} s; if that is well, \
                 change osd_bench_duration or {option}",
                self.seconds
            ));
        }
        Ok(())
    }
}

/// The one who asked.
pub(crate) struct Asker {
    pub(crate) session: SessionId,
    pub(crate) tid: u64,
}

/// A bench under way.
pub(crate) struct Bench {
    pub(crate) asker: Asker,
    total: u64,
    block: u64,
    object: u64,
    objects: u64,
    begun: Now,
    submitted: u64,
    in_flight: BTreeSet<Ticket>,
    data: Bytes,
    /// Known when all is written; given out when the objects are removed again.
    result: Option<Value>,
}

/// Result of a bench.
pub(crate) enum Outcome {
    /// It goes on.
    Running,
    /// It ended: JSON for the asker.
    Done(Value),
    /// It cannot go on.
    Failed(Errno),
}

impl Bench {
    /// A bench of `total` bytes in writes of `block`, to `objects` objects of `object` bytes (0: one object for each
    /// write).
    pub(crate) fn new(
        asker: Asker,
        now: Now,
        limits: Limits,
        (total, block): (u64, u64),
        (object, objects): (u64, u64),
    ) -> Result<Self, String> {
        limits.check(total, block)?;
        let object = if object == 0 { block } else { object.max(block) };
        // Bytes without a pattern, so that nothing below can shorten them.
        let mut x = 0x2545_f491_4f6c_dd1du64;
        let data: Vec<u8> = (0..block)
            .map(|_| {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (x >> 56) as u8
            })
            .collect();
        let writes = total / block;
        let objects = if objects == 0 { writes.div_ceil(object / block).max(1) } else { objects };
        Ok(Self {
            asker,
            total: writes * block,
            block,
            object,
            objects,
            begun: now,
            submitted: 0,
            in_flight: BTreeSet::new(),
            data: data.into(),
            result: None,
        })
    }

    fn name(n: u64) -> ObjectId {
        HObject::head(format!("disk_bw_test_{n}").into(), &Locator::pool(BENCH_POOL)).into()
    }

    /// Submits as much as may be in flight. `ticket` makes new tickets.
    pub(crate) fn run(&mut self, now: Now, store: &mut dyn ObjectStore, ticket: &mut dyn FnMut() -> Ticket) -> Outcome {
        while self.result.is_none() && self.submitted < self.total && self.in_flight.len() < IN_FLIGHT {
            let at = self.submitted / self.block;
            let in_object = self.object / self.block;
            let object = Self::name(at / in_object % self.objects);
            let changes = vec![ObjectChange::Write(at % in_object * self.block, self.data.clone().into())];
            if let Err(error) = self.submit(store, ticket(), vec![ObjectChanges { object, changes }]) {
                return Outcome::Failed(error);
            }
            self.submitted += self.block;
        }
        if !self.in_flight.is_empty() {
            return Outcome::Running;
        }
        if let Some(result) = self.result.take() {
            return Outcome::Done(result);
        }
        self.result = Some(self.figures(now));
        let removal = |n| ObjectChanges { object: Self::name(n), changes: vec![ObjectChange::Remove] };
        match self.submit(store, ticket(), (0..self.objects).map(removal).collect()) {
            Ok(()) => Outcome::Running,
            Err(error) => Outcome::Failed(error),
        }
    }

    fn figures(&self, now: Now) -> Value {
        let elapsed = now.mono.since(self.begun.mono).as_secs_f64().max(1e-9);
        let rate = self.total as f64 / elapsed;
        json!({
            "bytes_written": self.total,
            "blocksize": self.block,
            "elapsed_sec": elapsed,
            "bytes_per_sec": rate,
            "iops": rate / self.block as f64,
        })
    }

    fn submit(&mut self, store: &mut dyn ObjectStore, ticket: Ticket, objects: Vec<ObjectChanges>) -> Result<(), Errno> {
        let transaction = Transaction { scope: OSD_SCOPE, objects, ..Transaction::default() };
        store.submit(transaction, ticket).map_err(|refused| match refused {
            objectstore::Refused::NoSpace => Errno::ENOSPC,
            objectstore::Refused::TooLarge => Errno::EFBIG,
            objectstore::Refused::Stopped | objectstore::Refused::Damaged => Errno::EIO,
        })?;
        self.in_flight.insert(ticket);
        Ok(())
    }

    /// A transaction of the OSD's own is durable; whether it was this bench's.
    pub(crate) fn committed(&mut self, ticket: Ticket) -> bool {
        self.in_flight.remove(&ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bench_stays_within_its_limits() {
        let limits = Limits { block: 2 << 20, seconds: 10, small_iops: 10, large_rate: 10 << 20 };
        for (total, block, good) in [
            (1, 2 << 20, true),
            (1, (2 << 20) + 1, false),
            (1, 0, false),
            (409_600, 4096, true),
            (409_601, 4096, false),
            (100 << 20, 2 << 20, true),
            ((100 << 20) + 1, 2 << 20, false),
        ] {
            assert_eq!(limits.check(total, block).is_ok(), good, "{total} bytes in blocks of {block}");
        }
        let boundless = Limits { block: u64::MAX, seconds: u64::MAX, small_iops: u64::MAX, large_rate: u64::MAX };
        assert!(boundless.check(u64::MAX, MOST_BLOCK).is_ok() && boundless.check(1, MOST_BLOCK + 1).is_err());
    }
}
