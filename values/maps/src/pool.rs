//! A pool's settings (`pg_pool_t`) and what hangs on them.

use denc::{Decode, DecodeError, Encode, Reader, Result, envelope};
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, Epoch, Intervals, PgId, PoolId, SnapId, UTime, hash::stable_mod};

/// Values of [`Pool::type_`].
pub mod pool_type {
    /// Whole copies.
    pub const REPLICATED: u8 = 1;
    /// Erasure-coded shards.
    pub const ERASURE: u8 = 3;
}

/// Bits of [`Pool::flags`].
pub mod pool_flags {
    /// Groups of different pools do not lie on top of each other.
    pub const HASHPSPOOL: u64 = 1 << 0;
    /// Writes are refused: no space, or a quota was reached.
    pub const FULL: u64 = 1 << 1;
    /// An erasure-coded pool takes partial writes.
    pub const EC_OVERWRITES: u64 = 1 << 2;
    /// Clones may be missing: the pool is or was a cache tier.
    pub const INCOMPLETE_CLONES: u64 = 1 << 3;
    /// The pool must not be deleted.
    pub const NODELETE: u64 = 1 << 4;
    /// The number of groups must not change.
    pub const NOPGCHANGE: u64 = 1 << 5;
    /// The number of copies must not change.
    pub const NOSIZECHANGE: u64 = 1 << 6;
    /// Writes are advised not to stay in caches.
    pub const WRITE_FADVISE_DONTNEED: u64 = 1 << 7;
    /// No scrub.
    pub const NOSCRUB: u64 = 1 << 8;
    /// No deep scrub.
    pub const NODEEP_SCRUB: u64 = 1 << 9;
    /// Full because a quota was reached.
    pub const FULL_QUOTA: u64 = 1 << 10;
    /// Nearly full.
    pub const NEARFULL: u64 = 1 << 11;
    /// Too full to take moved data.
    pub const BACKFILLFULL: u64 = 1 << 12;
    /// Clients make the snapshots.
    pub const SELFMANAGED_SNAPS: u64 = 1 << 13;
    /// The monitor makes the snapshots.
    pub const POOL_SNAPS: u64 = 1 << 14;
    /// The pool's groups are being made.
    pub const CREATING: u64 = 1 << 15;
    /// Every operation is answered with EIO.
    pub const EIO: u64 = 1 << 16;
    /// Expected to be large: starts with many groups.
    pub const BULK: u64 = 1 << 17;

    /// Names of the bits as Ceph prints them.
    pub const NAMES: [(u64, &str); 18] = [
        (HASHPSPOOL, "hashpspool"),
        (FULL, "full"),
        (EC_OVERWRITES, "ec_overwrites"),
        (INCOMPLETE_CLONES, "incomplete_clones"),
        (NODELETE, "nodelete"),
        (NOPGCHANGE, "nopgchange"),
        (NOSIZECHANGE, "nosizechange"),
        (WRITE_FADVISE_DONTNEED, "write_fadvise_dontneed"),
        (NOSCRUB, "noscrub"),
        (NODEEP_SCRUB, "nodeep-scrub"),
        (FULL_QUOTA, "full_quota"),
        (NEARFULL, "nearfull"),
        (BACKFILLFULL, "backfillfull"),
        (SELFMANAGED_SNAPS, "selfmanaged_snaps"),
        (POOL_SNAPS, "pool_snaps"),
        (CREATING, "creating"),
        (EIO, "eio"),
        (BULK, "bulk"),
    ];
}

/// Values of [`Pool::cache_mode`] (cache tiers are read and written, not served).
pub mod cache_mode {
    /// No tier.
    pub const NONE: u8 = 0;
    /// Reads of objects that are there are served by the tier.
    pub const READONLY: u8 = 3;

    /// The mode's name in commands.
    pub fn name(mode: u8) -> &'static str {
        ["none", "writeback", "forward", "readonly", "readforward", "readproxy", "proxy"]
            .get(usize::from(mode))
            .copied()
            .unwrap_or("unknown")
    }
}

