//! Changes to pools, for commands and for the pool operations of librados.

use crate::context::Env;
use crate::effective;
use crate::state::State;
use denc::Decode;
use grammar::{Refusal, refuse};
use maps::autoscale_mode as mode;
use maps::{Incremental, Layout, Layouts, OptValue, OsdMap, Pool, PoolSnap, opts, pool_flags, pool_type};
use node::Now;
use std::sync::Arc;
use types::{Epoch, Feature, PoolId, SnapId, UTime};

/// Longest name of a pool or of a pool's snapshot, in bytes. Ceph has no bound of its own.
const NAME: usize = 4096;
/// Most copies of a pool, as in Ceph.
const MOST_COPIES: u32 = 10;

/// Facts that a change of a pool may read.
pub struct Ctx<'a> {
    /// The state that the change builds on.
    pub state: &'a State,
    /// This monitor.
    pub env: &'a Env,
    /// The time.
    pub now: Now,
}

/// Wishes for a new pool. The options give what is left out.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The pool's name.
    pub name: String,
    /// Number of placement groups.
    pub pg_num: Option<u32>,
    /// Number of placement groups that are placed differently.
    pub pgp_num: Option<u32>,
    /// Number of its CRUSH rule.
    pub rule: Option<u32>,
    /// Number of copies.
    pub size: Option<u32>,
    /// Number of objects that are expected; a hint that is only kept.
    pub expected_num_objects: u64,
    /// Bounds of the number of placement groups, and expected sizes.
    pub opts: Vec<(i32, OptValue)>,
    /// True if the pool will be large.
    pub bulk: bool,
    /// True if its number of groups changes by itself: [`mode`].
    pub autoscale: Option<u8>,
    /// The code, for a pool of shards. Number of copies does not count then, and the rule must be named.
    pub shards: Option<Shards>,
}

/// Parts that a new pool of shards is made by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shards {
    /// The name of its profile.
    pub profile: String,
    /// Layout of its objects.
    pub layout: Layout,
    /// Parities of an object (m), from 1 on.
    pub parities: u8,
    /// Bytes of a row, as clients see it.
    pub stripe_width: u32,
    /// Members that a group needs to serve.
    pub min_size: u8,
}

