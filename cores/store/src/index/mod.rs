//! The index: a delta in memory over a copy-on-write tree on disk.

pub(crate) mod changes;
pub(crate) mod delta;
pub(crate) mod keys;
pub(crate) mod layer;
pub(crate) mod page;
pub(crate) mod tree;
pub(crate) mod view;
