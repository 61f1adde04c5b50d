//! What steps change, what lookups answer, and that damaged maps do no harm.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the test measures")]

use denc::{Decode, Encode};
use maps::{ApplyError, Incremental, NO_OSD, OsdMap, Pool, UpActing, flags, pool_flags, pool_type, state};
use std::sync::Arc;
use std::time::Instant;
use types::level::Level;
use types::{EntityAddr, EntityAddrVec, Fsid, Intervals, Locator, PgId, UTime};

const FSID: Fsid = Fsid([3; 16]);
const NOW: UTime = UTime { sec: 1000, nsec: 7 };

fn step(map: &OsdMap) -> Incremental {
    Incremental::new(map.epoch + 1, FSID, NOW)
}

fn next(map: &OsdMap, change: impl FnOnce(&mut Incremental)) -> OsdMap {
    let mut inc = step(map);
    change(&mut inc);
    let sealed = inc.seal(map).expect("a sound step");
    assert_eq!(Incremental::from_bytes(&sealed.incremental).as_ref(), Ok(&inc));
    let received = map.apply(&Incremental::from_bytes(&sealed.incremental).expect("a step")).expect("a sound step");
    assert!(received.to_vec() == sealed.full, "the receiver's map differs from the sender's");
    received
}

fn addrs(port: u16) -> EntityAddrVec {
    EntityAddrVec(vec![EntityAddr::msgr2(([10, 0, 0, 1], port).into(), 1)])
}

/// `count` OSDs on hosts of their own, up and in, and one replicated pool of 32 groups.
fn cluster(count: i32) -> OsdMap {
    let mut crush = crush::Map::new();
    for osd in 0..count {
        let place = crush::Location::parse(["root=default", &format!("host=h{osd}")]).expect("a place");
        crush.insert_item(osd, crush::ONE, &format!("osd.{osd}"), &place).expect("a new device");
    }
    let spec = crush::RuleSpec {
        name: "r".into(),
        root: "default".into(),
        failure_domain: "host".into(),
        kind: pool_type::REPLICATED,
        ..crush::RuleSpec::default()
    };
    crush.add_simple_rule(&spec).expect("a new rule");
    let empty = next(&OsdMap::default(), |inc| {
        inc.new_max_osd = count;
        inc.crush = crush.to_bytes();
        inc.new_require_osd_release = 16;
        for osd in 0..count {
            inc.new_state.insert(osd, state::EXISTS | state::NEW);
            inc.new_weight.insert(osd, crush::ONE);
        }
        let pool = Pool {
            type_: pool_type::REPLICATED,
            size: 3,
            min_size: 2,
            object_hash: 2,
            pg_num: 32,
            pgp_num: 32,
            flags: pool_flags::HASHPSPOOL,
            ..Pool::default()
        };
        inc.new_pools.insert(1, pool);
        inc.new_pool_names.insert(1, "p".into());
        inc.new_pool_max = 1;
    });
    next(&empty, |inc| {
        for osd in 0..count {
            inc.new_up_client.insert(osd, addrs(6800 + osd as u16));
        }
    })
}

#[test]
fn a_cluster_comes_up() {
    let map = cluster(5);
    assert_eq!((map.epoch, map.fsid, map.osd_counts()), (2, FSID, (5, 5, 5)));
    assert_eq!(map.osd_addr(3), Some(&addrs(6803)));
    assert_eq!((map.osd_addr(5), map.osd_addr(-1)), (None, None));
    assert!(map.has_flag(flags::RECOVERY_DELETES) && map.has_flag(flags::PGLOG_HARDLIMIT));
    assert_eq!((map.up_from(2), map.crush_version, map.pools[&1].last_change), (2, 1, 1));
    for seed in 0..32 {
        let UpActing { up, up_primary, acting, acting_primary } = map.placed(PgId::new(1, seed));
        assert_eq!((up.len(), up, *up_primary), (3, acting, *acting_primary));
    }
    let nowhere = map.placed(PgId::new(1, 32));
    assert_eq!((nowhere.acting.len(), nowhere.acting_primary), (0, NO_OSD));
    assert_eq!(map.object_pg(&Locator::pool(1), b"obj1"), Some(PgId::new(1, 0x1f)));
    assert_eq!(map.object_pg(&Locator::pool(9), b"obj1"), None);
    assert_eq!(map.pool_by_name("p").map(|(id, _)| id), Some(1));
}

