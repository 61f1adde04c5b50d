//! What a look-up can miss, as numbers that wishes carry, and for whom it is fetched.

use crate::index::page::Ptr;
use objectstore::Hold;

/// For whom something is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// An operation of a placement group.
    Hold(Hold),
    /// A transaction that waits to be carried out, by its number.
    Stalled(u64),
    /// A checkpoint that needs a page or a block.
    Checkpoint,
    /// Defragmentation.
    Defragment,
    /// Opening, and the checker.
    Open,
}

/// What a fetch reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Item {
    /// An index page in one piece: first block, number of blocks.
    Page(u64, u32),
    /// An index page in several pieces: first block, number of blocks in all. Who looked for it remembered where the
    /// others are ([`crate::pieces::Pieces`]).
    Pieces(u64, u32),
    /// Blocks of data: the first, and their number.
    Data(u64, u32),
    /// All data of a journal record, by its sequence number.
    Record(u64),
}

/// Most blocks of one read.
pub(crate) const LONGEST_READ: u32 = 1024;

/// Bit from which on the kind of a wish stands.
const TAG: u32 = 60;

/// Encodes a wish for an index page as a number.
pub(crate) fn wish_page(ptr: &Ptr) -> u64 {
    let tag: u64 = if ptr.pieces.is_none() { 1 } else { 5 };
    tag << TAG | u64::from(ptr.blocks) << 44 | ptr.block
}

/// Encodes a wish for `n` blocks of data from `block` on; `n` is below 2^16.
pub(crate) fn wish_data(block: u64, n: u32) -> u64 {
    2 << TAG | u64::from(n) << 44 | block
}

pub(crate) fn wish_record(seq: u64) -> u64 {
    3 << TAG | seq
}

/// Encodes a wish that a waiting transaction is carried out.
pub(crate) fn wish_done(stalled: u64) -> u64 {
    4 << TAG | stalled
}

/// The wish that the store has the version of shared omaps. The next checkpoint gives it that.
pub(crate) const WISH_MARK: u64 = 6 << TAG;

/// The item that a wish names, if it names one.
pub(crate) fn item(wish: u64) -> Option<Item> {
    let (n, block) = ((wish >> 44 & 0xffff) as u32, wish & 0xfff_ffff_ffff);
    match wish >> TAG {
        1 if n > 0 => Some(Item::Page(block, n)),
        2 if n > 0 => Some(Item::Data(block, n)),
        5 if n > 0 => Some(Item::Pieces(block, n)),
        3 => Some(Item::Record(wish & ((1 << TAG) - 1))),
        _ => None,
    }
}

/// The number of the waiting transaction that a wish names, if it names one.
pub(crate) fn stalled(wish: u64) -> Option<u64> {
    (wish >> TAG == 4).then_some(wish & ((1 << TAG) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_understood() {
        let ptr = Ptr::new(&[(1 << 40, 40_000)], 0);
        assert_eq!(item(wish_page(&ptr)), Some(Item::Page(1 << 40, 40_000)));
        let ptr = Ptr::new(&[(1 << 40, 3), (7, 4)], 0);
        assert_eq!(item(wish_page(&ptr)), Some(Item::Pieces(1 << 40, 7)));
        assert_eq!(item(wish_data(77, 3)), Some(Item::Data(77, 3)));
        assert_eq!(item(wish_record(1 << 41)), Some(Item::Record(1 << 41)));
        assert_eq!(item(0), None);
    }
}
