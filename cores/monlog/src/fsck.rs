//! Checks the store of a stopped monitor. It changes nothing: the monitor itself writes both copies of a slot anew with
//! its next snapshot, and nothing else could be proven and mended.

use crate::rescue::{ReadAt, stored};

/// Findings of a check of a monitor's store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreReport {
    /// Findings that keep the monitor from starting.
    pub fatal: Vec<String>,
    /// Findings without loss: redundancy is missing, or a write was cut short that nobody was told of.
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
    match stored(read, len, fsid) {
        Ok(stored) => StoreReport {
            fatal: Vec::new(),
            minor: stored.minor,
            last: stored.last.index,
            entries: stored.entries as u64,
            epoch: stored.last.osdmap.epoch,
        },
        Err(why) => StoreReport { fatal: vec![why], ..StoreReport::default() },
    }
}
