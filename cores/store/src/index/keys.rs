//! Keys of the index, ordered as their bytes are.

use bytes::{BufMut, Bytes};
use types::object_id::CURRENT;
use types::{HObject, ObjectId, PgId, ShardId, SnapId, SpgId};

/// Sections, in order.
pub(crate) const INNER: u8 = b'I';
pub(crate) const META: u8 = b'M';
pub(crate) const NAME: u8 = b'N';
/// Families of shared omaps.
pub(crate) const FAMILY: u8 = b'S';
pub(crate) const EXTENT: u8 = b'X';
pub(crate) const SHARED: u8 = b'Y';
pub(crate) const FREE: u8 = b'Z';

/// What hangs below an onode's id.
pub(crate) const XATTR: u8 = b'a';
pub(crate) const HEADER: u8 = b'h';
pub(crate) const OMAP: u8 = b'o';
/// What a layer of a shared omap says.
pub(crate) const SAID: u8 = b'p';

/// Longest key that the index takes, in bytes.
pub(crate) const LONGEST: usize = 1 << 20;

/// Escapes 0 as 0,255 and ends with 0,0: order is kept, and none is another's prefix.
fn put_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    for part in bytes.split_inclusive(|b| *b == 0) {
        out.extend_from_slice(part);
        if part.last() == Some(&0) {
            out.push(255);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

fn take_escaped<'a>(rest: &mut &'a [u8]) -> Option<std::borrow::Cow<'a, [u8]>> {
    let mut owned: Option<Vec<u8>> = None;
    let whole = *rest;
    let mut at = 0;
    loop {
        let zero = at + whole[at..].iter().position(|b| *b == 0)?;
        match whole.get(zero + 1)? {
            0 => {
                *rest = &whole[zero + 2..];
                return Some(match owned {
                    None => whole[..zero].into(),
                    Some(mut bytes) => {
                        bytes.extend_from_slice(&whole[at..zero]);
                        bytes.into()
                    }
                });
            }
            255 => owned.get_or_insert_default().extend_from_slice(&whole[at..=zero]),
            _ => return None,
        }
        at = zero + 2;
    }
}

/// Key of an object's onode. What is not the whole object as it is has a [`Suffix`] behind the snapshot; so the key of a whole object is a
/// prefix of those of its shards and generations, and orders before them.
pub(crate) fn name(object: &ObjectId) -> Bytes {
    if object.max {
        return Bytes::from_static(&[NAME + 1]);
    }
    let mut out = Vec::with_capacity(40 + object.nspace.len() + object.effective_key().len() + object.name.len());
    out.push(NAME);
    out.put_u64(object.pool.cast_unsigned() ^ 1 << 63);
    out.put_u32(object.reversed_hash());
    put_escaped(&mut out, &object.nspace);
    put_escaped(&mut out, object.effective_key());
    match object.name.cmp(object.effective_key()) {
        std::cmp::Ordering::Equal => out.push(2),
        less => {
            out.push(if less.is_lt() { 1 } else { 3 });
            put_escaped(&mut out, &object.name);
        }
    }
    out.put_u64(object.snap.0);
    if !object.is_whole() {
        out.put_u64(object.generation);
        out.push(object.shard.0.cast_unsigned() ^ 0x80);
    }
    out.into()
}

/// Returns how many bytes of a name's key are of the object without its snapshot, generation and shard. None if that is no such key.
pub(crate) fn stem(key: &[u8]) -> Option<usize> {
    const HEAD: usize = 1 + 8 + 4;
    let escaped = |at: usize| {
        let mut at = at;
        loop {
            at += key.get(at..)?.iter().position(|b| *b == 0)?;
            match key.get(at + 1)? {
                0 => return Some(at + 2),
                _ => at += 2,
            }
        }
    };
    let at = escaped(escaped(HEAD)?)?;
    match key.get(at)? {
        2 => Some(at + 1),
        1 | 3 => escaped(at + 1),
        _ => None,
    }
}

/// The end of a name's key: snapshot, and for all but whole objects generation and shard.
struct Suffix {
    snap: SnapId,
    generation: u64,
    shard: ShardId,
}

/// Reads the end of a name's key. A suffix that says "whole, as it is" is not written, so there is only one key for each name.
fn suffix(rest: &[u8]) -> Option<Suffix> {
    let (snap, rest) = rest.split_first_chunk::<8>()?;
    let snap = SnapId(u64::from_be_bytes(*snap));
    if rest.is_empty() {
        return Some(Suffix { snap, generation: CURRENT, shard: ShardId::NONE });
    }
    let (generation, rest) = rest.split_first_chunk::<8>()?;
    let &[shard] = rest else { return None };
    let (generation, shard) = (u64::from_be_bytes(*generation), ShardId((shard ^ 0x80).cast_signed()));
    (generation != CURRENT || shard != ShardId::NONE).then_some(Suffix { snap, generation, shard })
}

