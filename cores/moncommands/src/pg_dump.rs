//! Commands that list and dump placement groups.

use super::{Cx, Row, row};
use grammar::Align::{self, Left, Right};
use grammar::Table;
use grammar::units::{bytes, span};
use grammar::{Args, Format};
use grammar::{Outcome, Refusal, Reply, refuse};
use manager::soft::{PgSoft, all_pgs};
use manager::stamps::Stamps;
use messages::internal::PgReport;
use messages::stats::{ObjectStatSum, StoreStatfs};
use monstate::effective;
use monstate::osds::set_text;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use types::{EVersion, OsdId, PgId, PgState, PoolId, UTime};

pub(super) const ROWS: &[Row] = &[
    row(
        "pg dump <dumpcontents:Choices n=N req=false strings=all|summary|sum|delta|pools|osds|pgs|pgs_brief>",
        "show everything about placement groups",
        "pg",
        "r",
        dump,
    ),
    row(
        "pg dump_json <dumpcontents:Choices n=N req=false strings=all|summary|sum|pools|osds|pgs>",
        "the same as JSON",
        "pg",
        "r",
        dump_json,
    ),
    row("pg dump_pools_json", "show the figures of pools as JSON", "pg", "r", dump_pools),
    row("pg ls <pool:Int req=false> <states:String n=N req=false>", "list placement groups", "pg", "r", |cx, args| {
        let told = ls(cx, args);
        ready(cx, told)
    }),
    row(
        "pg ls-by-pool <poolstr:String> <states:String n=N req=false>",
        "list the placement groups of a pool",
        "pg",
        "r",
        |cx, args| {
            let told = ls_by_pool(cx, args);
            ready(cx, told)
        },
    ),
    row(
        "pg ls-by-osd <osd:OsdName> <pool:Int req=false> <states:String n=N req=false>",
        "list the placement groups on an OSD",
        "pg",
        "r",
        |cx, args| {
            let told = ls_by_osd(cx, args);
            ready(cx, told)
        },
    ),
    row(
        "pg ls-by-primary <osd:OsdName> <pool:Int req=false> <states:String n=N req=false>",
        "list the placement groups that an OSD leads",
        "pg",
        "r",
        |cx, args| {
            let told = ls_by_primary(cx, args);
            ready(cx, told)
        },
    ),
    row(
        "pg dump_stuck <stuckops:Choices n=N req=false strings=inactive|unclean|stale|undersized|degraded> <threshold:Int req=false>",
        "list placement groups that do not get on",
        "pg",
        "r",
        dump_stuck,
    ),
];

/// The note below tables that have columns marked with a star.
const NOTE: &str = "\n* NOTE: the figures of omap are those of the last deep scrubs.\n";

/// One placement group, with what is known of it.
struct Pg<'a> {
    id: PgId,
    state: PgState,
    soft: Option<&'a PgSoft>,
    up: Vec<OsdId>,
    up_primary: OsdId,
    acting: Vec<OsdId>,
    acting_primary: OsdId,
}

impl Pg<'_> {
    fn report(&self) -> PgReport {
        self.soft.map_or_else(|| PgReport { pg: self.id, ..PgReport::default() }, |s| s.report.clone())
    }
}

fn known<'a>(cx: &Cx<'a>, id: PgId) -> Pg<'a> {
    let at = cx.state.osdmap.up_acting(id);
    Pg {
        id,
        state: cx.soft.pg_state(cx.state, id),
        soft: cx.soft.pgs.get(&id),
        up: at.up,
        up_primary: at.up_primary,
        acting: at.acting,
        acting_primary: at.acting_primary,
    }
}

fn all<'a>(cx: &Cx<'a>) -> Vec<Pg<'a>> {
    all_pgs(cx.state).map(|pg| known(cx, pg)).collect()
}

