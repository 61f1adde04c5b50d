//! A pool's directories: of images, by name and by id, and of namespaces.

use super::keys::{erase, is_valid_id, key, list, need, raw, store, stored};
use crate::{Call, Change, Fail, Method, Outcome, RD, WR};
use bytes::Bytes;
use denc::Encode;
use messages::class::rbd::directory_state;
use std::collections::BTreeMap;
use types::Errno;

pub(super) const METHODS: &[Method] = &[
    Method { name: "dir_get_id", flags: RD, run: |call| Ok(need::<Bytes>(call, &key(NAME, &call.arg::<Bytes>()?))?.to_bytes()) },
    Method { name: "dir_get_name", flags: RD, run: |call| Ok(need::<Bytes>(call, &key(ID, &call.arg::<Bytes>()?))?.to_bytes()) },
    Method { name: "dir_list", flags: RD, run: dir_list },
    Method { name: "dir_add_image", flags: RD | WR, run: |call| dir_add(call, is_valid_id) },
    Method { name: "dir_remove_image", flags: RD | WR, run: dir_remove },
    Method { name: "dir_rename_image", flags: RD | WR, run: |call| dir_rename(call, is_valid_id) },
    Method { name: "dir_state_assert", flags: RD, run: dir_state_assert },
    Method { name: "dir_state_set", flags: RD | WR, run: dir_state_set },
    Method { name: "namespace_add", flags: RD | WR, run: namespace_add },
    Method { name: "namespace_remove", flags: RD | WR, run: namespace_remove },
    Method { name: "namespace_list", flags: RD, run: namespace_list },
];

/// Keys that lead from a name to an id.
const NAME: &str = "name_";
/// Keys that lead from an id to a name.
const ID: &str = "id_";

/// Input: name after which to begin, most entries. Output: names and ids. Groups have directories of the same kind.
pub(super) fn dir_list(call: &mut Call<'_>) -> Outcome {
    let (after, max): (Bytes, u64) = call.arg()?;
    let entries = list(call, NAME, &after, max)?;
    let found: Result<BTreeMap<Bytes, Bytes>, Fail> =
        entries.into_iter().map(|(name, id)| Ok((name, stored(call, &id)?))).collect();
    Ok(found?.to_bytes())
}

/// Input: name, id. EEXIST if the name is taken, EBADF if the id is.
pub(super) fn dir_add(call: &mut Call<'_>, valid: fn(&[u8]) -> bool) -> Outcome {
    let (name, id): (Bytes, Bytes) = call.arg()?;
    call.change(Change::Create { exclusive: false });
    add(call, name, id, valid, true)
}

fn add(call: &mut Call<'_>, name: Bytes, id: Bytes, valid: fn(&[u8]) -> bool, unique_id: bool) -> Outcome {
    if name.is_empty() || !valid(&id) {
        return Err(Errno::EINVAL.into());
    }
    let (by_name, by_id) = (key(NAME, &name), key(ID, &id));
    if raw(call, &by_name)?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    if unique_id && raw(call, &by_id)?.is_some() {
        return Err(Errno::EBADF.into());
    }
    call.change(Change::OmapSet(vec![(by_name, id.to_bytes()), (by_id, name.to_bytes())]));
    Ok(Bytes::new())
}

/// Input: name, id. ESTALE if they are not of one image.
pub(super) fn dir_remove(call: &mut Call<'_>) -> Outcome {
    let (name, id): (Bytes, Bytes) = call.arg()?;
    remove(call, &name, &id)?;
    Ok(Bytes::new())
}

fn remove(call: &mut Call<'_>, name: &Bytes, id: &Bytes) -> Result<(), Fail> {
    let (by_name, by_id) = (key(NAME, name), key(ID, id));
    let stored_id: Bytes = need(call, &by_name)?;
    let stored_name: Bytes = need(call, &by_id)?;
    if stored_id != *id || stored_name != *name {
        return Err(Errno::ESTALE.into());
    }
    call.change(Change::OmapRemove(vec![by_name, by_id]));
    Ok(())
}

/// Input: old name, new name, id.
pub(super) fn dir_rename(call: &mut Call<'_>, valid: fn(&[u8]) -> bool) -> Outcome {
    let (from, to, id): (Bytes, Bytes, Bytes) = call.parse(|r| Ok((r.get()?, r.get()?, r.get()?)))?;
    remove(call, &from, &id)?;
    // The id is still there: what is removed here goes with the other changes.
    add(call, to, id, valid, false)
}

/// ENOENT unless the directory is in the state of the input.
fn dir_state_assert(call: &mut Call<'_>) -> Outcome {
    let wanted: u8 = call.arg()?;
    if need::<u8>(call, b"state")? != wanted {
        return Err(Errno::ENOENT.into());
    }
    Ok(Bytes::new())
}

/// A directory is closed only when it is empty: EBUSY otherwise.
fn dir_state_set(call: &mut Call<'_>) -> Outcome {
    let state: u8 = call.arg()?;
    match state {
        directory_state::READY => {}
        directory_state::ADD_DISABLED => {
            call.must_exist()?;
            if !list(call, NAME, b"", 1)?.is_empty() {
                return Err(Errno::EBUSY.into());
            }
        }
        _ => return Err(Errno::EINVAL.into()),
    }
    store(call, "state", &state);
    Ok(Bytes::new())
}

fn namespace_add(call: &mut Call<'_>) -> Outcome {
    let entry = key(NAME, &call.arg::<Bytes>()?);
    if raw(call, &entry)?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    call.change(Change::OmapSet(vec![(entry, Bytes::new())]));
    Ok(Bytes::new())
}

fn namespace_remove(call: &mut Call<'_>) -> Outcome {
    let entry = key(NAME, &call.arg::<Bytes>()?);
    raw(call, &entry)?.ok_or(Fail::Errno(Errno::ENOENT))?;
    erase(call, entry)?;
    Ok(Bytes::new())
}

fn namespace_list(call: &mut Call<'_>) -> Outcome {
    let (after, max): (Bytes, u64) = call.arg()?;
    let names: Vec<Bytes> = list(call, NAME, &after, max)?.into_iter().map(|(name, _)| name).collect();
    Ok(names.to_bytes())
}
