//! What strangers can say to an open port.

use super::{MACHINE, PLAIN};
use crate::Target;
use msgr::fuzz;

pub(super) fn targets() -> Vec<Target> {
    vec![
        Target { name: "handshake", run: fuzz::structures, seeds: fuzz::structure_seeds, slack: PLAIN },
        Target { name: "stream", run: fuzz::stream, seeds: fuzz::seeds, slack: MACHINE },
        Target {
            name: "middleman",
            run: fuzz::middleman,
            seeds: || vec![vec![0, 255, 255], vec![1, 255, 255], vec![0; 40]],
            slack: PLAIN,
        },
    ]
}
