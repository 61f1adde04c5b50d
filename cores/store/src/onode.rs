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
    /// True if it may have attributes.
    pub(crate) xattrs: bool,
    /// True if it may have an omap or its header.
    pub(crate) omap: bool,
    /// Place where the keys of its omap are, if they are not below its own id, or if others see them, too.
    pub(crate) shared: Option<Shared>,
    /// The placement group's record about the object.
    pub(crate) info: Bytes,
}

/// An object's part in a family of shared omaps ([`crate::family`]). If there is no such family any more, the omap is the object's alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shared {
    /// The id of its layer: keys of its omap hang below this one.
    pub(crate) id: u64,
    /// The number of the family.
    pub(crate) family: u64,
}

const HEAD: usize = 17;
/// Length of the head with [`Shared`].
const SHARED_HEAD: usize = HEAD + 16;
const XATTRS: u8 = 1;
const OMAP: u8 = 2;
const SHARED: u8 = 4;

impl Onode {
    /// The same with memory of its own: a part of a page, or of a message, would keep all of that in memory.
    pub(crate) fn on_its_own(self) -> Self {
        Self { info: Bytes::copy_from_slice(&self.info), ..self }
    }

    /// The id below which the keys of its omap are.
    pub(crate) fn omap_id(&self) -> u64 {
        self.shared.map_or(self.id, |shared| shared.id)
    }

    /// Encodes the value of the N key.
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(SHARED_HEAD + self.info.len());
        out.put_u64_le(self.id);
        out.put_u64_le(self.size);
        let flag = |set, flag| if set { flag } else { 0 };
        out.push(flag(self.xattrs, XATTRS) | flag(self.omap, OMAP) | flag(self.shared.is_some(), SHARED));
        if let Some(Shared { id, family }) = self.shared {
            out.put_u64_le(id);
            out.put_u64_le(family);
        }
        out.extend_from_slice(&self.info);
        out.into()
    }

    /// Decodes a value; `info` shares its memory. None for flags that a later program may have given a meaning.
    pub(crate) fn decode(value: &Bytes) -> Option<Self> {
        let (id, rest) = value.split_first_chunk::<8>()?;
        let (size, rest) = rest.split_first_chunk::<8>()?;
        let flags = *rest.first()?;
        let (id, size) = (u64::from_le_bytes(*id), u64::from_le_bytes(*size));
        if flags & !(XATTRS | OMAP | SHARED) != 0 {
            return None;
        }
        let (shared, head) = if flags & SHARED == 0 {
            (None, HEAD)
        } else {
            let (layer, rest) = rest[1..].split_first_chunk::<8>()?;
            let family = rest.first_chunk::<8>()?;
            (Some(Shared { id: u64::from_le_bytes(*layer), family: u64::from_le_bytes(*family) }), SHARED_HEAD)
        };
        Some(Self { id, size, xattrs: flags & XATTRS != 0, omap: flags & OMAP != 0, shared, info: value.slice(head..) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back() {
        let onode = Onode { id: 7, size: 1 << 40, xattrs: true, omap: false, shared: None, info: Bytes::from_static(b"info") };
        assert_eq!(Onode::decode(&onode.encode()), Some(onode.clone()));
        let shared = Onode { shared: Some(Shared { id: 8, family: 1 << 50 }), ..onode.clone() };
        assert_eq!(Onode::decode(&shared.encode()), Some(shared.clone()));
        assert_eq!(Onode::decode(&shared.encode().slice(..SHARED_HEAD - 1)), None);
        assert_eq!(Onode::decode(&Bytes::from_static(b"short")), None);
        for bit in 3..8 {
            let mut value = onode.encode().to_vec();
            value[16] |= 1 << bit;
            assert_eq!(Onode::decode(&value.into()), None, "flag {bit} has no meaning yet");
        }
    }
}
