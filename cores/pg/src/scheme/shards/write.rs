//! What each shard gets of a change.
//!
//! A change comes in offsets of the object, as the operation made it. Its parts are put together first ([`Edit`]): which
//! bytes of the object stay beneath, up to where, and what lies over them. Data shards get their share of what lies over.
//! Parities are made anew where any byte changed, of all data at the same places of the shards: what is not new is read,
//! through the eye, from whoever has it. Rows that are written whole, and what lies behind the old end, need no read, since
//! nothing was there.
//!
//! | case | read before | data shards | parities |
//! |---|---|---|---|
//! | whole rows, or behind the old end | what others have at the same places of a row that was begun | `Write` | `Write` of the code |
//! | a part of a row | the same places of the other data shards | `Write` | `Write` of the code |
//! | zeros | as a write of zeros | `Zero` | `Write`, or `Zero` where all data are zeros |
//! | the object gets shorter | the rest of the row that is cut | `Truncate` | `Truncate`, and `Write` of that row |
//! | the object gets longer | nothing | `Truncate` | `Truncate` |
//! | a clone, or a way back to one | nothing | `CloneOf` of the same shard | `CloneOf` |
//!
//! Everything else (attributes, the record) goes to all shards as it is. The chunk is chosen here, and written into the
//! record, when nothing of what the object was stays; else it is the one that the object has.

use super::Shards;
use super::map::{Known, damaged};
use super::read::Eye;
use crate::info::{Layout, ObjectInfo};
use bytes::Bytes;
use ec::Geometry;
use objectstore::{Hold, ObjectChange, ObjectChanges, Read, Unread, Wish};
use std::collections::BTreeMap;
use std::ops::Range;
use types::{Intervals, ObjectId, Rope, ShardId};

/// What each shard gets of a change, by the numbers of shards: what happens to its objects, in order.
pub(crate) type Shares = Vec<Vec<ObjectChanges>>;

/// Bytes of each shard that are encoded at a time.
const SLICE: u64 = 64 << 10;

/// A change of one object, put together.
struct Edit {
    /// What lies beneath: an object that is there before the change, and what is known of it.
    base: Option<(ObjectId, Known)>,
    /// Bytes of that which stay, from the first on.
    kept: u64,
    /// Bytes of the object afterwards.
    size: u64,
    /// What lies over, by offset: length, and bytes; `None`: zeros. Nothing overlaps, nothing lies behind `size`.
    over: BTreeMap<u64, (u64, Option<Rope>)>,
    /// What is no matter of data, in order.
    others: Vec<ObjectChange>,
    /// The record that the object gets.
    record: Option<Bytes>,
}

impl Edit {
    /// An object as it is.
    fn of(base: Option<(ObjectId, Known)>) -> Self {
        let size = base.as_ref().map_or(0, |(_, known)| known.size);
        Self { base, kept: size, size, over: BTreeMap::new(), others: Vec::new(), record: None }
    }

    /// Clears a range of what lies over.
    fn clear(&mut self, range: Range<u64>) {
        let before = self.over.range(..range.start).next_back().map(|(start, _)| *start);
        let within = self.over.range(range.clone()).map(|(start, _)| *start);
        let touched: Vec<u64> = before.into_iter().chain(within).collect();
        for start in touched {
            let Some((len, data)) = self.over.remove(&start) else { continue };
            let mut keep = |from: u64, to: u64| {
                if from < to {
                    let part = data.as_ref().map(|data| data.slice((from - start) as usize, (to - from) as usize));
                    self.over.insert(from, (to - from, part));
                }
            };
            keep(start, (start + len).min(range.start).max(start));
            keep(range.end.max(start), start + len);
        }
    }

    fn put(&mut self, at: u64, len: u64, data: Option<Rope>) {
        if len > 0 {
            self.clear(at..at + len);
            self.over.insert(at, (len, data));
        }
    }

    /// Returns true if nothing of what lay beneath stays.
    fn hides_all(&self) -> bool {
        let upto = self.kept.min(self.size);
        let mut at = 0;
        for (start, (len, _)) in &self.over {
            if *start > at {
                break;
            }
            at = start + len;
        }
        at >= upto
    }

    /// Ranges of the object whose bytes may differ from what they were; `before`: its size then.
    fn touched(&self, before: u64) -> impl Iterator<Item = Range<u64>> {
        let cut = self.kept..before.max(self.kept);
        self.over.iter().map(|(start, (len, _))| *start..start + len).chain((!cut.is_empty()).then_some(cut))
    }

