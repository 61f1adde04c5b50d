//! Linear maps over GF(2⁸), applied to bytes: the inner loops of erasure codes.
//!
//! The field has the polynomial 0x11d, as the codes of Ceph's plugins have it. A [`Mix`] is a matrix of constants with
//! the tables that the kernels read; byte i of each output is the matrix times the bytes i of the inputs. There is one
//! kernel for each of three families of instructions, and a twin in scalar code that every one must equal:
//!
//! | kernel | how a byte is multiplied | bytes of tables for each coefficient |
//! |---|---|---|
//! | GFNI with AVX-512 | one instruction, with the 8×8 bit matrix of the coefficient | 8 |
//! | AVX2, SSSE3 | two look-ups among 16 products, for the two halves of the byte | 32 |
//! | scalar | the same two look-ups | 32 |
//!
//! GFNI's own multiplication has another polynomial (0x11b), so its affine transformation serves instead. An output
//! whose coefficients are all 1 is an exclusive or, and is computed as one. Processors of other families have the
//! scalar twin.

#[cfg(target_arch = "x86_64")]
mod x86;

/// Powers of 2, which gives every element but 0; twice in a row, so that the sum of two logarithms finds its place.
const EXP: [u8; 510] = {
    let (mut table, mut power, mut i) = ([0; 510], 1u8, 0);
    while i < 510 {
        table[i] = power;
        power = (power << 1) ^ (0x1d & (power >> 7).wrapping_neg());
        i += 1;
    }
    table
};

/// Exponents: which power of 2 each element but 0 is.
const LOG: [u8; 256] = {
    let (mut table, mut i) = ([0; 256], 0);
    while i < 255 {
        table[EXP[i] as usize] = i as u8;
        i += 1;
    }
    table
};

/// Returns what `a` times `b` is in GF(2⁸) with the polynomial x⁸ + x⁴ + x³ + x² + 1 (0x11d).
pub const fn gf_mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 { 0 } else { EXP[LOG[a as usize] as usize + LOG[b as usize] as usize] }
}

/// The inverse of `a`, which is not 0.
///
/// # Panics
///
/// If `a` is 0.
pub const fn gf_inverse(a: u8) -> u8 {
    assert!(a != 0, "zero has no inverse");
    EXP[255 - LOG[a as usize] as usize]
}

/// Instructions that a kernel uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// None in particular.
    Scalar,
    /// `pshufb` on 16 bytes.
    Ssse3,
    /// `vpshufb` on 32 bytes.
    Avx2,
    /// `vgf2p8affineqb` on 64 bytes.
    Gfni,
}

impl Kernel {
    /// Returns the fastest kernel that this processor has.
    pub fn best() -> Kernel {
        *Kernel::all().last().expect("the scalar one is everywhere")
    }

    /// Returns all kernels that this processor has, slowest first.
    pub fn all() -> &'static [Kernel] {
        use Kernel::{Avx2, Gfni, Scalar, Ssse3};
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("gfni") && is_x86_feature_detected!("avx512bw") {
                return &[Scalar, Ssse3, Avx2, Gfni];
            }
            if is_x86_feature_detected!("avx2") {
                return &[Scalar, Ssse3, Avx2];
            }
            if is_x86_feature_detected!("ssse3") {
                return &[Scalar, Ssse3];
            }
        }
        let _ = (Gfni, Avx2, Ssse3);
        &[Scalar]
    }
}

/// Outputs that a kernel computes in one pass over the inputs. Two vectors of each lie in registers.
const GROUP: usize = 4;
/// Bytes of each input that are read again for the next group of outputs while they lie in the nearest cache.
const STRIP: usize = 2048;

/// Products of one coefficient with 0 … 15, then with 0, 16 … 240.
type Nibbles = [u8; 32];

const fn nibbles(c: u8) -> Nibbles {
    let mut table = [0; 32];
    let mut i = 0;
    while i < 16 {
        table[i] = gf_mul(c, i as u8);
        table[16 + i] = gf_mul(c, (i as u8) << 4);
        i += 1;
    }
    table
}