fn sum_dump(s: &ObjectStatSum) -> Value {
    json!({
        "num_bytes": s.num_bytes, "num_objects": s.num_objects, "num_object_clones": s.num_object_clones,
        "num_object_copies": s.num_object_copies, "num_objects_missing_on_primary": s.num_objects_missing_on_primary,
        "num_objects_missing": s.num_objects_missing, "num_objects_degraded": s.num_objects_degraded,
        "num_objects_misplaced": s.num_objects_misplaced, "num_objects_unfound": s.num_objects_unfound,
        "num_objects_dirty": s.num_objects_dirty, "num_whiteouts": s.num_whiteouts, "num_read": s.num_rd,
        "num_read_kb": s.num_rd_kb, "num_write": s.num_wr, "num_write_kb": s.num_wr_kb, "num_scrub_errors": s.num_scrub_errors,
        "num_shallow_scrub_errors": s.num_shallow_scrub_errors, "num_deep_scrub_errors": s.num_deep_scrub_errors,
        "num_objects_recovered": s.num_objects_recovered, "num_bytes_recovered": s.num_bytes_recovered,
        "num_keys_recovered": s.num_keys_recovered, "num_objects_omap": s.num_objects_omap,
        "num_objects_hit_set_archive": s.num_objects_hit_set_archive, "num_bytes_hit_set_archive": s.num_bytes_hit_set_archive,
        "num_flush": s.num_flush, "num_flush_kb": s.num_flush_kb, "num_evict": s.num_evict, "num_evict_kb": s.num_evict_kb,
        "num_promote": s.num_promote, "num_flush_mode_high": s.num_flush_mode_high, "num_flush_mode_low": s.num_flush_mode_low,
        "num_evict_mode_some": s.num_evict_mode_some, "num_evict_mode_full": s.num_evict_mode_full,
        "num_objects_pinned": s.num_objects_pinned, "num_legacy_snapsets": s.num_legacy_snapsets,
        "num_large_omap_objects": s.num_large_omap_objects, "num_objects_manifest": s.num_objects_manifest,
        "num_omap_bytes": s.num_omap_bytes, "num_omap_keys": s.num_omap_keys, "num_objects_repaired": s.num_objects_repaired,
    })
}

fn store_dump(s: &StoreStatfs) -> Value {
    json!({
        "total": s.total, "available": s.available, "internally_reserved": s.internally_reserved, "allocated": s.allocated,
        "data_stored": s.data_stored, "data_compressed": s.data_compressed,
        "data_compressed_allocated": s.data_compressed_allocated, "data_compressed_original": s.data_compressed_original,
        "omap_allocated": s.omap_allocated, "internal_metadata": s.internal_metadata,
    })
}

/// OSDs that are sent heartbeats at least: the default of `osd_heartbeat_min_peers`.
const HB_LEAST: usize = 10;

fn time(t: UTime) -> String {
    if t.is_zero() { "0.000000".into() } else { t.iso() }
}

fn pg_dump(pg: &Pg<'_>) -> Value {
    let r = pg.report();
    let fresh = time(pg.soft.map_or(UTime::ZERO, |s| s.at));
    let change = time(r.last_change);
    let stamps = pg.soft.map_or(Stamps::default(), |s| s.stamps);
    let (scrub, deep) = (time(r.last_scrub_stamp), time(r.last_deep_scrub_stamp));
    let mut out = json!({
        "pgid": pg.id.to_string(), "version": r.version.to_string(), "reported_seq": r.reported.version,
        "reported_epoch": r.reported.epoch, "state": pg.state.to_string(), "last_fresh": fresh, "last_change": change,
        "last_active": time(stamps.active), "last_peered": time(stamps.peered), "last_clean": time(stamps.clean),
        "last_became_active": time(stamps.became_active), "last_became_peered": time(stamps.became_peered), "last_unstale": fresh,
        "last_undegraded": time(stamps.undegraded), "last_fullsized": time(stamps.fullsized),
        "mapping_epoch": r.created, "log_start": EVersion::default().to_string(), "ondisk_log_start": EVersion::default().to_string(),
        "created": r.created, "last_epoch_clean": r.last_epoch_clean, "parent": "0.0", "parent_split_bits": 0,
        "last_scrub": r.last_scrub.to_string(), "last_scrub_stamp": scrub, "last_deep_scrub": r.last_deep_scrub.to_string(),
        "last_deep_scrub_stamp": deep, "last_clean_scrub_stamp": scrub, "log_size": r.log_size, "ondisk_log_size": r.log_size,
    });
    let tail = json!({
        "stats_invalid": false, "dirty_stats_invalid": false, "omap_stats_invalid": false, "hitset_stats_invalid": false,
        "hitset_bytes_stats_invalid": false, "pin_stats_invalid": false, "manifest_stats_invalid": false,
        "snaptrimq_len": r.snap_trimq_len, "stat_sum": sum_dump(&r.stats), "up": pg.up, "acting": pg.acting,
        "avail_no_missing": [], "object_location_counts": [], "blocked_by": r.blocked_by, "up_primary": pg.up_primary,
        "acting_primary": pg.acting_primary,
        "purged_snaps": r.purged_snaps.iter().map(|(start, len)| json!({"start": format!("{start:x}"), "length": format!("{len:x}")})).collect::<Vec<_>>(),
    });
    if let (Value::Object(out), Value::Object(tail)) = (&mut out, tail) {
        out.extend(tail);
    }
    out
}

