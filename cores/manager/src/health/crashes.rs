//! Daemons that died, as `ceph-crash` reported, and nobody archived the report.

use super::Checks;
use crate::crashes;
use monstate::state::State;
use types::UTime;

/// Most reports that the detail lists, as in Ceph.
const LISTED: usize = 30;

/// Adds the reports of late that nobody archived.
pub(super) fn find(checks: &mut Checks, state: &State, now: UTime) {
    let recent = crashes::recent(state, now);
    if recent.is_empty() {
        return;
    }
    let mut detail: Vec<String> = recent
        .iter()
        .take(LISTED)
        .map(|r| {
            let text = |name: &str, missing: &str| grammar::one_line(r.text_or(name, missing));
            let (who, host) = (text("entity_name", "unknown daemon"), text("utsname_hostname", "unknown host"));
            format!("{who} crashed on host {host} at {}", r.text("timestamp"))
        })
        .collect();
    if recent.len() > LISTED {
        detail.push(format!("... and {} more", recent.len() - LISTED));
    }
    let n = recent.len() as u64;
    checks.warn("RECENT_CRASH", n, format!("{n} daemons have recently crashed"), detail);
}
