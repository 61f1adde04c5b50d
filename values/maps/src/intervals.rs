//! Sets of snapshot numbers as runs.

use denc::{Decode, DecodeError, Encode, Reader, Result, put_count};
use std::collections::BTreeMap;

/// A set of numbers, kept as maximal runs: `start → length`. Encoded as a count and (start, length) pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapIntervals {
    runs: BTreeMap<u64, u64>,
}

impl SnapIntervals {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The runs in order, as (start, length).
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.runs.iter().map(|(s, l)| (*s, *l))
    }

    /// How many numbers are in it.
    pub fn len(&self) -> u64 {
        self.runs.values().sum()
    }

    /// How many runs it has.
    pub fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// Whether `n` is in it.
    pub fn contains(&self, n: u64) -> bool {
        self.runs.range(..=n).next_back().is_some_and(|(s, l)| n - s < *l)
    }

    /// Whether all of `start..start + len` is in it.
    pub fn contains_run(&self, start: u64, len: u64) -> bool {
        let run = self.runs.range(..=start).next_back();
        run.is_some_and(|(s, l)| start - s < *l && len <= *l - (start - s))
    }

    /// Adds `start..start + len`; parts that are in it already do no harm. `start + len` must not exceed 2^64 - 1.
    pub fn insert(&mut self, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        let (mut from, mut to) = (start, start + len);
        // Every run that overlaps or touches melts into the new one.
        while let Some((&s, &l)) = self.runs.range(..=to).next_back() {
            if s + l < from {
                break;
            }
            from = from.min(s);
            to = to.max(s + l);
            self.runs.remove(&s);
        }
        self.runs.insert(from, to - from);
    }

    /// Removes `start..start + len`; parts that are not in it do no harm. `start + len` must not exceed 2^64 - 1.
    pub fn remove(&mut self, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        let end = start + len;
        while let Some((&s, &l)) = self.runs.range(..end).next_back().filter(|(s, l)| *s + *l > start) {
            self.runs.remove(&s);
            if s + l > end {
                self.runs.insert(end, s + l - end);
            }
            if s < start {
                self.runs.insert(s, start - s);
            }
        }
    }

    /// Adds all of `other`.
    pub fn union_with(&mut self, other: &Self) {
        other.iter().for_each(|(s, l)| self.insert(s, l));
    }

    /// Removes all of `other`.
    pub fn subtract(&mut self, other: &Self) {
        other.iter().for_each(|(s, l)| self.remove(s, l));
    }
}

impl FromIterator<(u64, u64)> for SnapIntervals {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(runs: I) -> Self {
        let mut set = Self::new();
        runs.into_iter().for_each(|(s, l)| set.insert(s, l));
        set
    }
}

impl Encode for SnapIntervals {
    fn encode(&self, out: &mut Vec<u8>) {
        put_count(out, self.runs.len());
        for (start, len) in &self.runs {
            start.encode(out);
            len.encode(out);
        }
    }
}

impl Decode for SnapIntervals {
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

    /// A random walk of inserts and removes against a plain set.
    #[test]
    fn behaves_like_a_set_of_numbers_and_keeps_runs_maximal() {
        let (mut runs, mut plain, mut x) = (SnapIntervals::new(), BTreeSet::new(), 1u64);
        for _ in 0..3000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (start, len) = (x >> 40 & 63, x >> 50 & 7);
            if x >> 60 & 1 == 0 {
                runs.insert(start, len);
                plain.extend(start..start + len);
            } else {
                runs.remove(start, len);
                plain.retain(|n| !(start..start + len).contains(n));
            }
            let listed: Vec<u64> = runs.iter().flat_map(|(s, l)| s..s + l).collect();
            assert_eq!(listed, plain.iter().copied().collect::<Vec<_>>());
            assert!((0..72).all(|n| runs.contains(n) == plain.contains(&n)));
            let all = (start..start + len.max(1)).all(|n| plain.contains(&n));
            assert_eq!(runs.contains_run(start, len.max(1)), all);
            let gaps = runs.iter().zip(runs.iter().skip(1)).all(|((s, l), (next, _))| s + l < next);
            assert!(gaps, "{runs:?}");
            assert_eq!(SnapIntervals::from_bytes(&runs.to_vec()), Ok(runs.clone()));
        }
    }
}
