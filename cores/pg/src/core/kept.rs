//! What a copy of a group of shards keeps, so that a change can be undone that only some shards carried out.
//!
//! Nobody can give back a shard as it was before: its bytes were here alone. So each copy keeps its shard of an object as
//! it was before a change, under a second name: the object's *generation* with the number of the change's version.
//!
//! *Data and owner.* [`Core::kept`] has the objects by those numbers. It says no more than the log does, in which each entry
//! says whether something was kept for it ([`crate::entry::Was`]), so it is read from there when the copy is loaded.
//!
//! *Order of writes.* A generation is made in the transaction of its change, before anything else of it. It goes in the
//! transaction that makes the change [stable](crate::meta::Info::stable), or in the one that undoes it. So all generations
//! in the store are those of entries above the stable version, and a crash leaves it like that.
//!
//! *What is not kept.* An object that is missing here when it changes. Undoing finds no generation then, and the object
//! stays missing, as it was before the change.

use super::Core;
use crate::body::Body;
use crate::object::removal;
use objectstore::{ObjectChange, ObjectChanges};
use std::collections::BTreeMap;
use types::{EVersion, HObject, ObjectId};

/// Objects of which an older state is kept, by the numbers of the versions that changed them.
pub(crate) type Kept = BTreeMap<u64, HObject>;

impl Core {
    /// The name of an object as it was before the change with this number.
    pub(crate) fn generation(&self, object: &HObject, number: u64) -> ObjectId {
        self.object(object.clone()).in_generation(number)
    }

    /// Returns what is kept for a body: numbers and objects.
    pub(crate) fn kept_by(&self, body: &Body) -> Kept {
        let changes = |object: &HObject| body.objects.iter().any(|of| *of.object.object == *object);
        let keeps = body.entries.iter().filter_map(|entry| Some((entry.generation()?, HObject::clone(&entry.object))));
        keeps.filter(|(_, object)| changes(object) && !self.missing.contains_key(object)).collect()
    }

    /// Returns the changes that keep this, to be carried out before `objects`. What is removed gets another name; of the
    /// rest a clone is kept, which shares its data.
    pub(crate) fn keep(&self, kept: &Kept, objects: &[ObjectChanges]) -> Vec<ObjectChanges> {
        let keep = |(number, object): (&u64, &HObject)| {
            let source = self.object(object.clone());
            let goes = objects.iter().any(|of| of.object == source && of.changes == [ObjectChange::Remove]);
            let change = if goes { ObjectChange::TakeOver(source) } else { ObjectChange::CloneOf(source) };
            ObjectChanges { object: self.generation(object, *number), changes: vec![change] }
        };
        kept.iter().map(keep).collect()
    }

    /// Returns the changes after which nothing up to a version is kept.
    pub(crate) fn drop_kept(&self, stable: EVersion) -> Vec<ObjectChanges> {
        self.kept.range(..=stable.version).map(|(number, object)| removal(self.generation(object, *number))).collect()
    }

    /// Returns the changes after which nothing behind a version is kept.
    pub(crate) fn drop_kept_behind(&self, version: EVersion) -> Vec<ObjectChanges> {
        let behind = self.kept.range(version.version + 1..);
        behind.map(|(number, object)| removal(self.generation(object, *number))).collect()
    }

    /// Returns true if an entry may leave the log: it cannot be undone any more.
    pub(crate) fn may_retire(&self, stable: EVersion, last: EVersion) -> bool {
        self.scheme.is_whole() || last <= stable
    }
}
