//! The monitors' log with three to five voters: a bounded number of seeds, and mistakes that must be found.

use mon::Mistake;
use sim::rng::Rng;
use sim::scenario::{Options, by_name, run};
use sim::voters::{Done, VoterTown};

#[test]
fn voters_agree_whatever_happens_to_disks_links_and_processes() {
    let mut total = Done::default();
    for seed in 0..30 {
        let mut town = VoterTown::new(Rng::new(seed).next(), None);
        if let Err(why) = town.live() {
            panic!("seed {seed}: {why}\n{}", town.trace.tail().cloned().collect::<Vec<_>>().join("\n"));
        }
        total.answered += town.done.answered;
        total.reads += town.done.reads;
        total.faults += town.done.faults;
        total.reigns += town.done.reigns;
        total.installed += town.done.installed;
        total.changes += town.done.changes;
        total.set_back += town.done.set_back;
        total.noticed += town.done.noticed;
        total.taken_in += town.done.taken_in;
        total.slow_first = total.slow_first.max(town.done.slow_first);
    }
    assert!(total.set_back >= 8 && total.noticed >= 8 && total.slow_first > 500 && total.taken_in > 0, "{total:?}");
    assert!(total.answered > 1000 && total.reads > 200, "{total:?}");
    assert!(total.faults > 500 && total.reigns > 100 && total.changes > 5, "{total:?}");
}

#[test]
fn a_run_replays_identically() {
    let hash =
        || run(by_name("voters").expect("a scenario"), 3, &Options::default()).map(|r| (r.hash, r.events)).expect("a good run");
    assert_eq!(hash(), hash());
}

/// Runs seeds until one is found wrong; gives what was found. What is rare is looked for from near where it is.
fn found(mistake: Mistake, from: u64) -> String {
    let mistake = sim::mistake::Mistake::Monitors(mistake);
    let (voters, options) = (by_name("voters").expect("a scenario"), Options { mistake: Some(mistake), ..Options::default() });
    let wrong = (from..from + 500).find_map(|seed| {
        let what = run(voters, seed, &options).err()?.what;
        println!("{mistake:?} with seed {seed}: {what}");
        Some(what)
    });
    wrong.unwrap_or_else(|| panic!("{mistake:?} was not found"))
}

#[test]
fn a_vote_that_is_told_before_it_is_durable_is_found() {
    let what = found(Mistake::EarlyVote, 130);
    assert!(
        ["election safety", "log matching", "state equality", "leader completeness", "set back"]
            .iter()
            .any(|rule| what.contains(rule)),
        "{what}"
    );
}

#[test]
fn an_entry_of_an_older_term_that_is_committed_by_counting_is_found() {
    let what = found(Mistake::OldTermCounts, 40);
    assert!(["leader completeness", "state equality", "contradict"].iter().any(|rule| what.contains(rule)), "{what}");
}

#[test]
fn a_tail_that_is_not_cut_is_found() {
    let what = found(Mistake::TailKept, 0);
    assert!(
        ["log matching", "state equality", "leader completeness", "contradict", "life"].iter().any(|rule| what.contains(rule)),
        "{what}"
    );
}

#[test]
fn entries_that_are_acknowledged_before_they_are_durable_are_found() {
    let what = found(Mistake::EarlyAcknowledgement, 0);
    assert!(
        ["leader completeness", "state equality", "contradict", "answered", "set back"].iter().any(|rule| what.contains(rule)),
        "{what}"
    );
}

#[test]
fn a_read_that_a_deposed_leader_answers_is_found() {
    assert!(found(Mistake::LonelyRead, 100).contains("had been answered before it was asked"));
}

#[test]
fn a_store_that_was_set_back_and_takes_part_is_found() {
    let what = found(Mistake::Forgetful, 0);
    assert!(["set back", "was answered", "leader completeness"].iter().any(|rule| what.contains(rule)), "{what}");
}

#[test]
fn a_snapshot_without_what_is_remembered_of_others_is_found() {
    let what = found(Mistake::FoldedMarks, 0);
    assert!(["set back", "was answered", "leader completeness"].iter().any(|rule| what.contains(rule)), "{what}");
}
