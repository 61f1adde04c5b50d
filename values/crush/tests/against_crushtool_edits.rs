//! Random edits made by us and by `crushtool`: the encoded maps must stay the same, byte for byte, shadow trees and
//! alternative weights included. `NACRE_CRUSH_EDIT_SEEDS=N` sets how many sequences are tried.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests keep files and run the stock tools")]

mod common;

use common::{Dice, has_crushtool};
use crush::{Alg, Location, Map, ONE, RuleSpec};
use denc::{Decode, Encode};
use std::process::Command;

const SEEDS: u64 = 12;
const EDITS: usize = 25;

#[test]
fn random_edits_give_the_same_bytes() {
    if !has_crushtool() {
        println!("NOT COMPARED: crushtool is not installed");
        return;
    }
    let seeds = std::env::var("NACRE_CRUSH_EDIT_SEEDS").map_or(SEEDS, |v| v.parse().expect("a number"));
    let done: usize = (1..=seeds).map(compare).sum();
    println!("{done} edits are alike");
    assert!(done > seeds as usize * EDITS / 4, "most edits were refused: {done} done");
}

fn compare(seed: u64) -> usize {
    let mut dice = Dice::new(seed);
    let mut map = start(&mut dice);
    let mut log: Vec<String> = Vec::new();
    let mut done = 0;
    for _ in 0..EDITS {
        let (ours, args) = random_edit(&mut dice, &map);
        // The tool refuses what changes nothing.
        let Some(ours) = ours.ok().filter(|m| *m != map) else { continue };
        let mut ours = ours;
        // The tool counts devices anew before it writes.
        let highest = ours.buckets.iter().flatten().flat_map(|b| b.items.iter().copied()).max();
        ours.max_devices = highest.unwrap_or(-1).max(-1) + 1;
        let theirs = crushtool(&map, &args);
        log.push(format!("{args:?}"));
        let decoded = Map::from_bytes(&theirs).expect("a map");
        if ours.to_vec() != theirs {
            report(&ours, &decoded);
            panic!("seed {seed}: differs after {}", log.join("\n"));
        }
        map = ours;
        done += 1;
    }
    done
}

/// Says where two maps differ.
fn report(ours: &Map, theirs: &Map) {
    for (a, b) in ours.buckets.iter().zip(&theirs.buckets).filter(|(a, b)| a != b) {
        println!("ours   {a:?}\ntheirs {b:?}");
    }
    let mut a = Map { buckets: Vec::new(), ..ours.clone() };
    let mut b = Map { buckets: Vec::new(), ..theirs.clone() };
    if a.choose_args != b.choose_args {
        println!("ours   {:?}\ntheirs {:?}", a.choose_args, b.choose_args);
    }
    (a.choose_args, b.choose_args) = Default::default();
    if a != b || ours.buckets.len() != theirs.buckets.len() {
        println!("ours   {a:?}\ntheirs {b:?}");
    }
}

/// Three hosts with devices of two classes, a rule, now and then alternative weights.
fn start(dice: &mut Dice) -> Map {
    let mut map = Map::new();
    map.add_bucket(11, "default", Alg::Straw2).expect("a new bucket");
    for osd in 0..6 {
        let place = location(&[("root", "default"), ("host", ["a", "b", "c"][osd as usize / 2])]);
        map.insert_item(osd, ONE * (1 + osd as u32), &format!("osd.{osd}"), &place).expect("a new device");
        map.set_device_class(osd, if osd % 3 == 0 { "ssd" } else { "hdd" }).expect("no class yet");
    }
    let spec = RuleSpec { name: "first".into(), root: "default".into(), failure_domain: "host".into(), ..RuleSpec::default() };
    map.add_simple_rule(&RuleSpec { kind: 1, class: "ssd".into(), ..spec }).expect("a new rule");
    if dice.chance(50) {
        // One position: of several, the tool forgets all but the last in shadow trees.
        let sets = |b: &crush::Bucket| crush::ChooseArg { weight_set: vec![b.item_weights()], ids: Vec::new() };
        let args = map.buckets.iter().enumerate().filter_map(|(n, b)| Some((n as u32, sets(b.as_ref()?)))).collect();
        map.choose_args.insert(-1, args);
        map.rebuild_shadow_trees();
    }
    map
}

