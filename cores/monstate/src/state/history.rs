//! Past OSD maps, as the bytes that were made when they were applied.
//!
//! An OSD that was away must go through each change that a group's history may need: those since the group was last
//! clean. So changes are kept until the leader says that nobody needs them ([`History::trim`]), and never more than
//! [`CEILING`].

use bytes::Bytes;
use denc::{Decode, Encode, Reader};
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
/// Number of epochs, from the newest one back, whose full maps are kept densely.
const OLD: u32 = 1024;

/// Increments by the epoch that they lead to, and some full maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    incrementals: BTreeMap<Epoch, Bytes>,
    /// Full maps: of the oldest epoch, of every [`STEP`]th (of old ones every [`OLD_STEP`]th), and of the newest.
    full: BTreeMap<Epoch, Bytes>,
    /// Bytes of all.
    bytes: u64,
}

impl Encode for History {
    fn encode(&self, out: &mut Vec<u8>) {
        self.incrementals.encode(out);
        self.full.encode(out);
    }
}

impl Decode for History {
    fn decode(r: &mut Reader<'_>) -> denc::Result<Self> {
        let (incrementals, full) = (r.get()?, r.get()?);
        let bytes = size(&incrementals) + size(&full);
        Ok(Self { incrementals, full, bytes })
    }
}

fn size(maps: &BTreeMap<Epoch, Bytes>) -> u64 {
    maps.values().map(|bytes| bytes.len() as u64).sum()
}

impl History {
    /// Makes a history that begins with this map.
    pub fn new(epoch: Epoch, full: Bytes) -> Self {
        let bytes = full.len() as u64;
        Self { incrementals: BTreeMap::new(), full: [(epoch, full)].into(), bytes }
    }

    /// Adds the map of `epoch`.
    pub fn push(&mut self, epoch: Epoch, incremental: Bytes, full: Bytes) {
        let newest = self.last();
        if !newest.is_multiple_of(STEP) && newest != self.first() {
            self.drop_full(newest);
        }
        self.bytes += (incremental.len() + full.len()) as u64;
        let again = [self.incrementals.insert(epoch, incremental), self.full.insert(epoch, full)];
        self.bytes -= again.iter().flatten().map(|bytes| bytes.len() as u64).sum::<u64>();
        if let Some(old) = epoch.checked_sub(OLD).filter(|old| !old.is_multiple_of(OLD_STEP) && *old != self.first()) {
            self.drop_full(old);
        }
        self.trim(epoch.saturating_sub(CEILING));
    }

    /// Forgets what leads to maps older than `below`. Whole steps go at once, so that the oldest full map always stands
    /// before the oldest increment.
    pub fn trim(&mut self, below: Epoch) {
        while let Some(second) = self.second_full().filter(|second| *second <= below) {
            if let Some(first) = self.full.keys().next().copied() {
                self.drop_full(first);
            }
            let kept = self.incrementals.split_off(&(second + 1));
            self.bytes -= size(&std::mem::replace(&mut self.incrementals, kept));
        }
    }

    /// Returns true if [`History::trim`] would forget anything.
    pub fn has_below(&self, below: Epoch) -> bool {
        self.second_full().is_some_and(|second| second <= below)
    }

    fn drop_full(&mut self, epoch: Epoch) {
        self.bytes -= self.full.remove(&epoch).map_or(0, |bytes| bytes.len() as u64);
    }

    /// Returns the bytes that all of it takes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The oldest full map but one. Without it, nothing can go.
    pub fn second_full(&self) -> Option<Epoch> {
        self.full.keys().nth(1).copied()
    }

    /// Returns how many increments there are.
    pub fn kept(&self) -> usize {
        self.incrementals.len()
    }

    /// Returns true if each map from the oldest to the newest can be made.
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
    fn its_bytes_are_those_of_its_parts() {
        let mut history = History::new(1, Bytes::from_static(b"first"));
        for epoch in 2..4000 {
            history.push(epoch, vec![1; epoch as usize % 7].into(), vec![2; epoch as usize % 31].into());
            if epoch.is_multiple_of(700) {
                history.trim(epoch - 600);
            }
            assert_eq!(history.bytes(), size(&history.incrementals) + size(&history.full), "epoch {epoch}");
        }
        let read = History::from_bytes(&history.to_vec()).unwrap();
        assert_eq!(read, history);
    }

    #[test]
    fn however_much_is_needed_there_is_a_ceiling() {
        let history = filled(CEILING + 5000);
        assert!(history.is_whole() && history.kept() <= (CEILING + OLD_STEP) as usize, "{}", history.kept());
        assert!(history.full.len() < 100, "{} full maps", history.full.len());
    }
}
