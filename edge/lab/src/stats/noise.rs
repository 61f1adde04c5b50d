//! The machine's noise, from a cluster that was measured against itself.

use super::test::{paired, smallest};
use super::{deviation, median};

/// Noise of one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Noise {
    /// Deviation of the logarithm of the ratio of two measurements of the same thing.
    pub deviation: f64,
    /// Pairs that it comes from.
    pub pairs: usize,
    /// Ratio by which the second measurements lie above the first ones, as a ratio, in the middle.
    pub offset: f64,
    /// The smallest relative difference that as many repeats find in four of five cases, without a correction for
    /// several tests.
    pub smallest: Option<f64>,
}

/// From several measurements, each with its first values and its values again; deviations are pooled.
pub fn estimate(cells: &[(Vec<f64>, Vec<f64>)], repeats: usize) -> Option<Noise> {
    let mut squares = 0.0;
    let (mut freedom, mut pairs) = (0, 0);
    let mut offsets = Vec::new();
    for (first, again) in cells {
        let logs: Vec<f64> = first.iter().zip(again).filter(|(a, b)| **a > 0.0 && **b > 0.0).map(|(a, b)| (b / a).ln()).collect();
        if let Some(d) = deviation(&logs) {
            squares += d * d * (logs.len() - 1) as f64;
            freedom += logs.len() - 1;
        }
        pairs += logs.len();
        offsets.extend(logs);
    }
    if freedom == 0 {
        return None;
    }
    let deviation = (squares / freedom as f64).sqrt();
    Some(Noise { deviation, pairs, offset: median(&offsets)?.exp(), smallest: smallest(deviation, repeats, 1) })
}

/// In how many cells the same thing differs from itself at 95 %, and of how many.
pub fn flagged(cells: &[(Vec<f64>, Vec<f64>)]) -> (usize, usize) {
    let outcomes: Vec<f64> = cells.iter().filter_map(|(a, b)| paired(a, b)).map(|o| o.p).collect();
    (outcomes.iter().filter(|p| **p < 0.05).count(), outcomes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_pooled_over_cells() {
        let cells = vec![(vec![100.0, 100.0, 100.0], vec![102.0, 98.0, 100.0]), (vec![10.0, 10.0], vec![10.2, 9.8])];
        let noise = estimate(&cells, 5).unwrap();
        assert!((noise.deviation - 0.023).abs() < 0.003, "{noise:?}");
        assert_eq!(noise.pairs, 5);
        assert!((noise.offset - 1.0).abs() < 1e-9);
        assert!(noise.smallest.unwrap() > 0.03);
        assert_eq!(estimate(&[(vec![1.0], vec![1.0])], 5), None);
        assert_eq!(flagged(&cells), (0, 1));
    }
}
