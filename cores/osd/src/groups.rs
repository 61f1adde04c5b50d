//! The placement groups of this OSD: which exist, which are coming or going, and the way of store events to them.

use crate::maps::OSD_SCOPE;
use maps::{OsdMap, Pool};
use messages::osd::OsdOp;
use node::{Mono, Now};
use objectstore::{Event, Hold, ObjectStore, Read, Ticket, View};
use pg::{Ctx, Effect, LogSize, Pg};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use types::{OsdId, PgId, SpgId};

/// Number of a group within this OSD; 0 is the OSD itself.
pub(crate) type Slot = u32;

/// Returns whose event this is. None: nobody's here.
pub(crate) fn slot_of(event: &Event, groups: &Groups, map: &OsdMap) -> Option<Slot> {
    match event {
        Event::Fetched(Hold(id)) | Event::Committed(Ticket(id)) | Event::Damaged(Ticket(id), _) => Some(pg::slot_of(*id)),
        Event::Rotten(object) => {
            let pool = map.pools.get(&object.pool)?;
            groups.find(&SpgId { pg: PgId::new(object.pool, pool.fold(object.hash)), shard: object.shard })
        }
    }
}

/// Everything a group is called with, but the group.
pub(crate) struct World<'a> {
    pub(crate) now: Now,
    pub(crate) map: &'a Arc<OsdMap>,
    pub(crate) store: &'a mut dyn ObjectStore,
    pub(crate) out: &'a mut Vec<(Slot, Effect)>,
    pub(crate) whoami: OsdId,
    pub(crate) is_up: bool,
    pub(crate) config: &'a pg::Config,
    pub(crate) leases: &'a pg::Leases,
    pub(crate) room: &'a mut usize,
    pub(crate) steps_aside: bool,
    pub(crate) recorder: &'a mut crate::ops::OpTable,
}

/// All groups.
#[derive(Default)]
pub(crate) struct Groups {
    /// Behind pointers: a group is taken out for each call into it.
    slots: Vec<Option<Box<Pg>>>,
    by_id: BTreeMap<SpgId, Slot>,
    /// Groups that came out of a split and are not loaded yet.
    newborn: BTreeSet<SpgId>,
    /// Newborns are not noted: a mistake to be found.
    #[cfg(feature = "sim")]
    forgetful: bool,
    /// Used by calls into groups; kept to save the allocation.
    effects: Vec<Effect>,
    /// Groups that were touched since their deadline was looked at last.
    touched: Vec<Slot>,
    /// Groups that were called since their wishes for slots were looked at last.
    called: Vec<Slot>,
    /// The earliest deadline of each group that has one.
    deadlines: BTreeMap<(Mono, Slot), ()>,
    deadline_of: BTreeMap<Slot, Mono>,
}

impl Groups {
    /// Returns true if a group here is about to split and `id` comes out of it, or `id`, or what it will come out of, came out of a split and
    /// is not loaded yet.
    pub(crate) fn is_splitting_into(&self, id: &SpgId) -> bool {
        let related = |other: &SpgId| (other.pg.pool, other.shard) == (id.pg.pool, id.shard);
        let born = |child: &SpgId| related(child) && (child == id || pg::descends(id.pg.seed, child.pg.seed));
        self.newborn.iter().any(born) || self.iter().any(|(held, pg)| related(&held) && pg.will_split_into(id.pg.seed))
    }

    /// Takes newborns for groups that are not here: a mistake to be found.
    #[cfg(feature = "sim")]
    pub(crate) fn forget_newborns(&mut self) {
        self.forgetful = true;
    }

    /// Returns true if a group is here whose keys cannot be read, and `id` may be in it: nobody can say that nothing of `id` is here.
    pub(crate) fn is_within_a_broken_one(&self, id: &SpgId) -> bool {
        let holds = |(held, pg): (SpgId, &Pg)| held.pg.pool == id.pg.pool && held.shard == id.shard && pg.may_hide(id.pg.seed);
        self.iter().any(holds)
    }

    /// Number of groups.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The slot of a group, if it is here.
    pub(crate) fn find(&self, pg: &SpgId) -> Option<Slot> {
        self.by_id.get(pg).copied()
    }

