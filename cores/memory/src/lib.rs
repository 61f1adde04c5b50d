//! How much memory each OSD of a process may take, found from what the host and the process's control groups have. No
//! IO: whoever asks brings readings, and the time.
//!
//! # What is given
//!
//! Once a second, a [`Reading`]: what the process has resident, and one [`Domain`] for the host and for each control
//! group above the process that has a limit. Each tells its size, what is available in it (free, or taken by files'
//! pages that can go at once), how long its tasks waited for memory of late, and what other servers like this one have
//! there. And for each OSD a [`node::MemoryWish`]: the most that it would take (4 GiB unless it was told otherwise), or
//! what it takes in any case.
//!
//! # What is decided
//!
//! A [`node::MemoryShare`] for each OSD. It is the part of the process's resident memory that is the OSD's: caches,
//! requests and answers on their way, logs, maps, and what all of them waste.
//!
//! 1. *Room.* A domain gives the process what it has resident and what is available, less a reserve (an eighth of the
//!    domain; twice that while tasks wait for memory and little is available). Of a host all servers together take
//!    three quarters at most: other programs' files have pages, too.
//! 2. *Fair.* All servers of a domain pool what they have with what is available, and each OSD has the same part of
//!    that. A server that came first so gives room to those that come later; nobody takes what is not there yet.
//! 3. *Waste.* What the process has resident above what it was given, for as long as ten seconds (a program has parts
//!    that no OSD counts, an allocator has holes), is taken off. So a share is met although nobody counts exactly; this
//!    fades away within minutes when it is over.
//! 4. *Calm.* Less counts at once (from a thirty-second on), more only when there was a sixteenth more for ten seconds,
//!    and then the least of these. The first decision counts as it is: a server that starts has all of its memory at
//!    once.
//! 5. *Division.* OSDs that want less than their part leave the rest to the others. Nobody has less than
//!    [`node::MemoryWish::LEAST`], with which an OSD works, slowly; if there is not even that, [`Governor::short`]
//!    tells.
//!
//! # Why it does not swing
//!
//! What caches do with a share changes what is resident and what is available by the same amount in opposite
//! directions, so it does not change the room. Only others do, and the waste. A share that is lowered is given back
//! within a second or two; meanwhile the waste looks larger than it is, which is why the least of ten seconds counts.
//!
//! # Where readings come from
//!
//! [`text`] reads `/proc` and `/sys/fs/cgroup` as text; the files are opened by the program around it.

#![forbid(unsafe_code)]

mod governor;
pub mod text;

pub use governor::{Domain, Governor, Others, Reading};
