//! Mirrored images, the daemons that look after them, and the snapshots that mirroring makes.

use super::status;
use crate::rbd::keys::{erase, erase_if_any, key, list, load, need, snap_key, store, stored};
use crate::rbd::snapshots::{self, PREFIX};
use crate::{Call, Change, Fail, Method, Outcome, PROMOTE, RD, WR};
use bytes::Bytes;
use denc::Encode;
use messages::class::rbd::{MirrorImage, MirrorImageMap, MirrorSnapshot, Snapshot, SnapshotNamespace, mirror_image_state};
use std::collections::BTreeMap;
use types::Errno;

pub(in crate::rbd) const METHODS: &[Method] = &[
    Method { name: "mirror_image_list", flags: RD, run: image_list },
    Method { name: "mirror_image_get_image_id", flags: RD, run: image_get_image_id },
    Method { name: "mirror_image_get", flags: RD, run: image_get },
    Method { name: "mirror_image_set", flags: RD | WR, run: image_set },
    Method { name: "mirror_image_remove", flags: RD | WR, run: image_remove },
    Method { name: "mirror_instances_list", flags: RD, run: instances_list },
    Method { name: "mirror_instances_add", flags: RD | WR | PROMOTE, run: instances_add },
    Method { name: "mirror_instances_remove", flags: RD | WR, run: instances_remove },
    Method { name: "mirror_image_map_list", flags: RD, run: image_map_list },
    Method { name: "mirror_image_map_update", flags: WR, run: image_map_update },
    Method { name: "mirror_image_map_remove", flags: WR, run: image_map_remove },
    Method { name: "mirror_image_snapshot_unlink_peer", flags: RD | WR, run: snapshot_unlink_peer },
    Method { name: "mirror_image_snapshot_set_copy_progress", flags: RD | WR, run: snapshot_set_copy_progress },
];

/// Keys of images begin so; the id follows.
const IMAGE: &str = "image_";
/// Keys that lead from an image's global id to its id.
const GLOBAL: &str = "global_";
/// Keys of daemons begin so.
const INSTANCE: &str = "instance_";
/// Keys of images with their daemons begin so; the global id follows.
const IMAGE_MAP: &str = "image_map_";

/// An image's entry.
pub(super) fn image(call: &Call<'_>, id: &[u8]) -> Result<Option<MirrorImage>, Fail> {
    load(call, &key(IMAGE, id))
}

/// The id of the image with a global id.
pub(super) fn id_of(call: &Call<'_>, global_id: &[u8]) -> Result<Option<Bytes>, Fail> {
    load(call, &key(GLOBAL, global_id))
}

/// Images after an id, at most `max`, with their ids.
pub(super) fn images(call: &Call<'_>, after: &[u8], max: u64) -> Result<Vec<(Bytes, MirrorImage)>, Fail> {
    list(call, IMAGE, after, max)?.into_iter().map(|(id, value)| Ok((id, stored(call, &value)?))).collect()
}

/// Input: id after which to begin, most entries. Output: ids and global ids.
fn image_list(call: &mut Call<'_>) -> Outcome {
    let (after, max): (Bytes, u64) = call.arg()?;
    let found: BTreeMap<Bytes, Bytes> = images(call, &after, max)?.into_iter().map(|(id, i)| (id, i.global_id)).collect();
    Ok(found.to_bytes())
}

fn image_get_image_id(call: &mut Call<'_>) -> Outcome {
    let global_id: Bytes = call.arg()?;
    Ok(id_of(call, &global_id)?.ok_or(Fail::Errno(Errno::ENOENT))?.to_bytes())
}

fn image_get(call: &mut Call<'_>) -> Outcome {
    let id: Bytes = call.arg()?;
    Ok(image(call, &id)?.ok_or(Fail::Errno(Errno::ENOENT))?.to_bytes())
}

