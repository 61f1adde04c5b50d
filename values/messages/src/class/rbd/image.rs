//! Images: features, parents, children, trash, migration.

use super::NO_SNAP;
use bytes::Bytes;
use denc::{Decode, Encode, Reader, Result, envelope};
use std::collections::BTreeMap;
use types::UTime;

/// Features of an image.
#[allow(missing_docs)]
pub mod feature {
    pub const LAYERING: u64 = 1;
    pub const STRIPINGV2: u64 = 1 << 1;
    pub const EXCLUSIVE_LOCK: u64 = 1 << 2;
    pub const OBJECT_MAP: u64 = 1 << 3;
    pub const FAST_DIFF: u64 = 1 << 4;
    pub const DEEP_FLATTEN: u64 = 1 << 5;
    pub const JOURNALING: u64 = 1 << 6;
    pub const DATA_POOL: u64 = 1 << 7;
    pub const OPERATIONS: u64 = 1 << 8;
    pub const MIGRATING: u64 = 1 << 9;
    pub const NON_PRIMARY: u64 = 1 << 10;
    pub const DIRTY_CACHE: u64 = 1 << 11;
    /// All that this level knows.
    pub const ALL: u64 = (1 << 12) - 1;
    /// A client must know them to read.
    pub const INCOMPATIBLE: u64 = LAYERING | STRIPINGV2 | DATA_POOL | DIRTY_CACHE;
    /// A client must know them to write.
    pub const RW_INCOMPATIBLE: u64 = ALL;
    /// May be switched on and off.
    pub const MUTABLE: u64 = EXCLUSIVE_LOCK | OBJECT_MAP | FAST_DIFF | JOURNALING | NON_PRIMARY | DIRTY_CACHE;
    /// May be switched off.
    pub const DISABLE_ONLY: u64 = DEEP_FLATTEN;
    /// Only the class itself sets them.
    pub const INTERNAL: u64 = OPERATIONS | MIGRATING;
}

/// Work that is going on with an image; set and cleared by operations.
#[allow(missing_docs)]
pub mod op_feature {
    pub const CLONE_PARENT: u64 = 1;
    pub const CLONE_CHILD: u64 = 1 << 1;
    pub const GROUP: u64 = 1 << 2;
    pub const SNAP_TRASH: u64 = 1 << 3;
    pub const ALL: u64 = (1 << 4) - 1;
}

/// States of a snapshot's protection.
#[allow(missing_docs)]
pub mod protection {
    pub const UNPROTECTED: u8 = 0;
    pub const UNPROTECTING: u8 = 1;
    pub const PROTECTED: u8 = 2;
    /// The first number without a meaning.
    pub const LAST: u8 = 3;
}

/// States of a pool's directory.
#[allow(missing_docs)]
pub mod directory_state {
    pub const READY: u8 = 0;
    pub const ADD_DISABLED: u8 = 1;
}

/// Ends of a migration.
#[allow(missing_docs)]
pub mod migration_header {
    pub const SRC: u8 = 1;
    pub const DST: u8 = 2;
}

/// Progress of a migration.
#[allow(missing_docs)]
pub mod migration_state {
    pub const ERROR: u8 = 0;
    pub const PREPARING: u8 = 1;
    pub const PREPARED: u8 = 2;
    pub const EXECUTING: u8 = 3;
    pub const EXECUTED: u8 = 4;
    pub const ABORTING: u8 = 5;
}

/// A snapshot of another image that an image is cloned from (`cls::rbd::ParentImageSpec`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentImageSpec {
    /// Pool, -1 for no parent.
    pub pool: i64,
    /// Namespace in the pool.
    pub namespace: Bytes,
    /// Image id.
    pub image: Bytes,
    /// Snapshot id.
    pub snap: u64,
}
denc::versioned!(ParentImageSpec, 1, 1 { pool, namespace, image, snap });

impl Default for ParentImageSpec {
    fn default() -> Self {
        Self { pool: -1, namespace: Bytes::new(), image: Bytes::new(), snap: NO_SNAP }
    }
}

/// A parent as it is stored with the child (`cls_rbd_parent`): version 1 knew no namespaces and stored "no overlap" as 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parent {
    /// The image.
    pub spec: ParentImageSpec,
    /// Bytes of the image that still lie over the parent; none once the image, but not its snapshots, is flattened.
    pub overlap: Option<u64>,
}

impl Parent {
    /// Returns true if it names a parent.
    pub fn exists(&self) -> bool {
        self.spec.pool >= 0 && !self.spec.image.is_empty() && self.spec.snap != NO_SNAP
    }
}

impl Decode for Parent {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("Parent", 2)?;
        let pool = e.body.get()?;
        let namespace = if e.version >= 2 { e.body.get()? } else { Bytes::new() };
        let spec = ParentImageSpec { pool, namespace, image: e.body.get()?, snap: e.body.get()? };
        let overlap = if e.version >= 2 { optional(&mut e.body)? } else { Some(e.body.get()?) };
        Ok(Self { spec, overlap })
    }
}

