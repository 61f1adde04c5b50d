//! The disk as a whole: files in folders, writes and flushes on their way, and its power.
//!
//! Requests have a beginning and an end, with time between. A write is seen by readers, and counts as complete, at its
//! end; a flush covers what was complete at its *beginning*. Completions are numbered. A power cut swallows what is on
//! its way: a write may then be on the medium or not, or torn; a flush has not happened. From then on everything is
//! refused until the power is back.

use crate::content::Content;
use crate::fate::{Cut, Fate, Unsafe};
use crate::rng::Rng;
use crate::tree::{Folder, Kind, Node, ROOT, Tree};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A result, or the number of an error.
pub(crate) type Outcome<T> = Result<T, i32>;

/// What the disk did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Writes that did not ask to be durable.
    pub writes: u64,
    /// Writes that did.
    pub durable: u64,
    /// Flushes of files and folders.
    pub flushes: u64,
    /// Power cuts.
    pub cuts: u64,
}

/// What the disk answers without having made anything safe. Not in the fault model: it is there to prove that a test
/// sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lies {
    /// Flushes of files. Those of folders are honest, so that the files can be found at all.
    pub flushes: bool,
    /// Durable writes.
    pub durable: bool,
}

/// What a power cut met.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// Of which kind it was.
    pub cut: Cut,
    /// Writes that were not safe, those on their way included.
    pub writes: usize,
    /// Writes that were on their way.
    pub in_flight: usize,
}

#[derive(Debug)]
struct Write {
    node: u64,
    offset: u64,
    data: Vec<u8>,
    durable: bool,
}

/// A flush on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flush {
    node: u64,
    mark: u64,
    cuts: u64,
}

/// A disk.
#[derive(Debug)]
pub struct Disk {
    /// Folder of the host with the safe bytes of each file, named by its number.
    backing: PathBuf,
    pub(crate) tree: Tree,
    /// Completions so far.
    completions: u64,
    next_write: u64,
    in_flight: BTreeMap<u64, Write>,
    power: bool,
    /// What it lies about.
    pub lies: Lies,
    /// What it did.
    pub counters: Counters,
}

impl Disk {
    /// An empty disk whose safe bytes live in `backing`, an empty folder.
    ///
    /// # Errors
    /// The host refuses, or the folder is not empty.
    pub fn new(backing: &Path) -> io::Result<Self> {
        if std::fs::read_dir(backing)?.next().is_some() {
            return Err(io::Error::other(format!("{} is not empty", backing.display())));
        }
        std::fs::create_dir(backing.join("files"))?;
        let root = Node { kind: Kind::Folder(Folder::default()), mode: 0o755, uid: 0, gid: 0, changed: SystemTime::now() };
        Ok(Self {
            backing: backing.to_owned(),
            tree: Tree::new(root),
            completions: 0,
            next_write: 0,
            in_flight: BTreeMap::new(),
            power: true,
            lies: Lies::default(),
            counters: Counters::default(),
        })
    }

    fn host_file(&self, node: u64) -> PathBuf {
        self.backing.join("files").join(node.to_string())
    }

    /// EIO without power.
    pub(crate) fn powered(&self) -> Outcome<()> {
        if self.power { Ok(()) } else { Err(libc::EIO) }
    }

    fn complete(&mut self) -> u64 {
        self.completions += 1;
        self.completions
    }

    pub(crate) fn node(&mut self, number: u64) -> Outcome<&mut Node> {
        self.powered()?;
        self.tree.nodes.get_mut(&number).ok_or(libc::ENOENT)
    }

    pub(crate) fn folder(&mut self, number: u64) -> Outcome<&mut Folder> {
        match &mut self.node(number)?.kind {
            Kind::Folder(folder) => Ok(folder),
            _ => Err(libc::ENOTDIR),
        }
    }

    pub(crate) fn file(&mut self, number: u64) -> Outcome<&mut Content> {
        match &mut self.node(number)?.kind {
            Kind::File(content) => Ok(content),
            Kind::Folder(_) => Err(libc::EISDIR),
            Kind::Socket => Err(libc::ENXIO),
        }
    }

    pub(crate) fn look_up(&mut self, parent: u64, name: &OsStr) -> Outcome<u64> {
        self.folder(parent)?.names().get(name).copied().ok_or(libc::ENOENT)
    }

