//! Connections on the ring: at most one receive and one send of each are with the kernel.

use super::{CANCEL, CONNECT, RECEIVE, SEND, Uring};
use crate::chain::Chain;
use crate::seat::Seat;
use crate::sys::RawAddr;
use io_uring::{cqueue, opcode, squeue, types};
use node::{Buf, ConnId, Input};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

/// Asks the kernel to wait for data before it tries (linux/io_uring.h).
const RECVSEND_POLL_FIRST: u16 = 1;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Connecting,
    Open,
    /// The machine closed it. What is in the outbox still goes out.
    Closing,
    /// Only the kernel still holds it.
    Dead,
}

/// A socket with its outbox, and what the kernel has of it.
pub(crate) struct Conn {
    pub(crate) id: ConnId,
    pub(crate) outbox: Chain,
    /// True if it is in the list of connections to flush.
    pub(crate) dirty: bool,
    stream: TcpStream,
    phase: Phase,
    /// The buffer of a receive. The kernel's while it is here.
    receive: Option<Buf>,
    /// A buffer that was given before the connection stood.
    early: Option<Buf>,
    /// True if the front of the outbox is with the kernel.
    sending: bool,
    /// The address of a connect. The kernel's while it is here.
    connecting: Option<Box<RawAddr>>,
    vector: Box<Vector>,
    /// True if the last receive took all that was there.
    drained: bool,
}

/// The description of a vectored send. The kernel's while `sending`.
struct Vector {
    header: libc::msghdr,
    pieces: Vec<libc::iovec>,
}

impl Conn {
    /// Takes a connection that stands.
    pub(crate) fn new(id: ConnId, stream: TcpStream) -> Self {
        // SAFETY: all-zero bytes are a valid msghdr: no name, no pieces, no control data.
        let header = unsafe { std::mem::zeroed() };
        Self {
            id,
            outbox: Chain::default(),
            dirty: false,
            stream,
            phase: Phase::Open,
            receive: None,
            early: None,
            sending: false,
            connecting: None,
            vector: Box::new(Vector { header, pieces: Vec::new() }),
            drained: false,
        }
    }

    /// Says whether something is to be sent that the kernel does not have.
    pub(crate) fn has_unsent(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Closing) && !self.outbox.is_empty()
    }

    fn fd(&self) -> types::Fd {
        types::Fd(self.stream.as_raw_fd())
    }

    /// Makes the entry that sends the front of the outbox.
    fn send_entry(&mut self) -> squeue::Entry {
        let fd = self.fd();
        let vector = &mut *self.vector;
        vector.pieces.clear();
        let pieces = self.outbox.slices().map(|s| libc::iovec { iov_base: s.as_ptr().cast_mut().cast(), iov_len: s.len() });
        vector.pieces.extend(pieces);
        if let [piece] = vector.pieces[..] {
            let len = piece.iov_len.min(1 << 30) as u32;
            return opcode::Send::new(fd, piece.iov_base.cast(), len).flags(libc::MSG_NOSIGNAL).build();
        }
        vector.header.msg_iov = vector.pieces.as_mut_ptr();
        vector.header.msg_iovlen = vector.pieces.len() as _;
        opcode::SendMsg::new(fd, &raw const vector.header).flags(libc::MSG_NOSIGNAL as u32).build()
    }

    fn held_by_kernel(&self) -> bool {
        self.receive.is_some() || self.sending || self.connecting.is_some()
    }
}

impl Uring {
    /// Asks the kernel to give up on the entry under `key`.
    pub(super) fn cancel(&mut self, key: u64) {
        // SAFETY: the entry names neither memory nor descriptor.
        unsafe { self.ring.push(opcode::AsyncCancel::new(key).build(), CANCEL) };
    }

    pub(super) fn begin_connect(&mut self, id: ConnId, stream: TcpStream, to: SocketAddr) {
        let mut conn = Conn::new(id, stream);
        conn.phase = Phase::Connecting;
        let addr = conn.connecting.insert(Box::new(RawAddr::new(to)));
        let (at, len) = addr.parts();
        let entry = opcode::Connect::new(conn.fd(), at, len).build();
        let index = self.conns.insert(conn);
        self.by_id.insert(id, index);
        // SAFETY: the address is boxed in the slot, and the socket belongs to it; the slot stays until the completion.
        unsafe { self.ring.push(entry, CONNECT | u64::from(index)) };
    }

    pub(super) fn connected(&mut self, index: u32, result: i32, inputs: &mut Vec<Input>) {
        let conn = self.conns.get_mut(index).expect("a slot stays until its completion");
        conn.connecting = None;
        if conn.phase != Phase::Connecting {
            return self.free(index);
        }
        if result < 0 {
            return self.lost(index, "connect", -result, inputs);
        }
        match conn.stream.local_addr() {
            Ok(local) => {
                conn.phase = Phase::Open;
                let early = conn.early.take();
                inputs.push(Input::Connected { conn: conn.id, local });
                self.push_send(index);
                early.into_iter().for_each(|buf| self.begin_receive(index, buf));
            }
            Err(e) => self.lost(index, "connect", crate::sys::errno(&e), inputs),
        }
    }

    pub(super) fn begin_receive(&mut self, index: u32, buf: Buf) {
        let Some(conn) = self.conns.get_mut(index) else { return };
        assert!(conn.receive.is_none(), "one receive at a time for each connection");
        assert!(!buf.is_empty(), "a receive needs room");
        if conn.phase == Phase::Connecting {
            conn.early = Some(buf);
            return;
        }
        conn.receive = Some(buf);
        self.push_receive(index);
    }

