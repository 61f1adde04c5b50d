//! The driver on io_uring: network and disk in one ring, one system call for each round.
//!
//! Long reads that ended together are handed on a few in a round. (Neighbours on the disk end together, because the
//! kernel makes one request of them.) What their replies let the clients ask next is with the disk while the rest is
//! sent. All at once, disk and processor would take turns; `docs/performance/reads.md` has the measurements.
//!
//! What the kernel reads or writes belongs to a slot of a connection or of a disk request. The slot lives until the
//! completion was taken, also after the connection is closed. A key names the kind of an entry and its slot.

mod disk;
mod net;
mod ring;

use crate::driver::{ACCEPT_PAUSE, Driver, LINGER, MOST_INPUTS, Parts, now};
use crate::job::{self, Devices, Job};
use crate::seat::Seat;
use crate::slab::Slab;
use crate::spin::{For, Spin};
use crate::sys::{self, EventFd};
use disk::Flight;
use io_uring::{opcode, types};
use net::Conn;
use node::{Buf, ConnId, DiskRequest, Input, ListenerId, Mono};
use ring::{Completion, Ring};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Time to wait at the end for the kernel to give every buffer back.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// A read of so many bytes or more is a long one.
const LONG_READ: usize = 32 << 10;
/// Bytes of long reads in one round; the read that goes beyond is in it. Half of that costs a third more processor time
/// for each read, and twice that gains nothing.
const MOST_LONG_READS: usize = 256 << 10;

const WAKE: u64 = 1 << 56;
const ACCEPT: u64 = 2 << 56;
const CONNECT: u64 = 3 << 56;
const RECEIVE: u64 = 4 << 56;
const SEND: u64 = 5 << 56;
const DISK: u64 = 6 << 56;
const DISK_READ: u64 = 7 << 56;
const CANCEL: u64 = 8 << 56;
const KIND: u64 = 0xff << 56;

struct Listener {
    id: ListenerId,
    /// None after its machine has ended.
    socket: Option<TcpListener>,
    armed: bool,
    /// Time to accept again, after no descriptors were left.
    not_before: Mono,
}

/// The driver on io_uring.
pub(crate) struct Uring {
    ring: Ring,
    /// With whether the kernel was asked for it.
    wakes: Vec<(Arc<EventFd>, bool)>,
    listeners: Vec<Listener>,
    conns: Slab<Conn>,
    by_id: HashMap<ConnId, u32>,
    /// Connections with something new to send.
    dirty: Vec<u32>,
    /// Connections that the machine closed, with the time when that is final.
    lingering: VecDeque<(Mono, u32, ConnId)>,
    next_conn: u64,
    max_connections: usize,
    devices: Devices,
    flights: Slab<Flight>,
    /// Disk requests beyond what the kernel is given at a time.
    waiting: VecDeque<Job>,
    /// Long reads beyond what the disk is given at a time.
    waiting_long: VecDeque<Job>,
    /// Bytes of long reads that the kernel has, or that are in `waiting`.
    long_reading: usize,
    /// Long reads that have ended, and wait for their round.
    long_reads: VecDeque<Completion>,
    /// Inputs that came up while outputs were carried out.
    early: Vec<Input>,
    spin: Spin,
    machines: usize,
    /// True if nothing new is begun any more.
    ending: bool,
}

/// Makes a ring that works, or says why there is none.
pub(crate) fn probe() -> io::Result<Ring> {
    Ring::new()
}

impl Completion {
    fn is_long_read(self) -> bool {
        self.key & KIND == DISK_READ && self.result >= LONG_READ as i32
    }
}

impl Uring {
    /// Takes listeners and devices over.
    pub(crate) fn new(ring: Ring, parts: Parts) -> io::Result<Self> {
        let mut listeners = Vec::new();
        for (id, socket) in parts.listeners {
            // The ring waits for sockets that would block. It gives up on those that say so instead.
            socket.set_nonblocking(false)?;
            listeners.push(Listener { id, socket: Some(socket), armed: false, not_before: Mono(0) });
        }
        Ok(Self {
            ring,
            wakes: parts.wakes.into_iter().map(|wake| (wake, false)).collect(),
            listeners,
            conns: Slab::default(),
            by_id: HashMap::new(),
            dirty: Vec::new(),
            lingering: VecDeque::new(),
            next_conn: 2,
            max_connections: parts.max_connections,
            devices: parts.devices.iter().map(|(id, d)| (*id, d.inner().clone())).collect(),
            flights: Slab::default(),
            waiting: VecDeque::new(),
            waiting_long: VecDeque::new(),
            long_reading: 0,
            long_reads: VecDeque::new(),
            early: Vec::new(),
            spin: Spin::new(parts.spin),
            machines: parts.machines,
            ending: false,
        })
    }

