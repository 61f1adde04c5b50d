//! The side towards the disk: one write at a time, snapshots, states that take the place of the log.

use crate::machine::{Install, Node, Write, Writing};
use crate::types::{Base, Entry, Index, Position, Saved};
use bytes::Bytes;

/// Most entries and bytes that one disk write carries.
const WRITE_ENTRIES: usize = 512;
const WRITE_BYTES: usize = 1 << 20;

impl Node {
    /// Returns what the next write carries.
    pub(crate) fn begin_write(&mut self) -> Option<Write> {
        let entries = self.log.slice(self.on_disk + 1, Index::MAX, WRITE_ENTRIES, WRITE_BYTES);
        // One voter alone has told nobody of its term: that goes with the first entries.
        let hard = self.hard_version > self.hard_durable && !self.is_alone();
        if entries.is_empty() && !hard && !self.marks_are_due() {
            return None;
        }
        let cut_from = if entries.is_empty() { None } else { self.cut.take() };
        self.on_disk = entries.last().map_or(self.on_disk, |e| e.index);
        let marks = self.marks_to_write();
        self.writing = Some(self.writes(self.on_disk, false));
        Some(Write { hard: self.hard, commit: self.commit.min(self.on_disk), cut_from, entries, marks })
    }

    fn writes(&self, last: Index, installs: bool) -> Writing {
        Writing { last, hard: self.hard_version, state: self.hard, installs }
    }

    /// A leader's state, if one waits to be written.
    pub(crate) fn begin_install(&mut self) -> Option<Install> {
        let mut install = self.install.take()?;
        let base = install.saved.base.clone();
        self.log.reset(base.at);
        self.members = vec![(base.at.index, base.membership)];
        (self.commit, self.given, self.on_disk) = (base.at.index, base.at.index, base.at.index);
        (self.stable, self.cut) = (0, None);
        install.saved.hard = self.hard;
        install.saved.marks = self.marks_to_keep();
        self.forget_states();
        self.writing = Some(self.writes(base.at.index, true));
        Some(install)
    }

    /// A leader's whole state is here.
    pub(crate) fn install(&mut self, base: Base, state: Bytes) {
        let saved = Saved { hard: self.hard, commit: base.at.index, before: base.at, base, ..Saved::default() };
        self.install = Some(Install { saved, state });
    }

    /// The entry that a state is of which waits to be written, and its bytes: entries cannot be taken.
    pub(crate) fn installing(&self) -> Option<(Index, u64)> {
        self.install.as_ref().map(|install| (install.saved.base.at.index, install.state.len() as u64))
    }

    /// Notes that what the last [`Ready::write`], [`Ready::install`] or [`Node::fold`] gave is durable.
    ///
    /// # Panics
    /// If nothing was given.
    pub fn persisted(&mut self) {
        let writing = self.writing.take().expect("something was being written");
        if writing.hard > self.hard_durable {
            self.hard_durable = writing.hard;
            self.memory.durable = writing.state;
            self.voted_durably();
        }
        self.stable = self.stable.max(writing.last);
        self.advance();
    }

    /// Returns true if something that was given is being written.
    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// The log is to be replaced by a snapshot of the owner's state, which has everything that was given so far. What
    /// is to be durable beside the state; then [`Node::persisted`].
    ///
    /// # Panics
    /// If something is being written.
    pub fn fold(&mut self) -> Saved {
        assert!(self.writing.is_none(), "one write at a time");
        let term = self.log.term_at(self.given).expect("the last entry that was given is remembered");
        let at = Position { term, index: self.given };
        // The state stands for what is committed and not on this disk yet.
        self.on_disk = self.on_disk.max(self.given);
        let (on_disk, before) = (self.on_disk, self.log.before());
        let membership = self.members_at(self.given);
        let replaced = self.members.iter().rposition(|(index, _)| *index <= at.index).unwrap_or(0);
        self.members.drain(..replaced);
        let entries = self.log.iter().filter(|e| e.index <= on_disk).cloned().collect();
        self.cut = None;
        self.writing = Some(self.writes(on_disk, false));
        let (commit, marks) = (self.commit.min(on_disk), self.marks_to_keep());
        Saved { hard: self.hard, commit, base: Base { at, membership }, before, entries, marks }
    }

    /// Bytes of entries that the next write may carry, at most.
    pub fn next_write_bytes(&self) -> usize {
        let entries = self.log.slice(self.on_disk + 1, Index::MAX, WRITE_ENTRIES, WRITE_BYTES);
        entries.iter().map(|e| e.data.len() + Entry::HEAD).sum()
    }

    /// Returns true if entries wait to be written, are being written, or wait to be applied.
    pub fn is_busy(&self) -> bool {
        self.writing.is_some() || self.install.is_some() || self.log.last().index > self.on_disk || self.given < self.commit
    }
}
