//! The unit of everything on disk, and where a block may lie.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

use denc::{DecodeError, Reader, Result, len32};
use smallvec::SmallVec;

/// Bytes in a block: what is checksummed, allocated and read at least.
pub(crate) const BLOCK: usize = 4096;
/// Blocks under one X key (64 KiB): the value of a fully written range takes some 80 bytes.
pub(crate) const RANGE: u64 = 16;
/// Transactions with at least this much data write it to extents at once, in bytes; others keep it in the journal.
pub(crate) const LARGE: usize = 64 << 10;

/// Most blocks of a disk (32 TiB): the sets of its blocks take memory for each 16 MiB, and a forged number must not take all there is.
/// A larger disk is used up to here.
pub(crate) const MOST_BLOCKS: u64 = 1 << 33;

/// Number of blocks of a page of the index that holds nothing long.
pub(crate) const PAGE_BLOCKS: u32 = 2;

/// A run of blocks: the first, and their number.
pub(crate) type Run = (u64, u32);

/// Number of blocks that hold `bytes`.
pub(crate) fn blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK as u64)
}

/// Where a block of data lies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place(pub(crate) u64);

/// What a [`Place`] means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// Block number on the data disk.
    Disk(u64),
    /// In the journal: record, index of the block in it.
    Journal(u64, u32),
    /// In the transaction that is just being carried out: index of the block.
    Staged(u32),
    /// Nowhere: the data was damaged when it had to be moved or merged.
    Bad,
}

/// Bounds of records' numbers and of the blocks of one, as a place keeps them.
pub(crate) const MOST_SEQ: u64 = 1 << 43;
const MOST_INDEX: u32 = 1 << 20;
const JOURNAL: u64 = 1 << 63;
const STAGED: u64 = 1 << 62;

#[cfg(any(test, feature = "sim"))]
impl Cell {
    /// Returns where its data lies, if it has any.
    pub(crate) fn place(self) -> Option<Place> {
        match self {
            Cell::Data(block) => Some(block.place),
            _ => None,
        }
    }
}

impl Place {
    /// Damaged data.
    pub(crate) const BAD: Place = Place(u64::MAX);

    pub(crate) fn disk(block: u64) -> Self {
        assert!(block < STAGED);
        Self(block)
    }

    /// Block `index` of the record `seq`.
    pub(crate) fn journal(seq: u64, index: u32) -> Self {
        assert!(seq < MOST_SEQ && index < MOST_INDEX);
        Self(JOURNAL | seq << 20 | u64::from(index))
    }

    pub(crate) fn staged(index: u32) -> Self {
        Self(STAGED | u64::from(index))
    }

    pub(crate) fn place(self) -> Where {
        match (self.0 & JOURNAL != 0, self.0 & STAGED != 0) {
            _ if self == Self::BAD => Where::Bad,
            (true, _) => Where::Journal((self.0 & !JOURNAL) >> 20, (self.0 & 0xf_ffff) as u32),
            (_, true) => Where::Staged(denc::low32(self.0)),
            _ => Where::Disk(self.0),
        }
    }

    /// Returns true if a disk may say that `n` blocks lie from here on.
    fn holds(self, n: u32) -> bool {
        match self.place() {
            Where::Disk(block) => block <= MOST_BLOCKS && block + u64::from(n) <= MOST_BLOCKS,
            Where::Journal(_, index) => index + n <= MOST_INDEX,
            Where::Bad => true,
            // Only for as long as a transaction is carried out.
            Where::Staged(_) => false,
        }
    }

    /// The place `n` blocks behind this one.
    pub(crate) fn plus(self, n: u64) -> Self {
        if self == Self::BAD { self } else { Self(self.0 + n) }
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.place().fmt(f)
    }
}

/// A block of data: where it is, and what its checksum must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) place: Place,
    pub(crate) crc: u32,
}

