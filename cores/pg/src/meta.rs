//! What the group writes about itself: its meta keys and their values.
//!
//! | key | value |
//! |---|---|
//! | `i` | [`Info`]: changes with every write |
//! | `h` | [`crate::history::History`]: changes rarely |
//! | `l` version (u64, big-endian) | [`crate::entry::LogEntry`] |
//! | `d` version of the first (u64, big-endian) | a page of [`crate::entry::Done`] records that left the log |
//! | `x` object, snapshot (u64, big-endian) | [`crate::missing::Lack`]: the object is missing here |
//! | `s` snapshot (u64, big-endian), object | empty: the object has a clone that serves the snapshot |
//! | `w` object | empty: the object has watchers |
//!
//! An object in a key: its hash with the bits reversed (u32, big-endian), then namespace, key and name, each with
//! its length in front.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

use crate::codec::{Parser, Writer};
use crate::stats::{self, Stats};
use bytes::Bytes;
use denc::{DecodeError, Result};
use types::{EVersion, HObject, PoolId, SnapId};

const LAYOUT: u64 = 1;

pub(crate) const INFO: &[u8] = b"i";
pub(crate) const HISTORY: &[u8] = b"h";

/// Prefixes of keys that come in numbers.
pub(crate) const LOG: u8 = b'l';
pub(crate) const DUPS: u8 = b'd';
pub(crate) const SNAPS: u8 = b's';
pub(crate) const WATCHED: u8 = b'w';
pub(crate) const MISSING: u8 = b'x';

/// Key of a log entry, or of a page of duplicates.
pub(crate) fn version_key(prefix: u8, version: u64) -> Bytes {
    let mut key = vec![prefix];
    key.extend_from_slice(&version.to_be_bytes());
    key.into()
}

/// First key after all keys with this prefix.
pub(crate) fn prefix_end(prefix: u8) -> Bytes {
    Bytes::copy_from_slice(&[prefix + 1])
}

pub(crate) fn put_object(key: &mut Writer, object: &HObject) {
    key.0.extend_from_slice(&object.reversed_hash().to_be_bytes());
    key.bytes(&object.nspace);
    key.bytes(&object.key);
    key.bytes(&object.name);
}

pub(crate) fn get_object(r: &mut Parser<'_>, pool: PoolId) -> Result<HObject> {
    let hash = u32::from_be_bytes(r.0.array()?).reverse_bits();
    let (nspace, key, name) = (r.shared()?, r.shared()?, r.shared()?);
    Ok(HObject { pool, hash, nspace, key, name, snap: SnapId::HEAD, max: false })
}

/// Returns true if both are head or clones of one object.
pub(crate) fn same_object(a: &HObject, b: &HObject) -> bool {
    a.hash == b.hash && a.name == b.name && a.key == b.key && a.nspace == b.nspace && a.pool == b.pool
}

/// Key in the snapshot index.
pub(crate) fn snap_key(snap: u64, object: &HObject) -> Bytes {
    let mut key = Writer(vec![SNAPS]);
    key.0.extend_from_slice(&snap.to_be_bytes());
    put_object(&mut key, object);
    key.finish()
}

/// First key of a snapshot in the index.
pub(crate) fn snap_start(snap: u64) -> Bytes {
    version_key(SNAPS, snap)
}

/// Snapshot and head of a key in the snapshot index.
pub(crate) fn parse_snap_key(key: &[u8], pool: PoolId) -> Result<(u64, HObject)> {
    let mut r = Parser::new(key);
    if r.0.u8()? != SNAPS {
        return Err(DecodeError::Invalid("key of the snapshot index"));
    }
    Ok((u64::from_be_bytes(r.0.array()?), get_object(&mut r, pool)?))
}

/// Key that marks an object as watched.
pub(crate) fn watched_key(object: &HObject) -> Bytes {
    let mut key = Writer(vec![WATCHED]);
    put_object(&mut key, object);
    key.finish()
}

/// Head of a key that marks an object as watched.
pub(crate) fn parse_watched_key(key: &[u8], pool: PoolId) -> Result<HObject> {
    let mut r = Parser::new(key);
    if r.0.u8()? != WATCHED {
        return Err(DecodeError::Invalid("key of a watched object"));
    }
    get_object(&mut r, pool)
}

/// Key that marks an object, head or clone, as missing on this copy.
pub(crate) fn missing_key(object: &HObject) -> Bytes {
    let mut key = Writer(vec![MISSING]);
    put_object(&mut key, object);
    key.0.extend_from_slice(&object.snap.0.to_be_bytes());
    key.finish()
}

