//! Numbers of the object protocol: operation codes and every flag and sub-code that travels with them. The values are
//! those of Ceph's `rados.h` at release 16.

/// Declares the operation codes with their names in logs.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal $text:literal;)*) => {
        $($(#[$doc])* pub const $name: u16 = $value;)*

        /// Name of an operation as logs and traces print it.
        pub fn name(code: u16) -> Option<&'static str> {
            match code { $($name => Some($text),)* _ => None }
        }

        /// Every code known here.
        pub const ALL: &[u16] = &[$($name),*];
    };
}

codes! {
    /// Read an extent.
    READ = 0x1201 "read";
    /// Size and modification time.
    STAT = 0x1202 "stat";
    /// Map of the written extents.
    MAPEXT = 0x1203 "mapext";
    /// Unused by clients.
    MASKTRUNC = 0x1204 "masktrunc";
    /// Read an extent with a map of its holes.
    SPARSE_READ = 0x1205 "sparse-read";
    /// Notify the watchers.
    NOTIFY = 0x1206 "notify";
    /// A watcher's acknowledgement of a notify.
    NOTIFY_ACK = 0x1207 "notify-ack";
    /// Fail unless the object's user version matches.
    ASSERT_VER = 0x1208 "assert-version";
    /// Lists those who watch.
    LIST_WATCHERS = 0x1209 "list-watchers";
    /// The object's clones.
    LIST_SNAPS = 0x120a "list-snaps";
    /// A read ordered with writes; old.
    SYNC_READ = 0x120b "sync_read";
    /// Read the trivial map; obsolete.
    TMAPGET = 0x120c "tmapget";
    /// Keys of the omap.
    OMAPGETKEYS = 0x1211 "omap-get-keys";
    /// Keys and values of the omap.
    OMAPGETVALS = 0x1212 "omap-get-vals";
    /// Header of the omap.
    OMAPGETHEADER = 0x1213 "omap-get-header";
    /// Values of named keys.
    OMAPGETVALSBYKEYS = 0x1214 "omap-get-vals-by-keys";
    /// Compare omap values.
    OMAP_CMP = 0x1219 "omap-cmp";
    /// Cache tiering: is the object dirty.
    ISDIRTY = 0x121d "isdirty";
    /// Read for a copy, OSD to OSD.
    COPY_GET = 0x121e "copy-get";
    /// Checksums of an extent.
    CHECKSUM = 0x121f "checksum";
    /// Compare an extent.
    CMPEXT = 0x1220 "cmpext";

    /// Write an extent.
    WRITE = 0x2201 "write";
    /// Replace the content.
    WRITEFULL = 0x2202 "writefull";
    /// Cut or grow.
    TRUNCATE = 0x2203 "truncate";
    /// Zero an extent.
    ZERO = 0x2204 "zero";
    /// Remove the object.
    DELETE = 0x2205 "delete";
    /// Write at the end.
    APPEND = 0x2206 "append";
    /// Obsolete.
    STARTSYNC = 0x2207 "startsync";
    /// Unused by clients.
    SETTRUNC = 0x2208 "settrunc";
    /// Unused by clients.
    TRIMTRUNC = 0x2209 "trimtrunc";
    /// Replace the trivial map; obsolete.
    TMAPPUT = 0x220b "tmapput";
    /// Create, exclusively with the op flag.
    CREATE = 0x220d "create";
    /// Back to a snapshot.
    ROLLBACK = 0x220e "rollback";
    /// Register, renew or end a watch.
    WATCH = 0x220f "watch";
    /// Set omap values.
    OMAPSETVALS = 0x2215 "omap-set-vals";
    /// Set the omap header.
    OMAPSETHEADER = 0x2216 "omap-set-header";
    /// Remove all of the omap.
    OMAPCLEAR = 0x2217 "omap-clear";
    /// Remove keys.
    OMAPRMKEYS = 0x2218 "omap-rm-keys";
    /// Copy another object's content here.
    COPY_FROM = 0x221a "copy-from";
    /// Cache tiering: clear the dirty mark.
    UNDIRTY = 0x221c "undirty";
    /// Tells how the object will be used.
    SETALLOCHINT = 0x2223 "set-alloc-hint";
    /// Cache tiering.
    CACHE_PIN = 0x2224 "cache-pin";
    /// Cache tiering.
    CACHE_UNPIN = 0x2225 "cache-unpin";
    /// Write a pattern repeatedly.
    WRITESAME = 0x2226 "write-same";
    /// Tiering.
    SET_REDIRECT = 0x2227 "set-redirect";
    /// Tiering.
    TIER_PROMOTE = 0x2229 "tier-promote";
    /// Tiering.
    UNSET_MANIFEST = 0x222a "unset-manifest";
    /// Remove a range of keys.
    OMAPRMKEYRANGE = 0x222c "omap-rm-key-range";
    /// Copy with a truncation point.
    COPY_FROM2 = 0x222d "copy-from2";

    /// Change the trivial map; obsolete.
    TMAPUP = 0x320a "tmapup";
    /// Turn a trivial map into omap.
    TMAP2OMAP = 0x3222 "tmap2omap";

    /// Cache tiering.
    CACHE_FLUSH = 0x821f "cache-flush";
    /// Cache tiering.
    CACHE_EVICT = 0x8220 "cache-evict";
    /// Cache tiering.
    CACHE_TRY_FLUSH = 0x8221 "cache-try-flush";
    /// Tiering.
    SET_CHUNK = 0x8228 "set-chunk";
    /// Tiering.
    TIER_FLUSH = 0x822b "tier-flush";
    /// Tiering.
    TIER_EVICT = 0x822c "tier-evict";

    /// One attribute.
    GETXATTR = 0x1301 "getxattr";
    /// All attributes.
    GETXATTRS = 0x1302 "getxattrs";
    /// Compare an attribute.
    CMPXATTR = 0x1303 "cmpxattr";
    /// Set an attribute.
    SETXATTR = 0x2301 "setxattr";
    /// Unused by clients.
    SETXATTRS = 0x2302 "setxattrs";
    /// Unused by clients.
    RESETXATTRS = 0x2303 "resetxattrs";
    /// Remove an attribute.
    RMXATTR = 0x2304 "rmxattr";

    /// A method of an object class. Whether it writes is the method's property; the code's read bit says nothing.
    CALL = 0x1401 "call";

    /// List objects of the default namespace.
    PGLS = 0x1501 "pgls";
    /// The same with a filter.
    PGLS_FILTER = 0x1502 "pgls-filter";
    /// Cache tiering.
    PG_HITSET_LS = 0x1503 "pg-hitset-ls";
    /// Cache tiering.
    PG_HITSET_GET = 0x1504 "pg-hitset-get";
    /// List objects of one or all namespaces.
    PGNLS = 0x1505 "pgnls";
    /// The same with a filter.
    PGNLS_FILTER = 0x1506 "pgnls-filter";
    /// Inconsistencies found by scrub.
    SCRUBLS = 0x1507 "scrubls";

    /// Reads an object for a copy within this cluster; not a code of Ceph's.
    COPY_READ = 0x12f0 "copy-read";
}

