//! One layer of the delta: an ordered map of changes, and range tombstones that hide everything below.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Changes in order of keys, over the layers and the tree below.
#[derive(Clone, Debug)]
pub(crate) struct Layer<K, V> {
    map: BTreeMap<K, V>,
    /// Disjoint ranges, start → end (excluded), in which lower layers are hidden.
    tombs: BTreeMap<K, K>,
}

impl<K: Ord + Clone, V> Default for Layer<K, V> {
    fn default() -> Self {
        Self { map: BTreeMap::new(), tombs: BTreeMap::new() }
    }
}

impl<K: Ord + Clone, V> Layer<K, V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.map.is_empty() && self.tombs.is_empty()
    }

    /// Number of changes, range tombstones included.
    pub(crate) fn len(&self) -> usize {
        self.map.len() + self.tombs.len()
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.map.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.map.get_mut(key)
    }

    pub(crate) fn put(&mut self, key: K, value: V) -> Option<V> {
        self.map.insert(key, value)
    }

    /// Says whether lower layers are hidden at `key`. If so, gives the end of the range that hides them.
    pub(crate) fn hidden<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&K>
    where
        K: Borrow<Q>,
    {
        if self.tombs.is_empty() {
            return None;
        }
        let (_, end) = self.tombs.range((Bound::Unbounded, Bound::Included(key))).next_back()?;
        (key < end.borrow()).then_some(end)
    }

    /// Removes everything in `from..to`, here and below.
    pub(crate) fn remove_range(&mut self, from: K, to: K) {
        if from >= to {
            return;
        }
        let keys: Vec<K> = self.map.range(&from..&to).map(|(k, _)| k.clone()).collect();
        keys.iter().for_each(|k| drop(self.map.remove(k)));
        let (mut from, mut to) = (from, to);
        // Range tombstones that touch the new one become part of it.
        if let Some((start, end)) = self.tombs.range(..=&from).next_back()
            && *end >= from
        {
            (from, to) = (start.clone(), to.max(end.clone()));
        }
        let inside: Vec<K> = self.tombs.range(&from..=&to).map(|(k, _)| k.clone()).collect();
        for start in inside {
            let end = self.tombs.remove(&start).expect("just seen");
            to = to.max(end);
        }
        self.tombs.insert(from, to);
    }

    /// Gives the changes at `from` or later, in order.
    pub(crate) fn iter_from<Q: Ord + ?Sized>(&self, from: &Q) -> std::collections::btree_map::Range<'_, K, V>
    where
        K: Borrow<Q>,
    {
        self.map.range((Bound::Included(from), Bound::Unbounded))
    }

    /// Gives all changes in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.map.iter()
    }

    /// Gives all range tombstones in order.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (&K, &K)> {
        self.tombs.iter()
    }

    /// Drops it entry by entry.
    pub(crate) fn dismantle(self) -> impl Iterator<Item = ()> + Send
    where
        K: Send,
        V: Send,
    {
        self.map.into_iter().map(drop).chain(self.tombs.into_iter().map(drop))
    }

    /// Says whether there are range tombstones.
    pub(crate) fn has_ranges(&self) -> bool {
        !self.tombs.is_empty()
    }

    /// Says whether a change or a range tombstone touches `from..to`. `to` none is the end of all keys.
    pub(crate) fn touches(&self, from: &K, to: Option<&K>) -> bool {
        let before = |k: &K| to.is_none_or(|to| k < to);
        self.map.range(from..).next().is_some_and(|(k, _)| before(k))
            || self.tombs.range(from..).next().is_some_and(|(k, _)| before(k))
            || self.tombs.range(..from).next_back().is_some_and(|(_, end)| end > from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_a_plain_map_over_a_full_base() {
        let mut x = 1u64;
        let mut next = |n: u64| {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (x >> 33) % n
        };
        for _ in 0..300 {
            let mut layer = Layer::<u64, u64>::default();
            let mut twin: Vec<u64> = (0..64).map(|_| 1).collect();
            for step in 0..30 {
                let (a, b) = (next(64), next(64));
                if next(3) == 0 {
                    layer.remove_range(a, b);
                    (a..b).for_each(|i| twin[i as usize] = 0);
                } else {
                    layer.put(a, step + 2);
                    twin[a as usize] = step + 2;
                }
            }
            for (i, want) in twin.iter().enumerate() {
                let key = i as u64;
                let got = layer.get(&key).copied().unwrap_or(if layer.hidden(&key).is_some() { 0 } else { 1 });
                assert_eq!(got, *want);
                assert_eq!(layer.touches(&key, Some(&(key + 1))), layer.get(&key).is_some() || layer.hidden(&key).is_some());
            }
            let ends: Vec<_> = layer.ranges().collect();
            assert!(ends.windows(2).all(|w| w[0].1 < w[1].0), "ranges are disjoint and do not touch");
        }
    }
}