/// Values of [`Pool::pg_autoscale_mode`].
pub mod autoscale_mode {
    /// The number of groups stays.
    pub const OFF: u8 = 0;
    /// Health says what it should be.
    pub const WARN: u8 = 1;
    /// It is changed.
    pub const ON: u8 = 2;

    /// The number of a mode's name in commands.
    pub fn parse(name: &str) -> Option<u8> {
        [OFF, WARN, ON].into_iter().find(|mode| self::name(*mode) == name)
    }

    /// The mode's name in commands; `???` for an unknown one.
    pub fn name(mode: u8) -> &'static str {
        match mode {
            OFF => "off",
            WARN => "warn",
            ON => "on",
            _ => "???",
        }
    }
}

/// Numbers of the settings in [`Pool::opts`], with their names in commands.
pub mod opts {
    #![allow(missing_docs)]
    pub const SCRUB_MIN_INTERVAL: i32 = 0;
    pub const SCRUB_MAX_INTERVAL: i32 = 1;
    pub const DEEP_SCRUB_INTERVAL: i32 = 2;
    pub const RECOVERY_PRIORITY: i32 = 3;
    pub const RECOVERY_OP_PRIORITY: i32 = 4;
    pub const SCRUB_PRIORITY: i32 = 5;
    pub const COMPRESSION_MODE: i32 = 6;
    pub const COMPRESSION_ALGORITHM: i32 = 7;
    pub const COMPRESSION_REQUIRED_RATIO: i32 = 8;
    pub const COMPRESSION_MAX_BLOB_SIZE: i32 = 9;
    pub const COMPRESSION_MIN_BLOB_SIZE: i32 = 10;
    pub const CSUM_TYPE: i32 = 11;
    pub const CSUM_MAX_BLOCK: i32 = 12;
    pub const CSUM_MIN_BLOCK: i32 = 13;
    pub const FINGERPRINT_ALGORITHM: i32 = 14;
    pub const PG_NUM_MIN: i32 = 15;
    pub const TARGET_SIZE_BYTES: i32 = 16;
    pub const TARGET_SIZE_RATIO: i32 = 17;
    pub const PG_AUTOSCALE_BIAS: i32 = 18;
    pub const READ_LEASE_INTERVAL: i32 = 19;
    pub const DEDUP_TIER: i32 = 20;
    pub const DEDUP_CHUNK_ALGORITHM: i32 = 21;
    pub const DEDUP_CDC_CHUNK_SIZE: i32 = 22;
    pub const PG_NUM_MAX: i32 = 23;

    /// Number, name in commands, and kind of value: s text, i integer, d fraction.
    pub const ALL: [(i32, &str, char); 24] = [
        (SCRUB_MIN_INTERVAL, "scrub_min_interval", 'd'),
        (SCRUB_MAX_INTERVAL, "scrub_max_interval", 'd'),
        (DEEP_SCRUB_INTERVAL, "deep_scrub_interval", 'd'),
        (RECOVERY_PRIORITY, "recovery_priority", 'i'),
        (RECOVERY_OP_PRIORITY, "recovery_op_priority", 'i'),
        (SCRUB_PRIORITY, "scrub_priority", 'i'),
        (COMPRESSION_MODE, "compression_mode", 's'),
        (COMPRESSION_ALGORITHM, "compression_algorithm", 's'),
        (COMPRESSION_REQUIRED_RATIO, "compression_required_ratio", 'd'),
        (COMPRESSION_MAX_BLOB_SIZE, "compression_max_blob_size", 'i'),
        (COMPRESSION_MIN_BLOB_SIZE, "compression_min_blob_size", 'i'),
        (CSUM_TYPE, "csum_type", 'i'),
        (CSUM_MAX_BLOCK, "csum_max_block", 'i'),
        (CSUM_MIN_BLOCK, "csum_min_block", 'i'),
        (FINGERPRINT_ALGORITHM, "fingerprint_algorithm", 's'),
        (PG_NUM_MIN, "pg_num_min", 'i'),
        (TARGET_SIZE_BYTES, "target_size_bytes", 'i'),
        (TARGET_SIZE_RATIO, "target_size_ratio", 'd'),
        (PG_AUTOSCALE_BIAS, "pg_autoscale_bias", 'd'),
        (READ_LEASE_INTERVAL, "read_lease_interval", 'd'),
        (DEDUP_TIER, "dedup_tier", 'i'),
        (DEDUP_CHUNK_ALGORITHM, "dedup_chunk_algorithm", 's'),
        (DEDUP_CDC_CHUNK_SIZE, "dedup_cdc_chunk_size", 'i'),
        (PG_NUM_MAX, "pg_num_max", 'i'),
    ];
}

