//! What a node remembers of others; `marks` has what it does with it.

use crate::types::{Hard, Index, Marks, Term, VoterId};
use node::Mono;
use std::collections::{BTreeMap, BTreeSet};

/// A start that nobody has confirmed yet.
#[derive(Debug)]
pub(crate) struct Unsure {
    pub(crate) since: Mono,
    pub(crate) answered: BTreeSet<VoterId>,
    /// Time when a leader was heard last.
    pub(crate) led: Option<Mono>,
}

/// Memory of a node about others, and what it has shown itself.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// True if it says and checks any of it.
    pub(crate) on: bool,
    /// True if its disk may keep marks.
    pub(crate) keeps: bool,
    pub(crate) life: u64,
    pub(crate) marks: Marks,
    /// Since when there are marks that the disk does not have.
    pub(crate) dirty: Option<Mono>,
    /// The hard state that is durable.
    pub(crate) durable: Hard,
    /// The last entry that it acknowledged, in this term.
    pub(crate) shown: (Term, Index),
    /// Starts of others.
    pub(crate) lives: BTreeMap<VoterId, u64>,
    pub(crate) unsure: Option<Unsure>,
    /// Members that spoke as if they had never given a promise that is remembered here, and since when. The next word
    /// that keeps it takes it back.
    pub(crate) forgetful: BTreeMap<VoterId, Mono>,
    /// Checksums of its own states, and of the leader's.
    pub(crate) own: BTreeMap<Index, u32>,
    pub(crate) leaders: BTreeMap<Index, u32>,
}

impl Memory {
    /// Returns what a disk knows; `life` 0: this node remembers nothing.
    pub(crate) fn new(life: u64, durable: Hard, marks: Marks) -> Self {
        Self { on: life != 0, life, marks, durable, ..Self::default() }
    }
}
