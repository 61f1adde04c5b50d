//! Where an operation goes.

use crate::OpRequest;
use maps::OsdMap;
use types::{HObject, OsdId, PgId, SnapId};

/// All that makes one interval of a placement group differ from the next: when any of it changes, the OSDs drop the
/// operations that they have not begun, and clients send them again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    up: Vec<OsdId>,
    up_primary: OsdId,
    acting: Vec<OsdId>,
    /// Who serves the group; -1 if nobody does.
    pub primary: OsdId,
    size: u32,
    min_size: u32,
    pg_num: u32,
    pg_num_pending: u32,
    force_resend: u32,
}

/// The group of an operation, and who serves it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The group.
    pub pg: PgId,
    /// Placement hash, before it is folded into the pool's groups.
    pub hash: u32,
    /// Who serves it.
    pub interval: Interval,
}

/// The interval of a group in a map; `None` if the pool does not exist.
pub fn interval_of(map: &OsdMap, pg: PgId) -> Option<Interval> {
    let pool = map.pool(pg.pool)?;
    let set = map.up_acting(pg);
    Some(Interval {
        up: set.up,
        up_primary: set.up_primary,
        acting: set.acting,
        primary: set.acting_primary,
        size: u32::from(pool.size),
        min_size: u32::from(pool.min_size),
        pg_num: pool.pg_num,
        pg_num_pending: pool.pg_num_pending,
        force_resend: pool.last_force_op_resend,
    })
}

impl Target {
    /// Where a request goes according to a map; `None` if its pool does not exist.
    pub fn of(map: &OsdMap, request: &OpRequest) -> Option<Target> {
        let pool = request.pg.map_or(request.locator.pool, |pg| pg.pool);
        map.pool(pool)?;
        let (pg, hash) = match request.pg {
            Some(pg) => (pg, pg.seed),
            None => (map.object_pg(&request.locator, &request.oid)?, request.locator.hash_of(&request.oid)),
        };
        Some(Target { pg, hash, interval: interval_of(map, pg)? })
    }
}

/// The object that a request concerns, as backoffs name it.
pub(crate) fn object_of(request: &OpRequest) -> HObject {
    match request.pg {
        Some(pg) => HObject { snap: SnapId::HEAD, ..HObject::start_of_hash(pg.pool, pg.seed) },
        None => HObject::head(request.oid.clone(), &request.locator),
    }
}
