//! Disks: files and raw block devices, opened for direct IO and for this process alone.

use crate::sys;
use node::{ALIGN, Buf, DiskError, DiskStat};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// Options for opening a [`Device`].
#[derive(Clone, Debug)]
pub struct DeviceOptions {
    /// Bytes that a file may grow to. A block device has its own size.
    pub capacity: u64,
    /// True if to make the file if it does not exist.
    pub create: bool,
    /// True if to try direct IO, around the page cache.
    pub direct: bool,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        Self { capacity: u64::MAX, create: true, direct: true }
    }
}

/// Reason why a device does not open. The texts name the path.
#[derive(Debug)]
pub enum DeviceError {
    /// Another living process, or this one, has it open.
    InUse {
        /// The path that was to be opened.
        path: PathBuf,
        /// The process that holds it, if the system tells.
        pid: Option<u32>,
    },
    /// The path is neither a file nor a block device.
    NotADisk(PathBuf),
    /// The device reads and writes only larger pieces than the store does.
    Sectors {
        /// The path of the device.
        path: PathBuf,
        /// Size of its sectors, in bytes.
        bytes: u32,
    },
    /// The system refused a call.
    System {
        /// The call that failed.
        what: &'static str,
        /// The path on which it was tried.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceError::InUse { path, pid: Some(pid) } => write!(f, "{} is in use by process {pid}", path.display()),
            DeviceError::InUse { path, pid: None } => write!(f, "{} is in use by another process", path.display()),
            DeviceError::NotADisk(path) => write!(f, "{} is neither a file nor a block device", path.display()),
            DeviceError::Sectors { path, bytes } => {
                let path = path.display();
                write!(f, "{path} has sectors of {bytes} bytes; a store needs a disk with sectors of at most {ALIGN} bytes")
            }
            DeviceError::System { what, path, source } => write!(f, "cannot {what} {}: {source}", path.display()),
        }
    }
}

// The error's text has its cause already. As a source, many programs would print it once more.
impl std::error::Error for DeviceError {}

/// A disk that is open, and locked until it is dropped.
#[derive(Debug)]
pub struct Device {
    inner: Arc<Inner>,
}

/// State of a device that the threads of a driver share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) file: File,
    path: PathBuf,
    /// Capacity in bytes; none for a file without limit.
    capacity: u64,
    block_device: bool,
    direct: bool,
    /// True if the disk takes discards.
    discards: AtomicBool,
    /// True if a durable write also makes durable what was completed before it. See [`one_flush_covers_all`].
    pub(crate) covering: bool,
    /// True if the kernel knows durable writes (RWF_DSYNC).
    dsync: AtomicBool,
    /// Number of completed writes that did not ask to be durable.
    completed: AtomicU64,
    /// Number of those that are durable.
    flushed: AtomicU64,
    /// Error number of the flush that failed; 0 if none did.
    poison: AtomicI32,
}

