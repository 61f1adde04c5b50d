//! Commands on space: of the cluster, by device class, by pool.

use super::{Cx, Row, row};
use grammar::Args;
use grammar::Outcome;
use grammar::Table;
use grammar::units::{bytes, si};
use manager::room::room;
use manager::soft::copies_there;
use maps::Pool;
use messages::stats::ObjectStatSum;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::PoolId;

pub(super) const ROWS: &[Row] =
    &[row("df <detail:Choices req=false strings=detail>", "show the space of the cluster and of its pools", "mon", "r", df)];

/// Space of one class of devices, or of all.
#[derive(Clone, Copy, Default)]
struct Raw {
    total: u64,
    available: u64,
    data: u64,
}

impl Raw {
    fn used_raw(&self) -> u64 {
        self.total.saturating_sub(self.available)
    }

    fn dump(&self) -> Value {
        json!({
            "total_bytes": self.total,
            "total_avail_bytes": self.available,
            "total_used_bytes": self.used_raw(),
            "total_used_raw_bytes": self.used_raw(),
            "total_used_raw_ratio": ratio(self.used_raw(), self.total),
        })
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// A percentage as `df` prints it.
fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    // Always a number: scripts read the column.
    if percent < 0.01 || percent.is_nan() { "0".into() } else { format!("{percent:.2}") }
}

fn raw_by_class(cx: &Cx<'_>) -> BTreeMap<String, Raw> {
    let map = &cx.state.osdmap;
    let mut classes: BTreeMap<String, Raw> = BTreeMap::new();
    for osd in map.osds().filter(|o| map.is_in(*o)) {
        let space = cx.soft.space(osd);
        let class = map.crush.class_of(osd).unwrap_or("unknown").to_string();
        let raw = classes.entry(class).or_default();
        raw.total += space.total;
        raw.available += space.available;
        raw.data += space.data;
    }
    classes
}

/// Bytes that a pool can still take, copies counted once. The OSD of its rule that fills up first is the bound.
pub(super) fn max_avail(cx: &Cx<'_>, id: PoolId, pool: &Pool) -> u64 {
    room(cx.state, cx.soft, id, pool).map_or(0, |room| room.bytes)
}

/// Figures of one pool.
struct Used {
    sum: ObjectStatSum,
    stored: u64,
    omap: u64,
    used_data: u64,
    used_omap: u64,
    avail: u64,
}

impl Used {
    fn of(cx: &Cx<'_>, id: PoolId, pool: &Pool) -> Self {
        let sum = cx.soft.pool_sum(id);
        let (stored, omap) = (sum.num_bytes.max(0) as u64, sum.num_omap_bytes.max(0) as u64);
        let copies = copies_there(&sum, cx.state.osdmap.raw_rate(id));
        let there = |n: u64| (n as f64 * copies) as u64;
        Self { sum, stored, omap, used_data: there(stored), used_omap: there(omap), avail: max_avail(cx, id, pool) }
    }

    fn used(&self) -> u64 {
        self.used_data + self.used_omap
    }

    /// Bytes of disks that are free for it. `rate`: those that one of its bytes takes.
    fn avail_raw(&self, rate: f64) -> u64 {
        (self.avail as f64 * rate) as u64
    }

