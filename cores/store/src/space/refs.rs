//! Counts how many X values refer to a block. A checkpoint's merge counts by difference; nothing else counts.

use super::bits::{Bits, CHUNK};
use crate::block::{Cell, Patch, Place, Where};
use denc::{DecodeError, Reader, Result};
use std::collections::BTreeMap;

/// A run of blocks that gained or lost references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Gain {
    block: u64,
    len: u32,
    by: i32,
}

/// A run of blocks of one chunk that gained or lost references.
#[derive(Clone, Copy, Debug)]
struct Part {
    at: u16,
    len: u16,
    by: i32,
}

/// The differences that a merge has seen so far.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    /// The last of them, which may get longer.
    last: Option<Gain>,
    /// All others by chunk.
    by_chunk: BTreeMap<u32, Vec<Part>>,
    /// Number of entries in all of those lists.
    parts: usize,
}

fn disk(cell: Cell) -> Option<u64> {
    match cell {
        Cell::Data(block) => disk_block(block.place),
        _ => None,
    }
}

fn disk_block(place: Place) -> Option<u64> {
    match place.place() {
        Where::Disk(block) => Some(block),
        _ => None,
    }
}

impl Differences {
    fn add(&mut self, block: u64, by: i32) {
        match &mut self.last {
            Some(last) if last.by == by && last.block + u64::from(last.len) == block => last.len += 1,
            _ => {
                self.close();
                self.last = Some(Gain { block, len: 1, by });
            }
        }
    }

    /// Notes that the value of a range changes from `old` to `new`.
    pub(crate) fn change(&mut self, old: &Patch, new: &Patch) {
        let differ = |i: &u32| disk(old.get(*i)) != disk(new.get(*i));
        (0..16).filter(differ).filter_map(|i| disk(old.get(i))).for_each(|b| self.add(b, -1));
        (0..16).filter(differ).filter_map(|i| disk(new.get(i))).for_each(|b| self.add(b, 1));
    }

    /// Sorts the last difference into its chunks. All of them must be known.
    pub(crate) fn close(&mut self) {
        let Some(gain) = self.last.take() else { return };
        let (mut at, end) = (gain.block, gain.block + u64::from(gain.len));
        while at < end {
            let stop = end.min((at / CHUNK + 1) * CHUNK);
            let part = Part { at: (at % CHUNK) as u16, len: (stop - at) as u16, by: gain.by };
            self.by_chunk.entry((at / CHUNK) as u32).or_default().push(part);
            self.parts += 1;
            at = stop;
        }
    }

    /// Chunks from `first` on in which something changed.
    pub(crate) fn chunks_from(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        self.by_chunk.range(first..).map(|(chunk, _)| *chunk)
    }

    /// Number of blocks of a chunk that gained or lost references; one that did both counts as two.
    pub(crate) fn changed(&self, chunk: u32) -> usize {
        self.by_chunk.get(&chunk).into_iter().flatten().map(|part| usize::from(part.len)).sum()
    }

    /// Bytes of memory that they take, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.parts * size_of::<Part>() * 2
    }

    /// Drops them chunk by chunk.
    pub(crate) fn dismantle(self) -> impl Iterator<Item = ()> + Send {
        self.by_chunk.into_values().map(drop)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_none() && self.by_chunk.is_empty()
    }

    /// Resolves one chunk. `stable` gets the blocks that have references now, `freed` those that have none any more.
    /// Gives the new value of section Y, or an error if a block would have fewer references than none.
    pub(crate) fn resolve(
        &self,
        chunk: u32,
        shared: Option<&[u8]>,
        stable: &mut Bits,
        freed: &mut Vec<(u64, u32)>,
    ) -> std::result::Result<Option<Vec<u8>>, String> {
        let base = u64::from(chunk) * CHUNK;
        let mut others =
            decode_shared(shared.unwrap_or_default()).map_err(|e| format!("table of shared blocks, chunk {chunk}: {e}"))?;
        let mut gains = vec![0i64; CHUNK as usize];
        let (mut first, mut end) = (CHUNK as usize, 0);
        for part in self.by_chunk.get(&chunk).into_iter().flatten() {
            let (from, to) = (usize::from(part.at), usize::from(part.at + part.len));
            gains[from..to].iter_mut().for_each(|gain| *gain += i64::from(part.by));
            (first, end) = (first.min(from), end.max(to));
        }
        // Runs that come into the set or leave it go there at once.
        let mut flips: Vec<(u64, u32, bool)> = Vec::new();
        for at in (first..end).filter(|at| gains[*at] != 0) {
            let block = base + at as u64;
            let old = if stable.get(block) { 1 + i64::from(others[at]) } else { 0 };
            let new = old + gains[at];
            if new < 0 || block >= stable.len() {
                return Err(format!("block {block} of the disk would have {new} references"));
            }
            others[at] = (new - 1).max(0) as u32;
            if (old == 0) != (new == 0) {
                match flips.last_mut() {
                    Some((start, n, comes)) if *start + u64::from(*n) == block && *comes == (new > 0) => *n += 1,
                    _ => flips.push((block, 1, new > 0)),
                }
            }
        }
        for (start, n, comes) in flips {
            stable.write(start, n.into(), comes);
            if !comes {
                push_run(freed, (start, n));
            }
        }
        Ok(encode_shared(&others))
    }
}

