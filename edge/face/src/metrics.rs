//! Families of metrics. Names and labels of those that begin with `ceph_` are those of Ceph 16.2 and 18.2, so that
//! boards and rules that others made work. Ours begin with `nacre_`. `docs/operations/metrics.md` lists both.
//!
//! *Who tells what*: the cluster's families come from one host, the leader's, as sums over hosts would count them twice
//! otherwise ([`cluster`]); those of daemons come from the host that runs them ([`daemons`]).

use crate::text::{Kind, Text};
use crate::values::{number, rows, text};
use Kind::{Counter, Gauge, Untyped};
use counters::Family;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use types::PgState;

/// A picture, and what is known of it.
pub struct Picture<'a> {
    /// The picture.
    pub value: &'a Value,
    /// Time since it was made.
    pub age: Duration,
    /// Time that it took.
    pub took: Duration,
    /// True if the monitors agree: without, the picture is the last one that there was.
    pub agree: bool,
}

/// Report of a daemon of this host.
pub struct Told {
    /// Its name, as `osd.0`.
    pub name: String,
    /// Its answer to `perf dump` (an OSD) or `mon_status` (a monitor); none if it does not answer.
    pub answer: Option<Value>,
}

/// Flags of the map that have a family in Ceph.
const FLAGS: [&str; 9] = ["noup", "nodown", "noout", "noin", "nobackfill", "norebalance", "norecover", "noscrub", "nodeep-scrub"];

/// Figures of a pool in `df` that have a family in Ceph, and whether they only grow.
const OF_POOLS: [(&str, bool); 16] = [
    ("max_avail", false),
    ("avail_raw", false),
    ("stored", false),
    ("stored_raw", false),
    ("objects", false),
    ("dirty", false),
    ("quota_bytes", false),
    ("quota_objects", false),
    ("rd", true),
    ("rd_bytes", true),
    ("wr", true),
    ("wr_bytes", true),
    ("compress_bytes_used", false),
    ("compress_under_bytes", false),
    ("bytes_used", false),
    ("percent_used", false),
];

/// The families of the cluster.
pub fn cluster(out: &mut Text, picture: &Picture<'_>) {
    let all = picture.value;
    health(out, picture);
    monitors(out, all, picture.agree);
    osds(out, all);
    disks(out, all);
    pools(out, all);
    groups(out, all);
    space(out, all);
    images(out, all);
    for (what, help) in [
        ("degraded", "Copies of objects that are missing"),
        ("misplaced", "Copies of objects that are not where the map places them"),
        ("unfound", "Objects that are on no OSD that can be reached"),
    ] {
        out.put(&format!("ceph_num_objects_{what}"), Gauge, help, &[], number(&all["objects"][what]));
    }
    out.put("ceph_cluster_osd_blocklist_count", Gauge, "Clients that OSDs do not serve", &[], number(&all["blocklisted"]));
    out.put("nacre_level", Gauge, "Level of what daemons say and write", &[], number(&all["level"]));
    out.put("nacre_picture_age_seconds", Gauge, "Age of what is told of the cluster", &[], picture.age.as_secs_f64());
    out.put("nacre_picture_seconds", Gauge, "Time that the leader took for it", &[], picture.took.as_secs_f64());
    out.put("nacre_monitors_agree", Gauge, "Whether a majority of the monitors agrees", &[], u8::from(picture.agree));
}

fn health(out: &mut Text, picture: &Picture<'_>) {
    let health = &picture.value["health"];
    let status = match text(&health["status"]) {
        _ if !picture.agree => 2,
        "HEALTH_OK" => 0,
        "HEALTH_WARN" => 1,
        _ => 2,
    };
    out.put("ceph_health_status", Untyped, "Cluster health status", &[], status);
    // Every code is told from the beginning: a rule that compares with a code that never was says nothing.
    let usual = picture.value["codes"].as_object();
    let mut codes: BTreeMap<&str, (&str, bool)> = BTreeMap::new();
    codes.extend(usual.into_iter().flatten().map(|(code, severity)| (code.as_str(), (text(severity), false))));
    codes.extend(OTHERS.map(|code| (code, ("HEALTH_WARN", false))));
    for (code, check) in health["checks"].as_object().into_iter().flatten() {
        // What is muted does not wake anybody, as in Ceph.
        codes.insert(code, (text(&check["severity"]), check["muted"] != true));
    }
    for (code, (severity, active)) in codes {
        out.put(
            "ceph_health_detail",
            Gauge,
            "healthcheck status by type (0=inactive, 1=active)",
            &[("name", code), ("severity", severity)],
            u8::from(active),
        );
    }
    let slow: f64 = rows(&picture.value["osds"]).map(|osd| number(&osd["slow_ops"])).sum();
    out.put("ceph_healthcheck_slow_ops", Gauge, "OSD or Monitor requests taking a long time to process", &[], slow);
}

