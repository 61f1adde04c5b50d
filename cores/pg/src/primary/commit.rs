//! From an outcome to an answer: submission of changes, and what waits until they are durable.

use crate::api::{ClientOp, Ctx, Effect};
use crate::body::{Body, IndexChange};
use crate::core::Commit;
use crate::core::Core;
use crate::entry::Done;
use crate::ops::run::{Change, Outcome, Side};
use crate::primary::Primary;
use crate::primary::lanes::{Job, Work, drop_op, reqid, send_all};
use crate::recorder::{OpKey, Step};
use messages::osd::{OpResult, OsdOpReply, flags};
use node::Mono;
use objectstore::{Refused, Ticket};
use std::collections::btree_map::Entry;
use types::{EVersion, Errno, HObject, Message, ObjectId, Rope, SessionId};

/// Something that happens when what it may have seen is durable.
pub(crate) struct Release {
    pub(crate) key: OpKey,
    pub(crate) session: SessionId,
    pub(crate) message: Option<Message>,
    /// Whose request it was, which object, and what happens besides.
    pub(crate) sides: Option<Box<Sides>>,
    /// The operation it answers. If the interval ends before, it is carried out anew in the next one, or found to be done.
    pub(crate) op: Option<Box<ClientOp>>,
    /// Time when it was executed.
    pub(crate) executed: Mono,
}

pub(crate) struct Sides {
    pub(crate) head: ObjectId,
    pub(crate) holder: (u8, i64),
    pub(crate) sides: Vec<Side>,
}

impl Release {
    #[inline]
    pub(crate) fn reply(ctx: &Ctx<'_>, op: &ClientOp, message: Message) -> Self {
        Self { key: op.key, session: op.session, message: Some(message), sides: None, op: None, executed: ctx.now.mono }
    }

    /// Gives the answer, and what happens besides.
    pub(crate) fn answer(self, ctx: &mut Ctx<'_>) -> Option<Box<Sides>> {
        if let Some(message) = self.message {
            ctx.out.push(Effect::Reply { op: self.key, session: self.session, message, executed: self.executed });
        }
        self.sides
    }

    /// The same with the operation that it answers.
    #[inline]
    pub(crate) fn of(mut self, work: Work) -> Self {
        if let Work::Client(op) | Work::Group(op) = work {
            self.op = Some(op);
        }
        self
    }
}

/// A change of the group that somebody waits for until it is durable at all members.
pub(crate) struct Pending {
    /// The transaction here.
    pub(crate) ticket: Ticket,
    /// Its place among the changes that were shipped in this interval. 0: nobody else has it.
    pub(crate) order: u64,
    /// The first of the log's entries in it; `None` if it has none.
    pub(crate) first: Option<EVersion>,
    /// The group's version with it.
    pub(crate) version: EVersion,
    /// The object it changes.
    pub(crate) head: Option<ObjectId>,
    /// What happens then, in this order.
    pub(crate) releases: Vec<Release>,
}

impl Pending {
    /// A change that was just submitted here.
    pub(crate) fn of(Commit { ticket, first, version }: Commit) -> Self {
        Self { ticket, order: 0, first, version, head: None, releases: Vec::new() }
    }
}

fn reply(ctx: &Ctx<'_>, op: &ClientOp, base: OsdOpReply) -> Message {
    let request = &op.op;
    let reply = OsdOpReply { oid: request.oid.clone(), pg: request.pg.pg, epoch: ctx.map.epoch, retry: request.retry, ..base };
    Message { tid: op.tid, ..reply.encode() }
}

fn results_without_outputs(op: &ClientOp) -> Vec<OpResult> {
    op.op.ops.iter().map(OpResult::of).collect()
}

/// The answer to an operation that was not carried out. It acknowledges no more than was asked for.
pub(crate) fn refusal(ctx: &Ctx<'_>, op: &ClientOp, result: i32) -> Message {
    let flags = i64::from(op.op.flags & !flags::ONNVRAM);
    reply(ctx, op, OsdOpReply { result, flags, ops: results_without_outputs(op), ..OsdOpReply::default() })
}

