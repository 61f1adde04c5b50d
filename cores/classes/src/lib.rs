//! Object classes: methods that run inside the OSD, next to the object, as part of an operation vector.
//!
//! A method is a plain function over a [`Call`]: it reads the object through a [`View`] (which may answer that
//! something is not in memory: the caller fetches it and runs the method again from the start), and collects
//! [`Change`]s, which take effect together with the rest of the vector if the method succeeds. A method sees the object
//! as it was before the vector, except that existence and size follow the operations before it.
//!
//! Whether a method reads or writes is its own property ([`Method::flags`]), not the message's: clients send calls that
//! write with messages that say "read".

#![forbid(unsafe_code)]

mod cmpomap;
mod feed;
mod fifo;
#[cfg(test)]
mod gateway_test;
mod hello;
mod journal;
mod keys;
mod lock;
mod log;
mod method;
#[cfg(test)]
mod methods_test;
mod numops;
mod otp;
mod queue;
mod rbd;
#[cfg(test)]
mod recorded_test;
mod refcount;
mod registry;
mod rgw;
mod rgw_gc;
#[cfg(test)]
mod rgw_index_test;
#[cfg(test)]
mod testing;
mod timeindex;
mod two_phase;
mod unique;
mod user;
mod version;

pub use method::{Class, Filter, MOST_REWRITTEN, Method, PROMOTE, RD, WR};
pub use registry::{Lookup, all, find, find_filter};

use bytes::Bytes;
use denc::Decode;
use objectstore::{Page, Read, Unread};
use std::cell::Cell;
use types::{EntityAddr, Errno, Rope, UTime};

/// Reads of a class method on its object.
pub trait View {
    /// Size and modification time, or `None` if the object does not exist.
    fn stat(&self) -> Read<Option<Stat>>;
    /// Bytes `offset..offset + len`, cut at the end; empty if the object does not exist.
    fn read(&self, offset: u64, len: u64) -> Read<Rope>;
    /// The written parts of `offset..offset + len`: `(offset, len)` in order.
    fn extents(&self, offset: u64, len: u64) -> Read<Vec<(u64, u64)>>;
    /// One attribute (a user's name, without any prefix).
    fn xattr(&self, name: &[u8]) -> Read<Option<Bytes>>;
    /// All attributes, in order of names.
    fn xattrs(&self) -> Read<Vec<(Bytes, Bytes)>>;
    /// The omap's header.
    fn omap_header(&self) -> Read<Bytes>;
    /// Entries with keys above `after` (all, if it is empty) that begin with `prefix`, at most `max`.
    fn omap_list(&self, after: &[u8], prefix: &[u8], max: usize) -> Read<Page>;
    /// The entries of those keys that exist.
    fn omap_get(&self, keys: &[Bytes]) -> Read<Vec<(Bytes, Bytes)>>;
    /// Sequence number of the newest snapshot that the object was written under; none if nothing is left of the object.
    fn snap_seq(&self) -> Option<u64>;
    /// Returns who watches the object.
    fn watchers(&self) -> Vec<Origin>;
    /// The object's version as users see it.
    fn user_version(&self) -> u64;
}

/// Size and time of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Bytes.
    pub size: u64,
    /// Last modification.
    pub mtime: UTime,
}

/// A change that a method wants; carried out like the operation of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Create; fails with EEXIST if `exclusive` and the object exists.
    Create {
        /// True if it must not exist yet.
        exclusive: bool,
    },
    /// Write bytes at an offset.
    Write(u64, Rope),
    /// Replace all bytes.
    WriteFull(Rope),
    /// Zero a range.
    Zero(u64, u64),
    /// Cut or grow.
    Truncate(u64),
    /// Delete the object.
    Remove,
    /// Set an attribute.
    SetXattr(Bytes, Bytes),
    /// Remove an attribute.
    RemoveXattr(Bytes),
    /// Set omap entries.
    OmapSet(Vec<(Bytes, Bytes)>),
    /// Remove omap keys.
    OmapRemove(Vec<Bytes>),
    /// Remove the keys `from..to`.
    OmapRemoveRange(Bytes, Bytes),
    /// Set the omap's header.
    OmapHeader(Bytes),
    /// Remove all keys and the header.
    OmapClear,
}

/// The client that called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Kind of the entity, as on the wire (8 is a client).
    pub kind: u8,
    /// Its number (a client's global id).
    pub num: i64,
    /// Address of the instance.
    pub addr: EntityAddr,
}