/// Codes of parts of Ceph that are not here and that its rules ask for: they are never raised.
const OTHERS: [&str; 17] = [
    "OSD_SLOW_PING_TIME_FRONT",
    "OSD_SLOW_PING_TIME_BACK",
    "DEVICE_HEALTH",
    "DEVICE_HEALTH_IN_USE",
    "DEVICE_HEALTH_TOOMANY",
    "TOO_MANY_PGS",
    "POOL_NEAR_FULL",
    "BLUESTORE_DISK_SIZE_MISMATCH",
    "BLUESTORE_SPURIOUS_READ_ERRORS",
    "RECENT_MGR_MODULE_CRASH",
    "MDS_DAMAGE",
    "MDS_ALL_DOWN",
    "FS_DEGRADED",
    "MDS_UP_LESS_THAN_MAX",
    "MDS_INSUFFICIENT_STANDBY",
    "FS_WITH_FAILED_MDS",
    "MDS_HEALTH_READ_ONLY",
];

fn monitors(out: &mut Text, all: &Value, agree: bool) {
    for mon in rows(&all["mons"]) {
        let name = format!("mon.{}", text(&mon["name"]));
        let daemon = ("ceph_daemon", name.as_str());
        let inside = agree && mon["in_quorum"] == true;
        out.put("ceph_mon_quorum_status", Gauge, "Monitors in quorum", &[daemon], u8::from(inside));
        let rank = number(&mon["rank"]).to_string();
        let addr = text(&mon["addr"]).rsplit_once(':').map_or("", |(ip, _)| ip);
        let labels = [
            daemon,
            ("hostname", text(&mon["hostname"])),
            ("public_addr", addr),
            ("rank", &rank),
            ("ceph_version", text(&mon["version"])),
        ];
        out.put("ceph_mon_metadata", Untyped, "MON Metadata", &labels, 1);
    }
    for mgr in rows(&all["mgrs"]) {
        let name = format!("mgr.{}", text(&mgr["name"]));
        let daemon = ("ceph_daemon", name.as_str());
        let labels = [daemon, ("hostname", text(&mgr["hostname"])), ("ceph_version", text(&mgr["version"]))];
        out.put("ceph_mgr_metadata", Gauge, "MGR metadata", &labels, 1);
        out.put("ceph_mgr_status", Gauge, "MGR status (0=standby, 1=active)", &[daemon], number(&mgr["active"]));
    }
    for (name, module) in all["modules"].as_object().into_iter().flatten() {
        let label = [("name", name.as_str())];
        let status = "MGR module status (0=disabled, 1=enabled, 2=auto-enabled)";
        out.put("ceph_mgr_module_status", Gauge, status, &label, number(&module["status"]));
        let can = "MGR module runnable state i.e. can it run (0=no, 1=yes)";
        out.put("ceph_mgr_module_can_run", Gauge, can, &label, number(&module["can_run"]));
    }
}

fn osds(out: &mut Text, all: &Value) {
    for osd in rows(&all["osds"]) {
        let name = osd_name(osd);
        let daemon = ("ceph_daemon", name.as_str());
        let labels = [
            ("back_iface", text(&osd["back_iface"])),
            daemon,
            ("cluster_addr", text(&osd["cluster_addr"])),
            ("device_class", text(&osd["class"])),
            ("front_iface", text(&osd["front_iface"])),
            ("hostname", text(&osd["hostname"])),
            ("objectstore", text(&osd["objectstore"])),
            ("public_addr", text(&osd["public_addr"])),
            ("ceph_version", text(&osd["version"])),
        ];
        out.put("ceph_osd_metadata", Untyped, "OSD Metadata", &labels, 1);
        out.put("ceph_osd_weight", Untyped, "OSD status weight", &[daemon], number(&osd["weight"]));
        out.put("ceph_osd_up", Untyped, "OSD status up", &[daemon], number(&osd["up"]));
        out.put("ceph_osd_in", Untyped, "OSD status in", &[daemon], number(&osd["in"]));
        // As fractions: whole milliseconds are 0 on any SSD.
        out.put("ceph_osd_apply_latency_ms", Gauge, "OSD stat apply_latency_ms", &[daemon], number(&osd["apply_us"]) / 1e3);
        out.put("ceph_osd_commit_latency_ms", Gauge, "OSD stat commit_latency_ms", &[daemon], number(&osd["commit_us"]) / 1e3);
        let slow = [("type", "SLOW_OPS"), daemon];
        out.put("ceph_daemon_health_metrics", Gauge, "Health metrics for Ceph daemons", &slow, number(&osd["slow_ops"]));
    }
    let set: Vec<&str> = rows(&all["flags"]).map(text).collect();
    for flag in FLAGS {
        let (name, value) = (format!("ceph_osd_flag_{flag}"), u8::from(set.contains(&flag)));
        out.put(&name, Untyped, "A flag of the whole cluster (0=unset, 1=set)", &[], value);
    }
}

