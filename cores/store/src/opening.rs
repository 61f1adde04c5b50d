//! An opening in flight: how far it is, and how far the replay of the journal is.

use crate::block::BLOCK;
use crate::config::OpenError;
use crate::index::keys;
use crate::index::page::Ptr;
use crate::superblock::Superblock;
use bytes::Bytes;
use kernels::SEED;

/// The step of opening whose request is in flight.
pub(crate) enum Step {
    DataSize,
    JournalSize,
    /// Reading superblock slot 0 or 1.
    Slot(usize),
    /// Reading the mark on the journal's own disk.
    Mark,
    /// Creation: writing the first zeros, then the journal's mark, then the superblock.
    Zeros,
    WriteMark,
    WriteSuper,
    /// Reading pages of the tree.
    Tree,
    Replay(Box<Replay>),
    /// Flushing the journal's own disk, if there is one, and then the data disk. The superblock of the new incarnation
    /// comes next.
    SettleJournal(Box<Superblock>),
    Settle(Box<Superblock>),
    /// Writing the superblock of the new incarnation; twice, if the store was older.
    Incarnation(Box<Superblock>),
}

/// An opening in flight.
pub(crate) struct Opening {
    pub(crate) create: bool,
    pub(crate) step: Step,
    pub(crate) found: Vec<Superblock>,
    pub(crate) newer: Option<OpenError>,
    /// The map of free space is loaded up to this key; none: as a whole.
    pub(crate) map_at: Option<Bytes>,
    /// Pages of the tree that were not looked at yet.
    pub(crate) pages: Vec<Ptr>,
    /// True if there is more to do without a read: the next round goes on.
    pub(crate) goes_on: bool,
    /// True if a slot that gave nothing is being read a second time.
    pub(crate) again: bool,
}

impl Opening {
    pub(crate) fn new(create: bool) -> Self {
        Self {
            create,
            step: Step::DataSize,
            found: Vec::new(),
            newer: None,
            map_at: Some(Bytes::from_static(&[keys::FREE])),
            pages: Vec::new(),
            goes_on: false,
            again: false,
        }
    }
}

/// A replay in flight.
pub(crate) struct Replay {
    /// Ring block where the next group is looked for.
    pub(crate) at: u64,
    /// Place where the last group ends, if the next one is looked for at the ring's start because it was not behind
    /// it.
    pub(crate) wrapped: Option<u64>,
    /// What the blocks behind the last group gave when it seemed to be the last. The end is believed when two reads in
    /// a row agree on them: a read that lies once must not cut off what is durable.
    pub(crate) end: Option<u32>,
    /// Checksum of the blocks that were read since the last group.
    pub(crate) looked: u32,
    /// How often the end was read.
    pub(crate) looks: u32,
    pub(crate) incarnation: u64,
    /// Blocks of the ring in memory: the first, and the bytes.
    pub(crate) window: (u64, Bytes),
    /// Number of blocks of the ring that exist.
    pub(crate) limit: u64,
    /// The search through the whole ring has come to this block.
    pub(crate) scan: Option<u64>,
    /// Highest number that any group states to be durable, and the block of that group.
    pub(crate) stated: (u64, u64),
}

impl Replay {
    pub(crate) fn new(sb: &Superblock, limit: u64) -> Self {
        Self {
            at: sb.replay_at,
            wrapped: None,
            end: None,
            looked: SEED,
            looks: 0,
            incarnation: 0,
            window: (0, Bytes::new()),
            limit,
            scan: None,
            stated: (0, 0),
        }
    }

    /// Gives `n` blocks from `at` on, if they are in memory.
    pub(crate) fn blocks(&self, at: u64, n: u64) -> Option<Bytes> {
        let from = at.checked_sub(self.window.0)? as usize * BLOCK;
        let to = from + n as usize * BLOCK;
        (to <= self.window.1.len()).then(|| self.window.1.slice(from..to))
    }
}
