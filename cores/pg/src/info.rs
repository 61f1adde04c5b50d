//! The group's record about each object: versions, times, snapshots, watchers. Ours, not Ceph's `object_info_t`.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

use crate::codec::{Parser, Writer};
use bytes::Bytes;
use denc::{DecodeError, Result};
use types::{EVersion, EntityAddr, Intervals, UTime};

/// Layout of [`ObjectInfo`]; a reader refuses others.
const LAYOUT: u64 = 1;

/// Deleted, but kept because clones exist.
pub(crate) const WHITEOUT: u32 = 1;
/// Not changed since a client said UNDIRTY. Only cache tiers make use of it, but every client may ask.
pub(crate) const CLEAN: u32 = 2;

/// Holder of a watch: kind and number of the entity.
pub(crate) type Holder = (u8, i64);

/// A watch as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchInfo {
    /// The client's name for it.
    pub(crate) cookie: u64,
    /// The holder.
    pub(crate) holder: Holder,
    /// Seconds that it outlives its last sign of life.
    pub(crate) timeout: u32,
    /// The client's instance.
    pub(crate) addr: EntityAddr,
}

/// A clone: the object as it was under some snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CloneInfo {
    /// Its snapshot id in [`types::HObject::snap`]: the newest snapshot that it was made for.
    pub(crate) id: u64,
    /// Snapshots that it serves, newest first.
    pub(crate) snaps: Vec<u64>,
    /// Bytes.
    pub(crate) size: u64,
    /// Ranges that it has in common with the next newer clone, or the head.
    pub(crate) overlap: Intervals,
}

/// The snapshots of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SnapSet {
    /// Newest snapshot that the head was written under.
    pub(crate) seq: u64,
    /// Oldest first.
    pub(crate) clones: Vec<CloneInfo>,
}

/// Layout of the bytes of an object on shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Number of the layout among the pool's: 0 is its first, and the only one that there is.
    pub(crate) id: u64,
    /// Bytes of a chunk: a multiple of [`CHUNK_UNIT`], at most [`LARGEST_CHUNK`].
    pub(crate) chunk: u64,
}

/// Bytes in which chunks are counted: a block of disks.
const CHUNK_UNIT: u64 = 4096;
/// Bytes of a chunk at most; profiles allow far less.
pub(crate) const LARGEST_CHUNK: u64 = 1 << 30;

/// Record of an object. A clone's has neither watchers nor snapshots of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectInfo {
    /// The group's version of its last change.
    pub(crate) version: EVersion,
    /// The version that clients see.
    pub(crate) user_version: u64,
    /// Time when clients say they changed it last.
    pub(crate) mtime: UTime,
    /// Number of the last ordered truncation (file systems only).
    pub(crate) truncate_seq: u32,
    /// Place where that cut.
    pub(crate) truncate_size: u64,
    /// [`WHITEOUT`], [`CLEAN`].
    pub(crate) flags: u32,
    /// Expected object size, expected write size, flags.
    pub(crate) hint: Option<(u64, u64, u32)>,
    /// True if the object is counted as having an omap. If not, it has none; if so, it may have lost its last key
    /// since.
    pub(crate) omap: bool,
    /// Bytes that the object has; `None` if it was changed last below the level of [`types::Feature::RecordedSizes`]. A scrub compares it
    /// with what a copy holds: one that missed a change of the data contradicts its own record.
    pub(crate) size: Option<u64>,
    /// In a pool of shards: how its bytes lie on them.
    pub(crate) layout: Option<Layout>,
    /// Sorted by cookie and holder.
    pub(crate) watchers: Vec<WatchInfo>,
    /// Snapshots.
    pub(crate) snaps: SnapSet,
}

/// Returns how many bytes an object has by its record; `None`: the record does not say, or cannot be read.
pub fn recorded_size(record: &[u8]) -> Option<u64> {
    ObjectInfo::decode(record).ok()?.size
}

/// Bits that say which optional parts follow.
const HAS_TRUNCATE: u64 = 1;
const HAS_HINT: u64 = 2;
const HAS_WATCHERS: u64 = 4;
const HAS_SNAPS: u64 = 8;
const HAS_OMAP: u64 = 16;
const HAS_SIZE: u64 = 32;
const HAS_LAYOUT: u64 = 64;

