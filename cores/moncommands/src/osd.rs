//! Commands that list OSDs: which there are, where they are.

use super::{Cx, Row, row};
use denc::{Decode, Encode};
use grammar::{
    Args, Outcome, Reply, Table, refuse,
    units::{number, span},
};
use maps::{OsdMap, flags, state as bits};
use monstate::context::{RELEASE, VERSION, version_line};
use monstate::osds::set_text;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use types::{Locator, OsdId};

pub(super) const ROWS: &[Row] = &[
    row("osd stat", "show how many OSDs there are", "osd", "r", stat),
    row("osd ls <epoch:Int range=0 req=false>", "list the numbers of the OSDs", "osd", "r", ls),
    row("osd ls-tree <epoch:Int range=0 req=false> <name:String>", "list the OSDs below a bucket", "osd", "r", ls_tree),
    row(
        "osd tree <epoch:Int range=0 req=false> <states:Choices n=N req=false strings=up|down|in|out|destroyed>",
        "show the OSDs in the CRUSH tree",
        "osd",
        "r",
        tree,
    ),
    row(
        "osd tree-from <epoch:Int range=0 req=false> <bucket:String> <states:Choices n=N req=false strings=up|down|in|out|destroyed>",
        "show the OSDs below a bucket",
        "osd",
        "r",
        tree,
    ),
    row("osd lspools", "list the pools", "osd", "r", lspools),
    row("osd map <pool:Poolname> <object:Objectname> <nspace:String req=false>", "show where an object is", "osd", "r", map),
    row("osd find <id:OsdName>", "show where an OSD is", "osd", "r", find),
    row("osd metadata <id:OsdName req=false>", "show what an OSD says about itself", "osd", "r", metadata),
    row("osd versions", "show the versions of the OSDs", "osd", "r", versions),
    row("osd count-metadata <property:String>", "count the OSDs by a property", "osd", "r", count_metadata),
    row("osd numa-status", "show the NUMA nodes of the OSDs", "osd", "r", numa),
    row("osd utilization", "show how evenly placement groups are spread", "osd", "r", utilization),
    row("osd getmap <epoch:Int range=0 req=false>", "get the OSD map", "osd", "r", getmap),
    row("osd getcrushmap <epoch:Int range=0 req=false>", "get the CRUSH map", "osd", "r", getcrushmap),
    row("osd getmaxosd", "show how many OSDs there may be", "osd", "r", getmaxosd),
    row("osd last-stat-seq <id:OsdName>", "show the number of an OSD's last report", "osd", "r", last_stat_seq),
    row("osd get-require-min-compat-client", "show the oldest release of clients that is let in", "osd", "r", min_compat),
];

/// Gives the OSD map that a command is about: the current one, or that of `epoch`.
pub(super) fn map_at(cx: &Cx<'_>, args: &Args) -> Result<Arc<OsdMap>, super::Refusal> {
    let Some(epoch) = args.int("epoch").filter(|e| *e > 0) else { return Ok(cx.state.osdmap.clone()) };
    let full = u32::try_from(epoch).ok().and_then(|e| cx.state.history.full(e));
    match full.and_then(|bytes| OsdMap::from_bytes(&bytes).ok()) {
        Some(map) => Ok(Arc::new(map)),
        None => refuse!(ENOENT, "there is no map for epoch {epoch}"),
    }
}

fn stat(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let map = &cx.state.osdmap;
    let (exist, up, inside) = map.osd_counts();
    let value = json!({
        "epoch": map.epoch,
        "num_osds": exist,
        "num_up_osds": up,
        "osd_up_since": map.last_up_change.sec,
        "num_in_osds": inside,
        "osd_in_since": map.last_in_change.sec,
        "num_remapped_pgs": remapped(cx),
    });
    Ok(cx.show("osdmap", value, || format!("{}\n", osd_line(cx, &format!("; epoch: e{}", map.epoch)))))
}

fn list(cx: &Cx<'_>, osds: &[OsdId]) -> Outcome {
    Ok(cx.show("osds", json!(osds), || osds.iter().map(|o| format!("{o}\n")).collect()))
}

fn ls(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let osds: Vec<OsdId> = map_at(cx, args)?.osds().collect();
    list(cx, &osds)
}

fn ls_tree(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let map = map_at(cx, args)?;
    let Some(item) = map.crush.id_of(args.str("name")) else { refuse!(ENOENT, "\"{}\" does not exist", args.str("name")) };
    let osds: Vec<OsdId> = map.crush.devices_under(item).into_iter().filter(|o| map.exists(*o)).collect();
    list(cx, &osds)
}