impl Device {
    /// Opens `path` and locks it.
    ///
    /// # Errors
    /// See [`DeviceError`]. Nothing is changed on the disk, but the file is made if `create` says so.
    pub fn open(path: &Path, options: &DeviceOptions) -> Result<Self, DeviceError> {
        let new = options.create && !path.exists();
        let (file, direct) = open_file(path, options)?;
        lock(&file, path)?;
        if new {
            keep_name(path)?;
        }
        let system = |what| move |source| DeviceError::System { what, path: path.to_owned(), source };
        let meta = file.metadata().map_err(system("look at"))?;
        let block_device = meta.file_type().is_block_device();
        let capacity = match block_device {
            true => sys::block_device_size(&file).map_err(system("get the size of"))?,
            false => options.capacity,
        };
        if block_device {
            let bytes = sys::sector_size(&file).map_err(system("get the size of sectors of"))?;
            if bytes as usize > ALIGN {
                return Err(DeviceError::Sectors { path: path.to_owned(), bytes });
            }
        }
        let discards = block_device && queue(meta.rdev(), "discard_max_bytes").trim().parse().unwrap_or(0u64) > 0;
        let covering = direct && one_flush_covers_all(&file, block_device, if block_device { meta.rdev() } else { meta.dev() });
        let inner = Inner {
            file,
            path: path.to_owned(),
            capacity,
            block_device,
            direct,
            discards: AtomicBool::new(discards),
            covering,
            dsync: AtomicBool::new(true),
            completed: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            poison: AtomicI32::new(0),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The path of the device.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Says whether the device goes around the page cache.
    pub fn is_direct(&self) -> bool {
        self.inner.direct
    }

    /// Says whether it is a block device that wants to be told which blocks are free.
    pub fn discards(&self) -> bool {
        self.inner.discards.load(Ordering::Relaxed)
    }

    /// Tells a block device that nothing on it is wanted. False if it takes no discards: then nothing is done. What is
    /// read afterwards is not known; a sector may keep what it held.
    ///
    /// # Errors
    /// The device refuses, for another reason than that it cannot.
    pub fn discard_all(&self) -> io::Result<bool> {
        /// Bytes of one call. The kernel divides it further; between calls the process can be ended.
        const STEP: u64 = 4 << 30;
        let mut at = 0;
        while self.discards() && at < self.inner.capacity {
            let len = STEP.min(self.inner.capacity - at);
            match sys::discard(&self.inner.file, at, len) {
                Ok(()) => at += len,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOTTY)) => self.inner.discards_missing(),
                Err(e) => return Err(e),
            }
        }
        Ok(self.discards())
    }

    /// Gives the sizes of the device, in bytes.
    ///
    /// # Errors
    /// The system does not tell them.
    pub fn stat(&self) -> io::Result<DiskStat> {
        self.inner.stat()
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }
}

impl Inner {
    /// Gives the sizes as the machine sees them.
    pub(crate) fn stat(&self) -> io::Result<DiskStat> {
        if self.block_device {
            return Ok(DiskStat { len: self.capacity, capacity: self.capacity, host_free: u64::MAX });
        }
        let (free, _) = sys::file_system(&self.file)?;
        Ok(DiskStat { len: self.file.metadata()?.len(), capacity: self.capacity, host_free: free })
    }

    /// Says whether a write that ends at byte `end` fits into the device.
    pub(crate) fn holds(&self, end: u64) -> bool {
        end <= self.capacity
    }

    /// Says whether parts of it can be given back, to a file system below or to the disk itself.
    pub(crate) fn has_holes(&self) -> bool {
        !self.block_device || self.discards.load(Ordering::Relaxed)
    }

    /// Notes that the disk takes no discards, whatever it said.
    pub(crate) fn discards_missing(&self) {
        self.discards.store(false, Ordering::Relaxed);
    }

    /// Says whether pieces must be at aligned addresses.
    pub(crate) fn direct(&self) -> bool {
        self.direct
    }

    /// Says whether the kernel makes single writes durable.
    pub(crate) fn dsync(&self) -> bool {
        self.dsync.load(Ordering::Relaxed)
    }

    /// Notes that the kernel does not know durable writes. Flushes are used from now on.
    pub(crate) fn dsync_missing(&self) {
        self.dsync.store(false, Ordering::Relaxed);
    }

    /// Notes that a write is complete which did not ask to be durable.
    pub(crate) fn note_completed(&self) {
        self.completed.fetch_add(1, Ordering::AcqRel);
    }

