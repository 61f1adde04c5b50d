//! The scheme of erasure-coded pools: each copy has one shard of each object. The copy at position i of the group's acting
//! set holds shard i; shards 0 to k−1 are data, the others parities.
//!
//! | question | file |
//! |---|---|
//! | where does a byte of an object lie, how long is a shard, which chunk does an object get? | `map.rs` |
//! | how does an operation see an object, and what does a copy answer that is asked for a part of its shard? | `read.rs` |
//! | what does each shard get of a change? | `write.rs` |
//! | who serves? | here |
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
//! *What is not here yet* (decision 40): a copy that lost something, or missed a change, is not brought up. A group serves
//! while the copies at all its positions are there, whole, with the same log; else it waits, and says so.

pub(crate) mod map;
#[cfg(test)]
mod model;
pub(crate) mod read;
pub(crate) mod write;

use super::{Plan, continues};
use crate::info::LARGEST_CHUNK;
use crate::letter::PeerInfo;
use ec::{Code, Profile};
use maps::Interval;
use std::collections::BTreeMap;
use types::{CopyId, HOLE, OsdId};

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

    /// Returns who shall serve: at each position the copy that is up there, or acts there, or any other that has the shard.
    /// `None` if some position has none that is whole and at the end of the log that counts.
    pub(crate) fn plan(&self, infos: &BTreeMap<CopyId, PeerInfo>, interval: &Interval, me: CopyId) -> Option<Plan> {
        let complete = infos.values().filter(|peer| peer.history.created > 0 && peer.history.is_complete());
        let authority = complete.max_by_key(|peer| (peer.history.started, peer.info.last_update))?;
        let head = authority.info.last_update;
        let fit = |copy: &CopyId| {
            let same = |peer: &PeerInfo| peer.info.last_update == head && continues(peer, authority, head);
            infos.get(copy).is_some_and(|peer| peer.history.is_complete() && same(peer))
        };
        let named = |places: &[OsdId], position: usize| {
            places.get(position).map(|osd| CopyId { osd: *osd, shard: me.shard.at(position) })
        };
        let mut plan = Plan::default();
        for position in 0..self.count() {
            let first = [named(&interval.up, position), named(&interval.acting, position)].into_iter().flatten();
            let others = infos.keys().filter(|copy| copy.shard == me.shard.at(position)).copied();
            plan.acting.push(first.chain(others).find(fit).map_or(HOLE, |copy| copy.osd));
        }
        let serves = |copy: &CopyId| me.shard.copies(&plan.acting).any(|other| other == *copy);
        plan.leader = if serves(&me) { me } else { me.shard.copies(&plan.acting).next()? };
        // An OSD at two positions would write letters to itself, which nobody brings.
        let mut osds: Vec<OsdId> = plan.acting.clone();
        osds.sort_unstable();
        let whole = !plan.acting.contains(&HOLE) && osds.windows(2).all(|pair| pair[0] != pair[1]);
        whole.then_some(plan)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::history::History;
    use crate::meta::Info;
    use types::{EVersion, HObject, ShardId};

    /// A scheme of this technique, or of the default one.
    pub(crate) fn shards(k: usize, m: usize, more: &str) -> Shards {
        let words = format!("plugin=jerasure k={k} m={m} {more}");
        let profile = words.split_ascii_whitespace().filter_map(|word| word.split_once('='));
        let mut profile: BTreeMap<String, String> = profile.map(|(key, value)| (key.into(), value.into())).collect();
        profile.entry("technique".into()).or_insert_with(|| "reed_sol_van".into());
        Shards::of(&profile, 64 << 10).expect("a profile")
    }

    fn peer(started: u32, head: u64) -> PeerInfo {
        let last_update = if head > 0 { EVersion::new(1, head) } else { EVersion::default() };
        let runs = if head > 0 { vec![(1, head)] } else { Vec::new() };
        let history = History { created: u32::from(started > 0), started, ..History::default() };
        PeerInfo { info: Info { last_update, ..Info::default() }, history, runs, ..PeerInfo::default() }
    }

    fn at(osd: OsdId, shard: i8) -> CopyId {
        CopyId { osd, shard: ShardId(shard) }
    }

    fn interval(acting: &[OsdId]) -> Interval {
        Interval { up: acting.to_vec(), acting: acting.to_vec(), size: 3, ..Interval::default() }
    }

    #[test]
    fn a_group_serves_with_all_its_shards_at_the_end_of_one_log() {
        let shards = shards(2, 1, "");
        let all = BTreeMap::from([(at(4, 0), peer(7, 9)), (at(2, 1), peer(7, 9)), (at(5, 2), peer(7, 9))]);
        let plan = |infos: &BTreeMap<CopyId, PeerInfo>, acting: &[OsdId], me| shards.plan(infos, &interval(acting), me);
        let good = Plan { leader: at(4, 0), acting: vec![4, 2, 5], backfill: Vec::new() };
        assert_eq!(plan(&all, &[4, 2, 5], at(4, 0)), Some(good.clone()));
        // A shard that is elsewhere serves from there.
        assert_eq!(plan(&all, &[4, 3, 5], at(4, 0)), Some(good));
        // One is away; one is behind; one is ahead: a change that was torn; one is being filled.
        let without = |copy| all.iter().filter(|(of, _)| **of != copy).map(|(of, peer)| (*of, peer.clone())).collect();
        assert_eq!(plan(&without(at(2, 1)), &[4, HOLE, 5], at(4, 0)), None);
        for odd in [peer(7, 8), peer(7, 10), peer(0, 0)] {
            let mut infos = all.clone();
            infos.insert(at(2, 1), odd);
            assert_eq!(plan(&infos, &[4, 2, 5], at(4, 0)), None);
        }
        let mut filled = all.clone();
        let history = History { backfill: Some(HObject::min()), ..peer(7, 9).history };
        filled.insert(at(2, 1), PeerInfo { history, ..peer(7, 9) });
        assert_eq!(plan(&filled, &[4, 2, 5], at(4, 0)), None);
        // The shard of another position is none for this one.
        let mut swapped: BTreeMap<CopyId, PeerInfo> = without(at(2, 1));
        swapped.insert(at(2, 0), peer(7, 9));
        assert_eq!(plan(&swapped, &[4, 2, 5], at(4, 0)), None);
    }

    #[test]
    fn a_new_group_has_nothing_that_could_be_lacking() {
        let shards = shards(2, 1, "");
        let infos = BTreeMap::from([(at(4, 0), peer(1, 0)), (at(2, 1), peer(0, 0)), (at(5, 2), peer(0, 0))]);
        let plan = shards.plan(&infos, &interval(&[4, 2, 5]), at(4, 0)).expect("a plan");
        assert_eq!(plan.acting, [4, 2, 5]);
    }
}
