//! Class `fifo`: a log that is spread over objects. The meta object says which parts there are; each change of it names the
//! state that it expects, so that of two gateways one wins. A part has 512 bytes for its header, and entries behind it.
//!
//! What differs from Ceph on purpose:
//! - An entry in the journal that Ceph could not store (and would not survive) is refused with EINVAL.
//! - So are sizes that leave no room for one entry.
//! - A listing ends after 4 MiB, and says that there is more. Entries may be larger than 128 KiB.

use crate::feed::{Feed, LISTING_BYTES};
use crate::unique::{number, tag};
use crate::{Call, Change, Fail, Method, Outcome, RD, WR};
use bytes::Bytes;
use denc::{Decode, Encode, Reader};
use messages::class::fifo::{
    CreateMeta, Entry, EntryHeader, EntryPrefix, GetMeta, GetMetaReply, Info, InitPart, ListPart, ListPartReply, Params,
    PartHeader, PartInfoReply, PushPart, TrimPart, UpdateMeta, Version,
};
use messages::class::user::Nothing;
use std::collections::BTreeSet;
use types::Errno;

pub(crate) const METHODS: &[Method] = &[
    Method { name: "create_meta", flags: RD | WR, run: create_meta },
    Method { name: "get_meta", flags: RD, run: get_meta },
    Method { name: "update_meta", flags: RD | WR, run: update_meta },
    Method { name: "init_part", flags: RD | WR, run: init_part },
    Method { name: "push_part", flags: RD | WR, run: push_part },
    Method { name: "trim_part", flags: RD | WR, run: trim_part },
    Method { name: "part_list", flags: RD, run: part_list },
    Method { name: "get_part_info", flags: RD, run: get_part_info },
];

/// Bytes before a part's first entry.
const PART_HEADER_SIZE: u32 = 512;
/// Bytes of [`EntryPrefix`].
const PREFIX_SIZE: u32 = 44;
/// Bytes of [`EntryHeader`].
const ENTRY_HEADER_SIZE: u32 = 14;
/// Bytes that an entry takes besides its data.
const OVERHEAD: u32 = PREFIX_SIZE + ENTRY_HEADER_SIZE;
/// Most entries of a listing.
const MAX_ENTRIES: usize = 512;

fn decoded<T: Decode>(bytes: &[u8]) -> Result<T, Fail> {
    Reader::new(bytes).get().map_err(|_| Fail::Errno(Errno::EIO))
}

/// Reads the meta object, which must be in the expected state, if one is given.
fn read_meta(call: &Call<'_>, expected: Option<&Version>) -> Result<Info, Fail> {
    let size = call.must_exist()?.size;
    let bytes = call.view.read(0, size)?.contiguous();
    if bytes.is_empty() {
        return Err(Errno::ENODATA.into());
    }
    let info: Info = call.stored(&bytes, Errno::EIO)?;
    if expected.is_some_and(|expected| *expected != info.version) {
        return Err(Errno::ECANCELED.into());
    }
    Ok(info)
}

fn write_meta(call: &mut Call<'_>, info: &Info) {
    call.change(Change::WriteFull(info.to_bytes().into()));
}

/// Makes a meta object. One that is there already and is the same in what the caller asks for is no mistake.
fn create_meta(call: &mut Call<'_>) -> Outcome {
    let op: CreateMeta = call.arg()?;
    let room = op.part_size.checked_sub(op.entry_size);
    let room = room.filter(|_| !op.id.is_empty() && op.part_size > 0 && op.entry_size > 0).ok_or(Errno::EINVAL)?;
    if let Some(stat) = call.view.stat()? {
        if op.exclusive {
            return Err(Errno::EEXIST.into());
        }
        let there: Info = call.stored(&call.view.read(0, stat.size)?.contiguous(), Errno::EIO)?;
        let same = there.id == op.id
            && op.prefix.is_none_or(|prefix| prefix == there.prefix)
            && op.version.is_none_or(|version| version == there.version);
        return if same { Ok(Bytes::new()) } else { Err(Errno::EEXIST.into()) };
    }
    let full_size = room.checked_sub(u64::from(OVERHEAD)).ok_or(Errno::EINVAL)?;
    let params = Params { part_size: op.part_size, entry_size: op.entry_size, full_size };
    let version = op.version.unwrap_or_else(|| Version { instance: tag(call, 16).into(), number: 1 });
    let prefix = op.prefix.unwrap_or_else(|| [&op.id[..], b".", tag(call, 12).as_bytes()].concat().into());
    write_meta(call, &Info { id: op.id, version, prefix, params, ..Info::default() });
    Ok(Bytes::new())
}

