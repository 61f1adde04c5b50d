//! A pool gets fewer groups: a group (the *target*) takes another one in (the *source*). It is a split turned round: the objects stay
//! where they are, and what the source wrote about its objects moves into the target's keys.
//!
//! Before the map says so, both lie on the same OSDs, and the map says that they are about to be merged
//! ([`maps::Interval::is_premerge`]). From then on neither serves. When all copies of both are whole and durable, their primary
//! reports it ([`Pg::is_ready`]), and the monitors make the map, which carries where both ended (`last_pg_merge_meta`).
//!
//! *Who is up to date.* Nothing is written between that report and the map. So a copy is good exactly if it is complete, misses
//! nothing, and ends where the map says, for source and target. Then both together are a good copy of the united group. Its log
//! begins anew at a version that all good copies find by themselves: the map's epoch, and a number above both. Any other copy
//! counts for nothing: it keeps its objects, and is filled by comparison like a new one. If only the source is here it is removed,
//! and the target does not come to be here before that is done.
//!
//! *Which unions are due* is in the history ([`Union`]), written before the OSD remembers the map. So they are carried out one after
//! the other, after a restart, too. If maps were skipped, nobody knows where both ended, and the copy counts for nothing.
//!
//! *Requests that were done* are recognised as before: the records of both logs become duplicates of the united group. They get new
//! versions below that with which it begins, since only by version is it known which are old. Of copies made by a split one is enough.
//!
//! Order of writes on one OSD, so that a crash at any point leaves two whole groups or one:
//!
//! | step | until | after a crash |
//! |---|---|---|
//! | drain | what source and target submitted is durable | from the start |
//! | wait | all sources that are here are drained, or gone if they were being removed | from the start |
//! | copy | the source's indices of snapshots and watchers are among the target's keys, in pages, durably | from the start: the same is written again |
//! | write | one transaction: duplicates, info, history, with the sources whose keys are left | the source's keys go |
//! | clear | the source's keys are gone, durably | the same again |
//! | clear, too | the history that names no sources is durable | the same again |
//!
//! A source that is loaded and whose objects are in the target's share by what the target wrote is what is left over: it ends as if it
//! were removed, and the target takes its keys away.

use super::{Pg, Role};
use crate::api::{Ctx, Effect};
use crate::core::read::{bad, scan};
use crate::entry::{Done, encode_page};
use crate::history::{History, Union};
use crate::meta::{self, Info, version_key};
use bytes::Bytes;
use node::{Level, Mono};
use objectstore::{Hold, MetaChange, Refused, Transaction, Unread};
use std::time::Duration;
use types::{EVersion, HObject, PgId, SpgId};

/// Prefixes of the keys that move, in the order of work.
const MOVED: [u8; 2] = [meta::SNAPS, meta::WATCHED];
/// Prefixes of the keys that the united group writes anew.
const ANEW: [u8; 3] = [meta::LOG, meta::DUPS, meta::MISSING];
/// What did not succeed is tried again after this.
const AGAIN: Duration = Duration::from_secs(1);
/// Records in a page of duplicates.
const PAGE: usize = 100;

/// What a source leaves to its target: all that is known of it in memory.
pub struct Legacy {
    id: SpgId,
    info: Info,
    history: History,
    /// Objects that it lacks.
    missing: usize,
    /// Requests that were done, oldest first.
    records: Vec<Done>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Waiting for work under way.
    Drain,
    /// Waiting for the sources.
    Wait,
    /// Taking over keys.
    Copy,
    /// Waiting until they are durable.
    Copied,
    /// Waiting until the united group is durable.
    Written,
    /// Waiting until the sources' keys are gone.
    Clear,
    /// Waiting until it is written down that they are.
    Cleared,
}