    /// Gives a mark of what a flush that begins now will cover.
    pub(crate) fn mark(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    /// Notes the end of a flush that began at `mark`.
    pub(crate) fn note_flushed(&self, mark: u64) {
        self.flushed.fetch_max(mark, Ordering::AcqRel);
    }

    /// Says whether completed writes are not known to be durable.
    pub(crate) fn dirty(&self) -> bool {
        self.flushed.load(Ordering::Acquire) < self.completed.load(Ordering::Acquire)
    }

    /// Notes that a flush failed. The kernel forgets what it could not write, and a later flush would succeed without
    /// it. So nothing on this device can be called durable any more.
    pub(crate) fn note_poisoned(&self, errno: i32) {
        self.poison.store(errno, Ordering::Release);
    }

    /// Gives the error of the flush that failed.
    pub(crate) fn poison(&self) -> Option<DiskError> {
        match self.poison.load(Ordering::Acquire) {
            0 => None,
            errno => Some(DiskError::Io(errno)),
        }
    }
}

/// Makes the name of a new file durable. A flush of the file itself need not do that.
fn keep_name(path: &Path) -> Result<(), DeviceError> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let kept = File::open(folder).and_then(|f| f.sync_all());
    kept.map_err(|source| DeviceError::System { what: "flush", path: folder.to_owned(), source })
}

/// Opens a file with O_DIRECT if reads work with it, too. Says whether it did.
fn open_file(path: &Path, options: &DeviceOptions) -> Result<(File, bool), DeviceError> {
    let system = |what| move |source| DeviceError::System { what, path: path.to_owned(), source };
    let found = std::fs::metadata(path);
    let is_device = match &found {
        Ok(meta) if meta.file_type().is_block_device() => true,
        Ok(meta) if !meta.is_file() => return Err(DeviceError::NotADisk(path.to_owned())),
        _ => false,
    };
    let open = |direct: i32| {
        // On a block device O_EXCL refuses one that is mounted or claimed.
        let exclusive = if is_device { libc::O_EXCL } else { 0 };
        let flags = libc::O_CLOEXEC | direct | exclusive;
        OpenOptions::new().read(true).write(true).create(options.create && !is_device).mode(0o600).custom_flags(flags).open(path)
    };
    if options.direct
        && let Ok(file) = open(libc::O_DIRECT)
        && direct_reads_work(&file)
    {
        return Ok((file, true));
    }
    match open(0) {
        Ok(file) => Ok((file, false)),
        Err(e) if is_device && e.raw_os_error() == Some(libc::EBUSY) => {
            Err(DeviceError::InUse { path: path.to_owned(), pid: None })
        }
        Err(e) => Err(system("open")(e)),
    }
}

/// Says whether direct reads work. Some file systems take O_DIRECT at open and refuse it at the first read.
fn direct_reads_work(file: &File) -> bool {
    !matches!(file.read_at(&mut Buf::new(ALIGN), 0), Err(e) if e.raw_os_error() == Some(libc::EINVAL))
}

fn lock(file: &File, path: &Path) -> Result<(), DeviceError> {
    use crate::process::LockError;
    crate::process::lock(file).map_err(|e| match e {
        LockError::Held(pid) => DeviceError::InUse { path: path.to_owned(), pid },
        LockError::System(source) => DeviceError::System { what: "lock", path: path.to_owned(), source },
    })
}

/// Says whether a durable direct write covers every write that was completed before it: it ends with a flush of the
/// whole disk and of the file's metadata. That is so on a disk with a volatile cache and without forced unit access,
/// under ext4, XFS or none: the kernel commits the file's journal and flushes the cache. With forced unit access only
/// the write's own blocks become durable. Other file systems are not known well enough.
fn one_flush_covers_all(file: &File, block_device: bool, device: u64) -> bool {
    const EXT4: i64 = 0xef53;
    const XFS: i64 = 0x5846_5342;
    let known = block_device || matches!(sys::file_system(file), Ok((_, EXT4 | XFS)));
    if !known {
        return false;
    }
    queue(device, "fua").trim() == "0" && queue(device, "write_cache").trim() == "write back"
}

/// Returns what the kernel says of the queue of a disk; empty if it says nothing.
fn queue(device: u64, name: &str) -> String {
    let node = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
    // A partition has no queue of its own; its disk is the folder above.
    let own = std::fs::read_to_string(format!("{node}/queue/{name}"));
    own.or_else(|_| std::fs::read_to_string(format!("{node}/../queue/{name}"))).unwrap_or_default()
}
