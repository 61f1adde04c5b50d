//! Stories: few steps in whole clusters, each of which once went wrong with real processes.

use serde_json::Value;
use sim::cluster::{Cluster, MonKind, Plan, TOLD};
use sim::mistake::Mistake;
use sim::workload::Habits;
use sim::world::{Crash, HostId};
use std::time::Duration;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A cluster in which all is well.
fn cluster(seed: u64, plan: Plan) -> Cluster {
    let habits = Habits { budget: 20, ..Habits::default() };
    let mut cluster = Cluster::new(seed, Plan { mon: MonKind::Real, clients: 1, habits, ..plan });
    cluster.begin().expect("nothing goes wrong");
    cluster
}

fn ask(cluster: &mut Cluster, command: &str) -> Value {
    let output = cluster.command_ok(command).expect("the monitor answers");
    serde_json::from_slice(&output).expect("it is JSON")
}

/// In which epoch an OSD came up, and whether it is.
fn life(cluster: &mut Cluster, osd: usize) -> (bool, u64) {
    let dump = ask(cluster, r#"{"prefix":"osd dump","format":"json"}"#);
    let row = &dump["osds"][osd];
    (row["up"] == 1, row["up_from"].as_u64().unwrap_or(0))
}

/// Returns when `from` had the last answer of `to` to a heartbeat, as it tells.
fn heard(cluster: &mut Cluster, from: HostId, to: i64) -> String {
    let call = cluster.world.call(from, r#"{"prefix":"dump_osd_network","value":0}"#);
    let mut text = None;
    cluster.world.run_while(ms(5_000), |world| {
        text = world.take_answers().into_iter().find(|(_, answered, ..)| *answered == call).map(|(.., text)| text);
        text.is_none()
    });
    let told: Value = serde_json::from_str(&text.expect("an OSD answers a call")).expect("it is JSON");
    let entry = told["entries"].as_array().and_then(|all| all.iter().find(|entry| entry["to osd"] == to)).cloned();
    entry.unwrap_or_default()["last update"].to_string()
}

/// An OSD that starts while no monitor runs has no keys and takes no tickets. That is no reason for others to throw their tickets away,
/// since they get no others.
#[test]
fn osds_reach_each_other_without_monitors_whoever_refuses_their_tickets() {
    for seed in 0..3 {
        let mut cluster = cluster(seed, Plan { osds: 3, size: 2, min_size: 1, cephx: true, ..Plan::default() });
        let (mon, osds) = (cluster.mon, cluster.osds.clone());
        cluster.world.crash(mon, Crash::Process);
        cluster.world.crash(osds[1], Crash::Process);
        cluster.world.start(osds[1]);
        cluster.world.run_for(ms(3_000));
        for _ in 0..20 {
            cluster.world.break_among(&[osds[0], osds[2]]);
        }
        // Whatever was under way arrives.
        cluster.world.run_for(ms(6_000));
        let before = heard(&mut cluster, osds[0], 2);
        cluster.world.run_for(ms(4_000));
        let after = heard(&mut cluster, osds[0], 2);
        assert_ne!(before, after, "seed {seed}: osd.0 hears nothing of osd.2 without monitors");
        cluster.world.start(mon);
        cluster.wait_clean().expect("the monitor is back");
    }
}

/// Who reaches the monitors and no other OSD is marked down once, and stays down until it reaches others.
#[test]
fn an_osd_that_is_cut_off_from_the_others_alone_does_not_come_and_go() {
    for seed in 0..3 {
        let mut cluster = cluster(seed, Plan { osds: 4, size: 3, min_size: 2, ..Plan::default() });
        let (osd, others) = (cluster.osds[0], cluster.osds[1..].to_vec());
        let first = life(&mut cluster, 0);
        assert!(first.0);
        others.iter().for_each(|other| cluster.world.net.partition(osd, *other));
        cluster.world.run_for(ms(10_000));
        assert!(!life(&mut cluster, 0).0, "seed {seed}: nobody hears osd.0, and it is up");
        // It is tried again after a minute: the others might be dead.
        let mut lives = vec![first.1];
        for _ in 0..50 {
            cluster.world.run_for(ms(2_000));
            let (_, life) = life(&mut cluster, 0);
            if lives.last() != Some(&life) {
                lives.push(life);
            }
        }
        assert!(lives.len() <= 2, "seed {seed}: within 110 s osd.0 came up in the epochs {lives:?}");
        cluster.world.heal();
        cluster.world.run_for(ms(15_000));
        assert!(life(&mut cluster, 0).0, "seed {seed}: osd.0 reaches the others, and stays down");
        cluster.wait_clean().expect("all are back");
    }
}

/// The other OSDs hear a host that has lost its clients' network alone, and clients do not: its OSD is marked down soon, and comes back.
#[test]
fn an_osd_that_clients_do_not_reach_is_marked_down_though_others_hear_it() {
    for seed in 0..3 {
        let plan = Plan { osds: 3, size: 3, min_size: 2, two_networks: true, ..Plan::default() };
        let mut cluster = cluster(seed, plan);
        let osd = cluster.osds[2];
        assert!(life(&mut cluster, 2).0);
        cluster.world.run_for(ms(5_000));
        cluster.world.net.unplug(osd);
        cluster.world.run_for(ms(5_500));
        assert!(!life(&mut cluster, 2).0, "seed {seed}: no client reaches osd.2, and it is up");
        assert!(life(&mut cluster, 0).0 && life(&mut cluster, 1).0, "seed {seed}: the others are accused, too");
        cluster.world.heal();
        cluster.world.run_for(ms(15_000));
        assert!(life(&mut cluster, 2).0, "seed {seed}: clients reach osd.2 again, and it stays down");
        cluster.wait_clean().expect("all are back");
    }
}

/// All objects of one OSD have rotted, nobody reads them, and no scrub is due. Its store comes by and tells. Gives how many are left.
fn left_of_rot(seed: u64, osd: usize, mistake: Option<Mistake>) -> usize {
    let mut cluster = cluster(seed, Plan { osds: 3, size: 3, min_size: 2, wounds: TOLD, mistake, ..Plan::default() });
    cluster.wait_clients(ms(60_000)).expect("clients are answered");
    cluster.wait_clean().expect("all is well");
    let rotten = cluster.rot_objects(osd);
    assert!(rotten > 0, "seed {seed}: there are no objects");
    cluster.world.run_for(ms(20_000));
    if mistake.is_none() {
        cluster.wait_clean().expect("the objects are brought");
    }
    cluster.rotten(osd)
}

#[test]
fn what_a_store_finds_rotten_by_itself_comes_from_the_others() {
    for (seed, osd) in [(0, 0), (1, 1), (2, 2)] {
        assert_eq!(left_of_rot(seed, osd, None), 0, "seed {seed}: objects of osd.{osd} are still rotten");
    }
    let ignores = Some(Mistake::Copies(osd::Mistake::IgnoreDamage));
    assert!(left_of_rot(0, 0, ignores) > 0, "who does not look has objects that are rotten");
}