    /// Returns true if a group is here from which `pg` could come out by splitting.
    pub(crate) fn has_ancestor(&self, id: &SpgId) -> bool {
        let mut seed = id.pg.seed;
        while seed > 0 {
            seed &= !(1 << seed.ilog2());
            if self.by_id.contains_key(&SpgId { pg: PgId::new(id.pg.pool, seed), ..*id }) {
                return true;
            }
        }
        false
    }

    /// The tables of groups agree with each other.
    #[cfg(feature = "sim")]
    pub(crate) fn self_check(&self) -> Result<(), String> {
        for (id, slot) in &self.by_id {
            let there = self.get(*slot);
            if there.is_none_or(|pg| pg.id() != *id) {
                return Err(format!("pg {id} is not in its slot {slot}"));
            }
        }
        let known = |(slot, at): (&Slot, &Mono)| self.deadlines.contains_key(&(*at, *slot));
        if self.deadlines.len() != self.deadline_of.len() || !self.deadline_of.iter().all(known) {
            return Err(format!("deadlines by time are {:?}, by group {:?}", self.deadlines, self.deadline_of));
        }
        Ok(())
    }

    /// All groups with their slots, in order of ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SpgId, &Pg)> {
        self.by_id.iter().filter_map(|(id, slot)| Some((*id, self.get(*slot)?)))
    }

    /// All groups, for calls that need no world.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Pg> {
        self.slots.iter_mut().filter_map(Option::as_deref_mut)
    }

    /// A group by its slot, for calls that need no world.
    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut Pg> {
        self.slots.get_mut(slot as usize)?.as_deref_mut()
    }

    /// Ids from `first` on, in order.
    pub(crate) fn ids_from(&self, first: SpgId) -> impl Iterator<Item = SpgId> + '_ {
        self.by_id.range(first..).map(|(id, _)| *id)
    }

    /// All ids.
    pub(crate) fn ids(&self) -> Vec<SpgId> {
        self.by_id.keys().copied().collect()
    }

    /// A group by its slot.
    pub(crate) fn get(&self, slot: Slot) -> Option<&Pg> {
        self.slots.get(slot as usize)?.as_deref()
    }

    /// Returns what the logs of all groups take together.
    pub(crate) fn log_size(&self) -> LogSize {
        self.slots.iter().flatten().map(|pg| pg.log_size()).fold(LogSize::default(), |all, one| LogSize {
            entries: all.entries + one.entries,
            dups: all.dups + one.dups,
            bytes: all.bytes + one.bytes,
        })
    }

    /// Returns true if all groups serve, or follow who does.
    pub(crate) fn all_settled(&self) -> bool {
        self.iter().all(|(_, pg)| pg.is_settled())
    }

    /// Slots are never used again: the last tenant may still have store events under way.
    fn new_slot(&mut self) -> Slot {
        if self.slots.is_empty() {
            self.slots.push(None);
        }
        self.slots.push(None);
        (self.slots.len() - 1) as Slot
    }

    fn settle(&mut self, id: SpgId, slot: Slot, pg: Pg) {
        self.slots[slot as usize] = Some(Box::new(pg));
        self.by_id.insert(id, slot);
        self.touch(slot);
    }

    /// Makes a new, empty group.
    pub(crate) fn create(&mut self, id: SpgId, world: &mut World<'_>) {
        let slot = self.new_slot();
        let pg = self.with_ctx(slot, world, |ctx| Pg::create(id, ctx));
        self.settle(id, slot, pg);
    }

    /// Begins to lead a group of which nothing is here.
    pub(crate) fn seek(&mut self, id: SpgId, world: &mut World<'_>) {
        let slot = self.new_slot();
        let pg = self.with_ctx(slot, world, |ctx| Pg::seek(id, ctx));
        self.settle(id, slot, pg);
    }

    /// Becomes a copy of a group of which nothing is here.
    pub(crate) fn join(&mut self, id: SpgId, world: &mut World<'_>) -> Slot {
        let slot = self.new_slot();
        let pg = self.with_ctx(slot, world, |ctx| Pg::join(id, ctx));
        self.settle(id, slot, pg);
        slot
    }

    /// Brings a group back from the store.
    pub(crate) fn load(&mut self, id: SpgId, world: &mut World<'_>) {
        self.newborn.remove(&id);
        if self.by_id.contains_key(&id) {
            return;
        }
        let slot = self.new_slot();
        let pg = self.with_ctx(slot, world, |ctx| Pg::load(id, ctx));
        self.settle(id, slot, pg);
    }

    /// Loads groups anew whose keys could not be read: a disk that failed once may answer now.
    pub(crate) fn reload_failed(&mut self, world: &mut World<'_>) {
        let failed: Vec<Slot> =
            self.by_id.values().copied().filter(|slot| self.get(*slot).is_some_and(Pg::load_failed)).collect();
        for slot in failed {
            self.call(slot, world, |pg, ctx| pg.reload(ctx));
        }
    }

    fn with_ctx<R>(&mut self, slot: Slot, world: &mut World<'_>, f: impl FnOnce(&mut Ctx<'_>) -> R) -> R {
        let mut ctx = Ctx {
            now: world.now,
            map: world.map,
            store: world.store,
            out: &mut self.effects,
            slot,
            whoami: world.whoami,
            is_up: world.is_up,
            config: world.config,
            leases: world.leases,
            room: world.room,
            steps_aside: world.steps_aside,
            recorder: world.recorder,
        };
        let result = f(&mut ctx);
        for effect in self.effects.drain(..) {
            match &effect {
                #[cfg(feature = "sim")]
                _ if self.forgetful => {}
                Effect::Split { children } => self.newborn.extend(children),
                _ => {}
            }
            world.out.push((slot, effect));
        }
        result
    }

    /// Bytes of notifications that are not over, of all groups.
    pub(crate) fn notices(&self) -> usize {
        self.slots.iter().flatten().map(|pg| pg.notices()).sum()
    }

    /// Calls into one group; nothing happens if the slot is empty.
    pub(crate) fn call<R>(&mut self, slot: Slot, world: &mut World<'_>, f: impl FnOnce(&mut Pg, &mut Ctx<'_>) -> R) -> Option<R> {
        let mut pg = self.slots.get_mut(slot as usize)?.take()?;
        let result = self.with_ctx(slot, world, |ctx| f(&mut pg, ctx));
        self.slots[slot as usize] = Some(pg);
        self.touch(slot);
        Some(result)
    }

    /// Calls into every group.
    pub(crate) fn call_all(&mut self, world: &mut World<'_>, mut f: impl FnMut(&mut Pg, &mut Ctx<'_>)) {
        for slot in 1..self.slots.len() {
            self.call(slot as Slot, world, &mut f);
        }
    }

    /// A group said that nothing of it is left in the store.
    pub(crate) fn removed(&mut self, slot: Slot) {
        if self.slots.get_mut(slot as usize).and_then(Option::take).is_some() {
            self.by_id.retain(|_, s| *s != slot);
            self.touch(slot);
        }
    }

    fn touch(&mut self, slot: Slot) {
        self.touched.push(slot);
        // One group is called for many operations in a row.
        if self.called.last() != Some(&slot) {
            self.called.push(slot);
        }
    }

    /// One of the groups that were called, or are gone, since this was asked last; some come more than once.
    pub(crate) fn next_called(&mut self) -> Option<Slot> {
        self.called.pop()
    }

    /// Returns true if there are such.
    #[cfg(feature = "sim")]
    pub(crate) fn has_called(&self) -> bool {
        !self.called.is_empty()
    }

    /// Slots of all groups.
    #[cfg(feature = "sim")]
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.by_id.values().copied()
    }

    /// Calls the groups whose deadline has come.
    pub(crate) fn turn(&mut self, world: &mut World<'_>) {
        self.note_deadlines();
        while let Some(((at, slot), ())) = self.deadlines.first_key_value().map(|(k, v)| (*k, *v)) {
            if at > world.now.mono {
                break;
            }
            self.deadlines.remove(&(at, slot));
            self.deadline_of.remove(&slot);
            self.call(slot, world, |pg, ctx| pg.turn(ctx));
        }
        self.note_deadlines();
    }

    fn note_deadlines(&mut self) {
        while let Some(slot) = self.touched.pop() {
            let new = self.get(slot).map_or(Mono::NEVER, Pg::deadline);
            let old = self.deadline_of.get(&slot).copied().unwrap_or(Mono::NEVER);
            if new == old {
                continue;
            }
            self.deadlines.remove(&(old, slot));
            self.deadline_of.remove(&slot);
            if new != Mono::NEVER {
                self.deadlines.insert((new, slot), ());
                self.deadline_of.insert(slot, new);
            }
        }
    }

    /// The earliest deadline of all groups.
    pub(crate) fn deadline(&self) -> Mono {
        if !self.touched.is_empty() {
            return Mono(0);
        }
        self.deadlines.first_key_value().map_or(Mono::NEVER, |((at, _), ())| *at)
    }
}

