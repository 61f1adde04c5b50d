//! Peers that say what an enemy would say, with right checksums, so that what lies behind them is reached. Only for `tools/fuzz`.

use crate::auth::proto::*;
use crate::auth::{
    Acceptor, Auth, ClientAuth, EntityKey, ExpiringKey, GlobalIds, Key, Keyring, Method, MonAuth, RotatingKeys, ServiceAuth,
};
use crate::frame::*;
use crate::{Config, Event, Messenger, Mode, Policy};
use denc::Encode;
use node::{ConnId, Input, ListenerId, Mono, Now, Output, Outputs};
use std::net::SocketAddr;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, Message, Rope, UTime};

const NOW: Now = Now { mono: Mono(1_000_000_000), wall: UTime { sec: 1_700_000_000, nsec: 0 } };

fn socket(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n], 6800))
}

fn addr(n: u8) -> EntityAddr {
    EntityAddr::msgr2(socket(n), 7)
}

fn name(kind: EntityType, id: &str) -> EntityName {
    EntityName::new(kind, id)
}

fn key(n: u8) -> Key {
    Key::new(UTime::ZERO, [n; 16])
}

fn service_keys() -> RotatingKeys {
    let mut keys = RotatingKeys::default();
    for id in 1..4 {
        keys.add(id, ExpiringKey { key: key(id as u8), expires: UTime { sec: 2_000_000_000, nsec: 0 } });
    }
    keys
}

/// Eats bytes of the input; zeros after its end.
struct Input8<'a>(&'a [u8]);

impl<'a> Input8<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u16 {
        u16::from(self.byte()) | u16::from(self.byte()) << 8
    }

    fn take(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// Bytes as they are, in place of a structure.
struct Plain<'a>(&'a [u8]);

impl Encode for Plain<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0);
    }
}

/// Checks that what decodes encodes and decodes to the same again.
fn again<T: denc::Decode + Encode + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    if let Ok(value) = T::from_bytes(bytes) {
        assert_eq!(T::from_bytes(&value.to_vec()).as_ref(), Ok(&value));
    }
}

/// Every structure of the handshake and of cephx; those that travel sealed are sealed, too.
pub fn structures(bytes: &[u8]) {
    again::<Hello>(bytes);
    again::<AuthRequest>(bytes);
    again::<AuthBadMethod>(bytes);
    again::<AuthDone>(bytes);
    again::<ClientIdent>(bytes);
    again::<ServerIdent>(bytes);
    again::<Reconnect>(bytes);
    again::<Claim>(bytes);
    again::<Authenticate>(bytes);
    again::<Authorizer>(bytes);
    again::<TicketRequest>(bytes);
    again::<TicketList>(bytes);
    again::<TicketBlob>(bytes);
    again::<AuthTicket>(bytes);
    again::<Key>(bytes);
    let keys = service_keys();
    let blob = TicketBlob { secret_id: 2, blob: key(2).seal(&Plain(bytes)).into() };
    let _ = open_ticket(&keys, &blob);
    let _ = open_ticket(&keys, &TicketBlob { secret_id: 2, blob: key(2).seal_signed(&Plain(bytes)).into() });
    let _ = key(1).open::<ServiceTicket>(bytes);
    let _ = key(1).open::<ServiceTicket>(&key(1).seal(&Plain(bytes)));
    let _ = key(1).open::<Authorize>(&key(1).seal(&Plain(bytes)));
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = (Keyring::parse(text.as_bytes()), Key::from_base64(text));
    }
}

/// A server, by number: a monitor, an OSD with cephx, an OSD without.
fn server(which: u8) -> Messenger {
    let mut mon = MonAuth::new(vec![Method::Cephx, Method::None]);
    mon.global_ids = GlobalIds { next: 1, end: 1 << 40 };
    mon.entities.insert(name(EntityType::Client, "admin"), EntityKey { key: key(1), caps: Default::default() });
    let service =
        ServiceAuth { methods: vec![Method::Cephx, Method::None], keys: service_keys(), ..ServiceAuth::new(EntityType::Osd) };
    let client = ClientAuth::none(name(EntityType::Osd, "1"));
    let (who, acceptor) = match which % 3 {
        0 => (name(EntityType::Mon, "a"), Acceptor::Mon(mon)),
        1 => (name(EntityType::Osd, "1"), Acceptor::Service(service)),
        _ => (name(EntityType::Osd, "1"), Acceptor::Anybody),
    };
    Messenger::new(Config::server(who, EntityAddrVec(vec![addr(1)]), 1), Auth { acceptor, client }, [1; 32])
}

