//! What users are told when copies are missing, at the wrong place or nowhere: texts as recorded from Ceph 16.2.15,
//! with three OSDs and in a pool of three copies.

mod common;

use common::cluster::{CLEAN, Cluster, DEGRADED, objects};
use messages::internal::{OsdInstruct, PgReport};
use messages::stats::ObjectStatSum;
use serde_json::Value;
use types::{OsdId, PgId, PgState};

fn ok(cluster: &mut Cluster, command: &str) -> String {
    cluster.world.ok(&format!(r#"{{"prefix":{command}}}"#))
}

fn json(cluster: &mut Cluster, command: &str) -> Value {
    let text = ok(cluster, &format!(r#"{command},"format":"json""#));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{command}: {e}: {text}"))
}

/// An OSD goes down; the groups are reported as degraded by those that lead now.
fn lose(cluster: &mut Cluster, osd: OsdId) {
    cluster.lose(osd);
    cluster.all(4, DEGRADED, ObjectStatSum { num_objects_degraded: 10, ..objects(10) });
}

#[test]
fn missing_copies_are_shown_everywhere() {
    let mut cluster = Cluster::clean();
    lose(&mut cluster, 2);
    let status = ok(&mut cluster, r#""status""#);
    let wanted = "    pgs:     40/120 objects degraded (33.333%)\n             4 active+undersized+degraded\n";
    assert!(status.contains(wanted), "{status}");
    let line = ok(&mut cluster, r#""pg stat""#);
    assert!(line.starts_with("4 pgs: 4 active+undersized+degraded; 2.5 MiB data"), "{line}");
    assert!(line.ends_with("avail; 40/120 objects degraded (33.333%)\n"), "{line}");
    let stats = ok(&mut cluster, r#""osd pool stats""#);
    assert_eq!(stats, "pool p id 1\n  40/120 objects degraded (33.333%)\n\n");
    let pgmap = json(&mut cluster, r#""status""#)["pgmap"].clone();
    assert_eq!((&pgmap["degraded_objects"], &pgmap["degraded_total"]), (&40.into(), &120.into()));
    let health = ok(&mut cluster, r#""health","detail":"detail""#);
    let begin = "[WRN] PG_DEGRADED: Degraded data redundancy: 40/120 objects degraded (33.333%), 4 pgs degraded\n";
    assert!(health.contains(begin), "{health}");
    let acting = cluster.map().placed(PgId::new(1, 0)).acting.clone();
    let line = format!("    pg 1.0 is active+undersized+degraded, acting [{},{}]\n", acting[0], acting[1]);
    assert!(health.contains(&line), "{health}");
    // Two of three copies are there.
    let pool = json(&mut cluster, r#""df""#)["pools"][0]["stats"].clone();
    assert_eq!((&pool["stored"], &pool["bytes_used"]), (&(40 << 16).into(), &(80 << 16).into()));
    assert!(ok(&mut cluster, r#""pg ls","states":["degraded"]"#).contains("1.3"));
    let stuck = json(&mut cluster, r#""pg dump_stuck","stuckops":["undersized"]"#);
    assert!(stuck["stuck_pg_stats"].as_array().unwrap().is_empty(), "not for long enough");
    cluster.pass(61);
    let health = ok(&mut cluster, r#""health","detail":"detail""#);
    assert!(health.contains("(33.333%), 4 pgs degraded, 4 pgs undersized\n"), "{health}");
    assert!(health.contains("pg 1.0 is stuck undersized for 6"), "{health}");
    let stuck = json(&mut cluster, r#""pg dump_stuck","stuckops":["undersized"]"#);
    assert_eq!(stuck["stuck_pg_stats"].as_array().unwrap().len(), 4);
    // All is well again.
    cluster.all(4, CLEAN, objects(10));
    assert!(!ok(&mut cluster, r#""health""#).contains("PG_"));
}

#[test]
fn copies_elsewhere_objects_nowhere_and_damage_have_their_codes() {
    let mut cluster = Cluster::clean();
    let primary = cluster.primary(0);
    let moving = PgState::ACTIVE.with(PgState::REMAPPED).with(PgState::BACKFILLING);
    cluster.report_stats(primary, 0, moving, ObjectStatSum { num_objects_misplaced: 6, ..objects(10) });
    assert!(ok(&mut cluster, r#""status""#).contains("    pgs:     6/120 objects misplaced (5.000%)\n"));
    assert!(!ok(&mut cluster, r#""health""#).contains("misplaced"), "unless somebody wants to hear of it");
    ok(&mut cluster, r#""config set","who":"mon","name":"mon_warn_on_misplaced","value":"true""#);
    assert!(ok(&mut cluster, r#""health""#).contains("6/120 objects misplaced (5.000%)"));
    let unfound = DEGRADED.with(PgState::RECOVERY_UNFOUND);
    let stats = ObjectStatSum { num_objects_unfound: 2, num_objects_degraded: 2, ..objects(10) };
    cluster.report_stats(primary, 0, unfound, stats);
    let health = ok(&mut cluster, r#""health","detail":"detail""#);
    let acting: Vec<String> = cluster.map().placed(PgId::new(1, 0)).acting.iter().map(ToString::to_string).collect();
    for line in [
        "[WRN] OBJECT_UNFOUND: 2/40 objects unfound (5.000%)\n    pg 1.0 has 2 unfound objects\n".to_string(),
        format!(
            "[ERR] PG_DAMAGED: Possible data damage: 1 pg recovery_unfound\n    pg 1.0 is active+recovery_unfound+undersized+degraded, acting [{}], 2 unfound\n",
            acting.join(",")
        ),
    ] {
        assert!(health.contains(&line), "{line}{health}");
    }
    let stats = ObjectStatSum { num_scrub_errors: 1, num_objects_repaired: 11, ..objects(10) };
    cluster.report_stats(primary, 0, CLEAN.with(PgState::INCONSISTENT), stats);
    let health = ok(&mut cluster, r#""health","detail":"detail""#);
    for line in [
        "[ERR] OSD_SCRUB_ERRORS: 1 scrub errors\n".to_string(),
        "[ERR] PG_DAMAGED: Possible data damage: 1 pg inconsistent\n    pg 1.0 is active+clean+inconsistent, acting [".into(),
        format!("[WRN] OSD_TOO_MANY_REPAIRS: Too many repaired reads on 1 OSDs\n    osd.{primary} had 11 reads repaired\n"),
    ] {
        assert!(health.contains(&line), "{line}{health}");
    }
    let full = DEGRADED.with(PgState::RECOVERY_TOOFULL);
    cluster.report(primary, 0, full);
    let health = ok(&mut cluster, r#""health","detail":"detail""#);
    assert!(health.contains("[ERR] PG_RECOVERY_FULL: Full OSDs blocking recovery: 1 pg recovery_toofull\n"), "{health}");
    cluster.report(primary, 0, PgState::ACTIVE.with(PgState::REMAPPED).with(PgState::BACKFILL_TOOFULL));
    let health = ok(&mut cluster, r#""health""#);
    let text = "Low space hindering backfill (add storage if this doesn't resolve itself): 1 pg backfill_toofull";
    assert!(health.contains(text), "{health}");
}

#[test]
fn slow_operations_are_told_as_ceph_does_and_go_when_they_are_done() {
    let mut cluster = Cluster::clean();
    let told = |cluster: &mut Cluster| ok(cluster, r#""health","detail":"detail""#);
    assert!(!told(&mut cluster).contains("SLOW_OPS"));
    cluster.report_slow(1, 3, 41);
    let health = told(&mut cluster);
    let one = "[WRN] SLOW_OPS: 3 slow ops, oldest one blocked for 41 sec, osd.1 has slow ops\n";
    assert!(health.contains(one), "{health}");
    cluster.report_slow(0, 2, 77);
    let health = told(&mut cluster);
    let two = "[WRN] SLOW_OPS: 5 slow ops, oldest one blocked for 77 sec, daemons [osd.0,osd.1] have slow ops.\n";
    assert!(health.contains(two), "{health}");
    cluster.report_slow(0, 0, 0);
    assert!(told(&mut cluster).contains("3 slow ops, oldest one blocked for 41 sec, osd.1"));
    cluster.report_slow(1, 0, 0);
    assert!(!told(&mut cluster).contains("SLOW_OPS"));
}

#[test]
fn groups_that_do_not_serve_are_named_with_what_they_wait_for() {
    let mut cluster = Cluster::clean();
    let primary = cluster.primary(0);
    let waiting = PgReport { pg: PgId::new(1, 0), state: PgState::DOWN, blocked_by: vec![2], ..PgReport::default() };
    cluster.report_with(primary, waiting);
    let health = ok(&mut cluster, r#""health","detail":"detail""#);
    assert!(
        health.contains("[WRN] PG_AVAILABILITY: Reduced data availability: 1 pg down\n    pg 1.0 is down, acting ["),
        "{health}"
    );
    let blocked = ok(&mut cluster, r#""osd blocked-by""#);
    assert_eq!(blocked.split_whitespace().collect::<Vec<_>>(), ["osd", "num_blocked", "2", "1"]);
    let dump = json(&mut cluster, r#""pg ls","states":["down"]"#)["pg_stats"][0].clone();
    assert_eq!(dump["blocked_by"], serde_json::json!([2]));
    cluster.pass(61);
    let health = ok(&mut cluster, r#""health""#);
    assert!(health.contains("Reduced data availability: 1 pg inactive, 1 pg down"), "{health}");
    let incomplete = PgState::INCOMPLETE.with(PgState::REMAPPED);
    cluster.report(primary, 0, incomplete);
    let health = ok(&mut cluster, r#""health","detail":"detail""#);
    assert!(health.contains("(reducing pool p min_size from 2 may help"), "{health}");
    cluster.report(primary, 0, PgState::PEERING);
    let health = ok(&mut cluster, r#""health","detail":"detail""#);
    assert!(health.contains("1 pg inactive, 1 pg peering\n"), "{health}");
    assert!(health.contains("pg 1.0 is stuck peering for 61s, current state peering, last acting ["), "{health}");
}

#[test]
fn scrubs_that_do_not_happen_are_missed() {
    let mut cluster = Cluster::clean();
    assert!(!ok(&mut cluster, r#""health""#).contains("scrubbed"));
    for (name, value) in [("osd_scrub_max_interval", 20), ("osd_deep_scrub_interval", 20)] {
        ok(&mut cluster, &format!(r#""config set","who":"osd","name":"{name}","value":"{value}""#));
    }
    cluster.pass(32);
    let health = ok(&mut cluster, r#""health","detail":"detail""#);
    assert!(health.contains("[WRN] PG_NOT_SCRUBBED: 4 pgs not scrubbed in time\n    pg 1.0 not scrubbed since "), "{health}");
    assert!(!health.contains("PG_NOT_DEEP_SCRUBBED"), "{health}");
    cluster.pass(5);
    assert!(ok(&mut cluster, r#""health""#).contains("4 pgs not deep-scrubbed in time"));
    ok(&mut cluster, r#""osd pool set","pool":"p","var":"deep_scrub_interval","val":"1000""#);
    assert!(!ok(&mut cluster, r#""health""#).contains("deep-scrubbed"));
    ok(&mut cluster, r#""config set","who":"mon","name":"mon_warn_pg_not_scrubbed_ratio","value":"0""#);
    assert!(!ok(&mut cluster, r#""health""#).contains("scrubbed"));
}

#[test]
fn too_few_osds_and_single_copies_are_findings() {
    let mut cluster = Cluster::clean();
    ok(&mut cluster, r#""config set","who":"global","name":"osd_pool_default_size","value":"4""#);
    assert!(ok(&mut cluster, r#""health""#).contains("OSD count 3 < osd_pool_default_size 4"));
    ok(&mut cluster, r#""config set","who":"mon","name":"mon_warn_on_too_few_osds","value":"false""#);
    ok(&mut cluster, r#""config set","who":"mon","name":"mon_warn_on_pool_no_redundancy","value":"true""#);
    ok(&mut cluster, r#""osd pool create","pool":"one","pg_num":1,"size":1"#);
    let health = ok(&mut cluster, r#""health","detail":"detail""#);
    assert!(!health.contains("OSD count") && health.contains("pool 'one' has no replicas configured"), "{health}");
}

#[test]
fn osds_may_stop_while_each_group_goes_on_without_them() {
    let mut cluster = Cluster::with_pool(3, 3, 4);
    let ask = |cluster: &mut Cluster, ids: &str| {
        let (result, text) = cluster.world.call(&format!(r#"{{"prefix":"osd ok-to-stop","ids":[{ids}]}}"#));
        (result, serde_json::from_str::<Value>(&text).unwrap_or_else(|e| panic!("{e}: {text}")))
    };
    assert_eq!(ask(&mut cluster, r#""0""#).0, -11, "nothing is known");
    cluster.all(4, CLEAN, objects(10));
    let (result, told) = ask(&mut cluster, r#""0""#);
    assert_eq!((result, &told["ok_to_stop"], &told["num_ok_pgs"]), (0, &true.into(), &4.into()));
    assert_eq!(told["ok_become_degraded"].as_array().unwrap().len(), 4);
    let (result, told) = ask(&mut cluster, r#""0","1""#);
    assert_eq!((result, &told["ok_to_stop"], &told["num_not_ok_pgs"]), (-16, &false.into(), &4.into()));
    assert_eq!(told["bad_become_inactive"].as_array().unwrap().len(), 4);
    // A member lacks objects; nobody knows which one.
    let primary = cluster.primary(0);
    let recovering = PgState::ACTIVE.with(PgState::RECOVERING).with(PgState::DEGRADED);
    cluster.report_stats(primary, 0, recovering, ObjectStatSum { num_objects_degraded: 1, ..objects(10) });
    let (result, told) = ask(&mut cluster, r#""0""#);
    assert_eq!((result, &told["bad_become_inactive"]), (-16, &serde_json::json!(["1.0"])));
    cluster.world.ok(r#"{"prefix":"osd pool set","pool":"p","var":"min_size","val":"1"}"#);
    lose(&mut cluster, 2);
    let (result, told) = ask(&mut cluster, r#""1""#);
    assert_eq!((result, told["ok_become_more_degraded"].as_array().unwrap().len()), (0, 4), "{told}");
    let primary = cluster.primary(3);
    cluster.report(primary, 3, PgState::PEERING);
    let (result, told) = ask(&mut cluster, r#""1""#);
    assert_eq!((result, &told["bad_already_inactive"]), (-16, &serde_json::json!(["1.3"])));
}

#[test]
fn osds_are_destroyed_when_nobody_needs_their_data() {
    let mut cluster = Cluster::with_pool(4, 3, 4);
    cluster.all(4, CLEAN, objects(10));
    let held = |cluster: &mut Cluster| {
        let map = cluster.map();
        (0..4).map(|seed| map.placed(PgId::new(1, seed)).up.contains(&3)).filter(|held| *held).count()
    };
    let n = held(&mut cluster);
    let text = cluster.world.refused(16, r#"{"prefix":"osd safe-to-destroy","ids":["3"]}"#);
    assert_eq!(text, format!("OSD(s) 3 have {n} pgs currently mapped to them. "));
    ok(&mut cluster, r#""osd out","ids":["3"]"#);
    let moving = PgState::ACTIVE.with(PgState::REMAPPED).with(PgState::BACKFILLING);
    cluster.all(4, moving, objects(10));
    let text = cluster.world.refused(16, r#"{"prefix":"osd safe-to-destroy","ids":["3"]}"#);
    assert!(text.starts_with("OSD(s) 3 last reported they still store some PG data"), "{text}");
    cluster.world.ok(r#"{"prefix":"osd down","ids":["3"]}"#);
    let text = cluster.world.refused(11, r#"{"prefix":"osd purge","id":3}"#);
    assert!(text.starts_with("OSD(s) 3 have no reported stats") && text.contains("by passing --force"), "{text}");
    assert!(cluster.world.refused(16, r#"{"prefix":"osd lost","id":0,"yes_i_really_mean_it":true}"#).contains("not down"));
    assert!(cluster.world.refused(1, r#"{"prefix":"osd lost","id":3}"#).contains("are you SURE?"));
    let down_at = cluster.map().info(3).unwrap().down_at;
    ok(&mut cluster, r#""osd lost","id":3,"yes_i_really_mean_it":true"#);
    assert_eq!(cluster.map().info(3).unwrap().lost_at, down_at);
    cluster.all(4, CLEAN, objects(10));
    let text = cluster.world.refused(11, r#"{"prefix":"osd safe-to-destroy","ids":["3"]}"#);
    assert!(text.starts_with("OSD(s) 3 have no reported stats"), "who leads may not know yet that it is out: {text}");
    let epoch = cluster.map().epoch;
    (0..3).for_each(|osd| cluster.report_epoch(osd, epoch));
    let (_, text) = cluster.world.call(r#"{"prefix":"osd safe-to-destroy","ids":["3"]}"#);
    assert_eq!(text, "OSD(s) 3 are safe to destroy without reducing data durability.");
    ok(&mut cluster, r#""osd destroy","id":3"#);
    assert!(cluster.map().state(3) & maps::state::DESTROYED != 0);
    ok(&mut cluster, r#""osd purge","id":3"#);
    assert!(!cluster.map().exists(3));
}

#[test]
fn groups_are_forced_to_recover_if_they_have_something_to_recover() {
    let mut cluster = Cluster::clean();
    let force =
        |cluster: &mut Cluster, what: &str, pgs: &str| cluster.world.call(&format!(r#"{{"prefix":"pg {what}","pgid":[{pgs}]}}"#));
    let told = |cluster: &mut Cluster, osd: OsdId| -> Vec<String> {
        let messages = cluster.world.take(cluster.osds[osd as usize], OsdInstruct::KIND);
        messages.iter().map(|m| OsdInstruct::decode(m).unwrap().json).collect()
    };
    let primary = cluster.primary(1);
    assert_eq!(force(&mut cluster, "force-recovery", r#""1.1""#), (0, "pg 1.1 doesn't require recovery; \n".into()));
    let (result, text) = force(&mut cluster, "force-recovery", r#""9.9","1.1""#);
    assert_eq!((result, text.as_str()), (-2, "pg 1.1 doesn't require recovery; pg 9.9 does not exist; "), "nobody is instructed");
    cluster.report(primary, 1, DEGRADED);
    let (result, text) = force(&mut cluster, "force-recovery", r#""1.1","9.9""#);
    let wanted = format!("pg 9.9 does not exist; instructing pg(s) [1.1] on osd.{primary} to force-recovery; \n");
    assert_eq!((result, text), (0, wanted));
    assert_eq!(told(&mut cluster, primary), [r#"{"prefix":"force-recovery","pgid":"1.1"}"#]);
    cluster.report(primary, 1, DEGRADED.with(PgState::FORCED_RECOVERY));
    assert_eq!(force(&mut cluster, "force-recovery", r#""1.1""#).0, -22);
    assert_eq!(force(&mut cluster, "cancel-force-backfill", r#""1.1""#).1, "pg 1.1 backfill not forced; \n");
    force(&mut cluster, "cancel-force-recovery", r#""1.1""#);
    assert_eq!(told(&mut cluster, primary), [r#"{"prefix":"cancel-force-recovery","pgid":"1.1"}"#]);
    assert_eq!(force(&mut cluster, "force-backfill", r#""9.9""#).0, -2);
    let (_, text) = cluster.world.call(r#"{"prefix":"osd pool force-backfill","who":["p"]}"#);
    assert!(text.starts_with("pg 1.0 doesn't require backfilling; ") && text.contains("[1.1] on osd."), "{text}");
    assert_eq!(told(&mut cluster, primary).len(), 1);
    cluster.world.ok(r#"{"prefix":"osd pool repair","who":["p"]}"#);
    let all: usize = (0..3).map(|osd| told(&mut cluster, osd).len()).sum();
    assert_eq!(all, 4);
}

#[test]
fn recovery_has_a_pace() {
    let mut cluster = Cluster::clean();
    cluster.pass(2);
    let primary = cluster.primary(0);
    let recovered = ObjectStatSum { num_objects_recovered: 30, num_bytes_recovered: 30 << 16, ..objects(10) };
    cluster.report_stats(primary, 0, CLEAN, recovered);
    cluster.pass(1);
    let status = ok(&mut cluster, r#""status""#);
    assert!(status.contains("  io:\n    recovery: ") && status.contains(" objects/s\n"), "{status}");
    assert!(ok(&mut cluster, r#""pg stat""#).ends_with(" objects/s recovering\n"));
    assert!(ok(&mut cluster, r#""osd pool stats""#).contains("\n  recovery io "));
    assert_eq!(json(&mut cluster, r#""status""#)["pgmap"]["num_objects_recovered"], 30);
    cluster.pass(15);
    assert!(!ok(&mut cluster, r#""status""#).contains("recovery:"));
}

#[test]
fn a_new_store_under_an_old_number_holds_nothing_of_the_old_one() {
    let mut cluster = Cluster::clean();
    assert_eq!(cluster.map().info(2).unwrap().lost_at, 0, "its first life");
    ok(&mut cluster, r#""osd down","ids":["2","2","osd.2"]"#);
    assert!(!cluster.map().is_up(2), "once is enough");
    let known = cluster.map().epoch;
    let peer = cluster.osds[2];
    cluster.world.boot_on(peer, 2);
    let info = *cluster.map().info(2).unwrap();
    assert!(info.up_from > known && info.lost_at == known, "{info:?}");
}

#[test]
fn groups_that_the_map_places_nowhere_name_the_rule_that_finds_nothing() {
    let mut cluster = Cluster::clean();
    ok(&mut cluster, r#""osd crush rule create-replicated","name":"by-rack","root":"default","type":"rack""#);
    let (result, text) = cluster.set("crush_rule", "by-rack");
    assert!(result == 0 && text.contains("rule 'by-rack' finds no OSD now, so nobody serves the pool"), "{text}");
    let group = json(&mut cluster, r#""pg ls""#)["pg_stats"][0].clone();
    assert!(group["state"].as_str().is_some_and(|state| state.contains("stale")), "nobody reports it any more: {group}");
    cluster.pass(61);
    let health = ok(&mut cluster, r#""health","detail":"detail""#);
    assert!(health.contains("Reduced data availability: 4 pgs stale"), "{health}");
    assert!(health.contains("(rule 'by-rack' of pool 'p' finds no OSD; "), "{health}");
    let (_, text) = cluster.set("crush_rule", "replicated_rule");
    assert_eq!(text, "set pool 1 crush_rule to replicated_rule");
}

#[test]
fn a_new_pool_whose_rule_finds_nothing_is_served_by_nobody() {
    let mut cluster = Cluster::clean();
    ok(&mut cluster, r#""osd crush rule create-replicated","name":"by-rack","root":"default","type":"rack""#);
    let create = r#""osd pool create","pool":"lost","pg_num":4,"pgp_num":4,"pool_type":"replicated","rule":"by-rack","size":1"#;
    ok(&mut cluster, create);
    let map = cluster.map();
    let pool = *map.pools.keys().last().unwrap();
    assert_eq!(map.pool(pool).unwrap().size, 1);
    assert!((0..4).all(|seed| map.placed(types::PgId::new(pool, seed)).acting_primary < 0), "{:?}", map.pg_temp);
}

#[test]
fn undersized_groups_say_when_their_rule_finds_too_few_places() {
    let mut cluster = Cluster::clean();
    assert_eq!(cluster.set("size", "5").0, 0);
    cluster.all(4, DEGRADED, objects(10));
    cluster.pass(61);
    let health = ok(&mut cluster, r#""health","detail":"detail""#);
    assert!(health.contains("(rule 'replicated_rule' finds 3 of 5 places: add OSDs or hosts"), "{health}");
    let (result, text) = cluster.set("pg_autoscale_bias", "1500");
    assert_eq!((result, &*text), (-22, "pg_autoscale_bias must be between 0 and 1000"));
}

/// An OSD boots from another process than before, with this store.
fn boot_anew(cluster: &mut Cluster, osd: OsdId, port: u16, uuid: [u8; 16]) {
    let addrs = types::EntityAddrVec(vec![types::EntityAddr::msgr2(common::addr(port), u32::from(port))]);
    let levels = (types::Levels::KEY.to_string(), types::Levels::OWN.to_string());
    let metadata = [levels, ("hostname".into(), "vm".into())].into_iter().collect();
    let (fsid, total_bytes) = (common::FSID, 20 << 30);
    // A new store has no maps.
    let newest_map = u32::from(uuid == [osd as u8 + 1; 16]);
    let boot = messages::internal::OsdBoot { fsid, osd, uuid, addrs, total_bytes, metadata, newest_map, ..Default::default() };
    let peer = cluster.osds[osd as usize];
    cluster.world.send(peer, boot.encode());
    cluster.world.report(peer, osd, Vec::new());
}

#[test]
fn a_stopped_osd_comes_back_when_it_is_restarted_and_a_destroyed_one_with_a_new_store() {
    let mut cluster = Cluster::clean();
    let (peer, own) = (cluster.osds[2], [3; 16]);
    ok(&mut cluster, r#""osd stop","ids":["2"]"#);
    cluster.world.boot_on(peer, 2);
    assert!(!cluster.map().is_up(2), "the process that was stopped");
    boot_anew(&mut cluster, 2, 6890, own);
    assert!(cluster.map().is_up(2) && cluster.map().state(2) & maps::state::STOP == 0);
    ok(&mut cluster, r#""osd stop","ids":["2"]"#);
    ok(&mut cluster, r#""osd rm-noup","ids":["2"]"#);
    boot_anew(&mut cluster, 2, 6890, own);
    assert!(cluster.map().is_up(2), "the same process, when it may");

    ok(&mut cluster, r#""osd stop","ids":["2"]"#);
    ok(&mut cluster, r#""osd destroy","id":2,"yes_i_really_mean_it":true"#);
    boot_anew(&mut cluster, 2, 6891, own);
    assert!(!cluster.map().is_up(2), "its data was given up");
    let health = ok(&mut cluster, r#""health","detail":"detail""#);
    assert!(health.contains("OSD_REFUSED") && health.contains("it was destroyed: its data counts no more"), "{health}");
    let uuid = types::Fsid([77; 16]);
    assert_eq!(ok(&mut cluster, &format!(r#""osd new","uuid":"{uuid}","id":2"#)).trim(), "2");
    boot_anew(&mut cluster, 2, 6892, own);
    assert!(!cluster.map().is_up(2), "another store has the number now");
    boot_anew(&mut cluster, 2, 6892, uuid.0);
    let map = cluster.map();
    assert!(map.is_up(2) && map.is_in(2) && map.state(2) & maps::state::DESTROYED == 0);
    assert!(map.info(2).is_some_and(|info| info.lost_at > 0), "nobody waits for what the old one held");

    // Another OSD gets a number that became free. What it does not know proves nothing about the one that had the number.
    let was = map.info(2).map_or(0, |info| info.up_from);
    ok(&mut cluster, r#""osd stop","ids":["2"]"#);
    ok(&mut cluster, r#""osd purge","id":2,"yes_i_really_mean_it":true"#);
    assert!(!cluster.map().exists(2));
    boot_anew(&mut cluster, 2, 6893, [78; 16]);
    let map = cluster.map();
    assert!(map.is_up(2) && map.info(2).is_some_and(|info| info.lost_at > was), "{:?}", map.info(2));
}

#[test]
fn large_omaps_are_told_as_ceph_does() {
    let mut cluster = Cluster::clean();
    let primary = cluster.primary(0);
    cluster.report_stats(primary, 0, CLEAN, ObjectStatSum { num_large_omap_objects: 2, ..objects(10) });
    let health = ok(&mut cluster, r#""health","detail":"detail""#);
    let wanted = "[WRN] LARGE_OMAP_OBJECTS: 2 large omap objects\n    2 large objects found in pool 'p'\n    \
                  Search the cluster log for 'Large omap object found' for more details.\n";
    assert!(health.starts_with("HEALTH_WARN ") && health.contains(wanted), "{health}");
    let check = json(&mut cluster, r#""health""#)["checks"]["LARGE_OMAP_OBJECTS"].clone();
    assert_eq!((&check["severity"], &check["summary"]["count"]), (&"HEALTH_WARN".into(), &2.into()));
    let dump = json(&mut cluster, r#""pg dump""#);
    assert_eq!(dump["pg_map"]["pg_stats_sum"]["stat_sum"]["num_large_omap_objects"], 2);
    cluster.report_stats(primary, 0, CLEAN, objects(10));
    assert!(!ok(&mut cluster, r#""health""#).contains("large omap"));
}

#[test]
fn pools_without_scrubs_are_told_and_do_no_harm() {
    let mut cluster = Cluster::clean();
    let before = ok(&mut cluster, r#""health""#);
    for flag in ["noscrub", "nodeep-scrub"] {
        ok(&mut cluster, &format!(r#""osd pool set","pool":"p","var":"{flag}","val":"1""#));
    }
    let health = ok(&mut cluster, r#""health","detail":"detail""#);
    let wanted = "[OK ] POOL_SCRUB_FLAGS: Some pool(s) have the noscrub, nodeep-scrub flag(s) set\n    \
                  Pool p has noscrub flag\n    Pool p has nodeep-scrub flag\n";
    assert!(health.contains(wanted), "{health}");
    assert_eq!(health.split_whitespace().next(), before.split_whitespace().next(), "the state is what it was");
    let check = json(&mut cluster, r#""health","detail":"detail""#)["checks"]["POOL_SCRUB_FLAGS"].clone();
    assert_eq!(check["severity"], "HEALTH_OK");
    ok(&mut cluster, r#""osd pool set","pool":"p","var":"noscrub","val":"0""#);
    ok(&mut cluster, r#""osd pool set","pool":"p","var":"nodeep-scrub","val":"0""#);
    assert_eq!(ok(&mut cluster, r#""health""#), before);
}
