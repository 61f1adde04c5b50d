//! Which options do something here.
//!
//! An option does something if a part of Nacre reads it, or if clients do: stock clients take their options from the
//! cluster. All others are kept, since tools set them, and whoever sets one is told that it does nothing.

/// Effect of an option.
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

/// Daemons of this cluster that read an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Whoever it is set for: it says what a daemon is.
    All,
    /// Monitors.
    Monitors,
    /// Monitors; but Ceph's manager reads it there, so that people set it for `mgr`. What is set for `mgr` counts, and
    /// else what is set for monitors: monitor and manager are one here.
    Managers,
    /// OSDs, each as it is set for it.
    Osds,
    /// OSDs and monitors, each as it is set for it: set for one kind alone, it has half an effect.
    OsdsAndMonitors,
}
use Readers::{All, Managers, Monitors, Osds, OsdsAndMonitors};

/// Options that daemons of this cluster read, in alphabetical order, and who does. `cores/mon/tests/options.rs` looks
/// for these readers.
pub const READ: &[(&str, Readers)] = &[
    ("auth_allow_insecure_global_id_reclaim", Monitors),
    ("auth_mon_ticket_ttl", Monitors),
    ("auth_service_ticket_ttl", Monitors),
    ("debug_osd", Osds),
    ("fsid", All),
    ("host", All),
    ("keyring", All),
    ("mon_allow_erasure", Monitors),
    ("mon_allow_pool_delete", Monitors),
    ("mon_allow_pool_size_one", Monitors),
    ("mon_clock_drift_allowed", Monitors),
    ("mon_data_avail_crit", Monitors),
    ("mon_data_avail_warn", Monitors),
    ("mon_level_raise_after", Monitors),
    ("mon_max_pg_per_osd", Managers),
    ("mon_max_pool_pg_num", Monitors),
    ("mon_max_snap_prune_per_epoch", Monitors),
    ("mon_osd_adjust_down_out_interval", Monitors),
    ("mon_osd_adjust_heartbeat_grace", Monitors),
    ("mon_osd_backfillfull_ratio", Monitors),
    ("mon_osd_blocklist_default_expire", Monitors),
    ("mon_osd_down_out_interval", Monitors),
    ("mon_osd_down_out_subtree_limit", Monitors),
    ("mon_osd_full_ratio", Monitors),
    ("mon_osd_laggy_halflife", Monitors),
    ("mon_osd_laggy_max_interval", Monitors),
    ("mon_osd_laggy_weight", Monitors),
    ("mon_osd_max_split_count", Monitors),
    ("mon_osd_min_down_reporters", Monitors),
    ("mon_osd_min_in_ratio", Monitors),
    ("mon_osd_min_up_ratio", Monitors),
    ("mon_osd_nearfull_ratio", Monitors),
    ("mon_osd_report_timeout", Monitors),
    ("mon_osd_reporter_subtree_level", Monitors),
    ("mon_osd_warn_num_repaired", Managers),
    ("mon_pg_stuck_threshold", Managers),
    ("mon_replace_after", Monitors),
    ("mon_target_pg_per_osd", Managers),
    ("mon_timecheck_interval", Monitors),
    ("mon_timecheck_skew_interval", Monitors),
    ("mon_warn_older_version_delay", Monitors),
    ("mon_warn_on_misplaced", Managers),
    ("mon_warn_on_older_version", Monitors),
    ("mon_warn_on_pool_no_app", Managers),
    ("mon_warn_on_pool_no_redundancy", Monitors),
    ("mon_warn_on_slow_ping_ratio", Osds),
    ("mon_warn_on_slow_ping_time", Osds),
    ("mon_warn_on_too_few_osds", Monitors),
    ("mon_warn_pg_not_deep_scrubbed_ratio", Managers),
    ("mon_warn_pg_not_scrubbed_ratio", Managers),
    ("osd_bench_duration", Osds),
    ("osd_bench_large_size_max_throughput", Osds),
    ("osd_bench_max_block_size", Osds),
    ("osd_bench_small_size_max_iops", Osds),
    ("osd_client_watch_timeout", Osds),
    ("osd_crush_chooseleaf_type", Monitors),
    ("osd_crush_update_on_start", Osds),
    ("osd_deep_scrub_interval", Osds),
    ("osd_deep_scrub_large_omap_object_key_threshold", Osds),
    ("osd_deep_scrub_large_omap_object_value_sum_threshold", Osds),
    ("osd_deep_scrub_randomize_ratio", Osds),
    ("osd_defragment", Osds),
    ("osd_disk_stuck_timeout", Osds),
    ("osd_failsafe_full_ratio", Osds),
    ("osd_fast_fail_on_connection_refused", Osds),
    ("osd_heartbeat_grace", OsdsAndMonitors),
    ("osd_heartbeat_interval", Osds),
    ("osd_heartbeat_min_healthy_ratio", Osds),
    ("osd_heartbeat_min_peers", Osds),
    ("osd_max_attr_size", Osds),
    ("osd_max_backfills", Osds),
    ("osd_max_markdown_count", Osds),
    ("osd_max_markdown_period", Osds),
    ("osd_max_object_name_len", Osds),
    ("osd_max_object_namespace_len", Osds),
    ("osd_max_object_size", Osds),
    ("osd_max_omap_entries_per_request", Osds),
    ("osd_max_pg_log_entries", Osds),
    ("osd_max_scrubs", Osds),
    ("osd_memory_target", Osds),
    ("osd_memory_target_autotune", Osds),
    ("osd_op_complaint_time", Osds),
    ("osd_op_history_size", Osds),
    ("osd_pg_log_dups_tracked", Osds),
    ("osd_pool_default_crush_rule", Monitors),
    ("osd_pool_default_erasure_code_profile", Monitors),
    ("osd_pool_default_flag_hashpspool", Monitors),
    ("osd_pool_default_flag_nodelete", Monitors),
    ("osd_pool_default_flag_nopgchange", Monitors),
    ("osd_pool_default_flag_nosizechange", Monitors),
    ("osd_pool_default_min_size", Monitors),
    ("osd_pool_default_pg_autoscale_mode", Monitors),
    ("osd_pool_default_pg_num", Monitors),
    ("osd_pool_default_pgp_num", Monitors),
    ("osd_pool_default_size", Monitors),
    ("osd_pool_erasure_code_stripe_unit", Monitors),
    ("osd_recovery_max_active", Osds),
    ("osd_recovery_max_active_hdd", Osds),
    ("osd_recovery_max_active_ssd", Osds),
    ("osd_recovery_sleep", Osds),
    ("osd_recovery_sleep_hdd", Osds),
    ("osd_recovery_sleep_ssd", Osds),
    ("osd_scrub_auto_repair", Osds),
    ("osd_scrub_auto_repair_num_errors", Osds),
    ("osd_scrub_begin_hour", Osds),
    ("osd_scrub_begin_week_day", Osds),
    ("osd_scrub_during_recovery", Osds),
    ("osd_scrub_end_hour", Osds),
    ("osd_scrub_end_week_day", Osds),
    ("osd_scrub_interval_randomize_ratio", Osds),
    ("osd_scrub_max_interval", Osds),
    ("osd_scrub_min_interval", Osds),
    ("target_max_misplaced_ratio", Managers),
];