impl Encode for Parent {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 2, 2, |out| {
            let ParentImageSpec { pool, namespace, image, snap } = &self.spec;
            pool.encode(out);
            namespace.encode(out);
            image.encode(out);
            snap.encode(out);
            put_optional(&self.overlap, out);
        });
    }
}

/// A clone of a snapshot (`cls::rbd::ChildImageSpec`). The order is that of the stored set.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChildImageSpec {
    /// Pool.
    pub pool: i64,
    /// Namespace in the pool; not known to version 1.
    pub namespace: Bytes,
    /// Image id.
    pub image: Bytes,
}

impl Decode for ChildImageSpec {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("ChildImageSpec", 2)?;
        let (pool, image) = (e.body.get()?, e.body.get()?);
        let namespace = if e.version >= 2 { e.body.get()? } else { Bytes::new() };
        Ok(Self { pool, namespace, image })
    }
}

impl Encode for ChildImageSpec {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 2, 1, |out| {
            self.pool.encode(out);
            self.image.encode(out);
            self.namespace.encode(out);
        });
    }
}

/// An image in the trash (`cls::rbd::TrashImageSpec`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrashImageSpec {
    /// Source of the entry.
    pub source: u8,
    /// Its name.
    pub name: Bytes,
    /// Time when it was put there.
    pub deleted: UTime,
    /// Until when it is kept.
    pub deferred: UTime,
    /// Work under way on it; not known to version 1.
    pub state: u8,
}

impl Decode for TrashImageSpec {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("TrashImageSpec", 2)?;
        let b = &mut e.body;
        let (source, name, deleted, deferred) = (b.get()?, b.get()?, b.get()?, b.get()?);
        let state = if e.version >= 2 { b.get()? } else { 0 };
        Ok(Self { source, name, deleted, deferred, state })
    }
}

impl Encode for TrashImageSpec {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 2, 1, |out| {
            self.source.encode(out);
            self.name.encode(out);
            self.deleted.encode(out);
            self.deferred.encode(out);
            self.state.encode(out);
        });
    }
}

/// Other end of a migration (`cls::rbd::MigrationSpec`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigrationSpec {
    /// See [`migration_header`].
    pub header_type: u8,
    /// The other end's pool.
    pub pool: i64,
    /// Its namespace.
    pub namespace: Bytes,
    /// Its name.
    pub image_name: Bytes,
    /// Its id.
    pub image: Bytes,
    /// Snapshot ids there and here.
    pub snap_seqs: BTreeMap<u64, u64>,
    /// Bytes that lie over the source.
    pub overlap: u64,
    /// True if the copy is to have no parent.
    pub flatten: bool,
    /// True if mirroring is to be switched on again.
    pub mirroring: bool,
    /// See [`migration_state`].
    pub state: u8,
    /// More about it, for people.
    pub state_description: Bytes,
    /// Kind of mirroring; not known to version 1.
    pub mirror_image_mode: u8,
    /// A source outside the cluster, as JSON; not known to version 2.
    pub source_spec: Bytes,
}

impl Decode for MigrationSpec {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("MigrationSpec", 3)?;
        let b = &mut e.body;
        let mut spec = Self {
            header_type: b.get()?,
            pool: b.get()?,
            namespace: b.get()?,
            image_name: b.get()?,
            image: b.get()?,
            snap_seqs: b.get()?,
            overlap: b.get()?,
            flatten: b.get()?,
            mirroring: b.get()?,
            state: b.get()?,
            state_description: b.get()?,
            ..Self::default()
        };
        if e.version >= 2 {
            spec.mirror_image_mode = b.get()?;
        }
        if e.version >= 3 {
            spec.source_spec = b.get()?;
        }
        Ok(spec)
    }
}

impl Encode for MigrationSpec {
    /// A source outside the cluster is not for readers that know none.
    fn encode(&self, out: &mut Vec<u8>) {
        let compat = if self.source_spec.is_empty() { 1 } else { 3 };
        envelope(out, 3, compat, |out| {
            self.header_type.encode(out);
            self.pool.encode(out);
            self.namespace.encode(out);
            self.image_name.encode(out);
            self.image.encode(out);
            self.snap_seqs.encode(out);
            self.overlap.encode(out);
            self.flatten.encode(out);
            self.mirroring.encode(out);
            self.state.encode(out);
            self.state_description.encode(out);
            self.mirror_image_mode.encode(out);
            self.source_spec.encode(out);
        });
    }
}

/// A value that may be absent: a byte that says so, and the value.
pub(super) fn optional<T: Decode>(r: &mut Reader<'_>) -> Result<Option<T>> {
    Ok(if r.get()? { Some(r.get()?) } else { None })
}

/// Writes what [`optional`] reads.
pub(super) fn put_optional<T: Encode>(value: &Option<T>, out: &mut Vec<u8>) {
    value.is_some().encode(out);
    if let Some(value) = value {
        value.encode(out);
    }
}
