//! What only a leader has: what it knows of its peers, reads that wait, who is to take over.

use crate::types::{Base, Config, Index, ReadId, VoterId};
use bytes::Bytes;
use node::Mono;
use std::collections::BTreeMap;

/// Entries that a learner may lack when it becomes a voter.
const CLOSE_BEHIND: Index = 100;

/// Knowledge of a leader about a peer.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Up to here its log is the leader's, durably.
    pub(crate) matched: Index,
    /// Index of the entry that it is sent next.
    pub(crate) next: Index,
    /// Up to where it was told that the log is committed.
    pub(crate) told: Index,
    /// Messages with entries that it was sent since it answered last.
    pub(crate) in_flight: usize,
    /// True while it is not known where its log agrees: it gets beats alone until it agrees at `next`. Messages that
    /// overtake each other would otherwise each be answered with all that follows.
    pub(crate) probing: bool,
    /// Time when it was heard last, or when the leader began to know it.
    pub(crate) heard: Mono,
    /// It was heard in this reign.
    pub(crate) answered: bool,
    /// The last round of beats that it answered.
    pub(crate) round: u64,
    /// It lacks more than the log has; so many bytes of the state are there.
    pub(crate) state: Option<u64>,
}

impl Peer {
    /// Returns true if it lacks so little that it may become a voter. Who has nothing is not close, however short the
    /// log is: what the owner began with is in no entry.
    pub(crate) fn is_close(&self, last: Index) -> bool {
        self.matched > 0 && self.matched + CLOSE_BEHIND >= last
    }
}

/// A read that waits for beats.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) id: ReadId,
    /// May be answered when this round is answered by a majority and this entry is applied.
    pub(crate) round: u64,
    pub(crate) index: Index,
}

/// State that only a leader has.
#[derive(Debug)]
pub(crate) struct Reign {
    /// The first entry of this term, or the last that was there before.
    pub(crate) began: Index,
    /// The owner knows.
    pub(crate) announced: bool,
    pub(crate) peers: BTreeMap<VoterId, Peer>,
    /// The last round of beats that was begun.
    pub(crate) round: u64,
    /// Reads that wait, in the order of their rounds.
    pub(crate) reads: Vec<Waiting>,
    /// For peers that lack more than the log has.
    pub(crate) offer: Option<Offer>,
    /// Voter that is to take over, and until when it may.
    pub(crate) transferee: Option<(VoterId, Mono)>,
    /// Time when peers are to hear something.
    pub(crate) beat_at: Mono,
    /// Time when a majority must have been heard since the last time.
    pub(crate) check_at: Mono,
}

impl Reign {
    pub(crate) fn new(began: Index, now: Mono, config: &Config) -> Self {
        Self {
            began,
            announced: false,
            peers: BTreeMap::new(),
            round: 0,
            reads: Vec::new(),
            offer: None,
            transferee: None,
            beat_at: now.plus(config.beat),
            check_at: now.plus(config.election),
        }
    }

    pub(crate) fn deadline(&self) -> Mono {
        if self.peers.is_empty() { Mono::NEVER } else { self.beat_at.min(self.check_at) }
    }
}

/// The state that peers get which lack more than the log has.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) base: Base,
    pub(crate) crc: u32,
    pub(crate) data: Bytes,
}
