//! What a change touches of an object, so that a copy that has the object as it was before needs to get only that.
//!
//! *Data.* [`Changed`] is a part of a log entry: [`Part`] names ranges of data in whole blocks, whether attributes changed, and keys of
//! the omap. The object's record, its size and the omap's header are not named: they are small and always go along.
//!
//! *Invariant.* Whoever has the object as it was before the entry, and takes all that the part names from one who has it as it was
//! after, has the same object. So a part may name too much, and never too little. What cannot be told is [`Changed::All`]: an object
//! that is new, removed or taken from another one, and entries of programs that did not note it.
//!
//! *Bounds.* A part in an entry, and one that joins many entries ([`crate::missing::Base`]), have bounds of their own: beyond them the
//! nearest ranges are joined, and keys become "the whole omap".

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

use crate::codec::{Parser, Writer};
use bytes::Bytes;
use denc::{DecodeError, Result};
use objectstore::ObjectChange;
use std::collections::BTreeSet;
use types::Intervals;

/// Ranges begin and end at multiples of this, so that nobody has to read a block to write a part of it.
const BLOCK: u64 = 4096;
/// End of a range that reaches to the object's end, wherever that is.
pub(crate) const END: u64 = u64::MAX - 1;

/// Bounds of what a part may name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    ranges: usize,
    keys: usize,
    /// Of all keys together.
    key_bytes: usize,
}

/// Bounds of a part in a log entry.
pub(crate) const IN_ENTRY: Bounds = Bounds { ranges: 8, keys: 16, key_bytes: 1 << 10 };
/// Bounds of one that joins many.
pub(crate) const JOINED: Bounds = Bounds { ranges: 128, keys: 64, key_bytes: 4 << 10 };

/// Parts of its object that an entry's change touched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Changed {
    /// Perhaps all of it.
    #[default]
    All,
    /// This, and nothing else.
    Part(Part),
}

/// A part of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// Bytes, in whole blocks; up to [`END`] means: to the object's end, which may have been moved.
    pub(crate) data: Intervals,
    /// Attributes: all of them.
    pub(crate) attrs: bool,
    pub(crate) omap: Keys,
}

/// A part of an omap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// These keys: they were set or removed.
    Some(BTreeSet<Bytes>),
    All,
}

impl Default for Keys {
    fn default() -> Self {
        Self::Some(BTreeSet::new())
    }
}

impl Keys {
    fn add(&mut self, keys: impl IntoIterator<Item = Bytes>) {
        if let Self::Some(all) = self {
            all.extend(keys);
        }
    }

    fn bound(&mut self, bounds: Bounds) {
        if let Self::Some(keys) = self
            && (keys.len() > bounds.keys || keys.iter().map(Bytes::len).sum::<usize>() > bounds.key_bytes)
        {
            *self = Self::All;
        }
    }
}

impl Changed {
    /// Returns what these changes of one object touch, if it was there before.
    pub(crate) fn of<'a>(changes: impl IntoIterator<Item = &'a ObjectChange>) -> Self {
        let mut part = Part::default();
        if changes.into_iter().all(|change| part.note(change)) {
            part.bound(IN_ENTRY);
            Self::Part(part)
        } else {
            Self::All
        }
    }
}

/// Adds a range, rounded to whole blocks.
fn add_blocks(data: &mut Intervals, start: u64, end: u64) {
    let end = end.checked_next_multiple_of(BLOCK).filter(|end| *end < END).unwrap_or(END);
    data.insert_range(start / BLOCK * BLOCK..end);
}

