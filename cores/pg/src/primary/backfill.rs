//! Bringing a copy up whose log tells too little: object after object is compared, in their order.
//!
//! A cursor says how far a copy is. Behind it nothing of a change is carried out there, up to it everything is. Between the cursor and
//! the end of a batch it depends on the object: what is done is carried out, what is not done is put (back) on the batch's list, so
//! the cursor never passes an object that the copy does not have as it is. The copy writes the cursor down with what it got, and
//! goes on from there in another interval.
//!
//! An object that is missing *here* says nothing by its absence, or by the older version that is here: it is on the batch's list,
//! whatever the copy has, until it was brought here and then there. What is unfound is passed: the copy notes that it lacks it, so it gets it
//! as soon as somebody has it. Unfound is what everybody was asked for, the copy itself, too: who notes that it lacks an object gives it to
//! nobody. Below the level of [`Feature::UnfoundPassed`](types::Feature::UnfoundPassed) the cursor waits before it.
//!
//! Objects go through their lanes, so no write comes between an object's pieces.

use crate::api::Ctx;
use crate::body::{Body, Progress};
use crate::core::Core;
use crate::letter::Letter;
use crate::meta::same_object;
use crate::missing::Missing;
use crate::primary::Primary;
use crate::primary::reserve::Move;
use crate::questions::Subject;
use maps::flags;
use objectstore::{Hold, Unread};
use std::collections::{BTreeMap, BTreeSet};
use types::{CopyId, EVersion, HObject, SnapId};

/// Objects that are compared together.
#[derive(Default)]
pub(crate) struct Batch {
    /// The last head; beyond it nothing was looked at.
    end: HObject,
    /// It is the end of the group.
    last: bool,
    /// Own heads and clones when they were listed.
    ours: BTreeMap<HObject, EVersion>,
    /// The copy's.
    theirs: BTreeMap<HObject, EVersion>,
    /// Heads that changed since they were listed.
    changed: BTreeSet<HObject>,
    /// The copy has told all of its own.
    compared: bool,
    /// Heads to be brought.
    todo: BTreeSet<HObject>,
    /// Heads on their way.
    begun: BTreeSet<HObject>,
    /// Heads that are as they are here.
    done: BTreeSet<HObject>,
}

/// How far a copy is filled.
#[derive(Default)]
pub(crate) struct Backfill {
    cursor: HObject,
    batch: Option<Batch>,
    /// The own list that is being read.
    hold: Option<Hold>,
}

impl Backfill {
    /// Goes on from where the copy is.
    pub(crate) fn from(cursor: HObject) -> Self {
        Self { cursor, ..Self::default() }
    }

    /// The head up to which it is.
    pub(crate) fn cursor(&self) -> &HObject {
        &self.cursor
    }

    /// Returns true if changes of this head are carried out at the copy.
    pub(crate) fn reaches(&self, head: &HObject) -> bool {
        *head <= self.cursor || self.batch.as_ref().is_some_and(|batch| batch.done.contains(head))
    }

    /// Returns whether nothing can go on: all that is left to be brought are these heads.
    pub(crate) fn is_stuck(&self, heads: impl Fn(&HObject) -> bool) -> bool {
        let Some(batch) = self.batch.as_ref().filter(|batch| batch.compared) else { return false };
        batch.todo.union(&batch.begun).all(heads) && !(batch.todo.is_empty() && batch.begun.is_empty())
    }

    /// Returns true while the copy is to tell what it has of a batch.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn compares(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| !batch.compared)
    }

    /// A head changes.
    pub(crate) fn changed(&mut self, head: &HObject) {
        if *head <= self.cursor {
            return;
        }
        let Some(batch) = self.batch.as_mut().filter(|batch| *head <= batch.end) else { return };
        if !batch.done.contains(head) {
            batch.changed.insert(head.clone());
            batch.todo.insert(head.clone());
        }
    }

    /// Returns what the copy has of one object that is not among `ours`.
    pub(crate) fn surplus(&self, head: &HObject, ours: &[HObject]) -> Vec<HObject> {
        let theirs = self.batch.iter().flat_map(|batch| batch.theirs.keys());
        theirs.filter(|object| same_object(object, head) && !ours.contains(object)).cloned().collect()
    }

    /// Returns how many heads are on their way.
    pub(crate) fn begun(&self) -> usize {
        self.batch.as_ref().map_or(0, |batch| batch.begun.len())
    }

    /// A head was brought.
    pub(crate) fn finished(&mut self, head: &HObject) {
        if let Some(batch) = &mut self.batch {
            batch.begun.remove(head);
            batch.todo.remove(head);
            batch.done.insert(head.clone());
        }
    }

    /// A head could not be brought: it is tried again.
    pub(crate) fn gave_up(&mut self, head: &HObject) {
        if let Some(batch) = &mut self.batch {
            batch.begun.remove(head);
        }
    }
}

