//! Commands on the CRUSH map: buckets, weights, classes.

use super::osd::weight;
use super::shared::{edit, refusal};
use super::{Cx, Row, erasure, row};
use crush::{Contents, Location, Map, ONE, Profile, op};
use denc::{Decode, Encode};
use grammar::{Align::Left, Args, Outcome, Refusal, Reply, Table, refuse, units::number};
use serde_json::{Value, json};
use types::OsdId;

pub(super) const ROWS: &[Row] = &[
    row("osd crush dump", "show the CRUSH map", "osd", "r", dump),
    row("osd crush tree <shadow:Choices req=false strings=--show-shadow>", "show the CRUSH tree", "osd", "r", tree),
    row("osd crush ls <node:String goodchars=[A-Za-z0-9-_.]>", "list what is in a bucket", "osd", "r", ls),
    row("osd crush show-tunables", "show how placement tries", "osd", "r", show_tunables),
    row("osd crush get-tunable <tunable:Choices strings=straw_calc_version>", "show a tunable", "osd", "r", get_tunable),
    row(
        "osd crush set-tunable <tunable:Choices strings=straw_calc_version> <value:Int>",
        "set a tunable",
        "osd",
        "rw",
        set_tunable,
    ),
    row(
        "osd crush tunables <profile:Choices strings=legacy|argonaut|bobtail|firefly|hammer|jewel|optimal|default>",
        "set how placement tries",
        "osd",
        "rw",
        tunables,
    ),
    row("osd setcrushmap <prior_version:Int req=false>", "set the CRUSH map from a file", "osd", "rw", set_map),
    // Before the next one, which takes any arguments.
    row(
        "osd crush set <id:OsdName> <weight:Float range=0.0> <args:String goodchars=[A-Za-z0-9-_.=] n=N>",
        "give an OSD this weight and place",
        "osd",
        "rw",
        set,
    ),
    row("osd crush set <prior_version:Int req=false>", "set the CRUSH map from a file", "osd", "rw", set_map),
    row(
        "osd crush add <id:OsdName> <weight:Float range=0.0> <args:String goodchars=[A-Za-z0-9-_.=] n=N>",
        "put an OSD at a place",
        "osd",
        "rw",
        add,
    ),
    row(
        "osd crush create-or-move <id:OsdName> <weight:Float range=0.0> <args:String goodchars=[A-Za-z0-9-_.=] n=N>",
        "put an OSD at a place, keeping its weight",
        "osd",
        "rw",
        create_or_move,
    ),
    row(
        "osd crush add-bucket <name:String goodchars=[A-Za-z0-9-_.]> <type:String> <args:String goodchars=[A-Za-z0-9-_.=] n=N req=false>",
        "make a bucket",
        "osd",
        "rw",
        add_bucket,
    ),
    row(
        "osd crush rename-bucket <srcname:String goodchars=[A-Za-z0-9-_.]> <dstname:String goodchars=[A-Za-z0-9-_.]>",
        "give a bucket another name",
        "osd",
        "rw",
        rename_bucket,
    ),
    row(
        "osd crush move <name:String goodchars=[A-Za-z0-9-_.]> <args:String goodchars=[A-Za-z0-9-_.=] n=N>",
        "move a bucket or OSD",
        "osd",
        "rw",
        move_item,
    ),
    row(
        "osd crush link <name:String goodchars=[A-Za-z0-9-_.]> <args:String goodchars=[A-Za-z0-9-_.=] n=N>",
        "put a bucket at a further place",
        "osd",
        "rw",
        link,
    ),
    row(
        "osd crush unlink <name:String goodchars=[A-Za-z0-9-_.]> <ancestor:String goodchars=[A-Za-z0-9-_.] req=false>",
        "take a bucket or OSD out of its place",
        "osd",
        "rw",
        unlink,
    ),
    row(
        "osd crush rm <name:String goodchars=[A-Za-z0-9-_.]> <ancestor:String goodchars=[A-Za-z0-9-_.] req=false>",
        "remove a bucket or OSD",
        "osd",
        "rw",
        rm,
    ),
    row(
        "osd crush remove <name:String goodchars=[A-Za-z0-9-_.]> <ancestor:String goodchars=[A-Za-z0-9-_.] req=false>",
        "remove a bucket or OSD",
        "osd",
        "rw",
        rm,
    ),
    row(
        "osd crush swap-bucket <source:String goodchars=[A-Za-z0-9-_.]> <dest:String goodchars=[A-Za-z0-9-_.]> <yes_i_really_mean_it:Bool req=false>",
        "exchange what two buckets contain",
        "osd",
        "rw",
        swap,
    ),
    row(
        "osd crush reweight <name:String goodchars=[A-Za-z0-9-_.]> <weight:Float range=0.0>",
        "set an OSD's weight",
        "osd",
        "rw",
        reweight,
    ),
    row(
        "osd crush reweight-subtree <name:String goodchars=[A-Za-z0-9-_.]> <weight:Float range=0.0>",
        "set the weight of all OSDs below a bucket",
        "osd",
        "rw",
        reweight_subtree,
    ),
    row("osd crush reweight-all", "compute the weights of all buckets anew", "osd", "rw", reweight_all),
    row("osd crush class ls", "list the device classes", "osd", "r", class_ls),
    row("osd crush class ls-osd <class:String goodchars=[A-Za-z0-9-_]>", "list the OSDs of a class", "osd", "r", class_ls_osd),
    row("osd crush class create <class:String goodchars=[A-Za-z0-9-_]>", "make a device class", "osd", "rw", class_create),
    row("osd crush class rm <class:String goodchars=[A-Za-z0-9-_]>", "remove a device class", "osd", "rw", class_rm),
    row(
        "osd crush class rename <srcname:String goodchars=[A-Za-z0-9-_]> <dstname:String goodchars=[A-Za-z0-9-_]>",
        "give a device class another name",
        "osd",
        "rw",
        class_rename,
    ),
    row("osd crush set-device-class <class:String> <ids:String n=N>", "put OSDs into a class", "osd", "rw", set_class),
    row("osd crush rm-device-class <ids:String n=N>", "take OSDs out of their classes", "osd", "rw", rm_class),
    row("osd crush get-device-class <ids:String n=N>", "show the classes of OSDs", "osd", "r", get_class),
    row("osd crush set-all-straw-buckets-to-straw2", "let all straw buckets draw as straw2 ones", "osd", "rw", straw2),
];