/// A target that takes sources in.
pub(crate) struct Uniting {
    step: Step,
    hold: Hold,
    legacies: Vec<Legacy>,
    /// Which of `legacies`, which of [`MOVED`], and the last key read.
    source: usize,
    prefix: usize,
    after: Bytes,
    /// Numbers of sources of which nothing is left.
    gone: Vec<u32>,
    /// Time when something that did not succeed is tried again.
    again: Option<Mono>,
}

impl Uniting {
    fn new(hold: Hold, step: Step) -> Self {
        Self { step, hold, legacies: Vec::new(), source: 0, prefix: 0, after: Bytes::new(), gone: Vec::new(), again: None }
    }

    /// Returns what is read for it.
    pub(crate) fn hold(&self) -> Hold {
        self.hold
    }

    /// Returns when it is to be called at the latest.
    pub(crate) fn deadline(&self) -> Mono {
        self.again.unwrap_or(Mono::NEVER)
    }

    /// Where to read on behind a page.
    fn behind(&mut self, last: Option<&Bytes>) {
        match last {
            Some(key) => self.after = key.clone(),
            None if self.prefix + 1 < MOVED.len() => (self.prefix, self.after) = (self.prefix + 1, Bytes::new()),
            None => (self.source, self.prefix, self.after) = (self.source + 1, 0, Bytes::new()),
        }
    }
}

/// Returns true if a copy is complete, misses nothing, and ends at `end`.
fn is_good(info: &Info, history: &History, missing: usize, end: EVersion) -> bool {
    history.created > 0 && history.is_complete() && missing == 0 && info.last_update == end
}

/// Returns where the log of the united group begins.
fn beginning(union: &Union, source: EVersion, target: EVersion) -> EVersion {
    EVersion { epoch: union.epoch, version: source.version + target.version + 1 }
}

/// The records of both, oldest first: how old they are beside each other is not known, so the newest of both come last. Their versions
/// are those before `begin`.
fn united(mut target: Vec<Done>, mut source: Vec<Done>, begin: EVersion) -> Vec<Done> {
    let mut all = Vec::with_capacity(target.len() + source.len());
    while !target.is_empty() || !source.is_empty() {
        all.extend(target.pop());
        all.extend(source.pop());
    }
    for (n, done) in all.iter_mut().enumerate() {
        let version = begin.version.checked_sub(n as u64 + 1).filter(|version| *version > 0);
        assert!(version.is_some(), "there are at most as many records as versions: {} before {begin}", n + 1);
        done.version = EVersion { epoch: begin.epoch, version: version.unwrap_or_default() };
    }
    all.reverse();
    all
}

impl Pg {
    /// Begins what the pool's number of groups asks for, if that changes this group: unions first, in their order, then a split.
    /// True if something is under way.
    pub(crate) fn change_share(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let share = self.core.history.pg_num;
        if self.core.history.created > 0 {
            // A split that is not done here need not be undone.
            let done = self.core.history.unions.iter().take_while(|union| union.share >= share).count();
            self.core.history.unions.drain(..done);
        }
        let next = self.core.history.unions.first().map(|union| union.share);
        match next {
            _ if !self.core.history.taken.is_empty() => self.begin_union(ctx, Step::Written),
            Some(0) => self.leave(ctx),
            Some(_) => self.begin_union(ctx, Step::Drain),
            None if self.core.history.created == 0 => {
                self.core.history.pg_num = self.core.history.interval.pg_num;
                return false;
            }
            None if self.core.history.interval.pg_num > share => self.begin_split(ctx),
            None => return false,
        }
        true
    }

    /// Another group takes this one in: it does nothing any more.
    fn leave(&mut self, ctx: &mut Ctx<'_>) {
        self.stop_serving(ctx);
        self.deferred.clear();
        self.role = Role::Leaving;
        if self.core.history.created == 0 {
            self.role = Role::Removed;
            return ctx.out.push(Effect::Removed);
        }
        self.step_leaving(ctx);
    }

