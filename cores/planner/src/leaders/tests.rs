//! Orders are made until each OSD leads its share; they end, fight with nothing, and go when copies go elsewhere.

use super::*;
use crate::initial_placement;
use crate::orders::release;
use crate::testmaps::{cluster, pool};
use crate::upmap;
use proptest::prelude::*;
use types::UTime;

fn all(map: &OsdMap) -> BTreeSet<PoolId> {
    map.pools.keys().copied().collect()
}

fn groups(map: &OsdMap) -> Vec<PgId> {
    map.pools.iter().flat_map(|(id, pool)| (0..pool.pg_num).map(|seed| PgId::new(*id, seed))).collect()
}

/// The map after a change, as monitors make it.
fn changed(map: &OsdMap, make: impl FnOnce(&mut Incremental)) -> OsdMap {
    let mut inc = Incremental::new(map.epoch + 1, map.fsid, UTime::ZERO);
    make(&mut inc);
    initial_placement::place(map, &mut inc);
    release(map, &mut inc);
    map.apply(&inc).unwrap()
}

/// Returns how many groups of a pool each OSD leads.
fn led(map: &OsdMap, pool: PoolId) -> BTreeMap<OsdId, usize> {
    let mut led: BTreeMap<OsdId, usize> = map.osds().map(|osd| (osd, 0)).collect();
    for pg in groups(map).into_iter().filter(|pg| pg.pool == pool) {
        *led.entry(map.placed(pg).acting_primary).or_default() += 1;
    }
    led
}

/// The OSDs of each group, in no order.
fn sets(map: &OsdMap) -> BTreeMap<PgId, BTreeSet<OsdId>> {
    groups(map).into_iter().map(|pg| (pg, map.placed(pg).up.iter().copied().collect())).collect()
}

/// Returns how far OSDs lead from their share: what pools are charged for those beyond one group, the sum of squares
/// over all, and the furthest of a pool.
fn uneven(map: &OsdMap) -> (f64, f64, f64) {
    let tables: Vec<Table> = map.pools.keys().filter_map(|id| Table::of(map, *id)).collect();
    let mut sums: BTreeMap<OsdId, f64> = BTreeMap::new();
    tables.iter().flat_map(|t| &t.above).for_each(|(osd, above)| *sums.entry(*osd).or_default() += above);
    let each = || tables.iter().flat_map(|t| t.above.values());
    let charge = each().map(|above| (above.abs() - 1.0).max(0.0).powi(2)).sum();
    (charge, sums.values().map(|above| above * above).sum(), each().map(|above| above.abs()).fold(0.0, f64::max))
}

/// Nobody leads a group that it declines, as long as another member does not.
fn willing(map: &OsdMap) -> bool {
    groups(map).into_iter().all(|pg| {
        let placed = map.placed(pg);
        !map.declines_to_lead(pg, placed.acting_primary) || placed.up.iter().all(|osd| map.declines_to_lead(pg, *osd))
    })
}

/// Makes rounds as the manager does until nothing changes. Gives the map, and how many groups got other leaders.
fn rested(mut map: OsdMap) -> (OsdMap, usize) {
    let mut count = 0;
    for turn in 0..4_000 {
        let limits = Limits::round(turn);
        let moves = upmap::plan(&map, &all(&map), &limits);
        if !moves.is_empty() {
            map = changed(&map, |inc| upmap::apply(&map, &moves, inc));
            continue;
        }
        let orders = plan(&map, &all(&map), &limits);
        if orders.is_empty() {
            return (map, count);
        }
        assert!(orders.len() <= 10, "{} in a round", orders.len());
        let next = changed(&map, |inc| apply(&orders, inc));
        assert_eq!(sets(&map), sets(&next), "orders move no copy");
        let (before, after) = (uneven(&map), uneven(&next));
        let evener = after.0 < before.0 - EPSILON || after.0 < before.0 + EPSILON && after.1 < before.1 - EPSILON;
        assert!(evener, "{before:?} became {after:?}");
        for pg in groups(&map) {
            let same = map.placed(pg).acting_primary == next.placed(pg).acting_primary;
            assert_eq!(
                same,
                !orders.contains_key(&pg),
                "{pg}: who is led as before is not touched, and others are led by others"
            );
        }
        count += orders.len();
        map = next;
    }
    panic!("it never ends: {count} groups got other leaders");
}

