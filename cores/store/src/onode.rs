//! The onode: an object's entry in the index.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

use bytes::{BufMut, Bytes};

/// What the index knows about an object. Extents, attributes and omap hang below its id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Onode {
    /// The object's number. It is never used for another object.
    pub(crate) id: u64,
    /// Length in bytes.
    pub(crate) size: u64,
    /// Whether it may have attributes.
    pub(crate) xattrs: bool,
    /// Whether it may have an omap or its header.
    pub(crate) omap: bool,
    /// The placement group's record about the object.
    pub(crate) info: Bytes,
}

const HEAD: usize = 17;
const XATTRS: u8 = 1;
const OMAP: u8 = 2;

impl Onode {
    /// The same with memory of its own: a part of a page, or of a message, would keep all of that in memory.
    pub(crate) fn on_its_own(self) -> Self {
        Self { info: Bytes::copy_from_slice(&self.info), ..self }
    }

    /// Encodes the value of the N key.
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(HEAD + self.info.len());
        out.put_u64_le(self.id);
        out.put_u64_le(self.size);
        out.push(if self.xattrs { XATTRS } else { 0 } | if self.omap { OMAP } else { 0 });
        out.extend_from_slice(&self.info);
        out.into()
    }

    /// Decodes a value; `info` shares its memory. None for flags that a later program may have given a meaning.
    pub(crate) fn decode(value: &Bytes) -> Option<Self> {
        let (id, rest) = value.split_first_chunk::<8>()?;
        let (size, rest) = rest.split_first_chunk::<8>()?;
        let flags = *rest.first()?;
        let (id, size) = (u64::from_le_bytes(*id), u64::from_le_bytes(*size));
        if flags & !(XATTRS | OMAP) != 0 {
            return None;
        }
        Some(Self { id, size, xattrs: flags & XATTRS != 0, omap: flags & OMAP != 0, info: value.slice(HEAD..) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back() {
        let onode = Onode { id: 7, size: 1 << 40, xattrs: true, omap: false, info: Bytes::from_static(b"info") };
        assert_eq!(Onode::decode(&onode.encode()), Some(onode.clone()));
        assert_eq!(Onode::decode(&Bytes::from_static(b"short")), None);
        for bit in 2..8 {
            let mut value = onode.encode().to_vec();
            value[16] |= 1 << bit;
            assert_eq!(Onode::decode(&value.into()), None, "flag {bit} has no meaning yet");
        }
    }
}
