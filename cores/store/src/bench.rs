//! Parts of the store that have no face of their own. Only for `benches/`.

use crate::Store;
use crate::index::delta::Delta;
use crate::index::keys;
use crate::wish::Owner;
use bytes::Bytes;
use objectstore::Read;
use types::ObjectId;

/// The key of an object in the index.
pub fn key(object: &ObjectId) -> Bytes {
    keys::name(object)
}

/// The changes since a checkpoint.
#[derive(Default)]
pub struct Changes(Delta);

impl Changes {
    /// Notes a value.
    pub fn put(&mut self, key: Bytes, value: Bytes) {
        self.0.keys.put(key, Some(value));
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&Bytes> {
        self.0.keys.get(key)?.as_ref()
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The value of a key as reads find it: in the changes, then in the tree; without the cache of objects above.
///
/// # Errors
/// A page is not in memory, or damaged.
pub fn look_up(store: &Store, key: &[u8]) -> Read<Option<Bytes>> {
    store.eye(Owner::Open).view(None).get(key)
}

/// Asks for a checkpoint at the next turn.
pub fn want_checkpoint(store: &mut Store) {
    store.due.want(true);
}

/// Returns true if the checkpoint that was asked for is done.
pub fn is_checkpointed(store: &Store) -> bool {
    !store.due.is_wanted() && store.checkpoint.is_none() && store.overlay.frozen().is_none()
}
