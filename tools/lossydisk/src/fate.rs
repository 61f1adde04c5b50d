//! What a power cut leaves of the things that were not safe.

use crate::rng::Rng;
use std::collections::BTreeMap;

/// Sectors of 512 bytes in a block of 4096: the unit of tearing.
pub(crate) const SECTORS: u64 = 8;

/// How much of one write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Survival {
    Nothing,
    All,
    /// Its first so many sectors.
    Prefix(u64),
    /// Any of its sectors.
    Sectors,
}

/// The kind of a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// All that was not safe is gone.
    Nothing,
    /// All of it is there.
    All,
    /// What was complete at some moment is there.
    Moment,
    /// All but one write, which is torn.
    OneTorn,
    /// Any sector of any write.
    Sectors,
    /// Each write for itself: gone, there or torn.
    Mixed,
}

/// A write that is not safe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsafe {
    /// Number of its completion.
    pub(crate) seq: u64,
    /// Blocks that it touched.
    pub(crate) blocks: u64,
}

/// Decides for all writes at once.
#[derive(Debug)]
pub(crate) struct Fate {
    /// Of which kind it is.
    pub(crate) cut: Cut,
    moment: u64,
    writes: BTreeMap<u64, Survival>,
    rng: Rng,
}

impl Fate {
    /// Draws lots for `writes`; `last` is the number of the last completion.
    pub(crate) fn draw(writes: &BTreeMap<u64, Unsafe>, last: u64, mut rng: Rng) -> Self {
        let kinds = [Cut::Nothing, Cut::All, Cut::Moment, Cut::OneTorn, Cut::Sectors, Cut::Mixed];
        let cut = kinds[rng.below(kinds.len() as u64) as usize];
        let first = writes.values().map(|w| w.seq).min().unwrap_or(last);
        let moment = first.saturating_sub(1) + rng.below(last.saturating_sub(first) + 2);
        let torn = rng.below(writes.len() as u64) as usize;
        let mut lots = BTreeMap::new();
        for (i, (write, info)) in writes.iter().enumerate() {
            let survival = match cut {
                Cut::Nothing => Survival::Nothing,
                Cut::All => Survival::All,
                Cut::Moment if info.seq <= moment => Survival::All,
                Cut::Moment => Survival::Nothing,
                Cut::OneTorn if i != torn => Survival::All,
                Cut::OneTorn => tear(info.blocks, &mut rng),
                Cut::Sectors => Survival::Sectors,
                Cut::Mixed => match rng.below(3) {
                    0 => Survival::Nothing,
                    1 => Survival::All,
                    _ => tear(info.blocks, &mut rng),
                },
            };
            lots.insert(*write, survival);
        }
        Self { cut, moment, writes: lots, rng }
    }

    /// Returns which sectors of the `nth` block of a write survive, as bits.
    pub(crate) fn sectors(&mut self, write: u64, nth: u64) -> u8 {
        match self.writes.get(&write).copied().unwrap_or(Survival::Nothing) {
            Survival::Nothing => 0,
            Survival::All => 0xff,
            Survival::Sectors => self.rng.bits() as u8,
            Survival::Prefix(n) => {
                let here = n.saturating_sub(nth * SECTORS).min(SECTORS);
                (0xff_u16 >> (SECTORS - here)) as u8
            }
        }
    }

    /// Metadata is kept in order: how many of the changes with these completion numbers survive.
    pub(crate) fn changes(&mut self, seqs: impl ExactSizeIterator<Item = u64>) -> usize {
        let all = seqs.len();
        match self.cut {
            Cut::Nothing => 0,
            Cut::All => all,
            Cut::Moment => seqs.take_while(|seq| *seq <= self.moment).count(),
            _ => self.rng.below(all as u64 + 1) as usize,
        }
    }
}

fn tear(blocks: u64, rng: &mut Rng) -> Survival {
    match rng.below(3) {
        0 => Survival::Sectors,
        _ => Survival::Prefix(rng.below(blocks * SECTORS + 1)),
    }
}
