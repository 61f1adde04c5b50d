//! What voters say to each other, and how it is written.
//!
//! A message is an envelope of the cluster, who speaks, who is spoken to, the speaker's term and what is said. Its
//! version is 1, or 2 with a tail, which readers of version 1 skip. Four bytes with the CRC-32C of it (from seed
//! 0xffffffff, without final inversion) follow.

use crate::types::{Base, COUNTS, Entry, Index, Marks, Position, Term, VoterId};
use bytes::Bytes;
use denc::{Decode, DecodeError, Encode, Reader, Result};
use std::fmt;

/// Version of the layout.
const VERSION: u8 = 1;
/// Version of one with a [`Tail`] behind what is said. Programs that know only the first one leave it unread.
const WITH_TAIL: u8 = 2;

/// Most members that are remembered, or read of in a message.
pub(crate) const MOST: usize = 64;

/// Tail of every message of members that remember. Programs that do not know it leave it unread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// Number of the speaker's start: random, not 0. 0: there is no tail.
    pub life: u64,
    /// The start of the member that is spoken to, of which the speaker heard last; 0 if it heard of none.
    pub heard: u64,
    /// Memory of the speaker, of itself and of the one that is spoken to, too.
    pub marks: Marks,
    /// Checksum of the speaker's state after an entry. Index 0: none.
    pub sum: (Index, u32),
}

impl Encode for Tail {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.life, self.heard).encode(out);
        self.marks.encode(out);
        self.sum.0.encode(out);
        self.sum.1.encode(out);
    }
}

impl Decode for Tail {
    const MIN_SIZE: usize = 32;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let tail = Self { life: r.u64()?, heard: r.u64()?, marks: r.get()?, sum: (r.u64()?, r.u32()?) };
        if tail.marks.len() > MOST || tail.sum.0 >= COUNTS {
            return Err(DecodeError::Invalid("what a voter remembers"));
        }
        Ok(tail)
    }
}

/// Body with its term and tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The speaker's term.
    pub term: Term,
    /// The contents.
    pub body: Body,
    /// Its tail.
    pub tail: Tail,
}

/// A part of a leader's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Base of the state.
    pub base: Base,
    /// Bytes of the whole state.
    pub total: u64,
    /// CRC-32C of the whole state.
    pub crc: u32,
    /// Place where this piece begins.
    pub at: u64,
    /// The piece.
    pub data: Bytes,
}
denc::plain!(Piece { base, total, crc, at, data });

/// Verdict of a follower on entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Up to this entry its log is the leader's, durably.
    Matched(Index),
    /// The entry before these is another one; the logs may agree up to this entry.
    Differs(Index),
}

/// Contents of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Would you vote for me in the next term? My log ends here.
    WouldYou(Position),
    /// An answer to that.
    Would(bool),
    /// Vote for me in this term. My log ends here.
    Vote(Position),
    /// An answer to that.
    Voted(bool),
    /// The leader's entries, or a beat without any.
    Append {
        /// Position before them.
        previous: Position,
        /// They.
        entries: Vec<Entry>,
        /// Up to where the log is committed.
        commit: Index,
        /// Number of the leader's last round of beats.
        round: u64,
    },
    /// An answer to that, with the same round.
    Appended(Verdict, u64),
    /// A part of the leader's state, for who lacks more than the leader's log has.
    State(Piece),
    /// So many bytes of the state as of this entry are there.
    StateTaken(Index, u64),
    /// Become leader: the old one wants you to.
    TakeOver,
    /// You are of an older term than I.
    Stale,
}

impl Encode for Body {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Body::WouldYou(last) => (1u8, *last).encode(out),
            Body::Would(yes) => (2u8, *yes).encode(out),
            Body::Vote(last) => (3u8, *last).encode(out),
            Body::Voted(yes) => (4u8, *yes).encode(out),
            Body::Append { previous, entries, commit, round } => {
                (5u8, *previous).encode(out);
                entries.encode(out);
                (*commit, *round).encode(out);
            }
            Body::Appended(Verdict::Matched(index), round) => {
                6u8.encode(out);
                (*index, *round).encode(out);
            }
            Body::Appended(Verdict::Differs(index), round) => {
                7u8.encode(out);
                (*index, *round).encode(out);
            }
            Body::State(piece) => {
                8u8.encode(out);
                piece.encode(out);
            }
            Body::StateTaken(index, have) => {
                9u8.encode(out);
                (*index, *have).encode(out);
            }
            Body::TakeOver => 10u8.encode(out),
            Body::Stale => 11u8.encode(out),
        }
    }
}

