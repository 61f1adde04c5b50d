//! A sequence of shared buffers that stands for their concatenation: payloads pass through without being copied.

use bytes::Bytes;
use std::sync::Arc;

/// Bytes in pieces. Empty pieces are never kept.
#[derive(Clone, Debug, Default)]
pub struct Rope {
    pieces: Vec<Bytes>,
    len: usize,
    checksum: Option<u32>,
    block_sums: BlockSums,
}

/// The CRC-32C of each whole block of [`BlockSums::BLOCK`] bytes, from the first on (the register from all ones, not
/// inverted at the end): who received bytes from a network has them at hand, and who stores them needs them. Or
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockSums(Option<Arc<Known>>);

/// Behind a pointer: few ropes know theirs, and the others should not carry more than that they do not.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    all: Arc<[u32]>,
    first: usize,
}

impl BlockSums {
    /// Bytes in a block: those of disks.
    pub const BLOCK: usize = 4096;

    fn known(all: Arc<[u32]>, first: usize) -> Self {
        Self(Some(Arc::new(Known { all, first })))
    }

    /// Those of the bytes from `at` on: nothing, if no block begins there.
    #[must_use]
    pub fn from(&self, at: usize) -> Self {
        match &self.0 {
            Some(_) if at == 0 => self.clone(),
            Some(known) if at.is_multiple_of(Self::BLOCK) => Self::known(known.all.clone(), known.first + at / Self::BLOCK),
            _ => Self(None),
        }
    }

    /// Those of the first `len` bytes.
    pub fn of(&self, len: usize) -> &[u32] {
        let known = self.0.as_ref().and_then(|known| known.all.get(known.first..)).unwrap_or_default();
        &known[..known.len().min(len / Self::BLOCK)]
    }
}

impl FromIterator<u32> for BlockSums {
    fn from_iter<I: IntoIterator<Item = u32>>(sums: I) -> Self {
        Self::known(sums.into_iter().collect(), 0)
    }
}

impl Rope {
    /// No bytes.
    pub const fn new() -> Self {
        Self { pieces: Vec::new(), len: 0, checksum: None, block_sums: BlockSums(None) }
    }

    /// Total number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces in order.
    pub fn pieces(&self) -> &[Bytes] {
        &self.pieces
    }

    /// Appends a piece.
    #[inline]
    pub fn push(&mut self, piece: impl Into<Bytes>) {
        let piece = piece.into();
        if !piece.is_empty() {
            self.forget_sums();
            self.len += piece.len();
            self.pieces.push(piece);
        }
    }

    /// Appends `n` zero bytes, shared from one static page.
    pub fn push_zeros(&mut self, mut n: usize) {
        static ZEROS: [u8; 65_536] = [0; 65_536];
        while n > 0 {
            let step = n.min(ZEROS.len());
            self.push(Bytes::from_static(&ZEROS[..step]));
            n -= step;
        }
    }

    /// Says what the CRC-32C of all the bytes is (the register from all ones, not inverted at the end), so that whoever
    /// sends them need not compute it. It is forgotten when something is appended.
    pub fn with_checksum(self, checksum: u32) -> Self {
        Self { checksum: Some(checksum), ..self }
    }

    /// Returns what [`Self::with_checksum`] said.
    pub fn checksum(&self) -> Option<u32> {
        self.checksum
    }

    /// Says what the checksums of its blocks are. They are forgotten when something is appended.
    pub fn with_block_sums(self, block_sums: BlockSums) -> Self {
        Self { block_sums, ..self }
    }

    /// Returns what [`Self::with_block_sums`] said.
    pub fn block_sums(&self) -> &BlockSums {
        &self.block_sums
    }

    #[inline]
    fn forget_sums(&mut self) {
        self.checksum = None;
        if self.block_sums.0.is_some() {
            self.forget_block_sums();
        }
    }

    #[cold]
    fn forget_block_sums(&mut self) {
        self.block_sums = BlockSums(None);
    }

    /// Appends all pieces of `other`.
    pub fn append(&mut self, other: Rope) {
        if self.is_empty() {
            *self = other;
            return;
        }
        if !other.is_empty() {
            self.forget_sums();
        }
        self.len += other.len;
        self.pieces.extend(other.pieces);
    }

