//! What the store itself costs, with a disk that costs nothing. `cargo test --release -p store -- --ignored speed --nocapture`

use crate::{Config, Store};
use bytes::Bytes;
use node::{DiskDone, DiskError, DiskOp, DiskOutput, DiskStat, Mono, Now, Output, Outputs};
use objectstore::*;
use types::{HObject, ObjectId, PgId, SnapId, SpgId};

const CAPACITY: usize = 6 << 30;

/// A disk of plain memory: what it costs is a copy. Like a file, it ends where the last write did.
struct Memory {
    bytes: Vec<u8>,
    len: u64,
}

impl Memory {
    fn answer(&mut self, op: DiskOp) -> Result<DiskOutput, DiskError> {
        Ok(match op {
            DiskOp::Read { offset, mut buf } => {
                let n = buf.len();
                buf.copy_from_slice(&self.bytes[offset as usize..][..n]);
                DiskOutput::Read(buf)
            }
            DiskOp::Write { offset, data, .. } => {
                data.copy_to(&mut self.bytes[offset as usize..][..data.len()]);
                self.len = self.len.max(offset + data.len() as u64);
                DiskOutput::Done
            }
            DiskOp::Flush | DiskOp::Trim { .. } => DiskOutput::Done,
            DiskOp::Stat => DiskOutput::Stat(DiskStat { len: self.len, capacity: CAPACITY as u64, host_free: u64::MAX }),
        })
    }
}

/// Processor time of this thread, in seconds; 0 where the system does not tell.
fn processor() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse::<f64>().ok()).unwrap_or_default() / 1e9
}

struct Bench {
    store: Store,
    disk: Memory,
    now: u64,
    committed: u64,
    /// Blocks of each write ahead.
    ahead: Vec<u32>,
}

impl Bench {
    /// A new store that is ready.
    fn new(config: Config) -> Self {
        let disk = Memory { bytes: vec![0; CAPACITY], len: 0 };
        let mut bench = Self { store: Store::create(config), disk, now: 0, committed: 0, ahead: Vec::new() };
        while !bench.store.ready() {
            bench.round();
        }
        bench
    }

    fn round(&mut self) {
        self.now += 100_000;
        let now = Now { mono: Mono(self.now), ..Now::default() };
        let mut out = Outputs::default();
        self.store.turn(now, &mut out);
        for output in out.0 {
            if let Output::Disk(request) = output {
                self.ahead.extend(self.store.io.ahead(request.token).map(|run| run.1));
                let result = self.disk.answer(request.op);
                self.store.disk_done(now, DiskDone { token: request.token, result });
            }
        }
        while let Some(event) = self.store.poll_event() {
            self.committed += u64::from(matches!(event, Event::Committed(_)));
        }
    }

    fn measure(&mut self, what: &str, ops: u64, batch: u64, mut op: impl FnMut(&mut Store, u64)) {
        let (began, before) = (processor(), self.store.counters());
        for n in 0..ops {
            op(&mut self.store, n);
            if n % batch == batch - 1 {
                self.round();
                while self.store.congested() {
                    self.round();
                }
            }
        }
        let c = self.store.counters();
        let (checkpoints, stalled) = (c.checkpoints - before.checkpoints, c.stalled - before.stalled);
        let index = (c.index_bytes - before.index_bytes) >> 20;
        let each = (processor() - began) * 1e6 / ops as f64;
        println!("{what:32} {each:8.2} us/op, {checkpoints} checkpoints, {stalled} stalled, {index} MiB index");
    }
}

fn object(n: u64) -> ObjectId {
    let name = Bytes::from(format!("rbd_data.10226b8b4567.{n:016x}"));
    let hash = types::hash::rjenkins(&name);
    HObject { pool: 1, hash, nspace: Bytes::new(), key: Bytes::new(), name, snap: SnapId::HEAD, max: false }.into()
}

fn write(n: u64, object: ObjectId, offset: u64, data: &Bytes) -> Transaction {
    let log = Bytes::from(format!("log {n:016x}"));
    let old = Bytes::from(format!("log {:016x}", n.saturating_sub(3000)));
    let info = ObjectChange::SetInfo(Bytes::from(vec![n as u8; 120]));
    Transaction {
        cold: false,
        scope: SpgId::whole(PgId::new(1, object.hash % 32)),
        hold: None,
        objects: vec![ObjectChanges { object, changes: vec![ObjectChange::Write(offset, data.clone().into()), info] }],
        meta: vec![MetaChange::Set(log, Bytes::from(vec![n as u8; 180])), MetaChange::Remove(old)],
    }
}

