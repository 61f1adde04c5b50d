//! A store alone: random transactions in several scopes, crashes, and after each start the question whether what is
//! there is what was promised: in each scope the effect of the first so many transactions, all acknowledged ones among them.
//!
//! The judge of liveness looks when a fault is over and nobody asks for anything: what the store has taken on ends
//! soon, or the store says that it stops. And a store that has nothing to do does not ask to be woken.

use crate::disk::DiskConfig;
use crate::mistake::{COMPACTS, Mistake};
use crate::rng::Rng;
use crate::world::{Boot, Crash, HostConfig, HostId, World};
use bytes::Bytes;
use node::{DeviceId, DiskError, DiskOp, Input, Mono, Node, Now, Output, Outputs, Token};
use objectstore::memory::MemStore;
use objectstore::{
    Event, Hold, Limit, MetaChange, Mutation, ObjectChange, ObjectStore, Read, Refused, Ticket, Transaction, Unread, View,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;
use std::time::Duration;
use store::{Config, OpenError, Store};
use types::{HObject, Locator, ObjectId, PgId, Rope, ShardId, SnapId, SpgId};

/// What a store is asked for.
#[derive(Clone, Debug)]
pub struct StorePlan {
    /// Scopes; each has objects of its own.
    pub scopes: u64,
    /// Objects of each scope.
    pub objects: u64,
    /// Transactions in all.
    pub budget: u64,
    /// Longest pause between two.
    pub pause: Duration,
    /// Largest write.
    pub largest: u64,
    /// One of so many writes is so large that its data does not go through the journal; 0: sizes are by chance alone.
    pub large: u64,
    /// Bytes of the disk.
    pub capacity: u64,
    /// Bytes of the journal.
    pub journal: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// True if the journal has a disk of its own.
    pub separate_journal: bool,
    /// True if the disk is told what is free.
    pub discard: bool,
    /// True if its objects are brought together all the time in all lives, and not only in half of them.
    pub moves: bool,
    /// True if one of five changes is one that groups of shards make.
    pub shards: bool,
    /// True if liveness is judged behind faults, too, and not only at the end.
    pub judged: bool,
    /// What the store's host does wrong.
    pub mistake: Option<Mistake>,
}

/// An object's whole content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Whole {
    data: Vec<u8>,
    info: Bytes,
    xattrs: Vec<(Bytes, Bytes)>,
    header: Bytes,
    omap: Vec<(Bytes, Bytes)>,
}

/// A scope's whole content. An object whose bytes the store calls damaged is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Content {
    objects: BTreeMap<ObjectId, Option<Whole>>,
    meta: Vec<(Bytes, Bytes)>,
}

/// What must be there.
#[derive(Default)]
struct Expected {
    /// As last verified.
    base: MemStore,
    /// Submitted since, and whether acknowledged.
    since: Vec<(Transaction, bool)>,
}

/// What survives the store's lives.
#[derive(Default)]
pub struct StoreShared {
    scopes: Vec<Expected>,
    /// Transactions still to be submitted.
    pub left: u64,
    /// The first thing that cannot be.
    pub wrong: Option<String>,
    /// Lives that ended their verification.
    pub verified: u64,
    /// Transactions acknowledged, refused for lack of room, and reads compared.
    pub counts: [u64; 3],
    /// Objects that the store called damaged.
    pub damaged: u64,
    /// Parts of objects that defragmentation moved.
    pub moved: u64,
    /// Why the store could not be opened or stopped serving, if so.
    pub refused: Option<String>,
    /// Submit nothing.
    pub paused: bool,
    /// Remove everything, and say how much space is still taken for data.
    pub empty: bool,
    /// The answer.
    pub left_over: Option<u64>,
}

const LIMIT: Limit = Limit { entries: 7, bytes: 3000 };
/// Shards that objects have: two of one object in one store are two objects.
const SHARDS: [ShardId; 3] = [ShardId::NONE, ShardId(0), ShardId(3)];
/// Bytes from which on a write's data has a place of its own before it is in the journal (`cores/store/src/block.rs`).
const LARGE: u64 = 64 << 10;
/// Virtual time within which all that was taken on ends, when nothing goes wrong any more. Writes for which the host
/// had no space are tried again each second.
const ENDS: Duration = Duration::from_secs(10);
/// How long a store with nothing to do is looked at, after some time to come to rest.
const LOOK: Duration = Duration::from_secs(5);
/// Turns in vain in a [`LOOK`]. A store that asks to be woken at once makes a hundred thousand.
const VAIN: u64 = 500;

/// How long a part of an object that moves is waited for.
const MOVES: Duration = Duration::from_secs(1);

/// The hold of verification; operations have later ones.
const VERIFY: Hold = Hold(1);