    /// Calls for each part of a range: what lies over it, or `Err` with a part of what stays beneath. Nothing is told of
    /// what is neither, which is zeros.
    fn parts(&self, range: Range<u64>, mut each: impl FnMut(Range<u64>, Option<Rope>)) {
        let beneath = self.kept.min(self.size);
        let mut at = range.start;
        let before = self.over.range(..=range.start).next_back();
        let over = before.into_iter().chain(self.over.range(range.start + 1..range.end.max(range.start + 1)));
        let mut gaps = Vec::new();
        for (start, (len, data)) in over {
            let (from, to) = ((*start).max(range.start), (start + len).min(range.end));
            if from >= to {
                continue;
            }
            gaps.push(at..from);
            at = to;
            if let Some(data) = data {
                each(from..to, Some(data.slice((from - start) as usize, (to - from) as usize)));
            }
        }
        gaps.push(at..range.end);
        for gap in gaps.into_iter().map(|gap| gap.start..gap.end.min(beneath)).filter(|gap| !gap.is_empty()) {
            each(gap, None);
        }
    }
}

/// Changes of data of one shard, joined where they touch.
#[derive(Default)]
struct Out {
    changes: Vec<ObjectChange>,
    /// Bytes of the shard after them.
    len: u64,
}

impl Out {
    fn cut(&mut self, len: u64) {
        if len < self.len {
            self.changes.push(ObjectChange::Truncate(len));
            self.len = len;
        }
    }

    fn write(&mut self, at: u64, data: Rope) {
        if data.is_empty() {
            return;
        }
        self.len = self.len.max(at + data.len() as u64);
        match self.changes.last_mut() {
            Some(ObjectChange::Write(start, before)) if *start + before.len() as u64 == at => before.append(data),
            _ => self.changes.push(ObjectChange::Write(at, data)),
        }
    }

    /// Zeros where something may be.
    fn zero(&mut self, range: Range<u64>) {
        let end = range.end.min(self.len);
        if range.start >= end {
            return;
        }
        match self.changes.last_mut() {
            Some(ObjectChange::Zero(start, len)) if *start + *len == range.start => *len += end - range.start,
            _ => self.changes.push(ObjectChange::Zero(range.start, end - range.start)),
        }
    }

    fn end(mut self, len: u64) -> Vec<ObjectChange> {
        if len != self.len {
            self.changes.push(ObjectChange::Truncate(len));
        }
        self.changes
    }
}

fn shard(n: usize) -> ShardId {
    ShardId(i8::try_from(n).unwrap_or(i8::MAX))
}

fn of_shard(object: &ObjectId, n: usize) -> ObjectId {
    ObjectId { shard: shard(n), ..object.clone() }
}

/// The same change of another shard.
fn moved(change: &ObjectChange, n: usize) -> ObjectChange {
    match change {
        ObjectChange::CloneOf(source) => ObjectChange::CloneOf(of_shard(source, n)),
        other => other.clone(),
    }
}

impl Shards {
    /// Returns what each shard gets of a change, whose objects bear the name of the own shard. `whole`: an object whose
    /// data are replaced gets all at once, so its size now is the one that it will have.
    ///
    /// # Errors
    /// Something must be read first, here or on other shards, or cannot be read.
    pub(crate) fn share(&self, eye: &Eye<'_>, hold: Hold, objects: &[ObjectChanges], whole: bool) -> Read<Shares> {
        let mut shares: Shares = vec![Vec::with_capacity(objects.len()); self.count()];
        let mut missed: Option<Wish> = None;
        for of in objects {
            match self.share_one(eye, hold, of, whole) {
                Ok(all) => {
                    for (n, (share, changes)) in shares.iter_mut().zip(all).enumerate() {
                        share.push(ObjectChanges { object: of_shard(&of.object, n), changes });
                    }
                }
                // What other objects miss is found in the same run.
                Err(Unread::Missing(wish)) => missed = missed.filter(|wish| !wish.0.is_empty()).or(Some(wish)),
                Err(damage) => return Err(damage),
            }
        }
        missed.map_or(Ok(shares), |wish| Err(Unread::Missing(wish)))
    }