impl ObjectInfo {
    pub(crate) fn is_whiteout(&self) -> bool {
        self.flags & WHITEOUT != 0
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut w = Writer(Vec::with_capacity(48));
        w.num(LAYOUT);
        let truncate = self.truncate_seq != 0 || self.truncate_size != 0;
        let mut parts = 0;
        for (there, bit) in [
            (truncate, HAS_TRUNCATE),
            (self.hint.is_some(), HAS_HINT),
            (!self.watchers.is_empty(), HAS_WATCHERS),
            (self.snaps != SnapSet::default(), HAS_SNAPS),
            (self.omap, HAS_OMAP),
            (self.size.is_some(), HAS_SIZE),
            (self.layout.is_some(), HAS_LAYOUT),
        ] {
            parts |= if there { bit } else { 0 };
        }
        w.num(parts);
        w.num(self.version.epoch.into());
        w.num(self.version.version);
        w.num(self.user_version);
        w.denc(&self.mtime);
        w.num(self.flags.into());
        if truncate {
            w.num(self.truncate_seq.into());
            w.num(self.truncate_size);
        }
        if let Some((object, write, flags)) = self.hint {
            w.num(object);
            w.num(write);
            w.num(flags.into());
        }
        if parts & HAS_WATCHERS != 0 {
            w.list(self.watchers.iter(), put_watch);
        }
        if parts & HAS_SNAPS != 0 {
            w.num(self.snaps.seq);
            w.list(self.snaps.clones.iter(), put_clone);
        }
        if let Some(size) = self.size {
            w.num(size);
        }
        if let Some(Layout { id, chunk }) = self.layout {
            debug_assert!(chunk.is_multiple_of(CHUNK_UNIT));
            w.num(id);
            w.num(chunk / CHUNK_UNIT);
        }
        w.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Parser::new(bytes);
        if r.num()? != LAYOUT {
            return Err(DecodeError::Invalid("layout of an object's record"));
        }
        let parts = r.num()?;
        let version = EVersion { epoch: r.num32()?, version: r.num()? };
        let mut info = Self { version, user_version: r.num()?, mtime: r.denc()?, flags: r.num32()?, ..Self::default() };
        info.omap = parts & HAS_OMAP != 0;
        if parts & HAS_TRUNCATE != 0 {
            (info.truncate_seq, info.truncate_size) = (r.num32()?, r.num()?);
        }
        if parts & HAS_HINT != 0 {
            info.hint = Some((r.num()?, r.num()?, r.num32()?));
        }
        if parts & HAS_WATCHERS != 0 {
            info.watchers = r.list(get_watch)?;
        }
        if parts & HAS_SNAPS != 0 {
            info.snaps = SnapSet { seq: r.num()?, clones: r.list(get_clone)? };
        }
        if parts & HAS_SIZE != 0 {
            info.size = Some(r.num()?);
        }
        if parts & HAS_LAYOUT != 0 {
            let (id, units) = (r.num()?, r.num()?);
            if !(1..=LARGEST_CHUNK / CHUNK_UNIT).contains(&units) {
                return Err(DecodeError::Invalid("chunk of an object"));
            }
            info.layout = Some(Layout { id, chunk: units * CHUNK_UNIT });
        }
        r.0.finish()?;
        Ok(info)
    }

    /// Index of a watch, or where it would go.
    pub(crate) fn watch(&self, cookie: u64, holder: Holder) -> std::result::Result<usize, usize> {
        self.watchers.binary_search_by_key(&(cookie, holder), |w| (w.cookie, w.holder))
    }
}

fn put_watch(w: &mut Writer, watch: &WatchInfo) {
    w.num(watch.cookie);
    w.num(watch.holder.0.into());
    w.int(watch.holder.1);
    w.num(watch.timeout.into());
    w.denc(&watch.addr);
}

fn get_watch(r: &mut Parser<'_>) -> Result<WatchInfo> {
    let cookie = r.num()?;
    let kind = u8::try_from(r.num()?).map_err(|_| DecodeError::Invalid("entity kind of a watch"))?;
    Ok(WatchInfo { cookie, holder: (kind, r.int()?), timeout: r.num32()?, addr: r.denc()? })
}

fn put_clone(w: &mut Writer, clone: &CloneInfo) {
    w.num(clone.id);
    w.list(clone.snaps.iter(), |w, s| w.num(*s));
    w.num(clone.size);
    put_intervals(w, &clone.overlap);
}

fn get_clone(r: &mut Parser<'_>) -> Result<CloneInfo> {
    Ok(CloneInfo { id: r.num()?, snaps: r.list(Parser::num)?, size: r.num()?, overlap: get_intervals(r)? })
}

/// Gaps and lengths, so that the numbers stay small.
pub(crate) fn put_intervals(w: &mut Writer, set: &Intervals) {
    let mut at = 0;
    w.list(set.ranges(), |w, range| {
        w.num(range.start - at);
        w.num(range.end - range.start);
        at = range.end;
    });
}

