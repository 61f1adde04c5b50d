//! Which keys an experiment file may have, and what each may say.

/// Kind of a key's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Any text.
    Text,
    /// A whole number, not below and not above these.
    Int(i64, i64),
    /// A number of bytes: `4096`, `"4K"`, `"1G"`.
    Bytes,
    /// A number that is not below this.
    Real(f64),
    /// `true` or `false`.
    Bool,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// As it is written.
    pub name: &'static str,
    /// Kind of its value.
    pub kind: Kind,
    /// Its meaning, and its default.
    pub help: &'static str,
}

/// The keys of a table.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// As it is written.
    pub name: &'static str,
    /// `[[name]]`, any number of times.
    pub many: bool,
    /// Keys that must be there.
    pub required: &'static [&'static str],
    /// All keys.
    pub keys: &'static [Key],
}

use Kind::{Bool, Bytes, Int, Real, Text, Word};

const fn key(name: &'static str, kind: Kind, help: &'static str) -> Key {
    Key { name, kind, help }
}

const MOST: i64 = 1 << 40;

/// `[experiment]`
pub const EXPERIMENT: Table = Table {
    name: "experiment",
    many: false,
    required: &["name"],
    keys: &[
        key("name", Text, "short name, without blanks"),
        key("title", Text, "title of the report"),
        key("about", Text, "what is measured and why; a paragraph of the report"),
        key("question", Text, "the question that the first chart answers"),
        key("seconds", Real(0.1), "length of each measurement [5]"),
        key("ramp", Real(0.0), "seconds of the same load before, not counted [0]"),
        key("cooldown", Real(0.0), "seconds of rest after each measurement [0.3]"),
        key("prefill", Real(0.0), "seconds of writing before reads of a size that was not written yet [as seconds]"),
        key(
            "prefill_objects",
            Int(1, MOST),
            "rados: objects that each client writes before reads instead, so that all clusters read as many",
        ),
        key("repeats", Int(1, 1000), "how often every permutation is measured [3]"),
        key(
            "order",
            Word(&["interleaved", "grouped", "random"]),
            "clusters in turn within each repeat, or one after the other [interleaved]",
        ),
        key("seed", Int(0, MOST), "of the random order [1]"),
        key(
            "running",
            Word(&["alone", "frozen", "together"]),
            "one cluster at a time, made afresh for each repeat; or all of them, stopped by SIGSTOP while another is measured; or all of \
             them under load at once, made afresh for each repeat, for small differences of processor time on a noisy machine [alone]",
        ),
        key("drop_caches", Word(&["never", "before-reads", "always"]), "drop the page cache and the OSDs' own caches [never]"),
        key("scratch", Text, "folder for the clusters and disk files [OUT/scratch]"),
        key("ready", Real(1.0), "seconds after which a cluster that is not healthy has failed [90]"),
        key("patience", Real(1.0), "seconds beyond its length after which a measurement has failed [60]"),
        key("client_cpus", Text, "processors that the tools of workloads may use, as `0` [all]"),
        key("noise", Bool, "measure the first cluster against itself, too, and state the noise [true]"),
    ],
};