/// Figures of all pools.
pub(super) fn pools_dump(cx: &Cx<'_>) -> Vec<Value> {
    let pools = &cx.state.osdmap.pools;
    pools
        .iter()
        .rev()
        .map(|(id, p)| {
            let stat = cx.soft.pool_stat(cx.state, *id);
            json!({
                "poolid": id, "num_pg": p.pg_num, "stat_sum": sum_dump(&stat.stats.sum), "store_stats": store_dump(&stat.store),
                "log_size": stat.log_size, "ondisk_log_size": stat.ondisk_log_size, "up": stat.up, "acting": stat.acting,
                "num_store_stats": stat.num_store_stats,
            })
        })
        .collect()
}

/// Figures of an OSD, or of several together.
pub(super) fn osd_fields(
    space: &messages::internal::Space,
    pgs: u64,
    osds: usize,
    up_from: u32,
    seq: u64,
    latency: (u32, u32),
) -> Value {
    let used = space.total.saturating_sub(space.available);
    let statfs = StoreStatfs {
        total: space.total,
        available: space.available,
        allocated: space.data as i64,
        data_stored: space.data as i64,
        omap_allocated: space.omap as i64,
        internal_metadata: space.meta as i64,
        ..StoreStatfs::default()
    };
    json!({
        "up_from": up_from, "seq": seq, "num_pgs": pgs, "num_osds": osds, "num_per_pool_osds": osds, "num_per_pool_omap_osds": osds,
        "kb": space.total >> 10, "kb_used": used >> 10, "kb_used_data": space.data >> 10, "kb_used_omap": space.omap >> 10,
        "kb_used_meta": space.meta >> 10, "kb_avail": space.available >> 10, "statfs": store_dump(&statfs), "hb_peers": [],
        "snap_trim_queue_len": 0, "num_snap_trimming": 0, "num_shards_repaired": 0,
        "op_queue_age_hist": {"histogram": [], "upper_bound": 1},
        "perf_stat": {
            "commit_latency_ms": latency.0 / 1000, "apply_latency_ms": latency.1 / 1000,
            "commit_latency_ns": u64::from(latency.0) * 1000, "apply_latency_ns": u64::from(latency.1) * 1000,
        },
        "alerts": [], "network_ping_times": [],
    })
}

/// Returns whom each OSD sends heartbeats by the newest map; groups that it has and the map has elsewhere are not
/// looked at.
fn hb_peers(cx: &Cx<'_>) -> std::collections::BTreeMap<OsdId, BTreeSet<OsdId>> {
    let chosen = cx.state.config.get("osd", "osd_heartbeat_min_peers").and_then(|text| text.parse().ok());
    cx.state.osdmap.all_beat_partners(chosen.unwrap_or(HB_LEAST))
}

fn osds_dump(cx: &Cx<'_>) -> Vec<Value> {
    let peers = hb_peers(cx);
    let counts = cx.soft.pgs_per_osd(cx.state);
    let osds: Vec<OsdId> = cx.state.osdmap.osds().collect();
    osds.iter()
        .map(|osd| {
            let latency = cx
                .soft
                .osds
                .get(osd)
                .and_then(|o| o.report.as_ref())
                .map_or((0, 0), |r| (r.commit_latency_us, r.apply_latency_us));
            let mut one = json!({"osd": osd});
            let pgs = counts.get(osd).copied().unwrap_or(0);
            let rest = osd_fields(&cx.soft.space(*osd), pgs, 1, cx.state.osdmap.up_from(*osd), cx.soft.version, latency);
            if let (Value::Object(one), Value::Object(rest)) = (&mut one, rest) {
                one.extend(rest);
            }
            one["hb_peers"] = json!(peers.get(osd).cloned().unwrap_or_default());
            one
        })
        .collect()
}

