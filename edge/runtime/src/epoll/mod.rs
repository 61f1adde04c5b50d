//! The driver without io_uring: readiness of sockets by epoll, disks by threads that block.
//!
//! Sockets are watched for edges from the beginning to the end of a connection, so that no system call changes what is
//! watched. Each connection remembers whether it may be readable and writable, and tries.

mod conn;
mod disk;

use crate::driver::{ACCEPT_PAUSE, Driver, LINGER, MOST_INPUTS, Parts, now};
use crate::job::{self, Devices};
use crate::seat::Seat;
use crate::slab::Slab;
use crate::spin::{For, Spin};
use crate::sys::{self, EventFd};
use conn::{Conn, Outcome};
use disk::Disks;
use node::{Buf, ConnId, DiskRequest, Input, ListenerId, Mono};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;
use types::Rope;

const KEY_WAKE: u64 = 1 << 32;
const KEY_DISKS: u64 = 2 << 32;
const KEY_LISTENER: u64 = 3 << 32;
const KEY_CONN: u64 = 4 << 32;

struct Listener {
    id: ListenerId,
    /// None after its machine has ended.
    socket: Option<TcpListener>,
    /// True if connections may be waiting.
    ready: bool,
}

/// The driver on epoll.
pub(crate) struct Epoll {
    epoll: sys::Epoll,
    wakes: Vec<Arc<EventFd>>,
    listeners: Vec<Listener>,
    /// Time to accept again, after no descriptors were left.
    accept_at: Mono,
    conns: Slab<Conn>,
    by_id: HashMap<ConnId, u32>,
    /// Connections to try.
    active: VecDeque<u32>,
    /// Connections that the machine closed, with the time when that is final.
    lingering: VecDeque<(Mono, u32, ConnId)>,
    next_conn: u64,
    max_connections: usize,
    devices: Devices,
    disks: Disks,
    /// Inputs that came up while outputs were carried out.
    early: Vec<Input>,
    ready: Vec<sys::Ready>,
    spin: Spin,
}

impl Epoll {
    /// Takes listeners and devices over.
    pub(crate) fn new(parts: Parts) -> io::Result<Self> {
        let epoll = sys::Epoll::new()?;
        let disks = Disks::new()?;
        epoll.add(disks.wake().raw(), libc::EPOLLIN, KEY_DISKS)?;
        for (at, wake) in parts.wakes.iter().enumerate() {
            epoll.add(wake.raw(), libc::EPOLLIN, KEY_WAKE | at as u64)?;
        }
        let mut listeners = Vec::new();
        for (id, socket) in parts.listeners {
            socket.set_nonblocking(true)?;
            epoll.add(socket.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET, KEY_LISTENER | listeners.len() as u64)?;
            listeners.push(Listener { id, socket: Some(socket), ready: true });
        }
        Ok(Self {
            epoll,
            wakes: parts.wakes,
            listeners,
            accept_at: Mono(0),
            conns: Slab::default(),
            by_id: HashMap::new(),
            active: VecDeque::new(),
            lingering: VecDeque::new(),
            next_conn: 2,
            max_connections: parts.max_connections,
            devices: parts.devices.iter().map(|(id, d)| (*id, d.inner().clone())).collect(),
            disks,
            early: Vec::new(),
            ready: vec![sys::Ready { events: 0, u64: 0 }; 512],
            spin: Spin::new(parts.spin),
        })
    }

    fn activate(&mut self, index: u32) {
        if let Some(conn) = self.conns.get_mut(index)
            && !conn.active
        {
            conn.active = true;
            self.active.push_back(index);
        }
    }

    fn add(&mut self, conn: Conn) -> io::Result<u32> {
        let (id, fd) = (conn.id, conn.stream.as_raw_fd());
        let index = self.conns.insert(conn);
        let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        if let Err(e) = self.epoll.add(fd, events, KEY_CONN | u64::from(index)) {
            self.conns.remove(index);
            return Err(e);
        }
        self.by_id.insert(id, index);
        Ok(index)
    }

    fn remove(&mut self, index: u32) {
        if let Some(conn) = self.conns.remove(index) {
            self.by_id.remove(&conn.id);
        }
    }