fn osd_name(osd: &Value) -> String {
    format!("osd.{}", number(&osd["id"]))
}

/// Writes which OSD is on which disk of which host: `instance` is the host, as node_exporter's are named.
fn disks(out: &mut Text, all: &Value) {
    let mut shared: BTreeMap<(String, &str), Vec<String>> = BTreeMap::new();
    for osd in rows(&all["osds"]) {
        let (name, host) = (osd_name(osd), text(&osd["hostname"]));
        let (devices, ids) = (text(&osd["devices"]), text(&osd["device_ids"]));
        for device in devices.split(',').filter(|device| !device.is_empty()) {
            let device = format!("/dev/{device}");
            let labels = [
                ("ceph_daemon", name.as_str()),
                ("device", &device),
                ("db_device", ""),
                ("wal_device", ""),
                ("instance", host),
                ("devices", devices),
                ("device_ids", ids),
            ];
            out.put("ceph_disk_occupation", Untyped, "Associate Ceph daemon with disk used", &labels, 1);
            shared.entry((device, host)).or_default().push(name.clone());
        }
    }
    let help = "Associate Ceph daemon with disk used for displaying to humans, not for joining tables (vector matching)";
    for ((device, host), names) in shared {
        let names = names.join(", ");
        let labels = [("ceph_daemon", names.as_str()), ("device", &device), ("instance", host)];
        out.put("ceph_disk_occupation_human", Untyped, help, &labels, 1);
    }
}

fn pools(out: &mut Text, all: &Value) {
    for pool in rows(&all["pools"]) {
        let id = number(&pool["id"]).to_string();
        for (bound, secs) in [("soonest", &pool["full_seconds"][0]), ("latest", &pool["full_seconds"][1])] {
            if let Some(secs) = secs.as_f64() {
                let help = "Seconds until a pool is full at the pace of the last day; none if it does not fill";
                out.put("nacre_pool_full_seconds", Gauge, help, &[("pool_id", &id), ("bound", bound)], secs);
            }
        }
        let id = number(&pool["id"]).to_string();
        let label = [("pool_id", id.as_str())];
        let replicated = pool["replicated"] == true;
        let description = if replicated { format!("replica:{}", number(&pool["size"])) } else { "erasure".to_owned() };
        let labels = [
            label[0],
            ("name", text(&pool["name"])),
            ("type", if replicated { "replicated" } else { "erasure" }),
            ("description", &description),
            // No mode has an effect here.
            ("compression_mode", "none"),
        ];
        out.put("ceph_pool_metadata", Untyped, "POOL Metadata", &labels, 1);
        out.put(
            "ceph_pool_objects_repaired",
            Counter,
            "Number of objects repaired in a pool",
            &label,
            number(&pool["objects_repaired"]),
        );
        for (name, key) in [("objects", "objects"), ("bytes", "bytes"), ("keys", "keys")] {
            let help = "What recovery brings of a pool, per second";
            out.put(&format!("ceph_pool_recovering_{name}_per_sec"), Gauge, help, &label, number(&pool["recovery"][key]));
        }
        for what in ["objects", "bytes"] {
            let help = "What recovery brought of a pool";
            let value = number(&pool[format!("{what}_recovered")]);
            out.put(&format!("ceph_pool_num_{what}_recovered"), Gauge, help, &label, value);
        }
    }
    for pool in rows(&all["df"]["pools"]) {
        let id = number(&pool["id"]).to_string();
        for (figure, grows) in OF_POOLS {
            let kind = if grows { Counter } else { Gauge };
            let help = "A figure of `ceph df detail`: docs/operations/metrics.md";
            out.put(&format!("ceph_pool_{figure}"), kind, help, &[("pool_id", &id)], number(&pool["stats"][figure]));
        }
    }
}

fn groups(out: &mut Text, all: &Value) {
    for pool in rows(&all["pools"]) {
        let id = number(&pool["id"]).to_string();
        let label = [("pool_id", id.as_str())];
        out.put("ceph_pg_total", Gauge, "PG Total Count per Pool", &label, number(&pool["groups"]));
        let words = PgState::ALL.iter().map(|(_, word)| *word).chain(["unknown"]);
        for word in words {
            let help = "Placement groups of a pool that are in this state";
            out.put(&format!("ceph_pg_{word}"), Gauge, help, &label, number(&pool["states"][word]));
        }
    }
}

