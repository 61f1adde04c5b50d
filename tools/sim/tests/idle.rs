//! Clusters in trouble in which nobody asks for anything: nobody is busy, nobody's memory grows. And the proof that the judges find it.

use peak_alloc::PeakAlloc;
use sim::mistake::Mistake;
use sim::scenario::{Options, by_name, run};
use std::ops::Range;
use std::sync::Mutex;

/// Counts what is in use.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;
/// The memory is that of the process: one cluster at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn in_use() -> u64 {
    MEMORY.current_usage() as u64
}

/// Returns what the first of these seeds says that fails.
fn first_failure(scenario: &str, mut seeds: Range<u64>, mistake: Option<Mistake>) -> Option<String> {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let scenario = by_name(scenario).expect("a scenario");
    let options = Options { mistake, memory: Some(in_use), ..Options::default() };
    seeds.find_map(|seed| run(scenario, seed, &options).err().map(|failure| format!("seed {seed}: {}", failure.what)))
}

#[test]
fn nobody_is_busy_in_a_cluster_in_trouble() {
    assert_eq!(first_failure("idle", 0..30, None), None);
}

/// Each of these makes a machine ask at once for what was just refused or done, or be woken at a moment that is past.
#[test]
fn whoever_is_busy_without_a_reason_is_found() {
    let mistakes = [
        // The seeds before need not be tried each time: they do not find it.
        ("PastDeadline", "in vain", 0),
        ("GoHomeTwice", "epochs", 49),
        ("BootAgain", "boots", 5),
        ("AskAgain", "letters", 0),
        ("HuntAtOnce", "connections", 1),
        ("WatchInVain", "in vain", 24),
        ("Hoard", "memory grew", 0),
        ("Chatter", "log lines", 0),
        ("Impatient", "mon.", 4),
    ];
    for (name, word, first) in mistakes {
        let mistake = Mistake::by_name(name).expect("a mistake");
        let found = first_failure("idle", first..first + 60, Some(mistake));
        assert!(found.as_ref().is_some_and(|what| what.contains(word)), "{name}: {found:?}");
    }
}
