//! A pool gets fewer groups, one at a time: the last one (the *source*) is taken in by the group that it would have
//! come from by splitting (the *target*). Ceph's monitors and manager do it in the same steps, and the map has the same
//! fields.
//!
//! | step | what the map says | when |
//! |---|---|---|
//! | aim | `pg_num_target`, and `pgp_num_target` with it | somebody, or the autoscaler, asks for fewer groups |
//! | place | `pgp_num` goes down in steps ([`crate::stepping`]), the source gets the target's exceptions of placement | until both lie on the same OSDs |
//! | announce | `pg_num_pending` is one less than `pg_num` | both are clean, and all programs know how to merge (the cluster's level) |
//! | merge | `pg_num` follows; `last_pg_merge_meta` says where both ended | both are ready, as their primary reports: clean, and serving nothing |
//! | take back | `pg_num_pending` is `pg_num` again | a copy goes, or it takes too long: clients have waited long enough. It begins anew when both are clean |
//!
//! *Why nothing is lost.* Between a primary's report that a group is ready, and the map that merges, nothing is
//! written: who leads the group then knows by its map that it is about to be merged. For that the announcement must
//! stand all the while. So a report counts only if its OSD had a map not older than the announcement: [`Merging`] knows
//! of each since which map it surely stands. A new leader takes the map that it begins with.

use crate::soft::{PgSoft, Soft};
use crate::stepping::{Placements, all_follow};
use maps::{Incremental, MergeMeta, OsdMap, Pool, pool_flags};
use monstate::pools::announce;
use monstate::state::State;
use node::{Mono, Now};
use planner::merge::shrinks;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{Epoch, Feature, PgId, PgState, PoolId, hash};

/// Time that two groups may take to become ready. Their clients wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time for which a pool rests after a merge was taken back.
const REST: Duration = Duration::from_secs(5);

/// Record of one announcement.
#[derive(Clone, Copy, Debug)]
struct Announced {
    pending: u32,
    /// A map since which it stands.
    epoch: Epoch,
    since: Mono,
}

/// Pools of which groups are being merged. Soft: a new leader begins anew.
#[derive(Clone, Debug, Default)]
pub struct Merging {
    announced: BTreeMap<PoolId, Announced>,
    /// Pools of which an announcement was taken back, and when the next may be made.
    rests: BTreeMap<PoolId, Mono>,
}

/// The two groups that are to become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    source: PgId,
    target: PgId,
}

impl Pair {
    /// The last group of a pool, and who takes it in. A pool of one group has none.
    fn of(id: PoolId, pool: &Pool) -> Option<Self> {
        let last = pool.pg_num.checked_sub(1).filter(|last| *last > 0)?;
        let target = hash::stable_mod(last, last, last.next_power_of_two() - 1);
        Some(Self { source: PgId::new(id, last), target: PgId::new(id, target) })
    }

    fn both(self) -> [PgId; 2] {
        [self.source, self.target]
    }

    /// Returns true if both lie on the same OSDs, as many as the pool wants and where they belong.
    fn lies_together(self, map: &OsdMap, pool: &Pool) -> bool {
        let (source, target) = (map.placed(self.source), map.placed(self.target));
        let all = target.acting.iter().filter(|osd| types::is_osd(**osd)).count() == usize::from(pool.size);
        source == target && target.up == target.acting && all
    }
}

/// Returns what the primary of a group says, if it still leads and that was true with this map or a newer one. OSDs
/// repeat nothing: what one has said of a group holds until it says something else.
fn told<'s>(state: &State, soft: &'s Soft, pg: PgId, since: Epoch) -> Option<&'s PgSoft> {
    let leads = |known: &&PgSoft| state.osdmap.placed(pg).acting_primary == known.osd && state.osdmap.is_up(known.osd);
    let seen = |osd| soft.osds.get(&osd).and_then(|known| known.report.as_ref()).map_or(0, |report| report.epoch);
    soft.pgs.get(&pg).filter(leads).filter(|known| known.report.reported.epoch.max(seen(known.osd)) >= since)
}

