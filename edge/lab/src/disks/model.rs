//! A model of a slower disk: a file in a FUSE mount whose requests take the time that the modelled disk would take.
//!
//! [`super::medium`] says how long that is.

use super::medium::{Medium, Model};
use crate::plan::Point;
use anyhow::{Context, Result};
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

const TTL: Duration = Duration::from_secs(3600);
const ROOT: u64 = 1;
const DISK: u64 = 2;

type Job = Box<dyn FnOnce() + Send>;

/// Work to be done, by time; of equal times, what was asked first.
#[derive(Default)]
struct Queue {
    order: BinaryHeap<Reverse<(Instant, u64)>>,
    jobs: HashMap<u64, Job>,
    next: u64,
}

/// Does things later, in one thread.
#[derive(Default)]
struct Later {
    queue: Mutex<Queue>,
    news: Condvar,
}

impl Later {
    fn run(self: &Arc<Self>) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = Instant::now();
            match queue.order.peek().copied() {
                Some(Reverse((at, id))) if at <= now => {
                    queue.order.pop();
                    if let Some(job) = queue.jobs.remove(&id) {
                        drop(queue);
                        job();
                        queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
                    }
                }
                Some(Reverse((at, _))) => {
                    queue = self.news.wait_timeout(queue, at - now).unwrap_or_else(PoisonError::into_inner).0
                }
                None => queue = self.news.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn at(&self, when: Instant, job: Job) {
        if when <= Instant::now() {
            return job();
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.next += 1;
        let id = queue.next;
        queue.order.push(Reverse((when, id)));
        queue.jobs.insert(id, job);
        self.news.notify_one();
    }
}

struct Disk {
    file: File,
    size: u64,
    medium: Mutex<Medium>,
    later: Arc<Later>,
}

impl Disk {
    fn when(&self, ask: impl FnOnce(&mut Medium) -> Instant) -> Instant {
        ask(&mut self.medium.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn attributes(&self, ino: u64) -> FileAttr {
        let (kind, size, perm) =
            if ino == ROOT { (FileType::Directory, 0, 0o755) } else { (FileType::RegularFile, self.size, 0o600) };
        let at = SystemTime::UNIX_EPOCH;
        FileAttr {
            ino: INodeNo(ino),
            size,
            blocks: size / 512,
            atime: at,
            mtime: at,
            ctime: at,
            crtime: at,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Disk {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match parent.0 == ROOT && name == "disk" {
            true => reply.entry(&TTL, &self.attributes(DISK), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attributes(ino.0));
    }

    fn open(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);
    }

    fn read(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut data = vec![0; size.min(self.size.saturating_sub(offset).min(u64::from(u32::MAX)) as u32) as usize];
        let read = self.file.read_exact_at(&mut data, offset);
        let when = self.when(|m| m.read(Instant::now(), offset, data.len() as u64));
        self.later.at(
            when,
            Box::new(move || match read {
                Ok(()) => reply.data(&data),
                Err(e) => reply.error(e.into()),
            }),
        );
    }

    fn write(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.file.write_all_at(data, offset).map(|()| data.len() as u32);
        let durable = flags.0 & nix::libc::O_DSYNC != 0;
        let when = self.when(|m| {
            let now = Instant::now();
            let answered = m.write(now, offset, data.len() as u64);
            if durable { answered.max(m.flush(now)) } else { answered }
        });
        self.later.at(
            when,
            Box::new(move || match written {
                Ok(n) => reply.written(n),
                Err(e) => reply.error(e.into()),
            }),
        );
    }

    fn fsync(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        let when = self.when(|m| m.flush(Instant::now()));
        self.later.at(when, Box::new(move || reply.ok()));
    }

    fn fallocate(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _offset: u64,
        _length: u64,
        _mode: i32,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EOPNOTSUPP);
    }
}

/// Serves `backing` as AT/disk until the mount goes, or until `stopped` gives the word.
///
/// # Errors
/// FUSE does not work here.
pub fn serve(backing: &Path, at: &Path, spec: &str, stopped: impl FnOnce() + Send + 'static) -> Result<()> {
    let spec: Point = serde_json::from_str(spec).context("the model's description is not JSON")?;
    let file = OpenOptions::new().read(true).write(true).open(backing).with_context(|| format!("open {}", backing.display()))?;
    let later = Arc::new(Later::default());
    let medium = Mutex::new(Medium::new(Model::new(&spec), Instant::now()));
    let disk = Disk { size: file.metadata()?.len(), file, medium, later: later.clone() };
    std::thread::spawn(move || later.run());
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("nacre-lab".into())];
    let session = fuser::spawn_mount(disk, at, &config).with_context(|| format!("mount at {}", at.display()))?;
    stopped();
    session.umount_and_join().context("unmount")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn what_comes_later_comes_in_order() {
        let later = Arc::new(Later::default());
        let (sender, receiver) = std::sync::mpsc::channel();
        let now = Instant::now();
        for n in [30, 10, 20] {
            let sender = sender.clone();
            later.at(now + ms(n), Box::new(move || sender.send(n).unwrap_or_default()));
        }
        let worker = later.clone();
        std::thread::spawn(move || worker.run());
        assert_eq!([receiver.recv(), receiver.recv(), receiver.recv()], [Ok(10), Ok(20), Ok(30)]);
    }
}
