//! Nothing that was taken on waits for ever: large omaps, slow disks, flushes that fail, damaged pages, a full host.

use crate::{Config, Store};
use bytes::Bytes;
use node::{DeviceId, DiskDone, DiskError, DiskOp, DiskOutput, DiskRequest, DiskStat, Mono, Now, Output, Outputs};
use objectstore::*;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use types::{HObject, ObjectId, PgId, Rope, SnapId, SpgId};

const B: usize = 4096;
const ALL: Limit = Limit { entries: usize::MAX, bytes: usize::MAX };

/// A disk that takes memory only for what was written.
struct Sparse {
    blocks: HashMap<u64, Bytes>,
    len: u64,
    capacity: u64,
    host_free: u64,
}

impl Sparse {
    fn new(capacity: u64) -> Self {
        Self { blocks: HashMap::new(), len: 0, capacity, host_free: u64::MAX }
    }

    fn answer(&mut self, op: DiskOp) -> Result<DiskOutput, DiskError> {
        Ok(match op {
            DiskOp::Read { offset, buf } if offset + buf.len() as u64 > self.len => return Err(DiskError::Io(61)),
            DiskOp::Read { offset, mut buf } => {
                for (i, part) in buf.chunks_exact_mut(B).enumerate() {
                    match self.blocks.get(&(offset / B as u64 + i as u64)) {
                        Some(bytes) => part.copy_from_slice(bytes),
                        None => part.fill(0),
                    }
                }
                DiskOutput::Read(buf)
            }
            DiskOp::Write { offset, data, .. } => {
                self.len = self.len.max(offset + data.len() as u64);
                let whole = data.contiguous();
                for (i, part) in whole.chunks_exact(B).enumerate() {
                    self.blocks.insert(offset / B as u64 + i as u64, Bytes::copy_from_slice(part));
                }
                DiskOutput::Done
            }
            DiskOp::Flush | DiskOp::Trim { .. } => DiskOutput::Done,
            DiskOp::Stat => DiskOutput::Stat(DiskStat { len: self.len, capacity: self.capacity, host_free: self.host_free }),
        })
    }
}

/// A store and its disks, of which a test decides what they answer.
struct Rig {
    store: Store,
    disks: [Sparse; 2],
    now: u64,
    tickets: u64,
    committed: u64,
    /// Objects of which the store said that they cannot be read.
    damaged: Vec<ObjectId>,
    queue: VecDeque<DiskRequest>,
}

impl Rig {
    fn new(config: Config, capacity: u64) -> Self {
        let disks = [Sparse::new(capacity), Sparse::new(256 << 20)];
        let (damaged, queue) = (Vec::new(), VecDeque::new());
        let mut rig = Self { store: Store::create(config), disks, now: 0, tickets: 0, committed: 0, damaged, queue };
        rig.open();
        rig
    }

    fn open(&mut self) {
        while !self.store.ready() && self.store.open_error().is_none() {
            self.round();
        }
        assert_eq!(self.store.open_error().map(ToString::to_string), None);
    }

    fn reopen(&mut self, config: Config) {
        self.queue.clear();
        self.store = Store::open(config);
        self.open();
    }

    fn turn(&mut self) {
        self.now += 100_000;
        let mut out = Outputs::default();
        self.store.turn(Now { mono: Mono(self.now), ..Now::default() }, &mut out);
        self.queue.extend(out.0.into_iter().filter_map(|output| match output {
            Output::Disk(request) => Some(request),
            _ => None,
        }));
        assert_eq!(self.store.self_check(false), Ok(()));
    }

    fn done(&mut self, request: DiskRequest) {
        let result = self.disks[usize::from(request.device.0)].answer(request.op);
        self.finish(DiskDone { token: request.token, result });
    }

