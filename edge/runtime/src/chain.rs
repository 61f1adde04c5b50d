//! A queue of bytes in pieces: what is still to be sent or written.

use bytes::Bytes;
use std::collections::VecDeque;
use std::io::IoSlice;
use types::Rope;

/// Most pieces of one system call. The kernel's limit is 1024; beyond some dozens nothing is gained.
pub(crate) const MOST_PIECES: usize = 256;

/// Bytes in order, taken from the front.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    pieces: VecDeque<Bytes>,
    /// Bytes of the first piece that are taken already. They stay allocated and in place, because the kernel may still
    /// read them.
    taken: usize,
    len: usize,
}

impl Chain {
    /// Makes an empty chain with room for so many pieces.
    pub(crate) fn with_capacity(pieces: usize) -> Self {
        Self { pieces: VecDeque::with_capacity(pieces), ..Self::default() }
    }

    /// Says whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a rope.
    pub(crate) fn append(&mut self, rope: &Rope) {
        self.len += rope.len();
        self.pieces.extend(rope.pieces().iter().cloned());
    }

    /// Appends one piece.
    pub(crate) fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.len += piece.len();
            self.pieces.push_back(piece);
        }
    }

    /// The front of what is left, as at most [`MOST_PIECES`] slices.
    pub(crate) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let taken = self.taken;
        self.pieces.iter().take(MOST_PIECES).enumerate().map(move |(i, p)| if i == 0 { &p[taken..] } else { &p[..] })
    }

    /// The front of what is left, for a vectored write.
    pub(crate) fn io_slices(&self) -> Vec<IoSlice<'_>> {
        self.slices().map(IoSlice::new).collect()
    }

    /// Takes `n` bytes from the front.
    pub(crate) fn advance(&mut self, n: usize) {
        assert!(n <= self.len, "more bytes taken than there were");
        self.len -= n;
        let mut n = n + self.taken;
        while let Some(first) = self.pieces.front() {
            if n < first.len() {
                break;
            }
            n -= first.len();
            self.pieces.pop_front();
        }
        self.taken = n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_from_the_front_across_pieces() {
        let whole: Vec<u8> = (0..=255).collect();
        for step in [1, 2, 3, 7, 100, 256] {
            let mut chain = Chain::default();
            let mut rope = Rope::new();
            whole.chunks(5).for_each(|c| rope.push(c.to_vec()));
            chain.append(&rope);
            let mut seen = Vec::new();
            while !chain.is_empty() {
                let n = step.min(chain.len);
                let front: Vec<u8> = chain.slices().flatten().copied().collect();
                seen.extend_from_slice(&front[..n]);
                chain.advance(n);
            }
            assert_eq!(seen, whole);
            assert_eq!(chain.slices().count(), 0);
        }
    }
}
