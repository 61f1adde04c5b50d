//! The store against its model, on a disk that crashes.

mod world;

use world::World;

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
    let mut world = World::new(seed, seed % 3 == 0);
    world.life(steps);
}

#[test]
fn random_lives_with_crashes() {
    for seed in 0..40 {
        run(seed, 400);
    }
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
    }
}
