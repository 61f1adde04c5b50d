//! Rules: finding, making, removing.

use crate::map::Map;

impl Map {
    /// The rule that a pool with this `crush_rule`, type and size uses.
    pub fn find_rule(&self, ruleset: u8, kind: u8, size: u8) -> Option<u32> {
        let fits = |r: &crate::Rule| {
            r.mask.ruleset == ruleset && r.mask.kind == kind && (r.mask.min_size..=r.mask.max_size).contains(&size)
        };
        self.rules.iter().position(|r| r.as_ref().is_some_and(fits)).map(|n| n as u32)
    }
}
