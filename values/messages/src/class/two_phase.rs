//! Class `2pc_queue`: a queue whose space is reserved before it is used. Reservations that the head has no room for
//! are in an attribute. Their order means nothing: Ceph writes them as its hash table has them.

use bytes::Bytes;
use types::UTime;

/// Attribute with the reservations that the head has no room for; class `rgw_gc` keeps deferred entries in it.
pub const ATTR: &str = "cls_queue_urgent_data";

/// Space that is set aside (`cls_2pc_reservation`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reservation {
    /// Bytes of the entries alone.
    pub size: u64,
    /// Time.
    pub time: UTime,
}
denc::versioned!(Reservation, 1, 1 { size, time });

/// Reservations by their number.
pub type Reservations = Vec<(u32, Reservation)>;

/// State in the queue's head (`cls_2pc_urgent_data`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Urgent {
    /// Bytes that are set aside.
    pub reserved: u64,
    /// The newest reservation's number.
    pub last: u32,
    /// Reservations that are kept here.
    pub reservations: Reservations,
    /// True if there were ever more, in the attribute.
    pub spilled: bool,
}
denc::versioned!(Urgent, 1, 1 { reserved, last, reservations, spilled });

/// Input of `2pc_queue_reserve`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReserveOp {
    /// Bytes of all entries.
    pub size: u64,
    /// Number of entries.
    pub entries: u32,
}
denc::versioned!(ReserveOp, 1, 1 { size, entries });

/// Output of `2pc_queue_reserve`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReserveReply {
    /// The reservation's number.
    pub id: u32,
}
denc::versioned!(ReserveReply, 1, 1 { id });

/// Input of `2pc_queue_commit`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitOp {
    /// The reservation's number.
    pub id: u32,
    /// Entries to append.
    pub entries: Vec<Bytes>,
}
denc::versioned!(CommitOp, 1, 1 { id, entries });

/// Input of `2pc_queue_abort`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AbortOp {
    /// The reservation's number.
    pub id: u32,
}
denc::versioned!(AbortOp, 1, 1 { id });

/// Input of `2pc_queue_expire_reservations`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpireOp {
    /// Reservations before this moment go.
    pub before: UTime,
}
denc::versioned!(ExpireOp, 1, 1 { before });

/// Output of `2pc_queue_list_reservations`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservationsReply {
    /// All of them.
    pub reservations: Reservations,
}
denc::versioned!(ReservationsReply, 1, 1 { reservations });
