//! Where groups of new pools begin.
//!
//! A pool of one copy begins evenly ([`one_copy`]), and on OSDs that are up: whose own place is down begins elsewhere,
//! with an entry in `pg_temp` that its primary drops when it has moved home. Pools of several copies begin evenly, too:
//! with what the balancer would change of them ([`crate::upmap`]), and are led evenly ([`crate::leaders`]).

mod one_copy;

use crate::leaders;
use crate::upmap::{self, Limits};
use maps::{Incremental, OsdMap};
use std::collections::BTreeSet;
use types::{OsdId, PgId, PoolId};

/// Gives the OSD that holds a group's data, or holds it first. None if none ever could.
fn holder(map: &OsdMap, pg: PgId) -> Option<OsdId> {
    match map.pg_temp.get(&pg) {
        Some(acting) => acting.first().copied(),
        None => map.home(pg).first().copied(),
    }
}

/// Adds to `change` the entries of the pools that are new in it. `base` is the map that it changes.
pub fn place(base: &OsdMap, change: &mut Incremental) {
    if change.new_pools.keys().all(|id| base.pools.contains_key(id)) {
        return;
    }
    let Ok(next) = base.apply(change) else { return };
    for id in next.pools.keys().filter(|id| !base.pools.contains_key(id)) {
        one_copy::spread(base, &next, change, *id, |pg| holder(base, pg));
        spread_copies(base, &next, change, *id);
    }
    spread_leaders(base, change);
    place_on_living(base, change);
}

/// Adds the exceptions with which a new pool of several copies is as even as it can be. `base` is the map before,
/// `next` has it.
fn spread_copies(base: &OsdMap, next: &OsdMap, change: &mut Incremental, pool: PoolId) {
    if next.pool(pool).is_none_or(|p| p.size < 2) {
        return;
    }
    let home = |pg: PgId| if pg.pool == pool { next.raw_placement(pg) } else { base.placed(pg).up.clone() };
    let moves = upmap::search(next, &BTreeSet::from([pool]), &Limits::new_pool(), home);
    upmap::apply(next, &moves, change);
}

/// Adds the orders with which new pools of several copies are led as evenly as can be.
fn spread_leaders(base: &OsdMap, change: &mut Incremental) {
    let Ok(next) = base.apply(change) else { return };
    let new = next.pools.iter().filter(|(id, pool)| pool.size > 1 && !base.pools.contains_key(id));
    let new: BTreeSet<PoolId> = new.map(|(id, _)| *id).collect();
    if !new.is_empty() {
        leaders::apply(&leaders::plan(&next, &new, &Limits::new_pool()), change);
    }
}

/// Places a new group of one copy on an OSD that is up, when its own place is on one that is down. A group whose rule
/// finds no OSD has no place, and gets none.
fn place_on_living(base: &OsdMap, change: &mut Incremental) {
    let Ok(next) = base.apply(change) else { return };
    let up: Vec<OsdId> = next.osds().filter(|osd| next.is_up(*osd) && next.is_in(*osd)).collect();
    for (id, pool) in next.pools.iter().filter(|(id, new)| new.size == 1 && !base.pools.contains_key(id)) {
        for pg in (0..pool.pg_num).map(|seed| PgId::new(*id, seed)) {
            if !up.is_empty() && !next.home(pg).is_empty() && next.placed(pg).acting_primary < 0 {
                change.new_pg_temp.insert(pg, vec![up[pg.seed as usize % up.len()]]);
            }
        }
    }
}
