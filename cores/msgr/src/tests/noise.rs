//! Garbage at every step: connections end with one line in the log, nothing panics, memory stays bounded.

use super::*;
use crate::auth::{Key, Method, ServiceAuth};
use crate::frame::*;
use crate::{Event, Policy};
use denc::Encode as _;
use node::{ConnId, Input, ListenerId, Mono, Now, Output, Outputs};
use std::collections::BTreeMap;
use types::{EntityType, UTime};

const NOW: Now = Now { mono: Mono(1_000_000_000), wall: UTime { sec: 1_700_000_000, nsec: 0 } };

fn servers() -> Vec<Messenger> {
    let mut mon = MonAuth::new(vec![Method::Cephx, Method::None]);
    mon.global_ids = crate::auth::GlobalIds { next: 1, end: 1 << 40 };
    mon.entities.insert(name("client.admin"), Default::default());
    let service = ServiceAuth { methods: vec![Method::Cephx, Method::None], ..ServiceAuth::new(EntityType::Osd) };
    let none = ClientAuth::none(name("osd.1"));
    vec![
        daemon(1, "mon.a", 0, Auth { acceptor: Acceptor::Mon(mon), client: none.clone() }).0,
        daemon(1, "osd.1", 1, Auth { acceptor: Acceptor::Service(service), client: none.clone() }).0,
        daemon(1, "osd.1", 1, Auth { acceptor: Acceptor::Anybody, client: none }).0,
    ]
}

/// A client's valid half of a conversation without authentication, as separate writes.
fn valid(kind: u8, lossless: bool) -> Vec<Vec<u8>> {
    let mut writer = Writer::default();
    let mut steps = vec![BANNER.to_vec()];
    let mut put = |f: &mut dyn FnMut(&mut Writer, &mut Batch)| {
        let mut batch = Batch::default();
        f(&mut writer, &mut batch);
        steps.push(batch.take().to_vec());
    };
    put(&mut |w, b| w.control(Tag::Hello, &Hello { kind, peer: addr(1) }.to_vec(), b));
    let who = if kind == 8 { name("client.admin") } else { name("osd.3") };
    let claim = crate::auth::proto::Claim { kind: 1, name: who, global_id: 77 }.to_bytes();
    put(&mut |w, b| w.control(Tag::AuthRequest, &AuthRequest { method: 1, modes: vec![1], payload: claim.clone() }.to_vec(), b));
    put(&mut |w, b| w.control(Tag::AuthSignature, &[0; 32], b));
    let ident = ClientIdent {
        addrs: EntityAddrVec(vec![addr(5)]),
        target: addr(1),
        gid: 77,
        global_seq: 1,
        supported: types::features::SUPPORTED,
        required: 0,
        flags: u64::from(!lossless),
        cookie: if lossless { 99 } else { 0 },
    };
    put(&mut |w, b| w.control(Tag::ClientIdent, &ident.to_vec(), b));
    for seq in 1..4 {
        let m = message(seq, 50, [0, 300, 40_000][seq as usize - 1]);
        let header = Header { seq, tid: seq, kind: 42, priority: 63, version: 8, ack: 0, compat: 3 };
        put(&mut |w, b| w.message(&header, &m, b));
    }
    put(&mut |w, b| w.control(Tag::Keepalive2, &UTime { sec: 5, nsec: 6 }.to_vec(), b));
    put(&mut |w, b| w.control(Tag::Ack, &number(0), b));
    steps
}

/// Feeds a stream to a new connection; tells whether it was closed, and how many messages and log lines came.
fn feed(m: &mut Messenger, conn: ConnId, mut stream: &[u8], grain: usize) -> (bool, usize, usize) {
    let mut out = Outputs::default();
    m.handle(NOW, Input::Accepted { listener: ListenerId(0), conn, peer: socket(5), local: socket(1) }, &mut out);
    let (mut closed, mut messages, mut lines) = (false, 0, 0);
    loop {
        m.turn(NOW, &mut out);
        let mut asked = None;
        for output in std::mem::take(&mut out.0) {
            match output {
                Output::Receive { buf, conn: c } if c == conn => asked = Some(buf),
                Output::Close { conn: c } => closed |= c == conn,
                Output::Log(_) => lines += 1,
                _ => {}
            }
        }
        while let Some(event) = m.poll_event() {
            if let Event::Message { session, bytes, .. } = event {
                messages += 1;
                m.done(session, bytes);
            }
        }
        let Some(mut buf) = asked.filter(|_| !stream.is_empty() && !closed) else { break };
        let n = buf.len().min(stream.len()).min(grain);
        buf[..n].copy_from_slice(&stream[..n]);
        stream = &stream[n..];
        m.handle(NOW, Input::Received { conn, buf, len: n }, &mut out);
    }
    if !closed {
        m.handle(NOW, Input::Closed { conn, refused: false, why: "end".into() }, &mut out);
    }
    assert_eq!(m.connections(), 0);
    assert_eq!(m.held(), 0);
    (closed, messages, lines)
}