impl Merging {
    /// Takes notice of the newest map.
    fn follow(&mut self, map: &OsdMap, now: Mono) {
        let announces = |pool: &Pool| pool.pg_num_pending > 0 && pool.pg_num_pending < pool.pg_num;
        self.announced
            .retain(|id, known| map.pool(*id).is_some_and(|pool| announces(pool) && pool.pg_num_pending == known.pending));
        for (id, pool) in map.pools.iter().filter(|(_, pool)| announces(pool)) {
            let announced = Announced { pending: pool.pg_num_pending, epoch: pool.last_change, since: now };
            self.announced.entry(*id).or_insert(announced);
        }
        self.rests.retain(|_, until| *until > now);
    }

    /// Adds the next step of each pool that is to have fewer groups.
    pub fn step(&mut self, now: Now, state: &State, soft: &Soft, placements: &Placements, inc: &mut Incremental) {
        self.follow(&state.osdmap, now.mono);
        for (id, pool) in &state.osdmap.pools {
            let Some(pair) = Pair::of(*id, pool) else { continue };
            match self.announced.get(id).copied() {
                Some(announced) => self.conclude(now, state, soft, inc, (*id, pool), pair, announced),
                None if shrinks(pool) && !self.rests.contains_key(id) => {
                    begin(state, soft, placements.since(*id), inc, (*id, pool), pair);
                }
                None => {}
            }
        }
    }

    /// Returns true if groups that were announced are ready, so that the next step need not wait.
    pub fn is_due(&self, state: &State, soft: &Soft) -> bool {
        self.announced.iter().any(|(id, announced)| {
            let pair = state.osdmap.pool(*id).and_then(|pool| Pair::of(*id, pool));
            pair.is_some_and(|pair| pair.both().into_iter().all(|pg| is_ready(state, soft, pg, announced.epoch)))
        })
    }

    /// Merges two groups that are ready, or takes back that they are to be.
    #[allow(clippy::too_many_arguments)]
    fn conclude(
        &mut self,
        now: Now,
        state: &State,
        soft: &Soft,
        inc: &mut Incremental,
        (id, pool): (PoolId, &Pool),
        pair: Pair,
        announced: Announced,
    ) {
        let wanted = shrinks(pool) && announced.pending + 1 == pool.pg_num;
        let together = pair.lies_together(&state.osdmap, pool);
        let ready = pair.both().map(|pg| told(state, soft, pg, announced.epoch).filter(|known| shows_ready(known.report.state)));
        let epoch = inc.epoch;
        let edited = inc.new_pools.get(&id).cloned().unwrap_or_else(|| pool.clone());
        match ready {
            [Some(source), Some(target)] if wanted && together => {
                let merged = merge(edited, pair, epoch, source, target);
                inc.new_pools.insert(id, merged);
                drop_exceptions(&state.osdmap, inc, pair.source);
            }
            _ if wanted && together && now.mono.since(announced.since) < PATIENCE => {}
            _ => {
                let mut back = edited;
                announce(&mut back, pool.pg_num, epoch);
                inc.new_pools.insert(id, back);
                self.rests.insert(id, now.mono.plus(REST));
            }
        }
    }
}

/// Returns true if a state says that a group is ready to be merged.
fn shows_ready(state: PgState) -> bool {
    state.has(PgState::PREMERGE) && state.has(PgState::CLEAN)
}

fn is_ready(state: &State, soft: &Soft, pg: PgId, since: Epoch) -> bool {
    told(state, soft, pg, since).is_some_and(|known| shows_ready(known.report.state))
}

