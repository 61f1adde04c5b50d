//! `--wipe`: disks that hold something are cleared, and used.
//!
//! First it is looked at all of them, and nothing is changed: [`plan`] says which disks will be cleared, or refuses.
//! [`clear`] does it.
//!
//! What stays refused: a disk that is mounted, or in use by a process or by the system; one that holds something of
//! this cluster, or lies in its folder. Nobody means those.

use crate::plan::{self, Content};
use crate::state::{OsdState, State};
use anyhow::{Context, Result, bail};
use runtime::{Device, DeviceOptions};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// So much is cleared at the beginning and at the end: partition tables, file systems, volumes and arrays leave their
/// marks there, and stores have their superblocks there. The first partition begins at 1 MiB as a rule; what it holds
/// is not seen again either.
const CLEARED: u64 = 4 << 20;

/// Returns which disks of new OSDs must be cleared before they are used. Changes nothing.
pub(crate) fn plan(state: &State, dir: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for osd in &state.osds {
        all.extend(plan_one(state, osd, dir).with_context(|| format!("osd.{}", osd.id))?);
    }
    Ok(all)
}

/// The same for one OSD. `state` tells of the others, and of the cluster.
pub(crate) fn plan_one(state: &State, osd: &OsdState, dir: &Path) -> Result<Vec<PathBuf>> {
    let Some(block) = osd.disk.as_ref().filter(|_| !osd.made) else { return Ok(Vec::new()) };
    if plan::holds_store_of(block, osd)? {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for place in std::iter::once(block).chain(&osd.journal) {
        if plan::content(place)? != Content::Empty && !plan::holds_journal_of(place, osd)? {
            may_be_cleared(state, place, dir)?;
            found.push(place.clone());
        }
    }
    Ok(found)
}

/// Refuses what nobody means to lose.
fn may_be_cleared(state: &State, place: &Path, dir: &Path) -> Result<()> {
    let shown = place.display();
    // A link to a file is that file.
    let real = place.canonicalize().with_context(|| shown.to_string())?;
    if real.starts_with(dir.canonicalize().unwrap_or_else(|_| dir.to_owned())) {
        bail!("{shown} lies in the cluster's own folder; --wipe does not clear that");
    }
    if let Some(what) = plan::of_cluster(place, state)? {
        bail!(
            "{shown} holds {what}; --wipe does not clear that. If its data is not needed any more, clear it with `blkdiscard -z`, or remove the file"
        );
    }
    drop(hold(place)?);
    if backs_a_loop(&real) {
        bail!("{shown} is in use: it is the file behind a loop device; --wipe does not clear that");
    }
    Ok(())
}

/// Refuses a disk that is mounted or in use.
pub(crate) fn free(place: &Path) -> Result<()> {
    if !place.exists() {
        return Ok(());
    }
    let options = DeviceOptions { create: false, direct: false, ..DeviceOptions::default() };
    Device::open(place, &options).map(drop).map_err(|e| anyhow::anyhow!("{e}"))?;
    if place.canonicalize().is_ok_and(|real| backs_a_loop(&real)) {
        bail!("{} is in use: it is the file behind a loop device", place.display());
    }
    Ok(())
}

/// Opens a disk so that nobody else can. The system refuses one that is mounted, or part of something that is.
fn hold(place: &Path) -> Result<Device> {
    let options = DeviceOptions { create: false, direct: false, ..DeviceOptions::default() };
    Device::open(place, &options).map_err(|e| anyhow::anyhow!("{e}; --wipe clears nothing that is mounted or in use"))
}

/// Returns true if a file is behind a loop device: those do not lock it.
fn backs_a_loop(place: &Path) -> bool {
    let all = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut files = all.filter_map(|device| std::fs::read_to_string(device.path().join("loop/backing_file")).ok());
    files.any(|file| Path::new(file.trim_end_matches('\n')) == place)
}

/// Clears disks. What they held cannot be found again.
pub(crate) fn clear(places: &[PathBuf]) -> Result<()> {
    for place in places {
        let held = hold(place)?;
        zero(place).with_context(|| format!("clear {}", place.display()))?;
        drop(held);
        eprintln!("nacre: {} is cleared", place.display());
    }
    Ok(())
}

/// Writes zeros over the beginning and the end.
fn zero(place: &Path) -> std::io::Result<()> {
    let mut file = File::options().write(true).open(place)?;
    let len = file.seek(SeekFrom::End(0))?;
    let zeros = vec![0; CLEARED.min(len) as usize];
    // The end first: whoever looks at a disk that is half cleared still finds what it was.
    for from in [len - zeros.len() as u64, 0] {
        file.write_all_at(&zeros, from)?;
        file.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_cleared_and_the_length_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        for len in [0, 5, CLEARED as usize + 5, 3 * CLEARED as usize] {
            std::fs::write(&path, vec![7; len]).unwrap();
            clear(std::slice::from_ref(&path)).unwrap();
            assert_eq!((plan::content(&path).unwrap(), std::fs::metadata(&path).unwrap().len()), (Content::Empty, len as u64));
        }
    }

    #[test]
    fn only_new_osds_and_what_is_not_of_this_cluster() {
        let (dir, top) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let top = top.path().canonicalize().unwrap();
        let at = |name: &str| top.join(name);
        let mut state = State::new().unwrap();
        let osd = OsdState::new(0, 1 << 30, Some(at("disk")), Some(at("journal"))).unwrap();
        state.osds.push(osd.clone());
        let found = |state: &State| plan(state, dir.path()).map_err(|e| format!("{e:#}"));
        assert_eq!(found(&state).unwrap(), Vec::<PathBuf>::new());
        std::fs::write(at("disk"), "dear").unwrap();
        std::fs::write(at("journal"), "sir").unwrap();
        assert_eq!(found(&state).unwrap(), [at("disk"), at("journal")]);
        state.osds[0].made = true;
        assert_eq!(found(&state).unwrap(), Vec::<PathBuf>::new(), "one that has served is never cleared");
        state.osds[0].made = false;

        let superblock = |uuid: [u8; 16], fsid: [u8; 16]| [&b"NACRESTO\x02\0\0\0"[..], &[0; 8], &uuid, &fsid, &[0; 64]].concat();
        let fsid = state.fsid().unwrap().0;
        std::fs::write(at("disk"), superblock([1; 16], fsid)).unwrap();
        assert!(found(&state).unwrap_err().contains("an OSD of this cluster"));
        std::fs::write(at("disk"), superblock([1; 16], [2; 16])).unwrap();
        assert_eq!(found(&state).unwrap(), [at("disk"), at("journal")], "of another cluster");
        std::fs::write(at("disk"), superblock(osd.uuid().unwrap(), fsid)).unwrap();
        assert_eq!(found(&state).unwrap(), Vec::<PathBuf>::new(), "its own store is used as it is");
        std::fs::write(at("disk"), [&b"nacremon\x03\0\0\0"[..], &fsid, &[0; 64]].concat()).unwrap();
        assert!(found(&state).unwrap_err().contains("a monitor of this cluster"));

        std::fs::write(at("disk"), "dear").unwrap();
        let held = hold(&at("disk")).unwrap();
        assert!(found(&state).unwrap_err().contains("in use"));
        drop(held);
        std::fs::write(dir.path().join("letter"), "dear").unwrap();
        std::os::unix::fs::symlink(dir.path().join("letter"), at("link")).unwrap();
        state.osds[0].disk = Some(at("link"));
        assert!(found(&state).unwrap_err().contains("own folder"), "by a link");
        state.osds[0].disk = Some(dir.path().canonicalize().unwrap().join("letter"));
        assert!(found(&state).unwrap_err().contains("own folder"));
    }
}
