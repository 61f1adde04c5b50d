//! Class `fifo`: a log that is spread over objects. One object, the meta object, says which parts there are; parts have
//! a header and entries one behind the other. Gateways before 16.2.6 named each part by a tag; tags are read and
//! forgotten, and written empty, as later releases do.

use super::{optional, put_optional};
use bytes::Bytes;
use denc::{Decode, Encode, Reader, Result, envelope};
use types::UTime;

/// Version of a meta object (`objv`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// Chosen when the count starts.
    pub instance: Bytes,
    /// Counts changes.
    pub number: u64,
}
denc::versioned!(Version, 1, 1 { instance, number });

/// Sizes of parts (`data_params`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Params {
    /// Most bytes of a part.
    pub part_size: u64,
    /// Most bytes of an entry.
    pub entry_size: u64,
    /// A part that is larger is full.
    pub full_size: u64,
}
denc::versioned!(Params, 1, 1 { part_size, entry_size, full_size });

/// Values of [`Step::op`].
#[allow(missing_docs)]
pub mod step {
    pub const CREATE: i32 = 1;
    pub const SET_HEAD: i32 = 2;
    pub const REMOVE: i32 = 3;
}

/// Something that a gateway began to do with a part (`journal_entry`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// Kind of the step: one of [`step`].
    pub op: i32,
    /// Number of the part.
    pub part: i64,
}

impl Step {
    /// Returns true if it is one that may be stored.
    pub fn is_valid(&self) -> bool {
        (step::CREATE..=step::REMOVE).contains(&self.op) && self.part >= 0
    }
}

impl Decode for Step {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("Step", 1)?;
        let entry = Self { op: e.body.get()?, part: e.body.get()? };
        e.body.blob()?;
        Ok(entry)
    }
}

impl Encode for Step {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 1, 1, |out| {
            self.op.encode(out);
            self.part.encode(out);
            "".encode(out);
        });
    }
}

/// A meta object's content (`info`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// The log's name.
    pub id: Bytes,
    /// Version of this state.
    pub version: Version,
    /// Beginning of names of parts.
    pub prefix: Bytes,
    /// Sizes.
    pub params: Params,
    /// First part.
    pub tail: i64,
    /// Part that is appended to; -1 if there is none yet.
    pub head: i64,
    /// First part that may be appended to.
    pub min_push: i64,
    /// Last part that was made; -1 if none was.
    pub max_push: i64,
    /// Steps under way, in order.
    pub journal: Vec<Step>,
}

impl Default for Info {
    fn default() -> Self {
        let (id, version, prefix, params) = Default::default();
        Self { id, version, prefix, params, tail: 0, head: -1, min_push: 0, max_push: -1, journal: Vec::new() }
    }
}

impl Decode for Info {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("Info", 1)?;
        let b = &mut e.body;
        let (id, version, prefix, params) = (b.get()?, b.get()?, b.get()?, b.get()?);
        let (tail, head, min_push, max_push) = (b.get()?, b.get()?, b.get()?, b.get()?);
        let _tags: Vec<(i64, Bytes)> = b.get()?;
        b.blob()?;
        let journal: Vec<(i64, Step)> = b.get()?;
        let journal = journal.into_iter().map(|(_, entry)| entry).collect();
        Ok(Self { id, version, prefix, params, tail, head, min_push, max_push, journal })
    }
}

impl Encode for Info {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 1, 1, |out| {
            self.id.encode(out);
            self.version.encode(out);
            self.prefix.encode(out);
            self.params.encode(out);
            for number in [self.tail, self.head, self.min_push, self.max_push] {
                number.encode(out);
            }
            // No tags, and no tag of the head.
            0u64.encode(out);
            let journal: Vec<(i64, Step)> = self.journal.iter().map(|entry| (entry.part, *entry)).collect();
            journal.encode(out);
        });
    }
}

