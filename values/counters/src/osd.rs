//! Counters of an OSD.

use crate::{Counter, Family, Section, average, count, level};

/// All sections, in the order in which `perf dump` shows them.
pub const SECTIONS: &[Section] = &[OSD, STAGES, PACE, REACTOR, PG, STORE, MEMORY];

/// Operations, changes for other OSDs, groups, space: with Ceph's names where Ceph has them.
pub const OSD: Section = Section {
    name: "osd",
    about: "of this OSD",
    counters: &[
        level("op_wip", "Operations of clients that are not answered yet").useful().ceph(),
        count("op", "Operations of clients").ranked(10, "ops").ceph(),
        count("op_in_bytes", "Bytes that clients wrote").bytes().ranked(8, "wr").ceph(),
        count("op_out_bytes", "Bytes that clients read").bytes().ranked(8, "rd").ceph(),
        average("op_latency", "From an operation's arrival until its answer left").ranked(9, "l").ceph(),
        average("op_process_latency", "The same without the time in queues").useful().ceph(),
        average("op_prepare_latency", "Execution: until the store has the operation").useful().ceph(),
        count("op_r", "Number of reads").useful().ceph(),
        count("op_r_out_bytes", "Bytes that clients got by reads").bytes().useful().ceph(),
        average("op_r_latency", "Reads: from the arrival until the answer left").useful().ceph(),
        average("op_r_process_latency", "Reads: the same without the time in queues").useful().ceph(),
        average("op_r_prepare_latency", "Reads: until the store has it").useful().ceph(),
        count("op_w", "Number of writes").useful().ceph(),
        count("op_w_in_bytes", "Bytes that clients sent with writes").bytes().useful().ceph(),
        average("op_w_latency", "Writes: from the arrival until the answer left").useful().ceph(),
        average("op_w_process_latency", "Writes: the same without the time in queues").useful().ceph(),
        average("op_w_prepare_latency", "Writes: until the store has it").useful().ceph(),
        count("op_rw", "Number of operations that read and write").useful().ceph(),
        count("op_rw_in_bytes", "Bytes that clients sent with operations that read and write").bytes().useful().ceph(),
        count("op_rw_out_bytes", "Bytes that clients got by operations that read and write").bytes().useful().ceph(),
        average("op_rw_latency", "Operations that read and write: from the arrival until the answer left").useful().ceph(),
        average("op_rw_process_latency", "Operations that read and write: the same without the time in queues").useful().ceph(),
        average("op_rw_prepare_latency", "Operations that read and write: until the store has it").useful().ceph(),
        count("op_dropped", "Operations that were dropped unanswered: their clients send them again").ours(),
        count("op_denied", "Operations that were refused for want of rights").ours(),
        count("maps_shared", "Messages with OSD maps for clients and OSDs that had older ones").ours(),
        count("reactor_rounds", "Rounds of this OSD").ours(),
        count("rounds_congested", "Rounds in which nothing was received from clients, as the store was congested").ours(),
        count("answers_held", "Operations that waited until earlier answers to their session had left").ours(),
        count("letters_sent", "Messages to other copies of groups").ours(),
        count("boots_asked", "Requests to the monitors to be marked up").ours(),
        level("uptime", "Seconds since the start").ours(),
        count("subop", "Changes that other OSDs sent to copies here").ceph(),
        count("subop_in_bytes", "Bytes of these").bytes().ceph(),
        average("subop_latency", "From a change's arrival until it was durable here").ceph(),
        count("subop_w", "Changes by clients' writes, and by work of the group").ceph(),
        count("subop_w_in_bytes", "Bytes of these").bytes().ceph(),
        average("subop_w_latency", "The same of these").ceph(),
        count("subop_push", "Changes that brought objects that a copy lacked").ceph(),
        count("subop_push_in_bytes", "Bytes of these").bytes().ceph(),
        average("subop_push_latency", "The same of these").ceph(),
        count("replica_read", "Reads that clients sent to a copy that does not lead").ceph(),
        count("replica_read_served", "Those that were answered here").ceph(),
        count("replica_read_redirect", "Those that were sent to the primary").ceph(),
        level("numpg", "Placement groups of which a copy is here").useful().ceph(),
        level("numpg_primary", "Those that this OSD leads").ceph(),
        level("numpg_replica", "The others").ceph(),
        count("recovery_ops", "Objects with which recovery began, without those that clients waited for").ceph(),
        count("images_left_out", "Operations on images for which there was no room in the figures of images").ours(),
        level("stat_bytes", "Bytes of the disk").bytes().useful().ceph(),
        level("stat_bytes_used", "Bytes in use").bytes().useful().ceph(),
        level("stat_bytes_avail", "Bytes that are free").bytes().ceph(),
    ],
};

const fn stage(name: &'static str, help: &'static str) -> Counter {
    average(name, help).told(Family::Stage)
}

