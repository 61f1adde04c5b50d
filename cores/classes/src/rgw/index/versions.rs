//! Versions of a key: one becomes the newest, one goes away.
//!
//! A version has two entries with the same value: one that operations find, one in the order of listings. The head
//! says which version is the newest, and keeps a log of what the gateway must still do to the head object, which lies
//! in another group.

use super::entries::{Found, find};
use super::header::Shard;
use super::{keys, olh};
use crate::keys::{store, stored};
use crate::{Call, Change, Fail, Outcome};
use bytes::Bytes;
use messages::class::rgw::index::{DirEntry, EntryVer, LOG_VERSIONED, LogEntry, ObjKey, flag, modify, olh as step, state};
use messages::class::rgw::index_ops::{LinkOlhOp, UnlinkInstanceOp};
use types::{Errno, UTime};

/// A version during one call.
struct Version {
    key: ObjKey,
    /// Place where operations find it.
    at: Bytes,
    entry: DirEntry,
    /// True if the entry was there before the call.
    found: bool,
}

impl Version {
    fn load(call: &Call<'_>, key: &ObjKey, marker_first: bool) -> Result<Self, Fail> {
        let Found { at, entry } = find(call, key, marker_first && key.instance.is_empty())?;
        let found = entry.is_some();
        Ok(Self { key: key.clone(), at, entry: entry.unwrap_or_default(), found })
    }

    /// The version; ENOENT if there is none.
    fn need(call: &Call<'_>, key: &ObjKey) -> Result<Self, Fail> {
        let version = Self::load(call, key, true)?;
        if version.found { Ok(version) } else { Err(Errno::ENOENT.into()) }
    }

    fn is_marker(&self) -> bool {
        self.entry.has(flag::DELETE_MARKER)
    }

    fn unlist(&self, call: &mut Call<'_>) {
        call.change(Change::OmapRemove(vec![keys::listed(&self.entry)]));
    }

    fn remove(&self, call: &mut Call<'_>) {
        call.change(Change::OmapRemove(vec![self.at.clone()]));
    }

    /// Writes both entries.
    fn write(&mut self, call: &mut Call<'_>) {
        let null_marker = self.is_marker() && self.entry.key.instance.is_empty();
        self.at = if null_marker { keys::null_marker(&self.key.name) } else { keys::instance(&self.key) };
        store(call, self.at.clone(), &self.entry);
        store(call, keys::listed(&self.entry), &self.entry);
    }

    /// Gives it a place among the versions of its key.
    fn place(&mut self, call: &mut Call<'_>, epoch: u64, current: bool) {
        if self.entry.versioned_epoch > 0 {
            self.unlist(call);
        }
        self.entry.versioned_epoch = epoch;
        self.entry.flags |= if current { flag::VERSION | flag::CURRENT } else { flag::VERSION };
        self.write(call);
    }

    /// The version that follows it in a listing of its key.
    fn next(&self, call: &Call<'_>) -> Result<Option<ObjKey>, Fail> {
        let page = call.view.omap_list(&keys::listed(&self.entry), &self.key.name, 1)?;
        let Some((_, value)) = page.entries.first() else { return Ok(None) };
        let entry: DirEntry = stored(call, value)?;
        Ok((entry.key.name == self.key.name).then_some(entry.key))
    }
}

/// Turns the entry of a bucket without versions into the version without an instance, and leaves a mark in its place.
/// `list` says whether listings see that version: a delete marker takes its place else.
fn convert_plain(call: &mut Call<'_>, name: &Bytes, demote: bool, list: bool) -> Result<(), Fail> {
    let key = ObjKey::plain(name.clone());
    if let Found { entry: Some(mut entry), .. } = find(call, &key, false)? {
        entry.versioned_epoch = 1;
        entry.flags |= flag::VERSION;
        if demote {
            entry.flags &= !flag::CURRENT;
        }
        store(call, keys::instance(&key), &entry);
        if list {
            store(call, keys::listed(&entry), &entry);
        }
    }
    let mark = DirEntry { key, flags: flag::VERSION_MARKER, ..DirEntry::default() };
    store(call, name.clone(), &mark);
    Ok(())
}