fn place(args: &Args) -> Result<Location, Refusal> {
    Location::parse(args.list("args")).map_err(refusal)
}

/// Writes a place: `{host=a,root=default}`
fn place_text(place: &Location) -> String {
    let parts: Vec<String> = place.0.iter().map(|(k, v)| format!("{k}={v}")).collect();
    format!("{{{}}}", parts.join(","))
}

fn fixed(args: &Args) -> u32 {
    (args.float("weight").unwrap_or(0.0) * f64::from(ONE)).min(f64::from(u32::MAX)) as u32
}

fn item(map: &Map, name: &str) -> Result<i32, Refusal> {
    match map.id_of(name) {
        Some(id) => Ok(id),
        None => refuse!(ENOENT, "item '{name}' does not exist"),
    }
}

fn set(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (osd, place, w) = (cx.existing_osd(args, "id")?, place(args)?, fixed(args));
    edit(cx, |m| m.update_item(osd, w, &format!("osd.{osd}"), &place))?;
    Ok(Reply::status(format!(
        "set item id {osd} name 'osd.{osd}' weight {} at location {} to crush map",
        number(args.float("weight").unwrap_or(0.0)),
        place_text(&place)
    )))
}

fn add(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (osd, place, w) = (cx.existing_osd(args, "id")?, place(args)?, fixed(args));
    edit(cx, |m| m.update_item(osd, w, &format!("osd.{osd}"), &place))?;
    Ok(Reply::status(format!(
        "add item id {osd} name 'osd.{osd}' weight {} at location {} to crush map",
        number(args.float("weight").unwrap_or(0.0)),
        place_text(&place)
    )))
}

