//! A disk request under way: which system calls it takes, in which order, and what their results mean. Both drivers run
//! the same jobs. They differ in how a system call is made.

use crate::chain::Chain;
use crate::device::Inner;
use crate::seat::Seat;
use bytes::Bytes;
use node::{ALIGN, Buf, DeviceId, DiskDone, DiskError, DiskOp, DiskOutput, DiskRequest, Token};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::Rope;

/// The system call that a job needs next.
pub(crate) enum Step<'a> {
    /// Fill the memory from byte `offset` on.
    Read { offset: u64, into: &'a mut [u8] },
    /// Write the front of the chain at byte `offset`, durably if `dsync`.
    Write { offset: u64, from: &'a Chain, dsync: bool },
    /// Flush the device (fdatasync).
    Sync,
    /// Make a hole of `len` bytes at byte `offset`.
    Trim { offset: u64, len: u64 },
}

enum Work {
    Read { offset: u64, buf: Buf, done: usize },
    Write { offset: u64, left: Chain, durable: bool, dsync: bool },
    Sync,
    Trim { offset: u64, len: u64 },
}

/// A request that is being carried out.
pub(crate) struct Job {
    token: Token,
    pub(crate) device: Arc<Inner>,
    work: Work,
    /// Number up to which a flush of this job will cover writes.
    mark: u64,
    /// The bytes that are written, kept until the job is dropped. Never read.
    _held: Rope,
}

/// The devices of a machine.
pub(crate) type Devices = BTreeMap<DeviceId, Arc<Inner>>;

/// Begins a request. Gives its end if it is over at once, else a job.
pub(crate) fn begin(devices: &Devices, request: DiskRequest) -> Result<Job, DiskDone> {
    let DiskRequest { token, device, op } = request;
    let done = |result| Err(DiskDone { token, result });
    let Some(device) = devices.get(&device) else { return done(Err(DiskError::Io(libc::ENODEV))) };
    let job = |work, mark, held| Ok(Job { token, device: device.clone(), work, mark, _held: held });
    match op {
        DiskOp::Stat => done(device.stat().map(DiskOutput::Stat).map_err(|e| disk_error(crate::sys::errno(&e)))),
        DiskOp::Read { offset, buf } if !aligned(offset, buf.len()) => {
            drop(buf);
            done(Err(DiskError::Io(libc::EINVAL)))
        }
        DiskOp::Read { buf, .. } if buf.is_empty() => done(Ok(DiskOutput::Read(buf))),
        DiskOp::Read { offset, buf } => job(Work::Read { offset, buf, done: 0 }, 0, Rope::new()),
        DiskOp::Write { offset, data, .. } if !aligned(offset, data.len()) => done(Err(DiskError::Io(libc::EINVAL))),
        DiskOp::Write { offset, data, .. } if !device.holds(offset.saturating_add(data.len() as u64)) => {
            done(Err(DiskError::NoSpace))
        }
        DiskOp::Write { durable, .. } if durable && device.poison().is_some() => done(Err(device.poison().expect("just seen"))),
        DiskOp::Write { offset, data, durable } => {
            let (left, held) = chain(data, device.direct());
            let dsync = durable && device.dsync() && (device.covering || !device.dirty());
            let work = match left.is_empty() {
                false => Work::Write { offset, left, durable, dsync },
                true if durable => Work::Sync,
                true => return done(Ok(DiskOutput::Done)),
            };
            job(work, device.mark(), held)
        }
        DiskOp::Trim { len, .. } if len == 0 || !device.has_holes() => done(Ok(DiskOutput::Done)),
        DiskOp::Trim { offset, len } => job(Work::Trim { offset, len }, 0, Rope::new()),
        DiskOp::Flush => match device.poison() {
            Some(error) => done(Err(error)),
            None => job(Work::Sync, device.mark(), Rope::new()),
        },
    }
}

fn aligned(offset: u64, len: usize) -> bool {
    offset.is_multiple_of(ALIGN as u64) && len.is_multiple_of(ALIGN)
}

impl Job {
    /// Returns whose it is.
    pub(crate) fn seat(&self) -> Seat {
        Seat::of_token(self.token)
    }

    /// Says whether the job only reads.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.work, Work::Read { .. })
    }

    /// Bytes that the job reads in all; 0 if it does something else.
    pub(crate) fn reads(&self) -> usize {
        match &self.work {
            Work::Read { buf, .. } => buf.len(),
            _ => 0,
        }
    }

    /// The system call to make now.
    pub(crate) fn step(&mut self) -> Step<'_> {
        match &mut self.work {
            Work::Read { offset, buf, done } => Step::Read { offset: *offset + *done as u64, into: &mut buf[*done..] },
            Work::Write { offset, left, dsync, .. } => Step::Write { offset: *offset, from: left, dsync: *dsync },
            Work::Sync => Step::Sync,
            Work::Trim { offset, len } => Step::Trim { offset: *offset, len: *len },
        }
    }

    /// Takes the result of the last [`Job::step`]'s system call: bytes moved, or an error number. None if another step
    /// is needed. The bytes that were written stay with the job, so that the thread that drops the job frees them.
    pub(crate) fn advance(&mut self, result: Result<usize, i32>) -> Option<DiskDone> {
        let moved = match result {
            Ok(moved) => moved,
            Err(libc::EINTR | libc::EAGAIN) => return None,
            Err(errno) => return self.failed(errno),
        };
        match &mut self.work {
            // The end of the file comes before the end of the request.
            Work::Read { .. } if moved == 0 => self.end(Err(DiskError::Io(libc::ENODATA))),
            Work::Read { buf, done, .. } => {
                *done += moved;
                if *done < buf.len() { None } else { self.read() }
            }
            Work::Write { .. } if moved == 0 => self.end(Err(DiskError::Io(libc::EIO))),
            Work::Write { offset, left, .. } => {
                left.advance(moved);
                *offset += moved as u64;
                if left.is_empty() { self.written() } else { None }
            }
            Work::Sync => {
                self.device.note_flushed(self.mark);
                self.end(Ok(DiskOutput::Done))
            }
            Work::Trim { .. } => self.end(Ok(DiskOutput::Done)),
        }
    }

    /// Ends a read whose buffer is full.
    fn read(&mut self) -> Option<DiskDone> {
        let Work::Read { buf, .. } = std::mem::replace(&mut self.work, Work::Sync) else { unreachable!("only reads are read") };
        self.end(Ok(DiskOutput::Read(buf)))
    }

    /// Goes on when the kernel has all bytes of a write.
    fn written(&mut self) -> Option<DiskDone> {
        let &mut Work::Write { durable, dsync, .. } = &mut self.work else { unreachable!("only writes are written") };
        if !durable {
            self.device.note_completed();
            return self.end(Ok(DiskOutput::Done));
        }
        if dsync && self.device.covering {
            self.device.note_flushed(self.mark);
            return self.end(Ok(DiskOutput::Done));
        }
        if dsync && !self.device.dirty() {
            return self.end(Ok(DiskOutput::Done));
        }
        self.mark = self.device.mark();
        self.work = Work::Sync;
        None
    }

    fn failed(&mut self, errno: i32) -> Option<DiskDone> {
        match &mut self.work {
            Work::Write { dsync, .. } if *dsync && matches!(errno, libc::EOPNOTSUPP | libc::ENOSYS) => {
                self.device.dsync_missing();
                *dsync = false;
                return None;
            }
            Work::Sync => self.device.note_poisoned(errno),
            // A part may have been written.
            Work::Write { .. } => self.device.note_completed(),
            Work::Read { .. } => {}
            // The space stays with the file, or with the disk. That does no harm to what it holds.
            Work::Trim { .. } if errno == libc::EOPNOTSUPP => {
                self.device.discards_missing();
                return self.end(Ok(DiskOutput::Done));
            }
            Work::Trim { .. } => return self.end(Ok(DiskOutput::Done)),
        }
        self.end(Err(disk_error(errno)))
    }

    fn end(&mut self, result: Result<DiskOutput, DiskError>) -> Option<DiskDone> {
        Some(DiskDone { token: self.token, result })
    }
}

