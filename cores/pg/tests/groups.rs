//! Groups as a whole: loading, splitting, scrubbing, removal, backoff.

mod bench;

use bench::{Bench, POOL, peer, request};
use bytes::Bytes;
use denc::{Decode, Encode};
use messages::ops::{ScrubList, ScrubPage};
use messages::osd::code::backoff_op;
use messages::osd::{Backoff, Op, OpArgs, OsdOp, code::*};
use messages::scrub::{InconsistentObject, shard};
use messages::stats::ObjectStatSum;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{Errno, PgState, SessionId};

fn full(text: &[u8]) -> Vec<Op> {
    vec![Op::extent(WRITEFULL, 0, text.len() as u64, Bytes::copy_from_slice(text))]
}

fn read(bench: &mut Bench, name: &str) -> Bytes {
    bench.output(name, vec![Op::extent(READ, 0, 0, Bytes::new())])
}

fn fill(bench: &mut Bench, n: usize) {
    for i in 0..n {
        let name = format!("object{i}");
        bench.request(20, i as u64, request(&name, full(name.as_bytes())));
        bench.request(20, 10_000 + i as u64, OsdOp { snap_seq: 1, snaps: vec![1], ..request(&name, full(b"new")) });
    }
}

fn objects_by_groups(bench: &mut Bench) -> Vec<i64> {
    bench.pgs.values_mut().map(|pg| pg.stats().stats.num_objects).collect()
}

fn split(bench: &mut Bench, pg_num: u32) {
    bench.take_map(|map| {
        let pool = map.pools.get_mut(&POOL).expect("the pool");
        (pool.pg_num, pool.pgp_num) = (pg_num, pg_num);
    });
}

/// Every object is where clients look for it, done requests are known there, statistics add up.
fn check_after_split(bench: &mut Bench, n: usize, groups: usize) {
    assert_eq!(bench.pgs.len(), groups);
    assert!(bench.pgs.values().all(pg::Pg::is_active));
    bench.pass(Duration::from_secs(1));
    assert_eq!(objects_by_groups(bench).iter().sum::<i64>(), 2 * n as i64);
    for i in 0..n {
        let name = format!("object{i}");
        assert_eq!(read(bench, &name), "new");
        let again = bench.request(20, i as u64, request(&name, full(b"a repeated request changes nothing")));
        assert_eq!(again.result, 0);
        assert_eq!(read(bench, &name), "new");
    }
    let listed: BTreeSet<_> = bench.store.objects().filter(|o| o.is_head()).cloned().collect();
    assert_eq!(listed.len(), n);
    // The snapshot index went along: all clones can be trimmed.
    bench.take_map(|map| map.removed_snaps_queue.entry(POOL).or_default().insert(1, 1));
    bench.pass(Duration::from_secs(2));
    assert_eq!(bench.store.objects().count(), n);
    assert_eq!(objects_by_groups(bench).iter().sum::<i64>(), n as i64);
    let mismatches: Vec<_> = bench.logged.iter().filter(|line| line.contains("mismatch")).collect();
    assert!(mismatches.is_empty(), "{mismatches:?}");
}

#[test]
fn a_split_loses_nothing() {
    for miss in [false, true] {
        let mut bench = Bench::new(2);
        fill(&mut bench, 60);
        bench.store.miss = miss;
        split(&mut bench, 8);
        check_after_split(&mut bench, 60, 8);
    }
}

#[test]
fn nor_do_uneven_ones_and_those_of_siblings() {
    let mut bench = Bench::new(1);
    fill(&mut bench, 40);
    for pg_num in [3, 4, 7] {
        split(&mut bench, pg_num);
    }
    check_after_split(&mut bench, 40, 7);
}

#[test]
fn a_split_that_a_crash_interrupts_is_done_again() {
    for commits in 0..40 {
        let mut bench = Bench::new(1);
        fill(&mut bench, 30);
        bench.store.hold_commits = true;
        split(&mut bench, 4);
        for _ in 0..commits {
            bench.store.commit(1);
            bench.settle();
        }
        let finished = bench.pgs.len() == 4;
        bench.store.hold_commits = false;
        // Only groups whose split was told are loaded by an OSD.
        bench.restart();
        bench.settle();
        check_after_split(&mut bench, 30, 4);
        if finished {
            return;
        }
    }
    panic!("the split never ended");
}

