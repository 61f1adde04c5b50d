//! A copy that leads its group: it serves clients, and sees to it that all copies hold the same.
//!
//! *Data and owner.* [`Primary`] belongs to one interval. Peering makes it ([`crate::peering`]) with what it has
//! learned of the other copies, and the group drops it with the interval. What [`Primary::end`] gives back is all that
//! is left of it: operations of clients that are not answered, and a scrub that is still wanted. What outlives
//! intervals is in [`Core`], which each handler borrows.
//!
//! | datum | file |
//! |---|---|
//! | lanes and jobs: work on objects | `lanes.rs` |
//! | changes that are not durable at all members, and what waits for them | `commit.rs`; how they get to the others: `ship.rs` |
//! | which changes are never undone any more | `stable.rs` |
//! | what other copies were asked | [`crate::questions`]; what jobs get of other shards: `asking.rs` |
//! | the other copies: what each holds and lacks, its stream | `members.rs` |
//! | objects that are brought | `recovery.rs`, `parts.rs`, `backfill.rs`, of shards `remake.rs`; slots for that: `reserve.rs`; what nobody has: `unfound.rs` |
//! | scrub, trim, copies from other objects, watches | `scrub/`, `trim.rs`, `fetch.rs`, `watches.rs` |
//! | reads that wait for other members' promises | `laggy.rs` |
//!
//! What a call leaves to be done for others is done once, at its end: `settle.rs`.
//!
//! *Invariants* are in `invariants.rs`. Between two calls: a lane is there exactly while its object has work or a
//! change that is not durable; changes wait in the order of their tickets; every job waits for something.
//!
//! A handler never changes the part that the copy plays, and calls nobody above it.

pub(crate) mod asking;
pub(crate) mod backfill;
pub(crate) mod commit;
pub(crate) mod fetch;
#[cfg(any(test, feature = "sim"))]
mod invariants;
pub(crate) mod laggy;
pub(crate) mod lanes;
pub(crate) mod members;
pub(crate) mod parts;
pub(crate) mod recovery;
pub(crate) mod remake;
mod report;
pub(crate) mod reserve;
pub(crate) mod scrub;
pub(crate) mod settle;
pub(crate) mod ship;
pub(crate) mod stable;
pub(crate) mod trim;
pub(crate) mod unfound;
pub(crate) mod watches;

use crate::api::{ClientOp, Ctx, Effect};
use crate::core::Core;
use crate::letter::{Letter, PeerInfo, Sealed};
use crate::log::common;
use crate::missing::Lack;
use crate::ops::portion::Copying;
use crate::questions::{Questions, Subject};
use crate::scrub::findings::Findings;
use crate::watch::Watches;
use commit::Pending;
use laggy::Laggy;
use lanes::{Job, Lane, Work};
use members::Members;
use node::Mono;
use objectstore::Hold;
use recovery::Recovery;
use reserve::Reserve;
use scrub::{Order, Scrub};
use settle::Due;
use stable::Stable;
use std::collections::{BTreeMap, VecDeque};
use trim::Trim;
use types::{CopyId, HObject, ObjectId, SessionId};
use unfound::Search;

/// Stage of a primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Peering makes it: the copies have not agreed.
    #[default]
    Making,
    /// The copies agree, but they are fewer than the pool needs to serve, or the group is about to be merged.
    Held,
    /// Operations run.
    Serves,
}

/// What a group has only while this OSD leads it, in one interval. See the module's text.
#[derive(Default)]
pub(crate) struct Primary {
    pub(crate) stage: Stage,
    pub(crate) lanes: BTreeMap<ObjectId, Lane>,
    pub(crate) jobs: BTreeMap<Hold, Job>,
    /// Changes that are not durable at all members, oldest first.
    pub(crate) pending: VecDeque<Pending>,
    /// In a group of shards: changes that are never undone any more.
    pub(crate) stable: Stable,
    /// Questions to other copies.
    pub(crate) questions: Questions,
    /// The other copies.
    pub(crate) members: Members,
    pub(crate) watches: Watches,
    pub(crate) copying: BTreeMap<u64, Copying>,
    pub(crate) trim: Trim,
    /// A scrub that shall begin.
    pub(crate) ordered: Option<Order>,
    pub(crate) scrub: Option<Box<Scrub>>,
    /// Findings of scrubs.
    pub(crate) findings: Option<Box<Findings>>,
    /// A repair left errors.
    pub(crate) failed_repair: bool,
    pub(crate) recovery: Recovery,
    /// Slots for what is brought.
    pub(crate) reserve: Reserve,
    /// What is known of objects that no member has.
    pub(crate) search: Search,
    pub(crate) laggy: Laggy,
    /// What the call that is under way leaves to be done.
    pub(crate) due: Due,
    /// It was told that the group is ready to be merged.
    pub(crate) ready: bool,
    /// Notifications that were begun.
    pub(crate) notify_count: u32,
}

impl Primary {
    /// Returns true if operations are carried out.
    pub(crate) fn is_active(&self) -> bool {
        self.stage == Stage::Serves
    }