impl Primary {
    fn backfill_of(&mut self, copy: CopyId) -> Option<&mut Backfill> {
        self.members.all.get_mut(&copy)?.backfill.as_deref_mut()
    }

    /// Goes on with the copies that are to be filled.
    pub(crate) fn step_backfills(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        let held_back = ctx.map.flags & (flags::NOBACKFILL | flags::NOREBALANCE) != 0;
        if !self.has_begun() || held_back || !self.reserve.moves(Move::Backfill) {
            return;
        }
        let filled: Vec<CopyId> =
            self.members.all.iter().filter(|(_, m)| m.activated && m.backfill.is_some()).map(|(copy, _)| *copy).collect();
        for copy in filled {
            self.step_backfill(core, ctx, copy);
        }
    }

    fn step_backfill(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, copy: CopyId) {
        if !self.reserve.moves(Move::Backfill) {
            // Somebody took a slot away: what is under way ends, and no more is begun.
            return;
        }
        let most = ctx.config.recovery_at_a_time;
        let waits = |head: &&HObject| !self.search.may_pass(core, ctx, head);
        let unfound: BTreeSet<HObject> = self.recovery.unfound.keys().filter(waits).cloned().collect();
        let Some(backfill) = self.backfill_of(copy) else { return };
        match &mut backfill.batch {
            None if backfill.hold.is_none() => self.list_batch(core, ctx, copy, None),
            None => {}
            Some(batch) if !batch.compared => {}
            Some(batch) => {
                if batch.todo.is_empty() && batch.begun.is_empty() {
                    return self.end_batch(core, ctx, copy);
                }
                let free = most.saturating_sub(batch.begun.len());
                // What nobody has is brought when it was found.
                let ready = |head: &&HObject| !batch.begun.contains(*head) && !unfound.contains(*head);
                let next: Vec<HObject> = batch.todo.iter().filter(ready).take(free).cloned().collect();
                let next = self.take_room(ctx, next);
                if let Some(batch) = self.backfill_of(copy).and_then(|backfill| backfill.batch.as_mut()) {
                    batch.begun.extend(next.iter().cloned());
                }
                next.into_iter().for_each(|head| self.bring(core, ctx, head, Some(copy)));
            }
        }
    }

    /// Lists the next own objects, and asks the copy for its own.
    fn list_batch(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, copy: CopyId, hold: Option<Hold>) {
        let hold = hold.unwrap_or_else(|| core.next_hold(ctx));
        let Some(from) = self.backfill_of(copy).map(|backfill| backfill.cursor.clone()) else { return };
        let end = core.bounds(ctx).1.at(SnapId::HEAD);
        let most = ctx.config.sizes.batch;
        let found = match core.versions(ctx, hold, &from, &end, most) {
            Ok(found) => found,
            Err(Unread::Missing(wish)) => {
                if let Some(backfill) = self.backfill_of(copy) {
                    backfill.hold = Some(hold);
                }
                return ctx.store.fetch(hold, wish);
            }
            Err(Unread::Damaged(damage)) => {
                ctx.store.release(hold);
                return core.log_line(ctx, node::Level::Error, format!("cannot fill osd.{copy}: {} is damaged", damage.what));
            }
        };
        ctx.store.release(hold);
        let mut batch = Batch { end: end.clone(), last: true, ..Batch::default() };
        // An object's clones lie before its head: the last one may not be whole.
        if let Some((last, _)) = found.last().filter(|_| found.len() >= most) {
            (batch.end, batch.last) = (last.at(SnapId::HEAD), false);
            let (clones, begun): (Vec<_>, Vec<_>) =
                found.into_iter().partition(|(object, _)| !same_object(object, last_head(&batch)));
            if !begun.iter().any(|(object, _)| object.is_head()) {
                match clones.last() {
                    Some((before, _)) => batch.end = before.at(SnapId::HEAD),
                    // One object has more clones than a batch: all of it is looked at, whatever it takes.
                    None => batch.todo = [batch.end.clone()].into(),
                }
                batch.ours = clones.into_iter().collect();
            } else {
                batch.ours = clones.into_iter().chain(begun).collect();
            }
        } else {
            batch.ours = found.into_iter().collect();
        }
        #[cfg(feature = "sim")]
        let missing = core.missing.clone().into_iter().filter(|_| core.mistake != Some(crate::selfcheck::Mistake::PassMissing));
        #[cfg(feature = "sim")]
        let missing = &missing.collect();
        #[cfg(not(feature = "sim"))]
        let missing = &core.missing;
        batch.list_missing(&from, missing);
        let to = batch.end.clone();
        if let Some(backfill) = self.backfill_of(copy) {
            (backfill.batch, backfill.hold) = (Some(batch), None);
        }
        self.questions.ask(core, ctx, copy, Subject::Range, Letter::Scan(from, to));
    }

