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

/// Returns what a client is told, whatever the monitor says of itself to its own process.
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
    assert_eq!(shown(&mut world, admin, "osd.0", "debug_asok"), ["debug_asok", "22/22", "mon", "no", "effect", "here"]);
    let options = vec![OptionInForce { name: "debug_asok".into(), value: "99/99".into(), source: "override".into() }];
    world.send(osd, OsdReport { osd: 0, epoch: 1, options, ..OsdReport::default() }.encode());
    world.run();
    assert_eq!(
        shown(&mut world, admin, "osd.0", "debug_asok"),
        ["debug_asok", "99/99", "override", "mon[22/22]", "no", "effect", "here"]
    );
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

/// All of this program's sources of daemons, without their tests and without the tables of options.
#[allow(clippy::disallowed_methods, reason = "a test reads the sources")]
fn sources(folder: &std::path::Path, all: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
        let name = entry.file_name().unwrap().to_string_lossy().into_owned();
        if entry.is_dir() {
            if !["tests", "target", "benches", "testdata"].contains(&name.as_str()) {
                sources(&entry, all);
            }
        } else if name.ends_with(".rs") && !entry.ends_with("monstate/src/options.rs") && name != "tests.rs" {
            let text = std::fs::read_to_string(&entry).unwrap();
            all.push_str(text.split("#[cfg(test)]").next().unwrap());
        }
    }
}

#[test]
fn no_option_is_taken_in_silence() {
    use monstate::options;
    use settings::Readers;
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = String::new();
    sources(&root.join("cores"), &mut all);
    sources(&root.join("bin"), &mut all);
    let read = |name: &str| all.contains(&format!("\"{name}\""));
    // What is said to be used has a reader; what has none is said to do nothing, or to be read by clients alone.
    let unread: Vec<&str> = settings::READ.iter().map(|(name, _)| *name).filter(|name| !read(name)).collect();
    assert!(unread.is_empty(), "said to be used, and nothing reads them: {unread:?}");
    let silent = |name: &str| !read(name) && settings::effect(name) == settings::Effect::Used && !name.starts_with("mgr/");
    let silent: Vec<&str> = options::all().iter().map(|o| o.name).filter(|name| silent(name)).collect();
    assert!(silent.is_empty(), "{silent:?}");
    let idle = options::all().iter().filter(|o| options::without_effect(o.name).is_some()).count();
    assert!(idle > 700, "{idle}");

    // Who reads what is said to be read: an option that is set for others is said to do nothing for them.
    let (mut of_osds, mut of_monitors) = (String::new(), String::new());
    ["cores/osd", "cores/pg", "cores/store"].iter().for_each(|part| sources(&root.join(part), &mut of_osds));
    let parts = ["mon", "monstate", "monlog", "manager", "moncommands", "planner"];
    parts.iter().for_each(|part| sources(&root.join("cores").join(part), &mut of_monitors));
    let by = |sources: &str, name: &str| sources.contains(&format!("\"{name}\""));
    // Monitors read these as they count for OSDs.
    let for_osds = [
        "osd_crush_update_on_start",
        "osd_deep_scrub_interval",
        "osd_heartbeat_min_peers",
        "osd_max_scrubs",
        "osd_scrub_begin_hour",
        "osd_scrub_end_hour",
        "osd_scrub_max_interval",
    ];
    for (name, readers) in settings::READ.iter().copied().filter(|(_, readers)| *readers != Readers::All) {
        let (osds, monitors) = (by(&of_osds, name), by(&of_monitors, name) && !for_osds.contains(&name));
        let osds = osds || for_osds.contains(&name);
        assert_eq!(matches!(readers, Readers::Osds | Readers::OsdsAndMonitors), osds, "{name}: whether OSDs read it");
        assert_eq!(readers == Readers::OsdsAndMonitors, osds && monitors, "{name}: whether OSDs and monitors read it");
        assert!(osds || monitors, "{name}: nobody of a cluster reads it");
    }
    // At whoever an option is set: it has a reader there, or it is said that it has none.
    let read_at = |name: &str, who: &str| match who {
        "osd" => by(&of_osds, name) || for_osds.contains(&name),
        "mon" => by(&of_monitors, name) && !for_osds.contains(&name),
        _ => settings::readers(name) == Some(Readers::Managers) && by(&of_monitors, name),
    };
    let mut silent = 0;
    for option in options::all().iter().filter(|o| settings::readers(o.name) != Some(Readers::All)) {
        for who in ["osd", "mon", "mgr"] {
            silent += usize::from(options::lacks(option.name, who).is_none() && !read_at(option.name, who));
        }
    }
    assert_eq!(silent, 0, "options that are taken in silence");
}

