//! What the monitor's store looks like on disk; `docs/format/monitor.md` is the description in words.
//!
//! ```text
//! 0      superblock slot 0, two copies   (generation even)
//! 8192   superblock slot 1, two copies   (generation odd)
//! 16384  area 0: snapshot, then groups of log entries
//! 16384 + area bytes: area 1, the same
//! ```

use super::{Entry, Index};
use bytes::Bytes;
use denc::{Encode, Reader};

/// Unit of every position and length on the disk.
pub(crate) const BLOCK: usize = 4096;
/// Newest layout that is known here, and the one that is written.
pub(crate) const VERSION: u32 = 1;
/// Bytes of a superblock slot: two copies, so that one rotten block does not take the newest state away.
pub(crate) const SLOT: usize = 2 * BLOCK;
/// Where area 0 begins.
pub(crate) const AREAS_AT: u64 = 2 * SLOT as u64;

const SUPER_MAGIC: [u8; 8] = *b"nacremon";
/// Generations and indexes are below this: one each nanosecond would take a hundred years.
const COUNTS: u64 = 1 << 62;
const GROUP_MAGIC: u32 = 0x6d6f_6e47;
/// Bytes of a group before its entries.
const GROUP_HEAD: usize = 60;

/// What a superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Super {
    /// The cluster.
    pub(crate) fsid: [u8; 16],
    /// Counts snapshots; the larger one of two valid slots is in force. Its parity chooses slot and area.
    pub(crate) generation: u64,
    /// Bytes of one area.
    pub(crate) area_bytes: u64,
    /// Bytes of the snapshot at the area's beginning.
    pub(crate) snapshot_len: u64,
    /// CRC-32C of the snapshot.
    pub(crate) snapshot_crc: u32,
    /// Last entry that the snapshot contains; the area's log begins after it.
    pub(crate) snapshot_index: Index,
}
denc::plain!(Super { fsid, generation, area_bytes, snapshot_len, snapshot_crc, snapshot_index });

/// What stands in a superblock slot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Zeros: never written.
    Empty,
    /// Neither zeros nor a whole superblock: a write that was torn, or not ours.
    Broken,
    /// Written by a newer program.
    Newer(u32),
    /// A whole one.
    Valid(Super),
}

impl Super {
    /// This generation's area: 0 or 1.
    pub(crate) fn area(&self) -> usize {
        (self.generation % 2) as usize
    }

    /// Where an area begins.
    pub(crate) fn start_of(&self, area: usize) -> u64 {
        AREAS_AT + area as u64 * self.area_bytes
    }

    /// Where this generation's area begins.
    pub(crate) fn area_at(&self) -> u64 {
        self.start_of(self.area())
    }

    /// Where this generation's slot is.
    pub(crate) fn slot_at(&self) -> u64 {
        (self.generation % 2) * SLOT as u64
    }

    /// Where the next generation's slot is.
    pub(crate) fn other_slot_at(&self) -> u64 {
        ((self.generation + 1) % 2) * SLOT as u64
    }

    /// Where the log begins: behind the snapshot.
    pub(crate) fn log_at(&self) -> u64 {
        self.area_at() + self.snapshot_len.next_multiple_of(BLOCK as u64)
    }

    /// The slot's bytes.
    pub(crate) fn to_slot(&self) -> Vec<u8> {
        self.to_block().repeat(2)
    }

    /// Reads a slot: whichever copy is whole.
    pub(crate) fn from_slot(slot: &[u8]) -> Slot {
        let (first, second) = slot.split_at(BLOCK);
        match (Self::from_block(first), Self::from_block(second)) {
            (newer @ Slot::Newer(_), _) | (_, newer @ Slot::Newer(_)) => newer,
            (Slot::Valid(a), Slot::Valid(b)) => Slot::Valid(if a.generation >= b.generation { a } else { b }),
            (valid @ Slot::Valid(_), _) | (_, valid @ Slot::Valid(_)) => valid,
            (Slot::Empty, Slot::Empty) => Slot::Empty,
            _ => Slot::Broken,
        }
    }

    fn to_block(&self) -> Vec<u8> {
        let mut block = SUPER_MAGIC.to_vec();
        VERSION.encode(&mut block);
        self.encode(&mut block);
        block.resize(BLOCK - 4, 0);
        kernels::crc32c(kernels::SEED, &block).encode(&mut block);
        block
    }

    /// The CRC stands at the end of the block in every version, so a newer one is told from garbage.
    fn from_block(block: &[u8]) -> Slot {
        if block.len() != BLOCK || block.iter().all(|b| *b == 0) {
            return Slot::Empty;
        }
        let (body, crc) = block.split_at(BLOCK - 4);
        if body[..8] != SUPER_MAGIC || crc != kernels::crc32c(kernels::SEED, body).to_le_bytes() {
            return Slot::Broken;
        }
        let mut r = Reader::new(&body[8..]);
        match r.u32() {
            Ok(version) if version > VERSION => Slot::Newer(version),
            Ok(_) => r.get().ok().filter(Self::is_sane).map_or(Slot::Broken, Slot::Valid),
            Err(_) => Slot::Broken,
        }
    }