fn scope_id(n: usize) -> SpgId {
    SpgId::whole(PgId::new(n as i64 + 1, 0))
}

fn whole(store: &dyn View, hold: Hold, object: &ObjectId) -> Read<Option<Whole>> {
    let Some(stat) = store.stat(hold, object)? else { return Ok(None) };
    let data = store.read(hold, object, 0, u64::MAX >> 1)?.to_vec();
    if data.len() as u64 != stat.size {
        return Ok(Some(Whole { data: b"size and bytes disagree".to_vec(), ..Whole::default() }));
    }
    let mut omap: Vec<(Bytes, Bytes)> = Vec::new();
    loop {
        let from = omap.last().map_or(Bound::Unbounded, |(k, _)| Bound::Excluded(&k[..]));
        let page = store.omap_scan(hold, object, (from, Bound::Unbounded), LIMIT)?;
        omap.extend(page.entries);
        if !page.more {
            break;
        }
    }
    let (xattrs, header) = (store.xattrs(hold, object)?, store.omap_header(hold, object)?);
    Ok(Some(Whole { data, info: stat.info, xattrs, header, omap }))
}

/// Everything of a scope.
fn content(store: &dyn View, hold: Hold, n: usize, damaged: &mut u64) -> Read<Content> {
    let pool = n as i64 + 1;
    let mut found = Content::default();
    for shard in SHARDS {
        let (mut from, to): (ObjectId, ObjectId) =
            (HObject::start_of_hash(pool, 0).into(), HObject::start_of_hash(pool + 1, 0).into());
        loop {
            let names = store.list(hold, shard, &from, &to, 5)?;
            let Some(last) = names.last().cloned() else { break };
            for name in names {
                match whole(store, hold, &name) {
                    Err(Unread::Damaged(_)) => {
                        *damaged += 1;
                        found.objects.insert(name, None);
                    }
                    other => drop(found.objects.insert(name, Some(other?.unwrap_or_default()))),
                }
            }
            if last == from {
                break;
            }
            from = last;
        }
    }
    loop {
        let from = found.meta.last().map_or(Bound::Unbounded, |(k, _)| Bound::Excluded(&k[..]));
        let page = store.meta_scan(hold, &scope_id(n), (from, Bound::Unbounded), LIMIT)?;
        found.meta.extend(page.entries);
        if !page.more {
            return Ok(found);
        }
    }
}

/// Returns true if what is there is what may be; damaged objects may be anything.
fn agrees(found: &Content, model: &Content) -> bool {
    found.meta == model.meta
        && found.objects.len() == model.objects.len()
        && found.objects.iter().zip(&model.objects).all(|((a, x), (b, y))| a == b && (x.is_none() || x == y))
}

fn model_content(model: &MemStore, n: usize) -> Content {
    content(model, VERIFY, n, &mut 0).expect("a memory store misses nothing")
}

impl Expected {
    /// Finds the prefix whose effect `found` is, and makes it the base.
    fn verify(&mut self, n: usize, found: &Content) -> Result<(), String> {
        let must = self.since.iter().rposition(|(_, acked)| *acked).map_or(0, |i| i + 1);
        let mut nearest = String::new();
        for k in 0..=self.since.len() {
            if k > 0 {
                let taken = self.base.submit(self.since[k - 1].0.clone(), Ticket(0));
                assert!(taken.is_ok(), "a memory store that is not full takes everything");
                while self.base.poll_event().is_some() {}
            }
            if k < must {
                continue;
            }
            let model = model_content(&self.base, n);
            if agrees(found, &model) {
                self.since.clear();
                return Ok(());
            }
            if k == must {
                nearest = difference(found, &model);
            }
        }
        let all = self.since.len();
        Err(format!("scope {n}: its content is no prefix of {all} transactions that has the {must} acknowledged; {nearest}"))
    }
}

fn difference(found: &Content, model: &Content) -> String {
    let names: Vec<&ObjectId> = found.objects.keys().chain(model.objects.keys()).collect();
    let damaged = |name: &ObjectId| found.objects.get(name).is_some_and(Option::is_none);
    let differs = names.into_iter().find(|name| found.objects.get(name) != model.objects.get(name) && !damaged(name));
    let Some(name) = differs else { return format!("meta keys differ: {:?} and not {:?}", found.meta, model.meta) };
    let size = |c: &Content| match c.objects.get(name) {
        None => "is absent".to_string(),
        Some(None) => "is damaged".to_string(),
        Some(Some(w)) => format!("has {} bytes, {} keys, info {:?}", w.data.len(), w.omap.len(), w.info),
    };
    let bytes = |c: &Content| c.objects.get(name).and_then(Option::as_ref).map(|w| w.data.clone()).unwrap_or_default();
    let (a, b) = (bytes(found), bytes(model));
    let first = a.iter().zip(&b).position(|(x, y)| x != y);
    format!("{name} {} where it should: {}; first differing byte {first:?}", size(found), size(model))
}

