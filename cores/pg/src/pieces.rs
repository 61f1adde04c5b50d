//! Parts of shards: what a copy asks another one for, and what it has got of them.
//!
//! A copy of a group of shards has one part of each object. A read, or a change of a part of a row, needs bytes that lie on
//! other shards. What is missing is a [`Want`]; the wants of one run for one copy are a [`Question`]; what came is kept in
//! [`Pieces`], which belong to the job that asked and end with it.
//!
//! *Invariant.* A piece names the version of its object. Whoever reads takes only pieces of the very version that its own
//! record has, so no read is made of two versions.

use types::{EVersion, HObject, Rope, ShardId};

use std::ops::Range;
use std::sync::Arc;

/// Bytes of a shard that are missing here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    /// The object, head or clone.
    pub(crate) object: Arc<HObject>,
    /// The version that its record has here.
    pub(crate) version: EVersion,
    /// The shard that has them.
    pub(crate) shard: ShardId,
    /// Place of the bytes on that shard. It is never empty.
    pub(crate) range: Range<u64>,
}

/// What one copy wants to know of another: parts of its shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// Its number; no two of a copy have the same.
    pub(crate) number: u64,
    /// Number of the last body for that copy when it was asked: the answer is what the shard is after that one.
    pub(crate) after: u64,
    /// What is wanted, all of it of the shard of whoever is asked.
    pub(crate) wants: Vec<Want>,
}

/// Parts of other shards that came for one job, and shards of which none can come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces {
    parts: Vec<(Want, Rope)>,
    /// Of these objects nothing can be had of these shards: nobody holds them, or who does lacks the object.
    given_up: Vec<(Arc<HObject>, ShardId)>,
}

impl Pieces {
    /// Notes that nothing can be had of a shard of an object. What came of it before goes.
    pub(crate) fn give_up(&mut self, object: &Arc<HObject>, shard: ShardId) {
        self.parts.retain(|(of, _)| of.shard != shard || of.object != *object);
        if !self.is_given_up(object, shard) {
            self.given_up.push((object.clone(), shard));
        }
    }

    /// Returns true if nothing can be had of a shard of an object.
    pub(crate) fn is_given_up(&self, object: &Arc<HObject>, shard: ShardId) -> bool {
        self.given_up.iter().any(|(of, given_up)| *given_up == shard && of == object)
    }

    /// Forgets what came, and keeps what is known of shards.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
    }

    /// Adds what came for a want. The bytes are as many as were wanted.
    pub(crate) fn add(&mut self, want: Want, data: Rope) {
        debug_assert_eq!(data.len() as u64, want.range.end - want.range.start);
        self.parts.push((want, data));
    }

    /// Returns bytes of a shard.
    ///
    /// # Errors
    /// The rest of the range, from the first byte on that is not here.
    pub(crate) fn read(&self, want: &Want) -> Result<Rope, Range<u64>> {
        let (mut at, end) = (want.range.start, want.range.end);
        let mut data = Rope::new();
        while at < end {
            let same = |of: &Want| of.shard == want.shard && of.version == want.version && of.object == want.object;
            let found = self.parts.iter().find(|(of, _)| of.range.contains(&at) && same(of));
            let Some((of, piece)) = found else { return Err(at..end) };
            let upto = of.range.end.min(end);
            data.append(piece.slice((at - of.range.start) as usize, (upto - at) as usize));
            at = upto;
        }
        Ok(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn want(version: u64, shard: i8, range: Range<u64>) -> Want {
        Want { object: Arc::default(), version: EVersion::new(1, version), shard: ShardId(shard), range }
    }

    #[test]
    fn what_is_wanted_is_put_together_of_what_came_for_that_version_of_that_shard() {
        let mut pieces = Pieces::default();
        pieces.add(want(3, 1, 10..14), Rope::from(&b"abcd"[..]));
        pieces.add(want(3, 1, 12..18), Rope::from(&b"cdefgh"[..]));
        let read = |of: Want| pieces.read(&of).map(|data| data.to_vec());
        assert_eq!(read(want(3, 1, 11..17)), Ok(b"bcdefg".to_vec()));
        assert_eq!(read(want(3, 1, 16..20)), Err(18..20), "the rest is asked for");
        assert_eq!(read(want(3, 1, 9..12)), Err(9..12));
        assert_eq!(read(want(4, 1, 10..14)), Err(10..14), "another version");
        assert_eq!(read(want(3, 2, 10..14)), Err(10..14), "another shard");
        let (mut pieces, object) = (pieces.clone(), Arc::default());
        pieces.give_up(&object, ShardId(1));
        assert!(pieces.is_given_up(&object, ShardId(1)) && !pieces.is_given_up(&object, ShardId(2)));
        assert!(pieces.read(&want(3, 1, 11..12)).is_err(), "what came before may be wrong, too");
    }
}
