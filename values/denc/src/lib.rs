//! Ceph's encodings: little-endian primitives, counted collections and versioned envelopes, over bounded readers.
//!
//! Everything that arrives from a peer or a disk is read with a [`Reader`]: it never reads past its end, refuses
//! counts that the remaining bytes cannot hold (so a forged length takes no memory), and tells what it was reading
//! when the bytes ran out. Writing cannot fail: an encoder appends to a `Vec<u8>`.
//!
//! The three shapes of Ceph's structures:
//!
//! - *plain*: the fields one after the other ([`plain!`]);
//! - *enveloped*: `u8 version, u8 compat, u32 length, payload` ([`versioned!`], [`envelope`], [`Reader::envelope`]).
//!   A newer peer may append fields; what the reader does not know is skipped. A `compat` above what the reader
//!   knows is refused;
//! - *tagged*: a leading byte selects the layout; written by hand where it occurs.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]
#![forbid(unsafe_code)]

use bytes::Bytes;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Reason why bytes could not be understood. The fault is always the sender's (or the disk's), never the caller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes ended: `need` more were wanted where only `have` remained.
    Truncated {
        /// Bytes wanted.
        need: usize,
        /// Bytes that remained.
        have: usize,
    },
    /// A count claims more items than the remaining bytes can hold.
    CountTooLarge {
        /// The count as read.
        count: u64,
        /// Bytes that remained.
        have: usize,
    },
    /// A count claims more items than the reader takes together.
    TooMany(u64),
    /// The structure demands a reader of at least version `compat`; this one knows `known`.
    TooNew {
        /// Name of the structure.
        what: &'static str,
        /// Version that the writer demands.
        compat: u8,
        /// Newest version known here.
        known: u8,
    },
    /// The structure is older than the oldest layout that is read here.
    TooOld {
        /// Name of the structure.
        what: &'static str,
        /// Version found.
        version: u8,
        /// Oldest version read here.
        oldest: u8,
    },
    /// A field holds a value that has no meaning.
    Invalid(&'static str),
    /// Bytes remained where the structure should have ended.
    Trailing(usize),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { need, have } => write!(f, "truncated: {need} bytes wanted, {have} left"),
            Self::CountTooLarge { count, have } => write!(f, "count {count} cannot fit the {have} bytes left"),
            Self::TooMany(count) => write!(f, "{count} items are too many"),
            Self::TooNew { what, compat, known } => {
                write!(
                    f,
                    "{what} needs a reader of version {compat}, this one knows {known}: the sender is newer than what is served"
                )
            }
            Self::TooOld { what, version, oldest } => {
                write!(f, "{what} has version {version}, the oldest read is {oldest}: the sender needs a newer release")
            }
            Self::Invalid(what) => write!(f, "invalid {what}"),
            Self::Trailing(n) => write!(f, "{n} bytes too many"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Result of decoding.
pub type Result<T> = std::result::Result<T, DecodeError>;

/// Reads primitives and structures from a byte slice, never past its end.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// Items that its collections may still have together, if that has a bound.
    items: Option<&'a Cell<usize>>,
}

/// The head of an enveloped structure, with a reader confined to its payload.
#[derive(Clone, Debug)]
pub struct Envelope<'a> {
    /// Version of the layout that the writer used.
    pub version: u8,
    /// Oldest reader that may read it.
    pub compat: u8,
    /// The payload, and nothing after it.
    pub body: Reader<'a>,
}

