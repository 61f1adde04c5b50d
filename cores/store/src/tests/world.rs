//! A store, its disks, and a model of what it must hold.

use crate::config::ENTRY;
use crate::testdisk::{Dice, TestDisk};
use crate::{Config, Store};
use bytes::Bytes;
use node::{Mono, Now, Output, Outputs};
use objectstore::memory::MemStore;
use objectstore::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use types::{Fsid, HObject, ObjectId, PgId, Rope, ShardId, SnapId, SpgId};

const SCOPES: u64 = 3;
/// Shards that objects have.
const SHARDS: [ShardId; 4] = [ShardId::NONE, ShardId::NONE, ShardId(0), ShardId(2)];
const ALL: Limit = Limit { entries: 1_000_000, bytes: usize::MAX };
const SEQ: &[u8] = b"seq";

/// One scope's twin: a model with commits held back.
struct Twin {
    model: MemStore,
    submitted: u64,
    committed: u64,
    /// Tickets in order of submission.
    tickets: VecDeque<u64>,
}

pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) disks: Vec<TestDisk>,
    pub(crate) dice: Dice,
    pub(crate) config: Config,
    twins: Vec<Twin>,
    owner: BTreeMap<u64, usize>,
    next_ticket: u64,
    next_hold: u64,
    fetched: BTreeMap<u64, u64>,
    now: u64,
    pub(crate) full: bool,
    /// Many objects and keys, so that the tree has height.
    pub(crate) wide: bool,
    /// Pages of the index lie in pieces.
    pub(crate) scattered: bool,
    /// Defragmentation is on, and makes no pauses.
    pub(crate) defragments: bool,
    /// A part that moves is changed with each step in which it is read.
    meddles: bool,
    /// True if some changes are those of groups of shards.
    pub(crate) shards: bool,
    /// Submit even if the store asks to slow down.
    pub(crate) pushy: bool,
    /// True if all transactions are cold, or none; by chance if nothing is said.
    pub(crate) cold: Option<bool>,
    /// Little is done but to omaps, of few objects that are clones of each other.
    pub(crate) omaps: bool,
    /// Crash and make checkpoints often.
    pub(crate) hasty: bool,
    mistake: Option<super::Mistake>,
    /// What all incarnations counted.
    pub(crate) total: [u64; 8],
}

fn scope(i: usize) -> SpgId {
    SpgId::whole(PgId::new(7, i as u32))
}

fn hold() -> Hold {
    Hold(0)
}

impl World {
    pub(crate) fn new(seed: u64, separate: bool) -> Self {
        // Defragmentation needs chunks that are wholly free.
        Self::sized(seed, separate, if seed % 4 < 2 { 112 << 20 } else { 48 << 20 })
    }

    pub(crate) fn sized(seed: u64, separate: bool, capacity: usize) -> Self {
        let mut dice = Dice(seed);
        let config = Config {
            uuid: [7; 16],
            fsid: Fsid([9; 16]),
            whoami: 3,
            memory: [0, 16 << 20][dice.below(2) as usize],
            journal_bytes: [1 << 20, 2 << 20, 6 << 20][dice.below(3) as usize],
            separate_journal: separate,
            write_ahead: [0, 256 << 10, 8 << 20][dice.below(3) as usize],
            // Most omaps of some lives are shared, and some of others.
            copied_omap: [0, 200, 3000, Config::COPIED_OMAP][dice.below(4) as usize],
            discard: !seed.is_multiple_of(3),
            replaced: if seed.is_multiple_of(5) { 1 << 20 } else { Config::REPLACED },
        };
        let disks = vec![TestDisk::new(capacity), TestDisk::new(8 << 20)];
        let twins = (0..SCOPES)
            .map(|_| {
                let mut model = MemStore::new();
                model.hold_commits = true;
                Twin { model, submitted: 0, committed: 0, tickets: VecDeque::new() }
            })
            .collect();
        let mut world = Self {
            store: Store::create(config.clone()),
            disks,
            dice,
            config,
            twins,
            owner: BTreeMap::new(),
            next_ticket: 1,
            next_hold: 1,
            fetched: BTreeMap::new(),
            now: 0,
            full: false,
            wide: seed % 4 == 1,
            scattered: seed % 3 == 1,
            defragments: seed % 4 < 2,
            meddles: false,
            shards: false,
            pushy: seed % 5 == 2,
            cold: None,
            omaps: false,
            hasty: seed % 2 == 1,
            mistake: None,
            total: [0; 8],
        };
        world.scatter();
        world.open_up();
        world
    }

    /// Makes a mistake from now on.
    pub(crate) fn mistake(&mut self, mistake: super::Mistake) {
        self.mistake = Some(mistake);
        self.store.mistake = self.mistake;
        self.scatter();
    }

    /// From now on objects come together all the time, and what is on its way is changed.
    pub(crate) fn moves(&mut self) {
        (self.defragments, self.meddles) = (true, true);
        self.scatter();
    }

    fn now(&self) -> Now {
        Now { mono: Mono(self.now), ..Now::default() }
    }

