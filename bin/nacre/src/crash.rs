//! Reports of daemons that died by a panic.
//!
//! | when | what |
//! |---|---|
//! | a thread panics | its report is written to DIR/crash/ID/meta, in the form of Ceph's reports. Nothing else is done: the process is about to end |
//! | the host's process starts | each report is given to the cluster (`ceph crash ls`, `RECENT_CRASH`), and moved to DIR/crash/posted. While monitors do not answer, it is tried again |
//!
//! *Bounds*: [`WAITING`] reports wait; a process that dies again and again leaves the first of them, which tell most. [`POSTED`] that were given stay, the
//! newest. A report has at most [`MOST_BYTES`] bytes, which the monitors take.

use crate::client::Failure;
use crate::log::Log;
use crate::{host, keys, log, state, token};
use node::Level;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Reports that wait to be given to the cluster.
const WAITING: usize = 32;
/// Reports that were given and stay on this host.
const POSTED: usize = 32;
/// Most bytes of a report, and of the lines of its way.
const MOST_BYTES: u64 = 48 << 10;
const WAY_BYTES: usize = 24 << 10;
/// Most bytes of a panic's words.
const WORDS: usize = 4 << 10;
/// Time for which it is waited before monitors are asked again.
const AGAIN: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(10);

/// The folder of reports in DIR.
pub(crate) fn folder(dir: &Path) -> PathBuf {
    dir.join("crash")
}

/// The beginning of a text, of at most so many bytes.
fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Writes the report of a panic: the thread's name, the panic's words, its file and line, and the way to it. What fails is not told: the log has the
/// panic anyway.
pub(crate) fn note(dir: &Path, thread: &str, words: &str, place: Option<(&str, u32)>, way: &str) {
    // Threads that show the page or ask for it end nothing when they panic.
    if ["page", "metrics", "client"].iter().any(|other| thread.starts_with(other)) || waiting(dir).len() >= WAITING {
        return;
    }
    let Ok(uuid) = keys::random_uuid() else { return };
    let stamp = log::now().iso().replace("+0000", "Z");
    let id = format!("{stamp}_{}", types::Fsid(uuid));
    // A thread of several daemons is called after the first of them: `osd.0+2`.
    let daemon = thread.split('+').next().filter(|name| name.starts_with("osd.") || name.starts_with("mon."));
    let facts = host::metadata();
    let fact = |name: &str| facts.get(name).cloned().unwrap_or_default();
    let (file, line) = place.unwrap_or_default();
    let report = json!({
        "crash_id": id,
        "timestamp": stamp,
        "process_name": "nacre",
        "entity_name": daemon.unwrap_or("client.nacre"),
        "ceph_version": env!("CARGO_PKG_VERSION"),
        "utsname_hostname": host::name(),
        "utsname_sysname": "Linux",
        "utsname_machine": fact("arch"),
        "utsname_release": fact("kernel_version"),
        "utsname_version": fact("kernel_description"),
        "os_name": fact("distro_description"),
        "os_id": fact("distro"),
        "os_version_id": fact("distro_version"),
        "assert_msg": cut(words, WORDS),
        "assert_thread_name": thread,
        "assert_file": file,
        "assert_line": line,
        "backtrace": cut(way, WAY_BYTES).lines().map(str::trim_end).collect::<Vec<_>>(),
    });
    let place = folder(dir).join(&id);
    if state::make_folder(&folder(dir)).is_ok() && state::make_folder(&place).is_ok() {
        let _ = keys::write_private(&place.join("meta"), &report.to_string());
    }
}

/// The folders of reports that were not given to the cluster yet, the oldest first.
fn waiting(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder(dir)).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.join("meta").is_file()).collect();
    found.sort();
    found
}

/// Returns a report that may be given to the cluster.
fn read(place: &Path) -> Option<String> {
    let meta = place.join("meta");
    let small = std::fs::metadata(&meta).ok()?.len() <= MOST_BYTES;
    let text = std::fs::read_to_string(meta).ok().filter(|_| small)?;
    serde_json::from_str::<Value>(&text).ok()?["crash_id"].is_string().then_some(text)
}

