//! Class `user`: the buckets of a user of the object gateway; their sums are in the omap's header.

use crate::{Call, Change, Fail, Method, Outcome, RD, WR};
use bytes::Bytes;
use denc::{Encode, Reader};
use messages::class::log::ListReply;
use messages::class::user::{
    BucketEntry, Header, HeaderReply, ListOp, Nothing, RemoveOp, ResetOp, ResetReply, SetOp, Stats, TimeOp,
};
use types::Errno;

pub(crate) const METHODS: &[Method] = &[
    Method { name: "set_buckets_info", flags: RD | WR, run: set_buckets_info },
    Method { name: "complete_stats_sync", flags: RD | WR, run: complete_stats_sync },
    Method { name: "remove_bucket", flags: RD | WR, run: remove_bucket },
    Method { name: "list_buckets", flags: RD, run: list_buckets },
    Method { name: "get_header", flags: RD, run: get_header },
    Method { name: "reset_user_stats", flags: RD | WR, run: reset_user_stats },
    Method { name: "reset_user_stats2", flags: RD | WR, run: reset_user_stats2 },
];

/// Most buckets of one listing.
const MAX_ENTRIES: usize = 1000;

fn decoded<T: denc::Decode>(call: &Call<'_>, bytes: &[u8]) -> Result<T, Fail> {
    call.stored(bytes, Errno::EIO)
}

fn header(call: &Call<'_>) -> Result<Header, Fail> {
    match call.view.omap_header()? {
        empty if empty.is_empty() => Ok(Header::default()),
        bytes => decoded(call, &bytes),
    }
}

fn set_header(call: &mut Call<'_>, header: &Header) {
    call.change(Change::OmapHeader(header.to_bytes()));
}

/// A bucket; buckets have names.
fn bucket(call: &Call<'_>, name: &Bytes) -> Result<Option<BucketEntry>, Fail> {
    if name.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    match call.omap(name) {
        Ok(value) => decoded(call, &value).map(Some),
        Err(Fail::Errno(Errno::ENOENT)) => Ok(None),
        Err(fail) => Err(fail),
    }
}

/// Sets what is in buckets. Those that are not there are added, or passed over: they may just have been removed.
fn set_buckets_info(call: &mut Call<'_>) -> Outcome {
    let op: SetOp = call.arg()?;
    let mut header = header(call)?;
    for new in op.entries {
        let mut entry = match bucket(call, &new.bucket.name)? {
            Some(old) => old,
            None if op.add => new.clone(),
            None => continue,
        };
        if entry.synced {
            header.stats = header.stats.minus(&entry);
        }
        (entry.size, entry.size_rounded, entry.count) = (new.size, new.size_rounded, new.count);
        entry.synced = true;
        call.change(Change::OmapSet(vec![(new.bucket.name, entry.to_bytes())]));
        header.stats = header.stats.plus(&entry);
    }
    header.last_update = header.last_update.max(op.time);
    set_header(call, &header);
    Ok(Bytes::new())
}

fn complete_stats_sync(call: &mut Call<'_>) -> Outcome {
    let op: TimeOp = call.arg()?;
    let mut header = header(call)?;
    header.last_sync = header.last_sync.max(op.time);
    set_header(call, &header);
    Ok(Bytes::new())
}

/// Removing a bucket that is not there is no mistake.
fn remove_bucket(call: &mut Call<'_>) -> Outcome {
    let op: RemoveOp = call.arg()?;
    let mut header = header(call)?;
    let Some(entry) = bucket(call, &op.bucket.name)? else { return Ok(Bytes::new()) };
    if entry.synced {
        header.stats = header.stats.minus(&entry);
    }
    call.change(Change::OmapRemove(vec![op.bucket.name]));
    set_header(call, &header);
    Ok(Bytes::new())
}

fn list_buckets(call: &mut Call<'_>) -> Outcome {
    let op: ListOp = call.arg()?;
    let max = usize::try_from(op.max).unwrap_or(MAX_ENTRIES).min(MAX_ENTRIES);
    let page = call.view.omap_list(&op.marker, b"", max)?;
    let mut reply = ListReply::<BucketEntry> { truncated: page.more, ..ListReply::default() };
    let mut marker = Bytes::new();
    for (name, value) in page.entries {
        if !op.end.is_empty() && name >= op.end {
            reply.truncated = false;
            break;
        }
        marker = name;
        reply.entries.extend(Reader::new(&value).get::<BucketEntry>());
    }
    if reply.truncated {
        reply.marker = marker;
    }
    Ok(reply.to_bytes())
}

fn get_header(call: &mut Call<'_>) -> Outcome {
    call.arg::<Nothing>()?;
    Ok(HeaderReply { header: header(call)? }.to_bytes())
}

/// Sums over the buckets after a name, whether there are more than `max`, and the last name.
fn count(call: &Call<'_>, after: &Bytes, mut stats: Stats) -> Result<(Stats, bool, Option<Bytes>), Fail> {
    let page = call.view.omap_list(after, b"", MAX_ENTRIES)?;
    for (_, value) in &page.entries {
        stats = stats.plus(&decoded(call, value)?);
    }
    Ok((stats, page.more, page.entries.last().map(|(name, _)| name.clone())))
}

/// Counts all buckets.
fn reset_user_stats(call: &mut Call<'_>) -> Outcome {
    let op: TimeOp = call.arg()?;
    let (mut stats, mut after) = (Stats::default(), Bytes::new());
    loop {
        let (sum, more, last) = count(call, &after, stats)?;
        stats = sum;
        match last {
            Some(last) if more => after = last,
            _ => break,
        }
    }
    set_header(call, &Header { stats, last_update: op.time, ..Header::default() });
    Ok(Bytes::new())
}

/// Counts some buckets; the last call of such a row sets the sums. The sums so far in its input do not count, as in
/// Ceph 16.
fn reset_user_stats2(call: &mut Call<'_>) -> Outcome {
    let op: ResetOp = call.arg()?;
    let (stats, truncated, last) = count(call, &op.marker, Stats::default())?;
    if !truncated {
        set_header(call, &Header { stats, last_update: op.time, ..Header::default() });
    }
    Ok(ResetReply { marker: last.unwrap_or_default(), stats, truncated }.to_bytes())
}
