//! The superblock: where everything begins.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

use crate::block::{BLOCK, MOST_BLOCKS, MOST_SEQ};
use crate::config::OpenError;
use crate::index::page::Ptr;
use denc::{Encode, Reader, Result};
use kernels::{SEED, crc32c};
use node::Buf;
use types::Fsid;

const MAGIC: u64 = u64::from_le_bytes(*b"NACRESTO");
const JOURNAL_MAGIC: u64 = u64::from_le_bytes(*b"NACREJNL");
/// Newest version of the disk format.
pub(crate) const VERSION: u32 = 4;
/// The version of a store that needs no later one. Opening marks an older store with it, before anything else is
/// written. A checkpoint marks a store with [`PIECES`] when it needs that, and a transaction that waits with [`FAMILIES`].
pub(crate) const PLAIN: u32 = 2;
/// The oldest version that is opened.
pub(crate) const OLDEST: u32 = 1;
/// Blocks of the two slots.
pub(crate) const SLOTS: [u64; 2] = [0, 8];
/// First block behind the area of the superblocks.
pub(crate) const FIRST: u64 = 16;
/// Most ranges of skipped sequence numbers that a slot has room for.
pub(crate) const MOST_SKIPPED: usize = 240;

/// First version in which pages, and so the root, may lie in several pieces.
pub(crate) const PIECES: u32 = 3;
/// First version in which objects may share an omap.
pub(crate) const FAMILIES: u32 = 4;
/// Most pieces of the root that a slot has room for.
pub(crate) const MOST_PIECES: usize = 64;

/// See `docs/format/store.md`, section 2.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// Version of the format, [`OLDEST`] to [`VERSION`]: of this block, and of what is written while it counts.
    pub(crate) version: u32,
    /// Counts the writes of superblocks.
    pub(crate) generation: u64,
    pub(crate) uuid: [u8; 16],
    pub(crate) fsid: Fsid,
    pub(crate) whoami: i32,
    /// Counts the openings.
    pub(crate) incarnation: u64,
    pub(crate) separate_journal: bool,
    /// First block and number of blocks of the ring.
    pub(crate) ring_start: u64,
    pub(crate) ring_len: u64,
    /// Blocks of the ring that were written ahead, at least.
    pub(crate) claimed: u64,
    /// Blocks of the data disk.
    pub(crate) blocks: u64,
    /// The tree; none if it is empty.
    pub(crate) root: Option<Ptr>,
    /// Generation of the tree.
    pub(crate) tree: u64,
    /// Replay starts here: position in the ring, number of the last group before, and its checksum.
    pub(crate) replay_at: u64,
    pub(crate) replay_lsn: u64,
    pub(crate) replay_chain: u32,
    /// Next sequence number and object id.
    pub(crate) next_seq: u64,
    pub(crate) next_id: u64,
    /// Bytes of keys and values below onodes.
    pub(crate) omap_bytes: u64,
    /// True if nothing was journalled behind the replay position (a clean stop).
    pub(crate) clean: bool,
    /// Records that the tree holds though they may lie behind the replay position: first, number.
    pub(crate) skipped: Vec<(u64, u32)>,
}

impl Superblock {
    /// As one block.
    pub(crate) fn encode(&self) -> Buf {
        let mut out = Vec::with_capacity(BLOCK);
        (MAGIC, self.version).encode(&mut out);
        self.generation.encode(&mut out);
        out.extend_from_slice(&self.uuid);
        out.extend_from_slice(&self.fsid.0);
        (self.whoami, self.incarnation).encode(&mut out);
        (self.separate_journal, self.clean).encode(&mut out);
        (self.ring_start, self.ring_len).encode(&mut out);
        (self.claimed, self.blocks).encode(&mut out);
        // The first piece is where it always was, the others follow everything else.
        let root = self.root.as_ref().map_or_else(|| vec![0; Ptr::SIZE], Ptr::encode);
        let (first, pieces) = root.split_at(Ptr::SIZE);
        out.extend_from_slice(first);
        (self.tree, self.replay_at).encode(&mut out);
        (self.replay_lsn, self.replay_chain).encode(&mut out);
        (self.next_seq, self.next_id).encode(&mut out);
        self.omap_bytes.encode(&mut out);
        self.skipped.encode(&mut out);
        if self.version >= PIECES {
            pieces.to_vec().encode(&mut out);
        } else {
            assert!(pieces.is_empty(), "a flip marks the store first");
        }
        assert!(out.len() <= BLOCK - 4, "skipped ranges and pieces of the root are bounded");
        let mut buf = Buf::zeroed(BLOCK);
        buf[..out.len()].copy_from_slice(&out);
        let crc = crc32c(SEED, &buf[..BLOCK - 4]);
        buf[BLOCK - 4..].copy_from_slice(&crc.to_le_bytes());
        buf
    }

    /// Reads a slot. `Ok(None)`: it is not a whole superblock.
    pub(crate) fn parse(bytes: &[u8]) -> std::result::Result<Option<Self>, OpenError> {
        let mut r = Reader::new(bytes);
        if bytes.len() != BLOCK || r.u64() != Ok(MAGIC) {
            return Ok(None);
        }
        // The place of the checksum and of the version is the same in all versions.
        let crc = crc32c(SEED, &bytes[..BLOCK - 4]).to_le_bytes();
        match r.u32() {
            _ if bytes[BLOCK - 4..] != crc => Ok(None),
            Ok(version @ OLDEST..=VERSION) => {
                let sb = Self::fields(version, &mut r).map_err(|e| OpenError::Corrupt(format!("superblock: {e}")))?;
                if sb.is_sane() { Ok(Some(sb)) } else { Err(OpenError::Corrupt("superblock: a number out of range".into())) }
            }
            Ok(found) if found > VERSION => Err(OpenError::TooNew { found, known: VERSION }),
            _ => Ok(None),
        }
    }

