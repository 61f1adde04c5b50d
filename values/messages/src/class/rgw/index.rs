//! What the index of a bucket keeps: the entries of its omap and the omap's header.

use bytes::Bytes;
use denc::{Decode, DecodeError, Encode, Reader, Result, envelope};
use std::collections::BTreeMap;
use types::UTime;

/// Values of [`DirEntry::flags`].
pub mod flag {
    /// A version of a key in a bucket with versions.
    pub const VERSION: u16 = 1;
    /// The newest version of its key.
    pub const CURRENT: u16 = 2;
    /// A delete marker.
    pub const DELETE_MARKER: u16 = 4;
    /// No object: says at the plain key that its versions are elsewhere.
    pub const VERSION_MARKER: u16 = 8;
    /// No entry of the index: a common prefix in the answer to a listing.
    pub const COMMON_PREFIX: u16 = 0x8000;
}

/// Operations on a key: values of [`Pending::op`], [`LogEntry::op`] and of the inputs that name an operation.
pub mod modify {
    /// An object is written.
    pub const ADD: u8 = 0;
    /// An object is removed.
    pub const DEL: u8 = 1;
    /// The announced operation does not happen.
    pub const CANCEL: u8 = 2;
    /// None of these.
    pub const UNKNOWN: u8 = 3;
    /// A version becomes a key's newest.
    pub const LINK_OLH: u8 = 4;
    /// A delete marker becomes a key's newest version.
    pub const LINK_OLH_MARKER: u8 = 5;
    /// A version is removed.
    pub const UNLINK_INSTANCE: u8 = 6;
    /// The log ends here.
    pub const SYNC_STOP: u8 = 7;
    /// The log begins anew here.
    pub const RESYNC: u8 = 8;
}

/// Values of [`Pending::state`] and [`LogEntry::state`].
pub mod state {
    /// Announced.
    pub const PENDING: u8 = 0;
    /// Done.
    pub const COMPLETE: u8 = 1;
}

/// Values of [`OlhLogEntry::op`].
pub mod olh {
    /// None of these.
    pub const UNKNOWN: u8 = 0;
    /// The head leads to a version.
    pub const LINK: u8 = 1;
    /// The head leads nowhere: the key has no versions.
    pub const UNLINK: u8 = 2;
    /// A version's object is to be removed.
    pub const REMOVE_INSTANCE: u8 = 3;
}

/// Bit of [`LogEntry::flags`]: the operation was on a key with versions.
pub const LOG_VERSIONED: u16 = 1;

/// A number of which small ones take fewer bytes: one byte below 128, else 128 plus its width (1, 2, 4 or 8) and the
/// number. Ceph 16 writes 65,536 in two bytes, which reads as 0; here it takes four, which every reader understands.
fn put_packed(number: u64, out: &mut Vec<u8>) {
    match number {
        0..=0x7f => out.push(number.to_le_bytes()[0]),
        0x80..0x100 => out.extend_from_slice(&[0x81, number.to_le_bytes()[0]]),
        0x100..0x1_0000 => {
            out.push(0x82);
            out.extend_from_slice(&number.to_le_bytes()[..2]);
        }
        // The bound is Ceph's: it takes eight bytes as soon as three do not suffice.
        0x1_0000..=0x100_0000 => {
            out.push(0x84);
            out.extend_from_slice(&number.to_le_bytes()[..4]);
        }
        _ => {
            out.push(0x88);
            number.encode(out);
        }
    }
}

fn packed(r: &mut Reader<'_>) -> Result<u64> {
    match r.u8()? {
        small @ 0..=0x7f => Ok(small.into()),
        0x81 => r.u8().map(u64::from),
        0x82 => r.u16().map(u64::from),
        0x84 => r.u32().map(u64::from),
        0x88 => r.u64(),
        _ => Err(DecodeError::Invalid("width of a packed number")),
    }
}

/// A key of a bucket, and which of its versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjKey {
    /// Key.
    pub name: Bytes,
    /// Version; empty for the only one, and for the one that is called null.
    pub instance: Bytes,
}
denc::versioned!(ObjKey, 1, 1 { name, instance });

impl ObjKey {
    /// A key without a version.
    pub fn plain(name: impl Into<Bytes>) -> Self {
        Self { name: name.into(), instance: Bytes::new() }
    }
}

/// Write of the object that an entry tells of: the pool of the object, and the object's version in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryVer {
    /// Pool, or −1.
    pub pool: i64,
    /// Version.
    pub epoch: u64,
}

