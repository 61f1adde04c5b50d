//! The balancer: moves single copies by `pg_upmap_items`, so that each OSD holds its share of each pool, and of all;
//! then changes who leads by `pg_upmap`, so that each OSD leads its share.
//!
//! A round looks at the whole map and changes a few groups ([`planner::upmap`]); where copies are at rest, it changes a
//! few leaders ([`planner::leaders`]). It begins only when all groups are clean, so the places that the map gives are
//! where the data is. [`planner::score`] is how Ceph tells people how even a cluster is; nothing here goes by it.
//! [`Desk`] is what is known of rounds and plans. It is soft: a new leader begins with the next round. What people set
//! is durable, as options `mgr/balancer/*` of the configuration database, with Ceph's names.

use crate::soft::Soft;
use maps::{Incremental, OsdMap};
use monstate::context::Env;
use monstate::effective;
use monstate::state::State;
use node::Mono;
use planner::leaders::{self, Orders};
use planner::upmap::{self, Limits, Moves};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{Epoch, PgId, PgState, PoolId, UTime};

/// Text of a round when there is nothing to move, as Ceph has it.
pub(crate) const NOTHING: &str =
    "Unable to find further optimization, or pool(s) pg_num is decreasing, or distribution is already perfect";
/// Text of a round when it made a plan, as Ceph has it.
pub(crate) const PLANNED: &str = "Optimization plan created successfully";

/// Seconds until a round that had to wait for clean groups, or for a pool, is tried again.
const AGAIN: f64 = 5.0;

/// Plans that are kept at most.
pub const MOST_PLANS: usize = 64;

/// Changes of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Place where copies are.
    pub copies: Moves,
    /// Orders about who leads.
    pub leaders: Orders,
}

impl Changes {
    /// Returns whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.copies.is_empty() && self.leaders.is_empty()
    }

    /// Drops the changes of groups that `keeps` denies.
    pub fn retain(&mut self, keeps: impl Fn(PgId) -> bool) {
        self.copies.retain(|pg, _| keeps(*pg));
        self.leaders.retain(|pg, _| keeps(*pg));
    }

    /// Adds the changes to an increment of a map.
    pub fn apply(&self, map: &OsdMap, inc: &mut Incremental) {
        upmap::apply(map, &self.copies, inc);
        leaders::apply(&self.leaders, inc);
    }
}

/// A plan that somebody asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The map that it changes.
    pub epoch: Epoch,
    /// The pools that it was made for; empty for all.
    pub pools: Vec<PoolId>,
    /// Its changes.
    pub changes: Changes,
}

/// Records of rounds and plans.
#[derive(Clone, Debug, Default)]
pub struct Desk {
    /// Plans by name.
    pub plans: BTreeMap<String, Plan>,
    /// Time when the last round began.
    pub started: Option<UTime>,
    /// Its result.
    pub result: String,
    /// True if it found nothing to do, or could not look.
    pub no_need: bool,
    /// Time when that was, for the next one.
    last: Option<Mono>,
    /// True if it had to wait.
    waits: bool,
    /// Number of rounds so far; each begins with another pool.
    rounds: usize,
    /// The map with the last moves.
    moved: Epoch,
}

/// Result of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Round {
    /// These changes.
    Moves(Changes),
    /// Nothing to change.
    Even,
    /// Not now, for this reason.
    Later(String),
    /// There are no pools.
    NoPools,
}

impl Round {
    /// Returns what Ceph says of it.
    pub fn says(&self) -> &str {
        match self {
            Round::Moves(_) => PLANNED,
            Round::Even => NOTHING,
            Round::Later(why) => why,
            Round::NoPools => "No pools available",
        }
    }
}

impl Desk {
    /// Takes notice of a round.
    pub fn note(&mut self, wall: UTime, round: &Round) {
        self.started = Some(wall);
        self.result = round.says().to_owned();
        self.no_need = !matches!(round, Round::NoPools);
    }

    /// Makes a round, if it is time for one. Adds its changes to `inc`.
    pub fn tick(&mut self, now: node::Now, state: &State, soft: &Soft, env: &Env, inc: &mut Incremental) {
        let rest = module_number(state, "sleep_interval", 60.0).clamp(0.5, 1e6);
        let rest = Duration::from_secs_f64(if self.waits { rest.min(AGAIN) } else { rest });
        if self.last.is_some_and(|last| now.mono.since(last) < rest) || !is_on(state) {
            return;
        }
        let round = match crate::stepping::all_follow(state, soft, self.moved) {
            true => round(state, soft, env, &[], self.rounds),
            false => Round::Later("Not all OSDs have the last changes of the map; try again later".into()),
        };
        self.last = Some(now.mono);
        self.waits = matches!(round, Round::Later(_) | Round::NoPools);
        self.rounds = self.rounds.wrapping_add(1);
        self.note(now.wall, &round);
        if let Round::Moves(changes) = round {
            changes.apply(&state.osdmap, inc);
            self.moved = inc.epoch;
        }
    }
}

/// An option of the balancer, if somebody set it.
fn module_option<'a>(state: &'a State, name: &str) -> Option<&'a String> {
    let name = format!("mgr/balancer/{name}");
    ["mgr", "global"].iter().find_map(|section| state.config.get(section, &name))
}