    fn share_one(&self, eye: &Eye<'_>, hold: Hold, of: &ObjectChanges, whole: bool) -> Read<Vec<Vec<ObjectChange>>> {
        let as_it_is = || (0..self.count()).map(|n| of.changes.iter().map(|change| moved(change, n)).collect()).collect();
        if of.changes == [ObjectChange::Remove] {
            return Ok(as_it_is());
        }
        let edit = self.put_together(eye, hold, of)?;
        let Some(record) = &edit.record else {
            let gone = edit.others.last() == Some(&ObjectChange::Remove) && edit.size == 0;
            return if gone { Ok(as_it_is()) } else { Err(damaged(&of.object, "no record in a change")) };
        };
        let mut info = ObjectInfo::decode(record).map_err(|_| damaged(&of.object, "record in a change"))?;
        if info.size != Some(edit.size) {
            return Err(damaged(&of.object, "size in the record of a change"));
        }
        let chunk = match &edit.base {
            Some((_, known)) if !edit.hides_all() => known.chunk,
            _ => {
                let hinted = info.hint.map(|(object_size, ..)| object_size).filter(|size| *size > 0);
                self.chunk(if whole { Some(edit.size) } else { hinted })
            }
        };
        info.layout = Some(Layout { id: 0, chunk });
        let record = ObjectChange::SetInfo(info.encode());
        let data = self.share_data(eye, hold, &edit, chunk)?;
        let all = data.into_iter().enumerate().map(|(n, data)| {
            let mut changes: Vec<ObjectChange> = edit.others.iter().map(|change| moved(change, n)).collect();
            changes.extend(data);
            changes.push(record.clone());
            changes
        });
        Ok(all.collect())
    }

    /// Puts a change together.
    fn put_together(&self, eye: &Eye<'_>, hold: Hold, of: &ObjectChanges) -> Read<Edit> {
        let named = |object: &ObjectId| Ok(eye.known(hold, object)?.map(|known| (object.clone(), known)));
        // What takes the object's place first needs no look at what it was.
        let replaced = matches!(of.changes.first(), Some(ObjectChange::CloneOf(_) | ObjectChange::Remove));
        let mut edit = Edit::of(if replaced { None } else { named(&of.object)? });
        for change in &of.changes {
            match change {
                ObjectChange::Write(at, data) => {
                    let len = data.len() as u64;
                    edit.size = edit.size.max(at + len);
                    edit.put(*at, len, Some(data.clone()));
                }
                ObjectChange::Zero(at, len) => {
                    let end = at.saturating_add(*len).min(edit.size);
                    edit.put(*at, end.saturating_sub(*at), None);
                }
                ObjectChange::Truncate(size) => {
                    edit.clear(*size..u64::MAX);
                    edit.kept = edit.kept.min(*size);
                    edit.size = *size;
                }
                ObjectChange::Remove => {
                    let others = std::mem::take(&mut edit.others);
                    edit = Edit { others, ..Edit::of(None) };
                    edit.others.push(ObjectChange::Remove);
                }
                ObjectChange::CloneOf(source) => {
                    let base = named(source)?.ok_or_else(|| damaged(source, "what is to be cloned"))?;
                    edit = Edit { others: vec![change.clone()], ..Edit::of(Some(base)) };
                }
                ObjectChange::SetInfo(record) => edit.record = Some(record.clone()),
                other => edit.others.push(other.clone()),
            }
        }
        Ok(edit)
    }

    /// Returns what happens to the data of each shard.
    fn share_data(&self, eye: &Eye<'_>, hold: Hold, edit: &Edit, chunk: u64) -> Read<Vec<Vec<ObjectChange>>> {
        let geometry = self.geometry(chunk);
        let before = edit.base.as_ref().map(|(_, known)| *known);
        let old = |n: usize| before.map_or(0, |known| self.length(known.size, known.chunk, n));
        let mut out: Vec<Out> = (0..self.count()).map(|n| Out { changes: Vec::new(), len: old(n) }).collect();
        let anew = before.is_some_and(|known| edit.kept == 0 || known.chunk != chunk);
        let size_before = before.map_or(0, |known| known.size);
        for (n, out) in out.iter_mut().enumerate() {
            out.cut(match n {
                _ if anew => 0,
                // What is cut of a parity is made anew below.
                n if n >= self.k() => self.length(edit.size.max(edit.kept), chunk, n),
                n => geometry.length(edit.kept, n),
            });
        }
        for (start, (len, data)) in &edit.over {
            for part in geometry.parts(*start..start + len) {
                let out = &mut out[part.shard];
                match data {
                    Some(data) => {
                        let len = (part.object.end - part.object.start) as usize;
                        out.write(part.place.start, data.slice((part.object.start - start) as usize, len));
                    }
                    None => out.zero(part.place),
                }
            }
        }
        let end = self.length(edit.size, chunk, self.k());
        let mut places = Intervals::new();
        for range in edit.touched(size_before) {
            self.add_places(&geometry, range, end, &mut places);
        }
        self.encode(eye, hold, edit, &geometry, &places, &mut out)?;
        let length = |n| self.length(edit.size, chunk, n);
        Ok(out.into_iter().enumerate().map(|(n, out)| out.end(length(n))).collect())
    }

