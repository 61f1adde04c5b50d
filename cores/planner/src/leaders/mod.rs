//! Who leads groups: orders ([`crate::orders`]) with which each OSD leads its share of the groups that it holds.
//!
//! Clients read from a group's leader, and it does most of the work of writes. CRUSH draws lots for that place, too: of
//! 32 groups of three copies on three OSDs, one OSD led 18 and another 6.
//!
//! **The share.** Each group is shared among its members, by their primary affinity; equally if all have none. An OSD
//! that holds twice as many groups leads twice as many.
//!
//! **Who may lead**: a member that does not decline by its primary affinity ([`OsdMap::declines_to_lead`]); if all
//! decline, each. So an OSD never leads a group that it would not lead without orders because of its affinity.
//!
//! **A step** takes one group from an OSD that leads more than its share and gives one to an OSD that leads less, if
//! the difference is more than one group. Where they share no group it goes over others: each of them gives one away
//! and gets one. When no OSD is further than the allowed deviation from its share of a pool, steps that make the sum
//! over all pools evener follow, as long as each pool stays within the deviation.
//!
//! **It ends**, for the same reason as moves of copies do: the first kind of step lowers what pools are charged for
//! OSDs beyond the deviation, the second leaves it and lowers the sum of squares over all. **It does not fight** with
//! moves of copies: those go by sets of OSDs, which orders do not change; and leaders are looked at when copies are at
//! rest.
//!
//! Each group whose leader changes peers anew, so a step prefers groups whose order goes, then those whose order
//! changes.
//!
//! Groups that have an exception in `pg_temp` or `primary_temp`, an entry of `pg_upmap` that is no order, or members
//! that are down, stay as they are, and count.

use crate::orders::is_order;
use crate::upmap::Limits;
use maps::{Incremental, OsdMap};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::level::Feature;
use types::{OsdId, PgId, PoolId};

/// Changes of orders: the new one of each group; none to remove it.
pub type Orders = BTreeMap<PgId, Option<Vec<OsdId>>>;

/// Differences below this are none.
const EPSILON: f64 = 1e-6;

/// Finds orders for some pools of a map; none below the level of [`Feature::LeaderOrders`].
pub fn plan(map: &OsdMap, pools: &BTreeSet<PoolId>, limits: &Limits) -> Orders {
    if !map.level.has(Feature::LeaderOrders) {
        return Orders::new();
    }
    let tables = map.pools.keys().filter_map(|id| Some((*id, Table::of(map, *id)?))).collect();
    let mut search = Search::new(map, pools, limits, tables);
    search.balance();
    search.orders
}

/// Adds changes to an increment.
pub fn apply(orders: &Orders, inc: &mut Incremental) {
    for (pg, order) in orders {
        match order {
            None => drop(inc.old_pg_upmap.insert(*pg)),
            Some(osds) => drop(inc.new_pg_upmap.insert(*pg, osds.clone())),
        }
    }
}

/// A group.
#[derive(Clone, Debug)]
struct Group {
    leader: OsdId,
    /// Members that may lead it; the leader alone if it stays as it is.
    willing: Vec<OsdId>,
}

/// One pool's groups.
#[derive(Clone, Debug)]
struct Table {
    groups: Vec<Group>,
    /// Groups that an OSD leads above its share; below it if negative.
    above: BTreeMap<OsdId, f64>,
    /// Groups by leader.
    led: BTreeMap<OsdId, Vec<u32>>,
}

/// Returns whether a group may get an order.
fn is_free(map: &OsdMap, pg: PgId, size: usize, up: &[OsdId]) -> bool {
    let temporary = map.pg_temp.contains_key(&pg) || map.primary_temp.contains_key(&pg);
    let whole = || up.len() == size || up.len() == map.home_by_pairs(pg).len();
    !temporary && (!map.pg_upmap.contains_key(&pg) || is_order(map, pg)) && whole()
}

impl Table {
    /// The table of a pool; none if the order of its groups' OSDs means more than who leads.
    fn of(map: &OsdMap, pool: PoolId) -> Option<Self> {
        let settings = map.pool(pool).filter(|p| p.can_shift_osds())?;
        let size = usize::from(settings.size);
        let mut table = Self { groups: Vec::new(), above: BTreeMap::new(), led: BTreeMap::new() };
        for pg in (0..settings.pg_num).map(|seed| PgId::new(pool, seed)) {
            let (up, leader) = (&map.placed(pg).up, map.placed(pg).acting_primary);
            let affinity = |osd: &OsdId| f64::from(map.primary_affinity(*osd));
            let sum: f64 = up.iter().map(affinity).sum();
            for osd in up {
                let share = if sum > 0.0 { affinity(osd) / sum } else { 1.0 / up.len() as f64 };
                *table.above.entry(*osd).or_default() -= share;
            }
            let mut willing = vec![leader];
            if leader >= 0 {
                *table.above.entry(leader).or_default() += 1.0;
                table.led.entry(leader).or_default().push(pg.seed);
            }
            if up.len() > 1 && up.contains(&leader) && is_free(map, pg, size, up) {
                willing = up.iter().filter(|osd| !map.declines_to_lead(pg, **osd)).copied().collect();
                if willing.is_empty() {
                    willing.clone_from(up);
                }
            }
            table.groups.push(Group { leader, willing });
        }
        Some(table)
    }

