//! Which part this copy plays: it leads, follows, or is not needed any more.
//!
//! Every copy notes every interval, whatever it does. When one ends, all that belonged to it ends: operations that are not answered
//! are dropped (their clients send them again with the new map), streams to other copies too. What was submitted becomes durable; a
//! copy says nothing of itself before that.
//!
//! A letter is read only by who was in the same interval when it was written: the times for which sender and receiver know their
//! interval to last must meet. Intervals part the time, so two that meet are one.

use crate::api::{ClientOp, Ctx, Effect};
use crate::lease::readers;
use crate::letter::{Envelope, Letter, PeerInfo, Sealed};
use crate::pg::{Pg, Phase, Serving, Work, drop_op};
use crate::replica::Replica;
use messages::osd::code::backoff_op;
use node::{Level, Mono};
use types::OsdId;

/// Letters that are kept while a copy cannot read them. Who wrote them asks again.
const DEFERRED: usize = 64;

impl Pg {
    /// Whether this OSD leads the group in the present interval.
    pub(crate) fn leads(&self, ctx: &Ctx<'_>) -> bool {
        self.history.interval.primary == ctx.whoami
    }

    /// Whether the map says so, for a copy that does not know its interval.
    pub(crate) fn leads_by_map(&self, ctx: &Ctx<'_>) -> bool {
        ctx.map.placed(self.id.pg).acting_primary == ctx.whoami
    }

    /// Whether the present interval wants a copy here.
    pub(crate) fn is_member(&self, whoami: OsdId) -> bool {
        let interval = &self.history.interval;
        interval.members().chain(interval.home()).any(|osd| osd == whoami)
    }

    /// Takes the map in `ctx`: another interval, more groups, removed snapshots, fenced clients.
    pub fn new_map(&mut self, ctx: &mut Ctx<'_>) {
        self.epoch = ctx.map.epoch;
        if !ctx.map.pools.contains_key(&self.id.pg.pool) {
            return;
        }
        match &mut self.phase {
            Phase::Removing(_) | Phase::Removed => return,
            Phase::Loading(loading) => return loading.maps.push(ctx.map.clone()),
            Phase::Splitting(split) => {
                split.note(ctx.map);
                self.note_interval(ctx);
                return;
            }
            Phase::Uniting(_) | Phase::Leaving => {
                self.note_interval(ctx);
                return;
            }
            Phase::Broken => {
                if self.history.created > 0 {
                    self.note_interval(ctx);
                }
                return;
            }
            Phase::Peering(_) | Phase::Active | Phase::Replica(_) => {}
        }
        let fresh = self.note_interval(ctx);
        if fresh {
            self.stop_serving(ctx);
        }
        if self.change_share(ctx) {
            return;
        }
        if fresh { self.take_role(ctx) } else { self.go_on(ctx) }
    }

    /// Notes the members that the map has. True if an interval ended, which is written down before the map is.
    pub(crate) fn note_interval(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let fresh = self.history.note(ctx.map, self.id.pg);
        if fresh {
            self.history.last_change = ctx.now.wall;
            if self.history.created > 0 {
                self.save(ctx);
            }
        }
        fresh
    }

    /// The interval goes on with another map.
    fn go_on(&mut self, ctx: &mut Ctx<'_>) {
        if matches!(self.phase, Phase::Active) {
            self.forget_who_is_down(ctx);
        }
        match self.phase {
            Phase::Active if self.is_held() => {}
            Phase::Active => {
                self.fence(ctx);
                self.plan_trim(ctx);
                if self.history.estimated {
                    self.count_again(ctx);
                }
            }
            Phase::Peering(_) => self.peering_map(ctx),
            _ => {}
        }
    }

