//! What a scrub found, as clients list it (`rados list-inconsistent-obj`, `list-inconsistent-snapset`): the values in a
//! [`crate::ops::ScrubPage`].
//!
//! Names of bits and structures are those of release 16.2 (`librados::inconsistent_obj_t` and relatives, and
//! `object_info_t`).

use crate::ops::Pairs;
use bytes::Bytes;
use denc::{Decode, DecodeError, Encode, Reader, Result};
use std::collections::BTreeMap;
use types::{EVersion, HObject, Locator, OsdId, ReqId, ShardId, SnapId, UTime};

/// Faults of one copy of an object (`err_t`).
pub mod shard {
    /// It is not there.
    pub const MISSING: u64 = 1 << 1;
    /// Its size and record cannot be read.
    pub const STAT_ERROR: u64 = 1 << 2;
    /// Its data, attributes or omap cannot be read.
    pub const READ_ERROR: u64 = 1 << 3;
    /// Its data are not what the selected record says.
    pub const DATA_DIGEST_MISMATCH_INFO: u64 = 1 << 9;
    /// Its omap is not what the selected record says.
    pub const OMAP_DIGEST_MISMATCH_INFO: u64 = 1 << 10;
    /// Its size is not what the selected record says.
    pub const SIZE_MISMATCH_INFO: u64 = 1 << 11;
    /// It has no record.
    pub const INFO_MISSING: u64 = 1 << 14;
    /// Its record does not decode.
    pub const INFO_CORRUPTED: u64 = 1 << 15;
    /// The same, as the copy's own record says it: Ceph's records have sizes, and it sets both.
    pub const OBJ_SIZE_INFO_MISMATCH: u64 = 1 << 18;
    /// Those that only a deep scrub can find.
    pub const DEEP: u64 = READ_ERROR | DATA_DIGEST_MISMATCH_INFO | OMAP_DIGEST_MISMATCH_INFO;
    /// All of these.
    pub const ALL: u64 =
        MISSING | STAT_ERROR | SIZE_MISMATCH_INFO | OBJ_SIZE_INFO_MISMATCH | INFO_MISSING | INFO_CORRUPTED | DEEP;
}

/// In what the copies of an object differ (`obj_err_t`).
pub mod object {
    /// In their records.
    pub const INFO_INCONSISTENCY: u64 = 1 << 1;
    /// In their data.
    pub const DATA_DIGEST_MISMATCH: u64 = 1 << 4;
    /// In their omaps.
    pub const OMAP_DIGEST_MISMATCH: u64 = 1 << 5;
    /// In their sizes.
    pub const SIZE_MISMATCH: u64 = 1 << 6;
    /// In the values of attributes.
    pub const ATTR_VALUE_MISMATCH: u64 = 1 << 7;
    /// In the names of attributes.
    pub const ATTR_NAME_MISMATCH: u64 = 1 << 8;
    /// Those that only a deep scrub can find.
    pub const DEEP: u64 = DATA_DIGEST_MISMATCH | OMAP_DIGEST_MISMATCH;
}

/// In what a head and its clones contradict each other (`inconsistent_snapset_t`).
pub mod snapset {
    /// The head names clones that are not there.
    pub const CLONE_MISSING: u64 = 1 << 2;
    /// A clone has no head.
    pub const HEADLESS: u64 = 1 << 5;
    /// A clone has another size than the head says.
    pub const SIZE_MISMATCH: u64 = 1 << 6;
    /// There are clones that the head does not name.
    pub const EXTRA_CLONES: u64 = 1 << 9;
}

/// The attribute in which [`Shard::attrs`] has an [`Info`]; names of users' attributes have a `_` in front there.
pub const INFO_ATTR: &[u8] = b"_";

/// An object as a finding names it (`object_id_t`, v1/c1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// Name.
    pub name: Bytes,
    /// Namespace.
    pub nspace: Bytes,
    /// Locator key.
    pub locator: Bytes,
    /// Snapshot.
    pub snap: SnapId,
}
denc::versioned!(Name, 1, 1 { name, nspace, locator, snap });

impl From<&HObject> for Name {
    fn from(o: &HObject) -> Self {
        Self { name: o.name.clone(), nspace: o.nspace.clone(), locator: o.key.clone(), snap: o.snap }
    }
}

/// Place where a copy is (`osd_shard_t`, v1/c1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    /// OSD.
    pub osd: OsdId,
    /// Shard; -1 for whole objects.
    pub shard: i8,
}
denc::versioned!(At, 1, 1 { osd, shard });

