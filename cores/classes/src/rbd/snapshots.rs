//! Snapshots of an image: one record each, whose keys are in the order of their ids.

use super::keys::{erase, erase_if_any, list, load, need, raw, require_feature, set_op_features, snap_key, store, stored};
use crate::{Call, Fail, Method, Outcome, RD, WR, unique};
use bytes::Bytes;
use denc::Encode;
use messages::class::rbd::{
    MAX_SNAP, NO_SNAP, Parent, Snapshot, SnapshotInfo, SnapshotNamespace, feature, op_feature, protection,
};
use types::Errno;

pub(super) const METHODS: &[Method] = &[
    Method { name: "get_snapcontext", flags: RD, run: get_snapcontext },
    Method { name: "get_snapshot_name", flags: RD, run: |call| Ok(asked(call)?.name.to_bytes()) },
    Method { name: "get_snapshot_timestamp", flags: RD, run: |call| Ok(asked(call)?.timestamp.to_bytes()) },
    Method { name: "snapshot_get", flags: RD, run: snapshot_get },
    Method { name: "snapshot_add", flags: RD | WR, run: snapshot_add },
    Method { name: "snapshot_remove", flags: RD | WR, run: snapshot_remove },
    Method { name: "snapshot_rename", flags: RD | WR, run: snapshot_rename },
    Method { name: "snapshot_trash_add", flags: RD | WR, run: snapshot_trash_add },
    Method { name: "snapshot_get_limit", flags: RD, run: snapshot_get_limit },
    Method { name: "snapshot_set_limit", flags: RD | WR, run: snapshot_set_limit },
    Method { name: "get_protection_status", flags: RD, run: get_protection_status },
    Method { name: "set_protection_status", flags: RD | WR, run: set_protection_status },
];

/// Keys of snapshots begin so; the id follows.
pub(super) const PREFIX: &str = "snapshot_";

/// All snapshots, in the order of their ids.
pub(super) fn all(call: &Call<'_>) -> Result<Vec<Snapshot>, Fail> {
    list(call, PREFIX, b"", u64::MAX)?.iter().map(|(_, value)| stored(call, value)).collect()
}

/// Stores a snapshot. The parent is kept once for the image and all its snapshots; of a snapshot's own only the
/// overlap.
pub(super) fn write(call: &mut Call<'_>, key: Bytes, mut snap: Snapshot) -> Result<(), Fail> {
    if snap.parent.exists() {
        let image: Parent = load(call, b"parent")?.unwrap_or_default();
        if !image.exists() {
            store(call, "parent", &Parent { overlap: None, ..snap.parent.clone() });
        }
        snap.parent_overlap = snap.parent.overlap;
        snap.parent = Parent::default();
    }
    store(call, key, &snap);
    Ok(())
}

/// Returns true if a snapshot has a parent.
pub(super) fn has_parent(snap: &Snapshot) -> bool {
    snap.parent.spec.pool != -1 || snap.parent_overlap.is_some()
}

/// The number in a snapshot's key, as far as it is one.
fn id_of(name: &[u8]) -> u64 {
    let digits = name.iter().take_while(|c| c.is_ascii_hexdigit());
    digits.fold(0, |id, c| id << 4 | u64::from((*c as char).to_digit(16).unwrap_or(0)))
}

/// Output: the newest id that there ever was, and the ids of all snapshots, newest first.
fn get_snapcontext(call: &mut Call<'_>) -> Outcome {
    let mut ids: Vec<u64> = list(call, PREFIX, b"", u64::MAX)?.iter().map(|(name, _)| id_of(name)).collect();
    let seq: u64 = need(call, b"snap_seq")?;
    ids.reverse();
    Ok((seq, ids).to_bytes())
}

/// The snapshot whose id is the input.
fn asked(call: &Call<'_>) -> Result<Snapshot, Fail> {
    match call.arg()? {
        NO_SNAP => Err(Errno::EINVAL.into()),
        id => need(call, &snap_key(PREFIX, id)),
    }
}

fn snapshot_get(call: &mut Call<'_>) -> Outcome {
    let Snapshot { id, namespace, name, image_size, timestamp, child_count, .. } = asked(call)?;
    Ok(SnapshotInfo { id, namespace, name, image_size, timestamp, child_count }.to_bytes())
}

/// Input: name, id and, from newer clients, what it is for. ESTALE if a newer snapshot was made meanwhile, EDQUOT at
/// the image's limit, EEXIST if the name or the id is taken.
fn snapshot_add(call: &mut Call<'_>) -> Outcome {
    let (name, id, namespace) = call.parse(|r| {
        let (name, id): (Bytes, u64) = r.get()?;
        Ok((name, id, if r.is_empty() { SnapshotNamespace::User } else { r.get()? }))
    })?;
    if namespace == SnapshotNamespace::Unknown || id > MAX_SNAP {
        return Err(Errno::EINVAL.into());
    }
    if id < need(call, b"snap_seq")? {
        return Err(Errno::ESTALE.into());
    }
    let image_size = need(call, b"size")?;
    let flags = load(call, b"flags")?.unwrap_or(0);
    let limit: u64 = load(call, b"snap_limit")?.unwrap_or(u64::MAX);
    for (number, old) in (1..).zip(all(call)?) {
        if number >= limit {
            return Err(Errno::EDQUOT.into());
        }
        if old.id == id || old.name == name && old.namespace == namespace {
            return Err(Errno::EEXIST.into());
        }
    }
    let parent = load(call, b"parent")?.unwrap_or_default();
    if namespace.is_trash() {
        set_op_features(call, op_feature::SNAP_TRASH, op_feature::SNAP_TRASH)?;
    }
    store(call, "snap_seq", &id);
    let timestamp = call.now;
    let snap = Snapshot { id, name, image_size, parent, flags, namespace, timestamp, ..Snapshot::default() };
    write(call, snap_key(PREFIX, id), snap)?;
    Ok(Bytes::new())
}

