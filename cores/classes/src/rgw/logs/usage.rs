//! Who used the gateway for what. Each entry is kept twice: under its hour, and under the user who pays.
//!
//! Unlike in Ceph, what another pays for is trimmed, too. Ceph looks for it under the owner's name, does not find it,
//! and answers as if it had.

use crate::{Call, Change, Fail, Outcome};
use bytes::Bytes;
use denc::Encode;
use messages::class::rgw::usage::{AddOp, Entry, ReadOp, ReadReply, TrimOp, UserBucket};
use types::Errno;

/// Most entries of a call that does not say how many.
const MAX_ENTRIES: usize = 1000;

/// Returns what keys of an hour begin with.
fn hour(epoch: u64) -> String {
    format!("{epoch:011}")
}

fn key_by_time(entry: &Entry) -> Bytes {
    [hour(entry.epoch).as_bytes(), b"_", &entry.pays().text(), b"_", &entry.bucket].concat().into()
}

fn key_by_user(entry: &Entry) -> Bytes {
    [&entry.pays().text(), &b"_"[..], hour(entry.epoch).as_bytes(), b"_", &entry.bucket].concat().into()
}

/// A stored entry; EINVAL if it is none.
fn decoded(call: &Call<'_>, bytes: &[u8]) -> Result<Entry, Fail> {
    call.stored(bytes, Errno::EINVAL)
}

pub(super) fn add(call: &mut Call<'_>) -> Outcome {
    let op: AddOp = call.arg()?;
    for mut entry in op.info.entries {
        let key = key_by_time(&entry);
        match call.omap(&key) {
            Ok(stored) => entry.add(&decoded(call, &stored)?),
            Err(Fail::Errno(Errno::ENOENT)) => {}
            Err(fail) => return Err(fail),
        }
        let value = entry.to_bytes();
        call.change(Change::OmapSet(vec![(key, value.clone()), (key_by_user(&entry), value)]));
    }
    Ok(Bytes::new())
}

/// Entries that are meant.
struct Range {
    start: u64,
    end: u64,
    /// User who pays; anybody, if it is empty.
    user: Bytes,
    /// Of which bucket; any, if it is empty.
    bucket: Bytes,
    /// Key after which to go on, if it is not empty.
    marker: Bytes,
    max: usize,
}

/// Hands over each entry of a range; returns whether there may be more, and the last key.
fn walk(call: &Call<'_>, range: Range, mut each: impl FnMut(Entry)) -> Result<(bool, Bytes), Fail> {
    let (start, end) = (hour(range.start), hour(range.end));
    let by_user = !range.user.is_empty();
    let prefix = [&range.user[..], b"_"].concat();
    let after: Bytes = match (range.marker.is_empty(), by_user) {
        (false, _) => range.marker,
        (true, true) => [&prefix, start.as_bytes(), b"_"].concat().into(),
        (true, false) => start.into(),
    };
    let page = call.view.omap_list(&after, b"", range.max)?;
    let mut last = after;
    for (key, value) in page.entries {
        let outside = if by_user { !key.starts_with(&prefix) } else { &key[..] >= end.as_bytes() };
        last = key;
        if outside {
            return Ok((false, last));
        }
        let entry = decoded(call, &value)?;
        if !range.bucket.is_empty() && range.bucket != entry.bucket || entry.epoch < range.start {
            continue;
        }
        if entry.epoch >= range.end {
            return Ok((false, last));
        }
        each(entry);
    }
    Ok((page.more, last))
}

pub(super) fn read(call: &mut Call<'_>) -> Outcome {
    let op: ReadOp = call.arg()?;
    let max = if op.max == 0 { MAX_ENTRIES } else { op.max as usize };
    let ReadOp { start, end, owner: user, bucket, marker, .. } = op;
    let mut reply = ReadReply::default();
    let (truncated, last) = walk(call, Range { start, end, user, bucket, marker, max }, |entry| {
        let key = UserBucket { user: entry.pays().text(), bucket: entry.bucket.clone() };
        reply.usage.entry(key).or_default().add(&entry);
    })?;
    reply.truncated = truncated;
    if truncated {
        reply.marker = last;
    }
    Ok(reply.to_bytes())
}

/// Removes up to 1,000 entries. ENODATA if there was none: callers repeat until then.
pub(super) fn trim(call: &mut Call<'_>) -> Outcome {
    call.must_exist()?;
    let op: TrimOp = call.arg()?;
    let TrimOp { start, end, user, bucket } = op;
    let mut keys = Vec::new();
    let range = Range { start, end, user, bucket, marker: Bytes::new(), max: MAX_ENTRIES };
    let (more, _) = walk(call, range, |entry| keys.extend([key_by_time(&entry), key_by_user(&entry)]))?;
    if keys.is_empty() && !more {
        return Err(Errno::ENODATA.into());
    }
    if !keys.is_empty() {
        call.change(Change::OmapRemove(keys));
    }
    Ok(Bytes::new())
}

pub(super) fn clear(call: &mut Call<'_>) -> Outcome {
    if call.exists()? {
        call.change(Change::OmapClear);
    }
    Ok(Bytes::new())
}
