//! Checks the index on disk: every page, every value, and what refers to which block.

use super::{BlockRead, Report, Severity};
use crate::block::{BLOCK, Cell, Patch, RANGE, Where, blocks};
use crate::family::Family;
use crate::index::keys;
use crate::index::page::{PageRef, Ptr};
use crate::onode::{Onode, Shared};
use crate::space::bits::{Bits, CHUNK};
use crate::space::refs::decode_shared;
use crate::store::Store;
use bytes::Bytes;
use denc::Reader;
use node::DeviceId;
use std::collections::BTreeMap;

/// A number for each block, as the sets of blocks whose number has a one in its first, second, third binary digit and so
/// on. Memory is a bit for each digit and block that some chunk needs: 32 MiB for a TiB whose blocks have one reference each.
struct Counts {
    digits: Vec<Bits>,
    blocks: u64,
}

impl Counts {
    fn new(blocks: u64) -> Self {
        Self { digits: Vec::new(), blocks }
    }

    /// Adds one to the number of a block.
    fn count(&mut self, block: u64) {
        for digit in 0.. {
            if self.digits.len() == digit {
                self.digits.push(Bits::new(self.blocks));
            }
            if self.digits[digit].write(block, 1, true) == 1 {
                break;
            }
            self.digits[digit].write(block, 1, false);
        }
    }

    /// Sets the number of a block that has none.
    fn set(&mut self, block: u64, n: u32) {
        for digit in (0..32).filter(|digit| n >> digit & 1 == 1) {
            while self.digits.len() <= digit {
                self.digits.push(Bits::new(self.blocks));
            }
            self.digits[digit].write(block, 1, true);
        }
    }

    fn get(&self, block: u64) -> u32 {
        self.digits.iter().enumerate().map(|(i, digit)| u32::from(digit.get(block)) << i).sum()
    }

    /// Says whether a block of a chunk has a number.
    fn any(&self, chunk: u64) -> bool {
        self.digits.iter().any(|digit| digit.any(chunk))
    }

    /// Bytes of memory.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.digits.iter().map(Bits::bytes).sum()
    }
}

/// What the check has seen on its way.
struct Seen {
    /// Blocks of onodes, and whether they have attributes or an omap, by id.
    onodes: BTreeMap<u64, (u64, bool)>,
    /// The parts that onodes have in families of omaps, with their ids.
    shared_omaps: Vec<(u64, Shared)>,
    /// Families of omaps.
    families: BTreeMap<u64, Family>,
    /// Ids and kinds of what hangs below them, in order.
    inner: Vec<(u64, u8)>,
    /// Id of the object whose extents came last, and its last block.
    extent: Option<(u64, u64)>,
    /// Ids whose last block of data is behind the object's end, or that are of no object; with that block.
    strays: Vec<(u64, u64)>,
    /// References by block.
    references: Counts,
    /// What sections Y and Z say.
    shared: Counts,
    used: Bits,
    last: Option<Bytes>,
    /// Ranges of keys in pages that cannot be read, with the place of the page.
    lost: Vec<(Bytes, Option<Bytes>, String)>,
}

