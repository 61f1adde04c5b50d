//! What a real 16.2 monitor takes and refuses: `tests/data/accepted.txt` holds the answers of `auth add` to these
//! texts, one per line: service, `+` or `-`, the text with `\n`, `\t` and `\\` escaped.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the samples are a file")]

use caps::{CapsError, MgrCaps, MonCaps, OsdCaps};

/// Refused here on purpose, though Ceph takes them and then never grants anything: a network that is none, a pattern
/// that is none.
const STRICTER: &[&str] = &[
    "mon allow r network 10.0.0.0",
    "mon allow r network abc/de",
    "mon allow command foo with a regex \"(\"",
    "osd allow r network 10.0.0.0",
];

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            (_, Some('n')) => out.push('\n'),
            (_, Some('t')) => out.push('\t'),
            (_, Some(other)) => out.push(other),
            (c, None) => out.push(c),
        }
    }
    out
}

fn parse(service: &str, text: &str) -> Result<(), CapsError> {
    match service {
        "mon" => MonCaps::parse(text).map(drop),
        "osd" => OsdCaps::parse(text).map(drop),
        _ => MgrCaps::parse(text).map(drop),
    }
}

#[test]
fn the_same_texts_are_taken_as_by_a_real_monitor() {
    let path = std::env::var("NACRE_CAPS").unwrap_or(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/accepted.txt").into());
    let answers = std::fs::read_to_string(path).expect("the answers are in the repository");
    let mut wrong = Vec::new();
    let mut count = [0, 0];
    for line in answers.lines() {
        let (service, rest) = line.split_once(' ').expect("a service");
        let (answer, text) = rest.split_at(1);
        let text = unescape(text.strip_prefix(' ').unwrap_or(text));
        let taken = parse(service, &text);
        if taken.is_ok() != (answer == "+") && !STRICTER.contains(&format!("{service} {text}").as_str()) {
            wrong.push(format!("{line}   here: {taken:?}"));
        }
        count[usize::from(answer == "+")] += 1;
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
    assert!(count[0] >= 80 && count[1] >= 100, "{count:?}");
}
