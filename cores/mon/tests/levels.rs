//! The cluster's level: who holds it back, who raises it, and who is refused after that.

mod common;

use common::cluster::Cluster;
use common::{Disk, World, config};
use mon::{AuthMode, Config};
use serde_json::Value;
use std::time::Duration;
use types::Levels;
use types::level::Level;

/// Says nothing about levels, as programs before them.
const OLD: &[(&str, &str)] = &[("hostname", "vm"), (Levels::KEY, "")];
const NEW: &[(&str, &str)] = &[("hostname", "vm")];

/// A cluster that an older program made, with that program's OSDs; the monitor is of today.
fn upgraded(osds: i32) -> Cluster {
    let older = Config { levels: Levels::UNSAID, ..config(AuthMode::None) };
    let first = World::with(older, Disk::default());
    let mut world = World::with(config(AuthMode::None), first.disk);
    let peers = (0..osds)
        .map(|osd| {
            let peer = world.connect(&format!("osd.{osd}"), None, 0);
            world.boot_at(peer, osd, OLD);
            peer
        })
        .collect();
    let mut cluster = Cluster::of(world, 0);
    cluster.osds = peers;
    cluster
}

/// An OSD stops and starts with this program.
fn restart(cluster: &mut Cluster, osd: i32, place: &[(&str, &str)]) {
    cluster.world.ok(&format!(r#"{{"prefix":"osd down","ids":["{osd}"]}}"#));
    let peer = cluster.osds[osd as usize];
    cluster.world.boot_at(peer, osd, place);
}

fn call(cluster: &mut Cluster, words: &str) -> (i32, String) {
    cluster.world.call(&format!(r#"{{"prefix":"nacre level{words}"}}"#))
}

fn level(cluster: &mut Cluster) -> u8 {
    let shown = cluster.world.ok(r#"{"prefix":"nacre level","format":"json"}"#);
    let told: Value = serde_json::from_str(&shown).unwrap();
    let shown = told["level"].as_u64().unwrap() as u8;
    assert_eq!(cluster.map().level, Level(shown));
    shown
}

#[test]
fn a_new_cluster_has_the_newest_level() {
    let mut cluster = Cluster::new(1);
    assert_eq!(Level(level(&mut cluster)), Levels::OWN.newest);
    let (code, text) = call(&mut cluster, " raise");
    assert_eq!((code, text.contains("the newest")), (0, true), "{text}");
}

#[test]
fn older_programs_hold_the_level_back_and_are_refused_after_its_raise() {
    let mut cluster = upgraded(2);
    assert_eq!(level(&mut cluster), 1);
    let (code, why) = call(&mut cluster, " raise");
    assert!(code < 0 && why.contains("osd.0") && why.contains("osd.1") && !why.contains("mon.a"), "{why}");
    restart(&mut cluster, 0, NEW);
    let (_, why) = call(&mut cluster, " raise");
    assert!(!why.contains("osd.0") && why.contains("osd.1 runs 1-1"), "{why}");

    // One that is down may be left behind, if somebody says so.
    cluster.world.ok(r#"{"prefix":"osd down","ids":["1"]}"#);
    let (code, why) = call(&mut cluster, " raise");
    assert!(code < 0 && why.contains("osd.1 (down)") && why.contains("--yes-i-really-mean-it"), "{why}");
    let (code, text) = cluster.world.call(r#"{"prefix":"nacre level raise","yes_i_really_mean_it":true}"#);
    assert_eq!((code, text.contains("level is 2")), (0, true), "{text}");
    assert_eq!(level(&mut cluster), 2);

    let peer = cluster.osds[1];
    cluster.world.boot_at(peer, 1, OLD);
    assert!(!cluster.map().is_up(1), "an older program is let in");
    let health = cluster.world.ok(r#"{"prefix":"health","detail":"detail"}"#);
    assert!(health.contains("OSD_REFUSED") && health.contains("osd.1 may not boot: the cluster's level is 2"), "{health}");
    cluster.pass(1);
    let log = cluster.world.ok(r#"{"prefix":"log last"}"#);
    assert!(log.contains("osd.1 may not boot"), "{log}");
    cluster.world.boot_at(peer, 1, NEW);
    assert!(cluster.map().is_up(1));
    assert!(!cluster.world.ok(r#"{"prefix":"health"}"#).contains("OSD_REFUSED"));
}

#[test]
fn the_level_is_raised_by_itself_unless_it_is_held_back() {
    let mut cluster = upgraded(2);
    cluster.world.ok(r#"{"prefix":"config set","who":"mon","name":"mon_level_raise_after","value":"60"}"#);
    restart(&mut cluster, 0, NEW);
    cluster.pass(90);
    assert_eq!(level(&mut cluster), 1, "an older program runs");
    restart(&mut cluster, 1, NEW);
    cluster.pass(30);
    // It goes back; the time begins anew after that.
    restart(&mut cluster, 1, OLD);
    cluster.pass(90);
    restart(&mut cluster, 1, NEW);
    assert_eq!(call(&mut cluster, " hold").0, 0);
    cluster.pass(90);
    assert_eq!(level(&mut cluster), 1, "it is held back");
    let health = cluster.world.ok(r#"{"prefix":"health","detail":"detail"}"#);
    assert!(health.contains("OSD_UPGRADE_FINISHED: all daemons can run level 2 but the cluster's level is 1"), "{health}");
    assert_eq!(call(&mut cluster, " release").0, 0);
    cluster.pass(2);
    assert_eq!(level(&mut cluster), 2);
    assert!(!cluster.world.ok(r#"{"prefix":"health"}"#).contains("OSD_UPGRADE_FINISHED"));
}

#[test]
fn programs_of_different_levels_are_told_apart() {
    let mut cluster = upgraded(2);
    cluster.world.ok(r#"{"prefix":"config set","who":"mon","name":"mon_warn_older_version_delay","value":"30"}"#);
    let told = |cluster: &mut Cluster| cluster.world.ok(r#"{"prefix":"health","detail":"detail"}"#);
    cluster.pass(10);
    assert!(!told(&mut cluster).contains("DAEMON_OLD_VERSION"));
    cluster.pass(30);
    let health = told(&mut cluster);
    assert!(health.contains("DAEMON_OLD_VERSION: There are daemons running an older version of ceph"), "{health}");
    assert!(health.contains("osd.1 is running levels 1-1"), "{health}");
    restart(&mut cluster, 0, NEW);
    restart(&mut cluster, 1, NEW);
    cluster.pass(1);
    assert!(!told(&mut cluster).contains("DAEMON_OLD_VERSION"));
}

#[test]
fn a_program_that_is_too_old_refuses_the_store_and_one_that_is_not_goes_on_with_it() {
    let world = World::new();
    let older = Config { levels: Levels::UNSAID, ..config(AuthMode::None) };
    let refused = World::with(older, world.disk.clone());
    let why = refused.fatal.expect("a store of a higher level is opened");
    let level = format!("the cluster's level is {}", Levels::OWN.newest);
    assert!(why.contains(&level) && why.contains("too old"), "{why}");
    let mut again = World::with(config(AuthMode::None), world.disk);
    assert!(again.fatal.is_none());
    again.pass(Duration::from_secs(1));
}

#[test]
fn a_store_is_marked_when_the_level_is_raised() {
    let version = |disk: &Disk| {
        let slot = |at: usize| disk.bytes.get(at + 8..at + 12).map_or(0, |b| u32::from_le_bytes(b.try_into().unwrap()));
        slot(0).max(slot(8192))
    };
    let mut cluster = upgraded(0);
    cluster.pass(1);
    assert_eq!(version(&cluster.world.disk), 2);
    call(&mut cluster, " raise");
    cluster.pass(2);
    assert_eq!((level(&mut cluster), version(&cluster.world.disk)), (2, 3));
}

#[test]
fn monitors_of_before_the_raise_learn_the_level_from_osds() {
    let mut cluster = upgraded(2);
    cluster.pass(1);
    assert_eq!(level(&mut cluster), 1);
    let too_high = (Levels::OWN.newest.0 + 1).to_string();
    restart(&mut cluster, 0, &[("hostname", "vm"), (Levels::REACHED, &too_high)]);
    assert!(!cluster.map().is_up(0), "the monitor cannot run the level of what this OSD wrote");
    let health = cluster.world.ok(r#"{"prefix":"health","detail":"detail"}"#);
    let why = format!("osd.0 may not boot: it ran at level {too_high}, and the monitor's program runs levels {}", Levels::OWN);
    assert!(health.contains(&why), "{health}");

    // As after a restoration: the map says that it is up where it is.
    let again = [("hostname", "vm"), (Levels::REACHED, "2")];
    restart(&mut cluster, 0, NEW);
    assert_eq!(level(&mut cluster), 1);
    let peer = cluster.osds[0];
    cluster.world.boot_at(peer, 0, &again);
    assert_eq!(level(&mut cluster), 2);
    cluster.pass(1);
    let log = cluster.world.ok(r#"{"prefix":"log last"}"#);
    assert!(log.contains("osd.0 ran at level 2, the monitors' state is of before"), "{log}");
    let peer = cluster.osds[1];
    restart(&mut cluster, 1, OLD);
    assert!(!cluster.map().is_up(1), "an older program is let in");
    cluster.world.boot_at(peer, 1, &again);
    assert!(cluster.map().is_up(1));
}
