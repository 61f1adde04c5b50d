//! Makes and opens a store: superblocks, the tree's inner pages, the map of free space, the journal.

mod replay;

use crate::block::{BLOCK, MOST_BLOCKS};
use crate::config::{Config, OpenError};
use crate::index::keys;
use crate::index::overlay::Overlay;
use crate::index::tree::Pages;
use crate::index::view::Step as Scan;
use crate::io::{DATA, JOURNAL, Purpose};
use crate::journal::{CLAIM, Journal};
use crate::opening::{Opening, Replay, Step};
use crate::pipeline::Pipeline;
use crate::read::{all_there, gather};
use crate::store::{Phase, Store};
use crate::superblock::{FIRST, PLAIN, SLOTS, Superblock, journal_mark, journal_owner};
use crate::wish::Owner;
use bytes::Bytes;
use node::{Buf, DeviceId, DiskDone, DiskError, DiskOutput, DiskStat, Level};
use objectstore::{Read, Unread};
use types::{Fsid, Rope};

/// Fewest blocks that must be left for data and pages.
const LEAST_ROOM: u64 = 256;

/// Chunks of the map of free space and inner pages that are loaded in one round. Others of the thread wait meanwhile.
const CHUNKS: usize = if cfg!(test) { 3 } else { 1024 };
const PAGES: usize = if cfg!(test) { 2 } else { 64 };

impl Config {
    /// Bytes of the smallest disk for a store, with its journal on a disk of its own or not.
    pub fn least_disk(separate_journal: bool) -> u64 {
        let journal = if separate_journal { 0 } else { Self::LEAST_JOURNAL };
        (FIRST + LEAST_ROOM) * BLOCK as u64 + journal
    }
}

fn hex(uuid: [u8; 16]) -> String {
    Fsid(uuid).to_string()
}

impl Store {
    /// Takes the end of one of opening's own requests.
    pub(crate) fn opening_done(&mut self, done: DiskDone) {
        let Phase::Opening(mut opening) = std::mem::replace(&mut self.phase, Phase::Ready) else { return };
        match self.opening_step(&mut opening, done) {
            // Only the last step leaves the phase as it is now.
            Ok(true) => self.became_ready(),
            Ok(false) => self.phase = Phase::Opening(opening),
            Err(error) => self.refuse(error),
        }
    }

    fn refuse(&mut self, error: OpenError) {
        self.log.push((Level::Error, error.to_string()));
        self.phase = Phase::Refused(error);
    }

    fn became_ready(&mut self) {
        self.holds.remove(&Owner::Open);
        self.overlay.replayed();
        self.scattered.opened(self.now);
        self.due.opened(self.now, self.overlay.has_news());
        self.log
            .push((Level::Info, format!("open: {} records in the journal to go into the index", self.overlay.active().len())));
    }

    /// Goes on after pages were fetched.
    pub(crate) fn continue_opening(&mut self) {
        let complete = self.holds.get(&Owner::Open).is_some_and(crate::held::Held::complete);
        if !complete || !matches!(self.phase, Phase::Opening(_)) {
            return;
        }
        let Phase::Opening(mut opening) = std::mem::replace(&mut self.phase, Phase::Ready) else { return };
        match self.load_tree(&mut opening) {
            Ok(()) => self.phase = Phase::Opening(opening),
            Err(error) => self.refuse(error),
        }
    }

