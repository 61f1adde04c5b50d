//! Random maps, and what Ceph's own tool makes of them.

#![allow(dead_code, unreachable_pub)]

use crush::{Alg, Bucket, ChooseArg, Map, ONE, Profile, Step, Tunables, op};
use denc::Encode;
use std::process::Command;

/// Numbers that look random and depend on the seed alone (splitmix64).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// From `low` to `high`, both included.
    pub fn range(&mut self, low: i32, high: i32) -> i32 {
        low + self.below((high - low + 1) as u64) as i32
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

const ALGS: [Alg; 5] = [Alg::Straw2, Alg::Straw, Alg::List, Alg::Tree, Alg::Uniform];

/// A map with everything that occurs in real ones, and more.
pub fn random_map(dice: &mut Dice) -> Map {
    let mut map = Map::new();
    map.tunables = random_tunables(dice);
    let only_straw2 = dice.chance(40);
    let mut level: Vec<(i32, u32)> = devices(dice, &mut map);
    let heights = dice.range(1, 3);
    for height in 1..=heights {
        let top = height == heights;
        level = buckets_over(dice, &mut map, level, if top { 11 } else { height }, top, only_straw2);
    }
    for (number, class) in ["hdd", "ssd", "nvme"].iter().enumerate().take(dice.below(4) as usize) {
        let mut devices: Vec<i32> = (0..map.max_devices).filter(|_| dice.chance(35)).collect();
        devices.retain(|d| !map.device_classes.contains_key(d));
        if !devices.is_empty() {
            map.class_names.insert(number as i32, (*class).to_owned());
            map.device_classes.extend(devices.into_iter().map(|d| (d, number as i32)));
        }
    }
    map.rebuild_shadow_trees();
    // The tool reads past the end of tree buckets without weight; shadow trees have such.
    for bucket in map.buckets.iter_mut().flatten().filter(|b| b.alg() == Alg::Tree && b.weight == 0) {
        bucket.contents = crush::Contents::Straw2 { weights: bucket.item_weights() };
    }
    if dice.chance(30) {
        random_choose_args(dice, &mut map);
    }
    for number in 0..4 {
        let steps = random_rule(dice, &map);
        let kind = if dice.chance(50) { 1 } else { 3 };
        map.add_rule(&format!("rule{number}"), kind, (1, 20), steps).expect("a fresh name");
    }
    map
}

fn random_tunables(dice: &mut Dice) -> Tunables {
    let profiles = [Profile::Jewel, Profile::Hammer, Profile::Firefly, Profile::Bobtail, Profile::Argonaut];
    let mut tunables = Tunables::of(*dice.pick(&profiles));
    if dice.chance(25) {
        tunables.choose_local_tries = dice.below(4) as u32;
        tunables.choose_local_fallback_tries = dice.below(6) as u32;
        tunables.choose_total_tries = dice.below(60) as u32;
        tunables.chooseleaf_descend_once = dice.below(2) as u32;
        tunables.chooseleaf_vary_r = dice.below(5) as u8;
        tunables.chooseleaf_stable = dice.below(2) as u8;
    }
    tunables.straw_calc_version = dice.below(2) as u8;
    tunables
}

fn devices(dice: &mut Dice, map: &mut Map) -> Vec<(i32, u32)> {
    let count = dice.range(1, 60);
    map.max_devices = count;
    let alike = dice.chance(30);
    (0..count)
        .map(|id| {
            map.names.insert(id, format!("osd.{id}"));
            let weight = match dice.below(10) {
                _ if alike => ONE,
                0 => 0,
                1 => dice.below(1 << 24) as u32,
                2 => dice.below(64) as u32,
                _ => ONE / 2 + dice.below(u64::from(ONE) * 16) as u32,
            };
            (id, weight)
        })
        .collect()
}

/// Puts all of `level` into new buckets of type `kind`; at the top mostly into one.
fn buckets_over(
    dice: &mut Dice,
    map: &mut Map,
    level: Vec<(i32, u32)>,
    kind: i32,
    top: bool,
    only_straw2: bool,
) -> Vec<(i32, u32)> {
    let per_bucket = if top && dice.chance(80) { level.len() } else { dice.range(1, 8) as usize };
    let chunks: Vec<_> = level.chunks(per_bucket.max(1)).map(<[_]>::to_vec).collect();
    let mut made = Vec::new();
    for chunk in chunks {
        let (items, mut weights): (Vec<i32>, Vec<u32>) = chunk.into_iter().unzip();
        let mut alg = if only_straw2 || dice.chance(30) { Alg::Straw2 } else { *dice.pick(&ALGS) };
        if alg == Alg::Uniform {
            let first = weights[0];
            weights.fill(first);
        }
        if alg == Alg::Tree && items.len() > 60 {
            alg = Alg::Straw2;
        }
        let id = -1 - map.buckets.iter().take_while(|b| b.is_some()).count() as i32;
        let bucket = Bucket::new(id, kind as u16, alg, items, &weights, map.tunables.straw_calc_version);
        let bucket = bucket.expect("a sound bucket");
        made.push((id, bucket.weight));
        let index = !id as usize;
        if index >= map.buckets.len() {
            map.buckets.resize_with((index + 1).next_power_of_two().max(8), || None);
        }
        map.names.insert(id, format!("bucket{index}"));
        map.buckets[index] = Some(bucket);
    }
    made
}

fn random_choose_args(dice: &mut Dice, map: &mut Map) {
    let mut args = crush::ChooseArgs::new();
    for (index, bucket) in map.buckets.iter().enumerate() {
        let Some(bucket) = bucket.as_ref().filter(|_| dice.chance(60)) else { continue };
        let positions = dice.below(4) as usize;
        let mut weight = |w: u32| if dice.chance(10) { 0 } else { w / 2 + dice.below(u64::from(w) + 1) as u32 };
        let weight_set = (0..positions).map(|_| bucket.item_weights().into_iter().map(&mut weight).collect()).collect();
        let ids = if dice.chance(40) { bucket.items.iter().map(|i| i ^ 0x55).collect() } else { Vec::new() };
        args.insert(index as u32, ChooseArg { weight_set, ids });
    }
    map.choose_args.insert(if dice.chance(50) { -1 } else { 0 }, args);
}

fn random_rule(dice: &mut Dice, map: &Map) -> Vec<Step> {
    let step = |op, arg1, arg2| Step { op, arg1, arg2 };
    let mut steps = Vec::new();
    let indep = dice.chance(45);
    if dice.chance(40) {
        steps.push(step(op::SET_CHOOSE_TRIES, dice.range(0, 100), 0));
    }
    if dice.chance(30) {
        steps.push(step(op::SET_CHOOSELEAF_TRIES, dice.range(0, 10), 0));
    }
    if dice.chance(10) {
        steps.push(step(op::SET_CHOOSE_LOCAL_TRIES, dice.range(0, 3), 0));
        steps.push(step(op::SET_CHOOSE_LOCAL_FALLBACK_TRIES, dice.range(0, 5), 0));
    }
    if dice.chance(10) {
        steps.push(step(op::SET_CHOOSELEAF_VARY_R, dice.range(0, 4), 0));
        steps.push(step(op::SET_CHOOSELEAF_STABLE, dice.range(0, 1), 0));
    }
    let (choose, leaf) =
        if indep { (op::CHOOSE_INDEP, op::CHOOSELEAF_INDEP) } else { (op::CHOOSE_FIRSTN, op::CHOOSELEAF_FIRSTN) };
    let roots = map.roots(true);
    for _ in 0..=dice.below(5) / 4 {
        let inner: Vec<i32> = map.buckets.iter().flatten().map(|b| b.id).collect();
        let top = if dice.chance(75) { *dice.pick(&roots) } else { *dice.pick(&inner) };
        steps.push(step(op::TAKE, top, 0));
        match dice.below(4) {
            0 => steps.push(step(choose, dice.range(-1, 3), 0)),
            1 => {
                steps.push(step(choose, dice.range(-1, 3), dice.range(1, 2)));
                steps.push(step(choose, dice.range(0, 3), 0));
            }
            2 => {
                steps.push(step(choose, dice.range(0, 3), 2));
                steps.push(step(leaf, dice.range(0, 2), 1));
            }
            _ => steps.push(step(leaf, dice.range(-1, 4), dice.range(0, 2))),
        }
        steps.push(step(op::EMIT, 0, 0));
    }
    steps
}

/// Fractions that devices keep: mostly whole.
pub fn random_reweights(dice: &mut Dice, map: &Map) -> Vec<u32> {
    let present = |d: i32| map.buckets.iter().flatten().any(|b| b.items.contains(&d));
    (0..map.max_devices)
        .map(|d| match dice.below(12) {
            _ if !present(d) => 0,
            0 => 0,
            1 | 2 => dice.below(u64::from(ONE)) as u32,
            _ => ONE,
        })
        .collect()
}

/// Returns true if `crushtool` can be run.
pub fn has_crushtool() -> bool {
    Command::new("crushtool").arg("--help").output().is_ok()
}

/// Returns what `crushtool --test` says about inputs `0..count`, in order.
pub fn crushtool_mappings(map: &Map, rule: u32, numrep: usize, count: u32, weights: &[u32]) -> Vec<Vec<i32>> {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), map.to_vec()).expect("the map");
    let mut command = Command::new("crushtool");
    command.arg("-i").arg(file.path()).args(["--test", "--show-mappings", "--min-x", "0"]);
    command.args(["--max-x", &(count - 1).to_string(), "--rule", &rule.to_string(), "--num-rep", &numrep.to_string()]);
    for (device, weight) in weights.iter().enumerate().filter(|(_, w)| **w != ONE) {
        command.args(["--weight", &device.to_string(), &format!("{:.17}", f64::from(*weight) / f64::from(ONE))]);
    }
    let output = command.output().expect("crushtool");
    assert!(output.status.success(), "crushtool refused the map: {}", String::from_utf8_lossy(&output.stderr));
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let mappings: Vec<Vec<i32>> = text.lines().filter(|l| l.contains("CRUSH rule")).map(parse_mapping).collect();
    assert_eq!(mappings.len(), count as usize, "{command:?} {weights:?} {:?} said: {text}", map.rules[rule as usize]);
    mappings
}

fn parse_mapping(line: &str) -> Vec<i32> {
    let (_, list) = line.split_once('[').expect("a list");
    let list = list.trim_end().trim_end_matches(']');
    list.split(',').filter(|s| !s.is_empty()).map(|s| s.parse().expect("a number")).collect()
}
