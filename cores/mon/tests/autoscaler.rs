//! Numbers of placement groups that change by themselves, or are only said.

mod common;

use common::cluster::Cluster;
use messages::internal::{OsdReport, Space};
use messages::stats::ObjectStatSum;
use serde_json::Value;
use types::PgState;

const GROUPS: u32 = 8;
const DISK: u64 = 20 << 30;

/// Three OSDs of 20 GiB and a pool of three copies and eight groups, which hold so many bytes together.
fn cluster(mode: &str, bytes: i64) -> Cluster {
    let mut cluster = Cluster::with_pool(3, 3, GROUPS);
    cluster.world.ok(r#"{"prefix":"config set","who":"mgr","name":"mgr/pg_autoscaler/sleep_interval","value":"2"}"#);
    assert_eq!(cluster.set("pg_autoscale_mode", mode).0, 0);
    fill(&mut cluster, GROUPS, bytes);
    cluster
}

/// So many groups are clean and hold so many bytes together; time passes.
fn fill(cluster: &mut Cluster, groups: u32, bytes: i64) {
    let stats =
        ObjectStatSum { num_objects: 1, num_bytes: bytes / i64::from(groups), num_object_copies: 3, ..Default::default() };
    cluster.all(groups, PgState::ACTIVE.with(PgState::CLEAN), stats);
    let epoch = cluster.map().epoch;
    for osd in 0..3 {
        let space = Space { total: DISK, available: DISK / 2, data: 0, omap: 0, meta: 0 };
        cluster.world.send(cluster.osds[osd as usize], OsdReport { osd, epoch, space, ..OsdReport::default() }.encode());
    }
    cluster.world.pass(std::time::Duration::from_secs(4));
}

fn pg_num(cluster: &mut Cluster) -> (u32, u32) {
    let map = cluster.map();
    (map.pools[&1].pg_num, map.pools[&1].pg_num_target)
}

fn advice(cluster: &mut Cluster) -> Value {
    let all = cluster.world.ok(r#"{"prefix":"osd pool autoscale-status","format":"json"}"#);
    serde_json::from_str::<Value>(&all).unwrap()[0].clone()
}

#[test]
fn new_pools_are_scaled_and_one_that_holds_little_keeps_its_groups() {
    let mut cluster = cluster("on", 0);
    cluster.world.ok(r#"{"prefix":"osd pool create","pool":"q","pg_num":1}"#);
    assert_eq!(cluster.map().pools[&2].pg_autoscale_mode, 2, "on, as in Ceph");
    assert_eq!(pg_num(&mut cluster), (GROUPS, GROUPS));
    assert_eq!(advice(&mut cluster)["would_adjust"], false);
}

#[test]
fn a_pool_that_fills_the_disks_gets_more_groups_once() {
    // Half of all space: half of 300 copies of groups, so 50 groups, so 64.
    let mut cluster = cluster("on", 10 << 30);
    assert_eq!(pg_num(&mut cluster), (64, 64));
    let log = cluster.world.ok(r#"{"prefix":"log last","num":50}"#);
    assert!(log.contains("pool 'p' gets 64 placement groups, it had 8"), "{log}");
    let progress = cluster.world.ok(r#"{"prefix":"progress"}"#);
    assert!(progress.contains("PG autoscaler increasing pool 1 PGs from 8 to 64"), "{progress}");
    for _ in 0..40 {
        fill(&mut cluster, 64, 10 << 30);
    }
    assert_eq!(cluster.map().pools[&1].pgp_num, 64, "the new groups are moved in steps");
    let progress = cluster.world.ok(r#"{"prefix":"progress"}"#);
    assert!(progress.contains("[Complete]: PG autoscaler increasing pool 1"), "{progress}");
    fill(&mut cluster, 64, 14 << 30);
    assert_eq!(pg_num(&mut cluster), (64, 64), "three quarters are no factor of three");
}

#[test]
fn nothing_is_split_while_groups_do_not_serve() {
    let mut cluster = cluster("off", 10 << 30);
    cluster.report(0, 3, PgState::PEERING);
    let primary = cluster.primary(3);
    cluster.report(primary, 3, PgState::PEERING);
    cluster.set("pg_autoscale_mode", "on");
    cluster.world.pass(std::time::Duration::from_secs(4));
    assert_eq!(pg_num(&mut cluster), (GROUPS, GROUPS));
    fill(&mut cluster, GROUPS, 10 << 30);
    assert_eq!(pg_num(&mut cluster), (64, 64));
}

#[test]
fn a_pool_that_is_watched_is_a_warning_and_one_that_is_not_is_none() {
    let mut cluster = cluster("warn", 10 << 30);
    assert_eq!(pg_num(&mut cluster), (GROUPS, GROUPS));
    let health = cluster.world.ok(r#"{"prefix":"health","detail":"detail"}"#);
    assert!(health.contains("POOL_TOO_FEW_PGS") && health.contains("Pool p has 8 placement groups, should have 64"), "{health}");
    assert_eq!(advice(&mut cluster)["pg_num_final"], 64);
    cluster.set("pg_autoscale_mode", "off");
    fill(&mut cluster, GROUPS, 10 << 30);
    assert_eq!(pg_num(&mut cluster), (GROUPS, GROUPS));
    assert!(!cluster.world.ok(r#"{"prefix":"health"}"#).contains("placement groups"));
}

#[test]
fn bounds_flags_and_expectations_count() {
    let mut cluster = cluster("on", 0);
    assert_eq!(cluster.set("pg_num_max", "32").0, 0);
    assert_eq!(cluster.set("bulk", "true").0, 0);
    fill(&mut cluster, GROUPS, 0);
    assert_eq!(pg_num(&mut cluster), (32, 32));
    cluster.set("target_size_ratio", "0.5");
    cluster.set("target_size_bytes", "1G");
    let health = cluster.world.ok(r#"{"prefix":"health"}"#);
    assert!(health.contains("1 pools have both target_size_bytes and target_size_ratio set"), "{health}");
}

#[test]
fn the_flag_keeps_all_pools_as_they_are() {
    let mut cluster = cluster("on", 0);
    let say = |cluster: &mut Cluster, word: &str| cluster.world.call(&format!(r#"{{"prefix":"osd pool {word} noautoscale"}}"#)).1;
    assert_eq!(say(&mut cluster, "get"), "noautoscale is off");
    assert_eq!(say(&mut cluster, "set"), "noautoscale is set, all pools now have autoscale off");
    assert_eq!(say(&mut cluster, "set"), "noautoscale is already set!");
    assert_eq!(cluster.map().pools[&1].pg_autoscale_mode, 0);
    cluster.set("pg_autoscale_mode", "on");
    fill(&mut cluster, GROUPS, 10 << 30);
    assert_eq!(pg_num(&mut cluster), (GROUPS, GROUPS));
    assert_eq!(say(&mut cluster, "unset"), "noautoscale is unset, all pools now have autoscale on");
    fill(&mut cluster, GROUPS, 10 << 30);
    assert_eq!(pg_num(&mut cluster), (64, 64));
}

#[test]
fn too_many_groups_are_merged_where_they_are_too_many_for_the_osds() {
    let mut cluster = Cluster::with_pool(3, 3, 128);
    cluster.world.ok(r#"{"prefix":"config set","who":"mgr","name":"mgr/pg_autoscaler/sleep_interval","value":"2"}"#);
    cluster.set("pg_autoscale_mode", "warn");
    fill(&mut cluster, 128, 0);
    let health = cluster.world.ok(r#"{"prefix":"health","detail":"detail"}"#);
    assert!(
        health.contains("POOL_TOO_MANY_PGS") && health.contains("Pool p has 128 placement groups, should have 32"),
        "{health}"
    );
    assert_eq!(pg_num(&mut cluster), (128, 128), "it is only said");
    cluster.set("pg_autoscale_mode", "on");
    fill(&mut cluster, 128, 0);
    assert_eq!(pg_num(&mut cluster), (128, 32), "they are merged one by one");
    let mut small = Cluster::with_pool(3, 1, 128);
    fill(&mut small, 128, 0);
    assert!(!small.world.ok(r#"{"prefix":"health"}"#).contains("placement groups"), "128 copies are no burden for three OSDs");
    assert_eq!(pg_num(&mut small), (128, 128));
    let answer = small.world.call(r#"{"prefix":"osd pool autoscale-status"}"#);
    assert!(answer.1.contains(" 32  on") || answer.1.contains("keep their placement groups"), "{}", answer.1);
}
