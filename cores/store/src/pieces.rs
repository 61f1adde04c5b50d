//! Pages of the index in several pieces, while they are looked for and read.
//!
//! A wish is a number, and the place of a page in several pieces is more than a number can say. So who misses such a
//! page leaves its pointer here, and the fetch finds it. A pointer that is not here any more is looked for again by
//! whoever asked.

use crate::index::page::Ptr;
use crate::wish::{Item, Owner};
use node::Buf;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Pointers to pages in several pieces that are kept at most.
const MOST_POINTERS: usize = 1 << 14;

/// What is known of pages in several pieces that are being looked for.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// Pointers to those that somebody missed, by first block.
    missed: RefCell<BTreeMap<u64, Ptr>>,
    /// Those that are being read, by number.
    reading: BTreeMap<u64, Reading>,
    next: u64,
}

/// A page that is being read in pieces.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) owner: Owner,
    pub(crate) item: Item,
    /// Number of flips when the reads began.
    pub(crate) epoch: u64,
    pub(crate) buf: Buf,
    /// Number of reads in flight.
    pub(crate) left: usize,
    /// True if one of them gave nothing.
    pub(crate) failed: bool,
}

impl Pieces {
    /// Remembers where a page lies that was missed, if its number does not say that.
    pub(crate) fn note(&self, ptr: &Ptr) {
        if ptr.pieces.is_some() {
            let mut missed = self.missed.borrow_mut();
            if missed.len() >= MOST_POINTERS {
                missed.clear();
            }
            missed.insert(ptr.block, ptr.clone());
        }
    }

    /// The tree was replaced: what was missed of the old one is looked for again.
    pub(crate) fn forget(&mut self) {
        self.missed.get_mut().clear();
    }

    /// Returns where a page lies, if that is still known.
    pub(crate) fn find(&self, block: u64, blocks: u32) -> Option<Ptr> {
        self.missed.borrow().get(&block).filter(|ptr| ptr.blocks == blocks).cloned()
    }

    /// Reads begin. Gives their number.
    pub(crate) fn begin(&mut self, reading: Reading) -> u64 {
        self.next += 1;
        self.reading.insert(self.next, reading);
        self.next
    }

    /// Takes the bytes from `at` on; none if the read failed. Gives the page when all its reads have ended.
    pub(crate) fn ended(&mut self, number: u64, at: usize, piece: Option<&[u8]>) -> Option<Reading> {
        let reading = self.reading.get_mut(&number)?;
        reading.left -= 1;
        match piece {
            Some(piece) => reading.buf[at..at + piece.len()].copy_from_slice(piece),
            None => reading.failed = true,
        }
        if reading.left > 0 { None } else { self.reading.remove(&number) }
    }
}