    /// Turns the store until it is open.
    pub(crate) fn open_up(&mut self) {
        for _ in 0..100_000 {
            if self.store.ready() {
                return;
            }
            assert_eq!(self.store.open_error(), None);
            self.pump();
        }
        panic!("the store does not open");
    }

    /// One turn, and one completion of a disk request.
    pub(crate) fn pump(&mut self) -> bool {
        self.turn();
        self.complete()
    }

    /// A turn alone: what the store asks for is under way, and nothing of it is done.
    fn turn(&mut self) {
        self.now += 10_000;
        let mut out = Outputs::default();
        let now = self.now();
        self.change_memory();
        self.store.turn(now, &mut out);
        self.check_memory();
        if self.mistake.is_none() {
            self.store.self_check(self.now.is_multiple_of(640_000)).unwrap_or_else(|why| panic!("{why}"));
        }
        for output in out.0 {
            match output {
                Output::Disk(request) => self.disks[usize::from(request.device.0)].submit(request),
                Output::Log(line) if std::env::var("STORE_LOG").is_ok() => println!("{:?} {}", line.level, line.text),
                _ => (),
            }
        }
    }

    /// Every now and then it has more or less, for a while.
    fn change_memory(&mut self) {
        let turns = self.now / 10_000;
        if turns.is_multiple_of(61) {
            self.store.set_memory([self.store.config.memory, 16 << 20, 5 << 20, 64 << 20][(turns / 61 % 4) as usize]);
        }
    }

    /// What caches lend each other is theirs together.
    fn check_memory(&self) {
        if self.store.ready() && self.store.failure().is_none() {
            let (held, shares) = (self.store.memory(), self.store.config.shares());
            let all = held.blocks + held.pages + (held.onodes + held.ranges) * ENTRY;
            assert!(all <= shares.blocks + shares.lendable(), "{held:?} of {shares:?}");
        }
    }

    fn complete(&mut self) -> bool {
        let now = self.now();
        let first = self.dice.below(2) as usize;
        let mut moved = false;
        for at in [first, 1 - first] {
            if let Some(done) = self.disks[at].step(&mut self.dice) {
                self.store.disk_done(now, done);
                moved = true;
                break;
            }
        }
        self.drain_events();
        moved
    }

    fn drain_events(&mut self) {
        while let Some(event) = self.store.poll_event() {
            match event {
                Event::Fetched(hold) => *self.fetched.entry(hold.0).or_default() += 1,
                Event::Rotten(_) => {}
                Event::Damaged(ticket, _) => assert!(self.owner.contains_key(&ticket.0), "damage is told before the commit"),
                Event::Committed(ticket) => {
                    let at = self.owner.remove(&ticket.0).expect("a ticket of ours");
                    let twin = &mut self.twins[at];
                    assert_eq!(twin.tickets.pop_front(), Some(ticket.0), "commits of a scope in order");
                    twin.committed += 1;
                    twin.model.commit(1);
                    while twin.model.poll_event().is_some() {}
                }
            }
        }
    }

    /// Runs until nothing moves.
    pub(crate) fn settle(&mut self) {
        for _ in 0..200_000 {
            if !self.pump() && self.owner.is_empty() {
                return;
            }
            if self.meddles && self.dice.one_in(8) {
                self.change_what_moves();
            }
        }
        panic!("the store does not settle: {} uncommitted", self.owner.len());
    }

    pub(crate) fn random_object(&mut self, at: usize) -> ObjectId {
        if self.omaps {
            let (name, hash) = (Bytes::from(format!("object {at}")), at as u32);
            let snap = [SnapId::HEAD, SnapId::HEAD, SnapId(3), SnapId(4), SnapId(5), SnapId(6)][self.dice.below(6) as usize];
            return HObject { pool: 7, hash, nspace: Bytes::new(), key: Bytes::new(), name, snap, max: false }.into();
        }
        let n = self.dice.below(if self.wide { 600 } else { 5 }) as u32;
        let name = match n {
            4 => Bytes::from(vec![b'n'; 2000]),
            n => Bytes::from(format!("object {at} {n}")),
        };
        let snap = [SnapId::HEAD, SnapId::HEAD, SnapId(4)][self.dice.below(3) as usize];
        let object =
            HObject { pool: 7, hash: at as u32 | n << 3, nspace: Bytes::new(), key: Bytes::new(), name, snap, max: false };
        // Shards and generations of one object lie beside each other.
        let id = ObjectId::of_shard(object, SHARDS[self.dice.below(4) as usize]);
        if self.dice.one_in(5) { id.in_generation(self.dice.below(2)) } else { id }
    }

    /// The head or a clone of the same object.
    fn another_snapshot(&mut self, object: &ObjectId) -> ObjectId {
        let snap = [SnapId::HEAD, SnapId(4), SnapId(5), SnapId(6)][self.dice.below(4) as usize];
        ObjectId { object: HObject { snap, ..HObject::clone(&object.object) }.into(), ..object.clone() }
    }

    /// Another object with the shape of a random one.
    fn named(&mut self, name: String) -> ObjectId {
        let like = self.random_object(0);
        ObjectId::whole(HObject { name: name.into(), ..HObject::clone(&like.object) })
    }

