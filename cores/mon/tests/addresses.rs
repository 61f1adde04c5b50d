//! An address belongs to one OSD: one boots where another one is up.

mod common;

use common::{FSID, World, addr};
use messages::internal::OsdBoot;
use serde_json::Value;
use std::time::Duration;
use types::{EntityAddr, EntityAddrVec, Levels};

const SECOND: Duration = Duration::from_secs(1);

fn boot(world: &mut World, peer: usize, osd: i32, host: &str, port: u16) {
    boot_at(world, peer, osd, host, port, EntityAddrVec::default());
}

fn boot_at(world: &mut World, peer: usize, osd: i32, host: &str, port: u16, cluster_addrs: EntityAddrVec) {
    let metadata = [("hostname", host), (Levels::KEY, &Levels::OWN.to_string())].map(|(k, v)| (k.to_owned(), v.to_owned()));
    let boot = OsdBoot {
        fsid: FSID,
        osd,
        uuid: [osd as u8 + 1; 16],
        addrs: EntityAddrVec(vec![EntityAddr::msgr2(addr(port), 700 + osd as u32)]),
        total_bytes: 20 << 30,
        metadata: metadata.into(),
        newest_map: 0,
        cluster_addrs,
    };
    world.send(peer, boot.encode());
}

/// osd.0 on host a and osd.1 on host b are up at ports of their own; both report each second.
fn two() -> (World, [usize; 2]) {
    let mut world = World::new();
    let peers = [0, 1].map(|osd| world.connect(&format!("osd.{osd}"), None, 0));
    boot(&mut world, peers[0], 0, "a", 6800);
    boot(&mut world, peers[1], 1, "b", 6801);
    (world, peers)
}

/// So many seconds pass in which these report.
fn pass(world: &mut World, seconds: u32, report: &[(usize, i32)]) {
    for _ in 0..seconds {
        world.pass(SECOND);
        report.iter().for_each(|(peer, osd)| world.report(*peer, *osd, Vec::new()));
    }
}

