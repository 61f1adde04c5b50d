//! The cache of what is known about objects, and of where their data is.

use super::Hashed;
use crate::block::Patch;
use crate::index::delta::Extent;
use crate::index::layer::Layer;
use crate::onode::Onode;
use bytes::Bytes;
use std::borrow::Borrow;
use std::hash::Hash;
use types::ObjectId;

/// What is known about an object: its onode (none if there is no such object) and its key in the index.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) key: Bytes,
    pub(crate) onode: Option<Onode>,
    /// The places of its first blocks (see [`crate::block::RANGE`]) and the number of flips when they were read. With
    /// the onode this is all that a read of a small object must know.
    pub(crate) first: Option<(u64, Patch)>,
}

/// A cache of two generations. When the newer one is full, the older one goes as a whole.
pub(crate) struct Generations<K, V> {
    young: Hashed<K, V>,
    old: Hashed<K, V>,
    /// Generations on their way out, because there is less memory than there was.
    leaving: Option<Leaving<K, V>>,
    limit: usize,
}

#[allow(clippy::disallowed_types)]
type Leaving<K, V> = hashbrown::hash_map::IntoIter<K, V>;

/// The cache of onodes. Boxed: a table that doubles takes new memory for all its slots, and new memory is dear (see
/// [`growth`]).
pub(crate) type OnodeCache = Generations<ObjectId, Box<Known>>;
/// The cache of ranges: the places of an object's blocks by onode and range, with the number of flips when they were
/// read. The first range is with the onode.
pub(crate) type RangeCache = Generations<Extent, (u64, Patch)>;

impl<K: Hash + Eq, V> Generations<K, V> {
    /// Makes an empty cache of about `limit` entries.
    pub(crate) fn new(limit: usize) -> Self {
        Self { young: Hashed::default(), old: Hashed::default(), leaving: None, limit: limit.max(16) }
    }

    /// Sets the bound to about `limit` entries.
    pub(crate) fn resize(&mut self, limit: usize) {
        self.limit = limit.max(16);
        if self.len() > self.limit {
            self.shed();
        }
    }

    /// Sends the older generation on its way out, unless another one still is.
    pub(crate) fn shed(&mut self) {
        if self.leaving.is_none() {
            let oldest = if self.old.is_empty() { &mut self.young } else { &mut self.old };
            self.leaving = Some(std::mem::take(oldest).into_iter());
        }
    }

    /// Drops up to `most` entries that are on their way out, and says whether there are more.
    pub(crate) fn let_go(&mut self, most: usize) -> bool {
        if self.leaving.as_mut().is_some_and(|leaving| leaving.by_ref().take(most).count() < most) {
            self.leaving = None;
        }
        self.leaving.is_some()
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Entries that the cache could still keep.
    pub(crate) fn unused(&self) -> usize {
        self.limit.saturating_sub(self.len())
    }

    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        if !self.young.contains_key(key) {
            let (key, value) = self.old.remove_entry(key)?;
            self.put(key, value);
        }
        self.young.get_mut(key)
    }

    pub(crate) fn put(&mut self, key: K, value: V) {
        self.old.remove(&key);
        if self.young.len() >= self.limit / 2 && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    pub(crate) fn forget(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }

    pub(crate) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }
}

impl RangeCache {
    /// Applies a transaction's changes to what is cached. `epoch`: the number of flips so far.
    pub(crate) fn follow(&mut self, changes: &Layer<Extent, Patch>, epoch: u64) {
        const FEW: u32 = 4096;
        for ((id, from), (last, to)) in changes.ranges() {
            // A range over all of an id removes its object, and the id will never be used again.
            if id == last && to - from <= FEW {
                (*from..*to).for_each(|range| self.forget(&(*id, range)));
            } else if id == last {
                self.clear();
            }
        }
        for (key, patch) in changes.iter().filter(|((_, range), _)| *range > 0) {
            let Some((at, known)) = self.get(key) else { continue };
            if *at == epoch {
                let mut now = patch.clone();
                now.fill_from(known);
                *known = now;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_of_generations_keeps_what_is_used() {
        let name = |hash| ObjectId::whole(types::HObject::start_of_hash(1, hash));
        let mut onodes = OnodeCache::new(20);
        for i in 0..100 {
            onodes.put(name(i), Box::new(Known { key: Bytes::new(), onode: None, first: None }));
            onodes.get(&name(0));
            assert!(onodes.young.len() + onodes.old.len() <= 20);
        }
        assert!(onodes.get(&name(0)).is_some());
    }

    #[test]
    fn entries_go_a_few_at_a_time_when_there_is_less_room() {
        let mut cache = Generations::new(1000);
        (0..1000).for_each(|i| cache.put(i, i));
        cache.resize(600);
        assert_eq!((cache.len(), cache.get(&3).copied()), (500, None));
        assert!(cache.let_go(300));
        cache.resize(16);
        assert_eq!((cache.len(), cache.let_go(300)), (500, false));
        cache.resize(16);
        assert_eq!((cache.len(), cache.let_go(499), cache.let_go(499)), (0, true, false));
        cache.put(1, 1);
        assert_eq!(cache.get(&1).copied(), Some(1));
    }
}