/// Sums over all placement groups, or how they changed.
pub(super) fn total_dump(cx: &Cx<'_>, delta: bool) -> Value {
    let (mut sum, mut log, mut n) = (ObjectStatSum::default(), 0i64, 0);
    if !delta {
        sum = cx.soft.total();
        log = cx.soft.pgs.values().map(|p| i64::from(p.report.log_size)).sum();
        n = cx.soft.pgs.len();
    }
    let mut out = json!({
        "stat_sum": sum_dump(&sum), "store_stats": store_dump(&StoreStatfs::default()), "log_size": log, "ondisk_log_size": log,
        "up": n, "acting": n, "num_store_stats": 0,
    });
    if delta {
        out["stamp_delta"] = json!("0.000000");
    }
    out
}

/// Space by pool and OSD.
pub(super) fn pool_statfs(cx: &Cx<'_>) -> Vec<Value> {
    let mut rows = Vec::new();
    for (pool, p) in &cx.state.osdmap.pools {
        let mut by_osd: std::collections::BTreeMap<OsdId, StoreStatfs> = Default::default();
        // A shard has a part of each object's bytes.
        let data = cx.state.osdmap.layout(*pool).map_or(1, |layout| i64::from(layout.data));
        for pg in cx.soft.pool_pgs(*pool) {
            for osd in cx.state.osdmap.placed(pg.report.pg).acting.iter().filter(|osd| types::is_osd(**osd)) {
                let s = by_osd.entry(*osd).or_default();
                s.allocated += pg.report.stats.num_bytes / data;
                s.data_stored += pg.report.stats.num_bytes / data;
                s.omap_allocated += pg.report.stats.num_omap_bytes;
            }
        }
        for (osd, s) in by_osd {
            let mut one = json!({"poolid": pool, "osd": osd});
            if let (Value::Object(one), Value::Object(rest)) = (&mut one, store_dump(&s)) {
                one.extend(rest);
            }
            rows.push(one);
        }
        debug_assert!(p.size > 0);
    }
    rows
}

/// The parts of the dump that were asked for.
fn parts(args: &Args) -> BTreeSet<String> {
    let asked: BTreeSet<String> = args.list("dumpcontents").iter().cloned().collect();
    if asked.is_empty() { ["all".to_string()].into() } else { asked }
}

fn map_dump(cx: &Cx<'_>, parts: &BTreeSet<String>) -> Value {
    let has = |names: &[&str]| names.iter().any(|n| parts.contains(*n));
    let mut map = Map::new();
    map.insert("version".into(), json!(cx.soft.version));
    map.insert("stamp".into(), json!(cx.now.wall.iso()));
    map.insert("last_osdmap_epoch".into(), json!(0));
    map.insert("last_pg_scan".into(), json!(0));
    if has(&["all", "summary", "sum"]) {
        let osds = cx.state.osdmap.osds().count();
        let pgs: u64 = cx.soft.pgs_per_osd(cx.state).values().sum();
        map.insert("pg_stats_sum".into(), total_dump(cx, false));
        map.insert("osd_stats_sum".into(), osd_fields(&cx.soft.total_space(cx.state), pgs, osds, 0, 0, (0, 0)));
    }
    if has(&["all", "summary", "delta"]) {
        map.insert("pg_stats_delta".into(), total_dump(cx, true));
    }
    if has(&["all", "pgs"]) {
        map.insert("pg_stats".into(), all(cx).iter().map(pg_dump).collect());
    }
    if has(&["pgs_brief"]) && !has(&["all", "pgs"]) {
        map.insert("pg_stats".into(), all(cx).iter().map(brief_dump).collect());
    }
    if has(&["all", "pools"]) {
        map.insert("pool_stats".into(), pools_dump(cx).into());
    }
    if has(&["all", "osds"]) {
        map.insert("osd_stats".into(), osds_dump(cx).into());
        map.insert("pool_statfs".into(), pool_statfs(cx).into());
    }
    Value::Object(map)
}