    /// Takes what came back and begins the next step. True: the store is open.
    fn opening_step(&mut self, o: &mut Opening, done: DiskDone) -> Result<bool, OpenError> {
        let output = match (&o.step, done.result) {
            // A slot that cannot be read is like one that is not whole: the other one counts. But the older one must
            // not count because of a read that failed once.
            (Step::Slot(i), Err(_)) => {
                let i = *i;
                return self.slot_unread(o, i).map(|()| false);
            }
            (Step::Zeros | Step::WriteMark | Step::WriteSuper, Err(DiskError::NoSpace)) => {
                return Err(OpenError::Disk("the file system has no space for a new store".into()));
            }
            (_, result) => result.map_err(|e| OpenError::Disk(format!("{e:?}")))?,
        };
        match (&mut o.step, output) {
            (Step::DataSize, DiskOutput::Stat(stat)) => {
                self.space.told(stat);
                self.read_slot(o, 0)?;
            }
            (Step::Slot(i), DiskOutput::Read(buf)) => {
                let i = *i;
                match Superblock::parse(&buf) {
                    Ok(None) => {
                        self.slot_unread(o, i)?;
                        return Ok(false);
                    }
                    Ok(sb) => o.found.extend(sb),
                    Err(error) => o.newer = Some(error),
                }
                o.again = false;
                self.read_slot(o, i + 1)?;
            }
            (Step::JournalSize, DiskOutput::Stat(stat)) => {
                self.journal_disk = stat;
                if o.create {
                    self.begin_create(o, stat)?;
                } else {
                    self.open_read(o, JOURNAL, 0, 1, Step::Mark);
                }
            }
            (Step::Mark, DiskOutput::Read(buf)) => {
                let owner = journal_owner(&buf).map_or_else(|| "none of ours".into(), hex);
                let wanted = hex(self.sb.uuid);
                if owner != wanted {
                    return Err(OpenError::Foreign { what: "journal disk", found: owner, wanted });
                }
                self.begin_tree(o)?;
            }
            (Step::Zeros, DiskOutput::Done) => self.zeros_written(o),
            (Step::WriteMark, DiskOutput::Done) => self.write_super(o),
            (Step::WriteSuper, DiskOutput::Done) => self.begin_tree(o)?,
            (Step::Replay(replay), DiskOutput::Read(buf)) => {
                let bytes = buf.freeze();
                if self.replay_more(replay, Some(bytes))? {
                    return self.replayed(o);
                }
            }
            (Step::SettleJournal(sb), DiskOutput::Done) => {
                let sb = sb.clone();
                self.settle_data(o, sb);
            }
            (Step::Settle(sb), DiskOutput::Done) => {
                let (slot, buf, sb) = (sb.slot(), sb.encode(), sb.clone());
                self.open_write(o, DATA, slot, buf, Step::Incarnation(sb));
            }
            (Step::Incarnation(sb), DiskOutput::Done) => {
                let before = std::mem::replace(&mut self.sb, (**sb).clone());
                if before.version == self.sb.version {
                    return Ok(true);
                }
                self.mark_other(o);
            }
            _ => return Err(OpenError::Disk("the disk answered what was not asked".into())),
        }
        Ok(false)
    }

    pub(crate) fn open_read_raw(&mut self, device: DeviceId, block: u64, blocks: u64) {
        self.io.read(device, block * BLOCK as u64, blocks as usize * BLOCK, Purpose::Open);
    }

    fn open_read(&mut self, o: &mut Opening, device: DeviceId, block: u64, blocks: u64, step: Step) {
        self.open_read_raw(device, block, blocks);
        o.step = step;
    }

    fn open_write(&mut self, o: &mut Opening, device: DeviceId, block: u64, data: Buf, step: Step) {
        let data: Rope = data.freeze().into();
        self.io.write(device, block * BLOCK as u64, data, true, Purpose::Open);
        o.step = step;
    }

    /// Reads slot `i` once more when it gave nothing, then goes on.
    fn slot_unread(&mut self, o: &mut Opening, i: usize) -> Result<(), OpenError> {
        o.again = !o.again;
        self.read_slot(o, if o.again { i } else { i + 1 })
    }

    /// Reads slot `i`, or the next one that the disk is long enough for.
    fn read_slot(&mut self, o: &mut Opening, i: usize) -> Result<(), OpenError> {
        match (i..SLOTS.len()).find(|i| (SLOTS[*i] + 1) * BLOCK as u64 <= self.space.disk().len) {
            Some(i) => self.open_read(o, DATA, SLOTS[i], 1, Step::Slot(i)),
            None => self.slots_read(o)?,
        }
        Ok(())
    }

