//! What a flip freed, until no read can still want it.
//!
//! A read that began before a flip follows the old tree. The blocks that only the old tree refers to must not be given out before it ends.

use super::bits::CHUNK;
use crate::block::Run;
use crate::journal::End;
use std::collections::{BTreeMap, VecDeque};

/// Runs of new data that are looked at in one round.
const LOOKS: usize = 1024;

/// What one flip freed.
#[derive(Debug)]
pub(crate) struct Freed {
    /// The epoch that the flip ended.
    pub(crate) epoch: u64,
    /// Runs that the delta's data was given. What nothing came to refer to is looked for when they are given back.
    pub(crate) born: Vec<Run>,
    pub(crate) runs: Vec<Run>,
    pub(crate) pages: Vec<Run>,
    /// The end of the journal that the flip made superfluous, and the first record behind it.
    pub(crate) end: End,
    pub(crate) seq: u64,
}

/// A part of what one flip freed, which no read can want any more.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) runs: Vec<Run>,
    pub(crate) pages: Vec<Run>,
    /// With the last part: the end of the journal that is superfluous, and the first record behind it.
    pub(crate) end: Option<(End, u64)>,
}

/// What flips freed, and the reads that hold it back.
#[derive(Debug, Default)]
pub(crate) struct Limbo {
    freed: VecDeque<Freed>,
    /// Number of reads in flight, by the epoch in which they began.
    readers: BTreeMap<u64, usize>,
}

impl Limbo {
    /// Returns true if nothing is held back.
    pub(crate) fn is_empty(&self) -> bool {
        self.freed.is_empty()
    }

    /// A read begins.
    pub(crate) fn begin_read(&mut self, epoch: u64) {
        *self.readers.entry(epoch).or_default() += 1;
    }

    /// A read ended that began in this epoch.
    pub(crate) fn end_read(&mut self, epoch: u64) {
        if let Some(n) = self.readers.get_mut(&epoch) {
            *n -= 1;
            if *n == 0 {
                self.readers.remove(&epoch);
            }
        }
    }

    /// A flip freed something.
    pub(crate) fn push(&mut self, freed: Freed) {
        self.freed.push_back(freed);
    }

    /// A mistake to be found: a run of what the last flip freed is forgotten.
    #[cfg(test)]
    pub(crate) fn leak(&mut self) {
        self.freed.back_mut().and_then(|freed| freed.runs.pop().or_else(|| freed.born.pop()));
    }

    /// Up to `most` runs of it that no read can want any more; and, with the last of a flip, what else it freed.
    /// `unreferenced` finds in a run of data, of at most a chunk, to what nothing refers.
    pub(crate) fn settled(&mut self, most: usize, unreferenced: impl Fn(Run, &mut Vec<Run>)) -> Option<Settled> {
        let oldest = self.readers.keys().next().copied().unwrap_or(u64::MAX);
        let freed = self.freed.front_mut().filter(|freed| freed.epoch < oldest && most > 0)?;
        for _ in 0..LOOKS {
            if freed.runs.len() >= most {
                break;
            }
            let Some((start, n)) = freed.born.pop() else { break };
            if u64::from(n) > CHUNK {
                freed.born.push((start, n - CHUNK as u32));
            }
            let part = u64::from(n).min(CHUNK);
            unreferenced((start + u64::from(n) - part, part as u32), &mut freed.runs);
        }
        let runs: Vec<Run> = freed.runs.split_off(freed.runs.len().saturating_sub(most));
        let pages = freed.pages.split_off(freed.pages.len().saturating_sub(most - runs.len()));
        let end = (freed.runs.is_empty() && freed.pages.is_empty() && freed.born.is_empty()).then_some((freed.end, freed.seq));
        if end.is_some() {
            self.freed.pop_front();
        }
        Some(Settled { runs, pages, end })
    }

    /// Returns true if [`Self::settled`] has more.
    pub(crate) fn has_settled(&self) -> bool {
        let oldest = self.readers.keys().next().copied().unwrap_or(u64::MAX);
        self.freed.front().is_some_and(|freed| freed.epoch < oldest)
    }

    /// Checks what always holds between two calls, in this epoch.
    ///
    /// # Errors
    /// A sentence that says what does not hold.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn self_check(&self, epoch: u64) -> Result<(), String> {
        let epochs: Vec<u64> = self.freed.iter().map(|freed| freed.epoch).collect();
        if !epochs.is_sorted() || epochs.iter().any(|flip| *flip >= epoch) {
            return Err(format!("flips {epochs:?} of {epoch}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_data_is_looked_at_bit_by_bit() {
        let mut limbo = Limbo::default();
        let end = crate::journal::Journal::unknown().end();
        limbo.push(Freed { epoch: 1, born: vec![(0, 3), (10_000, 20_000)], runs: vec![(5, 2)], pages: vec![], end, seq: 7 });
        // Nothing came to refer to any second block.
        let odd = |run: Run, out: &mut Vec<Run>| {
            assert!(u64::from(run.1) <= CHUNK);
            out.extend((run.0..run.0 + u64::from(run.1)).filter(|block| block % 2 == 1).map(|block| (block, 1)));
        };
        let mut all = Vec::new();
        while let Some(settled) = limbo.settled(100, odd) {
            assert!(settled.runs.len() <= 100 && settled.pages.is_empty());
            all.extend(settled.runs);
            assert_eq!(settled.end.is_some(), limbo.is_empty());
        }
        all.sort_unstable();
        let wanted: Vec<Run> = [(1, 1), (5, 2)].into_iter().chain((10_001..30_000).step_by(2).map(|block| (block, 1))).collect();
        assert_eq!(all, wanted);
    }
}
