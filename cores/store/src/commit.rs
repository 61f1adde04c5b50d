//! From a submitted transaction to a durable one: room, places, records, groups, commits.

use crate::block::Run as BlockRun;
use crate::block::{BLOCK, LARGE, MOST_SEQ, PAGE_BLOCKS, Patch, Place, Where};
use crate::cache::Known;
use crate::checked::Checked;
use crate::exec::{Plan, Run, Takes, size_of};
use crate::flight::Marking;
use crate::index::delta::Delta;
use crate::io::{DATA, Purpose};
use crate::journal::Formed;
use crate::journal::group::{self, RecordHead};
use crate::journal::staged::Staged;
use crate::onode::Onode;
use crate::pipeline::Pending;
use crate::read::Eye;
use crate::store::Store;
use crate::waiting::{Barrier, Stalled};
use crate::wish::{Owner, WISH_MARK};
use bytes::Bytes;
use node::{Buf, Level, Mono};
use objectstore::{Event, ObjectChange, Refused, Ticket, Transaction, Unread};
use types::Rope;

/// Numbers of records that are left to transactions which wait when no new ones are taken any more.
const LAST_RECORDS: u64 = 1 << 20;
/// Units of work in one turn that transactions which waited may take, about: blocks that they name, and the rest by weight. A unit takes
/// some 100 to 200 ns; a clone of an object of 4 MiB has a thousand.
const WORK: usize = 1 << 14;
/// Units of a transaction that must wait on.
const IN_VAIN: usize = 256;

impl Store {
    /// Takes a transaction on.
    pub(crate) fn take_on(&mut self, transaction: Transaction, ticket: Ticket) -> Result<(), Refused> {
        if !self.ready() || self.failure.is_some() || self.stopping {
            return Err(Refused::Stopped);
        }
        if self.doubts.impairment().is_some() {
            return Err(Refused::Damaged);
        }
        if self.pipeline.next() >= MOST_SEQ - LAST_RECORDS {
            self.fail("it has written 2^43 records, and its format has no numbers for more: make this OSD anew".into());
            return Err(Refused::Stopped);
        }
        let takes = size_of(&transaction).ok_or(Refused::TooLarge)?;
        let Takes { blocks, index } = takes;
        if takes.in_record() > self.largest_record() {
            return Err(Refused::TooLarge);
        }
        if !transaction.only_removes() && !self.has_room(blocks, index) {
            return Err(Refused::NoSpace);
        }
        let may_run = !self.pipeline.is_full() && !self.waits_to_remove(&transaction);
        if may_run && !self.waiting.conflicts(&transaction) && self.room_to_move(blocks) {
            match Run::carry_out(self.eye_of(&transaction), &transaction) {
                // Clones take more than was said: keys, and blocks that are only in the journal.
                Ok(plan)
                    if (plan.copied > 0 || plan.staged.len() as u64 > blocks)
                        && !self.has_room(plan.staged.len() as u64, plan.copied) =>
                {
                    return Err(Refused::NoSpace);
                }
                Ok(plan) => {
                    let now = self.now;
                    match self.accept(&transaction, ticket, now, plan) {
                        Accepted::Yes => return Ok(()),
                        Accepted::NoRoom => self.stall(transaction, ticket, blocks, None),
                    }
                }
                Err(unread) if self.wants_families(&unread) => self.stall(transaction, ticket, blocks, None),
                Err(unread) => self.stall(transaction, ticket, blocks, Some(unread)),
            }
        } else {
            self.stall(transaction, ticket, blocks, None);
        }
        Ok(())
    }

