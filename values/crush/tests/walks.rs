//! Walks over maps, and what people see of them.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests keep files and run the stock tools")]

use crush::{Error, Location, Map, ONE, RuleSpec};
use std::process::Command;

fn small() -> Map {
    let mut map = Map::new();
    for (osd, host, class) in [(0, "b", "ssd"), (1, "b", "hdd"), (2, "a", "hdd"), (3, "a", "hdd"), (4, "c", "ssd")] {
        let place = Location::parse(["root=default", &format!("host={host}")]).expect("a place");
        map.insert_item(osd, ONE * (osd as u32 + 1), &format!("osd.{osd}"), &place).expect("a new device");
        map.set_device_class(osd, class).expect("no class yet");
    }
    map.add_bucket(11, "another", crush::Alg::Straw2).expect("a new bucket");
    map
}

#[test]
fn the_tree_is_in_the_order_of_ceph() {
    let map = small();
    let lines: Vec<(i32, usize)> = map.tree(false).iter().map(|n| (n.id, n.depth)).collect();
    let id = |name| map.id_of(name).expect("a bucket");
    let (default, another) = (id("default"), id("another"));
    let expected = [(id("a"), 1), (2, 2), (3, 2), (id("b"), 1), (1, 2), (0, 2), (id("c"), 1), (4, 2)];
    assert!(another < default);
    assert_eq!(lines, [&[(another, 0), (default, 0)], &expected[..]].concat());
    let root = &map.tree(false)[1];
    assert_eq!((root.weight, &root.children[..]), (15 * ONE, &[id("c"), id("b"), id("a")][..]));
    assert_eq!(map.full_location(3)[0], ("host".to_owned(), "a".to_owned()));
    assert_eq!(map.full_location(3)[1], ("root".to_owned(), "default".to_owned()));
}

#[test]
fn crushtool_prints_the_tree_in_the_same_order() {
    let map = small();
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), denc::Encode::to_vec(&map)).expect("the map");
    let Ok(output) = Command::new("crushtool").arg("-i").arg(file.path()).arg("--tree").output() else {
        println!("NOT COMPARED: crushtool is not installed");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let theirs: Vec<i32> = text.lines().filter_map(|l| l.split_whitespace().next()?.parse().ok()).collect();
    let ours: Vec<i32> = map.tree(true).iter().map(|n| n.id).collect();
    assert_eq!(ours, theirs, "{text}");
}

#[test]
fn a_rule_for_a_class_shares_by_weight_among_its_devices() {
    let mut map = small();
    let spec = RuleSpec { name: "fast".into(), root: "default".into(), class: "ssd".into(), kind: 1, ..RuleSpec::default() };
    let rule = map.add_simple_rule(&spec).expect("a new rule");
    let shares = map.rule_weights(rule.into());
    assert_eq!(shares.keys().copied().collect::<Vec<_>>(), [0, 4]);
    assert!((shares[&4] - 5.0 / 6.0).abs() < 1e-9);
    for x in 0..100 {
        assert!(map.place(rule.into(), x, 2, &[ONE; 5], None).iter().all(|osd| [0, 4].contains(osd)));
    }
    assert!(matches!(map.add_simple_rule(&spec), Err(Error::Exists(_))));
    let other = RuleSpec { name: "x".into(), class: "nvme".into(), ..spec };
    assert!(matches!(map.add_simple_rule(&other), Err(Error::Invalid(_))));
}

#[test]
fn what_is_in_use_stays() {
    let mut map = small();
    let a = map.id_of("a").expect("a bucket");
    assert!(matches!(map.remove_item(a), Err(Error::Busy(_))));
    assert!(matches!(map.set_device_class(0, "hdd"), Err(Error::Busy(_))));
    let inside = Location::parse(["host=a"]).expect("a place");
    let default = map.id_of("default").expect("a bucket");
    assert!(map.move_bucket(default, &inside).is_err());
    let before = map.clone();
    let wrong = Location::parse(["rack=a"]).expect("a place");
    assert!(map.insert_item(9, ONE, "osd.9", &wrong).is_err());
    assert_eq!(map, before);
}

#[test]
fn swapped_buckets_exchange_what_they_hold() {
    let mut map = small();
    let id = |map: &Map, name| map.id_of(name).expect("a bucket");
    let (a, b) = (id(&map, "a"), id(&map, "b"));
    map.swap_buckets(a, b).expect("two hosts");
    assert_eq!(map.bucket(a).expect("a").items, [0, 1]);
    assert_eq!((map.item_weight(a), map.item_weight(b), map.item_weight(3)), (3 * ONE, 7 * ONE, 4 * ONE));
    assert!(map.swap_buckets(a, id(&map, "default")).is_err());
    assert_eq!(map.adjust_subtree_weight(a, ONE / 2), Ok(2));
    assert_eq!(map.item_weight(a), ONE);
    assert_eq!(map.unlink_item(0, None), Ok(1));
    assert!(map.parents(0).is_empty() && map.name_of(0) == Some("osd.0"));
    assert_eq!(map.rename_bucket("a", "z"), Ok(()));
    assert_eq!(map.id_of("z~hdd").and_then(|shadow| map.split_shadow(shadow)).map(|(original, _)| original), Some(a));
}
