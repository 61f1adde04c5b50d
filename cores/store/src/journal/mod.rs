//! The journal: a ring of groups of records.

pub(crate) mod group;
pub(crate) mod records;
pub(crate) mod ring;
pub(crate) mod staged;
