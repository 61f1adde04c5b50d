//! The disk as a file system of the kernel.
//!
//! All files are opened for direct IO, so that every read and write of a program comes here as it was made, with the
//! flags that it was made with: O_DSYNC and O_SYNC of the file, and RWF_DSYNC of a single write (by pwritev2 or
//! io_uring) all arrive as O_DSYNC of the request. The kernel remembers neither names nor lengths. Locks it keeps
//! itself.

use crate::delay::Delay;
use crate::disk::{Disk, Outcome};
use crate::tree::Kind;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Nothing is remembered by the kernel.
const TTL: Duration = Duration::ZERO;
const BLOCK: u32 = 4096;
/// What the disk says it holds, in blocks.
const BLOCKS: u64 = (64 << 30) / BLOCK as u64;

/// A disk that is mounted, until it is dropped.
#[derive(Debug)]
pub struct Mounted {
    disk: Arc<Mutex<Disk>>,
    session: BackgroundSession,
    at: PathBuf,
}

impl Mounted {
    /// The disk.
    pub fn disk(&self) -> MutexGuard<'_, Disk> {
        lock(&self.disk)
    }

    /// Unmounts, also if somebody has files open: those get errors when this process ends.
    ///
    /// The thread that answers the kernel is not waited for. A mount namespace that was made meanwhile (`ip netns exec`
    /// makes one) has a copy of the mount, and the kernel goes on asking for as long as that lives or until this
    /// process ends.
    ///
    /// # Errors
    /// The system refuses.
    pub fn unmount(self) -> io::Result<()> {
        let gone = detach(&self.at);
        drop(self.session);
        gone
    }
}

/// Mounts `disk` at the folder `at`. Each write and flush takes a random time up to `latency`.
///
/// # Errors
/// The system refuses: no FUSE, or no right to mount.
pub fn mount(disk: Disk, at: &Path, latency: Duration, seed: u64) -> io::Result<Mounted> {
    let disk = Arc::new(Mutex::new(disk));
    let files = Files { disk: disk.clone(), delay: Delay::new(latency, seed)? };
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("lossydisk".into()), MountOption::DefaultPermissions];
    Ok(Mounted { disk, session: fuser::spawn_mount(files, at, &config)?, at: at.canonicalize()? })
}

/// Takes a mount out of the tree of folders, whoever uses it.
fn detach(at: &Path) -> io::Result<()> {
    // Root needs no helper; others may unmount only with FUSE's own.
    for command in [&["umount", "-l"][..], &["fusermount3", "-u", "-z"]] {
        let done = Command::new(command[0]).args(&command[1..]).arg(at).stderr(Stdio::null()).status();
        if done.is_ok_and(|status| status.success()) {
            return Ok(());
        }
    }
    Err(io::Error::other(format!("{} stays mounted: neither umount nor fusermount3 took it away", at.display())))
}

/// The disk is left in order by whoever panics: its methods change it step by step, and the test has failed anyway.
fn lock(disk: &Mutex<Disk>) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Files {
    disk: Arc<Mutex<Disk>>,
    delay: Delay,
}

fn refused(number: i32) -> Errno {
    Errno::from_i32(number)
}

fn owner(req: &Request) -> (u32, u32) {
    (req.uid(), req.gid())
}

fn attributes(disk: &mut Disk, number: u64) -> Outcome<FileAttr> {
    let node = disk.node(number)?;
    let (kind, size) = match &node.kind {
        Kind::File(content) => (FileType::RegularFile, content.len()),
        Kind::Folder(_) => (FileType::Directory, 0),
        Kind::Socket => (FileType::Socket, 0),
    };
    Ok(FileAttr {
        ino: INodeNo(number),
        size,
        blocks: size.div_ceil(512),
        atime: node.changed,
        mtime: node.changed,
        ctime: node.changed,
        crtime: node.changed,
        kind,
        perm: node.mode,
        nlink: if kind == FileType::Directory { 2 } else { 1 },
        uid: node.uid,
        gid: node.gid,
        rdev: 0,
        blksize: BLOCK,
        flags: 0,
    })
}

