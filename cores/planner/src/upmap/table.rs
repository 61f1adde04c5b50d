//! Where the groups of a pool are, and how far each OSD is from its share.

use super::domains::Domains;
use super::targets::targets;
use maps::OsdMap;
use std::collections::BTreeMap;
use types::{OsdId, PgId, PoolId, is_osd};

/// One pool's groups.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// The OSDs of each group.
    pub(crate) groups: Vec<Vec<OsdId>>,
    /// Copies that an OSD holds above its share; below it if negative.
    pub(crate) above: BTreeMap<OsdId, f64>,
    /// Domains that the pool's rule keeps apart.
    pub(crate) domains: Domains,
    /// Groups by OSD.
    on: BTreeMap<OsdId, Vec<u32>>,
}

impl Table {
    /// The table of a pool. `home` gives the OSDs on which a group belongs.
    pub(crate) fn of(map: &OsdMap, pool: PoolId, home: impl Fn(PgId) -> Vec<OsdId>) -> Option<Self> {
        let settings = map.pool(pool)?;
        let rule = map.crush.find_rule(settings.crush_rule, settings.type_, settings.size)?;
        let domains = Domains::of(&map.crush, rule);
        let groups: Vec<Vec<OsdId>> = (0..settings.pg_num).map(|seed| home(PgId::new(pool, seed))).collect();
        let mut on: BTreeMap<OsdId, Vec<u32>> = BTreeMap::new();
        for (seed, osds) in (0..).zip(&groups) {
            osds.iter().filter(|osd| is_osd(**osd)).for_each(|osd| on.entry(*osd).or_default().push(seed));
        }
        let held: BTreeMap<OsdId, usize> = on.iter().map(|(osd, seeds)| (*osd, seeds.len())).collect();
        let mut above: BTreeMap<OsdId, f64> = held.iter().map(|(osd, n)| (*osd, *n as f64)).collect();
        for (osd, share) in targets(map, pool, &domains, &held, groups.len()) {
            *above.entry(osd).or_default() -= share;
        }
        Some(Self { groups, above, domains, on })
    }

    /// The groups on an OSD.
    pub(crate) fn on(&self, osd: OsdId) -> &[u32] {
        self.on.get(&osd).map_or(&[], |seeds| seeds)
    }

    /// Moves a copy.
    pub(crate) fn carry(&mut self, seed: u32, from: OsdId, to: OsdId) {
        let Some(at) = self.groups.get_mut(seed as usize).and_then(|group| group.iter_mut().find(|osd| **osd == from)) else {
            return;
        };
        *at = to;
        if let Some(seeds) = self.on.get_mut(&from) {
            seeds.retain(|other| *other != seed);
        }
        self.on.entry(to).or_default().push(seed);
        *self.above.entry(from).or_default() -= 1.0;
        *self.above.entry(to).or_default() += 1.0;
    }

    /// Replaces the OSDs of a group.
    pub(crate) fn put(&mut self, seed: u32, osds: &[OsdId]) {
        let old = self.groups.get(seed as usize).cloned().unwrap_or_default();
        let (gone, new) = (old.iter().filter(|o| !osds.contains(o)), osds.iter().filter(|o| !old.contains(o)));
        gone.zip(new).for_each(|(from, to)| self.carry(seed, *from, *to));
    }
}
