//! Changes by key of bytes: a [`Layer`] whose keys carry their first bytes with them.
//!
//! A search in a map of 100,000 keys compares some thirty of them, each somewhere else in memory. Most differ in the
//! bytes that fit the map's own nodes.

use super::layer::Layer;
use bytes::Bytes;
use std::borrow::Borrow;
use std::cmp::Ordering;

/// The first bytes of a key, as numbers that order as they do. Zeros follow a shorter key. Long enough for a log
/// entry's whole key, and for the hash in an object's.
type Head = [u64; 3];

fn head(bytes: &[u8]) -> Head {
    let mut padded = [0; size_of::<Head>()];
    let n = bytes.len().min(padded.len());
    padded[..n].copy_from_slice(&bytes[..n]);
    let (words, _) = padded.as_chunks::<8>();
    [words[0], words[1], words[2]].map(u64::from_be_bytes)
}

/// A key of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    head: Head,
    bytes: Bytes,
}

impl From<Bytes> for Key {
    fn from(bytes: Bytes) -> Self {
        Self { head: head(&bytes), bytes }
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.head.cmp(&other.head).then_with(|| self.bytes.cmp(&other.bytes))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The common face of a key in the map and a key that is looked for.
trait Probe {
    fn parts(&self) -> (&Head, &[u8]);
}

impl Probe for Key {
    fn parts(&self) -> (&Head, &[u8]) {
        (&self.head, &self.bytes)
    }
}

impl Probe for (Head, &[u8]) {
    fn parts(&self) -> (&Head, &[u8]) {
        (&self.0, self.1)
    }
}

impl Ord for dyn Probe + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl PartialOrd for dyn Probe + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Probe + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn Probe + '_ {}

impl<'a> Borrow<dyn Probe + 'a> for Key {
    fn borrow(&self) -> &(dyn Probe + 'a) {
        self
    }
}

/// Changes in order of keys, over the layers and the tree below; none is a removal. See [`Layer`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes(Layer<Key, Option<Bytes>>);

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of changes, range tombstones included.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Option<Bytes>> {
        self.0.get(&(head(key), key) as &dyn Probe)
    }

    pub(crate) fn put(&mut self, key: Bytes, value: Option<Bytes>) {
        self.0.put(key.into(), value);
    }

    /// Says whether lower layers are hidden at `key`. If so, gives the end of the range that hides them.
    pub(crate) fn hidden(&self, key: &[u8]) -> Option<&Bytes> {
        self.0.hidden(&(head(key), key) as &dyn Probe).map(|end| &end.bytes)
    }

    /// Removes everything in `from..to`, here and below.
    pub(crate) fn remove_range(&mut self, from: Bytes, to: Bytes) {
        self.0.remove_range(from.into(), to.into());
    }

    /// Gives the changes at `from` or later, in order.
    pub(crate) fn iter_from<'a>(&'a self, from: &[u8]) -> impl Iterator<Item = (&'a Bytes, &'a Option<Bytes>)> + use<'a> {
        self.0.iter_from(&(head(from), from) as &dyn Probe).map(|(key, value)| (&key.bytes, value))
    }

    /// Gives all changes in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Bytes, &Option<Bytes>)> {
        self.0.iter().map(|(key, value)| (&key.bytes, value))
    }

    /// Says whether there are range tombstones.
    pub(crate) fn has_ranges(&self) -> bool {
        self.0.has_ranges()
    }

    /// Gives all range tombstones in order.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.0.ranges().map(|(from, to)| (&from.bytes, &to.bytes))
    }

    /// Drops them one by one.
    pub(crate) fn dismantle(self) -> impl Iterator<Item = ()> + Send {
        self.0.dismantle()
    }

    /// Says whether a change or a range tombstone touches `from..to`. `to` none is the end of all keys.
    pub(crate) fn touches(&self, from: &Bytes, to: Option<&Bytes>) -> bool {
        let to = to.cloned().map(Key::from);
        self.0.touches(&from.clone().into(), to.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_as_their_bytes_do() {
        let long = |tail: &[u8]| [&[7; 23][..], tail].concat();
        let mut all: Vec<Vec<u8>> =
            [&b""[..], b"\0", b"\0\0", b"a", b"a\0", b"a\0\0b", b"a\x01", b"\xff", b"\xff\xff"].map(<[u8]>::to_vec).into();
        all.extend([&b""[..], b"\0", b"\0\0", b"\0\x01", b"\x01", b"\x01\0", b"\xff\xff"].map(long));
        for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
            let (x, y) = (Key::from(Bytes::from(a.clone())), Key::from(Bytes::from(b.clone())));
            assert_eq!(x.cmp(&y), a.cmp(b), "{a:?} {b:?}");
            assert_eq!((&x as &dyn Probe).cmp(&(head(b), &b[..]) as &dyn Probe), a.cmp(b));
        }
        let mut changes = Changes::default();
        all.iter().for_each(|key| changes.put(key.clone().into(), Some(key.clone().into())));
        all.sort();
        assert!(changes.iter().map(|(key, _)| &key[..]).eq(all.iter().map(|k| &k[..])));
        assert!(all.iter().all(|key| changes.get(key) == Some(&Some(key.clone().into()))));
        assert_eq!(changes.iter_from(b"a\0").next().map(|(key, _)| &key[..]), Some(&b"a\0"[..]));
    }
}
