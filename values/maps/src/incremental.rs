//! The step from one OSD map to the next.

use crate::layouts::{decode_own, encode_own};
use crate::osdmap::encode_blocklist;
use crate::{Layouts, OsdXInfo, Pool};
use bytes::Bytes;
use denc::{Decode, DecodeError, Encode, Reader, Result, envelope};
use kernels::{SEED, crc32c};
use std::collections::{BTreeMap, BTreeSet};
use types::level::Level;
use types::{EntityAddr, EntityAddrVec, Epoch, Fsid, Intervals, OsdId, PgId, PoolId, UTime};

/// Keeps a release as it is.
pub(crate) const KEEP_RELEASE: u8 = 0xff;

/// A change of the stretch mode; only in stretch clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct NewStretchMode {
    pub change_stretch_mode: bool,
    pub new_stretch_bucket_count: u32,
    pub new_degraded_stretch_mode: u32,
    pub new_recovering_stretch_mode: u32,
    pub new_stretch_mode_bucket: i32,
    pub stretch_mode_enabled: bool,
}
denc::plain!(NewStretchMode {
    change_stretch_mode,
    new_stretch_bucket_count,
    new_degraded_stretch_mode,
    new_recovering_stretch_mode,
    new_stretch_mode_bucket,
    stretch_mode_enabled,
});

