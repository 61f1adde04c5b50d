//! Is B different from A, or is it the noise?

use super::{deviation, mean};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Outcome of a test of the ratio B to A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// B over A: the geometric mean of the ratios.
    pub ratio: f64,
    /// Lower end of the ratio's interval, 95 %.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
    /// Probability of such a difference, or a greater one, if there were none.
    pub p: f64,
}

/// Student's test of the logarithms of pairs: repeat i of A beside repeat i of B, which drift of the machine moved
/// alike.
///
/// `None` below three pairs, or where a value is not above zero.
pub fn paired(a: &[f64], b: &[f64]) -> Option<Outcome> {
    let logs: Vec<f64> = a.iter().zip(b).filter(|(a, b)| **a > 0.0 && **b > 0.0).map(|(a, b)| (b / a).ln()).collect();
    if logs.len() < 3 || logs.len() != a.len().min(b.len()) {
        return None;
    }
    let n = logs.len() as f64;
    outcome(mean(&logs)?, deviation(&logs)? / n.sqrt(), n - 1.0)
}

/// Welch's test of the logarithms: repeats that have nothing to do with each other.
///
/// `None` below three values on a side, or where a value is not above zero.
pub fn welch(a: &[f64], b: &[f64]) -> Option<Outcome> {
    let logs = |side: &[f64]| -> Option<Vec<f64>> {
        (side.len() >= 3 && side.iter().all(|v| *v > 0.0)).then(|| side.iter().map(|v| v.ln()).collect())
    };
    let (a, b) = (logs(a)?, logs(b)?);
    let share = |side: &[f64]| deviation(side).map(|d| d * d / side.len() as f64);
    let (va, vb) = (share(&a)?, share(&b)?);
    let freedom = (va + vb).powi(2) / (va * va / (a.len() - 1) as f64 + vb * vb / (b.len() - 1) as f64);
    let freedom = if freedom.is_finite() { freedom } else { (a.len() + b.len() - 2) as f64 };
    outcome(mean(&b)? - mean(&a)?, (va + vb).sqrt(), freedom)
}

fn outcome(difference: f64, error: f64, freedom: f64) -> Option<Outcome> {
    if error == 0.0 {
        let p = if difference == 0.0 { 1.0 } else { 0.0 };
        return Some(Outcome { ratio: difference.exp(), low: difference.exp(), high: difference.exp(), p });
    }
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let p = 2.0 * (1.0 - student.cdf((difference / error).abs()));
    let reach = student.inverse_cdf(0.5 + super::CONFIDENCE / 2.0) * error;
    Some(Outcome { ratio: difference.exp(), low: (difference - reach).exp(), high: (difference + reach).exp(), p })
}

/// Returns which of many probabilities still count when all tests together may err with probability `alpha` (Holm's
/// method).
pub fn holm(p: &[f64], alpha: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut counts = vec![false; p.len()];
    for (rank, i) in order.into_iter().enumerate() {
        if p[i] > alpha / (p.len() - rank) as f64 {
            break;
        }
        counts[i] = true;
    }
    counts
}

/// The smallest relative difference that such a comparison finds in four of five cases, with `tests` tests at once.
///
/// `deviation` is that of the logarithm of one pair's ratio (paired), `n` the number of pairs.
pub fn smallest(deviation: f64, n: usize, tests: usize) -> Option<f64> {
    let student = StudentsT::new(0.0, 1.0, n.checked_sub(1).filter(|f| *f > 0)? as f64).ok()?;
    let reach = student.inverse_cdf(1.0 - 0.05 / 2.0 / tests.max(1) as f64) + student.inverse_cdf(0.8);
    Some((reach * deviation / (n as f64).sqrt()).exp() - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_tests_give_known_probabilities() {
        // Logarithms 1, 2, 3, 4 against nothing: t = 2.5 / (1.291 / 2) = 3.873, 3 degrees of freedom, p = 0.0305.
        let b: Vec<f64> = [1.0f64, 2.0, 3.0, 4.0].iter().map(|x| x.exp()).collect();
        let found = paired(&[1.0; 4], &b).unwrap();
        assert!((found.p - 0.0305).abs() < 0.0001, "{found:?}");
        assert!((found.ratio.ln() - 2.5).abs() < 1e-9);
        assert!((found.low.ln() - 0.4457).abs() < 0.001, "{found:?}");
        // Welch's own example shape: equal variances and sizes are Student's.
        let w = welch(&[1.0f64, 2.0, 3.0].map(f64::exp), &[2.0f64, 3.0, 4.0].map(f64::exp)).unwrap();
        assert!((w.p - 0.2879).abs() < 0.0001, "{w:?}");
        assert_eq!(welch(&[1.0, 2.0], &[1.0, 2.0, 3.0]), None);
        assert_eq!(paired(&[0.0, 1.0, 1.0], &[1.0, 1.0, 1.0]), None);
    }

    #[test]
    fn many_tests_are_corrected() {
        assert_eq!(holm(&[0.01, 0.04, 0.03, 0.005], 0.05), [true, false, false, true]);
        assert_eq!(holm(&[], 0.05), Vec::<bool>::new());
    }

    /// Numbers that are spread like a sum of twelve even ones: nearly normal, deviation 1. Seeded.
    struct Noise(u64);

    impl Noise {
        fn even(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        }

        fn next(&mut self) -> f64 {
            (0..12).map(|_| self.even()).sum::<f64>() - 6.0
        }

        /// Pairs that drift together by 5 %, with 1.5 % noise of each.
        fn pairs(&mut self, n: usize, slower: f64) -> (Vec<f64>, Vec<f64>) {
            let mut both = (Vec::new(), Vec::new());
            for _ in 0..n {
                let drift = 1.0 + 0.05 * self.next();
                both.0.push(30.0 * drift * (1.0 + 0.015 * self.next()));
                both.1.push(30.0 * slower * drift * (1.0 + 0.015 * self.next()));
            }
            both
        }
    }

    #[test]
    fn five_per_cent_are_found_and_nothing_is_found_where_there_is_nothing() {
        let mut noise = Noise(7);
        let (mut found, mut families) = (0, 0);
        for _ in 0..400 {
            let slower: Vec<f64> = (0..4)
                .map(|i| {
                    let (a, b) = noise.pairs(12, if i == 0 { 1.05 } else { 1.0 });
                    paired(&a, &b).unwrap().p
                })
                .collect();
            found += usize::from(holm(&slower, 0.05)[0]);
            let same: Vec<f64> = (0..4)
                .map(|_| {
                    let (a, b) = noise.pairs(12, 1.0);
                    paired(&a, &b).unwrap().p
                })
                .collect();
            families += usize::from(holm(&same, 0.05).contains(&true));
        }
        assert!(found >= 399, "found {found} of 400");
        // Five per cent of the families may err: 20 of 400, and chance.
        assert!(families <= 32, "{families} of 400 families");
    }

    #[test]
    fn the_smallest_difference_shrinks_with_repeats() {
        let (few, many) = (smallest(0.03, 4, 1).unwrap(), smallest(0.03, 16, 1).unwrap());
        assert!(few > 2.0 * many && many > 0.015 && many < 0.03, "{few} {many}");
        assert_eq!(smallest(0.03, 1, 1), None);
    }
}