/// Returns true if a version is at least as new as what a client knows.
fn too_new(mtime: UTime, unmodified_since: UTime, precise: bool) -> bool {
    let at = |time: UTime| if precise { time } else { UTime { nsec: 0, ..time } };
    at(mtime) >= at(unmodified_since)
}

/// Returns what the log says of a change to a key with versions; the entry is completed by the caller.
fn log_entry(key: ObjKey, op: u8, epoch: u64, mtime: UTime, flags: u16) -> LogEntry {
    LogEntry {
        key,
        time: mtime,
        ver: EntryVer { epoch, ..EntryVer::default() },
        op,
        state: state::COMPLETE,
        flags: flags | LOG_VERSIONED,
        ..LogEntry::default()
    }
}

/// Makes a version the newest of its key, or puts a delete marker there. For a write the version's entry is there, as
/// the write was prepared and completed; a delete marker is made here.
pub(super) fn link(call: &mut Call<'_>) -> Outcome {
    let op: LinkOlhOp = call.arg()?;
    let mut version = Version::load(call, &op.key, op.delete_marker)?;
    if !version.found && !op.delete_marker {
        return Err(Errno::ENOENT.into());
    }
    let mut head = olh::Head::load(call, &op.key.name)?;
    if !version.found && head.found && head.entry.delete_marker {
        // A delete marker upon a delete marker.
        return Err(Errno::ENOENT.into());
    }
    if version.found && !op.unmodified_since.is_zero() && too_new(version.entry.meta.mtime, op.unmodified_since, op.precise) {
        return Ok(Bytes::new());
    }
    let removes = match op.key.instance.is_empty() {
        false => version.found && !version.is_marker() && op.delete_marker,
        // The object and the delete marker without an instance have entries of their own, but one of them counts.
        true => replace_null(call, &op)?,
    };
    if op.delete_marker {
        let entry = std::mem::take(&mut version.entry);
        version.entry = DirEntry {
            key: op.key.clone(),
            flags: flag::DELETE_MARKER,
            meta: op.meta,
            tag: Bytes::from_static(b"delete-marker"),
            ..entry
        };
    }
    let before = head.entry.epoch;
    if !head.advance(op.olh_epoch) {
        // Another zone's older change: the version takes its place behind the newest.
        version.place(call, op.olh_epoch, false);
        return Ok(Bytes::new());
    }
    let epoch = head.entry.epoch;
    let promote = epoch > before || epoch == before && head.entry.key.instance >= op.key.instance;
    if head.found {
        if op.olh_tag != head.entry.tag {
            if !head.entry.pending_removal {
                return Err(Errno::ECANCELED.into());
            }
            // The old head is on its way out: this is a new one.
            head.entry.tag = op.olh_tag;
        }
        if promote && head.entry.exists && head.entry.key != op.key {
            let mut old = Version::need(call, &head.entry.key)?;
            old.entry.flags &= !flag::CURRENT;
            old.write(call);
        }
        head.entry.pending_removal = false;
    } else {
        let plain_marker = op.key.instance.is_empty() && op.delete_marker;
        convert_plain(call, &op.key.name, promote, !plain_marker)?;
        head.entry.tag = op.olh_tag;
        if op.key.instance.is_empty() {
            version.entry.versioned_epoch = 1;
        }
    }
    head.log(step::LINK, &op.op_tag, &op.key, op.delete_marker);
    if removes {
        head.log(step::REMOVE_INSTANCE, &op.op_tag, &op.key, false);
    }
    if promote {
        head.entry.key = op.key.clone();
        head.entry.delete_marker = op.delete_marker;
    }
    head.entry.exists = true;
    head.store(call);
    version.place(call, epoch, promote);
    if !op.log {
        return Ok(Bytes::new());
    }
    let mut shard = Shard::load(call)?;
    if shard.get().sync_stopped {
        return Ok(Bytes::new());
    }
    let meta = &version.entry.meta;
    let kind = if op.delete_marker { modify::LINK_OLH_MARKER } else { modify::LINK_OLH };
    let mut told = log_entry(op.key, kind, epoch, meta.mtime, op.log_flags);
    if op.delete_marker {
        (told.owner, told.owner_name) = (meta.owner.clone(), meta.owner_name.clone());
    }
    (told.tag, told.zones, told.index_ver) = (op.op_tag, op.zones, shard.get().ver);
    shard.log(call, told);
    shard.store(call);
    Ok(Bytes::new())
}

