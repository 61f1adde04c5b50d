//! The options that exist here: types, defaults, meaning.
//!
//! The servers' options in this table are those that this program reads, and four that say where daemons listen
//! ([`without_effect`]). Options of clients are in it because clients take them from the configuration database. All
//! other options of Ceph (`settings`) are kept and shown as well, because tools set them.

use crate::config::Config;
use settings::Wrong;
pub use settings::{Kind, normalize};

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    /// The option's name.
    pub name: &'static str,
    /// The type of its value.
    pub kind: Kind,
    /// Audience of the option: `basic`, `advanced` or `dev`.
    pub level: &'static str,
    /// Its default, as text.
    pub default: &'static str,
    /// True if a change counts at once, without a restart.
    pub live: bool,
    /// Readers of the option: `mon`, `osd`, `mgr`, `client`, `common`.
    pub service: &'static str,
    /// Its effect, for `config help`.
    pub help: &'static str,
}

const fn opt(
    name: &'static str,
    kind: Kind,
    level: &'static str,
    default: &'static str,
    live: bool,
    service: &'static str,
    help: &'static str,
) -> Opt {
    Opt { name, kind, level, default, live, service, help }
}

use Kind::{Addr, Bool, Float, Int, Level, Secs, Size, Str, Uint, Uuid};

/// Returns what an option lacks that is set for somebody: `no effect` or `part of its effect`, and why. None for
/// options that those read who are meant.
pub fn lacks(name: &str, who: &str) -> Option<(&'static str, &'static str)> {
    match settings::effect_at(name, who) {
        settings::Effect::None(why) => Some(("no effect", why)),
        settings::Effect::Partly(why) => Some(("part of its effect", why)),
        settings::Effect::Used | settings::Effect::Clients => None,
    }
}

/// Returns why an option is kept and does nothing, wherever it is set; none for options that somebody reads.
pub fn without_effect(name: &str) -> Option<&'static str> {
    match settings::effect(name) {
        settings::Effect::None(why) => Some(why),
        settings::Effect::Used | settings::Effect::Clients | settings::Effect::Partly(_) => None,
    }
}