/// Under a stream of writes each step ahead was once as small as what the stream had used since the last: a tenth more processor time.
#[test]
fn space_is_written_ahead_in_whole_steps() {
    let mut bench = Bench::new(Config { uuid: [1; 16], ..Config::default() });
    let data = Bytes::from(vec![5u8; 128 << 10]);
    bench.measure("128 KiB writes, new objects", 3_000, 4, |store, n| {
        store.submit(write(n, object(n), 0, &data), Ticket(n)).expect("room");
    });
    assert!(bench.ahead.len() > 20, "{:?}", bench.ahead);
    let step = (4 << 20) / crate::block::BLOCK as u32;
    assert!(bench.ahead.iter().all(|blocks| *blocks == step), "{:?}", bench.ahead);
}

/// Under a stream of long writes to new objects the disk once wrote each byte twice: zeros, then the data.
#[test]
fn long_writes_to_new_space_are_not_preceded_by_zeros() {
    let mut bench = Bench::new(Config { uuid: [1; 16], ..Config::default() });
    let data = Bytes::from(vec![5u8; 4 << 20]);
    bench.measure("4 MiB writes, new objects", 100, 4, |store, n| {
        store.submit(write(n, object(n), 0, &data), Ticket(n)).expect("room");
    });
    let ahead: u32 = bench.ahead.iter().sum();
    assert!(u64::from(ahead) * crate::block::BLOCK as u64 <= 72 << 20, "{:?}", bench.ahead);
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    let config = Config { uuid: [1; 16], memory: 192 << 20, ..Config::default() };
    let mut bench = Bench::new(config);
    let small = Bytes::from(vec![7u8; 4096]);
    let large = Bytes::from(vec![9u8; 4 << 20]);
    let mut n = 0;
    let mut submit = |store: &mut Store, object: ObjectId, offset: u64, data: &Bytes| {
        n += 1;
        store.submit(write(n, object, offset, data), Ticket(n)).expect("room");
    };
    bench.measure("4 MiB writes, new objects", 128, 4, |s, i| submit(s, object(i), 0, &large));
    bench.measure("4 KiB overwrites, random", 100_000, 16, |s, i| {
        let x = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        submit(s, object(x % 128), (x >> 8) % 1024 * 4096, &small);
    });
    bench.measure("4 KiB new objects", 60_000, 16, |s, i| submit(s, object(1000 + i), 0, &small));
    bench.measure("4 KiB reads, warm", 100_000, 16, |s, i| {
        drop(s.read(Hold(1), &object(61_000 - 1 - i % 2000), 0, 4096).expect("in memory"));
    });
    println!("{:?}", bench.store.counters());
    assert!(bench.committed > 0);
}

/// Opening after a crash with a million objects, with half a journal to replay.
#[test]
#[ignore = "a measurement"]
fn open_a_million() {
    let config = Config { uuid: [1; 16], memory: 192 << 20, ..Config::default() };
    let mut bench = Bench::new(config.clone());
    bench.measure("create", 1_000_000, 64, |s, i| {
        let object = object(i);
        let mut t = write(i, object.clone(), 0, &Bytes::new());
        if i % 10 == 0 {
            add_change(&mut t.objects, object, ObjectChange::Write(0, Bytes::from(vec![3; 4096]).into()));
        }
        s.submit(t, Ticket(i)).expect("room");
    });
    (0..50).for_each(|_| bench.round());
    let began = processor();
    bench.store = Store::open(config);
    while !bench.store.ready() {
        assert_eq!(bench.store.open_error(), None);
        bench.round();
    }
    println!("open: {:.3} s of processor time", processor() - began);
    let before = bench.store.counters();
    bench.measure("cold stats", 100_000, 1, |s, i| {
        let name = object(i.wrapping_mul(7919) % 1_000_000);
        if let Err(Unread::Missing(wish)) = s.stat(Hold(1), &name) {
            s.fetch(Hold(1), wish);
        }
        s.release(Hold(1));
    });
    println!("{} page misses", bench.store.counters().page_misses - before.page_misses);
}
