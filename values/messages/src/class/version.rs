//! Class `version`: an object's version for optimistic concurrency, kept in one attribute.

/// Attribute that holds an [`ObjVersion`].
pub const ATTR: &str = "ceph.objclass.version";

/// Comparisons of the stored version with that of a condition.
#[allow(missing_docs)]
pub mod cond {
    pub const NONE: u32 = 0;
    pub const EQ: u32 = 1;
    pub const GT: u32 = 2;
    pub const GE: u32 = 3;
    pub const LT: u32 = 4;
    pub const LE: u32 = 5;
    pub const TAG_EQ: u32 = 6;
    pub const TAG_NE: u32 = 7;
}

/// A version (`obj_version`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjVersion {
    /// Counts changes.
    pub ver: u64,
    /// Chosen when the count starts.
    pub tag: String,
}
denc::versioned!(ObjVersion, 1, 1 { ver, tag });

/// A condition (`obj_version_cond`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// To compare with.
    pub ver: ObjVersion,
    /// See [`cond`].
    pub cond: u32,
}
denc::versioned!(Condition, 1, 1 { ver, cond });

/// Input of `set`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetOp {
    /// New version.
    pub objv: ObjVersion,
}
denc::versioned!(SetOp, 1, 1 { objv });

/// Input of `inc` and `inc_conds`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IncOp {
    /// Tag to take if there is no version yet.
    pub objv: ObjVersion,
    /// All must hold.
    pub conds: Vec<Condition>,
}
denc::versioned!(IncOp, 1, 1 { objv, conds });

/// Input of `check_conds`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckOp {
    /// Not used.
    pub objv: ObjVersion,
    /// All must hold.
    pub conds: Vec<Condition>,
}
denc::versioned!(CheckOp, 1, 1 { objv, conds });

/// Output of `read`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadReply {
    /// The version; empty if there is none.
    pub objv: ObjVersion,
}
denc::versioned!(ReadReply, 1, 1 { objv });
