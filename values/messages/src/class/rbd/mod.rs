//! Class `rbd`: what clients of block images send and get, and what the class keeps in its objects.
//!
//! Names and ids are bytes: nothing forbids an image's name to be other than UTF-8. Numbers that name a state are kept
//! as they came, since a newer client may know more of them.

mod group;
mod image;
mod mirror;
mod snapshot;

pub use group::{GroupImageSpec, GroupImageStatus, GroupSnapshot, GroupSpec, ImageSnapshotSpec, group_snap_state};
pub use image::{
    ChildImageSpec, MigrationSpec, Parent, ParentImageSpec, TrashImageSpec, directory_state, feature, migration_header,
    migration_state, op_feature, protection,
};
pub use mirror::{
    MirrorImage, MirrorImageMap, MirrorImageStatus, MirrorPeer, SiteStatus, StoredSiteStatus, direction, image_status,
    mirror_image_state, mirror_mode,
};
pub use snapshot::{MirrorSnapshot, Snapshot, SnapshotInfo, SnapshotNamespace, namespace_type};

/// The snapshot id that stands for the image itself.
pub const NO_SNAP: u64 = u64::MAX - 1;
/// The largest snapshot id.
pub const MAX_SNAP: u64 = u64::MAX - 2;
/// Most objects that an object map may describe.
pub const MAX_OBJECT_MAP_OBJECTS: u64 = 256_000_000;