#[test]
fn the_valid_stream_is_accepted() {
    for (lossless, kind) in [(false, 8), (true, 4)] {
        let mut osd = servers().pop().unwrap();
        let (closed, messages, _) = feed(&mut osd, ConnId(2), &valid(kind, lossless).concat(), 1000);
        assert_eq!((closed, messages), (false, 3));
    }
}

#[test]
fn foreign_protocols_are_closed_with_one_line() {
    for garbage in [
        &b"ceph v027"[..],
        b"GET / HTTP/1.1\r\n\r\n",
        &[0; 100],
        b"ceph v2\n\xff\xff",
        b"ceph v2\n\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    ] {
        for mut server in servers() {
            assert_eq!(feed(&mut server, ConnId(2), garbage, 7), (true, 0, 1), "{garbage:?}");
        }
    }
}

#[test]
fn garbage_after_any_step_ends_the_connection() {
    let mut dice = Dice(1);
    for mut server in servers() {
        for round in 0..300u64 {
            let steps = valid(8, false);
            let cut = dice.below(steps.len());
            let mut stream = steps[..cut].concat();
            stream.extend(dice.bytes(200));
            let (closed, messages, _) = feed(&mut server, ConnId(2 * round + 2), &stream, 1 + dice.below(300));
            assert!(closed && messages <= 3, "round {round}");
        }
    }
}

#[test]
fn frames_in_any_order_and_mutated_payloads_never_panic() {
    let mut dice = Dice(2);
    for round in 0..2_000u64 {
        let mut server = servers().swap_remove(dice.below(3));
        let lossless = dice.below(2) == 0;
        let mut steps = valid(if lossless { 4 } else { 8 }, lossless);
        for _ in 0..1 + dice.below(3) {
            let i = dice.below(steps.len());
            match dice.below(5) {
                // A valid frame of any tag with any payload: checksums do not protect from its sender.
                0 | 1 => {
                    let tag = [
                        Tag::Hello,
                        Tag::AuthRequest,
                        Tag::AuthRequestMore,
                        Tag::AuthDone,
                        Tag::ClientIdent,
                        Tag::SessionReconnect,
                        Tag::SessionReset,
                        Tag::Wait,
                        Tag::Ack,
                        Tag::Keepalive2,
                    ][dice.below(10)];
                    let len = dice.below(120);
                    let mut payload = dice.bytes(len);
                    if dice.below(2) == 0 && steps[i].len() > 36 {
                        payload = steps[i][32..steps[i].len() - 4].to_vec();
                        let at = dice.below(payload.len());
                        payload[at] ^= 1 << dice.below(8);
                    }
                    let mut batch = Batch::default();
                    Writer::default().control(tag, &payload, &mut batch);
                    steps[i] = batch.take().to_vec();
                }
                2 => {
                    let j = dice.below(steps.len());
                    steps.swap(i, j);
                }
                3 => {
                    let again = steps[i].clone();
                    steps.insert(i, again);
                }
                _ => {
                    let at = dice.below(steps[i].len());
                    steps[i][at] = dice.next() as u8;
                }
            }
        }
        feed(&mut server, ConnId(2 * round + 2), &steps.concat(), 1 + dice.below(2000));
    }
}

