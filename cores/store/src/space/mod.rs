//! The blocks of the disk: which are in use, who refers to them, and what the host has.

pub(crate) mod ahead;
pub(crate) mod alloc;
pub(crate) mod bits;
pub(crate) mod discard;
pub(crate) mod host;
pub(crate) mod limbo;
mod longest;
pub(crate) mod refs;
mod room;

pub(crate) use room::{Flipped, Frozen, Space};

/// Decodes a value of the index as everything that it could be here.
#[cfg(feature = "fuzz")]
pub(crate) fn decode_values(bytes: &[u8]) {
    for (len, chunk) in [(bits::CHUNK, 0), (bits::CHUNK + 100, 1)] {
        let _ = bits::Bits::new(len).decode_chunk(chunk, bytes);
    }
    if let Ok(others) = refs::decode_shared(bytes) {
        let again = refs::encode_shared(&others).unwrap_or_default();
        assert_eq!(refs::decode_shared(&again), Ok(others));
    }
}
