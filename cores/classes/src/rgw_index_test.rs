//! What a real Ceph 16.2.15 answered to `tools/conformance/foreign/rgw_index.py`, call by call, played again over
//! objects in memory.
//!
//! Lines of the recording: `start SEED` for a new object; `call METHOD INPUT ERRNO ANSWER STATE`. Long answers, and
//! the state (the header as a listing tells it, and the omap), are digests.

use crate::testing::Bench;
use crate::{Lookup, find};
use bytes::Bytes;
use denc::{Decode, Encode};
use messages::class::rgw::index::{DirHeader, LogEntry};
use messages::class::rgw::index_ops::{CheckIndexReply, ListOp, ListReply, LogListReply};
use types::{Errno, UTime};

const RECORDED: &str = include_str!("../testdata/rgw_index.txt");
/// The time of all calls: the recording has it where its own times were.
const NOW: UTime = UTime { sec: 0x7a5a_1234, nsec: 0x0123_4567 };

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter_map(|b| (b as char).to_digit(16)).map(|d| d as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn shown(data: &[u8]) -> String {
    data.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// FNV-1a of 64 bits, as the script writes it.
fn digest(data: &[u8]) -> String {
    let step = |h: u64, byte: &u8| (h ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", data.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

/// Returns what a client hears: reads of nothing find nothing, and writes answer nothing.
fn call(bench: &mut Bench, method: &str, input: &[u8]) -> (i32, Bytes) {
    let Lookup::Found(found) = find(b"rgw", method.as_bytes()) else { panic!("no method {method}") };
    if !found.writes() && !bench.exists() {
        return (Errno::ENOENT.0, Bytes::new());
    }
    match bench.call("rgw", method, input) {
        Ok(_) if found.writes() => (0, Bytes::new()),
        Ok(output) => (0, output),
        Err(errno) => (errno.0, Bytes::new()),
    }
}

/// An id of the log by the index's version alone: the rest tells calls and vectors apart.
fn neat_id(id: &Bytes) -> Bytes {
    match id.iter().position(|byte| *byte == b'.') {
        Some(point) => [&id[..point], b".1000.0"].concat().into(),
        None => id.clone(),
    }
}

/// An answer with such ids.
fn neat_answer(method: &str, output: Bytes) -> Bytes {
    if output.is_empty() {
        return output;
    }
    let neat_header = |header: &mut DirHeader| header.max_marker = neat_id(&header.max_marker);
    match method {
        "bucket_list" => {
            let mut reply = ListReply::from_bytes(&output).expect("a reply");
            neat_header(&mut reply.dir.header);
            reply.to_bytes()
        }
        "bucket_check_index" => {
            let mut reply = CheckIndexReply::from_bytes(&output).expect("a reply");
            neat_header(&mut reply.existing);
            neat_header(&mut reply.calculated);
            reply.to_bytes()
        }
        "bi_log_list" => {
            let mut reply = LogListReply::from_bytes(&output).expect("a reply");
            reply.entries.iter_mut().for_each(|entry| entry.id = neat_id(&entry.id));
            reply.to_bytes()
        }
        _ => output,
    }
}

/// The header as a listing tells it, and the omap.
fn state(bench: &mut Bench) -> Vec<u8> {
    let mut all = match call(bench, "bucket_list", &ListOp::default().to_vec()) {
        (0, header) => Vec::from(&neat_answer("bucket_list", header)[..]),
        (errno, _) => format!("error {errno}").into_bytes(),
    };
    for (mut key, mut value) in bench.pairs() {
        if let Some(id) = key.strip_prefix(b"\x800_") {
            let entry = LogEntry::from_bytes(&value).expect("an entry");
            assert_eq!(entry.id, id);
            let id = neat_id(&entry.id);
            (key, value) = ([b"\x800_", &id[..]].concat().into(), LogEntry { id, ..entry }.to_bytes());
        }
        key.encode(&mut all);
        value.encode(&mut all);
    }
    all
}

#[test]
fn the_index_answers_as_ceph_does() {
    let (mut bench, mut seed, mut step) = (Bench::default(), "", 0);
    let mut differ: Vec<String> = Vec::new();
    for line in RECORDED.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, method, input, errno, answer, after] = fields[..] else {
            (seed, step) = (fields[1], 0);
            bench = Bench { now: NOW, place: (1000, 0), ..Bench::default() };
            continue;
        };
        let (ours, output) = call(&mut bench, method, &hex(input));
        let output = neat_answer(method, output);
        let told = match answer.strip_prefix('#') {
            Some(_) => format!("#{}", digest(&output)),
            None if output.is_empty() => "-".to_owned(),
            None => shown(&output),
        };
        step += 1;
        let at = format!("seed {seed}, call {step}: {method} {input}");
        if differ.last().is_some_and(|last| last.starts_with(&format!("seed {seed},"))) {
            continue;
        }
        if (ours.to_string().as_str(), told.as_str()) != (errno, answer) {
            differ.push(format!("{at}: {ours} {told}, in Ceph {errno} {answer}; {}", shown(&output)));
        } else if digest(&state(&mut bench)) != after {
            differ.push(format!("{at}: state {}", shown(&state(&mut bench))));
        }
    }
    assert!(step > 10, "a recording");
    assert!(differ.is_empty(), "{} objects differ:\n{}", differ.len(), differ.join("\n"));
}
