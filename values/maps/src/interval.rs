//! Intervals: times during which a group has the same members under the same rules.

use crate::OsdMap;
use types::{OsdId, PgId};

/// All that makes one interval of a placement group differ from the next: when any of it changes, the OSDs drop the
/// operations that they have not begun, and clients send them again. Clients and OSDs judge by this one value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Where the group belongs, of those that are up.
    pub up: Vec<OsdId>,
    /// First choice for the primary; -1 if none.
    pub up_primary: OsdId,
    /// Who serves it.
    pub acting: Vec<OsdId>,
    /// Who leads it; -1 if nobody does.
    pub primary: OsdId,
    /// Copies that the pool wants.
    pub size: u32,
    /// Copies without which nothing is served.
    pub min_size: u32,
    /// Groups of the pool.
    pub pg_num: u32,
    /// Groups that the pool is about to have.
    pub pg_num_pending: u32,
    /// Epoch in which clients were last told to send everything again.
    pub force_resend: u32,
}

impl Interval {
    /// The interval of a group in a map; `None` if the pool does not exist.
    pub fn of(map: &OsdMap, pg: PgId) -> Option<Self> {
        let pool = map.pool(pg.pool)?;
        let set = map.placed(pg);
        Some(Self {
            up: set.up.clone(),
            up_primary: set.up_primary,
            acting: set.acting.clone(),
            primary: set.acting_primary,
            size: u32::from(pool.size),
            min_size: u32::from(pool.min_size),
            pg_num: pool.pg_num,
            pg_num_pending: pool.pg_num_pending,
            force_resend: pool.last_force_op_resend,
        })
    }

    /// The members that serve the group, without the holes that places without an OSD leave.
    pub fn members(&self) -> impl Iterator<Item = OsdId> + '_ {
        self.acting.iter().copied().filter(|osd| *osd >= 0)
    }

    /// Where the group belongs, without holes.
    pub fn home(&self) -> impl Iterator<Item = OsdId> + '_ {
        self.up.iter().copied().filter(|osd| *osd >= 0)
    }
}
