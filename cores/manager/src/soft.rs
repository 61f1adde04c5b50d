//! The soft state: what daemons reported since this monitor began. None of it is durable, and all of it comes again.

use crate::clocks::Clocks;
use crate::creating::Creating;
use crate::fences::Fences;
use crate::recovery::Pace;
use crate::stamps::Stamps;
use messages::internal::{OsdReport, PgReport, Space};
use messages::stats::{ObjectStatSum, ObjectStats, PoolStat, StoreStatfs};
use monstate::levels;
use monstate::state::State;
use node::{Mono, Now};
use planner::merge::{is_outdated, merged_into};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::{EntityAddrVec, Epoch, OsdId, PgId, PgState, PoolId, SessionId, UTime};

/// Seconds over which rates are measured.
const WINDOW_SECS: u64 = 10;
/// Number of samples that are kept.
const SAMPLES: usize = 16;

/// Soft state of one OSD.
#[derive(Clone, Debug, Default)]
pub struct OsdSoft {
    /// The OSD's session with the monitor, while there is one.
    pub session: Option<SessionId>,
    /// Time when the OSD was last heard.
    pub last_seen: Mono,
    /// Time when its session ended, if it did.
    pub closed_at: Option<Mono>,
    /// Since when it is down in the map. It is marked out some time after.
    pub down_since: Option<Mono>,
    /// Its last report, without placement groups.
    pub report: Option<OsdReport>,
}

/// Soft state of one placement group.
#[derive(Clone, Debug)]
pub struct PgSoft {
    /// The last report of its primary.
    pub report: PgReport,
    /// The OSD that sent the report.
    pub osd: OsdId,
    /// Time when the report came.
    pub at: UTime,
    /// Time when something last held of it.
    pub stamps: Stamps,
}

/// A service that told the manager about itself.
#[derive(Clone, Debug)]
pub struct ServiceSoft {
    /// Name of the daemon.
    pub entity: types::EntityName,
    /// Texts of the service about itself.
    pub metadata: BTreeMap<String, String>,
    /// The service's state.
    pub status: BTreeMap<String, String>,
    /// The service's session with the manager.
    pub session: SessionId,
    /// The service's number (global id).
    pub gid: u64,
    /// The service's address.
    pub addr: String,
    /// Time when the service began.
    pub since: UTime,
}

/// Bytes of names and values.
pub fn bytes_of(told: &BTreeMap<String, String>) -> usize {
    told.iter().map(|(name, value)| name.len() + value.len()).sum()
}

impl ServiceSoft {
    /// Bytes of what it says about itself.
    pub fn bytes(&self) -> usize {
        bytes_of(&self.metadata) + bytes_of(&self.status)
    }
}

/// A connected client or daemon, for `features` and `sessions`.
#[derive(Clone, Debug)]
pub struct Connected {
    /// Its name.
    pub name: types::EntityName,
    /// The kind of entity that it acts as.
    pub kind: types::EntityType,
    /// Feature bits of its connection.
    pub features: u64,
    /// Its address.
    pub addr: types::EntityAddr,
    /// Its capabilities as text; none: it may do everything.
    pub caps: Option<String>,
    /// Its number (global id).
    pub global_id: u64,
}

/// The whole soft state.
#[derive(Clone, Debug, Default)]
pub struct Soft {
    /// Known OSDs.
    pub osds: BTreeMap<OsdId, OsdSoft>,
    /// Known placement groups.
    pub pgs: BTreeMap<PgId, PgSoft>,
    /// Services by kind and name.
    pub services: BTreeMap<(String, String), ServiceSoft>,
    /// Clients and daemons with a session at the monitor.
    pub connected: BTreeMap<SessionId, Connected>,
    /// Number of reports so far: the version of the statistics.
    pub version: u64,
    /// Addresses of OSDs at their last boot.
    pub booted: BTreeMap<OsdId, EntityAddrVec>,
    /// True if the cluster's level may be raised.
    pub level: levels::Clock,
    /// OSDs that may not boot: why, and when they tried last.
    pub refused: BTreeMap<OsdId, (String, Mono)>,
    /// Pools whose groups are being made.
    pub creating: Creating,
    /// Clients that this monitor turned away lately for having too many sessions, and how often.
    pub turned_away: Vec<(types::EntityName, u64)>,
    /// Fences of clients, by who made them.
    pub fences: Fences,
    /// Skews of the clocks of other monitors.
    pub clocks: Clocks,
    /// The sums of the statistics of all groups, by pool. They are asked for several times a second, and there may be many groups.
    sums: BTreeMap<PoolId, ObjectStatSum>,
    /// Since which map OSDs are out; as far back as this monitor leads.
    outs: BTreeMap<OsdId, Epoch>,
    samples: VecDeque<(Mono, BTreeMap<PoolId, ObjectStatSum>)>,
}

