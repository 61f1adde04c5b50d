//! The list of images in the trash, and the ways into it and back. What takes images off it for good is
//! [`crate::remove`].

use crate::image::{self, DIRECTORY};
use crate::rados::{Place, text};
use crate::work::Io;
use crate::{Fail, Optional, Result};
use bytes::Bytes;
use denc::Encode;
use messages::class::rbd::TrashImageSpec;
use messages::code;
use messages::osd::{Op, OpArgs};
use objecter::SnapContext;
use types::Errno;

/// The object that lists a pool's trash.
const TRASH: &str = "rbd_trash";
/// [`TrashImageSpec::source`] of an image that moves to another place.
pub(crate) const OF_MIGRATION: u8 = 2;
/// The same, of one that is being removed.
const OF_REMOVAL: u8 = 3;
/// The same, of one that its user removed while it had clones.
pub(crate) const OF_PARENT: u8 = 4;
/// States of an entry.
const NORMAL: u8 = 0;
const MOVING: u8 = 1;
const REMOVING: u8 = 2;
const RESTORING: u8 = 3;

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// Returns what the trash says of an image.
///
/// # Errors
/// ENOENT: it is not there.
pub async fn get(io: &Io, at: &Place, id: &str) -> Result<TrashImageSpec> {
    io.call(at, TRASH, "trash_get", &bytes(id).to_bytes()).await
}

/// Names of all that is in the trash of a pool and namespace.
///
/// # Errors
/// Those of reading.
pub async fn names(io: &Io, at: &Place) -> Result<Vec<String>> {
    Ok(entries(io, at).await?.into_iter().map(|(_, entry)| String::from_utf8_lossy(&entry.name).into_owned()).collect())
}

/// All that is in the trash of a pool and namespace, with its ids.
pub(crate) async fn entries(io: &Io, at: &Place) -> Result<Vec<(String, TrashImageSpec)>> {
    let entries = io.list::<TrashImageSpec>(at, TRASH, "trash_list").await?;
    entries.into_iter().map(|(id, entry)| Ok((text(&id)?, entry))).collect()
}

/// Takes an image's name away, because it is being removed: from now on it is in the trash, whatever happens. What was
/// interrupted can be done again.
pub(crate) async fn put(io: &Io, at: &Place, id: &str, name: &str) -> Result<()> {
    let now = io.now();
    let entry = TrashImageSpec { source: OF_REMOVAL, name: bytes(name), deleted: now, deferred: now, state: MOVING };
    io.exec(at, TRASH, "trash_add", &(bytes(id), entry).to_bytes()).await?;
    take_name(io, at, id, name).await?;
    set_state(io, at, id, NORMAL, MOVING).await
}

/// Sees to it that a name does not lead to an image any more.
pub(crate) async fn take_name(io: &Io, at: &Place, id: &str, name: &str) -> Result<()> {
    let leads_here = io.call::<Bytes>(at, &image::id_object(name), "get_id", b"").await.optional()?;
    if leads_here.is_some_and(|to| to == id) {
        io.delete(at, &image::id_object(name), SnapContext::default()).await?;
    }
    match io.exec(at, DIRECTORY, "dir_remove_image", &(bytes(name), bytes(id)).to_bytes()).await {
        // The name may be another image's by now.
        Err(fail) if [Errno::ENOENT, Errno::ESTALE].contains(&fail.errno) => Ok(()),
        other => other,
    }
}

/// Returns whether a removal put an image here; one that was cut off before it had taken the name goes on.
pub(crate) async fn is_leaving(io: &Io, at: &Place, id: &str) -> Result<bool> {
    let Some(entry) = get(io, at, id).await.optional()?.filter(|entry| entry.source == OF_REMOVAL) else { return Ok(false) };
    if entry.state == MOVING {
        take_name(io, at, id, &text(&entry.name)?).await?;
        set_state(io, at, id, NORMAL, MOVING).await?;
    }
    Ok(true)
}

/// Returns true if an image is on its way back to its name.
pub(crate) fn is_restored(entry: &TrashImageSpec) -> bool {
    entry.state == RESTORING
}

/// Gives an image its name back; [`forget`] ends it.
///
/// # Errors
/// EEXIST: another image has that name now.
pub(crate) async fn restore(io: &Io, at: &Place, id: &str, entry: &TrashImageSpec) -> Result<()> {
    set_state(io, at, id, RESTORING, entry.state).await?;
    let name = text(&entry.name)?;
    let object = image::id_object(&name);
    match io.call::<Bytes>(at, &object, "get_id", b"").await.optional()? {
        Some(to) if to == id => {}
        Some(_) => return Err(Fail::new(Errno::EEXIST, format!("another image is called {name}"))),
        None => {
            let create = Op::new(code::CREATE, OpArgs::None);
            let set_id = Op::call("rbd", "set_id", &bytes(id).to_bytes());
            io.write_ops(at, &object, vec![create, set_id], SnapContext::default()).await?;
        }
    }
    match io.exec(at, DIRECTORY, "dir_add_image", &(bytes(&name), bytes(id)).to_bytes()).await {
        Err(fail) if fail.errno == Errno::EEXIST => Ok(()),
        other => other,
    }
}

/// Takes an image off the list.
pub(crate) async fn forget(io: &Io, at: &Place, id: &str) -> Result<()> {
    io.exec(at, TRASH, "trash_remove", &bytes(id).to_bytes()).await.optional()?;
    Ok(())
}

/// Notes that an image in the trash is being removed.
///
/// # Errors
/// ENOENT: it is not there. EPERM: it is kept for longer. EBUSY: it is on its way into the trash or out of it.
pub(crate) async fn begin_removal(io: &Io, at: &Place, id: &str) -> Result<()> {
    let entry = get(io, at, id).await?;
    if entry.deferred > io.now() {
        return Err(Fail::new(Errno::EPERM, format!("the image is kept in the trash until {}", entry.deferred.iso())));
    }
    if entry.state != NORMAL && entry.state != REMOVING {
        return Err(Fail::new(Errno::EBUSY, "the image is on its way into the trash or out of it"));
    }
    set_state(io, at, id, REMOVING, NORMAL).await
}

/// Notes that a removal failed: the image can be restored, if enough of it is left.
pub(crate) async fn give_removal_up(io: &Io, at: &Place, id: &str) -> Result<()> {
    set_state(io, at, id, NORMAL, REMOVING).await
}

async fn set_state(io: &Io, at: &Place, id: &str, to: u8, from: u8) -> Result<()> {
    let input = ((bytes(id), to), from).to_bytes();
    io.exec(at, TRASH, "trash_state_set", &input).await
}