    /// The own list that was fetched for is there. False if the hold is none of these.
    pub(crate) fn backfill_fetched(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, hold: Hold) -> bool {
        let whose = |m: &crate::primary::members::Member| m.backfill.as_ref().is_some_and(|backfill| backfill.hold == Some(hold));
        let Some(copy) = self.members.all.iter().find(|(_, member)| whose(member)).map(|(copy, _)| *copy) else { return false };
        self.list_batch(core, ctx, copy, Some(hold));
        true
    }

    /// A copy told what it has in a range. An answer to another question than the last one counts for nothing: parts before it would be taken
    /// for empty.
    pub(crate) fn hear_scanned(
        &mut self,
        core: &mut Core,
        ctx: &mut Ctx<'_>,
        copy: CopyId,
        from: &HObject,
        end: HObject,
        found: Vec<(HObject, EVersion)>,
    ) {
        if !matches!(self.questions.asked(copy, Subject::Range), Some(Letter::Scan(begin, _)) if begin == from) {
            return;
        }
        let Some(batch) = self.backfill_of(copy).and_then(|backfill| backfill.batch.as_mut()) else { return };
        batch.theirs.extend(found);
        if end < batch.end {
            let to = batch.end.clone();
            return self.questions.ask(core, ctx, copy, Subject::Range, Letter::Scan(end, to));
        }
        batch.compare();
        self.questions.answered(copy, Subject::Range);
        self.step_backfill(core, ctx, copy);
    }

    fn end_batch(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, copy: CopyId) {
        let envelope = core.envelope();
        let Some(backfill) = self.backfill_of(copy) else { return };
        let Some(batch) = backfill.batch.take() else { return };
        backfill.cursor = batch.end.clone();
        let progress = Progress { backfill: Some(batch.end.clone()), complete: batch.last, ..Progress::default() };
        let body = Body::push(Vec::new(), Vec::new(), progress);
        let letters = self.members.ship_to(&envelope, &[copy], &body);
        let order = self.members.order;
        core.post(ctx, letters);
        if batch.last
            && let Some(member) = self.members.all.get_mut(&copy)
        {
            member.backfill = None;
            // Complete when it says that this is durable.
            member.pushed.insert(batch.end, order);
        } else {
            self.step_backfill(core, ctx, copy);
        }
    }
}

fn last_head(batch: &Batch) -> &HObject {
    &batch.end
}

impl Batch {
    /// Adds what is missing here, behind the cursor's place `from`, to what must be brought: the own list does not show it as the group
    /// has it.
    fn list_missing(&mut self, from: &HObject, missing: &Missing) {
        let heads = missing.keys().map(|object| object.at(SnapId::HEAD));
        let todo = heads.filter(|head| head > from && *head <= self.end);
        self.todo.extend(todo);
    }

    /// Finds what must be brought.
    fn compare(&mut self) {
        let heads = |objects: &BTreeMap<HObject, EVersion>| -> BTreeSet<HObject> {
            objects.keys().map(|object| object.at(SnapId::HEAD)).collect()
        };
        for head in heads(&self.ours).union(&heads(&self.theirs)) {
            let unit = |objects: &BTreeMap<HObject, EVersion>| -> Vec<(HObject, EVersion)> {
                let first = objects.range(head.at(SnapId(0))..);
                first.take_while(|(o, _)| same_object(o, head)).map(|(o, v)| (o.clone(), *v)).collect()
            };
            if unit(&self.ours) == unit(&self.theirs) && !self.changed.contains(head) && !self.todo.contains(head) {
                self.done.insert(head.clone());
            } else {
                self.todo.insert(head.clone());
            }
        }
        self.compared = true;
    }
}
