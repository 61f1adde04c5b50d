//! Maps with hosts, weights, and OSDs that are out are balanced until nothing moves.

use super::*;
use crate::testmaps::{cluster, pool};
use maps::{Incremental, pool_type};
use proptest::prelude::*;
use types::UTime;

fn all(map: &OsdMap) -> BTreeSet<PoolId> {
    map.pools.keys().copied().collect()
}

/// The map after these moves.
fn after(map: &OsdMap, moves: &Moves) -> OsdMap {
    let mut inc = Incremental::new(map.epoch + 1, map.fsid, UTime::ZERO);
    apply(map, moves, &mut inc);
    map.apply(&inc).unwrap()
}

/// Makes rounds until nothing moves. Gives the map, and the number of changed groups.
fn balanced(mut map: OsdMap) -> (OsdMap, usize) {
    let mut changed = 0;
    for turn in 0..2_000 {
        let moves = plan(&map, &all(&map), &Limits::round(turn));
        assert!(moves.len() <= 10);
        if moves.is_empty() {
            return (map, changed);
        }
        changed += moves.len();
        let next = after(&map, &moves);
        sound(&next, &moves);
        map = next;
    }
    panic!("it never ends: {changed} groups were changed");
}

/// Each group that was changed has as many OSDs as before, where the rule may put them, and no exception without
/// effect.
fn sound(map: &OsdMap, moves: &Moves) {
    for pg in moves.keys() {
        let pool = &map.pools[&pg.pool];
        let rule = map.crush.find_rule(pool.crush_rule, pool.type_, pool.size).unwrap();
        let domains = domains::Domains::of(&map.crush, rule);
        let (raw, up) = (map.raw_placement(*pg), &map.placed(*pg).up);
        assert_eq!(raw.len(), up.len(), "{pg}");
        assert!(domains.holds(up) || !domains.holds(&raw), "{pg}: {raw:?} became {up:?}");
        let pairs = map.pg_upmap_items.get(pg).cloned().unwrap_or_default();
        assert_eq!(applied(map, &raw, &pairs), (up.clone(), pairs), "{pg}");
    }
}

/// Returns how far OSDs are from their share: the most in a pool, and the most over all.
fn deviations(map: &OsdMap) -> (f64, f64) {
    let tables: Vec<Table> = map.pools.keys().filter_map(|id| Table::of(map, *id, |pg| map.placed(pg).up.clone())).collect();
    let most = |above: &BTreeMap<OsdId, f64>| above.values().map(|x| x.abs()).fold(0.0, f64::max);
    let mut sum: BTreeMap<OsdId, f64> = BTreeMap::new();
    tables.iter().flat_map(|t| &t.above).for_each(|(osd, above)| *sum.entry(*osd).or_default() += above);
    (tables.iter().map(|t| most(&t.above)).fold(0.0, f64::max), most(&sum))
}

#[test]
fn equal_osds_end_within_one_group_of_their_share_in_each_pool_and_over_all() {
    let mut map = cluster(&[vec![1.0; 4], vec![1.0; 4], vec![1.0; 4], vec![1.0; 4]], "host");
    for id in 1..=6 {
        pool(&mut map, id, 3, 32);
    }
    let (before, _) = deviations(&map);
    let (map, changed) = balanced(map);
    let (each, over_all) = deviations(&map);
    assert!(before > 2.0 && each <= 1.0 + EPSILON && over_all <= 1.0 + EPSILON, "{before} became {each}, {over_all} over all");
    assert!(changed < 6 * 32);
}

#[test]
fn osds_that_go_out_leave_no_exceptions_behind() {
    let mut map = cluster(&[vec![1.0; 3], vec![1.0; 3], vec![1.0; 3], vec![1.0; 3]], "host");
    pool(&mut map, 1, 3, 128);
    let (mut map, _) = balanced(map);
    let gone = map.pg_upmap_items.values().flatten().next().expect("something was to be moved").1;
    map.osd_weight[gone as usize] = 0;
    map.forget_placements();
    let (map, _) = balanced(map);
    assert!(!map.pg_upmap_items.values().flatten().any(|(_, to)| *to == gone));
    assert!(deviations(&map).0 <= 1.0 + EPSILON);
}

#[test]
fn exceptions_that_break_the_rule_are_taken_back() {
    let mut map = cluster(&[vec![1.0; 2], vec![1.0; 2], vec![1.0; 2]], "host");
    pool(&mut map, 1, 2, 8);
    let (map, _) = balanced(map);
    let pg = PgId::new(1, 3);
    let up = map.placed(pg).up.clone();
    let (first, second) = (up[0], up[1]);
    let mut broken = map.clone();
    broken.pg_upmap_items.insert(pg, vec![(second, first ^ 1)]);
    broken.forget_placements();
    let broken_up = broken.placed(pg).up.clone();
    let (mended, _) = balanced(broken);
    let domains = domains::Domains::of(&mended.crush, 0);
    assert!(!domains.holds(&broken_up) && domains.holds(&mended.placed(pg).up));
}

