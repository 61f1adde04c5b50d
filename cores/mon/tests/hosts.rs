//! Hosts: who gets which monitor's name, who may go, what it costs.

mod common;

use common::cluster::{CLEAN, Cluster};
use common::{Disk, World, inviting};
use messages::stats::ObjectStatSum;
use serde_json::Value;
use types::PgState;

fn json(cluster: &mut Cluster, command: &str) -> Value {
    serde_json::from_str(&cluster.world.ok(command)).unwrap()
}

/// Four OSDs on two hosts, and a pool of two copies.
fn two_hosts() -> Cluster {
    let mut cluster = Cluster::new(0);
    for osd in 0..4 {
        let peer = cluster.world.connect(&format!("osd.{osd}"), None, 0);
        cluster.world.boot_at(peer, osd, &[("hostname", if osd < 2 { "vm" } else { "other" })]);
        cluster.osds.push(peer);
    }
    cluster.pool(2, 8);
    cluster.all(8, CLEAN, ObjectStatSum { num_objects: 10, num_bytes: 10 << 20, ..ObjectStatSum::default() });
    cluster
}

#[test]
fn a_host_gets_its_bucket_where_its_first_osd_says() {
    let mut cluster = Cluster::new(0);
    let boot = |cluster: &mut Cluster, osd: i32, host: &str, place: &str| {
        let peer = cluster.world.connect(&format!("osd.{osd}"), None, 0);
        cluster.world.boot_at(peer, osd, &[("hostname", host), ("crush_location", place)]);
    };
    boot(&mut cluster, 0, "vm", "datacenter=d1 rack=r1 root=default");
    boot(&mut cluster, 1, "vm", "rack=r2 root=default");
    boot(&mut cluster, 2, "other", "rack=r2 root=fast");
    let find = |cluster: &mut Cluster, osd: i32| json(cluster, &format!(r#"{{"prefix":"osd find","id":{osd},"format":"json"}}"#));
    let first = serde_json::json!({"host": "vm", "rack": "r1", "datacenter": "d1", "root": "default"});
    assert_eq!(find(&mut cluster, 0)["crush_location"], first);
    assert_eq!(find(&mut cluster, 1)["crush_location"], first, "a host that has a bucket stays where it is");
    assert_eq!(find(&mut cluster, 2)["crush_location"], serde_json::json!({"host": "other", "rack": "r2", "root": "fast"}));
}

#[test]
fn a_host_that_would_be_nowhere_does_not_join() {
    let mut world = World::with(inviting(), Disk::default());
    let peer = world.connect("client.join.1", None, 0);
    let mut join = |place: &str| {
        let ask = format!(r#"{{"prefix":"nacre join","host":"h","location":"{place}"}}"#);
        let reply = world.command(peer, &ask, &[]);
        (reply.result, reply.status.clone())
    };
    for (place, result, says) in [("shelf=s1", -2, "'shelf'"), ("rack", -22, "TYPE=NAME"), ("rack=default", -22, "not of type")] {
        let (found, why) = join(place);
        assert!(found == result && why.contains(says), "{place}: {found} {why}");
    }
    assert_eq!(join("rack=r1,datacenter=d1").0, 0, "the key was not used up");
}

#[test]
fn hosts_are_listed_with_what_runs_there() {
    let mut cluster = two_hosts();
    let hosts = json(&mut cluster, r#"{"prefix":"nacre host ls","format":"json"}"#);
    assert_eq!((&hosts[0]["host"], &hosts[0]["osds"]), (&"other".into(), &serde_json::json!([2, 3])));
    assert_eq!((&hosts[1]["host"], &hosts[1]["mons"]), (&"vm".into(), &serde_json::json!(["a"])));
    let text = cluster.world.ok(r#"{"prefix":"nacre host ls"}"#);
    assert!(text.lines().next().unwrap().starts_with("HOST") && text.contains("127.0.0.1"), "{text}");
    let text = cluster.world.ok(r#"{"prefix":"orch host ls"}"#);
    assert!(text.ends_with("2 hosts in cluster\n"), "{text}");
    let daemons = json(&mut cluster, r#"{"prefix":"orch ps","format":"json"}"#);
    let names: Vec<&str> = daemons.as_array().unwrap().iter().map(|d| d["daemon_name"].as_str().unwrap()).collect();
    assert_eq!(names, ["mgr.x", "mon.a", "osd.2", "osd.3", "osd.0", "osd.1"]);
}

#[test]
fn monitor_and_manager_say_what_their_host_is() {
    let mut config = inviting();
    config.about = [("kernel_version", "6.1"), ("hostname", "the name that counts is another one")]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .into();
    let mut cluster = Cluster::of(World::with(config, Disk::default()), 1);
    let mon = json(&mut cluster, r#"{"prefix":"mon metadata","id":"a","format":"json"}"#);
    let mgr = json(&mut cluster, r#"{"prefix":"mgr metadata","who":"x","format":"json"}"#);
    for one in [&mon, &mgr] {
        assert_eq!((&one["kernel_version"], &one["hostname"]), (&"6.1".into(), &"vm".into()), "{one}");
    }
    assert_eq!((&mon["addrs"], &mgr["addrs"]), (&"v2:127.0.0.1:3300/0".into(), &"v2:127.0.0.1:6800/77".into()));
    let count = |kind: &str| format!(r#"{{"prefix":"{kind} count-metadata","property":"kernel_version","format":"json"}}"#);
    assert_eq!(json(&mut cluster, &count("mon")), serde_json::json!({"6.1": 1}));
    assert_eq!(json(&mut cluster, &count("mgr")), serde_json::json!({"6.1": 1}));
    let osd = json(&mut cluster, r#"{"prefix":"osd metadata","id":0,"format":"json"}"#);
    assert_eq!((&osd["front_addr"], &osd["back_addr"]), (&osd["hb_front_addr"], &osd["hb_back_addr"]));
    assert!(osd["front_addr"].as_str().unwrap().starts_with("v2:127.0.0.1:6802/"), "{osd}");
}

#[test]
fn hosts_that_join_at_once_get_different_names() {
    let mut cluster = Cluster::of(World::with(inviting(), Disk::default()), 1);
    let mut seats = Vec::new();
    for host in ["b", "c", "d", "b"] {
        seats.push(cluster.world.join(host, "auto"));
    }
    assert_eq!(seats, [Some("b".into()), Some("c".into()), None, Some("b".into())], "who asks again gets the same");
    assert_eq!(cluster.world.join("e", "yes"), Some("d".into()));
    assert_eq!(cluster.world.join("f", "no"), None);
}

#[test]
fn a_seat_has_a_minute_to_be_taken_however_soon_lost_monitors_are_replaced() {
    let mut cluster = two_hosts();
    cluster.world.ok(r#"{"prefix":"config set","who":"mon","name":"mon_replace_after","value":"2"}"#);
    let third = cluster.world.connect("osd.4", None, 0);
    cluster.world.boot_at(third, 4, &[("hostname", "third")]);
    cluster.osds.push(third);
    // Of two monitors one can only learn, and two hosts have none.
    cluster.world.ok(r#"{"prefix":"mon add","name":"b","addr":"127.0.0.1:3301"}"#);
    let seats = |cluster: &mut Cluster| cluster.world.ok(r#"{"prefix":"config-key ls"}"#).matches("nacre/seat/").count();
    assert_eq!(seats(&mut cluster), 0);
    cluster.pass(5);
    assert_eq!(seats(&mut cluster), 1);
    cluster.pass(50);
    let lines = |cluster: &mut Cluster, what: &str| cluster.world.ok(r#"{"prefix":"log last","num":200}"#).matches(what).count();
    assert_eq!((lines(&mut cluster, "is to run mon.c"), lines(&mut cluster, "mon.c was never started")), (1, 0));
    cluster.pass(15);
    assert_eq!(lines(&mut cluster, "mon.c was never started"), 1);
}

#[test]
fn a_host_leaves_when_the_others_have_everything() {
    let mut cluster = two_hosts();
    let (result, why) = cluster.world.call(r#"{"prefix":"nacre host ok-to-leave","host":"vm"}"#);
    assert!(result == -16 && why.contains("no majority"), "{why}");
    cluster.world.ok(r#"{"prefix":"nacre host ok-to-leave","host":"other"}"#);
    cluster.world.ok(r#"{"prefix":"osd pool set","pool":"p","var":"size","val":"3"}"#);
    let (result, why) = cluster.world.call(r#"{"prefix":"nacre host ok-to-leave","host":"other"}"#);
    assert!(result == -16 && why.contains("pool 'p' would find 2 places for 3 copies"), "{why}");
    cluster.world.ok(r#"{"prefix":"osd pool set","pool":"p","var":"size","val":"2"}"#);

    cluster.world.ok(r#"{"prefix":"osd out","ids":["2","3"]}"#);
    let moved = ObjectStatSum { num_objects: 10, num_bytes: 10 << 20, num_objects_misplaced: 5, ..ObjectStatSum::default() };
    cluster.all(8, PgState::ACTIVE, moved);
    let drain = json(&mut cluster, r#"{"prefix":"nacre host drain-status","host":"other","format":"json"}"#);
    assert_eq!(drain["safe"], false);
    cluster.all(8, CLEAN, ObjectStatSum { num_objects: 10, ..ObjectStatSum::default() });
    let drain = json(&mut cluster, r#"{"prefix":"nacre host drain-status","host":"other","format":"json"}"#);
    assert_eq!(drain["safe"], false, "those reports are of before the OSDs were out");
    let epoch = cluster.map().epoch;
    (0..4).for_each(|osd| cluster.report_epoch(osd, epoch));
    let drain = json(&mut cluster, r#"{"prefix":"nacre host drain-status","host":"other","format":"json"}"#);
    assert_eq!((&drain["safe"], &drain["pgs"]), (&true.into(), &0.into()), "{drain}");

    let rm = r#"{"prefix":"nacre host rm","host":"other"}"#;
    let (result, why) = cluster.world.call(rm);
    assert!(result == -16 && why.contains("still runs"), "{why}");
    cluster.world.ok(r#"{"prefix":"osd down","ids":["2","3"]}"#);
    cluster.world.ok(rm);
    let hosts = json(&mut cluster, r#"{"prefix":"nacre host ls","format":"json"}"#);
    assert_eq!(hosts.as_array().unwrap().len(), 1);
    assert!(!cluster.world.ok(r#"{"prefix":"osd tree"}"#).contains("other"));
    assert_eq!(cluster.world.call(rm).0, -2);
}

#[test]
fn who_forgets_a_host_is_asked_twice_when_data_is_gone() {
    let mut cluster = two_hosts();
    cluster.world.ok(r#"{"prefix":"osd down","ids":["2","3"]}"#);
    let rm = |more: &str| format!(r#"{{"prefix":"nacre host rm","host":"other"{more}}}"#);
    let (result, why) = cluster.world.call(&rm(""));
    assert!(result == -1 && why.contains("SURE") && why.contains("serve nobody"), "{why}");
    let (result, why) = cluster.world.call(&rm(r#","yes_i_really_mean_it":true"#));
    assert!(result == -1 && why.contains("--data-is-lost"), "{why}");
    cluster.world.ok(&rm(r#","yes_i_really_mean_it":true,"data_is_lost":true"#));
    assert_eq!(json(&mut cluster, r#"{"prefix":"osd ls","format":"json"}"#), serde_json::json!([0, 1]));
}

#[test]
fn osds_that_shall_go_are_drained_and_may_stay_after_all() {
    let mut cluster = two_hosts();
    assert!(cluster.world.ok(r#"{"prefix":"orch osd rm status"}"#).contains("No OSD"));
    cluster.world.ok(r#"{"prefix":"orch osd rm","osd_id":["3"]}"#);
    let status = json(&mut cluster, r#"{"prefix":"orch osd rm status","format":"json"}"#);
    assert_eq!((&status[0]["osd_id"], &status[0]["hostname"]), (&3.into(), &"other".into()));
    assert!(!cluster.map().is_in(3));
    cluster.world.ok(r#"{"prefix":"orch osd rm stop","osd_id":["3"]}"#);
    assert!(cluster.map().is_in(3));
    assert_eq!(cluster.world.call(r#"{"prefix":"orch osd rm stop","osd_id":["3"]}"#).0, -2);
    assert_eq!(cluster.world.call(r#"{"prefix":"orch osd rm","osd_id":["9"]}"#).0, -22);
}

/// Each group has a copy at both hosts, and serves with one.
fn copies_everywhere(cluster: &mut Cluster) {
    for (var, val) in [("size", "3"), ("min_size", "1")] {
        cluster.world.ok(&format!(r#"{{"prefix":"osd pool set","pool":"p","var":"{var}","val":"{val}"}}"#));
    }
    cluster.all(8, CLEAN, ObjectStatSum { num_objects: 10, ..ObjectStatSum::default() });
}

#[test]
fn a_host_rests_and_its_osds_stay_in() {
    let mut cluster = two_hosts();
    // It runs the only monitor.
    let (result, why) = cluster.world.call(r#"{"prefix":"orch host maintenance enter","hostname":"vm"}"#);
    assert!(result == -16 && why.contains("mons [a]") && why.contains("--force"), "{why}");
    copies_everywhere(&mut cluster);
    let enter = r#"{"prefix":"orch host maintenance enter","hostname":"other"}"#;
    let told = cluster.world.ok(enter);
    assert!(told.starts_with("Host other moved to maintenance mode\n"), "{told}");
    let bucket = cluster.map().crush.id_of("other").unwrap();
    assert_eq!(cluster.map().crush_node_flags.get(&bucket).copied(), Some(maps::state::NOOUT));
    assert!(cluster.world.ok(r#"{"prefix":"orch host ls"}"#).contains("Maintenance"));
    assert!(cluster.world.call(enter).1.contains("already in maintenance"));
    let exit = r#"{"prefix":"orch host maintenance exit","hostname":"other"}"#;
    assert!(cluster.world.ok(exit).ends_with("on other has exited maintenance mode\n"));
    assert_eq!(cluster.map().crush_node_flags.get(&bucket), None);
    assert!(cluster.world.call(exit).1.contains("not in maintenance mode"));
    assert_eq!(cluster.world.call(r#"{"prefix":"orch host maintenance exit","hostname":"none"}"#).0, -2);
}

#[test]
fn a_host_that_may_stop_is_told_from_one_that_may_not() {
    let mut cluster = two_hosts();
    copies_everywhere(&mut cluster);
    let ask = r#"{"prefix":"orch host ok-to-stop","hostname":"other"}"#;
    assert_eq!(cluster.world.ok(ask), "It is presumed safe to stop host other\n");
    cluster.world.ok(r#"{"prefix":"osd pool set","pool":"p","var":"min_size","val":"3"}"#);
    let (result, why) = cluster.world.call(ask);
    assert!(result == -16 && why.contains("would become offline"), "{why}");
}

#[test]
fn a_host_that_is_drained_gives_all_its_osds_away() {
    let mut cluster = two_hosts();
    let told = cluster.world.ok(r#"{"prefix":"orch host drain","hostname":"other"}"#);
    let rows: Vec<&str> = told.lines().map(str::trim_end).collect();
    assert_eq!(rows[0], "Scheduled to remove the following daemons from host 'other'");
    assert!(rows.contains(&"osd                  2") && rows.contains(&"osd                  3"), "{told}");
    let status = json(&mut cluster, r#"{"prefix":"orch osd rm status","format":"json"}"#);
    assert_eq!(status.as_array().map(Vec::len), Some(2));
    // A number that is used again is that of another disk.
    cluster.world.ok(r#"{"prefix":"osd down","ids":["3"]}"#);
    cluster.world.ok(r#"{"prefix":"osd purge","id":3,"yes_i_really_mean_it":true}"#);
    cluster.world.ok(r#"{"prefix":"osd new","uuid":"11111111-2222-3333-4444-555555555555"}"#);
    let status = json(&mut cluster, r#"{"prefix":"orch osd rm status","format":"json"}"#);
    assert_eq!((status.as_array().map(Vec::len), &status[0]["osd_id"]), (Some(1), &2.into()), "{status}");
}

#[test]
fn of_an_osd_it_is_told_whether_it_can_be_spared_and_what_that_costs() {
    let mut cluster = two_hosts();
    let ask = r#"{"prefix":"nacre osd drain-status","id":"3","format":"json"}"#;
    let told = json(&mut cluster, ask);
    assert_eq!(
        (&told["up"], &told["in"], &told["safe"], &told["lost"]),
        (&true.into(), &true.into(), &false.into(), &false.into())
    );
    assert!(told["cannot"] == "" && told["pgs"].as_u64() > Some(0), "{told}");
    // With four copies on four OSDs none can give its data away; with as many needed none may stop.
    for (var, val) in [("size", "4"), ("min_size", "4")] {
        cluster.world.ok(&format!(r#"{{"prefix":"osd pool set","pool":"p","var":"{var}","val":"{val}"}}"#));
    }
    let told = json(&mut cluster, ask);
    assert!(told["cannot"].as_str().is_some_and(|why| why.contains("places for 4 copies")), "{told}");
    assert!(told["lost"] == true && told["risk"].as_str().is_some_and(|why| why.contains("serve nobody")), "{told}");
    assert_eq!(cluster.world.call(r#"{"prefix":"nacre osd drain-status","id":"9"}"#).0, -2);
}