    pub(crate) fn step_leaving(&mut self, ctx: &mut Ctx<'_>) {
        if self.core.is_drained() {
            ctx.out.push(Effect::Unite);
        }
    }

    /// Returns true if the group does nothing any more but go: another one takes it in, or it is removed. What comes for it waits for the
    /// one that will stand in its place.
    pub fn is_going(&self) -> bool {
        matches!(self.role, Role::Leaving | Role::Removing(_) | Role::Removed)
    }

    /// Returns who takes this group in, if it has nothing more to do than to be taken in.
    pub fn heir(&self) -> Option<SpgId> {
        let union = self.core.history.unions.iter().find(|union| union.share == 0)?;
        let heir = SpgId { pg: PgId::new(self.core.id.pg.pool, union.into), shard: self.core.id.shard };
        (matches!(self.role, Role::Leaving) && self.core.is_drained()).then_some(heir)
    }

    /// Returns what this group leaves to the one that takes it in, if it has nothing more to do than that.
    pub fn legacy(&self) -> Option<Legacy> {
        self.heir()?;
        let (info, history, missing) = (self.core.info.clone(), self.core.history.clone(), self.core.missing.len());
        Some(Legacy { id: self.core.id, info, history, missing, records: self.core.log.all().cloned().collect() })
    }

    /// Returns true if the group waits for those that it takes in.
    pub fn waits_for_sources(&self) -> bool {
        matches!(&self.role, Role::Uniting(uniting) if uniting.step == Step::Wait)
    }

    /// Returns true if nothing of the group is here, or what is here is being removed: it takes nothing in.
    pub fn is_nothing(&self) -> bool {
        let unknown = matches!(self.role, Role::Loading(_) | Role::Broken);
        matches!(self.role, Role::Removing(_) | Role::Removed) || self.core.history.created == 0 && !unknown
    }

    /// Returns true if this group takes in the one with this number, if that is here.
    pub fn takes_in(&self, seed: u32) -> bool {
        let Some(union) = self.core.history.unions.first().filter(|union| union.share > 0) else { return false };
        seed != self.core.id.pg.seed && seed < self.core.history.pg_num && seed % union.share == self.core.id.pg.seed
    }

    /// Returns whether the keys of this group are left over from a union that its target has carried out.
    pub(crate) fn is_left_over(&self, ctx: &Ctx<'_>, hold: Hold) -> Result<bool, Unread> {
        let leaves = self.core.history.unions.iter().find(|union| union.share == 0);
        let Some(union) = leaves.filter(|_| !self.core.history.removing) else { return Ok(false) };
        let heir = SpgId { pg: PgId::new(self.core.id.pg.pool, union.into), shard: self.core.id.shard };
        let Some(bytes) = ctx.store.meta_get(hold, &heir, meta::HISTORY)? else { return Ok(false) };
        let mut heir = History::decode(&bytes).map_err(|e| bad(&format!("history of {heir} ({e})")))?;
        heir.normalize(union.into);
        Ok(self.core.id.pg.seed % heir.pg_num.max(1) == union.into)
    }

    fn begin_union(&mut self, ctx: &mut Ctx<'_>, step: Step) {
        self.stop_serving(ctx);
        let hold = self.core.next_hold(ctx);
        self.role = Role::Uniting(Box::new(Uniting::new(hold, step)));
        self.step_union(ctx);
    }

    /// Goes on, as far as nothing has to be waited for.
    pub(crate) fn step_union(&mut self, ctx: &mut Ctx<'_>) {
        while let Role::Uniting(uniting) = &mut self.role {
            if uniting.again.is_some_and(|again| again > ctx.now.mono) {
                return;
            }
            uniting.again = None;
            let (step, drained) = (uniting.step, self.core.is_drained());
            let on = match step {
                Step::Drain if drained => {
                    self.set_union_step(Step::Wait);
                    ctx.out.push(Effect::Unite);
                    false
                }
                Step::Wait => false,
                Step::Copy => self.copy_page(ctx),
                Step::Copied if drained => self.write_union(ctx),
                Step::Written if drained => self.clear_sources(ctx),
                Step::Clear if drained => self.forget_sources(ctx),
                Step::Cleared if drained => {
                    self.end_union(ctx);
                    false
                }
                _ => false,
            };
            if !on {
                return;
            }
        }
    }

