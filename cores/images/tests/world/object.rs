//! One object: what it is, what its clones were, and what classes see of it.

use bytes::Bytes;
use classes::{Change, Stat, View};
use objecter::SnapContext;
use objectstore::{Page, Read};
use std::collections::BTreeMap;
use types::{Errno, Rope, SnapId, UTime};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Data {
    pub(crate) bytes: Vec<u8>,
    pub(crate) xattrs: BTreeMap<Bytes, Bytes>,
    pub(crate) omap: BTreeMap<Bytes, Bytes>,
    pub(crate) header: Bytes,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Object {
    pub(crate) head: Option<Data>,
    /// By the newest snapshot that was there when the head changed: which snapshots see it, and what.
    pub(crate) clones: BTreeMap<u64, (Vec<u64>, Data)>,
    pub(crate) seq: u64,
}

impl Object {
    pub(crate) fn exists(&self) -> bool {
        self.head.is_some() || !self.clones.is_empty()
    }

    /// Returns what a snapshot or the head sees.
    pub(crate) fn at(&self, snap: u64) -> Option<&Data> {
        if snap >= SnapId::HEAD.0 || snap > self.seq {
            return self.head.as_ref();
        }
        let (_, (snaps, data)) = self.clones.range(snap..).next()?;
        snaps.contains(&snap).then_some(data)
    }

    /// The head becomes this; what newer snapshots must go on to see is kept.
    pub(crate) fn write(&mut self, head: Option<Data>, snapc: &SnapContext) {
        let newer: Vec<u64> = snapc.snaps.iter().copied().filter(|s| *s > self.seq).collect();
        if let Some(old) = self.head.take()
            && !newer.is_empty()
        {
            self.clones.insert(snapc.seq, (newer, old));
        }
        self.head = head;
        self.seq = if self.exists() { self.seq.max(snapc.seq) } else { 0 };
    }

    pub(crate) fn trim(&mut self, snap: u64) {
        for (snaps, _) in self.clones.values_mut() {
            snaps.retain(|s| *s != snap);
        }
        self.clones.retain(|_, (snaps, _)| !snaps.is_empty());
    }
}

impl Data {
    /// Bytes of a range; a length of 0 is all that follows.
    pub(crate) fn read(&self, (offset, len): (usize, usize)) -> Bytes {
        let end = if len == 0 { self.bytes.len() } else { self.bytes.len().min(offset + len) };
        Bytes::copy_from_slice(self.bytes.get(offset..end).unwrap_or_default())
    }

    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes.resize(self.bytes.len().max(offset + bytes.len()), 0);
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn zero(&mut self, (offset, len): (usize, usize)) {
        let end = self.bytes.len().min(offset + len);
        if offset < end {
            self.bytes[offset..end].fill(0);
        }
    }
}

/// Carries a change of a class method out.
pub(crate) fn apply(data: &mut Option<Data>, change: Change) -> Result<(), Errno> {
    match change {
        Change::Create { exclusive: true } if data.is_some() => return Err(Errno::EEXIST),
        Change::Remove => return data.take().map(drop).ok_or(Errno::ENOENT),
        _ => {}
    }
    let data = data.get_or_insert_default();
    match change {
        Change::Create { .. } | Change::Remove => {}
        Change::Write(offset, bytes) => data.write(offset as usize, &bytes.contiguous()),
        Change::WriteFull(bytes) => data.bytes = bytes.to_vec(),
        Change::Zero(offset, len) => data.zero((offset as usize, len as usize)),
        Change::Truncate(size) => data.bytes.resize(size as usize, 0),
        Change::SetXattr(name, value) => drop(data.xattrs.insert(name, value)),
        Change::RemoveXattr(name) => drop(data.xattrs.remove(&name)),
        Change::OmapSet(pairs) => data.omap.extend(pairs),
        Change::OmapRemove(keys) => keys.iter().for_each(|key| drop(data.omap.remove(key))),
        Change::OmapRemoveRange(first, end) => data.omap.retain(|key, _| *key < first || *key >= end),
        Change::OmapHeader(header) => data.header = header,
        Change::OmapClear => data.omap.clear(),
    }
    Ok(())
}

/// What a class method sees.
pub(crate) struct Look<'a> {
    pub(crate) data: &'a Option<Data>,
    pub(crate) seq: Option<u64>,
}

impl Look<'_> {
    fn data(&self) -> Data {
        self.data.clone().unwrap_or_default()
    }
}

impl View for Look<'_> {
    fn stat(&self) -> Read<Option<Stat>> {
        Ok(self.data.as_ref().map(|data| Stat { size: data.bytes.len() as u64, mtime: UTime::ZERO }))
    }

    fn read(&self, offset: u64, len: u64) -> Read<Rope> {
        Ok(if len == 0 { Rope::default() } else { self.data().read((offset as usize, len as usize)).into() })
    }

    fn extents(&self, offset: u64, len: u64) -> Read<Vec<(u64, u64)>> {
        let end = (self.data().bytes.len() as u64).min(offset.saturating_add(len));
        Ok(if offset < end { vec![(offset, end - offset)] } else { Vec::new() })
    }

    fn xattr(&self, name: &[u8]) -> Read<Option<Bytes>> {
        Ok(self.data().xattrs.get(name).cloned())
    }

    fn xattrs(&self) -> Read<Vec<(Bytes, Bytes)>> {
        Ok(self.data().xattrs.into_iter().collect())
    }

    fn omap_header(&self) -> Read<Bytes> {
        Ok(self.data().header)
    }

    fn omap_list(&self, after: &[u8], prefix: &[u8], max: usize) -> Read<Page> {
        let wanted = |key: &Bytes| (after.is_empty() || &key[..] > after) && key.starts_with(prefix);
        let mut entries: Vec<_> = self.data().omap.into_iter().filter(|(key, _)| wanted(key)).collect();
        let more = entries.len() > max;
        entries.truncate(max);
        Ok(Page { entries, more })
    }

    fn omap_get(&self, keys: &[Bytes]) -> Read<Vec<(Bytes, Bytes)>> {
        let omap = self.data().omap;
        Ok(keys.iter().filter_map(|key| omap.get(key).map(|value| (key.clone(), value.clone()))).collect())
    }

    fn snap_seq(&self) -> Option<u64> {
        self.seq
    }

    fn watchers(&self) -> Vec<classes::Origin> {
        Vec::new()
    }

    fn user_version(&self) -> u64 {
        0
    }
}
