//! The OSD maps that this OSD has seen: the newest one decoded, the recent ones as the bytes that clients are sent.
//!
//! Maps are kept in the store under the OSD's own scope, so that a restarted OSD goes through every change that it missed, one after the
//! other: groups are created and split by *changes* of the map.
//!
//! *Invariant.* The newest map's level never falls. A map with a lower one comes from monitors that were made of an older state: what this
//! OSD wrote may be of the higher level, so it goes on with that, and tells the monitors ([`Maps::level_is_unknown`]).

use bytes::Bytes;
use denc::{Decode, Encode};
use maps::{Incremental, OsdMap};
use messages::mon::OsdMapMsg;
use objectstore::{Hold, Limit, MetaChange, Read, Transaction, View};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use types::level::Level;
use types::{Epoch, Fsid, Message, PgId, SpgId};

/// The scope of the OSD's own keys: no pool has a negative number.
pub(crate) const OSD_SCOPE: SpgId = SpgId::whole(PgId::new(-1, 0));
/// Changes kept for clients that are behind; those further behind get the full map.
const KEPT: usize = 500;
/// Changes sent in one message (Ceph's `osd_map_message_max`).
const PER_MESSAGE: usize = 40;
/// Bytes of changes in one message, unless the first alone has more. A message may have 16 MiB.
const MESSAGE_BYTES: usize = 4 << 20;

const SUPERBLOCK: &[u8] = b"superblock";
const FULL: &[u8] = b"map/full";
const INCREMENTALS: &[u8] = b"map/inc/";
/// The cluster's level, one byte, above the first one.
const LEVEL: &[u8] = b"level";

/// Record of the OSD that the store belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) fsid: Fsid,
    pub(crate) whoami: i32,
    pub(crate) uuid: [u8; 16],
}
denc::versioned!(Superblock, 1, 1 { fsid, whoami, uuid });

/// The newest map and the way to it.
pub(crate) struct Maps {
    current: Arc<OsdMap>,
    full: Bytes,
    incrementals: BTreeMap<Epoch, Bytes>,
    /// The level that the monitors have, by the newest map that they sent; that of `current` before the first.
    told: Level,
    /// Most changes that are kept.
    pub(crate) kept: usize,
}

fn incremental_key(epoch: Epoch) -> Bytes {
    [INCREMENTALS, &epoch.to_be_bytes()].concat().into()
}

/// A copy: what came in a message would keep all of the buffer that it came in.
fn of_its_own(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

impl Maps {
    /// No map yet.
    pub(crate) fn none() -> Self {
        Self::of(OsdMap::default(), Bytes::new(), BTreeMap::new())
    }

    fn of(map: OsdMap, full: Bytes, incrementals: BTreeMap<Epoch, Bytes>) -> Self {
        Self { told: map.level, current: Arc::new(map), full, incrementals, kept: KEPT }
    }

    /// Returns what the store holds. The error text says what is wrong with it.
    pub(crate) fn load(store: &dyn View, hold: Hold) -> Read<Result<Self, String>> {
        let Some(full) = store.meta_get(hold, &OSD_SCOPE, FULL)? else { return Ok(Ok(Self::none())) };
        let end = incremental_key(Epoch::MAX);
        let range = (Bound::Included(INCREMENTALS), Bound::Excluded(&end[..]));
        let page = store.meta_scan(hold, &OSD_SCOPE, range, Limit { entries: 2 * KEPT, bytes: usize::MAX })?;
        let epoch_of = |key: &Bytes| Some(Epoch::from_be_bytes(key[INCREMENTALS.len()..].try_into().ok()?));
        let incrementals = page.entries.into_iter().filter_map(|(k, v)| Some((epoch_of(&k)?, v))).collect();
        let level = store.meta_get(hold, &OSD_SCOPE, LEVEL)?.and_then(|bytes| bytes.first().copied()).map_or(Level::FIRST, Level);
        Ok(match OsdMap::from_bytes(&full) {
            Ok(map) if map.level < level => {
                // A program that knew no levels opened this store and wrote the map without one.
                let map = OsdMap { level, ..map };
                let full = map.to_bytes();
                Ok(Self::of(map, full, incrementals))
            }
            Ok(map) => Ok(Self::of(map, full, incrementals)),
            Err(e) => Err(format!("the stored OSD map does not decode: {e}")),
        })
    }

    /// The newest map.
    pub(crate) fn current(&self) -> &Arc<OsdMap> {
        &self.current
    }

    /// Its epoch, 0 before the first one.
    pub(crate) fn epoch(&self) -> Epoch {
        self.current.epoch
    }

    /// Returns true if the monitors have a lower level than this OSD's cluster had once.
    pub(crate) fn level_is_unknown(&self) -> bool {
        self.told < self.current.level
    }

    /// The newest map as it came or was made.
    pub(crate) fn newest(&self) -> &Bytes {
        &self.full
    }

    /// Number of epochs that are kept as changes, and the bytes of these and of the newest map.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.incrementals.len(), self.full.len() + self.incrementals.values().map(Bytes::len).sum::<usize>())
    }

    /// Takes the next map out of a message: the change that follows ours, or a newer full map if there is no way through
    /// changes. `None` when the message holds nothing newer; the error names what does not decode.
    pub(crate) fn advance(&mut self, message: &OsdMapMsg) -> Result<Option<Arc<OsdMap>>, String> {
        let next = self.epoch() + 1;
        if let (true, Some(bytes)) = (self.epoch() > 0, message.incremental.get(&next)) {
            let change = Incremental::from_bytes(bytes).map_err(|e| format!("change to epoch {next}: {e}"))?;
            let map = self.current.apply(&change).map_err(|e| format!("change to epoch {next}: {e}"))?;
            self.told = self.told.max(change.new_level.unwrap_or_default());
            self.full = map.to_bytes();
            self.incrementals.insert(next, of_its_own(bytes));
            while self.incrementals.len() > self.kept {
                self.incrementals.pop_first();
            }
            self.current = Arc::new(map);
            return Ok(Some(self.current.clone()));
        }
        let Some((epoch, bytes)) = message.full.last_key_value().filter(|(epoch, _)| **epoch >= next) else { return Ok(None) };
        let map = OsdMap::from_bytes(bytes).map_err(|e| format!("full map of epoch {epoch}: {e}"))?;
        self.told = map.level;
        if map.level < self.current.level {
            let map = OsdMap { level: self.current.level, ..map };
            self.full = map.to_bytes();
            self.current = Arc::new(map);
        } else {
            self.full = of_its_own(bytes);
            self.current = Arc::new(map);
        }
        self.incrementals.clear();
        Ok(Some(self.current.clone()))
    }

    /// Returns what makes the store remember the newest map. `since` is the epoch that it remembers now.
    pub(crate) fn save(&self, since: Epoch) -> Transaction {
        let mut meta = vec![MetaChange::Set(Bytes::from_static(FULL), self.full.clone())];
        for (epoch, bytes) in self.incrementals.range(since + 1..) {
            meta.push(MetaChange::Set(incremental_key(*epoch), bytes.clone()));
        }
        if self.current.level > Level::FIRST {
            meta.push(MetaChange::Set(Bytes::from_static(LEVEL), Bytes::copy_from_slice(&[self.current.level.0])));
        }
        let oldest = self.incrementals.first_key_value().map_or(self.epoch() + 1, |(epoch, _)| *epoch);
        meta.push(MetaChange::RemoveRange(incremental_key(0), incremental_key(oldest)));
        Transaction { scope: OSD_SCOPE, meta, ..Transaction::default() }
    }

    /// Returns what brings a peer that has `epoch` to our map: the changes after it if we have them, else the full
    /// map. Sent in parts: the second value is the epoch that the peer has afterwards.
    pub(crate) fn share(&self, epoch: Epoch) -> Option<(Message, Epoch)> {
        if epoch >= self.epoch() {
            return None;
        }
        let mut message = OsdMapMsg {
            fsid: self.current.fsid,
            oldest: self.incrementals.first_key_value().map_or(self.epoch(), |(first, _)| *first),
            newest: self.epoch(),
            ..OsdMapMsg::default()
        };
        let mut reached = self.epoch();
        if epoch > 0 && self.incrementals.contains_key(&(epoch + 1)) {
            let mut bytes = 0;
            let fits = |(_, change): &(&Epoch, &Bytes)| {
                bytes += change.len();
                bytes <= MESSAGE_BYTES || bytes == change.len()
            };
            let changes = self.incrementals.range(epoch + 1..).take(PER_MESSAGE).take_while(fits);
            message.incremental = changes.map(|(epoch, bytes)| (*epoch, bytes.clone())).collect();
            reached = message.incremental.last_key_value().map_or(reached, |(last, _)| *last);
        } else {
            message.full.insert(self.epoch(), self.full.clone());
        }
        Some((message.encode(), reached))
    }
}

