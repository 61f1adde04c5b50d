//! The client against what real servers said: recorded bytes answer it, and what it sends is compared with what a
//! stock client sent for the same operation.

#![expect(clippy::disallowed_methods, reason = "the recordings are a file")]

use bytes::Bytes;
use denc::{Reader, Result};
use messages::code::{self, flags};
use messages::osd::{Op, OsdOp};
use msgr::auth::{Auth, ClientAuth};
use node::{Buf, ConnId, Input, Mono, Node, Now, Output, Outputs};
use objecter::{ClientNode, Config, Driver, Event, Objecter, OpRequest};
use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, Locator, Message, Rope, UTime};

const MESSAGE: u8 = 17;
const MON_PORT: u16 = 7889;

fn recording(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/recordings.tar.xz");
    let file = std::fs::File::open(path).expect("the recordings are in the repository");
    let mut archive = tar::Archive::new(liblzma::read::XzDecoder::new(file));
    for entry in archive.entries().expect("a tar archive") {
        let mut entry = entry.expect("the archive is whole");
        if entry.path().expect("a path").file_name().is_some_and(|f| f == format!("{name}.cap").as_str()) {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("the archive is whole");
            return bytes;
        }
    }
    panic!("no recording {name}");
}

/// Segments of one direction by sequence number.
#[derive(Default)]
struct Stream(BTreeMap<u32, Vec<u8>>);

impl Stream {
    fn bytes(&self) -> Vec<u8> {
        let Some((first, _)) = self.0.first_key_value() else { return Vec::new() };
        let mut out: Vec<u8> = Vec::new();
        for (at, data) in &self.0 {
            let known = out.len().saturating_sub(at.wrapping_sub(*first) as usize);
            out.extend_from_slice(data.get(known..).unwrap_or_default());
        }
        out
    }
}

/// The connections of a recording in order: server's port, what went there, what came back.
/// Port, bytes of the client, bytes of the server.
type Connection = (u16, Vec<u8>, Vec<u8>);

fn connections(recording: &[u8]) -> Result<Vec<Connection>> {
    let mut r = Reader::new(recording);
    let mut order = Vec::new();
    let mut streams: BTreeMap<(u16, u16), [Stream; 2]> = BTreeMap::new();
    while !r.is_empty() {
        r.get::<f64>()?;
        let (from, to, sequence, flags, len): (u16, u16, u32, u8, u32) = (r.get()?, r.get()?, r.get()?, r.get()?, r.get()?);
        let data = r.take(len as usize)?;
        let is_answer = streams.contains_key(&(to, from)) || flags & 0x12 == 0x12;
        let (key, side) = if is_answer { ((to, from), 1) } else { ((from, to), 0) };
        let streams = streams.entry(key).or_insert_with(|| {
            order.push(key);
            <[Stream; 2]>::default()
        });
        if !data.is_empty() {
            streams[side].0.entry(sequence).or_default().extend_from_slice(data);
        }
    }
    Ok(order.into_iter().map(|key| (key.1, streams[&key][0].bytes(), streams[&key][1].bytes())).collect())
}

/// Returns where each frame of a stream in crc mode begins, its tag, and its message if it carries one.
fn frames(stream: &[u8]) -> Vec<(usize, u8, Option<Message>)> {
    let mut found = Vec::new();
    let mut r = Reader::new(stream);
    if r.skip(26).is_err() {
        return found;
    }
    while let Ok(frame) = frame(stream, &mut r) {
        found.push(frame);
    }
    found
}

