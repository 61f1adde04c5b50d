//! Pools of shards at the monitor: what is made, what is refused, and their numbers. No OSD serves them yet.

mod common;
#[path = "common/recorded.rs"]
mod recorded;

use common::cluster::{CLEAN, Cluster, objects};
use common::{World, config};
use denc::Decode;
use maps::{OsdMap, Pool, pool_flags};
use messages::internal::PgReport;
use messages::stats::ObjectStatSum;
use mon::{AuthMode, Config};
use serde_json::{Value, json};
use types::level::Level;
use types::{HOLE, Levels, OsdId, PgId, ShardId, UTime};

/// Seven OSDs on one host, of a cluster that lets such pools be made.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new(7);
    allow(&mut cluster.world);
    cluster
}

fn allow(world: &mut World) {
    world.ok(r#"{"prefix":"config set","who":"mon","name":"mon_allow_erasure","value":"true"}"#);
    world.ok(r#"{"prefix":"config set","who":"global","name":"osd_pool_default_pg_autoscale_mode","value":"off"}"#);
}

fn profile(world: &mut World, name: &str, words: &[&str]) {
    let words: Vec<&str> = words.iter().copied().chain(["crush-failure-domain=osd"]).collect();
    world.ok(&json!({"prefix": "osd erasure-code-profile set", "name": name, "profile": words}).to_string());
}

fn create(name: &str, profile: &str) -> String {
    json!({"prefix": "osd pool create", "pool": name, "pg_num": 4, "pgp_num": 4, "pool_type": "erasure", "erasure_code_profile": profile})
        .to_string()
}

fn get(world: &mut World, pool: &str, var: &str) -> String {
    world.ok(&json!({"prefix": "osd pool get", "pool": pool, "var": var}).to_string())
}

/// The story that `tools/conformance/foreign/erasure_codes.py pools` tells a monitor of 16.2.15: the same numbers,
/// sentences and output.
#[test]
fn commands_on_pools_answer_as_cephs_monitor_does() {
    let mut cluster = cluster();
    let world = &mut cluster.world;
    // Ceph's manager has made one before.
    world.ok(r#"{"prefix":"osd pool create","pool":"device_health_metrics","pg_num":1,"size":2}"#);
    let numberless = |status: &str| match status.strip_prefix("set pool ").and_then(|rest| rest.split_once(' ')) {
        Some((_, rest)) => format!("set pool N {rest}"),
        None => status.to_owned(),
    };
    recorded::compare(world, cluster.client, include_str!("../testdata/erasure_pools.jsonl"), numberless, 60);
}

/// What Ceph's monitor made of the same commands, field for field but for times and epochs.
#[test]
fn pools_are_those_that_cephs_monitor_makes() {
    let theirs = OsdMap::from_bytes(include_bytes!("../../../values/maps/testdata/erasure-pools.osdmap")).unwrap();
    let mut cluster = cluster();
    for (name, words) in [
        ("p21", &["k=2", "m=1"][..]),
        ("unit", &["k=3", "m=2", "stripe_unit=16K"]),
        ("good", &["k=3", "m=2", "technique=cauchy_good"]),
    ] {
        profile(&mut cluster.world, name, words);
    }
    for (pool, of) in [("e21", "p21"), ("unitp", "unit"), ("goodp", "good")] {
        cluster.world.ok(&create(pool, of));
        let ours = cluster.map();
        let (id, made) = ours.pool_by_name(pool).unwrap();
        let (_, right) = theirs.pool_by_name(pool).unwrap();
        let timeless = |p: &Pool| Pool {
            last_change: 0,
            create_time: UTime::ZERO,
            crush_rule: 0,
            snap_seq: 0,
            snap_epoch: 0,
            snaps: Default::default(),
            flags: p.flags & !pool_flags::CREATING & !pool_flags::POOL_SNAPS,
            ..p.clone()
        };
        assert_eq!(timeless(made), timeless(right), "{pool}");
        let layout = ours.layout(id).expect("it is written down");
        assert_eq!((&layout.profile, layout.most_chunk), (&theirs.erasure_code_profiles[of], 65536));
        assert_eq!(ours.crush.rule(made.crush_rule.into()).map(|rule| rule.mask.kind), Some(made.type_));
    }
}

#[test]
fn a_profile_that_is_forced_changes_no_living_pool() {
    let mut cluster = cluster();
    profile(&mut cluster.world, "p", &["k=4", "m=2"]);
    cluster.world.ok(&create("e", "p"));
    let before = cluster.map();
    let set = json!({"prefix": "osd erasure-code-profile set", "name": "p", "profile": ["k=2", "m=1"], "force": true});
    cluster.world.ok(&set.to_string());
    let after = cluster.map();
    assert_ne!(before.erasure_code_profiles["p"], after.erasure_code_profiles["p"]);
    let (id, pool) = after.pool_by_name("e").unwrap();
    assert_eq!((after.layout(id), after.raw_factor(id)), (before.layout(id), (6, 4)));
    assert_eq!((pool.size, pool.min_size), (6, 5));
    assert!(
        cluster.world.refused(22, r#"{"prefix":"osd pool set","pool":"e","var":"min_size","val":"3"}"#).contains("between 4")
    );
    // It goes with the pool.
    cluster.world.ok(r#"{"prefix":"osd pool rm","pool":"e","pool2":"e","yes_i_really_really_mean_it":true}"#);
    assert!(cluster.map().layouts.is_empty());
}

#[test]
fn too_few_places_are_said_and_the_pool_is_made() {
    let mut cluster = Cluster::new(3);
    allow(&mut cluster.world);
    profile(&mut cluster.world, "p42", &["k=4", "m=2"]);
    profile(&mut cluster.world, "p22", &["k=2", "m=2"]);
    let (code, told) = cluster.world.call(&create("wide", "p42"));
    assert_eq!(code, 0);
    let second = told.lines().nth(1).unwrap_or_default();
    assert!(
        told.starts_with("pool 'wide' created\n") && second.contains("finds 3 places") && second.contains("6 shards"),
        "{told}"
    );
    assert!(second.contains("nobody serves"), "{told}");
    let (_, told) = cluster.world.call(&create("less", "p22"));
    assert!(told.contains("finds 3 places") && told.contains("undersized"), "{told}");
    // Without a host for each shard.
    let (code, told) = cluster.world.call(&create("hosts", "default"));
    assert!(code == 0 && told.contains("finds 1 places"), "{told}");
}

#[test]
fn nothing_is_left_of_a_pool_that_is_refused() {
    let mut cluster = cluster();
    let world = &mut cluster.world;
    profile(world, "p", &["k=4", "m=2"]);
    let many =
        json!({"prefix": "osd pool create", "pool": "e", "pg_num": 60000, "pool_type": "erasure", "erasure_code_profile": "p"});
    world.refused(34, &many.to_string());
    assert_eq!(world.ok(r#"{"prefix":"osd crush rule ls"}"#), "replicated_rule\n");
    world.ok(r#"{"prefix":"config rm","who":"mon","name":"mon_allow_erasure"}"#);
    assert!(world.refused(95, &create("e", "p")).contains("not supported yet"));
    assert!(cluster.map().pools.is_empty());
}

#[test]
fn such_pools_come_with_their_level() {
    let older = Levels { oldest: Level(1), newest: Level(4) };
    let mut world = World::with(Config { levels: older, ..config(AuthMode::None) }, Default::default());
    allow(&mut world);
    let told = world.refused(1, &create("e", "default"));
    assert!(told.contains("from level 5 on, and the cluster has level 4"), "{told}");
}

/// A report of a group of `pool` with `n` objects of 64 KiB, in so many shards.
fn told(cluster: &mut Cluster, pool: i64, seed: u32, n: i64, shards: i64, degraded: i64) {
    let stats = ObjectStatSum { num_object_copies: n * shards, num_objects_degraded: degraded, ..objects(n) };
    let primary = cluster.map().placed(PgId::new(pool, seed)).acting_primary;
    cluster.report_with(primary, PgReport { pg: PgId::new(pool, seed), state: CLEAN, stats, ..PgReport::default() });
}

#[test]
fn space_is_counted_by_what_a_byte_takes() {
    let mut cluster = cluster();
    profile(&mut cluster.world, "p42", &["k=4", "m=2"]);
    profile(&mut cluster.world, "p32", &["k=3", "m=2"]);
    cluster.world.ok(&create("e42", "p42"));
    cluster.world.ok(&create("e32", "p32"));
    cluster.world.ok(r#"{"prefix":"osd pool create","pool":"r","pg_num":4,"size":3}"#);
    cluster.pass(2);
    for seed in 0..4 {
        told(&mut cluster, 1, seed, 40, 6, 0);
        told(&mut cluster, 3, seed, 40, 3, 0);
    }
    let df = |cluster: &mut Cluster, pool: usize| -> Value {
        let df: Value = serde_json::from_str(&cluster.world.ok(r#"{"prefix":"df","detail":"detail","format":"json"}"#)).unwrap();
        df["pools"][pool]["stats"].clone()
    };
    let stored = 160 << 16;
    let (shards, copies) = (df(&mut cluster, 0), df(&mut cluster, 2));
    assert_eq!((shards["stored"].as_u64(), shards["bytes_used"].as_u64()), (Some(stored), Some(stored * 3 / 2)), "{shards}");
    assert_eq!(copies["bytes_used"].as_u64(), Some(stored * 3));
    // The same disks hold twice as much, as 1.5 is half of 3.
    let avail = |stats: &Value| stats["max_avail"].as_f64().unwrap();
    assert!((avail(&shards) / avail(&copies) - 2.0).abs() < 1e-6, "{shards} {copies}");
    assert!((shards["avail_raw"].as_f64().unwrap() / avail(&shards) - 1.5).abs() < 1e-6);
    // A shard of six is missing of each object: a sixth of what it took.
    for seed in 0..4 {
        told(&mut cluster, 1, seed, 40, 6, 40);
    }
    assert_eq!(df(&mut cluster, 0)["bytes_used"].as_u64(), Some(stored * 5 / 4));
    let rates = cluster.world.ok(r#"{"prefix":"osd pool autoscale-status","format":"json"}"#);
    let rates: Value = serde_json::from_str(&rates).unwrap();
    let rate = |pool: usize| rates[pool]["raw_used_rate"].clone();
    // Ceph's is of single precision.
    assert_eq!([rate(0), rate(1), rate(2)], [json!(1.5), json!(1.6666666269302368), json!(3.0)]);
}

#[test]
fn a_pool_that_takes_writes_without_a_spare_shard_is_a_finding() {
    let mut cluster = cluster();
    let code = "POOL_MIN_SIZE_NO_REDUNDANCY";
    profile(&mut cluster.world, "p42", &["k=4", "m=2"]);
    profile(&mut cluster.world, "p21", &["k=2", "m=1"]);
    cluster.world.ok(&create("e", "p42"));
    // One parity leaves no choice.
    cluster.world.ok(&create("one", "p21"));
    let health = |cluster: &mut Cluster| cluster.world.ok(r#"{"prefix":"health","detail":"detail"}"#);
    assert!(!health(&mut cluster).contains(code));
    cluster.world.ok(r#"{"prefix":"osd pool set","pool":"e","var":"min_size","val":"4"}"#);
    let found = health(&mut cluster);
    assert!(found.contains(code) && found.contains("pool 'e' takes writes with 4 shards"), "{found}");
    cluster.world.ok(&format!(r#"{{"prefix":"health mute","code":"{code}"}}"#));
    cluster.world.ok(r#"{"prefix":"osd pool set","pool":"e","var":"min_size","val":"5"}"#);
    assert!(!health(&mut cluster).contains("takes writes with"));
}

#[test]
fn holes_are_shown_as_ceph_shows_them() {
    let mut cluster = cluster();
    profile(&mut cluster.world, "p42", &["k=4", "m=2"]);
    cluster.world.ok(&create("e", "p42"));
    cluster.pass(2);
    let at = cluster.map().placed(PgId::new(1, 2)).clone();
    assert_eq!(at.acting.len(), 6);
    let lost = at.acting[3];
    cluster.world.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    cluster.lose(lost);
    let now = cluster.map().placed(PgId::new(1, 2)).clone();
    let mut holed = at.acting.clone();
    holed[3] = types::HOLE;
    assert_eq!(now.acting, holed);
    let text = cluster.world.ok(r#"{"prefix":"pg map","pgid":"1.2"}"#);
    assert!(text.contains("NONE"), "{text}");
    let value: Value = serde_json::from_str(&cluster.world.ok(r#"{"prefix":"pg map","pgid":"1.2","format":"json"}"#)).unwrap();
    assert_eq!(value["acting"][3], json!(2147483647), "{value}");
    let dump = cluster.world.ok(r#"{"prefix":"pg dump","dumpcontents":["pgs_brief"]}"#);
    let line = dump.lines().find(|line| line.starts_with("1.2 ")).unwrap_or_default();
    assert!(line.contains("NONE"), "{dump}");
    // Lists by hand name each place.
    let told = cluster.world.refused(22, r#"{"prefix":"osd pg-upmap","pgid":"1.2","id":["0","1","2","3","4"]}"#);
    assert!(told.contains("each shard has its place"), "{told}");
    assert!(get(&mut cluster.world, "e", "erasure_code_profile").contains("p42"));
}

/// The primary of a group may be led elsewhere while a place has nobody, and what means nothing goes.
#[test]
fn wishes_name_places_and_holes() {
    let mut cluster = cluster();
    profile(&mut cluster.world, "p42", &["k=4", "m=2"]);
    cluster.world.ok(&create("e", "p42"));
    cluster.pass(2);
    let pg = PgId::new(1, 1);
    let map = cluster.map();
    let at = map.placed(pg).clone();
    let spare = (0..7).find(|osd| !at.acting.contains(osd)).expect("the seventh");
    let wish = |cluster: &mut Cluster, osds: &[OsdId]| {
        let map = cluster.map();
        cluster.wish(map.placed(pg).acting_primary, map.epoch, vec![(pg, osds.to_vec())]);
        cluster.pass(1);
        cluster.map().pg_temp.get(&pg).cloned()
    };
    let mut holed = at.acting.clone();
    holed[2] = HOLE;
    holed[4] = spare;
    // One OSD at two places, and a list that is too short, are no wishes.
    let twice = [holed[0], holed[0], holed[2], holed[3], holed[4], holed[5]];
    assert_eq!(wish(&mut cluster, &twice), None);
    assert_eq!(wish(&mut cluster, &holed[..5]), None);
    assert_eq!(wish(&mut cluster, &holed), Some(holed.clone()));
    let placed = cluster.map().placed(pg).clone();
    assert_eq!((&placed.acting, placed.acting_primary), (&holed, holed[0]));
    // One of them goes down: its place is a hole until it comes back.
    cluster.world.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    cluster.lose(holed[0]);
    let map = cluster.map();
    assert_eq!(map.pg_temp.get(&pg), Some(&holed));
    let acting = &map.placed(pg).acting;
    assert_eq!((acting[0], &acting[1..]), (HOLE, &holed[1..]));
    assert_eq!(map.leading_shard(pg), ShardId(1));
    // Nobody of it is left: it says nothing any more.
    for osd in holed[1..].iter().filter(|osd| **osd != HOLE) {
        cluster.lose(*osd);
    }
    assert_eq!(cluster.map().pg_temp.get(&pg), None);
}
