//! What this copy has: its own log, and which versions of which objects.

use super::Core;
use crate::api::Ctx;
use crate::body::Body;
use crate::changed::Part;
use crate::entry::LogEntry;
use crate::info::ObjectInfo;
use crate::letter::{Letter, Sought};
use crate::meta;
use crate::missing::Base;
use crate::object::Piece;
use bytes::Bytes;
use objectstore::{Damage, Hold, Limit, Page, Unread, View};
use std::ops::Bound;
use types::object_id::CURRENT;
use types::{EVersion, HObject, ObjectId, ShardId, SnapId, SpgId};

/// Keys read at a time.
const PAGE: Limit = Limit { entries: 512, bytes: 1 << 20 };

/// A fault in the group's own keys.
pub(crate) fn bad(what: &str) -> Unread {
    Unread::Damaged(Damage { what: what.into(), offset: 0, expected: 0, found: 0 })
}

/// A page of meta keys with one prefix.
pub(crate) fn scan(ctx: &Ctx<'_>, hold: Hold, id: SpgId, prefix: u8, after: &Bytes) -> Result<Page, Unread> {
    let first = [prefix];
    let from = if after.is_empty() { Bound::Included(&first[..]) } else { Bound::Excluded(&after[..]) };
    let end = meta::prefix_end(prefix);
    ctx.store.meta_scan(hold, &id, (from, Bound::Excluded(&end[..])), PAGE)
}

/// Names from one (included) to another (excluded), at most so many, without what is kept of the past.
///
/// # Errors
/// As [`objectstore::View::list`].
pub(crate) fn list_current(
    store: &dyn View,
    hold: Hold,
    shard: ShardId,
    (from, to): (&ObjectId, &ObjectId),
    max: usize,
) -> Result<Vec<ObjectId>, Unread> {
    let mut names = store.list(hold, shard, from, to, max)?;
    let (mut listed, mut last) = (names.len(), names.last().cloned());
    names.retain(|name| name.generation == CURRENT);
    // What was left out made room for more.
    while let Some(behind) = last.take().filter(|_| listed >= max && names.len() < max) {
        let more = store.list(hold, shard, &behind, to, max)?;
        listed = more.len();
        last = more.last().filter(|name| **name != behind).cloned();
        names.extend(more.into_iter().filter(|name| name.generation == CURRENT && *name != behind));
    }
    names.truncate(max);
    Ok(names)
}

impl Core {
    /// The head and the clones of an object that are here.
    pub(crate) fn names_of(&self, ctx: &Ctx<'_>, hold: Hold, head: &ObjectId) -> Result<Vec<HObject>, Unread> {
        let (from, to) = (head.at(SnapId(0)), head.at(SnapId::DIR));
        let names = list_current(&*ctx.store, hold, self.id.shard, (&from, &to), usize::MAX)?;
        Ok(names.into_iter().map(|name| HObject::clone(&name.object)).collect())
    }

    /// Heads and clones behind `from`, up to and with those of the head `to`, with the versions of their records. If they are fewer than
    /// `max`, there are no others.
    pub(crate) fn versions(
        &self,
        ctx: &Ctx<'_>,
        hold: Hold,
        from: &HObject,
        to: &HObject,
        max: usize,
    ) -> Result<Vec<(HObject, EVersion)>, Unread> {
        let (start, end) = self.bounds(ctx);
        let first = if *from < start { start } else { from.clone() };
        let last = if *to < end { HObject { snap: SnapId::DIR, ..to.clone() } } else { end };
        // The list begins with `from` itself, if that is here.
        let range = (&self.object(first), &self.object(last));
        let names = list_current(&*ctx.store, hold, self.id.shard, range, max.saturating_add(1))?;
        let mut found = Vec::with_capacity(names.len());
        for name in names.iter().filter(|name| ***name != *from).take(max) {
            let Some(stat) = ctx.store.stat(hold, name)? else { continue };
            let info = ObjectInfo::decode(&stat.info).unwrap_or_default();
            found.push((HObject::clone(&name.object), info.version));
        }
        Ok(found)
    }

    /// Entries of the own log behind a version.
    pub(crate) fn read_log_behind(&self, ctx: &Ctx<'_>, hold: Hold, version: EVersion) -> Result<Vec<LogEntry>, Unread> {
        let mut after = meta::version_key(meta::LOG, version.version);
        let mut entries = Vec::new();
        loop {
            let page = scan(ctx, hold, self.id, meta::LOG, &after)?;
            for (key, value) in &page.entries {
                after = key.clone();
                let entry = LogEntry::decode(value, self.id.pg.pool);
                entries.push(entry.map_err(|e| bad(&format!("log record {} ({e})", key.escape_ascii())))?);
            }
            if !page.more {
                return Ok(entries);
            }
        }
    }

