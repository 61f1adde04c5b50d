//! Plans of other tools become experiment files.
//!
//! A CBT plan (YAML) names hosts, which are of its machine; what becomes of it here is the measurement: file system, pool, sizes,
//! depths, times. What has no equivalent is written as a comment, so that nothing is lost in silence.

use anyhow::{Context, Result, bail};
use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::{Map, Value};
use std::path::Path;

/// The experiment file of a CBT plan.
///
/// # Errors
/// It cannot be read, or is no plan.
pub fn cbt(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let name = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    convert(&text, &name).with_context(|| format!("{} as a plan of CBT", path.display()))
}

/// The same from a text.
///
/// # Errors
/// It is not YAML, or has neither a cluster nor benchmarks.
pub fn convert(text: &str, name: &str) -> Result<String> {
    let documents = Yaml::load_from_str(text).map_err(|e| anyhow::anyhow!("not YAML: {e}"))?;
    let plan = documents.first().map(value).unwrap_or_default();
    let (cluster, benchmarks) = (&plan["cluster"], &plan["benchmarks"]);
    let Some(benchmarks) = benchmarks.as_object().filter(|b| !b.is_empty()) else { bail!("it has no table 'benchmarks'") };
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let mut out = format!("# Made from a plan of CBT, {name}.\n[experiment]\nname = \"{plain}\"\ntitle = \"{plain}\"\n");
    out += &format!("repeats = {}\n", cluster["iterations"].as_i64().unwrap_or(1).clamp(1, 1000));
    let times: Vec<f64> = benchmarks.values().filter_map(|b| b["time"].as_f64()).collect();
    out += &format!("seconds = {:.1}\n", times.first().copied().filter(|t| *t > 0.0).unwrap_or(60.0));
    let profile = benchmarks.values().find_map(|b| b["pool_profile"].as_str()).unwrap_or_default();
    out += &cluster_table(cluster, &cluster["pool_profiles"][profile]);
    for (kind, benchmark) in benchmarks {
        out += &workload(kind, benchmark);
    }
    out += &left_out(&plan);
    Ok(out)
}

fn cluster_table(cluster: &Value, profile: &Value) -> String {
    let mut out = "\n[[cluster]]\nname = \"cluster\"\n".to_owned();
    if cluster["use_existing"].as_bool() == Some(true) {
        let conf = cluster["conf_file"].as_str().unwrap_or("/etc/ceph/ceph.conf");
        out += &format!("kind = \"existing\"\nconf = {}\n", quoted(conf));
    } else {
        out += "kind = \"ceph\"\n";
        if let Some(fs) = cluster["fs"].as_str().filter(|f| ["xfs", "ext4", "btrfs"].contains(f)) {
            out += &format!("fs = \"{fs}\"\nstore = \"filestore\"\ndisk = \"data\"\n");
        }
        for (theirs, ours) in [("mkfs_opts", "mkfs"), ("mount_opts", "mount")] {
            if let Some(options) = cluster[theirs].as_str() {
                out += &format!("{ours} = {}\n", quoted(options.trim_start_matches("-o ").trim_start_matches("-f ")));
            }
        }
        let hosts = cluster["osds"].as_array().map_or(1, Vec::len) as i64;
        out += &format!("osds = {}\n", (cluster["osds_per_node"].as_i64().unwrap_or(1) * hosts).clamp(1, 64));
    }
    if let Some(copies) = profile["replication"].as_i64() {
        out += &format!("copies = {}\n", copies.clamp(1, 16));
    }
    if let Some(groups) = profile["pg_size"].as_i64() {
        out += &format!("pgs = {}\n", groups.clamp(1, 65_536));
    }
    if profile["replication"].as_str() == Some("erasure") {
        out += "erasure = \"k=2 m=1\"\n";
    }
    if out.contains("disk = ") {
        out += "\n[[disk]]\nname = \"data\"\nkind = \"loop\"\n";
    }
    out
}