fn up(world: &mut World) -> Vec<u64> {
    let dump: Value = serde_json::from_str(&world.ok(r#"{"prefix":"osd dump","format":"json"}"#)).unwrap();
    dump["osds"].as_array().unwrap().iter().filter(|o| o["up"] == 1).filter_map(|o| o["osd"].as_u64()).collect()
}

#[test]
fn two_hosts_with_one_address_are_named_and_who_was_there_first_stays() {
    let (mut world, peers) = two();
    let third = world.connect("osd.2", None, 0);
    for _ in 0..20 {
        boot(&mut world, third, 2, "c", 6801);
        assert_eq!(up(&mut world), [0, 1]);
        pass(&mut world, 3, &[(peers[0], 0), (peers[1], 1)]);
    }
    let health = world.ok(r#"{"prefix":"health","detail":"detail"}"#);
    let says = "osd.2 may not boot: it is on host c, and osd.1 of host b has its address v2:127.0.0.1:6801/702 and is heard";
    assert!(health.contains("OSD_REFUSED") && health.contains(says), "{health}");
    let log = world.ok(r#"{"prefix":"log last","num":100}"#);
    assert_eq!(log.matches("osd.2 may not boot").count(), 1, "{log}");

    // Elsewhere it is welcome.
    boot(&mut world, third, 2, "c", 6802);
    assert_eq!(up(&mut world), [0, 1, 2]);
    assert!(!world.ok(r#"{"prefix":"health"}"#).contains("OSD_REFUSED"));
}

#[test]
fn two_hosts_with_one_address_in_the_osds_network_are_named_too() {
    let at = |port: u16| EntityAddrVec(vec![EntityAddr::msgr2(([10, 9, 0, 1], port).into(), 5)]);
    let mut world = World::new();
    let peers = [0, 1].map(|osd| world.connect(&format!("osd.{osd}"), None, 0));
    boot_at(&mut world, peers[0], 0, "a", 6800, at(6900));
    boot_at(&mut world, peers[1], 1, "b", 6801, at(6900));
    assert_eq!(up(&mut world), [0]);
    let health = world.ok(r#"{"prefix":"health","detail":"detail"}"#);
    let says = "osd.1 may not boot: it is on host b, and osd.0 of host a has its address v2:10.9.0.1:6900/5 and is heard";
    assert!(health.contains("OSD_REFUSED") && health.contains(says), "{health}");
    boot_at(&mut world, peers[1], 1, "b", 6801, at(6901));
    assert_eq!(up(&mut world), [0, 1]);
}

#[test]
fn a_host_that_took_over_the_address_of_a_dead_one_waits_no_longer_than_the_dead_one_may_be_silent() {
    let (mut world, peers) = two();
    let third = world.connect("osd.2", None, 0);
    // osd.1 died a moment ago, and its session stands, as when its host lost power.
    pass(&mut world, 1, &[(peers[0], 0)]);
    boot(&mut world, third, 2, "c", 6801);
    assert_eq!(up(&mut world), [0, 1], "it may live");
    pass(&mut world, 12, &[(peers[0], 0)]);
    boot(&mut world, third, 2, "c", 6801);
    assert_eq!(up(&mut world), [0, 2]);
    pass(&mut world, 1, &[(peers[0], 0), (third, 2)]);
    let log = world.ok(r#"{"prefix":"log last","num":100}"#);
    assert!(log.contains("osd.1 of host b marked down: osd.2 of host c has its address v2:127.0.0.1:6801/702 now"), "{log}");

    // It was cut off, and comes back: now it is the one that is told.
    boot(&mut world, peers[1], 1, "b", 6801);
    assert_eq!(up(&mut world), [0, 2]);
    let health = world.ok(r#"{"prefix":"health","detail":"detail"}"#);
    assert!(health.contains("it is on host b, and osd.2 of host c has its address"), "{health}");
}

#[test]
fn a_port_of_a_host_has_one_owner() {
    let (mut world, peers) = two();
    pass(&mut world, 1, &[(peers[0], 0), (peers[1], 1)]);
    // The host's processes were killed and started anew; ports went round.
    let third = world.connect("osd.2", None, 0);
    boot(&mut world, third, 2, "b", 6801);
    assert_eq!(up(&mut world), [0, 2], "the process that had the port is dead");
    let again = world.connect("osd.1", None, 0);
    boot(&mut world, again, 1, "b", 6803);
    assert_eq!(up(&mut world), [0, 1, 2]);
}

#[test]
fn an_osd_whose_session_broke_is_not_told_of_one_that_is_at_its_address() {
    let (mut world, peers) = two();
    world.ok(r#"{"prefix":"osd set","key":"nodown"}"#);
    pass(&mut world, 13, &[(peers[0], 0)]);
    let third = world.connect("osd.2", None, 0);
    boot(&mut world, third, 2, "c", 6801);
    assert_eq!(up(&mut world), [0, 1, 2], "nodown holds");
    boot(&mut world, peers[1], 1, "b", 6801);
    boot(&mut world, third, 2, "c", 6801);
    assert_eq!(up(&mut world), [0, 1, 2]);
    assert!(!world.ok(r#"{"prefix":"health"}"#).contains("OSD_REFUSED"));
}

#[test]
fn an_address_for_other_osds_goes_into_the_map_if_it_is_one() {
    let (mut world, _) = two();
    let dump =
        |world: &mut World| -> Value { serde_json::from_str(&world.ok(r#"{"prefix":"osd dump","format":"json"}"#)).unwrap() };
    assert_eq!(dump(&mut world)["osds"][1]["cluster_addr"], dump(&mut world)["osds"][1]["public_addr"], "none was told");
    let third = world.connect("osd.2", None, 0);
    let mut nowhere = EntityAddr::msgr2(addr(6812), 702);
    nowhere.addr = None;
    for wrong in [nowhere, EntityAddr::default()] {
        boot_at(&mut world, third, 2, "c", 6802, EntityAddrVec(vec![wrong]));
        assert_eq!(up(&mut world), [0, 1]);
        assert!(world.log.iter().any(|line| line.contains("no address for other OSDs")), "{:?}", world.log);
        world.log.clear();
    }
    boot_at(&mut world, third, 2, "c", 6802, EntityAddrVec(vec![EntityAddr::msgr2(addr(6812), 702)]));
    let osd = dump(&mut world)["osds"][2].clone();
    let ends = |name: &str, port: &str| assert!(osd[name].as_str().unwrap().contains(port), "{name} of {osd}");
    ends("public_addr", ":6802/");
    ends("cluster_addr", ":6812/");
    ends("heartbeat_back_addr", ":6812/");
    ends("heartbeat_front_addr", ":6802/");
}
