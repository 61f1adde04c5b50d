//! Class `timeindex`: values by time and a name that tells those of one time apart.

use crate::log::{MAX_ENTRIES, reached, time_key};
use crate::{Call, Change, Method, Outcome, RD, WR};
use bytes::Bytes;
use denc::Encode;
use messages::class::log::{IndexAddOp, IndexEntry, ListOp, ListReply, TrimOp};
use types::{Errno, UTime};

pub(crate) const METHODS: &[Method] = &[
    Method { name: "add", flags: RD | WR, run: add },
    Method { name: "list", flags: RD, run: list },
    Method { name: "trim", flags: RD | WR, run: trim },
];

/// Keys of entries begin so.
const PREFIX: &[u8] = b"1_";

fn add(call: &mut Call<'_>) -> Outcome {
    let op: IndexAddOp = call.arg()?;
    for entry in op.entries {
        let key = [time_key(entry.time).as_bytes(), &entry.ext].concat();
        call.change(Change::OmapSet(vec![(key.into(), entry.value)]));
    }
    Ok(Bytes::new())
}

/// Time and name in a key. As in Ceph, the microseconds come back as nanoseconds, and a name ends at a blank.
fn parse(key: &[u8]) -> Option<(UTime, Bytes)> {
    let text = key.strip_prefix(PREFIX)?;
    let dot = text.iter().position(|b| *b == b'.')?;
    let (sec, rest) = (&text[..dot], &text[dot + 1..]);
    let line = rest.iter().position(|b| *b == b'_')?;
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse().ok();
    let time = UTime { sec: number(sec)?, nsec: number(&rest[..line])? };
    let ext = rest[line + 1..].iter().copied().take_while(|b| !b.is_ascii_whitespace() && *b != 0);
    Some((time, ext.take(255).collect()))
}

fn list(call: &mut Call<'_>) -> Outcome {
    let op: ListOp = call.arg()?;
    let after = if op.marker.is_empty() { time_key(op.from).into() } else { op.marker };
    let bounded = op.to >= op.from;
    let end = time_key(op.to);
    let max = usize::try_from(op.max).unwrap_or(MAX_ENTRIES).min(MAX_ENTRIES);
    let page = call.view.omap_list(&after, PREFIX, max)?;
    let mut reply = ListReply::<IndexEntry> { truncated: page.more, ..ListReply::default() };
    for (key, value) in page.entries {
        if bounded && reached(&key, end.as_bytes()) {
            reply.truncated = false;
            break;
        }
        let found = parse(&key);
        reply.marker = key;
        reply.entries.extend(found.map(|(time, ext)| IndexEntry { time, ext, value }));
    }
    Ok(reply.to_bytes())
}

/// Removes up to a thousand entries up to a time or a key, both included; ENODATA if there are none.
fn trim(call: &mut Call<'_>) -> Outcome {
    let op: TrimOp = call.arg()?;
    let after = if op.from_marker.is_empty() { time_key(op.from).into() } else { op.from_marker };
    let end = if op.to_marker.is_empty() { time_key(op.to).into() } else { op.to_marker };
    let page = call.view.omap_list(&after, PREFIX, MAX_ENTRIES)?;
    let keys = page.entries.into_iter().map(|(key, _)| key);
    let gone: Vec<Bytes> = keys.take_while(|key| key[..key.len().min(end.len())] <= end[..]).collect();
    if gone.is_empty() {
        return Err(Errno::ENODATA.into());
    }
    call.change(Change::OmapRemove(gone));
    Ok(Bytes::new())
}