#[test]
fn two_level_rules_keep_their_racks() {
    use crush::{Step, op};
    let mut map = cluster(&vec![vec![1.0; 2]; 12], "host");
    let mut crush = (*map.crush).clone();
    let step = |op, arg1, arg2| Step { op, arg1, arg2 };
    let root = crush.id_of("default").unwrap();
    let rack = crush.type_id("rack").unwrap();
    let steps =
        vec![step(op::TAKE, root, 0), step(op::CHOOSE_FIRSTN, 2, rack), step(op::CHOOSELEAF_FIRSTN, 2, 1), step(op::EMIT, 0, 0)];
    let number = crush.add_rule("racks", pool_type::REPLICATED, (1, 10), steps).unwrap();
    map.crush = std::sync::Arc::new(crush);
    pool(&mut map, 1, 4, 64);
    map.pools.get_mut(&1).unwrap().crush_rule = number;
    let racks = |map: &OsdMap, pg| {
        let mut racks: Vec<i32> = map.placed(pg).up.iter().map(|osd| osd / 8).collect();
        racks.sort_unstable();
        racks
    };
    let before = map.clone();
    let (map, _) = balanced(map);
    for pg in (0..64).map(|seed| PgId::new(1, seed)) {
        assert_eq!(racks(&before, pg), racks(&map, pg));
    }
}

/// A map of hosts with OSDs of these weights, some out or of less weight, and pools of these sizes and numbers of
/// groups.
fn random(
    weights: &[Vec<u32>],
    outs: &BTreeSet<usize>,
    pools: &[(u8, u32)],
    by_host: bool,
    reweights: &[(usize, u32)],
) -> OsdMap {
    let hosts: Vec<Vec<f64>> = weights.iter().map(|w| w.iter().map(|w| f64::from(*w)).collect()).collect();
    let mut map = cluster(&hosts, if by_host { "host" } else { "osd" });
    for (osd, weight) in reweights.iter().copied() {
        if let Some(w) = map.osd_weight.get_mut(osd) {
            *w = weight;
        }
    }
    for osd in outs.iter().copied() {
        if let Some(w) = map.osd_weight.get_mut(osd) {
            *w = 0;
        }
    }
    for (n, (size, groups)) in pools.iter().enumerate() {
        pool(&mut map, 1 + n as PoolId, *size, *groups);
    }
    map
}

/// Here no single pool has a third OSD that could pass a copy on.
#[test]
fn a_copy_goes_over_a_third_osd_by_groups_of_two_pools() {
    let weights = [vec![4], vec![2, 2, 1, 4], vec![4, 2, 2, 4], vec![3, 2, 2]];
    let (map, _) = balanced(random(&weights, &BTreeSet::from([10]), &[(2, 63), (3, 56), (1, 17)], true, &[]));
    assert!(deviations(&map).1 <= 1.0 + EPSILON, "{:?}", deviations(&map));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever the weights: rounds end, keep the rule, and, where hosts leave a choice, come to one group from the
    /// share.
    #[test]
    fn any_cluster_comes_to_rest(
        weights in prop::collection::vec(prop::collection::vec(1..=4u32, 1..=4), 4..=7),
        outs in prop::collection::btree_set(0..28usize, 0..3),
        pools in prop::collection::vec((1..=3u8, 1..=64u32), 1..=3),
        by_host in any::<bool>(),
        reweights in prop::collection::vec((0..28usize, 0x4000..0x10000u32), 0..3),
    ) {
        let map = random(&weights, &outs, &pools, by_host, &reweights);
        let (before, _) = deviations(&map);
        let (map, _) = balanced(map);
        let (each, over_all) = deviations(&map);
        prop_assert!(each <= before.max(1.0) + EPSILON);
        prop_assert!(each <= 1.0 + EPSILON, "{} of a pool", each);
        prop_assert!(over_all <= 1.0 + EPSILON, "{} over all", over_all);
    }
}

/// A thousand OSDs and 32,768 groups: what a round takes, printed with `--nocapture`; to be run in a release build.
#[test]
#[ignore = "a measurement"]
#[allow(clippy::disallowed_methods, reason = "a measurement of the processor")]
fn a_round_of_a_large_cluster() {
    let mut map = cluster(&vec![vec![1.0; 24]; 42], "host");
    pool(&mut map, 1, 3, 16_384);
    pool(&mut map, 2, 3, 16_384);
    let time = |what: &str, begun: std::time::Instant| println!("{what}: {} ms", begun.elapsed().as_millis());
    let begun = std::time::Instant::now();
    all(&map).iter().for_each(|id| (0..map.pools[id].pg_num).for_each(|seed| drop(map.placed(PgId::new(*id, seed)).clone())));
    time("placements, which the map remembers", begun);
    for (what, limits) in
        [("a round", Limits::round(0)), ("a plan for all", Limits { moves: usize::MAX, looks: usize::MAX, ..Limits::round(0) })]
    {
        let begun = std::time::Instant::now();
        let moves = plan(&map, &all(&map), &limits);
        time(&format!("{what}, {} changes", moves.len()), begun);
        println!("{:?} became {:?}", deviations(&map), deviations(&after(&map, &moves)));
    }
}
