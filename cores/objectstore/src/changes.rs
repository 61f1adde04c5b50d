//! Changes of objects and of meta keys.

use crate::Transaction;
use bytes::Bytes;
use types::{ObjectId, Rope};

/// One change of an object, with nothing left to decide: absolute offsets, no reads, no time. Any change of an object
/// that does not exist creates it first, except `Remove` and the removals of keys, which then do nothing.
///
/// `CloneOf`, `CloneRange` and `TakeOver` have a source, and `Xor` needs the object itself. If that does not exist, or if
/// the store cannot copy it within one transaction, that is an error. A rehearsal tells it. A transaction that was not rehearsed is carried out all the same: the object
/// takes the place of what it was, its first block cannot be read, and [`crate::Event::Damaged`] names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectChange {
    /// The object exists.
    Create,
    /// Bytes at an offset; the object grows if it ends before. What lies between the old end and the offset reads as
    /// zero.
    Write(u64, Rope),
    /// Bytes at an offset are combined with those that are there by exclusive or. What lies behind the object's end, and a
    /// hole, counts as zeros; the object grows if it ends before. Twice the same is nothing: who sends it sends it once.
    Xor(u64, Rope),
    /// `offset, len` read as zero and take no space. The size does not change.
    Zero(u64, u64),
    /// Cut or grow to this size.
    Truncate(u64),
    /// The object, with all that belongs to it, is gone.
    Remove,
    /// The group's record.
    SetInfo(Bytes),
    /// Set one attribute.
    SetXattr(Bytes, Bytes),
    /// Remove one attribute.
    RemoveXattr(Bytes),
    /// Remove all attributes.
    ClearXattrs,
    /// Set the omap's header.
    OmapHeader(Bytes),
    /// Set keys.
    OmapSet(Vec<(Bytes, Bytes)>),
    /// Remove keys.
    OmapRemove(Vec<Bytes>),
    /// Remove all keys in `from..to` (from included, to excluded).
    OmapRemoveRange(Bytes, Bytes),
    /// Remove all keys and the header.
    OmapClear,
    /// The object becomes a copy of that one (data, attributes, omap, info), replacing what it was. Data is shared, not
    /// copied; keys are copied.
    CloneOf(ObjectId),
    /// In these ranges (`offset, len`) the object has the bytes of that one from now on. Data is shared, not copied, where
    /// whole blocks are named. The object grows if it ends before what it gets; where the source ends before a range does, no
    /// more than there is comes over. Ranges of an object itself change nothing.
    CloneRange(ObjectId, Vec<(u64, u64)>),
    /// The object becomes that one, which is gone then: a change of its name. Nothing is copied, however large it is.
    TakeOver(ObjectId),
}

impl ObjectChange {
    /// The other object that it reads, if it reads one.
    pub fn source(&self) -> Option<&ObjectId> {
        match self {
            Self::CloneOf(source) | Self::CloneRange(source, _) | Self::TakeOver(source) => Some(source),
            _ => None,
        }
    }

    /// The object without which it is an error, if there is one; `object` is the one that it changes.
    pub fn needs<'a>(&'a self, object: &'a ObjectId) -> Option<&'a ObjectId> {
        if let Self::Xor(..) = self { Some(object) } else { self.source() }
    }

    /// Returns true if it only takes away, so that it may be carried out however little room there is. (`SetInfo` and
    /// `Truncate` come with removals, and count among them. `TakeOver` needs no room.)
    pub fn only_removes(&self) -> bool {
        match self {
            Self::Create | Self::SetXattr(..) | Self::OmapHeader(_) | Self::OmapSet(_) => false,
            Self::CloneOf(_) | Self::CloneRange(..) => false,
            Self::Write(_, data) | Self::Xor(_, data) => data.is_empty(),
            _ => true,
        }
    }
}

/// Changes of one object, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectChanges {
    /// The object.
    pub object: ObjectId,
    /// In order.
    pub changes: Vec<ObjectChange>,
}

/// One change of a scope's meta keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetaChange {
    /// Set a key.
    Set(Bytes, Bytes),
    /// Remove a key.
    Remove(Bytes),
    /// Remove all keys in `from..to` (from included, to excluded).
    RemoveRange(Bytes, Bytes),
}

/// Appends a change of `object`.
pub fn add_change(all: &mut Vec<ObjectChanges>, object: ObjectId, change: ObjectChange) {
    match all.last_mut().filter(|last| last.object == object) {
        Some(last) => last.changes.push(change),
        None => all.push(ObjectChanges { object, changes: vec![change] }),
    }
}

/// One change of any kind, for those who collect them in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Of an object.
    Object(ObjectId, ObjectChange),
    /// Of a meta key.
    Meta(MetaChange),
}

impl Mutation {
    /// A change of an object.
    pub fn of(object: impl Into<ObjectId>, change: ObjectChange) -> Self {
        Self::Object(object.into(), change)
    }
}

impl From<MetaChange> for Mutation {
    fn from(change: MetaChange) -> Self {
        Self::Meta(change)
    }
}

impl Extend<Mutation> for Transaction {
    fn extend<T: IntoIterator<Item = Mutation>>(&mut self, mutations: T) {
        for mutation in mutations {
            match mutation {
                Mutation::Object(object, change) => add_change(&mut self.objects, object, change),
                Mutation::Meta(change) => self.meta.push(change),
            }
        }
    }
}

impl FromIterator<Mutation> for Transaction {
    fn from_iter<T: IntoIterator<Item = Mutation>>(mutations: T) -> Self {
        let mut transaction = Self::default();
        transaction.extend(mutations);
        transaction
    }
}

impl Transaction {
    /// Returns true if it only takes away.
    pub fn only_removes(&self) -> bool {
        self.objects.iter().flat_map(|o| &o.changes).all(ObjectChange::only_removes)
    }

    /// The same for another scope.
    pub fn in_scope(self, scope: types::SpgId) -> Self {
        Self { scope, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{HObject, Locator, ShardId};

    #[test]
    fn changes_of_one_object_stand_together_and_the_order_stays() {
        let head = HObject::head(Bytes::from_static(b"a"), &Locator::pool(1));
        let (whole, shard) = (ObjectId::whole(head.clone()), ObjectId::of_shard(head, ShardId(2)));
        let set = MetaChange::Set(Bytes::from_static(b"k"), Bytes::new());
        let mutations = [
            Mutation::of(whole.clone(), ObjectChange::Create),
            set.clone().into(),
            Mutation::of(whole.clone(), ObjectChange::Truncate(5)),
            Mutation::of(shard.clone(), ObjectChange::CloneOf(whole.clone())),
            Mutation::of(whole.clone(), ObjectChange::Remove),
        ];
        let transaction: Transaction = mutations.into_iter().collect();
        let names: Vec<&ObjectId> = transaction.objects.iter().map(|o| &o.object).collect();
        assert_eq!(names, [&whole, &shard, &whole]);
        assert_eq!(transaction.objects[0].changes, [ObjectChange::Create, ObjectChange::Truncate(5)]);
        assert_eq!(transaction.meta, [set]);
        assert!(!transaction.only_removes());
    }
}
