//! How a body becomes this copy's own transaction, on the primary and everywhere else.
//!
//! Each copy writes its own keys: the entries it logs, its index, its record, which of its missing objects are whole again. Each trims its
//! own log. Nothing else in the crate changes objects of the group, but removal, and splitting, which moves none.

use super::{Commit, Core};
use crate::api::Ctx;
use crate::body::Body;
use crate::entry::{Done, Kind, LogEntry, encode_page};
use crate::meta::{self, version_key};
use crate::missing::Lack;
use crate::object::{removal, staging_pool};
use crate::stats::Stats;
use bytes::Bytes;
use objectstore::{Hold, MetaChange, ObjectChange, ObjectChanges, Refused, Transaction};
use types::{EVersion, HObject, ObjectId, PoolId, SnapId};

/// Entries that leave the log together: one page of duplicates.
const RETIRE: usize = 100;

impl Core {
    /// Makes this copy's transaction of a body and hands it to the store.
    ///
    /// # Errors
    /// The store refuses; nothing was changed.
    pub(crate) fn apply(&mut self, ctx: &mut Ctx<'_>, body: Body, hold: Option<Hold>) -> Result<Commit, Refused> {
        let mut history = None;
        let kept = self.kept_by(&body);
        let mut meta: Vec<MetaChange> = body.index.iter().map(crate::body::IndexChange::key).collect();
        if !body.purged.is_empty() || body.clean > 0 || body.progress.is_some() {
            let mut changed = self.history.clone();
            if body.change_history(&mut changed) {
                meta.push(MetaChange::Set(Bytes::from_static(meta::HISTORY), changed.encode()));
                history = Some(changed);
            }
        }
        let progress = body.progress.map(|progress| *progress).unwrap_or_default();
        let (recovered, passed) = (progress.recovered, progress.lacks);
        meta.extend(recovered.iter().map(|object| MetaChange::Remove(meta::missing_key(object))));
        // An older version counts again: who did not get it with this misses it.
        let reverted = |entry: &&LogEntry| {
            let brought = recovered.contains(&entry.object);
            entry.kind == Kind::LostRevert && !brought && self.history.reaches(&entry.object.at(SnapId::HEAD))
        };
        let lacks = |entry: &LogEntry| (HObject::clone(&entry.object), Lack::whole(entry.done.version));
        let mut lacking: Vec<(HObject, Lack)> = body.entries.iter().filter(reverted).map(lacks).collect();
        lacking.extend(passed.into_iter().map(|(object, need)| (object, Lack::whole(need))));
        meta.extend(lacking.iter().map(|(object, lack)| MetaChange::Set(meta::missing_key(object), lack.encode())));
        let mut info = self.info.clone();
        for entry in &body.entries {
            meta.push(MetaChange::Set(version_key(meta::LOG, entry.done.version.version), entry.encode()));
            info.last_update = entry.done.version;
            info.user_version = info.user_version.max(entry.done.user_version);
        }
        info.stats.add(&body.delta);
        let collected = self.collected_by(&body.objects);
        let mut objects = body.objects;
        if !kept.is_empty() {
            let mut all = self.keep(&kept, &objects);
            all.append(&mut objects);
            objects = all;
        }
        let stable = body.stable.min(info.last_update);
        if stable > info.stable {
            info.stable = stable;
            objects.extend(self.drop_kept(stable));
        }
        let mut retired = None;
        if !body.entries.is_empty() || body.delta != Stats::default() || info.stable != self.info.stable {
            retired = self.retire(ctx, &mut info, &mut meta);
            meta.push(MetaChange::Set(Bytes::from_static(meta::INFO), info.encode()));
        }
        let first = body.entries.first().map(|entry| entry.done.version);
        let commit = self.submit_own(ctx, objects, meta, hold, first, info.last_update)?;
        if self.info.stable != info.stable {
            self.kept = self.kept.split_off(&(info.stable.version + 1));
        }
        self.info = info;
        self.kept.extend(kept);
        if let Some(history) = history {
            self.history = history;
        }
        if let Some(page) = retired {
            self.log.retire(RETIRE);
            self.pages.push_back(page);
            self.forget_pages(ctx);
        }
        for entry in body.entries {
            self.log.push(entry.done);
        }
        for object in recovered {
            self.missing.remove(&object);
        }
        self.missing.extend(lacking);
        for (object, stays) in collected {
            if stays {
                self.collected.insert(object)
            } else {
                self.collected.remove(&object)
            };
        }
        Ok(commit)
    }