fn brief_dump(pg: &Pg<'_>) -> Value {
    json!({
        "pgid": pg.id.to_string(), "state": pg.state.to_string(), "up": pg.up, "acting": pg.acting, "up_primary": pg.up_primary,
        "acting_primary": pg.acting_primary,
    })
}

/// The structure of `pg dump`: sums stand in a whole map, everything else by itself.
fn parts_dump(cx: &Cx<'_>, parts: &BTreeSet<String>) -> Value {
    let has = |name: &str| parts.contains(name);
    let mut value = Map::from_iter([("pg_ready".to_owned(), json!(true))]);
    if has("all") {
        value.insert("pg_map".into(), map_dump(cx, parts));
        return Value::Object(value);
    }
    let mut map = map_dump(cx, &["summary".to_owned()].into());
    if has("summary") || has("sum") {
        value.insert("pg_map".into(), map);
    } else if has("delta") {
        value.insert("delta".into(), json!({"pg_stats_delta": map["pg_stats_delta"].take()}));
    }
    let Value::Object(rest) = map_dump(cx, parts) else { return Value::Object(value) };
    value.extend(
        rest.into_iter().filter(|(name, _)| ["pg_stats", "pool_stats", "osd_stats", "pool_statfs"].contains(&name.as_str())),
    );
    Value::Object(value)
}

fn dump(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let parts = parts(args);
    let what: Vec<&str> = parts.iter().map(String::as_str).collect();
    let status = format!("dumped {}", what.join(","));
    let reply = if cx.format.is_structured() {
        cx.structure("pg_info", &parts_dump(cx, &parts))
    } else {
        Reply::data(dump_text(cx, &parts))
    };
    Ok(reply.with_status(status))
}

/// Shows all of it as JSON on one line, whatever parts and format are asked for, as Ceph does.
fn dump_json(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = json!({"pg_ready": true, "pg_map": map_dump(cx, &["all".to_owned()].into())});
    Ok(Reply::data(Format::Json.render("pg_map", &value)).with_status("dumped all"))
}

fn dump_pools(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = json!({"pg_ready": true, "pool_stats": pools_dump(cx)});
    Ok(Reply::data(Format::Json.render("pg_map", &value)).with_status("dumped pools"))
}

fn dump_text(cx: &Cx<'_>, parts: &BTreeSet<String>) -> String {
    let has = |names: &[&str]| names.iter().any(|n| parts.contains(*n));
    let mut out = String::new();
    if has(&["all", "summary", "sum"]) {
        out = format!("version {}\nstamp {}\nlast_osdmap_epoch 0\nlast_pg_scan 0\n", cx.soft.version, cx.now.wall.iso());
    }
    if has(&["all", "pgs"]) {
        out.push_str(&long_table(&all(cx)));
    } else if has(&["pgs_brief"]) {
        out.push_str(&brief_table(&all(cx)));
    }
    if has(&["all", "pools"]) {
        out.push_str(&pool_table(cx, !has(&["all", "pgs"])));
    }
    if has(&["all", "summary", "sum"]) {
        let headed = !has(&["all"]);
        out.push_str(&sum_line(&cx.soft.total(), headed, cx.soft.pgs.values().map(|p| u64::from(p.report.log_size)).sum()));
    }
    if has(&["all", "osds"]) {
        out.push_str(&osd_table(cx));
    }
    if has(&["all", "pgs"]) {
        out.push_str(NOTE);
    }
    out
}

fn counters(s: &ObjectStatSum) -> Vec<String> {
    [
        s.num_objects,
        s.num_objects_missing_on_primary,
        s.num_objects_degraded,
        s.num_objects_misplaced,
        s.num_objects_unfound,
        s.num_bytes,
        s.num_omap_bytes,
        s.num_omap_keys,
    ]
    .iter()
    .map(ToString::to_string)
    .collect()
}

