//! The picture of the cluster: all that metrics and pages tell of it at one moment, as one structure.
//!
//! *One owner.* The leader makes it of the map, of what daemons reported, and of the findings of health, with the same
//! functions that answer `df`, `status` and `health detail`. So a figure is the same wherever it is read. Who shows it
//! (the crate `face`, on each host) computes nothing of its own.
//!
//! *Its price* is a walk over all groups and OSDs. It is made when somebody asks. Who asks measures how long the answer takes,
//! and keeps the picture a hundred times as long before it asks again.
//!
//! *Bounds*: lists grow with OSDs, pools and monitors, which have bounds of their own. Findings have at most
//! [`DETAILS`] lines each, the log [`LINES`] lines.

use super::{Ask, Cx, Row, df, health, log, mgr, mon, osd, row};
use grammar::{Args, Outcome};
use manager::health::Severity;
use manager::health::advice::advice;
use manager::health::codes::CODES;
use manager::recovery;
use manager::soft::all_pgs;
use messages::mon::log_level;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::{EntityAddrVec, OsdId, PgState, PoolId};

pub(super) const ROWS: &[Row] = &[
    row(
        "nacre picture <images:Choices strings=all req=false>",
        "show all that metrics and pages tell of the cluster",
        "mon",
        "r",
        picture,
    ),
    row("prometheus file_sd_config", "list the hosts whose metrics are to be read, for Prometheus", "mgr", "r", targets),
];

/// Version of the structure. Readers take what they know.
const VERSION: u32 = 1;
/// Most lines of detail of a finding.
const DETAILS: usize = 10;
/// Lines of the cluster log, the newest last.
const LINES: usize = 40;

/// Most OSDs of a cluster in whose picture each has its history.
const DISKS: usize = 96;
/// Images of a picture, unless all are asked for.
const IMAGES: usize = 50;
/// Most images of a picture.
const ALL_IMAGES: usize = 10_000;
/// The port of metrics, unless a host was told another one.
const METRICS_PORT: u16 = 9283;

fn picture(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let groups = Groups::count(cx);
    let (images, images_left_out) = images(cx, args.opt("images").is_some());
    cx.asks.push(Ask::See);
    let value = json!({
        "picture": VERSION,
        "at": cx.now.wall.iso(),
        "at_seconds": f64::from(cx.now.wall.sec) + f64::from(cx.now.wall.nsec) / 1e9,
        "fsid": cx.state.fsid.to_string(),
        "level": cx.state.osdmap.level.0,
        "leads": cx.env.standing.leads,
        "leader": cx.env.standing.leader,
        "health": findings(cx),
        "codes": codes(),
        "remedies": remedies(cx),
        "mons": monitors(cx),
        "mgrs": managers(cx),
        "modules": modules(cx),
        "services": cx.state.mgrmap.services,
        "osds": osds(cx),
        "flags": flags(cx),
        "blocklisted": cx.state.osdmap.blocklist.len() + cx.state.osdmap.range_blocklist.len(),
        "df": df::dump(cx, true),
        "pools": pools(cx, &groups),
        "states": groups.all.iter().map(|(state, n)| json!({"state": state.to_string(), "count": n})).collect::<Vec<_>>(),
        "objects": objects(cx),
        "rates": rates(cx, None),
        "recovery": pace(cx, None),
        "images": images,
        "images_left_out": images_left_out,
        "history": cx.duties.history.dump(u64::from(cx.now.wall.sec)),
        "progress": cx.duties.progress.to_json(cx.now.wall),
        "log": lines(cx),
    });
    Ok(cx.structure("picture", &value))
}

/// Numbers of groups by state.
#[derive(Default)]
struct Groups {
    /// Of all pools, by the whole state.
    all: BTreeMap<PgState, u64>,
    /// Of each pool, by each word of the state.
    words: BTreeMap<PoolId, BTreeMap<&'static str, u64>>,
}

