//! What is not needed any more and too much to be dropped at once: a delta that is in the tree now, the differences that a
//! merge counted, the map that a flip replaced. Each turn drops some of it. The next checkpoint begins when all of it is
//! gone, so there is never more than one of each.

use crate::index::delta::Delta;
use crate::space::bits::Bits;
use crate::space::refs::Differences;
use std::collections::{BTreeMap, VecDeque};

/// Pieces that one turn drops. Each takes some 50 to 100 ns.
const PIECES: usize = if cfg!(test) { 64 } else { 4096 };

/// What is being dropped.
#[derive(Default)]
pub(crate) struct Shed {
    queue: VecDeque<Box<dyn Iterator<Item = ()> + Send>>,
    /// Bytes of memory that all of it took when it came, roughly.
    bytes: usize,
}

impl Shed {
    /// Returns true if nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes of memory that are still to be given back, at most.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a delta.
    pub(crate) fn delta(&mut self, delta: Delta) {
        self.bytes += delta.bytes;
        self.queue.push_back(Box::new(delta.dismantle()));
    }

    /// Takes what a merge counted.
    pub(crate) fn differences(&mut self, differences: Differences) {
        self.bytes += differences.bytes();
        self.queue.push_back(Box::new(differences.dismantle()));
    }

    /// Takes the map of blocks that a flip replaced, whose memory counts elsewhere, and where the mover put what was in the
    /// journal.
    pub(crate) fn replaced(&mut self, map: Bits, moved: BTreeMap<u64, u64>) {
        self.queue.push_back(Box::new(map.dismantle()));
        self.queue.push_back(Box::new(moved.into_iter().map(drop)));
    }

    /// Drops some of it. Gives how many pieces that were.
    pub(crate) fn step(&mut self) -> usize {
        let mut dropped = 0;
        while let Some(first) = self.queue.front_mut() {
            while dropped < PIECES && first.next().is_some() {
                dropped += 1;
            }
            if dropped == PIECES {
                return dropped;
            }
            self.queue.pop_front();
        }
        self.bytes = 0;
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn all_of_it_goes_and_no_turn_does_much() {
        let mut delta = Delta::default();
        (0..1000u64).for_each(|n| delta.keys.put(Bytes::copy_from_slice(&n.to_be_bytes()), None));
        (0..50u64).for_each(|n| delta.extents.remove_range((2 * n, 0), (2 * n + 1, 0)));
        delta.bytes = 7;
        let mut shed = Shed::default();
        shed.delta(delta);
        shed.replaced(Bits::new(1), BTreeMap::from([(1, 2)]));
        assert_eq!((shed.is_empty(), shed.bytes()), (false, 7));
        let (mut all, mut turns) = (0, 0);
        while !shed.is_empty() {
            let dropped = shed.step();
            assert!(dropped <= PIECES);
            (all, turns) = (all + dropped, turns + 1);
        }
        assert_eq!(all, 1000 + 50 + 64 + 1);
        assert!(turns > 1000 / PIECES && shed.bytes() == 0);
    }
}
