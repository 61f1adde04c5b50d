//! The language between a placement group and the store below it.
//!
//! A store holds *objects* (a sequence of bytes, extended attributes, an ordered map "omap", and a small record `info`
//! that belongs to the placement group) and *meta keys* (each group's own ordered map: its log, its state, its snapshot
//! index).
//!
//! A name is an [`ObjectId`]: shards of one object, and generations of it, lie beside each other like different
//! objects.
//!
//! **Reading** ([`View`]) is synchronous over a view of the *submitted* state: later operations see earlier ones before
//! those are durable. What is not in memory is not waited for: the read fails with [`Unread::Missing`] and a [`Wish`];
//! the caller passes the wish to [`ObjectStore::fetch`] under its [`Hold`], and runs again from the start when
//! [`Event::Fetched`] names that hold. What was fetched for a hold stays in memory until [`ObjectStore::release`].
//!
//! **Writing** ([`ObjectStore`]) is by [`Transaction`]: all of its changes or none. A submitted transaction is visible
//! at once and [`Event::Committed`] tells when it is durable; commits of one scope are told in the order of submission.
//! All that can be refused is refused by `submit` itself.

#![forbid(unsafe_code)]

mod changes;
pub mod memory;

use bytes::Bytes;
pub use changes::{MetaChange, Mutation, ObjectChange, ObjectChanges, add_change};
use std::ops::Bound;
use types::{ObjectId, Rope, ShardId, SpgId};

/// Names a running operation, under which what it fetched is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hold(pub u64);

/// Names a submitted transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Parts that a read misses. Its meaning is the store's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish(pub Vec<u64>);

/// Reason why a read gave nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Not in memory: fetch this, and run again.
    Missing(Wish),
    /// On disk, but not what was written: EIO for the client, a line for the log.
    Damaged(Damage),
}

/// Fault of bytes on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Object, or what metadata.
    pub what: String,
    /// Byte offset in the object, or on the device for metadata.
    pub offset: u64,
    /// Checksum that was recorded.
    pub expected: u32,
    /// Checksum of what is there; equal to `expected` if the device reported a read error instead.
    pub found: u32,
}

/// Result of a read.
pub type Read<T> = Result<T, Unread>;

/// An object's fixed properties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectStat {
    /// Length in bytes.
    pub size: u64,
    /// The placement group's record about the object; empty if it never set one.
    pub info: Bytes,
    /// True if the omap may hold keys (false only when it certainly does not).
    pub has_omap: bool,
}

/// Part of an ordered map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Keys and values in order of keys.
    pub entries: Vec<(Bytes, Bytes)>,
    /// True if more keys follow in the range asked for.
    pub more: bool,
}

/// Bounds of what a scan may return: it stops at whichever is reached first, but returns at least one entry if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Most entries.
    pub entries: usize,
    /// Most bytes of keys and values together.
    pub bytes: usize,
}

/// A range of keys.
pub type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Changes that happen together or not at all. Objects and meta keys have nothing in common, so it does not matter
/// which come first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Group whose meta keys it changes, and whose order it keeps.
    pub scope: SpgId,
    /// The operation under which it was rehearsed, if it was: what was fetched for that one is there for the
    /// transaction, too.
    pub hold: Option<Hold>,
    /// Nobody is expected to read here what it writes, so its data need not stay in memory.
    pub cold: bool,
    /// Changes of objects, in order.
    pub objects: Vec<ObjectChanges>,
    /// Changes of the scope's meta keys, in order.
    pub meta: Vec<MetaChange>,
}

/// Reason why a transaction was refused. Nothing of it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no room for it. Transactions that only remove are never refused so, unless a clone must get what they
    /// remove.
    NoSpace,
    /// It is larger than the store can take at all, however much is free.
    TooLarge,
    /// Part of the store's index is damaged: it can be read, as far as it is whole, but not written.
    Damaged,
    /// The store has stopped after a failure of its disk.
    Stopped,
}

/// Reason why a rehearsal ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Something must be fetched first, or cannot be read.
    Unread(Unread),
    /// A copy would be larger than the store can make within one transaction, however much is free.
    TooLarge,
}

impl From<Unread> for Unfit {
    fn from(unread: Unread) -> Self {
        Self::Unread(unread)
    }
}

/// Event that a store tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The wish of this hold is in memory (or failed: the read says so).
    Fetched(Hold),
    /// This transaction was carried out, but needed old data of these objects that are damaged, or what they were to be
    /// made of did not exist or was too large: some of their blocks are known to be unreadable from here on. It comes
    /// before the transaction is told to be durable.
    Damaged(Ticket, Vec<ObjectId>),
    /// The store read this object for a purpose of its own, and some of its data is damaged. Nobody asked, and nothing
    /// was changed.
    Rotten(ObjectId),
    /// This transaction, and all of its scope before it, is durable.
    Committed(Ticket),
}

