//! What maps change, and what the group tells about itself.

use super::{Pg, Role};
use crate::api::Query;
use crate::object::bounds;
use crate::primary::backfill::Backfill;
use crate::primary::members::Member;
use messages::internal::PgReport;
use messages::stats::ObjectStatSum;
use std::collections::BTreeSet;
use types::{EVersion, HObject, OsdId, PgState, is_osd};

impl Pg {
    pub(crate) fn state(&self) -> PgState {
        let core = &self.core;
        let state = match &self.role {
            Role::Loading(_) => return PgState::ACTIVATING,
            Role::Splitting(_) | Role::Uniting(_) => return PgState::PEERING,
            Role::Broken => return PgState::DOWN,
            Role::Leaving | Role::Removing(_) | Role::Removed | Role::Replica(_) | Role::Between => return PgState::UNKNOWN,
            Role::Peering(peering) => return peering.state().with(self.lack_of_members()),
            // Clean and about to be merged: ready for it.
            Role::Primary(primary) if core.history.interval.is_premerge() => {
                let waits = primary.is_clean(core) && !primary.is_ready(core);
                let recovery = if waits { PgState::UNKNOWN } else { primary.recovery_state(core) };
                PgState::PEERED.with(PgState::PREMERGE).with(recovery)
            }
            Role::Primary(primary) if core.is_short() => PgState::PEERED.with(primary.recovery_state(core)),
            Role::Primary(primary) => PgState::ACTIVE.with(primary.recovery_state(core)).with(primary.work_state(core)),
        };
        state.with(self.lack_of_members())
    }

    /// Returns what a group is called that has fewer members than its pool wants, or others than the map would choose.
    fn lack_of_members(&self) -> PgState {
        let interval = &self.core.history.interval;
        let few = is_osd(interval.primary) && !interval.is_full();
        // Where nothing is, nothing is degraded.
        let undersized = match few {
            true if self.core.info.stats.objects > 0 => PgState::UNDERSIZED.with(PgState::DEGRADED),
            true => PgState::UNDERSIZED,
            false => PgState::UNKNOWN,
        };
        let elsewhere = interval.up != interval.acting && interval.home().next().is_some();
        if elsewhere { undersized.with(PgState::REMAPPED) } else { undersized }
    }

    /// Copies of objects that are not there, and those that are not where they belong.
    fn lacking(&self) -> (i64, i64) {
        let interval = &self.core.history.interval;
        let objects = self.core.info.stats.objects;
        let places = if is_osd(interval.primary) { interval.places() as i64 - interval.members().count() as i64 } else { 0 };
        let members = self.leading().into_iter().flat_map(|primary| primary.members.all.values());
        let missing: usize = members.clone().map(|member| member.missing.len() + member.pushed.len()).sum();
        let rest =
            |member: &Member| member.backfill.as_ref().map(|backfill| objects - (objects as f64 * self.done(backfill)) as i64);
        let filled: Vec<i64> = members.filter_map(rest).collect();
        let (mut degraded, mut misplaced) = ((missing + self.core.missing.len()) as i64, 0);
        for place in 0..places.max(0) as usize {
            degraded += filled.get(place).copied().unwrap_or(objects);
        }
        misplaced += filled.iter().skip(places.max(0) as usize).sum::<i64>();
        (degraded, misplaced)
    }

    /// Returns which part of the group a copy has that is filled, by the place of its cursor among all hashes.
    fn done(&self, backfill: &Backfill) -> f64 {
        let (start, end) = bounds(self.core.id.pg.pool, self.core.id.pg.seed, self.core.history.pg_num.max(1));
        let at = |object: &HObject| f64::from(object.reversed_hash());
        let all = if end.pool == start.pool { at(&end) - at(&start) } else { f64::from(u32::MAX) - at(&start) };
        match backfill.cursor().pool == self.core.id.pg.pool {
            true => ((at(backfill.cursor()) - at(&start)) / all.max(1.0)).clamp(0.0, 1.0),
            false => 0.0,
        }
    }

    fn sums(&self) -> ObjectStatSum {
        let s = &self.core.info.stats;
        let (degraded, misplaced) = self.lacking();
        let unfound = self.primary().map_or(0, |primary| primary.search.count()) as i64;
        ObjectStatSum {
            num_bytes: s.bytes,
            num_objects: s.objects,
            num_object_clones: s.clones,
            num_object_copies: s.objects * self.core.history.interval.places().max(1) as i64,
            num_objects_missing_on_primary: self.core.missing.len() as i64,
            num_objects_degraded: degraded,
            num_objects_misplaced: misplaced,
            num_objects_unfound: unfound,
            num_objects_dirty: s.objects,
            num_rd: s.rd,
            num_rd_kb: s.rd_kb,
            num_wr: s.wr,
            num_wr_kb: s.wr_kb,
            num_scrub_errors: s.shallow_errors + s.deep_errors,
            num_shallow_scrub_errors: s.shallow_errors,
            num_deep_scrub_errors: s.deep_errors,
            num_objects_repaired: self.core.repaired,
            num_large_omap_objects: s.large_omaps,
            num_whiteouts: s.whiteouts,
            num_objects_omap: s.omap_objects,
            num_omap_bytes: s.omap_bytes,
            num_omap_keys: s.omap_keys,
            ..ObjectStatSum::default()
        }
    }