impl At {
    /// The copy of a whole object on this OSD.
    pub fn whole(osd: OsdId) -> Self {
        Self { osd, shard: ShardId::NONE.0 }
    }
}

/// One copy of an object (`shard_info_t`, v3/c3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shard {
    /// Bits of [`shard`].
    pub errors: u64,
    /// It is the primary's.
    pub primary: bool,
    /// Its attributes; see [`INFO_ATTR`].
    pub attrs: Pairs,
    /// Bytes.
    pub size: u64,
    /// CRC-32C of its omap, if that was read.
    pub omap_digest: Option<u32>,
    /// CRC-32C of its data, from all ones and not inverted, if they were read.
    pub data_digest: Option<u32>,
    /// Its record is the one that counts.
    pub selected: bool,
}

impl Encode for Shard {
    fn encode(&self, out: &mut Vec<u8>) {
        denc::envelope(out, 3, 3, |out| {
            self.errors.encode(out);
            self.primary.encode(out);
            if self.errors & shard::MISSING != 0 {
                return;
            }
            self.attrs.encode(out);
            self.size.encode(out);
            for digest in [self.omap_digest, self.data_digest] {
                digest.is_some().encode(out);
                digest.unwrap_or_default().encode(out);
            }
            self.selected.encode(out);
        });
    }
}

impl Decode for Shard {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("shard_info_t", 3)?;
        e.at_least("shard_info_t", 3)?;
        let b = &mut e.body;
        let mut found = Self { errors: b.get()?, primary: b.get()?, ..Self::default() };
        if found.errors & shard::MISSING != 0 {
            return Ok(found);
        }
        (found.attrs, found.size) = (b.get()?, b.get()?);
        let mut digest = || -> Result<Option<u32>> {
            let (there, digest) = (b.get::<bool>()?, b.get()?);
            Ok(there.then_some(digest))
        };
        (found.omap_digest, found.data_digest) = (digest()?, digest()?);
        found.selected = b.get()?;
        Ok(found)
    }
}

/// An object whose copies are not all right (`inconsistent_obj_t`, v2/c2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InconsistentObject {
    /// Bits of [`object`].
    pub errors: u64,
    /// The object.
    pub object: Name,
    /// Its version as clients see it.
    pub version: u64,
    /// All copies.
    pub shards: BTreeMap<At, Shard>,
    /// Bits of [`shard`]: those of all copies together.
    pub union: u64,
}
denc::versioned!(InconsistentObject, 2, 2 { errors, object, version, shards, union });

/// An object whose head and clones contradict each other (`inconsistent_snapset_t`, v2/c1). The list of snapshots
/// itself (`ss_bl`) is left empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InconsistentSnapset {
    /// Bits of [`snapset`].
    pub errors: u64,
    /// The head, or the clone that has none or another size.
    pub object: Name,
    /// Clones that the head does not name.
    pub clones: Vec<SnapId>,
    /// Clones that are not there.
    pub missing: Vec<SnapId>,
    /// Empty.
    pub list: Bytes,
}
denc::versioned!(InconsistentSnapset, 2, 1 { errors, object, clones, missing, list });

/// Bits of [`Info::flags`].
pub mod info_flag {
    /// Deleted, but kept because clones exist.
    pub const WHITEOUT: u32 = 1 << 1;
    /// Changed.
    pub const DIRTY: u32 = 1 << 2;
    /// It has an omap.
    pub const OMAP: u32 = 1 << 3;
    /// [`super::Info::data_digest`] counts.
    pub const DATA_DIGEST: u32 = 1 << 4;
    /// [`super::Info::omap_digest`] counts.
    pub const OMAP_DIGEST: u32 = 1 << 5;
}

/// An object's record as Ceph has it (`object_info_t`, v17/c8), for `rados` to show. It is written only: ours on disk
/// is another one, and watchers are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// The object.
    pub object: HObject,
    /// The group's version of its last change.
    pub version: EVersion,
    /// The version that clients see.
    pub user_version: u64,
    /// Bytes.
    pub size: u64,
    /// Time when clients say they changed it last.
    pub mtime: UTime,
    /// Number of the last ordered truncation.
    pub truncate_seq: u32,
    /// Place where that cut.
    pub truncate_size: u64,
    /// Bits of [`info_flag`].
    pub flags: u32,
    /// CRC-32C of its data.
    pub data_digest: u32,
    /// CRC-32C of its omap.
    pub omap_digest: u32,
    /// Expected object size, expected write size, flags.
    pub hint: (u64, u64, u32),
}

