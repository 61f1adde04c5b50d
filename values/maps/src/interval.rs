//! Intervals: times during which a group has the same members under the same rules.

use crate::OsdMap;
use types::{OsdId, PgId, is_osd};

/// All that makes one interval of a placement group differ from the next: when any of it changes, the OSDs drop the
/// operations that they have not begun, and clients send them again. Clients and OSDs judge by this one value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Place where the group belongs, of those that are up.
    pub up: Vec<OsdId>,
    /// First choice for the primary; -1 if none.
    pub up_primary: OsdId,
    /// OSDs that serve it.
    pub acting: Vec<OsdId>,
    /// OSD that leads it; -1 if nobody does.
    pub primary: OsdId,
    /// Copies that the pool wants.
    pub size: u32,
    /// Copies without which nothing is served.
    pub min_size: u32,
    /// The group's part of the pool, as [`share`] tells it: a change of the pool's number of groups begins an interval of those
    /// that it divides or unites, and of no others. 0: there is no such group.
    pub pg_num: u32,
    /// The part that it is about to have. It is smaller while the group is about to be merged.
    pub pg_num_pending: u32,
    /// Epoch in which clients were last told to send everything again.
    pub force_resend: u32,
}

/// The number of groups of a pool of a power of two of groups in which group `seed` has the same objects as in one of `pg_num`
/// groups; 0 if there is no such group. Of a pool of six groups, 0 and 1 have an eighth, 2 and 3 a fourth, 4 and 5 an eighth.
pub fn share(seed: u32, pg_num: u32) -> u32 {
    if seed >= pg_num {
        return 0;
    }
    let top = pg_num.checked_next_power_of_two().unwrap_or(1 << 31);
    let half = top / 2;
    if seed < half && seed + half >= pg_num { half } else { top }
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
            pg_num: share(pg.seed, pool.pg_num),
            pg_num_pending: share(pg.seed, if pool.pg_num_pending == 0 { pool.pg_num } else { pool.pg_num_pending }),
            force_resend: pool.last_force_op_resend,
        })
    }

    /// Returns true if the group is about to be merged: the pool shall have so few groups that this one goes, or takes
    /// another one in. It does not serve meanwhile.
    pub fn is_premerge(&self) -> bool {
        self.pg_num_pending < self.pg_num
    }

    /// The members that serve the group, without the holes that places without an OSD leave.
    pub fn members(&self) -> impl Iterator<Item = OsdId> + '_ {
        self.acting.iter().copied().filter(|osd| is_osd(*osd))
    }

    /// Returns how many places the pool has for copies of a group: copies, or shards.
    pub fn places(&self) -> usize {
        self.size as usize
    }

    /// Returns without how many members nothing is served.
    pub fn least(&self) -> usize {
        self.min_size as usize
    }

    /// Returns true if members are fewer than the pool needs to serve.
    pub fn is_short(&self) -> bool {
        self.members().count() < self.least()
    }

    /// Returns true if there is a member for each place.
    pub fn is_full(&self) -> bool {
        self.members().count() >= self.places()
    }

    /// Returns true if the pool has one copy of each group.
    pub fn is_single(&self) -> bool {
        self.size <= 1
    }

    /// Returns the interval of a group of a pool of one copy.
    pub fn single(up: Vec<OsdId>, acting: Vec<OsdId>, primary: OsdId) -> Self {
        Self { up, acting, primary, size: 1, min_size: 1, ..Self::default() }
    }

    /// Returns where the group belongs, without holes.
    pub fn home(&self) -> impl Iterator<Item = OsdId> + '_ {
        self.up.iter().copied().filter(|osd| is_osd(*osd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::hash::stable_mod;

    #[test]
    fn a_share_tells_which_objects_a_group_has() {
        for pg_num in 1..70u32 {
            let mask = pg_num.next_power_of_two() - 1;
            for seed in 0..pg_num {
                let share = share(seed, pg_num);
                assert!(share.is_power_of_two() && share > seed, "{seed} of {pg_num}: {share}");
                for hash in 0..512u32 {
                    assert_eq!(stable_mod(hash, pg_num, mask) == seed, hash % share == seed, "{hash} in {seed} of {pg_num}");
                }
            }
            assert_eq!(share(pg_num, pg_num), 0);
        }
    }

    #[test]
    fn a_group_less_changes_two_shares() {
        for pg_num in 2..70u32 {
            let changed: Vec<u32> = (0..pg_num).filter(|seed| share(*seed, pg_num) != share(*seed, pg_num - 1)).collect();
            let target = stable_mod(pg_num - 1, pg_num - 1, (pg_num - 1).next_power_of_two() - 1);
            assert_eq!(changed, [target, pg_num - 1]);
        }
    }
}
