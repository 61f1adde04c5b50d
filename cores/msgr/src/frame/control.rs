//! Payloads of control frames: plain concatenations.

use denc::{Decode, Encode, Reader, Result};
use types::{EntityAddr, EntityAddrVec};

pub(crate) use crate::auth::proto::Request as AuthRequest;
use bytes::Bytes;

/// First words of both sides: how many bytes follow, what is supported, what is required.
pub(crate) const BANNER: &[u8; 26] = b"ceph v2\n\x10\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// The part of the banner that says "msgr2", and the length of the rest.
pub(crate) const BANNER_HEAD: usize = 10;
/// Bit of the banner's features: frames as in msgr2.1.
pub(crate) const REVISION_1: u64 = 1;

macro_rules! payload {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $t:ty),* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) struct $name { $(pub(crate) $field: $t),* }
        denc::plain!($name { $($field),* });
    };
}

payload!(
    /// Kind of the sender, and the address at which it sees the receiver.
    Hello { kind: u8, peer: EntityAddr }
);
payload!(AuthBadMethod { method: u32, result: i32, methods: Vec<u32>, modes: Vec<u32> });
payload!(AuthDone { global_id: u64, mode: u32, payload: Bytes });
payload!(ClientIdent {
    addrs: EntityAddrVec,
    target: EntityAddr,
    gid: i64,
    global_seq: u64,
    supported: u64,
    required: u64,
    flags: u64,
    cookie: u64
});
payload!(ServerIdent { addrs: EntityAddrVec, gid: i64, global_seq: u64, supported: u64, required: u64, flags: u64, cookie: u64 });
payload!(Reconnect {
    addrs: EntityAddrVec,
    client_cookie: u64,
    server_cookie: u64,
    global_seq: u64,
    connect_seq: u64,
    msg_seq: u64
});

/// Flag of both idents: the session ends with the connection.
pub(crate) const FLAG_LOSSY: u64 = 1;

/// Reads a payload; appended fields of newer peers are skipped.
pub(crate) fn parse<T: Decode>(payload: &[u8]) -> Result<T> {
    Reader::new(payload).get()
}

/// Bytes of a u64 payload (retries, acknowledgements).
pub(crate) fn number(n: u64) -> Vec<u8> {
    Encode::to_vec(&n)
}
