//! An image's metadata, and the trash of a pool.

use super::keys::{erase, is_valid_id, key, list, load, need, raw, store, stored};
use crate::{Call, Change, Fail, Method, Outcome, RD, WR};
use bytes::Bytes;
use denc::Encode;
use messages::class::rbd::TrashImageSpec;
use std::collections::BTreeMap;
use types::Errno;

pub(super) const METHODS: &[Method] = &[
    Method { name: "metadata_list", flags: RD, run: metadata_list },
    Method { name: "metadata_set", flags: RD | WR, run: metadata_set },
    Method { name: "metadata_remove", flags: RD | WR, run: metadata_remove },
    Method { name: "metadata_get", flags: RD, run: metadata_get },
    Method { name: "trash_add", flags: RD | WR, run: trash_add },
    Method { name: "trash_remove", flags: RD | WR, run: trash_remove },
    Method { name: "trash_list", flags: RD, run: trash_list },
    Method { name: "trash_get", flags: RD, run: trash_get },
    Method { name: "trash_state_set", flags: RD | WR, run: trash_state_set },
];

/// Keys of metadata begin so.
const METADATA: &str = "metadata_";
/// Keys of images in the trash begin so.
const TRASH: &str = "id_";
/// Entries for clients that do not say how many they want.
const DEFAULT_PAGE: u64 = 64;

fn metadata_list(call: &mut Call<'_>) -> Outcome {
    let (after, max): (Bytes, u64) = call.arg()?;
    let max = if max == 0 { DEFAULT_PAGE } else { max };
    let entries: BTreeMap<Bytes, Bytes> = list(call, METADATA, &after, max)?.into_iter().collect();
    Ok(entries.to_bytes())
}

fn metadata_set(call: &mut Call<'_>) -> Outcome {
    let entries: BTreeMap<Bytes, Bytes> = call.arg()?;
    call.change(Change::OmapSet(entries.into_iter().map(|(name, value)| (key(METADATA, &name), value)).collect()));
    Ok(Bytes::new())
}

fn metadata_remove(call: &mut Call<'_>) -> Outcome {
    let name: Bytes = call.arg()?;
    erase(call, key(METADATA, &name))?;
    Ok(Bytes::new())
}

fn metadata_get(call: &mut Call<'_>) -> Outcome {
    let name: Bytes = call.arg()?;
    let value = raw(call, &key(METADATA, &name))?.ok_or(Fail::Errno(Errno::ENOENT))?;
    Ok(value.to_bytes())
}

/// Input: id, record. EEXIST if the id is in the trash.
fn trash_add(call: &mut Call<'_>) -> Outcome {
    let (id, spec): (Bytes, TrashImageSpec) = call.arg()?;
    if !is_valid_id(&id) {
        return Err(Errno::EINVAL.into());
    }
    let entry = key(TRASH, &id);
    if load::<TrashImageSpec>(call, &entry)?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    call.change(Change::Create { exclusive: false });
    store(call, entry, &spec);
    Ok(Bytes::new())
}

fn trash_remove(call: &mut Call<'_>) -> Outcome {
    let entry = key(TRASH, &call.arg::<Bytes>()?);
    raw(call, &entry)?.ok_or(Fail::Errno(Errno::ENOENT))?;
    erase(call, entry)?;
    Ok(Bytes::new())
}

fn trash_list(call: &mut Call<'_>) -> Outcome {
    let (after, max): (Bytes, u64) = call.arg()?;
    let entries = list(call, TRASH, &after, max)?;
    let found: Result<BTreeMap<Bytes, TrashImageSpec>, Fail> =
        entries.into_iter().map(|(id, spec)| Ok((id, stored(call, &spec)?))).collect();
    Ok(found?.to_bytes())
}

/// The record as it was stored.
fn trash_get(call: &mut Call<'_>) -> Outcome {
    let id: Bytes = call.arg()?;
    raw(call, &key(TRASH, &id))?.ok_or(Fail::Errno(Errno::ENOENT))
}

/// Input: id, new state, state that is expected. ESTALE if it is in neither.
fn trash_state_set(call: &mut Call<'_>) -> Outcome {
    let (id, new, expected): (Bytes, u8, u8) = call.parse(|r| Ok((r.get()?, r.get()?, r.get()?)))?;
    let entry = key(TRASH, &id);
    let mut spec: TrashImageSpec = need(call, &entry)?;
    if spec.state == expected {
        spec.state = new;
        store(call, entry, &spec);
    } else if spec.state != new {
        return Err(Errno::ESTALE.into());
    }
    Ok(Bytes::new())
}