    fn random_bytes(&mut self, n: usize) -> Bytes {
        let mut dice = Dice(self.dice.roll());
        let mut out = Vec::with_capacity(n + 8);
        while out.len() < n {
            out.extend_from_slice(&dice.roll().to_le_bytes());
        }
        out.truncate(n);
        out.into()
    }

    fn random_data(&mut self) -> Rope {
        let n = match self.dice.below(8) {
            0 => 0,
            1 => 1 + self.dice.below(100),
            2 => 4096,
            3 => self.dice.below(9000),
            4 => 4096 * (1 + self.dice.below(20)),
            5 => self.dice.below(100_000),
            6 => 4096 * (16 + self.dice.below(60)),
            _ => 1000 + self.dice.below(300),
        } as usize;
        let bytes = self.random_bytes(n);
        if n > 10 && self.dice.one_in(4) {
            let cut = self.dice.below(n as u64) as usize;
            return [bytes.slice(..cut), bytes.slice(cut..)].into_iter().collect();
        }
        bytes.into()
    }

    fn random_offset(&mut self) -> u64 {
        match self.dice.below(4) {
            0 => 0,
            1 => 4096 * self.dice.below(70),
            2 => 65536 * self.dice.below(5),
            _ => self.dice.below(300_000),
        }
    }

    fn random_key(&mut self) -> Bytes {
        let n = self.dice.below(if self.wide { 2000 } else { 30 });
        Bytes::from(format!("key {n}"))
    }

    /// A change of a group of shards, which takes in what is there.
    fn of_shards(&mut self, at: usize) -> Mutation {
        let o = self.random_object(at);
        if self.dice.one_in(2) {
            return Mutation::of(o, ObjectChange::Xor(self.random_offset(), self.random_data()));
        }
        let ranges = (0..=self.dice.below(3)).map(|_| (self.random_offset(), 1 + self.random_offset())).collect();
        Mutation::of(self.random_object(at), ObjectChange::CloneRange(o, ranges))
    }

    fn random_mutation(&mut self, at: usize) -> Mutation {
        if self.shards && self.dice.one_in(4) {
            return self.of_shards(at);
        }
        let o = self.random_object(at);
        let (a, b) = (self.random_key(), self.random_key());
        let (a, b) = (a.clone().min(b.clone()), a.max(b));
        let kind = match self.dice.below(24) {
            n if !self.omaps => n,
            n @ 0..=7 => 16 + n % 2,
            n @ 8..=15 => [10, 12, 15, 18, 18, 19, 20, 22][n as usize - 8],
            _ => 21,
        };
        match kind {
            0 => Mutation::of(o, ObjectChange::Create),
            1..=7 => Mutation::of(o, ObjectChange::Write(self.random_offset(), self.random_data())),
            8 => Mutation::of(o, ObjectChange::Zero(self.random_offset(), self.random_offset())),
            9 => Mutation::of(o, ObjectChange::Truncate(self.random_offset())),
            10 => Mutation::of(o, ObjectChange::Remove),
            11 => Mutation::of(o, ObjectChange::SetInfo(a)),
            12 => Mutation::of(o, ObjectChange::SetXattr(a, b)),
            13 => Mutation::of(o, ObjectChange::RemoveXattr(a)),
            14 => Mutation::of(o, ObjectChange::ClearXattrs),
            15 => Mutation::of(o, ObjectChange::OmapHeader(b)),
            16 | 17 => {
                let n = 1 + self.dice.below(if self.wide { 200 } else { 12 });
                let entries = (0..n).map(|_| {
                    let key = self.random_key();
                    let len = [10, 100, if self.wide { 300 } else { 3000 }][self.dice.below(3) as usize];
                    (key, self.random_bytes(len))
                });
                Mutation::of(o, ObjectChange::OmapSet(entries.collect()))
            }
            18 => Mutation::of(o, ObjectChange::OmapRemove(vec![a, b])),
            19 => Mutation::of(o, ObjectChange::OmapRemoveRange(a, b)),
            20 => Mutation::of(o, ObjectChange::OmapClear),
            21 if self.dice.one_in(4) => Mutation::of(self.random_object(at), ObjectChange::TakeOver(o)),
            21 if self.meddles => Mutation::of(self.another_snapshot(&o), ObjectChange::CloneOf(o)),
            21 => Mutation::of(self.random_object(at), ObjectChange::CloneOf(o)),
            22 => MetaChange::Set(a, self.random_bytes(200)).into(),
            _ => [MetaChange::Remove(a.clone()), MetaChange::RemoveRange(a, b)][self.dice.below(2) as usize].clone().into(),
        }
    }

    /// Submits a random transaction to the store and the model.
    pub(crate) fn submit_one(&mut self) {
        let at = self.dice.below(SCOPES) as usize;
        let n = 1 + self.dice.below(4);
        let mutations: Vec<Mutation> = (0..n).map(|_| self.random_mutation(at)).collect();
        self.submit(at, mutations);
    }

    pub(crate) fn submit(&mut self, at: usize, mutations: Vec<Mutation>) -> bool {
        self.submit_rehearsed(at, mutations, None)
    }

