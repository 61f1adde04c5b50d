//! Class `log`: entries in the order of their times, and the largest key and latest time in the omap's header.

use crate::{Call, Change, Fail, Method, Outcome, RD, WR};
use bytes::Bytes;
use denc::{Encode, Reader};
use messages::class::log::{AddOp, ListOp, ListReply, LogEntry, LogHeader, TrimOp};
use messages::class::user::Nothing;
use types::{Errno, UTime};

pub(crate) const METHODS: &[Method] = &[
    Method { name: "add", flags: RD | WR, run: add },
    Method { name: "list", flags: RD, run: list },
    Method { name: "trim", flags: RD | WR, run: trim },
    Method { name: "info", flags: RD, run: info },
];

/// Keys of entries begin so.
const PREFIX: &str = "1_";
/// Most entries of one listing.
pub(crate) const MAX_ENTRIES: usize = 1000;

/// Returns what keys of a time begin with; microseconds are enough.
pub(crate) fn time_key(time: UTime) -> String {
    format!("{PREFIX}{:010}.{:06}_", time.sec, time.nsec / 1000)
}

/// Returns true if a key lies at or after a boundary, of which only the beginning counts.
pub(crate) fn reached(key: &[u8], boundary: &[u8]) -> bool {
    &key[..key.len().min(boundary.len())] >= boundary
}

fn header(call: &Call<'_>) -> Result<LogHeader, Fail> {
    let bytes = call.view.omap_header()?;
    if bytes.is_empty() {
        return Ok(LogHeader::default());
    }
    call.stored(&bytes, Errno::EIO)
}

fn add(call: &mut Call<'_>) -> Outcome {
    let op: AddOp = call.arg()?;
    let mut header = header(call)?;
    for mut entry in op.entries {
        let mut time = entry.timestamp;
        if op.monotonic && time < header.max_time {
            time = header.max_time;
        } else if time > header.max_time {
            header.max_time = time;
        }
        if entry.id.is_empty() {
            let (version, index) = call.place;
            entry.id = format!("{}{version}.{index}", time_key(time)).into();
        }
        if entry.id > header.max_marker {
            header.max_marker = entry.id.clone();
        }
        call.change(Change::OmapSet(vec![(entry.id.clone(), entry.to_bytes())]));
    }
    call.change(Change::OmapHeader(header.to_bytes()));
    Ok(Bytes::new())
}

fn list(call: &mut Call<'_>) -> Outcome {
    let op: ListOp = call.arg()?;
    let after = if op.marker.is_empty() { time_key(op.from).into() } else { op.marker };
    let bounded = !op.from.is_zero() && op.to >= op.from;
    let end = time_key(op.to);
    let max = match usize::try_from(op.max) {
        Ok(max @ 1..=MAX_ENTRIES) => max,
        _ => MAX_ENTRIES,
    };
    let page = call.view.omap_list(&after, PREFIX.as_bytes(), max)?;
    let mut reply = ListReply::<LogEntry> { truncated: page.more, ..ListReply::default() };
    for (key, value) in page.entries {
        reply.marker = key;
        if bounded && reached(&reply.marker, end.as_bytes()) {
            reply.truncated = false;
            break;
        }
        // What is no entry is passed over.
        reply.entries.extend(Reader::new(&value).get::<LogEntry>());
    }
    Ok(reply.to_bytes())
}

/// Removes entries up to a time or a key, both included; ENODATA if there are none.
fn trim(call: &mut Call<'_>) -> Outcome {
    let op: TrimOp = call.arg()?;
    let after = if op.from_marker.is_empty() { time_key(op.from).into() } else { op.from_marker };
    let end: Bytes = match op.to_marker.as_ref() {
        b"" => time_key(UTime::from_nanos(op.to.as_nanos().saturating_add(1000))).into(),
        marker => [marker, &[0]].concat().into(),
    };
    let first = call.view.omap_list(&after, b"", 1)?.entries.into_iter().next();
    let (first, _) = first.filter(|(key, _)| *key <= end).ok_or(Fail::Errno(Errno::ENODATA))?;
    call.change(Change::OmapRemoveRange(first, end));
    Ok(Bytes::new())
}

/// Output: the header, in an envelope.
fn info(call: &mut Call<'_>) -> Outcome {
    call.arg::<Nothing>()?;
    let header = header(call)?;
    let mut out = Vec::new();
    denc::envelope(&mut out, 1, 1, |out| header.encode(out));
    Ok(out.into())
}
