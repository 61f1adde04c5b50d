//! Snapshots: clones on write, reads of the past, rollback, deletion, trimming.

mod bench;

use bench::{Bench, POOL, request};
use bytes::Bytes;
use denc::Decode;
use maps::{PoolSnap, pool_flags};
use messages::ops;
use messages::osd::{Op, OpArgs, OsdOp, OsdOpReply, code::*};
use std::time::Duration;
use types::{Errno, SnapId, UTime};

fn put(offset: u64, text: &[u8]) -> Vec<Op> {
    vec![Op::extent(WRITE, offset, text.len() as u64, Bytes::copy_from_slice(text))]
}

fn full(text: &[u8]) -> Vec<Op> {
    vec![Op::extent(WRITEFULL, 0, text.len() as u64, Bytes::copy_from_slice(text))]
}

/// A write under a snapshot context: the snapshots, oldest first.
fn under(bench: &mut Bench, snaps: &[u64], ops: Vec<Op>) -> OsdOpReply {
    let snap_seq = snaps.last().copied().unwrap_or(0);
    bench.ask(OsdOp { snap_seq, snaps: snaps.iter().rev().copied().collect(), ..request("o", ops) })
}

fn read_at(bench: &mut Bench, snap: u64) -> Result<Bytes, i32> {
    let read = vec![Op::extent(READ, 0, 0, Bytes::new())];
    let reply = bench.ask(OsdOp { snapid: SnapId(snap), ..request("o", read) });
    if reply.result < 0 { Err(reply.result) } else { Ok(reply.ops[0].output.contiguous()) }
}

fn snaps(bench: &mut Bench) -> ops::SnapList {
    let list = vec![Op::new(LIST_SNAPS, OpArgs::None)];
    let reply = bench.ask(OsdOp { snapid: SnapId::DIR, ..request("o", list) });
    assert_eq!(reply.result, 0);
    ops::SnapList::from_bytes(&reply.ops[0].output.contiguous()).expect("a list")
}

fn remove(bench: &mut Bench, snap: u64) {
    bench.take_map(|map| map.removed_snaps_queue.entry(POOL).or_default().insert(snap, 1));
    bench.pass(Duration::from_secs(1));
}

fn sums(bench: &mut Bench) -> (i64, i64, i64, i64) {
    let s = bench.pgs.values_mut().next().expect("a group").stats().stats;
    (s.num_objects, s.num_object_clones, s.num_bytes, s.num_whiteouts)
}

/// Statistics are what a scrub counts.
fn scrub(bench: &mut Bench) {
    let before = sums(bench);
    for id in bench.pgs.keys().copied().collect::<Vec<_>>() {
        bench.with(id, |pg, ctx| pg.start_scrub(ctx, true));
    }
    bench.pass(Duration::from_secs(1));
    assert_eq!(sums(bench), before, "what was counted along the way is what is there: {:?}", bench.logged);
}

const ENOENT: i32 = Errno::ENOENT.wire();

#[test]
fn writes_keep_what_snapshots_show() {
    let mut bench = Bench::new(1);
    under(&mut bench, &[], full(b"first"));
    under(&mut bench, &[3], put(1, b"ECO"));
    under(&mut bench, &[3], put(0, b"s"));
    under(&mut bench, &[3, 7], full(b"third time"));
    assert_eq!(read_at(&mut bench, 3), Ok("first".into()));
    assert_eq!(read_at(&mut bench, 7), Ok("sECOt".into()));
    assert_eq!(read_at(&mut bench, SnapId::HEAD.0), Ok("third time".into()));
    assert_eq!(read_at(&mut bench, 9), Ok("third time".into()), "nothing was written since");
    let list = snaps(&mut bench);
    let clones: Vec<_> = list.clones.iter().map(|c| (c.cloneid.0, c.snaps.clone(), c.size, c.overlap.clone())).collect();
    assert_eq!(clones[0], (3, vec![3], 5, vec![(4, 1)]));
    assert_eq!(clones[1], (7, vec![7], 5, vec![]));
    assert_eq!(clones[2], (SnapId::HEAD.0, vec![], 10, vec![]));
    assert_eq!((list.seq, sums(&mut bench)), (7, (3, 2, 5 + 4 + 10, 0)));
    scrub(&mut bench);
    bench.restart();
    assert_eq!(read_at(&mut bench, 3), Ok("first".into()));
}

