//! Sets of byte (or snapshot) numbers as disjoint ranges.

use std::collections::BTreeMap;

/// Disjoint ranges that do not touch, start → end (excluded).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Intervals(BTreeMap<u64, u64>);

impl Intervals {
    /// The one range `start..end`, or nothing if that is empty.
    pub(crate) fn of(start: u64, end: u64) -> Self {
        let mut set = Self::default();
        set.insert(start, end);
        set
    }

    /// From `(start, length)` pairs in any order.
    pub(crate) fn from_lengths(pairs: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut set = Self::default();
        for (start, len) in pairs {
            set.insert(start, start.saturating_add(len));
        }
        set
    }

    /// `(start, length)` pairs in order.
    pub(crate) fn lengths(&self) -> Vec<(u64, u64)> {
        self.0.iter().map(|(s, e)| (*s, e - s)).collect()
    }

    /// `(start, end)` pairs in order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        self.0.iter().map(|(s, e)| (*s, *e))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many numbers are in it.
    pub(crate) fn total(&self) -> u64 {
        self.0.iter().map(|(s, e)| e - s).sum()
    }

    /// Whether `n` is in one of them.
    pub(crate) fn contains(&self, n: u64) -> bool {
        self.0.range(..=n).next_back().is_some_and(|(_, end)| n < *end)
    }

    pub(crate) fn first(&self) -> Option<u64> {
        self.0.keys().next().copied()
    }

    /// Adds `start..end`.
    pub(crate) fn insert(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        while let Some((s, e)) = self.0.range(..=end).next_back().filter(|(_, e)| **e >= start).map(|(s, e)| (*s, *e)) {
            self.0.remove(&s);
            start = start.min(s);
            end = end.max(e);
        }
        self.0.insert(start, end);
    }

    /// Takes `start..end` out.
    pub(crate) fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        while let Some((s, e)) = self.0.range(..end).next_back().filter(|(_, e)| **e > start).map(|(s, e)| (*s, *e)) {
            self.0.remove(&s);
            if s < start {
                self.0.insert(s, start);
            }
            if end < e {
                self.0.insert(end, e);
            }
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (s, e) in other.iter() {
            self.insert(s, e);
        }
    }

    pub(crate) fn subtract(&mut self, other: &Self) {
        for (s, e) in other.iter() {
            self.remove(s, e);
        }
    }

    /// What is in both.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let mut outside = self.clone();
        outside.subtract(other);
        let mut both = self.clone();
        both.subtract(&outside);
        both
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn behaves_like_a_set_of_numbers() {
        let mut seed = 7u64;
        let mut next = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for _ in 0..300 {
            let (mut a, mut twin) = (Intervals::default(), BTreeSet::new());
            let (mut b, mut twin_b) = (Intervals::default(), BTreeSet::new());
            for _ in 0..12 {
                let (s, e) = (next(40), next(40));
                if next(3) == 0 {
                    a.remove(s, e);
                    twin.retain(|n| !(s..e).contains(n));
                } else {
                    a.insert(s, e);
                    twin.extend(s..e.max(s));
                }
                let (s, e) = (next(40), next(40));
                b.insert(s, e);
                twin_b.extend(s..e.max(s));
            }
            let numbers = |set: &Intervals| set.iter().flat_map(|(s, e)| s..e).collect::<BTreeSet<u64>>();
            assert_eq!(numbers(&a), twin);
            assert_eq!(numbers(&a.intersection(&b)), &twin & &twin_b);
            let mut less = a.clone();
            less.subtract(&b);
            assert_eq!(numbers(&less), &twin - &twin_b);
            assert_eq!(a.total(), twin.len() as u64);
            assert!((0..41).all(|n| a.contains(n) == twin.contains(&n)));
            let pairs: Vec<_> = a.iter().collect();
            assert!(pairs.windows(2).all(|w| w[0].1 < w[1].0), "ranges neither overlap nor touch: {pairs:?}");
        }
    }
}
