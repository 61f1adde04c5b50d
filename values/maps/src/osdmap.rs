//! The OSD map: its data, its encoding, questions to it. Placement is in `placement`, change in `apply`.

use crate::layouts::{decode_own, encode_own};
use crate::{Layout, Layouts, OsdInfo, OsdXInfo, Placements, Pool, state};
use bytes::Bytes;
use denc::{Decode, DecodeError, Encode, Reader, Result, put_count};
use kernels::{SEED, crc32c};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::level::Level;
use types::{AddrType, EntityAddr, EntityAddrVec, Epoch, Fsid, Intervals, Locator, OsdId, PgId, PoolId, UTime};

/// Flags of the whole map.
pub mod flags {
    /// Near full (historic).
    pub const NEARFULL: u32 = 1 << 0;
    /// No writes: the cluster is full.
    pub const FULL: u32 = 1 << 1;
    /// Clients hold their reads.
    pub const PAUSERD: u32 = 1 << 2;
    /// Clients hold their writes.
    pub const PAUSEWR: u32 = 1 << 3;
    /// No recovery by request of the map itself.
    pub const PAUSEREC: u32 = 1 << 4;
    /// OSDs are not marked up.
    pub const NOUP: u32 = 1 << 5;
    /// OSDs are not marked down.
    pub const NODOWN: u32 = 1 << 6;
    /// OSDs are not marked out.
    pub const NOOUT: u32 = 1 << 7;
    /// OSDs are not marked in.
    pub const NOIN: u32 = 1 << 8;
    /// No backfill.
    pub const NOBACKFILL: u32 = 1 << 9;
    /// No recovery.
    pub const NORECOVER: u32 = 1 << 10;
    /// No scrub.
    pub const NOSCRUB: u32 = 1 << 11;
    /// No deep scrub.
    pub const NODEEP_SCRUB: u32 = 1 << 12;
    /// No cache tier agents.
    pub const NOTIERAGENT: u32 = 1 << 13;
    /// No rebalancing.
    pub const NOREBALANCE: u32 = 1 << 14;
    /// Objects are sorted bitwise.
    pub const SORTBITWISE: u32 = 1 << 15;
    /// OSDs of release 10 or later only.
    pub const REQUIRE_JEWEL: u32 = 1 << 16;
    /// OSDs of release 11 or later only.
    pub const REQUIRE_KRAKEN: u32 = 1 << 17;
    /// OSDs of release 12 or later only.
    pub const REQUIRE_LUMINOUS: u32 = 1 << 18;
    /// Deletes during recovery.
    pub const RECOVERY_DELETES: u32 = 1 << 19;
    /// Snapshots were purged once after an upgrade.
    pub const PURGED_SNAPDIRS: u32 = 1 << 20;
    /// No snapshot trimming.
    pub const NOSNAPTRIM: u32 = 1 << 21;
    /// Logs have a hard limit.
    pub const PGLOG_HARDLIMIT: u32 = 1 << 22;
    /// Superseded by the release field.
    pub const LEGACY_REQUIRE_FLAGS: u32 = REQUIRE_JEWEL | REQUIRE_KRAKEN | REQUIRE_LUMINOUS;
    /// Bits that are not shown to people.
    pub const SEMIHIDDEN: u32 = LEGACY_REQUIRE_FLAGS | SORTBITWISE | RECOVERY_DELETES | PURGED_SNAPDIRS | PGLOG_HARDLIMIT;

    /// Names of the bits as Ceph prints them, in the order in which it does.
    pub const NAMES: [(u32, &str); 23] = [
        (NEARFULL, "nearfull"),
        (FULL, "full"),
        (PAUSERD, "pauserd"),
        (PAUSEWR, "pausewr"),
        (PAUSEREC, "pauserec"),
        (NOUP, "noup"),
        (NODOWN, "nodown"),
        (NOOUT, "noout"),
        (NOIN, "noin"),
        (NOBACKFILL, "nobackfill"),
        (NOREBALANCE, "norebalance"),
        (NORECOVER, "norecover"),
        (NOSCRUB, "noscrub"),
        (NODEEP_SCRUB, "nodeep-scrub"),
        (NOTIERAGENT, "notieragent"),
        (NOSNAPTRIM, "nosnaptrim"),
        (SORTBITWISE, "sortbitwise"),
        (REQUIRE_JEWEL, "require_jewel_osds"),
        (REQUIRE_KRAKEN, "require_kraken_osds"),
        (REQUIRE_LUMINOUS, "require_luminous_osds"),
        (RECOVERY_DELETES, "recovery_deletes"),
        (PURGED_SNAPDIRS, "purged_snapdirs"),
        (PGLOG_HARDLIMIT, "pglog_hardlimit"),
    ];
}

