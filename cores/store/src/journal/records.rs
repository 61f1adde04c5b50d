//! Where the data of journalled records is: in memory, in the ring, or both.

use super::staged::Staged;
use crate::block::BLOCK;
use crate::checked::Checked;
use bytes::Bytes;
use denc::{index, len32};
use std::collections::VecDeque;

/// A record that a place may name.
#[derive(Debug, Default)]
struct Record {
    /// First block of its data in the ring; none until its group is written.
    at: Option<u64>,
    blocks: u32,
    data: Option<Staged>,
    /// Its data need not stay in memory when it is in its place.
    cold: bool,
}

/// All records whose data a checkpoint has not moved, by sequence number.
#[derive(Debug, Default)]
pub(crate) struct Records {
    base: u64,
    all: VecDeque<Record>,
    /// Bytes of data in memory.
    bytes: usize,
    /// Records before this one have lost their memory.
    thinned: u64,
}

impl Records {
    /// None yet; the first will be `next`.
    pub(crate) fn new(next: u64) -> Self {
        Self { base: next, thinned: next, ..Self::default() }
    }

    fn record(&self, seq: u64) -> Option<&Record> {
        self.all.get(index(seq.checked_sub(self.base)?))
    }

    /// Returns true if this record is remembered.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn knows(&self, seq: u64) -> bool {
        self.record(seq).is_some()
    }

    /// A new record, not yet in the ring.
    pub(crate) fn push(&mut self, seq: u64, data: Staged, cold: bool) {
        assert_eq!(seq, self.base + self.all.len() as u64);
        self.bytes += data.len() * BLOCK;
        self.all.push_back(Record { at: None, blocks: len32(data.len()), data: Some(data), cold });
    }

    /// Replay found a record's data at block `at` of the ring.
    pub(crate) fn found(&mut self, seq: u64, at: u64, blocks: u32) {
        if self.all.is_empty() {
            (self.base, self.thinned) = (seq, seq);
        }
        if seq < self.base {
            (0..self.base - seq).for_each(|_| self.all.push_front(Record::default()));
            (self.base, self.thinned) = (seq, seq);
        }
        while self.base + self.all.len() as u64 <= seq {
            self.all.push_back(Record::default());
        }
        self.all[index(seq - self.base)] = Record { at: Some(at), blocks, data: None, cold: false };
    }

    /// Records up to `next` that replay did not find never were.
    pub(crate) fn fill(&mut self, next: u64) {
        if self.all.is_empty() {
            *self = Self::new(next);
        }
        while self.base + (self.all.len() as u64) < next {
            self.all.push_back(Record::default());
        }
    }

    /// The data of a record that is on its way into a group.
    pub(crate) fn outgoing(&self, seq: u64) -> Staged {
        self.record(seq).and_then(|r| r.data.clone()).expect("a record keeps its data until its group is formed")
    }

    /// The record's group is formed: its data is in `bytes` now.
    pub(crate) fn formed(&mut self, seq: u64, bytes: Bytes) {
        if let Some(data) = &mut self.all[index(seq - self.base)].data {
            data.moved_to(bytes);
        }
    }

    /// The record's group is written: its data lies at block `at` of the ring.
    pub(crate) fn placed(&mut self, seq: u64, at: u64) {
        self.all[index(seq - self.base)].at = Some(at);
    }

    /// A block, if it is in memory.
    pub(crate) fn get(&self, seq: u64, index: u32) -> Option<Checked> {
        self.record(seq)?.data.as_ref()?.get(index)
    }

    /// Returns true if a record's data need not stay in memory when it is in its place.
    pub(crate) fn is_cold(&self, seq: u64) -> bool {
        self.record(seq).is_some_and(|record| record.cold)
    }

    /// First block in the ring and number of blocks of a record's data.
    pub(crate) fn location(&self, seq: u64) -> Option<(u64, u32)> {
        let record = self.record(seq)?;
        (record.blocks > 0).then_some((record.at?, record.blocks))
    }

    /// Bytes of data in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Records before `seq` are not needed any more, as far as they are in the ring.
    pub(crate) fn trim(&mut self, seq: u64) {
        while self.base < seq && self.all.front().is_some_and(|r| r.at.is_some() || r.data.is_none()) {
            let record = self.all.pop_front().expect("just seen");
            self.bytes -= record.data.map_or(0, |d| d.len() * BLOCK);
            self.base += 1;
        }
        self.thinned = self.thinned.max(self.base);
    }

    /// Keeps at most `limit` bytes in memory, the newest; what is not written to the ring stays.
    pub(crate) fn thin(&mut self, limit: usize) {
        while self.bytes > limit {
            let Some(record) = self.all.get_mut(index(self.thinned - self.base)) else { return };
            if record.at.is_none() && record.data.is_some() {
                return;
            }
            self.bytes -= record.data.take().map_or(0, |d| d.len() * BLOCK);
            self.thinned += 1;
        }
    }
}
