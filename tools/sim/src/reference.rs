//! A store that is as simple as a durable store can be: every transaction takes one block of a journal that is never
//! trimmed, and all objects are in memory. What the blocks stand for is kept beside the disk; whether a transaction
//! survived is decided by the blocks alone.

use node::{Buf, DeviceId, DiskDone, DiskOp, DiskOutput, DiskRequest, Mono, Now, Output, Outputs, Token};
use objectstore::memory::MemStore;
use objectstore::{
    Event, Hold, Limit, MetaChange, ObjectChange, ObjectChanges, ObjectStat, ObjectStore, Page, Range, Read, Refused, Space,
    Ticket, Transaction, Unfit, Unread, View, Wish,
};
use osd::{Backend, Readiness};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use types::{EVersion, HObject, ObjectId, Rope, ShardId, SpgId};

const BLOCK: usize = 4096;
/// Blocks read at once when the store opens.
const CHUNK: usize = 64;
/// Journal writes under way at once.
const WRITES: usize = 4;

/// What the blocks of a disk stand for: a stamp and a transaction each.
#[derive(Default)]
pub struct Meaning {
    blocks: Vec<(u64, Transaction)>,
    /// There is no room for data now.
    pub(crate) full: bool,
    /// Blocks before this one are durable.
    durable: usize,
    /// What the first `imaged` blocks make, and the newest version that each object ever had in it.
    image: MemStore,
    imaged: usize,
    reached: BTreeMap<ObjectId, EVersion>,
    /// Changes of objects that were written down, durably or not yet: true for removals.
    noted: BTreeMap<(HObject, EVersion), bool>,
}

impl Meaning {
    /// The newest transaction.
    pub(crate) fn last_mut(&mut self) -> Option<&mut Transaction> {
        self.blocks.last_mut().map(|(_, transaction)| transaction)
    }

    /// Returns what a store has that lost everything but what is durable.
    pub(crate) fn durable(&mut self) -> &MemStore {
        while self.imaged < self.durable {
            let transaction = self.blocks[self.imaged].1.clone();
            let changed: Vec<ObjectId> = transaction.objects.iter().map(|changes| changes.object.clone()).collect();
            let taken = self.image.submit(transaction, Ticket(self.imaged as u64));
            assert!(taken.is_ok(), "what was taken once is taken again");
            while self.image.poll_event().is_some() {}
            for object in changed {
                if let Some(version) = version_of(&self.image, &object) {
                    let reached = self.reached.entry(object).or_insert(version);
                    *reached = version.max(*reached);
                }
            }
            self.imaged += 1;
        }
        &self.image
    }

    /// Returns true if something of a group is durable.
    pub(crate) fn holds_groups(&mut self) -> bool {
        let scopes = objectstore::View::scopes(self.durable(), objectstore::Hold(0)).unwrap_or_default();
        scopes.iter().any(|scope| scope.pg.pool >= 0)
    }

    /// Returns whether a change of this object was written down, and whether it is a removal.
    pub(crate) fn noted(&self, pool: i64, name: &[u8], version: EVersion) -> Option<bool> {
        let same = |object: &HObject| object.is_head() && object.pool == pool && object.name[..] == *name;
        self.noted.iter().find(|((object, at), _)| *at == version && same(object)).map(|(_, removal)| *removal)
    }

    /// Returns true if a later removal of this object was written down.
    pub(crate) fn removed_after(&self, pool: i64, name: &[u8], version: EVersion) -> bool {
        let same = |object: &HObject| object.is_head() && object.pool == pool && object.name[..] == *name;
        self.noted.iter().any(|((object, at), removal)| *removal && *at > version && same(object))
    }

    fn note(&mut self, transaction: &Transaction) {
        for change in &transaction.meta {
            if let MetaChange::Set(key, value) = change
                && let Some((object, version, removal)) = osd::change_in(transaction.scope.pg.pool, key, value)
            {
                self.noted.insert((object, version), removal);
            }
        }
    }

    /// The newest version of an object that was ever durable.
    pub(crate) fn newest(&self, pool: i64, name: &[u8]) -> Option<EVersion> {
        let same = self.reached.iter().filter(|(object, _)| object.is_head() && object.pool == pool && object.name[..] == *name);
        same.map(|(_, version)| *version).max()
    }

    /// Returns what a store has that carried all of it out.
    pub fn content(&self) -> MemStore {
        let mut memory = MemStore::new();
        for (number, (_, transaction)) in self.blocks.iter().enumerate() {
            let taken = memory.submit(transaction.clone(), Ticket(number as u64));
            assert!(taken.is_ok(), "what was taken once is taken again");
        }
        memory
    }
}

/// The version of an object in a store.
pub(crate) fn version_of(store: &MemStore, object: &ObjectId) -> Option<EVersion> {
    let stat = store.stat(Hold(0), object).ok().flatten()?;
    osd::version_in(&stat.info)
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    /// Blocks before this one are valid.
    Opening(usize),
    Ready,
    Failed(String),
}

