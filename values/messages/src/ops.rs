//! What single operations carry in their input and output.

use bytes::Bytes;
use denc::{Decode, DecodeError, Encode, Reader, Result};
use std::collections::BTreeMap;
use types::{EntityAddr, HObject, Locator, Rope, SnapId, UTime};

use crate::frame::EntityNum;

/// Output of STAT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Bytes.
    pub size: u64,
    /// Modification time.
    pub mtime: UTime,
}
denc::plain!(Stat { size, mtime });

/// Attributes, or omap keys and values: output of GETXATTRS and OMAPGETVALSBYKEYS, input of OMAPSETVALS.
pub type Pairs = BTreeMap<Bytes, Bytes>;

/// Output of MAPEXT: written extents, length by offset.
pub type Extents = BTreeMap<u64, u64>;

/// Output of SPARSE_READ: a map of extents (offset, length), then a length and the data of all of them in order.
pub fn sparse_read(extents: &[(u64, u64)], data: Rope) -> Rope {
    let mut head = Vec::with_capacity(8 + 16 * extents.len());
    denc::put_count(&mut head, extents.len());
    for extent in extents {
        extent.encode(&mut head);
    }
    denc::put_count(&mut head, data.len());
    let mut out = Rope::from(head);
    out.append(data);
    out
}

/// Takes the output of SPARSE_READ apart.
///
/// # Errors
/// The bytes are not such an output, or the extents and the data differ in length.
pub fn parse_sparse_read(output: &Bytes) -> Result<(Vec<(u64, u64)>, Bytes)> {
    let mut r = Reader::new(output);
    let extents: Vec<(u64, u64)> = r.get()?;
    let data = r.blob()?;
    r.finish()?;
    let total = extents.iter().try_fold(0u64, |sum, (_, len)| sum.checked_add(*len));
    if total != Some(data.len() as u64) {
        return Err(DecodeError::Invalid("length of sparse data"));
    }
    Ok((extents, output.slice_ref(data)))
}

/// Input of OMAPGETKEYS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OmapGetKeys {
    /// Only keys behind this one.
    pub start_after: Bytes,
    /// Most keys wanted.
    pub max: u64,
}
denc::plain!(OmapGetKeys { start_after, max });

/// Output of OMAPGETKEYS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OmapKeys {
    /// Keys in order.
    pub keys: Vec<Bytes>,
    /// True if there are more.
    pub more: bool,
}
denc::plain!(OmapKeys { keys, more });

/// Input of OMAPGETVALS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OmapGetVals {
    /// Only keys behind this one.
    pub start_after: Bytes,
    /// Most pairs wanted.
    pub max: u64,
    /// Only keys that begin so.
    pub prefix: Bytes,
}
denc::plain!(OmapGetVals { start_after, max, prefix });

/// Output of OMAPGETVALS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OmapVals {
    /// Pairs in key order.
    pub pairs: Pairs,
    /// True if there are more.
    pub more: bool,
}
denc::plain!(OmapVals { pairs, more });

/// Input of OMAPGETVALSBYKEYS and OMAPRMKEYS: keys, sorted by most clients but not by all.
pub type Keys = Vec<Bytes>;

/// Input of OMAPRMKEYRANGE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OmapRange {
    /// First key removed.
    pub first: Bytes,
    /// First key kept again.
    pub end: Bytes,
}
denc::plain!(OmapRange { first, end });

/// Input of OMAP_CMP: by key, the value to compare with and how ([`crate::code::cmp_op`]).
pub type OmapAssertions = BTreeMap<Bytes, (Bytes, i32)>;

/// Input of NOTIFY.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notify {
    /// 1. Older librados wrote 0 or other numbers; nobody reads it.
    pub version: u32,
    /// Seconds to wait for acknowledgements; 0 for the default.
    pub timeout: u32,
    /// For the watchers.
    pub payload: Bytes,
}
denc::plain!(Notify { version, timeout, payload });

