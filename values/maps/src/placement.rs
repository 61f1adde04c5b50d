//! Where a group lives: CRUSH, exceptions by hand, who is up, who acts meanwhile.

use crate::placements::{MAX_GROUPS, NOWHERE, Slots, empty_slots};
use crate::{NO_OSD, OsdMap, Placements, Pool, UpActing};
use crush::{NONE, ONE, hash::hash2};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{OsdId, PgId, PoolId, ShardId, is_osd};

impl OsdMap {
    /// Drops remembered placements. To be called after editing fields of a map that was asked for placements.
    pub fn forget_placements(&mut self) {
        self.placements = Placements::default();
    }

    /// Returns who serves a group; computed at the first question, then remembered. Nobody serves groups that do not
    /// exist.
    #[inline]
    pub fn placed(&self, pg: PgId) -> &UpActing {
        let pools = self.placements.pools.get_or_init(|| Arc::new(self.no_answers()));
        match pools.get(&pg.pool).and_then(|slots| slots.get(pg.seed as usize)) {
            Some(known) => known.placed.get_or_init(|| {
                let crush = known.crush.get_or_init(|| self.crush_of(pg).into());
                Arc::new(self.place_by(pg, crush.to_vec()))
            }),
            None => &NOWHERE,
        }
    }

    /// Returns true if this map came from the other one by steps that left every group where it was. It may be so
    /// although this says no.
    pub fn places_as(&self, other: &OsdMap) -> bool {
        match (self.placements.pools.get(), other.placements.pools.get()) {
            (Some(own), Some(others)) => Arc::ptr_eq(own, others),
            _ => false,
        }
    }

    /// Returns which shard of a group its primary holds, which is its position: clients name it with the group. None in pools
    /// of copies, and of groups that nobody leads. Of a primary with two positions it is the first.
    pub fn leading_shard(&self, pg: PgId) -> ShardId {
        if self.pools.get(&pg.pool).is_none_or(|pool| !pool.is_erasure()) {
            return ShardId::NONE;
        }
        let placed = self.placed(pg);
        let led = |osd: &OsdId| is_osd(*osd) && *osd == placed.acting_primary;
        placed.acting.iter().position(led).map_or(ShardId::NONE, |at| ShardId(0).at(at))
    }

    /// As [`OsdMap::placed`], as a value of its own.
    pub fn up_acting(&self, pg: PgId) -> UpActing {
        self.placed(pg).clone()
    }

    fn no_answers(&self) -> BTreeMap<PoolId, Slots> {
        self.pools.iter().map(|(id, pool)| (*id, empty_slots(pool))).collect()
    }

    /// Returns who serves a group, without the cache.
    pub fn compute_up_acting(&self, pg: PgId) -> UpActing {
        self.place_by(pg, self.crush_of(pg))
    }

    /// Returns what CRUSH says of a group; nothing for those that do not exist.
    fn crush_of(&self, pg: PgId) -> Vec<OsdId> {
        let pool = self.pools.get(&pg.pool).filter(|pool| pg.seed < pool.pg_num.min(MAX_GROUPS));
        pool.map_or_else(Vec::new, |pool| self.crush_osds(pg.pool, pool, pool.placement_seed(pg.pool, pg.seed)))
    }

    /// Returns who serves a group for which CRUSH has chosen `up`.
    fn place_by(&self, pg: PgId, mut up: Vec<OsdId>) -> UpActing {
        let Some(pool) = self.pools.get(&pg.pool).filter(|pool| pg.seed < pool.pg_num.min(MAX_GROUPS)) else {
            return NOWHERE.clone();
        };
        let pps = pool.placement_seed(pg.pool, pg.seed);
        self.close_or_mark(pool, &mut up, |osd| self.exists(osd));
        self.apply_upmap(pg, &mut up);
        self.keep_up_only(pool, &mut up);
        let mut up_primary = first_real(&up);
        self.apply_primary_affinity(pps, pool, &mut up, &mut up_primary);
        let (temp, temp_primary) = self.temp_osds(pool, pg);
        let (acting, acting_primary) = if temp.is_empty() {
            (up.clone(), if temp_primary == NO_OSD { up_primary } else { temp_primary })
        } else {
            (temp, temp_primary)
        };
        UpActing { up, up_primary, acting, acting_primary }
    }

    /// Returns where CRUSH puts a group, before exceptions and whether up or not. OSDs that do not exist are left out.
    pub fn raw_placement(&self, pg: PgId) -> Vec<OsdId> {
        match self.pools.get(&pg.pool) {
            Some(pool) => self.raw_osds(pg.pool, pool, pool.placement_seed(pg.pool, pg.seed)),
            None => Vec::new(),
        }
    }

