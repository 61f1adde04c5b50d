//! Matrices over GF(2⁸): those of the codes, and how one is inverted.
//!
//! A code is *systematic*: its first k shards are the data, so its matrix is the unit matrix with one row for each
//! parity below it. Only the rows of parities are kept. Each was found from its definition, and compared with what
//! Ceph's plugins compute (`testdata/vectors.txt`).

use kernels::{gf_inverse, gf_mul};

/// Rows of coefficients, one after the other.
pub(crate) type Rows = Vec<u8>;

/// Rows of jerasure's `reed_sol_van`: the polynomial of degree below k that has the data at the points 0 … k−1, taken
/// at the points k, k+1 …; the last row is its highest coefficient (the point at infinity). Then columns are scaled
/// so that the first row is all ones, and rows so that the first column is.
pub(crate) fn vandermonde(k: usize, m: usize) -> Rows {
    // What the j-th of Lagrange's polynomials is at a point, and its highest coefficient.
    let below = |j: usize| (0..k).filter(|i| *i != j).fold(1, |p, i| gf_mul(p, (j ^ i) as u8));
    let at = |j: usize, x: usize| {
        let above = (0..k).filter(|i| *i != j).fold(1, |p, i| gf_mul(p, (x ^ i) as u8));
        gf_mul(above, gf_inverse(below(j)))
    };
    let mut rows: Rows = Vec::with_capacity(k * m);
    for row in 0..m {
        rows.extend((0..k).map(|j| if row + 1 == m { gf_inverse(below(j)) } else { at(j, k + row) }));
    }
    for column in 0..k {
        let scale = gf_inverse(rows[column]);
        rows.chunks_mut(k).for_each(|row| row[column] = gf_mul(row[column], scale));
    }
    for row in rows.chunks_mut(k) {
        let scale = gf_inverse(row[0]);
        row.iter_mut().for_each(|c| *c = gf_mul(*c, scale));
    }
    rows
}

/// Rows of powers: row r has (2ʳ)ʲ. They are isa's `reed_sol_van`, and the two of RAID 6.
pub(crate) fn powers(k: usize, m: usize) -> Rows {
    let mut rows = Vec::with_capacity(k * m);
    let mut base = 1;
    for _ in 0..m {
        let mut power = 1;
        for _ in 0..k {
            rows.push(power);
            power = gf_mul(power, base);
        }
        base = gf_mul(base, 2);
    }
    rows
}

/// Cauchy's rows: the inverse of x ⊕ y, of one x for each row and one y for each column.
fn cauchy(k: usize, m: usize, x: impl Fn(usize) -> usize, y: impl Fn(usize) -> usize) -> Rows {
    let cell = |r: usize, c: usize| gf_inverse((x(r) ^ y(c)) as u8);
    (0..m).flat_map(|r| (0..k).map(move |c| (r, c))).map(|(r, c)| cell(r, c)).collect()
}

/// Rows of isa's `cauchy`: x is k, k+1 …, y is 0, 1 …
pub(crate) fn cauchy_isa(k: usize, m: usize) -> Rows {
    cauchy(k, m, |r| k + r, |c| c)
}

/// Rows of jerasure's `cauchy_orig`: x is 0, 1 …, y is m, m+1 …
pub(crate) fn cauchy_orig(k: usize, m: usize) -> Rows {
    cauchy(k, m, |r| r, |c| m + c)
}

/// Ones in the bit matrix of a coefficient: exclusive ors that a multiplication by it costs.
fn ones(c: u8) -> u32 {
    (0..8).map(|bit| gf_mul(c, 1 << bit).count_ones()).sum()
}

/// Rows of jerasure's `cauchy_good`: such as have few ones in their bit matrices.
///
/// With two parities the second row has the k elements of the field with the fewest ones, smallest first. Otherwise
/// they are Cauchy's rows with columns scaled so that the first row is all ones; each other row is divided by that of
/// its own elements which leaves the fewest ones, if that is fewer than before.
pub(crate) fn cauchy_good(k: usize, m: usize) -> Rows {
    if m == 2 {
        let mut elements: Vec<u8> = (1..=255).collect();
        elements.sort_by_key(|c| (ones(*c), *c));
        return std::iter::repeat_n(1, k).chain(elements.into_iter().take(k)).collect();
    }
    let mut rows = cauchy_orig(k, m);
    for column in 0..k {
        let scale = gf_inverse(rows[column]);
        rows.chunks_mut(k).for_each(|row| row[column] = gf_mul(row[column], scale));
    }
    for row in rows.chunks_mut(k).skip(1) {
        let cost = |scale: u8| row.iter().map(|c| ones(gf_mul(*c, scale))).sum::<u32>();
        let mut best = (cost(1), 1);
        for scale in row.iter().map(|c| gf_inverse(*c)) {
            let cost = cost(scale);
            if cost < best.0 {
                best = (cost, scale);
            }
        }
        row.iter_mut().for_each(|c| *c = gf_mul(*c, best.1));
    }
    rows
}

/// The inverse of a square matrix of `n` rows; `None` if it has none.
pub(crate) fn invert(n: usize, mut a: Rows) -> Option<Rows> {
    let mut inverse: Rows = (0..n * n).map(|i| u8::from(i / n == i % n)).collect();
    for column in 0..n {
        let pivot = (column..n).find(|row| a[row * n + column] != 0)?;
        for j in 0..n {
            a.swap(pivot * n + j, column * n + j);
            inverse.swap(pivot * n + j, column * n + j);
        }
        let scale = gf_inverse(a[column * n + column]);
        for j in 0..n {
            a[column * n + j] = gf_mul(a[column * n + j], scale);
            inverse[column * n + j] = gf_mul(inverse[column * n + j], scale);
        }
        for row in (0..n).filter(|row| *row != column) {
            let factor = a[row * n + column];
            for j in 0..n {
                a[row * n + j] ^= gf_mul(factor, a[column * n + j]);
                inverse[row * n + j] ^= gf_mul(factor, inverse[column * n + j]);
            }
        }
    }
    Some(inverse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_that_were_read_off_cephs_tool() {
        assert_eq!(vandermonde(2, 2), [1, 1, 1, 143]);
        assert_eq!(vandermonde(4, 2), [1, 1, 1, 1, 1, 70, 143, 200]);
        assert_eq!(vandermonde(6, 3)[6..], [1, 225, 151, 172, 82, 200, 1, 123, 245, 143, 244, 142]);
        assert_eq!(vandermonde(8, 3)[8..16], [1, 55, 39, 73, 84, 181, 225, 217]);
        assert_eq!(powers(8, 3)[16..], [1, 4, 16, 64, 29, 116, 205, 19]);
        assert_eq!(cauchy_isa(4, 2), [71, 167, 122, 186, 167, 71, 186, 122]);
    }

    #[test]
    fn a_matrix_times_its_inverse_is_one() {
        let (n, a) = (5, cauchy_isa(5, 5));
        let inverse = invert(n, a.clone()).unwrap();
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let sum = (0..n).fold(0, |sum, x| sum ^ gf_mul(a[i * n + x], inverse[x * n + j]));
            assert_eq!(sum, u8::from(i == j));
        }
        assert_eq!(invert(2, vec![3, 3, 5, 5]), None);
        assert_eq!(invert(2, vec![0, 1, 1, 0]), Some(vec![0, 1, 1, 0]));
    }
}
