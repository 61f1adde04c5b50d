//! Fetching: reads what a look-up missed from the disk, and keeps it for whoever asked.

use crate::block::BLOCK;
use crate::checked::Checked;
use crate::held::TRIES;
use crate::index::page::PageRef;
use crate::io::{DATA, Purpose};
use crate::pieces::Reading;
use crate::store::Store;
use crate::wish::{Item, LONGEST_READ, Owner, item, stalled};
use bytes::Bytes;
use node::{Buf, DiskDone, DiskOutput};
use objectstore::{Event, Wish};

impl Store {
    /// Begins to read what `wish` names. [`Store::fetched`] follows, perhaps at once.
    pub(crate) fn fetch_for(&mut self, owner: Owner, wish: Wish) {
        self.holds.entry(owner).or_default().asked_at = self.now;
        for number in wish.0 {
            if let Some(waiting) = stalled(number) {
                self.wait_for(owner, waiting);
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
            Item::Pieces(block, n) => return self.fetch_pieces(owner, block, n),
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

    /// Begins to read a page in several pieces.
    fn fetch_pieces(&mut self, owner: Owner, block: u64, n: u32) {
        let (item, epoch) = (Item::Pieces(block, n), self.overlay.epoch());
        let Some(ptr) = self.pieces.find(block, n) else { return };
        let end = self.device_blocks(DATA);
        if ptr.runs().any(|(block, n)| block + u64::from(n) > end) {
            return self.holds.entry(owner).or_default().failed.extend(std::iter::repeat_n((item, epoch), TRIES));
        }
        self.holds.entry(owner).or_default().under_way += 1;
        self.space.begin_read(epoch);
        let (left, buf) = (ptr.runs().count(), Buf::zeroed(n as usize * BLOCK));
        let number = self.pieces.begin(Reading { owner, item, epoch, buf, left, failed: false });
        let mut at = 0;
        for (block, n) in ptr.runs() {
            self.io.read(DATA, block * BLOCK as u64, n as usize * BLOCK, Purpose::Piece(number, at));
            at += n as usize * BLOCK;
        }
    }

    /// Takes the result of a piece's read: the bytes of the page from `at` on. Gives the owner when the page is whole.
    pub(crate) fn piece_done(&mut self, number: u64, at: usize, done: DiskDone) -> Option<Owner> {
        let piece = match done.result {
            Ok(DiskOutput::Read(buf)) => Some(buf),
            _ => None,
        };
        let Reading { owner, item, epoch, buf, failed, .. } = self.pieces.ended(number, at, piece.as_deref())?;
        self.fetch_ended(owner, item, epoch, (!failed).then(|| buf.freeze()));
        Some(owner)
    }

    /// Takes the result of a fetch's read.
    pub(crate) fn fetch_done(&mut self, owner: Owner, item: Item, epoch: u64, done: DiskDone) {
        let bytes = match done.result {
            Ok(DiskOutput::Read(buf)) => Some(buf.freeze()),
            _ => None,
        };
        self.fetch_ended(owner, item, epoch, bytes);
    }

    fn fetch_ended(&mut self, owner: Owner, item: Item, epoch: u64, bytes: Option<Bytes>) {
        self.space.end_read(epoch);
        self.keep(owner, item, epoch, bytes);
        self.settle_limbo();
        if let Some(held) = self.holds.get_mut(&owner) {
            held.under_way = held.under_way.saturating_sub(1);
            self.check_fetched(owner);
        }
    }

    fn keep(&mut self, owner: Owner, item: Item, epoch: u64, bytes: Option<Bytes>) {
        let page = match (&item, &bytes) {
            (Item::Page(block, _) | Item::Pieces(block, _), Some(bytes)) => PageRef::parse(bytes.clone(), *block),
            _ => None,
        };
        // What defragmentation reads, nobody else asked for. Inner pages lead to much else.
        let cold = owner == Owner::Defragment && page.as_ref().is_none_or(|page| page.level() == 0);
        let current = epoch == self.overlay.epoch() && !cold;
        let held = self.holds.get_mut(&owner);
        match (item, bytes) {
            (Item::Page(block, _) | Item::Pieces(block, _), Some(_)) if page.is_some() => {
                let page = page.expect("just looked");
                // What was read before a flip may have been replaced since. It must not go where all look for it.
                if current {
                    self.caches.pages.insert(block, page.clone());
                }
                held.into_iter().for_each(|h| h.keep_page(block, page.clone(), epoch));
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
        let Some(held) = self.holds.get(&owner).filter(|held| held.complete()) else { return };
        match owner {
            Owner::Hold(hold) => {
                self.scattered.served(held.asked_at, self.now);
                self.events.push_back(Event::Fetched(hold));
            }
            Owner::Stalled(id) => self.waiting.set_runnable(id),
            Owner::Defragment => self.scattered.answered(self.now),
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