/// The answer to a request that was carried out before.
pub(crate) fn repeated(ctx: &Ctx<'_>, op: &ClientOp, done: &Done) -> Message {
    let mut ops = results_without_outputs(op);
    if op.op.flags & flags::RETURNVEC != 0 {
        for (slot, (rval, output)) in ops.iter_mut().zip(done.returns.iter().flatten()) {
            slot.rval = *rval;
            slot.output = Rope::from(output.clone());
        }
    }
    let base = OsdOpReply {
        result: done.result,
        flags: i64::from(op.op.flags & !flags::ONNVRAM),
        ops,
        replay_version: done.version,
        user_version: done.user_version,
        ..OsdOpReply::default()
    };
    reply(ctx, op, base)
}

/// The answer to an operation that was carried out.
fn answer(ctx: &Ctx<'_>, op: &ClientOp, result: i32, ops: Vec<OpResult>, version: EVersion, user_version: u64) -> Message {
    let flags = i64::from((op.op.flags | flags::ACK | flags::ONDISK) & !flags::ONNVRAM);
    reply(ctx, op, OsdOpReply { result, flags, ops, replay_version: version, user_version, ..OsdOpReply::default() })
}

/// A client's operation gets no answer; the client will send it again.
pub(crate) fn drop_work(ctx: &mut Ctx<'_>, work: &Work) {
    if let Work::Client(op) | Work::Group(op) = work {
        drop_op(ctx, op);
    }
}

/// Returns how much of the store is used, from 0 to 1. What the host cannot give is not there.
pub(crate) fn used(ctx: &Ctx<'_>) -> f64 {
    let space = ctx.store.space();
    let total = space.total.min(space.available + space.data + space.omap + space.meta);
    if total == 0 { 0.0 } else { 1.0 - space.available as f64 / total as f64 }
}

/// Returns true if the client of a write that found no room expects to wait: the disk is full, as the map will tell
/// it, and it asked for no other treatment. A write that is only too large for what is left of a disk that is not full
/// gets its answer.
fn waits_for_room(ctx: &Ctx<'_>, work: &Work) -> bool {
    let Work::Client(op) = work else { return false };
    let (space, full) = (ctx.store.space(), used(ctx) >= f64::from(ctx.map.full_ratio));
    // Room that comes back by itself is waited for, too, and what others took on the host.
    (full || space.host_full || ctx.store.congested())
        && op.op.flags & (flags::FULL_TRY | flags::FULL_FORCE) == 0
        && op.peer.kind != types::EntityType::Osd
}

fn sides(job: &Job, sides: Vec<Side>) -> Option<Box<Sides>> {
    if sides.is_empty() {
        return None;
    }
    let holder = match &job.work {
        Work::Client(op) => (reqid(op).kind, reqid(op).num),
        _ => (0, 0),
    };
    Some(Box::new(Sides { head: job.head.clone(), holder, sides }))
}

/// What became of an operation that was carried out.
pub(crate) struct Executed {
    pub(crate) result: i32,
    pub(crate) results: Vec<OpResult>,
    pub(crate) user_version: u64,
    pub(crate) sides: Vec<Side>,
}

/// The answer to a read that was carried out; `None`: nobody asked.
pub(crate) fn read_release(core: &Core, ctx: &Ctx<'_>, job: Job, done: Executed) -> Option<Release> {
    let Executed { result, results, mut user_version, sides: besides } = done;
    let besides = sides(&job, besides);
    let (op, mut version, whole) = match &job.work {
        Work::Client(op) => (op, EVersion::default(), false),
        Work::Group(op) => (op, core.info.last_update, true),
        _ => return None,
    };
    if !whole && result < 0 {
        // A failed read tells no version; a missing object the floor of its next one.
        user_version = 0;
        if result == Errno::ENOENT.wire() {
            (version, user_version) = (core.info.last_update, core.info.user_version);
        }
    }
    let message = answer(ctx, op, result, results, version, user_version);
    let mut release = Release::reply(ctx, op, message);
    release.sides = besides;
    Some(release.of(job.work))
}

impl Primary {
    /// A transaction is durable here. What waited for it happens when it is durable everywhere, in order.
    pub(crate) fn committed(&mut self, ctx: &mut Ctx<'_>, ticket: Ticket) {
        if let Some(pending) = self.pending_at(ticket) {
            for release in &pending.releases {
                ctx.recorder.step(release.key, ctx.now.mono, Step::Committed);
            }
        }
        self.due.release = true;
        self.note_taken(ticket);
    }

