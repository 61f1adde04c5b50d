//! Slots for recovery, as a group sees them: it moves objects only while it has a slot of its own OSD, and one of each OSD that is to get
//! objects (`osd_max_backfills`).
//!
//! | step | until |
//! |---|---|
//! | nothing to do | objects can be brought, or a copy is to be filled |
//! | local | the own OSD gave a slot |
//! | remote | each target gave one, asked one after the other in order of their numbers |
//! | moves | all is brought, or somebody takes a slot away |
//!
//! *Order.* All groups ask targets in the same order, so none waits for one that waits for it.
//!
//! *Data and owner.* [`Reserve`] belongs to the primary, [`crate::replica::lend::Lent`] to the copy at a target, both in one interval. With the interval
//! both end, and so do the wishes that the OSD sees ([`crate::Pg::slot_wishes`]): a slot that nobody wishes is free. A question has a number.
//! What was asked before the last answer counted is answered in vain. A slot that is given back is given back until the target says so. Both
//! are open questions ([`crate::questions`]).
//!
//! *Full.* A target that is over `backfillfull_ratio` lends no slot for a backfill, and one over `full_ratio` none at all. The primary
//! gives all slots back then and asks again after [`LATER`].
//!
//! What a client waits for is brought without a slot.
//!
//! *Below the level of* [`Feature::RecoverySlots`] no target is asked, as it may not know the question: the own slot is enough.

use crate::api::Ctx;
use crate::core::Core;
use crate::letter::{Lends, Letter};
use crate::primary::Primary;
use crate::primary::members::{Member, named};
use crate::questions::Subject;
use maps::{OptValue, flags, opts};
use node::Mono;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{CopyId, Feature, HObject, SnapId};

/// A target that was full is asked again after this (`osd_recovery_retry_interval`, `osd_backfill_retry_interval`).
const LATER: Duration = Duration::from_secs(30);
/// Priorities, with the numbers that Ceph gives them.
mod priority {
    pub(super) const BACKFILL: i64 = 100;
    pub(super) const BACKFILL_DEGRADED: i64 = 140;
    pub(super) const RECOVERY: i64 = 180;
    pub(super) const INACTIVE: i64 = 220;
    pub(super) const MOST: i64 = 253;
    pub(super) const BACKFILL_FORCED: u8 = 254;
    pub(super) const RECOVERY_FORCED: u8 = 255;
}

/// What is to be done with a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// What the log names is brought.
    Recovery,
    /// A copy is filled.
    Backfill,
}

/// Which table a slot is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotSide {
    /// That of the OSD which leads the group.
    Local,
    /// That of one that is to get objects.
    Remote,
}

/// A slot that a group has or waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotWish {
    /// The higher, the sooner.
    pub priority: u8,
    /// The group has it.
    pub held: bool,
}

/// What slots of its OSD a group has or waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotWishes {
    /// As the one that leads.
    pub local: Option<SlotWish>,
    /// As one that gets objects.
    pub remote: Option<SlotWish>,
}

/// A slot at a target, as the primary knows it.
#[derive(Clone, Copy, Debug)]
struct Target {
    number: u64,
    held: bool,
}

/// What a primary has reserved.
#[derive(Default)]
pub(crate) struct Reserve {
    /// What slots are wanted for.
    pub(crate) what: Option<Move>,
    priority: u8,
    local: bool,
    targets: BTreeMap<CopyId, Target>,
    /// Some target was too full: until when nobody is asked.
    full_until: Option<Mono>,
    asked: u64,
}

impl Reserve {
    /// The slot of this OSD that the group has or waits for.
    pub(crate) fn wish(&self) -> Option<SlotWish> {
        let wishes = self.what.is_some() && self.full_until.is_none();
        wishes.then_some(SlotWish { priority: self.priority, held: self.local })
    }

    /// Returns true if objects move for this purpose: all slots are there.
    pub(crate) fn moves(&self, what: Move) -> bool {
        self.what == Some(what) && self.local && self.full_until.is_none() && self.targets.values().all(|target| target.held)
    }

    /// Returns true if a target was too full.
    pub(crate) fn is_full(&self) -> bool {
        self.full_until.is_some()
    }

    /// Returns true if it has a slot of a copy, or waits for one.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn asks_of(&self, copy: CopyId) -> bool {
        self.targets.contains_key(&copy)
    }

    /// Returns true if it asked for such a slot under this number.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn asks(&self, copy: CopyId, number: u64) -> bool {
        self.targets.get(&copy).is_some_and(|target| target.number == number)
    }

    /// All slots at targets go back.
    fn give_back(&mut self) -> Vec<(CopyId, u64)> {
        std::mem::take(&mut self.targets).into_iter().map(|(copy, t)| (copy, t.number)).collect()
    }
}