    fn finish(&mut self, done: DiskDone) {
        self.store.disk_done(Now { mono: Mono(self.now), ..Now::default() }, done);
        while let Some(event) = self.store.poll_event() {
            match event {
                Event::Committed(_) => self.committed += 1,
                Event::Damaged(_, objects) => self.damaged.extend(objects),
                Event::Fetched(_) | Event::Rotten(_) => (),
            }
        }
    }

    /// A turn, and all requests answered but those that `refuse` answers.
    fn round_but(&mut self, mut refuse: impl FnMut(&DiskRequest) -> Option<DiskError>) {
        self.turn();
        while let Some(request) = self.queue.pop_front() {
            match refuse(&request) {
                Some(error) => self.finish(DiskDone { token: request.token, result: Err(error) }),
                None => self.done(request),
            }
        }
    }

    fn round(&mut self) {
        self.round_but(|_| None);
    }

    fn checkpoint(&mut self) {
        for _ in 0..2 {
            self.store.compact();
            (0..400).for_each(|_| self.round());
        }
    }

    fn submit(&mut self, scope: u32, changes: Vec<(ObjectId, ObjectChange)>) -> Result<(), Refused> {
        let mutations = changes.into_iter().map(|(object, change)| Mutation::Object(object, change));
        let transaction = mutations.collect::<Transaction>().in_scope(SpgId::whole(PgId::new(1, scope)));
        let taken = self.store.submit(transaction, Ticket(self.tickets));
        self.tickets += u64::from(taken.is_ok());
        taken
    }

    fn write(&mut self, scope: u32, n: u64, blocks: usize) -> Result<(), Refused> {
        self.submit(scope, vec![(object(n), ObjectChange::Write(0, Rope::from(vec![n as u8; blocks * B])))])
    }

    fn read<T>(&mut self, f: impl Fn(&Store, Hold) -> Read<T>) -> Result<T, Damage> {
        let hold = Hold(77);
        loop {
            match f(&self.store, hold) {
                Ok(value) => {
                    self.store.release(hold);
                    return Ok(value);
                }
                Err(Unread::Damaged(damage)) => {
                    self.store.release(hold);
                    return Err(damage);
                }
                Err(Unread::Missing(wish)) => {
                    self.store.fetch(hold, wish);
                    self.round();
                }
            }
        }
    }

    fn omap(&mut self, object: &ObjectId) -> Vec<(Bytes, Bytes)> {
        self.read(|s, h| s.omap_scan(h, object, (Bound::Unbounded, Bound::Unbounded), ALL)).expect("whole").entries
    }

    fn rehearse(&mut self, changes: &[(ObjectId, ObjectChange)]) -> Result<(), Unfit> {
        let mutations = changes.iter().cloned().map(|(object, change)| Mutation::Object(object, change));
        let transaction: Transaction = mutations.collect();
        let result = self.read(|s, h| match s.rehearse(h, &transaction.objects) {
            Err(Unfit::Unread(unread)) => Err(unread),
            rehearsed => Ok(rehearsed),
        });
        result.unwrap_or_else(|damage| Err(Unfit::Unread(Unread::Damaged(damage))))
    }
}

fn object(n: u64) -> ObjectId {
    let name = Bytes::from(format!("object.{n:016x}"));
    let hash = types::hash::rjenkins(&name);
    HObject { pool: 1, hash, nspace: Bytes::new(), key: Bytes::new(), name, snap: SnapId::HEAD, max: false }.into()
}

fn config() -> Config {
    Config { uuid: [1; 16], memory: 64 << 20, journal_bytes: 4 << 20, ..Config::default() }
}

/// A store with a ring of 1 MiB, and an object with an omap of 1.7 MB.
fn with_large_omap() -> Rig {
    let mut rig = Rig::new(Config { journal_bytes: 1 << 20, ..config() }, 256 << 20);
    for n in 0..40u64 {
        let entries = (0..100u64).map(|i| (Bytes::from(format!("key {n:04} {i:04}")), Bytes::from(vec![n as u8; 400])));
        rig.submit(1, vec![(object(1), ObjectChange::OmapSet(entries.collect()))]).expect("room");
        rig.round();
        while rig.store.congested() {
            rig.round();
        }
    }
    rig.checkpoint();
    assert_eq!(rig.committed, rig.tickets);
    rig
}

