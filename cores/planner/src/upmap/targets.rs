//! How many copies of a pool each OSD should hold.
//!
//! The share goes by the weight that the rule gives the OSD, times its weight in the map; OSDs that are out get
//! nothing. A group has one copy at most in each failure domain, so a domain that is heavier than that can use gets one
//! of each group, and the rest goes to the others.

use super::domains::Domains;
use maps::OsdMap;
use std::collections::BTreeMap;
use types::{OsdId, PoolId};

/// The OSDs of one failure domain: the start of the rule that they are below, and the bucket.
type Domain = (usize, i32);

/// Computes how many of the copies that lie on OSDs each OSD should hold. `held`: how many each holds now; `groups`: of
/// so many groups.
pub(crate) fn targets(
    map: &OsdMap,
    pool: PoolId,
    domains: &Domains,
    held: &BTreeMap<OsdId, usize>,
    groups: usize,
) -> BTreeMap<OsdId, f64> {
    let weights = weights(map, pool);
    let mut all = BTreeMap::new();
    let takes = 1 + weights.keys().filter_map(|osd| domains.place(*osd)).map(|p| p.take).max().unwrap_or(0);
    for take in 0..takes {
        let is_here = |osd: &OsdId| domains.place(*osd).is_some_and(|p| p.take == take);
        let copies: usize = held.iter().filter(|(osd, _)| is_here(osd)).map(|(_, n)| n).sum();
        let here: BTreeMap<OsdId, f64> = weights.iter().filter(|(osd, _)| is_here(osd)).map(|(o, w)| (*o, *w)).collect();
        let single = here.keys().all(|osd| domains.place(*osd).is_some_and(|p| p.at.len() == 1));
        let domain = |osd: OsdId| domains.place(osd).and_then(|p| p.at.last()).map_or((take, osd), |at| (take, *at));
        let cap = if single { groups as f64 } else { f64::INFINITY };
        all.extend(fill(&here, domain, copies as f64, cap));
    }
    all
}

/// Weights of the OSDs that may hold copies of a pool.
fn weights(map: &OsdMap, pool: PoolId) -> BTreeMap<OsdId, f64> {
    let Some(settings) = map.pools.get(&pool) else { return BTreeMap::new() };
    let Some(rule) = map.crush.find_rule(settings.crush_rule, settings.type_, settings.size) else { return BTreeMap::new() };
    let all = map.crush.rule_weights(rule).into_iter().filter(|(osd, _)| map.exists(*osd) && map.is_in(*osd));
    all.map(|(osd, weight)| (osd, weight * f64::from(map.weight(osd)))).filter(|(_, weight)| *weight > 0.0).collect()
}

/// Spreads `copies` over OSDs by weight, with at most `cap` in each domain.
fn fill(weights: &BTreeMap<OsdId, f64>, domain: impl Fn(OsdId) -> Domain, copies: f64, cap: f64) -> BTreeMap<OsdId, f64> {
    let mut heavy: BTreeMap<Domain, f64> = BTreeMap::new();
    weights.iter().for_each(|(osd, weight)| *heavy.entry(domain(*osd)).or_default() += weight);
    let mut given: BTreeMap<Domain, f64> = BTreeMap::new();
    let mut left = copies;
    let mut open: Vec<Domain> = heavy.keys().copied().collect();
    loop {
        let sum: f64 = open.iter().map(|d| heavy[d]).sum();
        let (over, fits): (Vec<Domain>, Vec<Domain>) = open.iter().partition(|d| left * heavy[*d] / sum > cap);
        if over.is_empty() {
            given.extend(open.iter().map(|d| (*d, left * heavy[d] / sum)));
            break;
        }
        left -= cap * over.len() as f64;
        given.extend(over.into_iter().map(|d| (d, cap)));
        open = fits;
    }
    weights.iter().map(|(osd, weight)| (*osd, given[&domain(*osd)] * weight / heavy[&domain(*osd)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_go_by_weight_and_no_domain_gets_a_group_twice() {
        let weights = BTreeMap::from([(0, 1.0), (1, 1.0), (2, 2.0)]);
        assert_eq!(fill(&weights, |osd| (0, osd), 40.0, 100.0), BTreeMap::from([(0, 10.0), (1, 10.0), (2, 20.0)]));
        // 32 groups of two copies: the heavy OSD can hold 32 at most, not 48.
        let weights = BTreeMap::from([(0, 1.0), (1, 1.0), (2, 6.0)]);
        assert_eq!(fill(&weights, |osd| (0, osd), 64.0, 32.0), BTreeMap::from([(0, 16.0), (1, 16.0), (2, 32.0)]));
        // The same with a host of two OSDs.
        let weights = BTreeMap::from([(0, 1.0), (1, 1.0), (2, 3.0), (3, 3.0)]);
        let host = |osd: OsdId| (0, if osd >= 2 { -2 } else { osd });
        assert_eq!(fill(&weights, host, 64.0, 32.0), BTreeMap::from([(0, 16.0), (1, 16.0), (2, 16.0), (3, 16.0)]));
        assert_eq!(fill(&BTreeMap::new(), |osd| (0, osd), 0.0, 0.0), BTreeMap::new());
    }
}