#[derive(PartialEq, Eq)]
enum Phase {
    Opening,
    Verifying,
    Running,
    Ended,
}

struct StoreNode {
    config: Config,
    store: Store,
    plan: StorePlan,
    shared: Rc<RefCell<StoreShared>>,
    rng: Rng,
    phase: Phase,
    /// As submitted, in this life.
    live: Vec<MemStore>,
    tickets: BTreeMap<Ticket, (usize, usize)>,
    next_ticket: u64,
    /// Reads under way: whose scope, which object.
    reads: BTreeMap<Hold, (usize, ObjectId)>,
    next_hold: u64,
    next: Mono,
    turns: u32,
    stopping: bool,
    /// True if a request of this life failed.
    hit: bool,
    /// Flushes under way.
    flushes: BTreeSet<Token>,
    /// True if what lies scattered comes together all the time, and parts of objects that did so in this life.
    brisk: bool,
    moved: u64,
}

impl StoreNode {
    fn new(plan: StorePlan, shared: Rc<RefCell<StoreShared>>, boot: &Boot) -> Self {
        let config = Config {
            uuid: [3; 16],
            whoami: 0,
            memory: plan.memory,
            journal_bytes: plan.journal,
            separate_journal: plan.separate_journal,
            write_ahead: plan.journal / 4,
            copied_omap: [0, 400, Config::COPIED_OMAP][usize::from(boot.seed[8] % 3)],
            // Half of the stores give back what was replaced early.
            replaced: [64 << 10, Config::REPLACED][usize::from(boot.seed[10] % 2)],
            discard: plan.discard,
            ..Config::default()
        };
        shared.borrow_mut().refused = None;
        // A store that was being made when it died is made again, unless it was finished.
        let made = shared.borrow().verified > 0;
        let mut store = if made { Store::open(config.clone()) } else { Store::create(config.clone()) };
        let brisk = plan.discard || plan.moves || boot.seed[9].is_multiple_of(2);
        if brisk {
            store.defragment_briskly();
        }
        if let Some(Mistake::Moves(mistake)) = plan.mistake {
            store.err_in_moves(mistake);
        }
        let rng = Rng::new(u64::from_le_bytes(boot.seed[..8].try_into().expect("eight bytes")));
        Self {
            config,
            store,
            plan,
            shared,
            rng,
            phase: Phase::Opening,
            live: Vec::new(),
            tickets: BTreeMap::new(),
            next_ticket: boot.life * 1_000_000 + 1,
            reads: BTreeMap::new(),
            next_hold: 2,
            next: Mono(0),
            turns: 0,
            stopping: false,
            hit: false,
            flushes: BTreeSet::new(),
            brisk,
            moved: 0,
        }
    }

    fn wrong(&self, what: String) {
        self.shared.borrow_mut().wrong.get_or_insert(what);
    }

    fn verify(&mut self) {
        let mut shared = self.shared.borrow_mut();
        let mut found = Vec::new();
        for n in 0..shared.scopes.len() {
            match content(&self.store, VERIFY, n, &mut shared.damaged) {
                Ok(content) => found.push(content),
                Err(Unread::Missing(wish)) => return self.store.fetch(VERIFY, wish),
                Err(Unread::Damaged(damage)) => {
                    // Metadata that cannot be read: said, not hidden.
                    shared.refused = Some(format!("damaged: {damage:?}"));
                    self.phase = Phase::Ended;
                    return;
                }
            }
        }
        self.store.release(VERIFY);
        for (n, found) in found.iter().enumerate() {
            if let Err(what) = shared.scopes[n].verify(n, found) {
                shared.wrong.get_or_insert(what);
            }
        }
        shared.verified += 1;
        self.live = shared.scopes.iter().map(|e| e.base.clone()).collect();
        self.phase = Phase::Running;
    }

    fn events(&mut self) {
        while let Some(event) = self.store.poll_event() {
            match event {
                Event::Fetched(hold) if hold == VERIFY => self.verify(),
                Event::Fetched(hold) => self.read(hold),
                Event::Damaged(..) | Event::Rotten(_) => {}
                Event::Committed(ticket) => self.committed(ticket),
            }
        }
    }

    fn committed(&mut self, ticket: Ticket) {
        let Some((n, i)) = self.tickets.remove(&ticket) else {
            return self.wrong(format!("{ticket:?} was acknowledged twice, or never submitted"));
        };
        let mut shared = self.shared.borrow_mut();
        shared.counts[0] += 1;
        let since = &mut shared.scopes[n].since;
        if i > 0 && !since[i - 1].1 {
            shared.wrong.get_or_insert(format!("scope {n}: transaction {i} was acknowledged before the one before it"));
            return;
        }
        since[i].1 = true;
    }