#[test]
fn a_clone_of_a_large_omap_copies_nothing_and_keeps_what_it_saw() {
    let mut rig = with_large_omap();
    let before = rig.omap(&object(1));
    rig.write(1, 2, 1).expect("room");
    let clone = vec![(object(2), ObjectChange::CloneOf(object(1)))];
    assert_eq!(rig.rehearse(&clone), Ok(()));
    rig.submit(1, clone).expect("taken");
    // Another scope does not wait for it.
    rig.write(2, 3, 1).expect("room");
    (0..200).for_each(|_| rig.round());
    assert_eq!((rig.committed, rig.store.failure(), rig.store.sb.version), (rig.tickets, None, crate::superblock::FAMILIES));
    // A few keys at a time, and then all there are.
    let written = rig.store.counters().journal_bytes;
    for n in 0..40u64 {
        let new = vec![
            (Bytes::from(format!("key {n:04} 0050")), Bytes::from_static(b"new")),
            (Bytes::from(format!("new {n}")), Bytes::new()),
        ];
        let gone = vec![Bytes::from(format!("key {n:04} 0051"))];
        rig.submit(1, vec![(object(1), ObjectChange::OmapSet(new)), (object(1), ObjectChange::OmapRemove(gone))]).expect("room");
        rig.round();
    }
    (0..200).for_each(|_| rig.round());
    assert!(rig.store.counters().journal_bytes - written < 1 << 20, "only what changes is copied");
    for again in [false, true] {
        if again {
            rig.reopen(Config { journal_bytes: 1 << 20, ..config() });
        }
        assert_eq!((rig.omap(&object(2)) == before, rig.omap(&object(1)).len()), (true, 4000), "{again}");
    }
    rig.submit(1, vec![(object(1), ObjectChange::OmapClear)]).expect("room");
    rig.submit(1, vec![(object(1), ObjectChange::OmapSet(vec![("a".into(), "b".into())]))]).expect("room");
    rig.checkpoint();
    assert_eq!((rig.omap(&object(2)) == before, rig.omap(&object(1)).len()), (true, 1));
    let omap = rig.store.space().omap;
    rig.submit(1, vec![(object(2), ObjectChange::Remove)]).expect("room");
    rig.checkpoint();
    assert!(omap > 1_600_000 && rig.store.space().omap < 100, "what only the clone saw is given back");
}

#[test]
fn a_change_of_a_shared_omap_that_no_record_can_hold_is_an_error_and_holds_nothing_up() {
    let mut rig = with_large_omap();
    let before = rig.omap(&object(1));
    rig.submit(1, vec![(object(2), ObjectChange::CloneOf(object(1)))]).expect("taken");
    rig.write(1, 3, 1).expect("room");
    rig.checkpoint();
    // What goes is too much for a record, and what would be left is, too.
    let all = vec![(object(1), ObjectChange::OmapRemoveRange("key 0010".into(), "key 0030".into()))];
    assert_eq!(rig.rehearse(&all), Err(Unfit::TooLarge), "a client is told before anything is done");
    let some = vec![(object(1), ObjectChange::OmapRemoveRange("key 0000".into(), "key 0003".into()))];
    assert_eq!(rig.rehearse(&some), Ok(()));
    rig.submit(1, some).expect("room");
    (0..100).for_each(|_| rig.round());
    assert_eq!((rig.omap(&object(1)).len(), rig.omap(&object(2)) == before), (3700, true));
    // Nobody rehearsed it: a copy that carries out what its primary did.
    rig.submit(1, all).expect("taken");
    rig.write(2, 5, 1).expect("room");
    (0..2000).for_each(|_| rig.round());
    assert_eq!((rig.committed, rig.store.failure()), (rig.tickets, None));
    assert_eq!(rig.damaged, [object(1)], "who asked for it hears that the object is none");
    rig.reopen(Config { journal_bytes: 1 << 20, ..config() });
    assert!(rig.read(|s, h| s.read(h, &object(1), 0, 10)).is_err(), "and nobody reads what it was before");
    assert!(rig.omap(&object(2)) == before);
}

