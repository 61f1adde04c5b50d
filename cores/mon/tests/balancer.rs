//! The balancer beside a whole monitor: when it moves what, what it says, what is remembered.

mod common;

use common::cluster::Cluster;
use common::{World, config};
use mon::AuthMode;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{OsdId, PgId, PgState};

const GROUPS: u32 = 32;

/// Four OSDs and a pool of two copies whose groups are clean; rounds come quickly.
fn cluster() -> Cluster {
    let mut cluster = Cluster::with_pool(4, 2, GROUPS);
    cluster.world.ok(r#"{"prefix":"config set","who":"mgr","name":"mgr/balancer/sleep_interval","value":"1"}"#);
    clean(&mut cluster);
    cluster.pass(6);
    cluster
}

/// All groups are reported clean, by OSDs that have the newest map.
fn clean(cluster: &mut Cluster) {
    let state = PgState::ACTIVE.with(PgState::CLEAN);
    cluster.all(GROUPS, state, Default::default());
    let epoch = cluster.map().epoch;
    (0..4).for_each(|osd| cluster.report_epoch(osd, epoch));
}

/// Groups by OSD.
fn held(cluster: &mut Cluster) -> BTreeMap<OsdId, usize> {
    let map = cluster.map();
    let mut held = BTreeMap::new();
    let all = (0..GROUPS).flat_map(|seed| map.placed(PgId::new(1, seed)).up.clone());
    all.for_each(|osd| *held.entry(osd).or_default() += 1);
    held
}

/// Moves as many groups as possible from OSD 3 to OSD 0, by hand.
fn upset(cluster: &mut Cluster) {
    let map = cluster.map();
    for seed in 0..GROUPS {
        let up = map.placed(PgId::new(1, seed)).up.clone();
        if up.contains(&3) && !up.contains(&0) && !map.pg_upmap_items.contains_key(&PgId::new(1, seed)) {
            cluster.world.ok(&format!(r#"{{"prefix":"osd pg-upmap-items","pgid":"1.{seed:x}","id":["osd.3","osd.0"]}}"#));
        }
    }
    let held = held(cluster);
    assert!(held[&0] >= held[&3] + 8, "{held:?}");
}

fn say(cluster: &mut Cluster, words: &str) -> (i32, String) {
    cluster.world.call(&format!(r#"{{"prefix":"balancer {words}"}}"#))
}

fn status(cluster: &mut Cluster) -> Value {
    serde_json::from_str(&say(cluster, "status").1).unwrap()
}

#[test]
fn a_pool_of_several_copies_begins_even() {
    let mut cluster = cluster();
    assert_eq!(held(&mut cluster), BTreeMap::from([(0, 16), (1, 16), (2, 16), (3, 16)]));
    let status = status(&mut cluster);
    assert_eq!((&status["active"], &status["mode"]), (&Value::from(true), &Value::from("upmap")));
    assert!(status["optimize_result"].as_str().unwrap().starts_with("Unable to find further optimization"), "{status}");
    assert_eq!(say(&mut cluster, "eval").1, "current cluster score 0.000000 (lower is better)\n");
}

#[test]
fn what_is_uneven_is_moved_back_a_few_groups_at_a_time_while_all_are_clean() {
    let mut cluster = cluster();
    let before = cluster.map().pg_upmap_items.clone();
    upset(&mut cluster);
    let uneven = held(&mut cluster);
    cluster.all(GROUPS, PgState::ACTIVE.with(PgState::UNDERSIZED), Default::default());
    cluster.pass(8);
    assert_eq!(held(&mut cluster), uneven, "not while groups are not clean");
    for _ in 0..5 {
        let epoch = cluster.map().epoch;
        cluster.pass(6);
        assert!(cluster.map().epoch <= epoch + 1, "OSDs have not told yet that they have the last changes");
        for _ in 0..6 {
            clean(&mut cluster);
            cluster.world.pass(Duration::from_millis(500));
        }
    }
    let held = held(&mut cluster);
    assert!(held.values().all(|n| (15..=17).contains(n)), "{held:?}");
    let after = cluster.map().pg_upmap_items;
    assert!(after.len() <= before.len() + 2, "{} exceptions became {}: those by hand are taken back", before.len(), after.len());
}

#[test]
fn it_rests_when_it_is_told_and_a_restart_remembers_that() {
    let mut cluster = cluster();
    assert_eq!(say(&mut cluster, "off").0, 0);
    upset(&mut cluster);
    let uneven = held(&mut cluster);
    for _ in 0..3 {
        clean(&mut cluster);
        cluster.pass(6);
    }
    assert_eq!(held(&mut cluster), uneven);
    assert!(cluster.world.ok(r#"{"prefix":"config dump"}"#).contains("mgr/balancer/active"));
    let mut world = World::with(config(AuthMode::None), cluster.world.disk.clone());
    let status: Value = serde_json::from_str(&world.ok(r#"{"prefix":"balancer status"}"#)).unwrap();
    assert_eq!(status["active"], false);
}

#[test]
fn plans_are_made_shown_and_carried_out() {
    let mut cluster = cluster();
    let plan = |cluster: &mut Cluster, what: &str| cluster.world.call(&format!(r#"{{"prefix":"balancer {what}","plan":"p1"}}"#));
    assert_eq!(plan(&mut cluster, "optimize"), (-22, "Balancer enabled, disable to optimize manually".into()));
    say(&mut cluster, "off");
    clean(&mut cluster);
    assert_eq!(plan(&mut cluster, "optimize").0, -114);
    upset(&mut cluster);
    cluster.all(GROUPS, PgState::ACTIVE, Default::default());
    assert_eq!(plan(&mut cluster, "optimize").0, -11);
    clean(&mut cluster);
    let uneven = held(&mut cluster);
    assert_eq!(plan(&mut cluster, "optimize").0, 0);
    assert_eq!(serde_json::from_str::<Value>(&say(&mut cluster, "ls").1).unwrap(), serde_json::json!(["p1"]));
    let shown = plan(&mut cluster, "show").1;
    assert!(shown.contains("# mode upmap") && shown.contains("pg-upmap-items 1."), "{shown}");
    let score = |text: &str| text.split("score ").nth(1).and_then(|t| t.split(' ').next()?.parse::<f64>().ok()).unwrap();
    let now = score(&say(&mut cluster, "eval").1);
    let then = score(&cluster.world.ok(r#"{"prefix":"balancer eval","option":"p1"}"#));
    assert!(then < now, "{now} becomes {then}");
    assert_eq!(held(&mut cluster), uneven, "a plan changes nothing");
    assert_eq!(plan(&mut cluster, "execute").0, 0);
    let held = held(&mut cluster);
    assert!(held[&0] < uneven[&0] && held[&3] > uneven[&3], "{uneven:?} became {held:?}");
    assert_eq!(plan(&mut cluster, "show"), (-2, "plan p1 not found".into()));
}

#[test]
fn pools_that_it_is_not_bound_to_stay_as_they_are() {
    let mut cluster = cluster();
    cluster.world.ok(r#"{"prefix":"osd pool create","pool":"q","pg_num":8,"size":2}"#);
    let missing = cluster.world.call(r#"{"prefix":"balancer pool add","pools":["q","r"]}"#);
    assert_eq!(missing, (-22, "pool(s) ['r'] not found".into()));
    cluster.world.ok(r#"{"prefix":"balancer pool add","pools":["q"]}"#);
    assert!(say(&mut cluster, "pool ls").1.contains("\"q\""));
    upset(&mut cluster);
    let uneven = held(&mut cluster);
    for _ in 0..3 {
        clean(&mut cluster);
        for seed in 0..8 {
            let primary = cluster.map().placed(PgId::new(2, seed)).acting_primary;
            let clean = cluster.world.clean_pg(2, seed, 0, 0);
            cluster.world.report(cluster.osds[primary as usize], primary, vec![clean]);
        }
        cluster.pass(6);
    }
    assert_eq!(held(&mut cluster), uneven);
    let refused = cluster.world.call(r#"{"prefix":"balancer mode","mode":"crush-compat"}"#);
    assert_eq!(refused.0, -95, "{}", refused.1);
}

/// Groups of three copies by who leads them, on three OSDs.
fn led(cluster: &mut Cluster) -> BTreeMap<OsdId, usize> {
    let map = cluster.map();
    let mut led = BTreeMap::new();
    (0..GROUPS).for_each(|seed| *led.entry(map.placed(PgId::new(1, seed)).acting_primary).or_default() += 1);
    led
}

/// Makes OSD 0 lead as many groups as possible, by hand.
fn usurp(cluster: &mut Cluster) {
    for seed in 0..GROUPS {
        cluster.world.ok(&format!(r#"{{"prefix":"osd pg-upmap","pgid":"1.{seed:x}","id":["osd.0","osd.1","osd.2"]}}"#));
    }
    assert_eq!(led(cluster), BTreeMap::from([(0, 32)]));
}

fn three() -> Cluster {
    let mut cluster = Cluster::with_pool(3, 3, GROUPS);
    cluster.world.ok(r#"{"prefix":"config set","who":"mgr","name":"mgr/balancer/sleep_interval","value":"1"}"#);
    cluster
}

fn clean_three(cluster: &mut Cluster) {
    cluster.all(GROUPS, PgState::ACTIVE.with(PgState::CLEAN), Default::default());
    let epoch = cluster.map().epoch;
    (0..3).for_each(|osd| cluster.report_epoch(osd, epoch));
}

#[test]
fn each_osd_leads_its_share_and_gets_it_back_a_few_groups_at_a_time() {
    let mut cluster = three();
    assert!(led(&mut cluster).values().all(|n| (10..=11).contains(n)), "{:?}", led(&mut cluster));
    cluster.world.ok(r#"{"prefix":"config set","who":"mgr","name":"mgr/balancer/leaders","value":"false"}"#);
    usurp(&mut cluster);
    for _ in 0..3 {
        clean_three(&mut cluster);
        cluster.pass(6);
    }
    assert_eq!(led(&mut cluster), BTreeMap::from([(0, 32)]), "not when somebody does not want it");
    cluster.world.ok(r#"{"prefix":"config rm","who":"mgr","name":"mgr/balancer/leaders"}"#);
    let mut most = 32;
    for _ in 0..6 {
        for _ in 0..6 {
            clean_three(&mut cluster);
            cluster.world.pass(Duration::from_millis(500));
        }
        let now = led(&mut cluster)[&0];
        assert!(now <= most && now + 30 >= most, "three rounds at most: {most} became {now}");
        most = now;
    }
    let now = led(&mut cluster);
    assert!(now.len() == 3 && now.values().all(|n| (10..=12).contains(n)), "{now:?}");
    let epoch = cluster.map().epoch;
    for _ in 0..3 {
        clean_three(&mut cluster);
        cluster.pass(6);
    }
    assert_eq!(cluster.map().epoch, epoch, "it rests");
    // Who goes takes its orders along, and its groups are whole without it.
    cluster.world.ok(r#"{"prefix":"osd out","ids":["0"]}"#);
    let map = cluster.map();
    assert!(map.pg_upmap.is_empty() && (0..GROUPS).all(|seed| !map.placed(PgId::new(1, seed)).up.contains(&0)));
}

#[test]
fn plans_show_who_shall_lead() {
    let mut cluster = three();
    say(&mut cluster, "off");
    usurp(&mut cluster);
    clean_three(&mut cluster);
    let plan = |cluster: &mut Cluster, what: &str| cluster.world.call(&format!(r#"{{"prefix":"balancer {what}","plan":"p"}}"#));
    assert_eq!(plan(&mut cluster, "optimize").0, 0);
    let shown = plan(&mut cluster, "show").1;
    let orders =
        shown.lines().filter(|line| line.starts_with("ceph osd pg-upmap 1.") || line.starts_with("ceph osd rm-pg-upmap 1."));
    assert_eq!(orders.count(), 10, "{shown}");
    let dump: Value = serde_json::from_str(&plan(&mut cluster, "dump").1).unwrap();
    let count = |key: &str| dump[key].as_array().unwrap().len();
    assert_eq!((count("new_pg_upmap") + count("old_pg_upmap"), count("new_pg_upmap_items")), (10, 0), "{dump}");
    assert_eq!(plan(&mut cluster, "execute").0, 0);
    assert_eq!(led(&mut cluster)[&0], 22);
}
