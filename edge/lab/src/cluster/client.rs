//! What is asked of every cluster through stock clients: pools, health, configuration for clients.

use super::{Cluster, POOL};
use crate::disks::Skip;
use crate::lab::Lab;
use crate::monitor::after;
use crate::plan::Point;
use crate::process;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Time that a command of `ceph` may take.
const COMMAND: Duration = Duration::from_secs(60);

/// Runs a `ceph` command; gives what it printed.
///
/// # Errors
/// It fails.
pub fn ceph(lab: &Lab, conf: &Path, args: &[&str]) -> Result<String> {
    patient(lab, conf, args, 20)
}

/// The same, with seconds to reach the cluster.
fn patient(lab: &Lab, conf: &Path, args: &[&str], seconds: u64) -> Result<String> {
    let mut command = Command::new("ceph");
    command.args(["--connect-timeout", &seconds.to_string()]).args(args).env("CEPH_CONF", conf).env_remove("CEPH_ARGS");
    process::output(command, COMMAND, &lab.undo, &lab.interrupt)
}

/// Returns what the cluster says about its health, in one line; empty if it is well.
pub fn complaint(lab: &Lab, conf: &Path) -> String {
    match patient(lab, conf, &["health"], 5) {
        Ok(text) if text.trim() == "HEALTH_OK" => String::new(),
        Ok(text) => format!("the cluster says: {}", text.trim()),
        Err(_) if lab.interrupt.is_set() => String::new(),
        Err(_) => "the cluster does not answer `ceph health`".into(),
    }
}

/// A configuration for clients beside the servers' one.
///
/// # Errors
/// It cannot be written.
pub(super) fn client_conf(servers: &Path, folder: &Path) -> Result<PathBuf> {
    let text = std::fs::read_to_string(servers).with_context(|| format!("read {}", servers.display()))?;
    let path = folder.join("client.conf");
    // Of two sections with one name both count.
    std::fs::write(&path, text + "\n[client]\nrbd cache = false\n").with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

/// Takes a cluster that runs already.
pub(super) fn adopt(point: &Point, folder: &Path, cluster: &mut Cluster) -> Result<()> {
    let Some(conf) = point.given("conf") else { bail!("cluster '{}': an existing one needs the key 'conf'", point.text("name")) };
    let text = std::fs::read_to_string(&conf).with_context(|| format!("read {conf}"))?;
    cluster.conf = folder.join("client.conf");
    std::fs::write(&cluster.conf, text + "\n[client]\nrbd cache = false\n")?;
    let pids = point.text("pids");
    for word in pids.split(',').map(str::trim).filter(|w| !w.is_empty()) {
        cluster.foreign.push(word.parse().with_context(|| format!("pids: '{word}' is not a process id"))?);
    }
    Ok(())
}

/// Makes the pool, and waits until all its groups are clean.
pub(super) fn make_pool(lab: &Lab, point: &Point, cluster: &mut Cluster, patience: f64) -> Result<()> {
    let conf = cluster.conf.clone();
    let limit = after(patience);
    let told = conf.clone();
    let until = |what: &str, done: &mut dyn FnMut() -> Result<bool>| until(lab, limit, &told, what, done);
    until("take commands", &mut || {
        cluster.must_live()?;
        Ok(patient(lab, &conf, &["osd", "stat", "--format", "json"], (patience as u64).clamp(1, 20))
            .ok()
            .and_then(|t| serde_json::from_str::<Value>(&t).ok())
            .is_some_and(|s| s["num_up_osds"].as_u64() >= Some(1) && s["num_up_osds"] == s["num_osds"]))
    })?;
    let pgs = point.int("pgs", 32).to_string();
    // Only a cluster that ran before can have the pool.
    let old = point.text("kind") == "existing";
    if !old || !ceph(lab, &conf, &["osd", "pool", "ls"])?.lines().any(|l| l.trim() == POOL) {
        create_pool(lab, point, &conf, POOL, &pgs, true)?;
    }
    until("become healthy", &mut || {
        cluster.must_live()?;
        Ok(clean(lab, &conf).unwrap_or(false))
    })
}

/// Makes a pool as the cluster's table says; `coded` ones are erasure-coded if it says so.
pub(super) fn create_pool(lab: &Lab, point: &Point, conf: &Path, name: &str, pgs: &str, coded: bool) -> Result<()> {
    match point.given("erasure").filter(|_| coded) {
        Some(profile) => erasure_pool(lab, point, conf, name, &profile, pgs),
        None => replicated_pool(lab, point, conf, name, pgs),
    }
}

fn replicated_pool(lab: &Lab, point: &Point, conf: &Path, name: &str, pgs: &str) -> Result<()> {
    let copies = point.int("copies", 1).to_string();
    ceph(lab, conf, &["osd", "pool", "create", name, pgs, pgs, "replicated"])?;
    let mut set = vec!["osd", "pool", "set", name, "size", &copies];
    if copies == "1" {
        set.push("--yes-i-really-mean-it");
    }
    ceph(lab, conf, &set).map(|_| ())
}

fn erasure_pool(lab: &Lab, point: &Point, conf: &Path, name: &str, profile: &str, pgs: &str) -> Result<()> {
    let unit = format!("stripe_unit={}", point.int("stripe_unit", 4096));
    let mut set = vec!["osd", "erasure-code-profile", "set", "lab"];
    set.extend(profile.split_whitespace());
    set.extend(["crush-failure-domain=osd", &unit, "--force"]);
    let made = ceph(lab, conf, &set).and_then(|_| ceph(lab, conf, &["osd", "pool", "create", name, pgs, pgs, "erasure", "lab"]));
    match made {
        Ok(_) => Ok(()),
        Err(e) if point.text("kind") == "nacre" => {
            Err(Skip(format!("our own cluster has no erasure-coded pools yet: {e:#}")).into())
        }
        Err(e) => Err(e),
    }
}

/// Returns whether all groups are active and clean.
pub(super) fn clean(lab: &Lab, conf: &Path) -> Result<bool> {
    let status: Value = serde_json::from_str(&ceph(lab, conf, &["status", "--format", "json"])?)?;
    let groups = &status["pgmap"];
    let states = groups["pgs_by_state"].as_array().cloned().unwrap_or_default();
    let count: u64 = states.iter().filter_map(|s| s["count"].as_u64()).sum();
    let all = states.iter().all(|s| s["state_name"].as_str().is_some_and(|n| n.starts_with("active+clean")));
    Ok(all && count > 0 && groups["num_pgs"].as_u64() == Some(count))
}

fn until(lab: &Lab, limit: Instant, conf: &Path, what: &str, done: &mut dyn FnMut() -> Result<bool>) -> Result<()> {
    while !done()? {
        if Instant::now() > limit {
            bail!("the cluster did not {what} in time; {}", complaint(lab, conf));
        }
        lab.interrupt.sleep(Duration::from_millis(300))?;
    }
    Ok(())
}

/// The last lines of a daemon's log.
pub(super) fn last_log(conf: &Path, name: &str) -> String {
    let folder = conf.parent().unwrap_or(Path::new("."));
    let texts = [folder.join(format!("{name}.out")), folder.join(format!("log/{name}.log"))];
    let text: String = texts.iter().filter_map(|p| std::fs::read_to_string(p).ok()).collect();
    process::last_lines(&text, "")
}