/// Input of NOTIFY_ACK.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotifyAck {
    /// Number of the notify.
    pub notify_id: u64,
    /// The watcher's cookie.
    pub cookie: u64,
    /// For the notifier.
    pub reply: Bytes,
}

impl Encode for NotifyAck {
    fn encode(&self, out: &mut Vec<u8>) {
        self.notify_id.encode(out);
        self.cookie.encode(out);
        self.reply.encode(out);
    }
}

impl Decode for NotifyAck {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let (notify_id, cookie) = (r.get()?, r.get()?);
        // The reply is left out by clients that have none.
        let reply = if r.is_empty() { Bytes::new() } else { r.get()? };
        Ok(Self { notify_id, cookie, reply })
    }
}

/// A watcher: global id and cookie.
pub type Watcher = (u64, u64);

/// Data of the event that ends a notify. A watcher may answer more than once, so this is not a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotifyReplies {
    /// Answers, ordered by watcher.
    pub replies: Vec<(Watcher, Bytes)>,
    /// Watchers that did not answer.
    pub timed_out: Vec<Watcher>,
}
denc::plain!(NotifyReplies { replies, timed_out });

/// One watcher in the output of LIST_WATCHERS (`watch_item_t`, v2/c1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchItem {
    /// The name.
    pub name: EntityNum,
    /// Its cookie.
    pub cookie: u64,
    /// Seconds.
    pub timeout: u32,
    /// Its address.
    pub addr: EntityAddr,
}
denc::versioned!(WatchItem, 2, 1 { name, cookie, timeout, addr });

/// Output of LIST_WATCHERS (`obj_list_watch_response_t`, v1/c1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchList {
    /// The watchers.
    pub entries: Vec<WatchItem>,
}
denc::versioned!(WatchList, 1, 1 { entries });

/// One clone in the output of LIST_SNAPS (`clone_info`, v1/c1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloneInfo {
    /// The clone, or [`SnapId::HEAD`] for the object itself.
    pub cloneid: SnapId,
    /// Snapshots that see it, ascending.
    pub snaps: Vec<u64>,
    /// Ranges that it shares with the next newer one: offset and length.
    pub overlap: Vec<(u64, u64)>,
    /// Bytes.
    pub size: u64,
}
denc::versioned!(CloneInfo, 1, 1 { cloneid, snaps, overlap, size });

/// Output of LIST_SNAPS (`obj_list_snap_response_t`, v2/c1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapList {
    /// Clones ascending, the head last.
    pub clones: Vec<CloneInfo>,
    /// The object's snapshot sequence number.
    pub seq: u64,
}
denc::versioned!(SnapList, 2, 1 { clones, seq });

/// One object in a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListEntry {
    /// Namespace.
    pub nspace: Bytes,
    /// Name.
    pub name: Bytes,
    /// Locator key.
    pub key: Bytes,
}

impl Decode for ListEntry {
    const MIN_SIZE: usize = 12;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { nspace: r.get()?, name: r.get()?, key: r.get()? })
    }
}

impl Encode for ListEntry {
    fn encode(&self, out: &mut Vec<u8>) {
        self.nspace.encode(out);
        self.name.encode(out);
        self.key.encode(out);
    }
}

/// Output of PGNLS (`pg_nls_response_t`, v1/c1). The input is a lone [`HObject`], the cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// Place to go on.
    pub next: HObject,
    /// Objects.
    pub entries: Vec<ListEntry>,
}
denc::versioned!(ListPage, 1, 1 { next, entries });

/// Output of PGLS (`pg_ls_response_t`): the listing without namespaces. Entries are name and locator key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OldListPage {
    /// Place to go on.
    pub next: HObject,
    /// Name and key.
    pub entries: Vec<(Bytes, Bytes)>,
}

impl Encode for OldListPage {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(1);
        self.next.encode(out);
        self.entries.encode(out);
    }
}

impl Decode for OldListPage {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        if r.u8()? != 1 {
            return Err(DecodeError::Invalid("pg_ls_response_t version"));
        }
        Ok(Self { next: r.get()?, entries: r.get()? })
    }
}

