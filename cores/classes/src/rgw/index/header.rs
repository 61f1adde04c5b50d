//! The header of the index: sums, the version, the log's end, whether entries are being moved.

use super::keys;
use crate::keys::{key, store, stored};
use crate::{Call, Change, Fail, Outcome};
use bytes::Bytes;
use denc::Encode;
use messages::class::rgw::index::{DirEntry, DirHeader, LogEntry, Meta, Stats};
use messages::class::rgw::index_ops::{TagTimeoutOp, UpdateStatsOp};
use types::Errno;

/// Numbers that the calls of one vector have for ids in the log, each.
const IDS_OF_CALL: usize = 10_000;

/// The header during one call. Whoever loads it stores it once, or leaves it as it was.
pub(super) struct Shard(DirHeader);

impl Shard {
    /// The header as it is; an empty one if there is none, EIO if it cannot be read.
    pub(super) fn load(call: &Call<'_>) -> Result<Self, Fail> {
        match call.view.omap_header()? {
            none if none.is_empty() => Ok(Self(DirHeader::default())),
            bytes => stored(call, &bytes).map(Self),
        }
    }

    /// Returns what it says.
    pub(super) fn get(&self) -> &DirHeader {
        &self.0
    }

    /// Returns what it says, to be changed.
    pub(super) fn edit(&mut self) -> &mut DirHeader {
        &mut self.0
    }

    /// Goes to the next version.
    pub(super) fn next_version(&mut self) {
        self.0.ver = self.0.ver.wrapping_add(1);
    }

    /// Writes it, with the next version.
    pub(super) fn store(mut self, call: &mut Call<'_>) {
        self.next_version();
        call.change(Change::OmapHeader(self.0.to_bytes()));
    }

    /// Counts an object.
    pub(super) fn count(&mut self, meta: &Meta) {
        let sums = self.0.stats.entry(meta.category).or_default();
        *sums = sums.plus(Stats::of(meta));
    }

    /// Takes an entry's object out of the sums, if it is in them.
    pub(super) fn discount(&mut self, entry: &DirEntry) {
        if entry.exists {
            let sums = self.0.stats.entry(entry.meta.category).or_default();
            *sums = sums.minus(Stats::of(&entry.meta));
        }
    }

    /// Adds an entry to the log; its id is made here: the version of the index before the call, the group's version,
    /// and a number that tells apart what one vector and one call log.
    pub(super) fn log(&mut self, call: &mut Call<'_>, entry: LogEntry) {
        let (version, place) = call.place;
        let within = place * IDS_OF_CALL + call.changes.len();
        let id = Bytes::from(format!("{:011}.{version}.{within}", self.0.ver));
        if id > self.0.max_marker {
            self.0.max_marker = id.clone();
        }
        let at = key(keys::LOG, &id);
        store(call, at, &LogEntry { id, ..entry });
    }
}

pub(super) fn init_index(call: &mut Call<'_>) -> Outcome {
    if !call.view.omap_header()?.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    Shard(DirHeader::default()).store(call);
    Ok(Bytes::new())
}

pub(super) fn set_tag_timeout(call: &mut Call<'_>) -> Outcome {
    let op: TagTimeoutOp = call.arg()?;
    let mut shard = Shard::load(call)?;
    shard.edit().tag_timeout = op.seconds;
    shard.store(call);
    Ok(Bytes::new())
}

/// Sets sums, or adds to them: resharding counts what it moved.
pub(super) fn update_stats(call: &mut Call<'_>) -> Outcome {
    let op: UpdateStatsOp = call.arg()?;
    let mut shard = Shard::load(call)?;
    for (category, new) in op.stats {
        let sums = shard.edit().stats.entry(category).or_default();
        *sums = if op.absolute { new } else { sums.plus(new) };
    }
    shard.store(call);
    Ok(Bytes::new())
}
