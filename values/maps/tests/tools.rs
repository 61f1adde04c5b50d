//! Ceph's own tools as judges of what we encode: they read our maps and say what is in them.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests keep files and run the stock tools")]

use denc::Encode;
use maps::{MonInfo, MonMap, OptValue, OsdMap, Pool, flags, opts, pool_flags, pool_type, state};
use std::process::Command;
use std::sync::Arc;
use types::{EntityAddr, EntityAddrVec, Fsid, UTime};

/// Returns what a tool prints about encoded bytes; `None` if it is not installed.
fn ask(tool: &str, bytes: &[u8], before: &[&str], after: &[&str]) -> Option<String> {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), bytes).expect("the bytes");
    let Ok(output) = Command::new(tool).args(before).arg(file.path()).args(after).output() else {
        println!("NOT CHECKED: {tool} is not installed");
        return None;
    };
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{tool}: {text}");
    Some(text)
}

fn small_crush() -> crush::Map {
    let mut map = crush::Map::new();
    for osd in 0..4 {
        let host = format!("host=h{}", osd / 2);
        let place = crush::Location::parse(["root=default", &host]).expect("a place");
        map.insert_item(osd, crush::ONE, &format!("osd.{osd}"), &place).expect("a free place");
        map.set_device_class(osd, if osd % 2 == 0 { "ssd" } else { "hdd" }).expect("no class yet");
    }
    let spec = crush::RuleSpec {
        name: "replicated_rule".into(),
        root: "default".into(),
        failure_domain: "host".into(),
        kind: pool_type::REPLICATED,
        ..crush::RuleSpec::default()
    };
    map.add_simple_rule(&spec).expect("a new rule");
    let ssd = crush::RuleSpec { name: "fast".into(), class: "ssd".into(), indep: true, kind: 3, max_size: 6, ..spec };
    map.add_simple_rule(&ssd).expect("a new rule");
    map
}

fn addrs(port: u16) -> EntityAddrVec {
    let addr = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    EntityAddrVec(vec![EntityAddr::msgr2(addr, 77)])
}

fn small_osd_map() -> OsdMap {
    let fsid = Fsid([0xab; 16]);
    let mut map = OsdMap { fsid, epoch: 5, created: UTime { sec: 1, nsec: 0 }, ..OsdMap::default() };
    map.set_max_osd(4);
    map.osd_state = vec![state::EXISTS | state::UP; 4];
    map.osd_weight = vec![crush::ONE; 4];
    for osd in 0..4 {
        map.client_addrs[osd] = addrs(6800 + osd as u16);
        map.cluster_addrs[osd] = addrs(6900 + osd as u16);
    }
    map.crush = Arc::new(small_crush());
    (map.nearfull_ratio, map.full_ratio, map.backfillfull_ratio) = (0.85, 0.95, 0.9);
    (map.require_min_compat_client, map.require_osd_release) = (12, 16);
    let pool = Pool {
        type_: pool_type::REPLICATED,
        size: 2,
        min_size: 1,
        object_hash: 2,
        pg_num: 8,
        pgp_num: 8,
        pg_num_target: 8,
        pgp_num_target: 8,
        pg_num_pending: 8,
        flags: pool_flags::HASHPSPOOL,
        ..Pool::default()
    };
    map.pools.insert(1, pool);
    map.pool_name.insert(1, "data".into());
    map.pool_max = 1;
    map
}

#[test]
fn osdmaptool_reads_our_maps() {
    let Some(text) = ask("osdmaptool", &small_osd_map().to_vec(), &[], &["--print"]) else { return };
    assert!(text.contains("epoch 5"), "{text}");
    assert!(text.contains("pool 1 'data' replicated size 2 min_size 1 crush_rule 0 object_hash rjenkins pg_num 8"), "{text}");
    assert!(text.contains("osd.3 up   in  weight 1"), "{text}");
}

/// What is ours alone stands where Ceph's programs do not look.
#[test]
fn osdmaptool_reads_maps_with_layouts() {
    let mut map = small_osd_map();
    let crush_rule = 1;
    let pool = Pool {
        type_: pool_type::ERASURE,
        size: 3,
        min_size: 2,
        crush_rule,
        pg_num: 8,
        pgp_num: 8,
        stripe_width: 8192,
        ..Pool::default()
    };
    map.pools.insert(9, Pool { erasure_code_profile: "p".into(), ..pool });
    map.pool_name.insert(9, "shards".into());
    map.pool_max = 9;
    map.level = types::level::Level(5);
    let profile = [("k".to_owned(), "2".to_owned())].into();
    map.layouts.insert(9, maps::Layouts::one(maps::Layout { data: 2, most_chunk: 65536, profile }));
    let Some(text) = ask("osdmaptool", &map.to_bytes(), &["--print"], &[]) else { return };
    assert!(text.contains("pool 9 'shards' erasure profile p size 3 min_size 2") && text.contains("stripe_width 8192"), "{text}");
}

