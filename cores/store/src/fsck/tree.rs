//! Checks the index on disk: every page, every value, and what refers to which block.

use super::{BlockRead, Report, Severity};
use crate::block::{BLOCK, Cell, Patch, RANGE, Where, blocks};
use crate::index::keys;
use crate::index::page::{PageRef, Ptr};
use crate::onode::Onode;
use crate::space::bits::{Bits, CHUNK};
use crate::space::refs::decode_shared;
use crate::store::Store;
use bytes::Bytes;
use denc::Reader;
use node::DeviceId;
use std::collections::{BTreeMap, BTreeSet};

/// What the check has seen on its way.
struct Seen {
    /// Size and flags of onodes, by id.
    onodes: BTreeMap<u64, Onode>,
    /// Ids below which there are attributes or an omap.
    inner: BTreeSet<u64>,
    /// Ids that have extents, and the last block of each.
    extents: BTreeMap<u64, u64>,
    /// References by chunk and block.
    references: BTreeMap<u32, Vec<u32>>,
    /// What sections Y and Z say.
    shared: BTreeMap<u32, Vec<u32>>,
    used: Bits,
    last: Option<Bytes>,
    /// Ranges of keys in pages that cannot be read, with the place of the page.
    lost: Vec<(Bytes, Option<Bytes>, String)>,
}

/// Checks the tree of the store's superblock.
pub(super) fn check(disks: &mut dyn BlockRead, store: &Store, report: &mut Report) {
    let mut seen = Seen {
        onodes: BTreeMap::new(),
        inner: BTreeSet::new(),
        extents: BTreeMap::new(),
        references: BTreeMap::new(),
        shared: BTreeMap::new(),
        used: Bits::new(store.space.mapped()),
        last: None,
        lost: Vec::new(),
    };
    let all = (Bytes::new(), None);
    let whole = store.sb.root.as_ref().is_none_or(|root| walk(disks, root, (None, all), &mut seen, report));
    for (from, to, place) in &seen.lost {
        report.find(Severity::Fatal, place.clone(), format!("held {}", describe(from, to.as_ref())));
    }
    if whole {
        seen.compare_ids(report);
        seen.compare_blocks(report);
    }
}

fn read_page(disks: &mut dyn BlockRead, ptr: &Ptr) -> Result<PageRef, String> {
    let mut buf = vec![0; ptr.blocks as usize * BLOCK];
    let mut at = 0;
    for (block, n) in ptr.runs() {
        let len = n as usize * BLOCK;
        disks.read(DeviceId(0), block * BLOCK as u64, &mut buf[at..at + len])?;
        at += len;
    }
    let page = PageRef::parse(buf.into(), ptr.block).ok_or("is no page that belongs there")?;
    match page.crc {
        crc if crc == ptr.crc => Ok(page),
        crc => Err(format!("is not the page that was written: checksum {:08x} expected, {crc:08x} found", ptr.crc)),
    }
}

/// Walks a subtree in order of keys. False if some of it could not be read.
fn walk(
    disks: &mut dyn BlockRead,
    ptr: &Ptr,
    (level, (from, to)): (Option<u8>, (Bytes, Option<Bytes>)),
    seen: &mut Seen,
    report: &mut Report,
) -> bool {
    let place = format!("data disk, byte {}", ptr.block * BLOCK as u64);
    let page = match read_page(disks, ptr) {
        Ok(page) => page,
        Err(why) => {
            report.find(Severity::Fatal, place.clone(), format!("index page: {why}"));
            seen.lost.push((from, to, place));
            return false;
        }
    };
    report.pages += 1;
    if level.is_some_and(|level| level != page.level()) || page.len() == 0 {
        report.find(Severity::Fatal, place.clone(), "index page: is at the wrong height, or empty");
        return false;
    }
    let mut whole = true;
    for i in 0..page.len() {
        if page.level() == 0 {
            seen.entry(page.key(i), &page.value(i), &place, report);
            continue;
        }
        if i > 0 && page.key(i - 1) >= page.key(i) {
            report.find(Severity::Fatal, place.clone(), "index page: keys are out of order");
        }
        whole &= match page.child(i) {
            Some(child) => {
                let upper = if i + 1 < page.len() { Some(page.key(i + 1)) } else { to.clone() };
                walk(disks, &child, (Some(page.level() - 1), (page.key(i), upper)), seen, report)
            }
            None => {
                report.find(Severity::Fatal, place.clone(), "index page: points nowhere");
                false
            }
        };
    }
    whole
}

impl Seen {
    fn entry(&mut self, key: Bytes, value: &Bytes, place: &str, report: &mut Report) {
        if self.last.as_ref().is_some_and(|last| *last >= key) {
            report.find(Severity::Fatal, place, format!("keys are out of order at {}", key.escape_ascii()));
        }
        let understood = match key.first() {
            Some(&keys::INNER) => self.inner_key(&key),
            Some(&keys::META) => keys::scope(&key).is_some(),
            Some(&keys::NAME) => self.onode(&key, value, place, report),
            Some(&keys::EXTENT) => self.extent(&key, value),
            Some(&keys::SHARED) => self.shared(&key, value),
            Some(&keys::FREE) => {
                keys::chunk_of(keys::FREE, &key).is_some_and(|chunk| self.used.decode_chunk(chunk, value).is_ok())
            }
            _ => false,
        };
        if !understood {
            report.find(Severity::Fatal, place, format!("index entry {} is not understood", key.escape_ascii()));
        }
        self.last = Some(key);
    }

