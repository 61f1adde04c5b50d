//! The one home of operations: each client's operation from its arrival to its reply, and the slowest of those that are over.
//!
//! # Data
//!
//! [`OpTable`] is a slab of [`Op`] records. A [`pg::OpKey`] names one: its place, and a serial number that no other tenant of the place
//! has. Everybody else who has to do with an operation (queues of this OSD, the group that carries it out, its effects) keeps the key.
//! Nobody looks for an operation by session and transaction id: a client may send one twice, and both are answered.
//!
//! | what | who writes it |
//! |---|---|
//! | who sent it, which object, how large | [`OpTable::begin`], once |
//! | where it is now ([`Place`]) | the OSD: while it waits outside of groups, when a group takes it, when it is answered |
//! | what it waited for, how far its change is, the promises of other copies | the OSD for its own queues; its group through [`pg::Recorder`] |
//! | bytes that count against the messenger's limits, bytes that its session is owed | the OSD; both are given back once |
//! | what copies of other OSDs' groups did here ([`SubOps`]) | groups, through [`pg::Recorder`] |
//!
//! # Invariants
//!
//! - A record is in the table from the moment when the message decoded until the sends of the round that answered it were handed over,
//!   or until the operation was dropped.
//! - It is kept exactly once: by one queue of this OSD, by one group, by one effect that is not carried out yet, or by the list of
//!   answered ones. [`OpTable::self_check`] compares both sides after every turn of the simulator: what nobody keeps has leaked.
//! - A session that ends takes the operations that wait outside of groups with it. What a group has begun ends there, and is answered to
//!   nobody.
//! - A key that is over names nothing. Only a late promise of a copy may come with one.
//!
//! # Cost
//!
//! A stage is a store into a record that is there. Nothing is allocated for it, and text is made when somebody asks. A record that gets
//! among the slowest is copied; see `history`.

mod history;
mod record;
mod subops;
mod text;

pub(crate) use history::{Finished, History};
pub(crate) use record::{Arrival, Op, Place, Request, Wait};
pub(crate) use subops::SubOps;

use node::Mono;
use pg::{CopyTime, OpKey, Recorder, Step};
use std::time::Duration;
use types::{CopyId, SessionId};

/// Answers whose round did not end: beyond that a driver does not tell when rounds end.
const MOST_ANSWERED: usize = 4096;
/// Places that stay allocated when no operation is under way.
const KEPT_PLACES: usize = 1024;

/// All operations that are not over.
#[derive(Default)]
pub(crate) struct OpTable {
    places: Vec<Op>,
    free: Vec<u32>,
    /// Serial number of the newest record. Zero is left out: it marks free places.
    serial: u32,
    /// Those that were answered in this round.
    answered: Vec<OpKey>,
    /// History of those that are over.
    pub(crate) history: History,
    pub(crate) sub_ops: SubOps,
    /// Bytes that operations looked at, and nobody asked about yet.
    cost: u64,
}

fn key(serial: u32, place: usize) -> OpKey {
    OpKey(u64::from(serial) << 32 | place as u64)
}

fn split(key: OpKey) -> (u32, usize) {
    ((key.0 >> 32) as u32, (key.0 & u64::from(u32::MAX)) as usize)
}

impl OpTable {
    /// An operation arrived.
    pub(crate) fn begin(&mut self, arrival: Arrival) -> OpKey {
        self.serial = self.serial.checked_add(1).unwrap_or(1);
        let place = match self.free.pop() {
            Some(place) => place as usize,
            None => {
                self.places.push(Op::default());
                self.places.len() - 1
            }
        };
        self.places[place].begin(self.serial, arrival);
        key(self.serial, place)
    }

    /// An operation, unless it is over.
    pub(crate) fn find(&mut self, key: OpKey) -> Option<&mut Op> {
        let (serial, place) = split(key);
        self.places.get_mut(place).filter(|op| op.serial == serial && serial != 0)
    }

    /// An operation that somebody keeps.
    pub(crate) fn at(&mut self, key: OpKey) -> &mut Op {
        self.find(key).unwrap_or_else(|| panic!("operation {:x} is over, and somebody keeps it", key.0))
    }

    /// An operation is over without an answer, or its answer has left. Gives the received bytes that it still held.
    pub(crate) fn end(&mut self, key: OpKey) -> usize {
        let bytes = self.at(key).end();
        let (_, place) = split(key);
        self.free.push(place as u32);
        if self.free.len() == self.places.len() && self.places.len() > KEPT_PLACES {
            // Serial numbers go on, so old keys name nothing here.
            self.places = Vec::new();
            self.free = Vec::new();
        }
        bytes
    }