impl Primary {
    /// The OSD gave its own slot to the group, or took it away.
    pub(crate) fn slot_changed(&mut self, core: &Core, ctx: &mut Ctx<'_>, granted: bool) {
        self.reserve.local = granted;
        if !granted {
            self.give_slots_back(core, ctx);
        }
        self.due.recovery = true;
    }

    fn give_slots_back(&mut self, core: &Core, ctx: &mut Ctx<'_>) {
        for (copy, number) in self.reserve.give_back() {
            self.questions.ask(core, ctx, copy, Subject::Slot, Letter::Release(number));
        }
    }

    /// Returns what is to be done, and can be.
    fn to_move(&self, core: &Core, ctx: &Ctx<'_>) -> Option<Move> {
        let recovery = &self.recovery;
        let parked = |object: &HObject| recovery.unfound.contains_key(&object.at(SnapId::HEAD));
        let mut lists = std::iter::once(&core.missing).chain(self.members.all.values().map(|member| &member.missing));
        let brings = || self.members.all.values().any(|member| member.backfill.is_none() && !member.pushed.is_empty());
        let recovers = self.is_bringing()
            || ctx.map.flags & flags::NORECOVER == 0 && lists.any(|list| list.keys().any(|object| !parked(object)))
            || self.reserve.what == Some(Move::Recovery) && brings();
        let stuck = |member: &Member| {
            member
                .backfill
                .as_ref()
                .is_none_or(|b| b.is_stuck(|head| recovery.unfound.contains_key(head) && !self.search.may_pass(core, ctx, head)))
        };
        let held_back = flags::NOBACKFILL | flags::NOREBALANCE;
        let fills = ctx.map.flags & held_back == 0 && self.members.all.values().any(|m| m.activated && !stuck(m));
        match (recovers, fills) {
            (true, _) => Some(Move::Recovery),
            (false, true) => Some(Move::Backfill),
            (false, false) => None,
        }
    }

    /// Returns why nothing moves, in words, although something is to be moved; none if objects move, or there are none
    /// to move.
    pub(crate) fn why_not_moving(&self, core: &Core) -> Option<String> {
        let reserve = &self.reserve;
        let Some(what) = reserve.what else { return self.held_back_by_flags(core) };
        if reserve.full_until.is_some() {
            let targets = named(&self.slot_targets(what));
            return Some(format!(
                "too full to take objects, or one of them: {targets}. Make room there or add OSDs; it asks again every 30 s"
            ));
        }
        if !reserve.local {
            return Some("it waits for one of the slots of this OSD (osd_max_backfills)".into());
        }
        let waits: Vec<CopyId> = reserve.targets.iter().filter(|(_, target)| !target.held).map(|(copy, _)| *copy).collect();
        (!waits.is_empty()).then(|| format!("it waits for a slot of {} (osd_max_backfills)", named(&waits)))
    }

    /// The sentence for objects that only flags of the cluster keep from being brought.
    fn held_back_by_flags(&self, core: &Core) -> Option<String> {
        let unfound = &self.recovery.unfound;
        let parked = |object: &HObject| unfound.contains_key(&object.at(SnapId::HEAD));
        let mut lists = std::iter::once(&core.missing).chain(self.members.all.values().map(|member| &member.missing));
        if lists.any(|list| list.keys().any(|object| !parked(object))) {
            return Some("the cluster's flag norecover holds it back: 'ceph osd unset norecover'".into());
        }
        let fills = |member: &Member| {
            member.activated && member.backfill.as_ref().is_some_and(|b| !b.is_stuck(|head| unfound.contains_key(head)))
        };
        let held = self.members.all.values().any(fills);
        held.then(|| "the cluster's flag nobackfill or norebalance holds it back: 'ceph osd unset FLAG'".into())
    }

    /// Returns whom objects go to.
    fn slot_targets(&self, what: Move) -> Vec<CopyId> {
        let gets = |member: &Member| match what {
            Move::Recovery => !member.missing.is_empty() || member.backfill.is_none() && !member.pushed.is_empty(),
            Move::Backfill => member.backfill.is_some(),
        };
        self.members.all.iter().filter(|(_, member)| member.activated && gets(member)).map(|(copy, _)| *copy).collect()
    }