    /// Begins an interval.
    pub(crate) fn take_role(&mut self, ctx: &mut Ctx<'_>) {
        let leads = self.leads(ctx);
        self.ordered = self.ordered.filter(|_| leads);
        if leads {
            self.begin_peering(ctx);
        } else if self.history.created == 0 {
            // Nothing of it is here, and another OSD looks for it now.
            self.phase = Phase::Removed;
            ctx.out.push(Effect::Removed);
        } else {
            self.phase = Phase::Replica(Box::default());
            // What waited for the copy to be read.
            self.end_waiting(ctx);
            if !self.is_member(ctx.whoami) && self.history.created > 0 {
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
        let primary = self.history.interval.primary;
        if primary >= 0 && primary != ctx.whoami {
            self.volunteer(ctx);
        }
    }

    /// What this copy holds.
    pub(crate) fn peer_info(&self) -> PeerInfo {
        let mut runs = self.log.runs();
        let head = self.info.last_update;
        // After a split, and after trimming, the newest version may have no entry.
        match runs.last_mut() {
            Some((epoch, last)) if *epoch == head.epoch => *last = head.version.max(*last),
            _ if head.version > 0 => runs.push((head.epoch, head.version)),
            _ => {}
        }
        let missing = self.missing.len() as u64;
        PeerInfo { info: self.info.clone(), history: self.history.clone(), runs, missing, rests: Vec::new() }
    }

    /// What is left of promises to those who may have read in earlier intervals.
    pub(crate) fn rests(&self, ctx: &Ctx<'_>) -> Vec<(OsdId, u32)> {
        ctx.leases.rests(ctx.now.mono, &self.history.past, readers(ctx.map.level))
    }

    /// Tells another copy what this one holds, and what it promised to members of earlier intervals.
    pub(crate) fn tell_info(&self, ctx: &mut Ctx<'_>, to: OsdId) {
        let rests = self.rests(ctx);
        self.tell(ctx, to, &Letter::Info(Box::new(PeerInfo { rests, ..self.peer_info() })));
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
        for commit in &mut self.commits {
            (commit.order, commit.promise, commit.head) = (0, None, None);
            kept.extend(std::mem::take(&mut commit.releases).into_iter().filter_map(|release| Some(*release.op?)));
        }
        // What is durable waited for other copies only. It would stand before what undoes it, and a split would wait for it for ever.
        while self.commits.front().is_some_and(|commit| commit.durable) {
            self.commits.pop_front();
        }
        kept.extend(self.end_work(ctx, serving));
        // In the order of arrival: so what one client asked stays in its order.
        kept.sort_by_key(|op| (op.received, op.tid));
        let keeps = self.leads(ctx) && !matches!(self.phase, Phase::Removing(_));
        self.forget_collected(ctx);
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
        let clients = works.into_iter().filter_map(|work| match work {
            Work::Client(op) | Work::Group(op) => Some(*op),
            Work::Expire { .. } | Work::Trim { .. } | Work::Bring(_) | Work::Check(_) | Work::Lose(_) => None,
        });
        clients.chain(serving.waiting).collect()
    }

    /// Sends a letter to another copy.
    pub(crate) fn tell(&self, ctx: &mut Ctx<'_>, to: OsdId, letter: &Letter) {
        let letter = letter.seal(&self.envelope());
        ctx.out.push(Effect::Tell { to, letter });
    }

    pub(crate) fn post(&self, ctx: &mut Ctx<'_>, letters: Vec<(OsdId, Sealed)>) {
        ctx.out.extend(letters.into_iter().map(|(to, letter)| Effect::Tell { to, letter }));
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
        if self.is_of_another_interval(envelope) {
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
                if from == self.history.interval.primary && from != ctx.whoami {
                    self.follow(ctx, from, arrived, letter);
                } else {
                    let text =
                        format!("osd.{from} sent a letter that only the primary, osd.{}, sends", self.history.interval.primary);
                    self.log_line(ctx, Level::Warn, text);
                }
            }
            _ if self.leads(ctx) => self.hear(ctx, from, letter),
            _ => {}
        }
    }

    fn is_of_another_interval(&self, envelope: Envelope) -> bool {
        #[cfg(feature = "sim")]
        if self.mistake == Some(crate::selfcheck::Mistake::OtherInterval) {
            return false;
        }
        envelope.epoch < self.history.since || envelope.interval > self.epoch
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
            Phase::Replica(_) if self.history.interval.primary == osd => self.promise_again(ctx, osd),
            _ => {}
        }
    }

    /// Says again what a copy has not acknowledged.
    pub(crate) fn resend(&mut self, ctx: &mut Ctx<'_>, osd: OsdId) {
        let Some(member) = self.members.all.get(&osd) else { return };
        let envelope = self.envelope();
        let letters: Vec<Sealed> = match &member.activation {
            Some(part) => vec![Letter::Activate(part.clone()).seal(&envelope)],
            None => member.stream.unacknowledged(&envelope).collect(),
        };
        self.post(ctx, letters.into_iter().map(|letter| (osd, letter)).collect());
    }
}

impl Replica {
    /// The interval is over.
    fn end(&mut self, ctx: &mut Ctx<'_>) {
        self.holds().into_iter().for_each(|hold| ctx.store.release(hold));
    }
}