#[test]
fn operations_wait_for_a_split() {
    let mut bench = Bench::new(1);
    fill(&mut bench, 10);
    bench.sent.clear();
    bench.store.hold_commits = true;
    split(&mut bench, 2);
    let id = *bench.pgs.keys().next().expect("a group");
    for i in 0..10 {
        let op = OsdOp { pg: id, ..request(&format!("object{i}"), full(b"later")) };
        bench.deliver(SessionId(20), peer(20), 500 + i, op);
    }
    bench.store.hold_commits = false;
    bench.store.commit(100);
    bench.settle();
    // Those of objects that moved are dropped: the client sends them to the sibling when it has the map.
    let stayed = (0..10u64).filter(|i| {
        let at = bench.map.object_pg(&types::Locator::pool(POOL), format!("object{i}").as_bytes());
        at == Some(id.pg)
    });
    let answered: BTreeSet<u64> = bench.sent.iter().map(|(_, m)| m.tid).collect();
    assert_eq!(answered, stayed.map(|i| 500 + i).collect());
}

#[test]
fn a_copy_under_way_begins_anew_after_a_split() {
    let mut bench = Bench::new(1);
    fill(&mut bench, 20);
    // Large enough for several portions, so that a part is staged when the split begins.
    bench.run("source", full(&vec![7; 20 << 20]));
    bench.store.miss = true;
    bench.sent.clear();
    let source = messages::ops::CopySource { name: "source".into(), locator: types::Locator::pool(POOL), truncate: None };
    let args = OpArgs::CopyFrom { snap: types::SnapId::HEAD, src_version: 0, flags: 0, src_fadvise: 0 };
    let copy = Op { input: denc::Encode::to_bytes(&source), ..Op::new(COPY_FROM, args) };
    let id = *bench.pgs.keys().next().expect("a group");
    let op = OsdOp { pg: id, ..request("object3", vec![copy]) };
    bench.deliver(SessionId(20), peer(20), 777, op);
    bench.deliver(SessionId(20), peer(20), 778, OsdOp { pg: id, ..request("object3", vec![Op::new(STAT, OpArgs::None)]) });
    // Until the first portion is there.
    while !bench.store.objects().any(|o| o.pool < 0) {
        bench.settle_one();
    }
    assert!(bench.sent.is_empty());
    split(&mut bench, 2);
    bench.settle();
    bench.pass(Duration::from_millis(10));
    assert_eq!(bench.store.objects().filter(|o| o.pool < 0).count(), 0, "nothing of the first attempt is left");
    let at = bench.map.object_pg(&types::Locator::pool(POOL), b"object3").expect("the pool");
    if at == id.pg {
        assert_eq!(bench.sent.iter().map(|(_, m)| m.tid).collect::<Vec<_>>(), [777, 778]);
        assert_eq!(read(&mut bench, "object3").len(), 20 << 20);
    } else {
        assert!(bench.sent.is_empty(), "the client sends it to the sibling");
    }
}

#[test]
fn loading_takes_operations_in_turn_and_backs_off_when_there_are_too_many() {
    let mut bench = Bench::new(1);
    fill(&mut bench, 5);
    bench.config.max_waiting = 3;
    bench.store.miss = true;
    let id = *bench.pgs.keys().next().expect("a group");
    let store = std::mem::take(&mut bench.store);
    bench.store = store.crash();
    bench.pgs.clear();
    bench.load(id);
    bench.sent.clear();
    assert!(!bench.pgs[&id].is_active());
    for tid in 0..5 {
        let session = SessionId(20 + tid / 4);
        bench.deliver(session, peer(20), 900 + tid, request("object1", vec![Op::new(STAT, OpArgs::None)]));
    }
    let blocks: Vec<Backoff> = backoffs(&bench);
    assert_eq!(blocks.iter().map(|b| b.op).collect::<Vec<_>>(), [backoff_op::BLOCK; 2], "one for each session");
    bench.settle();
    assert!(bench.pgs[&id].is_active());
    let all = backoffs(&bench);
    assert_eq!(
        all[2..].iter().map(|b| (b.op, b.id)).collect::<Vec<_>>(),
        [(backoff_op::UNBLOCK, blocks[0].id), (backoff_op::UNBLOCK, blocks[1].id)]
    );
    let answered: Vec<u64> = bench.sent.iter().filter(|(_, m)| m.kind == 43).map(|(_, m)| m.tid).collect();
    assert_eq!(answered, [900, 901, 902]);
}

