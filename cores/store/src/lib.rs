//! The store owns one disk: journal, index, extents, allocator, checksums. It does no input or output itself: it asks
//! for disk requests and is told how they ended. `docs/format/store.md` has the disk format, the order of writes, and
//! why each crash is survived.
//!
//! Modules below use those above, and not the other way round:
//!
//! | module | what it decides |
//! |---|---|
//! | `config`, `block`, `checked`, `onode`, `names`, `sparse` | sizes; places of blocks; checksums; entries and names of objects; a disk for tests |
//! | `index`, `superblock`, `journal` | keys, layers of changes, pages, the tree; where all begins; the ring, groups, records |
//! | `wish`, `held`, `pieces`, `io` | what a look-up can miss, and what was fetched of it; requests to the disk |
//! | `space` | which blocks are free, promised, referred to; what the host can still give |
//! | `cache`, `memory`, `shed` | what is kept in memory, and how much; what is dropped bit by bit |
//! | `waiting`, `pipeline` | transactions that wait to be carried out; records that are in no group yet |
//! | `opening`, `due`, `flight`, `doubts`, `scattered` | how far opening is; when a checkpoint is due; how far one is; what it could not read; how far defragmentation is |
//! | `store` | all of that as one state; rounds and completions |
//! | `read`, `family`, `fetch`, `exec`, `commit`, `api` | reading; omaps that objects share; fetching; what a transaction does; its way to the disk; the interface |
//! | `checkpoint`, `impaired`, `defrag` | freeze, move, merge, flip; what a damaged page of the index means; objects in one piece again |
//! | `open`, `fsck` | making, opening, replay; checking a stopped store |

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
mod defrag;
mod doubts;
mod due;
mod exec;
mod family;
mod fetch;
mod flight;
pub mod fsck;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod held;
mod impaired;
mod index;
mod io;
mod journal;
mod memory;
#[cfg(test)]
mod mistake;
mod names;
mod onode;
mod open;
mod opening;
mod pieces;
mod pipeline;
mod read;
mod scattered;
#[cfg(any(test, feature = "sim"))]
mod selfcheck;
mod shed;
mod space;
#[cfg(any(test, feature = "sim"))]
pub mod sparse;
mod store;
mod superblock;
#[cfg(any(test, feature = "sim"))]
pub mod testdisk;
#[cfg(test)]
mod tests;
mod waiting;
mod wish;
mod yielding;

/// Newest disk format that is read, and the one that is written.
pub const FORMAT: u32 = superblock::VERSION;

/// Bytes of the data disk that the store has whose superblock is in these bytes, as far as it is whole.
pub fn bytes_of_disk(superblock: &[u8]) -> Option<u64> {
    let sb = superblock::Superblock::parse(superblock).ok().flatten()?;
    Some(sb.blocks * block::BLOCK as u64)
}

pub use config::{Config, OpenError};
pub use counters::{Counters, Defrag, Memory};
#[cfg(any(test, feature = "sim"))]
pub use scattered::MoveMistake;
pub use store::Store;
