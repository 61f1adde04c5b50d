//! Who serves each group of a map, as far as that was computed already.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use types::{OsdId, PoolId};

/// "No OSD" as a primary.
pub const NO_OSD: OsdId = -1;

/// Who serves a group. Positions matter in erasure-coded pools: [`crush::NONE`] is a hole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpActing {
    /// Where the group belongs, of those that are up.
    pub up: Vec<OsdId>,
    /// First choice for the primary; [`NO_OSD`] if none.
    pub up_primary: OsdId,
    /// Who serves it now.
    pub acting: Vec<OsdId>,
    /// Who leads now; [`NO_OSD`] if none.
    pub acting_primary: OsdId,
}

/// The answer for groups that do not exist.
pub(crate) static NOWHERE: UpActing = UpActing { up: Vec::new(), up_primary: NO_OSD, acting: Vec::new(), acting_primary: NO_OSD };

/// The answers for the groups of a pool.
pub(crate) type Slots = Box<[OnceLock<UpActing>]>;

/// Answers that were computed already, by pool and group. They belong to one state of a map: a clone starts empty.
#[derive(Debug, Default)]
pub struct Placements {
    pub(crate) pools: OnceLock<Arc<BTreeMap<PoolId, Slots>>>,
}

impl Clone for Placements {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Placements {
    /// The answers of another map whose placement is the same.
    pub(crate) fn share(&self) -> Self {
        let shared = Self::default();
        if let Some(pools) = self.pools.get() {
            // The new lock is empty, so this cannot fail.
            let _ = shared.pools.set(Arc::clone(pools));
        }
        shared
    }
}