fn get_meta(call: &mut Call<'_>) -> Outcome {
    let op: GetMeta = call.arg()?;
    let info = read_meta(call, op.version.as_ref())?;
    Ok(GetMetaReply { info, header_size: PART_HEADER_SIZE, overhead: OVERHEAD }.to_bytes())
}

/// Changes the meta object, whose version counts the changes. What is as wished already changes nothing.
fn update_meta(call: &mut Call<'_>) -> Outcome {
    let op: UpdateMeta = call.arg()?;
    if op.version.instance.is_empty() || !op.add.iter().all(|entry| entry.is_valid()) {
        return Err(Errno::EINVAL.into());
    }
    let before = read_meta(call, Some(&op.version))?;
    let mut info = before.clone();
    info.tail = op.tail.unwrap_or(info.tail);
    info.head = op.head.unwrap_or(info.head);
    info.min_push = op.min_push.unwrap_or(info.min_push);
    info.max_push = op.max_push.unwrap_or(info.max_push);
    info.journal.extend(op.add);
    let remove: BTreeSet<_> = op.remove.iter().collect();
    info.journal.retain(|entry| !remove.contains(entry));
    info.journal.sort_unstable();
    info.journal.dedup();
    if info != before {
        info.version.number = info.version.number.wrapping_add(1);
        write_meta(call, &info);
    }
    Ok(Bytes::new())
}

fn read_part(call: &Call<'_>) -> Result<PartHeader, Fail> {
    decoded(&call.view.read(0, u64::from(PART_HEADER_SIZE))?.contiguous())
}

fn write_part(call: &mut Call<'_>, header: &PartHeader) {
    let bytes = header.to_bytes();
    assert!(bytes.len() <= PART_HEADER_SIZE as usize, "a header of fixed size fits");
    call.change(Change::Write(0, bytes.into()));
}

/// Makes a part. One that is there already with the same sizes is no mistake.
fn init_part(call: &mut Call<'_>) -> Outcome {
    let op: InitPart = call.arg()?;
    if call.view.stat()?.is_some_and(|stat| stat.size > 0) {
        let same = read_part(call)?.params == op.params;
        return if same { Ok(Bytes::new()) } else { Err(Errno::EEXIST.into()) };
    }
    let first = u64::from(PART_HEADER_SIZE);
    let (magic, max_time) = (number(call), call.now);
    let header =
        PartHeader { params: op.params, magic, min_offset: first, next_offset: first, max_time, ..PartHeader::default() };
    write_part(call, &header);
    Ok(Bytes::new())
}

/// Appends entries as long as the part is not full; the result says how many it took.
fn push_part(call: &mut Call<'_>) -> Outcome {
    let op: PushPart = call.arg()?;
    let mut header = read_part(call)?;
    let sum: u64 = op.entries.iter().map(|entry| entry.len() as u64).sum();
    let overhead = u64::from(OVERHEAD) * op.entries.len() as u64;
    if op.total.checked_add(overhead).is_none_or(|size| size > header.params.part_size) {
        return Err(Errno::EINVAL.into());
    }
    if header.is_full() {
        return Err(Errno::ERANGE.into());
    }
    if sum != op.total {
        return Err(Errno::EINVAL.into());
    }
    let (start, mut out, mut pushed) = (header.next_offset, Vec::new(), 0);
    // The numbers come from the object, and may be wrong.
    start.checked_add(sum + overhead).ok_or(Errno::EIO)?;
    for data in &op.entries {
        if header.is_full() {
            break;
        }
        let prefix = EntryPrefix {
            magic: header.magic,
            size: u64::from(PREFIX_SIZE),
            header_size: u64::from(ENTRY_HEADER_SIZE),
            data_size: data.len() as u64,
            index: header.max_index,
            reserved: 0,
        };
        prefix.encode(&mut out);
        EntryHeader { time: call.now }.encode(&mut out);
        out.extend_from_slice(data);
        header.last_offset = header.next_offset;
        header.next_offset = start + out.len() as u64;
        header.max_index = header.max_index.wrapping_add(1);
        pushed += 1;
    }
    if pushed == 0 {
        return Err(Errno::EFAULT.into());
    }
    header.max_time = call.now;
    call.change(Change::Write(start, Bytes::from(out).into()));
    write_part(call, &header);
    call.result = pushed;
    Ok(Bytes::new())
}