impl Ctx<'_> {
    fn number(&self, name: &str) -> f64 {
        effective::monitor_number(self.state, self.env, name)
    }

    fn flag(&self, name: &str) -> bool {
        effective::monitor_flag(self.state, self.env, name)
    }

    /// Gives a pool to edit, with all that the increment already changes.
    pub fn edit<'i>(&self, inc: &'i mut Incremental, pool: PoolId) -> Result<&'i mut Pool, Refusal> {
        let Some(current) = self.state.osdmap.pools.get(&pool) else { refuse!(ENOENT, "there is no pool {pool}") };
        Ok(inc.new_pools.entry(pool).or_insert_with(|| current.clone()))
    }

    /// Makes a pool. Gives its number, or that of the pool that already has the name.
    pub fn create(&self, inc: &mut Incremental, wanted: &Wanted) -> Result<PoolId, Refusal> {
        if let Some(existing) = self.state.pool_id(&wanted.name) {
            return Ok(existing);
        }
        check_name(&wanted.name)?;
        let shards = wanted.shards.as_ref();
        let (kind, size) = match shards {
            Some(shards) => (pool_type::ERASURE, u32::from(shards.layout.data) + u32::from(shards.parities)),
            None => {
                let size = wanted.size.unwrap_or(self.number("osd_pool_default_size") as u32).max(1);
                self.check_size(size)?;
                (pool_type::REPLICATED, size)
            }
        };
        let pg_num = wanted.pg_num.filter(|n| *n > 0).unwrap_or(self.number("osd_pool_default_pg_num") as u32).max(1);
        let default_pgp = self.number("osd_pool_default_pgp_num") as u32;
        let pgp_num =
            wanted.pgp_num.filter(|n| *n > 0).unwrap_or(if default_pgp == 0 { pg_num } else { default_pgp.min(pg_num) });
        if pgp_num > pg_num {
            refuse!(ERANGE, "'pgp_num' must be greater than 0 and lower or equal than 'pg_num', which in this case is {pg_num}");
        }
        self.check_pg_num(None, pg_num, size)?;
        let rule = match (shards, wanted.rule) {
            (Some(_), Some(rule)) => rule as u8,
            (Some(_), None) => refuse!(EINVAL, "a pool of shards needs a rule"),
            (None, rule) => self.rule(rule, size)?,
        };
        let crush = changed_crush(&self.state.osdmap, inc)?;
        self.check_rule(&crush, rule, kind, size)?;
        if !can_bear_groups(&self.state.osdmap) {
            refuse!(EAGAIN, "no OSD is up and in, so there is nobody to hold the pool's placement groups yet");
        }
        let id = PoolId::from(self.state.osdmap.pool_max).max(0) + 1;
        let pool = Pool {
            type_: kind,
            size: size as u8,
            min_size: shards.map_or_else(|| self.min_size(size), |shards| shards.min_size),
            stripe_width: shards.map_or(0, |shards| shards.stripe_width),
            erasure_code_profile: shards.map_or_else(String::new, |shards| shards.profile.clone()),
            crush_rule: rule,
            object_hash: 2,
            pg_num,
            pgp_num,
            pg_num_target: pg_num,
            pgp_num_target: pgp_num,
            pg_num_pending: pg_num,
            expected_num_objects: wanted.expected_num_objects,
            cache_target_dirty_ratio_micro: 400_000,
            cache_target_dirty_high_ratio_micro: 600_000,
            cache_target_full_ratio_micro: 800_000,
            create_time: crate::osds::create_time(&self.state.osdmap, self.now.wall),
            pg_autoscale_mode: wanted.autoscale.unwrap_or_else(|| self.autoscale_mode()),
            flags: self.default_flags(wanted.bulk),
            opts: wanted.opts.iter().cloned().collect(),
            last_change: inc.epoch,
            ..Pool::default()
        };
        inc.new_pool_max = id;
        inc.new_pools.insert(id, pool);
        inc.new_pool_names.insert(id, wanted.name.clone());
        if let Some(shards) = shards {
            inc.new_layouts.insert(id, Layouts::one(shards.layout.clone()));
        }
        Ok(id)
    }

    /// Returns whether the number of groups of a new pool changes by itself.
    fn autoscale_mode(&self) -> u8 {
        mode::parse(&effective::of_monitor(self.state, self.env, "osd_pool_default_pg_autoscale_mode")).unwrap_or(mode::ON)
    }

    /// Flags of a new pool. OSDs make groups that they miss only while the pool is being created.
    fn default_flags(&self, bulk: bool) -> u64 {
        let mut flags = pool_flags::CREATING;
        for (option, bit) in [
            ("osd_pool_default_flag_hashpspool", pool_flags::HASHPSPOOL),
            ("osd_pool_default_flag_nodelete", pool_flags::NODELETE),
            ("osd_pool_default_flag_nopgchange", pool_flags::NOPGCHANGE),
            ("osd_pool_default_flag_nosizechange", pool_flags::NOSIZECHANGE),
        ] {
            if self.flag(option) {
                flags |= bit;
            }
        }
        if bulk { flags | pool_flags::BULK } else { flags }
    }

    /// Least number of copies with which a pool of this size serves, unless somebody sets another.
    fn min_size(&self, size: u32) -> u8 {
        let option = self.number("osd_pool_default_min_size") as u32;
        (if option > 0 { option.min(size) } else { size - size / 2 }) as u8
    }

    /// Refuses numbers of copies that no pool may have. Ceph's bounds.
    fn check_size(&self, size: u32) -> Result<(), Refusal> {
        if !(1..=MOST_COPIES).contains(&size) {
            refuse!(EINVAL, "pool size must be between 1 and {MOST_COPIES}");
        }
        if size == 1 && !self.flag("mon_allow_pool_size_one") {
            refuse!(EPERM, "configuring pool size as 1 is disabled by default.");
        }
        Ok(())
    }

    /// Refuses a change of the number of copies of pools that may have no other.
    pub fn check_may_resize(&self, pool: PoolId) -> Result<(), Refusal> {
        let Some(p) = self.state.osdmap.pools.get(&pool) else { refuse!(ENOENT, "there is no pool {pool}") };
        if p.has_flag(pool_flags::NOSIZECHANGE) {
            refuse!(EPERM, "pool size change is disabled; you must unset nosizechange flag for the pool first");
        }
        if p.is_erasure() {
            refuse!(EOPNOTSUPP, "can not change the size of an erasure-coded pool");
        }
        Ok(())
    }

    /// Changes the number of copies of a pool, and with it the least number that serves. That begins a new interval of
    /// each group: its members copy what they lack. `sure`: the asker knows that one copy protects nothing.
    pub fn set_size(&self, inc: &mut Incremental, pool: PoolId, size: u32, sure: bool) -> Result<(), Refusal> {
        let min_size = self.min_size(size.clamp(1, MOST_COPIES));
        self.check_may_resize(pool)?;
        let p = self.edit(inc, pool)?;
        self.check_size(size)?;
        if size == 1 && !sure {
            refuse!(
                EPERM,
                "WARNING: setting pool size 1 could lead to data loss without recovery. If you are *ABSOLUTELY CERTAIN* that is what you want, pass the flag --yes-i-really-mean-it."
            );
        }
        self.check_rule(&self.state.osdmap.crush, p.crush_rule, p.type_, size)?;
        if size > u32::from(p.size) {
            self.check_pg_num(Some(pool), p.pg_num, size)?;
        }
        p.size = size as u8;
        p.min_size = min_size;
        Ok(())
    }

    /// Changes the least number of copies, or shards, with which a pool serves. Fewer shards than there are data shards
    /// give no object.
    pub fn set_min_size(&self, inc: &mut Incremental, pool: PoolId, min_size: u32) -> Result<(), Refusal> {
        let least = self.state.osdmap.layout(pool).map_or(1, |layout| u32::from(layout.data));
        let p = self.edit(inc, pool)?;
        if !(least..=u32::from(p.size)).contains(&min_size) {
            refuse!(EINVAL, "pool min_size must be between {least} and size, which is set to {}", p.size);
        }
        p.min_size = min_size as u8;
        Ok(())
    }

    /// Refuses a rule that is not meant for this many copies. One that is and finds fewer places is allowed; health
    /// says so.
    pub fn check_rule(&self, crush: &crush::Map, rule: u8, kind: u8, size: u32) -> Result<(), Refusal> {
        let Some(rule) = crush.rule(u32::from(rule)).filter(|r| r.mask.kind == kind) else {
            refuse!(EINVAL, "crush rule {rule} type does not match pool");
        };
        if size < u32::from(rule.mask.min_size) {
            refuse!(EINVAL, "pool size is smaller than the crush rule min size");
        }
        if size > u32::from(rule.mask.max_size) {
            refuse!(EINVAL, "pool size is bigger than the crush rule max size");
        }
        Ok(())
    }

    /// Chooses the rule of a new pool: the one that was asked for, or the first for replicated pools.
    fn rule(&self, wanted: Option<u32>, size: u32) -> Result<u8, Refusal> {
        let crush = &self.state.osdmap.crush;
        let fits = |n: u32| crush.rule(n).is_some_and(|r| r.mask.kind == pool_type::REPLICATED);
        if let Some(wanted) = wanted {
            if !fits(wanted) {
                refuse!(ENOENT, "there is no rule {wanted} for replicated pools");
            }
            return Ok(wanted as u8);
        }
        let default = self.number("osd_pool_default_crush_rule");
        if default >= 0.0 && fits(default as u32) {
            return Ok(default as u8);
        }
        let found = (0..crush.rules.len() as u32).find(|n| fits(*n));
        match found {
            Some(rule) => Ok(rule as u8),
            None => refuse!(ENOENT, "there is no rule for replicated pools of size {size}"),
        }
    }

    /// Refuses numbers of placement groups that no pool may have.
    fn check_pg_num_range(&self, pg_num: u32) -> Result<(), Refusal> {
        let most = self.number("mon_max_pool_pg_num") as u32;
        if pg_num == 0 || pg_num > most {
            refuse!(ERANGE, "pg_num {pg_num} is outside of 1...{most} (mon_max_pool_pg_num)");
        }
        Ok(())
    }

    /// Checks whether a pool may have so many placement groups. `pool`: the one that changes; none for a new one.
    pub(crate) fn check_pg_num(&self, pool: Option<PoolId>, pg_num: u32, size: u32) -> Result<(), Refusal> {
        self.check_pg_num_range(pg_num)?;
        let map = &self.state.osdmap;
        let others = map.pools.iter().filter(|(id, _)| Some(**id) != pool);
        let projected: u64 = others.map(|(_, p)| u64::from(p.pg_num_target.max(p.pg_num)) * u64::from(p.size)).sum();
        let projected = projected + u64::from(pg_num) * u64::from(size);
        let osds = map.osds().filter(|o| map.is_in(*o)).count().max(if map.max_osd == 0 { 3 } else { 1 }) as u64;
        let per_osd = self.number("mon_max_pg_per_osd") as u64;
        if per_osd > 0 && projected / osds > per_osd {
            refuse!(
                ERANGE,
                "{}pg_num {pg_num} would make {projected} placement groups in all; {osds} OSDs may have {} (mon_max_pg_per_osd is {per_osd})",
                pool.map_or(String::new(), |p| format!("pool {p}: ")),
                per_osd * osds
            );
        }
        Ok(())
    }

    /// Deletes a pool.
    pub fn delete(&self, inc: &mut Incremental, pool: PoolId) -> Result<(), Refusal> {
        let Some(settings) = self.state.osdmap.pools.get(&pool) else { refuse!(ENOENT, "there is no pool {pool}") };
        if !self.flag("mon_allow_pool_delete") {
            refuse!(EPERM, "pools may not be deleted: mon_allow_pool_delete is false");
        }
        if settings.has_flag(pool_flags::NODELETE) {
            refuse!(EPERM, "this pool may not be deleted: its nodelete flag is set");
        }
        if settings.tier_of >= 0 {
            refuse!(EBUSY, "this pool is a tier of pool {}", self.state.pool_name(settings.tier_of));
        }
        if !settings.tiers.is_empty() {
            refuse!(EBUSY, "this pool has tiers: `osd tier remove` them first");
        }
        inc.new_pools.remove(&pool);
        inc.old_pools.insert(pool);
        let map = &self.state.osdmap;
        for pg in map.pg_temp.keys().filter(|pg| pg.pool == pool) {
            inc.new_pg_temp.insert(*pg, Vec::new());
        }
        for pg in map.primary_temp.keys().filter(|pg| pg.pool == pool) {
            inc.new_primary_temp.insert(*pg, -1);
        }
        inc.old_pg_upmap.extend(map.pg_upmap.keys().filter(|pg| pg.pool == pool));
        inc.old_pg_upmap_items.extend(map.pg_upmap_items.keys().filter(|pg| pg.pool == pool));
        Ok(())
    }

    /// Makes a snapshot of a pool. False if one of that name exists.
    pub fn make_snap(&self, inc: &mut Incremental, pool: PoolId, name: &str) -> Result<bool, Refusal> {
        let (epoch, now) = (inc.epoch, self.now.wall);
        let p = self.edit(inc, pool)?;
        if p.is_unmanaged_snaps_mode() {
            refuse!(EINVAL, "pool {} is in unmanaged snaps mode", self.state.pool_name(pool));
        }
        if name.len() > NAME {
            refuse!(EINVAL, "'{name}' is no name for a snapshot");
        }
        if p.snap_by_name(name).is_some() {
            inc.new_pools.remove(&pool);
            return Ok(false);
        }
        let id = next_snap(p, epoch);
        p.flags |= pool_flags::POOL_SNAPS;
        p.snaps.insert(id, PoolSnap { snapid: SnapId(id), stamp: now, name: name.into() });
        Ok(true)
    }

    /// Removes a snapshot of a pool. False if there is none of that name.
    pub fn remove_snap(&self, inc: &mut Incremental, pool: PoolId, name: &str) -> Result<bool, Refusal> {
        let epoch = inc.epoch;
        let p = self.edit(inc, pool)?;
        if p.is_unmanaged_snaps_mode() {
            refuse!(EINVAL, "pool {} is in unmanaged snaps mode", self.state.pool_name(pool));
        }
        let Some(id) = p.snap_by_name(name).map(|s| s.snapid.0) else {
            inc.new_pools.remove(&pool);
            return Ok(false);
        };
        p.snaps.remove(&id);
        p.snap_seq += 1;
        p.snap_epoch = epoch;
        inc.new_removed_snaps.entry(pool).or_default().insert(id, 1);
        Ok(true)
    }

    /// Gives out the number of a new snapshot that a client manages.
    pub fn make_unmanaged_snap(&self, inc: &mut Incremental, pool: PoolId) -> Result<u64, Refusal> {
        let epoch = inc.epoch;
        let p = self.edit(inc, pool)?;
        if p.is_pool_snaps_mode() {
            refuse!(EINVAL, "pool {} has snapshots of its own", self.state.pool_name(pool));
        }
        p.flags |= pool_flags::SELFMANAGED_SNAPS;
        // Number 1 is never given out: clients of old releases take it for removed.
        p.snap_seq = p.snap_seq.max(1);
        Ok(next_snap(p, epoch))
    }

    /// Removes a snapshot that a client manages. Removing it twice does no harm. A pool that never had such snapshots
    /// refuses it with EOPNOTSUPP, as in Ceph: ENOENT tells `rbd` that the snapshot is gone already, and its image may
    /// be a copy from another pool.
    pub fn remove_unmanaged_snap(&self, inc: &mut Incremental, pool: PoolId, snap: u64) -> Result<(), Refusal> {
        let epoch = inc.epoch;
        let p = self.edit(inc, pool)?;
        if p.is_pool_snaps_mode() {
            refuse!(EINVAL, "pool {} has snapshots of its own", self.state.pool_name(pool));
        }
        if !p.is_unmanaged_snaps_mode() {
            refuse!(EOPNOTSUPP, "no client makes snapshots in pool {}", self.state.pool_name(pool));
        }
        if snap == 0 || snap > p.snap_seq {
            refuse!(ENOENT, "pool {} never had a snapshot {snap}", self.state.pool_name(pool));
        }
        if self.state.osdmap.in_removed_snaps_queue(pool, snap) {
            inc.new_pools.remove(&pool);
            return Ok(());
        }
        // The sequence rises, so that clients whose contexts name the snapshot are seen to be behind.
        p.snap_seq += 1;
        p.snap_epoch = epoch;
        inc.new_removed_snaps.entry(pool).or_default().insert(snap, 1);
        Ok(())
    }

    /// Changes how many placement groups a pool has: more at once, fewer one by one, in the time that it takes.
    pub fn set_pg_num(&self, inc: &mut Incremental, pool: PoolId, pg_num: u32) -> Result<(), Refusal> {
        let epoch = inc.epoch;
        let p = self.edit(inc, pool)?;
        if pg_num == p.pg_num && pg_num == p.pg_num_target {
            return Ok(());
        }
        if p.has_flag(pool_flags::NOPGCHANGE) {
            refuse!(EPERM, "the number of this pool's groups may not change: its nopgchange flag is set");
        }
        if pg_num < p.pg_num {
            let level = self.state.osdmap.level;
            if !level.has(Feature::Merges) {
                refuse!(
                    EPERM,
                    "placement groups are merged from level {} on, and the cluster has level {level}",
                    Feature::Merges.level()
                );
            }
            return aim_lower(p, pg_num);
        }
        self.check_pg_num_range(pg_num)?;
        let factor = self.number("mon_osd_max_split_count").max(1.0) as u32;
        if pg_num > p.pg_num.saturating_mul(factor) {
            refuse!(E2BIG, "pg_num {pg_num} splits each group into more than {factor}; go there in steps");
        }
        self.check_pg_num(Some(pool), pg_num, u32::from(p.size))?;
        if p.pgp_num_target == p.pg_num_target {
            p.pgp_num_target = pg_num;
        }
        p.pg_num_target = pg_num;
        if p.pg_num_pending < p.pg_num {
            // Two groups are about to be merged: not any more.
            announce(p, p.pg_num, epoch);
        }
        split_to_target(p, epoch);
        Ok(())
    }
}

