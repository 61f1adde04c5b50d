//! The log of changes of an index.

use super::header::Shard;
use super::keys;
use crate::keys::{key, stored};
use crate::{Call, Change, Outcome};
use bytes::Bytes;
use denc::Encode;
use messages::class::rgw::index::{LogEntry, modify, state};
use messages::class::rgw::index_ops::{LogListOp, LogListReply, LogTrimOp};
use types::Errno;

pub(super) fn list(call: &mut Call<'_>) -> Outcome {
    let op: LogListOp = call.arg()?;
    let page = call.view.omap_list(&key(keys::LOG, &op.marker), b"", op.max as usize)?;
    let mut reply = LogListReply { entries: Vec::new(), truncated: page.more };
    for (at, value) in page.entries {
        if &at[..] > keys::INSTANCE {
            reply.truncated = false;
            break;
        }
        reply.entries.push(stored(call, &value)?);
    }
    Ok(reply.to_bytes())
}

/// Removes entries up to one; ENODATA if there are none.
pub(super) fn trim(call: &mut Call<'_>) -> Outcome {
    let op: LogTrimOp = call.arg()?;
    let end = match op.end.is_empty() {
        true => Bytes::from_static(keys::INSTANCE),
        false => [keys::LOG, &op.end, b"\0"].concat().into(),
    };
    let page = call.view.omap_list(&key(keys::LOG, &op.start), b"", 1)?;
    match page.entries.into_iter().next() {
        Some((first, _)) if first <= end => call.change(Change::OmapRemoveRange(first, end)),
        _ => return Err(Errno::ENODATA.into()),
    }
    Ok(Bytes::new())
}

/// Notes in the log that it begins anew or ends here.
fn switch(call: &mut Call<'_>, op: u8) -> Outcome {
    let mut shard = Shard::load(call)?;
    let entry = LogEntry { time: call.now, op, state: state::COMPLETE, ..LogEntry::default() };
    shard.log(call, entry);
    shard.edit().sync_stopped = op == modify::SYNC_STOP;
    shard.store(call);
    Ok(Bytes::new())
}

pub(super) fn resync(call: &mut Call<'_>) -> Outcome {
    switch(call, modify::RESYNC)
}

pub(super) fn stop(call: &mut Call<'_>) -> Outcome {
    switch(call, modify::SYNC_STOP)
}
