//! Prints figures of aged stores. See the crate's text.
#![forbid(unsafe_code)]

use age::figures::{self, Plan};
use age::goals::{self, Goal, Raw, heard};
use age::profiles::Kind;
use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

/// The product's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
Fills a store on a sparse disk, ages it by what clients do in years, and measures what it costs then.

    age one PROFILE SIZE [OPS]       one row; PROFILE: images, snapshots, buckets, files, omap; SIZE: as 4G, 256G, 16T
    age grow OBJECTS...              what a new object costs when there are so many
    age overwrite SIZE               one row: an image of 4 GiB on a disk of which all chunks are mixed
    age tidy SIZE                    reading an image that was overwritten at random, before and after defragmentation
    age table SIZE... [-- OPS]       the rows of all profiles for these sizes, each from a process of its own
    age page COMMIT OPS OBJECTS,... SIZE...
                                     docs/performance/aging.md: goals, all tables, and what they mean

OPS: operations of a day; 40,000 if nothing is said. A store is 20 days old when 10 more are measured.";

/// What stands above the tables.
const PAGE: &str = "\
# A store that is years old

`make age` fills a store, ages it as clients would in years, and measures what it costs then; `make age-long` does the
same with more and larger disks, and takes hours. It wrote this page on commit COMMIT. The store is the product's. Its disk is a model that keeps the index and forgets data, so a disk of 16 TiB
fits into memory. Counted is the processor time of the store's own calls, in one thread. The tool's text
(`tools/age/src/lib.rs`) says how it works, and `cargo test -p age` holds bounds for small sizes.

| profile | what clients do |
|---|---|
| images | objects of 4 MiB fill 80 % of the disk; blocks of 4 KiB are overwritten at random |
| snapshots | the same at 60 %, with a snapshot each day that is removed a week later |
| buckets | objects of 4 KiB to 1 MiB at 80 %, removed and made anew, each with a key in an index |
| files | files of 1 to 256 MiB at 80 %, written two at a time in pieces of 1 MiB, replaced by others |
| omap | keys of 64 objects: one comes, an old one goes |

- A day has OPS operations, a quarter as many with buckets, a twentieth with files. The store is 20 days old when 10 more are measured, with a night after each.
- A disk that is `mixed` has a block in use in each 16 MiB of it, and clients fill 64 GiB. The store writes these blocks as always, and
  is told to give each a place far from the others. Other disks are filled as the table says.
- *Longest call*: the longest that the store kept its thread in one call since the disk was empty, and which call it was;
  behind it, how many took over 5 ms. The clock counts what the machine does for others in between: calls that do nothing take
  milliseconds now and then. So all is done three times, with the same calls, and the shortest time of each counts.
- *Memory*: the most that the process had in memory, less the disk's model, beside the ceiling that was configured; and
  what the store said that it held then. Lists of this tool do not count: how long they were at most, in MiB, stands behind it.
- *A night*: six hours without requests behind each day, in which the store defragments.
- *Writes of 4 MiB*: requests to the disk for a new object of 4 MiB at 12 % free, with its record in the journal.
- *Open*: after a kill.

";

/// Percent of the disk that an image has which is brought together.
const TIDY: u64 = 70;
const OPS: u64 = 40_000;
/// How often a row is made, for the times of single calls.
const RUNS: u32 = 3;
const MEMORY: u64 = 192 << 20;
/// The largest disk that clients fill, in bytes, and what they fill of a larger one.
const MOST: u64 = 256 << 30;
const LARGE: u64 = 64 << 30;

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("not a number: {word}"))
}

fn bytes(word: &str) -> Result<u64, String> {
    let (digits, shift) = match word.chars().last() {
        Some('M') => (&word[..word.len() - 1], 20),
        Some('G') => (&word[..word.len() - 1], 30),
        Some('T') => (&word[..word.len() - 1], 40),
        _ => (word, 0),
    };
    match number(digits)? {
        n if n << shift >= 1 << 30 && n << shift <= 16 << 40 => Ok(n << shift),
        _ => Err(format!("a disk of {word}: from 1G to 16T are possible")),
    }
}

