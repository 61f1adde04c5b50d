//! Takes out of a text what differs from run to run.

use regex_lite::{Captures, Regex};
use std::path::Path;
use std::sync::OnceLock;

/// Patterns and what stands for them, in order.
const MASKS: &[(&str, &str)] = &[
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UUID"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d:?\d\d)?", "TIME"),
    (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d \d{4}", "TIME"),
    (r"^TIME [0-9a-f]{12,16} +-?\d+ ", "LOG "),
    (r"0x[0-9a-f]{8,16}\b", "PTR"),
    (r"\[?(v[12]:)?(\d{1,3}\.){3}\d{1,3}:\d+/\d+[\],]?", "ADDR"),
    (r"\bclient\.\d+", "client.N"),
    (r"cookie=\d+", "cookie=N"),
    (r"\b(rbd_data|journal_data)\.[0-9]+\.[0-9a-f]{8,16}\b", "${1}.POOL.ID"),
    (r"\b(rbd_data|rbd_header|rbd_object_map|journal|journal_data|rbd_group_header)\.[0-9a-f]{8,16}\b", "${1}.ID"),
    (r"\b[0-9a-f]{10,16}\b", "ID"),
    (r"\bid: [0-9a-f]{8,16}\b", "id: ID"),
    (r"\b\d{1,2}% complete\.\.\.failed", "N% complete...failed"),
    (r"/tmp/\S+\.asok", "ASOK"),
    (r"/dev/shm/\S+", "FILE"),
];

/// Lines of clients' logs that come or not, by chance.
const CHANCE: &[&str] = &["monclient: get_auth_request"];

fn patterns() -> &'static [(Regex, &'static str)] {
    static ALL: OnceLock<Vec<(Regex, &'static str)>> = OnceLock::new();
    ALL.get_or_init(|| MASKS.iter().filter_map(|(from, to)| Some((Regex::new(from).ok()?, *to))).collect())
}

/// The lines of `text`, masked. Of lines that were overwritten on a terminal (progress), the last stays. With
/// `numbers`, every number is masked, and blanks are squeezed.
pub fn lines(text: &str, work: &Path, numbers: bool) -> Vec<String> {
    let text = text.replace(&*work.to_string_lossy(), "DIR");
    text.lines().map(|line| masked(line, numbers)).filter(|line| !CHANCE.iter().any(|noise| line.contains(noise))).collect()
}

/// As [`lines`], for error output, which several threads write: lines of the client's log, wherever they cut into
/// others, come first, sorted.
pub fn error_lines(text: &str, work: &Path, numbers: bool) -> Vec<String> {
    static LOG: OnceLock<Option<Regex>> = OnceLock::new();
    let log = LOG.get_or_init(|| Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\S* [0-9a-f]{8,16} +-?\d+ [^\n]*\n?").ok());
    let Some(log) = log else { return lines(text, work, numbers) };
    let mut logged: Vec<String> = log.find_iter(text).flat_map(|m| lines(m.as_str(), work, numbers)).collect();
    logged.sort();
    logged.extend(lines(&log.replace_all(text, ""), work, numbers).into_iter().filter(|line| !line.is_empty()));
    logged
}

fn masked(line: &str, numbers: bool) -> String {
    let line = line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default();
    let mut line = line.to_owned();
    for (from, to) in patterns() {
        line = if *to == "ID" {
            from.replace_all(&line, |found: &Captures<'_>| id_or_number(&found[0])).into_owned()
        } else {
            from.replace_all(&line, *to).into_owned()
        };
    }
    if numbers {
        line = without_numbers(&line);
    }
    line.trim_end().to_owned()
}

/// Ids of images and pools' clients are hexadecimal; what has decimal digits only is a number that counts.
fn id_or_number(text: &str) -> String {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.to_owned() } else { "ID".to_owned() }
}

fn without_numbers(line: &str) -> String {
    static NUMBER: OnceLock<Option<Regex>> = OnceLock::new();
    let number = NUMBER.get_or_init(|| Regex::new(r"\d+(\.\d+)?(e[+-]?\d+)?( ?([KMGT]i)?B(/s)?\b)?").ok());
    let line = number.as_ref().map_or(line.to_owned(), |n| n.replace_all(line, "N").into_owned());
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_masked_and_nothing_else() {
        let one = |text: &str, numbers| lines(text, Path::new("/tmp/w"), numbers).join("\n");
        assert_eq!(one("\tid: 10a4d1e2f3a9b", false), "\tid: ID");
        assert_eq!(one("block_name_prefix: rbd_data.10a4d1e2f3", false), "block_name_prefix: rbd_data.ID");
        assert_eq!(one("create_timestamp: Sat Nov 21 11:45:30 2026", false), "create_timestamp: TIME");
        assert_eq!(one("a: 1%\rb: 100% complete...done.", false), "b: 100% complete...done.");
        assert_eq!(one("watcher=127.0.0.1:0/3 client.41 cookie=140", false), "watcher=ADDR client.N cookie=N");
        assert_eq!(one("2026-11-21T11:45:30.123+0000 7f6b6992a380 -1 librbd: x", false), "LOG librbd: x");
        let mixed = "Copy2026-11-21T11:45:30.123+0000 7f6b6992a380 -1 librbd: x\n: 7% complete...failed.\n";
        assert_eq!(error_lines(mixed, Path::new("/tmp/w"), false), ["LOG librbd: x", "Copy: N% complete...failed."]);
        assert_eq!(one("size 12345678901 order 22 /tmp/w/f", false), "size 12345678901 order 22 DIR/f");
        assert_eq!(one("elapsed: 1   bytes/sec: 4.1 MiB/s", true), "elapsed: N bytes/sec: N");
    }

    #[test]
    fn every_pattern_is_one() {
        assert_eq!(patterns().len(), MASKS.len());
    }
}
