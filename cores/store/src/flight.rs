//! A checkpoint in flight: its stage, and what it has done so far.

use crate::block::Run;
use crate::index::delta::Extent;
use crate::index::keys;
use crate::index::page::{Entry, PageRef, Ptr};
use crate::journal::End;
use crate::space::bits::Bits;
use crate::space::refs::Differences;
use crate::superblock::Superblock;
use bytes::Bytes;
use objectstore::Damage;
use std::collections::BTreeMap;
use types::Rope;

/// How far the store is with the mark of shared omaps, which is written beside checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Marking {
    /// Nobody wants it, or it is there.
    #[default]
    None,
    /// A transaction waits for it.
    Wanted,
    /// The first slot is being written.
    First,
    /// The second slot is being written.
    Second,
}

impl Marking {
    /// Returns true if a superblock is being written.
    pub(crate) fn is_under_way(self) -> bool {
        matches!(self, Self::First | Self::Second)
    }
}

/// The stage of a checkpoint.
pub(crate) enum Stage {
    /// Moving data out of the journal; done up to this extent.
    Move(Extent),
    /// Merging and writing pages.
    Merge(Box<Merge>),
    /// Waiting for writes to end.
    Drain,
    /// Flushing the data disk.
    Flush,
    /// Writing the superblock that marks the store with the version of pages in pieces. The flip comes next.
    Mark,
    /// Writing the superblock.
    Flip(Box<Superblock>),
}

/// A checkpoint in flight.
pub(crate) struct Checkpoint {
    pub(crate) stage: Stage,
    /// Records below this number are part of it.
    pub(crate) seq: u64,
    pub(crate) skipped: Vec<(u64, u32)>,
    /// The journal before this place is part of it.
    pub(crate) end: End,
    pub(crate) next_id: u64,
    /// Blocks that the frozen delta's data was given.
    pub(crate) born: Vec<Run>,
    /// Data blocks of the frozen delta that are in the journal and have no block on disk yet.
    pub(crate) promised: u64,
    /// Place where blocks of the journal were moved.
    pub(crate) moved: BTreeMap<u64, u64>,
    /// Number of writes in flight.
    pub(crate) writes: usize,
    pub(crate) pages_taken: u64,
    /// Blocks that were kept back for its pages.
    pub(crate) reserved: u64,
    /// Blocks by which the pages of the section of shared blocks become more.
    pub(crate) shared_pages: i64,
    /// True if one of them lies in pieces.
    pub(crate) in_pieces: bool,
    /// The version that the store has after it.
    pub(crate) version: u32,
    pub(crate) old_pages: Vec<Run>,
    /// Blocks to which nothing refers any more.
    pub(crate) freed: Vec<Run>,
    /// Blocks that hold data once the checkpoint counts.
    pub(crate) stable: Bits,
    pub(crate) root: Option<Ptr>,
    pub(crate) omap_bytes: i64,
    /// True if there is more work to do at once. The steps in a row are bounded.
    pub(crate) busy: bool,
    /// Units of work of this turn.
    pub(crate) work: usize,
    /// The pages that the merge asked for last.
    pub(crate) asked: Vec<u64>,
    /// True if the checkpoint said that it waits for free blocks.
    pub(crate) starved: bool,
    /// How often the checkpoint came back to data in the journal that seemed damaged.
    pub(crate) doubts: u32,
}

impl Checkpoint {
    /// Data blocks of the frozen delta that are in the journal and have no block on disk yet.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn promised(&self) -> u64 {
        self.promised
    }

    /// Blocks taken for pages so far.
    pub(crate) fn pages_taken(&self) -> u64 {
        self.pages_taken
    }
}

/// Facts that the merge knows of the changes that come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ahead {
    pub(crate) from: Bytes,
    /// The next key from `from` on that changes, and none if there is none; not known at all at first.
    pub(crate) next: Option<Option<Bytes>>,
}

impl Ahead {
    /// Returns true if it says what comes next from `key` on, too.
    pub(crate) fn reaches(&self, key: &Bytes) -> bool {
        *key >= self.from && self.next.as_ref().is_some_and(|next| next.as_ref().is_none_or(|next| key <= next))
    }
}

/// A merge in flight.
pub(crate) struct Merge {
    pub(crate) root: Option<Ptr>,
    pub(crate) begun: bool,
    pub(crate) stack: Vec<Frame>,
    pub(crate) leaf: Option<LeafWork>,
    /// The entries of the new root, and its level.
    pub(crate) top: Vec<Entry>,
    pub(crate) level: u8,
    pub(crate) ahead: Ahead,
    pub(crate) differences: Differences,
    pub(crate) closed: bool,
    /// A value that is not understood, in a page whose checksum is right: the merge cannot go on.
    pub(crate) hurt: Option<Damage>,
    /// Pages that follow each other and are not written yet.
    pub(crate) run: Rope,
    pub(crate) run_at: u64,
}

impl Merge {
    pub(crate) fn new(root: Option<Ptr>) -> Self {
        Self {
            root,
            begun: false,
            stack: Vec::new(),
            leaf: None,
            top: Vec::new(),
            level: 0,
            ahead: Ahead::default(),
            differences: Differences::default(),
            closed: false,
            hurt: None,
            run: Rope::new(),
            run_at: 0,
        }
    }

    /// Begins section Y when `key` reaches it: all differences of references are known from here on.
    pub(crate) fn close_before(&mut self, key: &[u8]) {
        if !self.closed && key >= &[keys::SHARED][..] {
            self.closed = true;
            self.differences.close();
        }
    }
}

/// An inner page on the way down.
pub(crate) struct Frame {
    pub(crate) page: PageRef,
    pub(crate) ptr: Ptr,
    /// Smallest key of this subtree as its parent names it, and the smallest key of the next.
    pub(crate) lower: Bytes,
    pub(crate) upper: Option<Bytes>,
    pub(crate) next: usize,
    /// Children of the page after the merge.
    pub(crate) out: Vec<Entry>,
    pub(crate) dirty: bool,
}

/// The leaf that is being merged.
pub(crate) struct LeafWork {
    pub(crate) page: Option<PageRef>,
    pub(crate) ptr: Option<Ptr>,
    pub(crate) at: usize,
    /// Smallest key of `page` as its parent names it.
    pub(crate) first: Bytes,
    pub(crate) lower: Bytes,
    pub(crate) upper: Option<Bytes>,
    /// Keys before this one are merged.
    pub(crate) cursor: Bytes,
    pub(crate) entries: Vec<Entry>,
    pub(crate) size: usize,
    /// Last key of the last page that was cut off.
    pub(crate) last: Option<Bytes>,
    pub(crate) out: Vec<Entry>,
    /// All changes are in `entries`: only pages are still to be cut from them.
    pub(crate) merged: bool,
}

impl LeafWork {
    pub(crate) fn new(page: Option<PageRef>, ptr: Option<Ptr>, lower: Bytes, upper: Option<Bytes>) -> Self {
        let (cursor, first) = (lower.clone(), lower.clone());
        Self {
            page,
            ptr,
            at: 0,
            first,
            lower,
            upper,
            cursor,
            entries: Vec::new(),
            size: 0,
            last: None,
            out: Vec::new(),
            merged: false,
        }
    }

    pub(crate) fn push(&mut self, key: Bytes, value: Bytes) {
        self.size += key.len() + value.len();
        self.entries.push((key, value));
    }
}
