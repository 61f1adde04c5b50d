//! Where the lines of the log go.
//!
//! | place | when | form of a line | bound |
//! |---|---|---|---|
//! | `DIR/log/NAME.log`, one for each daemon | nothing else is said | time, level, part, text | 16 MiB, and four such files put aside |
//! | one file | `--log-file FILE`, or `log_file` in `nacre.toml` | time, level, daemon, part, text | somebody else's: logrotate, and SIGHUP |
//! | standard error | `--log-file stderr` | the same | |
//! | the journal | standard error is the journal (`JOURNAL_STREAM`) | `<N>` for the level, daemon, part, text; the journal has the time | the journal's |
//!
//! [`Logs`] is the process's: it knows the place and all sinks, so that they can be opened anew. A [`Log`] is a
//! daemon's. A log that cannot be written is no reason to stop serving; one that cannot be opened at the start is
//! refused if a person asked for it.

use anyhow::{Context, Result};
use node::{Level, LogLine};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use types::UTime;

/// A file is put aside when it has this many bytes.
const LARGEST: u64 = 16 << 20;
/// Files put aside that are kept: `NAME.log.1` is the latest.
const KEPT: u32 = 4;
/// Value of `--log-file` for standard error.
const STDERR: &str = "stderr";

/// All logs of this process.
#[derive(Clone)]
pub(crate) struct Logs {
    place: Place,
    sinks: Arc<Mutex<Vec<Arc<Mutex<Sink>>>>>,
}

/// Place where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Folder(PathBuf),
    File(PathBuf),
    Stderr,
    Journal,
}

/// The log of a daemon, or of the process. Several threads may write to it.
#[derive(Clone)]
pub(crate) struct Log {
    daemon: Arc<str>,
    form: Form,
    sink: Arc<Mutex<Sink>>,
}

/// Layout of a line.
#[derive(Clone, Copy)]
enum Form {
    /// In a file of the daemon's own.
    Own,
    /// Among lines of other daemons.
    Shared,
    /// For the journal.
    Journal,
}

/// Receiver of lines.
enum Sink {
    File(Written),
    Stderr,
}

/// A file that is written.
struct Written {
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
    /// Bytes after which it is put aside; `None`: others do that.
    largest: Option<u64>,
}

impl Logs {
    /// The logs of a process of DIR. `asked`: what the command line says; `kept`: what `nacre.toml` says.
    ///
    /// # Errors
    /// The file, or the folder, cannot be made or written.
    pub(crate) fn of(dir: &Path, asked: Option<&Path>, kept: Option<&Path>) -> Result<Self> {
        let at = std::env::var("JOURNAL_STREAM").ok();
        let place = choose(dir, asked, kept, at.is_some_and(|stream| is_stderr(&stream)))?;
        let logs = Self { place, sinks: Arc::default() };
        match &logs.place {
            Place::Folder(folder) => crate::state::make_folder(folder)?,
            Place::File(path) => {
                let file = open(path).with_context(|| format!("the log file {} cannot be written", path.display()))?;
                logs.keep(Sink::File(Written::new(path.clone(), Some(file), None)));
            }
            Place::Stderr | Place::Journal => drop(logs.keep(Sink::Stderr)),
        }
        Ok(logs)
    }

    /// The log of `daemon`.
    pub(crate) fn log(&self, daemon: &str) -> Log {
        let form = match &self.place {
            Place::Folder(_) => Form::Own,
            Place::File(_) | Place::Stderr => Form::Shared,
            Place::Journal => Form::Journal,
        };
        let sink = match &self.place {
            Place::Folder(folder) => {
                let path = folder.join(format!("{daemon}.log"));
                let file = open(&path).ok();
                self.keep(Sink::File(Written::new(path, file, Some(LARGEST))))
            }
            _ => self.all()[0].clone(),
        };
        Log { daemon: daemon.into(), form, sink }
    }

    /// Opens all files anew: somebody moved them aside.
    pub(crate) fn reopen(&self) {
        self.all().iter().for_each(|sink| locked(sink).reopen());
    }

    /// Returns where a person finds the lines.
    pub(crate) fn place(&self) -> String {
        match &self.place {
            Place::Folder(path) | Place::File(path) => path.display().to_string(),
            Place::Stderr => "standard error".into(),
            Place::Journal => "the journal".into(),
        }
    }

