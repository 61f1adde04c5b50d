//! What the store itself costs, over a disk that is plain memory: commits, and the index with a million objects.
#![allow(missing_docs)]
#![allow(clippy::disallowed_methods, reason = "a measurement needs a clock")]

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use node::{DiskDone, DiskError, DiskOp, DiskOutput, DiskStat, Mono, Now, Output, Outputs};
use objectstore::{Event, Hold, MetaChange, Mutation, ObjectChange, ObjectStore, Ticket, Transaction, Unread};
use std::hint::black_box;
use std::time::{Duration, Instant};
use store::bench::{Changes, key, look_up};
use store::{Config, Store};
use types::{HObject, ObjectId, PgId, SnapId, SpgId};

const CAPACITY: usize = 4 << 30;
const KEYS: u64 = 1_000_000;
const GROUP: u64 = 16;

/// A disk of plain memory: what it costs is a copy.
struct Memory(Vec<u8>);

impl Memory {
    fn answer(&mut self, op: DiskOp) -> Result<DiskOutput, DiskError> {
        Ok(match op {
            DiskOp::Read { offset, mut buf } => {
                let n = buf.len();
                buf.copy_from_slice(&self.0[offset as usize..][..n]);
                DiskOutput::Read(buf)
            }
            DiskOp::Write { offset, data, .. } => {
                data.copy_to(&mut self.0[offset as usize..][..data.len()]);
                DiskOutput::Done
            }
            DiskOp::Flush | DiskOp::Trim { .. } => DiskOutput::Done,
            DiskOp::Stat => DiskOutput::Stat(DiskStat { len: CAPACITY as u64, capacity: CAPACITY as u64, host_free: u64::MAX }),
        })
    }
}

/// A store with its disk.
struct World {
    store: Store,
    disk: Memory,
    now: u64,
    submitted: u64,
    committed: u64,
}

impl World {
    fn new(memory: u64) -> Self {
        let config = Config { uuid: [1; 16], memory, ..Config::default() };
        let disk = Memory(vec![0; CAPACITY]);
        let mut world = Self { store: Store::create(config), disk, now: 0, submitted: 0, committed: 0 };
        while !world.store.ready() {
            world.round();
        }
        world
    }

    /// A round of the driver: the store's group is closed, the disk answers at once.
    fn round(&mut self) {
        self.now += 100_000;
        let now = Now { mono: Mono(self.now), ..Now::default() };
        let mut out = Outputs::default();
        self.store.turn(now, &mut out);
        for output in out.0 {
            if let Output::Disk(request) = output {
                let result = self.disk.answer(request.op);
                self.store.disk_done(now, DiskDone { token: request.token, result });
            }
        }
        while let Some(event) = self.store.poll_event() {
            self.committed += u64::from(matches!(event, Event::Committed(_)));
        }
    }

    fn submit(&mut self, scope: u32, mutations: Vec<Mutation>) {
        self.submitted += 1;
        let transaction: Transaction = mutations.into_iter().collect();
        let transaction = transaction.in_scope(SpgId::whole(PgId::new(1, scope)));
        self.store.submit(transaction, Ticket(self.submitted)).expect("room");
    }

    fn settle(&mut self) {
        while self.committed < self.submitted || self.store.congested() {
            self.round();
        }
    }

    /// Looks a key up; pages that are not in memory are fetched.
    fn fetch(&mut self, key: &[u8]) -> Option<Bytes> {
        loop {
            match look_up(&self.store, key) {
                Ok(value) => return value,
                Err(Unread::Missing(wish)) => {
                    self.store.fetch(Hold(1), wish);
                    self.round();
                    self.round();
                    self.store.release(Hold(1));
                }
                Err(Unread::Damaged(damage)) => panic!("{damage:?}"),
            }
        }
    }
}

fn object(n: u64) -> ObjectId {
    let name = Bytes::from(format!("rbd_data.10226b8b4567.{n:016x}"));
    let hash = types::hash::rjenkins(&name);
    HObject { pool: 1, hash, nspace: Bytes::new(), key: Bytes::new(), name, snap: SnapId::HEAD, max: false }.into()
}

