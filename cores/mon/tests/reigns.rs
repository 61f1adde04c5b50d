//! The leadership is lost and won again at any moment, with one voter: askers are told to ask again, and nothing that
//! was acknowledged is lost.
#![cfg(feature = "sim")]

mod common;

use common::{World, config};
use messages::mon::MonCommand;
use mon::AuthMode;
use std::time::Duration;

const TRY_AGAIN: i32 = -11;

fn set(n: usize) -> String {
    format!(r#"{{"prefix":"config-key set","key":"k{n}","val":"{}"}}"#, "x".repeat(n * 137 % 5000))
}

fn has(world: &mut World, n: usize) -> bool {
    world.call(&format!(r#"{{"prefix":"config-key exists","key":"k{n}"}}"#)).0 == 0
}

/// Lets the disk do what it was asked for, and all that follows.
fn release(world: &mut World) {
    world.hold = false;
    while let Some(request) = world.held.pop_front() {
        world.do_disk(request);
        world.run();
    }
    world.run();
}

#[test]
fn at_any_moment_of_commands_under_way() {
    for (lose, moment, twice) in (0..64).map(|n| (n % 2 == 1, n / 2 % 16, n >= 32)) {
        let mut world = World::new();
        world.boot_osd(0);
        (0..3).for_each(|n| drop(world.ok(&set(n))));
        world.hold = true;
        let mut asked = Vec::new();
        for step in 0..16 {
            if step == moment || (twice && step == moment + 3) {
                world.monitor.depose(world.now, lose);
                world.monitor.self_check().unwrap();
                world.run();
            }
            if step % 2 == 0 {
                asked.push((10 + step, world.begin_call(&set(10 + step))));
            } else if let Some(request) = world.held.pop_front() {
                world.do_disk(request);
                world.run();
            }
            world.monitor.self_check().unwrap();
        }
        release(&mut world);
        world.pass(Duration::from_secs(2));
        let what = format!("lose {lose}, moment {moment}, twice {twice}");
        assert_eq!(world.fatal, None, "{what}");
        assert!(world.monitor.is_serving(), "{what}");
        let results: Vec<(usize, i32)> = asked.iter().map(|(n, call)| (*n, world.answers[call].0)).collect();
        assert!(results.iter().all(|(_, result)| *result == 0 || *result == TRY_AGAIN), "{what}: {results:?}");
        let mut again = World::with(config(AuthMode::None), world.disk.clone());
        for n in (0..3).chain(results.iter().filter(|(_, result)| *result == 0).map(|(n, _)| *n)) {
            assert!(has(&mut world, n) && has(&mut again, n), "{what}: key {n} of {results:?}");
        }
        world.ok(&set(99));
        assert!(has(&mut world, 99));
    }
}

#[test]
fn what_was_proposed_and_lost_is_not_there_later() {
    let mut world = World::new();
    world.hold = true;
    let written = world.begin_call(&set(1));
    let only_in_memory = world.begin_call(&set(2));
    world.monitor.depose(world.now, true);
    world.run();
    assert_eq!((world.answers[&written].0, world.answers[&only_in_memory].0), (TRY_AGAIN, TRY_AGAIN));
    release(&mut world);
    assert!(!has(&mut world, 1) && !has(&mut world, 2), "the tail was cut");
    let mut again = World::with(config(AuthMode::None), world.disk.clone());
    assert!(!has(&mut again, 1) && !has(&mut again, 2), "on disk, too");
}

#[test]
fn what_was_proposed_and_survived_is_committed_by_the_next_reign() {
    let mut world = World::new();
    world.hold = true;
    let call = world.begin_call(&set(1));
    world.monitor.depose(world.now, false);
    world.run();
    assert_eq!(world.answers[&call].0, TRY_AGAIN, "nobody knows yet");
    release(&mut world);
    assert!(has(&mut world, 1));
}

#[test]
fn sessions_end_with_the_reign_and_clients_come_back() {
    let mut world = World::new();
    let osd = world.boot_osd(0);
    let client = world.connect("client.admin", None, 0);
    world.hold = true;
    let message = MonCommand { fsid: common::FSID, cmd: vec![set(1)], input: types::Rope::new() }.encode();
    world.send(client, message);
    world.monitor.depose(world.now, true);
    world.run();
    assert!(world.peers[client].closed.is_some() && world.peers[osd].closed.is_some());
    release(&mut world);
    let again = world.connect("client.admin", None, 0);
    assert_eq!(world.command(again, &set(1), b"").result, 0);
    // The OSD has time to come back before it is called down.
    assert!(world.ok(r#"{"prefix":"osd stat"}"#).starts_with("1 osds: 1 up"));
    let osd = world.connect("osd.0", None, 0);
    world.boot_on(osd, 0);
    world.pass(Duration::from_secs(10));
    assert!(world.ok(r#"{"prefix":"osd stat"}"#).starts_with("1 osds: 1 up"));
}

#[test]
fn numbers_that_clients_get_are_given_once() {
    let mut world = World::new();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..5 {
        let client = world.connect("client.admin", None, 0);
        let id = world.peers[client].messenger.auth().client.global_id;
        assert!(id != 0 && seen.insert(id), "{id} was given before: {seen:?}");
        world.monitor.depose(world.now, true);
        world.run();
    }
}
