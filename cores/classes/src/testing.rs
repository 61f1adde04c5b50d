//! One object in memory for tests of classes, whose every read misses once before it is answered.

use crate::{Call, Change, Fail, Lookup, Origin, Stat, View, find};
use bytes::Bytes;
use objectstore::{Page, Read, Unread, Wish};
use std::cell::Cell;
use std::collections::BTreeMap;
use types::{EntityAddr, Errno, Rope, UTime};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Object {
    data: Vec<u8>,
    xattrs: BTreeMap<Bytes, Bytes>,
    header: Bytes,
    omap: BTreeMap<Bytes, Bytes>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bench {
    pub(crate) object: Option<Object>,
    pub(crate) origin: Origin,
    pub(crate) now: UTime,
    pub(crate) snap_seq: u64,
    pub(crate) watchers: Vec<Origin>,
    /// Version of the group and place in the vector.
    pub(crate) place: (u64, usize),
    /// Time of the object's last change.
    pub(crate) mtime: UTime,
}

impl Default for Bench {
    fn default() -> Self {
        let origin = Origin { kind: 8, num: 1, addr: EntityAddr::default() };
        Self {
            object: None,
            origin,
            now: UTime { sec: 1, nsec: 0 },
            snap_seq: 0,
            watchers: Vec::new(),
            place: (0, 0),
            mtime: UTime::ZERO,
        }
    }
}

struct Look<'a> {
    object: &'a Option<Object>,
    snap_seq: u64,
    watchers: &'a Vec<Origin>,
    mtime: UTime,
    /// Reads that are answered before one misses.
    there: Cell<usize>,
}

impl Look<'_> {
    fn touch(&self) -> Read<Object> {
        match self.there.get() {
            0 => Err(Unread::Missing(Wish(vec![1]))),
            n => {
                self.there.set(n - 1);
                Ok(self.object.clone().unwrap_or_default())
            }
        }
    }
}

impl View for Look<'_> {
    fn stat(&self) -> Read<Option<Stat>> {
        let object = self.touch()?;
        Ok(self.object.is_some().then_some(Stat { size: object.data.len() as u64, mtime: self.mtime }))
    }
    fn read(&self, offset: u64, len: u64) -> Read<Rope> {
        let data = self.touch()?.data;
        let start = data.len().min(offset as usize);
        let end = data.len().min(offset.saturating_add(len) as usize);
        Ok(data[start..end].to_vec().into())
    }
    fn extents(&self, offset: u64, len: u64) -> Read<Vec<(u64, u64)>> {
        let size = self.touch()?.data.len() as u64;
        let end = size.min(offset.saturating_add(len));
        Ok(if offset < end { vec![(offset, end - offset)] } else { Vec::new() })
    }
    fn xattr(&self, name: &[u8]) -> Read<Option<Bytes>> {
        Ok(self.touch()?.xattrs.get(name).cloned())
    }
    fn xattrs(&self) -> Read<Vec<(Bytes, Bytes)>> {
        Ok(self.touch()?.xattrs.into_iter().collect())
    }
    fn omap_header(&self) -> Read<Bytes> {
        Ok(self.touch()?.header)
    }
    fn omap_list(&self, after: &[u8], prefix: &[u8], max: usize) -> Read<Page> {
        let omap = self.touch()?.omap;
        let wanted = |key: &Bytes| (after.is_empty() || &key[..] > after) && key.starts_with(prefix);
        let mut entries: Vec<_> = omap.into_iter().filter(|(key, _)| wanted(key)).collect();
        let more = entries.len() > max;
        entries.truncate(max);
        Ok(Page { entries, more })
    }
    fn omap_get(&self, keys: &[Bytes]) -> Read<Vec<(Bytes, Bytes)>> {
        let omap = self.touch()?.omap;
        Ok(keys.iter().filter_map(|k| omap.get(k).map(|v| (k.clone(), v.clone()))).collect())
    }
    fn snap_seq(&self) -> Option<u64> {
        self.object.as_ref().map(|_| self.snap_seq)
    }
    fn watchers(&self) -> Vec<Origin> {
        self.watchers.clone()
    }
    fn user_version(&self) -> u64 {
        0
    }
}

impl Bench {
    pub(crate) fn exists(&self) -> bool {
        self.object.is_some()
    }

