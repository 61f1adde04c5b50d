//! File systems on prepared disks, made and mounted as the articles did.

use super::{Prepared, Skip, TOOL, need_root};
use crate::lab::Lab;
use crate::plan::Point;
use crate::process;
use crate::undo::{Held, Thing};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted file system.
pub struct Mounted {
    /// Its mount point.
    pub path: PathBuf,
    _held: Held,
}

/// Options of the articles of 2012 and 2013: inodes of 2 KiB that hold attributes; large btrfs nodes; no times of
/// reads.
fn options(fs: &str) -> (&'static [&'static str], &'static str) {
    match fs {
        "xfs" => (&["-q", "-f", "-i", "size=2048"], "inode64,noatime"),
        "btrfs" => (&["-q", "-f", "-n", "16k"], "noatime"),
        _ => (&["-q", "-F"], "noatime"),
    }
}

/// Makes the file system and mounts it at `at`.
///
/// # Errors
/// A tool or the kernel refuses.
pub fn mount(lab: &Lab, disk: &Prepared, cluster: &Point, at: &Path) -> Result<Mounted> {
    let fs = cluster.text("fs");
    need_root("mkfs and mount")?;
    let (mkfs, mount_options) = options(&fs);
    let mut make = Command::new(format!("mkfs.{fs}"));
    make.args(mkfs).args(cluster.text("mkfs").split_whitespace()).arg(&disk.path);
    process::output(make, TOOL, &lab.undo, &lab.interrupt)?;
    std::fs::create_dir_all(at)?;
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let held = lab.undo.hold(Thing::Mount { path: at.to_owned() })?;
    let mut command = Command::new("mount");
    command.args(["-t", &fs, "-o", &cluster.given("mount").unwrap_or_else(|| mount_options.into())]).arg(&disk.path).arg(at);
    match process::output(command, TOOL, &lab.undo, &lab.interrupt) {
        Ok(_) => Ok(Mounted { path: at.to_owned(), _held: held }),
        Err(_) if !known.lines().any(|l| l.trim() == fs) => Err(Skip(format!("this kernel does not know {fs}")).into()),
        Err(e) => Err(e).context("mount the data disk"),
    }
}