fn lspools(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let names = &cx.state.osdmap.pool_name;
    let value = names.iter().map(|(id, name)| json!({"poolnum": id, "poolname": name})).collect();
    Ok(cx.show("pools", value, || names.iter().map(|(id, name)| format!("{id} {name}\n")).collect()))
}

/// The word for a known OSD's state: `up`, or why not.
fn status_word(map: &OsdMap, osd: OsdId) -> &'static str {
    if !map.exists(osd) {
        "DNE"
    } else if map.is_up(osd) {
        "up"
    } else if map.state(osd) & bits::DESTROYED != 0 {
        "destroyed"
    } else {
        "down"
    }
}

/// Says whether a filter by states takes an OSD.
fn wanted(map: &OsdMap, states: &[String], osd: OsdId) -> bool {
    let is = |word: &str| match word {
        "up" => map.is_up(osd),
        "down" => map.exists(osd) && !map.is_up(osd),
        "in" => map.is_in(osd),
        "out" => map.exists(osd) && !map.is_in(osd),
        _ => map.state(osd) & bits::DESTROYED != 0,
    };
    states.is_empty() || states.iter().all(|s| is(s))
}

fn tree(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let map = map_at(cx, args)?;
    let states = args.list("states");
    let has = |a: &str, b: &str| states.iter().any(|s| s == a) && states.iter().any(|s| s == b);
    if has("up", "down") || has("in", "out") {
        refuse!(EINVAL, "cannot specify both up and down or both in and out");
    }
    let top = match args.opt("bucket") {
        None => None,
        Some(name) => match map.crush.id_of(name) {
            Some(id) => Some(id),
            None => refuse!(ENOENT, "bucket '{name}' does not exist"),
        },
    };
    let nodes = map.crush.tree(false);
    let keeps = |id: i32| {
        if id >= 0 {
            wanted(&map, states, id)
        } else {
            states.is_empty() || map.crush.devices_under(id).iter().any(|o| wanted(&map, states, *o))
        }
    };
    let base = top.and_then(|t| nodes.iter().find(|n| n.id == t)).map_or(0, |n| n.depth);
    let shown: Vec<_> = nodes.iter().filter(|n| keeps(n.id) && top.is_none_or(|t| map.crush.is_under(n.id, t))).collect();
    let placed: BTreeSet<i32> = nodes.iter().map(|n| n.id).collect();
    let stray: Vec<OsdId> = map.osds().filter(|o| top.is_none() && !placed.contains(o) && wanted(&map, states, *o)).collect();
    let dumped: Vec<Value> = shown.iter().map(|n| node_dump(&map, n, base, &keeps)).collect();
    let stray_dump: Vec<Value> = stray.iter().map(|o| osd_node(&map, *o, 0, 0)).collect();
    let mut value = json!({"nodes": dumped});
    if top.is_none() {
        value["stray"] = stray_dump.into();
    }
    Ok(cx.show("tree", value, || {
        let mut table = tree_table();
        shown.iter().for_each(|n| table.row(tree_row(&map, n.id, n.depth - base, n.weight)));
        stray.iter().for_each(|o| table.row(tree_row(&map, *o, 0, 0)));
        table.render()
    }))
}

/// Makes the table of a tree. Its headings are on the left where its cells are on the right.
fn tree_table() -> Table {
    use grammar::Align::{Left, Right};
    Table::new(&[
        ("ID", Left, Right),
        ("CLASS", Left, Right),
        ("WEIGHT", Left, Right),
        ("TYPE NAME", Left, Left),
        ("STATUS", Left, Right),
        ("REWEIGHT", Left, Right),
        ("PRI-AFF", Left, Right),
    ])
}

/// A CRUSH weight with five digits; `0` for none.
pub(super) fn weight(w: u32) -> String {
    if w == 0 { "0".into() } else { format!("{:.5}", f64::from(w) / f64::from(crush::ONE)) }
}

/// A node's name, indented by its depth.
pub(super) fn node_name(map: &OsdMap, id: i32, depth: usize) -> String {
    let pad = " ".repeat(4 * depth);
    if id >= 0 {
        return format!("{pad}osd.{id}");
    }
    let kind = map.crush.kind_of(id).and_then(|k| map.crush.type_name(k)).unwrap_or("?");
    format!("{pad}{kind} {}", map.crush.name_of(id).unwrap_or("?"))
}

