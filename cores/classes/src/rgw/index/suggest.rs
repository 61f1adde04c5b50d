//! Suggestions of a gateway that listed a bucket, found announced operations, and looked at the objects themselves.

use super::header::Shard;
use super::keys;
use crate::keys::{raw, store};
use crate::{Call, Change, Fail, Outcome};
use bytes::Bytes;
use denc::Reader;
use messages::class::rgw::index::{DirEntry, LogEntry, modify, state};
use std::time::Duration;
use types::{Errno, UTime};

/// The object does not exist.
const REMOVE: u8 = b'r';
/// The object is as the entry says.
const UPDATE: u8 = b'u';
/// Bit of a suggestion: it is to be logged.
const LOGGED: u8 = 0x80;
/// Seconds after which an announced operation counts as lost, if the header does not say it.
const TAG_TIMEOUT: u64 = 120;

/// Returns true if an operation that was announced at `time` still counts.
fn counts(time: UTime, timeout: Duration, now: UTime) -> bool {
    let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    now.as_nanos() <= time.as_nanos().saturating_add(timeout)
}

fn log_entry(entry: &DirEntry, op: u8, index_ver: u64) -> LogEntry {
    LogEntry {
        key: entry.key.clone(),
        time: entry.meta.mtime,
        ver: entry.ver,
        op,
        state: state::COMPLETE,
        index_ver,
        tag: entry.tag.clone(),
        ..LogEntry::default()
    }
}

/// Takes those suggestions that are for entries on which nothing is under way, and which did not change since the
/// listing.
pub(super) fn suggest_changes(call: &mut Call<'_>) -> Outcome {
    let mut shard = Shard::load(call)?;
    let timeout = match shard.get().tag_timeout {
        0 => Duration::from_secs(TAG_TIMEOUT),
        seconds => Duration::from_secs(seconds),
    };
    let input = call.input.clone();
    let items = std::mem::take(&mut call.items);
    let mut r = Reader::within(&input, &items);
    let mut changed = false;
    while !r.is_empty() {
        let bad = |_| Fail::Errno(Errno::EINVAL);
        let (op, new): (u8, DirEntry) = (r.get().map_err(bad)?, r.get().map_err(bad)?);
        let at = keys::first(&new.key);
        let Some(value) = raw(call, &at)? else { continue };
        let mut old = match value.is_empty() {
            true => DirEntry::default(),
            false => Reader::new(&value).get().map_err(bad)?,
        };
        old.pending.retain(|pending| counts(pending.time, timeout, call.now));
        if new.index_ver < old.index_ver || !old.pending.is_empty() {
            continue;
        }
        changed |= apply(call, &mut shard, (op, at), old, new);
    }
    if changed {
        shard.store(call);
    }
    Ok(Bytes::new())
}

/// Carries out one suggestion; true if the sums changed.
fn apply(call: &mut Call<'_>, shard: &mut Shard, (op, at): (u8, Bytes), old: DirEntry, mut new: DirEntry) -> bool {
    shard.discount(&old);
    // A category has sums as soon as it is spoken of.
    shard.edit().stats.entry(new.meta.category).or_default();
    let log = op & LOGGED != 0 && !shard.get().sync_stopped;
    let index_ver = shard.get().ver;
    match op & !LOGGED {
        REMOVE => {
            call.change(Change::OmapRemove(vec![at]));
            if log && old.exists {
                shard.log(call, log_entry(&old, modify::DEL, index_ver));
            }
        }
        UPDATE => {
            shard.count(&new.meta);
            new.index_ver = index_ver;
            store(call, at, &new);
            if log {
                shard.log(call, log_entry(&new, modify::ADD, index_ver));
            }
            return true;
        }
        _ => {}
    }
    old.exists
}
