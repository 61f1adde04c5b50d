//! What the OSD tells the monitor about itself and its groups: every second if something changed, else every five.

use messages::internal::{OsdReport, PgReport, Space};
use node::{Mono, Now};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{Epoch, OsdId, PgId, PgState};

const OFTEN: Duration = Duration::from_secs(1);
const AT_LEAST: Duration = Duration::from_secs(5);

/// Reports to the monitors: when the next is due, and what was reported.
#[derive(Default)]
pub(crate) struct Reporter {
    next: Mono,
    last: Mono,
    sent: BTreeMap<PgId, PgReport>,
    epoch: Epoch,
    urgent: bool,
    slow: u32,
}

impl Reporter {
    /// The monitor knows nothing (a new session): report everything, now.
    pub(crate) fn restart(&mut self) {
        self.sent.clear();
        self.urgent = true;
    }

    /// Something happened that should be known soon (groups created, a flush asked for).
    pub(crate) fn hurry(&mut self) {
        self.urgent = true;
    }

    /// So many operations are slow: the monitors hear at once of the first one, and that there is none any more.
    pub(crate) fn slow_ops(&mut self, slow: u32) {
        let before = std::mem::replace(&mut self.slow, slow);
        self.urgent |= (before == 0) != (slow == 0);
    }

    /// Returns when the next look is due.
    pub(crate) fn deadline(&self) -> Mono {
        if self.urgent { Mono(0) } else { self.next }
    }

    /// Returns true if it is time to look whether there is something to report.
    pub(crate) fn due(&mut self, now: Now) -> bool {
        if !self.urgent && now.mono < self.next {
            return false;
        }
        self.next = now.mono.plus(OFTEN);
        true
    }

    /// The report, if one must be sent: the groups that changed, or a sign of life.
    pub(crate) fn make(&mut self, now: Now, osd: OsdId, epoch: Epoch, space: Space, pgs: Vec<PgReport>) -> Option<OsdReport> {
        let known: Vec<PgId> = pgs.iter().map(|p| p.pg).collect();
        let changed: Vec<PgReport> = pgs.into_iter().filter(|p| self.sent.get(&p.pg).is_none_or(|old| differs(old, p))).collect();
        let silent_for = now.mono.since(self.last);
        if changed.is_empty() && epoch == self.epoch && !self.urgent && silent_for < AT_LEAST {
            return None;
        }
        self.urgent = false;
        self.last = now.mono;
        self.epoch = epoch;
        self.sent.retain(|pg, _| known.binary_search(pg).is_ok());
        self.sent.extend(changed.iter().map(|p| (p.pg, p.clone())));
        Some(OsdReport { osd, epoch, space, pgs: changed, ..OsdReport::default() })
    }
}

/// Returns true if a group's report says something new; its counter alone does not. Nor does it that a group which was
/// clean still is in a newer map: that follows from the epoch of the report, and else each map would have all groups
/// of all OSDs told again.
fn differs(old: &PgReport, new: &PgReport) -> bool {
    let still_clean = old.state.has(PgState::CLEAN) && old.state == new.state && old.last_change == new.last_change;
    let last_epoch_clean = if still_clean { old.last_epoch_clean } else { new.last_epoch_clean };
    PgReport { reported: old.reported, last_epoch_clean, ..new.clone() } != *old
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{EVersion, UTime};

    #[test]
    fn a_newer_map_alone_is_no_news_of_a_clean_group() {
        let at = |sec| UTime { sec, nsec: 0 };
        let report = |state, epoch, changed| PgReport {
            state,
            reported: EVersion::new(epoch, u64::from(epoch)),
            last_epoch_clean: epoch,
            last_change: at(changed),
            ..PgReport::default()
        };
        let clean = PgState::ACTIVE.with(PgState::CLEAN);
        assert!(!differs(&report(clean, 5, 1), &report(clean, 6, 1)));
        assert!(differs(&report(clean, 5, 1), &report(clean, 6, 2)), "another interval began and is clean by now");
        assert!(differs(&report(PgState::ACTIVE, 5, 1), &report(clean, 6, 1)));
        assert!(differs(&report(PgState::ACTIVE, 5, 1), &report(PgState::ACTIVE, 6, 1)));
    }
}