impl<'a> Reader<'a> {
    /// A reader over all of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, items: None }
    }

    /// A reader over all of `bytes` whose collections may have so many items together; those that are read are taken off. An item may take a
    /// hundred times as much memory as its bytes: what strangers list has such a bound.
    pub fn within(bytes: &'a [u8], items: &'a Cell<usize>) -> Self {
        Self { rest: bytes, items: Some(items) }
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Returns true if all was read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// All that was not read yet; the reader is empty afterwards.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(n) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(DecodeError::Truncated { need: n, have: self.rest.len() }),
        }
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(*head)
            }
            None => Err(DecodeError::Truncated { need: N, have: self.rest.len() }),
        }
    }

    /// Skips `n` bytes.
    pub fn skip(&mut self, n: usize) -> Result<()> {
        self.take(n).map(drop)
    }

    /// Any structure that can be decoded; the type is usually inferred.
    pub fn get<T: Decode>(&mut self) -> Result<T> {
        T::decode(self)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8> {
        self.get()
    }

    /// A little-endian u16.
    pub fn u16(&mut self) -> Result<u16> {
        self.get()
    }

    /// A little-endian u32.
    pub fn u32(&mut self) -> Result<u32> {
        self.get()
    }

    /// A little-endian u64.
    pub fn u64(&mut self) -> Result<u64> {
        self.get()
    }

    /// A u32 count of items that take at least `min_size` bytes each: refused if they cannot all be there.
    pub fn count(&mut self, min_size: usize) -> Result<usize> {
        let count = self.u32()?;
        if (count as u64).saturating_mul(min_size as u64) > self.rest.len() as u64 {
            return Err(DecodeError::CountTooLarge { count: count.into(), have: self.rest.len() });
        }
        if let Some(items) = self.items {
            items.set(items.get().checked_sub(count as usize).ok_or(DecodeError::TooMany(count.into()))?);
        }
        Ok(count as usize)
    }

    /// A u32 length and that many bytes (Ceph's string and buffer list), borrowed.
    pub fn blob(&mut self) -> Result<&'a [u8]> {
        let n = self.u32()? as usize;
        self.take(n)
    }

    /// The head of structure `what`, known here up to version `known`. The outer reader continues after the payload.
    pub fn envelope(&mut self, what: &'static str, known: u8) -> Result<Envelope<'a>> {
        let version = self.u8()?;
        let compat = self.u8()?;
        let len = self.u32()? as usize;
        let body = Reader { rest: self.take(len)?, items: self.items };
        if compat > known {
            return Err(DecodeError::TooNew { what, compat, known });
        }
        Ok(Envelope { version, compat, body })
    }

    /// Succeeds if nothing is left.
    pub fn finish(&self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::Trailing(self.rest.len())) }
    }
}

impl Envelope<'_> {
    /// Refuses layouts older than `oldest`.
    pub fn at_least(&self, what: &'static str, oldest: u8) -> Result<()> {
        if self.version < oldest {
            return Err(DecodeError::TooOld { what, version: self.version, oldest });
        }
        Ok(())
    }
}

/// Structures that can be read.
pub trait Decode: Sized {
    /// Fewest bytes that an encoding takes; bounds what a forged count may reserve.
    const MIN_SIZE: usize = 1;

    /// Reads one from the front of `r`.
    fn decode(r: &mut Reader<'_>) -> Result<Self>;

    /// Reads one that must fill `bytes` to the last byte.
    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes);
        let value = Self::decode(&mut r)?;
        r.finish()?;
        Ok(value)
    }
}

/// Structures that can be written.
pub trait Encode {
    /// Appends the encoding to `out`.
    fn encode(&self, out: &mut Vec<u8>);

    /// The encoding as a buffer of its own.
    fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// The encoding as a shared buffer.
    fn to_bytes(&self) -> Bytes {
        self.to_vec().into()
    }
}

/// Writes an enveloped structure: head, then whatever `body` appends, then the length is filled in.
pub fn envelope(out: &mut Vec<u8>, version: u8, compat: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&[version, compat, 0, 0, 0, 0]);
    let start = out.len();
    body(out);
    let len = u32::try_from(out.len() - start).expect("an encoded structure is below 4 GiB");
    out[start - 4..start].copy_from_slice(&len.to_le_bytes());
}

/// Writes whatever `body` appends as a buffer list: u32 length in front.
pub fn blob(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&[0; 4]);
    let start = out.len();
    body(out);
    let len = u32::try_from(out.len() - start).expect("an encoded buffer is below 4 GiB");
    out[start - 4..start].copy_from_slice(&len.to_le_bytes());
}

/// Writes a collection's u32 count.
pub fn put_count(out: &mut Vec<u8>, n: usize) {
    len32(n).encode(out);
}

/// A length or count of our own as the u32 that it is written as. Panics from 4 Gi on: no structure is that large.
pub fn len32(n: usize) -> u32 {
    u32::try_from(n).expect("fewer than 2^32")
}

