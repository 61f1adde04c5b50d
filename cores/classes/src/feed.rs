//! Reads an object's data in large pieces and hands it out in small ones.

use crate::{Fail, View};
use bytes::{Bytes, BytesMut};

/// Bytes that are read at once, at least.
const PIECE: u64 = 64 << 10;
/// Bytes of entries after which a listing ends, and says that there is more.
pub(crate) const LISTING_BYTES: usize = 4 << 20;

/// Ranges of an object's data, as one row of bytes.
pub(crate) struct Feed<'a> {
    view: &'a dyn View,
    /// Ranges that were not read yet: `(offset, len)`, the next one last.
    ranges: Vec<(u64, u64)>,
    /// Bytes that were read and not handed out.
    held: BytesMut,
}

impl<'a> Feed<'a> {
    /// A feed of these ranges, `(offset, len)`, in their order.
    pub(crate) fn new(view: &'a dyn View, mut ranges: Vec<(u64, u64)>) -> Self {
        ranges.reverse();
        Self { view, ranges, held: BytesMut::new() }
    }

    /// Returns true if all was handed out.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.ranges.iter().all(|(_, len)| *len == 0)
    }

    /// The next `len` bytes, or `None` if there are fewer.
    pub(crate) fn take(&mut self, len: u64) -> Result<Option<Bytes>, Fail> {
        let unread: u64 = self.ranges.iter().map(|(_, len)| len).fold(0, |sum, len| sum.saturating_add(*len));
        if (self.held.len() as u64).saturating_add(unread) < len {
            return Ok(None);
        }
        while (self.held.len() as u64) < len {
            let Some((offset, rest)) = self.ranges.last_mut() else { return Ok(None) };
            let wanted = (*rest).min(PIECE.max(len - self.held.len() as u64));
            let piece = self.view.read(*offset, wanted)?;
            // The object is shorter than it says.
            if piece.len() as u64 != wanted {
                return Ok(None);
            }
            piece.pieces().iter().for_each(|bytes| self.held.extend_from_slice(bytes));
            (*offset, *rest) = (*offset + wanted, *rest - wanted);
            if *rest == 0 {
                self.ranges.pop();
            }
        }
        Ok(Some(self.held.split_to(denc::index(len)).freeze()))
    }
}
