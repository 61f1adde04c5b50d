//! Recorded conversations with OSDs, in the order of time: who said what to whom. TCP segments, streams, msgr2.1 frames in
//! crc mode.

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

/// Every recording with its name.
#[allow(clippy::disallowed_methods)]
pub(crate) fn recordings() -> Vec<(String, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/recordings.tar.xz");
    let file = std::fs::File::open(path).expect("the recordings are in the repository");
    let mut archive = tar::Archive::new(xz2::read::XzDecoder::new(file));
    let mut found = Vec::new();
    for entry in archive.entries().expect("a tar archive") {
        let mut entry = entry.expect("the archive is whole");
        let path = entry.path().expect("a path").into_owned();
        if path.extension().is_some_and(|e| e == "cap") {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("the archive is whole");
            found.push((path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), bytes));
        }
    }
    found
}

/// What the handshake of a connection says about the client.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Client {
    pub(crate) global_id: u64,
    pub(crate) addr: EntityAddr,
}

/// A message as it was seen.
pub(crate) struct Seen {
    pub(crate) time: f64,
    /// Which connection of the recording.
    pub(crate) connection: usize,
    pub(crate) from_client: bool,
    pub(crate) message: Message,
}

/// A recording: its clients by connection, its messages in the order of time.
#[derive(Default)]
pub(crate) struct Recording {
    pub(crate) clients: Vec<Client>,
    pub(crate) messages: Vec<Seen>,
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
pub(crate) fn parse(recording: &[u8]) -> Recording {
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
