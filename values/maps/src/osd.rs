//! What the map knows about each OSD.

use denc::{Decode, DecodeError, Encode, Reader, Result};
use types::{Epoch, UTime};

/// Bits of an OSD's state.
pub mod state {
    /// It belongs to the cluster.
    pub const EXISTS: u32 = 1 << 0;
    /// It runs.
    pub const UP: u32 = 1 << 1;
    /// It was marked out by itself, not by a person.
    pub const AUTOOUT: u32 = 1 << 2;
    /// It never was in.
    pub const NEW: u32 = 1 << 3;
    /// Space findings, from the worst.
    pub const FULL: u32 = 1 << 4;
    /// Below the reserve for moving data.
    pub const NEARFULL: u32 = 1 << 5;
    /// Too full to take moved data.
    pub const BACKFILLFULL: u32 = 1 << 6;
    /// Its data is gone; its number may be used again.
    pub const DESTROYED: u32 = 1 << 7;
    /// Must not be marked up.
    pub const NOUP: u32 = 1 << 8;
    /// Must not be marked down.
    pub const NODOWN: u32 = 1 << 9;
    /// Must not be marked in.
    pub const NOIN: u32 = 1 << 10;
    /// Must not be marked out.
    pub const NOOUT: u32 = 1 << 11;
    /// Marked down on request of a person; does not come back by itself.
    pub const STOP: u32 = 1 << 12;

    /// Names of the bits as Ceph prints them.
    pub const NAMES: [(u32, &str); 13] = [
        (EXISTS, "exists"),
        (UP, "up"),
        (AUTOOUT, "autoout"),
        (NEW, "new"),
        (FULL, "full"),
        (NEARFULL, "nearfull"),
        (BACKFILLFULL, "backfillfull"),
        (DESTROYED, "destroyed"),
        (NOUP, "noup"),
        (NODOWN, "nodown"),
        (NOIN, "noin"),
        (NOOUT, "noout"),
        (STOP, "stop"),
    ];
}

/// Epochs of an OSD's life (`osd_info_t`): u8 1 and the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OsdInfo {
    /// Start of the last interval that ended with a clean stop.
    pub last_clean_begin: Epoch,
    /// End of it.
    pub last_clean_end: Epoch,
    /// Since when it is up.
    pub up_from: Epoch,
    /// Until when it surely was up as a primary.
    pub up_thru: Epoch,
    /// Time when it went down last.
    pub down_at: Epoch,
    /// Time when its data was declared lost.
    pub lost_at: Epoch,
}

impl Encode for OsdInfo {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(1);
        for epoch in [self.last_clean_begin, self.last_clean_end, self.up_from, self.up_thru, self.down_at, self.lost_at] {
            epoch.encode(out);
        }
    }
}

impl Decode for OsdInfo {
    const MIN_SIZE: usize = 25;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        if r.u8()? != 1 {
            return Err(DecodeError::Invalid("version of osd_info_t"));
        }
        Ok(Self {
            last_clean_begin: r.get()?,
            last_clean_end: r.get()?,
            up_from: r.get()?,
            up_thru: r.get()?,
            down_at: r.get()?,
            lost_at: r.get()?,
        })
    }
}

/// More about an OSD (`osd_xinfo_t` v4/c1).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OsdXInfo {
    /// Time when it went down last.
    pub down_stamp: UTime,
    /// Probability that a silence is just slowness, as a fraction of 2^32 - 1.
    pub laggy_probability: u32,
    /// Length of such silences, in seconds.
    pub laggy_interval: u32,
    /// Features of its connections.
    pub features: u64,
    /// Weight before it was marked out.
    pub old_weight: u32,
    /// Time when its purged snapshots were checked last.
    pub last_purged_snaps_scrub: UTime,
    /// Epoch in which it was known to be dead, not just unreachable.
    pub dead_epoch: Epoch,
}

denc::versioned!(OsdXInfo, 4, 1 {
    down_stamp, laggy_probability, laggy_interval, features, old_weight, last_purged_snaps_scrub, dead_epoch,
});
