//! Where the bytes of an object lie.
//!
//! *Object space* is offsets as clients know them, *shard space* offsets within a shard. With k data shards and chunks
//! of c bytes, byte o of an object is in row o / (k·c), on shard i = (o mod k·c) / c, at row·c + o mod c of that shard.
//! A parity is as long as shard 0. What lies behind a shard's end counts as zeros and is stored nowhere.

use std::ops::Range;

/// Chunk and number of data shards: all that the place of a byte depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    k: u64,
    chunk: u64,
}

/// A piece of an object that lies in one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The data shard, below k.
    pub shard: usize,
    /// Place where it lies on that shard.
    pub place: Range<u64>,
    /// Place where it lies in the object.
    pub object: Range<u64>,
}

/// Chunks of objects whose chunk is chosen by their size, at least.
const LEAST_CHUNK: u64 = 16 << 10;

/// Chooses an object's chunk, in bytes: the smallest power of two that puts the whole object into one row, at least
/// 16 KiB, at most `most`; then filled up to a multiple of `step`, which is [`crate::Profile::chunk_step`]. `size` is
/// the object's, or the one that is expected; `None` if nobody knows.
pub fn chunk_for(size: Option<u64>, k: usize, most: u64, step: usize) -> u64 {
    let share = size.map_or(most, |size| size.div_ceil(k as u64));
    let chunk = if share >= most { most } else { share.next_power_of_two().clamp(LEAST_CHUNK.min(most), most) };
    chunk.max(1).next_multiple_of(step as u64)
}

impl Geometry {
    /// Makes the geometry of `k` data shards and chunks of `chunk` bytes.
    ///
    /// # Panics
    ///
    /// If one of them is 0, or a row is longer than a number of 64 bits holds.
    pub fn new(k: usize, chunk: u64) -> Geometry {
        let k = k as u64;
        assert!(k > 0 && chunk > 0 && k.checked_mul(chunk).is_some(), "{k} chunks of {chunk}");
        Geometry { k, chunk }
    }

    /// Bytes of a chunk.
    pub fn chunk(&self) -> u64 {
        self.chunk
    }

    /// Bytes of a row in object space.
    pub fn row(&self) -> u64 {
        self.k * self.chunk
    }

    /// Length of a shard of an object of `size` bytes. Positions from k on are parities.
    pub fn length(&self, size: u64, shard: usize) -> u64 {
        let shard = if (shard as u64) < self.k { shard as u64 } else { 0 };
        let (rows, rest) = (size / self.row(), size % self.row());
        rows * self.chunk + rest.saturating_sub(shard * self.chunk).min(self.chunk)
    }

    /// Shard and offset on it of a byte of the object.
    pub fn place(&self, offset: u64) -> (usize, u64) {
        let (row, within) = (offset / self.row(), offset % self.row());
        ((within / self.chunk) as usize, row * self.chunk + within % self.chunk)
    }

    /// Offset in the object of a byte of a data shard; `None` beyond 64 bits.
    ///
    /// # Panics
    ///
    /// If the shard is a parity.
    pub fn object(&self, shard: usize, place: u64) -> Option<u64> {
        let shard = shard as u64;
        assert!(shard < self.k, "shard {shard} of {}", self.k);
        (place / self.chunk).checked_mul(self.row())?.checked_add(shard * self.chunk + place % self.chunk)
    }

    /// Bytes of shards, the same of all, whose rows a range of the object touches: from the first chunk to the last.
    pub fn rows(&self, range: Range<u64>) -> Range<u64> {
        if range.is_empty() {
            return 0..0;
        }
        range.start / self.row() * self.chunk..((range.end - 1) / self.row() + 1) * self.chunk
    }

    /// Parts of a range of the object, in its order: one for each chunk.
    pub fn parts(&self, range: Range<u64>) -> impl Iterator<Item = Part> {
        let (this, mut at) = (*self, range.start);
        std::iter::from_fn(move || {
            (at < range.end).then(|| {
                let (shard, start) = this.place(at);
                let len = (this.chunk - start % this.chunk).min(range.end - at);
                at += len;
                Part { shard, place: start..start + len, object: at - len..at }
            })
        })
    }

    /// Bytes of one data shard that a range of the object holds. It is one range, since chunks of a shard lie together.
    ///
    /// # Panics
    ///
    /// If the shard is a parity.
    pub fn share(&self, range: Range<u64>, shard: usize) -> Range<u64> {
        assert!((shard as u64) < self.k, "shard {shard} of {}", self.k);
        self.length(range.start, shard)..self.length(range.end.max(range.start), shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_place() {
        for (k, chunk) in [(1, 1), (2, 3), (4, 4), (5, 7)] {
            let g = Geometry::new(k, chunk);
            for size in 0..3 * g.row() + 2 {
                // One byte after the other, into shards by hand.
                let mut shards = vec![Vec::new(); k];
                for o in 0..size {
                    let (shard, place) = g.place(o);
                    assert_eq!(shards[shard].len() as u64, place);
                    assert_eq!(g.object(shard, place), Some(o));
                    shards[shard].push(o);
                }
                for (i, shard) in shards.iter().enumerate() {
                    assert_eq!(g.length(size, i), shard.len() as u64, "{size} bytes, shard {i} of {k}");
                }
                assert_eq!(g.length(size, k + 1), g.length(size, 0));
                for start in 0..=size {
                    let mut seen: Vec<u64> = Vec::new();
                    for part in g.parts(start..size) {
                        let bytes = &shards[part.shard][part.place.start as usize..part.place.end as usize];
                        assert_eq!(bytes, part.object.clone().collect::<Vec<u64>>());
                        seen.extend(bytes);
                    }
                    assert_eq!(seen, (start..size).collect::<Vec<u64>>());
                    for (i, shard) in shards.iter().enumerate() {
                        let share = g.share(start..size, i);
                        let bytes: Vec<u64> = shard.iter().copied().filter(|o| (start..size).contains(o)).collect();
                        assert_eq!(shard[share.start as usize..share.end as usize], bytes);
                    }
                    let rows = g.rows(start..size);
                    let touched = (start..size).map(|o| g.place(o).1);
                    let span = touched
                        .clone()
                        .min()
                        .zip(touched.max())
                        .map_or(0..0, |(a, b)| a / chunk * chunk..(b / chunk + 1) * chunk);
                    assert_eq!(rows, span);
                }
            }
        }
    }

    #[test]
    fn chunks_follow_the_size() {
        let (k, most, step) = (4, 64 << 10, 4096);
        let of = |size| chunk_for(size, k, most, step) >> 10;
        assert_eq!([Some(0), Some(1), Some(16 << 10), Some(64 << 10)].map(of), [16; 4]);
        assert_eq!(
            [Some((64 << 10) + 1), Some(128 << 10), Some((128 << 10) + 1), Some(u64::MAX), None].map(of),
            [32, 32, 64, 64, 64]
        );
        // Packets that do not fit blocks: the chunk is filled up.
        assert_eq!(chunk_for(Some(1), k, most, 28672), 28672);
        assert_eq!(chunk_for(None, k, most, 1 << 20), 1 << 20);
    }
}
