//! Groups of images and their snapshots.

use bytes::Bytes;

/// States of a group's snapshot.
#[allow(missing_docs)]
pub mod group_snap_state {
    pub const INCOMPLETE: u8 = 0;
    pub const COMPLETE: u8 = 1;
}

/// An image in a group (`cls::rbd::GroupImageSpec`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupImageSpec {
    /// Image id.
    pub image: Bytes,
    /// Its pool.
    pub pool: i64,
}
denc::versioned!(GroupImageSpec, 1, 1 { image, pool });

/// An image in a group, and whether the image knows (`cls::rbd::GroupImageStatus`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupImageStatus {
    /// The image.
    pub spec: GroupImageSpec,
    /// 0 attached, 1 incomplete.
    pub state: u8,
}
denc::versioned!(GroupImageStatus, 1, 1 { spec, state });

/// A group (`cls::rbd::GroupSpec`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// Its pool, -1 for none.
    pub pool: i64,
    /// Id.
    pub group: Bytes,
}
denc::versioned!(GroupSpec, 1, 1 { pool, group });

impl Default for GroupSpec {
    fn default() -> Self {
        Self { pool: -1, group: Bytes::new() }
    }
}

/// A snapshot of one image in a group's snapshot (`cls::rbd::ImageSnapshotSpec`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSnapshotSpec {
    /// The image's pool.
    pub pool: i64,
    /// The image.
    pub image: Bytes,
    /// Snapshot id.
    pub snap: u64,
}
denc::versioned!(ImageSnapshotSpec, 1, 1 { pool, image, snap });

/// A group's snapshot (`cls::rbd::GroupSnapshot`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupSnapshot {
    /// Id.
    pub id: Bytes,
    /// Name.
    pub name: Bytes,
    /// See [`group_snap_state`].
    pub state: u8,
    /// One snapshot for each image.
    pub snaps: Vec<ImageSnapshotSpec>,
}
denc::versioned!(GroupSnapshot, 1, 1 { id, name, state, snaps });