    /// Accepts waiting connections, as far as there is room.
    fn accept(&mut self, inputs: &mut Vec<Input>) {
        if now() < self.accept_at {
            return;
        }
        for at in 0..self.listeners.len() {
            while self.listeners[at].ready && self.conns.len() < self.max_connections && inputs.len() < MOST_INPUTS {
                let listener = &mut self.listeners[at];
                let Some(socket) = &listener.socket else { break };
                match socket.accept() {
                    Ok((stream, peer)) => {
                        let id = listener.id;
                        // A connection that cannot be set up is dropped, and the peer sees it close.
                        let _ = self.accepted(id, stream, peer, inputs);
                    }
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => listener.ready = false,
                    Err(e) if matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)) => {
                        self.accept_at = now().plus(ACCEPT_PAUSE);
                        return;
                    }
                    // The connection that was to be accepted is gone again.
                    Err(_) => {}
                }
            }
        }
    }

    fn accepted(&mut self, listener: ListenerId, stream: TcpStream, peer: SocketAddr, inputs: &mut Vec<Input>) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        sys::tune(&stream)?;
        let local = stream.local_addr()?;
        let conn = Seat::of_listener(listener).conn(ConnId(self.next_conn));
        self.add(Conn::new(conn, stream, false))?;
        self.next_conn += 2;
        inputs.push(Input::Accepted { listener, conn, peer, local });
        Ok(())
    }

    /// Tries every active connection once.
    fn serve(&mut self, inputs: &mut Vec<Input>) {
        for _ in 0..self.active.len() {
            if inputs.len() >= MOST_INPUTS {
                return;
            }
            let Some(index) = self.active.pop_front() else { return };
            let Some(conn) = self.conns.get_mut(index) else { continue };
            conn.active = false;
            match conn.serve(inputs) {
                Outcome::Idle => {}
                Outcome::Gone => self.remove(index),
            }
        }
    }

    fn note_ready(&mut self, count: usize, inputs: &mut Vec<Input>) {
        for at in 0..count {
            let sys::Ready { events, u64: key } = self.ready[at];
            let index = key as u32;
            match key & !0xffff_ffff {
                KEY_WAKE => self.wakes[index as usize].clear(),
                KEY_DISKS => self.disks.collect(inputs),
                KEY_LISTENER => self.listeners[index as usize].ready = true,
                _ => {
                    if let Some(conn) = self.conns.get_mut(index) {
                        conn.note(events as libc::c_int);
                        self.activate(index);
                    }
                }
            }
        }
    }

    /// Ends the connections whose time to send is over.
    fn expire(&mut self) {
        let now = now();
        while let Some(&(at, index, id)) = self.lingering.front()
            && at <= now
        {
            self.lingering.pop_front();
            if self.conns.get_mut(index).is_some_and(|c| c.id == id) {
                self.remove(index);
            }
        }
    }

    /// Returns how long to sleep; not at all if there is something to do already.
    fn timeout(&self, until: Mono, inputs: &[Input]) -> Option<Duration> {
        if !inputs.is_empty() || !self.active.is_empty() {
            return Some(Duration::ZERO);
        }
        let mut until = until.min(self.lingering.front().map_or(Mono::NEVER, |l| l.0));
        if self.listeners.iter().any(|l| l.ready && l.socket.is_some()) && self.conns.len() < self.max_connections {
            until = until.min(self.accept_at);
        }
        (until != Mono::NEVER).then(|| until.since(now()))
    }

    /// Waits for events. Looks for a while before it sleeps.
    fn await_events(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let begin = now();
        if timeout != Some(Duration::ZERO)
            && let Some(look) = self.spin.begin(begin, For::Others)
        {
            let end = timeout.map_or(look.until, |t| look.until.min(begin.plus(t)));
            loop {
                let count = self.epoll.wait(&mut self.ready, Some(Duration::ZERO))?;
                if count > 0 || now() >= end {
                    self.spin.end(look, now(), count > 0);
                    if count > 0 {
                        return Ok(count);
                    }
                    break;
                }
            }
        }
        self.epoll.wait(&mut self.ready, timeout.map(|t| begin.plus(t).since(now())))
    }
}

impl Driver for Epoll {
    fn connect(&mut self, conn: ConnId, to: SocketAddr) {
        let begun = sys::tcp_socket(to, true).and_then(|fd| {
            sys::connect(&fd, to)?;
            let stream = TcpStream::from(fd);
            sys::tune(&stream)?;
            self.add(Conn::new(conn, stream, true))
        });
        if let Err(e) = begun {
            let refused = e.kind() == std::io::ErrorKind::ConnectionRefused;
            self.early.push(Input::Closed { conn, refused, why: format!("connect to {to}: {e}") });
        }
    }

    fn receive(&mut self, conn: ConnId, buf: Buf) {
        let Some(&index) = self.by_id.get(&conn) else { return };
        if let Some(c) = self.conns.get_mut(index) {
            c.receive(buf);
            self.activate(index);
        }
    }

    fn send(&mut self, conn: ConnId, data: Rope) {
        let Some(&index) = self.by_id.get(&conn) else { return };
        if let Some(c) = self.conns.get_mut(index) {
            c.outbox.append(&data);
            self.activate(index);
        }
    }

    fn close(&mut self, conn: ConnId) {
        let Some(index) = self.by_id.remove(&conn) else { return };
        let Some(c) = self.conns.get_mut(index) else { return };
        if c.close() {
            self.lingering.push_back((now().plus(LINGER), index, conn));
            self.activate(index);
        } else {
            self.remove(index);
        }
    }

    fn disk(&mut self, request: DiskRequest) {
        match job::begin(&self.devices, request) {
            Ok(job) => self.disks.submit(job),
            Err(done) => self.early.push(Input::Disk(done)),
        }
    }

    fn wait(&mut self, until: Mono, inputs: &mut Vec<Input>) -> io::Result<()> {
        inputs.append(&mut self.early);
        self.serve(inputs);
        let timeout = self.timeout(until, inputs);
        let count = self.await_events(timeout)?;
        self.note_ready(count, inputs);
        self.expire();
        self.accept(inputs);
        self.serve(inputs);
        if !inputs.is_empty() {
            self.spin.note_busy(inputs.len());
        }
        Ok(())
    }

    fn unsent(&self, seat: Seat) -> bool {
        let mut open = self.by_id.iter().filter(|(id, _)| Seat::of_conn(**id) == seat);
        let mut closing = self.lingering.iter().filter(|(_, _, id)| Seat::of_conn(*id) == seat);
        open.any(|(_, &index)| self.conns.get(index).is_some_and(|c| !c.outbox.is_empty()))
            || closing.any(|&(_, index, id)| self.conns.get(index).is_some_and(|c| c.id == id))
    }

    fn unseat(&mut self, seat: Seat) {
        self.listeners.iter_mut().filter(|l| Seat::of_listener(l.id) == seat).for_each(|l| drop(l.socket.take()));
        let mut all = self.conns.indices();
        all.retain(|&index| self.conns.get(index).is_some_and(|conn| Seat::of_conn(conn.id) == seat));
        all.into_iter().for_each(|index| self.remove(index));
        self.devices.retain(|id, _| Seat::of_device(*id) != seat);
    }

    fn holds(&self, seat: Seat) -> bool {
        self.disks.work_for(seat)
    }
}
