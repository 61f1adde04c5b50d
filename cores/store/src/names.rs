//! Names of objects: as the store keeps them, and those of which a transaction speaks.

use bytes::Bytes;
use objectstore::{ObjectChange, ObjectChanges};
use std::borrow::Cow;
use types::{HObject, ObjectId};

/// The name with an empty key if the key is the name itself: both mean the same object.
pub(crate) fn plain(object: &ObjectId) -> Cow<'_, ObjectId> {
    if !object.key.is_empty() && object.key == object.name {
        let named = HObject { key: Bytes::new(), ..HObject::clone(&object.object) };
        return Cow::Owned(ObjectId { object: named.into(), ..*object });
    }
    Cow::Borrowed(object)
}

/// Objects that changes read or change.
pub(crate) fn objects_of(objects: &[ObjectChanges]) -> impl Iterator<Item = &ObjectId> {
    objects.iter().flat_map(|o| {
        let sources = o.changes.iter().filter_map(ObjectChange::source);
        std::iter::once(&o.object).chain(sources)
    })
}
