//! Bringing objects to copies that lack them, or from one that has them.
//!
//! An object, head and clones together, goes through its lane: nothing else happens to it until its last piece is in the streams. So a
//! piece is what the group holds at its place in the stream. A client's operation on an object that is missing here, or a write to one
//! that is missing elsewhere, lets it be brought first.
//!
//! An object that no copy has that can be reached is *unfound*. Operations on it wait until somebody comes who has it, or an
//! operator gives it up.

use crate::api::{Ctx, Effect};
use crate::body::{Body, Progress};
use crate::core::Core;
use crate::letter::{Letter, PeerInfo};
use crate::meta::same_object;
use crate::missing::{Lack, is_missing, missing_of};
use crate::object::{Piece, PieceAt, index_of, place, read_piece, removal};
use crate::pieces::Want;
use crate::primary::Primary;
use crate::primary::commit::Pending;
use crate::primary::lanes::{Job, Work, looked_at};
use crate::primary::members::Source;
use crate::primary::remake::Remake;
use crate::primary::reserve::Move;
use crate::questions::Subject;
use crate::recorder::CopyTime;
use maps::{Interval, flags};
use node::{Level, Mono};
use objectstore::{Hold, Refused, Ticket, Unread, Wish};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use types::{CopyId, EVersion, HObject, ObjectId, SnapId, is_osd};

/// After this, recovery looks at its lists again, and changes that are not acknowledged are sent again.
const AGAIN: Duration = Duration::from_secs(5);
/// Pieces of an omap that are under way to a copy at a time.
const FEW: usize = 2;
/// What was taken from another copy and can be read for so long has been kept: if it rots later, that is new damage. An interval may last
/// for months.
const KEEPS: Duration = Duration::from_secs(3600);

/// An object that is being brought.
#[derive(Default)]
pub(crate) struct Bring {
    /// A copy that is being filled; else all who lack it.
    pub(crate) filled: Option<CopyId>,
    /// Heads and clones that are still to go; listed when it begins.
    pub(super) queue: Option<VecDeque<HObject>>,
    /// All of them.
    pub(super) unit: Vec<HObject>,
    /// In a group of shards: the first one, of which shards are made.
    pub(super) remake: Option<Remake>,
    /// The next piece of the first one.
    pub(crate) at: PieceAt,
    /// Who gets it, from its first piece on: who comes later gets it from the beginning.
    pub(super) targets: Vec<CopyId>,
    /// Places of the last pieces in the streams, at most [`FEW`].
    sent: VecDeque<u64>,
    /// A change waits for it, and begins when it is durable where it was brought.
    pub(super) settles: bool,
}

impl Bring {
    /// Goes before other work on the object; `settles`: work that changes it.
    pub(crate) fn before(settles: bool) -> Self {
        Self { settles, ..Self::default() }
    }
}

/// What an operator wants first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Forced {
    pub(crate) recovery: bool,
    pub(crate) backfill: bool,
}

/// What is brought in this interval.
#[derive(Default)]
pub(crate) struct Recovery {
    /// Heads that are being brought, by recovery itself.
    begun: BTreeSet<HObject>,
    /// Jobs that wait until a copy has taken some of what is under way to it, or until what was brought is durable.
    pub(super) parked: Vec<Hold>,
    /// Jobs whose object cannot be read here, though it was taken from elsewhere, and when they try that again.
    unreadable: Vec<(Mono, Hold)>,
    /// Objects that were brought here, by the transactions of their last pieces, until these are durable.
    taken: BTreeMap<HObject, Ticket>,
    /// Heads of which some object is unfound, and what waits for them.
    pub(crate) unfound: BTreeMap<HObject, VecDeque<Work>>,
    /// Objects whose copy here could not be read and was taken from elsewhere, and when. What cannot be read again within [`KEEPS`] is an error:
    /// the disk does not keep it.
    mended: BTreeMap<HObject, Mono>,
    /// More could be brought, but the OSD's pace did not allow it.
    pub(crate) held_back: bool,
    /// An operator wants this group to recover, or to backfill, before others.
    forced: Forced,
    /// Time to look again.
    pub(crate) next: Option<Mono>,
    /// Time when changes that are not acknowledged were sent again last.
    resent_at: Mono,
    /// It was told that the group is clean.
    pub(crate) clean: bool,
}

impl Recovery {
    pub(crate) fn deadline(&self) -> Mono {
        self.next.unwrap_or(Mono::NEVER)
    }

