//! From a submitted transaction to a durable one: places, records, groups, commits.

use crate::block::{BLOCK, LARGE, Patch, Place, Where};
use crate::cache::{Known, hash_object};
use crate::checked::Checked;
use crate::exec::{Plan, Run, Stalled, objects_of, size_of};
use crate::fetch::Owner;
use crate::index::delta::Delta;
use crate::io::{DATA, Purpose};
use crate::journal::group::{self, Header, Outgoing, RecordHead};
use crate::journal::staged::Staged;
use crate::read::{Eye, plain};
use crate::space::alloc::{Kind, Run as BlockRun};
use crate::store::Store;
use bytes::Bytes;
use node::{Buf, Level, Mono};
use objectstore::{Event, ObjectChange, Refused, Ticket, Transaction, Unread};
use std::collections::BTreeSet;
use types::{Rope, SpgId};

/// Carried out, not yet in a group.
#[derive(Debug)]
pub(crate) struct Pending {
    ticket: Ticket,
    scope: SpgId,
    meta: Bytes,
    blocks: u32,
    /// Writes of its data that have not ended.
    writes: usize,
    /// Whether its data, if it has any outside the journal, is durable.
    pub(crate) ready: bool,
    /// A transaction of another scope that changed the same object and must be in the journal first.
    after: Option<u64>,
    submitted: Mono,
}

/// A group on its way to the disk.
#[derive(Debug)]
pub(crate) struct Flight {
    lsn: u64,
    done: bool,
    commits: Vec<(Ticket, Mono)>,
    /// Records and where in the ring their data is.
    records: Vec<(u64, u64)>,
}

#[cfg(any(test, feature = "sim"))]
impl Flight {
    /// Its group.
    pub(crate) fn lsn(&self) -> u64 {
        self.lsn
    }
}

/// Flushes of data in flight at most. With one, all that is written during a flush waits for the next, and writes that came apart go on together:
/// the disk has nothing to do while they are received, and nobody receives while it works.
const SETTLES: usize = 4;
/// Groups in flight at most.
const FLIGHTS: usize = 2;
/// A group takes no more records when it has this many bytes.
const GROUP: usize = 1 << 20;
/// Transactions that are carried out but in no group, at most; others wait. Of those that wait for their data fewer, as each may be
/// a range in the superblock's list of skipped records.
const MOST_PENDING: usize = 4096;
const MOST_UNREADY: usize = crate::superblock::MOST_SKIPPED - 8;
/// Bytes written ahead in the ring at a time.
pub(crate) const CLAIM: u64 = 4 << 20;

impl Store {
    /// Takes a transaction on.
    pub(crate) fn take_on(&mut self, transaction: Transaction, ticket: Ticket) -> Result<(), Refused> {
        if !self.ready() || self.failure.is_some() || self.stopping {
            return Err(Refused::Stopped);
        }
        if self.impaired.is_some() {
            return Err(Refused::Damaged);
        }
        let (blocks, index) = size_of(&transaction).ok_or(Refused::TooLarge)?;
        let largest = self.ring.size() * BLOCK as u64 / 4;
        let journalled = if blocks * (BLOCK as u64) < LARGE as u64 { blocks * BLOCK as u64 } else { 0 };
        if index + journalled + 2 * BLOCK as u64 > largest {
            return Err(Refused::TooLarge);
        }
        if !transaction.only_removes() && !self.has_room(blocks, index) {
            return Err(Refused::NoSpace);
        }
        if !self.crowded() && !self.behind_stalled(&transaction) && self.room_to_move(blocks) {
            match Run::carry_out(self.eye_of(&transaction), &transaction) {
                Ok(plan) => {
                    let now = self.now;
                    self.accept(&transaction, ticket, now, plan);
                    return Ok(());
                }
                Err(unread) => self.stall(transaction, ticket, blocks, Some(unread)),
            }
        } else {
            self.stall(transaction, ticket, blocks, None);
        }
        Ok(())
    }

