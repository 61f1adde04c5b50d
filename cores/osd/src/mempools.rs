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

/// Gives the figures: things and bytes of each pool, and of all together. `store` is what the store tells of its
/// memory.
pub(crate) fn describe(osd: &Osd, store: &Value) -> Value {
    let log = osd.groups.log_size();
    let (epochs, map_bytes) = osd.maps.held();
    let bytes = |name: &str| store[name].as_u64().unwrap_or(0);
    let held = [
        ("bluestore_alloc", 1, bytes("maps")),
        ("bluestore_cache_data", bytes("blocks") / 4096, bytes("blocks")),
        ("bluestore_cache_onode", bytes("onodes"), 0),
        ("bluestore_cache_meta", bytes("pages") / 4096, bytes("pages")),
        ("bluestore_cache_other", bytes("ranges"), bytes("delta")),
        ("bluestore_writing_deferred", 0, bytes("records")),
        ("buffer_anon", 0, bytes("buffers")),
        ("osd", osd.groups.len() as u64, 0),
        ("osd_pglog", (log.entries + log.dups) as u64, log.bytes as u64),
        ("osdmap", epochs as u64, map_bytes as u64),
    ];
    lay_out(&held)
}

fn lay_out(held: &[(&str, u64, u64)]) -> Value {
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
