//! Groups that become one: what a map says of it.

use maps::{OsdMap, Pool};
use types::{Epoch, PgId, hash};

/// Returns true if a pool has more groups than it is to have.
pub fn shrinks(pool: &Pool) -> bool {
    (1..pool.pg_num).contains(&pool.pg_num_target)
}

/// The group that took another one of its pool in last.
pub fn merged_into(pool: &Pool) -> Option<PgId> {
    let PgId { pool, seed: source } = pool.last_pg_merge_meta.source_pgid;
    (source > 0).then(|| PgId::new(pool, hash::stable_mod(source, source, source.next_power_of_two() - 1)))
}

/// Returns true if the reports of a group may be of before it took another one in.
pub fn is_outdated(map: &OsdMap, pg: PgId, reported: Epoch) -> bool {
    map.pool(pg.pool).is_some_and(|pool| merged_into(pool) == Some(pg) && reported < pool.last_pg_merge_meta.ready_epoch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::MergeMeta;

    #[test]
    fn what_was_told_before_a_merge_is_outdated_for_the_target_only() {
        let last_pg_merge_meta = MergeMeta { source_pgid: PgId::new(1, 7), ready_epoch: 20, ..MergeMeta::default() };
        let mut map = OsdMap::default();
        map.pools.insert(1, Pool { pg_num: 7, last_pg_merge_meta, ..Pool::default() });
        assert!(is_outdated(&map, PgId::new(1, 3), 19));
        assert!(!is_outdated(&map, PgId::new(1, 3), 20) && !is_outdated(&map, PgId::new(1, 2), 19));
    }
}
