//! The answers to SESSION_RECONNECT, frame by frame.

use super::*;
use crate::Event;
use crate::frame::*;
use denc::Encode as _;
use node::{ConnId, Input, ListenerId, Mono, Now, Output, Outputs};
use types::UTime;

const NOW: Now = Now { mono: Mono(1_000_000_000), wall: UTime { sec: 1_700_000_000, nsec: 0 } };
const COOKIE: u64 = 4711;

/// A hand-driven peer of an OSD.
struct Hand {
    osd: Messenger,
    events: Vec<Event>,
}

impl Hand {
    fn new() -> Self {
        Self { osd: daemon(1, "osd.1", 1, Auth::none(name("osd.1"))).0, events: Vec::new() }
    }

    /// Opens a connection and sends frames on it; gives the frames that came back, and whether it was closed.
    fn talk(&mut self, conn: u64, who: &str, frames: &[(Tag, Vec<u8>)]) -> (Vec<(Tag, Vec<u8>)>, bool) {
        let conn = ConnId(conn);
        let mut out = Outputs::default();
        self.osd.handle(NOW, Input::Accepted { listener: ListenerId(0), conn, peer: socket(5), local: socket(1) }, &mut out);
        let claim = crate::auth::proto::Claim { kind: 1, name: name(who), global_id: 0 }.to_bytes();
        let mut batch = Batch::default();
        let mut writer = Writer::default();
        batch.raw(BANNER);
        writer.control(Tag::Hello, &Hello { kind: 4, peer: addr(1) }.to_vec(), &mut batch);
        writer.control(Tag::AuthRequest, &AuthRequest { method: 1, modes: vec![1], payload: claim }.to_vec(), &mut batch);
        writer.control(Tag::AuthSignature, &[0; 32], &mut batch);
        for (tag, payload) in frames {
            match tag {
                Tag::Message => {
                    let seq = u64::from(payload[0]);
                    writer.message(&Header { seq, tid: seq, ..Header::default() }, &message(seq, 3, 3), &mut batch);
                }
                tag => writer.control(*tag, payload, &mut batch),
            }
        }
        let stream = batch.take().to_vec();
        let (mut rest, mut sent, mut closed) = (&stream[..], Vec::new(), false);
        loop {
            self.osd.turn(NOW, &mut out);
            let mut asked = None;
            for output in std::mem::take(&mut out.0) {
                match output {
                    Output::Receive { buf, conn: c } if c == conn => asked = Some(buf),
                    Output::Send { data, conn: c } if c == conn => sent.extend(data.to_vec()),
                    Output::Close { conn: c } => closed |= c == conn,
                    _ => {}
                }
            }
            while let Some(event) = self.osd.poll_event() {
                self.events.push(event);
            }
            let Some(mut buf) = asked.filter(|_| !rest.is_empty()) else { break };
            let n = buf.len().min(rest.len());
            buf[..n].copy_from_slice(&rest[..n]);
            rest = &rest[n..];
            self.osd.handle(NOW, Input::Received { conn, buf, len: n }, &mut out);
        }
        (answers(&sent), closed)
    }
}

/// Returns what follows the signature.
fn answers(stream: &[u8]) -> Vec<(Tag, Vec<u8>)> {
    let mut reader = Reader::new(FrameLimits { front: 1000, middle: 1000, data: 1000, control: 1000 });
    reader.allow_messages();
    let (mut input, mut found) = (stream, Vec::new());
    while let Some(frame) = reader.feed(&mut input).unwrap() {
        match frame {
            Frame::Control { tag, payload } if tag as u8 > Tag::AuthSignature as u8 => found.push((tag, payload)),
            Frame::Announce { .. } => drop(reader.grant()),
            Frame::Message { header, .. } => found.push((Tag::Message, vec![header.seq as u8])),
            _ => {}
        }
    }
    found
}

fn ident(global_seq: u64) -> (Tag, Vec<u8>) {
    let ident = ClientIdent {
        addrs: EntityAddrVec(vec![addr(5)]),
        target: addr(1),
        gid: 3,
        global_seq,
        supported: types::features::SUPPORTED,
        required: 0,
        flags: 0,
        cookie: COOKIE,
    };
    (Tag::ClientIdent, ident.to_vec())
}

