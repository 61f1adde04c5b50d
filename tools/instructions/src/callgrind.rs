//! Runs this program again under callgrind and reads what that wrote.

use crate::phases::PHASES;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Instructions for each operation, by phase.
pub(crate) type Counts = BTreeMap<String, u64>;

/// Runs all phases with `ops` operations each; callgrind's files go to `dir`.
pub(crate) fn measure(dir: &Path, ops: u64) -> Result<Counts, String> {
    let me = std::env::current_exe().map_err(|e| format!("this program's own path: {e}"))?;
    let log = dir.join("valgrind.log");
    let status = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", dir.join("out").display()))
        .arg(format!("--log-file={}", log.display()))
        .args(["--toggle-collect=instructions::hosts::counted_round", "--toggle-collect=instructions::hosts::counted_end"])
        .args(["--dump-after=instructions::phases::warm_up", "--dump-after=instructions::phases::measured"])
        .args(["--combine-dumps=no", "--compress-strings=yes"])
        .arg(me)
        .args(["run", &ops.to_string()])
        // Hash seeds, thread counts and the like must not come from the environment.
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .status()
        .map_err(|e| format!("valgrind does not start: {e}"))?;
    if !status.success() {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        return Err(format!("the run under valgrind failed ({status}):\n{log}"));
    }
    let mut counts = Counts::new();
    for (i, phase) in PHASES.iter().enumerate() {
        counts.insert(phase.name.into(), total(&part(dir, i))? / ops);
    }
    Ok(counts)
}

/// The file of the `i`-th phase; the one before it is of its warm-up.
pub(crate) fn part(dir: &Path, i: usize) -> PathBuf {
    dir.join(format!("out.{}", 2 * i + 2))
}

/// The sum of a file of callgrind's.
fn total(file: &Path) -> Result<u64, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let line = text.lines().rev().find_map(|l| l.strip_prefix("totals: ").or(l.strip_prefix("summary: ")));
    let total = line.and_then(|t| t.trim().parse().ok()).ok_or(format!("{} has no total", file.display()))?;
    if total == 0 {
        return Err(format!("{} counts nothing: was the function to be counted inlined?", file.display()));
    }
    Ok(total)
}
