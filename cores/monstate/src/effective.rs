//! Options as they count: the configuration database stands above the configuration file, and that above the defaults.

use crate::context::Env;
use crate::options;
use crate::state::State;
use crate::state::configdb::Place;
use crate::state::place_of;
use types::{EntityName, EntityType, OsdId};

/// An option's text as it counts for the monitor itself: from the database, the configuration file, or the default. Of
/// what Ceph's manager reads, a value that is set for managers counts first: monitor and manager are one here.
pub fn of_monitor(state: &State, env: &Env, name: &str) -> String {
    if settings::readers(name) == Some(settings::Readers::Managers) {
        let manager = EntityName::new(EntityType::Mgr, env.config.mgr_name.clone());
        let stored = state.config.for_entity(&manager, &Place::default());
        if let Some((_, value)) = stored.get(name).filter(|(section, _)| section != "global") {
            return value.clone();
        }
    }
    let stored = state.config.for_entity(&env.name(), &Place::default());
    match stored.get(name) {
        Some((_, value)) => value.clone(),
        None => options::configured(&env.config, name).to_string(),
    }
}

/// An option's text as it counts for an OSD: from the database, the configuration file, or the default.
pub fn of_osd(state: &State, env: &Env, osd: OsdId, host: &str, name: &str) -> String {
    let entity = EntityName::new(EntityType::Osd, osd.to_string());
    let stored = state.config.for_entity(&entity, &place_of(state, &EntityType::Osd, &entity.id, host));
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
    is_true(&of_monitor(state, env, name))
}

/// Returns true for the words that switch a flag on.
pub fn is_true(text: &str) -> bool {
    matches!(text.to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1")
}
