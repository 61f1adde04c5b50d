//! Runs seeds through the scenarios and says which fail.
#![forbid(unsafe_code)]

use sim::cluster::{MonKind, StoreKind};
use sim::mistake::Mistake;
use sim::scenario::{self, Failure, Options, Report, Scenario};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Machines are made of small pieces of memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
Runs a simulated cluster through faults that a seed decides, and judges what its clients saw.

    sim [--scenario NAME|all] [--seeds N] [--start N]   run N seeds (default 100), from a first one (default 0)
        --seconds N                                     and begin no seed after so many seconds
    sim --seed N [--scenario NAME] [--trace]            replay one seed, with every event printed
        --letters                                       and what OSDs say to each other, in words
        --ref-store, --ref-mon                          with the trusted stand-ins for store or monitor
    sim --mistake NAME --scenario NAME [--seeds N]      put a mistake in, and say with which seed it is found first
    sim --mistakes [--seeds N]                          the same for all mistakes, each in the scenario that finds it
    sim --list                                          the scenarios";

struct Args {
    scenarios: Vec<&'static Scenario>,
    start: u64,
    seeds: u64,
    /// No seed begins later.
    limit: Option<Duration>,
    options: Options,
    list: bool,
    /// All mistakes are put in, one after the other.
    mistakes: bool,
}

fn parse() -> Result<Args, String> {
    let scenarios = scenario::ALL.iter().collect();
    let mut args =
        Args { scenarios, start: 0, seeds: 100, limit: None, options: Options::default(), list: false, mistakes: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("not a number: {text}"));
        match word.as_str() {
            "--seeds" => args.seeds = number(value()?)?,
            "--seconds" => args.limit = Some(Duration::from_secs(number(value()?)?)),
            "--start" => args.start = number(value()?)?,
            "--seed" => (args.start, args.seeds) = (number(value()?)?, 1),
            "--trace" => args.options.trace = true,
            "--letters" => (args.options.trace, args.options.letters) = (true, true),
            "--ref-store" => args.options.store = Some(StoreKind::Reference),
            "--ref-mon" => args.options.mon = Some(MonKind::StandIn),
            "--mistake" => {
                let name = value()?;
                let known = || format!("no such mistake: {name}; there are {}", Mistake::names().join(", "));
                let mistake = Mistake::by_name(&name).ok_or_else(known)?;
                args.options.mistake = Some(mistake);
            }
            "--list" => args.list = true,
            "--mistakes" => args.mistakes = true,
            "--scenario" => {
                let name = value()?;
                if name != "all" {
                    let found = scenario::by_name(&name).ok_or(format!("no such scenario: {name}; see --list"))?;
                    args.scenarios = vec![found];
                }
            }
            "--help" | "-h" => return Err(USAGE.into()),
            _ => return Err(format!("unknown option {word}\n\n{USAGE}")),
        }
    }
    Ok(args)
}

/// Runs one seed; a machine that panics is a failure like others.
fn one(scenario: &Scenario, seed: u64, options: &Options) -> Result<Report, Box<Failure>> {
    let run = catch_unwind(AssertUnwindSafe(|| scenario::run(scenario, seed, options)));
    run.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or(panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default();
        Err(Box::new(Failure { what: format!("a panic: {text}"), report: Report::default(), tail: Vec::new() }))
    })
}

fn tell(scenario: &Scenario, seed: u64, failure: &Failure) {
    println!("\nFAILED: scenario {} seed {seed}\n{}", scenario.name, failure.what);
    println!("the last lines before:");
    for line in failure.tail.iter().rev().take(25).rev() {
        println!("  {line}");
    }
    println!("replay: cargo run -p sim -- --seed {seed} --scenario {} --trace\n", scenario.name);
}