fn plan(profile: &str, size: &str, ops: u64) -> Result<Plan, String> {
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == profile).ok_or(format!("no such profile: {profile}"))?;
    let journal = store::Config::DEFAULT_JOURNAL;
    let size = bytes(size)?;
    // An operation of these has more bytes.
    let ops = match kind {
        Kind::Files => ops / 20,
        Kind::Buckets => ops / 4,
        _ => ops,
    };
    Ok(Plan {
        kind,
        size,
        part: if size > MOST { LARGE } else { size },
        memory: MEMORY,
        journal,
        days: (20, 10),
        ops,
        runs: RUNS,
    })
}

/// Returns what a process of its own wrote for people, and for us.
fn child(words: &[&str]) -> Result<(String, Raw), String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let output = Command::new(&program).args(words).output().map_err(|e| format!("{}: {e}", program.display()))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok((said(&output.stdout), heard(&said(&output.stderr)))),
        false => Err(format!("{}: {}", words.join(" "), said(&output.stderr))),
    }
}

/// What rows say, by profile and size.
type Rows = BTreeMap<(String, String), Raw>;

/// The rows of all profiles as text, and what they say.
fn table(sizes: &[&str], ops: u64) -> Result<(String, Rows), String> {
    let (mut text, mut all) = (String::from(figures::HEAD), BTreeMap::new());
    for kind in Kind::ALL {
        for size in sizes {
            let (row, raw) = child(&["one", kind.name(), size, &ops.to_string()])?;
            text += &row;
            all.insert((kind.name().to_owned(), (*size).to_owned()), raw);
        }
    }
    Ok((text, all))
}

/// Returns what a random overwrite costs on a disk of so many bytes of which clients fill 4 GiB; on a larger one all
/// chunks are mixed.
fn overwrite(size: &str) -> Result<Raw, String> {
    child(&["overwrite", size]).map(|(_, raw)| raw)
}

fn page(commit: &str, ops: u64, steps: &str, sizes: &[&str]) -> Result<(), String> {
    let steps: Vec<u64> = steps.split(',').map(number).collect::<Result<_, _>>()?;
    let words: Vec<String> = steps.iter().map(u64::to_string).collect();
    let (rows, aged) = table(sizes, ops)?;
    let words: Vec<&str> = ["grow"].into_iter().chain(words.iter().map(String::as_str)).collect();
    let (grown, growth) = child(&words)?;
    let (reading, tidied) = child(&["tidy", "4G"])?;
    let (small, large, huge) = (overwrite("4G")?, overwrite("256G")?, overwrite("16T")?);
    let all = || aged.values().chain([&small, &large, &huge]);
    let most = |name: &str| all().filter_map(|raw| raw.get(name).copied()).reduce(f64::max);
    let larger = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
    let part = |a: Option<&f64>, b: Option<&f64>| Some(a? / b?);
    let ratio = |raw: &Raw| part(raw.get("micros"), small.get("micros"));
    let each = |n: u64| growth.get(&format!("micros.{n}"));
    let last = |name: &str| growth.get(&format!("{name}.10000000")).copied();
    let (first, times) = (steps[0], |n: u64| part(each(n), each(steps[0])));
    let grown_most = growth.iter().filter(|(name, _)| name.starts_with("longest_ms")).map(|(_, v)| *v).reduce(f64::max);
    let memory = growth.iter().filter(|(name, _)| name.starts_with("memory")).map(|(_, v)| *v).reduce(f64::max);
    let long_write = most("long_write");
    let read = |name: &str| part(tidied.get(name), tidied.get("fresh_reads"));
    let goals = [
        Goal::new("random 4 KiB overwrite on 256 GiB, all chunks mixed, against 4 GiB", (1.5, Some(1.2)), "×", ratio(&large)),
        Goal::new("the same on 16 TiB", (1.5, Some(1.2)), "×", ratio(&huge)),
        Goal::new(format!("new 4 KiB object at 1.5 million against {first}"), (2.0, Some(1.5)), "×", times(1_500_000)),
        Goal::new("the same at 20 million", (2.0, Some(1.5)), "×", times(20_000_000)),
        Goal::new("longest call, of all that is here", (10.0, Some(5.0)), "ms", larger(most("longest_ms"), grown_most)),
        Goal::new("requests for 4 MiB at 12 % free, of all profiles", (64.0, Some(16.0)), "", long_write),
        Goal::new("memory beside the ceiling", (1.1, None), "×", larger(most("memory"), memory)),
        Goal::new("10 million objects, ceiling 192 MiB: opening, processor time", (2.0, None), "s", last("open_s")),
        Goal::new("the same: memory beside the ceiling", (1.1, None), "×", last("memory")),
        Goal::new("reads of an object overwritten at random, against a fresh one", (3000.0, None), "×", read("aged_reads")),
        Goal::new("the same after defragmentation", (3.0, None), "×", read("tidy_reads")),
    ];
    print!("{}", PAGE.replace("COMMIT", commit).replace("OPS", &ops.to_string()));
    println!("## Goals\n\n{}", goals::table(&goals));
    println!("Times are of the processor. A neighbour on the machine makes them, and the longest call, longer.\n");
    println!("## Profiles\n\n{rows}\n## Many small objects\n\n{grown}\n## Defragmentation\n\n{reading}");
    Ok(())
}