    /// Returns what an operator wants first.
    pub(crate) fn forced(&self) -> Forced {
        self.forced
    }

    /// Notes that an object was brought here, by the transaction of its last piece.
    pub(crate) fn took(&mut self, object: HObject, ticket: Ticket) {
        self.taken.insert(object, ticket);
    }
}

impl Primary {
    /// Returns true if objects are being brought.
    pub(crate) fn is_bringing(&self) -> bool {
        let pulls = || self.questions.iter().any(|(_, subject, _)| matches!(subject, Subject::Object(_)));
        !self.recovery.begun.is_empty() || pulls()
    }

    /// Returns true if work on this object must wait until it was brought.
    pub(crate) fn must_bring(&self, core: &Core, head: &ObjectId, modifies: bool) -> bool {
        if core.missing.is_empty() && self.members.all.is_empty() {
            return false;
        }
        is_missing(&core.missing, head)
            || modifies && (self.members.anybody_lacks(head) || self.is_arriving(head))
            || self.members.are_too_few(core, head)
    }

    /// Returns true if this head, or one of its clones, was brought to a copy, or here, and is not durable there.
    ///
    /// A change waits for that. Else who has the change and dies may be the only one who has what was before it. If the others go on
    /// without the change, it is undone there, and what was before it is nowhere.
    pub(super) fn is_arriving(&self, head: &HObject) -> bool {
        self.members.is_on_its_way(head) || is_missing(&self.recovery.taken, head)
    }

    /// An operator wants the group to recover (or to backfill) before others, or in its turn again. It holds for this interval.
    pub(crate) fn force(&mut self, backfill: bool, first: bool) {
        let forced = &mut self.recovery.forced;
        *(if backfill { &mut forced.backfill } else { &mut forced.recovery }) = first;
        self.due.recovery = true;
    }

    /// The object that a client's operation could not read here, if another copy has it and this one was not mended before.
    pub(crate) fn mendable(&self, core: &Core, ctx: &Ctx<'_>, job: &Job) -> Option<HObject> {
        looked_at(ctx, job).filter(|object| self.is_mendable(core, ctx.now.mono, object))
    }

    /// Returns who has an object as the group has it now.
    ///
    /// Of what is missing here it is known since when. Of what becomes missing now, because it cannot be read, anything may have been
    /// written up to now.
    pub(crate) fn holders(&self, core: &Core, object: &HObject) -> Vec<CopyId> {
        let need = core.missing.get(object).map_or(core.info.last_update, |lack| lack.need);
        self.members.holders(object, need)
    }

    /// Returns true if an object can be made of what other copies hold of it.
    pub(crate) fn can_be_had(&self, core: &Core, object: &HObject) -> bool {
        match core.scheme.is_whole() {
            true => core.scheme.can_make(&self.holders(core, object)),
            false => core.scheme.can_make(&self.members.shards_of(object)),
        }
    }

    /// Returns true if another copy has an object that was not mended here a short time ago.
    pub(crate) fn is_mendable(&self, core: &Core, now: Mono, object: &HObject) -> bool {
        let kept = self.recovery.mended.get(object).is_none_or(|at| at.plus(KEEPS) <= now);
        kept && self.can_be_had(core, object)
    }

    /// Takes an object from another copy, and does then what could not read it.
    pub(crate) fn mend_first(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: Job, object: HObject) {
        self.mend(core, ctx, object);
        self.bring_before(core, ctx, job);
    }

    /// This copy of an object cannot be read: another one takes its place.
    pub(crate) fn mend(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, object: HObject) {
        self.recovery.mended.insert(object.clone(), ctx.now.mono);
        core.repaired += 1;
        core.mark_missing(ctx, object);
        self.due.recovery = true;
    }

    /// Begins to bring an object, before all that waits for it.
    pub(crate) fn bring(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, head: HObject, filled: Option<CopyId>) {
        let head = core.object(head);
        self.enqueue(core, ctx, head, Work::Bring(Box::new(Bring { filled, ..Bring::default() })));
    }

    /// Has recovery look at its lists in the next turn: something of them may have changed.
    pub(crate) fn plan_recovery(&mut self, ctx: &mut Ctx<'_>) {
        if self.has_begun() {
            let recovery = &mut self.recovery;
            recovery.next = Some(ctx.now.mono);
            if recovery.resent_at == Mono::default() {
                recovery.resent_at = ctx.now.mono;
            }
        }
    }