/// The low 32 bits, where a format or a hash says so.
#[expect(clippy::cast_possible_truncation, reason = "the rest is cut off on purpose")]
pub const fn low32(n: u64) -> u32 {
    n as u32
}

const _: () = assert!(usize::BITS == 64, "sizes are 64 bits wide: numbers from outside fit `usize`");

/// A 64-bit number as an index or size. Loses nothing: the program is built for 64-bit machines only.
#[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits, as asserted above")]
pub const fn index(n: u64) -> usize {
    n as usize
}

macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl Decode for $t {
            const MIN_SIZE: usize = size_of::<$t>();
            #[inline]
            fn decode(r: &mut Reader<'_>) -> Result<Self> {
                Ok(<$t>::from_le_bytes(r.array()?))
            }
        }
        impl Encode for $t {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);

/// One byte; any value but 0 is true, as Ceph reads it. Written as 0 or 1.
impl Decode for bool {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(r.u8()? != 0)
    }
}

impl Encode for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

/// Raw bytes without a length.
impl<const N: usize> Decode for [u8; N] {
    const MIN_SIZE: usize = N;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.array()
    }
}

impl<const N: usize> Encode for [u8; N] {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

/// Text that must be UTF-8 (names that the cluster itself gives: pools, entities, commands).
impl Decode for String {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        String::from_utf8(r.blob()?.to_vec()).map_err(|_| DecodeError::Invalid("UTF-8 text"))
    }
}

impl Encode for String {
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_str().encode(out);
    }
}

impl Encode for str {
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_bytes().encode(out);
    }
}

impl Encode for [u8] {
    /// u32 length and the bytes.
    fn encode(&self, out: &mut Vec<u8>) {
        put_count(out, self.len());
        out.extend_from_slice(self);
    }
}

/// Opaque bytes with a u32 length: Ceph's `bufferlist`, and strings that need not be UTF-8 (object names, omap keys).
impl Decode for Bytes {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Bytes::copy_from_slice(r.blob()?))
    }
}

impl Encode for Bytes {
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_ref().encode(out);
    }
}

/// u32 count and the items. (For raw bytes use [`Bytes`]: the encoding is the same, the work is not.)
impl<T: Decode> Decode for Vec<T> {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let n = r.count(T::MIN_SIZE)?;
        let mut items = Vec::with_capacity(n.min(4096));
        for _ in 0..n {
            items.push(r.get()?);
        }
        Ok(items)
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        put_count(out, self.len());
        for item in self {
            item.encode(out);
        }
    }
}

impl<T: Decode + Ord> Decode for BTreeSet<T> {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let n = r.count(T::MIN_SIZE)?;
        (0..n).map(|_| r.get()).collect()
    }
}

impl<T: Encode> Encode for BTreeSet<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        put_count(out, self.len());
        for item in self {
            item.encode(out);
        }
    }
}

impl<K: Decode + Ord, V: Decode> Decode for BTreeMap<K, V> {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let n = r.count(K::MIN_SIZE + V::MIN_SIZE)?;
        (0..n).map(|_| Ok((r.get()?, r.get()?))).collect()
    }
}

impl<K: Encode, V: Encode> Encode for BTreeMap<K, V> {
    fn encode(&self, out: &mut Vec<u8>) {
        put_count(out, self.len());
        for (key, value) in self {
            key.encode(out);
            value.encode(out);
        }
    }
}

impl<A: Decode, B: Decode> Decode for (A, B) {
    const MIN_SIZE: usize = A::MIN_SIZE + B::MIN_SIZE;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok((r.get()?, r.get()?))
    }
}

impl<A: Encode, B: Encode> Encode for (A, B) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    fn encode(&self, out: &mut Vec<u8>) {
        (**self).encode(out);
    }
}

/// Implements both traits for a struct whose encoding is its fields in order, with no envelope.
///
/// ```
/// struct Point { x: u32, y: u32 }
/// denc::plain!(Point { x, y });
/// ```
#[macro_export]
macro_rules! plain {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::Decode for $name {
            fn decode(r: &mut $crate::Reader<'_>) -> $crate::Result<Self> {
                $(let $field = r.get()?;)*
                Ok(Self { $($field),* })
            }
        }
        impl $crate::Encode for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                $($crate::Encode::encode(&self.$field, out);)*
            }
        }
    };
}