/// The connecting side, with a server that answers mutated or random frames.
#[test]
fn servers_that_talk_nonsense_do_no_harm() {
    let mut dice = Dice(3);
    for round in 0..2_000u64 {
        let auth = match dice.below(2) {
            0 => ClientAuth::none(name("client.admin")),
            _ => ClientAuth::cephx(name("client.admin"), Key::default()),
        };
        let mut client = client(2, "client.admin", Auth::client(auth)).0;
        let mut out = Outputs::default();
        let policy = if dice.below(2) == 0 { Policy::Lossy } else { Policy::Lossless };
        let session = client.connect(NOW, addr(1), EntityType::Mon, policy, &mut out);
        client.send(session, message(1, 10, 10));
        let conn = ConnId(1);
        client.handle(NOW, Input::Connected { conn, local: socket(2) }, &mut out);
        let mut steps = vec![BANNER.to_vec()];
        let mut put = |tag, payload: &[u8]| {
            let mut batch = Batch::default();
            Writer::default().control(tag, payload, &mut batch);
            steps.push(batch.take().to_vec());
        };
        put(Tag::Hello, &Hello { kind: 1, peer: addr(2) }.to_vec());
        let ident = ServerIdent {
            addrs: EntityAddrVec(vec![addr(1)]),
            gid: 0,
            global_seq: 1,
            supported: types::features::SUPPORTED,
            required: 0,
            flags: dice.next() & 1,
            cookie: dice.next() & 3,
        };
        put(Tag::AuthDone, &AuthDone { global_id: 5, mode: 1, payload: Default::default() }.to_vec());
        put(Tag::AuthSignature, &[0; 32]);
        for _ in 0..dice.below(4) {
            let len = [0, 1, 8, 9, 30, 40][dice.below(6)];
            let tag = [
                Tag::SessionReset,
                Tag::SessionRetry,
                Tag::SessionRetryGlobal,
                Tag::SessionReconnectOk,
                Tag::Wait,
                Tag::IdentMissingFeatures,
                Tag::AuthReplyMore,
                Tag::AuthBadMethod,
            ][dice.below(8)];
            let payload = match dice.below(3) {
                0 => vec![0xff; len],
                1 => vec![0; len],
                _ => dice.bytes(len),
            };
            put(tag, &payload);
        }
        put(Tag::ServerIdent, &ident.to_vec());
        put(Tag::Ack, &number(dice.next() & 3));
        if dice.below(3) == 0 {
            let i = dice.below(steps.len());
            let at = dice.below(steps[i].len());
            steps[i][at] ^= 1 << dice.below(8);
        }
        let stream = steps.concat();
        let mut rest = &stream[..];
        loop {
            client.turn(NOW, &mut out);
            let asked = std::mem::take(&mut out.0).into_iter().find_map(|o| match o {
                Output::Receive { buf, conn: c } if c == conn => Some(buf),
                _ => None,
            });
            while client.poll_event().is_some() {}
            let Some(mut buf) = asked.filter(|_| !rest.is_empty()) else { break };
            let n = buf.len().min(rest.len()).min(1 + dice.below(200));
            buf[..n].copy_from_slice(&rest[..n]);
            rest = &rest[n..];
            client.handle(NOW, Input::Received { conn, buf, len: n }, &mut out);
        }
        assert!(client.queued(session) < 10_000, "round {round}");
    }
}

#[test]
fn strangers_are_bounded_and_log_lines_too() {
    let mut server = servers().pop().unwrap();
    let mut out = Outputs::default();
    let (mut closed, mut lines) = (0, 0);
    for i in 0..5_000 {
        server.handle(
            NOW,
            Input::Accepted { listener: ListenerId(0), conn: ConnId(2 * i), peer: socket(5), local: socket(1) },
            &mut out,
        );
    }
    for output in std::mem::take(&mut out.0) {
        match output {
            Output::Close { .. } => closed += 1,
            Output::Log(_) => lines += 1,
            _ => {}
        }
    }
    assert_eq!(server.connections(), 1_024);
    assert_eq!(closed, 5_000 - 1_024);
    assert!(lines <= 50, "{lines}");
    // The newest are those that stay: whoever means it gets through the crowd.
    let mut rest = &valid(8, false).concat()[..];
    let conn = ConnId(20_000);
    server.handle(NOW, Input::Accepted { listener: ListenerId(0), conn, peer: socket(5), local: socket(1) }, &mut out);
    let mut messages = 0;
    while !rest.is_empty() {
        server.turn(NOW, &mut out);
        let asked = std::mem::take(&mut out.0).into_iter().find_map(|o| match o {
            Output::Receive { buf, conn: c } if c == conn => Some(buf),
            _ => None,
        });
        let Some(mut buf) = asked else { break };
        let n = buf.len().min(rest.len());
        buf[..n].copy_from_slice(&rest[..n]);
        rest = &rest[n..];
        server.handle(NOW, Input::Received { conn, buf, len: n }, &mut out);
        while let Some(event) = server.poll_event() {
            messages += usize::from(matches!(event, Event::Message { .. }));
        }
    }
    assert_eq!(messages, 3);
    server.handle(NOW, Input::Closed { conn, refused: false, why: "end".into() }, &mut out);
    // Those that say nothing are closed.
    let later = Now { mono: NOW.mono.plus(std::time::Duration::from_secs(11)), wall: NOW.wall };
    server.turn(later, &mut out);
    assert_eq!(server.connections(), 0);
    assert_eq!(server.deadline(), Mono::NEVER);
}