/// The groups that the store holds.
pub(crate) fn stored(store: &dyn View, hold: Hold) -> Read<Vec<SpgId>> {
    let scopes = store.scopes(hold)?;
    Ok(scopes.into_iter().filter(|s| *s != OSD_SCOPE && s.pg.pool >= 0).collect())
}

/// Returns as which copy a group is led: in a pool of shards by the position of its primary, the first one if it has
/// several.
pub(crate) fn led_as(map: &OsdMap, pg: PgId) -> SpgId {
    SpgId { pg, shard: map.leading_shard(pg) }
}

/// Returns the copy that an operation is for, if it is here. In a pool of shards it is the one that leads the group,
/// whatever shard the client named: that it knows by its map, as this OSD does.
pub(crate) fn addressed(map: &OsdMap, op: &OsdOp) -> SpgId {
    let pg = PgId::new(op.locator.pool, op.pg.pg.seed);
    let has_shards = map.pool(pg.pool).is_some_and(Pool::is_erasure);
    if has_shards { led_as(map, pg) } else { SpgId { pg, shard: op.pg.shard } }
}

/// Those of the groups that this OSD leads which it does not have (`known` tells): those that come into being with the
/// map after `old`, since their pool does, and those that others may have. Groups that come out of a split of one that
/// is here are left to that.
pub(crate) fn unknown(
    old: &OsdMap,
    new: &OsdMap,
    led: impl Iterator<Item = PgId>,
    known: impl Fn(&SpgId) -> bool,
) -> (Vec<SpgId>, Vec<SpgId>) {
    let unknown = led.map(|pg| led_as(new, pg)).filter(|id| !known(id));
    // Of a pool that came with a map that was skipped, others may have groups.
    let next = old.epoch > 0 && new.epoch == old.epoch + 1;
    unknown.partition(|id| next && !old.pools.contains_key(&id.pg.pool))
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::{pool_type, state};
    use types::{HOLE, ShardId};

    #[test]
    fn a_group_of_shards_is_led_as_the_position_of_its_primary() {
        let mut map = OsdMap { epoch: 7, ..OsdMap::default() };
        map.set_max_osd(4);
        map.osd_state.iter_mut().for_each(|osd| *osd = state::EXISTS | state::UP);
        let pool = Pool { pg_num: 2, pgp_num: 2, size: 3, ..Pool::default() };
        map.pools.insert(1, Pool { type_: pool_type::REPLICATED, ..pool.clone() });
        map.pools.insert(2, Pool { type_: pool_type::ERASURE, ..pool });
        let (copies, shards, nobody) = (PgId::new(1, 0), PgId::new(2, 0), PgId::new(2, 1));
        map.pg_temp = [(copies, vec![3, 1]), (shards, vec![HOLE, 3, 1])].into();
        let led = |shard| SpgId { pg: shards, shard: ShardId(shard) };
        assert_eq!((led_as(&map, copies), led_as(&map, shards)), (SpgId::whole(copies), led(1)));
        assert_eq!(led_as(&map, nobody), SpgId::whole(nobody), "no copy has that name");
        // New groups are made as what they are led as.
        let (born, sought) = unknown(&OsdMap { epoch: 6, ..OsdMap::default() }, &map, [copies, shards].into_iter(), |_| false);
        assert_eq!((born, sought), (vec![SpgId::whole(copies), led(1)], Vec::new()));
        map.primary_temp.insert(shards, 1);
        map.forget_placements();
        assert_eq!(led_as(&map, shards), led(2));
    }
}