pub(crate) fn get_intervals(r: &mut Parser<'_>) -> Result<Intervals> {
    let mut at = 0u64;
    let overflow = DecodeError::Invalid("range");
    let pairs = r.list(|r| {
        let start = at.checked_add(r.num()?).ok_or(overflow.clone())?;
        let len = r.num()?;
        at = start.checked_add(len).ok_or(overflow.clone())?;
        Ok((start, len))
    })?;
    Ok(pairs.into_iter().collect())
}

impl SnapSet {
    /// Keeps the ranges of all overlaps together below a bound: of the newest clone the shortest ones count as no longer shared. Returns the
    /// bytes of those. What says that less is shared than is takes nothing from anybody: it is copied, and listed as changed.
    pub(crate) fn bound_overlap(&mut self, most: usize) -> u64 {
        let all: usize = self.clones.iter().map(|clone| clone.overlap.ranges().len()).sum();
        let Some(newest) = self.clones.last_mut().filter(|_| all > most) else { return 0 };
        let before = newest.overlap.total();
        let mut ranges: Vec<_> = newest.overlap.iter().collect();
        // Not one by one: the next writes have room.
        let kept = ranges.len().saturating_sub(all - most).min(most / 2);
        ranges.sort_unstable_by_key(|(start, len)| (std::cmp::Reverse(*len), *start));
        ranges.truncate(kept);
        newest.overlap = ranges.into_iter().collect();
        before - newest.overlap.total()
    }

    /// Returns where to read snapshot `snap`: `None` if it did not exist then; HEAD if nothing was written since.
    pub(crate) fn serving(&self, snap: u64) -> Option<types::SnapId> {
        if snap > self.seq {
            return Some(types::SnapId::HEAD);
        }
        let clone = self.clones.iter().find(|c| c.id >= snap)?;
        // It serves just those: at others the object did not exist, or its writers did not know of them.
        clone.snaps.contains(&snap).then_some(types::SnapId(clone.id))
    }

    pub(crate) fn position(&self, id: u64) -> Option<usize> {
        self.clones.binary_search_by_key(&id, |c| c.id).ok()
    }

    /// Bytes that clone `i` has for itself: its size less what it shares with its newer neighbour.
    pub(crate) fn own_bytes(&self, i: usize) -> u64 {
        self.clones[i].size.saturating_sub(self.clones[i].overlap.total())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_are_small() {
        let plain = ObjectInfo {
            version: EVersion::new(43, 100_000),
            user_version: 100_000,
            mtime: UTime { sec: 1_795_208_709, nsec: 5 },
            ..ObjectInfo::default()
        };
        assert!(plain.encode().len() <= 20);
        assert_eq!(ObjectInfo::decode(&plain.encode()), Ok(plain.clone()));
        let clone = CloneInfo { id: 9, snaps: vec![9, 7], size: 4096, overlap: Intervals::from_iter([(0, 5), (100, 50)]) };
        let watch = WatchInfo { cookie: u64::MAX, holder: (8, -4), timeout: 30, addr: EntityAddr::default() };
        let full = ObjectInfo {
            truncate_seq: 3,
            truncate_size: 77,
            flags: WHITEOUT,
            hint: Some((4 << 20, 4 << 20, 64)),
            omap: true,
            size: Some(4 << 20),
            layout: Some(Layout { id: 0, chunk: 64 << 10 }),
            watchers: vec![watch],
            snaps: SnapSet { seq: 12, clones: vec![clone] },
            ..plain
        };
        let bytes = full.encode();
        assert_eq!(ObjectInfo::decode(&bytes), Ok(full));
        assert!((0..bytes.len()).all(|n| ObjectInfo::decode(&bytes[..n]).is_err()));
    }

    #[test]
    fn snapshots_are_served_by_the_clone_that_covers_them() {
        let clone = |id, snaps: &[u64]| CloneInfo { id, snaps: snaps.to_vec(), ..CloneInfo::default() };
        let set = SnapSet { seq: 10, clones: vec![clone(4, &[4, 3]), clone(10, &[10, 8])] };
        let serving = |snap| set.serving(snap).map(|s| s.0);
        assert_eq!(serving(11), Some(types::SnapId::HEAD.0));
        assert_eq!((serving(10), serving(8)), (Some(10), Some(10)));
        assert_eq!((serving(9), serving(7), serving(5)), (None, None, None), "no writer named them");
        assert_eq!((serving(4), serving(3), serving(2)), (Some(4), Some(4), None));
    }
}
