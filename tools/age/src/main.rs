//! Prints figures of aged stores. See the crate's text.
#![forbid(unsafe_code)]

use age::figures::{self, Plan};
use age::profiles::Kind;
use std::process::{Command, ExitCode};

/// The product's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
Fills a store on a sparse disk, ages it by what clients do in years, and measures what it costs then.

    age one PROFILE SIZE [OPS]       one row; PROFILE: images, snapshots, buckets, files, omap; SIZE: as 4G, 256G, 16T
    age grow OBJECTS...              what a new object costs when there are so many
    age table SIZE... [-- OPS]       the rows of all profiles for these sizes, each from a process of its own
    age page COMMIT OPS OBJECTS,... SIZE...
                                     docs/performance/aging.md: both tables, and what they mean

OPS: operations of a day; 40,000 if nothing is said. A store is 20 days old when 10 more are measured.";

/// What stands above the tables.
const PAGE: &str = "\
# A store that is years old

`make age` fills a store, ages it as clients would in years, and measures what it costs then. It wrote this page on
commit COMMIT. The store is the product's. Its disk is a model that keeps the index and forgets data, so a disk of 16 TiB
fits into memory. Counted is the processor time of the store's own calls, in one thread. The tool's text
(`tools/age/src/lib.rs`) says how it works, and `cargo test -p age` holds bounds for small sizes.

| profile | what clients do |
|---|---|
| images | objects of 4 MiB fill 80 % of the disk; blocks of 4 KiB are overwritten at random |
| snapshots | the same at 60 %, with a snapshot each day that is removed a week later |
| buckets | objects of 4 KiB to 1 MiB at 80 %, removed and made anew, each with a key in an index |
| files | files of 1 to 256 MiB at 80 %, written two at a time in pieces of 1 MiB, replaced by others |
| omap | keys of 64 objects: one comes, an old one goes |

- A day has OPS operations, a quarter as many with buckets, a twentieth with files. The store is 20 days old when 10 more are measured, with a pause after each.
- A disk that is `mixed` has a block in use in each 16 MiB of it, and clients fill 64 GiB. Others are filled as the table
  says.
- *Longest call*: the longest that the store kept its thread in one call since the disk was empty, and which call it was;
  behind it, how many took over 5 ms while it was measured. A neighbour on the machine makes it longer.
- *Memory*: the most that the process had in memory, less the disk's model, beside the ceiling that was configured; and
  what the store says that it holds at the end. Lists of the clients, some MiB, count too.
- *Writes of 4 MiB*: requests to the disk for a new object of 4 MiB at 12 % free, with its record in the journal.
- *Open*: after a kill.

";

const OPS: u64 = 40_000;
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
    Ok(Plan { kind, size, part: if size > MOST { LARGE } else { size }, memory: MEMORY, journal, days: (20, 10), ops })
}

fn table(sizes: &[&str], ops: u64) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    print!("{}", figures::HEAD);
    for kind in Kind::ALL {
        for size in sizes {
            let output = Command::new(&program).args(["one", kind.name(), size, &ops.to_string()]).output();
            let output = output.map_err(|e| format!("{}: {e}", program.display()))?;
            let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            match output.status.success() {
                true => print!("{}", said(&output.stdout)),
                false => return Err(format!("{} on {size}: {}", kind.name(), said(&output.stderr))),
            }
        }
    }
    Ok(())
}

fn run(words: &[&str]) -> Result<(), String> {
    match words {
        ["one", profile, size, rest @ ..] => {
            let ops = rest.first().map_or(Ok(OPS), |word| number(word))?;
            let plan = plan(profile, size, ops)?;
            print!("{}", figures::row(&plan, &figures::age(&plan)?));
        }
        ["grow", steps @ ..] if !steps.is_empty() => {
            let steps: Vec<u64> = steps.iter().map(|word| number(word)).collect::<Result<_, _>>()?;
            if !steps.is_sorted() {
                return Err("numbers of objects must rise".into());
            }
            print!("{}", figures::grown(&figures::grow(&steps, MEMORY, 1 << 40)?, MEMORY));
        }
        ["page", commit, ops, steps, sizes @ ..] if !sizes.is_empty() => {
            let count = number(ops)?;
            sizes.iter().try_for_each(|word| bytes(word).map(drop))?;
            print!("{}", PAGE.replace("COMMIT", commit).replace("OPS", ops));
            println!("    age table {} -- {ops}\n    age grow {}\n", sizes.join(" "), steps.replace(',', " "));
            println!("## Profiles\n");
            table(sizes, count)?;
            println!("\n## Many small objects\n");
            run(&[&["grow"], &steps.split(',').collect::<Vec<_>>()[..]].concat())?;
        }
        ["table", rest @ ..] if !rest.is_empty() => {
            let (sizes, ops) = match rest.iter().position(|word| *word == "--") {
                Some(at) => (&rest[..at], number(rest.get(at + 1).ok_or(USAGE)?)?),
                None => (rest, OPS),
            };
            sizes.iter().try_for_each(|word| bytes(word).map(drop))?;
            table(sizes, ops)?;
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
