//! How the class keeps things: each value is an omap entry of its own, encoded as on the wire.

use crate::{Call, Change, Fail};
use bytes::Bytes;
use denc::{Decode, Encode, Reader};
use messages::class::rbd::feature;
use types::Errno;

/// Most entries that are asked of the view at once.
const PAGE: u64 = 512;

/// `prefix` and `name` as one key.
pub(super) fn key(prefix: impl AsRef<[u8]>, name: &[u8]) -> Bytes {
    [prefix.as_ref(), name].concat().into()
}

/// `prefix` and a snapshot id as one key; the keys are in the order of the ids.
pub(super) fn snap_key(prefix: &str, id: u64) -> Bytes {
    format!("{prefix}{id:016x}").into()
}

/// Bytes of a key's value; `None` without the key or without the object.
pub(super) fn raw(call: &Call<'_>, key: &[u8]) -> Result<Option<Bytes>, Fail> {
    match call.omap(key) {
        Ok(value) => Ok(Some(value)),
        Err(Fail::Errno(Errno::ENOENT)) => Ok(None),
        Err(fail) => Err(fail),
    }
}

/// A value that the class stored; EIO if it is none. Bytes after it are ignored.
pub(super) fn stored<T: Decode>(value: &[u8]) -> Result<T, Fail> {
    Reader::new(value).get().map_err(|_| Fail::Errno(Errno::EIO))
}

/// A key's value; `None` without the key or without the object, EIO if it is no `T`.
pub(super) fn load<T: Decode>(call: &Call<'_>, key: &[u8]) -> Result<Option<T>, Fail> {
    raw(call, key)?.map(|value| stored(&value)).transpose()
}

/// A key's value; ENOENT without it, EIO if it is no `T`.
pub(super) fn need<T: Decode>(call: &Call<'_>, key: &[u8]) -> Result<T, Fail> {
    load(call, key)?.ok_or(Fail::Errno(Errno::ENOENT))
}

/// Sets a key.
pub(super) fn store<T: Encode + ?Sized>(call: &mut Call<'_>, key: impl Into<Bytes>, value: &T) {
    call.change(Change::OmapSet(vec![(key.into(), value.to_bytes())]));
}

/// Removes a key, if it is there. Without the object: ENOENT.
pub(super) fn erase(call: &mut Call<'_>, key: impl Into<Bytes>) -> Result<(), Fail> {
    call.must_exist()?;
    call.change(Change::OmapRemove(vec![key.into()]));
    Ok(())
}

/// Removes a key, if it and the object are there.
pub(super) fn erase_if_any(call: &mut Call<'_>, key: impl Into<Bytes>) -> Result<(), Fail> {
    if call.exists()? {
        call.change(Change::OmapRemove(vec![key.into()]));
    }
    Ok(())
}

/// Entries after `prefix` + `after` that begin with `prefix`, at most `max`, with the prefix cut off.
pub(super) fn list(call: &Call<'_>, prefix: impl AsRef<[u8]>, after: &[u8], max: u64) -> Result<Vec<(Bytes, Bytes)>, Fail> {
    let prefix = prefix.as_ref();
    let mut last = key(prefix, after);
    let mut entries = Vec::new();
    while (entries.len() as u64) < max {
        let page = call.view.omap_list(&last, prefix, (max - entries.len() as u64).min(PAGE) as usize)?;
        let Some((key, _)) = page.entries.last() else { break };
        last = key.clone();
        entries.extend(page.entries.into_iter().map(|(key, value)| (key.slice(prefix.len()..), value)));
        if !page.more {
            break;
        }
    }
    Ok(entries)
}

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

/// Whether an id is one that clients make: letters and digits.
pub(super) fn is_valid_id(id: &[u8]) -> bool {
    !id.is_empty() && id.iter().all(u8::is_ascii_alphanumeric)
}
