//! Which OSDs a cluster shall have: what DIR says, changed by what the command line asks for.

use crate::cli::{Disk, Up};
use crate::foreign;
use crate::state::{OsdState, State};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use types::Fsid;

/// OSDs of a new cluster.
const DEFAULT_OSDS: u32 = 3;
/// Bytes that the file of an OSD may grow to.
pub(crate) const DEFAULT_SIZE: u64 = 64 << 30;
/// The first bytes of a store, in either of its two superblocks.
const MAGIC: &[u8; 8] = b"NACRESTO";
/// Offsets of the superblocks, in bytes.
const SUPERBLOCKS: [u64; 2] = [0, 8 * 4096];
/// The same of a monitor's store.
const MON_MAGIC: &[u8; 8] = b"nacremon";
const MON_SUPERBLOCKS: [u64; 2] = [0, 2 * 4096];
/// The first bytes of a journal's disk; the identity of the OSD's disk follows.
const JOURNAL_MAGIC: &[u8; 8] = b"NACREJNL";
/// A disk that is taken for empty has no byte set so far from its beginning and from its end, where partition tables,
/// volumes and arrays leave their marks.
const MUST_BE_EMPTY: usize = 1 << 20;

/// Brings `state` in line with `args`. Whether it changed.
pub(crate) fn osds(state: &mut State, args: &Up) -> Result<bool> {
    let before = state.clone();
    find_again(state)?;
    disks(state, args)?;
    files(state, args)?;
    if state.osds.is_empty() {
        bail!("a cluster needs an OSD: --osds 1 or more, or --disk");
    }
    Ok(*state != before)
}

/// Says how many copies new pools of a new cluster keep: the monitor decides the same by what OSDs say of their disks.
pub(crate) fn copies(state: &State) -> String {
    let in_dir = state.osds.iter().filter(|o| o.disk.is_none()).count();
    match if in_dir > 1 { 1 } else { state.osds.len() } {
        0 | 1 => {
            "New pools keep one copy, since all is on one disk: if that is lost, so is the data. More disks (--disk) or hosts \
                  (`nacre token`, `nacre join`) let them keep more."
                .into()
        }
        disks => format!("New pools keep {} copies, each on another disk.", disks.min(3)),
    }
}

/// OSDs on disks of their own.
fn disks(state: &mut State, args: &Up) -> Result<()> {
    let mut given = Vec::new();
    for disk in &args.disk {
        let path = resolve(&disk.path, true).with_context(|| format!("--disk {}", disk.path.display()))?;
        let journal =
            disk.journal.as_ref().map(|j| resolve(j, false).with_context(|| format!("--disk ...,journal={}", j.display())));
        given.push(Disk { path, journal: journal.transpose()? });
    }
    for (i, disk) in given.iter().enumerate() {
        let own = || std::iter::once(&disk.path).chain(&disk.journal);
        let mut used = given[..i].iter().flat_map(|d| std::iter::once(&d.path).chain(&d.journal));
        let twice = |p: &PathBuf| own().any(|q| same_disk(p, q));
        if used.any(twice) || disk.journal.as_ref().is_some_and(|journal| same_disk(journal, &disk.path)) {
            bail!("{} is given twice", disk.path.display());
        }
    }
    if !given.is_empty() {
        for osd in &state.osds {
            let Some(path) = osd.disk.as_ref().filter(|_| !osd.held) else { continue };
            if !given.iter().any(|d| same_disk(&d.path, path)) {
                bail!("osd.{} on {} is not among the disks given. {}", osd.id, path.display(), how_to_remove(osd.id));
            }
        }
    }
    for disk in given {
        let found = state.osds.iter_mut().find(|o| o.disk.as_ref().is_some_and(|path| same_disk(path, &disk.path)));
        match found {
            // Another name of the same disk: the one that was given counts, as it was given.
            Some(osd) if same_disks(osd.journal.as_ref(), disk.journal.as_ref()) => {
                (osd.disk, osd.journal) = (Some(disk.path), disk.journal);
            }
            Some(osd) => bail!("the journal of osd.{} on {} cannot be moved to another disk", osd.id, disk.path.display()),
            None => {
                let size = args.osd_size.or_else(|| length(&disk.path)).unwrap_or(DEFAULT_SIZE);
                state.osds.push(OsdState::new(state.free_id(), size, Some(disk.path), disk.journal)?);
            }
        }
    }
    Ok(())
}

