//! The monitors.

use denc::{Decode, Encode, Reader, Result, envelope};
use std::collections::{BTreeMap, BTreeSet};
use types::{EntityAddrVec, Epoch, Fsid, UTime};

/// One monitor (`mon_info_t` v5/c1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonInfo {
    /// Its name, without `mon.`.
    pub name: String,
    /// Place where it listens.
    pub public_addrs: EntityAddrVec,
    /// Clients prefer the lowest.
    pub priority: u16,
    /// Weight by which clients choose it among equals.
    pub weight: u16,
    /// Place where it stands.
    pub crush_loc: BTreeMap<String, String>,
}
denc::versioned!(MonInfo, 5, 1 { name, public_addrs, priority, weight, crush_loc });

/// The map that names the monitors. v9/c6.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonMap {
    /// Id of the cluster.
    pub fsid: Fsid,
    /// Version of the map. Clients waste three seconds on a map with epoch 0.
    pub epoch: Epoch,
    /// Time when it changed last.
    pub last_changed: UTime,
    /// Time when the cluster was made.
    pub created: UTime,
    /// Features that every monitor must have, for ever.
    pub persistent_features: u64,
    /// Features that are on, and may go off again.
    pub optional_features: u64,
    /// The monitors by name.
    pub mon_info: BTreeMap<String, MonInfo>,
    /// Names in the order of their ranks.
    pub ranks: Vec<String>,
    /// Oldest release that may join.
    pub min_mon_release: u8,
    /// Ranks that went since the last election.
    pub removed_ranks: BTreeSet<u32>,
    /// Strategy of elections: 1 is by rank.
    pub strategy: u8,
    /// Monitors that may not lead.
    pub disallowed_leaders: BTreeSet<String>,
    /// True if two sites and a tiebreaker form the cluster.
    pub stretch_mode_enabled: bool,
    /// Name of the tiebreaker.
    pub tiebreaker_mon: String,
    /// Monitors that a stretch cluster counts as down.
    pub stretch_marked_down_mons: BTreeSet<String>,
}

/// All features of release 16 that a monitor map may demand.
pub const ALL_MON_FEATURES: u64 = 0xff;

impl MonMap {
    /// Adds a monitor with the next rank.
    pub fn add(&mut self, info: MonInfo) {
        self.ranks.push(info.name.clone());
        self.mon_info.insert(info.name.clone(), info);
    }

    /// The rank of a monitor.
    pub fn rank_of(&self, name: &str) -> Option<usize> {
        self.ranks.iter().position(|n| n == name)
    }

    /// The monitors in the order of their ranks.
    pub fn by_rank(&self) -> impl Iterator<Item = &MonInfo> {
        self.ranks.iter().filter_map(|n| self.mon_info.get(n))
    }
}

fn encode_features(features: u64, out: &mut Vec<u8>) {
    envelope(out, 1, 1, |out| features.encode(out));
}

fn decode_features(r: &mut Reader<'_>) -> Result<u64> {
    r.envelope("mon_feature_t", 1)?.body.get()
}

impl Encode for MonMap {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 9, 6, |out| {
            self.fsid.encode(out);
            self.epoch.encode(out);
            self.last_changed.encode(out);
            self.created.encode(out);
            encode_features(self.persistent_features, out);
            encode_features(self.optional_features, out);
            self.mon_info.encode(out);
            self.ranks.encode(out);
            self.min_mon_release.encode(out);
            self.removed_ranks.encode(out);
            self.strategy.encode(out);
            self.disallowed_leaders.encode(out);
            self.stretch_mode_enabled.encode(out);
            self.tiebreaker_mon.encode(out);
            self.stretch_marked_down_mons.encode(out);
        });
    }
}

impl Decode for MonMap {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("MonMap", 9)?;
        e.at_least("MonMap", 7)?;
        let (v, b) = (e.version, &mut e.body);
        let mut map = Self {
            fsid: b.get()?,
            epoch: b.get()?,
            last_changed: b.get()?,
            created: b.get()?,
            persistent_features: decode_features(b)?,
            optional_features: decode_features(b)?,
            mon_info: b.get()?,
            ranks: b.get()?,
            min_mon_release: b.get()?,
            strategy: 1,
            ..Self::default()
        };
        if v >= 8 {
            map.removed_ranks = b.get()?;
            map.strategy = b.get()?;
            map.disallowed_leaders = b.get()?;
        }
        if v >= 9 {
            map.stretch_mode_enabled = b.get()?;
            map.tiebreaker_mon = b.get()?;
            map.stretch_marked_down_mons = b.get()?;
        }
        Ok(map)
    }
}
