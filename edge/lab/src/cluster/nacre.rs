//! Our own cluster.

use super::{Cluster, Place, Restart, client, free_ports};
use crate::lab::Lab;
use crate::plan::Point;
use crate::process::Daemon;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Time that it may take to serve.
const READY: Duration = Duration::from_secs(60);

pub(super) fn start(lab: &Lab, point: &Point, folder: &Path, places: &[Place], cluster: &mut Cluster) -> Result<()> {
    let program = point.given("program").map_or_else(|| lab.nacre.clone(), PathBuf::from);
    let (port, _) = free_ports()?;
    let each = point.text("daemons") == "each";
    let common = common(point);
    let mut up = Command::new(&program);
    let dir = folder.join("cluster");
    up.arg(if each { "mon" } else { "up" }).arg("--dir").arg(&dir).args(["--port", &port.to_string()]);
    up.args(["--auth", &point.given("auth").unwrap_or_else(|| "none".into())]);
    up.args(["--osd-size", &point.int("osd_size", 20 << 30).to_string()]).args(&common);
    if places.iter().any(|p| p.raw.is_some() || p.journal.is_some()) || point.given("disk").is_some() {
        up.args(places.iter().flat_map(|p| ["--disk".into(), disk(p)]));
    } else {
        up.args(["--osds", &places.len().to_string()]);
    }
    let log = folder.join("nacre.out");
    let first = if each { "mon" } else { "nacre" };
    cluster.conf = folder.join("nacre.conf");
    cluster.daemons.push((first.into(), Daemon::start(up, &log, true, &lab.undo)?));
    ready(lab, cluster, &log)?;
    if each {
        for id in 0..places.len() {
            let (program, folder, common) = (program.clone(), dir.clone(), common.clone());
            let command: Restart = Box::new(move || {
                let mut command = Command::new(&program);
                command.arg("osd").arg("--dir").arg(&folder).args(["--id", &id.to_string()]).args(&common);
                command
            });
            cluster.again.push((format!("osd.{id}"), command));
            cluster.restart(lab, &format!("osd.{id}"))?;
            // One after the other: each writes to the folder that they share when it starts for the first time.
            let until = Instant::now() + READY;
            while !dir.join(format!("osd.{id}.asok")).exists() && Instant::now() < until {
                cluster.must_live()?;
                lab.interrupt.sleep(Duration::from_millis(20))?;
            }
        }
    }
    cluster.sockets = (0..places.len()).map(|i| dir.join(format!("osd.{i}.asok"))).collect();
    cluster.conf = client::client_conf(&dir.join("ceph.conf"), folder)?;
    Ok(())
}

fn common(point: &Point) -> Vec<String> {
    let memory = point.given("memory").map(|_| ["--memory".to_owned(), point.int("memory", 0).to_string()]);
    memory.into_iter().flatten().chain(point.text("config").split_whitespace().map(str::to_owned)).collect()
}

fn disk(place: &Place) -> String {
    let data = place.raw.as_ref().unwrap_or(&place.folder).display();
    match &place.journal {
        Some(journal) => format!("{data},journal={}", journal.display()),
        None => data.to_string(),
    }
}

fn ready(lab: &Lab, cluster: &mut Cluster, log: &Path) -> Result<()> {
    let until = Instant::now() + READY;
    while !std::fs::read_to_string(log).unwrap_or_default().lines().any(|l| l.starts_with("ready")) {
        cluster.must_live()?;
        if Instant::now() > until {
            bail!("nacre did not become ready; its last lines: {}", client::last_log(log, "nacre"));
        }
        lab.interrupt.sleep(Duration::from_millis(50))?;
    }
    Ok(())
}