    /// Compares an object with the submitted state.
    fn read(&mut self, hold: Hold) {
        let Some((n, object)) = self.reads.remove(&hold) else { return };
        match whole(&self.store, hold, &object) {
            Err(Unread::Missing(wish)) => {
                self.reads.insert(hold, (n, object));
                return self.store.fetch(hold, wish);
            }
            Err(Unread::Damaged(_)) => self.shared.borrow_mut().damaged += 1,
            Ok(found) => {
                self.shared.borrow_mut().counts[2] += 1;
                let model = whole(&self.live[n], hold, &object).expect("a memory store misses nothing");
                if found != model {
                    let of = |w: Option<Whole>| Content { objects: [(object.clone(), w)].into(), meta: Vec::new() };
                    let what = difference(&of(found), &of(model));
                    self.wrong(format!("a read of the submitted state is wrong: {what}"));
                }
            }
        }
        self.store.release(hold);
    }

    fn work(&mut self, now: Now) {
        if self.shared.borrow().empty {
            return self.empty_everything();
        }
        if self.shared.borrow().paused {
            return;
        }
        while self.next <= now.mono && self.shared.borrow().left > 0 && !self.store.congested() {
            let n = self.rng.below(self.plan.scopes) as usize;
            if self.rng.one_in(3) {
                let hold = Hold(self.next_hold);
                self.next_hold += 1;
                let object = self.object(n);
                self.reads.insert(hold, (n, object));
                self.read(hold);
            } else {
                self.shared.borrow_mut().left -= 1;
                let mutations = (0..self.rng.magnitude(1, 5)).map(|_| self.mutation(n)).collect();
                self.submit(n, mutations);
            }
            let pause = self.rng.below(self.plan.pause.as_nanos() as u64 + 1);
            self.next = if self.rng.one_in(2) { now.mono } else { now.mono.plus(Duration::from_nanos(pause)) };
        }
    }

