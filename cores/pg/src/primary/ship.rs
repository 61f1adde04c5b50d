//! How a primary gives a change to the other copies: it carries it out itself, and puts it into the stream of each.

use crate::api::Ctx;
use crate::body::Body;
use crate::core::Commit;
use crate::core::Core;
use crate::letter::Sealed;
use crate::primary::Primary;
use crate::primary::commit::Pending;
use crate::primary::lanes::Job;
use crate::recorder::OpKey;
use crate::scheme::Shares;
use crate::stats::Stats;
use objectstore::{Hold, Refused};
use types::{CopyId, Feature};

impl Primary {
    /// Carries out a logged change of the group that this OSD leads: here, and at all other copies. `shares`: what happens
    /// on each shard, if the group has shards; the body then has the own one's.
    pub(crate) fn submit(
        &mut self,
        core: &mut Core,
        ctx: &mut Ctx<'_>,
        mut body: Body,
        shares: Option<&Shares>,
        job: &Job,
    ) -> Result<(), Refused> {
        // Offsets of one shard say nothing about others: entries of shards say that all has changed.
        if shares.is_none() && ctx.map.level.has(Feature::Parts) {
            body.note_parts();
        }
        let delta = body.delta;
        self.apply_and_ship(core, ctx, body, shares, (job.key(), job.fetched.then_some(job.hold)))?;
        self.note_submitted(job, &delta);
        Ok(())
    }

    /// The same where the other copies carry out something else than this one.
    pub(crate) fn submit_apart(
        &mut self,
        core: &mut Core,
        ctx: &mut Ctx<'_>,
        own: Body,
        theirs: &Body,
        job: &Job,
    ) -> Result<(), Refused> {
        let (delta, alone) = (own.delta, self.members.all.is_empty());
        let encoded = if alone { Vec::new() } else { self.members.encode(&core.scheme, theirs, None) };
        let commit = core.apply(ctx, own, job.fetched.then_some(job.hold))?;
        self.ship(core, ctx, job.key(), commit, encoded);
        self.note_submitted(job, &delta);
        Ok(())
    }

    /// The change that was shipped last is one of this job's object.
    fn note_submitted(&mut self, job: &Job, delta: &Stats) {
        if let Some(pending) = self.pending.back_mut() {
            pending.head = Some(job.head.clone());
            self.lanes.entry(job.head.clone()).or_default().last = Some(pending.ticket);
        }
        if let Some(scrub) = &mut self.scrub {
            scrub.changed(&job.head, delta);
        }
    }

    /// Carries out a change that is no event of the group's history, here and at all other copies.
    pub(crate) fn change_unlogged(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, body: Body) -> bool {
        debug_assert!(body.entries.is_empty());
        match self.apply_and_ship(core, ctx, body, None, (OpKey::NONE, None)) {
            Ok(_) => true,
            Err(Refused::Stopped) => {
                core.stopped(ctx);
                false
            }
            Err(_) => false,
        }
    }

    fn apply_and_ship(
        &mut self,
        core: &mut Core,
        ctx: &mut Ctx<'_>,
        mut body: Body,
        shares: Option<&Shares>,
        (op, hold): (OpKey, Option<Hold>),
    ) -> Result<(), Refused> {
        #[cfg(feature = "sim")]
        if core.mistake == Some(crate::selfcheck::Mistake::StableEarly) {
            self.stable.err(core.info.last_update);
        }
        self.stable.note(&mut body);
        let encoded = if self.members.all.is_empty() { Vec::new() } else { self.members.encode(&core.scheme, &body, shares) };
        let commit = core.apply(ctx, body, hold)?;
        self.ship(core, ctx, op, commit, encoded);
        Ok(())
    }

    /// Gives a change that was just submitted here to the other copies, if there are any.
    fn ship(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, op: OpKey, commit: Commit, encoded: Vec<(CopyId, Sealed)>) {
        let mut pending = Pending::of(commit);
        if !encoded.is_empty() {
            let (order, letters) = self.members.ship(&core.envelope(), op, encoded);
            pending.order = order;
            core.post(ctx, letters);
        }
        self.pending.push_back(pending);
    }
}
