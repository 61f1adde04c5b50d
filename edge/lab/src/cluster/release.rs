//! A release of Ceph that this machine's packages are not: Debian 13 with 18.2 in a folder of its own.

use crate::disks::{Skip, need_root};
use crate::lab::Lab;
use crate::plan::Point;
use crate::process;
use anyhow::{Context, Result, ensure};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Place where it is put if the experiment does not say.
const ROOT: &str = "/var/tmp/nacre-lab-ceph18";
/// Packages that are installed.
const PACKAGES: &str = "ceph-osd,ceph-mon,ceph-mgr,ceph-common,ceph-base";
/// Time that the installation may take.
const INSTALL: Duration = Duration::from_secs(1200);

/// The folder of the release that a cluster asks for; `None` for this machine's own. It is installed if it is not
/// there.
///
/// # Errors
/// It cannot be installed, or needs root; a `Skip`, since other clusters can go on.
pub fn root(lab: &Lab, point: &Point) -> Result<Option<PathBuf>> {
    if point.int("release", 16) < 18 {
        return Ok(None);
    }
    need_root("Ceph 18 in a folder of its own")?;
    let root = PathBuf::from(point.given("root").unwrap_or_else(|| ROOT.into()));
    only_ours(&root, 0)?;
    if !root.join("usr/bin/ceph-osd").exists() {
        eprintln!("installing Debian 13 with Ceph 18 in {} (some minutes, 1.5 GB)", root.display());
        install(lab, &root).map_err(|e| Skip(format!("Ceph 18 cannot be installed in {}: {e:#}", root.display())))?;
    }
    Ok(Some(root))
}

/// Refuses a folder that somebody else made, or may change: what is in it is started as root. Where it is by default,
/// everybody may make one.
fn only_ours(root: &Path, user: u32) -> Result<()> {
    let Ok(found) = std::fs::symlink_metadata(root) else { return Ok(()) };
    let own = found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0;
    ensure!(own, "{} is not a folder that root alone may change: remove it, or name another one (`root`)", root.display());
    Ok(())
}

fn install(lab: &Lab, root: &Path) -> Result<()> {
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
    let empty = std::fs::read_dir(root).map_or(true, |mut entries| entries.next().is_none());
    ensure!(empty, "it holds something else, or what is left of an installation that failed: remove it");
    command.arg("trixie").arg(root).arg(mirror().context("no archive of Debian is in /etc/apt/sources.list")?);
    let installed = process::output(command, INSTALL, &lab.undo, &lab.interrupt);
    if installed.is_err() && !anything_is_mounted_in(root) {
        // A part of it would be in the way of the next attempt.
        let _ = std::fs::remove_dir_all(root);
    }
    installed.map(drop)
}

fn anything_is_mounted_in(folder: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts");
    mounts.map_or(true, |m| m.lines().filter_map(|l| l.split(' ').nth(1)).any(|at| Path::new(at).starts_with(folder)))
}

/// Lines about proxies and certificates of this machine's apt.
fn proxies() -> Vec<String> {
    let done = Command::new("apt-config").arg("dump").output();
    let text = done.map(|d| String::from_utf8_lossy(&d.stdout).into_owned()).unwrap_or_default();
    text.lines().filter(|l| l.starts_with("Acquire::http") && !l.contains("\"\"")).map(str::to_owned).collect()
}

/// The archive that this machine's Debian comes from: of those that apt knows, the first one named so.
fn mirror() -> Option<String> {
    let folder = std::fs::read_dir("/etc/apt/sources.list.d").ok().into_iter().flatten().flatten().map(|e| e.path());
    let files = std::iter::once(PathBuf::from("/etc/apt/sources.list")).chain(folder).filter(|p| is_read_by_apt(p));
    let archives: Vec<String> =
        files.filter_map(|p| std::fs::read_to_string(p).ok()).flat_map(|text| archives_in(&text)).collect();
    let debian = archives.iter().find(|a| a.trim_end_matches('/').ends_with("/debian"));
    debian.or(archives.first()).cloned()
}

/// Returns true if apt takes a file for a list of sources.
fn is_read_by_apt(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "list" || e == "sources")
}

/// Addresses in a list of sources, of either format.
fn archives_in(text: &str) -> Vec<String> {
    let wanted = text.lines().filter(|line| line.starts_with("URIs:") || line.starts_with("deb "));
    wanted.filter_map(|line| line.split_whitespace().find(|w| w.starts_with("http"))).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn programs_of_others_are_not_started() {
        let folder = tempfile::tempdir().unwrap();
        let (root, link) = (folder.path().join("root"), folder.path().join("link"));
        let user = std::fs::metadata(folder.path()).unwrap().uid();
        assert!(only_ours(&root, user).is_ok(), "it is not there yet");
        std::fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink(&root, &link).unwrap();
        for (mode, well) in [(0o755, true), (0o700, true), (0o775, false), (0o777, false), (0o1777, false)] {
            std::fs::set_permissions(&root, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(only_ours(&root, user).is_ok(), well, "{mode:o}");
        }
        std::fs::set_permissions(&root, PermissionsExt::from_mode(0o755)).unwrap();
        assert!(only_ours(&root, user + 1).is_err() && only_ours(&link, user).is_err());
    }

    #[test]
    fn archives_are_found_in_both_formats() {
        let old =
            "# deb http://no/debian\ndeb [signed-by=/k] https://a.example/debian/ bookworm main\ndeb-src http://b bookworm\n";
        assert_eq!(archives_in(old), ["https://a.example/debian/"]);
        let new = "Types: deb\n# http://snapshot.example\nURIs: http://c.example/debian\nSuites: bookworm\n";
        assert_eq!(archives_in(new), ["http://c.example/debian"]);
        assert!(is_read_by_apt(Path::new("/etc/apt/sources.list")) && is_read_by_apt(Path::new("/x/debian.sources")));
        assert!(!is_read_by_apt(Path::new("/x/other.sources.disabled")));
    }
}
