//! Class `rgw`: what the object gateway deletes later.

use super::index::ObjKey;
use bytes::Bytes;
use denc::{Decode, Encode, Reader, Result, envelope};
use types::UTime;

/// An object to be deleted (`cls_rgw_obj`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// Pool.
    pub pool: Bytes,
    /// Locator.
    pub locator: Bytes,
    /// The key.
    pub key: ObjKey,
}

impl Decode for Object {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("Object", 2)?;
        let (pool, name, locator) = (e.body.get()?, e.body.get()?, e.body.get()?);
        let key = if e.version >= 2 { e.body.get()? } else { ObjKey { name, instance: Bytes::new() } };
        Ok(Self { pool, locator, key })
    }
}

impl Encode for Object {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 2, 1, |out| {
            self.pool.encode(out);
            self.key.name.encode(out);
            self.locator.encode(out);
            self.key.encode(out);
        });
    }
}

/// Objects that go together (`cls_rgw_obj_chain`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Those objects.
    pub objects: Vec<Object>,
}
denc::versioned!(Chain, 1, 1 { objects });

/// Garbage (`cls_rgw_gc_obj_info`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Its name.
    pub tag: Bytes,
    /// Objects that go.
    pub chain: Chain,
    /// Time.
    pub time: UTime,
}
denc::versioned!(Info, 1, 1 { tag, chain, time });

/// Input of `gc_set_entry` and `rgw_gc_queue_enqueue`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetOp {
    /// Seconds from now.
    pub seconds: u32,
    /// The record.
    pub info: Info,
}
denc::versioned!(SetOp, 1, 1 { seconds, info });

/// Input of `gc_defer_entry`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeferOp {
    /// Seconds from now.
    pub seconds: u32,
    /// The tag.
    pub tag: Bytes,
}
denc::versioned!(DeferOp, 1, 1 { seconds, tag });

/// Input of `gc_list` and `rgw_gc_queue_list_entries`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOp {
    /// Place to go on.
    pub marker: Bytes,
    /// Most entries; 0 stands for 128.
    pub max: u32,
    /// True if only those are meant whose time has come; version 1 meant so.
    pub expired_only: bool,
}

impl Decode for ListOp {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("ListOp", 2)?;
        let (marker, max) = (e.body.get()?, e.body.get()?);
        let expired_only = if e.version >= 2 { e.body.get()? } else { true };
        Ok(Self { marker, max, expired_only })
    }
}

impl Encode for ListOp {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 2, 1, |out| {
            self.marker.encode(out);
            self.max.encode(out);
            self.expired_only.encode(out);
        });
    }
}

/// Output of `gc_list` and `rgw_gc_queue_list_entries`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListReply {
    /// Found.
    pub entries: Vec<Info>,
    /// Place to go on.
    pub marker: Bytes,
    /// True if there is more.
    pub truncated: bool,
}
denc::versioned!(ListReply, 2, 1 { entries, marker, truncated });

/// Input of `gc_remove`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoveOp {
    /// The tags.
    pub tags: Vec<Bytes>,
}
denc::versioned!(RemoveOp, 1, 1 { tags });
