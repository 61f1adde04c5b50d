//! Class `rgw`: which buckets have rules of a life cycle, and how far the gateways are with them.

use bytes::Bytes;
use denc::{Decode, Encode, Reader, Result, envelope};
use std::collections::BTreeMap;

/// A bucket with rules (`cls_rgw_lc_entry`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The bucket.
    pub bucket: Bytes,
    /// Second in which work on it began.
    pub start: u64,
    /// Its progress.
    pub status: u32,
}
denc::versioned!(Entry, 1, 1 { bucket, start, status });

impl Entry {
    /// Reads the pair of bucket and status that releases before 16 wrote.
    pub fn decode_pair(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { bucket: r.get()?, start: 0, status: r.get()? })
    }
}

/// An entry in an envelope: input of `lc_set_entry` and `lc_rm_entry`, output of `lc_get_next_entry`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryOp {
    /// The entry; a pair in version 1.
    pub entry: Entry,
}

impl Decode for EntryOp {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("EntryOp", 2)?;
        let entry = if e.version >= 2 { e.body.get()? } else { Entry::decode_pair(&mut e.body)? };
        Ok(Self { entry })
    }
}

impl Encode for EntryOp {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 2, 2, |out| self.entry.encode(out));
    }
}

/// Output of `lc_get_entry`. Later releases say version 2 and read this one all the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetReply {
    /// The entry.
    pub entry: Entry,
}
denc::versioned!(GetReply, 1, 1 { entry });

/// Input of `lc_get_entry` and `lc_get_next_entry`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarkerOp {
    /// The bucket, or the one before it.
    pub marker: Bytes,
}
denc::versioned!(MarkerOp, 1, 1 { marker });

/// Progress of a gateway with all buckets of the object (`cls_rgw_lc_obj_head`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Second in which this round began.
    pub start: u64,
    /// The bucket that is worked on.
    pub marker: Bytes,
    /// Second in which the last round ended. Not known before release 17, which could not read a head that has it: what
    /// a gateway wrote without it is told without it.
    pub rollover: Option<u64>,
}

impl Decode for Head {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("lc Head", 2)?;
        let (start, marker) = (e.body.get()?, e.body.get()?);
        let rollover = if e.version >= 2 { Some(e.body.get()?) } else { None };
        Ok(Self { start, marker, rollover })
    }
}

impl Encode for Head {
    fn encode(&self, out: &mut Vec<u8>) {
        let version = if self.rollover.is_some() { 2 } else { 1 };
        envelope(out, version, version, |out| {
            self.start.encode(out);
            self.marker.encode(out);
            self.rollover.iter().for_each(|rollover| rollover.encode(out));
        });
    }
}

/// A head in an envelope: input of `lc_put_head`, output of `lc_get_head`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadOp {
    /// The head.
    pub head: Head,
}
denc::versioned!(HeadOp, 1, 1 { head });

/// Input of `lc_list_entries`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOp {
    /// Bucket after which to begin.
    pub marker: Bytes,
    /// Most entries.
    pub max: u32,
    /// Version of the caller's envelope: how the reply must be written.
    pub version: u8,
}

impl Decode for ListOp {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("lc ListOp", 3)?;
        Ok(Self { marker: e.body.get()?, max: e.body.get()?, version: e.version })
    }
}

impl Encode for ListOp {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, self.version, 1, |out| {
            self.marker.encode(out);
            self.max.encode(out);
        });
    }
}

/// Output of `lc_list_entries`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListReply {
    /// Found.
    pub entries: Vec<Entry>,
    /// True if there is more.
    pub truncated: bool,
    /// Version of the caller's envelope. Before 3 the entries are pairs of bucket and status.
    pub version: u8,
}

impl Decode for ListReply {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("lc ListReply", 3)?;
        let entries = if e.version >= 3 {
            e.body.get()?
        } else {
            let pairs: BTreeMap<Bytes, u32> = e.body.get()?;
            pairs.into_iter().map(|(bucket, status)| Entry { bucket, start: 0, status }).collect()
        };
        let truncated = if e.version >= 2 || !e.body.is_empty() { e.body.get()? } else { false };
        Ok(Self { entries, truncated, version: e.version })
    }
}

impl Encode for ListReply {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, self.version, 1, |out| {
            if self.version >= 3 {
                self.entries.encode(out);
            } else {
                let pairs: BTreeMap<&[u8], u32> = self.entries.iter().map(|e| (&e.bucket[..], e.status)).collect();
                pairs.encode(out);
            }
            self.truncated.encode(out);
        });
    }
}
