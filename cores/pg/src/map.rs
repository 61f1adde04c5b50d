//! What maps change, and what the group tells about itself.

use crate::api::{Ctx, Query};
use crate::meta::Interval;
use crate::pg::{Pg, Phase, Work};
use messages::internal::PgReport;
use messages::stats::ObjectStatSum;
use types::{EVersion, PgState};

/// Intervals that are remembered at most. In pools of size 1 none of them matters once the group is active.
const MAX_PAST: usize = 32;

impl Pg {
    /// Takes the map in `ctx`: another interval, more groups, removed snapshots, fenced clients.
    pub fn new_map(&mut self, ctx: &mut Ctx<'_>) {
        self.epoch = ctx.map.epoch;
        if !self.is_active() {
            return;
        }
        let Some(pool) = ctx.map.pools.get(&self.id.pg.pool) else { return };
        let pg_num = pool.pg_num;
        self.new_interval(ctx);
        self.fence(ctx);
        if pg_num > self.history.pg_num {
            return self.begin_split(ctx, pg_num);
        }
        self.plan_trim(ctx);
        if self.history.estimated {
            self.start_scrub(ctx, false);
        }
    }

    fn new_interval(&mut self, ctx: &mut Ctx<'_>) {
        let placed = ctx.map.placed(self.id.pg);
        self.primary = placed.acting_primary == ctx.whoami;
        if placed.up == self.history.up && placed.acting == self.history.acting {
            return;
        }
        let last = ctx.map.epoch.saturating_sub(1);
        let history = &mut self.history;
        let (up, acting) = (placed.up.clone(), placed.acting.clone());
        let up = std::mem::replace(&mut history.up, up);
        let acting = std::mem::replace(&mut history.acting, acting);
        history.past.push(Interval { first: history.since, last, up, acting });
        if history.past.len() > MAX_PAST {
            history.past.remove(0);
        }
        history.since = ctx.map.epoch;
        history.last_change = ctx.now.wall;
        self.save(ctx);
    }

    /// Watches of fenced clients go at once.
    fn fence(&mut self, ctx: &mut Ctx<'_>) {
        if !ctx.map.has_blocklist() || self.watches.len() == 0 {
            return;
        }
        let map = ctx.map.clone();
        for (head, cookie, holder) in self.watches.fence(|watch| map.is_blocklisted(&watch.addr)) {
            let head = self.object(head);
            self.enqueue(ctx, head, Work::Expire { cookie, holder });
        }
    }

    fn state(&self) -> PgState {
        let mut state = match &self.phase {
            Phase::Loading(_) => return PgState::ACTIVATING,
            Phase::Splitting(_) => return PgState::PEERING,
            Phase::Broken => return PgState::DOWN,
            Phase::Removing(_) | Phase::Removed => return PgState::UNKNOWN,
            Phase::Active => PgState::ACTIVE.with(PgState::CLEAN),
        };
        match &self.scrub {
            Some(scrub) if scrub.deep => state = state.with(PgState::SCRUBBING).with(PgState::DEEP),
            Some(_) => state = state.with(PgState::SCRUBBING),
            None => {}
        }
        if self.info.stats.shallow_errors + self.info.stats.deep_errors > 0 {
            state = state.with(PgState::INCONSISTENT);
        }
        if !self.trim.queue.is_empty() {
            state = state.with(PgState::SNAPTRIM);
        }
        state
    }

    fn sums(&self) -> ObjectStatSum {
        let s = &self.info.stats;
        ObjectStatSum {
            num_bytes: s.bytes,
            num_objects: s.objects,
            num_object_clones: s.clones,
            // One copy of each: pools of size 1.
            num_object_copies: s.objects,
            num_objects_dirty: s.objects,
            num_rd: s.rd,
            num_rd_kb: s.rd_kb,
            num_wr: s.wr,
            num_wr_kb: s.wr_kb,
            num_scrub_errors: s.shallow_errors + s.deep_errors,
            num_shallow_scrub_errors: s.shallow_errors,
            num_deep_scrub_errors: s.deep_errors,
            num_whiteouts: s.whiteouts,
            num_objects_omap: s.omap_objects,
            num_omap_bytes: s.omap_bytes,
            num_omap_keys: s.omap_keys,
            ..ObjectStatSum::default()
        }
    }

    /// What the monitors are told. Each call numbers the report anew.
    pub fn stats(&mut self) -> PgReport {
        self.reports += 1;
        PgReport {
            pg: self.id.pg,
            state: self.state(),
            reported: EVersion { epoch: self.epoch, version: self.reports },
            version: self.info.last_update,
            log_size: self.log.len() as u32,
            last_scrub: self.history.scrub.0,
            last_scrub_stamp: self.history.scrub.1,
            last_deep_scrub: self.history.deep_scrub.0,
            last_deep_scrub_stamp: self.history.deep_scrub.1,
            created: self.history.created,
            stats: self.sums(),
            snap_trimq_len: u32::try_from(self.trim.queue.total()).unwrap_or(u32::MAX),
            purged_snaps: self.trim.done.iter().collect(),
            last_change: self.history.last_change,
            last_active: self.history.last_change,
            last_epoch_clean: self.epoch,
            blocked_by: Vec::new(),
        }
    }

    /// What `ceph pg query` shows.
    pub fn query(&self) -> Query {
        Query {
            state: self.state(),
            last_update: self.info.last_update,
            log_tail: self.info.log_tail,
            last_user_version: self.info.user_version,
            created: self.history.created,
            same_interval_since: self.history.since,
            log_size: self.log.len() as u64,
            log_dups: self.log.dups() as u64,
            snap_trimq: self.trim.queue.iter().collect(),
            purged_snaps: self.trim.done.iter().collect(),
            ops_in_flight: self.ops_in_flight().len(),
            watches: self.watches.len(),
        }
    }
}
