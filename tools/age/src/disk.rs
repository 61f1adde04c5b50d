//! A disk of any size that keeps only what is not zero, in a sparse file that lives in memory. Clients here write
//! zeros, so what takes memory is the store's index and the heads of its journal; and that memory is the file's, not
//! this process's, so the process shows what the store takes.

use bytes::Bytes;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::memfd::{MFdFlags, memfd_create};
use node::{DiskError, DiskOp, DiskOutput, DiskStat};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use types::Rope;

/// Bytes of a block.
pub const BLOCK: usize = 4096;
static ZEROS: [u8; BLOCK] = [0; BLOCK];
/// What clients write, in long pieces: it is known by its place.
static DATA: [u8; 1 << 20] = [0; 1 << 20];
/// Blocks of which one entry of [`Disk::kept`] knows.
const CHUNK: u64 = 4096;

/// Requests and bytes that a disk was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of reads.
    pub reads: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Number of writes.
    pub writes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
}

/// The disk.
#[derive(Debug)]
pub struct Disk {
    file: File,
    capacity: u64,
    /// Which blocks are not zero, by chunk.
    kept: BTreeMap<u64, Box<[u64; 64]>>,
    /// What it was asked for so far.
    pub traffic: Traffic,
}

/// Makes `blocks` blocks of data of which a [`Disk`] keeps nothing.
pub fn forgotten(blocks: usize) -> Rope {
    let mut rope = Rope::new();
    let mut left = blocks * BLOCK;
    while left > 0 {
        let n = left.min(DATA.len());
        rope.push(Bytes::from_static(&DATA[..n]));
        left -= n;
    }
    let crc = kernels::crc32c(kernels::SEED, &ZEROS);
    rope.with_block_sums(std::iter::repeat_n(crc, blocks).collect())
}

impl Disk {
    /// Makes an empty disk of `capacity` bytes, as a raw device has them.
    ///
    /// # Errors
    /// The system has no such file.
    pub fn new(capacity: u64) -> Result<Self, String> {
        let file = memfd_create("disk", MFdFlags::MFD_CLOEXEC).map_err(|e| format!("a file in memory: {e}"))?;
        let file = File::from(file);
        file.set_len(capacity).map_err(|e| format!("a file of {capacity} bytes in memory: {e}"))?;
        Ok(Self { file, capacity, kept: BTreeMap::new(), traffic: Traffic::default() })
    }

    /// Bytes of this process's memory that the disk takes, roughly.
    pub fn overhead(&self) -> u64 {
        self.kept.len() as u64 * 560
    }

    /// Carries a request out. All that was written is durable at once.
    ///
    /// # Errors
    /// A request beyond the end, or the system has no memory.
    pub fn answer(&mut self, op: DiskOp) -> Result<DiskOutput, DiskError> {
        let io = |e: std::io::Error| DiskError::Io(e.raw_os_error().unwrap_or(5));
        match op {
            DiskOp::Read { offset, mut buf } => {
                self.traffic.reads += 1;
                self.traffic.read_bytes += buf.len() as u64;
                self.file.read_exact_at(&mut buf, offset).map_err(io)?;
                Ok(DiskOutput::Read(buf))
            }
            DiskOp::Write { offset, data, .. } => {
                if offset + data.len() as u64 > self.capacity {
                    return Err(DiskError::NoSpace);
                }
                self.traffic.writes += 1;
                self.traffic.written_bytes += data.len() as u64;
                let whole = data.pieces().iter().all(|piece| piece.len().is_multiple_of(BLOCK));
                let joined = if whole { Bytes::new() } else { data.contiguous() };
                let pieces = if whole { data.pieces() } else { std::slice::from_ref(&joined) };
                let mut block = offset / BLOCK as u64;
                for piece in pieces {
                    let n = (piece.len() / BLOCK) as u64;
                    if DATA.as_ptr_range().contains(&piece.as_ptr()) {
                        self.forget(block, block + n).map_err(io)?;
                    } else {
                        for (part, block) in piece.chunks_exact(BLOCK).zip(block..) {
                            self.put(block, part).map_err(io)?;
                        }
                    }
                    block += n;
                }
                Ok(DiskOutput::Done)
            }
            DiskOp::Trim { .. } | DiskOp::Flush => Ok(DiskOutput::Done),
            DiskOp::Stat => Ok(DiskOutput::Stat(DiskStat { len: self.capacity, capacity: self.capacity, host_free: u64::MAX })),
        }
    }

    /// Blocks become zero.
    fn forget(&mut self, from: u64, to: u64) -> std::io::Result<()> {
        let mut at = from;
        while at < to {
            let stop = to.min((at / CHUNK + 1) * CHUNK);
            if self.kept.contains_key(&(at / CHUNK)) {
                (at..stop).try_for_each(|block| self.put(block, &ZEROS))?;
            }
            at = stop;
        }
        Ok(())
    }

    fn put(&mut self, block: u64, part: &[u8]) -> std::io::Result<()> {
        let (chunk, word, bit) = (block / CHUNK, (block % CHUNK / 64) as usize, 1u64 << (block % 64));
        if part != ZEROS {
            self.kept.entry(chunk).or_insert_with(|| Box::new([0; 64]))[word] |= bit;
            return self.file.write_all_at(part, block * BLOCK as u64);
        }
        if let Some(words) = self.kept.get_mut(&chunk).filter(|words| words[word] & bit != 0) {
            words[word] &= !bit;
            if words.iter().all(|word| *word == 0) {
                self.kept.remove(&chunk);
            }
            let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
            fallocate(&self.file, flags, (block * BLOCK as u64) as i64, BLOCK as i64)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use node::Buf;

    #[test]
    fn what_is_not_zero_comes_back() {
        let mut disk = Disk::new(16 << 40).expect("a disk");
        let far = (16u64 << 40) - BLOCK as u64;
        let write = |data: Rope| DiskOp::Write { offset: far, data, durable: true };
        let read = |disk: &mut Disk| match disk.answer(DiskOp::Read { offset: far, buf: Buf::new(BLOCK) }) {
            Ok(DiskOutput::Read(buf)) => buf[17],
            other => panic!("{other:?}"),
        };
        assert_eq!((read(&mut disk), disk.overhead()), (0, 0));
        disk.answer(write(Rope::from(vec![7u8; BLOCK]))).expect("room");
        assert_eq!((read(&mut disk), disk.overhead() > 0), (7, true));
        disk.answer(write(forgotten(1))).expect("room");
        assert_eq!((read(&mut disk), disk.overhead()), (0, 0));
        let beyond = DiskOp::Write { offset: 16 << 40, data: forgotten(1), durable: true };
        assert!(matches!(disk.answer(beyond), Err(DiskError::NoSpace)));
        assert_eq!((disk.traffic.writes, disk.traffic.reads), (2, 3));
    }
}
