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
/// Ceph's limits for what a bench may ask (`osd_bench_max_block_size`, and 1 GiB by default).
const MAX_BLOCK: u64 = 64 << 20;
const MAX_BYTES: u64 = 64 << 30;

/// Who asked.
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

/// What a bench says.
pub(crate) enum Outcome {
    /// It goes on.
    Running,
    /// It ended: JSON for the asker.
    Done(Value),
    /// It cannot go on.
    Failed(Errno),
}

impl Bench {
    /// A bench of `total` bytes in writes of `block`, to `objects` objects of `object` bytes (0: one object for each write).
    pub(crate) fn new(asker: Asker, now: Now, total: u64, block: u64, object: u64, objects: u64) -> Result<Self, String> {
        if block == 0 || block > MAX_BLOCK {
            return Err(format!("block 'size' values are capped at {} MiB, and 0 is none", MAX_BLOCK >> 20));
        }
        if total > MAX_BYTES {
            return Err(format!("'count' values are capped at {} GiB", MAX_BYTES >> 30));
        }
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
