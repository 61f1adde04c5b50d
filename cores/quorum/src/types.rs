//! Entries, terms, members, and what a voter keeps on its disk.

use bytes::Bytes;
use denc::{Decode, DecodeError, Encode, Reader, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Settings of a node.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its id.
    pub id: VoterId,
    /// For the length of elections' pauses.
    pub seed: u64,
    /// Time for which a leader may be silent, at least; at most twice that.
    pub election: Duration,
    /// Pause between a leader's beats; a small part of `election`.
    pub beat: Duration,
    /// Number of this start: random, other than 0; members remember each other's promises and check their own
    /// ([`crate::Mark`]). 0: they do not.
    pub life: u64,
}

impl Config {
    /// A member with the usual times: a beat each 0.2 s, elections after 1 s to 2 s of silence. It remembers nothing of
    /// others.
    pub fn new(id: VoterId, seed: u64) -> Self {
        Self { id, seed, election: Duration::from_secs(1), beat: Duration::from_millis(200), life: 0 }
    }
}

/// Place of an entry in the log, from 1 up; 0 is before the first entry.
pub type Index = u64;

/// Number of an election. At most one leader has it.
pub type Term = u64;

/// Terms and indexes are below this: one each nanosecond would take a hundred years.
pub(crate) const COUNTS: u64 = 1 << 62;

/// A member's number: random, made with its store, so that an emptied disk is another member. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VoterId(pub u64);

impl Encode for VoterId {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}

impl Decode for VoterId {
    const MIN_SIZE: usize = 8;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        match r.u64()? {
            0 => Err(DecodeError::Invalid("number of a voter")),
            id => Ok(Self(id)),
        }
    }
}

/// Purpose of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A command of the log's owner.
    Command,
    /// Nothing: the beginning of a reign.
    Blank,
    /// A new [`Membership`].
    Membership,
}

impl Encode for Kind {
    fn encode(&self, out: &mut Vec<u8>) {
        let byte: u8 = match self {
            Kind::Command => 0,
            Kind::Blank => 1,
            Kind::Membership => 2,
        };
        byte.encode(out);
    }
}

impl Decode for Kind {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        match r.u8()? {
            0 => Ok(Kind::Command),
            1 => Ok(Kind::Blank),
            2 => Ok(Kind::Membership),
            _ => Err(DecodeError::Invalid("kind of an entry")),
        }
    }
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Place where it stands.
    pub index: Index,
    /// Under which leader it was made.
    pub term: Term,
    /// Its purpose.
    pub kind: Kind,
    /// The command; the encoded membership; nothing.
    pub data: Bytes,
}

impl Encode for Entry {
    fn encode(&self, out: &mut Vec<u8>) {
        self.index.encode(out);
        self.term.encode(out);
        self.kind.encode(out);
        self.data.encode(out);
    }
}

impl Decode for Entry {
    const MIN_SIZE: usize = Entry::HEAD;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let entry = Self { index: r.get()?, term: r.get()?, kind: r.get()?, data: r.get()? };
        if entry.index == 0 || entry.index >= COUNTS || entry.term == 0 || entry.term >= COUNTS {
            return Err(DecodeError::Invalid("index or term of an entry"));
        }
        if entry.kind == Kind::Membership {
            Membership::from_bytes(&entry.data)?;
        }
        Ok(entry)
    }
}

impl Entry {
    /// Bytes that an entry takes beside its data.
    pub const HEAD: usize = 21;

    /// Returns where it stands, with its term.
    pub fn position(&self) -> Position {
        Position { term: self.term, index: self.index }
    }

    /// The members that it names, if it is such an entry.
    pub(crate) fn membership(&self) -> Option<Membership> {
        if self.kind == Kind::Membership { Membership::from_bytes(&self.data).ok() } else { None }
    }
}

/// A place in the log and the term of the entry there. The larger one is the newer log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The entry's term; 0 before the first.
    pub term: Term,
    /// The entry's index; 0 before the first.
    pub index: Index,
}

impl Encode for Position {
    fn encode(&self, out: &mut Vec<u8>) {
        self.term.encode(out);
        self.index.encode(out);
    }
}

impl Decode for Position {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let position = Self { term: r.get()?, index: r.get()? };
        if position.term >= COUNTS || position.index >= COUNTS || (position.term == 0) != (position.index == 0) {
            return Err(DecodeError::Invalid("position in the log"));
        }
        Ok(position)
    }
}

/// State that a voter must never forget: the newest term it knows, and whom it voted for in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hard {
    /// The term.
    pub term: Term,
    /// The vote.
    pub vote: Option<VoterId>,
}

impl Encode for Hard {
    fn encode(&self, out: &mut Vec<u8>) {
        self.term.encode(out);
        self.vote.map_or(0, |v| v.0).encode(out);
    }
}

