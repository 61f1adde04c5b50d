//! The class as clients use it, over an object in memory whose every read misses once.

use crate::testing::Bench;
use bytes::Bytes;
use denc::{Decode, Encode};
use messages::class::rbd::*;
use std::collections::{BTreeMap, BTreeSet};
use types::{Errno, UTime};

fn call<T: Decode>(bench: &mut Bench, method: &str, input: &[u8]) -> Result<T, Errno> {
    let output = bench.call("rbd", method, input)?;
    Ok(T::from_bytes(&output).unwrap_or_else(|e| panic!("{method}: {e} in {output:?}")))
}

fn done(bench: &mut Bench, method: &str, input: &[u8]) -> Result<(), Errno> {
    bench.call("rbd", method, input).map(|output| assert_eq!(output, "", "{method} says nothing"))
}

macro_rules! input {
    ($($field:expr),* $(,)?) => {{
        let mut out = Vec::new();
        $(Encode::encode(&$field, &mut out);)*
        out
    }};
}

const FEATURES: u64 = feature::LAYERING | feature::EXCLUSIVE_LOCK | feature::OBJECT_MAP | feature::FAST_DIFF;

fn image(features: u64) -> Bench {
    let mut bench = Bench { now: UTime { sec: 100, nsec: 7 }, ..Bench::default() };
    done(&mut bench, "create", &input!(1u64 << 30, 22u8, features, "rbd_data.10", -1i64)).expect("created");
    bench
}

