//! The data blocks of one transaction, before they are placed and while they are in memory.

use crate::block::BLOCK;
use crate::checked::Checked;
use bytes::Bytes;
use denc::len32;
use kernels::{SEED, crc32c};
use smallvec::SmallVec;
use types::{BlockSums, Rope};

const _: () = assert!(BLOCK == BlockSums::BLOCK);

/// Whole blocks in order, with their checksums; they share the memory of whoever brought them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Staged {
    /// Index of the first block of each piece, and the piece.
    pieces: SmallVec<[(u32, Rope); 1]>,
    crcs: SmallVec<[u32; 2]>,
}

impl Staged {
    /// Blocks whose checksums are known.
    pub(crate) fn known(data: Rope, crcs: &[u32]) -> Self {
        Self { pieces: SmallVec::from_iter([(0, data)]), crcs: SmallVec::from_slice(crcs) }
    }

    /// Number of blocks.
    pub(crate) fn len(&self) -> usize {
        self.crcs.len()
    }

    /// Appends whole blocks; tells the index of the first.
    pub(crate) fn push(&mut self, data: Rope) -> u32 {
        assert!(data.len().is_multiple_of(BLOCK));
        let first = len32(self.crcs.len());
        match data.block_sums().of(data.len()) {
            known if known.len() * BLOCK == data.len() => self.crcs.extend_from_slice(known),
            _ => self.compute(&data),
        }
        // Only while testing, since the bytes are not to be gone through again: who says sums must have the right ones.
        #[cfg(debug_assertions)]
        {
            let mut again = Self::default();
            again.compute(&data);
            assert_eq!(again.crcs[..], self.crcs[first as usize..], "sums of other bytes");
        }
        self.pieces.push((first, data));
        first
    }

    fn compute(&mut self, data: &Rope) {
        let (mut crc, mut room) = (SEED, BLOCK);
        for piece in data.pieces() {
            let mut rest = &piece[..];
            while !rest.is_empty() {
                let (now, later) = rest.split_at(room.min(rest.len()));
                crc = crc32c(crc, now);
                (rest, room) = (later, room - now.len());
                if room == 0 {
                    self.crcs.push(crc);
                    (crc, room) = (SEED, BLOCK);
                }
            }
        }
    }

    /// Appends whole blocks whose checksums nobody will ask for.
    pub(crate) fn push_unsummed(&mut self, data: Rope) -> u32 {
        let first = len32(self.crcs.len());
        self.crcs.extend(std::iter::repeat_n(0, data.len() / BLOCK));
        self.pieces.push((first, data));
        first
    }

    pub(crate) fn crc(&self, index: u32) -> u32 {
        self.crcs[index as usize]
    }

    pub(crate) fn crcs(&self) -> &[u32] {
        &self.crcs
    }

    /// One block.
    pub(crate) fn get(&self, index: u32) -> Option<Checked> {
        Some(Checked::known(self.bytes(index)?, *self.crcs.get(index as usize)?))
    }

    fn bytes(&self, index: u32) -> Option<Bytes> {
        let at = self.pieces.partition_point(|(first, _)| *first <= index).checked_sub(1)?;
        let (first, rope) = &self.pieces[at];
        let from = (index - first) as usize * BLOCK;
        if let [one] = rope.pieces() {
            return (from < one.len()).then(|| one.slice(from..from + BLOCK));
        }
        (from < rope.len()).then(|| rope.slice(from, BLOCK).contiguous())
    }

    /// `n` blocks from `first` on.
    pub(crate) fn rope(&self, first: u32, n: u32) -> Rope {
        let mut out = Rope::new();
        let (from, to) = (first as usize * BLOCK, (first + n) as usize * BLOCK);
        for (start, piece) in &self.pieces {
            let start = *start as usize * BLOCK;
            let (a, b) = (from.max(start), to.min(start + piece.len()));
            if a < b {
                out.append(piece.slice(a - start, b - a));
            }
        }
        out
    }

    /// Copies all blocks to `out`, which is as large as they are.
    pub(crate) fn copy_to(&self, out: &mut [u8]) {
        for (first, rope) in &self.pieces {
            rope.copy_to(&mut out[*first as usize * BLOCK..]);
        }
    }

    /// The same blocks, now in `bytes`.
    pub(crate) fn moved_to(&mut self, bytes: Bytes) {
        self.pieces.clear();
        self.pieces.push((0, bytes.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_across_pieces_are_found() {
        let mut staged = Staged::default();
        let bytes: Vec<u8> = (0..5 * BLOCK).map(|i| (i / 7) as u8).collect();
        let cut: Rope = bytes.chunks(1000).map(Bytes::copy_from_slice).collect();
        assert_eq!((staged.push(cut.slice(0, 3 * BLOCK)), staged.push(cut.slice(3 * BLOCK, 2 * BLOCK))), (0, 3));
        for i in 0..5 {
            let block = &bytes[i * BLOCK..(i + 1) * BLOCK];
            assert_eq!(staged.get(i as u32).as_ref().map(|b| &b.bytes()[..]), Some(block));
            assert_eq!(staged.crc(i as u32), crc32c(SEED, block));
        }
        let sums = staged.crcs().iter().copied().collect();
        let mut known = Staged::default();
        known.push(cut.slice(0, 2 * BLOCK));
        known.push(cut.clone().with_block_sums(sums).slice(2 * BLOCK, 3 * BLOCK));
        assert_eq!(known.crcs(), staged.crcs(), "computed or known, they are the same");
        assert!(staged.get(5).is_none());
        assert_eq!(staged.rope(1, 3).to_vec(), &bytes[BLOCK..4 * BLOCK]);
    }
}
