//! Counts the instructions that an OSD spends on one operation, from received bytes to sent bytes.
//!
//! The machine where this project is tested has no hardware counters, and its clock is blurred by neighbours. So the
//! OSD's core runs under callgrind in a fixed way: same inputs, same order, disk and network in memory. What is counted
//! is all that [`osd::Osd`] does in its rounds (frames and their checksums, sessions, groups, store, memory
//! allocation); what the driver and the kernel do around it is not.
//!
//! A number changes with the code, with the compiler, and a little with the C library (its copying functions). Valgrind
//! shows programs a processor with AVX2, so checksums take the path for that one here.
#![forbid(unsafe_code)]

mod callgrind;
mod hosts;
mod load;
mod phases;
mod trend;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The product's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Operations in each measured phase.
const OPS: u64 = 1000;

const USAGE: &str = "\
Counts instructions of an OSD for each operation under callgrind.

    instructions check FILE       compare with FILE; fail if a phase needs over 5 % more
    instructions update FILE      measure, and write FILE anew
    instructions profile DIR      measure, and leave callgrind's files and a list of functions for each phase in DIR
    instructions run OPS          the run itself, without valgrind, OPS operations in each phase";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["run", ops] => ops.parse().map(phases::run).map_err(|_| format!("not a number: {ops}")),
        ["check", file] => check(file.as_ref()),
        ["update", file] => measure().and_then(|counts| trend::write(file.as_ref(), &counts)),
        ["profile", dir] => profile(dir.into()),
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<callgrind::Counts, String> {
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    callgrind::measure(dir.path(), OPS)
}

fn check(file: &std::path::Path) -> Result<(), String> {
    let kept = trend::read(file)?;
    let found = measure()?;
    print!("{}", trend::table(&kept, &found));
    trend::judge(&kept, &found)
}

fn profile(dir: PathBuf) -> Result<(), String> {
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let found = callgrind::measure(&dir, OPS)?;
    print!("{}", trend::table(&found, &found));
    for (i, phase) in phases::PHASES.iter().enumerate() {
        let list = dir.join(format!("{}.txt", phase.name));
        // Where counting begins all counts as its callers' own, so a lower threshold would show these and nothing else.
        let output = Command::new("callgrind_annotate")
            .args(["--auto=no", "--threshold=100"])
            .arg(callgrind::part(&dir, i))
            .output()
            .map_err(|e| format!("callgrind_annotate: {e}"))?;
        std::fs::write(&list, output.stdout).map_err(|e| format!("{}: {e}", list.display()))?;
        println!("{}", list.display());
    }
    Ok(())
}
