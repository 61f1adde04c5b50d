//! Disks for clusters: plain files, loop devices, given block devices, and models of slower disks; file systems on
//! them.
//!
//! Invariant: a disk that holds anything is refused without `--wipe`, and only disks that the experiment names are
//! touched. Loop devices, mounts and the process of a model are held, so they go with the [`Prepared`] disk.

pub mod filesystem;
pub mod medium;
pub mod model;
pub mod signature;

use crate::lab::Lab;
use crate::plan::Point;
use crate::process::{self, Daemon};
use crate::undo::{Held, Thing};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Time that a tool of the system may take.
const TOOL: Duration = Duration::from_secs(60);
/// Time that a model may take to be mounted.
const MOUNTED: Duration = Duration::from_secs(10);

/// Something that was left out because it cannot be done here; the report says why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Skip(pub String);

/// A disk that is ready. What it is made of ends in the order of the fields.
#[derive(Default)]
pub struct Prepared {
    /// A block device or a file.
    pub path: PathBuf,
    /// Bytes that it has; 0 if it grows.
    pub size: u64,
    /// Name in /proc/diskstats.
    pub stats: Option<String>,
    _holds: Vec<Held>,
    _mount: Option<Held>,
    _model: Option<Daemon>,
    _file: Option<Held>,
}

/// Returns true if this process is root.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// # Errors
/// This process is not root: a [`Skip`] that says what needs it.
pub fn need_root(what: &str) -> Result<()> {
    if is_root() { Ok(()) } else { Err(Skip(format!("{what} needs root; run it as root to measure this, too")).into()) }
}

/// Makes the disk ready for the `index`-th user; files are made below `folder`.
///
/// # Errors
/// It cannot be made, needs root, or holds something.
pub fn prepare(lab: &Lab, spec: &Point, index: usize, folder: &Path) -> Result<Prepared> {
    let size = spec.int("size", 4 << 30);
    let file = folder.join(format!("disk-{}-{index}", spec.text("name")));
    match spec.text("kind").as_str() {
        "file" => {
            let held = make_file(lab, &file, size)?;
            Ok(Prepared { stats: device_below(folder), path: file, size, _file: Some(held), ..Prepared::default() })
        }
        "loop" => {
            need_root("a loop device")?;
            let held = make_file(lab, &file, size)?;
            let (path, loop_held) = attach(lab, &file, spec.flag("direct", true), 0, 0)?;
            let mut holds = tune(lab, spec, &path)?;
            holds.push(loop_held);
            Ok(Prepared { stats: stats_name(&path), path, size, _holds: holds, _file: Some(held), ..Prepared::default() })
        }
        "model" => {
            need_root("a model of a disk")?;
            modelled(lab, spec, &file, size)
        }
        _ => {
            let paths = spec.text("path");
            let Some(path) = paths.split(',').map(str::trim).filter(|p| !p.is_empty()).nth(index) else {
                bail!("disk '{}': path names {} devices, another is needed", spec.text("name"), paths.split(',').count());
            };
            need_root("a block device")?;
            let path = PathBuf::from(path);
            signature::must_be_free(lab, &path)?;
            let holds = tune(lab, spec, &path)?;
            let size = device_size(&path)?;
            Ok(Prepared { stats: stats_name(&path), path, size, _holds: holds, ..Prepared::default() })
        }
    }
}

/// A part of a disk as a device of its own: the `index`-th of `parts`.
///
/// # Errors
/// The kernel refuses.
pub fn part(lab: &Lab, disk: &Prepared, index: usize, parts: usize) -> Result<Prepared> {
    need_root("a part of a device")?;
    let each = (disk.size / parts as u64) & !0xF_FFFF;
    let (path, held) = attach(lab, &disk.path, true, each * index as u64, each)?;
    Ok(Prepared { stats: stats_name(&path), path, size: each, _holds: vec![held], ..Prepared::default() })
}

fn make_file(lab: &Lab, path: &Path, size: u64) -> Result<Held> {
    let held = lab.undo.hold(Thing::Folder { path: path.to_owned() })?;
    let file = std::fs::File::create(path).with_context(|| format!("make {}", path.display()))?;
    file.set_len(size).with_context(|| format!("make {}", path.display()))?;
    Ok(held)
}

