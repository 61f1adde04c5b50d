//! Checksums of a message's data, computed while it comes: of all of it, which the sender states, and of each block,
//! which a store needs. The one follows from the others, so the bytes are gone through once.

use kernels::{SEED, crc32c, crc32c_concat, crc32c_concat_4k};
use types::BlockSums;

const BLOCK: usize = BlockSums::BLOCK;

pub(super) struct Sums {
    /// Of all whole blocks.
    whole: u32,
    blocks: Vec<u32>,
    /// Of the block that is not whole yet, and how many bytes of it there are.
    open: u32,
    filled: usize,
}

impl Sums {
    /// For so many bytes.
    pub(super) fn new(len: usize) -> Self {
        Self { whole: SEED, blocks: Vec::with_capacity(len / BLOCK), open: SEED, filled: 0 }
    }

    /// The next bytes.
    pub(super) fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - self.filled));
            self.open = crc32c(self.open, now);
            self.filled += now.len();
            bytes = later;
            if self.filled == BLOCK {
                self.whole = crc32c_concat_4k(self.whole, self.open);
                self.blocks.push(self.open);
                (self.open, self.filled) = (SEED, 0);
            }
        }
    }

    /// The checksum of all bytes, and those of the blocks.
    pub(super) fn finish(self) -> (u32, BlockSums) {
        let all = if self.filled > 0 { crc32c_concat(self.whole, self.open, self.filled as u64) } else { self.whole };
        (all, self.blocks.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_right_however_the_bytes_come() {
        let bytes: Vec<u8> = (0..5 * BLOCK + 77).map(|i| (i / 3) as u8).collect();
        for len in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK, bytes.len()] {
            for step in [1, 1000, BLOCK, BLOCK + 1, bytes.len()] {
                let mut sums = Sums::new(len);
                bytes[..len].chunks(step).for_each(|chunk| sums.add(chunk));
                let (all, blocks) = sums.finish();
                assert_eq!(all, crc32c(SEED, &bytes[..len]), "{len} in steps of {step}");
                let expected: Vec<u32> = bytes[..len].chunks_exact(BLOCK).map(|block| crc32c(SEED, block)).collect();
                assert_eq!(blocks.of(len), expected);
            }
        }
    }
}
