//! For each chunk of blocks the length of its longest free run, and above that a tree of maxima: so a chunk with a run of
//! some length is found in a number of steps that is the logarithm of the disk's size.
//!
//! A length here is a bound from above. To give blocks out leaves it as it is, so that the usual way costs nothing; who
//! looks at a chunk and finds less corrects it. Each such look is paid for by blocks that were given out before. Blocks
//! that become free raise it at once: nothing that is free is overlooked. A run that crosses chunks counts as two.

use super::bits::CHUNK;
use std::ops::Range;

/// Bounds of the longest free runs of all chunks.
#[derive(Debug)]
pub(crate) struct Longest {
    /// A binary tree of maxima: node 1 is the root, the children of node `i` are `2 * i` and `2 * i + 1`. The second half
    /// of it are the chunks.
    tree: Vec<u16>,
    /// Number of chunks, rounded up to a power of two.
    leaves: usize,
}

impl Longest {
    /// Begins with all of so many chunks free.
    pub(crate) fn new(chunks: u64) -> Self {
        let leaves = (chunks.max(1) as usize).next_power_of_two();
        let mut all = Self { tree: vec![0; 2 * leaves], leaves };
        all.tree[leaves..leaves + chunks as usize].fill(CHUNK as u16);
        (1..leaves).rev().for_each(|i| all.tree[i] = all.tree[2 * i].max(all.tree[2 * i + 1]));
        all
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.tree.len() * size_of::<u16>()
    }

    /// The bound of one chunk.
    pub(crate) fn get(&self, chunk: u64) -> u64 {
        self.tree[self.leaves + chunk as usize].into()
    }

    /// Sets the bound of one chunk.
    pub(crate) fn set(&mut self, chunk: u64, len: u64) {
        let mut i = self.leaves + chunk as usize;
        let mut max = len as u16;
        // What is above changes only as far as this child decides it.
        while self.tree[i] != max {
            self.tree[i] = max;
            if i == 1 {
                break;
            }
            max = max.max(self.tree[i ^ 1]);
            i /= 2;
        }
    }

    /// A run of so many blocks of a chunk is free now.
    pub(crate) fn raise(&mut self, chunk: u64, len: u64) {
        if len > self.get(chunk) {
            self.set(chunk, len);
        }
    }

    /// The first of these chunks whose bound is not less than `len`.
    pub(crate) fn first(&self, chunks: Range<u64>, len: u64) -> Option<u64> {
        let mut i = self.leaves + chunks.start as usize;
        if chunks.is_empty() || u64::from(self.tree[1]) < len {
            return None;
        }
        // Up, until a subtree that begins here or later has one.
        while u64::from(self.tree[i]) < len {
            while i % 2 == 1 {
                i /= 2;
                if i <= 1 {
                    return None;
                }
            }
            i += 1;
        }
        // Down, to the first in it. A subtree that begins at `i` may be larger than one leaf.
        while i < self.leaves {
            i = 2 * i + usize::from(u64::from(self.tree[2 * i]) < len);
        }
        let found = (i - self.leaves) as u64;
        (found < chunks.end).then_some(found)
    }

    /// The largest bound of these chunks.
    pub(crate) fn max(&self, chunks: Range<u64>) -> u64 {
        let (mut from, mut to) = (self.leaves + chunks.start as usize, self.leaves + chunks.end as usize);
        let mut max = 0;
        while from < to {
            if from % 2 == 1 {
                max = max.max(self.tree[from]);
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                max = max.max(self.tree[to]);
            }
            (from, to) = (from / 2, to / 2);
        }
        max.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_a_list_finds() {
        let mut x = 9u64;
        let mut next = |n: u64| {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (x >> 33) % n
        };
        for chunks in [1, 2, 3, 8, 37, 64, 100] {
            let (mut tree, mut list) = (Longest::new(chunks), vec![CHUNK; chunks as usize]);
            for _ in 0..2000 {
                let (at, len) = (next(chunks), [0, next(5), next(100), next(CHUNK + 1)][next(4) as usize]);
                if next(3) == 0 {
                    tree.raise(at, len);
                    list[at as usize] = list[at as usize].max(len);
                } else {
                    tree.set(at, len);
                    list[at as usize] = len;
                }
                let from = next(chunks);
                let to = from + next(chunks - from + 1);
                let part = || (from..to).map(|i| (i, list[i as usize]));
                assert_eq!(tree.first(from..to, len), part().find(|(_, l)| *l >= len).map(|(i, _)| i), "{from}..{to} {len}");
                assert_eq!(tree.max(from..to), part().map(|(_, l)| l).max().unwrap_or(0));
            }
        }
    }
}