    /// Makes a file, folder or socket.
    pub(crate) fn make(&mut self, parent: u64, name: &OsStr, kind: libc::mode_t, mode: u16, owner: (u32, u32)) -> Outcome<u64> {
        if self.folder(parent)?.names().contains_key(name) {
            return Err(libc::EEXIST);
        }
        let kind = match kind {
            libc::S_IFREG => {
                let path = self.host_file(self.tree.next());
                let made = OpenOptions::new().read(true).write(true).create_new(true).open(path);
                Kind::File(Content::new(made.map_err(|e| number(&e))?))
            }
            libc::S_IFDIR => Kind::Folder(Folder::default()),
            libc::S_IFSOCK => Kind::Socket,
            _ => return Err(libc::EPERM),
        };
        let node = self.tree.add(Node { kind, mode, uid: owner.0, gid: owner.1, changed: SystemTime::now() });
        let seq = self.complete();
        self.folder(parent)?.set(seq, name, node);
        Ok(node)
    }

    /// Removes a name. The node lives on for those who have it open, until a power cut.
    pub(crate) fn remove(&mut self, parent: u64, name: &OsStr, folder: bool) -> Outcome<()> {
        let node = self.look_up(parent, name)?;
        match (&self.node(node)?.kind, folder) {
            (Kind::Folder(_), false) => return Err(libc::EISDIR),
            (Kind::Folder(inner), true) if !inner.names().is_empty() => return Err(libc::ENOTEMPTY),
            (Kind::Folder(_), true) | (_, false) => {}
            (_, true) => return Err(libc::ENOTDIR),
        }
        let seq = self.complete();
        self.folder(parent)?.remove(seq, name);
        Ok(())
    }

