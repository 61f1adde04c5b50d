//! What was acknowledged survives; what was not is there whole or not at all; damage is named.

mod common;

use common::{Disk, World, config};
use mon::AuthMode;
use node::{DiskOp, Input};

const POOL: &str = r#"{"prefix":"config-key set","key":"k","val":"v"}"#;

fn set(n: usize) -> String {
    format!(r#"{{"prefix":"config-key set","key":"k{n}","val":"{}"}}"#, "x".repeat(n * 137 % 5000))
}

fn has(world: &mut World, n: usize) -> bool {
    world.call(&format!(r#"{{"prefix":"config-key exists","key":"k{n}"}}"#)).0 == 0
}

#[test]
fn nothing_is_acknowledged_before_it_is_durable() {
    let mut world = World::new();
    world.hold = true;
    let id = world.begin_call(POOL);
    world.run();
    assert!(!world.answers.contains_key(&id), "acknowledged while the write is under way");
    let visible = world.begin_call(r#"{"prefix":"config-key exists","key":"k"}"#);
    assert!(world.answers[&visible].0 < 0, "a reader must not see what may still be lost");
    world.hold = false;
    while let Some(request) = world.held.pop_front() {
        world.do_disk(request);
    }
    world.run();
    assert_eq!(world.answers[&id].0, 0);
}

#[test]
fn proposals_that_come_while_a_group_is_written_share_the_next_one() {
    let mut world = World::new();
    world.hold = true;
    let ids: Vec<u64> = (0..20).map(|n| world.begin_call(&set(n))).collect();
    let mut writes = 0;
    while let Some(request) = world.held.pop_front() {
        writes += usize::from(matches!(request.op, DiskOp::Write { .. }));
        world.do_disk(request);
        world.run();
    }
    world.hold = false;
    world.run();
    assert!(ids.iter().all(|id| world.answers[id].0 == 0));
    assert!(writes <= 4, "{writes} writes for 20 proposals");
}

#[test]
fn a_restart_finds_everything_that_was_acknowledged() {
    let mut world = World::new();
    world.boot_osd(0);
    world.ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    world.ok(r#"{"prefix":"config set","who":"osd","name":"osd_max_backfills","value":"3"}"#);
    world.ok(r#"{"prefix":"auth get-or-create","entity":"client.foo","caps":["mon","allow r"]}"#);
    let ask = [
        r#"{"prefix":"osd dump"}"#,
        r#"{"prefix":"config dump"}"#,
        r#"{"prefix":"auth ls"}"#,
        r#"{"prefix":"mon dump"}"#,
        r#"{"prefix":"osd metadata"}"#,
        r#"{"prefix":"osd getmap","epoch":2}"#,
    ];
    let before: Vec<String> = ask.iter().map(|a| world.ok(a)).collect();
    let mut again = World::with(config(AuthMode::None), world.disk.clone());
    let after: Vec<String> = ask.iter().map(|a| again.ok(a)).collect();
    assert_eq!(before, after);
}

#[test]
fn a_crash_at_any_point_of_a_write_loses_nothing_that_was_acknowledged() {
    let mut world = World::new();
    (0..3).for_each(|n| drop(world.ok(&set(n))));
    world.hold = true;
    world.begin_call(&set(30));
    let Some(request) = world.held.pop_front() else { panic!("no write") };
    let DiskOp::Write { offset, data, .. } = request.op else { panic!("not a write") };
    let data = data.to_vec();
    for cut in (0..=data.len()).step_by(512) {
        let mut disk = world.disk.clone();
        disk.bytes.resize(disk.bytes.len().max(offset as usize + data.len()), 0);
        disk.bytes[offset as usize..offset as usize + cut].copy_from_slice(&data[..cut]);
        let mut again = World::with(config(AuthMode::None), disk);
        assert_eq!(again.fatal, None, "cut at {cut}");
        assert!((0..3).all(|n| has(&mut again, n)), "cut at {cut}");
        // Whole or not at all, and writing goes on either way, also over another restart.
        again.ok(&set(40));
        let mut third = World::with(config(AuthMode::None), again.disk.clone());
        assert!(has(&mut third, 40) && (0..3).all(|n| has(&mut third, n)), "cut at {cut}");
    }
}

#[test]
fn the_log_is_folded_and_the_fold_survives_a_crash_at_each_of_its_writes() {
    let small = || mon::Config { log_bytes: 64 << 10, ..config(AuthMode::None) };
    let mut world = World::with(small(), Disk::default());
    let mut disks = Vec::new();
    for n in 0..60 {
        world.ok(&set(n));
        if n % 7 == 0 {
            disks.push((n, world.disk.clone()));
        }
    }
    assert!(world.disk.bytes.len() > 4 << 20, "the second area was never used");
    for (n, disk) in disks {
        let mut again = World::with(small(), disk);
        assert_eq!(again.fatal, None);
        assert!((0..=n).all(|i| has(&mut again, i)), "after {n}");
    }
}

#[test]
fn damage_below_a_durable_point_stops_the_monitor_and_is_named() {
    let mut world = World::new();
    (0..5).for_each(|n| drop(world.ok(&set(n))));
    let good = world.disk.clone();
    let find = |disk: &Disk, text: &[u8]| disk.bytes.windows(text.len()).position(|w| w == text).unwrap();
    let mut bad = good.clone();
    let at = find(&bad, b"k1");
    bad.bytes[at] ^= 1;
    let why = World::with(config(AuthMode::None), bad).fatal.expect("corruption is no torn tail");
    assert!(why.contains("damaged") && why.contains("unreadable"), "{why}");
    // The snapshot, too.
    let mut bad = good.clone();
    let at = find(&bad, b"admin");
    bad.bytes[at] ^= 1;
    let why = World::with(config(AuthMode::None), bad).fatal;
    assert!(why.is_none_or(|w| w.contains("snapshot") || w.contains("damaged")));
    // One of two copies of a superblock does not matter.
    let mut bad = good;
    bad.bytes[100] ^= 1;
    let mut again = World::with(config(AuthMode::None), bad);
    assert!(has(&mut again, 4));
}

#[test]
fn a_store_of_another_cluster_or_a_newer_format_is_refused() {
    let world = World::new();
    let other = mon::Config { fsid: types::Fsid([7; 16]), ..config(AuthMode::None) };
    let why = World::with(other, world.disk.clone()).fatal.unwrap();
    assert!(why.contains("belongs to cluster"), "{why}");
    let mut newer = world.disk.clone();
    for copy in 0..2 {
        let block = &mut newer.bytes[copy * 4096..(copy + 1) * 4096];
        block[8] = 99;
        let crc = kernels::crc32c(kernels::SEED, &block[..4092]);
        block[4092..].copy_from_slice(&crc.to_le_bytes());
    }
    let why = World::with(config(AuthMode::None), newer).fatal.unwrap();
    assert!(why.contains("format version 99"), "{why}");
}

#[test]
fn a_full_disk_makes_changes_wait_and_reads_go_on() {
    let mut world = World::new();
    world.no_space = true;
    let id = world.begin_call(POOL);
    world.pass(std::time::Duration::from_secs(3));
    assert!(!world.answers.contains_key(&id) && world.fatal.is_none());
    assert!(world.ok(r#"{"prefix":"health"}"#).starts_with("HEALTH_ERR"));
    world.no_space = false;
    world.pass(std::time::Duration::from_secs(2));
    assert_eq!(world.answers[&id].0, 0);
}

#[test]
fn a_full_host_takes_thousands_of_small_changes() {
    let mut world = World::new();
    world.boot_osd(0);
    world.host_full = true;
    world.pass(std::time::Duration::from_secs(5));
    assert!(world.ok(r#"{"prefix":"health","detail":"detail"}"#).contains("MON_DISK_CRIT"), "the user hears of it");
    for restart in 0..3 {
        for n in 0..1000 {
            world.ok(&format!(r#"{{"prefix":"config-key set","key":"k{}","val":"v{n} {restart}"}}"#, n % 8));
        }
        world = World::resting(config(AuthMode::None), world.disk);
        world.host_full = true;
        world.run();
        assert_eq!(world.ok(r#"{"prefix":"config-key get","key":"k7"}"#), format!("v999 {restart}"));
    }
}

#[test]
fn what_is_too_large_for_a_full_host_waits() {
    let mut world = World::new();
    world.host_full = true;
    let value = |n| format!(r#"{{"prefix":"config-key set","key":"large{n}","val":"{}"}}"#, "x".repeat(60_000));
    let caps = vec!["allow r"; 3000].join(", ");
    let user = |n| format!(r#"{{"prefix":"auth add","entity":"client.n{n}","caps":["mon","{caps}"]}}"#);
    let mut waiting: Vec<u64> = (0..15).map(value).chain((0..45).map(user)).map(|command| world.begin_call(&command)).collect();
    waiting.retain(|id| !world.answers.contains_key(id));
    assert!(!waiting.is_empty() && world.fatal.is_none());
    world.host_full = false;
    world.pass(std::time::Duration::from_secs(2));
    assert!(waiting.iter().all(|id| world.answers[id].0 == 0));
    assert!(!world.ok(r#"{"prefix":"health","detail":"detail"}"#).contains("MON_DISK"));
}

#[test]
fn a_stop_waits_for_what_is_under_way() {
    let mut world = World::new();
    world.hold = true;
    let id = world.begin_call(POOL);
    world.feed(Input::Stop);
    world.run();
    assert!(!world.stopped);
    world.hold = false;
    while let Some(request) = world.held.pop_front() {
        world.do_disk(request);
        world.run();
    }
    assert!(world.stopped && world.answers[&id].0 == 0);
}

#[test]
fn a_stop_before_it_serves_ends_it_too() {
    // After so many of the disk's answers on the way from the first turn to serving.
    for made in [false, true] {
        for answers in 0..12 {
            let disk = if made { World::new().disk.clone() } else { Disk::default() };
            let mut world = World::resting(config(AuthMode::None), disk);
            world.hold = true;
            if answers > 0 {
                world.run();
            }
            for _ in 1..answers {
                let Some(request) = world.held.pop_front() else { break };
                world.do_disk(request);
                world.run();
            }
            world.feed(Input::Stop);
            world.run();
            world.hold = false;
            while let Some(request) = world.held.pop_front() {
                world.do_disk(request);
                world.run();
            }
            assert!(world.stopped && world.fatal.is_none(), "made {made}, {answers} answers");
            // What it left is a store, or nothing.
            let mut again = World::with(config(AuthMode::None), world.disk.clone());
            assert!(again.fatal.is_none() && again.call(r#"{"prefix":"status"}"#).0 == 0);
        }
    }
}

#[test]
fn a_stop_does_not_wait_for_space() {
    let mut world = World::new();
    world.no_space = true;
    let id = world.begin_call(POOL);
    world.run();
    world.feed(Input::Stop);
    world.run();
    assert!(world.stopped && !world.answers.contains_key(&id), "nothing was acknowledged");
}

#[test]
fn a_store_that_is_cut_off_is_refused() {
    let mut disk = World::new().disk;
    // The superblocks are there, the snapshot is not.
    disk.bytes.truncate(16_384);
    let why = World::with(config(AuthMode::None), disk).fatal.expect("it is refused");
    assert!(why.contains("cut off") && why.contains("16384"), "{why}");
}

#[test]
fn the_same_story_gives_the_same_bytes() {
    let story = || {
        let mut world = World::new();
        world.boot_osd(0);
        world.boot_osd(1);
        world.ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":16}"#);
        world.ok(r#"{"prefix":"auth get-or-create","entity":"client.foo","caps":["mon","allow r"]}"#);
        world.pass(std::time::Duration::from_secs(40));
        (world.disk.bytes.clone(), world.ok(r#"{"prefix":"report"}"#))
    };
    assert!(story() == story());
}

#[test]
fn osds_boot() {
    let mut world = World::new();
    let peer = world.boot_osd(0);
    assert_eq!(world.peers[peer].closed, None);
    let stat = world.ok(r#"{"prefix":"osd stat"}"#);
    assert!(stat.starts_with("1 osds: 1 up"), "{stat} {:?}", world.log);
}
