//! What stays of the remembered placements when a map takes a step.
//!
//! A map with 32,768 groups takes some 50 ms to place all of them, and each step of the map asks for all. So a step
//! carries over what it leaves as it is ([`after`]): CRUSH's own answers as long as the CRUSH map and the weights hold,
//! and who serves a group as long as the step names neither the group nor an OSD that CRUSH or an exception has for it.

use crate::osdmap::slot;
use crate::placements::{Known, Slots, empty_slots};
use crate::{Incremental, OsdMap, Placements, Pool};
use crush::ONE;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use types::{OsdId, PgId, PoolId};

/// Parts of a step of the map that may place groups elsewhere.
struct Touched {
    /// By OSD: it goes up or down, in or out, comes or goes, or is more or less willing to lead.
    osds: Vec<bool>,
    /// By OSD: CRUSH took it whenever it met it, and does so no more.
    fallen: Vec<bool>,
    /// Groups that the step or an exception with such an OSD names.
    groups: BTreeSet<PgId>,
}

fn has(set: &[bool], osd: OsdId) -> bool {
    usize::try_from(osd).ok().and_then(|n| set.get(n)).copied().unwrap_or(false)
}

impl Touched {
    /// Returns what the step `inc` from `base` to `next` touches. None if CRUSH may choose anew for any group.
    fn by(base: &OsdMap, inc: &Incremental, next: &OsdMap) -> Option<Self> {
        let raised = |(osd, weight): (&OsdId, &u32)| base.weight(*osd) < ONE && base.weight(*osd) != *weight;
        if !inc.crush.is_empty() || !inc.fullmap.is_empty() || next.max_osd < base.max_osd || inc.new_weight.iter().any(raised) {
            return None;
        }
        let none = || vec![false; next.osd_state.len()];
        let mut touched = Self { osds: none(), fallen: none(), groups: BTreeSet::new() };
        let named = inc.new_state.keys().chain(inc.new_up_client.keys()).chain(inc.new_primary_affinity.keys());
        for osd in named.chain(inc.new_weight.keys()) {
            touched.osds[slot(*osd)] = true;
        }
        for (osd, _) in inc.new_weight.iter().filter(|(_, weight)| **weight < ONE) {
            touched.fallen[slot(*osd)] = true;
        }
        // An exception counts whose target is not in the map at all, and one whose target has weight 0 does not.
        for osd in base.max_osd.max(0)..next.max_osd {
            touched.osds[slot(osd)] = true;
        }
        touched.note_groups(inc, next);
        Some(touched)
    }

    fn note_groups(&mut self, inc: &Incremental, next: &OsdMap) {
        let groups = &mut self.groups;
        groups.extend(inc.new_pg_temp.keys().chain(inc.new_primary_temp.keys()));
        groups.extend(inc.new_pg_upmap.keys().chain(inc.new_pg_upmap_items.keys()));
        groups.extend(inc.old_pg_upmap.iter().chain(&inc.old_pg_upmap_items));
        let osds = &self.osds;
        let any = |list: &[OsdId]| list.iter().any(|osd| has(osds, *osd));
        groups.extend(next.pg_temp.iter().filter(|(_, list)| any(list)).map(|(pg, _)| *pg));
        groups.extend(next.primary_temp.iter().filter(|(_, osd)| has(osds, **osd)).map(|(pg, _)| *pg));
        groups.extend(next.pg_upmap.iter().filter(|(_, list)| any(list)).map(|(pg, _)| *pg));
        let pairs = next.pg_upmap_items.iter().filter(|(_, pairs)| pairs.iter().any(|(a, b)| any(&[*a, *b])));
        groups.extend(pairs.map(|(pg, _)| *pg));
    }

    fn is_fallen(&self, crush: &[OsdId]) -> bool {
        crush.iter().any(|osd| has(&self.fallen, *osd))
    }