impl Default for EntryVer {
    fn default() -> Self {
        Self { pool: -1, epoch: 0 }
    }
}

impl Decode for EntryVer {
    const MIN_SIZE: usize = 8;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("EntryVer", 1)?;
        let pool = packed(&mut e.body)?.cast_signed();
        Ok(Self { pool, epoch: packed(&mut e.body)? })
    }
}

impl Encode for EntryVer {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 1, 1, |out| {
            put_packed(self.pool.cast_unsigned(), out);
            put_packed(self.epoch, out);
        });
    }
}

/// Record of an object in a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Kind of the object: 1 a common one, 3 the head of a multipart upload, 0 others.
    pub category: u8,
    /// Bytes as stored.
    pub size: u64,
    /// Last change.
    pub mtime: UTime,
    /// ETag.
    pub etag: Bytes,
    /// Owner's id.
    pub owner: Bytes,
    /// Owner's name.
    pub owner_name: Bytes,
    /// Content type.
    pub content_type: Bytes,
    /// Bytes as the client sent them.
    pub accounted_size: u64,
    /// Bytes that the gateway adds.
    pub user_data: Bytes,
    /// Storage class.
    pub storage_class: Bytes,
    /// True if it may be appended to; false before version 7.
    pub appendable: bool,
}

impl Decode for Meta {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("Meta", 7)?;
        e.at_least("Meta", 3)?;
        let (version, b) = (e.version, &mut e.body);
        let mut meta = Self {
            category: b.get()?,
            size: b.get()?,
            mtime: b.get()?,
            etag: b.get()?,
            owner: b.get()?,
            owner_name: b.get()?,
            content_type: b.get()?,
            ..Self::default()
        };
        meta.accounted_size = if version >= 4 { b.get()? } else { meta.size };
        if version >= 5 {
            meta.user_data = b.get()?;
        }
        if version >= 6 {
            meta.storage_class = b.get()?;
        }
        if version >= 7 {
            meta.appendable = b.get()?;
        }
        Ok(meta)
    }
}

impl Encode for Meta {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 7, 3, |out| {
            self.category.encode(out);
            self.size.encode(out);
            self.mtime.encode(out);
            self.etag.encode(out);
            self.owner.encode(out);
            self.owner_name.encode(out);
            self.content_type.encode(out);
            self.accounted_size.encode(out);
            self.user_data.encode(out);
            self.storage_class.encode(out);
            self.appendable.encode(out);
        });
    }
}

/// An operation that a gateway announced and has not finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// One of [`state`].
    pub state: u8,
    /// Time when it was announced.
    pub time: UTime,
    /// One of [`modify`].
    pub op: u8,
}
denc::versioned!(Pending, 2, 2 { state, time, op });

/// The operations that are under way on a key, by their tags. A tag may be there more than once; what was announced
/// first stands first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingMap(Vec<(Bytes, Pending)>);

impl PendingMap {
    /// Announces an operation.
    pub fn insert(&mut self, tag: Bytes, pending: Pending) {
        let at = self.0.partition_point(|(other, _)| *other <= tag);
        self.0.insert(at, (tag, pending));
    }

    /// Takes the first operation with this tag out; false if there is none.
    pub fn remove(&mut self, tag: &[u8]) -> bool {
        let at = self.0.partition_point(|(other, _)| &other[..] < tag);
        let found = self.0.get(at).is_some_and(|(other, _)| &other[..] == tag);
        if found {
            self.0.remove(at);
        }
        found
    }

    /// Keeps only operations for which `wanted` holds.
    pub fn retain(&mut self, wanted: impl Fn(&Pending) -> bool) {
        self.0.retain(|(_, pending)| wanted(pending));
    }

    /// Returns true if nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Decode for PendingMap {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut pairs: Vec<(Bytes, Pending)> = r.get()?;
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Self(pairs))
    }
}

impl Encode for PendingMap {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}

/// An entry of the index: an object, a version of one, or a mark that a key has versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirEntry {
    /// Key and version.
    pub key: ObjKey,
    /// Write of the object that it tells of.
    pub ver: EntryVer,
    /// Locator of the object, if not its name.
    pub locator: Bytes,
    /// True if the object exists, as far as the index knows.
    pub exists: bool,
    /// Record in a listing.
    pub meta: Meta,
    /// Operations under way.
    pub pending: PendingMap,
    /// Version of the index when the entry was last changed.
    pub index_ver: u64,
    /// Tag of the operation that wrote it.
    pub tag: Bytes,
    /// Union of [`flag`].
    pub flags: u16,
    /// Place among the versions of its key: later ones have more; 0 for what is no version.
    pub versioned_epoch: u64,
}