/// The object whose onode has this key.
pub(crate) fn object(key: &[u8]) -> Option<ObjectId> {
    let mut rest = key.strip_prefix(&[NAME])?;
    let (pool, tail) = rest.split_first_chunk::<8>()?;
    let (hash, tail) = tail.split_first_chunk::<4>()?;
    rest = tail;
    let nspace = Bytes::copy_from_slice(&take_escaped(&mut rest)?);
    let effective = Bytes::copy_from_slice(&take_escaped(&mut rest)?);
    let (how, tail) = rest.split_first()?;
    rest = tail;
    let (key, name) = match how {
        2 => (Bytes::new(), effective),
        1 | 3 => (effective, Bytes::copy_from_slice(&take_escaped(&mut rest)?)),
        _ => return None,
    };
    let Suffix { snap, generation, shard } = suffix(rest)?;
    let pool = (u64::from_be_bytes(*pool) ^ 1 << 63).cast_signed();
    let object = HObject { pool, hash: u32::from_be_bytes(*hash).reverse_bits(), nspace, key, name, snap, max: false };
    Some(ObjectId { object: object.into(), shard, generation })
}

/// Key below an onode's id: section `kind`, then `tail`.
pub(crate) fn inner(id: u64, kind: u8, tail: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(10 + tail.len());
    out.push(INNER);
    out.put_u64(id);
    out.push(kind);
    out.extend_from_slice(tail);
    out.into()
}

/// Length of the part of an [`inner`] key before its tail.
pub(crate) const INNER_HEAD: usize = 10;

/// Returns where all that hangs below `id` begins; it ends where `id + 1` begins.
pub(crate) fn inner_start(id: u64) -> Bytes {
    let mut out = Vec::with_capacity(9);
    out.push(INNER);
    out.put_u64(id);
    out.into()
}

/// Key of a family of shared omaps.
pub(crate) fn family(id: u64) -> Bytes {
    let mut out = Vec::with_capacity(9);
    out.push(FAMILY);
    out.put_u64(id);
    out.into()
}

/// The id of a family's key.
pub(crate) fn family_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.strip_prefix(&[FAMILY])?.try_into().ok()?))
}

/// Key of a meta value.
pub(crate) fn meta(scope: &SpgId, key: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(META_HEAD + key.len());
    out.push(META);
    out.put_u64(scope.pg.pool.cast_unsigned() ^ 1 << 63);
    out.put_u32(scope.pg.seed);
    out.push(scope.shard.0.cast_unsigned() ^ 0x80);
    out.extend_from_slice(key);
    out.into()
}

/// Length of the part of a [`meta`] key before the group's own key.
pub(crate) const META_HEAD: usize = 14;

/// The scope of a meta key.
pub(crate) fn scope(key: &[u8]) -> Option<SpgId> {
    let rest = key.strip_prefix(&[META])?;
    let (pool, rest) = rest.split_first_chunk::<8>()?;
    let (seed, rest) = rest.split_first_chunk::<4>()?;
    let pool = (u64::from_be_bytes(*pool) ^ 1 << 63).cast_signed();
    Some(SpgId { pg: PgId::new(pool, u32::from_be_bytes(*seed)), shard: ShardId((rest.first()? ^ 0x80).cast_signed()) })
}

/// Key of the extents of range `range` of onode `id`.
pub(crate) fn extent(id: u64, range: u32) -> Bytes {
    let mut out = Vec::with_capacity(13);
    out.push(EXTENT);
    out.put_u64(id);
    out.put_u32(range);
    out.into()
}

/// Id and range of an X key.
pub(crate) fn extent_of(key: &[u8]) -> Option<(u64, u32)> {
    let rest = key.strip_prefix(&[EXTENT])?;
    let (id, range) = rest.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*id), u32::from_be_bytes(range.try_into().ok()?)))
}

/// Key of chunk `chunk` in section Y or Z.
pub(crate) fn chunk(section: u8, chunk: u32) -> Bytes {
    let mut out = Vec::with_capacity(5);
    out.push(section);
    out.put_u32(chunk);
    out.into()
}

/// Chunk of a Y or Z key.
pub(crate) fn chunk_of(section: u8, key: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(key.strip_prefix(&[section])?.try_into().ok()?))
}

/// The first chunk whose key in `section` is not before `key`; none if there is no such chunk.
pub(crate) fn chunk_at(section: u8, key: &[u8]) -> Option<u32> {
    match key.split_first() {
        Some((first, _)) if *first > section => None,
        Some((first, rest)) if *first == section => {
            let mut padded = [0; 4];
            let n = rest.len().min(4);
            padded[..n].copy_from_slice(&rest[..n]);
            u32::from_be_bytes(padded).checked_add(u32::from(rest.len() > 4))
        }
        _ => Some(0),
    }
}