fn name(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn snap_add(bench: &mut Bench, snap: &str, id: u64) -> Result<(), Errno> {
    done(bench, "snapshot_add", &input!(snap, id, SnapshotNamespace::User))
}

fn features_of(bench: &mut Bench) -> u64 {
    call::<(u64, u64)>(bench, "get_features", &input!(NO_SNAP, 0u8)).expect("read").0
}

#[test]
fn an_image_is_created_once_and_says_what_it_is() {
    let mut bench = image(FEATURES);
    assert_eq!(done(&mut bench, "create", &input!(1u64, 22u8, FEATURES, "p", -1i64)), Err(Errno::EEXIST));
    assert_eq!(call(&mut bench, "get_size", &input!(NO_SNAP)), Ok((22u8, 1u64 << 30)));
    assert_eq!(call(&mut bench, "get_object_prefix", b""), Ok(name("rbd_data.10")));
    assert_eq!(call(&mut bench, "get_data_pool", b""), Ok(-1i64));
    assert_eq!(call(&mut bench, "get_create_timestamp", b""), Ok(UTime { sec: 100, nsec: 7 }));
    assert_eq!(call(&mut bench, "get_features", &input!(NO_SNAP, 1u8)), Ok((FEATURES, feature::LAYERING)));
    assert_eq!(call(&mut bench, "get_features", &input!(NO_SNAP, 0u8)), Ok((FEATURES, FEATURES)));
    let mut none = Bench::default();
    let create = |features: u64, prefix: &str, pool: i64| input!(1u64, 22u8, features, prefix, pool);
    assert_eq!(done(&mut none, "create", &create(1 << 40, "p", -1)), Err(Errno::ENOSYS));
    assert_eq!(done(&mut none, "create", &create(1, "", -1)), Err(Errno::EINVAL));
    assert_eq!(done(&mut none, "create", &create(feature::DATA_POOL, "p", -1)), Err(Errno::EINVAL));
    assert_eq!(done(&mut none, "create", &create(1, "p", 3)), Err(Errno::EINVAL));
    assert_eq!(done(&mut none, "create", &create(feature::OPERATIONS, "p", -1)), Err(Errno::EINVAL));
    assert_eq!(done(&mut none, "create", &create(feature::DATA_POOL, "p", 3)), Ok(()));
    assert_eq!(call(&mut none, "get_data_pool", b""), Ok(3i64));
}

#[test]
fn only_some_features_are_switched() {
    let mut bench = image(FEATURES | feature::DEEP_FLATTEN);
    let set = |on: u64, mask: u64| input!(on, mask);
    assert_eq!(done(&mut bench, "set_features", &set(feature::JOURNALING, feature::JOURNALING)), Ok(()));
    assert_eq!(done(&mut bench, "set_features", &set(0, feature::DEEP_FLATTEN | feature::FAST_DIFF)), Ok(()));
    assert_eq!(done(&mut bench, "set_features", &set(0, feature::LAYERING)), Err(Errno::EINVAL));
    assert_eq!(done(&mut bench, "set_features", &set(feature::DEEP_FLATTEN, feature::DEEP_FLATTEN)), Err(Errno::EINVAL));
    assert_eq!(done(&mut bench, "set_features", &set(0, feature::OPERATIONS)), Err(Errno::EINVAL));
    assert_eq!(done(&mut bench, "set_features", &set(0, 1 << 50)), Ok(()));
    let all = feature::LAYERING | feature::EXCLUSIVE_LOCK | feature::OBJECT_MAP | feature::JOURNALING;
    assert_eq!(features_of(&mut bench), all);
}

#[test]
fn snapshots_have_names_ids_and_a_limit() {
    let mut bench = image(FEATURES);
    assert_eq!(call(&mut bench, "get_snapcontext", b""), Ok((0u64, Vec::<u64>::new())));
    assert_eq!(snap_add(&mut bench, "a", 4), Ok(()));
    done(&mut bench, "set_size", &input!(1u64 << 20)).expect("resized");
    assert_eq!(snap_add(&mut bench, "a", 5), Err(Errno::EEXIST));
    assert_eq!(snap_add(&mut bench, "b", 3), Err(Errno::ESTALE));
    assert_eq!(snap_add(&mut bench, "b", 20), Ok(()));
    assert_eq!(call(&mut bench, "get_snapcontext", b""), Ok((20u64, vec![20u64, 4])));
    assert_eq!(call(&mut bench, "get_size", &input!(4u64)), Ok((22u8, 1u64 << 30)));
    assert_eq!(call(&mut bench, "get_size", &input!(20u64)), Ok((22u8, 1u64 << 20)));
    let info: SnapshotInfo = call(&mut bench, "snapshot_get", &input!(20u64)).expect("read");
    assert_eq!((info.name, info.image_size, info.timestamp.sec), (name("b"), 1 << 20, 100));
    assert_eq!(done(&mut bench, "snapshot_rename", &input!(20u64, "a")), Err(Errno::EEXIST));
    assert_eq!(done(&mut bench, "snapshot_rename", &input!(20u64, "c")), Ok(()));
    assert_eq!(call(&mut bench, "get_snapshot_name", &input!(20u64)), Ok(name("c")));
    assert_eq!(done(&mut bench, "snapshot_set_limit", &input!(1u64)), Err(Errno::ERANGE));
    assert_eq!(done(&mut bench, "snapshot_set_limit", &input!(2u64)), Ok(()));
    assert_eq!(snap_add(&mut bench, "d", 21), Err(Errno::EDQUOT));
    assert_eq!(done(&mut bench, "snapshot_set_limit", &input!(u64::MAX)), Ok(()));
    assert_eq!(snap_add(&mut bench, "d", 21), Ok(()));
    assert_eq!(done(&mut bench, "set_protection_status", &input!(21u64, 2u8)), Ok(()));
    assert_eq!(call(&mut bench, "get_protection_status", &input!(21u64)), Ok(2u8));
    assert_eq!(done(&mut bench, "snapshot_remove", &input!(21u64)), Err(Errno::EBUSY));
    assert_eq!(done(&mut bench, "set_protection_status", &input!(21u64, 0u8)), Ok(()));
    assert_eq!(done(&mut bench, "snapshot_remove", &input!(21u64)), Ok(()));
    assert_eq!(done(&mut bench, "snapshot_remove", &input!(21u64)), Err(Errno::ENOENT));
}

#[test]
fn more_snapshots_than_fit_a_page_are_all_seen() {
    let mut bench = image(FEATURES);
    for id in 1..=600 {
        snap_add(&mut bench, &format!("s{id}"), id).expect("added");
    }
    let (seq, ids): (u64, Vec<u64>) = call(&mut bench, "get_snapcontext", b"").expect("read");
    assert_eq!((seq, ids.len(), ids.first(), ids.last()), (600, 600, Some(&600), Some(&1)));
}

fn parent(overlap: u64) -> Vec<u8> {
    let spec = ParentImageSpec { pool: 2, namespace: name("ns"), image: name("parent"), snap: 9 };
    input!(spec, overlap, 0u8)
}

fn overlap(bench: &mut Bench, snap: u64) -> Option<u64> {
    let output = bench.call("rbd", "parent_overlap_get", &input!(snap)).expect("read");
    output.split_first().filter(|(has, _)| **has == 1).map(|(_, rest)| u64::from_bytes(rest).expect("a number"))
}

#[test]
fn a_clone_keeps_its_parent_until_it_and_its_snapshots_are_flattened() {
    let mut bench = image(FEATURES);
    assert_eq!(done(&mut bench, "parent_attach", &parent(0)), Err(Errno::EINVAL));
    assert_eq!(done(&mut bench, "parent_attach", &parent(1 << 40)), Ok(()));
    assert_eq!(done(&mut bench, "parent_attach", &parent(1 << 40)), Err(Errno::EEXIST));
    assert_eq!(overlap(&mut bench, NO_SNAP), Some(1 << 30), "no more than the image is long");
    snap_add(&mut bench, "s", 4).expect("added");
    done(&mut bench, "set_size", &input!(4096u64)).expect("resized");
    assert_eq!((overlap(&mut bench, NO_SNAP), overlap(&mut bench, 4)), (Some(4096), Some(1 << 30)));
    assert_eq!(bench.call("rbd", "get_parent", &input!(NO_SNAP)), Err(Errno::EXDEV), "its clients know no namespaces");
    assert_eq!(done(&mut bench, "op_features_set", &input!(op_feature::CLONE_CHILD, op_feature::CLONE_CHILD)), Ok(()));
    assert_eq!(done(&mut bench, "parent_detach", b""), Ok(()));
    assert_eq!((overlap(&mut bench, NO_SNAP), overlap(&mut bench, 4)), (None, Some(1 << 30)));
    let spec: ParentImageSpec = call(&mut bench, "parent_get", b"").expect("read");
    assert_eq!((spec.pool, spec.image, spec.snap), (2, name("parent"), 9));
    assert_ne!(features_of(&mut bench) & feature::OPERATIONS, 0);
    assert_eq!(done(&mut bench, "snapshot_remove", &input!(4u64)), Ok(()));
    assert_eq!(call(&mut bench, "parent_get", b""), Ok(ParentImageSpec::default()));
    assert_eq!(features_of(&mut bench) & feature::OPERATIONS, 0);

    let mut deep = image(FEATURES | feature::DEEP_FLATTEN);
    done(&mut deep, "parent_attach", &parent(4096)).expect("attached");
    snap_add(&mut deep, "s", 4).expect("added");
    done(&mut deep, "parent_detach", b"").expect("detached");
    assert_eq!(overlap(&mut deep, 4), None);
    assert_eq!(call(&mut deep, "parent_get", b""), Ok(ParentImageSpec::default()));
    assert_eq!(done(&mut image(feature::EXCLUSIVE_LOCK), "parent_attach", &parent(1)), Err(Errno::ENOEXEC));
}

#[test]
fn a_snapshot_counts_its_clones() {
    let mut bench = image(FEATURES);
    snap_add(&mut bench, "s", 4).expect("added");
    let child = |id: &str| ChildImageSpec { pool: 1, namespace: name(""), image: name(id) };
    assert_eq!(done(&mut bench, "child_attach", &input!(5u64, child("a"))), Err(Errno::ENOENT));
    assert_eq!(done(&mut bench, "child_attach", &input!(4u64, child("a"))), Ok(()));
    assert_eq!(done(&mut bench, "child_attach", &input!(4u64, child("a"))), Err(Errno::EEXIST));
    assert_eq!(done(&mut bench, "child_attach", &input!(4u64, child("b"))), Ok(()));
    assert_eq!(call(&mut bench, "op_features_get", b""), Ok(op_feature::CLONE_PARENT));
    let children: BTreeSet<ChildImageSpec> = call(&mut bench, "children_list", &input!(4u64)).expect("read");
    assert_eq!(children, [child("a"), child("b")].into());
    assert_eq!(done(&mut bench, "snapshot_remove", &input!(4u64)), Err(Errno::EBUSY));
    assert_eq!(done(&mut bench, "snapshot_trash_add", &input!(4u64)), Ok(()));
    assert_eq!(done(&mut bench, "snapshot_trash_add", &input!(4u64)), Err(Errno::EEXIST));
    assert_eq!(done(&mut bench, "child_attach", &input!(4u64, child("c"))), Err(Errno::ENOENT));
    let info: SnapshotInfo = call(&mut bench, "snapshot_get", &input!(4u64)).expect("read");
    assert_eq!(info.namespace, SnapshotNamespace::Trash { name: name("s"), original: 0 });
    assert_eq!((info.name.len(), info.child_count), (36, 2));
    for id in ["a", "b"] {
        assert_eq!(done(&mut bench, "child_detach", &input!(4u64, child(id))), Ok(()));
    }
    assert_eq!(done(&mut bench, "child_detach", &input!(4u64, child("a"))), Err(Errno::ENOENT));
    assert_eq!(call(&mut bench, "op_features_get", b""), Ok(op_feature::SNAP_TRASH));
    assert_eq!(done(&mut bench, "snapshot_remove", &input!(4u64)), Ok(()));
    assert_eq!(call(&mut bench, "op_features_get", b""), Ok(0u64));
    assert_eq!(features_of(&mut bench), FEATURES);
}

#[test]
fn a_directory_leads_both_ways() {
    let mut bench = Bench::default();
    assert_eq!(done(&mut bench, "dir_add_image", &input!("one", "1a")), Ok(()));
    assert_eq!(done(&mut bench, "dir_add_image", &input!("one", "2b")), Err(Errno::EEXIST));
    assert_eq!(done(&mut bench, "dir_add_image", &input!("two", "1a")), Err(Errno::EBADF));
    assert_eq!(done(&mut bench, "dir_add_image", &input!("two", "not an id")), Err(Errno::EINVAL));
    assert_eq!(done(&mut bench, "dir_add_image", &input!("two", "2b")), Ok(()));
    assert_eq!(call(&mut bench, "dir_get_id", &input!("two")), Ok(name("2b")));
    assert_eq!(call(&mut bench, "dir_get_name", &input!("1a")), Ok(name("one")));
    assert_eq!(done(&mut bench, "dir_rename_image", &input!("one", "two", "1a")), Err(Errno::EEXIST));
    assert_eq!(done(&mut bench, "dir_rename_image", &input!("one", "six", "2b")), Err(Errno::ESTALE));
    assert_eq!(done(&mut bench, "dir_rename_image", &input!("one", "six", "1a")), Ok(()));
    let all: BTreeMap<Bytes, Bytes> = call(&mut bench, "dir_list", &input!("", 10u64)).expect("read");
    assert_eq!(all, [(name("six"), name("1a")), (name("two"), name("2b"))].into());
    let rest: BTreeMap<Bytes, Bytes> = call(&mut bench, "dir_list", &input!("six", 10u64)).expect("read");
    assert_eq!(rest, [(name("two"), name("2b"))].into());
    assert_eq!(done(&mut bench, "dir_state_set", &input!(1u8)), Err(Errno::EBUSY));
    assert_eq!(done(&mut bench, "dir_remove_image", &input!("six", "2b")), Err(Errno::ESTALE));
    assert_eq!(done(&mut bench, "dir_remove_image", &input!("six", "1a")), Ok(()));
    assert_eq!(done(&mut bench, "dir_remove_image", &input!("two", "2b")), Ok(()));
    assert_eq!(done(&mut bench, "dir_state_set", &input!(1u8)), Ok(()));
    assert_eq!(done(&mut bench, "dir_state_assert", &input!(0u8)), Err(Errno::ENOENT));
    assert_eq!(done(&mut bench, "dir_state_assert", &input!(1u8)), Ok(()));
}

/// Returns what `object_map_load` says: number of objects and their states.
fn states(bench: &mut Bench) -> Vec<u8> {
    let output = bench.call("rbd", "object_map_load", b"").expect("read");
    let count = u64::from_bytes(&output[10..18]).expect("a number");
    let bits = &output[18..output.len() - 4];
    (0..count as usize).map(|i| bits[i / 4] >> ((3 - i % 4) * 2) & 3).collect()
}

#[test]
fn an_object_map_follows_its_objects() {
    let mut bench = Bench::default();
    assert_eq!(bench.call("rbd", "object_map_load", b""), Err(Errno::ENOENT));
    assert_eq!(done(&mut bench, "object_map_resize", &input!(10u64, 0u8)), Ok(()));
    assert_eq!(states(&mut bench), [0; 10]);
    let update = |from: u64, to: u64, new: u8, current: &[u8]| [input!(from, to, new), current.to_vec()].concat();
    assert_eq!(done(&mut bench, "object_map_update", &update(2, 5, 1, &[0])), Ok(()));
    assert_eq!(states(&mut bench), [0, 0, 1, 1, 1, 0, 0, 0, 0, 0]);
    assert_eq!(done(&mut bench, "object_map_update", &update(0, 10, 2, &[1, 1])), Ok(()));
    assert_eq!(states(&mut bench), [0, 0, 2, 2, 2, 0, 0, 0, 0, 0]);
    assert_eq!(done(&mut bench, "object_map_update", &update(0, 11, 2, &[0])), Err(Errno::ERANGE));
    assert_eq!(done(&mut bench, "object_map_update", &update(0, 4, 1, &[0])), Ok(()));
    assert_eq!(done(&mut bench, "object_map_snap_add", b""), Ok(()));
    assert_eq!(states(&mut bench), [3, 3, 3, 3, 2, 0, 0, 0, 0, 0]);
    assert_eq!(done(&mut bench, "object_map_resize", &input!(3u64, 0u8)), Err(Errno::ESTALE));
    assert_eq!(done(&mut bench, "object_map_resize", &input!(5u64, 0u8)), Ok(()));
    assert_eq!(done(&mut bench, "object_map_resize", &input!(9u64, 1u8)), Ok(()));
    assert_eq!(states(&mut bench), [3, 3, 3, 3, 2, 1, 1, 1, 1]);
    let saved = bench.call("rbd", "object_map_load", b"").expect("read");
    let mut snapshot = Bench::default();
    assert_eq!(done(&mut snapshot, "object_map_save", &saved), Ok(()));
    assert_eq!(states(&mut snapshot), states(&mut bench));
    let two = |first: u8| [&input!(14u32, 1u8, 1u8, 8u32, 2u64)[..], &[first], &[0; 4]].concat();
    assert_eq!(done(&mut bench, "object_map_snap_remove", &two(0b0100_0000)), Ok(()));
    assert_eq!(states(&mut bench), [1, 3, 1, 1, 2, 1, 1, 1, 1], "what the snapshot knew, and what it did not have");
}

#[test]
fn large_object_maps_are_updated_by_blocks() {
    let mut bench = Bench::default();
    let count = 3 * 4096 * 4 + 5;
    done(&mut bench, "object_map_resize", &input!(count, 0u8)).expect("resized");
    let last = |len: u64| input!(count - len, count, 1u8, 0u8);
    done(&mut bench, "object_map_update", &last(7)).expect("updated");
    done(&mut bench, "object_map_update", &input!(16_000u64, 17_000u64, 3u8, 0u8)).expect("updated");
    let states = states(&mut bench);
    assert!(states.iter().enumerate().all(|(i, s)| match i as u64 {
        16_000..17_000 => *s == 3,
        i if i >= count - 7 => *s == 1,
        _ => *s == 0,
    }));
}

#[test]
fn damaged_object_maps_are_refused() {
    let mut bench = Bench::default();
    done(&mut bench, "object_map_resize", &input!(40u64, 1u8)).expect("resized");
    bench.write_raw(20, &[0xff]);
    assert_eq!(bench.call("rbd", "object_map_load", b""), Err(Errno::EINVAL));
    assert_eq!(done(&mut bench, "object_map_update", &input!(0u64, 4u64, 1u8, 0u8)), Err(Errno::EINVAL));
    assert_eq!(done(&mut bench, "object_map_resize", &input!(u64::MAX, 1u8)), Err(Errno::EINVAL));
}