    /// Asks the kernel for connections and wake-ups.
    fn arm(&mut self) {
        for (at, (wake, armed)) in self.wakes.iter_mut().enumerate().filter(|(_, (_, armed))| !armed) {
            *armed = true;
            let poll = opcode::PollAdd::new(types::Fd(wake.raw()), libc::POLLIN as u32).build();
            // SAFETY: the entry names no memory; the descriptor lives as long as the driver, which waits for the completion.
            unsafe { self.ring.push(poll, WAKE | at as u64) };
        }
        let mut room = self.max_connections.saturating_sub(self.conns.len());
        for (at, listener) in self.listeners.iter_mut().enumerate() {
            if listener.armed {
                room = room.saturating_sub(1);
                continue;
            }
            let Some(socket) = &listener.socket else { continue };
            if room == 0 || listener.not_before > now() {
                continue;
            }
            room -= 1;
            listener.armed = true;
            let (fd, null) = (types::Fd(socket.as_raw_fd()), std::ptr::null_mut());
            let accept = opcode::Accept::new(fd, null, null.cast()).flags(libc::SOCK_CLOEXEC).build();
            // SAFETY: the entry names no memory. The kernel holds the listening socket until the completion.
            unsafe { self.ring.push(accept, ACCEPT | at as u64) };
        }
    }

    fn dispatch(&mut self, completion: Completion, inputs: &mut Vec<Input>) {
        let Completion { key, result, flags } = completion;
        let index = key as u32;
        match key & KIND {
            RECEIVE => self.received(index, result, flags, inputs),
            SEND => self.sent(index, result, inputs),
            DISK | DISK_READ => self.disk_step_done(index, result, inputs),
            CONNECT => self.connected(index, result, inputs),
            ACCEPT => self.accepted(index as usize, result, inputs),
            WAKE => {
                let (wake, armed) = &mut self.wakes[index as usize];
                *armed = false;
                wake.clear();
            }
            _ => {} // the outcome of a cancellation shows at what was cancelled
        }
    }

    fn hand_on_long_reads(&mut self, inputs: &mut Vec<Input>) {
        let mut bytes = 0;
        while bytes < MOST_LONG_READS
            && let Some(completion) = self.long_reads.pop_front()
        {
            bytes += completion.result as usize;
            self.dispatch(completion, inputs);
        }
    }

    fn accepted(&mut self, at: usize, result: i32, inputs: &mut Vec<Input>) {
        let listener = &mut self.listeners[at];
        listener.armed = false;
        if result < 0 {
            if matches!(-result, libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) {
                listener.not_before = now().plus(ACCEPT_PAUSE);
            }
            return; // else the connection that was to be accepted is gone again
        }
        let id = listener.id;
        // SAFETY: the kernel has just made this descriptor for this entry; nobody else knows it.
        let stream = TcpStream::from(unsafe { OwnedFd::from_raw_fd(result) });
        if self.ending || listener.socket.is_none() {
            return;
        }
        let ends = sys::tune(&stream).and_then(|()| Ok((stream.peer_addr()?, stream.local_addr()?)));
        let Ok((peer, local)) = ends else { return }; // gone already
        let conn = Seat::of_listener(id).conn(ConnId(self.next_conn));
        self.next_conn += 2;
        let index = self.conns.insert(Conn::new(conn, stream));
        self.by_id.insert(conn, index);
        inputs.push(Input::Accepted { listener: id, conn, peer, local });
    }

    /// Returns how long to sleep.
    fn timeout(&self, until: Mono, now: Mono) -> Option<Duration> {
        let mut until = until.min(self.lingering.front().map_or(Mono::NEVER, |l| l.0));
        if self.conns.len() < self.max_connections {
            until = self.listeners.iter().filter(|l| !l.armed && l.socket.is_some()).fold(until, |t, l| t.min(l.not_before));
        }
        (until != Mono::NEVER).then(|| until.since(now))
    }

    /// Gets completions: at once if there is something to do already, else after a look, else asleep.
    fn get(&mut self, until: Mono, at_once: bool) -> io::Result<()> {
        if at_once || self.ring.has_next() {
            return self.ring.poll();
        }
        let begin = now();
        let timeout = self.timeout(until, begin);
        if timeout == Some(Duration::ZERO) {
            return self.ring.poll();
        }
        let what = match self.flights.len() {
            0 => For::Peers,
            n if n <= self.machines + 1 => For::Disk,
            _ => For::Others,
        };
        if let Some(look) = self.spin.begin(begin, what) {
            self.ring.poll()?;
            let end = look.until.min(until);
            while !self.ring.has_work() && now() < end {
                sys::let_others_run();
            }
            let found = self.ring.has_work();
            self.spin.end(look, now(), found);
            if found {
                return self.ring.poll();
            }
        }
        self.ring.wait(self.timeout(until, now()))
    }