fn create_or_move(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (osd, place, w) = (cx.existing_osd(args, "id")?, place(args)?, fixed(args));
    edit(cx, |m| m.create_or_move_item(osd, w, &format!("osd.{osd}"), &place))?;
    Ok(Reply::status(format!(
        "create-or-move updating item name 'osd.{osd}' weight {} at location {} to crush map",
        number(args.float("weight").unwrap_or(0.0)),
        place_text(&place)
    )))
}

fn add_bucket(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (name, kind) = (args.str("name").to_string(), args.str("type").to_string());
    if cx.state.osdmap.crush.id_of(&name).is_some() {
        return Ok(Reply::status(format!("bucket '{name}' already exists")));
    }
    let Some(type_id) = cx.state.osdmap.crush.type_id(&kind).filter(|t| *t > 0) else {
        refuse!(EINVAL, "type '{kind}' does not exist")
    };
    let place = place(args)?;
    edit(cx, |m| {
        let alg = m.default_alg();
        let id = m.add_bucket(type_id, &name, alg)?;
        if place.0.is_empty() { Ok(()) } else { m.move_bucket(id, &place) }
    })?;
    if place.0.is_empty() {
        return Ok(Reply::status(format!("added bucket {name} type {kind} to crush map")));
    }
    Ok(Reply::status(format!("added bucket {name} type {kind} to location {}", place_text(&place))))
}

fn rename_bucket(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (from, to) = (args.str("srcname"), args.str("dstname"));
    edit(cx, |m| m.rename_bucket(from, to))?;
    Ok(Reply::status(format!("renamed bucket {from} into {to}")))
}

fn move_item(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (name, place) = (args.str("name"), place(args)?);
    let id = item(&cx.state.osdmap.crush, name)?;
    let moved = edit(cx, |m| {
        if m.is_at(id, &place) {
            return Ok(false);
        }
        if id >= 0 {
            m.create_or_move_item(id, m.item_weight(id), name, &place)
        } else {
            m.move_bucket(id, &place).map(|()| true)
        }
    })?;
    let verb = if moved { "moved item id" } else { "no need to move item id" };
    let tail = if moved { " in crush map" } else { "" };
    Ok(Reply::status(format!("{verb} {id} name '{name}' to location {}{tail}", place_text(&place))))
}

fn link(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (name, place) = (args.str("name"), place(args)?);
    let id = item(&cx.state.osdmap.crush, name)?;
    edit(cx, |m| m.link_bucket(id, &place))?;
    Ok(Reply::status(format!("linked item id {id} name '{name}' to location {} in crush map", place_text(&place))))
}

fn ancestor(cx: &Cx<'_>, args: &Args) -> Result<Option<i32>, Refusal> {
    args.opt("ancestor").map(|name| item(&cx.state.osdmap.crush, name)).transpose()
}

fn unlink(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("name");
    let (id, under) = (item(&cx.state.osdmap.crush, name)?, ancestor(cx, args)?);
    edit(cx, |m| m.unlink_item(id, under))?;
    Ok(Reply::status(format!("unlinked item id {id} name '{name}' from crush map")))
}

fn rm(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("name");
    let Some(id) = cx.state.osdmap.crush.id_of(name) else {
        return Ok(Reply::status(format!("device '{name}' does not appear in the crush map")));
    };
    let under = ancestor(cx, args)?;
    edit(cx, |m| if under.is_some() { m.unlink_item(id, under).map(drop) } else { m.remove_item(id) })?;
    Ok(Reply::status(format!("removed item id {id} name '{name}' from crush map")))
}

