//! Maps of a real cluster of 16.2.15 with erasure-coded pools: seven OSDs, pools of 2 + 1, 4 + 2, 4 + 4 and 3 + 2 shards.
//! In `holes` one OSD is out and one is down; in `moved` there are exceptions of all kinds, too. What `osdmaptool` says of
//! them was written down (`--test-map-pgs-dump-all`), so the tests need no Ceph.

mod common;

use denc::{Decode, Encode};
use maps::{FIRST_LAYOUT, Incremental, Layout, Layouts, OsdMap, Pool, pool_flags, pool_type};
use std::collections::BTreeMap;
use types::level::Level;
use types::{PgId, ShardId, UTime};

const HOLES: (&[u8], &str) =
    (include_bytes!("../testdata/erasure-holes.osdmap"), include_str!("../testdata/erasure-holes.placed"));
const MOVED: (&[u8], &str) =
    (include_bytes!("../testdata/erasure-moved.osdmap"), include_str!("../testdata/erasure-moved.placed"));
const POOLS: &[u8] = include_bytes!("../testdata/erasure-pools.osdmap");

fn read(bytes: &[u8]) -> OsdMap {
    let map = OsdMap::from_bytes(bytes).expect("a map");
    assert!(map.to_vec() == bytes, "it is written otherwise");
    map
}

#[test]
fn maps_of_ceph_are_read_and_written_as_they_are() {
    let map = read(POOLS);
    let (_, pool) = map.pool_by_name("unitp").expect("a pool");
    assert_eq!((pool.type_, pool.size, pool.min_size, pool.stripe_width), (pool_type::ERASURE, 5, 4, 3 * 16384));
    assert_eq!(pool.erasure_code_profile, "unit");
    assert!(map.pools.values().filter(|pool| pool.is_erasure()).count() >= 4);
    // Ceph has no layouts: the factor of such a pool is not known.
    assert!(map.layouts.is_empty());
    let moved = read(MOVED.0);
    assert!(moved.pool_by_name("e42").is_some_and(|(_, pool)| pool.has_flag(pool_flags::EC_OVERWRITES)));
    assert!(!moved.pg_temp.is_empty() && !moved.osd_primary_affinity.is_empty());
    assert!(!moved.pg_upmap.is_empty() && !moved.pg_upmap_items.is_empty());
}

#[test]
fn groups_with_holes_are_placed_as_by_ceph() {
    let (mut holes, mut apart) = (0, 0);
    for (bytes, told) in [HOLES, MOVED] {
        let map = read(bytes);
        let mut compared = 0;
        for line in told.lines() {
            let (pg, (raw, placed)) = common::placed_line(line);
            assert_eq!((map.raw_placement(pg), map.placed(pg)), (raw, &placed), "group {pg}");
            // The shard that clients name is the position of the primary.
            let shard = map.leading_shard(pg);
            if map.pools[&pg.pool].is_erasure() {
                let at = usize::try_from(shard.0).expect("somebody leads");
                assert_eq!(placed.acting[at], placed.acting_primary);
                assert!(!placed.acting[..at].contains(&placed.acting_primary), "{pg}: the first position");
            } else {
                assert_eq!(shard, ShardId::NONE);
            }
            holes += usize::from(placed.up.contains(&types::HOLE));
            apart += usize::from(placed.up_primary != placed.acting_primary);
            compared += 1;
        }
        assert_eq!(compared, map.pools.values().map(|pool| pool.pg_num).sum::<u32>());
    }
    assert!(holes > 30 && apart > 1, "{holes} groups with holes, {apart} led by others");
}

fn layouts(data: u8, word: &str) -> Layouts {
    let profile = BTreeMap::from([("k".to_owned(), data.to_string()), ("plugin".to_owned(), word.to_owned())]);
    Layouts::one(Layout { data, most_chunk: 65536, profile })
}

/// A map of level 5, and what follows when `edit` changes it.
fn next(base: &OsdMap, edit: impl FnOnce(&mut Incremental)) -> OsdMap {
    let mut inc = Incremental::new(base.epoch + 1, base.fsid, UTime::ZERO);
    edit(&mut inc);
    let sealed = inc.seal(base).expect("it applies");
    // What others are sent says the same.
    let step = Incremental::from_bytes(&sealed.incremental).expect("a step");
    assert_eq!(step, inc);
    let map = OsdMap::from_bytes(&sealed.full).expect("a map");
    assert_eq!(map.layouts, sealed.map.layouts);
    assert!(base.apply(&step).expect("it applies").to_vec() == sealed.full);
    map
}

#[test]
fn layouts_stand_behind_the_level_and_go_with_their_pool() {
    let first = next(&OsdMap::default(), |inc| inc.new_level = Some(Level(5)));
    let pool = Pool { type_: pool_type::ERASURE, size: 6, pg_num: 1, pgp_num: 1, ..Pool::default() };
    let made = next(&first, |inc| {
        inc.new_pools.insert(7, pool.clone());
        inc.new_layouts.insert(7, layouts(4, "jerasure"));
        inc.new_pools.insert(8, Pool { type_: pool_type::REPLICATED, size: 3, ..pool });
    });
    assert_eq!(made.level, Level(5));
    assert_eq!(made.layout(7).map(|layout| (layout.data, layout.most_chunk)), Some((4, 65536)));
    assert_eq!((made.raw_factor(7), made.raw_factor(8), made.raw_factor(9)), ((6, 4), (3, 1), (1, 1)));
    assert!((made.raw_rate(7) - 1.5).abs() < 1e-9);
    // Nothing that happens to profiles changes it.
    let forced = next(&made, |inc| {
        inc.new_erasure_code_profiles.insert("p".into(), layouts(2, "isa").table[&FIRST_LAYOUT].profile.clone());
    });
    assert_eq!(forced.layouts, made.layouts);
    let gone = next(&forced, |inc| {
        inc.old_pools.insert(7);
    });
    assert!(gone.layouts.is_empty() && gone.level == Level(5));
    // A map without layouts has the bytes that it always had.
    assert_eq!(
        OsdMap { layouts: BTreeMap::new(), ..made.clone() }.to_vec().len() + made.layouts.to_vec().len(),
        made.to_vec().len()
    );
}

#[test]
fn layouts_that_say_nothing_are_refused() {
    let good = layouts(4, "jerasure");
    assert_eq!(Layouts::from_bytes(&good.to_vec()), Ok(good.clone()));
    for bad in [Layouts { current: 1, ..good }, Layouts::default(), layouts(0, "jerasure")] {
        assert!(Layouts::from_bytes(&bad.to_vec()).is_err(), "{bad:?}");
    }
}

#[test]
fn nobody_leads_a_group_whose_places_are_all_holes() {
    let mut map = read(HOLES.0);
    for osd in 0..map.max_osd {
        map.osd_state[usize::try_from(osd).expect("a number")] &= !maps::state::UP;
    }
    map.forget_placements();
    let pg = PgId::new(3, 0);
    assert!(map.placed(pg).acting.iter().all(|osd| *osd == types::HOLE));
    assert_eq!((map.placed(pg).acting_primary, map.leading_shard(pg)), (maps::NO_OSD, ShardId::NONE));
}