    /// Returns what these changes collect, and whether it stays in the store after them.
    fn collected_by(&self, objects: &[ObjectChanges]) -> Vec<(ObjectId, bool)> {
        let staging = staging_pool(self.id.pg.pool);
        let of = |changes: &ObjectChanges| (changes.object.clone(), changes.changes.last() != Some(&ObjectChange::Remove));
        objects.iter().filter(|changes| changes.object.pool == staging).map(of).collect()
    }

    /// Removes what lies collected of objects that did not come to their end: the interval in which they would have is over.
    pub(crate) fn forget_collected(&mut self, ctx: &mut Ctx<'_>) {
        if self.collected.is_empty() {
            return;
        }
        let objects = std::mem::take(&mut self.collected).into_iter().map(removal).collect();
        if self.submit_unlogged(ctx, objects, Vec::new()) == Err(Refused::Stopped) {
            self.stopped(ctx);
        }
    }

    fn submit_own(
        &mut self,
        ctx: &mut Ctx<'_>,
        objects: Vec<ObjectChanges>,
        meta: Vec<MetaChange>,
        hold: Option<Hold>,
        first: Option<EVersion>,
        version: EVersion,
    ) -> Result<Commit, Refused> {
        let ticket = self.next_ticket(ctx);
        // Clients read where the group is led; reads elsewhere bring what they need.
        let cold = !self.leads(ctx);
        let objects = take_over(objects, staging_pool(self.id.pg.pool));
        ctx.store.submit(Transaction { scope: self.id, hold, cold, objects, meta }, ticket)?;
        let commit = Commit { ticket, first, version };
        self.commits.push_back(commit);
        Ok(commit)
    }

    /// If the log is long enough, its oldest entries become a page of duplicates. Gives the page's number.
    fn retire(&self, ctx: &Ctx<'_>, info: &mut meta::Info, changes: &mut Vec<MetaChange>) -> Option<u64> {
        if self.log.len() < ctx.config.log_entries + RETIRE {
            return None;
        }
        let oldest: Vec<&Done> = self.log.oldest(RETIRE).collect();
        let (first, last) = (oldest.first()?.version, oldest.last()?.version);
        if !self.may_retire(info.stable, last) {
            return None;
        }
        let end = version_key(meta::LOG, last.version + 1);
        changes.push(MetaChange::RemoveRange(version_key(meta::LOG, 0), end));
        changes.push(MetaChange::Set(version_key(meta::DUPS, first.version), encode_page(&oldest)));
        let pages = ctx.config.dup_entries.div_ceil(RETIRE);
        if self.pages.len() >= pages {
            // Those that fall out when the new page is there.
            let keep = self.pages.iter().rev().nth(pages.saturating_sub(2)).copied().unwrap_or(first.version);
            let keep = if pages <= 1 { first.version } else { keep };
            changes.push(MetaChange::RemoveRange(version_key(meta::DUPS, 0), version_key(meta::DUPS, keep)));
        }
        info.log_tail = last;
        Some(first.version)
    }

    fn forget_pages(&mut self, ctx: &Ctx<'_>) {
        let pages = ctx.config.dup_entries.div_ceil(RETIRE).max(1);
        while self.pages.len() > pages {
            self.pages.pop_front();
        }
        if let Some(first) = self.pages.front() {
            self.log.forget_below(*first);
        }
    }