    pub(crate) fn submit_rehearsed(&mut self, at: usize, mut mutations: Vec<Mutation>, hold: Option<Hold>) -> bool {
        let seq = self.twins[at].submitted + 1;
        mutations.push(MetaChange::Set(Bytes::from_static(SEQ), Bytes::copy_from_slice(&seq.to_le_bytes())).into());
        let cold = self.cold.unwrap_or_else(|| self.dice.one_in(3));
        let transaction = Transaction { scope: scope(at), hold, cold, ..mutations.into_iter().collect() };
        if self.twins[at].model.lacks_source(&transaction.objects) {
            // A test of its own tells what happens then.
            return true;
        }
        let ticket = self.next_ticket;
        match self.store.submit(transaction.clone(), Ticket(ticket)) {
            Ok(()) => {
                self.next_ticket += 1;
                self.twins[at].submitted = seq;
                self.twins[at].tickets.push_back(ticket);
                self.owner.insert(ticket, at);
                assert_eq!(self.twins[at].model.submit(transaction, Ticket(ticket)), Ok(()));
                true
            }
            Err(Refused::NoSpace | Refused::TooLarge) => {
                self.full = true;
                false
            }
            Err(refused) => panic!("refused ({refused:?}): {:?}", self.store.failure()),
        }
    }

    /// Reads, fetching what is missed.
    pub(crate) fn read<T>(&mut self, f: impl Fn(&Store, Hold) -> Read<T>) -> Result<T, Damage> {
        let (read, hold) = self.read_and_hold(f);
        self.store.release(hold);
        read
    }

    /// The same; what was fetched stays until the hold is released.
    pub(crate) fn read_and_hold<T>(&mut self, f: impl Fn(&Store, Hold) -> Read<T>) -> (Result<T, Damage>, Hold) {
        let hold = Hold(self.next_hold);
        self.next_hold += 1;
        for _ in 0..1000 {
            match f(&self.store, hold) {
                Ok(value) => return (Ok(value), hold),
                Err(Unread::Damaged(damage)) => return (Err(damage), hold),
                Err(Unread::Missing(wish)) => {
                    let different: BTreeSet<u64> = wish.0.iter().copied().collect();
                    assert_eq!(different.len(), wish.0.len(), "each thing is wished for once");
                    let before = self.fetched.get(&hold.0).copied().unwrap_or(0);
                    self.store.fetch(hold, wish);
                    let mut turns = 0;
                    while self.fetched.get(&hold.0).copied().unwrap_or(0) == before {
                        self.pump();
                        turns += 1;
                        assert!(turns < 100_000, "a fetch does not end");
                    }
                }
            }
        }
        panic!("a read never has enough");
    }

    fn sure<T>(&mut self, f: impl Fn(&Store, Hold) -> Read<T>) -> T {
        self.read(f).expect("nothing is damaged")
    }

    /// Compares one object with the model.
    pub(crate) fn check_object(&mut self, at: usize, object: &ObjectId) {
        let stat = self.sure(|s, h| s.stat(h, object));
        let model = &self.twins[at].model;
        let want = model.stat(hold(), object).unwrap();
        let got = stat.as_ref().map(|s| (s.size, s.info.clone()));
        assert_eq!(got, want.as_ref().map(|s| (s.size, s.info.clone())), "stat of {object}");
        let Some(want) = want else { return };
        assert!(stat.unwrap().has_omap || !want.has_omap, "omap of {object}");
        let data = model.read(hold(), object, 0, u64::MAX).unwrap();
        let (xattrs, header) = (model.xattrs(hold(), object).unwrap(), model.omap_header(hold(), object).unwrap());
        let omap = model.omap_scan(hold(), object, (Bound::Unbounded, Bound::Unbounded), ALL).unwrap();
        let extents = model.extents(hold(), object, 0, u64::MAX).unwrap();
        let got = self.sure(|s, h| s.read(h, object, 0, u64::MAX));
        assert_eq!(got.len(), data.len(), "length of {object}");
        let (got, data) = (got.to_vec(), data.to_vec());
        if let Some(i) = (0..data.len()).find(|i| got[*i] != data[*i]) {
            panic!("data of {object} differs at {i} of {}", data.len());
        }
        assert_eq!(self.sure(|s, h| s.xattrs(h, object)), xattrs, "xattrs of {object}");
        assert_eq!(self.sure(|s, h| s.omap_header(h, object)), header, "omap header of {object}");
        let all = self.sure(|s, h| s.omap_scan(h, object, (Bound::Unbounded, Bound::Unbounded), ALL));
        assert_eq!(all, omap, "omap of {object}");
        let more = self.sure(|s, h| s.extents(h, object, 0, u64::MAX));
        for (offset, len) in extents {
            assert!(more.iter().any(|(o, l)| *o <= offset && offset + len <= o + l), "extents of {object}");
        }
    }