/// The store. See the module's text.
pub struct RefStore {
    memory: MemStore,
    meaning: Rc<RefCell<Meaning>>,
    phase: Phase,
    begun: bool,
    /// Blocks that are not given to the disk yet.
    waiting: Vec<usize>,
    /// Writes under way: the blocks of each.
    writes: BTreeMap<u64, Vec<usize>>,
    durable: BTreeSet<usize>,
    /// All blocks before this one are durable.
    committed: usize,
    next_token: u64,
    life: u64,
    /// What it holds, until that changes: OSDs ask in each turn.
    space: Cell<Option<Space>>,
}

impl RefStore {
    /// Opens (or makes) the store on device 0 of an OSD. `life` tells this start from others.
    pub fn open(meaning: Rc<RefCell<Meaning>>, life: u64) -> Self {
        Self {
            memory: MemStore::new(),
            meaning,
            space: Cell::new(None),
            phase: Phase::Opening(0),
            begun: false,
            waiting: Vec::new(),
            writes: BTreeMap::new(),
            durable: BTreeSet::new(),
            committed: 0,
            next_token: 1,
            life,
        }
    }

    fn request(&mut self, out: &mut Outputs, op: DiskOp) -> u64 {
        self.next_token += 1;
        out.push(Output::Disk(DiskRequest { token: Token(self.next_token), device: DeviceId(0), op }));
        self.next_token
    }

    /// Looks at blocks from `at` on; gives how many of them are valid.
    fn valid(&self, at: usize, blocks: &[u8]) -> usize {
        let meaning = self.meaning.borrow();
        blocks
            .chunks(BLOCK)
            .enumerate()
            .take_while(|(i, block)| meaning.blocks.get(at + i).is_some_and(|(stamp, _)| block[..] == filled(at + i, *stamp)[..]))
            .count()
    }

    /// The journal ends before block `n`: what it holds is the state.
    fn replay(&mut self, n: usize) {
        let mut meaning = self.meaning.borrow_mut();
        meaning.blocks.truncate(n);
        meaning.durable = n;
        for (i, (_, transaction)) in meaning.blocks.iter().enumerate() {
            self.space.set(None);
            let taken = self.memory.submit(transaction.clone(), Ticket(i as u64));
            assert!(taken.is_ok(), "a memory store that is not full takes everything");
        }
        drop(meaning);
        while self.memory.poll_event().is_some() {}
        self.memory.miss = true;
        self.memory.hold_commits = true;
        self.committed = n;
        self.phase = Phase::Ready;
    }

    fn opened_chunk(&mut self, at: usize, buf: Option<&Buf>) {
        let valid = buf.map_or(0, |buf| self.valid(at, buf));
        self.begun = false;
        match valid {
            CHUNK => self.phase = Phase::Opening(at + CHUNK),
            n => self.replay(at + n),
        }
    }

    fn wrote(&mut self, blocks: Vec<usize>) {
        self.durable.extend(blocks);
        while self.durable.remove(&self.committed) {
            self.committed += 1;
            self.memory.commit(1);
        }
        self.meaning.borrow_mut().durable = self.committed;
    }
}

/// A block's content: its number and stamp in every sector.
fn filled(number: usize, stamp: u64) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    for sector in block.chunks_mut(512) {
        sector[..8].copy_from_slice(&(number as u64).to_le_bytes());
        sector[8..16].copy_from_slice(&stamp.to_le_bytes());
    }
    block
}

impl Backend for RefStore {
    fn disk_done(&mut self, _now: Now, done: DiskDone) {
        let blocks = self.writes.remove(&done.token.0);
        match (&self.phase, done.result, blocks) {
            (Phase::Opening(at), Ok(DiskOutput::Read(buf)), None) => self.opened_chunk(*at, Some(&buf)),
            // The file ends here.
            (Phase::Opening(at), Err(_), None) => self.opened_chunk(*at, None),
            (_, Ok(DiskOutput::Done), Some(blocks)) => self.wrote(blocks),
            (_, Err(error), Some(_)) => self.phase = Phase::Failed(format!("a journal write failed: {error:?}")),
            _ => {}
        }
    }

    fn turn(&mut self, _now: Now, out: &mut Outputs) {
        if let (Phase::Opening(at), false) = (&self.phase, self.begun) {
            let offset = (at * BLOCK) as u64;
            self.begun = true;
            // The whole space exists from the start, as the simulated disk of this store is configured.
            self.request(out, DiskOp::Read { offset, buf: Buf::new(CHUNK * BLOCK) });
        }
        if self.waiting.is_empty() || self.writes.len() >= WRITES || self.phase != Phase::Ready {
            return;
        }
        let blocks = std::mem::take(&mut self.waiting);
        let mut data = Rope::new();
        for number in &blocks {
            let stamp = self.meaning.borrow().blocks[*number].0;
            data.push(filled(*number, stamp));
        }
        let offset = (blocks[0] * BLOCK) as u64;
        let token = self.request(out, DiskOp::Write { offset, data, durable: true });
        self.writes.insert(token, blocks);
    }

