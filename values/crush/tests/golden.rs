//! Mappings that `crushtool` computed once, kept in `tests/data/mappings.bin`, so that placement is checked where
//! Ceph's tools are not installed. `NACRE_CRUSH_RECORD=1` records them anew.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests keep files and run the stock tools")]

mod common;

use bytes::Bytes;
use common::{Dice, crushtool_mappings, random_map, random_reweights};
use crush::Map;
use denc::{Decode, Encode};
use std::path::PathBuf;

const MAPS: u64 = 16;
const INPUTS: u32 = 24;
/// Seeds that other tests do not start from.
const FIRST_SEED: u64 = 7_000_000;

struct Golden {
    map: Bytes,
    rule: u32,
    numrep: u32,
    weights: Vec<u32>,
    mappings: Vec<Vec<i32>>,
}
denc::plain!(Golden { map, rule, numrep, weights, mappings });

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/mappings.bin")
}

fn record() -> Vec<Golden> {
    let mut all = Vec::new();
    for seed in FIRST_SEED..FIRST_SEED + MAPS {
        let mut dice = Dice::new(seed);
        let map = random_map(&mut dice);
        for rule in 0..4 {
            let weights = random_reweights(&mut dice, &map);
            let numrep = dice.range(1, 8) as u32;
            if weights.iter().any(|w| *w != 0) {
                let mappings = crushtool_mappings(&map, rule, numrep as usize, INPUTS, &weights);
                // The map is kept once, with its first rule.
                let bytes = if rule == 0 { map.to_bytes() } else { Bytes::new() };
                all.push(Golden { map: bytes, rule, numrep, weights, mappings });
            }
        }
    }
    all
}

#[test]
fn recorded_mappings_come_out_again() {
    if std::env::var_os("NACRE_CRUSH_RECORD").is_some() {
        std::fs::write(path(), record().to_vec()).expect("the file");
    }
    let all = Vec::<Golden>::from_bytes(&std::fs::read(path()).expect("the file")).expect("mappings");
    let (mut map, mut checked) = (Map::new(), 0);
    for golden in &all {
        if !golden.map.is_empty() {
            map = Map::from_bytes(&golden.map).expect("a map");
            assert!(map.to_vec() == golden.map);
        }
        for (x, theirs) in golden.mappings.iter().enumerate() {
            let ours = map.place(golden.rule, x as u32, golden.numrep as usize, &golden.weights, Some(0));
            assert_eq!(ours, *theirs, "rule {} of a map, x {x}", golden.rule);
            checked += 1;
        }
    }
    assert!(checked > 1000, "only {checked} mappings");
}