fn backoffs(bench: &Bench) -> Vec<Backoff> {
    bench.sent.iter().filter(|(_, m)| m.kind == Backoff::KIND).map(|(_, m)| Backoff::decode(m).expect("a backoff")).collect()
}

#[test]
fn scrub_finds_damage() {
    let mut bench = Bench::new(1);
    fill(&mut bench, 40);
    bench.store.miss = true;
    let id = *bench.pgs.keys().next().expect("a group");
    bench.with(id, |pg, ctx| pg.start_scrub(ctx, true));
    bench.pass(Duration::from_secs(1));
    assert!(bench.logged.iter().any(|line| line.contains("deep-scrub ok")), "{:?}", bench.logged);
    let victim = bench.store.objects().nth(7).expect("an object").clone();
    bench.store.damaged.insert(victim.clone());
    bench.with(id, |pg, ctx| pg.start_scrub(ctx, false));
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.pgs.get_mut(&id).expect("the group").stats().stats.num_scrub_errors, 0, "a shallow one reads no data");
    bench.with(id, |pg, ctx| pg.start_scrub(ctx, true));
    bench.pass(Duration::from_secs(1));
    let report = bench.pgs.get_mut(&id).expect("the group").stats();
    assert_eq!((report.stats.num_deep_scrub_errors, report.stats.num_scrub_errors), (1, 1));
    assert!(report.state.has(PgState::INCONSISTENT) && !report.state.has(PgState::SCRUBBING), "{}", report.state);
    assert!(bench.logged.iter().any(|line| line.contains(&victim.to_string())));
    assert_eq!(report.last_deep_scrub, report.version);
    let found = inconsistent(&mut bench, 0);
    let [one] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&one.object.name, one.errors, one.union), (&victim.name, 0, shard::READ_ERROR));
    assert_eq!(one.shards.values().map(|shard| (shard.errors, shard.primary)).collect::<Vec<_>>(), [(shard::READ_ERROR, true)]);
    bench.with(id, |pg, ctx| pg.start_scrub(ctx, false));
    bench.pass(Duration::from_secs(1));
    assert_eq!(inconsistent(&mut bench, 0).len(), 1, "a light one does not take it back");
    // Nobody else has it, so a repair repairs nothing and says so.
    bench.with(id, |pg, ctx| pg.start_repair(ctx));
    bench.pass(Duration::from_secs(1));
    assert!(bench.logged.iter().any(|line| line.contains("repair 1 errors, 0 fixed")), "{:?}", bench.logged);
    assert!(bench.pgs.get_mut(&id).expect("the group").stats().state.has(PgState::FAILED_REPAIR));
    bench.store.damaged.clear();
    bench.with(id, |pg, ctx| pg.start_scrub(ctx, true));
    bench.pass(Duration::from_secs(1));
    assert_eq!(inconsistent(&mut bench, 0), []);
    assert!(!bench.pgs.get_mut(&id).expect("the group").stats().state.any(PgState::FAILED_REPAIR.with(PgState::INCONSISTENT)));
}

/// Writes an omap of that many keys, each with a value of 3 bytes.
fn put_omap(bench: &mut Bench, name: &str, keys: u32) {
    let pairs: BTreeMap<Bytes, Bytes> = (0..keys).map(|n| (format!("{n:04}").into(), "val".into())).collect();
    let op = Op { input: pairs.to_bytes(), ..Op::new(OMAPSETVALS, OpArgs::None) };
    bench.run(name, vec![op]);
}

/// Scrubs the only group deep. The lines about large omaps, and the figures of the group afterwards.
fn deep_scrubbed(bench: &mut Bench) -> (Vec<String>, ObjectStatSum) {
    bench.logged.clear();
    let id = *bench.pgs.keys().next().expect("a group");
    bench.with(id, |pg, ctx| pg.start_scrub(ctx, true));
    bench.pass(Duration::from_secs(1));
    let lines = bench.logged.iter().filter(|line| line.starts_with("Large omap object found.")).cloned().collect();
    (lines, bench.pgs.get_mut(&id).expect("the group").stats().stats)
}

