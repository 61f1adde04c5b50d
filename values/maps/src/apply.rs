//! Making the next epoch from a map and a step.

use crate::osdmap::slot;
use crate::{Incremental, OsdInfo, OsdMap, OsdXInfo, StretchMode, flags, state};
use bytes::Bytes;
use denc::{Decode, DecodeError, Encode};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use types::{EntityAddrVec, Epoch, Fsid, OsdId, PoolId, UTime};

/// Reason why a step does not apply. The fault is that of whoever made or sent the step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// The step belongs to another epoch.
    Epoch {
        /// Epoch of the map.
        have: Epoch,
        /// Epoch that the step leads to.
        step: Epoch,
    },
    /// The step belongs to another cluster.
    Cluster,
    /// The step speaks of an OSD beyond `max_osd`.
    NoSuchOsd(OsdId),
    /// The step makes room for more OSDs than any cluster has.
    TooManyOsds(i32),
    /// The step's highest pool number is none that a map can hold.
    PoolMax(PoolId),
    /// A map inside the step cannot be read.
    Inner(DecodeError),
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Epoch { have, step } => write!(f, "a step to epoch {step} does not apply to epoch {have}"),
            Self::Cluster => f.write_str("the step belongs to another cluster"),
            Self::NoSuchOsd(osd) => write!(f, "the step changes osd.{osd}, which is beyond max_osd"),
            Self::TooManyOsds(n) => write!(f, "the step sets max_osd to {n}"),
            Self::PoolMax(n) => write!(f, "the step sets pool_max to {n}"),
            Self::Inner(e) => write!(f, "a map inside the step: {e}"),
        }
    }
}

impl std::error::Error for ApplyError {}

type Result<T> = std::result::Result<T, ApplyError>;

/// Result of [`Incremental::seal`].
#[derive(Clone, Debug)]
pub struct Sealed {
    /// The resulting map.
    pub map: OsdMap,
    /// The encoded step.
    pub incremental: Bytes,
    /// The encoded resulting map.
    pub full: Bytes,
}

impl Incremental {
    /// Applies this to `base` and makes both encodings, with their checksums; each is made once and passed on as it is.
    pub fn seal(&mut self, base: &OsdMap) -> Result<Sealed> {
        let map = base.apply(self)?;
        let full = map.to_bytes();
        self.full_crc = crate::osdmap::crc_of_encoded(&full);
        Ok(Sealed { map, incremental: self.to_bytes(), full })
    }
}

/// Most OSDs that a step may make room for: bounds what a forged one can allocate.
const MAX_OSDS: i32 = 1 << 20;
/// The first release that has no flags of its own for required releases.
const LUMINOUS: u8 = 12;
/// The first release whose logs have a hard limit.
const NAUTILUS: u8 = 14;
/// Releases from here on would be negative: they stand for "no change", as [`KEEP_RELEASE`] does.
///
/// [`KEEP_RELEASE`]: crate::incremental::KEEP_RELEASE
const FIRST_NO_RELEASE: u8 = 0x80;

impl OsdMap {
    /// The next epoch: this map changed by `inc`. Remembered placements go over as far as the step leaves them alone.
    pub fn apply(&self, inc: &Incremental) -> Result<OsdMap> {
        if inc.epoch != self.epoch.wrapping_add(1) {
            return Err(ApplyError::Epoch { have: self.epoch, step: inc.epoch });
        }
        if inc.epoch != 1 && inc.fsid != self.fsid {
            return Err(ApplyError::Cluster);
        }
        if !inc.fullmap.is_empty() {
            return OsdMap::from_bytes(&inc.fullmap).map_err(ApplyError::Inner);
        }
        let mut map = self.clone();
        map.fsid = inc.fsid;
        map.epoch = inc.epoch;
        map.modified = inc.modified;
        if inc.new_max_osd > MAX_OSDS {
            return Err(ApplyError::TooManyOsds(inc.new_max_osd));
        }
        if inc.new_max_osd >= 0 {
            map.set_max_osd(inc.new_max_osd);
        }
        map.check_osds(inc)?;
        map.apply_pools(inc)?;
        map.apply_weights(inc);
        map.apply_states(inc);
        map.apply_up(inc);
        map.apply_osd_facts(inc);
        map.apply_exceptions(inc);
        map.apply_settings(inc);
        if !inc.crush.is_empty() {
            map.crush = Arc::new(crush::Map::from_bytes(&inc.crush).map_err(ApplyError::Inner)?);
            map.crush_version = map.crush_version.wrapping_add(1);
            let classes = &map.crush.class_names;
            map.device_class_flags.retain(|class, _| classes.contains_key(class));
        }
        map.placements = crate::carried::after(self, inc, &map);
        Ok(map)
    }