    fn deadline(&self) -> Mono {
        let opening = matches!(self.phase, Phase::Opening(_)) && !self.begun;
        let writing = !self.waiting.is_empty() && self.writes.len() < WRITES && self.phase == Phase::Ready;
        if opening || writing { Mono(0) } else { Mono::NEVER }
    }

    fn readiness(&self) -> Readiness {
        match &self.phase {
            Phase::Opening(_) => Readiness::Opening,
            Phase::Ready => Readiness::Ready,
            Phase::Failed(why) => Readiness::Failed(why.clone()),
        }
    }

    fn begin_stop(&mut self) {}

    fn stopped(&self) -> bool {
        self.memory.uncommitted() == 0
    }

    fn kind(&self) -> &'static str {
        "reference"
    }
}

impl View for RefStore {
    fn stat(&self, hold: Hold, object: &ObjectId) -> Read<Option<ObjectStat>> {
        self.opened()?.stat(hold, object)
    }
    fn read(&self, hold: Hold, object: &ObjectId, offset: u64, len: u64) -> Read<Rope> {
        self.opened()?.read(hold, object, offset, len)
    }
    fn extents(&self, hold: Hold, object: &ObjectId, offset: u64, len: u64) -> Read<Vec<(u64, u64)>> {
        self.opened()?.extents(hold, object, offset, len)
    }
    fn xattr(&self, hold: Hold, object: &ObjectId, name: &[u8]) -> Read<Option<bytes::Bytes>> {
        self.opened()?.xattr(hold, object, name)
    }
    fn xattrs(&self, hold: Hold, object: &ObjectId) -> Read<Vec<(bytes::Bytes, bytes::Bytes)>> {
        self.opened()?.xattrs(hold, object)
    }
    fn omap_header(&self, hold: Hold, object: &ObjectId) -> Read<bytes::Bytes> {
        self.opened()?.omap_header(hold, object)
    }
    fn omap_scan(&self, hold: Hold, object: &ObjectId, range: Range<'_>, limit: Limit) -> Read<Page> {
        self.opened()?.omap_scan(hold, object, range, limit)
    }
    fn omap_get(&self, hold: Hold, object: &ObjectId, keys: &[bytes::Bytes]) -> Read<Vec<(bytes::Bytes, bytes::Bytes)>> {
        self.opened()?.omap_get(hold, object, keys)
    }
    fn list(&self, hold: Hold, shard: ShardId, from: &ObjectId, to: &ObjectId, max: usize) -> Read<Vec<ObjectId>> {
        self.opened()?.list(hold, shard, from, to, max)
    }
    fn meta_get(&self, hold: Hold, scope: &SpgId, key: &[u8]) -> Read<Option<bytes::Bytes>> {
        self.opened()?.meta_get(hold, scope, key)
    }
    fn meta_scan(&self, hold: Hold, scope: &SpgId, range: Range<'_>, limit: Limit) -> Read<Page> {
        self.opened()?.meta_scan(hold, scope, range, limit)
    }
    fn scopes(&self, hold: Hold) -> Read<Vec<SpgId>> {
        self.opened()?.scopes(hold)
    }
}

impl ObjectStore for RefStore {
    fn fetch(&mut self, hold: Hold, wish: Wish) {
        self.memory.fetch(hold, wish);
    }
    fn release(&mut self, hold: Hold) {
        self.memory.release(hold);
    }
    fn rehearse(&self, hold: Hold, objects: &[ObjectChanges]) -> Result<(), Unfit> {
        self.opened()?.rehearse(hold, objects)
    }
    fn submit(&mut self, transaction: Transaction, ticket: Ticket) -> Result<(), Refused> {
        if self.phase != Phase::Ready {
            return Err(Refused::Stopped);
        }
        let mut meaning = self.meaning.borrow_mut();
        let writes = |of: &ObjectChanges| of.changes.iter().any(|change| matches!(change, ObjectChange::Write(..)));
        if meaning.full && transaction.objects.iter().any(writes) {
            return Err(Refused::NoSpace);
        }
        let number = meaning.blocks.len();
        meaning.note(&transaction);
        meaning.blocks.push((self.life << 32 | number as u64, transaction.clone()));
        drop(meaning);
        self.waiting.push(number);
        self.space.set(None);
        self.memory.submit(transaction, ticket)
    }
    fn congested(&self) -> bool {
        self.waiting.len() > 1000
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.memory.poll_event()
    }
    fn space(&self) -> Space {
        let space = self.space.get().unwrap_or_else(|| Space { total: 1 << 30, available: 1 << 29, ..self.memory.space() });
        self.space.set(Some(space));
        space
    }
}

impl RefStore {
    fn opened(&self) -> Read<&MemStore> {
        match self.phase {
            Phase::Opening(_) => Err(Unread::Missing(Wish(Vec::new()))),
            _ => Ok(&self.memory),
        }
    }
}