    /// Returns true if the copies have agreed.
    pub(crate) fn has_begun(&self) -> bool {
        self.stage != Stage::Making
    }

    /// The copies agree: the group serves from here on, if it has members enough.
    pub(crate) fn begin(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        self.stage = Stage::Held;
        // Somebody may have gone since the copies agreed.
        self.forget_who_is_down(core, ctx);
        core.history.last_change = ctx.now.wall;
        if !core.is_held() {
            self.stage = Stage::Serves;
            self.stable.begin(core, ctx.now.mono);
            self.fence(core, ctx);
            self.plan_trim(core, ctx);
            if core.history.estimated {
                self.count_again(core, ctx);
            }
            self.begin_ordered(core, ctx);
        }
        self.due.recovery = true;
    }

    /// The interval goes on with another map.
    pub(crate) fn new_map(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        self.forget_who_is_down(core, ctx);
        if core.is_held() {
            return;
        }
        self.fence(core, ctx);
        self.plan_trim(core, ctx);
        if core.history.estimated {
            self.count_again(core, ctx);
        }
    }

    /// Takes what another copy says.
    pub(crate) fn hear(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, from: CopyId, letter: Letter) {
        match letter {
            Letter::Info(info) if !self.members.all.contains_key(&from) => self.hear_stray(core, ctx, from, *info),
            Letter::Activated(missing) => _ = self.hear_activated(core, ctx, from, missing),
            Letter::Ack(number, time) => self.hear_ack(core, ctx, from, number, time, Vec::new()),
            Letter::AckLacking(number, time, objects) => self.hear_ack(core, ctx, from, number, time, objects),
            Letter::Pulled(object, at, piece) => self.hear_pulled(core, ctx, from, object, at, piece),
            Letter::PulledPart(object, have, piece) => self.hear_pulled_part(core, ctx, from, object, have, piece),
            Letter::Scanned(begin, end, found) => self.hear_scanned(core, ctx, from, &begin, end, found),
            Letter::Surveyed(answer) => self.hear_surveyed(core, ctx, from, *answer),
            Letter::Reserved(number, lends) => self.hear_reserved(core, ctx, from, number, lends),
            Letter::Sought(sought) => self.hear_sought(core, ctx, from, sought),
            Letter::Unable => self.hear_unable(core, ctx, from),
            Letter::ShardRead(question, parts) => self.hear_shard(core, ctx, from, *question, parts),
            Letter::Settle => self.tell_what_is_settled(core, ctx, from),
            _ => {}
        }
    }

    /// The session to another OSD was broken and stands again, or may be tried again: what is not answered is said
    /// again.
    pub(crate) fn peer_returns(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, copy: CopyId) {
        // Who was to remove what it has may be the only one who has something, once the group is not clean any more.
        let clean = self.is_clean(core);
        self.questions.repeat(core, ctx, |to, subject| to == copy && (clean || *subject != Subject::Removal));
        self.resend(core, ctx, copy);
    }

    /// What the store was asked for is there.
    pub(crate) fn store_fetched(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, hold: Hold) {
        if self.resume(core, ctx, hold) {
            return;
        }
        if self.backfill_fetched(core, ctx, hold) {
            self.due.recovery = true;
        } else if self.trim.hold == Some(hold) {
            self.step_trim(core, ctx);
        } else if self.scrub.as_ref().is_some_and(|scrub| scrub.hold == hold) {
            self.scrub_fetched(core, ctx);
        }
    }

    /// Meets deadlines and takes a step of background work.
    pub(crate) fn turn(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        let now = ctx.now.mono;
        self.questions.turn(core, ctx);
        if self.is_active() {
            self.turn_watches(core, ctx);
            self.tell_stable(core, ctx);
            if self.trim.due(now) {
                self.step_trim(core, ctx);
            }
            if self.scrub.as_ref().is_some_and(|scrub| scrub.due(now)) {
                self.step_scrub(core, ctx);
            }
        }
        self.step_recovery(core, ctx);
    }

    /// Returns when [`Primary::turn`] must be called at the latest. `serves`: it looks at what serving brings, too.
    pub(crate) fn deadline(&self, serves: bool) -> Mono {
        let recovery = self.recovery.deadline().min(self.questions.deadline());
        if !serves {
            // What serving brings waits until there are members enough.
            return recovery;
        }
        let scrub = self.scrub.as_ref().map_or(Mono::NEVER, |scrub| scrub.deadline());
        self.watches.deadline().min(self.trim.deadline()).min(scrub).min(recovery).min(self.stable.deadline())
    }

    /// The store carried a change out and needed old data that are damaged: another copy has these objects as they
    /// should be.
    pub(crate) fn meet_damage(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, objects: Vec<HObject>) {
        for object in objects {
            core.report_change_on_damage(ctx, &object);
            if self.can_be_had(core, &object) {
                self.mend(core, ctx, object);
            }
        }
    }

    /// The session is gone: nothing of it is begun any more, its watches wait for it to come back. `stays` tells, of
    /// an operation that is dropped, that it is.
    pub(crate) fn session_closed(&mut self, now: Mono, session: SessionId, mut stays: impl FnMut(&ClientOp) -> bool) {
        for lane in self.lanes.values_mut() {
            lane.queue.retain(|work| !matches!(work, Work::Client(op) if !stays(op)));
        }
        self.watches.session_closed(now, session);
    }

