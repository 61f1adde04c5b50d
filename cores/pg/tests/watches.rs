//! Watches and notifications: who is told, who answers, what outlives connections and restarts.

mod bench;

use bench::{Bench, peer, request};
use bytes::Bytes;
use denc::{Decode, Encode};
use messages::ops;
use messages::osd::code::{self, watch_event, watch_op};
use messages::osd::{Op, OpArgs, OsdOpReply, WatchNotify};
use std::time::Duration;
use types::{Errno, SessionId};

fn watch(op: u8, cookie: u64, timeout: u32) -> Vec<Op> {
    vec![Op::new(code::WATCH, OpArgs::Watch { cookie, version: 0, op, generation: 0, timeout })]
}

fn notify(timeout: u32) -> Vec<Op> {
    let input = ops::Notify { version: 1, timeout, payload: "hello".into() }.to_bytes();
    vec![Op { input, ..Op::new(code::NOTIFY, OpArgs::Notify { cookie: 77 }) }]
}

fn ack(notify_id: u64, cookie: u64, reply: &'static str) -> Vec<Op> {
    let input = ops::NotifyAck { notify_id, cookie, reply: reply.into() }.to_bytes();
    vec![Op { input, ..Op::new(code::NOTIFY_ACK, OpArgs::Notify { cookie: 0 }) }]
}

struct Room {
    bench: Bench,
    tid: u64,
}

impl Room {
    fn new() -> Self {
        let mut room = Self { bench: Bench::new(1), tid: 0 };
        assert_eq!(room.run(1, vec![Op::new(code::CREATE, OpArgs::None)]).result, 0);
        room
    }

    fn run(&mut self, client: u64, ops: Vec<Op>) -> OsdOpReply {
        self.tid += 1;
        self.bench.request(client, self.tid, request("o", ops))
    }

    fn result(&mut self, client: u64, ops: Vec<Op>) -> i32 {
        self.run(client, ops).result
    }

    /// Events that a client was sent since the last look.
    fn events(&mut self, client: u64) -> Vec<WatchNotify> {
        let mine = |(session, m): &(SessionId, types::Message)| *session == SessionId(client) && m.kind == WatchNotify::KIND;
        let events = self.bench.sent.iter().filter(|s| mine(s)).map(|(_, m)| WatchNotify::decode(m).expect("an event"));
        let events = events.collect();
        self.bench.sent.retain(|s| !mine(s));
        events
    }

    fn watchers(&mut self) -> Vec<ops::WatchItem> {
        let output = self.bench.output("o", vec![Op::new(code::LIST_WATCHERS, OpArgs::None)]);
        ops::WatchList::from_bytes(&output).expect("a list").entries
    }

    fn close(&mut self, client: u64) {
        let id = *self.bench.pgs.keys().next().expect("a group");
        self.bench.with(id, |pg, ctx| pg.session_closed(ctx, SessionId(client)));
    }
}

#[test]
fn watchers_are_told_and_their_answers_collected() {
    let mut room = Room::new();
    assert_eq!(room.result(2, watch(watch_op::WATCH, 20, 0)), 0);
    assert_eq!(room.result(3, watch(watch_op::WATCH, 30, 15)), 0);
    let list: Vec<_> = room.watchers().iter().map(|w| (w.name.num, w.cookie, w.timeout)).collect();
    assert_eq!(list, [(2, 20, 30), (3, 30, 15)]);
    let reply = room.run(4, notify(10));
    let id = u64::from_bytes(&reply.ops[0].output.contiguous()).expect("an id");
    for (client, cookie) in [(2, 20), (3, 30)] {
        let told = room.events(client);
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].event, told[0].cookie, told[0].notify_id, told[0].notifier), (watch_event::NOTIFY, cookie, id, 4));
        assert_eq!(told[0].payload, "hello");
        assert!(room.events(4).is_empty(), "not all have answered");
        assert_eq!(room.result(client, ack(id, cookie, "yes")), 0);
    }
    let done = room.events(4);
    assert_eq!(
        (done[0].event, done[0].cookie, done[0].notify_id, done[0].return_code),
        (watch_event::NOTIFY_COMPLETE, 77, id, 0)
    );
    let replies = ops::NotifyReplies::from_bytes(&done[0].replies.contiguous()).expect("replies");
    assert_eq!(replies.replies, [((2, 20), Bytes::from("yes")), ((3, 30), Bytes::from("yes"))]);
    assert!(replies.timed_out.is_empty());
}

#[test]
fn without_watchers_a_notification_ends_at_once() {
    let mut room = Room::new();
    assert_eq!(room.result(4, notify(10)), 0);
    assert_eq!(room.events(4)[0].return_code, 0);
    assert_eq!(room.bench.run("nosuch", notify(10)).result, Errno::ENOENT.wire());
    assert_eq!(room.bench.run("nosuch", watch(watch_op::WATCH, 1, 0)).result, Errno::ENOENT.wire());
}