fn location(place: &[(&str, &str)]) -> Location {
    Location(place.iter().map(|(k, n)| ((*k).to_owned(), (*n).to_owned())).collect())
}

type Edited = Result<Map, crush::Error>;

fn edited<T>(map: &Map, change: impl FnOnce(&mut Map) -> Result<T, crush::Error>) -> Edited {
    let mut map = map.clone();
    change(&mut map)?;
    Ok(map)
}

fn random_edit(dice: &mut Dice, map: &Map) -> (Edited, Vec<String>) {
    let osd = dice.range(0, 12);
    let name = format!("osd.{osd}");
    let weight = dice.below(u64::from(ONE) * 8) as u32;
    let weight_arg = format!("{:.17}", f64::from(weight) / f64::from(ONE));
    let (host, rack) = (*dice.pick(&["a", "b", "c", "d", "e"]), *dice.pick(&["r1", "r2"]));
    let mut place = vec![("root", "default")];
    if dice.chance(40) {
        place.push(("rack", rack));
    }
    let mut loc_args: Vec<String> = place.iter().flat_map(|(k, n)| ["--loc", *k, *n].map(String::from)).collect();
    let bucket_place = location(&place);
    place.push(("host", host));
    let device_loc: Vec<String> = loc_args.iter().cloned().chain(["--loc", "host", host].map(String::from)).collect();
    let device_place = location(&place);
    let args = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<String>>();
    match dice.below(8) {
        0 | 1 => {
            let ours = edited(map, |m| match m.id_of(&name) {
                Some(_) => Err(crush::Error::Exists(name.clone())),
                None => m.insert_item(osd, weight, &name, &device_place),
            });
            (ours, [args(&["--add-item", &osd.to_string(), &weight_arg, &name]), device_loc].concat())
        }
        2 => {
            let ours = edited(map, |m| m.update_item(osd, weight, &name, &device_place));
            (ours, [args(&["--update-item", &osd.to_string(), &weight_arg, &name]), device_loc].concat())
        }
        3 => {
            let (item, name) = if dice.chance(70) { (Some(osd), name) } else { (map.id_of(host), host.to_owned()) };
            let ours = edited(map, |m| m.remove_item(item.ok_or(crush::Error::NotFound(String::new()))?));
            (ours, args(&["--remove-item", &name]))
        }
        4 => {
            let ours = edited(map, |m| match m.adjust_item_weight(osd, weight)? {
                0 => Err(crush::Error::NotFound(name.clone())),
                n => Ok(n),
            });
            (ours, args(&["--reweight-item", &name, &weight_arg]))
        }
        5 => {
            let ours = edited(map, |m| m.move_bucket(m.id_of(host).ok_or(crush::Error::NotFound(String::new()))?, &bucket_place));
            (ours, [args(&["--move", host]), std::mem::take(&mut loc_args)].concat())
        }
        6 => (edited(map, Map::reweight), args(&["--reweight"])),
        _ => {
            let (mode, domain) = (*dice.pick(&["firstn", "indep"]), *dice.pick(&["host", "rack", "osd"]));
            let rule = format!("rule{}", dice.below(5));
            let spec = RuleSpec {
                name: rule.clone(),
                root: "default".into(),
                failure_domain: domain.into(),
                indep: mode == "indep",
                kind: 1,
                ..RuleSpec::default()
            };
            let ours = edited(map, |m| m.add_simple_rule(&spec));
            (ours, args(&["--create-simple-rule", &rule, "default", domain, mode]))
        }
    }
}

fn crushtool(map: &Map, args: &[String]) -> Vec<u8> {
    let (from, to) = (tempfile::NamedTempFile::new().expect("a file"), tempfile::NamedTempFile::new().expect("a file"));
    std::fs::write(from.path(), map.to_vec()).expect("the map");
    let mut command = Command::new("crushtool");
    command.arg("-i").arg(from.path()).args(args).arg("-o").arg(to.path());
    let output = command.output().expect("crushtool");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(to.path()).expect("a map")
}
