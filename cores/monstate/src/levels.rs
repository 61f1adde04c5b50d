//! When the cluster's level may be raised, and when the leader raises it by itself (`docs/decisions/0028-levels.md`).
//!
//! *Data and owner.* The level is in the OSD map. What levels each daemon's program has is in the state: in the
//! metadata of OSDs and in the records of monitors. Whether the level is held back is a stored key. Since when all
//! daemons have a newer program is the leader's own ([`Clock`]), and begins anew with each reign.
//!
//! *Invariant.* The level is raised by one, and only when no monitor and no OSD that is up has a program that cannot
//! run the next one.

use crate::config::Config;
use crate::context::Env;
use crate::effective;
use crate::state::State;
use node::{Mono, Now};
use std::collections::BTreeMap;
use std::time::Duration;
use types::level::Level;
use types::{Levels, OsdId};

/// The stored key that says that the level is not raised by itself.
pub const HELD: &str = "nacre/level-held";
/// Seconds for which all daemons must have a program of the next level before the leader raises it; 0: never.
const WAIT: &str = "mon_level_raise_after";

/// A daemon whose program cannot run the next level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Laggard {
    /// `mon.a` or `osd.3`.
    pub name: String,
    /// Levels that its program runs.
    pub levels: Levels,
    /// It is an OSD that is down: a person may leave it behind.
    pub down: bool,
}

/// Returns what the program of an OSD runs, as it said at its last boot; `None` for one that never booted, or whose
/// disk is destroyed.
pub fn of_osd(state: &State, osd: OsdId) -> Option<Levels> {
    let map = &state.osdmap;
    let lived = map.is_up(osd) || map.info(osd).is_some_and(|info| info.up_from > 0);
    let destroyed = map.state(osd) & maps::state::DESTROYED != 0;
    (lived && !destroyed).then(|| Levels::told(state.osd_metadata.get(&osd).and_then(|told| told.get(Levels::KEY))))
}

/// Returns what the programs of all monitors run, by name.
pub fn of_monitors(state: &State, config: &Config) -> BTreeMap<String, Levels> {
    let mut all: BTreeMap<String, Levels> =
        state.quorum.mons.iter().map(|(name, record)| (name.clone(), Levels::told(record.metadata.get(Levels::KEY)))).collect();
    all.insert(config.name.clone(), config.levels);
    all
}

/// The level after the present one, if this program knows it.
pub fn next(state: &State, config: &Config) -> Option<Level> {
    let next = Level(state.osdmap.level.0.saturating_add(1));
    (next <= config.levels.newest && next > state.osdmap.level).then_some(next)
}

/// Daemons whose programs cannot run this level: monitors first, then OSDs by their numbers.
pub fn laggards(state: &State, config: &Config, level: Level) -> Vec<Laggard> {
    let lags = |levels: &Levels| !levels.can_run(level);
    let monitors = of_monitors(state, config).into_iter().filter(|(_, levels)| lags(levels));
    let monitors = monitors.map(|(name, levels)| Laggard { name: format!("mon.{name}"), levels, down: false });
    let osds = state.osdmap.osds().filter_map(|osd| Some((osd, of_osd(state, osd)?))).filter(|(_, levels)| lags(levels));
    let osds = osds.map(|(osd, levels)| Laggard { name: format!("osd.{osd}"), levels, down: !state.osdmap.is_up(osd) });
    monitors.chain(osds).collect()
}

/// Returns true if somebody holds the level back.
pub fn is_held(state: &State) -> bool {
    state.keys.contains_key(HELD)
}

/// Returns how long all daemons must have a newer program; `None`: the level is never raised by itself.
pub fn wait(state: &State, env: &Env) -> Option<Duration> {
    let secs = effective::monitor_number(state, env, WAIT);
    (secs > 0.0 && !is_held(state)).then(|| Duration::from_secs_f64(secs.min(1e9)))
}

/// Since when all daemons have a program of the next level, and since when some have older programs than others.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    ready: Option<(Level, Mono)>,
    mixed: Option<(Level, Mono)>,
    /// For the simulator: older programs do not count.
    #[cfg(feature = "sim")]
    pub hasty: bool,
}

/// Step of the leader about the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    None,
    /// It says that all programs have this level by now.
    Tell(Level),
    /// It raises the level to this one.
    Raise(Level),
}

impl Clock {
    /// Looks whether the level may be raised, and for how long it may.
    pub fn tick(&mut self, now: Now, state: &State, env: &Env) -> Step {
        self.look_for_older(now, state, &env.config);
        let may = |level: &Level| laggards(state, &env.config, *level).is_empty();
        #[cfg(feature = "sim")]
        let may = |level: &Level| self.hasty || may(level);
        let ready = next(state, &env.config).filter(may);
        let Some(level) = ready else {
            self.ready = None;
            return Step::None;
        };
        let Some((_, since)) = self.ready.filter(|(known, _)| *known == level) else {
            self.ready = Some((level, now.mono));
            return Step::Tell(level);
        };
        match wait(state, env) {
            Some(wait) if now.mono >= since.plus(wait) => Step::Raise(level),
            _ => Step::None,
        }
    }

    /// Programs are compared by the newest level that they run.
    fn look_for_older(&mut self, now: Now, state: &State, config: &Config) {
        let osds = state.osdmap.osds().filter_map(|osd| of_osd(state, osd));
        let newest = of_monitors(state, config).into_values().chain(osds).map(|levels| levels.newest).max();
        let mixed = newest.filter(|newest| !laggards(state, config, *newest).is_empty());
        self.mixed = mixed.map(|newest| (newest, self.mixed.map_or(now.mono, |(_, since)| since)));
    }

    /// The newest level that some program runs and others do not, and since when there are such.
    pub fn mixed(&self) -> Option<(Level, Mono)> {
        self.mixed
    }

    /// The level that all programs have, above the present one, and since when.
    pub fn ready(&self) -> Option<(Level, Mono)> {
        self.ready
    }
}
