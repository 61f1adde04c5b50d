//! What one request may cost: bytes that its operations look at, and bytes that they make.
//!
//! A request is small, what it asks for need not be: a checksum of an object that is a hole takes some bytes to ask for, and an operation that
//! rewrites what is stored makes up to the largest object out of nothing. A vector has up to 65,535 operations, and runs in one turn. So there
//! is a bound for all of them together; a request beyond it gets EMSGSIZE, as one whose input is too long.
//!
//! What is made goes to the other copies. While some of them may run programs that do not put a letter together out of parts
//! ([`Feature::LongLetters`]), all but the data must fit the front of one message, which may have 16 MiB.

use crate::ops::run::{Env, Run};
use messages::osd::code;
use objectstore::ObjectChange;
use types::Feature;

/// Bytes that the operations of a request may look at: the largest object twice, and more.
const SEEN: u64 = 320 << 20;
/// Bytes that they may make: what the longest input gives (`osd_max_write_size`, 90 MiB), and some more. Data of so many bytes go to a copy in
/// one message, which may have 128 MiB, where parts of letters are not known.
const MADE: usize = 96 << 20;
/// Bytes that are not data which they may make then: attributes, keys, values.
const MADE_BESIDE_DATA: usize = 12 << 20;
/// Bytes that an operation counts as, whatever it looks at.
const EACH: u64 = 2 << 10;
/// Bytes that a call of a class counts as.
const CALL: u64 = 64 << 10;
/// Bytes that a page of a listing counts as, beside what it gives: it looks at some thousand objects, and at an attribute of each.
const LISTING: u64 = 64 << 20;
/// Bytes that each entry of what a client lists counts as: keys that are looked up, set or removed, what calls of classes name.
const ENTRY: u64 = 1 << 10;
/// Bytes that each write or zeroed range of an object counts as beside its own: it may be a small part of a block that must be read for it.
const PIECE: u64 = 128 << 10;
/// Bytes that a rollback counts as: the store copies the keys of a clone.
const ROLLBACK: u64 = 8 << 20;

/// Bytes that each key takes beside its own.
const KEY: usize = 8;

/// Bytes that changes bring.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Made {
    /// Data.
    data: usize,
    /// All else.
    beside: usize,
}

impl Made {
    fn add(&mut self, change: &ObjectChange) {
        match change {
            ObjectChange::Write(_, data) => self.data += data.len(),
            other => self.beside += beside(other),
        }
    }

    fn is_too_much(self, long: bool) -> bool {
        self.data + self.beside > MADE || !long && self.beside > MADE_BESIDE_DATA
    }
}

/// Returns the bytes that a change brings beside data.
fn beside(change: &ObjectChange) -> usize {
    let pair = |(key, value): &(bytes::Bytes, bytes::Bytes)| key.len() + value.len() + KEY;
    match change {
        ObjectChange::SetXattr(name, value) => name.len() + value.len(),
        ObjectChange::SetInfo(data) | ObjectChange::OmapHeader(data) => data.len(),
        ObjectChange::OmapSet(pairs) => pairs.iter().map(pair).sum(),
        ObjectChange::OmapRemove(keys) => keys.iter().map(|key| key.len() + KEY).sum(),
        ObjectChange::RemoveXattr(name) => name.len(),
        ObjectChange::OmapRemoveRange(first, end) => first.len() + end.len(),
        _ => KEY,
    }
}

/// Counts an operation on the group, which gave so many bytes. Returns true if the request costs too much now. A page looks at some thousand
/// objects to list a thousand, or none.
pub(crate) fn listing_costs_too_much(env: &Env<'_>, bytes: usize) -> bool {
    env.cost.set(env.cost.get() + LISTING + bytes as u64);
    env.cost.get() > SEEN
}

impl Env<'_> {
    /// Counts bytes that were looked at.
    pub(crate) fn see(&self, bytes: usize) {
        self.cost.set(self.cost.get().saturating_add(bytes as u64));
    }

    /// Counts what will cost as much as looking at so many bytes. Returns false if that is too much: then it must not be done.
    pub(crate) fn can_afford(&self, bytes: u64) -> bool {
        self.cost.set(self.cost.get().saturating_add(bytes));
        self.cost.get() <= SEEN
    }

    /// Entries that the rest of the request may list.
    pub(crate) fn entries(&self) -> usize {
        denc::index(SEEN.saturating_sub(self.cost.get()) / ENTRY)
    }

    /// Counts entries that were listed.
    pub(crate) fn see_entries(&self, entries: usize) {
        self.see(entries.saturating_mul(denc::index(ENTRY)));
    }
}

impl Run<'_> {
    /// Counts an operation that has run. `from`: how many changes there were before. Returns true if the request costs too much now.
    pub(crate) fn costs_too_much(&mut self, index: usize, from: usize) -> bool {
        let own = match self.at(index).code {
            code::CALL => CALL,
            code::ROLLBACK => ROLLBACK,
            _ => EACH,
        };
        let pieces =
            self.changes[from..].iter().filter(|c| matches!(c, ObjectChange::Write(..) | ObjectChange::Zero(..))).count();
        // A vector has one or two as a rule.
        let pieces = if pieces == 1 && from == 0 { 0 } else { pieces as u64 };
        self.env.cost.set(self.env.cost.get().saturating_add(own + pieces * PIECE));
        self.changes[from..].iter().for_each(|change| self.made.add(change));
        self.made.is_too_much(self.env.map.level.has(Feature::LongLetters)) || self.env.cost.get() > SEEN
    }
}
