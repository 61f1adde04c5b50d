//! How long one placement takes: `cargo run --release -p crush --example placement_speed [OSDS] [PER_HOST]`.

#![allow(clippy::disallowed_methods, reason = "it measures")]

use crush::{Location, Map, ONE, RuleSpec};
use std::hint::black_box;
use std::time::Instant;

fn cluster(osds: i32, per_host: i32, uneven: bool) -> Map {
    let mut map = Map::new();
    for osd in 0..osds {
        let host = format!("host=h{}", osd / per_host);
        let place = Location::parse(["root=default", &host]).expect("a place");
        let weight = if uneven { ONE * (1 + (osd % 5) as u32) } else { ONE };
        map.insert_item(osd, weight, &format!("osd.{osd}"), &place).expect("a new device");
    }
    let spec =
        RuleSpec { name: "r".into(), root: "default".into(), failure_domain: "host".into(), kind: 1, ..RuleSpec::default() };
    map.add_simple_rule(&spec).expect("a new rule");
    let indep = RuleSpec { name: "e".into(), indep: true, kind: 3, ..spec };
    map.add_simple_rule(&indep).expect("a new rule");
    map
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse().expect("a number"));
    let (osds, per_host) = (numbers.next().unwrap_or(1000), numbers.next().unwrap_or(20));
    for uneven in [false, true] {
        let map = cluster(osds, per_host, uneven);
        let weights = vec![ONE; osds as usize];
        for (rule, numrep) in [(0, 3), (1, 6)] {
            let count = 200_000;
            let start = Instant::now();
            for x in 0..count {
                black_box(map.place(rule, black_box(x), numrep, &weights, Some(1)));
            }
            let each = start.elapsed().as_nanos() / u128::from(count);
            println!("{osds} OSDs, {per_host} per host, uneven {uneven}, rule {rule}, {numrep} wanted: {each} ns");
        }
    }
}
