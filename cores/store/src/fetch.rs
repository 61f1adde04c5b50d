//! Fetching: reads what a look-up missed from the disk, and keeps it for whoever asked.

use crate::block::BLOCK;
use crate::checked::Checked;
use crate::index::page::{PageRef, Ptr};
use crate::io::{DATA, Item, Purpose};
use crate::store::Store;
use bytes::Bytes;
use node::{DiskDone, DiskOutput};
use objectstore::{Event, Hold, Wish};

/// For whom something is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// An operation of a placement group.
    Hold(Hold),
    /// A transaction that waits to be carried out, by its number.
    Stalled(u64),
    /// A checkpoint that needs a page or a block.
    Checkpoint,
    /// Opening, and the checker.
    Open,
}

/// What was fetched for one owner, and is kept for it.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pages: Vec<(u64, PageRef, u64)>,
    data: Vec<(u64, Checked, u64)>,
    records: Vec<(u64, Checked)>,
    /// What could not be read, with the number of flips at that time: one entry for each try.
    failed: Vec<(Item, u64)>,
    /// Number of reads in flight.
    under_way: usize,
    /// Number of transactions that the owner waits for.
    waits_for: usize,
}

/// Most blocks of one read.
pub(crate) const LONGEST_READ: u32 = 1024;

/// How often a damaged item is read before it counts as damaged. The fault may be one of reading only.
const TRIES: usize = 6;

const TAG: u32 = 60;

/// Encodes a wish for an index page as a number.
pub(crate) fn wish_page(ptr: &Ptr) -> u64 {
    1 << TAG | u64::from(ptr.blocks) << 44 | ptr.block
}

/// Encodes a wish for `n` blocks of data from `block` on; `n` is below 2^16.
pub(crate) fn wish_data(block: u64, n: u32) -> u64 {
    2 << TAG | u64::from(n) << 44 | block
}

pub(crate) fn wish_record(seq: u64) -> u64 {
    3 << TAG | seq
}

/// Encodes a wish that a waiting transaction is carried out.
pub(crate) fn wish_done(stalled: u64) -> u64 {
    4 << TAG | stalled
}

fn item(wish: u64) -> Option<Item> {
    let (n, block) = ((wish >> 44 & 0xffff) as u32, wish & 0xfff_ffff_ffff);
    match wish >> TAG {
        1 if n > 0 => Some(Item::Page(block, n)),
        2 if n > 0 => Some(Item::Data(block, n)),
        3 => Some(Item::Record(wish & ((1 << TAG) - 1))),
        _ => None,
    }
}

impl Held {
    pub(crate) fn page(&self, ptr: &Ptr) -> Option<&PageRef> {
        self.pages.iter().rev().find(|(block, page, _)| *block == ptr.block && page.crc == ptr.crc).map(|(_, page, _)| page)
    }

    /// Says whether the page counts as damaged: each of the reads since the last flip failed or gave another page, and
    /// there were enough of them.
    pub(crate) fn page_failed(&self, ptr: &Ptr, epoch: u64) -> bool {
        let wrong = |(block, page, e): &&(u64, PageRef, u64)| *block == ptr.block && *e == epoch && page.crc != ptr.crc;
        let unread = self.failed.iter().filter(|f| **f == (Item::Page(ptr.block, ptr.blocks), epoch)).count();
        unread + self.pages.iter().filter(wrong).count() >= TRIES
    }

    /// Gives up to `max` blocks from `block` on whose first checksum is `crc`, and the number of flips when they were
    /// read. If no read gave that checksum, gives what the last one gave.
    pub(crate) fn data(&self, block: u64, max: u64, crc: u32) -> Option<(Checked, u64)> {
        let reads = || self.data.iter().rev().filter(|(start, run, _)| (*start..start + run.blocks()).contains(&block));
        let right = reads().find(|(start, run, _)| run.crc((block - start) as usize) == crc);
        let (start, run, epoch) = right.or_else(|| reads().next())?;
        Some((run.part((block - start) as usize, max), *epoch))
    }

    /// Says whether the block was read often enough since the last flip.
    pub(crate) fn data_failed(&self, block: u64, epoch: u64) -> bool {
        let covers = |item: &Item| matches!(item, Item::Data(start, n) if (*start..start + u64::from(*n)).contains(&block));
        let unread = self.failed.iter().filter(|(item, e)| *e == epoch && covers(item)).count();
        let read = |(start, run, e): &&(u64, Checked, u64)| *e == epoch && (*start..start + run.blocks()).contains(&block);
        unread + self.data.iter().filter(read).count() >= TRIES
    }

    /// Gives a block of a journal record whose checksum is `crc`. If no read gave that checksum, gives what the last
    /// one gave.
    pub(crate) fn record(&self, seq: u64, index: u32, crc: u32) -> Option<Checked> {
        let reads = || self.records.iter().rev().filter(|(s, run)| *s == seq && u64::from(index) < run.blocks());
        let right = reads().find(|(_, run)| run.crc(index as usize) == crc);
        right.or_else(|| reads().next()).map(|(_, run)| run.part(index as usize, 1))
    }

    /// Says whether the record was read often enough.
    pub(crate) fn record_failed(&self, seq: u64) -> bool {
        let unread = self.failed.iter().filter(|(item, _)| *item == Item::Record(seq)).count();
        unread + self.records.iter().filter(|(s, _)| *s == seq).count() >= TRIES
    }

