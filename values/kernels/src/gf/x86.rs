//! The kernels of x86-64 processors.
//!
//! Each public function asks for what its caller has checked: that the processor has the instructions, and that every
//! slice reaches to the end of the part. Loads and stores go through pointers, since that is what the instructions
//! take.
#![allow(unsafe_code, reason = "loads and stores of vectors take pointers; the bounds are asserted where each part begins")]

use super::{Nibbles, Part, scalar, xor_scalar};
use std::arch::x86_64::*;

/// Asserts what the loops below rely on, once for each part.
fn check(part: &Part<'_>, tables: usize, outputs: &[&mut [u8]]) {
    assert!(part.from <= part.to && tables == part.inputs.len() * outputs.len());
    assert!(part.inputs.iter().all(|i| i.len() >= part.to) && outputs.iter().all(|o| o.len() >= part.to));
}

/// Calls a kernel with the number of outputs as a constant, and whether the first is plain.
macro_rules! by_group {
    ($kernel:ident, $part:expr, $tables:expr, $outputs:expr) => {
        match ($outputs.len(), $part.plain) {
            (1, false) => $kernel::<1, 0>($part, $tables, $outputs),
            (2, false) => $kernel::<2, 0>($part, $tables, $outputs),
            (3, false) => $kernel::<3, 0>($part, $tables, $outputs),
            (4, false) => $kernel::<4, 0>($part, $tables, $outputs),
            (1, true) => $kernel::<1, 1>($part, $tables, $outputs),
            (2, true) => $kernel::<2, 1>($part, $tables, $outputs),
            (3, true) => $kernel::<3, 1>($part, $tables, $outputs),
            (4, true) => $kernel::<4, 1>($part, $tables, $outputs),
            (n, _) => unreachable!("a group of {n}"),
        }
    };
}

/// Multiplies by GFNI; the processor has that and AVX-512BW.
pub(super) fn gfni(part: &Part<'_>, tables: &[u64], outputs: &mut [&mut [u8]]) {
    check(part, tables.len(), outputs);
    // SAFETY: the processor has the instructions (`Kernel::all`), and `check` has just said that the slices are as long as needed.
    unsafe { by_group!(gfni_group, part, tables, outputs) }
}

/// Multiplies by AVX2, which the processor has.
pub(super) fn avx2(part: &Part<'_>, tables: &[Nibbles], outputs: &mut [&mut [u8]]) {
    check(part, tables.len(), outputs);
    // SAFETY: as in `gfni`.
    let done = unsafe { by_group!(avx2_group, part, tables, outputs) };
    scalar(&Part { from: done, ..*part }, tables, outputs);
}

/// Multiplies by SSSE3, which the processor has.
pub(super) fn ssse3(part: &Part<'_>, tables: &[Nibbles], outputs: &mut [&mut [u8]]) {
    check(part, tables.len(), outputs);
    // SAFETY: as in `gfni`.
    let done = unsafe { by_group!(ssse3_group, part, tables, outputs) };
    scalar(&Part { from: done, ..*part }, tables, outputs);
}

/// The bits of the first `n` of 64 bytes.
fn first(n: usize) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