    fn is_sane(&self) -> bool {
        self.area_bytes >= BLOCK as u64
            && self.area_bytes.is_multiple_of(BLOCK as u64)
            && self.area_bytes < 1 << 50
            && self.snapshot_len <= self.area_bytes
            && self.generation < COUNTS
            && self.snapshot_index < COUNTS
    }
}

/// A group of entries: one durable write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Generation of the area it was written to; leftovers of earlier ones are not taken for the log.
    pub(crate) generation: u64,
    /// CRC of the group before (of the snapshot for the first one): a chain.
    pub(crate) previous: u32,
    /// Highest index known to be durable when this was written.
    pub(crate) durable: Index,
    /// The entries, with rising indexes.
    pub(crate) entries: Vec<Entry>,
}

impl Group {
    /// The group's bytes, padded to blocks, and its CRC.
    pub(crate) fn to_blocks(&self, fsid: &[u8; 16]) -> (Vec<u8>, u32) {
        let mut payload = Vec::new();
        self.entries.iter().for_each(|e| e.encode(&mut payload));
        let mut out = Vec::with_capacity((GROUP_HEAD + payload.len()).next_multiple_of(BLOCK));
        GROUP_MAGIC.encode(&mut out);
        0u32.encode(&mut out); // the CRC's place
        fsid.encode(&mut out);
        self.generation.encode(&mut out);
        self.previous.encode(&mut out);
        self.durable.encode(&mut out);
        denc::len32(self.entries.len()).encode(&mut out);
        denc::len32(payload.len()).encode(&mut out);
        self.entries.first().map_or(0, |e| e.index).encode(&mut out);
        assert_eq!(out.len(), GROUP_HEAD);
        out.extend_from_slice(&payload);
        let crc = kernels::crc32c(kernels::SEED, &out[8..]);
        out[4..8].copy_from_slice(&crc.to_le_bytes());
        out.resize(out.len().next_multiple_of(BLOCK), 0);
        (out, crc)
    }

    /// Reads the group at the beginning of `bytes`: the group, its CRC, and the bytes it takes with padding. `None` if
    /// there is no whole group of this cluster.
    pub(crate) fn from_blocks(fsid: &[u8; 16], bytes: &[u8]) -> Option<(Group, u32, usize)> {
        let mut r = Reader::new(bytes);
        if r.u32().ok()? != GROUP_MAGIC {
            return None;
        }
        let crc = r.u32().ok()?;
        if r.array::<16>().ok()? != *fsid {
            return None;
        }
        let (generation, previous, durable) = (r.u64().ok()?, r.u32().ok()?, r.u64().ok()?);
        let (count, payload, first) = (r.u32().ok()?, r.u32().ok()? as usize, r.u64().ok()?);
        let end = GROUP_HEAD.checked_add(payload)?;
        if kernels::crc32c(kernels::SEED, bytes.get(8..end)?) != crc {
            return None;
        }
        let mut r = Reader::new(&bytes[GROUP_HEAD..end]);
        let mut entries = Vec::new();
        for i in 0..u64::from(count) {
            let entry: Entry = r.get().ok()?;
            if entry.index >= COUNTS || first.checked_add(i) != Some(entry.index) {
                return None;
            }
            entries.push(entry);
        }
        r.finish().ok()?;
        Some((Group { generation, previous, durable, entries }, crc, end.next_multiple_of(BLOCK)))
    }
}

/// What a log area holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// Entries in order.
    pub(crate) entries: Vec<Entry>,
    /// Bytes that the whole groups take.
    pub(crate) end: usize,
    /// CRC of the last group.
    pub(crate) last_crc: u32,
    /// Whether bytes of a group that is not whole follow: a write that a crash cut short. It was never acknowledged.
    pub(crate) torn: bool,
}

/// Reads the groups of `sb`'s area from `log`, the bytes behind its snapshot. The first group that is not whole ends the
/// log if nothing says that it had been durable; if a later group of this generation does, it is corruption.
pub(crate) fn replay(sb: &Super, log: &[u8]) -> Result<Replayed, String> {
    let mut done = Replayed { entries: Vec::new(), end: 0, last_crc: sb.snapshot_crc, torn: false };
    let mut next = sb.snapshot_index + 1;
    while let Some((group, crc, len)) = Group::from_blocks(&sb.fsid, &log[done.end..]) {
        let fits = group.generation == sb.generation
            && group.previous == done.last_crc
            && group.entries.first().is_some_and(|e| e.index == next);
        if !fits {
            break;
        }
        next += group.entries.len() as u64;
        done.entries.extend(group.entries);
        done.end = (done.end + len).min(log.len());
        done.last_crc = crc;
    }
    let rest = &log[done.end..];
    done.torn = rest.get(..BLOCK).is_some_and(|b| b[..4] == GROUP_MAGIC.to_le_bytes() && !is_leftover(sb, rest));
    for at in (BLOCK..rest.len()).step_by(BLOCK) {
        let Some((group, ..)) = Group::from_blocks(&sb.fsid, &rest[at..]) else { continue };
        if group.generation == sb.generation && group.durable >= next {
            return Err(format!(
                "the monitor's log is damaged at byte {}: entry {next} is unreadable, but a later group says that entries up to {} were durable",
                sb.log_at() + done.end as u64,
                group.durable
            ));
        }
    }
    Ok(done)
}

