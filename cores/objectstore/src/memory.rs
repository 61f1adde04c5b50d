//! A store in memory: the plain meaning of the language, against which real stores and placement groups are tested.
//!
//! It can be told to behave badly in all the ways that the language allows: to miss what was not fetched, to hold
//! commits back, to lose at a crash what was not committed, to be full, to have damaged objects.

use crate::{
    Damage, Event, Hold, Limit, MetaChange, ObjectChange, ObjectChanges, ObjectStat, ObjectStore, Page, Range, Read, Refused,
    Space, Ticket, Transaction, Unfit, Unread, View, Wish,
};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use types::{ObjectId, Rope, ShardId, SpgId};

/// Bytes that cannot be read of an object whose source did not exist.
const LOST: usize = 4096;

/// An object in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Object {
    data: Vec<u8>,
    /// Written ranges, `start → end`, never touching.
    written: BTreeMap<u64, u64>,
    info: Bytes,
    xattrs: BTreeMap<Bytes, Bytes>,
    omap_header: Bytes,
    /// Its first bytes are lost: what it was made of did not exist.
    lost: bool,
    omap: BTreeMap<Bytes, Bytes>,
}

impl Object {
    /// Returns what is made of a source that does not exist.
    fn lost() -> Self {
        let mut lost = Self::default();
        lost.write(0, &vec![0; LOST].into());
        lost.lost = true;
        lost
    }

    fn mark_written(&mut self, mut start: u64, mut end: u64) {
        let touching: Vec<u64> = self.written.range(..=end).filter(|(_, e)| **e >= start).map(|(s, _)| *s).collect();
        for s in touching {
            if let Some(e) = self.written.remove(&s) {
                start = start.min(s);
                end = end.max(e);
            }
        }
        if start < end {
            self.written.insert(start, end);
        }
    }

    fn mark_hole(&mut self, start: u64, end: u64) {
        let cut: Vec<(u64, u64)> = self.written.range(..end).filter(|(_, e)| **e > start).map(|(s, e)| (*s, *e)).collect();
        for (s, e) in cut {
            self.written.remove(&s);
            if s < start {
                self.written.insert(s, start);
            }
            if end < e {
                self.written.insert(end, e);
            }
        }
    }

    fn write(&mut self, offset: u64, data: &Rope) {
        let (start, end) = (offset as usize, offset as usize + data.len());
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        data.copy_to(&mut self.data[start..end]);
        self.lost &= start > 0 || end < LOST;
        self.mark_written(offset, end as u64);
    }

    fn xor(&mut self, offset: u64, data: &Rope) {
        let lost = self.lost;
        let (start, end) = (offset as usize, offset as usize + data.len());
        let mut bytes = data.to_vec();
        let there = self.data.get(start..end.min(self.data.len())).unwrap_or_default();
        bytes.iter_mut().zip(there).for_each(|(new, old)| *new ^= old);
        self.write(offset, &bytes.into());
        self.lost = lost;
    }

    /// Takes ranges of another object. What is lost there is lost here.
    fn clone_ranges(&mut self, source: &Self, ranges: &[(u64, u64)]) {
        for (offset, len) in ranges {
            let end = offset.saturating_add(*len).min(source.data.len() as u64);
            if *offset >= end {
                continue;
            }
            let lost = source.lost && *offset < LOST as u64;
            self.write(*offset, &source.data[*offset as usize..end as usize].to_vec().into());
            self.mark_hole(*offset, end);
            let cut = |(s, e): (&u64, &u64)| ((*s).max(*offset), (*e).min(end));
            source.written.iter().map(cut).filter(|(s, e)| s < e).for_each(|(s, e)| self.mark_written(s, e));
            self.lost |= lost;
        }
    }