    /// Has recovery look at its lists at this time, whatever was planned in this call.
    fn look_not_before(&mut self, at: Mono) {
        self.due.recovery = false;
        self.recovery.next = Some(at);
    }

    /// Takes a step: some more objects on their way.
    pub(crate) fn step_recovery(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        if std::mem::take(&mut self.due.recovery) {
            self.plan_recovery(ctx);
        }
        let due = self.recovery.next.is_some_and(|next| next <= ctx.now.mono);
        if !due || !self.has_begun() {
            return;
        }
        self.recovery.next = None;
        self.recovery.held_back = false;
        if self.recovery.resent_at.plus(AGAIN) <= ctx.now.mono {
            self.recovery.resent_at = ctx.now.mono;
            let members: Vec<CopyId> = self.members.all.keys().copied().collect();
            members.into_iter().for_each(|copy| self.resend(core, ctx, copy));
        }
        self.retry_unreadable(core, ctx);
        self.search.ask_again(ctx.now.mono);
        self.retry_unfound(core, ctx);
        self.look_for_lost(core, ctx);
        self.step_reserve(core, ctx);
        if ctx.map.flags & flags::NORECOVER == 0 && self.reserve.moves(Move::Recovery) {
            self.bring_some(core, ctx);
        }
        self.step_backfills(core, ctx);
        self.check_clean(core, ctx);
        let waits =
            self.waits_for_targets() || !core.missing.is_empty() || self.members.all.values().any(|member| !member.is_complete());
        if waits && !self.due.recovery && self.recovery.next.is_none() {
            self.recovery.next = Some(ctx.now.mono.plus(AGAIN));
        }
    }

    /// What could not be read here some time ago is read again, and may be taken from elsewhere once more.
    fn retry_unreadable(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        let now = ctx.now.mono;
        let due: Vec<Hold> = self.recovery.unreadable.extract_if(.., |(at, _)| *at <= now).map(|(_, hold)| hold).collect();
        for hold in due {
            let Some(job) = self.jobs.remove(&hold) else { continue };
            let head = job.head.clone();
            self.recovery.mended.retain(|object, _| !same_object(object, &head));
            self.attempt_bring(core, ctx, job);
            self.pump(core, ctx, &head);
        }
    }

    /// So many of these as may be begun with now.
    pub(crate) fn take_room(&mut self, ctx: &mut Ctx<'_>, mut heads: Vec<HObject>) -> Vec<HObject> {
        self.recovery.held_back |= heads.len() > *ctx.room;
        heads.truncate(*ctx.room);
        *ctx.room -= heads.len();
        heads
    }

    /// Objects on their way to copies, or here, beside those that clients wait for.
    pub(crate) fn moving(&self) -> usize {
        let of =
            |member: &crate::primary::members::Member| member.stream.pushes() + member.backfill.as_ref().map_or(0, |b| b.begun());
        self.recovery.begun.len() + self.members.all.values().map(of).sum::<usize>()
    }

    /// Returns true if it would have begun with more objects if it might.
    pub(crate) fn is_held_back(&self) -> bool {
        self.recovery.held_back
    }

    /// There is room again.
    pub(crate) fn go_on_moving(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        self.due.recovery = true;
        self.step_recovery(core, ctx);
    }

    fn bring_some(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        let free = ctx.config.recovery_at_a_time.saturating_sub(self.recovery.begun.len());
        let recovery = &self.recovery;
        let wanted = |head: &HObject| !recovery.begun.contains(head) && !recovery.unfound.contains_key(head);
        let mut heads = BTreeSet::new();
        let lists = std::iter::once(&core.missing).chain(self.members.all.values().map(|member| &member.missing));
        for list in lists {
            for object in list.keys() {
                if heads.len() >= free {
                    break;
                }
                let head = object.at(SnapId::HEAD);
                if wanted(&head) {
                    heads.insert(head);
                }
            }
        }
        for head in self.take_room(ctx, heads.into_iter().collect()) {
            self.recovery.begun.insert(head.clone());
            self.bring(core, ctx, head, None);
        }
    }