#[test]
fn down_out_and_gone() {
    let map = cluster(4);
    let down = next(&map, |inc| {
        inc.new_state.insert(1, state::UP);
    });
    assert!(!down.is_up(1) && down.is_in(1));
    assert_eq!((down.osd_info[1].down_at, down.osd_xinfo[1].down_stamp), (3, NOW));
    assert!((0..32).all(|seed| !down.placed(PgId::new(1, seed)).up.contains(&1)));
    assert!((0..32).any(|seed| down.placed(PgId::new(1, seed)).up.len() == 2));
    let out = next(&down, |inc| {
        inc.new_weight.insert(1, 0);
    });
    assert!(!out.is_in(1) && (0..32).all(|seed| out.placed(PgId::new(1, seed)).up.len() == 3));
    let gone = next(&out, |inc| {
        inc.new_state.insert(1, state::EXISTS);
    });
    assert!(!gone.exists(1));
    assert_eq!((gone.osd_addr(1), gone.osd_info[1].down_at), (None, 0));
    let stopped = next(&map, |inc| {
        inc.new_state.insert(2, state::UP | state::STOP);
    });
    assert!(stopped.state(2) & state::STOP != 0);
    let again = next(&stopped, |inc| {
        inc.new_up_client.insert(2, addrs(7000));
    });
    assert!(again.is_up(2) && again.state(2) & state::STOP == 0);
}

#[test]
fn snapshots_go_through_the_queue() {
    let run = |start, len| Intervals::from_iter([(start, len)]);
    let map = next(&cluster(3), |inc| {
        inc.new_removed_snaps.insert(1, run(4, 3));
    });
    assert!(map.in_removed_snaps_queue(1, 6) && !map.in_removed_snaps_queue(1, 7));
    assert_eq!(map.new_removed_snaps[&1], run(4, 3));
    let map = next(&map, |inc| {
        inc.new_purged_snaps.insert(1, run(4, 2));
    });
    assert!(map.new_removed_snaps.is_empty() && map.new_purged_snaps[&1] == run(4, 2));
    assert_eq!(map.removed_snaps_queue[&1], run(6, 1));
    let map = next(&map, |inc| {
        inc.new_purged_snaps.insert(1, run(6, 1));
    });
    assert!(map.removed_snaps_queue.is_empty());
}

#[test]
fn the_blocklist_knows_instances_and_whole_addresses() {
    let addr =
        |text: &str, nonce| EntityAddr { kind: types::AddrType::Any, nonce, addr: Some(text.parse().expect("an address")) };
    let map = next(&cluster(3), |inc| {
        inc.new_blocklist.insert(addr("10.0.0.7:0", 55), UTime { sec: 9, nsec: 0 });
        inc.new_blocklist.insert(addr("10.0.0.8:0", 0), UTime { sec: 9, nsec: 0 });
        inc.new_blocklist.insert(addr("[fe80::1]:0", 0), UTime { sec: 9, nsec: 0 });
    });
    let listed = |text: &str, nonce| map.is_blocklisted(&EntityAddr::msgr2(text.parse().expect("an address"), nonce));
    assert!(listed("10.0.0.7:0", 55));
    assert!(!listed("10.0.0.7:0", 56) && !listed("10.0.0.7:6800", 55) && !listed("10.0.0.9:0", 55));
    assert!(listed("10.0.0.8:0", 1) && listed("10.0.0.8:6801", 99) && listed("[fe80::1]:4", 4));
    assert!(!map.is_blocklisted(&EntityAddr::default()));
    let map = next(&map, |inc| inc.old_blocklist.push(addr("10.0.0.7:0", 55)));
    assert_eq!(map.blocklist.len(), 2);
}

