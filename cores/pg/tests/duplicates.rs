//! Exactly once: a request that comes again is answered from the log, across sessions and restarts.

mod bench;

use bench::{Bench, peer, request};
use bytes::Bytes;
use messages::osd::{Op, OpArgs, OsdOp, OsdOpReply, code, flags};
use types::{EVersion, Errno, SessionId};

fn append(text: &'static str) -> OsdOp {
    request("a", vec![Op::extent(code::APPEND, 0, text.len() as u64, Bytes::from_static(text.as_bytes()))])
}

fn content(bench: &mut Bench, name: &str) -> Bytes {
    bench.output(name, vec![Op::extent(code::READ, 0, 0, Bytes::new())])
}

#[test]
fn a_write_that_comes_again_is_done_once() {
    let mut bench = Bench::new(1);
    let first = bench.request(10, 1, append("x"));
    let again = bench.request(10, 1, OsdOp { retry: 1, flags: flags::RETRY, ..append("x") });
    assert_eq!((again.result, again.replay_version, again.user_version), (0, first.replay_version, first.user_version));
    assert_eq!(again.retry, 1);
    // The same number from another client is another request.
    bench.request(11, 1, append("y"));
    assert_eq!(content(&mut bench, "a"), "xy");
}

#[test]
fn after_a_restart_too_and_failures_as_well() {
    let mut bench = Bench::new(1);
    bench.request(10, 1, append("x"));
    let exclusive = || request("a", vec![Op { flags: 1, ..Op::new(code::CREATE, OpArgs::None) }]);
    let failed = bench.request(10, 2, exclusive());
    assert_eq!(failed.result, Errno::EEXIST.wire());
    bench.run("a", vec![Op::new(code::DELETE, OpArgs::None)]);
    bench.restart();
    assert_eq!(bench.request(10, 1, append("x")).result, 0);
    assert_eq!(bench.request(10, 2, exclusive()).result, Errno::EEXIST.wire(), "though it would succeed now");
    assert_eq!(bench.run("a", vec![Op::new(code::STAT, OpArgs::None)]).result, Errno::ENOENT.wire());
}

#[test]
fn a_write_that_changed_nothing_tells_the_objects_version_again() {
    let mut bench = Bench::new(1);
    let written = bench.request(10, 1, append("x")).user_version;
    // The group's version moves on, the object's does not.
    let other = bench.request(10, 2, OsdOp { oid: "b".into(), ..append("y") }).user_version;
    assert!(other > written, "{other} {written}");
    let exclusive = || request("a", vec![Op { flags: 1, ..Op::new(code::CREATE, OpArgs::None) }]);
    let guarded =
        || request("a", vec![Op::new(code::ASSERT_VER, OpArgs::AssertVer { version: written + 9 }), append("x").ops.remove(0)]);
    let nothing = || request("a", vec![Op::new(code::CREATE, OpArgs::None)]);
    let gone = || request("c", vec![Op::new(code::DELETE, OpArgs::None)]);
    let firsts: Vec<OsdOpReply> =
        [exclusive(), guarded(), nothing()].into_iter().zip(3..).map(|(op, tid)| bench.request(10, tid, op)).collect();
    assert_eq!(firsts[0].result, Errno::EEXIST.wire());
    assert!(firsts[1].result < 0);
    assert!(firsts[..2].iter().all(|first| first.user_version == written), "{firsts:?}");
    // Nobody has a version of what is not there: it is the group's.
    let missing = bench.request(10, 9, gone());
    assert_eq!(missing.result, Errno::ENOENT.wire());
    assert!(missing.user_version >= other);
    bench.request(10, 20, OsdOp { oid: "b".into(), ..append("z") });
    for restarted in [false, true] {
        if restarted {
            bench.restart();
        }
        for ((op, tid), first) in [exclusive(), guarded(), nothing()].into_iter().zip(3..).zip(&firsts) {
            let again = bench.request(10, tid, op);
            assert_eq!((again.result, again.user_version), (first.result, first.user_version), "tid {tid}");
        }
        let again = bench.request(10, 9, gone());
        assert_eq!((again.result, again.user_version), (missing.result, missing.user_version));
    }
}

#[test]
fn a_repeated_request_waits_for_the_first() {
    let mut bench = Bench::new(1);
    bench.store.hold_commits = true;
    bench.deliver(SessionId(10), peer(10), 1, append("x"));
    bench.deliver(SessionId(12), peer(10), 1, append("x"));
    bench.settle();
    assert!(bench.sent.is_empty(), "nothing is promised before it is durable");
    bench.store.commit(1);
    bench.settle();
    let sessions: Vec<u64> = bench.sent.iter().map(|(s, _)| s.0).collect();
    assert_eq!(sessions, [10, 12]);
    assert_eq!(content_uncommitted(&mut bench), "x");
}

fn content_uncommitted(bench: &mut Bench) -> Bytes {
    bench.store.hold_commits = false;
    content(bench, "a")
}

#[test]
fn returns_of_each_operation_are_remembered() {
    let mut bench = Bench::new(1);
    let op = || OsdOp { flags: flags::RETURNVEC, ..request("a", vec![Op::call("hello", "write_return_data", b"")]) };
    let first = bench.request(10, 1, op());
    assert_eq!(first.ops[0].output.to_vec(), b"you might see this");
    bench.restart();
    let again = bench.request(10, 1, op());
    assert_eq!(again.ops[0].output, first.ops[0].output);
}

#[test]
fn records_outlive_the_log() {
    let mut bench = Bench::new(1);
    bench.config.log_entries = 100;
    bench.config.dup_entries = 300;
    for tid in 1..=1000 {
        bench.request(10, tid, append("x"));
    }
    let query = bench.pgs.values().next().expect("a group").query();
    assert!((100..=200).contains(&query.log_size) && (200..=300).contains(&query.log_dups), "{query:?}");
    for restarted in [false, true] {
        if restarted {
            bench.restart();
            let loaded = bench.pgs.values().next().expect("a group").query();
            assert_eq!((loaded.log_size, loaded.log_dups, loaded.log_tail), (query.log_size, query.log_dups, query.log_tail));
        }
        for tid in [1000, 900, 700] {
            let again: OsdOpReply = bench.request(10, tid, append("x"));
            assert_eq!(again.replay_version, EVersion::new(5, tid), "tid {tid} restarted {restarted}");
        }
    }
    assert_eq!(content(&mut bench, "a").len(), 1000);
    // What is forgotten is done again: clients do not keep requests that long.
    bench.request(10, 1, append("x"));
    assert_eq!(content(&mut bench, "a").len(), 1001);
}

#[test]
fn what_is_not_durable_is_neither_answered_nor_remembered() {
    let mut bench = Bench::new(1);
    bench.request(10, 1, append("x"));
    bench.store.hold_commits = true;
    bench.deliver(SessionId(10), peer(10), 2, append("y"));
    bench.settle();
    bench.store.hold_commits = false;
    bench.restart();
    assert_eq!(content(&mut bench, "a"), "x");
    assert_eq!(bench.request(10, 2, append("y")).result, 0);
    assert_eq!(content(&mut bench, "a"), "xy");
}