fn long_table(pgs: &[Pg<'_>]) -> String {
    let mut columns = counter_columns("PG_STAT");
    columns.extend([("STATE", Left, Right), ("STATE_STAMP", Left, Right), ("VERSION", Left, Right), ("REPORTED", Left, Right)]);
    columns.extend([("UP", Left, Left), ("UP_PRIMARY", Left, Right), ("ACTING", Left, Left), ("ACTING_PRIMARY", Left, Right)]);
    columns.extend([
        ("LAST_SCRUB", Left, Right),
        ("SCRUB_STAMP", Left, Right),
        ("LAST_DEEP_SCRUB", Left, Right),
        ("DEEP_SCRUB_STAMP", Left, Right),
    ]);
    columns.push(("SNAPTRIMQ_LEN", Left, Right));
    let mut t = Table::new(&columns);
    for pg in pgs {
        let r = pg.report();
        let mut cells = vec![pg.id.to_string()];
        cells.extend(counters(&r.stats));
        cells.extend([
            r.log_size.to_string(),
            r.log_size.to_string(),
            pg.state.to_string(),
            time(r.last_change),
            r.version.to_string(),
        ]);
        cells.push(format!("{}:{}", r.reported.epoch, r.reported.version));
        cells.extend([set_text(&pg.up), pg.up_primary.to_string(), set_text(&pg.acting), pg.acting_primary.to_string()]);
        cells.extend([
            r.last_scrub.to_string(),
            time(r.last_scrub_stamp),
            r.last_deep_scrub.to_string(),
            time(r.last_deep_scrub_stamp),
        ]);
        cells.push(r.snap_trimq_len.to_string());
        t.row(cells);
    }
    t.render()
}

fn brief_table(pgs: &[Pg<'_>]) -> String {
    let mut t = Table::new(&[
        ("PG_STAT", Left, Left),
        ("STATE", Left, Right),
        ("UP", Left, Left),
        ("UP_PRIMARY", Left, Right),
        ("ACTING", Left, Left),
        ("ACTING_PRIMARY", Left, Right),
    ]);
    for pg in pgs {
        t.row(vec![
            pg.id.to_string(),
            pg.state.to_string(),
            set_text(&pg.up),
            pg.up_primary.to_string(),
            set_text(&pg.acting),
            pg.acting_primary.to_string(),
        ]);
    }
    t.render()
}

/// The columns of [`counters`] and of the log's length, behind a first one.
fn counter_columns(first: &'static str) -> Vec<(&'static str, Align, Align)> {
    let names = [
        "OBJECTS",
        "MISSING_ON_PRIMARY",
        "DEGRADED",
        "MISPLACED",
        "UNFOUND",
        "BYTES",
        "OMAP_BYTES*",
        "OMAP_KEYS*",
        "LOG",
        "DISK_LOG",
    ];
    std::iter::once((first, Left, Left)).chain(names.map(|name| (name, Left, Right))).collect()
}

/// A table of counters, whose first column is `first`. Below a table of groups, Ceph prints no names of columns.
fn counter_table(first: &'static str, headed: bool) -> Table {
    let columns = counter_columns(first);
    if headed { Table::new(&columns) } else { Table::new(&vec![("", Left, Left); columns.len()]) }
}

fn pool_table(cx: &Cx<'_>, headed: bool) -> String {
    let mut t = counter_table("POOLID", headed);
    for id in cx.state.osdmap.pools.keys().rev() {
        let log: i64 = cx.soft.pool_pgs(*id).map(|p| i64::from(p.report.log_size)).sum();
        let mut cells = vec![id.to_string()];
        cells.extend(counters(&cx.soft.pool_sum(*id)));
        cells.extend([log.to_string(), log.to_string()]);
        t.row(cells);
    }
    t.render()
}

fn sum_line(sum: &ObjectStatSum, headed: bool, log: u64) -> String {
    let mut t = counter_table("PG_STAT", headed);
    let mut cells = vec!["sum".to_string()];
    cells.extend(counters(sum));
    cells.extend([log.to_string(), log.to_string()]);
    t.row(cells);
    t.render()
}

fn osd_table(cx: &Cx<'_>) -> String {
    let mut t = Table::new(&[
        ("OSD_STAT", Left, Left),
        ("USED", Left, Right),
        ("AVAIL", Left, Right),
        ("USED_RAW", Left, Right),
        ("TOTAL", Left, Right),
        ("HB_PEERS", Left, Right),
        ("PG_SUM", Left, Right),
        ("PRIMARY_PG_SUM", Left, Right),
    ]);
    let (counts, peers) = (cx.soft.pgs_per_osd(cx.state), hb_peers(cx));
    let mut led: std::collections::BTreeMap<OsdId, u64> = Default::default();
    all_pgs(cx.state).for_each(|pg| *led.entry(cx.state.osdmap.placed(pg).acting_primary).or_default() += 1);
    let cells = |name: String, s: messages::internal::Space| {
        let used = bytes(s.total.saturating_sub(s.available));
        vec![name, used.clone(), bytes(s.available), used, bytes(s.total)]
    };
    for osd in cx.state.osdmap.osds() {
        let mut row = cells(osd.to_string(), cx.soft.space(osd));
        let count = |of: &std::collections::BTreeMap<OsdId, u64>| of.get(&osd).copied().unwrap_or(0).to_string();
        let peers: Vec<String> = peers.get(&osd).into_iter().flatten().map(ToString::to_string).collect();
        row.extend([format!("[{}]", peers.join(",")), count(&counts), count(&led)]);
        t.row(row);
    }
    t.row(cells("sum".into(), cx.soft.total_space(cx.state)));
    t.render()
}

fn short_table(cx: &Cx<'_>, pgs: &[Pg<'_>]) -> String {
    let mut columns = vec![("PG", Left, Left)];
    for name in ["OBJECTS", "DEGRADED", "MISPLACED", "UNFOUND", "BYTES", "OMAP_BYTES*", "OMAP_KEYS*", "LOG"] {
        columns.push((name, Left, Right));
    }
    columns.extend([
        ("STATE", Left, Right),
        ("SINCE", Left, Right),
        ("VERSION", Left, Right),
        ("REPORTED", Left, Right),
        ("UP", Left, Right),
    ]);
    columns.extend([("ACTING", Left, Right), ("SCRUB_STAMP", Left, Right), ("DEEP_SCRUB_STAMP", Left, Right)]);
    let mut t = Table::new(&columns);
    for pg in pgs {
        let r = pg.report();
        let mut cells = vec![pg.id.to_string()];
        cells.extend(counters(&r.stats).into_iter().enumerate().filter(|(i, _)| *i != 1).map(|(_, c)| c));
        let since = span(cx.now.wall.sec.saturating_sub(r.last_change.sec).into());
        cells.extend([r.log_size.to_string(), pg.state.to_string(), since, r.version.to_string()]);
        cells.push(format!("{}:{}", r.reported.epoch, r.reported.version));
        cells.extend([
            format!("{}p{}", set_text(&pg.up), pg.up_primary),
            format!("{}p{}", set_text(&pg.acting), pg.acting_primary),
        ]);
        cells.extend([time(r.last_scrub_stamp), time(r.last_deep_scrub_stamp)]);
        t.row(cells);
    }
    t.render() + NOTE
}

fn listed(cx: &Cx<'_>, args: &Args, pool: Option<PoolId>, keep: impl Fn(&Pg<'_>) -> bool) -> Outcome {
    let states = args.list("states");
    if let Some(wrong) = states.iter().find(|s| *s != "all" && PgState::of_word(s).is_none()) {
        refuse!(EINVAL, "'{wrong}' is not a valid pg state");
    }
    let fits = |pg: &Pg<'_>| states.is_empty() || states.iter().any(|s| s == "all" || pg.state.has_word(s));
    let pgs: Vec<Pg<'_>> =
        all(cx).into_iter().filter(|pg| pool.is_none_or(|p| pg.id.pool == p) && fits(pg) && keep(pg)).collect();
    if pgs.is_empty() {
        // Scripts tell by the missing list, and by the missing table, that there is nothing to do.
        let nothing = json!({"pg_ready": true});
        return Ok(cx.show("pg_info", nothing, String::new));
    }
    if !cx.format.is_structured() {
        // The structure has many times as much in it as the table.
        return Ok(Reply::data(short_table(cx, &pgs)));
    }
    let value = json!({"pg_ready": true, "pg_stats": pgs.iter().map(pg_dump).collect::<Vec<_>>()});
    Ok(cx.structure("pg_info", &value))
}

