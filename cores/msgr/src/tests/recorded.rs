//! Conversations of stock clients with a real cluster: ours understands the client's half as it was recorded, and
//! writes the server's half as it was recorded.

use super::*;
use crate::frame::*;
use crate::{Event, Limits};
use denc::Reader as Bytewise;
use node::{ConnId, Input, ListenerId, Mono, Now, Output, Outputs};
use std::collections::BTreeMap;
use types::{EntityType, UTime};

/// The bytes of one TCP connection: client to server, server to client.
type Conversation = [Vec<u8>; 2];

/// Takes a recording apart: packets of `f64 time, u16 from, u16 to, u32 sequence, u8 flags, u32 length, bytes`.
fn conversations(recording: &[u8]) -> Vec<Conversation> {
    const SYN: u8 = 2;
    const ACK: u8 = 16;
    #[derive(Default)]
    struct Side {
        base: Option<u32>,
        bytes: Vec<u8>,
        gap: bool,
    }
    let mut order = Vec::new();
    let mut sides: BTreeMap<(u16, u16), Side> = BTreeMap::new();
    let mut r = Bytewise::new(recording);
    while !r.is_empty() {
        let (_time, from, to): (f64, u16, u16) = (r.get().unwrap(), r.get().unwrap(), r.get().unwrap());
        let (seq, flags): (u32, u8) = (r.get().unwrap(), r.get().unwrap());
        let data = r.blob().unwrap();
        if flags & SYN != 0 && flags & ACK == 0 {
            order.push((from, to));
        }
        let side = sides.entry((from, to)).or_default();
        if flags & SYN != 0 {
            *side = Side { base: Some(seq.wrapping_add(1)), ..Side::default() };
        }
        let Some(base) = side.base else { continue };
        let at = seq.wrapping_sub(base) as usize;
        if data.is_empty() || at + data.len() <= side.bytes.len() {
            continue;
        }
        side.gap |= at > side.bytes.len();
        if !side.gap {
            let new = side.bytes.len() - at;
            side.bytes.extend_from_slice(&data[new..]);
        }
    }
    let whole = |key: (u16, u16)| sides.get(&key).filter(|s| !s.gap).map(|s| s.bytes.clone());
    order.iter().filter_map(|(a, b)| Some([whole((*a, *b))?, whole((*b, *a))?])).collect()
}

const LIMITS: FrameLimits = FrameLimits { front: 16 << 20, middle: 1 << 20, data: 128 << 20, control: 64 << 10 };

/// The frames of one half; `None` if it is not msgr2.
fn frames(stream: &[u8]) -> Option<Vec<Frame>> {
    let mut reader = Reader::new(LIMITS);
    reader.allow_messages();
    let mut input = stream;
    let mut frames = Vec::new();
    while let Some(frame) = reader.feed(&mut input).ok()? {
        match frame {
            Frame::Announce { .. } => frames.extend(reader.grant()),
            frame => frames.push(frame),
        }
    }
    Some(frames)
}

/// Writes frames again.
fn rewrite(frames: &[Frame]) -> Vec<u8> {
    let (mut writer, mut batch) = (Writer::default(), Batch::default());
    for frame in frames {
        match frame {
            Frame::Banner { .. } => batch.raw(BANNER),
            Frame::Message { header, message, .. } => writer.message(header, message, &mut batch),
            Frame::Control { tag, payload } => writer.control(*tag, payload, &mut batch),
            Frame::Announce { .. } | Frame::Aborted { .. } => panic!("never recorded"),
        }
    }
    batch.take().to_vec()
}

fn find<T: denc::Decode>(frames: &[Frame], wanted: Tag) -> Option<T> {
    frames.iter().find_map(|f| match f {
        Frame::Control { tag, payload } if *tag == wanted => parse(payload).ok(),
        _ => None,
    })
}

