//! Questions of operators: each scene has the sentence that it must get.

mod common;

use common::SPACE;
use common::cluster::{Cluster, DEGRADED, objects};
use messages::internal::{OsdReport, PgReport, Space};
use messages::stats::ObjectStatSum;
use types::{OsdId, PgId, PgState};

fn asked(cluster: &mut Cluster, about: &str, which: &str) -> (i32, String) {
    let part = |name: &str, value: &str| if value.is_empty() { String::new() } else { format!(r#","{name}":"{value}""#) };
    cluster.world.call(&format!(r#"{{"prefix":"nacre explain"{}{}}}"#, part("about", about), part("which", which)))
}

fn ask(cluster: &mut Cluster, about: &str, which: &str) -> String {
    let (code, text) = asked(cluster, about, which);
    assert_eq!(code, 0, "{text}");
    text
}

/// An OSD tells how long its writes take, and how full it is.
fn tell(cluster: &mut Cluster, osd: OsdId, commit_latency_us: u32, available: u64) {
    let space = Space { available, ..SPACE };
    let report = OsdReport { osd, epoch: 1, space, commit_latency_us, ..OsdReport::default() };
    cluster.world.send(cluster.osds[osd as usize], report.encode());
}

#[test]
fn a_cluster_that_is_well_is_said_to_be() {
    let mut cluster = Cluster::clean();
    for (about, sentence) in [
        ("slow", "As far as the monitors know, nothing is slow"),
        ("groups", "All 4 groups are clean."),
        ("recovery", "Nothing is to be recovered"),
        ("scrub", "All groups were scrubbed in time."),
        ("clock", "The monitors' clocks agree within"),
        ("monitors", "All 1 monitor agree; a leads."),
        ("crash", "No daemon died lately"),
        ("space", "1 % of 60 GiB are in use"),
    ] {
        let text = ask(&mut cluster, about, "");
        assert!(text.starts_with(sentence), "{about}: {text}");
    }
    let group = ask(&mut cluster, "group", "1.2");
    assert!(group.starts_with("Group 1.2 of pool p is clean.\n") && group.contains("$ ceph pg 1.2 query"), "{group}");
}

#[test]
fn one_slow_disk_is_named_and_disks_that_are_all_slow_are_told_from_it() {
    let mut cluster = Cluster::clean();
    for (osd, us) in [(0, 1200), (1, 1300), (2, 38_000)] {
        tell(&mut cluster, osd, us, SPACE.available);
    }
    let text = ask(&mut cluster, "slow", "");
    assert!(text.starts_with("Writes that osd.2 (vm) takes part in are slow, because its disk is.\n"), "{text}");
    assert!(text.contains("a durable write takes 38.0 ms at osd.2 (vm); half of all OSDs need at most 1.3 ms\n"), "{text}");
    assert!(text.contains("$ ceph osd out 2") && text.contains("recovery: nothing is copied"), "{text}");
    for (osd, us) in [(0, 90_000), (1, 91_000), (2, 92_000)] {
        tell(&mut cluster, osd, us, SPACE.available);
    }
    let text = ask(&mut cluster, "slow", "");
    assert!(text.starts_with("All disks are slow: half of the OSDs need 91.0 ms or more"), "{text}");
    tell(&mut cluster, 0, 900, SPACE.available);
    tell(&mut cluster, 1, 900, SPACE.available);
    tell(&mut cluster, 2, 950, SPACE.available);
    cluster.report_slow(1, 2, 40);
    let text = ask(&mut cluster, "slow", "");
    assert!(text.starts_with("2 operations take too long, and the monitors do not know for what.\n"), "{text}");
    assert!(
        text.contains("2 operations of osd.1 (vm) wait, the oldest for 40 s\n            $ ceph tell osd.1 dump_blocked_ops"),
        "{text}"
    );
}

#[test]
fn who_is_missing_is_said_with_what_comes_next() {
    let mut cluster = Cluster::clean();
    cluster.lose(2);
    cluster.all(4, DEGRADED, ObjectStatSum { num_objects_degraded: 10, ..objects(10) });
    let text = ask(&mut cluster, "groups", "");
    assert!(text.starts_with("4 groups of 4 serve with fewer copies, because osd.2 (vm) cannot be reached.\n"), "{text}");
    assert!(
        text.contains("osd.2 (vm) is down for 0s") && text.contains("once they are down for 10m, others get their copies"),
        "{text}"
    );
    assert!(ask(&mut cluster, "recovery", "").starts_with("40 copies are missing or elsewhere, and nothing was copied"));
    let osd = ask(&mut cluster, "osd", "2");
    assert!(
        osd.starts_with("osd.2 (vm) is down for") && osd.contains("its data waits for it") && osd.contains("nacre disk replace"),
        "{osd}"
    );
    cluster.world.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    assert!(ask(&mut cluster, "groups", "").contains("the flag noout is set"), "{}", ask(&mut cluster, "groups", ""));
    let all = ask(&mut cluster, "", "");
    assert!(all.starts_with("The cluster is HEALTH_WARN: ") && all.contains("$ nacre explain groups"), "{all}");
    let finding = ask(&mut cluster, "health", "OSD_DOWN");
    assert!(finding.contains("osd.2 (root=default,host=vm) is down") || finding.contains("osd.2 ("), "{finding}");
    assert!(finding.contains("$ ceph osd tree down"), "{finding}");
    // A group that waits for the one that is away says so.
    let primary = cluster.primary(0);
    let waits = PgReport { pg: PgId::new(1, 0), state: PgState::DOWN, blocked_by: vec![2], ..PgReport::default() };
    cluster.report_with(primary, waits);
    let text = ask(&mut cluster, "group", "1.0");
    assert!(text.starts_with("Group 1.0 of pool p: such groups do not serve, because osd.2 (vm) may have writes"), "{text}");
    assert!(ask(&mut cluster, "slow", "").contains("Operations on objects of 1 group of 4 wait"));
}

#[test]
fn the_room_of_a_pool_is_reckoned_before_the_readers_eyes() {
    let mut cluster = Cluster::clean();
    tell(&mut cluster, 0, 0, 4 << 30);
    let text = ask(&mut cluster, "space", "p");
    // 95 % of 20 GiB are usable: 3 GiB of 4 are left there, and each OSD gets a third.
    assert!(text.starts_with("Clients can write 3.0 GiB more to pool p.\n"), "{text}");
    assert!(text.contains("osd.0 (vm), is 80 % full, gets 33 % of what is written, and takes no writes from 95 % on"), "{text}");
    assert!(text.contains("each byte is stored 3 times"), "{text}");
    let df: serde_json::Value = serde_json::from_str(&cluster.world.ok(r#"{"prefix":"df","format":"json"}"#)).unwrap();
    assert_eq!(df["pools"][0]["stats"]["max_avail"].as_u64().map(|n| n >> 20), Some(3071), "the same as df says: {df}");
}

#[test]
fn flags_that_hold_something_are_named_with_the_way_back() {
    let mut cluster = Cluster::clean();
    for flag in ["noscrub", "norecover", "pause"] {
        cluster.world.ok(&format!(r#"{{"prefix":"osd set","key":"{flag}"}}"#));
    }
    assert!(ask(&mut cluster, "scrub", "").contains("Somebody set the flag noscrub."));
    assert!(ask(&mut cluster, "slow", "").contains("$ ceph osd unset pause"));
    cluster.all(4, PgState::ACTIVE.with(PgState::DEGRADED), ObjectStatSum { num_objects_degraded: 10, ..objects(10) });
    assert!(
        ask(&mut cluster, "groups", "")
            .starts_with("4 groups of 4 get no further copies, because somebody set the flag norecover")
    );
    assert!(ask(&mut cluster, "recovery", "").contains("$ ceph osd unset norecover"));
}

#[test]
fn what_does_not_exist_is_refused_with_its_name() {
    let mut cluster = Cluster::clean();
    for (about, which, errno, words) in [
        ("group", "1.9", -2, "there is no group 1.9"),
        ("group", "x", -22, "'x' is no group"),
        ("group", "", -22, "say which"),
        ("osd", "7", -2, "there is no OSD '7'"),
        ("space", "q", -2, "unrecognized pool 'q'"),
        ("health", "NO_SUCH", -2, "there is no code 'NO_SUCH'"),
        ("health", "PG_DEGRADED", 0, ""),
    ] {
        let (result, status) = asked(&mut cluster, about, which);
        assert_eq!(result, errno, "{about} {which}: {status}");
        assert!(status.contains(words), "{about} {which}: {status}");
    }
    let json = cluster.world.ok(r#"{"prefix":"nacre explain","about":"groups","format":"json"}"#);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["answer"][0], "All 4 groups are clean.");
}

#[test]
fn when_a_pool_is_full_is_not_said_before_six_hours_are_known() {
    let mut cluster = Cluster::clean();
    let text = ask(&mut cluster, "full", "");
    assert!(text.starts_with("That is not known yet: it follows from six hours of history"), "{text}");
    assert_eq!(asked(&mut cluster, "full", "nothing"), (-2, "unrecognized pool 'nothing'".into()));
}