    /// Returns what a transaction sees that was just submitted: with what its rehearsal fetched.
    fn eye_of(&self, transaction: &Transaction) -> Eye<'_> {
        let held = transaction.hold.and_then(|hold| self.holds.get(&Owner::Hold(hold)));
        Eye { store: self, held }
    }

    /// Returns true if there is room for so many blocks and bytes of index more.
    fn has_room(&mut self, blocks: u64, index: u64) -> bool {
        let starved = self.checkpoint.as_ref().is_some_and(|c| c.starved);
        let fits = !starved && !self.io.host_full() && blocks + 3 * index.div_ceil(BLOCK as u64) <= self.available_blocks();
        if !fits {
            self.due.want(self.overlay.has_news());
        }
        fits
    }

    /// Returns true if the blocks would find a place at all; if not, even removals wait for the next flip.
    fn room_to_move(&mut self, blocks: u64) -> bool {
        let fits = self.space.promised() + blocks + self.index_reserve() <= self.space.free();
        if !fits {
            self.due.want(self.overlay.has_news());
        }
        // Nothing will become free: then it may as well try.
        fits || (self.checkpoint.is_none()
            && !self.overlay.has_news()
            && self.space.is_settled()
            && blocks + self.space.promised() <= self.space.free())
    }

    /// Blocks that the next checkpoints may need for pages.
    fn index_reserve(&self) -> u64 {
        let frozen = self.checkpoint.as_ref().map_or(0, |c| c.reserved.saturating_sub(c.pages_taken()));
        self.reserve_of(self.overlay.active()) + frozen
    }

    /// Blocks that a checkpoint may need for pages which merges this delta. It is asked for several times a round, and most
    /// rounds change nothing of it.
    pub(crate) fn reserve_of(&self, delta: &Delta) -> u64 {
        // Of what was replayed nobody knows how much it takes away: no more than there is.
        let references = delta.references().unwrap_or_else(|| 2 * delta.cells + self.space.data());
        let of = [delta.len() as u64, delta.bytes as u64, references, self.space.pages(), self.space.shared_pages()];
        let (known, reserve) = self.reserve.get();
        if known == of {
            return reserve;
        }
        // A tree of one leaf is written again even if nothing changes. Of few changes each may have a way of its own from the root
        // to its leaf; more than all inner pages no ways have.
        let len = delta.len() as u64;
        let inner = (u64::from(PAGE_BLOCKS) * 3 * len).min(self.space.pages() / 32 + 8);
        let touched = 3 * len + u64::from(PAGE_BLOCKS) + inner;
        let reserve = touched.min(self.space.pages() + 16) + 2 * (delta.bytes / BLOCK) as u64 + self.space.map_pages(references);
        self.reserve.set((of, reserve));
        reserve
    }

    /// Returns true if removals took so much away that a checkpoint must take that in before more may go. A merge
    /// keeps all of it in memory.
    pub(crate) fn much_gone(&self) -> bool {
        self.overlay.active().gone >= self.config.shares().gone
    }

    /// Returns true if a transaction must wait because it removes something, and too much of that was removed already.
    fn waits_to_remove(&self, transaction: &Transaction) -> bool {
        // At a stop what waits is carried out first, and then there is one checkpoint for all of it.
        !self.stopping && self.much_gone() && transaction.objects.iter().flat_map(|o| &o.changes).any(takes_ranges)
    }

    /// Blocks that can still be given to data.
    pub(crate) fn available_blocks(&self) -> u64 {
        self.space.writable().saturating_sub(self.space.promised() + self.kept_back())
    }

    /// Blocks that are free, but not for new data.
    pub(crate) fn kept_back(&self) -> u64 {
        self.index_reserve() + self.space.floor() + self.waiting.blocks()
    }

    /// Blocks that could be given to data if all that changed were in the index already: copies of pages that the next checkpoints
    /// need for a while count as free, and so does what is lent for a moment.
    pub(crate) fn lasting_blocks(&self) -> u64 {
        let copies = self.checkpoint.as_ref().map_or(0, |c| c.pages_taken());
        (self.space.soon_writable() + copies).saturating_sub(self.space.promised() + self.lasting_reserve())
    }

    /// Blocks that stay kept back, and what the index grows by.
    pub(crate) fn lasting_reserve(&self) -> u64 {
        2 * (self.overlay.bytes() / BLOCK) as u64 + self.space.floor() + self.waiting.blocks()
    }

    /// Returns true if there is little space only until a checkpoint is done: waiting for that is better than to be
    /// full for a moment, which all clients of the cluster hear of.
    pub(crate) fn short_for_now(&self) -> bool {
        (self.checkpoint.is_some() || self.overlay.has_news()) && self.is_short(self.available_blocks())
    }

    /// The same for who knows how many blocks are available.
    pub(crate) fn is_short(&self, available: u64) -> bool {
        let little = 2 * self.space.floor();
        (self.checkpoint.is_some() || self.overlay.has_news())
            && !self.io.host_full()
            && available < little
            && self.lasting_blocks() >= little + little / 4
    }

    fn stall(&mut self, mut transaction: Transaction, ticket: Ticket, blocks: u64, unread: Option<Unread>) {
        self.counters.stalled += 1;
        // What its rehearsal found whole must be there when its turn comes.
        let held = transaction.hold.take().and_then(|hold| self.holds.remove(&Owner::Hold(hold)));
        let owner = Owner::Stalled(self.waiting.push(transaction, ticket, blocks, unread.is_none(), self.now));
        self.holds.extend(held.map(|held| (owner, held)));
        match unread {
            Some(Unread::Missing(wish)) => self.fetch_for(owner, wish),
            Some(Unread::Damaged(damage)) => {
                if let Owner::Stalled(id) = owner {
                    self.waiting.set_hurt(id);
                }
                self.transaction_hurt(&damage);
            }
            None => (),
        }
    }

    /// Carries out what waited, as far as it can be now and as one turn may take: in order, behind nothing of its scope or objects that
    /// still waits.
    pub(crate) fn run_stalled(&mut self) {
        self.waiting.more = false;
        if self.waiting.is_empty() || self.pipeline.is_full() {
            return;
        }
        let (mut waiting, mut barrier, mut work) = (self.waiting.take_all(), Barrier::default(), 0);
        while let Some(mut stalled) = waiting.pop_front() {
            if work >= WORK {
                waiting.push_front(stalled);
                return self.waiting.put_back_rest(waiting);
            }
            let may_run = stalled.runnable
                && !barrier.holds(&stalled)
                && !self.pipeline.is_full()
                && !self.waits_to_remove(&stalled.transaction);
            if may_run && self.failure.is_none() && self.room_to_move(stalled.blocks()) {
                match self.run_one_stalled(stalled, &mut work) {
                    None => continue,
                    Some(again) => stalled = again,
                }
            }
            self.waiting.put_back(stalled, &mut barrier);
        }
    }

    /// Tries one that waited, and adds its work; it comes back if it must wait on.
    fn run_one_stalled(&mut self, mut stalled: Stalled, work: &mut usize) -> Option<Stalled> {
        let owner = Owner::Stalled(stalled.id);
        *work += IN_VAIN;
        match Run::carry_out(self.eye(owner), &stalled.transaction) {
            Ok(plan) => {
                *work += plan.work();
                if let Accepted::NoRoom = self.accept(&stalled.transaction, stalled.ticket, stalled.submitted, plan) {
                    return Some(stalled);
                }
                self.holds.remove(&owner);
                stalled.into_waiters().into_iter().for_each(|owner| self.waited(owner));
                return None;
            }
            Err(unread) if self.wants_families(&unread) => (),
            Err(Unread::Missing(wish)) => {
                self.fetch_for(owner, wish);
                // What cannot even be asked of the disk is known to be missing when it is tried again.
                stalled.runnable = self.holds.get(&owner).is_none_or(crate::held::Held::complete);
            }
            Err(Unread::Damaged(damage)) => {
                (stalled.runnable, stalled.hurt) = (false, true);
                self.transaction_hurt(&damage);
            }
        }
        Some(stalled)
    }

    /// Notes that a transaction must wait for the version of shared omaps, if that is what it misses. It is tried again with each round.
    fn wants_families(&mut self, unread: &Unread) -> bool {
        let wants = matches!(unread, Unread::Missing(wish) if wish.0.contains(&WISH_MARK));
        if wants && self.marking == Marking::None {
            self.marking = Marking::Wanted;
        }
        wants
    }

    /// Bytes of a record at most, with the data that goes along. Two such records, and what is lost at the ring's end, always find room
    /// in an empty ring.
    pub(crate) fn largest_record(&self) -> u64 {
        self.journal.size() * BLOCK as u64 / 4
    }

    /// The transaction will be durable: gives its data places, records it, and makes it visible. Not if its data is more than the ring
    /// can take, and there is no other place for it now.
    fn accept(&mut self, transaction: &Transaction, ticket: Ticket, submitted: Mono, mut plan: Plan) -> Accepted {
        let large = plan.staged.len() * BLOCK >= LARGE || plan.place.is_some();
        let runs = if let Some(place) = plan.place {
            Some(vec![place])
        } else if large {
            self.space.take_for_write(plan.staged.len() as u64)
        } else {
            None
        };
        if large && runs.is_none() && (plan.staged.len() * BLOCK + plan.delta.bytes) as u64 > self.largest_record() {
            self.due.want(self.overlay.has_news());
            return Accepted::NoRoom;
        }
        let seq = self.pipeline.next();
        let staged = std::mem::take(&mut plan.staged);
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
        if meta.capacity() - meta.len() >= BLOCK {
            // The delta keeps it in memory until a checkpoint has it.
            meta.shrink_to_fit();
        }
        let meta = Bytes::from(meta);
        let (next_id, changes) = (self.overlay.next_id(), meta.slice(group::record_head(self.sb.version)..));
        self.overlay.apply(&changes, plan.next_id, |_| ()).expect("our own encoding");
        self.overlay.takes(plan.gone);
        let after = {
            let objects = plan.objects.iter().map(|(_, known)| &known.key);
            self.pipeline.touch(objects.chain(&plan.families), transaction.scope, large)
        };
        self.caches.ranges.get_mut().follow(&plan.delta.extents, self.overlay.epoch());
        for (object, mut known) in plan.objects {
            self.know_first(&mut known, &plan.delta, next_id);
            known.onode = known.onode.map(Onode::on_its_own);
            self.caches.onodes.get_mut().put(object, Box::new(known));
        }
        self.space.promise(blocks.into());
        let removed = transaction.objects.iter().flat_map(|o| &o.changes).any(frees);
        self.due.note(removed, if large { plan.replaced } else { 0 });
        let writes = match runs {
            Some(runs) => {
                self.journal.push(seq, Staged::default(), transaction.cold);
                self.write_direct(seq, &staged, &runs, transaction.cold)
            }
            None => {
                self.journal.push(seq, staged, transaction.cold);
                0
            }
        };
        self.pipeline.push(Pending { ticket, scope: transaction.scope, meta, blocks, writes, after, submitted });
        if !plan.damaged.is_empty() {
            self.events.push_back(Event::Damaged(ticket, plan.damaged));
        }
        Accepted::Yes
    }

    /// Takes what defragmentation moves: its places are chosen already.
    pub(crate) fn accept_moved(&mut self, transaction: &Transaction, ticket: Ticket, plan: Plan) {
        assert!(plan.place.is_some_and(|run| run.1 as usize == plan.staged.len()));
        let now = self.now;
        let Accepted::Yes = self.accept(transaction, ticket, now, plan) else { unreachable!("it has a place") };
    }

    /// Brings what is known of an object's first blocks in step with a transaction that touched it. `next_id`: ids from here on are
    /// of objects that it made.
    fn know_first(&self, known: &mut Known, delta: &Delta, next_id: u64) {
        let Some(onode) = &known.onode else { return known.first = None };
        let key = (onode.id, 0);
        let lower = match &known.first {
            Some((epoch, patch)) if *epoch == self.overlay.epoch() && delta.extents.hidden(&key).is_none() => Some(patch.clone()),
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
        .map(|patch| (self.overlay.epoch(), patch));
    }

    fn write_direct(&mut self, seq: u64, staged: &Staged, runs: &[BlockRun], cold: bool) -> usize {
        let mut index = 0;
        for (block, n) in runs {
            let data = staged.rope(index, *n);
            self.caches.blocks.forget(*block, (*n).into());
            if let ([one], false) = (data.pieces(), cold) {
                let crcs = &staged.crcs()[index as usize..(index + n) as usize];
                self.caches.blocks.insert_written(*block, Checked::known_run(one.clone(), crcs), runs.len() > 1);
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
        self.pipeline.written(seq);
    }

    /// Flushes data that was written to places of its own, so that its records may enter the journal.
    pub(crate) fn settle(&mut self) {
        let Some(seqs) = self.pipeline.settle() else { return };
        #[cfg(any(test, feature = "sim"))]
        if self.scattered.mistake == Some(crate::scattered::MoveMistake::MoveUnflushed)
            && self.pipeline.are_of(&seqs, crate::defrag::TICKET)
        {
            return self.pipeline.settled(seqs);
        }
        #[cfg(test)]
        if self.mistake == Some(crate::mistake::Mistake::RecordBeforeData) {
            return self.pipeline.settled(seqs);
        }
        self.io.flush(DATA, Purpose::Settle(seqs));
    }

    /// Forms groups of what is ready and hands them to the disk.
    pub(crate) fn form_groups(&mut self) {
        while self.journal.takes_groups() && !self.pipeline.is_empty() && self.form_group() {}
    }

    /// Forms one. False if nothing is ready, or the ring has no room.
    fn form_group(&mut self) -> bool {
        let (chosen, blocks) = self.pipeline.choose(self.journal.largest_group());
        if chosen.is_empty() {
            return false;
        }
        let Some(at) = self.journal.reserve(blocks) else { return false };
        let Formed { lsn, bytes } = self.journal.form(&self.sb, at, self.pipeline.take(&chosen));
        assert_eq!(bytes.len() as u64, blocks * BLOCK as u64);
        self.counters.groups += 1;
        self.counters.journal_bytes += bytes.len() as u64;
        let offset = (self.sb.ring_start + at) * BLOCK as u64;
        #[cfg(not(test))]
        let durable = true;
        #[cfg(test)]
        let durable = self.mistake != Some(crate::mistake::Mistake::CommitBeforeDurable);
        self.io.write(self.ring_device(), offset, bytes.into(), durable, Purpose::Group(lsn));
        true
    }

    /// A group's write ended: it and what waited for it is durable when all before it are.
    pub(crate) fn group_done(&mut self, lsn: u64) {
        self.journal.written(lsn);
        #[cfg(test)]
        if self.mistake == Some(crate::mistake::Mistake::CommitOutOfOrder) {
            self.journal.forget_order();
        }
        if self.failure.is_some() {
            return;
        }
        while let Some(commits) = self.journal.next_durable() {
            for (ticket, submitted) in commits {
                if ticket == crate::defrag::TICKET {
                    self.scattered.written(self.now);
                    continue;
                }
                self.counters.commits += 1;
                self.counters.latency(self.now.since(submitted));
                self.scattered.served(submitted, self.now);
                self.events.push_back(Event::Committed(ticket));
            }
        }
    }

    /// Writes zeros ahead in the ring.
    pub(crate) fn claim_ahead(&mut self) {
        if !self.space.may_claim(self.now) {
            return;
        }
        let Some((first, blocks)) = self.journal.claim_next() else { return };
        let zeros: Rope = Buf::zeroed(blocks as usize * BLOCK).freeze().into();
        self.io.write(self.ring_device(), (self.sb.ring_start + first) * BLOCK as u64, zeros, false, Purpose::Claim(blocks));
    }

    /// Zeros were written ahead in the ring.
    pub(crate) fn claimed(&mut self, blocks: u64) {
        self.journal.claim_written(blocks);
        if self.journal.is_claimed() {
            self.log.push((Level::Debug, "the journal's ring is written ahead to its end".into()));
        }
    }

    /// Returns true if callers should slow down.
    pub(crate) fn is_congested(&self) -> bool {
        if self.doubts.impairment().is_some() {
            // Nothing gets better by waiting, and what comes is refused.
            return false;
        }
        (self.journal.used() + self.pipeline.weight()) * 4 > self.journal.size() * 3
            || self.overlay.bytes() > self.config.shares().delta
            || self.waiting.len() > 256
            || self.short_for_now()
            || self.pipeline.is_half_full()
    }
}

/// Whether a transaction that was carried out became a record.
enum Accepted {
    /// It did.
    Yes,
    /// There is no place for its data now. Nothing was done.
    NoRoom,
}

/// Returns where a staged block goes in these runs.
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

/// Returns true if a change may take whole ranges from an object.
fn takes_ranges(change: &ObjectChange) -> bool {
    use ObjectChange::{CloneOf, CloneRange, Remove, TakeOver, Truncate, Zero};
    matches!(change, Remove | Truncate(_) | Zero(..) | CloneOf(_) | CloneRange(..) | TakeOver(_))
}

/// Returns true if a change is likely to give space back.
fn frees(change: &ObjectChange) -> bool {
    use ObjectChange::{OmapClear, OmapRemoveRange, Remove, Truncate, Zero};
    matches!(change, Remove | Truncate(_) | Zero(..) | OmapClear | OmapRemoveRange(..))
}