fn module_number(state: &State, name: &str, default: f64) -> f64 {
    let set = module_option(state, name).and_then(|text| text.parse::<f64>().ok());
    set.filter(|x| x.is_finite()).unwrap_or(default)
}

/// Returns true if rounds are made by themselves, as somebody set it.
pub fn is_active(state: &State) -> bool {
    module_option(state, "active").is_none_or(|text| is_yes(text))
}

/// The mode: `none` or `upmap`.
pub fn mode(state: &State) -> &str {
    module_option(state, "mode").map_or("upmap", String::as_str)
}

/// Returns true if leaders are changed, too: unless somebody set `leaders` to false.
fn changes_leaders(state: &State) -> bool {
    module_option(state, "leaders").is_none_or(|text| is_yes(text))
}

fn is_yes(text: &str) -> bool {
    matches!(text.to_ascii_lowercase().as_str(), "true" | "1" | "yes" | "on")
}

/// The pools that rounds are bound to; empty for all.
pub fn bound_pools(state: &State) -> Vec<PoolId> {
    let set = module_option(state, "pool_ids").map_or("", String::as_str);
    let ids = set.split(',').filter_map(|id| id.trim().parse::<PoolId>().ok());
    ids.filter(|id| state.osdmap.pools.contains_key(id)).collect()
}

fn is_on(state: &State) -> bool {
    is_active(state) && mode(state) == "upmap"
}

/// Returns how many copies may be moved now, or why none may.
fn room(state: &State, soft: &Soft, env: &Env) -> Result<usize, String> {
    let states = soft.pg_states(state);
    let all: u64 = states.iter().map(|(_, n)| n).sum();
    let part = |which: &dyn Fn(PgState) -> bool| {
        states.iter().filter(|(is, _)| which(*is)).map(|(_, n)| *n).sum::<u64>() as f64 / all.max(1) as f64
    };
    let (unknown, inactive) = (part(&|is| is == PgState::UNKNOWN), part(&|is| !is.has(PgState::ACTIVE)));
    let sum = soft.total();
    let ratio = |n: i64| n.max(0) as f64 / sum.num_object_copies.max(1) as f64;
    let (degraded, misplaced) = (ratio(sum.num_objects_degraded), ratio(sum.num_objects_misplaced));
    let most = effective::monitor_number(state, env, "target_max_misplaced_ratio").clamp(0.0, 1.0);
    let unclean = part(&|is| !is.has(PgState::CLEAN) || is.has(PgState::STALE));
    if unknown > 0.0 {
        Err(format!("Some PGs ({unknown:.6}) are unknown; try again later"))
    } else if degraded > 0.0 {
        Err(format!("Some objects ({degraded:.6}) are degraded; try again later"))
    } else if inactive > 0.0 {
        Err(format!("Some PGs ({inactive:.6}) are inactive; try again later"))
    } else if misplaced >= most {
        Err(format!("Too many objects ({misplaced:.6} > {most:.6}) are misplaced; try again later"))
    } else if unclean > 0.0 {
        // Ceph moves on meanwhile. Here the places of the map are taken for the places of the data.
        Err(format!("Some PGs ({unclean:.6}) are not clean; try again later"))
    } else {
        let copies: u64 = state.osdmap.pools.values().map(|p| u64::from(p.pg_num) * u64::from(p.size)).sum();
        Ok((copies as f64 * (most - misplaced)) as usize)
    }
}

/// Makes a round for these pools, or for those that somebody chose. `turn`: number of rounds before.
pub fn round(state: &State, soft: &Soft, env: &Env, pools: &[PoolId], turn: usize) -> Round {
    let room = match room(state, soft, env) {
        Ok(room) => room,
        Err(why) => return Round::Later(why),
    };
    let bound = if pools.is_empty() { bound_pools(state) } else { pools.to_vec() };
    let mut wanted: BTreeSet<PoolId> =
        if bound.is_empty() { state.osdmap.pools.keys().copied().collect() } else { bound.into_iter().collect() };
    // Groups that are to be merged lie on the same OSDs.
    let shrinks = |id: &PoolId| state.osdmap.pool(*id).is_some_and(planner::merge::shrinks);
    let all_shrink = !wanted.is_empty() && wanted.iter().all(shrinks);
    wanted.retain(|id| !shrinks(id));
    if all_shrink {
        return Round::Even;
    }
    if wanted.is_empty() {
        return Round::NoPools;
    }
    let most = module_number(state, "upmap_max_optimizations", 10.0).clamp(0.0, 1e6) as usize;
    let limits = Limits {
        moves: most.min(room.max(1)),
        deviation: module_number(state, "upmap_max_deviation", 1.0).max(1.0),
        ..Limits::round(turn)
    };
    let mut changes = Changes { copies: upmap::plan(&state.osdmap, &wanted, &limits), ..Changes::default() };
    if changes.is_empty() && changes_leaders(state) {
        // No copy moves with these, so what is misplaced sets no bound.
        changes.leaders = leaders::plan(&state.osdmap, &wanted, &Limits { moves: most, ..limits });
    }
    if changes.is_empty() { Round::Even } else { Round::Moves(changes) }
}