impl Groups {
    fn count(cx: &Cx<'_>) -> Self {
        let mut groups = Self::default();
        for pg in all_pgs(cx.state) {
            let state = cx.soft.pg_state(cx.state, pg);
            *groups.all.entry(state).or_default() += 1;
            let words = groups.words.entry(pg.pool).or_default();
            if state.is_unknown() {
                *words.entry("unknown").or_default() += 1;
            }
            for (_, word) in PgState::ALL.iter().filter(|(bit, _)| state.has(*bit)) {
                *words.entry(word).or_default() += 1;
            }
        }
        groups
    }
}

fn findings(cx: &Cx<'_>) -> Value {
    let mut all = health::current(cx);
    for check in all.values_mut().filter(|check| check.detail.len() > DETAILS) {
        let more = check.detail.len() - DETAILS;
        check.detail.truncate(DETAILS);
        check.detail.push(format!("and {more} more"));
    }
    manager::health::dump(cx.state, &all, true)
}

/// All codes that may be raised, with the severity that each usually has, as `HEALTH_WARN`.
fn codes() -> Value {
    let name = |severity: Severity| if severity == Severity::Error { "HEALTH_ERR" } else { "HEALTH_WARN" };
    CODES.iter().map(|(code, severity)| ((*code).to_owned(), json!(name(*severity)))).collect::<Map<_, _>>().into()
}

/// Returns what helps against the findings that are raised, by code: a sentence, and a command that shows more or mends it.
fn remedies(cx: &Cx<'_>) -> Value {
    let one = |code: String| {
        let (text, command) = advice(&code)?;
        let command = Some(command).filter(|command| !command.is_empty());
        Some((code, json!({"text": text, "command": command})))
    };
    health::current(cx).into_keys().filter_map(one).collect::<Map<_, _>>().into()
}

/// The IP address of the first of these addresses; empty without one.
fn ip(addrs: Option<&EntityAddrVec>) -> String {
    addrs.and_then(|all| all.0.first()).and_then(|a| a.addr).map_or(String::new(), |a| a.ip().to_string())
}

fn monitors(cx: &Cx<'_>) -> Vec<Value> {
    let one = |(rank, info): (usize, &maps::MonInfo)| {
        let at = info.public_addrs.0.first().and_then(|a| a.addr).map_or(String::new(), |a| a.to_string());
        json!({
            "name": info.name, "rank": rank, "addr": at, "version": mon::version(cx, &info.name),
            "hostname": mon::told(cx, &info.name).get("hostname").cloned().unwrap_or_default(),
            "in_quorum": cx.env.standing.quorum.contains(&info.name),
        })
    };
    cx.state.monmap.by_rank().enumerate().map(one).collect()
}

fn managers(cx: &Cx<'_>) -> Vec<Value> {
    let of = |m: &BTreeMap<String, String>, key: &str| m.get(key).cloned().unwrap_or_default();
    let one = |m: BTreeMap<String, String>| {
        let (name, active) = (of(&m, "name"), &cx.state.mgrmap.active_name);
        json!({"active": name == *active, "hostname": of(&m, "hostname"), "version": of(&m, "ceph_version"), "name": name})
    };
    mgr::all_metadata(cx).into_iter().map(one).collect()
}

/// Modules of the manager: whether each can run, and 0 if it is off, 1 if it is on, 2 if it always is.
fn modules(cx: &Cx<'_>) -> Value {
    let (enabled, always) = (monstate::modules::enabled(cx.state), mgr::built_in(cx));
    let one = |m: Value| {
        let name = m["name"].as_str().unwrap_or_default().to_owned();
        let status = if always.contains(&name) { 2 } else { u8::from(enabled.contains(name.as_str())) };
        (name, json!({"can_run": m["can_run"], "status": status}))
    };
    mgr::offered(cx).into_iter().map(one).collect::<Map<_, _>>().into()
}