    /// Says whether everything that the owner asked for has come.
    pub(crate) fn complete(&self) -> bool {
        self.under_way == 0 && self.waits_for == 0
    }
}

impl Store {
    /// Begins to read what `wish` names. [`Store::fetched`] follows, perhaps at once.
    pub(crate) fn fetch_for(&mut self, owner: Owner, wish: Wish) {
        self.holds.entry(owner).or_default();
        for number in wish.0 {
            if number >> TAG == 4 {
                self.wait_for(owner, number & ((1 << TAG) - 1));
            } else if let Some(item) = item(number) {
                self.fetch_item(owner, item);
            }
        }
        self.check_fetched(owner);
    }

    fn wait_for(&mut self, owner: Owner, stalled: u64) {
        if self.waiting.tell(stalled, owner) {
            self.holds.entry(owner).or_default().waits_for += 1;
        }
    }

    fn fetch_item(&mut self, owner: Owner, item: Item) {
        let (device, first, n) = match item {
            Item::Page(block, n) => (DATA, block, n),
            Item::Data(block, n) if n > LONGEST_READ => {
                self.fetch_item(owner, Item::Data(block, LONGEST_READ));
                return self.fetch_item(owner, Item::Data(block + u64::from(LONGEST_READ), n - LONGEST_READ));
            }
            Item::Data(block, n) => (DATA, block, n),
            Item::Record(seq) => match self.journal.location(seq) {
                Some((at, n)) => (self.ring_device(), self.sb.ring_start + at, n),
                None => return,
            },
        };
        if first + u64::from(n) > self.device_blocks(device) {
            // Asking again would change nothing.
            let failed = std::iter::repeat_n((item, self.overlay.epoch()), TRIES);
            self.holds.entry(owner).or_default().failed.extend(failed);
            return;
        }
        self.holds.entry(owner).or_default().under_way += 1;
        self.space.begin_read(self.overlay.epoch());
        self.io.read(device, first * BLOCK as u64, n as usize * BLOCK, Purpose::Fetch(owner, item, self.overlay.epoch()));
    }

    /// Takes the result of a fetch's read.
    pub(crate) fn fetch_done(&mut self, owner: Owner, item: Item, epoch: u64, done: DiskDone) {
        self.space.end_read(epoch);
        let bytes = match done.result {
            Ok(DiskOutput::Read(buf)) => Some(buf.freeze()),
            _ => None,
        };
        self.keep(owner, item, epoch, bytes);
        self.settle_limbo();
        if let Some(held) = self.holds.get_mut(&owner) {
            held.under_way = held.under_way.saturating_sub(1);
            self.check_fetched(owner);
        }
    }

    fn keep(&mut self, owner: Owner, item: Item, epoch: u64, bytes: Option<Bytes>) {
        let page = match (&item, &bytes) {
            (Item::Page(block, _), Some(bytes)) => PageRef::parse(bytes.clone(), *block),
            _ => None,
        };
        let current = epoch == self.overlay.epoch();
        let held = self.holds.get_mut(&owner);
        match (item, bytes) {
            (Item::Page(block, _), Some(_)) if page.is_some() => {
                let page = page.expect("just looked");
                // What was read before a flip may have been replaced since. It must not go where all look for it.
                if current {
                    self.caches.pages.insert(block, page.clone());
                }
                held.into_iter().for_each(|h| h.pages.push((block, page.clone(), epoch)));
            }
            (Item::Data(block, n), Some(bytes)) => {
                assert_eq!(bytes.len(), n as usize * BLOCK, "a read gives what was asked for, or an error");
                let run = Checked::new(bytes);
                if current {
                    self.caches.blocks.insert(block, run.clone(), false);
                }
                held.into_iter().for_each(|h| h.data.push((block, run.clone(), epoch)));
            }
            (Item::Record(seq), Some(bytes)) => held.into_iter().for_each(|h| h.records.push((seq, Checked::new(bytes.clone())))),
            (item, _) => {
                if let Some(held) = held {
                    held.failed.push((item, epoch));
                }
            }
        }
    }

    /// Tells the owner when nothing is in flight for it any more.
    pub(crate) fn check_fetched(&mut self, owner: Owner) {
        if !self.holds.get(&owner).is_some_and(Held::complete) {
            return;
        }
        match owner {
            Owner::Hold(hold) => self.events.push_back(Event::Fetched(hold)),
            Owner::Stalled(id) => self.waiting.set_runnable(id),
            Owner::Checkpoint | Owner::Open => (),
        }
    }

    /// Notes that a transaction that `owner` waited for was carried out.
    pub(crate) fn waited(&mut self, owner: Owner) {
        if let Some(held) = self.holds.get_mut(&owner) {
            held.waits_for = held.waits_for.saturating_sub(1);
            self.check_fetched(owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_understood() {
        let ptr = Ptr { block: 1 << 40, blocks: 40_000, crc: 0 };
        assert_eq!(item(wish_page(&ptr)), Some(Item::Page(1 << 40, 40_000)));
        assert_eq!(item(wish_data(77, 3)), Some(Item::Data(77, 3)));
        assert_eq!(item(wish_record(1 << 41)), Some(Item::Record(1 << 41)));
        assert_eq!(item(0), None);
    }
}
