//! From a transaction that was carried out to a group of the journal: numbers, and which record may go when.
//!
//! Records of one scope go in the order of their numbers. So do records that change one object. A record whose data has a place of its
//! own on the data disk goes when that data is durable there; others overtake it meanwhile.
//!
//! A checkpoint names the records that it took in and that are in no group yet, as ranges of numbers, and a superblock has room for so many
//! ranges. Records that overtake others make ranges. So a record overtakes only while the ranges fit: a checkpoint can begin at any time,
//! and the ring finds room for whatever waits. The oldest record makes no range, so something can always go.

use crate::block::{BLOCK, blocks};
use crate::journal::{Member, group};
use crate::superblock::MOST_SKIPPED;
use bytes::Bytes;
use node::Mono;
use objectstore::Ticket;
use std::collections::BTreeMap;
use types::SpgId;

/// Flushes of data in flight at most. With one, all that is written during a flush waits for the next, and writes that came apart go on
/// together: the disk has nothing to do while they are received, and nobody receives while it works.
const SETTLES: usize = 4;
/// Records that are in no group yet, at most. Of those that wait for their data fewer.
const MOST: usize = 4096;
const MOST_UNREADY: usize = MOST_SKIPPED - 8;

/// A record that is in no group yet.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) ticket: Ticket,
    pub(crate) scope: SpgId,
    /// Its head and its changes, encoded.
    pub(crate) meta: Bytes,
    /// Blocks of data that go into the group with it.
    pub(crate) blocks: u32,
    /// Writes of its data, to a place of its own, that have not ended. Until they have, and are flushed, it must wait.
    pub(crate) writes: usize,
    /// A record of another scope that changed the same object and must be in the journal first.
    pub(crate) after: Option<u64>,
    pub(crate) submitted: Mono,
}

#[derive(Debug)]
struct Waiting {
    pending: Pending,
    /// True if its data, if it has any outside of the journal, is durable.
    ready: bool,
}

/// Records that are in no group yet, by number.
#[derive(Debug)]
pub(crate) struct Pipeline {
    records: BTreeMap<u64, Waiting>,
    /// Number of records that wait for their data.
    unready: usize,
    /// Objects of these records, while some wait for data: the last record that changed each, and its scope.
    touched: BTreeMap<Bytes, (u64, SpgId)>,
    /// Records whose data is written but not flushed.
    unsettled: Vec<u64>,
    /// Number of flushes in flight.
    settling: usize,
    /// Number of ranges of the numbers that are here.
    ranges: usize,
    next: u64,
}

impl Pipeline {
    /// Nothing yet; the first record will be `next`.
    pub(crate) fn new(next: u64) -> Self {
        Self {
            records: BTreeMap::new(),
            unready: 0,
            touched: BTreeMap::new(),
            unsettled: Vec::new(),
            settling: 0,
            ranges: 0,
            next,
        }
    }

    /// Number of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Replay found this record.
    pub(crate) fn found(&mut self, seq: u64) {
        self.next = self.next.max(seq + 1);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns true if no more may come before some went into a group.
    pub(crate) fn is_full(&self) -> bool {
        // A record that comes may be a range of its own.
        self.records.len() >= MOST || self.unready >= MOST_UNREADY || self.ranges >= MOST_SKIPPED
    }

    /// Returns true if callers should slow down.
    pub(crate) fn is_half_full(&self) -> bool {
        self.records.len() > MOST / 2
    }

    /// Blocks of the journal that what waits will take, about, as far as that matters.
    pub(crate) fn weight(&self) -> u64 {
        self.records.values().map(|w| u64::from(w.pending.blocks) + 1).take(1024).sum()
    }

    /// Ranges of the numbers that are here: the first of each, and how many.
    pub(crate) fn ranges(&self) -> Vec<(u64, u32)> {
        let mut out: Vec<(u64, u32)> = Vec::new();
        for seq in self.records.keys() {
            match out.last_mut() {
                Some((first, n)) if *first + u64::from(*n) == *seq => *n += 1,
                _ => out.push((*seq, 1)),
            }
        }
        out
    }

    /// Returns true if a record before `seq` waits for its data.
    pub(crate) fn waits_for_data(&self, seq: u64) -> bool {
        self.records.range(..seq).any(|(_, w)| !w.ready)
    }

    /// Notes that the next record changes these objects. Gives the record of another scope that it must follow. `apart`: its data goes to
    /// a place of its own. Nothing is noted while no record waits for data, as all go in their order then.
    pub(crate) fn touch<'a>(&mut self, keys: impl Iterator<Item = &'a Bytes>, scope: SpgId, apart: bool) -> Option<u64> {
        if self.unready == 0 && !apart {
            return None;
        }
        let mut after = None;
        for key in keys {
            if let Some((before, other)) = self.touched.insert(key.clone(), (self.next, scope))
                && other != scope
            {
                after = after.max(Some(before));
            }
        }
        after
    }