/// Puts a report aside that was given, and the oldest of those away.
fn put_aside(dir: &Path, place: &Path) {
    let posted = folder(dir).join("posted");
    let Some(name) = place.file_name() else { return };
    if state::make_folder(&posted).is_err() || std::fs::rename(place, posted.join(name)).is_err() {
        // It is given again at the next start; the cluster knows it then.
        return;
    }
    let mut all: Vec<PathBuf> = std::fs::read_dir(&posted).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    all.sort();
    for old in all.iter().rev().skip(POSTED) {
        let _ = std::fs::remove_dir_all(old);
    }
}

/// Gives the cluster what earlier lives of this host left, as soon as monitors answer.
pub(crate) fn report(dir: &Path, log: &Log) {
    if waiting(dir).is_empty() {
        return;
    }
    let (dir, log) = (dir.to_owned(), log.clone());
    let body = move || {
        while !post_all(&dir, &log) {
            std::thread::sleep(AGAIN);
        }
    };
    // Without a thread the next start does it.
    let _ = std::thread::Builder::new().name("client.crash".into()).stack_size(512 << 10).spawn(body);
}

/// Gives reports to the cluster. Returns false if it is to be tried again.
fn post_all(dir: &Path, log: &Log) -> bool {
    let Ok(client) = token::administrator(dir) else { return false };
    for place in waiting(dir) {
        let name = place.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let Some(text) = read(&place) else {
            log.say(Level::Warn, format!("the report of a crash {name} cannot be read: it is put aside"));
            put_aside(dir, &place);
            continue;
        };
        match client.command_with(&json!({"prefix": "crash post"}), text.into_bytes(), PATIENCE) {
            Ok(_) => log.say(
                Level::Warn,
                format!("a daemon of this host died: the report {name} is with the cluster now (ceph crash info)"),
            ),
            Err(Failure::Silence | Failure::Key) => return false,
            Err(Failure::Refused(_, why)) => log.say(Level::Error, format!("the report of a crash {name} is refused: {why}")),
        }
        put_aside(dir, &place);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_leaves_a_report_that_monitors_take() {
        let dir = tempfile::tempdir().unwrap();
        let way = "   0: one\n   1: two\n".repeat(5000);
        note(dir.path(), "osd.0+2", "it broke\u{1b}", Some(("store.rs", 7)), &way);
        let places = waiting(dir.path());
        assert_eq!(places.len(), 1);
        let text = read(&places[0]).unwrap();
        let report = manager_report(&text);
        assert_eq!((report["entity_name"].as_str(), report["assert_line"].as_u64()), (Some("osd.0"), Some(7)));
        assert_eq!(report["assert_thread_name"], "osd.0+2");
        assert!(text.len() as u64 <= MOST_BYTES && report["backtrace"][0] == "   0: one");
        assert_eq!(report["crash_id"].as_str(), places[0].file_name().and_then(|name| name.to_str()));
        note(dir.path(), "page", "it ends nothing", None, "");
        assert_eq!(waiting(dir.path()).len(), 1);
        for _ in 0..2 * WAITING {
            note(dir.path(), "mon.a", &"ä".repeat(WORDS), None, "");
        }
        assert_eq!(waiting(dir.path()).len(), WAITING);
        for place in waiting(dir.path()) {
            put_aside(dir.path(), &place);
        }
        note(dir.path(), "mon.a", "x", None, "");
        put_aside(dir.path(), &waiting(dir.path())[0]);
        let posted = std::fs::read_dir(folder(dir.path()).join("posted")).unwrap().count();
        assert_eq!((posted, waiting(dir.path()).len()), (POSTED, 0));
    }

    /// Returns a report as monitors want it: an id, and a time that they can read.
    fn manager_report(text: &str) -> Value {
        let report: Value = serde_json::from_str(text).unwrap();
        let stamp = report["timestamp"].as_str().unwrap();
        assert!(types::UTime::parse_calendar(stamp).is_some(), "{stamp}");
        report
    }

    #[test]
    fn what_is_no_report_is_not_given() {
        let dir = tempfile::tempdir().unwrap();
        let place = folder(dir.path()).join("x");
        std::fs::create_dir_all(&place).unwrap();
        for bad in ["", "[]", "{\"crash_id\":1}", &format!("{{\"crash_id\":\"{}\"}}", "x".repeat(MOST_BYTES as usize))] {
            std::fs::write(place.join("meta"), bad).unwrap();
            assert!(read(&place).is_none());
        }
    }
}
