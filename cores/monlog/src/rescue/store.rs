//! Reading the store of a stopped monitor, and the bytes of a new one.

use super::ReadAt;
use crate::disk::format::{
    AREAS_AT, BLOCK, NEWEST, SLOT, Slot, Snapshot, Super, VERSION, check_snapshot, read_snapshot, replay, version_at,
};
use crate::disk::journal::AREA_BYTES;
use crate::disk::v1;
use crate::replica::{FIRST_TERM, behind, recover, recover_old, recover_to};
use denc::{Encode, index};
use monstate::state::State;
use quorum::{Kind, Membership, Position, Saved, VoterId};

/// Most bytes of a log that are read.
const LONGEST_LOG: u64 = 256 << 20;

/// A store, as it is on the disk.
pub(crate) struct Stored {
    /// After all entries that are there.
    pub(crate) last: State,
    /// After the last entry that is known to be committed.
    pub(crate) committed: State,
    /// The newest term that its voter knew.
    pub(crate) term: u64,
    /// The last entry. Of two stores of one log the one whose term is larger knows more; of equal terms, the one whose
    /// index is.
    pub(crate) at: Position,
    /// Entries behind the snapshot.
    pub(crate) entries: usize,
    /// Findings without loss.
    pub(crate) minor: Vec<String>,
}

fn take(read: &mut ReadAt<'_>, offset: u64, len: usize) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; len];
    read(offset, &mut bytes).map_err(|why| format!("{len} bytes at byte {offset} cannot be read: {why}"))?;
    Ok(bytes)
}

/// Reads the store of `len` bytes of cluster `fsid`. Changes nothing.
///
/// # Errors
/// What keeps a monitor from starting on it.
pub(crate) fn stored(read: &mut ReadAt<'_>, len: u64, fsid: [u8; 16]) -> Result<Stored, String> {
    let mut minor = Vec::new();
    let sb = newest_superblock(read, len, &mut minor)?;
    if sb.fsid != fsid {
        return Err(format!("it belongs to cluster {}, not to {}", types::Fsid(sb.fsid), types::Fsid(fsid)));
    }
    let bytes = take(read, sb.area_at(), index(sb.snapshot_len.min(len)))?;
    let snapshot = check_snapshot(&sb, &bytes)?;
    let end = len.min(sb.area_at() + sb.area_bytes) / BLOCK as u64 * BLOCK as u64;
    let log = take(read, sb.log_at(), index(end.saturating_sub(sb.log_at()).min(LONGEST_LOG)))?;
    let (mut stored, torn) = if sb.version < VERSION {
        let (entries, _, torn) = v1::replay(&sb, &log)?;
        let last = recover_old(sb.snapshot_index, &snapshot, &entries)?;
        let committed = last.clone();
        let at = Position { term: FIRST_TERM, index: last.index };
        (Stored { last, committed, term: FIRST_TERM, at, entries: entries.len(), minor }, torn)
    } else {
        let mut snapshot = read_snapshot(&sb, &snapshot)?;
        let replayed = replay(&sb, snapshot.saved, &log)?;
        snapshot.saved = replayed.saved;
        let (term, entries) = (snapshot.saved.hard.term, behind(&snapshot.saved));
        let base = snapshot.saved.base.at;
        let at = snapshot.saved.entries.last().map_or(base, |e| Position { term: e.term, index: e.index });
        let at = if at.index < base.index { base } else { at };
        let last = recover(&snapshot)?;
        let committed = if is_alone(&snapshot) { last.clone() } else { recover_to(&snapshot, snapshot.saved.commit)? };
        (Stored { last, committed, term, at, entries, minor }, replayed.torn)
    };
    if torn {
        stored.minor.push("the last write was cut short; nobody was told that it was durable".into());
    }
    Ok(stored)
}

fn newest_superblock(read: &mut ReadAt<'_>, len: u64, minor: &mut Vec<String>) -> Result<Super, String> {
    if len < AREAS_AT {
        return Err("the monitor's store is empty".into());
    }
    let head = take(read, 0, index(AREAS_AT))?;
    let mut found: Vec<Super> = Vec::new();
    for (i, slot) in head.chunks_exact(SLOT).enumerate() {
        match Super::from_slot(slot) {
            Slot::Valid(sb) => {
                if slot[..BLOCK] != slot[BLOCK..] {
                    minor.push(format!("superblock slot {i}: one of its two copies is damaged, the other one counts"));
                }
                found.push(sb);
            }
            Slot::Newer(version) => {
                return Err(format!(
                    "the monitor's store has format version {version}, this program knows versions up to {NEWEST}"
                ));
            }
            Slot::Broken => minor.push(format!("superblock slot {i} is not readable; the other one counts")),
            Slot::Empty => {}
        }
    }
    found.into_iter().max_by_key(|sb| sb.generation).ok_or_else(|| "neither superblock is readable".into())
}

/// Returns true if this voter decides by itself: then all that is durable here is committed.
fn is_alone(snapshot: &Snapshot) -> bool {
    let newest = snapshot.saved.entries.iter().rev().find(|e| e.kind == Kind::Membership);
    let named = newest.and_then(|e| <Membership as denc::Decode>::from_bytes(&e.data).ok());
    named.as_ref().unwrap_or(&snapshot.saved.base.membership).voters == [snapshot.voter].into()
}

/// The bytes of a store whose only voter is `voter`, with this state and no entry behind it.
///
/// # Errors
/// The state is too large for a store.
pub(super) fn image(voter: VoterId, term: u64, state: &State) -> Result<Vec<(u64, Vec<u8>)>, String> {
    let saved = Saved::alone(voter, Position { term, index: state.index });
    let mut bytes: Vec<u8> = Snapshot { voter, saved, state: state.to_snapshot().into() }.to_vec();
    let sb = Super {
        version: version_at(state.osdmap.level),
        fsid: state.fsid.0,
        generation: 0,
        area_bytes: AREA_BYTES,
        snapshot_len: bytes.len() as u64,
        snapshot_crc: kernels::crc32c(kernels::SEED, &bytes),
        snapshot_index: state.index,
    };
    if bytes.len() as u64 + BLOCK as u64 > AREA_BYTES {
        return Err(format!("the state takes {} bytes, a monitor's store has room for {AREA_BYTES}", bytes.len()));
    }
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    let mut head = sb.to_slot();
    head.resize(index(AREAS_AT), 0);
    Ok(vec![(0, head), (sb.area_at(), bytes)])
}