    /// Brings an object as far as it goes now.
    pub(crate) fn attempt_bring(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, mut job: Job) {
        loop {
            match self.bring_step(core, ctx, &mut job) {
                Ok(Stepped::On) => {}
                Ok(Stepped::Done) => return self.end_bring(core, ctx, job),
                Ok(Stepped::Waits) => return self.keep_waiting(job),
                Ok(Stepped::Asks(wish, wants)) => return self.ask_shards(core, ctx, job, wish, wants),
                Err(Unread::Missing(wish)) => return self.fetch_for(ctx, job, wish),
                Err(Unread::Damaged(damage)) => {
                    core.report_damage(ctx, &job.head, &damage);
                    // It cannot be paid: what waits for it is as durable as it will be.
                    self.members
                        .all
                        .values_mut()
                        .for_each(|member| member.owed.retain(|object, _| !same_object(object, &job.head)));
                    self.due.release = true;
                    let again = ctx.now.mono.plus(AGAIN);
                    if matches!(&job.work, Work::Bring(bring) if bring.settles) {
                        // Work waits behind it that would begin it anew at once.
                        self.recovery.unreadable.push((again, job.hold));
                        bring_anew(&mut job);
                        self.keep_waiting(job);
                    } else {
                        self.end_bring(core, ctx, job);
                    }
                    self.look_not_before(again);
                    return;
                }
            }
        }
    }

    fn bring_step(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: &mut Job) -> Result<Stepped, Unread> {
        if !core.scheme.is_whole() {
            return self.remake_step(core, ctx, job);
        }
        let lacked = missing_of(&core.missing, &job.head).find(|object| self.can_be_had(core, object)).cloned();
        if let Some(object) = lacked {
            return self.pull(core, ctx, job, object);
        }
        let Work::Bring(bring) = &mut job.work else { return Ok(Stepped::Done) };
        if bring.queue.is_none() {
            if bring.filled.is_some() && is_missing(&core.missing, &job.head) && !self.search.may_pass(core, ctx, &job.head) {
                // A copy that is filled gets all of an object, or nothing.
                return Ok(Stepped::Done);
            }
            let mut unit = self.unit(core, ctx, job.hold, &job.head, bring.filled)?;
            unit.retain(|object| !core.missing.contains_key(object));
            bring.unit = unit.iter().cloned().collect();
            bring.queue = Some(unit);
        }
        let Some(object) = bring.queue.as_ref().and_then(|queue| queue.front().cloned()) else {
            let waits = bring.settles && self.is_arriving(&job.head);
            if waits {
                self.recovery.parked.push(job.hold);
            }
            return Ok(if waits { Stepped::Waits } else { Stepped::Done });
        };
        if bring.at.is_first() {
            bring.targets = self.targets(&object, bring.filled);
        }
        let (targets, filled) = (bring.targets.clone(), bring.filled);
        if targets.is_empty() {
            if let Some(queue) = &mut bring.queue {
                queue.pop_front();
            }
            return Ok(Stepped::On);
        }
        // All keys go through the copy's journal, where the writes of its clients stand behind them.
        let before = bring.sent.front().filter(|_| bring.at.omap && bring.sent.len() >= FEW).copied();
        let busy = |copy: &CopyId| {
            let member = self.members.all.get(copy);
            let behind = |oldest| before.is_some_and(|before| before >= oldest);
            member.is_some_and(|m| m.stream.bytes() > ctx.config.sizes.window || behind(m.stream.oldest()))
        };
        if targets.iter().any(busy) {
            self.recovery.parked.push(job.hold);
            return Ok(Stepped::Waits);
        }
        let at = bring.at.clone();
        let in_part =
            if at.is_first() && filled.is_none() { self.push_part(core, ctx, job, &object, &targets) } else { Ok(false) };
        let piece = match in_part {
            Ok(true) => return Ok(Stepped::On),
            Ok(false) => read_piece(&*ctx.store, job.hold, &core.object(object.clone()), &at, &ctx.config.sizes),
            Err(unread) => Err(unread),
        };
        let piece = match piece {
            // Another copy has it: so this one can be mended. The only copy is left as it is, and read again later.
            Err(Unread::Damaged(damage)) if self.is_mendable(core, ctx.now.mono, &object) => {
                core.report_damage(ctx, &job.head, &damage);
                self.mend(core, ctx, object);
                bring_anew(job);
                return Ok(Stepped::On);
            }
            piece => piece?,
        };
        let next = piece.next.clone();
        if job.fetched {
            ctx.store.release(job.hold);
        }
        self.push(core, ctx, &targets, &object, &at, piece);
        let Work::Bring(bring) = &mut job.work else { return Ok(Stepped::Done) };
        bring.at = next.clone().unwrap_or_default();
        bring.sent.push_back(self.members.order);
        if bring.sent.len() > FEW {
            bring.sent.pop_front();
        }
        // Others may lack it, too; who is filled gets each object once.
        if next.is_none()
            && filled.is_some()
            && let Some(queue) = &mut bring.queue
        {
            queue.pop_front();
        }
        Ok(Stepped::On)
    }

