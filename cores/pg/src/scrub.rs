//! Scrub: a walk over all objects in the background. A shallow one counts and looks at records, a deep one reads everything,
//! so that the store's checksums are verified.

use crate::api::{ClusterLevel, Ctx, Effect};
use crate::body::Body;
use crate::info::ObjectInfo;
use crate::internal::clone_bytes;
use crate::ops::list::bounds;
use crate::pg::Pg;
use crate::stats::Stats;
use bytes::Bytes;
use node::Mono;
use objectstore::{Damage, Hold, Limit, Unread};
use std::collections::VecDeque;
use std::ops::Bound;
use types::{HObject, ObjectId, SnapId};

/// Bytes of data, or of omap, that a deep scrub reads at a time.
const CHUNK: u64 = 1 << 20;

/// What is read of an object next.
#[derive(Clone, Debug)]
enum Part {
    Record,
    Data(u64),
    Xattrs,
    Omap(Bytes),
}

/// A scrub under way.
pub(crate) struct Scrub {
    pub(crate) deep: bool,
    /// What cannot be read here is taken from another copy.
    repair: bool,
    /// An object could not be counted, since it was just being replaced: the group is counted once more.
    again: bool,
    pub(crate) hold: Hold,
    waiting: bool,
    next: Mono,
    /// Everything before is listed.
    from: ObjectId,
    listed: bool,
    queue: VecDeque<ObjectId>,
    part: Part,
    /// Heads before this one are counted; changes of theirs must be counted too.
    counted_to: HObject,
    counted: Stats,
    shallow_errors: i64,
    deep_errors: i64,
}

impl Scrub {
    pub(crate) fn due(&self, now: Mono) -> bool {
        !self.waiting && self.next <= now
    }

    pub(crate) fn deadline(&self) -> Mono {
        if self.waiting { Mono::NEVER } else { self.next }
    }

    /// A change of an object that was counted already.
    pub(crate) fn changed(&mut self, head: &HObject, delta: &Stats) {
        if *head <= self.counted_to {
            self.counted.add(delta);
        }
    }
}

impl Pg {
    /// Begins a scrub, if none is under way. A deep one reads all data. None begins while this copy lacks objects: it would
    /// count only those that are here, and recovery brings the others without a change of statistics.
    pub fn start_scrub(&mut self, ctx: &mut Ctx<'_>, deep: bool) {
        if self.serving.scrub.is_some() || !self.is_active() || !self.missing.is_empty() {
            return;
        }
        let hold = self.next_hold(ctx);
        let (from, _) = self.bounds(ctx);
        let counted_to = HObject::min();
        self.serving.scrub = Some(Box::new(Scrub {
            deep,
            repair: false,
            again: false,
            hold,
            waiting: false,
            next: ctx.now.mono,
            from: from.into(),
            listed: false,
            queue: VecDeque::new(),
            part: Part::Record,
            counted_to,
            counted: Stats::default(),
            shallow_errors: 0,
            deep_errors: 0,
        }));
    }

    /// Reads all data, and takes from other copies what cannot be read here.
    pub fn start_repair(&mut self, ctx: &mut Ctx<'_>) {
        self.start_scrub(ctx, true);
        if let Some(scrub) = self.serving.scrub.as_mut().filter(|scrub| scrub.deep) {
            scrub.repair = true;
        }
    }

    pub(crate) fn bounds(&self, ctx: &Ctx<'_>) -> (HObject, HObject) {
        let pg_num = ctx.map.pools.get(&self.id.pg.pool).map_or(1, |pool| pool.pg_num);
        bounds(self.id.pg.pool, self.id.pg.seed, pg_num)
    }

    /// Looks at some objects, until something must be fetched.
    pub(crate) fn step_scrub(&mut self, ctx: &mut Ctx<'_>) {
        let Some(mut scrub) = self.serving.scrub.take() else { return };
        scrub.waiting = false;
        for _ in 0..ctx.config.step_objects {
            match self.scrub_part(ctx, &mut scrub) {
                Ok(true) => {}
                Ok(false) => {
                    ctx.store.release(scrub.hold);
                    return self.finish_scrub(ctx, *scrub);
                }
                Err(Unread::Missing(wish)) => {
                    scrub.waiting = true;
                    ctx.store.fetch(scrub.hold, wish);
                    self.serving.scrub = Some(scrub);
                    return;
                }
                Err(Unread::Damaged(damage)) => self.scrub_damage(ctx, &mut scrub, &damage),
            }
        }
        scrub.next = ctx.now.mono.plus(ctx.config.step_pause);
        self.serving.scrub = Some(scrub);
    }

    fn scrub_damage(&mut self, ctx: &mut Ctx<'_>, scrub: &mut Scrub, damage: &Damage) {
        let Some(object) = scrub.queue.pop_front() else {
            // The list itself: what lies behind cannot be reached.
            scrub.shallow_errors += 1;
            scrub.listed = true;
            self.report_damage(ctx, &scrub.from.clone(), damage);
            return;
        };
        let part = std::mem::replace(&mut scrub.part, Part::Record);
        self.report_damage(ctx, &object, damage);
        if scrub.repair && self.is_mendable(&object) {
            scrub.again |= matches!(part, Part::Record);
            return self.mend(ctx, HObject::clone(&object.object));
        }
        match part {
            Part::Record => scrub.shallow_errors += 1,
            _ => scrub.deep_errors += 1,
        }
    }

