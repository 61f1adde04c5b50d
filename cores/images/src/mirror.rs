//! What mirroring by snapshots needs of a primary image: its snapshots, and the end of it.

use crate::image::{self, Image};
use crate::lock::{self, Holder};
use crate::rados::{Place, text};
use crate::work::Io;
use crate::{Fail, Optional, Result};
use crate::{mirror_state, notice, object_map, snapshot};
use bytes::Bytes;
use denc::Encode;
use messages::class::rbd::{
    MirrorImage, MirrorPeer, MirrorSnapshot, NO_SNAP, SnapshotNamespace, direction, feature, mirror_image_state, mirror_mode,
};
use std::collections::BTreeSet;
use types::Errno;

/// The object that knows a pool's mirrored images and peers.
const MIRRORING: &str = "rbd_mirroring";
/// [`MirrorImage::mode`] of images that are mirrored by snapshots.
const BY_SNAPSHOTS: u8 = 1;
/// [`MirrorSnapshot::state`] of a primary image's snapshots.
const PRIMARY: u8 = 0;
/// Snapshots that a peer still needs, at most (Ceph's `rbd_mirroring_max_mirroring_snapshots`).
const MOST: usize = 5;

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// Returns whether a pool or namespace mirrors images that are chosen one by one.
///
/// # Errors
/// Those of reading.
pub async fn is_by_image(io: &Io, at: &Place) -> Result<bool> {
    let mode: Option<u32> = io.call(at, MIRRORING, "mirror_mode_get", b"").await.optional()?;
    Ok(mode == Some(mirror_mode::IMAGE))
}

/// Returns what mirroring knows of an image.
///
/// # Errors
/// Those of reading.
pub async fn entry(io: &Io, at: &Place, id: &str) -> Result<Option<MirrorImage>> {
    io.call(at, MIRRORING, "mirror_image_get", &bytes(id).to_bytes()).await.optional()
}

/// Returns whether an image is mirrored by snapshots.
///
/// # Errors
/// Those of reading.
pub async fn is_by_snapshots(io: &Io, at: &Place, id: &str) -> Result<bool> {
    Ok(entry(io, at, id).await?.is_some_and(|entry| entry.mode == BY_SNAPSHOTS))
}

/// Ids of the primary images of a pool and namespace that are mirrored by snapshots.
///
/// # Errors
/// Those of reading.
pub async fn primaries(io: &Io, at: &Place) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (id, _) in io.list::<Bytes>(at, MIRRORING, "mirror_image_list").await? {
        let id = text(&id)?;
        if !entry(io, at, &id).await?.is_some_and(|e| e.mode == BY_SNAPSHOTS && e.state == mirror_image_state::ENABLED) {
            continue;
        }
        // One whose header makes no sense is nobody's primary image, and hides no other one.
        match Image::open(io, at, &id).await.optional() {
            Ok(Some(image)) if is_primary(&image) => found.push(id),
            Err(fail) if fail.errno != Errno::EIO => return Err(fail),
            _ => {}
        }
    }
    Ok(found)
}

/// The newest of the snapshots that mirroring made says what the image is.
fn is_primary(image: &Image) -> bool {
    let newest = image.snaps.iter().rev().find_map(|s| match &s.info.namespace {
        SnapshotNamespace::Mirror(mirror) => Some(mirror.state),
        _ => None,
    });
    newest.is_none_or(|state| state == PRIMARY)
}

/// Makes a snapshot for the peers of a primary image. If a client uses the image, it is asked to let go of the lock for
/// a moment.
///
/// # Errors
/// ENOENT: the image is not there or not mirrored. EINVAL: not by snapshots, not primary, or there is no peer.
pub async fn make_snapshot(io: &Io, at: &Place, id: &str) -> Result<u64> {
    let Some(entry) = entry(io, at, id).await? else { return Err(Fail::new(Errno::ENOENT, "the image is not mirrored")) };
    if entry.mode != BY_SNAPSHOTS || entry.state != mirror_image_state::ENABLED {
        return Err(Fail::new(Errno::EINVAL, "the image is not mirrored by snapshots"));
    }
    let peers = peers(io, at).await?;
    if peers.is_empty() {
        return Err(Fail::new(Errno::EINVAL, "the pool has no peer that gets what is written here"));
    }
    let image = Image::open(io, at, id).await?;
    let held = lock::take(io, &image, Holder::Ask).await?;
    let made = make_locked(io, &image, &entry, peers).await;
    held.release(io, &image).await;
    made
}