/// Implements both traits for a struct in a versioned envelope: written at `version`/`compat`, read from exactly the
/// fields of that version on (older layouts are refused, appended fields are skipped).
///
/// ```
/// struct Info { id: u64, name: String }
/// denc::versioned!(Info, 2, 1 { id, name });
/// ```
#[macro_export]
macro_rules! versioned {
    ($name:ident, $version:literal, $compat:literal { $($field:ident),* $(,)? }) => {
        impl $crate::Decode for $name {
            const MIN_SIZE: usize = 6;
            fn decode(r: &mut $crate::Reader<'_>) -> $crate::Result<Self> {
                #[allow(unused_mut, unused_variables)]
                let mut e = r.envelope(stringify!($name), $version)?;
                e.at_least(stringify!($name), $version)?;
                $(let $field = e.body.get()?;)*
                Ok(Self { $($field),* })
            }
        }
        impl $crate::Encode for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                #[allow(unused_variables)]
                $crate::envelope(out, $version, $compat, |out| {
                    $($crate::Encode::encode(&self.$field, out);)*
                });
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Info {
        id: u64,
        name: String,
    }
    versioned!(Info, 2, 1 { id, name });

    #[test]
    fn an_envelope_round_trips_and_skips_what_a_newer_writer_appended() {
        let info = Info { id: 7, name: "seven".into() };
        let mut bytes = info.to_vec();
        assert_eq!(Info::from_bytes(&bytes), Ok(Info { id: 7, name: "seven".into() }));
        bytes[0] = 3;
        bytes.extend_from_slice(&[1, 2, 3]);
        bytes[2] += 3;
        assert_eq!(Info::from_bytes(&bytes), Ok(info));
    }

    #[test]
    fn a_reader_too_old_for_the_structure_refuses_it() {
        let mut bytes = Info { id: 7, name: String::new() }.to_vec();
        bytes[1] = 9;
        assert_eq!(Info::from_bytes(&bytes), Err(DecodeError::TooNew { what: "Info", compat: 9, known: 2 }));
        bytes[0] = 1;
        bytes[1] = 1;
        assert_eq!(Info::from_bytes(&bytes), Err(DecodeError::TooOld { what: "Info", version: 1, oldest: 2 }));
    }

    #[test]
    fn a_forged_count_is_refused_before_memory_is_taken() {
        let bytes = [0xff, 0xff, 0xff, 0xff, 0, 0];
        assert!(matches!(Vec::<u64>::from_bytes(&bytes), Err(DecodeError::CountTooLarge { .. })));
        assert!(matches!(BTreeMap::<u32, u32>::from_bytes(&bytes), Err(DecodeError::CountTooLarge { .. })));
        assert!(matches!(Bytes::from_bytes(&bytes), Err(DecodeError::Truncated { .. })));
    }

    #[test]
    fn what_collections_list_together_has_a_bound() {
        let lists = vec![vec![1u8; 3]; 4].to_vec();
        let read = |most| {
            let items = Cell::new(most);
            let read = Reader::within(&lists, &items).get::<Vec<Vec<u8>>>();
            (read.map(|lists| lists.len()), items.get())
        };
        assert_eq!(read(20), (Ok(4), 4));
        assert_eq!(read(16), (Ok(4), 0));
        assert_eq!(read(15).0, Err(DecodeError::TooMany(3)), "inner ones count, too");
        assert_eq!(read(3).0, Err(DecodeError::TooMany(4)));
        let mut inside = vec![1, 1, 0, 0, 0, 0];
        inside.extend(vec![7u8; 5].to_vec());
        inside[2] = 9;
        let items = Cell::new(4);
        let mut reader = Reader::within(&inside, &items);
        assert_eq!(
            reader.envelope("list", 1).expect("a head").body.get::<Vec<u8>>(),
            Err(DecodeError::TooMany(5)),
            "in envelopes"
        );
    }

    #[test]
    fn an_inner_structure_cannot_read_beyond_its_envelope() {
        let mut bytes = vec![2, 1, 4, 0, 0, 0, 1, 0, 0, 0];
        bytes.extend_from_slice(&[0; 32]);
        assert_eq!(Info::decode(&mut Reader::new(&bytes)), Err(DecodeError::Truncated { need: 8, have: 4 }));
    }
}