    /// What a transaction sees that was just submitted: with what its rehearsal fetched.
    fn eye_of(&self, transaction: &Transaction) -> Eye<'_> {
        let held = transaction.hold.and_then(|hold| self.holds.get(&Owner::Hold(hold)));
        Eye { store: self, held }
    }

    /// Whether there is room for so many blocks and bytes of index more.
    fn has_room(&mut self, blocks: u64, index: u64) -> bool {
        let fits = !self.io.host_full() && blocks + 3 * index.div_ceil(BLOCK as u64) <= self.available_blocks();
        if !fits {
            self.want_checkpoint = !self.active.is_empty();
        }
        fits
    }

    /// Whether the blocks would find a place at all; if not, even removals wait for the next flip.
    fn room_to_move(&mut self, blocks: u64) -> bool {
        let fits = self.promised + blocks + self.index_reserve() <= self.alloc.free();
        if !fits {
            self.want_checkpoint = !self.active.is_empty();
        }
        // Nothing will become free: then it may as well try.
        fits || (self.checkpoint.is_none()
            && self.active.is_empty()
            && self.limbo.is_empty()
            && blocks + self.promised <= self.alloc.free())
    }

    /// Blocks that the next checkpoints may need for pages.
    fn index_reserve(&self) -> u64 {
        let need = |delta: &Delta| {
            let touched = 3 * delta.len() as u64;
            touched.min(self.alloc.page_blocks + 16) + 2 * (delta.bytes / BLOCK) as u64
        };
        let frozen = self.frozen.as_ref().map_or(0, need);
        need(&self.active) + frozen.saturating_sub(self.checkpoint.as_ref().map_or(0, |c| c.pages_taken()))
    }

    /// Blocks that can still be given to data.
    pub(crate) fn available_blocks(&self) -> u64 {
        self.writable_blocks().saturating_sub(self.promised + self.kept_back())
    }

    /// Blocks that are free, but not for new data.
    pub(crate) fn kept_back(&self) -> u64 {
        let waiting: u64 = self.stalled.iter().map(|s| s.blocks).sum();
        self.index_reserve() + self.floor() + waiting
    }

    /// Blocks that could be given to data if all that changed were in the index already: copies of pages that the next checkpoints
    /// need for a while count as free, and so does what is lent for a moment.
    pub(crate) fn lasting_blocks(&self) -> u64 {
        let copies = self.checkpoint.as_ref().map_or(0, |c| c.pages_taken());
        (self.soon_writable_blocks() + copies).saturating_sub(self.promised + self.lasting_reserve())
    }

    /// Blocks that stay kept back, and what the index grows by.
    pub(crate) fn lasting_reserve(&self) -> u64 {
        let waiting: u64 = self.stalled.iter().map(|s| s.blocks).sum();
        let changed = self.active.bytes + self.frozen.as_ref().map_or(0, |f| f.bytes);
        2 * (changed / BLOCK) as u64 + self.floor() + waiting
    }

    /// Whether there is little space only until a checkpoint is done: waiting for that is better than to be full for a moment, which
    /// all clients of the cluster hear of.
    pub(crate) fn short_for_now(&self) -> bool {
        let little = 2 * self.floor();
        (self.checkpoint.is_some() || !self.active.is_empty())
            && !self.io.host_full()
            && self.available_blocks() < little
            && self.lasting_blocks() >= little + little / 4
    }

    /// Whether the transaction must wait behind one that waits.
    fn behind_stalled(&self, transaction: &Transaction) -> bool {
        if self.stalled.is_empty() {
            return false;
        }
        let objects = hashes(transaction);
        let conflicts = |s: &Stalled| s.transaction.scope == transaction.scope || objects.iter().any(|o| s.objects.contains(o));
        self.stalled.iter().any(conflicts)
    }

    fn stall(&mut self, transaction: Transaction, ticket: Ticket, blocks: u64, unread: Option<Unread>) {
        let id = self.next_stalled;
        self.next_stalled += 1;
        self.counters.stalled += 1;
        let (objects, submitted, runnable) = (hashes(&transaction), self.now, unread.is_none());
        let waiters = Vec::new();
        // What its rehearsal found whole must be there when its turn comes.
        if let Some(held) = transaction.hold.and_then(|hold| self.holds.remove(&Owner::Hold(hold))) {
            self.holds.insert(Owner::Stalled(id), held);
        }
        self.stalled.push_back(Stalled { id, transaction, ticket, blocks, objects, runnable, waiters, submitted });
        match unread {
            Some(Unread::Missing(wish)) => self.fetch_for(Owner::Stalled(id), wish),
            Some(Unread::Damaged(damage)) => self.fail(format!("a transaction needs what is damaged: {damage:?}")),
            None => (),
        }
    }

    /// Whether no more can be carried out before some went into a group.
    fn crowded(&self) -> bool {
        self.pending.len() >= MOST_PENDING || self.unready >= MOST_UNREADY
    }

    /// Carries out what waited, as far as it can be now: in order, behind nothing of its scope or objects that still waits.
    pub(crate) fn run_stalled(&mut self) {
        if self.stalled.is_empty() || self.crowded() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.stalled);
        let (mut scopes, mut objects) = (BTreeSet::new(), BTreeSet::new());
        while let Some(mut stalled) = waiting.pop_front() {
            let scope = stalled.transaction.scope;
            let behind = scopes.contains(&scope) || stalled.objects.iter().any(|o| objects.contains(o));
            if stalled.runnable && !behind && !self.crowded() && self.failure.is_none() && self.room_to_move(stalled.blocks) {
                match self.run_one_stalled(stalled) {
                    None => continue,
                    Some(again) => stalled = again,
                }
            }
            scopes.insert(scope);
            objects.extend(stalled.objects.iter().copied());
            self.stalled.push_back(stalled);
        }
    }

    /// Tries one that waited; it comes back if it must wait on.
    fn run_one_stalled(&mut self, mut stalled: Stalled) -> Option<Stalled> {
        let owner = Owner::Stalled(stalled.id);
        match Run::carry_out(self.eye(owner), &stalled.transaction) {
            Ok(plan) => {
                self.holds.remove(&owner);
                self.accept(&stalled.transaction, stalled.ticket, stalled.submitted, plan);
                stalled.waiters.into_iter().for_each(|owner| self.waited(owner));
                return None;
            }
            Err(Unread::Missing(wish)) => {
                self.fetch_for(owner, wish);
                // What cannot even be asked of the disk is known to be missing when it is tried again.
                stalled.runnable = self.holds.get(&owner).is_none_or(crate::fetch::Held::complete);
            }
            Err(Unread::Damaged(damage)) => self.fail(format!("a transaction needs what is damaged: {damage:?}")),
        }
        Some(stalled)
    }

    /// The transaction will be durable: gives its data places, records it, and makes it visible.
    fn accept(&mut self, transaction: &Transaction, ticket: Ticket, submitted: Mono, mut plan: Plan) {
        let seq = self.next_seq;
        let staged = std::mem::take(&mut plan.staged);
        let large = staged.len() * BLOCK >= LARGE;
        let beyond = self.alloc.beyond;
        let runs = if large { self.alloc.take(staged.len() as u64, Kind::Data) } else { None };
        let blocks = if runs.is_some() { 0 } else { staged.len() as u32 };
        match &runs {
            Some(runs) => plan.delta.place(|place| on_disk(place, runs)),
            None => plan.delta.place(|place| match place.place() {
                Where::Staged(index) => Place::journal(seq, index),
                _ => place,
            }),
        }
        let head = RecordHead { seq, scope: transaction.scope, next_id: plan.next_id, data_blocks: blocks, parts: 0 };
        let mut meta = Vec::with_capacity(512);
        head.encode(self.sb.version, &mut meta);
        plan.delta.encode(&mut meta);
        group::finish(&mut meta);
        let meta = Bytes::from(meta);
        self.active.apply(&meta.slice(group::record_head(self.sb.version)..), |_| ()).expect("our own encoding");
        let next_id = std::mem::replace(&mut self.next_id, plan.next_id);
        self.next_seq = seq + 1;
        let after = self.note_objects(&plan, seq, transaction.scope, large);
        self.ranges.get_mut().follow(&plan.delta.extents, self.epoch);
        for (object, mut known) in plan.objects {
            self.know_first(&mut known, &plan.delta, next_id);
            self.onodes.borrow_mut().put(object, Box::new(known));
        }
        self.promised += u64::from(blocks);
        if large {
            self.replaced += plan.replaced;
        }
        self.may_free |= transaction.objects.iter().flat_map(|o| &o.changes).any(frees);
        let writes = match runs {
            Some(runs) => {
                self.host_gave(self.alloc.beyond - beyond);
                self.alloc.born(&runs);
                self.records.push(seq, Staged::default());
                self.write_direct(seq, &staged, &runs)
            }
            None => {
                self.records.push(seq, staged);
                0
            }
        };
        self.unready += usize::from(writes > 0);
        let pending = Pending { ticket, scope: transaction.scope, meta, blocks, writes, ready: writes == 0, after, submitted };
        self.pending.insert(seq, pending);
    }

    /// Brings what is known of an object's first blocks in step with a transaction that touched it. `next_id`: ids from here on are
    /// of objects that it made.
    fn know_first(&self, known: &mut Known, delta: &Delta, next_id: u64) {
        let Some(onode) = &known.onode else { return known.first = None };
        let key = (onode.id, 0);
        let lower = match &known.first {
            Some((epoch, patch)) if *epoch == self.epoch && delta.extents.hidden(&key).is_none() => Some(patch.clone()),
            _ if onode.id >= next_id || delta.extents.hidden(&key).is_some() => Some(Patch::holes()),
            _ => None,
        };
        known.first = match (delta.extents.get(&key), lower) {
            (None, lower) => lower,
            (Some(patch), lower) => {
                let mut all = patch.clone();
                lower.iter().for_each(|lower| all.fill_from(lower));
                all.complete().then_some(all)
            }
        }
        .map(|patch| (self.epoch, patch));
    }

    /// While some transactions wait for their data: remembers who touched which object, across scopes.
    fn note_objects(&mut self, plan: &Plan, seq: u64, scope: SpgId, large: bool) -> Option<u64> {
        if self.unready == 0 && !large {
            return None;
        }
        let mut after = None;
        for (_, known) in &plan.objects {
            if let Some((before, other)) = self.touched.insert(known.key.clone(), (seq, scope))
                && other != scope
            {
                after = after.max(Some(before));
            }
        }
        after
    }

    fn write_direct(&mut self, seq: u64, staged: &Staged, runs: &[BlockRun]) -> usize {
        let mut index = 0;
        for (block, n) in runs {
            let data = staged.rope(index, *n);
            self.blocks.forget(*block, (*n).into());
            if let [one] = data.pieces() {
                let crcs = &staged.crcs()[index as usize..(index + n) as usize];
                self.blocks.insert_written(*block, Checked::known_run(one.clone(), crcs), runs.len() > 1);
            }
            self.counters.direct_bytes += data.len() as u64;
            self.writing.begin(*block, data.clone(), staged, index);
            self.io.write(DATA, block * BLOCK as u64, data, false, Purpose::Direct(seq, *block));
            index += n;
        }
        runs.len()
    }

    /// A write of a large transaction's data ended.
    pub(crate) fn direct_done(&mut self, seq: u64, block: u64) {
        self.writing.end(block);
        let Some(pending) = self.pending.get_mut(&seq) else { return };
        pending.writes -= 1;
        if pending.writes == 0 {
            self.unsettled.push(seq);
        }
    }

    /// Flushes data that was written, so that its records may enter the journal. A group's own flush comes too late for that: the
    /// group could reach the medium before what was completed earlier.
    pub(crate) fn settle(&mut self) {
        if self.settling < SETTLES && !self.unsettled.is_empty() {
            self.settling += 1;
            let seqs = std::mem::take(&mut self.unsettled);
            #[cfg(test)]
            if self.sabotage == Some(crate::tests::Sabotage::RecordBeforeData) {
                return self.settled(seqs);
            }
            self.io.flush(DATA, Purpose::Settle(seqs));
        }
    }

    pub(crate) fn settled(&mut self, seqs: Vec<u64>) {
        self.settling -= 1;
        for seq in seqs {
            if let Some(pending) = self.pending.get_mut(&seq) {
                pending.ready = true;
                self.unready -= 1;
            }
        }
    }

    /// Forms groups of what is ready and hands them to the disk.
    pub(crate) fn form_groups(&mut self) {
        while self.flights.len() < FLIGHTS && !self.pending.is_empty() && self.form_group() {}
    }

    /// The records of the next group: in order within a scope and on an object.
    fn choose(&self) -> (Vec<u64>, u64) {
        let (mut chosen, mut blocked): (Vec<u64>, Vec<SpgId>) = (Vec::new(), Vec::new());
        let (mut meta, mut data) = (0, 0);
        for (seq, p) in &self.pending {
            let waits = |after: u64| self.pending.contains_key(&after) && chosen.binary_search(&after).is_err();
            if !p.ready || blocked.contains(&p.scope) || p.after.is_some_and(waits) {
                blocked.push(p.scope);
                continue;
            }
            let size = meta + data * BLOCK;
            if !chosen.is_empty() && size + p.meta.len() + p.blocks as usize * BLOCK > self.largest_group() {
                break;
            }
            (meta, data) = (meta + p.meta.len(), data + p.blocks as usize);
            chosen.push(*seq);
        }
        let meta = group::HEADER + group::meta_len(meta, data);
        (chosen, crate::block::blocks(meta as u64) + data as u64)
    }

    fn largest_group(&self) -> usize {
        GROUP.min(self.ring.size() as usize * BLOCK / 8)
    }

    fn form_group(&mut self) -> bool {
        let (chosen, blocks) = self.choose();
        if chosen.is_empty() {
            return false;
        }
        let Some(at) = self.ring.place(blocks) else { return false };
        let outgoing: Vec<Outgoing> = (chosen.iter())
            .map(|seq| Outgoing { meta: self.pending[seq].meta.clone(), data: self.records.outgoing(*seq) })
            .collect();
        let (incarnation, uuid) = (self.sb.incarnation, self.sb.uuid);
        let mut header = Header {
            version: self.sb.version,
            uuid,
            incarnation,
            lsn: self.lsn + 1,
            chain: self.chain,
            durable: self.durable,
            ..Header::default()
        };
        let (buf, starts) = group::build(&mut header, &outgoing);
        assert_eq!(buf.len() as u64, blocks * BLOCK as u64);
        let bytes = buf.freeze();
        (self.lsn, self.chain) = (header.lsn, header.crc);
        let mut flight = Flight { lsn: header.lsn, done: false, commits: Vec::with_capacity(chosen.len()), records: Vec::new() };
        for (seq, start) in chosen.iter().zip(starts) {
            let pending = self.pending.remove(seq).expect("chosen from these");
            let from = start as usize * BLOCK;
            self.records.formed(*seq, bytes.slice(from..from + pending.blocks as usize * BLOCK));
            flight.commits.push((pending.ticket, pending.submitted));
            flight.records.push((*seq, at + start));
        }
        if self.unready == 0 && !self.touched.is_empty() {
            self.touched.clear();
        }
        self.counters.groups += 1;
        self.counters.journal_bytes += bytes.len() as u64;
        self.flights.push_back(flight);
        let offset = (self.sb.ring_start + at) * BLOCK as u64;
        #[cfg(not(test))]
        let durable = true;
        #[cfg(test)]
        let durable = self.sabotage != Some(crate::tests::Sabotage::CommitBeforeDurable);
        self.io.write(self.ring_device(), offset, bytes.into(), durable, Purpose::Group(header.lsn));
        true
    }

    /// A group's write ended: it and what waited for it is durable when all before it are.
    pub(crate) fn group_done(&mut self, lsn: u64) {
        if let Some(flight) = self.flights.iter_mut().find(|f| f.lsn == lsn) {
            flight.done = true;
        }
        #[cfg(test)]
        if self.sabotage == Some(crate::tests::Sabotage::CommitOutOfOrder) {
            self.flights.make_contiguous().sort_by_key(|f| (!f.done, f.lsn));
        }
        while self.flights.front().is_some_and(|f| f.done) && self.failure.is_none() {
            let flight = self.flights.pop_front().expect("just seen");
            self.durable = flight.lsn;
            flight.records.into_iter().for_each(|(seq, at)| self.records.placed(seq, at));
            for (ticket, submitted) in flight.commits {
                self.counters.commits += 1;
                self.counters.latency(self.now.since(submitted));
                self.events.push_back(Event::Committed(ticket));
            }
        }
    }

    /// Writes zeros ahead in the ring, so that groups go where the file system below has nothing left to decide.
    pub(crate) fn claim_ahead(&mut self) {
        let left = self.ring.len() - self.ring.claimed();
        if self.claiming || left == 0 || self.now < self.host.claim_at {
            return;
        }
        self.claiming = true;
        let blocks = left.min(CLAIM / BLOCK as u64);
        let offset = (self.sb.ring_start + self.ring.claimed()) * BLOCK as u64;
        let zeros: Rope = Buf::zeroed(blocks as usize * BLOCK).freeze().into();
        self.io.write(self.ring_device(), offset, zeros, false, Purpose::Claim(blocks));
        if left == blocks {
            self.log.push((Level::Debug, "the journal's ring is written ahead to its end".into()));
        }
    }

    /// Whether callers should slow down.
    pub(crate) fn is_congested(&self) -> bool {
        if self.impaired.is_some() {
            // Nothing gets better by waiting, and what comes is refused.
            return false;
        }
        let waiting: u64 = self.pending.values().map(|p| u64::from(p.blocks) + 1).take(1024).sum();
        let delta = self.active.bytes + self.frozen.as_ref().map_or(0, |f| f.bytes);
        (self.ring.used() + waiting) * 4 > self.ring.size() * 3
            || delta > self.config.shares().delta
            || self.stalled.len() > 256
            || self.short_for_now()
            || self.pending.len() > MOST_PENDING / 2
    }
}

/// Where a staged block goes in these runs.
fn on_disk(place: Place, runs: &[BlockRun]) -> Place {
    let Where::Staged(index) = place.place() else { return place };
    let mut left = index;
    for (block, n) in runs {
        if left < *n {
            return Place::disk(block + u64::from(left));
        }
        left -= n;
    }
    unreachable!("the runs are as long as what is staged")
}

/// Whether a change is likely to give space back.
fn frees(change: &ObjectChange) -> bool {
    use ObjectChange::{OmapClear, OmapRemoveRange, Remove, Truncate, Zero};
    matches!(change, Remove | Truncate(_) | Zero(..) | OmapClear | OmapRemoveRange(..))
}

/// A transaction's objects, as numbers.
fn hashes(transaction: &Transaction) -> Vec<u64> {
    objects_of(&transaction.objects).map(|o| hash_object(&plain(o))).collect()
}
