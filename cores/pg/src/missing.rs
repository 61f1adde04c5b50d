//! What a copy lacks: objects that its log names and that it does not have as the log says.
//!
//! *Data and owner.* [`Missing`] belongs to the copy that lacks the objects; its primary has a picture of it in `Member::missing`. Each
//! object is marked in the store with the key `x`, in the transaction that takes up the entries, and the mark goes in the transaction
//! that brings the object.
//!
//! *Base.* If the copy has the object as it was at an earlier version, and all entries since then say what they changed, the mark
//! names that version and the sum of the changes: then only those are brought. All else is brought whole: an object that is new here, or
//! was removed meanwhile, whose entries do not follow each other, that entries touched which do not count, or that lies in a copy
//! which is being filled.
//!
//! *Invariant.* Nothing happens to an object that is missing until it is brought. So a base stays true. It is checked all the same by
//! whoever lacks the object, against the object's record, before a part is put into place; if it is not true, the object is brought whole.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

use crate::changed::{Changed, Part};
use crate::codec::{Parser, Writer};
use crate::entry::{Kind, LogEntry};
use crate::meta::{self, get_version, put_version};
use bytes::Bytes;
use denc::{DecodeError, Result};
use std::collections::BTreeMap;
use types::{EVersion, HObject, SnapId};

/// Objects, heads and clones, that are missing.
pub(crate) type Missing = BTreeMap<HObject, Lack>;

/// Part of one object that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lack {
    /// The version that is to come.
    pub(crate) need: EVersion,
    /// State of it that the copy has; `None`: all of it is to come.
    pub(crate) base: Option<Box<Base>>,
}

/// An older version that a copy has, and what changed since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) have: EVersion,
    pub(crate) part: Part,
}

impl Lack {
    /// All of the object.
    pub(crate) fn whole(need: EVersion) -> Self {
        Self { need, base: None }
    }

    /// Returns what is missing after an entry that changes an object.
    ///
    /// `before`: what was missing before it; `None` if the copy had the object as it was then.
    pub(crate) fn after(before: Option<&Self>, entry: &LogEntry) -> Self {
        let need = entry.done.version;
        let Changed::Part(part) = &entry.changed else { return Self::whole(need) };
        if entry.kind != Kind::Modify || entry.prior == EVersion::default() {
            return Self::whole(need);
        }
        let base = match before {
            None => Some(Base { have: entry.prior, part: part.clone() }),
            Some(lack) if lack.need == entry.prior => lack.base.as_deref().cloned().map(|mut base| {
                base.part.join(part);
                base
            }),
            Some(_) => None,
        };
        Self { need, base: base.map(Box::new) }
    }

    /// The value of the object's mark.
    pub(crate) fn encode(&self) -> Bytes {
        let mut w = Writer::default();
        self.put(&mut w);
        w.finish()
    }

    /// Reads [`Lack::encode`], or the mark of a program that knew no bases.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Parser::new(bytes);
        let need = get_version(&mut r)?;
        let base = if r.0.is_empty() { None } else { Some(Box::new(Base::get(&mut r)?)) };
        r.0.finish()?;
        let lack = Self { need, base };
        if lack.is_sound() { Ok(lack) } else { Err(DecodeError::Invalid("base of a missing object")) }
    }

    fn put(&self, w: &mut Writer) {
        put_version(w, self.need);
        if let Some(base) = &self.base {
            base.put(w);
        }
    }

    /// Returns true if its base is older than what is to come.
    pub(crate) fn is_sound(&self) -> bool {
        self.base.as_ref().is_none_or(|base| base.have < self.need)
    }
}

impl Base {
    pub(crate) fn put(&self, w: &mut Writer) {
        put_version(w, self.have);
        self.part.put(w);
    }

    pub(crate) fn get(r: &mut Parser<'_>) -> Result<Self> {
        Ok(Self { have: get_version(r)?, part: Part::get(r)? })
    }
}

/// Returns true if a set of missing objects has this head or one of its clones.
pub(crate) fn is_missing<T>(missing: &BTreeMap<HObject, T>, head: &HObject) -> bool {
    !missing.is_empty() && missing_of(missing, head).next().is_some()
}

/// The head and clones of one object in a set of missing ones.
pub(crate) fn missing_of<'a, T>(missing: &'a BTreeMap<HObject, T>, head: &'a HObject) -> impl Iterator<Item = &'a HObject> + 'a {
    let same = move |object: &&HObject| meta::same_object(object, head);
    missing.range(head.at(SnapId(0))..).map(|(object, _)| object).take_while(same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Done;
    use objectstore::ObjectChange;
    use types::{Intervals, Rope, UTime};

    fn version(n: u64) -> EVersion {
        if n == 0 { EVersion::default() } else { EVersion::new(1, n) }
    }

    /// An entry that writes one block.
    fn write(prior: u64, at: u64, block: u64) -> LogEntry {
        let changed = Changed::of(&[ObjectChange::Write(block * 4096, Rope::from(vec![1; 10]))]);
        let done = Done { version: version(at), ..Done::default() };
        let (kind, object, mtime, snaps) = (Kind::Modify, HObject::default().into(), UTime::ZERO, Vec::new());
        LogEntry { kind, object, prior: version(prior), mtime, snaps, changed, before: None, done }
    }

    #[test]
    fn entries_that_follow_each_other_add_up() {
        let one = Lack::after(None, &write(3, 5, 0));
        let two = Lack::after(Some(&one), &write(5, 9, 7));
        let base = two.base.as_deref().expect("a base");
        assert_eq!((two.need, base.have), (version(9), version(3)));
        assert_eq!(base.part.data, [(0, 4096), (7 * 4096, 4096)].into_iter().collect::<Intervals>());
        assert!(two.is_sound());
    }

    #[test]
    fn whatever_is_in_doubt_is_brought_whole() {
        let one = Lack::after(None, &write(3, 5, 0));
        let whole = Lack::whole(version(9));
        // An entry between them is not known; the one before was whole; it is new; it does not say; it is no write.
        assert_eq!(Lack::after(Some(&one), &write(6, 9, 0)), whole);
        assert_eq!(Lack::after(Some(&Lack::whole(version(5))), &write(5, 9, 0)), whole);
        assert_eq!(Lack::after(None, &write(0, 9, 0)), whole);
        assert_eq!(Lack::after(None, &LogEntry { changed: Changed::All, ..write(5, 9, 0) }), whole);
        for kind in [Kind::Clone, Kind::LostRevert] {
            assert_eq!(Lack::after(None, &LogEntry { kind, ..write(5, 9, 0) }), whole);
        }
    }

    #[test]
    fn marks_come_back_and_older_ones_are_whole() {
        for lack in [Lack::whole(version(9)), Lack::after(None, &write(3, 5, 0))] {
            assert_eq!(Lack::decode(&lack.encode()), Ok(lack));
        }
        assert_eq!(Lack::decode(&[1, 9]), Ok(Lack::whole(version(9))));
        assert_eq!(Lack::decode(&[1, 9, 1, 3, 0, 1, 0, 1]), Ok(Lack { need: version(9), ..Lack::after(None, &write(3, 5, 0)) }));
        for wrong in [&[1][..], &[1, 9, 1], &[1, 9, 1, 9, 0, 0], &[1, 9, 1, 3, 0, 0, 0]] {
            assert!(Lack::decode(wrong).is_err(), "{wrong:?}");
        }
    }
}
