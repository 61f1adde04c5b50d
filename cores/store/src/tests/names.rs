//! Shards of one object and generations of it, beside each other in one store.

use super::world::World;
use objectstore::{Mutation, ObjectChange, View};
use types::{HObject, ObjectId, ShardId, SnapId};

/// The whole object, two shards of it, and kept generations of it and of a shard.
fn names() -> [ObjectId; 5] {
    let whole = ObjectId::whole(HObject { pool: 7, hash: 9, name: "one".into(), snap: SnapId::HEAD, ..HObject::default() });
    let shard = |n| ObjectId { shard: ShardId(n), ..whole.clone() };
    [whole.clone(), shard(0), shard(1), whole.in_generation(5), shard(1).in_generation(5)]
}

fn write(name: &ObjectId, byte: u8) -> Mutation {
    Mutation::of(name.clone(), ObjectChange::Write(0, vec![byte; 5000 + usize::from(byte)].into()))
}

/// A world in which each name has bytes of its own.
fn world(seed: u64) -> World {
    let mut world = World::new(seed, seed.is_multiple_of(2));
    let set = |(i, name)| [write(name, i), Mutation::of(name.clone(), ObjectChange::SetXattr("a".into(), vec![i].into()))];
    let mutations = (0..).zip(&names()).flat_map(set).collect();
    assert!(world.submit(0, mutations));
    world
}

/// Returns which names have which first byte.
fn held(world: &mut World) -> Vec<Option<u8>> {
    let first = |name| world.read(|s, h| s.read(h, name, 0, 1)).expect("nothing is damaged").to_vec().first().copied();
    names().iter().map(first).collect()
}

fn listed(world: &mut World, shard: ShardId) -> Vec<ObjectId> {
    let (first, end) = (HObject::min().into(), HObject::end().into());
    world.read(|s, h| s.list(h, shard, &first, &end, 9)).expect("nothing is damaged")
}

#[test]
fn each_is_written_read_and_listed_alone() {
    let mut world = world(1);
    assert!(world.submit(0, vec![write(&names()[2], 77)]));
    assert_eq!(held(&mut world), [Some(0), Some(1), Some(77), Some(3), Some(4)]);
    let [whole, zero, one, old, old_one] = names();
    assert_eq!(listed(&mut world, ShardId::NONE), [whole.clone(), old]);
    assert_eq!(listed(&mut world, ShardId(0)), [zero]);
    assert_eq!(listed(&mut world, ShardId(1)), [old_one, one.clone()]);
    // A listing that goes on in the middle of an object's names.
    let end = HObject::end().into();
    assert_eq!(world.read(|s, h| s.list(h, ShardId(1), &one, &end, 9)), Ok(vec![one]));
    assert_eq!(world.read(|s, h| s.list(h, ShardId(1), &HObject::min().into(), &whole, 9)), Ok(Vec::new()));
    world.settle();
    world.check_all();
}

#[test]
fn each_is_cloned_and_removed_alone() {
    for i in 0..5 {
        let (mut world, name) = (world(2), names()[i].clone());
        let clone = name.at(SnapId(4));
        assert!(world.submit(0, vec![Mutation::of(clone.clone(), ObjectChange::CloneOf(name.clone()))]));
        assert!(world.submit(0, vec![Mutation::of(name, ObjectChange::Remove)]));
        let others: Vec<_> = (0..5).map(|n| (n as usize != i).then_some(n)).collect();
        assert_eq!(held(&mut world), others);
        let copy = world.read(|s, h| s.read(h, &clone, 0, 9000)).expect("whole").to_vec();
        assert_eq!((copy.len(), copy[0]), (5000 + i, i as u8));
        world.settle();
        world.check_all();
    }
}

#[test]
fn a_generation_is_kept_while_the_object_goes_on() {
    let mut world = world(3);
    let [_, shard, ..] = names();
    let kept = shard.in_generation(8);
    assert!(world.submit(0, vec![Mutation::of(kept.clone(), ObjectChange::CloneOf(shard.clone())), write(&shard, 99)]));
    world.settle();
    // Back to it.
    assert!(
        world.submit(0, vec![Mutation::of(shard, ObjectChange::CloneOf(kept.clone())), Mutation::of(kept, ObjectChange::Remove)])
    );
    assert_eq!(held(&mut world)[1], Some(1));
    world.settle();
    world.check_all();
}

#[test]
fn all_are_there_after_replay_and_after_a_checkpoint_and_the_checker_knows_them() {
    for seed in 0..4 {
        let mut world = world(seed);
        world.settle();
        world.crash();
        assert_eq!(held(&mut world), (0..5).map(Some).collect::<Vec<_>>(), "seed {seed}: replayed");
        world.restart();
        assert_eq!(held(&mut world), (0..5).map(Some).collect::<Vec<_>>(), "seed {seed}: in the index");
        world.check_all();
    }
}