/// Returns the CRUSH map as a change leaves it.
pub fn changed_crush(map: &OsdMap, inc: &Incremental) -> Result<Arc<crush::Map>, Refusal> {
    if inc.crush.is_empty() {
        return Ok(map.crush.clone());
    }
    match crush::Map::from_bytes(&inc.crush) {
        Ok(crush) => Ok(Arc::new(crush)),
        Err(why) => refuse!(EINVAL, "the changed CRUSH map cannot be read: {why}"),
    }
}

/// Sets a number of groups below the present one as what the pool is to have. The leader merges groups one by one
/// (`manager::merging`).
fn aim_lower(p: &mut Pool, pg_num: u32) -> Result<(), Refusal> {
    if pg_num == 0 {
        refuse!(ERANGE, "pg_num 0 is not allowed: a pool has at least one placement group");
    }
    if let Some(OptValue::Int(least)) = p.opts.get(&opts::PG_NUM_MIN)
        && i64::from(pg_num) < *least
    {
        refuse!(EINVAL, "specified pg_num {pg_num} < pg_num_min {least}");
    }
    p.pg_num_target = pg_num;
    // Groups that become one lie on the same OSDs before.
    p.pgp_num_target = p.pgp_num_target.min(pg_num);
    Ok(())
}

/// Sets how many groups a pool is about to have: one less than now, so that two are made ready to be merged, or as many
/// as now, so that they serve again.
pub fn announce(p: &mut Pool, pending: u32, epoch: Epoch) {
    p.pg_num_pending = pending;
    // Clients that do not know the field send again what they sent; others see a new interval of both groups.
    p.last_force_op_resend_prenautilus = epoch;
    p.last_force_op_resend_preluminous = epoch;
}

