//! Class `journal`: the head of an image's journal.

use bytes::Bytes;

/// Progress of a client in one of the journal's objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectPosition {
    /// The object.
    pub object: u64,
    /// Tag of the entry.
    pub tag: u64,
    /// The entry.
    pub entry: u64,
}
denc::versioned!(ObjectPosition, 1, 1 { object, tag, entry });

/// Progress of a client, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// One for each object that is written at a time.
    pub objects: Vec<ObjectPosition>,
}
denc::versioned!(Position, 1, 1 { objects });

/// One who reads or writes the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// Its id.
    pub id: Bytes,
    /// Its own.
    pub data: Bytes,
    /// Entries that it has done with.
    pub committed: Position,
    /// 0 connected, 1 disconnected: the journal does not wait for it.
    pub state: u8,
}
denc::versioned!(Client, 1, 1 { id, data, committed, state });

/// [`Client::state`] of one that the journal does not wait for.
pub const DISCONNECTED: u8 = 1;
/// Stands for a class of tags that is to be made.
pub const NEW_TAG_CLASS: u64 = u64::MAX;

/// A period in the journal's life, as its writers name them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// Number.
    pub tid: u64,
    /// Tags of one class follow each other.
    pub class: u64,
    /// The writers' own.
    pub data: Bytes,
}
denc::versioned!(Tag, 1, 1 { tid, class, data });
