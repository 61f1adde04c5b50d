//! Disk requests on the ring.

use super::{DISK, DISK_READ, LONG_READ, Uring};
use crate::job::{Job, Step};
use crate::seat::Seat;
use io_uring::{opcode, types};
use node::Input;
use std::os::fd::AsRawFd;

/// Most requests that the kernel has at a time. More would only lengthen its queues.
const MOST_FLIGHTS: usize = 256;

/// Most bytes of long reads that the kernel has at a time, unless one alone is more: enough to keep a disk busy. Reads
/// that the disk has together end together, and then the disk would wait until all replies are sent, because clients
/// ask for more after they have taken what came.
const MOST_LONG_READING: usize = 16 << 20;

/// A request whose current step is with the kernel.
pub(crate) struct Flight {
    job: Job,
    pieces: Vec<libc::iovec>,
}

impl Uring {
    pub(super) fn begin_job(&mut self, job: Job) {
        // A waiting read is not overtaken, or a stream of shorter ones would keep a very long one waiting for ever.
        if long_read(&job) > 0 && (!self.waiting_long.is_empty() || !self.has_room_for(&job)) {
            return self.waiting_long.push_back(job);
        }
        self.admit(job);
    }

    fn has_room_for(&self, job: &Job) -> bool {
        self.long_reading == 0 || self.long_reading + long_read(job) <= MOST_LONG_READING
    }

    fn admit(&mut self, job: Job) {
        self.long_reading += long_read(&job);
        if self.flights.len() >= MOST_FLIGHTS {
            return self.waiting.push_back(job);
        }
        self.fly(job);
    }

    fn fly(&mut self, job: Job) {
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

    /// Says whether a disk request of this machine is under way.
    pub(super) fn works_for(&self, seat: Seat) -> bool {
        let waiting = self.waiting.iter().chain(&self.waiting_long);
        let flying = self.flights.indices().into_iter().filter_map(|index| self.flights.get(index)).map(|flight| &flight.job);
        waiting.chain(flying).any(|job| job.seat() == seat)
    }

    pub(super) fn disk_step_done(&mut self, index: u32, result: i32, inputs: &mut Vec<Input>) {
        let flight = self.flights.get_mut(index).expect("a slot stays until its completion");
        let long = long_read(&flight.job);
        let result = usize::try_from(result).map_err(|_| -result);
        match flight.job.advance(result) {
            None if self.ending => drop(self.flights.remove(index)),
            None => self.push_step(index),
            Some(done) => {
                self.flights.remove(index);
                inputs.push(Input::Disk(done));
                self.long_reading -= long;
                if let Some(job) = self.waiting.pop_front() {
                    self.fly(job);
                }
                while self.waiting_long.front().is_some_and(|next| self.has_room_for(next))
                    && let Some(job) = self.waiting_long.pop_front()
                {
                    self.admit(job);
                }
            }
        }
    }
}

/// Bytes of a job that is a long read; 0 for others.
fn long_read(job: &Job) -> usize {
    Some(job.reads()).filter(|len| *len >= LONG_READ).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::probe;
    use super::*;
    use crate::driver::{Driver, Parts, now};
    use crate::{Device, DeviceOptions};
    use node::{Buf, DeviceId, DiskOp, DiskOutput, DiskRequest, Token};

    #[test]
    fn a_disk_is_given_a_few_long_reads_at_a_time() {
        const LONG: usize = 4 << 20;
        let dir = tempfile::tempdir().unwrap();
        let capacity = 16 * LONG as u64;
        let options = DeviceOptions { capacity, create: true, direct: false };
        let device = Device::open(&dir.path().join("disk"), &options).unwrap();
        std::fs::OpenOptions::new().write(true).open(dir.path().join("disk")).unwrap().set_len(capacity).unwrap();
        let parts = Parts {
            listeners: Vec::new(),
            devices: vec![(DeviceId(0), device)],
            wakes: Vec::new(),
            max_connections: 0,
            spin: None,
            machines: 1,
        };
        let Ok(ring) = probe() else { return }; // the driver does not exist here
        let mut driver = Uring::new(ring, parts).unwrap();
        let read = |driver: &mut Uring, token: u64, len: usize| {
            let op = DiskOp::Read { offset: token % 16 * LONG as u64, buf: Buf::new(len) };
            driver.disk(DiskRequest { token: Token(token), device: DeviceId(0), op });
        };
        (0..16).for_each(|token| read(&mut driver, token, LONG));
        // Short reads do not wait for long ones; one that alone is more than what fits waits for its turn, and gets it.
        read(&mut driver, 16, 4096);
        read(&mut driver, 17, 2 * MOST_LONG_READING);
        (18..24).for_each(|token| read(&mut driver, token, LONG));
        let most = MOST_LONG_READING / LONG;
        assert_eq!((driver.flights.len(), driver.waiting_long.len()), (most + 1, 16 - most + 7));
        assert!(
            driver
                .waiting_long
                .iter()
                .map(Job::reads)
                .eq(std::iter::repeat_n(LONG, 16 - most).chain([2 * MOST_LONG_READING]).chain(std::iter::repeat_n(LONG, 6)))
        );
        let (mut done, mut inputs) = (0u32, Vec::new());
        while done != (1 << 24) - 1 {
            driver.wait(now().plus(std::time::Duration::from_secs(10)), &mut inputs).unwrap();
            assert!(!inputs.is_empty(), "{done:x} are done, and no more comes");
            for input in inputs.drain(..) {
                let Input::Disk(ended) = input else { panic!("{input:?}") };
                assert!(matches!(ended.result, Ok(DiskOutput::Read(_))), "{ended:?}");
                done |= 1 << ended.token.0;
            }
            let alone = driver.long_reading == 2 * MOST_LONG_READING && driver.flights.len() <= 2;
            assert!(driver.long_reading <= MOST_LONG_READING || alone);
        }
        assert_eq!((driver.long_reading, driver.waiting_long.len(), driver.flights.len()), (0, 0, 0));
    }
}
