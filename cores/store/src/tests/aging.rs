//! Disks that were full, emptied and filled again: free space in short pieces, and what must go on all the same.

use crate::block::{BLOCK, MOST_SEQ};
use crate::sparse::{Sparse, filler};
use crate::superblock::{PIECES, PLAIN, VERSION};
use crate::{Config, Store, fsck};
use bytes::Bytes;
use node::{DiskDone, DiskOp, DiskOutput, DiskRequest, Mono, Now, Output, Outputs};
use objectstore::*;
use std::collections::{BTreeMap, VecDeque};
use types::{HObject, ObjectId, PgId, SnapId, SpgId};

/// A store on a sparse disk, and the driver of both.
pub(super) struct Rig {
    pub(super) store: Store,
    pub(super) disk: Sparse,
    config: Config,
    pub(super) now: u64,
    pub(super) tickets: u64,
    pub(super) committed: u64,
    queue: VecDeque<DiskRequest>,
    /// Writes and reads that the disk was asked for.
    writes: u64,
    pub(super) reads: u64,
    /// Objects that the store found damaged by itself.
    pub(super) rotten: Vec<ObjectId>,
}

pub(super) fn object(n: u64) -> ObjectId {
    let name = Bytes::from(format!("rbd_data.10226b8b4567.{n:016x}"));
    let hash = types::hash::rjenkins(&name);
    HObject { pool: 1, hash, nspace: Bytes::new(), key: Bytes::new(), name, snap: SnapId::HEAD, max: false }.into()
}