/// Input: id, new name. Only snapshots of users have names of their own.
fn snapshot_rename(call: &mut Call<'_>) -> Outcome {
    let (id, name): (u64, Bytes) = call.arg()?;
    if all(call)?.iter().any(|s| s.namespace == SnapshotNamespace::User && s.name == name) {
        return Err(Errno::EEXIST.into());
    }
    let key = snap_key(PREFIX, id);
    let mut snap: Snapshot = need(call, &key)?;
    if snap.namespace != SnapshotNamespace::User {
        return Err(Errno::EINVAL.into());
    }
    snap.name = name;
    write(call, key, snap)?;
    Ok(Bytes::new())
}

/// EBUSY if the snapshot is protected or has clones.
fn snapshot_remove(call: &mut Call<'_>) -> Outcome {
    let id: u64 = call.arg()?;
    let key = snap_key(PREFIX, id);
    // A record that cannot be read is removed too.
    let record = raw(call, &key)?.ok_or(Fail::Errno(Errno::ENOENT))?;
    let snap: Snapshot = stored(call, &record).unwrap_or_default();
    if snap.protection != protection::UNPROTECTED || snap.child_count > 0 {
        return Err(Errno::EBUSY.into());
    }
    erase(call, key)?;
    let (mut has_children, mut has_trash) = (false, false);
    for other in all(call)?.iter().filter(|s| s.id != id) {
        has_children |= has_parent(other);
        has_trash |= other.namespace.is_trash();
    }
    let parent = load::<Parent>(call, b"parent")?.filter(Parent::exists);
    let is_child = parent.as_ref().is_some_and(|p| p.overlap.is_some());
    if parent.is_some() && !is_child && !has_children {
        erase_if_any(call, "parent")?;
    }
    let mut gone = 0;
    if !has_children && !is_child {
        gone |= op_feature::CLONE_CHILD;
    }
    if !has_trash {
        gone |= op_feature::SNAP_TRASH;
    }
    if gone != 0 {
        set_op_features(call, 0, gone)?;
    }
    Ok(Bytes::new())
}

/// A snapshot that is removed while it has clones: it gets a name that nobody chose, so that its own is free again.
fn snapshot_trash_add(call: &mut Call<'_>) -> Outcome {
    let key = snap_key(PREFIX, call.arg()?);
    let mut snap: Snapshot = need(call, &key)?;
    if snap.protection != protection::UNPROTECTED {
        return Err(Errno::EBUSY.into());
    }
    if snap.namespace.is_trash() {
        return Err(Errno::EEXIST.into());
    }
    set_op_features(call, op_feature::SNAP_TRASH, op_feature::SNAP_TRASH)?;
    let name = std::mem::replace(&mut snap.name, unique::uuid(call).into());
    snap.namespace = SnapshotNamespace::Trash { name, original: snap.namespace.kind() };
    write(call, key, snap)?;
    Ok(Bytes::new())
}

fn snapshot_get_limit(call: &mut Call<'_>) -> Outcome {
    Ok(load::<u64>(call, b"snap_limit")?.unwrap_or(u64::MAX).to_bytes())
}

/// The largest number takes the limit away. ERANGE if there are more snapshots already.
fn snapshot_set_limit(call: &mut Call<'_>) -> Outcome {
    let limit: u64 = call.arg()?;
    if limit == u64::MAX {
        erase(call, "snap_limit")?;
        return Ok(Bytes::new());
    }
    let count = match super::old::snap_count(call)? {
        Some(count) => u64::from(count),
        None => list(call, PREFIX, b"", u64::MAX)?.len() as u64,
    };
    if limit < count {
        return Err(Errno::ERANGE.into());
    }
    store(call, "snap_limit", &limit);
    Ok(Bytes::new())
}

fn get_protection_status(call: &mut Call<'_>) -> Outcome {
    call.arg::<u64>()?;
    call.must_exist()?;
    let status = asked(call)?.protection;
    if status >= protection::LAST {
        return Err(Errno::EIO.into());
    }
    Ok(status.to_bytes())
}

fn set_protection_status(call: &mut Call<'_>) -> Outcome {
    let (id, status): (u64, u8) = call.arg()?;
    call.must_exist()?;
    require_feature(call, feature::LAYERING)?;
    if id == NO_SNAP || status >= protection::LAST {
        return Err(Errno::EINVAL.into());
    }
    let key = snap_key(PREFIX, id);
    let mut snap: Snapshot = need(call, &key)?;
    snap.protection = status;
    write(call, key, snap)?;
    Ok(Bytes::new())
}
