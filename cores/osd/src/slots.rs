//! Slots for recovery: how many groups move objects at a time, to and from this OSD.
//!
//! There are two tables of `osd_max_backfills` slots each: one for groups that this OSD leads, one for groups that
//! others lead and that bring objects here. A group says what it wants ([`pg::SlotWishes`]); this table says who has a
//! slot. The highest priority comes first, then who waited longest. Who wants a slot with a higher priority than
//! somebody has one takes it from him, who waits again.
//!
//! *Owner.* The OSD owns both tables, the groups their wishes. After each round the wishes of groups that were called
//! are compared with the tables, and those of groups that are gone are dropped. So a slot is given back on every way
//! out: whoever does not wish it any more does not have it.
//!
//! *Invariant.* A group has a slot in a table exactly when it believes so ([`pg::SlotWishes`]); the self check compares
//! both.

use crate::Osd;
use crate::groups::{Groups, Slot};
use node::Now;
use pg::{SlotSide, SlotWish, SlotWishes};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Groups that have slots of one kind, and those that wait for one.
#[derive(Debug, Default)]
pub(crate) struct Table {
    held: BTreeMap<Slot, u8>,
    /// By priority, the highest first, and order of arrival.
    queue: BTreeMap<(Reverse<u8>, u64), Slot>,
    places: BTreeMap<Slot, (Reverse<u8>, u64)>,
    arrivals: u64,
}

impl Table {
    /// A group wishes this now. A change of priority keeps a slot; who has one and says that he has none gave it up,
    /// and waits anew.
    fn wish(&mut self, group: Slot, wish: Option<SlotWish>) {
        match wish {
            None => {
                self.held.remove(&group);
                self.leave_queue(group);
            }
            Some(SlotWish { priority, held }) => match self.held.get_mut(&group) {
                Some(known) if held => *known = priority,
                _ => {
                    self.held.remove(&group);
                    self.wait(group, priority);
                }
            },
        }
    }

    fn wait(&mut self, group: Slot, priority: u8) {
        if self.places.get(&group).is_some_and(|(Reverse(waits), _)| *waits == priority) {
            return;
        }
        self.leave_queue(group);
        self.arrivals += 1;
        let place = (Reverse(priority), self.arrivals);
        self.queue.insert(place, group);
        self.places.insert(group, place);
    }

    fn leave_queue(&mut self, group: Slot) {
        if let Some(place) = self.places.remove(&group) {
            self.queue.remove(&place);
        }
    }

    /// The next change, if there is one: who gets a slot (true), or loses it.
    fn step(&mut self, most: usize) -> Option<(Slot, bool)> {
        let (place, group) = self.queue.first_key_value().map(|(place, group)| (*place, *group))?;
        if self.held.len() < most {
            self.leave_queue(group);
            self.held.insert(group, place.0.0);
            return Some((group, true));
        }
        let (least, priority) =
            self.held.iter().map(|(group, priority)| (*group, *priority)).min_by_key(|(_, priority)| *priority)?;
        if priority >= place.0.0 || self.held.len() > most {
            return None;
        }
        self.held.remove(&least);
        self.wait(least, priority);
        Some((least, false))
    }
}

impl Table {
    /// Returns who has slots and who waits, as Ceph shows it.
    fn json(&self, groups: &Groups, most: usize) -> Value {
        let row = |group: Slot, priority: u8| {
            let name = groups.iter().find_map(|(id, _)| (groups.find(&id) == Some(group)).then(|| id.to_string()));
            json!({ "item": name.unwrap_or_default(), "prio": priority, "can_preempt": true })
        };
        let mut queues: BTreeMap<Reverse<u8>, Vec<Value>> = BTreeMap::new();
        for ((priority, _), group) in &self.queue {
            queues.entry(*priority).or_default().push(row(*group, priority.0));
        }
        let queue = |(priority, items): (Reverse<u8>, Vec<Value>)| json!({ "priority": priority.0, "items": items });
        json!({
            "max_allowed": most,
            "min_priority": 0,
            "queues": queues.into_iter().map(queue).collect::<Vec<_>>(),
            "in_progress": self.held.iter().map(|(group, priority)| row(*group, *priority)).collect::<Vec<_>>(),
        })
    }
}

/// Both tables.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    local: Table,
    remote: Table,
}

impl Slots {
    fn table(&mut self, side: SlotSide) -> &mut Table {
        match side {
            SlotSide::Local => &mut self.local,
            SlotSide::Remote => &mut self.remote,
        }
    }

    /// Notes what a group wishes now.
    fn wish(&mut self, group: Slot, wishes: SlotWishes) {
        self.local.wish(group, wishes.local);
        self.remote.wish(group, wishes.remote);
    }

    /// Returns what `dump_recovery_reservations` shows. `most`: slots of each table.
    pub(crate) fn json(&self, groups: &Groups, most: usize) -> Value {
        json!({ "local_reservations": self.local.json(groups, most), "remote_reservations": self.remote.json(groups, most) })
    }