/// Entries of a part from one on.
struct Entries<'a> {
    feed: Feed<'a>,
    magic: u64,
    /// Place where the next entry is.
    offset: u64,
}

impl<'a> Entries<'a> {
    fn new(call: &Call<'a>, header: &PartHeader, offset: u64) -> Self {
        let offset = offset.max(header.min_offset);
        let rest = header.next_offset.saturating_sub(offset);
        Self { feed: Feed::new(call.view, vec![(offset, rest)]), magic: header.magic, offset }
    }

    fn is_empty(&self) -> bool {
        self.feed.is_empty()
    }

    fn take(&mut self, len: u64) -> Result<Bytes, Fail> {
        let bytes = self.feed.take(len)?.ok_or(Errno::ERANGE)?;
        self.offset += len;
        Ok(bytes)
    }

    /// The next entry and its number. ERANGE if there is none at this place, ENOENT at the end.
    fn next(&mut self) -> Result<(u64, Entry), Fail> {
        if self.is_empty() {
            return Err(Errno::ENOENT.into());
        }
        let offset = self.offset;
        let prefix: EntryPrefix = decoded(&self.take(u64::from(PREFIX_SIZE))?)?;
        if prefix.magic != self.magic {
            return Err(Errno::ERANGE.into());
        }
        // A longer prefix has more behind what is known here.
        self.take(prefix.size.saturating_sub(u64::from(PREFIX_SIZE)))?;
        let header: EntryHeader = decoded(&self.take(prefix.header_size)?)?;
        Ok((prefix.index, Entry { data: self.take(prefix.data_size)?, offset, time: header.time }))
    }
}

/// Removes entries up to one, and the object if it is full and all of them go.
fn trim_part(call: &mut Call<'_>) -> Outcome {
    let op: TrimPart = call.arg()?;
    let mut header = read_part(call)?;
    if op.offset < header.min_offset || op.exclusive && op.offset == header.min_offset {
        return Ok(Bytes::new());
    }
    if op.offset >= header.next_offset {
        if header.is_full() {
            call.change(Change::Remove);
            return Ok(Bytes::new());
        }
        (header.min_offset, header.min_index) = (header.next_offset, header.max_index);
    } else {
        let mut entries = Entries::new(call, &header, op.offset);
        let (index, _) = entries.next()?;
        (header.min_offset, header.min_index) =
            if op.exclusive { (op.offset, index) } else { (entries.offset, index.wrapping_add(1)) };
    }
    write_part(call, &header);
    Ok(Bytes::new())
}

fn part_list(call: &mut Call<'_>) -> Outcome {
    let op: ListPart = call.arg()?;
    let header = read_part(call)?;
    let mut entries = Entries::new(call, &header, op.offset);
    if op.offset >= header.min_offset && !entries.is_empty() {
        entries.next()?;
    }
    let max = usize::try_from(op.max).unwrap_or(0).min(MAX_ENTRIES);
    let (mut reply, mut bytes) = (ListPartReply { full: header.is_full(), ..ListPartReply::default() }, 0);
    while reply.entries.len() < max && !entries.is_empty() && bytes < LISTING_BYTES {
        let (_, entry) = entries.next()?;
        bytes += entry.data.len();
        reply.entries.push(entry);
    }
    reply.more = !entries.is_empty();
    Ok(reply.to_bytes())
}

fn get_part_info(call: &mut Call<'_>) -> Outcome {
    call.arg::<Nothing>()?;
    Ok(PartInfoReply { header: read_part(call)? }.to_bytes())
}
