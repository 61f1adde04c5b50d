//! Placement in a map of a thousand OSDs. The map is left in `target/tmp/bench-crush.map`, so that `crushtool` can be
//! timed on the same.
#![allow(missing_docs)]

use criterion::{Criterion, criterion_group, criterion_main};
use crush::{Location, Map, ONE, Profile, RuleSpec};
use denc::Encode;
use std::hint::black_box;
use std::time::Duration;

const HOSTS: i32 = 100;
const PER_HOST: i32 = 10;
const PER_RACK: i32 = 10;

/// 10 racks of 10 hosts of 10 OSDs, straw2, and a rule that takes one OSD of each of three hosts.
fn map() -> Map {
    let mut map = Map::new();
    map.tunables.set_profile(Profile::Jewel);
    map.add_bucket(11, "default", crush::Alg::Straw2).expect("a fresh map");
    for osd in 0..HOSTS * PER_HOST {
        let host = osd / PER_HOST;
        let place = [format!("host=host{host}"), format!("rack=rack{}", host / PER_RACK), "root=default".into()];
        let place = Location::parse(place).expect("a place");
        map.insert_item(osd, ONE, &format!("osd.{osd}"), &place).expect("room");
    }
    let rule =
        RuleSpec { name: "spread".into(), root: "default".into(), failure_domain: "host".into(), kind: 1, ..RuleSpec::default() };
    map.add_simple_rule(&rule).expect("a fresh name");
    map
}

fn placement(c: &mut Criterion) {
    let map = map();
    let weights = vec![ONE; (HOSTS * PER_HOST) as usize];
    assert_eq!(map.place(0, 1, 3, &weights, None).len(), 3);
    let file = concat!(env!("CARGO_TARGET_TMPDIR"), "/bench-crush.map");
    #[allow(clippy::disallowed_methods, reason = "a benchmark keeps its map")]
    std::fs::write(file, map.to_vec()).expect("the map");
    let mut x = 0u32;
    c.bench_function("crush/3 of 1,000 OSDs", |b| {
        b.iter(|| {
            x = x.wrapping_add(1);
            map.place(0, black_box(x), 3, &weights, None)
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2)).sample_size(50);
    targets = placement
}
criterion_main!(benches);
