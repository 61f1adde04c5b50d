//! Class `rgw`: what Ceph's object gateway keeps in omaps: the index of a bucket, and its logs and queues of work.

mod index;
mod logs;

use crate::Method;

/// The rows of both halves.
pub(crate) const METHODS: &[&[Method]] = &[index::METHODS, logs::METHODS];