    /// Turns an outcome into a submission and an answer.
    pub(crate) fn conclude(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: Job, outcome: Outcome) {
        let trims = matches!(job.work, Work::Trim { .. });
        match outcome {
            Outcome::Drop => drop_work(ctx, &job.work),
            Outcome::Refused(result) => {
                let trimmed = if let Work::Trim { snap } = job.work { Some(snap) } else { None };
                if let Work::Client(op) | Work::Group(op) = &job.work {
                    let release = Release::reply(ctx, op, refusal(ctx, op, result));
                    self.release_after_lane(ctx, &job.head, release.of(job.work));
                }
                if let Some(snap) = trimmed {
                    // The object cannot be read; without its index entry the rest of the snapshot can be trimmed.
                    let index = vec![IndexChange::NoSnap(snap, HObject::clone(&job.head.object))];
                    self.change_unlogged(core, ctx, Body { index, ..Body::default() });
                }
            }
            Outcome::Read { result, results, user_version, sides, delta } => {
                core.info.stats.add(&delta);
                self.answer_read(core, ctx, job, Executed { result, results, user_version, sides });
            }
            Outcome::Write { result, results, user_version, sides, change } => {
                self.answer_write(core, ctx, job, Executed { result, results, user_version, sides }, *change);
            }
        }
        if trims {
            self.trimmed(ctx);
        }
    }

    fn answer_read(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: Job, done: Executed) {
        let notifies = done.sides.iter().filter(|side| matches!(side, Side::Notify { .. })).count();
        self.notify_count += u32::try_from(notifies).unwrap_or_default();
        let (head, whole) = (job.head.clone(), matches!(job.work, Work::Group(_)));
        match read_release(core, ctx, job, done) {
            Some(release) if whole => self.release_after_all(core, ctx, release),
            Some(release) => self.release_after_lane(ctx, &head, release),
            None => {}
        }
    }

    fn answer_write(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: Job, done: Executed, change: Change) {
        let Executed { result, results, user_version, sides: besides } = done;
        let version = change.body.version().unwrap_or(core.info.last_update);
        let besides = sides(&job, besides);
        let release = match &job.work {
            Work::Client(op) => {
                let message = answer(ctx, op, result, results, version, user_version);
                Release { sides: besides, ..Release::reply(ctx, op, message) }
            }
            _ => Release {
                key: OpKey::NONE,
                session: SessionId(0),
                message: None,
                sides: besides,
                op: None,
                executed: ctx.now.mono,
            },
        };
        match self.submit(core, ctx, change.body, change.shares.as_ref(), &job) {
            Ok(()) => {
                self.record_submission(ctx, release.key);
                if let Some(pending) = self.pending.back_mut() {
                    pending.releases.push(release.of(job.work));
                }
            }
            Err(Refused::NoSpace) if waits_for_room(ctx, &job.work) => {
                if let Work::Client(op) = &job.work {
                    ctx.out.push(Effect::NoSpace { session: op.session, pool: op.op.locator.pool, epoch: op.op.epoch });
                }
                drop_work(ctx, &job.work);
            }
            // Nothing was done, and the next map sends the client to another OSD.
            Err(Refused::Damaged) if ctx.steps_aside => drop_work(ctx, &job.work),
            Err(refused @ (Refused::NoSpace | Refused::TooLarge | Refused::Damaged)) => {
                if let Work::Client(op) = &job.work {
                    let errno = match refused {
                        Refused::NoSpace => Errno::ENOSPC,
                        Refused::TooLarge => Errno::EFBIG,
                        _ => Errno::EIO,
                    };
                    let release = Release::reply(ctx, op, refusal(ctx, op, errno.wire()));
                    self.release_after_lane(ctx, &job.head, release.of(job.work));
                }
            }
            Err(Refused::Stopped) => {
                drop_work(ctx, &job.work);
                core.stopped(ctx);
            }
        }
    }

    /// The change of an operation is on its way, here and to other copies.
    fn record_submission(&self, ctx: &mut Ctx<'_>, key: OpKey) {
        if key == OpKey::NONE {
            return;
        }
        ctx.recorder.step(key, ctx.now.mono, Step::Submitted);
        for (copy, _) in self.members.all.iter().filter(|(_, member)| member.acting) {
            ctx.recorder.shipped(key, *copy);
        }
    }

    /// The change of this transaction, while it is not durable at all members.
    fn pending_at(&mut self, ticket: Ticket) -> Option<&mut Pending> {
        let at = self.pending.partition_point(|pending| pending.ticket < ticket);
        self.pending.get_mut(at).filter(|pending| pending.ticket == ticket)
    }

