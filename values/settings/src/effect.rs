//! Which options do something here.
//!
//! An option does something if a part of Nacre reads it, or if clients do: stock clients take their options from the cluster. All others are
//! kept, since tools set them, and whoever sets one is told that it does nothing.

/// What an option does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Monitors, managers or OSDs go by it.
    Used,
    /// Stock clients and gateways go by it; no daemon of this cluster does.
    Clients,
    /// Only some of those go by it who do at a cluster of Ceph, or who are in the section in which it is set.
    Partly(&'static str),
    /// Nobody goes by it, for this reason.
    None(&'static str),
}

/// Options that daemons of this cluster read. `cores/mon/tests/options.rs` looks for their readers.
pub const USED: &[&str] = &[
    "auth_allow_insecure_global_id_reclaim",
    "auth_mon_ticket_ttl",
    "auth_service_ticket_ttl",
    "debug_osd",
    "fsid",
    "host",
    "keyring",
    "mon_allow_pool_delete",
    "mon_allow_pool_size_one",
    "mon_clock_drift_allowed",
    "mon_data_avail_crit",
    "mon_data_avail_warn",
    "mon_level_raise_after",
    "mon_max_pg_per_osd",
    "mon_max_pool_pg_num",
    "mon_max_snap_prune_per_epoch",
    "mon_osd_adjust_down_out_interval",
    "mon_osd_adjust_heartbeat_grace",
    "mon_osd_backfillfull_ratio",
    "mon_osd_blocklist_default_expire",
    "mon_osd_down_out_interval",
    "mon_osd_down_out_subtree_limit",
    "mon_osd_full_ratio",
    "mon_osd_laggy_halflife",
    "mon_osd_laggy_max_interval",
    "mon_osd_laggy_weight",
    "mon_osd_max_split_count",
    "mon_osd_min_down_reporters",
    "mon_osd_min_in_ratio",
    "mon_osd_min_up_ratio",
    "mon_osd_nearfull_ratio",
    "mon_osd_report_timeout",
    "mon_osd_reporter_subtree_level",
    "mon_osd_warn_num_repaired",
    "mon_pg_stuck_threshold",
    "mon_replace_after",
    "mon_target_pg_per_osd",
    "mon_timecheck_interval",
    "mon_timecheck_skew_interval",
    "mon_warn_older_version_delay",
    "mon_warn_on_misplaced",
    "mon_warn_on_older_version",
    "mon_warn_on_pool_no_app",
    "mon_warn_on_pool_no_redundancy",
    "mon_warn_on_slow_ping_ratio",
    "mon_warn_on_slow_ping_time",
    "mon_warn_on_too_few_osds",
    "mon_warn_pg_not_deep_scrubbed_ratio",
    "mon_warn_pg_not_scrubbed_ratio",
    "osd_bench_duration",
    "osd_bench_large_size_max_throughput",
    "osd_bench_max_block_size",
    "osd_bench_small_size_max_iops",
    "osd_client_watch_timeout",
    "osd_crush_chooseleaf_type",
    "osd_crush_update_on_start",
    "osd_deep_scrub_interval",
    "osd_deep_scrub_large_omap_object_key_threshold",
    "osd_deep_scrub_large_omap_object_value_sum_threshold",
    "osd_deep_scrub_randomize_ratio",
    "osd_defragment",
    "osd_disk_stuck_timeout",
    "osd_failsafe_full_ratio",
    "osd_fast_fail_on_connection_refused",
    "osd_heartbeat_grace",
    "osd_heartbeat_interval",
    "osd_heartbeat_min_healthy_ratio",
    "osd_heartbeat_min_peers",
    "osd_max_attr_size",
    "osd_max_backfills",
    "osd_max_markdown_count",
    "osd_max_markdown_period",
    "osd_max_object_name_len",
    "osd_max_object_namespace_len",
    "osd_max_object_size",
    "osd_max_omap_entries_per_request",
    "osd_max_pg_log_entries",
    "osd_max_scrubs",
    "osd_memory_target",
    "osd_memory_target_autotune",
    "osd_op_complaint_time",
    "osd_op_history_size",
    "osd_pg_log_dups_tracked",
    "osd_pool_default_crush_rule",
    "osd_pool_default_erasure_code_profile",
    "osd_pool_default_flag_hashpspool",
    "osd_pool_default_flag_nodelete",
    "osd_pool_default_flag_nopgchange",
    "osd_pool_default_flag_nosizechange",
    "osd_pool_default_min_size",
    "osd_pool_default_pg_autoscale_mode",
    "osd_pool_default_pg_num",
    "osd_pool_default_pgp_num",
    "osd_pool_default_size",
    "osd_recovery_max_active",
    "osd_recovery_max_active_hdd",
    "osd_recovery_max_active_ssd",
    "osd_recovery_sleep",
    "osd_recovery_sleep_hdd",
    "osd_recovery_sleep_ssd",
    "osd_scrub_auto_repair",
    "osd_scrub_auto_repair_num_errors",
    "osd_scrub_begin_hour",
    "osd_scrub_begin_week_day",
    "osd_scrub_during_recovery",
    "osd_scrub_end_hour",
    "osd_scrub_end_week_day",
    "osd_scrub_interval_randomize_ratio",
    "osd_scrub_max_interval",
    "osd_scrub_min_interval",
    "target_max_misplaced_ratio",
];

/// Options of [`USED`] that OSDs read, each as it is set for it. All others of them are read by monitors, and by no
/// OSD. `cores/mon/tests/options.rs` looks for who reads what.
pub const OF_OSDS: &[&str] = &[
    "debug_osd",
    "mon_warn_on_slow_ping_ratio",
    "mon_warn_on_slow_ping_time",
    "osd_bench_duration",
    "osd_bench_large_size_max_throughput",
    "osd_bench_max_block_size",
    "osd_bench_small_size_max_iops",
    "osd_client_watch_timeout",
    "osd_crush_update_on_start",
    "osd_deep_scrub_interval",
    "osd_deep_scrub_large_omap_object_key_threshold",
    "osd_deep_scrub_large_omap_object_value_sum_threshold",
    "osd_deep_scrub_randomize_ratio",
    "osd_defragment",
    "osd_disk_stuck_timeout",
    "osd_failsafe_full_ratio",
    "osd_fast_fail_on_connection_refused",
    "osd_heartbeat_grace",
    "osd_heartbeat_interval",
    "osd_heartbeat_min_healthy_ratio",
    "osd_heartbeat_min_peers",
    "osd_max_attr_size",
    "osd_max_backfills",
    "osd_max_markdown_count",
    "osd_max_markdown_period",
    "osd_max_object_name_len",
    "osd_max_object_namespace_len",
    "osd_max_object_size",
    "osd_max_omap_entries_per_request",
    "osd_max_pg_log_entries",
    "osd_max_scrubs",
    "osd_memory_target",
    "osd_memory_target_autotune",
    "osd_op_complaint_time",
    "osd_op_history_size",
    "osd_pg_log_dups_tracked",
    "osd_recovery_max_active",
    "osd_recovery_max_active_hdd",
    "osd_recovery_max_active_ssd",
    "osd_recovery_sleep",
    "osd_recovery_sleep_hdd",
    "osd_recovery_sleep_ssd",
    "osd_scrub_auto_repair",
    "osd_scrub_auto_repair_num_errors",
    "osd_scrub_begin_hour",
    "osd_scrub_begin_week_day",
    "osd_scrub_during_recovery",
    "osd_scrub_end_hour",
    "osd_scrub_end_week_day",
    "osd_scrub_interval_randomize_ratio",
    "osd_scrub_max_interval",
    "osd_scrub_min_interval",
];

/// Options of [`OF_OSDS`] that monitors read as well, each as it is set for monitors: set for one kind alone, they
/// have half an effect.
pub const OF_BOTH: &[&str] = &["osd_heartbeat_grace"];

/// Options of [`USED`] that Ceph's manager reads, so that people set them for `mgr`. What is set there counts, and
/// else what is set for monitors: monitor and manager are one here.
pub const OF_MANAGERS: &[&str] = &[
    "mon_max_pg_per_osd",
    "mon_osd_warn_num_repaired",
    "mon_pg_stuck_threshold",
    "mon_target_pg_per_osd",
    "mon_warn_on_misplaced",
    "mon_warn_on_pool_no_app",
    "mon_warn_pg_not_deep_scrubbed_ratio",
    "mon_warn_pg_not_scrubbed_ratio",
    "target_max_misplaced_ratio",
];

/// Options of [`USED`] that say what a daemon is, whoever it is.
const OF_ALL: &[&str] = &["fsid", "host", "keyring"];

/// Options of the manager's modules that its built-in duties read.
const MANAGER: &[&str] = &[
    "mgr/balancer/active",
    "mgr/balancer/mode",
    "mgr/balancer/pool_ids",
    "mgr/balancer/sleep_interval",
    "mgr/balancer/upmap_max_deviation",
    "mgr/balancer/upmap_max_optimizations",
    "mgr/crash/retain_interval",
    "mgr/crash/warn_recent_interval",
    "mgr/pg_autoscaler/noautoscale",
    "mgr/pg_autoscaler/sleep_interval",
    "mgr/progress/enabled",
    "mgr/rbd_support/mirror_snapshot_schedule",
    "mgr/rbd_support/trash_purge_schedule",
];

/// How names of options begin that librados, librbd, the gateway and other clients read.
const CLIENTS: &[&str] = &[
    "rbd_",
    "rados_",
    "objecter_",
    "rgw_",
    "librados_",
    "immutable_object_cache_",
    "cephsqlite_",
    "mon_client_",
    "crush_location",
];
/// Other options of clients, which daemons of Ceph read as well and those of this cluster do not.
const SHARED: &[&str] = &["log_", "err_", "ms_", "debug_", "auth_", "cephx_", "clog_", "admin_socket"];
/// Options of clients by their whole name.
const CLIENTS_ALONE: &[&str] = &["client_mount_timeout", "mon_host", "keyring", "key", "keyfile", "host", "perf", "plugin_dir"];

/// Why options that begin so do nothing; the first that fits counts.
const REASONS: &[(&str, &str)] = &[
    ("public_network", LISTEN),
    ("public_addr", LISTEN),
    ("cluster_network", LISTEN_OSDS),
    ("cluster_addr", LISTEN_OSDS),
    ("mds_", FILE_SYSTEMS),
    ("client_", FILE_SYSTEMS),
    ("cephfs_", FILE_SYSTEMS),
    ("fuse_", FILE_SYSTEMS),
    ("filer_", FILE_SYSTEMS),
    ("journaler_", FILE_SYSTEMS),
    ("bluestore_compression", "stored data is not compressed"),
    ("bluestore_", STORE),
    ("bluefs_", STORE),
    ("bdev_", STORE),
    ("rocksdb_", STORE),
    ("leveldb_", STORE),
    ("filestore_", STORE),
    ("memstore_", STORE),
    ("kstore_", STORE),
    ("journal_", STORE),
    ("newstore_", STORE),
    ("osd_objectstore", STORE),
    ("osd_mclock", "work yields to clients by itself; shares are not set"),
    ("osd_op_queue", "work yields to clients by itself; shares are not set"),
    ("paxos_", "monitors agree by a log of their own"),
    ("mgr/", "no module of that name reads options here"),
];
const LISTEN: &str = "a host's daemons listen at the address that `nacre up --bind` or `nacre join --bind` said";
const LISTEN_OSDS: &str = "OSDs listen for each other at the address that `nacre up --cluster-bind` or `nacre join --cluster-bind` said, else where clients reach them";
const FILE_SYSTEMS: &str = "there are no file systems in this cluster";
const STORE: &str = "the store is Nacre's own and sizes itself";
const NOBODY: &str = "nothing in this cluster reads it";

const TO_MONITORS: &str = "monitors go by it, others do not: set it for mon or global";
const TO_MANAGERS: &str = "monitors and managers go by it, others do not: set it for mgr or global";
const TO_OSDS: &str = "OSDs go by it, others do not: set it for osd or global";
const TO_BOTH: &str = "OSDs and monitors go by it, each by what is set for it: set it for global";
const TO_MANAGER: &str = "the manager's modules go by it: set it for mgr";
const TO_CLIENTS: &str = "clients go by it; no daemon of this cluster does";

/// Says what an option does that is set in a section: `global`, `osd`, `osd.3`, `osd/class:ssd`, `client.x`.
pub fn effect_at(name: &str, section: &str) -> Effect {
    let (daemons, kind) = (["mon", "mgr", "osd", "mds"], section.split(['.', '/']).next().unwrap_or_default());
    let of = |list: &[&str]| list.contains(&name);
    let used = |fits: bool, why: &'static str| if fits { Effect::Used } else { Effect::None(why) };
    match effect(name) {
        Effect::Used if of(OF_ALL) => Effect::Used,
        Effect::Used if name.starts_with("mgr/") => used(["mgr", "global"].contains(&kind), TO_MANAGER),
        Effect::Used if kind == "global" => Effect::Used,
        Effect::Used if of(OF_BOTH) => match kind {
            "osd" | "mon" => Effect::Partly(TO_BOTH),
            _ => Effect::None(TO_BOTH),
        },
        Effect::Used if of(OF_OSDS) => used(kind == "osd", TO_OSDS),
        Effect::Used if of(OF_MANAGERS) => used(["mon", "mgr"].contains(&kind), TO_MANAGERS),
        Effect::Used => used(kind == "mon", TO_MONITORS),
        Effect::Clients if daemons.contains(&kind) => Effect::None(TO_CLIENTS),
        // Daemons of Ceph go by these, so whoever sets one for all may mean them.
        Effect::Clients if kind == "global" && SHARED.iter().any(|start| name.starts_with(start)) => Effect::Partly(TO_CLIENTS),
        effect => effect,
    }
}

/// Says what an option does at the best place to set it, by its name with underscores.
pub fn effect(name: &str) -> Effect {
    let begins = |list: &[&str]| list.iter().any(|start| name.starts_with(start));
    if USED.binary_search(&name).is_ok() || MANAGER.binary_search(&name).is_ok() {
        return Effect::Used;
    }
    if begins(CLIENTS) || begins(SHARED) || CLIENTS_ALONE.contains(&name) {
        return Effect::Clients;
    }
    Effect::None(REASONS.iter().find(|(start, _)| name.starts_with(start)).map_or(NOBODY, |(_, why)| why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_nothing_has_a_reason() {
        assert!(USED.is_sorted() && MANAGER.is_sorted() && OF_OSDS.is_sorted() && OF_MANAGERS.is_sorted());
        for (name, effect_of_it) in [
            ("osd_max_scrubs", Effect::Used),
            ("mgr/balancer/active", Effect::Used),
            ("rbd_cache", Effect::Clients),
            ("ms_tcp_nodelay", Effect::Clients),
            ("osd_mclock_profile", Effect::None("work yields to clients by itself; shares are not set")),
            ("bluestore_compression_mode", Effect::None("stored data is not compressed")),
            ("client_cache_size", Effect::None(FILE_SYSTEMS)),
            ("public_network", Effect::None(LISTEN)),
            ("osd_scrub_sleep", Effect::None(NOBODY)),
            ("mgr/balancer/begin_time", Effect::None("no module of that name reads options here")),
        ] {
            assert_eq!(effect(name), effect_of_it, "{name}");
        }
    }

    #[test]
    fn where_an_option_is_set_decides_who_goes_by_it() {
        for (name, section, effect_of_it) in [
            ("osd_max_scrubs", "osd/class:ssd", Effect::Used),
            ("osd_max_scrubs", "global", Effect::Used),
            ("osd_max_scrubs", "mon", Effect::None(TO_OSDS)),
            ("osd_max_scrubs", "client.x", Effect::None(TO_OSDS)),
            ("osd_pool_default_size", "osd", Effect::None(TO_MONITORS)),
            ("osd_pool_default_size", "mon.a", Effect::Used),
            ("osd_crush_update_on_start", "osd.3", Effect::Used),
            ("osd_heartbeat_grace", "osd", Effect::Partly(TO_BOTH)),
            ("osd_heartbeat_grace", "mon.a", Effect::Partly(TO_BOTH)),
            ("osd_heartbeat_grace", "global", Effect::Used),
            ("osd_heartbeat_grace", "client", Effect::None(TO_BOTH)),
            ("target_max_misplaced_ratio", "mgr", Effect::Used),
            ("target_max_misplaced_ratio", "osd", Effect::None(TO_MANAGERS)),
            ("mgr/balancer/mode", "mgr", Effect::Used),
            ("mgr/balancer/mode", "mon", Effect::None(TO_MANAGER)),
            ("debug_ms", "global", Effect::Partly(TO_CLIENTS)),
            ("debug_ms", "osd.0", Effect::None(TO_CLIENTS)),
            ("debug_ms", "client", Effect::Clients),
            ("rbd_cache", "global", Effect::Clients),
            ("rbd_cache", "osd", Effect::None(TO_CLIENTS)),
            ("osd_mclock_profile", "osd", effect("osd_mclock_profile")),
            ("fsid", "client", Effect::Used),
        ] {
            assert_eq!(effect_at(name, section), effect_of_it, "{name} of {section}");
        }
    }
}