    /// Compares a random piece.
    fn check_some(&mut self) {
        let at = self.dice.below(SCOPES) as usize;
        let object = self.random_object(at);
        let (offset, len) = (self.random_offset(), self.random_offset());
        let want = self.twins[at].model.read(hold(), &object, offset, len).unwrap();
        let got = self.sure(|s, h| s.read(h, &object, offset, len));
        assert!(got == want, "read of {object} at {offset} for {len}");
        let (a, b, n) = (self.random_key(), self.random_key(), 1 + self.dice.below(5) as usize);
        let limit = Limit { entries: n, bytes: 4000 };
        let range = (Bound::Excluded(&a[..]), Bound::Included(&b[..]));
        let want = self.twins[at].model.omap_scan(hold(), &object, range, limit).unwrap();
        assert_eq!(self.sure(|s, h| s.omap_scan(h, &object, range, limit)), want);
        let keys = [a.clone(), b.clone()];
        let want = self.twins[at].model.omap_get(hold(), &object, &keys).unwrap();
        assert_eq!(self.sure(|s, h| s.omap_get(h, &object, &keys)), want);
        let want = self.twins[at].model.xattr(hold(), &object, &a).unwrap();
        assert_eq!(self.sure(|s, h| s.xattr(h, &object, &a)), want);
    }

    /// Compares everything.
    pub(crate) fn check_all(&mut self) {
        let mut want: Vec<ObjectId> = self.twins.iter().flat_map(|t| t.model.objects().cloned()).collect();
        want.sort();
        let (first, end) = (HObject::min().into(), HObject::end().into());
        for shard in &SHARDS[1..] {
            let listed = self.sure(|s, h| s.list(h, *shard, &first, &end, usize::MAX));
            let want: Vec<ObjectId> = want.iter().filter(|o| o.shard == *shard).cloned().collect();
            assert_eq!(listed, want, "list of objects of {shard:?}");
        }
        let scopes: Vec<SpgId> = (0..SCOPES as usize).filter(|i| self.twins[*i].submitted > 0).map(scope).collect();
        assert_eq!(self.sure(|s, h| s.scopes(h)), scopes);
        for at in 0..SCOPES as usize {
            let all = (Bound::Unbounded, Bound::Unbounded);
            let want = self.twins[at].model.meta_scan(hold(), &scope(at), all, ALL).unwrap();
            assert_eq!(self.sure(|s, h| s.meta_scan(h, &scope(at), all, ALL)), want, "meta of {at}");
            let objects: Vec<ObjectId> = self.twins[at].model.objects().cloned().collect();
            objects.iter().for_each(|o| self.check_object(at, o));
        }
    }

    /// Power is lost; the store is opened again, and the model goes back to what it tells to have kept.
    pub(crate) fn crash(&mut self) {
        let mut dice = Dice(self.dice.roll());
        self.disks.iter_mut().for_each(|d| d.crash(&mut dice));
        self.fsck();
        self.reopen();
    }

    /// Power is lost.
    pub(crate) fn cut(&mut self) {
        let mut dice = Dice(self.dice.roll());
        self.disks.iter_mut().for_each(|d| d.crash(&mut dice));
    }

    /// A new store begins to open what the last one left.
    fn scatter(&mut self) {
        if self.scattered {
            self.store.scatter_pages();
        }
        if self.defragments {
            self.store.defragment_eagerly();
        } else {
            self.store.set_defragment(false);
        }
    }

    pub(crate) fn begin_open(&mut self) {
        self.store = Store::open(self.config.clone());
        self.scatter();
        self.fetched.clear();
        self.owner.clear();
    }

    pub(crate) fn reopen(&mut self) {
        self.config.memory = [0, 16 << 20][self.dice.below(2) as usize];
        let c = self.store.counters();
        for (total, n) in self.total.iter_mut().zip([
            c.commits,
            c.checkpoints,
            c.stalled,
            c.direct_bytes,
            c.moved_bytes,
            1,
            c.defrag.parts,
            c.defrag.changed,
        ]) {
            *total += n;
        }
        self.store = Store::open(self.config.clone());
        self.scatter();
        self.store.mistake = self.mistake;
        self.fetched.clear();
        self.owner.clear();
        self.open_up();
        for at in 0..SCOPES as usize {
            let kept = self.sure(|s, h| s.meta_get(h, &scope(at), SEQ));
            let kept = kept.map_or(0, |v| u64::from_le_bytes(v[..].try_into().unwrap()));
            let twin = &mut self.twins[at];
            assert!(kept >= twin.committed, "scope {at}: {} were committed, {kept} are there", twin.committed);
            assert!(kept <= twin.submitted);
            let mut model = std::mem::take(&mut twin.model);
            model.commit((kept - twin.committed) as usize);
            twin.model = model.crash();
            (twin.committed, twin.submitted) = (kept, kept);
            twin.tickets.clear();
        }
    }

    /// The checker finds nothing.
    pub(crate) fn fsck(&mut self) {
        let report = crate::fsck::check(&mut self.disks, &Config::default(), true);
        let bad: Vec<_> = report.findings.iter().filter(|f| !f.repairable).map(ToString::to_string).collect();
        assert!(bad.is_empty(), "{bad:#?}");
    }