/// Splits the groups of a pool as far as its targets say. Not before its first groups are there: nobody could tell a
/// group that is still to be made from one that is still to be split off.
pub fn split_to_target(p: &mut Pool, epoch: Epoch) {
    if p.has_flag(pool_flags::CREATING) || p.pg_num_target <= p.pg_num {
        return;
    }
    p.pg_num = p.pg_num_target;
    p.pg_num_pending = p.pg_num_target;
    // Clients send again what they sent by the old number.
    p.last_force_op_resend_prenautilus = epoch;
    p.last_force_op_resend_preluminous = epoch;
}

/// Checks the name of a new pool, as Ceph does: anything but nothing. (Its bound is ours.)
pub fn check_name(name: &str) -> Result<(), Refusal> {
    if name.is_empty() || name.len() > NAME || name.contains('\0') {
        refuse!(EINVAL, "'{name}' is no name for a pool");
    }
    Ok(())
}

fn next_snap(pool: &mut Pool, epoch: Epoch) -> u64 {
    pool.snap_seq += 1;
    pool.snap_epoch = epoch;
    pool.snap_seq
}

/// Sets or clears a numbered option of a pool.
pub fn set_opt(pool: &mut Pool, key: i32, value: OptValue) {
    let unset = match &value {
        OptValue::Int(n) => *n == 0 && key != opts::RECOVERY_PRIORITY,
        OptValue::Double(x) => *x == 0.0,
        OptValue::Str(s) => s.is_empty() || s == "unset",
    };
    if unset {
        pool.opts.remove(&key);
    } else {
        pool.opts.insert(key, value);
    }
}

