//! Class `rgw`: buckets whose index is to be spread over more objects.

use bytes::Bytes;
use denc::{Decode, Encode, Reader, Result, envelope};
use types::UTime;

/// A bucket to be resharded (`cls_rgw_reshard_entry`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Time when that was wished.
    pub time: UTime,
    /// Tenant of the bucket.
    pub tenant: Bytes,
    /// The bucket.
    pub bucket: Bytes,
    /// Its instance.
    pub id: Bytes,
    /// Its instance afterwards. Only in version 1; later ones have nothing in its place.
    pub new_id: Option<Bytes>,
    /// Objects of its index.
    pub old_shards: u32,
    /// Objects of its index afterwards.
    pub new_shards: u32,
    /// The one who wished it; from version 3 on.
    pub initiator: Option<u8>,
}

impl Entry {
    /// The key under which the bucket is stored.
    pub fn key(tenant: &[u8], bucket: &[u8]) -> Bytes {
        [tenant, b":", bucket].concat().into()
    }
}

impl Decode for Entry {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("reshard Entry", 3)?;
        let b = &mut e.body;
        let (time, tenant, bucket, id) = (b.get()?, b.get()?, b.get()?, b.get()?);
        let new_id = if e.version < 2 { Some(b.get()?) } else { None };
        let (old_shards, new_shards) = (b.get()?, b.get()?);
        let initiator = if e.version >= 3 { Some(b.get()?) } else { None };
        Ok(Self { time, tenant, bucket, id, new_id, old_shards, new_shards, initiator })
    }
}

impl Encode for Entry {
    fn encode(&self, out: &mut Vec<u8>) {
        let version = match (&self.new_id, self.initiator) {
            (Some(_), _) => 1,
            (None, None) => 2,
            (None, Some(_)) => 3,
        };
        envelope(out, version, 1, |out| {
            self.time.encode(out);
            self.tenant.encode(out);
            self.bucket.encode(out);
            self.id.encode(out);
            self.new_id.iter().for_each(|id| id.encode(out));
            self.old_shards.encode(out);
            self.new_shards.encode(out);
            if version >= 3 {
                self.initiator.iter().for_each(|who| who.encode(out));
            }
        });
    }
}

/// Input of `reshard_add`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddOp {
    /// The bucket.
    pub entry: Entry,
    /// True if a bucket that is there already stays as it is; from version 2 on.
    pub create_only: Option<bool>,
}

impl Decode for AddOp {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("reshard AddOp", 2)?;
        let entry = e.body.get()?;
        let create_only = if e.version >= 2 { Some(e.body.get()?) } else { None };
        Ok(Self { entry, create_only })
    }
}

impl Encode for AddOp {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 1 + u8::from(self.create_only.is_some()), 1, |out| {
            self.entry.encode(out);
            self.create_only.iter().for_each(|only| only.encode(out));
        });
    }
}

/// Input and output of `reshard_get`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetOp {
    /// The bucket.
    pub entry: Entry,
}
denc::versioned!(GetOp, 1, 1 { entry });

/// Input of `reshard_list`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOp {
    /// Most entries.
    pub max: u32,
    /// Key after which to begin.
    pub marker: Bytes,
}
denc::versioned!(ListOp, 1, 1 { max, marker });

/// Output of `reshard_list`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListReply {
    /// Found.
    pub entries: Vec<Entry>,
    /// True if there is more.
    pub truncated: bool,
}
denc::versioned!(ListReply, 1, 1 { entries, truncated });

/// Input of `reshard_remove`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoveOp {
    /// Tenant of the bucket.
    pub tenant: Bytes,
    /// The bucket.
    pub bucket: Bytes,
    /// Its instance; any, if it is empty.
    pub id: Bytes,
}
denc::versioned!(RemoveOp, 1, 1 { tenant, bucket, id });