/// Reads the superblock; `None` if the store is new.
pub(crate) fn superblock(store: &dyn View, hold: Hold) -> Read<Option<Result<Superblock, String>>> {
    let bytes = store.meta_get(hold, &OSD_SCOPE, SUPERBLOCK)?;
    Ok(bytes.map(|b| Superblock::from_bytes(&b).map_err(|e| format!("the store's superblock key does not decode: {e}"))))
}

/// Writes the superblock of a new store.
pub(crate) fn format(superblock: &Superblock) -> Transaction {
    let superblock = MetaChange::Set(Bytes::from_static(SUPERBLOCK), superblock.to_bytes());
    let meta = vec![superblock, crate::leases::note_promised(pg::Leases::LEAST)];
    Transaction { scope: OSD_SCOPE, meta, ..Transaction::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps that a monitor of this level sends, from the first on.
    fn map(level: u8, epoch: Epoch) -> OsdMap {
        OsdMap { epoch, level: Level(level), ..OsdMap::default() }
    }

    fn full(map: &OsdMap) -> OsdMapMsg {
        OsdMapMsg { full: [(map.epoch, map.to_bytes())].into(), newest: map.epoch, ..OsdMapMsg::default() }
    }

    #[test]
    fn a_map_of_a_lower_level_does_not_lower_it() {
        let mut maps = Maps::none();
        maps.advance(&full(&map(2, 5))).unwrap().unwrap();
        assert!(!maps.level_is_unknown());
        let restored = map(1, 1000);
        let taken = maps.advance(&full(&restored)).unwrap().unwrap();
        assert_eq!((taken.level, taken.epoch, maps.level_is_unknown()), (Level(2), 1000, true));
        assert_eq!(OsdMap::from_bytes(maps.newest()).unwrap().level, Level(2), "what is kept has it, too");

        // Changes that do not raise it say nothing about it; then the monitors have learned it.
        let next = |maps: &mut Maps, level: Option<Level>| {
            let mut change = Incremental::new(maps.epoch() + 1, restored.fsid, types::UTime::ZERO);
            change.new_level = level;
            let bytes = change.seal(maps.current()).unwrap().incremental;
            let message = OsdMapMsg { incremental: [(maps.epoch() + 1, bytes)].into(), ..OsdMapMsg::default() };
            maps.advance(&message).unwrap().unwrap().level
        };
        assert_eq!((next(&mut maps, None), maps.level_is_unknown()), (Level(2), true));
        assert_eq!((next(&mut maps, Some(Level(2))), maps.level_is_unknown()), (Level(2), false));
    }
}