/// Returns the length of a file that is there: whoever made it that long meant it. An empty one says nothing.
pub(crate) fn length(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|meta| meta.len()).filter(|len| *len > 0)
}

/// OSDs in DIR.
fn files(state: &mut State, args: &Up) -> Result<()> {
    let have = state.osds.iter().filter(|o| o.disk.is_none()).count() as u32;
    let wanted = args.osds.unwrap_or(if state.osds.is_empty() { DEFAULT_OSDS } else { have });
    if wanted < have {
        let last = state.osds.iter().filter(|o| o.disk.is_none()).map(|o| o.id).max().unwrap_or(0);
        bail!("the cluster has {have} OSDs, not {wanted}. {}", how_to_remove(last));
    }
    if wanted > 1000 {
        bail!("--osds {wanted}: at most 1000 OSDs run in one process");
    }
    if let Some(size) = args.osd_size {
        for osd in state.osds.iter_mut().filter(|o| o.disk.is_none()) {
            if size < osd.size {
                bail!("osd.{} may grow to {} bytes already, it cannot be made smaller ({size})", osd.id, osd.size);
            }
            osd.size = size;
        }
    }
    for _ in have..wanted {
        state.osds.push(OsdState::new(state.free_id(), args.osd_size.unwrap_or(DEFAULT_SIZE), None, None)?);
    }
    Ok(())
}

/// The sentence for those who want fewer OSDs.
fn how_to_remove(id: u32) -> String {
    format!("An OSD is removed while the cluster runs: `nacre disk rm --dir DIR {id}`")
}

/// Returns true if two paths lead to the same disk.
pub(crate) fn same_disk(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// The same of two that may be missing.
pub(crate) fn same_disks(a: Option<&PathBuf>, b: Option<&PathBuf>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => same_disk(a, b),
        (a, b) => a == b,
    }
}

/// Finds disks again that have another name since the host was started: the kernel gives names like `/dev/sdb` as disks
/// come, and it is the identity on a disk that says whose it is. What is not found is refused later, with its name.
fn find_again(state: &mut State) -> Result<()> {
    let lost: Vec<usize> = (0..state.osds.len()).filter(|i| is_lost(&state.osds[*i])).collect();
    if lost.is_empty() {
        return Ok(());
    }
    let disks = block_devices();
    for i in lost {
        let osd = &state.osds[i];
        let mut places = (osd.disk.clone(), osd.journal.clone());
        if let Some(place) = places.0.as_mut().filter(|place| is_device(place) && !holds_store_of(place, osd).unwrap_or(false)) {
            only(disks.iter().filter(|d| holds_store_of(d, osd).unwrap_or(false))).into_iter().for_each(|found| *place = found);
        }
        if let Some(place) = places.1.as_mut().filter(|place| is_device(place) && !holds_journal_of(place, osd).unwrap_or(false))
        {
            only(disks.iter().filter(|d| holds_journal_of(d, osd).unwrap_or(false))).into_iter().for_each(|found| *place = found);
        }
        let osd = &mut state.osds[i];
        for (was, is) in [(&mut osd.disk, places.0), (&mut osd.journal, places.1)] {
            if let (Some(old), Some(new)) = (&*was, &is)
                && old != new
            {
                eprintln!("osd.{}: {} holds something else; its disk is {} now", osd.id, old.display(), new.display());
            }
            *was = is;
        }
    }
    Ok(())
}

fn is_device(path: &Path) -> bool {
    path.starts_with("/dev")
}