    /// Stops cleanly and opens again.
    pub(crate) fn restart(&mut self) {
        self.stop();
        self.fsck();
        let (alloc, sb) = (self.store.space.alloc(), &self.store.sb);
        let used = alloc.total() - alloc.free();
        assert_eq!(used, alloc.stable.ones() + alloc.page_blocks, "no space leaks");
        let pages = if sb.root.is_some() { self.sure(|s, _| s.tree_pages()) } else { Vec::new() };
        assert_eq!(self.store.space.pages(), pages.iter().map(|p| u64::from(p.1)).sum::<u64>(), "pages");
        let shared = self.store.space.shared_pages();
        self.reopen();
        assert_eq!(self.store.space.shared_pages(), shared, "pages of the table of shared blocks");
    }

    pub(crate) fn stop(&mut self) {
        self.store.begin_stop();
        for _ in 0..200_000 {
            if self.store.stopped() {
                break;
            }
            self.pump();
        }
        assert!(self.store.stopped(), "the store does not stop");
        assert_eq!(self.store.failure(), None);
        assert!(self.owner.is_empty(), "a clean stop commits all");
    }

    /// Overwrites a block of the part that defragmentation reads, if it reads one.
    fn change_what_moves(&mut self) {
        let scattered = &self.store.scattered;
        let (crate::scattered::Stage::Read(part), Some(found)) = (&scattered.stage, &scattered.at) else { return };
        // Any of those that have it.
        let spot = part.spots[(self.now / 10_000) as usize % part.spots.len()];
        let object = found.members[spot.member].object.clone();
        let offset = (u64::from(spot.range) * crate::block::RANGE + u64::from(spot.i)) * 4096;
        let data = self.random_bytes(4096);
        self.submit(object.hash as usize & 7, vec![Mutation::of(object, ObjectChange::Write(offset, data.into()))]);
    }

    /// A random life.
    pub(crate) fn life(&mut self, steps: u64) {
        for _ in 0..steps {
            if self.hasty && self.store.flipping() && self.dice.one_in(2) {
                self.turn();
                self.crash();
                self.check_all();
            }
            if self.meddles || self.dice.one_in(4) {
                self.change_what_moves();
            }
            match self.dice.below(20) {
                0..=9 if self.pushy || !self.store.congested() => self.submit_one(),
                10..=15 => {
                    for _ in 0..self.dice.below(8) {
                        self.pump();
                        if self.meddles && self.dice.one_in(3) {
                            self.change_what_moves();
                        }
                    }
                }
                16 => self.check_some(),
                19 if self.hasty && self.dice.one_in(2) => self.store.due.want(true),
                17 if self.dice.one_in(if self.hasty { 2 } else { 4 }) => {
                    self.crash();
                    self.check_all();
                }
                18 if self.dice.one_in(8) => {
                    self.restart();
                    self.check_all();
                }
                _ => {
                    self.pump();
                }
            }
            assert_eq!(self.store.failure(), None);
        }
        self.settle();
        self.check_all();
        self.crash();
        self.check_all();
        self.restart();
        self.check_all();
        if std::env::var("STORE_LOG").is_ok() {
            println!("{:?}", self.total);
        }
    }

    /// Flips bits all over the disks; what is read then is right, or damage is told, or the store does not open.
    pub(crate) fn flip_and_check(&mut self) {
        for _ in 0..1 + self.dice.below(40) {
            let at = self.dice.below(2) as usize;
            let bits = self.disks[at].len() as u64 * 8;
            if bits > 0 {
                // The front of the disk is where things are.
                let bit = self.dice.below(bits.min(8 << 23)) / (1 + self.dice.below(3));
                self.disks[at].flip(bit);
            }
        }
        crate::fsck::check(&mut self.disks, &Config::default(), true);
        self.store = Store::open(Config { memory: 0, ..self.config.clone() });
        self.store.mistake = self.mistake;
        self.fetched.clear();
        self.owner.clear();
        for _ in 0..100_000 {
            if self.store.ready() || self.store.open_error().is_some() {
                break;
            }
            self.pump();
        }
        if self.store.open_error().is_some() {
            return;
        }
        for at in 0..SCOPES as usize {
            let objects: Vec<ObjectId> = self.twins[at].model.objects().cloned().collect();
            for object in &objects {
                let want = self.twins[at].model.read(hold(), object, 0, u64::MAX).unwrap();
                match self.read(|s, h| s.read(h, object, 0, u64::MAX)) {
                    // The last transactions may be gone with a torn last group only if nothing says that they were durable.
                    Ok(got) => assert!(got == want || !self.all_kept(at), "wrong data of {object}"),
                    Err(damage) => assert!(!damage.what.is_empty()),
                }
            }
        }
    }

    /// Returns true if the scope has all transactions that were submitted, as far as that can be read.
    fn all_kept(&mut self, at: usize) -> bool {
        let kept = self.read(|s, h| s.meta_get(h, &scope(at), SEQ));
        let submitted = self.twins[at].submitted;
        kept.is_ok_and(|v| v.map_or(0, |v| u64::from_le_bytes(v[..].try_into().unwrap())) == submitted)
    }

