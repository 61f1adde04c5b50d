//! Taking up another log: what this copy has and nobody else counts is undone, what it lacks is appended, and the objects of both are
//! missing here until they are brought.
//!
//! Logs match like this: a version names an epoch, and in one epoch one primary wrote one sequence. So if two copies have the same
//! entry, they have the same entries before it, and all that tells two logs apart is, for each epoch, how far it goes
//! ([`crate::log::common`]).
//!
//! What becomes of an object that an entry changed which does not count, the pool's scheme says ([`crate::scheme`]): one of copies has it
//! brought, one of shards has kept it as it was ([`super::kept`]). All of it is one transaction: log, marks of missing objects, removals,
//! what is as it was again, the group's records.
//!
//! Of several entries of one object that do not count, the oldest says what was before all of them. So nothing is undone step by step:
//! the object becomes what was kept for that one.
//!
//! A copy knows of what it takes up when it has taken it up, not before: its own log is read first, and if the interval ends meanwhile, the copy
//! is where it was.

use super::Core;
use super::kept::Kept;
use super::read::scan;
use crate::api::Ctx;
use crate::body::IndexChange;
use crate::entry::{Kind, LogEntry, encode_page};
use crate::letter::LogPart;
use crate::meta::{self, version_key};
use crate::missing::{Lack, Missing};
use crate::object::{index_of, removal};
use crate::scheme::{Scheme, Undo};
use bytes::Bytes;
use objectstore::{Hold, MetaChange, ObjectChange, ObjectChanges, Refused, Unread, View};
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, HObject, SnapId};

/// A log that is being taken up.
pub(crate) struct Merge {
    pub(crate) hold: Hold,
    pub(crate) part: Box<LogPart>,
    /// The primary of the present interval sent it: with the log comes what that says of the group's life.
    follows: bool,
    /// Own entries behind the last common one.
    divergent: Vec<LogEntry>,
    /// The log that counts ends where the own one has it, so the statistics are the own ones before those entries.
    back: bool,
    /// Key of the last one read.
    after: Bytes,
    read: bool,
}

/// What becomes of a merge's next step.
pub(crate) enum Merged {
    /// The store fetches something.
    Waits,
    /// It is submitted.
    Done,
    /// The store refuses.
    Refused,
    /// The own log cannot be read.
    Unreadable(String),
}

/// An object that becomes what was kept of it.
#[derive(Debug, PartialEq, Eq)]
struct Restored {
    /// Number of the generation.
    generation: u64,
    /// Its record then.
    record: Bytes,
    /// The version that it has then.
    version: EVersion,
}

/// What two tails of the log mean for objects.
#[derive(Debug, Default, PartialEq, Eq)]
struct Effects {
    /// As they were before an entry that does not count, where that was kept.
    restored: BTreeMap<HObject, Restored>,
    /// Not there any more, or never was.
    removed: BTreeSet<HObject>,
    /// To be brought, with the version that is to come.
    missing: Missing,
    index: Vec<IndexChange>,
}

/// `known`: what is missing already.
fn effects(scheme: &Scheme, divergent: &[LogEntry], entries: &[LogEntry], known: &Missing) -> Effects {
    let mut found = Effects::default();
    // The oldest entry that does not count says what was before it, so the newest goes first.
    for entry in divergent.iter().rev() {
        let object = HObject::clone(&entry.object);
        match scheme.undo(entry) {
            Undo::Nothing => {}
            Undo::Remove if entry.kind == Kind::Clone => found.remove_clone(object, &entry.snaps),
            Undo::Remove => found.remove(object),
            Undo::Bring(lack) => found.miss(object, lack),
            Undo::Restore { generation, record } => found.restore(object, Restored { generation, record, version: entry.prior }),
        }
    }
    for entry in entries {
        let object = HObject::clone(&entry.object);
        match entry.kind {
            Kind::Error => {}
            Kind::Delete | Kind::LostDelete => found.remove(object),
            Kind::Modify | Kind::Clone | Kind::LostRevert => {
                // What was removed is there again, and new.
                let before = found.missing.get(&object).or_else(|| known.get(&object));
                let lack = match found.removed.contains(&object) {
                    true => Lack::whole(entry.done.version),
                    false => scheme.lack(before, entry),
                };
                found.miss(object, lack);
            }
        }
    }
    found
}

impl Effects {
    fn remove(&mut self, object: HObject) {
        self.missing.remove(&object);
        self.restored.remove(&object);
        if object.is_head() {
            self.index.push(IndexChange::Unwatched(object.clone()));
        }
        self.removed.insert(object);
    }

