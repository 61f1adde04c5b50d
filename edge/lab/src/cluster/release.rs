//! A release of Ceph that this machine's packages are not: Debian 13 with 18.2 in a folder of its own.

use crate::disks::{Skip, need_root};
use crate::lab::Lab;
use crate::plan::Point;
use crate::process;
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Where it is put if the experiment does not say.
const ROOT: &str = "/var/tmp/nacre-lab-ceph18";
/// What is installed.
const PACKAGES: &str = "ceph-osd,ceph-mon,ceph-mgr,ceph-common,ceph-base";
/// How long that may take.
const INSTALL: Duration = Duration::from_secs(1200);

/// The folder of the release that a cluster asks for; `None` for this machine's own. It is installed if it is not there.
///
/// # Errors
/// It cannot be installed, or needs root; a `Skip`, since other clusters can go on.
pub fn root(lab: &Lab, point: &Point) -> Result<Option<PathBuf>> {
    if point.int("release", 16) < 18 {
        return Ok(None);
    }
    need_root("Ceph 18 in a folder of its own")?;
    let root = PathBuf::from(point.given("root").unwrap_or_else(|| ROOT.into()));
    if !root.join("usr/bin/ceph-osd").exists() {
        eprintln!("installing Debian 13 with Ceph 18 in {} (some minutes, 1.5 GB)", root.display());
        install(lab, &root).map_err(|e| Skip(format!("Ceph 18 cannot be installed in {}: {e:#}", root.display())))?;
    }
    Ok(Some(root))
}

fn install(lab: &Lab, root: &std::path::Path) -> Result<()> {
    let mut command = Command::new("mmdebstrap");
    command.args([
        "--quiet",
        "--variant=minbase",
        "--aptopt=Apt::Install-Recommends \"false\"",
        &format!("--include={PACKAGES}"),
    ]);
    // What this machine's apt needs to reach its archive, as a proxy, the new one needs, too.
    for option in proxies() {
        command.arg(format!("--aptopt={option}"));
    }
    command.arg("trixie").arg(root).arg(mirror().context("no archive of Debian is in /etc/apt/sources.list")?);
    process::output(command, INSTALL, &lab.undo, &lab.interrupt)?;
    Ok(())
}

/// Lines about proxies and certificates of this machine's apt.
fn proxies() -> Vec<String> {
    let done = Command::new("apt-config").arg("dump").output();
    let text = done.map(|d| String::from_utf8_lossy(&d.stdout).into_owned()).unwrap_or_default();
    text.lines().filter(|l| l.starts_with("Acquire::http") && !l.contains("\"\"")).map(str::to_owned).collect()
}

/// The archive that this machine's packages come from.
fn mirror() -> Option<String> {
    let folder = std::fs::read_dir("/etc/apt/sources.list.d").ok().into_iter().flatten().flatten().map(|e| e.path());
    let texts =
        std::iter::once(PathBuf::from("/etc/apt/sources.list")).chain(folder).filter_map(|p| std::fs::read_to_string(p).ok());
    texts.flat_map(|t| t.lines().map(str::to_owned).collect::<Vec<_>>()).find_map(|line| {
        let wanted = line.starts_with("URIs:") || line.starts_with("deb ");
        line.split_whitespace().find(|w| wanted && w.starts_with("http")).map(str::to_owned)
    })
}
