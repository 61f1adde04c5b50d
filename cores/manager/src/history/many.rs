//! The last day of things of which there are many, and of which the busiest count: images, OSDs.
//!
//! A row is a thing with some figures, each a ring of steps of [`STEP_SECS`]. A step is the mean of what was seen in it. The first figure of a
//! thing that rests is zero, so a mean of that is one over all of the time; other figures are not known while it rests.
//!
//! *Bounds*: a table has room for so many rows. When it is full, who is busier now than the idlest row was in the whole day takes its place, of
//! [`NEWCOMERS`] at a look at most: so things that come and go do not push each other out all day. A row in which nothing was seen for a day goes.
//!
//! *Only in memory*: another leader begins with nothing.

use super::ring::Ring;
use std::collections::BTreeMap;

/// Seconds of a step, and how many there are: a day.
pub(super) const STEP_SECS: u64 = 300;
const STEPS: usize = 288;
/// Most rows that give their place to others at one look.
const NEWCOMERS: usize = 16;

/// A table of things `K` with `N` figures each. The first figure says how busy a thing is.
#[derive(Clone, Debug)]
pub(super) struct Many<K, const N: usize> {
    rows: BTreeMap<K, Row<N>>,
    most: usize,
}

#[derive(Clone, Debug)]
struct Row<const N: usize> {
    rings: [Ring; N],
    /// The step that is being filled; for each figure the sum of what was seen in it, and how often.
    step: u64,
    filling: [(f64, u32); N],
}

impl<const N: usize> Row<N> {
    fn new() -> Self {
        Self { rings: std::array::from_fn(|_| Ring::new(STEPS)), step: 0, filling: [(0.0, 0); N] }
    }

    fn see(&mut self, step: u64, values: &[f64; N]) {
        if step != self.step {
            (self.step, self.filling) = (step, [(0.0, 0); N]);
        }
        for (((sum, count), value), ring) in self.filling.iter_mut().zip(values).zip(&mut self.rings) {
            if value.is_finite() {
                (*sum, *count) = (*sum + value, *count + 1);
                ring.put(step, *sum / f64::from(*count));
            }
        }
    }

    /// Load of it: a mean over all steps of the day, those before it was known among them.
    fn weight(&self, step: u64) -> f64 {
        let from = (step + 1).saturating_sub(STEPS as u64);
        self.rings[0].mean(from..step + 1).unwrap_or(0.0) * self.rings[0].known() as f64 / STEPS as f64
    }
}

impl<K: Ord + Clone, const N: usize> Many<K, N> {
    /// An empty table with room for so many rows.
    pub(super) fn new(most: usize) -> Self {
        Self { rows: BTreeMap::new(), most }
    }

    /// Returns the most bytes that all rings of a table take.
    pub(super) fn bytes_at_most(most: usize) -> usize {
        most * N * STEPS * size_of::<f32>()
    }

    /// Takes what is seen at a time, in seconds, of things that do something; the busiest first. What is no number is not known. Rows that are not among them rest. `lives` says
    /// whether a thing is there at all.
    pub(super) fn look(&mut self, secs: u64, seen: &[(K, [f64; N])], lives: impl Fn(&K) -> bool) {
        let step = secs / STEP_SECS;
        self.rows.retain(|key, row| lives(key) && row.rings[0].newest().is_none_or(|_| row.weight(step) > 0.0));
        let mut strangers = seen.iter().filter(|(key, _)| lives(key) && !self.rows.contains_key(key));
        let room = self.most.saturating_sub(self.rows.len());
        let mut new: Vec<K> = strangers.by_ref().take(room).map(|(key, _)| key.clone()).collect();
        let waiting: Vec<(K, f64)> = strangers.take(NEWCOMERS).map(|(key, values)| (key.clone(), values[0])).collect();
        if !waiting.is_empty() {
            let mut idle: Vec<(f64, K)> = self.rows.iter().map(|(key, row)| (row.weight(step), key.clone())).collect();
            idle.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
            for ((weight, idle), (key, busy)) in idle.into_iter().zip(waiting) {
                if busy <= weight {
                    break;
                }
                self.rows.remove(&idle);
                new.push(key);
            }
        }
        new.into_iter().for_each(|key| drop(self.rows.insert(key, Row::new())));
        let of: BTreeMap<&K, &[f64; N]> = seen.iter().map(|(key, values)| (key, values)).collect();
        let rests = std::array::from_fn(|figure| if figure == 0 { 0.0 } else { f64::NAN });
        for (key, row) in &mut self.rows {
            row.see(step, of.get(key).copied().unwrap_or(&rests));
        }
    }

