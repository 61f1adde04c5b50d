//! Class `2pc_queue`: a queue whose space is reserved before it is used, so that what was promised finds room.
//! Reservations are in the queue's head, or in an attribute if the head has no room.
//!
//! Bytes that are set aside include what each entry takes besides its data. Releases up to 18 do not give that back,
//! since a reservation does not say how many entries it is for; a queue there is full for good after some millions of
//! notices. Here nothing is set aside once no reservation is left.

use crate::queue::{self, OVERHEAD};
use crate::{Call, Change, Fail, Method, Outcome, RD, WR};
use bytes::Bytes;
use denc::{Decode, Encode};
use messages::class::queue::{Head, InitOp};
use messages::class::two_phase::{
    ATTR, AbortOp, CommitOp, ExpireOp, Reservation, Reservations, ReservationsReply, ReserveOp, ReserveReply, Urgent,
};
use types::Errno;

pub(crate) const METHODS: &[Method] = &[
    Method { name: "2pc_queue_init", flags: RD | WR, run: init },
    Method { name: "2pc_queue_get_capacity", flags: RD, run: queue::get_capacity },
    Method { name: "2pc_queue_reserve", flags: RD | WR, run: reserve },
    Method { name: "2pc_queue_commit", flags: RD | WR, run: commit },
    Method { name: "2pc_queue_abort", flags: RD | WR, run: abort },
    Method { name: "2pc_queue_list_reservations", flags: RD, run: list_reservations },
    Method { name: "2pc_queue_list_entries", flags: RD, run: queue::list_entries },
    Method { name: "2pc_queue_remove_entries", flags: RD | WR, run: queue::remove_entries },
    Method { name: "2pc_queue_expire_reservations", flags: RD | WR, run: expire_reservations },
];

/// Bytes of the head for reservations: with them it has 24 KiB.
const URGENT_SIZE: u64 = 23_552;

/// Reads a structure of the object; EINVAL if it is none.
fn decoded<T: Decode>(call: &Call<'_>, bytes: &[u8]) -> Result<T, Fail> {
    call.stored(bytes, Errno::EINVAL)
}

/// A queue as a method works on it.
struct Work {
    head: Head,
    urgent: Urgent,
    /// Reservations that the head has no room for.
    spilled: Reservations,
    /// True if those changed.
    spilled_changed: bool,
}

impl Work {
    fn read(call: &Call<'_>) -> Result<Self, Fail> {
        let head = queue::read(call)?;
        let urgent: Urgent = decoded(call, &head.urgent)?;
        let spilled = match urgent.spilled {
            true => call.view.xattr(ATTR.as_bytes())?.map_or(Ok(Reservations::new()), |value| decoded(call, &value))?,
            false => Reservations::new(),
        };
        Ok(Self { head, urgent, spilled, spilled_changed: false })
    }

    fn find(&self, id: u32) -> Option<Reservation> {
        let mut all = self.urgent.reservations.iter().chain(&self.spilled);
        all.find(|(known, _)| *known == id).map(|(_, reservation)| *reservation)
    }

    /// Drops the reservations of which `stays` is not true; returns whether there were any.
    fn retain(&mut self, stays: impl Fn(u32, &Reservation) -> bool) -> bool {
        let all = self.urgent.reservations.iter().chain(&self.spilled);
        let gone: Vec<u64> = all.filter(|(id, r)| !stays(*id, r)).map(|(_, r)| r.size).collect();
        let spilled = self.spilled.len();
        self.urgent.reservations.retain(|(id, r)| stays(*id, r));
        self.spilled.retain(|(id, r)| stays(*id, r));
        self.spilled_changed |= self.spilled.len() < spilled;
        self.urgent.reserved = gone.iter().fold(self.urgent.reserved, |sum, size| sum.saturating_sub(*size));
        if self.urgent.reservations.is_empty() && self.spilled.is_empty() {
            self.urgent.reserved = 0;
        }
        !gone.is_empty()
    }

    fn write(mut self, call: &mut Call<'_>) -> Result<(), Fail> {
        if self.spilled_changed {
            call.change(Change::SetXattr(Bytes::from_static(ATTR.as_bytes()), self.spilled.to_bytes()));
        }
        self.head.urgent = self.urgent.to_bytes();
        queue::write(call, &self.head)
    }
}

fn init(call: &mut Call<'_>) -> Outcome {
    let op: InitOp = call.arg()?;
    queue::init(call, InitOp { size: op.size, urgent_size: URGENT_SIZE, urgent: Urgent::default().to_bytes() })
}

/// Output, for clients that ask for it: the reservation's number.
fn reserve(call: &mut Call<'_>) -> Outcome {
    let op: ReserveOp = call.arg()?;
    if op.size == 0 || op.entries == 0 {
        return Err(Errno::EINVAL.into());
    }
    let mut work = Work::read(call)?;
    let wanted = op.size.checked_add(u64::from(op.entries) * OVERHEAD);
    let reserved = wanted.and_then(|wanted| wanted.checked_add(work.urgent.reserved));
    let reserved = reserved.filter(|reserved| *reserved <= queue::free(&work.head)).ok_or(Errno::ENOSPC)?;
    let id = work.urgent.last.wrapping_add(1);
    // Numbers begin anew after 2^32 of them. One that is still in use fails this call and every other until it is gone.
    if work.find(id).is_some() {
        return Err(Errno::EAGAIN.into());
    }
    (work.urgent.reserved, work.urgent.last) = (reserved, id);
    work.urgent.reservations.push((id, Reservation { size: op.size, time: call.now }));
    if work.urgent.to_vec().len() as u64 > work.head.urgent_size {
        work.spilled.extend(work.urgent.reservations.pop());
        (work.spilled_changed, work.urgent.spilled) = (true, true);
    }
    work.write(call)?;
    Ok(ReserveReply { id }.to_bytes())
}

/// Appends entries to the queue in place of a reservation, which may have been larger.
fn commit(call: &mut Call<'_>) -> Outcome {
    let op: CommitOp = call.arg()?;
    let mut work = Work::read(call)?;
    let reservation = work.find(op.id).ok_or(Errno::ENOENT)?;
    let size: u64 = op.entries.iter().map(|entry| entry.len() as u64).sum();
    if reservation.size < size {
        return Err(Errno::EINVAL.into());
    }
    queue::enqueue(call, &mut work.head, &op.entries)?;
    work.retain(|id, _| id != op.id);
    work.write(call)?;
    Ok(Bytes::new())
}

/// Gives a reservation up. One that is not there is no mistake.
fn abort(call: &mut Call<'_>) -> Outcome {
    let op: AbortOp = call.arg()?;
    let mut work = Work::read(call)?;
    if work.retain(|id, _| id != op.id) {
        work.write(call)?;
    }
    Ok(Bytes::new())
}

fn list_reservations(call: &mut Call<'_>) -> Outcome {
    let work = Work::read(call)?;
    let reservations = [work.urgent.reservations, work.spilled].concat();
    Ok(ReservationsReply { reservations }.to_bytes())
}

fn expire_reservations(call: &mut Call<'_>) -> Outcome {
    let op: ExpireOp = call.arg()?;
    let mut work = Work::read(call)?;
    if work.retain(|_, reservation| reservation.time >= op.before) {
        work.write(call)?;
    }
    Ok(Bytes::new())
}