#[test]
fn a_removal_of_nearly_all_keys_keeps_the_few_that_are_left() {
    for header in [false, true] {
        let mut rig = with_large_omap();
        if header {
            rig.submit(1, vec![(object(1), ObjectChange::OmapHeader("head".into()))]).expect("room");
        }
        let before = rig.omap(&object(1));
        rig.submit(1, vec![(object(2), ObjectChange::CloneOf(object(1)))]).expect("taken");
        rig.checkpoint();
        let nearly = vec![(object(1), ObjectChange::OmapRemoveRange("key 0001".into(), "key 0039 0098".into()))];
        assert_eq!(rig.rehearse(&nearly), Ok(()));
        let written = rig.store.counters().journal_bytes;
        rig.submit(1, nearly).expect("room");
        (0..200).for_each(|_| rig.round());
        assert!(rig.store.counters().journal_bytes - written < 100 << 10, "what goes is not copied");
        let left: Vec<(Bytes, Bytes)> =
            before.iter().filter(|(key, _)| !("key 0001".."key 0039 0098").contains(key)).cloned().collect();
        assert_eq!(left.len(), 102);
        for again in [false, true] {
            if again {
                rig.checkpoint();
                rig.reopen(Config { journal_bytes: 1 << 20, ..config() });
            }
            assert!(rig.omap(&object(1)) == left && rig.omap(&object(2)) == before, "{again}");
            let told = rig.read(|s, h| s.omap_header(h, &object(1))).expect("whole");
            assert_eq!(&told[..], if header { &b"head"[..] } else { b"" });
        }
        // All of them, and some more after that.
        rig.submit(1, vec![(object(1), ObjectChange::OmapRemoveRange("".into(), "kez".into()))]).expect("room");
        rig.submit(1, vec![(object(1), ObjectChange::OmapSet(vec![("a".into(), "b".into())]))]).expect("room");
        rig.checkpoint();
        assert_eq!((rig.omap(&object(1)).len(), rig.omap(&object(2)) == before), (1, true));
        rig.submit(1, vec![(object(1), ObjectChange::Remove), (object(2), ObjectChange::Remove)]).expect("removals");
        rig.checkpoint();
        assert_eq!((rig.committed, rig.store.failure(), rig.store.space().omap), (rig.tickets, None, 0));
    }
}

#[test]
fn a_large_object_takes_another_name_and_nothing_is_copied() {
    for checkpoints in [false, true] {
        let mut rig = with_large_omap();
        rig.write(1, 1, 40).expect("room");
        rig.submit(1, vec![(object(1), ObjectChange::SetXattr("name".into(), "value".into()))]).expect("room");
        rig.write(1, 2, 3).expect("room");
        if checkpoints {
            rig.checkpoint();
        }
        let written = rig.store.counters().journal_bytes;
        let taken = vec![(object(2), ObjectChange::TakeOver(object(1))), (object(2), ObjectChange::SetInfo("info".into()))];
        assert_eq!(rig.rehearse(&taken), Ok(()));
        rig.submit(1, taken).expect("room");
        // The old name is free for another.
        rig.write(1, 1, 1).expect("room");
        (0..200).for_each(|_| rig.round());
        assert_eq!((rig.committed, rig.store.failure()), (rig.tickets, None));
        assert!(rig.store.counters().journal_bytes - written < 64 << 10 || !checkpoints);
        for again in [false, true] {
            if again {
                rig.checkpoint();
                rig.reopen(Config { journal_bytes: 1 << 20, ..config() });
            }
            let stat = rig.read(|s, h| s.stat(h, &object(2))).expect("whole").expect("there");
            assert_eq!((stat.size, &stat.info[..]), (40 * B as u64, &b"info"[..]));
            assert_eq!(rig.read(|s, h| s.read(h, &object(2), 0, u64::MAX)).expect("whole").to_vec(), vec![1; 40 * B]);
            assert_eq!(rig.read(|s, h| s.xattrs(h, &object(2))).expect("whole").len(), 1);
            assert_eq!((rig.omap(&object(2)).len(), rig.omap(&object(1)).len()), (4000, 0));
            assert_eq!(rig.read(|s, h| s.read(h, &object(1), 0, u64::MAX)).expect("whole").to_vec(), vec![1; B]);
        }
        // All of it goes with the new name.
        rig.submit(1, vec![(object(1), ObjectChange::Remove), (object(2), ObjectChange::Remove)]).expect("removals");
        rig.checkpoint();
        assert_eq!((rig.store.space().data, rig.store.space().omap), (0, 0));
    }
}