    /// Adds the places at which parities depend on a range of an object, up to `end`, the length of a parity.
    fn add_places(&self, geometry: &Geometry, range: Range<u64>, end: u64, places: &mut Intervals) {
        let grain = self.code.grain() as u64;
        let mut add = |place: Range<u64>| {
            let to = place.end.next_multiple_of(grain).min(end);
            let from = place.start / grain * grain;
            if from < to {
                places.insert_range(from..to);
            }
        };
        let row = geometry.row();
        // Whole rows are one range, however many chunks they have.
        let (first, last) = (range.start.div_ceil(row) * row, range.end / row * row);
        if first < last {
            add(geometry.rows(first..last));
            geometry.parts(range.start..first).for_each(|part| add(part.place));
            geometry.parts(last..range.end).for_each(|part| add(part.place));
        } else {
            geometry.parts(range).for_each(|part| add(part.place));
        }
    }

    /// Makes the parities at these places.
    fn encode(
        &self,
        eye: &Eye<'_>,
        hold: Hold,
        edit: &Edit,
        geometry: &Geometry,
        places: &Intervals,
        out: &mut [Out],
    ) -> Read<()> {
        let (k, grain) = (self.k(), self.code.grain() as u64);
        let step = SLICE.next_multiple_of(grain);
        let mut missed: Option<Wish> = None;
        for place in places.ranges() {
            let mut at = place.start;
            while at < place.end {
                let upto = (at + step).min(place.end);
                match self.gather(eye, hold, edit, geometry, at..upto) {
                    Ok(_) if missed.is_some() => {}
                    Ok(None) => out[k..].iter_mut().for_each(|out| out.zero(at..upto)),
                    Ok(Some(data)) => {
                        let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
                        let mut made = vec![vec![0; (upto - at) as usize]; self.count() - k];
                        let mut parities: Vec<&mut [u8]> = made.iter_mut().map(Vec::as_mut_slice).collect();
                        self.code.encode(&data, &mut parities);
                        for (out, made) in out[k..].iter_mut().zip(made) {
                            out.write(at, Rope::from(made));
                        }
                    }
                    Err(Unread::Missing(wish)) => missed = missed.filter(|wish| !wish.0.is_empty()).or(Some(wish)),
                    Err(damage) => return Err(damage),
                }
                at = upto;
            }
        }
        missed.map_or(Ok(()), |wish| Err(Unread::Missing(wish)))
    }

    /// The data of all data shards at these places, as they are after the change; `None`: they are all zeros, as far as is
    /// known.
    fn gather(
        &self,
        eye: &Eye<'_>,
        hold: Hold,
        edit: &Edit,
        geometry: &Geometry,
        place: Range<u64>,
    ) -> Read<Option<Vec<Vec<u8>>>> {
        let mut data = vec![vec![0; (place.end - place.start) as usize]; self.k()];
        let (mut any, mut missed) = (false, None::<Wish>);
        let mut failed = None;
        let rows = place.start / geometry.chunk()..(place.end - 1) / geometry.chunk() + 1;
        for part in geometry.parts(rows.start * geometry.row()..(rows.end * geometry.row()).min(edit.size)) {
            let (from, to) = (part.place.start.max(place.start), part.place.end.min(place.end));
            if from >= to {
                continue;
            }
            let object = part.object.start + (from - part.place.start)..part.object.start + (to - part.place.start);
            let (buffer, begin) = (&mut data[part.shard], object.start);
            edit.parts(object, |range, over| {
                let read = match (over, &edit.base) {
                    (Some(over), _) => Ok(over),
                    (None, Some((object, known))) => eye.bytes(hold, object, known, range.clone()),
                    (None, None) => Ok(Rope::new()),
                };
                match read {
                    Ok(bytes) => {
                        any = true;
                        bytes.copy_to(&mut buffer[(from - place.start + range.start - begin) as usize..]);
                    }
                    Err(Unread::Missing(wish)) => missed = missed.take().filter(|wish| !wish.0.is_empty()).or(Some(wish)),
                    Err(damage) => failed = Some(damage),
                }
            });
        }
        match (failed, missed) {
            (Some(damage), _) => Err(damage),
            (None, Some(wish)) => Err(Unread::Missing(wish)),
            (None, None) => Ok(any.then_some(data)),
        }
    }
}
