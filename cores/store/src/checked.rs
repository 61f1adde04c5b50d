//! Blocks in memory with their checksums, which are computed once: when the bytes come into memory. Whoever uses a
//! block compares its checksum with the one that the index expects. Memory itself is trusted.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

use crate::block::BLOCK;
use bytes::Bytes;
use denc::index;
use kernels::{SEED, crc32c, crc32c_concat_4k};
use std::sync::Arc;

/// Whole blocks that follow each other, with their checksums.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    bytes: Bytes,
    crcs: Crcs,
}

#[derive(Clone, Debug)]
enum Crcs {
    One(u32),
    /// The checksums of several blocks, from this index on.
    Many(Arc<[u32]>, usize),
}

impl Checked {
    /// Computes the checksums of whole blocks (at least one).
    pub(crate) fn new(bytes: Bytes) -> Self {
        assert!(!bytes.is_empty() && bytes.len().is_multiple_of(BLOCK));
        if bytes.len() == BLOCK {
            let crc = crc32c(SEED, &bytes);
            return Self::known(bytes, crc);
        }
        let crcs = bytes.chunks_exact(BLOCK).map(|block| crc32c(SEED, block)).collect();
        Self { bytes, crcs: Crcs::Many(crcs, 0) }
    }

    /// Takes one block whose checksum was computed before.
    pub(crate) fn known(bytes: Bytes, crc: u32) -> Self {
        assert_eq!(bytes.len(), BLOCK);
        Self { bytes, crcs: Crcs::One(crc) }
    }

    /// Takes several blocks whose checksums were computed before.
    pub(crate) fn known_run(bytes: Bytes, crcs: &[u32]) -> Self {
        assert_eq!(bytes.len(), crcs.len() * BLOCK);
        match crcs {
            [crc] => Self::known(bytes, *crc),
            many => Self { bytes, crcs: Crcs::Many(many.into(), 0) },
        }
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Number of blocks.
    pub(crate) fn blocks(&self) -> u64 {
        (self.bytes.len() / BLOCK) as u64
    }

    /// Checksum of block `index`.
    pub(crate) fn crc(&self, index: usize) -> u32 {
        match &self.crcs {
            Crcs::One(crc) => *crc,
            Crcs::Many(crcs, first) => crcs[first + index],
        }
    }

    /// Gives at most `max` blocks from block `from` on.
    pub(crate) fn part(&self, from: usize, max: u64) -> Self {
        let n = index((self.blocks() - from as u64).min(max));
        let bytes = self.bytes.slice(from * BLOCK..(from + n) * BLOCK);
        match &self.crcs {
            Crcs::One(crc) => Self::known(bytes, *crc),
            Crcs::Many(..) if n == 1 => Self::known(bytes, self.crc(from)),
            Crcs::Many(crcs, first) => Self { bytes, crcs: Crcs::Many(crcs.clone(), first + from) },
        }
    }

    /// Copies the bytes into memory of their own.
    pub(crate) fn on_its_own(&self) -> Self {
        Self { bytes: Bytes::copy_from_slice(&self.bytes), crcs: self.crcs.clone() }
    }

    /// Extends `crc`, the checksum of the bytes before, by the bytes `from..to` of this.
    pub(crate) fn append_to(&self, mut crc: u32, from: usize, to: usize) -> u32 {
        let mut at = from;
        while at < to {
            let end = to.min((at / BLOCK + 1) * BLOCK);
            crc = if end - at == BLOCK { crc32c_concat_4k(crc, self.crc(at / BLOCK)) } else { crc32c(crc, &self.bytes[at..end]) };
            at = end;
        }
        crc
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_keep_their_checksums_and_they_add_up() {
        let bytes: Bytes = (0..5 * BLOCK).map(|i| (i / 5) as u8).collect::<Vec<u8>>().into();
        let all = Checked::new(bytes.clone());
        assert_eq!((all.blocks(), all.part(1, 2).part(1, 9).blocks()), (5, 1));
        assert_eq!(all.part(1, 4).part(1, 3).crc(1), crc32c(SEED, &bytes[3 * BLOCK..4 * BLOCK]));
        for (from, to) in [(0, 5 * BLOCK), (7, 4100), (4096, 8192), (4000, 5 * BLOCK - 1), (9, 9)] {
            let before = crc32c(SEED, b"before");
            assert_eq!(all.append_to(before, from, to), crc32c(before, &bytes[from..to]), "{from}..{to}");
        }
    }
}