/// All options that are read here or by clients, by name.
pub(crate) const OPTIONS: &[Opt] = &[
    opt(
        "auth_allow_insecure_global_id_reclaim",
        Bool,
        "advanced",
        "false",
        true,
        "mon",
        "let clients take up their old number without a ticket",
    ),
    opt("auth_client_required", Str, "advanced", "cephx", false, "common", "authentication that clients demand of servers"),
    opt("auth_cluster_required", Str, "advanced", "cephx", false, "common", "authentication between daemons"),
    opt("auth_mon_ticket_ttl", Float, "advanced", "259200", true, "mon", "lifetime of authentication tickets, in seconds"),
    opt("auth_service_required", Str, "advanced", "cephx", false, "common", "authentication that servers demand of clients"),
    opt(
        "auth_service_ticket_ttl",
        Float,
        "advanced",
        "3600",
        true,
        "mon",
        "lifetime of services' tickets and of the keys behind them, in seconds",
    ),
    opt("client_mount_timeout", Secs, "advanced", "300", true, "client", "how long a client waits for its first map"),
    opt(
        "cluster_addr",
        Addr,
        "basic",
        "",
        false,
        "osd",
        "address for traffic between OSDs (without effect: `nacre up --cluster-bind` says it)",
    ),
    opt(
        "cluster_network",
        Str,
        "advanced",
        "",
        false,
        "osd",
        "network for traffic between OSDs (without effect: `nacre up --cluster-bind` says the address)",
    ),
    opt(
        "debug_mon",
        Level,
        "dev",
        "1/5",
        true,
        "mon",
        "level of the log of Ceph's monitors; those of this cluster do not go by it",
    ),
    opt("debug_ms", Level, "dev", "0/0", true, "common", "level of the messenger's log"),
    opt("debug_objecter", Level, "dev", "0/1", true, "client", "level of the client core's log"),
    opt("debug_osd", Level, "dev", "1/5", true, "osd", "level of the OSD's log, as in Ceph: above 10 is debug"),
    opt("debug_rados", Level, "dev", "0/5", true, "client", "level of librados' log"),
    opt("debug_rbd", Level, "dev", "0/5", true, "client", "level of librbd's log"),
    opt("fsid", Uuid, "basic", "00000000-0000-0000-0000-000000000000", false, "common", "the cluster's id"),
    opt("host", Str, "basic", "", false, "common", "name of this host"),
    opt("keyring", Str, "advanced", "", false, "common", "where keys are"),
    opt("log_file", Str, "basic", "", true, "common", "where the log goes"),
    opt("log_to_file", Bool, "basic", "true", true, "common", "write the log to a file"),
    opt("log_to_stderr", Bool, "basic", "false", true, "common", "write the log to standard error"),
    opt("mgr_stats_period", Int, "basic", "5", true, "mgr", "seconds between reports of daemons"),
    opt("mon_allow_erasure", Bool, "dev", "false", true, "mon", "let pools of shards be made, which are for trials"),
    opt("mon_allow_pool_delete", Bool, "advanced", "true", true, "mon", "let pools be deleted"),
    opt("mon_allow_pool_size_one", Bool, "advanced", "true", true, "mon", "let pools have one copy"),
    opt("mon_client_hunt_interval", Float, "advanced", "3", true, "client", "seconds before another monitor is tried"),
    opt("mon_client_ping_interval", Float, "advanced", "10", true, "client", "seconds between pings of the monitor"),
    opt(
        "mon_client_ping_timeout",
        Float,
        "advanced",
        "30",
        true,
        "client",
        "seconds without an answer before another monitor is tried",
    ),
    opt("mon_clock_drift_allowed", Float, "advanced", "0.05", true, "mon", "seconds that monitors' clocks may differ"),
    opt(
        "mon_data_avail_crit",
        Int,
        "advanced",
        "5",
        true,
        "mon",
        "percentage of free space below which the monitor's disk is an error",
    ),
    opt(
        "mon_data_avail_warn",
        Int,
        "advanced",
        "30",
        true,
        "mon",
        "percentage of free space below which the monitor's disk is warned about",
    ),
    opt("mon_host", Str, "basic", "", false, "common", "addresses of the monitors"),
    opt(
        "mon_level_raise_after",
        Float,
        "advanced",
        "3600",
        true,
        "mon",
        "seconds for which all daemons must have newer programs before the cluster's level is raised; 0: never by itself",
    ),
    opt(
        "mon_max_pg_per_osd",
        Uint,
        "advanced",
        "250",
        true,
        "mon",
        "placement groups per OSD beyond which no pool is made or split",
    ),
    opt("mon_max_pool_pg_num", Uint, "advanced", "65536", true, "mon", "most placement groups of one pool"),
    opt("mon_max_snap_prune_per_epoch", Uint, "advanced", "100", true, "mon", "removed snapshots that one map declares purged"),
    opt(
        "mon_osd_backfillfull_ratio",
        Float,
        "advanced",
        "0.9",
        false,
        "mon",
        "fill level above which an OSD takes no moved data",
    ),
    opt(
        "mon_osd_blocklist_default_expire",
        Float,
        "advanced",
        "3600",
        true,
        "mon",
        "seconds that a client stays on the blocklist",
    ),
    opt(
        "mon_osd_down_out_interval",
        Int,
        "advanced",
        "600",
        true,
        "mon",
        "seconds after which a down OSD is marked out; 0 for never",
    ),
    opt("mon_osd_full_ratio", Float, "advanced", "0.95", false, "mon", "fill level above which writes stop"),
    opt("mon_osd_max_split_count", Int, "advanced", "32", true, "mon", "factor by which placement groups may be split at once"),
    opt(
        "mon_osd_min_in_ratio",
        Float,
        "advanced",
        "0.75",
        true,
        "mon",
        "fraction of OSDs that are never marked out by themselves",
    ),
    opt("mon_osd_nearfull_ratio", Float, "advanced", "0.85", false, "mon", "fill level above which health warns"),
    opt("mon_osd_report_timeout", Int, "advanced", "20", true, "mon", "seconds of silence after which an OSD is marked down"),
    opt("mon_osd_warn_num_repaired", Uint, "advanced", "10", true, "mon", "repaired reads of an OSD above which health warns"),
    opt("mon_pg_stuck_threshold", Int, "advanced", "60", true, "mon", "seconds after which a group is stuck in its state"),
    opt("mon_pg_warn_min_per_osd", Uint, "advanced", "0", true, "mon", "placement groups per OSD below which health warns"),
    opt(
        "mon_replace_after",
        Float,
        "advanced",
        "600",
        true,
        "mon",
        "seconds after which a lost monitor is replaced on another host; 0: never",
    ),
    opt("mon_target_pg_per_osd", Uint, "advanced", "100", true, "mon", "placement groups per OSD that pools share out"),
    opt("mon_timecheck_interval", Float, "advanced", "300", true, "mon", "seconds between looks at monitors' clocks"),
    opt("mon_timecheck_skew_interval", Float, "advanced", "30", true, "mon", "the same while a clock is off"),
    opt("mon_warn_on_misplaced", Bool, "advanced", "false", true, "mon", "warn about copies at the wrong place"),
    opt(
        "mon_warn_on_osd_down_out_interval_zero",
        Bool,
        "advanced",
        "true",
        true,
        "mon",
        "warn if down OSDs are never marked out",
    ),
    opt("mon_warn_on_pool_no_app", Bool, "dev", "true", true, "mon", "warn about used pools that have no application"),
    opt("mon_warn_on_pool_no_redundancy", Bool, "advanced", "false", true, "mon", "warn about pools with one copy"),
    opt("mon_warn_on_too_few_osds", Bool, "advanced", "true", true, "mon", "warn about fewer OSDs than a new pool has copies"),
    opt(
        "mon_warn_pg_not_deep_scrubbed_ratio",
        Float,
        "advanced",
        "0.75",
        true,
        "mon",
        "part of osd_deep_scrub_interval that a deep scrub may be late",
    ),
    opt(
        "mon_warn_pg_not_scrubbed_ratio",
        Float,
        "advanced",
        "0.5",
        true,
        "mon",
        "part of osd_scrub_max_interval that a scrub may be late",
    ),
    opt("ms_bind_ipv4", Bool, "advanced", "true", false, "common", "bind IPv4 addresses"),
    opt("ms_bind_ipv6", Bool, "advanced", "false", false, "common", "bind IPv6 addresses"),
    opt("ms_client_mode", Str, "basic", "crc secure", false, "common", "frame protection that clients ask for"),
    opt("ms_cluster_mode", Str, "basic", "crc secure", false, "common", "frame protection between daemons"),
    opt("ms_mon_client_mode", Str, "basic", "secure crc", false, "common", "frame protection that clients ask monitors for"),
    opt("ms_mon_cluster_mode", Str, "basic", "secure crc", false, "mon", "frame protection between monitors"),
    opt("ms_mon_service_mode", Str, "basic", "secure crc", false, "mon", "frame protection that monitors allow"),
    opt("ms_service_mode", Str, "basic", "crc secure", false, "common", "frame protection that servers allow"),
    opt("objecter_inflight_op_bytes", Size, "advanced", "104857600", true, "client", "bytes that a client has in flight"),
    opt("objecter_inflight_ops", Uint, "advanced", "1024", true, "client", "operations that a client has in flight"),
    opt(
        "osd_crush_chooseleaf_type",
        Int,
        "dev",
        "0",
        false,
        "mon",
        "type over which the first rule spreads copies: 0 OSDs, 1 hosts",
    ),
    opt("osd_crush_update_on_start", Bool, "advanced", "true", false, "osd", "put an OSD into the CRUSH map when it boots"),
    opt("osd_deep_scrub_interval", Float, "advanced", "604800", true, "osd", "seconds between deep scrubs of a placement group"),
    opt(
        "osd_deep_scrub_large_omap_object_key_threshold",
        Uint,
        "advanced",
        "200000",
        true,
        "osd",
        "keys of an object's omap above which a deep scrub tells of it",
    ),
    opt(
        "osd_deep_scrub_large_omap_object_value_sum_threshold",
        Size,
        "advanced",
        "1073741824",
        true,
        "osd",
        "bytes of the values in an object's omap above which a deep scrub tells of it",
    ),
    opt("osd_defragment", Bool, "advanced", "true", true, "osd", "bring objects together that lie scattered on the disk"),
    opt("osd_disk_stuck_timeout", Float, "advanced", "15", true, "osd", "seconds of a silent disk after which its OSD goes down"),
    opt("osd_heartbeat_grace", Float, "advanced", "3", true, "osd", "seconds of silence after which an OSD is reported"),
    opt("osd_heartbeat_interval", Float, "dev", "0.5", true, "osd", "seconds between two heartbeats of an OSD"),
    opt("osd_max_backfills", Uint, "advanced", "1", true, "osd", "placement groups that an OSD backfills at once"),
    opt("osd_max_object_name_len", Uint, "advanced", "2048", true, "osd", "bytes of an object's name"),
    opt("osd_max_object_size", Size, "advanced", "134217728", true, "osd", "bytes of an object"),
    opt("osd_max_scrubs", Int, "advanced", "1", true, "osd", "scrubs of an OSD at once"),
    opt("osd_max_write_size", Size, "advanced", "90", true, "osd", "MiB of one write"),
    opt("osd_memory_target", Size, "basic", "4294967296", true, "osd", "most bytes of memory that an OSD takes"),
    opt("osd_memory_target_autotune", Bool, "advanced", "true", true, "osd", "let OSDs take less memory where there is less"),
    opt("osd_op_complaint_time", Float, "advanced", "30", true, "osd", "seconds after which an operation is slow"),
    opt("osd_pool_default_crush_rule", Int, "advanced", "-1", true, "mon", "rule of new pools; -1 for the first replicated one"),
    opt(
        "osd_pool_default_erasure_code_profile",
        Str,
        "advanced",
        "plugin=jerasure technique=reed_sol_van k=2 m=2",
        true,
        "mon",
        "words of new erasure code profiles that do not say otherwise",
    ),
    opt(
        "osd_pool_default_flag_hashpspool",
        Bool,
        "advanced",
        "true",
        true,
        "mon",
        "spread groups of different pools differently",
    ),
    opt("osd_pool_default_flag_nodelete", Bool, "advanced", "false", true, "mon", "new pools cannot be deleted"),
    opt("osd_pool_default_flag_nopgchange", Bool, "advanced", "false", true, "mon", "new pools cannot be split"),
    opt("osd_pool_default_flag_nosizechange", Bool, "advanced", "false", true, "mon", "the size of new pools cannot be changed"),
    opt("osd_pool_default_min_size", Uint, "advanced", "0", true, "mon", "copies needed to serve; 0 for size - size / 2"),
    opt(
        "osd_pool_default_pg_autoscale_mode",
        Str,
        "advanced",
        "on",
        true,
        "mon",
        "whether the number of groups of new pools changes by itself: on, warn, off",
    ),
    opt("osd_pool_default_pg_num", Uint, "advanced", "32", true, "mon", "placement groups of new pools"),
    opt("osd_pool_default_pgp_num", Uint, "advanced", "0", true, "mon", "placed groups of new pools; 0 for all"),
    opt("osd_pool_default_size", Uint, "advanced", "1", true, "mon", "copies in new pools"),
    opt("osd_pool_default_type", Str, "advanced", "replicated", true, "mon", "type of new pools"),
    opt(
        "osd_pool_erasure_code_stripe_unit",
        Size,
        "advanced",
        "4096",
        true,
        "mon",
        "bytes of a chunk that clients see of new erasure-coded pools whose profile names no stripe_unit",
    ),
    opt(
        "osd_recovery_max_active",
        Uint,
        "advanced",
        "0",
        true,
        "osd",
        "recoveries of an OSD at once; 0 for the default of its kind of disk",
    ),
    opt(
        "osd_recovery_sleep",
        Float,
        "advanced",
        "0",
        true,
        "osd",
        "seconds from one recovered object to the next, at least; 0 for that of the kind of disk",
    ),
    opt(
        "osd_recovery_sleep_hdd",
        Float,
        "advanced",
        "0",
        true,
        "osd",
        "the same for disks that turn; 0 leaves the pace to what clients feel",
    ),
    opt("osd_recovery_sleep_ssd", Float, "advanced", "0", true, "osd", "the same for other disks"),
    opt("osd_scrub_auto_repair", Bool, "advanced", "false", true, "osd", "repair what scrub finds"),
    opt("osd_scrub_begin_hour", Int, "advanced", "0", true, "osd", "first hour in which scrubs begin"),
    opt("osd_scrub_end_hour", Int, "advanced", "0", true, "osd", "hour in which scrubs end to begin"),
    opt("osd_scrub_load_threshold", Float, "advanced", "0.5", true, "osd", "load above which no scrub begins"),
    opt(
        "osd_scrub_max_interval",
        Float,
        "advanced",
        "604800",
        true,
        "osd",
        "seconds after which a scrub is due whatever the load",
    ),
    opt("osd_scrub_min_interval", Float, "advanced", "86400", true, "osd", "seconds between scrubs of a placement group"),
    opt("osd_scrub_sleep", Float, "advanced", "0", true, "osd", "seconds between the chunks of a scrub"),
    opt("osd_snap_trim_sleep", Float, "advanced", "0", true, "osd", "seconds between trimmed objects"),
    opt("public_addr", Addr, "basic", "", false, "common", "address for clients (without effect: `nacre up --bind` says it)"),
    opt(
        "public_network",
        Str,
        "advanced",
        "",
        false,
        "common",
        "network for clients (without effect: `nacre up --bind` says the address)",
    ),
    opt(
        "rados_mon_op_timeout",
        Secs,
        "advanced",
        "0",
        true,
        "client",
        "seconds after which a request to the monitors fails; 0 for never",
    ),
    opt("rados_osd_op_timeout", Secs, "advanced", "0", true, "client", "seconds after which an operation fails; 0 for never"),
    opt("rbd_balance_parent_reads", Bool, "advanced", "false", true, "client", "spread reads of parents over copies"),
    opt("rbd_balance_snap_reads", Bool, "advanced", "false", true, "client", "spread reads of snapshots over copies"),
    opt("rbd_blkin_trace_all", Bool, "advanced", "false", true, "client", "trace everything"),
    opt(
        "rbd_blocklist_expire_seconds",
        Uint,
        "advanced",
        "0",
        true,
        "client",
        "seconds that a dead lock owner is fenced; 0 for the default",
    ),
    opt("rbd_blocklist_on_break_lock", Bool, "advanced", "true", true, "client", "fence the owner of a lock that is broken"),
    opt("rbd_cache", Bool, "advanced", "true", true, "client", "cache in the client"),
    opt("rbd_cache_block_writes_upfront", Bool, "advanced", "false", true, "client", "hold writes while the cache is full"),
    opt("rbd_cache_max_dirty", Size, "advanced", "25165824", true, "client", "dirty bytes in the cache"),
    opt("rbd_cache_max_dirty_age", Float, "advanced", "1", true, "client", "seconds that dirty bytes stay in the cache"),
    opt("rbd_cache_max_dirty_object", Uint, "advanced", "0", true, "client", "dirty objects in the cache"),
    opt("rbd_cache_policy", Str, "advanced", "writearound", true, "client", "writethrough, writeback or writearound"),
    opt("rbd_cache_size", Size, "advanced", "33554432", true, "client", "bytes of the cache"),
    opt("rbd_cache_target_dirty", Size, "advanced", "16777216", true, "client", "dirty bytes from which on the cache is flushed"),
    opt("rbd_cache_writethrough_until_flush", Bool, "advanced", "true", true, "client", "write through until the guest flushes"),
    opt("rbd_clone_copy_on_read", Bool, "advanced", "false", true, "client", "copy what is read from a parent"),
    opt("rbd_compression_hint", Str, "basic", "none", true, "client", "hint for the store"),
    opt(
        "rbd_concurrent_management_ops",
        Uint,
        "advanced",
        "10",
        true,
        "client",
        "object operations of a management operation at once",
    ),
    opt(
        "rbd_config_pool_override_update_timestamp",
        Uint,
        "dev",
        "0",
        true,
        "client",
        "when options of a pool were last changed",
    ),
    opt("rbd_default_clone_format", Str, "advanced", "auto", true, "client", "1, 2 or auto"),
    opt("rbd_default_data_pool", Str, "advanced", "", true, "client", "pool for the data of new images"),
    opt(
        "rbd_default_features",
        Str,
        "advanced",
        "layering,exclusive-lock,object-map,fast-diff,deep-flatten",
        true,
        "client",
        "features of new images",
    ),
    opt("rbd_default_map_options", Str, "advanced", "", true, "client", "options for mapping images"),
    opt("rbd_default_order", Uint, "advanced", "22", true, "client", "size of objects of new images as a power of two"),
    opt("rbd_default_pool", Str, "advanced", "rbd", true, "client", "pool if none is named"),
    opt("rbd_default_stripe_count", Uint, "advanced", "0", true, "client", "objects in a stripe"),
    opt("rbd_default_stripe_unit", Size, "advanced", "0", true, "client", "bytes of a stripe's unit"),
    opt("rbd_enable_alloc_hint", Bool, "advanced", "true", true, "client", "tell OSDs how large objects get"),
    opt("rbd_localize_parent_reads", Bool, "advanced", "false", true, "client", "read parents nearby"),
    opt("rbd_localize_snap_reads", Bool, "advanced", "false", true, "client", "read snapshots nearby"),
    opt("rbd_move_to_trash_on_remove", Bool, "basic", "false", true, "client", "removed images go to the trash"),
    opt("rbd_mtime_update_interval", Uint, "advanced", "60", true, "client", "seconds between updates of the modification time"),
    opt("rbd_non_blocking_aio", Bool, "advanced", "true", true, "client", "requests are queued"),
    opt("rbd_op_thread_timeout", Uint, "advanced", "60", true, "client", "seconds"),
    opt("rbd_op_threads", Uint, "advanced", "1", true, "client", "threads"),
    opt("rbd_parent_cache_enabled", Bool, "advanced", "false", true, "client", "cache parents on the host"),
    opt("rbd_persistent_cache_mode", Str, "advanced", "disabled", true, "client", "write-back log of the client"),
    opt("rbd_qos_bps_limit", Size, "advanced", "0", true, "client", "bytes per second; 0 for no limit"),
    opt("rbd_qos_iops_limit", Uint, "advanced", "0", true, "client", "operations per second; 0 for no limit"),
    opt("rbd_qos_read_bps_limit", Size, "advanced", "0", true, "client", "read bytes per second"),
    opt("rbd_qos_read_iops_limit", Uint, "advanced", "0", true, "client", "reads per second"),
    opt("rbd_qos_write_bps_limit", Size, "advanced", "0", true, "client", "written bytes per second"),
    opt("rbd_qos_write_iops_limit", Uint, "advanced", "0", true, "client", "writes per second"),
    opt("rbd_quiesce_notification_attempts", Uint, "dev", "10", true, "client", "attempts to quiesce before a snapshot"),
    opt("rbd_read_from_replica_policy", Str, "basic", "default", true, "client", "default, balance or localize"),
    opt("rbd_readahead_disable_after_bytes", Size, "advanced", "52428800", true, "client", "bytes after which read-ahead stops"),
    opt("rbd_readahead_max_bytes", Size, "advanced", "524288", true, "client", "bytes of read-ahead; 0 for none"),
    opt("rbd_readahead_trigger_requests", Uint, "advanced", "10", true, "client", "sequential requests that begin read-ahead"),
    opt(
        "rbd_request_timed_out_seconds",
        Uint,
        "advanced",
        "30",
        true,
        "client",
        "seconds before a request to a lock owner is repeated",
    ),
    opt("rbd_skip_partial_discard", Bool, "advanced", "true", true, "client", "discards of parts of objects do nothing"),
    opt("rbd_sparse_read_threshold_bytes", Size, "advanced", "65536", true, "client", "bytes from which reads are sparse"),
    opt("rbd_tracing", Bool, "advanced", "false", true, "client", "trace points"),
    opt("rbd_validate_names", Bool, "advanced", "true", true, "client", "check names of new images"),
    opt("rbd_validate_pool", Bool, "dev", "true", true, "client", "check pools before images are made in them"),
    opt(
        "target_max_misplaced_ratio",
        Float,
        "basic",
        "0.05",
        true,
        "mgr",
        "part of all copies that may be at the wrong place while groups are moved on purpose",
    ),
];