#[test]
fn deep_scrubs_tell_of_large_omaps() {
    let mut bench = Bench::new(1);
    (bench.config.large_omap_keys, bench.config.large_omap_values) = (10, 1 << 20);
    put_omap(&mut bench, "few", 10);
    put_omap(&mut bench, "obj", 11);
    bench.store.miss = true;
    let (lines, stats) = deep_scrubbed(&mut bench);
    let object = bench.store.objects().find(|object| object.name == "obj").expect("it is there").clone();
    let (hash, reversed) = (object.hash, object.hash.reverse_bits());
    let line = format!(
        "Large omap object found. Object: 1:{reversed:08x}:::obj:head PG: 1.{hash:x} (1.0) Key count: 11 Size (bytes): 33"
    );
    assert_eq!(lines, [line]);
    assert_eq!((stats.num_large_omap_objects, stats.num_omap_keys, stats.num_omap_bytes), (1, 21, 21 * 7));
    // The other limit is one of values alone.
    (bench.config.large_omap_keys, bench.config.large_omap_values) = (100, 30);
    let (lines, stats) = deep_scrubbed(&mut bench);
    assert_eq!((lines.len(), stats.num_large_omap_objects), (1, 1));
    bench.config.large_omap_values = 29;
    let (lines, stats) = deep_scrubbed(&mut bench);
    assert_eq!((lines.len(), stats.num_large_omap_objects), (2, 2));
    // A light scrub and a restart leave the figure alone, a deep one takes it back.
    let id = *bench.pgs.keys().next().expect("a group");
    bench.with(id, |pg, ctx| pg.start_scrub(ctx, false));
    bench.pass(Duration::from_secs(1));
    bench.restart();
    bench.settle();
    assert_eq!(bench.pgs.get_mut(&id).expect("the group").stats().stats.num_large_omap_objects, 2);
    bench.config.large_omap_values = 1 << 20;
    let (lines, stats) = deep_scrubbed(&mut bench);
    assert_eq!((lines, stats.num_large_omap_objects), (Vec::new(), 0));
}

#[test]
fn large_omaps_of_many_pages_are_counted_as_a_whole_and_below_their_level_only_told() {
    let mut bench = Bench::new(1);
    bench.take_map(|map| map.level = types::level::Level(3));
    (bench.config.large_omap_keys, bench.config.large_omap_values) = (2999, 1 << 20);
    put_omap(&mut bench, "large", 3000);
    let (lines, stats) = deep_scrubbed(&mut bench);
    assert!(lines.len() == 1 && lines[0].ends_with(" Key count: 3000 Size (bytes): 9000"), "{lines:?}");
    assert_eq!(stats.num_large_omap_objects, 0, "older programs could not read the figure");
    bench.take_map(|map| map.level = types::level::Level(4));
    assert_eq!(deep_scrubbed(&mut bench).1.num_large_omap_objects, 1);
}

/// Returns what `rados list-inconsistent-obj` (0) is told.
fn inconsistent(bench: &mut Bench, snapsets: u32) -> Vec<InconsistentObject> {
    let list = ScrubList { snapsets, max: 10, ..ScrubList::default() };
    let op = Op { input: list.to_bytes(), ..Op::new(SCRUBLS, OpArgs::None) };
    let reply = bench.run("", vec![op]);
    let page = ScrubPage::from_bytes(&reply.ops[0].output.contiguous()).expect("a page");
    page.values.iter().map(|bytes| InconsistentObject::from_bytes(bytes).expect("a finding")).collect()
}

#[test]
fn writes_during_a_scrub_are_counted_once() {
    let mut bench = Bench::new(1);
    fill(&mut bench, 50);
    bench.config.step_pause = Duration::from_millis(10);
    let id = *bench.pgs.keys().next().expect("a group");
    bench.with(id, |pg, ctx| pg.start_scrub(ctx, false));
    for i in 0..60 {
        bench.pass(Duration::from_millis(3));
        bench.run(&format!("object{i}"), full(&vec![1; i]));
        if i % 7 == 0 {
            bench.run(&format!("object{i}"), vec![Op::new(DELETE, OpArgs::None)]);
        }
    }
    bench.pass(Duration::from_secs(2));
    assert!(bench.logged.iter().any(|line| line.contains("scrub ok")));
    assert!(!bench.logged.iter().any(|line| line.contains("mismatch")), "{:?}", bench.logged);
}

