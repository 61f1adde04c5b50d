//! Any command, with a pattern that finds its result.

use super::{Bench, Outcome, pool};
use anyhow::{Context, Result, bail};
use regex_lite::Regex;
use std::process::Command;
use std::time::Instant;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<Outcome> {
    let Some(text) = bench.point.given("command") else { bail!("a custom workload needs the key 'command'") };
    let pattern = bench.point.given("result").unwrap_or_else(|| r"(?<rate>[0-9.]+)".into());
    let pattern = Regex::new(&pattern).with_context(|| format!("result '{pattern}' is not a regular expression"))?;
    let mut command = Command::new("sh");
    command.args(["-c", &text]).env("CEPH_CONF", &bench.cluster.conf).env("POOL", pool());
    command.env("SECONDS", bench.seconds().to_string()).current_dir(&bench.lab.scratch);
    let begun = Instant::now();
    let said = bench.together(vec![command], bench.seconds())?.into_iter().map(|(_, out)| out).next().unwrap_or_default();
    let took = begun.elapsed().as_secs_f64();
    let mut outcome = parse(&said, &pattern, took, bench.size())
        .with_context(|| format!("the pattern '{pattern}' finds no number in: {said}"))?;
    (outcome.command, outcome.said) = (text, said);
    Ok(outcome)
}

/// The last place where the pattern matches; its groups `ops`, `rate` or `mb` are numbers, `seconds` is the time if it
/// is there.
pub fn parse(said: &str, pattern: &Regex, took: f64, size: u64) -> Option<Outcome> {
    let found = pattern.captures_iter(said).last()?;
    let group = |name: &str| found.name(name).and_then(|m| m.as_str().parse::<f64>().ok());
    let seconds = group("seconds").unwrap_or(took);
    let size = size as f64;
    let ops = group("ops")
        .or_else(|| group("rate").map(|r| r * seconds))
        .or_else(|| group("mb").map(|mb| mb * 1e6 * seconds / size))?;
    Some(Outcome { ops, bytes: ops * size, seconds, ..Outcome::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_the_pattern_are_the_result() {
        let parse = |said: &str, pattern: &str| parse(said, &Regex::new(pattern).unwrap(), 2.0, 4096).map(|o| (o.ops, o.seconds));
        assert_eq!(parse("did 500 ops\ndid 800 ops", r"did (?<ops>\d+)"), Some((800.0, 2.0)));
        assert_eq!(parse("rate 50.5 in 4", r"rate (?<rate>[\d.]+) in (?<seconds>\d+)"), Some((202.0, 4.0)));
        assert_eq!(parse("8.192 MB/s", r"(?<mb>[\d.]+) MB"), Some((4000.0, 2.0)));
        assert_eq!(parse("nothing", r"(?<ops>\d+)"), None);
    }
}