/// Changes from epoch `epoch - 1` to `epoch`. Wrapper v8/c7, client part v8/c1, OSD part v9/c1, or v11 with ranges
/// on the blocklist.
#[derive(Clone, Debug, PartialEq)]
pub struct Incremental {
    /// Id of the cluster.
    pub fsid: Fsid,
    /// The epoch that it leads to.
    pub epoch: Epoch,
    /// Time when it was made.
    pub modified: UTime,
    /// New [`crate::OsdMap::pool_max`]; -1 keeps it.
    pub new_pool_max: PoolId,
    /// New [`crate::OsdMap::flags`]; -1 keeps them.
    pub new_flags: i32,
    /// If not empty: the whole new map, instead of all the rest.
    pub fullmap: Bytes,
    /// If not empty: the whole new placement map.
    pub crush: Bytes,
    /// New [`crate::OsdMap::max_osd`]; -1 keeps it.
    pub new_max_osd: i32,
    /// New and changed pools.
    pub new_pools: BTreeMap<PoolId, Pool>,
    /// New and changed names of pools.
    pub new_pool_names: BTreeMap<PoolId, String>,
    /// Pools that go.
    pub old_pools: BTreeSet<PoolId>,
    /// OSDs that come up, with their addresses for clients.
    pub new_up_client: BTreeMap<OsdId, EntityAddrVec>,
    /// State bits that flip; 0 stands for "up".
    pub new_state: BTreeMap<OsdId, u32>,
    /// New weights.
    pub new_weight: BTreeMap<OsdId, u32>,
    /// New acting sets; an empty one ends the override.
    pub new_pg_temp: BTreeMap<PgId, Vec<OsdId>>,
    /// New primaries; -1 ends the override.
    pub new_primary_temp: BTreeMap<PgId, OsdId>,
    /// New primary affinities.
    pub new_primary_affinity: BTreeMap<OsdId, u32>,
    /// New and changed profiles.
    pub new_erasure_code_profiles: BTreeMap<String, BTreeMap<String, String>>,
    /// Profiles that go.
    pub old_erasure_code_profiles: Vec<String>,
    /// Groups placed by hand.
    pub new_pg_upmap: BTreeMap<PgId, Vec<OsdId>>,
    /// No longer placed by hand.
    pub old_pg_upmap: BTreeSet<PgId>,
    /// Groups where single OSDs are replaced.
    pub new_pg_upmap_items: BTreeMap<PgId, Vec<(OsdId, OsdId)>>,
    /// No longer replaced.
    pub old_pg_upmap_items: BTreeSet<PgId>,
    /// Snapshots that are removed now.
    pub new_removed_snaps: BTreeMap<PoolId, Intervals>,
    /// Snapshots that are gone from all OSDs now.
    pub new_purged_snaps: BTreeMap<PoolId, Intervals>,
    /// Time when an OSD went up or down; zero keeps the time.
    pub new_last_up_change: UTime,
    /// Time when an OSD went in or out; zero keeps the time.
    pub new_last_in_change: UTime,
    /// Heartbeat addresses on the cluster network of OSDs that come up.
    pub new_hb_back_up: BTreeMap<OsdId, EntityAddrVec>,
    /// Until when primaries surely were up.
    pub new_up_thru: BTreeMap<OsdId, Epoch>,
    /// Intervals (begin, end) that ended with a clean stop.
    pub new_last_clean_interval: BTreeMap<OsdId, (Epoch, Epoch)>,
    /// OSDs whose data is declared lost, with the epoch.
    pub new_lost: BTreeMap<OsdId, Epoch>,
    /// Blocklist entries that come.
    pub new_blocklist: BTreeMap<EntityAddr, UTime>,
    /// Blocklist entries that go.
    pub old_blocklist: Vec<EntityAddr>,
    /// Ranges on the blocklist that come.
    pub new_range_blocklist: BTreeMap<EntityAddr, UTime>,
    /// Ranges on the blocklist that go.
    pub old_range_blocklist: Vec<EntityAddr>,
    /// Addresses for other OSDs of OSDs that come up.
    pub new_up_cluster: BTreeMap<OsdId, EntityAddrVec>,
    /// Name of a cluster snapshot (historic).
    pub cluster_snapshot: String,
    /// Identities of disks.
    pub new_uuid: BTreeMap<OsdId, Fsid>,
    /// More about OSDs.
    pub new_xinfo: BTreeMap<OsdId, OsdXInfo>,
    /// Heartbeat addresses on the public network of OSDs that come up.
    pub new_hb_front_up: BTreeMap<OsdId, EntityAddrVec>,
    /// Features with which the resulting map is encoded.
    pub encode_features: u64,
    /// New ratio; below 0 keeps it.
    pub new_nearfull_ratio: f32,
    /// New ratio; below 0 keeps it.
    pub new_full_ratio: f32,
    /// New ratio; below 0 keeps it.
    pub new_backfillfull_ratio: f32,
    /// New release; 0xff keeps it.
    pub new_require_min_compat_client: u8,
    /// New release; 0xff keeps it.
    pub new_require_osd_release: u8,
    /// New flags of buckets; 0 removes.
    pub new_crush_node_flags: BTreeMap<i32, u32>,
    /// New flags of classes; 0 removes.
    pub new_device_class_flags: BTreeMap<i32, u32>,
    /// New stretch mode.
    pub new_stretch_mode: Option<NewStretchMode>,
    /// The cluster's new level.
    pub new_level: Option<Level>,
    /// Layouts of pools with shards. They go with the pool.
    pub new_layouts: BTreeMap<PoolId, Layouts>,
    /// CRC-32C of the resulting full map; set by [`Incremental::seal`], written by the encoder, read by the decoder.
    pub full_crc: u32,
}

impl Incremental {
    /// A step to epoch `epoch` that changes nothing yet.
    pub fn new(epoch: Epoch, fsid: Fsid, now: UTime) -> Self {
        Self {
            fsid,
            epoch,
            modified: now,
            new_pool_max: -1,
            new_flags: -1,
            fullmap: Bytes::new(),
            crush: Bytes::new(),
            new_max_osd: -1,
            new_pools: BTreeMap::new(),
            new_pool_names: BTreeMap::new(),
            old_pools: BTreeSet::new(),
            new_up_client: BTreeMap::new(),
            new_state: BTreeMap::new(),
            new_weight: BTreeMap::new(),
            new_pg_temp: BTreeMap::new(),
            new_primary_temp: BTreeMap::new(),
            new_primary_affinity: BTreeMap::new(),
            new_erasure_code_profiles: BTreeMap::new(),
            old_erasure_code_profiles: Vec::new(),
            new_pg_upmap: BTreeMap::new(),
            old_pg_upmap: BTreeSet::new(),
            new_pg_upmap_items: BTreeMap::new(),
            old_pg_upmap_items: BTreeSet::new(),
            new_removed_snaps: BTreeMap::new(),
            new_purged_snaps: BTreeMap::new(),
            new_last_up_change: UTime::ZERO,
            new_last_in_change: UTime::ZERO,
            new_hb_back_up: BTreeMap::new(),
            new_up_thru: BTreeMap::new(),
            new_last_clean_interval: BTreeMap::new(),
            new_lost: BTreeMap::new(),
            new_blocklist: BTreeMap::new(),
            old_blocklist: Vec::new(),
            new_range_blocklist: BTreeMap::new(),
            old_range_blocklist: Vec::new(),
            new_up_cluster: BTreeMap::new(),
            cluster_snapshot: String::new(),
            new_uuid: BTreeMap::new(),
            new_xinfo: BTreeMap::new(),
            new_hb_front_up: BTreeMap::new(),
            encode_features: types::features::SUPPORTED,
            new_nearfull_ratio: -1.0,
            new_full_ratio: -1.0,
            new_backfillfull_ratio: -1.0,
            new_require_min_compat_client: KEEP_RELEASE,
            new_require_osd_release: KEEP_RELEASE,
            new_crush_node_flags: BTreeMap::new(),
            new_device_class_flags: BTreeMap::new(),
            new_stretch_mode: None,
            new_level: None,
            new_layouts: BTreeMap::new(),
            full_crc: 0,
        }
    }