fn osds(cx: &Cx<'_>) -> Vec<Value> {
    let map = &cx.state.osdmap;
    let groups = cx.soft.pgs_per_osd(cx.state);
    let one = |osd: OsdId| {
        let told = osd::told(cx, osd);
        let of = |key: &str| told.get(key).cloned().unwrap_or_default();
        let report = cx.soft.osds.get(&osd).and_then(|o| o.report.as_ref());
        let space = cx.soft.space(osd);
        let down = cx.soft.osds.get(&osd).and_then(|o| o.down_since).map(|since| cx.now.mono.since(since).as_secs());
        let host = map.crush.full_location(osd).into_iter().find(|(kind, _)| kind == "host").map(|(_, name)| name);
        json!({
            "id": osd,
            "up": map.is_up(osd),
            "in": map.is_in(osd),
            "weight": f64::from(map.weight(osd)) / f64::from(crush::ONE),
            "class": map.crush.class_of(osd).unwrap_or_default(),
            "hostname": of("hostname"),
            "host": host,
            "objectstore": of("osd_objectstore"),
            "devices": of("devices"),
            "device_ids": of("device_ids"),
            "front_iface": of("front_iface"),
            "back_iface": of("back_iface"),
            "version": of("ceph_version"),
            "public_addr": ip(map.osd_addr(osd)),
            "cluster_addr": ip(map.osd_cluster_addr(osd)),
            "total": space.total,
            "available": space.available,
            "groups": groups.get(&osd).copied().unwrap_or(0),
            "commit_us": report.map_or(0, |r| r.commit_latency_us),
            "apply_us": report.map_or(0, |r| r.apply_latency_us),
            "slow_ops": report.map_or(0, |r| r.slow_ops),
            "slow_oldest": report.map_or(0, |r| r.slow_oldest),
            "down_seconds": down,
            "history": of_osd(cx, osd),
        })
    };
    map.osds().map(one).collect()
}

/// Last day of an OSD. Of a cluster with many nobody sees them all.
fn of_osd(cx: &Cx<'_>, osd: OsdId) -> Option<Value> {
    let few = cx.state.osdmap.osds().nth(DISKS).is_none();
    few.then(|| cx.duties.history.of_osd(u64::from(cx.now.wall.sec), osd)).flatten()
}

