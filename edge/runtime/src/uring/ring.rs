//! The ring: entries in, completions out, one system call for both.

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, opcode, squeue};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// Entries that one system call can take. A fuller round takes more calls.
const ENTRIES: u32 = 512;
/// Completions that the ring holds before the kernel keeps them aside.
const COMPLETIONS: u32 = 4096;

/// One completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    /// The key with which the entry was submitted.
    pub(crate) key: u64,
    /// A count, or a negative error number.
    pub(crate) result: i32,
    /// Flags of the kernel.
    pub(crate) flags: u32,
}

/// An io_uring instance.
pub(crate) struct Ring {
    uring: IoUring,
    reaped: VecDeque<Completion>,
    in_flight: usize,
}

impl Ring {
    /// Makes a ring with all that the driver needs, or says why there is none.
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

    /// Number of entries that are submitted, or will be, and have not completed.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Queues an entry that completes exactly once, under `key`.
    ///
    /// # Safety
    /// The memory and the descriptor that the entry names stay valid, and nobody else writes to the memory (or reads
    /// it, if the kernel writes it), until the completion was taken by [`Ring::next`].
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

    /// Submits what is queued, and gets what has completed.
    pub(crate) fn poll(&mut self) -> io::Result<()> {
        let result = self.uring.submit();
        self.reap();
        tolerate(result)
    }

    /// Submits what is queued, and waits for a completion, at most for `timeout`.
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

    /// Says whether a completion is there, or the kernel has one to hand over. Makes no system call.
    pub(crate) fn has_work(&mut self) -> bool {
        !self.reaped.is_empty() || !self.uring.completion().is_empty() || self.uring.submission().taskrun()
    }

    /// Gives the next completion that was got.
    pub(crate) fn next(&mut self) -> Option<Completion> {
        let completion = self.reaped.pop_front()?;
        self.in_flight -= 1;
        Some(completion)
    }

    /// Says whether completions wait to be taken with [`Ring::next`].
    pub(crate) fn has_next(&self) -> bool {
        !self.reaped.is_empty()
    }

    fn reap(&mut self) {
        let all = self.uring.completion();
        self.reaped.extend(all.map(|c| Completion { key: c.user_data(), result: c.result(), flags: c.flags() }));
    }
}

/// Makes the fastest kind of ring that this kernel has. Completions are handed over only when the thread asks for them
/// (Linux 6.1), or at least without an interruption (5.19).
fn build() -> io::Result<IoUring> {
    let base = || {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_cqsize(COMPLETIONS).setup_clamp();
        builder
    };
    let deferred = base().setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().build(ENTRIES);
    deferred.or_else(|_| base().setup_coop_taskrun().setup_taskrun_flag().build(ENTRIES)).or_else(|_| base().build(ENTRIES))
}

/// Takes an expired time, a signal, or completions that wait to be taken, as no failure.
fn tolerate(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Err(e) if !matches!(e.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)) => Err(e),
        _ => Ok(()),
    }
}