    /// The means of a figure of a thing: so many of the last steps of so many seconds, the oldest first. None of a thing that is no row.
    pub(super) fn told(&self, key: &K, figure: usize, secs: u64, count: u64, of: u64) -> Option<Vec<Option<f64>>> {
        let ring = &self.rows.get(key)?.rings[figure];
        let (per, last) = (of / STEP_SECS, secs / of);
        Some((last.saturating_sub(count)..last).map(|at| ring.mean(at * per..(at + 1) * per)).collect())
    }

    /// The mean of a figure over the last day, and the largest step of it.
    pub(super) fn day(&self, key: &K, figure: usize) -> Option<(f64, f64)> {
        let ring = &self.rows.get(key)?.rings[figure];
        let newest = ring.newest()?;
        let all = (newest + 1).saturating_sub(STEPS as u64)..newest + 1;
        let most = all.clone().filter_map(|step| ring.mean(step..step + 1)).fold(0.0, f64::max);
        Some((ring.mean(all)?, most))
    }

    /// Seconds of which something is known of a thing.
    pub(super) fn known(&self, key: &K) -> u64 {
        self.rows.get(key).map_or(0, |row| row.rings[0].known() as u64 * STEP_SECS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of three rows, after a time in which each of some things did so much a second.
    fn lived(table: &mut Many<&'static str, 1>, from: u64, until: u64, things: &[(&'static str, f64)]) {
        let seen: Vec<_> = things.iter().map(|(key, value)| (*key, [*value])).collect();
        (from..until).step_by(10).for_each(|secs| table.look(secs, &seen, |_| true));
    }

    #[test]
    fn the_busiest_stay_and_what_rests_for_a_day_goes() {
        let mut table = Many::new(3);
        lived(&mut table, 0, 36_000, &[("a", 9.0), ("b", 5.0), ("c", 1.0)]);
        // Somebody who is hardly busy takes nobody's place; somebody who is takes that of the idlest.
        lived(&mut table, 36_000, 36_600, &[("a", 9.0), ("b", 5.0), ("c", 1.0), ("d", 0.1)]);
        assert_eq!(table.rows.keys().copied().collect::<Vec<_>>(), ["a", "b", "c"]);
        lived(&mut table, 36_600, 37_200, &[("e", 50.0), ("a", 9.0)]);
        assert_eq!(table.rows.keys().copied().collect::<Vec<_>>(), ["a", "b", "e"]);
        let told = table.told(&"b", 0, 37_200, 3, 600).unwrap();
        assert_eq!(told, [Some(5.0), Some(5.0), Some(0.0)], "who rests is seen as zero");
        assert_eq!(table.day(&"e", 0), Some((50.0, 50.0)));
        assert_eq!(table.told(&"c", 0, 37_200, 3, 600), None);
        lived(&mut table, 37_200, 37_200 + 86_400 + 600, &[("e", 50.0)]);
        assert_eq!(table.rows.keys().copied().collect::<Vec<_>>(), ["e"]);
        assert_eq!(table.known(&"e"), 86_400);
        table.look(200_000, &[], |_| false);
        assert!(table.rows.is_empty(), "what is gone has no history");
    }

    #[test]
    fn a_table_has_a_bound_whoever_comes() {
        let mut table: Many<u64, 2> = Many::new(50);
        for secs in 0..400 {
            let seen: Vec<_> = (0..100).map(|n| (secs * 100 + n, [n as f64 + secs as f64, 1.0])).collect();
            table.look(secs * 10, &seen, |_| true);
            assert!(table.rows.len() <= 50);
        }
        assert_eq!(Many::<u64, 2>::bytes_at_most(50), 50 * 2 * 288 * 4);
    }
}