/// Input of PGLS_FILTER and PGNLS_FILTER: what to compare, then the cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// `plain`, or a class, a point and the name of its filter. Ceph's classes bring others than the one that there is;
    /// what they would have in place of attribute and value is not known here.
    pub kind: Bytes,
    /// Attribute, with the `_` that user attributes are stored under.
    pub xattr: Bytes,
    /// Value that it must have.
    pub value: Bytes,
    /// The cursor.
    pub cursor: HObject,
}

impl Encode for ListFilter {
    fn encode(&self, out: &mut Vec<u8>) {
        "pg".encode(out);
        "filter".encode(out);
        self.kind.encode(out);
        self.xattr.encode(out);
        self.value.encode(out);
        self.cursor.encode(out);
    }
}

impl Decode for ListFilter {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        // Two names that once chose a class method; both are ignored by every OSD.
        r.blob()?;
        r.blob()?;
        let kind: Bytes = r.get()?;
        if kind != "plain" && !kind.contains(&b'.') {
            return Err(DecodeError::Invalid("kind of list filter"));
        }
        Ok(Self { kind, xattr: r.get()?, value: r.get()?, cursor: r.get()? })
    }
}

/// Input of COPY_FROM: name and place of the source. COPY_FROM2 appends a truncation point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopySource {
    /// Name.
    pub name: Bytes,
    /// Pool, namespace and key.
    pub locator: Locator,
    /// COPY_FROM2: number and size of the truncation that the copy takes on.
    pub truncate: Option<(u32, u64)>,
}

impl Encode for CopySource {
    fn encode(&self, out: &mut Vec<u8>) {
        self.name.encode(out);
        self.locator.encode(out);
        if let Some((seq, size)) = self.truncate {
            seq.encode(out);
            size.encode(out);
        }
    }
}

impl Decode for CopySource {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let (name, locator) = (r.get()?, r.get()?);
        let truncate = if r.is_empty() { None } else { Some((r.get()?, r.get()?)) };
        Ok(Self { name, locator, truncate })
    }
}

/// Snapshots that a writer knows of (`SnapContext`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapContext {
    /// Newest.
    pub seq: u64,
    /// Existing ones, newest first.
    pub snaps: Vec<u64>,
}
denc::plain!(SnapContext { seq, snaps });

impl SnapContext {
    /// Returns true if the snapshots descend and none is newer than the sequence number.
    pub fn is_valid(&self) -> bool {
        self.snaps.first().is_none_or(|newest| *newest <= self.seq && *newest != 0)
            && self.snaps.windows(2).all(|pair| pair[0] > pair[1] && pair[1] != 0)
    }
}

/// Output of CHECKSUM with 4-byte values (CRC32C, xxHash32): a count and the values.
pub type Checksums32 = Vec<u32>;
/// Output of CHECKSUM with 8-byte values (xxHash64).
pub type Checksums64 = Vec<u64>;

/// Input of SCRUBLS (`scrub_ls_arg_t`, v1/c1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubList {
    /// The group's interval as known by the client, 0 at first.
    pub interval: u32,
    /// 1: inconsistent snapshot sets instead of objects.
    pub snapsets: u32,
    /// Only objects behind this one.
    pub start_after: ScrubObject,
    /// Most entries wanted.
    pub max: u64,
}
denc::versioned!(ScrubList, 1, 1 { interval, snapsets, start_after, max });

/// The object where a listing of findings goes on; placement keys do not take part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubObject {
    /// Name.
    pub name: Bytes,
    /// Namespace.
    pub nspace: Bytes,
    /// Snapshot.
    pub snap: SnapId,
}
denc::plain!(ScrubObject { name, nspace, snap });

/// Output of SCRUBLS (`scrub_ls_result_t`, v1/c1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubPage {
    /// The group's interval.
    pub interval: u32,
    /// Encoded findings.
    pub values: Vec<Bytes>,
}
denc::versioned!(ScrubPage, 1, 1 { interval, values });
