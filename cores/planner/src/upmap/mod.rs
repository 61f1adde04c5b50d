//! Moves of single copies by `pg_upmap_items`, so that each OSD holds its share of each pool, and of all.
//!
//! An OSD's share goes by its weight ([`targets`]). Copies stay as far apart as the pool's rule keeps them
//! ([`domains`]).
//!
//! A copy goes from an OSD that holds more than its share to one that holds less, if the difference is more than one
//! copy: so each move makes the pool evener. When no pool has an OSD that is further than the allowed deviation from
//! its share, moves that make the sum over all pools evener follow, as long as each pool stays within the deviation.
//!
//! Where an OSD is further than one copy from its share, and no group lets a copy go straight, two copies go: one to a
//! third OSD, and another one from there. The third holds as many as before. For the sum over all pools the two may be
//! of two pools.
//!
//! **It ends.** Let each pool be charged the square of what its OSDs deviate beyond the allowed. A move of the first
//! kind, or two over a third OSD, lower the charge, one of the second kind leaves it at that and lowers the sum of
//! squares of all.
//!
//! **The least change**: a move that takes back an exception is preferred, then one that changes one, then one that
//! adds one. Exceptions without effect, and those that break the rule, are removed.
//!
//! A group with an order ([`crate::orders`]) is moved like any other; the order goes. One with another entry of
//! `pg_upmap` is not.

mod domains;
mod table;
mod targets;

use crate::orders::is_order;
use maps::{Incremental, OsdMap};
use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};
use table::Table;
use types::{OsdId, PgId, PoolId};

/// Pairs (from, to) that replace OSDs of a group.
pub type Pairs = Vec<(OsdId, OsdId)>;

/// Changes of exceptions: the new pairs of each group; none to remove them.
pub type Moves = BTreeMap<PgId, Pairs>;

/// Differences below this are none.
const EPSILON: f64 = 1e-6;

/// Bounds of a round.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Groups that are changed at most.
    pub moves: usize,
    /// Copies that an OSD may be away from its share.
    pub deviation: f64,
    /// Groups that are looked at most, in all.
    pub looks: usize,
    /// Exceptions that are checked for an effect at most.
    pub checks: usize,
    /// Number of rounds before: pools, and exceptions, take turns.
    pub turn: usize,
}

impl Limits {
    /// Those of a round beside other work.
    pub fn round(turn: usize) -> Self {
        Self { moves: 10, deviation: 1.0, looks: 200_000, checks: 512, turn }
    }

    /// Those of a new pool, which is spread at once.
    pub fn new_pool() -> Self {
        Self { moves: usize::MAX, deviation: 0.0, looks: 4_000_000, checks: 0, turn: 0 }
    }
}

/// Finds moves for some pools of a map. Where groups are is where the map places them.
pub fn plan(map: &OsdMap, pools: &BTreeSet<PoolId>, limits: &Limits) -> Moves {
    search(map, pools, limits, |pg| map.placed(pg).up.clone())
}

/// The same, with somebody else's knowledge where groups are.
pub(crate) fn search(map: &OsdMap, pools: &BTreeSet<PoolId>, limits: &Limits, home: impl Fn(PgId) -> Vec<OsdId>) -> Moves {
    let tables = map.pools.keys().filter_map(|id| Some((*id, Table::of(map, *id, &home)?))).collect();
    let mut search = Search::new(map, pools, limits, tables);
    search.tidy();
    search.balance();
    search.moves
}

/// Adds changes to an increment of a map. Orders of the groups go.
pub fn apply(map: &OsdMap, moves: &Moves, inc: &mut Incremental) {
    for (pg, pairs) in moves {
        inc.old_pg_upmap.extend(is_order(map, *pg).then_some(*pg));
        match pairs.is_empty() {
            true => drop(inc.old_pg_upmap_items.insert(*pg)),
            false => drop(inc.new_pg_upmap_items.insert(*pg, pairs.clone())),
        }
    }
}