    fn slots_read(&mut self, o: &mut Opening) -> Result<(), OpenError> {
        if let Some(error) = o.newer.take() {
            return Err(error);
        }
        let newest = o.found.iter().max_by_key(|sb| sb.generation).cloned();
        let separate = match (newest, o.create) {
            (Some(sb), true) => return Err(OpenError::Exists(sb.uuid)),
            (None, true) => self.config.separate_journal,
            (None, false) => return Err(OpenError::NoStore),
            (Some(sb), false) => {
                self.sb = sb;
                self.check_identity()?;
                self.sb.separate_journal
            }
        };
        if separate {
            self.io.stat(JOURNAL, Purpose::Open);
            o.step = Step::JournalSize;
            return Ok(());
        }
        if o.create { self.begin_create(o, DiskStat::default()) } else { self.begin_tree(o) }
    }

    fn check_identity(&mut self) -> Result<(), OpenError> {
        let (sb, config) = (&self.sb, &self.config);
        let foreign = |what, found: String, wanted: String| Err(OpenError::Foreign { what, found, wanted });
        if config.uuid != [0; 16] && config.uuid != sb.uuid {
            return foreign("uuid", hex(sb.uuid), hex(config.uuid));
        }
        if config.fsid != Fsid::default() && config.fsid != sb.fsid {
            return foreign("fsid", sb.fsid.to_string(), config.fsid.to_string());
        }
        if config.whoami != -1 && config.whoami != sb.whoami {
            return foreign("osd", sb.whoami.to_string(), config.whoami.to_string());
        }
        let blocks = (self.space.disk().capacity.max(self.space.disk().len) / BLOCK as u64).min(MOST_BLOCKS);
        if blocks < sb.blocks {
            return Err(OpenError::TooSmall { have: blocks * BLOCK as u64, need: sb.blocks * BLOCK as u64 });
        }
        let ring_fits = sb.separate_journal || sb.ring_start + sb.ring_len <= sb.blocks;
        if sb.ring_len == 0 || sb.ring_start < FIRST || !ring_fits || sb.blocks < FIRST {
            return Err(OpenError::Corrupt("superblock: the journal's ring lies outside the disk".into()));
        }
        if !self.read_only {
            self.sb.blocks = blocks;
        }
        Ok(())
    }

    fn begin_create(&mut self, o: &mut Opening, journal: DiskStat) -> Result<(), OpenError> {
        let blocks = (self.space.disk().capacity / BLOCK as u64).min(MOST_BLOCKS);
        let separate = self.config.separate_journal;
        let mut ring_len = self.config.journal_bytes.max(Config::LEAST_JOURNAL) / BLOCK as u64;
        if separate {
            ring_len = ring_len.min((journal.capacity / BLOCK as u64).saturating_sub(FIRST));
            if ring_len * (BLOCK as u64) < Config::LEAST_JOURNAL {
                let need = Config::LEAST_JOURNAL + FIRST * BLOCK as u64;
                return Err(OpenError::TooSmall { have: journal.capacity, need });
            }
        }
        if !separate {
            // A small disk gets a small journal.
            ring_len = ring_len.min(blocks / 4).max(Config::LEAST_JOURNAL / BLOCK as u64);
        }
        let need = FIRST + LEAST_ROOM + if separate { 0 } else { ring_len };
        if blocks < need {
            return Err(OpenError::TooSmall { have: self.space.disk().capacity, need: need * BLOCK as u64 });
        }
        self.sb = Superblock {
            version: PLAIN,
            generation: 1,
            uuid: self.config.uuid,
            fsid: self.config.fsid,
            whoami: self.config.whoami,
            incarnation: 1,
            separate_journal: separate,
            ring_start: FIRST,
            ring_len,
            claimed: ring_len.min(CLAIM / BLOCK as u64),
            blocks,
            next_seq: 1,
            next_id: 1,
            clean: true,
            ..Superblock::default()
        };
        let zeros = Buf::zeroed(self.sb.claimed as usize * BLOCK);
        let device = self.ring_device();
        self.open_write(o, device, FIRST, zeros, Step::Zeros);
        Ok(())
    }