    fn remove_clone(&mut self, object: HObject, snaps: &[u64]) {
        let head = object.at(SnapId::HEAD);
        self.index.extend(snaps.iter().map(|snap| IndexChange::NoSnap(*snap, head.clone())));
        self.remove(object);
    }

    fn miss(&mut self, object: HObject, lack: Lack) {
        self.removed.remove(&object);
        self.missing.insert(object, lack);
    }

    fn restore(&mut self, object: HObject, restored: Restored) {
        self.removed.remove(&object);
        self.missing.remove(&object);
        self.restored.insert(object, restored);
    }

    /// Marks as missing what was not kept, as it was then.
    fn lack_what_was_not_kept(&mut self, kept: impl Fn(&HObject, u64) -> bool) {
        let gone: Vec<_> = self.restored.extract_if(.., |object, of| !kept(object, of.generation)).collect();
        for (object, restored) in gone {
            self.missing.entry(object).or_insert(Lack::whole(restored.version));
        }
    }
}

impl Core {
    /// Begins to take up a log. `follows`: it is that of the primary which this copy follows.
    pub(crate) fn merge(&mut self, ctx: &Ctx<'_>, part: Box<LogPart>, follows: bool) -> Merge {
        let read = part.anew || self.info.last_update == part.common;
        let after = version_key(meta::LOG, part.common.version);
        Merge { hold: self.next_hold(ctx), part, follows, divergent: Vec::new(), back: false, after, read }
    }

    /// Begins to go back in the own log: what came behind this version does not count.
    pub(crate) fn go_back(&mut self, ctx: &Ctx<'_>, cut: EVersion) -> Merge {
        let info = meta::Info { last_update: cut, ..self.info.clone() };
        let part = LogPart { info, history: self.history.clone(), common: cut, ..LogPart::default() };
        Merge { back: true, ..self.merge(ctx, Box::new(part), false) }
    }

    /// Returns what is kept of that which is to be restored.
    fn look_for_kept(&self, ctx: &Ctx<'_>, hold: Hold, found: &Effects) -> Result<BTreeSet<HObject>, Unread> {
        let mut kept = BTreeSet::new();
        let store: &dyn View = &*ctx.store;
        for (object, restored) in &found.restored {
            match store.stat(hold, &self.generation(object, restored.generation)) {
                Ok(Some(_)) => _ = kept.insert(object.clone()),
                // What cannot be read is of no use.
                Ok(None) | Err(Unread::Damaged(_)) => {}
                Err(missing) => return Err(missing),
            }
        }
        Ok(kept)
    }

    /// Goes on taking it up.
    pub(crate) fn step_merge(&mut self, ctx: &mut Ctx<'_>, merge: &mut Merge) -> Merged {
        while !merge.read {
            let page = match scan(ctx, merge.hold, self.id, meta::LOG, &merge.after) {
                Ok(page) => page,
                Err(Unread::Missing(wish)) => {
                    ctx.store.fetch(merge.hold, wish);
                    return Merged::Waits;
                }
                Err(Unread::Damaged(damage)) => return Merged::Unreadable(damage.what),
            };
            for (key, value) in &page.entries {
                merge.after = key.clone();
                match LogEntry::decode(value, self.id.pg.pool) {
                    Ok(entry) => merge.divergent.push(entry),
                    Err(why) => return Merged::Unreadable(format!("log record {} ({why})", key.escape_ascii())),
                }
            }
            merge.read = !page.more;
        }
        let mut found = effects(&self.scheme, &merge.divergent, &merge.part.entries, &self.missing_before(merge));
        match self.look_for_kept(ctx, merge.hold, &found) {
            Ok(kept) => found.lack_what_was_not_kept(|object, _| kept.contains(object)),
            Err(Unread::Missing(wish)) => {
                ctx.store.fetch(merge.hold, wish);
                return Merged::Waits;
            }
            Err(Unread::Damaged(damage)) => return Merged::Unreadable(damage.what),
        }
        ctx.store.release(merge.hold);
        match self.take_up(ctx, merge, found) {
            Ok(()) => Merged::Done,
            Err(_) => Merged::Refused,
        }
    }

    /// Returns what is missing as far as it matters to a log that is being taken up.
    fn missing_before(&self, merge: &Merge) -> Missing {
        if merge.part.anew { Missing::new() } else { self.missing.clone() }
    }