/// State of a stretch cluster; present only in its maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct StretchMode {
    pub stretch_mode_enabled: bool,
    pub stretch_bucket_count: u32,
    pub degraded_stretch_mode: u32,
    pub recovering_stretch_mode: u32,
    pub stretch_mode_bucket: i32,
}
denc::plain!(StretchMode {
    stretch_mode_enabled,
    stretch_bucket_count,
    degraded_stretch_mode,
    recovering_stretch_mode,
    stretch_mode_bucket,
});

/// One epoch of the cluster: pools, OSDs, and all that places data. Per-OSD vectors are as long as `max_osd`.
#[derive(Clone, Debug, Default)]
pub struct OsdMap {
    /// Id of the cluster.
    pub fsid: Fsid,
    /// Version of the map; 0 before the first.
    pub epoch: Epoch,
    /// Time when the cluster was made.
    pub created: UTime,
    /// Time when this epoch was made.
    pub modified: UTime,
    /// The pools.
    pub pools: BTreeMap<PoolId, Pool>,
    /// Their names; every pool must have one.
    pub pool_name: BTreeMap<PoolId, String>,
    /// Largest pool number ever given.
    pub pool_max: i32,
    /// Bits of [`flags`].
    pub flags: u32,
    /// One more than the largest OSD that may exist.
    pub max_osd: i32,
    /// Bits of [`state`].
    pub osd_state: Vec<u32>,
    /// 16.16 fraction of groups that an OSD keeps: 0 is out, 0x10000 is in.
    pub osd_weight: Vec<u32>,
    /// Addresses for clients.
    pub client_addrs: Vec<EntityAddrVec>,
    /// OSDs that act for a group instead of its up set.
    pub pg_temp: BTreeMap<PgId, Vec<OsdId>>,
    /// OSD that is primary instead.
    pub primary_temp: BTreeMap<PgId, OsdId>,
    /// 16.16 willingness to be primary; empty if all are 0x10000.
    pub osd_primary_affinity: Vec<u32>,
    /// Placement.
    pub crush: Arc<crush::Map>,
    /// Erasure code profiles by name.
    pub erasure_code_profiles: BTreeMap<String, BTreeMap<String, String>>,
    /// Groups placed by hand.
    pub pg_upmap: BTreeMap<PgId, Vec<OsdId>>,
    /// Groups where (from, to) pairs replace single OSDs.
    pub pg_upmap_items: BTreeMap<PgId, Vec<(OsdId, OsdId)>>,
    /// Counts changes of `crush`.
    pub crush_version: i32,
    /// Snapshots that this epoch declares removed.
    pub new_removed_snaps: BTreeMap<PoolId, Intervals>,
    /// Snapshots that this epoch declares gone from all OSDs.
    pub new_purged_snaps: BTreeMap<PoolId, Intervals>,
    /// Time when an OSD went up or down last.
    pub last_up_change: UTime,
    /// Time when an OSD went in or out last.
    pub last_in_change: UTime,
    /// Addresses for heartbeats on the cluster network.
    pub hb_back_addrs: Vec<EntityAddrVec>,
    /// Epochs of each OSD.
    pub osd_info: Vec<OsdInfo>,
    /// Clients that may do nothing, with the time when that ends. Entries have the type `Any`; port and nonce 0 stand
    /// for every client of the IP.
    pub blocklist: BTreeMap<EntityAddr, UTime>,
    /// Ranges of addresses ([`AddrType::Cidr`]) whose clients may do nothing, with the time when that ends.
    pub range_blocklist: BTreeMap<EntityAddr, UTime>,
    /// Addresses for other OSDs.
    pub cluster_addrs: Vec<EntityAddrVec>,
    /// Epoch of a cluster snapshot (historic).
    pub cluster_snapshot_epoch: Epoch,
    /// Name of a cluster snapshot (historic).
    pub cluster_snapshot: String,
    /// Identity of each OSD's disk.
    pub osd_uuid: Vec<Fsid>,
    /// More about each OSD.
    pub osd_xinfo: Vec<OsdXInfo>,
    /// Addresses for heartbeats on the public network.
    pub hb_front_addrs: Vec<EntityAddrVec>,
    /// Fill level at which health warns.
    pub nearfull_ratio: f32,
    /// Fill level at which writes stop.
    pub full_ratio: f32,
    /// Fill level at which moved data is refused.
    pub backfillfull_ratio: f32,
    /// Oldest release of clients that is let in.
    pub require_min_compat_client: u8,
    /// Oldest release of OSDs that is let in.
    pub require_osd_release: u8,
    /// Snapshots that are removed but not gone from all OSDs.
    pub removed_snaps_queue: BTreeMap<PoolId, Intervals>,
    /// State bits that hold for all OSDs below a bucket.
    pub crush_node_flags: BTreeMap<i32, u32>,
    /// State bits that hold for all OSDs of a device class.
    pub device_class_flags: BTreeMap<i32, u32>,
    /// State of a stretch cluster.
    pub stretch_mode: Option<StretchMode>,
    /// The cluster's level.
    pub level: Level,
    /// Layouts of pools with shards.
    pub layouts: BTreeMap<PoolId, Layouts>,
    /// Remembered placements; the default is none.
    pub placements: Placements,
}