/// Reason why a method ended without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fail {
    /// Something must be fetched first, or is damaged.
    Unread(Unread),
    /// The method's own answer.
    Errno(Errno),
}

impl From<Unread> for Fail {
    fn from(unread: Unread) -> Self {
        Self::Unread(unread)
    }
}

impl From<Errno> for Fail {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// What a method answers to bytes that cannot be read: `bad`, or EMSGSIZE if they list too much.
fn said(error: &denc::DecodeError, bad: Errno) -> Fail {
    Fail::Errno(if matches!(error, denc::DecodeError::TooMany(_)) { Errno::EMSGSIZE } else { bad })
}

/// Result of a method: its output.
pub type Outcome = Result<Bytes, Fail>;

/// A call of a method.
pub struct Call<'a> {
    /// The object.
    pub view: &'a dyn View,
    /// The method's input.
    pub input: Bytes,
    /// The client that calls.
    pub origin: Origin,
    /// The wall clock.
    pub now: UTime,
    /// The object's name.
    pub object: Bytes,
    /// Number of this operation: version that the group gives it, and its place in the vector.
    pub place: (u64, usize),
    /// Changes that the method wants, in order.
    pub changes: Vec<Change>,
    /// The result if the method succeeds, 0 or more. Clients see it for reads, and for writes with returns.
    pub result: i32,
    /// The output if the method fails: the only way in which a failed method says more than a number.
    pub excuse: Bytes,
    /// Items that input and stored values may still list.
    pub items: Cell<usize>,
    /// Bytes that looking at would take as long as what the method computed.
    pub work: Cell<u64>,
}

/// Items that input and stored values of one call may list, unless there is another bound.
const MOST_ITEMS: usize = 1 << 18;

impl<'a> Call<'a> {
    /// A call that has done nothing yet.
    pub fn new(view: &'a dyn View, input: Bytes, origin: Origin, now: UTime, object: Bytes) -> Self {
        let (place, changes, excuse) = ((0, 0), Vec::new(), Bytes::new());
        let (items, work) = (Cell::new(MOST_ITEMS), Cell::new(0));
        Self { view, input, origin, now, object, place, changes, result: 0, excuse, items, work }
    }

    /// A reader of input or of a stored value: what they list counts.
    pub fn reader<'b>(&'b self, bytes: &'b [u8]) -> denc::Reader<'b> {
        denc::Reader::within(bytes, &self.items)
    }

    /// A stored structure; `bad` if it is none.
    pub fn stored<T: Decode>(&self, bytes: &[u8], bad: Errno) -> Result<T, Fail> {
        self.reader(bytes).get().map_err(|error| said(&error, bad))
    }

    /// Counts work that does not show in what is looked at, as bytes of that.
    pub fn works(&self, bytes: u64) {
        self.work.set(self.work.get().saturating_add(bytes));
    }

    /// The input as a `T`; EINVAL if it is not one. Bytes after it are ignored, as Ceph's classes do.
    pub fn arg<T: Decode>(&self) -> Result<T, Fail> {
        self.stored(&self.input, Errno::EINVAL)
    }

    /// Returns what `read` makes of the input; EINVAL if it cannot. Bytes after that are ignored.
    pub fn parse<T>(&self, read: impl FnOnce(&mut denc::Reader<'_>) -> denc::Result<T>) -> Result<T, Fail> {
        read(&mut self.reader(&self.input)).map_err(|error| said(&error, Errno::EINVAL))
    }

    /// Returns whether the object exists.
    pub fn exists(&self) -> Result<bool, Fail> {
        Ok(self.view.stat()?.is_some())
    }

    /// ENOENT if the object does not exist.
    pub fn must_exist(&self) -> Result<Stat, Fail> {
        self.view.stat()?.ok_or(Fail::Errno(Errno::ENOENT))
    }

    /// One attribute's value; ENODATA if there is none, ENOENT if there is no object.
    pub fn xattr(&self, name: &[u8]) -> Result<Bytes, Fail> {
        match self.view.xattr(name)? {
            Some(value) => Ok(value),
            None => {
                self.must_exist()?;
                Err(Fail::Errno(Errno::ENODATA))
            }
        }
    }

    /// One omap value; ENOENT if there is none.
    pub fn omap(&self, key: &[u8]) -> Result<Bytes, Fail> {
        let found = self.view.omap_get(&[Bytes::copy_from_slice(key)])?;
        found.into_iter().next().map(|(_, value)| value).ok_or(Fail::Errno(Errno::ENOENT))
    }

    /// Wants a change.
    pub fn change(&mut self, change: Change) {
        self.changes.push(change);
    }
}