fn flags(cx: &Cx<'_>) -> Vec<&'static str> {
    maps::flags::NAMES.iter().filter(|(bit, _)| cx.state.osdmap.flags & bit != 0).map(|(_, name)| *name).collect()
}

fn pools(cx: &Cx<'_>, groups: &Groups) -> Vec<Value> {
    let none = BTreeMap::new();
    let one = |(id, pool): (&PoolId, &maps::Pool)| {
        let sum = cx.soft.pool_sum(*id);
        json!({
            "id": id,
            "name": cx.state.pool_name(*id),
            "replicated": !pool.is_erasure(),
            "size": pool.size,
            "groups": pool.pg_num,
            "states": groups.words.get(id).unwrap_or(&none),
            "rates": rates(cx, Some(*id)),
            "full_seconds": cx.duties.history.forecast(*id).map(|told| [told.soonest.round(), told.latest.round()]),
            "recovery": pace(cx, Some(*id)),
            "objects_recovered": sum.num_objects_recovered,
            "bytes_recovered": sum.num_bytes_recovered,
            "keys_recovered": sum.num_keys_recovered,
            "objects_repaired": sum.num_objects_repaired,
            "applications": pool.application_metadata.keys().collect::<Vec<_>>(),
        })
    };
    cx.state.osdmap.pools.iter().map(one).collect()
}

/// Images, the busiest first: their pool, namespace and name, all that was counted, what they do, and whether metrics are to have them. And
/// how many are left out.
fn images(cx: &Cx<'_>, all: bool) -> (Vec<Value>, u64) {
    let (rows, left_out) = cx.duties.images.rows();
    let wanted = ["mgr", "global"].iter().find_map(|section| cx.state.config.get(section, "mgr/prometheus/rbd_stats_pools"));
    let wanted: Vec<&str> = wanted.into_iter().flat_map(|list| list.split([',', ' '])).filter(|name| !name.is_empty()).collect();
    let told = |pool: &str, nspace: &str| {
        let named = |spec: &&str| match spec.split_once('/') {
            Some((name, one)) => name == pool && (one == nspace || one == "*"),
            None => *spec == "*" || *spec == pool,
        };
        wanted.iter().any(named)
    };
    let most = if all { ALL_IMAGES } else { IMAGES };
    let more = rows.len().saturating_sub(most) as u64;
    let secs = u64::from(cx.now.wall.sec);
    let one = |(at, row): (usize, manager::figures::Row)| {
        let pool = cx.state.pool_name(row.pool).to_string();
        let metrics = told(&pool, &row.nspace);
        let history = (at < IMAGES).then(|| cx.duties.history.of_image(secs, &row.image)).flatten();
        json!({
            "pool": pool, "namespace": row.nspace, "name": row.name, "sums": row.sums, "rates": row.rates, "metrics": metrics,
            "history": history,
        })
    };
    (rows.into_iter().take(most).enumerate().map(one).collect(), left_out + if all { more } else { 0 })
}

/// The hosts that run something, each by its address. A host that was told another port than the usual one is to be named by hand.
fn targets(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let mut hosts: BTreeMap<String, String> = BTreeMap::new();
    for osd in cx.state.osdmap.osds() {
        let (host, at) = (osd::told(cx, osd).remove("hostname").unwrap_or_default(), ip(cx.state.osdmap.osd_addr(osd)));
        if !at.is_empty() {
            hosts.insert(host, at);
        }
    }
    for info in cx.state.monmap.by_rank() {
        let (host, at) = (mon::told(cx, &info.name).remove("hostname").unwrap_or_default(), ip(Some(&info.public_addrs)));
        if !at.is_empty() {
            hosts.insert(host, at);
        }
    }
    let target = |at: &String| if at.contains(':') { format!("[{at}]:{METRICS_PORT}") } else { format!("{at}:{METRICS_PORT}") };
    let value = json!([{"targets": hosts.values().map(target).collect::<Vec<_>>(), "labels": {}}]);
    Ok(cx.structure("targets", &value))
}

fn objects(cx: &Cx<'_>) -> Value {
    let sum = cx.soft.total();
    json!({
        "objects": sum.num_objects,
        "copies": sum.num_object_copies,
        "degraded": sum.num_objects_degraded,
        "misplaced": sum.num_objects_misplaced,
        "unfound": sum.num_objects_unfound,
    })
}

/// Returns what clients do, per second.
fn rates(cx: &Cx<'_>, pool: Option<PoolId>) -> Value {
    let rates = cx.soft.rates(pool);
    json!({
        "read_ops": rates.read_ops, "write_ops": rates.write_ops, "read_bytes": rates.read_bytes, "write_bytes": rates.write_bytes,
    })
}

/// Returns what recovery does, per second.
fn pace(cx: &Cx<'_>, pool: Option<PoolId>) -> Value {
    let pace: recovery::Pace = cx.soft.pace(pool);
    let per_second = |n: i64| if pace.secs > 0.0 { (n as f64 / pace.secs) as u64 } else { 0 };
    json!({"objects": per_second(pace.objects), "bytes": per_second(pace.bytes), "keys": per_second(pace.keys)})
}

fn lines(cx: &Cx<'_>) -> Vec<Value> {
    let told = cx.state.log.iter().rev().filter(|e| e.channel == "cluster" && e.level >= log_level::INFO).take(LINES);
    let mut lines: Vec<Value> = told
        .map(|e| json!({"at": e.stamp.iso(), "who": e.name.to_string(), "level": log::level_name(e.level), "text": e.message}))
        .collect();
    lines.reverse();
    lines
}
