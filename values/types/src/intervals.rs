//! Sets of numbers (bytes of an object, snapshots) as disjoint ranges.

use denc::{Decode, DecodeError, Encode, Reader, Result, put_count};
use std::collections::BTreeMap;
use std::ops::Range;

/// A set of numbers, kept as maximal ranges: `start → end`, the end excluded. Encoded as a count and (start, length)
/// pairs. The number 2^64 - 1 cannot be in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intervals(BTreeMap<u64, u64>);

impl Intervals {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// One range, or nothing if that is empty.
    pub fn of(range: Range<u64>) -> Self {
        let mut set = Self::default();
        set.insert_range(range);
        set
    }

    /// Returns true if nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges in order.
    pub fn ranges(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + ExactSizeIterator + '_ {
        self.0.iter().map(|(s, e)| *s..*e)
    }

    /// The ranges in order, as (start, length).
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + ExactSizeIterator + '_ {
        self.0.iter().map(|(s, e)| (*s, e - s))
    }

    /// Returns how many numbers are in it.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(s, e)| e - s).sum()
    }

    /// The least number in it.
    pub fn first(&self) -> Option<u64> {
        self.0.keys().next().copied()
    }

    /// Returns true if `n` is in it.
    pub fn contains(&self, n: u64) -> bool {
        self.0.range(..=n).next_back().is_some_and(|(_, end)| n < *end)
    }

    /// Adds `len` numbers from `start` on; those that are in it already do no harm, and what is beyond 2^64 - 2 is left
    /// out.
    pub fn insert(&mut self, start: u64, len: u64) {
        self.insert_range(start..start.saturating_add(len));
    }

    /// Adds a range.
    pub fn insert_range(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        // Every range that overlaps or touches melts into the new one.
        while let Some((s, e)) = self.0.range(..=end).next_back().filter(|(_, e)| **e >= start).map(|(s, e)| (*s, *e)) {
            self.0.remove(&s);
            start = start.min(s);
            end = end.max(e);
        }
        self.0.insert(start, end);
    }

    /// Takes `len` numbers from `start` on out; those that are not in it do no harm.
    pub fn remove(&mut self, start: u64, len: u64) {
        self.remove_range(start..start.saturating_add(len));
    }

    /// Takes a range out.
    pub fn remove_range(&mut self, range: Range<u64>) {
        let Range { start, end } = range;
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

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        other.ranges().for_each(|range| self.insert_range(range));
    }

    /// Takes all of `other` out.
    pub fn subtract(&mut self, other: &Self) {
        other.ranges().for_each(|range| self.remove_range(range));
    }

    /// Returns what is in both.
    pub fn intersection(&self, other: &Self) -> Self {
        let mut outside = self.clone();
        outside.subtract(other);
        let mut both = self.clone();
        both.subtract(&outside);
        both
    }
}

impl FromIterator<(u64, u64)> for Intervals {
    /// From (start, length) pairs in any order.
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(pairs: I) -> Self {
        let mut set = Self::new();
        pairs.into_iter().for_each(|(start, len)| set.insert(start, len));
        set
    }
}

impl Encode for Intervals {
    fn encode(&self, out: &mut Vec<u8>) {
        put_count(out, self.0.len());
        for (start, len) in self.iter() {
            start.encode(out);
            len.encode(out);
        }
    }
}

impl Decode for Intervals {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut set = Self::new();
        for _ in 0..r.count(16)? {
            let (start, len) = (r.u64()?, r.u64()?);
            if start.checked_add(len).is_none() || len == 0 {
                return Err(DecodeError::Invalid("run of snapshots"));
            }
            set.insert(start, len);
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn next(x: &mut u64, n: u64) -> u64 {
        *x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*x >> 33) % n
    }

    fn walk(x: &mut u64) -> (Intervals, BTreeSet<u64>) {
        let (mut set, mut twin) = (Intervals::new(), BTreeSet::new());
        for _ in 0..12 {
            let (start, len) = (next(x, 40), next(x, 12));
            if next(x, 3) == 0 {
                set.remove(start, len);
                twin.retain(|n| !(start..start + len).contains(n));
            } else {
                set.insert(start, len);
                twin.extend(start..start + len);
            }
        }
        (set, twin)
    }

    #[test]
    fn behaves_like_a_set_of_numbers_and_keeps_ranges_maximal() {
        let numbers = |set: &Intervals| set.ranges().flatten().collect::<BTreeSet<u64>>();
        let mut x = 7;
        for _ in 0..500 {
            let ((a, twin), (b, other)) = (walk(&mut x), walk(&mut x));
            assert_eq!(numbers(&a), twin);
            assert_eq!(numbers(&a.intersection(&b)), &twin & &other);
            let (mut less, mut more) = (a.clone(), a.clone());
            less.subtract(&b);
            more.add(&b);
            assert_eq!((numbers(&less), numbers(&more)), (&twin - &other, &twin | &other));
            assert_eq!((a.total(), a.first()), (twin.len() as u64, twin.first().copied()));
            assert!((0..60).all(|n| a.contains(n) == twin.contains(&n)));
            let gaps = a.ranges().zip(a.ranges().skip(1)).all(|(one, next)| one.end < next.start);
            assert!(gaps, "ranges neither overlap nor touch: {a:?}");
            assert_eq!(a.iter().collect::<Intervals>(), a);
            assert_eq!(Intervals::from_bytes(&a.to_vec()), Ok(a));
        }
    }

    #[test]
    fn a_range_beyond_all_numbers_is_cut_when_made_and_refused_when_read() {
        assert_eq!(Intervals::from_iter([(u64::MAX - 3, 9)]).total(), 3);
        let forged = [&1u32.to_le_bytes()[..], &u64::MAX.to_le_bytes(), &2u64.to_le_bytes()].concat();
        assert!(Intervals::from_bytes(&forged).is_err());
    }
}
