//! The log of format version 1: one voter, no votes. It is read once, and replaced by a snapshot of version 2.

use super::format::{BLOCK, COUNTS, Super};
use bytes::Bytes;
use denc::{Decode as _, Reader};
use quorum::Index;

const GROUP_MAGIC: u32 = 0x6d6f_6e47;
/// Bytes of a group before its entries.
const GROUP_HEAD: usize = 60;

/// An entry. Its term was always 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Place where it stands.
    pub(crate) index: Index,
    /// The encoded proposal.
    pub(crate) data: Bytes,
}

/// One durable write.
struct Group {
    generation: u64,
    previous: u32,
    /// Highest index known to be durable when this was written.
    durable: Index,
    entries: Vec<Entry>,
}

/// Reads the group at the beginning of `bytes`: the group, its CRC, and the bytes it takes with padding. `None` if
/// there is no whole group of this cluster.
fn group(fsid: &[u8; 16], bytes: &[u8]) -> Option<(Group, u32, usize)> {
    let mut r = Reader::new(bytes);
    if r.u32().ok()? != GROUP_MAGIC {
        return None;
    }
    let crc = r.u32().ok()?;
    if r.array::<16>().ok()? != *fsid {
        return None;
    }
    let (generation, previous, durable) = (r.u64().ok()?, r.u32().ok()?, r.u64().ok()?);
    let (count, payload, first) = (r.u32().ok()?, r.u32().ok()? as usize, r.u64().ok()?);
    let end = GROUP_HEAD.checked_add(payload)?;
    if kernels::crc32c(kernels::SEED, bytes.get(8..end)?) != crc {
        return None;
    }
    let mut r = Reader::new(&bytes[GROUP_HEAD..end]);
    let mut entries = Vec::new();
    for i in 0..u64::from(count) {
        let (index, _term, data) = (r.u64().ok()?, r.u64().ok()?, Bytes::decode(&mut r).ok()?);
        if index >= COUNTS || first.checked_add(i) != Some(index) {
            return None;
        }
        entries.push(Entry { index, data });
    }
    r.finish().ok()?;
    Some((Group { generation, previous, durable, entries }, crc, end.next_multiple_of(BLOCK)))
}

/// The entries in the area of `sb`, out of the bytes behind its snapshot; the bytes that their groups take; and whether
/// a write that a crash cut short follows them. The first group that is not whole ends the log, unless a later one says
/// that it had been durable.
///
/// # Errors
/// What is damaged.
pub(crate) fn replay(sb: &Super, log: &[u8]) -> Result<(Vec<Entry>, usize, bool), String> {
    let (mut entries, mut end, mut last_crc) = (Vec::new(), 0, sb.snapshot_crc);
    let mut next = sb.snapshot_index + 1;
    while let Some((group, crc, len)) = group(&sb.fsid, &log[end..]) {
        let follows = group.entries.first().is_some_and(|e| e.index == next);
        if group.generation != sb.generation || group.previous != last_crc || !follows {
            break;
        }
        next += group.entries.len() as u64;
        entries.extend(group.entries);
        end = (end + len).min(log.len());
        last_crc = crc;
    }
    let rest = &log[end..];
    let leftover = group(&sb.fsid, rest).is_some_and(|(g, ..)| g.generation != sb.generation);
    let torn = rest.get(..BLOCK).is_some_and(|b| b[..4] == GROUP_MAGIC.to_le_bytes() && !leftover);
    for at in (BLOCK..rest.len()).step_by(BLOCK) {
        let Some((group, ..)) = group(&sb.fsid, &rest[at..]) else { continue };
        if group.generation == sb.generation && group.durable >= next {
            return Err(format!(
                "the monitor's log is damaged at byte {}: entry {next} is unreadable, but a later group says that entries up to {} were durable",
                sb.log_at() + end as u64,
                group.durable
            ));
        }
    }
    Ok((entries, end, torn))
}