fn tree_row(map: &OsdMap, id: i32, depth: usize, w: u32) -> Vec<String> {
    let mut cells =
        vec![id.to_string(), map.crush.class_of(id).unwrap_or_default().to_string(), weight(w), node_name(map, id, depth)];
    if id >= 0 {
        cells.push(status_word(map, id).into());
        if map.exists(id) {
            cells.extend([weight(map.weight(id)), weight(map.primary_affinity(id))]);
        } else {
            cells.push("0".into());
        }
    }
    cells
}

fn fraction(w: u32) -> f64 {
    f64::from(w) / f64::from(crush::ONE)
}

/// An OSD as a node of a structured tree.
pub(super) fn osd_node(map: &OsdMap, osd: OsdId, depth: usize, w: u32) -> Value {
    let mut node = Map::new();
    node.insert("id".into(), osd.into());
    if let Some(class) = map.crush.class_of(osd) {
        node.insert("device_class".into(), class.into());
    }
    node.insert("name".into(), format!("osd.{osd}").into());
    node.insert("type".into(), "osd".into());
    node.insert("type_id".into(), 0.into());
    node.insert("crush_weight".into(), fraction(w).into());
    node.insert("depth".into(), depth.into());
    node.insert("pool_weights".into(), json!({}));
    node.insert("exists".into(), u32::from(map.exists(osd)).into());
    node.insert("status".into(), status_word(map, osd).into());
    node.insert("reweight".into(), fraction(map.weight(osd)).into());
    node.insert("primary_affinity".into(), fraction(map.primary_affinity(osd)).into());
    Value::Object(node)
}

fn node_dump(map: &OsdMap, node: &crush::TreeNode, base: usize, keeps: &dyn Fn(i32) -> bool) -> Value {
    if node.id >= 0 {
        return osd_node(map, node.id, node.depth - base, node.weight);
    }
    let kind = map.crush.kind_of(node.id).unwrap_or(0);
    let mut dump = Map::new();
    dump.insert("id".into(), node.id.into());
    dump.insert("name".into(), map.crush.name_of(node.id).unwrap_or("?").into());
    dump.insert("type".into(), map.crush.type_name(kind).unwrap_or("?").into());
    dump.insert("type_id".into(), kind.into());
    if node.depth > base {
        dump.insert("pool_weights".into(), json!({}));
    }
    let children: Vec<i32> = node.children.iter().copied().filter(|c| keeps(*c)).collect();
    dump.insert("children".into(), children.into());
    Value::Object(dump)
}

fn map(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let state = cx.state;
    let name = args.str("pool");
    let Some(pool) = state.pool_id(name) else { refuse!(ENOENT, "pool {name} does not exist") };
    let (object, nspace) = (args.str("object"), args.str("nspace"));
    let locator = Locator { nspace: nspace.to_string().into(), ..Locator::pool(pool) };
    let hash = locator.hash_of(object.as_bytes());
    let Some(pg) = state.osdmap.object_pg(&locator, object.as_bytes()) else { refuse!(ENOENT, "there is no pool {pool}") };
    let at = state.osdmap.up_acting(pg);
    let full = if nspace.is_empty() { object.to_string() } else { format!("{nspace}/{object}") };
    let value = json!({
        "epoch": state.osdmap.epoch,
        "pool": args.str("pool"),
        "pool_id": pool,
        "objname": full,
        "raw_pgid": format!("{pool}.{hash:x}"),
        "pgid": pg.to_string(),
        "up": at.up,
        "up_primary": at.up_primary,
        "acting": at.acting,
        "acting_primary": at.acting_primary,
    });
    Ok(cx.show("osd_map", value, || {
        format!(
            "osdmap e{} pool '{}' ({pool}) object '{full}' -> pg {pool}.{hash:x} ({pg}) -> up ({}, p{}) acting ({}, p{})\n",
            state.osdmap.epoch,
            args.str("pool"),
            set_text(&at.up),
            at.up_primary,
            set_text(&at.acting),
            at.acting_primary
        )
    }))
}

fn find(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let osd = cx.existing_osd(args, "id")?;
    let map = &cx.state.osdmap;
    let location: BTreeMap<String, String> = map.crush.full_location(osd).into_iter().collect();
    let host = cx.state.osd_metadata.get(&osd).and_then(|m| m.get("hostname"));
    let mut value = json!({
        "osd": osd,
        "addrs": map.osd_addr(osd).map_or(json!({"addrvec": []}), super::shared::addrs),
        "osd_fsid": map.osd_uuid.get(osd as usize).copied().unwrap_or_default().to_string(),
    });
    if let Some(host) = host {
        value["host"] = json!(host);
    }
    value["crush_location"] = json!(location);
    Ok(cx.structure("osd_location", &value))
}

