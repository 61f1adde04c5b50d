//! Refuses disks that hold something.

use crate::lab::Lab;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// `blkid -p`: nothing was found.
const NOTHING: i32 = 2;

/// # Errors
/// The disk is mounted or in use; or it holds something, and `--wipe` was not given.
pub(super) fn must_be_free(lab: &Lab, device: &Path) -> Result<()> {
    let real = std::fs::canonicalize(device).with_context(|| format!("there is no {}", device.display()))?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    if let Some(line) = mounts.lines().find(|l| l.split(' ').next().is_some_and(|d| Path::new(d) == real)) {
        bail!("{} is mounted at {}; it is left alone", device.display(), line.split(' ').nth(1).unwrap_or("?"));
    }
    match found(&real)? {
        Some(what) if !lab.wipe => bail!("{} holds {what}; give --wipe to lose that", device.display()),
        Some(_) => wipe(&real),
        None => Ok(()),
    }
}

/// Returns what the system's tool finds on a device or in a file.
fn found(device: &Path) -> Result<Option<String>> {
    let done = Command::new("blkid").args(["-p", "-o", "export"]).arg(device).stdin(Stdio::null()).output();
    let done = done.context("start blkid (Debian's package util-linux has it)")?;
    let text = String::from_utf8_lossy(&done.stdout);
    let value = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)).map(str::to_owned);
    match done.status.code() {
        Some(0) => Ok(Some(match (value("TYPE="), value("PTTYPE=")) {
            (Some(kind), _) => format!("a file system or the like ({kind})"),
            (None, Some(kind)) => format!("a table of partitions ({kind})"),
            (None, None) => "something that blkid knows".into(),
        })),
        Some(NOTHING) => Ok(None),
        // 8: several things at once.
        _ => Ok(Some(format!("something ({})", String::from_utf8_lossy(&done.stderr).trim()))),
    }
}

fn wipe(device: &Path) -> Result<()> {
    let done = Command::new("wipefs").args(["-q", "-a"]).arg(device).output().context("start wipefs")?;
    if !done.status.success() {
        bail!("wipefs {}: {}", device.display(), String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_seen_and_an_empty_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        std::fs::File::create(&file).unwrap().set_len(8 << 20).unwrap();
        assert_eq!(found(&file).unwrap(), None);
        let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&file).status();
        if made.is_ok_and(|s| s.success()) {
            assert_eq!(found(&file).unwrap().as_deref(), Some("a file system or the like (ext4)"));
        }
    }
}