/// Plays a client's half to an accepting messenger; gives its messages and what it sent.
fn play(client: &[u8], hello: &Hello, ident: &ServerIdent, done: &AuthDone, grain: usize) -> (Vec<Message>, Vec<u8>) {
    let kind = EntityType::from_wire(hello.kind.into()).unwrap();
    let who = types::EntityName::new(kind, "x");
    let mut config = Config::server(who.clone(), ident.addrs.clone(), ident.gid);
    config.required = ident.required;
    config.limits = Limits { session: usize::MAX, clients: usize::MAX, ..Limits::default() };
    let mut auth = if kind == EntityType::Mon { open_mon() } else { Auth::none(who) };
    if let Acceptor::Mon(mon) = &mut auth.acceptor {
        mon.global_ids.next = done.global_id;
        mon.global_ids.end = done.global_id + 1;
    }
    let mut messenger = Messenger::new(config, auth, [1; 32]);
    let conn = ConnId(2);
    let now = Now { mono: Mono(1), wall: UTime { sec: 1, nsec: 0 } };
    let mut out = Outputs::default();
    let remote = hello.peer.addr.unwrap();
    messenger.handle(now, Input::Accepted { listener: ListenerId(0), conn, peer: remote, local: remote }, &mut out);
    let (mut rest, mut sent, mut messages) = (client, Vec::new(), Vec::new());
    loop {
        messenger.turn(now, &mut out);
        let mut asked = None;
        for output in std::mem::take(&mut out.0) {
            match output {
                Output::Receive { buf, .. } => asked = Some(buf),
                Output::Send { data, .. } => {
                    messenger.handle(now, Input::Sent { conn, bytes: data.len() }, &mut out);
                    sent.extend(data.to_vec());
                }
                other => panic!("{other:?}"),
            }
        }
        while let Some(event) = messenger.poll_event() {
            if let Event::Message { message, .. } = event {
                messages.push(message);
            }
        }
        if rest.is_empty() {
            return (messages, sent);
        }
        let mut buf = asked.expect("it goes on receiving");
        let n = buf.len().min(rest.len()).min(grain);
        buf[..n].copy_from_slice(&rest[..n]);
        rest = &rest[n..];
        messenger.handle(now, Input::Received { conn, buf, len: n }, &mut out);
    }
}

#[test]
fn recorded_conversations_are_understood_and_written_identically() {
    // Every kind of traffic is in these: commands, objects, images, watches.
    let wanted = [
        "ceph_auth_ls",
        "rados_put",
        "rados_ls",
        "rados_bench_write",
        "rbd_create",
        "rbd_ls",
        "ceph_s",
        "rados_get",
        "backoff",
        "rbd_bench_write",
    ];
    let files = archive("recordings.tar.xz", |path| {
        let stem = path.rsplit('/').next().and_then(|f| f.strip_suffix(".cap"));
        stem.is_some_and(|stem| wanted.iter().any(|w| stem.starts_with(w)))
    });
    let (mut played, mut messages) = (0, 0);
    for (path, recording) in &files {
        for (i, [client, server]) in conversations(recording).iter().enumerate() {
            let (Some(theirs), Some(ours)) = (frames(client), frames(server)) else { continue };
            // Without what was cut off at the recording's end.
            assert!(client.starts_with(&rewrite(&theirs)), "{path} {i}");
            assert!(server.starts_with(&rewrite(&ours)), "{path} {i}");
            let hello: Option<Hello> = find(&ours, Tag::Hello);
            let ident: Option<ServerIdent> = find(&ours, Tag::ServerIdent);
            let done: Option<AuthDone> = find(&ours, Tag::AuthDone);
            let (Some(hello), Some(ident), Some(done)) = (hello, ident, done) else { continue };
            if find::<Hello>(&theirs, Tag::Hello).is_none_or(|h| h.kind != 8) {
                continue;
            }
            let whole = rewrite(&theirs);
            let (got, sent) = play(&whole, &hello, &ident, &done, [40, 4096, 1 << 20][i % 3]);
            let recorded: Vec<&Message> =
                theirs.iter().filter_map(|f| if let Frame::Message { message, .. } = f { Some(message) } else { None }).collect();
            assert_eq!(got.iter().collect::<Vec<_>>(), recorded, "{path} {i}");
            // Our handshake is the recorded one but for the connection counter in the identification.
            let answers = frames(&sent).unwrap();
            let kinds = |frames: &[Frame]| {
                let control = |f: &Frame| match f {
                    Frame::Control { tag, payload } if !matches!(tag, Tag::ServerIdent | Tag::Keepalive2Ack) => {
                        Some((*tag, payload.clone()))
                    }
                    _ => None,
                };
                frames.iter().filter_map(control).collect::<Vec<_>>()
            };
            assert_eq!(kinds(&answers), kinds(&ours), "{path} {i}");
            let mut own: ServerIdent = find(&answers, Tag::ServerIdent).unwrap();
            own.global_seq = ident.global_seq;
            assert_eq!(own, ident, "{path} {i}");
            played += 1;
            messages += got.len();
        }
    }
    assert!(played > 30 && messages > 300, "{played} conversations, {messages} messages in {} recordings", files.len());
}
