//! The entries in memory: all that are not applied, and the newest that are.

use crate::types::{Entry, Index, Position, Term};
use std::collections::VecDeque;

/// A piece of the log, from `before` to its end.
#[derive(Debug, Default)]
pub(crate) struct Log {
    before: Position,
    entries: VecDeque<Entry>,
}

impl Log {
    /// These entries, after `before`.
    pub(crate) fn new(before: Position, entries: Vec<Entry>) -> Self {
        Self { before, entries: entries.into() }
    }

    /// Returns what stands before the first entry in memory.
    pub(crate) fn before(&self) -> Position {
        self.before
    }

    /// The last entry's place.
    pub(crate) fn last(&self) -> Position {
        self.entries.back().map_or(self.before, Entry::position)
    }

    fn slot(&self, index: Index) -> Option<usize> {
        usize::try_from(index.checked_sub(self.before.index + 1)?).ok()
    }

    /// The entry at `index`, if it is in memory.
    pub(crate) fn get(&self, index: Index) -> Option<&Entry> {
        self.entries.get(self.slot(index)?)
    }

    /// The term at `index`: of an entry in memory, or of what stands before them.
    pub(crate) fn term_at(&self, index: Index) -> Option<Term> {
        if index == self.before.index { Some(self.before.term) } else { self.get(index).map(|e| e.term) }
    }

    /// Entries from `from` to `to`, both included: at least one if there is one, else not more than so many and so many
    /// bytes of data.
    pub(crate) fn slice(&self, from: Index, to: Index, most: usize, most_bytes: usize) -> Vec<Entry> {
        let mut bytes = 0;
        let fits = |entry: &&Entry| {
            let first = bytes == 0;
            bytes += entry.data.len() + Entry::HEAD;
            first || bytes <= most_bytes
        };
        let Some(slot) = self.slot(from) else { return Vec::new() };
        let rest = self.entries.iter().skip(slot).take_while(|e| e.index <= to);
        rest.take(most).take_while(fits).cloned().collect()
    }

    /// Adds the next entry.
    pub(crate) fn push(&mut self, entry: Entry) {
        assert_eq!(entry.index, self.last().index + 1, "entries follow each other");
        self.entries.push_back(entry);
    }

    /// Takes away the entry at `from` and all after it.
    pub(crate) fn cut(&mut self, from: Index) {
        if let Some(slot) = self.slot(from) {
            self.entries.truncate(slot);
        }
    }

    /// Forgets the first entries while they stand before `end` and are more than so many or so many bytes.
    pub(crate) fn trim(&mut self, end: Index, most: usize, most_bytes: usize) {
        let kept = self.entries.iter().take_while(|e| e.index <= end);
        let (mut count, mut bytes) = kept.fold((0, 0), |(n, bytes), e| (n + 1, bytes + e.data.len()));
        while count > most || (count > 0 && bytes > most_bytes) {
            let Some(entry) = self.entries.pop_front() else { return };
            count -= 1;
            bytes -= entry.data.len();
            self.before = entry.position();
        }
    }

    /// Forgets everything; what comes next follows `before`.
    pub(crate) fn reset(&mut self, before: Position) {
        *self = Self { before, entries: VecDeque::new() };
    }

    /// All entries.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter()
    }
}
