//! Groups of erasure-coded pools: a copy for each shard, on OSDs of their own.

mod bench;

use bench::several::{GROUP, Several};
use bytes::Bytes;
use denc::Encode;
use messages::ops;
use messages::osd::{Op, OpArgs, OsdOpReply, code};
use objectstore::{ObjectStore, View};
use std::collections::BTreeMap;
use types::{Errno, HOLE, Locator, ObjectId, ShardId, SnapId};

const NOTHING: Bytes = Bytes::new();
/// What a scene calls the object that it is about.
const NAME: &str = "object";

struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn bytes(&mut self, len: usize) -> Bytes {
        (0..len).map(|_| u8::try_from(self.below(255)).expect("a byte") + 1).collect()
    }
}

fn extent(op: u16, at: u64, data: &Bytes) -> Op {
    Op::extent(op, at, data.len() as u64, data.clone())
}

fn sized(op: u16, at: u64, len: u64) -> Op {
    Op::extent(op, at, len, NOTHING)
}

/// Asks, and demands an answer at once.
fn ask(all: &mut Several, name: &str, ops: Vec<Op>) -> OsdOpReply {
    let (tid, answer) = all.ask(name, ops);
    let leader = all.leads().expect("a primary");
    answer.unwrap_or_else(|| panic!("no answer to {tid}: {:?}, {:#?}", all.osds[&leader].logged, all.trace))
}

fn done(all: &mut Several, name: &str, ops: Vec<Op>) -> OsdOpReply {
    let answer = ask(all, name, ops);
    assert!(answer.result >= 0, "{name}: {}", answer.result);
    answer
}

fn output(answer: &OsdOpReply) -> Bytes {
    answer.ops.last().map(|op| op.output.contiguous()).unwrap_or_default()
}

fn content(all: &mut Several, name: &str) -> Bytes {
    output(&done(all, name, vec![sized(code::READ, 0, 0)]))
}

fn size(all: &mut Several, name: &str) -> u64 {
    let answer = output(&done(all, name, vec![Op::new(code::STAT, OpArgs::None)]));
    u64::from_le_bytes(answer[..8].try_into().expect("a size"))
}

/// Demands that bytes are these, and tells where they are not.
fn same(got: &[u8], right: &[u8], what: &str) {
    let at = got.iter().zip(right).position(|(a, b)| a != b);
    assert!(got == right, "{what}: {} bytes of {}, the first difference at {at:?}", got.len(), right.len());
}

/// All objects of a shard, as its store has them.
fn held(all: &Several, osd: i32) -> BTreeMap<ObjectId, Bytes> {
    let store = &all.osds[&osd].store;
    let hold = objectstore::Hold(0);
    let data = |object: &ObjectId| store.read(hold, object, 0, u64::MAX).expect("in memory").contiguous();
    store.objects().map(|object| (object.clone(), data(object))).collect()
}

/// Each OSD has its own shard of each object, and nothing else.
fn has_its_shards(all: &Several, objects: usize) {
    for osd in all.osds.keys() {
        let held = held(all, *osd);
        assert_eq!(held.len(), objects, "osd.{osd}");
        assert!(held.keys().all(|object| object.shard == ShardId(i8::try_from(*osd).expect("few OSDs"))));
    }
}

/// On all OSDs that are up lie the shards of the same objects, of one record each, that are the code of each other.
fn codes_hold(all: &Several, k: u8, m: u8) {
    bench::code::check(all, k, m);
}

fn several(k: u8, m: u8) -> Several {
    let mut all = Several::of_shards(k, m, "stripe_unit=4096");
    let leader = all.leads().expect("a primary");
    assert!(all.pg(leader).is_active(), "{:?} {:#?}", all.osds[&leader].logged, all.trace);
    all
}

