//! Random operations on a few objects, with snapshots, restarts and stores that miss and delay, against a plain model. The
//! model knows nothing of clones, logs or lanes: an object is its content, a snapshot a copy of all objects.

mod bench;

use bench::{Bench, POOL, peer, request};
use bytes::Bytes;
use denc::{Decode, Encode};
use messages::ops;
use messages::osd::{Op, OpArgs, OsdOp, OsdOpReply, code::*};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{Errno, SessionId, SnapId};

/// A small generator, so that a seed names a run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Object {
    data: Vec<u8>,
    xattrs: BTreeMap<Bytes, Bytes>,
    omap: BTreeMap<Bytes, Bytes>,
}

type Objects = BTreeMap<String, Object>;

struct World {
    dice: Dice,
    bench: Bench,
    head: Objects,
    snaps: BTreeMap<u64, Objects>,
    next_snap: u64,
    tid: u64,
    /// The last write, to be sent again.
    last: Option<(u64, OsdOp, OsdOpReply)>,
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

impl World {
    fn new(seed: u64, miss: bool) -> Self {
        let mut bench = Bench::new(2);
        bench.store.miss = miss;
        bench.config.log_entries = 40;
        Self { dice: Dice(seed), bench, head: Objects::new(), snaps: BTreeMap::new(), next_snap: 1, tid: 1, last: None }
    }

    fn text(&mut self) -> Vec<u8> {
        let byte = b'a' + self.dice.below(26) as u8;
        vec![byte; self.dice.below(6000) as usize]
    }

    fn send(&mut self, name: &str, ops: Vec<Op>) -> i32 {
        let seq = self.next_snap - 1;
        let snaps: Vec<u64> = self.snaps.keys().rev().copied().collect();
        let op = OsdOp { snap_seq: seq, snaps, ..request(name, ops) };
        self.tid += 1;
        let reply = self.bench.request(7, self.tid, op.clone());
        let result = reply.result;
        self.last = Some((self.tid, op, reply));
        result
    }

    /// One random change of one object, here and in the model.
    fn change(&mut self) {
        let name = NAMES[self.dice.below(4) as usize];
        let old = self.head.get(name).cloned();
        let mut object = old.clone().unwrap_or_default();
        let (mut exists, mut expected) = (true, 0);
        let bytes = self.text();
        let offset = self.dice.below(8000);
        let key = Bytes::from(vec![b'k', b'0' + self.dice.below(5) as u8]);
        let value = Bytes::from(bytes[..bytes.len().min(20)].to_vec());
        let data = |code| Op::extent(code, offset, bytes.len() as u64, Bytes::from(bytes.clone()));
        let op = match self.dice.below(11) {
            0 | 1 => {
                let end = offset as usize + bytes.len();
                object.data.resize(object.data.len().max(if bytes.is_empty() { offset as usize } else { end }), 0);
                object.data[offset as usize..end].copy_from_slice(&bytes);
                data(WRITE)
            }
            2 => {
                object.data = bytes.clone();
                data(WRITEFULL)
            }
            3 => {
                object.data.extend(&bytes);
                data(APPEND)
            }
            4 => {
                exists = old.is_some();
                object.data.resize(offset as usize, 0);
                Op::extent(TRUNCATE, offset, 0, Bytes::new())
            }
            5 => {
                exists = old.is_some();
                let end = offset as usize + bytes.len();
                if !bytes.is_empty() && end >= object.data.len() {
                    object.data.truncate(offset as usize);
                } else if !bytes.is_empty() {
                    object.data[offset as usize..end].fill(0);
                }
                Op::extent(ZERO, offset, bytes.len() as u64, Bytes::new())
            }
            6 => {
                expected = if old.is_some() { 0 } else { Errno::ENOENT.wire() };
                exists = false;
                Op::new(DELETE, OpArgs::None)
            }
            7 => {
                object.xattrs.insert(key.clone(), value.clone());
                Op::xattr(SETXATTR, &key, &value)
            }
            8 => {
                object.omap.insert(key.clone(), value.clone());
                let pairs: ops::Pairs = [(key, value)].into();
                Op { input: pairs.to_bytes(), ..Op::new(OMAPSETVALS, OpArgs::None) }
            }
            9 => {
                expected = if old.is_some() { 0 } else { Errno::ENOENT.wire() };
                exists = old.is_some();
                object.omap.remove(&key);
                let keys: ops::Keys = vec![key];
                Op { input: keys.to_bytes(), ..Op::new(OMAPRMKEYS, OpArgs::None) }
            }
            _ => return self.roll_back(name),
        };
        assert_eq!(self.send(name, vec![op]), expected);
        self.settle_model(name, exists.then_some(object));
    }