/// Takes away what the version without an instance was before: an object for a delete marker, and the other way round.
/// True if that object must be removed, too.
fn replace_null(call: &mut Call<'_>, op: &LinkOlhOp) -> Result<bool, Fail> {
    let other = Version::load(call, &op.key, !op.delete_marker)?;
    if other.found && other.is_marker() != op.delete_marker {
        other.unlist(call);
    }
    let removes = other.found && !other.is_marker() && op.delete_marker;
    if !removes {
        other.remove(call);
    }
    Ok(removes)
}

/// Removes a version from the index. The object itself is removed by who follows the head's log; a delete marker has
/// none.
pub(super) fn unlink(call: &mut Call<'_>) -> Outcome {
    let op: UnlinkInstanceOp = call.arg()?;
    let mut key = op.key.clone();
    if &key.instance[..] == b"null" {
        key.instance = Bytes::new();
    }
    let mut version = Version::load(call, &key, true)?;
    if !version.found {
        // It is removed already.
        return Ok(Bytes::new());
    }
    let mut head = olh::Head::load(call, &op.key.name)?;
    if !head.found {
        convert_plain(call, &op.key.name, true, true)?;
        (head.entry.key, head.entry.delete_marker) = (key.clone(), false);
        head.entry.tag = op.olh_tag;
        version.entry.versioned_epoch = 1;
    }
    if !head.advance(op.olh_epoch) {
        version.unlist(call);
        if !version.is_marker() {
            head.log_at(op.olh_epoch, step::REMOVE_INSTANCE, &op.op_tag, &op.key, false);
            head.store(call);
        }
        return Ok(Bytes::new());
    }
    if head.entry.key == key {
        match version.next(call)? {
            Some(other) => {
                let mut next = Version::need(call, &other)?;
                next.entry.flags |= flag::VERSION | flag::CURRENT;
                next.write(call);
                (head.entry.key, head.entry.delete_marker) = (other.clone(), next.is_marker());
                head.log(step::LINK, &op.op_tag, &other, next.is_marker());
            }
            None => {
                // The name stays: by it the entry is given to a shard.
                let nothing = ObjKey::plain(op.key.name.clone());
                (head.entry.key, head.entry.delete_marker) = (nothing.clone(), false);
                head.log(step::UNLINK, &op.op_tag, &nothing, false);
                (head.entry.exists, head.entry.pending_removal) = (false, true);
            }
        }
    }
    if version.is_marker() {
        version.remove(call);
    } else {
        head.log(step::REMOVE_INSTANCE, &op.op_tag, &op.key, false);
    }
    version.unlist(call);
    head.store(call);
    if !op.log {
        return Ok(Bytes::new());
    }
    let mut shard = Shard::load(call)?;
    if shard.get().sync_stopped {
        return Ok(Bytes::new());
    }
    let mtime = version.entry.meta.mtime;
    let mut told = log_entry(op.key, modify::UNLINK_INSTANCE, head.entry.epoch, mtime, op.log_flags);
    (told.tag, told.zones, told.index_ver) = (op.op_tag, op.zones, shard.get().ver);
    shard.log(call, told);
    shard.store(call);
    Ok(Bytes::new())
}
