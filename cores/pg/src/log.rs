//! What of the log is kept in memory: enough to recognise requests that were done already.

use crate::meta::Done;
use std::collections::VecDeque;
use types::ReqId;

/// Records in a piece of memory.
const PIECE: usize = 32;

/// A queue of records in pieces: what is there never moves when it grows, and no more memory is taken than it needs.
#[derive(Default)]
struct Records {
    /// All of [`PIECE`] records, but the last.
    pieces: VecDeque<Vec<Done>>,
    /// Records of the first piece that are forgotten.
    gone: usize,
}

impl Records {
    fn len(&self) -> usize {
        self.pieces.back().map_or(0, |last| (self.pieces.len() - 1) * PIECE + last.len() - self.gone)
    }

    fn push(&mut self, done: Done) {
        match self.pieces.back_mut() {
            Some(last) if last.len() < PIECE => last.push(done),
            _ => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push(done);
                self.pieces.push_back(piece);
            }
        }
    }

    fn get(&self, i: usize) -> Option<&Done> {
        let at = i + self.gone;
        self.pieces.get(at / PIECE)?.get(at % PIECE)
    }

    fn from(&self, first: usize) -> impl Iterator<Item = &Done> {
        (first..self.len()).filter_map(|i| self.get(i))
    }

    /// Forgets the first record.
    fn pop(&mut self) {
        if self.len() == 0 {
            return;
        }
        self.gone += 1;
        if self.gone == self.pieces[0].len() {
            self.pieces.pop_front();
            self.gone = 0;
        }
    }
}

/// The newest requests that were logged, oldest first: those still in the log, and before them those that left it.
#[derive(Default)]
pub(crate) struct Log {
    records: Records,
    /// How many at the front are out of the log.
    dups: usize,
    /// Number of the record at the front, counted from the first ever.
    base: u64,
    /// Where to find a request id: an open hash table of record numbers (modulo [`CYCLE`], plus 1; 0 is free). A number
    /// below `base` is stale; stale ones go when the table is made anew.
    slots: Vec<u32>,
    /// Slots that are not free.
    used: usize,
}

/// Record numbers are remembered modulo this, so that they fit 32 bits and leave one value free.
const CYCLE: u64 = u32::MAX as u64;

/// Whether a request with this id can come again: internal work has none.
fn repeatable(id: &ReqId) -> bool {
    *id != ReqId::default()
}

/// Spreads ids, which are counters mostly. Monitors and clients give them, so nobody gains by collisions but who suffers
/// from them.
fn hash(id: &ReqId) -> u64 {
    // An odd constant of the golden ratio: one multiplication for each part spreads them over the upper bits.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let parts = [id.num as u64, id.tid, u64::from(id.kind) << 32 | u64::from(id.inc as u32)];
    let mixed = parts.iter().fold(0u64, |h, part| (h ^ part).wrapping_mul(SPREAD).rotate_left(23));
    mixed ^ mixed >> 32
}

impl Log {
    /// Appends a record that is in the log.
    pub(crate) fn push(&mut self, done: Done) {
        let (id, number) = (done.reqid, self.base + self.records.len() as u64);
        self.records.push(done);
        if !repeatable(&id) {
            return;
        }
        // At most half full, so that searches are short and end.
        if 2 * (self.used + 1) > self.slots.len() {
            self.rebuild();
        } else {
            self.place(&id, number);
        }
    }

    fn place(&mut self, id: &ReqId, number: u64) {
        let mask = self.slots.len() - 1;
        let mut at = hash(id) as usize & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = (number % CYCLE) as u32 + 1;
        self.used += 1;
    }

    fn rebuild(&mut self) {
        self.slots = vec![0; (4 * self.records.len()).next_power_of_two().max(64)];
        self.used = 0;
        for i in 0..self.records.len() {
            let id = self.records.get(i).map(|done| done.reqid).unwrap_or_default();
            if repeatable(&id) {
                self.place(&id, self.base + i as u64);
            }
        }
    }

