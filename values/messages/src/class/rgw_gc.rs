//! Class `rgw_gc`: a queue of what the object gateway deletes later.

use super::rgw::gc::Info;
use bytes::Bytes;
use types::UTime;

/// Entries that are deferred, by their tags: until when.
pub type Deferred = Vec<(Bytes, UTime)>;

/// State in the queue's head (`cls_rgw_gc_urgent_data`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Urgent {
    /// Deferred entries that are kept here; others are in an attribute.
    pub deferred: Deferred,
    /// Most deferred entries.
    pub limit: u32,
    /// Entries that are kept here.
    pub in_head: u32,
    /// Entries in the attribute.
    pub in_attr: u32,
}
denc::versioned!(Urgent, 1, 1 { deferred, limit, in_head, in_attr });

/// Input of `rgw_gc_queue_init`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InitOp {
    /// Bytes of the ring.
    pub size: u64,
    /// Most deferred entries.
    pub deferred: u64,
}
denc::versioned!(InitOp, 1, 1 { size, deferred });

/// Input of `rgw_gc_queue_remove_entries`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoveOp {
    /// Entries at the front; 0 stands for 128.
    pub count: u64,
}
denc::versioned!(RemoveOp, 1, 1 { count });

/// Input of `rgw_gc_queue_update_entry`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeferOp {
    /// Seconds from now.
    pub seconds: u32,
    /// The entry.
    pub info: Info,
}
denc::versioned!(DeferOp, 1, 1 { seconds, info });