fn osd_metadata(cx: &Cx<'_>, osd: OsdId) -> Value {
    let mut value = Map::new();
    value.insert("id".into(), osd.into());
    value.extend(told(cx, osd).into_iter().map(|(k, v)| (k, v.into())));
    Value::Object(value)
}

/// Fields that readers of Ceph's answers expect of every OSD, empty where nothing is known; with a mark, what its class says.
const EXPECTED: [(&str, &str); 9] = [
    ("back_iface", ""),
    ("ceph_version_when_created", ""),
    ("created_at", ""),
    ("device_ids", ""),
    ("device_paths", ""),
    ("devices", ""),
    ("front_iface", ""),
    ("journal_rotational", "class"),
    ("rotational", "class"),
];

/// Returns what an OSD told when it booted, and what is known of it besides, named as Ceph does; nothing if it never
/// booted.
pub(super) fn told(cx: &Cx<'_>, osd: OsdId) -> BTreeMap<String, String> {
    let Some(mut all) = cx.state.osd_metadata.get(&osd).cloned() else { return BTreeMap::new() };
    let shown = |addrs: Option<&types::EntityAddrVec>| addrs.map(ToString::to_string).unwrap_or_default();
    let (front, back) = (shown(cx.state.osdmap.osd_addr(osd)), shown(cx.state.osdmap.osd_cluster_addr(osd)));
    let known = [
        ("back_addr", back.clone()),
        ("ceph_release", RELEASE.into()),
        ("ceph_version", version(cx, osd)),
        ("ceph_version_short", VERSION.into()),
        ("front_addr", front.clone()),
        ("hb_back_addr", back),
        ("hb_front_addr", front),
    ];
    all.extend(known.into_iter().map(|(k, v)| (k.to_owned(), v)));
    let turns = if all.get("default_device_class").is_some_and(|class| class == "hdd") { "1" } else { "0" };
    for (key, missing) in EXPECTED {
        all.entry(key.into()).or_insert_with(|| if missing.is_empty() { String::new() } else { turns.into() });
    }
    all
}

fn metadata(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let value = if args.opt("id").is_some() {
        let osd = cx.existing_osd(args, "id")?;
        osd_metadata(cx, osd)
    } else {
        all_metadata(cx)
    };
    Ok(cx.structure("osd_metadata", &value))
}

/// Returns what all OSDs say about themselves.
pub(super) fn all_metadata(cx: &Cx<'_>) -> Value {
    cx.state.osdmap.osds().map(|o| osd_metadata(cx, o)).collect()
}

fn count(cx: &Cx<'_>, property: &str) -> Value {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for osd in cx.state.osdmap.osds() {
        *counts.entry(told(cx, osd).remove(property).unwrap_or_else(|| "unknown".into())).or_default() += 1;
    }
    json!(counts)
}

/// The version line of an OSD, by what it told.
pub(super) fn version(cx: &Cx<'_>, osd: OsdId) -> String {
    cx.state.osd_metadata.get(&osd).map_or_else(|| version_line(&BTreeMap::new()), version_line)
}

fn versions(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for osd in cx.state.osdmap.osds() {
        *counts.entry(version(cx, osd)).or_default() += 1;
    }
    let value = json!(counts);
    Ok(cx.structure("version", &value))
}

fn count_metadata(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let value = count(cx, args.str("property"));
    Ok(cx.structure(args.str("property"), &value))
}

fn numa(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let host = |o: OsdId| cx.state.osd_metadata.get(&o).and_then(|m| m.get("hostname")).cloned().unwrap_or_default();
    let osds: Vec<OsdId> = cx.state.osdmap.osds().collect();
    let value = osds.iter().map(|o| json!({"osd": o, "host": host(*o)})).collect();
    Ok(cx.show("osds", value, || {
        let mut table = Table::simple(&["OSD", "HOST", "NETWORK", "STORAGE", "AFFINITY", "CPUS"]);
        let row = |o: &OsdId| vec![o.to_string(), host(*o), "-".into(), "-".into(), "-".into(), "-".into()];
        osds.iter().for_each(|o| table.row(row(o)));
        table.render()
    }))
}

