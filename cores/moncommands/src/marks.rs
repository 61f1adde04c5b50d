//! What is remembered of OSDs that shall go and of hosts at rest, under `config-key`: what the orchestrator's commands write, and what is forgotten
//! with an OSD or a host.

use super::Cx;
use monstate::state::{Change, State};
use types::OsdId;

/// OSDs that shall go are kept under keys that begin with this.
pub(super) const REMOVING: &str = "nacre/removing/";
/// Hosts at rest are kept under keys that begin with this.
const RESTING: &str = "nacre/maintenance/";

/// Returns the key of an OSD that shall go.
pub(super) fn of_removal(osd: OsdId) -> String {
    format!("{REMOVING}{osd}")
}

/// Returns the key of a host at rest.
pub(super) fn of_rest(host: &str) -> String {
    format!("{RESTING}{host}")
}

/// Says whether a host is in maintenance.
pub(super) fn rests(state: &State, host: &str) -> bool {
    state.keys.contains_key(&of_rest(host))
}

/// Forgets that an OSD shall go: it has gone, and its number may be another disk's next.
pub(super) fn forget_removal(cx: &mut Cx<'_>, osd: OsdId) {
    forget(cx, of_removal(osd));
}

/// Forgets that a host is in maintenance.
pub(super) fn forget_rest(cx: &mut Cx<'_>, host: &str) {
    forget(cx, of_rest(host));
}

fn forget(cx: &mut Cx<'_>, key: String) {
    if cx.state.keys.contains_key(&key) {
        cx.changes.push(Change::Key { key, value: None });
    }
}
