//! Hostile input to the monitor. Only for `tools/fuzz`.

use moncommands::{mgr_table, mon_table, parse, table};

pub use monlog::fuzz::{beginning, first, groups, log, log_1, message, messages, superblock};
pub use monstate::fuzz::{proposal, seed, snapshot};

/// A command as clients send it, for each of the tables.
pub fn command(text: &str) {
    for commands in [table(), mon_table(), mgr_table()] {
        let _ = parse(commands, text);
    }
}
