//! Copying another object's content, portion by portion, as the internal read COPY_READ gives it out.

use crate::codec::{Parser, Writer};
use crate::ops::run::CopyWish;
use bytes::Bytes;
use denc::Result;
use messages::osd::{Op, OpArgs, OsdOp, code};
use objectstore::ObjectChange;
use types::{ObjectId, Rope, UTime};

const LAYOUT: u64 = 1;

/// Portion that a copier asks for next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortionWish {
    /// Data from here on.
    pub(crate) offset: u64,
    /// Omap entries behind this key.
    pub(crate) after: Bytes,
    /// Most bytes of each.
    pub(crate) max: u32,
}

impl PortionWish {
    pub(crate) fn encode(&self) -> Bytes {
        let mut w = Writer::default();
        w.num(LAYOUT);
        w.num(self.offset);
        w.bytes(&self.after);
        w.num(self.max.into());
        w.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = open(bytes)?;
        let wish = Self { offset: r.num()?, after: r.shared()?, max: r.num32()? };
        r.0.finish()?;
        Ok(wish)
    }
}

fn open(bytes: &[u8]) -> Result<Parser<'_>> {
    let mut r = Parser::new(bytes);
    if r.num()? != LAYOUT { Err(denc::DecodeError::Invalid("layout of a copy's portion")) } else { Ok(r) }
}

/// A part of an object. Attributes and the omap's header come with the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Portion {
    pub(crate) size: u64,
    pub(crate) mtime: UTime,
    pub(crate) user_version: u64,
    pub(crate) truncate: (u32, u64),
    pub(crate) omap: bool,
    pub(crate) xattrs: Vec<(Bytes, Bytes)>,
    pub(crate) header: Bytes,
    pub(crate) entries: Vec<(Bytes, Bytes)>,
    pub(crate) more: bool,
    pub(crate) data: Rope,
}

fn put_pairs(w: &mut Writer, pairs: &[(Bytes, Bytes)]) {
    w.list(pairs.iter(), |w, (key, value)| {
        w.bytes(key);
        w.bytes(value);
    });
}

fn get_pairs(r: &mut Parser<'_>) -> Result<Vec<(Bytes, Bytes)>> {
    r.list(|r| Ok((r.shared()?, r.shared()?)))
}

impl Portion {
    /// The head, then the data as it is.
    pub(crate) fn encode(self) -> Rope {
        let mut w = Writer::default();
        w.num(LAYOUT);
        w.num(self.size);
        w.denc(&self.mtime);
        w.num(self.user_version);
        w.num(self.truncate.0.into());
        w.num(self.truncate.1);
        w.num(u64::from(self.omap) | u64::from(self.more) << 1);
        put_pairs(&mut w, &self.xattrs);
        w.bytes(&self.header);
        put_pairs(&mut w, &self.entries);
        let mut rope = Rope::from(w.finish());
        rope.append(self.data);
        rope
    }

    pub(crate) fn decode(bytes: &Bytes) -> Result<Self> {
        let mut r = open(bytes)?;
        let mut portion = Self { size: r.num()?, mtime: r.denc()?, user_version: r.num()?, ..Self::default() };
        portion.truncate = (r.num32()?, r.num()?);
        let flags = r.num()?;
        (portion.omap, portion.more) = (flags & 1 != 0, flags & 2 != 0);
        portion.xattrs = get_pairs(&mut r)?;
        portion.header = r.shared()?;
        portion.entries = get_pairs(&mut r)?;
        portion.data = bytes.slice_ref(r.0.rest()).into();
        Ok(portion)
    }
}

/// A whole object, ready to take the place of another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copied {
    pub(crate) size: u64,
    pub(crate) mtime: UTime,
    pub(crate) user_version: u64,
    pub(crate) truncate_seq: u32,
    pub(crate) truncate_size: u64,
    pub(crate) omap: bool,
    /// Place where it lies, if it was too large to be kept in memory.
    pub(crate) staged: Option<ObjectId>,
    /// Otherwise: the only portion.
    pub(crate) portion: Portion,
}

/// The changes that write a portion, its data from `offset` on.
pub(crate) fn portion_changes(portion: &Portion, offset: u64) -> Vec<ObjectChange> {
    let mut changes = vec![ObjectChange::Create];
    for (name, value) in &portion.xattrs {
        changes.push(ObjectChange::SetXattr(name.clone(), value.clone()));
    }
    if !portion.data.is_empty() {
        changes.push(ObjectChange::Write(offset, portion.data.clone()));
    }
    if !portion.header.is_empty() {
        changes.push(ObjectChange::OmapHeader(portion.header.clone()));
    }
    if !portion.entries.is_empty() {
        changes.push(ObjectChange::OmapSet(portion.entries.clone()));
    }
    changes
}

impl Copied {
    pub(crate) fn changes(&self) -> Vec<ObjectChange> {
        portion_changes(&self.portion, 0)
    }
}

/// A copy under way.
#[derive(Debug)]
pub(crate) struct Copying {
    pub(crate) wish: CopyWish,
    /// The operation that waits for it.
    pub(crate) hold: objectstore::Hold,
    pub(crate) offset: u64,
    pub(crate) after: Bytes,
    pub(crate) staged: Option<ObjectId>,
}

impl Copying {
    pub(crate) fn new(wish: CopyWish, hold: objectstore::Hold) -> Self {
        Self { wish, hold, offset: 0, after: Bytes::new(), staged: None }
    }

    /// The read of the next portion, of at most so many bytes.
    pub(crate) fn request(&self, most: u32) -> OsdOp {
        let mut ops = Vec::new();
        if self.wish.version != 0 {
            ops.push(Op::new(code::ASSERT_VER, OpArgs::AssertVer { version: self.wish.version }));
        }
        let wish = PortionWish { offset: self.offset, after: self.after.clone(), max: most };
        ops.push(Op { input: wish.encode(), ..Op::new(code::COPY_READ, OpArgs::CopyGet { max: most.into() }) });
        OsdOp {
            oid: self.wish.name.clone(),
            locator: self.wish.locator.clone(),
            flags: self.wish.flags,
            snapid: self.wish.snap,
            ops,
            ..OsdOp::default()
        }
    }

    /// Notes where the next portion begins, and that it must be of the same version.
    pub(crate) fn advance(&mut self, portion: &Portion) {
        self.wish.version = portion.user_version;
        self.offset += portion.data.len() as u64;
        if let Some((key, _)) = portion.entries.last() {
            self.after = key.clone();
        }
    }

    /// The whole, when `last` was the last portion.
    pub(crate) fn whole(self, last: Portion) -> Copied {
        let portion = match self.staged {
            Some(_) => Portion::default(),
            None => last.clone(),
        };
        Copied {
            size: last.size,
            mtime: last.mtime,
            user_version: last.user_version,
            truncate_seq: last.truncate.0,
            truncate_size: last.truncate.1,
            omap: last.omap,
            staged: self.staged,
            portion,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_come_back() {
        let pair = (Bytes::from_static(b"k"), Bytes::from_static(b"v"));
        let portion = Portion {
            size: 9 << 20,
            user_version: 4,
            truncate: (1, 2),
            omap: true,
            more: true,
            xattrs: vec![pair.clone()],
            entries: vec![pair],
            data: Bytes::from_static(b"data").into(),
            ..Portion::default()
        };
        assert_eq!(Portion::decode(&portion.clone().encode().contiguous()), Ok(portion));
        let wish = PortionWish { offset: 77, after: Bytes::from_static(b"k"), max: 8 << 20 };
        assert_eq!(PortionWish::decode(&wish.encode()), Ok(wish));
    }
}
