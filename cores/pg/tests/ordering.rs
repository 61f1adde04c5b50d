//! Operations on one object: in order, pipelined, linearizable, whatever must be fetched.

mod bench;

use bench::{Bench, peer, request};
use bytes::Bytes;
use messages::osd::{Op, OpArgs, OsdOpReply, code};
use types::{Errno, SessionId};

fn write(name: &str, text: &'static str) -> messages::osd::OsdOp {
    request(name, vec![Op::extent(code::WRITEFULL, 0, text.len() as u64, Bytes::from_static(text.as_bytes()))])
}

fn read(name: &str) -> messages::osd::OsdOp {
    request(name, vec![Op::extent(code::READ, 0, 0, Bytes::new())])
}

fn tids(bench: &Bench) -> Vec<u64> {
    bench.sent.iter().map(|(_, m)| m.tid).collect()
}

#[test]
fn a_read_waits_for_the_write_that_it_sees() {
    let mut bench = Bench::new(1);
    bench.store.hold_commits = true;
    for (tid, op) in [(1, write("a", "one")), (2, write("a", "two")), (3, read("a")), (4, read("b")), (5, write("a", "x"))] {
        bench.deliver(SessionId(10), peer(10), tid, op);
    }
    bench.settle();
    // Only the read of another object has nothing to wait for.
    assert_eq!(tids(&bench), [4]);
    assert_eq!(bench.store.uncommitted(), 3, "writes of one object are under way together");
    bench.store.commit(1);
    bench.settle();
    assert_eq!(tids(&bench), [4, 1]);
    bench.store.commit(1);
    bench.settle();
    assert_eq!(tids(&bench), [4, 1, 2, 3]);
    let seen = OsdOpReply::decode(&bench.sent[3].1).expect("a reply");
    assert_eq!(seen.ops[0].output.to_vec(), b"two");
    bench.store.commit(1);
    bench.settle();
    assert_eq!(tids(&bench), [4, 1, 2, 3, 5]);
}

#[test]
fn what_misses_holds_its_object_only() {
    let mut bench = Bench::new(1);
    bench.request(10, 1, write("a", "one"));
    bench.sent.clear();
    bench.store.miss = true;
    bench.deliver(SessionId(10), peer(10), 2, read("a"));
    bench.deliver(SessionId(10), peer(10), 3, write("a", "two"));
    bench.deliver(SessionId(10), peer(10), 4, read("a"));
    bench.settle();
    assert_eq!(tids(&bench), [2, 3, 4]);
    let texts: Vec<Vec<u8>> =
        [0, 2].iter().map(|i: &usize| OsdOpReply::decode(&bench.sent[*i].1).expect("a reply").ops[0].output.to_vec()).collect();
    assert_eq!(texts, [b"one".to_vec(), b"two".to_vec()]);
}

#[test]
fn a_session_that_closes_begins_nothing_more() {
    let mut bench = Bench::new(1);
    bench.store.miss = true;
    bench.deliver(SessionId(10), peer(10), 1, write("a", "one"));
    bench.deliver(SessionId(10), peer(10), 2, write("a", "two"));
    let id = *bench.pgs.keys().next().expect("a group");
    bench.with(id, |pg, ctx| pg.session_closed(ctx, SessionId(10)));
    bench.settle();
    assert_eq!(bench.output("a", vec![Op::extent(code::READ, 0, 0, Bytes::new())]), "one");
}

#[test]
fn a_vector_is_all_or_nothing() {
    let mut bench = Bench::new(1);
    let vector = vec![
        Op::extent(code::WRITEFULL, 0, 1, Bytes::from_static(b"x")),
        Op::xattr(code::SETXATTR, b"n", b"v"),
        Op { flags: 1, ..Op::new(code::CREATE, OpArgs::None) },
    ];
    let reply = bench.run("a", vector);
    assert_eq!(reply.result, Errno::EEXIST.wire());
    assert_eq!(reply.ops.iter().map(|o| o.rval).collect::<Vec<_>>(), [0, 0, Errno::EEXIST.wire()]);
    assert_eq!(bench.run("a", vec![Op::new(code::STAT, OpArgs::None)]).result, Errno::ENOENT.wire());
    // What may fail does not stop the rest.
    let vector = vec![Op { flags: 2, ..Op::xattr(code::RMXATTR, b"n", b"") }, Op::new(code::CREATE, OpArgs::None)];
    let reply = bench.run("a", vector);
    assert_eq!((reply.result, reply.ops[0].rval), (0, Errno::ENOENT.wire()));
}