/// The next of a row of numbers that look like chance.
pub(super) fn dice(x: &mut u64) -> u64 {
    *x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*x ^ *x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

pub(super) fn small() -> Config {
    Config { uuid: [1; 16], memory: 64 << 20, journal_bytes: 4 << 20, write_ahead: 0, ..Config::default() }
}

impl Rig {
    pub(super) fn new(config: Config, capacity: u64) -> Self {
        let (store, disk) = (Store::create(config.clone()), Sparse::new(capacity));
        let mut rig = Self {
            store,
            disk,
            config,
            now: 0,
            tickets: 0,
            committed: 0,
            queue: VecDeque::new(),
            writes: 0,
            reads: 0,
            rotten: Vec::new(),
        };
        rig.open_up();
        rig
    }

    fn open_up(&mut self) {
        while !self.store.ready() {
            assert_eq!(self.store.open_error(), None);
            self.round();
        }
    }

    fn turn(&mut self) {
        self.now += 100_000;
        let mut out = Outputs::default();
        self.store.turn(Now { mono: Mono(self.now), ..Now::default() }, &mut out);
        self.queue.extend(out.0.into_iter().filter_map(|output| match output {
            Output::Disk(request) => Some(request),
            _ => None,
        }));
    }

    pub(super) fn round(&mut self) {
        self.turn();
        while let Some(request) = self.queue.pop_front() {
            self.writes += u64::from(matches!(request.op, DiskOp::Write { .. }));
            self.reads += u64::from(matches!(request.op, DiskOp::Read { .. }));
            let result = self.disk.answer(request.op);
            let now = Now { mono: Mono(self.now), ..Now::default() };
            self.store.disk_done(now, DiskDone { token: request.token, result });
        }
        while let Some(event) = self.store.poll_event() {
            match event {
                Event::Committed(_) => self.committed += 1,
                Event::Rotten(object) => self.rotten.push(object),
                _ => {}
            }
        }
    }

    pub(super) fn submit(&mut self, object: ObjectId, change: ObjectChange) -> Result<(), Refused> {
        self.tickets += 1;
        let objects = vec![ObjectChanges { object, changes: vec![change] }];
        let scope = SpgId::whole(PgId::new(1, (self.tickets % 16) as u32));
        let taken =
            self.store.submit(Transaction { cold: false, scope, hold: None, objects, meta: vec![] }, Ticket(self.tickets));
        self.tickets -= u64::from(taken.is_err());
        if self.tickets.is_multiple_of(8) {
            self.round();
            while self.store.congested() {
                self.round();
            }
        }
        taken
    }

    /// Writes objects of so many blocks from number `from` on while the store has more than `percent` of its space left.
    fn fill_to(&mut self, percent: u64, from: u64, blocks: usize) -> u64 {
        let mut n = from;
        while self.store.space().available * 100 > self.store.space().total * percent {
            match self.submit(object(n), ObjectChange::Write(0, filler(blocks))) {
                Ok(()) => n += 1,
                Err(why) => panic!("{why:?} with {:?} left, {:?}", self.store.space(), self.store.failure()),
            }
        }
        n
    }

    /// Makes checkpoints until nothing is left for one.
    pub(super) fn checkpoint(&mut self) {
        while self.store.checkpoint.is_some() || self.store.compact() {
            self.one_checkpoint();
        }
    }

    /// Makes one, and looks at what it left before anything else goes on.
    fn one_checkpoint_of(&mut self) {
        let before = self.store.counters().checkpoints;
        self.store.compact();
        while self.store.counters().checkpoints == before {
            self.round();
        }
    }

    fn one_checkpoint(&mut self) {
        let before = self.store.counters().checkpoints;
        for _ in 0..1_000_000 {
            self.round();
            if self.store.counters().checkpoints > before && self.store.checkpoint.is_none() {
                break;
            }
        }
        assert_eq!(self.store.failure(), None);
        assert!(self.store.counters().checkpoints > before, "a checkpoint ends");
    }

    /// Kills the store and opens it again.
    pub(super) fn reopen(&mut self) {
        self.queue.clear();
        self.store = Store::open(self.config.clone());
        self.open_up();
    }

    pub(super) fn read<T>(&mut self, f: impl Fn(&Store, Hold) -> Read<T>) -> T {
        let hold = Hold(77);
        loop {
            match f(&self.store, hold) {
                Ok(value) => {
                    self.store.release(hold);
                    return value;
                }
                Err(Unread::Missing(wish)) => {
                    self.store.fetch(hold, wish);
                    self.round();
                }
                Err(damaged) => panic!("{damaged:?}"),
            }
        }
    }

    /// Free runs by length: how many of 1, 2 to 3, 4 to 7 blocks and so on.
    fn free_runs(&self) -> BTreeMap<u32, u64> {
        let alloc = self.store.space.alloc();
        let (mut out, mut n) = (BTreeMap::new(), 0u64);
        for at in 0..=alloc.stable.len() {
            if at < alloc.stable.len() && !alloc.is_busy(at) {
                n += 1;
            } else if n > 0 {
                *out.entry(n.ilog2()).or_default() += 1;
                n = 0;
            }
        }
        out
    }

    /// Checks the stopped store's index as the checker does.
    pub(super) fn check(&mut self) {
        self.store.self_check(true).expect("what always holds");
        struct Disk<'a>(&'a mut Sparse);
        impl fsck::BlockRead for Disk<'_> {
            fn read(&mut self, _: node::DeviceId, offset: u64, buf: &mut [u8]) -> Result<(), String> {
                match self.0.answer(DiskOp::Read { offset, buf: node::Buf::zeroed(buf.len()) }) {
                    Ok(DiskOutput::Read(bytes)) => {
                        buf.copy_from_slice(&bytes);
                        Ok(())
                    }
                    other => Err(format!("{other:?}")),
                }
            }
            fn len(&mut self, _: node::DeviceId) -> u64 {
                match self.0.answer(DiskOp::Stat) {
                    Ok(DiskOutput::Stat(stat)) => stat.len,
                    _ => 0,
                }
            }
            fn capacity(&mut self, _: node::DeviceId) -> u64 {
                match self.0.answer(DiskOp::Stat) {
                    Ok(DiskOutput::Stat(stat)) => stat.capacity,
                    _ => 0,
                }
            }
        }
        let report = fsck::check(&mut Disk(&mut self.disk), &Config::default(), false);
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
}

/// Fills a disk with objects of so many blocks and removes every second: half of it is free, in runs that are not longer.
fn every_second_object(version: u32, blocks: usize) -> (Rig, u64) {
    let mut rig = Rig::new(small(), 64 << 20);
    rig.store.sb.version = version;
    let n = rig.fill_to(7, 0, blocks);
    rig.checkpoint();
    for i in (0..n).step_by(2) {
        rig.submit(object(i), ObjectChange::Remove).expect("removals");
    }
    rig.checkpoint();
    rig.checkpoint();
    (rig, n)
}

