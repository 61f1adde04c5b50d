//! A disk in memory that keeps only what differs from one filler block. So a store of terabytes can be filled and aged:
//! its data is the filler, and only its index and its journal take memory.

use crate::block::BLOCK;
use bytes::Bytes;
use foldhash::fast::FixedState;
use node::{DiskError, DiskOp, DiskOutput, DiskStat};
use types::Rope;

/// The filler.
static FILLER: [u8; BLOCK] = [0x5a; BLOCK];

/// Makes `blocks` blocks of data of which a [`Sparse`] disk keeps nothing.
pub fn filler(blocks: usize) -> Rope {
    let mut rope = Rope::new();
    (0..blocks).for_each(|_| rope.push(Bytes::from_static(&FILLER)));
    let crc = kernels::crc32c(kernels::SEED, &FILLER);
    rope.with_block_sums(std::iter::repeat_n(crc, blocks).collect())
}

/// The disk. A block that was never written reads as the filler.
#[derive(Debug)]
pub struct Sparse {
    blocks: hashbrown::HashMap<u64, Bytes, FixedState>,
    /// Length so far and at most, in bytes.
    len: u64,
    capacity: u64,
    /// Requests and bytes so far.
    pub reads: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Number of writes.
    pub writes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Number of requests that gave blocks back.
    pub trims: u64,
}

impl Sparse {
    /// Makes an empty disk of `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        let blocks = hashbrown::HashMap::with_hasher(FixedState::with_seed(0));
        Self { blocks, len: 0, capacity, reads: 0, read_bytes: 0, writes: 0, written_bytes: 0, trims: 0 }
    }

    /// Number of blocks that take memory.
    pub fn kept(&self) -> usize {
        self.blocks.len()
    }

    /// Carries a request out. All that was written is durable at once.
    ///
    /// # Errors
    /// A read beyond what was ever written.
    pub fn answer(&mut self, op: DiskOp) -> Result<DiskOutput, DiskError> {
        match op {
            DiskOp::Read { offset, mut buf } => {
                if offset + buf.len() as u64 > self.len {
                    return Err(DiskError::Io(61));
                }
                self.reads += 1;
                self.read_bytes += buf.len() as u64;
                for (part, block) in buf.chunks_exact_mut(BLOCK).zip(offset / BLOCK as u64..) {
                    part.copy_from_slice(self.blocks.get(&block).map_or(&FILLER[..], |bytes| bytes));
                }
                Ok(DiskOutput::Read(buf))
            }
            DiskOp::Write { offset, data, .. } => {
                self.writes += 1;
                self.written_bytes += data.len() as u64;
                self.len = self.len.max(offset + data.len() as u64);
                let whole = data.pieces().iter().all(|piece| piece.len().is_multiple_of(BLOCK));
                let joined = if whole { Bytes::new() } else { data.contiguous() };
                let pieces = if whole { data.pieces() } else { std::slice::from_ref(&joined) };
                for (part, block) in pieces.iter().flat_map(|p| p.chunks_exact(BLOCK)).zip(offset / BLOCK as u64..) {
                    if part.as_ptr() == FILLER.as_ptr() || part == FILLER {
                        self.blocks.remove(&block);
                    } else {
                        self.blocks.insert(block, Bytes::copy_from_slice(part));
                    }
                }
                Ok(DiskOutput::Done)
            }
            DiskOp::Trim { .. } => {
                self.trims += 1;
                Ok(DiskOutput::Done)
            }
            DiskOp::Flush => Ok(DiskOutput::Done),
            DiskOp::Stat => {
                let (len, capacity) = (self.len, self.capacity);
                Ok(DiskOutput::Stat(DiskStat { len, capacity, host_free: u64::MAX }))
            }
        }
    }
}
