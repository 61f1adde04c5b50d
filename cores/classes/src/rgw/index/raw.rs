//! Entries of the index as they are: for resharding, for tools, and to count them anew.

use super::header::Shard;
use super::keys;
use crate::keys::{raw, stored};
use crate::{Call, Change, Fail, Outcome};
use bytes::Bytes;
use denc::{Decode, Encode};
use messages::class::rgw::index::{DirEntry, OlhEntry, RawEntry, section};
use messages::class::rgw::index_ops::{CheckIndexReply, RawGetOp, RawGetReply, RawListOp, RawListReply, RawPutOp};
use types::Errno;

/// Most entries of one listing, and of one step of a count.
const MAX_ENTRIES: u32 = 1000;

pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let op: RawGetOp = call.arg()?;
    let key = match op.kind {
        section::PLAIN => op.key.name.clone(),
        section::INSTANCE => keys::first(&op.key),
        section::OLH => keys::olh(&op.key.name),
        _ => return Err(Errno::EINVAL.into()),
    };
    let value = raw(call, &key)?.ok_or(Errno::ENOENT)?;
    Ok(RawGetReply { entry: RawEntry { kind: op.kind, key, value } }.to_bytes())
}

pub(super) fn put(call: &mut Call<'_>) -> Outcome {
    let RawPutOp { entry } = call.arg()?;
    call.change(Change::OmapSet(vec![(entry.key, entry.value)]));
    Ok(Bytes::new())
}

/// Lists entries of all sections but the log, in the order of their keys. With a name: those of that key only, which
/// are in several places.
pub(super) fn list(call: &mut Call<'_>) -> Outcome {
    let op: RawListOp = call.arg()?;
    let max = op.max.min(MAX_ENTRIES);
    let mut entries = Vec::new();
    let mut more = names_before(call, &op.name, &op.marker, max, &mut entries)?;
    for part in [Part::Instances, Part::Heads, Part::NamesBehind] {
        if more {
            break;
        }
        // One more than wanted may be there: the number that is left wraps around then, as in Ceph.
        let left = max.wrapping_sub(denc::len32(entries.len()));
        more = match part {
            Part::Instances => {
                let first = match op.name.is_empty() {
                    true => Bytes::from_static(keys::INSTANCE),
                    false => keys::instance(&messages::class::rgw::index::ObjKey::plain(op.name.clone())),
                };
                within::<DirEntry>(call, &first, &op, left, section::INSTANCE, &mut entries)?
            }
            Part::Heads => within::<OlhEntry>(call, &keys::olh(&op.name), &op, left, section::OLH, &mut entries)?,
            Part::NamesBehind => names_behind(call, &op.name, &op.marker, left, &mut entries)?,
        };
    }
    let truncated = entries.len() > max as usize || more;
    entries.truncate(max as usize);
    Ok(RawListReply { entries, truncated }.to_bytes())
}

/// Part of an index that stands before a section.
#[derive(Clone, Copy)]
enum Part {
    Instances,
    Heads,
    NamesBehind,
}

/// Names that one scan takes, and whether more follow.
struct Scan {
    more: bool,
    /// True if the end was met: a key that is not wanted any more.
    ended: bool,
}

/// Adds names after `after`, before `end` (none if empty), and not above `name` (if there is one).
fn names(
    call: &Call<'_>,
    name: &Bytes,
    (after, end): (&[u8], &[u8]),
    max: u32,
    entries: &mut Vec<RawEntry>,
) -> Result<Scan, Fail> {
    let page = call.view.omap_list(after, name, max as usize)?;
    let met_end = Scan { more: false, ended: true };
    let mut count = 0;
    for (key, value) in page.entries {
        if !end.is_empty() && &key[..] >= end {
            return Ok(met_end);
        }
        let entry: DirEntry = stored(call, &value)?;
        if !name.is_empty() && entry.key.name > *name {
            return Ok(met_end);
        }
        entries.push(RawEntry { kind: section::PLAIN, key, value });
        count += 1;
        // A number that wrapped around is negative here, so that one entry is enough.
        if count >= max.cast_signed() {
            break;
        }
    }
    Ok(Scan { more: page.more, ended: false })
}

/// Adds names that stand before the sections; true if there are more of them.
fn names_before(call: &Call<'_>, name: &Bytes, marker: &Bytes, max: u32, entries: &mut Vec<RawEntry>) -> Result<bool, Fail> {
    if &marker[..] >= keys::BEGIN {
        return Ok(false);
    }
    Ok(names(call, name, (marker, keys::BEGIN), max, entries)?.more)
}

