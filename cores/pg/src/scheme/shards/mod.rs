//! The scheme of erasure-coded pools: each copy has one shard of each object. The copy at position i of the group's acting
//! set holds shard i; shards 0 to k−1 are data, the others parities.
//!
//! | question | file |
//! |---|---|
//! | where does a byte of an object lie, how long is a shard, which chunk does an object get? | `map.rs` |
//! | how does an operation see an object, and what does a copy answer that is asked for a part of its shard? | `read.rs` |
//! | what does each shard get of a change? | `write.rs` |
//! | how are shards made of others, for a read or for a copy that lacks its own? | `remake.rs` |
//! | what was before a change, and what undoes it? | `undo.rs` |
//! | whose log counts, up to where, and who serves? | `plan.rs` |
//!
//! *Data.* [`Shards`] is a value: the code, and how chunks are chosen. Nothing here has state. What a job got of other
//! shards is the job's ([`crate::pieces::Pieces`]).
//!
//! *The way of an operation.* The primary runs it over an [`read::Eye`], which answers in offsets of the object as clients
//! know it, from the object's record, the own shard and the pieces that came. What is not there is noted, the job asks the
//! copies that have it, and runs again when all have answered. A change comes out in offsets of the object, too;
//! [`Shards::share`] makes of it what each shard gets, and reads what it needs through the same eye. Only then is anything
//! submitted. Log entries, statistics and index are the same at all copies.
//!
//! *Invariants.*
//!
//! - An object's record is the same on all shards; it has the object's size, and its chunk. The store's size of a shard is
//!   what [`Shards::length`] says of that record, and is compared with it at each read. It is never taken for the object's.
//! - In each row the parities are the code of the data, where bytes behind a shard's end count as zeros.
//! - Bytes of the object that were never written are zeros, and are stored nowhere.
//! - No read is made of two versions of an object (`pieces.rs`).
//!
//! *Fewer shards.* k of the shards are enough for everything: a read, a change, a shard that is made anew. What cannot be
//! had of a shard is noted with the pieces ([`crate::pieces::Pieces::give_up`]), and the eye reads around it.

pub(crate) mod map;
#[cfg(test)]
mod model;
mod plan;
pub(crate) mod read;
mod remake;
mod undo;
pub(crate) mod write;

use crate::info::LARGEST_CHUNK;
use ec::{Code, Profile};
use std::collections::BTreeMap;

/// How a pool of shards keeps objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shards {
    code: Code,
    /// Bytes of a chunk, if the profile names them; else they are chosen for each object.
    unit: Option<u64>,
    /// Bytes of the largest chunk that is chosen.
    most: u64,
    /// Bytes that chunks are multiples of: blocks of disks, and what the code wants.
    step: usize,
}

impl Shards {
    /// Reads a profile. `most`: bytes of the largest chunk that is chosen for an object.
    ///
    /// # Errors
    /// A sentence that says why this program does not serve it.
    pub(crate) fn of(profile: &BTreeMap<String, String>, most: u64) -> Result<Self, String> {
        let profile = Profile::parse(profile.clone(), true).map_err(|refusal| refusal.text)?;
        if most > LARGEST_CHUNK {
            return Err(format!("chunks of {most} bytes are too large, {LARGEST_CHUNK} are the most"));
        }
        let step = profile.chunk_step().ok_or("its chunks are no multiples of a disk's blocks")?;
        let unit = profile.unit.map(|unit| u64::from(unit).next_multiple_of(step as u64));
        Ok(Self { code: profile.code(), unit, most, step })
    }

    /// Data shards.
    pub(crate) fn k(&self) -> usize {
        self.code.k()
    }

    /// All shards.
    pub(crate) fn count(&self) -> usize {
        self.code.shards()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A scheme of this technique, or of the default one.
    pub(crate) fn shards(k: usize, m: usize, more: &str) -> Shards {
        let words = format!("plugin=jerasure k={k} m={m} {more}");
        let profile = words.split_ascii_whitespace().filter_map(|word| word.split_once('='));
        let mut profile: BTreeMap<String, String> = profile.map(|(key, value)| (key.into(), value.into())).collect();
        profile.entry("technique".into()).or_insert_with(|| "reed_sol_van".into());
        Shards::of(&profile, 64 << 10).expect("a profile")
    }
}
