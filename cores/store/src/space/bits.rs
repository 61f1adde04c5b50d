//! A set of block numbers, in chunks that take memory only where taken and free blocks are mixed.
//!
//! A copy of a set shares all chunks with it. A checkpoint makes one, and only the chunks that it or others change from
//! then on take memory of their own.

use denc::{DecodeError, Reader, Result};
use std::sync::Arc;

/// Blocks in a chunk: 16 MiB of disk.
pub(crate) const CHUNK: u64 = 4096;
const WORDS: usize = (CHUNK / 64) as usize;

#[derive(Clone, Debug, Default, PartialEq)]
struct Chunk {
    ones: u16,
    /// None if all bits are equal.
    bits: Option<Arc<[u64; WORDS]>>,
}

/// Chunks in a group: 1 GiB of disk. A copy of a set costs as much as it has groups.
const GROUP: usize = 64;

/// Neighbouring chunks.
#[derive(Clone, Debug, PartialEq)]
struct Group {
    chunks: [Chunk; GROUP],
    /// Blocks of the set in all of them.
    ones: u32,
}

impl Default for Group {
    fn default() -> Self {
        Self { chunks: std::array::from_fn(|_| Chunk::default()), ones: 0 }
    }
}

/// A set of blocks below `len`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bits {
    groups: Vec<Arc<Group>>,
    len: u64,
    ones: u64,
    /// Number of chunks that take memory.
    mixed: usize,
    /// Number of chunks that have no block in the set.
    empty: u64,
}

impl Bits {
    /// Drops it group by group; each chunk that goes is an item.
    pub(crate) fn dismantle(self) -> impl Iterator<Item = ()> + Send {
        self.groups.into_iter().flat_map(|group| {
            // Others may have it, too.
            let chunks = if Arc::strong_count(&group) == 1 { GROUP } else { 1 };
            drop(group);
            std::iter::repeat_n((), chunks)
        })
    }
}

impl Chunk {
    fn get(&self, i: usize) -> bool {
        match &self.bits {
            None => self.ones > 0,
            Some(bits) => bits[i / 64] >> (i % 64) & 1 == 1,
        }
    }

    fn write(&mut self, from: usize, to: usize, value: bool) -> u16 {
        if self.bits.is_none() && (self.ones > 0) == value {
            return 0;
        }
        if to - from == CHUNK as usize && self.bits.is_none() {
            self.ones = if value { CHUNK as u16 } else { 0 };
            return CHUNK as u16;
        }
        let fill = if self.ones > 0 { u64::MAX } else { 0 };
        let bits = Arc::make_mut(self.bits.get_or_insert_with(|| Arc::new([fill; WORDS])));
        let mut changed = 0;
        let mut at = from;
        while at < to {
            let end = to.min((at / 64 + 1) * 64);
            let mask = (u64::MAX >> (64 - (end - at))) << (at % 64);
            let word = &mut bits[at / 64];
            let flips = if value { mask & !*word } else { mask & *word };
            *word ^= flips;
            changed += flips.count_ones() as u16;
            at = end;
        }
        self.ones = if value { self.ones + changed } else { self.ones - changed };
        if self.ones == 0 || u64::from(self.ones) == CHUNK {
            self.bits = None;
        }
        changed
    }