    /// Returns what this copy holds of an object that another one misses in version `need`.
    pub(crate) fn look_up(&self, ctx: &Ctx<'_>, hold: Hold, object: &HObject, need: EVersion) -> Result<Sought, Unread> {
        let at: ObjectId = self.object(object.clone());
        let info = match ctx.store.stat(hold, &at) {
            Ok(stat) => stat.and_then(|stat| ObjectInfo::decode(&stat.info).ok()),
            Err(Unread::Missing(wish)) => return Err(Unread::Missing(wish)),
            // What cannot be read is of no use to anybody.
            Err(Unread::Damaged(_)) => None,
        };
        let version = info.map_or(EVersion::default(), |info| info.version);
        let (there, whole) = (version > EVersion::default(), !self.missing.contains_key(object));
        // A clone of which a snapshot was trimmed keeps the record that it had.
        let has = there
            && whole
            && (version == need || version < need && self.log.has(need) && self.history.reaches(&object.at(SnapId::HEAD)));
        Ok(Sought { object: object.clone(), version, has })
    }

    /// Returns true if the first piece of an object, which is brought whole, is of the object that is missing here.
    ///
    /// Its record names the version that the log wants. An older one is right for a clone, of which a snapshot was trimmed, and for what
    /// rotted here, of which is only known that it is no newer. What the log wants is there: that it is gone is never right, whoever
    /// says so.
    pub(crate) fn is_wanted(&self, object: &HObject, piece: &Piece) -> bool {
        #[cfg(feature = "sim")]
        if piece.is_nothing() && self.mistake == Some(crate::selfcheck::Mistake::PassMissing) {
            return true;
        }
        let Some(lack) = self.missing.get(object) else { return false };
        let exact = lack.base.is_some() && object.is_head();
        piece.version().is_some_and(|version| version >= lack.need || !exact)
    }

    /// Returns true if a part of an object is of the version that is missing here.
    pub(crate) fn is_wanted_part(&self, object: &HObject, piece: &Piece) -> bool {
        self.missing.get(object).is_some_and(|lack| piece.version() == Some(lack.need))
    }

    /// The version that the record of an object here names; `None`: it is not there, or cannot be read.
    fn version_here(&self, ctx: &Ctx<'_>, hold: Hold, object: &HObject) -> Result<Option<EVersion>, Unread> {
        match ctx.store.stat(hold, &self.object(object.clone())) {
            Ok(stat) => Ok(stat.and_then(|stat| ObjectInfo::decode(&stat.info).ok()).map(|info| info.version)),
            Err(Unread::Damaged(_)) => Ok(None),
            Err(missing) => Err(missing),
        }
    }

    /// Returns what the primary has of an object that is missing here, if its record says so, too.
    pub(crate) fn own_base(&mut self, ctx: &Ctx<'_>, hold: Hold, object: &HObject) -> Result<Option<Box<Base>>, Unread> {
        let Some(base) = self.missing.get(object).and_then(|lack| lack.base.clone()) else { return Ok(None) };
        if self.version_here(ctx, hold, object)? == Some(base.have) {
            return Ok(Some(base));
        }
        self.forget_own_base(object);
        Ok(None)
    }

    pub(crate) fn forget_own_base(&mut self, object: &HObject) {
        if let Some(lack) = self.missing.get_mut(object) {
            lack.base = None;
        }
    }

    /// The question for the record and the attributes of an object, without any data.
    pub(crate) fn record_wish(&self, object: &HObject) -> Letter {
        let part = Part { attrs: true, ..Part::default() };
        Letter::PullPart(object.clone(), Box::new(Base { have: EVersion::default(), part }))
    }

    /// Objects of which a body brings a part that does not fit to what this copy has.
    pub(crate) fn misfits(&self, ctx: &Ctx<'_>, hold: Hold, body: &Body) -> Result<Vec<HObject>, Unread> {
        let mut found = Vec::new();
        for (object, have) in body.progress.iter().flat_map(|progress| &progress.bases) {
            let known = self.missing.get(object).and_then(|lack| lack.base.as_deref()).is_some_and(|base| base.have == *have);
            if !known || self.version_here(ctx, hold, object)? != Some(*have) {
                found.push(object.clone());
            }
        }
        Ok(found)
    }
}
