//! `nacre fsck`: checks the stores of a cluster that is stopped: the monitor's and the OSDs'.

use crate::cli::Fsck;
use crate::state::{Lock, MonState, OsdState, State};
use anyhow::{Context, Result, bail};
use node::DeviceId;
use runtime::process::LockError;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use store::fsck::{BlockRead, BlockWrite, Report, Severity};

/// Exit codes: the worst of what was found.
mod exit {
    /// All is well, or was mended.
    pub(super) const CLEAN: u8 = 0;
    /// Something is wrong, but nothing is lost. (1 says that the check itself could not be done, as with any error of
    /// `nacre`.)
    pub(super) const MINOR: u8 = 2;
    /// Some data is damaged: reads of it give EIO.
    pub(super) const DATA: u8 = 3;
    /// A daemon does not start, or cannot write.
    pub(super) const FATAL: u8 = 4;
}

/// Checks all stores in DIR; gives the exit code.
pub(crate) fn fsck(args: &Fsck) -> Result<u8> {
    let dir = std::path::absolute(args.dir()).with_context(|| args.dir().display().to_string())?;
    let state = State::load(&dir)?.with_context(|| format!("{} holds no cluster", dir.display()))?;
    Lock::check(&dir.join("lock"), &dir.display().to_string())?;
    let mut code = exit::CLEAN;
    for mon in state.monitors() {
        code = code.max(check_monitor(&dir, &mon, state.fsid()?)?);
    }
    // One that is being added or replaced has no store yet, and one that is being removed none that counts.
    for osd in state.osds.iter().filter(|osd| !osd.held) {
        let name = format!("osd.{}", osd.id);
        let mut disks = Disks::open(osd, &dir, args.repair).with_context(|| name.clone())?;
        let whoami = i32::try_from(osd.id).with_context(|| name.clone())?;
        let ours = store::Config { uuid: osd.uuid()?, fsid: state.fsid()?, whoami, ..store::Config::default() };
        let report = match args.repair {
            true => store::fsck::repair(&mut disks, &ours, args.deep),
            false => store::fsck::check(&mut disks, &ours, args.deep),
        };
        code = code.max(exit_code(&report));
        print(&name, &report, args.deep);
    }
    Ok(code)
}

fn exit_code(report: &Report) -> u8 {
    match report.findings.iter().map(|f| f.severity).max() {
        None => exit::CLEAN,
        Some(Severity::Minor) => exit::MINOR,
        Some(Severity::Data) => exit::DATA,
        Some(Severity::Fatal) => exit::FATAL,
    }
}

/// Checks a monitor's store.
fn check_monitor(dir: &Path, mon: &MonState, fsid: types::Fsid) -> Result<u8> {
    let (path, name) = (mon.folder(dir).join("store"), format!("mon.{}", mon.name));
    let file = lock(&path, false).with_context(|| name.clone())?;
    let len = file.metadata().with_context(|| path.display().to_string())?.len();
    let mut read = |offset: u64, buf: &mut [u8]| file.read_exact_at(buf, offset).map_err(|e| e.to_string());
    let report = ::mon::check_store(&mut read, len, fsid.0);
    let (verdict, code) = match (report.fatal.is_empty(), report.minor.is_empty()) {
        (false, _) => ("does not open", exit::FATAL),
        (true, false) => ("usable, nothing is lost", exit::MINOR),
        (true, true) => ("clean", exit::CLEAN),
    };
    println!("{name}: {verdict} (entry {}, {} of them in the log, OSD map {})", report.last, report.entries, report.epoch);
    for (kind, findings) in [("Fatal", &report.fatal), ("Minor", &report.minor)] {
        findings.iter().for_each(|what| println!("{name}: {kind}: {}: {what}", path.display()));
    }
    Ok(code)
}

/// Opens a disk of a stopped store, for this process alone.
fn lock(path: &Path, write: bool) -> Result<File> {
    let file = File::options().read(true).write(write).open(path).with_context(|| format!("open {}", path.display()))?;
    match runtime::process::lock(&file) {
        Ok(()) => Ok(file),
        Err(LockError::System(e)) => Err(e).with_context(|| format!("lock {}", path.display())),
        Err(LockError::Held(Some(pid))) => bail!("{} is in use by process {pid}", path.display()),
        Err(LockError::Held(None)) => bail!("{} is in use by another process", path.display()),
    }
}

fn print(name: &str, report: &Report, deep: bool) {
    let verified =
        if deep { format!(", {} blocks verified", report.verified) } else { "; data was not read, --deep does".into() };
    let verdict = match report.findings.iter().map(|f| f.severity).max() {
        None => "clean",
        Some(Severity::Minor) => "usable, nothing is lost",
        Some(Severity::Data) => "some data is damaged",
        Some(Severity::Fatal) => "does not open or has a wrong index",
    };
    println!(
        "{name}: {verdict} ({} objects, {} index pages, {} blocks of data, {} shared, {} changes only in the journal{verified})",
        report.objects, report.pages, report.data_blocks, report.shared, report.journal_changes
    );
    report.findings.iter().for_each(|finding| println!("{name}: {finding}"));
}

/// The disks of a stopped store, locked.
struct Disks {
    files: Vec<File>,
    /// Bytes that the first, if it is a file, may grow to.
    size: u64,
}

impl Disks {
    fn open(osd: &OsdState, dir: &Path, write: bool) -> Result<Self> {
        let paths: Vec<PathBuf> = [osd.block(dir)].into_iter().chain(osd.journal.clone()).collect();
        let open = |path: PathBuf| lock(&path, write);
        Ok(Self { files: paths.into_iter().map(open).collect::<Result<_>>()?, size: osd.size })
    }

    fn disk(&self, device: DeviceId) -> Result<&File, String> {
        self.files.get(usize::from(device.0)).ok_or_else(|| format!("there is no disk {}", device.0))
    }
}

impl BlockRead for Disks {
    fn read(&mut self, device: DeviceId, offset: u64, buf: &mut [u8]) -> Result<(), String> {
        self.disk(device)?.read_exact_at(buf, offset).map_err(|e| e.to_string())
    }

    fn len(&mut self, device: DeviceId) -> u64 {
        // The end is also the size of a block device, whose metadata says zero.
        self.disk(device).ok().and_then(|mut file| file.seek(SeekFrom::End(0)).ok()).unwrap_or(0)
    }

    fn capacity(&mut self, device: DeviceId) -> u64 {
        let len = self.len(device);
        if device == DeviceId(0) { len.max(self.size) } else { len }
    }
}

impl BlockWrite for Disks {
    fn write(&mut self, device: DeviceId, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let file = self.disk(device)?;
        file.write_all_at(bytes, offset).and_then(|()| file.sync_data()).map_err(|e| e.to_string())
    }
}
