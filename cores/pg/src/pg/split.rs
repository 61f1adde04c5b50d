//! A pool gets more groups: a group gives its new siblings their share of what it wrote about its objects. The objects stay
//! where they are; from then on they are in the siblings' ranges.
//!
//! Order, so that a crash at any point leaves a whole group: (1) everything under way ends; (2) the siblings' keys are
//! written, their info last; (3) when that is durable, one pass removes the given keys here, and the last transaction
//! notes the new number of groups; (4) when that is durable, the siblings are loaded. A crash before (4) repeats
//! the split from the start: it writes the same again. Until then the siblings' keys are there, whole or in part, but a
//! sibling that is loaded sees in its parent's history that the split was not finished, and ends as if it were removed.
//!
//! *Maps that come meanwhile.* From the map of the split on each sibling has intervals of its own, which may be others than its parent's. They are
//! noted with each map: while the group splits, and before, while it is read or takes others in. Once a sibling's keys are written, the
//! end of an interval is written, too, as every copy does it: before the OSD remembers the map.

use super::{Pg, Role};
use crate::api::{Ctx, Effect};
use crate::core::read::scan;
use crate::entry::LogEntry;
use crate::history::History;
use crate::meta;
use bytes::Bytes;
use maps::OsdMap;
use node::Level;
use objectstore::{Hold, MetaChange, ObjectChanges, Refused, Transaction, Unread};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{Epoch, HObject, PgId, SpgId};

/// Prefixes of the keys that are divided, in the order of work.
const DIVIDED: [u8; 5] = [meta::LOG, meta::DUPS, meta::SNAPS, meta::WATCHED, meta::MISSING];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Waiting for work under way.
    Drain,
    /// Writing to the siblings.
    Give,
    /// Waiting until the siblings are durable.
    Given,
    /// Removing here.
    Drop,
    /// Waiting until that is durable.
    Dropped,
}

/// A split under way.
pub(crate) struct Splitting {
    /// The new siblings, and what is known of their lives.
    children: Vec<(SpgId, History)>,
    /// Groups that the pool has with them.
    pg_num: u32,
    /// The interval that the siblings' records are of.
    since: Epoch,
    step: Step,
    hold: Hold,
    /// Which of [`DIVIDED`], and the last key read.
    prefix: usize,
    after: Bytes,
}

impl Splitting {
    /// Returns true if group `seed` comes out of this split of the group `own`, or out of later ones: the map may have
    /// more groups by now than this split makes.
    pub(crate) fn makes(&self, own: u32, seed: u32) -> bool {
        let now = types::hash::stable_mod(seed, self.pg_num, self.pg_num.next_power_of_two() - 1);
        (now == own && seed != own) || self.children.iter().any(|(id, _)| id.pg.seed == now)
    }

    /// Another map came meanwhile. Gives what siblings whose keys are written must write down.
    pub(crate) fn note(&mut self, map: &OsdMap) -> Vec<(SpgId, MetaChange)> {
        let written = !matches!(self.step, Step::Drain | Step::Give);
        let fresh = self.children.iter_mut().filter_map(|(id, history)| history.note(map, id.pg).then_some((*id, history)));
        let record = |history: &History| MetaChange::Set(Bytes::from_static(meta::HISTORY), history.encode());
        fresh.filter(|_| written).map(|(id, history)| (id, record(history))).collect()
    }
}

/// Writes down which intervals of siblings have ended, as [`Splitting::note`] gave it.
pub(crate) fn write_down(pg: &mut Pg, ctx: &mut Ctx<'_>, records: Vec<(SpgId, MetaChange)>) {
    for (child, record) in records {
        if !pg.give(ctx, child, vec![record]) {
            return;
        }
    }
}

impl Pg {
    /// Returns what a sibling is to know: what this group knew when it came to be, and its own members from then on.
    fn child_history(&self, ctx: &Ctx<'_>, id: SpgId) -> History {
        let pool = id.pg.pool;
        let exists = |map: &&Arc<OsdMap>| map.pools.get(&pool).is_some_and(|pool| id.pg.seed < pool.pg_num);
        let mut maps = self.passed.iter().filter(exists).chain([ctx.map]);
        let own = History::begin(maps.next().unwrap_or(ctx.map), id.pg);
        let (since, interval, up_thru, pg_num, noted) = (own.since, own.interval, own.up_thru, own.pg_num, own.noted);
        let (unions, taken) = (Vec::new(), Vec::new());
        let parent = Some(self.core.id.pg.seed);
        let known = self.core.history.clone();
        let past = known.past.iter().filter(|past| past.first < since).cloned().collect();
        let mut history =
            History { since, interval, up_thru, pg_num, noted, past, estimated: true, parent, unions, taken, ..known };
        maps.for_each(|map| _ = history.note(map, id.pg));
        history
    }