/// The peers of a pool that get what is written here.
async fn peers(io: &Io, at: &Place) -> Result<BTreeSet<Bytes>> {
    // Peers are of the pool, whatever the namespace.
    let pool = Place::new(at.pool, "");
    let all: Option<Vec<MirrorPeer>> = io.call(&pool, MIRRORING, "mirror_peer_list", b"").await.optional()?;
    Ok(all.unwrap_or_default().into_iter().filter(|p| p.direction != direction::RX).map(|p| p.uuid).collect())
}

async fn make_locked(io: &Io, image: &Image, entry: &MirrorImage, peers: BTreeSet<Bytes>) -> Result<u64> {
    // Read again: before the lock, somebody may have changed it.
    let mut image = Image::open(io, &image.at, &image.id).await?;
    if !is_primary(&image) {
        return Err(Fail::new(Errno::EINVAL, "the image is not primary"));
    }
    let pause = notice::pause(io, &image).await?;
    let made = add_snapshot(io, &image, entry, &peers).await;
    notice::go_on(io, &image, pause).await;
    let snap = made?;
    image = Image::open(io, &image.at, &image.id).await?;
    for old in image.snaps.iter().filter(|s| s.info.id != snap && is_for_nobody(&image, s)) {
        snapshot::remove(io, &image, old).await?;
    }
    for peer in peers {
        unlink_one(io, &image, &peer).await?;
    }
    Ok(snap)
}

async fn add_snapshot(io: &Io, image: &Image, entry: &MirrorImage, peers: &BTreeSet<Bytes>) -> Result<u64> {
    let snap = io.new_snap(image.data.pool).await?;
    let name = format!(".mirror.primary.{}.{}", text(&entry.global_id)?, io.uuid());
    let mirror = MirrorSnapshot {
        state: PRIMARY,
        mirror_peer_uuids: peers.clone(),
        primary_snap_id: NO_SNAP,
        ..MirrorSnapshot::default()
    };
    let input = ((bytes(&name), snap), SnapshotNamespace::Mirror(mirror)).to_bytes();
    if let Err(fail) = io.exec(&image.at, &image.header(), "snapshot_add", &input).await {
        io.free_snap(image.data.pool, snap).await?;
        return Err(fail);
    }
    if image.has(feature::OBJECT_MAP) {
        object_map::add(io, image, snap).await?;
    }
    mirror_state::write(io, image, snap).await?;
    // Complete, and no object was copied yet.
    let complete = ((snap, true), 0u64).to_bytes();
    io.exec(&image.at, &image.header(), "mirror_image_snapshot_set_copy_progress", &complete).await?;
    notice::header_changed(io, image).await;
    Ok(snap)
}

/// Returns true if mirroring made a snapshot that no peer needs: none is left, or whoever made it was cut off (as we
/// have the lock, nobody is at it).
fn is_for_nobody(image: &Image, snap: &image::Snap) -> bool {
    let SnapshotNamespace::Mirror(mirror) = &snap.info.namespace else { return false };
    let cut_off = !mirror.complete && image.has(feature::EXCLUSIVE_LOCK);
    mirror.state == PRIMARY && (cut_off || mirror.complete && mirror.mirror_peer_uuids.is_empty())
}

/// If a peer has fallen behind by too many snapshots, the last before the newest is taken from it: the older ones it
/// may be copying.
async fn unlink_one(io: &Io, image: &Image, peer: &Bytes) -> Result<()> {
    let linked: Vec<(&image::Snap, &MirrorSnapshot)> = (image.snaps.iter())
        .filter_map(|s| match &s.info.namespace {
            SnapshotNamespace::Mirror(m) if m.state == PRIMARY && m.complete && m.mirror_peer_uuids.contains(peer) => {
                Some((s, m))
            }
            _ => None,
        })
        .collect();
    if linked.len() <= MOST {
        return Ok(());
    }
    let (snap, mirror) = linked[linked.len() - 2];
    if mirror.mirror_peer_uuids.len() > 1 {
        let input = (snap.info.id, peer.clone()).to_bytes();
        return io.exec(&image.at, &image.header(), "mirror_image_snapshot_unlink_peer", &input).await;
    }
    snapshot::remove(io, image, snap).await
}

/// Before an image is removed: mirroring shall not take it up again.
pub(crate) async fn begin_to_forget(io: &Io, image: &Image) -> Result<()> {
    let Some(entry) = entry(io, &image.at, &image.id).await? else { return Ok(()) };
    let disabling = MirrorImage { state: mirror_image_state::DISABLING, ..entry };
    io.exec(&image.at, MIRRORING, "mirror_image_set", &(bytes(&image.id), disabling).to_bytes()).await
}

/// Returns when an image's data is gone.
pub(crate) async fn forget(io: &Io, image: &Image) -> Result<()> {
    io.exec(&image.at, MIRRORING, "mirror_image_remove", &bytes(&image.id).to_bytes()).await.optional()?;
    Ok(())
}