    fn inner_key(&mut self, key: &[u8]) -> bool {
        let id = key.get(1..).and_then(|k| k.first_chunk::<8>()).map(|id| u64::from_be_bytes(*id));
        self.inner.extend(id);
        id.is_some() && key.len() >= keys::INNER_HEAD
    }

    fn onode(&mut self, key: &[u8], value: &Bytes, place: &str, report: &mut Report) -> bool {
        let (Some(object), Some(onode)) = (keys::object(key), Onode::decode(value)) else { return false };
        if let Some(other) = self.onodes.insert(onode.id, Onode { info: Bytes::new(), ..onode }) {
            report.find(Severity::Fatal, place, format!("{object} has the id {} of another object", other.id));
        }
        true
    }

    fn extent(&mut self, key: &[u8], value: &Bytes) -> bool {
        let Some((id, range)) = keys::extent_of(key) else { return false };
        let Ok(patch) = Patch::decode(&mut Reader::new(value)) else { return false };
        for i in 0..16 {
            let Cell::Data(block) = patch.get(i) else { continue };
            self.extents.insert(id, u64::from(range) * RANGE + u64::from(i));
            match block.place.place() {
                Where::Disk(at) if at < self.used.len() => {
                    let counts = self.references.entry((at / CHUNK) as u32).or_insert_with(|| vec![0; CHUNK as usize]);
                    counts[(at % CHUNK) as usize] += 1;
                }
                Where::Bad => (),
                _ => return false,
            }
        }
        patch.complete() && patch.has_data()
    }

    fn shared(&mut self, key: &[u8], value: &[u8]) -> bool {
        let (Some(chunk), Ok(others)) = (keys::chunk_of(keys::SHARED, key), decode_shared(value)) else { return false };
        self.shared.insert(chunk, others);
        true
    }

    fn compare_ids(&self, report: &mut Report) {
        for id in &self.inner {
            if self.onodes.get(id).is_none_or(|o| !o.xattrs && !o.omap) {
                report.find(Severity::Fatal, format!("onode {id}"), "attributes or omap without an object that has them");
            }
        }
        for (id, last) in &self.extents {
            if self.onodes.get(id).is_none_or(|o| *last >= blocks(o.size)) {
                report.find(Severity::Fatal, format!("onode {id}"), format!("data at block {last} behind the object's end"));
            }
        }
    }

    fn compare_blocks(&self, report: &mut Report) {
        let none = vec![0; CHUNK as usize];
        for chunk in 0..self.used.len().div_ceil(CHUNK) as u32 {
            let base = u64::from(chunk) * CHUNK;
            let any = self.references.contains_key(&chunk) || self.shared.contains_key(&chunk);
            // Most of a large disk may never have been written.
            if !any && self.used.find(base, true).is_none_or(|block| block >= base + CHUNK) {
                continue;
            }
            let counts = self.references.get(&chunk).unwrap_or(&none);
            let others = self.shared.get(&chunk).unwrap_or(&none);
            let wrong = |i: &usize| {
                let used = u32::from(self.used.get(base + *i as u64));
                counts[*i] != used + others[*i]
            };
            report.data_blocks += counts.iter().filter(|c| **c > 0).count() as u64;
            report.shared += counts.iter().map(|c| u64::from(c.saturating_sub(1))).sum::<u64>();
            if let Some(i) = (0..CHUNK as usize).find(wrong) {
                let n = (0..CHUNK as usize).filter(wrong).count();
                let (used, refs, shared) = (self.used.get(base + i as u64), counts[i], others[i]);
                report.find(
                    Severity::Fatal,
                    format!("data disk, block {}", base + i as u64),
                    format!("has {refs} references, the map says used: {used} and {shared} more ({n} such blocks in its chunk)"),
                );
            }
        }
    }
}

/// Describes a range of keys for people.
fn describe(from: &Bytes, to: Option<&Bytes>) -> String {
    let key = |key: &Bytes| match key.first() {
        Some(&keys::NAME) => keys::object(key).map_or_else(|| "objects' names".into(), |o| format!("the name of {o}")),
        Some(&keys::EXTENT) => "places of objects' data".into(),
        Some(&keys::INNER) => "attributes and omaps".into(),
        Some(&keys::META) => keys::scope(key).map_or_else(|| "keys of groups".into(), |s| format!("keys of group {s}")),
        Some(&(keys::SHARED | keys::FREE)) => "the map of free space".into(),
        _ => "the begin of the index".to_owned(),
    };
    format!("the part of the index from {} up to {}", key(from), to.map_or_else(|| "its end".into(), key))
}
