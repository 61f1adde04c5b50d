//! Foreign programs: run to their end with a limit, or held as daemons.

use crate::undo::{self, Held, Thing, Undo};
use anyhow::{Context, Result, bail};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which a program that runs is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Says whether the user wants the end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(pub Arc<AtomicBool>);

impl Interrupt {
    /// Returns true if the user wants the end.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sleeps for this long.
    ///
    /// # Errors
    /// The user wants the end.
    pub fn sleep(&self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.check()?;
            std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
        self.check()
    }

    /// Nothing, or the error of an interruption.
    ///
    /// # Errors
    /// The user wants the end.
    pub fn check(&self) -> Result<()> {
        if self.is_set() { Err(Interrupted.into()) } else { Ok(()) }
    }
}

/// The user wants the end.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Output of a program.
#[derive(Clone, Debug)]
pub struct Said {
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// Its end; `None` if it took too long and was killed.
    pub status: Option<ExitStatus>,
}

/// A program that runs, with its output being read.
pub struct Running {
    child: Child,
    out: JoinHandle<String>,
    err: JoinHandle<String>,
    held: Held,
    what: String,
}

/// Starts a program whose output is read.
///
/// # Errors
/// It cannot be started; the error names the program.
pub fn start(mut command: Command, undo: &Undo) -> Result<Running> {
    let what = shown(&command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().with_context(|| missing(&command))?;
    let held = hold(&child, undo, false)?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    Ok(Running { child, out: reader(out), err: reader(err), held, what })
}

/// Returns what is said when a program does not start.
fn missing(command: &Command) -> String {
    let program = command.get_program().to_string_lossy().into_owned();
    let package = match program.as_str() {
        "rados" | "ceph" | "rbd" | "ceph-authtool" => "ceph-common",
        "ceph-mon" | "ceph-osd" | "ceph-mgr" => "ceph-mon, ceph-osd and ceph-mgr",
        "monmaptool" => "ceph-base",
        "radosgw" | "radosgw-admin" => "radosgw",
        "fio" => "fio",
        "mkfs.xfs" => "xfsprogs",
        "mkfs.btrfs" => "btrfs-progs",
        "mkfs.ext4" => "e2fsprogs",
        "mmdebstrap" => "mmdebstrap",
        "perf" => "linux-perf",
        _ => return format!("start {program}"),
    };
    format!("start {program} (Debian's package {package} has it)")
}

fn hold(child: &Child, undo: &Undo, gentle: bool) -> Result<Held> {
    let pid = i32::try_from(child.id())?;
    undo.hold(Thing::Process { pid, start: undo::start_of(pid).unwrap_or(0), gentle })
}

fn reader(stream: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// A command as one would type it.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|w| w.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The command.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Waits for its end, at most until `limit`; it is killed then.
    ///
    /// # Errors
    /// The user wants the end; it is killed.
    pub fn wait(mut self, limit: Instant, interrupt: &Interrupt) -> Result<Said> {
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break Some(status);
            }
            interrupt.check()?;
            if Instant::now() >= limit {
                break None;
            }
            std::thread::sleep(LOOK);
        };
        drop(self.held);
        let _ = self.child.wait();
        let text = |handle: JoinHandle<String>| handle.join().unwrap_or_default();
        Ok(Said { out: text(self.out), err: text(self.err), status })
    }
}

/// Runs a program to its end; gives its standard output.
///
/// # Errors
/// It cannot be started, fails or takes too long; the error has its own words.
pub fn output(command: Command, limit: Duration, undo: &Undo, interrupt: &Interrupt) -> Result<String> {
    let running = start(command, undo)?;
    let what = running.what.clone();
    let said = running.wait(Instant::now() + limit, interrupt)?;
    match said.status {
        Some(status) if status.success() => Ok(said.out),
        Some(status) => bail!("{what}: {status}: {}", last_lines(&said.err, &said.out)),
        None => bail!("{what}: did not end within {:.0} s: {}", limit.as_secs_f64(), last_lines(&said.err, &said.out)),
    }
}

/// Longest part of a line that is repeated in a message, in characters: some tools say all they know in one line of
/// JSON.
const LINE: usize = 300;

/// The last lines of what a program said on standard error, or else on standard output, each cut to a length for
/// messages.
pub fn last_lines(err: &str, out: &str) -> String {
    let text = if err.trim().is_empty() { out } else { err };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let cut = |line: &&str| match line.char_indices().nth(LINE) {
        Some((at, _)) => format!("{} …", &line[..at]),
        None => (*line).to_owned(),
    };
    lines[lines.len().saturating_sub(6)..].iter().map(cut).collect::<Vec<_>>().join(" / ")
}

/// A server that runs until it is dropped.
pub struct Daemon {
    held: Option<Held>,
    child: Child,
}

impl Daemon {
    /// Starts it, with its output in a file.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(mut command: Command, log: &Path, gentle: bool, undo: &Undo) -> Result<Self> {
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("write {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        let child = command.spawn().with_context(|| missing(&command))?;
        let held = Some(hold(&child, undo, gentle)?);
        Ok(Self { held, child })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether it has ended by itself.
    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.held.take());
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        command
    }

    #[test]
    fn output_is_given_and_failures_have_their_own_words() {
        let folder = tempfile::tempdir().unwrap();
        let (undo, _) = Undo::open(folder.path()).unwrap();
        let interrupt = Interrupt::default();
        let run = |text: &str, limit| output(sh(text), limit, &undo, &interrupt).map_err(|e| format!("{e:#}"));
        let long = Duration::from_secs(20);
        assert_eq!(run("echo yes", long).as_deref(), Ok("yes\n"));
        assert!(run("echo no >&2; exit 3", long).unwrap_err().contains("exit status: 3: no"));
        assert!(run("sleep 100", Duration::from_millis(50)).unwrap_err().contains("did not end within"));
        let none = output(Command::new("ceph-osd-that-is-not-there"), long, &undo, &interrupt);
        assert!(format!("{:#}", none.unwrap_err()).contains("ceph-osd-that-is-not-there"));
        interrupt.0.store(true, Ordering::Relaxed);
        let error = output(sh("sleep 100"), long, &undo, &interrupt).unwrap_err();
        assert!(error.is::<Interrupted>());
    }
}