/// Work of clients, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Bytes read per second.
    pub read_bytes: u64,
    /// Bytes written per second.
    pub write_bytes: u64,
    /// Reads per second.
    pub read_ops: u64,
    /// Writes per second.
    pub write_ops: u64,
}

impl Rates {
    /// Says whether clients do nothing.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl Soft {
    /// The monitor did not run for `late`, until `now`: its process or its machine was stopped. It has not read what OSDs said meanwhile,
    /// so that time counts against none of them.
    pub fn was_away(&mut self, now: Mono, late: Duration) {
        let shift = |at: &mut Mono| *at = at.plus(late).min(now);
        for osd in self.osds.values_mut() {
            shift(&mut osd.last_seen);
            osd.closed_at.as_mut().map(shift);
            osd.down_since.as_mut().map(shift);
        }
    }

    /// Takes an OSD's report in. Placement groups of pools that do not exist are ignored, so that late reports of
    /// deleted pools do not stay. Figures of images are somebody else's ([`crate::figures`]).
    pub fn report(&mut self, state: &State, now: Now, mut report: OsdReport) {
        self.version += 1;
        let osd = report.osd;
        for mut pg in std::mem::take(&mut report.pgs) {
            if is_outdated(&state.osdmap, pg.pg, pg.reported.epoch) {
                // The group has objects by now of which it is not known what is trimmed of them.
                pg.purged_snaps.clear();
            }
            let Some(pool) = state.osdmap.pools.get(&pg.pg.pool) else { continue };
            self.creating.note(&state.osdmap, osd, &pg);
            let newer = self.pgs.get(&pg.pg).is_none_or(|old| old.report.reported <= pg.reported);
            if newer && pg.pg.seed < pool.pg_num.max(pool.pg_num_target) {
                if !self.pgs.contains_key(&pg.pg) {
                    self.count_from_now_on(pg.pg.pool, &pg.stats);
                }
                let stamps = Stamps::after(self.pgs.get(&pg.pg).map(|old| (&old.stamps, old.report.state)), &pg, now.wall);
                self.put(PgSoft { report: pg, osd, at: now.wall, stamps });
            }
        }
        let entry = self.osds.entry(osd).or_default();
        entry.last_seen = now.mono;
        entry.report = Some(report);
    }

    /// Leaves out what a group counted before this monitor heard of it: that was not done since the samples were taken.
    fn count_from_now_on(&mut self, pool: PoolId, before: &ObjectStatSum) {
        for (_, sums) in &mut self.samples {
            *sums.entry(pool).or_default() += before;
        }
    }

    /// Keeps what was reported of a group.
    fn put(&mut self, known: PgSoft) {
        let pg = known.report.pg;
        let sum = self.sums.entry(pg.pool).or_default();
        *sum += &known.report.stats;
        if let Some(old) = self.pgs.insert(pg, known) {
            *sum -= &old.report.stats;
        }
    }

    /// Forgets a group.
    fn take(&mut self, pg: PgId) {
        let (Some(old), Some(sum)) = (self.pgs.remove(&pg), self.sums.get_mut(&pg.pool)) else { return };
        *sum -= &old.report.stats;
        if self.pool_pgs(pg.pool).next().is_none() {
            self.sums.remove(&pg.pool);
        }
    }

    /// Notes which OSDs are out by a map that is durable now.
    pub fn note_outs(&mut self, state: &State) {
        let map = &state.osdmap;
        self.outs.retain(|osd, _| map.exists(*osd) && !map.is_in(*osd));
        for osd in map.osds().filter(|osd| !map.is_in(*osd)) {
            self.outs.entry(osd).or_insert(map.epoch);
        }
    }

    /// A map by which an OSD was out, and since which it always was; 0 if it is in.
    pub fn out_since(&self, osd: OsdId) -> Epoch {
        self.outs.get(&osd).copied().unwrap_or(0)
    }

    /// Forgets what belongs to pools, placement groups and OSDs that are gone.
    pub fn prune(&mut self, state: &State) {
        let map = &state.osdmap;
        let mut next = self.pgs.first_key_value().map(|(pg, _)| *pg);
        // This is done for each map: pool by pool, not group by group.
        while let Some(PgId { pool, .. }) = next {
            let groups = map.pools.get(&pool).map_or(0, |p| p.pg_num);
            let all = PgId::new(pool, 0)..=PgId::new(pool, u32::MAX);
            while let Some(gone) = self.pgs.range(all.clone()).next_back().map(|(pg, _)| *pg).filter(|pg| pg.seed >= groups) {
                self.take(gone);
            }
            let target = map.pools.get(&pool).and_then(merged_into);
            if let Some(known) = target.and_then(|pg| self.pgs.get_mut(&pg))
                && is_outdated(map, known.report.pg, known.report.reported.epoch)
            {
                known.report.purged_snaps.clear();
            }
            next = self.pgs.range(PgId::new(pool.saturating_add(1), 0)..).next().map(|(pg, _)| *pg);
        }
        self.osds.retain(|osd, _| map.exists(*osd));
        self.creating.prune(map);
    }