    fn zeros_written(&mut self, o: &mut Opening) {
        let len = (FIRST + self.sb.claimed) * BLOCK as u64;
        if self.sb.separate_journal {
            self.journal_disk.len = self.journal_disk.len.max(len);
            let mark = journal_mark(&self.sb.uuid);
            self.open_write(o, JOURNAL, 0, mark, Step::WriteMark);
        } else {
            self.space.reaches(len);
            self.write_super(o);
        }
    }

    fn write_super(&mut self, o: &mut Opening) {
        let (slot, buf) = (self.sb.slot(), self.sb.encode());
        self.open_write(o, DATA, slot, buf, Step::WriteSuper);
    }

    fn begin_tree(&mut self, o: &mut Opening) -> Result<(), OpenError> {
        self.journal = Journal::of(&self.sb);
        self.pipeline = Pipeline::new(self.sb.next_seq);
        self.overlay = Overlay::new(self.sb.next_id);
        self.space.begin(self.sb.blocks, self.sb.first_free());
        o.step = Step::Tree;
        o.pages = self.sb.root.iter().cloned().collect();
        self.holds.entry(Owner::Open).or_default();
        self.load_tree(o)
    }

    /// Loads a part of the map of free space and of the inner pages, as far as they are in memory, and asks for others.
    fn load_tree(&mut self, o: &mut Opening) -> Result<(), OpenError> {
        o.goes_on = false;
        loop {
            let loaded = match self.load_map(o)? {
                Ok(true) => self.load_pages(o)?,
                other => other,
            };
            match loaded {
                Ok(true) => break,
                Ok(false) => {
                    o.goes_on = true;
                    return Ok(());
                }
                Err(Unread::Missing(wish)) => self.fetch_for(Owner::Open, wish),
                Err(Unread::Damaged(damage)) => {
                    return Err(OpenError::Corrupt(format!("{} at byte {}", damage.what, damage.offset)));
                }
            }
            if !self.holds.get(&Owner::Open).is_some_and(crate::held::Held::complete) {
                return Ok(());
            }
            // Nothing needed reading: it failed at once, and the next look says so.
        }
        if self.ring_limit() == 0 {
            return Err(OpenError::Corrupt("the journal's ring lies beyond the disk's end".into()));
        }
        let mut replay = Box::new(Replay::new(&self.sb, self.ring_limit()));
        self.replay_more(&mut replay, None)?;
        o.step = Step::Replay(replay);
        Ok(())
    }

    /// Says whether opening goes on in the next round without anything from the disk.
    pub(crate) fn opening_goes_on(&self) -> bool {
        matches!(&self.phase, Phase::Opening(o) if o.goes_on)
    }

    /// Number of blocks of the ring that exist.
    fn ring_limit(&self) -> u64 {
        let disk = if self.sb.separate_journal { &self.journal_disk } else { self.space.disk() };
        self.sb.ring_len.min((disk.len / BLOCK as u64).saturating_sub(self.sb.ring_start))
    }

    /// Takes the blocks of the next pages of the tree. Inner pages are read; leaves are known from their parents. True once
    /// there are no more, false if there are more than one round takes.
    fn load_pages(&mut self, o: &mut Opening) -> Result<Read<bool>, OpenError> {
        let eye = self.eye(Owner::Open);
        let (mut runs, mut missing, mut wishes, mut shared) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for _ in 0..PAGES {
            let Some(ptr) = o.pages.pop() else { break };
            let page = match gather(eye.page(&ptr), &mut wishes) {
                Ok(Some(page)) => page,
                Ok(None) => {
                    missing.push(ptr);
                    continue;
                }
                Err(damaged) => return Ok(Err(damaged)),
            };
            runs.extend(ptr.runs());
            for i in 0..if page.level() > 0 { page.len() } else { 0 } {
                let Some(child) = page.child(i) else { return Ok(Err(eye.broken(&ptr))) };
                if page.level() > 1 {
                    o.pages.push(child);
                } else {
                    if page.key(i).first() == Some(&keys::SHARED) {
                        shared += child.blocks;
                    }
                    runs.extend(child.runs());
                }
            }
        }
        o.pages.append(&mut missing);
        self.space.load_shared(shared);
        for (block, n) in runs {
            if !self.space.load_page(block, n) {
                return Err(OpenError::Corrupt(format!("block {block} is an index page, but in use by something else")));
            }
        }
        Ok(all_there(wishes).map(|()| o.pages.is_empty()))
    }

