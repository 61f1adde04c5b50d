//! Class `queue`: a ring of entries in an object's data, behind a head that says where it begins and ends. The classes
//! `rgw_gc` and `2pc_queue` keep their own state in that head, too.

use bytes::Bytes;

/// A place in the ring (`cls_queue_marker`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Marker {
    /// Number of times that the ring was gone around.
    pub generation: u64,
    /// Byte of the object.
    pub offset: u64,
}
denc::versioned!(Marker, 1, 1 { generation, offset });

/// Header before the ring (`cls_queue_head`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Bytes that the head may take, where the ring begins.
    pub head_size: u64,
    /// First entry.
    pub front: Marker,
    /// Place where the next entry goes.
    pub tail: Marker,
    /// Place where the ring ends, in bytes of the object.
    pub size: u64,
    /// Bytes that `urgent` may take.
    pub urgent_size: u64,
    /// State of the class that is built on the queue.
    pub urgent: Bytes,
}
denc::versioned!(Head, 1, 1 { head_size, front, tail, size, urgent_size, urgent });

/// Input of `queue_init` and `2pc_queue_init`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitOp {
    /// Bytes of the ring.
    pub size: u64,
    /// Bytes that `urgent` may take.
    pub urgent_size: u64,
    /// State of the class that is built on the queue.
    pub urgent: Bytes,
}
denc::versioned!(InitOp, 1, 1 { size, urgent_size, urgent });

/// Input of `queue_enqueue`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnqueueOp {
    /// Entries to append.
    pub entries: Vec<Bytes>,
}
denc::versioned!(EnqueueOp, 1, 1 { entries });

/// Input of `queue_list_entries` and `2pc_queue_list_entries`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOp {
    /// Most entries.
    pub max: u64,
    /// Place to begin, as `GENERATION/OFFSET`; at the front, if it is empty.
    pub marker: Bytes,
}
denc::versioned!(ListOp, 1, 1 { max, marker });

/// An entry of a listing (`cls_queue_entry`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Bytes that were appended.
    pub data: Bytes,
    /// Place where it is, as `GENERATION/OFFSET`.
    pub marker: Bytes,
}
denc::versioned!(Entry, 1, 1 { data, marker });

/// Output of `queue_list_entries` and `2pc_queue_list_entries`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListReply {
    /// True if there is more.
    pub truncated: bool,
    /// Place to go on, as `GENERATION/OFFSET`.
    pub marker: Bytes,
    /// Found.
    pub entries: Vec<Entry>,
}
denc::versioned!(ListReply, 1, 1 { truncated, marker, entries });

/// Input of `queue_remove_entries` and `2pc_queue_remove_entries`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoveOp {
    /// First entry that stays, as `GENERATION/OFFSET`.
    pub end: Bytes,
}
denc::versioned!(RemoveOp, 1, 1 { end });

/// Output of `queue_get_capacity` and `2pc_queue_get_capacity`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapacityReply {
    /// Bytes of the ring.
    pub capacity: u64,
}
denc::versioned!(CapacityReply, 1, 1 { capacity });
