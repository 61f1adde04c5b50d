//! Reads that wait for other members' promises: why, see [`crate::lease`].

use super::Primary;
use super::lanes::{Job, Work, record};
use crate::api::{Ctx, Effect};
use crate::core::Core;
use crate::recorder::Step;
use objectstore::Hold;

/// Reads that wait for other members' promises.
#[derive(Debug, Default)]
pub(crate) struct Laggy(Vec<Hold>);

impl Laggy {
    /// Returns true if any do.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Primary {
    /// Returns true if this job reads while it is not certain that the group is still led from here.
    pub(crate) fn must_wait_for_lease(&self, core: &Core, ctx: &Ctx<'_>, job: &Job) -> bool {
        if self.members.all.is_empty() {
            return false;
        }
        let reads = match job.work {
            Work::Client(_) => !job.modifies,
            Work::Group(_) => true,
            _ => false,
        };
        reads && !self.has_lease(core, ctx)
    }

    /// Returns true if the promises of enough other serving members run.
    fn has_lease(&self, core: &Core, ctx: &Ctx<'_>) -> bool {
        let (mut others, mut promised) = (0, 0);
        for (copy, _) in self.members.all.iter().filter(|(_, member)| member.acting) {
            others += 1;
            promised += usize::from(ctx.leases.holds(ctx.now.mono, copy.osd));
        }
        core.scheme.may_read(others, promised)
    }

    /// Keeps a read, and what comes after it on its object, until other members answer again.
    pub(crate) fn wait_for_lease(&mut self, ctx: &mut Ctx<'_>, job: Job) {
        self.laggy.0.push(job.hold);
        record(ctx, &job.work, Step::WaitsForLease);
        self.keep_waiting(job);
        ctx.out.push(Effect::WantLease);
    }

    /// Other OSDs answered heartbeats: reads that waited for that go on.
    pub(crate) fn leases_renewed(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        if self.laggy.is_empty() {
            return;
        }
        if !self.has_lease(core, ctx) {
            return ctx.out.push(Effect::WantLease);
        }
        for hold in std::mem::take(&mut self.laggy.0) {
            let Some(job) = self.jobs.remove(&hold) else { continue };
            let head = job.head.clone();
            self.attempt(core, ctx, job);
            self.pump(core, ctx, &head);
        }
    }
}