#[test]
fn a_half_empty_disk_whose_free_blocks_have_no_neighbours_goes_on() {
    let (mut rig, n) = every_second_object(VERSION, 1);
    // Small objects again, as long as a twenty-fifth of the disk is free.
    rig.fill_to(4, 1_000_000, 1);
    // Nearly all that is free has no neighbour.
    let free = rig.free_runs();
    assert!(free[&0] > 10 * free.range(1..).map(|(_, n)| n).sum::<u64>(), "{free:?}");
    assert_eq!(rig.store.failure(), None);
    rig.checkpoint();
    rig.check();
    rig.reopen();
    rig.checkpoint();
    rig.check();
    assert_eq!(rig.read(|s, hold| s.read(hold, &object(1), 0, BLOCK as u64)).len(), BLOCK);
    // All of it can go, and then there is room for long runs again.
    for i in (1..n).step_by(2) {
        rig.submit(object(i), ObjectChange::Remove).expect("removals always have room");
    }
    rig.checkpoint();
    rig.checkpoint();
    assert!(rig.store.space().available * 100 > rig.store.space().total * 40, "{:?}", rig.store.space());
    rig.check();
}

#[test]
fn long_keys_and_values_need_no_neighbours() {
    let (mut rig, _) = every_second_object(VERSION, 1);
    rig.fill_to(20, 1_000_000, 1);
    rig.checkpoint();
    assert_eq!(rig.free_runs().range(6..).next(), None, "no run of 64 blocks is free");
    let value = |i: u64, len: usize| Bytes::from(vec![i as u8; len]);
    let lens = [64 << 10, 300 << 10, 900 << 10];
    for (i, len) in (0..).zip(lens) {
        rig.submit(object(2 * i + 1), ObjectChange::SetXattr("long".into(), value(i, len))).expect("room");
        rig.checkpoint();
    }
    // Inner pages get long with keys of which one is not like the next.
    for i in 0..6u64 {
        let key = Bytes::from([vec![b'a' + i as u8; 40 << 10], i.to_be_bytes().to_vec()].concat());
        rig.submit(object(9), ObjectChange::OmapSet(vec![(key, value(i, 10))])).expect("room");
    }
    rig.checkpoint();
    rig.check();
    for _ in 0..2 {
        rig.store.drop_caches();
        for (i, len) in (0..).zip(lens) {
            let found = rig.read(|s, hold| s.xattr(hold, &object(2 * i + 1), b"long"));
            assert_eq!(found, Some(value(i, len)));
        }
        rig.reopen();
    }
    for i in 0..lens.len() as u64 {
        rig.submit(object(2 * i + 1), ObjectChange::Remove).expect("removals");
    }
    rig.checkpoint();
    rig.checkpoint();
    rig.check();
}

#[test]
fn an_image_overwritten_at_random_takes_a_long_attribute() {
    let mut rig = Rig::new(Config { journal_bytes: 24 << 20, ..small() }, 1 << 30);
    let objects = (1u64 << 30) * 80 / 100 / (4 << 20);
    for n in 0..objects {
        rig.submit(object(n), ObjectChange::Write(0, filler(1024))).expect("room");
    }
    rig.checkpoint();
    let (mut x, writes) = (7, 3 * rig.store.space().available / BLOCK as u64);
    for _ in 0..writes {
        let (o, at) = (dice(&mut x) % objects, dice(&mut x) % 1024 * BLOCK as u64);
        rig.submit(object(o), ObjectChange::Write(at, filler(1))).expect("room");
    }
    rig.checkpoint();
    rig.checkpoint();
    rig.submit(object(1), ObjectChange::SetXattr("long".into(), Bytes::from(vec![7u8; 64 << 10]))).expect("room");
    rig.checkpoint();
    rig.reopen();
    assert_eq!(rig.read(|s, hold| s.xattr(hold, &object(1), b"long")).map(|v| v.len()), Some(64 << 10));
    rig.check();
}

#[test]
fn a_store_of_version_2_that_found_no_place_for_a_page_opens_and_goes_on() {
    // Runs of four blocks are enough for its usual pages.
    let (mut rig, _) = every_second_object(PLAIN, 4);
    rig.fill_to(35, 1_000_000, 4);
    rig.checkpoint();
    let value = Bytes::from(vec![7u8; 400 << 10]);
    assert!(rig.free_runs().keys().all(|log| 1 << log < value.len() / BLOCK / 2), "{:?}", rig.free_runs());
    assert!(rig.store.tree_pages().is_ok_and(|pages| pages.iter().all(|run| run.1 > 1)), "no page is in pieces");
    // It is in the journal. The old program could not bring it into the index, however often it was started.
    rig.submit(object(3), ObjectChange::SetXattr("long".into(), value.clone())).expect("room");
    while rig.committed < rig.tickets {
        rig.round();
    }
    rig.reopen();
    assert_eq!(rig.store.sb.version, PLAIN);
    rig.checkpoint();
    assert_eq!(rig.store.sb.version, PIECES);
    rig.reopen();
    assert_eq!(rig.read(|s, hold| s.xattr(hold, &object(3), b"long")), Some(value));
    rig.check();
}