fn space(out: &mut Text, all: &Value) {
    let df = &all["df"];
    for figure in ["total_bytes", "total_used_bytes", "total_used_raw_bytes"] {
        let help = "Bytes of all OSDs that are in";
        out.put(&format!("ceph_cluster_{figure}"), Gauge, help, &[], number(&df["stats"][figure]));
        for (class, stats) in df["stats_by_class"].as_object().into_iter().flatten() {
            let help = "Bytes of all OSDs of a class that are in";
            let label = [("device_class", class.as_str())];
            out.put(&format!("ceph_cluster_by_class_{figure}"), Gauge, help, &label, number(&stats[figure]));
        }
    }
}

/// Images, as far as somebody wants them (`mgr/prometheus/rbd_stats_pools`).
fn images(out: &mut Text, all: &Value) {
    let figures = [
        ("write_ops", "RBD image writes count"),
        ("read_ops", "RBD image reads count"),
        ("write_bytes", "RBD image bytes written"),
        ("read_bytes", "RBD image bytes read"),
    ];
    for image in rows(&all["images"]).filter(|image| image["metrics"] == true) {
        let labels = [("pool", text(&image["pool"])), ("namespace", text(&image["namespace"])), ("image", text(&image["name"]))];
        let sum = |at: usize| number(&image["sums"][at]);
        for (at, (name, help)) in figures.into_iter().enumerate() {
            out.put(&format!("ceph_rbd_{name}"), Counter, help, &labels, sum(at));
        }
        for (at, name) in [(0, "write"), (1, "read")] {
            let help = "RBD image latency: nanoseconds, and operations";
            out.put(&format!("ceph_rbd_{name}_latency_sum"), Counter, help, &labels, sum(4 + at));
            out.put(&format!("ceph_rbd_{name}_latency_count"), Counter, help, &labels, sum(at));
        }
    }
    let help = "Images that are not in the metrics, for want of room";
    out.put("nacre_rbd_images_left_out", Gauge, help, &[], number(&all["images_left_out"]));
}

/// The families of the daemons of this host.
pub fn daemons(out: &mut Text, host: &str, version: &str, told: &[Told]) {
    out.put("nacre_build_info", Gauge, "The program of this host", &[("hostname", host), ("version", version)], 1);
    for daemon in told {
        let label = ("ceph_daemon", daemon.name.as_str());
        let answers = u8::from(daemon.answer.is_some());
        out.put("nacre_daemon_answers", Gauge, "Whether a daemon of this host answers", &[label], answers);
        let Some(answer) = &daemon.answer else { continue };
        if daemon.name.starts_with("mon.") {
            let state = text(&answer["state"]);
            let agrees = u8::from(matches!(state, "leader" | "peon"));
            out.put("nacre_monitor_in_quorum", Gauge, "Whether a monitor of this host is in the quorum", &[label], agrees);
        } else {
            osd(out, label, answer);
        }
    }
}

/// Puts each counter of an OSD as its row of the table says.
fn osd(out: &mut Text, daemon: (&str, &str), perf: &Value) {
    for section in counters::osd::SECTIONS {
        for counter in section.counters {
            let value = &perf[section.name][counter.name];
            let Some(family) = counter.family.filter(|_| !value.is_null()) else { continue };
            let kind = if counter.kind == counters::Kind::Level { Gauge } else { Counter };
            let name = counter.family_name().unwrap_or_default();
            match family {
                Family::Ceph | Family::Ours => {
                    figure(out, &name, kind, "A counter of an OSD: `ceph daemon osd.N perf schema`", &[daemon], value);
                }
                Family::Named(_) => figure(out, &name, kind, counter.help, &[daemon], value),
                Family::Stage => {
                    let (of, stage) = counter.name.rsplit_once('_').unwrap_or((counter.name, ""));
                    let (labels, help) = ([daemon, ("kind", of), ("stage", stage)], "Where the time of operations goes");
                    figure(out, "nacre_osd_op_stage_seconds", kind, help, &labels, value);
                }
                Family::Memory => {
                    let help = "Memory that an OSD holds, by what it is for; `target` is what it may hold";
                    figure(out, "nacre_osd_memory_bytes", kind, help, &[daemon, ("part", counter.name)], value);
                }
                Family::Pace => {
                    let help = "How recovery yields to clients";
                    let scale = if counter.name.ends_with("_us") { 1e6 } else { 1.0 };
                    out.put(&name, kind, help, &[daemon], number(value) / scale);
                }
            }
        }
    }
}

/// Puts a counter: a number as one sample, an average as two.
fn figure(out: &mut Text, name: &str, kind: Kind, help: &'static str, labels: &[(&str, &str)], value: &Value) {
    if let (Some(count), Some(sum)) = (value["avgcount"].as_f64(), value["sum"].as_f64()) {
        out.put(&format!("{name}_count"), Counter, help, labels, count);
        out.put(&format!("{name}_sum"), Counter, help, labels, sum);
    } else if let Some(value) = value.as_f64() {
        out.put(name, kind, help, labels, value);
    }
}