    fn set_union_step(&mut self, step: Step) {
        if let Role::Uniting(uniting) = &mut self.role {
            uniting.step = step;
        }
    }

    /// All sources that are here have left: takes them in. Call it while [`Pg::waits_for_sources`].
    pub fn take_in(&mut self, ctx: &mut Ctx<'_>, legacies: Vec<Legacy>) {
        if !self.waits_for_sources() {
            return;
        }
        if self.core.history.created == 0 {
            // Nothing is here, so there is nothing to write down.
            self.core.history.pg_num = self.core.history.unions.remove(0).share;
            return self.end_union(ctx);
        }
        if let Role::Uniting(uniting) = &mut self.role {
            (uniting.legacies, uniting.step) = (legacies, Step::Copy);
        }
        self.step_union(ctx);
    }

    /// Takes over one page of keys. False if it must be waited for.
    fn copy_page(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let Role::Uniting(uniting) = &mut self.role else { return false };
        let (hold, prefix, after) = (uniting.hold, uniting.prefix, uniting.after.clone());
        let Some(from) = uniting.legacies.get(uniting.source).map(|legacy| legacy.id) else {
            uniting.step = Step::Copied;
            ctx.store.release(hold);
            return true;
        };
        let page = match scan(ctx, hold, from, MOVED[prefix], &after) {
            Ok(page) => page,
            Err(Unread::Missing(wish)) => {
                ctx.store.fetch(hold, wish);
                return false;
            }
            Err(Unread::Damaged(damage)) => {
                ctx.store.release(hold);
                let text = format!("cannot take in pg {from}: {} at offset {} is damaged", damage.what, damage.offset);
                self.try_union_again(ctx, text);
                return false;
            }
        };
        let last = page.entries.last().filter(|_| page.more).map(|(key, _)| key.clone());
        let moved: Vec<MetaChange> = page.entries.into_iter().map(|(key, value)| MetaChange::Set(key, value)).collect();
        #[cfg(feature = "sim")]
        let moved = if self.core.mistake == Some(crate::selfcheck::Mistake::ForgetSourceSnaps) { Vec::new() } else { moved };
        if !moved.is_empty() && !self.submit_for_union(ctx, moved) {
            return false;
        }
        if let Role::Uniting(uniting) = &mut self.role {
            uniting.behind(last.as_ref());
        }
        true
    }

    fn submit_for_union(&mut self, ctx: &mut Ctx<'_>, meta: Vec<MetaChange>) -> bool {
        let taken = self.core.submit_unlogged(ctx, Vec::new(), meta);
        taken.map_err(|refused| self.union_refused(ctx, refused)).is_ok()
    }

    fn union_refused(&mut self, ctx: &mut Ctx<'_>, refused: Refused) {
        match refused {
            Refused::Stopped => self.core.stopped(ctx),
            _ => self.try_union_again(ctx, format!("cannot take in another group: the store refuses ({refused:?})")),
        }
    }

    /// The step at which it is did not succeed: once more, a little later. A disk may have room, or read better, by then.
    fn try_union_again(&mut self, ctx: &mut Ctx<'_>, why: String) {
        self.core.log_line(ctx, Level::Error, why);
        if let Role::Uniting(uniting) = &mut self.role {
            uniting.again = Some(ctx.now.mono.plus(AGAIN));
        }
    }

