//! The slot for recovery that a copy lends to its primary: see [`crate::primary::reserve`].

use super::Replica;
use crate::api::Ctx;
use crate::core::Core;
use crate::letter::{Lends, Letter};
use crate::primary::commit::used;
use crate::primary::reserve::SlotWish;
use types::CopyId;

/// A slot that this copy lends to its primary, or waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lent {
    number: u64,
    priority: u8,
    held: bool,
}

impl Lent {
    /// As the OSD sees it.
    pub(crate) fn wish(&self) -> SlotWish {
        SlotWish { priority: self.priority, held: self.held }
    }
}

impl Replica {
    /// The OSD gave the slot to the group, or took it away.
    pub(crate) fn slot_changed(&mut self, core: &Core, ctx: &mut Ctx<'_>, granted: bool) {
        let Some(lent) = &mut self.lent else { return };
        lent.held = granted;
        let (number, lends) = (lent.number, if granted { Lends::Yes } else { Lends::TakenBack });
        if !granted {
            self.lent = None;
        }
        core.tell(ctx, core.primary(), &Letter::Reserved(number, lends));
    }

    /// The primary asks for a slot of this OSD.
    pub(crate) fn lend(
        &mut self,
        core: &mut Core,
        ctx: &mut Ctx<'_>,
        primary: CopyId,
        number: u64,
        priority: u8,
        backfill: bool,
    ) {
        let ratio = if backfill { ctx.map.backfillfull_ratio } else { ctx.map.full_ratio };
        let full = ratio > 0.0 && used(ctx) >= f64::from(ratio);
        match &mut self.lent {
            Some(lent) if lent.number == number => lent.priority = priority,
            _ if full => {
                self.lent = None;
                return core.tell(ctx, primary, &Letter::Reserved(number, Lends::Full));
            }
            lent => *lent = Some(Lent { number, priority, held: false }),
        }
        if self.lent.is_some_and(|lent| lent.held) {
            core.tell(ctx, primary, &Letter::Reserved(number, Lends::Yes));
        }
    }

    /// The primary gives a slot of this OSD back.
    pub(crate) fn take_back(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, primary: CopyId, number: u64) {
        self.lent = self.lent.filter(|lent| lent.number > number);
        core.tell(ctx, primary, &Letter::Reserved(number, Lends::Free));
    }
}