fn run(words: &[&str]) -> Result<(), String> {
    match words {
        ["one", profile, size, rest @ ..] => {
            let ops = rest.first().map_or(Ok(OPS), |word| number(word))?;
            let plan = plan(profile, size, ops)?;
            let aged = figures::age(&plan)?;
            print!("{}", figures::row(&plan, &aged));
            eprint!("{}", figures::raw(&plan, &aged));
        }
        ["overwrite", size] => {
            let whole = plan("images", size, OPS)?;
            // Longer than the journal needs for several checkpoints.
            let plan = Plan { part: whole.size.min(4 << 30), days: (5, 5), ..whole };
            let aged = figures::age(&plan)?;
            print!("{}", figures::row(&plan, &aged));
            eprint!("{}", figures::raw(&plan, &aged));
        }
        ["grow", steps @ ..] if !steps.is_empty() => {
            let steps: Vec<u64> = steps.iter().map(|word| number(word)).collect::<Result<_, _>>()?;
            if !steps.is_sorted() {
                return Err("numbers of objects must rise".into());
            }
            let rows = figures::grow(&steps, MEMORY, 1 << 40, RUNS)?;
            print!("{}", figures::grown(&rows, MEMORY));
            eprint!("{}", figures::raw_grown(&rows, MEMORY));
        }
        ["tidy", size] => {
            let size = bytes(size)?;
            let tidied = goals::tidy(size, TIDY, MEMORY)?;
            print!("{}", goals::reading_table(size, TIDY, &tidied));
            for (name, value) in
                [("fresh_reads", tidied.fresh.reads), ("aged_reads", tidied.aged.reads), ("tidy_reads", tidied.tidy.reads)]
            {
                eprint!("{}", goals::said(name, value));
            }
        }
        ["page", commit, ops, steps, sizes @ ..] if !sizes.is_empty() => {
            sizes.iter().try_for_each(|word| bytes(word).map(drop))?;
            page(commit, number(ops)?, steps, sizes)?;
        }
        ["table", rest @ ..] if !rest.is_empty() => {
            let (sizes, ops) = match rest.iter().position(|word| *word == "--") {
                Some(at) => (&rest[..at], number(rest.get(at + 1).ok_or(USAGE)?)?),
                None => (rest, OPS),
            };
            sizes.iter().try_for_each(|word| bytes(word).map(drop))?;
            print!("{}", table(sizes, ops)?.0);
        }
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}