/// A snapshot of a whole pool (`pool_snap_info_t` v2/c2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolSnap {
    /// Its number.
    pub snapid: SnapId,
    /// Time when it was made.
    pub stamp: UTime,
    /// Its name.
    pub name: String,
}
denc::versioned!(PoolSnap, 2, 2 { snapid, stamp, name });

/// A value in [`Pool::opts`].
#[derive(Clone, Debug, PartialEq)]
pub enum OptValue {
    /// Type 0.
    Str(String),
    /// Type 1.
    Int(i64),
    /// Type 2.
    Double(f64),
}

/// Settings for records of hits on objects, for cache tiers.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum HitSetParams {
    /// Not at all.
    #[default]
    None,
    /// By their hashes.
    ExplicitHash,
    /// By their names.
    ExplicitObject,
    /// By a bloom filter.
    Bloom {
        /// False positives per million.
        fpp_micro: u32,
        /// Expected number of entries.
        target_size: u64,
        /// Seed of its hashes.
        seed: u64,
    },
}

/// State of the last merge of groups (`pg_merge_meta_t` v1/c1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeMeta {
    /// The group that goes.
    pub source_pgid: PgId,
    /// Epoch in which both were ready.
    pub ready_epoch: Epoch,
    /// Of the source.
    pub last_epoch_started: Epoch,
    /// Of the source.
    pub last_epoch_clean: Epoch,
    /// Last version of the group that goes.
    pub source_version: EVersion,
    /// Last version of the group that stays.
    pub target_version: EVersion,
}
denc::versioned!(MergeMeta, 1, 1 { source_pgid, ready_epoch, last_epoch_started, last_epoch_clean, source_version, target_version });

