//! Object maps: two bits for each data object of an image. Stored as the whole data of an object: a header with the
//! number of objects, the bits (first object in the highest bits of a byte), and checksums of the header and of every 4
//! KiB block of bits, so that an update touches one block and not the whole map.

use crate::{Call, Change, Fail, Method, Outcome, RD, WR};
use bytes::Bytes;
use denc::{Encode, Reader, blob, envelope};
use kernels::crc32c;
use messages::class::rbd::MAX_OBJECT_MAP_OBJECTS;
use std::ops::Range;
use types::{Errno, Rope};

pub(super) const METHODS: &[Method] = &[
    Method { name: "object_map_load", flags: RD, run: load },
    Method { name: "object_map_save", flags: RD | WR, run: save },
    Method { name: "object_map_resize", flags: RD | WR, run: resize },
    Method { name: "object_map_update", flags: RD | WR, run: update },
    Method { name: "object_map_snap_add", flags: RD | WR, run: snap_add },
    Method { name: "object_map_snap_remove", flags: RD | WR, run: snap_remove },
];

/// The object was written since the last snapshot.
const EXISTS: u8 = 1;
/// The object was not written since the last snapshot.
const EXISTS_CLEAN: u8 = 3;
/// The lower bit of each state in a byte.
const FIELDS: u8 = 0b0101_0101;
/// Bytes that have a checksum of their own.
const BLOCK: usize = 4096;
/// Encoded header: length, envelope, number of objects.
const HEADER: usize = 18;
/// From the end of the bits to the first checksum of a block: length of the footer, checksum of the header, their
/// number.
const FOOTER_HEAD: usize = 12;

/// Returns where an object's bits are: byte, and shift in it.
fn place(index: u64) -> (usize, u32) {
    ((index / 4) as usize, (3 - (index % 4) as u32) * 2)
}

fn bytes_for(count: u64) -> usize {
    count.div_ceil(4) as usize
}

/// All objects' states.
#[derive(Debug, Default, PartialEq, Eq)]
struct Map {
    count: u64,
    bits: Vec<u8>,
}

fn decode_header(r: &mut Reader<'_>) -> denc::Result<u64> {
    let mut header = Reader::new(r.blob()?);
    header.envelope("object map", 1)?.body.u64()
}

fn encode_header(count: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER);
    blob(&mut out, |out| envelope(out, 1, 1, |out| count.encode(out)));
    out
}

impl Map {
    fn get(&self, index: u64) -> u8 {
        let (byte, shift) = place(index);
        self.bits[byte] >> shift & 3
    }

    /// Returns true if all objects of a range have this state. Whole bytes are looked at as such: there may be 256 million objects.
    fn all_are(&self, range: Range<u64>, state: u8) -> bool {
        let (first, last) = (range.start.next_multiple_of(4).min(range.end), range.end / 4 * 4);
        let same = |mut indices: Range<u64>| indices.all(|index| self.get(index) == state);
        if first >= last {
            return same(range);
        }
        let whole = &self.bits[bytes_for(first)..bytes_for(last)];
        same(range.start..first) && same(last..range.end) && whole.iter().all(|byte| *byte == (state & 3) * FIELDS)
    }

    /// Gives each object of a range another state, as a function of the one that it has. Returns true if one is another one now.
    fn change(&mut self, range: Range<u64>, to: impl Fn(u8) -> u8) -> bool {
        let mut changed = false;
        let (first, last) = (range.start.next_multiple_of(4).min(range.end), range.end / 4 * 4);
        let edges = if first < last { [range.start..first, last..range.end] } else { [range, 0..0] };
        for index in edges.into_iter().flatten() {
            let (old, new) = (self.get(index), to(self.get(index)) & 3);
            changed |= old != new;
            self.set(index, new);
        }
        if first < last {
            let four = |byte: u8| (0..4).fold(0, |all, at| all | (to(byte >> (2 * at) & 3) & 3) << (2 * at));
            let table: [u8; 256] = std::array::from_fn(|byte| four(byte as u8));
            for byte in &mut self.bits[bytes_for(first)..bytes_for(last)] {
                let new = table[usize::from(*byte)];
                changed |= *byte != new;
                *byte = new;
            }
        }
        changed
    }

    fn set(&mut self, index: u64, state: u8) {
        let (byte, shift) = place(index);
        self.bits[byte] = self.bits[byte] & !(3 << shift) | (state & 3) << shift;
    }

