//! Writes and removals of objects: announced before the object is touched, completed afterwards.
//!
//! What was announced and never completed stays in the entry until a gateway that lists the bucket looks at the object
//! itself and suggests what the entry should be.

use super::entries::{Found, find};
use super::header::Shard;
use crate::keys::store;
use crate::{Call, Change, Fail, Outcome};
use bytes::Bytes;
use messages::class::rgw::index::{DirEntry, EntryVer, LogEntry, ObjKey, Pending, flag, modify, state};
use messages::class::rgw::index_ops::{CompleteOp, PrepareOp};
use types::Errno;

pub(super) fn prepare(call: &mut Call<'_>) -> Outcome {
    let op: PrepareOp = call.arg()?;
    if op.tag.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let Found { at, entry } = find(call, &op.key, false)?;
    let mut entry = entry.unwrap_or_else(|| DirEntry { key: op.key, locator: op.locator, ..DirEntry::default() });
    entry.pending.insert(op.tag, Pending { state: state::PENDING, time: call.now, op: op.op });
    store(call, at, &entry);
    Ok(Bytes::new())
}

/// Returns true if an operation tells of a write that is not newer than what the entry tells of.
fn stale(op: EntryVer, known: EntryVer) -> bool {
    op.pool == known.pool && op.epoch != 0 && op.epoch <= known.epoch
}

pub(super) fn complete(call: &mut Call<'_>) -> Outcome {
    let op: CompleteOp = call.arg()?;
    let mut shard = Shard::load(call).map_err(|fail| match fail {
        Fail::Errno(_) => Fail::Errno(Errno::EINVAL),
        unread => unread,
    })?;
    let Found { at, entry } = find(call, &op.key, false)?;
    let there = entry.is_some();
    let mut entry = entry.unwrap_or_else(|| DirEntry {
        key: op.key.clone(),
        ver: op.ver,
        meta: op.meta.clone(),
        locator: op.locator.clone(),
        ..DirEntry::default()
    });
    entry.index_ver = shard.get().ver;
    // It may have been a delete marker.
    entry.flags &= flag::VERSION;
    if !op.tag.is_empty() && !entry.pending.remove(&op.tag) {
        return Err(Errno::EINVAL.into());
    }
    let cancelled = op.op == modify::CANCEL && !op.tag.is_empty() || stale(op.ver, entry.ver);
    let logs = op.log && !shard.get().sync_stopped;
    let mut logged = logs;
    match if cancelled { modify::CANCEL } else { op.op } {
        modify::CANCEL => {
            logged = false;
            if !op.tag.is_empty() {
                settle(call, at, &entry);
            }
        }
        modify::DEL => {
            shard.discount(&entry);
            entry.ver = op.ver;
            entry.meta = op.meta.clone();
            entry.exists = false;
            match there {
                true => settle(call, at, &entry),
                false => logged = false,
            }
        }
        modify::ADD => {
            shard.discount(&entry);
            entry =
                DirEntry { key: op.key.clone(), ver: op.ver, meta: op.meta.clone(), exists: true, tag: op.tag.clone(), ..entry };
            shard.count(&entry.meta);
            store(call, at, &entry);
        }
        _ => entry.ver = op.ver,
    }
    if logged {
        let told = LogEntry {
            key: op.key,
            time: entry.meta.mtime,
            ver: entry.ver,
            op: op.op,
            state: state::COMPLETE,
            index_ver: shard.get().ver,
            tag: op.tag,
            flags: op.log_flags,
            zones: op.zones,
            ..LogEntry::default()
        };
        shard.log(call, told);
    }
    for key in &op.remove {
        remove_with_it(call, &mut shard, key, logs)?;
    }
    shard.store(call);
    Ok(Bytes::new())
}

/// Writes an entry, or removes it if no object is there and nothing is under way.
fn settle(call: &mut Call<'_>, at: Bytes, entry: &DirEntry) {
    if !entry.exists && entry.pending.is_empty() {
        call.change(Change::OmapRemove(vec![at]));
    } else {
        store(call, at, entry);
    }
}

/// Removes the entry of a part of an upload. One that is not there or cannot be read does not stop the others.
fn remove_with_it(call: &mut Call<'_>, shard: &mut Shard, key: &ObjKey, logs: bool) -> Result<(), Fail> {
    match find(call, key, false) {
        Ok(Found { at, entry: Some(entry) }) => {
            shard.discount(&entry);
            if logs {
                // An id of its own.
                shard.next_version();
                let told = LogEntry {
                    key: key.clone(),
                    time: entry.meta.mtime,
                    ver: entry.ver,
                    op: modify::DEL,
                    state: state::COMPLETE,
                    index_ver: shard.get().ver,
                    ..LogEntry::default()
                };
                shard.log(call, told);
            }
            call.change(Change::OmapRemove(vec![at]));
            Ok(())
        }
        Ok(Found { entry: None, .. }) | Err(Fail::Errno(_)) => Ok(()),
        Err(unread) => Err(unread),
    }
}