    fn keep(&self, sink: Sink) -> Arc<Mutex<Sink>> {
        let sink = Arc::new(Mutex::new(sink));
        self.all().push(sink.clone());
        sink
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<Mutex<Sink>>>> {
        locked(&self.sinks)
    }
}

/// Locks; what a panic left is a whole line or none: nothing here is half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn choose(dir: &Path, asked: Option<&Path>, kept: Option<&Path>, journal: bool) -> Result<Place> {
    let file = match (asked, kept) {
        (Some(path), _) if path == Path::new(STDERR) => None,
        (Some(path), _) => Some(std::path::absolute(path).with_context(|| path.display().to_string())?),
        (None, Some(path)) if path == Path::new(STDERR) => None,
        (None, Some(path)) => Some(dir.join(path)),
        (None, None) if journal => return Ok(Place::Journal),
        (None, None) => return Ok(Place::Folder(dir.join("log"))),
    };
    Ok(match file {
        Some(path) => Place::File(path),
        None if journal => Place::Journal,
        None => Place::Stderr,
    })
}

/// Returns true if standard error is the stream that `JOURNAL_STREAM` names: `DEVICE:INODE` (`systemd.exec(5)`). A
/// process that was started by a service inherits the variable, and may have another standard error.
fn is_stderr(stream: &str) -> bool {
    let Ok(own) = std::io::stderr().as_fd().try_clone_to_owned() else { return false };
    File::from(own).metadata().is_ok_and(|meta| stream == format!("{}:{}", meta.dev(), meta.ino()))
}

fn open(path: &Path) -> std::io::Result<File> {
    File::options().create(true).append(true).open(path)
}

impl Log {
    /// A line that the process says, not a machine.
    pub(crate) fn say(&self, level: Level, text: impl Into<String>) {
        self.write(now(), &LogLine { level, part: "process".into(), text: text.into() });
    }

    fn write(&self, wall: UTime, line: &LogLine) {
        let text = self.form.text(&self.daemon, wall, line);
        locked(&self.sink).append(text.as_bytes());
    }
}

impl runtime::LogSink for Log {
    fn line(&mut self, wall: UTime, line: &LogLine) {
        self.write(wall, line);
    }
}

impl Form {
    fn text(self, daemon: &str, wall: UTime, line: &LogLine) -> String {
        let level = match line.level {
            Level::Error => "error",
            Level::Warn => "warn ",
            Level::Info => "info ",
            Level::Debug => "debug",
        };
        let (part, text) = (&line.part, grammar::printable(&line.text).replace('\n', "\n    "));
        match self {
            Form::Own => format!("{wall} {level} {part}: {text}\n"),
            Form::Shared => format!("{wall} {level} {daemon} {part}: {text}\n"),
            Form::Journal => {
                let priority = priority(line.level);
                let text = text.replace('\n', &format!("\n<{priority}>"));
                format!("<{priority}>{daemon} {part}: {text}\n")
            }
        }
    }
}

/// The level as `sd-daemon(3)` has it.
fn priority(level: Level) -> u8 {
    match level {
        Level::Error => 3,
        Level::Warn => 4,
        Level::Info => 6,
        Level::Debug => 7,
    }
}

impl Sink {
    /// Full disks and closed pipes lose lines; there is nobody to tell.
    fn append(&mut self, text: &[u8]) {
        match self {
            Sink::File(written) => written.append(text),
            Sink::Stderr => drop(std::io::stderr().lock().write_all(text)),
        }
    }

    fn reopen(&mut self) {
        match self {
            Sink::File(written) => written.reopen(),
            Sink::Stderr => {}
        }
    }
}

impl Written {
    fn new(path: PathBuf, file: Option<File>, largest: Option<u64>) -> Self {
        let bytes = length(file.as_ref());
        Self { path, file, bytes, largest }
    }

    /// Goes on with the file that has the name now. If it cannot be opened, the old one is better than none.
    fn reopen(&mut self) {
        match open(&self.path) {
            Ok(file) => *self = Self::new(self.path.clone(), Some(file), self.largest),
            Err(e) => self.append(format!("{} warn  process: {} cannot be opened: {e}\n", now(), self.path.display()).as_bytes()),
        }
    }

