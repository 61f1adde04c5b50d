//! Usage figures of objects, groups and pools, in Ceph's layouts.

use denc::{Decode, DecodeError, Encode, Reader, Result};
use std::ops::{AddAssign, SubAssign};

/// Declares the counters of [`ObjectStatSum`] in their order on the wire.
macro_rules! sums {
    ($($(#[$doc:meta])* $field:ident: $t:ty,)*) => {
        /// Counters over a set of objects (`object_stat_sum_t`, v20/c14). All are differences as well as totals, so
        /// they are signed; a total below 0 is a bug of whoever summed.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct ObjectStatSum {
            $($(#[$doc])* pub $field: $t,)*
        }
        denc::versioned!(ObjectStatSum, 20, 14 { $($field),* });

        impl AddAssign<&ObjectStatSum> for ObjectStatSum {
            /// Adds counter by counter; wraps instead of panicking on figures that no real cluster reaches.
            fn add_assign(&mut self, other: &ObjectStatSum) {
                $(self.$field = self.$field.wrapping_add(other.$field);)*
            }
        }

        impl SubAssign<&ObjectStatSum> for ObjectStatSum {
            /// Subtracts counter by counter.
            fn sub_assign(&mut self, other: &ObjectStatSum) {
                $(self.$field = self.$field.wrapping_sub(other.$field);)*
            }
        }
    };
}

sums! {
    /// Bytes of data, clones included.
    num_bytes: i64,
    /// Objects, clones included.
    num_objects: i64,
    /// Clones.
    num_object_clones: i64,
    /// Objects times copies.
    num_object_copies: i64,
    /// Missing on the primary.
    num_objects_missing_on_primary: i64,
    /// Copies missing.
    num_objects_degraded: i64,
    /// Not found anywhere.
    num_objects_unfound: i64,
    /// Read operations.
    num_rd: i64,
    /// Read, KiB.
    num_rd_kb: i64,
    /// Write operations.
    num_wr: i64,
    /// Written, KiB.
    num_wr_kb: i64,
    /// Errors found by scrub.
    num_scrub_errors: i64,
    /// Objects recovered.
    num_objects_recovered: i64,
    /// Bytes recovered.
    num_bytes_recovered: i64,
    /// Omap keys recovered.
    num_keys_recovered: i64,
    /// Errors in metadata.
    num_shallow_scrub_errors: i64,
    /// Errors in data.
    num_deep_scrub_errors: i64,
    /// Dirty objects (cache tiering; every object elsewhere).
    num_objects_dirty: i64,
    /// Whiteouts (cache tiering).
    num_whiteouts: i64,
    /// Objects with omap.
    num_objects_omap: i64,
    /// Hit set objects.
    num_objects_hit_set_archive: i64,
    /// Copies at the wrong place.
    num_objects_misplaced: i64,
    /// Bytes of hit sets.
    num_bytes_hit_set_archive: i64,
    /// Cache tiering.
    num_flush: i64,
    /// Cache tiering.
    num_flush_kb: i64,
    /// Cache tiering.
    num_evict: i64,
    /// Cache tiering.
    num_evict_kb: i64,
    /// Cache tiering.
    num_promote: i64,
    /// Cache tiering.
    num_flush_mode_high: i32,
    /// Cache tiering.
    num_flush_mode_low: i32,
    /// Cache tiering.
    num_evict_mode_some: i32,
    /// Cache tiering.
    num_evict_mode_full: i32,
    /// Cache tiering.
    num_objects_pinned: i64,
    /// Missing on replicas.
    num_objects_missing: i64,
    /// Snapshot sets of an old layout.
    num_legacy_snapsets: i64,
    /// Objects with very many omap keys.
    num_large_omap_objects: i64,
    /// Tiering.
    num_objects_manifest: i64,
    /// Bytes of omap.
    num_omap_bytes: i64,
    /// Keys of omap.
    num_omap_keys: i64,
    /// Objects repaired.
    num_objects_repaired: i64,
}

/// A sum, with room for categories that were never used (`object_stat_collection_t`, v2/c2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectStats {
    /// The sum over all categories.
    pub sum: ObjectStatSum,
}

impl Encode for ObjectStats {
    fn encode(&self, out: &mut Vec<u8>) {
        denc::envelope(out, 2, 2, |out| {
            self.sum.encode(out);
            denc::put_count(out, 0);
        });
    }
}

impl Decode for ObjectStats {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("object_stat_collection_t", 2)?;
        e.at_least("object_stat_collection_t", 2)?;
        let sum = e.body.get()?;
        if e.body.u32()? != 0 {
            return Err(DecodeError::Invalid("statistics by category"));
        }
        Ok(Self { sum })
    }
}

/// Space of a store (`store_statfs_t`, v1/c1). Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStatfs {
    /// Size.
    pub total: u64,
    /// Free.
    pub available: u64,
    /// Kept back by the store.
    pub internally_reserved: u64,
    /// Taken by data.
    pub allocated: i64,
    /// Data as users wrote it.
    pub data_stored: i64,
    /// Compressed data.
    pub data_compressed: i64,
    /// Taken by compressed data.
    pub data_compressed_allocated: i64,
    /// Bytes that the compressed data had before.
    pub data_compressed_original: i64,
    /// Taken by omap.
    pub omap_allocated: i64,
    /// Taken by the store's own metadata.
    pub internal_metadata: i64,
}
denc::versioned!(StoreStatfs, 1, 1 {
    total,
    available,
    internally_reserved,
    allocated,
    data_stored,
    data_compressed,
    data_compressed_allocated,
    data_compressed_original,
    omap_allocated,
    internal_metadata,
});

/// Statistics of a pool (`pool_stat_t`, v7/c5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStat {
    /// Objects.
    pub stats: ObjectStats,
    /// Entries in the groups' logs.
    pub log_size: i64,
    /// The same on disk.
    pub ondisk_log_size: i64,
    /// Copies on OSDs that are up, over all groups.
    pub up: i32,
    /// Copies on acting OSDs, over all groups.
    pub acting: i32,
    /// Space on all stores.
    pub store: StoreStatfs,
    /// Number of stores reported.
    pub num_store_stats: u32,
}
denc::versioned!(PoolStat, 7, 5 { stats, log_size, ondisk_log_size, up, acting, store, num_store_stats });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_undo_sums() {
        let a = ObjectStatSum { num_bytes: 4096, num_objects: 1, num_evict_mode_full: 1, ..Default::default() };
        let mut b = ObjectStatSum { num_bytes: -96, num_objects_repaired: 7, ..Default::default() };
        let before = b;
        b += &a;
        assert_eq!((b.num_bytes, b.num_objects, b.num_evict_mode_full, b.num_objects_repaired), (4000, 1, 1, 7));
        b -= &a;
        assert_eq!(b, before);
    }
}