#[test]
fn a_source_that_does_not_exist_is_an_error() {
    let range = ObjectChange::CloneRange(object(9), vec![(0, 10)]);
    let xor = ObjectChange::Xor(5, Bytes::from_static(b"delta").into());
    for make in [ObjectChange::CloneOf(object(9)), ObjectChange::TakeOver(object(9)), range, xor] {
        let mut rig = Rig::new(config(), 64 << 20);
        // What is to be combined with other bytes must be there itself.
        if make.source().is_some() {
            rig.write(1, 1, 2).expect("room");
        }
        let lost = vec![(object(1), make), (object(1), ObjectChange::SetInfo("new".into()))];
        assert!(matches!(rig.rehearse(&lost), Err(Unfit::Unread(Unread::Damaged(_)))));
        rig.submit(1, lost).expect("taken");
        rig.checkpoint();
        assert_eq!((rig.committed, rig.store.failure()), (rig.tickets, None));
        assert_eq!(rig.damaged, [object(1)]);
        assert!(rig.read(|s, h| s.read(h, &object(1), 0, 10)).is_err(), "nobody reads what it was for what it became");
        rig.write(1, 1, 1).expect("room");
        (0..50).for_each(|_| rig.round());
        assert_eq!(rig.read(|s, h| s.read(h, &object(1), 0, 1)).expect("written anew").to_vec(), [1]);
    }
}

#[test]
fn a_flush_that_finds_no_space_stops_the_store() {
    let mut rig = Rig::new(config(), 64 << 20);
    rig.write(1, 1, 32).expect("room");
    let mut refused = 0;
    for _ in 0..1000 {
        rig.round_but(|request| {
            let first = matches!(request.op, DiskOp::Flush) && refused == 0;
            refused += u64::from(first);
            first.then_some(DiskError::NoSpace)
        });
    }
    assert_eq!((refused, rig.committed), (1, 0));
    assert!(rig.store.failure().is_some(), "what was written before that flush may be lost");
}

#[test]
fn small_writes_behind_a_slow_large_one_become_durable_when_it_ends() {
    for every in [2, 3, 10] {
        let mut rig = Rig::new(Config { separate_journal: true, journal_bytes: 8 << 20, ..config() }, 2048 << 20);
        let mut held: Option<DiskRequest> = None;
        rig.write(1, 1, 64).expect("room");
        for n in 0..6000u64 {
            rig.turn();
            while let Some(request) = rig.queue.pop_front() {
                let large = matches!(&request.op, DiskOp::Write { data, .. } if data.len() == 64 * B);
                if large && request.device == DeviceId(0) && held.is_none() {
                    held = Some(request);
                } else {
                    rig.done(request);
                }
            }
            if rig.store.waiting.len() > 20 {
                continue;
            }
            // Nobody slows down: so do primaries' changes, pushes and removals.
            let scope = if n % every == 0 { 1 } else { 2 };
            rig.write(scope, u64::from(scope) * 1000 + n % 50, 1).expect("room");
        }
        assert!(rig.store.pipeline.ranges().len() <= crate::superblock::MOST_SKIPPED);
        rig.done(held.expect("a large write"));
        (0..4000).for_each(|_| rig.round());
        assert_eq!((rig.committed, rig.store.failure()), (rig.tickets, None), "one in {every} of the slow one's scope");
    }
}