    fn zero(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.data.len() as u64);
        if offset < end {
            self.data[offset as usize..end as usize].fill(0);
            self.mark_hole(offset, end);
            self.lost &= offset > 0 || end < LOST as u64;
        }
    }

    fn truncate(&mut self, size: u64) {
        self.mark_hole(size, u64::MAX);
        self.lost &= size > 0;
        self.data.resize(size as usize, 0);
    }

    /// A change that leads neither away from this object nor to another.
    fn apply(&mut self, change: &ObjectChange) {
        match change {
            ObjectChange::Create | ObjectChange::Remove | ObjectChange::CloneOf(_) => (),
            ObjectChange::CloneRange(..) | ObjectChange::TakeOver(_) => (),
            ObjectChange::Write(offset, data) => self.write(*offset, data),
            ObjectChange::Xor(offset, data) => self.xor(*offset, data),
            ObjectChange::Zero(offset, len) => self.zero(*offset, *len),
            ObjectChange::Truncate(size) => self.truncate(*size),
            ObjectChange::SetInfo(info) => self.info = info.clone(),
            ObjectChange::SetXattr(name, value) => drop(self.xattrs.insert(name.clone(), value.clone())),
            ObjectChange::RemoveXattr(name) => drop(self.xattrs.remove(name)),
            ObjectChange::ClearXattrs => self.xattrs.clear(),
            ObjectChange::OmapHeader(header) => self.omap_header = header.clone(),
            ObjectChange::OmapSet(entries) => self.omap.extend(entries.iter().cloned()),
            ObjectChange::OmapRemove(keys) => self.omap.retain(|k, _| !keys.contains(k)),
            ObjectChange::OmapRemoveRange(from, to) => self.omap.retain(|k, _| k < from || k >= to),
            ObjectChange::OmapClear => {
                self.omap.clear();
                self.omap_header = Bytes::new();
            }
        }
    }
}

/// Everything stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    objects: BTreeMap<ObjectId, Object>,
    meta: BTreeMap<SpgId, BTreeMap<Bytes, Bytes>>,
}

impl State {
    fn object(&mut self, name: &ObjectId) -> &mut Object {
        self.objects.entry(name.clone()).or_default()
    }

    /// Carries a transaction out. Gives the objects whose source did not exist.
    fn apply(&mut self, transaction: &Transaction) -> Vec<ObjectId> {
        let mut without_source = Vec::new();
        for ObjectChanges { object, changes } in &transaction.objects {
            for change in changes {
                self.apply_one(object, change);
                if change.needs(object).is_some() && self.objects.get(object).is_some_and(|made| made.lost) {
                    without_source.push(object.clone());
                }
            }
        }
        transaction.meta.iter().for_each(|change| self.change_meta(&transaction.scope, change));
        without_source
    }

    fn apply_one(&mut self, name: &ObjectId, change: &ObjectChange) {
        match change {
            ObjectChange::Remove => drop(self.objects.remove(name)),
            ObjectChange::CloneOf(from) | ObjectChange::TakeOver(from) => {
                let object = self.objects.get(from).cloned().unwrap_or_else(Object::lost);
                if matches!(change, ObjectChange::TakeOver(_)) {
                    self.objects.remove(from);
                }
                self.objects.insert(name.clone(), object);
            }
            ObjectChange::CloneRange(from, ranges) => {
                let Some(source) = self.objects.get(from).cloned() else {
                    self.objects.insert(name.clone(), Object::lost());
                    return;
                };
                let object = self.object(name);
                if from != name {
                    object.clone_ranges(&source, ranges);
                }
            }
            ObjectChange::Xor(..) if !self.objects.contains_key(name) => {
                self.objects.insert(name.clone(), Object::lost());
            }
            ObjectChange::RemoveXattr(_) | ObjectChange::OmapRemove(_) | ObjectChange::OmapRemoveRange(..) => {
                if let Some(object) = self.objects.get_mut(name) {
                    object.apply(change);
                }
            }
            _ => self.object(name).apply(change),
        }
    }

    fn change_meta(&mut self, scope: &SpgId, change: &MetaChange) {
        let keys = self.meta.entry(*scope).or_default();
        match change {
            MetaChange::Set(key, value) => drop(keys.insert(key.clone(), value.clone())),
            MetaChange::Remove(key) => drop(keys.remove(key)),
            MetaChange::RemoveRange(from, to) => keys.retain(|k, _| k < from || k >= to),
        }
        if keys.is_empty() {
            self.meta.remove(scope);
        }
    }
}

