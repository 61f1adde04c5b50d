//! What of the log is kept in memory: enough to recognise requests that were done already.

use crate::meta::Done;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use types::ReqId;

/// A hasher without a random seed: request ids are given by monitors and clients' counters, and the table is bounded.
#[derive(Default)]
pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn write_u64(&mut self, n: u64) {
        // Odd constant of the golden ratio; one multiplication spreads counters well.
        self.0 = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(n.into());
    }

    fn write_i32(&mut self, n: i32) {
        self.write_u64(n as u64);
    }

    fn write_i64(&mut self, n: i64) {
        self.write_u64(n as u64);
    }
}

/// The newest requests that were logged, oldest first: those still in the log, and before them those that left it.
#[derive(Default)]
pub(crate) struct Log {
    records: VecDeque<Done>,
    /// How many at the front are out of the log.
    dups: usize,
    /// Number of the record at the front, counted from the first ever.
    base: u64,
    index: HashMap<ReqId, u64, BuildHasherDefault<Mixer>>,
}

/// Whether a request with this id can come again: internal work has none.
fn repeatable(id: &ReqId) -> bool {
    *id != ReqId::default()
}

impl Log {
    /// Appends a record that is in the log.
    pub(crate) fn push(&mut self, done: Done) {
        if repeatable(&done.reqid) {
            self.index.insert(done.reqid, self.base + self.records.len() as u64);
        }
        self.records.push_back(done);
    }

    /// Appends a record that left the log (only while loading, before any `push`).
    pub(crate) fn push_dup(&mut self, done: Done) {
        debug_assert_eq!(self.dups, self.records.len(), "duplicates come before the log");
        self.push(done);
        self.dups += 1;
    }

    pub(crate) fn find(&self, id: &ReqId) -> Option<&Done> {
        let at = *self.index.get(id)?;
        self.records.get((at - self.base) as usize)
    }

    /// Entries in the log.
    pub(crate) fn len(&self) -> usize {
        self.records.len() - self.dups
    }

    /// Records kept for duplicates only.
    pub(crate) fn dups(&self) -> usize {
        self.dups
    }

    /// The `n` oldest entries of the log.
    pub(crate) fn oldest(&self, n: usize) -> impl Iterator<Item = &Done> {
        self.records.iter().skip(self.dups).take(n)
    }

    /// The `n` oldest entries leave the log and are kept for duplicates.
    pub(crate) fn retire(&mut self, n: usize) {
        self.dups += n.min(self.len());
    }

    /// Forgets the oldest duplicates with versions below `version`.
    pub(crate) fn forget_below(&mut self, version: u64) {
        while self.dups > 0 && self.records.front().is_some_and(|d| d.version.version < version) {
            let Some(done) = self.records.pop_front() else { break };
            // A client may have used an id twice (it must not); the newer record keeps its place.
            if self.index.get(&done.reqid) == Some(&self.base) {
                self.index.remove(&done.reqid);
            }
            self.base += 1;
            self.dups -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::EVersion;

    fn done(n: u64) -> Done {
        let reqid = ReqId { kind: 8, num: 1, tid: n, inc: 0 };
        Done { version: EVersion::new(1, n), reqid, ..Done::default() }
    }

    #[test]
    fn records_outlive_the_log_and_are_forgotten_in_order() {
        let mut log = Log::default();
        (1..=10).for_each(|n| log.push(done(n)));
        log.retire(6);
        assert_eq!((log.len(), log.dups()), (4, 6));
        assert_eq!(log.oldest(1).next().map(|d| d.version.version), Some(7));
        log.forget_below(4);
        assert!(log.find(&done(3).reqid).is_none());
        assert_eq!(log.find(&done(4).reqid).map(|d| d.version.version), Some(4));
        assert_eq!(log.find(&done(10).reqid).map(|d| d.version.version), Some(10));
        log.forget_below(100);
        assert_eq!((log.len(), log.dups()), (4, 0), "what is in the log stays");
    }
}
