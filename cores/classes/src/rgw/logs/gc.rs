//! What the gateway deletes later, as it was kept before there was class `rgw_gc`: each entry twice, under its tag and
//! under its time.

use super::{decoded, entry};
use crate::{Call, Change, Fail, Outcome};
use bytes::Bytes;
use denc::Encode;
use messages::class::rgw::gc::{DeferOp, Info, ListOp, ListReply, RemoveOp, SetOp};
use std::time::Duration;
use types::{Errno, UTime};

/// Beginning of keys of tags.
const NAMES: &[u8] = b"0_";
/// Beginning of keys of times.
const TIMES: &[u8] = b"1_";
/// Nanoseconds that an entry may be late so that its time is its own.
const MAX_TRIES: u32 = 10_000;
/// Entries of a listing that does not say how many.
const DEFAULT_ENTRIES: u32 = 128;

fn name_key(tag: &[u8]) -> Bytes {
    [NAMES, tag].concat().into()
}

fn time_key(time: UTime) -> Bytes {
    [TIMES, format!("{:011}.{:09}", time.sec, time.nsec).as_bytes()].concat().into()
}

/// Returns what is stored under a tag; none if there is nothing, or nothing that can be read.
fn known(call: &Call<'_>, tag: &[u8]) -> Result<Option<Info>, Fail> {
    match entry(call, &name_key(tag)) {
        Ok(info) => Ok(Some(info)),
        Err(Fail::Errno(Errno::ENOENT | Errno::EIO)) => Ok(None),
        Err(fail) => Err(fail),
    }
}

/// A time that no other entry has: entries of one time would hide each other. Calls of one vector do not see each
/// other's.
fn free_time(call: &Call<'_>, seconds: u32, tag: &[u8]) -> Result<UTime, Fail> {
    let mut time = call.now.plus(Duration::from_secs(u64::from(seconds)));
    time = time.plus(Duration::from_nanos(call.place.1 as u64));
    for _ in 0..MAX_TRIES {
        match entry::<Info>(call, &time_key(time)) {
            Err(Fail::Errno(Errno::ENOENT)) => return Ok(time),
            Ok(other) if other.tag == tag => return Ok(time),
            Ok(_) | Err(Fail::Errno(_)) => time = time.plus(Duration::from_nanos(1)),
            Err(fail) => return Err(fail),
        }
    }
    Err(Errno::EAGAIN.into())
}

fn update(call: &mut Call<'_>, seconds: u32, mut info: Info) -> Outcome {
    if let Some(old) = known(call, &info.tag)? {
        call.change(Change::OmapRemove(vec![time_key(old.time)]));
    }
    info.time = free_time(call, seconds, &info.tag)?;
    let value = info.to_bytes();
    call.change(Change::OmapSet(vec![(name_key(&info.tag), value.clone()), (time_key(info.time), value)]));
    Ok(Bytes::new())
}

pub(super) fn set_entry(call: &mut Call<'_>) -> Outcome {
    let op: SetOp = call.arg()?;
    update(call, op.seconds, op.info)
}

pub(super) fn defer_entry(call: &mut Call<'_>) -> Outcome {
    let op: DeferOp = call.arg()?;
    let info = entry(call, &name_key(&op.tag))?;
    update(call, op.seconds, info)
}

pub(super) fn list(call: &mut Call<'_>) -> Outcome {
    let op: ListOp = call.arg()?;
    let max = if op.max == 0 { DEFAULT_ENTRIES } else { op.max };
    let after = if op.marker.is_empty() { Bytes::from_static(TIMES) } else { op.marker };
    let end = op.expired_only.then(|| time_key(call.now));
    let page = call.view.omap_list(&after, b"", max as usize)?;
    let (mut reply, mut last) = (ListReply { truncated: page.more, ..ListReply::default() }, Bytes::new());
    for (key, value) in page.entries {
        if end.as_ref().is_some_and(|end| key >= *end) || !key.starts_with(TIMES) {
            reply.truncated = false;
            break;
        }
        reply.entries.push(decoded(call, &value)?);
        last = key;
    }
    if reply.truncated {
        reply.marker = last;
    }
    Ok(reply.to_bytes())
}

/// Removing what is not there is no mistake.
pub(super) fn remove(call: &mut Call<'_>) -> Outcome {
    let op: RemoveOp = call.arg()?;
    let mut keys = Vec::new();
    for tag in op.tags {
        match entry::<Info>(call, &name_key(&tag)) {
            Ok(info) => keys.extend([time_key(info.time), name_key(&tag)]),
            Err(Fail::Errno(Errno::ENOENT)) => {}
            Err(fail) => return Err(fail),
        }
    }
    if !keys.is_empty() {
        call.change(Change::OmapRemove(keys));
    }
    Ok(Bytes::new())
}