/// The bit matrix of a multiplication, as the affine instruction takes it: byte 7 − i has the bits that make bit i.
const fn affine(c: u8) -> u64 {
    let (mut matrix, mut j) = (0u64, 0);
    while j < 8 {
        let column = gf_mul(c, 1 << j);
        let mut i = 0;
        while i < 8 {
            matrix |= ((column >> i & 1) as u64) << ((7 - i) * 8 + j);
            i += 1;
        }
        j += 1;
    }
    matrix
}

/// A matrix over GF(2⁸) with what the kernels need to apply it.
#[derive(Clone, Debug)]
pub struct Mix {
    inputs: usize,
    outputs: usize,
    /// Tables by group of [`GROUP`] outputs, then by input, then by output of the group.
    affine: Vec<u64>,
    nibbles: Vec<Nibbles>,
    /// True if the first output of each group is the exclusive or of all inputs.
    plain: Vec<bool>,
}

impl Mix {
    /// Makes the tables of a matrix: `coefficients` has a row of `inputs` for each output.
    ///
    /// # Panics
    ///
    /// If there is no input, or the last row is not whole.
    pub fn new(inputs: usize, coefficients: &[u8]) -> Mix {
        assert!(inputs > 0 && coefficients.len().is_multiple_of(inputs), "rows of {inputs}");
        let outputs = coefficients.len() / inputs;
        let (mut bits, mut halves, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        for group in coefficients.chunks(GROUP * inputs) {
            plain.push(group[..inputs].iter().all(|c| *c == 1));
            for input in 0..inputs {
                for row in group.chunks(inputs) {
                    bits.push(affine(row[input]));
                    halves.push(nibbles(row[input]));
                }
            }
        }
        Mix { inputs, outputs, affine: bits, nibbles: halves, plain }
    }

    /// Inputs that are taken.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Outputs that are made.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Fills `outputs` with the matrix times `inputs`; `add` adds that to what is there instead.
    ///
    /// # Panics
    ///
    /// If the slices are not as many as the matrix says, or not of one length.
    pub fn apply(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], add: bool) {
        self.apply_with(Kernel::best(), inputs, outputs, add);
    }

    /// [`Mix::apply`] by one kernel of [`Kernel::all`], for tests and measurements.
    ///
    /// # Panics
    ///
    /// As [`Mix::apply`], and if the processor does not have the kernel.
    pub fn apply_with(&self, kernel: Kernel, inputs: &[&[u8]], outputs: &mut [&mut [u8]], add: bool) {
        assert!(Kernel::all().contains(&kernel), "{kernel:?} is not what this processor has");
        assert_eq!((inputs.len(), outputs.len()), (self.inputs, self.outputs), "slices of a mix");
        let len = inputs[0].len();
        assert!(
            inputs.iter().all(|i| i.len() == len) && outputs.iter().all(|o| o.len() == len),
            "slices of a mix have one length"
        );
        let strip = if self.outputs > GROUP { STRIP } else { len.max(1) };
        for from in (0..len).step_by(strip) {
            let to = (from + strip).min(len);
            for (g, group) in outputs.chunks_mut(GROUP).enumerate() {
                let first = g * GROUP * self.inputs;
                let tables = first..first + group.len() * self.inputs;
                let part = Part { inputs, from, to, add, plain: self.plain[g] };
                match kernel {
                    Kernel::Scalar => scalar(&part, &self.nibbles[tables], group),
                    #[cfg(target_arch = "x86_64")]
                    Kernel::Gfni => x86::gfni(&part, &self.affine[tables], group),
                    #[cfg(target_arch = "x86_64")]
                    Kernel::Avx2 => x86::avx2(&part, &self.nibbles[tables], group),
                    #[cfg(target_arch = "x86_64")]
                    Kernel::Ssse3 => x86::ssse3(&part, &self.nibbles[tables], group),
                    #[cfg(not(target_arch = "x86_64"))]
                    _ => unreachable!("not in `Kernel::all`"),
                }
            }
        }
    }
}

/// Work of a kernel in one call: bytes `from..to` of a group of at most [`GROUP`] outputs. All slices reach to `to`.
struct Part<'a> {
    inputs: &'a [&'a [u8]],
    from: usize,
    to: usize,
    add: bool,
    plain: bool,
}