#[test]
fn a_wrong_checksum_is_noticed_by_both() {
    let mut bytes = small_osd_map().to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    assert!(<OsdMap as denc::Decode>::from_bytes(&bytes).is_err());
}

/// Every bit of the flags, by its name.
#[test]
fn flags_are_called_as_ceph_calls_them() {
    for (bit, name) in flags::NAMES {
        let map = OsdMap { flags: bit, ..small_osd_map() };
        let Some(text) = ask("osdmaptool", &map.to_vec(), &[], &["--print"]) else { return };
        let line = text.lines().find(|l| l.starts_with("flags")).expect("a line of flags");
        let shown = match bit {
            flags::PAUSERD | flags::PAUSEWR | flags::PAUSEREC => line.contains(name),
            // These are taken off as the map is read: other fields say the same now.
            flags::NEARFULL | flags::FULL => continue,
            _ if bit & flags::LEGACY_REQUIRE_FLAGS != 0 => continue,
            _ => line.split([' ', ',']).any(|word| word == name),
        };
        assert!(shown, "{name}: {line}");
    }
    for (bit, name) in pool_flags::NAMES {
        let mut map = small_osd_map();
        map.pools.get_mut(&1).expect("the pool").flags = bit;
        let Some(text) = ask("osdmaptool", &map.to_vec(), &[], &["--print"]) else { return };
        let line = text.lines().find(|l| l.starts_with("pool 1")).expect("the pool");
        let (_, shown) = line.split_once(" flags ").expect("flags");
        // The tool has no name for EIO.
        let name = if bit == pool_flags::EIO { "???" } else { name };
        assert!(shown.split([' ', ',']).any(|word| word == name), "{name}: {line}");
    }
    for (bit, name) in state::NAMES {
        let mut map = small_osd_map();
        map.osd_state[1] |= bit;
        let Some(text) = ask("osdmaptool", &map.to_vec(), &[], &["--dump", "json"]) else { return };
        let (_, osd) = text.split_once("\"osd\":1,").expect("osd.1");
        let (_, states) = osd.split_once("\"state\":[").expect("its state");
        let (states, _) = states.split_once(']').expect("an end");
        assert!(states.split(',').any(|word| word.trim_matches('"') == name), "{name}: {states}");
    }
}

#[test]
fn pool_options_are_numbered_as_ceph_numbers_them() {
    for (number, name, value) in opts::ALL.map(|(number, name, example)| {
        let value = match example {
            's' => OptValue::Str("zz".into()),
            'i' => OptValue::Int(4242),
            _ => OptValue::Double(0.5),
        };
        (number, name, value)
    }) {
        let mut map = small_osd_map();
        map.pools.get_mut(&1).expect("the pool").opts.insert(number, value);
        let Some(text) = ask("osdmaptool", &map.to_vec(), &[], &["--dump", "json"]) else { return };
        assert!(text.contains(&format!("\"options\":{{\"{name}\":")), "{name}: {text}");
    }
}

#[test]
fn crushtool_reads_our_maps() {
    let map = small_crush();
    let Some(text) = ask("crushtool", &map.to_vec(), &["-d"], &[]) else { return };
    assert!(text.contains("step take default class ssd"), "{text}");
    assert!(text.contains("device 3 osd.3 class hdd"), "{text}");
    // Compiling what it printed gives the same map: ids, sums, shadows, room for growth.
    let source = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(source.path(), &text).expect("the source");
    let compiled = tempfile::NamedTempFile::new().expect("a temporary file");
    let status = Command::new("crushtool").arg("-c").arg(source.path()).arg("-o").arg(compiled.path()).status();
    assert!(status.expect("crushtool").success());
    let theirs = <crush::Map as denc::Decode>::from_bytes(&std::fs::read(compiled.path()).expect("a map")).expect("a map");
    assert_eq!(theirs.buckets, map.buckets);
    assert_eq!(theirs.rules, map.rules);
    assert_eq!(theirs.class_buckets, map.class_buckets);
}

#[test]
fn monmaptool_reads_our_maps() {
    let mut map = MonMap { fsid: Fsid([0xcd; 16]), epoch: 3, min_mon_release: 16, strategy: 1, ..MonMap::default() };
    map.persistent_features = maps::ALL_MON_FEATURES;
    map.add(MonInfo { name: "a".into(), public_addrs: addrs(3300), ..MonInfo::default() });
    map.add(MonInfo { name: "b".into(), public_addrs: addrs(3301), ..MonInfo::default() });
    let Some(text) = ask("monmaptool", &map.to_vec(), &["--print"], &[]) else { return };
    assert!(text.contains("epoch 3") && text.contains("min_mon_release 16 (pacific)"), "{text}");
    assert!(text.contains("1: v2:127.0.0.1:3301/77 mon.b"), "{text}");
}
