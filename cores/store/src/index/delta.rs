//! The delta: what changed since the tree was written, and how a record holds one transaction's share of it.

use super::changes::Changes;
use super::layer::Layer;
use crate::block::{Cell, Patch};
use bytes::Bytes;
use denc::{DecodeError, Reader, Result, index, len32};

/// Onode id and range of an X key.
pub(crate) type Extent = (u64, u32);

/// A set of changes over a lower state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delta {
    /// Changes of all sections but the extents; none is a removal.
    pub(crate) keys: Changes,
    /// Changes of the extents.
    pub(crate) extents: Layer<Extent, Patch>,
    /// Bytes of memory that it takes, roughly.
    pub(crate) bytes: usize,
    /// Blocks that its patches set, counted again for each patch.
    pub(crate) cells: u64,
    /// Blocks at most that its range tombstones take from objects; see [`Self::lost_count`].
    pub(crate) gone: u64,
    /// Range tombstones of extents came from the journal, which does not say how many blocks they take.
    pub(crate) lost_count: bool,
}

/// Bytes of memory that an entry takes beyond its own bytes, roughly.
const OVERHEAD: usize = 112;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const DELETE_RANGE: u8 = 3;
const EXTENT: u8 = 4;
const EXTENT_RANGE: u8 = 5;

impl Delta {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.extents.is_empty()
    }

    /// Number of changes.
    pub(crate) fn len(&self) -> usize {
        self.keys.len() + self.extents.len()
    }

    /// Lays a patch over what this layer says about the range.
    pub(crate) fn patch(&mut self, key: Extent, mut patch: Patch) {
        if let Some(old) = self.extents.get_mut(&key) {
            patch.fill_from(old);
            *old = patch;
            return;
        }
        if self.extents.hidden(&key).is_some() {
            patch.close();
        }
        self.bytes += patch.heap();
        self.extents.put(key, patch);
    }

    /// Encodes the changes: range tombstones first, then single keys, so that a later put in a removed range stands.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for (from, to) in self.keys.ranges() {
            out.push(DELETE_RANGE);
            put_bytes(out, from);
            put_bytes(out, to);
        }
        for ((id, from), (id_to, to)) in self.extents.ranges() {
            out.push(EXTENT_RANGE);
            out.extend_from_slice(&id.to_le_bytes());
            out.extend_from_slice(&from.to_le_bytes());
            out.extend_from_slice(&id_to.to_le_bytes());
            out.extend_from_slice(&to.to_le_bytes());
        }
        for (key, value) in self.keys.iter() {
            out.push(if value.is_some() { PUT } else { DELETE });
            put_bytes(out, key);
            if let Some(value) = value {
                put_bytes(out, value);
            }
        }
        for ((id, range), patch) in self.extents.iter() {
            out.push(EXTENT);
            out.extend_from_slice(&id.to_le_bytes());
            out.extend_from_slice(&range.to_le_bytes());
            patch.encode(out);
        }
    }

    /// Applies recorded changes. Keys and values share `body`'s memory. Calls `seen` with each patch.
    pub(crate) fn apply(&mut self, body: &Bytes, mut seen: impl FnMut(&Patch)) -> Result<()> {
        let mut r = Reader::new(body);
        self.bytes += body.len();
        while !r.is_empty() {
            self.bytes += OVERHEAD;
            match r.u8()? {
                PUT => {
                    let (key, value) = (take_bytes(&mut r, body)?, take_bytes(&mut r, body)?);
                    self.keys.put(key, Some(value));
                }
                DELETE => {
                    let key = take_bytes(&mut r, body)?;
                    self.keys.put(key, None);
                }
                DELETE_RANGE => {
                    let (from, to) = (take_bytes(&mut r, body)?, take_bytes(&mut r, body)?);
                    self.keys.remove_range(from, to);
                }
                EXTENT => {
                    let key = (r.u64()?, r.u32()?);
                    let patch = Patch::decode(&mut r)?;
                    self.cells += u64::from(patch.set_blocks());
                    seen(&patch);
                    self.patch(key, patch);
                }
                EXTENT_RANGE => {
                    let (from, to) = ((r.u64()?, r.u32()?), (r.u64()?, r.u32()?));
                    self.extents.remove_range(from, to);
                }
                _ => return Err(DecodeError::Invalid("change in a record")),
            }
        }
        Ok(())
    }

    /// Number of blocks that gain or lose a reference when it is merged, at most; one that does both counts as two. None if
    /// nobody knows.
    pub(crate) fn references(&self) -> Option<u64> {
        (!self.lost_count).then_some(2 * self.cells + self.gone)
    }

    /// Drops it piece by piece: each item that this gives is one piece.
    pub(crate) fn dismantle(self) -> impl Iterator<Item = ()> + Send {
        self.keys.dismantle().chain(self.extents.dismantle())
    }

    /// Gives the staged blocks of a transaction their places.
    pub(crate) fn place(&mut self, mut place: impl FnMut(crate::block::Place) -> crate::block::Place) {
        let keys: Vec<Extent> = self.extents.iter().filter(|(_, p)| p.has_data()).map(|(k, _)| *k).collect();
        for key in keys {
            if let Some(patch) = self.extents.get_mut(&key) {
                patch.replace(&mut place);
            }
        }
    }

    /// Sets one block of an object.
    pub(crate) fn set_block(&mut self, id: u64, block: u64, cell: Cell) {
        let mut patch = Patch::default();
        patch.set((block % crate::block::RANGE) as u32, cell);
        self.patch((id, len32(index(block / crate::block::RANGE))), patch);
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&len32(bytes.len()).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn take_bytes(r: &mut Reader<'_>, body: &Bytes) -> Result<Bytes> {
    let part = r.blob()?;
    Ok(body.slice_ref(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Block, Place};

    #[test]
    fn what_is_recorded_is_applied_again() {
        let mut delta = Delta::default();
        let b = |s: &str| Bytes::copy_from_slice(s.as_bytes());
        delta.keys.remove_range(b("a"), b("m"));
        delta.keys.put(b("c"), Some(b("value")));
        delta.keys.put(b("z"), None);
        delta.extents.remove_range((5, 0), (6, 0));
        delta.set_block(5, 17, Cell::Data(Block { place: Place::disk(9), crc: 1 }));
        delta.set_block(7, 1, Cell::Hole);
        let mut body = Vec::new();
        delta.encode(&mut body);
        let mut again = Delta::default();
        let mut patches = 0;
        assert_eq!(again.apply(&body.clone().into(), |_| patches += 1), Ok(()));
        let mut second = Vec::new();
        again.encode(&mut second);
        assert_eq!((second, patches), (body.clone(), 2));
        assert!(again.extents.get(&(5, 1)).is_some_and(Patch::complete), "in a removed range nothing shows through");
        body.truncate(body.len() - 1);
        assert!(Delta::default().apply(&body.into(), |_| ()).is_err());
    }
}