#[test]
fn an_option_that_is_set_for_others_than_its_readers_says_so() {
    let mut world = World::new();
    world.boot_osd(0);
    let admin = world.connect("client.admin", None, 0);
    for (who, name, value, says) in [
        ("mon", "osd_max_scrubs", "2", "osd_max_scrubs is kept and has no effect: OSDs go by it"),
        ("osd", "osd_pool_default_size", "2", "osd_pool_default_size is kept and has no effect: monitors go by it"),
        ("osd", "osd_heartbeat_grace", "9", "osd_heartbeat_grace is kept and has part of its effect: OSDs and monitors go by it"),
        ("global", "debug_ms", "1", "debug_ms is kept and has part of its effect: clients go by it"),
        ("osd.0", "rbd_cache", "false", "rbd_cache is kept and has no effect: clients go by it"),
        ("mgr", "mgr/balancer/begin_time", "0100", "mgr/balancer/begin_time is kept and has no effect: "),
        ("mon", "mgr/balancer/mode", "upmap", "mgr/balancer/mode is kept and has no effect: the manager's modules go by it"),
    ] {
        let ack = world.command(admin, &set(who, name, value), b"");
        assert!(ack.result == 0 && ack.status.starts_with(says), "{who} {name}: {} {}", ack.result, ack.status);
        let health = world.ok(r#"{"prefix":"health","detail":"detail"}"#);
        assert!(health.contains(&format!("{name} of {who} has ")), "{who} {name}: {health}");
    }
    for (who, name, value) in [
        ("osd", "osd_max_scrubs", "2"),
        ("global", "osd_max_scrubs", "2"),
        ("global", "osd_heartbeat_grace", "9"),
        ("client", "debug_ms", "1"),
        ("global", "rbd_cache", "false"),
        ("mgr", "target_max_misplaced_ratio", "0.1"),
        ("mgr", "mgr/balancer/mode", "upmap"),
    ] {
        let ack = world.command(admin, &set(who, name, value), b"");
        assert_eq!((ack.result, ack.status.as_str()), (0, ""), "{who} {name}");
    }
    assert!(
        told(&mut world, admin, r#"{"prefix":"config help","key":"debug_ms"}"#)
            .contains("Effect: kept and with a part of its effect here: clients go by it")
    );
    // The daemon that does not go by it says so, and the other one does not.
    assert!(shown(&mut world, admin, "osd.0", "rbd_cache").ends_with(&["no".into(), "effect".into(), "here".into()]));
    assert_eq!(shown(&mut world, admin, "osd.0", "osd_heartbeat_grace"), ["osd_heartbeat_grace", "9.000000", "mon"]);
}

#[test]
fn what_people_set_for_managers_and_for_osds_counts() {
    let mut world = World::new();
    // Ceph's manager warns by this, so it is set for the manager.
    world.ok(&set("mgr", "mon_target_pg_per_osd", "7"));
    let told = |world: &mut World| world.ok(r#"{"prefix":"config get","var":"mon_target_pg_per_osd"}"#);
    assert!(told(&mut world).contains("\"7\""), "{}", told(&mut world));
    world.ok(&set("mon", "mon_target_pg_per_osd", "8"));
    assert!(told(&mut world).contains("\"7\""), "the manager's own value counts");
    world.ok(r#"{"prefix":"config rm","who":"mgr","name":"mon_target_pg_per_osd"}"#);
    assert!(told(&mut world).contains("\"8\""), "else that of monitors");

    // An OSD that keeps its place in the CRUSH map, as Ceph's OSDs read it.
    world.ok(&set("osd", "osd_crush_update_on_start", "false"));
    world.boot_osd(0);
    assert!(!world.ok(r#"{"prefix":"osd crush tree","format":"json"}"#).contains("osd.0"));
    world.ok(&set("osd.1", "osd_crush_update_on_start", "true"));
    world.boot_osd(1);
    let tree = world.ok(r#"{"prefix":"osd crush tree","format":"json"}"#);
    assert!(tree.contains("osd.1") && !tree.contains("osd.0"), "{tree}");
}

#[test]
fn an_option_without_effect_says_so_at_once_and_later() {
    let mut world = World::new();
    world.boot_osd(0);
    let admin = world.connect("client.admin", None, 0);
    let ack =
        world.command(admin, r#"{"prefix":"config set","who":"osd","name":"osd_mclock_profile","value":"high_client_ops"}"#, b"");
    assert_eq!(ack.result, 0);
    assert!(ack.status.contains("osd_mclock_profile is kept and has no effect: work yields"), "{}", ack.status);
    let ack = world.command(admin, r#"{"prefix":"config set","who":"osd","name":"osd_max_scrubs","value":"2"}"#, b"");
    assert_eq!((ack.result, ack.status.as_str()), (0, ""));
    let health = world.ok(r#"{"prefix":"health","detail":"detail"}"#);
    assert!(health.contains("OPTIONS_WITHOUT_EFFECT") && health.contains("osd_mclock_profile of osd has no effect"), "{health}");
    assert!(!health.contains("osd_max_scrubs"), "{health}");
    assert!(
        told(&mut world, admin, r#"{"prefix":"config help","key":"osd_mclock_profile"}"#)
            .contains("kept and without effect here")
    );
    assert!(told(&mut world, admin, r#"{"prefix":"config show","who":"osd.0"}"#).contains("no effect here"));
    world.ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":12,"autoscale_mode":"off"}"#);
    let ack = world.command(admin, r#"{"prefix":"osd pool set","pool":"p","var":"compression_mode","val":"aggressive"}"#, b"");
    assert!(ack.status.contains("it is kept and has no effect: stored data is not compressed"), "{}", ack.status);
    world.ok(r#"{"prefix":"osd pool set","pool":"p","var":"pg_autoscale_mode","val":"off"}"#);
    world.ok(r#"{"prefix":"osd crush set-tunable","tunable":"straw_calc_version","value":0}"#);
    let health = world.ok(r#"{"prefix":"health","detail":"detail"}"#);
    for part in [
        "POOL_OPTION_WITHOUT_EFFECT",
        "compression_mode of pool 'p'",
        "pool 'p' pg_num 12 is not a power of two",
        "straw_calc_version=0",
    ] {
        assert!(health.contains(part), "{part}: {health}");
    }
}

#[test]
fn files_of_options_are_taken_as_ceph_takes_them() {
    let mut world = World::new();
    let admin = world.connect("client.admin", None, 0);
    let file = b"[client.x]\nrgw frontends = \"beast port=7480\"\n[osd]\nosd max backfills = \"2\" # two\nosd-max-scrubs = 3\nosd_crush_chooseleaf_type = 0\n";
    let ack = world.command(admin, r#"{"prefix":"config assimilate-conf"}"#, file);
    let left = String::from_utf8(ack.output.contiguous().to_vec()).unwrap();
    assert_eq!((ack.result, left.as_str()), (0, "\n[osd]\n\tosd-max-scrubs = 3\n\tosd_crush_chooseleaf_type = 0\n"));
    assert_eq!(world.ok(r#"{"prefix":"config get","who":"client.x","key":"rgw_frontends"}"#), "beast port=7480\n");
    assert_eq!(world.ok(r#"{"prefix":"config get","who":"osd.0","key":"osd_max_backfills","format":"json"}"#), "2\n");
    // Another value than the stored one stays in the file.
    let ack = world.command(admin, r#"{"prefix":"config assimilate-conf"}"#, b"[osd]\nosd_max_backfills = 4\n");
    assert_eq!(ack.output.contiguous().to_vec(), b"\n[osd]\n\tosd_max_backfills = 4\n");
    let ack = world.command(admin, r#"{"prefix":"config assimilate-conf"}"#, b"[osd]\nosd_max_backfills = \"4\n");
    assert_eq!(ack.result, -22, "{}", ack.status);
}
