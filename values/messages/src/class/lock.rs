//! Class `lock`: advisory locks on an object, kept in one attribute per lock.

use crate::frame::EntityNum;
use std::collections::BTreeMap;
use types::{EntityAddr, UTime};

/// Attribute names begin so; the lock's name follows.
pub const ATTR_PREFIX: &str = "lock.";

/// Kinds of locks.
#[allow(missing_docs)]
pub mod kind {
    pub const NONE: u8 = 0;
    pub const EXCLUSIVE: u8 = 1;
    pub const SHARED: u8 = 2;
    /// Exclusive, and the lock's last unlock removes the object.
    pub const EXCLUSIVE_EPHEMERAL: u8 = 3;
}

/// Flags of [`LockOp`].
#[allow(missing_docs)]
pub mod flag {
    /// Taking a lock that the caller holds renews it.
    pub const MAY_RENEW: u8 = 1;
    /// Only renew: fail with -ENOENT if the caller does not hold it.
    pub const MUST_RENEW: u8 = 2;
}

/// Input of `lock`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockOp {
    /// The lock.
    pub name: String,
    /// See [`kind`].
    pub kind: u8,
    /// Tells the holds of one client apart.
    pub cookie: String,
    /// All holders of a shared lock must give the same.
    pub tag: String,
    /// For people.
    pub description: String,
    /// Length of the hold; zero for ever.
    pub duration: UTime,
    /// See [`flag`].
    pub flags: u8,
}
denc::versioned!(LockOp, 1, 1 { name, kind, cookie, tag, description, duration, flags });

/// Input of `unlock`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnlockOp {
    /// The lock.
    pub name: String,
    /// The hold.
    pub cookie: String,
}
denc::versioned!(UnlockOp, 1, 1 { name, cookie });

/// Input of `break_lock`: ends another client's hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BreakOp {
    /// The lock.
    pub name: String,
    /// Holder.
    pub locker: EntityNum,
    /// Cookie of the hold.
    pub cookie: String,
}
denc::versioned!(BreakOp, 1, 1 { name, locker, cookie });

/// Input of `get_info`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetInfoOp {
    /// The lock.
    pub name: String,
}
denc::versioned!(GetInfoOp, 1, 1 { name });

/// A hold's identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockerId {
    /// Client.
    pub locker: EntityNum,
    /// Its cookie.
    pub cookie: String,
}
denc::versioned!(LockerId, 1, 1 { locker, cookie });

/// A hold's particulars.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockerInfo {
    /// Time when it ends; zero for never.
    pub expiration: UTime,
    /// The client's address.
    pub addr: EntityAddr,
    /// For people.
    pub description: String,
}
denc::versioned!(LockerInfo, 1, 1 { expiration, addr, description });

/// A lock as stored in its attribute, and output of `get_info`: both have this layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockInfo {
    /// Holds.
    pub lockers: BTreeMap<LockerId, LockerInfo>,
    /// See [`kind`].
    pub kind: u8,
    /// Common tag.
    pub tag: String,
}
denc::versioned!(LockInfo, 1, 1 { lockers, kind, tag });

/// Output of `list_locks`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListLocksReply {
    /// Names of the object's locks.
    pub locks: Vec<String>,
}
denc::versioned!(ListLocksReply, 1, 1 { locks });

/// Input of `assert_locked`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssertOp {
    /// The lock.
    pub name: String,
    /// See [`kind`].
    pub kind: u8,
    /// The hold.
    pub cookie: String,
    /// Tag.
    pub tag: String,
}
denc::versioned!(AssertOp, 1, 1 { name, kind, cookie, tag });

/// Input of `set_cookie`: renames a hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetCookieOp {
    /// The lock.
    pub name: String,
    /// See [`kind`].
    pub kind: u8,
    /// The hold.
    pub cookie: String,
    /// Tag.
    pub tag: String,
    /// The hold's new cookie.
    pub new_cookie: String,
}
denc::versioned!(SetCookieOp, 1, 1 { name, kind, cookie, tag, new_cookie });

/// Output of `get_info`.
pub type GetInfoReply = LockInfo;