/// Says who reads an option, if anybody does here.
pub fn readers(name: &str) -> Option<Readers> {
    READ.binary_search_by_key(&name, |(name, _)| *name).ok().map(|at| READ[at].1)
}

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

/// Beginnings of names of options that librados, librbd, the gateway and other clients read.
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

/// Reason why options that begin so do nothing; the first that fits counts.
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
    let used = |fits: bool, why: &'static str| if fits { Effect::Used } else { Effect::None(why) };
    match effect(name) {
        Effect::Used if name.starts_with("mgr/") => used(["mgr", "global"].contains(&kind), TO_MANAGER),
        Effect::Used => match readers(name).unwrap_or(Monitors) {
            All => Effect::Used,
            _ if kind == "global" => Effect::Used,
            OsdsAndMonitors if ["osd", "mon"].contains(&kind) => Effect::Partly(TO_BOTH),
            OsdsAndMonitors => Effect::None(TO_BOTH),
            Osds => used(kind == "osd", TO_OSDS),
            Managers => used(["mon", "mgr"].contains(&kind), TO_MANAGERS),
            Monitors => used(kind == "mon", TO_MONITORS),
        },
        Effect::Clients if daemons.contains(&kind) => Effect::None(TO_CLIENTS),
        // Daemons of Ceph go by these, so whoever sets one for all may mean them.
        Effect::Clients if kind == "global" && SHARED.iter().any(|start| name.starts_with(start)) => Effect::Partly(TO_CLIENTS),
        effect => effect,
    }
}

/// Says what an option does at the best place to set it, by its name with underscores.
pub fn effect(name: &str) -> Effect {
    let begins = |list: &[&str]| list.iter().any(|start| name.starts_with(start));
    if readers(name).is_some() || MANAGER.binary_search(&name).is_ok() {
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
        assert!(READ.is_sorted_by_key(|(name, _)| *name) && MANAGER.is_sorted());
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
