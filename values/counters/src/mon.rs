//! Counters of a monitor, with the manager's duties beside it.

use crate::osd::TURNS;
use crate::{Section, count, level};

/// All sections, in the order in which `perf dump` shows them.
pub const SECTIONS: &[Section] = &[CLUSTER, MON, LOG, REACTOR];

/// The cluster, as Ceph's monitors count it.
pub const CLUSTER: Section = Section {
    name: "cluster",
    about: "of the cluster",
    counters: &[
        level("num_mon", "Always 1: `ceph mon stat` tells the monitors"),
        level("num_mon_quorum", "Always 1: `ceph mon stat` tells the quorum"),
        level("num_osd", "OSDs in the map"),
        level("num_osd_up", "OSDs that are up"),
        level("num_osd_in", "OSDs that are in"),
        level("osd_epoch", "Epoch of the OSD map"),
        level("osd_bytes", "Bytes of all OSDs").bytes(),
        level("osd_bytes_used", "Bytes in use").bytes(),
        level("osd_bytes_avail", "Bytes that are free").bytes(),
        level("num_pool", "Pools"),
        level("num_pg", "Placement groups"),
        level("num_object", "Objects"),
        level("num_bytes", "Bytes of objects").bytes(),
        level("num_pg_active_clean", "Placement groups that are active and clean"),
        level("num_pg_active", "Placement groups that are active"),
        level("num_pg_peering", "Placement groups that peer"),
        level("num_object_degraded", "Copies of objects that are missing"),
        level("num_object_misplaced", "Copies of objects that are not where the map places them"),
        level("num_object_unfound", "Objects that are on no OSD that can be reached"),
    ],
};

/// The monitor itself.
pub const MON: Section = Section {
    name: "mon",
    about: "of the mon",
    counters: &[
        level("num_sessions", "Sessions with clients and daemons").ranked(5, "sess"),
        count("election_call", "Always 0: elections are in the log of the monitor").ranked(8, "estt"),
        count("election_win", "Always 1").ranked(8, "ewon"),
    ],
};

/// The log that the monitors agree on.
pub const LOG: Section = Section {
    name: "log",
    about: "of the log",
    counters: &[
        level("entries", "Entries that were applied, since the cluster was made"),
        level("snapshot_bytes", "Bytes of the last snapshot of the state").bytes(),
    ],
};

/// Turns of the monitor's thread.
pub const REACTOR: Section = Section { name: "reactor", about: "of the reactor", counters: TURNS };