/// Returns true if the code says that the operation reads the object. For [`CALL`] the method decides.
pub const fn reads(code: u16) -> bool {
    code & 0x1000 != 0 && code != CALL
}

/// Returns true if the code says that the operation changes the object. For [`CALL`] the method decides.
pub const fn writes(code: u16) -> bool {
    code & 0x2000 != 0
}

/// Returns true if the operation is one of cache tiers' own, which say of themselves neither that they read nor that
/// they write.
pub const fn of_cache(code: u16) -> bool {
    code & 0xf000 == 0x8000
}

/// Returns true if the operation addresses a placement group instead of an object.
pub const fn is_pg_op(code: u16) -> bool {
    code & 0x0f00 == 0x0500
}

/// Flags of a whole request (`CEPH_OSD_FLAG_*`).
#[allow(missing_docs)]
pub mod flags {
    /// Reply wanted (or: this is one) when visible.
    pub const ACK: u32 = 0x1;
    pub const ONNVRAM: u32 = 0x2;
    /// Reply wanted (or: this is one) when durable.
    pub const ONDISK: u32 = 0x4;
    /// Sent before.
    pub const RETRY: u32 = 0x8;
    pub const READ: u32 = 0x10;
    pub const WRITE: u32 = 0x20;
    /// Refuse a snapshot context older than the object's.
    pub const ORDERSNAP: u32 = 0x40;
    pub const PEERSTAT_OLD: u32 = 0x80;
    pub const BALANCE_READS: u32 = 0x100;
    pub const PARALLELEXEC: u32 = 0x200;
    /// Addresses a placement group.
    pub const PGOP: u32 = 0x400;
    pub const EXEC: u32 = 0x800;
    pub const EXEC_PUBLIC: u32 = 0x1000;
    pub const LOCALIZE_READS: u32 = 0x2000;
    /// Order a read with the writes around it.
    pub const RWORDERED: u32 = 0x4000;
    pub const IGNORE_CACHE: u32 = 0x8000;
    pub const SKIPRWLOCKS: u32 = 0x1_0000;
    pub const IGNORE_OVERLAY: u32 = 0x2_0000;
    pub const FLUSH: u32 = 0x4_0000;
    /// The snapshot id names a clone directly.
    pub const MAP_SNAP_CLONE: u32 = 0x8_0000;
    /// Use the request's snapshot context even if the pool has its own snapshots.
    pub const ENFORCE_SNAPC: u32 = 0x10_0000;
    pub const REDIRECTED: u32 = 0x20_0000;
    pub const KNOWN_REDIR: u32 = 0x40_0000;
    /// Try although the cluster or pool is full.
    pub const FULL_TRY: u32 = 0x80_0000;
    /// Do it although the cluster or pool is full.
    pub const FULL_FORCE: u32 = 0x100_0000;
    pub const IGNORE_REDIRECT: u32 = 0x200_0000;
    /// Return each operation's result and output even for writes.
    pub const RETURNVEC: u32 = 0x400_0000;

