//! Groups of shards that lost some, or of which some carried out what others did not.

mod bench;

use bench::code::check;
use bench::several::{GROUP, Several};
use bytes::Bytes;
use messages::osd::{Op, OpArgs, code};
use std::collections::BTreeMap;
use types::{HOLE, SnapId};

const NAME: &str = "object";

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 24) as u8 | 1
    };
    (0..len).map(|_| next()).collect()
}

fn op(code: u16, at: u64, data: &[u8]) -> Op {
    Op::extent(code, at, data.len() as u64, Bytes::copy_from_slice(data))
}

/// Writes all of an object.
fn put(all: &mut Several, name: &str, data: &[u8]) {
    let (_, answer) = all.ask(name, vec![op(code::WRITEFULL, 0, data)]);
    assert_eq!(answer.expect("an answer").result, 0, "{name}");
}

fn content(all: &mut Several, name: &str) -> Vec<u8> {
    let leader = all.leads().expect("a primary");
    let (_, read) = all.read(name);
    let because = all.pg(leader).query().because;
    read.unwrap_or_else(|| panic!("no answer: {because} {:#?} {:?}", all.trace, all.osds[&leader].logged)).expect("data").to_vec()
}

fn same(got: &[u8], right: &[u8], what: &str) {
    let at = got.iter().zip(right).position(|(a, b)| a != b);
    assert!(got == right, "{what}: {} bytes of {}, the first difference at {at:?}", got.len(), right.len());
}

fn several(k: u8, m: u8) -> Several {
    let mut all = Several::of_shards(k, m, "stripe_unit=4096");
    all.change(|map| map.pools.get_mut(&bench::POOL).expect("the pool").min_size = k);
    all.pass(5);
    assert!(all.pg(0).is_active());
    all
}

fn everybody(all: &Several) -> Vec<i32> {
    all.osds.keys().copied().collect()
}

/// All are back: what is torn is whole, everywhere.
fn settles(all: &mut Several, k: u8, m: u8) {
    all.pass(30);
    let leader = all.leads().expect("a primary");
    let query = all.pg(leader).query();
    assert_eq!(query.state.to_string(), "active+clean", "{query:?} {:?}", all.osds[&leader].logged);
    check(all, k, m);
}

/// A write of the object that only these OSDs carry out, since what the primary tells others is lost.
fn torn(all: &mut Several, ops: Vec<Op>, by: &[i32]) -> u64 {
    let lost: Vec<i32> = everybody(all).into_iter().filter(|osd| !by.contains(osd)).collect();
    lost.iter().for_each(|osd| _ = all.held.insert((0, *osd)));
    let (write, answer) = all.ask(NAME, ops);
    assert!(answer.is_none(), "not all have it");
    all.kept.clear();
    all.held.clear();
    write
}

/// The changes of an object of some rows, one of each kind.
fn changes() -> Vec<(&'static str, Vec<Op>)> {
    let sized = |code, at, len| Op::extent(code, at, len, Bytes::new());
    vec![
        ("a whole object", vec![op(code::WRITEFULL, 0, &bytes(2, 30_000))]),
        ("a part", vec![op(code::WRITE, 5000, &bytes(3, 300))]),
        ("an append", vec![op(code::APPEND, 0, &bytes(4, 9000))]),
        ("a cut", vec![sized(code::TRUNCATE, 5000, 0)]),
        ("zeros", vec![sized(code::ZERO, 100, 9000)]),
        ("a removal", vec![Op::new(code::DELETE, OpArgs::None)]),
        ("an attribute", vec![Op::xattr(code::SETXATTR, b"who", b"other"), Op::xattr(code::SETXATTR, b"new", b"one")]),
    ]
}