    /// The heads and clones that are to go.
    fn unit(
        &self,
        core: &Core,
        ctx: &Ctx<'_>,
        hold: Hold,
        head: &ObjectId,
        filled: Option<CopyId>,
    ) -> Result<VecDeque<HObject>, Unread> {
        if filled.is_none() {
            let lists = self.members.all.values().map(|member| &member.missing);
            let all: BTreeSet<HObject> = lists.flat_map(|list| missing_of(list, head).cloned().collect::<Vec<_>>()).collect();
            return Ok(all.into_iter().collect());
        }
        Ok(core.names_of(ctx, hold, head)?.into())
    }

    pub(super) fn targets(&self, object: &HObject, filled: Option<CopyId>) -> Vec<CopyId> {
        match filled {
            Some(copy) => self.members.all.get(&copy).filter(|m| m.backfill.is_some()).map(|_| copy).into_iter().collect(),
            None => self.members.all.iter().filter(|(_, m)| m.activated && m.lacks(object)).map(|(copy, _)| *copy).collect(),
        }
    }

    pub(super) fn push(
        &mut self,
        core: &mut Core,
        ctx: &mut Ctx<'_>,
        targets: &[CopyId],
        object: &HObject,
        at: &PieceAt,
        piece: Piece,
    ) {
        let index = if at.is_first() { index_of(object, &piece.changes.changes) } else { Vec::new() };
        let last = piece.next.is_none();
        let recovered = if last { vec![object.clone()] } else { Vec::new() };
        let body = Body::push(place(at, piece), index, Progress { recovered, ..Progress::default() });
        let letters = self.members.ship_to(&core.envelope(), targets, &body);
        core.post(ctx, letters);
        if last {
            targets.iter().for_each(|copy| self.members.note_pushed(*copy, object));
        }
    }

    pub(crate) fn end_bring(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: Job) {
        let head = HObject::clone(&job.head.object);
        let Work::Bring(bring) = &job.work else { return };
        self.recovery.begun.remove(&head);
        if let Some(copy) = bring.filled {
            let whole = bring.queue.as_ref().is_some_and(VecDeque::is_empty);
            self.end_filled(core, ctx, copy, &head, whole.then_some(&bring.unit[..]));
        }
        if job.fetched {
            ctx.store.release(job.hold);
        }
        if let Some(lane) = self.lanes.get_mut(&job.head) {
            lane.held = lane.held.filter(|hold| *hold != job.hold);
        }
        self.due.recovery = true;
        if is_missing(&core.missing, &head) || self.members.are_too_few(core, &head) {
            self.park_unfound(core, ctx, &job.head);
        }
    }

    /// A copy that is filled has all of an object, or `None`: not yet.
    fn end_filled(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, copy: CopyId, head: &HObject, ours: Option<&[HObject]>) {
        let Some(backfill) = self.members.all.get_mut(&copy).and_then(|member| member.backfill.as_deref_mut()) else { return };
        let Some(ours) = ours else { return backfill.gave_up(head) };
        // What the copy has and nobody else: a clone that was trimmed, an object that was removed. Not what is unfound: an older version may count
        // again.
        let mut surplus = backfill.surplus(head, ours);
        surplus.retain(|object| !core.missing.contains_key(object));
        // What became missing here after it was brought there is there.
        let missed = missing_of(&core.missing, head).filter(|object| !ours.contains(object));
        let lacks: Vec<(HObject, EVersion)> = missed.map(|object| (object.clone(), core.missing[object].need)).collect();
        backfill.finished(head);
        if !surplus.is_empty() || !lacks.is_empty() {
            if let Some(member) = self.members.all.get_mut(&copy) {
                member.missing.extend(lacks.iter().map(|(object, need)| (object.clone(), Lack::whole(*need))));
            }
            let objects = surplus.into_iter().map(|object| removal(ObjectId::of_shard(object, copy.shard))).collect();
            let body = Body::push(objects, Vec::new(), Progress { lacks, ..Progress::default() });
            let letters = self.members.ship_to(&core.envelope(), &[copy], &body);
            core.post(ctx, letters);
        }
    }

