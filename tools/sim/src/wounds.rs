//! Old data that turn out to be damaged while a store carries a change out: what the product's store does then ([`Event::Damaged`]),
//! over any store, so that a judge can look at the objects.
//!
//! The object is not what was written from then on, and cannot be read, until it is removed or replaced as a whole.

use crate::cluster::TOLD;
use crate::rng::Rng;
use bytes::Bytes;
use objectstore::{Damage, ObjectChange, ObjectChanges, Read, Transaction, Unread};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use types::ObjectId;

/// Objects that cannot be read, whoever opens the store.
pub(crate) type Bad = Rc<RefCell<BTreeSet<ObjectId>>>;

/// What damages a store.
pub(crate) struct Wounds {
    bad: Bad,
    /// One of so many changes of what is there.
    one_in: u64,
    rng: Rng,
    /// Objects of which the store has told that they have rotted.
    told: BTreeSet<ObjectId>,
}

/// Returns true if a change leaves nothing of what was there.
fn replaces(change: &ObjectChange) -> bool {
    matches!(change, ObjectChange::Remove | ObjectChange::CloneOf(_) | ObjectChange::TakeOver(_))
}

/// Makes other bytes of those that are written. There are as many: an object's size is in its record, which is not damaged.
fn spoil(change: &mut ObjectChange) {
    if let ObjectChange::Write(_, data) = change {
        let rot: Vec<u8> = b"this is rot".iter().copied().cycle().take(data.len()).collect();
        *data = Bytes::from(rot).into();
    }
}

fn damage(object: &ObjectId) -> Unread {
    Unread::Damaged(Damage { what: format!("{object:?}"), offset: 0, expected: 1, found: 2 })
}

impl Wounds {
    pub(crate) fn new(bad: Bad, one_in: u64, seed: u64) -> Self {
        Self { bad, one_in, rng: Rng::new(seed), told: BTreeSet::new() }
    }

    /// Damages what a transaction changes, now and then. Gives the objects of which the store must tell it.
    pub(crate) fn harm(&mut self, transaction: &mut Transaction) -> Vec<ObjectId> {
        let mut told = Vec::new();
        for of in transaction.objects.iter_mut().filter(|of| of.object.pool >= 0) {
            if self.is_harmed(of) {
                told.push(of.object.clone());
            }
        }
        told
    }

    fn is_harmed(&mut self, of: &mut ObjectChanges) -> bool {
        let mut bad = self.bad.borrow_mut();
        let source = of.changes.iter().rev().find_map(|change| match change {
            ObjectChange::Remove => Some(false),
            ObjectChange::CloneRange(..) => None,
            change => change.source().map(|source| bad.contains(source)),
        });
        let written = of.changes.iter().any(|change| matches!(change, ObjectChange::Write(..)));
        let harmed = match source {
            Some(of_bad) => {
                bad.remove(&of.object);
                of_bad
            }
            None => written && (bad.contains(&of.object) || self.one_in < TOLD && self.rng.one_in(self.one_in)),
        };
        if harmed {
            of.changes.iter_mut().for_each(spoil);
            bad.insert(of.object.clone());
        }
        harmed
    }

    /// The next object of which the store tells that it has rotted, if it tells that at all.
    pub(crate) fn tell(&mut self) -> Option<ObjectId> {
        if self.one_in != TOLD {
            return None;
        }
        let bad = self.bad.borrow();
        self.told.retain(|object| bad.contains(object));
        let next = bad.iter().find(|object| !self.told.contains(object)).cloned()?;
        self.told.insert(next.clone());
        Some(next)
    }

    /// Returns what a read of an object's data finds.
    pub(crate) fn look(&self, object: &ObjectId) -> Read<()> {
        if self.bad.borrow().contains(object) { Err(damage(object)) } else { Ok(()) }
    }

    /// Returns what a rehearsal finds.
    pub(crate) fn rehearse(&self, objects: &[ObjectChanges]) -> Read<()> {
        let needs_old = |of: &&ObjectChanges| !of.changes.first().is_some_and(replaces);
        objects.iter().filter(needs_old).try_for_each(|of| self.look(&of.object))
    }
}
