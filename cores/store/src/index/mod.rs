//! The index: a delta in memory over a copy-on-write tree on disk.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

pub(crate) mod changes;
pub(crate) mod delta;
pub(crate) mod keys;
pub(crate) mod layer;
pub(crate) mod overlay;
pub(crate) mod page;
pub(crate) mod tree;
pub(crate) mod view;
