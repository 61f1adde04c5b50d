//! An image's header, as far as work on whole images needs it.

use crate::layout::Layout;
use crate::rados::{Place, text};
use crate::work::Io;
use crate::{Fail, Optional, Result};
use bytes::Bytes;
use denc::Encode;
use messages::class::rbd::{NO_SNAP, ParentImageSpec, SnapshotInfo, feature};
use objecter::SnapContext;
use types::Errno;

/// The object that knows a pool's images by name and by id.
pub const DIRECTORY: &str = "rbd_directory";

/// Sizes of objects that librbd makes, as powers of two. Headers say what clients wrote there, so no number in them is
/// believed.
const ORDERS: std::ops::RangeInclusive<u8> = 12..=25;
/// Largest image; far above what can be stored, and far below where sums overflow.
const MOST_SIZE: u64 = 1 << 60;

/// A snapshot of an image, with how much of it lies over the parent.
#[derive(Clone, Debug)]
pub struct Snap {
    /// Record of it in the header.
    pub info: SnapshotInfo,
    /// Bytes that lie over the parent, if any do.
    pub overlap: Option<u64>,
}

/// An open image.
#[derive(Clone, Debug)]
pub struct Image {
    /// Pool and namespace of the header.
    pub at: Place,
    /// Its id.
    pub id: String,
    /// Place where its data is.
    pub data: Place,
    /// Beginning of the names of its data objects.
    pub prefix: String,
    /// Bytes.
    pub size: u64,
    /// Layout of their bytes.
    pub layout: Layout,
    /// See [`feature`].
    pub features: u64,
    /// Parent of the clone; some other image for the head, or for snapshots only.
    pub parent: Option<ParentImageSpec>,
    /// Bytes of the head that lie over the parent.
    pub overlap: Option<u64>,
    /// Snapshots that writes must preserve.
    pub snapc: SnapContext,
    /// Its snapshots, oldest first.
    pub snaps: Vec<Snap>,
}

/// The name of an image's header object.
pub(crate) fn header(id: &str) -> String {
    format!("rbd_header.{id}")
}

/// The name of the object that leads from an image's name to its id.
pub(crate) fn id_object(name: &str) -> String {
    format!("rbd_id.{name}")
}

/// The name of an image's object map, of its head or of a snapshot.
pub(crate) fn object_map(id: &str, snap: Option<u64>) -> String {
    match snap {
        None => format!("rbd_object_map.{id}"),
        Some(snap) => format!("rbd_object_map.{id}.{snap:016x}"),
    }
}

/// The id of the image with a name.
///
/// # Errors
/// ENOENT: there is none. ENOTSUP: it is of format 1.
pub async fn id_of(io: &Io, at: &Place, name: &str) -> Result<String> {
    match io.call::<Bytes>(at, &id_object(name), "get_id", b"").await.optional()? {
        Some(id) => text(&id),
        None if io.exists(at, &format!("{name}.rbd")).await? => {
            Err(Fail::new(Errno::EOPNOTSUPP, format!("image {name} is of format 1, which only the rbd command itself works on")))
        }
        None => Err(Fail::new(Errno::ENOENT, format!("image {name} does not exist"))),
    }
}

/// The name of the image with an id; `None` for one in the trash.
///
/// # Errors
/// Those of reading.
pub async fn name_of(io: &Io, at: &Place, id: &str) -> Result<Option<String>> {
    let name =
        io.call::<Bytes>(at, DIRECTORY, "dir_get_name", &Bytes::copy_from_slice(id.as_bytes()).to_bytes()).await.optional()?;
    name.as_ref().map(text).transpose()
}

/// Names by id of all images of a pool and namespace.
///
/// # Errors
/// Those of reading.
pub async fn names(io: &Io, at: &Place) -> Result<Vec<(String, String)>> {
    let entries = io.list::<Bytes>(at, DIRECTORY, "dir_list").await?;
    entries.iter().map(|(name, id)| Ok((text(id)?, text(name)?))).collect()
}

impl Image {
    /// Reads the header of the image with this id.
    ///
    /// # Errors
    /// ENOENT: there is none; those of reading; EIO for what no image says of itself.
    pub async fn open(io: &Io, at: &Place, id: &str) -> Result<Self> {
        let head = header(id);
        let no_snap = NO_SNAP.to_bytes();
        let (order, size): (u8, u64) = io.call(at, &head, "get_size", &no_snap).await?;
        let (features, _): (u64, u64) = io.call(at, &head, "get_features", &no_snap).await?;
        let prefix: Bytes = io.call(at, &head, "get_object_prefix", b"").await?;
        let data_pool: i64 = io.call(at, &head, "get_data_pool", b"").await?;
        let (seq, ids): (u64, Vec<u64>) = io.call(at, &head, "get_snapcontext", b"").await?;
        let parent: ParentImageSpec = io.call(at, &head, "parent_get", b"").await?;
        let overlap = overlap(io, at, &head, NO_SNAP).await?;
        if !ORDERS.contains(&order) || size > MOST_SIZE {
            return Err(Fail::new(Errno::EIO, format!("image {id} says it has {size} bytes in objects of 2^{order}")));
        }
        let mut layout = Layout::plain(order);
        if features & feature::STRIPINGV2 != 0 {
            let (unit, count): (u64, u64) = io.call(at, &head, "get_stripe_unit_count", b"").await?;
            let Some(striped) = Layout::striped(order, unit, count) else {
                return Err(Fail::new(
                    Errno::EIO,
                    format!("image {id} says it has stripes of {unit} bytes over {count} objects"),
                ));
            };
            layout = striped;
        }
        let prefix = text(&prefix)?;
        // In another pool, only what is named after this image is its own.
        if data_pool >= 0 && data_pool != at.pool && prefix != format!("rbd_data.{}.{id}", at.pool) {
            return Err(Fail::new(
                Errno::EIO,
                format!("image {id} says that its data is in pool {data_pool} under another name"),
            ));
        }
        let mut snaps = Vec::with_capacity(ids.len());
        for snap in ids.iter().rev() {
            // One that is gone meanwhile is gone.
            if let Some(info) = io.call(at, &head, "snapshot_get", &snap.to_bytes()).await.optional()? {
                snaps.push(Snap { info, overlap: self::overlap(io, at, &head, *snap).await? });
            }
        }
        Ok(Self {
            at: at.clone(),
            id: id.to_owned(),
            data: if data_pool < 0 { at.clone() } else { at.in_pool(data_pool) },
            prefix,
            size,
            layout,
            features,
            parent: Some(parent).filter(|p| p.pool >= 0),
            overlap,
            snapc: SnapContext { seq, snaps: ids },
            snaps,
        })
    }

    /// The name of its header object.
    pub fn header(&self) -> String {
        header(&self.id)
    }

    /// The name of a data object.
    pub fn object(&self, number: u64) -> String {
        format!("{}.{number:016x}", self.prefix)
    }

    /// Returns true if it has all of these features.
    pub fn has(&self, features: u64) -> bool {
        self.features & features == features
    }
}

/// Returns how much of the head or a snapshot lies over the parent.
async fn overlap(io: &Io, at: &Place, head: &str, snap: u64) -> Result<Option<u64>> {
    // A flag, and the number if it is set.
    let output: Overlap = io.call(at, head, "parent_overlap_get", &snap.to_bytes()).await?;
    Ok(output.0)
}

struct Overlap(Option<u64>);

impl denc::Decode for Overlap {
    fn decode(r: &mut denc::Reader<'_>) -> denc::Result<Self> {
        Ok(Self(if r.get()? { Some(r.get()?) } else { None }))
    }
}