/// A store in memory. See the module's text.
#[derive(Clone, Debug, Default)]
pub struct MemStore {
    live: State,
    durable: State,
    pending: VecDeque<(Transaction, Ticket)>,
    events: VecDeque<Event>,
    /// Objects (and meta scopes, as their object-less names) in memory for each hold.
    fetched: BTreeMap<Hold, BTreeSet<u64>>,
    /// Every read of an object that its hold did not fetch is a miss.
    pub miss: bool,
    /// Commits wait for [`MemStore::commit`].
    pub hold_commits: bool,
    /// Reads of these objects' data fail.
    pub damaged: BTreeSet<ObjectId>,
    /// Transactions that do more than remove are refused.
    pub full: bool,
    /// Value of [`Space::host_full`].
    pub host_full: bool,
}

impl MemStore {
    /// An empty store that never misses and commits at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the `n` oldest submitted transactions durable.
    pub fn commit(&mut self, n: usize) {
        for _ in 0..n {
            let Some((transaction, ticket)) = self.pending.pop_front() else { return };
            self.durable.apply(&transaction);
            self.events.push_back(Event::Committed(ticket));
        }
    }

    /// Transactions that are not durable yet.
    pub fn uncommitted(&self) -> usize {
        self.pending.len()
    }

    /// Returns what a restart after a crash finds: the durable state, no events, no holds.
    pub fn crash(self) -> Self {
        Self {
            live: self.durable.clone(),
            durable: self.durable,
            miss: self.miss,
            hold_commits: self.hold_commits,
            ..Self::default()
        }
    }

    /// Returns true if something in it is to be made of what does not exist, as far as transactions were submitted.
    pub fn lacks_source(&self, objects: &[ObjectChanges]) -> bool {
        let mut there: BTreeMap<&ObjectId, bool> = BTreeMap::new();
        for (object, change) in objects.iter().flat_map(|of| of.changes.iter().map(move |change| (&of.object, change))) {
            if let Some(source) = change.needs(object) {
                if !there.get(source).copied().unwrap_or_else(|| self.live.objects.contains_key(source)) {
                    return true;
                }
                there.insert(source, !matches!(change, ObjectChange::TakeOver(_)));
            }
            let was = there.get(object).copied().unwrap_or_else(|| self.live.objects.contains_key(object));
            let is = match change {
                ObjectChange::Remove => false,
                ObjectChange::RemoveXattr(_) | ObjectChange::OmapRemove(_) | ObjectChange::OmapRemoveRange(..) => was,
                _ => true,
            };
            there.insert(object, is);
        }
        false
    }

    /// All objects, in order.
    pub fn objects(&self) -> impl Iterator<Item = &ObjectId> {
        self.live.objects.keys()
    }

    /// Returns true if both hold the same.
    pub fn same_content(&self, other: &Self) -> bool {
        self.live == other.live
    }

    fn touch(&self, hold: Hold, object: &ObjectId) -> Read<()> {
        // The place of an object in the wish: any number that names it will do.
        let name = u64::from(object.hash)
            ^ (object.snap.0 << 17)
            ^ u64::from(types::hash::rjenkins(&object.name)) << 32
            ^ u64::from(object.shard.0.cast_unsigned()) << 8
            ^ !object.generation << 24;
        self.touch_name(hold, name)
    }

    fn touch_name(&self, hold: Hold, name: u64) -> Read<()> {
        let there = !self.miss || self.fetched.get(&hold).is_some_and(|names| names.contains(&name));
        if there { Ok(()) } else { Err(Unread::Missing(Wish(vec![name]))) }
    }

    fn get(&self, hold: Hold, object: &ObjectId) -> Read<Option<&Object>> {
        self.touch(hold, object)?;
        Ok(self.live.objects.get(object))
    }

