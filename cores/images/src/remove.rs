//! Removing an image: data, link to the parent, what belongs to it, header, names.

use crate::image::{self, DIRECTORY, Image};
use crate::lock::{self, Held, Holder};
use crate::rados::Place;
use crate::work::{Io, Progress, each};
use crate::{Fail, Optional, Result};
use crate::{mirror, parent, snapshot};
use bytes::Bytes;
use denc::Encode;
use messages::class::rbd::{GroupSpec, SnapshotNamespace, feature};
use objecter::SnapContext;
use types::Errno;

/// Objects that are removed at a time (as librbd's `rbd_concurrent_management_ops`).
const AT_A_TIME: usize = 10;

/// Sets of objects that a journal has at most; more are a head that somebody made up.
const MOST_SETS: u64 = 1 << 24;

/// Removes the image with a name.
///
/// # Errors
/// ENOENT: there is none. ENOTEMPTY: it has snapshots. EBUSY: it is open. EMLINK: it is in a group.
pub async fn by_name(io: &Io, at: &Place, name: &str, progress: &Progress) -> Result<()> {
    // If an earlier removal was cut off, the names are what is left.
    let id = image::id_of(io, at, name).await?;
    by_id(io, at, &id, progress).await?;
    io.delete(at, &image::id_object(name), SnapContext::default()).await?;
    let entry = (Bytes::copy_from_slice(name.as_bytes()), Bytes::copy_from_slice(id.as_bytes())).to_bytes();
    io.exec(at, DIRECTORY, "dir_remove_image", &entry).await.optional()?;
    Ok(())
}

/// Removes all of an image but its names. An image that is not there any more is no failure.
pub(crate) async fn by_id(io: &Io, at: &Place, id: &str, progress: &Progress) -> Result<()> {
    if let Some(image) = Image::open(io, at, id).await.optional()? {
        let held = lock::take(io, &image, Holder::Respect).await?;
        let emptied = empty(io, &image, &held, progress).await;
        held.release(io, &image).await;
        emptied?;
        io.delete(at, &image.header(), SnapContext::default()).await?;
    }
    remove_journal(io, at, id).await?;
    io.delete(at, &image::object_map(id, None), SnapContext::default()).await
}

/// Takes all from an image that its header leads to.
async fn empty(io: &Io, image: &Image, held: &Held, progress: &Progress) -> Result<()> {
    if image.has(feature::MIGRATING) {
        return Err(Fail::new(Errno::EBUSY, "the image is being migrated"));
    }
    if held.is_shared(io, image).await? {
        return Err(Fail::new(Errno::EBUSY, "the image is open (it has watchers)"));
    }
    let group: GroupSpec = io.call(&image.at, &image.header(), "image_group_get", b"").await?;
    if group.pool >= 0 {
        return Err(Fail::new(Errno::EMLINK, "the image is in a group"));
    }
    let mirrors = |s: &&image::Snap| matches!(s.info.namespace, SnapshotNamespace::Mirror(_));
    if image.snaps.len() > image.snaps.iter().filter(mirrors).count() {
        return Err(Fail::new(Errno::ENOTEMPTY, "the image has snapshots"));
    }
    mirror::begin_to_forget(io, image).await?;
    for snap in &image.snaps {
        snapshot::remove(io, image, snap).await?;
    }
    remove_data(io, image, progress).await?;
    if let Some(spec) = &image.parent {
        parent::unlink(io, image, spec).await?;
    }
    mirror::forget(io, image).await
}

async fn remove_data(io: &Io, image: &Image, progress: &Progress) -> Result<()> {
    let objects = image.layout.objects(image.size);
    progress.expect(objects);
    // The snapshots are gone, but an object keeps what they need until it is trimmed: it must know that there are newer ones.
    let snapc = SnapContext { seq: image.snapc.seq, snaps: Vec::new() };
    each(AT_A_TIME, 0..objects, |number| {
        let (io, image, snapc, progress) = (io.clone(), image, snapc.clone(), progress.clone());
        async move {
            progress.check()?;
            io.delete(&image.data, &image.object(number), snapc).await?;
            progress.step()
        }
    })
    .await
}

/// Removes an image's journal: its entries, then its head.
async fn remove_journal(io: &Io, at: &Place, id: &str) -> Result<()> {
    let head = format!("journal.{id}");
    let splay = io.call_class::<u8>("journal", at, &head, "get_splay_width", b"").await.optional()?;
    let Some(splay) = splay else { return Ok(()) };
    let pool: i64 = io.call_class("journal", at, &head, "get_pool_id", b"").await?;
    let first: u64 = io.call_class("journal", at, &head, "get_minimum_set", b"").await?;
    let last: u64 = io.call_class("journal", at, &head, "get_active_set", b"").await?;
    let data = if pool < 0 { at.clone() } else { at.in_pool(pool) };
    let splay = u64::from(splay);
    let sets = last.checked_sub(first).filter(|sets| *sets < MOST_SETS && last < u64::MAX >> 9);
    if sets.is_none() {
        return Err(Fail::new(Errno::EIO, format!("{head} says that it has entries in the sets {first} to {last}")));
    }
    each(AT_A_TIME, first * splay..(last + 1) * splay, |number| {
        let (io, data) = (io.clone(), &data);
        // Entries are named after the pool of the image, wherever they are.
        let object = format!("journal_data.{}.{id}.{number}", at.pool);
        async move { io.delete(data, &object, SnapContext::default()).await }
    })
    .await?;
    io.delete(at, &head, SnapContext::default()).await
}
