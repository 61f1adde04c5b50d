//! Taking a snapshot away.

use crate::image::{Image, Snap};
use crate::work::Io;
use crate::{Optional, Result};
use crate::{mirror_state, notice, object_map};
use denc::Encode;
use messages::class::rbd::{SnapshotNamespace, feature, protection};
use types::Errno;

/// Removes a snapshot, whose image's lock is held: its record becomes nobody's first, then its object map and what
/// belongs to it go, then its number is free, then the record goes.
pub(crate) async fn remove(io: &Io, image: &Image, snap: &Snap) -> Result<()> {
    let (header, id) = (image.header(), snap.info.id);
    if !snap.info.namespace.is_trash() {
        match io.exec(&image.at, &header, "snapshot_trash_add", &id.to_bytes()).await {
            Err(fail) if fail.errno == Errno::EEXIST => {}
            other => other?,
        }
    }
    if image.has(feature::OBJECT_MAP) {
        object_map::remove(io, image, id).await?;
    }
    if matches!(snap.info.namespace, SnapshotNamespace::Mirror(_)) {
        mirror_state::remove(io, image, id).await?;
    }
    // The record is what leads to the number: without it, what only the snapshot sees would never be trimmed.
    io.free_snap(image.data.pool, id).await?;
    io.exec(&image.at, &header, "snapshot_remove", &id.to_bytes()).await.optional()?;
    notice::header_changed(io, image).await;
    Ok(())
}

/// Lets a snapshot be removed.
pub(crate) async fn unprotect(io: &Io, image: &Image, snap: &Snap) -> Result<()> {
    if !image.has(feature::LAYERING) {
        return Ok(());
    }
    let status: u8 = io.call(&image.at, &image.header(), "get_protection_status", &snap.info.id.to_bytes()).await?;
    if status == protection::UNPROTECTED {
        return Ok(());
    }
    // There is a state between the two, so that clients that clone see what is coming.
    for status in [protection::UNPROTECTING, protection::UNPROTECTED] {
        io.exec(&image.at, &image.header(), "set_protection_status", &(snap.info.id, status).to_bytes()).await?;
    }
    Ok(())
}
