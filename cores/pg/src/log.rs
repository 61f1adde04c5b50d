//! What of the log is kept in memory: enough to recognise requests that were done already.

use crate::entry::Done;
use denc::low32;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::hash::BuildHasher;
use types::{EVersion, Epoch, ReqId};

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
    /// Number of records at the front that are out of the log.
    dups: usize,
    /// Number of the record at the front, counted from the first ever.
    base: u64,
    /// The newest record of each request id, as the low bits of its number. The hash has no seed: monitors and clients give ids, so
    /// nobody gains by collisions but who suffers from them.
    index: HashTable<u32>,
}

/// Returns true if a request with this id can come again: internal work has none.
fn repeatable(id: &ReqId) -> bool {
    *id != ReqId::default()
}

fn hash(id: &ReqId) -> u64 {
    FixedState::with_seed(0).hash_one(id)
}

/// Place among the records of the one whose number has these low bits, if `base` is the number of the first.
fn place(number: u32, base: u64) -> usize {
    number.wrapping_sub(low32(base)) as usize
}

impl Log {
    /// Appends a record that is in the log.
    pub(crate) fn push(&mut self, done: Done) {
        let (id, number) = (done.reqid, low32(self.base + self.records.len() as u64));
        self.records.push(done);
        if !repeatable(&id) {
            return;
        }
        let (records, base) = (&self.records, self.base);
        let id_at = |n: &u32| records.get(place(*n, base)).map(|done| done.reqid).unwrap_or_default();
        match self.index.entry(hash(&id), |n| id_at(n) == id, |n| hash(&id_at(n))) {
            Entry::Occupied(mut older) => *older.get_mut() = number,
            Entry::Vacant(free) => drop(free.insert(number)),
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
        if !repeatable(id) {
            return None;
        }
        let record = |n: &u32| self.records.get(place(*n, self.base));
        let number = self.index.find(hash(id), |n| record(n).is_some_and(|done| done.reqid == *id))?;
        record(number)
    }

    /// Returns true if the log has, or had, an entry with exactly this version.
    pub(crate) fn has(&self, version: EVersion) -> bool {
        let (mut low, mut high) = (0, self.records.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.records.get(middle) {
                Some(done) if done.version < version => low = middle + 1,
                _ => high = middle,
            }
        }
        self.records.get(low).is_some_and(|done| done.version == version)
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
        self.records.pieces.len() * PIECE * size_of::<Done>() + self.index.allocation_size()
    }

    /// Of each epoch with entries in the log, oldest first, the version of its newest entry.
    pub(crate) fn runs(&self) -> Vec<(Epoch, u64)> {
        let mut runs: Vec<(Epoch, u64)> = Vec::new();
        for done in self.records.from(self.dups) {
            match runs.last_mut() {
                Some((epoch, last)) if *epoch == done.version.epoch => *last = done.version.version,
                _ => runs.push((done.version.epoch, done.version.version)),
            }
        }
        runs
    }

    /// All records, oldest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Done> {
        self.records.from(0)
    }

    /// All records that left the log, oldest first.
    pub(crate) fn duplicates(&self) -> impl Iterator<Item = &Done> {
        self.records.from(0).take(self.dups)
    }

    /// Takes the entries behind `version` away again: they never counted.
    pub(crate) fn rewind(&mut self, version: EVersion) {
        let records: Vec<Done> = self.records.from(0).cloned().collect();
        let dups = self.dups;
        *self = Self { base: self.base, ..Self::default() };
        for (n, done) in records.into_iter().enumerate() {
            if n < dups {
                self.push_dup(done);
            } else if done.version <= version {
                self.push(done);
            }
        }
    }

    /// The newest entry of the log.
    pub(crate) fn newest(&self) -> Option<&Done> {
        self.records.get(self.records.len().checked_sub(1).filter(|_| self.len() > 0)?)
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
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some(id) = self.records.get(0).map(|done| done.reqid) else { return };
        // A newer record of the same request stays.
        if let Ok(entry) = self.index.find_entry(hash(&id), |n| place(*n, self.base) == 0) {
            entry.remove();
        }
        self.records.pop();
        self.base += 1;
        self.dups -= 1;
    }
}

/// The newest entry that two logs have in common, by how far they go in each epoch.
pub(crate) fn common(a: &[(Epoch, u64)], b: &[(Epoch, u64)]) -> EVersion {
    let theirs: BTreeMap<Epoch, u64> = b.iter().copied().collect();
    let both = a.iter().rev().find_map(|(epoch, last)| Some((*epoch, (*last).min(*theirs.get(epoch)?))));
    both.map_or(EVersion::default(), |(epoch, version)| EVersion { epoch, version })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

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
        assert!((1..=10).all(|n| log.has(EVersion::new(1, n))));
        assert!(![(1, 0), (1, 11), (2, 5)].into_iter().any(|(e, v)| log.has(EVersion::new(e, v))));
        log.forget_below(4);
        assert!(log.find(&done(3, 0).reqid).is_none());
        assert_eq!(log.find(&done(4, 0).reqid).map(|d| d.version.version), Some(4));
        assert_eq!(log.find(&done(10, 0).reqid).map(|d| d.version.version), Some(10));
        log.forget_below(100);
        assert_eq!((log.len(), log.dups()), (4, 0), "what is in the log stays");
    }

    #[test]
    fn what_is_rewound_is_not_found_any_more_and_what_came_before_it_is() {
        let mut log = Log::default();
        (1..=10).for_each(|n| log.push(done(n, n)));
        log.retire(3);
        // The request came again in an entry that never counted.
        log.push(Done { version: EVersion::new(2, 11), ..done(5, 0) });
        assert_eq!(log.runs(), [(1, 10), (2, 11)]);
        log.rewind(EVersion::new(1, 8));
        assert_eq!((log.len(), log.dups(), log.runs()), (5, 3, vec![(1, 8)]));
        assert_eq!(log.find(&done(5, 0).reqid).map(|d| d.version), Some(EVersion::new(1, 5)));
        assert_eq!(log.find(&done(9, 0).reqid).map(|d| d.version), None);
        assert_eq!(log.find(&done(2, 0).reqid).map(|d| d.version.version), Some(2));
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
        assert!(log.index.capacity() <= 8192, "the table does not grow with what was forgotten");
    }
}
