//! Codes, and how they are applied to bytes.

use crate::matrix::{Rows, invert};
use kernels::{Mix, gf_mul, xor_sum};
use std::collections::BTreeMap;
use std::fmt;

/// Shards that a code may have at most. Ceph's bound is the field's, 256; its pools' size and CRUSH do not go there.
pub const MOST_SHARDS: usize = 64;

/// A code: k data shards, m parities, and how these follow from those.
#[derive(Clone)]
pub struct Code {
    k: usize,
    m: usize,
    /// Bytes of a packet; 0: the code works on bytes.
    packet: usize,
    rows: Rows,
    parities: Combination,
}

/// Codes are equal if they give the same parities.
impl PartialEq for Code {
    fn eq(&self, other: &Code) -> bool {
        (self.k, self.m, self.packet, &self.rows) == (other.k, other.m, other.packet, &other.rows)
    }
}

impl Eq for Code {}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code {}+{}", self.k, self.m)
    }
}

/// The shards that are left are too few to give the others: fewer than k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFew {
    /// Shards that are left.
    pub have: usize,
    /// Shards that are needed.
    pub need: usize,
}

impl fmt::Display for TooFew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} shards are left of {} that are needed", self.have, self.need)
    }
}

impl std::error::Error for TooFew {}

impl Code {
    /// Makes a code of `rows` of `k` coefficients. `packet`: bytes of a packet for codes of bit matrices, 0 for others.
    pub(crate) fn new(k: usize, m: usize, packet: usize, rows: Rows) -> Code {
        assert!(k > 0 && m > 0 && k + m <= MOST_SHARDS && rows.len() == k * m, "{k}+{m}");
        // Where all coefficients are 0 or 1, no packet meets another place: the code works on bytes after all.
        let packet = if rows.iter().all(|c| *c <= 1) { 0 } else { packet };
        let parities = Combination::new(k, packet, &rows);
        Code { k, m, packet, rows, parities }
    }

    /// Data shards.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Parities.
    pub fn m(&self) -> usize {
        self.m
    }

    /// All shards: k + m.
    pub fn shards(&self) -> usize {
        self.k + self.m
    }

    /// Bytes that belong together: what is encoded begins and ends at a multiple of this on each shard. 1 for codes
    /// that work on bytes, eight packets for codes of bit matrices.
    pub fn grain(&self) -> usize {
        (8 * self.packet).max(1)
    }

    /// Fills `parities` from all data shards, in order.
    ///
    /// # Panics
    ///
    /// If the slices are not k and m, not of one length, or that is no multiple of [`Code::grain`].
    pub fn encode(&self, data: &[&[u8]], parities: &mut [&mut [u8]]) {
        self.parities.apply(data, parities, false);
    }

    /// Adds to `parities` what they change by when data shards change. `changes`: positions with the exclusive or of
    /// old and new bytes, at the same place of the shards as the parities' bytes.
    ///
    /// The result may be added to a parity at any time: changes of the same or of other shards may come before and
    /// behind it.
    ///
    /// # Panics
    ///
    /// As [`Code::encode`], and if a position is no data shard's.
    pub fn delta(&self, changes: &[(usize, &[u8])], parities: &mut [&mut [u8]]) {
        if changes.is_empty() {
            return;
        }
        assert!(changes.iter().all(|(i, _)| *i < self.k), "only data shards change by themselves");
        let rows: Rows = self.rows.chunks(self.k).flat_map(|row| changes.iter().map(|(i, _)| row[*i])).collect();
        let data: Vec<&[u8]> = changes.iter().map(|(_, bytes)| *bytes).collect();
        Combination::new(data.len(), self.packet, &rows).apply(&data, parities, true);
    }

    /// The coefficients of a shard in terms of the data shards.
    fn row(&self, shard: usize) -> Rows {
        match shard.checked_sub(self.k) {
            None => (0..self.k).map(|j| u8::from(j == shard)).collect(),
            Some(parity) => self.rows[parity * self.k..][..self.k].to_vec(),
        }
    }

    /// Returns how the shards `lost` follow from k of the shards `have`: the first k of them. Both are positions
    /// below k + m, each at most once, and none in both.
    ///
    /// # Panics
    ///
    /// If that does not hold.
    pub fn recover(&self, have: &[usize], lost: &[usize]) -> Result<Combination, TooFew> {
        let mut seen = vec![false; self.shards()];
        for shard in have.iter().chain(lost) {
            assert!(!std::mem::replace(&mut seen[*shard], true), "shard {shard} is named twice");
        }
        let Some(have) = have.get(..self.k) else { return Err(TooFew { have: have.len(), need: self.k }) };
        // What is had is A × data, so data is A⁻¹ × what is had, and a lost shard is its row times that.
        let a: Rows = have.iter().flat_map(|shard| self.row(*shard)).collect();
        let inverse = invert(self.k, a).expect("any k shards of a code give its data");
        let mut rows = Rows::with_capacity(lost.len() * self.k);
        for shard in lost {
            let row = self.row(*shard);
            rows.extend((0..self.k).map(|j| (0..self.k).fold(0, |sum, x| sum ^ gf_mul(row[x], inverse[x * self.k + j]))));
        }
        Ok(Combination::new(self.k, self.packet, &rows))
    }
}

