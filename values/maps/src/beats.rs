//! Which OSDs an OSD sends heartbeats: those that share placement groups with it, and enough others.

use crate::OsdMap;
use std::collections::{BTreeMap, BTreeSet};
use types::{OsdId, PgId};

/// Most OSDs that are sent heartbeats, unless more share groups with the one that asks: without their answers nothing
/// could be read.
pub const MOST_PARTNERS: usize = 64;

impl OsdMap {
    /// Adds to those who share groups with `whoami` so many others that they are `least`, those first whose numbers
    /// follow its own. Only OSDs that are up.
    pub fn beat_partners(&self, whoami: OsdId, mut sharing: BTreeSet<OsdId>, least: usize) -> BTreeSet<OsdId> {
        sharing.retain(|osd| *osd != whoami && self.is_up(*osd));
        let ring = (whoami + 1..self.max_osd).chain(0..whoami.min(self.max_osd));
        let others: Vec<OsdId> = ring.filter(|osd| self.is_up(*osd) && !sharing.contains(osd)).collect();
        let wanted = least.min(MOST_PARTNERS).saturating_sub(sharing.len());
        sharing.extend(others.into_iter().take(wanted));
        sharing
    }

    /// The partners of every OSD that is up, by where the groups of all pools are now.
    pub fn all_beat_partners(&self, least: usize) -> BTreeMap<OsdId, BTreeSet<OsdId>> {
        let mut sharing: BTreeMap<OsdId, BTreeSet<OsdId>> = BTreeMap::new();
        let groups = self.pools.iter().flat_map(|(id, pool)| (0..pool.pg_num).map(|seed| PgId::new(*id, seed)));
        for pg in groups {
            let placed = self.placed(pg);
            let all: BTreeSet<OsdId> = placed.up.iter().chain(&placed.acting).copied().filter(|osd| self.is_up(*osd)).collect();
            all.iter().for_each(|osd| sharing.entry(*osd).or_default().extend(&all));
        }
        let up = self.osds().filter(|osd| self.is_up(*osd));
        up.map(|osd| (osd, self.beat_partners(osd, sharing.remove(&osd).unwrap_or_default(), least))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Incremental, Pool};
    use types::{EntityAddr, EntityAddrVec, Fsid, UTime};

    #[test]
    fn those_who_share_groups_are_partners_and_their_neighbours_until_they_are_enough() {
        let mut change = Incremental::new(1, Fsid::default(), UTime::ZERO);
        change.new_max_osd = 8;
        for osd in (0..8).filter(|osd| *osd != 2) {
            let at = EntityAddr::msgr2(([10, 0, 0, 1], 7000 + osd as u16).into(), 7);
            change.new_up_client.insert(osd, EntityAddrVec(vec![at]));
        }
        change.new_pools.insert(1, Pool { pg_num: 1, pgp_num: 1, size: 3, ..Pool::default() });
        change.new_pg_temp.insert(PgId::new(1, 0), vec![5, 6, 7]);
        let map = OsdMap::default().apply(&change).expect("a map");
        let all = map.all_beat_partners(3);
        let of = |osd: OsdId| all.get(&osd).map(|peers| peers.iter().copied().collect::<Vec<_>>());
        assert_eq!((of(5), of(0), of(2)), (Some(vec![0, 6, 7]), Some(vec![1, 3, 4]), None));
        assert_eq!(map.all_beat_partners(0)[&6].iter().copied().collect::<Vec<_>>(), [5, 7]);
    }
}