/// Text of `config help` for an option that is only kept.
const KEPT: &str = "kept and shown for clients and tools; nothing here reads it";

/// Finds an option by name: one of this table, or else one of Ceph's that is only kept.
pub fn find(name: &str) -> Option<Opt> {
    let ours = OPTIONS.binary_search_by(|o| o.name.cmp(name)).ok();
    ours.and_then(|at| OPTIONS.get(at).copied()).or_else(|| settings::find(name).map(kept))
}

fn kept(s: &settings::Setting) -> Opt {
    opt(s.name, s.kind, s.level, s.default, s.live, "", KEPT)
}

/// All options, by name.
pub fn all() -> Vec<Opt> {
    let others = settings::all().iter().filter(|s| OPTIONS.binary_search_by(|o| o.name.cmp(s.name)).is_err());
    let mut all: Vec<Opt> = OPTIONS.iter().copied().chain(others.map(kept)).collect();
    all.sort_by_key(|o| o.name);
    all
}

/// Says whether an option tells where the cluster is. Such an option cannot be stored in the cluster.
pub fn is_fixed(name: &str) -> bool {
    name == "fsid" || settings::find(name).is_some_and(|s| s.fixed)
}

/// Says whether an option counts only while a cluster is made, so that `config assimilate-conf` leaves it in the file,
/// as Ceph's does.
pub fn only_at_birth(name: &str) -> bool {
    name == "osd_crush_chooseleaf_type"
}