impl Decode for Body {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(match r.u8()? {
            1 => Body::WouldYou(r.get()?),
            2 => Body::Would(r.get()?),
            3 => Body::Vote(r.get()?),
            4 => Body::Voted(r.get()?),
            5 => Body::Append { previous: r.get()?, entries: r.get()?, commit: r.get()?, round: r.get()? },
            6 => Body::Appended(Verdict::Matched(r.get()?), r.get()?),
            7 => Body::Appended(Verdict::Differs(r.get()?), r.get()?),
            8 => Body::State(r.get()?),
            9 => Body::StateTaken(r.get()?, r.get()?),
            10 => Body::TakeOver,
            11 => Body::Stale,
            _ => return Err(DecodeError::Invalid("kind of a voter's message")),
        })
    }
}

/// Reason why a message is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its checksum is wrong.
    Damaged,
    /// It cannot be read, or says what cannot be.
    Unreadable(DecodeError),
    /// It is of another cluster.
    Cluster([u8; 16]),
    /// It is for another member.
    NotForMe(VoterId),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Damaged => write!(f, "its checksum is wrong"),
            Refused::Unreadable(why) => write!(f, "it cannot be read: {why}"),
            Refused::Cluster(_) => write!(f, "it is of another cluster"),
            Refused::NotForMe(to) => write!(f, "it is for member {:016x}", to.0),
        }
    }
}

impl std::error::Error for Refused {}

impl Message {
    /// One without a tail.
    pub fn new(term: Term, body: Body) -> Self {
        Self { term, body, tail: Tail::default() }
    }

    /// The message as bytes, from `from` to `to` in this cluster.
    pub fn to_wire(&self, cluster: &[u8; 16], from: VoterId, to: VoterId) -> Bytes {
        let mut out = Vec::new();
        let version = if self.tail.life == 0 { VERSION } else { WITH_TAIL };
        denc::envelope(&mut out, version, VERSION, |out| {
            cluster.encode(out);
            (from, to).encode(out);
            self.term.encode(out);
            self.body.encode(out);
            if version == WITH_TAIL {
                self.tail.encode(out);
            }
        });
        kernels::crc32c(kernels::SEED, &out).encode(&mut out);
        out.into()
    }

    /// Reads a message that came to `me`: who sent it, and what it says.
    ///
    /// # Errors
    /// What is wrong with it. Nothing of such a message may be used.
    pub fn from_wire(bytes: &[u8], cluster: &[u8; 16], me: VoterId) -> std::result::Result<(VoterId, Message), Refused> {
        let (body, crc) = bytes.split_last_chunk::<4>().ok_or(Refused::Damaged)?;
        if kernels::crc32c(kernels::SEED, body) != u32::from_le_bytes(*crc) {
            return Err(Refused::Damaged);
        }
        let (found, from, to, message) = read(body).map_err(Refused::Unreadable)?;
        if found != *cluster {
            return Err(Refused::Cluster(found));
        }
        if to != me {
            return Err(Refused::NotForMe(to));
        }
        Ok((from, message))
    }

    /// Returns whether it says something that can be true.
    fn check(&self) -> Result<()> {
        let index = match &self.body {
            Body::Append { commit, .. } => *commit,
            Body::Appended(Verdict::Matched(index) | Verdict::Differs(index), _) | Body::StateTaken(index, _) => *index,
            _ => 0,
        };
        if index >= COUNTS || self.term >= COUNTS {
            return Err(DecodeError::Invalid("index or term of a message"));
        }
        let Body::Append { previous, entries, .. } = &self.body else { return Ok(()) };
        let mut last = *previous;
        for entry in entries {
            if entry.index != last.index + 1 || entry.term < last.term {
                return Err(DecodeError::Invalid("order of entries"));
            }
            last = entry.position();
        }
        if last.term > self.term { Err(DecodeError::Invalid("term of entries")) } else { Ok(()) }
    }
}

fn read(bytes: &[u8]) -> Result<([u8; 16], VoterId, VoterId, Message)> {
    let mut r = Reader::new(bytes);
    let mut e = r.envelope("message of a voter", WITH_TAIL)?;
    let b = &mut e.body;
    let (cluster, from, to) = (b.array::<16>()?, b.get()?, b.get()?);
    let (term, body) = (b.get()?, b.get()?);
    let tail: Tail = if e.version >= WITH_TAIL { b.get()? } else { Tail::default() };
    if e.version >= WITH_TAIL && tail.life == 0 {
        return Err(DecodeError::Invalid("life in a message of a voter"));
    }
    let message = Message { term, body, tail };
    message.check()?;
    Ok((cluster, from, to, message))
}