/// A pool's settings: `pg_pool_t` v29/c5 (v30 in stretch clusters).
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// [`pool_type`].
    pub type_: u8,
    /// Copies, or shards.
    pub size: u8,
    /// Number of the rule that places it.
    pub crush_rule: u8,
    /// Hash of names: 2 is rjenkins, the only one served.
    pub object_hash: u8,
    /// Number of groups.
    pub pg_num: u32,
    /// Number of groups that are placed differently.
    pub pgp_num: u32,
    /// Epoch of the last change.
    pub last_change: Epoch,
    /// Largest snapshot number given.
    pub snap_seq: u64,
    /// Epoch of the last snapshot.
    pub snap_epoch: Epoch,
    /// Snapshots of the pool.
    pub snaps: BTreeMap<u64, PoolSnap>,
    /// Removed snapshots (old clusters only; now in the queues of the map).
    pub removed_snaps: Intervals,
    /// Owner (historic).
    pub auid: u64,
    /// Bits of [`pool_flags`].
    pub flags: u64,
    /// Copies that must be there to serve.
    pub min_size: u8,
    /// Bytes it may hold; 0 is no limit.
    pub quota_max_bytes: u64,
    /// Objects it may hold; 0 is no limit.
    pub quota_max_objects: u64,
    /// Cache tiers in front.
    pub tiers: BTreeSet<u64>,
    /// Pool that it is a tier of; -1 is none.
    pub tier_of: PoolId,
    /// [`cache_mode`].
    pub cache_mode: u8,
    /// Place where reads go; -1 is here.
    pub read_tier: PoolId,
    /// Place where writes go; -1 is here.
    pub write_tier: PoolId,
    /// Free-form settings (historic).
    pub properties: BTreeMap<String, String>,
    /// For cache tiers.
    pub hit_set_params: HitSetParams,
    /// For cache tiers, in seconds.
    pub hit_set_period: u32,
    /// For cache tiers.
    pub hit_set_count: u32,
    /// Bytes of one stripe over all data shards; 0 if replicated.
    pub stripe_width: u32,
    /// For cache tiers.
    pub target_max_bytes: u64,
    /// For cache tiers.
    pub target_max_objects: u64,
    /// For cache tiers, per million.
    pub cache_target_dirty_ratio_micro: u32,
    /// For cache tiers, per million.
    pub cache_target_full_ratio_micro: u32,
    /// For cache tiers, in seconds.
    pub cache_min_flush_age: u32,
    /// For cache tiers, in seconds.
    pub cache_min_evict_age: u32,
    /// Name of the erasure code profile.
    pub erasure_code_profile: String,
    /// Epoch at which clients send again, for clients before release 12.
    pub last_force_op_resend_preluminous: Epoch,
    /// For cache tiers.
    pub min_read_recency_for_promote: i32,
    /// A hint for the store.
    pub expected_num_objects: u64,
    /// For cache tiers, per million.
    pub cache_target_dirty_high_ratio_micro: u32,
    /// For cache tiers.
    pub min_write_recency_for_promote: i32,
    /// For cache tiers: times in UTC.
    pub use_gmt_hitset: bool,
    /// Reads ask all shards and take the fastest.
    pub fast_read: bool,
    /// For cache tiers.
    pub hit_set_grade_decay_rate: i32,
    /// For cache tiers.
    pub hit_set_search_last_n: u32,
    /// Settings by number ([`opts`]).
    pub opts: BTreeMap<i32, OptValue>,
    /// Epoch at which clients send again, for clients before release 14.
    pub last_force_op_resend_prenautilus: Epoch,
    /// Its use: application → key → value.
    pub application_metadata: BTreeMap<String, BTreeMap<String, String>>,
    /// Time when it was made.
    pub create_time: UTime,
    /// Place where `pg_num` goes.
    pub pg_num_target: u32,
    /// Place where `pgp_num` goes.
    pub pgp_num_target: u32,
    /// Place where `pg_num` goes in the next step.
    pub pg_num_pending: u32,
    /// Epoch at which clients send again.
    pub last_force_op_resend: Epoch,
    /// 0 off, 1 warn, 2 on; 255 not said.
    pub pg_autoscale_mode: u8,
    /// The last merge.
    pub last_pg_merge_meta: MergeMeta,
    /// Stretch clusters: buckets that must take part in peering; 0 elsewhere.
    pub peering_crush_bucket_count: u32,
    /// Stretch clusters: buckets when healthy.
    pub peering_crush_bucket_target: u32,
    /// Stretch clusters: type of those buckets.
    pub peering_crush_bucket_barrier: u32,
    /// Stretch clusters: a bucket that must take part.
    pub peering_crush_mandatory_member: i32,
}

