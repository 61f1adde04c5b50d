//! The draw of straw2 buckets, where nearly all time of a placement goes.
//!
//! Each item draws 16 bits; the logarithm of that, as a shortfall below its maximum, is divided by the item's weight;
//! the smallest quotient wins, the first among equals. The exact shortfall takes table look-ups and the quotient a
//! 64-bit division, so both are computed only for items that can still win: a first pass over blocks of items, which
//! the compiler turns into vector instructions, draws and estimates every quotient in single precision with a known
//! error.

use crate::ln::shortfall;
use kernels::placement_draws;

/// Items of one pass.
const BLOCK: usize = 32;
/// Items that the inner loops take at once.
const LANES: usize = 8;

/// Largest distance of [`estimate`] from the exact shortfall, in units of 2^44; with a margin over what the test finds.
const ERROR: f32 = 2.0e-4;

/// Quotients are rounded down, so those that differ by less than this may be equal: one, in units of 2^44.
const ROUNDING: f32 = 1.0 / (1u64 << 44) as f32;

/// log2(1 + t) for t in [0, 1], within 1.2e-4: the polynomial that meets it at the Chebyshev points.
const LOG2: [f32; 5] = [1.145_799_6e-4, 1.436_875, -0.670_882_7, 0.312_269_48, -0.078_440_68];

/// Index of the winner among `ids` with these `weights` (as many), for input `x` and attempt `r`. If no item has
/// weight, the first wins.
pub(crate) fn winner(ids: &[i32], weights: &[u32], x: u32, r: u32) -> usize {
    debug_assert_eq!(ids.len(), weights.len());
    let mut best = (u64::MAX, 0);
    let mut limit = f32::INFINITY;
    for (block, (ids, weights)) in ids.chunks(BLOCK).zip(weights.chunks(BLOCK)).enumerate() {
        let pass = Pass::over(ids, weights, x, r);
        limit = limit.min(pass.limit);
        let mut candidates = pass.candidates(limit);
        while candidates != 0 {
            let i = candidates.trailing_zeros() as usize;
            candidates &= candidates - 1;
            let Some(weight) = weights.get(i).filter(|w| **w != 0) else { continue };
            let quotient = shortfall(pass.draws[i]) / u64::from(*weight);
            if quotient < best.0 {
                best = (quotient, block * BLOCK + i);
            }
        }
    }
    best.1
}

/// Findings of the first pass about a block. Lanes beyond the block's end hold nothing of use.
struct Pass {
    draws: [u32; BLOCK],
    /// Lower bound of each quotient.
    lowest: [f32; BLOCK],
    /// No item above this can win.
    limit: f32,
}

impl Pass {
    #[inline]
    fn over(ids: &[i32], weights: &[u32], x: u32, r: u32) -> Self {
        let (mut padded_ids, mut padded_weights) = ([0; BLOCK], [0; BLOCK]);
        padded_ids[..ids.len()].copy_from_slice(ids);
        padded_weights[..weights.len()].copy_from_slice(weights);
        let mut pass = Self { draws: [0; BLOCK], lowest: [f32::INFINITY; BLOCK], limit: f32::INFINITY };
        let lanes = ids.len().div_ceil(LANES) * LANES;
        placement_draws(x, &padded_ids[..lanes], r, &mut pass.draws[..lanes]);
        let mut highest = [f32::INFINITY; BLOCK];
        bound(&pass.draws[..lanes], &padded_weights[..lanes], &mut pass.lowest[..lanes], &mut highest[..lanes]);
        // Positive floats order as their bits, of which the compiler finds the minimum in vectors.
        let bits = highest.map(|h| h.to_bits() as i32).into_iter().fold(i32::MAX, i32::min);
        pass.limit = f32::from_bits(bits as u32);
        pass
    }

    /// The items, as bits, whose lower bound allows them to win.
    #[inline]
    fn candidates(&self, limit: f32) -> u32 {
        let bit = |(i, low): (usize, &f32)| u32::from(*low <= limit) << i;
        self.lowest.iter().enumerate().map(bit).fold(0, |bits, bit| bits | bit)
    }
}

/// Bounds of each quotient. An item without weight divides by zero: its upper bound is infinite.
#[inline(never)]
fn bound(draws: &[u32], weights: &[u32], lowest: &mut [f32], highest: &mut [f32]) {
    for (((draw, weight), low), high) in draws.iter().zip(weights).zip(lowest).zip(highest) {
        let (length, scale) = (estimate(*draw), 1.0 / *weight as f32);
        *low = (length - ERROR) * scale;
        *high = (length + ERROR) * scale + ROUNDING;
    }
}

/// About `shortfall(u)` / 2^44, that is 16 - log2(u + 1), off by at most [`ERROR`].
#[inline(always)]
fn estimate(u: u32) -> f32 {
    let bits = ((u + 1) as i32 as f32).to_bits();
    let exponent = (bits >> 23) as i32 - 127;
    let t = f32::from_bits(bits & 0x007f_ffff | 0x3f80_0000) - 1.0;
    let [a, b, c, d, e] = LOG2;
    (16 - exponent) as f32 - (a + t * (b + t * (c + t * (d + t * e))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash3;

    #[test]
    fn the_estimate_is_as_good_as_it_says() {
        let error = |u: u32| (f64::from(estimate(u)) - shortfall(u) as f64 / (1u64 << 44) as f64).abs();
        let worst = (0..=0xffff).map(error).fold(0.0, f64::max);
        assert!(worst < f64::from(ERROR) * 0.8, "{worst}");
    }

    /// Without estimates.
    fn slow_winner(ids: &[i32], weights: &[u32], x: u32, r: u32) -> usize {
        let quotient = |(i, w): (&i32, &u32)| shortfall(hash3(x, *i as u32, r) & 0xffff).checked_div(u64::from(*w));
        let all = ids.iter().zip(weights).map(|item| quotient(item).unwrap_or(u64::MAX)).enumerate();
        all.min_by_key(|(_, quotient)| *quotient).map_or(0, |(i, _)| i)
    }

    #[test]
    fn the_winner_is_the_same_as_without_estimates() {
        let mut seed = 1u64;
        let mut next = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for round in 0..20_000u32 {
            let n = 1 + next(100) as usize;
            let ids: Vec<i32> = (0..n).map(|i| i as i32 * if round % 2 == 0 { 1 } else { -1 }).collect();
            let most = [1, 3, 0x1_0000, 0x20_0000, u64::from(u32::MAX)][next(5) as usize];
            let alike = next(3) == 0;
            let common = next(most + 1) as u32;
            let weights: Vec<u32> = (0..n).map(|_| if alike { common } else { next(most + 1) as u32 }).collect();
            let (x, r) = (next(u64::from(u32::MAX)) as u32, next(50) as u32);
            assert_eq!(winner(&ids, &weights, x, r), slow_winner(&ids, &weights, x, r), "{weights:?} x {x} r {r}");
        }
    }
}