    /// Both tables and the groups agree.
    #[cfg(feature = "sim")]
    pub(crate) fn self_check(&self, groups: &Groups, most: usize) -> Result<(), String> {
        for (table, name, local) in [(&self.local, "local", true), (&self.remote, "remote", false)] {
            let believes = |group: Slot| {
                let wishes = groups.get(group).map(pg::Pg::slot_wishes).unwrap_or_default();
                (if local { wishes.local } else { wishes.remote }).is_some_and(|wish| wish.held)
            };
            if let Some(group) = table.held.keys().find(|group| !believes(**group)) {
                return Err(format!("group in slot {group} has a {name} slot for recovery, and does not know it"));
            }
            let held = groups.slots().filter(|group| believes(*group)).count();
            if held != table.held.len() {
                return Err(format!("{held} groups believe that they have {name} slots for recovery, {} have", table.held.len()));
            }
            if table.queue.len() != table.places.len() || table.queue.values().any(|group| table.held.contains_key(group)) {
                return Err(format!("the queue for {name} slots of recovery does not fit"));
            }
            if table.held.len() < most && !table.queue.is_empty() {
                return Err(format!("somebody waits for a {name} slot of recovery, and one is free"));
            }
        }
        Ok(())
    }
}

impl Osd {
    /// Compares what groups wish with who has slots, and tells those for whom something changes.
    pub(crate) fn share_slots(&mut self, now: Now) {
        loop {
            while let Some(group) = self.groups.next_called() {
                let called = self.groups.get(group);
                let wishes = called.map(pg::Pg::slot_wishes).unwrap_or_default();
                let (moving, held_back) = called.map_or((0, false), |pg| (pg.moving(), pg.is_held_back()));
                self.slots.wish(group, wishes);
                self.pace.note(now.mono, group, moving, held_back);
            }
            let most = self.options.max_backfills;
            let sides = [SlotSide::Local, SlotSide::Remote];
            let change = sides.into_iter().find_map(|side| Some((side, self.slots.table(side).step(most)?)));
            let Some((side, (group, granted))) = change else { return };
            let (groups, mut world) = self.world(now);
            groups.call(group, &mut world, |pg, ctx| pg.slot_changed(ctx, side, granted));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(priority: u8) -> Option<SlotWish> {
        Some(SlotWish { priority, held: false })
    }

    fn has(priority: u8) -> Option<SlotWish> {
        Some(SlotWish { priority, held: true })
    }

    fn steps(table: &mut Table, most: usize) -> Vec<(Slot, bool)> {
        std::iter::from_fn(|| table.step(most)).collect()
    }

    #[test]
    fn the_highest_priority_comes_first_then_who_waited_longest() {
        let mut table = Table::default();
        for (group, priority) in [(1, 180), (2, 140), (3, 180), (4, 220)] {
            table.wish(group, waits(priority));
        }
        assert_eq!(steps(&mut table, 2), [(4, true), (1, true)]);
        table.wish(4, None);
        assert_eq!(steps(&mut table, 2), [(3, true)]);
        table.wish(1, None);
        table.wish(3, None);
        assert_eq!(steps(&mut table, 2), [(2, true)]);
        assert!(table.queue.is_empty() && table.places.is_empty());
    }

    #[test]
    fn a_higher_priority_takes_a_slot_and_an_equal_one_does_not() {
        let mut table = Table::default();
        table.wish(1, waits(180));
        assert_eq!(steps(&mut table, 1), [(1, true)]);
        table.wish(2, waits(180));
        assert_eq!(steps(&mut table, 1), []);
        // An operator wants the second one first; later the first one again.
        table.wish(2, waits(255));
        assert_eq!(steps(&mut table, 1), [(1, false), (2, true)]);
        table.wish(2, has(180));
        table.wish(1, waits(255));
        assert_eq!(steps(&mut table, 1), [(2, false), (1, true)]);
        table.wish(1, None);
        assert_eq!(steps(&mut table, 1), [(2, true)]);
    }

    #[test]
    fn who_gave_his_slot_up_waits_behind_others() {
        let mut table = Table::default();
        table.wish(1, waits(180));
        table.wish(2, waits(180));
        assert_eq!(steps(&mut table, 1), [(1, true)]);
        table.wish(1, waits(180));
        assert_eq!(steps(&mut table, 1), [(2, true)]);
        table.wish(2, None);
        assert_eq!(steps(&mut table, 1), [(1, true)]);
    }

    #[test]
    fn fewer_slots_take_none_away_and_none_means_none() {
        let mut table = Table::default();
        (1..4).for_each(|group| table.wish(group, waits(180)));
        assert_eq!(steps(&mut table, 2).len(), 2);
        assert_eq!(steps(&mut table, 1), []);
        table.wish(1, None);
        assert_eq!(steps(&mut table, 1), []);
        table.wish(2, None);
        assert_eq!(steps(&mut table, 0), []);
        assert_eq!(steps(&mut table, 1), [(3, true)]);
    }
}
