//! Who is down, and who is out: what OSDs report of each other, and what the monitor makes of it.

mod common;

use common::World;
use messages::internal::{Failure, OsdDown, OsdFailures, OsdReport};
use messages::mon::OsdMapMsg;
use serde_json::Value;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// What the map says of an OSD.
#[derive(Debug, PartialEq)]
struct Told {
    up: bool,
    inside: bool,
    dead: bool,
    up_from: u32,
}

fn told(world: &mut World, osd: i64) -> Told {
    let dump: Value = serde_json::from_str(&world.ok(r#"{"prefix":"osd dump","format":"json"}"#)).unwrap();
    let find = |list: &str| dump[list].as_array().unwrap().iter().find(|o| o["osd"] == osd).cloned().unwrap_or_default();
    let (known, more) = (find("osds"), find("osd_xinfo"));
    let dead = more["dead_epoch"].as_u64().unwrap() > 0;
    let up_from = known["up_from"].as_u64().unwrap() as u32;
    Told { up: known["up"] == 1, inside: known["in"] == 1, dead, up_from }
}

fn is_up(world: &mut World, osd: i64) -> bool {
    told(world, osd).up
}

/// So many OSDs that are up, each on its session.
fn cluster(osds: i32) -> (World, Vec<usize>) {
    let mut world = World::new();
    let peers = (0..osds).map(|osd| world.boot_osd(osd)).collect();
    world.pass(4 * SECOND);
    (world, peers)
}

fn failure(world: &mut World, osd: i32) -> Failure {
    Failure { osd, up_from: told(world, osd.into()).up_from, ..Failure::default() }
}

fn accuse(world: &mut World, peers: &[usize], accuser: i32, failure: Failure) {
    let message = OsdFailures { osd: accuser, epoch: 1, failed: vec![failure] };
    world.send(peers[accuser as usize], message.encode());
}

fn silent(world: &mut World, peers: &[usize], accuser: i32, accused: i32, ms: u32) {
    let failure = Failure { silent_ms: ms, ..failure(world, accused) };
    accuse(world, peers, accuser, failure);
}

fn refused(world: &mut World, peers: &[usize], accuser: i32, accused: i32) {
    let failure = Failure { refused: true, ..failure(world, accused) };
    accuse(world, peers, accuser, failure);
}

/// Each OSD on a host of its own.
fn on_hosts(world: &mut World, osds: i32) {
    for osd in 0..osds {
        world.ok(&format!(
            r#"{{"prefix":"osd crush create-or-move","id":"osd.{osd}","weight":1.0,"args":["root=default","host=h{osd}"]}}"#
        ));
    }
}

#[test]
fn a_port_that_refuses_is_down_and_dead_at_once() {
    let (mut world, peers) = cluster(3);
    refused(&mut world, &peers, 0, 1);
    let now = told(&mut world, 1);
    assert!(!now.up && now.dead && now.inside, "{now:?}");
    assert!(is_up(&mut world, 0) && is_up(&mut world, 2));
}

#[test]
fn what_is_said_of_another_life_is_not_believed() {
    let (mut world, peers) = cluster(3);
    let old = failure(&mut world, 1);
    refused(&mut world, &peers, 0, 1);
    assert!(!is_up(&mut world, 1));
    world.boot_on(peers[1], 1);
    let now = told(&mut world, 1);
    assert!(now.up && now.up_from > old.up_from);
    accuse(&mut world, &peers, 0, Failure { refused: true, ..old });
    accuse(&mut world, &peers, 0, Failure { silent_ms: 60_000, ..old });
    accuse(&mut world, &peers, 2, Failure { silent_ms: 60_000, ..old });
    assert!(is_up(&mut world, 1));
}

#[test]
fn who_may_not_speak_is_not_heard() {
    let (mut world, peers) = cluster(3);
    // In the name of another OSD; by one that is down; by a client.
    let failure = Failure { refused: true, ..failure(&mut world, 1) };
    world.send(peers[2], OsdFailures { osd: 0, epoch: 1, failed: vec![failure] }.encode());
    world.send(peers[2], OsdDown { osd: 2, epoch: 1 }.encode());
    accuse(&mut world, &peers, 2, failure);
    let client = world.connect("client.reader", None, 0);
    world.send(client, OsdFailures { osd: 0, epoch: 1, failed: vec![failure] }.encode());
    assert!(is_up(&mut world, 1) && !is_up(&mut world, 2));
    // Numbers that are none.
    for osd in [-1, 7, i32::MAX, i32::MIN] {
        accuse(&mut world, &peers, 0, Failure { osd, refused: true, ..Failure::default() });
    }
    assert!(is_up(&mut world, 0) && world.fatal.is_none());
}

#[test]
fn silence_needs_two_osds_where_there_is_one_host_or_one_of_one() {
    let (mut world, peers) = cluster(3);
    silent(&mut world, &peers, 0, 1, 3_100);
    assert!(is_up(&mut world, 1), "one of two");
    silent(&mut world, &peers, 2, 1, 2_000);
    assert!(is_up(&mut world, 1), "two, but to one of them not for long enough");
    silent(&mut world, &peers, 0, 1, 3_200);
    silent(&mut world, &peers, 2, 1, 3_100);
    let now = told(&mut world, 1);
    assert!(!now.up && !now.dead, "{now:?}");
    let (mut world, peers) = cluster(2);
    world.ok(r#"{"prefix":"config set","who":"mon","name":"mon_osd_min_up_ratio","value":"0"}"#);
    silent(&mut world, &peers, 0, 1, 3_100);
    assert!(is_up(&mut world, 1), "it may say the same of its only accuser");
    silent(&mut world, &peers, 0, 1, 4_100);
    assert!(!is_up(&mut world, 1), "one of one");
}

#[test]
fn silence_needs_two_hosts_where_there_are_enough() {
    let (mut world, peers) = cluster(4);
    on_hosts(&mut world, 4);
    world.ok(r#"{"prefix":"osd crush move","name":"osd.2","args":["root=default","host=h0"]}"#);
    silent(&mut world, &peers, 0, 1, 5_000);
    silent(&mut world, &peers, 2, 1, 5_000);
    assert!(is_up(&mut world, 1), "both are on one host, and another host says nothing");
    silent(&mut world, &peers, 3, 1, 5_000);
    assert!(!is_up(&mut world, 1));
}

#[test]
fn a_report_ends_when_it_is_taken_back_or_not_repeated() {
    let (mut world, peers) = cluster(3);
    silent(&mut world, &peers, 0, 1, 5_000);
    let back = Failure { recovered: true, ..failure(&mut world, 1) };
    accuse(&mut world, &peers, 0, back);
    silent(&mut world, &peers, 2, 1, 5_000);
    assert!(is_up(&mut world, 1));
    world.pass(6 * SECOND);
    silent(&mut world, &peers, 0, 1, 5_000);
    assert!(is_up(&mut world, 1), "osd.2 said so six seconds ago, and not since");
}

#[test]
fn a_new_leader_listens_for_a_grace_before_he_judges_silence() {
    let mut world = World::new();
    let peers: Vec<usize> = (0..3).map(|osd| world.boot_osd(osd)).collect();
    silent(&mut world, &peers, 0, 1, 9_000);
    silent(&mut world, &peers, 2, 1, 9_000);
    assert!(is_up(&mut world, 1));
    refused(&mut world, &peers, 0, 2);
    assert!(!is_up(&mut world, 2), "a fact needs no patience");
    world.boot_on(peers[2], 2);
    world.pass(3 * SECOND);
    silent(&mut world, &peers, 0, 1, 9_000);
    silent(&mut world, &peers, 2, 1, 9_000);
    assert!(!is_up(&mut world, 1));
}

/// So many OSDs whose sessions come back to another leader; they do not boot.
fn led_anew(mut world: World, osds: i32) -> (World, Vec<usize>) {
    let now = world.now;
    world = World::resting(common::config(mon::AuthMode::None), world.disk.clone());
    world.now = now;
    world.run();
    let peers = (0..osds).map(|osd| world.connect(&format!("osd.{osd}"), None, 0)).collect();
    (world, peers)
}

fn report(world: &mut World, peers: &[usize], osd: i32) {
    world.send(peers[osd as usize], OsdReport { osd, epoch: 1, ..OsdReport::default() }.encode());
}

/// OSDs 0 and 2 accuse OSD 1. Returns true once it is down.
fn goes_down_accused(world: &mut World, peers: &[usize]) -> bool {
    silent(world, peers, 0, 1, 5_000);
    silent(world, peers, 2, 1, 5_000);
    !is_up(world, 1)
}

#[test]
fn a_new_leader_who_has_heard_all_others_need_not_listen_for_a_grace() {
    let (mut world, peers) = led_anew(cluster(4).0, 4);
    report(&mut world, &peers, 0);
    report(&mut world, &peers, 2);
    world.pass(2 * SECOND);
    assert!(!goes_down_accused(&mut world, &peers), "osd.3 has said nothing yet, and nobody says that it is silent");
    report(&mut world, &peers, 3);
    assert!(goes_down_accused(&mut world, &peers), "the accused had time to say something");

    let (mut world, peers) = led_anew(cluster(3).0, 3);
    report(&mut world, &peers, 0);
    report(&mut world, &peers, 2);
    assert!(!goes_down_accused(&mut world, &peers), "who is accused may be about to say the same of the others");
    world.pass(SECOND + SECOND / 2);
    assert!(goes_down_accused(&mut world, &peers));
}

#[test]
fn one_that_lives_among_frozen_ones_stays_up() {
    let (mut world, peers) = cluster(3);
    world.ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":1,"size":3}"#);
    world.ok(r#"{"prefix":"osd pg-upmap","pgid":"1.0","id":["osd.1","osd.0","osd.2"]}"#);
    for tick in 0..8 {
        for frozen in [0, 2] {
            if is_up(&mut world, frozen.into()) {
                silent(&mut world, &peers, 1, frozen, 3_000 + tick * 1_000);
            }
        }
        world.pass(SECOND);
        assert!(is_up(&mut world, 1), "tick {tick}: it alone says something");
    }
    assert!(!is_up(&mut world, 0) && !is_up(&mut world, 2));
}

#[test]
fn nodown_holds_for_cluster_host_class_and_osd() {
    let set = [
        (r#""prefix":"osd set","key":"nodown""#, r#""prefix":"osd unset","key":"nodown""#),
        (
            r#""prefix":"osd set-group","flags":"nodown","who":["vm"]"#,
            r#""prefix":"osd unset-group","flags":"nodown","who":["vm"]"#,
        ),
        (
            r#""prefix":"osd set-group","flags":"nodown","who":["hdd"]"#,
            r#""prefix":"osd unset-group","flags":"nodown","who":["hdd"]"#,
        ),
        (
            r#""prefix":"osd set-group","flags":"nodown","who":["osd.1"]"#,
            r#""prefix":"osd unset-group","flags":"nodown","who":["osd.1"]"#,
        ),
    ];
    for (on, off) in set {
        let (mut world, peers) = cluster(3);
        world.ok(&format!("{{{on}}}"));
        refused(&mut world, &peers, 0, 1);
        silent(&mut world, &peers, 0, 1, 9_000);
        silent(&mut world, &peers, 2, 1, 9_000);
        assert!(is_up(&mut world, 1), "{on}");
        world.ok(&format!("{{{off}}}"));
        refused(&mut world, &peers, 0, 1);
        assert!(!is_up(&mut world, 1), "{off}");
    }
}

#[test]
fn the_last_ones_stay_up() {
    let (mut world, peers) = cluster(3);
    refused(&mut world, &peers, 0, 1);
    refused(&mut world, &peers, 0, 2);
    assert!(!is_up(&mut world, 1) && !is_up(&mut world, 2));
    // Of three, 0.3 must stay up.
    world.boot_on(peers[1], 1);
    refused(&mut world, &peers, 1, 0);
    let (mut world, peers) = (world, peers);
    refused(&mut world, &peers, 1, 0);
    assert!(is_up(&mut world, 1));
}

#[test]
fn a_disk_that_hangs_takes_its_osd_down_but_not_dead() {
    let (mut world, peers) = cluster(3);
    silent(&mut world, &peers, 1, 1, 15_000);
    let now = told(&mut world, 1);
    assert!(!now.up && !now.dead, "{now:?}");
}

/// A pool of two copies whose groups lie on osd.0 and osd.1. Gives how many each of them leads.
fn shared_pool(world: &mut World) -> [usize; 2] {
    world.ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":16,"size":2}"#);
    for seed in 0..16 {
        let osds = if seed < 12 { r#""osd.0","osd.1""# } else { r#""osd.1","osd.0""# };
        world.ok(&format!(r#"{{"prefix":"osd pg-upmap","pgid":"1.{seed:x}","id":[{osds}]}}"#));
    }
    [12, 4]
}

#[test]
fn who_accuses_back_needs_to_have_more_good_links() {
    let (mut world, peers) = cluster(3);
    // osd.1 hears nobody, and nobody hears osd.1, and all of them reach the monitor.
    silent(&mut world, &peers, 1, 0, 5_000);
    silent(&mut world, &peers, 1, 2, 5_000);
    silent(&mut world, &peers, 0, 1, 5_000);
    assert!(is_up(&mut world, 0) && is_up(&mut world, 1));
    silent(&mut world, &peers, 2, 1, 5_000);
    assert!(!is_up(&mut world, 1) && is_up(&mut world, 0) && is_up(&mut world, 2));
}

#[test]
fn a_link_that_one_says_is_good_again_is_not_held_against_him_at_once() {
    let (mut world, peers) = cluster(2);
    silent(&mut world, &peers, 0, 1, 3_500);
    silent(&mut world, &peers, 1, 0, 3_500);
    let back = Failure { recovered: true, ..failure(&mut world, 1) };
    accuse(&mut world, &peers, 0, back);
    silent(&mut world, &peers, 1, 0, 9_100);
    assert!(is_up(&mut world, 0) && is_up(&mut world, 1));
    for ms in [10_500, 12_000, 13_500] {
        world.pass(SECOND + SECOND / 2);
        silent(&mut world, &peers, 1, 0, ms);
    }
    assert!(!is_up(&mut world, 0), "it did not come back for osd.1");
}

#[test]
fn two_that_do_not_hear_each_other_and_share_nothing_stay_up() {
    let (mut world, peers) = cluster(3);
    for _ in 0..10 {
        silent(&mut world, &peers, 0, 1, 20_000);
        silent(&mut world, &peers, 1, 0, 20_000);
        world.pass(SECOND);
    }
    assert!(is_up(&mut world, 0) && is_up(&mut world, 1));
}

#[test]
fn a_slow_osd_gets_more_time_the_next_time() {
    let (mut world, peers) = cluster(3);
    let down = |world: &mut World, ms| {
        silent(world, &peers, 0, 1, ms);
        silent(world, &peers, 2, 1, ms);
        !is_up(world, 1)
    };
    assert!(down(&mut world, 3_100));
    // The same process comes back after 100 s: 30 s at a probability of 0.3 are 9 s more.
    pass_with(&mut world, &peers, &[0, 2], 100);
    world.boot_on(peers[1], 1);
    assert!(is_up(&mut world, 1));
    // Only silence since it came up counts.
    pass_with(&mut world, &peers, &[0, 1, 2], 15);
    assert!(!down(&mut world, 11_000), "it has more time now");
    assert!(down(&mut world, 12_500), "it does not have that much");
    world.boot_on(peers[1], 1);
    pass_with(&mut world, &peers, &[0, 1, 2], 5);
    world.ok(r#"{"prefix":"config set","who":"mon","name":"mon_osd_adjust_heartbeat_grace","value":"false"}"#);
    assert!(down(&mut world, 3_100));
}

#[test]
fn a_new_leader_does_not_listen_longer_for_slow_osds() {
    let (mut world, peers) = cluster(3);
    silent(&mut world, &peers, 0, 1, 3_100);
    silent(&mut world, &peers, 2, 1, 3_100);
    assert!(!is_up(&mut world, 1));
    // It was only slow: it has 9 s more from now on.
    pass_with(&mut world, &peers, &[0, 2], 100);
    world.boot_on(peers[1], 1);
    assert!(is_up(&mut world, 1));
    let (mut world, peers) = led_anew(world, 3);
    let down = |world: &mut World, ms| {
        silent(world, &peers, 0, 1, ms);
        silent(world, &peers, 2, 1, ms);
        !is_up(world, 1)
    };
    world.pass(3 * SECOND);
    assert!(!down(&mut world, 11_000), "it has more time");
    assert!(down(&mut world, 12_500), "a grace is enough to hear of all");
}

#[test]
fn the_grace_that_somebody_set_counts() {
    let (mut world, peers) = cluster(3);
    world.ok(r#"{"prefix":"config set","who":"global","name":"osd_heartbeat_grace","value":"20"}"#);
    pass_with(&mut world, &peers, &[0, 1, 2], 20);
    for (ms, up) in [(19_000, true), (20_100, false)] {
        silent(&mut world, &peers, 0, 1, ms);
        silent(&mut world, &peers, 2, 1, ms);
        assert_eq!(is_up(&mut world, 1), up, "{ms}");
    }
}

#[test]
fn a_clean_stop_says_so_and_who_is_alone_is_judged_by_its_session() {
    let (mut world, peers) = cluster(2);
    world.send(peers[1], OsdDown { osd: 1, epoch: 1 }.encode());
    let now = told(&mut world, 1);
    assert!(!now.up && now.dead);
    world.hang_up(peers[0]);
    world.pass(Duration::from_millis(2_500));
    assert!(is_up(&mut world, 0));
    world.pass(2 * SECOND);
    assert!(!is_up(&mut world, 0), "nobody is left who could say that it lives");
}

#[test]
fn a_monitor_that_was_stopped_holds_that_time_against_nobody() {
    let (mut world, peers) = cluster(4);
    on_hosts(&mut world, 4);
    refused(&mut world, &peers, 0, 1);
    assert!(!is_up(&mut world, 1));
    world.sleep(700 * SECOND);
    assert!(is_up(&mut world, 0), "its reports are not read yet");
    pass_with(&mut world, &peers, &[0, 2, 3], 590);
    assert!(told(&mut world, 1).inside, "it could not boot, either");
    pass_with(&mut world, &peers, &[0, 2, 3], 20);
    assert!(!told(&mut world, 1).inside, "after that it counts");
    world.sleep(30 * SECOND);
    // A report that is read before the first tick does not hide how late that is.
    world.send(peers[0], OsdReport { osd: 0, epoch: 1, ..OsdReport::default() }.encode());
    world.pass(15 * SECOND);
    assert!(is_up(&mut world, 0) && is_up(&mut world, 2));
    world.pass(6 * SECOND);
    assert!(!is_up(&mut world, 0) && !is_up(&mut world, 2), "after that it counts");
}

/// Lets time pass in which these OSDs report.
fn pass_with(world: &mut World, peers: &[usize], osds: &[i32], seconds: u64) {
    for _ in 0..seconds / 5 {
        world.pass(5 * SECOND);
        for osd in osds {
            world.send(peers[*osd as usize], OsdReport { osd: *osd, epoch: 1, ..OsdReport::default() }.encode());
        }
    }
}

#[test]
fn who_is_down_for_long_is_out_unless_a_flag_or_its_whole_subtree_says_otherwise() {
    let (mut world, peers) = cluster(4);
    on_hosts(&mut world, 4);
    refused(&mut world, &peers, 0, 1);
    pass_with(&mut world, &peers, &[0, 2, 3], 590);
    assert!(told(&mut world, 1).inside);
    pass_with(&mut world, &peers, &[0, 2, 3], 20);
    assert!(!told(&mut world, 1).inside);

    let (mut world, peers) = cluster(4);
    on_hosts(&mut world, 4);
    world.ok(r#"{"prefix":"config set","who":"mon","name":"mon_osd_down_out_subtree_limit","value":"host"}"#);
    refused(&mut world, &peers, 0, 1);
    pass_with(&mut world, &peers, &[0, 2, 3], 650);
    assert!(told(&mut world, 1).inside, "all of its host is down");

    let (mut world, peers) = cluster(4);
    on_hosts(&mut world, 4);
    world.ok(r#"{"prefix":"osd set-group","flags":"noout","who":["h1"]}"#);
    refused(&mut world, &peers, 0, 1);
    pass_with(&mut world, &peers, &[0, 2, 3], 650);
    assert!(told(&mut world, 1).inside, "noout of its host");
}

#[test]
fn noin_of_a_host_keeps_out_who_comes_back() {
    let (mut world, peers) = cluster(4);
    on_hosts(&mut world, 4);
    world.ok(r#"{"prefix":"config set","who":"mon","name":"mon_osd_down_out_interval","value":"10"}"#);
    refused(&mut world, &peers, 0, 1);
    pass_with(&mut world, &peers, &[0, 2, 3], 20);
    assert!(!told(&mut world, 1).inside);
    world.ok(r#"{"prefix":"osd set-group","flags":"noin","who":["h1"]}"#);
    world.boot_on(peers[1], 1);
    let now = told(&mut world, 1);
    assert!(now.up && !now.inside, "{now:?}");
}

#[test]
fn of_two_whose_link_is_broken_the_one_that_leads_less_goes_after_two_graces() {
    let (mut world, peers) = cluster(3);
    let [zero, one] = shared_pool(&mut world);
    assert!(zero != one && one > 0, "{zero} {one}");
    for tick in 0..3 {
        silent(&mut world, &peers, 0, 1, 3_000 + tick * 1_100);
        silent(&mut world, &peers, 1, 0, 3_000 + tick * 1_100);
        world.pass(SECOND);
        let up = [0, 1].map(|osd| is_up(&mut world, osd));
        assert_eq!(up, if tick < 2 { [true, true] } else { [zero > one, one > zero] }, "tick {tick}");
    }
}

#[test]
fn who_asked_for_the_map_a_moment_ago_hears_of_an_osd_that_dies() {
    let (mut world, peers) = cluster(3);
    let client = world.connect("client.admin", None, 0);
    world.subscribe(client, "osdmap", 0, true);
    assert_eq!(world.take(client, OsdMapMsg::KIND).len(), 1);
    // A change that moves nobody's operations is not told.
    world.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    assert!(world.take(client, OsdMapMsg::KIND).is_empty());
    let dies = |world: &mut World| {
        refused(world, &peers, 0, 2);
        refused(world, &peers, 1, 2);
        world.pass(SECOND);
        assert!(!is_up(world, 2));
    };
    dies(&mut world);
    let told = world.take(client, OsdMapMsg::KIND);
    let m = OsdMapMsg::decode(&told[0]).unwrap();
    assert_eq!((told.len(), m.incremental.len()), (1, 2), "the flag, too, so that nothing is missing between");
    // Later it may ask by itself.
    world.pass(31 * SECOND);
    (0..3).for_each(|osd| world.boot_on(peers[osd as usize], osd));
    world.take(client, OsdMapMsg::KIND);
    dies(&mut world);
    assert!(world.take(client, OsdMapMsg::KIND).is_empty());
}