#[test]
fn a_checkpoint_without_free_blocks_waits_and_goes_on_when_there_are_some() {
    for spare in [0, 1, 5, 40] {
        let mut rig = Rig::new(small(), 64 << 20);
        let n = rig.fill_to(40, 0, 1);
        rig.checkpoint();
        for i in 0..n {
            rig.submit(object(i), ObjectChange::SetXattr("a".into(), Bytes::from(vec![1; 100]))).expect("room");
        }
        // Somebody holds nearly all that is free, more than the reserve allows for.
        let mut held = Vec::new();
        while rig.store.space.free() > spare + rig.store.space.promised() {
            let most = rig.store.space.free() - spare - rig.store.space.promised();
            held.extend(rig.store.space.borrow_for_test(most));
        }
        rig.store.compact();
        for _ in 0..2000 {
            rig.round();
        }
        let c = rig.store.checkpoint.as_ref().expect("it waits");
        assert!(c.starved && rig.store.failure().is_none(), "spare {spare}");
        assert_eq!(rig.submit(object(n), ObjectChange::Write(0, filler(1))), Err(Refused::NoSpace));
        assert_eq!(rig.read(|s, hold| s.read(hold, &object(1), 0, BLOCK as u64)).len(), BLOCK);
        let waits = rig.store.deadline();
        assert!(waits > Mono(rig.now) && waits <= Mono(rig.now + 1_000_000_000), "it neither spins nor sleeps for ever");
        held.into_iter().for_each(|run| rig.store.space.give_back_for_test(run));
        rig.now += 2_000_000_000;
        rig.checkpoint();
        rig.check();
        rig.submit(object(n), ObjectChange::Write(0, filler(1))).expect("room again");
    }
}

#[test]
fn leaves_that_lost_most_of_their_keys_join() {
    let mut rig = Rig::new(small(), 1 << 30);
    let info = Bytes::from(vec![3u8; 200]);
    let n = 20_000;
    for i in 0..n {
        rig.submit(object(i), ObjectChange::SetInfo(info.clone())).expect("room");
    }
    rig.checkpoint();
    let full = rig.store.space.pages();
    let (mut x, mut left) = (5, 0);
    for i in 0..n {
        if dice(&mut x).is_multiple_of(20) {
            left += 1;
        } else {
            rig.submit(object(i), ObjectChange::Remove).expect("removals");
        }
    }
    rig.checkpoint();
    let pages = rig.store.space.pages();
    assert!(pages * n < 3 * full * left, "{left} of {n} objects keep {pages} of {full} blocks of pages");
    rig.check();
}

/// A disk of 1 GiB with an image that fills so many percent of it and was overwritten at random, block by block, until
/// what was free was used so many times.
pub(super) fn an_aged_image(percent: u64, turns: u64) -> (Rig, u64, u64) {
    an_aged_image_of(Config { journal_bytes: 24 << 20, ..small() }, percent, turns)
}

fn an_aged_image_of(config: Config, percent: u64, turns: u64) -> (Rig, u64, u64) {
    let mut rig = Rig::new(config, 1 << 30);
    let objects = (1u64 << 30) * percent / 100 / (4 << 20);
    for n in 0..objects {
        rig.submit(object(n), ObjectChange::Write(0, filler(1024))).expect("room");
    }
    rig.checkpoint();
    let (mut x, writes) = (7, turns * rig.store.space().available / BLOCK as u64);
    for _ in 0..writes {
        let (o, at) = (dice(&mut x) % objects, dice(&mut x) % 1024 * BLOCK as u64);
        rig.submit(object(o), ObjectChange::Write(at, filler(1))).expect("room");
    }
    rig.checkpoint();
    rig.checkpoint();
    (rig, objects, x)
}