impl OsdMap {
    /// The pool with this number.
    pub fn pool(&self, id: PoolId) -> Option<&Pool> {
        self.pools.get(&id)
    }

    /// Number and settings of the pool with this name.
    pub fn pool_by_name(&self, name: &str) -> Option<(PoolId, &Pool)> {
        let (id, _) = self.pool_name.iter().find(|(_, n)| *n == name)?;
        Some((*id, self.pools.get(id)?))
    }

    /// Returns how new objects of a pool lie on its shards; nothing of pools without shards, and of those that another
    /// program made.
    pub fn layout(&self, id: PoolId) -> Option<&Layout> {
        self.layouts.get(&id)?.current()
    }

    /// Returns how many bytes of disks `den` bytes of data take in a pool, as (bytes, `den`): its copies and 1, or k + m
    /// and k.
    pub fn raw_factor(&self, id: PoolId) -> (u64, u64) {
        let size = self.pools.get(&id).map_or(1, |pool| u64::from(pool.size.max(1)));
        (size, self.layout(id).map_or(1, |layout| u64::from(layout.data)))
    }

    /// The same as one number: 3.0 for three copies, 1.5 for four data shards and two parities.
    pub fn raw_rate(&self, id: PoolId) -> f64 {
        let (size, data) = self.raw_factor(id);
        size as f64 / data as f64
    }

    /// The group of object `name`; `None` if the pool does not exist.
    pub fn object_pg(&self, at: &Locator, name: &[u8]) -> Option<PgId> {
        let pool = self.pools.get(&at.pool)?;
        Some(PgId::new(at.pool, pool.fold(at.hash_of(name))))
    }

    /// Folds a raw object hash into its group.
    pub fn fold(&self, raw: PgId) -> Option<PgId> {
        Some(PgId::new(raw.pool, self.pools.get(&raw.pool)?.fold(raw.seed)))
    }

    /// State bits of an OSD; 0 for those that do not exist.
    #[inline]
    pub fn state(&self, osd: OsdId) -> u32 {
        usize::try_from(osd).ok().and_then(|n| self.osd_state.get(n)).copied().unwrap_or(0)
    }

    /// Returns true if the OSD belongs to the cluster.
    pub fn exists(&self, osd: OsdId) -> bool {
        self.state(osd) & state::EXISTS != 0
    }

    /// Returns true if it runs.
    pub fn is_up(&self, osd: OsdId) -> bool {
        self.state(osd) & (state::EXISTS | state::UP) == state::EXISTS | state::UP
    }

    /// Returns true if it is given data.
    pub fn is_in(&self, osd: OsdId) -> bool {
        self.exists(osd) && self.weight(osd) != 0
    }

    /// 16.16 fraction of groups that an OSD keeps; 0 for those that do not exist.
    pub fn weight(&self, osd: OsdId) -> u32 {
        usize::try_from(osd).ok().and_then(|n| self.osd_weight.get(n)).copied().unwrap_or(0)
    }

