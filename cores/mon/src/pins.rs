//! Keeps groups of one copy where their data is.
//!
//! Nothing copies data between OSDs in this stage, so a change of the map must not hand a group to an OSD that does not hold it. Each
//! group has a *holder*: the OSD in its `pg_temp` entry, or else the one where CRUSH (with `pg_upmap`) puts it, up or not. A change that would
//! move a group's holder gets a `pg_temp` entry that names the old one; one that brings the group home again drops the entry. While the
//! holder is down, the group's new place is told to clients, but that OSD has no such group and serves nothing.
//! Groups that a split makes have their parent's holder. Why: `docs/decisions/0002-size-one-stays-where-it-is.md`.

use maps::{Incremental, OsdMap};
use types::{OsdId, PgId, PoolId, hash};

/// Who holds a group's data; `None` if nobody could ever have.
fn holder(map: &OsdMap, pg: PgId) -> Option<OsdId> {
    match map.pg_temp.get(&pg) {
        Some(pinned) => pinned.first().copied(),
        None => map.home(pg).first().copied(),
    }
}

/// The group of a pool with `pg_num` groups from which group `seed` comes by splitting.
fn ancestor(seed: u32, pg_num: u32) -> u32 {
    hash::stable_mod(seed, pg_num, pg_num.next_power_of_two() - 1)
}

/// Adds to `change` what keeps every existing group with its holder. `base` is the map that it changes.
pub(crate) fn pin(base: &OsdMap, change: &mut Incremental) {
    let Ok(next) = base.apply(change) else { return };
    for (id, old) in &base.pools {
        let Some(new) = next.pools.get(id).filter(|new| new.size == 1 && old.pg_num > 0) else { continue };
        for seed in 0..new.pg_num {
            pin_group(base, &next, change, *id, seed, ancestor(seed, old.pg_num));
        }
    }
    for (id, new) in next.pools.iter().filter(|(id, _)| !base.pools.contains_key(id)) {
        place_newborn(&next, change, *id, new.pg_num);
    }
    let gone = |pool: PoolId| !next.pools.contains_key(&pool);
    for pg in next.pg_temp.keys().filter(|pg| gone(pg.pool)) {
        change.new_pg_temp.insert(*pg, Vec::new());
    }
}

fn pin_group(base: &OsdMap, next: &OsdMap, change: &mut Incremental, pool: PoolId, seed: u32, ancestor: u32) {
    let pg = PgId::new(pool, seed);
    let Some(holder) = holder(base, PgId::new(pool, ancestor)) else { return };
    let home = next.home(pg).first() == Some(&holder);
    match (home, next.pg_temp.contains_key(&pg)) {
        (true, true) => drop(change.new_pg_temp.insert(pg, Vec::new())),
        (false, _) => drop(change.new_pg_temp.insert(pg, vec![holder])),
        (true, false) => {}
    }
}

/// A new group whose place is on an OSD that is down now is born on one that is up, and stays there.
fn place_newborn(next: &OsdMap, change: &mut Incremental, pool: PoolId, pg_num: u32) {
    let up: Vec<OsdId> = next.osds().filter(|osd| next.is_up(*osd) && next.is_in(*osd)).collect();
    for pg in (0..pg_num).map(|seed| PgId::new(pool, seed)) {
        if !up.is_empty() && next.placed(pg).acting_primary < 0 {
            change.new_pg_temp.insert(pg, vec![up[pg.seed as usize % up.len()]]);
        }
    }
}

/// Whether there is an OSD on which groups of a new pool can be born.
pub(crate) fn can_bear_groups(map: &OsdMap) -> bool {
    map.osds().any(|osd| map.is_up(osd) && map.is_in(osd))
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
}
