//! The product's store under crashes and failing disks.

use sim::rng::Rng;
use sim::storeworld::{StoreFault, StorePlan, StoreTown};
use std::time::Duration;

fn plan(rng: &mut Rng) -> StorePlan {
    StorePlan {
        scopes: rng.between(1, 3),
        objects: rng.between(1, 12),
        budget: rng.between(50, 400),
        pause: Duration::from_micros(rng.magnitude(0, 20_000)),
        largest: rng.magnitude(100, 300_000),
        capacity: 256 << 20,
        journal: 1 << 20,
        memory: 4 << 20,
    }
}

fn run(seed: u64, faults: &[StoreFault]) -> (u64, [u64; 3]) {
    let mut rng = Rng::new(seed);
    let mut town = StoreTown::new(rng.next(), plan(&mut rng));
    if std::env::var_os("TRACE").is_some() {
        town.world.trace.print = true;
    }
    if let Err(what) = town.live(&mut rng, faults, Duration::from_millis(200)) {
        let tail: Vec<String> = town.world.trace.tail().cloned().collect();
        panic!("seed {seed}: {what}\n{}", tail.join("\n"));
    }
    let counts = town.shared.borrow().counts;
    (town.world.trace.hash(), counts)
}

fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str, or: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(or);
    let start = number("START", 0);
    start..start + number("SEEDS", 15)
}

#[test]
fn without_faults_all_is_kept_and_given_back() {
    for seed in seeds() {
        let (_, [acked, refused, _]) = run(seed, &[]);
        assert!(acked >= 50 && refused == 0, "seed {seed}: {acked} transactions acknowledged, {refused} refused");
    }
}

#[test]
fn deaths_lose_nothing() {
    let faults = [StoreFault::Power, StoreFault::Kill, StoreFault::AtWrite, StoreFault::AtWrite, StoreFault::Stop];
    for seed in seeds() {
        run(seed, &faults);
    }
}

#[test]
fn failing_disks_are_survived() {
    let faults = [
        StoreFault::Slow,
        StoreFault::ReadErrors,
        StoreFault::WriteErrors,
        StoreFault::WrongReads,
        StoreFault::HostFull,
        StoreFault::AtWrite,
    ];
    for seed in seeds() {
        run(seed, &faults);
    }
}

#[test]
fn a_run_replays_identically() {
    let faults = [StoreFault::Power, StoreFault::AtWrite, StoreFault::Slow];
    assert_eq!(run(1, &faults), run(1, &faults));
}

#[test]
fn rot_is_named_and_never_given_out() {
    let mut said = (0, 0);
    for seed in seeds() {
        let mut rng = Rng::new(seed);
        let mut town = StoreTown::new(rng.next(), plan(&mut rng));
        match town.rot(&mut rng, 50) {
            Ok((damaged, refused)) => said = (said.0 + damaged, said.1 + refused),
            Err(what) => panic!("seed {seed}: {what}"),
        }
    }
    assert!(said.0 > 0 || said.1 > 0, "no rot was found at all");
}
