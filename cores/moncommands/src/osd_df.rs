//! Commands on how full and how fast OSDs are.

use super::osd::{node_name, weight};
use super::{Cx, Row, row};
use grammar::Align::{Left, Right};
use grammar::Args;
use grammar::Table;
use grammar::units::{bytes, number};
use grammar::{Outcome, Refusal, refuse};
use manager::soft::all_pgs;
use messages::internal::Space;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use types::{Errno, OsdId, PgId};

pub(super) const ROWS: &[Row] = &[
    row(
        "osd df <output_method:Choices req=false strings=plain|tree> <filter_by:Choices req=false strings=class|name> <filter:String req=false>",
        "show how full OSDs are",
        "osd",
        "r",
        df,
    ),
    row("osd perf", "show how long OSDs take for writes", "osd", "r", perf),
    row("osd blocked-by", "show which OSDs block others", "osd", "r", blocked_by),
    row("osd status <bucket:String req=false>", "show OSDs with their space and work", "mgr", "r", status),
];

/// Space and weight of a node of the tree, all of its OSDs together.
#[derive(Clone, Copy, Default)]
struct Node {
    weight: u32,
    space: Space,
    pgs: u64,
}

impl Node {
    fn used(&self) -> u64 {
        self.space.total.saturating_sub(self.space.available)
    }

    fn utilization(&self) -> f64 {
        if self.space.total == 0 { 0.0 } else { self.used() as f64 * 100.0 / self.space.total as f64 }
    }
}

struct Df {
    average: f64,
    counts: BTreeMap<OsdId, u64>,
    shown: BTreeSet<OsdId>,
}

impl Df {
    fn new(cx: &Cx<'_>, args: &Args) -> Result<Self, Refusal> {
        let map = &cx.state.osdmap;
        let filter = args.str("filter");
        let shown: BTreeSet<OsdId> = match args.str("filter_by") {
            "class" => {
                let Some(class) = map.crush.class_id(filter) else {
                    refuse!(EINVAL, "specified class '{filter}' not in crush map")
                };
                map.crush.devices_of_class(class).into_iter().filter(|o| map.exists(*o)).collect()
            }
            "name" => {
                let Some(item) = map.crush.id_of(filter) else { refuse!(EINVAL, "specified name '{filter}' not in crush map") };
                map.crush.devices_under(item).into_iter().filter(|o| map.exists(*o)).collect()
            }
            _ => map.osds().collect(),
        };
        let (mut used, mut total) = (0u64, 0u64);
        for osd in shown.iter().filter(|o| map.is_in(**o)) {
            let space = cx.soft.space(*osd);
            used += space.total.saturating_sub(space.available);
            total += space.total;
        }
        let average = if total == 0 { 0.0 } else { used as f64 * 100.0 / total as f64 };
        Ok(Self { average, counts: cx.soft.pgs_per_osd(cx.state), shown })
    }

    fn osd(&self, cx: &Cx<'_>, osd: OsdId, weight: u32) -> Node {
        Node { weight, space: cx.soft.space(osd), pgs: self.counts.get(&osd).copied().unwrap_or(0) }
    }

    /// The row of a bucket: the sum over its OSDs that are shown.
    fn bucket(&self, cx: &Cx<'_>, id: i32, weight: u32) -> Node {
        let mut sum = Node { weight, ..Node::default() };
        for osd in cx.state.osdmap.crush.devices_under(id).into_iter().filter(|o| self.shown.contains(o)) {
            let s = cx.soft.space(osd);
            sum.space.total += s.total;
            sum.space.available += s.available;
            sum.space.data += s.data;
            sum.space.omap += s.omap;
            sum.space.meta += s.meta;
        }
        sum
    }

    fn variance(&self, node: &Node) -> f64 {
        if self.average == 0.0 { 1.0 } else { node.utilization() / self.average }
    }
}