    /// Returns how objects become what they were: those that are restored, and the end of all else that was kept for entries that do
    /// not count.
    fn restorations(&self, merge: &Merge, restored: &BTreeMap<HObject, Restored>) -> Vec<ObjectChanges> {
        let from = if merge.part.anew { EVersion::default() } else { merge.part.common };
        let restore = |(object, of): (&HObject, &Restored)| {
            let changes = vec![ObjectChange::TakeOver(self.generation(object, of.generation))];
            ObjectChanges { object: self.object(object.clone()), changes }
        };
        // What took an object's place is not there any more, so its removal does nothing.
        restored.iter().map(restore).chain(self.drop_kept_behind(from)).collect()
    }

    /// One transaction: the log, what is missing, what is gone, what is as it was, the group's records.
    fn take_up(&mut self, ctx: &mut Ctx<'_>, merge: &Merge, found: Effects) -> Result<(), Refused> {
        let LogPart { common, anew, entries, dups, .. } = &*merge.part;
        let mut missing = self.missing_before(merge);
        let mut history = self.history.clone();
        if merge.follows {
            history.follow(&merge.part.history, *anew);
        }
        let mut meta: Vec<MetaChange> = Vec::new();
        if *anew {
            for prefix in [meta::LOG, meta::DUPS, meta::MISSING] {
                meta.push(MetaChange::RemoveRange(Bytes::copy_from_slice(&[prefix]), meta::prefix_end(prefix)));
            }
            if let Some(first) = dups.first() {
                let page = encode_page(&dups.iter().collect::<Vec<_>>());
                meta.push(MetaChange::Set(version_key(meta::DUPS, first.version.version), page));
            }
        } else {
            let (from, to) = (version_key(meta::LOG, common.version + 1), meta::prefix_end(meta::LOG));
            meta.push(MetaChange::RemoveRange(from, to));
        }
        meta.extend(entries.iter().map(|e| MetaChange::Set(version_key(meta::LOG, e.done.version.version), e.encode())));
        meta.extend(found.index.iter().map(IndexChange::key));
        for object in &found.removed {
            if missing.remove(object).is_some() {
                meta.push(MetaChange::Remove(meta::missing_key(object)));
            }
        }
        for (object, of) in &found.restored {
            meta.extend(index_of(object, &[ObjectChange::SetInfo(of.record.clone())]).iter().map(IndexChange::key));
            if missing.remove(object).is_some() {
                meta.push(MetaChange::Remove(meta::missing_key(object)));
            }
        }
        for (object, mut lack) in found.missing {
            if history.reaches(&object.at(SnapId::HEAD)) {
                // What a copy that is being filled has is known by comparison, not by its log.
                lack.base = lack.base.filter(|_| history.is_complete());
                meta.push(MetaChange::Set(meta::missing_key(&object), lack.encode()));
                missing.insert(object, lack);
            }
        }
        let mut info = merge.part.info.clone();
        // What leaves the log is this copy's own business.
        info.log_tail = if *anew { merge.part.common } else { self.info.log_tail };
        info.stable = if *anew && !self.scheme.is_whole() { merge.part.common } else { self.info.stable };
        if merge.back {
            merge
                .divergent
                .iter()
                .filter_map(|entry| entry.before.as_ref())
                .for_each(|before| info.stats.subtract(&before.delta));
        }
        meta.push(MetaChange::Set(Bytes::from_static(meta::INFO), info.encode()));
        meta.push(MetaChange::Set(Bytes::from_static(meta::HISTORY), history.encode()));
        let mut objects = self.restorations(merge, &found.restored);
        objects.extend(found.removed.into_iter().map(|object| removal(self.object(object))));
        self.submit_unlogged(ctx, objects, meta)?;
        if let Some(commit) = self.commits.back_mut() {
            // What is undone may have been newer.
            commit.version = info.last_update;
        }
        (self.info, self.history, self.missing) = (info, history, missing);
        self.kept = if *anew {
            Kept::new()
        } else {
            std::mem::take(&mut self.kept).into_iter().filter(|(n, _)| *n <= common.version).collect()
        };
        self.take_up_in_memory(merge);
        Ok(())
    }

