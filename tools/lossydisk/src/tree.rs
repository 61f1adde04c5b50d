//! The names: folders, files and sockets.
//!
//! A name is safe when its *folder* was flushed after the name was made. A flush of the file is not enough: some file
//! systems keep the name then, too, but nobody promises it. At a power cut a folder has the changes of its names up to
//! some moment. Modes and owners are safe at once: nothing here depends on them.

use crate::content::Content;
use crate::fate::Fate;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::time::SystemTime;

/// Number of the topmost folder.
pub(crate) const ROOT: u64 = 1;

/// What a name leads to.
#[derive(Debug)]
pub(crate) enum Kind {
    File(Content),
    Folder(Folder),
    Socket,
}

/// A file, folder or socket.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// Permissions.
    pub(crate) mode: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) changed: SystemTime,
}

/// Names → numbers of nodes.
pub(crate) type Names = BTreeMap<OsString, u64>;

#[derive(Clone, Debug)]
enum Change {
    Set(OsString, u64),
    Remove(OsString),
    Rename(OsString, OsString),
}

/// A folder's names: as they are seen, as they are safe, and the changes between.
#[derive(Debug, Default)]
pub(crate) struct Folder {
    now: Names,
    safe: Names,
    /// Completion number and change, oldest first.
    log: Vec<(u64, Change)>,
}

impl Folder {
    /// The names as they are seen.
    pub(crate) fn names(&self) -> &Names {
        &self.now
    }

    /// Adds or replaces a name.
    pub(crate) fn set(&mut self, seq: u64, name: &OsStr, node: u64) {
        self.change(seq, Change::Set(name.to_owned(), node));
    }

    /// Takes a name away.
    pub(crate) fn remove(&mut self, seq: u64, name: &OsStr) {
        self.change(seq, Change::Remove(name.to_owned()));
    }

    /// Changes a name, in place of what had the new one.
    pub(crate) fn rename(&mut self, seq: u64, from: &OsStr, to: &OsStr) {
        self.change(seq, Change::Rename(from.to_owned(), to.to_owned()));
    }

    fn change(&mut self, seq: u64, change: Change) {
        change.carry_out(&mut self.now);
        self.log.push((seq, change));
    }

    /// A flush of the folder that was asked for when `mark` completions were there is complete.
    pub(crate) fn flushed(&mut self, mark: u64) {
        let count = self.log.iter().take_while(|c| c.0 <= mark).count();
        self.log.drain(..count).for_each(|(_, change)| change.carry_out(&mut self.safe));
    }

    fn lose(&mut self, fate: &mut Fate) {
        let kept = fate.changes(self.log.iter().map(|c| c.0));
        self.log.drain(..).take(kept).for_each(|(_, change)| change.carry_out(&mut self.safe));
        self.now = self.safe.clone();
    }
}

impl Change {
    fn carry_out(self: &Change, names: &mut Names) {
        match self.clone() {
            Change::Set(name, node) => drop(names.insert(name, node)),
            Change::Remove(name) => drop(names.remove(&name)),
            Change::Rename(from, to) => {
                if let Some(node) = names.remove(&from) {
                    names.insert(to, node);
                }
            }
        }
    }
}

/// All nodes. Numbers are never used again.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) nodes: BTreeMap<u64, Node>,
    next: u64,
}

impl Tree {
    /// An empty topmost folder.
    pub(crate) fn new(root: Node) -> Self {
        Self { nodes: BTreeMap::from([(ROOT, root)]), next: ROOT + 1 }
    }

    /// The number that the next node gets.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Adds a node that has no name yet.
    pub(crate) fn add(&mut self, node: Node) -> u64 {
        let number = self.next;
        self.next += 1;
        self.nodes.insert(number, node);
        number
    }

    /// The power is cut: folders lose names, and what has no name any more is gone. Gives the numbers of files that are
    /// gone.
    pub(crate) fn lose(&mut self, fate: &mut Fate) -> Vec<u64> {
        for node in self.nodes.values_mut() {
            if let Kind::Folder(folder) = &mut node.kind {
                folder.lose(fate);
            }
        }
        let (mut found, mut at) = (BTreeSet::from([ROOT]), vec![ROOT]);
        while let Some(number) = at.pop() {
            let Some(Node { kind: Kind::Folder(folder), .. }) = self.nodes.get(&number) else { continue };
            at.extend(folder.names().values().copied().filter(|n| found.insert(*n)));
        }
        let gone: Vec<u64> = self.nodes.keys().copied().filter(|n| !found.contains(n)).collect();
        gone.iter().for_each(|n| drop(self.nodes.remove(n)));
        gone
    }
}