fn life_of_an_object(k: u8, m: u8) {
    let mut all = several(k, m);
    let mut dice = Dice(k.into());
    let row = usize::from(k) * 4096;
    // As a whole, at the end, in the middle.
    let mut model = dice.bytes(2 * row + 100)[..].to_vec();
    done(&mut all, NAME, vec![extent(code::WRITEFULL, 0, &model.clone().into())]);
    same(&content(&mut all, NAME), &model, "content");
    let more = dice.bytes(row);
    done(&mut all, NAME, vec![extent(code::APPEND, 0, &more)]);
    model.extend_from_slice(&more);
    same(&content(&mut all, NAME), &model, "content");
    for at in [10, 4090, row - 3, row + 4096] {
        let part = dice.bytes(20);
        done(&mut all, NAME, vec![extent(code::WRITE, at as u64, &part)]);
        model[at..at + 20].copy_from_slice(&part);
        same(&content(&mut all, NAME), &model, &format!("after a write at {at}"));
    }
    // Shorter, longer, zeros.
    for to in [row + 5000, 3 * row, 4096, 5000] {
        done(&mut all, NAME, vec![sized(code::TRUNCATE, to as u64, 0)]);
        model.resize(to, 0);
        assert_eq!(size(&mut all, NAME), to as u64);
        same(&content(&mut all, NAME), &model, &format!("at {to} bytes"));
    }
    done(&mut all, NAME, vec![sized(code::ZERO, 100, 200)]);
    model[100..300].fill(0);
    same(&content(&mut all, NAME), &model, "content");
    // A vector sees the object as it was before it.
    let answer = done(&mut all, NAME, vec![sized(code::READ, 90, 20), sized(code::SPARSE_READ, 0, 0)]);
    assert_eq!(answer.ops[0].output.contiguous(), model[90..110]);
    // Attributes are on all shards.
    done(&mut all, NAME, vec![Op::xattr(code::SETXATTR, b"who", b"me")]);
    assert_eq!(output(&done(&mut all, NAME, vec![Op::xattr(code::GETXATTR, b"who", b"")])), "me");
    // Nothing is kept of what was before any more.
    all.pass(1);
    for osd in 0..i32::from(k + m) {
        let store = &all.osds[&osd].store;
        let object = store.objects().next().expect("a shard").clone();
        let value = store.xattr(objectstore::Hold(0), &object, b"_who").expect("in memory");
        let plain = store.xattr(objectstore::Hold(0), &object, b"who").expect("in memory");
        assert_eq!(value.or(plain).as_deref(), Some(&b"me"[..]), "osd.{osd}");
    }
    has_its_shards(&all, 1);
    // Gone, and there again.
    done(&mut all, NAME, vec![Op::new(code::DELETE, OpArgs::None)]);
    all.pass(1);
    has_its_shards(&all, 0);
    assert_eq!(ask(&mut all, NAME, vec![sized(code::READ, 0, 0)]).result, Errno::ENOENT.wire());
    done(&mut all, NAME, vec![extent(code::WRITE, 9000, &dice.bytes(10))]);
    assert_eq!(size(&mut all, NAME), 9010);
}

#[test]
fn an_object_of_2_1_lives_on_three_osds() {
    life_of_an_object(2, 1);
}

#[test]
fn an_object_of_4_2_lives_on_six_osds() {
    life_of_an_object(4, 2);
}