    const NAMES: [(u32, &str); 27] = [
        (ACK, "ack"),
        (ONNVRAM, "onnvram"),
        (ONDISK, "ondisk"),
        (RETRY, "retry"),
        (READ, "read"),
        (WRITE, "write"),
        (ORDERSNAP, "ordersnap"),
        (PEERSTAT_OLD, "peerstat_old"),
        (BALANCE_READS, "balance_reads"),
        (PARALLELEXEC, "parallelexec"),
        (PGOP, "pgop"),
        (EXEC, "exec"),
        (EXEC_PUBLIC, "exec_public"),
        (LOCALIZE_READS, "localize_reads"),
        (RWORDERED, "rwordered"),
        (IGNORE_CACHE, "ignore_cache"),
        (SKIPRWLOCKS, "skiprwlocks"),
        (IGNORE_OVERLAY, "ignore_overlay"),
        (FLUSH, "flush"),
        (MAP_SNAP_CLONE, "map_snap_clone"),
        (ENFORCE_SNAPC, "enforce_snapc"),
        (REDIRECTED, "redirected"),
        (KNOWN_REDIR, "known_if_redirected"),
        (FULL_TRY, "full_try"),
        (FULL_FORCE, "full_force"),
        (IGNORE_REDIRECT, "ignore_redirect"),
        (RETURNVEC, "returnvec"),
    ];

    /// The flags' names joined by `+`, `-` for none. Unknown bits are left out.
    pub fn names(flags: u32) -> String {
        let set: Vec<&str> = NAMES.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect();
        if set.is_empty() { "-".into() } else { set.join("+") }
    }
}