    fn holds(&self, pg: PgId, crush: &[OsdId]) -> bool {
        !crush.iter().any(|osd| has(&self.osds, *osd)) && !self.groups.contains(&pg)
    }

    /// Returns true if CRUSH chooses as before for all groups that none of the fallen OSDs was chosen for. It does
    /// where each OSD that it meets and takes is part of the answer.
    fn leaves_others(&self, next: &OsdMap, pool: &Pool) -> bool {
        if !self.fallen.contains(&true) {
            return true;
        }
        let rule = next.crush.find_rule(pool.crush_rule, pool.type_, pool.size).and_then(|rule| next.crush.rule(rule));
        rule.is_none_or(crush::Rule::emits_all_it_takes)
    }

    /// Returns what is still known of a pool's groups.
    fn carry(&self, pool: PoolId, slots: &Slots) -> Slots {
        let at = |seed: usize| PgId::new(pool, u32::try_from(seed).expect("a group below the bound of groups"));
        // What is not known would be found out by one map for both.
        let all_hold = || slots.iter().enumerate().all(|(n, known)| known.crush.get().is_some_and(|c| self.holds(at(n), c)));
        if all_hold() {
            return Arc::clone(slots);
        }
        let carried = slots.iter().enumerate().map(|(n, known)| match known.crush.get() {
            Some(crush) if self.holds(at(n), crush) => Known {
                crush: Arc::clone(crush).into(),
                placed: known.placed.get().map_or_else(OnceLock::new, |p| Arc::clone(p).into()),
            },
            Some(crush) if !self.is_fallen(crush) => Known { crush: Arc::clone(crush).into(), placed: OnceLock::new() },
            _ => Known::default(),
        });
        carried.collect()
    }
}

/// Returns what of a pool decides where its groups are.
fn places(p: &Pool) -> (u8, u8, u8, u32, u32, u64) {
    (p.type_, p.size, p.crush_rule, p.pg_num, p.pgp_num, p.flags & 1)
}

impl Incremental {
    /// Returns true if every group of `base` stays where it is, in both sets.
    fn keeps_placement(&self, base: &OsdMap) -> bool {
        let same_pool = |(id, new): (&i64, &crate::Pool)| base.pools.get(id).is_some_and(|old| places(old) == places(new));
        self.crush.is_empty()
            && self.fullmap.is_empty()
            && self.new_max_osd < 0
            && self.old_pools.is_empty()
            && self.new_pools.iter().all(same_pool)
            && self.new_up_client.is_empty()
            && self.new_state.is_empty()
            && self.new_weight.is_empty()
            && self.new_primary_affinity.is_empty()
            && self.new_pg_temp.is_empty()
            && self.new_primary_temp.is_empty()
            && self.new_pg_upmap.is_empty()
            && self.old_pg_upmap.is_empty()
            && self.new_pg_upmap_items.is_empty()
            && self.old_pg_upmap_items.is_empty()
    }
}

/// Returns what is still known after the step `inc` from `base` to `next`.
pub(crate) fn after(base: &OsdMap, inc: &Incremental, next: &OsdMap) -> Placements {
    let Some(known) = base.placements.pools.get() else { return Placements::default() };
    if inc.keeps_placement(base) {
        return Placements { pools: Arc::clone(known).into() };
    }
    let Some(touched) = Touched::by(base, inc, next) else { return Placements::default() };
    let carried = |id: &PoolId, pool: &Pool| {
        let slots = known.get(id).filter(|_| base.pools.get(id).is_some_and(|old| places(old) == places(pool)))?;
        touched.leaves_others(next, pool).then(|| touched.carry(*id, slots))
    };
    let slots = |(id, pool): (&PoolId, &Pool)| (*id, carried(id, pool).unwrap_or_else(|| empty_slots(pool)));
    let pools: BTreeMap<PoolId, Slots> = next.pools.iter().map(slots).collect();
    Placements { pools: Arc::new(pools).into() }
}
