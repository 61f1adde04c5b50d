//! What copies tell each other of their objects while a scrub compares them.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

use crate::body::{get_name, put_name};
use crate::codec::{Parser, Writer};
use crate::info::ObjectInfo;
use bytes::Bytes;
use denc::{DecodeError, Result};
use messages::scrub::{check_shard_errors, shard};
use types::HObject;

/// Question of the primary about a range of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ask {
    /// Given back with the answer.
    pub(crate) serial: u64,
    /// All bodies up to this number of the stream are to be carried out before.
    pub(crate) after: u64,
    /// Data and omap, too.
    pub(crate) deep: bool,
    /// Attributes themselves, too.
    pub(crate) detail: bool,
    /// From this object on.
    pub(crate) from: HObject,
    /// Up to this one, excluded.
    pub(crate) to: HObject,
}

/// Answer of a copy to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Of which question.
    pub(crate) serial: u64,
    /// Up to here, excluded. If that is not all, the rest is asked for.
    pub(crate) upto: HObject,
    /// The list of objects cannot be read here: what is said is not all.
    pub(crate) unreadable: bool,
    /// Heads and clones, in order.
    pub(crate) found: Vec<Entry>,
}

/// State of one object at a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Head or clone.
    pub(crate) object: HObject,
    /// Errors of this copy alone: bits of [`shard`].
    pub(crate) errors: u64,
    /// Bytes.
    pub(crate) size: u64,
    /// Its record, as it is stored.
    pub(crate) record: Bytes,
    /// CRC-32C of all attributes.
    pub(crate) attrs_digest: u32,
    /// The attributes, if they were asked for and are not too many.
    pub(crate) attrs: Vec<(Bytes, Bytes)>,
    /// CRC-32C of the data, if they were read.
    pub(crate) data: Option<u32>,
    /// CRC-32C of the omap and its header, if they were read.
    pub(crate) omap: Option<u32>,
}

impl Entry {
    /// Its record; empty if that does not decode.
    pub(crate) fn info(&self) -> ObjectInfo {
        ObjectInfo::decode(&self.record).unwrap_or_default()
    }

    /// Returns true if an omap or a header of one was read.
    pub(crate) fn has_omap(&self) -> bool {
        self.omap.is_some_and(|digest| digest != kernels::SEED)
    }

    /// Returns true if it was read that there is neither an omap nor a header of one.
    pub(crate) fn lacks_omap(&self) -> bool {
        self.omap == Some(kernels::SEED)
    }

    /// Returns true if there are attributes.
    pub(crate) fn has_attrs(&self) -> bool {
        self.attrs_digest != kernels::SEED
    }

    /// Returns true if both copies hold the same, as far as both were read.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        self.size == other.size
            && self.record == other.record
            && self.attrs_digest == other.attrs_digest
            && self.data == other.data
            && self.omap == other.omap
    }

    fn put(&self, w: &mut Writer) {
        put_name(w, &self.object);
        w.num(self.errors);
        w.num(self.size);
        w.bytes(&self.record);
        w.num(self.attrs_digest.into());
        w.list(self.attrs.iter(), |w, (name, value)| {
            w.bytes(name);
            w.bytes(value);
        });
        w.num(u64::from(self.data.is_some()) | u64::from(self.omap.is_some()) << 1);
        for digest in [self.data, self.omap].into_iter().flatten() {
            w.num(digest.into());
        }
    }

    fn get(r: &mut Parser<'_>) -> Result<Self> {
        let (object, errors, size) = (get_name(r)?, check_shard_errors(r.num()?)?, r.num()?);
        if errors & shard::MISSING != 0 {
            return Err(DecodeError::Invalid("an object that is not there"));
        }
        let (record, attrs_digest) = (r.shared()?, r.num32()?);
        let attrs = r.list(|r| Ok((r.shared()?, r.shared()?)))?;
        let flags = r.num()?;
        let mut digest = |bit| if flags & bit != 0 { r.num32().map(Some) } else { Ok(None) };
        let (data, omap) = (digest(1)?, digest(2)?);
        Ok(Self { object, errors, size, record, attrs_digest, attrs, data, omap })
    }
}

impl Ask {
    pub(crate) fn put(&self, w: &mut Writer) {
        w.num(self.serial);
        w.num(self.after);
        w.num(u64::from(self.deep) | u64::from(self.detail) << 1);
        put_name(w, &self.from);
        put_name(w, &self.to);
    }