/// Space of a store, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// All there is.
    pub total: u64,
    /// Bytes that can still be written: the smaller of our own free space and the host's.
    pub available: u64,
    /// Taken by objects' data.
    pub data: u64,
    /// Taken by omap and its keys.
    pub omap: u64,
    /// Taken by everything else: journal, index, reserves.
    pub meta: u64,
    /// The host has nothing left to give: room may come back although nothing is removed here.
    pub host_full: bool,
}

/// Contents of a store, as they were submitted. See the crate's text for the rules.
pub trait View {
    /// Size and record of an object, `None` if it does not exist.
    fn stat(&self, hold: Hold, object: &ObjectId) -> Read<Option<ObjectStat>>;

    /// Bytes `offset..offset + len`, cut at the object's end; holes are zeros. Empty if the object does not exist.
    fn read(&self, hold: Hold, object: &ObjectId, offset: u64, len: u64) -> Read<Rope>;

    /// The parts of `offset..offset + len` that were written and not zeroed: `(offset, len)`, in order, merged where
    /// they touch. A store may report more than was written (whole blocks), never less, and nothing beyond the object's
    /// end.
    fn extents(&self, hold: Hold, object: &ObjectId, offset: u64, len: u64) -> Read<Vec<(u64, u64)>>;

    /// One attribute.
    fn xattr(&self, hold: Hold, object: &ObjectId, name: &[u8]) -> Read<Option<Bytes>>;

    /// All attributes, in order of names.
    fn xattrs(&self, hold: Hold, object: &ObjectId) -> Read<Vec<(Bytes, Bytes)>>;

    /// The omap's header, empty if never set.
    fn omap_header(&self, hold: Hold, object: &ObjectId) -> Read<Bytes>;

    /// Omap entries of a range, in order.
    fn omap_scan(&self, hold: Hold, object: &ObjectId, range: Range<'_>, limit: Limit) -> Read<Page>;

    /// The entries of those `keys` that exist, in the order asked.
    fn omap_get(&self, hold: Hold, object: &ObjectId, keys: &[Bytes]) -> Read<Vec<(Bytes, Bytes)>>;

    /// Names of one shard ([`ShardId::NONE`] for whole objects) from `from` (included) up to `to` (excluded), clones
    /// and all generations included, in order, at most `max`.
    fn list(&self, hold: Hold, shard: ShardId, from: &ObjectId, to: &ObjectId, max: usize) -> Read<Vec<ObjectId>>;

    /// One meta key of a scope.
    fn meta_get(&self, hold: Hold, scope: &SpgId, key: &[u8]) -> Read<Option<Bytes>>;

    /// Meta keys of a range, in order.
    fn meta_scan(&self, hold: Hold, scope: &SpgId, range: Range<'_>, limit: Limit) -> Read<Page>;

    /// Scopes that have meta keys, in order.
    fn scopes(&self, hold: Hold) -> Read<Vec<SpgId>>;
}

/// A store, as a placement group sees it: what it holds, and how that changes.
pub trait ObjectStore: View {
    /// Brings what a read missed into memory; ends with [`Event::Fetched`], never before this call returned.
    fn fetch(&mut self, hold: Hold, wish: Wish);

    /// The operation is over; what it fetched may go.
    fn release(&mut self, hold: Hold);

    /// Returns whether all that these changes must read first is there and whole: the blocks that are written in part,
    /// a clone's source. A transaction that was not rehearsed is carried out all the same: it waits for what it
    /// misses, and data that is damaged stays damaged, whatever is written beside it ([`Event::Damaged`]). After a
    /// rehearsal the client can be told instead.
    ///
    /// # Errors
    /// [`Unfit::Unread`]: something is missed, cannot be read, or is to be copied and does not exist.
    /// [`Unfit::TooLarge`]: the keys that clones must get do not fit into one transaction.
    fn rehearse(&self, hold: Hold, objects: &[ObjectChanges]) -> Result<(), Unfit>;

    /// Takes a transaction on. `Ok` is a promise that it will be durable if the disk lives; [`Event::Committed`] tells
    /// when.
    fn submit(&mut self, transaction: Transaction, ticket: Ticket) -> Result<(), Refused>;

    /// Returns true if callers should slow down: journal or memory is nearly used up.
    fn congested(&self) -> bool;

    /// The next thing that happened.
    fn poll_event(&mut self) -> Option<Event>;

    /// Returns how full it is.
    fn space(&self) -> Space;
}