    fn submit(&mut self, n: usize, mutations: Vec<Mutation>) {
        let transaction = mutations.into_iter().collect::<Transaction>().in_scope(scope_id(n));
        if self.live[n].lacks_source(&transaction.objects) {
            // What happens then has tests of its own.
            return;
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        match self.store.submit(transaction.clone(), ticket) {
            Ok(()) => {
                let taken = self.live[n].submit(transaction.clone(), ticket);
                assert!(taken.is_ok(), "a memory store that is not full takes everything");
                while self.live[n].poll_event().is_some() {}
                let since = &mut self.shared.borrow_mut().scopes[n].since;
                since.push((transaction, false));
                self.tickets.insert(ticket, (n, since.len() - 1));
            }
            Err(Refused::NoSpace | Refused::TooLarge) => self.shared.borrow_mut().counts[1] += 1,
            Err(Refused::Stopped | Refused::Damaged) => {}
        }
    }

    /// What the store asks its disks for.
    fn issued(&mut self, out: &mut Outputs) {
        for output in &mut out.0 {
            if let Output::Disk(request) = output
                && let DiskOp::Trim { len, .. } = &mut request.op
                && self.plan.mistake == Some(Mistake::TrimsBeyond)
            {
                *len += 4096;
            }
            if let Output::Disk(request) = output
                && matches!(request.op, DiskOp::Flush)
            {
                self.flushes.insert(request.token);
                if self.plan.mistake == Some(Mistake::FlushesOther) && self.plan.separate_journal {
                    request.device = DeviceId(1);
                }
            }
        }
    }

    /// Removes all objects and keys, once; then tells what is still taken.
    fn empty_everything(&mut self) {
        for n in 0..self.live.len() {
            let objects: Vec<ObjectId> = self.live[n].objects().cloned().collect();
            let meta = model_content(&self.live[n], n).meta;
            if objects.is_empty() && meta.is_empty() {
                continue;
            }
            let removals = objects.into_iter().map(|object| Mutation::of(object, ObjectChange::Remove));
            self.submit(n, removals.chain(meta.into_iter().map(|(key, _)| MetaChange::Remove(key).into())).collect());
        }
        if self.tickets.is_empty() {
            let space = self.store.space();
            self.shared.borrow_mut().left_over = Some(space.data + space.omap);
        }
    }

    fn object(&mut self, n: usize) -> ObjectId {
        let name = Bytes::from(format!("object{}", self.rng.below(self.plan.objects)));
        let head = HObject::head(name, &Locator::pool(n as i64 + 1));
        let object = if self.rng.one_in(5) { head.at(SnapId(self.rng.between(1, 3))) } else { head };
        let id = ObjectId::of_shard(object, if self.rng.one_in(4) { *self.rng.pick(&SHARDS) } else { ShardId::NONE });
        if self.rng.one_in(9) { id.in_generation(self.rng.below(2)) } else { id }
    }

    fn data(&mut self) -> Rope {
        let large = self.plan.large > 0 && self.rng.one_in(self.plan.large);
        let len = if large { self.rng.between(LARGE, 2 * LARGE) } else { self.rng.magnitude(1, self.plan.largest) };
        let (len, mark) = (len as usize, self.rng.next().to_le_bytes());
        let len = if self.rng.one_in(3) { len.next_multiple_of(4096) } else { len };
        mark.into_iter().cycle().take(len).collect::<Vec<u8>>().into()
    }

    fn key(&mut self) -> Bytes {
        let long = if self.rng.one_in(30) { "x".repeat(self.rng.magnitude(1, 2000) as usize) } else { String::new() };
        Bytes::from(format!("key{:02}{long}", self.rng.below(40)))
    }

    fn value(&mut self) -> Bytes {
        let len = if self.rng.one_in(20) { self.rng.magnitude(1, 30_000) } else { self.rng.below(100) };
        let mark = self.rng.next().to_le_bytes();
        mark.into_iter().cycle().take(len as usize).collect::<Vec<u8>>().into()
    }

    /// A change that takes in what is there: of a parity, or one that keeps what is about to be overwritten.
    fn of_shards(&mut self, n: usize) -> Mutation {
        let (o, at) = (self.object(n), self.rng.magnitude(0, self.plan.largest));
        let at = if self.rng.one_in(2) { at / 4096 * 4096 } else { at };
        let kept = o.clone().in_generation(self.rng.below(2));
        let source = if self.rng.one_in(3) { self.object(n) } else { o.clone() };
        match self.rng.below(5) {
            0 | 1 => Mutation::of(o, ObjectChange::Xor(at, self.data())),
            2 | 3 => {
                let ranges = (0..self.rng.between(1, 3)).map(|_| {
                    let at = self.rng.magnitude(0, self.plan.largest);
                    let at = if self.rng.one_in(3) { at } else { at / 4096 * 4096 };
                    let len = self.rng.magnitude(1, self.plan.largest);
                    (at, if self.rng.one_in(3) { len } else { len.next_multiple_of(4096) })
                });
                let ranges = ranges.collect();
                Mutation::of(kept, ObjectChange::CloneRange(source, ranges))
            }
            _ => Mutation::of(kept, ObjectChange::TakeOver(source)),
        }
    }

    fn mutation(&mut self, n: usize) -> Mutation {
        if self.plan.shards && self.rng.one_in(5) {
            return self.of_shards(n);
        }
        let o = self.object(n);
        let at = self.rng.magnitude(0, self.plan.largest * 2);
        let at = if self.rng.one_in(2) { at / 4096 * 4096 } else { at };
        match self.rng.below(40) {
            0 => Mutation::of(o, ObjectChange::Create),
            1..=14 => Mutation::of(o, ObjectChange::Write(at, self.data())),
            15 | 16 => Mutation::of(o, ObjectChange::Zero(at, self.rng.magnitude(1, self.plan.largest))),
            17 | 18 => Mutation::of(o, ObjectChange::Truncate(at)),
            19 | 20 => Mutation::of(o, ObjectChange::Remove),
            21 | 22 => Mutation::of(o, ObjectChange::SetInfo(self.value())),
            23 | 24 => Mutation::of(o, ObjectChange::SetXattr(self.key(), self.value())),
            25 => Mutation::of(o, ObjectChange::RemoveXattr(self.key())),
            26 => Mutation::of(o, ObjectChange::ClearXattrs),
            27 => Mutation::of(o, ObjectChange::OmapHeader(self.value())),
            28 | 29 => Mutation::of(
                o,
                ObjectChange::OmapSet((0..self.rng.magnitude(1, 20)).map(|_| (self.key(), self.value())).collect()),
            ),
            30 => Mutation::of(o, ObjectChange::OmapRemove(vec![self.key(), self.key()])),
            31 => {
                let (a, b) = (self.key(), self.key());
                Mutation::of(o, ObjectChange::OmapRemoveRange(a.clone().min(b.clone()), a.max(b)))
            }
            32 => Mutation::of(o, ObjectChange::OmapClear),
            // A clone that lies beside its head in the index: what they share moves in both at once.
            33 if self.brisk && o.object.snap == SnapId::HEAD => {
                let other = self.object(n).object.snap;
                let snap = if other == SnapId::HEAD { SnapId(2) } else { other };
                let clone = ObjectId { object: HObject::clone(&o.object).at(snap).into(), ..o.clone() };
                Mutation::of(clone, ObjectChange::CloneOf(o))
            }
            33 => Mutation::of(self.object(n), ObjectChange::CloneOf(o)),
            34 => Mutation::of(self.object(n), ObjectChange::TakeOver(o)),
            35..=37 => MetaChange::Set(self.key(), self.value()).into(),
            38 => MetaChange::Remove(self.key()).into(),
            _ => {
                let (a, b) = (self.key(), self.key());
                MetaChange::RemoveRange(a.clone().min(b.clone()), a.max(b)).into()
            }
        }
    }
}

impl Node for StoreNode {
    fn handle(&mut self, now: Now, input: Input, _out: &mut Outputs) {
        match input {
            Input::Disk(done) => {
                self.hit |= done.result.is_err();
                let full = self.flushes.remove(&done.token) && matches!(done.result, Err(DiskError::NoSpace));
                if !full || self.plan.mistake != Some(Mistake::ForgottenFlush) {
                    self.store.disk_done(now, done);
                }
            }
            Input::Stop => {
                self.stopping = true;
                self.store.begin_stop();
            }
            _ => {}
        }
    }