/// Ceph answers a list in a structure also when it refuses it: who reads the structure finds it empty.
fn ready(cx: &Cx<'_>, told: Outcome) -> Outcome {
    told.map_err(|mut refusal| {
        if cx.format.is_structured() {
            refusal.data = cx.format.render("pg_info", &json!({"pg_ready": true})).into();
        }
        refusal
    })
}

fn numbered_pool(cx: &Cx<'_>, args: &Args) -> Result<Option<PoolId>, Refusal> {
    match args.int("pool") {
        Some(pool) if pool >= 0 && !cx.state.osdmap.pools.contains_key(&pool) => refuse!(ENOENT, "pool {pool} does not exist"),
        Some(pool) if pool >= 0 => Ok(Some(pool)),
        _ => Ok(None),
    }
}

fn ls(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let pool = numbered_pool(cx, args)?;
    listed(cx, args, pool, |_| true)
}

fn ls_by_pool(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("poolstr");
    let Some(pool) = cx.state.pool_id(name) else { refuse!(ENOENT, "pool {name} does not exist") };
    listed(cx, args, Some(pool), |_| true)
}

/// An OSD whose groups are asked for. One that is down has none, which Ceph refuses, so that nobody takes it for empty.
fn up(cx: &Cx<'_>, args: &Args) -> Result<types::OsdId, grammar::Refusal> {
    let osd = args.osd("osd")?;
    if !cx.state.osdmap.is_up(osd) {
        refuse!(EAGAIN, "osd {osd} is not up");
    }
    Ok(osd)
}

