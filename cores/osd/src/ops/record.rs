//! The record of one operation.

use crate::groups::Slot;
use crate::images;
use crate::perf::Kind;
use bytes::Bytes;
use messages::osd::OsdOp;
use node::Mono;
use pg::{CopyTime, Peer, Step};
use std::sync::Arc;
use types::{CopyId, Epoch, SessionId, SpgId};

/// Waits that are told of one operation: the first, and the newest of the others.
const WAITS: usize = 8;
/// Other copies that an operation may wait for: pools have ten copies at most.
const COPIES: usize = 9;
/// Codes of the vector that are told.
const CODES: usize = 4;

/// Place of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// In one of the OSD's own queues: for a map, for a group, for room for its answer.
    #[default]
    Waiting,
    /// With the group in that slot.
    InGroup(Slot),
    /// It was answered; the answer is on its way out.
    Answered,
}

/// Thing that an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// A map that this OSD does not have yet.
    ForMap,
    /// A group that is about to come out of a split.
    ForGroup,
    /// Earlier answers of its session, which have not left.
    ForRoom,
    /// Something within its group.
    InGroup(Step),
}

/// Facts of an operation when it arrives.
#[derive(Default)]
pub(crate) struct Arrival {
    pub(crate) session: SessionId,
    pub(crate) tid: u64,
    pub(crate) received: Mono,
    /// Received bytes that count against the messenger's limits until the answer.
    pub(crate) bytes: usize,
    /// Bytes of its data.
    pub(crate) payload: usize,
    pub(crate) request: Request,
}

/// Request, as far as it is told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    pub(crate) pg: SpgId,
    pub(crate) epoch: Epoch,
    pub(crate) object: Bytes,
    /// Codes of its first operations.
    pub(crate) codes: [u16; CODES],
    /// Number of operations it has.
    pub(crate) vector: usize,
}

impl Request {
    /// Of a decoded operation.
    pub(crate) fn of(op: &OsdOp) -> Self {
        let mut codes = [0; CODES];
        for (code, one) in codes.iter_mut().zip(&op.ops) {
            *code = one.code;
        }
        let (pg, epoch, object, vector) = (op.pg, op.epoch, op.oid.clone(), op.ops.len());
        Self { kind: Kind::of(op), pg, epoch, object, codes, vector }
    }
}

/// A copy whose promise the reply waits for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CopyState {
    pub(crate) copy: CopyId,
    /// Time when its promise came.
    pub(crate) came: Option<Mono>,
    /// Place where its time went there, if it said so.
    pub(crate) time: Option<CopyTime>,
}

/// The copies whose promises the reply waits for.
#[derive(Clone, Debug, Default)]
pub(crate) struct CopyStates {
    count: u8,
    all: [CopyState; COPIES],
}

impl CopyStates {
    /// The change was given to the stream to a copy.
    pub(crate) fn shipped(&mut self, copy: CopyId) {
        if let Some(free) = self.all.get_mut(usize::from(self.count)) {
            *free = CopyState { copy, came: None, time: None };
            self.count += 1;
        }
    }

    /// A copy has promised. A promise that is said again changes nothing.
    pub(crate) fn promised(&mut self, now: Mono, by: CopyId, time: Option<CopyTime>) {
        let waited = self.all[..usize::from(self.count)].iter_mut();
        if let Some(state) = waited.into_iter().find(|state| state.copy == by && state.came.is_none()) {
            (state.came, state.time) = (Some(now), time);
        }
    }

    pub(crate) fn all(&self) -> &[CopyState] {
        &self.all[..usize::from(self.count)]
    }

    /// The copy whose promise came last.
    pub(crate) fn slowest(&self) -> Option<(&CopyState, Mono)> {
        self.all().iter().filter_map(|state| Some((state, state.came?))).max_by_key(|(_, came)| *came)
    }
}

/// Waits of an operation, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    count: u8,
    all: [Option<(Mono, Wait)>; WAITS],
}

impl Waits {
    fn add(&mut self, now: Mono, wait: Wait) {
        let count = usize::from(self.count);
        if count > 0 && self.all[count - 1].is_some_and(|(_, last)| last == wait) {
            return;
        }
        if count < WAITS {
            self.count += 1;
            self.all[count] = Some((now, wait));
        } else {
            self.all[1..].rotate_left(1);
            self.all[WAITS - 1] = Some((now, wait));
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Mono, Wait)> + '_ {
        self.all[..usize::from(self.count)].iter().flatten().copied()
    }
}