    fn append(&mut self, text: &[u8]) {
        if self.largest.is_some_and(|largest| self.bytes > 0 && self.bytes + text.len() as u64 > largest) {
            self.put_aside();
        }
        if let Some(file) = &mut self.file {
            let _ = file.write_all(text);
            self.bytes += text.len() as u64;
        }
    }

    fn put_aside(&mut self) {
        let name = |n: u32| match n {
            0 => self.path.clone(),
            n => self.path.with_extension(format!("log.{n}")),
        };
        for n in (0..KEPT).rev() {
            let _ = std::fs::rename(name(n), name(n + 1));
        }
        self.file = open(&self.path).ok();
        self.bytes = length(self.file.as_ref());
    }
}

fn length(file: Option<&File>) -> u64 {
    file.and_then(|f| f.metadata().ok()).map_or(0, |m| m.len())
}

/// The time on the wall.
pub(crate) fn now() -> UTime {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    UTime::from_nanos(since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("osd.0.log");
        let sink = Sink::File(Written::new(path.clone(), open(&path).ok(), Some(1000)));
        let log = Log { daemon: "osd.0".into(), form: Form::Own, sink: Arc::new(Mutex::new(sink)) };
        for i in 0..300 {
            log.say(Level::Info, format!("line {i}\nsecond"));
        }
        let mut names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["osd.0.log", "osd.0.log.1", "osd.0.log.2", "osd.0.log.3", "osd.0.log.4"]);
        let latest = std::fs::read_to_string(dir.path().join("osd.0.log")).unwrap();
        assert!(latest.ends_with("info  process: line 299\n    second\n"), "{latest}");
        for name in names {
            assert!(std::fs::metadata(dir.path().join(name)).unwrap().len() <= 1000);
        }
    }

    #[test]
    fn a_shared_file_is_opened_anew_when_it_was_moved() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nacre.log");
        let logs = Logs::of(dir.path(), Some(&path), None).unwrap();
        let (mon, osd) = (logs.log("mon.a"), logs.log("osd.0"));
        mon.say(Level::Warn, "one");
        std::fs::rename(&path, dir.path().join("old")).unwrap();
        osd.say(Level::Info, "two");
        logs.reopen();
        mon.say(Level::Info, "three");
        let old = std::fs::read_to_string(dir.path().join("old")).unwrap();
        assert!(old.contains("warn  mon.a process: one\n") && old.ends_with("info  osd.0 process: two\n"), "{old}");
        let new = std::fs::read_to_string(&path).unwrap();
        assert!(new.ends_with("info  mon.a process: three\n") && new.lines().count() == 1, "{new}");
        assert!(!dir.path().join("log").exists());
        let error = Logs::of(dir.path(), Some(&dir.path().join("no/where")), None).err().unwrap();
        assert!(error.to_string().contains("no/where cannot be written"), "{error}");
    }

    #[test]
    fn the_command_line_stands_above_the_file_and_both_above_the_journal() {
        let (dir, a, b) = (Path::new("/d"), Path::new("/a"), Path::new("b"));
        let place = |asked, kept, journal| choose(dir, asked, kept, journal).unwrap();
        assert_eq!(place(None, None, false), Place::Folder("/d/log".into()));
        assert_eq!(place(None, None, true), Place::Journal);
        assert_eq!(place(None, Some(b), true), Place::File("/d/b".into()));
        assert_eq!(place(Some(a), Some(b), true), Place::File("/a".into()));
        assert_eq!(place(Some(Path::new("stderr")), Some(b), false), Place::Stderr);
        assert_eq!(place(Some(Path::new("stderr")), None, true), Place::Journal);
        assert!(!is_stderr("0:0") && !is_stderr("nonsense"));
    }

    #[test]
    fn the_journal_gets_a_level_on_each_line_and_no_time() {
        let line = LogLine { level: Level::Error, part: "store".into(), text: "bad\nworse \u{1b}[2J".into() };
        assert_eq!(Form::Journal.text("osd.3", now(), &line), "<3>osd.3 store: bad\n<3>    worse \\u{1b}[2J\n");
    }
}
