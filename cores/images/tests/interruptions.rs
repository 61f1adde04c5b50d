//! Work on whole images is cut off after every request that it makes, and begun anew: in the end all is as if it had
//! not been.

mod world;

use images::{Fail, Io, Place, Progress, flatten, migrate, remove};
use messages::class::rbd::feature;
use std::future::Future;
use types::Errno;
use world::{Image, OTHER, POOL, Spec, World};

const ORDER: u8 = 16;
const OBJECT: u64 = 1 << ORDER;
const PLAIN: u64 = feature::LAYERING;
const LOCKED: u64 = PLAIN | feature::EXCLUSIVE_LOCK | feature::OBJECT_MAP | feature::FAST_DIFF | feature::DEEP_FLATTEN;

fn spec(name: &'static str, features: u64) -> Spec {
    Spec { pool: POOL, name, size: 5 * OBJECT - 1000, order: ORDER, features }
}

fn at(image: &Image) -> Place {
    Place::new(image.pool, "")
}

type Job<F> = fn(Io, Image) -> F;

/// Cuts a job off after each number of requests, begins it anew until it ends, and looks at what came of it. What is
/// done needs not be found: ENOENT is well.
fn everywhere<F>(world: &World, image: &Image, job: Job<F>, mut check: impl FnMut(&mut World))
where
    F: Future<Output = Result<(), Fail>> + 'static,
{
    for most in 0.. {
        let mut world = world.clone();
        let whole = world.work(most, |io| job(io, image.clone()));
        if whole.is_none() {
            let again = world.work(usize::MAX, |io| job(io, image.clone())).expect("it ends");
            assert!(again.as_ref().err().is_none_or(|fail| fail.errno == Errno::ENOENT), "after {most} requests: {again:?}");
        }
        eprintln!("cut off after {most} requests");
        check(&mut world);
        if let Some(whole) = whole {
            assert_eq!(whole, Ok(()), "{most} requests");
            assert!(most > 10, "a job of {most} requests does nothing");
            return;
        }
    }
}

async fn removal(io: Io, image: Image) -> Result<(), Fail> {
    remove::by_name(&io, &at(&image), &image.name, Some(&image.id), &Progress::default()).await
}

async fn removal_from_trash(io: Io, image: Image) -> Result<(), Fail> {
    remove::from_trash(&io, &at(&image), &image.id, &Progress::default()).await
}

async fn flattening(io: Io, image: Image) -> Result<(), Fail> {
    match flatten::flatten(&io, &at(&image), &image.id, &Progress::default()).await {
        // It is flat already.
        Err(fail) if fail.errno == Errno::EINVAL => Ok(()),
        other => other,
    }
}

async fn execution(io: Io, target: Image) -> Result<(), Fail> {
    migrate::execute(&io, &at(&target), &target.id, &Progress::default()).await
}

async fn commit(io: Io, target: Image) -> Result<(), Fail> {
    match migrate::commit(&io, &at(&target), &target.id, &Progress::default()).await {
        // The source is gone already.
        Err(fail) if fail.errno == Errno::EINVAL => Ok(()),
        other => other,
    }
}

async fn abort(io: Io, target: Image) -> Result<(), Fail> {
    match migrate::abort(&io, &at(&target), &target.id, &Progress::default()).await {
        // The source is back already.
        Err(fail) if fail.errno == Errno::EINVAL => Ok(()),
        other => other,
    }
}

#[test]
fn removal_leaves_nothing() {
    for features in [PLAIN, LOCKED] {
        let mut world = World::new(features);
        let image = world.make(spec("a", features));
        world.fill(&image, 10, 3 * OBJECT, 1);
        everywhere(&world, &image, removal, |world| assert_eq!(world.left(), [""; 0]));
    }
}

#[test]
fn removal_of_a_clone_leaves_its_parent_as_it_was() {
    let mut world = World::new(3);
    let mut parent = world.make(spec("parent", LOCKED));
    world.fill(&parent, 0, 2 * OBJECT, 1);
    let snap = world.snapshot(&mut parent);
    let before = world.left();
    let child = world.clone_of(&parent, snap, spec("child", LOCKED));
    world.fill(&child, OBJECT, 5000, 2);
    everywhere(&world, &child, removal, |world| {
        assert_eq!(world.left(), before);
        assert_eq!(world.clones(&parent), 0);
    });
}

#[test]
fn what_is_in_use_or_needed_stays_whole() {
    let mut world = World::new(4);
    let mut image = world.make(spec("a", LOCKED));
    world.fill(&image, 0, OBJECT, 1);
    world.snapshot(&mut image);
    let before = world.left();
    let refused = world.work(usize::MAX, |io| removal(io, image.clone())).expect("it ends");
    assert_eq!(refused.map_err(|fail| fail.errno), Err(Errno::ENOTEMPTY));
    assert_eq!(world.left(), before);
    assert!(world.has_name(&image));
}

