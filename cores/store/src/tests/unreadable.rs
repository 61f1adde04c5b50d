//! Changes of part of what cannot be read, for a while or for good.

use super::world::World;
use crate::Store;
use crate::block::BLOCK;
use objectstore::{Hold, Mutation, ObjectChange, ObjectStore, Read, Transaction, Unfit, View};
use types::{HObject, ObjectId, SnapId};

const B: u64 = BLOCK as u64;

fn object(snap: SnapId) -> ObjectId {
    HObject { pool: 7, name: "partly".into(), snap, ..HObject::default() }.into()
}

/// An object of 64 blocks, which are in no memory. A quarter of the seeds have it in the journal only.
fn world(seed: u64) -> World {
    let mut world = World::sized(seed, seed.is_multiple_of(2), 48 << 20);
    let data: Vec<u8> = (0..64 * B).map(|i| (i / 7 + i / B) as u8).collect();
    match seed % 4 {
        3 => {
            (0..64).for_each(|n| {
                let (from, to) = ((n * B) as usize, ((n + 1) * B) as usize);
                assert!(world.submit(
                    0,
                    vec![Mutation::of(object(SnapId::HEAD), ObjectChange::Write(n * B, data[from..to].to_vec().into()))]
                ));
            })
        }
        _ => assert!(world.submit(0, vec![Mutation::of(object(SnapId::HEAD), ObjectChange::Write(0, data.into()))])),
    }
    world.settle();
    world.reopen();
    world
}

/// From here on nothing can be read from the disks, or all of it again.
fn blind(world: &mut World, blind: bool) {
    for disk in &mut world.disks {
        disk.bad = if blind { (0..(48 << 20) / 512).collect() } else { Default::default() };
    }
    world.store.drop_caches();
}

#[test]
fn a_promise_that_was_forgotten_is_found() {
    let mut world = World::new(3, false);
    assert!(world.submit(0, part(0, 5 * BLOCK)));
    world.settle();
    assert_eq!(world.store.self_check(true), Ok(()));
    assert!(world.store.forget_promise(), "data lies in the journal");
    let found = world.store.self_check(true).expect_err("a promise is missing");
    assert!(found.contains("5 blocks of the active delta are in the journal, 0 are promised"), "{found}");
}

fn rehearse(store: &Store, hold: Hold, mutations: &[Mutation]) -> Read<()> {
    let transaction: Transaction = mutations.iter().cloned().collect();
    store.rehearse(hold, &transaction.objects).map_err(|unfit| match unfit {
        Unfit::Unread(unread) => unread,
        Unfit::TooLarge => panic!("too large"),
    })
}

fn part(offset: u64, len: usize) -> Vec<Mutation> {
    vec![Mutation::of(object(SnapId::HEAD), ObjectChange::Write(offset, vec![0xee; len].into()))]
}

#[test]
fn a_part_is_not_written_beside_what_cannot_be_read_and_nothing_is_lost() {
    for seed in 0..8 {
        let mut world = world(seed);
        blind(&mut world, true);
        let cloned = vec![Mutation::of(object(SnapId(4)), ObjectChange::CloneOf(object(SnapId::HEAD)))];
        let zero = vec![Mutation::of(object(SnapId::HEAD), ObjectChange::Zero(3 * B + 5, 3 * B))];
        let cut = vec![Mutation::of(object(SnapId::HEAD), ObjectChange::Truncate(9 * B + 1))];
        for mutations in [part(7, 5), part(B - 1, 2 * BLOCK), zero, cut] {
            let refused = world.read(|s, h| rehearse(s, h, &mutations));
            assert!(refused.is_err(), "seed {seed}: {mutations:?} needs what cannot be read");
        }
        // What a clone shares need not be read unless it is in the journal, but the index must be.
        let _ = world.read(|s, h| rehearse(s, h, &cloned));
        assert_eq!(world.store.failure(), None, "seed {seed}");
        blind(&mut world, false);
        world.check_all();
        for mutations in [part(7, 5), part(B - 1, 2 * BLOCK), cloned] {
            assert_eq!(world.read(|s, h| rehearse(s, h, &mutations)), Ok(()), "seed {seed}");
            assert!(world.submit(0, mutations));
        }
        world.settle();
        world.check_all();
        world.crash();
        world.check_all();
    }
}

#[test]
fn what_a_rehearsal_read_is_there_for_its_transaction() {
    for seed in 0..8 {
        let mut world = world(seed);
        let mutations = part(5 * B + 100, 3 * BLOCK);
        let (read, hold) = world.read_and_hold(|s, h| rehearse(s, h, &mutations));
        assert_eq!(read, Ok(()), "seed {seed}");
        blind(&mut world, true);
        assert!(world.submit_rehearsed(0, mutations, Some(hold)));
        world.store.release(hold);
        // Many turns: whatever would be asked of the disk again has failed by then.
        for _ in 0..200 {
            world.pump();
        }
        assert_eq!(world.store.failure(), None, "seed {seed}");
        blind(&mut world, false);
        world.settle();
        world.check_all();
    }
}

#[test]
fn whole_blocks_are_written_whatever_was_there() {
    let mut world = world(0);
    let mutations = part(2 * B, 3 * BLOCK);
    // The object itself must be known, as it always is to whoever writes.
    let (_, hold) = world.read_and_hold(|s, h| s.stat(h, &object(SnapId::HEAD)));
    for disk in &mut world.disks {
        disk.bad = (0..(48 << 20) / 512).collect();
    }
    assert_eq!(world.read(|s, h| rehearse(s, h, &mutations)), Ok(()));
    world.store.release(hold);
    blind(&mut world, false);
}

#[test]
fn cold_data_leaves_memory_when_it_is_in_its_place() {
    let kept = |cold: bool, len: usize| {
        let mut world = World::sized(2, false, 48 << 20);
        world.cold = Some(cold);
        assert!(world.submit(0, part(0, len)));
        world.settle();
        world.stop();
        world.store.memory().blocks
    };
    assert_eq!((kept(false, 5 * BLOCK), kept(true, 5 * BLOCK)), (5 * BLOCK, 0));
}
