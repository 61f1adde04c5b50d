//! Several machines in one thread: whose a number is.
//!
//! Each machine of a thread has a *seat*. A machine knows nothing of it: its connections, listeners, disks and requests
//! have the numbers that they would have alone. Where the reactor hands them to the driver, the seat goes into the
//! upper bits of the number; where an input comes back, it is taken out again. So the driver has one name space, and no
//! table.

use node::{ConnId, DeviceId, DiskRequest, Input, ListenerId, Token};

/// Most machines in one thread.
pub(crate) const MOST_SEATS: usize = 64;
/// Bits of the numbers of connections and requests that are left to the machine.
const LONG: u32 = 56;
/// The same for listeners.
const SHORT: u32 = 24;
/// The same for disks.
const DISKS: u32 = 8;

/// The place of a machine in its thread. The first has 0, which changes no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat(u8);

impl Seat {
    /// The seat of the machine `at` (less than [`MOST_SEATS`]).
    pub(crate) fn new(at: usize) -> Self {
        assert!(at < MOST_SEATS, "a thread has {MOST_SEATS} seats");
        Self(at as u8)
    }

    /// Its number.
    pub(crate) fn at(self) -> usize {
        usize::from(self.0)
    }

    /// A connection of this machine, as the driver knows it.
    pub(crate) fn conn(self, ConnId(id): ConnId) -> ConnId {
        assert!(id >> LONG == 0, "numbers of connections have {LONG} bits");
        ConnId(id | u64::from(self.0) << LONG)
    }

    /// A listener of this machine, as the driver knows it.
    pub(crate) fn listener(self, ListenerId(id): ListenerId) -> ListenerId {
        assert!(id >> SHORT == 0, "numbers of listeners have {SHORT} bits");
        ListenerId(id | u32::from(self.0) << SHORT)
    }

    /// A disk of this machine, as the driver knows it.
    pub(crate) fn device(self, DeviceId(id): DeviceId) -> DeviceId {
        assert!(id >> DISKS == 0, "numbers of disks have {DISKS} bits");
        DeviceId(id | u16::from(self.0) << DISKS)
    }

    /// A request of this machine, as the driver knows it.
    pub(crate) fn request(self, mut request: DiskRequest) -> DiskRequest {
        let Token(token) = request.token;
        assert!(token >> LONG == 0, "numbers of requests have {LONG} bits");
        request.token = Token(token | u64::from(self.0) << LONG);
        request.device = self.device(request.device);
        request
    }

    /// Returns whose connection it is.
    pub(crate) fn of_conn(id: ConnId) -> Self {
        Self((id.0 >> LONG) as u8)
    }

    /// Returns whose listener it is.
    pub(crate) fn of_listener(id: ListenerId) -> Self {
        Self((id.0 >> SHORT) as u8)
    }

    /// Returns whose disk it is.
    pub(crate) fn of_device(id: DeviceId) -> Self {
        Self((id.0 >> DISKS) as u8)
    }

    /// Returns whose request it is.
    pub(crate) fn of_token(token: Token) -> Self {
        Self((token.0 >> LONG) as u8)
    }

    /// Says whose input of the driver it is, and gives it the machine's own numbers.
    pub(crate) fn take_out(input: &mut Input) -> Self {
        match input {
            Input::Accepted { listener, conn, .. } => {
                listener.0 &= (1 << SHORT) - 1;
                own(&mut conn.0)
            }
            Input::Connected { conn, .. }
            | Input::Received { conn, .. }
            | Input::Sent { conn, .. }
            | Input::Closed { conn, .. } => own(&mut conn.0),
            Input::Disk(done) => own(&mut done.token.0),
            Input::Call { .. } | Input::Mail { .. } | Input::Computed { .. } | Input::Memory(_) | Input::Stop => {
                unreachable!("drivers bring nothing else")
            }
        }
    }
}

/// Takes the seat out of a number.
fn own(number: &mut u64) -> Seat {
    let seat = Seat((*number >> LONG) as u8);
    *number &= (1 << LONG) - 1;
    seat
}

#[cfg(test)]
mod tests {
    use super::*;
    use node::{DiskDone, DiskOp, DiskOutput};

    #[test]
    fn what_goes_in_comes_out() {
        for at in [0, 1, MOST_SEATS - 1] {
            let seat = Seat::new(at);
            assert_eq!(seat.at(), at);
            let (conn, listener) = (seat.conn(ConnId(7)), seat.listener(ListenerId(3)));
            assert_eq!(
                (Seat::of_conn(conn), Seat::of_listener(listener), Seat::of_device(seat.device(DeviceId(3)))),
                (seat, seat, seat)
            );
            let request = seat.request(DiskRequest { token: Token((1 << LONG) - 1), device: DeviceId(1), op: DiskOp::Flush });
            assert_eq!((Seat::of_token(request.token), Seat::of_device(request.device)), (seat, seat));
            let mut done = Input::Disk(DiskDone { token: request.token, result: Ok(DiskOutput::Done) });
            assert_eq!(Seat::take_out(&mut done), seat);
            assert!(matches!(done, Input::Disk(DiskDone { token: Token(n), .. }) if n == (1 << LONG) - 1));
            let end = "127.0.0.1:1".parse().unwrap();
            let mut accepted = Input::Accepted { listener, conn, peer: end, local: end };
            assert_eq!(Seat::take_out(&mut accepted), seat);
            assert!(matches!(accepted, Input::Accepted { listener: ListenerId(3), conn: ConnId(7), .. }));
        }
        let first = Seat::new(0);
        assert_eq!(
            (first.conn(ConnId(5)), first.device(DeviceId(2))),
            (ConnId(5), DeviceId(2)),
            "one machine alone sees no difference"
        );
    }

    #[test]
    #[should_panic(expected = "56 bits")]
    fn numbers_that_leave_no_room_are_refused() {
        Seat::new(0).conn(ConnId(1 << 60));
    }
}
