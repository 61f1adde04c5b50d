//! Reads what this copy holds of a range of objects, a part at a time. Primary and replicas do it alike.

use super::entry::{Answer, Entry};
use crate::info::ObjectInfo;
use crate::sizes::Sizes;
use bytes::Bytes;
use kernels::{SEED, crc32c};
use messages::scrub::shard;
use objectstore::{Damage, Hold, Limit, Read, Unread, View};
use std::collections::VecDeque;
use std::ops::Bound;
use types::object_id::CURRENT;
use types::{HObject, ObjectId, ShardId, SnapId};

/// Attributes of one object that are told, in bytes of names and values.
const ATTRS: usize = 64 << 10;

/// Part that is read next.
#[derive(Clone, Debug)]
enum Part {
    List,
    Record,
    Xattrs,
    Data(u64),
    OmapHeader,
    Omap(Bytes),
}

/// Size of an omap, or of many of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OmapSize {
    /// Keys.
    pub(crate) keys: u64,
    /// Bytes of keys and values.
    pub(crate) bytes: u64,
    /// Bytes of values alone.
    pub(crate) values: u64,
}

impl OmapSize {
    fn add(&mut self, other: OmapSize) {
        self.keys += other.keys;
        self.bytes += other.bytes;
        self.values += other.values;
    }

    fn of(pairs: &[(Bytes, Bytes)]) -> Self {
        let sum = |of: fn(&(Bytes, Bytes)) -> usize| pairs.iter().map(of).sum::<usize>() as u64;
        Self { keys: pairs.len() as u64, bytes: sum(|(k, v)| k.len() + v.len()), values: sum(|(_, v)| v.len()) }
    }
}

/// The largest omap that nobody is told of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OmapLimit {
    /// Keys (`osd_deep_scrub_large_omap_object_key_threshold`).
    pub(crate) keys: u64,
    /// Bytes of values (`osd_deep_scrub_large_omap_object_value_sum_threshold`).
    pub(crate) values: u64,
}

impl OmapLimit {
    /// For copies that are surveyed for another one, which looks at its own omaps itself.
    pub(crate) const NONE: OmapLimit = OmapLimit { keys: u64::MAX, values: u64::MAX };

    fn is_passed(self, size: OmapSize) -> bool {
        size.keys > self.keys || size.values > self.values
    }
}

/// Range that is surveyed, and how.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    /// From this object on.
    pub(crate) from: HObject,
    /// Up to this one, excluded.
    pub(crate) to: HObject,
    /// Most objects; the rest is left for another survey.
    pub(crate) max: usize,
    /// It is the primary's own: a head and its clones are not parted, even if they are more than that.
    pub(crate) whole: bool,
    /// Data and omap, too.
    pub(crate) deep: bool,
    /// Attributes themselves, too.
    pub(crate) detail: bool,
    /// Objects with larger omaps are named.
    pub(crate) large: OmapLimit,
    /// Bounds of what is read at a time, and of what is told.
    pub(crate) sizes: Sizes,
}

/// A survey under way.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) range: Range,
    shard: ShardId,
    queue: VecDeque<ObjectId>,
    part: Part,
    /// The object that is being read.
    entry: Entry,
    pub(crate) found: Vec<Entry>,
    /// Bytes of records and attributes in them.
    bytes: usize,
    /// Up to here, excluded, all is or will be found.
    pub(crate) upto: HObject,
    /// The list cannot be read.
    pub(crate) unreadable: bool,
    /// Objects that could not be read.
    pub(crate) damage: Vec<(HObject, Damage)>,
    /// Bytes of data and omaps that were read since [`Self::is_heavy`] said so.
    weight: u64,
    /// Size of what was read of the object's omap.
    omap: OmapSize,
    /// All omaps that were read.
    pub(crate) omaps: OmapSize,
    /// Objects with large omaps.
    pub(crate) large: Vec<(HObject, OmapSize)>,
}

impl Survey {
    pub(crate) fn new(shard: ShardId, range: Range) -> Self {
        let upto = range.to.clone();
        Self {
            range,
            shard,
            queue: VecDeque::new(),
            part: Part::List,
            entry: Entry::default(),
            found: Vec::new(),
            bytes: 0,
            upto,
            unreadable: false,
            damage: Vec::new(),
            weight: 0,
            omap: OmapSize::default(),
            omaps: OmapSize::default(),
            large: Vec::new(),
        }
    }

    /// Returns true if it is known which objects there are.
    pub(crate) fn is_listed(&self) -> bool {
        !matches!(self.part, Part::List)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.is_listed() && self.queue.is_empty()
    }

    /// Says whether as much was read as others of the thread should wait for: the rest comes in another turn. Small objects go many in a
    /// turn, of large ones each part is a step.
    pub(crate) fn is_heavy(&mut self) -> bool {
        let heavy = self.weight >= self.range.sizes.stride / 2;
        if heavy {
            self.weight = 0;
        }
        heavy
    }

    /// The object whose record is read next, if it is a record's turn.
    pub(crate) fn next_record(&self) -> Option<&ObjectId> {
        if matches!(self.part, Part::Record) { self.queue.front() } else { None }
    }

    /// Returns what came of it.
    pub(crate) fn into_answer(self, serial: u64) -> Answer {
        Answer { serial, upto: self.upto, unreadable: self.unreadable, found: self.found }
    }

    /// Reads the next part. What is damaged is noted and left.
    ///
    /// # Errors
    /// [`Unread::Missing`]: it must be fetched under `hold`.
    pub(crate) fn step(&mut self, store: &dyn View, hold: Hold) -> Read<()> {
        if self.is_done() {
            return Ok(());
        }
        match self.read(store, hold) {
            Err(Unread::Damaged(damage)) => {
                self.damaged(damage);
                Ok(())
            }
            read => read,
        }
    }

