//! What maps change, and what the group tells about itself.

use crate::api::{Ctx, Query};
use crate::backfill::Backfill;
use crate::members::{Member, named};
use crate::object::bounds;
use crate::peering::Step;
use crate::pg::{Pg, Phase, Work};
use crate::reserve::Move;
use messages::internal::PgReport;
use messages::stats::ObjectStatSum;
use types::{EVersion, HObject, OsdId, PgState};

impl Pg {
    /// Watches of fenced clients go at once.
    pub(crate) fn fence(&mut self, ctx: &mut Ctx<'_>) {
        if !ctx.map.has_blocklist() || self.serving.watches.len() == 0 {
            return;
        }
        let map = ctx.map.clone();
        for (head, cookie, holder) in self.serving.watches.fence(|watch| map.is_blocklisted(&watch.addr)) {
            let head = self.core.object(head);
            self.enqueue(ctx, head, Work::Expire { cookie, holder });
        }
    }

    pub(crate) fn state(&self) -> PgState {
        let state = match &self.phase {
            Phase::Loading(_) => return PgState::ACTIVATING,
            Phase::Splitting(_) | Phase::Uniting(_) => return PgState::PEERING,
            Phase::Broken => return PgState::DOWN,
            Phase::Leaving | Phase::Removing(_) | Phase::Removed | Phase::Replica(_) => return PgState::UNKNOWN,
            Phase::Peering(peering) => return peering.state().with(self.lack_of_members()),
            // Clean and about to be merged: ready for it.
            Phase::Active if self.core.history.interval.is_premerge() => {
                let recovery = if self.is_clean() && !self.is_ready() { PgState::UNKNOWN } else { self.recovery_state() };
                PgState::PEERED.with(PgState::PREMERGE).with(recovery)
            }
            Phase::Active if self.core.is_short() => PgState::PEERED.with(self.recovery_state()),
            Phase::Active => PgState::ACTIVE.with(self.recovery_state()).with(self.work_state()),
        };
        state.with(self.lack_of_members())
    }

    /// What a group is called that has fewer members than its pool wants, or others than the map would choose.
    fn lack_of_members(&self) -> PgState {
        let interval = &self.core.history.interval;
        let few = interval.primary >= 0 && (interval.members().count() as u64) < u64::from(interval.size);
        // Where nothing is, nothing is degraded.
        let undersized = match few {
            true if self.core.info.stats.objects > 0 => PgState::UNDERSIZED.with(PgState::DEGRADED),
            true => PgState::UNDERSIZED,
            false => PgState::UNKNOWN,
        };
        let elsewhere = interval.up != interval.acting && interval.home().next().is_some();
        if elsewhere { undersized.with(PgState::REMAPPED) } else { undersized }
    }

    fn recovery_state(&self) -> PgState {
        if self.is_clean() {
            return PgState::CLEAN;
        }
        let forced = self.serving.recovery.forced();
        let mut state = PgState::UNKNOWN;
        if forced.recovery {
            state = state.with(PgState::FORCED_RECOVERY);
        }
        if forced.backfill {
            state = state.with(PgState::FORCED_BACKFILL);
        }
        let lacks = |member: &Member| !member.missing.is_empty() || !member.pushed.is_empty() && member.backfill.is_none();
        let reserve = &self.serving.reserve;
        if !self.core.missing.is_empty() || self.members.all.values().any(lacks) {
            state = state.with(PgState::DEGRADED).with(match () {
                () if self.is_out_of_finds() => PgState::RECOVERY_UNFOUND,
                () if reserve.what == Some(Move::Recovery) && reserve.is_full() => PgState::RECOVERY_TOOFULL,
                () if self.serving.recovery.is_busy() || self.serving.search.is_open() => PgState::RECOVERING,
                () => PgState::RECOVERY_WAIT,
            });
        }
        let unfound = &self.serving.recovery.unfound;
        let stuck = |member: &Member| member.backfill.as_ref().is_some_and(|b| b.is_stuck(|head| unfound.contains_key(head)));
        if self.serving.search.count() > 0 && self.members.all.values().any(stuck) {
            state = state.with(PgState::BACKFILL_UNFOUND);
        } else if self.members.all.values().any(|member| member.backfill.is_some()) {
            state = state.with(match () {
                () if reserve.what == Some(Move::Backfill) && reserve.is_full() => PgState::BACKFILL_TOOFULL,
                () if reserve.moves(Move::Backfill) => PgState::BACKFILLING,
                () => PgState::BACKFILL_WAIT,
            });
        }
        state
    }

