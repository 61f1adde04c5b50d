//! Plans of other tools become experiment files.
//!
//! A CBT plan (YAML) names hosts, which are of its machine; what becomes of it here is the measurement: file system,
//! pool, sizes, depths, times. What has no equivalent is written as a comment, so that nothing is lost in silence.

mod yaml;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::Path;
use yaml::{entries, list, number, words};

/// Keys of a plan's cluster that are carried over.
const CLUSTER: [&str; 10] = [
    "iterations",
    "use_existing",
    "conf_file",
    "fs",
    "mkfs_opts",
    "mount_opts",
    "osds",
    "osds_per_node",
    "pool_profiles",
    "erasure_profiles",
];
/// Keys of a plan's benchmarks that are carried over.
const BENCHMARK: [&str; 15] = [
    "op_size",
    "mode",
    "iodepth",
    "concurrent_ops",
    "concurrent_procs",
    "volumes_per_client",
    "write_only",
    "rwmixread",
    "vol_size",
    "time",
    "ramp",
    "pool_profile",
    "client_endpoints",
    "block_devices",
    "time_based",
];

/// The experiment file of a CBT plan.
///
/// # Errors
/// It cannot be read, is no plan, or nothing of it can be run here.
pub fn cbt(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let name = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    convert(&text, &name).with_context(|| format!("{} as a plan of CBT", path.display()))
}

/// Workload that runs a benchmark here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ours {
    Rados,
    Image,
    Disk,
}

/// The same from a text.
///
/// # Errors
/// It is not YAML, has no benchmarks, or none that has an equivalent.
pub fn convert(text: &str, name: &str) -> Result<String> {
    let plan = yaml::read(text)?;
    let benchmarks = entries(&plan["benchmarks"]);
    if benchmarks.is_empty() {
        bail!("it has no table 'benchmarks'");
    }
    let ours: Vec<(&String, &Value, Result<Ours, String>)> =
        benchmarks.into_iter().map(|(k, b)| (k, b, ours(&plan, k, b))).collect();
    if ours.iter().all(|(.., o)| o.is_err()) {
        let names: Vec<&str> = ours.iter().map(|(k, ..)| k.as_str()).collect();
        bail!("none of its benchmarks has an equivalent here: {}", names.join(", "));
    }
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let mut out = format!("# Made from a plan of CBT, {name}.\n[experiment]\nname = \"{plain}\"\ntitle = \"{plain}\"\n");
    out += &format!("repeats = {}\n", number(&plan["cluster"]["iterations"]).unwrap_or(1.0).clamp(1.0, 1000.0) as i64);
    let first = |key: &str| ours.iter().filter_map(|(_, b, _)| number(&b[key])).find(|t| *t > 0.0);
    out += &format!("seconds = {:.1}\n", first("time").unwrap_or(60.0));
    if let Some(ramp) = first("ramp") {
        out += &format!("ramp = {ramp:.1}\n");
    }
    let has = |wanted: fn(Ours) -> bool| ours.iter().any(|(.., o)| o.as_ref().is_ok_and(|o| wanted(*o)));
    let both = has(|o| o == Ours::Disk) && has(|o| o != Ours::Disk);
    if has(|o| o != Ours::Disk) {
        let profile = ours.iter().filter(|(.., o)| o.is_ok()).find_map(|(_, b, _)| profile(&plan, b)).unwrap_or_default();
        out += &cluster_table(&plan["cluster"], &profile);
    }
    out += &raw_disks(ours.iter().filter(|(.., o)| *o == Ok(Ours::Disk)).map(|(_, b, _)| *b).collect());
    for (name, benchmark, ours) in &ours {
        out += &match ours {
            Ok(ours) => workload(name, *ours, benchmark, both),
            Err(why) => format!("\n# {why}\n"),
        };
    }
    Ok(out + &left_out("its cluster", &plan["cluster"], &CLUSTER) + &others(&plan))
}

/// Returns what runs a benchmark of this name here, or a sentence about why nothing does.
fn ours(plan: &Value, name: &str, benchmark: &Value) -> Result<Ours, String> {
    match name {
        "radosbench" => Ok(Ours::Rados),
        "librbdfio" | "rbdfio" | "kvmrbdfio" => Ok(Ours::Image),
        "rawfio" => Ok(Ours::Disk),
        "fio" => match endpoint(plan, benchmark)["driver"].as_str().unwrap_or("librbd") {
            driver if driver.contains("rbd") => Ok(Ours::Image),
            driver => Err(format!("The benchmark 'fio' on the driver '{driver}' has no equivalent here.")),
        },
        other => Err(format!("The benchmark '{other}' has no equivalent here.")),
    }
}

