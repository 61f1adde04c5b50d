//! The ring itself: entries in, completions out, one system call for both.

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, opcode, squeue};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// Entries that one system call can take; a fuller round takes more calls.
const ENTRIES: u32 = 512;
/// Completions that the ring holds before the kernel keeps them aside.
const COMPLETIONS: u32 = 4096;

/// One completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    /// What the entry was submitted with.
    pub(crate) key: u64,
    /// A count, or a negative error number.
    pub(crate) result: i32,
    /// Flags of the kernel.
    pub(crate) flags: u32,
}

/// See the module.
pub(crate) struct Ring {
    uring: IoUring,
    reaped: VecDeque<Completion>,
    in_flight: usize,
}

impl Ring {
    /// A ring with all that the driver needs, or why there is none.
    pub(crate) fn new() -> io::Result<Self> {
        let uring = build()?;
        let params = uring.params();
        if !(params.is_feature_nodrop() && params.is_feature_ext_arg() && params.is_feature_fast_poll()) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel is too old (Linux 5.11 has what is needed)"));
        }
        let mut probe = Probe::new();
        uring.submitter().register_probe(&mut probe)?;
        let needed = [
            opcode::Accept::CODE,
            opcode::Connect::CODE,
            opcode::Recv::CODE,
            opcode::Send::CODE,
            opcode::SendMsg::CODE,
            opcode::Read::CODE,
            opcode::Write::CODE,
            opcode::Writev::CODE,
            opcode::Fsync::CODE,
            opcode::PollAdd::CODE,
            opcode::AsyncCancel::CODE,
        ];
        match needed.iter().find(|&&code| !probe.is_supported(code)) {
            Some(code) => Err(io::Error::new(io::ErrorKind::Unsupported, format!("the kernel lacks operation {code}"))),
            None => Ok(Self { uring, reaped: VecDeque::new(), in_flight: 0 }),
        }
    }

    /// Entries that are submitted, or will be, and have not completed.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Queues an entry that completes exactly once, under `key`.
    ///
    /// # Safety
    /// The memory and the descriptor that the entry names stay valid, and nobody else writes to the memory (or reads it,
    /// if the kernel writes it), until the completion was taken by [`Ring::next`].
    pub(crate) unsafe fn push(&mut self, entry: squeue::Entry, key: u64) {
        let entry = entry.user_data(key);
        loop {
            // SAFETY: what the entry names stays valid, by the contract of this function.
            if unsafe { self.uring.submission().push(&entry) }.is_ok() {
                self.in_flight += 1;
                return;
            }
            // The queue is full: the kernel takes all of it, unless it wants completions to be taken first.
            if self.uring.submit().is_err() {
                self.reap();
            }
        }
    }

    /// Submits what is queued; gets what has completed.
    pub(crate) fn poll(&mut self) -> io::Result<()> {
        let result = self.uring.submit();
        self.reap();
        tolerate(result)
    }

    /// The same, and waits for a completion, at most for `timeout`.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let result = match timeout {
            None => self.uring.submit_and_wait(1),
            Some(timeout) => {
                let spec = Timespec::from(timeout.min(Duration::from_secs(1 << 30)));
                self.uring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&spec))
            }
        };
        self.reap();
        tolerate(result)
    }

    /// Whether a completion is there, or the kernel has one to hand over. No system call.
    pub(crate) fn has_work(&mut self) -> bool {
        !self.reaped.is_empty() || !self.uring.completion().is_empty() || self.uring.submission().taskrun()
    }

    /// The next completion that was got.
    pub(crate) fn next(&mut self) -> Option<Completion> {
        let completion = self.reaped.pop_front()?;
        self.in_flight -= 1;
        Some(completion)
    }

    /// Whether completions are waiting to be taken with [`Ring::next`].
    pub(crate) fn has_next(&self) -> bool {
        !self.reaped.is_empty()
    }

    fn reap(&mut self) {
        let all = self.uring.completion();
        self.reaped.extend(all.map(|c| Completion { key: c.user_data(), result: c.result(), flags: c.flags() }));
    }
}

/// The fastest kind of ring that this kernel has: completions are handed over only when the thread asks for them (Linux
/// 6.1), or at least without interrupting it (5.19).
fn build() -> io::Result<IoUring> {
    let base = || {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_cqsize(COMPLETIONS).setup_clamp();
        builder
    };
    let deferred = base().setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().build(ENTRIES);
    deferred.or_else(|_| base().setup_coop_taskrun().setup_taskrun_flag().build(ENTRIES)).or_else(|_| base().build(ENTRIES))
}

/// A time that is over, a signal, or completions that wait to be taken are no failures.
fn tolerate(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Err(e) if !matches!(e.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)) => Err(e),
        _ => Ok(()),
    }
}