    /// Renames within a folder; between folders it would be two changes that a power cut can part.
    pub(crate) fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr)) -> Outcome<()> {
        if from.0 != to.0 {
            return Err(libc::EXDEV);
        }
        self.look_up(from.0, from.1)?;
        let seq = self.complete();
        self.folder(from.0)?.rename(seq, from.1, to.1);
        Ok(())
    }

    /// A write begins. Gives its number.
    pub(crate) fn begin_write(&mut self, node: u64, offset: u64, data: Vec<u8>, durable: bool) -> Outcome<u64> {
        self.file(node)?;
        let write = self.next_write;
        self.next_write += 1;
        self.in_flight.insert(write, Write { node, offset, data, durable });
        Ok(write)
    }

    /// A write ends. Gives the bytes written.
    pub(crate) fn end_write(&mut self, write: u64) -> Outcome<u32> {
        let Write { node, offset, data, durable } = self.in_flight.remove(&write).ok_or(libc::EIO)?;
        let (seq, honest) = (self.complete(), !self.lies.durable);
        let file = self.file(node)?;
        file.write(seq, write, offset, &data).map_err(|e| number(&e))?;
        if durable && honest {
            file.made_durable(seq, write, offset + data.len() as u64).map_err(|e| number(&e))?;
        }
        self.node(node)?.changed = SystemTime::now();
        *if durable { &mut self.counters.durable } else { &mut self.counters.writes } += 1;
        Ok(data.len() as u32)
    }

    /// A flush of a file or folder begins.
    pub(crate) fn begin_flush(&mut self, node: u64) -> Outcome<Flush> {
        self.node(node)?;
        Ok(Flush { node, mark: self.completions, cuts: self.counters.cuts })
    }

    /// A flush ends.
    pub(crate) fn end_flush(&mut self, flush: Flush) -> Outcome<()> {
        self.powered()?;
        if flush.cuts != self.counters.cuts {
            return Err(libc::EIO);
        }
        self.counters.flushes += 1;
        let lies = self.lies.flushes;
        match &mut self.node(flush.node)?.kind {
            Kind::File(_) if lies => Ok(()),
            Kind::File(content) => content.flushed(flush.mark).map_err(|e| number(&e)),
            Kind::Folder(folder) => {
                folder.flushed(flush.mark);
                Ok(())
            }
            Kind::Socket => Ok(()),
        }
    }

    /// Sets a file's length.
    pub(crate) fn set_len(&mut self, node: u64, len: u64) -> Outcome<()> {
        self.metadata_change(node, |file, seq, write| file.set_len(seq, write, len))
    }

    /// fallocate(2), as far as it is known here: reserving space (`mode` 0 or keeping the size) and making holes and
    /// zeros.
    pub(crate) fn allocate(&mut self, node: u64, mode: i32, offset: u64, len: u64) -> Outcome<()> {
        const HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        const ZEROS: i32 = libc::FALLOC_FL_ZERO_RANGE;
        let end = offset.checked_add(len).ok_or(libc::EFBIG)?;
        let grown = end.max(self.file(node)?.len());
        match mode {
            0 => self.set_len(node, grown),
            libc::FALLOC_FL_KEEP_SIZE => Ok(()),
            HOLE => self.metadata_change(node, |file, seq, write| file.zero(seq, write, offset, end)),
            ZEROS => self.metadata_change(node, |file, seq, write| {
                file.zero(seq, write, offset, end)?;
                file.set_len(seq, write, grown)
            }),
            _ => Err(libc::EOPNOTSUPP),
        }
    }

    fn metadata_change(&mut self, node: u64, f: impl FnOnce(&mut Content, u64, u64) -> io::Result<()>) -> Outcome<()> {
        self.file(node)?;
        let (seq, write) = (self.complete(), self.next_write);
        self.next_write += 1;
        f(self.file(node)?, seq, write).map_err(|e| number(&e))?;
        self.node(node)?.changed = SystemTime::now();
        Ok(())
    }

    /// Cuts the power: what was not safe survives in part, as `seed` will have it; all is refused from now on.
    ///
    /// # Errors
    /// The host refuses.
    pub fn lose(&mut self, seed: u64) -> io::Result<Loss> {
        let mut rng = Rng::new(seed);
        let in_flight = self.swallow(&mut rng)?;
        let mut writes: BTreeMap<u64, Unsafe> = BTreeMap::new();
        for node in self.tree.nodes.values() {
            if let Kind::File(content) = &node.kind {
                content.list_unsafe(&mut writes);
            }
        }
        let mut fate = Fate::draw(&writes, self.completions, rng);
        for node in self.tree.nodes.values_mut() {
            if let Kind::File(content) = &mut node.kind {
                content.lose(&mut fate)?;
            }
        }
        for gone in self.tree.lose(&mut fate) {
            match std::fs::remove_file(self.host_file(gone)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        self.power = false;
        self.counters.cuts += 1;
        Ok(Loss { cut: fate.cut, writes: writes.len(), in_flight })
    }

    /// Writes on their way reach the medium in any order, as far as they reach it.
    fn swallow(&mut self, rng: &mut Rng) -> io::Result<usize> {
        let mut swallowed: Vec<(u64, Write)> = std::mem::take(&mut self.in_flight).into_iter().collect();
        rng.shuffle(&mut swallowed);
        let count = swallowed.len();
        for (id, write) in swallowed {
            let seq = self.complete();
            if let Some(Node { kind: Kind::File(file), .. }) = self.tree.nodes.get_mut(&write.node) {
                file.write(seq, id, write.offset, &write.data)?;
            }
        }
        Ok(count)
    }

    /// The power is back.
    pub fn back(&mut self) {
        self.power = true;
    }

    /// Returns true if a power cut now would change nothing in any file.
    pub fn is_safe(&self) -> bool {
        self.in_flight.is_empty()
            && self.tree.nodes.values().all(|n| !matches!(&n.kind, Kind::File(content) if !content.is_safe()))
    }

    /// Gives the safe bytes of the files their names in the folder `to` of the backing folder, for whoever wants to
    /// look.
    ///
    /// # Errors
    /// The host refuses.
    pub fn keep(&self, to: &str) -> io::Result<PathBuf> {
        let top = self.backing.join(to);
        let mut at: Vec<(u64, PathBuf)> = vec![(ROOT, top.clone())];
        while let Some((number, path)) = at.pop() {
            match self.tree.nodes.get(&number).map(|n| &n.kind) {
                Some(Kind::File(content)) => {
                    content.trim()?;
                    std::fs::hard_link(self.host_file(number), &path)?;
                }
                Some(Kind::Folder(folder)) => {
                    std::fs::create_dir(&path)?;
                    at.extend(folder.names().iter().map(|(name, n): (&OsString, _)| (*n, path.join(name))));
                }
                Some(Kind::Socket) | None => {}
            }
        }
        // The folder of the names is made durable like any other result: it may be all that is left of a failure.
        File::open(&self.backing)?.sync_all()?;
        Ok(top)
    }
}

/// The number of an error of the host, EIO if it has none.
fn number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}