/// The pool after the merge of two groups that are ready.
fn merge(mut pool: Pool, pair: Pair, epoch: Epoch, source: &PgSoft, target: &PgSoft) -> Pool {
    let left = pool.pg_num - 1;
    announce(&mut pool, left, epoch);
    pool.pg_num = left;
    pool.pgp_num = pool.pgp_num.min(pool.pg_num);
    pool.last_pg_merge_meta = MergeMeta {
        source_pgid: pair.source,
        ready_epoch: epoch,
        last_epoch_started: target.report.last_epoch_clean,
        last_epoch_clean: target.report.last_epoch_clean,
        source_version: source.report.version,
        target_version: target.report.version,
    };
    pool
}

/// Takes the exceptions of a group that goes out of the map.
fn drop_exceptions(map: &OsdMap, inc: &mut Incremental, pg: PgId) {
    inc.new_pg_upmap.remove(&pg);
    inc.new_pg_upmap_items.remove(&pg);
    inc.old_pg_upmap.extend(map.pg_upmap.contains_key(&pg).then_some(pg));
    inc.old_pg_upmap_items.extend(map.pg_upmap_items.contains_key(&pg).then_some(pg));
    if map.pg_temp.contains_key(&pg) {
        inc.new_pg_temp.insert(pg, Vec::new());
    }
    if map.primary_temp.contains_key(&pg) {
        inc.new_primary_temp.insert(pg, -1);
    }
}

/// Announces that two groups are to be merged, if they may be. They are placed as they are since the map `placed`.
fn begin(state: &State, soft: &Soft, placed: Epoch, inc: &mut Incremental, (id, pool): (PoolId, &Pool), pair: Pair) {
    let map = &state.osdmap;
    let still = pool.pgp_num < pool.pg_num && pool.pgp_num == pool.pgp_num_target.min(pool.pg_num_target);
    let held = pool.has_flag(pool_flags::CREATING) || pool.has_flag(pool_flags::NOPGCHANGE);
    if !still || held || !map.level.has(Feature::Merges) || !all_follow(state, soft, placed) {
        return;
    }
    if copy_exceptions(map, inc, pair) {
        return;
    }
    let is_clean = |pg| {
        let known = told(state, soft, pg, placed);
        known.is_some_and(|known| known.report.state.has(PgState::ACTIVE) && known.report.state.has(PgState::CLEAN))
    };
    if pair.lies_together(map, pool) && pair.both().into_iter().all(is_clean) {
        let epoch = inc.epoch;
        let edited = inc.new_pools.entry(id).or_insert_with(|| pool.clone());
        announce(edited, pool.pg_num - 1, epoch);
    }
}

/// Gives the source the target's exceptions of placement. False if it has them.
fn copy_exceptions(map: &OsdMap, inc: &mut Incremental, pair: Pair) -> bool {
    let (whole, items) = (map.pg_upmap.get(&pair.target), map.pg_upmap_items.get(&pair.target));
    let same = (map.pg_upmap.get(&pair.source), map.pg_upmap_items.get(&pair.source)) == (whole, items);
    if same {
        return false;
    }
    match whole {
        Some(osds) => drop(inc.new_pg_upmap.insert(pair.source, osds.clone())),
        None => inc.old_pg_upmap.extend(map.pg_upmap.contains_key(&pair.source).then_some(pair.source)),
    }
    match items {
        Some(pairs) => drop(inc.new_pg_upmap_items.insert(pair.source, pairs.clone())),
        None => inc.old_pg_upmap_items.extend(map.pg_upmap_items.contains_key(&pair.source).then_some(pair.source)),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_group_goes_to_the_one_that_it_would_come_from() {
        let pair = |pg_num| Pair::of(1, &Pool { pg_num, ..Pool::default() }).map(|pair| (pair.source.seed, pair.target.seed));
        assert_eq!(
            [1, 2, 3, 4, 6, 8, 9].map(pair),
            [None, Some((1, 0)), Some((2, 0)), Some((3, 1)), Some((5, 1)), Some((7, 3)), Some((8, 0))]
        );
    }
}