    /// Lets happen what waited for changes that are durable at all members by now.
    pub(crate) fn release_durable(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        #[cfg(feature = "sim")]
        if core.mistake == Some(crate::selfcheck::Mistake::AckEarly) {
            self.pending.iter_mut().for_each(|pending| pending.order = 0);
        }
        #[cfg(feature = "sim")]
        if core.mistake == Some(crate::selfcheck::Mistake::AckByMost) {
            let members = &self.members;
            let lacking = |order: u64| members.all.values().filter(|m| m.acting && m.stream.oldest() <= order).count();
            self.pending.iter_mut().filter(|of| lacking(of.order) <= 1).for_each(|of| of.order = 0);
        }
        let before = self.pending.len();
        let sizes = ctx.config.sizes;
        #[cfg(feature = "sim")]
        let sizes = match core.mistake {
            Some(crate::selfcheck::Mistake::NeverHoldBack) => {
                crate::sizes::Sizes { ahead: usize::MAX, ahead_bodies: usize::MAX, ..sizes }
            }
            _ => sizes,
        };
        while let Some(pending) =
            self.pending.pop_front_if(|of| core.is_durable(of.ticket) && !self.members.wait_for(of.order, &sizes))
        {
            self.release_pending(ctx, pending);
        }
        if self.pending.len() < before {
            self.stable.plan(ctx.now.mono);
            self.unpark_released(core, ctx);
        }
    }

    fn release_pending(&mut self, ctx: &mut Ctx<'_>, pending: Pending) {
        let ticket = pending.ticket;
        self.stable.released(&pending);
        self.trim_noted(ticket);
        if let Some(head) = pending.head
            && let Entry::Occupied(mut entry) = self.lanes.entry(head)
        {
            let lane = entry.get_mut();
            lane.last = lane.last.filter(|last| *last != ticket);
            if lane.last.is_none() && lane.held.is_none() && lane.queue.is_empty() {
                entry.remove();
            }
        }
        for release in pending.releases {
            self.release(ctx, release);
        }
    }

    /// Releases when the newest change of the object is durable.
    pub(crate) fn release_after_lane(&mut self, ctx: &mut Ctx<'_>, head: &ObjectId, release: Release) {
        let ticket = self.lanes.get(head).and_then(|lane| lane.last);
        match ticket.and_then(|ticket| self.pending_at(ticket)) {
            Some(pending) => pending.releases.push(release),
            None => self.release(ctx, release),
        }
    }

    /// Releases when everything submitted so far is durable.
    fn release_after_all(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, release: Release) {
        let own = core.commits.back().copied();
        let newest = self.pending.back().map(|pending| pending.ticket);
        // This copy's own records, too, in which the other copies have no part.
        if let Some(own) = own.filter(|own| newest.is_none_or(|newest| newest < own.ticket)) {
            self.pending.push_back(Pending { first: None, ..Pending::of(own) });
        }
        match self.pending.back_mut() {
            Some(pending) => pending.releases.push(release),
            None => self.release(ctx, release),
        }
    }

    pub(crate) fn release(&mut self, ctx: &mut Ctx<'_>, release: Release) {
        let session = release.session;
        if let Some(sides) = release.answer(ctx) {
            self.carry_out(ctx, session, *sides);
        }
    }

    fn carry_out(&mut self, ctx: &mut Ctx<'_>, session: SessionId, besides: Sides) {
        let now = ctx.now.mono;
        let Sides { head, holder, sides } = besides;
        let mut sends = Vec::new();
        for side in sides {
            match side {
                Side::Connect(watch) => self.watches.connect(now, &head, &watch, session, &mut sends),
                Side::Disconnect { cookie, holder, tell } => self.watches.remove(&head, cookie, holder, tell, &mut sends),
                Side::Ping { cookie } => self.watches.ping(now, &head, cookie, holder),
                Side::Notify { id, cookie, timeout, payload, version } => {
                    let from = (session, holder.1 as u64);
                    self.watches.notify(now, &head, id, cookie, from, timeout, payload, version, &mut sends);
                }
                Side::Ack { id, cookie, reply } => self.watches.ack(holder, id, cookie, &reply, &mut sends),
            }
        }
        send_all(ctx, sends);
    }
}