#[test]
fn what_did_not_exist_is_not_there() {
    let mut bench = Bench::new(1);
    under(&mut bench, &[2], full(b"x"));
    assert_eq!(read_at(&mut bench, 2), Err(ENOENT), "it was made after the snapshot");
    under(&mut bench, &[2, 5], vec![Op::new(DELETE, OpArgs::None)]);
    assert_eq!(read_at(&mut bench, SnapId::HEAD.0), Err(ENOENT));
    assert_eq!(read_at(&mut bench, 5), Ok("x".into()));
    assert_eq!(sums(&mut bench), (2, 1, 1, 1), "an empty head stays for the clone");
    let exclusive = vec![Op { flags: 1, ..Op::new(CREATE, OpArgs::None) }];
    assert_eq!(under(&mut bench, &[2, 5, 6], exclusive).result, 0, "it can be made again");
    assert_eq!(read_at(&mut bench, 6), Err(ENOENT));
    assert_eq!(sums(&mut bench), (2, 1, 1, 0));
    scrub(&mut bench);
}

#[test]
fn back_to_a_snapshot() {
    let mut bench = Bench::new(1);
    let back = |snap| vec![Op::new(ROLLBACK, OpArgs::Snap { snap: SnapId(snap) })];
    under(&mut bench, &[], full(b"first"));
    assert_eq!(under(&mut bench, &[3], back(3)).result, 0, "the head is what the snapshot shows");
    under(&mut bench, &[3], put(0, b"F"));
    under(&mut bench, &[3, 4], full(b"something else"));
    assert_eq!(under(&mut bench, &[3, 4], back(3)).result, 0);
    assert_eq!(read_at(&mut bench, SnapId::HEAD.0), Ok("first".into()));
    assert_eq!(read_at(&mut bench, 4), Ok("First".into()));
    scrub(&mut bench);
    under(&mut bench, &[3, 4], vec![Op::new(DELETE, OpArgs::None)]);
    assert_eq!(under(&mut bench, &[3, 4], back(4)).result, 0);
    assert_eq!(read_at(&mut bench, SnapId::HEAD.0), Ok("First".into()));
    assert_eq!(under(&mut bench, &[3, 4], back(2)).result, 0, "before it existed");
    assert_eq!(read_at(&mut bench, SnapId::HEAD.0), Err(ENOENT));
    scrub(&mut bench);
}

#[test]
fn removed_snapshots_are_trimmed() {
    let mut bench = Bench::new(1);
    under(&mut bench, &[], full(b"first"));
    under(&mut bench, &[1], put(0, b"S"));
    under(&mut bench, &[1, 2, 3], put(1, b"T"));
    under(&mut bench, &[1, 2, 3, 4], vec![Op::new(DELETE, OpArgs::None)]);
    assert_eq!(sums(&mut bench).1, 3);
    remove(&mut bench, 3);
    assert_eq!(sums(&mut bench).1, 3, "the clone still serves snapshot 2");
    assert_eq!(read_at(&mut bench, 3), Err(ENOENT));
    assert_eq!(read_at(&mut bench, 2), Ok("Sirst".into()));
    remove(&mut bench, 2);
    assert_eq!(sums(&mut bench).1, 2);
    scrub(&mut bench);
    assert_eq!((read_at(&mut bench, 1), read_at(&mut bench, 4)), (Ok("first".into()), Ok("STrst".into())));
    remove(&mut bench, 1);
    remove(&mut bench, 4);
    assert_eq!((sums(&mut bench), bench.store.objects().count()), ((0, 0, 0, 0), 0));
    let report = bench.pgs.values_mut().next().expect("a group").stats();
    assert_eq!((report.snap_trimq_len, report.purged_snaps), (0, vec![(1, 4)]));
    // When the monitors know, nothing is remembered.
    bench.take_map(|map| drop(map.removed_snaps_queue.remove(&POOL)));
    assert_eq!(bench.pgs.values_mut().next().expect("a group").stats().purged_snaps, []);
}

