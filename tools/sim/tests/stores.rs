//! The product's store alone, under crashes, failing disks and rot: a bounded number of seeds.

use sim::mistake::Mistake;
use sim::scenario::{Options, by_name, run};

fn runs(scenario: &str, seeds: std::ops::Range<u64>) -> (usize, u64) {
    let scenario = by_name(scenario).expect("a scenario");
    let mut total = (0, 0);
    for seed in seeds {
        match run(scenario, seed, &Options::default()) {
            Ok(report) => total = (total.0 + report.answered, total.1 + report.faults),
            Err(failure) => panic!("seed {seed} of {}: {}\n{}", scenario.name, failure.what, failure.tail.join("\n")),
        }
    }
    total
}

#[test]
fn deaths_lose_nothing_and_leak_nothing() {
    let (acknowledged, faults) = runs("store", 0..40);
    assert!(acknowledged > 2000 && faults > 200, "{acknowledged} transactions, {faults} faults");
}

#[test]
fn failing_disks_are_survived() {
    let (acknowledged, faults) = runs("store-disks", 0..40);
    assert!(acknowledged > 2000 && faults > 100, "{acknowledged} transactions, {faults} faults");
}

#[test]
fn flushes_without_space_end_in_a_word_and_what_was_taken_on_ends() {
    let (acknowledged, faults) = runs("store-flush", 0..25);
    assert!(acknowledged > 1500 && faults > 100, "{acknowledged} transactions, {faults} faults");
}

#[test]
fn a_journal_with_a_disk_of_its_own_loses_nothing_and_stands_in_nobodys_way() {
    let (acknowledged, faults) = runs("store-journal", 0..25);
    assert!(acknowledged > 1500 && faults > 100, "{acknowledged} transactions, {faults} faults");
}

#[test]
fn what_is_told_to_be_free_is_nobodys_and_what_moves_stays_the_same() {
    let (acknowledged, faults) = runs("store-discard", 0..25);
    assert!(acknowledged > 1500 && faults > 60, "{acknowledged} transactions, {faults} faults");
    let scenarios = ["store", "store-discard"].map(|name| by_name(name).expect("a scenario"));
    let all =
        scenarios.into_iter().flat_map(|scenario| (0..20).filter_map(move |seed| run(scenario, seed, &Options::default()).ok()));
    let moved: u64 = all.map(|report| report.moved).sum();
    assert!(moved > 1000, "{moved} parts of objects were brought together");
}

#[test]
fn moves_of_what_changed_meanwhile_are_found() {
    use store::MoveMistake::{MoveClonesUnlooked, MoveUnlooked};
    for mistake in [MoveUnlooked, MoveClonesUnlooked] {
        let what = found("store-discard", Mistake::Moves(mistake));
        let known = ["content is no prefix", "are damaged", "is damaged", "space leaks", "breaks its own rules", "not opened"];
        assert!(known.iter().any(|known| what.contains(known)), "{mistake:?}: {what}");
    }
}

#[test]
fn power_between_the_data_of_a_move_and_its_record_loses_nothing() {
    let (acknowledged, faults) = runs("store-moves", 0..15);
    assert!(acknowledged > 1500 && faults > 50, "{acknowledged} transactions, {faults} faults");
}

#[test]
fn a_move_whose_record_is_durable_before_its_data_is_found() {
    let what = found("store-moves", Mistake::Moves(store::MoveMistake::MoveUnflushed));
    assert!(["content is no prefix", "are damaged"].iter().any(|known| what.contains(known)), "{what}");
}

#[test]
fn changes_that_take_in_what_is_there_are_exact_while_disks_fail() {
    let (acknowledged, faults) = runs("store-shards", 0..25);
    assert!(acknowledged > 1500 && faults > 50, "{acknowledged} transactions, {faults} faults");
}

#[test]
fn discards_that_go_too_far_are_found() {
    let what = found("store-discard", Mistake::TrimsBeyond);
    assert!(
        ["content is no prefix", "are damaged", "is damaged", "not opened", "space leaks"]
            .iter()
            .any(|known| what.contains(known)),
        "{what}"
    );
}

/// Returns what the judges say of a mistake that is put in.
fn found(scenario: &str, mistake: Mistake) -> String {
    let (scenario, options) = (by_name(scenario).expect("a scenario"), Options { mistake: Some(mistake), ..Options::default() });
    let wrong = (0..60).find_map(|seed| run(scenario, seed, &options).err().map(|failure| failure.what));
    wrong.unwrap_or_else(|| panic!("{mistake:?} was not found"))
}

#[test]
fn a_flush_without_space_of_which_nobody_hears_is_found() {
    for scenario in ["store-flush", "store-journal"] {
        let what = found(scenario, Mistake::ForgottenFlush);
        assert!(what.contains("do not end") || what.contains("does not come to rest"), "{scenario}: {what}");
    }
}

#[test]
fn flushes_of_the_wrong_disk_are_found() {
    let what = found("store-journal", Mistake::FlushesOther);
    assert!(["content is no prefix", "are damaged"].iter().any(|known| what.contains(known)), "{what}");
}

#[test]
fn a_store_that_does_not_rest_is_found() {
    let what = found("store-flush", Mistake::Restless);
    assert!(what.contains("in vain"), "{what}");
}

#[test]
fn rot_is_named_and_never_given_out() {
    let (_, said) = runs("store-rot", 0..25);
    assert!(said > 5, "rot was named {said} times");
}

#[test]
fn a_run_replays_identically() {
    let hash = || run(by_name("store").expect("a scenario"), 3, &Options::default()).map(|r| r.hash).expect("a good run");
    assert_eq!(hash(), hash());
}

/// Seeds that once found something: the rot of the newer superblock slot after a clean stop; a power cut that took both slots, the
/// one that was being written and the one that stood only in the disk's cache.
#[test]
fn what_was_found_once_is_not_found_again() {
    for (scenario, seed) in [("store-rot", 30107), ("store-rot", 30122), ("store-rot", 60581), ("store", 7052)] {
        runs(scenario, seed..seed + 1);
    }
}