    fn push_receive(&mut self, index: u32) {
        let conn = self.conns.get_mut(index).expect("the caller has just used it");
        let fd = conn.fd();
        let buf = conn.receive.as_mut().expect("the caller has just set it");
        let (at, len) = (buf.as_mut_ptr(), buf.len().min(1 << 30) as u32);
        let how = if conn.drained { RECVSEND_POLL_FIRST } else { 0 };
        let entry = opcode::Recv::new(fd, at, len).ioprio(how).build();
        // SAFETY: buffer and socket belong to the slot, which stays until the completion; nobody touches the buffer
        // meanwhile.
        unsafe { self.ring.push(entry, RECEIVE | u64::from(index)) };
    }

    pub(super) fn received(&mut self, index: u32, result: i32, flags: u32, inputs: &mut Vec<Input>) {
        let conn = self.conns.get_mut(index).expect("a slot stays until its completion");
        if conn.phase != Phase::Open {
            conn.receive = None;
            return self.free(index);
        }
        if matches!(-result, libc::EINTR | libc::EAGAIN) {
            return self.push_receive(index);
        }
        let buf = conn.receive.take().expect("it was with the kernel");
        match result {
            1.. => {
                conn.drained = !cqueue::sock_nonempty(flags) && (result as usize) < buf.len();
                inputs.push(Input::Received { conn: conn.id, buf, len: result as usize });
            }
            0 => self.ended(index, false, "closed by the peer".into(), inputs),
            _ => self.lost(index, "receive", -result, inputs),
        }
    }

    /// Gives the kernel what is to be sent, connection by connection.
    pub(super) fn flush_dirty(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for index in dirty.drain(..) {
            if let Some(conn) = self.conns.get_mut(index) {
                conn.dirty = false;
                self.push_send(index);
            }
        }
        self.dirty = dirty;
    }

    fn push_send(&mut self, index: u32) {
        let Some(conn) = self.conns.get_mut(index) else { return };
        if conn.sending || !conn.has_unsent() {
            return;
        }
        conn.sending = true;
        let entry = conn.send_entry();
        // SAFETY: the pieces stay at the front of the outbox, and the vector in its box, until the completion; both belong
        // to the slot, as the socket does.
        unsafe { self.ring.push(entry, SEND | u64::from(index)) };
    }

    pub(super) fn sent(&mut self, index: u32, result: i32, inputs: &mut Vec<Input>) {
        let conn = self.conns.get_mut(index).expect("a slot stays until its completion");
        conn.sending = false;
        if conn.phase == Phase::Dead {
            return self.free(index);
        }
        match result {
            0.. => {
                conn.outbox.advance(result as usize);
                if conn.phase == Phase::Open && result > 0 {
                    inputs.push(Input::Sent { conn: conn.id, bytes: result as usize });
                }
            }
            _ if matches!(-result, libc::EINTR | libc::EAGAIN) => {}
            _ => return self.lost(index, "send", -result, inputs),
        }
        if conn.phase == Phase::Closing && conn.outbox.is_empty() {
            return self.kill(index);
        }
        self.push_send(index);
    }

    /// Closes a connection for the machine. Says whether something is still to be sent.
    pub(super) fn begin_close(&mut self, index: u32) -> bool {
        let Some(conn) = self.conns.get_mut(index) else { return false };
        if conn.phase != Phase::Open || conn.outbox.is_empty() {
            return false;
        }
        conn.phase = Phase::Closing;
        if conn.receive.is_some() {
            self.cancel(RECEIVE | u64::from(index));
        }
        true
    }

    fn lost(&mut self, index: u32, what: &str, errno: i32, inputs: &mut Vec<Input>) {
        let why = format!("{what}: {}", io::Error::from_raw_os_error(errno));
        self.ended(index, errno == libc::ECONNREFUSED, why, inputs);
    }

    /// Ends a connection. The machine is told, unless it closed it itself.
    fn ended(&mut self, index: u32, refused: bool, why: String, inputs: &mut Vec<Input>) {
        let Some(conn) = self.conns.get_mut(index) else { return };
        if matches!(conn.phase, Phase::Open | Phase::Connecting) {
            inputs.push(Input::Closed { conn: conn.id, refused, why });
        }
        self.kill(index);
    }

    /// Ends a connection now. Its slot stays until the kernel has let go of it.
    pub(super) fn kill(&mut self, index: u32) {
        let Some(conn) = self.conns.get_mut(index) else { return };
        self.by_id.remove(&conn.id);
        if conn.phase == Phase::Dead {
            return;
        }
        conn.phase = Phase::Dead;
        let (receiving, sending, connecting) = (conn.receive.is_some(), conn.sending, conn.connecting.is_some());
        let held = [(receiving, RECEIVE), (sending, SEND), (connecting, CONNECT)];
        for kind in held.into_iter().filter(|h| h.0).map(|h| h.1) {
            self.cancel(kind | u64::from(index));
        }
        self.free(index);
    }

    /// The connections of a machine.
    pub(super) fn conns_of(&self, seat: Seat) -> Vec<u32> {
        let mut all = self.conns.indices();
        all.retain(|&index| self.conns.get(index).is_some_and(|conn| Seat::of_conn(conn.id) == seat));
        all
    }

    /// Drops a dead connection that the kernel has let go of.
    fn free(&mut self, index: u32) {
        if self.conns.get(index).is_some_and(|c| c.phase == Phase::Dead && !c.held_by_kernel()) {
            self.conns.remove(index);
        }
    }
}
