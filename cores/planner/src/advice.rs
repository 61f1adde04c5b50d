//! How many placement groups a pool should have: figures in, figures out.
//!
//! The rules are those of Ceph's autoscaler, so that its figures mean the same. Below each root of the CRUSH map there
//! are groups to share out: `mon_target_pg_per_osd` for each OSD. Pools get them by the part of the space that they
//! use, or that somebody expects them to use; what is left goes to the pools marked `bulk`, in equal parts at least. A
//! number is rounded to a power of two, and changes only if it is off by more than a factor of three.
//!
//! One thing differs. A pool that was made with fewer groups than Ceph's least (32) is not brought there for that
//! alone: a pool of eight groups that holds little keeps them. See docs/decisions/0024.

use maps::autoscale_mode as mode;
use std::collections::BTreeMap;
use types::PoolId;

/// Factor by which a number may be off.
const THRESHOLD: f64 = 3.0;
/// Groups that a pool has at least, unless it has fewer already or `pg_num_min` says otherwise.
const LEAST: u32 = 32;

/// Facts that the advice for a pool depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolFacts {
    /// The pool.
    pub id: PoolId,
    /// The root that its rule starts from.
    pub root: i32,
    /// Copies, or shards, of each group.
    pub size: u32,
    /// Bytes of disks that one of its bytes takes.
    pub rate: f64,
    /// Mode of the autoscaler: [`mode`].
    pub mode: u8,
    /// Groups that it is to have.
    pub pg_num: u32,
    /// Bytes of its objects.
    pub stored: u64,
    /// Bytes that are expected; 0 for nothing said.
    pub target_bytes: u64,
    /// Part of the space that is expected, relative to other pools; 0 for nothing said.
    pub target_ratio: f64,
    /// Factor for pools that need more groups than their bytes say.
    pub bias: f64,
    /// True if it begins with all the groups that there are.
    pub bulk: bool,
    /// Bounds.
    pub least: Option<u32>,
    /// Bounds.
    pub most: Option<u32>,
}

/// Facts about a root.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RootFacts {
    /// OSDs.
    pub osds: u32,
    /// Bytes of their disks.
    pub capacity: u64,
}

/// The advice for a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// Facts that it was made of.
    pub pool: PoolFacts,
    /// Bytes below the root.
    pub capacity: u64,
    /// Bytes that the pool takes, all copies counted.
    pub actual_raw: f64,
    /// The same, or more if more is expected.
    pub raw: f64,
    /// Part of the capacity that counts.
    pub ratio: f64,
    /// Target ratio that is left beside those of other pools.
    pub effective_ratio: f64,
    /// Groups that would be right.
    pub ideal: f64,
    /// The same as a number that a pool may have.
    pub final_num: u32,
    /// True if the pool is off by more than [`THRESHOLD`].
    pub is_off: bool,
    /// True if there are more groups below the root than `mon_target_pg_per_osd` allows.
    pub crowded: bool,
}

impl Advice {
    /// Returns true if the pool has too few groups by far.
    pub fn is_low(&self) -> bool {
        self.is_off && self.final_num > self.pool.pg_num
    }

    /// Returns true if the pool has too many groups by far.
    pub fn is_high(&self) -> bool {
        self.is_off && self.final_num < self.pool.pg_num
    }

    /// Returns true if the number is to be changed here: what is too low, and what is too high where all together are
    /// too many.
    pub fn is_to_change(&self) -> bool {
        self.would_adjust() && (self.is_low() || self.is_high() && self.crowded)
    }

    /// Returns true if Ceph would change the number.
    pub fn would_adjust(&self) -> bool {
        self.is_off && self.pool.mode == mode::ON
    }
}

/// Share of a pool below a root.
struct Share {
    left: f64,
    pools: usize,
    served: usize,
    target_ratios: f64,
    target_bytes: f64,
    groups: u64,
    facts: RootFacts,
}