    /// Ends the connections whose time to send is over.
    fn expire(&mut self) {
        while let Some(&(at, index, id)) = self.lingering.front()
            && at <= now()
        {
            self.lingering.pop_front();
            if self.conns.get(index).is_some_and(|c| c.id == id) {
                self.kill(index);
            }
        }
    }
}

impl Driver for Uring {
    fn connect(&mut self, conn: ConnId, to: SocketAddr) {
        let socket = sys::tcp_socket(to, false).and_then(|fd| {
            let stream = TcpStream::from(fd);
            sys::tune(&stream).map(|()| stream)
        });
        match socket {
            Ok(stream) => self.begin_connect(conn, stream, to),
            Err(e) => self.early.push(Input::Closed { conn, refused: false, why: format!("connect to {to}: {e}") }),
        }
    }

    fn receive(&mut self, conn: ConnId, buf: Buf) {
        if let Some(&index) = self.by_id.get(&conn) {
            self.begin_receive(index, buf);
        }
    }

    fn send(&mut self, conn: ConnId, data: ::types::Rope) {
        let Some(&index) = self.by_id.get(&conn) else { return };
        let Some(c) = self.conns.get_mut(index) else { return };
        c.outbox.append(&data);
        if !c.dirty {
            c.dirty = true;
            self.dirty.push(index);
        }
    }

    fn close(&mut self, conn: ConnId) {
        let Some(index) = self.by_id.remove(&conn) else { return };
        if self.begin_close(index) {
            self.lingering.push_back((now().plus(LINGER), index, conn));
        } else {
            self.kill(index);
        }
    }

    fn disk(&mut self, request: DiskRequest) {
        match job::begin(&self.devices, request) {
            Ok(job) => self.begin_job(job),
            Err(done) => self.early.push(Input::Disk(done)),
        }
    }

    fn wait(&mut self, until: Mono, inputs: &mut Vec<Input>) -> io::Result<()> {
        inputs.append(&mut self.early);
        self.flush_dirty();
        self.arm();
        self.get(until, !inputs.is_empty() || !self.long_reads.is_empty())?;
        while inputs.len() < MOST_INPUTS
            && let Some(completion) = self.ring.next()
        {
            match completion.is_long_read() {
                true => self.long_reads.push_back(completion),
                false => self.dispatch(completion, inputs),
            }
        }
        self.hand_on_long_reads(inputs);
        if !inputs.is_empty() {
            self.spin.note_busy(inputs.len());
        }
        self.expire();
        Ok(())
    }

    fn unsent(&self, seat: Seat) -> bool {
        self.conns_of(seat).into_iter().any(|i| self.conns.get(i).is_some_and(Conn::has_unsent))
    }

    fn unseat(&mut self, seat: Seat) {
        for at in 0..self.listeners.len() {
            let listener = &mut self.listeners[at];
            if Seat::of_listener(listener.id) == seat && listener.socket.take().is_some() && listener.armed {
                self.cancel(ACCEPT | at as u64);
            }
        }
        self.conns_of(seat).into_iter().for_each(|index| self.kill(index));
        self.devices.retain(|id, _| Seat::of_device(*id) != seat);
    }

    fn holds(&self, seat: Seat) -> bool {
        let listens = self.listeners.iter().any(|l| l.armed && Seat::of_listener(l.id) == seat);
        listens || !self.conns_of(seat).is_empty() || self.works_for(seat)
    }
}

impl Drop for Uring {
    /// Cancels what waits for others, and takes back every buffer that the kernel has.
    fn drop(&mut self) {
        self.ending = true;
        self.waiting.clear();
        self.waiting_long.clear();
        self.conns.indices().into_iter().for_each(|index| self.kill(index));
        for at in 0..self.wakes.len() {
            if self.wakes[at].1 {
                self.cancel(WAKE | at as u64);
            }
        }
        for at in 0..self.listeners.len() {
            if self.listeners[at].armed {
                self.cancel(ACCEPT | at as u64);
            }
        }
        let until = now().plus(LAST_WAIT);
        let mut ignored = Vec::new();
        while !self.long_reads.is_empty() {
            self.hand_on_long_reads(&mut ignored);
        }
        while self.ring.in_flight() > 0 && now() < until {
            if !self.ring.has_next() && self.ring.wait(Some(Duration::from_millis(100))).is_err() {
                break;
            }
            while let Some(completion) = self.ring.next() {
                self.dispatch(completion, &mut ignored);
                ignored.clear();
            }
        }
        if self.ring.in_flight() > 0 {
            // The disk does not answer. The kernel may still write to these buffers, so nobody else may ever get them.
            std::mem::forget(std::mem::take(&mut self.conns));
            std::mem::forget(std::mem::take(&mut self.flights));
        }
    }
}