impl DirEntry {
    /// Returns true if it has any of these flags.
    pub fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }

    /// Returns true if a listing without versions shows it: the current version of its key, and no delete marker.
    pub fn visible(&self) -> bool {
        (!self.has(flag::VERSION) || self.has(flag::CURRENT)) && !self.has(flag::DELETE_MARKER)
    }
}

impl Decode for DirEntry {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("DirEntry", 8)?;
        e.at_least("DirEntry", 3)?;
        let (version, b) = (e.version, &mut e.body);
        let mut entry = Self { key: ObjKey::plain(b.get::<Bytes>()?), ..Self::default() };
        entry.ver.epoch = b.get()?;
        entry.exists = b.get()?;
        entry.meta = b.get()?;
        entry.pending = b.get()?;
        entry.locator = b.get()?;
        if version >= 4 {
            entry.ver = b.get()?;
        }
        if version >= 5 {
            entry.index_ver = packed(b)?;
            entry.tag = b.get()?;
        }
        if version >= 6 {
            entry.key.instance = b.get()?;
        }
        if version >= 7 {
            entry.flags = b.get()?;
        }
        if version >= 8 {
            entry.versioned_epoch = b.get()?;
        }
        Ok(entry)
    }
}

impl Encode for DirEntry {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 8, 3, |out| {
            self.key.name.encode(out);
            self.ver.epoch.encode(out);
            self.exists.encode(out);
            self.meta.encode(out);
            self.pending.encode(out);
            self.locator.encode(out);
            self.ver.encode(out);
            put_packed(self.index_ver, out);
            self.tag.encode(out);
            self.key.instance.encode(out);
            self.flags.encode(out);
            self.versioned_epoch.encode(out);
        });
    }
}

/// Step that the head of a key with versions is to be made to take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OlhLogEntry {
    /// Time, as a place among the key's versions.
    pub epoch: u64,
    /// One of [`olh`].
    pub op: u8,
    /// Tag of the operation that wants it.
    pub op_tag: Bytes,
    /// The version.
    pub key: ObjKey,
    /// True if that is a delete marker.
    pub delete_marker: bool,
}
denc::versioned!(OlhLogEntry, 1, 1 { epoch, op, op_tag, key, delete_marker });

/// Steps that a head must still take, by epochs.
pub type OlhLog = BTreeMap<u64, Vec<OlhLogEntry>>;

/// The head of a key with versions: which one is the newest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OlhEntry {
    /// Newest version; without an instance if there is none.
    pub key: ObjKey,
    /// True if that is a delete marker.
    pub delete_marker: bool,
    /// Place of the last change among the key's versions.
    pub epoch: u64,
    /// Steps that the head object must still take.
    pub log: OlhLog,
    /// Tag of the head object.
    pub tag: Bytes,
    /// True if the key has a version.
    pub exists: bool,
    /// True if the head object is to be removed.
    pub pending_removal: bool,
}
denc::versioned!(OlhEntry, 1, 1 { key, delete_marker, epoch, log, tag, exists, pending_removal });

/// Zones through which a change came; each may name a place behind a colon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneSet(Vec<Bytes>);

/// A zone as it is sorted: by its name, then by its place.
fn zone_order(zone: &[u8]) -> (&[u8], Option<&[u8]>) {
    match zone.iter().position(|byte| *byte == b':') {
        Some(colon) => (&zone[..colon], Some(&zone[colon + 1..])),
        None => (zone, None),
    }
}

impl Decode for ZoneSet {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut zones: Vec<Bytes> = r.get()?;
        zones.sort_by(|a, b| zone_order(a).cmp(&zone_order(b)));
        zones.dedup();
        Ok(Self(zones))
    }
}

impl Encode for ZoneSet {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}

/// An entry of the log of changes, for gateways of other zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Its id: where it is in the log.
    pub id: Bytes,
    /// Key and version.
    pub key: ObjKey,
    /// Time.
    pub time: UTime,
    /// Write of the object.
    pub ver: EntryVer,
    /// One of [`modify`].
    pub op: u8,
    /// One of [`state`].
    pub state: u8,
    /// Version of the index.
    pub index_ver: u64,
    /// Tag of the operation.
    pub tag: Bytes,
    /// Union of [`LOG_VERSIONED`] and what the client gave.
    pub flags: u16,
    /// Owner's id; of delete markers only.
    pub owner: Bytes,
    /// Owner's name; of delete markers only.
    pub owner_name: Bytes,
    /// Zones that have it.
    pub zones: ZoneSet,
}

