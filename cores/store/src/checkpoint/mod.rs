//! The checkpoint freezes the delta, moves its data out of the journal, merges it into new pages, and makes all of that
//! count with one write of a superblock. Section 6 of `docs/format/store.md` gives the order and the reasons.

mod merge;
mod mover;

use crate::block::BLOCK;
use crate::flight::{Checkpoint, Marking, Stage};
use crate::io::{DATA, Purpose};
use crate::space::limbo::Freed;
use crate::space::{Flipped, Frozen};
use crate::store::Store;
use crate::superblock::{FAMILIES, MOST_SKIPPED, PIECES, Superblock};
use crate::wish::Owner;
use node::{Level, Mono};
use std::collections::BTreeMap;
use std::time::Duration;
use types::Rope;

/// Steps of a checkpoint in one turn. Each moves up to 1 MiB or merges a leaf.
const STEPS: usize = 8;
/// Units of work of a checkpoint in one turn, about: entries of pages, blocks that gain or lose references, chunks of the
/// map. A unit takes some 20 to 100 ns.
const WORK: usize = 1 << 15;
/// Writes of a checkpoint in flight at a time.
const WRITES: usize = 8;
/// Wait until a checkpoint that lacks free blocks looks again.
const STARVED: Duration = Duration::from_secs(1);

impl Store {
    /// Says whether a checkpoint could go on at once.
    pub(crate) fn checkpoint_has_work(&self) -> bool {
        match &self.checkpoint {
            Some(c) => c.busy && c.writes < WRITES && !self.checkpoint_rests(),
            None => self.checkpoint_due() && self.can_freeze(),
        }
    }

    fn checkpoint_due(&self) -> bool {
        if self.stopping {
            return self.waiting.is_empty() && !self.quiet_on_disk();
        }
        // A checkpoint is also needed with nothing new, if transactions that the last one took in still wait for room
        // in the journal.
        (self.overlay.has_news() || !self.pipeline.is_empty())
            && (self.due.is_wanted()
                || self.due.much_replaced(self.config.replaced)
                || self.much_gone()
                || self.journal.used() * 2 > self.journal.size()
                || self.overlay.active().bytes > self.config.shares().delta / 2
                || self.space_due())
    }

    /// Returns true if a checkpoint is due as space is short, or may come back.
    fn space_due(&self) -> bool {
        let available = self.available_blocks();
        self.is_short(available) || self.reclaim_with(available) <= self.now
    }

    /// Returns when a checkpoint is due only because it may free space: removed data takes space until then.
    pub(crate) fn reclaim_at(&self) -> Mono {
        if self.may_reclaim() { self.reclaim_with(self.available_blocks()) } else { Mono::NEVER }
    }

    fn may_reclaim(&self) -> bool {
        self.overlay.has_news() && self.checkpoint.is_none() && self.can_freeze()
    }

    /// The same for who knows how many blocks are available.
    fn reclaim_with(&self, available: u64) -> Mono {
        if self.may_reclaim() { self.due.reclaim_at(available < self.space.total() / 8) } else { Mono::NEVER }
    }

    /// Says whether both superblock slots agree with memory.
    fn quiet_on_disk(&self) -> bool {
        self.clean_twice && !self.overlay.has_news() && self.is_journalled()
    }

    fn can_freeze(&self) -> bool {
        (!self.stopping || self.is_journalled())
            && self.shed.is_empty()
            && self.space.is_settled()
            && self.pipeline.ranges().len() <= MOST_SKIPPED
    }

    /// Ranges of records that are carried out and are in no journal group yet.
    fn to_skip(&self) -> Vec<(u64, u32)> {
        #[cfg(test)]
        if self.mistake == Some(crate::mistake::Mistake::ForgetSkipped) {
            return Vec::new();
        }
        self.pipeline.ranges()
    }

    /// Returns true if the superblock of a flip is being written: the moment that tests like best for a crash.
    #[cfg(test)]
    pub(crate) fn flipping(&self) -> bool {
        self.checkpoint.as_ref().is_some_and(|c| matches!(c.stage, Stage::Mark | Stage::Flip(_)))
    }

