//! The hash of placement, for many items at once: the innermost loop of every CRUSH mapping.
//!
//! The hash is Jenkins' 1996 mix over three words, as placement maps use it. It is nothing but 32-bit additions, shifts
//! and exclusive ors, so one source compiles to whatever vector instructions the processor has; the choice is made at
//! run time, and every variant gives the same numbers.

/// Starting value and the two constants that fill up the words.
const SEED: u32 = 1_315_423_911;
const X: u32 = 231_232;
const Y: u32 = 1_232;

/// Hashes that are computed side by side: one alone would leave the processor waiting for each of its steps.
type Side<const N: usize> = [u32; N];

#[inline(always)]
fn mix<const N: usize>(a: &mut Side<N>, b: &mut Side<N>, c: &mut Side<N>) {
    let step = |x: &mut Side<N>, y: &Side<N>, z: &Side<N>, shifted: fn(u32) -> u32| {
        for i in 0..N {
            x[i] = x[i].wrapping_sub(y[i]).wrapping_sub(z[i]) ^ shifted(z[i]);
        }
    };
    step(a, b, c, |z| z >> 13);
    step(b, c, a, |z| z << 8);
    step(c, a, b, |z| z >> 13);
    step(a, b, c, |z| z >> 12);
    step(b, c, a, |z| z << 16);
    step(c, a, b, |z| z >> 5);
    step(a, b, c, |z| z >> 3);
    step(b, c, a, |z| z << 10);
    step(c, a, b, |z| z >> 15);
}

#[inline(always)]
fn hash<const N: usize>(a: u32, b: Side<N>, c: u32) -> Side<N> {
    let mut h = b.map(|b| SEED ^ a ^ b ^ c);
    let (mut a, mut b, mut c, mut x, mut y) = ([a; N], b, [c; N], [X; N], [Y; N]);
    mix(&mut a, &mut b, &mut h);
    mix(&mut c, &mut x, &mut h);
    mix(&mut y, &mut a, &mut h);
    mix(&mut b, &mut x, &mut h);
    mix(&mut y, &mut c, &mut h);
    h
}

/// The compiler makes vectors of these loops; how wide they are depends on where this is inlined.
#[inline(always)]
fn all(x: u32, ids: &[i32], r: u32, draws: &mut [u32]) {
    // Two vectors of eight at a time, then the rest.
    let half = ids.len() / 16 * 8;
    let (first, rest) = ids.split_at(half);
    let (second, rest) = rest.split_at(half);
    let (first_out, rest_out) = draws.split_at_mut(half);
    let (second_out, rest_out) = rest_out.split_at_mut(half);
    for (((d, e), i), j) in first_out.iter_mut().zip(second_out).zip(first).zip(second) {
        [*d, *e] = hash(x, [*i as u32, *j as u32], r).map(|h| h & 0xffff);
    }
    for (draw, id) in rest_out.iter_mut().zip(rest) {
        [*draw] = hash(x, [*id as u32], r).map(|h| h & 0xffff);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn all_avx2(x: u32, ids: &[i32], r: u32, draws: &mut [u32]) {
    all(x, ids, r, draws);
}

/// The 16 bits that each of `ids` draws for input `x` and attempt `r`: the low half of its hash. `draws` is as long as
/// `ids`; multiples of 8 are fastest.
#[inline]
pub fn placement_draws(x: u32, ids: &[i32], r: u32, draws: &mut [u32]) {
    assert_eq!(ids.len(), draws.len(), "one draw for each id");
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the instructions that the function was compiled for; it asks for nothing else.
        #[allow(unsafe_code)]
        return unsafe { all_avx2(x, ids, r, draws) };
    }
    all(x, ids, r, draws);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_gives_the_same_draws_at_every_length() {
        let ids: Vec<i32> = (0..70).map(|i: i32| i.wrapping_mul(-0x3779_97b1)).collect();
        for n in 0..ids.len() {
            let (mut fast, mut portable) = (vec![0; n], vec![0; n]);
            placement_draws(0x1234_5678, &ids[..n], 3, &mut fast);
            all(0x1234_5678, &ids[..n], 3, &mut portable);
            let alone: Vec<u32> = ids[..n].iter().map(|id| hash(0x1234_5678, [*id as u32], 3)[0] & 0xffff).collect();
            assert_eq!((&fast, &portable), (&alone, &alone), "{n} ids");
        }
    }
}