#[test]
fn what_pools_of_shards_do_not_take_changes_nothing() {
    let mut all = several(2, 1);
    let data = Dice(3).bytes(10_000);
    done(&mut all, NAME, vec![extent(code::WRITEFULL, 0, &data)]);
    let before: Vec<_> = (0..3).map(|osd| held(&all, osd)).collect();
    let pairs = BTreeMap::from([(Bytes::from_static(b"k"), Bytes::from_static(b"v"))]).to_bytes();
    let source = ops::CopySource { name: NAME.into(), locator: Locator::pool(bench::POOL), truncate: None };
    let args = OpArgs::CopyFrom { snap: SnapId::HEAD, src_version: 0, flags: 0, src_fadvise: 0 };
    let copy = Op { input: source.to_bytes(), ..Op::new(code::COPY_FROM, args) };
    let omap = Op { input: pairs, ..Op::new(code::OMAPSETVALS, OpArgs::None) };
    let header = Op { input: NOTHING, ..Op::new(code::OMAPSETHEADER, OpArgs::None) };
    for refused in [omap.clone(), header, copy, sized(code::MAPEXT, 0, 10), sized(code::SYNC_READ, 0, 10)] {
        let answer = ask(&mut all, NAME, vec![refused.clone()]);
        assert_eq!(answer.result, Errno::EOPNOTSUPP.wire(), "{refused:?}");
    }
    // Not even what stands before it in the vector.
    let answer = ask(&mut all, NAME, vec![extent(code::WRITE, 0, &Dice(4).bytes(50)), omap]);
    assert_eq!(answer.result, Errno::EOPNOTSUPP.wire());
    assert_eq!((0..3).map(|osd| held(&all, osd)).collect::<Vec<_>>(), before);
    same(&content(&mut all, NAME), &data, "content");
    // Without overwrites it takes whole rows at the end.
    all.change(|map| map.pools.get_mut(&bench::POOL).expect("the pool").flags &= !maps::pool_flags::EC_OVERWRITES);
    let part = Dice(5).bytes(8192);
    for (name, op, good) in [
        ("rows", extent(code::WRITE, 0, &part), true),
        ("rows", extent(code::WRITE, 8192, &part), true),
        ("rows", extent(code::APPEND, 0, &part), true),
        ("rows", extent(code::WRITE, 0, &part), false),
        ("rows", extent(code::WRITE, 8192 * 3 + 1, &part), false),
        ("rows", sized(code::TRUNCATE, 10, 0), false),
        ("rows", sized(code::ZERO, 0, 10), false),
        (NAME, extent(code::APPEND, 0, &part), false),
        ("rows", extent(code::WRITEFULL, 0, &part), true),
    ] {
        let result = ask(&mut all, name, vec![op.clone()]).result;
        assert_eq!(result, if good { 0 } else { Errno::EOPNOTSUPP.wire() }, "{name}: {op:?}");
    }
}

#[test]
fn random_operations_are_as_on_one_disk_and_after_a_start() {
    for (k, m) in [(2, 1), (4, 2)] {
        let mut all = several(k, m);
        let mut dice = Dice(91 + u64::from(k));
        let mut models: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for step in 0..150 {
            let name = format!("o{}", dice.below(3));
            let model = models.entry(name.clone()).or_default();
            let (at, len) = (dice.below(40_000), dice.below(9000) as usize + 1);
            let data = dice.bytes(len);
            let op = match dice.below(6) {
                0 => {
                    *model = data[..].to_vec();
                    extent(code::WRITEFULL, 0, &data)
                }
                1 => {
                    model.extend_from_slice(&data);
                    extent(code::APPEND, 0, &data)
                }
                2 if !model.is_empty() => {
                    model.resize(at as usize, 0);
                    sized(code::TRUNCATE, at, 0)
                }
                _ => {
                    let end = at as usize + len;
                    model.resize(model.len().max(end), 0);
                    model[at as usize..end].copy_from_slice(&data);
                    extent(code::WRITE, at, &data)
                }
            };
            let what = format!("{:?} of {:?}", op.code, op.args);
            done(&mut all, &name, vec![op]);
            let (at, len) = (dice.below(50_000), dice.below(20_000) + 1);
            let got = output(&done(&mut all, &name, vec![sized(code::READ, at, len)]));
            let model = &models[&name];
            let right = model.get((at as usize).min(model.len())..((at + len) as usize).min(model.len())).unwrap_or_default();
            same(&got, right, &format!("step {step}: {len} bytes at {at} of {name}, after {what}"));
        }
        // An OSD goes: all is read and written without its shard. It comes back: it gets what it missed.
        let n = i32::from(k + m);
        for away in [n - 1, 0] {
            let everybody: Vec<i32> = (0..n).collect();
            all.kill(away);
            let leader = all.leads().expect("a primary");
            assert!(all.pg(leader).is_active(), "{}", all.pg(leader).query().because);
            for (name, model) in &mut models {
                same(&content(&mut all, name), model, &format!("{name} while osd.{away} is away"));
                let (at, data) = (dice.below(model.len() as u64 + 1), dice.bytes(5000));
                done(&mut all, name, vec![extent(code::WRITE, at, &data)]);
                let (at, end) = (at as usize, at as usize + data.len());
                model.resize(model.len().max(end), 0);
                model[at..end].copy_from_slice(&data);
            }
            all.start(away, &everybody);
            all.pass(20);
            assert_eq!(all.leads(), Some(0));
            assert_eq!(all.pg(0).query().state.to_string(), "active+clean", "{:?}", all.pg(0).query());
            for (name, model) in &models {
                same(&content(&mut all, name), model, &format!("{name} after osd.{away} was away"));
            }
            has_its_shards(&all, models.len());
            codes_hold(&all, k, m);
        }
    }
}

