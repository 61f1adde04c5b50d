//! Checks the store of a stopped monitor. It changes nothing: the monitor itself writes both copies of a slot anew with
//! its next snapshot, and nothing else could be proven and mended.

use crate::log::format::{AREAS_AT, BLOCK, SLOT, Slot, Super, VERSION, check_snapshot, read_snapshot, replay};
use crate::log::v1;
use crate::replica::{behind, recover, recover_old};

/// Most bytes of a log that are read.
const LONGEST_LOG: u64 = 256 << 20;

/// Reads bytes of the store from an offset, as many as the buffer has.
pub type ReadAt<'a> = dyn FnMut(u64, &mut [u8]) -> Result<(), String> + 'a;

/// What a check of a monitor's store found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreReport {
    /// What keeps the monitor from starting.
    pub fatal: Vec<String>,
    /// What is wrong without loss: redundancy is missing, or a write was cut short that nobody was told of.
    pub minor: Vec<String>,
    /// Index of the log's last entry.
    pub last: u64,
    /// Number of entries behind the snapshot.
    pub entries: u64,
    /// Epoch of the newest OSD map.
    pub epoch: u32,
}

/// Checks the monitor's store of `len` bytes. `fsid`: the cluster that it should belong to.
pub fn check_store(read: &mut ReadAt<'_>, len: u64, fsid: [u8; 16]) -> StoreReport {
    let mut report = StoreReport::default();
    if let Err(why) = check(read, len, fsid, &mut report) {
        report.fatal.push(why);
    }
    report
}

fn take(read: &mut ReadAt<'_>, offset: u64, len: usize) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; len];
    read(offset, &mut bytes).map_err(|why| format!("{len} bytes at byte {offset} cannot be read: {why}"))?;
    Ok(bytes)
}

fn check(read: &mut ReadAt<'_>, len: u64, fsid: [u8; 16], report: &mut StoreReport) -> Result<(), String> {
    if len < AREAS_AT {
        return Err("the monitor's store is empty".into());
    }
    let head = take(read, 0, AREAS_AT as usize)?;
    let mut found: Vec<Super> = Vec::new();
    for (i, slot) in head.chunks_exact(SLOT).enumerate() {
        match Super::from_slot(slot) {
            Slot::Valid(sb) => {
                if slot[..BLOCK] != slot[BLOCK..] {
                    report.minor.push(format!("superblock slot {i}: one of its two copies is damaged, the other one counts"));
                }
                found.push(sb);
            }
            Slot::Newer(version) => {
                return Err(format!(
                    "the monitor's store has format version {version}, this program knows versions up to {VERSION}"
                ));
            }
            Slot::Broken => report.minor.push(format!("superblock slot {i} is not readable; the other one counts")),
            Slot::Empty => {}
        }
    }
    let sb = found.into_iter().max_by_key(|sb| sb.generation).ok_or("neither superblock is readable")?;
    if sb.fsid != fsid {
        return Err(format!("it belongs to cluster {}, not to {}", types::Fsid(sb.fsid), types::Fsid(fsid)));
    }
    let bytes = take(read, sb.area_at(), (sb.snapshot_len as usize).min(len as usize))?;
    let snapshot = check_snapshot(&sb, &bytes)?;
    let end = len.min(sb.area_at() + sb.area_bytes) / BLOCK as u64 * BLOCK as u64;
    let log = take(read, sb.log_at(), end.saturating_sub(sb.log_at()).min(LONGEST_LOG) as usize)?;
    let (state, entries, torn) = if sb.version < VERSION {
        let (entries, _, torn) = v1::replay(&sb, &log)?;
        (recover_old(sb.snapshot_index, &snapshot, &entries)?, entries.len(), torn)
    } else {
        let mut snapshot = read_snapshot(&sb, &snapshot)?;
        let replayed = replay(&sb, snapshot.saved, &log)?;
        snapshot.saved = replayed.saved;
        (recover(&snapshot)?, behind(&snapshot.saved), replayed.torn)
    };
    if torn {
        report.minor.push("the last write was cut short; nobody was told that it was durable".into());
    }
    (report.last, report.entries, report.epoch) = (state.index, entries as u64, state.osdmap.epoch);
    Ok(())
}