/// Object of a key that marks it as missing.
pub(crate) fn parse_missing_key(key: &[u8], pool: PoolId) -> Result<HObject> {
    let mut r = Parser::new(key);
    if r.0.u8()? != MISSING {
        return Err(DecodeError::Invalid("key of a missing object"));
    }
    let head = get_object(&mut r, pool)?;
    let snap = SnapId(u64::from_be_bytes(r.0.array()?));
    r.0.finish()?;
    Ok(HObject { snap, ..head })
}

/// Record of the group that changes with every write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Info {
    /// Newest log entry.
    pub(crate) last_update: EVersion,
    /// Newest version that clients saw.
    pub(crate) user_version: u64,
    /// Everything up to here left the log.
    pub(crate) log_tail: EVersion,
    /// In a group of shards: up to here nothing is ever undone, so nothing of what was before is kept.
    pub(crate) stable: EVersion,
    /// Usage.
    pub(crate) stats: Stats,
}

/// Number by which the layout of an info is above that of its statistics, if it has [`Info::stable`].
const WITH_STABLE: u64 = 2;

pub(crate) fn put_version(w: &mut Writer, v: EVersion) {
    w.num(v.epoch.into());
    w.num(v.version);
}

pub(crate) fn get_version(r: &mut Parser<'_>) -> Result<EVersion> {
    Ok(EVersion { epoch: r.num32()?, version: r.num()? })
}

impl Info {
    pub(crate) fn encode(&self) -> Bytes {
        let mut w = Writer(Vec::with_capacity(64));
        let stable = self.stable != EVersion::default();
        w.num(self.stats.layout() + if stable { WITH_STABLE } else { 0 });
        put_version(&mut w, self.last_update);
        w.num(self.user_version);
        put_version(&mut w, self.log_tail);
        if stable {
            put_version(&mut w, self.stable);
        }
        self.stats.encode(&mut w);
        w.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Parser::new(bytes);
        let layout = r.num()?;
        let (last_update, user_version, log_tail) = (get_version(&mut r)?, r.num()?, get_version(&mut r)?);
        let with_stable = layout > WITH_STABLE;
        let stable = if with_stable { get_version(&mut r)? } else { EVersion::default() };
        let layout = stats::known_layout(if with_stable { layout - WITH_STABLE } else { layout })?;
        let info = Self { last_update, user_version, log_tail, stable, stats: Stats::decode(&mut r, layout)? };
        r.0.finish()?;
        Ok(info)
    }
}

/// Opens a record that has one layout, [`LAYOUT`].
pub(crate) fn layout<'a>(bytes: &'a [u8], what: &'static str) -> Result<Parser<'a>> {
    let mut r = Parser::new(bytes);
    if r.num()? != LAYOUT { Err(DecodeError::Invalid(what)) } else { Ok(r) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Locator;

    fn object() -> HObject {
        let mut at = Locator::pool(3);
        at.nspace = Bytes::from_static(b"ns");
        HObject::head(Bytes::from_static(b"name"), &at)
    }

    #[test]
    fn keys_come_back_and_snapshots_are_ranges() {
        assert_eq!(parse_snap_key(&snap_key(7, &object()), 3), Ok((7, object())));
        assert_eq!(parse_watched_key(&watched_key(&object()), 3), Ok(object()));
        let clone = object().at(SnapId(9));
        assert_eq!(parse_missing_key(&missing_key(&clone), 3), Ok(clone));
        assert!(snap_start(7) < snap_key(7, &object()) && snap_key(7, &object()) < snap_start(8));
        assert!(version_key(LOG, 255) < version_key(LOG, 256) && version_key(LOG, u64::MAX) < prefix_end(LOG));
    }

    #[test]
    fn info_comes_back() {
        let stats = Stats { bytes: 5 << 30, objects: 3, rd: -1, ..Stats::default() };
        let info = Info {
            last_update: EVersion::new(4, 9),
            user_version: 9,
            log_tail: EVersion::new(1, 2),
            stable: EVersion::default(),
            stats,
        };
        assert_eq!(Info::decode(&info.encode()), Ok(info.clone()));
        let stats = Stats { large_omaps: 2, ..stats };
        let large = Info { stats, ..info.clone() };
        assert_eq!((info.encode()[0], large.encode()[0]), (1, 2));
        assert_eq!(Info::decode(&large.encode()), Ok(large.clone()));
        for of_shards in [info, large].map(|info| Info { stable: EVersion::new(4, 7), ..info }) {
            let bytes = of_shards.encode();
            assert_eq!(u64::from(bytes[0]), of_shards.stats.layout() + 2);
            assert_eq!(Info::decode(&bytes), Ok(of_shards));
            assert!((0..bytes.len()).all(|n| Info::decode(&bytes[..n]).is_err()));
        }
        assert!(Info::decode(&[5, 0, 0, 0, 0, 0]).is_err() && Info::decode(&[0, 0, 0, 0, 0, 0]).is_err());
    }
}