#[test]
fn removal_leaves_nothing() {
    for miss in [false, true] {
        let mut bench = Bench::new(2);
        fill(&mut bench, 50);
        bench.store.miss = miss;
        let ids: Vec<_> = bench.pgs.keys().copied().collect();
        bench.with(ids[0], |pg, ctx| pg.remove(ctx));
        let half = bench.store.objects().count();
        bench.restart();
        bench.pass(Duration::from_secs(1));
        assert_eq!(bench.removed, [ids[0]], "a removal goes on after a restart");
        assert!(half > 50 && bench.store.objects().count() < 100);
        bench.with(ids[1], |pg, ctx| pg.remove(ctx));
        bench.pass(Duration::from_secs(1));
        assert_eq!(bench.removed, ids);
        let empty = objectstore::memory::MemStore::new();
        assert!(bench.store.same_content(&empty));
    }
}

#[test]
fn a_group_that_cannot_be_read_says_so() {
    let mut bench = Bench::new(1);
    fill(&mut bench, 1);
    let id = *bench.pgs.keys().next().expect("a group");
    use objectstore::{MetaChange, ObjectStore, Ticket, Transaction};
    let meta = vec![MetaChange::Set("i".into(), "junk".into())];
    bench.store.submit(Transaction { scope: id, meta, ..Transaction::default() }, Ticket(1 << 40)).expect("room");
    while bench.store.poll_event().is_some() {}
    bench.restart();
    assert!(bench.logged.iter().any(|line| line.contains("info of the group")), "{:?}", bench.logged);
    assert_eq!(bench.run("object0", full(b"x")).result, Errno::EIO.wire());
    assert_eq!(bench.pgs.get_mut(&id).expect("the group").stats().state, PgState::DOWN);
}

#[test]
fn a_group_that_can_be_read_again_serves_again() {
    use objectstore::{Hold, MetaChange, ObjectStore, Ticket, Transaction, View};
    fn set(bench: &mut Bench, id: types::SpgId, value: Bytes) {
        let meta = vec![MetaChange::Set("i".into(), value)];
        bench.store.submit(Transaction { scope: id, meta, ..Transaction::default() }, Ticket(1 << 40)).expect("room");
        while bench.store.poll_event().is_some() {}
    }
    for miss in [false, true] {
        let mut bench = Bench::new(1);
        fill(&mut bench, 3);
        let id = *bench.pgs.keys().next().expect("a group");
        let good = bench.store.meta_get(Hold(0), &id, b"i").expect("readable").expect("there");
        set(&mut bench, id, "junk".into());
        bench.store.miss = miss;
        bench.restart();
        for _ in 0..3 {
            bench.with(id, |pg, ctx| pg.reload(ctx));
            bench.settle();
            assert!(bench.pgs[&id].load_failed());
        }
        set(&mut bench, id, good);
        bench.with(id, |pg, ctx| pg.reload(ctx));
        bench.settle();
        assert!(bench.pgs[&id].is_active() && !bench.pgs[&id].load_failed());
        assert_eq!(read(&mut bench, "object2"), "new");
        bench.with(id, |pg, ctx| pg.reload(ctx));
        assert!(bench.pgs[&id].is_active(), "a group that serves is left alone");
    }
}

#[test]
fn a_broken_group_that_is_being_removed_is_not_read_again() {
    use objectstore::{MetaChange, ObjectStore, Ticket, Transaction};
    let mut bench = Bench::new(1);
    fill(&mut bench, 3);
    let id = *bench.pgs.keys().next().expect("a group");
    let meta = vec![MetaChange::Set("i".into(), "junk".into())];
    bench.store.submit(Transaction { scope: id, meta, ..Transaction::default() }, Ticket(1 << 40)).expect("room");
    while bench.store.poll_event().is_some() {}
    bench.restart();
    assert!(bench.pgs[&id].load_failed());
    bench.with(id, |pg, ctx| pg.remove(ctx));
    assert!(bench.pgs.get(&id).is_none_or(|pg| !pg.load_failed()));
}
