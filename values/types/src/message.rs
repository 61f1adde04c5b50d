//! A message as the messenger carries it: a head and opaque sections. The `messages` crate gives the sections meaning.

use crate::Rope;
use bytes::Bytes;

/// A whole message, to be sent or as received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Message type (`CEPH_MSG_*`).
    pub kind: u16,
    /// Transaction id: replies carry the request's.
    pub tid: u64,
    /// Sender's priority; 127 is the default, 196 the monitors', 63 a client's operation.
    pub priority: u16,
    /// Version of the front's layout.
    pub version: u16,
    /// Oldest reader's version.
    pub compat: u16,
    /// Fixed part.
    pub front: Bytes,
    /// Almost always empty.
    pub middle: Bytes,
    /// Bulk data.
    pub data: Rope,
}

/// Default priority of messages.
pub const PRIORITY_DEFAULT: u16 = 127;
/// Priority of clients' operations.
pub const PRIORITY_CLIENT_OP: u16 = 63;
/// Priority of what must not wait behind data.
pub const PRIORITY_HIGH: u16 = 196;