/// A walk through all residues of `KEYS`, far from sequential.
fn scattered(n: u64) -> u64 {
    n.wrapping_mul(611_953) % KEYS
}

/// One write as a group makes it: data, the object's record, a log entry, an old one gone.
fn record(n: u64, object: ObjectId, data: &Bytes) -> Vec<Mutation> {
    let log = |n: u64| Bytes::from(format!("log {n:016x}"));
    vec![
        Mutation::of(object.clone(), ObjectChange::Write(0, data.clone().into())),
        Mutation::of(object, ObjectChange::SetInfo(Bytes::from(vec![n as u8; 120]))),
        MetaChange::Set(log(n), Bytes::from(vec![n as u8; 180])).into(),
        MetaChange::Remove(log(n.saturating_sub(3000))).into(),
    ]
}

fn commits(c: &mut Criterion) {
    let mut world = World::new(192 << 20);
    let data = Bytes::from(vec![7u8; 4096]);
    let objects: Vec<ObjectId> = (0..20_000).map(object).collect();
    let mut n = 0;
    c.bench_function("store/commit of 4 KiB, 16 in a group", |b| {
        b.iter_custom(|records| {
            let began = Instant::now();
            for i in 0..records {
                n += 1;
                let object = &objects[(n * 7919 % 20_000) as usize];
                world.submit(object.hash % 32, record(n, object.clone(), &data));
                if i % GROUP == GROUP - 1 {
                    world.settle();
                }
            }
            world.settle();
            began.elapsed()
        });
    });
    assert_eq!(world.committed, n);
}

fn index(c: &mut Criterion) {
    let keys: Vec<Bytes> = (0..KEYS).map(|n| key(&object(n))).collect();
    let value = Bytes::from(vec![3u8; 64]);
    // What is measured is the insertion of all of them, from the first to the last.
    c.bench_function("index/insert into changes, up to 10^6", |b| {
        b.iter_custom(|wanted| {
            let began = Instant::now();
            let mut changes = Changes::default();
            keys.iter().for_each(|key| changes.put(key.clone(), value.clone()));
            let took = began.elapsed();
            assert_eq!(changes.len() as u64, KEYS);
            took.mul_f64(wanted as f64 / KEYS as f64)
        });
    });
    let mut changes = Changes::default();
    keys.iter().for_each(|key| changes.put(key.clone(), value.clone()));
    let mut n = 0;
    let mut next = || {
        n += 1;
        &keys[scattered(n) as usize]
    };
    c.bench_function("index/lookup in 10^6 changes", |b| b.iter(|| changes.get(black_box(next())).is_some()));
}

fn tree(c: &mut Criterion) {
    const EACH: u64 = 50;
    // Memory for all pages.
    let mut world = World::new(2 << 30);
    for first in (0..KEYS).step_by(EACH as usize) {
        let objects = (first..first + EACH).map(object);
        let info = Bytes::from(vec![first as u8; 120]);
        world.submit(0, objects.map(|object| Mutation::of(object, ObjectChange::SetInfo(info.clone()))).collect());
        if first % (EACH * 4) == 0 {
            world.settle();
        }
    }
    world.settle();
    store::bench::want_checkpoint(&mut world.store);
    while !store::bench::is_checkpointed(&world.store) {
        world.round();
    }
    let keys: Vec<Bytes> = (0..KEYS).map(|n| key(&object(n))).collect();
    for key in &keys {
        assert!(world.fetch(key).is_some(), "it was put there");
    }
    let before = world.store.counters();
    let mut n = 0;
    c.bench_function("index/lookup in pages of 10^6, cached", |b| {
        b.iter(|| {
            n += 1;
            look_up(&world.store, black_box(&keys[scattered(n) as usize])).expect("in memory").is_some()
        });
    });
    assert_eq!(world.store.counters().page_misses, before.page_misses, "all pages are in memory");
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2)).sample_size(20);
    targets = commits, index, tree
}
criterion_main!(benches);
