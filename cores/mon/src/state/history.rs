//! Past OSD maps, as the bytes that were made when they were applied.

use bytes::Bytes;
use denc::{Decode, Encode};
use maps::{Incremental, OsdMap};
use std::collections::BTreeMap;
use types::Epoch;

/// Least number of increments that are kept, for clients and OSDs that were away.
pub(crate) const KEPT: u32 = 500;
/// A full map is kept every so many epochs. Those between are made from it.
const STEP: u32 = 32;

/// Increments by the epoch that they lead to, and some full maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    incrementals: BTreeMap<Epoch, Bytes>,
    /// Full maps: of the oldest epoch, of every [`STEP`]th, and of the newest.
    full: BTreeMap<Epoch, Bytes>,
}
denc::plain!(History { incrementals, full });

impl History {
    /// Makes a history that begins with this map.
    pub(crate) fn new(epoch: Epoch, full: Bytes) -> Self {
        Self { incrementals: BTreeMap::new(), full: [(epoch, full)].into() }
    }

    /// Adds the map of `epoch`.
    pub(crate) fn push(&mut self, epoch: Epoch, incremental: Bytes, full: Bytes) {
        let newest = self.last();
        if !newest.is_multiple_of(STEP) && newest != self.first() {
            self.full.remove(&newest);
        }
        self.incrementals.insert(epoch, incremental);
        self.full.insert(epoch, full);
        // Whole steps go at once, so that the oldest full map always stands before the oldest increment.
        while let Some(second) = self.full.keys().nth(1).copied() {
            if self.incrementals.range(second + 1..).count() < KEPT as usize {
                break;
            }
            self.full.pop_first();
            self.incrementals = self.incrementals.split_off(&(second + 1));
        }
    }

    /// Oldest epoch of which a full map can be given.
    pub(crate) fn first(&self) -> Epoch {
        self.full.first_key_value().map_or(0, |(e, _)| *e)
    }

    /// Newest epoch.
    pub(crate) fn last(&self) -> Epoch {
        self.full.last_key_value().map_or(0, |(e, _)| *e)
    }

    /// The newest full map.
    pub(crate) fn newest(&self) -> &[u8] {
        self.full.last_key_value().map_or(&[], |(_, b)| b)
    }

    /// The increment that leads to `epoch`.
    pub(crate) fn incremental(&self, epoch: Epoch) -> Option<&Bytes> {
        self.incrementals.get(&epoch)
    }

    /// The full map of `epoch`. None if it is not kept any more, or if increments did not fit each other, which would
    /// be an error of this program.
    pub(crate) fn full(&self, epoch: Epoch) -> Option<Bytes> {
        if let Some(full) = self.full.get(&epoch) {
            return Some(full.clone());
        }
        if epoch > self.last() {
            return None;
        }
        let (start, bytes) = self.full.range(..epoch).next_back()?;
        let mut map = OsdMap::from_bytes(bytes).ok()?;
        for (_, inc) in self.incrementals.range(start + 1..=epoch) {
            map = map.apply(&Incremental::from_bytes(inc).ok()?).ok()?;
        }
        Some(map.to_bytes())
    }
}
