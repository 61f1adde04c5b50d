//! The configuration database with options that nothing here reads: kept, shown with their source, refused as by Ceph.

mod common;

use common::World;
use messages::internal::{OptionInForce, OsdReport};

const EINVAL: i32 = 22;
const ERANGE: i32 = 34;
const ENOENT: i32 = 2;

fn set(who: &str, name: &str, value: &str) -> String {
    format!(r#"{{"prefix":"config set","who":"{who}","name":"{name}","value":"{value}"}}"#)
}

fn get(world: &mut World, who: &str, name: &str) -> String {
    world.ok(&format!(r#"{{"prefix":"config get","who":"{who}","key":"{name}"}}"#)).trim().to_owned()
}

/// What a client is told, whatever the monitor says of itself to its own process.
fn told(world: &mut World, admin: usize, json: &str) -> String {
    let ack = world.command(admin, json, b"");
    assert_eq!(ack.result, 0, "{json}: {}", ack.status);
    String::from_utf8_lossy(&ack.output.contiguous()).into_owned()
}

/// The words of an option's line in `config show`.
fn shown(world: &mut World, admin: usize, who: &str, name: &str) -> Vec<String> {
    let table = told(world, admin, &format!(r#"{{"prefix":"config show","who":"{who}"}}"#));
    let line = table.lines().find(|l| l.split_whitespace().next() == Some(name)).unwrap_or_default();
    line.split_whitespace().map(String::from).collect()
}

#[test]
fn options_that_only_ceph_reads_are_kept_and_shown_with_their_source() {
    let mut world = World::new();
    let osd = world.boot_osd(0);
    let admin = world.connect("client.admin", None, 0);
    world.ok(&set("osd.0", "debug asok", "22"));
    assert_eq!(get(&mut world, "osd.0", "debug_asok"), "22/22");
    assert_eq!(shown(&mut world, admin, "osd.0", "debug_asok"), ["debug_asok", "22/22", "mon"]);
    let options = vec![OptionInForce { name: "debug_asok".into(), value: "99/99".into(), source: "override".into() }];
    world.send(osd, OsdReport { osd: 0, epoch: 1, options, ..OsdReport::default() }.encode());
    world.run();
    assert_eq!(shown(&mut world, admin, "osd.0", "debug_asok"), ["debug_asok", "99/99", "override", "mon[22/22]"]);
    world.send(osd, OsdReport { osd: 0, epoch: 1, ..OsdReport::default() }.encode());
    world.run();
    world.ok(r#"{"prefix":"config rm","who":"osd.0","name":"debug_asok"}"#);
    assert!(shown(&mut world, admin, "osd.0", "debug_asok").is_empty());
    assert!(told(&mut world, admin, r#"{"prefix":"config show-with-defaults","who":"osd.0"}"#).contains("debug_asok"));
    assert!(told(&mut world, admin, r#"{"prefix":"config help","key":"debug_asok"}"#).starts_with("debug_asok - "));
    assert!(told(&mut world, admin, r#"{"prefix":"config ls"}"#).lines().any(|l| l == "osd_scrub_cost"));
}

#[test]
fn values_names_and_daemons_that_do_not_exist_are_refused_with_the_numbers_of_ceph() {
    let mut world = World::new();
    world.boot_osd(0);
    let admin = world.connect("client.admin", None, 0);
    for (errno, who, name, value) in [
        (EINVAL, "osd.0", "debug_asok", "foo"),
        (ERANGE, "osd.0", "debug_asok", "-10"),
        (EINVAL, "global", "log_graylog_port", "asdf"),
        (EINVAL, "mon", "mon_cluster_log_to_stderr", ""),
        (EINVAL, "mon.a", "osd_pool_default_type", "foo"),
        (EINVAL, "osd.0", "nothing_there", "1"),
        (EINVAL, "osd.0", "osd_data", "/x"),
        (EINVAL, "nobody", "osd_scrub_cost", "2M"),
        (EINVAL, "osd/foo", "osd_scrub_cost", "2M"),
    ] {
        world.refused(errno, &set(who, name, value));
    }
    for (errno, who) in [(EINVAL, "foo"), (ENOENT, "osd.7"), (ENOENT, "mon.zebra")] {
        let ack = world.command(admin, &format!(r#"{{"prefix":"config show","who":"{who}"}}"#), b"");
        assert_eq!(ack.result, -errno, "{who}");
    }
    world.refused(ENOENT, r#"{"prefix":"config get","who":"osd.0","key":"nothing_here"}"#);
    world.refused(EINVAL, r#"{"prefix":"config get","who":"osd.0","key":"osd_data"}"#);
}

#[test]
fn options_about_networks_are_kept_and_say_that_they_do_nothing() {
    let mut world = World::new();
    let admin = world.connect("client.admin", None, 0);
    for (name, value, says) in [
        ("public_network", "10.0.0.0/8", "public_network is kept and has no effect: a host's daemons listen at the address"),
        ("cluster_network", "10.0.0.0/8", "cluster_network is kept and has no effect: OSDs listen for each other at the address"),
        ("osd_max_backfills", "2", ""),
    ] {
        let ack = world.command(admin, &set("global", name, value), b"");
        assert_eq!(
            (ack.result, ack.status.get(..says.len()), says.is_empty()),
            (0, Some(says), ack.status.is_empty()),
            "{ack:?}"
        );
    }
    assert_eq!(world.ok(r#"{"prefix":"config get","who":"osd","key":"public_network"}"#), "10.0.0.0/8\n");
    assert!(world.ok(r#"{"prefix":"config help","key":"cluster_network"}"#).contains("without effect"));
}

#[test]
fn the_dump_goes_from_everybody_to_single_daemons_and_takes_masks_apart() {
    let mut world = World::new();
    for (who, name) in [
        ("client.foo", "debug_asok"),
        ("osd/host:vm", "debug_asok"),
        ("osd.0", "debug_asok"),
        ("mon", "debug_asok"),
        ("global", "debug_asok"),
    ] {
        world.ok(&set(who, name, "1"));
    }
    let dump: serde_json::Value = serde_json::from_str(&world.ok(r#"{"prefix":"config dump","format":"json"}"#)).unwrap();
    let sections: Vec<&str> = dump.as_array().unwrap().iter().map(|l| l["section"].as_str().unwrap()).collect();
    assert_eq!(sections, ["global", "mon", "osd", "osd.0", "client.foo"]);
    assert_eq!((&dump[2]["location_type"], &dump[2]["location_value"]), (&"host".into(), &"vm".into()));
}