#[test]
fn steps_that_do_not_fit_are_refused() {
    let map = cluster(3);
    let refused = |change: &dyn Fn(&mut Incremental)| {
        let mut inc = step(&map);
        change(&mut inc);
        map.apply(&inc).err()
    };
    assert_eq!(refused(&|inc| inc.epoch = 7), Some(ApplyError::Epoch { have: 2, step: 7 }));
    assert_eq!(refused(&|inc| inc.fsid = Fsid([4; 16])), Some(ApplyError::Cluster));
    let weight = |inc: &mut Incremental| {
        inc.new_weight.insert(3, 1);
    };
    assert_eq!(refused(&weight), Some(ApplyError::NoSuchOsd(3)));
    let uuid = |inc: &mut Incremental| {
        inc.new_uuid.insert(-1, FSID);
    };
    assert_eq!(refused(&uuid), Some(ApplyError::NoSuchOsd(-1)));
    assert_eq!(refused(&|inc| inc.new_max_osd = i32::MAX), Some(ApplyError::TooManyOsds(i32::MAX)));
    assert_eq!(refused(&|inc| inc.new_pool_max = 1 << 32), Some(ApplyError::PoolMax(1 << 32)));
    assert!(matches!(refused(&|inc| inc.crush = vec![1, 2, 3].into()), Some(ApplyError::Inner(_))));
    assert!(matches!(refused(&|inc| inc.fullmap = vec![1, 2, 3].into()), Some(ApplyError::Inner(_))));
}

/// A step that moves nothing keeps the answers that were computed; one that does, does not.
#[test]
fn placements_are_remembered_as_long_as_they_hold() {
    let map = cluster(5);
    let pg = PgId::new(1, 9);
    let before: *const UpActing = map.placed(pg);
    let still = next(&map, |inc| {
        inc.new_up_thru.insert(0, 2);
    });
    assert!(std::ptr::eq(still.placed(pg), before));
    let quota = next(&map, |inc| {
        let pool = Pool { quota_max_bytes: 1, ..map.pools[&1].clone() };
        inc.new_pools.insert(1, pool);
    });
    assert!(std::ptr::eq(quota.placed(pg), before) && quota.places_as(&map));
    let moved = next(&map, |inc| {
        inc.new_pg_temp.insert(pg, vec![0, 1]);
    });
    assert_eq!((&moved.placed(pg).acting, moved.placed(pg).acting_primary), (&vec![0, 1], 0));
    assert_eq!(moved.placed(pg).up, map.placed(pg).up);
    assert!(!moved.places_as(&map));
    let mut edited = map.clone();
    edited.osd_weight = vec![0; 5];
    assert!(edited.placed(pg).up.is_empty() && !map.placed(pg).up.is_empty());
    Arc::make_mut(&mut edited.crush).rules.clear();
    edited.forget_placements();
    assert!(edited.placed(pg).up.is_empty());
}

/// After any steps, what is remembered is what is computed anew.
#[test]
fn what_steps_carry_over_is_what_would_be_computed() {
    let mut chance = 7u64;
    let mut below = move |bound: u64| {
        chance = chance.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (chance >> 33) % bound
    };
    let osds = 20;
    let mut map = cluster(osds);
    let groups = map.pools[&1].pg_num;
    let (mut kept, mut asked) = (0, 0);
    for round in 0..2000 {
        let earlier: Vec<*const UpActing> = (0..groups).map(|seed| std::ptr::from_ref(map.placed(PgId::new(1, seed)))).collect();
        let (osd, other) = (below(osds as u64) as i32, below(osds as u64) as i32);
        let pg = PgId::new(1, below(u64::from(groups)) as u32);
        let (up, weight) = (map.is_up(osd), map.weight(osd));
        // An exception may name an OSD that the map has no place for.
        let any = below(osds as u64 + 8) as i32;
        let changed = next(&map, |inc| match below(12) {
            0 | 1 if up => drop(inc.new_state.insert(osd, state::UP)),
            2 | 3 => drop(inc.new_up_client.insert(osd, EntityAddrVec::default())),
            4 if weight > 0 => drop(inc.new_weight.insert(osd, 0)),
            5 => drop(inc.new_weight.insert(osd, [0x1_0000, 0x8000, 0x1_0000][below(3) as usize])),
            6 => drop(inc.new_pg_temp.insert(pg, if below(2) == 0 { vec![osd, other] } else { Vec::new() })),
            7 => drop(inc.new_pg_upmap_items.insert(pg, vec![(map.placed(pg).up.first().copied().unwrap_or(0), any)])),
            8 => drop(inc.old_pg_upmap_items.insert(pg)),
            9 => drop(inc.new_primary_affinity.insert(osd, [0, 0x8000, 0x1_0000][below(3) as usize])),
            10 => drop(inc.new_primary_temp.insert(pg, if below(2) == 0 { osd } else { -1 })),
            11 if map.max_osd < osds + 8 => inc.new_max_osd = map.max_osd + 1,
            _ => drop(inc.new_up_thru.insert(osd, 2)),
        });
        // Not everybody asks for all groups of each map.
        for seed in (0..groups).filter(|seed| round % 3 != 0 || seed % 2 == 0) {
            let pg = PgId::new(1, seed);
            let remembered = changed.placed(pg);
            assert_eq!(*remembered, changed.compute_up_acting(pg), "round {round}, {pg}");
            kept += usize::from(std::ptr::eq(remembered, earlier[seed as usize]));
            asked += 1;
        }
        map = changed;
    }
    assert!(kept * 2 > asked, "of {asked} answers {kept} were carried over");
}

