//! Which part this copy plays: it leads, follows, or is not needed any more.
//!
//! Every copy notes every interval, whatever it does. When one ends, all that belonged to it ends: operations that are not answered
//! are dropped (their clients send them again with the new map), streams to other copies too. What was submitted becomes durable; a
//! copy says nothing of itself before that.
//!
//! A letter is read only by who was in the same interval when it was written: the times for which sender and receiver know their
//! interval to last must meet. Intervals part the time, so two that meet are one.

use crate::api::{ClientOp, Ctx, Effect};
use crate::letter::{Envelope, Letter, Sealed};
use crate::pg::{Pg, Phase, Serving, Work, drop_op};
use crate::replica::Replica;
use messages::osd::code::backoff_op;
use node::{Level, Mono};
use types::OsdId;

/// Letters that are kept while a copy cannot read them. Who wrote them asks again.
const DEFERRED: usize = 64;

impl Pg {
    /// Takes the map in `ctx`: another interval, more groups, removed snapshots, fenced clients.
    pub fn new_map(&mut self, ctx: &mut Ctx<'_>) {
        self.core.epoch = ctx.map.epoch;
        if !ctx.map.pools.contains_key(&self.core.id.pg.pool) {
            return;
        }
        match &mut self.phase {
            Phase::Removing(_) | Phase::Removed => return,
            Phase::Loading(loading) => return loading.maps.push(ctx.map.clone()),
            Phase::Splitting(split) => {
                split.note(ctx.map);
                self.core.note_interval(ctx);
                return;
            }
            Phase::Uniting(_) | Phase::Leaving => {
                self.core.note_interval(ctx);
                return;
            }
            Phase::Broken => {
                if self.core.history.created > 0 {
                    self.core.note_interval(ctx);
                }
                return;
            }
            Phase::Peering(_) | Phase::Active | Phase::Replica(_) => {}
        }
        let fresh = self.core.note_interval(ctx);
        if fresh {
            self.stop_serving(ctx);
        }
        if self.change_share(ctx) {
            return;
        }
        if fresh { self.take_role(ctx) } else { self.go_on(ctx) }
    }

    /// The interval goes on with another map.
    fn go_on(&mut self, ctx: &mut Ctx<'_>) {
        if matches!(self.phase, Phase::Active) {
            self.forget_who_is_down(ctx);
        }
        match self.phase {
            Phase::Active if self.core.is_held() => {}
            Phase::Active => {
                self.fence(ctx);
                self.plan_trim(ctx);
                if self.core.history.estimated {
                    self.count_again(ctx);
                }
            }
            Phase::Peering(_) => self.peering_map(ctx),
            _ => {}
        }
    }

    /// Begins an interval.
    pub(crate) fn take_role(&mut self, ctx: &mut Ctx<'_>) {
        let leads = self.core.leads(ctx);
        self.ordered = self.ordered.filter(|_| leads);
        if leads {
            self.begin_peering(ctx);
        } else if self.core.history.created == 0 {
            // Nothing of it is here, and another OSD looks for it now.
            self.phase = Phase::Removed;
            ctx.out.push(Effect::Removed);
        } else {
            self.phase = Phase::Replica(Box::default());
            // What waited for the copy to be read.
            self.end_waiting(ctx);
            if !self.core.is_member(ctx.whoami) && self.core.history.created > 0 {
                self.show_up(ctx);
            }
        }
        for (from, envelope, letter) in std::mem::take(&mut self.deferred) {
            // None of them is a body, of which alone the time counts.
            self.read(ctx, from, envelope, ctx.now.mono, letter);
        }
    }

    /// A copy that is not needed says that it is there: it may know what others lack, or may be removed.
    pub(crate) fn show_up(&mut self, ctx: &mut Ctx<'_>) {
        let primary = self.core.history.interval.primary;
        if primary >= 0 && primary != ctx.whoami {
            self.volunteer(ctx);
        }
    }

    /// Ends all that belonged to the interval that is over. Clients send again what they sent to another primary, and only that: if this
    /// OSD leads the group on, it keeps their operations and begins them anew. What was done already is found in the log then.
    pub(crate) fn stop_serving(&mut self, ctx: &mut Ctx<'_>) {
        self.end_reads_aside(ctx);
        let serving = std::mem::take(&mut self.serving);
        // A scrub that was under way begins anew.
        self.ordered = self.ordered.or(serving.scrub.as_ref().map(|scrub| scrub.order()));
        self.members = Default::default();
        let mut kept: Vec<ClientOp> = Vec::new();
        kept.extend(self.end_work(ctx, serving));
        // In the order of arrival: so what one client asked stays in its order.
        kept.sort_by_key(|op| (op.received, op.tid));
        let keeps = self.core.leads(ctx) && !matches!(self.phase, Phase::Removing(_));
        self.core.forget_collected(ctx);
        for op in kept {
            if keeps { self.wait_for_active(ctx, op) } else { drop_op(ctx, &op) }
        }
        match &mut self.phase {
            Phase::Replica(replica) => replica.end(ctx),
            Phase::Peering(peering) => peering.end(ctx),
            _ => {}
        }
    }