    /// Puts bytes into the object's data.
    pub(crate) fn write_raw(&mut self, at: usize, bytes: &[u8]) {
        let data = &mut self.object.get_or_insert_default().data;
        data.resize(data.len().max(at + bytes.len()), 0);
        data[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// The object with these bytes in place of its own, or without an object; there is nothing to say about it.
    pub(crate) fn replace(&mut self, data: Option<Vec<u8>>) -> String {
        match data {
            Some(data) => self.object.get_or_insert_default().data = data,
            None => self.object = None,
        }
        String::new()
    }

    pub(crate) fn data(&self) -> Vec<u8> {
        self.object.clone().unwrap_or_default().data
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        let omap = self.object.iter().flat_map(|object| object.omap.keys());
        omap.map(|key| String::from_utf8_lossy(key).into_owned()).collect()
    }

    pub(crate) fn set_omap(&mut self, key: &str, value: &[u8]) {
        let omap = &mut self.object.get_or_insert_default().omap;
        omap.insert(Bytes::copy_from_slice(key.as_bytes()), Bytes::copy_from_slice(value));
    }

    pub(crate) fn set_header(&mut self, value: &[u8]) {
        self.object.get_or_insert_default().header = Bytes::copy_from_slice(value);
    }

    /// All of the omap.
    pub(crate) fn pairs(&self) -> Vec<(Bytes, Bytes)> {
        let omap = self.object.iter().flat_map(|object| &object.omap);
        omap.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// All attributes.
    pub(crate) fn xattrs(&self) -> Vec<(Bytes, Bytes)> {
        let xattrs = self.object.iter().flat_map(|object| &object.xattrs);
        xattrs.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    pub(crate) fn set_xattr(&mut self, name: &str, value: &[u8]) {
        let xattrs = &mut self.object.get_or_insert_default().xattrs;
        xattrs.insert(Bytes::copy_from_slice(name.as_bytes()), Bytes::copy_from_slice(value));
    }

    pub(crate) fn omap(&self, key: &str) -> Option<String> {
        let value = self.object.as_ref()?.omap.get(key.as_bytes())?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    /// Calls a method, again and again with one more read answered, until it misses nothing; then applies its changes.
    pub(crate) fn call(&mut self, class: &str, method: &str, input: &[u8]) -> Result<Bytes, Errno> {
        let Lookup::Found(method) = find(class.as_bytes(), method.as_bytes()) else { panic!("no method {class}.{method}") };
        for there in 0.. {
            let (snap_seq, watchers) = (self.snap_seq, &self.watchers);
            let look = Look { object: &self.object, snap_seq, watchers, mtime: self.mtime, there: Cell::new(there) };
            let input = Bytes::copy_from_slice(input);
            let mut call = Call::new(&look, input, self.origin, self.now, Bytes::from_static(b"object"));
            call.place = self.place;
            let outcome = (method.run)(&mut call);
            let changes = std::mem::take(&mut call.changes);
            match outcome {
                Err(Fail::Unread(_)) => continue,
                Err(Fail::Errno(errno)) => return Err(errno),
                Ok(output) => {
                    assert!(changes.is_empty() || method.writes(), "a method without the write flag changed something");
                    for change in changes {
                        self.apply(change)?;
                    }
                    return Ok(output);
                }
            }
        }
        unreachable!("the loop ends with a return")
    }

    fn apply(&mut self, change: Change) -> Result<(), Errno> {
        if let Change::Create { exclusive: true } = change
            && self.object.is_some()
        {
            return Err(Errno::EEXIST);
        }
        if change == Change::Remove {
            return self.object.take().map(drop).ok_or(Errno::ENOENT);
        }
        let object = self.object.get_or_insert_default();
        match change {
            Change::Create { .. } | Change::Remove => {}
            Change::Write(offset, data) => {
                let (start, end) = (offset as usize, offset as usize + data.len());
                object.data.resize(object.data.len().max(end), 0);
                data.copy_to(&mut object.data[start..end]);
            }
            Change::WriteFull(data) => object.data = data.to_vec(),
            Change::Zero(offset, length) => {
                let end = object.data.len().min((offset + length) as usize);
                object.data[..end].iter_mut().skip(offset as usize).for_each(|b| *b = 0);
            }
            Change::Truncate(size) => object.data.resize(size as usize, 0),
            Change::SetXattr(name, value) => drop(object.xattrs.insert(name, value)),
            Change::RemoveXattr(name) => drop(object.xattrs.remove(&name)),
            Change::OmapSet(pairs) => object.omap.extend(pairs),
            Change::OmapRemove(keys) => keys.iter().for_each(|k| drop(object.omap.remove(k))),
            Change::OmapRemoveRange(first, end) => object.omap.retain(|k, _| *k < first || *k >= end),
            Change::OmapHeader(header) => object.header = header,
            Change::OmapClear => {
                object.omap.clear();
                object.header = Bytes::new();
            }
        }
        Ok(())
    }
}