#[test]
fn trimming_goes_on_after_a_restart() {
    let mut bench = Bench::new(1);
    for n in 0..100 {
        let name = format!("o{n}");
        bench.run(&name, full(b"x"));
        bench.ask(OsdOp { snap_seq: 1, snaps: vec![1], ..request(&name, full(b"y")) });
    }
    bench.config.step_pause = Duration::from_secs(1);
    bench.take_map(|map| map.removed_snaps_queue.entry(POOL).or_default().insert(1, 1));
    bench.pass(Duration::from_secs(2));
    let left = sums(&mut bench).1;
    assert!((1..100).contains(&left), "{left}");
    assert!(bench.pgs.values_mut().next().expect("a group").stats().state.has(types::PgState::SNAPTRIM));
    bench.restart();
    bench.pass(Duration::from_secs(20));
    assert_eq!(sums(&mut bench), (100, 0, 100, 0));
    scrub(&mut bench);
}

#[test]
fn pools_with_snapshots_of_their_own() {
    let mut bench = Bench::new(1);
    bench.run("o", full(b"first"));
    bench.take_map(|map| {
        let pool = map.pools.get_mut(&POOL).expect("the pool");
        pool.flags |= pool_flags::POOL_SNAPS;
        pool.snap_seq = 1;
        pool.snaps.insert(1, PoolSnap { snapid: SnapId(1), stamp: UTime::ZERO, name: "s".into() });
    });
    bench.run("o", full(b"second"));
    assert_eq!(read_at(&mut bench, 1), Ok("first".into()));
}

#[test]
fn contexts_are_checked() {
    let mut bench = Bench::new(1);
    let with = |seq, snaps: &[u64]| OsdOp { snap_seq: seq, snaps: snaps.to_vec(), ..request("o", full(b"x")) };
    for bad in [with(1, &[2]), with(3, &[1, 2]), with(3, &[2, 2]), with(u64::MAX - 1, &[2])] {
        assert_eq!(bench.ask(bad).result, Errno::EINVAL.wire());
    }
    assert_eq!(bench.ask(with(3, &[2, 1])).result, 0);
    let old = OsdOp { flags: flags::ORDERSNAP, ..with(2, &[2]) };
    assert_eq!(bench.ask(old).result, -85);
    assert_eq!(bench.ask(OsdOp { snapid: SnapId(2), ..with(3, &[2]) }).result, Errno::EINVAL.wire(), "the past is not written");
}