    /// Writes until the disk is full; then removes, and writes again.
    pub(crate) fn fill(&mut self) {
        for round in 0..4 {
            self.full = false;
            let mut written = 0;
            for n in 0.. {
                let object = self.named(format!("fill {n}"));
                let len = [4096, 50_000, 300_000][self.dice.below(3) as usize];
                let data = self.random_bytes(len);
                if !self.submit(0, vec![Mutation::of(object, ObjectChange::Write(0, data.into()))]) {
                    break;
                }
                written += len;
                for _ in 0..6 {
                    self.pump();
                }
            }
            assert!(written > 1 << 20, "round {round}: only {written} bytes fit");
            assert_eq!(self.store.failure(), None);
            self.settle();
            self.check_all();
            if self.dice.one_in(2) {
                self.crash();
                self.check_all();
            }
            let objects: Vec<ObjectId> = self.twins[0].model.objects().cloned().collect();
            for object in objects {
                assert!(
                    self.submit(0, vec![Mutation::of(object.clone(), ObjectChange::Truncate(100))]),
                    "a full store truncates"
                );
                assert!(self.submit(0, vec![Mutation::of(object, ObjectChange::Remove)]), "a full store removes");
                self.pump();
            }
            self.settle();
            self.restart();
            self.check_all();
        }
    }

    /// Removes things that a checkpoint has, and crashes before the next one.
    pub(crate) fn remove_and_crash(&mut self) {
        let objects: Vec<ObjectId> = (0..10).map(|n| self.named(format!("large {n}"))).collect();
        for object in &objects {
            let data = self.random_bytes(400_000);
            assert!(self.submit(0, vec![Mutation::of(object.clone(), ObjectChange::Write(0, data.into()))]));
            self.settle();
        }
        self.restart();
        assert!(self.store.space().data >= 10 * 400_000);
        for object in objects {
            assert!(self.submit(0, vec![Mutation::of(object, ObjectChange::Remove)]));
        }
        self.settle();
        self.crash();
        assert!(self.store.space().data >= 10 * 400_000, "a checkpoint came too early for this test");
        self.now += 6_000_000_000;
        self.settle();
        assert_eq!(self.store.space().data, 0);
    }

    /// From some request on all writes fail.
    pub(crate) fn fail_at(&mut self, requests: u64) {
        let at = self.disks[0].issued() + requests;
        self.disks[0].fail_after = Some(at);
        for _ in 0..2000 {
            if self.store.failure().is_some() {
                break;
            }
            if self.dice.one_in(3) {
                self.submit_one();
            }
            self.pump();
        }
        assert!(self.store.failure().is_some());
        let committed: Vec<u64> = self.twins.iter().map(|t| t.committed).collect();
        for _ in 0..50 {
            self.pump();
        }
        assert!(self.twins.iter().zip(&committed).all(|(t, c)| t.committed == *c), "nothing is committed after a failure");
        let refused = self.store.submit(Transaction::default(), Ticket(u64::MAX));
        assert_eq!(refused, Err(Refused::Stopped));
        self.disks[0].fail_after = None;
        self.crash();
        self.check_all();
    }

    /// Writes the same megabyte over and over: the file does not grow with each.
    pub(crate) fn overwrite_whole(&mut self) {
        let object = self.random_object(0);
        for _ in 0..24 {
            let data = self.random_bytes(1 << 20);
            assert!(self.submit(0, vec![Mutation::of(object.clone(), ObjectChange::Write(0, data.into()))]));
            self.settle();
        }
        let (checkpoints, used) =
            (self.store.counters().checkpoints, self.store.space.alloc().frontier() * crate::block::BLOCK as u64);
        assert!(checkpoints >= 4, "{checkpoints} checkpoints");
        // Journal, what is kept ready, and twice what may be replaced between two checkpoints.
        assert!(used < 26 << 20, "{} MiB used", used >> 20);
        self.check_all();
    }

    /// The host has no space for a while; what is kept ready is not enough.
    pub(crate) fn host_full(&mut self) {
        self.settle();
        self.disks[0].host_limit = Some(self.disks[0].len());
        let object = self.random_object(0);
        let data = self.random_bytes(5_000_000);
        self.submit(0, vec![Mutation::of(object.clone(), ObjectChange::Write(0, data.clone().into()))]);
        for _ in 0..50 {
            self.pump();
        }
        assert_eq!(self.store.failure(), None);
        assert!(self.twins[0].committed < self.twins[0].submitted, "not durable yet");
        assert!(
            !self.submit(0, vec![Mutation::of(object, ObjectChange::Write(0, data.into()))]),
            "refused while the host is full"
        );
        assert!(self.store.space().host_full, "whoever asks is told why");
        self.disks[0].host_limit = None;
        self.now += 5_000_000_000;
        self.settle();
        self.check_all();
        assert_eq!(self.twins[0].committed, self.twins[0].submitted);
        assert!(!self.store.space().host_full);
    }