    /// Returns who is asked for an object that is missing here; `None`: nobody has it, or nobody yet.
    ///
    /// A question has no place among the bodies: a copy answers it with what it holds when it comes. So a member is asked when it has promised
    /// all changes of the object that were shipped to it. No further change begins meanwhile, since the question holds the lane.
    fn giver(&self, core: &Core, head: &ObjectId, object: &HObject) -> Option<CopyId> {
        let newest = newest_change_of(&self.pending, head);
        #[cfg(feature = "sim")]
        let newest = newest.filter(|_| core.mistake != Some(crate::selfcheck::Mistake::PullEarly));
        core.scheme.source(&self.holders(core, object), |copy| self.members.has_promised(*copy, newest))
    }

    /// Asks somebody for a piece of an object that is missing here.
    fn pull(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, job: &mut Job, object: HObject) -> Result<Stepped, Unread> {
        let Some(from) = self.giver(core, &job.head, &object) else {
            if !self.can_be_had(core, &object) {
                return Ok(Stepped::Done);
            }
            self.recovery.parked.push(job.hold);
            return Ok(Stepped::Waits);
        };
        let Work::Bring(bring) = &job.work else { return Ok(Stepped::Done) };
        let at = bring.at.clone();
        // Of a copy that was found by asking it is not known that it has the very version.
        let in_part = at.is_first() && !self.members.is_find(from, &object);
        let base = if in_part { core.own_base(ctx, job.hold, &object)? } else { None };
        let wish = match base {
            Some(base) => Letter::PullPart(object.clone(), base),
            None => Letter::Pull(object.clone(), at),
        };
        self.questions.ask_for(core, ctx, job.hold, from, Subject::Object(object), wish);
        Ok(Stepped::Waits)
    }

    /// A piece of an object that is missing here came, or it cannot be had.
    pub(crate) fn hear_pulled(
        &mut self,
        core: &mut Core,
        ctx: &mut Ctx<'_>,
        from: CopyId,
        object: HObject,
        at: PieceAt,
        piece: Option<Box<Piece>>,
    ) {
        let subject = Subject::Object(object.clone());
        let asked = self.questions.asked(from, subject.clone());
        if !asked.is_some_and(|asked| piece.is_none() || matches!(asked, Letter::Pull(_, of) if *of == at)) {
            return;
        }
        let hold = self.questions.answered(from, subject).and_then(|open| open.job);
        let Some(mut job) = hold.and_then(|hold| self.jobs.remove(&hold)) else { return };
        let head = job.head.clone();
        let next = match piece.filter(|piece| if at.is_first() { core.is_wanted(&object, piece) } else { !piece.is_nothing() }) {
            Some(piece) => self.take_piece(core, ctx, &object, &at, *piece),
            None => {
                if self.members.is_find(from, &object) {
                    self.search.not_given(ctx.now.mono, from, &object);
                }
                self.members.does_not_have(from, &object);
                Ok(None)
            }
        };
        if let Work::Bring(bring) = &mut job.work {
            bring.at = next.clone().ok().flatten().unwrap_or_default();
        }
        match next {
            Ok(_) => self.attempt_bring(core, ctx, job),
            Err(Refused::Stopped) => core.stopped(ctx),
            Err(_) => self.end_bring(core, ctx, job),
        }
        self.pump(core, ctx, &head);
    }

    /// Puts a piece into its place here. Gives where the next one begins.
    pub(super) fn take_piece(
        &mut self,
        core: &mut Core,
        ctx: &mut Ctx<'_>,
        object: &HObject,
        at: &PieceAt,
        piece: Piece,
    ) -> Result<Option<PieceAt>, Refused> {
        let index = if at.is_first() { index_of(object, &piece.changes.changes) } else { Vec::new() };
        let next = piece.next.clone();
        let recovered = if next.is_none() { vec![object.clone()] } else { Vec::new() };
        let body = Body::push(place(at, piece), index, Progress { recovered, ..Progress::default() });
        match core.apply(ctx, body, None) {
            Ok(commit) if next.is_none() => self.recovery.took(object.clone(), commit.ticket),
            Ok(_) => {}
            Err(refused) => {
                core.log_line(ctx, Level::Error, format!("{object} cannot be taken up: the store refuses ({refused:?})"));
                return Err(refused);
            }
        }
        if next.is_none() && object.is_head() {
            self.arm_watches(core, ctx, object);
        }
        Ok(next)
    }