    /// The part `from..from + len` (cut at the end), sharing the buffers.
    pub fn slice(&self, from: usize, len: usize) -> Rope {
        let mut out = Rope::new();
        let (mut skip, mut left) = (from, len);
        for piece in &self.pieces {
            if left == 0 {
                break;
            }
            if skip >= piece.len() {
                skip -= piece.len();
                continue;
            }
            let n = left.min(piece.len() - skip);
            out.push(piece.slice(skip..skip + n));
            left -= n;
            skip = 0;
        }
        if self.block_sums.0.is_some() {
            out.block_sums = self.block_sums.from(from);
        }
        out
    }

    /// All bytes in one buffer; copies only if there is more than one piece.
    pub fn contiguous(&self) -> Bytes {
        match &self.pieces[..] {
            [] => Bytes::new(),
            [one] => one.clone(),
            many => many.concat().into(),
        }
    }

    /// All bytes, copied.
    pub fn to_vec(&self) -> Vec<u8> {
        self.pieces.concat()
    }

    /// Copies the bytes to the front of `out`, which must have room for them.
    pub fn copy_to(&self, out: &mut [u8]) {
        let mut at = 0;
        for piece in &self.pieces {
            out[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
    }
}

impl From<Bytes> for Rope {
    fn from(piece: Bytes) -> Self {
        let mut rope = Rope::new();
        rope.push(piece);
        rope
    }
}

impl From<Vec<u8>> for Rope {
    fn from(piece: Vec<u8>) -> Self {
        Bytes::from(piece).into()
    }
}

impl From<&'static [u8]> for Rope {
    fn from(piece: &'static [u8]) -> Self {
        Bytes::from_static(piece).into()
    }
}

impl FromIterator<Bytes> for Rope {
    fn from_iter<I: IntoIterator<Item = Bytes>>(pieces: I) -> Self {
        let mut rope = Rope::new();
        pieces.into_iter().for_each(|p| rope.push(p));
        rope
    }
}

/// Equal if the bytes are, however they are cut.
impl PartialEq for Rope {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.pieces.iter().flatten().eq(other.pieces.iter().flatten())
    }
}

impl Eq for Rope {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_cross_pieces() {
        let rope: Rope = ["abc", "", "defg", "h"].into_iter().map(|s| Bytes::from_static(s.as_bytes())).collect();
        assert_eq!(rope.len(), 8);
        assert_eq!(rope.slice(2, 3).to_vec(), b"cde");
        assert_eq!(rope.slice(6, 100).to_vec(), b"gh");
        assert_eq!(rope.slice(8, 1), Rope::new());
        assert_eq!(rope, Rope::from(b"abcdefgh".to_vec()));
    }

    #[test]
    fn a_known_checksum_stays_until_something_is_appended() {
        let known = Rope::from(b"abc".to_vec()).with_checksum(7);
        let mut rope = Rope::new();
        rope.append(known.clone());
        rope.append(Rope::new());
        assert_eq!(rope.checksum(), Some(7));
        assert_eq!(rope.slice(0, 2).checksum(), None);
        rope.append(known);
        assert_eq!(rope.checksum(), None);
    }

    #[test]
    fn sums_of_blocks_follow_their_blocks() {
        const B: usize = BlockSums::BLOCK;
        let mut rope = Rope::from(vec![0; 3 * B + 7]).with_block_sums([1, 2, 3].into_iter().collect());
        let of = |rope: &Rope| rope.block_sums().of(rope.len()).to_vec();
        assert_eq!(of(&rope), [1, 2, 3]);
        assert_eq!((of(&rope.slice(B, 2 * B)), of(&rope.slice(B, 2 * B - 1))), (vec![2, 3], vec![2]));
        assert_eq!((of(&rope.slice(B, 2 * B).slice(B, B)), of(&rope.slice(B + 1, 2 * B))), (vec![3], vec![]));
        assert_eq!(of(&rope.slice(5 * B, B)), Vec::<u32>::new());
        rope.push(b"x".to_vec());
        assert_eq!(of(&rope), Vec::<u32>::new());
    }
}