    /// An operation was answered, and is over when the round's sends were handed over. Gives the received bytes that it held.
    pub(crate) fn answer(&mut self, key: OpKey, executed: Mono, now: Mono, bytes_out: usize) -> usize {
        self.answered.push(key);
        self.at(key).answer(executed, now, bytes_out)
    }

    /// Returns true if the driver should have told the end of a round long ago.
    pub(crate) fn overdue(&self) -> bool {
        self.answered.len() >= MOST_ANSWERED
    }

    /// Those that were answered since the last call. Each is to be ended; the list is given back to [`OpTable::reuse`].
    pub(crate) fn take_answered(&mut self) -> Vec<OpKey> {
        std::mem::take(&mut self.answered)
    }

    /// Keeps a list for the next round.
    pub(crate) fn reuse(&mut self, mut list: Vec<OpKey>) {
        list.clear();
        self.answered = list;
    }

    /// A session is gone. What groups have begun for it goes on, and holds nothing any more. Gives the received bytes that it held.
    pub(crate) fn orphan(&mut self, session: SessionId) -> usize {
        self.places.iter_mut().filter(|op| op.serial != 0 && op.session == session).map(Op::orphan).sum()
    }

    /// Returns the bytes that operations looked at since this was asked last.
    pub(crate) fn take_cost(&mut self) -> u64 {
        std::mem::take(&mut self.cost)
    }

    /// Operations that are not answered, in no order.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = &Op> {
        self.places.iter().filter(|op| op.serial != 0 && op.place != Place::Answered)
    }

    /// Returns how many of clients are not answered.
    pub(crate) fn in_progress(&self) -> usize {
        self.under_way().filter(|op| op.session != crate::copies::OURSELVES).count()
    }

    /// Returns how many are older than `complaint`, and how old the oldest of them is.
    pub(crate) fn slow(&self, now: Mono, complaint: Duration) -> (u32, Duration) {
        let ages = self.under_way().map(|op| now.since(op.received)).filter(|age| *age > complaint);
        ages.fold((0, Duration::ZERO), |(count, oldest), age| (count + 1, oldest.max(age)))
    }

    /// Looks whether each operation is kept exactly once. `kept`: the keys that queues, groups and effects keep, each with where the
    /// operation is by that.
    ///
    /// # Errors
    /// A sentence that says which one has leaked, is kept twice, or is over and still kept.
    #[cfg(feature = "sim")]
    pub(crate) fn self_check(&self, mut kept: Vec<(OpKey, Place)>) -> Result<(), String> {
        kept.extend(self.answered.iter().map(|key| (*key, Place::Answered)));
        kept.sort_unstable_by_key(|(key, _)| *key);
        if let Some(twice) = kept.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(format!("operation {:x} is kept twice: as {:?} and as {:?}", twice[0].0.0, twice[0].1, twice[1].1));
        }
        for (key, place) in &kept {
            let (serial, at) = split(*key);
            match self.places.get(at).filter(|op| op.serial == serial && serial != 0) {
                None => return Err(format!("operation {:x} is over, and kept as {place:?}", key.0)),
                Some(op) if op.place != *place => {
                    return Err(format!("{} is in {:?} by the table, and kept as {place:?}", op.describe(), op.place));
                }
                Some(_) => {}
            }
        }
        let live = self.places.iter().enumerate().filter(|(_, op)| op.serial != 0);
        for (at, op) in live {
            if kept.binary_search_by_key(&key(op.serial, at), |(key, _)| *key).is_err() {
                return Err(format!("{} has leaked: nobody keeps it, and it is not answered", op.describe()));
            }
        }
        if kept.len() + self.free.len() != self.places.len() {
            return Err(format!("{} places, of which {} are in use and {} free", self.places.len(), kept.len(), self.free.len()));
        }
        Ok(())
    }

    /// Bytes of answers that a session is owed by its operations.
    #[cfg(feature = "sim")]
    pub(crate) fn owed(&self, session: SessionId) -> usize {
        self.under_way().filter(|op| op.session == session).map(|op| op.owes).sum()
    }
}

impl Recorder for OpTable {
    fn step(&mut self, op: OpKey, now: Mono, step: Step) {
        if let Some(op) = self.find(op) {
            match step {
                Step::Submitted => op.submitted(now),
                Step::Committed => op.committed = now,
                waits => op.wait(now, Wait::InGroup(waits)),
            }
        }
    }