    /// Returns who is waited for before the group can serve.
    pub(crate) fn blocked_by(&self) -> Vec<OsdId> {
        match &self.role {
            Role::Peering(peering) => peering.blocked_by().into_iter().map(|copy| copy.osd).collect::<BTreeSet<_>>(),
            _ => BTreeSet::new(),
        }
        .into_iter()
        .collect()
    }

    /// Returns what the monitors are told. Each call numbers the report anew.
    pub fn stats(&mut self) -> PgReport {
        self.reports += 1;
        let (queued, done) =
            self.primary().map_or((0, Vec::new()), |primary| (primary.trim.queue.total(), primary.trim.done.iter().collect()));
        let clean = self.primary().is_some_and(|primary| primary.is_clean(&self.core));
        PgReport {
            pg: self.core.id.pg,
            state: self.state(),
            reported: EVersion { epoch: self.core.epoch, version: self.reports },
            version: self.core.info.last_update,
            log_size: self.core.log.len() as u32,
            last_scrub: self.core.history.scrub.0,
            last_scrub_stamp: self.core.history.scrub.1,
            last_deep_scrub: self.core.history.deep_scrub.0,
            last_deep_scrub_stamp: self.core.history.deep_scrub.1,
            created: self.core.history.created,
            stats: self.sums(),
            snap_trimq_len: u32::try_from(queued).unwrap_or(u32::MAX),
            purged_snaps: done,
            last_change: self.core.history.last_change,
            last_active: self.core.history.last_change,
            last_epoch_clean: if clean { self.core.epoch } else { self.core.history.clean },
            blocked_by: self.blocked_by(),
        }
    }

    /// Bytes of notifications that are not over.
    pub fn notices(&self) -> usize {
        self.leading().map_or(0, |primary| primary.watches.open(0).1)
    }

    /// Returns what `ceph pg query` shows.
    pub fn query(&self) -> Query {
        let primary = self.primary();
        let members = self.leading().into_iter().flat_map(|primary| &primary.members.all);
        Query {
            state: self.state(),
            last_update: self.core.info.last_update,
            log_tail: self.core.info.log_tail,
            last_user_version: self.core.info.user_version,
            created: self.core.history.created,
            same_interval_since: self.core.history.since,
            log_size: self.core.log.len() as u64,
            log_dups: self.core.log.dups() as u64,
            snap_trimq: primary.map(|primary| primary.trim.queue.iter().collect()).unwrap_or_default(),
            purged_snaps: primary.map(|primary| primary.trim.done.iter().collect()).unwrap_or_default(),
            ops_in_flight: self.ops().len(),
            watches: self.leading().map_or(0, |primary| primary.watches.len()),
            last_epoch_started: self.core.history.started,
            last_epoch_clean: self.core.history.clean,
            last_backfill: self.core.history.backfill.as_ref().map(ToString::to_string),
            missing: self.core.missing.len() as u64,
            unfound: primary.map_or(0, |primary| primary.search.count()) as u64,
            step: self.step_name(),
            because: self.because(),
            blocked_by: self.blocked_by(),
            past: self.core.history.past.iter().map(|i| (i.first, i.last, i.acting.clone())).collect(),
            peers: members.map(|(osd, member)| member.query(*osd)).collect(),
        }
    }

    fn step_name(&self) -> &'static str {
        match &self.role {
            Role::Loading(_) => "Initial",
            Role::Peering(peering) => peering.name(),
            Role::Primary(_) => "Started/Primary/Active",
            Role::Replica(_) if self.core.history.since == self.core.history.started => "Started/ReplicaActive",
            Role::Replica(_) => "Started/Stray",
            Role::Splitting(_) | Role::Uniting(_) | Role::Leaving | Role::Between => "Reset",
            Role::Removing(_) | Role::Removed => "Started/ToDelete",
            Role::Broken => "Crashed",
        }
    }

    /// Returns why the group does not go on, and what helps.
    pub(crate) fn because(&self) -> String {
        match &self.role {
            Role::Broken if self.unserved.is_some() => {
                self.unserved.as_ref().map_or_else(String::new, |unserved| unserved.why.clone())
            }
            Role::Broken => "its own records cannot be read or written on this OSD".into(),
            Role::Peering(peering) => peering.because(&self.core),
            Role::Uniting(_) if self.waits_for_sources() => "it waits for the group that it takes in".into(),
            Role::Primary(_) if self.core.history.interval.is_premerge() => {
                "its pool gets fewer groups: it is merged when it and its partner are clean".into()
            }
            Role::Primary(_) if self.core.is_short() => {
                let interval = &self.core.history.interval;
                let (has, least) = (interval.members().count(), interval.least());
                format!(
                    "it has {has} of the {least} members that the pool's min_size demands: bring OSDs back; if none is down, its rule finds \
                     too few places: add OSDs or hosts that it can use, or lower the pool's size and min_size"
                )
            }
            Role::Primary(primary) if primary.search.count() > 0 => {
                "objects are unfound: an OSD that has them must come back, or they are given up with mark_unfound_lost".into()
            }
            Role::Primary(primary) => primary.why_not_at_home(&self.core),
            _ => String::new(),
        }
    }
}