fn frame(stream: &[u8], r: &mut Reader<'_>) -> Result<(usize, u8, Option<Message>)> {
    let at = stream.len() - r.remaining();
    let mut head = Reader::new(r.take(32)?);
    let (tag, count) = (head.u8()?, head.u8()?);
    let mut segments: [&[u8]; 4] = [&[]; 4];
    for (i, segment) in segments.iter_mut().take(count.into()).enumerate() {
        let (len, _): (u32, u16) = (head.get()?, head.get()?);
        *segment = r.take(len as usize)?;
        if i == 0 {
            r.skip(4)?;
        }
    }
    if count > 1 {
        r.skip(13)?;
    }
    if tag != MESSAGE {
        return Ok((at, tag, None));
    }
    let mut h = Reader::new(segments[0]);
    let (_, tid, kind, priority, version): (u64, u64, u16, u16, u16) = (h.get()?, h.get()?, h.get()?, h.get()?, h.get()?);
    h.skip(15)?;
    let compat = h.u16()?;
    let [_, front, middle, data] = segments.map(Bytes::copy_from_slice);
    Ok((at, tag, Some(Message { kind, tid, priority, version, compat, front, middle, data: Rope::from(data) })))
}

/// Submits one operation as soon as there is a map, and keeps how it ended.
struct One {
    request: Option<OpRequest>,
    ended: Vec<Event>,
}

impl Driver for One {
    fn event(&mut self, _: Now, event: Event, _: &mut Objecter) {
        self.ended.push(event);
    }
    fn turn(&mut self, _: Now, objecter: &mut Objecter) {
        if objecter.map().is_some()
            && let Some(request) = self.request.take()
        {
            objecter.submit(request);
        }
    }
    fn deadline(&self) -> Mono {
        Mono::NEVER
    }
}

/// A connection of the client: what is still to be said to it, and what it said.
struct Peer {
    port: u16,
    /// Said at once.
    ready: VecDeque<u8>,
    /// Said when the client has sent a message.
    then: Vec<u8>,
    want: Option<Buf>,
    said: Vec<u8>,
}

struct Play {
    client: ClientNode<One>,
    script: Vec<(u16, Vec<u8>, Vec<u8>)>,
    peers: BTreeMap<ConnId, Peer>,
    now: Mono,
}

impl Play {
    fn new(recording: &[u8], request: OpRequest) -> Self {
        let name = EntityName::new(EntityType::Client, "admin");
        let mon = EntityAddr::msgr2(SocketAddr::from(([127, 0, 0, 1], MON_PORT)), 0);
        let config = Config { monitors: vec![EntityAddrVec(vec![mon])], ..Config::default() };
        let auth = Auth::client(ClientAuth::none(name.clone()));
        let driver = One { request: Some(request), ended: Vec::new() };
        let client = ClientNode::new(msgr::Config::client(name, 1), auth, config, [1; 32], driver);
        let mut script = connections(recording).expect("a whole recording");
        // The first connections to the monitor only fetch what every tool wants first.
        let last_mon = script.iter().rposition(|(port, ..)| *port == MON_PORT).expect("a connection to the monitor");
        script.drain(..last_mon);
        Self { client, script, peers: BTreeMap::new(), now: Mono(1) }
    }

    fn now(&self) -> Now {
        Now { mono: self.now, wall: UTime { sec: 1_800_000_000, nsec: 0 } }
    }

    fn run(&mut self) {
        for _ in 0..200 {
            self.now = Mono(self.now.0 + 1_000_000);
            let now = self.now();
            let mut out = Outputs::default();
            self.client.turn(now, &mut out);
            while !out.0.is_empty() {
                let inputs: Vec<Input> = out.0.drain(..).filter_map(|o| self.carry_out(o)).collect();
                for input in inputs.into_iter().chain(self.answers()).collect::<Vec<_>>() {
                    self.client.handle(now, input, &mut out);
                }
                self.client.turn(now, &mut out);
            }
        }
    }