fn ls_by_osd(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (osd, pool) = (up(cx, args)?, numbered_pool(cx, args)?);
    listed(cx, args, pool, |pg| pg.acting.contains(&osd) || pg.up.contains(&osd))
}

fn ls_by_primary(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (osd, pool) = (up(cx, args)?, numbered_pool(cx, args)?);
    listed(cx, args, pool, |pg| pg.acting_primary == osd)
}

/// Returns when a group was last without this kind of trouble; none if it has none of it.
fn stuck_since(cx: &Cx<'_>, pg: &Pg<'_>, kind: &str) -> Option<UTime> {
    let made = cx.state.osdmap.pools[&pg.id.pool].create_time;
    let stamps = pg.soft.map_or(Stamps::default(), |s| s.stamps);
    let (shows, since) = match kind {
        "inactive" => (!pg.state.has(PgState::ACTIVE), stamps.active),
        "undersized" => (pg.state.has(PgState::UNDERSIZED), stamps.fullsized),
        "degraded" => (pg.state.has(PgState::DEGRADED), stamps.undegraded),
        "stale" => (pg.state.has(PgState::STALE), pg.soft.map_or(made, |s| s.at)),
        _ => (!pg.state.has(PgState::CLEAN), stamps.clean),
    };
    shows.then(|| since.max(made))
}

fn dump_stuck(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let named = args.list("stuckops");
    let usual = effective::monitor_number(cx.state, cx.env, "mon_pg_stuck_threshold") as i64;
    let threshold = args.int("threshold").unwrap_or(usual).clamp(0, i64::from(u32::MAX));
    let stuck = |pg: &Pg<'_>, kind: &str| {
        stuck_since(cx, pg, kind).is_some_and(|since| i64::from(cx.now.wall.sec.saturating_sub(since.sec)) >= threshold)
    };
    let wanted = |pg: &Pg<'_>| if named.is_empty() { stuck(pg, "unclean") } else { named.iter().any(|k| stuck(pg, k)) };
    let pgs: Vec<Pg<'_>> = all(cx).into_iter().filter(wanted).collect();
    let value = json!({"pg_ready": true, "stuck_pg_stats": pgs.iter().map(pg_dump).collect::<Vec<_>>()});
    let reply = cx.show("pg_info", value, || if pgs.is_empty() { String::new() } else { brief_table(&pgs) });
    Ok(reply.with_status("ok"))
}
