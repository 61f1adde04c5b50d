//! Recorded conversations cut into messages: TCP segments, streams, msgr2.1 frames in crc mode.

use bytes::Bytes;
use denc::{Reader, Result};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use types::{Message, Rope};

/// Tag of a frame that carries a message.
const MESSAGE: u8 = 17;
/// Bytes of a preamble.
const PREAMBLE: usize = 32;
/// Bytes between the last segment and the next frame, if there is more than one segment.
const EPILOGUE: usize = 13;

/// Every recording with its name: `NAME.cap` in the archive.
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

/// One direction of a TCP connection.
#[derive(Default)]
struct Stream {
    /// First sequence number, as SYN tells.
    base: Option<u32>,
    segments: BTreeMap<u32, Vec<Vec<u8>>>,
}

impl Stream {
    fn add(&mut self, sequence: u32, flags: u8, data: &[u8]) {
        if flags & 2 != 0 {
            self.base = Some(sequence.wrapping_add(1));
        }
        if !data.is_empty() {
            let base = *self.base.get_or_insert(sequence);
            self.segments.entry(sequence.wrapping_sub(base)).or_default().push(data.to_vec());
        }
    }

    /// The bytes up to the first hole.
    fn bytes(&self) -> Vec<u8> {
        let mut out: Vec<u8> = Vec::new();
        for (at, segments) in &self.segments {
            for data in segments {
                let Some(known) = out.len().checked_sub(*at as usize) else { return out };
                out.extend_from_slice(data.get(known..).unwrap_or_default());
            }
        }
        out
    }
}

/// A conversation: what went from the side that connected, and what came back.
pub(crate) struct Conversation {
    pub(crate) to_server: Vec<Message>,
    pub(crate) to_client: Vec<Message>,
}

/// The conversations in a recording.
pub(crate) fn conversations(recording: &[u8]) -> Vec<Conversation> {
    split(recording)
        .expect("a recording is whole")
        .values()
        .map(|[to, from]| Conversation { to_server: messages(&to.bytes()), to_client: messages(&from.bytes()) })
        .collect()
}

/// Streams by port pair. A segment: time (f64), source and destination port, sequence number, flags, length, data.
fn split(recording: &[u8]) -> Result<BTreeMap<(u16, u16), [Stream; 2]>> {
    let mut r = Reader::new(recording);
    let mut streams: BTreeMap<(u16, u16), [Stream; 2]> = BTreeMap::new();
    while !r.is_empty() {
        r.get::<f64>()?;
        let (from, to, sequence, flags, len): (u16, u16, u32, u8, u32) = (r.get()?, r.get()?, r.get()?, r.get()?, r.get()?);
        let data = r.take(len as usize)?;
        // SYN and ACK together come from the side that listens.
        let is_answer = streams.contains_key(&(to, from)) || flags & 0x12 == 0x12;
        let (key, side) = if is_answer { ((to, from), 1) } else { ((from, to), 0) };
        streams.entry(key).or_default()[side].add(sequence, flags, data);
    }
    Ok(streams)
}

/// The messages of one direction; stops at the first frame that is cut off or encrypted.
fn messages(stream: &[u8]) -> Vec<Message> {
    let mut found = Vec::new();
    let mut r = Reader::new(stream);
    if r.take(8).ok() != Some(b"ceph v2\n") {
        return found;
    }
    let Ok(len) = r.u16() else { return found };
    if r.skip(len.into()).is_err() {
        return found;
    }
    while let Ok(Some((tag, segments))) = frame(&mut r) {
        if tag == MESSAGE {
            found.push(message(segments).expect("a message's header"));
        }
    }
    found
}

/// Tag and four segments.
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
