//! Conversations of stock clients with a real cluster, as they were recorded: TCP segments, streams, msgr2.1 frames in
//! crc mode, messages in the order of time; and the archives of test data in general. For tests only.

use bytes::Bytes;
use denc::{Reader, Result};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use types::{EntityAddr, EntityAddrVec, Message, Rope};

const PREAMBLE: usize = 32;
const EPILOGUE: usize = 13;
const AUTH_DONE: u8 = 6;
const CLIENT_IDENT: u8 = 8;
const MESSAGE: u8 = 17;

/// Files of an archive in the workspace's `tests/data`, with their paths, that `wanted` accepts.
pub fn archive(name: &str, wanted: impl Fn(&Path) -> bool) -> Vec<(String, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(name);
    let file = std::fs::File::open(path).expect("the archive is in the repository");
    let mut archive = tar::Archive::new(liblzma::read::XzDecoder::new(file));
    let mut found = Vec::new();
    // The archive of samples ends in the middle of a file; all before it is sound.
    for mut entry in archive.entries().expect("a tar archive").map_while(|entry| entry.ok()) {
        let path = entry.path().expect("a path").into_owned();
        if entry.header().entry_type().is_file() && wanted(&path) {
            let mut bytes = Vec::new();
            if entry.read_to_end(&mut bytes).is_ok_and(|n| n as u64 == entry.size()) {
                found.push((path.to_string_lossy().into_owned(), bytes));
            }
        }
    }
    found
}

/// Every recording with its name.
pub fn recordings() -> Vec<(String, Vec<u8>)> {
    let files = archive("recordings.tar.xz", |path| path.extension().is_some_and(|e| e == "cap"));
    let stem = |path: String| Path::new(&path).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    files.into_iter().map(|(path, bytes)| (stem(path), bytes)).collect()
}

/// What the handshake of a connection says about the client.
#[derive(Clone, Copy, Debug, Default)]
pub struct Client {
    /// Its number, from the monitor.
    pub global_id: u64,
    /// Its first address.
    pub addr: EntityAddr,
}

/// A message as it was seen.
pub struct Seen {
    /// Seconds since 1970.
    pub time: f64,
    /// Which connection of the recording.
    pub connection: usize,
    /// By the side that connected.
    pub from_client: bool,
    /// What.
    pub message: Message,
}

/// A recording: its clients by connection, its messages in the order of time.
#[derive(Default)]
pub struct Recording {
    /// By connection.
    pub clients: Vec<Client>,
    /// In the order of time.
    pub messages: Vec<Seen>,
}

/// One connection: what went from the side that connected, and what came back.
#[derive(Default)]
pub struct Conversation {
    /// In order.
    pub to_server: Vec<Message>,
    /// In order.
    pub to_client: Vec<Message>,
}

impl Recording {
    /// The messages by connection and direction.
    pub fn conversations(&self) -> Vec<Conversation> {
        let mut all: Vec<Conversation> = self.clients.iter().map(|_| Conversation::default()).collect();
        for seen in &self.messages {
            let talk = &mut all[seen.connection];
            let side = if seen.from_client { &mut talk.to_server } else { &mut talk.to_client };
            side.push(seen.message.clone());
        }
        all
    }
}

#[derive(Default)]
struct Stream {
    base: Option<u32>,
    segments: BTreeMap<u32, Vec<(f64, Vec<u8>)>>,
}

impl Stream {
    fn add(&mut self, time: f64, sequence: u32, flags: u8, data: &[u8]) {
        if flags & 2 != 0 {
            self.base = Some(sequence.wrapping_add(1));
        }
        if !data.is_empty() {
            let base = *self.base.get_or_insert(sequence);
            self.segments.entry(sequence.wrapping_sub(base)).or_default().push((time, data.to_vec()));
        }
    }

    /// The bytes up to the first hole, and when the stream reached which length.
    fn bytes(&self) -> (Vec<u8>, Vec<(usize, f64)>) {
        let (mut out, mut times) = (Vec::<u8>::new(), Vec::new());
        for (at, segments) in &self.segments {
            for (time, data) in segments {
                let Some(known) = out.len().checked_sub(*at as usize) else { return (out, times) };
                out.extend_from_slice(data.get(known..).unwrap_or_default());
                times.push((out.len(), *time));
            }
        }
        (out, times)
    }
}

