//! Past OSD maps, as the bytes that were made when they were applied.
//!
//! An OSD that was away must go through each change that a group's history may need: those since the group was last clean.
//! So changes are kept until the leader says that nobody needs them ([`History::trim`]), and never more than [`CEILING`].

use bytes::Bytes;
use denc::{Decode, Encode};
use maps::{Incremental, OsdMap};
use std::collections::BTreeMap;
use types::Epoch;

/// Least number of increments that are kept, for clients and OSDs that were away.
pub const KEPT: u32 = 500;
/// Most increments that are kept, whoever may need them. Ceph has no such bound; here the state is in memory.
pub const CEILING: u32 = 20_000;
/// A full map is kept every so many epochs. Those between are made from it.
const STEP: u32 = 32;
/// The same for maps that are older than [`OLD`] epochs.
const OLD_STEP: u32 = 512;
/// How many epochs back full maps are kept densely.
const OLD: u32 = 1024;

/// Increments by the epoch that they lead to, and some full maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    incrementals: BTreeMap<Epoch, Bytes>,
    /// Full maps: of the oldest epoch, of every [`STEP`]th (of old ones every [`OLD_STEP`]th), and of the newest.
    full: BTreeMap<Epoch, Bytes>,
}
denc::plain!(History { incrementals, full });

impl History {
    /// Makes a history that begins with this map.
    pub fn new(epoch: Epoch, full: Bytes) -> Self {
        Self { incrementals: BTreeMap::new(), full: [(epoch, full)].into() }
    }

    /// Adds the map of `epoch`.
    pub fn push(&mut self, epoch: Epoch, incremental: Bytes, full: Bytes) {
        let newest = self.last();
        if !newest.is_multiple_of(STEP) && newest != self.first() {
            self.full.remove(&newest);
        }
        self.incrementals.insert(epoch, incremental);
        self.full.insert(epoch, full);
        if let Some(old) = epoch.checked_sub(OLD).filter(|old| !old.is_multiple_of(OLD_STEP) && *old != self.first()) {
            self.full.remove(&old);
        }
        self.trim(epoch.saturating_sub(CEILING));
    }

    /// Forgets what leads to maps older than `below`. Whole steps go at once, so that the oldest full map always stands before
    /// the oldest increment.
    pub fn trim(&mut self, below: Epoch) {
        while let Some(second) = self.second_full().filter(|second| *second <= below) {
            self.full.pop_first();
            self.incrementals = self.incrementals.split_off(&(second + 1));
        }
    }

    /// Whether [`History::trim`] would forget anything.
    pub fn has_below(&self, below: Epoch) -> bool {
        self.second_full().is_some_and(|second| second <= below)
    }

    /// The oldest full map but one. Without it, nothing can go.
    fn second_full(&self) -> Option<Epoch> {
        self.full.keys().nth(1).copied()
    }

    /// How many increments there are.
    pub fn kept(&self) -> usize {
        self.incrementals.len()
    }

    /// Whether each map from the oldest to the newest can be made.
    #[cfg(any(test, feature = "sim"))]
    pub fn is_whole(&self) -> bool {
        self.incrementals.keys().copied().eq(self.first() + 1..=self.last())
    }

    /// Oldest epoch of which a full map can be given.
    pub fn first(&self) -> Epoch {
        self.full.first_key_value().map_or(0, |(e, _)| *e)
    }

    /// Newest epoch.
    pub fn last(&self) -> Epoch {
        self.full.last_key_value().map_or(0, |(e, _)| *e)
    }

    /// The newest full map.
    pub fn newest(&self) -> &[u8] {
        self.full.last_key_value().map_or(&[], |(_, b)| b)
    }

    /// The increment that leads to `epoch`.
    pub fn incremental(&self, epoch: Epoch) -> Option<&Bytes> {
        self.incrementals.get(&epoch)
    }

    /// The full map of `epoch`. None if it is not kept any more, or if increments did not fit each other, which would
    /// be an error of this program.
    pub fn full(&self, epoch: Epoch) -> Option<Bytes> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(epochs: u32) -> History {
        let mut history = History::new(1, Bytes::from_static(b"map"));
        (2..=epochs).for_each(|epoch| history.push(epoch, Bytes::new(), Bytes::from_static(b"map")));
        history
    }

    #[test]
    fn what_nobody_needs_goes_in_steps_and_the_rest_stays_whole() {
        let mut history = filled(3000);
        assert_eq!((history.first(), history.kept()), (1, 2999), "nothing goes by itself");
        assert!(!history.has_below(511) && history.has_below(512));
        history.trim(511);
        assert_eq!(history.first(), 1);
        history.trim(2500);
        assert_eq!((history.first(), history.is_whole()), (2496, true));
        history.trim(u32::MAX);
        assert_eq!((history.first(), history.last(), history.kept()), (3000, 3000, 0), "the newest stays");
    }

    #[test]
    fn however_much_is_needed_there_is_a_ceiling() {
        let history = filled(CEILING + 5000);
        assert!(history.is_whole() && history.kept() <= (CEILING + OLD_STEP) as usize, "{}", history.kept());
        assert!(history.full.len() < 100, "{} full maps", history.full.len());
    }
}