/// Adds names that stand behind the sections; true if there are more.
fn names_behind(call: &Call<'_>, name: &Bytes, marker: &Bytes, max: u32, entries: &mut Vec<RawEntry>) -> Result<bool, Fail> {
    let after = marker.as_ref().max(keys::END);
    Ok(names(call, name, (after, b""), max, entries)?.more)
}

/// A value of which the key's name is known.
trait Named: Decode {
    fn name(&self) -> &Bytes;
}

impl Named for DirEntry {
    fn name(&self) -> &Bytes {
        &self.key.name
    }
}

impl Named for OlhEntry {
    fn name(&self) -> &Bytes {
        &self.key.name
    }
}

/// Adds entries whose keys begin with `first`, with that one itself, after the marker; true if there are more.
fn within<T: Named>(
    call: &Call<'_>,
    first: &Bytes,
    op: &RawListOp,
    mut max: u32,
    kind: u8,
    entries: &mut Vec<RawEntry>,
) -> Result<bool, Fail> {
    let after = first.max(&op.marker);
    let mut page = objectstore::Page::default();
    if *after != op.marker
        && let Some(value) = raw(call, after)?
    {
        page.entries.push((after.clone(), value));
        max = max.wrapping_sub(1);
    }
    if max > 0 {
        let rest = call.view.omap_list(after, b"", max as usize)?;
        page.entries.extend(rest.entries);
        page.more = rest.more;
    }
    for (key, value) in page.entries {
        if !key.starts_with(first) {
            return Ok(false);
        }
        let entry: T = stored(call, &value)?;
        if !op.name.is_empty() && *entry.name() != op.name {
            return Ok(false);
        }
        entries.push(RawEntry { kind, key, value });
    }
    Ok(page.more)
}

/// The header as it is, and as it would be if all objects were counted anew. Versions count by the entries that
/// operations find, so that each counts once.
fn counted(call: &Call<'_>) -> Result<(Shard, Shard), Fail> {
    let existing = Shard::load(call)?;
    let mut counted = Shard::load(call)?;
    let header = counted.edit();
    header.stats.clear();
    (header.master_ver, header.max_marker, header.resharding) = Default::default();
    let mut tell = |entries: &[RawEntry], plain: bool| -> Result<Option<Bytes>, Fail> {
        for entry in entries {
            let entry: DirEntry = stored(call, &entry.value)?;
            if entry.exists && (!plain || entry.flags == 0) {
                counted.count(&entry.meta);
            }
        }
        Ok(entries.last().map(|entry| entry.key.clone()))
    };
    let (none, mut marker) = (Bytes::new(), Bytes::new());
    loop {
        let mut entries = Vec::new();
        let more = all_names(call, &marker, &mut entries)?;
        marker = tell(&entries, true)?.unwrap_or(marker);
        if !more || entries.is_empty() {
            break;
        }
    }
    let mut op = RawListOp { max: MAX_ENTRIES, name: none, marker: Bytes::new() };
    loop {
        let mut entries = Vec::new();
        let first = Bytes::from_static(keys::INSTANCE);
        let more = within::<DirEntry>(call, &first, &op, MAX_ENTRIES, section::INSTANCE, &mut entries)?;
        op.marker = tell(&entries, false)?.unwrap_or(op.marker);
        if !more || entries.is_empty() {
            break;
        }
    }
    Ok((existing, counted))
}

/// Adds names before and behind the sections; true if there are more.
fn all_names(call: &Call<'_>, marker: &Bytes, entries: &mut Vec<RawEntry>) -> Result<bool, Fail> {
    let none = Bytes::new();
    if &marker[..] < keys::BEGIN {
        let scan = names(call, &none, (marker, keys::BEGIN), MAX_ENTRIES, entries)?;
        if entries.len() >= MAX_ENTRIES as usize || !scan.ended {
            return Ok(scan.more);
        }
    }
    names_behind(call, &none, marker, MAX_ENTRIES - denc::len32(entries.len()), entries)
}

pub(super) fn check_index(call: &mut Call<'_>) -> Outcome {
    let (existing, calculated) = counted(call)?;
    let (existing, calculated) = (existing.get().clone(), calculated.get().clone());
    Ok(CheckIndexReply { existing, calculated }.to_bytes())
}

pub(super) fn rebuild_index(call: &mut Call<'_>) -> Outcome {
    let (_, calculated) = counted(call)?;
    calculated.store(call);
    Ok(Bytes::new())
}