/// The valid steps of a client without authentication.
fn step(n: u8, lossless: bool, writer: &mut Writer, batch: &mut Batch) {
    let kind = if lossless { EntityType::Osd } else { EntityType::Client };
    match n {
        0 => batch.raw(BANNER),
        1 => writer.control(Tag::Hello, &Hello { kind: kind as u8, peer: addr(1) }.to_vec(), batch),
        2 => {
            let who = if lossless { name(kind, "3") } else { name(kind, "admin") };
            let claim = Claim { kind: 1, name: who, global_id: 77 }.to_bytes();
            writer.control(Tag::AuthRequest, &AuthRequest { method: 1, modes: vec![1], payload: claim }.to_vec(), batch);
        }
        3 => writer.control(Tag::AuthSignature, &[0; 32], batch),
        _ => {
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
            writer.control(Tag::ClientIdent, &ident.to_vec(), batch);
        }
    }
}

/// Returns what a client says, as the input tells: valid steps, raw bytes, frames of any tag with any payload and
/// right checksums, messages with any header, preambles with any lengths, things said before.
fn script(input: &mut Input8<'_>, lossless: bool) -> Vec<u8> {
    let mut writer = Writer::default();
    let mut said: Vec<Vec<u8>> = Vec::new();
    while !input.0.is_empty() && said.len() < 200 {
        let mut batch = Batch::default();
        match input.byte() % 8 {
            0 => batch.raw(input.take(usize::from(input.0.first().copied().unwrap_or(0)))),
            1 | 2 => {
                let tag = Tag::from_wire(input.byte() % 20 + 1).unwrap_or(Tag::Ack);
                let len = usize::from(input.word() % 600);
                writer.control(tag, input.take(len), &mut batch);
            }
            3 => {
                let (seq, kind, version, ack) = (input.byte(), input.word(), input.byte(), input.byte());
                let (front, data) = (usize::from(input.byte()), usize::from(input.word()));
                let message = Message {
                    front: bytes::Bytes::copy_from_slice(input.take(front)),
                    data: Rope::from(vec![7; data]),
                    ..Message::default()
                };
                let header = Header {
                    seq: u64::from(seq),
                    tid: 1,
                    kind,
                    priority: 63,
                    version: version.into(),
                    ack: ack.into(),
                    compat: 1,
                };
                writer.message(&header, &message, &mut batch);
            }
            4 => step(input.byte() % 5, lossless, &mut writer, &mut batch),
            5 => (0..=input.byte() % 5).for_each(|n| step(n, lossless, &mut writer, &mut batch)),
            6 => {
                let mut lengths = [0; SEGMENTS];
                let segments = usize::from(input.byte() % 4) + 1;
                for length in &mut lengths[..segments] {
                    *length = (usize::from(input.word()) << 16 | usize::from(input.word())) >> (input.byte() % 32);
                }
                let tag = Tag::from_wire(input.byte() % 20 + 1).unwrap_or(Tag::Message);
                batch.raw(&Preamble { tag, segments, lengths }.encode());
            }
            _ => {
                let before = said.get(usize::from(input.byte()) % said.len().max(1)).cloned().unwrap_or_default();
                batch.raw(&before);
            }
        }
        said.push(batch.take().to_vec());
    }
    said.concat()
}

/// A whole stream to a server, in pieces: it takes messages, closes, or waits; nothing else.
pub fn stream(bytes: &[u8]) {
    let mut input = Input8(bytes);
    let (which, grain) = (input.byte(), usize::from(input.word()) + 1);
    let mut server = server(which);
    let stream = script(&mut input, which & 64 != 0);
    let (mut rest, conn) = (&stream[..], ConnId(2));
    let mut out = Outputs::default();
    server.handle(NOW, Input::Accepted { listener: ListenerId(0), conn, peer: socket(5), local: socket(1) }, &mut out);
    let mut lines = 0;
    loop {
        server.turn(NOW, &mut out);
        let (mut asked, mut closed) = (None, false);
        for output in std::mem::take(&mut out.0) {
            match output {
                Output::Receive { buf, .. } => asked = Some(buf),
                Output::Close { .. } => closed = true,
                Output::Log(_) => lines += 1,
                _ => {}
            }
        }
        while let Some(event) = server.poll_event() {
            if let Event::Message { session, bytes, .. } = event {
                server.done(session, bytes);
            }
        }
        if closed {
            assert!(lines <= 1, "{lines} lines for one connection");
            assert_eq!(server.connections(), 0);
            return;
        }
        let Some(mut buf) = asked.filter(|_| !rest.is_empty()) else { break };
        let n = buf.len().min(rest.len()).min(grain);
        buf[..n].copy_from_slice(&rest[..n]);
        rest = &rest[n..];
        server.handle(NOW, Input::Received { conn, buf, len: n }, &mut out);
    }
    server.handle(NOW, Input::Closed { conn, refused: false, why: "end".into() }, &mut out);
    assert_eq!((server.connections(), server.held()), (0, 0));
}

