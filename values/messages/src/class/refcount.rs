//! Class `refcount`: an object that goes with its last reference.

use std::collections::{BTreeMap, BTreeSet};

/// Attribute that holds [`Refs`].
pub const ATTR: &str = "refcount";

/// The tag that stands for the reference an object has before anyone took one.
pub const WILDCARD_TAG: &str = "";

/// Stored references (`obj_refcount`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refs {
    /// Tags; the value is always true.
    pub refs: BTreeMap<String, bool>,
    /// Tags dropped, so that a repeated drop is not counted twice.
    pub retired: BTreeSet<String>,
}
denc::versioned!(Refs, 2, 1 { refs, retired });

/// Input of `get`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetOp {
    /// Reference.
    pub tag: String,
    /// True if the object has a reference before anyone took one.
    pub implicit_ref: bool,
}
denc::versioned!(GetOp, 1, 1 { tag, implicit_ref });

/// Input of `put`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutOp {
    /// Reference.
    pub tag: String,
    /// True if the object has a reference before anyone took one.
    pub implicit_ref: bool,
}
denc::versioned!(PutOp, 1, 1 { tag, implicit_ref });

/// Input of `set`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetOp {
    /// References.
    pub refs: Vec<String>,
}
denc::versioned!(SetOp, 1, 1 { refs });

/// Input of `read`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOp {
    /// True if the object has a reference before anyone took one.
    pub implicit_ref: bool,
}
denc::versioned!(ReadOp, 1, 1 { implicit_ref });

/// Output of `read`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadReply {
    /// References.
    pub refs: Vec<String>,
}
denc::versioned!(ReadReply, 1, 1 { refs });
