//! What holds for all methods: which there are, and that no payload harms them.

use crate::testing::Bench;
use crate::{Method, all};
use denc::Encode;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Names and flags of all methods of these classes, as Ceph 16.2.15 registers them.
const REGISTERED: &str = include_str!("methods.txt");

#[test]
fn the_tables_are_those_of_ceph() {
    let ours: BTreeSet<String> = all().map(|(class, m)| format!("{} {} {}", class.name, m.name, m.flags)).collect();
    let theirs: BTreeSet<String> = REGISTERED.lines().map(str::to_owned).collect();
    let differ: Vec<_> = ours.symmetric_difference(&theirs).collect();
    assert!(differ.is_empty(), "{differ:?}");
}

/// Values under the keys that methods look for.
fn garbled(value: &[u8]) -> Bench {
    let mut bench = Bench::default();
    bench.write_raw(0, value);
    let keys = [
        "size",
        "order",
        "features",
        "op_features",
        "object_prefix",
        "snap_seq",
        "flags",
        "parent",
        "snap_limit",
        "state",
        "migration",
        "mirror_mode",
        "mirror_uuid",
        "rbd_group_ref",
        "snapshot_0000000000000004",
        "snapshot_x",
        "snap_children_0000000000000004",
        "name_a",
        "id_a",
        "image_a",
        "image_0000000000000001_a",
        "global_a",
        "status_global_a",
        "remote_status_global_a_b",
        "image_map_a",
        "mirror_peer_a",
        "instance_a",
        "metadata_a",
        "stripe_unit",
        "splay_width",
        "active_set",
        "minimum_set",
        "next_tag_tid",
        "next_tag_class",
        "client_a",
        "tag_0000000000000004",
        "1_0000000001.000000_a",
        "0_a",
        "1_00000000000.000000000",
        "00000000004_a_",
        "header",
        "otp/a",
        ":a",
        "a",
    ];
    for key in keys {
        bench.set_omap(key, value);
    }
    for name in ["lock.a", "refcount", "user.rados.version", "cls.version", "cls_queue_urgent_data"] {
        bench.set_xattr(name, value);
    }
    bench.set_header(value);
    bench
}

/// Payloads that are nearly right: numbers, short names and envelopes one after the other.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        any::<u8>().prop_map(|n| n.to_vec()),
        any::<u64>().prop_map(|n| n.to_vec()),
        Just(4u64.to_vec()),
        Just("a".to_vec()),
        any::<String>().prop_map(|s| s.to_vec()),
        (0u8..10, 0u8..10, any::<u8>()).prop_map(|(v, c, n)| vec![v, c, n, 0, 0, 0]),
        prop::collection::vec(any::<u8>(), 0..20),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn methods() -> impl Strategy<Value = (&'static str, &'static Method)> {
    let methods: Vec<_> = all().map(|(class, method)| (class.name, method)).collect();
    (0..methods.len()).prop_map(move |i| methods[i])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    /// Whatever the payload and the object: an answer, and changes only from methods that announce them.
    #[test]
    fn any_payload_is_answered((class, method) in methods(), input in payload(), stored in payload(), there in any::<bool>()) {
        let mut bench = if there { garbled(&stored) } else { Bench::default() };
        let _ = bench.call(class, method.name, &input);
    }
}

/// Too little to be anything: refused, except by methods that need no input.
#[test]
fn a_cut_payload_is_refused_before_anything_changes() {
    for (class, method) in all().filter(|(_, m)| m.writes()) {
        let mut bench = garbled(&[]);
        let before = bench.clone();
        if bench.call(class.name, method.name, &[1, 1, 200]).is_err() {
            assert_eq!(bench, before, "{}.{}", class.name, method.name);
        }
    }
}
