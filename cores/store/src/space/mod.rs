//! Which blocks of the disk are in use.

pub(crate) mod alloc;
pub(crate) mod bits;
pub(crate) mod refs;