    /// Appends a record that left the log (only while loading, before any `push`).
    pub(crate) fn push_dup(&mut self, done: Done) {
        debug_assert_eq!(self.dups, self.records.len(), "duplicates come before the log");
        self.push(done);
        self.dups += 1;
    }

    /// The newest record of a request.
    pub(crate) fn find(&self, id: &ReqId) -> Option<&Done> {
        if self.slots.is_empty() || !repeatable(id) {
            return None;
        }
        let mask = self.slots.len() - 1;
        let mut at = hash(id) as usize & mask;
        let mut newest = None;
        while self.slots[at] != 0 {
            let place = ((u64::from(self.slots[at] - 1) + CYCLE - self.base % CYCLE) % CYCLE) as usize;
            if self.records.get(place).is_some_and(|done| done.reqid == *id) {
                newest = newest.max(Some(place));
            }
            at = (at + 1) & mask;
        }
        self.records.get(newest?)
    }

    /// Entries in the log.
    pub(crate) fn len(&self) -> usize {
        self.records.len() - self.dups
    }

    /// Records kept for duplicates only.
    pub(crate) fn dups(&self) -> usize {
        self.dups
    }

    /// Bytes of memory that all of it takes, without what requests asked to be told again (few do).
    pub(crate) fn bytes(&self) -> usize {
        self.records.pieces.len() * PIECE * size_of::<Done>() + self.slots.capacity() * size_of::<u32>()
    }

    /// The `n` oldest entries of the log.
    pub(crate) fn oldest(&self, n: usize) -> impl Iterator<Item = &Done> {
        self.records.from(self.dups).take(n)
    }

    /// The `n` oldest entries leave the log and are kept for duplicates.
    pub(crate) fn retire(&mut self, n: usize) {
        self.dups += n.min(self.len());
    }

    /// Forgets the oldest duplicates with versions below `version`.
    pub(crate) fn forget_below(&mut self, version: u64) {
        while self.dups > 0 && self.records.get(0).is_some_and(|d| d.version.version < version) {
            self.records.pop();
            self.base += 1;
            self.dups -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use types::EVersion;

    fn done(tid: u64, version: u64) -> Done {
        let reqid = ReqId { kind: 8, num: 1, tid, inc: 0 };
        Done { version: EVersion::new(1, version), reqid, ..Done::default() }
    }

    #[test]
    fn records_outlive_the_log_and_are_forgotten_in_order() {
        let mut log = Log::default();
        (1..=10).for_each(|n| log.push(done(n, n)));
        log.retire(6);
        assert_eq!((log.len(), log.dups()), (4, 6));
        assert_eq!(log.oldest(1).next().map(|d| d.version.version), Some(7));
        log.forget_below(4);
        assert!(log.find(&done(3, 0).reqid).is_none());
        assert_eq!(log.find(&done(4, 0).reqid).map(|d| d.version.version), Some(4));
        assert_eq!(log.find(&done(10, 0).reqid).map(|d| d.version.version), Some(10));
        log.forget_below(100);
        assert_eq!((log.len(), log.dups()), (4, 0), "what is in the log stays");
    }

    #[test]
    fn finds_what_a_map_finds() {
        let (mut log, mut twin) = (Log::default(), BTreeMap::new());
        let mut x = 1u64;
        for version in 1..20_000u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Ids repeat now and then; some records have none.
            let tid = if x >> 62 == 0 { x >> 40 & 0xff } else { version };
            let mut record = done(tid, version);
            if version % 17 == 0 {
                record.reqid = ReqId::default();
            } else {
                twin.insert(record.reqid, version);
            }
            log.push(record);
            if version % 100 == 0 {
                log.retire(100);
                let keep = version.saturating_sub(1000);
                log.forget_below(keep);
                twin.retain(|_, v| *v >= keep);
                for tid in [version, version - 1, keep, keep.saturating_sub(1), x >> 40 & 0xff] {
                    let id = done(tid, 0).reqid;
                    assert_eq!(log.find(&id).map(|d| d.version.version), twin.get(&id).copied(), "{tid} at {version}");
                }
            }
        }
        assert!(log.slots.len() <= 8192, "the table does not grow with what was forgotten");
    }
}
