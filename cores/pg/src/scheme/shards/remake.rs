//! Shards that are made of others: k of any shards give each other one, at the same places.

use super::Shards;
use super::map::{Known, damaged};
use super::read::Eye;
use crate::scheme::Remade;
use objectstore::{Hold, ObjectChange, Read, Unread, Wish};
use std::ops::Range;
use types::{ObjectId, Rope, ShardId};

/// Blocks of zeros of this size are not written.
const BLOCK: usize = 4096;

/// Adds the writes of bytes, without whole blocks of zeros.
fn write_all_but_zeros(changes: &mut Vec<ObjectChange>, at: u64, data: &Rope) {
    let bytes = data.contiguous();
    let mut from = 0;
    for (n, block) in bytes.chunks(BLOCK).enumerate() {
        if block.iter().any(|byte| *byte != 0) {
            continue;
        }
        let start = n * BLOCK;
        if from < start {
            changes.push(ObjectChange::Write(at + from as u64, bytes.slice(from..start).into()));
        }
        from = start + block.len();
    }
    if from < bytes.len() {
        changes.push(ObjectChange::Write(at + from as u64, bytes.slice(from..).into()));
    }
}

impl Shards {
    /// Returns places that hold these, and that the code can work on.
    fn whole_grains(&self, range: &Range<u64>) -> Range<u64> {
        let grain = self.code.grain() as u64;
        range.start / grain * grain..range.end.next_multiple_of(grain)
    }

    /// Returns which shards an object's other ones are made of: k that are not given up, the own one before all, which needs
    /// no question. `lost`: shards that are not there. `None`: they are too few.
    fn sources(&self, eye: &Eye<'_>, object: &ObjectId, lost: &[usize]) -> Option<Vec<usize>> {
        let own = usize::try_from(object.shard.0).unwrap_or(usize::MAX);
        let others = (0..self.count()).filter(|shard| *shard != own);
        let all = std::iter::once(own).chain(others).filter(|shard| !lost.contains(shard) && !eye.is_given_up(object, *shard));
        let found: Vec<usize> = all.take(self.k()).collect();
        (found.len() == self.k()).then_some(found)
    }

    /// Makes what lies at these places of some shards, all as long as the range: zeros behind a shard's end. `object`: its
    /// name here, whose shard may be among those that are lost.
    ///
    /// # Errors
    /// Parts of other shards must come first; they were noted. Or there are too few.
    pub(crate) fn remake(
        &self,
        eye: &Eye<'_>,
        hold: Hold,
        object: &ObjectId,
        known: &Known,
        lost: &[usize],
        range: Range<u64>,
    ) -> Read<Vec<Rope>> {
        let places = self.whole_grains(&range);
        let Some(sources) = self.sources(eye, object, lost) else { return Err(damaged(object, "too many shards")) };
        let len = (places.end - places.start) as usize;
        let mut inputs = Vec::with_capacity(sources.len());
        let mut missed: Option<Wish> = None;
        for shard in &sources {
            let there = places.start..places.end.min(self.length(known.size, known.chunk, *shard));
            let mut bytes = vec![0; len];
            if !there.is_empty() {
                match eye.part(hold, object, known, *shard, there) {
                    Ok(Some(data)) => data.copy_to(&mut bytes[..data.len()]),
                    Ok(None) => missed = missed.or(Some(Wish(Vec::new()))),
                    Err(Unread::Missing(wish)) => missed = Some(wish),
                    Err(damage) => return Err(damage),
                }
            }
            inputs.push(bytes);
        }
        if let Some(wish) = missed {
            return Err(Unread::Missing(wish));
        }
        let recipe = self.code.recover(&sources, lost).map_err(|_| damaged(object, "too many shards"))?;
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let mut outputs = vec![vec![0; len]; lost.len()];
        recipe.apply(&inputs, &mut outputs.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>(), false);
        let (from, upto) = ((range.start - places.start) as usize, (range.end - places.start) as usize);
        Ok(outputs.into_iter().map(|bytes| Rope::from(bytes).slice(from, upto - from)).collect())
    }

    /// Makes the next part of some shards: see [`crate::scheme::Scheme::remake`].
    pub(crate) fn remake_part(
        &self,
        eye: &Eye<'_>,
        hold: Hold,
        object: &ObjectId,
        record: &[u8],
        wanted: &[ShardId],
        (at, most): (u64, u64),
    ) -> Read<Remade> {
        let known = self.known(object, record)?;
        let lost: Vec<usize> = wanted.iter().filter_map(|shard| usize::try_from(shard.0).ok()).collect();
        let length = |shard: &usize| self.length(known.size, known.chunk, *shard);
        let end = lost.iter().map(length).max().unwrap_or_default();
        let upto = at.saturating_add(most).next_multiple_of(self.code.grain() as u64).min(end);
        let made =
            if at < upto { self.remake(eye, hold, object, &known, &lost, at..upto)? } else { vec![Rope::new(); lost.len()] };
        let next = (upto < end).then_some(upto);
        let changes = |(shard, bytes): (&usize, Rope)| {
            let own = (length(shard).saturating_sub(at) as usize).min(bytes.len());
            let mut changes = Vec::new();
            // What was never written is zeros, and stored nowhere.
            write_all_but_zeros(&mut changes, at, &bytes.slice(0, own));
            changes.extend(next.is_none().then_some(ObjectChange::Truncate(length(shard))));
            changes
        };
        Ok(Remade { shards: lost.iter().zip(made).map(changes).collect(), next })
    }
}