    fn encode_client_part(&self, out: &mut Vec<u8>) {
        self.fsid.encode(out);
        self.epoch.encode(out);
        self.modified.encode(out);
        self.new_pool_max.encode(out);
        self.new_flags.encode(out);
        self.fullmap.encode(out);
        self.crush.encode(out);
        self.new_max_osd.encode(out);
        self.new_pools.encode(out);
        self.new_pool_names.encode(out);
        self.old_pools.encode(out);
        self.new_up_client.encode(out);
        self.new_state.encode(out);
        self.new_weight.encode(out);
        self.new_pg_temp.encode(out);
        self.new_primary_temp.encode(out);
        self.new_primary_affinity.encode(out);
        self.new_erasure_code_profiles.encode(out);
        self.old_erasure_code_profiles.encode(out);
        self.new_pg_upmap.encode(out);
        self.old_pg_upmap.encode(out);
        self.new_pg_upmap_items.encode(out);
        self.old_pg_upmap_items.encode(out);
        self.new_removed_snaps.encode(out);
        self.new_purged_snaps.encode(out);
        self.new_last_up_change.encode(out);
        self.new_last_in_change.encode(out);
    }

    fn encode_osd_part(&self, out: &mut Vec<u8>) {
        self.new_hb_back_up.encode(out);
        self.new_up_thru.encode(out);
        self.new_last_clean_interval.encode(out);
        self.new_lost.encode(out);
        encode_blocklist(&self.new_blocklist, out);
        self.old_blocklist.encode(out);
        self.new_up_cluster.encode(out);
        self.cluster_snapshot.encode(out);
        self.new_uuid.encode(out);
        self.new_xinfo.encode(out);
        self.new_hb_front_up.encode(out);
        self.encode_features.encode(out);
        self.new_nearfull_ratio.encode(out);
        self.new_full_ratio.encode(out);
        self.new_backfillfull_ratio.encode(out);
        self.new_require_min_compat_client.encode(out);
        self.new_require_osd_release.encode(out);
        self.new_crush_node_flags.encode(out);
        self.new_device_class_flags.encode(out);
        if self.osd_part_version() >= 10 {
            self.new_stretch_mode.unwrap_or_default().encode(out);
        }
        if self.osd_part_version() >= 11 {
            encode_blocklist(&self.new_range_blocklist, out);
            self.old_range_blocklist.encode(out);
        }
        encode_own(self.new_level, &self.new_layouts, out);
    }

    /// As for the whole map: what is seldom used is written only when it is.
    fn osd_part_version(&self) -> u8 {
        match (self.new_range_blocklist.is_empty() && self.old_range_blocklist.is_empty(), self.new_stretch_mode) {
            (false, _) => 11,
            (true, Some(_)) => 10,
            (true, None) => 9,
        }
    }

