//! Groups of a pool that shall be placed apart are moved a few at a time: `pgp_num` follows its target in steps, so
//! that not more than a part of all copies (`target_max_misplaced_ratio`) is ever at the wrong place. Ceph's manager
//! does the same.

use crate::soft::Soft;
use maps::{Incremental, OsdMap, Pool, pool_flags};
use monstate::context::Env;
use monstate::effective;
use monstate::state::State;
use std::collections::BTreeMap;
use types::{Epoch, OsdId, PgId, PgState, PoolId, hash};

/// Parts of a pool that decide where its groups are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    pg_num: u32,
    pgp_num: u32,
    size: u8,
    rule: u8,
}

/// Since which map the groups of each pool are placed as they are: what OSDs reported before says nothing of the last
/// step. A pool's `last_change` is no measure for that: it is the newest map while clients make and remove snapshots
/// all the time.
///
/// Soft: a new leader takes the map that it begins with.
#[derive(Clone, Debug, Default)]
pub struct Placements(BTreeMap<PoolId, (Shape, Epoch)>);

impl Placements {
    /// Takes notice of the newest map.
    pub fn follow(&mut self, map: &OsdMap) {
        self.0.retain(|id, _| map.pools.contains_key(id));
        for (id, pool) in &map.pools {
            let shape = Shape { pg_num: pool.pg_num, pgp_num: pool.pgp_num, size: pool.size, rule: pool.crush_rule };
            if self.0.get(id).is_none_or(|(known, _)| *known != shape) {
                self.0.insert(*id, (shape, map.epoch));
            }
        }
    }

    /// That map, for one pool; of a pool that is not known yet, no map is new enough.
    pub(crate) fn since(&self, pool: PoolId) -> Epoch {
        self.0.get(&pool).map_or(Epoch::MAX, |(_, epoch)| *epoch)
    }
}

/// Adds the next step of each pool that is on its way.
pub fn step(state: &State, soft: &Soft, env: &Env, placements: &Placements, inc: &mut Incremental) {
    let waits = |p: &Pool| p.pgp_num != goal(p) && !p.has_flag(pool_flags::CREATING) && p.pg_num_pending >= p.pg_num;
    let last = state.osdmap.pools.iter().filter(|(_, p)| waits(p)).map(|(id, _)| placements.since(*id)).max();
    if last.is_none_or(|last| !all_follow(state, soft, last)) || !all_serve(state, soft) {
        return;
    }
    let sum = soft.total();
    let most = effective::monitor_number(state, env, "target_max_misplaced_ratio").clamp(0.0, 1.0);
    let misplaced = sum.num_objects_misplaced.max(0) as f64 / sum.num_object_copies.max(1) as f64;
    if misplaced >= most {
        return;
    }
    for (id, pool) in state.osdmap.pools.iter().filter(|(_, p)| waits(p)) {
        let pool = inc.new_pools.entry(*id).or_insert_with(|| pool.clone());
        pool.pgp_num = next(pool.pgp_num, goal(pool), pool.pg_num, most - misplaced);
    }
}

/// Returns where `pgp_num` can go: not above what there is, or will be.
fn goal(pool: &Pool) -> u32 {
    let there = if planner::merge::shrinks(pool) { pool.pg_num_target } else { pool.pg_num };
    pool.pgp_num_target.min(there)
}

/// Gives the group, of a pool with `pg_num` groups, from which group `seed` comes by splitting.
fn ancestor(seed: u32, pg_num: u32) -> u32 {
    hash::stable_mod(seed, pg_num, pg_num.next_power_of_two() - 1)
}

/// Gives groups that split off the exceptions of the groups that they come from, so that they are where their objects
/// are. `base` is the map that `change` changes.
pub fn inherit(base: &OsdMap, change: &mut Incremental) {
    let grown: Vec<(PoolId, u32, u32)> =
        change.new_pools.iter().filter_map(|(id, new)| Some((*id, base.pool(*id)?.pg_num, new.pg_num))).collect();
    for (pool, old, new) in grown {
        for seed in old..new {
            let (pg, parent) = (PgId::new(pool, seed), PgId::new(pool, ancestor(seed, old)));
            if let Some(osds) = base.pg_upmap.get(&parent) {
                change.new_pg_upmap.insert(pg, osds.clone());
            }
            if let Some(pairs) = base.pg_upmap_items.get(&parent) {
                change.new_pg_upmap_items.insert(pg, pairs.clone());
            }
        }
    }
}

/// Returns true if each OSD that is up has told of its groups since this map: what the last step misplaced is counted
/// then.
pub(crate) fn all_follow(state: &State, soft: &Soft, epoch: Epoch) -> bool {
    let map = &state.osdmap;
    let seen = |osd: OsdId| soft.osds.get(&osd).and_then(|o| o.report.as_ref()).is_some_and(|r| r.epoch >= epoch);
    map.osds().filter(|osd| map.is_up(*osd)).all(seen)
}

/// Returns true if each group is known and serves. Moving some of them when others are in trouble makes it worse.
pub(crate) fn all_serve(state: &State, soft: &Soft) -> bool {
    soft.pg_states(state).iter().all(|(is, _)| is.has(PgState::ACTIVE) && !is.has(PgState::STALE))
}

/// Returns where `pgp_num` goes next, if so large a part of all may be misplaced. At least two groups move, so that it
/// ends.
fn next(from: u32, to: u32, pg_num: u32, room: f64) -> u32 {
    let most = ((f64::from(pg_num) * room) as u32).max(2);
    if to > from { from.saturating_add(most).min(to) } else { from.saturating_sub(most).max(to) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_group_descends_from_the_group_whose_objects_it_takes() {
        assert_eq!(ancestor(5, 8), 5);
        assert_eq!(ancestor(13, 8), 5);
        assert_eq!(ancestor(11, 6), 3);
        assert_eq!((ancestor(6, 6), ancestor(7, 6)), (2, 3), "six groups: 6 and 7 are folded to 2 and 3");
    }

    #[test]
    fn steps_are_small_and_reach_their_end() {
        assert_eq!((next(8, 16, 16, 0.05), next(15, 16, 16, 0.05), next(16, 16, 16, 0.05)), (10, 16, 16));
        assert_eq!((next(512, 1024, 1024, 0.05), next(1024, 512, 1024, 0.05)), (563, 973));
        assert_eq!(next(8, 64, 64, 1.0), 64);
    }
}