/// Converts an error number to the machine's error.
fn disk_error(errno: i32) -> DiskError {
    match errno {
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG => DiskError::NoSpace,
        errno => DiskError::Io(errno),
    }
}

/// Gives the bytes to write, and all that must be kept meanwhile. Direct IO wants pieces at aligned addresses and of
/// aligned lengths. Runs of others are copied.
fn chain(data: Rope, direct: bool) -> (Chain, Rope) {
    let mut out = Chain::with_capacity(data.pieces().len());
    if !direct {
        out.append(&data);
        return (out, data);
    }
    let mut copies = Rope::new();
    let fits = |piece: &Bytes| (piece.as_ptr() as usize).is_multiple_of(ALIGN) && piece.len().is_multiple_of(ALIGN);
    let pieces = data.pieces();
    let mut at = 0;
    while at < pieces.len() {
        if fits(&pieces[at]) {
            out.push(pieces[at].clone());
            at += 1;
            continue;
        }
        // A run ends where its length is aligned and the next piece fits.
        let (mut end, mut len) = (at, 0usize);
        while end < pieces.len() && !(end > at && len.is_multiple_of(ALIGN) && fits(&pieces[end])) {
            len += pieces[end].len();
            end += 1;
        }
        let copy = copied(&pieces[at..end], len);
        out.push(copy.clone());
        copies.push(copy);
        at = end;
    }
    copies.append(data);
    (out, copies)
}

fn copied(pieces: &[Bytes], len: usize) -> Bytes {
    let mut buf = Buf::new(len);
    let mut at = 0;
    for piece in pieces {
        buf[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    buf.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(fill: u8, len: usize) -> Bytes {
        let mut buf = Buf::new(len);
        buf.fill(fill);
        buf.freeze()
    }

    #[test]
    fn unaligned_runs_are_copied_and_aligned_pieces_are_not() {
        let whole = page(9, 4 * ALIGN);
        let mut rope = Rope::new();
        let header = vec![1u8; 100];
        rope.push(header);
        rope.push(whole.slice(..ALIGN - 100));
        rope.push(whole.slice(ALIGN..3 * ALIGN));
        rope.push(whole.slice(5..ALIGN + 5));
        let (chain, _held) = chain(rope.clone(), true);
        let slices: Vec<&[u8]> = chain.slices().collect();
        assert_eq!(slices.iter().map(|s| s.len()).collect::<Vec<_>>(), [ALIGN, 2 * ALIGN, ALIGN]);
        assert!(slices.iter().all(|s| (s.as_ptr() as usize).is_multiple_of(ALIGN)));
        assert_eq!(slices[1].as_ptr(), whole[ALIGN..].as_ptr(), "an aligned piece is passed as it is");
        assert_eq!(slices.concat(), rope.to_vec());
    }
}