fn utilization(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let map = &cx.state.osdmap;
    let counts = cx.soft.pgs_per_osd(cx.state);
    let osds: Vec<(OsdId, u64)> =
        map.osds().filter(|o| map.is_in(*o)).map(|o| (o, counts.get(&o).copied().unwrap_or(0))).collect();
    if osds.is_empty() {
        return Ok(cx.show("utilization", json!({}), || "avg 0\n".into()));
    }
    let n = osds.len() as f64;
    let total: u64 = osds.iter().map(|(_, c)| c).sum();
    let avg = total / osds.len() as u64;
    let mean = total as f64 / n;
    let dev = (osds.iter().map(|(_, c)| (*c as f64 - mean).powi(2)).sum::<f64>() / n).sqrt();
    let edev = (mean * (1.0 - 1.0 / n)).max(0.0).sqrt();
    let min = osds.iter().min_by_key(|(o, c)| (*c, *o)).copied().unwrap_or_default();
    let max = osds.iter().max_by_key(|(o, c)| (*c, -*o)).copied().unwrap_or_default();
    let share = |c: u64| if mean > 0.0 { c as f64 / mean } else { 0.0 };
    let value = json!({
        "avg_pgs": avg, "std_dev": dev, "expected_baseline_std_dev": edev,
        "min_osd": min.0, "min_osd_pgs": min.1, "max_osd": max.0, "max_osd_pgs": max.1,
    });
    Ok(cx.show("utilization", value, || {
        format!(
            "avg {avg}\nstddev {} (expected baseline {})\nmin osd.{} with {} pgs ({} * mean)\nmax osd.{} with {} pgs ({} * mean)\n",
            number(dev),
            number(edev),
            min.0,
            min.1,
            number(share(min.1)),
            max.0,
            max.1,
            number(share(max.1))
        )
    }))
}

fn getmap(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let map = map_at(cx, args)?;
    let Some(bytes) = cx.state.history.full(map.epoch) else { refuse!(ENOENT, "there is no map for epoch {}", map.epoch) };
    Ok(Reply::data(bytes).with_status(format!("got osdmap epoch {}", map.epoch)))
}

fn getcrushmap(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let map = map_at(cx, args)?;
    Ok(Reply::data(map.crush.to_bytes()).with_status(map.crush_version.to_string()))
}

fn getmaxosd(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let map = &cx.state.osdmap;
    let value = json!({"epoch": map.epoch, "max_osd": map.max_osd});
    Ok(cx.show("getmaxosd", value, || format!("max_osd = {} in epoch {}\n", map.max_osd, map.epoch)))
}

fn last_stat_seq(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    cx.existing_osd(args, "id")?;
    Ok(Reply::data(format!("{}\n", cx.soft.version)))
}

fn min_compat(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    Ok(Reply::data(format!("{}\n", super::shared::release_name(cx.state.osdmap.require_min_compat_client))))
}

/// The line of OSDs, with what may follow: `3 osds: 3 up (since 6m), 3 in (since 6m)`
pub(super) fn osd_line(cx: &Cx<'_>, epoch: &str) -> String {
    let map = &cx.state.osdmap;
    let (exist, up, inside) = map.osd_counts();
    let since = |t: types::UTime| {
        let secs = cx.now.wall.sec.saturating_sub(t.sec);
        if t.is_zero() { String::new() } else { format!(" (since {})", span(secs.into())) }
    };
    let (up_since, in_since) = (since(map.last_up_change), since(map.last_in_change));
    let mut line = format!("{exist} osds: {up} up{up_since}, {inside} in{in_since}{epoch}");
    let remapped = remapped(cx);
    if remapped > 0 {
        line.push_str(&format!("; {remapped} remapped pgs"));
    }
    // Flags that every map of this release has are not worth a line.
    const SILENT: u32 = flags::SORTBITWISE | flags::RECOVERY_DELETES | flags::PURGED_SNAPDIRS | flags::PGLOG_HARDLIMIT;
    let full = map.osds().any(|o| map.state(o) & bits::FULL != 0);
    let shown = map.flags & !SILENT | if full { flags::FULL } else { 0 };
    if shown != 0 {
        let names: Vec<&str> = flags::NAMES.iter().filter(|(bit, _)| shown & bit != 0).map(|(_, name)| *name).collect();
        line.push_str(&format!("\n         flags {}", names.join(",")));
    }
    line
}

/// Number of placement groups whose acting set is not where they belong.
pub(super) fn remapped(cx: &Cx<'_>) -> usize {
    cx.state.osdmap.pg_temp.len()
}