/// A map in which a pool was made, as monitors make it.
fn born(map: &OsdMap, id: PoolId, size: u8, groups: u32) -> OsdMap {
    let mut with = map.clone();
    pool(&mut with, id, size, groups);
    changed(map, |inc| {
        inc.new_pools.insert(id, with.pools[&id].clone());
        inc.new_pool_names.insert(id, with.pool_name[&id].clone());
    })
}

#[test]
fn three_osds_lead_a_third_of_each_new_pool_and_of_all() {
    let mut map = cluster(&vec![vec![1.0]; 3], "host");
    let mut by_lot = map.clone();
    for id in 1..=20 {
        pool(&mut by_lot, id, 3, 32);
        map = born(&map, id, 3, 32);
        assert!(led(&map, id).values().all(|n| (10..=11).contains(n)), "{:?}", led(&map, id));
    }
    assert!((1..=20).any(|id| led(&by_lot, id).values().any(|n| *n >= 16)), "CRUSH alone is as uneven as people saw");
    assert!(uneven(&map).1 <= 3.0, "no OSD always gets the group that is left over: {:?}", uneven(&map));
    let (_, count) = rested(map);
    assert_eq!(count, 0, "what begins even stays as it is");
}

#[test]
fn pools_of_today_become_even_a_few_groups_at_a_time() {
    let mut map = cluster(&vec![vec![1.0]; 3], "host");
    (1..=5).for_each(|id| pool(&mut map, id, 3, 32));
    let off: f64 =
        map.pools.keys().filter_map(|id| Table::of(&map, *id)).flat_map(|t| t.above.into_values()).map(|x| x.max(0.0)).sum();
    let (map, count) = rested(map);
    assert!((1..=5).all(|id| led(&map, id).values().all(|n| (10..=12).contains(n))));
    assert!(count as f64 <= off + 15.0, "{count} groups got other leaders, {off} were too many");
}

#[test]
fn below_its_level_there_are_no_orders() {
    let mut map = cluster(&vec![vec![1.0]; 3], "host");
    map.level = types::level::Level(4);
    let map = born(&map, 1, 3, 32);
    assert!(map.pg_upmap.is_empty() && plan(&map, &all(&map), &Limits::round(0)).is_empty());
}

#[test]
fn who_does_not_want_to_lead_is_not_made_to() {
    let mut map = born(&cluster(&vec![vec![1.0]; 3], "host"), 1, 3, 32);
    map = changed(&map, |inc| _ = inc.new_primary_affinity.insert(1, 0));
    assert_eq!(led(&map, 1)[&1], 0, "at once, with the orders that are there");
    let (map, _) = rested(map);
    let now = led(&map, 1);
    assert!(now[&1] == 0 && (15..=17).contains(&now[&0]) && (15..=17).contains(&now[&2]), "{now:?}");
    // So damage is mended: the one with the whole copy leads.
    let map = changed(&map, |inc| _ = inc.new_primary_affinity.insert(2, 0));
    let (map, count) = rested(map);
    assert_eq!((led(&map, 1)[&0], count), (32, 0));
    // All decline: each may.
    let map = changed(&map, |inc| _ = inc.new_primary_affinity.insert(0, 0));
    let (map, _) = rested(map);
    assert!(led(&map, 1).values().all(|n| (10..=12).contains(n)), "{:?}", led(&map, 1));
}