fn df(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let df = Df::new(cx, args)?;
    let tree = args.str("output_method") == "tree";
    let nodes = cx.state.osdmap.crush.tree(false);
    let rows: Vec<(i32, usize, Node, Vec<i32>)> = nodes
        .iter()
        .filter(|n| if n.id >= 0 { df.shown.contains(&n.id) } else { tree })
        .filter(|n| n.id >= 0 || cx.state.osdmap.crush.devices_under(n.id).iter().any(|o| df.shown.contains(o)))
        .map(|n| {
            let node = if n.id >= 0 { df.osd(cx, n.id, n.weight) } else { df.bucket(cx, n.id, n.weight) };
            (n.id, n.depth, node, n.children.clone())
        })
        .collect();
    let rows = if tree { rows } else { sorted(rows) };
    let value = df_dump(cx, &df, &rows, tree);
    Ok(cx.show("df", value, || df_text(cx, &df, &rows, tree)))
}

/// Sorts rows by number, for the plain list.
fn sorted(mut rows: Vec<(i32, usize, Node, Vec<i32>)>) -> Vec<(i32, usize, Node, Vec<i32>)> {
    rows.sort_by_key(|r| r.0);
    rows.dedup_by_key(|r| r.0);
    rows
}

/// Least and greatest share of the average, and the deviation.
fn spread(df: &Df, rows: &[(i32, usize, Node, Vec<i32>)]) -> (f64, f64, f64) {
    let osds: Vec<f64> = rows.iter().filter(|r| r.0 >= 0 && r.2.space.total > 0).map(|r| df.variance(&r.2)).collect();
    if osds.is_empty() {
        return (0.0, 0.0, 0.0);
    }
    let squares: f64 =
        rows.iter().filter(|r| r.0 >= 0 && r.2.space.total > 0).map(|r| (r.2.utilization() - df.average).powi(2)).sum();
    let min = osds.iter().copied().fold(f64::MAX, f64::min);
    let max = osds.iter().copied().fold(0.0, f64::max);
    (min, max, (squares / osds.len() as f64).sqrt())
}

fn node_dump(cx: &Cx<'_>, df: &Df, (id, depth, node, children): &(i32, usize, Node, Vec<i32>), tree: bool) -> Value {
    let map = &cx.state.osdmap;
    let fraction = |w: u32| f64::from(w) / f64::from(crush::ONE);
    let kind = map.crush.kind_of(*id).unwrap_or(0);
    let mut v = Map::new();
    v.insert("id".into(), json!(id));
    if *id >= 0 {
        v.insert("device_class".into(), json!(map.crush.class_of(*id).unwrap_or_default()));
        v.insert("name".into(), json!(format!("osd.{id}")));
    } else {
        v.insert("name".into(), json!(map.crush.name_of(*id).unwrap_or("?")));
    }
    v.insert("type".into(), json!(map.crush.type_name(kind).unwrap_or("?")));
    v.insert("type_id".into(), json!(kind));
    if *id >= 0 {
        v.insert("crush_weight".into(), json!(fraction(node.weight)));
        v.insert("depth".into(), json!(depth));
    }
    if *id >= 0 || *depth > 0 {
        v.insert("pool_weights".into(), json!({}));
    }
    let kb = |n: u64| n >> 10;
    let reweight = if *id >= 0 { fraction(map.weight(*id)) } else { -1.0 };
    v.insert("reweight".into(), json!(reweight));
    for (name, n) in [
        ("kb", node.space.total),
        ("kb_used", node.used()),
        ("kb_used_data", node.space.data),
        ("kb_used_omap", node.space.omap),
        ("kb_used_meta", node.space.meta),
        ("kb_avail", node.space.available),
    ] {
        v.insert(name.into(), json!(kb(n)));
    }
    v.insert("utilization".into(), json!(node.utilization()));
    v.insert("var".into(), json!(df.variance(node)));
    v.insert("pgs".into(), json!(node.pgs));
    if *id >= 0 {
        v.insert("status".into(), json!(if map.is_up(*id) { "up" } else { "down" }));
    } else if tree {
        v.insert("children".into(), json!(children));
    }
    Value::Object(v)
}

