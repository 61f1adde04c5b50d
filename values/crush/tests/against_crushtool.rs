//! Random maps placed by us and by Ceph's `crushtool`: every mapping must be the same.
//!
//! `NACRE_CRUSH_MAPPINGS=N` sets how many mappings are compared, `NACRE_CRUSH_SEED=N` with which maps it starts.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests keep files and run the stock tools")]

mod common;

use common::{Dice, crushtool_mappings, has_crushtool, random_map, random_reweights};
use denc::{Decode, Encode};

const MAPPINGS: u64 = 50_000;
/// Inputs of each rule and map.
const INPUTS: u32 = 500;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |v| v.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

#[test]
fn random_maps_place_alike() {
    let (wanted, mut seed) = (setting("NACRE_CRUSH_MAPPINGS", MAPPINGS), setting("NACRE_CRUSH_SEED", 1));
    if !has_crushtool() {
        println!("NOT COMPARED: crushtool is not installed");
        return;
    }
    let mut compared = 0;
    while compared < wanted {
        compared += compare_one_map(seed);
        seed += 1;
    }
    println!("{compared} mappings are alike");
}

fn compare_one_map(seed: u64) -> u64 {
    let mut dice = Dice::new(seed);
    let map = random_map(&mut dice);
    let bytes = map.to_vec();
    let again = crush::Map::from_bytes(&bytes).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    assert!(again.to_vec() == bytes, "seed {seed}: another encoding");
    let mut compared = 0;
    for rule in 0..4 {
        let weights = random_reweights(&mut dice, &map);
        let numrep = dice.range(1, 8) as usize;
        // The tool says nothing when no device is in.
        if weights.iter().all(|w| *w == 0) {
            continue;
        }
        let theirs = crushtool_mappings(&map, rule, numrep, INPUTS, &weights);
        for (x, theirs) in theirs.iter().enumerate() {
            let ours = map.place(rule, x as u32, numrep, &weights, Some(0));
            assert_eq!(ours, *theirs, "seed {seed}, rule {rule}, x {x}, numrep {numrep}");
        }
        compared += u64::from(INPUTS);
    }
    compared
}