    /// Returns how urgent it is.
    fn move_priority(&self, core: &Core, ctx: &Ctx<'_>, what: Move) -> u8 {
        let forced = self.recovery.forced();
        let interval = &core.history.interval;
        let few = !interval.is_full();
        let base = match what {
            Move::Recovery if forced.recovery => return priority::RECOVERY_FORCED,
            Move::Backfill if forced.backfill => return priority::BACKFILL_FORCED,
            _ if core.is_short() => priority::INACTIVE,
            Move::Recovery => priority::RECOVERY,
            Move::Backfill if few => priority::BACKFILL_DEGRADED,
            Move::Backfill => priority::BACKFILL,
        };
        let pool = ctx.map.pools.get(&core.id.pg.pool).and_then(|pool| pool.opts.get(&opts::RECOVERY_PRIORITY));
        let more = if let Some(OptValue::Int(more)) = pool { *more } else { 0 };
        u8::try_from((base + more).clamp(0, priority::MOST)).unwrap_or_default()
    }

    /// Gets slots for what is to be done, or gives them back when nothing is.
    pub(crate) fn step_reserve(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        let what = self.to_move(core, ctx);
        if what != self.reserve.what {
            self.give_slots_back(core, ctx);
            // The own slot goes back, too: others who need it more come first.
            let reserve = &mut self.reserve;
            (reserve.what, reserve.local, reserve.full_until) = (what, reserve.local && what.is_some(), None);
        }
        let Some(what) = what else { return };
        let priority = self.move_priority(core, ctx, what);
        let reserve = &mut self.reserve;
        let fresh = std::mem::replace(&mut reserve.priority, priority) != priority;
        if let Some(until) = reserve.full_until {
            if until > ctx.now.mono {
                return self.look_again_at(until);
            }
            reserve.full_until = None;
        }
        if !self.reserve.local {
            return;
        }
        let targets = if ctx.map.level.has(Feature::RecoverySlots) { self.slot_targets(what) } else { Vec::new() };
        let reserve = &mut self.reserve;
        let highest = reserve.targets.keys().next_back().copied();
        if targets.iter().any(|copy| !reserve.targets.contains_key(copy) && highest.is_some_and(|highest| *copy < highest)) {
            // One that comes before others joined them: all are asked anew, in their order.
            self.give_slots_back(core, ctx);
        }
        self.ask_targets(core, ctx, what, priority, &targets, fresh);
    }

    fn ask_targets(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, what: Move, priority: u8, targets: &[CopyId], fresh: bool) {
        let reserve = &mut self.reserve;
        let mut letters = Vec::new();
        if fresh {
            letters.extend(reserve.targets.iter().map(|(copy, target)| (*copy, target.number)));
        }
        if reserve.targets.values().all(|target| target.held)
            && let Some(next) = targets.iter().find(|copy| !reserve.targets.contains_key(copy))
        {
            reserve.asked += 1;
            reserve.targets.insert(*next, Target { number: reserve.asked, held: false });
            letters.push((*next, reserve.asked));
        }
        for (copy, number) in letters {
            let wish = Letter::Reserve(number, priority, what == Move::Backfill);
            self.questions.ask(core, ctx, copy, Subject::Slot, wish);
        }
    }

    fn look_again_at(&mut self, at: Mono) {
        let next = &mut self.recovery.next;
        *next = Some(next.map_or(at, |next| next.min(at)));
    }

    /// Returns true if some target has not said that it has its slot back, or not answered.
    pub(crate) fn waits_for_targets(&self) -> bool {
        let returned = self.questions.iter().any(|(.., open)| matches!(open.letter, Letter::Release(_)));
        returned || self.reserve.targets.values().any(|target| !target.held)
    }

    /// A target answers.
    pub(crate) fn hear_reserved(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, from: CopyId, number: u64, lends: Lends) {
        if lends == Lends::Free {
            if self.questions.asked(from, Subject::Slot) == Some(&Letter::Release(number)) {
                self.questions.answered(from, Subject::Slot);
            }
            return;
        }
        let reserve = &mut self.reserve;
        let Some(target) = reserve.targets.get_mut(&from).filter(|target| target.number == number) else { return };
        match lends {
            Lends::Yes => target.held = true,
            Lends::Full | Lends::TakenBack | Lends::Free => {
                // Nothing is there to be given back.
                reserve.targets.remove(&from);
                self.questions.answered(from, Subject::Slot);
                self.give_slots_back(core, ctx);
                let reserve = &mut self.reserve;
                reserve.local = false;
                reserve.full_until = (lends == Lends::Full).then_some(ctx.now.mono.plus(LATER));
            }
        }
        self.due.recovery = true;
    }
}
