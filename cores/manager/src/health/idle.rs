//! Notices of what somebody set and nothing reads: options of the cluster, settings of pools.

use super::{Checks, DETAILS, Severity};
use monstate::modules::{self, NOT_HERE};
use monstate::options;
use monstate::pools::without_effect;
use monstate::state::State;

/// Adds the options and the settings of pools that are kept and do nothing. Notices: tools of Ceph set such options by
/// themselves, and nothing is wrong with a cluster that ignores them, as long as nobody counts on them.
pub(super) fn find(checks: &mut Checks, state: &State) {
    let stored = state.config.sections.iter().flat_map(|(who, options)| options.keys().map(move |name| (who, name)));
    let idle = stored.filter_map(|(who, name)| Some((who, name, options::lacks(name, who)?)));
    let detail = idle.map(|(who, name, (what, why))| format!("{name} of {who} has {what}: {why}")).collect();
    add(checks, "OPTIONS_WITHOUT_EFFECT", "option(s) are set that have no effect where they are set, or a part of it", detail);
    let set = state.osdmap.pools.iter().flat_map(|(id, pool)| pool.opts.keys().map(move |key| (id, *key)));
    let idle = set.filter_map(|(id, key)| Some((id, without_effect(key)?)));
    let detail =
        idle.map(|(id, (name, why))| format!("{name} of pool '{}' has no effect: {why}", state.pool_name(*id))).collect();
    add(checks, "POOL_OPTION_WITHOUT_EFFECT", "setting(s) of pools have no effect", detail);
    let noted = modules::noted(state);
    let detail: Vec<String> = noted.map(|module| format!("Module '{module}' has failed dependency: {NOT_HERE}")).collect();
    if let Some(first) = detail.first() {
        let (n, summary) = (detail.len(), first.clone());
        let summary = if n == 1 { summary } else { format!("{n} mgr modules have failed dependencies") };
        checks.warn("MGR_MODULE_DEPENDENCY", n as u64, summary, detail);
    }
}

fn add(checks: &mut Checks, code: &str, what: &str, mut detail: Vec<String>) {
    if !detail.is_empty() {
        let n = detail.len() as u64;
        detail.truncate(DETAILS);
        checks.add(code, Severity::Notice, n, format!("{n} {what}"), detail);
    }
}
