//! Snapshots of images and what they were made for.

use super::image::{Parent, optional, put_optional};
use super::{NO_SNAP, protection};
use bytes::Bytes;
use denc::{Decode, Encode, Reader, Result, envelope};
use std::collections::{BTreeMap, BTreeSet};
use types::UTime;

/// Numbers of the kinds of [`SnapshotNamespace`].
#[allow(missing_docs)]
pub mod namespace_type {
    pub const USER: u32 = 0;
    pub const GROUP: u32 = 1;
    pub const TRASH: u32 = 2;
    pub const MIRROR: u32 = 3;
    pub const UNKNOWN: u32 = u32::MAX;
}

/// Purpose of a snapshot (`cls::rbd::SnapshotNamespace`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SnapshotNamespace {
    /// A user made it.
    #[default]
    User,
    /// It is a part of a group's snapshot.
    Group {
        /// The group's pool.
        pool: i64,
        /// The group.
        group: Bytes,
        /// The group's snapshot.
        snap: Bytes,
    },
    /// It was removed while clones need it.
    Trash {
        /// Its former name.
        name: Bytes,
        /// Its former purpose, see [`namespace_type`].
        original: u32,
    },
    /// Mirroring made it.
    Mirror(MirrorSnapshot),
    /// A kind that is not known here.
    Unknown,
}

impl SnapshotNamespace {
    /// Its number.
    pub fn kind(&self) -> u32 {
        match self {
            Self::User => namespace_type::USER,
            Self::Group { .. } => namespace_type::GROUP,
            Self::Trash { .. } => namespace_type::TRASH,
            Self::Mirror(_) => namespace_type::MIRROR,
            Self::Unknown => namespace_type::UNKNOWN,
        }
    }

    /// Returns true if the snapshot was removed while clones need it.
    pub fn is_trash(&self) -> bool {
        matches!(self, Self::Trash { .. })
    }
}

impl Decode for SnapshotNamespace {
    const MIN_SIZE: usize = 10;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("SnapshotNamespace", 1)?;
        let b = &mut e.body;
        Ok(match b.u32()? {
            namespace_type::USER => Self::User,
            namespace_type::GROUP => Self::Group { pool: b.get()?, group: b.get()?, snap: b.get()? },
            namespace_type::TRASH => Self::Trash { name: b.get()?, original: b.get()? },
            namespace_type::MIRROR => Self::Mirror(b.get()?),
            _ => Self::Unknown,
        })
    }
}

impl Encode for SnapshotNamespace {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 1, 1, |out| {
            self.kind().encode(out);
            match self {
                Self::User | Self::Unknown => {}
                Self::Group { pool, group, snap } => {
                    pool.encode(out);
                    group.encode(out);
                    snap.encode(out);
                }
                Self::Trash { name, original } => {
                    name.encode(out);
                    original.encode(out);
                }
                Self::Mirror(mirror) => mirror.encode(out),
            }
        });
    }
}

/// A snapshot that mirroring made (`cls::rbd::MirrorSnapshotNamespace`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorSnapshot {
    /// 0 primary, 1 demoted primary, 2 copy, 3 demoted copy.
    pub state: u8,
    /// True if the copy is whole.
    pub complete: bool,
    /// Peers that still need it.
    pub mirror_peer_uuids: BTreeSet<Bytes>,
    /// The cluster that it is a copy from.
    pub primary_mirror_uuid: Bytes,
    /// Its id there.
    pub primary_snap_id: u64,
    /// Number of the last object that was copied.
    pub last_copied_object_number: u64,
    /// Snapshot ids there and here.
    pub snap_seqs: BTreeMap<u64, u64>,
}
denc::plain!(MirrorSnapshot {
    state,
    complete,
    mirror_peer_uuids,
    primary_mirror_uuid,
    primary_snap_id,
    last_copied_object_number,
    snap_seqs
});

impl MirrorSnapshot {
    /// Returns true if the image was the primary one when it was made.
    pub fn is_primary(&self) -> bool {
        self.state <= 1
    }
}

/// A snapshot as clients get it (`cls::rbd::SnapshotInfo`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Id.
    pub id: u64,
    /// Its purpose.
    pub namespace: SnapshotNamespace,
    /// Name.
    pub name: Bytes,
    /// Size of the image at that time, in bytes.
    pub image_size: u64,
    /// Time when it was made.
    pub timestamp: UTime,
    /// Clones.
    pub child_count: u32,
}
denc::versioned!(SnapshotInfo, 1, 1 { id, namespace, name, image_size, timestamp, child_count });

/// A snapshot as it is stored (`cls_rbd_snap`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Id.
    pub id: u64,
    /// Name.
    pub name: Bytes,
    /// Size of the image at that time, in bytes.
    pub image_size: u64,
    /// The parent at that time. Only in records that can be read at version 7; newer ones keep the overlap alone.
    pub parent: Parent,
    /// See [`protection`].
    pub protection: u8,
    /// The image's flags at that time.
    pub flags: u64,
    /// Its purpose.
    pub namespace: SnapshotNamespace,
    /// Time when it was made.
    pub timestamp: UTime,
    /// Clones.
    pub child_count: u32,
    /// Bytes that lie over the image's parent.
    pub parent_overlap: Option<u64>,
}

impl Default for Snapshot {
    fn default() -> Self {
        Self {
            id: NO_SNAP,
            name: Bytes::new(),
            image_size: 0,
            parent: Parent::default(),
            protection: protection::UNPROTECTED,
            flags: 0,
            namespace: SnapshotNamespace::User,
            timestamp: UTime::ZERO,
            child_count: 0,
            parent_overlap: None,
        }
    }
}

impl Decode for Snapshot {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("Snapshot", 8)?;
        let (version, old) = (e.version, e.compat < 8);
        let b = &mut e.body;
        let mut snap = Self { id: b.get()?, name: b.get()?, image_size: b.get()?, ..Self::default() };
        if old {
            b.u64()?;
        }
        if version >= 2 && old {
            snap.parent = b.get()?;
        }
        if version >= 3 {
            snap.protection = b.get()?;
        }
        if version >= 4 {
            snap.flags = b.get()?;
        }
        if version >= 5 {
            snap.namespace = b.get()?;
        }
        if version >= 6 {
            snap.timestamp = b.get()?;
        }
        if version >= 7 {
            snap.child_count = b.get()?;
        }
        if version >= 8 {
            snap.parent_overlap = optional(b)?;
        }
        Ok(snap)
    }
}

impl Encode for Snapshot {
    /// At version 8; the parent is not written.
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 8, 8, |out| {
            self.id.encode(out);
            self.name.encode(out);
            self.image_size.encode(out);
            self.protection.encode(out);
            self.flags.encode(out);
            self.namespace.encode(out);
            self.timestamp.encode(out);
            self.child_count.encode(out);
            put_optional(&self.parent_overlap, out);
        });
    }
}
