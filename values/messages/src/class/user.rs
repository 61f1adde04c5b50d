//! Class `user`: the buckets of a user of the object gateway, and what they hold together.

use bytes::Bytes;
use denc::{Decode, DecodeError, Encode, Reader, Result, envelope};
use types::UTime;

/// A bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Name.
    pub name: Bytes,
    /// Prefix of its objects.
    pub marker: Bytes,
    /// Id.
    pub id: Bytes,
    /// Place where it lies, if by a rule; the pools otherwise.
    pub placement: Bytes,
    /// Pool of the data.
    pub data_pool: Bytes,
    /// Pool of the index.
    pub index_pool: Bytes,
    /// Pool of data that needs an omap.
    pub extra_pool: Bytes,
}

impl Decode for Bucket {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("Bucket", 8)?;
        e.at_least("Bucket", 4)?;
        let version = e.version;
        let b = &mut e.body;
        let mut bucket = Self { name: b.get()?, ..Self::default() };
        if version < 8 {
            bucket.data_pool = b.get()?;
        }
        bucket.marker = b.get()?;
        bucket.id = b.get()?;
        if version < 8 {
            bucket.index_pool = if version >= 5 { b.get()? } else { bucket.data_pool.clone() };
            if version >= 7 {
                bucket.extra_pool = b.get()?;
            }
            return Ok(bucket);
        }
        bucket.placement = b.get()?;
        if version == 8 && bucket.placement.is_empty() {
            (bucket.data_pool, bucket.index_pool, bucket.extra_pool) = (b.get()?, b.get()?, b.get()?);
        }
        Ok(bucket)
    }
}

impl Encode for Bucket {
    fn encode(&self, out: &mut Vec<u8>) {
        if self.placement.is_empty() {
            envelope(out, 7, 3, |out| {
                self.name.encode(out);
                self.data_pool.encode(out);
                self.marker.encode(out);
                self.id.encode(out);
                self.index_pool.encode(out);
                self.extra_pool.encode(out);
            });
        } else {
            envelope(out, 9, 8, |out| {
                self.name.encode(out);
                self.marker.encode(out);
                self.id.encode(out);
                self.placement.encode(out);
            });
        }
    }
}

/// A bucket and what is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketEntry {
    /// The bucket.
    pub bucket: Bucket,
    /// Bytes.
    pub size: u64,
    /// Bytes, each object rounded up.
    pub size_rounded: u64,
    /// Time when it was made.
    pub created: UTime,
    /// Objects.
    pub count: u64,
    /// True if the user's sums contain it.
    pub synced: bool,
}

impl Decode for BucketEntry {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("BucketEntry", 9)?;
        e.at_least("BucketEntry", 5)?;
        let version = e.version;
        let b = &mut e.body;
        // A name that is in the bucket, too.
        b.blob()?;
        let size = b.get()?;
        let mut created = UTime { sec: b.get()?, nsec: 0 };
        let (count, bucket, size_rounded) = (b.get()?, b.get()?, b.get()?);
        let synced = if version >= 6 { b.get()? } else { false };
        if version >= 7 {
            created = b.get()?;
        }
        if version == 8 {
            b.blob()?;
        }
        Ok(Self { bucket, size, size_rounded, created, count, synced })
    }
}

impl Encode for BucketEntry {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 9, 5, |out| {
            "".encode(out);
            self.size.encode(out);
            self.created.sec.encode(out);
            self.count.encode(out);
            self.bucket.encode(out);
            self.size_rounded.encode(out);
            self.synced.encode(out);
            self.created.encode(out);
        });
    }
}

/// Sums over buckets. They wrap around: a bucket may be taken out that was never counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Objects.
    pub entries: u64,
    /// Bytes.
    pub bytes: u64,
    /// Bytes, each object rounded up.
    pub bytes_rounded: u64,
}
denc::versioned!(Stats, 1, 1 { entries, bytes, bytes_rounded });

impl Stats {
    /// With a bucket.
    pub fn plus(self, bucket: &BucketEntry) -> Self {
        Self {
            entries: self.entries.wrapping_add(bucket.count),
            bytes: self.bytes.wrapping_add(bucket.size),
            bytes_rounded: self.bytes_rounded.wrapping_add(bucket.size_rounded),
        }
    }

    /// Without a bucket.
    pub fn minus(self, bucket: &BucketEntry) -> Self {
        Self {
            entries: self.entries.wrapping_sub(bucket.count),
            bytes: self.bytes.wrapping_sub(bucket.size),
            bytes_rounded: self.bytes_rounded.wrapping_sub(bucket.size_rounded),
        }
    }
}

/// A user's sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// All buckets.
    pub stats: Stats,
    /// Time when all of them were last counted.
    pub last_sync: UTime,
    /// Time when one was last counted.
    pub last_update: UTime,
}
denc::versioned!(Header, 1, 1 { stats, last_sync, last_update });

/// Output of `get_header`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderReply {
    /// The sums.
    pub header: Header,
}
denc::versioned!(HeaderReply, 1, 1 { header });

/// Input of `set_buckets_info`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetOp {
    /// Buckets.
    pub entries: Vec<BucketEntry>,
    /// True if buckets that are not there are added.
    pub add: bool,
    /// Time.
    pub time: UTime,
}
denc::versioned!(SetOp, 1, 1 { entries, add, time });

/// Input of `remove_bucket`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoveOp {
    /// The bucket.
    pub bucket: Bucket,
}
denc::versioned!(RemoveOp, 1, 1 { bucket });

/// Input of `complete_stats_sync` and `reset_user_stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeOp {
    /// Time.
    pub time: UTime,
}
denc::versioned!(TimeOp, 1, 1 { time });

/// Input of `list_buckets`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOp {
    /// Bucket after which to begin.
    pub marker: Bytes,
    /// Most buckets.
    pub max: i32,
    /// Bucket before which to end, if not empty; not known to version 1.
    pub end: Bytes,
}

impl Decode for ListOp {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("ListOp", 2)?;
        let (marker, max) = (e.body.get()?, e.body.get()?);
        let end = if e.version >= 2 { e.body.get()? } else { Bytes::new() };
        Ok(Self { marker, max, end })
    }
}

impl Encode for ListOp {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 2, 1, |out| {
            self.marker.encode(out);
            self.max.encode(out);
            self.end.encode(out);
        });
    }
}

/// Input of `reset_user_stats2`, which counts some buckets at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResetOp {
    /// Time.
    pub time: UTime,
    /// Bucket after which to go on.
    pub marker: Bytes,
    /// Sums so far.
    pub stats: Stats,
}
denc::versioned!(ResetOp, 1, 1 { time, marker, stats });

/// Output of `reset_user_stats2`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResetReply {
    /// Bucket after which to go on.
    pub marker: Bytes,
    /// Sums so far.
    pub stats: Stats,
    /// True if there is more.
    pub truncated: bool,
}
denc::versioned!(ResetReply, 1, 1 { marker, stats, truncated });

/// Input of `get_header`: an envelope with nothing in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nothing;

impl Decode for Nothing {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> std::result::Result<Self, DecodeError> {
        r.envelope("Nothing", 1).map(|_| Self)
    }
}

impl Encode for Nothing {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 1, 1, |_| {});
    }
}
