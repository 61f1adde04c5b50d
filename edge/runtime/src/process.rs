//! What a daemon's process needs from the system around its machines: signals, locks, limits, small pages.

use crate::sys;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// Time that the kernel may take to finish what a dead process had begun.
const AFTERMATH: Duration = Duration::from_secs(10);

pub use libc::{SIGHUP, SIGINT, SIGTERM};

/// Asks a process to end (SIGTERM). One that is over already is no error.
///
/// # Errors
/// The system refuses.
pub fn terminate(pid: u32) -> io::Result<()> {
    match sys::terminate(pid) {
        Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        other => other,
    }
}

/// SIGTERM, SIGINT and SIGHUP as values instead of interruptions.
#[derive(Debug)]
pub struct Signals(());

impl Signals {
    /// Holds the signals back in this thread and in those that it starts later. Call it before any other thread exists.
    ///
    /// # Errors
    /// The system refuses.
    pub fn hold() -> io::Result<Self> {
        sys::hold_signals()?;
        Ok(Self(()))
    }

    /// Waits for the next signal and gives its number.
    pub fn next(&self) -> i32 {
        sys::next_signal()
    }
}

/// Does what the first process of a container owes to the others: children that end are forgotten by the kernel, also
/// those whose parents ended before them. A process that did this cannot wait for its own children any more.
///
/// # Errors
/// The system refuses.
pub fn reap_children() -> io::Result<()> {
    sys::ignore_children()
}

/// Raises the limit of open files as far as the process may, and gives the limit.
///
/// # Errors
/// The system refuses.
pub fn raise_file_limit() -> io::Result<u64> {
    sys::raise_file_limit()
}

/// Keeps the memory of this process, which holds keys, out of core files and from other processes of the same user.
///
/// # Errors
/// The system refuses.
pub fn keep_memory_private() -> io::Result<()> {
    sys::keep_memory_private()
}

/// Lets nobody but the user of this process write its files and folders, and connect to its sockets, whatever mask it
/// was started with. Call it before any other thread exists.
pub fn keep_files_private() {
    sys::keep_files_private();
}

/// Asks the kernel for small pages for this process and its children, except for what [`Memory`](crate::Memory) asks
/// for. It is for a server on a virtual machine: the guest gives free memory back to its host in large pieces, and a
/// huge page always comes from such a piece, which costs milliseconds to get again. Small pages come from what the
/// guest kept. `docs/performance/memory.md` has the measurements. Kernels before 6.18 know no exception: where their
/// setting is `always`, all memory is in small pages.
///
/// # Errors
/// The system refuses; nothing but speed is lost.
pub fn refuse_huge_pages() -> io::Result<()> {
    sys::refuse_huge_pages()
}

/// Processor time of the calling thread.
pub fn thread_cpu() -> Duration {
    sys::thread_cpu()
}

/// Bytes that the file system of the open file or folder can still give.
///
/// # Errors
/// The system does not tell.
pub fn host_free(file: &File) -> io::Result<u64> {
    sys::file_system(file).map(|(free, _)| free)
}

/// Finds the process that holds a whole-file lock on `file`, if the kernel tells (`/proc/locks`).
pub fn lock_holder(file: &File) -> Option<u32> {
    let meta = file.metadata().ok()?;
    let key = format!("{:02x}:{:02x}:{}", libc::major(meta.dev()), libc::minor(meta.dev()), meta.ino());
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // `7: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF`
    let holder = locks.lines().map(|l| l.split_whitespace().collect::<Vec<_>>()).find(|l| l.get(5) == Some(&key.as_str()))?;
    holder.get(4)?.parse().ok().filter(|&pid: &u32| pid > 0)
}

/// Reason why [`lock`] failed.
#[derive(Debug)]
pub enum LockError {
    /// Another process holds the lock; its id, if the kernel tells.
    Held(Option<u32>),
    /// The system refuses.
    System(io::Error),
}

/// Takes a whole-file lock, or says who holds it. The requests that a killed process gave to io_uring go on for a
/// moment and keep its files open and locked. So the lock of a dead holder is waited for.
///
/// # Errors
/// See [`LockError`].
pub fn lock(file: &File) -> Result<(), LockError> {
    let begin = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(e)) => return Err(LockError::System(e)),
            Err(TryLockError::WouldBlock) => {
                let holder = lock_holder(file);
                if holder.is_none_or(is_alive) || begin.elapsed() > AFTERMATH {
                    // The holder may have let go between the two looks.
                    return if file.try_lock().is_ok() { Ok(()) } else { Err(LockError::Held(holder)) };
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// Says whether a process runs. One that is dead but not yet waited for does not.
fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = status.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}
