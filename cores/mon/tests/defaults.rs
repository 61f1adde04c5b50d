//! What new pools are by default follows disks and hosts.

mod common;

use common::{Disk, World, config};
use mon::AuthMode;
use serde_json::Value;

/// A new cluster whose defaults follow.
fn cluster() -> World {
    World::with(mon::Config { defaults_follow: true, ..config(AuthMode::None) }, Disk::default())
}

fn boot(world: &mut World, osd: i32, host: &str, disk: &str) {
    let peer = world.connect(&format!("osd.{osd}"), None, 0);
    world.boot_at(peer, osd, &[("hostname", host), ("disk", disk)]);
}

/// Copies, and copies to serve with, of a new pool of this name.
fn new_pool(world: &mut World, name: &str) -> (u64, u64) {
    world.ok(&format!(r#"{{"prefix":"osd pool create","pool":"{name}","pg_num":8}}"#));
    let mut get = |var: &str| {
        let said = world.ok(&format!(r#"{{"prefix":"osd pool get","pool":"{name}","var":"{var}","format":"json"}}"#));
        serde_json::from_str::<Value>(&said).unwrap()[var].as_u64().unwrap()
    };
    (get("size"), get("min_size"))
}

/// The type that the first rule chooses.
fn domain(world: &mut World) -> String {
    let rule = world.ok(r#"{"prefix":"osd crush rule dump","name":"replicated_rule","format":"json"}"#);
    serde_json::from_str::<Value>(&rule).unwrap()["steps"][1]["type"].as_str().unwrap().to_owned()
}

#[test]
fn osds_in_one_folder_keep_one_copy() {
    let mut world = cluster();
    (0..3).for_each(|osd| boot(&mut world, osd, "a", "/dir"));
    assert_eq!((new_pool(&mut world, "p"), domain(&mut world).as_str()), ((1, 1), "osd"));
    assert!(!world.ok(r#"{"prefix":"config dump"}"#).contains("osd_pool_default_size"));
}

#[test]
fn several_disks_keep_two_or_three_copies() {
    let mut world = cluster();
    (0..2).for_each(|osd| boot(&mut world, osd, "a", &format!("/dev/{osd}")));
    assert_eq!(new_pool(&mut world, "two"), (2, 1));
    (2..5).for_each(|osd| boot(&mut world, osd, "a", &format!("/dev/{osd}")));
    assert_eq!((new_pool(&mut world, "three"), domain(&mut world).as_str()), ((3, 2), "osd"));
    let log = world.ok(r#"{"prefix":"log last","num":50}"#);
    assert!(log.contains("new pools have 3 copies") && log.contains("'two' keep what they have"), "{log}");
}

#[test]
fn hosts_that_join_are_kept_apart() {
    let mut world = cluster();
    (0..2).for_each(|osd| boot(&mut world, osd, "a", "/dir"));
    assert_eq!(new_pool(&mut world, "one"), (1, 1));
    (2..4).for_each(|osd| boot(&mut world, osd, "b", "/dir"));
    assert_eq!((new_pool(&mut world, "two"), domain(&mut world).as_str()), ((2, 1), "host"));
    (4..6).for_each(|osd| boot(&mut world, osd, "c", "/dir"));
    assert_eq!((new_pool(&mut world, "three"), domain(&mut world).as_str()), ((3, 2), "host"));
    assert!(world.ok(r#"{"prefix":"health"}"#).contains("1 pool(s) have no replicas configured"));
    world.ok(r#"{"prefix":"config set","who":"mon","name":"mon_warn_on_pool_no_redundancy","value":"false"}"#);
    assert!(!world.ok(r#"{"prefix":"health"}"#).contains("no replicas"));
}

#[test]
fn a_number_that_somebody_set_and_a_rule_that_somebody_made_stay() {
    let mut world = cluster();
    boot(&mut world, 0, "a", "/dir");
    world.ok(r#"{"prefix":"config set","who":"global","name":"osd_pool_default_size","value":"1"}"#);
    boot(&mut world, 1, "b", "/dir");
    assert_eq!(new_pool(&mut world, "p"), (1, 1));
    let mut world = cluster();
    (0..2).for_each(|osd| boot(&mut world, osd, "a", &format!("/dev/{osd}")));
    world.ok(r#"{"prefix":"config set","who":"global","name":"osd_pool_default_size","value":"4"}"#);
    (2..5).for_each(|osd| boot(&mut world, osd, "b", &format!("/dev/{osd}")));
    assert_eq!((new_pool(&mut world, "p"), domain(&mut world).as_str()), ((4, 2), "osd"));
    let mut world = cluster();
    boot(&mut world, 0, "a", "/dir");
    world.ok(r#"{"prefix":"osd crush rule rm","name":"replicated_rule"}"#);
    world.ok(r#"{"prefix":"osd crush rule create-simple","name":"replicated_rule","root":"default","type":"rack"}"#);
    (1..4).for_each(|osd| boot(&mut world, osd, &format!("h{osd}"), "/dir"));
    assert_eq!((new_pool(&mut world, "p"), domain(&mut world).as_str()), ((1, 1), "rack"));
}

#[test]
fn clusters_without_the_mark_stay_as_they_are() {
    let mut world = World::new();
    (0..3).for_each(|osd| boot(&mut world, osd, &format!("h{osd}"), "/dir"));
    assert_eq!((new_pool(&mut world, "p"), domain(&mut world).as_str()), ((1, 1), "osd"));
}
