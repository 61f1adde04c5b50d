//! Where an object's bytes lie, and how long its shards are.

use super::Shards;
use crate::info::{Layout, ObjectInfo};
use ec::{Geometry, chunk_for};
use objectstore::{Damage, ObjectStat, Read, Unread};
use types::{EVersion, ObjectId};

/// What an object's record says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) version: EVersion,
    /// Bytes of the object.
    pub(crate) size: u64,
    /// Bytes of a chunk.
    pub(crate) chunk: u64,
}

/// The answer about an object whose record, or whose shard, is not what it must be.
pub(crate) fn damaged(object: &ObjectId, what: &str) -> Unread {
    Unread::Damaged(Damage { what: format!("{what} of {object}"), offset: 0, expected: 0, found: 0 })
}

impl Shards {
    /// Returns what a record says of an object.
    ///
    /// # Errors
    /// The record cannot be read, or is none of an object in shards of this scheme.
    pub(crate) fn known(&self, object: &ObjectId, record: &[u8]) -> Read<Known> {
        let info = ObjectInfo::decode(record).map_err(|_| damaged(object, "record"))?;
        let Layout { id, chunk } = info.layout.ok_or_else(|| damaged(object, "layout in the record"))?;
        let size = info.size.ok_or_else(|| damaged(object, "size in the record"))?;
        if id != 0 || !chunk.is_multiple_of(self.step as u64) {
            return Err(damaged(object, "layout in the record"));
        }
        Ok(Known { version: info.version, size, chunk })
    }

    /// Returns what is known of an object here, after a look at whether its shard is as long as it must be.
    pub(crate) fn known_here(&self, object: &ObjectId, stat: &ObjectStat) -> Read<Known> {
        let known = self.known(object, &stat.info)?;
        match usize::try_from(object.shard.0) {
            Ok(shard) if stat.size == self.length(known.size, known.chunk, shard) => Ok(known),
            _ => Err(damaged(object, "length of the shard")),
        }
    }

    /// The places of bytes in chunks of so many.
    pub(crate) fn geometry(&self, chunk: u64) -> Geometry {
        Geometry::new(self.k(), chunk)
    }

    /// Bytes of a shard of an object of `size` bytes.
    ///
    /// A parity is as long as shard 0. Where the code takes packets, it is filled up to whole ones: of a packet that the
    /// data end in, parities have bytes behind that end.
    pub(crate) fn length(&self, size: u64, chunk: u64, shard: usize) -> u64 {
        let length = self.geometry(chunk).length(size, shard);
        if shard < self.k() { length } else { length.next_multiple_of(self.code.grain() as u64) }
    }

    /// Chooses the chunk of an object that is new, or replaced as a whole. `size`: the one that it has or is expected to
    /// get, if somebody knows.
    pub(crate) fn chunk(&self, size: Option<u64>) -> u64 {
        self.unit.unwrap_or_else(|| chunk_for(size, self.k(), self.most, self.step))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::shards;

    #[test]
    fn parities_of_packets_end_with_whole_packets() {
        let bytes = shards(4, 2, "");
        assert_eq!(
            (0..6).map(|shard| bytes.length(70_000, 16384, shard)).collect::<Vec<_>>(),
            [20848, 16384, 16384, 16384, 20848, 20848]
        );
        let packets = shards(2, 2, "technique=cauchy_good packetsize=512");
        assert_eq!((0..4).map(|shard| packets.length(5000, 16384, shard)).collect::<Vec<_>>(), [5000, 0, 8192, 8192]);
    }

    #[test]
    fn a_profile_that_names_a_unit_chooses_the_chunk() {
        assert_eq!(shards(2, 1, "stripe_unit=8192").chunk(Some(1 << 20)), 8192);
        assert_eq!(shards(2, 1, "").chunk(Some(10)), 16 << 10);
        assert_eq!(shards(2, 1, "").chunk(None), 64 << 10);
    }
}
