//! The store as a whole: its state, and how its driver turns it.

use crate::block::{BLOCK, Run};
use crate::cache::Caches;
use crate::config::{Config, OpenError};
use crate::counters::{Counters, Memory, Tally};
use crate::doubts::Doubts;
use crate::due::Due;
use crate::flight::{Checkpoint, Marking};
use crate::held::Held;
use crate::index::overlay::Overlay;
use crate::io::{DATA, Io, JOURNAL, Purpose, Writing};
use crate::journal::Journal;
use crate::memory::Giving;
use crate::opening::Opening;
use crate::pieces::Pieces;
use crate::pipeline::Pipeline;
use crate::scattered::Scattered;
use crate::shed::Shed;
use crate::space::Space;
use crate::superblock::Superblock;
use crate::waiting::Waiting;
use crate::wish::Owner;
use node::{DeviceId, DiskDone, DiskError, DiskOutput, DiskStat, Level, Mono, Now, Outputs};
use objectstore::Event;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

/// How far the store is.
pub(crate) enum Phase {
    /// Reading superblocks, tree and journal.
    Opening(Box<Opening>),
    /// In use.
    Ready,
    /// It could not be opened.
    Refused(OpenError),
}

/// A store on one disk. See the crate's text.
pub struct Store {
    /// Its memory is what is in force.
    pub(crate) config: Config,
    pub(crate) giving: Giving,
    pub(crate) phase: Phase,
    pub(crate) failure: Option<String>,
    pub(crate) doubts: Doubts,
    /// What is on disk.
    pub(crate) sb: Superblock,
    pub(crate) space: Space,
    pub(crate) overlay: Overlay,
    pub(crate) checkpoint: Option<Box<Checkpoint>>,
    pub(crate) due: Due,
    /// The reserve for a delta that was reckoned last, and what it was reckoned from.
    pub(crate) reserve: Cell<([u64; 5], u64)>,
    pub(crate) marking: Marking,
    pub(crate) shed: Shed,
    pub(crate) scattered: Scattered,
    pub(crate) caches: Caches,
    pub(crate) writing: Writing,
    pub(crate) journal: Journal,
    /// Carried out, not yet in a group.
    pub(crate) pipeline: Pipeline,
    /// Not carried out yet.
    pub(crate) waiting: Waiting,
    pub(crate) holds: BTreeMap<Owner, Held>,
    pub(crate) pieces: Pieces,
    pub(crate) io: Io,
    pub(crate) events: VecDeque<Event>,
    pub(crate) log: Vec<(Level, String)>,
    pub(crate) stopping: bool,
    /// Both superblock slots tell the state of a clean stop: if one rots, the other does not tell an older state.
    pub(crate) clean_twice: bool,
    pub(crate) journal_disk: DiskStat,
    pub(crate) now: Mono,
    pub(crate) counters: Counters,
    pub(crate) tally: Tally,
    /// Nothing may be written (the checker).
    pub(crate) read_only: bool,
    /// A mistake to make, so that tests prove that they would see it.
    #[cfg(test)]
    pub(crate) mistake: Option<crate::mistake::Mistake>,
}

impl Store {
    /// Begins to make a store on an empty disk (a disk without a valid superblock of ours).
    pub fn create(config: Config) -> Self {
        Self::new(config, true)
    }

    /// Begins to open the store that is there.
    pub fn open(config: Config) -> Self {
        Self::new(config, false)
    }