    /// 16.16 willingness to be primary.
    pub fn primary_affinity(&self, osd: OsdId) -> u32 {
        usize::try_from(osd).ok().and_then(|n| self.osd_primary_affinity.get(n)).copied().unwrap_or(crush::ONE)
    }

    /// Returns where clients find an OSD.
    pub fn osd_addr(&self, osd: OsdId) -> Option<&EntityAddrVec> {
        self.client_addrs.get(usize::try_from(osd).ok()?).filter(|_| self.exists(osd))
    }

    /// Returns where other OSDs find an OSD.
    pub fn osd_cluster_addr(&self, osd: OsdId) -> Option<&EntityAddrVec> {
        self.cluster_addrs.get(usize::try_from(osd).ok()?).filter(|_| self.exists(osd))
    }

    /// Epochs of an OSD's life.
    pub fn info(&self, osd: OsdId) -> Option<&OsdInfo> {
        self.osd_info.get(usize::try_from(osd).ok()?)
    }

    /// Since when an OSD is up.
    pub fn up_from(&self, osd: OsdId) -> Epoch {
        self.info(osd).map_or(0, |i| i.up_from)
    }

    /// Numbers of the OSDs that exist.
    pub fn osds(&self) -> impl Iterator<Item = OsdId> + '_ {
        (0..).take(self.osd_state.len()).filter(|osd| self.exists(*osd))
    }

    /// Returns how many OSDs (exist, are up, are in).
    pub fn osd_counts(&self) -> (usize, usize, usize) {
        (self.osds().count(), self.osds().filter(|o| self.is_up(*o)).count(), self.osds().filter(|o| self.is_in(*o)).count())
    }

    /// Returns true if a bit of [`flags`] is set.
    pub fn has_flag(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Returns true if anybody may do nothing.
    pub fn has_blocklist(&self) -> bool {
        !self.blocklist.is_empty() || !self.range_blocklist.is_empty()
    }

    /// Returns true if the client at this address may do nothing: its very instance is listed, or its whole IP (an
    /// entry with port and nonce 0), or a range that its IP is in.
    pub fn is_blocklisted(&self, addr: &EntityAddr) -> bool {
        if !self.has_blocklist() {
            return false;
        }
        if self.range_blocklist.keys().any(|range| range.range_contains(addr)) {
            return true;
        }
        let instance = EntityAddr { kind: AddrType::Any, ..*addr };
        let whole_ip = instance.addr.map(|mut a| {
            a.set_port(0);
            EntityAddr { kind: AddrType::Any, nonce: 0, addr: Some(a) }
        });
        self.blocklist.contains_key(&instance) || whole_ip.is_some_and(|a| self.blocklist.contains_key(&a))
    }

    /// Returns true if a snapshot is removed or on its way out.
    pub fn in_removed_snaps_queue(&self, pool: PoolId, snap: u64) -> bool {
        self.removed_snaps_queue.get(&pool).is_some_and(|s| s.contains(snap))
    }

    /// Makes room for OSDs `0..n`, or drops those beyond.
    pub fn set_max_osd(&mut self, n: i32) {
        self.max_osd = n;
        let n = usize::try_from(n).expect("max_osd is a count");
        self.osd_state.resize(n, 0);
        self.osd_weight.resize(n, 0);
        for addrs in [&mut self.client_addrs, &mut self.cluster_addrs, &mut self.hb_back_addrs, &mut self.hb_front_addrs] {
            addrs.resize_with(n, EntityAddrVec::default);
        }
        self.osd_info.resize_with(n, OsdInfo::default);
        self.osd_xinfo.resize_with(n, OsdXInfo::default);
        self.osd_uuid.resize(n, Fsid::default());
        if !self.osd_primary_affinity.is_empty() {
            self.osd_primary_affinity.resize(n, crush::ONE);
        }
        self.forget_placements();
    }
}

/// In the order in which Ceph sorts addresses: byte by byte as they lie in memory, type and nonce little-endian first.
pub(crate) fn encode_blocklist(list: &BTreeMap<EntityAddr, UTime>, out: &mut Vec<u8>) {
    let mut sorted: Vec<_> = list.iter().map(|(addr, until)| (memory_order(addr), addr, until)).collect();
    sorted.sort();
    put_count(out, sorted.len());
    for (_, addr, until) in sorted {
        addr.encode(out);
        until.encode(out);
    }
}