impl Default for Pool {
    /// Returns what `pg_pool_t` is before anything is set.
    fn default() -> Self {
        Self {
            type_: 0,
            size: 0,
            crush_rule: 0,
            object_hash: 0,
            pg_num: 0,
            pgp_num: 0,
            last_change: 0,
            snap_seq: 0,
            snap_epoch: 0,
            snaps: BTreeMap::new(),
            removed_snaps: Intervals::new(),
            auid: 0,
            flags: 0,
            min_size: 0,
            quota_max_bytes: 0,
            quota_max_objects: 0,
            tiers: BTreeSet::new(),
            tier_of: -1,
            cache_mode: cache_mode::NONE,
            read_tier: -1,
            write_tier: -1,
            properties: BTreeMap::new(),
            hit_set_params: HitSetParams::None,
            hit_set_period: 0,
            hit_set_count: 0,
            stripe_width: 0,
            target_max_bytes: 0,
            target_max_objects: 0,
            cache_target_dirty_ratio_micro: 0,
            cache_target_full_ratio_micro: 0,
            cache_min_flush_age: 0,
            cache_min_evict_age: 0,
            erasure_code_profile: String::new(),
            last_force_op_resend_preluminous: 0,
            min_read_recency_for_promote: 0,
            expected_num_objects: 0,
            cache_target_dirty_high_ratio_micro: 0,
            min_write_recency_for_promote: 0,
            use_gmt_hitset: true,
            fast_read: false,
            hit_set_grade_decay_rate: 0,
            hit_set_search_last_n: 0,
            opts: BTreeMap::new(),
            last_force_op_resend_prenautilus: 0,
            application_metadata: BTreeMap::new(),
            create_time: UTime::ZERO,
            pg_num_target: 0,
            pgp_num_target: 0,
            pg_num_pending: 0,
            last_force_op_resend: 0,
            pg_autoscale_mode: 255,
            last_pg_merge_meta: MergeMeta::default(),
            peering_crush_bucket_count: 0,
            peering_crush_bucket_target: 0,
            peering_crush_bucket_barrier: 0,
            peering_crush_mandatory_member: crush::NONE,
        }
    }
}

/// All ones below the highest bit that `n - 1` needs: the mask that folds a hash into `n` groups.
fn mask(n: u32) -> u32 {
    if n <= 1 { 0 } else { u32::MAX >> (n - 1).leading_zeros() }
}

impl Pool {
    /// Returns true if shards have fixed positions.
    pub fn is_erasure(&self) -> bool {
        self.type_ == pool_type::ERASURE
    }

    /// Returns true if the sets close up when an OSD is missing (replicated), or leave a hole.
    pub fn can_shift_osds(&self) -> bool {
        self.type_ == pool_type::REPLICATED
    }

    /// Returns true if a bit of [`pool_flags`] is set.
    pub fn has_flag(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// The group of an object's hash.
    pub fn fold(&self, hash: u32) -> u32 {
        stable_mod(hash, self.pg_num, mask(self.pg_num))
    }

    /// Returns what the group `seed` (folded or not) of pool `id` is placed by.
    pub fn placement_seed(&self, id: PoolId, seed: u32) -> u32 {
        let folded = stable_mod(seed, self.pgp_num, mask(self.pgp_num));
        let id = denc::low32(id.cast_unsigned());
        if self.has_flag(pool_flags::HASHPSPOOL) { crush::hash::hash2(folded, id) } else { folded.wrapping_add(id) }
    }

    /// The snapshot of the pool with this name.
    pub fn snap_by_name(&self, name: &str) -> Option<&PoolSnap> {
        self.snaps.values().find(|s| s.name == name)
    }

    /// Returns true if the monitor makes this pool's snapshots.
    pub fn is_pool_snaps_mode(&self) -> bool {
        self.has_flag(pool_flags::POOL_SNAPS)
    }

    /// Returns true if clients make this pool's snapshots.
    pub fn is_unmanaged_snaps_mode(&self) -> bool {
        self.has_flag(pool_flags::SELFMANAGED_SNAPS)
    }

    /// Sequence and snapshots (newest first) that a write by a client without a context of its own gets.
    pub fn snap_context(&self) -> (u64, Vec<u64>) {
        (self.snap_seq, self.snaps.keys().rev().copied().collect())
    }
}

impl Encode for OptValue {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Str(s) => {
                0i32.encode(out);
                s.encode(out);
            }
            Self::Int(n) => {
                1i32.encode(out);
                n.encode(out);
            }
            Self::Double(x) => {
                2i32.encode(out);
                x.encode(out);
            }
        }
    }
}

fn encode_opts(opts: &BTreeMap<i32, OptValue>, out: &mut Vec<u8>) {
    envelope(out, 2, 1, |out| opts.encode(out));
}

