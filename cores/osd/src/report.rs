//! What the OSD tells the monitor about itself and its groups: every second if something changed, else every five.

use messages::internal::{OsdReport, PgReport, Space};
use node::{Mono, Now};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{Epoch, OsdId, PgId};

const OFTEN: Duration = Duration::from_secs(1);
const AT_LEAST: Duration = Duration::from_secs(5);

/// When to report, and what was reported.
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

    /// When the next look is due.
    pub(crate) fn deadline(&self) -> Mono {
        if self.urgent { Mono(0) } else { self.next }
    }

    /// Whether it is time to look whether there is something to report.
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

/// Whether a group's report says something new; its counter alone does not.
fn differs(old: &PgReport, new: &PgReport) -> bool {
    PgReport { reported: old.reported, ..new.clone() } != *old
}