impl Files {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        lock(&self.disk)
    }

    fn make(&self, req: &Request, parent: INodeNo, name: &OsStr, kind: u32, mode: u32) -> Outcome<FileAttr> {
        let mut disk = self.disk();
        let node = disk.make(parent.0, name, kind, (mode & 0o7777) as u16, owner(req))?;
        attributes(&mut disk, node)
    }

    fn made(&self, req: &Request, parent: INodeNo, name: &OsStr, kind: u32, mode: u32, reply: ReplyEntry) {
        match self.make(req, parent, name, kind, mode) {
            Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
            Err(e) => reply.error(refused(e)),
        }
    }

    fn flush_node(&self, node: INodeNo, reply: ReplyEmpty) {
        let begun = self.disk().begin_flush(node.0);
        let flush = match begun {
            Ok(flush) => flush,
            Err(e) => return reply.error(refused(e)),
        };
        let disk = self.disk.clone();
        self.delay.later(move || answer(lock(&disk).end_flush(flush), reply));
    }
}

fn answer(result: Outcome<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(refused(e)),
    }
}

fn how_opened() -> FopenFlags {
    FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
}

impl Filesystem for Files {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without it, io_uring's writes come one after the other; older kernels do not know it.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut disk = self.disk();
        match disk.look_up(parent.0, name).and_then(|node| attributes(&mut disk, node)) {
            Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
            Err(e) => reply.error(refused(e)),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match attributes(&mut self.disk(), ino.0) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(e) => reply.error(refused(e)),
        }
    }

    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut disk = self.disk();
        let mut change = || -> Outcome<FileAttr> {
            if let Some(size) = size {
                disk.set_len(ino.0, size)?;
            }
            let node = disk.node(ino.0)?;
            node.mode = mode.map_or(node.mode, |m| (m & 0o7777) as u16);
            node.uid = uid.unwrap_or(node.uid);
            node.gid = gid.unwrap_or(node.gid);
            attributes(&mut disk, ino.0)
        };
        match change() {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(e) => reply.error(refused(e)),
        }
    }

    fn mknod(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, _rdev: u32, reply: ReplyEntry) {
        self.made(req, parent, name, mode & libc::S_IFMT, mode, reply);
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        self.made(req, parent, name, libc::S_IFDIR, mode, reply);
    }

    fn create(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, _flags: i32, reply: ReplyCreate) {
        match self.make(req, parent, name, libc::S_IFREG, mode) {
            Ok(attr) => reply.created(&TTL, &attr, Generation(0), FileHandle(0), how_opened()),
            Err(e) => reply.error(refused(e)),
        }
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.disk().remove(parent.0, name, false), reply);
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.disk().remove(parent.0, name, true), reply);
    }

    fn rename(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        match flags.is_empty() {
            true => answer(self.disk().rename((parent.0, name), (newparent.0, newname)), reply),
            false => reply.error(Errno::EINVAL),
        }
    }

    fn open(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.disk().file(ino.0) {
            Ok(_) => reply.opened(FileHandle(0), how_opened()),
            Err(e) => reply.error(refused(e)),
        }
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = self.disk().file(ino.0).map(|file| file.read(offset, size.into()));
        match read {
            Ok(Ok(data)) => reply.data(&data),
            Ok(Err(e)) => reply.error(e.into()),
            Err(e) => reply.error(refused(e)),
        }
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // O_SYNC is O_DSYNC and a bit more.
        let durable = flags.0 & libc::O_DSYNC != 0;
        let begun = self.disk().begin_write(ino.0, offset, data.to_vec(), durable);
        let write = match begun {
            Ok(write) => write,
            Err(e) => return reply.error(refused(e)),
        };
        let disk = self.disk.clone();
        self.delay.later(move || {
            let ended = lock(&disk).end_write(write);
            match ended {
                Ok(written) => reply.written(written),
                Err(e) => reply.error(refused(e)),
            }
        });
    }

    fn fsync(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.flush_node(ino, reply);
    }

    fn fsyncdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.flush_node(ino, reply);
    }

    fn fallocate(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, length: u64, mode: i32, reply: ReplyEmpty) {
        answer(self.disk().allocate(ino.0, mode, offset, length), reply);
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let mut disk = self.disk();
        let names = match disk.folder(ino.0) {
            Ok(folder) => folder.names().clone(),
            Err(e) => return reply.error(refused(e)),
        };
        let dots = [(".".into(), ino.0), ("..".into(), ino.0)];
        for (at, (name, number)) in dots.into_iter().chain(names).enumerate().skip(offset as usize) {
            let Ok(attr) = attributes(&mut disk, number) else { continue };
            if reply.add(INodeNo(number), at as u64 + 1, attr.kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        match self.disk().powered() {
            Ok(()) => reply.statfs(BLOCKS, BLOCKS, BLOCKS, 1 << 20, 1 << 20, BLOCK, 255, BLOCK),
            Err(e) => reply.error(refused(e)),
        }
    }
}