    /// Begins a checkpoint if one is due, and goes on with the one under way.
    pub(crate) fn work_on_checkpoint(&mut self) {
        if self.checkpoint.is_none() && self.checkpoint_due() && self.can_freeze() {
            self.freeze();
        }
        if self.checkpoint_rests() {
            return;
        }
        self.doubts.rested();
        let Some(mut checkpoint) = self.checkpoint.take() else { return };
        checkpoint.work = 0;
        for _ in 0..STEPS {
            checkpoint.busy = checkpoint.writes < WRITES && self.step(&mut checkpoint);
            if !checkpoint.busy || self.failure.is_some() || checkpoint.work >= WORK {
                break;
            }
        }
        self.checkpoint = Some(checkpoint);
    }

    /// Bytes of memory that the differences take which a merge has counted so far.
    pub(crate) fn counted(&self) -> usize {
        match self.checkpoint.as_deref() {
            Some(Checkpoint { stage: Stage::Merge(m), .. }) => m.differences.bytes(),
            _ => 0,
        }
    }

    fn freeze(&mut self) {
        self.due.begun(self.now);
        self.scattered.owed = 0;
        let reserved = self.reserve_of(self.overlay.active());
        let Frozen { born, promised, stable } = self.space.freeze();
        self.checkpoint = Some(Box::new(Checkpoint {
            stage: Stage::Move((0, 0)),
            seq: self.pipeline.next(),
            skipped: self.to_skip(),
            end: self.journal.end(),
            next_id: self.overlay.next_id(),
            born,
            promised,
            moved: BTreeMap::new(),
            writes: 0,
            pages_taken: 0,
            reserved,
            shared_pages: 0,
            in_pieces: false,
            version: self.sb.version,
            old_pages: Vec::new(),
            freed: Vec::new(),
            stable,
            root: self.sb.root.clone(),
            omap_bytes: 0,
            busy: true,
            work: 0,
            asked: Vec::new(),
            starved: false,
            doubts: 0,
        }));
        self.overlay.freeze();
        self.holds.entry(Owner::Checkpoint).or_default();
    }

    /// One step; false if it must wait for something.
    fn step(&mut self, c: &mut Checkpoint) -> bool {
        if !self.holds.get(&Owner::Checkpoint).is_none_or(crate::held::Held::complete) {
            return false;
        }
        match &mut c.stage {
            Stage::Move(_) => self.move_some(c),
            Stage::Merge(_) => self.merge_some(c),
            Stage::Drain => {
                // Data of the frozen delta's large writes must be on disk before the tree says so. And one superblock is written at
                // a time.
                if c.writes == 0 && !self.marking.is_under_way() && !self.pipeline.waits_for_data(c.seq) {
                    c.stage = Stage::Flush;
                    #[cfg(test)]
                    if self.mistake == Some(crate::mistake::Mistake::FlipBeforeFlush) {
                        self.io.stat(DATA, Purpose::Flush);
                        return false;
                    }
                    self.io.flush(DATA, Purpose::Flush);
                }
                false
            }
            Stage::Flush | Stage::Mark | Stage::Flip(_) => false,
        }
    }

    /// Says whether the checkpoint must wait until `blocks` are free. The reserve is there so that this does not happen;
    /// if it does, the store is full: it takes no new data, and goes on as soon as blocks come back from readers, the
    /// host or a larger disk.
    fn starves(&mut self, c: &mut Checkpoint, blocks: u64) -> bool {
        let free = self.space.free();
        if blocks <= free {
            c.starved = false;
            return false;
        }
        if !std::mem::replace(&mut c.starved, true) {
            let text = format!("a checkpoint needs {blocks} blocks, {free} are free: the store is full until more are");
            self.log.push((Level::Warn, text));
        }
        self.doubts.rest(self.now.plus(STARVED));
        true
    }

    /// One of the checkpoint's writes ended.
    pub(crate) fn checkpoint_write_done(&mut self) {
        if let Some(c) = &mut self.checkpoint {
            c.writes -= 1;
            c.busy = true;
        }
    }

    /// All that the new tree needs is durable: it may count, if the store says already that a tree may be like this.
    pub(crate) fn flushed(&mut self) {
        if let Some(c) = &mut self.checkpoint {
            let pieces = if c.in_pieces { PIECES } else { 0 };
            c.version = self.sb.version.max(pieces);
        }
        #[cfg(test)]
        if self.mistake == Some(crate::mistake::Mistake::FlipUnmarked) {
            return self.flip();
        }
        let version = match &mut self.checkpoint {
            Some(c) if c.version > self.sb.version => {
                c.stage = Stage::Mark;
                c.version
            }
            _ => return self.flip(),
        };
        // One slot is marked now, with the old tree, and the flip overwrites the other. So no slot is left that an
        // older program takes when groups of the new version are written.
        let sb = Superblock { version, generation: self.sb.generation + 1, ..self.sb.clone() };
        self.io.write(DATA, sb.slot() * BLOCK as u64, sb.encode().freeze().into(), true, Purpose::Mark);
    }

