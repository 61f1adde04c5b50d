//! Reading through to parents, and letting go of them.

use crate::image::{self, Image};
use crate::lock::{self, Holder};
use crate::rados::{Place, text};
use crate::work::{Io, Progress};
use crate::{Fail, Optional, Result};
use crate::{snapshot, trash};
use bytes::Bytes;
use denc::Encode;
use messages::class::rbd::{ChildImageSpec, ParentImageSpec, SnapshotInfo, feature};
use types::Errno;

/// Most images that stand behind one another.
const DEPTH: usize = 64;

/// An image as one of its snapshots saw it, and those behind it: the nearest first.
pub(crate) struct Chain(Vec<Layer>);

struct Layer {
    image: Image,
    snap: u64,
    /// Bytes of it that lie over the next one.
    overlap: u64,
}

impl Chain {
    /// Opens a parent and all that are behind it.
    pub(crate) async fn open(io: &Io, spec: &ParentImageSpec) -> Result<Self> {
        let mut layers = Vec::new();
        let mut next = Some(spec.clone());
        while let Some(spec) = next {
            if layers.len() == DEPTH {
                return Err(Fail::new(Errno::EIO, "an image has too many parents, one behind the other"));
            }
            let image = Image::open(io, &Place::new(spec.pool, text(&spec.namespace)?), &text(&spec.image)?).await?;
            if image.has(feature::MIGRATING) {
                return Err(Fail::new(Errno::EBUSY, format!("the parent {} is being migrated", image.id)));
            }
            let Some(snap) = image.snaps.iter().find(|s| s.info.id == spec.snap) else {
                return Err(Fail::new(Errno::ENOENT, format!("snapshot {} of the parent {} is gone", spec.snap, image.id)));
            };
            let overlap = snap.overlap.unwrap_or(0);
            next = image.parent.clone().filter(|_| overlap > 0);
            layers.push(Layer { image, snap: spec.snap, overlap });
        }
        Ok(Self(layers))
    }

    /// A part of the nearest image. Where none of them has anything it is zeros.
    pub(crate) async fn read(&self, io: &Io, offset: u64, into: &mut [u8]) -> Result<()> {
        // Parts that are still looked for: where in the image, where in `into`.
        let mut missing = vec![(offset, 0, into.len() as u64)];
        for layer in &self.0 {
            let mut deeper = Vec::new();
            for (at, to, len) in missing {
                layer
                    .read(io, at, &mut into[to as usize..(to + len) as usize], &mut |from, skip, len| {
                        let len = len.min(layer.overlap.saturating_sub(from));
                        if len > 0 {
                            deeper.push((from, to + skip, len));
                        }
                    })
                    .await?;
            }
            missing = deeper;
        }
        Ok(())
    }
}

impl Layer {
    /// Reads from this image alone; tells what it has no object for: where in the image, how far into the part, how many bytes.
    async fn read(&self, io: &Io, offset: u64, into: &mut [u8], lacks: &mut impl FnMut(u64, u64, u64)) -> Result<()> {
        for part in self.image.layout.of_image(offset, into.len() as u64) {
            let skip = part.image - offset;
            let object = self.image.object(part.object);
            match io.read(&self.image.data, &object, self.snap, part.offset, part.len).await.optional()? {
                None => lacks(part.image, skip, part.len),
                Some(data) if data.len() as u64 > part.len => {
                    return Err(Fail::new(Errno::EIO, format!("{object}: more bytes than asked for")));
                }
                Some(data) => {
                    let mut to = skip as usize;
                    for piece in data.pieces() {
                        into[to..to + piece.len()].copy_from_slice(piece);
                        to += piece.len();
                    }
                }
            }
        }
        Ok(())
    }
}

/// Takes a clone out of its parent's list of clones. A snapshot of the parent that was removed already and only stayed for its clones goes with
/// the last of them. Nothing is wrong if it was done before.
pub(crate) async fn unlink(io: &Io, child: &Image, spec: &ParentImageSpec) -> Result<()> {
    let parent = Place::new(spec.pool, text(&spec.namespace)?);
    let id = text(&spec.image)?;
    let child_spec = ChildImageSpec {
        pool: child.at.pool,
        namespace: Bytes::copy_from_slice(child.at.nspace.as_bytes()),
        image: Bytes::copy_from_slice(child.id.as_bytes()),
    };
    let header = image::header(&id);
    let detach = (spec.snap, child_spec).to_bytes();
    if io.exec(&parent, &header, "child_detach", &detach).await.optional()?.is_some() {
        return drop_unused(io, &parent, &id, spec.snap).await;
    }
    // A clone of the first kind stands in its own pool's list.
    let child_id = Bytes::copy_from_slice(child.id.as_bytes());
    let input = ((spec.pool, spec.image.clone()), (spec.snap, child_id)).to_bytes();
    io.exec(&child.at, "rbd_children", "remove_child", &input).await.optional()?;
    Ok(())
}

/// Removes a snapshot that nobody can name any more, if it has no clones.
async fn drop_unused(io: &Io, at: &Place, id: &str, snap: u64) -> Result<()> {
    let info: Option<SnapshotInfo> = io.call(at, &image::header(id), "snapshot_get", &snap.to_bytes()).await.optional()?;
    if !info.is_some_and(|info| info.namespace.is_trash() && info.child_count == 0) {
        return Ok(());
    }
    let parent = Image::open(io, at, id).await?;
    let held = lock::take(io, &parent, Holder::Ask).await?;
    let removed = match parent.snaps.iter().find(|s| s.info.id == snap) {
        Some(snap) => snapshot::remove(io, &parent, snap).await,
        None => Ok(()),
    };
    held.release(io, &parent).await;
    removed?;
    if parent.snaps.len() == 1 {
        drop_orphan(io, at, id).await;
    }
    Ok(())
}

/// Removes an image that its user put into the trash when it still had clones, now that it has none. If it cannot go, it stays there, to be
/// purged with the others.
async fn drop_orphan(io: &Io, at: &Place, id: &str) {
    if trash::get(io, at, id).await.is_ok_and(|entry| entry.source == trash::OF_PARENT) {
        // It may be a clone itself: the same again, one level deeper.
        let _ = Box::pin(trash::remove(io, at, id, &Progress::default())).await;
    }
}

/// Lets an image's head, and the snapshots that were flattened with it, forget the parent.
pub(crate) async fn detach(io: &Io, image: &Image) -> Result<()> {
    io.exec(&image.at, &image.header(), "parent_detach", b"").await.optional()?;
    Ok(())
}
