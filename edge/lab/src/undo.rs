//! What was started is owned by a guard that ends it, and written to a journal first, so that a run after `kill -9` can
//! end it.
//!
//! Data: `OUT/undo.jsonl`, one line for each thing begun and one for each thing ended. Order: the line is on disk
//! before the thing is begun where its name is known before (mounts, folders, settings), right after where it is not
//! (processes, loop devices).

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time that a process may take to end when it was asked to.
const GENTLE: Duration = Duration::from_secs(10);
/// Time that the kernel may take to remove a process that was killed, or to let go of a mount.
const REMOVED: Duration = Duration::from_secs(10);

/// Something that must not outlive the experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Thing {
    /// A process that leads a group, with its start in the kernel's ticks, so that another with its number is left
    /// alone.
    Process {
        /// Its id.
        pid: i32,
        /// Its start.
        start: u64,
        /// True if it is asked to end before it is killed.
        gentle: bool,
    },
    /// A mounted file system.
    Mount {
        /// Its path.
        path: PathBuf,
    },
    /// A loop device and the file that it is made of.
    Loop {
        /// As `/dev/loop3`.
        device: PathBuf,
        /// The file.
        file: PathBuf,
    },
    /// A folder or file with all that is in it.
    Folder {
        /// Its path.
        path: PathBuf,
    },
    /// A setting of the kernel, as a file below /sys, and what it said before.
    Setting {
        /// The file.
        path: PathBuf,
        /// Its content before.
        before: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Begun(u64, Thing),
    Ended(u64),
}

#[derive(Debug)]
struct Journal {
    file: File,
    next: u64,
}

/// The journal of one experiment.
#[derive(Clone, Debug)]
pub struct Undo(Arc<Mutex<Journal>>);

impl Undo {
    /// Opens the journal in `out` and ends what an earlier run left; gives sentences about that.
    ///
    /// # Errors
    /// The journal cannot be read or written.
    pub fn open(out: &Path) -> Result<(Self, Vec<String>)> {
        let path = out.join("undo.jsonl");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let mut left: Vec<(u64, Thing)> = Vec::new();
        // A last line that was cut off by a crash is not JSON; its thing was not begun yet, or is a process that the next line would name.
        for line in text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
            match line {
                Line::Begun(id, thing) => left.push((id, thing)),
                Line::Ended(id) => left.retain(|(other, _)| *other != id),
            }
        }
        let told = left.iter().rev().map(|(_, thing)| format!("left by an earlier run: {}", end(thing))).collect();
        let file = OpenOptions::new().create(true).write(true).truncate(true).open(&path);
        let file = file.with_context(|| format!("write {}", path.display()))?;
        Ok((Self(Arc::new(Mutex::new(Journal { file, next: 0 }))), told))
    }

    /// Takes charge of a thing. It ends when what this gives is dropped.
    ///
    /// # Errors
    /// The journal cannot be written; the thing is ended then.
    pub fn hold(&self, thing: Thing) -> Result<Held> {
        let mut journal = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let id = journal.next;
        journal.next += 1;
        drop(journal);
        let held = Held { undo: self.clone(), id, thing: thing.clone() };
        self.write(&Line::Begun(id, thing)).context("write the journal of what is to be undone")?;
        Ok(held)
    }

    fn write(&self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        let mut journal = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(journal.file.write_all(text.as_bytes())?)
    }
}

/// A thing that ends when this is dropped.
#[derive(Debug)]
pub struct Held {
    undo: Undo,
    id: u64,
    thing: Thing,
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = end(&self.thing);
        let _ = self.undo.write(&Line::Ended(self.id));
    }
}

