//! Names of objects.

use crate::{PoolId, SnapId, hash};
use bytes::Bytes;
use denc::{Decode, DecodeError, Encode, Reader, Result};
use std::cmp::Ordering;
use std::fmt;

/// Place of an object as a client names it: pool, namespace, and a key that replaces the name in placement. v6/c3.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Locator {
    /// Pool.
    pub pool: PoolId,
    /// If not empty, hashed instead of the object's name.
    pub key: Bytes,
    /// Namespace, empty for the default one.
    pub nspace: Bytes,
    /// If not -1, the hash itself.
    pub hash: i64,
}

impl Locator {
    /// The default place in `pool`.
    pub fn pool(pool: PoolId) -> Self {
        Self { pool, hash: -1, ..Self::default() }
    }

    /// The placement hash of object `name` here.
    pub fn hash_of(&self, name: &[u8]) -> u32 {
        if let Ok(hash) = u64::try_from(self.hash) {
            return denc::low32(hash);
        }
        let key = if self.key.is_empty() { name } else { &self.key };
        if self.nspace.is_empty() {
            return hash::rjenkins(key);
        }
        hash::rjenkins(&[&self.nspace[..], b"\x1f", key].concat())
    }
}

impl Encode for Locator {
    fn encode(&self, out: &mut Vec<u8>) {
        // A reader before v6 does not know explicit hashes.
        denc::envelope(out, 6, if self.hash >= 0 { 6 } else { 3 }, |out| {
            self.pool.encode(out);
            (-1i32).encode(out);
            self.key.encode(out);
            self.nspace.encode(out);
            self.hash.encode(out);
        });
    }
}

impl Decode for Locator {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("object_locator_t", 6)?;
        e.at_least("object_locator_t", 5)?;
        let pool = e.body.get()?;
        e.body.get::<i32>()?;
        let (key, nspace) = (e.body.get()?, e.body.get()?);
        // The Linux kernel writes version 5, which has no hash.
        let hash = if e.version >= 6 { e.body.get()? } else { -1 };
        Ok(Self { pool, key, nspace, hash })
    }
}

/// An object's full name, with its placement hash: the order in which objects are listed and stored. v4/c3.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct HObject {
    /// Pool; `i64::MIN` in the smallest of all.
    pub pool: PoolId,
    /// Placement hash.
    pub hash: u32,
    /// Namespace.
    pub nspace: Bytes,
    /// Locator key; empty if the name itself is the key.
    pub key: Bytes,
    /// Name.
    pub name: Bytes,
    /// Snapshot of the clone; [`SnapId::HEAD`] is the object itself.
    pub snap: SnapId,
    /// Larger than every object; the other fields mean nothing.
    pub max: bool,
}

impl HObject {
    /// Smaller than every object.
    pub fn min() -> Self {
        Self { pool: i64::MIN, hash: 0, nspace: Bytes::new(), key: Bytes::new(), name: Bytes::new(), snap: SnapId(0), max: false }
    }

    /// Larger than every object.
    pub fn end() -> Self {
        Self { max: true, ..Self::min() }
    }

    /// The head of object `name` at `locator`.
    pub fn head(name: Bytes, locator: &Locator) -> Self {
        Self {
            pool: locator.pool,
            hash: locator.hash_of(&name),
            nspace: locator.nspace.clone(),
            key: locator.key.clone(),
            name,
            snap: SnapId::HEAD,
            max: false,
        }
    }

    /// Returns where a scan of all objects of `pool` whose reversed hash is at least that of `hash` starts.
    pub fn start_of_hash(pool: PoolId, hash: u32) -> Self {
        Self { pool, hash, ..Self::min() }
    }

    /// The same object at another snapshot.
    pub fn at(&self, snap: SnapId) -> Self {
        Self { snap, ..self.clone() }
    }

    /// Returns true if this names the object itself, not a clone.
    pub fn is_head(&self) -> bool {
        self.snap == SnapId::HEAD
    }

