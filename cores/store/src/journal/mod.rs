//! The journal: a ring of groups of records.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

pub(crate) mod group;
pub(crate) mod records;
pub(crate) mod ring;
pub(crate) mod staged;
