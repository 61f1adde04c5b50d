//! What is to be done about a finding: the remedies of `docs/operations/health.md`, in short.

/// Gives what helps against a finding: a sentence, and a command that shows more or mends it (empty without one). None for
/// codes without a remedy in short.
pub fn advice(code: &str) -> Option<(&'static str, &'static str)> {
    Some(match code {
        "OSD_DOWN" => (
            "Look at the host, at its log and at the disk, and start the OSD. After ten minutes its copies are made elsewhere.",
            "ceph osd tree down",
        ),
        "OSD_NEARFULL" | "OSD_BACKFILLFULL" | "POOL_NEARFULL" | "POOL_BACKFILLFULL" => {
            ("Remove data, or add disks.", "ceph osd df")
        }
        "OSD_FULL" => ("Clients wait. Remove data at once; writes go on by themselves.", "ceph df detail"),
        "POOL_FULL" => ("Remove data, or raise the pool's quota.", "ceph osd pool get-quota POOL"),
        "TOO_FEW_OSDS" => ("Add disks, or ask for fewer copies.", "ceph config set global osd_pool_default_size N"),
        "OSD_REFUSED" => ("Do what the sentence says; the code goes by itself.", "ceph health detail"),
        "OSD_DISK_STUCK" => ("The disk answers nothing: look at the kernel's log, and replace it.", "dmesg"),
        "OSD_INDEX_DAMAGED" => ("The OSD takes no writes. Copy out what can be read, then make it anew.", "ceph osd out N"),
        "OSD_SCRUB_ERRORS" | "PG_DAMAGED" => {
            ("Copies of objects are wrong. Look which, then let the group repair them.", "ceph pg repair PGID")
        }
        "OSD_TOO_MANY_REPAIRS" => ("A disk of these groups fails: find it, and take it out.", "ceph osd out N"),
        "OSDMAP_FLAGS" => ("Somebody set them. Unset them when the reason is gone.", "ceph osd unset FLAG"),
        "OSD_FLAGS" => ("Somebody set them. Unset them when the reason is gone.", "ceph osd rm-noout N"),
        "SLOW_OPS" => ("Look at what they wait for: a disk, an OSD, or room.", "ceph tell osd.N dump_blocked_ops"),
        "PG_AVAILABILITY" => ("Some data cannot be reached. Start the OSDs that the groups wait for.", "ceph osd blocked-by"),
        "PG_DEGRADED" => (
            "Data is served; one more loss may cost some. Recovery goes on by itself once OSDs are back.",
            "ceph pg dump_stuck degraded",
        ),
        "OBJECT_UNFOUND" => {
            ("The newest versions are on no OSD that runs. Bring back those that were up.", "ceph pg PGID list_unfound")
        }
        "PG_BACKFILL_FULL" | "PG_RECOVERY_FULL" => ("There is no room for copies. Add OSDs, or remove data.", "ceph osd df"),
        "PG_NOT_SCRUBBED" | "PG_NOT_DEEP_SCRUBBED" => {
            ("Is a flag set, or are the hours for scrubs too narrow?", "ceph osd dump | grep flags")
        }
        "POOL_APP_NOT_ENABLED" => ("Say what the pool is for.", "ceph osd pool application enable POOL rbd"),
        "POOL_TOO_FEW_PGS" | "POOL_TOO_MANY_PGS" => {
            ("Let its number of groups follow its data.", "ceph osd pool set POOL pg_autoscale_mode on")
        }
        "POOL_NO_REDUNDANCY" => ("If a disk is lost, so is what is on it. Ask for more copies.", "ceph osd pool set POOL size 3"),
        "POOL_MIN_SIZE_NO_REDUNDANCY" => {
            ("Let groups wait for one shard more than data needs.", "ceph osd pool set POOL min_size K+1")
        }
        "LARGE_OMAP_OBJECTS" => ("The cluster log names the objects.", "ceph log last 1000 warn cluster"),
        "MON_DOWN" => ("Start the monitor's host or process. The others go on while they are a majority.", "ceph quorum_status"),
        "MON_STORE_SET_BACK" => ("Remove the store of this monitor on its host, and start it again.", "ceph health detail"),
        "MON_CLOCK_SKEW" => ("Let the hosts keep time (chrony).", "ceph time-sync-status"),
        "MON_DISK_LOW" | "MON_DISK_CRIT" => ("Free space on the host of the monitor.", "df -h"),
        "MON_STATE_LARGE" => {
            ("Remove stored values and users that nobody needs, and let groups become clean.", "ceph config-key ls")
        }
        "CLIENTS_TURNED_AWAY" => {
            ("A client opens too many connections: mend it, or take its key away.", "ceph tell mon.* sessions")
        }
        "RECENT_CRASH" => ("Look at what died, and say that it was seen.", "ceph crash ls-new"),
        "DAEMON_OLD_VERSION" | "OSD_UPGRADE_FINISHED" => ("Finish the upgrade.", "ceph versions"),
        "AUTH_INSECURE_GLOBAL_ID_RECLAIM_ALLOWED" => {
            ("No client of today needs it.", "ceph config set mon auth_allow_insecure_global_id_reclaim false")
        }
        "MGR_MODULE_DEPENDENCY" => ("It is not part of this manager; switch it off.", "ceph mgr module disable NAME"),
        _ if code.starts_with("OSD_") && code.ends_with("_DOWN") => {
            ("All OSDs of it are down: look at what they share, host, power or network.", "ceph osd tree down")
        }
        _ => return None,
    })
}