/// A search under way.
struct Search<'a> {
    map: &'a OsdMap,
    limits: &'a Limits,
    tables: BTreeMap<PoolId, Table>,
    /// The pools that may change, the one whose turn it is first.
    pools: Vec<PoolId>,
    /// Copies of all pools that an OSD holds above its share.
    above: BTreeMap<OsdId, f64>,
    /// Groups that were looked at.
    looks: Cell<usize>,
    /// Groups that are where somebody wants them; found out when it is asked.
    pinned: OnceCell<BTreeSet<PgId>>,
    moves: Moves,
}

/// A move: the group's new pairs, and where the copy goes.
struct Step {
    pg: PgId,
    pairs: Pairs,
    from: OsdId,
    to: OsdId,
}

/// OSDs by how much they hold above their share, most first.
fn order(above: &BTreeMap<OsdId, f64>) -> Vec<(f64, OsdId)> {
    let mut order: Vec<(f64, OsdId)> = above.iter().map(|(osd, above)| (*above, *osd)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    order
}

impl<'a> Search<'a> {
    fn new(map: &'a OsdMap, pools: &BTreeSet<PoolId>, limits: &'a Limits, tables: BTreeMap<PoolId, Table>) -> Self {
        let settled = |id: &&PoolId| map.pool(**id).is_some_and(|p| p.can_shift_osds() && p.pg_num == p.pg_num_target);
        let mut pools: Vec<PoolId> = pools.iter().filter(settled).copied().filter(|id| tables.contains_key(id)).collect();
        let first = limits.turn % pools.len().max(1);
        pools.rotate_left(first);
        let mut above: BTreeMap<OsdId, f64> = BTreeMap::new();
        for (osd, more) in tables.values().flat_map(|t| &t.above) {
            *above.entry(*osd).or_default() += more;
        }
        Self { map, limits, tables, pools, above, looks: Cell::new(0), pinned: OnceCell::new(), moves: Moves::new() }
    }

    fn is_over(&self) -> bool {
        self.moves.len() >= self.limits.moves || self.looks.get() >= self.limits.looks
    }

    /// Makes moves, one for each pool in turn, then for all together.
    fn balance(&mut self) {
        let mut waiting = self.pools.clone();
        while !waiting.is_empty() && !self.is_over() {
            waiting.retain(|pool| !self.is_over() && self.step(*pool));
        }
        while !self.is_over() && waiting.is_empty() && self.step_of_all() {}
    }

    /// Makes a move in a pool. Returns whether there was one.
    fn step(&mut self, pool: PoolId) -> bool {
        let Some(table) = self.tables.get(&pool) else { return false };
        let found = first(&table.above, self.limits.deviation, |from, to| self.find(pool, from, to));
        if self.make(found) {
            return true;
        }
        let Some(table) = self.tables.get(&pool) else { return false };
        let found = first(&table.above, self.far(), |from, to| self.find_over_a_third(pool, from, to));
        self.make_both(found)
    }

    /// Returns how far OSDs are at least from their share for which two moves are made.
    fn far(&self) -> f64 {
        self.limits.deviation.max(1.0)
    }

    /// Finds two groups of a pool by which a copy goes over a third OSD.
    fn find_over_a_third(&self, pool: PoolId, from: OsdId, to: OsdId) -> Option<[Step; 2]> {
        let thirds = self.tables.get(&pool).filter(|_| self.moves.len() + 2 <= self.limits.moves)?.above.keys();
        thirds.filter(|third| **third != from && **third != to).find_map(|third| {
            // The group that goes to the third is not on it yet, so the other one is another.
            let there = self.find(pool, from, *third)?;
            Some([there, self.find(pool, *third, to)?])
        })
    }

    fn make_both(&mut self, found: Option<[Step; 2]>) -> bool {
        found.is_some_and(|steps| steps.into_iter().all(|step| self.make(Some(step))))
    }

    /// Makes a move that makes the sum over all pools evener, and no pool more uneven than it may be.
    fn step_of_all(&mut self) -> bool {
        let most = self.limits.deviation + EPSILON;
        let fits = |pool: &PoolId, from: OsdId, to: OsdId| {
            let above = |osd: OsdId| self.tables.get(pool).and_then(|t| t.above.get(&osd).copied());
            let (Some(a), Some(b)) = (above(from), above(to)) else { return false };
            // Within the deviation, or only an exchange of the difference.
            a - 1.0 >= -most && b + 1.0 <= most || a - b >= 1.0 - EPSILON
        };
        let found = first(&self.above, self.limits.deviation, |from, to| {
            self.pools.iter().filter(|pool| fits(pool, from, to)).find_map(|pool| self.find(*pool, from, to))
        });
        if let Some(step) = found {
            return self.make(Some(step));
        }
        let found = first(&self.above, self.far(), |from, to| {
            let in_one = || self.pools.iter().filter(|p| fits(p, from, to)).find_map(|p| self.find_over_a_third(*p, from, to));
            in_one().or_else(|| self.find_by_two_pools(from, to, fits))
        });
        self.make_both(found)
    }

    /// Finds a group of one pool by which a copy goes to a third OSD, and a group of another pool by which one goes on
    /// from there.
    fn find_by_two_pools(&self, from: OsdId, to: OsdId, fits: impl Fn(&PoolId, OsdId, OsdId) -> bool) -> Option<[Step; 2]> {
        let room = self.moves.len() + 2 <= self.limits.moves;
        let thirds = self.above.keys().filter(|third| room && **third != from && **third != to);
        let find = |pool: PoolId, a: OsdId, b: OsdId| if fits(&pool, a, b) { self.find(pool, a, b) } else { None };
        thirds.copied().find_map(|third| {
            let there = self.pools.iter().find_map(|pool| find(*pool, from, third))?;
            let on = self.pools.iter().filter(|pool| **pool != there.pg.pool).find_map(|pool| find(*pool, third, to))?;
            Some([there, on])
        })
    }

    /// Finds the group of a pool for which a move is the least change.
    fn find(&self, pool: PoolId, from: OsdId, to: OsdId) -> Option<Step> {
        let table = self.tables.get(&pool).filter(|_| self.map.is_up(to))?;
        let mut ranked = Vec::new();
        for seed in table.on(from) {
            if self.looks.get() >= self.limits.looks {
                return None;
            }
            self.looks.set(self.looks.get() + 1);
            let pg = PgId::new(pool, *seed);
            let group = table.groups.get(*seed as usize)?;
            if table.domains.allow(group, from, to) && !self.is_pinned(pg) {
                ranked.push((rank(self.pairs_of(pg), from, to), pg));
            }
        }
        ranked.sort();
        ranked.into_iter().find_map(|(_, pg)| self.step_for(pg, from, to))
    }

    /// Returns true if an entry of `pg_upmap` says where a group is.
    fn is_pinned(&self, pg: PgId) -> bool {
        let all = || self.map.pg_upmap.keys().filter(|pg| !is_order(self.map, **pg)).copied().collect();
        self.pinned.get_or_init(all).contains(&pg)
    }

    /// A group's exceptions, as far as they are decided.
    fn pairs_of(&self, pg: PgId) -> &[(OsdId, OsdId)] {
        self.moves.get(&pg).or_else(|| self.map.pg_upmap_items.get(&pg)).map_or(&[], |pairs| pairs)
    }

    /// The exceptions that move a copy, if there are some that lead where it shall go.
    fn step_for(&self, pg: PgId, from: OsdId, to: OsdId) -> Option<Step> {
        let group = self.tables.get(&pg.pool)?.groups.get(pg.seed as usize)?;
        let pairs = replaced(self.pairs_of(pg), from, to);
        let wanted: BTreeSet<OsdId> = group.iter().map(|osd| if *osd == from { to } else { *osd }).collect();
        self.looks.set(self.looks.get() + 8);
        let reached: BTreeSet<OsdId> = applied(self.map, &self.map.raw_placement(pg), &pairs).0.into_iter().collect();
        (reached == wanted).then_some(Step { pg, pairs, from, to })
    }

    /// Takes a move in. Returns whether there was one.
    fn make(&mut self, step: Option<Step>) -> bool {
        let Some(Step { pg, pairs, from, to }) = step else { return false };
        if let Some(table) = self.tables.get_mut(&pg.pool) {
            table.carry(pg.seed, from, to);
            *self.above.entry(from).or_default() -= 1.0;
            *self.above.entry(to).or_default() += 1.0;
        }
        self.decide(pg, pairs);
        true
    }

    /// Keeps what a group's exceptions shall be; what they are already is no change.
    fn decide(&mut self, pg: PgId, pairs: Pairs) {
        let before = self.map.pg_upmap_items.get(&pg).map_or(&[][..], |pairs| pairs);
        match before == pairs {
            true => drop(self.moves.remove(&pg)),
            false => drop(self.moves.insert(pg, pairs)),
        }
    }

    /// Removes exceptions that have no effect, or put copies where the rule would not.
    fn tidy(&mut self) {
        let all: Vec<PgId> = self.map.pg_upmap_items.keys().filter(|pg| self.pools.contains(&pg.pool)).copied().collect();
        let first = (self.limits.turn * self.limits.checks) % all.len().max(1);
        for pg in all.iter().cycle().skip(first).take(self.limits.checks.min(all.len())) {
            if self.moves.len() >= self.limits.moves {
                return;
            }
            let (map, present) = (self.map, self.pairs_of(*pg).to_vec());
            let raw = map.raw_placement(*pg);
            let (home, used) = applied(map, &raw, &present);
            let Some(table) = self.tables.get_mut(&pg.pool) else { continue };
            let kept = if table.domains.holds(&home) || !table.domains.holds(&raw) { used } else { Vec::new() };
            if kept == present {
                continue;
            }
            let before = table.above.clone();
            table.put(pg.seed, &applied(map, &raw, &kept).0);
            for (osd, above) in &table.above {
                *self.above.entry(*osd).or_default() += above - before.get(osd).copied().unwrap_or(0.0);
            }
            self.decide(*pg, kept);
        }
    }
}

/// Finds the first pair of OSDs between which there is a move, those between which the difference is largest first.
/// Pairs whose OSDs both hold their share, or of which a move would only exchange the difference, are none.
fn first<T>(above: &BTreeMap<OsdId, f64>, deviation: f64, mut find: impl FnMut(OsdId, OsdId) -> Option<T>) -> Option<T> {
    let order = order(above);
    for (more, from) in &order {
        for (less, to) in order.iter().rev() {
            let off = *more > deviation + EPSILON || *less < -deviation - EPSILON;
            if more - less <= 1.0 + EPSILON || !off {
                break;
            }
            if let Some(found) = find(*from, *to) {
                return Some(found);
            }
        }
    }
    None
}

/// Returns how much a move changes in a group's exceptions: 0 if it takes one back, 1 if it changes one, 2 if it adds
/// one.
fn rank(pairs: &[(OsdId, OsdId)], from: OsdId, to: OsdId) -> u8 {
    match pairs.iter().find(|(_, at)| *at == from) {
        Some((home, _)) if *home == to => 0,
        Some(_) => 1,
        None => 2,
    }
}

/// A group's exceptions after a move.
fn replaced(pairs: &[(OsdId, OsdId)], from: OsdId, to: OsdId) -> Pairs {
    let mut pairs = pairs.to_vec();
    match pairs.iter().position(|(_, at)| *at == from) {
        Some(n) if pairs[n].0 == to => drop(pairs.remove(n)),
        Some(n) => pairs[n].1 = to,
        None => pairs.push((from, to)),
    }
    pairs
}

/// Returns where exceptions lead from the places that CRUSH gives, and which of them have an effect. As the map
/// applies them.
fn applied(map: &OsdMap, raw: &[OsdId], pairs: &[(OsdId, OsdId)]) -> (Vec<OsdId>, Pairs) {
    let (mut osds, mut used) = (raw.to_vec(), Pairs::new());
    for (from, to) in pairs {
        let possible = map.exists(*to) && map.is_in(*to) && !osds.contains(to);
        if let Some(at) = osds.iter_mut().find(|osd| *osd == from).filter(|_| possible) {
            *at = *to;
            used.push((*from, *to));
        }
    }
    (osds, used)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
