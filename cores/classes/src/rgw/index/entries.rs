//! Where the entry of a key is.

use super::keys;
use crate::keys::load;
use crate::{Call, Fail};
use bytes::Bytes;
use messages::class::rgw::index::{DirEntry, ObjKey, flag};

/// A place in the omap, and the entry that is there.
pub(super) struct Found {
    /// Key in the omap.
    pub(super) at: Bytes,
    /// The entry, if there is one.
    pub(super) entry: Option<DirEntry>,
}

/// Finds the entry of a key. If the plain key only says that there are versions, the version without an instance is
/// meant; of that there may be two, of which `marker_first` prefers the delete marker. EIO if an entry cannot be read.
pub(super) fn find(call: &Call<'_>, key: &ObjKey, marker_first: bool) -> Result<Found, Fail> {
    let at = keys::first(key);
    let entry: Option<DirEntry> = load(call, &at)?;
    let moved = key.instance.is_empty() && entry.as_ref().is_some_and(|entry| entry.has(flag::VERSION_MARKER));
    if !moved {
        return Ok(Found { at, entry });
    }
    if marker_first {
        let at = keys::null_marker(&key.name);
        if let Some(entry) = load(call, &at)? {
            return Ok(Found { at, entry: Some(entry) });
        }
    }
    let at = keys::instance(key);
    let entry = load(call, &at)?;
    Ok(Found { at, entry })
}
