//! Encoded samples that Ceph itself publishes: each decodes to its last byte and encodes to the same bytes.

mod common;

use denc::{Decode, Encode};
use maps::{HitSetParams, Incremental, MgrMap, ModuleInfo, ModuleOption, MonMap, OsdMap, StandbyInfo};

fn samples_of(kind: &str) -> Vec<(String, Vec<u8>)> {
    let mut samples = common::samples().remove(kind).unwrap_or_else(|| panic!("no samples of {kind}"));
    for (hash, bytes) in &mut samples {
        // This one was saved with stray bytes behind its end.
        if hash == "f97d85482139c3de61f9ec00522b6bd6" {
            bytes.truncate(94);
        }
    }
    samples
}

fn check<T: Decode + Encode>(kind: &str) {
    for (hash, bytes) in samples_of(kind) {
        let again = T::from_bytes(&bytes).unwrap_or_else(|e| panic!("{kind} {hash}: {e}")).to_vec();
        let differs = again.iter().zip(&bytes).position(|(a, b)| a != b);
        assert!(again == bytes, "{kind} {hash}: {} bytes became {}, first difference {differs:?}", bytes.len(), again.len());
    }
}

#[test]
fn osd_maps() {
    check::<OsdMap>("OSDMap");
}

#[test]
fn increments() {
    check::<Incremental>("OSDMap::Incremental");
}

#[test]
fn placement_maps() {
    check::<crush::Map>("CrushWrapper");
}

#[test]
fn monitor_maps() {
    check::<MonMap>("MonMap");
}

#[test]
fn manager_maps_and_their_parts() {
    // These are of 16.2.0, which wrote version 11: the clients' names are missing at the end.
    for (hash, bytes) in samples_of("MgrMap") {
        let map = MgrMap::from_bytes(&bytes).unwrap_or_else(|e| panic!("MgrMap {hash}: {e}"));
        let again = map.to_vec();
        assert_eq!(bytes[0], 11);
        assert!(again[6..again.len() - 4] == bytes[6..], "MgrMap {hash}");
    }
    check::<ModuleInfo>("MgrMap::ModuleInfo");
    check::<ModuleOption>("MgrMap::ModuleOption");
    check::<StandbyInfo>("MgrMap::StandbyInfo");
}

#[test]
fn hit_set_settings() {
    check::<HitSetParams>("HitSet::Params");
}

/// `ceph osd getmap` of 16.2.15 after `ceph osd blocklist range add 192.168.0.1:0/24`.
#[test]
fn a_map_with_a_range_on_the_blocklist() {
    let bytes = include_bytes!("../testdata/range-blocklist.osdmap");
    let map = OsdMap::from_bytes(bytes).expect("a map");
    assert!(map.to_vec() == bytes);
    let client = |addr: &str| types::EntityAddr::msgr2(addr.parse().expect("an address"), 7);
    assert!(map.is_blocklisted(&client("192.168.0.77:5000")) && !map.is_blocklisted(&client("192.168.1.77:5000")));
    assert!(!map.is_blocklisted(&client("[fd00::1]:5000")));

    let range = *map.range_blocklist.keys().next().expect("a range");
    let mut step = Incremental::new(map.epoch + 1, map.fsid, map.modified);
    step.old_range_blocklist.push(range);
    let step = Incremental::from_bytes(&step.to_vec()).expect("a step");
    let next = map.apply(&step).expect("it applies");
    assert!(next.range_blocklist.is_empty() && !next.is_blocklisted(&client("192.168.0.77:5000")));
    let mut step = Incremental::new(next.epoch + 1, next.fsid, next.modified);
    step.new_range_blocklist.insert(range, map.range_blocklist[&range]);
    let again = next.apply(&Incremental::from_bytes(&step.to_vec()).expect("a step")).expect("it applies");
    assert_eq!(again.range_blocklist, map.range_blocklist);
}