    /// The interval is over. Gives the operations of clients that are not answered, and a scrub that is still wanted:
    /// one that was under way begins anew.
    pub(crate) fn end(self, ctx: &mut Ctx<'_>) -> (Vec<ClientOp>, Option<Order>) {
        let ordered = self.ordered.or(self.scrub.as_ref().map(|scrub| scrub.order()));
        let answers = self.pending.into_iter().flat_map(|pending| pending.releases);
        let mut ops: Vec<ClientOp> = answers.filter_map(|release| Some(*release.op?)).collect();
        let mut works: Vec<Work> = Vec::new();
        for job in self.jobs.into_values() {
            ctx.store.release(job.hold);
            works.push(job.work);
        }
        works.extend(self.lanes.into_values().flat_map(|lane| lane.queue));
        works.extend(self.recovery.unfound.into_values().flatten());
        let holds = [self.trim.hold, self.scrub.map(|scrub| scrub.hold)];
        holds.into_iter().flatten().for_each(|hold| ctx.store.release(hold));
        ops.extend(works.into_iter().filter_map(|work| match work {
            Work::Client(op) | Work::Group(op) => Some(*op),
            Work::Expire { .. } | Work::Trim { .. } | Work::Bring(_) | Work::Check(_) | Work::Lose(_) => None,
        }));
        (ops, ordered)
    }

    /// The operations of clients that it keeps.
    pub(crate) fn ops(&self) -> impl Iterator<Item = &ClientOp> {
        let begun = self.jobs.values().map(|job| &job.work);
        let queued = self.lanes.values().flat_map(|lane| &lane.queue);
        let unfound = self.recovery.unfound.values().flatten();
        let works = begun.chain(queued).chain(unfound).filter_map(Work::op);
        works.chain(self.pending.iter().flat_map(|pending| &pending.releases).filter_map(|release| release.op.as_deref()))
    }

    /// A copy has taken up the log. False if it was not asked to, or has said so before.
    pub(crate) fn hear_activated(
        &mut self,
        core: &mut Core,
        ctx: &mut Ctx<'_>,
        from: CopyId,
        missing: Vec<(HObject, Lack)>,
    ) -> bool {
        if self.questions.answered(from, Subject::Activation).is_none() {
            return false;
        }
        let Some(member) = self.members.all.get_mut(&from) else { return false };
        member.missing = missing.into_iter().collect();
        member.activated = true;
        self.search.ask_anew(&mut self.questions, from);
        // What came about meanwhile.
        self.resend(core, ctx, from);
        self.due.recovery = true;
        true
    }

    /// Copies that are no members, with the very log that counts and nothing missing, can give objects.
    pub(crate) fn note_sources(&mut self, core: &mut Core, infos: &BTreeMap<CopyId, PeerInfo>, own: &PeerInfo) {
        let head = core.info.last_update;
        let whole = infos.iter().filter(|(_, peer)| peer.missing == 0 && peer.history.is_complete());
        for (copy, _) in whole.filter(|(_, peer)| common(&peer.runs, &own.runs) == head) {
            self.members.sources.entry(*copy).or_default().head = head;
        }
        self.members.strays.extend(infos.keys());
    }

    /// Sends again the changes that a copy has not acknowledged.
    pub(crate) fn resend(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, copy: CopyId) {
        let Some(member) = self.members.all.get(&copy).filter(|member| member.activated) else { return };
        let envelope = core.envelope().to(copy);
        let letters: Vec<Sealed> = member.stream.unacknowledged(&envelope).collect();
        core.post(ctx, letters.into_iter().map(|letter| (copy, letter)).collect());
    }

    /// A copy wants to know which changes are durable at all members.
    pub(crate) fn tell_what_is_settled(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, to: CopyId) {
        if !self.is_active() || self.members.all.get(&to).is_none_or(|member| !member.acting) {
            return;
        }
        // What was released is durable at all members; of the rest the oldest entry tells where that ends.
        let open = self.pending.iter().find_map(|pending| pending.first);
        let upto = open.map_or(core.info.last_update.version, |first| first.version.saturating_sub(1));
        core.tell(ctx, to, &Letter::Settled(upto));
    }

    /// Returns true if the group is about to be merged, and this OSD, which leads it, knows that all copies are whole
    /// and durable and that nothing is under way.
    pub(crate) fn is_ready(&self, core: &Core) -> bool {
        // What is kept of one group would be nobody's in the united one.
        let idle =
            core.kept.is_empty() && self.jobs.is_empty() && self.lanes.is_empty() && self.pending.is_empty() && core.is_drained();
        core.history.interval.is_premerge() && self.is_clean(core) && self.recovery.clean && idle
    }

    /// Lets the monitors hear soon that the group is ready to be merged.
    pub(crate) fn tell_ready(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        if core.history.interval.is_premerge() && !self.ready && self.is_ready(core) {
            self.ready = true;
            ctx.out.push(Effect::Ready);
        }
    }
}