    fn meta(&self, hold: Hold, scope: &SpgId) -> Read<Option<&BTreeMap<Bytes, Bytes>>> {
        self.touch_name(hold, u64::from(scope.pg.seed) ^ (scope.pg.pool as u64) << 40)?;
        Ok(self.live.meta.get(scope))
    }
}

/// The error of a change whose source does not exist.
fn no_source(source: &ObjectId) -> Unread {
    Unread::Damaged(Damage {
        what: format!("{source}, which is to be copied and does not exist"),
        offset: 0,
        expected: 0,
        found: 0,
    })
}

/// Returns true if no key can lie in `range` (for which `BTreeMap::range` would panic).
fn is_empty_range(range: Range<'_>) -> bool {
    match range {
        (Bound::Included(a), Bound::Included(b)) => a > b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a >= b,
        _ => false,
    }
}

fn scan(map: Option<&BTreeMap<Bytes, Bytes>>, range: Range<'_>, limit: Limit) -> Page {
    let mut page = Page::default();
    let Some(map) = map.filter(|_| !is_empty_range(range)) else { return page };
    let mut bytes = 0;
    for (key, value) in map.range::<[u8], _>(range) {
        bytes += key.len() + value.len();
        if !page.entries.is_empty() && (page.entries.len() >= limit.entries || bytes > limit.bytes) {
            page.more = true;
            break;
        }
        page.entries.push((key.clone(), value.clone()));
    }
    page
}

impl View for MemStore {
    fn stat(&self, hold: Hold, object: &ObjectId) -> Read<Option<ObjectStat>> {
        Ok(self.get(hold, object)?.map(|o| ObjectStat {
            size: o.data.len() as u64,
            info: o.info.clone(),
            has_omap: !o.omap.is_empty(),
        }))
    }

    fn read(&self, hold: Hold, object: &ObjectId, offset: u64, len: u64) -> Read<Rope> {
        let Some(o) = self.get(hold, object)? else { return Ok(Rope::new()) };
        if self.damaged.contains(object) || (o.lost && offset < LOST as u64) {
            return Err(Unread::Damaged(Damage { what: object.to_string(), offset, expected: 1, found: 2 }));
        }
        let size = o.data.len() as u64;
        let (start, end) = (offset.min(size), offset.saturating_add(len).min(size));
        Ok(Bytes::copy_from_slice(&o.data[start as usize..end as usize]).into())
    }

    fn extents(&self, hold: Hold, object: &ObjectId, offset: u64, len: u64) -> Read<Vec<(u64, u64)>> {
        let Some(o) = self.get(hold, object)? else { return Ok(Vec::new()) };
        let end = offset.saturating_add(len).min(o.data.len() as u64);
        let cut = |(s, e): (&u64, &u64)| ((*s).max(offset), (*e).min(end));
        Ok(o.written.iter().map(cut).filter(|(s, e)| s < e).map(|(s, e)| (s, e - s)).collect())
    }

    fn xattr(&self, hold: Hold, object: &ObjectId, name: &[u8]) -> Read<Option<Bytes>> {
        Ok(self.get(hold, object)?.and_then(|o| o.xattrs.get(name).cloned()))
    }

    fn xattrs(&self, hold: Hold, object: &ObjectId) -> Read<Vec<(Bytes, Bytes)>> {
        let object = self.get(hold, object)?;
        Ok(object.map(|o| o.xattrs.iter().map(|(k, v)| (k.clone(), v.clone())).collect()).unwrap_or_default())
    }

    fn omap_header(&self, hold: Hold, object: &ObjectId) -> Read<Bytes> {
        Ok(self.get(hold, object)?.map(|o| o.omap_header.clone()).unwrap_or_default())
    }

    fn omap_scan(&self, hold: Hold, object: &ObjectId, range: Range<'_>, limit: Limit) -> Read<Page> {
        Ok(scan(self.get(hold, object)?.map(|o| &o.omap), range, limit))
    }

