//! Reads the recorded conversations and the encoded samples that the workspace keeps for tests.

#![allow(dead_code, unreachable_pub)]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

fn archive(name: &str) -> Vec<(String, Vec<u8>)> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(name);
    let file = std::fs::File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut archive = tar::Archive::new(xz2::read::XzDecoder::new_multi_decoder(file));
    let entries = archive.entries().expect("a tar archive");
    // The samples' archive ends in the middle of an entry; all before it is sound.
    let files = entries.map_while(Result::ok).filter(|e| e.header().entry_type().is_file());
    files
        .map(|mut e| {
            let name = e.path().expect("a path").to_string_lossy().into_owned();
            let mut bytes = Vec::new();
            let whole = e.read_to_end(&mut bytes).is_ok_and(|n| n as u64 == e.size());
            (name, bytes, whole)
        })
        .filter(|(.., whole)| *whole)
        .map(|(name, bytes, _)| (name, bytes))
        .collect()
}

/// Samples of encoded structures: type → (hash of the sample, bytes).
pub fn samples() -> BTreeMap<String, Vec<(String, Vec<u8>)>> {
    let mut by_type: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for (path, bytes) in archive("ceph-objects-16.2.0.tar.xz") {
        let mut parts = path.rsplit('/');
        let (Some(hash), Some(kind)) = (parts.next(), parts.next()) else { continue };
        by_type.entry(kind.to_owned()).or_default().push((hash.to_owned(), bytes));
    }
    by_type
}

/// The front of every message of the kinds `kinds` in all recordings, as (recording, kind, front).
pub fn recorded_messages(kinds: &[u16]) -> Vec<(String, u16, Vec<u8>)> {
    let mut found = Vec::new();
    for (name, bytes) in archive("recordings.tar.xz") {
        if !name.ends_with(".cap") {
            continue;
        }
        for stream in streams(&bytes) {
            for (kind, front) in messages(&stream) {
                if kinds.contains(&kind) {
                    found.push((name.clone(), kind, front));
                }
            }
        }
    }
    assert!(!found.is_empty(), "no such messages in the recordings");
    found
}

/// One direction of a connection: where its numbering starts, and its segments.
type Flow<'a> = (Option<u32>, Vec<(u32, &'a [u8])>);

/// The byte streams of a recording. A record is: time f64, source and target port u16, sequence number u32, TCP flags
/// u8, length u32, bytes.
fn streams(mut capture: &[u8]) -> Vec<Vec<u8>> {
    const HEAD: usize = 21;
    let mut segments: BTreeMap<(u16, u16), Flow<'_>> = BTreeMap::new();
    while capture.len() >= HEAD {
        let number = |at: usize, n: usize| capture[at..at + n].iter().rev().fold(0u64, |v, b| v << 8 | u64::from(*b));
        let (from, to, seq, flags, len) =
            (number(8, 2) as u16, number(10, 2) as u16, number(12, 4) as u32, number(16, 1), number(17, 4) as usize);
        let data = &capture[HEAD..HEAD + len];
        let (base, list) = segments.entry((from, to)).or_default();
        if flags & 2 != 0 {
            *base = Some(seq.wrapping_add(1));
        }
        if !data.is_empty() {
            let base = *base.get_or_insert(seq);
            list.push((seq.wrapping_sub(base), data));
        }
        capture = &capture[HEAD + len..];
    }
    segments.into_values().map(|(_, list)| join(list)).collect()
}

/// Joins segments up to the first gap.
fn join(mut list: Vec<(u32, &[u8])>) -> Vec<u8> {
    list.sort_by_key(|(at, _)| *at);
    let mut out = Vec::new();
    for (at, data) in list {
        let at = at as usize;
        if at > out.len() {
            break;
        }
        if at + data.len() > out.len() {
            out.extend_from_slice(&data[out.len() - at..]);
        }
    }
    out
}

/// The messages of a stream of plain frames: (kind, front).
fn messages(stream: &[u8]) -> Vec<(u16, Vec<u8>)> {
    const PREAMBLE: usize = 32;
    const MESSAGE: u8 = 17;
    let mut found = Vec::new();
    if !stream.starts_with(b"ceph v2\n") || stream.len() < 26 {
        return found;
    }
    let mut at = 10 + usize::from(u16::from_le_bytes([stream[8], stream[9]]));
    while let Some(preamble) = stream.get(at..at + PREAMBLE) {
        let crc = u32::from_le_bytes(preamble[28..32].try_into().expect("four bytes"));
        if kernels::crc32c(0, &preamble[..28]) != crc {
            break;
        }
        let (tag, count) = (preamble[0], usize::from(preamble[1]));
        at += PREAMBLE;
        let mut segments = Vec::new();
        for i in 0..count.min(4) {
            let len = &preamble[2 + 6 * i..6 + 6 * i];
            let len = u32::from_le_bytes(len.try_into().expect("four bytes")) as usize;
            let Some(segment) = stream.get(at..at + len) else { return found };
            segments.push(segment);
            at += len + if i == 0 && len > 0 { 4 } else { 0 };
        }
        at += if count > 1 { 13 } else { 0 };
        if tag == MESSAGE && segments.len() > 1 && segments[0].len() >= 18 {
            found.push((u16::from_le_bytes([segments[0][16], segments[0][17]]), segments[1].to_vec()));
        }
    }
    found
}
