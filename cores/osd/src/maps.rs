//! The OSD maps that this OSD has seen: the newest one decoded, the recent ones as the bytes that clients are sent.
//!
//! Maps are kept in the store under the OSD's own scope, so that a restarted OSD goes through every change that it missed, one after the
//! other: groups are created and split by *changes* of the map.

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

const SUPERBLOCK: &[u8] = b"superblock";
const FULL: &[u8] = b"map/full";
const INCREMENTALS: &[u8] = b"map/inc/";
/// The cluster's level, one byte, above the first one.
const LEVEL: &[u8] = b"level";

/// Who the store belongs to.
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
        Self { current: Arc::new(OsdMap::default()), full: Bytes::new(), incrementals: BTreeMap::new() }
    }

    /// What the store holds. The error text says what is wrong with it.
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
                Ok(Self { full: map.to_bytes(), current: Arc::new(map), incrementals })
            }
            Ok(map) => Ok(Self { current: Arc::new(map), full, incrementals }),
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
            self.full = map.to_bytes();
            self.incrementals.insert(next, of_its_own(bytes));
            while self.incrementals.len() > KEPT {
                self.incrementals.pop_first();
            }
            self.current = Arc::new(map);
            return Ok(Some(self.current.clone()));
        }
        let Some((epoch, bytes)) = message.full.last_key_value().filter(|(epoch, _)| **epoch >= next) else { return Ok(None) };
        let map = OsdMap::from_bytes(bytes).map_err(|e| format!("full map of epoch {epoch}: {e}"))?;
        self.full = of_its_own(bytes);
        self.incrementals.clear();
        self.current = Arc::new(map);
        Ok(Some(self.current.clone()))
    }

    /// What makes the store remember the newest map. `since` is the epoch that it remembers now.
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

    /// What brings a peer that has `epoch` to our map: the changes after it if we have them, else the full map. Sent in parts: the
    /// second value is the epoch that the peer has afterwards.
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
            let changes = self.incrementals.range(epoch + 1..).take(PER_MESSAGE);
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
    let meta = vec![MetaChange::Set(Bytes::from_static(SUPERBLOCK), superblock.to_bytes())];
    Transaction { scope: OSD_SCOPE, meta, ..Transaction::default() }
}
