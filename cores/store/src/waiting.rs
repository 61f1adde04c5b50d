//! Transactions that wait to be carried out: for something to be read, or behind another that does.
//!
//! They are carried out in their order, as far as scopes and objects are concerned: none overtakes one of its scope, or one that changes
//! an object of it.

use crate::cache::hash_object;
use crate::names::{objects_of, plain};
use crate::wish::Owner;
use node::Mono;
use objectstore::{Ticket, Transaction};
use std::collections::{BTreeSet, VecDeque};
use types::SpgId;

/// A transaction that waits.
#[derive(Debug)]
pub(crate) struct Stalled {
    pub(crate) id: u64,
    pub(crate) transaction: Transaction,
    pub(crate) ticket: Ticket,
    /// Blocks of data that it may need, counted as used.
    blocks: u64,
    /// Its objects, as hashes: a collision only makes one wait that need not.
    objects: Vec<u64>,
    /// True if it waits for its turn only, not for something to be read.
    pub(crate) runnable: bool,
    /// It needs a page of the index that is damaged.
    pub(crate) hurt: bool,
    /// Who waits for it.
    waiters: Vec<Owner>,
    pub(crate) submitted: Mono,
}

impl Stalled {
    /// Blocks of data that it may need.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns who waits for it, now that it is carried out.
    pub(crate) fn into_waiters(self) -> Vec<Owner> {
        self.waiters
    }
}

/// Scopes and objects of transactions that still wait: what comes behind them must wait, too.
#[derive(Debug, Default)]
pub(crate) struct Barrier {
    scopes: BTreeSet<SpgId>,
    objects: BTreeSet<u64>,
}

impl Barrier {
    /// Returns true if the transaction must wait behind another.
    pub(crate) fn holds(&self, stalled: &Stalled) -> bool {
        self.scopes.contains(&stalled.transaction.scope) || stalled.objects.iter().any(|o| self.objects.contains(o))
    }
}

/// The queue of them.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    queue: VecDeque<Stalled>,
    /// Number that there ever were.
    numbered: u64,
    /// True if a turn ended before it had looked at all of them.
    pub(crate) more: bool,
}

impl Waiting {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Blocks of data that all of them may need.
    pub(crate) fn blocks(&self) -> u64 {
        self.queue.iter().map(|s| s.blocks).sum()
    }

    /// Takes one more. Gives its number, from 1 on.
    pub(crate) fn push(&mut self, transaction: Transaction, ticket: Ticket, blocks: u64, runnable: bool, submitted: Mono) -> u64 {
        self.numbered += 1;
        let (id, objects) = (self.numbered, hashes(&transaction));
        self.queue.push_back(Stalled {
            id,
            transaction,
            ticket,
            blocks,
            objects,
            runnable,
            hurt: false,
            waiters: Vec::new(),
            submitted,
        });
        id
    }

    /// Returns true if this transaction must wait behind one that waits.
    pub(crate) fn conflicts(&self, transaction: &Transaction) -> bool {
        if self.queue.is_empty() {
            return false;
        }
        let objects = hashes(transaction);
        let conflicts = |s: &Stalled| s.transaction.scope == transaction.scope || objects.iter().any(|o| s.objects.contains(o));
        self.queue.iter().any(conflicts)
    }

    /// The newest one that `touches` takes.
    pub(crate) fn newest(&self, touches: impl Fn(&Transaction) -> bool) -> Option<u64> {
        self.queue.iter().rev().find(|s| touches(&s.transaction)).map(|s| s.id)
    }

    /// `owner` is told when this one is carried out. False if it does not wait any more.
    pub(crate) fn tell(&mut self, id: u64, owner: Owner) -> bool {
        let found = self.queue.iter_mut().find(|s| s.id == id);
        found.map(|s| s.waiters.push(owner)).is_some()
    }

    /// This one needs a damaged page.
    pub(crate) fn set_hurt(&mut self, id: u64) {
        if let Some(stalled) = self.queue.iter_mut().find(|s| s.id == id) {
            (stalled.runnable, stalled.hurt) = (false, true);
        }
    }

    /// All that this one lacked was read.
    pub(crate) fn set_runnable(&mut self, id: u64) {
        if let Some(stalled) = self.queue.iter_mut().find(|s| s.id == id) {
            stalled.runnable = true;
        }
    }

    /// Those that need a damaged page are to be tried again.
    pub(crate) fn hurt(&mut self) -> impl Iterator<Item = &mut Stalled> {
        self.queue.iter_mut().filter(|stalled| stalled.hurt)
    }

    /// Takes all of them out, in order, to look at each; those that wait on are put back with [`Self::put_back`].
    pub(crate) fn take_all(&mut self) -> VecDeque<Stalled> {
        std::mem::take(&mut self.queue)
    }

    /// A turn has no time for these: the next one looks at them.
    pub(crate) fn put_back_rest(&mut self, rest: VecDeque<Stalled>) {
        self.more = true;
        self.queue.extend(rest);
    }

    /// This one waits on, and what comes behind it and concerns the same.
    pub(crate) fn put_back(&mut self, stalled: Stalled, barrier: &mut Barrier) {
        barrier.scopes.insert(stalled.transaction.scope);
        barrier.objects.extend(&stalled.objects);
        self.queue.push_back(stalled);
    }
}

/// A transaction's objects, as numbers.
fn hashes(transaction: &Transaction) -> Vec<u64> {
    objects_of(&transaction.objects).map(|o| hash_object(&plain(o))).collect()
}