/// An operation. Moments that did not come yet are zero.
#[derive(Clone, Default)]
pub(crate) struct Op {
    /// 0: the place is free.
    pub(crate) serial: u32,
    pub(crate) place: Place,
    pub(crate) session: SessionId,
    pub(crate) tid: u64,
    /// Known as soon as it was let in.
    pub(crate) peer: Option<Arc<Peer>>,
    pub(crate) request: Request,
    pub(crate) payload: usize,
    pub(crate) bytes_out: usize,
    /// The place of the block image that it belongs to.
    pub(crate) image: Option<images::Place>,
    /// Bytes that its answer is expected to take, as they count for its session.
    pub(crate) owes: usize,
    /// Received bytes that it holds.
    pub(crate) bytes: usize,
    pub(crate) received: Mono,
    pub(crate) waits: Waits,
    /// Its group took it.
    pub(crate) reached: Mono,
    /// Its last execution began.
    pub(crate) executed: Mono,
    /// Its change was given to the store and to the other copies.
    pub(crate) submitted: Mono,
    /// Its change was durable here.
    pub(crate) committed: Mono,
    pub(crate) copies: CopyStates,
    /// Its answer was let go.
    pub(crate) answered: Mono,
}

impl Op {
    /// The place has a new tenant.
    pub(crate) fn begin(&mut self, serial: u32, arrival: Arrival) {
        let Arrival { session, tid, received, bytes, payload, request } = arrival;
        self.serial = serial;
        self.place = Place::Waiting;
        (self.session, self.tid, self.received) = (session, tid, received);
        (self.bytes, self.payload, self.request) = (bytes, payload, request);
        (self.owes, self.bytes_out) = (0, 0);
        (self.reached, self.executed, self.submitted) = (Mono(0), Mono(0), Mono(0));
        (self.committed, self.answered) = (Mono(0), Mono(0));
        (self.waits.count, self.copies.count) = (0, 0);
    }

    /// The place is free again. What the record shared with others is let go.
    pub(crate) fn end(&mut self) -> usize {
        self.serial = 0;
        (self.peer, self.image) = (None, None);
        self.request.object = Bytes::new();
        std::mem::take(&mut self.bytes)
    }

    /// A group takes it.
    pub(crate) fn reach(&mut self, now: Mono, slot: Slot, peer: &Arc<Peer>) {
        (self.place, self.reached, self.peer) = (Place::InGroup(slot), now, Some(peer.clone()));
    }

    pub(crate) fn wait(&mut self, now: Mono, wait: Wait) {
        self.waits.add(now, wait);
    }

    pub(crate) fn submitted(&mut self, now: Mono) {
        // It may be done anew after an interval has ended: what was before does not count.
        (self.submitted, self.committed, self.copies.count) = (now, Mono(0), 0);
    }

    pub(crate) fn answer(&mut self, executed: Mono, now: Mono, bytes_out: usize) -> usize {
        (self.place, self.executed, self.answered, self.bytes_out) = (Place::Answered, executed, now, bytes_out);
        std::mem::take(&mut self.bytes)
    }

    pub(crate) fn orphan(&mut self) -> usize {
        self.owes = 0;
        std::mem::take(&mut self.bytes)
    }

    /// From when on all of it was durable here; its answer, if it changed nothing.
    pub(crate) fn durable(&self) -> Mono {
        if self.committed == Mono(0) { self.answered } else { self.committed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wait_and_the_newest_ones_are_kept() {
        let mut waits = Waits::default();
        waits.add(Mono(1), Wait::ForMap);
        waits.add(Mono(2), Wait::ForMap);
        for n in 0..20 {
            waits.add(Mono(10 + n), if n % 2 == 0 { Wait::ForRoom } else { Wait::InGroup(Step::WaitsForData) });
        }
        let at: Vec<u64> = waits.iter().map(|(at, _)| at.0).collect();
        assert_eq!(at, [1, 23, 24, 25, 26, 27, 28, 29]);
    }

    #[test]
    fn the_last_promise_is_the_one_that_was_waited_for() {
        let mut copies = CopyStates::default();
        (1..=12).for_each(|osd| copies.shipped(CopyId::whole(osd)));
        assert_eq!(copies.all().len(), COPIES);
        let time = Some(CopyTime { queue: 5, journal: 9 });
        copies.promised(Mono(40), CopyId::whole(2), time);
        copies.promised(Mono(30), CopyId::whole(7), None);
        copies.promised(Mono(90), CopyId::whole(2), None);
        copies.promised(Mono(95), CopyId::whole(77), None);
        let (slowest, came) = copies.slowest().expect("one that came");
        assert_eq!((slowest.copy, came, slowest.time), (CopyId::whole(2), Mono(40), time));
    }

    #[test]
    fn a_change_that_is_made_anew_waits_for_the_copies_of_then() {
        let mut op = Op::default();
        op.submitted(Mono(5));
        op.copies.shipped(CopyId::whole(1));
        op.committed = Mono(7);
        op.submitted(Mono(50));
        op.copies.shipped(CopyId::whole(2));
        assert_eq!((op.committed, op.copies.all().len(), op.copies.all()[0].copy), (Mono(0), 1, CopyId::whole(2)));
    }
}
