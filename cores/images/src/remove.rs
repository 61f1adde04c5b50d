//! Removing an image: its name, so that nobody sees it half; data, link to the parent, what belongs to it, header; its
//! place in the trash.

use crate::image::{self, Image};
use crate::lock::{self, Held, Holder};
use crate::parent::Orphan;
use crate::rados::Place;
use crate::work::{Io, Progress, each};
use crate::{Fail, Optional, Result};
use crate::{mirror, parent, snapshot, trash};
use messages::class::rbd::{GroupSpec, SnapshotNamespace, feature};
use objecter::SnapContext;
use types::Errno;

/// Objects that are removed at a time (as librbd's `rbd_concurrent_management_ops`).
const AT_A_TIME: usize = 10;

/// Sets of objects that a journal has at most; more are a head that somebody made up.
const MOST_SETS: u64 = 1 << 24;

/// Thing that is to go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// An image that nobody needs: it has no snapshots, no group, and is not moving.
    Image,
    /// An end of a migration, with its snapshots.
    End,
}

/// Removes the image with a name; by `id` it is known which one was meant, if an earlier attempt took the name already.
/// First it is checked whether it may go; then it is in the trash, and never seen half.
///
/// # Errors
/// ENOENT: there is none. ENOTEMPTY: it has snapshots. EBUSY: it is open. EMLINK: it is in a group.
pub async fn by_name(io: &Io, at: &Place, name: &str, id: Option<&str>, progress: &Progress) -> Result<()> {
    if let Some(id) = id
        && trash::is_leaving(io, at, id).await?
    {
        return from_trash(io, at, id, progress).await;
    }
    let found = image::id_of(io, at, name).await?;
    if id.is_some_and(|id| id != found) {
        return Err(Fail::new(Errno::ENOENT, format!("{name} is another image now")));
    }
    // Names without an image are left where a client was cut off that takes them last.
    if let Some(image) = Image::open(io, at, &found).await.optional()? {
        let held = lock::take(io, &image, Holder::Respect).await?;
        let may = may_go(io, &image, &held, What::Image).await;
        held.release(io, &image).await;
        may?;
    }
    trash::put(io, at, &found, name).await?;
    from_trash(io, at, &found, progress).await
}

/// Removes an image that is in the trash.
///
/// # Errors
/// ENOENT: it is not there. EPERM: it is kept for longer. EBUSY: it is open, or moves. If it cannot go, it stays in the
/// trash.
pub async fn from_trash(io: &Io, at: &Place, id: &str, progress: &Progress) -> Result<()> {
    trash::begin_removal(io, at, id).await?;
    if let Err(fail) = all(io, at, id, What::Image, progress).await {
        trash::give_removal_up(io, at, id).await?;
        return Err(fail);
    }
    trash::forget(io, at, id).await
}

/// Removes all images from the trash of a pool and namespace whose time is over; those that cannot go stay. Gives how
/// many went, and the reasons of the others.
///
/// # Errors
/// Those of reading.
pub async fn purge(io: &Io, at: &Place, progress: &Progress) -> Result<(u64, Vec<Fail>)> {
    let mut removed = 0;
    loop {
        let mut failed = Vec::new();
        let before = removed;
        for (id, entry) in trash::entries(io, at).await? {
            if entry.deferred > io.now() {
                continue;
            }
            match from_trash(io, at, &id, progress).await {
                Ok(()) => removed += 1,
                Err(fail) if fail.is_cancelled() => return Err(fail),
                Err(fail) => failed.push(Fail::new(fail.errno, format!("{id}: {}", fail.what))),
            }
        }
        // A clone that went may have been what kept its parent.
        if removed == before || failed.is_empty() {
            return Ok((removed, failed));
        }
    }
}

/// Removes an image that its user put into the trash when it still had clones, now that it has none. If it cannot go,
/// it stays there, to be removed with the others.
pub(crate) async fn orphan(io: &Io, orphan: Orphan) {
    if trash::get(io, &orphan.at, &orphan.id).await.is_ok_and(|entry| entry.source == trash::OF_PARENT) {
        // It may be a clone itself: the same again, one level deeper.
        let _ = Box::pin(from_trash(io, &orphan.at, &orphan.id, &Progress::default())).await;
    }
}

/// Removes all of an end of a migration but its names.
pub(crate) async fn end_of_migration(io: &Io, at: &Place, id: &str, progress: &Progress) -> Result<()> {
    all(io, at, id, What::End, progress).await
}

/// Removes all of an image but its names. An image that is not there any more is no failure.
async fn all(io: &Io, at: &Place, id: &str, what: What, progress: &Progress) -> Result<()> {
    if let Some(image) = Image::open(io, at, id).await.optional()? {
        let held = lock::take(io, &image, Holder::Respect).await?;
        let emptied = match may_go(io, &image, &held, what).await {
            Ok(()) => empty(io, &image, progress).await,
            refused => refused,
        };
        held.release(io, &image).await;
        emptied?;
        io.delete(at, &image.header(), SnapContext::default()).await?;
    }
    remove_journal(io, at, id).await?;
    io.delete(at, &image::object_map(id, None), SnapContext::default()).await
}

async fn may_go(io: &Io, image: &Image, held: &Held, what: What) -> Result<()> {
    if held.is_shared(io, image).await? {
        return Err(Fail::new(Errno::EBUSY, "the image is open (it has watchers)"));
    }
    if what == What::End {
        return Ok(());
    }
    if image.has(feature::MIGRATING) {
        return Err(Fail::new(Errno::EBUSY, "the image is being migrated"));
    }
    let group: GroupSpec = io.call(&image.at, &image.header(), "image_group_get", b"").await?;
    if group.pool >= 0 {
        return Err(Fail::new(Errno::EMLINK, "the image is in a group"));
    }
    let mirrors = |s: &&image::Snap| matches!(s.info.namespace, SnapshotNamespace::Mirror(_));
    if image.snaps.len() > image.snaps.iter().filter(mirrors).count() {
        return Err(Fail::new(Errno::ENOTEMPTY, "the image has snapshots"));
    }
    Ok(())
}

/// Takes all from an image that its header leads to.
async fn empty(io: &Io, image: &Image, progress: &Progress) -> Result<()> {
    mirror::begin_to_forget(io, image).await?;
    for snap in &image.snaps {
        snapshot::unprotect(io, image, snap).await?;
        snapshot::remove(io, image, snap).await?;
    }
    remove_data(io, image, progress).await?;
    if let Some(spec) = &image.parent
        && let Some(freed) = parent::unlink(io, image, spec).await?
    {
        orphan(io, freed).await;
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
