//! `nacre fsck`: checks the stores of a cluster that is stopped.

use crate::cli::Fsck;
use crate::state::{Lock, OsdState, State};
use anyhow::{Context, Result, bail};
use node::DeviceId;
use runtime::process::LockError;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use store::fsck::{BlockRead, BlockWrite, Report, Severity};

/// Checks all stores in DIR; gives the exit code.
pub(crate) fn fsck(args: &Fsck) -> Result<u8> {
    let dir = std::path::absolute(&args.dir).with_context(|| args.dir.display().to_string())?;
    let state = State::load(&dir)?.with_context(|| format!("{} holds no cluster", dir.display()))?;
    Lock::check(&dir.join("lock"), &dir.display().to_string())?;
    let mut wrong = false;
    for osd in &state.osds {
        let name = format!("osd.{}", osd.id);
        let mut disks = Disks::open(osd, &dir, args.repair).with_context(|| name.clone())?;
        let report = match args.repair {
            true => store::fsck::repair(&mut disks, args.deep),
            false => store::fsck::check(&mut disks, args.deep),
        };
        wrong |= !report.clean();
        print(&name, &report, args.deep);
    }
    Ok(wrong.into())
}

fn print(name: &str, report: &Report, deep: bool) {
    let verified = if deep { format!(", {} blocks verified", report.verified) } else { String::new() };
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
struct Disks(Vec<File>);

impl Disks {
    fn open(osd: &OsdState, dir: &Path, write: bool) -> Result<Self> {
        let paths: Vec<PathBuf> = [osd.block(dir)].into_iter().chain(osd.journal.clone()).collect();
        let open = |path: PathBuf| {
            let file = File::options().read(true).write(write).open(&path).with_context(|| format!("open {}", path.display()))?;
            match runtime::process::lock(&file) {
                Ok(()) => Ok(file),
                Err(LockError::System(e)) => Err(e).with_context(|| format!("lock {}", path.display())),
                Err(LockError::Held(Some(pid))) => bail!("{} is in use by process {pid}", path.display()),
                Err(LockError::Held(None)) => bail!("{} is in use by another process", path.display()),
            }
        };
        Ok(Self(paths.into_iter().map(open).collect::<Result<_>>()?))
    }

    fn disk(&self, device: DeviceId) -> Result<&File, String> {
        self.0.get(usize::from(device.0)).ok_or_else(|| format!("there is no disk {}", device.0))
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
}

impl BlockWrite for Disks {
    fn write(&mut self, device: DeviceId, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let file = self.disk(device)?;
        file.write_all_at(bytes, offset).and_then(|()| file.sync_data()).map_err(|e| e.to_string())
    }
}