#[test]
fn a_large_write_into_an_aged_disk_takes_few_writes() {
    let (mut rig, objects, mut x) = an_aged_image(82, 3);
    let left = rig.store.space().available * 100 / rig.store.space().total;
    assert!((10..15).contains(&left), "{left} % are free");
    for round in 0..8 {
        let n = 1_000_000 + round;
        let before = rig.writes;
        rig.submit(object(n), ObjectChange::Write(0, filler(1024))).expect("room");
        while rig.committed < rig.tickets {
            rig.round();
        }
        let took = rig.writes - before;
        assert!(took <= 16, "4 MiB took {took} writes in round {round}, {:?}", rig.free_runs());
        // And it stays like this: it goes again, and the image is overwritten on.
        rig.submit(object(n), ObjectChange::Remove).expect("removals");
        for _ in 0..2000 {
            let (o, at) = (dice(&mut x) % objects, dice(&mut x) % 1024 * BLOCK as u64);
            rig.submit(object(o), ObjectChange::Write(at, filler(1))).expect("room");
        }
    }
    rig.checkpoint();
    rig.check();
}

#[test]
fn no_round_does_much_when_many_short_runs_go() {
    let (mut rig, objects, _) = an_aged_image(80, 1);
    for n in 0..objects {
        rig.submit(object(n), ObjectChange::Remove).expect("removals");
    }
    rig.store.compact();
    let (mut most_work, mut most_runs, mut before) = (0, 0, rig.store.space.free());
    while rig.store.compact() || rig.store.checkpoint.is_some() || !rig.store.space.is_settled() {
        rig.round();
        most_work = most_work.max(rig.store.checkpoint.as_ref().map_or(0, |c| c.work));
        most_runs = most_runs.max(rig.store.space.free().saturating_sub(before));
        before = rig.store.space.free();
    }
    assert!(rig.store.space().available * 100 > rig.store.space().total * 90, "all of it is free");
    // A round ends with the step that uses its budget up. Most runs have few blocks; a fifth of the disk was free before.
    assert!(most_work < 100_000, "{most_work} units of work in one round");
    assert!(most_runs < 100_000, "{most_runs} blocks in one round");
    rig.check();
}

#[test]
fn removals_between_two_checkpoints_have_a_bound() {
    let config = Config { memory: Config::LEAST_MEMORY, ..small() };
    let shares = config.shares();
    let (mut rig, objects, _) = an_aged_image_of(Config { journal_bytes: 24 << 20, ..config }, 60, 1);
    assert!(objects * 1024 > 8 * shares.gone, "there is more than one checkpoint may take away");
    // All at once: nobody looks whether the store is congested.
    for n in 0..objects {
        let objects = vec![ObjectChanges { object: object(n), changes: vec![ObjectChange::Remove] }];
        let scope = SpgId::whole(PgId::new(1, 0));
        rig.tickets += 1;
        let removal = Transaction { cold: false, scope, hold: None, objects, meta: vec![] };
        rig.store.submit(removal, Ticket(rig.tickets)).expect("removals");
    }
    let (mut counted, before) = (0, rig.store.counters().checkpoints);
    while rig.committed < rig.tickets {
        let gone = rig.store.overlay.active().gone;
        assert!(gone < shares.gone + 1024, "{gone} blocks are to go in one checkpoint, {} may", shares.gone);
        counted = counted.max(rig.store.counted());
        rig.round();
    }
    rig.checkpoint();
    assert!(rig.store.counters().checkpoints > before + objects * 1024 / (shares.gone + 1024), "several checkpoints");
    assert!(counted > 0 && counted < shares.delta / 2, "differences took {counted} bytes of {}", shares.delta / 2);
    assert!(rig.store.space().available * 100 > rig.store.space().total * 90, "all of it is free");
    rig.check();
}

#[test]
fn transactions_that_waited_go_on_in_several_turns() {
    const CLONES: u64 = 64;
    let mut rig = Rig::new(Config { journal_bytes: 24 << 20, ..small() }, 1 << 30);
    for n in 0..CLONES {
        rig.submit(object(n), ObjectChange::Write(0, filler(1024))).expect("room");
    }
    rig.checkpoint();
    rig.reopen();
    // Nothing of the index is in memory. Each is of a group of its own, and needs some pages.
    for n in 0..CLONES {
        let objects = vec![ObjectChanges { object: object(1000 + n), changes: vec![ObjectChange::CloneOf(object(n))] }];
        let scope = SpgId::whole(PgId::new(2, n as u32));
        rig.tickets += 1;
        let clone = Transaction { cold: false, scope, hold: None, objects, meta: vec![] };
        rig.store.submit(clone, Ticket(rig.tickets)).expect("room");
    }
    let (mut most, mut left, mut turns) = (0, rig.store.waiting.len(), 0);
    assert!(left > CLONES as usize / 2, "{left} wait");
    while left > 0 {
        rig.round();
        let now = rig.store.waiting.len();
        (most, turns) = (most.max(left - now), turns + usize::from(now < left));
        assert!(!rig.store.waiting.more || rig.store.deadline() == Mono(0), "it goes on at once");
        left = now;
    }
    // A clone has 1024 blocks, a turn may do 16,384 units of work.
    assert!(most <= 18 && turns >= 3, "{most} clones in one turn, {turns} turns");
    rig.checkpoint();
    rig.check();
}