#[test]
fn a_large_announcement_alone_takes_no_memory_beyond_the_throttle() {
    let mut config = servers().pop().unwrap().config().clone();
    config.limits.clients = 1 << 20;
    config.limits.session = 1 << 20;
    let mut server = Messenger::new(config, Auth::none(name("osd.1")), [1; 32]);
    let mut out = Outputs::default();
    let mut batch = Batch::default();
    let m = message(1, 10, 600_000);
    let header = Header { seq: 1, tid: 1, kind: 42, priority: 63, version: 8, ack: 0, compat: 3 };
    Writer::default().message(&header, &m, &mut batch);
    let mut stream = valid(8, false)[..5].concat();
    stream.extend(&batch.take().to_vec()[..100]);
    for i in 0..50 {
        let conn = ConnId(2 * i);
        server.handle(NOW, Input::Accepted { listener: ListenerId(0), conn, peer: socket(5), local: socket(1) }, &mut out);
        let mut rest = &stream[..];
        while !rest.is_empty() {
            server.turn(NOW, &mut out);
            let asked = std::mem::take(&mut out.0).into_iter().find_map(|o| match o {
                Output::Receive { buf, conn: c } if c == conn => Some(buf),
                _ => None,
            });
            let Some(mut buf) = asked else { break };
            let n = buf.len().min(rest.len());
            buf[..n].copy_from_slice(&rest[..n]);
            rest = &rest[n..];
            server.handle(NOW, Input::Received { conn, buf, len: n }, &mut out);
        }
    }
    assert_eq!(server.connections(), 50);
    assert!(server.held() <= 1 << 20, "{}", server.held());
    // A peer that stops in the middle is closed after a while, and the others get their turn.
    let later = Now { mono: NOW.mono.plus(std::time::Duration::from_secs(70)), wall: NOW.wall };
    server.turn(later, &mut out);
    assert_eq!(server.connections(), 49);
    assert!(server.held() > 600_000);
}

#[test]
fn who_sends_slowly_keeps_no_room_for_which_others_wait() {
    let mut config = servers().pop().unwrap().config().clone();
    (config.limits.clients, config.limits.session) = (1 << 20, 1 << 20);
    let mut server = Messenger::new(config, Auth::none(name("osd.1")), [1; 32]);
    let (mut out, mut batch) = (Outputs::default(), Batch::default());
    let header = Header { seq: 1, tid: 1, kind: 42, priority: 63, version: 8, ack: 0, compat: 3 };
    Writer::default().message(&header, &message(1, 10, 600_000), &mut batch);
    let opening = valid(8, false)[..5].concat();
    let said = [opening, batch.take().to_vec()].concat();
    let mut buffers: BTreeMap<ConnId, node::Buf> = BTreeMap::new();
    // What was sent so far of each connection.
    let mut sent = BTreeMap::from([(ConnId(0), 0), (ConnId(2), 0)]);
    for conn in sent.keys() {
        server.handle(NOW, Input::Accepted { listener: ListenerId(0), conn: *conn, peer: socket(5), local: socket(1) }, &mut out);
    }
    let mut step = |server: &mut Messenger, now: Now, conn: ConnId, most: usize| {
        server.turn(now, &mut out);
        for output in std::mem::take(&mut out.0) {
            if let Output::Receive { buf, conn } = output {
                buffers.insert(conn, buf);
            }
        }
        let (Some(mut buf), Some(at)) = (buffers.remove(&conn), sent.get_mut(&conn)) else { return false };
        let n = buf.len().min(most).min(said.len() - *at);
        buf[..n].copy_from_slice(&said[*at..*at + n]);
        *at += n;
        server.handle(now, Input::Received { conn, buf, len: n }, &mut out);
        n > 0
    };
    // The first one begins its message, the second one waits for the room.
    for (conn, most) in [(ConnId(0), said.len() - 500_000), (ConnId(2), said.len() - 500_000)] {
        let mut left = most;
        while left > 0 && step(&mut server, NOW, conn, left.min(4_096)) {
            left = left.saturating_sub(4_096);
        }
    }
    assert_eq!(server.connections(), 2);
    // A byte in three seconds is too little; a thirtieth of the message is not.
    let (slow, mut now) = (server.connections(), NOW);
    for _ in 0..25 {
        now.mono = now.mono.plus(std::time::Duration::from_secs(3));
        step(&mut server, now, ConnId(0), 18_000);
    }
    assert_eq!(server.connections(), slow, "who is slow and goes on is served");
    for _ in 0..10 {
        now.mono = now.mono.plus(std::time::Duration::from_secs(3));
        step(&mut server, now, ConnId(0), 1);
    }
    assert_eq!(server.connections(), 1, "who sends nearly nothing makes room");
    assert!(server.held() > 600_000, "the other one has it");
}
