//! Orders: entries of `pg_upmap` that name the OSDs on which a group is anyway, in another order.
//!
//! The first of a group's OSDs leads it, so an order says who leads, and moves no data. All clients that know
//! `pg_upmap_items` know it, too.
//!
//! **An order says nothing of where copies are.** An entry of `pg_upmap` hides what CRUSH and the pairs of
//! `pg_upmap_items` say. So an order goes with the change of the map after which CRUSH and the pairs name other OSDs
//! ([`release`]): the group is then where it would be if there had never been one. Pairs of a group with an order stay;
//! they mean something again when it goes.
//!
//! An entry by hand that names the same set is an order like any other. One that names another set is not touched.

use maps::{Incremental, OsdMap, Pool, state};
use types::{OsdId, PgId};

fn sorted(mut osds: Vec<OsdId>) -> Vec<OsdId> {
    osds.sort_unstable();
    osds
}

/// Returns whether a group's entry of `pg_upmap` is an order. False if it has none.
pub(crate) fn is_order(map: &OsdMap, pg: PgId) -> bool {
    let Some(named) = map.pg_upmap.get(&pg).filter(|_| map.pool(pg.pool).is_some_and(Pool::can_shift_osds)) else {
        return false;
    };
    let home = sorted(map.home_by_pairs(pg));
    // Pairs count on top of the entry. Those of another set than CRUSH's could lead elsewhere.
    sorted(named.clone()) == home && sorted(map.home(pg)) == home
}

/// Returns what of a pool decides where its groups are.
fn shape(pool: &Pool) -> (u8, u8, u8, u32, u32, u64) {
    (pool.type_, pool.size, pool.crush_rule, pool.pg_num, pool.pgp_num, pool.flags)
}

/// Returns whether CRUSH may choose other OSDs for any group after a change.
fn may_shift(base: &OsdMap, change: &Incremental) -> bool {
    let reshaped = |(id, new): (&types::PoolId, &Pool)| base.pool(*id).is_some_and(|old| shape(old) != shape(new));
    !change.crush.is_empty()
        || !change.fullmap.is_empty()
        || !change.new_weight.is_empty()
        || change.new_max_osd >= 0
        || change.new_state.values().any(|flip| flip & state::EXISTS != 0)
        || change.new_up_client.keys().any(|osd| !base.exists(*osd))
        || change.new_pools.iter().any(reshaped)
}

/// Adds to `change` the removal of the orders that are none after it. `base` is the map that it changes.
pub fn release(base: &OsdMap, change: &mut Incremental) {
    if base.pg_upmap.is_empty() {
        return;
    }
    let all = may_shift(base, change);
    let named = |pg: &PgId| change.new_pg_upmap_items.contains_key(pg) || change.old_pg_upmap_items.contains(pg);
    let decided = |pg: &PgId| change.new_pg_upmap.contains_key(pg) || change.old_pg_upmap.contains(pg);
    let asked = base.pg_upmap.keys().filter(|pg| (all || named(pg)) && !decided(pg) && is_order(base, **pg));
    let asked: Vec<PgId> = asked.copied().collect();
    if asked.is_empty() {
        return;
    }
    let Ok(next) = base.apply(change) else { return };
    change.old_pg_upmap.extend(asked.into_iter().filter(|pg| next.pg_upmap.contains_key(pg) && !is_order(&next, *pg)));
}
