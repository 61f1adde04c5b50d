//! What a real Ceph 16.2.15 answered to `tools/conformance/stories/classes_story.py`, call by call, played again over
//! objects in memory. How such a recording is made is written in that script.

use crate::testing::Bench;
use crate::{Lookup, find};
use bytes::Bytes;
use denc::Encode;
use std::collections::BTreeMap;
use std::fmt::Write;
use types::{Errno, UTime};

const RECORDED: &str = include_str!("../testdata/recorded.txt");
/// The time of all calls; the recording has `[now]` where its own times were.
const NOW: UTime = UTime { sec: 0x7a5a_1234, nsec: 0x0123_4567 };

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter_map(|b| (b as char).to_digit(16)).map(|d| d as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Bytes as the script shows them.
fn shown(data: &[u8]) -> String {
    let now = NOW.to_vec();
    let (mut out, mut rest) = (String::new(), data);
    while let Some((byte, tail)) = rest.split_first() {
        if let Some(tail) = rest.strip_prefix(now.as_slice()) {
            out.push_str("[now]");
            rest = tail;
        } else {
            write!(out, "{byte:02x}").expect("memory");
            rest = tail;
        }
    }
    if out.len() > 400 { format!("{}... {} bytes", &out[..400], data.len()) } else { out }
}

/// Returns what a client of the group hears.
pub(crate) fn call(bench: &mut Bench, class: &str, method: &str, input: &[u8]) -> Result<Bytes, Errno> {
    let found = match find(class.as_bytes(), method.as_bytes()) {
        Lookup::Found(found) => found,
        Lookup::UnknownClass => return Err(Errno::EPERM),
        Lookup::UnknownMethod => return Err(Errno::EOPNOTSUPP),
    };
    if !found.writes() && !bench.exists() {
        return Err(Errno::ENOENT);
    }
    let output = bench.call(class, method, input)?;
    // Writes return nothing unless their client asks for it.
    Ok(if found.writes() { Bytes::new() } else { output })
}

fn told(result: Result<Bytes, Errno>) -> String {
    match result {
        Ok(output) => format!("{} {}", output.len(), shown(&output)).trim_end().to_owned(),
        // Python knows this number by another name.
        Err(Errno::EOPNOTSUPP) => "error ENOTSUP".into(),
        Err(errno) => format!("error {errno:?}"),
    }
}

#[test]
fn the_classes_answer_as_ceph_does() {
    let mut objects: BTreeMap<&str, Bench> = BTreeMap::new();
    let mut differences = Vec::new();
    for line in RECORDED.lines() {
        let mut fields = line.splitn(3, ' ');
        let (kind, oid, rest) = (fields.next(), fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let bench = objects.entry(oid).or_insert_with(|| {
            let mut bench = Bench { now: NOW, ..Bench::default() };
            bench.origin.num = 4242;
            bench
        });
        let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
        let (ours, theirs) = match kind {
            Some("full") => (bench.replace(Some(hex(rest))), String::new()),
            Some("remove") => (bench.replace(None), String::new()),
            Some("write") => {
                bench.write_raw(first.parse().expect("an offset"), &hex(second));
                continue;
            }
            Some("read") => (shown(&bench.data()), rest.to_owned()),
            Some("keys") => (bench.keys().join(","), rest.trim_matches('-').to_owned()),
            Some("value") => (bench.omap(first).unwrap_or_default(), second.to_owned()),
            Some("call") => {
                let mut fields = second.splitn(3, ' ');
                let (method, input) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
                let ours = told(call(bench, first, method, &hex(input)));
                let theirs = fields.next().unwrap_or_default();
                (if theirs == "[hidden]" { theirs.to_owned() } else { ours }, theirs.to_owned())
            }
            other => panic!("{other:?}"),
        };
        if ours != theirs {
            differences.push(format!("{line}\n  ours: {ours}"));
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}