fn memory_order(addr: &EntityAddr) -> Vec<u8> {
    let mut bytes = [(addr.kind as u32).to_le_bytes(), addr.nonce.to_le_bytes()].concat();
    // The encoding of the socket address is its memory; it follows the type, nonce and a length.
    bytes.extend_from_slice(addr.to_vec().get(1 + 6 + 8 + 4..).unwrap_or_default());
    bytes
}

/// Appends the CRC-32C of all that was written since `start`.
pub(crate) fn put_crc(out: &mut Vec<u8>, start: usize) {
    crc32c(SEED, &out[start..]).encode(out);
}

/// Checks a CRC that follows `covered`.
pub(crate) fn check_crc(found: u32, covered: &[u8], what: &'static str) -> Result<()> {
    if crc32c(SEED, covered) == found { Ok(()) } else { Err(DecodeError::Invalid(what)) }
}

impl OsdMap {
    fn encode_client_part(&self, out: &mut Vec<u8>) {
        self.fsid.encode(out);
        self.epoch.encode(out);
        self.created.encode(out);
        self.modified.encode(out);
        self.pools.encode(out);
        self.pool_name.encode(out);
        self.pool_max.encode(out);
        self.flags.encode(out);
        self.max_osd.encode(out);
        self.osd_state.encode(out);
        self.osd_weight.encode(out);
        self.client_addrs.encode(out);
        self.pg_temp.encode(out);
        self.primary_temp.encode(out);
        self.osd_primary_affinity.encode(out);
        denc::blob(out, |out| self.crush.encode(out));
        self.erasure_code_profiles.encode(out);
        self.pg_upmap.encode(out);
        self.pg_upmap_items.encode(out);
        self.crush_version.encode(out);
        self.new_removed_snaps.encode(out);
        self.new_purged_snaps.encode(out);
        self.last_up_change.encode(out);
        self.last_in_change.encode(out);
    }

    fn encode_osd_part(&self, out: &mut Vec<u8>) {
        self.hb_back_addrs.encode(out);
        self.osd_info.encode(out);
        encode_blocklist(&self.blocklist, out);
        self.cluster_addrs.encode(out);
        self.cluster_snapshot_epoch.encode(out);
        self.cluster_snapshot.encode(out);
        self.osd_uuid.encode(out);
        self.osd_xinfo.encode(out);
        self.hb_front_addrs.encode(out);
        self.nearfull_ratio.encode(out);
        self.full_ratio.encode(out);
        self.backfillfull_ratio.encode(out);
        self.require_min_compat_client.encode(out);
        self.require_osd_release.encode(out);
        self.removed_snaps_queue.encode(out);
        self.crush_node_flags.encode(out);
        self.device_class_flags.encode(out);
        if self.osd_part_version() >= 10 {
            self.stretch_mode.unwrap_or_default().encode(out);
        }
        if self.osd_part_version() >= 11 {
            encode_blocklist(&self.range_blocklist, out);
        }
        encode_own(Some(self.level).filter(|level| *level > Level::FIRST), &self.layouts, out);
    }

    /// Returns the oldest version that has a place for all that is set: version 9 knows neither stretch mode nor ranges
    /// on the blocklist, version 10 no ranges.
    fn osd_part_version(&self) -> u8 {
        match (self.range_blocklist.is_empty(), self.stretch_mode) {
            (false, _) => 11,
            (true, Some(_)) => 10,
            (true, None) => 9,
        }
    }

    fn decode_client_part(&mut self, b: &mut Reader<'_>) -> Result<()> {
        self.fsid = b.get()?;
        self.epoch = b.get()?;
        self.created = b.get()?;
        self.modified = b.get()?;
        self.pools = b.get()?;
        self.pool_name = b.get()?;
        self.pool_max = b.get()?;
        self.flags = b.get()?;
        self.max_osd = b.get()?;
        self.osd_state = b.get()?;
        self.osd_weight = b.get()?;
        self.client_addrs = b.get()?;
        self.pg_temp = b.get()?;
        self.primary_temp = b.get()?;
        self.osd_primary_affinity = b.get()?;
        self.crush = Arc::new(crush::Map::from_bytes(b.blob()?)?);
        self.erasure_code_profiles = b.get()?;
        self.pg_upmap = b.get()?;
        self.pg_upmap_items = b.get()?;
        self.crush_version = b.get()?;
        self.new_removed_snaps = b.get()?;
        self.new_purged_snaps = b.get()?;
        self.last_up_change = b.get()?;
        self.last_in_change = b.get()?;
        Ok(())
    }

