//! Spreads the placement groups of a new pool evenly over the OSDs that its rule allows.
//!
//! CRUSH draws lots. With few groups the shares of OSDs differ much: 32 groups fell 5, 19 and 8 on three OSDs. A
//! balancer would have to move them later. So some groups of a new pool of one copy get an entry in `pg_upmap_items`
//! from the beginning: as few as bring each OSD to its share, rounded down or up. Groups that are left over go to the
//! OSDs that lack most of their share of all pools, so that many small pools do not all begin with the same OSD.
//!
//! An OSD's share goes by its weight under the rule times its weight in the map. An OSD that is down or out gets
//! nothing.

use maps::{Incremental, OsdMap};
use std::collections::BTreeMap;
use types::{OsdId, PgId, PoolId};

/// Weights of the OSDs that may hold placement groups of a pool.
fn weights(map: &OsdMap, pool: PoolId) -> BTreeMap<OsdId, f64> {
    let Some(settings) = map.pools.get(&pool) else { return BTreeMap::new() };
    let Some(rule) = map.crush.find_rule(settings.crush_rule, settings.type_, settings.size) else { return BTreeMap::new() };
    let usable = |osd: OsdId| map.is_up(osd) && map.is_in(osd);
    let under = map.crush.rule_weights(rule).into_iter().filter(|(osd, _)| usable(*osd));
    under.map(|(osd, weight)| (osd, weight * f64::from(map.weight(osd)))).filter(|(_, weight)| *weight > 0.0).collect()
}

/// Computes how many of `groups` new groups each OSD shall hold, if it holds `held` groups of other pools: its share,
/// rounded down or up.
fn shares(weights: &BTreeMap<OsdId, f64>, held: &BTreeMap<OsdId, usize>, groups: usize) -> BTreeMap<OsdId, usize> {
    let whole: f64 = weights.values().sum();
    let held_of = |osd: &OsdId| held.get(osd).copied().unwrap_or(0);
    let all = groups + weights.keys().map(held_of).sum::<usize>();
    let share = |weight: f64, of: usize| weight / whole * of as f64;
    let mut shares: BTreeMap<OsdId, usize> = weights.iter().map(|(osd, w)| (*osd, share(*w, groups) as usize)).collect();
    // The groups that are left over go to the OSDs that lack most of their share of all pools.
    let lacks = |osd: &OsdId, given: usize| share(weights[osd], all) - (held_of(osd) + given) as f64;
    let mut order: Vec<(f64, OsdId)> = shares.iter().map(|(osd, given)| (lacks(osd, *given), *osd)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let left = groups - shares.values().sum::<usize>().min(groups);
    for (_, osd) in order.iter().cycle().take(left) {
        *shares.entry(*osd).or_default() += 1;
    }
    shares
}

/// Counts the groups on each OSD. `holder` tells which OSD holds a group.
fn held(map: &OsdMap, holder: impl Fn(PgId) -> Option<OsdId>) -> BTreeMap<OsdId, usize> {
    let mut held = BTreeMap::new();
    let groups = map.pools.iter().flat_map(|(id, pool)| (0..pool.pg_num).map(|seed| PgId::new(*id, seed)));
    groups.filter_map(holder).for_each(|osd| *held.entry(osd).or_default() += 1);
    held
}

/// Adds to `change` the entries that let the groups of a new pool of one copy begin evenly. `base` is the map that it
/// changes, `next` the map that comes of it.
pub(crate) fn spread(
    base: &OsdMap,
    next: &OsdMap,
    change: &mut Incremental,
    pool: PoolId,
    holder: impl Fn(PgId) -> Option<OsdId>,
) {
    let Some(settings) = next.pools.get(&pool).filter(|p| p.size == 1) else { return };
    let weights = weights(next, pool);
    if weights.len() < 2 {
        return;
    }
    let mut room = shares(&weights, &held(base, holder), settings.pg_num as usize);
    let homes: Vec<(PgId, Option<OsdId>)> =
        (0..settings.pg_num).map(|seed| PgId::new(pool, seed)).map(|pg| (pg, next.raw_placement(pg).first().copied())).collect();
    let mut take = |osd: OsdId| room.get_mut(&osd).filter(|room| **room > 0).map(|room| *room -= 1).is_some();
    // Groups of different pools may stand at the same place by their numbers, so the surplus is what comes last.
    let surplus: Vec<_> = homes.into_iter().filter(|(_, home)| !home.is_some_and(&mut take)).collect();
    let places = room.iter().flat_map(|(osd, room)| std::iter::repeat_n(*osd, *room));
    for ((pg, home), place) in surplus.into_iter().zip(places) {
        // A group for which CRUSH finds no place has nothing to exchange. Where it begins is decided elsewhere.
        if let Some(home) = home {
            change.new_pg_upmap_items.insert(pg, vec![(home, place)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<T: Copy>(items: &[T]) -> BTreeMap<OsdId, T> {
        items.iter().enumerate().map(|(osd, item)| (osd as OsdId, *item)).collect()
    }

    #[test]
    fn shares_go_by_weight_and_differ_from_it_by_less_than_one() {
        assert_eq!(shares(&of(&[1.0, 1.0, 1.0]), &of(&[]), 32), of(&[11, 11, 10]));
        assert_eq!(shares(&of(&[1.0, 3.0]), &of(&[]), 8), of(&[2, 6]));
        assert_eq!(shares(&of(&[1.0, 1.0, 1.0]), &of(&[]), 2), of(&[1, 1, 0]));
    }

    #[test]
    fn what_is_left_over_goes_to_those_that_hold_least() {
        assert_eq!(shares(&of(&[1.0, 1.0, 1.0]), &of(&[11, 11, 10]), 1), of(&[0, 0, 1]));
        assert_eq!(shares(&of(&[1.0, 1.0, 1.0]), &of(&[1, 0, 0]), 32), of(&[10, 11, 11]));
        assert_eq!(shares(&of(&[1.0, 1.0]), &of(&[100, 0]), 5), of(&[2, 3]), "one pool does not make up for others");
    }
}
