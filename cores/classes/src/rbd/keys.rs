//! What all parts of the class need.

pub(super) use crate::keys::{erase, erase_if_any, key, list, load, need, raw, snap_key, store, stored};

use crate::{Call, Fail};
use messages::class::rbd::feature;
use types::Errno;

/// ENOEXEC if the image lacks a feature, or is of the format that has none.
pub(super) fn require_feature(call: &Call<'_>, wanted: u64) -> Result<(), Fail> {
    match load::<u64>(call, b"features")? {
        Some(features) if features & wanted == wanted => Ok(()),
        _ => Err(Errno::ENOEXEC.into()),
    }
}

/// Sets the operation features in `mask` to `value`, and the feature that says whether there are any.
pub(super) fn set_op_features(call: &mut Call<'_>, value: u64, mask: u64) -> Result<(), Fail> {
    let features: u64 = need(call, b"features")?;
    let old: u64 = load(call, b"op_features")?.unwrap_or(0);
    let new = old & !mask | value & mask;
    if new == old {
        return Ok(());
    }
    let wanted = if new == 0 {
        erase_if_any(call, "op_features")?;
        features & !feature::OPERATIONS
    } else {
        store(call, "op_features", &new);
        features | feature::OPERATIONS
    };
    if wanted != features {
        store(call, "features", &wanted);
    }
    Ok(())
}

/// Returns true if an id is one that clients make: letters and digits.
pub(super) fn is_valid_id(id: &[u8]) -> bool {
    !id.is_empty() && id.iter().all(u8::is_ascii_alphanumeric)
}