/// Takes a recording apart.
pub fn parse(recording: &[u8]) -> Recording {
    let mut found = Recording::default();
    for (connection, streams) in split(recording).expect("a recording is whole").values().enumerate() {
        let mut client = Client::default();
        for (side, stream) in streams.iter().enumerate() {
            let (bytes, times) = stream.bytes();
            let when = |end: usize| times.get(times.partition_point(|(len, _)| *len < end)).map_or(0.0, |(_, t)| *t);
            frames(&bytes, &mut client, |end, message| {
                found.messages.push(Seen { time: when(end), connection, from_client: side == 0, message });
            });
        }
        found.clients.push(client);
    }
    found.messages.sort_by(|a, b| a.time.total_cmp(&b.time));
    found
}

fn split(recording: &[u8]) -> Result<BTreeMap<(u16, u16), [Stream; 2]>> {
    let mut r = Reader::new(recording);
    let mut streams: BTreeMap<(u16, u16), [Stream; 2]> = BTreeMap::new();
    while !r.is_empty() {
        let time = r.get::<f64>()?;
        let (from, to, sequence, flags, len): (u16, u16, u32, u8, u32) = (r.get()?, r.get()?, r.get()?, r.get()?, r.get()?);
        let data = r.take(len as usize)?;
        // SYN and ACK together come from the side that listens.
        let is_answer = streams.contains_key(&(to, from)) || flags & 0x12 == 0x12;
        let (key, side) = if is_answer { ((to, from), 1) } else { ((from, to), 0) };
        streams.entry(key).or_default()[side].add(time, sequence, flags, data);
    }
    Ok(streams)
}

fn frames(stream: &[u8], client: &mut Client, mut add: impl FnMut(usize, Message)) {
    let mut r = Reader::new(stream);
    if r.take(8).ok() != Some(b"ceph v2\n") {
        return;
    }
    let Ok(len) = r.u16() else { return };
    if r.skip(len.into()).is_err() {
        return;
    }
    while let Ok(Some((tag, segments))) = frame(&mut r) {
        let mut first = Reader::new(&segments[0]);
        match tag {
            AUTH_DONE => client.global_id = first.u64().unwrap_or_default(),
            CLIENT_IDENT => {
                let addrs: EntityAddrVec = first.get().unwrap_or_default();
                client.addr = addrs.0.first().copied().unwrap_or_default();
            }
            MESSAGE => add(stream.len() - r.remaining(), message(segments).expect("a message's header")),
            _ => {}
        }
    }
}

fn frame(r: &mut Reader<'_>) -> Result<Option<(u8, [Bytes; 4])>> {
    let preamble = r.take(PREAMBLE)?;
    let (head, crc) = preamble.split_at(PREAMBLE - 4);
    if kernels::crc32c(0, head).to_le_bytes() != *crc {
        return Ok(None);
    }
    let mut p = Reader::new(head);
    let (tag, count) = (p.u8()?, usize::from(p.u8()?));
    let mut segments = [const { Bytes::new() }; 4];
    for (i, segment) in segments.iter_mut().enumerate().take(count) {
        let (len, _align) = (p.u32()? as usize, p.u16()?);
        *segment = Bytes::copy_from_slice(r.take(len)?);
        if i == 0 && len > 0 {
            r.skip(4)?;
        }
    }
    if count > 1 {
        r.skip(EPILOGUE)?;
    }
    Ok(Some((tag, segments)))
}

fn message([header, front, middle, data]: [Bytes; 4]) -> Result<Message> {
    let mut h = Reader::new(&header);
    let _sequence = h.u64()?;
    let (tid, kind, priority, version) = (h.get()?, h.get()?, h.get()?, h.get()?);
    h.skip(4 + 2 + 8 + 1)?;
    let compat = h.get()?;
    h.skip(2)?;
    h.finish()?;
    Ok(Message { kind, tid, priority, version, compat, front, middle, data: Rope::from(data) })
}
