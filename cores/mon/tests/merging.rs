//! Pools get fewer groups, one at a time: who has to say what before the map changes.

mod common;

use common::SPACE;
use common::cluster::{CLEAN, Cluster};
use maps::Pool;
use messages::internal::{OsdReport, PgReport};
use std::time::Duration;
use types::{EVersion, PgId, PgState};

const HELD: PgState = PgState::PEERED.with(PgState::PREMERGE);
const READY: PgState = HELD.with(PgState::CLEAN);

/// A cluster of three OSDs with a pool of three copies and eight groups that are clean.
fn cluster() -> Cluster {
    let mut cluster = Cluster::with_pool(3, 3, 8);
    tell(&mut cluster, |_| CLEAN);
    cluster
}

fn pool(cluster: &mut Cluster) -> Pool {
    cluster.map().pools[&1].clone()
}

/// All OSDs say that they have the newest map, and in which state the groups are that they lead.
fn tell(cluster: &mut Cluster, state: impl Fn(u32) -> PgState) {
    let map = cluster.map();
    for osd in 0..3 {
        let led = (0..map.pools[&1].pg_num).filter(|seed| map.placed(PgId::new(1, *seed)).acting_primary == osd);
        let told = led.map(|seed| PgReport {
            pg: PgId::new(1, seed),
            state: state(seed),
            reported: EVersion::new(map.epoch, 1),
            version: EVersion::new(3, 100 + u64::from(seed)),
            last_epoch_clean: map.epoch,
            ..PgReport::default()
        });
        let report = OsdReport { osd, epoch: map.epoch, space: SPACE, pgs: told.collect(), ..OsdReport::default() };
        cluster.world.send(cluster.osds[osd as usize], report.encode());
    }
}

/// Lets the leader take a few steps while all groups stay in these states.
fn go_on(cluster: &mut Cluster, state: impl Fn(u32) -> PgState + Copy) {
    for _ in 0..6 {
        tell(cluster, state);
        cluster.world.pass(Duration::from_millis(600));
    }
}

#[test]
fn the_last_group_is_merged_when_both_are_ready() {
    let mut cluster = cluster();
    assert_eq!(cluster.set("pg_num", "7").0, 0);
    let aimed = pool(&mut cluster);
    assert_eq!((aimed.pg_num, aimed.pg_num_target, aimed.pgp_num_target), (8, 7, 7));
    go_on(&mut cluster, |_| CLEAN);
    let announced = pool(&mut cluster);
    assert_eq!((announced.pg_num, announced.pgp_num, announced.pg_num_pending), (8, 7, 7));
    let map = cluster.map();
    assert_eq!(map.placed(PgId::new(1, 7)), map.placed(PgId::new(1, 3)), "both lie on the same OSDs");
    // One alone is not enough, and neither are two that are not clean yet.
    tell(&mut cluster, |seed| if seed == 7 { READY } else { CLEAN });
    cluster.world.pass(Duration::from_secs(1));
    tell(&mut cluster, |seed| if seed == 7 { READY } else { HELD });
    cluster.world.pass(Duration::from_secs(1));
    assert_eq!(pool(&mut cluster).pg_num, 8);
    tell(&mut cluster, |seed| if seed % 4 == 3 { READY } else { CLEAN });
    let merged = pool(&mut cluster);
    assert_eq!((merged.pg_num, merged.pgp_num, merged.pg_num_pending, merged.pg_num_target), (7, 7, 7, 7), "at once");
    let last = merged.last_pg_merge_meta;
    assert_eq!((last.source_pgid, last.ready_epoch), (PgId::new(1, 7), cluster.map().epoch));
    assert_eq!((last.source_version, last.target_version), (EVersion::new(3, 107), EVersion::new(3, 103)));
}

#[test]
fn a_report_by_an_older_map_does_not_count() {
    let mut cluster = cluster();
    cluster.set("pg_num", "7");
    go_on(&mut cluster, |_| CLEAN);
    let pending_since = pool(&mut cluster).last_change;
    for seed in [3, 7] {
        let osd = cluster.primary(seed);
        let (reported, version) = (EVersion::new(pending_since - 1, 9), EVersion::new(3, 1));
        let pgs = vec![PgReport { pg: PgId::new(1, seed), state: READY, reported, version, ..PgReport::default() }];
        let report = OsdReport { osd, epoch: pending_since - 1, space: SPACE, pgs, ..OsdReport::default() };
        cluster.world.send(cluster.osds[osd as usize], report.encode());
    }
    cluster.world.pass(Duration::from_secs(2));
    assert_eq!(pool(&mut cluster).pg_num, 8);
}

#[test]
fn groups_that_do_not_become_ready_serve_again() {
    let mut cluster = cluster();
    cluster.set("pg_num", "7");
    go_on(&mut cluster, |_| CLEAN);
    assert_eq!(pool(&mut cluster).pg_num_pending, 7);
    let held = |seed: u32| if seed % 4 == 3 { HELD } else { CLEAN };
    for _ in 0..13 {
        tell(&mut cluster, held);
        cluster.world.pass(Duration::from_secs(1));
    }
    let back = pool(&mut cluster);
    assert_eq!((back.pg_num, back.pg_num_pending, back.pg_num_target), (8, 8, 7));
    // Once they are clean it begins anew.
    go_on(&mut cluster, |_| CLEAN);
    go_on(&mut cluster, |_| CLEAN);
    assert_eq!(pool(&mut cluster).pg_num_pending, 7);
}

#[test]
fn a_pool_that_changes_all_the_time_gets_fewer_groups_all_the_same() {
    let mut cluster = cluster();
    cluster.set("pg_num", "7");
    // As when clients make and remove snapshots: what OSDs report is never of the pool's last change.
    for round in 0..8 {
        tell(&mut cluster, |_| CLEAN);
        assert_eq!(cluster.set("min_size", if round % 2 == 0 { "1" } else { "2" }).0, 0);
        cluster.world.pass(Duration::from_millis(600));
    }
    let announced = pool(&mut cluster);
    assert_eq!((announced.pgp_num, announced.pg_num_pending), (7, 7));
}

#[test]
fn who_wants_more_groups_again_ends_a_merge_that_is_announced() {
    let mut cluster = cluster();
    cluster.set("pg_num", "7");
    go_on(&mut cluster, |_| CLEAN);
    assert_eq!(pool(&mut cluster).pg_num_pending, 7);
    assert_eq!(cluster.set("pg_num", "8").0, 0);
    let same = pool(&mut cluster);
    assert_eq!((same.pg_num, same.pg_num_pending, same.pg_num_target), (8, 8, 8));
    assert_eq!(cluster.set("pg_num", "0").0, -34);
    assert_eq!(cluster.set("pg_num_min", "4").0, 0);
    let (result, status) = cluster.set("pg_num", "3");
    assert_eq!(result, -22);
    assert!(status.contains("pg_num_min 4"), "{status}");
}