impl Part {
    /// Notes what a change touches; false if that cannot be told.
    fn note(&mut self, change: &ObjectChange) -> bool {
        match change {
            // The record always goes along, and to create what is there changes nothing.
            ObjectChange::Create | ObjectChange::SetInfo(_) => {}
            ObjectChange::Write(start, data) | ObjectChange::Xor(start, data) => self.note_data(*start, data.len() as u64),
            ObjectChange::CloneRange(_, ranges) => ranges.iter().for_each(|(start, len)| self.note_data(*start, *len)),
            ObjectChange::Zero(start, len) => self.note_data(*start, *len),
            // What was behind the new end is gone, also if the object grows again.
            ObjectChange::Truncate(size) => add_blocks(&mut self.data, *size, END),
            ObjectChange::SetXattr(..) | ObjectChange::RemoveXattr(_) | ObjectChange::ClearXattrs => self.attrs = true,
            // The header goes along with the rest.
            ObjectChange::OmapHeader(_) => {}
            ObjectChange::OmapSet(pairs) => self.omap.add(pairs.iter().map(|(key, _)| key.clone())),
            ObjectChange::OmapRemove(keys) => self.omap.add(keys.iter().cloned()),
            ObjectChange::OmapRemoveRange(..) | ObjectChange::OmapClear => self.omap = Keys::All,
            ObjectChange::Remove | ObjectChange::CloneOf(_) | ObjectChange::TakeOver(_) => return false,
        }
        true
    }

    fn note_data(&mut self, start: u64, len: u64) {
        if len > 0 {
            add_blocks(&mut self.data, start, start.saturating_add(len));
        }
    }

    fn bound(&mut self, bounds: Bounds) {
        while self.data.ranges().len() > bounds.ranges {
            let ranges = || self.data.ranges();
            let gaps = ranges().zip(ranges().skip(1)).map(|(one, next)| one.end..next.start);
            let Some(least) = gaps.min_by_key(|gap| gap.end - gap.start) else { return };
            self.data.insert_range(least);
        }
        self.omap.bound(bounds);
    }

    /// Adds what `other` names, within the bounds of what is joined.
    pub(crate) fn join(&mut self, other: &Self) {
        self.data.add(&other.data);
        self.attrs |= other.attrs;
        match (&mut self.omap, &other.omap) {
            (_, Keys::All) => self.omap = Keys::All,
            (own, Keys::Some(keys)) => own.add(keys.iter().cloned()),
        }
        self.bound(JOINED);
    }

    /// Bytes of data that it names of an object of this size.
    pub(crate) fn bytes(&self, size: u64) -> u64 {
        self.data.intersection(&Intervals::of(0..size)).total()
    }

    pub(crate) fn put(&self, w: &mut Writer) {
        let (all, some) = match &self.omap {
            Keys::All => (true, None),
            Keys::Some(keys) => (false, Some(keys).filter(|keys| !keys.is_empty())),
        };
        w.num(u64::from(self.attrs) | u64::from(all) << 1 | u64::from(some.is_some()) << 2);
        let mut from = 0;
        w.list(self.data.ranges(), |w, range| {
            w.num(range.start / BLOCK - from);
            from = range.end / BLOCK;
            w.num(if range.end == END { 0 } else { from - range.start / BLOCK });
        });
        if let Some(keys) = some {
            w.list(keys.iter(), |w, key| w.bytes(key));
        }
    }

