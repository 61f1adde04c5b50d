//! Snapshot trimming: when the map says that a snapshot is removed, its clones go, in small steps.

use crate::api::Ctx;
use crate::body::Body;
use crate::core::Core;
use crate::meta;
use crate::primary::Primary;
use crate::primary::lanes::Work;
use node::{Level, Mono};
use objectstore::{Hold, Limit, Ticket, Unread};
use std::collections::BTreeMap;
use std::ops::Bound;
use types::{EVersion, Intervals};

/// How far trimming is.
#[derive(Default)]
pub(crate) struct Trim {
    /// In a group of shards: up to here all must be stable before a snapshot is done.
    upto: Option<EVersion>,
    /// Snapshots to do.
    pub(crate) queue: Intervals,
    /// What the map asks for and is done, durably at all members that serve: the monitors are told, and forget it.
    pub(crate) done: Intervals,
    /// What is done and not durable everywhere yet, by the transaction that notes it.
    noted: BTreeMap<Ticket, u64>,
    /// The scan for the next objects, while it waits for the store.
    pub(crate) hold: Option<Hold>,
    /// Objects that were handed to their lanes and are not done.
    pub(crate) outstanding: usize,
    /// Time when the next step is due.
    next: Option<Mono>,
}

impl Trim {
    pub(crate) fn due(&self, now: Mono) -> bool {
        self.next.is_some_and(|next| next <= now)
    }

    pub(crate) fn deadline(&self) -> Mono {
        self.next.unwrap_or(Mono::NEVER)
    }
}

impl Primary {
    /// Takes the map's list of removed snapshots.
    pub(crate) fn plan_trim(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        let removed = ctx.map.removed_snaps_queue.get(&core.id.pg.pool);
        let wanted = removed.cloned().unwrap_or_default();
        self.trim.done = core.history.purged.intersection(&wanted);
        let noted: Vec<u64> = self.trim.noted.values().copied().collect();
        noted.into_iter().for_each(|snap| self.trim.done.remove(snap, 1));
        self.trim.queue = wanted;
        self.trim.queue.subtract(&core.history.purged);
        if self.trim.queue.is_empty() {
            self.trim.next = None;
        } else if self.trim.hold.is_none() && self.trim.outstanding == 0 {
            self.trim.next = Some(ctx.now.mono);
        }
    }

    /// Finds the next objects of the snapshot in work and hands them to their lanes.
    pub(crate) fn step_trim(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        self.trim.next = None;
        // What is still to be brought is in no list of a snapshot's objects. Trimming goes on when nobody lacks anything.
        if self.trim.outstanding > 0 || !core.missing.is_empty() {
            return;
        }
        let Some(snap) = self.trim.queue.first() else { return };
        if ctx.map.flags & maps::flags::NOSNAPTRIM != 0 || ctx.store.congested() {
            self.trim.next = Some(ctx.now.mono.plus(ctx.config.step_pause * 100));
            return;
        }
        let hold = match self.trim.hold.take() {
            Some(hold) => hold,
            None => core.next_hold(ctx),
        };
        let (from, to) = (meta::snap_start(snap), meta::snap_start(snap + 1));
        let limit = Limit { entries: ctx.config.step_objects, bytes: usize::MAX };
        let page = ctx.store.meta_scan(hold, &core.id, (Bound::Included(&from[..]), Bound::Excluded(&to[..])), limit);
        match page {
            Ok(page) => {
                ctx.store.release(hold);
                let objects: Vec<_> =
                    page.entries.iter().filter_map(|(key, _)| meta::parse_snap_key(key, core.id.pg.pool).ok()).collect();
                self.trim_objects(core, ctx, snap, objects);
            }
            Err(Unread::Missing(wish)) => {
                self.trim.hold = Some(hold);
                ctx.store.fetch(hold, wish);
            }
            Err(Unread::Damaged(damage)) => {
                ctx.store.release(hold);
                let text = format!("snapshot {snap:x} is not trimmed: {} at offset {} is damaged", damage.what, damage.offset);
                core.log_line(ctx, Level::Error, text);
                self.trim.queue.remove(snap, 1);
                self.trim.next = Some(ctx.now.mono);
            }
        }
    }

    /// No clone serves a snapshot any more. Each copy writes that down: any of them may lead the group when a late write names the
    /// snapshot.
    fn note_purged(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, snap: u64) {
        #[cfg(feature = "sim")]
        if core.mistake == Some(crate::selfcheck::Mistake::PurgeAlone) {
            core.history.purged.insert(snap, 1);
            core.save(ctx);
            self.trim.queue.remove(snap, 1);
            self.trim.done.insert(snap, 1);
            return;
        }
        if self.change_unlogged(core, ctx, Body { purged: Intervals::of(snap..snap + 1), ..Body::default() })
            && let Some(pending) = self.pending.back()
        {
            self.trim.queue.remove(snap, 1);
            self.trim.noted.insert(pending.ticket, snap);
        }
    }

    /// A transaction is durable at all members that serve. What it notes is told to the monitors.
    pub(crate) fn trim_noted(&mut self, ticket: Ticket) {
        if let Some(snap) = self.trim.noted.remove(&ticket) {
            self.trim.done.insert(snap, 1);
        }
    }

    fn trim_objects(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, snap: u64, objects: Vec<(u64, types::HObject)>) {
        if objects.is_empty() {
            if self.may_be_undone(core) {
                // What was trimmed last may come back. Then its clones would be nobody's.
                self.trim.next = Some(ctx.now.mono.plus(ctx.config.step_pause));
                return;
            }
            self.note_purged(core, ctx, snap);
            if !self.trim.queue.is_empty() {
                self.trim.next = Some(ctx.now.mono.plus(ctx.config.step_pause));
            }
            return;
        }
        self.trim.outstanding = objects.len();
        for (_, head) in objects {
            let head = core.object(head);
            self.enqueue(core, ctx, head, Work::Trim { snap });
        }
    }

    /// Returns true while something that was written when this was asked first may be undone at all copies.
    fn may_be_undone(&mut self, core: &Core) -> bool {
        if core.scheme.is_whole() {
            return false;
        }
        let upto = *self.trim.upto.get_or_insert(core.info.last_update);
        let waits = !self.stable.reaches(upto);
        if !waits {
            self.trim.upto = None;
        }
        waits
    }

    /// One object of the step is done.
    pub(crate) fn trimmed(&mut self, ctx: &Ctx<'_>) {
        self.trim.outstanding = self.trim.outstanding.saturating_sub(1);
        if self.trim.outstanding == 0 {
            self.trim.next = Some(ctx.now.mono.plus(ctx.config.step_pause));
        }
    }
}
