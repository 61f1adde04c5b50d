//! What an OSD holds in memory, in the form of Ceph's `dump_mempools`.
//!
//! Ceph names its pools of memory by what they are for, and tools read some of these names. So those names are used
//! for the nearest that this OSD holds, and all other pools are empty. `perf dump store_memory` has our own names.

use crate::Osd;
use serde_json::{Map, Value, json};

/// Ceph's pools, in the order in which it lists them.
const POOLS: [&str; 29] = [
    "bloom_filter",
    "bluestore_alloc",
    "bluestore_cache_data",
    "bluestore_cache_onode",
    "bluestore_cache_meta",
    "bluestore_cache_other",
    "bluestore_Buffer",
    "bluestore_Extent",
    "bluestore_Blob",
    "bluestore_SharedBlob",
    "bluestore_inline_bl",
    "bluestore_fsck",
    "bluestore_txc",
    "bluestore_writing_deferred",
    "bluestore_writing",
    "bluefs",
    "bluefs_file_reader",
    "bluefs_file_writer",
    "buffer_anon",
    "buffer_meta",
    "osd",
    "osd_mapbl",
    "osd_pglog",
    "osdmap",
    "osdmap_mapping",
    "pgmap",
    "mds_co",
    "unittest_1",
    "unittest_2",
];

/// Gives the figures: things and bytes of each pool, and of all together.
pub(crate) fn describe(osd: &Osd) -> Value {
    let counted = osd.store.counted();
    // Buffers are the thread's; without a disk under it, there are none.
    let buffers = if counted.is_some() { node::buffers_kept() } else { 0 };
    let store = counted.unwrap_or_default().memory;
    let log = osd.groups.log_size();
    let (epochs, map_bytes) = osd.maps.held();
    let held = [
        ("bluestore_alloc", 1, store.maps),
        ("bluestore_cache_data", store.blocks / 4096, store.blocks),
        ("bluestore_cache_onode", store.onodes, 0),
        ("bluestore_cache_meta", store.pages / 4096, store.pages),
        ("bluestore_cache_other", store.ranges, store.delta),
        ("bluestore_writing_deferred", 0, store.records),
        ("buffer_anon", 0, buffers),
        ("osd", osd.groups.len(), 0),
        ("osd_pglog", log.entries + log.dups, log.bytes),
        ("osdmap", epochs, map_bytes),
    ];
    lay_out(&held)
}

fn lay_out(held: &[(&str, usize, usize)]) -> Value {
    let one = |name: &str| {
        let (items, bytes) = held.iter().find(|(pool, ..)| *pool == name).map_or((0, 0), |(_, items, bytes)| (*items, *bytes));
        json!({ "items": items, "bytes": bytes })
    };
    let by_pool: Map<String, Value> = POOLS.iter().map(|name| ((*name).to_owned(), one(name))).collect();
    let total = held.iter().fold((0, 0), |sum, (_, items, bytes)| (sum.0 + items, sum.1 + bytes));
    json!({ "mempool": { "by_pool": by_pool, "total": { "items": total.0, "bytes": total.1 } } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_have_ceph_s_names_and_the_total_is_their_sum() {
        let told = lay_out(&[("osdmap", 3, 100), ("osd_pglog", 2, 50)]);
        let pools = told["mempool"]["by_pool"].as_object().unwrap();
        assert_eq!((pools.len(), &pools["osdmap"]), (29, &json!({ "items": 3, "bytes": 100 })));
        assert_eq!(pools["bluefs"], json!({ "items": 0, "bytes": 0 }));
        assert_eq!(told["mempool"]["total"], json!({ "items": 5, "bytes": 150 }));
    }
}