/// The same sequence on a 16.2.15 cluster; the lists are what `rados listsnaps` printed there.
#[test]
fn overlaps_are_those_of_a_real_cluster() {
    let mut bench = Bench::new(1);
    let back = |snap| vec![Op::new(ROLLBACK, OpArgs::Snap { snap: SnapId(snap) })];
    let cut = vec![Op::extent(TRUNCATE, 2, 0, Bytes::new())];
    let set = |value: &[u8]| vec![Op::xattr(SETXATTR, b"n", value)];
    let steps: Vec<(&[u64], Vec<Op>, &str)> = vec![
        (&[], full(b"first"), "head 5"),
        (&[2], put(1, b"ECO"), "2 5 [0~1,4~1], head 5"),
        (&[2], put(0, b"s"), "2 5 [4~1], head 5"),
        (&[2, 3], full(b"third time"), "2 5 [4~1], 3 5 [], head 10"),
        (&[2, 3], vec![Op::new(DELETE, OpArgs::None)], "2 5 [4~1], 3 5 []"),
        (&[2, 3], back(3), "2 5 [4~1], 3 5 [], head 5"),
        (&[2, 3, 4], back(2), "2 5 [4~1], 3 5 [], 4 5 [], head 5"),
        (&[2], put(0, b"zz"), "2 5 [4~1], 3 5 [], 4 5 [], head 5"),
        (&[2, 3, 4, 5, 6], cut, "2 5 [4~1], 3 5 [], 4 5 [], 6 5 [0~2], head 2"),
        (&[2, 3, 4, 5, 6, 7], set(b"w"), "2 5 [4~1], 3 5 [], 4 5 [], 6 5 [0~2], 7 2 [0~2], head 2"),
        (
            &[2, 3, 4, 5, 6, 7],
            vec![Op::extent(ZERO, 0, 1, Bytes::new())],
            "2 5 [4~1], 3 5 [], 4 5 [], 6 5 [0~2], 7 2 [1~1], head 2",
        ),
    ];
    for (snaps_of, ops, expected) in steps {
        assert_eq!(under(&mut bench, snaps_of, ops).result, 0);
        let listed: Vec<String> = snaps(&mut bench)
            .clones
            .iter()
            .map(|c| {
                let overlap: Vec<String> = c.overlap.iter().map(|(s, l)| format!("{s}~{l}")).collect();
                match c.cloneid {
                    SnapId::HEAD => format!("head {}", c.size),
                    SnapId(id) => format!("{id} {} [{}]", c.size, overlap.join(",")),
                }
            })
            .collect();
        assert_eq!(listed.join(", "), expected);
        scrub(&mut bench);
    }
    assert_eq!(snaps(&mut bench).clones[3].snaps, [5, 6]);
}

#[test]
fn the_ranges_that_clones_share_have_a_bound() {
    let mut bench = Bench::new(1);
    let size = 4_000_000_u64;
    assert_eq!(under(&mut bench, &[], full(&vec![b'a'; size as usize])).result, 0);
    // Each write cuts what the clone shares with the head.
    let writes = |from: u64| (0..2_000).map(|n| put((from + n) * 64, b"b").remove(0)).collect::<Vec<_>>();
    for round in 0..12 {
        assert_eq!(under(&mut bench, &[1], writes(round * 2_000)).result, 0);
        let shared = snaps(&mut bench).clones[0].overlap.len();
        assert!(shared <= 16_384 && (round > 6 || shared as u64 >= round * 2_000), "{shared} ranges after {round} rounds");
    }
    assert_eq!(read_at(&mut bench, 1).expect("the clone"), vec![b'a'; size as usize]);
    scrub(&mut bench);
}

#[test]
fn the_snapshots_of_an_object_have_a_bound() {
    let mut bench = Bench::new(1);
    let (context, most) = (16_384, 2 * 16_384);
    let snaps = |from: u64, many: u64| (from..from + many).collect::<Vec<_>>();
    assert_eq!(under(&mut bench, &[], put(0, b"x")).result, 0);
    assert_eq!(under(&mut bench, &snaps(1, context), put(0, b"x")).result, 0);
    assert_eq!(under(&mut bench, &snaps(1 + context, context), put(0, b"x")).result, 0);
    // One more clone would be one too many; what makes none goes on.
    assert_eq!(under(&mut bench, &snaps(1 + most, 1), put(0, b"y")).result, Errno::EDQUOT.wire());
    assert_eq!(under(&mut bench, &snaps(1 + context, context), put(0, b"z")).result, 0);
    assert_eq!(read_at(&mut bench, SnapId::HEAD.0).expect("the object"), "z");
    // There is room again when one was trimmed.
    remove(&mut bench, 1);
    assert_eq!(under(&mut bench, &snaps(1 + most, 1), put(0, b"y")).result, 0);
}
