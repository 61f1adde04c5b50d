//! Pools whose first placement groups are being made.
//!
//! A new pool carries [`pool_flags::CREATING`] until each of its groups was active once, as its primary reports. OSDs
//! make groups that they miss only while the flag stands: afterwards a group that nobody has is lost, not new. What was
//! reported is soft knowledge, so a new leader hears of it anew.

use maps::{Incremental, OsdMap, pool_flags};
use messages::internal::PgReport;
use monstate::pools::split_to_target;
use monstate::state::State;
use std::collections::{BTreeMap, BTreeSet};
use types::{OsdId, PgState, PoolId};

/// The groups of pools in creation that were active once.
#[derive(Clone, Debug, Default)]
pub struct Creating(BTreeMap<PoolId, BTreeSet<u32>>);

impl Creating {
    /// Takes notice of what `osd` reports of a group. Only its primary counts.
    pub fn note(&mut self, map: &OsdMap, osd: OsdId, report: &PgReport) {
        let pg = report.pg;
        let creating = map.pool(pg.pool).is_some_and(|p| p.has_flag(pool_flags::CREATING) && pg.seed < p.pg_num);
        if creating && report.state.has(PgState::ACTIVE) && map.placed(pg).acting_primary == osd {
            self.0.entry(pg.pool).or_default().insert(pg.seed);
        }
    }

    /// The pools in creation all of whose groups were active.
    pub fn done(&self, map: &OsdMap) -> Vec<PoolId> {
        let is_done = |id: &PoolId| {
            let pool = map.pool(*id).filter(|p| p.has_flag(pool_flags::CREATING));
            pool.is_some_and(|p| self.0.get(id).is_some_and(|active| active.len() >= p.pg_num as usize))
        };
        self.0.keys().copied().filter(is_done).collect()
    }

    /// Forgets what belongs to no pool in creation.
    pub fn prune(&mut self, map: &OsdMap) {
        self.0.retain(|id, _| map.pool(*id).is_some_and(|p| p.has_flag(pool_flags::CREATING)));
    }

    /// Takes the flag off the pools that are made. Those that shall have more groups by now are split.
    pub fn finish(&self, state: &State, inc: &mut Incremental) {
        for id in self.done(&state.osdmap) {
            let Some(current) = state.osdmap.pool(id) else { continue };
            let epoch = inc.epoch;
            let pool = inc.new_pools.entry(id).or_insert_with(|| current.clone());
            pool.flags &= !pool_flags::CREATING;
            split_to_target(pool, epoch);
        }
    }
}
