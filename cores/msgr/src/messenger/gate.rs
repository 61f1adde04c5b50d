//! Log lines at a bounded rate: a flood of bad peers must not become a flood of lines.

use node::{Level, Mono, Outputs};
use std::collections::VecDeque;
use std::time::Duration;

/// Lines that may come at once, and per second afterwards.
const BURST: u64 = 50;
const PER_SECOND: u64 = 10;
/// Time in which it is written once what this side tries in vain.
const AGAIN: Duration = Duration::from_secs(60);
/// Such lines that are remembered.
const REMEMBERED: usize = 256;

/// A line that may come again.
struct Said {
    at: Mono,
    what: String,
    /// Number of times that it would have been written since.
    times: u64,
}

pub(super) struct LogGate {
    left: u64,
    refilled: Mono,
    suppressed: u64,
    /// Oldest first.
    said: VecDeque<Said>,
}

impl LogGate {
    pub(super) fn new() -> Self {
        Self { left: BURST, refilled: Mono(0), suppressed: 0, said: VecDeque::new() }
    }

    /// As [`Self::log_seldom_as`], for lines that are the same each time.
    pub(super) fn log_seldom(&mut self, now: Mono, level: Level, text: String, out: &mut Outputs) {
        let what = text.clone();
        self.log_seldom_as(now, level, &what, text, out);
    }

    /// A line of this side's own doing, which comes again for as long as the reason stands: it is written once a
    /// minute, and then says how often it would have been. `what` tells it from other lines.
    pub(super) fn log_seldom_as(&mut self, now: Mono, level: Level, what: &str, text: String, out: &mut Outputs) {
        let before = self.said.iter_mut().find(|said| said.what == what);
        let times = match before {
            Some(said) if now.since(said.at) < AGAIN => {
                said.times += 1;
                return;
            }
            Some(said) => said.times,
            None => 0,
        };
        self.said.retain(|said| said.what != what);
        if self.said.len() == REMEMBERED {
            self.said.pop_front();
        }
        self.said.push_back(Said { at: now, what: what.to_owned(), times: 0 });
        let more = if times == 0 { String::new() } else { format!(" ({times} more times since this was written last)") };
        self.log(now, level, text + &more, out);
    }

    /// Writes a line, unless there are too many.
    pub(super) fn log(&mut self, now: Mono, level: Level, text: String, out: &mut Outputs) {
        let refill = now.since(self.refilled).as_millis() as u64 * PER_SECOND / 1000;
        if refill > 0 {
            self.left = self.left.saturating_add(refill).min(BURST);
            self.refilled = now;
        }
        if self.left == 0 {
            self.suppressed += 1;
            return;
        }
        self.left -= 1;
        let more = match std::mem::take(&mut self.suppressed) {
            0 => String::new(),
            n => format!(" ({n} lines before this one were not written)"),
        };
        out.log(level, "msgr", text + &more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use node::Output;

    fn lines(out: &Outputs) -> Vec<String> {
        let text = |output: &Output| if let Output::Log(line) = output { Some(line.text.clone()) } else { None };
        out.0.iter().filter_map(text).collect()
    }

    #[test]
    fn what_fails_again_and_again_is_written_once_a_minute() {
        let (mut gate, mut out) = (LogGate::new(), Outputs::default());
        for second in 0..=130 {
            let now = Mono(second * 1_000_000_000);
            gate.log_seldom(now, Level::Info, "mon a refuses".into(), &mut out);
            if second == 3 {
                gate.log_seldom(now, Level::Info, "mon b refuses".into(), &mut out);
            }
        }
        let more = "mon a refuses (59 more times since this was written last)";
        assert_eq!(lines(&out), ["mon a refuses", "mon b refuses", more, more]);
    }

    #[test]
    fn few_lines_are_remembered() {
        let (mut gate, mut out) = (LogGate::new(), Outputs::default());
        (0..10 * REMEMBERED).for_each(|n| gate.log_seldom(Mono(1), Level::Info, n.to_string(), &mut out));
        assert_eq!(gate.said.len(), REMEMBERED);
    }
}
