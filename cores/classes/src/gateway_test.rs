//! What a real Ceph 16.2.15 answered to `tools/conformance/stories/gateway_story.py`, call by call, and what the
//! objects looked like afterwards, played again over objects in memory. How such a recording is made is written in that
//! script.

use crate::otp::code_at;
use crate::recorded_test::{call, hex};
use crate::testing::Bench;
use bytes::Bytes;
use denc::{Encode, Reader};
use messages::class::otp::CheckOp;
use std::collections::BTreeMap;
use std::fmt::Write;
use types::{Errno, UTime};

const RECORDED: &str = include_str!("../testdata/gateway.txt");
/// The time of the first call; the recording has `[now]` where its own times were.
const NOW: UTime = UTime { sec: 0x7a5a_1234, nsec: 0x0123_4567 };
/// Seconds around that within which a time is one of the run.
const NEAR: u32 = 100_000;

/// Eight bytes that are chance, and what they are called.
type Names = BTreeMap<Vec<u8>, String>;

/// Bytes as the script shows them.
fn shown(data: &[u8], names: &Names) -> String {
    let (mut out, mut rest) = (String::new(), data);
    while let Some((byte, tail)) = rest.split_first() {
        let eight = rest.get(..8).unwrap_or_default();
        let time = Reader::new(eight).get::<UTime>().ok();
        let near = time.is_some_and(|time| time.sec.abs_diff(NOW.sec) < NEAR && time.nsec < 1_000_000_000);
        let name = names.get(eight).map(String::as_str).or(near.then_some("now"));
        match name {
            Some(name) => {
                write!(out, "[{name}]").expect("memory");
                rest = &rest[8..];
            }
            None => {
                write!(out, "{byte:02x}").expect("memory");
                rest = tail;
            }
        }
    }
    if out.len() <= 3000 {
        return out;
    }
    let digest = out.bytes().fold(0xcbf2_9ce4_8422_2325u64, |sum, b| (sum ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    format!("{}...{digest:016x}", &out[..200])
}

/// A key as the script shows it: 11 digits, a point and 9 digits are a time.
fn shown_key(key: &[u8]) -> String {
    let text = String::from_utf8_lossy(key).into_owned();
    let time = text.char_indices().map(|(at, _)| at).find_map(|at| {
        let (sec, nsec) = text.get(at..at + 21)?.split_once('.')?;
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        let near = sec.parse::<u32>().ok()?.abs_diff(NOW.sec) < NEAR;
        (sec.len() == 11 && digits(sec) && digits(nsec) && near).then_some(at)
    });
    time.map_or(text.clone(), |at| format!("{}[time]{}", &text[..at], &text[at + 21..]))
}

/// All that an object is, as the script tells it.
fn look(bench: &Bench, names: &Names) -> Vec<String> {
    if !bench.exists() {
        return vec!["gone".into()];
    }
    let data = bench.data();
    let mut lines = vec![format!("data {} {}", data.len(), shown(&data, names)).trim_end().to_owned()];
    for (name, value) in bench.xattrs() {
        lines.push(format!("xattr {} {}", String::from_utf8_lossy(&name), shown(&value, names)));
    }
    for (key, value) in bench.pairs() {
        lines.push(format!("omap {} {}", shown_key(&key), shown(&value, names)).trim_end().to_owned());
    }
    lines
}

fn told(result: Result<Bytes, Errno>, names: &Names) -> String {
    match result {
        Ok(output) => format!("{} {}", output.len(), shown(&output, names)).trim_end().to_owned(),
        // Python knows this number by another name.
        Err(Errno::EOPNOTSUPP) => "error ENOTSUP".into(),
        Err(errno) => format!("error {errno:?}"),
    }
}

#[test]
fn the_gateways_classes_answer_and_store_as_ceph_does() {
    let mut objects: BTreeMap<&str, Bench> = BTreeMap::new();
    let (mut names, mut expected, mut differences) = (Names::new(), Vec::new(), Vec::new());
    let (mut now, mut calls) = (NOW, 0);
    for line in RECORDED.lines() {
        let mut fields = line.splitn(3, ' ');
        let (kind, oid, rest) = (fields.next(), fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let bench = objects.entry(oid).or_default();
        // Two calls never have the same time.
        now.nsec += 1;
        bench.now = now;
        let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
        match kind {
            Some("call") => {
                let mut fields = second.splitn(3, ' ');
                let (method, input) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
                let theirs = fields.next().unwrap_or_default();
                let ours = told(call(bench, first, method, &hex(input)), &names);
                calls += 1;
                if theirs != "[hidden]" && theirs != ours {
                    differences.push(format!("{line}\n  ours: {ours}"));
                }
            }
            // A password that is right at the time of the call: device, token, secret.
            Some("code") => {
                let fields: Vec<&str> = second.split(' ').collect();
                let [method, id, token, secret] = fields[..] else { panic!("{line}") };
                let value = code_at(&hex(secret), now).into();
                let op = CheckOp { id: id.as_bytes().to_vec().into(), value, token: token.as_bytes().to_vec().into() };
                call(bench, first, method, &op.to_vec()).expect("a device");
            }
            Some("look") => expected.push(rest),
            Some("end") => {
                let with_data = expected.iter().any(|line| line.starts_with("data") || *line == "gone");
                let mut ours = look(bench, &names);
                ours.retain(|line| with_data || !line.starts_with("data"));
                if ours != expected {
                    differences.push(format!("{oid} is\n  {}\n  ours:\n  {}", expected.join("\n  "), ours.join("\n  ")));
                }
                expected.clear();
            }
            Some("name") => {
                let at: usize = first.parse().expect("an offset");
                let data = bench.data();
                names.insert(data.get(at..at + 8).expect("eight bytes").to_vec(), second.into());
            }
            Some("write") => bench.write_raw(first.parse().expect("an offset"), &hex(second)),
            Some("omap") => bench.set_omap(first, &hex(second)),
            Some("xattr") => bench.set_xattr(first, &hex(second)),
            other => panic!("{other:?}"),
        }
    }
    assert!(calls > 1_500, "the recording has only {calls} calls");
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}
