//! When something that shrinks is gone: a line through its history, by Theil and Sen.
//!
//! The slope is the median of the slopes between all pairs of points, so a deleted image or an hour of a restore does not turn it. How sure it is
//! follows from the ranks of these slopes (Kendall): the span is what 95 of 100 lines would say if points were independent. They are not quite, so the
//! span is said as a span, and nothing is said where the slope may be zero.

/// Fewest points, and fewest seconds from the first to the last one.
const FEWEST: usize = 16;
const SHORTEST: f64 = 6.0 * 3600.0;
/// Seconds beyond which nothing is foretold: two years.
const FARTHEST: f64 = 2.0 * 365.0 * 86_400.0;
/// Number of standard deviations that hold 95 of 100.
const SPREAD: f64 = 1.96;

/// Seconds until something is gone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// The soonest that is likely.
    pub soonest: f64,
    /// The latest that is likely; at most two years.
    pub latest: f64,
    /// Seconds of history from which it follows.
    pub seen: f64,
}

/// Foretells from points of time in seconds, in their order, and what was left then. None if it does not shrink for sure, if it is gone, or if
/// too little is known.
pub fn foretell(points: &[(f64, f64)]) -> Option<Forecast> {
    let (first, last) = (points.first()?, points.last()?);
    let (seen, n) = (last.0 - first.0, points.len());
    if n < FEWEST || seen < SHORTEST || last.1 <= 0.0 {
        return None;
    }
    let mut slopes: Vec<f64> = Vec::with_capacity(n * (n - 1) / 2);
    for (at, (time, value)) in points.iter().enumerate() {
        slopes.extend(
            points[at + 1..].iter().filter(|(later, _)| later > time).map(|(later, left)| (left - value) / (later - time)),
        );
    }
    slopes.sort_by(f64::total_cmp);
    let count = n as f64;
    let apart = SPREAD * (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
    let middle = slopes.len() as f64 / 2.0;
    let at = |place: f64| slopes.get(place.round().clamp(0.0, slopes.len() as f64 - 1.0) as usize).copied();
    let (steepest, flattest) = (at(middle - apart / 2.0)?, at(middle + apart / 2.0)?);
    // A slope of rounding is none: it would empty what is left in more than two years.
    if flattest >= 0.0 || last.1 / -steepest > FARTHEST {
        return None;
    }
    Some(Forecast { soonest: last.1 / -steepest, latest: (last.1 / -flattest).min(FARTHEST), seen })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: f64 = 86_400.0;

    /// A day in quarters of an hour.
    fn day(left: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (0..96).map(|n| (f64::from(n) * 900.0, left(f64::from(n) * 900.0))).collect()
    }

    /// Numbers without an order, from -1 to 1.
    fn noise(at: f64) -> f64 {
        let mut n = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((n ^ (n >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    #[test]
    fn a_steady_pace_is_foretold() {
        // 100 are left at first, 1 is used each day: 99 days are left.
        let told = foretell(&day(|t| 100.0 - t / DAY)).unwrap();
        assert!((told.soonest / DAY - 99.0).abs() < 0.1 && (told.latest / DAY - 99.0).abs() < 0.1, "{told:?}");
        let mut right = 0;
        for seed in 0..200 {
            let noisy = foretell(&day(|t| 100.0 - t / DAY + 0.2 * noise(t + f64::from(seed)))).unwrap();
            assert!(noisy.latest / noisy.soonest < 2.0, "{noisy:?}");
            right += u32::from(noisy.soonest <= 99.0 * DAY && 99.0 * DAY <= noisy.latest);
        }
        assert!((170..=200).contains(&right), "95 of 100 are meant, {right} of 200 are right");
    }

    #[test]
    fn what_does_not_shrink_is_not_foretold() {
        assert_eq!(foretell(&day(|_| 50.0)), None);
        assert_eq!(foretell(&day(|t| 50.0 + t)), None);
        assert_eq!(foretell(&day(|t| 50.0 + noise(t))), None, "up and down");
        assert_eq!(foretell(&day(|t| 1e6 - t / DAY)), None, "in two thousand years");
        assert_eq!(foretell(&day(|_| 0.0)), None, "it is gone");
        assert_eq!(foretell(&day(|t| 50.0 - t / DAY)[..20]), None, "five hours");
        assert_eq!(foretell(&[]), None);
        let same: Vec<_> = (0..40).map(|n| (f64::from(n / 39) * DAY, 5.0)).collect();
        assert_eq!(foretell(&same), None, "points of one time");
    }

    #[test]
    fn one_step_does_not_turn_the_line() {
        // In the middle of a day on which nothing else happens an image is deleted, or an OSD goes out.
        let freed = foretell(&day(|t| if t > DAY / 2.0 { 90.0 } else { 50.0 } - t / DAY)).unwrap_or(Forecast {
            soonest: 9e9,
            latest: 9e9,
            seen: 0.0,
        });
        assert!(freed.soonest > 60.0 * DAY, "{freed:?}");
    }
}
