//! Commands on how full and how fast OSDs are, and whether they can be spared.

use super::osd::{node_name, weight};
use super::{Cx, Row, row};
use crate::answer::{Outcome, Refusal, Reply, refuse};
use crate::soft::all_pgs;
use crate::text::Align::{Left, Right};
use crate::text::Table;
use crate::text::units::{bytes, number};
use grammar::Args;
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
    row(
        "osd ok-to-stop <ids:String n=N> <max:Int req=false>",
        "check whether OSDs can stop without harm to availability",
        "osd",
        "r",
        ok_to_stop,
    ),
    row(
        "osd safe-to-destroy <ids:String n=N>",
        "check whether OSDs can be destroyed without harm to data",
        "osd",
        "r",
        safe_to_destroy,
    ),
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
    let mut columns: Vec<(&str, crate::text::Align, crate::text::Align)> =
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
    Ok(cx.show("osd_perf", value, || {
        let mut table =
            Table::new(&[("osd", Left, Right), ("commit_latency(ms)", Left, Right), ("apply_latency(ms)", Left, Right)]);
        rows.iter().for_each(|(o, c, a)| table.row(vec![o.to_string(), (c / 1000).to_string(), (a / 1000).to_string()]));
        table.render()
    }))
}

fn blocked_by(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    // With one copy no OSD waits for another one.
    Ok(cx.show("blocked_by", json!({}), || Table::new(&[("osd", Left, Right), ("num_blocked", Left, Right)]).render()))
}

fn ok_to_stop(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let map = &cx.state.osdmap;
    let osds: BTreeSet<OsdId> = super::osd_state::named(map, args.list("ids"))?.into_iter().collect();
    let (mut ok, mut bad) = (0u64, Vec::new());
    for pg in all_pgs(cx.state) {
        let acting = &map.placed(pg).acting;
        if !acting.iter().any(|o| osds.contains(o)) {
            continue;
        }
        let left = acting.iter().filter(|o| !osds.contains(o) && **o != crush::NONE).count();
        let least = map.pools.get(&pg.pool).map_or(1, |p| usize::from(p.min_size));
        if left >= least { ok += 1 } else { bad.push(pg.to_string()) }
    }
    let mut value = json!({
        "ok_to_stop": bad.is_empty(),
        "osds": osds,
        "num_ok_pgs": ok,
        "num_not_ok_pgs": bad.len(),
    });
    if !bad.is_empty() {
        value["bad_become_inactive"] = json!(bad);
    }
    let format = if cx.format.is_structured() { cx.format } else { crate::text::Format::Json };
    let data = format.render("ok_to_stop", &value) + "\n";
    if bad.is_empty() {
        return Ok(Reply::data(data));
    }
    let text = format!("unsafe to stop osd(s) at this time ({} PGs are or would become offline)", bad.len());
    Err(Refusal { errno: Errno::EBUSY, text, data: data.into() })
}

fn safe_to_destroy(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let map = &cx.state.osdmap;
    let osds = super::osd_state::named(map, args.list("ids"))?;
    let (mut safe, mut active, mut unreported) = (Vec::new(), Vec::new(), Vec::new());
    let counts = cx.soft.pgs_per_osd(cx.state);
    let mut mapped = 0;
    for osd in osds {
        let pgs = counts.get(&osd).copied().unwrap_or(0);
        let holds = cx.soft.osds.get(&osd).and_then(|o| o.report.as_ref()).is_some_and(|r| r.space.data > 0);
        if !map.exists(osd) {
            safe.push(osd);
        } else if pgs > 0 {
            mapped += pgs;
            active.push(osd);
        } else if holds {
            // What was on it may be nowhere else.
            unreported.push(osd);
        } else {
            safe.push(osd);
        }
    }
    let value = json!({"safe_to_destroy": safe, "active": active, "missing_stats": [], "stored_pgs": unreported});
    let data = if cx.format.is_structured() { cx.format.render("osd_status", &value) } else { String::new() };
    let list = |osds: &[OsdId]| osds.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    if !active.is_empty() {
        let text = format!("OSD(s) {} have {mapped} pgs currently mapped to them. ", list(&active));
        return Err(Refusal { errno: Errno::EBUSY, text, data: data.into() });
    }
    if !unreported.is_empty() {
        let text = format!("OSD(s) {} still hold data that may be nowhere else. ", list(&unreported));
        return Err(Refusal { errno: Errno::EBUSY, text, data: data.into() });
    }
    Ok(Reply::data(data).with_status(format!("OSD(s) {} are safe to destroy without reducing data durability.", list(&safe))))
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