/// Input: id, entry. EEXIST if another image has the global id, EINVAL if this one has another, ENOENT for an image
/// that is not entered and is being taken out.
fn image_set(call: &mut Call<'_>) -> Outcome {
    let (id, new): (Bytes, MirrorImage) = call.arg()?;
    match image(call, &id)? {
        Some(old) if old.global_id != new.global_id => return Err(Errno::EINVAL.into()),
        Some(_) => {}
        None if id_of(call, &new.global_id)?.is_some() => return Err(Errno::EEXIST.into()),
        None if new.state == mirror_image_state::DISABLING => return Err(Errno::ENOENT.into()),
        None => {}
    }
    let entries = vec![(key(IMAGE, &id), new.to_bytes()), (key(GLOBAL, &new.global_id), id.to_bytes())];
    call.change(Change::OmapSet(entries));
    Ok(Bytes::new())
}

/// EBUSY unless it is being disabled.
fn image_remove(call: &mut Call<'_>) -> Outcome {
    let id: Bytes = call.arg()?;
    let old = image(call, &id)?.ok_or(Fail::Errno(Errno::ENOENT))?;
    if old.state != mirror_image_state::DISABLING {
        return Err(Errno::EBUSY.into());
    }
    erase(call, key(IMAGE, &id))?;
    erase(call, key(GLOBAL, &old.global_id))?;
    status::forget(call, &old.global_id)?;
    Ok(Bytes::new())
}

fn instances_list(call: &mut Call<'_>) -> Outcome {
    let names: Vec<Bytes> = list(call, INSTANCE, b"", u64::MAX)?.into_iter().map(|(name, _)| name).collect();
    Ok(names.to_bytes())
}

fn instances_add(call: &mut Call<'_>) -> Outcome {
    let name: Bytes = call.arg()?;
    call.change(Change::OmapSet(vec![(key(INSTANCE, &name), Bytes::new())]));
    Ok(Bytes::new())
}

fn instances_remove(call: &mut Call<'_>) -> Outcome {
    let name: Bytes = call.arg()?;
    erase(call, key(INSTANCE, &name))?;
    Ok(Bytes::new())
}

/// EINVAL if an entry is none.
fn image_map_list(call: &mut Call<'_>) -> Outcome {
    let (after, max): (Bytes, u64) = call.arg()?;
    let entries = list(call, IMAGE_MAP, &after, max)?;
    let found: Result<BTreeMap<Bytes, MirrorImageMap>, Fail> =
        entries.into_iter().map(|(id, value)| Ok((id, stored(call, &value)?))).collect();
    match found {
        Err(Fail::Errno(Errno::EIO)) => Err(Errno::EINVAL.into()),
        other => Ok(other?.to_bytes()),
    }
}

fn image_map_update(call: &mut Call<'_>) -> Outcome {
    let (global_id, entry): (Bytes, MirrorImageMap) = call.arg()?;
    store(call, key(IMAGE_MAP, &global_id), &entry);
    Ok(Bytes::new())
}

fn image_map_remove(call: &mut Call<'_>) -> Outcome {
    let global_id: Bytes = call.arg()?;
    erase_if_any(call, key(IMAGE_MAP, &global_id))?;
    Ok(Bytes::new())
}

/// Changes a snapshot that mirroring made; EINVAL if it is none.
fn change_snapshot(call: &mut Call<'_>, id: u64, change: impl FnOnce(&mut MirrorSnapshot) -> Result<(), Errno>) -> Outcome {
    let entry = snap_key(PREFIX, id);
    let mut snap: Snapshot = need(call, &entry)?;
    let SnapshotNamespace::Mirror(mirror) = &mut snap.namespace else { return Err(Errno::EINVAL.into()) };
    change(mirror)?;
    snapshots::write(call, entry, snap)?;
    Ok(Bytes::new())
}

/// Input: snapshot, peer that no longer needs it.
fn snapshot_unlink_peer(call: &mut Call<'_>) -> Outcome {
    let (id, peer): (u64, Bytes) = call.arg()?;
    change_snapshot(call, id, |mirror| mirror.mirror_peer_uuids.remove(&peer).then_some(()).ok_or(Errno::ENOENT))
}

/// Input: snapshot, whether the copy is whole, how far it is.
fn snapshot_set_copy_progress(call: &mut Call<'_>) -> Outcome {
    let (id, complete, last): (u64, bool, u64) = call.parse(|r| Ok((r.get()?, r.get()?, r.get()?)))?;
    change_snapshot(call, id, |mirror| {
        mirror.complete = complete;
        if !mirror.is_primary() {
            mirror.last_copied_object_number = last;
        }
        Ok(())
    })
}