/// `G` outputs, of which the first `P` are plain sums.
///
/// # Safety
///
/// `check` holds, with `G` outputs.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
unsafe fn gfni_group<const G: usize, const P: usize>(part: &Part<'_>, tables: &[u64], outputs: &mut [&mut [u8]]) {
    let (tables, _) = tables.as_chunks::<G>();
    let out: [*mut u8; G] = std::array::from_fn(|g| outputs[g].as_mut_ptr());
    let mut at = part.from;
    while at + 128 <= part.to {
        let mut sums = [[_mm512_setzero_si512(); 2]; G];
        if part.add {
            for g in 0..G {
                // SAFETY: the caller checked that all outputs reach to `to`.
                unsafe { sums[g] = [_mm512_loadu_si512(out[g].add(at).cast()), _mm512_loadu_si512(out[g].add(at + 64).cast())] };
            }
        }
        for (input, tables) in part.inputs.iter().zip(tables) {
            // SAFETY: the caller checked that all inputs reach to `to`.
            let x = unsafe {
                let p = input.as_ptr().add(at);
                [_mm512_loadu_si512(p.cast()), _mm512_loadu_si512(p.add(64).cast())]
            };
            for g in 0..G {
                for v in 0..2 {
                    let product = match g < P {
                        true => x[v],
                        false => _mm512_gf2p8affine_epi64_epi8::<0>(x[v], _mm512_set1_epi64(tables[g] as i64)),
                    };
                    sums[g][v] = _mm512_xor_si512(sums[g][v], product);
                }
            }
        }
        for g in 0..G {
            // SAFETY: as above.
            unsafe {
                _mm512_storeu_si512(out[g].add(at).cast(), sums[g][0]);
                _mm512_storeu_si512(out[g].add(at + 64).cast(), sums[g][1]);
            }
        }
        at += 128;
    }
    while at < part.to {
        let mask = first(part.to - at);
        let mut sums = [_mm512_setzero_si512(); G];
        if part.add {
            for g in 0..G {
                // SAFETY: the mask leaves out what is behind `to`.
                unsafe { sums[g] = _mm512_maskz_loadu_epi8(mask, out[g].add(at).cast()) };
            }
        }
        for (input, tables) in part.inputs.iter().zip(tables) {
            // SAFETY: as above.
            let x = unsafe { _mm512_maskz_loadu_epi8(mask, input.as_ptr().add(at).cast()) };
            for g in 0..G {
                let product = match g < P {
                    true => x,
                    false => _mm512_gf2p8affine_epi64_epi8::<0>(x, _mm512_set1_epi64(tables[g] as i64)),
                };
                sums[g] = _mm512_xor_si512(sums[g], product);
            }
        }
        for g in 0..G {
            // SAFETY: as above.
            unsafe { _mm512_mask_storeu_epi8(out[g].add(at).cast(), mask, sums[g]) };
        }
        at += 64;
    }
}

/// A kernel by look-ups in halves of bytes. It stops before a last part of less than two vectors, and returns where.
macro_rules! by_nibbles {
    ($name:ident, $features:literal, $width:literal, $vector:ty, $load:ident, $store:ident, $zero:ident, $xor:ident, $and:ident,
     $shift:ident, $set:ident, $shuffle:ident, $table:expr) => {
        /// `G` outputs, of which the first `P` are plain sums.
        ///
        /// # Safety
        ///
        /// `check` holds, with `G` outputs.
        #[target_feature(enable = $features)]
        unsafe fn $name<const G: usize, const P: usize>(part: &Part<'_>, tables: &[Nibbles], outputs: &mut [&mut [u8]]) -> usize {
            let (tables, _) = tables.as_chunks::<G>();
            let out: [*mut u8; G] = std::array::from_fn(|g| outputs[g].as_mut_ptr());
            let low = $set(15);
            let mut at = part.from;
            while at + 2 * $width <= part.to {
                let mut sums: [[$vector; 2]; G] = [[$zero(); 2]; G];
                if part.add {
                    for g in 0..G {
                        // SAFETY: the caller checked that all outputs reach to `to`.
                        unsafe { sums[g] = [$load(out[g].add(at).cast()), $load(out[g].add(at + $width).cast())] };
                    }
                }
                for (input, tables) in part.inputs.iter().zip(tables) {
                    // SAFETY: the caller checked that all inputs reach to `to`.
                    let x = unsafe {
                        let p = input.as_ptr().add(at);
                        [$load(p.cast()), $load(p.add($width).cast())]
                    };
                    for v in 0..2 {
                        for g in 0..P {
                            sums[g][v] = $xor(sums[g][v], x[v]);
                        }
                    }
                    if P == G {
                        continue;
                    }
                    let lows = [$and(x[0], low), $and(x[1], low)];
                    let highs = [$and($shift::<4>(x[0]), low), $and($shift::<4>(x[1]), low)];
                    for g in P..G {
                        let ptr = tables[g].as_ptr();
                        // SAFETY: the table has 32 bytes.
                        let (by_low, by_high) = unsafe { ($table(ptr), $table(ptr.add(16))) };
                        for v in 0..2 {
                            let product = $xor($shuffle(by_low, lows[v]), $shuffle(by_high, highs[v]));
                            sums[g][v] = $xor(sums[g][v], product);
                        }
                    }
                }
                for g in 0..G {
                    // SAFETY: as above.
                    unsafe {
                        $store(out[g].add(at).cast(), sums[g][0]);
                        $store(out[g].add(at + $width).cast(), sums[g][1]);
                    }
                }
                at += 2 * $width;
            }
            at
        }
    };
}