/// `[[cluster]]`
pub const CLUSTER: Table = Table {
    name: "cluster",
    many: true,
    required: &["name", "kind"],
    keys: &[
        key("name", Text, "as the report calls it"),
        key(
            "kind",
            Word(&["nacre", "ceph", "existing", "none"]),
            "our own; a real Ceph from packages; one that runs already; none (for baselines of disks and network)",
        ),
        key("program", Text, "nacre: the program to run [this one]"),
        key("release", Int(16, 18), "ceph: 16 is this machine's packages, 18 those in `root` [16]"),
        key(
            "root",
            Text,
            "ceph 18: folder in which Debian 13 is installed, made by mmdebstrap if it is not there [/var/tmp/nacre-lab-ceph18]",
        ),
        key("tcmalloc", Bool, "ceph: preload tcmalloc into the OSDs [false]"),
        key("store", Word(&["bluestore", "filestore", "memstore"]), "ceph: the OSDs' store [bluestore]"),
        key("conf", Text, "existing: its ceph.conf"),
        key("pids", Text, "existing: process ids of its servers here, as `12,13`"),
        key("daemons", Word(&["one", "each"]), "nacre: all in one process, or a process for the monitor and each OSD [one]"),
        key("osds", Int(1, 64), "number of OSDs [1]"),
        key("osds_per_disk", Int(1, 16), "OSDs on each data disk [1]"),
        key("copies", Int(1, 16), "copies of each object [1]"),
        key("pgs", Int(1, 65536), "groups of the pool [32]"),
        key("erasure", Text, "ceph: an erasure-coded pool, as `k=4 m=2`"),
        key("stripe_unit", Bytes, "ceph: bytes of a chunk in a stripe of an erasure-coded pool [4K]"),
        key("memory", Bytes, "memory of each OSD [ceph: 4G; nacre: found by itself]"),
        key("osd_size", Bytes, "most bytes of an OSD that has no disk of its own [20G]"),
        key("auth", Word(&["none", "cephx"]), "authentication [none]"),
        key(
            "gateway",
            Bool,
            "start Ceph's object gateway on it, for workloads of kind `s3`; its data pool is as the measured pool [false]",
        ),
        key("config", Text, "more lines: of [global] of ceph.conf, or options of `nacre up`"),
        key("disk", Text, "name of the [[disk]] for data; each OSD has one of its own"),
        key("journal", Text, "name of the [[disk]] for journals; shared by the OSDs"),
        key("fs", Word(&["none", "xfs", "ext4", "btrfs"]), "file system on the data disk; none is the raw device [none]"),
        key("mkfs", Text, "more options of mkfs [those of the articles]"),
        key("mount", Text, "mount options [those of the articles]"),
        key("cpus", Text, "processors that the servers may use, as `0-1`"),
    ],
};

/// `[[disk]]`
pub const DISK: Table = Table {
    name: "disk",
    many: true,
    required: &["name", "kind"],
    keys: &[
        key("name", Text, "as clusters call it"),
        key(
            "kind",
            Word(&["file", "loop", "device", "model"]),
            "a plain file; a loop device on a file; a block device; a loop device on a model of a slower disk",
        ),
        key("size", Bytes, "bytes of each file [4G]"),
        key("path", Text, "device: the block devices, as `/dev/sdb,/dev/sdc`, one for each OSD"),
        key("direct", Bool, "loop: past the page cache of the file below [true]"),
        key("random_iops", Real(1.0), "model: requests a second that are not next to the one before [no limit]"),
        key("mb_per_second", Real(0.1), "model: million bytes a second [no limit]"),
        key("latency_us", Real(0.0), "model: least time of each request, in microseconds [0]"),
        key("cache", Bytes, "model: write-back cache [0]"),
        key("flush", Word(&["drains", "free"]), "model: a flush waits for the cache, or is free as with a battery [drains]"),
        key("scheduler", Text, "device, loop: I/O scheduler"),
        key("read_ahead_kb", Int(0, 1 << 20), "device, loop: read-ahead"),
        key("rq_affinity", Int(0, 2), "device: processor that ends a request"),
    ],
};