    /// Begins to split, as the present map says: this group's share is smaller than it was.
    pub(crate) fn begin_split(&mut self, ctx: &mut Ctx<'_>) {
        let Some(pg_num) = ctx.map.pools.get(&self.core.id.pg.pool).map(|pool| pool.pg_num) else { return };
        let old = self.core.history.pg_num;
        let children: Vec<SpgId> = (old..pg_num)
            .filter(|seed| seed % old == self.core.id.pg.seed)
            .map(|seed| SpgId { pg: PgId::new(self.core.id.pg.pool, seed), shard: self.core.id.shard })
            .collect();
        debug_assert!(
            !children.is_empty(),
            "pg {}: a smaller share of {pg_num} than one of {old}, and no siblings",
            self.core.id
        );
        self.stop_serving(ctx);
        let children = children.into_iter().map(|id| (id, self.child_history(ctx, id))).collect();
        let hold = self.core.next_hold(ctx);
        let step = Step::Drain;
        let (prefix, after) = (0, Bytes::new());
        let since = self.core.history.since;
        self.role = Role::Splitting(Box::new(Splitting { children, pg_num, since, step, hold, prefix, after }));
        self.step_split(ctx);
    }

    /// Goes on, as far as nothing has to be waited for.
    pub(crate) fn step_split(&mut self, ctx: &mut Ctx<'_>) {
        while let Role::Splitting(split) = &mut self.role {
            let durable = self.core.is_drained();
            match split.step {
                Step::Drain => {
                    if !durable {
                        return;
                    }
                    split.step = Step::Give;
                }
                Step::Give | Step::Drop => {
                    if !self.divide_page(ctx) {
                        return;
                    }
                }
                Step::Given => {
                    if !durable {
                        return;
                    }
                    split.step = Step::Drop;
                    (split.prefix, split.after) = (0, Bytes::new());
                }
                Step::Dropped => {
                    if !durable {
                        return;
                    }
                    self.end_split(ctx);
                }
            }
        }
    }

    /// Divides one page of keys. False if it must be waited for.
    fn divide_page(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let Role::Splitting(split) = &self.role else { return false };
        let (hold, step) = (split.hold, split.step);
        let Some(prefix) = DIVIDED.get(split.prefix).copied() else {
            ctx.store.release(hold);
            return self.end_pass(ctx);
        };
        let page = match scan(ctx, hold, self.core.id, prefix, &split.after) {
            Ok(page) => page,
            Err(Unread::Missing(wish)) => {
                ctx.store.fetch(hold, wish);
                return false;
            }
            Err(Unread::Damaged(damage)) => {
                let text = format!("cannot be split: {} at offset {} is damaged", damage.what, damage.offset);
                self.core.log_line(ctx, Level::Error, text);
                self.role = Role::Broken;
                return false;
            }
        };
        let Role::Splitting(split) = &mut self.role else { return false };
        match page.entries.last().filter(|_| page.more) {
            Some((key, _)) => split.after = key.clone(),
            None => (split.prefix, split.after) = (split.prefix + 1, Bytes::new()),
        }
        let children: Vec<SpgId> = split.children.iter().map(|(id, _)| *id).collect();
        let pg_num = split.pg_num;
        let mut shares: BTreeMap<SpgId, Vec<MetaChange>> = BTreeMap::new();
        let mut dropped = Vec::new();
        for (key, value) in page.entries {
            for owner in self.owners(&key, &value, &children, pg_num) {
                shares.entry(owner).or_default().push(MetaChange::Set(key.clone(), value.clone()));
                if prefix != meta::DUPS {
                    dropped.push(MetaChange::Remove(key.clone()));
                }
            }
        }
        match step {
            Step::Give => shares.into_iter().all(|(child, meta)| self.give(ctx, child, meta)),
            _ => dropped.is_empty() || self.submit_or_stop(ctx, Vec::new(), dropped),
        }
    }