fn df_dump(cx: &Cx<'_>, df: &Df, rows: &[(i32, usize, Node, Vec<i32>)], tree: bool) -> Value {
    let (min, max, dev) = spread(df, rows);
    let sum = total(rows);
    let kb = |n: u64| n >> 10;
    json!({
        "nodes": rows.iter().map(|r| node_dump(cx, df, r, tree)).collect::<Vec<_>>(),
        "stray": [],
        "summary": {
            "total_kb": kb(sum.space.total),
            "total_kb_used": kb(sum.used()),
            "total_kb_used_data": kb(sum.space.data),
            "total_kb_used_omap": kb(sum.space.omap),
            "total_kb_used_meta": kb(sum.space.meta),
            "total_kb_avail": kb(sum.space.available),
            "average_utilization": df.average,
            "min_var": min,
            "max_var": max,
            "dev": dev,
        },
    })
}

fn total(rows: &[(i32, usize, Node, Vec<i32>)]) -> Node {
    let mut sum = Node::default();
    for (_, _, node, _) in rows.iter().filter(|r| r.0 >= 0) {
        sum.space.total += node.space.total;
        sum.space.available += node.space.available;
        sum.space.data += node.space.data;
        sum.space.omap += node.space.omap;
        sum.space.meta += node.space.meta;
    }
    sum
}

fn df_text(cx: &Cx<'_>, df: &Df, rows: &[(i32, usize, Node, Vec<i32>)], tree: bool) -> String {
    let mut columns: Vec<(&str, grammar::Align, grammar::Align)> =
        vec![("ID", Left, Right), ("CLASS", Left, Right), ("WEIGHT", Left, Right), ("REWEIGHT", Left, Right)];
    for name in ["SIZE", "RAW USE", "DATA", "OMAP", "META", "AVAIL", "%USE", "VAR", "PGS", "STATUS"] {
        columns.push((name, Left, Right));
    }
    if tree {
        columns.push(("TYPE NAME", Left, Left));
    }
    let mut table = Table::new(&columns);
    let map = &cx.state.osdmap;
    for (id, depth, node, _) in rows {
        let osd = *id >= 0;
        let mut cells = vec![id.to_string(), map.crush.class_of(*id).unwrap_or_default().into(), weight(node.weight)];
        cells.push(if osd { weight(map.weight(*id)) } else { "-".into() });
        cells.extend(space_cells(node));
        cells.push(format!("{:.2}", node.utilization()));
        cells.push(format!("{:.2}", df.variance(node)));
        cells.push(if osd { node.pgs.to_string() } else { "-".into() });
        cells.push(if !osd {
            String::new()
        } else if map.is_up(*id) {
            "up".into()
        } else {
            "down".into()
        });
        if tree {
            cells.push(node_name(map, *id, *depth));
        }
        table.row(cells);
    }
    let sum = total(rows);
    let mut cells = vec![String::new(), String::new(), String::new(), "TOTAL".into()];
    cells.extend(space_cells(&sum));
    cells.push(format!("{:.2}", df.average));
    table.row(cells);
    let (min, max, dev) = spread(df, rows);
    let dev = (dev * 100.0).round() / 100.0;
    format!("{}MIN/MAX VAR: {min:.2}/{max:.2}  STDDEV: {}\n", table.render(), number(dev))
}

fn space_cells(node: &Node) -> [String; 6] {
    [node.space.total, node.used(), node.space.data, node.space.omap, node.space.meta, node.space.available].map(bytes)
}

