//! Object maps: which objects an image and its snapshots have. A map that is missing, too short or damaged is marked
//! so, and made anew, by the clients that use it; nothing here depends on one.

use crate::image::{Image, object_map};
use crate::work::Io;
use crate::{Optional, Result};
use bytes::Bytes;
use denc::Encode;
use messages::class::rbd::feature;
use messages::code;
use messages::osd::Op;
use objecter::SnapContext;
use types::Errno;

/// Not there.
const NONE: u8 = 0;
/// Written since the last snapshot.
pub(crate) const EXISTS: u8 = 1;
/// There, but not written since the last snapshot.
const EXISTS_CLEAN: u8 = 3;

/// An object as a snapshot or the head sees it that was there when the snapshot before was made, and not written since.
pub(crate) fn unchanged(image: &Image) -> u8 {
    if image.has(feature::FAST_DIFF) { EXISTS_CLEAN } else { EXISTS }
}

/// Enters an object that is about to exist into the map of a snapshot or of the head, unless it says more already. An
/// object that is noted and not there does no harm.
pub(crate) async fn note(io: &Io, image: &Image, snap: Option<u64>, number: u64, state: u8) -> Result<()> {
    if !image.has(feature::OBJECT_MAP) {
        return Ok(());
    }
    // First object, the one after the last, the new state, and the state that it replaces.
    let update = ((number, number + 1), ((state, true), NONE)).to_bytes();
    match io.exec(&image.at, &object_map(&image.id, snap), "object_map_update", &update).await {
        Err(fail) if ![Errno::ENOENT, Errno::EINVAL, Errno::ERANGE].contains(&fail.errno) => Err(fail),
        _ => Ok(()),
    }
}

/// Gives a new snapshot a map like the head's, and marks what is there as not written since.
pub(crate) async fn add(io: &Io, image: &Image, snap: u64) -> Result<()> {
    let head = object_map(&image.id, None);
    let Some(map) = io.read_op(&image.at, &head, Op::extent(code::READ, 0, 0, Bytes::new())).await.optional()? else {
        return Ok(());
    };
    let write = Op::extent(code::WRITEFULL, 0, map.len() as u64, map);
    io.write_ops(&image.at, &object_map(&image.id, Some(snap)), vec![write], SnapContext::default()).await?;
    if image.has(feature::FAST_DIFF) {
        io.exec(&image.at, &head, "object_map_snap_add", b"").await?;
    }
    Ok(())
}

/// Removes a snapshot's map; what only it knew goes into the next newer one.
pub(crate) async fn remove(io: &Io, image: &Image, snap: u64) -> Result<()> {
    let own = object_map(&image.id, Some(snap));
    let map = io.read_op(&image.at, &own, Op::call("rbd", "object_map_load", b"")).await.optional()?;
    if let Some(map) = map {
        let newer = image.snaps.iter().map(|s| s.info.id).find(|other| *other > snap);
        let newer = object_map(&image.id, newer);
        match io.exec(&image.at, &newer, "object_map_snap_remove", &map).await.optional() {
            Err(fail) if fail.errno != Errno::EINVAL => return Err(fail),
            _ => {}
        }
    }
    io.delete(&image.at, &own, SnapContext::default()).await
}
