//! What the monitor's store looks like on disk; `docs/format/monitor.md` is the description in words.
//!
//! ```text
//! 0      superblock slot 0, two copies   (generation even)
//! 8192   superblock slot 1, two copies   (generation odd)
//! 16384  area 0: snapshot, then groups of log entries
//! 16384 + area bytes: area 1, the same
//! ```

use bytes::Bytes;
use denc::{Decode as _, Encode, Reader};
use quorum::{Entry, Hard, Index, Saved, VoterId, Write};

/// Unit of every position and length on the disk.
pub(crate) const BLOCK: usize = 4096;
/// The layout that is written while the cluster's level is the first one. Version 1 is read by `v1`.
pub(crate) const VERSION: u32 = 2;
/// The same layout, in clusters of a higher level. Programs that know no levels refuse it.
pub(crate) const LEVELS: u32 = 3;
/// Newest version that is known here: snapshots and groups also have what the voter remembers of other members.
pub(crate) const NEWEST: u32 = 4;
/// Bytes of a superblock slot: two copies, so that one rotten block does not take the newest state away.
pub(crate) const SLOT: usize = 2 * BLOCK;
/// Bytes that a disk writes whole or not at all.
const SECTOR: usize = 512;
/// Offset of area 0.
pub(crate) const AREAS_AT: u64 = 2 * SLOT as u64;

const SUPER_MAGIC: [u8; 8] = *b"nacremon";
/// Generations and indexes are below this: one each nanosecond would take a hundred years.
pub(crate) const COUNTS: u64 = 1 << 62;
const GROUP_MAGIC: u32 = 0x6d6f_6e48;
/// Of a group with marks behind its entries.
const MARKED_MAGIC: u32 = 0x6d6f_6e49;
/// Bytes that marks of members take, at most.
pub(crate) const MARKS_BYTES: usize = 4 << 10;
/// Bytes of a group before its entries.
pub(crate) const GROUP_HEAD: usize = 84;

/// Contents of a superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Super {
    /// Layout of the area: 1, or [`VERSION`] to [`NEWEST`].
    pub(crate) version: u32,
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

/// The version that a store of a cluster of this level has.
pub(crate) fn version_at(level: types::level::Level) -> u32 {
    match level {
        _ if level.has(types::Feature::StoreMarks) => NEWEST,
        _ if level > types::level::Level::FIRST => LEVELS,
        _ => VERSION,
    }
}

/// Contents of a superblock's slot.
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

    /// Returns where an area begins.
    pub(crate) fn start_of(&self, area: usize) -> u64 {
        AREAS_AT + area as u64 * self.area_bytes
    }

    /// Returns where this generation's area begins.
    pub(crate) fn area_at(&self) -> u64 {
        self.start_of(self.area())
    }

    /// Returns where this generation's slot is.
    pub(crate) fn slot_at(&self) -> u64 {
        (self.generation % 2) * SLOT as u64
    }

    /// Returns where the next generation's slot is.
    pub(crate) fn other_slot_at(&self) -> u64 {
        ((self.generation + 1) % 2) * SLOT as u64
    }

    /// Returns where the log begins: behind the snapshot.
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

    /// Returns true if a slot that cannot be read is what a power cut left of its first write: of each copy, the
    /// sector of the magic or that of the CRC never arrived. Damage leaves both, and something else than a store has
    /// another magic.
    pub(crate) fn is_torn(slot: &[u8]) -> bool {
        slot.chunks(BLOCK).all(|copy| {
            let (magic, crc) = (&copy[..SECTOR], &copy[BLOCK - SECTOR..]);
            is_zero(magic) || magic.starts_with(&SUPER_MAGIC) && is_zero(crc)
        })
    }

    fn to_block(&self) -> Vec<u8> {
        let mut block = SUPER_MAGIC.to_vec();
        self.version.encode(&mut block);
        self.fsid.encode(&mut block);
        self.generation.encode(&mut block);
        self.area_bytes.encode(&mut block);
        self.snapshot_len.encode(&mut block);
        self.snapshot_crc.encode(&mut block);
        self.snapshot_index.encode(&mut block);
        block.resize(BLOCK - 4, 0);
        kernels::crc32c(kernels::SEED, &block).encode(&mut block);
        block
    }

    /// The CRC stands at the end of the block in every version, so a newer one is told from garbage.
    fn from_block(block: &[u8]) -> Slot {
        if block.len() != BLOCK || is_zero(block) {
            return Slot::Empty;
        }
        let (body, crc) = block.split_at(BLOCK - 4);
        if body[..8] != SUPER_MAGIC || crc != kernels::crc32c(kernels::SEED, body).to_le_bytes() {
            return Slot::Broken;
        }
        let mut r = Reader::new(&body[8..]);
        match r.u32() {
            Ok(version) if version > NEWEST => Slot::Newer(version),
            Ok(version) => Self::read(version, &mut r).ok().filter(Self::is_sane).map_or(Slot::Broken, Slot::Valid),
            Err(_) => Slot::Broken,
        }
    }

    fn read(version: u32, r: &mut Reader<'_>) -> denc::Result<Self> {
        Ok(Self {
            version,
            fsid: r.get()?,
            generation: r.get()?,
            area_bytes: r.get()?,
            snapshot_len: r.get()?,
            snapshot_crc: r.get()?,
            snapshot_index: r.get()?,
        })
    }

    fn is_sane(&self) -> bool {
        self.version >= 1
            && self.area_bytes >= BLOCK as u64
            && self.area_bytes.is_multiple_of(BLOCK as u64)
            && self.area_bytes < 1 << 50
            && self.snapshot_len <= self.area_bytes
            && self.generation < COUNTS
            && self.snapshot_index < COUNTS
    }
}

