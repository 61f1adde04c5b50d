//! Disk requests on the ring.

use super::{DISK, DISK_READ, Uring};
use crate::job::{Job, Step};
use io_uring::{opcode, types};
use node::Input;
use std::os::fd::AsRawFd;

/// Requests that the kernel is given at once; more would only lengthen its queues.
const MOST_FLIGHTS: usize = 256;

/// A request whose current step is with the kernel.
pub(crate) struct Flight {
    job: Job,
    pieces: Vec<libc::iovec>,
}

impl Uring {
    pub(super) fn begin_job(&mut self, job: Job) {
        if self.flights.len() >= MOST_FLIGHTS {
            return self.waiting.push_back(job);
        }
        let index = self.flights.insert(Flight { job, pieces: Vec::new() });
        self.push_step(index);
    }

    fn push_step(&mut self, index: u32) {
        let Flight { job, pieces } = self.flights.get_mut(index).expect("the caller has just used it");
        let fd = types::Fd(job.device.file.as_raw_fd());
        let mut kind = DISK;
        let entry = match job.step() {
            Step::Read { offset, into } => {
                kind = DISK_READ;
                let len = into.len().min(1 << 30) as u32;
                opcode::Read::new(fd, into.as_mut_ptr(), len).offset(offset).build()
            }
            Step::Write { offset, from, dsync } => {
                let flags = if dsync { libc::RWF_DSYNC } else { 0 };
                pieces.clear();
                let all = from.slices();
                pieces.extend(all.map(|s| libc::iovec { iov_base: s.as_ptr().cast_mut().cast(), iov_len: s.len() }));
                match pieces[..] {
                    [piece] => {
                        let len = piece.iov_len.min(1 << 30) as u32;
                        opcode::Write::new(fd, piece.iov_base.cast(), len).offset(offset).rw_flags(flags).build()
                    }
                    _ => {
                        let (at, count) = (pieces.as_ptr(), pieces.len() as u32);
                        opcode::Writev::new(fd, at, count).offset(offset).rw_flags(flags).build()
                    }
                }
            }
            Step::Trim { offset, len } => opcode::Fallocate::new(fd, len)
                .offset(offset)
                .mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
                .build(),
            Step::Sync => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        };
        // SAFETY: buffers, pieces and the device's file belong to the slot, which stays until the completion; the job does
        // not touch them before it is told the result.
        unsafe { self.ring.push(entry, kind | u64::from(index)) };
    }

    pub(super) fn disk_step_done(&mut self, index: u32, result: i32, inputs: &mut Vec<Input>) {
        let flight = self.flights.get_mut(index).expect("a slot stays until its completion");
        let result = usize::try_from(result).map_err(|_| -result);
        match flight.job.advance(result) {
            None if self.ending => drop(self.flights.remove(index)),
            None => self.push_step(index),
            Some(done) => {
                self.flights.remove(index);
                inputs.push(Input::Disk(done));
                if let Some(job) = self.waiting.pop_front() {
                    self.begin_job(job);
                }
            }
        }
    }
}
