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
    /// Bytes that its data keeps in memory beside itself: of the last record with data of a group, the rest of the group.
    beside: u32,
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
    /// Bytes that are in memory beside it.
    beside: usize,
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
        self.all.push_back(Record { at: None, blocks: len32(data.len()), data: Some(data), beside: 0, cold });
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
        self.all[index(seq - self.base)] = Record { at: Some(at), blocks, data: None, beside: 0, cold: false };
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

    /// The record's group is formed: its data is in `bytes` now, which keeps so many bytes `beside` it in memory.
    pub(crate) fn formed(&mut self, seq: u64, bytes: Bytes, beside: usize) {
        let record = &mut self.all[index(seq - self.base)];
        if let Some(data) = &mut record.data {
            data.moved_to(bytes);
            record.beside = len32(beside);
            self.beside += beside;
        }
    }

    /// Takes the memory of a record's data out of the count.
    fn uncount(&mut self, data: Option<Staged>, beside: u32) {
        if let Some(data) = data {
            self.bytes -= data.len() * BLOCK;
            self.beside -= index(beside.into());
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

    /// Bytes that are in memory beside it: the heads and changes of groups of which some data is.
    pub(crate) fn beside(&self) -> usize {
        self.beside
    }

    /// Bytes that the table of records takes.
    pub(crate) fn table(&self) -> usize {
        self.all.capacity() * size_of::<Record>()
    }

    /// Records before `seq` are not needed any more, as far as they are in the ring.
    pub(crate) fn trim(&mut self, seq: u64) {
        while self.base < seq && self.all.front().is_some_and(|r| r.at.is_some() || r.data.is_none()) {
            let record = self.all.pop_front().expect("just seen");
            self.uncount(record.data, record.beside);
            self.base += 1;
        }
        self.thinned = self.thinned.max(self.base);
    }

    /// Keeps at most `limit` bytes in memory, the newest; what is not written to the ring stays.
    pub(crate) fn thin(&mut self, limit: usize) {
        while self.bytes + self.beside > limit {
            let Some(record) = self.all.get_mut(index(self.thinned - self.base)) else { return };
            if record.at.is_none() && record.data.is_some() {
                return;
            }
            let (data, beside) = (record.data.take(), record.beside);
            self.uncount(data, beside);
            self.thinned += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Rope;

    #[test]
    fn what_a_group_keeps_in_memory_is_counted_until_the_last_of_it_goes() {
        let mut records = Records::new(7);
        let data = |blocks: usize| Staged::known(Rope::from(vec![1u8; blocks * BLOCK]), &vec![0; blocks]);
        let group = |blocks: usize| Bytes::from(vec![1u8; blocks * BLOCK]);
        for (seq, blocks) in [(7, 2), (8, 0), (9, 1), (10, 3)] {
            records.push(seq, data(blocks), false);
        }
        // Records 7 to 9 are a group.
        records.formed(7, group(2), 0);
        records.formed(8, group(0), 0);
        records.formed(9, group(1), 1000);
        (7..10).for_each(|seq| records.placed(seq, seq));
        assert_eq!((records.bytes(), records.beside()), (6 * BLOCK, 1000));
        records.thin(6 * BLOCK);
        assert_eq!(
            (records.bytes(), records.beside()),
            (4 * BLOCK, 1000),
            "the first one is not enough, the group is still there"
        );
        records.trim(9);
        assert_eq!((records.bytes(), records.beside()), (4 * BLOCK, 1000));
        records.trim(10);
        assert_eq!((records.bytes(), records.beside()), (3 * BLOCK, 0));
        records.formed(10, group(3), 50);
        records.thin(0);
        assert_eq!((records.bytes(), records.beside()), (3 * BLOCK, 50), "what is not in the ring stays");
        records.placed(10, 90);
        records.thin(3 * BLOCK);
        assert_eq!((records.bytes(), records.beside()), (0, 0));
    }
}