/// Advises on all pools, those with the `bulk` flag last. Pools below roots that share OSDs, or that have no space, are
/// left out.
pub fn advise(pools: &[PoolFacts], roots: &BTreeMap<i32, RootFacts>, per_osd: f64) -> Vec<Advice> {
    let mut shares: BTreeMap<i32, Share> = BTreeMap::new();
    for pool in pools {
        let Some(facts) = roots.get(&pool.root).filter(|root| root.capacity > 0) else { continue };
        let share = shares.entry(pool.root).or_insert_with(|| Share::new(*facts, per_osd));
        share.note(pool);
    }
    let known: Vec<&PoolFacts> = pools.iter().filter(|pool| shares.contains_key(&pool.root)).collect();
    let mut all = Vec::new();
    let (bulk, small): (Vec<&PoolFacts>, Vec<&PoolFacts>) = known.into_iter().partition(|pool| pool.bulk);
    for pool in small {
        all.extend(shares.get_mut(&pool.root).map(|share| share.serve(pool, share.ratio(pool), per_osd)));
    }
    let mut even = Vec::new();
    for pool in bulk {
        let Some(share) = shares.get_mut(&pool.root) else { continue };
        let ratio = share.ratio(pool);
        if ratio > share.even() {
            all.push(share.serve(pool, ratio, per_osd));
        } else {
            even.push(pool);
        }
    }
    for pool in even {
        let Some(share) = shares.get_mut(&pool.root) else { continue };
        let used = share.even() * share.left;
        all.push(share.advice(pool, used, share.even(), per_osd));
    }
    all
}

impl Share {
    fn new(facts: RootFacts, per_osd: f64) -> Self {
        let left = f64::from(facts.osds) * per_osd;
        Self { left, pools: 0, served: 0, target_ratios: 0.0, target_bytes: 0.0, groups: 0, facts }
    }

    /// Counts a pool in.
    fn note(&mut self, pool: &PoolFacts) {
        self.pools += 1;
        self.groups += u64::from(pool.pg_num) * u64::from(pool.size);
        self.target_ratios += pool.target_ratio;
        if pool.target_ratio == 0.0 {
            self.target_bytes += pool.target_bytes as f64 * pool.rate;
        }
    }

    /// An equal part of what is left, for each pool that got nothing yet.
    fn even(&self) -> f64 {
        1.0 / (self.pools - self.served).max(1) as f64
    }

    /// The part of the space that a pool is to have of what others expect in bytes and parts.
    fn effective(&self, pool: &PoolFacts) -> f64 {
        if pool.target_ratio == 0.0 {
            return 0.0;
        }
        let free = 1.0 - (self.target_bytes / self.facts.capacity as f64).min(1.0);
        pool.target_ratio / self.target_ratios * free
    }

    /// Bytes that a pool takes, and those that count: more, if more is expected.
    fn raw(pool: &PoolFacts) -> (f64, f64) {
        let expected = if pool.target_ratio == 0.0 { pool.target_bytes } else { 0 };
        (pool.stored as f64 * pool.rate, pool.stored.max(expected) as f64 * pool.rate)
    }

    /// The part of the space that a pool counts for.
    fn ratio(&self, pool: &PoolFacts) -> f64 {
        (Self::raw(pool).1 / self.facts.capacity as f64).max(self.effective(pool))
    }

    /// Gives a pool a part of the groups that are left.
    fn serve(&mut self, pool: &PoolFacts, ratio: f64, per_osd: f64) -> Advice {
        let used = ratio * self.left;
        self.left -= used.trunc();
        self.served += 1;
        self.advice(pool, used, ratio, per_osd)
    }

    /// The advice for a pool that has so many copies of groups, a part of what there is.
    fn advice(&self, pool: &PoolFacts, used: f64, part: f64, per_osd: f64) -> Advice {
        let ideal = used / f64::from(pool.size.max(1)) * pool.bias;
        let least = pool.least.unwrap_or(LEAST.min(pool.pg_num));
        let wanted = nearest_power_of_two(ideal).max(least);
        let final_num = pool.most.map_or(wanted, |most| wanted.min(most)).max(1);
        let (now, then) = (f64::from(pool.pg_num), f64::from(final_num));
        let (actual_raw, raw) = Self::raw(pool);
        Advice {
            pool: pool.clone(),
            capacity: self.facts.capacity,
            actual_raw,
            raw,
            ratio: self.ratio(pool),
            effective_ratio: self.effective(pool),
            ideal,
            final_num,
            is_off: (then > now * THRESHOLD || then < now / THRESHOLD) && (0.0..=1.0).contains(&part),
            crowded: self.groups as f64 > f64::from(self.facts.osds) * per_osd,
        }
    }
}

