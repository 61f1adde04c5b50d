//! Any m shards may be lost.
#![allow(missing_docs)]

use ec::{Code, Profile, Recipes, TooFew, merge};
use proptest::prelude::*;

fn code(profile: &str) -> Code {
    Profile::parse(merge("plugin=none", profile.split(' ')).unwrap(), true).unwrap().code()
}

const TECHNIQUES: [&str; 6] = [
    "plugin=jerasure technique=reed_sol_van",
    "plugin=jerasure technique=reed_sol_r6_op",
    "plugin=jerasure technique=cauchy_orig packetsize=8",
    "plugin=jerasure technique=cauchy_good packetsize=8",
    "plugin=isa technique=reed_sol_van",
    "plugin=isa technique=cauchy",
];

/// Bytes that follow from a seed.
fn noise(seed: u64, n: usize) -> Vec<u8> {
    let mut x = (seed | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..n)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 32) as u8
        })
        .collect()
}

fn slices(all: &[Vec<u8>]) -> Vec<&[u8]> {
    all.iter().map(Vec::as_slice).collect()
}

/// All shards of some data.
fn encoded(code: &Code, seed: u64, len: usize) -> Vec<Vec<u8>> {
    let mut shards: Vec<Vec<u8>> = (0..code.k() as u64).map(|i| noise(seed * 100 + i, len)).collect();
    let mut parities = vec![vec![0; len]; code.m()];
    code.encode(&slices(&shards), &mut parities.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
    shards.extend(parities);
    shards
}

/// Brings lost shards back from `have`, and compares.
fn check(code: &Code, shards: &[Vec<u8>], have: &[usize], lost: &[usize]) {
    let inputs: Vec<&[u8]> = have[..code.k()].iter().map(|i| shards[*i].as_slice()).collect();
    let mut out = vec![vec![0xcc; shards[0].len()]; lost.len()];
    let recipe = code.recover(have, lost).unwrap();
    recipe.apply(&inputs, &mut out.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>(), false);
    for (i, out) in lost.iter().zip(&out) {
        assert!(shards[*i] == *out, "{code:?}: shard {i} of {lost:?} from {have:?}");
    }
}

#[test]
fn every_loss_of_small_codes() {
    for technique in TECHNIQUES {
        for (k, m) in [(2, 1), (2, 2), (3, 2), (4, 2), (5, 3), (6, 4), (8, 3)] {
            if technique.contains("r6") && m != 2 {
                continue;
            }
            let code = code(&format!("{technique} k={k} m={m}"));
            let shards = encoded(&code, 7, 64);
            for mask in 1u32..1 << (k + m) {
                if mask.count_ones() as usize > m {
                    continue;
                }
                let (lost, have): (Vec<usize>, Vec<usize>) = (0..k + m).partition(|i| mask >> i & 1 != 0);
                check(&code, &shards, &have, &lost);
            }
        }
    }
}

/// The widest of isa's `reed_sol_van`, whose bounds are its plugin's: every loss of m shards leaves an inverse, which
/// `recover` asserts.
#[test]
fn every_loss_within_isas_bounds() {
    for (k, m) in [(32, 3), (21, 4)] {
        let code = code(&format!("plugin=isa technique=reed_sol_van k={k} m={m}"));
        let (mut lost, mut tried): (Vec<usize>, _) = ((0..m).collect(), 0);
        loop {
            let have: Vec<usize> = (0..k + m).filter(|i| !lost.contains(i)).collect();
            code.recover(&have, &lost).unwrap();
            tried += 1;
            // The next m of them in order: the last that may still go up does, those behind it follow.
            let Some(i) = (0..m).rev().find(|i| lost[*i] < k + i) else { break };
            let from = lost[i] + 1;
            lost[i..].iter_mut().enumerate().for_each(|(j, shard)| *shard = from + j);
        }
        assert_eq!(tried, if m == 3 { 6545 } else { 12650 });
    }
}

#[test]
fn too_few_are_no_panic() {
    let code = code("plugin=jerasure technique=reed_sol_van k=4 m=2");
    assert_eq!(code.recover(&[0, 1, 5], &[2]).map(|_| ()), Err(TooFew { have: 3, need: 4 }));
    assert_eq!(Recipes::new().recover(&code, &[], &[2]).map(|_| ()), Err(TooFew { have: 0, need: 4 }));
}

#[test]
fn recipes_are_kept_within_a_bound_and_are_right() {
    let code = code("plugin=jerasure technique=cauchy_good packetsize=8 k=8 m=3");
    let (shards, mut recipes) = (encoded(&code, 3, 128), Recipes::new());
    for round in 0..3 {
        for (a, b) in (0..11).flat_map(|a| (0..11).map(move |b| (a, b))).filter(|(a, b)| a != b) {
            let have: Vec<usize> = (0..11).filter(|i| ![a, b].contains(i)).collect();
            let inputs: Vec<&[u8]> = have[..8].iter().map(|i| shards[*i].as_slice()).collect();
            let (mut x, mut y) = (vec![0; 128], vec![0; 128]);
            recipes.recover(&code, &have, &[a, b]).unwrap().apply(&inputs, &mut [&mut x, &mut y], false);
            assert!(x == shards[a] && y == shards[b], "round {round}: {a} and {b}");
        }
    }
}

#[test]
#[should_panic(expected = "whole grains")]
fn half_a_grain_is_a_mistake_of_the_caller() {
    let code = code("plugin=jerasure technique=cauchy_good packetsize=8 k=2 m=2");
    code.encode(&[&[0; 96], &[0; 96]], &mut [&mut [0; 96], &mut [0; 96]]);
}

fn any_code() -> impl Strategy<Value = Code> {
    (0..TECHNIQUES.len(), 2usize..=20, 1usize..=8).prop_map(|(t, k, m)| {
        let m = match t {
            1 => 2,
            4 => m.min(4),
            _ => m,
        };
        code(&format!("{} k={k} m={m}", TECHNIQUES[t]))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_loss_of_any_code(code in any_code(), seed in 0u64..1000, order in any::<u64>(), count in 0usize..8, grains in 1usize..4) {
        let len = grains * code.grain().max(33);
        let shards = encoded(&code, seed, len - len % code.grain());
        // A permutation of the shards: the first are lost, the others are there in that order.
        let mut all: Vec<usize> = (0..code.shards()).collect();
        let dice = noise(order, all.len());
        all.sort_by_key(|i| dice[*i]);
        let (lost, have) = all.split_at(count.min(code.m()));
        check(&code, &shards, have, lost);
    }

    /// Parities that were changed by deltas, in any order, are those of the data as it is then.
    #[test]
    fn deltas_keep_parities_right(code in any_code(), seed in 0u64..1000, steps in prop::collection::vec((any::<u8>(), any::<u8>(), any::<bool>()), 1..6)) {
        let grain = code.grain().max(16);
        let mut shards = encoded(&code, seed, 4 * grain);
        for (i, (a, b, two)) in steps.into_iter().enumerate() {
            let from = usize::from(b) % 4 * grain;
            let place = from..from + grain * (1 + usize::from(b) / 64).min(4 - usize::from(b) % 4);
            let first = usize::from(a) % code.k();
            let mut which = vec![first];
            if two {
                which.push((first + 1) % code.k());
            }
            let mut differences = Vec::new();
            for shard in &which {
                let new = noise(seed * 31 + i as u64 * 7 + *shard as u64, place.len());
                let old = &mut shards[*shard][place.clone()];
                differences.push(old.iter().zip(&new).map(|(old, new)| old ^ new).collect::<Vec<u8>>());
                old.copy_from_slice(&new);
            }
            let changes: Vec<(usize, &[u8])> = which.iter().copied().zip(differences.iter().map(Vec::as_slice)).collect();
            let k = code.k();
            let mut parities: Vec<&mut [u8]> = shards[k..].iter_mut().map(|p| &mut p[place.clone()]).collect();
            code.delta(&changes, &mut parities);
        }
        let mut right = vec![vec![0; 4 * grain]; code.m()];
        code.encode(&slices(&shards[..code.k()]), &mut right.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
        prop_assert!(shards[code.k()..] == right);
    }
}
