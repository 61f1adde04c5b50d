//! Snapshot trimming: when the map says that a snapshot is removed, its clones go, in small steps.

use crate::api::Ctx;
use crate::body::Body;
use crate::meta;
use crate::pg::{Pg, Work};
use node::{Level, Mono};
use objectstore::{Hold, Limit, Ticket, Unread};
use std::collections::BTreeMap;
use std::ops::Bound;
use types::Intervals;

/// How far trimming is.
#[derive(Default)]
pub(crate) struct Trim {
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
    /// When the next step is due.
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

impl Pg {
    /// Takes the map's list of removed snapshots.
    pub(crate) fn plan_trim(&mut self, ctx: &mut Ctx<'_>) {
        let removed = ctx.map.removed_snaps_queue.get(&self.core.id.pg.pool);
        let wanted = removed.cloned().unwrap_or_default();
        self.serving.trim.done = self.core.history.purged.intersection(&wanted);
        let noted: Vec<u64> = self.serving.trim.noted.values().copied().collect();
        noted.into_iter().for_each(|snap| self.serving.trim.done.remove(snap, 1));
        self.serving.trim.queue = wanted;
        self.serving.trim.queue.subtract(&self.core.history.purged);
        if self.serving.trim.queue.is_empty() {
            self.serving.trim.next = None;
        } else if self.serving.trim.hold.is_none() && self.serving.trim.outstanding == 0 {
            self.serving.trim.next = Some(ctx.now.mono);
        }
    }

    /// Finds the next objects of the snapshot in work and hands them to their lanes.
    pub(crate) fn step_trim(&mut self, ctx: &mut Ctx<'_>) {
        self.serving.trim.next = None;
        // What is still to be brought is in no list of a snapshot's objects. Trimming goes on when nobody lacks anything.
        if self.serving.trim.outstanding > 0 || !self.core.missing.is_empty() {
            return;
        }
        let Some(snap) = self.serving.trim.queue.first() else { return };
        if ctx.map.flags & maps::flags::NOSNAPTRIM != 0 || ctx.store.congested() {
            self.serving.trim.next = Some(ctx.now.mono.plus(ctx.config.step_pause * 100));
            return;
        }
        let hold = match self.serving.trim.hold.take() {
            Some(hold) => hold,
            None => self.core.next_hold(ctx),
        };
        let (from, to) = (meta::snap_start(snap), meta::snap_start(snap + 1));
        let limit = Limit { entries: ctx.config.step_objects, bytes: usize::MAX };
        let page = ctx.store.meta_scan(hold, &self.core.id, (Bound::Included(&from[..]), Bound::Excluded(&to[..])), limit);
        match page {
            Ok(page) => {
                ctx.store.release(hold);
                let objects: Vec<_> =
                    page.entries.iter().filter_map(|(key, _)| meta::parse_snap_key(key, self.core.id.pg.pool).ok()).collect();
                self.trim_objects(ctx, snap, objects);
            }
            Err(Unread::Missing(wish)) => {
                self.serving.trim.hold = Some(hold);
                ctx.store.fetch(hold, wish);
            }
            Err(Unread::Damaged(damage)) => {
                ctx.store.release(hold);
                let text = format!("snapshot {snap:x} is not trimmed: {} at offset {} is damaged", damage.what, damage.offset);
                self.core.log_line(ctx, Level::Error, text);
                self.serving.trim.queue.remove(snap, 1);
                self.serving.trim.next = Some(ctx.now.mono);
            }
        }
    }

    /// No clone serves a snapshot any more. Each copy writes that down: any of them may lead the group when a late write names the
    /// snapshot.
    fn note_purged(&mut self, ctx: &mut Ctx<'_>, snap: u64) {
        #[cfg(feature = "sim")]
        if self.core.mistake == Some(crate::selfcheck::Mistake::PurgeAlone) {
            self.core.history.purged.insert(snap, 1);
            self.core.save(ctx);
            self.serving.trim.queue.remove(snap, 1);
            self.serving.trim.done.insert(snap, 1);
            return;
        }
        if self.change_unlogged(ctx, Body { purged: Intervals::of(snap..snap + 1), ..Body::default() })
            && let Some(pending) = self.serving.pending.back()
        {
            self.serving.trim.queue.remove(snap, 1);
            self.serving.trim.noted.insert(pending.ticket, snap);
        }
    }

    /// A transaction is durable at all members that serve. What it notes is told to the monitors.
    pub(crate) fn trim_noted(&mut self, ticket: Ticket) {
        if let Some(snap) = self.serving.trim.noted.remove(&ticket) {
            self.serving.trim.done.insert(snap, 1);
        }
    }

    fn trim_objects(&mut self, ctx: &mut Ctx<'_>, snap: u64, objects: Vec<(u64, types::HObject)>) {
        if objects.is_empty() {
            self.note_purged(ctx, snap);
            if !self.serving.trim.queue.is_empty() {
                self.serving.trim.next = Some(ctx.now.mono.plus(ctx.config.step_pause));
            }
            return;
        }
        self.serving.trim.outstanding = objects.len();
        for (_, head) in objects {
            let head = self.core.object(head);
            self.enqueue(ctx, head, Work::Trim { snap });
        }
    }

    /// One object of the step is done.
    pub(crate) fn trimmed(&mut self, ctx: &Ctx<'_>) {
        self.serving.trim.outstanding = self.serving.trim.outstanding.saturating_sub(1);
        if self.serving.trim.outstanding == 0 {
            self.serving.trim.next = Some(ctx.now.mono.plus(ctx.config.step_pause));
        }
    }
}
