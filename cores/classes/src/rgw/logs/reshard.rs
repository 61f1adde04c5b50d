//! Buckets whose index is to be spread over more objects.

use super::{decoded, entry};
use crate::{Call, Change, Outcome};
use bytes::Bytes;
use denc::Encode;
use messages::class::rgw::reshard::{AddOp, Entry, GetOp, ListOp, ListReply, RemoveOp};
use types::Errno;

/// Most entries of a listing.
const MAX_ENTRIES: u32 = 1000;

pub(super) fn add(call: &mut Call<'_>) -> Outcome {
    let op: AddOp = call.arg()?;
    let key = Entry::key(&op.entry.tenant, &op.entry.bucket);
    if op.create_only == Some(true) && !call.view.omap_get(std::slice::from_ref(&key))?.is_empty() {
        return Err(Errno::EEXIST.into());
    }
    call.change(Change::OmapSet(vec![(key, op.entry.to_bytes())]));
    Ok(Bytes::new())
}

pub(super) fn list(call: &mut Call<'_>) -> Outcome {
    let op: ListOp = call.arg()?;
    let max = if (1..MAX_ENTRIES).contains(&op.max) { op.max } else { MAX_ENTRIES };
    let page = call.view.omap_list(&op.marker, b"", max as usize)?;
    let mut reply = ListReply { entries: Vec::new(), truncated: page.more };
    // A caller who asks for none hears only whether there are more than 1,000.
    for (_, value) in page.entries.iter().take(op.max as usize) {
        reply.entries.push(decoded(call, value)?);
    }
    Ok(reply.to_bytes())
}

pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let op: GetOp = call.arg()?;
    let entry = entry(call, &Entry::key(&op.entry.tenant, &op.entry.bucket))?;
    Ok(GetOp { entry }.to_bytes())
}

/// Removes a bucket, unless another instance of it is meant.
pub(super) fn remove(call: &mut Call<'_>) -> Outcome {
    let op: RemoveOp = call.arg()?;
    let key = Entry::key(&op.tenant, &op.bucket);
    let stored: Entry = entry(call, &key)?;
    if op.id.is_empty() || op.id == stored.id {
        call.change(Change::OmapRemove(vec![key]));
    }
    Ok(Bytes::new())
}
