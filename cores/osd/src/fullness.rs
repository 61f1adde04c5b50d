//! A full disk is a state: the monitor learns at once when a threshold is crossed, and writes that come faster than
//! maps travel are turned away here.
//!
//! Clients that see a full pool in the map hold their writes back, and send them again, in their order, when a later
//! map shows that it is not full any more. So a write that is turned away is dropped without an answer, unless the
//! client wants one ([`flags::FULL_TRY`]). Three rules keep the order of a client's operations:
//!
//! - once one write was turned away, all are, until a map that is newer than the one it was sent by has shown its pool
//!   as full: only a map that shows "not full" *after* that makes clients send what was dropped. (What the map says of
//!   this OSD is nothing to clients, and a monitor that just started may say one without the other.);
//! - a write that was sent before the map showed the pool as full is dropped, because those before it may have been;
//! - writes that are exempt ([`flags::FULL_TRY`], [`flags::FULL_FORCE`]; `rados rm --force-full`) are never dropped.

use crate::Osd;
use maps::{OsdMap, pool_flags, state as bits};
use messages::osd::{OsdOp, flags};
use node::{Level, Now, Outputs};
use objectstore::Space;
use std::collections::BTreeMap;
use types::{Epoch, PoolId, SessionId};

/// Knowledge of an OSD about its own fullness, and about full pools.
#[derive(Default)]
pub(crate) struct Fullness {
    /// Writes are turned away, until the map has shown that and there is room again.
    refusing: bool,
    /// Newest map that a write to a pool which was turned away was sent by; a newer one must show the pool as full.
    owed: BTreeMap<PoolId, Epoch>,
    /// Newest map that showed each pool as full.
    shown: BTreeMap<PoolId, Epoch>,
    /// The newest map that was looked at for that.
    looked_at: Option<Epoch>,
    /// The store had no room for a write of a group since the last look.
    overrun: bool,
    /// Fullness as it was last looked at, as state bits of the map.
    level: u32,
    /// The epoch in which each pool last became full.
    pools: BTreeMap<PoolId, Epoch>,
}

/// Returns true if an operation is exempt from being turned away.
fn exempt(op: &OsdOp) -> bool {
    op.flags & (flags::FULL_TRY | flags::FULL_FORCE) != 0
}

/// Returns how much of a store is used, between 0 and 1. What the host cannot give is not there.
fn used(space: &Space) -> f64 {
    let total = space.total.min(space.available + space.data + space.omap + space.meta);
    if total == 0 { 0.0 } else { 1.0 - space.available as f64 / total as f64 }
}

/// Returns true if clients that have a map hold back what they would write to a pool.
fn is_full(map: &OsdMap, pool: &PoolId) -> bool {
    map.flags & maps::flags::FULL != 0 || map.pools.get(pool).is_some_and(|p| p.has_flag(pool_flags::FULL))
}

impl Fullness {
    /// Returns true if this OSD tells the monitor that it takes no writes.
    pub(crate) fn refusing(&self) -> bool {
        self.refusing
    }

    /// The store refused a write to a pool for want of space, which was sent by the map of `epoch` and is dropped.
    pub(crate) fn overran(&mut self, pool: PoolId, epoch: Epoch) {
        self.overrun = true;
        self.owe(pool, epoch);
    }

    /// A write was dropped. A client that has a map which shows the pool as full does not send; one that does all the
    /// same is owed nothing.
    fn owe(&mut self, pool: PoolId, epoch: Epoch) {
        if self.shown.get(&pool) != Some(&epoch) {
            let owed = self.owed.entry(pool).or_default();
            *owed = epoch.max(*owed);
        }
    }

    /// Returns true if an operation must be dropped, to be sent again when a map shows that there is room.
    pub(crate) fn drops(&mut self, op: &OsdOp) -> bool {
        let before = self.pools.get(&op.locator.pool).is_some_and(|since| op.epoch < *since);
        let drops = op.may_write() && !exempt(op) && (self.refusing || self.overrun || before);
        if drops && !before {
            self.owe(op.locator.pool, op.epoch);
        }
        drops
    }

