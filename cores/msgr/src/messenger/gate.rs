//! Log lines at a bounded rate: a flood of bad peers must not become a flood of lines.

use node::{Level, Mono, Outputs};

/// Lines that may come at once, and per second afterwards.
const BURST: u64 = 50;
const PER_SECOND: u64 = 10;

pub(super) struct LogGate {
    left: u64,
    refilled: Mono,
    suppressed: u64,
}

impl LogGate {
    pub(super) fn new() -> Self {
        Self { left: BURST, refilled: Mono(0), suppressed: 0 }
    }

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