fn attach(lab: &Lab, file: &Path, direct: bool, offset: u64, size: u64) -> Result<(PathBuf, Held)> {
    let mut command = Command::new("losetup");
    command.args(["--find", "--show", if direct { "--direct-io=on" } else { "--direct-io=off" }]);
    if size > 0 {
        command.args(["--offset", &offset.to_string(), "--sizelimit", &size.to_string()]);
    }
    command.arg(file);
    let said = process::output(command, TOOL, &lab.undo, &lab.interrupt).context("make a loop device")?;
    let device = PathBuf::from(said.trim());
    let held = lab.undo.hold(Thing::Loop { device: device.clone(), file: file.to_owned() })?;
    Ok((device, held))
}

fn modelled(lab: &Lab, spec: &Point, backing: &Path, size: u64) -> Result<Prepared> {
    let file = make_file(lab, backing, size)?;
    let at = backing.with_extension("model");
    std::fs::create_dir_all(&at)?;
    let mut command = Command::new(&lab.nacre);
    command.args(["lab", "model-disk"]).arg(backing).arg(&at).arg(serde_json::to_string(spec)?);
    let model = Daemon::start(command, &backing.with_extension("log"), true, &lab.undo)?;
    let mount = lab.undo.hold(Thing::Mount { path: at.clone() })?;
    let until = Instant::now() + MOUNTED;
    while !at.join("disk").exists() {
        lab.interrupt.sleep(Duration::from_millis(20))?;
        if Instant::now() > until {
            let said = std::fs::read_to_string(backing.with_extension("log")).unwrap_or_default();
            return Err(Skip(format!("the model of a disk cannot be mounted (it needs FUSE): {}", said.trim())).into());
        }
    }
    let (path, held) = attach(lab, &at.join("disk"), true, 0, 0)?;
    let mut holds = tune(lab, spec, &path)?;
    holds.push(held);
    let stats = stats_name(&path);
    Ok(Prepared { path, size, stats, _holds: holds, _mount: Some(mount), _model: Some(model), _file: Some(file) })
}

/// The name of a device in /proc/diskstats.
pub fn stats_name(device: &Path) -> Option<String> {
    let real = std::fs::canonicalize(device).ok()?;
    Some(real.file_name()?.to_string_lossy().into_owned())
}

/// The device that the file system of a folder is on, as /proc/diskstats calls it.
pub fn device_below(folder: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let dev = std::fs::metadata(folder).ok()?.dev();
    let (major, minor) = (nix::sys::stat::major(dev), nix::sys::stat::minor(dev));
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    Some(link.file_name()?.to_string_lossy().into_owned())
}

fn device_size(path: &Path) -> Result<u64> {
    let name = stats_name(path).context("the device has no name")?;
    let text = std::fs::read_to_string(format!("/sys/class/block/{name}/size"));
    let sectors: u64 = text.with_context(|| format!("{} is not a block device", path.display()))?.trim().parse()?;
    Ok(sectors * 512)
}

/// Sets what the experiment says about a device's queue, and holds what was there before.
fn tune(lab: &Lab, spec: &Point, device: &Path) -> Result<Vec<Held>> {
    let name = stats_name(device).context("the device has no name")?;
    let mut held = Vec::new();
    for (key, file) in [("scheduler", "scheduler"), ("read_ahead_kb", "read_ahead_kb"), ("rq_affinity", "rq_affinity")] {
        if let Some(value) = spec.given(key) {
            held.push(set(lab, Path::new(&format!("/sys/class/block/{name}/queue/{file}")), &value)?);
        }
    }
    Ok(held)
}

/// Changes a setting of the kernel until what this gives is dropped.
///
/// # Errors
/// The kernel has no such setting, or refuses.
pub fn set(lab: &Lab, path: &Path, value: &str) -> Result<Held> {
    let before =
        std::fs::read_to_string(path).map_err(|e| Skip(format!("this machine has no setting {}: {e}", path.display())))?;
    // A choice is shown as `none [mq-deadline] kyber`.
    let chosen = before.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(before.trim(), |(word, _)| word);
    let held = lab.undo.hold(Thing::Setting { path: path.to_owned(), before: chosen.to_owned() })?;
    std::fs::write(path, value).with_context(|| format!("write {value} to {}", path.display()))?;
    Ok(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_on_devices_with_names() {
        if let Some(name) = device_below(Path::new("/")) {
            assert!(std::fs::read_to_string("/proc/diskstats").unwrap().contains(&name));
        }
        assert_eq!(stats_name(Path::new("/dev/null")).as_deref(), Some("null"));
    }
}