/// The smallest key that is larger than every key that begins with `prefix`; none if there is no such key.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Bytes> {
    let keep = prefix.iter().rposition(|b| *b != 255)?;
    let mut out = prefix[..=keep].to_vec();
    out[keep] += 1;
    Some(out.into())
}

/// `key`'s immediate successor.
pub(crate) fn successor(key: &[u8]) -> Bytes {
    [key, &[0]].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_found_from_any_key() {
        for section in [SHARED, FREE] {
            let mut at: Vec<Vec<u8>> =
                vec![vec![], vec![section - 1], vec![section], vec![section + 1], vec![section, 255, 255, 255, 255, 0]];
            for chunk in [0, 1, 255, 256, 65_536, u32::MAX - 1, u32::MAX] {
                let key = super::chunk(section, chunk);
                at.extend([key.to_vec(), successor(&key).to_vec(), key[..3].to_vec()]);
                assert_eq!((chunk_of(section, &key), chunk_at(section, &key)), (Some(chunk), Some(chunk)));
            }
            for from in at {
                let found = chunk_at(section, &from);
                assert!(found.is_none_or(|c| super::chunk(section, c) >= from[..]), "{from:?}");
                let before = found.map_or(Some(u32::MAX), |c| c.checked_sub(1));
                assert!(before.is_none_or(|c| super::chunk(section, c) < from[..]), "{from:?}");
            }
        }
    }

    #[test]
    fn names_order_as_objects_do_and_come_back() {
        let words: [&[u8]; 7] = [b"", b"a", b"a\0", b"a\0\0b", b"ab", b"\0", b"\xff\xff"];
        let mut all = Vec::new();
        for pool in [-3, 0, 5] {
            for hash in [0u32, 1, 0x8000_0000] {
                for (n, k, s) in (0..7 * 7 * 3).map(|i| (i % 7, i / 7 % 7, i / 49)) {
                    let nspace = Bytes::from_static(words[(n * 3 + k) % 7]);
                    let (name, mut key) = (Bytes::from_static(words[n]), Bytes::from_static(words[k]));
                    if key == name {
                        key = Bytes::new();
                    }
                    let snap = [SnapId(0), SnapId(77), SnapId::HEAD][s];
                    let whole = ObjectId::whole(HObject { pool, hash, nspace, key, name, snap, max: false });
                    all.extend([-1, 0, 5].map(|shard| ObjectId { shard: ShardId(shard), ..whole.clone() }));
                    all.extend([0, 256].map(|generation| whole.in_generation(generation)));
                    all.push(whole);
                }
            }
        }
        for object in &all {
            let key = name(object);
            assert_eq!(super::object(&key).as_ref(), Some(object));
            // What clones of an object have in common.
            let head = name(&ObjectId::whole(HObject { snap: SnapId(0), ..HObject::clone(&object.object) }));
            assert_eq!(key[..stem(&key).expect("a name")], head[..head.len() - 8]);
        }
        all.sort();
        all.dedup_by(|a, b| (*a).cmp(b).is_eq());
        assert!(all.windows(2).all(|w| name(&w[0]) < name(&w[1])));
        let (first, end) = (name(&HObject::min().into()), name(&HObject::end().into()));
        assert!(all.iter().all(|o| first <= name(o) && name(o) < end));
    }

    #[test]
    fn a_name_has_one_key_and_other_keys_are_no_names() {
        let whole = ObjectId::whole(HObject { name: "n".into(), snap: SnapId::HEAD, ..HObject::start_of_hash(1, 7) });
        let key = name(&whole);
        assert_eq!(object(&[&key[..], &[0xff; 8], &[0x7f]].concat()), None, "a whole object with a suffix");
        assert!((1..9).all(|n| object(&[&key[..], &[0; 10][..n]].concat()).is_none()), "half a suffix");
        assert_eq!(object(&[&key[..], &[0; 10]].concat()), None, "more than a suffix");
        assert!((1..=8).all(|n| object(&key[..key.len() - n]).is_none()), "half a snapshot");
    }

    #[test]
    fn scopes_come_back_in_order() {
        let of = |pool, seed, shard| SpgId { pg: PgId::new(pool, seed), shard: ShardId(shard) };
        let all = [of(-1, 3, -1), of(1, 0, -1), of(1, 0, 0), of(1, 0, 5), of(1, 7, -1), of(2, 1, -1)];
        assert!(all.iter().all(|s| scope(&meta(s, b"k")) == Some(*s)));
        assert!(all.windows(2).all(|w| meta(&w[0], b"\xff") < meta(&w[1], b"")));
        assert_eq!(extent_of(&extent(9, 4)), Some((9, 4)));
    }

    #[test]
    fn ends_of_prefixes() {
        assert_eq!(after_prefix(b"ab"), Some(Bytes::from_static(b"ac")));
        assert_eq!(after_prefix(b"a\xff"), Some(Bytes::from_static(b"b")));
        assert_eq!(after_prefix(b"\xff\xff"), None);
    }
}
