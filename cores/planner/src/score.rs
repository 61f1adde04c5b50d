//! How even a cluster is, as Ceph's `balancer eval` counts it.
//!
//! For each root of the CRUSH map that a rule starts from, and for groups, objects and bytes: an OSD that holds more
//! than its share adds its share times erf(excess / √2), where the excess is relative to what it should hold. The score
//! is the mean of the three, and of the roots. 0 is perfect, 1 as bad as can be.

use maps::OsdMap;
use messages::stats::ObjectStatSum;
use std::collections::BTreeMap;
use types::{OsdId, PgId, PoolId};

/// Names of what is counted.
pub const METRICS: [&str; 3] = ["pgs", "objects", "bytes"];

/// Counts by OSD: groups, objects, bytes.
pub type Counts = BTreeMap<OsdId, [f64; 3]>;

/// OSDs and pools under one root.
#[derive(Clone, Debug, Default)]
pub struct Root {
    /// The part of all that each OSD should hold.
    pub target: BTreeMap<OsdId, f64>,
    /// Groups that each OSD holds of the pools looked at.
    pub counts: Counts,
}

/// An evaluation.
#[derive(Clone, Debug, Default)]
pub struct Eval {
    /// By name of the root.
    pub roots: BTreeMap<String, Root>,
    /// Groups that each OSD holds, by pool.
    pub pools: BTreeMap<PoolId, Counts>,
}

/// Evenness of one thing below a root.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The most that an OSD holds.
    pub max: f64,
    /// The least.
    pub min: f64,
    /// The mean.
    pub avg: f64,
    /// The standard deviation, with Bessel's correction.
    pub stddev: f64,
    /// Shares of the OSDs that hold more than theirs.
    pub sum_weight: f64,
    /// 0 for perfect.
    pub score: f64,
}

impl Eval {
    /// Evaluates these pools of a map; all if none is given. `home` gives the OSDs of a group, `stats` what is known of
    /// it.
    pub fn of<'a>(
        map: &OsdMap,
        pools: &[PoolId],
        home: impl Fn(PgId) -> &'a [OsdId],
        stats: impl Fn(PgId) -> Option<&'a ObjectStatSum>,
    ) -> Self {
        let mut eval = Self::default();
        for (id, pool) in map.pools.iter().filter(|(id, _)| pools.is_empty() || pools.contains(id)) {
            let Some(rule) = map.crush.find_rule(pool.crush_rule, pool.type_, pool.size) else { continue };
            let mut counts = Counts::new();
            for pg in (0..pool.pg_num).map(|seed| PgId::new(*id, seed)) {
                let (objects, bytes) = stats(pg).map_or((0.0, 0.0), |s| (s.num_objects as f64, s.num_bytes as f64));
                for osd in home(pg).iter().filter(|osd| map.exists(**osd)) {
                    let held = counts.entry(*osd).or_default();
                    for (held, more) in held.iter_mut().zip([1.0, objects, bytes]) {
                        *held += more;
                    }
                }
            }
            let top = map.crush.rule_takes(rule).first().copied().unwrap_or(0);
            let name = map.crush.name_of(top).unwrap_or_default().to_owned();
            let root = eval.roots.entry(name).or_default();
            let weights = map.crush.rule_weights(rule).into_iter().map(|(osd, w)| (osd, w * f64::from(map.weight(osd))));
            let weights: BTreeMap<OsdId, f64> = weights.filter(|(_, w)| *w > 0.0).collect();
            let sum: f64 = weights.values().sum();
            root.target = weights.into_iter().map(|(osd, w)| (osd, w / sum)).collect();
            for (osd, held) in &counts {
                let all = root.counts.entry(*osd).or_default();
                all.iter_mut().zip(held).for_each(|(all, held)| *all += held);
            }
            eval.pools.insert(*id, counts);
        }
        eval
    }

    /// The score of all.
    pub fn score(&self) -> f64 {
        let sum: f64 = self.roots.values().flat_map(|root| (0..METRICS.len()).map(|n| root.spread(n).score)).sum();
        if self.roots.is_empty() { 0.0 } else { sum / (METRICS.len() * self.roots.len()) as f64 }
    }
}

impl Root {
    /// Returns how evenly one of [`METRICS`] is spread.
    pub fn spread(&self, metric: usize) -> Spread {
        let held = |osd: &OsdId| self.counts.get(osd).and_then(|all| all.get(metric)).copied().unwrap_or(0.0);
        let counts: Vec<f64> = self.target.keys().map(held).collect();
        let (sum, n) = (counts.iter().sum::<f64>(), counts.len() as f64);
        if sum <= 0.0 {
            return Spread::default();
        }
        let avg = sum / n;
        let off: f64 = counts.iter().map(|x| (x - avg) * (x - avg)).sum();
        let mut spread = Spread {
            max: counts.iter().copied().fold(0.0, f64::max),
            min: counts.iter().copied().fold(f64::INFINITY, f64::min),
            avg,
            stddev: if n > 1.0 { (off / (n - 1.0)).sqrt() } else { 0.0 },
            ..Spread::default()
        };
        for (osd, target) in &self.target {
            let share = target * sum;
            if held(osd) > share && share > 0.0 {
                spread.sum_weight += target;
                spread.score += target * erf((held(osd) - share) / share / std::f64::consts::SQRT_2);
            }
        }
        spread
    }
}

/// The error function, with an error below 1.5e-7 (Abramowitz and Stegun 7.1.26), or, for small values, its series.
fn erf(x: f64) -> f64 {
    if x < 0.5 {
        let term =
            |n: i32| [1.0, -1.0 / 3.0, 1.0 / 10.0, -1.0 / 42.0, 1.0 / 216.0, -1.0 / 1320.0][n as usize] * x.powi(2 * n + 1);
        return std::f64::consts::FRAC_2_SQRT_PI * (0..6).map(term).sum::<f64>();
    }
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let poly = t * (0.254_829_592 + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    1.0 - poly * (-x * x).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_ceph_s() {
        // A real cluster of three OSDs said 0.020757126385517032 to these.
        let counts = [(0, 46.0), (1, 40.0), (2, 42.0)].map(|(osd, n)| (osd, [n, 0.0, 0.0]));
        let root = Root { target: (0..3).map(|osd| (osd, 1.0 / 3.0)).collect(), counts: counts.into() };
        let spread = root.spread(0);
        assert!((spread.score - 0.020_757_126_385_517).abs() < 1e-12, "{spread:?}");
        assert!((spread.stddev - 3.055_050_463_303_893_5).abs() < 1e-12 && spread.max == 46.0 && spread.min == 40.0);
        assert_eq!(root.spread(1), Spread::default());
        assert!((erf(1.0) - 0.842_700_79).abs() < 2e-7 && (erf(0.499_999) - 0.520_499).abs() < 1e-5);
    }
}
