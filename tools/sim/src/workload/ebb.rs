//! When a client that makes room does so: from some time after its map shows the pool as full, until the map shows less.

use crate::rng::Rng;
use maps::{OsdMap, pool_flags};
use node::Mono;
use std::time::Duration;
use types::PoolId;

/// Longest time that the cluster stays full before room is made, so that others come to wait for it.
const STANDS: Duration = Duration::from_millis(1_500);
/// Longest pause between two deletions.
const PACE: Duration = Duration::from_millis(30);
/// A pool is less full the further one goes here; each ebb goes some way.
const LEVELS: [u64; 3] = [
    pool_flags::FULL,
    pool_flags::FULL | pool_flags::BACKFILLFULL,
    pool_flags::FULL | pool_flags::BACKFILLFULL | pool_flags::NEARFULL,
];

/// Whether room is made now.
#[derive(Debug, Default)]
pub(super) struct Ebb {
    /// Until the pool has none of these flags.
    until_gone: u64,
    next: Mono,
    /// Objects go in turn.
    object: u64,
}

impl Ebb {
    /// Looks at the map: an ebb begins, or ends.
    pub(super) fn look(&mut self, map: Option<&OsdMap>, pool: PoolId, now: Mono, rng: &mut Rng) {
        let flags = map.and_then(|map| map.pool(pool)).map_or(0, |pool| pool.flags);
        if self.until_gone == 0 && flags & pool_flags::FULL != 0 {
            self.until_gone = *rng.pick(&LEVELS);
            self.next = now.plus(Duration::from_nanos(rng.below(STANDS.as_nanos() as u64)));
        } else if flags & self.until_gone == 0 {
            self.until_gone = 0;
        }
    }

    /// Returns when the next operation is due.
    pub(super) fn due(&self) -> Mono {
        if self.until_gone == 0 { Mono::NEVER } else { self.next }
    }

    /// The object that is next, of so many.
    pub(super) fn step(&mut self, objects: u64, now: Mono, rng: &mut Rng) -> u64 {
        self.next = if rng.one_in(3) { now } else { now.plus(Duration::from_nanos(rng.below(PACE.as_nanos() as u64))) };
        self.object = (self.object + 1) % objects;
        self.object
    }
}