    fn group(&self, seed: u32) -> Option<&Group> {
        self.groups.get(seed as usize)
    }

    fn led(&self, osd: OsdId) -> &[u32] {
        self.led.get(&osd).map_or(&[], |seeds| seeds)
    }

    /// Gives a group to another leader.
    fn give(&mut self, seed: u32, to: OsdId) {
        let Some(group) = self.groups.get_mut(seed as usize) else { return };
        let from = std::mem::replace(&mut group.leader, to);
        if let Some(seeds) = self.led.get_mut(&from) {
            seeds.retain(|other| *other != seed);
        }
        self.led.entry(to).or_default().push(seed);
        *self.above.entry(from).or_default() -= 1.0;
        *self.above.entry(to).or_default() += 1.0;
    }
}

/// From whom each OSD can get a group when one gives one away, over others.
type Ways = BTreeMap<OsdId, OsdId>;

/// The OSDs from one that gives to one that gets, in this order.
fn way(ways: &Ways, from: OsdId, to: OsdId) -> Vec<OsdId> {
    let mut way = vec![to];
    while let Some(before) = way.last().filter(|osd| **osd != from).and_then(|osd| ways.get(osd)) {
        way.push(*before);
    }
    way.reverse();
    way
}

/// OSDs by how much they lead above their share, most first.
fn ranked(above: &BTreeMap<OsdId, f64>) -> Vec<(f64, OsdId)> {
    let mut all: Vec<(f64, OsdId)> = above.iter().map(|(osd, above)| (*above, *osd)).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    all
}

/// A search under way.
struct Search<'a> {
    map: &'a OsdMap,
    limits: &'a Limits,
    tables: BTreeMap<PoolId, Table>,
    /// The pools that may change, the one whose turn it is first.
    pools: Vec<PoolId>,
    /// Groups of all pools that an OSD leads above its share.
    above: BTreeMap<OsdId, f64>,
    /// Groups that were looked at.
    looks: Cell<usize>,
    orders: Orders,
}

impl<'a> Search<'a> {
    fn new(map: &'a OsdMap, pools: &BTreeSet<PoolId>, limits: &'a Limits, tables: BTreeMap<PoolId, Table>) -> Self {
        let settled = |id: &&PoolId| map.pool(**id).is_some_and(|p| p.pg_num == p.pg_num_target);
        let mut pools: Vec<PoolId> = pools.iter().filter(settled).copied().filter(|id| tables.contains_key(id)).collect();
        let first = limits.turn % pools.len().max(1);
        pools.rotate_left(first);
        let mut above: BTreeMap<OsdId, f64> = BTreeMap::new();
        for (osd, more) in tables.values().flat_map(|t| &t.above) {
            *above.entry(*osd).or_default() += more;
        }
        Self { map, limits, tables, pools, above, looks: Cell::new(0), orders: Orders::new() }
    }

    fn room(&self) -> usize {
        let over = self.looks.get() >= self.limits.looks;
        if over { 0 } else { self.limits.moves.saturating_sub(self.orders.len()) }
    }

    /// Makes steps, one for each pool in turn, then for all together.
    fn balance(&mut self) {
        let mut waiting = self.pools.clone();
        while !waiting.is_empty() && self.room() > 0 {
            waiting.retain(|pool| self.room() > 0 && self.step(*pool));
        }
        while self.room() > 0 && waiting.is_empty() && self.step_of_all() {}
    }

    /// Makes a step in a pool. Returns whether there was one.
    fn step(&mut self, pool: PoolId) -> bool {
        let Some(table) = self.tables.get(&pool) else { return false };
        let found = self.first(&table.above, &[pool], |_, _, _| true);
        self.make(found)
    }

    /// Makes a step that makes the sum over all pools evener, and no pool more uneven than it may be.
    fn step_of_all(&mut self) -> bool {
        let most = self.limits.deviation + EPSILON;
        let found = self.first(&self.above, &self.pools, |pool, from, to| {
            let above = |osd: OsdId| self.tables.get(&pool).and_then(|t| t.above.get(&osd).copied());
            let (Some(a), Some(b)) = (above(from), above(to)) else { return false };
            // Within the deviation, or only an exchange of the difference.
            a - 1.0 >= -most && b + 1.0 <= most || a - b >= 1.0 - EPSILON
        });
        self.make(found)
    }

