//! The committed numbers, and the comparison with them.

use crate::callgrind::Counts;
use crate::phases::PHASES;
use std::fmt::Write;
use std::path::Path;

/// A phase may need so many percent more than the committed number.
const TOLERANCE: f64 = 5.0;

/// Reads the committed numbers.
pub(crate) fn read(file: &Path) -> Result<Counts, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))
}

/// Writes numbers to be committed.
pub(crate) fn write(file: &Path, counts: &Counts) -> Result<(), String> {
    print!("{}", table(counts, counts));
    let text = serde_json::to_string_pretty(counts).expect("a map of numbers") + "\n";
    std::fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()))
}

fn change(kept: u64, found: u64) -> f64 {
    (found as f64 - kept as f64) * 100.0 / kept as f64
}

/// A table for people.
pub(crate) fn table(kept: &Counts, found: &Counts) -> String {
    let mut text = format!("{:<10} {:>12} {:>12} {:>8}\n", "phase", "kept", "now", "change");
    for phase in PHASES {
        let (old, new) = (kept.get(phase.name).copied(), found.get(phase.name).copied().unwrap_or(0));
        let shown = |n: Option<u64>| n.map_or("-".into(), |n| n.to_string());
        let change = old.map_or("new".into(), |old| format!("{:+.1} %", change(old, new)));
        writeln!(text, "{:<10} {:>12} {:>12} {:>8}  {}", phase.name, shown(old), new, change, phase.about)
            .expect("writing to a string");
    }
    text
}

/// Returns whether the numbers found may stand.
pub(crate) fn judge(kept: &Counts, found: &Counts) -> Result<(), String> {
    let mut complaints = String::new();
    for phase in PHASES {
        let new = found.get(phase.name).copied().unwrap_or(0);
        let complaint = match kept.get(phase.name) {
            None => format!("{}: no committed number", phase.name),
            Some(&old) if change(old, new) > TOLERANCE => {
                format!("{}: {:+.1} % instructions for each operation", phase.name, change(old, new))
            }
            Some(_) => continue,
        };
        writeln!(complaints, "{complaint}").expect("writing to a string");
    }
    if complaints.is_empty() {
        return Ok(());
    }
    Err(format!("{complaints}see where with `make instructions-profile`; if it is meant, `make instructions-update` and commit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(n: u64) -> Counts {
        PHASES.iter().map(|p| (p.name.to_owned(), n)).collect()
    }

    #[test]
    fn more_than_the_tolerance_is_refused_and_named() {
        assert_eq!(judge(&counts(1000), &counts(1050)), Ok(()));
        assert_eq!(judge(&counts(1000), &counts(500)), Ok(()));
        let mut one = counts(1000);
        one.insert("read".into(), 1051);
        let complaint = judge(&counts(1000), &one).unwrap_err();
        assert!(complaint.starts_with("read: +5.1 %"), "{complaint}");
        assert!(judge(&Counts::new(), &one).is_err(), "a phase without a number is not passed over");
    }
}
