//! What OSDs ask for while they peer: to be known as alive (`up_thru`), and other members for a time (`pg_temp`).
//!
//! Groups stand still until the answer is in a map. So an answer does not wait for the tick. What arrives in one round, and what
//! arrives until the proposals that the first one met are durable, shares one map, so that a hundred groups that peer at once do
//! not cost a hundred maps.
//!
//! A map costs something at each OSD. So the next one follows the last after a moment that grows with their number
//! ([`EACH`]): 50 ms in a cluster of a thousand. Less than a millisecond is not waited for.
//!
//! The end of a wish is another thing: the group serves meanwhile. When much is moved, groups end their wishes one by one all the time.
//! So a map that only ends wishes follows the last such one after [`CALM`].

use super::Monitor;
use denc::Decode;
use maps::Interval;
use maps::{Incremental, OsdMap};
use messages::internal::{OsdAlive, PgTempWish};
use monstate::state::State;
use node::{Level, Mono, Now, Outputs};
use quorum::Index;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use types::{Epoch, HOLE, OsdId, PgId, SessionId};

/// Maps that are remembered decoded.
const RECENT: usize = 16;
/// Number of maps a wish may be older than the newest. Whoever is further behind has maps to read first, and asks
/// again.
const BEHIND: u32 = 500;

/// Least time between two maps that grant something, for each OSD that is up.
const EACH: Duration = Duration::from_micros(50);
/// Clusters with fewer OSDs do not wait.
const FEW: usize = 20;
/// Least time between two maps that only end wishes.
const CALM: Duration = Duration::from_millis(500);

/// Wishes of OSDs that are not granted.
#[derive(Debug, Default)]
pub(super) struct Asked {
    alive: Vec<OsdAlive>,
    wishes: Vec<PgTempWish>,
    /// The newest entry that was on its way when the first of them came.
    behind: Index,
    /// Time when the last map was made that granted something.
    granted: Mono,
}

impl Asked {
    fn is_empty(&self) -> bool {
        self.alive.is_empty() && self.wishes.is_empty()
    }

    /// Returns true if groups stand still until the answer.
    fn is_urgent(&self) -> bool {
        !self.alive.is_empty() || self.wishes.iter().any(|wish| wish.wishes.iter().any(|(_, osds)| !osds.is_empty()))
    }

    /// Returns when an answer is due, while so many OSDs are up.
    fn due(&self, up: usize) -> Mono {
        let pause = match (self.is_urgent(), self.wishes.is_empty()) {
            (true, _) if up < FEW => return Mono(0),
            (true, _) => EACH * u32::try_from(up).unwrap_or(u32::MAX),
            (false, true) => return Mono::NEVER,
            (false, false) => CALM,
        };
        if self.granted == Mono::default() { Mono(0) } else { self.granted.plus(pause) }
    }
}

impl Monitor {
    /// An OSD leads groups and must be known to be up.
    pub(super) fn osd_alive(&mut self, now: Now, session: SessionId, alive: OsdAlive) {
        if self.speaks_in_this_life(now, session, alive.osd, alive.epoch) {
            self.note_behind();
            self.leader.asked.alive.push(alive);
        }
    }

    /// Primaries of an OSD wish other members for their groups.
    pub(super) fn pg_temp_wish(&mut self, now: Now, session: SessionId, wish: PgTempWish) {
        if self.speaks_in_this_life(now, session, wish.osd, wish.epoch) {
            self.note_behind();
            self.leader.asked.wishes.push(wish);
        }
    }

    fn note_behind(&mut self) {
        if self.leader.asked.is_empty() {
            self.leader.asked.behind = self.leader.last_ahead();
        }
    }

    /// Remembers a map that is durable: wishes are of maps that their OSDs had some moments ago.
    pub(super) fn remember_map(&mut self) {
        let recent = &mut self.leader.recent;
        recent.push_back(Arc::clone(&self.replica.applied.osdmap));
        if recent.len() > RECENT {
            recent.pop_front();
        }
    }

    /// Returns when [`Self::grant_asked`] has something to do. What was on its way when the first one asked comes
    /// before.
    pub(super) fn asked_deadline(&self) -> Mono {
        let asked = &self.leader.asked;
        if !self.leader.reigns() || asked.is_empty() || !self.leader.is_past(asked.behind) {
            return Mono::NEVER;
        }
        asked.due(self.newest().osdmap.osd_counts().1)
    }

    /// Returns true if a session speaks for an OSD that is up, and knows the map in which it came up. That is a sign
    /// of life, too.
    fn speaks_in_this_life(&mut self, now: Now, session: SessionId, osd: OsdId, epoch: Epoch) -> bool {
        let map = &self.newest().osdmap;
        if !self.is_osd(session, osd) || !map.is_up(osd) || epoch < map.up_from(osd) {
            return false;
        }
        let soft = self.leader.soft.osds.entry(osd).or_default();
        if soft.session.is_some_and(|other| other != session) {
            // Another process has the number now.
            return false;
        }
        soft.last_seen = now.mono;
        true
    }

    /// Proposes the map that grants what was asked for, when that is due. Returns whether there was anything to propose.
    pub(super) fn grant_asked(&mut self, now: Now, out: &mut Outputs) -> bool {
        if self.asked_deadline() > now.mono {
            return false;
        }
        let asked = std::mem::replace(&mut self.leader.asked, Asked { granted: now.mono, ..Asked::default() });
        let state = self.newest().clone();
        let mut inc = Incremental::new(state.osdmap.epoch + 1, state.fsid, now.wall);
        let before = inc.clone();
        asked.alive.iter().for_each(|alive| grant_alive(&state.osdmap, &mut inc, alive));
        let mut past = Past(self.leader.recent.iter().map(|map| (map.epoch, Arc::clone(map))).collect());
        for wish in &asked.wishes {
            let refused = grant_temp(&state, &mut past, &mut inc, wish);
            if refused > 0 {
                let text = format!("{refused} of {} wishes of osd.{} do not fit the map any more", wish.wishes.len(), wish.osd);
                out.log(Level::Debug, "mon", text);
            }
        }
        if inc == before {
            return false;
        }
        self.propose(now, Vec::new(), Some(inc), Vec::new(), out);
        true
    }
}