    pub(crate) fn get(r: &mut Parser<'_>) -> Result<Self> {
        let (serial, after, flags) = (r.num()?, r.num()?, r.num()?);
        let (from, to) = (get_name(r)?, get_name(r)?);
        if from >= to {
            return Err(DecodeError::Invalid("range of objects"));
        }
        Ok(Self { serial, after, deep: flags & 1 != 0, detail: flags & 2 != 0, from, to })
    }
}

impl Answer {
    pub(crate) fn put(&self, w: &mut Writer) {
        w.num(self.serial);
        put_name(w, &self.upto);
        w.num(self.unreadable.into());
        w.list(self.found.iter(), |w, entry| entry.put(w));
    }

    pub(crate) fn get(r: &mut Parser<'_>) -> Result<Self> {
        let (serial, upto, unreadable) = (r.num()?, get_name(r)?, r.num()? != 0);
        let found = r.list(Entry::get)?;
        let rises = found.windows(2).all(|pair| pair[0].object < pair[1].object);
        if !rises || found.last().is_some_and(|last| last.object >= upto) {
            return Err(DecodeError::Invalid("order of objects"));
        }
        Ok(Self { serial, upto, unreadable, found })
    }
}

/// One of each with everything in it that there can be.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn samples(head: HObject) -> (Ask, Answer) {
    let b = |text: &'static str| Bytes::from_static(text.as_bytes());
    let upto = head.at(types::SnapId::DIR);
    let ask = Ask { serial: 11, after: 3, deep: true, detail: true, from: head.at(types::SnapId(0)), to: upto.clone() };
    let entry = Entry {
        object: head.clone(),
        errors: shard::READ_ERROR,
        size: 4096,
        record: ObjectInfo::default().encode(),
        attrs_digest: 5,
        attrs: vec![(b("x"), b("y"))],
        data: Some(6),
        omap: Some(u32::MAX),
    };
    let clone = Entry { object: head.at(types::SnapId(4)), ..Entry::default() };
    (ask, Answer { serial: 11, upto, unreadable: true, found: vec![clone, entry] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{Locator, SnapId};

    /// OSDs of two releases exchange these bytes.
    #[test]
    fn the_bytes_of_a_question_and_an_answer_are_these() {
        let (ask, answer) = samples(HObject::head(Bytes::from_static(b"o"), &Locator::pool(1)));
        let (mut one, mut other) = (Writer::default(), Writer::default());
        ask.put(&mut one);
        answer.put(&mut other);
        let hex = |bytes: Bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!((hex(one.finish()), hex(other.finish())), (ASK.to_owned(), ANSWER.to_owned()));
    }

    const ASK: &str = "0b03030280b4f5ce0000016fffffffffffffffffff010280b4f5ce0000016f00";
    const ANSWER: &str = concat!(
        "0b0280b4f5ce0000016f0001020280b4f5ce0000016ffbffffffffffffffff010000000000000280b4f5ce0000016f010880200e",
        "01000000000000000000000000000501017801790306ffffffff0f"
    );

    #[test]
    fn answers_that_contradict_themselves_are_refused() {
        let head = HObject::head(Bytes::from_static(b"o"), &Locator::pool(1));
        let (ask, answer) = samples(head.clone());
        let opened = |answer: &Answer| {
            let mut w = Writer::default();
            answer.put(&mut w);
            Answer::get(&mut Parser::new(&w.finish()))
        };
        assert_eq!(opened(&answer), Ok(answer.clone()));
        let found = answer.found.iter().rev().cloned().collect();
        assert!(opened(&Answer { found, ..answer.clone() }).is_err(), "out of order");
        assert!(opened(&Answer { upto: head.at(SnapId(0)), ..answer.clone() }).is_err(), "behind its end");
        let mut forged = answer;
        forged.found[0].errors = shard::MISSING;
        assert!(opened(&forged).is_err(), "there and not there");
        forged.found[0].errors = 1 << 40;
        assert!(opened(&forged).is_err(), "errors that are none");
        let mut w = Writer::default();
        Ask { to: ask.from.clone(), ..ask }.put(&mut w);
        assert!(Ask::get(&mut Parser::new(&w.finish())).is_err(), "an empty range");
    }
}