    /// Takes the next record.
    pub(crate) fn push(&mut self, pending: Pending) {
        let ready = pending.writes == 0;
        self.ranges += usize::from(self.records.last_key_value().is_none_or(|(last, _)| last + 1 != self.next));
        self.unready += usize::from(!ready);
        self.records.insert(self.next, Waiting { pending, ready });
        self.next += 1;
    }

    /// A write of a record's data ended.
    pub(crate) fn written(&mut self, seq: u64) {
        let Some(waiting) = self.records.get_mut(&seq) else { return };
        waiting.pending.writes -= 1;
        if waiting.pending.writes == 0 {
            self.unsettled.push(seq);
        }
    }

    /// Records whose data is to be flushed now. A group's own flush comes too late for that: the group could reach the medium before
    /// what was completed earlier. [`Self::settled`] ends it.
    pub(crate) fn settle(&mut self) -> Option<Vec<u64>> {
        if self.settling == SETTLES || self.unsettled.is_empty() {
            return None;
        }
        self.settling += 1;
        Some(std::mem::take(&mut self.unsettled))
    }

    /// The data of these records is durable.
    pub(crate) fn settled(&mut self, seqs: Vec<u64>) {
        self.settling -= 1;
        for seq in seqs {
            if let Some(waiting) = self.records.get_mut(&seq) {
                waiting.ready = true;
                self.unready -= 1;
            }
        }
    }

    /// Returns true if all of these have this ticket.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn are_of(&self, seqs: &[u64], ticket: Ticket) -> bool {
        seqs.iter().all(|seq| self.records.get(seq).is_some_and(|waiting| waiting.pending.ticket == ticket))
    }

    /// The records of the next group, of `most` bytes or of one record, and the blocks that the group takes.
    pub(crate) fn choose(&self, most: usize) -> (Vec<u64>, u64) {
        let (mut chosen, mut blocked): (Vec<u64>, Vec<SpgId>) = (Vec::new(), Vec::new());
        let (mut meta, mut data) = (0, 0);
        let mut ranges = self.ranges;
        // The last one that stays, and those that come.
        let mut stays: Option<u64> = None;
        let mut records = self.records.iter().peekable();
        while let Some((seq, Waiting { pending: p, ready })) = records.next() {
            let waits = |after: u64| self.records.contains_key(&after) && chosen.binary_search(&after).is_err();
            let before = stays.is_some_and(|stays| stays + 1 == *seq);
            let behind = records.peek().is_some_and(|(next, _)| **next == seq + 1);
            let splits = before && behind && ranges >= MOST_SKIPPED;
            if !ready || splits || blocked.contains(&p.scope) || p.after.is_some_and(waits) {
                blocked.push(p.scope);
                stays = Some(*seq);
                continue;
            }
            let size = meta + data * BLOCK;
            if !chosen.is_empty() && size + p.meta.len() + p.blocks as usize * BLOCK > most {
                break;
            }
            (meta, data) = (meta + p.meta.len(), data + p.blocks as usize);
            chosen.push(*seq);
            ranges = (ranges + usize::from(before && behind)).saturating_sub(usize::from(!before && !behind));
        }
        let meta = group::HEADER + group::meta_len(meta, data);
        (chosen, blocks(meta as u64) + data as u64)
    }

    /// Hands out records that were chosen.
    pub(crate) fn take(&mut self, chosen: &[u64]) -> Vec<Member> {
        let mut members = Vec::with_capacity(chosen.len());
        for seq in chosen {
            let (before, behind) = (self.records.contains_key(&(seq - 1)), self.records.contains_key(&(seq + 1)));
            self.ranges = (self.ranges + usize::from(before && behind)).saturating_sub(usize::from(!before && !behind));
            let Pending { meta, blocks, ticket, submitted, .. } = self.records.remove(seq).expect("chosen from these").pending;
            members.push(Member { seq: *seq, meta, blocks, ticket, submitted });
        }
        if self.unready == 0 && !self.touched.is_empty() {
            self.touched.clear();
        }
        members
    }

    /// Checks what always holds.
    ///
    /// # Errors
    /// A sentence that says what does not hold.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn self_check(&self) -> Result<(), String> {
        let unready = self.records.values().filter(|w| !w.ready).count();
        if unready != self.unready {
            return Err(format!("{unready} records wait for their data, {} were counted", self.unready));
        }
        if self.ranges().len() != self.ranges || self.ranges > MOST_SKIPPED {
            return Err(format!("the records are {} ranges, {} were counted", self.ranges().len(), self.ranges));
        }
        if let Some(seq) = self.records.keys().next_back().filter(|seq| **seq >= self.next) {
            return Err(format!("record {seq} was never numbered"));
        }
        let known = |seq: &&u64| self.records.get(seq).is_some_and(|w| !w.ready);
        match self.unsettled.iter().find(|seq| !known(seq)) {
            Some(seq) => Err(format!("record {seq} waits for a flush, but not for its group")),
            None => Ok(()),
        }
    }
}
