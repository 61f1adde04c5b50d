//! Pools of several copies: their sizes, what primaries ask for while they peer, and how their groups are made.

mod common;

use common::cluster::Cluster;
use common::{Disk, FSID, World};
use maps::pool_flags;
use messages::internal::{Failure, OsdAlive, OsdFailures, PgReport};
use messages::mon::OsdMapMsg;
use messages::stats::ObjectStatSum;
use std::time::Duration;
use types::{OsdId, PgId, PgState};

#[test]
fn an_osd_that_leads_is_known_to_be_up_in_the_next_map_and_only_once() {
    let mut cluster = Cluster::with_pool(3, 3, 8);
    let epoch = cluster.map().epoch;
    cluster.alive(1, epoch, epoch);
    let map = cluster.map();
    assert_eq!((map.epoch, map.info(1).unwrap().up_thru), (epoch + 1, epoch), "at once, without a tick");
    // It is there already, or cannot be: an epoch that does not exist, a map from before it came up.
    cluster.alive(1, epoch + 1, epoch);
    cluster.alive(1, epoch + 1, epoch - 1);
    cluster.alive(2, epoch + 1, epoch + 2);
    cluster.alive(2, map.up_from(2) - 1, epoch);
    assert_eq!(cluster.map().epoch, epoch + 1);
    // Nobody speaks for another one.
    cluster.world.send(cluster.osds[0], OsdAlive { osd: 2, epoch, want: epoch }.encode());
    cluster.world.send(cluster.client, OsdAlive { osd: 2, epoch, want: epoch }.encode());
    assert_eq!(cluster.map().epoch, epoch + 1);
    // What comes in one round is one map.
    for osd in [0, 2] {
        let peer = cluster.osds[osd as usize];
        let peer = &mut cluster.world.peers[peer];
        peer.messenger.send(peer.session, OsdAlive { osd, epoch: epoch + 1, want: epoch + 1 }.encode());
    }
    cluster.world.run();
    let map = cluster.map();
    assert_eq!((map.epoch, map.info(0).unwrap().up_thru, map.info(2).unwrap().up_thru), (epoch + 2, epoch + 1, epoch + 1));
}

