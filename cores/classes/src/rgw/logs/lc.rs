//! Buckets with rules of a life cycle: one entry for each, and in the omap's header how far the gateways are.

use super::{decoded, entry};
use crate::{Call, Change, Outcome};
use bytes::Bytes;
use denc::{Encode, Reader};
use messages::class::rgw::lc::{Entry, EntryOp, GetReply, Head, HeadOp, ListOp, ListReply, MarkerOp};
use types::Errno;

pub(super) fn get_entry(call: &mut Call<'_>) -> Outcome {
    let op: MarkerOp = call.arg()?;
    Ok(GetReply { entry: entry(call, &op.marker)? }.to_bytes())
}

pub(super) fn set_entry(call: &mut Call<'_>) -> Outcome {
    let op: EntryOp = call.arg()?;
    call.change(Change::OmapSet(vec![(op.entry.bucket.clone(), op.entry.to_bytes())]));
    Ok(Bytes::new())
}

pub(super) fn rm_entry(call: &mut Call<'_>) -> Outcome {
    let op: EntryOp = call.arg()?;
    call.must_exist()?;
    call.change(Change::OmapRemove(vec![op.entry.bucket]));
    Ok(Bytes::new())
}

/// The entry after a bucket's; an empty one at the end.
pub(super) fn get_next_entry(call: &mut Call<'_>) -> Outcome {
    let op: MarkerOp = call.arg()?;
    let page = call.view.omap_list(&op.marker, b"", 1)?;
    let entry = page.entries.first().map_or(Ok(Entry::default()), |(_, value)| decoded(call, value))?;
    Ok(EntryOp { entry }.to_bytes())
}

pub(super) fn put_head(call: &mut Call<'_>) -> Outcome {
    let op: HeadOp = call.arg()?;
    call.change(Change::OmapHeader(op.head.to_bytes()));
    Ok(Bytes::new())
}

pub(super) fn get_head(call: &mut Call<'_>) -> Outcome {
    let bytes = call.view.omap_header()?;
    let head = match bytes.is_empty() {
        true => Head::default(),
        false => call.stored(&bytes, Errno::EINVAL)?,
    };
    Ok(HeadOp { head }.to_bytes())
}

/// Lists entries; those of releases before 16 are pairs, and taken as well.
pub(super) fn list_entries(call: &mut Call<'_>) -> Outcome {
    let op: ListOp = call.arg()?;
    let page = call.view.omap_list(&op.marker, b"", op.max as usize)?;
    let mut reply = ListReply { entries: Vec::new(), truncated: page.more, version: op.version };
    for (_, value) in page.entries {
        let entry = Reader::new(&value).get().or_else(|_| Entry::decode_pair(&mut Reader::new(&value)));
        reply.entries.push(entry.map_err(|_| Errno::EIO)?);
    }
    Ok(reply.to_bytes())
}