/// Puts each mistake into the scenario that finds it first, and says with which seed that is, as rows of a table.
fn look_for_all_mistakes(args: &Args) -> ExitCode {
    let mut missed = Vec::new();
    println!("| mistake | scenario | seed | seeds tried | what is found |\n|---|---|---|---|---|");
    for mistake in Mistake::all() {
        let (name, from) = mistake.found_by();
        let options = Options { mistake: Some(*mistake), ..args.options.clone() };
        let called = mistake.name();
        let Some(scenario) = scenario::by_name(name) else {
            eprintln!("{called}: no such scenario: {name}");
            return ExitCode::from(2);
        };
        let found = (from..from + args.seeds).find_map(|seed| Some((seed, one(scenario, seed, &options).err()?)));
        match found {
            Some((seed, failure)) => {
                let what: String = failure.what.lines().next().unwrap_or_default().chars().take(90).collect();
                println!("| `{called}` | `{name}` | {seed} | {} | {} |", seed - from + 1, what.replace('|', "/"));
            }
            None => {
                println!("| `{called}` | `{name}` | **none** | {} | |", args.seeds);
                missed.push(called);
            }
        }
    }
    if missed.is_empty() {
        println!("{} mistakes, all found", Mistake::all().len());
        return ExitCode::SUCCESS;
    }
    println!("not found: {}", missed.join(", "));
    ExitCode::FAILURE
}

/// Runs seeds until one finds the mistake that is put in.
fn look_for_mistake(args: &Args) -> ExitCode {
    let name = args.options.mistake.map(Mistake::name).unwrap_or_default();
    for seed in args.start..args.start + args.seeds {
        for scenario in &args.scenarios {
            if let Err(failure) = one(scenario, seed, &args.options) {
                println!("{name} is found by scenario {} with seed {seed}: {}", scenario.name, failure.what);
                return ExitCode::SUCCESS;
            }
        }
    }
    println!("{name} is not found with seeds {} to {}", args.start, args.start + args.seeds - 1);
    ExitCode::FAILURE
}

fn main() -> ExitCode {
    let args = match parse() {
        Ok(args) => args,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    if args.list {
        for scenario in scenario::ALL {
            println!("{:<12} {}", scenario.name, scenario.about);
        }
        return ExitCode::SUCCESS;
    }
    if args.mistakes {
        return look_for_all_mistakes(&args);
    }
    if args.options.mistake.is_some() {
        return look_for_mistake(&args);
    }
    let began = Instant::now();
    let (mut failed, mut runs, mut total) = (Vec::new(), 0u64, Report::default());
    for seed in args.start..args.start + args.seeds {
        if args.limit.is_some_and(|limit| began.elapsed() > limit) {
            println!("time is up after {} seeds", seed - args.start);
            break;
        }
        for scenario in &args.scenarios {
            runs += 1;
            match one(scenario, seed, &args.options) {
                Ok(report) => add(&mut total, &report),
                Err(failure) => {
                    tell(scenario, seed, &failure);
                    failed.push((scenario.name, seed));
                }
            }
        }
        if (seed + 1 - args.start).is_multiple_of(10) {
            println!("{} seeds, {} runs, {} failed, {:?}", seed + 1 - args.start, runs, failed.len(), began.elapsed());
        }
    }
    println!(
        "{runs} runs, {} failed; {} operations, {} answered, {} faults, {} events, {} virtual seconds in {:?}; errors {:?}; {} undecided; {} reads at copies that do not lead; {} parts moved",
        failed.len(),
        total.asked,
        total.answered,
        total.faults,
        total.events,
        total.time.as_secs(),
        began.elapsed(),
        total.errors,
        total.undecided,
        total.asides,
        total.moved
    );
    if args.seeds == 1 && args.scenarios.len() == 1 {
        println!("trace hash {:016x}", total.hash);
    }
    println!("{} passed, {} failed", runs - failed.len() as u64, failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn add(total: &mut Report, report: &Report) {
    total.hash = report.hash;
    total.events += report.events;
    total.time += report.time;
    total.asked += report.asked;
    total.answered += report.answered;
    total.faults += report.faults;
    total.undecided += report.undecided;
    total.asides += report.asides;
    total.moved += report.moved;
    for (number, count) in &report.errors {
        *total.errors.entry(*number).or_default() += count;
    }
}
