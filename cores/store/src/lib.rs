//! The store owns one disk: journal, index, extents, allocator, checksums. It does no input or output itself: it asks
//! for disk requests and is told how they ended. `docs/format/store.md` has the disk format, the order of writes, and
//! why each crash is survived.
//!
//! | room | what it decides |
//! |---|---|
//! | `store` | the state as a whole, rounds and completions |
//! | `api`, `read`, `fetch` | reading: what is in memory, what is missed, what is kept for whom |
//! | `waiting` | transactions that wait to be carried out |
//! | `exec` | what a transaction does, on a layer of its own |
//! | `commit` | the way of a transaction: room, place, record, group |
//! | `pipeline` | records that are in no group yet, and which may go |
//! | `journal` | the ring, the order of groups, where the data of records is |
//! | `index` | keys, layers of changes, pages, the tree |
//! | `checkpoint` | freeze, move, merge, flip |
//! | `space` | free blocks, references |
//! | `cache`, `memory` | what is kept in memory, and how much |
//! | `open` | making, opening, replay |
//! | `fsck` | checking a stopped store |

#![forbid(unsafe_code)]

mod api;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
mod block;
mod cache;
mod checked;
mod checkpoint;
mod commit;
mod config;
mod counters;
mod exec;
mod fetch;
pub mod fsck;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod impaired;
mod index;
mod io;
mod journal;
mod memory;
mod onode;
mod open;
mod pipeline;
mod read;
#[cfg(any(test, feature = "sim"))]
mod selfcheck;
mod space;
mod store;
mod superblock;
#[cfg(any(test, feature = "sim"))]
pub mod testdisk;
#[cfg(test)]
mod tests;
mod waiting;

/// Newest disk format that is read, and the one that is written.
pub const FORMAT: u32 = superblock::VERSION;

pub use config::{Config, OpenError};
pub use counters::{Counters, Memory};
pub use store::Store;
