//! CHECKSUM: checksums of an extent, whole or by chunks.

use super::Extent;
use crate::ops::run::{Exec, Run};
use denc::{Encode, Reader, low32};
use messages::osd::{OpArgs, code::checksum_type};
use types::Errno;
use xxhash_rust::xxh32::xxh32;
use xxhash_rust::xxh64::xxh64;

/// Bytes that each chunk counts as beside its own.
const CHUNK: u64 = 64;

impl Run<'_> {
    pub(super) fn op_checksum(&mut self, index: usize) -> Exec<i32> {
        let OpArgs::Checksum { offset, length, chunk_size, kind } = self.at(index).args else {
            return Err(Errno::EINVAL.into());
        };
        let chunk = u64::from(chunk_size);
        let size = self.after.size;
        if chunk > 0 && (length == 0 || length % chunk != 0) {
            return Err(Errno::EINVAL.into());
        }
        let whole = offset == 0 && length == 0;
        if !whole && offset >= size {
            return Ok(0);
        }
        let length = if whole { size } else { length.min(size - offset) };
        if chunk > 0 && length % chunk != 0 {
            return Err(Errno::EINVAL.into());
        }
        let input = self.input(index);
        let mut seed = Reader::new(&input);
        let seed = match kind {
            checksum_type::XXHASH32 | checksum_type::CRC32C => seed.u32()?.into(),
            checksum_type::XXHASH64 => seed.u64()?,
            _ => return Err(Errno::EINVAL.into()),
        };
        // Chunks of one byte would give four times what is looked at, and take a hundred times as long.
        let chunks = length.checked_div(chunk).unwrap_or(1);
        if !self.env.can_afford(chunks.saturating_mul(CHUNK)) {
            return Err(Errno::EMSGSIZE.into());
        }
        let data = match length {
            0 => bytes::Bytes::new(),
            _ => self.read_extent(Extent { offset, length, truncate_size: 0, truncate_seq: 0 })?.contiguous(),
        };
        let chunk = if chunk_size == 0 { data.len() } else { chunk_size as usize };
        self.output(index, checksums(kind, seed, &data, chunk));
        Ok(0)
    }
}

/// A count and the checksum of each chunk.
fn checksums(kind: u8, seed: u64, data: &[u8], chunk: usize) -> bytes::Bytes {
    let chunks = data.chunks(chunk.max(1));
    match kind {
        checksum_type::XXHASH64 => chunks.map(|c| xxh64(c, seed)).collect::<Vec<u64>>().to_bytes(),
        checksum_type::XXHASH32 => chunks.map(|c| xxh32(c, low32(seed))).collect::<Vec<u32>>().to_bytes(),
        _ => chunks.map(|c| kernels::crc32c(low32(seed), c)).collect::<Vec<u32>>().to_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that the specification and its reference implementation publish.
    #[test]
    fn the_published_vectors() {
        let one = |kind, seed, data: &[u8]| checksums(kind, seed, data, data.len())[4..].to_vec();
        let prime = 2_654_435_761;
        let text = b"Nobody inspects the spammish repetition";
        assert_eq!(one(checksum_type::XXHASH32, 0, b"a"), 0x550d_7456u32.to_le_bytes());
        assert_eq!(one(checksum_type::XXHASH32, 0, b"abc"), 0x32d1_53ffu32.to_le_bytes());
        assert_eq!(one(checksum_type::XXHASH32, 0, text), 0xe229_3b2fu32.to_le_bytes());
        assert_eq!(one(checksum_type::XXHASH64, 0, b"abc"), 0x44bc_2cf5_ad77_0999u64.to_le_bytes());
        assert_eq!(one(checksum_type::XXHASH64, 0, text), 0xfbce_a83c_8a37_8bf1u64.to_le_bytes());
        assert_eq!((xxh32(b"", 0), xxh32(b"", prime), xxh64(b"", 0)), (0x02cc_5d05, 0x36b7_8ae7, 0xef46_db37_51d8_e999));
    }
}