/// Returns true if all bytes are zero. Compares whole blocks: a start looks at megabytes that never held a log.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    static ZEROS: [u8; BLOCK] = [0; BLOCK];
    bytes.chunks(BLOCK).all(|chunk| *chunk == ZEROS[..chunk.len()])
}

/// The state and all that a voter knows beside it: what stands at an area's beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Voter that the store belongs to.
    pub(crate) voter: VoterId,
    /// Term, vote, members, entries that are kept; marks of other members.
    pub(crate) saved: Saved,
    /// The state as of `saved.base`.
    pub(crate) state: Bytes,
}

impl Encode for Snapshot {
    /// Layout 1 while there are no marks; 2 has them at the end.
    fn encode(&self, out: &mut Vec<u8>) {
        let version = if self.saved.marks.is_empty() { 1 } else { 2 };
        denc::envelope(out, version, version, |out| {
            self.voter.encode(out);
            self.saved.encode(out);
            self.state.encode(out);
            if version > 1 {
                self.saved.marks.encode(out);
            }
        });
    }
}

impl denc::Decode for Snapshot {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> denc::Result<Self> {
        let mut e = r.envelope("Snapshot", 2)?;
        e.at_least("Snapshot", 1)?;
        let mut snapshot = Self { voter: e.body.get()?, saved: e.body.get()?, state: e.body.get()? };
        if e.version > 1 {
            snapshot.saved.marks = e.body.get()?;
        }
        Ok(snapshot)
    }
}

/// One durable write of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Generation of the area it was written to; leftovers of earlier ones are not taken for the log.
    pub(crate) generation: u64,
    /// CRC of the group before (of the snapshot for the first one): a chain.
    pub(crate) previous: u32,
    /// Bytes of the log before this group. All of them were durable when it was written.
    pub(crate) at: u64,
    /// Term, vote, a cut, entries.
    pub(crate) write: Write,
}

impl Group {
    /// The group's bytes, padded to blocks, and its CRC.
    pub(crate) fn to_blocks(&self, fsid: &[u8; 16]) -> (Vec<u8>, u32) {
        let Write { hard, commit, cut_from, entries, marks } = &self.write;
        let mut payload = Vec::new();
        entries.iter().for_each(|e| e.encode(&mut payload));
        if let Some(marks) = marks {
            marks.encode(&mut payload);
        }
        let mut out = Vec::with_capacity((GROUP_HEAD + payload.len()).next_multiple_of(BLOCK));
        if marks.is_some() { MARKED_MAGIC } else { GROUP_MAGIC }.encode(&mut out);
        0u32.encode(&mut out); // the CRC's place
        fsid.encode(&mut out);
        self.generation.encode(&mut out);
        self.previous.encode(&mut out);
        self.at.encode(&mut out);
        hard.encode(&mut out);
        commit.encode(&mut out);
        cut_from.unwrap_or(0).encode(&mut out);
        denc::len32(entries.len()).encode(&mut out);
        denc::len32(payload.len()).encode(&mut out);
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
        let magic = r.u32().ok()?;
        if magic != GROUP_MAGIC && magic != MARKED_MAGIC {
            return None;
        }
        let crc = r.u32().ok()?;
        if r.array::<16>().ok()? != *fsid {
            return None;
        }
        let (generation, previous, at) = (r.u64().ok()?, r.u32().ok()?, r.u64().ok()?);
        let (hard, commit, cut_from): (Hard, Index, Index) = (r.get().ok()?, r.u64().ok()?, r.u64().ok()?);
        let (count, payload) = (r.u32().ok()?, r.u32().ok()? as usize);
        let end = GROUP_HEAD.checked_add(payload)?;
        if kernels::crc32c(kernels::SEED, bytes.get(8..end)?) != crc {
            return None;
        }
        let mut r = Reader::new(&bytes[GROUP_HEAD..end]);
        let mut entries: Vec<Entry> = Vec::new();
        for _ in 0..count {
            entries.push(r.get().ok()?);
        }
        let marks = if magic == MARKED_MAGIC { Some(r.get().ok()?) } else { None };
        r.finish().ok()?;
        let write = Write { hard, commit, cut_from: (cut_from != 0).then_some(cut_from), entries, marks };
        Some((Group { generation, previous, at, write }, crc, end.next_multiple_of(BLOCK)))
    }
}

