//! What a job gets of other shards.
//!
//! *Data and owner.* A job that misses parts of other shards has an [`Asking`]: what came, and how many answers are to
//! come. The questions themselves are among the primary's ([`crate::questions`]), by their numbers. Both end with the
//! interval.
//!
//! *Invariant.* The job holds its object's lane until all have answered. So nothing happens to the object meanwhile, and
//! what came is of the version that the job sees.

use crate::pieces::{Pieces, Want};
use std::collections::BTreeSet;
use types::{HObject, Rope};

/// Parts that a job got of other shards, and waits for.
#[derive(Default)]
pub(crate) struct Asking {
    pub(crate) pieces: Pieces,
    /// Questions that are not answered.
    pub(crate) open: usize,
    /// It waits for its own store, too.
    pub(crate) fetching: bool,
}

impl Asking {
    /// Takes the answer of a copy. Returns the objects of which it cannot give what was asked for: these shards are given up.
    pub(crate) fn hear(&mut self, wants: Vec<Want>, parts: Option<Vec<Rope>>) -> Vec<HObject> {
        self.open -= 1;
        let fits = |parts: &Vec<Rope>| {
            let same = |(want, part): (&Want, &Rope)| part.len() as u64 == want.range.end - want.range.start;
            parts.len() == wants.len() && wants.iter().zip(parts).all(same)
        };
        if let Some(parts) = parts.filter(fits) {
            wants.into_iter().zip(parts).for_each(|(want, part)| self.pieces.add(want, part));
            return Vec::new();
        }
        wants.iter().for_each(|want| self.pieces.give_up(&want.object, want.shard));
        let objects: BTreeSet<HObject> = wants.iter().map(|want| HObject::clone(&want.object)).collect();
        objects.into_iter().collect()
    }

    /// Returns true if something is still to come.
    pub(crate) fn waits(&self) -> bool {
        self.open > 0 || self.fetching
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use types::{EVersion, ShardId};

    #[test]
    fn an_answer_counts_if_it_has_all_that_was_wanted() {
        let want = |range| Want { object: Arc::default(), version: EVersion::new(1, 1), shard: ShardId(1), range };
        let wants = || vec![want(0..4), want(8..10)];
        let part = |n: usize| Rope::from(vec![7; n]);
        let mut asking = Asking { open: 2, fetching: true, ..Asking::default() };
        assert!(asking.hear(wants(), Some(vec![part(4), part(2)])).is_empty());
        assert!(asking.waits());
        assert_eq!(asking.pieces.read(&want(8..10)), Ok(part(2)));
        for odd in [None, Some(vec![part(4)]), Some(vec![part(4), part(1)]), Some(vec![part(4), part(3)])] {
            let mut asking = Asking { open: 1, ..Asking::default() };
            assert_eq!(asking.hear(wants(), odd), [HObject::default()]);
            assert!(!asking.waits() && asking.pieces.is_given_up(&Arc::default(), ShardId(1)));
            assert!(asking.pieces.read(&want(0..4)).is_err(), "nothing of it is taken");
        }
    }
}