    /// Returns which siblings a key goes to: that of its object; records that left the log have none and go to all.
    fn owners(&self, key: &[u8], value: &[u8], children: &[SpgId], pg_num: u32) -> Vec<SpgId> {
        let pool = self.core.id.pg.pool;
        let object: Option<HObject> = match key.first() {
            Some(&meta::LOG) => LogEntry::decode(value, pool).ok().map(|e| HObject::clone(&e.object)),
            Some(&meta::SNAPS) => meta::parse_snap_key(key, pool).ok().map(|(_, object)| object),
            Some(&meta::WATCHED) => meta::parse_watched_key(key, pool).ok(),
            Some(&meta::MISSING) => meta::parse_missing_key(key, pool).ok(),
            _ => return children.to_vec(),
        };
        let Some(object) = object else { return Vec::new() };
        let seed = types::hash::stable_mod(object.hash, pg_num, pg_num.next_power_of_two() - 1);
        children.iter().filter(|c| c.pg.seed == seed).copied().collect()
    }

    fn give(&mut self, ctx: &mut Ctx<'_>, child: SpgId, meta: Vec<MetaChange>) -> bool {
        let ticket = self.core.next_ticket(ctx);
        match ctx.store.submit(Transaction { scope: child, meta, ..Transaction::default() }, ticket) {
            Ok(()) => {
                self.core.loose.insert(ticket);
                true
            }
            Err(refused) => {
                self.split_refused(ctx, refused);
                false
            }
        }
    }

    fn submit_or_stop(&mut self, ctx: &mut Ctx<'_>, objects: Vec<ObjectChanges>, meta: Vec<MetaChange>) -> bool {
        match self.core.submit_unlogged(ctx, objects, meta) {
            Ok(()) => true,
            Err(refused) => {
                self.split_refused(ctx, refused);
                false
            }
        }
    }

    fn split_refused(&mut self, ctx: &mut Ctx<'_>, refused: Refused) {
        self.core.log_line(ctx, Level::Error, format!("cannot be split: the store refuses ({refused:?})"));
        self.role = Role::Broken;
        if refused == Refused::Stopped {
            ctx.out.push(Effect::StoreStopped);
        }
    }

    /// All keys were gone through.
    fn end_pass(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let Role::Splitting(split) = &self.role else { return false };
        let (children, pg_num, step) = (split.children.clone(), split.pg_num, split.step);
        let share = self.core.info.stats.divided(children.len() as i64 + 1);
        if step == Step::Give {
            let mut info = self.core.info.clone();
            info.stats = share;
            for (child, history) in children {
                let records = vec![
                    MetaChange::Set(Bytes::from_static(meta::HISTORY), history.encode()),
                    MetaChange::Set(Bytes::from_static(meta::INFO), info.encode()),
                ];
                if !self.give(ctx, child, records) {
                    return false;
                }
            }
        } else {
            children.iter().for_each(|_| self.core.info.stats.subtract(&share));
            (self.core.history.pg_num, self.core.history.estimated) = (maps::share(self.core.id.pg.seed, pg_num), true);
            let records = self.core.own_records();
            if !self.submit_or_stop(ctx, Vec::new(), records) {
                return false;
            }
        }
        if let Role::Splitting(split) = &mut self.role {
            split.step = if step == Step::Give { Step::Given } else { Step::Dropped };
        }
        true
    }

    fn end_split(&mut self, ctx: &mut Ctx<'_>) {
        let Role::Splitting(split) = std::mem::replace(&mut self.role, Role::Replica(Box::default())) else { return };
        let (pg_num, seed) = (split.pg_num, self.core.id.pg.seed);
        // Maps that came meanwhile.
        for (child, history) in &split.children {
            let record = MetaChange::Set(Bytes::from_static(meta::HISTORY), history.encode());
            if history.since > split.since && !self.give(ctx, *child, vec![record]) {
                return;
            }
        }
        let stays = |object: &HObject| types::hash::stable_mod(object.hash, pg_num, pg_num.next_power_of_two() - 1) == seed;
        self.core.missing.retain(|object, _| stays(object));
        self.core.kept.retain(|_, object| stays(object));
        ctx.out.push(Effect::Split { children: split.children.into_iter().map(|(id, _)| id).collect() });
        if !self.change_share(ctx) {
            self.take_role(ctx);
        }
    }
}