#[test]
fn damage_is_told_to_client_and_operator() {
    let mut bench = Bench::new(1);
    bench.request(10, 1, write("a", "one"));
    let object = bench.store.objects().next().expect("an object").clone();
    bench.store.damaged.insert(object.clone());
    let reply = bench.request(10, 2, read("a"));
    assert_eq!(reply.result, Errno::EIO.wire());
    let line = bench.logged.first().expect("a line");
    assert!(line.contains(&object.to_string()) && line.contains("offset 0") && line.contains("00000002 found"), "{line}");
}

#[test]
fn a_write_into_what_cannot_be_read_is_refused_and_a_whole_one_heals() {
    let mut bench = Bench::new(1);
    bench.request(10, 1, write("a", "one"));
    let object = bench.store.objects().next().expect("an object").clone();
    bench.store.damaged.insert(object.clone());
    let part = || request("a", vec![Op::extent(code::WRITE, 1, 1, Bytes::from_static(b"x"))]);
    assert_eq!(bench.request(10, 2, part()).result, Errno::EIO.wire());
    assert!(bench.logged.iter().any(|line| line.contains("is damaged")), "{:?}", bench.logged);
    assert_eq!(bench.request(10, 3, write("a", "t")).result, 0, "what is replaced as a whole need not be read");
    assert_eq!(bench.request(10, 4, write("a", "two")).result, 0);
    bench.store.damaged.clear();
    assert_eq!(bench.request(10, 2, part()).result, 0, "what was refused is not remembered");
    assert_eq!(bench.output("a", vec![Op::extent(code::READ, 0, 0, Bytes::new())]), "txo");
}

#[test]
fn a_full_store_refuses_writes_and_takes_deletions() {
    let mut bench = Bench::new(1);
    bench.request(10, 1, write("a", "one"));
    bench.store.full = true;
    bench.deliver(types::SessionId(10), bench::peer(10), 9, write("b", "two"));
    bench.settle();
    let waits = (bench.dropped.last().copied(), bench.overran);
    assert_eq!(waits, (Some((types::SessionId(10), 9)), 1), "a plain write waits for a map that shows the space");
    let tries = messages::osd::OsdOp { flags: messages::osd::flags::FULL_TRY, ..write("b", "two") };
    assert_eq!(bench.request(10, 2, tries).result, Errno::ENOSPC.wire());
    assert_eq!(bench.request(10, 3, request("a", vec![Op::new(code::DELETE, OpArgs::None)])).result, 0);
    bench.store.full = false;
    assert_eq!(bench.request(10, 2, write("b", "two")).result, 0, "what was refused is not remembered");
}

#[test]
fn a_write_that_the_host_has_no_room_for_waits_whatever_the_ratios_say() {
    let mut bench = Bench::new(1);
    std::sync::Arc::make_mut(&mut bench.map).full_ratio = 0.95;
    bench.store.full = true;
    assert_eq!(bench.request(10, 1, write("a", "one")).result, Errno::ENOSPC.wire(), "too large for a disk that is not full");
    bench.store.host_full = true;
    bench.deliver(types::SessionId(10), bench::peer(10), 2, write("a", "one"));
    bench.settle();
    assert_eq!((bench.dropped.last().copied(), bench.overran), (Some((types::SessionId(10), 2)), 1));
    let tries = messages::osd::OsdOp { flags: messages::osd::flags::FULL_TRY, ..write("a", "one") };
    assert_eq!(bench.request(10, 3, tries).result, Errno::ENOSPC.wire(), "who asks is told");
}