#[test]
fn a_remembered_placement_is_cheap() {
    let map = cluster(5);
    let ask = || (0..32).map(|seed| map.placed(PgId::new(1, seed)).acting_primary as i64).sum::<i64>();
    let (expected, rounds) = (ask(), 20_000);
    // The best of several, for the machine may be busy.
    let best = (0..5)
        .map(|_| {
            let start = Instant::now();
            assert!((0..rounds).all(|_| ask() == expected));
            start.elapsed().as_nanos() / (32 * rounds)
        })
        .min();
    println!("{best:?} ns for each lookup");
    assert!(best < Some(500), "{best:?} ns for each lookup");
}

#[test]
fn a_level_is_behind_what_ceph_has_and_never_falls() {
    let first = cluster(3);
    assert_eq!(first.level, Level::FIRST);
    let second = next(&first, |inc| inc.new_level = Some(Level(2)));
    assert_eq!(OsdMap::from_bytes(&second.to_vec()).map(|map| map.level), Ok(Level(2)));
    // Below the second level, the bytes are those that they always were; from there on, an envelope of one byte is behind the OSD part.
    let without = OsdMap { level: Level::FIRST, ..second.clone() }.to_vec();
    assert_eq!(second.to_vec().len(), without.len() + 7);
    let third = next(&second, |inc| inc.new_level = Some(Level(3)));
    assert_eq!(next(&third, |inc| inc.new_level = Some(Level(2))).level, Level(3));
    let down = next(&third, |inc| {
        inc.new_state.insert(0, state::UP);
    });
    assert_eq!(down.level, Level(3));
    // With what is seldom used it stands behind that.
    let ranges = next(&third, |inc| {
        inc.new_range_blocklist.insert(EntityAddr { kind: types::AddrType::Cidr, ..addrs(0).0[0] }, NOW);
    });
    assert_eq!(OsdMap::from_bytes(&ranges.to_vec()).map(|map| map.level), Ok(Level(3)));
}

#[test]
fn damaged_maps_never_panic() {
    let bytes = cluster(6).to_vec();
    let mut seed = 5u64;
    let mut dice = |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % n
    };
    let mut readable = 0;
    for _ in 0..4000 {
        let mut bytes = bytes.clone();
        let (at, bit) = (dice(bytes.len() - 4), dice(8));
        bytes[at] ^= 1 << bit;
        assert!(OsdMap::from_bytes(&bytes).is_err(), "a flipped bit at {at} went unnoticed");
        // With a checksum that fits, only the contents can be refused.
        let end = bytes.len() - 4;
        let crc = kernels::crc32c(kernels::SEED, &bytes[..end]);
        bytes[end..].copy_from_slice(&crc.to_le_bytes());
        let Ok(map) = OsdMap::from_bytes(&bytes) else { continue };
        readable += 1;
        for seed in 0..4 {
            map.placed(PgId::new(1, seed));
        }
        let mut inc = Incremental::new(map.epoch.wrapping_add(1), map.fsid, NOW);
        inc.new_state.insert(0, state::EXISTS);
        inc.new_primary_affinity.insert(1, 5);
        let _ = map.apply(&inc);
    }
    assert!(readable > 500, "only {readable} damaged maps were readable");
}
