//! The fixed-point logarithm that scales straw2's draws.
//!
//! `crush_ln(x)` approximates 2^44 · log2(x + 1) by two table look-ups. Placement must be the same everywhere for ever,
//! so the tables are part of the format, with every deviation from the formula that they were published with.
//! The tables are computed from their formulas and the deviations are listed below.

/// 2^48, the fixed-point unit of the tables.
const UNIT: u64 = 1 << 48;

/// `RECIPROCAL[k]` = ceil(2^48 / (1 + k/128)).
static RECIPROCAL: [u64; 129] = reciprocals();
/// `COARSE[k]` = floor(2^48 · log2(1 + k/128)); the last one deviates.
static COARSE: [u64; 129] = coarse();
/// `FINE[k]` ≈ 2^48 · log2(1 + k/2^15), deviating as listed in [`FINE_OFFSETS`].
static FINE: [u64; 256] = fine();

/// Amount by which nearly all entries of `FINE` lie above the formula.
const USUAL_OFFSET: u64 = 5_493_489_664;

/// Entries of `FINE` whose offset is another.
const FINE_OFFSETS: [(usize, u64); 44] = [
    (0, 0),
    (1, 0),
    (56, 5_349_423_536),
    (127, 978_272_901),
    (134, 3_588_789_669),
    (181, 4_007_963_589),
    (184, 5_423_282_367),
    (188, 2_201_924_427),
    (193, 3_829_329_171),
    (198, 2_511_158_322),
    (199, 2_670_353_280),
    (200, 3_807_665_765),
    (203, 0),
    (207, 5_045_407_031),
    (210, 4_635_559_696),
    (212, 3_670_382_108),
    (216, 0),
    (222, 0),
    (225, 3_209_098_745),
    (227, 1_514_328_394),
    (228, 2_662_093_655),
    (229, 561_838_844),
    (231, 3_537_203_772),
    (233, 0),
    (235, 4_861_921_003),
    (236, 5_281_046_906),
    (237, 0),
    (238, 0),
    (239, 0),
    (240, 2_650_193_885),
    (241, 4_203_558_265),
    (243, 0),
    (244, 0),
    (245, 0),
    (246, 0),
    (247, 362_109_528),
    (248, 0),
    (249, 0),
    (250, 0),
    (251, 0),
    (252, 0),
    (253, 0),
    (254, 0),
    (255, 0),
];

/// High 128 bits of the 256-bit product.
const fn mul_high(a: u128, b: u128) -> u128 {
    let (a1, a0, b1, b0) = (a >> 64, a & u64::MAX as u128, b >> 64, b & u64::MAX as u128);
    let low = a0 * b0;
    let (mid1, mid2) = (a1 * b0, a0 * b1);
    let carry = ((low >> 64) + (mid1 & u64::MAX as u128) + (mid2 & u64::MAX as u128)) >> 64;
    a1 * b1 + (mid1 >> 64) + (mid2 >> 64) + carry
}

/// floor(2^48 · log2(1 + num / 2^den_bits)) for num < 2^den_bits: each squaring of the mantissa yields one bit.
const fn log2_q48(num: u128, den_bits: u32) -> u64 {
    // The mantissa, in [1, 2), scaled by 2^126.
    let mut m = (1u128 << 126) + (num << (126 - den_bits));
    let mut bits = 0;
    let mut i = 0;
    while i < 48 {
        // The product of two such mantissas, scaled by 2^126 again, is in [1, 4).
        m = mul_high(m, m) << 2;
        bits <<= 1;
        if m >= 1u128 << 127 {
            m >>= 1;
            bits |= 1;
        }
        i += 1;
    }
    bits
}

const fn reciprocals() -> [u64; 129] {
    let mut table = [0; 129];
    let mut k = 0;
    while k <= 128 {
        table[k] = (128 * UNIT).div_ceil(128 + k as u64);
        k += 1;
    }
    table
}

const fn coarse() -> [u64; 129] {
    let mut table = [0; 129];
    let mut k = 0;
    while k < 128 {
        table[k] = log2_q48(k as u128, 7);
        k += 1;
    }
    table[128] = 0xffff_0000_0000;
    table
}

const fn fine() -> [u64; 256] {
    let mut table = [0; 256];
    let mut k = 0;
    while k < 256 {
        table[k] = log2_q48(k as u128, 15) + USUAL_OFFSET;
        k += 1;
    }
    let mut i = 0;
    while i < FINE_OFFSETS.len() {
        let (at, offset) = FINE_OFFSETS[i];
        table[at] = table[at] - USUAL_OFFSET + offset;
        i += 1;
    }
    table
}

/// Returns how far the logarithm of a draw is below its maximum: 2^48 − `crush_ln(u)`, for `u` of 16 bits. The
/// smaller, the luckier; at most 2^48, which is what `u` = 0 has.
#[inline]
pub(crate) fn shortfall(u: u32) -> u64 {
    debug_assert!(u <= 0xffff);
    // Normalise to 1.xxx with 15 bits behind the point.
    let x = u + 1;
    let up = if x & 0x1_8000 == 0 { x.leading_zeros() - 16 } else { 0 };
    let x = x << up;
    let k = (x >> 8) as usize - 128;
    let rest = (u64::from(x) * RECIPROCAL[k]) >> 48;
    let ln = (u64::from(15 - up) << 44) + ((COARSE[k] + FINE[(rest & 0xff) as usize]) >> 4);
    UNIT - ln
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest of all 65536 values was computed once from the tables in Ceph 16.2.15's own library.
    #[test]
    fn every_value_is_the_published_one() {
        let digest = (0..=0xffff).fold(0u64, |h, u| h.wrapping_mul(31).wrapping_add(shortfall(u)));
        assert_eq!(digest, 11310701980269202252);
        assert_eq!((shortfall(0), shortfall(0x7fff), shortfall(0xffff)), (281474976710656, 17592186044416, 268435456));
    }
}