    pub(crate) fn new(mut config: Config, create: bool) -> Self {
        config.memory = config.memory.max(Config::LEAST_MEMORY);
        let mut store = Self {
            phase: Phase::Opening(Box::new(Opening::new(create))),
            failure: None,
            doubts: Doubts::default(),
            sb: Superblock::default(),
            space: Space::default(),
            overlay: Overlay::new(1),
            checkpoint: None,
            due: Due::default(),
            reserve: Cell::new(([u64::MAX; 5], 0)),
            marking: Marking::None,
            shed: Shed::default(),
            scattered: Scattered::default(),
            caches: Caches::new(&config.shares()),
            writing: Writing::default(),
            journal: Journal::unknown(),
            pipeline: Pipeline::new(1),
            waiting: Waiting::default(),
            holds: BTreeMap::new(),
            pieces: Pieces::default(),
            io: Io::default(),
            events: VecDeque::new(),
            log: Vec::new(),
            stopping: false,
            clean_twice: false,
            journal_disk: DiskStat::default(),
            now: Mono::default(),
            counters: Counters::default(),
            tally: Tally::default(),
            read_only: false,
            #[cfg(test)]
            mistake: None,
            giving: Giving::new(config.memory),
            config,
        };
        store.space.discard(store.config.discard);
        store.io.stat(DATA, Purpose::Open);
        store
    }

    /// Returns true if it can be read and written; false while it opens, and after it failed to.
    pub fn ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    /// Returns why it could not be opened.
    pub fn open_error(&self) -> Option<&OpenError> {
        match &self.phase {
            Phase::Refused(error) => Some(error),
            _ => None,
        }
    }

    /// Returns why it stopped, if its disk failed.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// The store's identity: its uuid, cluster and OSD (zeros before it is open).
    pub fn identity(&self) -> ([u8; 16], types::Fsid, i32) {
        (self.sb.uuid, self.sb.fsid, self.sb.whoami)
    }

    /// Returns what it counted since it was opened.
    pub fn counters(&self) -> Counters {
        self.tally.add_to(self.counters.clone())
    }

    /// Returns what it holds in memory now.
    pub fn memory(&self) -> Memory {
        Memory {
            blocks: self.caches.blocks.bytes(),
            pages: self.caches.pages.bytes(),
            records: self.journal.bytes() + self.scattered.bytes(),
            delta: self.overlay.bytes() + self.counted() + self.shed.bytes(),
            maps: self.space.map_bytes(),
            onodes: self.caches.onodes.borrow().len(),
            ranges: self.caches.ranges.borrow().len(),
        }
    }

    /// Bytes of memory that are in no share.
    fn beside(&self) -> usize {
        // An entry of a tree.
        const MOVED: usize = 48;
        let moved = self.checkpoint.as_ref().map_or(0, |c| c.moved.len() * MOVED);
        self.space.map_bytes() + self.journal.beside() + self.counted() + self.shed.bytes() + moved
    }

    /// Forgets all that is on disk, too: what is read next comes from there.
    pub fn drop_caches(&mut self) {
        self.caches.clear(&self.config.shares());
    }

    /// Asks for a checkpoint as soon as one may begin. False if nothing changed since the last.
    pub fn compact(&mut self) -> bool {
        let wanted = self.due.is_wanted() || self.overlay.has_news();
        self.due.want(wanted);
        wanted
    }

    /// A disk request of this store ended.
    pub fn disk_done(&mut self, now: Now, done: DiskDone) {
        self.now = now.mono;
        if self.no_space(&done) {
            return;
        }
        let Some(purpose) = self.io.ended(done.token) else { return };
        match purpose {
            Purpose::Open => self.opening_done(done),
            Purpose::Fetch(owner, item, epoch) => {
                let opening = owner == Owner::Open;
                self.fetch_done(owner, item, epoch, done);
                if opening {
                    self.continue_opening();
                }
            }
            Purpose::Piece(number, at) => {
                if self.piece_done(number, at, done) == Some(Owner::Open) {
                    self.continue_opening();
                }
            }
            Purpose::Stat => {
                if let Ok(DiskOutput::Stat(stat)) = done.result {
                    self.space.told(stat);
                }
            }
            Purpose::Trim(run, sweep) => self.space.trimmed(run, sweep),
            // Whether the disk did anything about it is the disk's business.
            Purpose::Discard(run) => self.space.told_free(run),
            write => match done.result {
                Ok(_) => self.write_done(write),
                Err(error) => self.fail(format!("writing to the disk failed ({error:?}): {write:?}")),
            },
        }
    }