    /// The sources' keys are gone: that is written down.
    fn forget_sources(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let gone = std::mem::take(&mut self.core.history.taken);
        let records = self.core.own_records();
        if !self.submit_for_union(ctx, records) {
            self.core.history.taken = gone;
            return false;
        }
        if let Role::Uniting(uniting) = &mut self.role {
            (uniting.gone, uniting.step) = (gone, Step::Cleared);
        }
        true
    }

    /// The source, if it and this copy are up to date, and where both ended.
    fn good_source<'l>(&self, union: &Union, legacies: &'l [Legacy]) -> Option<(&'l Legacy, EVersion)> {
        let (source_end, target_end) = union.ends?;
        let [source] = legacies else { return None };
        let begin = beginning(union, source_end, target_end);
        #[cfg(feature = "sim")]
        if self.core.mistake == Some(crate::selfcheck::Mistake::TakeAnySource) {
            return Some((source, begin));
        }
        let good = is_good(&source.info, &source.history, source.missing, source_end)
            && is_good(&self.core.info, &self.core.history, self.core.missing.len(), target_end);
        good.then_some((source, begin))
    }

    /// One transaction makes one group of both.
    fn write_union(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let Role::Uniting(uniting) = &mut self.role else { return false };
        let legacies = std::mem::take(&mut uniting.legacies);
        let Some(union) = self.core.history.unions.first().cloned() else { return false };
        let mut history = self.core.history.clone();
        history.unions.remove(0);
        history.pg_num = union.share;
        history.taken = legacies.iter().map(|legacy| legacy.id.pg.seed).collect();
        let (info, records) = match self.good_source(&union, &legacies) {
            Some((source, begin)) => {
                history.take_over(&source.history);
                (self.united_info(source, begin), self.united_records(source, begin))
            }
            None => {
                // What is not up to date is filled anew.
                history.backfill = Some(HObject::min());
                (Info::default(), Vec::new())
            }
        };
        let text = match history.is_complete() {
            true => format!("goes on at {} with the objects of {:?}", info.last_update, history.taken),
            false => format!("took in {:?}, which do not end where the map says: it is filled anew", history.taken),
        };
        let pages: Vec<&[Done]> = records.chunks(PAGE).collect();
        let range = |prefix: u8| MetaChange::RemoveRange(Bytes::copy_from_slice(&[prefix]), meta::prefix_end(prefix));
        let mut meta: Vec<MetaChange> = ANEW.into_iter().map(range).collect();
        meta.extend(pages.iter().map(|page| {
            let key = version_key(meta::DUPS, page[0].version.version);
            MetaChange::Set(key, encode_page(&page.iter().collect::<Vec<_>>()))
        }));
        meta.push(MetaChange::Set(Bytes::from_static(meta::INFO), info.encode()));
        meta.push(MetaChange::Set(Bytes::from_static(meta::HISTORY), history.encode()));
        let firsts = pages.iter().map(|page| page[0].version.version).collect();
        if !self.submit_for_union(ctx, meta) {
            if let Role::Uniting(uniting) = &mut self.role {
                uniting.legacies = legacies;
            }
            return false;
        }
        if let Some(commit) = self.core.commits.back_mut() {
            // A copy that is filled anew is at the beginning again.
            commit.version = info.last_update;
        }
        self.core.log_line(ctx, Level::Info, text);
        (self.core.info, self.core.history, self.core.pages) = (info, history, firsts);
        self.core.log = Default::default();
        records.into_iter().for_each(|done| self.core.log.push_dup(done));
        self.core.missing.clear();
        self.set_union_step(Step::Written);
        true
    }

    fn united_info(&self, source: &Legacy, begin: EVersion) -> Info {
        assert!(
            begin > self.core.info.last_update && begin > source.info.last_update,
            "pg {}: {begin} is above both",
            self.core.id
        );
        let mut info = Info { last_update: begin, log_tail: begin, ..self.core.info.clone() };
        info.user_version = info.user_version.max(source.info.user_version);
        info.stats.add(&source.info.stats);
        info
    }

    fn united_records(&self, source: &Legacy, begin: EVersion) -> Vec<Done> {
        #[cfg(feature = "sim")]
        if self.core.mistake == Some(crate::selfcheck::Mistake::ForgetSourceDups) {
            return united(self.core.log.all().cloned().collect(), Vec::new(), begin);
        }
        let fresh = source.records.iter().filter(|done| self.core.log.find(&done.reqid).is_none());
        united(self.core.log.all().cloned().collect(), fresh.cloned().collect(), begin)
    }

    /// Takes the sources' keys away.
    fn clear_sources(&mut self, ctx: &mut Ctx<'_>) -> bool {
        for seed in self.core.history.taken.clone() {
            let source = SpgId { pg: PgId::new(self.core.id.pg.pool, seed), shard: self.core.id.shard };
            let meta = vec![MetaChange::RemoveRange(Bytes::new(), Bytes::from_static(&[0xff]))];
            let ticket = self.core.next_ticket(ctx);
            match ctx.store.submit(Transaction { scope: source, meta, ..Transaction::default() }, ticket) {
                Ok(()) => drop(self.core.loose.insert(ticket)),
                Err(refused) => {
                    self.union_refused(ctx, refused);
                    return false;
                }
            }
        }
        self.set_union_step(Step::Clear);
        true
    }

    fn end_union(&mut self, ctx: &mut Ctx<'_>) {
        let Role::Uniting(uniting) = std::mem::replace(&mut self.role, Role::Replica(Box::default())) else { return };
        ctx.out.push(Effect::United { sources: uniting.gone });
        if !self.change_share(ctx) {
            self.take_role(ctx);
        }
    }
}

