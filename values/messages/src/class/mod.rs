//! Inputs, outputs and stored states of the object classes. The methods themselves live with the OSD.

pub mod cmpomap;
pub mod fifo;
pub mod journal;
pub mod lock;
pub mod log;
pub mod otp;
pub mod queue;
pub mod rbd;
pub mod refcount;
pub mod rgw;
pub mod rgw_gc;
pub mod two_phase;
pub mod user;
pub mod version;

use denc::{Decode, Encode, Reader, Result};

/// Reads a value behind a byte that says whether there is one.
fn optional<T: Decode>(r: &mut Reader<'_>) -> Result<Option<T>> {
    if r.get()? { r.get().map(Some) } else { Ok(None) }
}

/// Writes a value as [`optional`] reads it.
fn put_optional<T: Encode>(value: Option<&T>, out: &mut Vec<u8>) {
    value.is_some().encode(out);
    value.into_iter().for_each(|value| value.encode(out));
}