#[test]
fn a_flattened_clone_holds_what_it_held() {
    for features in [PLAIN, LOCKED] {
        let mut world = World::new(features + 1);
        let mut parent = world.make(spec("parent", LOCKED));
        world.fill(&parent, 3000, OBJECT, 1);
        world.fill(&parent, 3 * OBJECT + 5, OBJECT, 2);
        let snap = world.snapshot(&mut parent);
        let mut child = world.clone_of(&parent, snap, spec("child", features));
        world.fill(&child, OBJECT + 100, 5000, 3);
        if features == LOCKED {
            world.snapshot(&mut child);
            world.fill(&child, 3 * OBJECT, 100, 4);
        }
        let held = world.contents(&child);
        let alone = Image { parent: None, ..child.clone() };
        everywhere(&world, &child, flattening, |world| {
            assert!(world.contents(&alone) == held, "it holds something else");
            assert_eq!(world.clones(&parent), 0);
            world.check_maps(&alone);
        });
    }
}

/// A source with snapshots, sizes and holes, and where it moves.
fn moving(features: u64, order: u8, parent: bool, flatten: bool) -> (World, Image, Image) {
    let mut world = World::new(u64::from(order) + features);
    let mut source = if parent {
        let mut parent = world.make(spec("parent", LOCKED));
        world.fill(&parent, 3000, 4 * OBJECT, 9);
        let snap = world.snapshot(&mut parent);
        world.clone_of(&parent, snap, spec("source", features))
    } else {
        world.make(spec("source", features))
    };
    world.fill(&source, OBJECT + 100, OBJECT, 1);
    world.snapshot(&mut source);
    world.fill(&source, OBJECT + 5000, 20_000, 2);
    world.fill(&source, 0, 100, 0);
    world.snapshot(&mut source);
    world.snapshot(&mut source);
    world.resize(&mut source, 7 * OBJECT);
    world.fill(&source, 5 * OBJECT + 1, OBJECT, 3);
    world.fill(&source, OBJECT + 5000, 20_000, 0);
    let target = world.prepare(&source, Spec { pool: OTHER, order, ..spec("target", features) }, flatten);
    (world, source, target)
}

#[test]
fn what_moves_holds_what_it_held() {
    for (features, order, parent, flatten) in [
        (PLAIN, ORDER, false, false),
        (LOCKED, ORDER - 1, false, false),
        (LOCKED, ORDER + 1, true, false),
        (PLAIN, ORDER, true, true),
    ] {
        let (mut world, source, target) = moving(features, order, parent, flatten);
        let held = world.contents(&source);
        everywhere(&world, &target, execution, |world| {
            assert!(world.contents(&target) == held, "{order} {parent} {flatten}: it holds something else");
            world.check_maps(&target);
        });
        world.work(usize::MAX, |io| execution(io, target.clone())).expect("it ends").expect("it is copied");
        everywhere(&world, &target, commit, |world| {
            assert!(world.contents(&target) == held, "{order} {parent} {flatten}: it holds something else");
            assert!(!world.is_moving(&target) && world.has_name(&target));
            assert_eq!(world.left_of(&source), [""; 0]);
        });
    }
}

#[test]
fn a_snapshot_of_what_moves_sees_what_was_there_when_it_was_made() {
    let (mut world, source, mut target) = moving(LOCKED, ORDER - 1, true, false);
    let mut held = world.contents(&source);
    world.snapshot(&mut target);
    held.push(held.last().expect("a head").clone());
    everywhere(&world, &target, execution, |world| {
        assert!(world.contents(&target) == held, "it holds something else");
        world.check_maps(&target);
    });
}

#[test]
fn what_does_not_move_after_all_is_what_it_was() {
    for copied in [false, true] {
        let (mut world, source, target) = moving(LOCKED, ORDER - 1, true, false);
        let held = world.contents(&source);
        if copied {
            world.work(usize::MAX, |io| execution(io, target.clone())).expect("it ends").expect("it is copied");
        }
        everywhere(&world, &target, abort, |world| {
            assert!(world.contents(&source) == held, "it holds something else");
            assert!(!world.is_moving(&source) && world.has_name(&source));
            assert_eq!(world.left_of(&target), [""; 0]);
        });
    }
}

#[test]
fn the_trash_is_emptied_to_the_end() {
    let mut world = World::new(11);
    let image = world.make(spec("a", LOCKED));
    world.fill(&image, 0, 2 * OBJECT, 1);
    world.trash(&image, 0);
    everywhere(&world, &image, removal_from_trash, |world| assert_eq!(world.left(), [""; 0]));
}