/// Contents of a log area.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// Knowledge of the voter after the last group.
    pub(crate) saved: Saved,
    /// Bytes that the whole groups take.
    pub(crate) end: usize,
    /// CRC of the last group.
    pub(crate) last_crc: u32,
    /// True if bytes of a group that is not whole follow: a write that a crash cut short. It was never acknowledged.
    pub(crate) torn: bool,
}

/// Reads the groups of `sb`'s area from `log`, the bytes behind its snapshot, onto what the snapshot says. The first
/// group that is not whole ends the log if nothing was written after it; else it is corruption.
///
/// # Errors
/// What is damaged, or contradicts itself.
pub(crate) fn replay(sb: &Super, saved: Saved, log: &[u8]) -> Result<Replayed, String> {
    let mut done = Replayed { saved, end: 0, last_crc: sb.snapshot_crc, torn: false };
    while let Some((group, crc, len)) = Group::from_blocks(&sb.fsid, &log[done.end..]) {
        let follows = group.generation == sb.generation && group.previous == done.last_crc && group.at == done.end as u64;
        if !follows {
            break;
        }
        let place = sb.log_at() + done.end as u64;
        take(&mut done.saved, group.write).map_err(|why| format!("the monitor's log is damaged at byte {place}: {why}"))?;
        done.end = (done.end + len).min(log.len());
        done.last_crc = crc;
    }
    let rest = &log[done.end..];
    let begins = |b: &[u8]| [GROUP_MAGIC, MARKED_MAGIC].iter().any(|magic| b[..4] == magic.to_le_bytes());
    done.torn = rest.get(..BLOCK).is_some_and(|b| begins(b) && !is_leftover(sb, rest));
    for at in (BLOCK..rest.len()).step_by(BLOCK) {
        let Some((group, ..)) = Group::from_blocks(&sb.fsid, &rest[at..]) else { continue };
        let place = (done.end + at) as u64;
        if group.generation == sb.generation && group.at == place {
            return Err(format!(
                "the monitor's log is damaged at byte {}: a group is unreadable there, but a later one at byte {} says that it was durable",
                sb.log_at() + done.end as u64,
                sb.log_at() + place
            ));
        }
    }
    Ok(done)
}

/// Adds what one group says.
fn take(saved: &mut Saved, write: Write) -> Result<(), String> {
    if let Some(from) = write.cut_from {
        if from <= saved.commit {
            return Err(format!("entries from {from} on are cut off, but entries up to {} were committed", saved.commit));
        }
        saved.entries.retain(|e| e.index < from);
    }
    saved.hard = write.hard;
    saved.commit = saved.commit.max(write.commit);
    saved.entries.extend(write.entries);
    if let Some(marks) = write.marks {
        saved.marks = marks;
    }
    saved.check().map_err(str::to_owned)
}

/// Returns true if a whole group of an earlier generation begins here.
fn is_leftover(sb: &Super, bytes: &[u8]) -> bool {
    Group::from_blocks(&sb.fsid, bytes).is_some_and(|(g, ..)| g.generation != sb.generation)
}