    fn decode_osd_part(&mut self, version: u8, b: &mut Reader<'_>) -> Result<()> {
        self.hb_back_addrs = b.get()?;
        self.osd_info = b.get()?;
        self.blocklist = b.get()?;
        self.cluster_addrs = b.get()?;
        self.cluster_snapshot_epoch = b.get()?;
        self.cluster_snapshot = b.get()?;
        self.osd_uuid = b.get()?;
        self.osd_xinfo = b.get()?;
        self.hb_front_addrs = b.get()?;
        self.nearfull_ratio = b.get()?;
        self.full_ratio = b.get()?;
        self.backfillfull_ratio = b.get()?;
        self.require_min_compat_client = b.get()?;
        self.require_osd_release = b.get()?;
        self.removed_snaps_queue = b.get()?;
        self.crush_node_flags = b.get()?;
        self.device_class_flags = b.get()?;
        if version >= 10 {
            self.stretch_mode = Some(b.get()?).filter(|stretch: &StretchMode| version == 10 || stretch.stretch_mode_enabled);
        }
        if version >= 11 {
            self.range_blocklist = b.get()?;
        }
        let own = decode_own(version, b)?;
        self.level = own.level.unwrap_or_default();
        self.layouts = own.layouts;
        Ok(())
    }

    /// Refuses maps whose per-OSD vectors do not fit together.
    fn check_lengths(&self) -> Result<()> {
        let n = usize::try_from(self.max_osd).map_err(|_| DecodeError::Invalid("max_osd"))?;
        let lengths = [
            self.osd_state.len(),
            self.osd_weight.len(),
            self.client_addrs.len(),
            self.cluster_addrs.len(),
            self.hb_back_addrs.len(),
            self.hb_front_addrs.len(),
            self.osd_info.len(),
            self.osd_uuid.len(),
            self.osd_xinfo.len(),
        ];
        let affinity = self.osd_primary_affinity.len();
        if lengths.iter().any(|l| *l != n) || (affinity != 0 && affinity != n) {
            return Err(DecodeError::Invalid("OSD map: lengths differ from max_osd"));
        }
        Ok(())
    }
}

impl Encode for OsdMap {
    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        denc::envelope(out, 8, 7, |out| {
            denc::envelope(out, 9, 1, |out| self.encode_client_part(out));
            denc::envelope(out, self.osd_part_version(), 1, |out| self.encode_osd_part(out));
            // Room for the CRC, which covers the finished head as well.
            [0; 4].encode(out);
        });
        out.truncate(out.len() - 4);
        put_crc(out, start);
    }
}

impl Decode for OsdMap {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let whole = r.clone().rest();
        let mut e = r.envelope("OSDMap", 8)?;
        e.at_least("OSDMap", 8)?;
        let mut map = OsdMap::default();
        let mut client = e.body.envelope("OSDMap client part", 9)?;
        client.at_least("OSDMap client part", 9)?;
        map.decode_client_part(&mut client.body)?;
        let mut osd = e.body.envelope("OSDMap OSD part", 11)?;
        osd.at_least("OSDMap OSD part", 9)?;
        map.decode_osd_part(osd.version, &mut osd.body)?;
        let covered = whole.len() - r.remaining() - e.body.remaining();
        check_crc(e.body.u32()?, &whole[..covered], "CRC of an OSD map")?;
        map.check_lengths()?;
        Ok(map)
    }
}

/// The checksum at the end of an encoded full map.
pub(crate) fn crc_of_encoded(full: &Bytes) -> u32 {
    let tail = full.last_chunk::<4>().expect("an encoded map ends in its CRC");
    u32::from_le_bytes(*tail)
}

/// Returns where an OSD's facts stand in the map's lists. Steps that name others are refused before.
pub(crate) fn slot(osd: OsdId) -> usize {
    usize::try_from(osd).expect("an OSD below max_osd")
}