fn swap(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (a, b) = (args.str("source"), args.str("dest"));
    let (from, to) = (item(&cx.state.osdmap.crush, a)?, item(&cx.state.osdmap.crush, b)?);
    if !args.flag("yes_i_really_mean_it") && !cx.state.osdmap.crush.parents(from).is_empty() {
        refuse!(EPERM, "bucket '{a}' is in the tree; pass --yes-i-really-mean-it to exchange what it contains all the same");
    }
    edit(cx, |m| m.swap_buckets(from, to))?;
    Ok(Reply::status(format!("swapped bucket of {a} to {b}")))
}

fn reweight(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("name");
    let id = item(&cx.state.osdmap.crush, name)?;
    if id < 0 {
        refuse!(EINVAL, "device '{name}' is not a leaf in the crush map");
    }
    let w = fixed(args);
    edit(cx, |m| m.adjust_item_weight(id, w))?;
    Ok(Reply::status(format!(
        "reweighted item id {id} name '{name}' to {} in crush map",
        number(args.float("weight").unwrap_or(0.0))
    )))
}

fn reweight_subtree(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("name");
    let id = item(&cx.state.osdmap.crush, name)?;
    let w = fixed(args);
    edit(cx, |m| m.adjust_subtree_weight(id, w))?;
    Ok(Reply::status(format!(
        "reweighted subtree id {id} name '{name}' to {} in crush map",
        number(args.float("weight").unwrap_or(0.0))
    )))
}

fn reweight_all(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    edit(cx, Map::reweight)?;
    Ok(Reply::status("reweighted crush hierarchy"))
}

fn straw2(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    edit(cx, |m| {
        let straw: Vec<i32> =
            m.buckets.iter().flatten().filter(|b| matches!(b.contents, Contents::Straw { .. })).map(|b| b.id).collect();
        for id in straw {
            if let Some(bucket) = m.bucket_mut(id) {
                let weights = bucket.item_weights();
                bucket.contents = Contents::Straw2 { weights };
            }
        }
        Ok(())
    })?;
    Ok(Reply::default())
}

fn set_map(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let version = cx.state.osdmap.crush_version;
    if let Some(prior) = args.int("prior_version").filter(|p| *p != i64::from(version)) {
        // The last change may come again from somebody who did not hear the answer.
        if prior == i64::from(version) - 1 && cx.input[..] == cx.state.osdmap.crush.to_bytes()[..] {
            return Ok(Reply::status(version.to_string()));
        }
        refuse!(EPERM, "prior_version {prior} != crush version {version}");
    }
    let map = match Map::from_bytes(&cx.input) {
        Ok(map) => map,
        Err(why) => refuse!(EINVAL, "Failed to parse crushmap: {why}"),
    };
    for (id, pool) in &cx.state.osdmap.pools {
        if map.rule(pool.crush_rule.into()).is_none() {
            refuse!(EINVAL, "pool '{}' uses rule {}, which this map does not have", cx.state.pool_name(*id), pool.crush_rule);
        }
    }
    let beyond = map.buckets.iter().flatten().flat_map(|b| b.items.iter().copied()).find(|d| *d >= cx.state.osdmap.max_osd);
    if let Some(device) = beyond {
        refuse!(EINVAL, "this map places osd.{device}, but there may only be {} OSDs", cx.state.osdmap.max_osd);
    }
    cx.inc().crush = map.to_bytes();
    Ok(Reply::status((version + 1).to_string()))
}

fn tunables(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("profile");
    let Some(profile) = Profile::from_name(name) else { refuse!(EINVAL, "unrecognized profile '{name}'") };
    edit(cx, |m| {
        m.tunables.set_profile(profile);
        Ok(())
    })?;
    Ok(Reply::status(format!("adjusted tunables profile to {name}")))
}

fn get_tunable(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let n = cx.state.osdmap.crush.tunables.straw_calc_version;
    Ok(cx.show("tunable", json!({"straw_calc_version": n}), || format!("{n}\n")))
}

fn set_tunable(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let n = match args.int("value") {
        Some(n @ 0..=1) => n as u8,
        _ => refuse!(EINVAL, "value must be 0 or 1"),
    };
    edit(cx, |m| {
        m.tunables.straw_calc_version = n;
        Ok(())
    })?;
    Ok(Reply::status(format!("adjusted tunable straw_calc_version to {n}")))
}