    fn turn(&mut self, now: Now, out: &mut Outputs) {
        match self.store.open_error() {
            Some(OpenError::Exists(_)) => {
                self.store = Store::open(self.config.clone());
                if self.brisk {
                    self.store.defragment_briskly();
                }
                if let Some(Mistake::Moves(mistake)) = self.plan.mistake {
                    self.store.err_in_moves(mistake);
                }
            }
            Some(error) if self.phase == Phase::Opening => {
                self.shared.borrow_mut().refused = Some(format!("not opened: {error}"));
                self.phase = Phase::Ended;
            }
            _ => {}
        }
        if self.phase == Phase::Opening && self.store.ready() {
            self.phase = Phase::Verifying;
            self.verify();
        }
        self.events();
        if self.phase == Phase::Running && self.store.failure().is_some() {
            self.phase = Phase::Ended;
        }
        if self.phase == Phase::Running && !self.stopping {
            self.work(now);
        }
        if self.brisk && self.phase == Phase::Running && self.turns.is_multiple_of(COMPACTS) {
            self.store.compact();
        }
        self.store.turn(now, out);
        self.issued(out);
        let moved = self.store.moved_parts();
        self.shared.borrow_mut().moved += moved - std::mem::replace(&mut self.moved, moved);
        self.turns += 1;
        if let Err(why) = self.store.self_check(self.turns.is_multiple_of(64)) {
            self.wrong(format!("the store breaks its own rules: {why}"));
        }
        self.events();
        if self.stopping && self.store.stopped() {
            out.push(Output::Stopped);
        }
        if self.phase == Phase::Ended && !self.stopping {
            out.push(Output::Fatal(self.store.failure().unwrap_or("the store does not open").into()));
        }
    }

    fn deadline(&self) -> Mono {
        if self.hit && self.plan.mistake == Some(Mistake::Restless) {
            return Mono(0);
        }
        let asks = !self.shared.borrow().paused && self.shared.borrow().left > 0;
        let busy = self.phase == Phase::Running && !self.stopping && asks;
        let mine = if busy && !self.store.congested() { self.next } else { Mono::NEVER };
        self.store.deadline().min(mine)
    }
}

/// A world with one store in it.
pub struct StoreTown {
    /// The world.
    pub world: World,
    /// The store's host.
    pub host: HostId,
    /// What survives.
    pub shared: Rc<RefCell<StoreShared>>,
    /// True if liveness is judged behind faults.
    judged: bool,
    /// True if no disk reads wrong: then nothing may be damaged.
    sound: bool,
}

impl StoreTown {
    /// A store that does not run yet.
    pub fn new(seed: u64, plan: StorePlan) -> Self {
        let mut world = World::new(seed);
        let scopes = (0..plan.scopes).map(|_| Expected::default()).collect();
        let shared = Rc::new(RefCell::new(StoreShared { scopes, left: plan.budget, ..StoreShared::default() }));
        let sized = |capacity| DiskConfig { capacity, ..DiskConfig::default() };
        let mut disks = vec![sized(plan.capacity)];
        disks.extend(plan.separate_journal.then(|| sized(plan.journal + (1 << 20))));
        let (inside, judged) = (shared.clone(), plan.judged);
        let host = world.add(HostConfig {
            name: "store".into(),
            listen: vec![],
            disks,
            factory: Box::new(move |boot| Box::new(StoreNode::new(plan.clone(), inside.clone(), &boot))),
        });
        Self { world, host, shared, judged, sound: false }
    }
}

/// What goes wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFault {
    /// The power is cut.
    Power,
    /// The process is killed.
    Kill,
    /// It dies in one of its next writes.
    AtWrite,
    /// The power is cut in one of the next writes behind the data of a part that moves: its record's, most of all.
    AtMove,
    /// It is stopped as it should be.
    Stop,
    /// The disk is slow for a while.
    Slow,
    /// Some reads fail for a while.
    ReadErrors,
    /// Some writes fail for a while.
    WriteErrors,
    /// Some reads give wrong bytes for a while.
    WrongReads,
    /// The host has no room for a while.
    HostFull,
    /// Flushes find no space for a while: all, or now and then one.
    FlushFull,
}