#[test]
fn silence_is_a_timeout_and_names_who_was_silent() {
    let mut room = Room::new();
    room.run(2, watch(watch_op::WATCH, 20, 0));
    room.run(4, notify(5));
    room.bench.pass(Duration::from_secs(4));
    assert!(room.events(4).is_empty());
    room.bench.pass(Duration::from_secs(2));
    let done = room.events(4);
    assert_eq!(done[0].return_code, Errno::ETIMEDOUT.wire());
    let replies = ops::NotifyReplies::from_bytes(&done[0].replies.contiguous()).expect("replies");
    assert_eq!(replies.timed_out, [(2, 20)]);
}

#[test]
fn a_watch_lives_as_long_as_it_is_pinged() {
    let mut room = Room::new();
    room.run(2, watch(watch_op::WATCH, 20, 10));
    for _ in 0..5 {
        room.bench.pass(Duration::from_secs(8));
        assert_eq!(room.result(2, watch(watch_op::PING, 20, 0)), 0);
    }
    room.close(2);
    room.bench.pass(Duration::from_secs(9));
    assert_eq!(room.watchers().len(), 1);
    assert_eq!(room.result(2, watch(watch_op::PING, 20, 0)), Errno::ETIMEDOUT.wire(), "the connection is not known");
    assert_eq!(room.result(2, watch(watch_op::RECONNECT, 20, 10)), 0);
    room.bench.pass(Duration::from_secs(9));
    assert_eq!(room.result(2, watch(watch_op::PING, 20, 0)), 0);
    room.bench.pass(Duration::from_secs(11));
    assert!(room.watchers().is_empty());
    assert_eq!(room.events(2).last().map(|e| e.event), Some(watch_event::DISCONNECT));
    assert_eq!(room.result(2, watch(watch_op::PING, 20, 0)), Errno::ENOTCONN.wire());
    assert_eq!(room.result(2, watch(watch_op::RECONNECT, 20, 10)), Errno::ENOTCONN.wire());
    assert_eq!(room.result(2, watch(watch_op::UNWATCH, 20, 0)), 0, "ending what is over is no error");
}

#[test]
fn a_restart_gives_watches_their_full_time() {
    let mut room = Room::new();
    room.run(2, watch(watch_op::WATCH, 20, 10));
    room.run(3, watch(watch_op::WATCH, 30, 10));
    room.bench.pass(Duration::from_secs(9));
    room.bench.restart();
    room.bench.pass(Duration::from_secs(9));
    assert_eq!(room.watchers().len(), 2);
    // Those that have not come back are waited for.
    room.run(4, notify(5));
    assert!(room.events(4).is_empty());
    assert_eq!(room.result(2, watch(watch_op::RECONNECT, 20, 10)), 0);
    let told = room.events(2);
    assert_eq!(told.len(), 1, "what it missed is said again");
    room.run(2, ack(told[0].notify_id, 20, ""));
    room.bench.pass(Duration::from_secs(2));
    let done = room.events(4);
    assert_eq!(done[0].return_code, 0, "the other watch ended meanwhile");
    assert_eq!(room.watchers().len(), 1);
    room.bench.restart();
    assert_eq!(room.watchers().len(), 1);
}

#[test]
fn deletion_and_fencing_end_watches() {
    let mut room = Room::new();
    room.run(2, watch(watch_op::WATCH, 20, 0));
    room.run(1, vec![Op::new(code::DELETE, OpArgs::None)]);
    assert_eq!(room.events(2)[0].event, watch_event::DISCONNECT);
    room.run(1, vec![Op::new(code::CREATE, OpArgs::None)]);
    room.run(2, watch(watch_op::WATCH, 20, 0));
    room.run(3, watch(watch_op::WATCH, 30, 0));
    let addr = peer(2).addr;
    room.bench.take_map(|map| {
        map.blocklist.insert(addr, types::UTime { sec: u32::MAX, nsec: 0 });
    });
    assert_eq!(room.watchers().iter().map(|w| w.name.num).collect::<Vec<_>>(), [3]);
    assert_eq!(room.bench.pgs.values().next().expect("a group").query().watches, 1);
}

#[test]
fn watches_do_not_move_the_user_version() {
    let mut room = Room::new();
    let before = room.run(1, vec![Op::new(code::STAT, OpArgs::None)]).user_version;
    room.run(2, watch(watch_op::WATCH, 20, 0));
    room.run(2, watch(watch_op::UNWATCH, 20, 0));
    assert_eq!(room.run(1, vec![Op::new(code::STAT, OpArgs::None)]).user_version, before);
}