fn push_run(runs: &mut Vec<(u64, u32)>, run: (u64, u32)) {
    match runs.last_mut() {
        Some((start, n)) if *start + u64::from(*n) == run.0 => *n += run.1,
        _ => runs.push(run),
    }
}

/// The chunk of a block, and its index there.
pub(crate) fn chunk_of(block: u64) -> (u32, u16) {
    ((block / CHUNK) as u32, (block % CHUNK) as u16)
}

/// Returns how many references the block with this index has beyond the first according to its chunk's value, whose runs are in
/// order. None if that cannot be understood.
pub(crate) fn others(value: &[u8], index: u16) -> Option<u32> {
    let (runs, rest) = value.as_chunks::<8>();
    if !rest.is_empty() {
        return None;
    }
    let behind = runs.partition_point(|run| u16::from_le_bytes([run[0], run[1]]) <= index);
    let Some([start_low, start_high, n_low, n_high, others @ ..]) = behind.checked_sub(1).map(|at| runs[at]) else {
        return Some(0);
    };
    let (start, n) = (u16::from_le_bytes([start_low, start_high]), u16::from_le_bytes([n_low, n_high]));
    Some(if index - start < n { u32::from_le_bytes(others) } else { 0 })
}

/// Decodes, for each block of a chunk, how many references it has beyond the first.
pub(crate) fn decode_shared(value: &[u8]) -> Result<Vec<u32>> {
    let mut out = vec![0; CHUNK as usize];
    let mut r = Reader::new(value);
    while !r.is_empty() {
        let (start, n, others) = (usize::from(r.u16()?), usize::from(r.u16()?), r.u32()?);
        out.get_mut(start..start + n).ok_or(DecodeError::Invalid("run of shared blocks"))?.fill(others);
    }
    Ok(out)
}

/// The inverse of [`decode_shared`]. None if nothing is shared.
pub(crate) fn encode_shared(others: &[u32]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < others.len() {
        let n = others[at..].iter().take_while(|o| **o == others[at]).count();
        if others[at] > 0 {
            out.extend_from_slice(&(at as u16).to_le_bytes());
            out.extend_from_slice(&(n as u16).to_le_bytes());
            out.extend_from_slice(&others[at].to_le_bytes());
        }
        at += n;
    }
    (!out.is_empty()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;

    #[test]
    fn a_table_tells_who_is_shared() {
        let mut others = vec![0u32; CHUNK as usize];
        for (at, n) in [(0, 1), (7, 3), (10, 2), (4095, 1)] {
            others[at..at + n].fill(at as u32 + 1);
        }
        let table = encode_shared(&others).expect("some are shared");
        for (at, n) in others.iter().enumerate() {
            assert_eq!(super::others(&table, at as u16), Some(*n), "{at}");
        }
        assert_eq!((super::others(&table[..table.len() - 1], 1), super::others(&[], 1)), (None, Some(0)));
    }

    fn value(blocks: &[u64]) -> Patch {
        let mut patch = Patch::holes();
        for (i, b) in blocks.iter().enumerate() {
            patch.set(i as u32, Cell::Data(Block { place: Place::disk(*b), crc: 0 }));
        }
        patch
    }

    #[test]
    fn references_come_and_go() {
        let mut stable = Bits::new(3 * CHUNK);
        let mut freed = Vec::new();
        let mut run = |stable: &mut Bits, shared: Option<Vec<u8>>, changes: &[(&[u64], &[u64])]| {
            let mut d = Differences::default();
            changes.iter().for_each(|(old, new)| d.change(&value(old), &value(new)));
            d.close();
            assert!(d.chunks_from(0).all(|c| c == 1));
            freed.clear();
            let shared = d.resolve(1, shared.as_deref(), stable, &mut freed)?;
            Ok::<_, String>((shared, freed.clone()))
        };
        let (a, b, c) = (CHUNK + 1, CHUNK + 2, CHUNK + 9);
        let (shared, _) = run(&mut stable, None, &[(&[], &[a, b]), (&[], &[a, b]), (&[], &[c])]).unwrap();
        assert_eq!(stable.ones(), 3);
        let (shared, freed) = run(&mut stable, shared, &[(&[a, b], &[c, b])]).unwrap();
        assert!(freed.is_empty());
        let others = decode_shared(shared.as_deref().unwrap()).unwrap();
        assert_eq!((others[1], others[2], others[9]), (0, 1, 1));
        let (shared, freed) = run(&mut stable, shared, &[(&[a, b], &[]), (&[c, b], &[])]).unwrap();
        assert_eq!((shared, freed), (None, vec![(a, 2)]));
        assert!(stable.get(c) && stable.ones() == 1);
        assert!(run(&mut stable, None, &[(&[a], &[])]).is_err(), "fewer than none");
    }
}