    fn omap_get(&self, hold: Hold, object: &ObjectId, keys: &[Bytes]) -> Read<Vec<(Bytes, Bytes)>> {
        let Some(o) = self.get(hold, object)? else { return Ok(Vec::new()) };
        Ok(keys.iter().filter_map(|k| o.omap.get(k).map(|v| (k.clone(), v.clone()))).collect())
    }

    fn list(&self, hold: Hold, shard: ShardId, from: &ObjectId, to: &ObjectId, max: usize) -> Read<Vec<ObjectId>> {
        self.touch(hold, from)?;
        if from >= to {
            return Ok(Vec::new());
        }
        let names = self.live.objects.range(from..to).map(|(name, _)| name);
        Ok(names.filter(|name| name.shard == shard).take(max).cloned().collect())
    }

    fn meta_get(&self, hold: Hold, scope: &SpgId, key: &[u8]) -> Read<Option<Bytes>> {
        Ok(self.meta(hold, scope)?.and_then(|m| m.get(key).cloned()))
    }

    fn meta_scan(&self, hold: Hold, scope: &SpgId, range: Range<'_>, limit: Limit) -> Read<Page> {
        Ok(scan(self.meta(hold, scope)?, range, limit))
    }

    fn scopes(&self, hold: Hold) -> Read<Vec<SpgId>> {
        self.touch_name(hold, u64::MAX)?;
        Ok(self.live.meta.keys().copied().collect())
    }
}

impl ObjectStore for MemStore {
    fn fetch(&mut self, hold: Hold, wish: Wish) {
        self.fetched.entry(hold).or_default().extend(wish.0);
        self.events.push_back(Event::Fetched(hold));
    }

    fn release(&mut self, hold: Hold) {
        self.fetched.remove(&hold);
    }

    fn rehearse(&self, hold: Hold, objects: &[ObjectChanges]) -> Result<(), Unfit> {
        let (mut gone, mut made) = (BTreeSet::new(), BTreeSet::new());
        for (name, change) in objects.iter().flat_map(|o| o.changes.iter().map(move |change| (&o.object, change))) {
            if let Some(source) = change.needs(name)
                && self.get(hold, source)?.is_none()
                && !made.contains(source)
            {
                return Err(no_source(source).into());
            }
            made.insert(name);
            let (object, from, to) = match change {
                ObjectChange::Truncate(0) | ObjectChange::Remove => {
                    gone.insert(name);
                    continue;
                }
                ObjectChange::Write(offset, data) => (name, *offset, offset + data.len() as u64),
                ObjectChange::Zero(offset, len) => (name, *offset, offset.saturating_add(*len)),
                ObjectChange::Truncate(size) => (name, *size, u64::MAX),
                ObjectChange::Xor(..) => (name, u64::MAX, u64::MAX),
                ObjectChange::CloneOf(source) | ObjectChange::CloneRange(source, _) => (source, u64::MAX, u64::MAX),
                _ => continue,
            };
            let Some(there) = self.get(hold, object)? else { continue };
            let remains = from > 0 || to < there.data.len() as u64;
            if remains && self.damaged.contains(object) && !gone.contains(object) {
                return Err(Unread::Damaged(Damage { what: object.to_string(), offset: 0, expected: 1, found: 2 }).into());
            }
        }
        Ok(())
    }

    fn submit(&mut self, transaction: Transaction, ticket: Ticket) -> Result<(), Refused> {
        if self.full && !transaction.only_removes() {
            return Err(Refused::NoSpace);
        }
        let lost = self.live.apply(&transaction);
        if !lost.is_empty() {
            self.events.push_back(Event::Damaged(ticket, lost));
        }
        self.pending.push_back((transaction, ticket));
        if !self.hold_commits {
            self.commit(1);
        }
        Ok(())
    }

