//! How classes keep things in the omap: each value is an entry of its own, encoded as on the wire.

use crate::{Call, Change, Fail};
use bytes::Bytes;
use denc::{Decode, Encode};
use types::Errno;

/// Most entries that one call takes together, however many it was asked for: clients ask for some thousand. What begins with fewer than it
/// was asked for is the end to them, so more is refused, not cut.
const MOST: usize = 65_536;
/// Most bytes of those.
const MOST_BYTES: usize = 64 << 20;
/// Most entries that are asked of the view at once.
const PAGE: u64 = 512;

/// `prefix` and `name` as one key.
pub(crate) fn key(prefix: impl AsRef<[u8]>, name: &[u8]) -> Bytes {
    [prefix.as_ref(), name].concat().into()
}

/// `prefix` and a snapshot id as one key; the keys are in the order of the ids.
pub(crate) fn snap_key(prefix: &str, id: u64) -> Bytes {
    format!("{prefix}{id:016x}").into()
}

/// Bytes of a key's value; `None` without the key or without the object.
pub(crate) fn raw(call: &Call<'_>, key: &[u8]) -> Result<Option<Bytes>, Fail> {
    match call.omap(key) {
        Ok(value) => Ok(Some(value)),
        Err(Fail::Errno(Errno::ENOENT)) => Ok(None),
        Err(fail) => Err(fail),
    }
}

/// A value that the class stored; EIO if it is none. Bytes after it are ignored.
pub(crate) fn stored<T: Decode>(call: &Call<'_>, value: &[u8]) -> Result<T, Fail> {
    call.stored(value, Errno::EIO)
}

/// A key's value; `None` without the key or without the object, EIO if it is no `T`.
pub(crate) fn load<T: Decode>(call: &Call<'_>, key: &[u8]) -> Result<Option<T>, Fail> {
    raw(call, key)?.map(|value| stored(call, &value)).transpose()
}

/// A key's value; ENOENT without it, EIO if it is no `T`.
pub(crate) fn need<T: Decode>(call: &Call<'_>, key: &[u8]) -> Result<T, Fail> {
    load(call, key)?.ok_or(Fail::Errno(Errno::ENOENT))
}

/// Sets a key.
pub(crate) fn store<T: Encode + ?Sized>(call: &mut Call<'_>, key: impl Into<Bytes>, value: &T) {
    call.change(Change::OmapSet(vec![(key.into(), value.to_bytes())]));
}

/// Removes a key, if it is there. Without the object: ENOENT.
pub(crate) fn erase(call: &mut Call<'_>, key: impl Into<Bytes>) -> Result<(), Fail> {
    call.must_exist()?;
    call.change(Change::OmapRemove(vec![key.into()]));
    Ok(())
}

/// Removes a key, if it and the object are there.
pub(crate) fn erase_if_any(call: &mut Call<'_>, key: impl Into<Bytes>) -> Result<(), Fail> {
    if call.exists()? {
        call.change(Change::OmapRemove(vec![key.into()]));
    }
    Ok(())
}

/// Entries after `prefix` + `after` that begin with `prefix`, at most `max`, with the prefix cut off. EMSGSIZE if that is too much for one
/// call.
pub(crate) fn list(call: &Call<'_>, prefix: impl AsRef<[u8]>, after: &[u8], max: u64) -> Result<Vec<(Bytes, Bytes)>, Fail> {
    let prefix = prefix.as_ref();
    // From the very beginning: the journal's own client has an empty name, so its key is the prefix itself.
    let mut last = if after.is_empty() { Bytes::new() } else { key(prefix, after) };
    let (mut entries, mut bytes) = (Vec::new(), 0);
    while (entries.len() as u64) < max {
        let page = call.view.omap_list(&last, prefix, (max - entries.len() as u64).min(PAGE) as usize)?;
        let Some((key, _)) = page.entries.last() else { break };
        last = key.clone();
        bytes += page.entries.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        if entries.len() + page.entries.len() > MOST || bytes > MOST_BYTES {
            return Err(Errno::EMSGSIZE.into());
        }
        entries.extend(page.entries.into_iter().map(|(key, value)| (key.slice(prefix.len()..), value)));
        if !page.more {
            break;
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn one_call_takes_no_more_than_it_may() {
        let mut bench = Bench::default();
        let value = vec![7; 1 << 20];
        (0..65).for_each(|n| bench.set_omap(&format!("metadata_{n:03}"), &value));
        let mut list = |max: u64| bench.call("rbd", "metadata_list", &("".to_owned(), max).to_bytes());
        assert!(list(10).is_ok_and(|reply| reply.len() > 10 << 20));
        assert_eq!(list(u64::MAX).map(|reply| reply.len()), Err(Errno::EMSGSIZE));
    }
}
