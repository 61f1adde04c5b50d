//! The interface between the reactor and a driver, and the choice between the two drivers.

use crate::device::Device;
use crate::seat::Seat;
use crate::sys::EventFd;
use crate::{Choice, epoll, uring};
use node::{Buf, ConnId, DeviceId, DiskRequest, Input, ListenerId, Mono};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use types::Rope;

/// Time in which sent bytes may get to the kernel after the machine closed the connection.
pub(crate) const LINGER: Duration = Duration::from_secs(1);
/// Pause of a listener after the system had no descriptor for a connection.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Most inputs of one round, so that a round stays short. The rest follows in the next.
pub(crate) const MOST_INPUTS: usize = 1024;

/// Parts of both drivers. Numbers are those of [`Seat`]s.
pub(crate) struct Parts {
    pub(crate) listeners: Vec<(ListenerId, TcpListener)>,
    pub(crate) devices: Vec<(DeviceId, Device)>,
    /// Raised by other threads to end a wait.
    pub(crate) wakes: Vec<Arc<EventFd>>,
    pub(crate) max_connections: usize,
    /// Time to look for completions before sleeping.
    pub(crate) spin: Option<Duration>,
    /// Number of machines that share the driver.
    pub(crate) machines: usize,
}

/// Carries the outputs of a machine out and brings its inputs in. A driver that is dropped first takes every buffer
/// back from the kernel.
pub(crate) trait Driver {
    /// Opens a connection.
    fn connect(&mut self, conn: ConnId, to: SocketAddr);
    /// Receives into `buf`. The buffer of a connection that is gone is dropped.
    fn receive(&mut self, conn: ConnId, buf: Buf);
    /// Queues `data`. It goes out at the next [`Driver::wait`].
    fn send(&mut self, conn: ConnId, data: Rope);
    /// Closes the connection once the queued data is out.
    fn close(&mut self, conn: ConnId);
    /// Begins a disk request.
    fn disk(&mut self, request: DiskRequest);
    /// Carries out what is queued. Waits for the first input, a wake-up or `until`, and appends the inputs that are
    /// there.
    fn wait(&mut self, until: Mono, inputs: &mut Vec<Input>) -> io::Result<()>;
    /// Says whether something that a machine sent is not yet with the kernel.
    fn unsent(&self, seat: Seat) -> bool;
    /// Takes listeners, connections and disks from a machine that has ended. Nobody is told of them any more.
    fn unseat(&mut self, seat: Seat);
    /// Says whether the kernel still has something of a machine that was unseated.
    fn holds(&self, seat: Seat) -> bool;
}

/// The moment now.
pub(crate) fn now() -> Mono {
    Mono(crate::sys::monotonic())
}

/// Chooses a driver. The sentence says which one and why.
pub(crate) fn choose(choice: Choice, parts: Parts) -> io::Result<(Box<dyn Driver>, String)> {
    if choice == Choice::Epoll {
        return Ok((Box::new(epoll::Epoll::new(parts)?), "driver: epoll and disk threads, as configured".into()));
    }
    let buffered = parts.devices.iter().find(|(_, d)| !d.is_direct()).map(|(_, d)| d.path().to_owned());
    if let (Choice::Auto, Some(path)) = (choice, buffered) {
        let why = format!("driver: epoll and disk threads, because {} does not do direct IO", path.display());
        return Ok((Box::new(epoll::Epoll::new(parts)?), why));
    }
    match uring::probe() {
        Ok(ring) => Ok((Box::new(uring::Uring::new(ring, parts)?), "driver: io_uring".into())),
        Err(e) if choice == Choice::Uring => Err(io::Error::new(e.kind(), format!("io_uring does not work here: {e}"))),
        Err(e) => {
            let why = format!("driver: epoll and disk threads, because io_uring does not work here: {e}");
            Ok((Box::new(epoll::Epoll::new(parts)?), why))
        }
    }
}