impl Default for LogEntry {
    fn default() -> Self {
        Self {
            id: Bytes::new(),
            key: ObjKey::default(),
            time: UTime::ZERO,
            ver: EntryVer::default(),
            op: modify::UNKNOWN,
            state: state::PENDING,
            index_ver: 0,
            tag: Bytes::new(),
            flags: 0,
            owner: Bytes::new(),
            owner_name: Bytes::new(),
            zones: ZoneSet::default(),
        }
    }
}

impl Decode for LogEntry {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("LogEntry", 4)?;
        let (version, b) = (e.version, &mut e.body);
        let mut entry = Self { id: b.get()?, ..Self::default() };
        entry.key.name = b.get()?;
        entry.time = b.get()?;
        entry.ver = b.get()?;
        entry.tag = b.get()?;
        entry.op = b.get()?;
        entry.state = b.get()?;
        entry.index_ver = packed(b)?;
        if version >= 2 {
            entry.key.instance = b.get()?;
            entry.flags = b.get()?;
        }
        if version >= 3 {
            entry.owner = b.get()?;
            entry.owner_name = b.get()?;
        }
        if version >= 4 {
            entry.zones = b.get()?;
        }
        Ok(entry)
    }
}

impl Encode for LogEntry {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 4, 1, |out| {
            self.id.encode(out);
            self.key.name.encode(out);
            self.time.encode(out);
            self.ver.encode(out);
            self.tag.encode(out);
            self.op.encode(out);
            self.state.encode(out);
            put_packed(self.index_ver, out);
            self.key.instance.encode(out);
            self.flags.encode(out);
            self.owner.encode(out);
            self.owner_name.encode(out);
            self.zones.encode(out);
        });
    }
}

/// Sums over the objects of one category. They wrap around: an object may be taken out that was never counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes as clients sent them.
    pub bytes: u64,
    /// The same, each object rounded up to 4 KiB.
    pub bytes_rounded: u64,
    /// Objects.
    pub entries: u64,
    /// Bytes as stored.
    pub stored: u64,
}

impl Stats {
    /// Returns what one object adds.
    pub fn of(meta: &Meta) -> Self {
        let bytes = meta.accounted_size;
        Self { bytes, bytes_rounded: bytes.wrapping_add(4095) & !4095, entries: 1, stored: meta.size }
    }

    /// With others.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.wrapping_add(other.bytes),
            bytes_rounded: self.bytes_rounded.wrapping_add(other.bytes_rounded),
            entries: self.entries.wrapping_add(other.entries),
            stored: self.stored.wrapping_add(other.stored),
        }
    }

    /// Without others.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.wrapping_sub(other.bytes),
            bytes_rounded: self.bytes_rounded.wrapping_sub(other.bytes_rounded),
            entries: self.entries.wrapping_sub(other.entries),
            stored: self.stored.wrapping_sub(other.stored),
        }
    }
}

impl Decode for Stats {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("Stats", 3)?;
        e.at_least("Stats", 2)?;
        let (bytes, bytes_rounded, entries) = (e.body.get()?, e.body.get()?, e.body.get()?);
        let stored = if e.version >= 3 { e.body.get()? } else { bytes };
        Ok(Self { bytes, bytes_rounded, entries, stored })
    }
}

impl Encode for Stats {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 3, 2, |out| {
            self.bytes.encode(out);
            self.bytes_rounded.encode(out);
            self.entries.encode(out);
            self.stored.encode(out);
        });
    }
}

/// State of a move of the index to other shards, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resharding {
    /// 0 no; 1 entries are being copied; 2 done; newer gateways have more.
    pub status: u8,
    /// Id of the new index; empty from newer gateways.
    pub new_instance: Bytes,
    /// Shards of the new index; −1 if it is not known.
    pub shards: i32,
}

impl Default for Resharding {
    fn default() -> Self {
        Self { status: 0, new_instance: Bytes::new(), shards: -1 }
    }
}

impl Decode for Resharding {
    const MIN_SIZE: usize = 7;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("Resharding", 3)?;
        let mut value = Self { status: e.body.get()?, ..Self::default() };
        // Version 2 left the rest away; version 3 has it again, empty.
        if e.version != 2 {
            value.new_instance = e.body.get()?;
            value.shards = e.body.get()?;
        }
        Ok(value)
    }
}

