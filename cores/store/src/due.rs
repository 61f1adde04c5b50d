//! When a checkpoint is worth its writes.

use crate::block::BLOCK;
use node::Mono;
use std::time::Duration;

/// How long removed data may wait for a checkpoint that gives its space back. `RECLAIM_SHORT` counts when there is
/// little space.
const RECLAIM: Duration = Duration::from_secs(5);
const RECLAIM_SHORT: Duration = Duration::from_secs(1);

/// What happened since the last checkpoint began that makes the next one worth it.
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// Somebody asked for one.
    wanted: bool,
    /// Time when the last one began.
    since: Mono,
    /// Something was removed.
    removed: bool,
    /// Blocks at most that large writes have replaced.
    replaced: u64,
}

impl Due {
    /// A checkpoint begins.
    pub(crate) fn begun(&mut self, now: Mono) {
        *self = Self { since: now, ..Self::default() };
    }

    /// The store is open. What was replayed may hold removals: their space shall come back as if there had been no crash.
    pub(crate) fn opened(&mut self, now: Mono, replayed: bool) {
        (self.removed, self.since) = (replayed, now);
    }

    /// Somebody asks for a checkpoint, or takes that back.
    pub(crate) fn want(&mut self, wanted: bool) {
        self.wanted = wanted;
    }

    /// Returns true if somebody asked for one.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// A transaction was carried out that may have freed space, and large writes of which replaced so many blocks.
    pub(crate) fn note(&mut self, removed: bool, replaced: u64) {
        self.removed |= removed;
        self.replaced += replaced;
    }

    /// Returns true if more bytes were replaced than `most`: a checkpoint is worth it.
    pub(crate) fn much_replaced(&self, most: u64) -> bool {
        self.replaced > most / BLOCK as u64
    }

    /// Returns when a checkpoint is worth it only because it may free space.
    pub(crate) fn reclaim_at(&self, little_space: bool) -> Mono {
        match (little_space, self.removed) {
            (true, _) => self.since.plus(RECLAIM_SHORT),
            (false, true) => self.since.plus(RECLAIM),
            (false, false) => Mono::NEVER,
        }
    }
}
