//! When two outputs count as the same.

use serde_json::Value;
use std::collections::BTreeSet;

/// How strictly an output is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The same text, after what differs from run to run (ids, times, addresses) is masked.
    Same,
    /// The same text after every number is masked too, and blanks are squeezed.
    Shape,
    /// The same first line after masking: the columns of a table whose rows differ.
    Head,
    /// Both JSON; every key that the real one has, ours has.
    Keys,
    /// What it says on standard error, as [`Mode::Shape`]: most commands that change something say so there.
    Said,
    /// Only the exit code.
    Code,
}

impl Mode {
    /// From its name in a list of cases.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "same" => Self::Same,
            "shape" => Self::Shape,
            "head" => Self::Head,
            "keys" => Self::Keys,
            "said" => Self::Said,
            "code" => Self::Code,
            _ => return None,
        })
    }
}

/// Returns what of an output counts in a mode, so that two outputs count as the same if their digests do.
pub fn digest(mode: Mode, text: &str) -> String {
    match mode {
        Mode::Code => String::new(),
        Mode::Same => mask(text, false),
        Mode::Shape | Mode::Said => mask(text, true),
        Mode::Head => mask(text.lines().next().unwrap_or_default(), true),
        Mode::Keys => keys(text),
    }
}

/// `None` if `ours` counts as `theirs`, else what differs.
pub fn difference(mode: Mode, ours: &str, theirs: &str, without: &[String]) -> Option<String> {
    difference_of_digests(mode, &digest(mode, ours), &digest(mode, theirs), without)
}

/// The same of two digests.
pub fn difference_of_digests(mode: Mode, ours: &str, theirs: &str, without: &[String]) -> Option<String> {
    match mode {
        Mode::Code => None,
        Mode::Keys => missing_keys(ours, theirs, without),
        Mode::Same | Mode::Shape | Mode::Said | Mode::Head => first_difference(ours, theirs),
    }
}

/// Begins the digest of what should be JSON and is not.
const NOT_JSON: &str = "not JSON: ";

/// The keys of JSON text, one a line.
fn keys(text: &str) -> String {
    match serde_json::from_str::<Value>(text.trim()) {
        Ok(value) => {
            let mut keys = BTreeSet::new();
            collect_keys(&value, "", &mut keys);
            keys.iter().map(|key| format!("{key}\n")).collect()
        }
        Err(e) => format!("{NOT_JSON}{e}\n"),
    }
}

fn first_difference(ours: &str, theirs: &str) -> Option<String> {
    let (mut a, mut b) = (ours.lines(), theirs.lines());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return None,
            (x, y) if x == y => {}
            (x, y) => return Some(format!("ours {:?}, Ceph {:?}", x.unwrap_or("(end)"), y.unwrap_or("(end)"))),
        }
    }
}

/// Replaces what differs from run to run; with `numbers`, every number, and squeezes blanks and rules.
fn mask(text: &str, numbers: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let words: Vec<String> = line.split(' ').map(|word| mask_word(word, numbers)).collect();
        let line = words.join(" ");
        if numbers {
            let squeezed: Vec<&str> = line.split_whitespace().collect();
            out.push_str(&squeezed.join(" "));
        } else {
            out.push_str(line.trim_end());
        }
        out.push('\n');
    }
    out
}

fn mask_word(word: &str, numbers: bool) -> String {
    let core = word.trim_matches(|c: char| ",;()[]'\"".contains(c));
    if is_uuid(core) {
        return word.replace(core, "UUID");
    }
    if is_time(core) {
        return word.replace(core, "TIME");
    }
    if let Some(id) = core.strip_prefix("client.").filter(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit())) {
        return word.replace(id, "ID");
    }
    if core.contains("/") && core.contains(':') && core.contains('.') && core.bytes().any(|b| b.is_ascii_digit()) {
        return "ADDR".into();
    }
    if !numbers {
        return word.into();
    }
    let mut out = String::new();
    let mut digits = false;
    for c in word.chars() {
        let digit = c.is_ascii_digit() || (digits && c == '.');
        if digit && !digits {
            out.push('0');
        }
        if !digit {
            out.push(c);
        }
        digits = digit;
    }
    // Sizes come with a unit that depends on the number.
    if ["KiB", "MiB", "GiB", "TiB", "B"].contains(&core) { word.replace(core, "B") } else { out }
}

fn is_uuid(word: &str) -> bool {
    word.len() == 36
        && word.bytes().enumerate().all(|(i, b)| if matches!(i, 8 | 13 | 18 | 23) { b == b'-' } else { b.is_ascii_hexdigit() })
}

fn is_time(word: &str) -> bool {
    word.len() >= 19 && word.as_bytes()[4] == b'-' && word.as_bytes()[7] == b'-' && word.as_bytes()[10] == b'T'
}

fn missing_keys(ours: &str, theirs: &str, without: &[String]) -> Option<String> {
    for (whose, text) in [("ours is ", ours), ("the real one is ", theirs)] {
        if text.starts_with(NOT_JSON) {
            return Some(format!("{whose}{}", text.trim()));
        }
    }
    let has: BTreeSet<&str> = ours.lines().collect();
    let known = |key: &&str| !without.iter().any(|prefix| key.starts_with(prefix));
    let missing: Vec<&str> = theirs.lines().filter(|key| !has.contains(key)).filter(known).collect();
    if missing.is_empty() { None } else { Some(format!("keys that Ceph has and we lack: {missing:?}")) }
}

fn collect_keys(value: &Value, path: &str, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                // Keys that are themselves data (ids, names with numbers) stand for each other.
                let key: String = if key.bytes().any(|b| b.is_ascii_digit()) { "N".into() } else { key.clone() };
                let path = format!("{path}.{key}");
                collect_keys(value, &path, out);
                out.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_keys(item, &format!("{path}[]"), out)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_masked_and_nothing_else() {
        let a = "watcher=127.0.0.1:0/174 client.4493 cookie 12 at 2026-11-20T15:52:54.000000+0000";
        let b = "watcher=127.0.0.1:0/999 client.1 cookie 12 at 2025-01-02T03:04:05.000000+0000";
        assert_eq!(difference(Mode::Same, a, b, &[]), None);
        assert!(difference(Mode::Same, a, &b.replace("cookie 12", "cookie 13"), &[]).is_some());
        assert_eq!(difference(Mode::Shape, a, &b.replace("cookie 12", "cookie 13"), &[]), None);
        assert!(difference(Mode::Shape, a, &b.replace("cookie", "cake"), &[]).is_some());
    }

    #[test]
    fn a_missing_key_is_named() {
        let difference = difference(Mode::Keys, r#"{"a":[{"b":1}],"x":2}"#, r#"{"a":[{"b":5,"c":2}]}"#, &[]);
        assert_eq!(difference, Some(r#"keys that Ceph has and we lack: [".a[].c"]"#.into()));
    }
}