impl Encode for Resharding {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 1, 1, |out| {
            self.status.encode(out);
            self.new_instance.encode(out);
            self.shards.encode(out);
        });
    }
}

/// The header of the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirHeader {
    /// Sums, by category.
    pub stats: BTreeMap<u8, Stats>,
    /// Seconds after which an announced operation counts as lost; 0 for the usual number.
    pub tag_timeout: u64,
    /// Version: changes of the header so far.
    pub ver: u64,
    /// Version that the first zone has; unused.
    pub master_ver: u64,
    /// Largest id in the log.
    pub max_marker: Bytes,
    /// True if the index is being moved.
    pub resharding: Resharding,
    /// True if the log is stopped.
    pub sync_stopped: bool,
}

impl Decode for DirHeader {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("DirHeader", 7)?;
        e.at_least("DirHeader", 2)?;
        let (version, b) = (e.version, &mut e.body);
        let mut header = Self { stats: b.get()?, ..Self::default() };
        if version >= 3 {
            header.tag_timeout = b.get()?;
        }
        if version >= 4 {
            header.ver = b.get()?;
            header.master_ver = b.get()?;
        }
        if version >= 5 {
            header.max_marker = b.get()?;
        }
        if version >= 6 {
            header.resharding = b.get()?;
        }
        if version >= 7 {
            header.sync_stopped = b.get()?;
        }
        Ok(header)
    }
}

impl Encode for DirHeader {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 7, 2, |out| {
            self.stats.encode(out);
            self.tag_timeout.encode(out);
            self.ver.encode(out);
            self.master_ver.encode(out);
            self.max_marker.encode(out);
            self.resharding.encode(out);
            self.sync_stopped.encode(out);
        });
    }
}

/// A part of the index: its header and some of its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dir {
    /// Header.
    pub header: DirHeader,
    /// Entries by their keys in the omap.
    pub entries: BTreeMap<Bytes, DirEntry>,
}
denc::versioned!(Dir, 2, 2 { header, entries });

/// An entry of the omap as it is, for tools and for resharding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawEntry {
    /// The section: 1 plain, 2 a version, 3 a head; 0 none.
    pub kind: u8,
    /// Key in the omap.
    pub key: Bytes,
    /// Value.
    pub value: Bytes,
}
denc::versioned!(RawEntry, 1, 1 { kind, key, value });

/// Values of [`RawEntry::kind`].
pub mod section {
    /// Keys of objects as they are listed.
    pub const PLAIN: u8 = 1;
    /// Versions.
    pub const INSTANCE: u8 = 2;
    /// Heads.
    pub const OLH: u8 = 3;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_number_comes_back_and_one_that_ceph_wrote_short_reads_as_it_does_there() {
        let edges = [0, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x1_0000, 0x1_0001, 0x100_0000, 0x100_0001, u64::MAX];
        for number in edges {
            let mut out = Vec::new();
            put_packed(number, &mut out);
            let mut r = Reader::new(&out);
            assert_eq!(packed(&mut r), Ok(number));
            assert!(r.is_empty());
        }
        assert_eq!(packed(&mut Reader::new(&[0x82, 0, 0])), Ok(0));
        assert!(packed(&mut Reader::new(&[0x83, 0, 0, 0])).is_err());
    }

    #[test]
    fn of_two_operations_with_one_tag_the_first_is_taken_out() {
        let at = |sec| Pending { time: UTime { sec, nsec: 0 }, ..Pending::default() };
        let mut map = PendingMap::default();
        for (tag, sec) in [("b", 1), ("a", 2), ("b", 3)] {
            map.insert(tag.into(), at(sec));
        }
        assert_eq!(PendingMap::from_bytes(&map.to_vec()), Ok(map.clone()));
        assert!(map.remove(b"b") && !map.remove(b"c"));
        assert_eq!(map.0, [("a".into(), at(2)), ("b".into(), at(3))]);
        map.retain(|pending| pending.time.sec > 3);
        assert!(map.is_empty());
    }

    #[test]
    fn zones_are_a_set_in_which_a_place_follows_its_zone() {
        let zones: Vec<Bytes> = ["b", "a:x", "a!", "a", "b"].into_iter().map(Bytes::from).collect();
        let set = ZoneSet::from_bytes(&zones.to_vec()).expect("zones");
        assert_eq!(set.0, ["a", "a:x", "a!", "b"]);
    }
}