    /// Opens with wrong expectations.
    pub(crate) fn refusals(&mut self) {
        use crate::OpenError;
        let before = self.disks[0].bytes().to_vec();
        let mut refused = |store: Store| {
            self.store = store;
            while self.store.open_error().is_none() {
                assert!(!self.store.ready());
                self.pump();
            }
            self.store.open_error().cloned().unwrap()
        };
        let good = Config { uuid: [7; 16], fsid: Fsid([9; 16]), whoami: 3, ..Config::default() };
        assert_eq!(refused(Store::create(good.clone())), OpenError::Exists([7; 16]));
        let foreign = |e: OpenError| matches!(e, OpenError::Foreign { .. });
        assert!(foreign(refused(Store::open(Config { uuid: [8; 16], ..good.clone() }))));
        assert!(foreign(refused(Store::open(Config { fsid: Fsid([8; 16]), ..good.clone() }))));
        assert!(foreign(refused(Store::open(Config { whoami: 4, ..good.clone() }))));
        assert_eq!(before, self.disks[0].bytes(), "nothing was changed");
        self.disks[0] = TestDisk::new(1 << 20);
        let refused = |world: &mut Self, store: Store| {
            world.store = store;
            while world.store.open_error().is_none() {
                world.pump();
            }
            world.store.open_error().cloned().unwrap()
        };
        assert_eq!(refused(self, Store::open(good.clone())), OpenError::NoStore);
        assert!(matches!(refused(self, Store::create(good)), OpenError::TooSmall { .. }));
        assert!(self.disks[0].is_empty());
    }

    /// Transactions of two scopes on the same objects: whichever was submitted first is in the journal first.
    pub(crate) fn shared_objects(&mut self, steps: u64) {
        let object = self.named("shared".into());
        let (mut all, mut tickets): (Vec<Mutation>, BTreeMap<u64, usize>) = (Vec::new(), BTreeMap::new());
        let mut last = 0;
        for n in 0..steps {
            let at = self.dice.below(SCOPES) as usize;
            let data = self.random_data();
            let offset = 4096 * self.dice.below(40);
            let mutation = match self.dice.below(6) {
                0 => Mutation::of(object.clone(), ObjectChange::Truncate(offset)),
                1 => Mutation::of(object.clone(), ObjectChange::Remove),
                _ => Mutation::of(object.clone(), ObjectChange::Write(offset, data)),
            };
            // Each transaction leaves its number, so that what survived is known.
            let mark = Mutation::of(object.clone(), ObjectChange::SetInfo(Bytes::copy_from_slice(&n.to_le_bytes())));
            let both: Transaction = [mutation.clone(), mark.clone()].into_iter().collect();
            let t = both.in_scope(scope(at));
            assert_eq!(self.store.submit(t, Ticket(n)), Ok(()));
            all.extend([mutation, mark]);
            tickets.insert(n, at);
            for _ in 0..self.dice.below(5) {
                self.turn();
                self.step_disks();
                while let Some(event) = self.store.poll_event() {
                    if let Event::Committed(ticket) = event {
                        last = last.max(ticket.0);
                    }
                }
            }
        }
        let mut dice = Dice(self.dice.roll());
        self.disks.iter_mut().for_each(|d| d.crash(&mut dice));
        self.fsck();
        self.store = Store::open(self.config.clone());
        self.open_up();
        let kept = self.sure(|s, h| s.stat(h, &object)).map(|s| u64::from_le_bytes(s.info[..].try_into().unwrap()));
        let mut model = MemStore::new();
        // Submitted later means in the journal later, so what is there is a prefix of all.
        let kept_mutations = all[..kept.map_or(0, |k| 2 * (k as usize + 1))].iter().cloned();
        assert!(kept.is_some_and(|k| k >= last) || last == 0, "{last} was committed, {kept:?} is there");
        model.submit(kept_mutations.collect(), Ticket(0)).unwrap();
        let want = model.read(hold(), &object, 0, u64::MAX).unwrap();
        assert!(self.sure(|s, h| s.read(h, &object, 0, u64::MAX)) == want, "data of the shared object");
    }

    fn step_disks(&mut self) {
        let (now, first) = (self.now(), self.dice.below(2) as usize);
        for at in [first, 1 - first] {
            if let Some(done) = self.disks[at].step(&mut self.dice) {
                return self.store.disk_done(now, done);
            }
        }
    }

    /// Keys of 40 KB and values of 200 KB, through checkpoints and crashes; and what is larger than a record may be is refused.
    pub(crate) fn long_things(&mut self) {
        let object = self.random_object(0);
        for round in 0..6u64 {
            let entries = (0..3u64).map(|i| {
                let key = Bytes::from([vec![b'k'; 40_000], (round * 2 + i).to_le_bytes().to_vec()].concat());
                (key, vec![i as u8; [10, 50_000, 100_000][i as usize]].into())
            });
            let entries = entries.collect();
            assert!(self.submit(0, vec![Mutation::of(object.clone(), ObjectChange::OmapSet(entries))]));
            let zeros = Bytes::from(vec![0; 300 + round as usize]);
            let other = self.random_object(1);
            let set = Mutation::of(other, ObjectChange::SetXattr(Bytes::new(), Bytes::new()));
            assert!(self.submit(1, vec![MetaChange::Set(zeros, Bytes::new()).into(), set]));
            self.store.due.want(true);
            self.settle();
            if round % 2 == 1 {
                self.crash();
            }
            self.check_all();
        }
        let huge = vec![(Bytes::from_static(b"huge"), Bytes::from(vec![1; 4 << 20]))];
        assert!(!self.submit(0, vec![Mutation::of(object, ObjectChange::OmapSet(huge))]), "larger than a record may be");
        self.restart();
        self.check_all();
    }
}