    /// Reads one; the checksums must be right if there are any.
    fn decode(r: &mut Reader<'_>) -> denc::Result<Self> {
        const BAD: denc::DecodeError = denc::DecodeError::Invalid("object map");
        let start = r.clone();
        let count = decode_header(r)?;
        let header_len = start.remaining() - r.remaining();
        if count.div_ceil(4) > r.remaining() as u64 {
            return Err(BAD);
        }
        let bits = r.take(bytes_for(count))?.to_vec();
        let mut footer = Reader::new(r.blob()?);
        if footer.is_empty() {
            return Ok(Self { count, bits });
        }
        // The header's checksum leaves out the length in front of it.
        let header = &start.clone().take(header_len)?[4..];
        let blocks = bits.chunks(BLOCK);
        let header_crc = footer.u32()?;
        footer.u32()?;
        if header_crc != crc32c(0, header) {
            return Err(BAD);
        }
        for block in blocks {
            if footer.u32()? != crc32c(0, block) {
                return Err(BAD);
            }
        }
        Ok(Self { count, bits })
    }

    fn encode(&self, checksums: bool) -> Vec<u8> {
        let mut out = encode_header(self.count);
        let header_crc = crc32c(0, &out[4..]);
        out.extend_from_slice(&self.bits);
        blob(&mut out, |out| {
            if checksums {
                header_crc.encode(out);
                let crcs: Vec<u32> = self.bits.chunks(BLOCK).map(|block| crc32c(0, block)).collect();
                crcs.encode(out);
            }
        });
        out
    }

    /// Cuts or grows; new objects get `state`.
    fn resize(&mut self, count: u64, state: u8) {
        let old = self.count;
        self.bits.resize(bytes_for(count), (state & 3) * FIELDS);
        self.count = count;
        // The last byte may have been shared with what was not there before.
        for index in old..count.min(old.next_multiple_of(4)) {
            self.set(index, state);
        }
        // What is beyond the last object is zero, as if it had never been there.
        for index in count..count.next_multiple_of(4) {
            self.set(index, 0);
        }
    }
}

/// The object's map; ENOENT without an object or in an empty one, EINVAL if it is none.
fn read(call: &Call<'_>) -> Result<Map, Fail> {
    let stat = call.must_exist()?;
    if stat.size == 0 {
        return Err(Errno::ENOENT.into());
    }
    let data = call.view.read(0, stat.size)?.contiguous();
    Map::decode(&mut Reader::new(&data)).map_err(|_| Fail::Errno(Errno::EINVAL))
}

fn write(call: &mut Call<'_>, map: &Map) {
    call.change(Change::WriteFull(Rope::from(map.encode(true))));
}

/// Output: the map without checksums.
fn load(call: &mut Call<'_>) -> Outcome {
    Ok(read(call)?.encode(false).into())
}

fn save(call: &mut Call<'_>) -> Outcome {
    let map = call.parse(Map::decode)?;
    write(call, &map);
    Ok(Bytes::new())
}

/// Input: number of objects, state of new ones. ESTALE if one that would go has another state.
fn resize(call: &mut Call<'_>) -> Outcome {
    let (count, state): (u64, u8) = call.arg()?;
    if count > MAX_OBJECT_MAP_OBJECTS {
        return Err(Errno::EINVAL.into());
    }
    let mut map = match read(call) {
        Err(Fail::Errno(Errno::ENOENT)) => Map::default(),
        other => other?,
    };
    if count < map.count && !map.all_are(count..map.count, state) {
        return Err(Errno::ESTALE.into());
    }
    map.resize(count, state);
    write(call, &map);
    Ok(Bytes::new())
}

/// Input: first object, object after the last, new state, and perhaps the state that those must have which are changed
/// (existing also stands for existing and clean). ERANGE for objects that are not there.
fn update(call: &mut Call<'_>) -> Outcome {
    let (start, end, new, current) = call.parse(|r| {
        let (start, end, new): (u64, u64, u8) = (r.get()?, r.get()?, r.get()?);
        let current: Option<u8> = if r.get()? { Some(r.get()?) } else { None };
        Ok((start, end, new, current))
    })?;
    call.must_exist()?;
    let header = call.view.read(0, HEADER as u64)?.contiguous();
    let count = decode_header(&mut Reader::new(&header)).map_err(|_| Fail::Errno(Errno::EINVAL))?;
    if start >= end || end > count {
        return Err(Errno::ERANGE.into());
    }
    let len = count.div_ceil(4);
    let (block, last) = (start / 4 / BLOCK as u64, (end - 1) / 4 / BLOCK as u64);
    let (from, to) = (block * BLOCK as u64, len.min((last + 1) * BLOCK as u64));
    let crcs_at = HEADER as u64 + len + FOOTER_HEAD as u64 + block * 4;
    let crcs = call.view.read(crcs_at, (last - block + 1) * 4)?.contiguous();
    let bits = call.view.read(HEADER as u64 + from, to - from)?.to_vec();
    let whole = bits.len() as u64 == to - from;
    if !whole || crcs != checksums(&bits) {
        return Err(Errno::EINVAL.into());
    }
    // A part of the map, whose objects count from the first one in its first block.
    let first = from * 4;
    let mut part = Map { count: bits.len() as u64 * 4, bits };
    let meant = |state| current.is_none_or(|c| state == c || c == EXISTS && state == EXISTS_CLEAN);
    if part.change(start - first..end - first, |state| if meant(state) { new } else { state }) {
        let crcs = checksums(&part.bits);
        call.change(Change::Write(HEADER as u64 + from, Rope::from(part.bits)));
        call.change(Change::Write(crcs_at, Rope::from(crcs)));
    }
    Ok(Bytes::new())
}