/// Ends a thing, says what it did.
fn end(thing: &Thing) -> String {
    match thing {
        Thing::Process { pid, start, gentle } => end_process(*pid, *start, *gentle),
        Thing::Mount { path } => {
            let until = Instant::now() + REMOVED;
            let mut done = tell("umount", &[path.as_os_str()]);
            while !done && is_mounted(path) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(100));
                done = tell("umount", &[path.as_os_str()]);
            }
            if is_mounted(path) {
                tell("umount", &["-l".as_ref(), path.as_os_str()]);
            }
            format!("unmounted {}", path.display())
        }
        Thing::Loop { device, file } => {
            let backing = Command::new("losetup").args(["-n", "-O", "BACK-FILE"]).arg(device).output();
            let backing = backing.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default();
            if Path::new(backing.trim_end_matches(" (deleted)")) == file.as_path() {
                tell("losetup", &["-d".as_ref(), device.as_os_str()]);
            }
            format!("detached {}", device.display())
        }
        Thing::Folder { path } => {
            let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
            format!("removed {}", path.display())
        }
        Thing::Setting { path, before } => {
            let _ = std::fs::write(path, before);
            format!("set {} back to {before}", path.display())
        }
    }
}

fn tell(program: &str, args: &[&std::ffi::OsStr]) -> bool {
    Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// Returns true if a file system is mounted at this path.
pub(crate) fn is_mounted(path: &Path) -> bool {
    let text = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    text.lines().any(|line| line.split(' ').nth(1).is_some_and(|p| Path::new(&p.replace("\\040", " ")) == path))
}

fn end_process(pid: i32, start: u64, gentle: bool) -> String {
    let id = Pid::from_raw(pid);
    let there = || start_of(pid) == Some(start);
    if there() {
        let _ = killpg(id, Signal::SIGCONT);
        if gentle && kill(id, Signal::SIGTERM).is_ok() {
            wait_while(GENTLE, there);
        }
        let _ = killpg(id, Signal::SIGKILL);
        let _ = kill(id, Signal::SIGKILL);
        wait_while(REMOVED, there);
    }
    format!("ended process {pid}")
}

fn wait_while(most: Duration, there: impl Fn() -> bool) {
    let until = Instant::now() + most;
    while there() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Start of a process that runs, in the kernel's ticks; `None` if there is none, or only what is left of one.
pub(crate) fn start_of(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    // Field 22; the state was field 3.
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;

    #[test]
    fn what_is_held_ends_with_its_guard() {
        let out = tempfile::tempdir().unwrap();
        let (undo, told) = Undo::open(out.path()).unwrap();
        assert!(told.is_empty());
        let folder = out.path().join("f");
        std::fs::create_dir_all(folder.join("deep")).unwrap();
        let held = undo.hold(Thing::Folder { path: folder.clone() }).unwrap();
        assert!(folder.exists());
        drop(held);
        assert!(!folder.exists());
        assert!(Undo::open(out.path()).unwrap().1.is_empty());
    }

    #[test]
    fn a_later_run_ends_what_an_earlier_one_left() {
        let out = tempfile::tempdir().unwrap();
        let (undo, _) = Undo::open(out.path()).unwrap();
        let mut child = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let pid = child.id() as i32;
        let start = start_of(pid).unwrap();
        let setting = out.path().join("setting");
        std::fs::write(&setting, "new").unwrap();
        std::mem::forget(undo.hold(Thing::Process { pid, start, gentle: true }).unwrap());
        std::mem::forget(undo.hold(Thing::Setting { path: setting.clone(), before: "old".into() }).unwrap());
        let (_, told) = Undo::open(out.path()).unwrap();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(!child.wait().unwrap().success());
        assert_eq!(std::fs::read_to_string(setting).unwrap(), "old");
    }

    #[test]
    fn another_process_with_the_same_number_is_left_alone() {
        let mut child = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let pid = child.id() as i32;
        end_process(pid, start_of(pid).unwrap() + 1, false);
        assert!(child.try_wait().unwrap().is_none());
        end_process(pid, start_of(pid).unwrap(), false);
        assert!(!child.wait().unwrap().success());
    }
}