    fn write_done(&mut self, purpose: Purpose) {
        match purpose {
            Purpose::Direct(seq, block) => self.direct_done(seq, block),
            Purpose::Settle(seqs) => self.pipeline.settled(seqs),
            Purpose::Group(lsn) => self.group_done(lsn),
            Purpose::Claim(blocks) => self.claimed(blocks),
            Purpose::Ahead(run) => self.written_ahead(run),
            Purpose::Checkpoint => self.checkpoint_write_done(),
            Purpose::Flush => self.flushed(),
            Purpose::Mark => self.marked(),
            Purpose::Flip => self.flipped(),
            Purpose::Open | Purpose::Fetch(..) | Purpose::Piece(..) | Purpose::Stat | Purpose::Trim(..) | Purpose::Discard(_) => {
                unreachable!("handled by the caller")
            }
        }
    }

    /// Ends a round: issues what is to be written and read, and works in the background.
    pub fn turn(&mut self, now: Now, out: &mut Outputs) {
        self.now = now.mono;
        if self.failure.is_none() {
            // Also while the store is being made or opened.
            self.io.retry(now.mono);
        }
        if self.opening_goes_on() {
            self.continue_opening();
        }
        if self.ready() && self.failure.is_none() && !self.read_only {
            self.caches.blocks.tick(now.mono);
            self.giving.step(&mut self.config, &mut self.caches);
            self.shed.step();
            self.settle_limbo();
            self.try_hurt_again();
            self.run_stalled();
            self.mark_families();
            self.unstuck();
            self.settle();
            self.form_groups();
            self.work_on_checkpoint();
            self.claim_ahead();
            self.write_ahead();
            self.journal.thin(self.config.shares().records);
            self.give_back();
            self.discard();
            self.defragment();
            self.caches.lend_unused(self.beside());
            self.note_host();
            self.space.ask_sizes(&mut self.io, self.now);
        }
        self.io.drain(out);
        for (level, text) in self.log.drain(..) {
            out.log(level, "store", text);
        }
    }

    /// Returns when `turn` must be called at the latest.
    pub fn deadline(&self) -> Mono {
        if self.failure.is_some() {
            return Mono::NEVER;
        }
        if self.opening_goes_on() {
            return Mono(0);
        }
        if !self.ready() {
            return self.io.deadline();
        }
        let lets_go = self.space.has_settled() && self.space.may_let_go(&self.io) > 0;
        if lets_go || self.waiting.more || !self.shed.is_empty() || self.checkpoint_has_work() || self.giving.is_busy() {
            return Mono(0);
        }
        self.io
            .deadline()
            .min(self.doubts.unsticks_at().unwrap_or(Mono::NEVER))
            .min(self.space.ask_sizes_at())
            .min(self.reclaim_at())
            .min(self.defragment_at())
            .min(if self.stopping { Mono::NEVER } else { self.space.tell_free_at() })
            .min(self.rest_ends())
    }

    /// Begins a clean stop: what was submitted becomes durable, and a checkpoint is made.
    pub fn begin_stop(&mut self) {
        self.stopping = true;
    }

    /// Returns true if the clean stop is done (or there is nothing that could be stopped cleanly).
    pub fn stopped(&self) -> bool {
        self.stopping
            && match self.phase {
                Phase::Opening(_) => false,
                Phase::Refused(_) => true,
                // What a checkpoint cannot read yet stays in the journal.
                // A request that is under way must not meet what the next program writes.
                Phase::Ready if self.failure.is_none() && self.space.is_discarding() => false,
                Phase::Ready if self.doubts.hamper() => self.is_journalled(),
                Phase::Ready => self.failure.is_some() || (self.quiet() && !self.space.writes_ahead() && self.clean_twice),
            }
    }

    /// Returns why a clean stop does not come to its end, if that is known.
    pub fn hindrance(&self) -> Option<String> {
        if self.io.host_full() {
            return Some("the host has no space left for the store's file".into());
        }
        self.impairment().map(str::to_owned)
    }