impl StoreTown {
    /// Lets the store live through faults until its budget is used up, and judges it.
    pub fn live(&mut self, rng: &mut Rng, faults: &[StoreFault], pause: Duration) -> Result<u64, String> {
        let (mut inflicted, limit) = (0, Duration::from_secs(600));
        self.sound = !faults.iter().any(|fault| matches!(fault, StoreFault::ReadErrors | StoreFault::WrongReads));
        while self.shared.borrow().left > 0 && self.world.now() < limit {
            let wait = Duration::from_nanos(rng.below(pause.as_nanos() as u64 + 1));
            self.world.run_for(wait);
            self.judge()?;
            if !faults.is_empty() {
                inflicted += 1;
                let fault = *rng.pick(faults);
                self.inflict(rng, fault);
                let paused = self.shared.borrow().paused;
                if paused || self.judged && rng.one_in(2) {
                    self.mend();
                    self.all_ends(fault)?;
                }
            }
            self.restart(rng);
        }
        self.mend();
        self.all_ends("all faults")?;
        self.settle()?;
        self.rests()?;
        // All of it is still there after the power was cut.
        self.world.crash(self.host, Crash::Power);
        self.settle()?;
        self.shared.borrow_mut().left = 0;
        self.empty()?;
        Ok(inflicted)
    }

    fn judge(&self) -> Result<(), String> {
        let shared = self.shared.borrow();
        match &shared.wrong {
            Some(wrong) => Err(wrong.clone()),
            None if self.sound && shared.damaged > 0 => {
                Err(format!("{} reads are damaged, and no disk read wrong", shared.damaged))
            }
            None => Ok(()),
        }
    }

    fn restart(&mut self, rng: &mut Rng) {
        if !self.world.is_up(self.host) {
            if rng.one_in(3) {
                self.world.run_for(Duration::from_millis(10));
            }
            self.world.start(self.host);
        }
    }

    fn mend(&mut self) {
        self.world.disarm(self.host);
        self.world.mend_disks(self.host);
    }

    /// Checks that what the store has taken on ends within [`ENDS`] if nothing goes wrong and nothing is added, or that
    /// the store says that it stops.
    fn all_ends(&mut self, behind: impl std::fmt::Debug) -> Result<(), String> {
        self.shared.borrow_mut().paused = true;
        let (shared, host) = (self.shared.clone(), self.host);
        let open =
            || -> usize { shared.borrow().scopes.iter().map(|e| e.since.iter().filter(|(_, acked)| !acked).count()).sum() };
        let (life, at_first) = (shared.borrow().verified, open());
        // What a former life left open is decided when this one has verified what is there.
        let ended = self.world.run_while(ENDS, |world| world.is_up(host) && shared.borrow().verified == life && open() > 0);
        self.shared.borrow_mut().paused = false;
        self.judge()?;
        if ended {
            return Ok(());
        }
        let left = open();
        Err(format!(
            "behind {behind:?}: {left} of {at_first} transactions that were taken on do not end, and the store says nothing"
        ))
    }

    /// A store with nothing to do does not ask to be woken again and again.
    fn rests(&mut self) -> Result<(), String> {
        self.shared.borrow_mut().paused = true;
        self.world.run_for(ENDS);
        let before = self.world.vitals(self.host);
        self.world.run_for(LOOK);
        let did = self.world.vitals(self.host) - before;
        self.shared.borrow_mut().paused = false;
        self.judge()?;
        match did.vain {
            0..=VAIN => Ok(()),
            vain => Err(format!("a store at rest asks to be woken at once: {vain} turns in vain in {} s", LOOK.as_secs())),
        }
    }

    /// A life without faults: the store opens, is verified, and does what is left.
    fn settle(&mut self) -> Result<(), String> {
        let before = self.shared.borrow().verified;
        let already = self.world.is_up(self.host) && self.shared.borrow().refused.is_none();
        if !self.world.is_up(self.host) {
            self.shared.borrow_mut().refused = None;
            self.world.start(self.host);
        }
        let shared = self.shared.clone();
        let ended = self.world.run_while(Duration::from_secs(120), |_| {
            let s = shared.borrow();
            let acked = s.scopes.iter().all(|e| e.since.iter().all(|(_, acked)| *acked));
            s.wrong.is_none() && s.refused.is_none() && (s.verified == before && !already || s.left > 0 || !acked)
        });
        self.judge()?;
        if let Some(why) = self.shared.borrow().refused.clone() {
            return Err(format!("without faults, the store is {why}"));
        }
        if ended {
            return Ok(());
        }
        let s = self.shared.borrow();
        let open: usize = s.scopes.iter().map(|e| e.since.iter().filter(|(_, acked)| !acked).count()).sum();
        let (left, lives) = (s.left, s.verified);
        Err(format!("without faults, the store does not come to rest: {left} to submit, {open} not acknowledged, life {lives}"))
    }