/// CBT's benchmarks, and what they are here.
fn workload(kind: &str, b: &Value) -> String {
    let (ours, engine) = match kind {
        "radosbench" => ("rados", None),
        "librbdfio" | "rbdfio" | "kvmrbdfio" | "fio" => ("fio", Some("rbd")),
        "rawfio" => ("disk", None),
        other => return format!("\n# The benchmark '{other}' has no equivalent here.\n"),
    };
    let mut out = format!("\n[[workload]]\nkind = \"{ours}\"\n");
    if let Some(engine) = engine {
        out += &format!("engine = \"{engine}\"\n");
    }
    let modes = match ours {
        "rados" if b["write_only"].as_bool() == Some(true) => vec![Value::from("write")],
        "rados" => vec!["write".into(), "seq".into()],
        _ => list(&b["mode"]),
    };
    out += &line("size", &list(&b["op_size"]));
    let depth = if ours == "rados" { &b["concurrent_ops"] } else { &b["iodepth"] };
    out += &line("depth", &list(depth));
    out += &line("clients", &list(&b["concurrent_procs"]).into_iter().chain(list(&b["volumes_per_client"])).collect::<Vec<_>>());
    out += &line("mode", &modes);
    out += &line("reads", &list(&b["rwmixread"]));
    if let Some(mib) = b["vol_size"].as_i64().filter(|n| *n > 0) {
        out += &format!("image = {}\n", mib << 20);
    }
    if let Some(time) = b["time"].as_f64().filter(|t| *t > 0.0) {
        out += &format!("seconds = {time:.1}\n");
    }
    out
}

fn list(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(all) => all.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    }
}

fn line(key: &str, values: &[Value]) -> String {
    match values {
        [] => String::new(),
        [one] => format!("{key} = {one}\n"),
        all => format!("{key} = [{}]\n", all.iter().map(Value::to_string).collect::<Vec<_>>().join(", ")),
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Keys that are not carried over.
fn left_out(plan: &Value) -> String {
    let known = ["iterations", "use_existing", "conf_file", "fs", "mkfs_opts", "mount_opts", "osds_per_node", "pool_profiles"];
    let keys =
        plan["cluster"].as_object().map(|c| c.keys().filter(|k| !known.contains(&k.as_str())).cloned().collect::<Vec<_>>());
    let keys = keys.unwrap_or_default();
    if keys.is_empty() { String::new() } else { format!("\n# Not carried over from its cluster: {}\n", keys.join(", ")) }
}

/// YAML as JSON, which has all that a plan needs.
fn value(yaml: &Yaml<'_>) -> Value {
    match yaml {
        Yaml::Value(Scalar::Boolean(b)) => Value::from(*b),
        Yaml::Value(Scalar::Integer(n)) => Value::from(*n),
        Yaml::Value(Scalar::FloatingPoint(x)) => Value::from(x.0),
        Yaml::Value(Scalar::String(t)) => Value::from(t.as_ref()),
        Yaml::Sequence(all) => all.iter().map(value).collect(),
        Yaml::Mapping(all) => {
            let key = |k: &Yaml<'_>| value(k).as_str().map_or_else(|| value(k).to_string(), str::to_owned);
            Value::Object(all.iter().map(|(k, v)| (key(k), value(v))).collect::<Map<_, _>>())
        }
        Yaml::Tagged(_, inner) => value(inner),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::reader;

    #[test]
    fn a_plan_becomes_an_experiment() {
        let plan = "cluster:\n  head: \"h\"\n  osds: [\"a\", \"b\"]\n  osds_per_node: 2\n  fs: xfs\n  mkfs_opts: -f -i size=2048\n  iterations: 3\n\
            \x20 pool_profiles:\n    three:\n      pg_size: 256\n      replication: 3\n\
            benchmarks:\n  radosbench:\n    op_size: [4194304, 4096]\n    write_only: False\n    time: 30\n    concurrent_ops: [128]\n    pool_profile: three\n\
            \x20 librbdfio:\n    op_size: [4096]\n    mode: ['read', 'randwrite']\n    iodepth: [32]\n    vol_size: 1024\n    time: 30\n  cosbench:\n    x: 1\n";
        let text = convert(plan, "my plan").unwrap();
        let e = reader::parse(&text, "x", false).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!((e.clusters.len(), e.workloads.len(), e.repeats()), (1, 6, 3));
        assert_eq!(
            (e.clusters[0].int("osds", 0), e.clusters[0].int("copies", 0), e.clusters[0].text("mkfs")),
            (4, 3, "-i size=2048".into())
        );
        assert!(
            text.contains("'cosbench' has no equivalent") && text.contains("Not carried over from its cluster: head, osds"),
            "{text}"
        );
        assert!(convert("a: 1", "x").is_err() && convert("a: [", "x").is_err());
    }
}
