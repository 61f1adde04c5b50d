//! The executable as a process.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(crate) const NACRE: &str = env!("CARGO_BIN_EXE_nacre");

/// A folder on the file system of the sources: that of temporary files may be in memory.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A running `nacre`, killed when dropped.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) ready: String,
}

impl Running {
    pub(crate) fn start(dir: &Path, more: &str) -> Self {
        Self::spawn(Command::new(NACRE).arg("up").arg("--dir").arg(dir).args(words(more)))
    }

    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.starts_with("ready"), "it says '{ready}'");
        Self { child, ready }
    }

    pub(crate) fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success());
    }

    pub(crate) fn stop(mut self, signal: &str) -> i32 {
        self.signal(signal);
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(20) {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it does not stop");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// Runs `nacre` to its end.
pub(crate) fn nacre(args: &[&str]) -> Output {
    Command::new(NACRE).args(args).env_remove("CEPH_CONF").output().unwrap()
}

/// Runs `nacre up`, which must refuse; gives its words.
pub(crate) fn refused(dir: &Path, more: &str) -> String {
    let mut command = Command::new(NACRE);
    command.arg("up").arg("--dir").arg(dir).args(words(more)).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{text}");
    assert!(text.starts_with("nacre: "), "{text}");
    text
}

pub(crate) fn admin(dir: &Path, daemon: &str, command: &str) -> serde_json::Value {
    let socket = dir.join(format!("{daemon}.asok"));
    let done = Command::new(NACRE).arg("admin").arg(&socket).args(words(command)).output().unwrap();
    assert!(done.status.success(), "{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

pub(crate) fn listing(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    all
}
