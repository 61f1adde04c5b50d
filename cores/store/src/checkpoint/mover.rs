//! The mover of a checkpoint writes data from the journal to fresh blocks, in key order, in large writes.

use crate::block::{BLOCK, Block, Place, Where};
use crate::checked::Checked;
use crate::flight::{Checkpoint, Merge, Stage};
use crate::held::Held;
use crate::index::delta::Extent;
use crate::io::{DATA, Purpose};
use crate::store::Store;
use crate::wish::{Owner, wish_record};
use node::Level;
use objectstore::Wish;
use std::time::Duration;
use types::Rope;

/// Blocks that are moved in one step.
const BATCH: usize = 256;
/// How often a checkpoint comes back to data that seems damaged: after 1, 2, 4, 8 and 16 s.
const DOUBTS: u32 = 5;
/// Extents that are looked at in one step.
const LOOK: usize = 4096;
/// Units of work of a block that moves: its bytes are summed, and copied for the cache. See [`super::WORK`]. That takes 2 to 3 µs, and
/// 15 where the memory for the copy is new to the machine, which virtual machines' hosts must find: 1 MiB in a turn.
const OF_BLOCK: usize = 128;

impl Store {
    /// Moves the next blocks. False: they must be read first.
    pub(super) fn move_some(&mut self, c: &mut Checkpoint) -> bool {
        let Stage::Move(from) = c.stage else { unreachable!("only while moving") };
        let (batch, next, looked) = self.batch(c, from);
        c.work += looked + OF_BLOCK * batch.len();
        if !batch.is_empty() && !self.move_batch(c, &batch) {
            return false;
        }
        c.stage = match next {
            Some(next) => Stage::Move(next),
            None => Stage::Merge(Box::new(Merge::new(self.sb.root.clone()))),
        };
        true
    }

    /// Gives the next blocks of the frozen delta that lie in the journal, the extent to go on from, and how many were looked at.
    fn batch(&self, c: &Checkpoint, from: Extent) -> (Vec<Block>, Option<Extent>, usize) {
        let frozen = self.overlay.frozen().expect("a checkpoint has a frozen delta");
        let (mut out, mut looked): (Vec<Block>, usize) = (Vec::new(), 0);
        for (key, patch) in frozen.extents.iter_from(&from) {
            if out.len() + 16 > BATCH || looked == LOOK {
                return (out, Some(*key), looked);
            }
            looked += 1;
            for (_, block) in patch.iter() {
                let journal = matches!(block.place.place(), Where::Journal(..));
                if journal && !c.moved.contains_key(&block.place.0) && !out.iter().rev().take(64).any(|b| b.place == block.place)
                {
                    out.push(block);
                }
            }
        }
        (out, None, looked)
    }

    fn move_batch(&mut self, c: &mut Checkpoint, batch: &[Block]) -> bool {
        if self.starves(c, batch.len() as u64) {
            return false;
        }
        let mut wishes: Vec<u64> = Vec::new();
        let mut found: Vec<(Place, Option<Checked>)> = Vec::with_capacity(batch.len());
        let held = self.holds.get(&Owner::Checkpoint);
        for block in batch {
            let Where::Journal(seq, index) = block.place.place() else { unreachable!("only these are moved") };
            let whole = |bytes: &Checked| bytes.crc(0) == block.crc;
            let known = self.journal.block(seq, index).filter(whole);
            let bytes = known.or_else(|| held.and_then(|h| h.record(seq, index, block.crc)).filter(whole));
            if bytes.is_none() && !held.is_some_and(|h| h.record_failed(seq)) {
                wishes.push(wish_record(seq));
                continue;
            }
            found.push((block.place, bytes));
        }
        if !wishes.is_empty() {
            wishes.sort_unstable();
            wishes.dedup();
            self.fetch_for(Owner::Checkpoint, Wish(wishes));
            return false;
        }
        self.holds.insert(Owner::Checkpoint, Held::default());
        if let Some((place, _)) = found.iter().find(|(_, bytes)| bytes.is_none())
            && self.doubt(c, *place)
        {
            return false;
        }
        self.write_moved(c, found);
        true
    }

    /// Says whether data in the journal that seems damaged is to be read once more, later. What is given up here is
    /// lost for good, and the fault may be one of reading only. Meanwhile everything else goes on, as long as the
    /// journal has room.
    fn doubt(&mut self, c: &mut Checkpoint, place: Place) -> bool {
        if c.doubts == DOUBTS {
            return false;
        }
        let rest = Duration::from_secs(1 << c.doubts);
        c.doubts += 1;
        self.log.push((Level::Warn, format!("data in the journal seems damaged, it is read again in {rest:?}: {place:?}")));
        self.doubts.rest(self.now.plus(rest));
        true
    }

    fn write_moved(&mut self, c: &mut Checkpoint, found: Vec<(Place, Option<Checked>)>) {
        // A clone may name the same block twice within its transaction.
        let (mut good, mut seen) = (Vec::with_capacity(found.len()), std::collections::BTreeSet::new());
        for (place, bytes) in found.into_iter().filter(|(place, _)| seen.insert(place.0)) {
            match bytes {
                Some(bytes) => good.push((place, bytes)),
                None => {
                    self.log.push((Level::Error, format!("data in the journal is damaged, it stays so: {place:?}")));
                    self.counters.damaged += 1;
                    c.moved.insert(place.0, Place::BAD.0);
                }
            }
        }
        let runs = self.space.take_for_move(good.len() as u64).expect("so many blocks are free");
        c.born.extend(&runs);
        let mut good = good.into_iter();
        for (block, n) in runs {
            let mut data = Rope::new();
            self.caches.blocks.forget(block, n.into());
            for i in 0..u64::from(n) {
                let (place, bytes) = good.next().expect("as many as were taken");
                c.moved.insert(place.0, block + i);
                data.push(bytes.bytes().clone());
                if !matches!(place.place(), Where::Journal(seq, _) if self.journal.is_cold(seq)) {
                    // A block of a journal group would keep the whole group in memory.
                    self.caches.blocks.insert(block + i, bytes.on_its_own(), false);
                }
            }
            c.writes += 1;
            c.promised -= u64::from(n).min(c.promised);
            self.counters.moved_bytes += data.len() as u64;
            self.io.write(DATA, block * BLOCK as u64, data, false, Purpose::Checkpoint);
        }
    }
}
