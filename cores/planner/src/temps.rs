//! Exceptions in the map that mean nothing any more, as each change of the map leaves them.
//!
//! Primaries wish for entries of `pg_temp` and drop them. What they can not drop themselves goes here: entries of groups that
//! are gone, whose OSDs are all down or one of which left the cluster, that say what the map says anyway, or that name more
//! OSDs than the pool has copies. Ceph's monitors do much the same. An entry of a pool of one copy stays while its OSD is down:
//! it says who has the data. Entries of `pg_upmap` that lead to an OSD which left go, too.

use maps::{Incremental, OsdMap, state};
use types::{HOLE, OsdId, PgId};

/// Adds to `change` the removal of the entries that the map after it does not need. `base` is the map that it changes.
pub fn clean(base: &OsdMap, change: &mut Incremental) {
    let untouched = change.new_pg_temp.is_empty() && change.new_primary_temp.is_empty();
    let leaves = change.new_state.iter().any(|(osd, flip)| base.state(*osd) & flip & state::EXISTS != 0);
    if untouched && !leaves && base.pg_temp.is_empty() && base.primary_temp.is_empty() {
        return;
    }
    let Ok(next) = base.apply(change) else { return };
    for (pg, osds) in next.pg_temp.iter().filter(|(pg, osds)| is_idle(&next, **pg, osds)) {
        debug_assert!(!osds.is_empty());
        change.new_pg_temp.insert(*pg, Vec::new());
    }
    for (pg, _) in next.primary_temp.iter().filter(|(pg, osd)| !has_group(&next, **pg) || !next.is_up(**osd)) {
        change.new_primary_temp.insert(*pg, -1);
    }
    if leaves {
        drop_upmaps(base, &next, change);
    }
    // What is not in the map need not be taken out of it.
    change.new_pg_temp.retain(|pg, osds| !osds.is_empty() || base.pg_temp.contains_key(pg));
    change.new_primary_temp.retain(|pg, osd| *osd != -1 || base.primary_temp.contains_key(pg));
}

/// Drops exceptions that lead to an OSD which no longer exists.
fn drop_upmaps(base: &OsdMap, next: &OsdMap, change: &mut Incremental) {
    let gone = |osd: &OsdId| base.exists(*osd) && !next.exists(*osd);
    let items = next.pg_upmap_items.iter().filter(|(_, pairs)| pairs.iter().any(|(_, to)| gone(to)));
    change.old_pg_upmap_items.extend(items.map(|(pg, _)| *pg));
    let whole = next.pg_upmap.iter().filter(|(_, osds)| osds.iter().any(gone));
    change.old_pg_upmap.extend(whole.map(|(pg, _)| *pg));
}

fn has_group(map: &OsdMap, pg: PgId) -> bool {
    map.pool(pg.pool).is_some_and(|pool| pg.seed < pool.pg_num)
}

/// Returns true if an entry changes nothing, or nothing that may be.
fn is_idle(map: &OsdMap, pg: PgId, osds: &[OsdId]) -> bool {
    let Some(pool) = map.pool(pg.pool).filter(|pool| pg.seed < pool.pg_num) else { return true };
    if osds.len() > usize::from(pool.size) {
        return true;
    }
    let up = osds.iter().any(|osd| *osd != HOLE && map.is_up(*osd));
    // Where places have positions, a hole stands for a place without an OSD, and one that left leaves the others theirs.
    let gone = pool.can_shift_osds() && osds.iter().any(|osd| !map.exists(*osd));
    gone || !up && pool.size > 1 || map.placed(pg).up == osds
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::{Pool, pool_type};

    /// OSDs 0 to 3, of which 3 left the cluster, and a pool of that type and three places.
    fn map(type_: u8) -> OsdMap {
        let mut map = OsdMap { epoch: 5, ..OsdMap::default() };
        map.set_max_osd(4);
        for osd in 0..3 {
            map.osd_state[osd] = state::EXISTS | if osd < 2 { state::UP } else { 0 };
        }
        map.pools.insert(1, Pool { type_, size: 3, min_size: 2, pg_num: 1, pgp_num: 1, ..Pool::default() });
        map
    }

    #[test]
    fn an_entry_with_a_hole_means_something_where_places_have_positions() {
        let idle = |type_, osds: &[OsdId]| is_idle(&map(type_), PgId::new(1, 0), osds);
        for (osds, copies, shards) in [
            (&[1, 0][..], false, false),
            (&[1, HOLE, 0], true, false),
            (&[3, 0, 1], true, false),
            (&[HOLE, 2, HOLE], true, true),
            (&[3, 2, HOLE], true, true),
            (&[0, 1, 2, 0], true, true),
        ] {
            assert_eq!((idle(pool_type::REPLICATED, osds), idle(pool_type::ERASURE, osds)), (copies, shards), "{osds:?}");
        }
    }
}