    fn settle_model(&mut self, name: &str, object: Option<Object>) {
        match object {
            Some(object) => drop(self.head.insert(name.into(), object)),
            None => drop(self.head.remove(name)),
        }
    }

    fn roll_back(&mut self, name: &str) {
        let count = self.snaps.len() as u64;
        if count == 0 {
            return;
        }
        let nth = self.dice.below(count) as usize;
        let Some((snap, then)) = self.snaps.iter().nth(nth).map(|(s, o)| (*s, o.get(name).cloned())) else { return };
        assert_eq!(self.send(name, vec![Op::new(ROLLBACK, OpArgs::Snap { snap: SnapId(snap) })]), 0);
        self.settle_model(name, then);
    }

    fn snapshot(&mut self) {
        self.snaps.insert(self.next_snap, self.head.clone());
        self.next_snap += 1;
    }

    fn remove_snapshot(&mut self) {
        let count = self.snaps.len() as u64;
        if count == 0 {
            return;
        }
        let nth = self.dice.below(count) as usize;
        let Some(snap) = self.snaps.keys().nth(nth).copied() else { return };
        self.snaps.remove(&snap);
        self.bench.take_map(|map| map.removed_snaps_queue.entry(POOL).or_default().insert(snap, 1));
    }

    fn repeat(&mut self) {
        let Some((tid, op, reply)) = self.last.clone() else { return };
        let again = self.bench.request(7, tid, op);
        assert_eq!((again.result, again.replay_version), (reply.result, reply.replay_version));
    }

    fn step(&mut self) {
        match self.dice.below(40) {
            0 => self.snapshot(),
            1 => self.remove_snapshot(),
            2 => self.bench.restart(),
            3 => self.bench.pass(Duration::from_millis(2)),
            4..8 => self.check(),
            8 | 9 => self.repeat(),
            _ => self.change(),
        }
    }

    /// One object at one time is what the model says.
    fn check(&mut self) {
        let name = NAMES[self.dice.below(4) as usize];
        self.check_at(name, SnapId::HEAD, self.head.get(name).cloned());
        let nth = self.dice.below(self.snaps.len() as u64 + 1) as usize;
        if let Some((snap, object)) = self.snaps.iter().nth(nth).map(|(s, o)| (*s, o.get(name).cloned())) {
            self.check_at(name, SnapId(snap), object);
        }
    }

    fn check_at(&mut self, name: &str, snapid: SnapId, object: Option<Object>) {
        let vals = ops::OmapGetVals { max: 100, ..Default::default() };
        let read = vec![
            Op::extent(READ, 0, 0, Bytes::new()),
            Op::new(STAT, OpArgs::None),
            Op::new(GETXATTRS, OpArgs::None),
            Op { input: vals.to_bytes(), ..Op::new(OMAPGETVALS, OpArgs::None) },
        ];
        let reply = self.bench.ask(OsdOp { snapid, ..request(name, read) });
        let Some(object) = object else {
            assert_eq!(reply.result, Errno::ENOENT.wire(), "{name} at {snapid:?}");
            return;
        };
        let output = |i: usize| reply.ops[i].output.contiguous();
        assert_eq!(output(0), object.data, "{name} at {snapid:?}");
        assert_eq!(ops::Stat::from_bytes(&output(1)).expect("a stat").size, object.data.len() as u64);
        assert_eq!(ops::Pairs::from_bytes(&output(2)).expect("attributes"), object.xattrs);
        assert_eq!(ops::OmapVals::from_bytes(&output(3)).expect("values").pairs, object.omap);
    }