    fn decode_client_part(&mut self, b: &mut Reader<'_>) -> Result<()> {
        self.fsid = b.get()?;
        self.epoch = b.get()?;
        self.modified = b.get()?;
        self.new_pool_max = b.get()?;
        self.new_flags = b.get()?;
        self.fullmap = b.get()?;
        self.crush = b.get()?;
        self.new_max_osd = b.get()?;
        self.new_pools = b.get()?;
        self.new_pool_names = b.get()?;
        self.old_pools = b.get()?;
        self.new_up_client = b.get()?;
        self.new_state = b.get()?;
        self.new_weight = b.get()?;
        self.new_pg_temp = b.get()?;
        self.new_primary_temp = b.get()?;
        self.new_primary_affinity = b.get()?;
        self.new_erasure_code_profiles = b.get()?;
        self.old_erasure_code_profiles = b.get()?;
        self.new_pg_upmap = b.get()?;
        self.old_pg_upmap = b.get()?;
        self.new_pg_upmap_items = b.get()?;
        self.old_pg_upmap_items = b.get()?;
        self.new_removed_snaps = b.get()?;
        self.new_purged_snaps = b.get()?;
        self.new_last_up_change = b.get()?;
        self.new_last_in_change = b.get()?;
        Ok(())
    }

    fn decode_osd_part(&mut self, version: u8, b: &mut Reader<'_>) -> Result<()> {
        self.new_hb_back_up = b.get()?;
        self.new_up_thru = b.get()?;
        self.new_last_clean_interval = b.get()?;
        self.new_lost = b.get()?;
        self.new_blocklist = b.get()?;
        self.old_blocklist = b.get()?;
        self.new_up_cluster = b.get()?;
        self.cluster_snapshot = b.get()?;
        self.new_uuid = b.get()?;
        self.new_xinfo = b.get()?;
        self.new_hb_front_up = b.get()?;
        self.encode_features = b.get()?;
        self.new_nearfull_ratio = b.get()?;
        self.new_full_ratio = b.get()?;
        self.new_backfillfull_ratio = b.get()?;
        self.new_require_min_compat_client = b.get()?;
        self.new_require_osd_release = b.get()?;
        self.new_crush_node_flags = b.get()?;
        self.new_device_class_flags = b.get()?;
        if version >= 10 {
            self.new_stretch_mode = Some(b.get()?).filter(|new: &NewStretchMode| version == 10 || new.change_stretch_mode);
        }
        if version >= 11 {
            self.new_range_blocklist = b.get()?;
            self.old_range_blocklist = b.get()?;
        }
        let own = decode_own(version, b)?;
        (self.new_level, self.new_layouts) = (own.level, own.layouts);
        Ok(())
    }
}

impl Encode for Incremental {
    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        envelope(out, 8, 7, |out| {
            envelope(out, 8, 1, |out| self.encode_client_part(out));
            envelope(out, self.osd_part_version(), 1, |out| self.encode_osd_part(out));
            // Room for the checksum of this step, which covers all but itself.
            [0; 4].encode(out);
            self.full_crc.encode(out);
        });
        let at = out.len() - 8;
        let crc = crc32c(crc32c(SEED, &out[start..at]), &out[at + 4..]);
        out[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

impl Decode for Incremental {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let whole = r.clone().rest();
        let mut e = r.envelope("OSDMap::Incremental", 8)?;
        e.at_least("OSDMap::Incremental", 8)?;
        let mut inc = Incremental::new(0, Fsid::default(), UTime::ZERO);
        let mut client = e.body.envelope("OSDMap::Incremental client part", 8)?;
        client.at_least("OSDMap::Incremental client part", 8)?;
        inc.decode_client_part(&mut client.body)?;
        let mut osd = e.body.envelope("OSDMap::Incremental OSD part", 11)?;
        osd.at_least("OSDMap::Incremental OSD part", 9)?;
        inc.decode_osd_part(osd.version, &mut osd.body)?;
        let end = whole.len() - r.remaining();
        let before = end - e.body.remaining();
        let found = e.body.u32()?;
        inc.full_crc = e.body.u32()?;
        if crc32c(crc32c(SEED, &whole[..before]), &whole[before + 4..end]) != found {
            return Err(DecodeError::Invalid("CRC of an OSD map increment"));
        }
        Ok(inc)
    }
}