#[test]
fn a_torn_change_is_undone_if_one_shard_that_is_heard_lacks_it() {
    for (what, ops) in changes() {
        for by in [&[0][..], &[0, 1], &[0, 2, 3], &[0, 1, 2, 4, 5]] {
            let mut all = several(4, 2);
            let old = bytes(1, 70_000);
            put(&mut all, NAME, &old);
            all.ask(NAME, vec![Op::xattr(code::SETXATTR, b"who", b"me")]);
            all.pass(2);
            let mut ops = ops.clone();
            if what == "a cut" {
                // More of them, one on the other.
                ops = vec![Op::extent(code::TRUNCATE, 5000, 0, Bytes::new())];
                torn(&mut all, vec![op(code::WRITE, 100, &bytes(9, 50))], by);
            }
            let write = torn(&mut all, ops, by);
            // All lose power.
            let osds = everybody(&all);
            all.kill(0);
            for osd in osds.iter().skip(1) {
                all.osd(*osd).restart();
            }
            all.start(0, &osds);
            all.pass(5);
            all.change(|map| drop(map.pg_temp.insert(GROUP, vec![0, HOLE, 2, 3, 4, 5])));
            all.change(|map| drop(map.pg_temp.insert(GROUP, (0..6).collect())));
            settles(&mut all, 4, 2);
            assert!(all.answer(write).is_none(), "{what}");
            same(&content(&mut all, NAME), &old, what);
            let (_, who) = all.ask(NAME, vec![Op::xattr(code::GETXATTR, b"who", b"")]);
            assert_eq!(who.expect("an answer").ops[0].output.contiguous(), "me", "{what}");
        }
    }
}

#[test]
fn a_torn_change_counts_if_all_that_are_heard_have_it() {
    for (what, ops) in changes() {
        let mut all = several(4, 2);
        put(&mut all, NAME, &bytes(1, 70_000));
        all.pass(2);
        torn(&mut all, ops.clone(), &[0, 1, 2, 3]);
        // Those that lack it are gone.
        all.kill(4);
        all.kill(5);
        all.pass(5);
        assert!(all.pg(0).is_active(), "{what}: {}", all.pg(0).query().because);
        let gone = what == "a removal";
        let now = if gone { Vec::new() } else { content(&mut all, NAME) };
        // They come back, and get it.
        all.start(4, &[0, 1, 2, 3, 4, HOLE]);
        all.start(5, &[0, 1, 2, 3, 4, 5]);
        settles(&mut all, 4, 2);
        if !gone {
            same(&content(&mut all, NAME), &now, what);
        }
        // Others than those that had it.
        all.kill(0);
        all.kill(2);
        if !gone {
            same(&content(&mut all, NAME), &now, what);
        }
    }
}

#[test]
fn what_was_acknowledged_without_a_shard_is_not_undone_when_that_comes_back() {
    let mut all = several(4, 2);
    let mut model = bytes(1, 70_000);
    put(&mut all, NAME, &model);
    all.kill(1);
    all.kill(4);
    for at in [0, 4096, 30_000, 69_990] {
        let part = bytes(at as u64 + 7, 700);
        let (_, answer) = all.ask(NAME, vec![op(code::WRITE, at as u64, &part)]);
        assert_eq!(answer.expect("an answer").result, 0);
        model.resize(model.len().max(at + part.len()), 0);
        model[at..at + part.len()].copy_from_slice(&part);
        same(&content(&mut all, NAME), &model, "with four of six");
    }
    let third = bytes(44, 100);
    put(&mut all, "another", &third);
    // A third one is too many.
    all.kill(2);
    assert!(!all.pg(0).is_active());
    let (read, answer) = all.ask(NAME, vec![Op::extent(code::READ, 0, 0, Bytes::new())]);
    assert!(answer.is_none());
    assert!(all.pg(0).query().because.contains("start it"), "{}", all.pg(0).query().because);
    all.start(2, &[0, HOLE, 2, 3, HOLE, 5]);
    all.pass(10);
    assert_eq!(all.content(read).expect("an answer").expect("data"), model);
    all.start(1, &[0, 1, 2, 3, HOLE, 5]);
    all.start(4, &[0, 1, 2, 3, 4, 5]);
    settles(&mut all, 4, 2);
    // Those that were away can take the place of others.
    for away in [[0, 2], [3, 5], [0, 5]] {
        away.iter().for_each(|osd| all.kill(*osd));
        same(&content(&mut all, NAME), &model, &format!("without {away:?}"));
        same(&content(&mut all, "another"), &third, &format!("without {away:?}"));
        for osd in away {
            all.start(osd, &[]);
        }
        settles(&mut all, 4, 2);
    }
}