    fn congested(&self) -> bool {
        false
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn space(&self) -> Space {
        let data = self.live.objects.values().map(|o| o.written.iter().map(|(s, e)| e - s).sum::<u64>()).sum();
        let omap = self.live.objects.values().flat_map(|o| &o.omap).map(|(k, v)| (k.len() + v.len()) as u64).sum();
        let total = 1 << 40;
        Space { total, available: total - data - omap, data, omap, meta: 0, host_full: self.host_full }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mutation;
    use types::{HObject, Locator};

    fn object(name: &'static str) -> ObjectId {
        HObject::head(Bytes::from_static(name.as_bytes()), &Locator::pool(1)).into()
    }

    fn change(change: ObjectChange) -> Transaction {
        [Mutation::of(object("a"), change)].into_iter().collect()
    }

    fn write(offset: u64, data: &[u8]) -> Transaction {
        change(ObjectChange::Write(offset, data.to_vec().into()))
    }

    #[test]
    fn a_crash_keeps_what_was_committed_and_nothing_else() {
        let mut store = MemStore { hold_commits: true, ..MemStore::new() };
        store.submit(write(0, b"one"), Ticket(1)).unwrap();
        store.submit(write(0, b"two"), Ticket(2)).unwrap();
        assert_eq!(store.read(Hold(0), &object("a"), 0, 9).unwrap().to_vec(), b"two", "later reads see submitted state");
        store.commit(1);
        assert_eq!((store.poll_event(), store.poll_event()), (Some(Event::Committed(Ticket(1))), None));
        assert_eq!(store.crash().read(Hold(0), &object("a"), 0, 9).unwrap().to_vec(), b"one");
    }

    #[test]
    fn a_source_that_does_not_exist_is_an_error() {
        for make in [ObjectChange::CloneOf, ObjectChange::TakeOver] {
            let mut store = MemStore::new();
            store.submit(write(0, b"old"), Ticket(1)).unwrap();
            let lost = change(make(object("b")));
            assert!(store.rehearse(Hold(0), &lost.objects).is_err());
            store.submit(lost, Ticket(2)).unwrap();
            let told = Event::Damaged(Ticket(2), vec![object("a")]);
            assert_eq!([store.poll_event(), store.poll_event()], [Some(Event::Committed(Ticket(1))), Some(told)]);
            assert!(store.read(Hold(0), &object("a"), 0, 9).is_err(), "nobody reads what it was for what it became");
        }
    }

    #[test]
    fn what_is_taken_over_has_one_name() {
        let mut store = MemStore::new();
        store.submit(write(0, b"one"), Ticket(1)).unwrap();
        let taken = [Mutation::of(object("b"), ObjectChange::TakeOver(object("a")))].into_iter().collect();
        store.submit(taken, Ticket(2)).unwrap();
        assert_eq!(store.stat(Hold(0), &object("a")).unwrap(), None);
        assert_eq!(store.read(Hold(0), &object("b"), 0, 9).unwrap().to_vec(), b"one");
    }

    #[test]
    fn holes_read_as_zero_and_extents_tell_them() {
        let mut store = MemStore::new();
        store.submit(write(10, b"xx"), Ticket(1)).unwrap();
        store.submit(write(12, b"yy"), Ticket(2)).unwrap();
        assert_eq!(store.extents(Hold(0), &object("a"), 0, 100).unwrap(), [(10, 4)]);
        store.submit(change(ObjectChange::Zero(11, 2)), Ticket(3)).unwrap();
        assert_eq!(store.extents(Hold(0), &object("a"), 0, 100).unwrap(), [(10, 1), (13, 1)]);
        assert_eq!(store.read(Hold(0), &object("a"), 9, 9).unwrap().to_vec(), b"\0x\0\0y");
    }

    #[test]
    fn a_miss_is_served_after_the_fetch_and_again_missed_after_the_release() {
        let mut store = MemStore { miss: true, ..MemStore::new() };
        store.submit(write(0, b"one"), Ticket(1)).unwrap();
        let Err(Unread::Missing(wish)) = store.stat(Hold(7), &object("a")) else { panic!("must miss") };
        store.fetch(Hold(7), wish);
        assert_eq!(store.stat(Hold(7), &object("a")).unwrap().map(|s| s.size), Some(3));
        assert!(store.stat(Hold(8), &object("a")).is_err());
        store.release(Hold(7));
        assert!(store.stat(Hold(7), &object("a")).is_err());
    }
}
