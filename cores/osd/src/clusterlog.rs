//! Lines for the cluster's log that wait for a monitor.

use messages::mon::LogEntry;

/// Lines that wait; older ones are dropped.
const LINES: usize = 256;

/// The lines.
#[derive(Default)]
pub(crate) struct ClusterLog {
    lines: Vec<LogEntry>,
}

impl ClusterLog {
    /// Queues a line.
    pub(crate) fn push(&mut self, entry: LogEntry) {
        if self.lines.len() == LINES {
            self.lines.remove(0);
        }
        self.lines.push(entry);
    }

    /// All lines; they are forgotten.
    pub(crate) fn take(&mut self) -> Vec<LogEntry> {
        std::mem::take(&mut self.lines)
    }
}