/// Two sides that speak cephx, with somebody in between who changes bytes. What arrives is what was sent, or nothing.
pub fn middleman(bytes: &[u8]) {
    let mut input = Input8(bytes);
    let mode = if input.byte() & 1 == 0 { Mode::Secure } else { Mode::Crc };
    let mut mon = server(0);
    let mut config = Config::client(name(EntityType::Client, "admin"), 99);
    config.modes.connect_mon = vec![mode];
    let mut client = Messenger::new(config, Auth::client(ClientAuth::cephx(name(EntityType::Client, "admin"), key(1))), [3; 32]);
    let (mut at_client, mut at_mon) = (Outputs::default(), Outputs::default());
    let session = client.connect(NOW, addr(1), EntityType::Mon, Policy::Lossy, &mut at_client);
    client.send(session, Message { kind: 5, front: bytes::Bytes::from_static(b"sent"), ..Message::default() });
    let (dialled, accepted) = (ConnId(1), ConnId(2));
    client.handle(NOW, Input::Connected { conn: dialled, local: socket(3) }, &mut at_client);
    mon.handle(NOW, Input::Accepted { listener: ListenerId(0), conn: accepted, peer: socket(3), local: socket(1) }, &mut at_mon);
    let mut pipes = [std::collections::VecDeque::new(), std::collections::VecDeque::new()];
    let mut bufs = [None, None];
    let (mut moved, mut next) = (0usize, usize::from(input.word()) % 1500);
    for _ in 0..400 {
        client.turn(NOW, &mut at_client);
        mon.turn(NOW, &mut at_mon);
        let mut progress = false;
        for (side, out) in [&mut at_client, &mut at_mon].into_iter().enumerate() {
            for output in std::mem::take(&mut out.0) {
                match output {
                    Output::Send { data, .. } => {
                        for byte in data.to_vec() {
                            if moved == next {
                                next += usize::from(input.word()) + 1;
                                match input.byte() % 4 {
                                    0 => {}
                                    1 => pipes[1 - side].extend([input.byte(), byte]),
                                    _ => pipes[1 - side].push_back(byte ^ input.byte()),
                                }
                            } else {
                                pipes[1 - side].push_back(byte);
                            }
                            moved += 1;
                        }
                    }
                    Output::Receive { buf, .. } => bufs[side] = Some(buf),
                    Output::Close { .. } => return,
                    _ => {}
                }
            }
        }
        for side in 0..2 {
            if let (false, Some(mut buf)) = (pipes[side].is_empty(), bufs[side].take()) {
                let n = buf.len().min(pipes[side].len());
                pipes[side].drain(..n).enumerate().for_each(|(i, b)| buf[i] = b);
                let (messenger, conn, out) =
                    if side == 0 { (&mut client, dialled, &mut at_client) } else { (&mut mon, accepted, &mut at_mon) };
                messenger.handle(NOW, Input::Received { conn, buf, len: n }, out);
                progress = true;
            }
        }
        while let Some(event) = mon.poll_event() {
            if let Event::Message { session, bytes, message } = event {
                mon.done(session, bytes);
                assert!(mode == Mode::Crc || (message.kind == 5 && message.front == b"sent"[..]), "a forged message");
            }
        }
        while client.poll_event().is_some() {}
        if !progress {
            return;
        }
    }
}

/// Inputs to begin with: a valid handshake with messages, for each server; cephx of both modes without changes.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for which in [0, 1, 2, 64, 65, 66] {
        let mut bytes = vec![which, 255, 3, 5, 4];
        for seq in 1..4 {
            bytes.extend([3, seq, 42, 0, 8, 0, 10, 44, 1]);
            bytes.extend([seq; 10]);
        }
        bytes.extend([1, 17, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        all.push(bytes);
    }
    all
}

/// Inputs of [`structures`] to begin with.
pub fn structure_seeds() -> Vec<Vec<u8>> {
    let claim = Claim { kind: 10, name: name(EntityType::Client, "admin"), global_id: 5 };
    let ident = ClientIdent {
        addrs: EntityAddrVec(vec![addr(5)]),
        target: addr(1),
        gid: 77,
        global_seq: 1,
        supported: types::features::SUPPORTED,
        required: 0,
        flags: 1,
        cookie: 4,
    };
    let request = AuthRequest { method: 2, modes: vec![2, 1], payload: claim.to_bytes() };
    vec![claim.to_vec(), ident.to_vec(), request.to_vec(), key(1).to_vec(), Hello { kind: 8, peer: addr(1) }.to_vec()]
}