#[test]
fn watches_are_bounded_for_an_object_and_a_client() {
    let mut room = Room::new();
    let full = Errno::EDQUOT.wire();
    let mut add = |client: u64, from: u64| {
        (from..from + 2_000)
            .take_while(|cookie| match room.result(client, watch(watch_op::WATCH, *cookie, 30)) {
                0 => true,
                other => {
                    assert_eq!(other, full);
                    false
                }
            })
            .count()
    };
    assert_eq!(add(1, 1), 64);
    let all: usize = (2..100).map(|client| add(client, 1)).sum();
    assert_eq!(64 + all, 1_024);
    // Who has a watch may say so again, and who gives one up makes room.
    assert_eq!(room.result(1, watch(watch_op::WATCH, 1, 30)), 0);
    assert_eq!(room.result(1, watch(watch_op::RECONNECT, 1, 30)), 0);
    assert_eq!(room.result(1, watch(watch_op::PING, 1, 30)), 0);
    assert_eq!(room.result(200, watch(watch_op::WATCH, 1, 30)), full);
    assert_eq!(room.result(1, watch(watch_op::UNWATCH, 1, 30)), 0);
    assert_eq!(room.result(200, watch(watch_op::WATCH, 1, 30)), 0);
    assert_eq!(room.watchers().len(), 1_024);
}

fn long_notify(cookie: u64, bytes: usize, timeout: u32) -> Vec<Op> {
    let input = ops::Notify { version: 1, timeout, payload: vec![7; bytes].into() }.to_bytes();
    vec![Op { input, ..Op::new(code::NOTIFY, OpArgs::Notify { cookie }) }]
}

#[test]
fn notifications_that_nobody_answers_are_bounded_in_number_bytes_and_time() {
    let (full, large) = (Errno::EDQUOT.wire(), Errno::EMSGSIZE.wire());
    let mut room = Room::new();
    room.run(2, watch(watch_op::WATCH, 20, 100_000));
    // Of one client: in number,
    let many = (0..1_000).take_while(|n| room.result(4, long_notify(*n, 5, u32::MAX)) == 0).count();
    assert_eq!(many, 256);
    assert_eq!(room.result(4, long_notify(1, 5, 10)), full);
    // in bytes, and many in one request count as many,
    let some = (0..1_000).take_while(|n| room.result(5, long_notify(*n, 1 << 20, u32::MAX)) == 0).count();
    assert_eq!(some, 15);
    let vector = (0..300).flat_map(|n| long_notify(n, 5, 10)).collect();
    assert_eq!(room.result(6, vector), full);
    // of all clients together,
    let all: usize =
        (10..40).map(|c| (0..16).take_while(|n| room.result(c, long_notify(*n, 1 << 20, u32::MAX)) == 0).count()).sum();
    assert!((45..=48).contains(&all), "{all}");
    // each of them,
    assert_eq!(room.result(7, long_notify(1, (4 << 20) + 1, 10)), large);
    // and none for ever, whatever its client says.
    assert!(room.events(4).is_empty());
    for _ in 0..60 {
        room.bench.pass(Duration::from_secs(11));
    }
    assert_eq!(room.events(4).len(), 256);
    assert_eq!(room.events(5).len(), 15);
    assert_eq!(room.result(4, long_notify(1, 5, 10)), 0, "there is room again");
    // An answer is bounded, and times the number of watches what is said.
    assert_eq!(room.result(2, ack(1, 20, "yes")), 0);
    let reply = ops::NotifyAck { notify_id: 1, cookie: 20, reply: vec![7; (1 << 20) + 1].into() }.to_bytes();
    assert_eq!(room.result(2, vec![Op { input: reply, ..Op::new(code::NOTIFY_ACK, OpArgs::Notify { cookie: 0 }) }]), large);
    for client in 100..140 {
        assert_eq!(room.result(client, watch(watch_op::WATCH, 1, 30)), 0);
    }
    assert_eq!(room.result(7, long_notify(1, 2 << 20, 10)), large);
    assert_eq!(room.result(7, long_notify(1, 1 << 20, 10)), 0);
    // What ends with its session leaves room, too.
    for client in 0..200 {
        room.close(client);
    }
    assert_eq!(room.bench.pgs.values().next().expect("a group").notices(), 0);
}

#[test]
fn watches_of_a_client_and_of_an_object_have_a_bound() {
    let mut room = Room::new();
    for cookie in 0..64 {
        assert_eq!(room.result(2, watch(watch_op::WATCH, cookie, 0)), 0, "{cookie}");
    }
    assert_eq!(room.result(2, watch(watch_op::WATCH, 64, 0)), Errno::EDQUOT.wire());
    // What it has is its own still, and others may watch.
    assert_eq!(room.result(2, watch(watch_op::PING, 3, 0)), 0);
    for client in 3..18 {
        for cookie in 0..64 {
            assert_eq!(room.result(client, watch(watch_op::WATCH, cookie, 0)), 0, "client {client}, {cookie}");
        }
    }
    assert_eq!(room.watchers().len(), 1024);
    assert_eq!(room.result(18, watch(watch_op::WATCH, 0, 0)), Errno::EDQUOT.wire());
    assert_eq!(room.result(3, watch(watch_op::UNWATCH, 7, 0)), 0);
    assert_eq!(room.result(18, watch(watch_op::WATCH, 0, 0)), 0, "a place came free");
}