    /// Returns where a group belongs by CRUSH and the exceptions of `pg_upmap`, whether those OSDs are up or not.
    pub fn home(&self, pg: PgId) -> Vec<OsdId> {
        let mut osds = self.raw_placement(pg);
        self.apply_upmap(pg, &mut osds);
        osds
    }

    /// Returns where a group belongs by CRUSH and the pairs of `pg_upmap_items` alone: as if no set were named for it
    /// as a whole.
    pub fn home_by_pairs(&self, pg: PgId) -> Vec<OsdId> {
        let mut osds = self.raw_placement(pg);
        self.apply_pairs(pg, &mut osds);
        osds
    }

    /// Returns whether an OSD declines to lead a group, by its primary affinity. It leads it all the same if all others
    /// do, too.
    pub fn declines_to_lead(&self, pg: PgId, osd: OsdId) -> bool {
        let seed = self.pools.get(&pg.pool).map(|pool| pool.placement_seed(pg.pool, pg.seed));
        seed.is_some_and(|pps| self.declines(pps, osd))
    }

    fn declines(&self, pps: u32, osd: OsdId) -> bool {
        let affinity = self.primary_affinity(osd);
        affinity < ONE && hash2(pps, osd.cast_unsigned()) >> 16 >= affinity
    }

    fn raw_osds(&self, id: PoolId, pool: &Pool, pps: u32) -> Vec<OsdId> {
        let mut osds = self.crush_osds(id, pool, pps);
        self.close_or_mark(pool, &mut osds, |osd| self.exists(osd));
        osds
    }

    fn crush_osds(&self, id: PoolId, pool: &Pool, pps: u32) -> Vec<OsdId> {
        let rule = self.crush.find_rule(pool.crush_rule, pool.type_, pool.size);
        rule.map_or_else(Vec::new, |rule| self.crush.place(rule, pps, pool.size.into(), &self.osd_weight, Some(id)))
    }

    /// Takes out those that fail the test: replicated sets close up, others keep a hole.
    fn close_or_mark(&self, pool: &Pool, osds: &mut Vec<OsdId>, keep: impl Fn(OsdId) -> bool) {
        if pool.can_shift_osds() {
            osds.retain(|osd| keep(*osd));
        } else {
            osds.iter_mut().filter(|osd| !keep(**osd)).for_each(|osd| *osd = NONE);
        }
    }

    fn keep_up_only(&self, pool: &Pool, osds: &mut Vec<OsdId>) {
        self.close_or_mark(pool, osds, |osd| self.is_up(osd));
    }

    /// Returns true if an exception may not lead to `osd`, because it is marked out.
    fn is_out_target(&self, osd: OsdId) -> bool {
        osd != NONE && usize::try_from(osd).is_ok_and(|n| self.osd_weight.get(n) == Some(&0))
    }

    fn apply_upmap(&self, pg: PgId, osds: &mut Vec<OsdId>) {
        if let Some(by_hand) = self.pg_upmap.get(&pg) {
            if by_hand.iter().any(|osd| self.is_out_target(*osd)) {
                return;
            }
            osds.clone_from(by_hand);
        }
        self.apply_pairs(pg, osds);
    }

    fn apply_pairs(&self, pg: PgId, osds: &mut [OsdId]) {
        for (from, to) in self.pg_upmap_items.get(&pg).map_or(&[][..], |pairs| pairs) {
            // An OSD that is in the set already must not come in twice.
            if osds.contains(to) || self.is_out_target(*to) {
                continue;
            }
            if let Some(at) = osds.iter().position(|osd| osd == from) {
                osds[at] = *to;
            }
        }
    }

    /// Lets an unwilling first OSD pass leadership on.
    fn apply_primary_affinity(&self, pps: u32, pool: &Pool, osds: &mut [OsdId], primary: &mut OsdId) {
        if !osds.iter().any(|osd| *osd != NONE && self.primary_affinity(*osd) != ONE) {
            return;
        }
        let real = || osds.iter().enumerate().filter(|(_, osd)| **osd != NONE);
        // If all decline, the first is it after all.
        let Some((at, _)) = real().find(|(_, osd)| !self.declines(pps, **osd)).or_else(|| real().next()) else {
            return;
        };
        *primary = osds[at];
        if pool.can_shift_osds() {
            osds[..=at].rotate_right(1);
        }
    }

    /// Returns who acts instead, and who leads instead; empty and [`NO_OSD`] if nobody.
    fn temp_osds(&self, pool: &Pool, pg: PgId) -> (Vec<OsdId>, OsdId) {
        let mut osds = self.pg_temp.get(&pg).cloned().unwrap_or_default();
        self.keep_up_only(pool, &mut osds);
        let primary = self.primary_temp.get(&pg).copied().unwrap_or_else(|| first_real(&osds));
        (osds, primary)
    }
}

fn first_real(osds: &[OsdId]) -> OsdId {
    osds.iter().copied().find(|osd| *osd != NONE).unwrap_or(NO_OSD)
}
