//! CHECKSUM: checksums of an extent, whole or by chunks. xxHash is written here after its published specification, because
//! nothing else needs it.

use super::Extent;
use crate::run::{Exec, Run};
use denc::{Encode, Reader};
use messages::osd::{OpArgs, code::checksum_type};
use types::Errno;

const P32: [u32; 5] = [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d, 0x27d4_eb2f, 0x1656_67b1];
const P64: [u64; 5] =
    [0x9e37_79b1_85eb_ca87, 0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9, 0x85eb_ca77_c2b2_ae63, 0x27d4_eb2f_1656_67c5];

fn word32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn word64(bytes: &[u8]) -> u64 {
    u64::from(word32(bytes)) | u64::from(word32(&bytes[4..])) << 32
}

/// xxHash, 32 bits.
fn xxhash32(seed: u32, data: &[u8]) -> u32 {
    let round = |acc: u32, word: u32| acc.wrapping_add(word.wrapping_mul(P32[1])).rotate_left(13).wrapping_mul(P32[0]);
    let stripes = data.chunks_exact(16);
    let rest = stripes.remainder();
    let mut h = if data.len() >= 16 {
        let mut acc =
            [seed.wrapping_add(P32[0]).wrapping_add(P32[1]), seed.wrapping_add(P32[1]), seed, seed.wrapping_sub(P32[0])];
        for stripe in stripes {
            for (lane, acc) in acc.iter_mut().enumerate() {
                *acc = round(*acc, word32(&stripe[4 * lane..]));
            }
        }
        let turned = [1, 7, 12, 18];
        acc.iter().zip(turned).fold(0u32, |h, (a, by)| h.wrapping_add(a.rotate_left(by)))
    } else {
        seed.wrapping_add(P32[4])
    };
    h = h.wrapping_add(data.len() as u32);
    let words = rest.chunks_exact(4);
    let tail = words.remainder();
    for word in words {
        h = h.wrapping_add(word32(word).wrapping_mul(P32[2])).rotate_left(17).wrapping_mul(P32[3]);
    }
    for byte in tail {
        h = h.wrapping_add(u32::from(*byte).wrapping_mul(P32[4])).rotate_left(11).wrapping_mul(P32[0]);
    }
    h = (h ^ h >> 15).wrapping_mul(P32[1]);
    h = (h ^ h >> 13).wrapping_mul(P32[2]);
    h ^ h >> 16
}

/// xxHash, 64 bits.
fn xxhash64(seed: u64, data: &[u8]) -> u64 {
    let round = |acc: u64, word: u64| acc.wrapping_add(word.wrapping_mul(P64[1])).rotate_left(31).wrapping_mul(P64[0]);
    let stripes = data.chunks_exact(32);
    let rest = stripes.remainder();
    let mut h = if data.len() >= 32 {
        let mut acc =
            [seed.wrapping_add(P64[0]).wrapping_add(P64[1]), seed.wrapping_add(P64[1]), seed, seed.wrapping_sub(P64[0])];
        for stripe in stripes {
            for (lane, acc) in acc.iter_mut().enumerate() {
                *acc = round(*acc, word64(&stripe[8 * lane..]));
            }
        }
        let turned = [1, 7, 12, 18];
        let sum = acc.iter().zip(turned).fold(0u64, |h, (a, by)| h.wrapping_add(a.rotate_left(by)));
        acc.iter().fold(sum, |h, a| (h ^ round(0, *a)).wrapping_mul(P64[0]).wrapping_add(P64[3]))
    } else {
        seed.wrapping_add(P64[4])
    };
    h = h.wrapping_add(data.len() as u64);
    let words = rest.chunks_exact(8);
    let mut tail = words.remainder();
    for word in words {
        h = (h ^ round(0, word64(word))).rotate_left(27).wrapping_mul(P64[0]).wrapping_add(P64[3]);
    }
    if tail.len() >= 4 {
        h = (h ^ u64::from(word32(tail)).wrapping_mul(P64[0])).rotate_left(23).wrapping_mul(P64[1]).wrapping_add(P64[2]);
        tail = &tail[4..];
    }
    for byte in tail {
        h = (h ^ u64::from(*byte).wrapping_mul(P64[4])).rotate_left(11).wrapping_mul(P64[0]);
    }
    h = (h ^ h >> 33).wrapping_mul(P64[1]);
    h = (h ^ h >> 29).wrapping_mul(P64[2]);
    h ^ h >> 32
}

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
    let chunks: Vec<&[u8]> = data.chunks(chunk.max(1)).collect();
    match kind {
        checksum_type::XXHASH64 => chunks.iter().map(|c| xxhash64(seed, c)).collect::<Vec<u64>>().to_bytes(),
        checksum_type::XXHASH32 => chunks.iter().map(|c| xxhash32(seed as u32, c)).collect::<Vec<u32>>().to_bytes(),
        _ => chunks.iter().map(|c| kernels::crc32c(seed as u32, c)).collect::<Vec<u32>>().to_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that the specification and its reference implementation publish.
    #[test]
    fn the_published_vectors() {
        let prime = 2_654_435_761u32;
        assert_eq!((xxhash32(0, b""), xxhash32(prime, b"")), (0x02cc_5d05, 0x36b7_8ae7));
        assert_eq!((xxhash64(0, b""), xxhash64(0, b"abc")), (0xef46_db37_51d8_e999, 0x44bc_2cf5_ad77_0999));
        assert_eq!((xxhash32(0, b"a"), xxhash32(0, b"abc")), (0x550d_7456, 0x32d1_53ff));
        assert_eq!(xxhash32(0, b"Nobody inspects the spammish repetition"), 0xe229_3b2f);
        assert_eq!(xxhash64(0, b"Nobody inspects the spammish repetition"), 0xfbce_a83c_8a37_8bf1);
    }
}
