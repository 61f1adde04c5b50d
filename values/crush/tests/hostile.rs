//! Damaged maps: decoding refuses them or gives something that can be placed with, walked and edited without harm.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests keep files and run the stock tools")]

mod common;

use common::{Dice, random_map};
use crush::{Alg, Bucket, Map, ONE, Step, op};
use denc::{Decode, Encode};

#[test]
fn damaged_bytes_never_panic() {
    let mut survivors = 0;
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let bytes = random_map(&mut dice).to_vec();
        for _ in 0..30 {
            let mut bytes = bytes.clone();
            for _ in 0..=dice.below(3) {
                let at = dice.below(bytes.len() as u64) as usize;
                bytes[at] = if dice.chance(50) { dice.next() as u8 } else { bytes[at] ^ (1 << dice.below(8)) };
            }
            if dice.chance(10) {
                bytes.truncate(dice.below(bytes.len() as u64) as usize);
            }
            let Ok(mut map) = Map::from_bytes(&bytes) else { continue };
            survivors += 1;
            let weights = vec![ONE; 64];
            for rule in 0..map.rules.len() as u32 {
                assert!(map.place(rule, 1, 6, &weights, Some(0)).len() <= 6);
                map.rule_weights(rule);
            }
            map.tree(true);
            map.rebuild_shadow_trees();
            Map::from_bytes(&map.to_vec()).expect("what was rebuilt is sound");
        }
    }
    assert!(survivors > 100, "only {survivors} damaged maps were readable: the test does not test much");
}

fn with_buckets(items: &[&[i32]]) -> Map {
    let mut map = Map::new();
    map.max_devices = 4;
    for (n, items) in items.iter().enumerate() {
        let weights = vec![ONE; items.len()];
        let bucket = Bucket::new(-1 - n as i32, 1 + (n == 0) as u16, Alg::Straw2, items.to_vec(), &weights, 1);
        map.buckets.push(Some(bucket.expect("a sound bucket")));
    }
    map
}

#[test]
fn cycles_and_abysses_are_refused() {
    assert!(Map::from_bytes(&with_buckets(&[&[-2], &[-3], &[0, 1]]).to_vec()).is_ok());
    assert!(Map::from_bytes(&with_buckets(&[&[-2], &[-3], &[0, -1]]).to_vec()).is_err());
    assert!(Map::from_bytes(&with_buckets(&[&[-1]]).to_vec()).is_err());
    for step in [-1, 1] {
        let chain: Vec<[i32; 1]> = (1..=100).map(|n| [-n + step]).collect();
        let chain: Vec<&[i32]> = chain.iter().map(|c| &c[..]).collect();
        assert!(Map::from_bytes(&with_buckets(&chain[..20]).to_vec()).is_ok());
        assert!(Map::from_bytes(&with_buckets(&chain).to_vec()).is_err());
    }
}

/// Fields are public, so a cycle can still be made; placement must end all the same.
#[test]
fn placement_in_a_cycle_ends() {
    let mut map = with_buckets(&[&[-2], &[-1]]);
    let step = |op, arg1, arg2| Step { op, arg1, arg2 };
    for choose in [op::CHOOSELEAF_FIRSTN, op::CHOOSELEAF_INDEP] {
        let steps = vec![step(op::TAKE, -1, 0), step(choose, i32::MAX, 7), step(op::EMIT, 0, 0)];
        let rule = map.add_rule(&format!("rule{choose}"), 1, (1, 10), steps).expect("a new rule");
        assert!(map.place(rule.into(), 1, 3, &[ONE; 4], None).iter().all(|i| *i == crush::NONE));
    }
}

#[test]
fn items_that_do_not_exist_are_passed_over() {
    let mut map = with_buckets(&[&[-7, 900, 2]]);
    let steps = vec![
        Step { op: op::TAKE, arg1: -1, arg2: 0 },
        Step { op: op::CHOOSE_FIRSTN, arg1: 0, arg2: 0 },
        Step { op: op::EMIT, arg1: 0, arg2: 0 },
    ];
    let rule = map.add_rule("r", 1, (1, 10), steps).expect("a new rule");
    for x in 0..50 {
        assert!(map.place(rule.into(), x, 3, &[ONE; 4], None).iter().all(|i| *i == 2));
    }
}

#[test]
fn an_empty_bucket_and_endless_retries_end() {
    let mut map = with_buckets(&[&[-2], &[]]);
    (map.tunables.choose_local_fallback_tries, map.tunables.choose_local_tries) = (u32::MAX, u32::MAX);
    let step = |op, arg1, arg2| Step { op, arg1, arg2 };
    for choose in [op::CHOOSELEAF_FIRSTN, op::CHOOSE_INDEP] {
        let steps = vec![step(op::TAKE, -1, 0), step(choose, i32::MAX, 0), step(op::EMIT, 0, 0)];
        let rule = map.add_rule(&format!("rule{choose}"), 1, (1, 10), steps).expect("a rule");
        assert!(map.place(rule.into(), 1, 3, &[ONE; 4], None).iter().all(|osd| *osd == crush::NONE));
    }
}