impl Opt {
    /// Checks a value and gives the form in which it is stored. Bounds are Ceph's; the type is that of who reads the
    /// option here.
    pub fn check(&self, value: &str) -> Result<String, Wrong> {
        match settings::find(self.name) {
            Some(s) => settings::Setting { kind: self.kind, ..*s }.check(value),
            None => self.kind.check(value),
        }
    }
}

/// An option's text from the configuration file, or its default; empty for an unknown one.
pub fn configured<'a>(config: &'a Config, name: &str) -> &'a str {
    let given = config.options.iter().find(|(n, _)| normalize(n) == name).map(|(_, v)| v.as_str());
    given.or_else(|| find(name).map(|o| o.default)).unwrap_or_default()
}

/// A number from the configuration file, or its default.
pub fn float(config: &Config, name: &str) -> f64 {
    configured(config, name).parse().unwrap_or_else(|_| find(name).and_then(|o| o.default.parse().ok()).unwrap_or_default())
}

/// A whole number from the configuration file, or its default.
pub(crate) fn uint(config: &Config, name: &str) -> u64 {
    float(config, name).max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_its_defaults_are_values_of_their_types() {
        assert!(OPTIONS.is_sorted_by(|a, b| a.name < b.name));
        for o in OPTIONS {
            assert!(o.check(o.default).is_ok(), "{}", o.name);
        }
    }

    #[test]
    fn values_are_checked() {
        assert_eq!(find("osd_max_object_size").unwrap().check("4M"), Ok("4194304".into()));
        assert_eq!(find("osd_max_backfills").unwrap().check("3"), Ok("3".into()));
        assert!(find("osd_max_backfills").unwrap().check("-3").is_err());
        assert_eq!(find("rbd_cache").unwrap().check("False"), Ok("false".into()));
        assert!(find("rbd_cache_policy").unwrap().check("sometimes").is_err());
        let hour = find("osd_scrub_begin_hour").unwrap();
        assert_eq!((hour.check("23"), hour.check("25").unwrap_err().why), (Ok("23".into()), "25 is outside of 0 to 23".into()));
        assert!(find("osd_pool_default_size").unwrap().check("11").is_err());
        assert!(find("osd_heartbeat_interval").unwrap().check("0.5").is_ok(), "ours may be shorter than Ceph's");
        assert!(find("nothing").is_none());
        assert_eq!(normalize("mon host"), "mon_host");
    }

    #[test]
    fn options_that_nothing_here_reads_are_found_and_have_ceph_s_bounds() {
        let kept = find("osd_scrub_cost").unwrap();
        assert_eq!((kept.default, kept.help), ("52428800", KEPT));
        assert!(find("mon_lease_renew_interval_factor").unwrap().check("2").is_err());
        assert!(find("osd_memory_target").unwrap().check("268435456").is_ok(), "ours may be smaller than Ceph's");
        assert!(all().is_sorted_by(|a, b| a.name < b.name) && all().len() > 1800);
        assert!(is_fixed("mon_host") && is_fixed("fsid") && !is_fixed("rbd_cache"));
    }
}