/// Returns true if a disk of an OSD that was made is a device, and does not hold what it should.
fn is_lost(osd: &OsdState) -> bool {
    let misses = |place: &PathBuf, holds: &dyn Fn(&Path) -> Result<bool>| is_device(place) && !holds(place).unwrap_or(false);
    osd.made
        && (osd.disk.as_ref().is_some_and(|place| misses(place, &|p| holds_store_of(p, osd)))
            || osd.journal.as_ref().is_some_and(|place| misses(place, &|p| holds_journal_of(p, osd))))
}

/// The only one, by a name that stays if it has one.
fn only<'a>(mut found: impl Iterator<Item = &'a PathBuf>) -> Option<PathBuf> {
    let disk = found.next().filter(|_| found.next().is_none())?;
    let links = std::fs::read_dir("/dev/disk/by-id").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut links: Vec<PathBuf> = links.filter(|link| link.canonicalize().is_ok_and(|to| to == *disk)).collect();
    links.sort();
    Some(links.into_iter().next().unwrap_or_else(|| disk.clone()))
}

/// All block devices of the host that are not empty.
fn block_devices() -> Vec<PathBuf> {
    let all = std::fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    let sized = all.filter(|entry| {
        let size = std::fs::read_to_string(entry.path().join("size")).unwrap_or_default();
        size.trim().parse::<u64>().is_ok_and(|sectors| sectors > 0)
    });
    sized.map(|entry| Path::new("/dev").join(entry.file_name().to_string_lossy().replace('!', "/"))).collect()
}

/// The absolute path of a disk. A device keeps the name that was given: links in `/dev/disk` stay right when the kernel
/// gives the disk another name. A folder (if allowed) stands for the file `block` in it.
pub(crate) fn resolve(path: &Path, folder: bool) -> Result<PathBuf> {
    let path = std::path::absolute(path)?;
    match std::fs::metadata(&path) {
        Ok(meta) if meta.is_dir() && folder => Ok(path.canonicalize()?.join("block")),
        Ok(meta) if meta.file_type().is_block_device() => Ok(path),
        Ok(meta) if meta.is_file() => Ok(path.canonicalize()?),
        Ok(_) => bail!("is neither a file nor a block device"),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            // A file will be made, but never where a device was meant.
            let parent = path.parent().filter(|p| p.is_dir() && !p.starts_with("/dev"));
            let parent = parent.with_context(|| format!("{} does not exist", path.display()))?;
            Ok(parent.canonicalize()?.join(path.file_name().context("has no name")?))
        }
        Err(e) => Err(e.into()),
    }
}

/// Contents of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Nothing.
    Empty,
    /// A store.
    Store,
    /// Something else.
    Foreign,
}

/// Returns what lies on the disks of an OSD, if they may be used. Changes nothing.
pub(crate) fn usable(osd: &OsdState, dir: &Path) -> Result<Content> {
    usable_after(osd, dir, &[])
}

/// The same when some disks will have been cleared.
pub(crate) fn usable_after(osd: &OsdState, dir: &Path, cleared: &[PathBuf]) -> Result<Content> {
    let look = |path: &PathBuf| if cleared.contains(path) { Ok(Content::Empty) } else { content(path) };
    let block = osd.block(dir);
    writable(&block)?;
    let clear = "to use it, clear it first: `--wipe` does so, and all that it holds is lost (`nacre up`, `join`, `replace`, `disk add`; \
                 by hand: `wipefs -a` and `blkdiscard`, or remove the file)";
    let content = match look(&block)? {
        Content::Empty if osd.made => bail!("its store is gone: {} is empty", block.display()),
        Content::Foreign if osd.made => {
            bail!("its store is gone: {} holds {}", block.display(), foreign::what(&block).unwrap_or("something else"))
        }
        Content::Foreign => {
            bail!("{} holds {}; {clear}", block.display(), foreign::what(&block).unwrap_or("data that is no store of ours"))
        }
        content => content,
    };
    if content == Content::Empty {
        large_enough(osd, &block)?;
    }
    if content == Content::Store {
        let head = superblock(&block, &SUPERBLOCKS, MAGIC, 20).with_context(|| format!("read {}", block.display()))?;
        if let Some((version, _)) = head.filter(|(version, _)| *version > store::FORMAT) {
            bail!("{} has format version {version}; this program knows versions up to {}", block.display(), store::FORMAT);
        }
        if head.is_none_or(|(_, uuid)| Ok(uuid) != osd.uuid().map_err(drop)) {
            let clear = if osd.made { String::new() } else { format!("; {clear}") };
            bail!("{} belongs to another cluster, or to another OSD{clear}", block.display());
        }
        if is_device(&block) {
            has_not_shrunk(&block)?;
        }
    }
    if let (Some(journal), Content::Empty) = (&osd.journal, content)
        && !holds_journal_of(journal, osd)?
        && look(journal)? != Content::Empty
    {
        bail!("{} (for the journal) holds {}; {clear}", journal.display(), foreign::what(journal).unwrap_or("data"));
    }
    Ok(content)
}

