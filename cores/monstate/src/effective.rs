//! Options as they count: the configuration database stands above the configuration file, and that above the defaults.

use crate::context::Env;
use crate::options;
use crate::state::State;
use crate::state::configdb::Place;

/// An option's text as it counts for the monitor itself: from the database, the configuration file, or the default.
pub fn of_monitor(state: &State, env: &Env, name: &str) -> String {
    let stored = state.config.for_entity(&env.name(), &Place::default());
    match stored.get(name) {
        Some((_, value)) => value.clone(),
        None => options::configured(&env.config, name).to_string(),
    }
}

/// An option of the monitor as a number.
pub fn monitor_number(state: &State, env: &Env, name: &str) -> f64 {
    let text = of_monitor(state, env, name);
    text.parse().unwrap_or_else(|_| options::float(&env.config, name))
}

/// An option of OSDs in general as a number: without what counts for single ones.
pub fn number_for_osds(state: &State, env: &Env, name: &str) -> f64 {
    let stored = ["osd", "global"].iter().find_map(|section| state.config.get(section, name));
    stored.and_then(|text| text.parse().ok()).unwrap_or_else(|| options::float(&env.config, name))
}

/// An option of the monitor as a flag.
pub fn monitor_flag(state: &State, env: &Env, name: &str) -> bool {
    matches!(of_monitor(state, env, name).to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1")
}
