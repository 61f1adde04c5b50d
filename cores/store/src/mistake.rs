//! Mistakes that are made on purpose, so that the tests show that they would find them.

/// Mistakes that the tests must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// A large write's record does not wait for the flush of its data.
    RecordBeforeData,
    /// Groups are told durable as they complete, not in order.
    CommitOutOfOrder,
    /// Groups are not written durably.
    CommitBeforeDurable,
    /// The superblock does not wait for the flush of the pages.
    FlipBeforeFlush,
    /// A store gets pages in pieces, and only the flip says so.
    FlipUnmarked,
    /// Omaps are shared when one slot says so.
    MarkOnce,
    /// Replay is not told which records the tree has already.
    ForgetSkipped,
    /// Some freed blocks are never free again.
    Leak,
    /// Defragmentation does not look whether a part changed while it was read.
    MoveUnlooked,
    /// Defragmentation does not look whether a clone changed while what it shares was read.
    MoveClonesUnlooked,
    /// Keys of a shared omap change, and nothing is saved for clones.
    SaveNothing,
    /// A part of an object that another one gets stays where it is in the journal.
    ShareJournalled,
    /// Reads do not compare checksums.
    SkipChecksum,
}