/// Returns whether this is the disk of an OSD, made already.
pub(crate) fn holds_store_of(path: &Path, osd: &OsdState) -> Result<bool> {
    let head = superblock(path, &SUPERBLOCKS, MAGIC, 20).with_context(|| format!("read {}", path.display()))?;
    let own = osd.uuid()?;
    Ok(head.is_some_and(|(_, uuid)| uuid == own))
}

/// Returns whether this is the disk of the journal of an OSD, made already.
pub(crate) fn holds_journal_of(path: &Path, osd: &OsdState) -> Result<bool> {
    let ours = [&JOURNAL_MAGIC[..], &osd.uuid()?].concat();
    begins(path, &[0], &ours).with_context(|| format!("read {}", path.display()))
}

/// Returns what of this cluster lies on a disk, if something does, or may: a journal does not tell its cluster.
pub(crate) fn of_cluster(path: &Path, state: &State) -> Result<Option<&'static str>> {
    let fsid = state.fsid()?.0;
    let is_ours = |places: &[u64], magic, identity| -> std::io::Result<bool> {
        let mut heads = places.iter().map(|at| superblock(path, &[*at], magic, identity));
        heads.try_fold(false, |ours, head| Ok(ours || head?.is_some_and(|(_, id)| id == fsid)))
    };
    let look = || -> std::io::Result<Option<&'static str>> {
        if is_ours(&SUPERBLOCKS, MAGIC, 36)? {
            return Ok(Some("an OSD of this cluster"));
        }
        if is_ours(&MON_SUPERBLOCKS, MON_MAGIC, 12)? {
            return Ok(Some("the store of a monitor of this cluster"));
        }
        let has_osds = state.around.is_some() || state.osds.iter().any(|o| o.made);
        Ok((has_osds && begins(path, &[0], JOURNAL_MAGIC)?).then_some("the journal of an OSD, which may be of this cluster"))
    };
    look().with_context(|| format!("read {}", path.display()))
}

fn writable(block: &Path) -> Result<()> {
    if crate::host::read_only(block) {
        bail!("{} cannot be written: it is on a disk that may only be read", block.display());
    }
    match std::fs::File::options().read(true).write(true).open(block) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("{} cannot be written", block.display()))
        }
        _ => Ok(()),
    }
}

/// A device that has fewer bytes than its store is not the disk that the store was made on, or was made smaller.
fn has_not_shrunk(block: &Path) -> Result<()> {
    let Some(mut file) = open(block)? else { return Ok(()) };
    let have = file.seek(SeekFrom::End(0))?;
    let needs = SUPERBLOCKS.iter().filter_map(|at| {
        let mut head = [0; 4096];
        file.read_exact_at(&mut head, *at).ok()?;
        store::bytes_of_disk(&head)
    });
    match needs.max() {
        Some(need) if have < need => {
            bail!("{} has {have} bytes, and its store {need}: the disk was made smaller, or this is a copy", block.display())
        }
        _ => Ok(()),
    }
}