    /// Returns true if a map tells those whose writes were dropped that they may send them again.
    fn is_over(&self, map: &OsdMap, whoami: i32) -> bool {
        // A quota is no matter of ours.
        let short = |pool: &maps::Pool| pool.has_flag(pool_flags::FULL) && !pool.has_flag(pool_flags::FULL_QUOTA);
        let told = map.state(whoami) & bits::FULL == 0 && !map.pools.values().any(short);
        !self.refusing && !self.overrun && told
    }

    /// Returns true if all that were turned away have been shown a full pool, or will be.
    fn all_shown(&self) -> bool {
        self.owed.iter().all(|(pool, owed)| self.shown.get(pool).is_some_and(|shown| shown >= owed))
    }

    /// Notes which pools a map shows as full that were not.
    pub(crate) fn new_map(&mut self, old: &OsdMap, new: &OsdMap) {
        for pool in new.pools.keys().filter(|p| is_full(new, p) && !is_full(old, p)) {
            self.pools.insert(*pool, new.epoch);
        }
        for of_pools in [&mut self.pools, &mut self.owed, &mut self.shown] {
            of_pools.retain(|pool, _| new.pools.contains_key(pool));
        }
    }

    /// Looks at the store. True if the monitor should hear of it now.
    fn look(&mut self, space: &Space, map: &OsdMap, failsafe: f64) -> bool {
        let used = used(space);
        let ratio = |r: f32| used >= f64::from(r);
        let full = ratio(map.full_ratio);
        if self.overrun || used >= failsafe {
            self.refusing = true;
        }
        self.overrun = false;
        if self.looked_at.replace(map.epoch) != Some(map.epoch) {
            self.shown.extend(map.pools.keys().filter(|pool| is_full(map, pool)).map(|pool| (*pool, map.epoch)));
        }
        if self.refusing && self.all_shown() && !full && used < failsafe {
            self.refusing = false;
            self.owed.clear();
        }
        let level = match (full || self.refusing, ratio(map.backfillfull_ratio), ratio(map.nearfull_ratio)) {
            (true, ..) => bits::FULL,
            (_, true, _) => bits::BACKFILLFULL,
            (.., true) => bits::NEARFULL,
            _ => 0,
        };
        std::mem::replace(&mut self.level, level) != level
    }
}

impl Osd {
    /// A group of a pool had no room for a write of this session, which was sent by the map of `epoch`.
    pub(crate) fn overran(&mut self, session: SessionId, pool: PoolId, epoch: Epoch) {
        if let Some(known) = self.sessions.get(session) {
            known.turned_away = true;
        }
        self.full.overran(pool, epoch);
    }

    /// Hands a new map to those whose writes were dropped. They wait for it without knowing so: a client asks for maps
    /// only when it has seen its pool full, or after ten seconds without an answer.
    pub(crate) fn tell_turned_away(&mut self, map: &OsdMap) {
        let over = self.full.is_over(map, self.config.whoami);
        for session in self.sessions.turned_away() {
            self.share_maps(session, 0);
            if let (true, Some(known)) = (over, self.sessions.get(session)) {
                known.turned_away = false;
            }
        }
    }

    /// The bug that was here: nobody knows whose writes were dropped, so that nobody is told.
    #[cfg(feature = "sim")]
    pub fn forget_turned_away(&mut self) {
        for session in self.sessions.turned_away() {
            if let Some(known) = self.sessions.get(session) {
                known.turned_away = false;
            }
        }
    }