fn tunables_dump(map: &Map) -> Value {
    let t = &map.tunables;
    let profile = t.profile();
    let v2 = map.rules.iter().flatten().any(|r| {
        r.steps
            .iter()
            .any(|s| matches!(s.op, op::CHOOSE_INDEP | op::CHOOSELEAF_INDEP | op::SET_CHOOSE_TRIES | op::SET_CHOOSELEAF_TRIES))
    });
    let v3 = map.rules.iter().flatten().any(|r| r.steps.iter().any(|s| s.op == op::SET_CHOOSELEAF_VARY_R));
    let v5 = map.rules.iter().flatten().any(|r| r.steps.iter().any(|s| s.op == op::SET_CHOOSELEAF_STABLE));
    let v4 = map.buckets.iter().flatten().any(|b| matches!(b.contents, Contents::Straw2 { .. }));
    let flag = u32::from;
    let needs5 = t.chooseleaf_stable != 0;
    let needs3 = t.chooseleaf_vary_r != 0;
    let minimum = if v5 || needs5 {
        "jewel"
    } else if v4 {
        "hammer"
    } else if v3 || needs3 {
        "firefly"
    } else {
        "bobtail"
    };
    json!({
        "choose_local_tries": t.choose_local_tries,
        "choose_local_fallback_tries": t.choose_local_fallback_tries,
        "choose_total_tries": t.choose_total_tries,
        "chooseleaf_descend_once": t.chooseleaf_descend_once,
        "chooseleaf_vary_r": t.chooseleaf_vary_r,
        "chooseleaf_stable": t.chooseleaf_stable,
        "straw_calc_version": t.straw_calc_version,
        "allowed_bucket_algs": t.allowed_bucket_algs,
        "profile": profile.map_or("unknown", Profile::name),
        "optimal_tunables": flag(profile == Some(Profile::Jewel)),
        "legacy_tunables": flag(profile == Some(Profile::Argonaut)),
        "minimum_required_version": minimum,
        "require_feature_tunables": flag(t.choose_local_tries != 2 || t.choose_total_tries != 19),
        "require_feature_tunables2": flag(t.chooseleaf_descend_once != 0),
        "has_v2_rules": flag(v2),
        "require_feature_tunables3": flag(needs3),
        "has_v3_rules": flag(v3),
        "has_v4_buckets": flag(v4),
        "require_feature_tunables5": flag(needs5),
        "has_v5_rules": flag(v5),
    })
}

fn show_tunables(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = tunables_dump(&cx.state.osdmap.crush);
    Ok(cx.structure("crush_map_tunables", &value))
}

/// The CRUSH map as a structure.
pub(super) fn map_dump(map: &Map) -> Value {
    let devices: Vec<Value> = (0..map.max_devices)
        .filter(|d| map.name_of(*d).is_some())
        .map(|d| {
            let mut v = json!({"id": d, "name": map.name_of(d)});
            if let Some(class) = map.class_of(d) {
                v["class"] = json!(class);
            }
            v
        })
        .collect();
    let types: Vec<Value> = map.types.iter().map(|(id, name)| json!({"type_id": id, "name": name})).collect();
    let buckets: Vec<Value> = map
        .buckets
        .iter()
        .flatten()
        .map(|b| {
            let items: Vec<Value> =
                b.items.iter().enumerate().map(|(pos, id)| json!({"id": id, "weight": b.item_weight(pos), "pos": pos})).collect();
            json!({
                "id": b.id, "name": map.name_of(b.id).unwrap_or_default(), "type_id": b.kind, "type_name": map.type_name(b.kind.into()).unwrap_or_default(),
                "weight": b.weight, "alg": b.alg().name(), "hash": "rjenkins1", "items": items,
            })
        })
        .collect();
    json!({
        "devices": devices,
        "types": types,
        "buckets": buckets,
        "rules": super::crush_rules::rules_dump(map),
        "tunables": tunables_dump(map),
        "choose_args": choose_args_dump(map),
    })
}

