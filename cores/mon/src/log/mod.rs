//! The replicated log: the one way by which the monitor's state changes.
//!
//! A change is *proposed*; once it is durable on a majority of the voters it is *committed* and applied, in the order of
//! the log, on each of them. The interface has the shape of a consensus library's: the owner proposes, then takes what
//! is [`Ready`] (entries to write, messages to send, entries to apply, reads to answer, proposals that were lost with a
//! leader) and tells what became durable. [`Log`] is the case of a single voter, which is always the leader: an entry is
//! committed as soon as it is durable here.
//!
//! [`journal`] keeps entries and snapshots on a disk; [`format`] is its layout.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

pub(crate) mod format;
pub(crate) mod journal;

use bytes::Bytes;
use std::collections::VecDeque;

/// Position in the log, from 1 up; 0 is before the first entry.
pub(crate) type Index = u64;

/// A leader's reign. One voter has only the first.
pub(crate) const FIRST_TERM: u64 = 1;

/// Most entries and bytes that one disk write carries.
const GROUP_ENTRIES: usize = 512;
const GROUP_BYTES: usize = 1 << 20;

/// Bytes that an entry takes beside its data.
const ENTRY_HEAD: usize = 20;

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Where it stands.
    pub(crate) index: Index,
    /// Under which leader it was proposed.
    pub(crate) term: u64,
    /// The encoded proposal.
    pub(crate) data: Bytes,
}
denc::plain!(Entry { index, term, data });

/// Names a read that wants to see everything committed before it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReadId(pub(crate) u64);

/// What the owner has to do now.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    /// To be made durable, in order, then told with [`Log::persisted`].
    pub(crate) append: Vec<Entry>,
    /// To be sent to other voters. Empty while there is one.
    pub(crate) send: Vec<(u32, Bytes)>,
    /// Committed: to be applied in order.
    pub(crate) committed: Vec<Entry>,
    /// A leader's state, to be taken instead of entries that this voter missed.
    pub(crate) snapshot: Option<(Index, Bytes)>,
    /// Reads that may be answered from the applied state.
    pub(crate) reads: Vec<ReadId>,
    /// Entries that were proposed here and will never be committed, because another leader came.
    pub(crate) lost: Vec<Index>,
}

/// The log of a single voter.
#[derive(Debug)]
pub(crate) struct Log {
    last: Index,
    unwritten: VecDeque<Entry>,
    writing: VecDeque<Entry>,
    committed: VecDeque<Entry>,
    reads: Vec<ReadId>,
}

impl Log {
    /// A log whose entries up to `last` are durable and applied.
    pub(crate) fn new(last: Index) -> Self {
        Self { last, unwritten: VecDeque::new(), writing: VecDeque::new(), committed: VecDeque::new(), reads: Vec::new() }
    }

    /// Adds a proposal. Returns where it will stand if it is not lost.
    pub(crate) fn propose(&mut self, data: Bytes) -> Index {
        self.last += 1;
        self.unwritten.push_back(Entry { index: self.last, term: FIRST_TERM, data });
        self.last
    }

    /// Asks for a read of everything that is committed by now. With one voter that needs nobody's consent.
    pub(crate) fn read_index(&mut self, id: ReadId) {
        self.reads.push(id);
    }

    /// What is to be done. `can_write` says whether the disk takes a group now; one group is written at a time, so
    /// proposals that come meanwhile share the next one.
    pub(crate) fn ready(&mut self, can_write: bool) -> Ready {
        let mut ready = Ready { committed: self.committed.drain(..).collect(), ..Ready::default() };
        ready.reads = std::mem::take(&mut self.reads);
        if can_write && self.writing.is_empty() {
            let mut bytes = 0;
            while let Some(entry) = self.unwritten.front() {
                if ready.append.len() == GROUP_ENTRIES || (bytes > 0 && bytes + entry.data.len() > GROUP_BYTES) {
                    break;
                }
                bytes += entry.data.len();
                ready.append.extend(self.unwritten.pop_front());
            }
            self.writing = ready.append.iter().cloned().collect();
        }
        ready
    }

    /// Everything up to `index` is durable here.
    pub(crate) fn persisted(&mut self, index: Index) {
        while self.writing.front().is_some_and(|e| e.index <= index) {
            self.committed.extend(self.writing.pop_front());
        }
    }

    /// Bytes of entries that the next group may carry, at most.
    pub(crate) fn next_group_bytes(&self) -> usize {
        let mut bytes = 0;
        for entry in self.unwritten.iter().take(GROUP_ENTRIES) {
            if bytes > 0 && bytes + entry.data.len() > GROUP_BYTES {
                break;
            }
            bytes += entry.data.len() + ENTRY_HEAD;
        }
        bytes
    }

    /// Whether entries wait to be written, are being written, or wait to be applied.
    pub(crate) fn is_busy(&self) -> bool {
        self.has_unwritten() || !self.writing.is_empty() || !self.committed.is_empty()
    }

    /// Whether entries wait for the next group.
    pub(crate) fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_committed_before_it_is_durable_and_groups_do_not_overlap() {
        let mut log = Log::new(7);
        assert_eq!(log.propose(Bytes::from_static(b"a")), 8);
        let first = log.ready(true);
        assert_eq!((first.append.len(), first.committed.len()), (1, 0));
        log.propose(Bytes::from_static(b"b"));
        log.propose(Bytes::from_static(b"c"));
        assert!(log.ready(true).append.is_empty(), "one group at a time");
        log.persisted(8);
        let second = log.ready(true);
        assert_eq!(second.committed.iter().map(|e| e.index).collect::<Vec<_>>(), [8]);
        assert_eq!(second.append.iter().map(|e| e.index).collect::<Vec<_>>(), [9, 10], "what came meanwhile shares a group");
        assert!(log.is_busy());
        log.persisted(10);
        assert_eq!(log.ready(true).committed.len(), 2);
        assert!(!log.is_busy());
    }

    #[test]
    fn a_group_has_bounded_size_but_takes_a_large_entry_alone() {
        let mut log = Log::new(0);
        log.propose(Bytes::from(vec![0; GROUP_BYTES * 2]));
        log.propose(Bytes::from_static(b"small"));
        assert_eq!(log.ready(true).append.len(), 1);
        log.persisted(1);
        assert_eq!(log.ready(true).append.len(), 1);
    }
}
