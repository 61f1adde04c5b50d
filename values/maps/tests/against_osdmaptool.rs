//! Random OSD maps, with every kind of exception, asked for placements by us and by Ceph's `osdmaptool`: raw, up and
//! acting sets and primaries must be the same for every group.
//!
//! `NACRE_CRUSH_MAPPINGS=N` sets how many groups are compared, `NACRE_CRUSH_SEED=N` with which maps it starts.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests keep files and run the stock tools")]

#[path = "../../crush/tests/common/mod.rs"]
mod dice;

mod common;

use common::placed_line as parse;
use denc::{Decode, Encode};
use dice::{Dice, random_map, random_reweights};
use maps::{OsdMap, Pool, pool_flags, pool_type, state};
use std::process::Command;
use std::sync::Arc;
use types::{EntityAddr, EntityAddrVec, Fsid, PgId};

const MAPPINGS: u64 = 50_000;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |v| v.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--help").output().is_ok();
    if !found {
        println!("NOT COMPARED: {tool} is not installed");
    }
    found
}

#[test]
fn random_maps_place_alike() {
    if !has("osdmaptool") {
        return;
    }
    let (wanted, mut seed) = (setting("NACRE_CRUSH_MAPPINGS", MAPPINGS), setting("NACRE_CRUSH_SEED", 1));
    let mut compared = 0;
    while compared < wanted {
        compared += compare_one_map(seed);
        seed += 1;
    }
    println!("{compared} groups are alike");
}

fn random_osd_map(dice: &mut Dice) -> OsdMap {
    let mut crush = random_map(dice);
    if let Some(args) = crush.choose_args.remove(&0) {
        crush.choose_args.insert(1 + dice.below(3) as i64, args);
    }
    let mut map = OsdMap { fsid: Fsid([7; 16]), epoch: 9, require_osd_release: 16, ..OsdMap::default() };
    map.set_max_osd(crush.max_devices);
    map.osd_weight = random_reweights(dice, &crush);
    let healthy = dice.chance(30);
    for osd in 0..map.max_osd as usize {
        map.osd_state[osd] = match dice.below(20) {
            _ if healthy => state::EXISTS | state::UP,
            0 => 0,
            1 | 2 => state::EXISTS,
            3 => state::EXISTS | state::UP | state::NEARFULL | state::NOOUT,
            _ => state::EXISTS | state::UP,
        };
        let addr = format!("127.0.0.1:{}", 6800 + osd).parse().expect("an address");
        map.client_addrs[osd] = EntityAddrVec(vec![EntityAddr::msgr2(addr, osd as u32)]);
    }
    if dice.chance(50) {
        let affinity = |dice: &mut Dice| if dice.chance(40) { crush::ONE } else { dice.below(0x1_0001) as u32 };
        map.osd_primary_affinity = (0..map.max_osd).map(|_| affinity(dice)).collect();
    }
    for id in 1..=3 {
        let pool = random_pool(dice, &mut crush, id as u8);
        map.pools.insert(id, pool);
        map.pool_name.insert(id, format!("pool{id}"));
    }
    map.pool_max = 3;
    map.crush = Arc::new(crush);
    random_exceptions(dice, &mut map);
    map
}

fn random_pool(dice: &mut Dice, crush: &mut crush::Map, rule: u8) -> Pool {
    let type_ = if dice.chance(60) { pool_type::REPLICATED } else { pool_type::ERASURE };
    if let Some(rule) = crush.rules[usize::from(rule)].as_mut() {
        // Now and then no rule fits the pool.
        rule.mask.kind = if dice.chance(3) { 4 - type_ } else { type_ };
        rule.mask.max_size = if dice.chance(95) { 20 } else { 3 };
    }
    let pg_num = 1 + dice.below(300) as u32;
    Pool {
        type_,
        size: 1 + dice.below(6) as u8,
        crush_rule: rule,
        object_hash: 2,
        pg_num,
        pgp_num: if dice.chance(60) { pg_num } else { 1 + dice.below(pg_num.into()) as u32 },
        flags: if dice.chance(85) { pool_flags::HASHPSPOOL } else { 0 },
        ..Pool::default()
    }
}

fn random_exceptions(dice: &mut Dice, map: &mut OsdMap) {
    let groups: Vec<PgId> = map.pools.iter().flat_map(|(id, p)| (0..p.pg_num).map(|seed| PgId::new(*id, seed))).collect();
    let highest = map.max_osd + 1;
    let some_osd = |dice: &mut Dice| if dice.chance(5) { crush::NONE } else { dice.range(0, highest) };
    for pg in groups {
        let size = map.pools[&pg.pool].size;
        let set = |dice: &mut Dice| (0..size).map(|_| some_osd(dice)).collect::<Vec<_>>();
        let raw = map.raw_placement(pg);
        if dice.chance(6) {
            map.pg_upmap.insert(pg, set(dice));
        }
        if dice.chance(15) {
            let from = |dice: &mut Dice| if raw.is_empty() || dice.chance(20) { some_osd(dice) } else { *dice.pick(&raw) };
            let pairs = (0..=dice.below(2)).map(|_| (from(dice), dice.range(0, highest))).collect();
            map.pg_upmap_items.insert(pg, pairs);
        }
        if dice.chance(8) {
            map.pg_temp.insert(pg, set(dice));
        }
        if dice.chance(5) {
            map.primary_temp.insert(pg, dice.range(0, map.max_osd - 1));
        }
    }
    map.forget_placements();
}

fn compare_one_map(seed: u64) -> u64 {
    let map = random_osd_map(&mut Dice::new(seed));
    let bytes = map.to_vec();
    assert!(OsdMap::from_bytes(&bytes).unwrap_or_else(|e| panic!("seed {seed}: {e}")).to_vec() == bytes);
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), &bytes).expect("the map");
    let output = Command::new("osdmaptool").arg(file.path()).arg("--test-map-pgs-dump-all").output().expect("osdmaptool");
    assert!(output.status.success(), "seed {seed}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let mut compared = 0;
    for line in text.lines().filter(|l| l.contains(" acting (")) {
        let (pg, theirs) = parse(line);
        let raw = map.raw_placement(pg);
        assert_eq!((raw, map.placed(pg)), (theirs.0, &theirs.1), "seed {seed}, group {pg}");
        compared += 1;
    }
    assert_eq!(compared, map.pools.values().map(|p| u64::from(p.pg_num)).sum::<u64>(), "seed {seed}");
    compared
}