/// The power of two that is nearest to a number; of two that are as near the lower one; 0 for less than 1.
fn nearest_power_of_two(n: f64) -> u32 {
    let whole = n.clamp(0.0, f64::from(1 << 30)) as u32;
    if whole == 0 {
        return 0;
    }
    let above = whole.next_power_of_two();
    if f64::from(above) - n < n - f64::from(above / 2) { above } else { above / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(id: PoolId, pg_num: u32) -> PoolFacts {
        PoolFacts {
            id,
            root: -1,
            size: 3,
            rate: 3.0,
            mode: mode::ON,
            pg_num,
            stored: 0,
            target_bytes: 0,
            target_ratio: 0.0,
            bias: 1.0,
            bulk: false,
            least: None,
            most: None,
        }
    }

    /// Returns what is said of pools on three OSDs of 2 GiB.
    fn said(pools: &[PoolFacts]) -> Vec<(PoolId, u32, bool)> {
        let roots = BTreeMap::from([(-1, RootFacts { osds: 3, capacity: 6 << 30 })]);
        advise(pools, &roots, 100.0).into_iter().map(|a| (a.pool.id, a.final_num, a.is_off)).collect()
    }

    #[test]
    fn small_pools_keep_what_they_have_and_bulk_pools_get_what_is_left() {
        // As a real cluster said, but for the pool of 8, which gets 32 there.
        let bulk = PoolFacts { bulk: true, ..pool(4, 32) };
        assert_eq!(
            said(&[pool(1, 1), pool(2, 8), pool(3, 32), bulk]),
            [(1, 1, false), (2, 8, false), (3, 32, false), (4, 128, true)]
        );
    }

    #[test]
    fn expected_sizes_count_as_in_ceph() {
        let a = PoolFacts { target_ratio: 0.5, most: Some(64), ..pool(2, 32) };
        let b = PoolFacts { target_bytes: 1 << 30, ..pool(3, 32) };
        let c = PoolFacts { bulk: true, ..pool(4, 32) };
        let roots = BTreeMap::from([(-1, RootFacts { osds: 3, capacity: 6 << 30 })]);
        let all = advise(&[PoolFacts { least: Some(1), ..pool(1, 1) }, a, b, c], &roots, 100.0);
        let figures: Vec<(u32, u32, f64, f64)> =
            all.iter().map(|a| (a.ideal as u32, a.final_num, a.ratio, a.effective_ratio)).collect();
        assert_eq!(figures, [(0, 1, 0.0, 0.0), (50, 64, 0.5, 0.5), (25, 32, 0.5, 0.0), (25, 32, 0.0, 0.0)]);
        assert!(all.iter().all(|a| !a.is_off), "none is off by more than a factor of three");
    }

    #[test]
    fn bounds_hold_and_a_factor_of_three_is_no_reason() {
        let full = |pg_num| PoolFacts { stored: 2 << 30, ..pool(1, pg_num) };
        assert_eq!(said(&[full(32)]), [(1, 128, true)]);
        assert_eq!(said(&[full(64)]), [(1, 128, false)]);
        assert_eq!(said(&[PoolFacts { most: Some(64), ..full(16) }]), [(1, 64, true)]);
        assert_eq!(said(&[PoolFacts { least: Some(128), ..pool(1, 16) }]), [(1, 128, true)]);
        assert_eq!(said(&[pool(1, 128)]), [(1, 32, true)], "too many");
        assert_eq!(said(&[PoolFacts { root: -7, ..pool(1, 8) }]), [], "its root is not known");
    }

    #[test]
    fn powers_of_two_are_the_nearest_ones() {
        for (n, power) in
            [(0.0, 0), (0.9, 0), (1.0, 1), (3.0, 2), (3.1, 4), (25.0, 32), (24.0, 16), (50.0, 64), (100.0, 128), (300.0, 256)]
        {
            assert_eq!(nearest_power_of_two(n), power, "{n}");
        }
    }
}
