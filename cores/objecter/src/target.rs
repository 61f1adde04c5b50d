//! Where an operation goes.

use crate::OpRequest;
use maps::{Interval, OsdMap};
use types::{HObject, PgId, ShardId, SnapId};

/// The group of an operation, and who serves it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The group.
    pub pg: PgId,
    /// Placement hash, before it is folded into the pool's groups.
    pub hash: u32,
    /// The shard that is asked: the primary's, in pools that have shards.
    pub shard: ShardId,
    /// Interval in which it is served.
    pub interval: Interval,
}

impl Target {
    /// Returns where a request goes according to a map; `None` if its pool does not exist.
    pub fn of(map: &OsdMap, request: &OpRequest) -> Option<Target> {
        let pool = request.pg.map_or(request.locator.pool, |pg| pg.pool);
        map.pool(pool)?;
        let (pg, hash) = match request.pg {
            Some(pg) => (pg, pg.seed),
            None => (map.object_pg(&request.locator, &request.oid)?, request.locator.hash_of(&request.oid)),
        };
        Some(Target { pg, hash, shard: map.leading_shard(pg), interval: Interval::of(map, pg)? })
    }
}

/// The object that a request concerns, as backoffs name it.
pub(crate) fn object_of(request: &OpRequest) -> HObject {
    match request.pg {
        Some(pg) => HObject { snap: SnapId::HEAD, ..HObject::start_of_hash(pg.pool, pg.seed) },
        None => HObject::head(request.oid.clone(), &request.locator),
    }
}