/// The twin of all other kernels, and what they leave for the last bytes.
fn scalar(part: &Part<'_>, tables: &[Nibbles], outputs: &mut [&mut [u8]]) {
    let group = outputs.len();
    for (o, output) in outputs.iter_mut().enumerate() {
        let output = &mut output[part.from..part.to];
        if !part.add {
            output.fill(0);
        }
        for (input, tables) in part.inputs.iter().zip(tables.chunks(group)) {
            let table = &tables[o];
            for (out, byte) in output.iter_mut().zip(&input[part.from..part.to]) {
                *out ^= table[usize::from(byte & 15)] ^ table[usize::from(16 + (byte >> 4))];
            }
        }
    }
}

/// Fills `output` with the exclusive or of `inputs`; `add` takes in what is there, too.
///
/// # Panics
///
/// If the slices are not of one length.
pub fn xor_sum(inputs: &[&[u8]], output: &mut [u8], add: bool) {
    xor_sum_with(Kernel::best(), inputs, output, add);
}

/// [`xor_sum`] by one kernel of [`Kernel::all`], for tests and measurements.
///
/// # Panics
///
/// As [`xor_sum`], and if the processor does not have the kernel.
pub fn xor_sum_with(kernel: Kernel, inputs: &[&[u8]], output: &mut [u8], add: bool) {
    assert!(Kernel::all().contains(&kernel), "{kernel:?} is not what this processor has");
    assert!(inputs.iter().all(|i| i.len() == output.len()), "slices of a sum have one length");
    match kernel {
        #[cfg(target_arch = "x86_64")]
        Kernel::Gfni => x86::xor_avx512(inputs, output, add),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => x86::xor_avx2(inputs, output, add),
        _ => xor_scalar(inputs, output, 0, add),
    }
}