    /// Refuses steps that name OSDs beyond `max_osd`.
    fn check_osds(&self, inc: &Incremental) -> Result<()> {
        let named = (inc.new_up_client.keys())
            .chain(inc.new_state.keys())
            .chain(inc.new_weight.keys())
            .chain(inc.new_primary_affinity.keys())
            .chain(inc.new_hb_back_up.keys())
            .chain(inc.new_hb_front_up.keys())
            .chain(inc.new_up_thru.keys())
            .chain(inc.new_last_clean_interval.keys())
            .chain(inc.new_lost.keys())
            .chain(inc.new_up_cluster.keys())
            .chain(inc.new_uuid.keys())
            .chain(inc.new_xinfo.keys());
        match named.into_iter().find(|osd| !(0..self.max_osd).contains(*osd)) {
            Some(osd) => Err(ApplyError::NoSuchOsd(*osd)),
            None => Ok(()),
        }
    }

    fn apply_pools(&mut self, inc: &Incremental) -> Result<()> {
        if inc.new_pool_max != -1 {
            self.pool_max = i32::try_from(inc.new_pool_max).map_err(|_| ApplyError::PoolMax(inc.new_pool_max))?;
        }
        for (id, pool) in &inc.new_pools {
            let mut pool = pool.clone();
            pool.last_change = self.epoch;
            self.pools.insert(*id, pool);
        }
        self.new_removed_snaps = inc.new_removed_snaps.clone();
        self.new_purged_snaps = inc.new_purged_snaps.clone();
        for (pool, snaps) in &inc.new_removed_snaps {
            self.removed_snaps_queue.entry(*pool).or_default().add(snaps);
        }
        for (pool, snaps) in &inc.new_purged_snaps {
            let Some(queue) = self.removed_snaps_queue.get_mut(pool) else { continue };
            queue.subtract(snaps);
            if queue.is_empty() {
                self.removed_snaps_queue.remove(pool);
            }
        }
        self.pool_name.extend(inc.new_pool_names.clone());
        self.layouts.extend(inc.new_layouts.clone());
        for pool in &inc.old_pools {
            self.pools.remove(pool);
            self.pool_name.remove(pool);
            self.layouts.remove(pool);
        }
        Ok(())
    }

    fn apply_weights(&mut self, inc: &Incremental) {
        for (osd, weight) in &inc.new_weight {
            let n = slot(*osd);
            self.osd_weight[n] = *weight;
            if *weight != 0 {
                // Coming in makes it an OSD like all others.
                self.osd_state[n] |= state::EXISTS;
                self.osd_state[n] &= !(state::AUTOOUT | state::NEW);
                self.osd_xinfo[n].old_weight = 0;
            }
        }
        for (osd, affinity) in &inc.new_primary_affinity {
            self.set_primary_affinity(*osd, *affinity);
        }
    }

    fn set_primary_affinity(&mut self, osd: OsdId, affinity: u32) {
        if self.osd_primary_affinity.is_empty() {
            self.osd_primary_affinity = vec![crush::ONE; self.osd_state.len()];
        }
        self.osd_primary_affinity[slot(osd)] = affinity;
    }

    fn apply_states(&mut self, inc: &Incremental) {
        for (osd, bits) in &inc.new_state {
            let n = slot(*osd);
            let flip = if *bits == 0 { state::UP } else { *bits };
            if self.osd_state[n] & flip & state::UP != 0 {
                self.osd_info[n].down_at = self.epoch;
                self.osd_xinfo[n].down_stamp = self.modified;
            }
            if self.osd_state[n] & flip & state::EXISTS != 0 {
                self.erase_osd(*osd);
            } else {
                self.osd_state[n] ^= flip;
            }
        }
    }

    /// The OSD leaves the cluster: nothing of it remains.
    fn erase_osd(&mut self, osd: OsdId) {
        let n = slot(osd);
        self.osd_uuid[n] = Fsid::default();
        self.osd_info[n] = OsdInfo::default();
        self.osd_xinfo[n] = OsdXInfo::default();
        self.set_primary_affinity(osd, crush::ONE);
        for addrs in [&mut self.client_addrs, &mut self.cluster_addrs, &mut self.hb_back_addrs, &mut self.hb_front_addrs] {
            addrs[n] = EntityAddrVec::default();
        }
        self.osd_state[n] = 0;
    }

    fn apply_up(&mut self, inc: &Incremental) {
        for (osd, addrs) in &inc.new_up_client {
            let n = slot(*osd);
            self.osd_state[n] |= state::EXISTS | state::UP;
            self.osd_state[n] &= !state::STOP;
            self.client_addrs[n] = addrs.clone();
            self.hb_back_addrs[n] = inc.new_hb_back_up.get(osd).cloned().unwrap_or_default();
            self.hb_front_addrs[n] = inc.new_hb_front_up.get(osd).cloned().unwrap_or_default();
            self.osd_info[n].up_from = self.epoch;
        }
        for (osd, addrs) in &inc.new_up_cluster {
            self.cluster_addrs[slot(*osd)] = addrs.clone();
        }
    }