/// Raises `up_thru` of an OSD, unless it is there already. Nobody can have seen an epoch that does not exist yet.
fn grant_alive(map: &OsdMap, inc: &mut Incremental, alive: &OsdAlive) {
    let present = map.info(alive.osd).map_or(0, |info| info.up_thru);
    if map.is_up(alive.osd) && alive.want > present && alive.want <= map.epoch {
        let granted = inc.new_up_thru.entry(alive.osd).or_default();
        *granted = alive.want.max(*granted);
    }
}

/// Takes the wishes of an OSD that fit the newest map. Returns how many do not.
fn grant_temp(state: &State, past: &mut Past, inc: &mut Incremental, wish: &PgTempWish) -> usize {
    let map = &state.osdmap;
    let fits = |past: &mut Past, pg: PgId, osds: &[OsdId]| {
        map.placed(pg).acting_primary == wish.osd && may_act(map, pg, osds) && past.interval_lasts(state, wish.epoch, pg)
    };
    let mut refused = 0;
    for (pg, osds) in &wish.wishes {
        if !fits(past, *pg, osds) {
            refused += 1;
            continue;
        }
        let wanted = if *osds == map.placed(*pg).up { Vec::new() } else { osds.clone() };
        let present = map.pg_temp.get(pg).map_or(&[][..], |p| p);
        if wanted == present {
            inc.new_pg_temp.remove(pg);
        } else {
            inc.new_pg_temp.insert(*pg, wanted);
        }
    }
    refused
}

/// Returns true if these OSDs may serve a group: up, each once, not more than the pool has copies. Where places have
/// positions each is named, and a hole stands for one without an OSD. Nobody stands for `up`.
fn may_act(map: &OsdMap, pg: PgId, osds: &[OsdId]) -> bool {
    let Some(pool) = map.pool(pg.pool).filter(|_| !osds.is_empty()) else { return osds.is_empty() };
    let size = usize::from(pool.size);
    let real: Vec<OsdId> = osds.iter().copied().filter(|osd| *osd != HOLE).collect();
    let named = if pool.can_shift_osds() { real.len() == osds.len() && osds.len() <= size } else { osds.len() == size };
    let distinct: BTreeSet<OsdId> = real.iter().copied().collect();
    named && !real.is_empty() && distinct.len() == real.len() && real.iter().all(|osd| map.exists(*osd) && map.is_up(*osd))
}

/// Past maps: those of the last moments, and what was needed in this round.
struct Past(BTreeMap<Epoch, Arc<OsdMap>>);

impl Past {
    /// Returns true if a group's interval is the same from `epoch` up to the newest map.
    fn interval_lasts(&mut self, state: &State, epoch: Epoch, pg: PgId) -> bool {
        let newest = state.osdmap.epoch;
        if epoch > newest || newest - epoch > BEHIND {
            return false;
        }
        let present = Interval::of(&state.osdmap, pg);
        (epoch..newest).all(|epoch| self.map(state, epoch).is_some_and(|map| Interval::of(map, pg) == present))
    }

    /// The map of an epoch, as far as it is kept.
    fn map(&mut self, state: &State, epoch: Epoch) -> Option<&OsdMap> {
        if !self.0.contains_key(&epoch) {
            let map = self.next_of(state, epoch).or_else(|| OsdMap::from_bytes(&state.history.full(epoch)?).ok())?;
            self.0.insert(epoch, Arc::new(map));
        }
        self.0.get(&epoch).map(|map| &**map)
    }

    /// The map of an epoch, made of the one before.
    fn next_of(&self, state: &State, epoch: Epoch) -> Option<OsdMap> {
        let before = self.0.get(&epoch.checked_sub(1)?)?;
        let inc = Incremental::from_bytes(state.history.incremental(epoch)?).ok()?;
        before.apply(&inc).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::{Pool, pool_type, state};

    #[test]
    fn holes_may_serve_only_where_places_have_positions() {
        let mut map = OsdMap { epoch: 5, ..OsdMap::default() };
        map.set_max_osd(4);
        for osd in 0..4 {
            map.osd_state[osd] = state::EXISTS | if osd < 3 { state::UP } else { 0 };
        }
        for (pool, type_) in [(1, pool_type::REPLICATED), (2, pool_type::ERASURE)] {
            map.pools.insert(pool, Pool { type_, size: 3, min_size: 2, pg_num: 1, pgp_num: 1, ..Pool::default() });
        }
        let may = |osds: &[OsdId]| (may_act(&map, PgId::new(1, 0), osds), may_act(&map, PgId::new(2, 0), osds));
        assert_eq!(may(&[]), (true, true), "those whom the map names");
        assert_eq!(may(&[2, 0, 1]), (true, true));
        assert_eq!(may(&[2, 0]), (true, false), "a place has no name");
        assert_eq!(may(&[2, HOLE, 1]), (false, true));
        assert_eq!(may(&[HOLE, HOLE, HOLE]), (false, false), "nobody is there");
        assert_eq!(may(&[2, HOLE, 2]), (false, false), "one OSD at two places is no wish");
        assert_eq!(may(&[2, 0, 3]), (false, false), "one of them is down");
        assert_eq!(may(&[2, 0, -1]), (false, false));
    }
}
