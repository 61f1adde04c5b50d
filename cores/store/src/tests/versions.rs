//! A store of the version before: what it holds stays, and it is marked with the new version whatever happens meanwhile.

use super::world::World;
use crate::OpenError;
use crate::block::BLOCK;
use crate::superblock::{OLDEST, SLOTS, Superblock, VERSION};

/// Versions that the slots state; 0 for one that is not whole.
fn marks(world: &World) -> [u32; 2] {
    SLOTS.map(|slot| {
        let at = slot as usize * BLOCK;
        let slot = world.disks[0].bytes().get(at..at + BLOCK).map(Superblock::parse);
        slot.and_then(Result::ok).flatten().map_or(0, |sb| sb.version)
    })
}

/// A store of version 1: with an index, and with records in its journal.
fn old(seed: u64) -> World {
    let mut world = World::new(seed, seed.is_multiple_of(2));
    world.store.sb.version = OLDEST;
    // Programs of that version knew no pieces.
    (world.scattered, world.store.space.scatter) = (false, false);
    while marks(&world) != [OLDEST; 2] {
        (0..30).for_each(|_| world.submit_one());
        world.store.due.want(true);
        world.settle();
    }
    for _ in 0..30 {
        world.submit_one();
        world.pump();
    }
    world
}

#[test]
fn a_store_of_version_1_is_opened_and_marked_before_anything_is_written() {
    for seed in 0..4 {
        let mut world = old(seed);
        world.crash();
        assert_eq!((marks(&world), world.store.sb.version), ([VERSION; 2], VERSION), "seed {seed}");
        world.check_all();
        world.life(60);
    }
}

#[test]
fn a_marking_that_is_cut_at_any_moment_leaves_a_store_that_goes_on() {
    let mut seen = Vec::new();
    for seed in 0..4 {
        for pumps in 0.. {
            let mut world = old(seed);
            world.settle();
            world.cut();
            world.begin_open();
            for _ in 0..pumps {
                world.pump();
            }
            let (cut, done) = (marks(&world), world.store.ready());
            seen.push(cut);
            world.crash();
            assert_eq!(marks(&world), [VERSION; 2], "seed {seed}, cut at {cut:?}");
            world.check_all();
            if done {
                break;
            }
        }
    }
    let halves = [[OLDEST, OLDEST], [VERSION, OLDEST], [OLDEST, VERSION], [VERSION, VERSION]];
    let missed: Vec<_> = halves.iter().filter(|marks| !seen.contains(marks)).collect();
    assert!(missed.len() <= 1, "a cut was never made at {missed:?}");
}

#[test]
fn a_newer_store_is_refused_and_left_as_it_is() {
    let mut world = World::new(1, false);
    world.store.sb.version = VERSION + 1;
    while marks(&world) != [0; 2] {
        (0..30).for_each(|_| world.submit_one());
        world.store.due.want(true);
        world.settle();
    }
    let before = world.disks[0].bytes().to_vec();
    world.begin_open();
    while world.store.open_error().is_none() {
        assert!(!world.store.ready());
        world.pump();
    }
    assert_eq!(world.store.open_error(), Some(&OpenError::TooNew { found: VERSION + 1, known: VERSION }));
    assert_eq!(before, world.disks[0].bytes());
}