#[test]
fn another_osd_may_lead_whatever_shard_it_has() {
    let mut all = several(4, 2);
    let data = Dice(8).bytes(70_000);
    done(&mut all, NAME, vec![extent(code::WRITEFULL, 0, &data)]);
    for leader in [3, 5, 0] {
        all.change(|map| _ = map.primary_temp.insert(GROUP, leader));
        all.pass(5);
        assert_eq!(all.leads(), Some(leader));
        assert!(all.pg(leader).is_active(), "{:?}", all.osds[&leader].logged);
        same(&content(&mut all, NAME), &data, &format!("osd.{leader} leads"));
        done(&mut all, NAME, vec![extent(code::WRITE, 5000, &data.slice(5000..5100))]);
    }
    same(&content(&mut all, NAME), &data, "content");
}

#[test]
fn a_shard_that_is_rotten_is_read_around_and_made_anew() {
    let mut all = several(2, 1);
    let mut data = Dice(9).bytes(20_000).to_vec();
    done(&mut all, NAME, vec![extent(code::WRITEFULL, 0, &data.clone().into())]);
    // Shard 1 is shorter than its record says.
    let spoil = |all: &mut Several| {
        let store = &mut all.osd(1).store;
        let object = store.objects().next().expect("a shard").clone();
        let objects = vec![objectstore::ObjectChanges { object, changes: vec![objectstore::ObjectChange::Truncate(50)] }];
        store.submit(objectstore::Transaction { objects, ..Default::default() }, objectstore::Ticket(0)).expect("room");
    };
    spoil(&mut all);
    same(&content(&mut all, NAME), &data, "content");
    all.pass(10);
    codes_hold(&all, 2, 1);
    // A change that needs it waits until it is whole.
    spoil(&mut all);
    let part = Dice(3).bytes(20);
    done(&mut all, NAME, vec![extent(code::WRITE, 10, &part)]);
    data[10..30].copy_from_slice(&part);
    same(&content(&mut all, NAME), &data, "content");
    all.pass(10);
    codes_hold(&all, 2, 1);
    // With another one away nothing can be made of the rest, and nothing else is given.
    all.kill(2);
    spoil(&mut all);
    let (read, answer) = all.ask(NAME, vec![sized(code::READ, 0, 0)]);
    assert!(answer.is_none_or(|answer| answer.result == Errno::EIO.wire()));
    all.start(2, &[0, 1, 2]);
    all.pass(20);
    assert!(all.content(read).is_some_and(|content| content.is_err() || content.is_ok_and(|content| content == data)));
    same(&content(&mut all, NAME), &data, "content");
    all.pass(10);
    codes_hold(&all, 2, 1);
}

#[test]
fn reads_wait_for_a_shard_and_see_one_state_of_the_object() {
    let mut all = several(2, 1);
    let (old, new) = (Dice(1).bytes(8192), Dice(2).bytes(8192));
    done(&mut all, NAME, vec![extent(code::WRITEFULL, 0, &old)]);
    // What osd.1 is told is kept on the way: a read waits, and a write behind it.
    all.held.insert((0, 1));
    let (read, answer) = all.ask(NAME, vec![sized(code::READ, 0, 0)]);
    assert!(answer.is_none());
    let (write, answer) = all.ask(NAME, vec![extent(code::WRITEFULL, 0, &new)]);
    assert!(answer.is_none());
    let (after, answer) = all.ask(NAME, vec![sized(code::READ, 0, 0)]);
    assert!(answer.is_none());
    // The session breaks before anything of it came: it is said again.
    all.break_session(0, 1);
    all.pass(3);
    assert_eq!(all.content(read), Some(Ok(old)), "as it was when it was asked for");
    assert_eq!(all.answer(write).expect("an answer").result, 0);
    assert_eq!(all.content(after), Some(Ok(new)));
}