    /// One part of one object. False if there is none left.
    fn scrub_part(&mut self, ctx: &mut Ctx<'_>, scrub: &mut Scrub) -> Result<bool, Unread> {
        let Some(object) = scrub.queue.front().cloned() else {
            return self.list_for_scrub(ctx, scrub);
        };
        let (store, hold) = (&*ctx.store, scrub.hold);
        let next = match &scrub.part {
            Part::Record => {
                let exists = self.scrub_record(ctx, scrub, &object)?;
                (exists && scrub.deep).then_some(Part::Data(0))
            }
            Part::Data(offset) => {
                let read = store.read(hold, &object, *offset, CHUNK)?.len() as u64;
                Some(if read < CHUNK { Part::Xattrs } else { Part::Data(offset + read) })
            }
            Part::Xattrs => {
                store.xattrs(hold, &object)?;
                store.omap_header(hold, &object)?;
                Some(Part::Omap(Bytes::new()))
            }
            Part::Omap(after) => {
                let from = if after.is_empty() { Bound::Unbounded } else { Bound::Excluded(&after[..]) };
                let limit = Limit { entries: 1024, bytes: CHUNK as usize };
                let page = store.omap_scan(hold, &object, (from, Bound::Unbounded), limit)?;
                scrub.counted.omap_keys += page.entries.len() as i64;
                scrub.counted.omap_bytes += page.entries.iter().map(|(k, v)| (k.len() + v.len()) as i64).sum::<i64>();
                page.entries.last().filter(|_| page.more).map(|(key, _)| Part::Omap(key.clone()))
            }
        };
        // What was read is looked at no more: the next part starts with an empty hold.
        ctx.store.release(scrub.hold);
        scrub.hold = self.next_hold(ctx);
        match next {
            Some(part) => scrub.part = part,
            None => {
                scrub.part = Part::Record;
                scrub.queue.pop_front();
            }
        }
        Ok(true)
    }

    fn list_for_scrub(&mut self, ctx: &mut Ctx<'_>, scrub: &mut Scrub) -> Result<bool, Unread> {
        if scrub.listed {
            return Ok(false);
        }
        let end = ObjectId::whole(self.bounds(ctx).1);
        let max = ctx.config.step_objects + 1;
        let mut found = ctx.store.list(scrub.hold, self.id.shard, &scrub.from, &end, max)?;
        match found.len() == max {
            true => scrub.from = found.pop().unwrap_or(end),
            false => scrub.listed = true,
        }
        scrub.queue = found.into();
        Ok(true)
    }

    /// Reads an object's record; with a head, counts it and all its clones at once, so that no change can come between.
    fn scrub_record(&self, ctx: &Ctx<'_>, scrub: &mut Scrub, object: &ObjectId) -> Result<bool, Unread> {
        let fault = |what: String| Unread::Damaged(Damage { what, offset: 0, expected: 0, found: 0 });
        let Some(stat) = ctx.store.stat(scrub.hold, object)? else { return Ok(false) };
        let info = ObjectInfo::decode(&stat.info).map_err(|e| fault(format!("record ({e})")))?;
        if !object.is_head() || object.generation != types::object_id::CURRENT {
            return Ok(true);
        }
        let mut found = Stats { objects: 1, ..Stats::default() };
        found.bytes = (stat.size + clone_bytes(&info.snaps)) as i64;
        found.whiteouts = i64::from(info.is_whiteout());
        found.omap_objects = i64::from(info.omap);
        for clone in &info.snaps.clones {
            let at = object.at(SnapId(clone.id));
            let stat = ctx.store.stat(scrub.hold, &at)?.ok_or_else(|| fault(format!("missing clone {at}")))?;
            let info = ObjectInfo::decode(&stat.info).map_err(|e| fault(format!("record of {at} ({e})")))?;
            found.objects += 1;
            found.clones += 1;
            found.omap_objects += i64::from(info.omap);
        }
        scrub.counted.add(&found);
        scrub.counted_to = HObject::clone(&object.object);
        Ok(true)
    }

    fn finish_scrub(&mut self, ctx: &mut Ctx<'_>, scrub: Scrub) {
        let counted = scrub.counted;
        let mut stats = self.info.stats;
        let before = stats;
        let figures = |s: &Stats| [s.objects, s.clones, s.bytes, s.whiteouts, s.omap_objects];
        let (had, found) = (figures(&stats), figures(&counted));
        [stats.objects, stats.clones, stats.bytes, stats.whiteouts, stats.omap_objects] = found;
        stats.shallow_errors = scrub.shallow_errors;
        if scrub.deep {
            stats.deep_errors = scrub.deep_errors;
            (stats.omap_keys, stats.omap_bytes) = (counted.omap_keys, counted.omap_bytes);
            self.history.deep_scrub = (self.info.last_update, ctx.now.wall);
        }
        self.history.scrub = (self.info.last_update, ctx.now.wall);
        let what = if scrub.deep { "deep-scrub" } else { "scrub" };
        let errors = scrub.shallow_errors + scrub.deep_errors;
        let mut say = |level, text: String| ctx.out.push(Effect::ClusterLog { level, text });
        if had != found && !self.history.estimated && errors == 0 && !scrub.again {
            let text = format!(
                "{} {what} : stat mismatch, had {had:?} (objects, clones, bytes, whiteouts, omap), found {found:?}",
                self.id
            );
            say(ClusterLevel::Error, text);
        }
        if errors > 0 {
            say(ClusterLevel::Error, format!("{} {what} {errors} errors", self.id));
        } else {
            say(ClusterLevel::Info, format!("{} {what} ok", self.id));
        }
        self.history.estimated = scrub.again;
        self.scrubbed = true;
        self.save(ctx);
        // The other copies count as this one does.
        stats.subtract(&before);
        self.change_unlogged(ctx, Body { delta: stats, ..Body::default() });
    }
}
