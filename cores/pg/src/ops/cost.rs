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
/// Bytes that a page of a listing counts as, beside what it gives.
const LISTING: u64 = 1 << 20;
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
        self.cost.set(self.cost.get() + bytes as u64);
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
        self.env.cost.set(self.env.cost.get() + own);
        self.changes[from..].iter().for_each(|change| self.made.add(change));
        self.made.is_too_much(self.env.map.level.has(Feature::LongLetters)) || self.env.cost.get() > SEEN
    }
}
