//! Loops over bytes that want the processor's vector instructions: checksums that the wire, the maps and the store
//! share (CRC-32C with Ceph's conventions), the draws of placement ([`placement_draws`]), and linear maps over GF(2⁸),
//! of which erasure codes are made ([`Mix`]). Every variant gives the same bytes; the choice is made at run time.
//!
//! Ceph's `crc32c(seed, data)` is the bare shift register: it starts from `seed` and is not inverted at the end. The
//! standard CRC-32C starts from all ones and inverts, so the two differ by one inversion when the seed is all ones.

#![deny(unsafe_code)]

mod draw;
mod gf;

pub use draw::placement_draws;
pub use gf::{Kernel, Mix, gf_inverse, gf_mul, xor_sum, xor_sum_with};

use crc_fast::{CrcAlgorithm, Digest};

/// The seed that Ceph uses for payloads and maps.
pub const SEED: u32 = 0xffff_ffff;

/// CRC-32C register after `data`, starting from `seed`, without a final inversion. `crc32c(crc32c(s, a), b)` equals
/// the register after `a` followed by `b`.
#[inline]
pub fn crc32c(seed: u32, data: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(seed));
    digest.update(data);
    !(digest.finalize() as u32)
}

/// The register after `len_b` more bytes whose own register, from [`SEED`], is `b`; `a` is the register so far.
pub fn crc32c_concat(a: u32, b: u32, len_b: u64) -> u32 {
    !(crc_fast::checksum_combine(CrcAlgorithm::Crc32Iscsi, u64::from(!a), u64::from(!b), len_b) as u32)
}

/// [`crc32c_concat`] for a second part of 4096 bytes, the block of disks: four table look-ups.
#[inline]
pub fn crc32c_concat_4k(a: u32, b: u32) -> u32 {
    // The register is linear in its start: what `a` becomes behind 4096 more bytes is what `b` is, and what the difference of the
    // starts becomes behind as many zeros.
    let [d0, d1, d2, d3] = (a ^ SEED).to_le_bytes();
    b ^ ZEROS_4K[0][d0 as usize] ^ ZEROS_4K[1][d1 as usize] ^ ZEROS_4K[2][d2 as usize] ^ ZEROS_4K[3][d3 as usize]
}

/// Value that each byte of the register takes behind 4096 zero bytes.
static ZEROS_4K: [[u32; 256]; 4] = zeros_4k();

const fn zeros_4k() -> [[u32; 256]; 4] {
    // What each bit becomes behind one zero bit, then doubled fifteen times: 2^15 bits.
    let mut bits = [0u32; 32];
    let mut i = 0;
    while i < 32 {
        let crc = 1u32 << i;
        bits[i] = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        i += 1;
    }
    let mut doubled = 0;
    while doubled < 15 {
        let mut next = [0; 32];
        let mut i = 0;
        while i < 32 {
            next[i] = apply(&bits, bits[i]);
            i += 1;
        }
        bits = next;
        doubled += 1;
    }
    let mut table = [[0; 256]; 4];
    let mut i = 0;
    while i < 1024 {
        table[i / 256][i % 256] = apply(&bits, ((i % 256) as u32) << (i / 256 * 8));
        i += 1;
    }
    table
}

const fn apply(bits: &[u32; 32], crc: u32) -> u32 {
    let (mut out, mut i) = (0, 0);
    while i < 32 {
        if crc >> i & 1 != 0 {
            out ^= bits[i];
        }
        i += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit, from the definition (polynomial 0x1EDC6F41, reflected).
    fn slow(seed: u32, data: &[u8]) -> u32 {
        data.iter().fold(seed, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
        })
    }

    fn noise(n: usize) -> Vec<u8> {
        let mut x = 0x9e37_79b9_7f4a_7c15u64;
        (0..n)
            .map(|_| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                x as u8
            })
            .collect()
    }

    #[test]
    fn the_published_check_value() {
        assert_eq!(!crc32c(SEED, b"123456789"), 0xe306_9283);
    }

    #[test]
    fn equals_the_definition_at_every_length_and_seed() {
        let data = noise(4096 + 17);
        for n in (0..600).chain([1023, 1024, 1025, 4095, 4096, 4113]) {
            for seed in [0, SEED, 0x1234_5678] {
                assert_eq!(crc32c(seed, &data[..n]), slow(seed, &data[..n]), "length {n} seed {seed:x}");
            }
        }
    }

    #[test]
    fn continues_and_concatenates() {
        let data = noise(9000);
        for cut in [0, 1, 15, 4096, 8999, 9000] {
            let (a, b) = data.split_at(cut);
            assert_eq!(crc32c(crc32c(7, a), b), crc32c(7, &data));
            assert_eq!(crc32c_concat(crc32c(SEED, a), crc32c(SEED, b), b.len() as u64), crc32c(SEED, &data));
        }
    }

    #[test]
    fn blocks_are_concatenated_by_their_checksums() {
        let bytes = noise(3 * 4096 + 100);
        let (head, rest) = bytes.split_at(100);
        let whole = rest.chunks(4096).fold(crc32c(SEED, head), |crc, block| crc32c_concat_4k(crc, crc32c(SEED, block)));
        assert_eq!(whole, crc32c(SEED, &bytes));
    }
}