/// A file may grow to what was asked for; a block device is as large as it is.
fn large_enough(osd: &OsdState, block: &Path) -> Result<()> {
    let len = match open(block)? {
        Some(mut file) if !file.metadata()?.is_file() => file.seek(SeekFrom::End(0))?,
        _ => osd.size,
    };
    let least = store::Config::least_disk(osd.journal.is_some());
    if len < least {
        bail!("{} is too small for an OSD: it has {len} bytes, at least {least} are needed", block.display());
    }
    Ok(())
}

/// Format and identity (at byte `identity`) that a superblock tells behind its magic number; of two, the newer format.
fn superblock(path: &Path, places: &[u64], magic: &[u8; 8], identity: usize) -> std::io::Result<Option<(u32, [u8; 16])>> {
    let Some(file) = open(path)? else { return Ok(None) };
    let mut found = None;
    for at in places {
        let mut head = [0; 64];
        if file.read_exact_at(&mut head, *at).is_ok() && head.starts_with(magic) {
            let mut id = [0; 16];
            id.copy_from_slice(&head[identity..identity + 16]);
            found = found.max(Some((u32::from_le_bytes([head[8], head[9], head[10], head[11]]), id)));
        }
    }
    Ok(found)
}

/// Returns whether the monitor's store, if there is one, is one that this program knows, of cluster `fsid`. Changes
/// nothing.
pub(crate) fn monitor_fits(path: &Path, fsid: Fsid) -> Result<()> {
    let head = superblock(path, &MON_SUPERBLOCKS, MON_MAGIC, 12).with_context(|| format!("read {}", path.display()))?;
    match head {
        Some((version, _)) if version > mon::FORMAT => {
            bail!(
                "the monitor's store {} has format version {version}; this program knows versions up to {}",
                path.display(),
                mon::FORMAT
            )
        }
        Some((_, found)) if found != fsid.0 => {
            bail!("the monitor's store {} belongs to cluster {}, not to {fsid}", path.display(), Fsid(found))
        }
        _ => Ok(()),
    }
}

/// Looks at a file or device on which an OSD's data may lie.
pub(crate) fn content(path: &Path) -> Result<Content> {
    look(path, &SUPERBLOCKS, MAGIC)
}

/// Looks at the monitor's store.
pub(crate) fn monitor_content(path: &Path) -> Result<Content> {
    look(path, &MON_SUPERBLOCKS, MON_MAGIC)
}

fn look(path: &Path, places: &[u64], magic: &[u8]) -> Result<Content> {
    let look = || match begins(path, places, magic)? {
        true => Ok(Content::Store),
        false if is_empty(path)? => Ok(Content::Empty),
        false => Ok(Content::Foreign),
    };
    let content: std::io::Result<Content> = look();
    content.with_context(|| format!("read {}", path.display()))
}