/// Header of a part (`part_header`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartHeader {
    /// Sizes.
    pub params: Params,
    /// A number by which entries are known.
    pub magic: u64,
    /// Offset of the first entry that was not trimmed.
    pub min_offset: u64,
    /// Offset of the last entry.
    pub last_offset: u64,
    /// Place where the next entry goes.
    pub next_offset: u64,
    /// Number of the first entry that was not trimmed.
    pub min_index: u64,
    /// Number of the next entry.
    pub max_index: u64,
    /// Time when something was last appended.
    pub max_time: UTime,
}

impl PartHeader {
    /// Returns true if nothing may be appended any more.
    pub fn is_full(&self) -> bool {
        self.next_offset > self.params.full_size
    }
}

impl Decode for PartHeader {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("PartHeader", 1)?;
        let b = &mut e.body;
        b.blob()?;
        let (params, magic, min_offset, last_offset) = (b.get()?, b.get()?, b.get()?, b.get()?);
        let (next_offset, min_index, max_index, max_time) = (b.get()?, b.get()?, b.get()?, b.get()?);
        Ok(Self { params, magic, min_offset, last_offset, next_offset, min_index, max_index, max_time })
    }
}

impl Encode for PartHeader {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 1, 1, |out| {
            "".encode(out);
            self.params.encode(out);
            let offsets = [self.magic, self.min_offset, self.last_offset, self.next_offset];
            offsets.into_iter().chain([self.min_index, self.max_index]).for_each(|number| number.encode(out));
            self.max_time.encode(out);
        });
    }
}

/// Numbers before each entry's header in a part: without an envelope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryPrefix {
    /// The part's number of this name.
    pub magic: u64,
    /// Bytes of this structure: 44.
    pub size: u64,
    /// Bytes of the entry's header.
    pub header_size: u64,
    /// Bytes of the entry.
    pub data_size: u64,
    /// The entry's number.
    pub index: u64,
    /// 0.
    pub reserved: u32,
}
denc::plain!(EntryPrefix { magic, size, header_size, data_size, index, reserved });

/// An entry's header (`entry_header`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryHeader {
    /// Time when it was appended.
    pub time: UTime,
}
denc::versioned!(EntryHeader, 1, 1 { time });

/// Input of `create_meta`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateMeta {
    /// The log's name.
    pub id: Bytes,
    /// First state; made, if there is none.
    pub version: Option<Version>,
    /// Pool of the parts; of no use here.
    pub pool: Bytes,
    /// Namespace of the parts; of no use here.
    pub namespace: Bytes,
    /// Beginning of names of parts; made, if there is none.
    pub prefix: Option<Bytes>,
    /// Most bytes of a part.
    pub part_size: u64,
    /// Most bytes of an entry.
    pub entry_size: u64,
    /// True if the object must not exist.
    pub exclusive: bool,
}

impl Decode for CreateMeta {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("CreateMeta", 1)?;
        let b = &mut e.body;
        let (id, version, pool, namespace, prefix) = (b.get()?, optional(b)?, b.get()?, b.get()?, optional(b)?);
        let (part_size, entry_size, exclusive) = (b.get()?, b.get()?, b.get()?);
        Ok(Self { id, version, pool, namespace, prefix, part_size, entry_size, exclusive })
    }
}

impl Encode for CreateMeta {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 1, 1, |out| {
            self.id.encode(out);
            put_optional(self.version.as_ref(), out);
            self.pool.encode(out);
            self.namespace.encode(out);
            put_optional(self.prefix.as_ref(), out);
            self.part_size.encode(out);
            self.entry_size.encode(out);
            self.exclusive.encode(out);
        });
    }
}

/// Input of `get_meta`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetMeta {
    /// Version that is expected, if any.
    pub version: Option<Version>,
}

impl Decode for GetMeta {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("GetMeta", 1)?;
        Ok(Self { version: optional(&mut e.body)? })
    }
}

impl Encode for GetMeta {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 1, 1, |out| put_optional(self.version.as_ref(), out));
    }
}