by_nibbles!(
    avx2_group,
    "avx2",
    32,
    __m256i,
    _mm256_loadu_si256,
    _mm256_storeu_si256,
    _mm256_setzero_si256,
    _mm256_xor_si256,
    _mm256_and_si256,
    _mm256_srli_epi64,
    _mm256_set1_epi8,
    _mm256_shuffle_epi8,
    |p: *const u8| _mm256_broadcastsi128_si256(_mm_loadu_si128(p.cast()))
);
by_nibbles!(
    ssse3_group,
    "ssse3",
    16,
    __m128i,
    _mm_loadu_si128,
    _mm_storeu_si128,
    _mm_setzero_si128,
    _mm_xor_si128,
    _mm_and_si128,
    _mm_srli_epi64,
    _mm_set1_epi8,
    _mm_shuffle_epi8,
    |p: *const u8| _mm_loadu_si128(p.cast())
);

/// Sums by AVX-512, which the processor has.
pub(super) fn xor_avx512(inputs: &[&[u8]], output: &mut [u8], add: bool) {
    assert!(inputs.iter().all(|i| i.len() == output.len()));
    // SAFETY: the processor has the instructions, and all slices have one length.
    let done = unsafe { xor_512(inputs, output, add) };
    xor_scalar(inputs, output, done, add);
}

/// Sums by AVX2, which the processor has.
pub(super) fn xor_avx2(inputs: &[&[u8]], output: &mut [u8], add: bool) {
    assert!(inputs.iter().all(|i| i.len() == output.len()));
    // SAFETY: as above.
    let done = unsafe { xor_256(inputs, output, add) };
    xor_scalar(inputs, output, done, add);
}

/// Sums of four vectors at a time. It stops before a last part of less, and returns where.
macro_rules! xor_of {
    ($name:ident, $features:literal, $width:literal, $load:ident, $store:ident, $zero:ident, $xor:ident) => {
        /// # Safety
        ///
        /// All slices have one length.
        #[target_feature(enable = $features)]
        unsafe fn $name(inputs: &[&[u8]], output: &mut [u8], add: bool) -> usize {
            let out = output.as_mut_ptr();
            let mut at = 0;
            while at + 4 * $width <= output.len() {
                let mut sums = [$zero(); 4];
                if add {
                    for v in 0..4 {
                        // SAFETY: four vectors lie before the end.
                        sums[v] = unsafe { $load(out.add(at + v * $width).cast()) };
                    }
                }
                for input in inputs {
                    for v in 0..4 {
                        // SAFETY: inputs are as long as the output.
                        let x = unsafe { $load(input.as_ptr().add(at + v * $width).cast()) };
                        sums[v] = $xor(sums[v], x);
                    }
                }
                for v in 0..4 {
                    // SAFETY: as above.
                    unsafe { $store(out.add(at + v * $width).cast(), sums[v]) };
                }
                at += 4 * $width;
            }
            at
        }
    };
}

xor_of!(xor_512, "avx512f", 64, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_setzero_si512, _mm512_xor_si512);
xor_of!(xor_256, "avx2", 32, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_setzero_si256, _mm256_xor_si256);