#[test]
fn who_keeps_the_log_busy_keeps_nobody_from_being_marked_down_or_known_to_be_up() {
    let mut cluster = Cluster::with_pool(3, 3, 8);
    let map = cluster.map();
    cluster.world.hold = true;
    let mut busy = (0..200).map(|n| format!(r#"{{"prefix":"config-key set","key":"k","val":"{n}"}}"#));
    cluster.world.begin_call(&busy.next().unwrap());
    let failed = vec![Failure { osd: 2, up_from: map.up_from(2), refused: true, ..Failure::default() }];
    cluster.world.send(cluster.osds[0], OsdFailures { osd: 0, epoch: map.epoch, failed }.encode());
    cluster.alive(1, map.epoch, map.epoch);
    // Before the disk does what it was asked for, somebody asks for the next change: one is always on its way.
    let mut disk_rounds = 0;
    for command in busy {
        let asked = std::mem::take(&mut cluster.world.held);
        cluster.world.begin_call(&command);
        asked.into_iter().for_each(|request| cluster.world.do_disk(request));
        cluster.world.run();
        disk_rounds += 1;
        let newest = cluster.map();
        if !newest.is_up(2) && newest.info(1).is_some_and(|info| info.up_thru == map.epoch) {
            return assert!(disk_rounds < 10, "{disk_rounds} rounds of the disk");
        }
    }
    panic!("while others change something, nothing is granted");
}

#[test]
fn primaries_choose_other_members_for_a_time() {
    let mut cluster = Cluster::with_pool(3, 2, 16);
    let map = cluster.map();
    let groups = || (0..16).map(|seed| PgId::new(1, seed));
    let led_by = |osd: OsdId| groups().filter(|pg| map.placed(*pg).acting_primary == osd).collect::<Vec<PgId>>();
    let leads = (0..3).find(|osd| led_by(*osd).len() >= 2).unwrap();
    let led = led_by(leads);
    let other = |pg: PgId| (0..3).find(|osd| !map.placed(pg).up.contains(osd)).unwrap();
    let wishes: Vec<_> = led.iter().map(|pg| (*pg, vec![other(*pg), leads])).collect();
    cluster.wish(leads, map.epoch, wishes.clone());
    let next = cluster.map();
    assert_eq!(next.epoch, map.epoch + 1, "all of them in one map");
    for (pg, osds) in &wishes {
        let placed = next.placed(*pg);
        assert_eq!((&placed.acting, placed.acting_primary, &placed.up), (osds, osds[0], &map.placed(*pg).up));
    }
    // The new primary wishes it undone: by naming nobody, or those whom the map names.
    let newest = next.epoch;
    let mut others = wishes.iter().map(|(pg, osds)| (*pg, osds[0]));
    let ((first, leads), (second, leads_too)) = (others.next().unwrap(), others.next().unwrap());
    cluster.wish(leads, newest, vec![(first, Vec::new())]);
    let up = map.placed(second).up.clone();
    cluster.wish(leads_too, newest, vec![(second, up)]);
    let next = cluster.map();
    // The end of a wish waits for a moment; it goes with the next map that somebody waits for.
    assert_eq!((next.epoch, next.pg_temp.len()), (newest + 1, led.len() - 2));
}

#[test]
fn wishes_that_do_not_fit_are_not_granted() {
    let mut cluster = Cluster::with_pool(4, 3, 8);
    let map = cluster.map();
    let pg = PgId::new(1, 0);
    let placed = map.placed(pg).clone();
    let (primary, member) = (placed.acting_primary, placed.acting[1]);
    let spare = (0..4).find(|osd| !placed.up.contains(osd)).unwrap();
    let good = vec![member, primary, spare];
    let wrong: Vec<(&str, OsdId, u32, PgId, Vec<OsdId>)> = vec![
        ("not the primary", member, map.epoch, pg, good.clone()),
        ("twice the same", primary, map.epoch, pg, vec![member, member]),
        ("an OSD that is none", primary, map.epoch, pg, vec![member, 7]),
        ("a negative one", primary, map.epoch, pg, vec![member, -1]),
        ("more than there are copies", primary, map.epoch, pg, vec![0, 1, 2, 3]),
        ("no such group", primary, map.epoch, PgId::new(1, 8), good.clone()),
        ("no such pool", primary, map.epoch, PgId::new(9, 0), good.clone()),
        ("a map to come", primary, map.epoch + 1, pg, good.clone()),
        ("what is anyway", primary, map.epoch, pg, placed.up.clone()),
    ];
    for (why, osd, epoch, pg, osds) in wrong {
        cluster.wish(osd, epoch, vec![(pg, osds)]);
        assert_eq!(cluster.map().epoch, map.epoch, "{why}");
    }
    // An older map will do as long as the group's interval is the same.
    cluster.world.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    cluster.wish(primary, map.epoch, vec![(pg, good.clone())]);
    assert_eq!(cluster.map().placed(pg).acting, good);
    // It was another interval: the wish is of no use, although its sender leads again.
    let led = cluster.map().epoch;
    cluster.wish(member, led, vec![(pg, Vec::new())]);
    cluster.wish(primary, map.epoch, vec![(pg, good)]);
    assert!(cluster.map().pg_temp.is_empty());
    cluster.world.ok(&format!(r#"{{"prefix":"osd down","ids":["{spare}"]}}"#));
    let newest = cluster.map().epoch;
    cluster.wish(primary, newest, vec![(pg, vec![member, spare])]);
    assert!(cluster.map().pg_temp.is_empty(), "an OSD that is down");
}

#[test]
fn entries_that_mean_nothing_any_more_go() {
    let mut cluster = Cluster::with_pool(4, 2, 8);
    let map = cluster.map();
    let (pg, other) = (PgId::new(1, 0), PgId::new(1, 1));
    let acting = |pg: PgId| {
        let placed = map.placed(pg);
        (placed.acting_primary, (0..4).find(|osd| !placed.up.contains(osd)).unwrap())
    };
    for pg in [pg, other] {
        let (primary, spare) = acting(pg);
        cluster.wish(primary, map.epoch, vec![(pg, vec![spare])]);
    }
    assert_eq!(cluster.map().pg_temp.len(), 2);
    let (_, spare) = acting(pg);
    cluster.world.ok(&format!(r#"{{"prefix":"osd down","ids":["{spare}"]}}"#));
    assert!(!cluster.map().pg_temp.contains_key(&pg), "all of its OSDs are down");
    cluster.world.ok(r#"{"prefix":"config set","who":"mon","name":"mon_allow_pool_delete","value":"true"}"#);
    cluster.world.ok(r#"{"prefix":"osd pool delete","pool":"p","pool2":"p","yes_i_really_really_mean_it":true}"#);
    assert!(cluster.map().pg_temp.is_empty());
}

#[test]
fn pools_have_one_to_ten_copies_and_change_while_they_live() {
    let mut cluster = Cluster::with_pool(3, 3, 8);
    let map = cluster.map();
    let pool = &map.pools[&1];
    assert_eq!((pool.size, pool.min_size, map.placed(PgId::new(1, 0)).acting.len()), (3, 2, 3));
    for (var, val, errno, word) in [
        ("size", "0", 22, "pool size must be between 1 and 10"),
        ("size", "11", 22, "pool size must be between 1 and 10"),
        ("size", "many", 22, "'many'"),
        ("size", "1", 1, "--yes-i-really-mean-it"),
        ("min_size", "0", 22, "pool min_size must be between 1 and size, which is set to 3"),
        ("min_size", "4", 22, "pool min_size must be between 1 and size, which is set to 3"),
    ] {
        let (result, why) = cluster.set(var, val);
        assert_eq!(result, -errno, "{var} {val}: {why}");
        assert!(why.contains(word), "{var} {val}: {why}");
    }
    assert_eq!(cluster.set("min_size", "3").0, 0);
    assert_eq!(cluster.set("size", "2").0, 0);
    let map = cluster.map();
    let pool = &map.pools[&1];
    assert_eq!((pool.size, pool.min_size, pool.last_change), (2, 1, map.epoch));
    assert_eq!(pool.last_force_op_resend, 0, "clients see the new interval by the map itself");
    cluster.world.ok(r#"{"prefix":"osd pool set","pool":"p","var":"size","val":"1","yes_i_really_mean_it":true}"#);
    assert_eq!(cluster.map().pools[&1].min_size, 1);
    // More copies than there are places: allowed, and health says so.
    assert_eq!(cluster.set("size", "5").0, 0);
    cluster.world.ok(r#"{"prefix":"config set","who":"mon","name":"mon_allow_pool_size_one","value":"false"}"#);
    cluster.world.refused(1, r#"{"prefix":"osd pool set","pool":"p","var":"size","val":"1","yes_i_really_mean_it":true}"#);
    cluster.world.refused(1, r#"{"prefix":"osd pool create","pool":"q","pg_num":8,"size":1}"#);
    cluster.world.refused(22, r#"{"prefix":"osd pool create","pool":"q","pg_num":8,"size":11}"#);
    cluster.world.ok(r#"{"prefix":"osd pool set","pool":"p","var":"nosizechange","val":"true"}"#);
    assert_eq!(cluster.set("size", "3").0, -1);
    for (name, value) in [("osd_pool_default_size", 3), ("osd_pool_default_min_size", 1)] {
        cluster.world.ok(&format!(r#"{{"prefix":"config set","who":"global","name":"{name}","value":"{value}"}}"#));
    }
    cluster.world.ok(r#"{"prefix":"osd pool create","pool":"q","pg_num":8}"#);
    let map = cluster.map();
    assert_eq!((map.pools[&2].size, map.pools[&2].min_size), (3, 1));
}

#[test]
fn no_group_is_kept_from_where_the_map_places_it() {
    let mut cluster = Cluster::with_pool(3, 2, 32);
    cluster.world.ok(r#"{"prefix":"osd pool create","pool":"one","pg_num":32,"pgp_num":32}"#);
    assert!([1, 2].iter().all(|id| cluster.map().pg_upmap_items.keys().any(|pg| pg.pool == *id)), "new pools are spread");
    cluster.world.ok(r#"{"prefix":"osd out","ids":["0"]}"#);
    let map = cluster.map();
    assert!(map.pg_temp.is_empty());
    assert!((1..3).all(|pool| (0..32).all(|seed| !map.placed(PgId::new(pool, seed)).acting.contains(&0))));
    // Who has the only copy says so, and goes on serving until it is where it belongs.
    let pg = PgId::new(2, 0);
    let leader = map.placed(pg).acting_primary;
    let other = 3 - leader;
    cluster.wish(leader, map.epoch, vec![(pg, vec![other])]);
    assert_eq!(cluster.map().placed(pg).acting, [other]);
    cluster.world.ok(&format!(r#"{{"prefix":"osd down","ids":["{other}"]}}"#));
    assert_eq!(cluster.map().pg_temp[&pg], [other], "it is known who has the data");
    let map = cluster.map();
    assert_eq!(map.placed(pg).acting, [leader]);
}

#[test]
fn what_was_pinned_by_an_older_release_waits_for_a_person() {
    let mut cluster = Cluster::with_pool(2, 1, 4);
    let leader = cluster.primary(0);
    cluster.world.ok(&format!(r#"{{"prefix":"osd pg-temp","pgid":"1.0","id":["{}"]}}"#, 1 - leader));
    let again = |disk: &Disk| World::with(common::config(mon::AuthMode::None), disk.clone());
    let flags = |world: &mut World| world.ok(r#"{"prefix":"osd dump"}"#).contains("norebalance");
    assert!(!flags(&mut again(&cluster.world.disk)), "this cluster never pinned anything");
    // One that did has no mark.
    cluster.world.ok(r#"{"prefix":"config-key rm","key":"nacre/one-copy-moves"}"#);
    let mut world = again(&cluster.world.disk);
    assert!(flags(&mut world));
    assert!(world.ok(r#"{"prefix":"health"}"#).contains("norebalance flag(s) set"));
    assert!(world.ok(r#"{"prefix":"log last"}"#).contains("'ceph osd unset norebalance' moves them"));
    world.ok(r#"{"prefix":"osd unset","key":"norebalance"}"#);
    assert!(!flags(&mut again(&world.disk)), "once is enough");
}

#[test]
fn a_pool_is_in_creation_until_each_group_was_active_once() {
    let mut cluster = Cluster::with_pool(3, 3, 4);
    let creating = |cluster: &mut Cluster| cluster.map().pools[&1].has_flag(pool_flags::CREATING);
    let (active, peering) = (PgState::ACTIVE.with(PgState::CLEAN), PgState::CREATING.with(PgState::PEERING));
    assert!(creating(&mut cluster));
    assert_eq!(cluster.set("pg_num", "8").0, 0);
    assert_eq!(cluster.map().pools[&1].pg_num, 4, "it is split when it is made");
    for seed in 0..3 {
        let primary = cluster.primary(seed);
        cluster.report(primary, seed, active);
    }
    let primary = cluster.primary(3);
    cluster.report(primary, 3, peering);
    cluster.report((primary + 1) % 3, 3, active);
    cluster.world.pass(Duration::from_secs(2));
    assert!(creating(&mut cluster), "the last one is not active yet, or its primary did not say so");
    // What was active once need not be so any more.
    let first = cluster.primary(0);
    cluster.report(first, 0, PgState::PEERING);
    cluster.report(primary, 3, active);
    assert!(!creating(&mut cluster), "at once");
    let map = cluster.map();
    let pool = &map.pools[&1];
    assert_eq!((pool.pg_num, pool.pgp_num, pool.pgp_num_target), (8, 4, 8), "moved apart later");
    assert_eq!(map.fsid, FSID);
}

#[test]
fn a_monitor_that_starts_again_hears_anew_what_is_active() {
    let mut cluster = Cluster::with_pool(2, 2, 2);
    let active = PgState::ACTIVE.with(PgState::CLEAN);
    let first = cluster.primary(0);
    cluster.report(first, 0, active);
    cluster = Cluster::of(World::with(common::config(mon::AuthMode::None), cluster.world.disk.clone()), 2);
    let second = cluster.primary(1);
    cluster.report(second, 1, active);
    cluster.world.pass(Duration::from_secs(1));
    assert!(cluster.map().pools[&1].has_flag(pool_flags::CREATING));
    cluster.report(first, 0, active);
    assert!(!cluster.map().pools[&1].has_flag(pool_flags::CREATING));
}

/// Changes the map so often.
fn stir(cluster: &mut Cluster, times: usize) {
    for n in 0..times {
        cluster.world.ok(&format!(r#"{{"prefix":"osd {}set","key":"noout"}}"#, if n % 2 == 0 { "" } else { "un" }));
    }
}

fn oldest_map(cluster: &mut Cluster) -> u32 {
    cluster.world.subscribe(cluster.client, "osdmap", 1, true);
    let messages = cluster.world.take(cluster.client, OsdMapMsg::KIND);
    OsdMapMsg::decode(&messages[0]).unwrap().oldest
}

#[test]
fn maps_are_kept_since_each_group_was_clean() {
    let mut cluster = Cluster::with_pool(2, 2, 2);
    stir(&mut cluster, 600);
    assert_eq!(oldest_map(&mut cluster), 1, "nothing is known of the groups");
    let clean = PgState::ACTIVE.with(PgState::CLEAN);
    let degraded = PgState::ACTIVE.with(PgState::DEGRADED);
    let (first, second) = (cluster.primary(0), cluster.primary(1));
    let report = |cluster: &mut Cluster, osd: OsdId, seed: u32, state: PgState, last_epoch_clean: u32| {
        cluster.report_with(osd, PgReport { pg: PgId::new(1, seed), state, last_epoch_clean, ..PgReport::default() });
    };
    report(&mut cluster, first, 0, clean, 400);
    report(&mut cluster, second, 1, degraded, 90);
    stir(&mut cluster, 40);
    assert_eq!(oldest_map(&mut cluster), 64, "a group may need the map of epoch 90");
    // Both are clean; the one that says so follows the map, although it has nothing new to say of its group.
    report(&mut cluster, second, 1, clean, 590);
    let epoch = cluster.map().epoch;
    for osd in [first, second] {
        cluster.report_epoch(osd, epoch);
    }
    stir(&mut cluster, 40);
    let (oldest, newest) = (oldest_map(&mut cluster), cluster.map().epoch);
    assert!((500..600).contains(&(newest - oldest)), "{oldest}...{newest}: some are kept for clients");
}

#[test]
fn groups_are_moved_apart_a_few_at_a_time() {
    let mut cluster = Cluster::with_pool(4, 3, 32);
    let clean = PgState::ACTIVE.with(PgState::CLEAN);
    let stats = ObjectStatSum { num_objects: 10, num_object_copies: 30, ..ObjectStatSum::default() };
    cluster.all(32, clean, stats);
    let spare = cluster.map().placed(PgId::new(1, 5)).up.iter().copied().fold(6, |left, osd| left - osd);
    let first = cluster.primary(5);
    cluster.world.ok(&format!(r#"{{"prefix":"osd pg-upmap-items","pgid":"1.5","id":["{first}","{spare}"]}}"#));
    assert_eq!(cluster.set("pg_num", "64").0, 0);
    let map = cluster.map();
    assert_eq!(map.placed(PgId::new(1, 37)).up, map.placed(PgId::new(1, 5)).up, "a child lies where its parent does");
    let pool = |cluster: &mut Cluster| {
        let pool = cluster.map().pools[&1].clone();
        (pool.pg_num, pool.pgp_num, pool.pgp_num_target)
    };
    assert_eq!(pool(&mut cluster), (64, 32, 64), "split, and all groups still lie beside their parents");
    cluster.all(64, clean, stats);
    cluster.pass(2);
    assert_eq!(pool(&mut cluster), (64, 32, 64), "some OSD may not know of the last step yet");
    let follow = |cluster: &mut Cluster| {
        let epoch = cluster.map().epoch;
        (0..4).for_each(|osd| cluster.report_epoch(osd, epoch));
        cluster.world.pass(Duration::from_secs(1));
    };
    follow(&mut cluster);
    assert_eq!(pool(&mut cluster), (64, 35, 64), "a twentieth of them");
    let primary = cluster.primary(0);
    let misplaced = ObjectStatSum { num_objects_misplaced: 97, ..stats };
    cluster.report_stats(primary, 0, PgState::ACTIVE.with(PgState::BACKFILLING), misplaced);
    follow(&mut cluster);
    assert_eq!(pool(&mut cluster), (64, 35, 64), "too much is at the wrong place");
    let primary = cluster.primary(0);
    cluster.report_stats(primary, 0, PgState::PEERING, stats);
    follow(&mut cluster);
    assert_eq!(pool(&mut cluster), (64, 35, 64), "a group does not serve");
    cluster.report_stats(primary, 0, clean, stats);
    for _ in 0..20 {
        follow(&mut cluster);
    }
    assert_eq!(pool(&mut cluster), (64, 64, 64));
    assert_eq!(cluster.set("pgp_num_actual", "60").0, 0);
    assert_eq!(pool(&mut cluster), (64, 60, 60));
}
