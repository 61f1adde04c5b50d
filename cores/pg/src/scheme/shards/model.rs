//! Changes and reads over shards, against an object that is a sequence of bytes.

use super::Shards;
use super::read::Eye;
use super::tests::shards;
use crate::info::ObjectInfo;
use crate::pieces::Pieces;
use bytes::Bytes;
use objectstore::memory::MemStore;
use objectstore::{Hold, ObjectChange, ObjectChanges, ObjectStore, Read, Ticket, Transaction, Unread, View};
use types::{EVersion, HObject, Locator, ObjectId, Rope, ShardId, SnapId};

const HOLD: Hold = Hold(1);

struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn bytes(&mut self, len: u64) -> Vec<u8> {
        (0..len).map(|_| u8::try_from(self.below(255)).expect("a byte") + 1).collect()
    }
}

/// One store for all shards: their names tell them apart. Operations run where shard `me` is.
struct World {
    shards: Shards,
    store: MemStore,
    me: usize,
    version: u64,
    /// Wants of the last run that were answered.
    wanted: u64,
}

fn head(name: &'static str) -> HObject {
    HObject::head(Bytes::from_static(name.as_bytes()), &Locator::pool(1))
}

impl World {
    fn new(k: usize, m: usize, more: &str, me: usize) -> Self {
        let shards = shards(k, m, &format!("stripe_unit=4096 {more}"));
        Self { shards, store: MemStore::new(), me, version: 0, wanted: 0 }
    }

    fn at(&self, object: &HObject, shard: usize) -> ObjectId {
        ObjectId::of_shard(object.clone(), ShardId(i8::try_from(shard).expect("few shards")))
    }