#[test]
fn a_change_that_needs_a_damaged_page_waits_and_is_carried_out_when_it_can_be_read() {
    let mut rig = Rig::new(config(), 64 << 20);
    for n in 0..200u64 {
        rig.write(1, n, 1).expect("room");
    }
    rig.checkpoint();
    rig.reopen(config());
    rig.store.drop_caches();
    let before = rig.committed;
    rig.tickets = 0;
    rig.write(1, 7, 1).expect("taken");
    for _ in 0..100 {
        rig.round_but(|request| matches!(request.op, DiskOp::Read { .. }).then_some(DiskError::Io(5)));
    }
    assert_eq!((rig.store.failure(), rig.committed), (None, before), "EIO for what it holds, not the end of the store");
    assert!(rig.store.impairment().is_some_and(|why| why.contains("index page")), "{:?}", rig.store.impairment());
    assert_eq!(rig.write(2, 8, 1), Err(Refused::Damaged));
    // Nobody is woken for nothing.
    assert!(rig.store.deadline() > Mono(rig.now));
    rig.now += 31_000_000_000;
    for _ in 0..100 {
        rig.round_but(|request| matches!(request.op, DiskOp::Read { .. }).then_some(DiskError::Io(5)));
    }
    assert!(rig.store.impairment().is_some(), "it was looked at again");
    rig.now += 31_000_000_000;
    (0..100).for_each(|_| rig.round());
    assert_eq!((rig.store.impairment(), rig.committed), (None, before + 1));
    rig.write(2, 8, 1).expect("writes go on");
}

#[test]
fn removals_find_room_on_a_host_that_others_fill() {
    let mut rig = Rig::new(Config { write_ahead: 0, ..config() }, 256 << 20);
    for n in 0..200u64 {
        rig.write(1, n, 128).expect("room");
        rig.round();
    }
    // Some of it goes again, so that the file has free blocks of its own.
    for n in 0..60u64 {
        rig.submit(1, vec![(object(n), ObjectChange::Remove)]).expect("room");
    }
    rig.checkpoint();
    // From here on writes to blocks that the file does not have fail; what is given back is somebody else's at once.
    let mut there: BTreeSet<u64> = (0..rig.disks[0].len / B as u64).collect();
    rig.disks[0].host_free = 0;
    let mut given = 0;
    let mut rounds = |rig: &mut Rig, n: usize| {
        for _ in 0..n {
            rig.now += 10_000_000;
            rig.round_but(|request| match &request.op {
                DiskOp::Trim { offset, len } => {
                    let blocks = offset / B as u64..(offset + len) / B as u64;
                    given += blocks.filter(|block| there.remove(block)).count();
                    None
                }
                DiskOp::Write { offset, data, .. } if request.device == DeviceId(0) => {
                    let mut blocks = offset / B as u64..(offset + data.len() as u64) / B as u64;
                    blocks.any(|block| !there.contains(&block)).then_some(DiskError::NoSpace)
                }
                _ => None,
            });
        }
        given
    };
    assert!(rounds(&mut rig, 2000) > 1000, "what is not needed is given back");
    let data = rig.store.space().data;
    for n in 60..190u64 {
        rig.submit(1, vec![(object(n), ObjectChange::Remove)]).expect("removals always have room");
    }
    rounds(&mut rig, 5000);
    assert_eq!((rig.committed, rig.store.failure()), (rig.tickets, None));
    assert!(rig.store.space().data < data / 2, "removed space comes back: {} of {data}", rig.store.space().data);
}
