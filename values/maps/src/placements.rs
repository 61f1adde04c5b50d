//! Who serves each group of a map, as far as that was computed already.

use crate::Pool;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use types::{OsdId, PoolId};

/// "No OSD" as a primary.
pub const NO_OSD: OsdId = -1;

/// OSDs that serve a group. Positions matter in erasure-coded pools: [`crush::NONE`] is a hole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpActing {
    /// Place where the group belongs, of those that are up.
    pub up: Vec<OsdId>,
    /// First choice for the primary; [`NO_OSD`] if none.
    pub up_primary: OsdId,
    /// OSDs that serve it now.
    pub acting: Vec<OsdId>,
    /// OSD that leads now; [`NO_OSD`] if none.
    pub acting_primary: OsdId,
}

/// The answer for groups that do not exist.
pub(crate) static NOWHERE: UpActing = UpActing { up: Vec::new(), up_primary: NO_OSD, acting: Vec::new(), acting_primary: NO_OSD };

/// Results that are known for one group.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// OSDs that CRUSH names, whether they exist or not.
    pub(crate) crush: OnceLock<Arc<[OsdId]>>,
    /// OSDs that serve it. Known only with `crush`.
    pub(crate) placed: OnceLock<Arc<UpActing>>,
}

/// Most groups of one pool that are served; the monitor allows a pool far fewer, so larger pools are forged.
pub(crate) const MAX_GROUPS: u32 = 1 << 20;

/// The answers for the groups of a pool.
pub(crate) type Slots = Arc<[Known]>;

/// A pool's answers when none was computed yet.
pub(crate) fn empty_slots(pool: &Pool) -> Slots {
    (0..pool.pg_num.min(MAX_GROUPS)).map(|_| Known::default()).collect()
}

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