    /// Gives up what was begun. Gives the clients' operations in it.
    fn end_work(&mut self, ctx: &mut Ctx<'_>, serving: Serving) -> Vec<ClientOp> {
        let mut works: Vec<Work> = Vec::new();
        for job in serving.jobs.into_values() {
            ctx.store.release(job.hold);
            works.push(job.work);
        }
        works.extend(serving.lanes.into_values().flat_map(|lane| lane.queue));
        works.extend(serving.recovery.unfound.into_values().flatten());
        for (session, id) in serving.backoffs {
            let message = self.backoff(ctx, backoff_op::UNBLOCK, id);
            ctx.out.push(Effect::Send { session, message });
        }
        let holds = [serving.trim.hold, serving.scrub.map(|scrub| scrub.hold)];
        holds.into_iter().flatten().for_each(|hold| ctx.store.release(hold));
        let answers = serving.pending.into_iter().flat_map(|pending| pending.releases);
        let answered: Vec<ClientOp> = answers.filter_map(|release| Some(*release.op?)).collect();
        let clients = works.into_iter().filter_map(|work| match work {
            Work::Client(op) | Work::Group(op) => Some(*op),
            Work::Expire { .. } | Work::Trim { .. } | Work::Bring(_) | Work::Check(_) | Work::Lose(_) => None,
        });
        answered.into_iter().chain(clients).chain(serving.waiting).collect()
    }

    /// Takes a letter of the copy on another OSD. This OSD has the map that its envelope names.
    ///
    /// `arrived`: when it was here, which is earlier than now if it waited for a map.
    ///
    /// # Errors
    /// It does not decode; nothing was changed.
    pub fn letter(&mut self, ctx: &mut Ctx<'_>, from: OsdId, arrived: Mono, letter: &Sealed) -> denc::Result<()> {
        let (envelope, letter) = Letter::open(letter)?;
        if matches!(self.phase, Phase::Loading(_) | Phase::Splitting(_) | Phase::Uniting(_)) {
            // Changes are sent again until they are promised.
            if self.deferred.len() < DEFERRED && !matches!(letter, Letter::Body(..)) {
                self.deferred.push((from, envelope, letter));
            }
        } else {
            self.read(ctx, from, envelope, arrived, letter);
            // What was promised may have been the last that a union waits for.
            self.tell_ready(ctx);
        }
        Ok(())
    }

    fn read(&mut self, ctx: &mut Ctx<'_>, from: OsdId, envelope: Envelope, arrived: Mono, letter: Letter) {
        if self.core.is_of_another_interval(envelope) {
            return;
        }
        match letter {
            Letter::Query
            | Letter::LogWish(_)
            | Letter::Activate(_)
            | Letter::Body(..)
            | Letter::Pull(..)
            | Letter::PullPart(..)
            | Letter::Scan(..)
            | Letter::Survey(_)
            | Letter::Spoilt(_)
            | Letter::Seek(_)
            | Letter::Reserve(..)
            | Letter::Release(_)
            | Letter::Settled(_)
            | Letter::Remove => {
                if from == self.core.history.interval.primary && from != ctx.whoami {
                    self.follow(ctx, from, arrived, letter);
                } else {
                    let text = format!(
                        "osd.{from} sent a letter that only the primary, osd.{}, sends",
                        self.core.history.interval.primary
                    );
                    self.core.log_line(ctx, Level::Warn, text);
                }
            }
            _ if self.core.leads(ctx) => self.hear(ctx, from, letter),
            _ => {}
        }
    }

    /// The session to another OSD was broken and stands again, or may be tried again: what is not answered is said again.
    pub fn peer_returns(&mut self, ctx: &mut Ctx<'_>, osd: OsdId) {
        match &self.phase {
            Phase::Peering(_) => self.ask_again(ctx, osd),
            Phase::Active => {
                self.recovery_resend(ctx, osd);
                self.ask_silent(ctx, Some(osd));
                self.dismiss_again(ctx, osd);
            }
            Phase::Replica(_) if self.core.history.interval.primary == osd => self.promise_again(ctx, osd),
            _ => {}
        }
    }

    /// Says again what a copy has not acknowledged.
    pub(crate) fn resend(&mut self, ctx: &mut Ctx<'_>, osd: OsdId) {
        let Some(member) = self.members.all.get(&osd) else { return };
        let envelope = self.core.envelope();
        let letters: Vec<Sealed> = match &member.activation {
            Some(part) => vec![Letter::Activate(part.clone()).seal(&envelope)],
            None => member.stream.unacknowledged(&envelope).collect(),
        };
        self.core.post(ctx, letters.into_iter().map(|letter| (osd, letter)).collect());
    }
}

impl Replica {
    /// The interval is over.
    fn end(&mut self, ctx: &mut Ctx<'_>) {
        self.holds().into_iter().for_each(|hold| ctx.store.release(hold));
    }
}