#[test]
fn orders_go_with_what_moves_copies_and_others_stay() {
    let map = born(&cluster(&vec![vec![1.0]; 4], "host"), 1, 3, 64);
    let orders: Vec<PgId> = map.pg_upmap.keys().copied().collect();
    assert!(orders.len() > 4);
    // Down is not gone: the order stays, and others lead meanwhile.
    let down = changed(&map, |inc| _ = inc.new_state.insert(0, maps::state::UP));
    assert_eq!(down.pg_upmap, map.pg_upmap);
    // Out is: each group is where it would be without orders.
    let out = changed(&map, |inc| _ = inc.new_weight.insert(0, 0));
    let mut bare = out.clone();
    bare.pg_upmap.clear();
    bare.forget_placements();
    assert_eq!(sets(&out), sets(&bare));
    assert!(out.pg_upmap.values().all(|osds| !osds.contains(&0)));
    assert!(out.pg_upmap.keys().all(|pg| crate::orders::is_order(&out, *pg)));
    // A pool of fewer copies has them on fewer OSDs.
    let mut small = map.pools[&1].clone();
    small.size = 2;
    let small = changed(&map, |inc| drop(inc.new_pools.insert(1, small)));
    assert!(groups(&small).iter().all(|pg| small.placed(*pg).up.len() == 2));
    // An exception by hand is asked, whether there is an order or not.
    let pg = orders[0];
    let up = map.placed(pg).up.clone();
    let other = (0..4).find(|osd| !up.contains(osd)).unwrap();
    let moved = changed(&map, |inc| drop(inc.new_pg_upmap_items.insert(pg, vec![(up[0], other)])));
    assert!(moved.placed(pg).up.contains(&other) && !moved.pg_upmap.contains_key(&pg));
    assert!(orders[1..].iter().all(|pg| moved.pg_upmap.contains_key(pg)));
}

#[test]
fn a_set_that_somebody_names_is_no_order_and_stays() {
    let map = born(&cluster(&vec![vec![1.0]; 4], "host"), 1, 2, 32);
    let pg = PgId::new(1, 5);
    let up = map.placed(pg).up.clone();
    let others: Vec<OsdId> = (0..4).filter(|osd| !up.contains(osd)).collect();
    let map = changed(&map, |inc| drop(inc.new_pg_upmap.insert(pg, others.clone())));
    let (map, _) = rested(map);
    let map = changed(&map, |inc| _ = inc.new_weight.insert(up[0], 0x8000));
    let (map, _) = rested(map);
    assert_eq!(map.pg_upmap[&pg], others);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever the weights, and whatever happened before: rounds end, each makes the cluster evener, and nobody leads
    /// against its will.
    #[test]
    fn any_cluster_comes_to_rest(
        weights in prop::collection::vec(prop::collection::vec(1..=4u32, 1..=3), 3..=6),
        pools in prop::collection::vec((1..=3u8, 1..=64u32), 1..=4),
        affinities in prop::collection::vec((0..18i32, prop::sample::select(vec![0, 0x4000, 0x8000, 0x10000u32])), 0..4),
        outs in prop::collection::btree_set(0..18i32, 0..2),
        later in 0..18i32,
    ) {
        let hosts: Vec<Vec<f64>> = weights.iter().map(|w| w.iter().map(|w| f64::from(*w)).collect()).collect();
        let mut map = cluster(&hosts, "host");
        for (n, (size, groups)) in pools.iter().enumerate() {
            // Some begin even, some were made by an older program.
            let id = 1 + n as PoolId;
            if n % 2 == 0 { pool(&mut map, id, *size, *groups) } else { map = born(&map, id, *size, *groups) }
        }
        let there = map.max_osd;
        map = changed(&map, |inc| {
            inc.new_primary_affinity.extend(affinities.iter().filter(|(osd, _)| *osd < there).copied());
            inc.new_weight.extend(outs.iter().filter(|osd| **osd < there).map(|osd| (*osd, 0)));
        });
        let (before, ..) = uneven(&map);
        let (map, _) = rested(map);
        prop_assert!(willing(&map));
        if affinities.is_empty() {
            prop_assert!(uneven(&map).2 <= 1.0 + EPSILON, "{:?}, before {}", uneven(&map), before);
        }
        // It happens while clients work: what rests comes to rest again, and no order holds a copy where it was.
        let next = changed(&map, |inc| _ = inc.new_weight.insert(later % there, 0x6000));
        let mut bare = next.clone();
        bare.pg_upmap.clear();
        bare.forget_placements();
        prop_assert_eq!(sets(&next), sets(&bare));
        let (next, _) = rested(next);
        prop_assert!(willing(&next));
    }
}