fn endpoint<'a>(plan: &'a Value, benchmark: &Value) -> &'a Value {
    &plan["client_endpoints"][benchmark["client_endpoints"].as_str().unwrap_or_default()]
}

/// The pool's profile of a benchmark, with its erasure code's one under `erasure`.
fn profile(plan: &Value, benchmark: &Value) -> Option<Value> {
    let named = benchmark["pool_profile"].as_str().or_else(|| endpoint(plan, benchmark)["pool_profile"].as_str())?;
    let mut profile = plan["cluster"]["pool_profiles"][named].clone();
    let erasure = profile["erasure_profile"].as_str().unwrap_or_default();
    let code = plan["cluster"]["erasure_profiles"][erasure].clone();
    profile.as_object_mut()?.insert("erasure".into(), code);
    Some(profile)
}

fn cluster_table(cluster: &Value, profile: &Value) -> String {
    let mut out = "\n[[cluster]]\nname = \"cluster\"\n".to_owned();
    if cluster["use_existing"].as_bool() == Some(true) {
        let conf = cluster["conf_file"].as_str().unwrap_or("/etc/ceph/ceph.conf");
        out += &format!("kind = \"existing\"\nconf = {}\n", quoted(conf));
        return out + &pool(profile);
    }
    out += "kind = \"ceph\"\n";
    let fs = cluster["fs"].as_str().filter(|f| ["xfs", "ext4", "btrfs"].contains(f));
    if let Some(fs) = fs {
        out += &format!("fs = \"{fs}\"\nstore = \"filestore\"\ndisk = \"data\"\n");
        for (theirs, ours) in [("mkfs_opts", "mkfs"), ("mount_opts", "mount")] {
            if let Some(options) = cluster[theirs].as_str() {
                out += &format!("{ours} = {}\n", quoted(options.trim_start_matches("-o ").trim_start_matches("-f ")));
            }
        }
    }
    let hosts = cluster["osds"].as_array().map_or(1, Vec::len) as f64;
    out += &format!("osds = {}\n", (number(&cluster["osds_per_node"]).unwrap_or(1.0) * hosts).clamp(1.0, 64.0) as i64);
    out += &pool(profile);
    if fs.is_some() {
        out += "\n[[disk]]\nname = \"data\"\nkind = \"loop\"\n";
    }
    out
}

fn pool(profile: &Value) -> String {
    let mut out = String::new();
    if let Some(copies) = number(&profile["replication"]) {
        out += &format!("copies = {}\n", copies.clamp(1.0, 16.0) as i64);
    }
    if let Some(groups) = number(&profile["pg_size"]) {
        out += &format!("pgs = {}\n", groups.clamp(1.0, 65_536.0) as i64);
    }
    if profile["replication"].as_str() == Some("erasure") {
        let of = |key: &str, default: f64| number(&profile["erasure"][key]).unwrap_or(default) as i64;
        out += &format!("erasure = \"k={} m={}\"\n", of("erasure_k", 2.0), of("erasure_m", 1.0));
    }
    out
}

/// The disks that benchmarks use without a cluster.
fn raw_disks(benchmarks: Vec<&Value>) -> String {
    let Some(first) = benchmarks.first() else { return String::new() };
    let devices = words(&first["block_devices"]);
    let disk = match devices.is_empty() {
        true => "kind = \"loop\"\n".to_owned(),
        false => format!("kind = \"device\"\npath = {}\n", quoted(&devices.join(","))),
    };
    let osds = devices.len().clamp(1, 64);
    format!("\n[[cluster]]\nname = \"disks\"\nkind = \"none\"\ndisk = \"raw\"\nosds = {osds}\n\n[[disk]]\nname = \"raw\"\n{disk}")
}

fn workload(name: &str, ours: Ours, b: &Value, both: bool) -> String {
    let kind = match ours {
        Ours::Rados => "kind = \"rados\"\n",
        Ours::Image => "kind = \"fio\"\nengine = \"rbd\"\n",
        Ours::Disk => "kind = \"disk\"\ntarget = \"all\"\n",
    };
    let mut out = format!("\n[[workload]]\n{kind}");
    if both {
        out += if ours == Ours::Disk { "on = \"disks\"\n" } else { "on = \"cluster\"\n" };
    }
    let modes = match ours {
        Ours::Rados if b["write_only"].as_bool() == Some(true) => vec!["write".into()],
        Ours::Rados => vec!["write".into(), "seq".into()],
        _ => words(&b["mode"]).iter().map(|m| if m == "readwrite" { "rw".into() } else { m.clone() }).collect(),
    };
    out += &numbers("size", &list(&b["op_size"]));
    out += &numbers("depth", &list(if ours == Ours::Rados { &b["concurrent_ops"] } else { &b["iodepth"] }));
    out += &numbers("clients", &[list(&b["concurrent_procs"]), list(&b["volumes_per_client"])].concat());
    out += &line("mode", modes.iter().map(|m| quoted(m)).collect());
    out += &numbers("reads", &list(&b["rwmixread"]));
    if let Some(mib) = number(&b["vol_size"]).filter(|n| *n > 0.0) {
        out += &format!("image = {}\n", (mib as i64) << 20);
    }
    if let Some(time) = number(&b["time"]).filter(|t| *t > 0.0) {
        out += &format!("seconds = {time:.1}\n");
    }
    out + &left_out(name, b, &BENCHMARK)
}

