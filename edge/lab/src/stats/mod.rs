//! What repeats say: medians with confidence intervals, tests between two sides, and corrections for many of them.

pub mod noise;
pub mod test;

use statrs::distribution::{Binomial, DiscreteCDF};

/// Confidence of all intervals and calls.
pub const CONFIDENCE: f64 = 0.95;

/// The middle of the values; `None` if there are none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    match n {
        0 => None,
        n if n % 2 == 1 => Some(sorted[n / 2]),
        n => Some((sorted[n / 2 - 1] + sorted[n / 2]) / 2.0),
    }
}

/// The arithmetic mean; `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Standard deviation of a sample; `None` below two values.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    Some((values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64).sqrt())
}

/// A median and where it lies with [`CONFIDENCE`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The median.
    pub median: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Confidence that the interval has; below [`CONFIDENCE`] with fewer than six values, since the least and the
    /// greatest are all there is.
    pub confidence: f64,
}

/// The median's interval by order statistics, which asks nothing of the distribution.
///
/// The interval from the k-th smallest to the k-th greatest of n values holds the median with probability `1 - 2 P(B <
/// k)`, B being binomial with n and a half. The greatest k that reaches the confidence is taken.
pub fn interval(values: &[f64]) -> Option<Interval> {
    let median = median(values)?;
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let binomial = Binomial::new(0.5, n as u64).ok()?;
    let holds = |k: usize| 1.0 - 2.0 * binomial.cdf(k as u64 - 1);
    let k = (1..=n.div_ceil(2)).rev().find(|k| holds(*k) >= CONFIDENCE).unwrap_or(1);
    Some(Interval { median, low: sorted[k - 1], high: sorted[n - k], confidence: holds(k).max(0.0) })
}

/// Values that lie outside of one and a half times the middle half's width around it.
pub fn outliers(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    if sorted.len() < 5 {
        return Vec::new();
    }
    let quartile = |q: f64| {
        let at = q * (sorted.len() - 1) as f64;
        let (low, part) = (at.floor() as usize, at.fract());
        sorted[low] * (1.0 - part) + sorted[(low + 1).min(sorted.len() - 1)] * part
    };
    let (low, high) = (quartile(0.25), quartile(0.75));
    let reach = 1.5 * (high - low);
    values.iter().copied().filter(|v| *v < low - reach || *v > high + reach).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_deviations() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(deviation(&[1.0]), None);
        assert!((deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap() - 2.138).abs() < 0.001);
    }

    #[test]
    fn intervals_are_order_statistics() {
        // From tables of the sign test: for ten values the second smallest to the second greatest, 97.9 %.
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        let i = interval(&ten).unwrap();
        assert_eq!((i.median, i.low, i.high), (5.5, 2.0, 9.0));
        assert!((i.confidence - 0.979).abs() < 0.001);
        let three = interval(&[1.0, 2.0, 9.0]).unwrap();
        assert_eq!((three.low, three.high), (1.0, 9.0));
        assert!((three.confidence - 0.75).abs() < 1e-9, "{}", three.confidence);
        assert!(interval(&[7.0]).unwrap().confidence.abs() < 1e-9);
    }

    #[test]
    fn outliers_are_far_from_the_middle_half() {
        assert_eq!(outliers(&[10.0, 11.0, 10.5, 10.2, 10.8, 30.0]), [30.0]);
        assert!(outliers(&[10.0, 11.0, 30.0]).is_empty());
    }
}
