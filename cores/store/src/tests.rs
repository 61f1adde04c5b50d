//! The store against its model, on a disk that crashes.

// Tests may be told what to do, and measure time.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod aging;
mod defrag;
mod fsck;
mod liveness;
mod names;
mod speed;
mod unreadable;
mod versions;
mod world;

use crate::mistake::Mistake;
use world::World;

#[test]
fn the_tests_find_mistakes_that_were_made_on_purpose() {
    use Mistake::*;
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let found = |mistake: Mistake| {
        (0..60u64).any(|seed| {
            let life = move || {
                let mut world = World::new(seed * 3 + 1, false);
                world.wide = false;
                (world.pushy, world.hasty) = (false, true);
                world.defragments = false;
                world.mistake(mistake);
                if mistake == SkipChecksum {
                    (0..60).for_each(|_| world.submit_one());
                    world.settle();
                    world.flip_and_check();
                } else {
                    world.life(300);
                }
            };
            std::panic::catch_unwind(life).is_err()
        })
    };
    let all = [RecordBeforeData, CommitOutOfOrder, CommitBeforeDurable, FlipBeforeFlush, ForgetSkipped, Leak, SkipChecksum];
    let missed: Vec<Mistake> = all.into_iter().filter(|s| !found(*s)).collect();
    std::panic::set_hook(hook);
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// A life in which objects share their omaps.
fn sharing(seed: u64, steps: u64, mistake: Option<Mistake>) {
    let mut world = World::new(seed, seed.is_multiple_of(3));
    (world.omaps, world.wide) = (true, seed % 4 == 1);
    world.config.copied_omap = [0, 300, 2000][(seed % 3) as usize];
    world.store.config.copied_omap = world.config.copied_omap;
    mistake.into_iter().for_each(|mistake| world.mistake(mistake));
    world.life(steps);
    assert!(mistake.is_some() || world.store.sb.version == crate::superblock::FAMILIES, "seed {seed}: nothing was shared");
}

#[test]
fn clones_that_share_omaps_see_what_was_there_through_crashes() {
    for seed in 0..24 {
        sharing(seed, 300, None);
    }
}

#[test]
fn a_change_that_saves_nothing_for_clones_is_found() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let found = (0..4).any(|seed| std::panic::catch_unwind(|| sharing(seed, 200, Some(Mistake::SaveNothing))).is_err());
    std::panic::set_hook(hook);
    assert!(found, "not found");
}

/// A life in which objects change as those of groups of shards do.
fn of_shards(seed: u64, steps: u64, mistake: Option<Mistake>) {
    let mut world = World::new(seed, seed.is_multiple_of(3));
    (world.shards, world.wide) = (true, false);
    mistake.into_iter().for_each(|mistake| world.mistake(mistake));
    world.life(steps);
}

#[test]
fn changes_that_take_in_what_is_there_are_exact_through_crashes() {
    for seed in 0..40 {
        of_shards(seed, 300, None);
    }
}

#[test]
fn a_range_that_is_shared_with_an_older_record_is_found() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let found = (0..10).any(|seed| std::panic::catch_unwind(|| of_shards(seed, 200, Some(Mistake::ShareJournalled))).is_err());
    std::panic::set_hook(hook);
    assert!(found, "not found");
}

/// A life in which what lies scattered comes together all the time, while some of it changes, and crashes. Gives the parts that moved,
/// and those that had changed.
fn moving(seed: u64, steps: u64, mistake: Option<Mistake>) -> [u64; 2] {
    let mut world = World::sized(seed, seed.is_multiple_of(3), 112 << 20);
    (world.wide, world.hasty, world.pushy) = (false, true, false);
    world.moves();
    mistake.into_iter().for_each(|mistake| world.mistake(mistake));
    world.life(steps);
    [world.total[6], world.total[7]]
}

#[test]
fn what_moves_while_it_changes_stays_the_same_through_crashes() {
    // All shards, generations and clones of a name lie in one store here, and a change of one of them leaves a part of all of them alone.
    let lives: Vec<[u64; 2]> = (0..56).map(|seed| moving(seed, 300, None)).collect();
    let (moved, changed) = (lives.iter().map(|l| l[0]).sum::<u64>(), lives.iter().map(|l| l[1]).sum::<u64>());
    assert!(moved > 80 && changed > 4, "{moved} parts moved, {changed} had changed");
}