fn decode_opts(r: &mut Reader<'_>) -> Result<BTreeMap<i32, OptValue>> {
    let mut e = r.envelope("pool_opts_t", 2)?;
    let mut opts = BTreeMap::new();
    for _ in 0..e.body.count(12)? {
        let key: i32 = e.body.get()?;
        let value = match e.body.get::<i32>()? {
            0 => OptValue::Str(e.body.get()?),
            1 if e.version >= 2 => OptValue::Int(e.body.get()?),
            1 => OptValue::Int(e.body.get::<i32>()?.into()),
            2 => OptValue::Double(e.body.get()?),
            _ => return Err(DecodeError::Invalid("type of a pool option")),
        };
        opts.insert(key, value);
    }
    Ok(opts)
}

impl Encode for HitSetParams {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 1, 1, |out| match self {
            Self::None => out.push(0),
            Self::ExplicitHash => out.push(1),
            Self::ExplicitObject => out.push(2),
            Self::Bloom { fpp_micro, target_size, seed } => {
                out.push(3);
                envelope(out, 1, 1, |out| {
                    fpp_micro.encode(out);
                    target_size.encode(out);
                    seed.encode(out);
                });
            }
        });
    }
}

impl Decode for HitSetParams {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("HitSet::Params", 1)?;
        Ok(match e.body.u8()? {
            0 => Self::None,
            1 => Self::ExplicitHash,
            2 => Self::ExplicitObject,
            3 => {
                let mut b = e.body.envelope("BloomHitSet::Params", 1)?.body;
                Self::Bloom { fpp_micro: b.get()?, target_size: b.get()?, seed: b.get()? }
            }
            _ => return Err(DecodeError::Invalid("kind of a hit set")),
        })
    }
}

impl Encode for Pool {
    fn encode(&self, out: &mut Vec<u8>) {
        let stretch = self.peering_crush_bucket_count != 0;
        envelope(out, if stretch { 30 } else { 29 }, 5, |out| {
            self.encode_placement(out);
            self.encode_limits_and_tiering(out);
            encode_opts(&self.opts, out);
            self.last_force_op_resend_prenautilus.encode(out);
            self.application_metadata.encode(out);
            self.create_time.encode(out);
            self.pg_num_target.encode(out);
            self.pgp_num_target.encode(out);
            self.pg_num_pending.encode(out);
            // Two epochs that only one development release used.
            [0; 8].encode(out);
            self.last_force_op_resend.encode(out);
            self.pg_autoscale_mode.encode(out);
            self.last_pg_merge_meta.encode(out);
            if stretch {
                self.peering_crush_bucket_count.encode(out);
                self.peering_crush_bucket_target.encode(out);
                self.peering_crush_bucket_barrier.encode(out);
                self.peering_crush_mandatory_member.encode(out);
            }
        });
    }
}

impl Pool {
    fn encode_placement(&self, out: &mut Vec<u8>) {
        [self.type_, self.size, self.crush_rule, self.object_hash].encode(out);
        self.pg_num.encode(out);
        self.pgp_num.encode(out);
        // Groups bound to an OSD, long gone.
        [0; 8].encode(out);
        self.last_change.encode(out);
        self.snap_seq.encode(out);
        self.snap_epoch.encode(out);
        self.snaps.encode(out);
        self.removed_snaps.encode(out);
        self.auid.encode(out);
        self.flags.encode(out);
        // An interval of log replay, long gone.
        [0; 4].encode(out);
        self.min_size.encode(out);
    }

