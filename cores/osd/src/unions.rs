//! Groups that are united when their pool gets fewer. Each group knows what it has to do (`pg::Pg::change_share`); here
//! those that are to become one are brought together.
//!
//! A group that is taken in leaves what it knows to the one that takes it in, if that has something of its own here.
//! Else this OSD has no part in the united group, and the copy is removed like any that is not needed. Before it is
//! gone, nothing of the united group comes to be here: the removal would take objects that came for it.

use crate::Osd;
use crate::groups::Groups;
use ::maps::OsdMap;
use node::{Now, Outputs};
use pg::{Legacy, Pg};
use types::{SpgId, hash};

/// Result for a group that waits for others.
enum Found {
    /// Some are not ready.
    NotYet,
    All(Vec<Legacy>),
}

impl Groups {
    /// Returns true if a group is here that `id` takes in by the map: as long as it is, `id` must not come to be here.
    pub(crate) fn is_blocked(&self, id: &SpgId, map: &OsdMap) -> bool {
        let Some(pool) = map.pool(id.pg.pool) else { return false };
        let mask = pool.pg_num.next_power_of_two() - 1;
        let first = SpgId { pg: types::PgId::new(id.pg.pool, pool.pg_num), ..*id };
        let beyond = self.ids_from(first).take_while(|other| other.pg.pool == id.pg.pool).filter(|other| other.shard == id.shard);
        beyond.map(|other| hash::stable_mod(other.pg.seed, pool.pg_num, mask)).any(|seed| seed == id.pg.seed)
    }

    /// Groups that `target` takes in and that are here.
    fn sources(&self, target: &Pg) -> Vec<SpgId> {
        let to = target.id();
        let taken = |id: &SpgId| (id.pg.pool, id.shard) == (to.pg.pool, to.shard) && target.takes_in(id.pg.seed);
        self.iter().map(|(id, _)| id).filter(taken).collect()
    }

    /// Returns what the groups leave that `target` takes in.
    fn legacies(&self, target: &Pg) -> Found {
        let sources = self.sources(target);
        if target.is_nothing() && !sources.is_empty() {
            return Found::NotYet;
        }
        let legacy = |id: &SpgId| self.get(self.find(id)?)?.legacy();
        match sources.iter().map(legacy).collect() {
            Some(all) => Found::All(all),
            None => Found::NotYet,
        }
    }

    /// Groups that wait to be taken in, and that nobody takes in.
    fn disinherited(&self) -> Vec<SpgId> {
        let nobody = |heir: &SpgId| self.find(heir).and_then(|slot| self.get(slot)).is_none_or(Pg::is_nothing);
        self.iter().filter(|(_, pg)| pg.heir().is_some_and(|heir| nobody(&heir))).map(|(id, _)| id).collect()
    }
}

impl Osd {
    /// Brings together what is ready to be united. To be called when a group says so, or has gone.
    pub(crate) fn unite(&mut self, now: Now) {
        for id in self.groups.disinherited() {
            self.call_group(now, id, |pg, ctx| pg.remove(ctx));
        }
        let waiting: Vec<SpgId> = self.groups.iter().filter(|(_, pg)| pg.waits_for_sources()).map(|(id, _)| id).collect();
        for id in waiting {
            let target = self.groups.find(&id).and_then(|slot| self.groups.get(slot));
            if let Some(Found::All(legacies)) = target.map(|target| self.groups.legacies(target)) {
                self.call_group(now, id, |pg, ctx| pg.take_in(ctx, legacies));
            }
        }
    }

    /// A group has taken others in: they are no more.
    pub(crate) fn united(&mut self, now: Now, into: SpgId, sources: Vec<u32>, out: &mut Outputs) {
        for seed in sources {
            let id = SpgId { pg: types::PgId::new(into.pg.pool, seed), ..into };
            let slot = self.groups.find(&id).filter(|slot| self.groups.get(*slot).is_some_and(|pg| pg.heir() == Some(into)));
            if let Some(slot) = slot {
                self.group_is_gone(slot);
            }
        }
        self.scale_logs();
        self.reporter.hurry();
        self.rehouse();
        self.deliver_held(now, out);
    }
}
