//! What a primary tells about itself.

use super::Primary;
use super::members::{Member, named};
use super::reserve::Move;
use crate::core::Core;
use types::{CopyId, PgState};

impl Primary {
    pub(crate) fn recovery_state(&self, core: &Core) -> PgState {
        if self.is_clean(core) {
            return PgState::CLEAN;
        }
        let forced = self.recovery.forced();
        let mut state = PgState::UNKNOWN;
        if forced.recovery {
            state = state.with(PgState::FORCED_RECOVERY);
        }
        if forced.backfill {
            state = state.with(PgState::FORCED_BACKFILL);
        }
        let lacks = |member: &Member| !member.missing.is_empty() || !member.pushed.is_empty() && member.backfill.is_none();
        let reserve = &self.reserve;
        if !core.missing.is_empty() || self.members.all.values().any(lacks) {
            state = state.with(PgState::DEGRADED).with(match () {
                () if self.is_out_of_finds() => PgState::RECOVERY_UNFOUND,
                () if reserve.what == Some(Move::Recovery) && reserve.is_full() => PgState::RECOVERY_TOOFULL,
                () if self.is_bringing() || self.search.is_open() => PgState::RECOVERING,
                () => PgState::RECOVERY_WAIT,
            });
        }
        let unfound = &self.recovery.unfound;
        let stuck = |member: &Member| member.backfill.as_ref().is_some_and(|b| b.is_stuck(|head| unfound.contains_key(head)));
        if self.search.count() > 0 && self.members.all.values().any(stuck) {
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

    pub(crate) fn work_state(&self, core: &Core) -> PgState {
        let mut state = PgState::UNKNOWN;
        match &self.scrub {
            Some(scrub) if scrub.deep => state = state.with(PgState::SCRUBBING).with(PgState::DEEP),
            Some(_) => state = state.with(PgState::SCRUBBING),
            None => {}
        }
        if self.scrub.as_ref().is_some_and(|scrub| scrub.repair) {
            state = state.with(PgState::REPAIR);
        }
        if self.failed_repair {
            state = state.with(PgState::FAILED_REPAIR);
        }
        if core.info.stats.shallow_errors + core.info.stats.deep_errors > 0 {
            state = state.with(PgState::INCONSISTENT);
        }
        if !self.trim.queue.is_empty() {
            state = state.with(PgState::SNAPTRIM);
        }
        if !self.laggy.is_empty() {
            state = state.with(PgState::LAGGY);
        }
        state
    }

    /// Returns why a group that serves does not move objects, or keeps copies elsewhere; nothing if all is well, or
    /// gets so.
    pub(crate) fn why_not_at_home(&self, core: &Core) -> String {
        if let Some(why) = self.why_not_moving(core) {
            return why;
        }
        let interval = &core.history.interval;
        let home: Vec<CopyId> = core.copies(&interval.up).collect();
        let guests: Vec<CopyId> = core.copies(&interval.acting).filter(|copy| !home.contains(copy)).collect();
        let (has, size) = (interval.members().count(), interval.places());
        if !interval.is_full() {
            return format!(
                "it has {has} of {size} copies: bring OSDs back; if none is down, its rule finds too few places: add OSDs or hosts that it \
                 can use, or lower the pool's size"
            );
        }
        if !self.is_recovered(core) || guests.is_empty() || !core.keeps_guests() {
            return String::new();
        }
        let places = interval.home().count();
        let guests = named(&guests);
        format!("its rule finds {places} of {size} places, so copies stay on {guests}: add OSDs, take some in, or lower size")
    }
}