    /// Finds the way of a step: between OSDs whose difference is more than one group, one of them off its share by more
    /// than may be; the OSD that leads most above its share first.
    fn first(
        &self,
        above: &BTreeMap<OsdId, f64>,
        pools: &[PoolId],
        fits: impl Fn(PoolId, OsdId, OsdId) -> bool,
    ) -> Option<(PoolId, Vec<OsdId>)> {
        let order = ranked(above);
        let least = order.last()?.0;
        for (more, from) in &order {
            if more - least <= 1.0 + EPSILON {
                break;
            }
            let off = |less: f64| *more > self.limits.deviation + EPSILON || less < -self.limits.deviation - EPSILON;
            for pool in pools {
                let ends = || order.iter().rev().take_while(|(less, _)| more - less > 1.0 + EPSILON && off(*less));
                if !ends().any(|(_, to)| fits(*pool, *from, *to)) {
                    continue;
                }
                // Most find somebody at once. The ways over others lead everywhere, so they are looked for when nothing else is left.
                for far in [false, true] {
                    let ways = self.ways(*pool, *from, far);
                    let found = ends().filter(|(_, to)| ways.contains_key(to) && fits(*pool, *from, *to));
                    let mut found = found.map(|(_, to)| way(&ways, *from, *to));
                    if let Some(way) = found.find(|way| way.len() - 1 <= self.room()) {
                        return Some((*pool, way));
                    }
                }
            }
        }
        None
    }

    /// The shortest ways on which an OSD can give a group of a pool away; over others only if `far`.
    fn ways(&self, pool: PoolId, from: OsdId, far: bool) -> Ways {
        let (mut ways, mut next) = (Ways::new(), VecDeque::from([from]));
        let Some(table) = self.tables.get(&pool) else { return ways };
        while let Some(osd) = next.pop_front().filter(|_| self.looks.get() < self.limits.looks) {
            for group in table.led(osd).iter().filter_map(|seed| table.group(*seed)) {
                self.looks.set(self.looks.get() + 1);
                for to in group.willing.iter().filter(|to| **to != from) {
                    ways.entry(*to).or_insert_with(|| {
                        next.extend(far.then_some(*to));
                        osd
                    });
                }
            }
        }
        ways
    }

    /// Carries a step out. Returns whether there was one.
    fn make(&mut self, found: Option<(PoolId, Vec<OsdId>)>) -> bool {
        let Some((pool, way)) = found else { return false };
        let pairs: Vec<(OsdId, OsdId)> = way.iter().copied().zip(way.iter().skip(1).copied()).collect();
        let groups: Option<Vec<(u32, OsdId)>> =
            pairs.iter().map(|(from, to)| Some((self.least_change(pool, *from, *to)?, *to))).collect();
        let Some(groups) = groups else { return false };
        for (seed, to) in groups {
            self.decide(PgId::new(pool, seed), to);
            if let Some(table) = self.tables.get_mut(&pool) {
                table.give(seed, to);
            }
        }
        if let (Some(from), Some(to)) = (way.first(), way.last()) {
            *self.above.entry(*from).or_default() -= 1.0;
            *self.above.entry(*to).or_default() += 1.0;
        }
        true
    }

    /// The group for which it is the least change that `to` leads instead of `from`.
    fn least_change(&self, pool: PoolId, from: OsdId, to: OsdId) -> Option<u32> {
        let table = self.tables.get(&pool)?;
        let may = |seed: &&u32| table.group(**seed).is_some_and(|group| group.willing.contains(&to));
        let rank = |seed: &u32| {
            let pg = PgId::new(pool, *seed);
            // A group that this plan changes already before others; then an order that goes, one that changes, a new one.
            let (decided, present) = (self.orders.contains_key(&pg), self.map.pg_upmap.contains_key(&pg));
            let goes = (decided || present) && self.order_for(pg, to).is_none();
            (!decided, !goes, !present, *seed)
        };
        table.led(from).iter().filter(may).map(rank).min().map(|(.., seed)| seed)
    }

    /// The order with which an OSD leads a group; none if it leads without.
    fn order_for(&self, pg: PgId, leader: OsdId) -> Option<Vec<OsdId>> {
        let home = self.map.home_by_pairs(pg);
        let leads = home.iter().find(|osd| !self.map.declines_to_lead(pg, **osd)).or(home.first()).copied();
        if leads == Some(leader) {
            return None;
        }
        let others = home.into_iter().filter(|osd| *osd != leader);
        Some(std::iter::once(leader).chain(others).collect())
    }

    /// Keeps a group's order. Who leads it already needs no other one.
    fn decide(&mut self, pg: PgId, leader: OsdId) {
        match self.map.placed(pg).acting_primary == leader {
            true => drop(self.orders.remove(&pg)),
            false => drop(self.orders.insert(pg, self.order_for(pg, leader))),
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