/// Output of `get_meta`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetMetaReply {
    /// The meta object.
    pub info: Info,
    /// Bytes before the first entry of a part.
    pub header_size: u32,
    /// Bytes that an entry takes besides its data.
    pub overhead: u32,
}
denc::versioned!(GetMetaReply, 1, 1 { info, header_size, overhead });

/// Input of `update_meta`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateMeta {
    /// Version that is expected.
    pub version: Version,
    /// First part.
    pub tail: Option<i64>,
    /// Part that is appended to.
    pub head: Option<i64>,
    /// First part that may be appended to.
    pub min_push: Option<i64>,
    /// Last part that was made.
    pub max_push: Option<i64>,
    /// Steps that begin.
    pub add: Vec<Step>,
    /// Steps that are done.
    pub remove: Vec<Step>,
}

impl Decode for UpdateMeta {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("UpdateMeta", 1)?;
        let b = &mut e.body;
        let version = b.get()?;
        let (tail, head, min_push, max_push) = (optional(b)?, optional(b)?, optional(b)?, optional(b)?);
        Ok(Self { version, tail, head, min_push, max_push, add: b.get()?, remove: b.get()? })
    }
}

impl Encode for UpdateMeta {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 1, 1, |out| {
            self.version.encode(out);
            for number in [self.tail, self.head, self.min_push, self.max_push] {
                put_optional(number.as_ref(), out);
            }
            self.add.encode(out);
            self.remove.encode(out);
        });
    }
}

/// Input of `init_part`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitPart {
    /// Name of the part; of no use any more.
    pub tag: Bytes,
    /// Sizes.
    pub params: Params,
}
denc::versioned!(InitPart, 1, 1 { tag, params });

/// Input of `push_part`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushPart {
    /// Name of the part; of no use any more.
    pub tag: Bytes,
    /// Entries to append.
    pub entries: Vec<Bytes>,
    /// Bytes of all entries.
    pub total: u64,
}
denc::versioned!(PushPart, 1, 1 { tag, entries, total });

/// Input of `trim_part`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrimPart {
    /// Name of the part; of no use any more.
    pub tag: Option<Bytes>,
    /// The last entry that goes.
    pub offset: u64,
    /// True if that entry stays.
    pub exclusive: bool,
}

impl Decode for TrimPart {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("TrimPart", 1)?;
        Ok(Self { tag: optional(&mut e.body)?, offset: e.body.get()?, exclusive: e.body.get()? })
    }
}

impl Encode for TrimPart {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 1, 1, |out| {
            put_optional(self.tag.as_ref(), out);
            self.offset.encode(out);
            self.exclusive.encode(out);
        });
    }
}

/// Input of `part_list`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPart {
    /// Name of the part; of no use any more.
    pub tag: Option<Bytes>,
    /// Entry after which to begin; all, if it is before the first.
    pub offset: u64,
    /// Most entries.
    pub max: i32,
}

impl Decode for ListPart {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("ListPart", 1)?;
        Ok(Self { tag: optional(&mut e.body)?, offset: e.body.get()?, max: e.body.get()? })
    }
}

impl Encode for ListPart {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 1, 1, |out| {
            put_optional(self.tag.as_ref(), out);
            self.offset.encode(out);
            self.max.encode(out);
        });
    }
}

/// An entry of a listing (`part_list_entry`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Bytes that were appended.
    pub data: Bytes,
    /// Place where it is.
    pub offset: u64,
    /// Time.
    pub time: UTime,
}
denc::versioned!(Entry, 1, 1 { data, offset, time });

/// Output of `part_list`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPartReply {
    /// Empty.
    pub tag: Bytes,
    /// Found.
    pub entries: Vec<Entry>,
    /// True if there is more.
    pub more: bool,
    /// True if nothing may be appended to the part any more.
    pub full: bool,
}
denc::versioned!(ListPartReply, 1, 1 { tag, entries, more, full });

/// Output of `get_part_info`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartInfoReply {
    /// The part's header.
    pub header: PartHeader,
}
denc::versioned!(PartInfoReply, 1, 1 { header });