    /// Gives all pages of the tree.
    #[cfg(test)]
    pub(crate) fn tree_pages(&self) -> Read<Vec<(u64, u32)>> {
        let eye = self.eye(Owner::Open);
        let (mut out, mut wishes) = (Vec::new(), Vec::new());
        let mut todo: Vec<_> = self.sb.root.iter().cloned().collect();
        while let Some(ptr) = todo.pop() {
            out.extend(ptr.runs());
            let Some(page) = gather(eye.page(&ptr), &mut wishes)? else { continue };
            for i in 0..if page.level() > 0 { page.len() } else { 0 } {
                let child = page.child(i).ok_or_else(|| eye.broken(&ptr))?;
                if page.level() > 1 {
                    todo.push(child);
                } else {
                    out.extend(child.runs());
                }
            }
        }
        all_there(wishes)?;
        Ok(out)
    }

    /// Loads the next part of the map of free space. True once all of it is loaded, false if there is more than one round
    /// takes.
    fn load_map(&mut self, o: &mut Opening) -> Result<Read<bool>, OpenError> {
        let Some(from) = o.map_at.take() else { return Ok(Ok(true)) };
        let mut found: Vec<(Bytes, Bytes)> = Vec::new();
        let read = self.eye(Owner::Open).view(None).scan(&from, Some(&[keys::FREE + 1]), |key, value| {
            found.push((key.clone(), value));
            if found.len() < CHUNKS { Scan::More } else { Scan::Enough }
        });
        for (key, value) in &found {
            let Some(chunk) = keys::chunk_of(keys::FREE, key) else { continue };
            self.space.load(chunk, value).map_err(|e| OpenError::Corrupt(e.to_string()))?;
        }
        let whole = read.is_ok() && found.len() < CHUNKS;
        if !whole {
            o.map_at = Some(found.last().map_or(from, |(key, _)| keys::successor(key)));
        }
        Ok(read.map(|_| whole))
    }

    /// Begins a new incarnation after replay, before anything is written.
    fn replayed(&mut self, o: &mut Opening) -> Result<bool, OpenError> {
        if self.read_only {
            return Ok(true);
        }
        let sb = Superblock {
            version: self.sb.version.max(PLAIN),
            generation: self.sb.generation + 1,
            incarnation: self.sb.incarnation + 1,
            claimed: self.journal.claimed(),
            clean: false,
            ..self.sb.clone()
        };
        // The superblock that was read may stand only in the disk's cache, if its writer died while writing. It must be
        // durable before the other slot is overwritten, or a power cut could take both. The same holds for the
        // journal's last groups: the next group will call them durable.
        if sb.separate_journal {
            self.io.flush(JOURNAL, Purpose::Open);
            o.step = Step::SettleJournal(Box::new(sb));
        } else {
            self.settle_data(o, Box::new(sb));
        }
        Ok(false)
    }

    /// One slot says that the store has [`PLAIN`] now. The other must say so, too, before the journal is written: an
    /// older program that found only that one whole would take new groups for none at all.
    fn mark_other(&mut self, o: &mut Opening) {
        self.log.push((Level::Info, format!("the store is marked with format version {PLAIN}")));
        let sb = Box::new(Superblock { generation: self.sb.generation + 1, ..self.sb.clone() });
        self.open_write(o, DATA, sb.slot(), sb.encode(), Step::Incarnation(sb));
    }

    fn settle_data(&mut self, o: &mut Opening, sb: Box<Superblock>) {
        self.io.flush(DATA, Purpose::Open);
        o.step = Step::Settle(sb);
    }
}
