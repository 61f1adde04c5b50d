//! Names of what a store keeps: an object, one shard of it, one generation of it.

use crate::{HObject, ShardId, SnapId};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// The generation of what is current (`ghobject_t::NO_GEN`, -1); others are kept states of the past.
pub const CURRENT: u64 = u64::MAX;

/// The name of a thing in a store (`ghobject_t`): an object, which shard of it, which generation. A clone of it counts
/// one up and copies nothing.
#[derive(Clone)]
pub struct ObjectId {
    /// The object, as clients and logs name it.
    pub object: Arc<HObject>,
    /// The shard; [`ShardId::NONE`] for all of it.
    pub shard: ShardId,
    /// The generation; [`CURRENT`] for the object as it is.
    pub generation: u64,
}

impl ObjectId {
    /// The whole object as it is: what a replicated pool keeps.
    pub fn whole(object: HObject) -> Self {
        Self::of_shard(object, ShardId::NONE)
    }

    /// A shard of an object as it is.
    pub fn of_shard(object: HObject, shard: ShardId) -> Self {
        Self { object: Arc::new(object), shard, generation: CURRENT }
    }

    /// The same shard and generation of the object at another snapshot.
    pub fn at(&self, snap: SnapId) -> Self {
        Self { object: Arc::new(self.object.at(snap)), ..*self }
    }

    /// Another generation of the same shard.
    pub fn in_generation(&self, generation: u64) -> Self {
        Self { object: self.object.clone(), generation, ..*self }
    }

    /// Returns true if this names the whole object as it is.
    pub fn is_whole(&self) -> bool {
        self.shard == ShardId::NONE && self.generation == CURRENT
    }

    /// The part of the name behind the object, as it orders: the whole object first.
    fn suffix(&self) -> Option<(u64, ShardId)> {
        (!self.is_whole()).then_some((self.generation, self.shard))
    }
}

impl Deref for ObjectId {
    type Target = HObject;

    fn deref(&self) -> &HObject {
        &self.object
    }
}

impl From<HObject> for ObjectId {
    fn from(object: HObject) -> Self {
        Self::whole(object)
    }
}

impl Default for ObjectId {
    fn default() -> Self {
        Self::whole(HObject::min())
    }
}

impl PartialEq for ObjectId {
    fn eq(&self, other: &Self) -> bool {
        let same = Arc::ptr_eq(&self.object, &other.object) || self.object == other.object;
        same && self.shard == other.shard && self.generation == other.generation
    }
}

impl Eq for ObjectId {}

/// The name and what tells most names apart: namespace and key are in the placement hash.
impl Hash for ObjectId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let place = self.object.pool.cast_unsigned().rotate_left(40) ^ u64::from(self.object.hash);
        state.write_u64(place ^ u64::from(self.shard.0.cast_unsigned()).rotate_left(32));
        state.write_u64(self.object.snap.0 ^ self.generation.rotate_left(32));
        state.write(&self.object.name);
    }
}

/// The object; of one object the whole first, then generation and shard.
impl Ord for ObjectId {
    fn cmp(&self, other: &Self) -> Ordering {
        let objects = match Arc::ptr_eq(&self.object, &other.object) {
            true => Ordering::Equal,
            false => self.object.cmp(&other.object),
        };
        objects.then_with(|| self.suffix().cmp(&other.suffix()))
    }
}

impl PartialOrd for ObjectId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// As the object; then `:sN` for a shard and `:gN` (hexadecimal) for a generation.
impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(f)?;
        if self.shard != ShardId::NONE {
            write!(f, ":s{}", self.shard.0)?;
        }
        if self.generation == CURRENT { Ok(()) } else { write!(f, ":g{:x}", self.generation) }
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Locator;
    use bytes::Bytes;

    fn object(name: &'static str) -> HObject {
        HObject::head(Bytes::from_static(name.as_bytes()), &Locator::pool(1))
    }

    #[test]
    fn shards_and_generations_of_an_object_stand_behind_it_and_before_the_next() {
        let whole = ObjectId::whole(object("a"));
        let shard = |n| ObjectId::of_shard(object("a"), ShardId(n));
        let mut all = vec![whole.clone(), shard(0), shard(5), whole.in_generation(3), shard(0).in_generation(3)];
        all.push(ObjectId::whole(HObject { hash: 0, ..object("a") }));
        all.sort();
        let shown: Vec<String> = all.iter().map(|id| id.to_string().replace(&whole.to_string(), "a")).collect();
        assert_eq!(shown[1..], ["a", "a:g3", "a:s0:g3", "a:s0", "a:s5"]);
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn equal_names_are_equal_whether_they_share_memory_or_not() {
        let one = ObjectId::of_shard(object("a"), ShardId(1));
        let (clone, other) = (one.clone(), ObjectId::of_shard(object("a"), ShardId(1)));
        assert!(Arc::ptr_eq(&one.object, &clone.object) && one == clone && one == other);
        assert!(one != one.in_generation(4) && one != ObjectId::whole(object("a")) && one.cmp(&other).is_eq());
        let hash = |id: &ObjectId| {
            let mut hasher = std::hash::DefaultHasher::new();
            id.hash(&mut hasher);
            hasher.finish()
        };
        assert_eq!(hash(&one), hash(&other));
        assert_ne!(hash(&one), hash(&one.in_generation(4)));
    }
}