#[test]
fn a_move_of_what_changed_meanwhile_is_found() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let found = (0..20).any(|seed| std::panic::catch_unwind(|| moving(seed, 300, Some(Mistake::MoveUnlooked))).is_err());
    std::panic::set_hook(hook);
    assert!(found, "not found");
}

#[test]
fn a_move_of_what_changed_in_a_clone_meanwhile_is_found() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let wrong = |seed| moving(seed, 300, Some(Mistake::MoveClonesUnlooked));
    let found = (0..40).any(|seed| std::panic::catch_unwind(|| wrong(seed)).is_err());
    std::panic::set_hook(hook);
    assert!(found, "not found");
}

#[test]
fn a_transaction_survives_a_crash_once_it_is_committed() {
    let mut world = World::new(1, false);
    for _ in 0..20 {
        world.submit_one();
    }
    world.settle();
    world.crash();
    world.check_all();
}

fn run(seed: u64, steps: u64) {
    let mut world = World::new(seed, seed.is_multiple_of(3));
    world.life(steps);
}

#[test]
fn random_lives_with_crashes() {
    for seed in 0..20 {
        run(seed, 300);
    }
}

#[test]
fn flipped_bits_are_damage_or_refused_but_never_wrong_data() {
    for seed in 0..16 {
        let mut world = World::new(seed, seed.is_multiple_of(2));
        (0..60).for_each(|_| world.submit_one());
        world.settle();
        if seed.is_multiple_of(3) {
            world.stop();
        }
        world.flip_and_check();
    }
}

#[test]
fn a_full_disk_refuses_writes_takes_removals_and_recovers() {
    for seed in 0..2 {
        let mut world = World::sized(seed, seed % 2 == 1, 9 << 20);
        world.fill();
    }
}

#[test]
fn space_of_removals_before_a_crash_comes_back() {
    for seed in 0..4 {
        World::new(seed, seed % 2 == 1).remove_and_crash();
    }
}

#[test]
fn a_failing_disk_stops_the_store_and_nothing_more_is_committed() {
    for seed in 0..10 {
        let mut world = World::new(seed, false);
        world.fail_at(10 + seed * 7);
    }
}

#[test]
fn a_full_host_is_waited_for() {
    let mut world = World::new(5, false);
    world.host_full();
}

#[test]
fn what_large_writes_replace_is_used_again_soon() {
    for seed in 0..4 {
        World::new(seed, false).overwrite_whole();
    }
}

#[test]
fn stores_that_are_not_ours_are_refused_and_left_alone() {
    let mut world = World::new(3, false);
    world.submit_one();
    world.settle();
    world.refusals();
}

#[test]
fn scopes_that_share_an_object_keep_its_order() {
    for seed in 0..60 {
        World::new(seed, seed.is_multiple_of(2)).shared_objects(40);
    }
}

#[test]
fn long_keys_and_values_make_long_pages() {
    let mut world = World::new(11, false);
    world.long_things();
}

/// `STORE_SEEDS=from..to STORE_STEPS=n cargo test -p store -- --ignored many_lives`
#[test]
#[ignore = "runs as long as it is told to"]
fn many_lives() {
    let range = std::env::var("STORE_SEEDS").unwrap_or_else(|_| "0..1000".into());
    let steps = std::env::var("STORE_STEPS").ok().and_then(|s| s.parse().ok()).unwrap_or(400);
    let (from, to) = range.split_once("..").expect("from..to");
    for seed in from.parse().expect("a number")..to.parse::<u64>().expect("a number") {
        if std::panic::catch_unwind(|| run(seed, steps)).is_err() {
            println!("FAILED seed {seed} steps {steps}");
        }
        if std::panic::catch_unwind(|| sharing(seed, steps, None)).is_err() {
            println!("FAILED seed {seed} steps {steps}, with shared omaps");
        }
        if std::panic::catch_unwind(|| moving(seed, steps, None)).is_err() {
            println!("FAILED seed {seed} steps {steps}, with moves");
        }
    }
}
