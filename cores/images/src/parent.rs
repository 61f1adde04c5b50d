//! Reading through to parents, and letting go of them.

use crate::image::{self, Image};
use crate::layout::Layout;
use crate::lock::{self, Holder};
use crate::rados::{Place, text};
use crate::snapshot;
use crate::work::Io;
use crate::{Fail, Optional, Result};
use bytes::Bytes;
use denc::Encode;
use messages::class::rbd::{ChildImageSpec, NO_SNAP, ParentImageSpec, SnapshotInfo, feature};
use types::Errno;

/// Most images that stand behind one another.
const DEPTH: usize = 64;

/// An image as it is or as one of its snapshots saw it, and those behind it: the nearest first.
pub(crate) struct Chain(Vec<Layer>);

struct Layer {
    image: Image,
    snap: u64,
    /// Bytes of it that lie over the next one.
    overlap: u64,
}

/// A part that is still looked for: where in the image, where in what is read, how many bytes.
#[derive(Clone, Copy)]
struct Hole {
    image: u64,
    to: u64,
    len: u64,
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
            let layer = Layer::new(image, spec.snap)?;
            next = layer.behind();
            layers.push(layer);
        }
        Ok(Self(layers))
    }

    /// An image, as one of its snapshots or ([`NO_SNAP`]) its head sees it, and all that are behind it.
    pub(crate) async fn of(io: &Io, image: Image, snap: u64) -> Result<Self> {
        let layer = Layer::new(image, snap)?;
        let behind = match layer.behind() {
            Some(spec) => Self::open(io, &spec).await?.0,
            None => Vec::new(),
        };
        Ok(Self(std::iter::once(layer).chain(behind).collect()))
    }

    /// Returns what an object of an image with this layout would hold up to the image's byte `end`.
    pub(crate) async fn object(&self, io: &Io, layout: &Layout, number: u64, end: u64) -> Result<Vec<u8>> {
        let mut data = Vec::new();
        for part in layout.of_object(number, end) {
            data.resize((part.offset + part.len) as usize, 0);
            self.read(io, part.image, &mut data[part.offset as usize..]).await?;
        }
        Ok(data)
    }

    /// A part of the nearest image. Where none of them has anything it is zeros.
    async fn read(&self, io: &Io, offset: u64, into: &mut [u8]) -> Result<()> {
        let mut missing = vec![Hole { image: offset, to: 0, len: into.len() as u64 }];
        for layer in &self.0 {
            let mut deeper = Vec::new();
            for hole in missing {
                layer.read(io, hole, into, &mut deeper).await?;
            }
            missing = deeper;
        }
        Ok(())
    }
}

impl Layer {
    fn new(image: Image, snap: u64) -> Result<Self> {
        let overlap = match image.snaps.iter().find(|s| s.info.id == snap) {
            Some(found) => found.overlap,
            None if snap == NO_SNAP => image.overlap,
            None => return Err(Fail::new(Errno::ENOENT, format!("snapshot {snap} of the image {} is gone", image.id))),
        };
        Ok(Self { image, snap, overlap: overlap.unwrap_or(0) })
    }

    /// Returns what it is a clone of, if that matters.
    fn behind(&self) -> Option<ParentImageSpec> {
        self.image.parent.clone().filter(|_| self.overlap > 0)
    }

    /// Reads from this image alone; what it has no object for, and the next one may have, goes to `deeper`.
    async fn read(&self, io: &Io, hole: Hole, into: &mut [u8], deeper: &mut Vec<Hole>) -> Result<()> {
        for part in self.image.layout.of_image(hole.image, hole.len) {
            let to = hole.to + (part.image - hole.image);
            let object = self.image.object(part.object);
            match io.read(&self.image.data, &object, self.snap, part.offset, part.len).await.optional()? {
                None => {
                    let len = part.len.min(self.overlap.saturating_sub(part.image));
                    deeper.extend((len > 0).then_some(Hole { image: part.image, to, len }));
                }
                Some(data) if data.len() as u64 > part.len => {
                    return Err(Fail::new(Errno::EIO, format!("{object}: more bytes than asked for")));
                }
                Some(data) => {
                    let mut to = to as usize;
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

/// An image that lost its last clone and its last snapshot: if it is in the trash for its clones alone, nobody needs it
/// any more.
pub(crate) struct Orphan {
    /// Its pool and namespace.
    pub(crate) at: Place,
    /// Its id.
    pub(crate) id: String,
}

/// Takes a clone out of its parent's list of clones. A snapshot of the parent that was removed already and only stayed
/// for its clones goes with the last of them; a parent that has no snapshot left then is given. Nothing is wrong if it
/// was done before.
pub(crate) async fn unlink(io: &Io, child: &Image, spec: &ParentImageSpec) -> Result<Option<Orphan>> {
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
        return match drop_unused(io, &parent, &id, spec.snap).await {
            // Who may only clone it takes nothing else away; as in librbd, it stays for its owner.
            Err(fail) if fail.errno == Errno::EPERM => Ok(None),
            other => other,
        };
    }
    // A clone of the first kind stands in its own pool's list.
    let child_id = Bytes::copy_from_slice(child.id.as_bytes());
    let input = ((spec.pool, spec.image.clone()), (spec.snap, child_id)).to_bytes();
    io.exec(&child.at, "rbd_children", "remove_child", &input).await.optional()?;
    Ok(None)
}

/// Removes a snapshot that nobody can name any more, if it has no clones.
async fn drop_unused(io: &Io, at: &Place, id: &str, snap: u64) -> Result<Option<Orphan>> {
    let info: Option<SnapshotInfo> = io.call(at, &image::header(id), "snapshot_get", &snap.to_bytes()).await.optional()?;
    if !info.is_some_and(|info| info.namespace.is_trash() && info.child_count == 0) {
        return Ok(None);
    }
    let parent = Image::open(io, at, id).await?;
    let held = lock::take(io, &parent, Holder::Ask).await?;
    let removed = match parent.snaps.iter().find(|s| s.info.id == snap) {
        Some(snap) => snapshot::remove(io, &parent, snap).await,
        None => Ok(()),
    };
    held.release(io, &parent).await;
    removed?;
    let last = parent.snaps.len() == 1;
    Ok(last.then(|| Orphan { at: at.clone(), id: id.to_owned() }))
}

/// Lets an image's head, and the snapshots that were flattened with it, forget the parent.
pub(crate) async fn detach(io: &Io, image: &Image) -> Result<()> {
    io.exec(&image.at, &image.header(), "parent_detach", b"").await.optional()?;
    Ok(())
}
