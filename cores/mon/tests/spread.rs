//! New pools begin evenly, and stay so when their groups are split.

mod common;

use common::World;
use serde_json::Value;
use std::collections::BTreeMap;

/// Groups by OSD, of one pool or of all, and how many of them are not where they belong.
fn spread(world: &mut World, pool: Option<&str>) -> (BTreeMap<i64, usize>, usize) {
    let dump: Value = serde_json::from_str(&world.ok(r#"{"prefix":"osd dump","format":"json"}"#)).unwrap();
    let pools: BTreeMap<i64, String> = dump["pools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| (p["pool"].as_i64().unwrap(), p["pool_name"].as_str().unwrap().to_owned()))
        .collect();
    let (mut counts, mut strangers) = (BTreeMap::new(), 0);
    for (id, name) in pools.iter().filter(|(_, name)| pool.is_none_or(|p| p == *name)) {
        let pg_num: Value = serde_json::from_str(
            &world.ok(&format!(r#"{{"prefix":"osd pool get","pool":"{name}","var":"pg_num","format":"json"}}"#)),
        )
        .unwrap();
        for seed in 0..pg_num["pg_num"].as_u64().unwrap() {
            let map = world.ok(&format!(r#"{{"prefix":"pg map","pgid":"{id}.{seed:x}","format":"json"}}"#));
            let map: Value = serde_json::from_str(&map).unwrap();
            *counts.entry(map["acting"][0].as_i64().unwrap()).or_default() += 1;
            strangers += usize::from(map["acting"] != map["up"]);
        }
    }
    (counts, strangers)
}

fn difference(counts: &BTreeMap<i64, usize>, osds: usize) -> usize {
    let least = if counts.len() < osds { 0 } else { *counts.values().min().unwrap() };
    counts.values().max().unwrap() - least
}

fn three_osds() -> World {
    let mut world = World::new();
    for osd in 0..3 {
        world.boot_osd(osd);
    }
    world
}

fn make(world: &mut World, pool: &str, groups: u32) {
    world.ok(&format!(r#"{{"prefix":"osd pool create","pool":"{pool}","pg_num":{groups}}}"#));
}

#[test]
fn a_new_pool_s_groups_differ_by_at_most_one_between_equal_osds() {
    let mut world = three_osds();
    for (pool, groups) in [("a", 32), ("b", 1), ("c", 7), ("d", 64)] {
        make(&mut world, pool, groups);
        let (counts, strangers) = spread(&mut world, Some(pool));
        assert!(difference(&counts, 3) <= 1 && strangers == 0, "{pool}: {counts:?}, {strangers} elsewhere");
    }
}

#[test]
fn what_is_left_over_of_many_small_pools_does_not_fall_to_the_same_osd() {
    let mut world = three_osds();
    for n in 0..10 {
        make(&mut world, &format!("p{n}"), 4);
        let (counts, _) = spread(&mut world, None);
        assert!(difference(&counts, 3) <= 1, "after {n}: {counts:?}");
    }
}

#[test]
fn osds_that_are_out_get_nothing_and_weights_count() {
    let mut world = three_osds();
    world.ok(r#"{"prefix":"osd out","ids":["2"]}"#);
    world.ok(r#"{"prefix":"osd crush reweight","name":"osd.1","weight":0.25}"#);
    world.ok(r#"{"prefix":"osd crush reweight","name":"osd.0","weight":0.75}"#);
    make(&mut world, "a", 32);
    let (counts, _) = spread(&mut world, Some("a"));
    assert_eq!(counts, BTreeMap::from([(0, 24), (1, 8)]));
}

#[test]
fn a_split_leaves_the_new_groups_with_their_parents_and_all_of_them_belong_there() {
    let mut world = three_osds();
    make(&mut world, "a", 16);
    let (before, _) = spread(&mut world, Some("a"));
    world.all_active(&[0, 1, 2], 1, 16);
    world.ok(r#"{"prefix":"osd pool set","pool":"a","var":"pg_num","val":"32"}"#);
    let (counts, strangers) = spread(&mut world, Some("a"));
    let doubled: BTreeMap<i64, usize> = before.into_iter().map(|(osd, groups)| (osd, 2 * groups)).collect();
    assert_eq!((counts, strangers), (doubled, 0));
}

#[test]
fn deleted_pools_leave_no_exceptions_behind() {
    let mut world = three_osds();
    make(&mut world, "a", 32);
    assert!(world.ok(r#"{"prefix":"osd dump"}"#).contains("pg_upmap_items 1."));
    world.ok(r#"{"prefix":"osd pool rm","pool":"a","pool2":"a","yes_i_really_really_mean_it":true}"#);
    assert!(!world.ok(r#"{"prefix":"osd dump"}"#).contains("pg_upmap_items"));
}