    fn take_up_in_memory(&mut self, merge: &Merge) {
        let LogPart { common, anew, entries, dups, .. } = &*merge.part;
        if *anew {
            self.log = Default::default();
            self.pages = dups.first().map(|first| first.version.version).into_iter().collect();
            dups.iter().for_each(|done| self.log.push_dup(done.clone()));
        } else if self.log.newest().is_some_and(|newest| newest.version > *common) {
            // Also what the store does not have any more, since it is a sibling's after a split.
            self.log.rewind(*common);
        }
        entries.iter().for_each(|entry| self.log.push(entry.done.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changed::Changed;
    use crate::entry::Done;
    use crate::log::common;
    use types::{Epoch, Locator, UTime};

    fn object(name: &'static str) -> HObject {
        HObject::head(Bytes::from_static(name.as_bytes()), &Locator::pool(3))
    }

    fn entry(kind: Kind, object: &HObject, prior: u64, version: (Epoch, u64)) -> LogEntry {
        let done = Done { version: EVersion::new(version.0, version.1), ..Done::default() };
        let prior = if prior == 0 { EVersion::default() } else { EVersion::new(1, prior) };
        LogEntry {
            kind,
            object: object.clone().into(),
            prior,
            mtime: UTime::ZERO,
            snaps: vec![4],
            changed: Changed::All,
            before: None,
            done,
        }
    }

    #[test]
    fn logs_have_in_common_what_both_have_of_the_newest_common_epoch() {
        assert_eq!(common(&[(1, 10), (3, 20)], &[(1, 10), (3, 15)]), EVersion::new(3, 15));
        assert_eq!(common(&[(1, 10), (3, 20)], &[(1, 14), (4, 20)]), EVersion::new(1, 10));
        assert_eq!(common(&[(1, 10)], &[(2, 10)]), EVersion::default());
        assert_eq!(common(&[], &[(2, 10)]), EVersion::default());
    }

    #[test]
    fn what_does_not_count_is_missing_or_was_never_there() {
        let (a, b, c, d) = (object("a"), object("b"), object("c"), object("d"));
        let clone = c.at(SnapId(4));
        let divergent = [
            entry(Kind::Modify, &a, 0, (2, 11)),
            entry(Kind::Modify, &a, 11, (2, 12)),
            entry(Kind::Modify, &b, 5, (2, 13)),
            entry(Kind::Clone, &clone, 6, (2, 14)),
            entry(Kind::Modify, &c, 6, (2, 15)),
            entry(Kind::Delete, &d, 7, (2, 16)),
            entry(Kind::Error, &object("e"), 0, (2, 17)),
        ];
        let entries =
            [entry(Kind::Modify, &b, 5, (3, 11)), entry(Kind::Modify, &d, 7, (3, 12)), entry(Kind::Delete, &d, 12, (3, 13))];
        let found = effects(&Scheme::default(), &divergent, &entries, &Missing::new());
        assert_eq!(found.removed, [a.clone(), clone, d].into());
        assert_eq!(found.missing, [(b, Lack::whole(EVersion::new(3, 11))), (c.clone(), Lack::whole(EVersion::new(1, 6)))].into());
        assert!(found.index.contains(&IndexChange::NoSnap(4, c)) && found.index.contains(&IndexChange::Unwatched(a)));
    }
    #[test]
    fn only_what_follows_from_what_a_copy_has_is_brought_in_part() {
        let part = |block: u64| Changed::of(&[objectstore::ObjectChange::Zero(block * 4096, 4096)]);
        let write = |object: &HObject, prior, at: (Epoch, u64), block| LogEntry {
            changed: part(block),
            ..entry(Kind::Modify, object, prior, at)
        };
        let (a, b, c, d) = (object("a"), object("b"), object("c"), object("d"));
        let entries = [
            write(&a, 5, (1, 10), 0),
            write(&a, 10, (1, 11), 3),
            write(&b, 6, (1, 12), 0),
            write(&c, 7, (1, 13), 0),
            entry(Kind::Delete, &d, 8, (1, 14)),
            write(&d, 14, (1, 15), 0),
        ];
        // One entry of b does not count; all of c is missing already.
        let divergent = [write(&b, 6, (2, 10), 0)];
        let known = Missing::from([(c.clone(), Lack::whole(EVersion::new(1, 7)))]);
        let found = effects(&Scheme::default(), &divergent, &entries, &known);
        let based: Vec<&HObject> =
            found.missing.iter().filter(|(_, lack)| lack.base.is_some()).map(|(object, _)| object).collect();
        assert_eq!((based, found.missing.len()), (vec![&a], 4));
        let base = found.missing[&a].base.as_deref().expect("a base");
        assert_eq!((base.have, base.part.bytes(u64::MAX)), (EVersion::new(1, 5), 8192));
    }
}