    fn empty(&mut self) -> Result<(), String> {
        self.shared.borrow_mut().empty = true;
        for _ in 0..2 {
            self.world.stop(self.host);
            let host = self.host;
            if !self.world.run_while(Duration::from_secs(120), |world| world.is_up(host)) {
                return Err("without faults, the store does not stop".into());
            }
            self.shared.borrow_mut().left_over = None;
            self.world.start(self.host);
            let shared = self.shared.clone();
            if !self.world.run_while(Duration::from_secs(120), |_| shared.borrow().left_over.is_none()) {
                return Err("the store does not say what it holds".into());
            }
            self.judge()?;
        }
        match self.shared.borrow().left_over {
            Some(0) => Ok(()),
            left => Err(format!("space leaks: an empty store holds {left:?} bytes of objects")),
        }
    }

    /// After a calm life and a clean stop, bits of the disk flip. The store may then say that something is damaged, or refuse
    /// to open and say why; it may not give wrong content. Gives how often it said something.
    pub fn rot(&mut self, rng: &mut Rng, flips: u64) -> Result<u64, String> {
        self.settle()?;
        self.world.stop(self.host);
        let host = self.host;
        if !self.world.run_while(Duration::from_secs(120), |world| world.is_up(host)) {
            return Err("without faults, the store does not stop".into());
        }
        for _ in 0..rng.magnitude(1, flips) {
            self.world.disk(self.host, 0).rot();
        }
        self.shared.borrow_mut().left = 0;
        let before = self.shared.borrow().verified;
        self.world.start(self.host);
        let shared = self.shared.clone();
        let ended = self.world.run_while(Duration::from_secs(120), |_| {
            let s = shared.borrow();
            s.wrong.is_none() && s.refused.is_none() && s.verified == before
        });
        self.judge()?;
        let shared = self.shared.borrow();
        if ended { Ok(shared.damaged + u64::from(shared.refused.is_some())) } else { Err("the store hangs".into()) }
    }

    fn inflict(&mut self, rng: &mut Rng, fault: StoreFault) {
        let one_in = rng.magnitude(2, 60);
        let (slower, free) = (rng.magnitude(1, 1000), rng.magnitude(0, 4 << 20) / 4096 * 4096);
        match fault {
            StoreFault::Power => self.world.crash(self.host, Crash::Power),
            StoreFault::Kill => self.world.crash(self.host, Crash::Process),
            StoreFault::Stop => self.world.stop(self.host),
            StoreFault::AtWrite => {
                let how = if rng.one_in(3) { Crash::Process } else { Crash::Power };
                self.world.crash_at_write(self.host, rng.magnitude(1, 60), how);
            }
            StoreFault::AtMove => {
                let (shared, host, moved) = (self.shared.clone(), self.host, self.shared.borrow().moved);
                self.world.run_while(MOVES, |world| world.is_up(host) && shared.borrow().moved == moved);
                self.world.crash_at_write(self.host, rng.magnitude(1, 6), Crash::Power);
                self.world.run_while(MOVES / 4, |world| world.is_up(host));
            }
            _ => {
                let disks = self.world.disks(self.host).len();
                let disk = if disks > 1 { rng.index(disks) } else { 0 };
                let flushes = if fault == StoreFault::FlushFull { *rng.pick(&[1, 1, 2, 4]) } else { 0 };
                let faults = &mut self.world.disk(self.host, disk).faults;
                match fault {
                    StoreFault::FlushFull => faults.full_flushes = flushes,
                    StoreFault::Slow => faults.slower = slower,
                    StoreFault::ReadErrors => faults.read_errors = one_in,
                    StoreFault::WriteErrors => faults.write_errors = one_in,
                    StoreFault::WrongReads => (faults.flipped_reads, faults.misdirected_reads) = (one_in, one_in),
                    _ => faults.host_free = Some(free),
                }
                if fault == StoreFault::FlushFull && rng.one_in(2) {
                    // Nobody asks for anything more as soon as a flush has failed: no later one tells.
                    let host = self.host;
                    self.world.run_while(Duration::from_secs(1), |world| !world.disk(host, disk).flush_failed());
                    self.shared.borrow_mut().paused = true;
                }
                self.world.run_for(Duration::from_nanos(rng.magnitude(1_000_000, 1_000_000_000)));
                self.mend();
            }
        }
    }
}