/// Checks the tree of the store's superblock.
pub(super) fn check(disks: &mut dyn BlockRead, store: &Store, report: &mut Report) {
    let mut seen = Seen {
        onodes: BTreeMap::new(),
        shared_omaps: Vec::new(),
        families: BTreeMap::new(),
        inner: Vec::new(),
        extent: None,
        strays: Vec::new(),
        references: Counts::new(store.space.mapped()),
        shared: Counts::new(store.space.mapped()),
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
        seen.end_extents();
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
            Some(&keys::FAMILY) => self.family(&key, value),
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
        let Some((id, kind)) = id.zip(key.get(keys::INNER_HEAD - 1).copied()) else { return false };
        if self.inner.last() != Some(&(id, kind)) {
            self.inner.push((id, kind));
        }
        matches!(kind, keys::XATTR | keys::HEADER | keys::OMAP | keys::SAID)
    }

    fn family(&mut self, key: &[u8], value: &[u8]) -> bool {
        let (Some(id), Some(family)) = (keys::family_of(key), Family::decode(value)) else { return false };
        self.families.insert(id, family);
        true
    }

    fn onode(&mut self, key: &[u8], value: &Bytes, place: &str, report: &mut Report) -> bool {
        let (Some(object), Some(onode)) = (keys::object(key), Onode::decode(value)) else { return false };
        if self.onodes.insert(onode.id, (blocks(onode.size), onode.xattrs || onode.omap)).is_some() {
            report.find(Severity::Fatal, place, format!("{object} has the id {} of another object", onode.id));
        }
        self.shared_omaps.extend(onode.shared.map(|shared| (onode.id, shared)));
        true
    }

    fn extent(&mut self, key: &[u8], value: &Bytes) -> bool {
        let Some((id, range)) = keys::extent_of(key) else { return false };
        let Ok(patch) = Patch::decode(&mut Reader::new(value)) else { return false };
        for i in 0..16 {
            let Cell::Data(block) = patch.get(i) else { continue };
            if self.extent.is_some_and(|(last, _)| last != id) {
                self.end_extents();
            }
            self.extent = Some((id, u64::from(range) * RANGE + u64::from(i)));
            match block.place.place() {
                Where::Disk(at) if at < self.used.len() => self.references.count(at),
                Where::Bad => (),
                _ => return false,
            }
        }
        patch.complete() && patch.has_data()
    }

    /// All extents of an object have come. Names come before them.
    fn end_extents(&mut self) {
        if let Some((id, last)) = self.extent.take()
            && self.onodes.get(&id).is_none_or(|(blocks, _)| last >= *blocks)
        {
            self.strays.push((id, last));
        }
    }

    fn shared(&mut self, key: &[u8], value: &[u8]) -> bool {
        let (Some(chunk), Ok(others)) = (keys::chunk_of(keys::SHARED, key), decode_shared(value)) else { return false };
        let base = u64::from(chunk) * CHUNK;
        for (block, n) in (base..).zip(others).filter(|(_, n)| *n > 0) {
            if block >= self.used.len() {
                return false;
            }
            self.shared.set(block, n);
        }
        true
    }

    /// Each layer of an object is that of one object. Gives all layers, and omaps that are at another id than their object's: whether each
    /// is a base.
    fn compare_families(&mut self, report: &mut Report) -> BTreeMap<u64, bool> {
        let (mut owners, mut lives) = (BTreeMap::new(), BTreeMap::new());
        for (number, family) in &self.families {
            let place = || format!("family of omaps {number}");
            for (i, layer) in family.layers().iter().enumerate() {
                if owners.insert(layer.id, i + 1 == family.layers().len()).is_some() {
                    report.find(Severity::Fatal, place(), format!("the layer {} is in two places", layer.id));
                }
                if layer.lives {
                    lives.insert((*number, layer.id), 0);
                }
            }
        }
        for (id, shared) in &self.shared_omaps {
            match lives.get_mut(&(shared.family, shared.id)) {
                Some(objects) => *objects += 1,
                None if !self.families.contains_key(&shared.family) && owners.insert(shared.id, true).is_none() => (),
                None => report.find(Severity::Fatal, format!("onode {id}"), format!("its omap {} is of no layer", shared.id)),
            }
        }
        for ((number, layer), objects) in lives {
            if objects != 1 {
                let place = format!("family of omaps {number}");
                report.find(Severity::Fatal, place, format!("the layer {layer} belongs to {objects} objects"));
            }
        }
        self.shared_omaps.sort_unstable_by_key(|(id, _)| *id);
        owners
    }

    fn compare_ids(&mut self, report: &mut Report) {
        let owners = self.compare_families(report);
        for (id, kind) in &self.inner {
            let owned = match (*kind, owners.get(id)) {
                (keys::OMAP, Some(is_base)) => *is_base,
                (keys::SAID, Some(is_base)) => !is_base,
                (keys::SAID, None) => false,
                // Its object has another omap now.
                (keys::OMAP, None) if self.shared_omaps.binary_search_by_key(id, |(id, _)| *id).is_ok() => false,
                _ => self.onodes.get(id).is_some_and(|(_, inner)| *inner),
            };
            if !owned {
                report.find(Severity::Fatal, format!("onode {id}"), "attributes or omap without an object that has them");
            }
        }
        for (id, last) in &self.strays {
            report.find(Severity::Fatal, format!("onode {id}"), format!("data at block {last} behind the object's end"));
        }
    }

    fn compare_blocks(&self, report: &mut Report) {
        for chunk in 0..self.used.chunks() {
            // Most of a large disk may never have been written.
            if !self.references.any(chunk) && !self.shared.any(chunk) && !self.used.any(chunk) {
                continue;
            }
            let (mut wrong, mut first) = (0, None);
            for block in chunk * CHUNK..self.used.len().min((chunk + 1) * CHUNK) {
                let (used, refs, shared) = (u32::from(self.used.get(block)), self.references.get(block), self.shared.get(block));
                report.data_blocks += u64::from(refs > 0);
                report.shared += u64::from(refs.saturating_sub(1));
                // A damaged table may say anything.
                if u64::from(refs) != u64::from(used) + u64::from(shared) {
                    wrong += 1;
                    first = first.or(Some((block, used, refs, shared)));
                }
            }
            if let Some((block, used, refs, shared)) = first {
                report.find(
                    Severity::Fatal,
                    format!("data disk, block {block}"),
                    format!(
                        "has {refs} references, the map says used: {used} and {shared} more ({wrong} such blocks in its chunk)"
                    ),
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
        Some(&keys::FAMILY) => "who shares an omap with whom".into(),
        Some(&keys::META) => keys::scope(key).map_or_else(|| "keys of groups".into(), |s| format!("keys of group {s}")),
        Some(&(keys::SHARED | keys::FREE)) => "the map of free space".into(),
        _ => "the begin of the index".to_owned(),
    };
    format!("the part of the index from {} up to {}", key(from), to.map_or_else(|| "its end".into(), key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_blocks_take_few_bits() {
        let mut counts = Counts::new(3 * CHUNK);
        for n in [1, 2, 3, 7, 300] {
            (0..n).for_each(|_| counts.count(CHUNK + n));
            assert_eq!(counts.get(CHUNK + n), n as u32);
        }
        counts.set(5, 1 << 31 | 9);
        assert_eq!((counts.get(5), counts.get(6)), (1 << 31 | 9, 0));
        assert_eq!([0, 1, 2].map(|chunk| counts.any(chunk)), [true, true, false]);
        // A TiB in which each block has one reference but for one in each chunk, which has two.
        let chunks = (1 << 40) / BLOCK as u64 / CHUNK / 64;
        let mut counts = Counts::new(chunks * CHUNK);
        for chunk in 0..chunks {
            (0..CHUNK).for_each(|i| counts.count(chunk * CHUNK + i));
            counts.count(chunk * CHUNK + 77);
        }
        let bytes = 64 * counts.bytes();
        assert!(bytes < 160 << 20, "{bytes} bytes for a TiB");
    }
}