    /// The hash with its bits reversed: the order of objects, so that splitting a group cuts ranges.
    pub fn reversed_hash(&self) -> u32 {
        self.hash.reverse_bits()
    }

    /// Returns what is hashed: the key, or the name.
    pub fn effective_key(&self) -> &Bytes {
        if self.key.is_empty() { &self.name } else { &self.key }
    }
}

/// Pool, reversed hash, namespace, key (or name), name, snapshot.
impl Ord for HObject {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.max.cmp(&other.max))
            .then_with(|| if self.max { Ordering::Equal } else { self.pool.cmp(&other.pool) })
            .then_with(|| if self.max { Ordering::Equal } else { self.cmp_in_pool(other) })
    }
}

impl HObject {
    fn cmp_in_pool(&self, other: &Self) -> Ordering {
        (self.reversed_hash().cmp(&other.reversed_hash()))
            .then_with(|| self.nspace.cmp(&other.nspace))
            .then_with(|| self.effective_key().cmp(other.effective_key()))
            .then_with(|| self.name.cmp(&other.name))
            .then_with(|| self.snap.cmp(&other.snap))
    }
}

impl PartialOrd for HObject {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Default for HObject {
    fn default() -> Self {
        Self::min()
    }
}

impl Encode for HObject {
    fn encode(&self, out: &mut Vec<u8>) {
        denc::envelope(out, 4, 3, |out| {
            self.key.encode(out);
            self.name.encode(out);
            self.snap.encode(out);
            self.hash.encode(out);
            self.max.encode(out);
            self.nspace.encode(out);
            self.pool.encode(out);
        });
    }
}

impl Decode for HObject {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("hobject_t", 4)?;
        e.at_least("hobject_t", 4)?;
        let b = &mut e.body;
        let (key, name, snap, hash, max, nspace, pool) = (b.get()?, b.get()?, b.get()?, b.get()?, b.get()?, b.get()?, b.get()?);
        Ok(Self { pool, hash, nspace, key, name, snap, max })
    }
}

/// `pool:reversed-hash:namespace:key:name:snap`, with bytes that are not plain escaped.
impl fmt::Display for HObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.max {
            return f.write_str("MAX");
        }
        if *self == Self::min() {
            return f.write_str("MIN");
        }
        let (ns, key, name) = (self.nspace.escape_ascii(), self.key.escape_ascii(), self.name.escape_ascii());
        write!(f, "{}:{:08x}:{ns}:{key}:{name}:", self.pool, self.reversed_hash())?;
        match self.snap {
            SnapId::HEAD => f.write_str("head"),
            SnapId::DIR => f.write_str("snapdir"),
            SnapId(n) => write!(f, "{n:x}"),
        }
    }
}

impl fmt::Debug for HObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Refuses names that could not have come from a client.
pub fn check_name(name: &[u8], max: usize) -> Result<()> {
    if name.len() > max { Err(DecodeError::Invalid("object name length")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placement_hash_takes_key_and_namespace() {
        let mut at = Locator::pool(2);
        assert_eq!(at.hash_of(b"obj1"), 0x6cf8_deff);
        at.nspace = Bytes::from_static(b"ns1");
        assert_eq!(at.hash_of(b"nobj"), 0x92fb_ef0c);
        at.nspace = Bytes::new();
        at.key = Bytes::from_static(b"key1");
        assert_eq!(at.hash_of(b"anything"), 0xefea_82ea);
    }

    #[test]
    fn objects_order_by_reversed_hash_and_the_ends_enclose_them() {
        let a = HObject { hash: 0x1, ..HObject::start_of_hash(1, 0) };
        let b = HObject { hash: 0x8000_0000, ..HObject::start_of_hash(1, 0) };
        assert!(b < a && HObject::min() < b && a < HObject::end());
        assert_eq!(HObject::from_bytes(&a.to_vec()), Ok(a));
    }
}