/// Whether a whole group of an earlier generation begins here.
fn is_leftover(sb: &Super, bytes: &[u8]) -> bool {
    Group::from_blocks(&sb.fsid, bytes).is_some_and(|(g, ..)| g.generation != sb.generation)
}

/// Checks a snapshot's bytes against its superblock.
pub(crate) fn check_snapshot(sb: &Super, bytes: &[u8]) -> Result<Bytes, String> {
    let found = kernels::crc32c(kernels::SEED, bytes);
    if found != sb.snapshot_crc {
        return Err(format!(
            "the monitor's snapshot at byte {} is damaged: checksum {found:08x}, expected {:08x}",
            sb.area_at(),
            sb.snapshot_crc
        ));
    }
    Ok(Bytes::copy_from_slice(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FSID: [u8; 16] = [7; 16];

    fn sb() -> Super {
        Super { fsid: FSID, generation: 3, area_bytes: 1 << 20, snapshot_len: 10, snapshot_crc: 99, snapshot_index: 4 }
    }

    /// Groups of the given sizes, one after the other, in the way the journal writes them.
    fn written(sizes: &[usize]) -> (Vec<u8>, Vec<usize>) {
        let (mut log, mut ends, mut previous, mut index) = (Vec::new(), Vec::new(), sb().snapshot_crc, sb().snapshot_index);
        for size in sizes {
            let durable = index;
            index += 1;
            let entries = vec![Entry { index, term: 1, data: vec![index as u8; *size].into() }];
            let (bytes, crc) = Group { generation: 3, previous, durable, entries }.to_blocks(&FSID);
            previous = crc;
            log.extend(bytes);
            ends.push(log.len());
        }
        log.resize(log.len() + 4 * BLOCK, 0);
        (log, ends)
    }

    #[test]
    fn superblocks_are_told_apart() {
        let block = sb().to_block();
        assert_eq!(Super::from_block(&block), Slot::Valid(sb()));
        assert_eq!(Super::from_block(&[0; BLOCK]), Slot::Empty);
        let mut broken = block.clone();
        broken[20] ^= 1;
        assert_eq!(Super::from_block(&broken), Slot::Broken);
        let mut newer = block;
        newer[8] = 2;
        let crc = kernels::crc32c(kernels::SEED, &newer[..BLOCK - 4]);
        newer[BLOCK - 4..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Super::from_block(&newer), Slot::Newer(2));
    }

    #[test]
    fn a_hole_below_a_durable_point_is_corruption_not_a_torn_tail() {
        let (log, ends) = written(&[10, 5000, 10]);
        let mut hole = log.clone();
        hole[ends[0] + 100] ^= 1;
        assert!(replay(&sb(), &hole).unwrap_err().contains("entry 6 is unreadable"));
        let mut tail = log.clone();
        tail[ends[1] + 70] ^= 1;
        let got = replay(&sb(), &tail).unwrap();
        assert_eq!((got.entries.len(), got.torn), (2, true));
        assert_eq!(replay(&sb(), &log).unwrap().entries.len(), 3);
        assert!(!replay(&sb(), &log).unwrap().torn);
    }

    #[test]
    fn leftovers_of_an_earlier_generation_are_not_the_log() {
        let (log, _) = written(&[10, 10]);
        let newer = Super { generation: 5, ..sb() };
        let got = replay(&newer, &log).unwrap();
        assert_eq!((got.entries.len(), got.torn), (0, false));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_log_cut_anywhere_gives_a_prefix(sizes in prop::collection::vec(0usize..9000, 1..6), cut in any::<prop::sample::Index>()) {
            let (log, ends) = written(&sizes);
            let cut = cut.index(log.len() / 512 + 1) * 512;
            let mut torn = log.clone();
            torn[cut.min(log.len())..].fill(0);
            let got = replay(&sb(), &torn).unwrap();
            // Zeros after the cut may equal what was there, so at least the groups before it are found, and all found are right.
            let whole = ends.iter().filter(|e| **e <= cut).count();
            prop_assert!(got.entries.len() >= whole);
            for (i, e) in got.entries.iter().enumerate() {
                prop_assert_eq!(e.index, 5 + i as u64);
                prop_assert_eq!(e.data.len(), sizes[i]);
            }
        }
    }
}