    /// Runs until nothing is missing: what is wanted of a shard, that shard answers.
    fn run<T>(&mut self, run: impl Fn(&Shards, &Eye<'_>) -> Read<T>) -> T {
        let mut pieces = Pieces::default();
        self.wanted = 0;
        loop {
            let eye = Eye::new(&self.shards, &self.store, &pieces);
            let done = run(&self.shards, &eye);
            let wants = eye.into_wants();
            match done {
                Ok(done) => return done,
                Err(Unread::Missing(wish)) => assert!(wish.0.is_empty() && !wants.is_empty(), "the store misses nothing"),
                Err(damage) => panic!("{damage:?}"),
            }
            for want in wants {
                assert_ne!(usize::try_from(want.shard.0), Ok(self.me), "what is here is not asked for");
                let at = ObjectId { object: want.object.clone(), shard: want.shard, ..ObjectId::default() };
                let piece = self.shards.piece(&self.store, HOLD, &at, &want).expect("nothing is damaged").expect("it is there");
                self.wanted += want.range.end - want.range.start;
                pieces.add(want, piece);
            }
        }
    }

    /// The record that a change ends with.
    fn record(&mut self, size: u64) -> ObjectChange {
        self.version += 1;
        let version = EVersion::new(1, self.version);
        ObjectChange::SetInfo(ObjectInfo { version, size: Some(size), ..ObjectInfo::default() }.encode())
    }

    fn submit(&mut self, objects: Vec<(HObject, Vec<ObjectChange>)>, whole: bool) {
        let me = self.me;
        let named = |(object, changes)| ObjectChanges { object: self.at(&object, me), changes };
        let objects: Vec<ObjectChanges> = objects.into_iter().map(named).collect();
        let shares = self.run(|shards, eye| shards.share(eye, HOLD, &objects, whole));
        for (n, objects) in shares.into_iter().enumerate() {
            let own = |of: &ObjectChanges| of.object.shard == ShardId(i8::try_from(n).expect("few shards"));
            assert!(objects.iter().all(own), "each shard gets what is its own");
            self.store.rehearse(HOLD, &objects).expect("it can be carried out");
            self.store.submit(Transaction { objects, ..Transaction::default() }, Ticket(self.version)).expect("room");
        }
    }

    fn read(&mut self, object: &HObject, offset: u64, len: u64) -> Vec<u8> {
        let at = self.at(object, self.me);
        self.run(|_, eye| eye.read(HOLD, &at, offset, len)).to_vec()
    }

    /// Shards are as long as they must be, and parities are the code of the data.
    fn check(&mut self, object: &HObject, model: &[u8]) {
        let at = self.at(object, 0);
        let stat = self.store.stat(HOLD, &at).expect("in memory").expect("it is there");
        let known = self.shards.known(&at, &stat.info).expect("a record");
        assert_eq!(known.size, model.len() as u64);
        let geometry = self.shards.geometry(known.chunk);
        let parity = self.shards.length(known.size, known.chunk, self.shards.k());
        let mut data = vec![vec![0u8; parity as usize]; self.shards.k()];
        for (at, byte) in model.iter().enumerate() {
            let (shard, place) = geometry.place(at as u64);
            data[shard][place as usize] = *byte;
        }
        let mut parities = vec![vec![0u8; parity as usize]; self.shards.count() - self.shards.k()];
        let slices: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        self.shards.code.encode(&slices, &mut parities.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
        for (n, right) in data.iter().chain(&parities).enumerate() {
            let at = self.at(object, n);
            let stat = self.store.stat(HOLD, &at).expect("in memory").expect("it is there");
            assert_eq!(stat.size, self.shards.length(known.size, known.chunk, n), "length of shard {n}");
            let got = self.store.read(HOLD, &at, 0, stat.size).expect("in memory").to_vec();
            assert!(got == right[..stat.size as usize], "shard {n} of {object}");
        }
        assert!(self.read(object, 0, u64::MAX) == model, "the object");
    }
}

fn write(at: u64, data: &[u8]) -> ObjectChange {
    ObjectChange::Write(at, Rope::from(data.to_vec()))
}

/// Changes the model as one change does.
fn change_model(model: &mut Vec<u8>, change: &ObjectChange) {
    match change {
        ObjectChange::Write(at, data) => {
            let (at, end) = (*at as usize, *at as usize + data.len());
            model.resize(model.len().max(end), 0);
            data.copy_to(&mut model[at..end]);
        }
        ObjectChange::Zero(at, len) => {
            let end = (*at + *len).min(model.len() as u64) as usize;
            if (*at as usize) < end {
                model[*at as usize..end].fill(0);
            }
        }
        ObjectChange::Truncate(size) => model.resize(*size as usize, 0),
        _ => {}
    }
}

/// Offsets at which something begins or ends, and some others.
fn offset(dice: &mut Dice, size: u64) -> u64 {
    match dice.below(4) {
        0 => dice.below(12) * 4096,
        1 => dice.below(12) * 4096 + dice.below(3),
        2 => size.saturating_sub(dice.below(3)),
        _ => dice.below(40_000),
    }
}

fn length(dice: &mut Dice) -> u64 {
    match dice.below(4) {
        0 => dice.below(6) * 4096,
        1 => dice.below(20),
        2 => dice.below(30_000),
        _ => 1 + dice.below(5000),
    }
}

fn random_changes(k: usize, m: usize, more: &str) {
    for me in [0, k - 1, k] {
        let mut world = World::new(k, m, more, me);
        let (mut dice, mut model) = (Dice(7 + me as u64), Vec::new());
        let object = head("o");
        for step in 0..120 {
            let mut changes = vec![ObjectChange::Create];
            let whole = dice.below(8) == 0;
            if whole {
                let len = length(&mut dice);
                if len < model.len() as u64 {
                    changes.push(ObjectChange::Truncate(0));
                }
                changes.push(write(0, &dice.bytes(len)));
            }
            for _ in 0..=dice.below(3) {
                let (at, len) = (offset(&mut dice, model.len() as u64), length(&mut dice));
                changes.push(match dice.below(8) {
                    0 => ObjectChange::Zero(at, len),
                    1 => ObjectChange::Truncate(at),
                    2 => write(model.len() as u64, &dice.bytes(len)),
                    3 => ObjectChange::Zero(0, len),
                    _ => write(at, &dice.bytes(len)),
                });
            }
            changes.iter().for_each(|change| change_model(&mut model, change));
            changes.push(world.record(model.len() as u64));
            world.submit(vec![(object.clone(), changes)], whole);
            world.check(&object, &model);
            for _ in 0..4 {
                let (at, len) = (offset(&mut dice, model.len() as u64), length(&mut dice));
                let end = (at + len).min(model.len() as u64);
                let right = model.get(at as usize..end as usize).unwrap_or_default();
                assert!(world.read(&object, at, len) == right, "step {step}: {len} bytes at {at} of {}", model.len());
            }
        }
    }
}

#[test]
fn shards_of_2_1_are_their_object() {
    random_changes(2, 1, "");
}

#[test]
fn shards_of_4_2_are_their_object() {
    random_changes(4, 2, "");
}

#[test]
fn shards_of_3_2_are_their_object() {
    random_changes(3, 2, "");
}

#[test]
fn shards_of_a_code_of_packets_are_their_object() {
    random_changes(2, 2, "technique=cauchy_good packetsize=128");
    random_changes(3, 2, "technique=cauchy_good packetsize=128");
}

#[test]
fn every_range_is_read_from_the_shards_that_hold_it_and_no_others() {
    for (k, m) in [(2, 1), (4, 2), (3, 2)] {
        let mut world = World::new(k, m, "", 0);
        let size = (3 * k as u64 + 1) * 4096 + 77;
        let (object, model) = (head("o"), Dice(3).bytes(size));
        let record = world.record(size);
        world.submit(vec![(object.clone(), vec![write(0, &model), record])], true);
        assert_eq!(world.wanted, 0, "a new object needs nothing of others");
        let edges = (0..=size / 4096 + 1).flat_map(|chunk| [chunk * 4096, chunk * 4096 + 1, chunk * 4096 + 4095]);
        let edges: Vec<u64> = edges.chain([size - 1, size, size + 5]).collect();
        for from in &edges {
            for to in edges.iter().filter(|to| **to >= *from) {
                let end = (*to).min(size).max(*from);
                let right = model.get(*from as usize..end as usize).unwrap_or_default();
                assert!(world.read(&object, *from, to - from) == right, "{from}..{to} of {k}+{m}");
                let elsewhere = (*from..end).step_by(1).filter(|at| world.shards.geometry(4096).place(*at).0 != 0).count();
                assert_eq!(world.wanted, elsewhere as u64, "{from}..{to}: what is read of others");
            }
        }
    }
}

#[test]
fn whole_rows_and_new_rows_need_no_read() {
    let (k, row) = (4, 4 * 4096);
    let mut world = World::new(k, 2, "", 0);
    let (object, mut model) = (head("o"), Vec::new());
    // Where it is written, how much, and what is read of others for that.
    for (at, len, wants) in [
        (0, 3 * row, 0),
        (row, row, 0),
        // Behind the end, in a row of its own.
        (3 * row, 100, 0),
        (3 * row + 100, 200, 0),
        // In the same row: what others have at the same places, of which the first is here, and the second has nothing.
        (3 * row + 2 * 4096, 300, 0),
        (3 * row + 4096, 350, 300),
        // A part of a row that is there.
        (row + 4096, 50, 2 * 50),
        (10, 50, 3 * 50),
        // Rows that are whole, and a part of one.
        (0, row + 50, 3 * 50),
    ] {
        let data = Dice(at + len).bytes(len);
        change_model(&mut model, &write(at, &data));
        let record = world.record(model.len() as u64);
        world.submit(vec![(object.clone(), vec![write(at, &data), record])], false);
        assert_eq!(world.wanted, wants, "{len} bytes at {at}");
        world.check(&object, &model);
    }
}

#[test]
fn clones_and_the_way_back_are_the_same_on_all_shards() {
    let mut world = World::new(3, 2, "", 1);
    let (object, clone) = (head("o"), head("o").at(SnapId(4)));
    let old = Dice(1).bytes(30_000);
    let record = world.record(30_000);
    world.submit(vec![(object.clone(), vec![write(0, &old), record])], true);
    // A clone, and a change of the head in the same transaction.
    let mut new = old.clone();
    let data = Dice(2).bytes(500);
    change_model(&mut new, &write(9000, &data));
    let (of_clone, of_head) = (world.record(30_000), world.record(30_000));
    let cloned = ObjectChange::CloneOf(world.at(&object, 1));
    world.submit(vec![(clone.clone(), vec![cloned, of_clone]), (object.clone(), vec![write(9000, &data), of_head])], false);
    world.check(&clone, &old);
    world.check(&object, &new);
    // Back, with something over it.
    let back = ObjectChange::CloneOf(world.at(&clone, 1));
    let mut again = old.clone();
    [ObjectChange::Truncate(20_000), write(100, b"abc")].iter().for_each(|change| change_model(&mut again, change));
    let record = world.record(20_000);
    world.submit(vec![(object.clone(), vec![back, ObjectChange::Truncate(20_000), write(100, b"abc"), record])], false);
    world.check(&object, &again);
    world.check(&clone, &old);
    // Both go.
    world.submit(vec![(clone.clone(), vec![ObjectChange::Remove]), (object.clone(), vec![ObjectChange::Remove])], false);
    assert_eq!(world.store.objects().count(), 0);
}

#[test]
fn a_shard_that_is_not_what_its_record_says_is_damaged() {
    let mut world = World::new(2, 1, "", 0);
    let (object, model) = (head("o"), Dice(1).bytes(10_000));
    let record = world.record(10_000);
    world.submit(vec![(object.clone(), vec![write(0, &model), record])], true);
    let (own, other) = (world.at(&object, 0), world.at(&object, 1));
    let stat = world.store.stat(HOLD, &other).expect("in memory").expect("it is there");
    let known = world.shards.known(&other, &stat.info).expect("a record");
    let want = |version| crate::pieces::Want { object: other.object.clone(), version, shard: ShardId(1), range: 0..4096 };
    let ask = |world: &World, version| world.shards.piece(&world.store, HOLD, &other, &want(version));
    assert_eq!(ask(&world, known.version).map(|piece| piece.map(|piece| piece.len())), Ok(Some(4096)));
    assert_eq!(ask(&world, EVersion::new(1, 77)), Ok(None), "another version");
    // Both get shorter, and their records stay.
    for at in [&own, &other] {
        let objects = vec![ObjectChanges { object: at.clone(), changes: vec![ObjectChange::Truncate(100)] }];
        world.store.submit(Transaction { objects, ..Transaction::default() }, Ticket(99)).expect("room");
    }
    assert!(matches!(ask(&world, known.version), Err(Unread::Damaged(_))));
    let pieces = Pieces::default();
    let eye = Eye::new(&world.shards, &world.store, &pieces);
    assert!(matches!(eye.read(HOLD, &own, 0, 10), Err(Unread::Damaged(_))));
    assert!(matches!(eye.stat(HOLD, &own), Err(Unread::Damaged(_))));
}