    /// The mark is durable. Groups have the older version until the flip, as the other slot has it, too.
    pub(crate) fn marked(&mut self) {
        self.sb.generation += 1;
        if self.marking.is_under_way() {
            return self.marked_families();
        }
        let version = self.checkpoint.as_ref().map_or(self.sb.version, |c| c.version);
        self.log
            .push((Level::Info, format!("the store is marked with format version {version}: pages of its index lie in pieces")));
        self.flip();
    }

    /// Marks the store with the version of shared omaps, if a transaction waits for that. Both slots are marked, one after the
    /// other, with the tree that counts: that takes two writes, and the checkpoint under way goes on beside them. Only when it is
    /// about to write a superblock itself that comes first.
    pub(crate) fn mark_families(&mut self) {
        let flips =
            matches!(self.checkpoint.as_deref(), Some(Checkpoint { stage: Stage::Flush | Stage::Mark | Stage::Flip(_), .. }));
        if self.marking == Marking::Wanted && !flips {
            self.marking = Marking::First;
            self.write_mark();
        }
    }

    fn write_mark(&mut self) {
        let sb = Superblock { version: FAMILIES, generation: self.sb.generation + 1, ..self.sb.clone() };
        self.io.write(DATA, sb.slot() * BLOCK as u64, sb.encode().freeze().into(), true, Purpose::Mark);
    }

    /// A slot is marked with the version of shared omaps. Groups have the older version until the other one is, too.
    fn marked_families(&mut self) {
        #[cfg(test)]
        if self.mistake == Some(crate::mistake::Mistake::MarkOnce) {
            self.marking = Marking::Second;
        }
        if self.marking == Marking::First {
            self.marking = Marking::Second;
            return self.write_mark();
        }
        self.marking = Marking::None;
        self.sb.version = FAMILIES;
        self.log.push((Level::Info, format!("the store is marked with format version {FAMILIES}: objects may share an omap")));
        if let Some(c) = &mut self.checkpoint {
            // It may have waited for the superblock.
            c.busy = true;
        }
    }

    /// Writes the superblock with the new tree.
    fn flip(&mut self) {
        let clean = self.stopping && self.waiting.is_empty() && self.is_journalled() && !self.overlay.has_news();
        let Some(c) = &mut self.checkpoint else { return };
        let sb = Superblock {
            version: c.version,
            generation: self.sb.generation + 1,
            claimed: self.journal.claimed(),
            root: c.root.clone(),
            tree: self.sb.tree + 1,
            replay_at: c.end.at(),
            replay_lsn: c.end.lsn,
            replay_chain: c.end.chain,
            next_seq: c.seq,
            next_id: c.next_id,
            omap_bytes: self.sb.omap_bytes.saturating_add_signed(c.omap_bytes),
            skipped: std::mem::take(&mut c.skipped),
            clean,
            ..self.sb.clone()
        };
        let data: Rope = sb.encode().freeze().into();
        self.io.write(DATA, sb.slot() * BLOCK as u64, data, true, Purpose::Flip);
        c.stage = Stage::Flip(Box::new(sb));
    }

    /// The new superblock is durable: the new tree is the truth.
    pub(crate) fn flipped(&mut self) {
        let Some(c) = self.checkpoint.take() else { return };
        self.unimpaired();
        let Stage::Flip(sb) = c.stage else { unreachable!("only a flip writes the superblock") };
        self.clean_twice = self.sb.clean && sb.clean;
        self.sb = *sb;
        self.pieces.forget();
        self.holds.remove(&Owner::Checkpoint);
        self.counters.checkpoints += 1;
        self.scattered.has_news();
        for (block, _) in &c.old_pages {
            self.caches.pages.forget(*block);
        }
        let epoch = self.overlay.epoch();
        let freed = Freed { epoch, born: c.born, runs: c.freed, pages: c.old_pages, end: c.end, seq: c.seq };
        let map = self.space.flipped(Flipped { promised: c.promised, stable: c.stable, freed, shared_pages: c.shared_pages });
        self.shed.replaced(map, c.moved);
        #[cfg(test)]
        if self.mistake == Some(crate::mistake::Mistake::Leak) {
            self.space.leak();
        }
        self.shed.delta(self.overlay.flip());
        self.settle_limbo();
    }
}
