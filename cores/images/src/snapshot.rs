//! Taking a snapshot away.

use crate::Optional;
use crate::Result;
use crate::image::{Image, Snap, object_map};
use crate::mirror;
use crate::work::Io;
use bytes::Bytes;
use denc::Encode;
use messages::class::rbd::{SnapshotNamespace, feature};
use messages::code;
use messages::osd::Op;
use objecter::SnapContext;
use types::Errno;

/// Removes a snapshot, whose image's lock is held: its record becomes nobody's first, then its object map and what belongs to it go, then the
/// record, then its number is free.
pub(crate) async fn remove(io: &Io, image: &Image, snap: &Snap) -> Result<()> {
    let (header, id) = (image.header(), snap.info.id);
    if !snap.info.namespace.is_trash() {
        match io.exec(&image.at, &header, "snapshot_trash_add", &id.to_bytes()).await {
            Err(fail) if fail.errno == Errno::EEXIST => {}
            other => other?,
        }
    }
    if image.has(feature::OBJECT_MAP) {
        remove_map(io, image, id).await?;
    }
    if matches!(snap.info.namespace, SnapshotNamespace::Mirror(_)) {
        mirror::remove_state(io, image, id).await?;
    }
    io.exec(&image.at, &header, "snapshot_remove", &id.to_bytes()).await.optional()?;
    io.free_snap(image.data.pool, id).await?;
    io.header_changed(&image.at, &header).await;
    Ok(())
}

/// Removes a snapshot's object map; what only it knew goes into the next newer one.
async fn remove_map(io: &Io, image: &Image, id: u64) -> Result<()> {
    let own = object_map(&image.id, Some(id));
    let map = io.read_op(&image.at, &own, Op::call("rbd", "object_map_load", b"")).await.optional()?;
    if let Some(map) = map {
        let newer = image.snaps.iter().map(|s| s.info.id).find(|other| *other > id);
        let newer = object_map(&image.id, newer);
        // A map that cannot be read is rebuilt by whoever opens the image.
        match io.exec(&image.at, &newer, "object_map_snap_remove", &map).await.optional() {
            Err(fail) if fail.errno != Errno::EINVAL => return Err(fail),
            _ => {}
        }
    }
    io.delete(&image.at, &own, SnapContext::default()).await
}

/// Gives a new snapshot an object map like the head's, and marks what is there as not written since.
pub(crate) async fn add_map(io: &Io, image: &Image, id: u64) -> Result<()> {
    let head = object_map(&image.id, None);
    let Some(map) = io.read_op(&image.at, &head, Op::extent(code::READ, 0, 0, Bytes::new())).await.optional()? else {
        return Ok(());
    };
    let write = Op::extent(code::WRITEFULL, 0, map.len() as u64, map);
    io.write_ops(&image.at, &object_map(&image.id, Some(id)), vec![write], SnapContext::default()).await?;
    if image.has(feature::FAST_DIFF) {
        io.exec(&image.at, &head, "object_map_snap_add", b"").await?;
    }
    Ok(())
}