    /// What was asked of somebody who is gone is asked of others.
    pub(crate) fn give_up_pulls(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, copy: CopyId) {
        let asked = self.questions.iter().filter(|(to, ..)| *to == copy);
        let object = |subject: &Subject| if let Subject::Object(object) = subject { Some(object.clone()) } else { None };
        let objects: Vec<HObject> = asked.filter_map(|(_, subject, _)| object(subject)).collect();
        objects.into_iter().for_each(|object| self.hear_pulled(core, ctx, copy, object, PieceAt::default(), None));
    }

    /// Work on an object that nobody has is put aside, until somebody has it or it is given up.
    fn park_unfound(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, head: &ObjectId) {
        let key = HObject::clone(&head.object);
        let waiting = self.lanes.get_mut(head).map(|lane| std::mem::take(&mut lane.queue)).unwrap_or_default();
        // Who gives it up need not wait for it.
        let (ends, waiting): (VecDeque<Work>, VecDeque<Work>) =
            waiting.into_iter().partition(|work| matches!(work, Work::Lose(_)));
        // Recovery brings it anew once somebody has it. What would bring it would else become more each time that nobody gives it.
        let waiting = waiting.into_iter().filter(|work| !matches!(work, Work::Bring(bring) if bring.filled.is_none()));
        self.recovery.unfound.entry(key).or_default().extend(waiting);
        if self.lanes.get(head).is_some_and(|lane| lane.last.is_none() && lane.held.is_none()) {
            self.lanes.remove(head);
        }
        self.look_for_lost(core, ctx);
        ends.into_iter().for_each(|work| self.enqueue(core, ctx, head.clone(), work));
    }

    /// Tries those again of which somebody has something that is missing by now, or nothing is missing any more.
    pub(crate) fn retry_unfound(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        let found = |head: &HObject| match core.scheme.is_whole() {
            true => {
                !is_missing(&core.missing, head) || missing_of(&core.missing, head).any(|object| self.can_be_had(core, object))
            }
            false => !self.members.are_too_few(core, head),
        };
        let heads: Vec<HObject> = self.recovery.unfound.keys().filter(|head| found(head)).cloned().collect();
        for head in heads {
            let works = self.recovery.unfound.remove(&head).unwrap_or_default();
            let head = core.object(head);
            works.into_iter().for_each(|work| self.enqueue(core, ctx, head.clone(), work));
        }
    }

    /// A copy that is no member tells what it holds: it may have what is unfound. When the group is clean, it is removed.
    pub(crate) fn hear_stray(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, from: CopyId, info: PeerInfo) {
        let own = core.peer_info();
        let same = crate::log::common(&info.runs, &own.runs) == core.info.last_update;
        if same && info.missing == 0 && info.history.is_complete() && !core.missing.is_empty() {
            let source = Source { head: core.info.last_update, missing: BTreeMap::new() };
            self.members.sources.insert(from, source);
        }
        self.members.strays.insert(from);
        self.search.ask_anew(&mut self.questions, from);
        if !core.missing.is_empty() {
            self.due.recovery = true;
        }
        self.check_clean(core, ctx);
        if self.is_clean(core) {
            self.dismiss_strays(core, ctx);
        }
    }

    pub(crate) fn dismiss_strays(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        let Interval { acting, up, .. } = &core.history.interval;
        let wanted: BTreeSet<CopyId> = core.copies(acting).chain(core.copies(up)).collect();
        for copy in std::mem::take(&mut self.members.strays).difference(&wanted) {
            self.questions.ask(core, ctx, *copy, Subject::Removal, Letter::Remove);
        }
    }

    /// A copy says what is durable there, and which objects it lacks all the same.
    pub(crate) fn hear_ack(
        &mut self,
        core: &mut Core,
        ctx: &mut Ctx<'_>,
        from: CopyId,
        number: u64,
        time: Option<CopyTime>,
        lacking: Vec<HObject>,
    ) {
        let Some(member) = self.members.all.get_mut(&from) else { return };
        let first = member.stream.oldest();
        let (now, recorder) = (ctx.now.mono, &mut *ctx.recorder);
        let promised = |n: u64, op| recorder.promised(op, now, from, time.filter(|_| n == number));
        if !member.stream.acknowledged(number, promised) {
            return core.log_line(ctx, Level::Warn, format!("osd.{from} promises change {number}, which it was not sent"));
        }
        let oldest = member.stream.oldest();
        let before = member.pushed.len();
        member.pushed.retain(|_, order| *order >= oldest);
        let (missing, pushed) = (&member.missing, &member.pushed);
        member.owed.retain(|object, _| missing.contains_key(object) || pushed.contains_key(object));
        let arrived = member.pushed.len() < before;
        let room = member.stream.bytes() <= ctx.config.sizes.window;
        self.hear_lacking(core, ctx, from, first, lacking);
        self.due.release = true;
        self.due.unpark |= room;
        self.due.recovery |= arrived;
    }