    /// Changes what only this copy has: records of its own, what removal and splitting take away.
    pub(crate) fn submit_unlogged(
        &mut self,
        ctx: &mut Ctx<'_>,
        objects: Vec<ObjectChanges>,
        meta: Vec<MetaChange>,
    ) -> Result<(), Refused> {
        self.submit_own(ctx, objects, meta, None, None, self.info.last_update).map(|_| ())
    }

    /// This copy of an object cannot be read: it is missing here, and brought from elsewhere.
    pub(crate) fn mark_missing(&mut self, ctx: &mut Ctx<'_>, object: HObject) {
        let lack = Lack::whole(self.info.last_update);
        let mark = MetaChange::Set(meta::missing_key(&object), lack.encode());
        if self.submit_unlogged(ctx, Vec::new(), vec![mark]) == Err(Refused::Stopped) {
            self.stopped(ctx);
        }
        self.missing.insert(object, lack);
    }
}

/// Lets an object that was collected in `staging` keep what is its own: where it becomes another one's clone and is removed then, the
/// other takes it over, and nothing is copied. On the wire both stand apart, as programs read them that know no other way.
fn take_over(mut objects: Vec<ObjectChanges>, staging: PoolId) -> Vec<ObjectChanges> {
    for at in 1..objects.len() {
        let of = &objects[at];
        if of.object.pool != staging || of.changes != [ObjectChange::Remove] {
            continue;
        }
        let collected = of.object.clone();
        let takes = |of: &ObjectChanges| of.changes.iter().rposition(|change| change.source() == Some(&collected));
        let Some(taker) = objects[..at].iter().rposition(|of| takes(of).is_some()) else { continue };
        // Whoever else needs it must come before.
        if objects[taker + 1..at].iter().any(|of| of.object == collected) || objects[taker].object == collected {
            continue;
        }
        // Who takes ranges of it leaves the rest.
        if let Some(change @ ObjectChange::CloneOf(_)) = takes(&objects[taker]).and_then(|i| objects[taker].changes.get_mut(i)) {
            *change = ObjectChange::TakeOver(collected);
            objects[at].changes.clear();
        }
    }
    objects.retain(|of| !of.changes.is_empty());
    objects
}

#[cfg(test)]
mod tests {
    use super::*;
    use objectstore::Mutation;
    use types::Locator;

    fn object(pool: PoolId, name: &'static str) -> ObjectId {
        ObjectId::whole(HObject::head(Bytes::from_static(name.as_bytes()), &Locator::pool(pool)))
    }

    fn taken(mutations: Vec<Mutation>) -> Vec<ObjectChanges> {
        let transaction: Transaction = mutations.into_iter().collect();
        take_over(transaction.objects, -7)
    }

    #[test]
    fn what_was_collected_is_not_copied() {
        let (a, b, collected) = (object(5, "a"), object(5, "b"), object(-7, "c"));
        let clone = |to: &ObjectId| Mutation::of(to.clone(), ObjectChange::CloneOf(collected.clone()));
        let removed = || Mutation::of(collected.clone(), ObjectChange::Remove);
        let info = Mutation::of(a.clone(), ObjectChange::SetInfo(Bytes::new()));
        let found = taken(vec![clone(&b), clone(&a), info.clone(), removed()]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].changes, [ObjectChange::CloneOf(collected.clone())]);
        assert_eq!(found[1].changes[0], ObjectChange::TakeOver(collected.clone()), "only the last one may take it");
        let more = Mutation::of(collected.clone(), ObjectChange::Truncate(3));
        for other in [vec![clone(&a), info.clone()], vec![clone(&a), more, removed()], vec![removed(), clone(&a)]] {
            let as_it_was: Transaction = other.clone().into_iter().collect();
            assert_eq!(taken(other), as_it_was.objects, "nothing is known about these");
        }
        let elsewhere =
            vec![Mutation::of(a.clone(), ObjectChange::CloneOf(b.clone())), Mutation::of(b.clone(), ObjectChange::Remove)];
        assert_eq!(taken(elsewhere.clone()), elsewhere.into_iter().collect::<Transaction>().objects);
    }
}