    fn fields(version: u32, r: &mut Reader<'_>) -> Result<Self> {
        let generation = r.u64()?;
        let (uuid, fsid) = (r.array()?, Fsid(r.array()?));
        let (whoami, incarnation) = (r.get()?, r.u64()?);
        let (separate_journal, clean) = (r.get()?, r.get()?);
        let (ring_start, ring_len, claimed, blocks) = (r.u64()?, r.u64()?, r.u64()?, r.u64()?);
        let root = r.take(Ptr::SIZE)?;
        let (tree, replay_at, replay_lsn, replay_chain) = (r.u64()?, r.u64()?, r.u64()?, r.u32()?);
        let (next_seq, next_id, omap_bytes, skipped) = (r.u64()?, r.u64()?, r.u64()?, r.get()?);
        let pieces = if version >= PIECES { r.blob()? } else { &[] };
        let root = Ptr::decode(&[root, pieces].concat());
        Ok(Self {
            version,
            generation,
            uuid,
            fsid,
            whoami,
            incarnation,
            separate_journal,
            ring_start,
            ring_len,
            claimed,
            blocks,
            root,
            tree,
            replay_at,
            replay_lsn,
            replay_chain,
            next_seq,
            next_id,
            omap_bytes,
            clean,
            skipped,
        })
    }

    /// Returns true if places and counts are such that arithmetic with them makes sense: a checksum does not tell who
    /// made it.
    fn is_sane(&self) -> bool {
        const COUNTS: u64 = 1 << 62;
        let places = [self.ring_start, self.ring_len, self.blocks];
        let counts =
            [self.generation, self.incarnation, self.tree, self.replay_lsn, self.next_seq, self.next_id, self.omap_bytes];
        places.iter().all(|n| *n <= MOST_BLOCKS)
            && self.claimed <= self.ring_len
            && self.replay_at <= self.ring_len
            && counts.iter().all(|n| *n < COUNTS)
            && self.next_seq < MOST_SEQ
            && self.skipped.iter().all(|(first, _)| *first < COUNTS)
    }

    /// Returns which slot this generation goes to.
    pub(crate) fn slot(&self) -> u64 {
        SLOTS[(self.generation % 2) as usize]
    }

    /// First block that the allocator may give out.
    pub(crate) fn first_free(&self) -> u64 {
        if self.separate_journal { FIRST } else { self.ring_start + self.ring_len }
    }
}

/// The mark on a journal disk of its own.
pub(crate) fn journal_mark(uuid: &[u8; 16]) -> Buf {
    let mut buf = Buf::zeroed(BLOCK);
    buf[..8].copy_from_slice(&JOURNAL_MAGIC.to_le_bytes());
    buf[8..24].copy_from_slice(uuid);
    let crc = crc32c(SEED, &buf[..BLOCK - 4]);
    buf[BLOCK - 4..].copy_from_slice(&crc.to_le_bytes());
    buf
}

/// Returns which store a journal disk belongs to, if it is one.
pub(crate) fn journal_owner(bytes: &[u8]) -> Option<[u8; 16]> {
    let crc = crc32c(SEED, bytes.get(..BLOCK - 4)?).to_le_bytes();
    (bytes[..8] == JOURNAL_MAGIC.to_le_bytes() && bytes[BLOCK - 4..] == crc).then(|| *bytes[8..].first_chunk().expect("a block"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Run;

    #[test]
    fn slots_come_back_and_newer_ones_are_refused() {
        let sb = Superblock {
            version: VERSION,
            generation: 7,
            uuid: [1; 16],
            whoami: 3,
            root: Some(Ptr::new(&[(99, 2)], 5)),
            skipped: vec![(4, 5); MOST_SKIPPED],
            ..Superblock::default()
        };
        let buf = sb.encode();
        assert_eq!(Superblock::parse(&buf), Ok(Some(sb.clone())));
        let runs: Vec<Run> = (0..MOST_PIECES as u64).map(|i| (i * 3, 1)).collect();
        let scattered = Superblock { root: Some(Ptr::new(&runs, 5)), ..sb.clone() };
        assert_eq!(Superblock::parse(&scattered.encode()), Ok(Some(scattered)));
        for version in OLDEST..VERSION {
            let old = Superblock { version, ..sb.clone() };
            assert_eq!(Superblock::parse(&old.encode()), Ok(Some(old)), "a store of version {version} is opened");
        }
        assert_eq!(Superblock::parse(&Superblock { version: 0, ..sb.clone() }.encode()), Ok(None), "there never was a version 0");
        let mut torn = buf.to_vec();
        torn[600] ^= 1;
        assert_eq!(Superblock::parse(&torn), Ok(None));
        let mut newer = buf.to_vec();
        newer[8] = 9;
        let crc = crc32c(SEED, &newer[..BLOCK - 4]);
        newer[BLOCK - 4..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Superblock::parse(&newer), Err(OpenError::TooNew { found: 9, known: VERSION }));
        assert_eq!(journal_owner(&journal_mark(&[8; 16])), Some([8; 16]));
    }
}