impl Decode for Hard {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let (term, vote) = (r.u64()?, r.u64()?);
        if term >= COUNTS {
            return Err(DecodeError::Invalid("term"));
        }
        Ok(Self { term, vote: (vote != 0).then_some(VoterId(vote)) })
    }
}

/// The newest promise that a voter has shown to anybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Its term, and its vote in it.
    pub hard: Hard,
    /// Up to this entry its log was that of the term's leader, durably. Zeros if it acknowledged nothing in the term.
    pub at: Position,
}
denc::plain!(Mark { hard, at });

impl Mark {
    /// Takes over what another mark of the same voter says more. Whether that was anything.
    pub(crate) fn join(&mut self, other: &Mark) -> bool {
        let old = *self;
        if other.hard.term > self.hard.term {
            *self = *other;
        } else if other.hard.term == self.hard.term {
            self.hard.vote = self.hard.vote.or(other.hard.vote);
            if other.at.index > self.at.index {
                self.at = other.at;
            }
        }
        *self != old
    }

    /// Returns true if a voter whose mark this is has forgotten what `known` says of it. Where its log ends is told
    /// only by a question.
    pub(crate) fn has_forgotten(&self, known: &Mark, last: Option<Position>) -> bool {
        let (own, before) = (self.hard, known.hard);
        own.term < before.term
            || own.term == before.term
                && (before.vote.is_some() && own.vote != before.vote || last.is_some_and(|last| known.at.index > last.index))
    }
}

/// Marks of members.
pub type Marks = BTreeMap<VoterId, Mark>;

/// Members of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Those who vote, and whose disks count.
    pub voters: BTreeSet<VoterId>,
    /// Those who only get the log.
    pub learners: BTreeSet<VoterId>,
}
denc::plain!(Membership { voters, learners });

impl Membership {
    /// One voter alone.
    pub fn alone(voter: VoterId) -> Self {
        Self { voters: [voter].into(), learners: BTreeSet::new() }
    }

    /// Returns how many voters decide.
    pub fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// Everybody but one.
    pub(crate) fn others(&self, me: VoterId) -> impl Iterator<Item = VoterId> + '_ {
        self.voters.iter().chain(&self.learners).copied().filter(move |id| *id != me)
    }

    /// Returns true if `next` has at most one voter more or less, and nobody twice.
    pub(crate) fn may_become(&self, next: &Membership) -> bool {
        let changed = self.voters.symmetric_difference(&next.voters).count();
        changed <= 1 && !next.voters.is_empty() && next.voters.is_disjoint(&next.learners)
    }
}

/// Up to where the log is in a snapshot, and who the members were there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// The last entry in the snapshot.
    pub at: Position,
    /// The members after it.
    pub membership: Membership,
}
denc::plain!(Base { at, membership });

/// All that a voter's disk knows beside the owner's state as of `base`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Term and vote.
    pub hard: Hard,
    /// Entries up to this one are known to be committed.
    pub commit: Index,
    /// The snapshot's place.
    pub base: Base,
    /// Position before the first of `entries`.
    pub before: Position,
    /// Entries in order; the first may stand in the snapshot: they are kept for peers that are a little behind.
    pub entries: Vec<Entry>,
    /// Memory of other members. Not part of this structure's encoding: the store writes it beside.
    pub marks: Marks,
}

impl Saved {
    /// The beginning of a log whose only voter is `voter`, with a snapshot of this entry.
    pub fn alone(voter: VoterId, at: Position) -> Self {
        Self {
            hard: Hard { term: at.term, vote: None },
            commit: at.index,
            base: Base { at, membership: Membership::alone(voter) },
            before: at,
            entries: Vec::new(),
            marks: Marks::new(),
        }
    }

    /// Returns whether it can be: entries follow each other from `before` on, terms do not fall, nothing is missing
    /// between snapshot and entries.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self) -> std::result::Result<(), &'static str> {
        let mut last = self.before;
        for entry in &self.entries {
            if entry.index != last.index + 1 || entry.term < last.term {
                return Err("its entries do not follow each other");
            }
            last = entry.position();
        }
        if self.before.index > self.base.at.index || last.index < self.base.at.index {
            return Err("its entries do not meet its snapshot");
        }
        if self.commit > last.index || last.term > self.hard.term {
            return Err("its log is shorter than what was committed, or newer than its term");
        }
        Ok(())
    }
}

impl Encode for Saved {
    fn encode(&self, out: &mut Vec<u8>) {
        self.hard.encode(out);
        self.commit.encode(out);
        self.base.encode(out);
        self.before.encode(out);
        self.entries.encode(out);
    }
}

impl Decode for Saved {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let (hard, commit, base, before) = (r.get()?, r.get()?, r.get()?, r.get()?);
        let saved = Self { hard, commit, base, before, entries: r.get()?, marks: Marks::new() };
        saved.check().map_err(DecodeError::Invalid)?;
        Ok(saved)
    }
}

/// Names a read that wants to see everything committed before it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadId(pub u64);