fn again(server_cookie: u64, global_seq: u64, connect_seq: u64, msg_seq: u64) -> (Tag, Vec<u8>) {
    let addrs = EntityAddrVec(vec![addr(5)]);
    let again = Reconnect { addrs, client_cookie: COOKIE, server_cookie, global_seq, connect_seq, msg_seq };
    (Tag::SessionReconnect, again.to_vec())
}

fn cookie(answers: &[(Tag, Vec<u8>)]) -> u64 {
    let [(Tag::ServerIdent, payload)] = answers else { panic!("{answers:?}") };
    parse::<ServerIdent>(payload).unwrap().cookie
}

#[test]
fn a_reconnection_is_judged_by_its_numbers() {
    let mut hand = Hand::new();
    let (opened, _) = hand.talk(2, "osd.3", &[ident(5), (Tag::Message, vec![1]), (Tag::Message, vec![2])]);
    let cookie = cookie(&opened);
    assert_eq!(hand.events.len(), 3);
    let session = hand.events[0].session();
    hand.osd.send(session, message(7, 1, 1));
    hand.osd.send(session, message(8, 1, 1));
    // Nobody knows this cookie.
    assert_eq!(hand.talk(4, "osd.3", &[again(cookie + 1, 6, 1, 0)]).0, [(Tag::SessionReset, vec![1])]);
    // Older than the present connection.
    assert_eq!(hand.talk(6, "osd.3", &[again(cookie, 4, 1, 0)]).0, [(Tag::SessionRetryGlobal, number(5))]);
    // Good: it learns what arrived and gets what it has not; a message sent again is not delivered again.
    let (answers, closed) = hand.talk(8, "osd.3", &[again(cookie, 6, 3, 1), (Tag::Message, vec![2]), (Tag::Message, vec![3])]);
    assert_eq!(answers, [(Tag::SessionReconnectOk, number(2)), (Tag::Message, vec![2])]);
    assert!(!closed && hand.events.len() == 4, "{:?}", hand.events);
    // An attempt of before.
    assert_eq!(hand.talk(10, "osd.3", &[again(cookie, 6, 2, 1)]).0, [(Tag::SessionRetry, number(3))]);
    // Somebody else, or acknowledging what was never sent.
    assert!(hand.talk(12, "osd.4", &[again(cookie, 7, 4, 1)]).1);
    let (answers, _) = hand.talk(14, "osd.3", &[again(cookie, 8, 5, 99)]);
    assert_eq!(answers, [(Tag::SessionReset, vec![1])]);
    assert!(matches!(hand.events.last(), Some(Event::Closed { .. })));
    // Garbage in the order of messages ends the connection.
    let (_, closed) = hand.talk(16, "osd.3", &[ident(9), (Tag::Message, vec![2])]);
    assert!(closed);
}

#[test]
fn a_missed_identification_is_repeated() {
    let mut hand = Hand::new();
    let first = cookie(&hand.talk(2, "osd.3", &[ident(5)]).0);
    let session = hand.events[0].session();
    hand.osd.send(session, message(7, 1, 1));
    let (answers, _) = hand.talk(4, "osd.3", &[ident(6)]);
    assert_eq!(cookie(&answers[..1]), first);
    assert_eq!(answers[1..], [(Tag::Message, vec![1])]);
    assert_eq!(hand.events.len(), 1, "the same session");
    // A connection from before that arrives late.
    assert!(hand.talk(6, "osd.3", &[ident(6)]).1);
    assert_eq!(hand.osd.connections(), 1);
}

#[test]
fn an_acknowledgement_of_the_future_ends_the_connection() {
    let mut hand = Hand::new();
    let (_, closed) = hand.talk(2, "osd.3", &[ident(5), (Tag::Ack, number(1))]);
    assert!(closed);
    let mut hand = Hand::new();
    assert!(!hand.talk(2, "osd.3", &[ident(5), (Tag::Ack, number(0))]).1);
}