/// Reads the snapshot of a store of version 2.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read_snapshot(sb: &Super, bytes: &[u8]) -> Result<Snapshot, String> {
    let snapshot = Snapshot::from_bytes(bytes).map_err(|e| format!("the monitor's snapshot cannot be read: {e}"))?;
    let index = snapshot.saved.base.at.index;
    if index != sb.snapshot_index {
        return Err(format!("the monitor's snapshot is of entry {index}, its superblock says {}", sb.snapshot_index));
    }
    Ok(snapshot)
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
    use quorum::{Kind, Mark, Marks, Position};

    const FSID: [u8; 16] = [7; 16];

    fn sb() -> Super {
        let (version, area_bytes) = (VERSION, 1 << 20);
        Super { version, fsid: FSID, generation: 3, area_bytes, snapshot_len: 10, snapshot_crc: 99, snapshot_index: 4 }
    }

    fn saved() -> Saved {
        Saved::alone(VoterId(5), Position { term: 1, index: 4 })
    }

    fn entry(index: Index, term: u64, size: usize) -> Entry {
        Entry { index, term, kind: Kind::Command, data: vec![index as u8; size].into() }
    }

    /// These writes, one after the other, in the way the journal makes groups of them; and where each ends.
    fn chained(writes: Vec<Write>) -> (Vec<u8>, Vec<usize>) {
        let (mut log, mut ends, mut previous) = (Vec::new(), Vec::new(), sb().snapshot_crc);
        for write in writes {
            let (bytes, crc) = Group { generation: 3, previous, at: log.len() as u64, write }.to_blocks(&FSID);
            previous = crc;
            log.extend(bytes);
            ends.push(log.len());
        }
        log.resize(log.len() + 4 * BLOCK, 0);
        (log, ends)
    }

    fn write(term: u64, commit: Index, cut_from: Option<Index>, entries: Vec<Entry>) -> Write {
        Write { hard: Hard { term, vote: Some(VoterId(5)) }, commit, cut_from, entries, marks: None }
    }

    /// Groups of one entry of the given sizes.
    fn written(sizes: &[usize]) -> (Vec<u8>, Vec<usize>) {
        let entries = sizes.iter().zip(5..).map(|(size, index)| entry(index, 1, *size));
        chained(entries.map(|e| write(1, e.index - 1, None, vec![e])).collect())
    }

    #[test]
    fn a_first_superblock_that_was_torn_is_told_from_one_that_is_damaged() {
        let slot = sb().to_slot();
        let without = |sectors: &[usize]| {
            let mut torn = slot.clone();
            sectors.iter().for_each(|n| torn[n * SECTOR..][..SECTOR].fill(0));
            Super::is_torn(&torn)
        };
        assert!(without(&[0, 15]) && without(&[7, 8]) && without(&[0, 7, 8, 15]));
        assert!(!without(&[0]) && !without(&[15]), "the other copy is whole");
        for at in [3, 20, 1000, BLOCK - 1] {
            let mut rotten = slot.clone();
            [at, BLOCK + at].into_iter().for_each(|at| rotten[at] ^= 1);
            assert!(!Super::is_torn(&rotten), "byte {at}");
        }
        assert!(!Super::is_torn(&[&b"XFSB"[..], &[0; SLOT - 4]].concat()), "something else");
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
        newer[8] = 5;
        let crc = kernels::crc32c(kernels::SEED, &newer[..BLOCK - 4]);
        newer[BLOCK - 4..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Super::from_block(&newer), Slot::Newer(5));
        for version in [1, VERSION, LEVELS, NEWEST] {
            let known = Super { version, ..sb() };
            assert_eq!(Super::from_block(&known.to_block()), Slot::Valid(known));
        }
    }

    #[test]
    fn a_hole_below_a_durable_point_is_corruption_not_a_torn_tail() {
        let (log, ends) = written(&[10, 5000, 10]);
        let mut hole = log.clone();
        hole[ends[0] + 100] ^= 1;
        assert!(replay(&sb(), saved(), &hole).unwrap_err().contains("unreadable"));
        let mut tail = log.clone();
        tail[ends[1] + 70] ^= 1;
        let got = replay(&sb(), saved(), &tail).unwrap();
        assert_eq!((got.saved.entries.len(), got.torn), (2, true));
        assert_eq!(replay(&sb(), saved(), &log).unwrap().saved.entries.len(), 3);
        assert!(!replay(&sb(), saved(), &log).unwrap().torn);
    }

    #[test]
    fn leftovers_of_an_earlier_generation_are_not_the_log() {
        let (log, _) = written(&[10, 10]);
        let newer = Super { generation: 5, ..sb() };
        let got = replay(&newer, saved(), &log).unwrap();
        assert_eq!((got.saved.entries.len(), got.torn), (0, false));
    }

    #[test]
    fn term_vote_and_a_cut_are_read_again() {
        let writes = vec![
            write(2, 4, None, vec![entry(5, 2, 1), entry(6, 2, 2), entry(7, 2, 3)]),
            write(3, 5, None, Vec::new()),
            write(4, 5, Some(6), vec![entry(6, 4, 10)]),
        ];
        let (log, _) = chained(writes);
        let got = replay(&sb(), saved(), &log).unwrap().saved;
        assert_eq!((got.hard.term, got.hard.vote, got.commit), (4, Some(VoterId(5)), 5));
        assert_eq!(got.entries, [entry(5, 2, 1), entry(6, 4, 10)]);
    }

    fn marks(term: u64) -> Marks {
        let mark = Mark { hard: Hard { term, vote: Some(VoterId(6)) }, at: Position { term, index: 5 } };
        [(VoterId(6), mark), (VoterId(7), Mark::default())].into()
    }

    #[test]
    fn the_newest_marks_of_a_log_count_and_a_torn_group_with_marks_is_a_torn_tail() {
        let mut writes =
            vec![write(2, 4, None, vec![entry(5, 2, 1)]), write(2, 5, None, Vec::new()), write(2, 5, None, vec![entry(6, 2, 1)])];
        writes[0].marks = Some(marks(2));
        writes[1].marks = Some(marks(3));
        let (log, ends) = chained(writes);
        let got = replay(&sb(), saved(), &log).unwrap();
        assert_eq!((got.saved.marks, got.saved.entries.len(), got.torn), (marks(3), 2, false));
        let mut torn = log;
        torn.truncate(ends[1]);
        torn[ends[1] - 4000..].fill(0);
        torn.resize(ends[2], 0);
        let got = replay(&sb(), saved(), &torn).unwrap();
        assert_eq!((got.saved.marks, got.torn), (marks(2), true));
        assert!(marks(1).to_vec().len() / 2 * 64 < MARKS_BYTES, "the most that are kept have room");
    }

    #[test]
    fn a_cut_below_what_was_committed_is_corruption() {
        let (log, _) = chained(vec![
            write(2, 4, None, vec![entry(5, 2, 1)]),
            write(3, 5, None, Vec::new()),
            write(4, 5, Some(5), Vec::new()),
        ]);
        let why = replay(&sb(), saved(), &log).unwrap_err();
        assert!(why.contains("entries from 5 on are cut off, but entries up to 5 were committed"), "{why}");
        let (log, _) = chained(vec![write(2, 4, None, vec![entry(6, 2, 1)])]);
        assert!(replay(&sb(), saved(), &log).unwrap_err().contains("do not follow each other"));
    }

    #[test]
    fn a_snapshot_is_read_as_it_was_written_and_a_wrong_one_is_refused() {
        let mut saved = saved();
        (saved.before, saved.hard.term) = (Position { term: 1, index: 2 }, 9);
        saved.entries = vec![entry(3, 1, 7), entry(4, 1, 0), entry(5, 2, 3)];
        let mut snapshot = Snapshot { voter: VoterId(5), saved, state: Bytes::from_static(b"state") };
        let bytes: Bytes = snapshot.to_bytes();
        assert_eq!((read_snapshot(&sb(), &bytes), bytes[0]), (Ok(snapshot.clone()), 1));
        snapshot.saved.marks = marks(3);
        let bytes: Bytes = snapshot.to_bytes();
        assert_eq!((read_snapshot(&sb(), &bytes), bytes[0], bytes[1]), (Ok(snapshot.clone()), 2, 2));
        let other = Super { snapshot_index: 5, ..sb() };
        assert!(read_snapshot(&other, &bytes).unwrap_err().contains("is of entry 4"));
        let mut gap = snapshot;
        gap.saved.entries.remove(1);
        assert!(read_snapshot(&sb(), &gap.to_bytes()).unwrap_err().contains("cannot be read"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_log_cut_anywhere_gives_a_prefix(sizes in prop::collection::vec(0usize..9000, 1..6), cut in any::<prop::sample::Index>()) {
            let (log, ends) = written(&sizes);
            let cut = cut.index(log.len() / 512 + 1) * 512;
            let mut torn = log.clone();
            torn[cut.min(log.len())..].fill(0);
            let got = replay(&sb(), saved(), &torn).unwrap();
            // Zeros after the cut may equal what was there, so at least the groups before it are found, and all found are right.
            let whole = ends.iter().filter(|e| **e <= cut).count();
            prop_assert!(got.saved.entries.len() >= whole);
            for (i, e) in got.saved.entries.iter().enumerate() {
                prop_assert_eq!(e.index, 5 + i as u64);
                prop_assert_eq!(e.data.len(), sizes[i]);
            }
        }
    }
}