fn choose_args_dump(map: &Map) -> Value {
    let fraction = |w: &u32| f64::from(*w) / f64::from(ONE);
    let all: serde_json::Map<String, Value> = map
        .choose_args
        .iter()
        .map(|(pool, args)| {
            let rows: Vec<Value> = args
                .iter()
                .map(|(index, arg)| {
                    let mut row = json!({"bucket_id": -1 - i64::from(*index)});
                    if !arg.weight_set.is_empty() {
                        row["weight_set"] = arg.weight_set.iter().map(|ws| ws.iter().map(fraction).collect::<Vec<_>>()).collect();
                    }
                    if !arg.ids.is_empty() {
                        row["ids"] = json!(arg.ids);
                    }
                    row
                })
                .collect();
            (pool.to_string(), rows.into())
        })
        .collect();
    Value::Object(all)
}

fn dump(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = map_dump(&cx.state.osdmap.crush);
    Ok(cx.structure("crush_map", &value))
}

fn tree(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let shadow = args.opt("shadow").is_some();
    let map = &cx.state.osdmap;
    let nodes = map.crush.tree(shadow);
    let value = json!({
        "nodes": nodes
            .iter()
            .map(|n| {
                let kind = map.crush.kind_of(n.id).unwrap_or(0);
                let mut v = json!({"id": n.id});
                if n.id >= 0 {
                    v["device_class"] = json!(map.crush.class_of(n.id).unwrap_or_default());
                }
                v["name"] = json!(map.crush.name_of(n.id).unwrap_or("?"));
                v["type"] = json!(map.crush.type_name(kind).unwrap_or("?"));
                v["type_id"] = json!(kind);
                if n.id >= 0 {
                    v["crush_weight"] = json!(f64::from(n.weight) / f64::from(ONE));
                    v["depth"] = json!(n.depth);
                }
                if n.depth > 0 {
                    v["pool_weights"] = json!({});
                }
                if n.id < 0 {
                    v["children"] = json!(n.children);
                }
                v
            })
            .collect::<Vec<_>>(),
        "stray": [],
    });
    Ok(cx.show("crush_tree", value, || {
        let right = grammar::Align::Right;
        let mut t =
            Table::new(&[("ID", Left, right), ("CLASS", Left, right), ("WEIGHT", Left, right), ("TYPE NAME", Left, Left)]);
        for n in &nodes {
            let class = map.crush.class_of(n.id).unwrap_or_default().to_string();
            t.row(vec![n.id.to_string(), class, weight(n.weight), super::osd::node_name(map, n.id, n.depth)]);
        }
        t.render()
    }))
}

fn ls(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let map = &cx.state.osdmap.crush;
    let node = args.str("node");
    if node.is_empty() {
        refuse!(EINVAL, "no node specified");
    }
    let Some(id) = map.id_of(node) else { refuse!(ENOENT, "node '{node}' does not exist") };
    let name = |i: i32| map.name_of(i).map_or_else(|| format!("osd.{i}"), String::from);
    let items: Vec<String> = if id >= 0 {
        vec![name(id)]
    } else {
        map.bucket(id).map(|b| b.items.iter().map(|i| name(*i)).collect()).unwrap_or_default()
    };
    Ok(cx.show("items", json!(items), || items.iter().map(|i| format!("{i}\n")).collect()))
}

fn class_ls(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let map = &cx.state.osdmap.crush;
    let names: Vec<&String> = map.class_names.values().collect();
    let value = json!(names);
    Ok(cx.structure("crush_classes", &value))
}

fn class_ls_osd(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let map = &cx.state.osdmap.crush;
    let osds = map.class_id(args.str("class")).map(|c| map.devices_of_class(c)).unwrap_or_default();
    Ok(cx.show("osds", json!(osds), || osds.iter().map(|o| format!("{o}\n")).collect()))
}

