//! Keeps placement groups of one copy where their data is.
//!
//! A group of one copy is not moved to other OSDs yet, so a change of the map must not give it to an OSD that does not hold
//! it. Pools of more copies are left alone: their OSDs bring the data to where the map places it.
//! Each group has a *holder*: the OSD of its `pg_temp` entry, or else the one where CRUSH (with `pg_upmap`) puts it, up
//! or not. A change that would move a group's holder gets a `pg_temp` entry with the old one. A change that brings the
//! group home drops the entry. While the holder is down, clients are told the group's new place, but the OSD there has
//! no such group and serves nothing.
//!
//! Groups that a split makes have their parent's holder, and belong there if their parent does.
//! `docs/decisions/0002-size-one-stays-where-it-is.md` says why.

use maps::{Incremental, OsdMap};
use types::{OsdId, PgId, PoolId, hash};

/// Gives the OSD that holds a group's data. None if none ever could.
fn holder(map: &OsdMap, pg: PgId) -> Option<OsdId> {
    match map.pg_temp.get(&pg) {
        Some(pinned) => pinned.first().copied(),
        None => map.home(pg).first().copied(),
    }
}

/// Gives the group, of a pool with `pg_num` groups, from which group `seed` comes by splitting.
pub(crate) fn ancestor(seed: u32, pg_num: u32) -> u32 {
    hash::stable_mod(seed, pg_num, pg_num.next_power_of_two() - 1)
}

/// Adds to `change` the entries that keep each existing group with its holder. `base` is the map that it changes.
pub(crate) fn pin(base: &OsdMap, change: &mut Incremental) {
    let Ok(next) = base.apply(change) else { return };
    for (id, old) in &base.pools {
        let Some(new) = next.pools.get(id).filter(|new| old.size == 1 && new.size == 1 && old.pg_num > 0) else { continue };
        for seed in 0..new.pg_num {
            pin_group(base, &next, change, *id, seed, ancestor(seed, old.pg_num));
        }
    }
    for id in next.pools.keys().filter(|id| !base.pools.contains_key(id)) {
        crate::balance::spread(base, &next, change, *id, |pg| holder(base, pg));
    }
    place_newborn(base, change);
    drop_exceptions(base, &next, change);
    let gone = |pool: PoolId| !next.pools.contains_key(&pool);
    for pg in next.pg_temp.keys().filter(|pg| gone(pg.pool)) {
        change.new_pg_temp.insert(*pg, Vec::new());
    }
}

fn pin_group(base: &OsdMap, next: &OsdMap, change: &mut Incremental, pool: PoolId, seed: u32, ancestor: u32) {
    let (pg, parent) = (PgId::new(pool, seed), PgId::new(pool, ancestor));
    let Some(holder) = holder(base, parent) else { return };
    let home = next.home(pg).first() == Some(&holder);
    match (home, next.pg_temp.contains_key(&pg)) {
        (true, true) => drop(change.new_pg_temp.insert(pg, Vec::new())),
        (false, _) if seed != ancestor && stays_home(base, next, parent, holder) => adopt(next, change, pg, holder),
        (false, _) => drop(change.new_pg_temp.insert(pg, vec![holder])),
        (true, false) => {}
    }
}

/// Says whether a group is where it belongs, so that a group which splits off may stay there.
fn stays_home(base: &OsdMap, next: &OsdMap, parent: PgId, holder: OsdId) -> bool {
    base.home(parent).first() == Some(&holder) && next.is_up(holder) && next.is_in(holder)
}

/// Puts a group that splits off where its parent is. So a pool that is spread evenly stays so when its groups are
/// doubled.
fn adopt(next: &OsdMap, change: &mut Incremental, pg: PgId, holder: OsdId) {
    match next.raw_placement(pg).first() {
        Some(home) => drop(change.new_pg_upmap_items.insert(pg, vec![(*home, holder)])),
        None => drop(change.new_pg_temp.insert(pg, vec![holder])),
    }
}

/// Places a new group of one copy on an OSD that is up, when its own place is on one that is down. It stays there.
fn place_newborn(base: &OsdMap, change: &mut Incremental) {
    let Ok(next) = base.apply(change) else { return };
    let up: Vec<OsdId> = next.osds().filter(|osd| next.is_up(*osd) && next.is_in(*osd)).collect();
    for (id, pool) in next.pools.iter().filter(|(id, new)| new.size == 1 && !base.pools.contains_key(id)) {
        for pg in (0..pool.pg_num).map(|seed| PgId::new(*id, seed)) {
            if !up.is_empty() && next.placed(pg).acting_primary < 0 {
                change.new_pg_temp.insert(pg, vec![up[pg.seed as usize % up.len()]]);
            }
        }
    }
}

/// Drops exceptions that lead to an OSD which no longer exists.
fn drop_exceptions(base: &OsdMap, next: &OsdMap, change: &mut Incremental) {
    if next.osds().count() >= base.osds().count() {
        return;
    }
    let gone = |osd: &OsdId| base.exists(*osd) && !next.exists(*osd);
    let items = next.pg_upmap_items.iter().filter(|(_, pairs)| pairs.iter().any(|(_, to)| gone(to)));
    change.old_pg_upmap_items.extend(items.map(|(pg, _)| *pg));
    let whole = next.pg_upmap.iter().filter(|(_, osds)| osds.iter().any(gone));
    change.old_pg_upmap.extend(whole.map(|(pg, _)| *pg));
}

/// Says whether there is an OSD on which groups of a new pool can begin.
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
