//! `fuzz`: drives all targets for a bounded time with inputs that a seed decides.

#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail};
use clap::Parser;
use fuzz::{Dice, Target, judge, mutate};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// After so long a run is taken for one that never ends.
const NEVER_ENDS: Duration = Duration::from_secs(60);
/// The input that is being run, since when, and for which target.
static RUNNING: Mutex<Option<(Instant, &'static str, Vec<u8>)>> = Mutex::new(None);

/// Feeds mutated inputs to everything that takes bytes from outside, and stops at the first that does harm.
#[derive(Parser)]
struct Args {
    /// Seconds for all targets together.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Only this target.
    #[arg(long)]
    target: Option<String>,
    /// Not this target.
    #[arg(long)]
    skip: Option<String>,
    /// Other seeds give other inputs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run the input in this file, and nothing else.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// List the targets.
    #[arg(long)]
    list: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let targets: Vec<Target> = fuzz::all()
        .into_iter()
        .filter(|t| args.target.as_deref().is_none_or(|n| n == t.name) && args.skip.as_deref() != Some(t.name))
        .collect();
    if targets.is_empty() {
        bail!("there is no target {}; --list shows all", args.target.unwrap_or_default());
    }
    if args.list {
        targets.iter().for_each(|t| println!("{}", t.name));
        return Ok(());
    }
    if let Some(path) = args.replay {
        let input = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        let [target] = &targets[..] else { bail!("--replay needs --target") };
        judge(target, &input).map_err(anyhow::Error::msg)?;
        println!("{}: no harm", target.name);
        return Ok(());
    }
    std::thread::spawn(watch);
    let share = Duration::from_secs(args.seconds) / targets.len() as u32;
    let mut found = 0;
    for target in &targets {
        found += usize::from(!drive(target, share, args.seed)?);
    }
    if found > 0 {
        bail!("{found} targets have findings");
    }
    Ok(())
}

/// Ends the process, with the input kept, when a run does not end.
fn watch() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let running = RUNNING.lock().ok().and_then(|mut r| r.take_if(|(since, ..)| since.elapsed() > NEVER_ENDS));
        if let Some((_, target, input)) = running {
            match keep(target, "endless", &input) {
                Ok(()) => println!("{target}: a run that does not end"),
                Err(e) => println!("{target}: a run that does not end; its input cannot be kept: {e:#}"),
            }
            std::process::exit(1);
        }
    }
}

/// Keeps an input and says how to run it again.
fn keep(target: &str, name: &str, input: &[u8]) -> Result<()> {
    let folder = std::env::temp_dir().join("nacre-fuzz");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{target}-{name}"));
    std::fs::write(&path, input).with_context(|| format!("write {}", path.display()))?;
    println!("  again: cargo run -p fuzz --bin fuzz -- --target {target} --replay {}", path.display());
    println!("  when it is mended, keep the input in tools/fuzz/regressions/{target}-WHAT");
    Ok(())
}

/// Drives one target; false if an input did harm.
fn drive(target: &Target, time: Duration, seed: u64) -> Result<bool> {
    let seeds = (target.seeds)();
    let begin = Instant::now();
    let mut runs = 0u64;
    let mut dice = Dice(seed ^ target.name.bytes().fold(0, |n, b| n << 5 ^ u64::from(b)));
    while begin.elapsed() < time {
        let input = match seeds.get(runs as usize) {
            Some(seed) => seed.clone(),
            None => mutate(&seeds, &mut dice),
        };
        runs += 1;
        if let Ok(mut running) = RUNNING.lock() {
            *running = Some((Instant::now(), target.name, input.clone()));
        }
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| judge(target, &input)));
        let why = match outcome {
            Ok(Ok(())) => continue,
            Ok(Err(why)) => why,
            Err(_) => "a panic (above)".to_owned(),
        };
        println!("{}: run {runs} (seed {seed}): {why}", target.name);
        keep(target.name, &format!("{seed}-{runs}"), &input)?;
        return Ok(false);
    }
    println!("{:<18} {runs:>9} inputs, {} seeds, no harm", target.name, seeds.len());
    Ok(true)
}