    fn encode_limits_and_tiering(&self, out: &mut Vec<u8>) {
        self.quota_max_bytes.encode(out);
        self.quota_max_objects.encode(out);
        self.tiers.encode(out);
        self.tier_of.encode(out);
        self.cache_mode.encode(out);
        self.read_tier.encode(out);
        self.write_tier.encode(out);
        self.properties.encode(out);
        self.hit_set_params.encode(out);
        self.hit_set_period.encode(out);
        self.hit_set_count.encode(out);
        self.stripe_width.encode(out);
        self.target_max_bytes.encode(out);
        self.target_max_objects.encode(out);
        self.cache_target_dirty_ratio_micro.encode(out);
        self.cache_target_full_ratio_micro.encode(out);
        self.cache_min_flush_age.encode(out);
        self.cache_min_evict_age.encode(out);
        self.erasure_code_profile.encode(out);
        self.last_force_op_resend_preluminous.encode(out);
        self.min_read_recency_for_promote.encode(out);
        self.expected_num_objects.encode(out);
        self.cache_target_dirty_high_ratio_micro.encode(out);
        self.min_write_recency_for_promote.encode(out);
        self.use_gmt_hitset.encode(out);
        self.fast_read.encode(out);
        self.hit_set_grade_decay_rate.encode(out);
        self.hit_set_search_last_n.encode(out);
    }

    fn decode_placement(&mut self, r: &mut Reader<'_>) -> Result<()> {
        [self.type_, self.size, self.crush_rule, self.object_hash] = r.get()?;
        self.pg_num = r.get()?;
        self.pgp_num = r.get()?;
        r.skip(8)?;
        self.last_change = r.get()?;
        self.snap_seq = r.get()?;
        self.snap_epoch = r.get()?;
        self.snaps = r.get()?;
        self.removed_snaps = r.get()?;
        self.auid = r.get()?;
        self.flags = r.get()?;
        r.skip(4)?;
        self.min_size = r.get()?;
        Ok(())
    }

    fn decode_limits_and_tiering(&mut self, r: &mut Reader<'_>) -> Result<()> {
        self.quota_max_bytes = r.get()?;
        self.quota_max_objects = r.get()?;
        self.tiers = r.get()?;
        self.tier_of = r.get()?;
        self.cache_mode = r.get()?;
        self.read_tier = r.get()?;
        self.write_tier = r.get()?;
        self.properties = r.get()?;
        self.hit_set_params = r.get()?;
        self.hit_set_period = r.get()?;
        self.hit_set_count = r.get()?;
        self.stripe_width = r.get()?;
        self.target_max_bytes = r.get()?;
        self.target_max_objects = r.get()?;
        self.cache_target_dirty_ratio_micro = r.get()?;
        self.cache_target_full_ratio_micro = r.get()?;
        self.cache_min_flush_age = r.get()?;
        self.cache_min_evict_age = r.get()?;
        self.erasure_code_profile = r.get()?;
        self.last_force_op_resend_preluminous = r.get()?;
        self.min_read_recency_for_promote = r.get()?;
        self.expected_num_objects = r.get()?;
        self.cache_target_dirty_high_ratio_micro = r.get()?;
        self.min_write_recency_for_promote = r.get()?;
        self.use_gmt_hitset = r.get()?;
        self.fast_read = r.get()?;
        self.hit_set_grade_decay_rate = r.get()?;
        self.hit_set_search_last_n = r.get()?;
        Ok(())
    }
}

impl Decode for Pool {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("pg_pool_t", 30)?;
        e.at_least("pg_pool_t", 29)?;
        let (b, mut pool) = (&mut e.body, Pool::default());
        pool.decode_placement(b)?;
        pool.decode_limits_and_tiering(b)?;
        pool.opts = decode_opts(b)?;
        pool.last_force_op_resend_prenautilus = b.get()?;
        pool.application_metadata = b.get()?;
        pool.create_time = b.get()?;
        pool.pg_num_target = b.get()?;
        pool.pgp_num_target = b.get()?;
        pool.pg_num_pending = b.get()?;
        b.skip(8)?;
        pool.last_force_op_resend = b.get()?;
        pool.pg_autoscale_mode = b.get()?;
        pool.last_pg_merge_meta = b.get()?;
        if e.version >= 30 {
            pool.peering_crush_bucket_count = b.get()?;
            pool.peering_crush_bucket_target = b.get()?;
            pool.peering_crush_bucket_barrier = b.get()?;
            pool.peering_crush_mandatory_member = b.get()?;
        }
        Ok(pool)
    }
}