    /// Looks how full the store is, once in a round.
    pub(crate) fn watch_space(&mut self, now: Now, out: &mut Outputs) {
        let map = self.maps.current().clone();
        if map.epoch == 0 {
            return;
        }
        let (space, was) = (self.store.space(), self.full.refusing);
        if self.full.look(&space, &map, self.options.failsafe_full) {
            self.reporter.hurry();
        }
        match (was, self.full.refusing) {
            (false, true) => {
                let percent = 100.0 * used(&space);
                let text = format!("the disk is full ({percent:.1} % used): writes wait, reads and deletions go on");
                out.log(Level::Warn, "osd", text.clone());
                self.cluster_log(now, pg::ClusterLevel::Error, text);
            }
            (true, false) => out.log(Level::Info, "osd", "the disk has room again: writes go on"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: PoolId = 3;

    fn space(available: u64) -> Space {
        Space { total: 1000, available, data: 1000 - available, ..Space::default() }
    }

    fn map(epoch: Epoch, full: bool) -> OsdMap {
        let mut map = OsdMap { epoch, full_ratio: 0.95, backfillfull_ratio: 0.9, nearfull_ratio: 0.85, ..OsdMap::default() };
        map.max_osd = 1;
        map.osd_state = vec![bits::EXISTS | bits::UP | if full { bits::FULL } else { 0 }];
        map.pools.insert(POOL, maps::Pool { flags: if full { pool_flags::FULL } else { 0 }, ..maps::Pool::default() });
        map
    }

    fn write(epoch: Epoch) -> OsdOp {
        let mut op = OsdOp { flags: flags::WRITE, epoch, ..OsdOp::default() };
        op.locator.pool = POOL;
        op
    }

    #[test]
    fn each_threshold_is_told_once() {
        let mut fullness = Fullness::default();
        let mut look = |available| fullness.look(&space(available), &map(1, false), 0.97);
        assert_eq!([500, 140, 130, 90, 45, 44, 500, 500].map(&mut look), [false, true, false, true, true, false, true, false]);
    }

    #[test]
    fn writes_are_turned_away_until_the_map_has_shown_it_and_there_is_room() {
        let mut fullness = Fullness::default();
        let write = write(9);
        let forced = OsdOp { flags: flags::WRITE | flags::FULL_FORCE, ..write.clone() };
        fullness.look(&space(20), &map(9, false), 0.97);
        assert!(fullness.drops(&write) && !fullness.drops(&forced) && !fullness.drops(&OsdOp::default()));
        // Room alone is not enough: nobody would send again what was dropped.
        fullness.look(&space(500), &map(9, false), 0.97);
        assert!(fullness.refusing());
        fullness.look(&space(40), &map(10, true), 0.97);
        assert!(fullness.refusing(), "the map shows it, but there is no room");
        fullness.look(&space(500), &map(10, true), 0.97);
        assert!(!fullness.refusing());
        assert!(!fullness.is_over(&map(10, true), 0) && fullness.is_over(&map(11, false), 0));
        fullness.overran(POOL, 11);
        assert!(!fullness.is_over(&map(12, false), 0), "an unrelated map tells nobody anything");
        fullness.look(&space(500), &map(11, false), 0.97);
        assert!(fullness.refusing(), "the store's word counts, too, and the older map that showed it does not");
        fullness.look(&space(500), &map(12, true), 0.97);
        assert!(!fullness.refusing());
    }

    #[test]
    fn what_the_map_says_of_the_osd_alone_makes_no_client_wait() {
        // A monitor that just started knows from its map that the OSD was full, and calls no pool so.
        let mut started = map(9, true);
        started.pools = map(9, false).pools;
        let mut fullness = Fullness::default();
        fullness.look(&space(500), &started, 0.97);
        fullness.overran(POOL, 9);
        fullness.look(&space(500), &started, 0.97);
        assert!(fullness.refusing(), "clients that have map 9 were shown nothing");
        fullness.look(&space(500), &map(10, true), 0.97);
        assert!(!fullness.refusing());
        assert!(!fullness.is_over(&map(10, true), 0) && fullness.is_over(&map(11, false), 0));
    }

    #[test]
    fn nothing_is_owed_to_pools_that_are_gone() {
        let mut fullness = Fullness::default();
        fullness.overran(POOL + 1, 9);
        fullness.look(&space(500), &map(9, false), 0.97);
        assert!(fullness.refusing());
        fullness.new_map(&map(9, false), &map(10, false));
        fullness.look(&space(500), &map(10, false), 0.97);
        assert!(!fullness.refusing());
    }

    #[test]
    fn what_was_sent_before_a_pool_was_full_is_sent_again() {
        let mut fullness = Fullness::default();
        fullness.new_map(&map(4, false), &map(5, true));
        fullness.new_map(&map(5, true), &map(6, false));
        assert!(fullness.drops(&write(4)));
        assert!(!fullness.drops(&write(5)) && !fullness.drops(&write(6)));
    }
}