    fn carry_out(&mut self, output: Output) -> Option<Input> {
        match output {
            Output::Connect { conn, to } => {
                let at = self.script.iter().position(|(port, ..)| *port == to.port());
                let Some(at) = at else { return Some(Input::Closed { conn, refused: false, why: "refused".into() }) };
                let (port, _, mut from) = self.script.remove(at);
                let messages = frames(&from).into_iter().find(|(_, tag, _)| *tag == MESSAGE).map_or(from.len(), |f| f.0);
                let then = from.split_off(messages);
                self.peers.insert(conn, Peer { port, ready: from.into(), then, want: None, said: Vec::new() });
                Some(Input::Connected { conn, local: SocketAddr::from(([127, 0, 0, 1], 4000)) })
            }
            Output::Receive { conn, buf } => {
                self.peers.get_mut(&conn)?.want = Some(buf);
                None
            }
            Output::Send { conn, data } => {
                let peer = self.peers.get_mut(&conn)?;
                peer.said.extend(data.to_vec());
                if frames(&peer.said).iter().any(|(_, tag, _)| *tag == MESSAGE) {
                    peer.ready.extend(std::mem::take(&mut peer.then));
                }
                Some(Input::Sent { conn, bytes: data.len() })
            }
            Output::Close { conn } => {
                self.peers.remove(&conn);
                None
            }
            _ => None,
        }
    }

    fn answers(&mut self) -> Vec<Input> {
        let mut inputs = Vec::new();
        for (conn, peer) in &mut self.peers {
            if peer.ready.is_empty() {
                continue;
            }
            let Some(mut buf) = peer.want.take() else { continue };
            let len = buf.len().min(peer.ready.len());
            for (to, from) in buf[..len].iter_mut().zip(peer.ready.drain(..len)) {
                *to = from;
            }
            inputs.push(Input::Received { conn: *conn, buf, len });
        }
        inputs
    }

    /// The first object operation that the client sent, without what differs by nature.
    fn sent(&self) -> Option<OsdOp> {
        let said = self.peers.values().filter(|p| p.port != MON_PORT).flat_map(|p| frames(&p.said));
        first_op(said.collect())
    }
}

fn first_op(frames: Vec<(usize, u8, Option<Message>)>) -> Option<OsdOp> {
    let message = frames.into_iter().filter_map(|(_, _, m)| m).find(|m| m.kind == OsdOp::KIND)?;
    let op = OsdOp::decode(&message).expect("an operation");
    Some(OsdOp { mtime: UTime::ZERO, ..op })
}

fn request(oid: &'static str, op: Op, flags: u32) -> OpRequest {
    OpRequest { locator: Locator::pool(2), oid: Bytes::from_static(oid.as_bytes()), ops: vec![op], flags, ..OpRequest::default() }
}

/// Plays a recording, compares what was sent, and gives result and output of the reply.
fn play(name: &str, request: OpRequest, same_bytes: bool) -> (i32, usize) {
    let recording = recording(name);
    let theirs = connections(&recording).expect("a whole recording").into_iter().find_map(|(_, to, _)| first_op(frames(&to)));
    let mut play = Play::new(&recording, request);
    play.run();
    let (mut ours, mut theirs) = (play.sent().expect("an operation was sent"), theirs.expect("one was recorded"));
    if !same_bytes {
        ours.ops.iter_mut().chain(&mut theirs.ops).for_each(|op| op.input = Bytes::new());
    }
    assert_eq!(ours, theirs, "{name}");
    let ended = &play.client.driver().ended;
    let done = ended.iter().find_map(|e| match e {
        Event::Done { result: Ok(reply), .. } => Some((reply.result, reply.ops[0].output.len())),
        _ => None,
    });
    done.unwrap_or_else(|| panic!("{name}: the operation did not end: {ended:?}"))
}

#[test]
fn operations_are_sent_as_stock_clients_send_them_and_their_replies_taken() {
    let full = Op::extent(code::WRITEFULL, 0, 5000, vec![0; 5000]);
    assert_eq!(play("rados_put", request("obj1", full, flags::WRITE), false), (0, 0));
    let read = || Op::extent(code::READ, 0, 4 << 20, Bytes::new());
    assert_eq!(play("rados_get", request("obj1", read(), flags::READ), true), (0, 5000));
    let stat = Op { code: code::STAT, ..Op::default() };
    assert_eq!(play("rados_stat", request("obj1", stat, flags::READ), true), (0, 16));
    assert_eq!(play("rados_get_enoent", request("nosuch", read(), flags::READ), true), (-2, 0));
}