fn open(path: &Path) -> std::io::Result<Option<File>> {
    match File::open(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Returns whether `magic` stands at one of these places.
fn begins(path: &Path, places: &[u64], magic: &[u8]) -> std::io::Result<bool> {
    let Some(file) = open(path)? else { return Ok(false) };
    let mut found = vec![0; magic.len()];
    Ok(places.iter().any(|at| file.read_exact_at(&mut found, *at).is_ok() && found == magic))
}

/// Returns whether nothing is set where something would be.
fn is_empty(path: &Path) -> std::io::Result<bool> {
    let Some(mut file) = open(path)? else { return Ok(true) };
    let len = file.seek(SeekFrom::End(0))?;
    let mut buf = vec![0; MUST_BE_EMPTY];
    for from in [0, len.saturating_sub(MUST_BE_EMPTY as u64)] {
        let n = (len - from).min(MUST_BE_EMPTY as u64) as usize;
        file.read_exact_at(&mut buf[..n], from)?;
        if buf[..n].iter().any(|b| *b != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn up(line: &str) -> Up {
        let words = ["nacre", "up", "--dir", "x"].into_iter().chain(line.split_whitespace());
        let Command::Up(up) = Cli::try_parse_from(words).unwrap().command else { panic!("not up") };
        up
    }

    #[test]
    fn a_new_cluster_says_how_many_copies_it_keeps() {
        let said = |line: &str| {
            let mut state = State::new().unwrap();
            osds(&mut state, &up(line)).unwrap();
            copies(&state)
        };
        let dir = std::env::temp_dir();
        let disks = |n: usize| (0..n).map(|i| format!("--disk {}/nacre-{i} ", dir.display())).collect::<String>();
        assert!(said("").contains("one copy") && said("--osds 1").contains("one copy"));
        assert!(said(&disks(1)).contains("one copy") && said(&(disks(2) + "--osds 2")).contains("one copy"));
        assert!(said(&disks(2)).contains("2 copies") && said(&disks(2 + 2)).contains("3 copies"));
    }

    fn ids(state: &State) -> Vec<u32> {
        state.osds.iter().map(|o| o.id).collect()
    }

    #[test]
    fn clusters_grow_and_do_not_shrink() {
        let mut state = State::new().unwrap();
        assert!(osds(&mut state, &up("")).unwrap());
        assert_eq!(ids(&state), [0, 1, 2]);
        assert!(!osds(&mut state, &up("--port 1 --auth none --memory 1G")).unwrap());
        assert!(!osds(&mut state, &up("--osds 3")).unwrap());
        assert!(osds(&mut state, &up("--osds 5")).unwrap());
        assert_eq!(ids(&state), [0, 1, 2, 3, 4]);
        let error = osds(&mut state.clone(), &up("--osds 4")).unwrap_err().to_string();
        assert!(error.contains("5 OSDs, not 4") && error.contains("nacre disk rm --dir DIR 4"), "{error}");
        state.osds.remove(1);
        assert!(osds(&mut state, &up("--osds 5 --osd-size 65G")).unwrap());
        assert_eq!(ids(&state), [0, 2, 3, 4, 1]);
        assert!(state.osds.iter().all(|o| o.size == 65 << 30));
        assert!(osds(&mut state, &up("--osd-size 1G")).is_err());
        assert!(osds(&mut State::new().unwrap(), &up("--osds 0")).is_err());
    }

    #[test]
    fn disks_are_found_again_by_their_path() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        let mut state = State::new().unwrap();
        let both = format!("--disk {} --disk {},journal={}", at("folder"), at("file"), at("journal"));
        osds(&mut state, &up(&both)).unwrap();
        assert_eq!(state.osds.len(), 2);
        assert!(state.osds[0].disk.as_ref().unwrap().ends_with("folder/block"));
        assert!(!osds(&mut state, &up(&both)).unwrap() && !osds(&mut state, &up("")).unwrap());
        for (line, says) in [
            (format!("--disk {}", at("folder")), "osd.1"),
            (format!("--disk {} --disk {}", at("folder"), at("file")), "journal of osd.1"),
            (format!("{both} --disk {}", at("journal")), "twice"),
            (format!("{both} --disk {}", at("no/where")), "does not exist"),
            (format!("{both} --disk /dev/nacre-typo"), "does not exist"),
        ] {
            let error = format!("{:#}", osds(&mut state.clone(), &up(&line)).unwrap_err());
            assert!(error.contains(says), "{line}: {error}");
        }
        osds(&mut state, &up(&format!("{both} --disk {} --osds 1", at("third")))).unwrap();
        assert_eq!(ids(&state), [0, 1, 2, 3]);
    }

    #[test]
    fn disks_with_other_content_are_recognised() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        assert_eq!(content(&path).unwrap(), Content::Empty);
        std::fs::write(&path, [0; 5000]).unwrap();
        assert_eq!(content(&path).unwrap(), Content::Empty);
        let mut bytes = vec![0; 100_000];
        bytes[70_000] = 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(content(&path).unwrap(), Content::Foreign);
        let mut end = vec![0; 5 << 20];
        end[(5 << 20) - 512] = 1;
        std::fs::write(&path, &end).unwrap();
        assert_eq!(content(&path).unwrap(), Content::Foreign);
        bytes[32_768..32_776].copy_from_slice(MAGIC);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(content(&path).unwrap(), Content::Store);
    }
}