    fn work_state(&self) -> PgState {
        let mut state = PgState::UNKNOWN;
        match &self.serving.scrub {
            Some(scrub) if scrub.deep => state = state.with(PgState::SCRUBBING).with(PgState::DEEP),
            Some(_) => state = state.with(PgState::SCRUBBING),
            None => {}
        }
        if self.serving.scrub.as_ref().is_some_and(|scrub| scrub.repair) {
            state = state.with(PgState::REPAIR);
        }
        if self.serving.failed_repair {
            state = state.with(PgState::FAILED_REPAIR);
        }
        if self.core.info.stats.shallow_errors + self.core.info.stats.deep_errors > 0 {
            state = state.with(PgState::INCONSISTENT);
        }
        if !self.serving.trim.queue.is_empty() {
            state = state.with(PgState::SNAPTRIM);
        }
        if !self.serving.laggy.is_empty() {
            state = state.with(PgState::LAGGY);
        }
        state
    }

    /// Copies of objects that are not there, and those that are not where they belong.
    fn lacking(&self) -> (i64, i64) {
        let interval = &self.core.history.interval;
        let objects = self.core.info.stats.objects;
        let places = if interval.primary < 0 { 0 } else { i64::from(interval.size) - interval.members().count() as i64 };
        let members = self.members.all.values();
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

    /// Which part of the group a copy has that is filled, by the place of its cursor among all hashes.
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
        let unfound = self.serving.search.count() as i64;
        ObjectStatSum {
            num_bytes: s.bytes,
            num_objects: s.objects,
            num_object_clones: s.clones,
            num_object_copies: s.objects * i64::from(self.core.history.interval.size.max(1)),
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
            num_objects_repaired: self.repaired,
            num_large_omap_objects: s.large_omaps,
            num_whiteouts: s.whiteouts,
            num_objects_omap: s.omap_objects,
            num_omap_bytes: s.omap_bytes,
            num_omap_keys: s.omap_keys,
            ..ObjectStatSum::default()
        }
    }

    /// Who is waited for before the group can serve.
    pub(crate) fn blocked_by(&self) -> Vec<OsdId> {
        match &self.phase {
            Phase::Peering(peering) if matches!(peering.step, Step::Activate) => {
                self.members.all.iter().filter(|(_, m)| m.acting && !m.activated).map(|(osd, _)| *osd).collect()
            }
            Phase::Peering(peering) => peering.blocked_by(),
            _ => Vec::new(),
        }
    }

