//! Images in the trash.

use crate::rados::{Place, text};
use crate::work::{Io, Progress};
use crate::{Fail, Optional, Result, remove};
use bytes::Bytes;
use denc::Encode;
use messages::class::rbd::TrashImageSpec;
use types::Errno;

/// The object that lists a pool's trash.
const TRASH: &str = "rbd_trash";
/// [`TrashImageSpec::source`] of an image that its user removed while it had clones.
pub(crate) const OF_PARENT: u8 = 4;
/// States of an entry.
const NORMAL: u8 = 0;
const REMOVING: u8 = 2;

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// What the trash says of an image.
///
/// # Errors
/// ENOENT: it is not there.
pub async fn get(io: &Io, at: &Place, id: &str) -> Result<TrashImageSpec> {
    io.call(at, TRASH, "trash_get", &bytes(id).to_bytes()).await
}

/// Removes an image that is in the trash.
///
/// # Errors
/// ENOENT: it is not there. EPERM: it is kept for longer. Those of [`remove`]; then it stays in the trash.
pub async fn remove(io: &Io, at: &Place, id: &str, progress: &Progress) -> Result<()> {
    let entry = get(io, at, id).await?;
    if entry.deferred > io.now() {
        return Err(Fail::new(Errno::EPERM, format!("the image is kept in the trash until {}", entry.deferred.iso())));
    }
    if entry.state != NORMAL && entry.state != REMOVING {
        return Err(Fail::new(Errno::EBUSY, "the image is on its way into the trash or out of it"));
    }
    set_state(io, at, id, REMOVING, NORMAL).await?;
    if let Err(fail) = remove::by_id(io, at, id, progress).await {
        // It can be restored, if enough of it is left.
        set_state(io, at, id, NORMAL, REMOVING).await?;
        return Err(fail);
    }
    io.exec(at, TRASH, "trash_remove", &bytes(id).to_bytes()).await.optional()?;
    Ok(())
}

async fn set_state(io: &Io, at: &Place, id: &str, to: u8, from: u8) -> Result<()> {
    let input = ((bytes(id), to), from).to_bytes();
    io.exec(at, TRASH, "trash_state_set", &input).await
}

/// Removes all images from the trash of a pool and namespace whose time is over; those that cannot go stay. Gives how many went, and the
/// reasons of the others.
///
/// # Errors
/// Those of reading.
pub async fn purge(io: &Io, at: &Place, progress: &Progress) -> Result<(u64, Vec<Fail>)> {
    let mut removed = 0;
    loop {
        let mut failed = Vec::new();
        let before = removed;
        for (id, entry) in io.list::<TrashImageSpec>(at, TRASH, "trash_list").await? {
            if entry.deferred > io.now() {
                continue;
            }
            let id = text(&id)?;
            match remove(io, at, &id, progress).await {
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