    fn read(&mut self, store: &dyn View, hold: Hold) -> Read<()> {
        let Some(object) = self.queue.front().cloned() else { return self.list(store, hold) };
        let next = match &self.part {
            Part::List | Part::Record => self.record(store, hold, &object)?,
            Part::Xattrs => {
                self.xattrs(store.xattrs(hold, &object)?);
                self.range.deep.then_some(Part::Data(0))
            }
            Part::Data(offset) => {
                let read = store.read(hold, &object, *offset, self.range.sizes.stride)?;
                let seed = self.entry.data.unwrap_or(SEED);
                self.entry.data = Some(read.pieces().iter().fold(seed, |crc, piece| crc32c(crc, piece)));
                let read = read.len() as u64;
                self.weight += read;
                Some(if read < self.range.sizes.stride { Part::OmapHeader } else { Part::Data(offset + read) })
            }
            Part::OmapHeader => {
                self.entry.omap = Some(crc32c(SEED, &store.omap_header(hold, &object)?));
                Some(Part::Omap(Bytes::new()))
            }
            Part::Omap(after) => {
                let from = if after.is_empty() { Bound::Unbounded } else { Bound::Excluded(&after[..]) };
                let limit = Limit { entries: 1024, bytes: self.range.sizes.stride as usize };
                let page = store.omap_scan(hold, &object, (from, Bound::Unbounded), limit)?;
                self.entry.omap = Some(pairs_digest(self.entry.omap.unwrap_or(SEED), &page.entries));
                let size = OmapSize::of(&page.entries);
                self.omap.add(size);
                self.weight += size.bytes;
                page.entries.last().filter(|_| page.more).map(|(key, _)| Part::Omap(key.clone()))
            }
        };
        match next {
            Some(part) => self.part = part,
            None => self.next_object(),
        }
        Ok(())
    }

    fn next_object(&mut self) {
        let entry = std::mem::take(&mut self.entry);
        let omap = std::mem::take(&mut self.omap);
        self.omaps.add(omap);
        if self.range.large.is_passed(omap) {
            self.large.push((entry.object.clone(), omap));
        }
        // One that went away since it was listed has no entry.
        if entry.object != HObject::default() {
            self.bytes += entry.record.len() + entry.attrs.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
            self.found.push(entry);
        }
        self.queue.pop_front();
        self.part = Part::Record;
        if self.bytes > self.range.sizes.answer
            && !self.range.whole
            && let Some(next) = self.queue.front()
        {
            self.upto = HObject::clone(&next.object);
            self.queue.clear();
        }
    }

    fn record(&mut self, store: &dyn View, hold: Hold, object: &ObjectId) -> Read<Option<Part>> {
        let Some(stat) = store.stat(hold, object)? else { return Ok(None) };
        let errors = match ObjectInfo::decode(&stat.info) {
            Ok(_) => 0,
            Err(_) if stat.info.is_empty() => shard::INFO_MISSING,
            Err(_) => shard::INFO_CORRUPTED,
        };
        let object = HObject::clone(&object.object);
        self.entry = Entry { object, errors, size: stat.size, record: stat.info, ..Entry::default() };
        Ok(Some(Part::Xattrs))
    }

    fn xattrs(&mut self, attrs: Vec<(Bytes, Bytes)>) {
        self.entry.attrs_digest = pairs_digest(SEED, &attrs);
        let size: usize = attrs.iter().map(|(name, value)| name.len() + value.len()).sum();
        if self.range.detail && size <= ATTRS {
            self.entry.attrs = attrs;
        }
    }

    fn list(&mut self, store: &dyn View, hold: Hold) -> Read<()> {
        let at = |object: &HObject| ObjectId::of_shard(object.clone(), self.shard);
        let (from, to, max) = (at(&self.range.from), at(&self.range.to), self.range.max.max(1));
        let mut names = store.list(hold, self.shard, &from, &to, max.saturating_add(1))?;
        let mut upto = self.range.to.clone();
        if names.len() > max
            && let Some(last) = names.last()
        {
            upto = HObject::clone(&last.object);
            if self.range.whole {
                upto = upto.at(SnapId(0));
            }
            names.retain(|name| *name.object < upto);
            if names.is_empty() {
                // One head with more clones than that.
                upto = upto.at(SnapId::DIR);
                names = store.list(hold, self.shard, &from, &at(&upto), usize::MAX)?;
            }
        }
        names.retain(|name| name.generation == CURRENT);
        (self.upto, self.queue, self.part) = (upto, names.into(), Part::Record);
        Ok(())
    }

    fn damaged(&mut self, damage: Damage) {
        let Some(object) = self.queue.front().map(|object| HObject::clone(&object.object)) else {
            self.damage.push((self.range.from.clone(), damage));
            (self.unreadable, self.part) = (true, Part::Record);
            return;
        };
        let error = if matches!(self.part, Part::Record) { shard::STAT_ERROR } else { shard::READ_ERROR };
        self.entry.object = object.clone();
        self.entry.errors |= error;
        // A digest of a part of it says nothing.
        (self.entry.data, self.entry.omap) = (None, None);
        self.damage.push((object, damage));
        self.next_object();
    }
}

/// CRC-32C of keys and values with their lengths, going on from `crc`.
fn pairs_digest(crc: u32, pairs: &[(Bytes, Bytes)]) -> u32 {
    let with_length = |crc, bytes: &Bytes| crc32c(crc32c(crc, &(bytes.len() as u64).to_le_bytes()), bytes);
    pairs.iter().fold(crc, |crc, (key, value)| with_length(with_length(crc, key), value))
}