    fn shipped(&mut self, op: OpKey, to: CopyId) {
        if let Some(op) = self.find(op) {
            op.copies.shipped(to);
        }
    }

    fn promised(&mut self, op: OpKey, now: Mono, by: CopyId, time: Option<CopyTime>) {
        if let Some(op) = self.find(op) {
            op.copies.promised(now, by, time);
        }
    }

    fn cost(&mut self, bytes: u64) {
        self.cost += bytes;
    }

    fn carried_out(&mut self, pushes: bool, bytes: u64, time: CopyTime) {
        self.sub_ops.count(pushes, bytes, time);
    }

    fn read_aside(&mut self, answered: bool) {
        self.sub_ops.read_aside(answered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(session: u64, tid: u64, received: u64) -> Arrival {
        Arrival { session: SessionId(session), tid, received: Mono(received), bytes: 100, ..Arrival::default() }
    }

    #[test]
    fn a_place_is_used_again_and_old_keys_name_nothing() {
        let mut table = OpTable::default();
        let first = table.begin(arrival(1, 7, 10));
        assert_eq!((table.at(first).tid, table.end(first)), (7, 100));
        let second = table.begin(arrival(1, 8, 20));
        assert_eq!(table.places.len(), 1);
        assert!(table.find(first).is_none() && table.find(OpKey::NONE).is_none());
        table.promised(first, Mono(30), CopyId::whole(3), None);
        assert_eq!(table.at(second).tid, 8);
    }

    #[test]
    #[should_panic(expected = "is over")]
    fn nothing_ends_twice() {
        let mut table = OpTable::default();
        let key = table.begin(arrival(1, 7, 10));
        table.end(key);
        table.end(key);
    }

    #[test]
    fn many_places_are_given_back_and_serial_numbers_go_on() {
        let mut table = OpTable::default();
        let keys: Vec<OpKey> = (0..2000).map(|tid| table.begin(arrival(1, tid, tid))).collect();
        assert_eq!(table.in_progress(), 2000);
        assert_eq!(keys.iter().map(|key| table.end(*key)).sum::<usize>(), 200_000);
        assert!(table.places.is_empty() && table.free.is_empty());
        let new = table.begin(arrival(1, 1, 1));
        assert!(keys.iter().all(|key| table.find(*key).is_none()) && table.find(new).is_some());
    }

    #[test]
    fn received_bytes_are_given_back_once() {
        let mut table = OpTable::default();
        let (a, b, other) = (table.begin(arrival(1, 1, 0)), table.begin(arrival(1, 2, 0)), table.begin(arrival(2, 1, 0)));
        assert_eq!(table.answer(a, Mono(1), Mono(2), 5), 100);
        assert_eq!(table.orphan(SessionId(1)), 100, "that of the one which is not answered");
        assert_eq!((table.end(a), table.end(b), table.end(other)), (0, 0, 100));
    }

    #[test]
    fn slow_ones_are_those_that_are_older_and_not_answered() {
        let mut table = OpTable::default();
        let second = 1_000_000_000;
        let answered = table.begin(arrival(1, 1, 0));
        table.begin(arrival(1, 2, 5 * second));
        table.begin(arrival(1, 3, 20 * second));
        table.answer(answered, Mono(1), Mono(2), 0);
        let slow = |at: u64| table.slow(Mono(at * second), Duration::from_secs(30));
        assert_eq!(slow(35), (0, Duration::ZERO));
        assert_eq!(slow(36), (1, Duration::from_secs(31)));
        assert_eq!(slow(60), (2, Duration::from_secs(55)));
    }

    #[cfg(feature = "sim")]
    #[test]
    fn a_leak_and_what_is_kept_twice_are_found() {
        let mut table = OpTable::default();
        let (a, b) = (table.begin(arrival(1, 1, 0)), table.begin(arrival(1, 2, 0)));
        let waits = |keys: &[OpKey]| keys.iter().map(|key| (*key, Place::Waiting)).collect::<Vec<_>>();
        assert_eq!(table.self_check(waits(&[a, b])), Ok(()));
        let said = |kept| table.self_check(kept).unwrap_err();
        assert!(said(waits(&[a])).contains("has leaked"));
        assert!(said(waits(&[a, b, a])).contains("kept twice"));
        assert!(said(vec![(a, Place::Waiting), (b, Place::InGroup(4))]).contains("by the table"));
        table.end(b);
        assert!(table.self_check(waits(&[a, b])).unwrap_err().contains("is over"));
        assert_eq!(table.self_check(waits(&[a])), Ok(()));
    }
}