/// What a layer says about one block of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// Nothing: look below.
    Unset,
    /// It reads as zeros and takes no space.
    Hole,
    /// It is there.
    Data(Block),
}

/// Changes to the blocks of one range (see [`RANGE`]); a value of the tree is a patch with nothing unset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Patch {
    set: u16,
    data: u16,
    blocks: SmallVec<[Block; 1]>,
}

impl Patch {
    /// All 16 blocks are holes.
    pub(crate) fn holes() -> Self {
        Self { set: u16::MAX, ..Self::default() }
    }

    fn index(&self, i: u32) -> usize {
        (self.data & ((1u16 << i) - 1)).count_ones() as usize
    }

    pub(crate) fn get(&self, i: u32) -> Cell {
        let bit = 1u16 << i;
        match (self.set & bit != 0, self.data & bit != 0) {
            (false, _) => Cell::Unset,
            (_, false) => Cell::Hole,
            _ => Cell::Data(self.blocks[self.index(i)]),
        }
    }

    pub(crate) fn set(&mut self, i: u32, cell: Cell) {
        let (bit, at) = (1u16 << i, self.index(i));
        if let Cell::Data(block) = cell {
            if self.data & bit != 0 {
                self.blocks[at] = block;
            } else if at == self.blocks.len() {
                self.blocks.push(block);
            } else {
                self.blocks.insert(at, block);
            }
            self.data |= bit;
        } else if self.data & bit != 0 {
            self.blocks.remove(at);
            self.data &= !bit;
        }
        if cell == Cell::Unset { self.set &= !bit } else { self.set |= bit }
    }

    /// Returns true if nothing is unset.
    pub(crate) fn complete(&self) -> bool {
        self.set == u16::MAX
    }

    /// Number of blocks of which it says something.
    pub(crate) fn set_blocks(&self) -> u32 {
        self.set.count_ones()
    }

    /// Returns true if it holds data.
    pub(crate) fn has_data(&self) -> bool {
        self.data != 0
    }

    /// Fills what is unset from `lower`.
    pub(crate) fn fill_from(&mut self, lower: &Patch) {
        if self.set == 0 {
            self.clone_from(lower);
            return;
        }
        let missing = lower.set & !self.set;
        for i in (0..16).filter(|i| missing & (1 << i) != 0) {
            self.set(i, lower.get(i));
        }
    }

    /// Makes all that is unset a hole.
    pub(crate) fn close(&mut self) {
        self.set = u16::MAX;
    }

