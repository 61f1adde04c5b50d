//! Groups of images: the pool's directory of groups, a group's images and snapshots, and an image's way back to its
//! group.

use super::directory::{dir_add, dir_list, dir_remove, dir_rename};
use super::keys::{erase, key, list, load, raw, set_op_features, store, stored};
use crate::{Call, Fail, Method, Outcome, RD, WR};
use bytes::Bytes;
use denc::{Decode, Encode};
use messages::class::rbd::{GroupImageSpec, GroupImageStatus, GroupSnapshot, GroupSpec, group_snap_state, op_feature};
use types::Errno;

pub(super) const METHODS: &[Method] = &[
    Method { name: "group_dir_list", flags: RD, run: dir_list },
    Method { name: "group_dir_add", flags: RD | WR, run: |call| dir_add(call, is_id) },
    Method { name: "group_dir_remove", flags: RD | WR, run: dir_remove },
    Method { name: "group_dir_rename", flags: RD | WR, run: |call| dir_rename(call, is_id) },
    Method { name: "group_image_set", flags: RD | WR, run: group_image_set },
    Method { name: "group_image_remove", flags: RD | WR, run: group_image_remove },
    Method { name: "group_image_list", flags: RD, run: group_image_list },
    Method { name: "image_group_add", flags: RD | WR, run: image_group_add },
    Method { name: "image_group_remove", flags: RD | WR, run: image_group_remove },
    Method { name: "image_group_get", flags: RD, run: image_group_get },
    Method { name: "group_snap_set", flags: RD | WR, run: group_snap_set },
    Method { name: "group_snap_remove", flags: RD | WR, run: group_snap_remove },
    Method { name: "group_snap_get_by_id", flags: RD, run: group_snap_get_by_id },
    Method { name: "group_snap_list", flags: RD, run: group_snap_list },
];

/// Keys of a group's images begin so; pool and id follow.
const IMAGE: &str = "image_";
/// Keys of a group's snapshots begin so; the id follows.
const SNAP: &str = "snapshot_";
/// The key of an image's group.
const REFERENCE: &str = "rbd_group_ref";

/// Any id that is not empty is one of a group.
fn is_id(id: &[u8]) -> bool {
    super::keys::is_valid_id(id)
}

/// An image's place in its group, without the prefix: pool in hexadecimal, then the id.
fn image_name(spec: &GroupImageSpec) -> Vec<u8> {
    let mut name = format!("{:016x}_", spec.pool).into_bytes();
    name.extend_from_slice(&spec.image);
    name
}

/// The image whose place this is; EIO if it is none.
fn image_of(name: &Bytes) -> Result<GroupImageSpec, Fail> {
    let bad = Fail::Errno(Errno::EIO);
    let at = name.iter().position(|b| *b == b'_').ok_or(bad.clone())?;
    let pool = std::str::from_utf8(&name[..at]).ok().and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or(bad)?;
    Ok(GroupImageSpec { image: name.slice(at + 1..), pool: pool as i64 })
}

fn group_image_set(call: &mut Call<'_>) -> Outcome {
    let GroupImageStatus { spec, state } = call.arg()?;
    store(call, key(IMAGE, &image_name(&spec)), &state);
    Ok(Bytes::new())
}

fn group_image_remove(call: &mut Call<'_>) -> Outcome {
    let spec: GroupImageSpec = call.arg()?;
    erase(call, key(IMAGE, &image_name(&spec)))?;
    Ok(Bytes::new())
}

/// Input: image after which to begin (one without an id stands before all others), most entries.
fn group_image_list(call: &mut Call<'_>) -> Outcome {
    let (after, max): (GroupImageSpec, u64) = call.arg()?;
    let after = if after.pool == -1 { Vec::new() } else { image_name(&after) };
    let images: Result<Vec<GroupImageStatus>, Fail> = list(call, IMAGE, &after, max)?
        .iter()
        .map(|(name, state)| Ok(GroupImageStatus { spec: image_of(name)?, state: stored(call, state)? }))
        .collect();
    Ok(images?.to_bytes())
}

/// A value that is no group's reference is the caller's fault, as Ceph has it.
fn reference(call: &Call<'_>) -> Result<Option<GroupSpec>, Fail> {
    let spec = raw(call, REFERENCE.as_bytes())?.map(|value| GroupSpec::from_bytes(&value));
    spec.transpose().map_err(|_| Fail::Errno(Errno::EINVAL))
}

/// EEXIST if the image is in another group.
fn image_group_add(call: &mut Call<'_>) -> Outcome {
    let new: GroupSpec = call.arg()?;
    match reference(call)? {
        Some(old) if old == new => {}
        Some(_) => return Err(Errno::EEXIST.into()),
        None => {
            set_op_features(call, op_feature::GROUP, op_feature::GROUP)?;
            store(call, REFERENCE, &new);
        }
    }
    Ok(Bytes::new())
}

/// EBADF if the image is in another group.
fn image_group_remove(call: &mut Call<'_>) -> Outcome {
    let spec: GroupSpec = call.arg()?;
    if reference(call)?.ok_or(Fail::Errno(Errno::ENOENT))? != spec {
        return Err(Errno::EBADF.into());
    }
    erase(call, REFERENCE)?;
    set_op_features(call, 0, op_feature::GROUP)?;
    Ok(Bytes::new())
}

fn image_group_get(call: &mut Call<'_>) -> Outcome {
    Ok(reference(call)?.unwrap_or_default().to_bytes())
}

fn snapshots(call: &Call<'_>, after: &[u8], max: u64) -> Result<Vec<GroupSnapshot>, Fail> {
    list(call, SNAP, after, max)?.iter().map(|(_, value)| stored(call, value)).collect()
}

/// EEXIST if another snapshot has the name, or if one that is being made exists already.
fn group_snap_set(call: &mut Call<'_>) -> Outcome {
    let snap: GroupSnapshot = call.arg()?;
    if snap.name.is_empty() || snap.id.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    if snapshots(call, b"", u64::MAX)?.iter().any(|s| s.name == snap.name && s.id != snap.id) {
        return Err(Errno::EEXIST.into());
    }
    let entry = key(SNAP, &snap.id);
    if snap.state == group_snap_state::INCOMPLETE && raw(call, &entry)?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    store(call, entry, &snap);
    Ok(Bytes::new())
}

fn group_snap_remove(call: &mut Call<'_>) -> Outcome {
    let id: Bytes = call.arg()?;
    erase(call, key(SNAP, &id))?;
    Ok(Bytes::new())
}

fn group_snap_get_by_id(call: &mut Call<'_>) -> Outcome {
    let id: Bytes = call.arg()?;
    let snap: GroupSnapshot = load(call, &key(SNAP, &id))?.ok_or(Fail::Errno(Errno::ENOENT))?;
    Ok(snap.to_bytes())
}

/// Input: snapshot after whose id to begin, most entries.
fn group_snap_list(call: &mut Call<'_>) -> Outcome {
    let (after, max): (GroupSnapshot, u64) = call.arg()?;
    Ok(snapshots(call, &after.id, max)?.to_bytes())
}