    fn apply_osd_facts(&mut self, inc: &Incremental) {
        for (osd, epoch) in &inc.new_up_thru {
            self.osd_info[slot(*osd)].up_thru = *epoch;
        }
        for (osd, (begin, end)) in &inc.new_last_clean_interval {
            let info = &mut self.osd_info[slot(*osd)];
            (info.last_clean_begin, info.last_clean_end) = (*begin, *end);
        }
        for (osd, epoch) in &inc.new_lost {
            self.osd_info[slot(*osd)].lost_at = *epoch;
        }
        for (osd, xinfo) in &inc.new_xinfo {
            self.osd_xinfo[slot(*osd)] = *xinfo;
        }
        for (osd, uuid) in &inc.new_uuid {
            self.osd_uuid[slot(*osd)] = *uuid;
        }
    }

    /// Exceptions from placement, and from who may connect.
    fn apply_exceptions(&mut self, inc: &Incremental) {
        for (pg, osds) in &inc.new_pg_temp {
            set_or_remove(&mut self.pg_temp, pg, osds, osds.is_empty());
        }
        for (pg, osd) in &inc.new_primary_temp {
            set_or_remove(&mut self.primary_temp, pg, osd, *osd == -1);
        }
        self.pg_upmap.extend(inc.new_pg_upmap.clone());
        self.pg_upmap.retain(|pg, _| !inc.old_pg_upmap.contains(pg));
        self.pg_upmap_items.extend(inc.new_pg_upmap_items.clone());
        self.pg_upmap_items.retain(|pg, _| !inc.old_pg_upmap_items.contains(pg));
        for (addr, until) in &inc.new_blocklist {
            // An entry that is there keeps its end.
            self.blocklist.entry(*addr).or_insert(*until);
        }
        for addr in &inc.old_blocklist {
            self.blocklist.remove(addr);
        }
        for (range, until) in &inc.new_range_blocklist {
            self.range_blocklist.entry(*range).or_insert(*until);
        }
        for range in &inc.old_range_blocklist {
            self.range_blocklist.remove(range);
        }
    }

    fn apply_settings(&mut self, inc: &Incremental) {
        if inc.new_flags >= 0 {
            self.flags = inc.new_flags.cast_unsigned();
        }
        for (when, new) in
            [(&mut self.last_up_change, inc.new_last_up_change), (&mut self.last_in_change, inc.new_last_in_change)]
        {
            if new != UTime::ZERO {
                *when = new;
            }
        }
        for name in &inc.old_erasure_code_profiles {
            self.erasure_code_profiles.remove(name);
        }
        self.erasure_code_profiles.extend(inc.new_erasure_code_profiles.clone());
        for (node, bits) in &inc.new_crush_node_flags {
            set_or_remove(&mut self.crush_node_flags, node, bits, *bits == 0);
        }
        for (class, bits) in &inc.new_device_class_flags {
            set_or_remove(&mut self.device_class_flags, class, bits, *bits == 0);
        }
        self.cluster_snapshot.clone_from(&inc.cluster_snapshot);
        self.cluster_snapshot_epoch = if inc.cluster_snapshot.is_empty() { 0 } else { inc.epoch };
        for (ratio, new) in [
            (&mut self.nearfull_ratio, inc.new_nearfull_ratio),
            (&mut self.full_ratio, inc.new_full_ratio),
            (&mut self.backfillfull_ratio, inc.new_backfillfull_ratio),
        ] {
            if new >= 0.0 {
                *ratio = new;
            }
        }
        if (1..FIRST_NO_RELEASE).contains(&inc.new_require_min_compat_client) {
            self.require_min_compat_client = inc.new_require_min_compat_client;
        }
        if inc.new_require_osd_release < FIRST_NO_RELEASE {
            self.require_osd_release = inc.new_require_osd_release;
            if self.require_osd_release >= LUMINOUS {
                self.flags &= !flags::LEGACY_REQUIRE_FLAGS;
                self.flags |= flags::RECOVERY_DELETES;
            }
            if self.require_osd_release >= NAUTILUS {
                self.flags |= flags::PGLOG_HARDLIMIT;
            }
        }
        // It never falls.
        self.level = self.level.max(inc.new_level.unwrap_or_default());
        if let Some(new) = inc.new_stretch_mode.filter(|s| s.change_stretch_mode) {
            self.stretch_mode = Some(StretchMode {
                stretch_mode_enabled: new.stretch_mode_enabled,
                stretch_bucket_count: new.new_stretch_bucket_count,
                degraded_stretch_mode: new.new_degraded_stretch_mode,
                recovering_stretch_mode: new.new_recovering_stretch_mode,
                stretch_mode_bucket: new.new_stretch_mode_bucket,
            });
        }
    }
}

fn set_or_remove<K: Ord + Clone, V: Clone>(map: &mut BTreeMap<K, V>, key: &K, value: &V, remove: bool) {
    if remove {
        map.remove(key);
    } else {
        map.insert(key.clone(), value.clone());
    }
}