    /// The state of a placement group as people are told.
    pub fn pg_state(&self, state: &State, pg: PgId) -> PgState {
        match self.pgs.get(&pg) {
            None => PgState::UNKNOWN,
            // Where nobody is to serve a group, nobody reports it any more.
            Some(soft) if state.osdmap.is_up(soft.osd) && state.osdmap.placed(pg).acting_primary >= 0 => soft.report.state,
            Some(soft) => soft.report.state.with(PgState::STALE),
        }
    }

    /// Counts the placement groups in each state: the most frequent first, equal ones by their text.
    pub fn pg_states(&self, state: &State) -> Vec<(PgState, u64)> {
        let mut counts: BTreeMap<PgState, u64> = BTreeMap::new();
        for pg in all_pgs(state) {
            *counts.entry(self.pg_state(state, pg)).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_cached_key(|(state, n)| (std::cmp::Reverse(*n), state.to_string()));
        counts
    }

    /// Sums the statistics of a pool's placement groups.
    pub fn pool_sum(&self, pool: PoolId) -> ObjectStatSum {
        self.sums.get(&pool).copied().unwrap_or_default()
    }

    /// The placement groups of a pool that were reported.
    pub fn pool_pgs(&self, pool: PoolId) -> impl Iterator<Item = &PgSoft> {
        self.pgs.range(PgId::new(pool, 0)..=PgId::new(pool, u32::MAX)).map(|(_, p)| p)
    }

    /// Sums the statistics of all placement groups.
    pub fn total(&self) -> ObjectStatSum {
        let mut sum = ObjectStatSum::default();
        self.sums.values().for_each(|pool| sum += pool);
        sum
    }

    /// A pool's statistics as clients get them.
    pub fn pool_stat(&self, state: &State, pool: PoolId) -> PoolStat {
        let sum = self.pool_sum(pool);
        let copies = state.osdmap.pools.get(&pool).map_or(1, |p| i64::from(p.size));
        let log: i64 = self.pool_pgs(pool).map(|p| i64::from(p.report.log_size)).sum();
        let pgs = self.pool_pgs(pool).count() as i32;
        let rate = state.osdmap.raw_rate(pool);
        let there = |n: i64| (n.max(0) as f64 * copies_there(&sum, rate)) as i64;
        let (data, omap) = (there(sum.num_bytes), there(sum.num_omap_bytes));
        let store = StoreStatfs { allocated: data, data_stored: data, omap_allocated: omap, ..StoreStatfs::default() };
        PoolStat {
            stats: ObjectStats { sum },
            log_size: log,
            ondisk_log_size: log,
            up: pgs * copies as i32,
            acting: pgs * copies as i32,
            store,
            num_store_stats: self.osds.values().filter(|o| o.report.is_some()).count() as u32,
        }
    }

    /// Space of one OSD; zeros if it never reported.
    pub fn space(&self, osd: OsdId) -> Space {
        self.osds.get(&osd).and_then(|o| o.report.as_ref()).map_or(Space::default(), |r| r.space)
    }

    /// Space of all OSDs that exist and are in.
    pub fn total_space(&self, state: &State) -> Space {
        let mut sum = Space::default();
        for osd in self.osds.keys().filter(|o| state.osdmap.is_in(**o)) {
            let s = self.space(*osd);
            sum.total += s.total;
            sum.available += s.available;
            sum.data += s.data;
            sum.omap += s.omap;
            sum.meta += s.meta;
        }
        sum
    }

    /// Counts the placement groups that each OSD serves or is to hold, by the map.
    pub fn pgs_per_osd(&self, state: &State) -> BTreeMap<OsdId, u64> {
        let mut counts = BTreeMap::new();
        for pg in all_pgs(state) {
            let placed = state.osdmap.placed(pg);
            let coming = placed.up.iter().filter(|osd| !placed.acting.contains(osd));
            for osd in placed.acting.iter().chain(coming).filter(|o| **o >= 0 && **o != crush::NONE) {
                *counts.entry(*osd).or_default() += 1;
            }
        }
        counts
    }

    /// The oldest map that a group may need: the one in which the group that is not clean for longest was last clean. None if
    /// that is not known of some group. Without groups there is no bound.
    pub fn oldest_clean(&self, state: &State) -> Option<Epoch> {
        all_pgs(state).try_fold(Epoch::MAX, |oldest, pg| Some(oldest.min(self.last_clean(state, pg)?)))
    }

    /// The newest map in which a group is known to have been clean. One that was reported as clean still is as long as its OSD
    /// leads it, follows the map, and reports nothing else.
    pub fn last_clean(&self, state: &State, pg: PgId) -> Option<Epoch> {
        let soft = self.pgs.get(&pg)?;
        let leads = state.osdmap.placed(pg).acting_primary == soft.osd;
        let seen = self.osds.get(&soft.osd).and_then(|o| o.report.as_ref()).map(|r| r.epoch);
        match seen.filter(|_| leads && soft.report.state.has(PgState::CLEAN)) {
            Some(seen) => Some(seen.max(soft.report.last_epoch_clean)),
            None => Some(soft.report.last_epoch_clean),
        }
    }

    /// Takes a sample for the rates, about twice a second.
    pub fn sample(&mut self, now: Now, state: &State) {
        let sums = state.osdmap.pools.keys().map(|p| (*p, self.pool_sum(*p))).collect();
        self.samples.push_back((now.mono, sums));
        while self.samples.len() > SAMPLES
            || self.samples.front().is_some_and(|(at, _)| now.mono.since(*at).as_secs() > WINDOW_SECS)
        {
            self.samples.pop_front();
        }
    }

    /// Returns what changed within the window, in one pool or in all, and the seconds in which it did.
    fn change(&self, pool: Option<PoolId>) -> Option<(ObjectStatSum, f64)> {
        let ((t0, first), (t1, last)) = (self.samples.front()?, self.samples.back()?);
        let secs = t1.since(*t0).as_secs_f64();
        if secs < 0.5 {
            return None;
        }
        let mut delta = ObjectStatSum::default();
        for (id, sum) in last.iter().filter(|(id, _)| pool.is_none_or(|p| p == **id)) {
            delta += sum;
            if let Some(before) = first.get(id) {
                delta -= before;
            }
        }
        Some((delta, secs))
    }

    /// Computes what clients do, in one pool or in all.
    pub fn rates(&self, pool: Option<PoolId>) -> Rates {
        let Some((delta, secs)) = self.change(pool) else { return Rates::default() };
        let rate = |n: i64, unit: f64| (n.max(0) as f64 * unit / secs) as u64;
        Rates {
            read_bytes: rate(delta.num_rd_kb, 1024.0),
            write_bytes: rate(delta.num_wr_kb, 1024.0),
            read_ops: rate(delta.num_rd, 1.0),
            write_ops: rate(delta.num_wr, 1.0),
        }
    }

    /// Computes what recovery does, in one pool or in all.
    pub fn pace(&self, pool: Option<PoolId>) -> Pace {
        self.change(pool).map_or(Pace::default(), |(delta, secs)| Pace::of(&delta, secs))
    }
}

/// Returns how many bytes of disks a byte of an object takes on average, in a pool where it takes so many: fewer while
/// copies or shards are missing.
pub fn copies_there(sum: &ObjectStatSum, rate: f64) -> f64 {
    let all = sum.num_object_copies;
    let share = if all > 0 { (all - sum.num_objects_degraded).max(0) as f64 / all as f64 } else { 1.0 };
    rate * share
}

/// All placement groups of the map.
pub fn all_pgs(state: &State) -> impl Iterator<Item = PgId> + '_ {
    state.osdmap.pools.iter().flat_map(|(id, pool)| (0..pool.pg_num).map(move |seed| PgId::new(*id, seed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_groups_that_are_known() {
        let mut soft = Soft::default();
        let known = |pool, seed, objects| {
            let stats = ObjectStatSum { num_objects: objects, num_bytes: 3 * objects, ..ObjectStatSum::default() };
            let report = PgReport { pg: PgId::new(pool, seed), stats, ..PgReport::default() };
            PgSoft { report, osd: 0, at: UTime::ZERO, stamps: Stamps::default() }
        };
        for (pool, seed, objects) in [(1, 0, 5), (1, 1, 7), (2, 0, 9), (1, 0, 2), (2, 0, 11)] {
            soft.put(known(pool, seed, objects));
            let mut sum = ObjectStatSum::default();
            soft.pgs.values().for_each(|p| sum += &p.report.stats);
            assert_eq!(soft.total(), sum);
        }
        assert_eq!((soft.pool_sum(1).num_objects, soft.pool_sum(2).num_bytes), (9, 33));
        soft.take(PgId::new(1, 1));
        soft.take(PgId::new(2, 0));
        assert_eq!((soft.pool_sum(1).num_objects, soft.pool_sum(2), soft.sums.len()), (2, ObjectStatSum::default(), 1));
    }
}