/// Checksums of blocks, one after the other.
fn checksums(bits: &[u8]) -> Vec<u8> {
    bits.chunks(BLOCK).flat_map(|block| crc32c(0, block).to_le_bytes()).collect()
}

/// After a snapshot: what exists is clean.
fn snap_add(call: &mut Call<'_>) -> Outcome {
    let mut map = read(call)?;
    if map.change(0..map.count, |state| if state == EXISTS { EXISTS_CLEAN } else { state }) {
        write(call, &map);
    }
    Ok(Bytes::new())
}

/// After the removal of a snapshot, whose map is the input: what the snapshot knew as written counts as written here.
fn snap_remove(call: &mut Call<'_>) -> Outcome {
    let removed = call.parse(Map::decode)?;
    let mut map = read(call)?;
    // What the snapshot's map does not have counts as written.
    let mut before = removed.bits;
    before.resize(map.bits.len(), EXISTS * FIELDS);
    for index in removed.count..removed.count.next_multiple_of(4).min(map.count) {
        let (byte, shift) = place(index);
        before[byte] = before[byte] & !(3 << shift) | EXISTS << shift;
    }
    let mut updated = false;
    for (byte, before) in map.bits.iter_mut().zip(before) {
        let clean = *byte & *byte >> 1 & FIELDS;
        let written = before & !(before >> 1) & FIELDS;
        let again = clean & written;
        *byte &= !(again << 1);
        updated |= again != 0;
    }
    if updated {
        write(call, &map);
    }
    Ok(Bytes::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is done for whole bytes is what is done for each object.
        #[test]
        fn ranges_are_changed_as_their_objects(states in prop::collection::vec(0u8..4, 1..70), from in 0usize..70, len in 0usize..70, to in any::<[u8; 4]>()) {
            let count = states.len() as u64;
            let mut map = Map { count, bits: vec![0; bytes_for(count)] };
            states.iter().enumerate().for_each(|(index, state)| map.set(index as u64, *state));
            let range = (from.min(states.len()), (from + len).min(states.len()));
            let wide = range.0 as u64..range.1 as u64;
            for state in 0..4 {
                prop_assert_eq!(map.all_are(wide.clone(), state), states[range.0..range.1].iter().all(|s| *s == state));
            }
            let mut expected = states.clone();
            expected[range.0..range.1].iter_mut().for_each(|state| *state = to[usize::from(*state)] & 3);
            prop_assert_eq!(map.change(wide, |state| to[usize::from(state)]), expected != states);
            prop_assert_eq!((0..count).map(|index| map.get(index)).collect::<Vec<_>>(), expected);
        }

        /// What a snapshot's map knew as written, and what it did not have, counts as written.
        #[test]
        fn removed_snapshots_are_known_by_object(now in prop::collection::vec(0u8..4, 1..70), then in prop::collection::vec(0u8..4, 0..70)) {
            let map = |states: &[u8]| {
                let mut map = Map { count: states.len() as u64, bits: vec![0; bytes_for(states.len() as u64)] };
                states.iter().enumerate().for_each(|(index, state)| map.set(index as u64, *state));
                map
            };
            let mut bench = crate::testing::Bench::default();
            bench.write_raw(0, &map(&now).encode(true));
            bench.call("rbd", "object_map_snap_remove", &map(&then).encode(false)).expect("removed");
            let after = Map::decode(&mut Reader::new(&bench.data())).expect("a map");
            let written = |index: usize| then.get(index).is_none_or(|state| *state == EXISTS);
            let expected = |(index, state): (usize, &u8)| if *state == EXISTS_CLEAN && written(index) { EXISTS } else { *state };
            let expected: Vec<u8> = now.iter().enumerate().map(expected).collect();
            prop_assert_eq!((0..after.count).map(|index| after.get(index)).collect::<Vec<_>>(), expected);
        }
    }
}
