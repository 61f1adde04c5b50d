//! Commands of Ceph's OSD that are refused here: words and arguments, and the reason. Clients get their descriptions,
//! so that whoever types one is told why it is not there.

const STORE: &str = "the store is Nacre's own: `dump_store`, `perf dump store` and `nacre fsck` show what it has";
const HEAP: &str = "this program does not use tcmalloc: `dump_mempools` and `perf dump store_memory` show what it holds";
const PROFILER: &str = "no profiler is part of this program; `perf` can be attached to it";
const HOOK: &str = "it serves the tests of Ceph's own store";
const SNAPS: &str = "which snapshots are purged is known from the OSD map alone";
const PACE: &str = "recovery begins at once and keeps its own pace: see `osd_recovery_sleep`";
const PEERING: &str = "`pg PGID query` and `perf dump` show what groups do";

/// A command that is refused.
pub(crate) struct Refused {
    /// Words and arguments, in the notation of [`grammar::Signature::parse`].
    pub(crate) signature: &'static str,
    /// Reason why it is not there, as the end of a sentence.
    pub(crate) why: &'static str,
}

const fn no(signature: &'static str, why: &'static str) -> Refused {
    Refused { signature, why }
}

/// All of them.
pub(crate) const ROWS: &[Refused] = &[
    no("bluefs debug_inject_read_zeros", HOOK),
    no("bluefs files list", STORE),
    no("bluefs stats", STORE),
    no("bluestore allocator dump block", STORE),
    no("bluestore allocator fragmentation block", STORE),
    no("bluestore allocator score block", STORE),
    no("bluestore bluefs device info <alloc_size:Int req=false>", STORE),
    no("calc_objectstore_db_histogram", STORE),
    no("cpu_profiler <arg:Choices strings=status|flush>", PROFILER),
    no("debug dump_missing <filename:String>", "`pg PGID list_unfound` and `pg PGID query` show what is missing"),
    no("debug kick_recovery_wq <delay:Int range=0>", PACE),
    no("dump_op_pq_state", "operations wait in no queue of priorities: `dump_ops_in_flight` shows them"),
    no("dump_pg_recovery_stats", PEERING),
    no("dump_pgstate_history", PEERING),
    no("get_heap_property <property:String>", HEAP),
    no("getomap <pool:String> <objname:Objectname>", HOOK),
    no(
        "heap <heapcmd:Choices strings=dump|start_profiler|stop_profiler|release|get_release_rate|set_release_rate|stats> <value:String req=false>",
        HEAP,
    ),
    no("injectdataerr <pool:String> <objname:Objectname> <shardid:Int range=0|255 req=false>", HOOK),
    no("injectfull <type:String req=false> <count:Int req=false>", HOOK),
    no("injectmdataerr <pool:String> <objname:Objectname> <shardid:Int range=0|255 req=false>", HOOK),
    no("leak_some_memory", HOOK),
    no("log reopen", "the process opens its log files anew when it gets SIGHUP"),
    no(
        "objecter_requests",
        "requests to other OSDs are not listed; `dump_ops_in_flight` shows the operations that wait for them",
    ),
    no("reset_pg_recovery_stats", PEERING),
    no("reset_purged_snaps_last", SNAPS),
    no("rmomapkey <pool:String> <objname:Objectname> <key:String>", HOOK),
    no("scrub_purged_snaps", SNAPS),
    no("set_heap_property <property:String> <value:Int>", HEAP),
    no("set_recovery_delay <utime:Int range=0 req=false>", PACE),
    no("setomapheader <pool:String> <objname:Objectname> <header:String>", HOOK),
    no("setomapval <pool:String> <objname:Objectname> <key:String> <val:String>", HOOK),
    no("truncobj <pool:String> <objname:Objectname> <len:Int>", HOOK),
];