    fn check_all(&mut self) {
        for name in NAMES {
            self.check_at(name, SnapId::HEAD, self.head.get(name).cloned());
            for (snap, object) in self.snaps.iter().map(|(s, o)| (*s, o.get(name).cloned())).collect::<Vec<_>>() {
                self.check_at(name, SnapId(snap), object);
            }
        }
        for id in self.bench.pgs.keys().copied().collect::<Vec<_>>() {
            self.bench.with(id, |pg, ctx| pg.start_scrub(ctx, true));
        }
        self.bench.pass(Duration::from_secs(5));
        let wrong: Vec<_> = self.bench.logged.iter().filter(|l| l.contains("mismatch") || l.contains("error")).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}

#[test]
fn random_operations_do_what_the_model_does() {
    for seed in 0..24 {
        let mut world = World::new(seed, seed % 3 == 0);
        for _ in 0..300 {
            world.step();
        }
        world.check_all();
        // With all snapshots gone, nothing is left of them.
        while !world.snaps.is_empty() {
            world.remove_snapshot();
        }
        world.bench.pass(Duration::from_secs(5));
        assert_eq!(world.bench.store.objects().count(), world.head.len(), "seed {seed}");
    }
}

/// Writes that are under way together, commits at random moments, crashes in between: what was acknowledged is there, what
/// was not is there or not, and what is sent again is done once.
#[test]
fn acknowledged_writes_survive_crashes() {
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let mut bench = Bench::new(1);
        bench.store.miss = seed % 2 == 0;
        let mut expected = String::new();
        let mut waiting: Vec<(u64, String)> = Vec::new();
        let mut tid = 1;
        for _ in 0..60 {
            bench.store.hold_commits = true;
            for _ in 0..dice.below(4) {
                tid += 1;
                waiting.push((tid, format!("<{tid}>")));
                send(&mut bench, tid, &format!("<{tid}>"));
            }
            bench.settle();
            bench.store.commit(dice.below(4) as usize);
            bench.settle();
            if dice.below(8) == 0 {
                bench.restart();
                // The client sends again what was not acknowledged, in its order.
                acknowledged(&mut bench, &mut waiting, &mut expected);
                for (tid, text) in waiting.clone() {
                    send(&mut bench, tid, &text);
                }
                bench.settle();
            }
            acknowledged(&mut bench, &mut waiting, &mut expected);
        }
        bench.store.hold_commits = false;
        bench.store.commit(1000);
        bench.settle();
        acknowledged(&mut bench, &mut waiting, &mut expected);
        assert!(waiting.is_empty(), "seed {seed}");
        assert_eq!(bench.output("o", vec![Op::extent(READ, 0, 0, Bytes::new())]), expected, "seed {seed}");
    }
}

fn send(bench: &mut Bench, tid: u64, text: &str) {
    let op = Op::extent(APPEND, 0, text.len() as u64, Bytes::copy_from_slice(text.as_bytes()));
    bench.deliver(SessionId(5), peer(5), tid, request("o", vec![op]));
}

/// Takes the acknowledgements, which must come in the order of the requests.
fn acknowledged(bench: &mut Bench, waiting: &mut Vec<(u64, String)>, expected: &mut String) {
    for (_, message) in std::mem::take(&mut bench.sent) {
        let reply = OsdOpReply::decode(&message).expect("a reply");
        assert_eq!(reply.result, 0);
        let (tid, text) = waiting.remove(0);
        assert_eq!(message.tid, tid, "replies of one object come in order");
        expected.push_str(&text);
    }
}
