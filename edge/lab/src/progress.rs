//! How far an experiment is: a bar with the time left on a terminal, plain lines elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shows progress on standard error.
pub struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    done: usize,
    begun: Instant,
    expected: f64,
}

impl Progress {
    /// Of `total` steps that will take `expected` seconds.
    pub fn new(total: usize, expected: f64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed_precise} {msg}");
            let bar = ProgressBar::new(total as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { bar, total, done: 0, begun: Instant::now(), expected }
    }

    /// Seconds left: what was expected, corrected by what was done so far.
    fn left(&self) -> f64 {
        let taken = self.begun.elapsed().as_secs_f64();
        let share = self.done as f64 / self.total.max(1) as f64;
        let by_rate = if share > 0.0 { taken / share - taken } else { self.expected };
        (by_rate * share + (self.expected - taken).max(0.0) * (1.0 - share)).max(0.0)
    }

    /// A step begins.
    pub fn begin(&mut self, what: &str) {
        let left = minutes(self.left());
        match &self.bar {
            Some(bar) => bar.set_message(format!("(left {left}) {what}")),
            None => tell(&format!("[{}/{}, left {left}] {what}", (self.done + 1).min(self.total), self.total)),
        }
    }

    /// Says a sentence.
    pub fn say(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.println(what),
            None => tell(what),
        }
    }

    /// It is done.
    pub fn end(&mut self) {
        self.done += 1;
        self.bar.iter().for_each(|bar| bar.inc(1));
    }
}

/// Writes a line to standard error. A full disk under it loses the line and ends nothing.
fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// `1:05`, `2:00:00`
pub fn minutes(seconds: f64) -> String {
    let s = seconds.round().max(0.0) as u64;
    match s / 3600 {
        0 => format!("{}:{:02}", s / 60, s % 60),
        h => format!("{h}:{:02}:{:02}", s % 3600 / 60, s % 60),
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_shown_in_minutes() {
        assert_eq!((minutes(65.2), minutes(7200.0), minutes(0.0)), ("1:05".into(), "2:00:00".into(), "0:00".into()));
    }
}