/// The time that is `secs` seconds after `now`.
pub fn after(now: UTime, secs: f64) -> UTime {
    now.plus(std::time::Duration::from_secs_f64(secs.clamp(0.0, 1e9)))
}

/// Returns true if there is an OSD on which groups of a new pool can begin.
fn can_bear_groups(map: &OsdMap) -> bool {
    map.osds().any(|osd| map.is_up(osd) && map.is_in(osd))
}
/// Returns why a setting of a pool is kept and does nothing, with its name; none for those that something reads.
pub fn without_effect(key: i32) -> Option<(&'static str, &'static str)> {
    const COMPRESSION: &str = "stored data is not compressed";
    const CHECKSUMS: &str = "the store has one kind of checksum for all data";
    const SHARES: &str = "work yields to clients by itself";
    Some(match key {
        maps::opts::COMPRESSION_MODE => ("compression_mode", COMPRESSION),
        maps::opts::COMPRESSION_ALGORITHM => ("compression_algorithm", COMPRESSION),
        maps::opts::COMPRESSION_REQUIRED_RATIO => ("compression_required_ratio", COMPRESSION),
        maps::opts::COMPRESSION_MAX_BLOB_SIZE => ("compression_max_blob_size", COMPRESSION),
        maps::opts::COMPRESSION_MIN_BLOB_SIZE => ("compression_min_blob_size", COMPRESSION),
        maps::opts::CSUM_TYPE => ("csum_type", CHECKSUMS),
        maps::opts::CSUM_MIN_BLOCK => ("csum_min_block", CHECKSUMS),
        maps::opts::CSUM_MAX_BLOCK => ("csum_max_block", CHECKSUMS),
        maps::opts::RECOVERY_OP_PRIORITY => ("recovery_op_priority", SHARES),
        maps::opts::SCRUB_PRIORITY => ("scrub_priority", SHARES),
        _ => return None,
    })
}
