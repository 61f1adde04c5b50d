//! What a store is told when it starts, and the errors with which it refuses.

use std::fmt;
use types::Fsid;

/// How a store is made or opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The store's own identity. At [`crate::Store::open`] all zeros accept whatever store is there.
    pub uuid: [u8; 16],
    /// The cluster it belongs to. At `open` the zero id accepts any.
    pub fsid: Fsid,
    /// Number of the OSD that owns it. At `open` -1 accepts any.
    pub whoami: i32,
    /// Ceiling for caches and the index's delta, in bytes; at least [`Config::LEAST_MEMORY`] is taken.
    pub memory: u64,
    /// Size of the journal, in bytes; only looked at by `create`. Rounded down to blocks, at most a quarter of
    /// the disk that it shares, at least [`Config::LEAST_JOURNAL`].
    pub journal_bytes: u64,
    /// True if the journal lives on a disk of its own, `DeviceId(1)`. Only looked at by `create`.
    pub separate_journal: bool,
    /// Space for data that is written ahead and kept ready at most, in bytes; a sixteenth of the disk is never
    /// exceeded.
    pub write_ahead: u64,
    /// Bytes of keys and values of an omap that a clone copies at most. A larger omap is shared; a store that does that has the
    /// format version of it from then on.
    pub copied_omap: u64,
    /// Bytes that large writes may replace before a checkpoint gives their space to the next writes.
    pub replaced: u64,
    /// True if the data disk is to be told which blocks are free (discard). False for files: what they have is given
    /// back when the file system below runs short.
    pub discard: bool,
}

impl Config {
    /// Least memory that a store works with, in bytes.
    pub const LEAST_MEMORY: u64 = 4 << 20;
    /// Smallest journal, in bytes: it must hold two of the largest groups and a checkpoint's worth of others.
    pub const LEAST_JOURNAL: u64 = 1 << 20;
    /// Default of [`Self::copied_omap`]: what is copied takes milliseconds, and a clone of no more costs no read later.
    pub const COPIED_OMAP: u64 = 1 << 20;
    /// Default of [`Self::replaced`]: new space costs a second write, and the index pages of so much data are few.
    pub const REPLACED: u64 = if cfg!(test) { 4 << 20 } else { 256 << 20 };
    /// Default size of the journal, in bytes: three stores on one disk replay theirs in less than two seconds.
    pub const DEFAULT_JOURNAL: u64 = 96 << 20;
}

/// How a store's memory is shared out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    /// Bytes for index pages.
    pub(crate) pages: usize,
    /// Bytes for blocks of data.
    pub(crate) blocks: usize,
    /// Bytes for data that is in the journal only. Half of a ring of the default size fits: then nothing that a
    /// checkpoint moves must be read back.
    pub(crate) records: usize,
    /// Bytes for the changes since the last checkpoint, frozen ones included, before callers are slowed down.
    pub(crate) delta: usize,
    /// Blocks that removals may take from objects between two checkpoints, about. A merge notes each of them.
    pub(crate) gone: u64,
    /// Number of onodes, and of ranges of larger objects.
    pub(crate) onodes: usize,
    pub(crate) ranges: usize,
}

/// Bytes that a cached onode or a cached range takes, roughly.
pub(crate) const ENTRY: usize = 512;

/// Bytes that a merge takes for a block that goes, roughly: in a list of differences, in the list of what is free then, and
/// in the map of blocks.
const OF_GONE: usize = 48;

impl Shares {
    /// Most bytes that the cache of data is lent, while index pages and onodes need none of theirs.
    pub(crate) fn lendable(&self) -> usize {
        self.pages + (self.onodes + self.ranges) * ENTRY
    }
}

impl Config {
    /// Shares the memory out. The journal bounds what records and delta can need, so all that is left of a large memory
    /// is for data. The delta's share is for bursts; between checkpoints it takes a tenth of it. Data is lent what
    /// index pages and onodes do not use.
    pub(crate) fn shares(&self) -> Shares {
        let memory = self.memory as usize;
        let (pages, records, delta) = (memory / 4, (memory * 2 / 5).min(128 << 20), (memory / 4).min(256 << 20));
        let (onodes, ranges) = (memory / 16, memory / 32);
        let left = memory.saturating_sub(pages + records + delta + onodes + ranges);
        // Half of the delta's share, if no two of those blocks are neighbours.
        let gone = (delta / 2 / OF_GONE) as u64;
        Shares { gone, pages, records, delta, blocks: left.max(memory / 8), onodes: onodes / ENTRY, ranges: ranges / ENTRY }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            uuid: [0; 16],
            fsid: Fsid::default(),
            whoami: -1,
            memory: 192 << 20,
            journal_bytes: Self::DEFAULT_JOURNAL,
            separate_journal: false,
            write_ahead: 1 << 30,
            copied_omap: Self::COPIED_OMAP,
            replaced: Self::REPLACED,
            discard: false,
        }
    }
}

/// Why a store cannot be made or opened. Nothing was changed on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// `create` found a store already; its uuid.
    Exists([u8; 16]),
    /// There is no store here: neither superblock is one of ours.
    NoStore,
    /// A newer program wrote this format.
    TooNew {
        /// Version of the store that was found.
        found: u32,
        /// Newest version known here.
        known: u32,
    },
    /// It is another store than the one that was asked for.
    Foreign {
        /// What differs: `uuid`, `fsid`, `osd`, `journal`.
        what: &'static str,
        /// The value that was found.
        found: String,
        /// The value that was wanted.
        wanted: String,
    },
    /// The disk is too small.
    TooSmall {
        /// Bytes that the disk has.
        have: u64,
        /// Bytes that are needed at least.
        need: u64,
    },
    /// Something that was durable is not readable any more; where.
    Corrupt(String),
    /// The disk failed; how.
    Disk(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists(uuid) => write!(f, "the disk already holds the store {}", types::Fsid(*uuid)),
            Self::NoStore => f.write_str("the disk holds no store: neither of its superblocks is readable"),
            Self::TooNew { found, known } => {
                write!(f, "the store has format version {found}, this program knows versions up to {known}")
            }
            Self::Foreign { what, found, wanted } => {
                write!(f, "the store belongs to another cluster, or to another OSD: its {what} is {found}, not {wanted}")
            }
            Self::TooSmall { have, need } => write!(f, "the disk has {have} bytes, at least {need} are needed"),
            Self::Corrupt(what) => write!(f, "the store is corrupt: {what}"),
            Self::Disk(what) => write!(f, "the disk failed: {what}"),
        }
    }
}

impl OpenError {
    /// Says whether something that was durable is missing from the journal.
    pub(crate) fn is_journal(&self) -> bool {
        matches!(self, Self::Corrupt(what) if what.starts_with("journal"))
    }
}

impl std::error::Error for OpenError {}