    /// A transaction is durable here: an object may be that was brought with it.
    pub(crate) fn note_taken(&mut self, ticket: Ticket) {
        let taken = &mut self.recovery.taken;
        let before = taken.len();
        taken.retain(|_, of| *of != ticket);
        let arrived = taken.len() < before;
        self.due.unpark |= arrived;
        self.due.recovery |= arrived;
    }

    /// A change is durable at all members that serve: who waits for that may go on.
    pub(crate) fn unpark_released(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        if !self.recovery.parked.is_empty() {
            self.unpark(core, ctx);
        }
    }

    /// Lets jobs go on that waited for room, or for what was brought.
    pub(crate) fn unpark(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        for hold in std::mem::take(&mut self.recovery.parked) {
            let Some(job) = self.jobs.remove(&hold) else { continue };
            let head = job.head.clone();
            self.attempt_bring(core, ctx, job);
            self.pump(core, ctx, &head);
        }
    }

    /// Returns true if all copies are complete and where they belong; or complete, and with guests among them for whom
    /// the map has no place.
    pub(crate) fn is_clean(&self, core: &Core) -> bool {
        let interval = &core.history.interval;
        let home = interval.up == interval.acting || core.keeps_guests();
        let enough = interval.is_full() || !is_osd(interval.primary);
        home && enough && self.is_recovered(core)
    }

    /// Returns true if nobody lacks anything, and what was brought here is durable.
    pub(crate) fn is_recovered(&self, core: &Core) -> bool {
        self.has_begun()
            && core.missing.is_empty()
            && self.recovery.taken.is_empty()
            && self.members.all.values().all(crate::primary::members::Member::is_complete)
    }

    /// Acts when all copies have become complete: who belongs to the group may serve, what was before is forgotten.
    fn check_clean(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        if !self.is_recovered(core) {
            return;
        }
        let held = core.history.interval.is_premerge();
        if core.history.estimated && !held {
            // It could not begin while objects were missing here.
            self.count_again(core, ctx);
        }
        if !held {
            self.plan_trim(core, ctx);
            self.begin_ordered(core, ctx);
        }
        let interval = &core.history.interval;
        if interval.up != interval.acting && core.home_is_enough() {
            // Those whom the map names shall serve. The group serves meanwhile, so nobody waits for the answer.
            ctx.out.push(Effect::WantActing(Vec::new()));
            self.look_not_before(ctx.now.mono.plus(AGAIN));
            return;
        }
        if self.is_clean(core) && !self.recovery.clean {
            self.recovery.clean = true;
            self.change_unlogged(core, ctx, Body { clean: core.history.since, ..Body::default() });
            self.dismiss_strays(core, ctx);
        }
    }
}

/// The place of the newest change of an object that is not durable at all members.
pub(super) fn newest_change_of(pending: &VecDeque<Pending>, head: &ObjectId) -> Option<u64> {
    pending.iter().rev().find(|of| of.head.as_ref() == Some(head)).map(|of| of.order)
}

/// Begins with the first piece again.
fn bring_anew(job: &mut Job) {
    if let Work::Bring(bring) = &mut job.work {
        bring.remake = None;
        bring.at = PieceAt::default();
    }
}

/// How far a step came.
pub(crate) enum Stepped {
    On,
    Waits,
    Done,
    /// It needs parts of other shards, and what the own store misses.
    Asks(Wish, Vec<Want>),
}

impl crate::primary::members::Members {
    /// A copy said that it does not have an object, whatever its log says.
    fn does_not_have(&mut self, copy: CopyId, object: &HObject) {
        self.sources.remove(&copy);
        if let Some(objects) = self.finds.get_mut(&copy) {
            objects.remove(object);
        }
        if let Some(member) = self.all.get_mut(&copy) {
            member.missing.entry(object.clone()).or_insert(Lack::whole(EVersion::default()));
        }
    }
}