    /// Returns true if nothing waits to become durable.
    pub(crate) fn quiet(&self) -> bool {
        !self.marking.is_under_way()
            && self.waiting.is_empty()
            && self.is_journalled()
            && self.checkpoint.is_none()
            && !self.overlay.has_news()
    }

    /// Returns true if all that was carried out is in the journal, durable.
    pub(crate) fn is_journalled(&self) -> bool {
        self.pipeline.is_empty() && self.journal.is_quiet()
    }

    /// The disk failed: nothing more is promised, nothing more is told to be durable.
    pub(crate) fn fail(&mut self, why: String) {
        if self.failure.is_none() {
            self.log.push((Level::Error, format!("the store stops: {why}")));
            self.failure = Some(why);
        }
    }

    pub(crate) fn ring_device(&self) -> DeviceId {
        if self.sb.separate_journal { JOURNAL } else { DATA }
    }

    /// Blocks that exist on a device.
    pub(crate) fn device_blocks(&self, device: DeviceId) -> u64 {
        if device == JOURNAL {
            return self.sb.ring_start + self.sb.ring_len;
        }
        self.sb.blocks.max(self.space.disk().len / BLOCK as u64)
    }

    /// Deals with a write for which the host had no space. True if that is done.
    fn no_space(&mut self, done: &DiskDone) -> bool {
        if !matches!(done.result, Err(DiskError::NoSpace)) {
            return false;
        }
        if self.io.is_claim(done.token) {
            // The ring goes on in the part that exists.
            self.io.ended(done.token);
            self.space.claim_refused(self.now);
            self.journal.claim_refused();
            return true;
        }
        if let Some(run) = self.io.ahead(done.token) {
            self.io.ended(done.token);
            self.space.ahead_refused(run, self.now);
            return true;
        }
        if !self.ready() || !self.io.refused(done.token, self.now) {
            return false;
        }
        if self.space.host_refused() {
            self.log.push((Level::Warn, "the host has no space for the store's file; writes are tried again each second".into()));
        }
        true
    }

    /// Logs when the host has space again.
    fn note_host(&mut self) {
        if self.space.host_recovered(&self.io) {
            self.log.push((Level::Info, "the host has space again for the store's file".into()));
        }
    }

    /// Gives free blocks back to the host when it is short.
    fn give_back(&mut self) {
        if self.space.is_to_give_back(&self.io) {
            let kept_back = self.kept_back();
            self.space.give_back(&mut self.io, kept_back);
        }
    }

    /// Tells a raw disk what is free.
    fn discard(&mut self) {
        if !self.stopping && self.space.tell_free_at() <= self.now {
            let kept_back = self.kept_back();
            self.space.tell_free(&mut self.io, self.now, kept_back);
        }
    }

    /// Keeps space ready that was written before.
    fn write_ahead(&mut self) {
        if !self.stopping && self.space.may_write_ahead(self.now) && self.space.lacks_ahead(self.config.write_ahead) {
            let kept_back = self.kept_back();
            self.space.write_ahead(&mut self.io, kept_back);
        }
    }

    /// A step ahead is on the disk.
    fn written_ahead(&mut self, run: Run) {
        self.space.written_ahead(run, true);
        self.counters.ahead_bytes += u64::from(run.1) * BLOCK as u64;
    }

    /// Sets the memory of caches and the index's delta to `bytes`; at least [`Config::LEAST_MEMORY`] counts. What is
    /// too much goes in the next rounds.
    pub fn set_memory(&mut self, bytes: u64) {
        self.giving.want(bytes, &mut self.config, &mut self.caches);
    }

    /// Gives back some of what flips freed, as far as no read can still want it. [`Self::turn`] goes on.
    pub(crate) fn settle_limbo(&mut self) {
        let most = self.space.may_let_go(&self.io);
        let Some(settled) = self.space.settled(most) else { return };
        settled.runs.iter().chain(&settled.pages).for_each(|run| self.space.let_go(&mut self.io, *run));
        if let Some((end, seq)) = settled.end {
            self.journal.trim(&end, seq);
        }
    }
}