/// `[[workload]]`
pub const WORKLOAD: Table = Table {
    name: "workload",
    many: true,
    required: &["kind"],
    keys: &[
        key("name", Text, "as the report calls it [made from the others]"),
        key(
            "kind",
            Word(&["rados", "rbd", "fio", "tell", "disk", "network", "mixed", "custom", "failover", "s3"]),
            "who makes the load",
        ),
        key("on", Text, "names of the clusters that it is for, as `a,b` [all]"),
        key("layer", Text, "name of the layer in the report's waterfall, as `disk`, `journal`, `osd`, `pool`, `image`"),
        key("mode", Word(&["write", "seq", "rand", "read", "randwrite", "randread", "randrw", "rw", "list"]), "what is done"),
        key("size", Bytes, "bytes of each request [4K]"),
        key("depth", Int(1, 65536), "requests under way, of each client [16]"),
        key("clients", Int(1, 64), "clients at once, results added up [1]"),
        key("reads", Int(0, 100), "randrw, rw, mixed: reads in per cent [80]"),
        key("engine", Word(&["rbd", "rados"]), "fio: the engine [rbd]"),
        key("image", Bytes, "rbd, fio: bytes of the image; disk: bytes that are touched [1G]"),
        key("target", Word(&["data", "journal", "all"]), "disk: which disk; mixed: all at once [data]"),
        key("seconds", Real(0.1), "length, if not the experiment's"),
        key("command", Text, "custom: run by sh with CEPH_CONF, POOL and SECONDS set"),
        key(
            "result",
            Text,
            "custom: regular expression with a group `ops` (all operations), `rate` (each second) or `mb` (MB each second)",
        ),
        key("action", Word(&["kill", "hang", "out", "host"]), "failover: what happens to an OSD, or to all of its host [kill]"),
        key(
            "objects",
            Int(1, MOST),
            "failover: objects under load [500]; s3: objects that reads and lists need [1000, at most 512M]",
        ),
        key("tool", Word(&["http", "boto3"]), "s3: signed HTTP with connections that are kept, or boto3 as users have it [http]"),
        key("option", Text, "more words of the tool's command line"),
    ],
};

/// `[monitor]`
pub const MONITOR: Table = Table {
    name: "monitor",
    many: false,
    required: &[],
    keys: &[
        key("interval", Real(0.05), "seconds between samples [0.5]"),
        key("stages", Bool, "ask the OSDs for their per-stage latencies and slow operations [true]"),
        key(
            "flamegraph",
            Bool,
            "run each workload once more, unmeasured, and draw where the servers' processor time goes; needs perf [false]",
        ),
        key("seeks", Bool, "the same for where on the data disks requests go; needs perf and root [false]"),
    ],
};

/// `[tuning]`
pub const TUNING: Table = Table {
    name: "tuning",
    many: false,
    required: &[],
    keys: &[key("governor", Text, "CPU frequency governor while the experiment runs, as `performance`")],
};

/// `[report]`
pub const REPORT: Table = Table {
    name: "report",
    many: false,
    required: &[],
    keys: &[
        key("group", Text, "key whose values stand side by side on the axis [the first that varies]"),
        key("baseline", Text, "name of the cluster that the others are set beside [the first]"),
        key("metric", Text, "metric of the large charts [ops_per_second, or mb_per_second for large requests]"),
        key("article", Text, "name of the published article that the report is set beside"),
    ],
};

/// All tables that have keys of their own.
pub const TABLES: [Table; 7] = [EXPERIMENT, CLUSTER, DISK, WORKLOAD, MONITOR, TUNING, REPORT];

/// Returns what `nacre lab keys` prints.
pub fn help() -> String {
    let mut text = String::new();
    for table in TABLES {
        let brackets = if table.many { ("[[", "]]") } else { ("[", "]") };
        text += &format!("{}{}{}\n", brackets.0, table.name, brackets.1);
        for key in table.keys {
            let kind = match key.kind {
                Kind::Text => "text".into(),
                Kind::Int(..) => "number".into(),
                Kind::Bytes => "bytes".into(),
                Kind::Real(_) => "number".into(),
                Kind::Bool => "true/false".into(),
                Kind::Word(words) => words.join("/"),
            };
            text += &format!("  {:<14} {kind}: {}\n", key.name, key.help);
        }
        text += "\n";
    }
    text + "[[include]], [[exclude]]: any keys of clusters and workloads, with a value or a list of values.\n\
            Every table may have a table `quick` with the values that hold under --quick.\n"
}