impl History {
    /// Takes over what is known of a group that this one takes in. Nothing was written in either since both were clean, so the
    /// members that this one remembers are enough.
    fn take_over(&mut self, source: &Self) {
        self.created = self.created.min(source.created);
        self.purged = self.purged.intersection(&source.purged);
        let older = |a: &(EVersion, types::UTime), b: &(EVersion, types::UTime)| if a.1 <= b.1 { *a } else { *b };
        self.scrub = older(&self.scrub, &source.scrub);
        self.deep_scrub = older(&self.deep_scrub, &source.deep_scrub);
        self.estimated |= source.estimated;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::ReqId;

    fn records(client: i64, versions: std::ops::RangeInclusive<u64>) -> Vec<Done> {
        let done =
            |n| Done { version: EVersion::new(3, n), reqid: ReqId { kind: 8, num: client, tid: n, inc: 0 }, ..Done::default() };
        versions.map(done).collect()
    }

    #[test]
    fn the_newest_of_both_come_last_below_the_beginning() {
        let all = united(records(1, 1..=5), records(2, 8..=9), EVersion::new(20, 15));
        let who: Vec<(i64, u64)> = all.iter().map(|done| (done.reqid.num, done.reqid.tid)).collect();
        assert_eq!(who, [(1, 1), (1, 2), (1, 3), (2, 8), (1, 4), (2, 9), (1, 5)]);
        let versions: Vec<EVersion> = all.iter().map(|done| done.version).collect();
        assert_eq!(versions, (8..15).map(|n| EVersion::new(20, n)).collect::<Vec<_>>());
    }

    #[test]
    fn a_copy_is_good_only_if_it_is_whole_and_ends_there() {
        let end = EVersion::new(4, 9);
        let info = Info { last_update: end, ..Info::default() };
        let history = History { created: 1, ..History::default() };
        assert!(is_good(&info, &history, 0, end));
        assert!(!is_good(&info, &history, 1, end));
        assert!(!is_good(&info, &history, 0, EVersion::new(4, 10)));
        assert!(!is_good(&info, &History { backfill: Some(HObject::min()), ..history.clone() }, 0, end));
        assert!(!is_good(&info, &History::default(), 0, end));
    }
}
