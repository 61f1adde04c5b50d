//! Maps that real daemons sent to real clients: each decodes and encodes to the same bytes, and steps applied to full
//! maps give the next full map, checksum included.

mod common;

use bytes::Bytes;
use denc::{Decode, Encode, Reader};
use maps::{Incremental, MgrMap, MonMap, OsdMap};
use std::collections::{BTreeMap, BTreeSet};

const MON_MAP: u16 = 4;
const OSD_MAP: u16 = 41;
const MGR_MAP: u16 = 0x704;

fn same<T: Decode + Encode>(from: &str, bytes: &[u8]) -> T {
    let value = T::from_bytes(bytes).unwrap_or_else(|e| panic!("{from}: {e}"));
    assert!(value.to_vec() == bytes, "{from}: another encoding");
    value
}

#[test]
fn monitor_and_manager_maps() {
    let mut seen = BTreeSet::new();
    for (from, kind, front) in common::recorded_messages(&[MON_MAP, MGR_MAP]) {
        if kind == MON_MAP {
            same::<MonMap>(&from, Reader::new(&front).blob().expect("a map"));
        } else {
            same::<MgrMap>(&from, &front);
        }
        seen.insert(kind);
    }
    assert_eq!(seen.len(), 2);
}

#[test]
fn osd_maps_and_steps() {
    let (mut full, mut steps) = (BTreeMap::new(), BTreeSet::new());
    for (from, _, front) in common::recorded_messages(&[OSD_MAP]) {
        let mut r = Reader::new(&front);
        r.skip(16).expect("an fsid");
        let increments: BTreeMap<u32, Bytes> = r.get().expect("increments");
        let maps: BTreeMap<u32, Bytes> = r.get().expect("full maps");
        for bytes in maps.values() {
            let map: OsdMap = same(&from, bytes);
            full.insert((map.fsid, map.epoch), bytes.clone());
        }
        for bytes in increments.values() {
            let step: Incremental = same(&from, bytes);
            steps.insert((step.fsid, step.epoch, bytes.clone()));
        }
    }
    let mut applied = 0;
    for (fsid, epoch, bytes) in &steps {
        // Steps follow each other, so most results are known only through the step before.
        let Some(base) = full.get(&(*fsid, epoch - 1)) else { continue };
        let base = OsdMap::from_bytes(base).expect("decoded before");
        let mut step = Incremental::from_bytes(bytes).expect("decoded before");
        let next = base.apply(&step).unwrap_or_else(|e| panic!("epoch {epoch}: {e}")).to_bytes();
        let crc = u32::from_le_bytes(*next.last_chunk().expect("a checksum"));
        assert_eq!(crc, step.full_crc, "epoch {epoch}");
        let sealed = step.seal(&base).expect("applied before");
        assert!(sealed.incremental == *bytes && sealed.full == next, "epoch {epoch}");
        if let Some(known) = full.insert((*fsid, *epoch), next.clone()) {
            assert!(known == next, "epoch {epoch}: not the map that was sent");
        }
        applied += 1;
    }
    println!("{} full maps, {} steps, {applied} applied", full.len(), steps.len());
    assert!(applied >= 20, "only {applied} of {} steps had a base", steps.len());
}
