//! Since when this OSD leads which groups, and which operations are older than that.
//!
//! An OSD that no longer leads a group drops what clients asked of it and was not answered. Each client sends that
//! again when it gets to the map that says so, which may take a while. If this OSD leads the group once more by then,
//! what the client goes on to ask by its old map must not be carried out: it would come before what the client asked
//! earlier. So an operation is carried out only if it was sent by a map since which this OSD has led the group all the
//! time. Who sent an older one sends it again, in its place: the maps between show another primary.
//!
//! A split is the same for objects that leave the group: they may be back after a union. A union is not: the group that
//! takes another one in keeps what it was asked, and clients need not send that again.
//!
//! (Ceph knows these epochs as `same_primary_since` and `last_epoch_split`.)

use maps::{OsdMap, share};
use std::collections::BTreeMap;
use types::{Epoch, OsdId, PgId};

/// Since when this OSD leads a group.
#[derive(Debug)]
struct Led {
    since: Epoch,
    /// The group's part of its pool, as [`share`] tells it. It is larger after a split.
    share: u32,
}

/// The groups that this OSD leads by the newest map, here or not.
#[derive(Debug, Default)]
pub(crate) struct PrimarySince {
    groups: BTreeMap<PgId, Led>,
    /// The latest beginning ever: what was sent since then is older than none.
    newest: Epoch,
}

impl PrimarySince {
    /// Takes the next map. Groups that this OSD did not lead until now begin with `since`: the map's epoch, or 0 at a
    /// start, before which nobody asked anything of this process.
    pub(crate) fn follow(&mut self, map: &OsdMap, whoami: OsdId, since: Epoch) {
        let before = std::mem::take(&mut self.groups);
        for (pool, pg_num) in map.pools.iter().map(|(id, pool)| (*id, pool.pg_num)) {
            for seed in 0..pg_num {
                let pg = PgId::new(pool, seed);
                if map.placed(pg).acting_primary != whoami {
                    continue;
                }
                let share = share(seed, pg_num);
                let since = before.get(&pg).filter(|led| share <= led.share).map_or(since, |led| led.since);
                self.newest = self.newest.max(since);
                self.groups.insert(pg, Led { since, share });
            }
        }
    }

    /// Returns true if an operation that was sent by the map of `epoch` is older than the time during which this OSD
    /// leads its group.
    pub(crate) fn is_before(&self, epoch: Epoch, pg: PgId) -> bool {
        epoch < self.newest && self.groups.get(&pg).is_some_and(|led| epoch < led.since)
    }

    /// The groups, in order.
    pub(crate) fn groups(&self) -> impl Iterator<Item = PgId> + '_ {
        self.groups.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::Pool;

    const ME: OsdId = 1;

    fn group(seed: u32) -> PgId {
        PgId::new(3, seed)
    }

    /// The map of `epoch`, in which groups 0, 1 and so on are led by these.
    fn follow(primary_since: &mut PrimarySince, epoch: Epoch, leaders: &[OsdId]) {
        let mut map = OsdMap { epoch, ..OsdMap::default() };
        map.pools.insert(3, Pool { pg_num: leaders.len() as u32, ..Pool::default() });
        map.primary_temp.extend((0..).zip(leaders).map(|(seed, osd)| (group(seed), *osd)));
        primary_since.follow(&map, ME, epoch);
    }

    #[test]
    fn what_was_sent_before_a_group_was_led_elsewhere_is_older_than_its_tenure() {
        let mut primary_since = PrimarySince::default();
        follow(&mut primary_since, 5, &[ME, ME]);
        follow(&mut primary_since, 6, &[ME, 2]);
        assert!(!primary_since.is_before(4, group(1)), "a group that is not led here has no beginning");
        follow(&mut primary_since, 7, &[ME, ME]);
        follow(&mut primary_since, 8, &[ME, ME]);
        let is_before = |seed| [4, 5, 6, 7, 8].map(|epoch| primary_since.is_before(epoch, group(seed)));
        assert_eq!(is_before(0), [true, false, false, false, false]);
        assert_eq!(is_before(1), [true, true, true, false, false]);
    }

    #[test]
    fn a_split_begins_a_tenure_and_a_union_goes_on_with_the_one_of_who_takes_in() {
        let mut primary_since = PrimarySince::default();
        follow(&mut primary_since, 5, &[ME, ME]);
        follow(&mut primary_since, 6, &[ME, ME, ME]);
        let is_before = |primary_since: &PrimarySince, epoch| [0, 1, 2].map(|seed| primary_since.is_before(epoch, group(seed)));
        assert_eq!(is_before(&primary_since, 5), [true, false, true]);
        follow(&mut primary_since, 7, &[ME, ME]);
        assert_eq!(is_before(&primary_since, 6), [false, false, false]);
        follow(&mut primary_since, 8, &[ME, ME, ME]);
        assert_eq!(is_before(&primary_since, 7), [true, false, true]);
    }

    #[test]
    fn nothing_is_older_than_the_start() {
        let mut primary_since = PrimarySince::default();
        let mut map = OsdMap { epoch: 9, ..OsdMap::default() };
        map.pools.insert(3, Pool { pg_num: 1, ..Pool::default() });
        map.primary_temp.insert(group(0), ME);
        primary_since.follow(&map, ME, 0);
        assert!(!primary_since.is_before(1, group(0)));
    }
}
