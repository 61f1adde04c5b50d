//! Processor time, from the kernel's own accounting.

use anyhow::{Context, Result};

/// Length of the kernel's clock tick for user space (`USER_HZ`, the same on all architectures that we know), in seconds.
const TICK: f64 = 0.01;

/// Seconds that a process has used, all its threads together.
///
/// # Errors
/// It does not run.
pub fn process(pid: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("process {pid}"))?;
    parse_process(&text).with_context(|| format!("/proc/{pid}/stat"))
}

/// Seconds that the processes that this one started, and that ended, have used.
///
/// # Errors
/// The system does not tell.
pub fn ended_children() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let fields = fields(&text).context("/proc/self/stat")?;
    Ok((number(&fields, 13).context("cutime")? + number(&fields, 14).context("cstime")?) * TICK)
}

/// Seconds that the processors of the machine were busy.
///
/// # Errors
/// The system does not tell.
pub fn machine() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let row: Vec<&str> = text.lines().next().unwrap_or_default().split_whitespace().skip(1).collect();
    // user, nice, system, irq, softirq: all but idle, waiting for disks, and stolen.
    [0, 1, 2, 5, 6].iter().map(|&i| number(&row, i)).sum::<Option<f64>>().map(|n| n * TICK).context("/proc/stat")
}

/// The fields behind the name, which may hold anything.
fn fields(text: &str) -> Option<Vec<&str>> {
    Some(text.rsplit_once(')')?.1.split_whitespace().collect())
}

fn number(fields: &[&str], at: usize) -> Option<f64> {
    fields.get(at)?.parse().ok()
}

fn parse_process(text: &str) -> Option<f64> {
    let fields = fields(text)?;
    Some((number(&fields, 11)? + number(&fields, 12)?) * TICK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_accounts() {
        let text = "4 (a) (b) S 1 4 4 0 -1 4194560 100 0 0 0 250 50 7 8 20 0 1 0 100 0 0";
        assert_eq!(parse_process(text), Some(3.0));
        assert_eq!(parse_process("nonsense"), None);
        assert!(process(std::process::id()).unwrap() <= machine().unwrap());
        assert!(ended_children().unwrap() >= 0.0);
        assert!(process(u32::MAX).is_err());
    }
}
