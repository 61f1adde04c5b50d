//! What a leader says: entries, beats, pieces of its state.

use crate::machine::{Incoming, Node};
use crate::message::{Body, Piece, Verdict};
use crate::types::{Entry, Index, Position, VoterId};

/// Most bytes of a state that are taken.
const STATE_BYTES: u64 = 1 << 30;

impl Node {
    /// Entries that follow `previous`, and up to where the leader's log is committed.
    pub(crate) fn take_entries(&mut self, from: VoterId, previous: Position, entries: Vec<Entry>, commit: Index, round: u64) {
        if let Some((index, have)) = self.installing() {
            return self.send(from, Body::StateTaken(index, have));
        }
        // What was committed before is the same everywhere; it may have been forgotten here.
        let known = previous.index < self.log.before().index || self.log.term_at(previous.index) == Some(previous.term);
        if !known {
            if previous.index <= self.commit && previous.index > 0 {
                let (index, term) = (previous.index, self.hard.term);
                return self.contradicts(format!(
                    "entry {index} is committed with term {}, but the leader of term {term} has it with term {}",
                    self.log.term_at(index).unwrap_or(0),
                    previous.term
                ));
            }
            let hint = self.agrees_at_most(previous);
            return self.send(from, Body::Appended(Verdict::Differs(hint), round));
        }
        let matched = previous.index + entries.len() as u64;
        for entry in entries {
            if !self.take_entry(entry) {
                return;
            }
        }
        self.commit = self.commit.max(commit.min(matched));
        if matched > self.stable {
            // The disk may take seconds. The leader hears at once that somebody is here, and counts what is durable.
            let durable = self.stable;
            self.send(from, Body::Appended(Verdict::Matched(durable), round));
        }
        self.send_after(matched, from, Body::Appended(Verdict::Matched(matched), round));
    }

    /// Takes one entry, whose predecessor is here. False if that cannot be.
    fn take_entry(&mut self, entry: Entry) -> bool {
        if entry.index <= self.log.before().index {
            return true;
        }
        match self.log.term_at(entry.index) {
            Some(term) if term == entry.term => return true,
            #[cfg(feature = "sim")]
            Some(_) if self.errs(crate::machine::Mistake::TailKept) => return true,
            Some(term) if entry.index <= self.commit => {
                self.contradicts(format!(
                    "entry {} is committed with term {term}, but the leader of term {} has it with term {}",
                    entry.index, self.hard.term, entry.term
                ));
                return false;
            }
            Some(_) => self.cut(entry.index),
            None => {}
        }
        self.append(entry);
        true
    }

    /// Up to where the logs may agree, if they do not at `previous`.
    fn agrees_at_most(&self, previous: Position) -> Index {
        let last = self.log.last().index;
        if previous.index > last {
            return last;
        }
        let wrong = self.log.term_at(previous.index);
        let mut index = previous.index;
        while index > self.commit && self.log.term_at(index) == wrong {
            index -= 1;
        }
        index
    }

    /// A piece of the leader's state.
    pub(crate) fn take_piece(&mut self, from: VoterId, piece: Piece) {
        let index = piece.base.at.index;
        if let Some((index, have)) = self.installing() {
            return self.send(from, Body::StateTaken(index, have));
        }
        if index <= self.commit {
            // A late one, or what is missing is here already.
            let commit = self.commit;
            if commit > self.stable {
                self.send(from, Body::StateTaken(index, piece.total));
            }
            return self.send_after(commit, from, Body::Appended(Verdict::Matched(commit), 0));
        }
        if piece.total > STATE_BYTES {
            return;
        }
        let same = self.incoming.as_ref().is_some_and(|i| i.piece.base == piece.base && i.piece.crc == piece.crc);
        if !same {
            self.incoming = Some(Incoming { piece: Piece { data: bytes::Bytes::new(), ..piece.clone() }, data: Vec::new() });
        }
        let Some(incoming) = &mut self.incoming else { return };
        let have = incoming.data.len() as u64;
        if piece.at == have && have + piece.data.len() as u64 <= piece.total {
            incoming.data.extend_from_slice(&piece.data);
        }
        if (incoming.data.len() as u64) < piece.total {
            let have = incoming.data.len() as u64;
            return self.send(from, Body::StateTaken(index, have));
        }
        self.state_complete(from, index);
    }

    fn state_complete(&mut self, from: VoterId, index: Index) {
        let Some(incoming) = self.incoming.take() else { return };
        if kernels::crc32c(kernels::SEED, &incoming.data) != incoming.piece.crc {
            // Damaged on the way: from the beginning.
            return self.send(from, Body::StateTaken(index, 0));
        }
        let base = incoming.piece.base;
        if self.log.term_at(index) == Some(base.at.term) {
            // All of it is in the log already.
            self.commit = self.commit.max(index);
            return self.send_after(index, from, Body::Appended(Verdict::Matched(index), 0));
        }
        self.say_nothing();
        self.install(base, incoming.data.into());
        self.send_after(index, from, Body::Appended(Verdict::Matched(index), 0));
    }
}