    pub(crate) fn get(r: &mut Parser<'_>) -> Result<Self> {
        const WRONG: DecodeError = DecodeError::Invalid("part of an object");
        let flags = r.num()?;
        if flags > 7 || flags & 6 == 6 {
            return Err(WRONG);
        }
        let mut data = Intervals::new();
        let mut from = Some(0u64);
        for (gap, blocks) in r.list(|r| Ok((r.num()?, r.num()?)))? {
            // Ranges do not touch, and nothing follows one that goes to the end.
            let start = from.and_then(|from| from.checked_add(gap)).filter(|_| gap > 0 || from == Some(0)).ok_or(WRONG)?;
            let end = start.checked_add(blocks).filter(|end| *end < END / BLOCK).ok_or(WRONG)?;
            from = (blocks > 0).then_some(end);
            data.insert_range(start * BLOCK..if blocks > 0 { end * BLOCK } else { END });
        }
        let keys = if flags & 4 != 0 { r.list(Parser::shared)?.into_iter().collect() } else { BTreeSet::new() };
        let omap = if flags & 2 != 0 { Keys::All } else { Keys::Some(keys) };
        Ok(Self { data, attrs: flags & 1 != 0, omap })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Rope;

    fn key(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    fn write(start: u64, len: usize) -> ObjectChange {
        ObjectChange::Write(start, Rope::from(vec![1; len]))
    }

    fn part(changes: &[ObjectChange]) -> Part {
        match Changed::of(changes) {
            Changed::Part(part) => part,
            Changed::All => panic!("{changes:?} are taken for all of an object"),
        }
    }

    #[test]
    fn data_is_named_in_whole_blocks_and_cuts_reach_to_the_end() {
        let found = part(&[write(5000, 10), ObjectChange::Zero(8192, 1), ObjectChange::SetInfo(key("i"))]);
        assert_eq!(found.data, Intervals::of(4096..12288));
        assert!(!found.attrs && found.omap == Keys::default());
        let cut = part(&[ObjectChange::Truncate(10000), write(100_000, 5000)]);
        assert_eq!(cut.data, Intervals::of(8192..END));
        assert_eq!((cut.bytes(9000), cut.bytes(4096), cut.bytes(20_000)), (808, 0, 11_808));
        assert!(part(&[write(0, 0), ObjectChange::Zero(7, 0)]).data.is_empty());
    }

    #[test]
    fn keys_and_attributes_are_named() {
        let set = ObjectChange::OmapSet(vec![(key("a"), key("1"))]);
        let found = part(&[set.clone(), ObjectChange::OmapRemove(vec![key("b")]), ObjectChange::RemoveXattr(key("x"))]);
        assert_eq!(found, Part { attrs: true, omap: Keys::Some([key("a"), key("b")].into()), ..Part::default() });
        assert_eq!(part(&[set.clone(), ObjectChange::OmapClear]).omap, Keys::All);
        assert_eq!(part(&[ObjectChange::OmapClear, set]).omap, Keys::All);
        let many = (0..17).map(|n| (Bytes::from(format!("{n}")), Bytes::new())).collect();
        assert_eq!(part(&[ObjectChange::OmapSet(many)]).omap, Keys::All);
    }

    #[test]
    fn what_takes_the_place_of_an_object_is_all_of_it() {
        let other = types::ObjectId::default();
        for whole in [ObjectChange::Remove, ObjectChange::CloneOf(other)] {
            assert_eq!(Changed::of(&[write(0, 1), whole]), Changed::All);
        }
    }

    #[test]
    fn beyond_its_bounds_a_part_names_more_and_never_less() {
        let writes: Vec<ObjectChange> = (0..20).map(|n| write(n * n * 40_960, 4096)).collect();
        let found = part(&writes);
        assert_eq!(found.data.ranges().len(), IN_ENTRY.ranges);
        let mut joined = Part::default();
        for change in &writes {
            let one = part(std::slice::from_ref(change));
            assert!({
                let mut rest = one.data.clone();
                rest.subtract(&found.data);
                rest.is_empty()
            });
            joined.join(&one);
        }
        assert_eq!(joined.data.total(), 20 * 4096, "twenty ranges are within the bounds of what is joined");
        joined.join(&Part { omap: Keys::All, attrs: true, ..Part::default() });
        assert!(joined.attrs && joined.omap == Keys::All);
    }

    #[test]
    fn parts_come_back_and_wrong_ones_are_refused() {
        let parts = [
            Part::default(),
            part(&[write(0, 1), write(1 << 30, 9000), ObjectChange::Truncate(1 << 40), ObjectChange::ClearXattrs]),
            Part { omap: Keys::All, ..Part::default() },
            Part { data: Intervals::of(0..END), omap: Keys::Some([key("k"), key("l")].into()), ..Part::default() },
        ];
        for part in parts {
            let mut w = Writer::default();
            part.put(&mut w);
            let bytes = w.finish();
            let mut r = Parser::new(&bytes);
            assert_eq!(Part::get(&mut r), Ok(part));
            assert!(r.0.is_empty());
            assert!((0..bytes.len()).all(|n| Part::get(&mut Parser::new(&bytes[..n])).is_err()));
        }
        let wrong: [&[u8]; 6] = [
            &[8, 0],
            &[6, 0, 0],
            // Two ranges that touch; one behind the end; one that is too long.
            &[0, 2, 0, 1, 0, 1],
            &[0, 2, 0, 0, 5, 1],
            &[0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            &[0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1],
        ];
        for bytes in wrong {
            assert!(Part::get(&mut Parser::new(bytes)).is_err(), "{bytes:?}");
        }
    }
}