/// Flags of one operation (`CEPH_OSD_OP_FLAG_*`).
#[allow(missing_docs)]
pub mod op_flags {
    /// Create exclusively.
    pub const EXCL: u32 = 0x1;
    /// Go on if this operation fails.
    pub const FAILOK: u32 = 0x2;
    pub const FADVISE_RANDOM: u32 = 0x4;
    pub const FADVISE_SEQUENTIAL: u32 = 0x8;
    pub const FADVISE_WILLNEED: u32 = 0x10;
    pub const FADVISE_DONTNEED: u32 = 0x20;
    pub const FADVISE_NOCACHE: u32 = 0x40;
    /// With reference counting (tiering).
    pub const WITH_REFERENCE: u32 = 0x80;
}

/// Requests of a WATCH operation.
#[allow(missing_docs)]
pub mod watch_op {
    pub const UNWATCH: u8 = 0;
    /// A watch of clients before release 0.86; treated as [`WATCH`].
    pub const LEGACY_WATCH: u8 = 1;
    pub const WATCH: u8 = 3;
    pub const RECONNECT: u8 = 5;
    pub const PING: u8 = 7;
}

/// Kinds of watch events.
#[allow(missing_docs)]
pub mod watch_event {
    pub const NOTIFY: u8 = 1;
    pub const NOTIFY_COMPLETE: u8 = 2;
    pub const DISCONNECT: u8 = 3;
}

/// Steps of a backoff.
#[allow(missing_docs)]
pub mod backoff_op {
    pub const BLOCK: u8 = 1;
    pub const ACK_BLOCK: u8 = 2;
    pub const UNBLOCK: u8 = 3;
}

/// Ways to compare values. CMPXATTR puts the given value on the left: `GT` holds if it is greater than the stored one.
/// OMAP_CMP, which knows `EQ`, `LT` and `GT` only, puts the stored value on the left.
#[allow(missing_docs)]
pub mod cmp_op {
    pub const EQ: u8 = 1;
    pub const NE: u8 = 2;
    pub const GT: u8 = 3;
    pub const GTE: u8 = 4;
    pub const LT: u8 = 5;
    pub const LTE: u8 = 6;
}

/// Kinds of values that CMPXATTR compares.
#[allow(missing_docs)]
pub mod cmp_mode {
    pub const STRING: u8 = 1;
    /// The value given is a u64, the stored one its decimal text.
    pub const U64: u8 = 2;
}

/// Algorithms of CHECKSUM.
#[allow(missing_docs)]
pub mod checksum_type {
    pub const XXHASH32: u8 = 0;
    pub const XXHASH64: u8 = 1;
    pub const CRC32C: u8 = 2;
}

/// Flags of COPY_FROM.
#[allow(missing_docs)]
pub mod copy_from_flags {
    pub const FLUSH: u8 = 1;
    pub const IGNORE_OVERLAY: u8 = 2;
    pub const IGNORE_CACHE: u8 = 4;
    pub const MAP_SNAP_CLONE: u8 = 8;
    pub const RWORDERED: u8 = 16;
    /// The truncation point of the input counts (COPY_FROM2).
    pub const TRUNCATE_SEQ: u8 = 32;
}

/// Flags of SETALLOCHINT.
#[allow(missing_docs)]
pub mod alloc_hint {
    pub const SEQUENTIAL_WRITE: u32 = 1;
    pub const RANDOM_WRITE: u32 = 2;
    pub const SEQUENTIAL_READ: u32 = 4;
    pub const RANDOM_READ: u32 = 8;
    pub const APPEND_ONLY: u32 = 16;
    pub const IMMUTABLE: u32 = 32;
    pub const SHORTLIVED: u32 = 64;
    pub const LONGLIVED: u32 = 128;
    pub const COMPRESSIBLE: u32 = 256;
    pub const INCOMPRESSIBLE: u32 = 512;
}

/// Operations of POOLOP.
#[allow(missing_docs)]
pub mod pool_op {
    pub const CREATE: u32 = 0x01;
    pub const DELETE: u32 = 0x02;
    pub const AUID_CHANGE: u32 = 0x03;
    pub const CREATE_SNAP: u32 = 0x11;
    pub const DELETE_SNAP: u32 = 0x12;
    pub const CREATE_UNMANAGED_SNAP: u32 = 0x21;
    pub const DELETE_UNMANAGED_SNAP: u32 = 0x22;
}
