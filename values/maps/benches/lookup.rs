//! What a client and an OSD look up for each operation on a map that they know already: pool, group, OSDs.
#![allow(missing_docs)]

use criterion::{Criterion, criterion_group, criterion_main};
use crush::{Location, ONE, Profile, RuleSpec};
use maps::{OsdMap, Pool, pool_flags, state};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use types::{Locator, PgId};

const OSDS: i32 = 1000;
const POOL: i64 = 7;

/// A thousand OSDs that are up, 12 pools; the one that is asked for has 8,192 groups of three.
fn map() -> OsdMap {
    let mut tree = crush::Map::new();
    tree.tunables.set_profile(Profile::Jewel);
    tree.add_bucket(11, "default", crush::Alg::Straw2).expect("a fresh map");
    for osd in 0..OSDS {
        let place = Location::parse([format!("host=host{}", osd / 10), "root=default".into()]).expect("a place");
        tree.insert_item(osd, ONE, &format!("osd.{osd}"), &place).expect("room");
    }
    let rule =
        RuleSpec { name: "spread".into(), root: "default".into(), failure_domain: "host".into(), kind: 1, ..RuleSpec::default() };
    tree.add_simple_rule(&rule).expect("a fresh name");
    let pool =
        Pool { type_: 1, size: 3, pg_num: 8192, pgp_num: 8192, flags: pool_flags::HASHPSPOOL, object_hash: 2, ..Pool::default() };
    OsdMap {
        epoch: 9,
        max_osd: OSDS,
        osd_state: vec![state::EXISTS | state::UP; OSDS as usize],
        osd_weight: vec![ONE; OSDS as usize],
        crush: Arc::new(tree),
        pools: (1..=12).map(|id| (id, pool.clone())).collect(),
        ..OsdMap::default()
    }
}

fn lookups(c: &mut Criterion) {
    let map = map();
    let seeds = map.pools[&POOL].pg_num;
    for seed in 0..seeds {
        assert_eq!(map.placed(PgId::new(POOL, seed)).acting.len(), 3);
    }
    let mut hash = 0u32;
    let mut next = || {
        hash = hash.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        black_box(hash)
    };
    c.bench_function("map/pool, group and OSDs, cached", |b| {
        b.iter(|| {
            let pg = map.fold(PgId::new(POOL, next())).expect("the pool is there");
            map.placed(pg).acting_primary
        });
    });
    c.bench_function("map/pool, group and OSDs, computed", |b| {
        b.iter(|| {
            let pg = map.fold(PgId::new(POOL, next())).expect("the pool is there");
            map.compute_up_acting(pg).acting_primary
        });
    });
    let at = Locator { pool: POOL, ..Locator::default() };
    c.bench_function("map/hash of a name, then the same, cached", |b| {
        b.iter(|| {
            let pg = map.object_pg(&at, black_box(b"rbd_data.10226b8b4567.00000000000004d2")).expect("the pool is there");
            map.placed(pg).acting_primary
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2)).sample_size(50);
    targets = lookups
}
criterion_main!(benches);
