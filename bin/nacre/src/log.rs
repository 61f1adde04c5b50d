//! Log files: one for each daemon, bounded in size.

use node::{Level, LogLine};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use types::UTime;

/// A file is put aside when it has this many bytes.
const LARGEST: u64 = 16 << 20;
/// Files put aside that are kept: `NAME.log.1` is the latest.
const KEPT: u32 = 4;

/// A log that several threads may write to.
#[derive(Clone)]
pub(crate) struct Log(Arc<Mutex<Rotated>>);

struct Rotated {
    path: PathBuf,
    file: Option<File>,
    written: u64,
    largest: u64,
}

impl Log {
    /// Goes on with `DIR/log/NAME.log`. A log that cannot be written is no reason not to serve.
    pub(crate) fn open(dir: &Path, name: &str) -> Self {
        Self::at(dir.join("log").join(format!("{name}.log")), LARGEST)
    }

    fn at(path: PathBuf, largest: u64) -> Self {
        let mut log = Rotated { path, file: None, written: 0, largest };
        log.reopen();
        Self(Arc::new(Mutex::new(log)))
    }

    /// A line that the process says, not a machine.
    pub(crate) fn say(&self, level: Level, text: impl Into<String>) {
        self.write(now(), &LogLine { level, part: "process".into(), text: text.into() });
    }

    fn write(&self, wall: UTime, line: &LogLine) {
        let level = match line.level {
            Level::Error => "error",
            Level::Warn => "warn ",
            Level::Info => "info ",
            Level::Debug => "debug",
        };
        let text = format!("{wall} {level} {}: {}\n", line.part, line.text.replace('\n', "\n    "));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).append(text.as_bytes());
    }
}

impl runtime::LogSink for Log {
    fn line(&mut self, wall: UTime, line: &LogLine) {
        self.write(wall, line);
    }
}

impl Rotated {
    fn reopen(&mut self) {
        self.file = File::options().create(true).append(true).open(&self.path).ok();
        self.written = self.file.as_ref().and_then(|f| f.metadata().ok()).map_or(0, |m| m.len());
    }

    /// A full disk loses lines; there is nobody to tell.
    fn append(&mut self, text: &[u8]) {
        if self.written > 0 && self.written + text.len() as u64 > self.largest {
            self.rotate();
        }
        if let Some(file) = &mut self.file {
            let _ = file.write_all(text);
            self.written += text.len() as u64;
        }
    }

    fn rotate(&mut self) {
        let name = |n: u32| match n {
            0 => self.path.clone(),
            n => self.path.with_extension(format!("log.{n}")),
        };
        for n in (0..KEPT).rev() {
            let _ = std::fs::rename(name(n), name(n + 1));
        }
        self.reopen();
    }
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
        let log = Log::at(dir.path().join("osd.0.log"), 1000);
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
}