impl Encode for Info {
    fn encode(&self, out: &mut Vec<u8>) {
        denc::envelope(out, 17, 8, |out| {
            self.object.encode(out);
            let o = &self.object;
            Locator { pool: o.pool, key: o.key.clone(), nspace: o.nspace.clone(), hash: -1 }.encode(out);
            // A category, which nothing reads any more.
            0u32.encode(out);
            self.version.encode(out);
            // The version before, and who made this one: not known.
            EVersion::default().encode(out);
            ReqId::default().encode(out);
            self.size.encode(out);
            self.mtime.encode(out);
            // Once the holder of a lock, or a clone's snapshots.
            if o.is_head() {
                ReqId::default().encode(out)
            } else {
                0u32.encode(out)
            }
            u64::from(self.truncate_seq).encode(out);
            self.truncate_size.encode(out);
            // Lost; watchers in an older form.
            false.encode(out);
            0u32.encode(out);
            EVersion::new(0, self.user_version).encode(out);
            // An old kind of omap; watchers.
            false.encode(out);
            0u32.encode(out);
            self.flags.encode(out);
            UTime::default().encode(out);
            self.data_digest.encode(out);
            self.omap_digest.encode(out);
            self.hint.0.encode(out);
            self.hint.1.encode(out);
            self.hint.2.encode(out);
        });
    }
}

/// Refuses bits that no copy's error has.
///
/// # Errors
/// There are such bits.
pub fn check_shard_errors(errors: u64) -> Result<u64> {
    if errors & !shard::ALL == 0 { Ok(errors) } else { Err(DecodeError::Invalid("errors of a copy")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_come_back() {
        let missing = Shard { errors: shard::MISSING, ..Shard::default() };
        let there = Shard {
            errors: shard::READ_ERROR,
            primary: true,
            attrs: [(Bytes::from_static(INFO_ATTR), Bytes::from_static(b"info"))].into(),
            size: 4096,
            omap_digest: Some(u32::MAX),
            data_digest: None,
            selected: true,
        };
        let name = Name { name: "o".into(), nspace: "ns".into(), locator: Bytes::new(), snap: SnapId::HEAD };
        let found = InconsistentObject {
            errors: object::SIZE_MISMATCH,
            object: name.clone(),
            version: 7,
            shards: [(At::whole(0), there), (At::whole(1), missing)].into(),
            union: shard::MISSING | shard::READ_ERROR,
        };
        assert_eq!(InconsistentObject::from_bytes(&found.to_bytes()), Ok(found.clone()));
        let bytes = found.to_vec();
        assert!((0..bytes.len()).all(|n| InconsistentObject::from_bytes(&bytes[..n]).is_err()));
        let set = InconsistentSnapset {
            errors: snapset::CLONE_MISSING,
            object: name,
            clones: vec![],
            missing: vec![SnapId(4)],
            list: Bytes::new(),
        };
        assert_eq!(InconsistentSnapset::from_bytes(&set.to_bytes()), Ok(set));
    }

    /// `rados list-inconsistent-obj` of release 16.2.15 shows such bytes as its `selected_object_info`.
    #[test]
    fn a_record_is_as_ceph_writes_it() {
        let info = Info {
            object: HObject::head("o".into(), &Locator::pool(2)),
            version: EVersion::new(4, 5),
            user_version: 6,
            size: 7,
            mtime: UTime { sec: 8, nsec: 9 },
            truncate_seq: 10,
            truncate_size: 11,
            flags: info_flag::DIRTY | info_flag::DATA_DIGEST,
            data_digest: 12,
            omap_digest: 13,
            hint: (14, 15, 16),
        };
        let hex: String = info.to_vec().iter().map(|byte| format!("{byte:02x}")).collect();
        let golden = [
            "1108fa00000004032200000000000000010000006ffeffffffffffffff012daf730000000000020000000000000006031c00",
            "00000200000000000000ffffffff0000000000000000ffffffffffffffff0000000005000000000000000400000000000000",
            "0000000000000000020215000000000000000000000000000000000000000000000000070000000000000008000000090000",
            "000202150000000000000000000000000000000000000000000000000a000000000000000b00000000000000000000000006",
            "000000000000000000000000000000001400000000000000000000000c0000000d0000000e000000000000000f0000000000",
            "000010000000",
        ];
        assert_eq!(hex, golden.concat());
    }
}