#[test]
fn snapshots_of_shards_keep_what_was() {
    let mut all = several(2, 1);
    let (old, new) = (Dice(1).bytes(30_000), Dice(2).bytes(500));
    done(&mut all, NAME, vec![extent(code::WRITEFULL, 0, &old)]);
    let at_snap = |all: &mut Several, snap: SnapId, ops: Vec<Op>, context: u64| {
        let (leader, tid) = (all.leads().expect("a primary"), 7000 + context * 10 + snap.0 % 7);
        let op = messages::osd::OsdOp {
            pg: all.group_at(leader),
            snapid: snap,
            snap_seq: context,
            snaps: if context > 0 { vec![context] } else { Vec::new() },
            ..bench::request(NAME, ops)
        };
        all.osd(leader).deliver(types::SessionId(10), bench::peer(10), tid, op);
        all.settle();
        all.answer(tid).expect("an answer")
    };
    let answer = at_snap(&mut all, SnapId::HEAD, vec![extent(code::WRITE, 5000, &new)], 4);
    assert_eq!(answer.result, 0);
    all.pass(1);
    has_its_shards(&all, 2);
    same(&output(&at_snap(&mut all, SnapId(4), vec![sized(code::READ, 0, 0)], 0)), &old, "the snapshot");
    let mut now = old[..].to_vec();
    now[5000..5500].copy_from_slice(&new);
    same(&content(&mut all, NAME), &now, "content");
    let back = Op::new(code::ROLLBACK, OpArgs::Snap { snap: SnapId(4) });
    assert_eq!(at_snap(&mut all, SnapId::HEAD, vec![back], 5).result, 0);
    same(&content(&mut all, NAME), &old, "content");
}

#[test]
fn an_osd_that_does_not_know_the_profile_serves_nothing_and_says_why() {
    let mut all = several(2, 1);
    let data = Dice(9).bytes(20_000);
    done(&mut all, NAME, vec![extent(code::WRITEFULL, 0, &data)]);
    let layouts = all.map.layouts[&bench::POOL].clone();
    all.kill(2);
    // It reads this map when it starts.
    all.hears.insert(2);
    all.change(|map| {
        let layout = map.layouts.get_mut(&bench::POOL).and_then(|layouts| layouts.table.get_mut(&0)).expect("a layout");
        layout.profile.insert("plugin".into(), "clay".into());
    });
    all.start(2, &[0, 1, 2]);
    all.pass(5);
    let query = all.pg(2).query();
    assert!(query.because.contains("plugin=clay is not supported"), "{}", query.because);
    // The others serve without it, if they are enough.
    assert_eq!(all.map.pg_temp[&GROUP], [0, 1, HOLE], "{:#?}", all.trace);
    same(&content(&mut all, NAME), &data, "content");
    // Another map lets it serve.
    all.change(|map| drop(map.layouts.insert(bench::POOL, layouts)));
    all.kill(2);
    all.start(2, &[0, 1, 2]);
    all.pass(20);
    let because = all.pg(0).query().because;
    assert_eq!(all.pg(0).query().state.to_string(), "active+clean", "{because}: {:?}", all.osds[&0].logged);
    codes_hold(&all, 2, 1);
}

#[test]
fn scrubs_are_refused_and_say_so() {
    let mut all = several(2, 1);
    let text = all.pg(0).why_no_scrub();
    assert!(text.is_some_and(|text| text.contains("not built yet")));
    let id = all.group_at(0);
    all.osd(0).with(id, |pg, ctx| pg.start_scrub(ctx, true));
    assert!(all.pg(0).scrub_state().is_none());
    assert!(all.osds[&0].logged.iter().any(|line| line.contains("is not scrubbed")), "{:?}", all.osds[&0].logged);
}

#[test]
fn a_place_without_an_osd_is_a_hole() {
    let mut all = several(2, 1);
    done(&mut all, NAME, vec![extent(code::WRITEFULL, 0, &Dice(1).bytes(9000))]);
    all.kill(1);
    assert_eq!(all.map.pg_temp[&GROUP], [0, HOLE, 2]);
    assert!(all.pg(0).is_active());
    let state = all.pg(0).query().state.to_string();
    assert!(state.contains("undersized") && state.contains("degraded"), "{state}");
    assert!(held(&all, 0).len() == 1 && held(&all, 2).len() == 1, "nothing is removed");
}