    /// Index and block of each block with data.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Block)> + '_ {
        (0..16).filter(|i| self.data & (1 << i) != 0).zip(self.blocks.iter().copied())
    }

    /// Gives every block with data a new place.
    pub(crate) fn replace(&mut self, mut place: impl FnMut(Place) -> Place) {
        for block in &mut self.blocks {
            block.place = place(block.place);
        }
    }

    /// Bytes that it takes outside itself.
    pub(crate) fn heap(&self) -> usize {
        if self.blocks.spilled() { self.blocks.capacity() * size_of::<Block>() } else { 0 }
    }

    /// Two masks, then runs of blocks whose places follow each other: u8 count, u64 place, checksums. A block is unset, a hole (`set`) or data
    /// (both masks); `data` without `set` is kept for blocks of a packed unit.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.set.to_le_bytes());
        out.extend_from_slice(&self.data.to_le_bytes());
        let mut rest = &self.blocks[..];
        while let Some(first) = rest.first() {
            let n = (rest.iter().enumerate()).take_while(|(i, b)| b.place == first.place.plus(*i as u64)).count();
            out.push(u8::try_from(n).expect("16 blocks in a range"));
            out.extend_from_slice(&first.place.0.to_le_bytes());
            rest[..n].iter().for_each(|b| out.extend_from_slice(&b.crc.to_le_bytes()));
            rest = &rest[n..];
        }
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let (set, data) = (r.u16()?, r.u16()?);
        if data & !set != 0 {
            return Err(DecodeError::Invalid("range with packed blocks, which this program does not know"));
        }
        let want = data.count_ones() as usize;
        let mut blocks = SmallVec::with_capacity(want);
        while blocks.len() < want {
            let (n, place) = (usize::from(r.u8()?), Place(r.u64()?));
            if n == 0 || n > want - blocks.len() || !place.holds(len32(n)) {
                return Err(DecodeError::Invalid("extents of a range"));
            }
            for i in 0..n as u64 {
                blocks.push(Block { place: place.plus(i), crc: r.u32()? });
            }
        }
        Ok(Self { set, data, blocks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(n: u64) -> Block {
        Block { place: Place::disk(n), crc: n as u32 ^ 0x5555 }
    }

    #[test]
    fn places_say_what_they_are() {
        assert_eq!(Place::disk(7).place(), Where::Disk(7));
        assert_eq!(Place::journal(99, 3).plus(2).place(), Where::Journal(99, 5));
        assert_eq!(Place::staged(5).place(), Where::Staged(5));
        assert_eq!(Place::BAD.place(), Where::Bad);
    }

    #[test]
    fn places_that_no_disk_has_are_refused() {
        let value = |place: Place, n: u8| {
            let mut out = [0xff, 0xff, 0xff, 0xff, n].to_vec();
            out.extend_from_slice(&place.0.to_le_bytes());
            out.resize(out.len() + 4 * usize::from(n), 0);
            let rest = 16 - n;
            out.push(rest);
            out.extend_from_slice(&5u64.to_le_bytes());
            out.resize(out.len() + 4 * usize::from(rest), 0);
            Patch::decode(&mut Reader::new(&out))
        };
        assert!(value(Place::disk(MOST_BLOCKS - 2), 2).is_ok() && value(Place::disk(MOST_BLOCKS - 1), 2).is_err());
        assert!(value(Place::disk(1 << 44), 2).is_err() && value(Place::staged(0), 1).is_err());
        assert!(value(Place::journal(MOST_SEQ - 1, MOST_INDEX - 2), 2).is_ok());
        assert!(value(Place::journal(MOST_SEQ - 2, MOST_INDEX - 1), 2).is_err());
        assert!(value(Place(u64::MAX - 1), 3).is_err(), "places do not run into that of damaged data");
    }

    #[test]
    fn patches_lie_over_each_other_and_encode() {
        let mut upper = Patch::default();
        upper.set(9, Cell::Data(block(109)));
        upper.set(3, Cell::Data(block(50)));
        upper.set(4, Cell::Hole);
        let mut lower = Patch::default();
        (0..12).for_each(|i| lower.set(i, Cell::Data(block(u64::from(i)))));
        let mut both = upper.clone();
        both.fill_from(&lower);
        assert_eq!((both.get(3), both.get(4), both.get(5)), (Cell::Data(block(50)), Cell::Hole, Cell::Data(block(5))));
        assert_eq!((both.get(9), both.get(15)), (Cell::Data(block(109)), Cell::Unset));
        for patch in [upper, lower, both, Patch::holes(), Patch::default()] {
            let mut out = Vec::new();
            patch.encode(&mut out);
            let mut r = Reader::new(&out);
            assert_eq!(Patch::decode(&mut r), Ok(patch));
            assert!(r.is_empty());
        }
    }

    #[test]
    fn setting_in_any_order_equals_a_plain_array() {
        let mut x = 12345u64;
        for _ in 0..200 {
            let (mut patch, mut plain) = (Patch::default(), [Cell::Unset; 16]);
            for _ in 0..40 {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let i = (x >> 40) as u32 % 16;
                let cell = [Cell::Unset, Cell::Hole, Cell::Data(block(x >> 50)), Cell::Data(block(3))][(x >> 33) as usize % 4];
                patch.set(i, cell);
                plain[i as usize] = cell;
            }
            assert!((0..16).all(|i| patch.get(i) == plain[i as usize]));
        }
    }
}