/// `key = 1` or `key = [1, 2]` of whole numbers.
fn numbers(key: &str, values: &[Value]) -> String {
    line(key, values.iter().filter_map(number).map(|n| format!("{}", n as i64)).collect())
}

fn line(key: &str, values: Vec<String>) -> String {
    match values.as_slice() {
        [] => String::new(),
        [one] => format!("{key} = {one}\n"),
        all => format!("{key} = [{}]\n", all.join(", ")),
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Keys that are not carried over.
fn left_out(of: &str, table: &Value, known: &[&str]) -> String {
    let keys: Vec<&str> = entries(table).into_iter().map(|(k, _)| k.as_str()).filter(|k| !known.contains(k)).collect();
    if keys.is_empty() { String::new() } else { format!("# Not carried over from {of}: {}\n", keys.join(", ")) }
}

/// Tables of the plan that have no equivalent.
fn others(plan: &Value) -> String {
    left_out("the plan", plan, &["cluster", "benchmarks", "client_endpoints"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Experiment, reader};

    fn converted(text: &str) -> (String, Experiment) {
        let text = convert(text, "my plan").unwrap();
        let experiment = reader::parse(&text, "x", false).unwrap_or_else(|e| panic!("{e}\n{text}"));
        (text, experiment)
    }

    #[test]
    fn a_plan_of_objects_and_images_becomes_an_experiment() {
        let (text, e) = converted(include_str!("testdata/objects-and-images.yaml"));
        assert_eq!((e.clusters.len(), e.workloads.len(), e.repeats()), (1, 10, 3));
        let cluster = &e.clusters[0];
        assert_eq!((cluster.int("osds", 0), cluster.int("copies", 0), cluster.int("pgs", 0)), (4, 3, 256));
        assert_eq!((cluster.text("mkfs"), cluster.text("mount")), ("-i size=2048".into(), "inode64,noatime".into()));
        let images: Vec<&crate::plan::Point> = e.workloads.iter().filter(|w| w.text("kind") == "fio").collect();
        assert_eq!((images.len(), images[0].int("image", 0), images[0].int("clients", 0)), (6, 1 << 30, 2));
        assert_eq!(images[2].text("mode"), "rw");
        for said in [
            "The benchmark 'cosbench' has no equivalent here.",
            "Not carried over from its cluster: user, head, clients, mons, tmp_dir",
            "Not carried over from librbdfio: osd_ra, cmd_path",
            "Not carried over from the plan: monitoring_profiles",
        ] {
            assert!(text.contains(said), "{said}\n{text}");
        }
    }

    #[test]
    fn a_plan_of_raw_disks_and_an_erasure_coded_pool_becomes_an_experiment() {
        let (_, e) = converted(include_str!("testdata/disks-and-erasure.yaml"));
        let names: Vec<String> = e.clusters.iter().map(|c| c.text("name")).collect();
        assert_eq!(names, ["cluster", "disks"]);
        assert_eq!((e.clusters[0].text("erasure"), e.clusters[1].int("osds", 0)), ("k=4 m=2".into(), 2));
        assert_eq!(e.disks["raw"].text("path"), "/dev/sdx,/dev/sdy");
        let on: Vec<String> = e.workloads.iter().map(|w| w.text("on")).collect();
        assert!(on.contains(&"disks".to_owned()) && on.contains(&"cluster".to_owned()), "{on:?}");
        assert_eq!(e.settings.real("ramp", 0.0), 5.0);
    }

    #[test]
    fn what_is_no_plan_is_refused() {
        let why = |text: &str| format!("{:#}", convert(text, "x").unwrap_err());
        assert!(why("a: 1").contains("no table 'benchmarks'"));
        assert!(why("a: [").contains("not YAML"));
        assert!(
            why("benchmarks:\n  hsbench:\n    size: 4K\n").contains("none of its benchmarks has an equivalent here: hsbench")
        );
    }
}
