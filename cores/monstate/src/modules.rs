//! The modules of Ceph's manager: whose duties are built in here, which are not part of this manager, and which
//! somebody switched.
//!
//! Nothing is loaded. A duty that Ceph lets people switch off is off here as well then. A module that is not here can
//! be noted as switched on, by force, as Ceph notes one that cannot run: nothing of it runs, and health says so for as
//! long as it is noted. What was switched is kept under `config-key` `nacre/module/NAME`, as `on` or `off`, which
//! every program since the first can read.

use crate::state::State;
use std::collections::BTreeSet;

/// Beginning of the keys that keep what was switched.
pub const SWITCHED: &str = "nacre/module/";

/// Modules that are on until somebody turns them off, and whose duties are built in here. (In Ceph, `prometheus` is off
/// at first.)
pub const BUILT_IN: [&str; 2] = ["iostat", "prometheus"];

/// Modules of Ceph 16 that this manager does not have. Ceph lists a module that cannot run in the same way.
pub const ABSENT: [&str; 16] = [
    "alerts",
    "cephadm",
    "dashboard",
    "diskprediction_local",
    "influx",
    "insights",
    "k8sevents",
    "localpool",
    "mirroring",
    "nfs",
    "restful",
    "selftest",
    "snap_schedule",
    "stats",
    "telegraf",
    "zabbix",
];

/// Reason why a module of [`ABSENT`] cannot run.
pub const NOT_HERE: &str = "it is not part of this manager";

/// Returns what was kept of a module: switched on, switched off, or nothing.
pub fn switched(state: &State, module: &str) -> Option<bool> {
    state.keys.get(&format!("{SWITCHED}{module}")).map(|value| &value[..] == b"on")
}

/// Returns the modules that are on: built in and not switched off, or noted by force.
pub fn enabled(state: &State) -> BTreeSet<&'static str> {
    let built_in = BUILT_IN.into_iter().filter(|module| switched(state, module) != Some(false));
    built_in.chain(noted(state)).collect()
}

/// Returns the modules that are noted as switched on and that are not part of this manager.
pub fn noted(state: &State) -> impl Iterator<Item = &'static str> {
    ABSENT.into_iter().filter(|module| switched(state, module) == Some(true))
}
