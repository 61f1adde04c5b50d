//! Images of format 1: the header object's data is one record that clients read themselves; here only its snapshots are
//! changed. 112 bytes of head (text, prefix, signature, options; at 80 the size, at 88 the newest snapshot's id, at 96
//! the number of snapshots, at 104 the length of their names), 16 bytes for each snapshot (id, size), newest first, and
//! their names, each ended by a zero.

use super::keys::load;
use crate::{Call, Change, Fail, Method, Outcome, RD, WR};
use bytes::Bytes;
use denc::Encode;
use types::{Errno, Rope};

pub(super) const METHODS: &[Method] = &[
    Method { name: "snap_list", flags: RD, run: snap_list },
    Method { name: "snap_add", flags: RD | WR, run: snap_add },
    Method { name: "snap_remove", flags: RD | WR, run: snap_remove },
    Method { name: "snap_rename", flags: RD | WR, run: snap_rename },
];

const HEAD: usize = 112;
const SIZE_AT: usize = 80;
const SEQ_AT: usize = 88;
const COUNT_AT: usize = 96;
const NAMES_AT: usize = 104;

/// One snapshot.
struct Snap {
    id: u64,
    size: u64,
    name: Vec<u8>,
}

/// A header.
struct Header {
    head: [u8; HEAD],
    snaps: Vec<Snap>,
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// The head alone; EINVAL if the object is too short to be a header.
fn read_head(call: &Call<'_>) -> Result<[u8; HEAD], Fail> {
    let data = call.view.read(0, HEAD as u64)?.to_vec();
    data.try_into().map_err(|_| Fail::Errno(Errno::EINVAL))
}

/// The number of snapshots, if the object is a header of this format.
pub(super) fn snap_count(call: &Call<'_>) -> Result<Option<u32>, Fail> {
    match read_head(call) {
        Ok(head) => Ok(Some(u32_at(&head, COUNT_AT))),
        Err(Fail::Errno(Errno::EINVAL)) => Ok(None),
        Err(fail) => Err(fail),
    }
}

impl Header {
    /// EINVAL if the object is shorter than its head says, EIO if there are fewer names than snapshots.
    fn read(call: &Call<'_>) -> Result<Self, Fail> {
        let head = read_head(call)?;
        let records = u64::from(u32_at(&head, COUNT_AT)) * 16;
        let names_len = u64_at(&head, NAMES_AT);
        let len = records.checked_add(names_len).ok_or(Fail::Errno(Errno::EINVAL))?;
        let data = call.view.read(HEAD as u64, len)?.contiguous();
        if data.len() as u64 != len {
            return Err(Errno::EINVAL.into());
        }
        let (records, names) = data.split_at(records as usize);
        let mut names = names.split(|b| *b == 0);
        let mut snaps = Vec::with_capacity(records.len() / 16);
        for record in records.chunks_exact(16) {
            let name = names.next().ok_or(Fail::Errno(Errno::EIO))?.to_vec();
            snaps.push(Snap { id: u64_at(record, 0), size: u64_at(record, 8), name });
        }
        Ok(Self { head, snaps })
    }

    fn seq(&self) -> u64 {
        u64_at(&self.head, SEQ_AT)
    }

    /// Replaces the object.
    fn write(self, call: &mut Call<'_>) {
        let Self { mut head, snaps } = self;
        let names_len: usize = snaps.iter().map(|s| s.name.len() + 1).sum();
        head[COUNT_AT..COUNT_AT + 4].copy_from_slice(&(snaps.len() as u32).to_le_bytes());
        head[NAMES_AT..NAMES_AT + 8].copy_from_slice(&(names_len as u64).to_le_bytes());
        let mut out = head.to_vec();
        for snap in &snaps {
            snap.id.encode(&mut out);
            snap.size.encode(&mut out);
        }
        for snap in snaps {
            out.extend_from_slice(&snap.name);
            out.push(0);
        }
        call.change(Change::WriteFull(Rope::from(out)));
    }
}

/// A name as it can be stored: up to its first zero.
fn name_of(name: &Bytes) -> Vec<u8> {
    name.iter().copied().take_while(|b| *b != 0).collect()
}

/// Output: newest id, number, and id, size and name of each.
fn snap_list(call: &mut Call<'_>) -> Outcome {
    let header = Header::read(call)?;
    let mut out = header.seq().to_vec();
    (header.snaps.len() as u32).encode(&mut out);
    for snap in &header.snaps {
        snap.id.encode(&mut out);
        snap.size.encode(&mut out);
        snap.name.as_slice().encode(&mut out);
    }
    Ok(out.into())
}

/// Input: name, id.
fn snap_add(call: &mut Call<'_>) -> Outcome {
    let mut header = Header::read(call)?;
    let (name, id): (Bytes, u64) = call.arg()?;
    if header.seq() > id {
        return Err(Errno::ESTALE.into());
    }
    let limit: u64 = load(call, b"snap_limit")?.unwrap_or(u64::MAX);
    if header.snaps.len() as u64 >= limit {
        return Err(Errno::EDQUOT.into());
    }
    let name = name_of(&name);
    if header.snaps.iter().any(|s| s.name == name) {
        return Err(Errno::EEXIST.into());
    }
    let size = u64_at(&header.head, SIZE_AT);
    header.snaps.insert(0, Snap { id, size, name });
    header.head[SEQ_AT..SEQ_AT + 8].copy_from_slice(&id.to_le_bytes());
    header.write(call);
    Ok(Bytes::new())
}

/// Input: name.
fn snap_remove(call: &mut Call<'_>) -> Outcome {
    let mut header = Header::read(call)?;
    let name = name_of(&call.arg()?);
    let found = header.snaps.iter().position(|s| s.name == name).ok_or(Fail::Errno(Errno::ENOENT))?;
    header.snaps.remove(found);
    header.write(call);
    Ok(Bytes::new())
}

/// Input: id, new name.
fn snap_rename(call: &mut Call<'_>) -> Outcome {
    let mut header = Header::read(call)?;
    let (id, name): (u64, Bytes) = call.arg()?;
    let name = name_of(&name);
    if header.snaps.iter().any(|s| s.name == name) {
        return Err(Errno::EEXIST.into());
    }
    let snap = header.snaps.iter_mut().find(|s| s.id == id).ok_or(Fail::Errno(Errno::ENOENT))?;
    snap.name = name;
    header.write(call);
    Ok(Bytes::new())
}