/// The sum of what lies behind `from`.
fn xor_scalar(inputs: &[&[u8]], output: &mut [u8], from: usize, add: bool) {
    let output = &mut output[from..];
    if !add {
        output.fill(0);
    }
    for input in inputs {
        output.iter_mut().zip(&input[from..]).for_each(|(out, byte)| *out ^= byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: u64, n: usize) -> Vec<u8> {
        let mut x = 0x9e37_79b9_7f4a_7c15u64 ^ seed.wrapping_mul(0xd134_2543_de82_ef95);
        (0..n)
            .map(|_| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                (x >> 24) as u8
            })
            .collect()
    }

    /// The matrix times the inputs, from the definition.
    fn slow(coefficients: &[u8], inputs: &[&[u8]], before: &[Vec<u8>], add: bool) -> Vec<Vec<u8>> {
        let rows = coefficients.chunks(inputs.len()).zip(before);
        rows.map(|(row, before)| {
            (0..before.len())
                .map(|i| {
                    let start = if add { before[i] } else { 0 };
                    row.iter().zip(inputs).fold(start, |sum, (c, input)| sum ^ gf_mul(*c, input[i]))
                })
                .collect()
        })
        .collect()
    }

    #[test]
    fn the_field_is_the_one_of_the_codes() {
        assert_eq!((gf_mul(2, 0x80), gf_mul(0x8e, 2), gf_mul(0, 7), gf_mul(1, 0xff)), (0x1d, 1, 0, 0xff));
        // Bit by bit, from the definition.
        let slow = |a: u8, b: u8| {
            let product = (0..8).filter(|i| b >> i & 1 != 0).fold(0u32, |sum, i| sum ^ u32::from(a) << i);
            (8..15).rev().fold(product, |p, i| if p >> i & 1 != 0 { p ^ 0x11d << (i - 8) } else { p }) as u8
        };
        for a in 0..=255 {
            assert!((0..=255).all(|b| gf_mul(a, b) == slow(a, b)), "{a}");
        }
        for a in 1..=255 {
            assert_eq!(gf_mul(a, gf_inverse(a)), 1, "{a}");
            for b in [1, 2, 3, 0x53, 0xca, 0xff] {
                assert_eq!(gf_mul(a, b), gf_mul(b, a));
                assert_eq!(gf_mul(gf_mul(a, b), 29), gf_mul(a, gf_mul(b, 29)));
                assert_eq!(gf_mul(a, b ^ 0x1f), gf_mul(a, b) ^ gf_mul(a, 0x1f));
            }
        }
    }

    #[test]
    fn every_kernel_equals_the_definition_at_every_length_and_offset() {
        let room = noise(1, 9 * 400);
        // Rows of one group, of one and a part, of two; with and without a plain one in front.
        for (inputs, outputs, plain) in [(1, 1, false), (4, 2, true), (3, 3, false), (2, 4, true), (8, 7, false), (5, 8, true)] {
            let mut coefficients = noise(inputs as u64, inputs * outputs);
            coefficients[0] = 0;
            if plain {
                coefficients[..inputs].fill(1);
            }
            let mix = Mix::new(inputs, &coefficients);
            assert_eq!((mix.inputs(), mix.outputs()), (inputs, outputs));
            for len in 0..=300 {
                let offset = len * 7 % 64;
                let from: Vec<&[u8]> = (0..inputs).map(|i| &room[i * 400 + offset..][..len]).collect();
                let before: Vec<Vec<u8>> = (0..outputs).map(|o| noise(o as u64 + 50, len)).collect();
                for add in [false, true] {
                    let right = slow(&coefficients, &from, &before, add);
                    for kernel in Kernel::all() {
                        let mut space: Vec<Vec<u8>> =
                            before.iter().map(|b| [&[0xa5; 64][..offset], b, &[0x5a; 9]].concat()).collect();
                        let mut out: Vec<&mut [u8]> = space.iter_mut().map(|s| &mut s[offset..offset + len]).collect();
                        mix.apply_with(*kernel, &from, &mut out, add);
                        for (space, right) in space.iter().zip(&right) {
                            let whole = [&[0xa5; 64][..offset], right, &[0x5a; 9]].concat();
                            assert_eq!(*space, whole, "{kernel:?} {inputs} to {outputs}, {len} bytes at {offset}, add {add}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_offset_of_a_few_lengths() {
        let room = noise(2, 2 * 700);
        let mix = Mix::new(2, &[1, 1, 0x8e, 0xf4]);
        for (offset, len) in (0..64).flat_map(|offset| [31, 64, 129, 256, 511].map(|len| (offset, len))) {
            let from = [&room[offset..][..len], &room[700 - offset..][..len]];
            let right = slow(&[1, 1, 0x8e, 0xf4], &from, &[vec![0; len], vec![0; len]], false);
            for kernel in Kernel::all() {
                let (mut a, mut b) = (vec![1; len + offset], vec![2; len + offset]);
                mix.apply_with(*kernel, &from, &mut [&mut a[offset..], &mut b[offset..]], false);
                assert_eq!((&a[offset..], &b[offset..]), (&right[0][..], &right[1][..]), "{kernel:?} {len} at {offset}");
            }
        }
    }

    #[test]
    fn strips_of_many_outputs_join() {
        let (inputs, outputs, len) = (3, 6, 3 * STRIP + 77);
        let coefficients = noise(7, inputs * outputs);
        let data: Vec<Vec<u8>> = (0..inputs).map(|i| noise(i as u64, len)).collect();
        let from: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let right = slow(&coefficients, &from, &vec![vec![0; len]; outputs], false);
        for kernel in Kernel::all() {
            let mut space = vec![vec![9; len]; outputs];
            let mut out: Vec<&mut [u8]> = space.iter_mut().map(Vec::as_mut_slice).collect();
            Mix::new(inputs, &coefficients).apply_with(*kernel, &from, &mut out, false);
            assert_eq!(space, right, "{kernel:?}");
        }
    }

    #[test]
    fn every_kernel_sums_at_every_length() {
        let room = noise(3, 4 * 700);
        for len in 0..600 {
            for count in [0, 1, 2, 4] {
                let from: Vec<&[u8]> = (0..count).map(|i| &room[i * 700 + len % 61..][..len]).collect();
                for add in [false, true] {
                    let before = noise(9, len);
                    let right: Vec<u8> =
                        (0..len).map(|i| from.iter().fold(if add { before[i] } else { 0 }, |sum, f| sum ^ f[i])).collect();
                    for kernel in Kernel::all() {
                        let mut out = before.clone();
                        xor_sum_with(*kernel, &from, &mut out, add);
                        assert_eq!(out, right, "{kernel:?}, {count} of {len}, add {add}");
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "one length")]
    fn a_short_slice_is_refused() {
        Mix::new(2, &[1, 2]).apply(&[&[0; 64], &[0; 63]], &mut [&mut [0; 64]], false);
    }
}