#[test]
fn a_removed_object_and_a_new_one_are_so_on_a_shard_that_was_away() {
    let mut all = several(2, 2);
    for n in 0..12 {
        put(&mut all, &format!("o{n}"), &bytes(n, 3000 * n as usize));
    }
    all.kill(3);
    for n in 0..6 {
        let (_, answer) = all.ask(&format!("o{n}"), vec![Op::new(code::DELETE, OpArgs::None)]);
        assert_eq!(answer.expect("an answer").result, 0);
    }
    for n in 12..20 {
        put(&mut all, &format!("o{n}"), &bytes(n, 3000 * n as usize));
    }
    all.start(3, &[0, 1, 2, 3]);
    settles(&mut all, 2, 2);
    all.kill(0);
    all.kill(1);
    for n in 6..20 {
        same(&content(&mut all, &format!("o{n}")), &bytes(n, 3000 * n as usize), &format!("o{n}"));
    }
}

#[test]
fn a_shard_on_an_empty_disk_is_filled() {
    let mut all = several(4, 2);
    all.osds.values_mut().for_each(|osd| osd.config.log_entries = 100);
    let mut models = BTreeMap::new();
    for n in 0..40u64 {
        let (name, data) = (format!("o{n}"), bytes(n, 1000 + 999 * n as usize));
        put(&mut all, &name, &data);
        models.insert(name, data);
    }
    // The log does not reach back to the first of them.
    for n in 0..300u64 {
        put(&mut all, "often", &bytes(n, 50));
    }
    models.insert("often".into(), bytes(299, 50));
    for away in [5, 0] {
        all.kill(away);
        all.replace_disk(away);
        let others: Vec<i32> = everybody(&all).into_iter().map(|osd| if osd == away { HOLE } else { osd }).collect();
        all.start(away, &others);
        // Written while it is filled.
        for n in [3u64, 17, 30] {
            let (name, part) = (format!("o{n}"), bytes(n + 1000, 600));
            let (write, _) = all.ask(&name, vec![op(code::WRITE, 400, &part)]);
            all.pass(5);
            let leader = all.leads().expect("a primary");
            let answer =
                all.answer(write).unwrap_or_else(|| panic!("no answer: {:?} {:#?}", all.osds[&leader].logged, all.trace));
            assert_eq!(answer.result, 0);
            let model = models.get_mut(&name).expect("a model");
            model.resize(model.len().max(1000), 0);
            model[400..1000].copy_from_slice(&part);
        }
        settles(&mut all, 4, 2);
        for (name, model) in &models {
            same(&content(&mut all, name), model, &format!("{name} after osd.{away} got an empty disk"));
        }
    }
}

#[test]
fn snapshots_are_undone_and_made_anew() {
    let mut all = several(2, 1);
    let (old, new) = (bytes(1, 30_000), bytes(2, 500));
    put(&mut all, NAME, &old);
    all.pass(2);
    let at_snap = |all: &mut Several, tid: u64, ops: Vec<Op>, snap: SnapId, context: u64| {
        let leader = all.leads().expect("a primary");
        let snaps = if context > 0 { vec![context] } else { Vec::new() };
        let request = messages::osd::OsdOp {
            pg: all.group_at(leader),
            snapid: snap,
            snap_seq: context,
            snaps,
            ..bench::request(NAME, ops)
        };
        all.osd(leader).deliver(types::SessionId(10), bench::peer(10), tid, request);
        all.settle();
        all.answer(tid)
    };
    // A clone that is torn.
    all.held.insert((0, 2));
    assert!(at_snap(&mut all, 900, vec![op(code::WRITE, 5000, &new)], SnapId::HEAD, 4).is_none());
    all.kept.clear();
    all.held.clear();
    all.kill(0);
    all.start(0, &[0, 1, 2]);
    settles(&mut all, 2, 1);
    assert_eq!(all.osds[&0].store.objects().count(), 1, "the clone is gone");
    same(&content(&mut all, NAME), &old, "content");
    // One that stays, and is made anew on a shard that was away.
    all.kill(1);
    let answer = at_snap(&mut all, 901, vec![op(code::WRITE, 5000, &new)], SnapId::HEAD, 4);
    assert_eq!(answer.expect("an answer").result, 0);
    all.start(1, &[0, 1, 2]);
    settles(&mut all, 2, 1);
    all.kill(2);
    let read = Op::extent(code::READ, 0, 0, Bytes::new());
    let answer = at_snap(&mut all, 902, vec![read], SnapId(4), 0).expect("an answer");
    same(&answer.ops[0].output.contiguous(), &old, "the snapshot");
    let mut now = old.clone();
    now[5000..5500].copy_from_slice(&new);
    same(&content(&mut all, NAME), &now, "content");
}