    /// What the monitors are told. Each call numbers the report anew.
    pub fn stats(&mut self) -> PgReport {
        self.reports += 1;
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
            snap_trimq_len: u32::try_from(self.serving.trim.queue.total()).unwrap_or(u32::MAX),
            purged_snaps: self.serving.trim.done.iter().collect(),
            last_change: self.core.history.last_change,
            last_active: self.core.history.last_change,
            last_epoch_clean: if self.is_clean() { self.core.epoch } else { self.core.history.clean },
            blocked_by: self.blocked_by(),
        }
    }

    /// Bytes of notifications that are not over.
    pub fn notices(&self) -> usize {
        self.serving.watches.open(0).1
    }

    /// What `ceph pg query` shows.
    pub fn query(&self) -> Query {
        Query {
            state: self.state(),
            last_update: self.core.info.last_update,
            log_tail: self.core.info.log_tail,
            last_user_version: self.core.info.user_version,
            created: self.core.history.created,
            same_interval_since: self.core.history.since,
            log_size: self.core.log.len() as u64,
            log_dups: self.core.log.dups() as u64,
            snap_trimq: self.serving.trim.queue.iter().collect(),
            purged_snaps: self.serving.trim.done.iter().collect(),
            ops_in_flight: self.ops().len(),
            watches: self.serving.watches.len(),
            last_epoch_started: self.core.history.started,
            last_epoch_clean: self.core.history.clean,
            last_backfill: self.core.history.backfill.as_ref().map(ToString::to_string),
            missing: self.core.missing.len() as u64,
            unfound: self.serving.search.count() as u64,
            step: self.step_name(),
            because: self.because(),
            blocked_by: self.blocked_by(),
            past: self.core.history.past.iter().map(|i| (i.first, i.last, i.acting.clone())).collect(),
            peers: self.members.all.iter().map(|(osd, member)| member.query(*osd)).collect(),
        }
    }

    fn step_name(&self) -> &'static str {
        match &self.phase {
            Phase::Loading(_) => "Initial",
            Phase::Peering(peering) => peering.name(),
            Phase::Active => "Started/Primary/Active",
            Phase::Replica(_) if self.core.history.since == self.core.history.started => "Started/ReplicaActive",
            Phase::Replica(_) => "Started/Stray",
            Phase::Splitting(_) | Phase::Uniting(_) | Phase::Leaving => "Reset",
            Phase::Removing(_) | Phase::Removed => "Started/ToDelete",
            Phase::Broken => "Crashed",
        }
    }

    /// Why the group does not go on, and what helps.
    pub(crate) fn because(&self) -> String {
        let blocked = self.blocked_by();
        match &self.phase {
            Phase::Broken => "its own records cannot be read or written on this OSD".into(),
            Phase::Peering(p) if !p.needed.is_empty() => {
                let needed: Vec<OsdId> = p.needed.iter().copied().collect();
                format!("{} may have the newest writes: start it, or give it up with 'ceph osd lost'", named(&needed))
            }
            Phase::Peering(p) if p.incomplete => {
                "no copy that can be reached is complete: an OSD that has one must come back".into()
            }
            Phase::Uniting(_) if self.waits_for_sources() => "it waits for the group that it takes in".into(),
            Phase::Active if self.core.history.interval.is_premerge() => {
                "its pool gets fewer groups: it is merged when it and its partner are clean".into()
            }
            Phase::Active if self.core.is_short() => {
                let interval = &self.core.history.interval;
                let (has, least) = (interval.members().count(), interval.min_size);
                format!(
                    "it has {has} of the {least} members that the pool's min_size demands: bring OSDs back; if none is down, its rule finds \
                     too few places: add OSDs or hosts that it can use, or lower the pool's size and min_size"
                )
            }
            Phase::Peering(_) if self.core.history.needs_up_thru() => {
                "the monitors have not confirmed that this OSD is up".into()
            }
            Phase::Peering(_) if !blocked.is_empty() => format!("it waits for {}", named(&blocked)),
            Phase::Active if self.serving.search.count() > 0 => {
                "objects are unfound: an OSD that has them must come back, or they are given up with mark_unfound_lost".into()
            }
            Phase::Active => self.why_not_at_home(),
            _ => String::new(),
        }
    }

    /// Why a group that serves does not move objects, or keeps copies elsewhere; nothing if all is well, or gets so.
    fn why_not_at_home(&self) -> String {
        if let Some(why) = self.why_not_moving() {
            return why;
        }
        let interval = &self.core.history.interval;
        let guests: Vec<OsdId> = interval.members().filter(|osd| !interval.up.contains(osd)).collect();
        let (has, size) = (interval.members().count(), interval.size);
        if (has as u64) < u64::from(size) {
            return format!(
                "it has {has} of {size} copies: bring OSDs back; if none is down, its rule finds too few places: add OSDs or hosts that it \
                 can use, or lower the pool's size"
            );
        }
        if !self.is_recovered() || guests.is_empty() || !self.core.keeps_guests() {
            return String::new();
        }
        let places = interval.home().count();
        let guests = named(&guests);
        format!("its rule finds {places} of {size} places, so copies stay on {guests}: add OSDs, take some in, or lower size")
    }
}