#[test]
fn what_a_checkpoint_took_in_is_dropped_bit_by_bit() {
    let mut rig = Rig::new(small(), 64 << 20);
    for n in 0..2000 {
        rig.submit(object(n), ObjectChange::SetInfo(Bytes::from(vec![3u8; 20]))).expect("room");
    }
    rig.one_checkpoint_of();
    let held = rig.store.memory().delta;
    assert!(held > 2000 * 100, "{held} bytes are still held");
    let (mut turns, checkpoints) = (0, rig.store.counters().checkpoints);
    rig.submit(object(1), ObjectChange::Remove).expect("room");
    rig.store.compact();
    while !rig.store.shed.is_empty() {
        assert_eq!(rig.store.deadline(), Mono(0), "it goes on at once");
        assert!(rig.store.checkpoint.is_none(), "the next one waits");
        rig.round();
        turns += 1;
    }
    assert!(turns > 2000 / 64 / 2, "{turns} turns");
    assert!(rig.store.memory().delta < 10_000);
    rig.one_checkpoint();
    assert!(rig.store.counters().checkpoints > checkpoints);
    rig.check();
}

#[test]
fn one_removal_may_rewrite_the_table_of_all_shared_blocks() {
    let (mut rig, objects, mut x) = an_aged_image(40, 2);
    let clone = |n: u64| object(1_000_000 + n);
    for n in 0..objects {
        rig.submit(clone(n), ObjectChange::CloneOf(object(n))).expect("room");
    }
    rig.checkpoint();
    for _ in 0..40_000 {
        let (o, at) = (dice(&mut x) % objects, dice(&mut x) % 1024 * BLOCK as u64);
        rig.submit(object(o), ObjectChange::Write(at, filler(1))).expect("room");
    }
    rig.checkpoint();
    rig.checkpoint();
    let shared = rig.store.space.shared_pages();
    rig.reopen();
    assert_eq!(rig.store.space.shared_pages(), shared);
    rig.submit(clone(7), ObjectChange::Remove).expect("removals");
    while rig.committed < rig.tickets {
        rig.round();
    }
    rig.store.compact();
    let (mut most, mut reserved, before) = (0, 0, rig.store.counters().checkpoints);
    while rig.store.counters().checkpoints == before {
        rig.round();
        rig.store.self_check(false).expect("what is kept back is enough");
        let c = rig.store.checkpoint.as_ref();
        (most, reserved) = (most.max(c.map_or(0, |c| c.pages_taken)), reserved.max(c.map_or(0, |c| c.reserved)));
    }
    // Its few changes alone are not worth so many pages.
    assert!(most > 60, "{most} blocks of pages, {reserved} kept back");
    assert!(reserved < 6 * most, "{most} blocks of pages, {reserved} kept back");
    rig.checkpoint();
    rig.check();
}

#[test]
fn a_store_that_has_used_up_its_records_says_so() {
    let mut rig = Rig::new(small(), 64 << 20);
    let mut sb = rig.store.sb.clone();
    (sb.generation, sb.next_seq) = (sb.generation + 1, MOST_SEQ - (1 << 20) - 2);
    let data = sb.encode().freeze().into();
    rig.disk.answer(DiskOp::Write { offset: sb.slot() * BLOCK as u64, data, durable: true }).expect("a place");
    rig.reopen();
    for n in 2..4 {
        rig.submit(object(n), ObjectChange::Write(0, filler(1))).expect("room");
    }
    assert_eq!(rig.submit(object(4), ObjectChange::Write(0, filler(1))), Err(Refused::Stopped));
    assert!(rig.store.failure().is_some_and(|why| why.contains("make this OSD anew")), "{:?}", rig.store.failure());
}
