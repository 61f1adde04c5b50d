//! How far a matrix is: a bar on a terminal, plain lines elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// Shows progress on standard error.
pub struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    done: usize,
}

impl Progress {
    /// Of `total` steps.
    pub fn new(total: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed_precise} (left {eta}) {msg}");
            let bar = ProgressBar::new(total as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { bar, total, done: 0 }
    }

    /// A step begins.
    pub fn begin(&mut self, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(what.to_owned()),
            None => eprintln!("[{}/{}] {what}", self.done + 1, self.total),
        }
    }

    /// It is done.
    pub fn end(&mut self) {
        self.done += 1;
        self.bar.iter().for_each(|bar| bar.inc(1));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}
