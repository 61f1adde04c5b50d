//! What changed since the tree was written: two deltas over the tree, and how often the tree was replaced.

use super::delta::Delta;
use crate::block::Patch;
use bytes::Bytes;
use denc::Result;

/// The deltas over the tree. New changes go to the active one. A checkpoint freezes it and merges it into a new tree; the *flip* makes that
/// tree count.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    active: Delta,
    frozen: Option<Delta>,
    /// Number of flips since opening.
    epoch: u64,
    next_id: u64,
}

impl Overlay {
    /// No changes. `next_id`: id of the next onode.
    pub(crate) fn new(next_id: u64) -> Self {
        Self { next_id, ..Self::default() }
    }

    /// Number of flips since opening: what was read from the tree in another epoch may have been replaced.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Id of the next onode.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id
    }

    /// Changes that no checkpoint has taken in.
    pub(crate) fn active(&self) -> &Delta {
        &self.active
    }

    /// Changes that the checkpoint in flight takes in.
    pub(crate) fn frozen(&self) -> Option<&Delta> {
        self.frozen.as_ref()
    }

    /// Returns true if a checkpoint would change the tree.
    pub(crate) fn has_news(&self) -> bool {
        !self.active.is_empty()
    }

    /// Bytes of memory that the changes take, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.active.bytes + self.frozen.as_ref().map_or(0, |frozen| frozen.bytes)
    }

    /// Applies the changes of a record. `next_id`: the counter of ids behind it. `each` sees what is said about blocks.
    ///
    /// # Errors
    /// The bytes are not understood. Part of them may be applied.
    pub(crate) fn apply(&mut self, changes: &Bytes, next_id: u64, each: impl FnMut(&Patch)) -> Result<()> {
        self.active.apply(changes, each)?;
        self.next_id = self.next_id.max(next_id);
        Ok(())
    }

    /// A checkpoint begins.
    pub(crate) fn freeze(&mut self) {
        assert!(self.frozen.is_none(), "one checkpoint at a time");
        self.frozen = Some(std::mem::take(&mut self.active));
    }

    /// Notes that range tombstones of the active delta take up to so many more blocks from objects.
    pub(crate) fn takes(&mut self, blocks: u64) {
        self.active.gone += blocks;
    }

    /// Notes that all changes so far came from the journal.
    pub(crate) fn replayed(&mut self) {
        self.active.lost_count = self.active.extents.has_ranges();
    }

    /// The checkpoint counts: what was frozen is in the tree. Gives it, to be dropped bit by bit.
    pub(crate) fn flip(&mut self) -> Delta {
        self.epoch += 1;
        self.frozen.take().unwrap_or_default()
    }
}