    /// Finds the first bit at or after `from` that is `value`.
    fn find(&self, from: usize, value: bool) -> Option<usize> {
        let Some(bits) = &self.bits else {
            return ((self.ones > 0) == value && from < CHUNK as usize).then_some(from);
        };
        let mut at = from;
        while at < CHUNK as usize {
            let word = if value { bits[at / 64] } else { !bits[at / 64] } >> (at % 64);
            if word != 0 {
                return Some(at + word.trailing_zeros() as usize);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Finds the first run of `n` bits that are not set, all of them below `end`.
    fn first_free(&self, n: usize, end: usize) -> Option<usize> {
        let Some(bits) = &self.bits else { return (self.ones == 0 && n <= end).then_some(0) };
        // Free bits up to the end of the word before.
        let mut before = 0;
        for (i, word) in bits.iter().enumerate() {
            let free = below(!word, i, end);
            if before + free.trailing_ones() as usize >= n {
                return Some(i * 64 - before);
            }
            if n <= 64 {
                // Leaves the first bit of each run of at least `n`.
                let (mut starts, mut len) = (free, 1);
                while len < n && starts != 0 {
                    let by = len.min(n - len);
                    starts &= starts >> by;
                    len += by;
                }
                if starts != 0 {
                    return Some(i * 64 + starts.trailing_zeros() as usize);
                }
            }
            before = if free == u64::MAX { before + 64 } else { free.leading_ones() as usize };
        }
        None
    }

    /// Length of the longest run of bits below `end` that are not set.
    fn longest_free(&self, end: usize) -> usize {
        let Some(bits) = &self.bits else { return if self.ones == 0 { end } else { 0 } };
        let (mut longest, mut before) = (0, 0);
        for (i, word) in bits.iter().enumerate() {
            let free = below(!word, i, end);
            longest = longest.max(before + free.trailing_ones() as usize);
            if free == u64::MAX {
                before += 64;
                continue;
            }
            before = free.leading_ones() as usize;
            // Each turn takes the last bit from each run.
            let (mut left, mut len) = (free, 0);
            while left != 0 {
                left &= left >> 1;
                len += 1;
            }
            longest = longest.max(len);
        }
        longest
    }

    /// The run of bits around `from..to`, which are not set, that are not set either.
    fn free_around(&self, from: usize, to: usize, end: usize) -> usize {
        let Some(bits) = &self.bits else { return if self.ones == 0 { end } else { 0 } };
        let last = self.find(to, true).unwrap_or(end).min(end);
        let mut first = from;
        while first > 0 {
            let (word, n) = ((first - 1) / 64, (first - 1) % 64 + 1);
            let free = (!bits[word] << (64 - n)).leading_ones() as usize;
            first -= free.min(n);
            if free < n {
                break;
            }
        }
        last - first
    }
}

/// Those bits of the word with this index that are below `end`.
fn below(bits: u64, word: usize, end: usize) -> u64 {
    match end.saturating_sub(word * 64) {
        64.. => bits,
        n => bits & !(u64::MAX << n),
    }
}

impl Bits {
    /// Makes the empty set over `len` blocks.
    pub(crate) fn new(len: u64) -> Self {
        let groups = len.div_ceil(CHUNK * GROUP as u64) as usize;
        Self { groups: vec![Arc::default(); groups], len, ones: 0, mixed: 0, empty: len.div_ceil(CHUNK) }
    }

    /// Number of chunks.
    pub(crate) fn chunks(&self) -> u64 {
        self.len.div_ceil(CHUNK)
    }

    /// Number of chunks that have no block in the set.
    pub(crate) fn empty_chunks(&self) -> u64 {
        self.empty
    }

    /// Number of blocks of a chunk that the disk has.
    fn room(&self, chunk: u64) -> usize {
        (self.len - chunk * CHUNK).min(CHUNK) as usize
    }

    /// Says whether a block of a chunk is in the set.
    pub(crate) fn any(&self, chunk: u64) -> bool {
        self.chunk(chunk).ones > 0
    }

    /// Number of blocks of a chunk that are not in the set.
    pub(crate) fn free_in(&self, chunk: u64) -> u64 {
        self.room(chunk) as u64 - u64::from(self.chunk(chunk).ones)
    }

    /// Finds the first run of `n` blocks within a chunk that are not in the set.
    pub(crate) fn first_free(&self, chunk: u64, n: u64) -> Option<u64> {
        let at = self.chunk(chunk).first_free(n as usize, self.room(chunk))?;
        Some(chunk * CHUNK + at as u64)
    }

    /// Length of the longest run of blocks within a chunk that are not in the set.
    pub(crate) fn longest_free(&self, chunk: u64) -> u64 {
        self.chunk(chunk).longest_free(self.room(chunk)) as u64
    }

    /// Length of the run within a chunk around these blocks, which are not in the set, that are not in it either.
    pub(crate) fn free_around(&self, block: u64, n: u64) -> u64 {
        let (chunk, at) = (block / CHUNK, (block % CHUNK) as usize);
        self.chunk(chunk).free_around(at, at + n as usize, self.room(chunk)) as u64
    }

    fn chunk(&self, i: u64) -> &Chunk {
        &self.groups[i as usize / GROUP].chunks[i as usize % GROUP]
    }

    /// Bytes of memory of a set that shares nothing.
    pub(crate) fn bytes(&self) -> usize {
        self.mixed * size_of::<[u64; WORDS]>() + self.groups.len() * size_of::<Group>()
    }

    /// Number of blocks that could be in the set.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Number of blocks in the set.
    pub(crate) fn ones(&self) -> u64 {
        self.ones
    }

    pub(crate) fn get(&self, block: u64) -> bool {
        block < self.len && self.chunk(block / CHUNK).get((block % CHUNK) as usize)
    }

    /// Puts a run into the set or takes it out. Gives the number of blocks that changed.
    pub(crate) fn write(&mut self, block: u64, n: u64, value: bool) -> u64 {
        assert!(block + n <= self.len, "a block that the disk does not have");
        let (mut at, end, mut changed) = (block, block + n, 0);
        while at < end {
            let stop = end.min((at / CHUNK + 1) * CHUNK);
            let base = at / CHUNK * CHUNK;
            let group = Arc::make_mut(&mut self.groups[(at / CHUNK) as usize / GROUP]);
            let chunk = &mut group.chunks[(at / CHUNK) as usize % GROUP];
            let (was, was_empty) = (chunk.bits.is_some(), chunk.ones == 0);
            let flips = chunk.write((at - base) as usize, (stop - base) as usize, value);
            self.empty = self.empty + u64::from(chunk.ones == 0) - u64::from(was_empty);
            self.mixed = self.mixed + usize::from(chunk.bits.is_some()) - usize::from(was);
            group.ones = if value { group.ones + u32::from(flips) } else { group.ones - u32::from(flips) };
            changed += u64::from(flips);
            at = stop;
        }
        self.ones = if value { self.ones + changed } else { self.ones - changed };
        changed
    }

    /// Finds the first block at or after `from` that is in the set, or with `value` false the first that is not.
    pub(crate) fn find(&self, from: u64, value: bool) -> Option<u64> {
        let mut at = from;
        while at < self.len {
            let base = at / CHUNK * CHUNK;
            // Whole groups of the other kind are passed over at once.
            let group = &self.groups[(at / CHUNK) as usize / GROUP];
            let none = if value { group.ones == 0 } else { u64::from(group.ones) == CHUNK * GROUP as u64 };
            if none {
                at = (at / (CHUNK * GROUP as u64) + 1) * CHUNK * GROUP as u64;
                continue;
            }
            if let Some(i) = self.chunk(at / CHUNK).find((at - base) as usize, value) {
                let found = base + i as u64;
                return (found < self.len).then_some(found);
            }
            at = base + CHUNK;
        }
        None
    }

    /// Finds the first run of blocks that are not in the set, at or after `from`, at most `max` long.
    pub(crate) fn free_run(&self, from: u64, max: u64) -> Option<(u64, u64)> {
        let start = self.find(from, false)?;
        // A bounded search keeps this cheap on an empty disk.
        let stop = (start + max).min(self.len);
        let mut end = start;
        while end < stop {
            let base = end / CHUNK * CHUNK;
            match self.chunk(end / CHUNK).find((end - base) as usize, true) {
                Some(i) => {
                    end = base + i as u64;
                    break;
                }
                None => end = base + CHUNK,
            }
        }
        Some((start, end.min(stop) - start))
    }

    /// The runs of blocks of the set within `from..to`.
    pub(crate) fn runs(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        let mut at = from;
        while let Some(start) = self.find(at, true).filter(|s| *s < to) {
            let end = self.find(start, false).unwrap_or(self.len).min(to);
            out.push((start, end - start));
            at = end;
        }
        out
    }

    /// Encodes a chunk for the index. None: the chunk is empty. `[0]` stands for a full one, else runs or plain bits,
    /// whichever is shorter.
    pub(crate) fn encode_chunk(&self, chunk: u32) -> Option<Vec<u8>> {
        let this = self.chunk(chunk.into());
        match &this.bits {
            None if this.ones == 0 => None,
            None => Some(vec![0]),
            Some(bits) => {
                let base = u64::from(chunk) * CHUNK;
                let runs = self.runs(base, (base + CHUNK).min(self.len));
                let mut out = Vec::with_capacity(1 + (runs.len() * 4).min(WORDS * 8));
                if runs.len() * 4 < WORDS * 8 {
                    out.push(1);
                    for (start, n) in runs {
                        out.extend_from_slice(&((start - base) as u16).to_le_bytes());
                        out.extend_from_slice(&(n as u16).to_le_bytes());
                    }
                } else {
                    out.push(2);
                    bits.iter().for_each(|w| out.extend_from_slice(&w.to_le_bytes()));
                }
                Some(out)
            }
        }
    }

    /// Puts the blocks of a chunk into the set whose bits are set.
    fn fill(&mut self, chunk: u32, words: [u64; WORDS]) {
        let ones: u32 = words.iter().map(|word| word.count_ones()).sum();
        let mixed = ones > 0 && u64::from(ones) < CHUNK;
        let new = Chunk { ones: ones as u16, bits: mixed.then(|| Arc::new(words)) };
        if self.put(chunk, &new) {
            return;
        }
        let base = u64::from(chunk) * CHUNK;
        for (i, word) in (0..).zip(words) {
            for bit in (0..64).filter(|bit| word >> bit & 1 == 1) {
                self.write(base + i * 64 + bit, 1, true);
            }
        }
    }

    /// Takes a chunk over from another set, and shares its memory. False, and nothing done, if this set has blocks of it.
    #[must_use]
    pub(crate) fn take_over(&mut self, other: &Self, chunk: u32) -> bool {
        self.put(chunk, other.chunk(chunk.into()))
    }

    fn put(&mut self, chunk: u32, new: &Chunk) -> bool {
        let group = Arc::make_mut(&mut self.groups[chunk as usize / GROUP]);
        let old = &mut group.chunks[chunk as usize % GROUP];
        if old.ones > 0 {
            return false;
        }
        *old = new.clone();
        group.ones += u32::from(new.ones);
        self.ones += u64::from(new.ones);
        self.mixed += usize::from(new.bits.is_some());
        self.empty -= u64::from(new.ones > 0);
        true
    }

    /// Decodes a chunk into the set.
    pub(crate) fn decode_chunk(&mut self, chunk: u32, value: &[u8]) -> Result<()> {
        let bad = DecodeError::Invalid("free-space map");
        let base = u64::from(chunk) * CHUNK;
        if base >= self.len {
            return Err(bad);
        }
        let room = (self.len - base).min(CHUNK);
        let mut r = Reader::new(value);
        match r.u8()? {
            0 if room == CHUNK => drop(self.write(base, CHUNK, true)),
            1 => {
                while !r.is_empty() {
                    let (start, n) = (u64::from(r.u16()?), u64::from(r.u16()?));
                    if start + n > room {
                        return Err(bad);
                    }
                    self.write(base + start, n, true);
                }
            }
            2 => {
                let mut words = [0; WORDS];
                for word in &mut words {
                    *word = r.u64()?;
                }
                if words.iter().enumerate().any(|(i, word)| *word != below(*word, i, room as usize)) {
                    return Err(bad);
                }
                self.fill(chunk, words);
            }
            _ => return Err(bad),
        }
        r.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_stays_as_it_was() {
        let mut bits = Bits::new(70 * 64 * CHUNK + 5);
        for chunk in 0..70 * 64 {
            bits.write(chunk * CHUNK + chunk % 9, 3, true);
        }
        let (copy, twin) = (bits.clone(), format!("{bits:?}"));
        assert!(bits.groups.iter().zip(&copy.groups).all(|(a, b)| Arc::ptr_eq(a, b)), "a copy copies no chunk");
        bits.write(0, 69 * CHUNK, false);
        bits.write(70 * 64 * CHUNK, 5, true);
        assert_eq!((format!("{copy:?}"), bits == copy), (twin, false));
        assert_eq!((bits.mixed, copy.mixed), (70 * 64 - 69 + 1, 70 * 64));
        assert!(bits.find(0, true) == Some(69 * CHUNK + 69 % 9) && copy.find(0, true) == Some(0));
    }

    #[test]
    fn equals_a_plain_vector() {
        let mut x = 3u64;
        let mut next = |n: u64| {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (x >> 33) % n
        };
        let len = 3 * CHUNK + 100;
        let (mut bits, mut plain) = (Bits::new(len), vec![false; len as usize]);
        for _ in 0..600 {
            let at = next(len);
            let n = [1, 7, 64, 5000][next(4) as usize].min(len - at);
            let value = next(2) == 0;
            let changed = (at..at + n).filter(|i| plain[*i as usize] != value).count() as u64;
            plain[at as usize..(at + n) as usize].fill(value);
            assert_eq!(bits.write(at, n, value), changed);
            assert_eq!(bits.ones(), plain.iter().filter(|b| **b).count() as u64);
            let from = next(len);
            let start = (from..len).find(|i| !plain[*i as usize]);
            let run = start.map(|s| (s, (s..len.min(s + 50)).take_while(|i| !plain[*i as usize]).count() as u64));
            assert_eq!(bits.free_run(from, 50), run);
            assert_eq!(bits.find(from, true), (from..len).find(|i| plain[*i as usize]));
            let chunk = next(4);
            let part = &plain[(chunk * CHUNK) as usize..len.min((chunk + 1) * CHUNK) as usize];
            let mut runs = Vec::new();
            for (i, _) in part.iter().enumerate().filter(|(_, taken)| !**taken) {
                match runs.last_mut() {
                    Some((start, n)) if *start + *n == i => *n += 1,
                    _ => runs.push((i, 1)),
                }
            }
            assert_eq!(bits.free_in(chunk), runs.iter().map(|run| run.1 as u64).sum::<u64>());
            assert_eq!(bits.longest_free(chunk), runs.iter().map(|run| run.1 as u64).max().unwrap_or(0));
            for n in [1, 2, 3, 17, 63, 64, 65, 200, CHUNK] {
                let first = runs.iter().find(|run| run.1 as u64 >= n).map(|run| chunk * CHUNK + run.0 as u64);
                assert_eq!(bits.first_free(chunk, n), first, "{n} of {runs:?}");
            }
            if let Some((start, n)) = runs.get(next(runs.len() as u64 + 1) as usize) {
                let (at, some) = (next(*n as u64), 1 + next(*n as u64));
                let some = some.min(*n as u64 - at);
                assert_eq!(bits.free_around(chunk * CHUNK + *start as u64 + at, some), *n as u64);
            }
            let empty = plain.chunks(CHUNK as usize).filter(|part| part.iter().all(|taken| !taken)).count();
            assert_eq!((bits.chunks(), bits.empty_chunks()), (4, empty as u64));
        }
        let mut again = Bits::new(len);
        for chunk in 0..4 {
            if let Some(value) = bits.encode_chunk(chunk) {
                again.decode_chunk(chunk, &value).expect("own encoding");
            }
        }
        assert_eq!(again, bits);
    }
}