    fn ratio(&self, rate: f64) -> f64 {
        ratio(self.used(), self.used() + self.avail_raw(rate))
    }
}

fn df(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let detail = args.opt("detail").is_some();
    Ok(cx.show("stats", dump(cx, detail), || text(cx, detail)))
}

fn total(classes: &BTreeMap<String, Raw>) -> Raw {
    classes.values().fold(Raw::default(), |a, b| Raw {
        total: a.total + b.total,
        available: a.available + b.available,
        data: a.data + b.data,
    })
}

/// The figures for `df -f json`.
pub(super) fn dump(cx: &Cx<'_>, detail: bool) -> Value {
    let classes = raw_by_class(cx);
    let mut stats = total(&classes).dump();
    let (exist, ..) = cx.state.osdmap.osd_counts();
    for key in ["num_osds", "num_per_pool_osds", "num_per_pool_omap_osds"] {
        stats[key] = json!(exist);
    }
    let by_class: Map<String, Value> = classes.iter().map(|(c, raw)| (c.clone(), raw.dump())).collect();
    let pools: Vec<Value> = cx
        .state
        .osdmap
        .pools
        .iter()
        .map(|(id, pool)| json!({"name": cx.state.pool_name(*id), "id": id, "stats": pool_stats(cx, *id, pool, detail)}))
        .collect();
    json!({"stats": stats, "stats_by_class": by_class, "pools": pools})
}

fn pool_stats(cx: &Cx<'_>, id: PoolId, pool: &Pool, detail: bool) -> Value {
    let u = Used::of(cx, id, pool);
    let rate = cx.state.osdmap.raw_rate(id);
    let percent = u.ratio(rate);
    if !detail {
        return json!({
            "stored": u.stored + u.omap,
            "objects": u.sum.num_objects,
            "kb_used": u.used().div_ceil(1024),
            "bytes_used": u.used(),
            "percent_used": percent,
            "max_avail": u.avail,
        });
    }
    json!({
        "stored": u.stored + u.omap,
        "stored_data": u.stored,
        "stored_omap": u.omap,
        "objects": u.sum.num_objects,
        "kb_used": u.used().div_ceil(1024),
        "bytes_used": u.used(),
        "data_bytes_used": u.used_data,
        "omap_bytes_used": u.used_omap,
        "percent_used": percent,
        "max_avail": u.avail,
        "quota_objects": pool.quota_max_objects,
        "quota_bytes": pool.quota_max_bytes,
        "dirty": 0,
        "rd": u.sum.num_rd,
        "rd_bytes": u.sum.num_rd_kb * 1024,
        "wr": u.sum.num_wr,
        "wr_bytes": u.sum.num_wr_kb * 1024,
        "compress_bytes_used": 0,
        "compress_under_bytes": 0,
        "stored_raw": u.used(),
        "avail_raw": u.avail_raw(rate),
    })
}

fn text(cx: &Cx<'_>, detail: bool) -> String {
    let classes = raw_by_class(cx);
    let mut raw = Table::simple(&["CLASS", ">SIZE", ">AVAIL", ">USED", ">RAW USED", ">%RAW USED"]);
    let all = total(&classes);
    let named = classes.iter().map(|(c, r)| (c.as_str(), r)).chain([("TOTAL", &all)]);
    for (name, r) in named {
        let used = r.used_raw();
        raw.row(vec![name.into(), bytes(r.total), bytes(r.available), bytes(used), bytes(used), percent(ratio(used, r.total))]);
    }
    let short = ["POOL", ">ID", ">PGS", ">STORED", ">OBJECTS", ">USED", ">%USED", ">MAX AVAIL"];
    let long = [
        "POOL",
        ">ID",
        ">PGS",
        ">STORED",
        ">(DATA)",
        ">(OMAP)",
        ">OBJECTS",
        ">USED",
        ">(DATA)",
        ">(OMAP)",
        ">%USED",
        ">MAX AVAIL",
        ">QUOTA OBJECTS",
        ">QUOTA BYTES",
        ">DIRTY",
        ">USED COMPR",
        ">UNDER COMPR",
    ];
    let mut pools = Table::simple(if detail { &long[..] } else { &short[..] });
    for (id, pool) in &cx.state.osdmap.pools {
        pools.row(pool_row(cx, *id, pool, detail));
    }
    format!("--- RAW STORAGE ---\n{} \n--- POOLS ---\n{}", raw.render(), pools.render())
}

fn pool_row(cx: &Cx<'_>, id: PoolId, pool: &Pool, detail: bool) -> Vec<String> {
    let u = Used::of(cx, id, pool);
    let used_percent = percent(u.ratio(cx.state.osdmap.raw_rate(id)));
    let objects = si(u.sum.num_objects.max(0) as u64);
    let mut cells = vec![cx.state.pool_name(id).to_string(), id.to_string(), pool.pg_num.to_string(), bytes(u.stored + u.omap)];
    if detail {
        cells.extend([bytes(u.stored), bytes(u.omap)]);
    }
    cells.extend([objects, bytes(u.used())]);
    if detail {
        cells.extend([bytes(u.used_data), bytes(u.used_omap)]);
    }
    cells.extend([used_percent, bytes(u.avail)]);
    if detail {
        let quota = |n: u64, text: fn(u64) -> String| if n == 0 { "N/A".to_string() } else { text(n) };
        cells.extend([quota(pool.quota_max_objects, si), quota(pool.quota_max_bytes, bytes), "N/A".into(), bytes(0), bytes(0)]);
    }
    cells
}
