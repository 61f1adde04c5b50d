//! One copy of a placement group as a machine without IO: its objects, its log, snapshots, watches, background work, and what it
//! says to the other copies.
//!
//! # The parts
//!
//! | question | file |
//! |---|---|
//! | what does every copy have, whatever part it plays? | `core/` |
//! | which part does this copy play, and when does it change? | `pg/role.rs`; what it knows of the group's life: `history.rs` |
//! | how do copies agree before one serves? | `peering/`; another log is taken up in `core/log_merge.rs` |
//! | what does a copy that leads have, and do? | `primary/`: its first page says which file has what |
//! | what does a copy do that follows? | `replica/` |
//! | how does a group come to be, split, take others in, end? | `pg/` |
//! | what is a change, and how does each copy carry it out? | `body.rs`, `core/apply.rs` |
//! | what does an operation mean? | `ops/`; how a vector of them runs: `ops/run.rs` |
//! | how does the pool keep an object: who gets what, who suffices, whose log counts? | `scheme/`, and no other file |
//! | what has a copy asked others, and who has not answered? | `questions.rs` |
//! | what does a copy ask another one for, that has another shard? | `pieces.rs`; what came: `primary/asking.rs` |
//! | who gets a change, and who is waited for? | `primary/ship.rs`, `primary/members.rs`, `primary/commit.rs` |
//! | what does a copy lack, and how much of each object? | `missing.rs`; what an entry changed: `changed.rs` |
//! | how do objects get to a copy that lacks them? | `primary/recovery.rs`, `primary/backfill.rs`, in pieces of `object.rs`, or only the parts that changed: `primary/parts.rs` |
//! | what do copies say to each other? | `letter.rs`; in one line of text: `line.rs` |
//! | when may a copy that does not lead answer a client's read? | `replica/aside.rs`; the promises behind that: `lease.rs` |
//!
//! Modules use each other in one direction: values (`body`, `entry`, `letter`, ...), then `scheme`, then `core`, `ops` and `scrub`, then `questions`, then `primary`, then `peering`
//! and `replica`, then `pg`.
//!
//! # The life of a group
//!
//! [`Pg::create`] makes a new group and writes its first meta keys; [`Pg::load`] brings one back from the store. A loaded
//! group is not [active](Pg::is_active) until its log and watches were read (the store may have to fetch them); operations
//! that come earlier wait inside the group, and those beyond [`Config::max_waiting`] get a backoff that is lifted when it is
//! active. A map with more groups in the pool makes the group split by itself: it stops serving, gives its siblings
//! their share of log, snapshot index, watches and statistics, waits until all is durable, says [`Effect::Split`],
//! and goes on. Objects do not move: their place in the store is by pool and hash. A split that a crash interrupted is done
//! again after [`Pg::load`]. After a start an OSD loads whatever scope the store has; a sibling whose split was not finished
//! ends with [`Effect::Removed`] and comes again with [`Effect::Split`]. [`Pg::remove`] deletes everything, in steps, and ends
//! with [`Effect::Removed`] too.
//!
//! # How it is driven
//!
//! The OSD hands in operations ([`Pg::handle_op`]), the store's events whose hold or ticket carries the group's slot
//! ([`Pg::store_event`]), replies to [`Effect::Fetch`] ([`Pg::fetched`]), maps ([`Pg::new_map`], also once right after
//! `create` and `load` if the map changed since), ends of sessions ([`Pg::session_closed`]), and the time ([`Pg::turn`], at
//! the latest at [`Pg::deadline`]). Each call may push effects into [`Ctx::out`]; nothing else happens. Before handing an
//! operation in the OSD has checked that the map is at least as new as the operation's epoch, that this OSD is the group's
//! primary, and the capabilities ([`needs`] says what an operation does).
//!
//! # The life of an operation
//!
//! 1. *Discard*: hash not in this group, session gone, blocklisted (ESHUTDOWN), malformed (EINVAL and relatives).
//! 2. *Lane*: operations of one object (head and clones together) run one after the other. A lane is held only while its
//!    operation waits for something to be fetched; internal work on an object (watch expiry, trimming) goes through it too.
//! 3. *Duplicate*: a write whose request id is in the log is answered from it; one in flight is waited for.
//! 4. *Execution* is a plain function over the store's submitted state (so it sees writes that are not durable yet) and
//!    yields an outcome, or what it misses. What it misses is fetched under the operation's [`objectstore::Hold`], then it runs
//!    again from the start. A copy from another object is such a miss too.
//!    Within one vector, data, attributes and omap are read as they were before the vector; existence, size and
//!    watchers as the operations before left them (so does Ceph).
//! 5. *Submission*: a write becomes a body, and the body one transaction here and on each other copy: changes of objects, the
//!    log entry, the group's info with its statistics. From here on the next operation of the lane runs; a failed write leaves
//!    a log entry too.
//! 6. *Reply*: a write's when it is durable here and at all members that serve; a read's when everything it may have seen is. Replies of one
//!    object leave in the order of execution.
//!
//! # What is stored
//!
//! Meta keys of the group's scope (see `meta.rs`): `i` the info, `h` the history, `l`+version a log entry, `d`+version a page of
//! entries that left the log, `x`+object an object that is missing here, `s`+snap+object the snapshot index, `w`+object the
//! objects that have watchers. Each object's record
//! ([`objectstore::ObjectStat::info`], see `info.rs`) holds version, times, snapshots and watchers, about 40 to 100 bytes.

#![forbid(unsafe_code)]

mod api;
mod body;
mod changed;
mod codec;
mod core;
mod entry;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod history;
mod info;
mod lease;
mod letter;
#[cfg(any(test, feature = "sim"))]
mod level;
mod line;
mod log;
mod meta;
mod missing;
mod needs;
mod object;
mod ops;
mod peering;
mod pg;
mod pieces;
mod primary;
mod questions;
mod recorder;
mod replica;
mod scheme;
mod scrub;
#[cfg(any(test, feature = "sim"))]
mod selfcheck;
mod sizes;
mod stats;
mod watch;

pub use api::{
    ClientOp, ClusterLevel, Config, Ctx, Effect, Gone, LogSize, MaybeHas, Needs, Peer, PeerQuery, Query, UnfoundObject,
    UnfoundPage, slot_of,
};
pub use info::recorded_size;
pub use lease::Leases;
pub use letter::{Envelope, OfNone, Sealed, answer_of_none};
pub use needs::needs;
pub use pg::{Legacy, Pg, descends};
pub use primary::reserve::{SlotSide, SlotWish, SlotWishes};
pub use primary::scrub::ScrubState;
pub use primary::unfound::Mercy;
pub use recorder::{CopyTime, Nobody, OpKey, Recorder, Step};
pub use replica::aside::is_aside;
#[cfg(feature = "sim")]
pub use selfcheck::{Mistake, change_in, omap_in, shards_in, version_in};
pub use sizes::Sizes;