/// Times of operations. The stages of one operation add up to its total.
pub const STAGES: Section = Section {
    name: "stages",
    about: "time of operations by stage",
    counters: &[
        stage("read_queued", "Reads: until the last, successful execution began; data that it waited for is in it"),
        stage("read_executing", "Reads: the operation over the object, and the store's taking it"),
        stage("read_journaling", "Reads: reads have no such stage: always 0"),
        stage("read_copying", "Reads: reads have no such stage: always 0"),
        stage("read_replying", "Reads: until all sends of the round were handed over"),
        average("read_total", "Reads: all").useful(),
        stage("write_queued", "Writes: until the last, successful execution began; data that it waited for is in it"),
        stage("write_executing", "Writes: the operation over the object, and the store's taking it"),
        stage("write_journaling", "Writes: until the change was durable here"),
        stage("write_copying", "Writes: from then until all other copies had it durable"),
        stage("write_replying", "Writes: until all sends of the round were handed over"),
        average("write_total", "Writes: all").useful(),
        stage(
            "read_write_queued",
            "Operations that read and write: until the last, successful execution began; data that it waited for is in it",
        ),
        stage("read_write_executing", "Operations that read and write: the operation over the object, and the store's taking it"),
        stage("read_write_journaling", "Operations that read and write: until the change was durable here"),
        stage("read_write_copying", "Operations that read and write: from then until all other copies had it durable"),
        stage("read_write_replying", "Operations that read and write: until all sends of the round were handed over"),
        average("read_write_total", "Operations that read and write: all").useful(),
        stage("copy_queued", "Changes of other OSDs: until the store had them"),
        stage("copy_journaling", "Changes of other OSDs: until they were durable here"),
    ],
};

const fn pace(name: &'static str, help: &'static str) -> Counter {
    level(name, help).told(Family::Pace)
}

/// Counters of how recovery yields to clients.
pub const PACE: Section = Section {
    name: "pace",
    about: "pace of recovery",
    counters: &[
        pace("window", "Objects that may be on their way at a time; below 1 there are pauses"),
        pace("moving", "Objects that are on their way"),
        pace("groups_held_back", "Groups that would begin with more"),
        pace("baseline_us", "What clients feel while nothing is brought, in microseconds"),
        pace("felt_us", "What they felt when objects moved last, in microseconds"),
        pace("halved", "How often the window was halved, since the start"),
        pace("widened", "How often it became wider, since the start"),
        pace("rests", "How often recovery rested, to see what clients feel without it, since the start"),
    ],
};

/// Turns of a daemon's thread.
pub(crate) const TURNS: &[Counter] = &[
    count("idle_rounds", "Turns for which nothing had come in: a deadline had come"),
    count("vain_rounds", "Those of them that put nothing out, and after which the deadline was past again"),
    count("held_rounds", "Those of them after which the daemon was made to wait, since there were too many"),
    count("long_calls", "Calls that took more than 5 ms: others of the thread waited").useful(),
    count("long_calls_us", "Time that these took together, in microseconds"),
];

/// Turns of the OSD's thread.
pub const REACTOR: Section = Section { name: "reactor", about: "turns of the thread", counters: TURNS };

/// Memory that placement groups and maps hold.
pub const PG: Section = Section {
    name: "pg",
    about: "what groups and maps hold",
    counters: &[
        level("pgs", "Placement groups of which a copy is here"),
        level("log_entries", "Entries of their logs"),
        level("log_dups", "Requests that are remembered beyond the logs"),
        level("log_bytes", "Bytes of both in memory").bytes(),
        level("map_epochs", "Changes of the OSD map that are kept"),
        level("map_bytes", "Bytes of them, and of the full map").bytes(),
    ],
};

/// Work of the store since it was opened.
pub const STORE: Section = Section {
    name: "store",
    about: "what the store did",
    counters: &[
        count("commits", "Transactions that became durable").told(Family::Named("nacre_osd_commits_total")),
        count("journal_groups", "Journal groups written"),
        count("journal_bytes", "Bytes written to the journal").bytes().told(Family::Named("nacre_osd_journal_bytes_total")),
        count("direct_bytes", "Bytes of data written to extents at once (large writes)").bytes(),
        count("moved_bytes", "Bytes that checkpoints moved from the journal to their places")
            .bytes()
            .told(Family::Named("nacre_osd_moved_bytes_total")),
        count("ahead_bytes", "Bytes of zeros written to space that is kept ready").bytes(),
        count("index_bytes", "Bytes of index pages written").bytes(),
        count("checkpoints", "Checkpoints that were completed"),
        count("data_hits", "Runs of data blocks that reads found in memory"),
        count("data_misses", "Runs of data blocks that reads had to fetch"),
        count("page_hits", "Index pages found in memory"),
        count("page_misses", "Index pages that had to be fetched"),
        count("objects_found", "Entries of objects that were found in memory").told(Family::Named("ceph_bluestore_onode_hits")),
        count("objects_read", "Entries of objects that were looked for in the index")
            .told(Family::Named("ceph_bluestore_onode_misses")),
        count("damaged", "Reads that found damage").useful().told(Family::Named("nacre_osd_damaged_reads_total")),
        count("stalled", "Transactions that waited for something to be read").useful(),
    ],
};

const fn memory(name: &'static str, help: &'static str) -> Counter {
    level(name, help).told(Family::Memory)
}

/// Memory that the store holds.
pub const MEMORY: Section = Section {
    name: "store_memory",
    about: "memory of the store",
    counters: &[
        memory("blocks", "Bytes of cached blocks of data"),
        memory("pages", "Bytes of cached index pages"),
        memory("records", "Bytes of data that is in the journal only"),
        memory("delta", "Bytes of index changes since the last checkpoint"),
        memory("maps", "Bytes of the maps of free blocks"),
        memory("onodes", "Number of cached entries of objects"),
        memory("ranges", "Number of cached ranges of larger objects"),
        memory("buffers", "Bytes of buffers that the OSD's thread keeps for requests and answers"),
        memory("target", "Bytes that the OSD may hold"),
    ],
};