fn perf(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let rows: Vec<(OsdId, u32, u32)> = cx
        .soft
        .osds
        .iter()
        .filter(|(o, _)| cx.state.osdmap.exists(**o))
        .map(|(o, s)| s.report.as_ref().map_or((*o, 0, 0), |r| (*o, r.commit_latency_us, r.apply_latency_us)))
        .collect();
    let infos: Vec<Value> = rows
        .iter()
        .map(|(osd, commit, apply)| {
            let stats = json!({
                "commit_latency_ms": commit / 1000,
                "apply_latency_ms": apply / 1000,
                "commit_latency_ns": u64::from(*commit) * 1000,
                "apply_latency_ns": u64::from(*apply) * 1000,
            });
            json!({"id": osd, "perf_stats": stats})
        })
        .collect();
    let value = json!({"pg_ready": true, "osdstats": {"osd_perf_infos": infos}});
    Ok(cx.show("pg_info", value, || {
        let mut table =
            Table::new(&[("osd", Left, Right), ("commit_latency(ms)", Left, Right), ("apply_latency(ms)", Left, Right)]);
        rows.iter().for_each(|(o, c, a)| table.row(vec![o.to_string(), (c / 1000).to_string(), (a / 1000).to_string()]));
        table.render()
    }))
}

fn blocked_by(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let mut blocked: BTreeMap<OsdId, u64> = BTreeMap::new();
    for osd in cx.soft.pgs.values().flat_map(|p| &p.report.blocked_by) {
        *blocked.entry(*osd).or_default() += 1;
    }
    let infos: Vec<Value> = blocked.iter().map(|(osd, n)| json!({"osd": osd, "num_blocked": n})).collect();
    let value = json!({"pg_ready": true, "osd_blocked_by": {"osd_blocked_by_infos": infos}});
    Ok(cx.show("pg_info", value, || {
        let mut table = Table::new(&[("osd", Left, Right), ("num_blocked", Left, Right)]);
        blocked.iter().for_each(|(osd, n)| table.row(vec![osd.to_string(), n.to_string()]));
        table.render()
    }))
}

/// The placement groups that an OSD leads.
fn led(cx: &Cx<'_>, osd: OsdId) -> Vec<PgId> {
    all_pgs(cx.state).filter(|pg| cx.state.osdmap.placed(*pg).acting_primary == osd).collect()
}

fn status(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let map = &cx.state.osdmap;
    let below = match args.opt("bucket") {
        None => None,
        Some(name) => match map.crush.id_of(name) {
            Some(id) => Some(map.crush.devices_under(id)),
            None => return Err(Refusal::new(Errno::ENOENT, format!("bucket {name} not found"))),
        },
    };
    let osds: Vec<OsdId> = map.osds().filter(|o| below.as_ref().is_none_or(|b| b.contains(o))).collect();
    let host = |o: OsdId| cx.state.osd_metadata.get(&o).and_then(|m| m.get("hostname")).cloned().unwrap_or_default();
    let state = |o: OsdId| {
        let names = maps::state::NAMES.iter().filter(|(bit, _)| map.state(o) & bit != 0);
        names.map(|(_, n)| *n).collect::<Vec<_>>().join(",")
    };
    let value = osds
        .iter()
        .map(|o| {
            let space = cx.soft.space(*o);
            let used = space.total.saturating_sub(space.available);
            json!({"id": o, "host": host(*o), "used": used, "avail": space.available, "led_pgs": led(cx, *o).len(), "state": state(*o)})
        })
        .collect();
    Ok(cx.show("OSDs", json!({"OSDs": Value::Array(value)}), || {
        let mut table = Table::simple(&["ID", "HOST", ">USED", ">AVAIL", ">WR OPS", ">WR DATA", ">RD OPS", ">RD DATA", "STATE"]);
        for o in &osds {
            let space = cx.soft.space(*o);
            let used = space.total.saturating_sub(space.available);
            let zero = || "0".to_string();
            table.row(vec![
                o.to_string(),
                host(*o),
                bytes(used),
                bytes(space.available),
                zero(),
                zero(),
                zero(),
                zero(),
                state(*o),
            ]);
        }
        table.render()
    }))
}