/// Formula by which some shards follow from others: a matrix with its tables.
#[derive(Clone)]
pub struct Combination(How);

#[derive(Clone)]
enum How {
    /// Each byte by itself.
    Bytes(Mix),
    /// Each grain has eight packets; bit x of a word is in packet x. For each packet of each output: the packets of
    /// inputs whose exclusive or it is.
    Packets { inputs: usize, packet: usize, sums: Vec<Vec<(usize, usize)>> },
}

impl Combination {
    fn new(inputs: usize, packet: usize, rows: &[u8]) -> Combination {
        if packet == 0 {
            return Combination(How::Bytes(Mix::new(inputs, rows)));
        }
        let mut sums = Vec::with_capacity(rows.len() / inputs * 8);
        for row in rows.chunks(inputs) {
            for bit in 0..8 {
                let of = |(input, c): (usize, &u8)| {
                    let c = *c;
                    (0..8).filter(move |x| gf_mul(c, 1 << x) >> bit & 1 != 0).map(move |x| (input, x))
                };
                sums.push(row.iter().enumerate().flat_map(of).collect());
            }
        }
        Combination(How::Packets { inputs, packet, sums })
    }

    /// Fills `outputs` from `inputs`; `add` adds to what is there instead.
    ///
    /// # Panics
    ///
    /// If the slices are not as many as the combination was made for, not of one length, or that is no multiple of the
    /// code's grain.
    pub fn apply(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], add: bool) {
        match &self.0 {
            How::Bytes(mix) => mix.apply(inputs, outputs, add),
            How::Packets { inputs: count, packet, sums } => {
                assert_eq!((inputs.len(), outputs.len()), (*count, sums.len() / 8), "slices of a combination");
                let (len, grain) = (inputs[0].len(), 8 * packet);
                let mut lengths = inputs.iter().map(|i| i.len()).chain(outputs.iter().map(|o| o.len()));
                assert!(len.is_multiple_of(grain) && lengths.all(|l| l == len), "slices have whole grains of {grain}");
                let mut sources: Vec<&[u8]> = Vec::new();
                for at in (0..len).step_by(grain) {
                    for (i, sum) in sums.iter().enumerate() {
                        sources.clear();
                        sources.extend(sum.iter().map(|(input, x)| &inputs[*input][at + x * packet..][..*packet]));
                        xor_sum(&sources, &mut outputs[i / 8][at + i % 8 * packet..][..*packet], add);
                    }
                }
            }
        }
    }
}

/// Combinations that were used lately. Making one costs an inversion: for 8+3 as long as decoding 20 KiB.
pub struct Recipes {
    /// By the shards that are taken, in order, and those that are lost; each with the time of its last use.
    kept: BTreeMap<(Vec<usize>, Vec<usize>), (u64, Combination)>,
    used: u64,
}

impl Recipes {
    /// Combinations that are kept for one code.
    pub const MOST: usize = 64;

    /// Makes an empty cache, for one code.
    pub fn new() -> Recipes {
        Recipes { kept: BTreeMap::new(), used: 0 }
    }

    /// [`Code::recover`] of `code`, which is the same at each call.
    ///
    /// # Panics
    ///
    /// As that does.
    pub fn recover(&mut self, code: &Code, have: &[usize], lost: &[usize]) -> Result<&Combination, TooFew> {
        let Some(taken) = have.get(..code.k) else { return Err(TooFew { have: have.len(), need: code.k }) };
        self.used += 1;
        let key = (taken.to_vec(), lost.to_vec());
        if !self.kept.contains_key(&key) {
            let made = code.recover(taken, lost)?;
            if self.kept.len() == Self::MOST {
                let oldest = self.kept.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
                oldest.and_then(|key| self.kept.remove(&key));
            }
            self.kept.insert(key.clone(), (0, made));
        }
        let (used, combination) = self.kept.get_mut(&key).expect("it was there, or is now");
        *used = self.used;
        Ok(combination)
    }
}

impl Default for Recipes {
    fn default() -> Self {
        Self::new()
    }
}