fn class_create(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("class");
    if cx.state.osdmap.crush.class_id(name).is_some() {
        return Ok(Reply::status(format!("class '{name}' already exists")));
    }
    refuse!(EOPNOTSUPP, "a class without OSDs would not last; it is made by 'osd crush set-device-class {name} <ids>'")
}

fn class_rm(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("class");
    let Some(id) = cx.state.osdmap.crush.class_id(name) else {
        return Ok(Reply::status(format!("class '{name}' does not exist")));
    };
    let map = &cx.state.osdmap.crush;
    let used = (0..map.rules.len() as u32)
        .find(|r| map.rule_takes(*r).iter().any(|t| map.split_shadow(*t).is_some_and(|(_, c)| c == id)));
    if let Some(rule) = used {
        refuse!(EBUSY, "class '{name}' still referenced by crush rule {rule}");
    }
    let devices = map.devices_of_class(id);
    let profiles = erasure::of_class(cx, name);
    if !profiles.is_empty() {
        refuse!(EBUSY, "class '{name}' is still referenced by erasure-code-profile(s): {}", profiles.join(","));
    }
    edit(cx, |m| {
        for device in devices {
            m.remove_device_class(device);
        }
        Ok(())
    })?;
    Ok(Reply::status(format!("removed class {name} with id {id} from crush map")))
}

fn class_rename(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (from, to) = (args.str("srcname"), args.str("dstname"));
    if cx.state.osdmap.crush.class_id(from).is_none() && cx.state.osdmap.crush.class_id(to).is_some() {
        return Ok(Reply::status(format!("already renamed to '{to}'")));
    }
    edit(cx, |m| m.rename_class(from, to))?;
    Ok(Reply::status(format!("rename class '{from}' to '{to}'")))
}

fn osds(cx: &Cx<'_>, args: &Args) -> Result<Vec<OsdId>, Refusal> {
    let osds = super::osd_state::named(&cx.state.osdmap, args.list("ids"))?;
    match osds.iter().find(|o| !cx.state.osdmap.exists(**o)) {
        Some(osd) => refuse!(ENOENT, "osd.{osd} does not exist"),
        None => Ok(osds),
    }
}

fn set_class(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (class, osds) = (args.str("class"), osds(cx, args)?);
    let map = &cx.state.osdmap.crush;
    if let Some((osd, old)) = osds.iter().find_map(|o| Some((*o, map.class_of(*o)?))).filter(|(_, old)| *old != class) {
        refuse!(EBUSY, "osd.{osd} is in class '{old}'; 'osd crush rm-device-class {osd}' takes it out");
    }
    edit(cx, |m| {
        osds.iter()
            .filter(|o| m.class_of(**o) != Some(class))
            .copied()
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|o| m.set_device_class(o, class))
    })?;
    let list: Vec<String> = osds.iter().map(ToString::to_string).collect();
    Ok(Reply::status(format!("set osd(s) {} to class '{class}'", list.join(","))))
}

fn rm_class(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let osds = osds(cx, args)?;
    edit(cx, |m| {
        for osd in &osds {
            m.remove_device_class(*osd);
        }
        Ok(())
    })?;
    let list: Vec<String> = osds.iter().map(ToString::to_string).collect();
    Ok(Reply::status(format!("done removing class of osd(s): {}", list.join(","))))
}

fn get_class(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    // One that does not exist has no class, as in Ceph.
    let osds = super::osd_state::named(&cx.state.osdmap, args.list("ids"))?;
    let map = &cx.state.osdmap.crush;
    let class = |o: OsdId| map.class_of(o).unwrap_or_default();
    let value = osds.iter().map(|o| json!({"osd": o, "device_class": class(*o)})).collect();
    Ok(cx.show("osd_device_classes", value, || {
        if let [one] = &osds[..] {
            if map.class_of(*one).is_some() { format!("{}\n", class(*one)) } else { String::new() }
        } else {
            osds.iter().map(|o| format!("{o} {}\n", class(*o))).collect()
        }
    }))
}
